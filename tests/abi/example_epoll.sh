#!/usr/bin/env bash
# Three of the epoll example on the same keys: each gets each of its rounds, tokens never repeat.
#   example_epoll.sh EXAMPLE ADDRESS
set -u -o pipefail
example=$1 address=$2
fail() {
  echo "$*" >&2
  exit 1
}
pids=()
for ((i = 0; i < 3; i++)); do
  "$example" "$address" 5 a b c d >"$EXAMPLE_DIRECTORY/out$i" &
  pids+=($!)
done
for pid in "${pids[@]}"; do wait "$pid" || fail "the example failed"; done
for ((i = 0; i < 3; i++)); do
  for key in a b c d; do
    count=$(grep -c "^$key token" "$EXAMPLE_DIRECTORY/out$i")
    ((count == 5)) || fail "program $i had key $key $count times, not 5"
  done
done
[[ $(sort -u "$EXAMPLE_DIRECTORY"/out? | wc -l) == 60 ]] || fail "a token was given twice"
exit 0
