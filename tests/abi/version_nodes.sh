#!/usr/bin/env bash
# The version machinery on a library of two releases: a program linked with the old one runs with
# the new one, a program that needs the new one is told so by the old one, and a ledger that
# was not only appended to shows.
#   version_nodes.sh SOURCE_ROOT COMPILER CMAKE
set -u -o pipefail
root=$1 compiler=$2 cmake=$3
directory=$(mktemp -d) || exit 1
trap 'rm -rf "$directory"' EXIT
fail() {
  echo "$*" >&2
  exit 1
}
cd "$directory" || exit 1
mkdir old new
printf '0.1.0 ticketing_one\n' >old.txt
printf '0.1.0 ticketing_one\n0.2.0 ticketing_two\n' >new.txt
cat >old.c <<'END'
int ticketing_one(void);
int hidden(void);
int hidden(void) { return 0; }
int ticketing_one(void) { return 1 + hidden(); }
END
cat old.c - >new.c <<'END'
int ticketing_two(void);
int ticketing_two(void) { return 2; }
END
for release in old new; do
  "$cmake" -DLEDGER="$PWD/$release.txt" -DMAP="$PWD/$release.map" -P "$root/abi/version_map.cmake" || fail "no map"
  "$compiler" -shared -fPIC -Wl,-soname,libtiny.so.1 "-Wl,--version-script=$release.map" "$release.c" -o "$release/libtiny.so.1" ||
    fail "the $release library does not build"
  ln -s libtiny.so.1 "$release/libtiny.so"
done
cat >uses_one.c <<'END'
int ticketing_one(void);
int main(void) { return ticketing_one() == 1 ? 0 : 1; }
END
cat >uses_two.c <<'END'
int ticketing_one(void), ticketing_two(void);
int main(void) { return ticketing_one() + ticketing_two() == 3 ? 0 : 1; }
END
"$compiler" uses_one.c -Lold -ltiny -o uses_one || fail "no program"
"$compiler" uses_two.c -Lnew -ltiny -o uses_two || fail "no program"
LD_LIBRARY_PATH=old ./uses_one || fail "old program, old library"
LD_LIBRARY_PATH=new ./uses_one || fail "old program, new library"
LD_LIBRARY_PATH=new ./uses_two || fail "new program, new library"
if LD_LIBRARY_PATH=old ./uses_two 2>refusal; then fail "new program ran with the old library"; fi
grep -q 'TICKETING_0.2.0' refusal || fail "the loader did not name the missing release"
nm -D --defined-only new/libtiny.so.1 >names
grep -q ' ticketing_one@@TICKETING_0.1.0$' names || fail "the first release's symbol lost its version"
grep -q ' ticketing_two@@TICKETING_0.2.0$' names || fail "the new symbol has no version"
grep -q hidden names && fail "an unlisted symbol is visible"

# A symbol that moves to another release breaks the old program, and so must never happen.
printf '0.2.0 ticketing_one\n0.2.0 ticketing_two\n' >moved.txt
mkdir moved
"$cmake" -DLEDGER="$PWD/moved.txt" -DMAP="$PWD/moved.map" -P "$root/abi/version_map.cmake" || fail "no map"
"$compiler" -shared -fPIC -Wl,-soname,libtiny.so.1 -Wl,--version-script=moved.map new.c -o moved/libtiny.so.1 || fail "no library"
if LD_LIBRARY_PATH=moved ./uses_one 2>/dev/null; then fail "a moved symbol went unnoticed"; fi

# A ledger line of another form is refused.
printf '0.1.0 other_name\n' >bad.txt
if "$cmake" -DLEDGER="$PWD/bad.txt" -DMAP="$PWD/bad.map" -P "$root/abi/version_map.cmake" 2>/dev/null; then
  fail "a bad ledger line was taken"
fi
exit 0
