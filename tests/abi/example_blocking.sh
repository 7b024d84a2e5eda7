#!/usr/bin/env bash
# Eight of the blocking example at once, three times over: every increment counts, tokens grow.
#   example_blocking.sh EXAMPLE ADDRESS
set -u -o pipefail
example=$1 address=$2 ledger=$EXAMPLE_DIRECTORY/ledger
fail() {
  echo "$*" >&2
  exit 1
}
for ((round = 0; round < 3; round++)); do
  pids=()
  for ((i = 0; i < 8; i++)); do
    "$example" "$address" order-42 "$ledger" >>"$EXAMPLE_DIRECTORY/tokens" &
    pids+=($!)
  done
  for pid in "${pids[@]}"; do wait "$pid" || fail "the example failed"; done
done
read -r high counter <"$ledger"
((counter == 24)) || fail "24 increments, but the counter is $counter"
highest=$(sed 's/token //' "$EXAMPLE_DIRECTORY/tokens" | sort -n | tail -n 1)
[[ $high == "$highest" ]] || fail "the ledger holds token $high, the highest printed is $highest"
[[ $(sort -u "$EXAMPLE_DIRECTORY/tokens" | wc -l) == 24 ]] || fail "tokens repeat"

# The fence: a higher token in the ledger refuses the write.
echo "9007199254740991 24" >"$ledger"
"$example" "$address" order-42 "$ledger" 2>"$EXAMPLE_DIRECTORY/err" && fail "wrote past the fence"
grep -q 'somebody newer' "$EXAMPLE_DIRECTORY/err" || fail "no word about the fence"
read -r _ counter <"$ledger"
((counter == 24)) || fail "the fence did not hold"

# Bad input: a sentence, not a crash.
"$example" nonsense order-42 "$ledger" 2>"$EXAMPLE_DIRECTORY/err" && fail "took a bad address"
"$example" "$address" 'a key' "$ledger" 2>"$EXAMPLE_DIRECTORY/err" && fail "took a bad key"
grep -q '128 bytes' "$EXAMPLE_DIRECTORY/err" || fail "the refusal names no range"
exit 0
