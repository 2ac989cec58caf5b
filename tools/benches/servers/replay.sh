#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# The append-only file of a redis server whose calls are off-loaded, and which is killed: played back by a server without,
# it has every write that was answered.
#
#     tools/benches/servers/replay.sh COREHOP FOLDER      the program; the folder of fetch.sh
set -eu
corehop=$1 root=$(cd "$2/root" && pwd)
export LD_LIBRARY_PATH="$root/usr/lib/x86_64-linux-gnu"
folder=$(mktemp -d)
trap 'kill -9 $server 2>/dev/null || true; rm -rf "$folder"' EXIT
socket=$folder/socket

cli() { "$root/usr/bin/redis-cli" -s "$socket" "$@"; }

# Starts a server; $1 stands before it.
start() {
    rm -f "$socket"
    # shellcheck disable=SC2086 # words
    $1 "$root/usr/bin/redis-server" --port 0 --unixsocket "$socket" --save '' --appendonly yes --appendfsync always --enable-debug-command yes \
        --dir "$folder" --loglevel warning >"$folder/log" 2>&1 &
    server=$!
    for _ in $(seq 100); do
        [ "$(cli ping 2>/dev/null)" != PONG ] || return 0
        sleep 0.05
    done
    echo "redis does not answer: $(cat "$folder/log")"
    exit 1
}

start "$corehop offload -q --os-cores 1 --decide always --threshold 1B --"
awk 'BEGIN { for (i = 0; i < 3000; i++) { v = i; while (length(v) < 500 + i % 5000) v = v "," i
    printf "*3\r\n$3\r\nSET\r\n$%d\r\nkey:%d\r\n$%d\r\n%s\r\n", length(i) + 4, i, length(v), v } }' |
    cli --pipe >"$folder/answers"
written=$(cli debug digest)
cli set after last >/dev/null
digest=$(cli debug digest)
pid=$(cli info server | tr -d '\r' | sed -n 's/^process_id://p')
kill -9 "$pid"
wait "$server" || true
start ""
replayed=$(cli debug digest)
[ "$replayed" = "$digest" ] && [ "$written" != "$digest" ] ||
    { echo "replayed: $replayed, written: $digest"; exit 1; }
echo "redis: $(cli dbsize) keys written off-loaded, killed, and played back: the same ($digest)"
