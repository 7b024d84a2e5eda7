#!/usr/bin/env bash
# The header compiles alone, strictly, and both examples with it.
#   header_alone.sh c99|c++17 COMPILER SOURCE_ROOT
set -u -o pipefail
standard=$1 compiler=$2 root=$3
if ! command -v "$compiler" >/dev/null; then
  echo "skipped: $compiler is not installed" >&2
  [[ ${CI:-} == true ]] && exit 1
  exit 77
fi
directory=$(mktemp -d) || exit 1
trap 'rm -rf "$directory"' EXIT
strict=(-Wall -Wextra -Werror -pedantic-errors -Wshadow -Wundef -fsyntax-only "-I$root/abi/include")
if [[ $standard == c99 ]]; then
  strict+=(-std=c99 -x c -Wstrict-prototypes -Wmissing-prototypes)
else
  strict+=(-std=c++17 -x c++ -Wold-style-cast -Wzero-as-null-pointer-constant)
fi
cat >"$directory/alone" <<'END'
#include <ticketing.h>
#include <ticketing.h>
int use(void);
int use(void) {
  ticketing_acquire_params params = TICKETING_ACQUIRE_PARAMS_INIT;
  return params.size == sizeof params ? TICKETING_E_STATE : TICKETING_OK;
}
END
"$compiler" "${strict[@]}" "$directory/alone" || exit 1
if [[ $standard == c99 ]]; then
  for example in blocking epoll; do
    "$compiler" "${strict[@]}" -D_GNU_SOURCE "$root/abi/examples/$example.c" || exit 1
  done
fi
exit 0
