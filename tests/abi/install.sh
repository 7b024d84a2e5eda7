#!/usr/bin/env bash
# A program builds and runs from an install prefix alone: by pkg-config, shared and static, and by
# find_package.
#   install.sh BUILD_FOLDER SOURCE_ROOT COMPILER CMAKE
set -u -o pipefail
build=$1 root=$2 compiler=$3 cmake=$4
directory=$(mktemp -d) || exit 1
trap 'rm -rf "$directory"' EXIT
fail() {
  echo "$*" >&2
  exit 1
}
prefix=$directory/prefix
"$cmake" --install "$build" --prefix "$prefix" >"$directory/log" 2>&1 || {
  cat "$directory/log" >&2
  fail "install failed"
}
[[ -f $prefix/include/ticketing.h ]] || fail "no header under $prefix"
[[ -n $(find "$prefix" -name RULES.md) ]] || fail "the rules that the header names are not installed"
pc=$(find "$prefix" -name libticketing.pc)
[[ -n $pc ]] || fail "no pkg-config file"
export PKG_CONFIG_PATH=${pc%/*}
libdir=$(pkg-config --variable=libdir libticketing)
[[ $libdir == "$prefix"/* ]] || fail "the pkg-config file names $libdir, outside the prefix"

# A program that needs the library to run, but no server.
cat >"$directory/program.c" <<'END'
#include <ticketing.h>
#include <string.h>
int main(void) {
  ticketing_broker *broker;
  if (ticketing_connect("127.0.0.1:1", &broker) != TICKETING_OK) return 1;
  if (ticketing_broker_wait_ready(broker, 0) != TICKETING_E_TIMEOUT) return 2;
  ticketing_broker_free(broker);
  return strcmp(ticketing_version(), TICKETING_VERSION) == 0 ? 0 : 3;
}
END
cd "$directory" || exit 1
# shellcheck disable=SC2046
"$compiler" program.c $(pkg-config --cflags --libs libticketing) -o shared || fail "pkg-config, shared: does not build"
LD_LIBRARY_PATH=$libdir ./shared || fail "pkg-config, shared: does not run"
readelf -d shared | grep -q 'NEEDED.*libticketing\.so\.1' || fail "not linked with the shared library"
# shellcheck disable=SC2046
"$compiler" program.c $(pkg-config --cflags libticketing) "$libdir/libticketing.a" \
  $(pkg-config --static --libs-only-l libticketing | sed 's/-lticketing//') -pthread -o static ||
  fail "pkg-config, static: does not build"
./static || fail "pkg-config, static: does not run"
[[ $(pkg-config --modversion libticketing) == $("$prefix"/bin/ticketing --version 2>/dev/null | grep -o '[0-9.]*$' || pkg-config --modversion libticketing) ]] ||
  fail "program and pkg-config file are of two versions"

mkdir consumer
cp program.c consumer/
cat >consumer/CMakeLists.txt <<'END'
cmake_minimum_required(VERSION 3.20)
project(consumer C)
find_package(ticketing 0.1 REQUIRED)
add_executable(shared program.c)
target_link_libraries(shared PRIVATE ticketing::ticketing)
add_executable(static program.c)
target_link_libraries(static PRIVATE ticketing::static)
END
if ! { "$cmake" -S consumer -B consumer/build -DCMAKE_C_COMPILER="$compiler" -DCMAKE_PREFIX_PATH="$prefix" &&
  "$cmake" --build consumer/build; } >log 2>&1; then
  cat log >&2
  fail "find_package: does not build"
fi
consumer/build/shared || fail "find_package, shared: does not run"
consumer/build/static || fail "find_package, static: does not run"

# Each example, from the prefix.
for example in blocking epoll; do
  # shellcheck disable=SC2046
  "$compiler" -std=gnu11 "$root/abi/examples/$example.c" $(pkg-config --cflags --libs libticketing) -o "$example" ||
    fail "the $example example does not build as its comment says"
done
exit 0
