#!/usr/bin/env bash
# Ledger, header, error table and library say the same, and the library imports nothing that ends a
# process or takes hold of its signals.
#   exports.sh LIBRARY STATIC_LIBRARY SOURCE_ROOT COMPILER
set -u -o pipefail
library=$1 archive=$2 root=$3 compiler=$4
directory=$(mktemp -d) || exit 1
trap 'rm -rf "$directory"' EXIT
failed=0
fail() {
  echo "$*" >&2
  failed=1
}
same() { # NAME_A FILE_A NAME_B FILE_B
  local difference
  difference=$(diff <(sort -u "$2") <(sort -u "$4")) || fail "$1 (<) and $3 (>) differ:
$difference"
}

sed -n 's/^[A-Z0-9_.]\{1,\} \(ticketing_[a-z0-9_]*\)$/\1/p' "$root/abi/symbols.txt" >"$directory/ledger"
"$compiler" -E -P -I"$root/abi/include" -x c "$root/abi/include/ticketing.h" |
  grep -o 'ticketing_[a-z0-9_]* *(' | tr -d ' (' >"$directory/header"
nm -D --defined-only "$library" | awk '$2 == "T" { sub(/@.*/, "", $3); print $3 }' >"$directory/library"
[[ -s $directory/ledger && -s $directory/header && -s $directory/library ]] || fail "an empty list proves nothing"
same ledger "$directory/ledger" header "$directory/header"
same ledger "$directory/ledger" library "$directory/library"
repeated=$(sort "$directory/ledger" | uniq -d)
[[ -z $repeated ]] || fail "the ledger repeats: $repeated"

# Each symbol carries the version of its ledger line; nothing else is visible.
sed -n 's/^\([A-Z0-9_.]\{1,\}\) \(ticketing_[a-z0-9_]*\)$/\2@@TICKETING_\1/p' "$root/abi/symbols.txt" >"$directory/versions"
nm -D --defined-only "$library" | awk '$2 != "A" { print $3 }' >"$directory/defined"
same 'versioned ledger' "$directory/versions" library "$directory/defined"

# The error table against the header's constants.
sed -n 's/^#define TICKETING_\(OK\|PENDING\|NOT_CURRENT\|E_[A-Z_]*\) (\{0,1\}\(-\{0,1\}[0-9]*\))\{0,1\}.*/\1 \2/p' \
  "$root/abi/include/ticketing.h" >"$directory/constants"
tr '\n' ' ' <"$root/abi/errors.def" | grep -o 'TKT_RESULT( *[A-Z_]*, *-\{0,1\}[0-9]*' |
  sed 's/TKT_RESULT( *//; s/, */ /' >"$directory/table"
[[ $(wc -l <"$directory/table") -ge 20 ]] || fail "the error table was not read"
same 'header constants' "$directory/constants" 'error table' "$directory/table"

# Imports. (The stack protector's __stack_chk_fail stays: it ends a process that is already lost.)
forbidden='abort|exit|_exit|_Exit|quick_exit|at_quick_exit|atexit|raise|kill|pthread_kill|pthread_exit|err|errx|error|perror'
forbidden+='|__assert_fail|__assert_perror_fail|__assert|signal|sigaction|sigset|setenv|putenv|setlocale|fork|vfork|system|popen'
forbidden+='|longjmp|siglongjmp|printf|puts|fputs|putchar|fwrite'
imported=$(nm -D --undefined-only "$library" | awk '{ sub(/@.*/, "", $2); print $2 }')
[[ -n $imported ]] || fail "an empty list of imports proves nothing"
bad=$(grep -xE "$forbidden" <<<"$imported")
[[ -z $bad ]] || fail "the library imports: $bad"

# No global state that changes: no object has data or bss.
state=$(size -A "$archive" | awk '/ ex|\.o /{ object = $1 } $1 ~ /^\.(data|bss|tdata|tbss)$/ && $2 > 0 { print object, $1, $2 }')
[[ -z $state ]] || fail "global state that changes: $state"

dynamic=$(readelf -d "$library")
grep -q 'SONAME.*\[libticketing\.so\.1\]' <<<"$dynamic" || fail "the SONAME is not libticketing.so.1"
grep -q 'NODELETE' <<<"$dynamic" || fail "the library could be unloaded under its I/O thread"
grep -q 'TEXTREL' <<<"$dynamic" && fail "the library has text relocations"
exit "$failed"
