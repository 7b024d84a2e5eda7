#!/usr/bin/env bash
# From a fresh clone to locks at work: installs what is missing, builds, shows `ticketing demo`.
#
#   bash packaging/quickstart.sh
#
# Needs a Debian-like system, or everything installed already. Changes nothing outside build/ but
# packages that are missing, and says which. May be run again at any time.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
build=$root/build

say() { printf '\n== %s\n' "$*"; }
fail() {
  printf 'quickstart: %s\n' "$*" >&2
  exit 1
}

if [[ ${1:-} == --help || ${1:-} == -h ]]; then
  sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//;p}' "${BASH_SOURCE[0]}"
  exit 0
fi
(($# == 0)) || fail "takes no arguments (got '$1'); --help tells what it does"

# shellcheck source=packaging/dependencies.sh
source "$root/packaging/dependencies.sh"

log=$(mktemp)
trap 'rm -f "$log"' EXIT

# False where cmake is missing or does not find what it looks for; $log has the reason.
configure() {
  local generator
  if ! command -v cmake >"$log"; then
    echo 'no cmake in PATH' >"$log"
    return 1
  fi
  # A build folder keeps the generator it was made with.
  if [[ -f $build/CMakeCache.txt ]]; then
    generator=$(sed -n 's/^CMAKE_GENERATOR:INTERNAL=//p' "$build/CMakeCache.txt")
  elif command -v ninja >/dev/null; then
    generator=Ninja
  else
    generator='Unix Makefiles'
  fi
  cmake -S "$root" -B "$build" -G "$generator" -DCMAKE_BUILD_TYPE=Release >"$log" 2>&1
}

say 'What the build needs'
# What configures has all it needs, wherever it came from: no package is asked for then.
if configure; then
  echo 'all there'
else
  ticketing_install build || fail 'the build cannot begin without the packages above'
  # What was missing is remembered in there.
  rm -rf "$build/CMakeCache.txt" "$build/CMakeFiles"
  configure || {
    tail -n 30 "$log" >&2
    fail 'cmake could not configure the build (above)'
  }
fi

say "Building in $build"
cmake --build "$build" --parallel "$(nproc)" || fail 'the build failed (above)'

say 'ticketing demo'
"$build/ticketing" demo || fail "the demo ended with status $?; $build/ticketing demo --keep keeps its files"

cat <<END

== What to try next
  build/ticketing demo --no-locks        the same without locks: watch the money go wrong
  build/ticketing bench                  how fast locks are on this machine
  build/ticketing serve                  a server of your own; then, in another terminal:
                                         build/ticketing run order-42 -- echo 'only one at a time'
END
