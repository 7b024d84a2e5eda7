#!/usr/bin/env bash
# Runs a command against a private lock server: with_server.sh PROGRAM COMMAND [ARG...]
# Each argument @ADDRESS@ becomes the server's address. Exit status: the command's.
set -u -o pipefail
program=$1
shift
directory=$(mktemp -d) || exit 1
server=
end() {
  if [[ -n $server ]]; then
    kill "$server" 2>/dev/null
    wait "$server" 2>/dev/null
  fi
  rm -rf "$directory"
}
trap end EXIT

"$program" serve --listen 127.0.0.1:0 --durability memory --data "$directory/data" --ready-fd 3 \
  3>"$directory/ready" 2>"$directory/log" &
server=$!
for ((i = 0; i < 600; i++)); do
  [[ -s $directory/ready ]] && break
  kill -0 "$server" 2>/dev/null || break
  sleep 0.05
done
address=$(sed -n 's/.*"address": *"\([^"]*\)".*/\1/p' "$directory/ready")
if [[ -z $address ]]; then
  echo "the server did not come up:" >&2
  cat "$directory/log" >&2
  exit 1
fi
export EXAMPLE_DIRECTORY=$directory
"${@//@ADDRESS@/$address}"
