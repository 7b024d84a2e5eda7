#!/usr/bin/env bash
# The library against the dump of every release under abi/history: additions pass, all else fails.
# The comparison itself is first tried on three tiny libraries, so that it is known to tell.
#   history.sh LIBRARY SOURCE_ROOT COMPILER
set -u -o pipefail
library=$1 root=$2 compiler=$3
for tool in abidw abidiff; do
  command -v "$tool" >/dev/null && continue
  echo "skipped: $tool (abigail-tools) is not installed" >&2
  [[ ${CI:-} == true ]] && exit 1
  exit 77
done
directory=$(mktemp -d) || exit 1
trap 'rm -rf "$directory"' EXIT
fail() {
  echo "$*" >&2
  exit 1
}

# True where the second of two adds at most: bit 3 of the status means an incompatible change.
only_adds() {
  local status
  abidiff "$1" "$2" >"$directory/difference" 2>&1
  status=$?
  ((status & 3)) && fail "abidiff could not compare $1 and $2: $(cat "$directory/difference")"
  ((!(status & 8)))
}

tiny() { # NAME, source on standard input
  "$compiler" -g -shared -fPIC -x c - -o "$directory/$1.so" || fail "no tiny library"
  abidw --out-file "$directory/$1.abi" "$directory/$1.so" || fail "no dump"
}
tiny old <<<'int one(int a); int one(int a) { return a; }'
tiny added <<<'int one(int a); int one(int a) { return a; } int two(void); int two(void) { return 2; }'
tiny removed <<<'int two(void); int two(void) { return 2; }'
only_adds "$directory/old.abi" "$directory/added.so" || fail "an addition counted as a break"
if only_adds "$directory/old.abi" "$directory/removed.so"; then fail "a removal went unnoticed"; fi

for dump in "$root"/abi/history/*.abi; do
  [[ -e $dump ]] || break
  only_adds "$dump" "$library" || fail "not compatible with ${dump##*/}:
$(cat "$directory/difference")"
done
exit 0
