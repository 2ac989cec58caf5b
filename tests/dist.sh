#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# Builds the static binary and runs it in a chroot that holds nothing else.
set -eu
binary=$1
make --no-print-directory dist
# Simulated results are the same to the bit for every build of the program.
simulated() {
    rm -f "$2" "$2.part"
    "$1" measure synthetic --on xeon_x5650 --load constructed --wss 4KiB,256KiB --length 1ms --samples 4 \
        --seed 3 --quiet -o "$2" >/dev/null
    "$1" report --table csv "$2"
}
runs=$(mktemp -d)
simulated "$binary" "$runs/static.parquet" >"$runs/static.csv"
if [ -x target/release/corehop ]; then
    simulated target/release/corehop "$runs/dynamic.parquet" >"$runs/dynamic.csv"
    cmp "$runs/static.csv" "$runs/dynamic.csv"
    echo "the static binary and the dynamic one simulate the same, $(wc -l <"$runs/dynamic.csv") lines of results"
else
    echo "skipped: the comparison with a dynamic build (there is none: make build)"
fi
rm -rf "$runs"
if [ "$(id -u)" != 0 ]; then
    echo "skipped: the empty chroot (chroot needs root); the static binary alone:"
    "$binary" --version
    exit 0
fi
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT INT TERM
cp "$binary" "$root/corehop"
chroot "$root" /corehop --version
# Without /sys and /proc it cannot know the machine, and has to say so with the documented exit code.
code=0
chroot "$root" /corehop sim platform >"$root/out" 2>&1 || code=$?
if [ "$code" != 3 ] || [ ! -s "$root/out" ]; then
    echo "corehop sim platform in an empty chroot: exit code $code, expected 3 and a reason:" >&2
    cat "$root/out" >&2
    exit 1
fi
# With them it measures.
mkdir "$root/proc" "$root/sys"
mount -t proc proc "$root/proc" 2>/dev/null && mount --rbind /sys "$root/sys" 2>/dev/null &&
    mount --make-rslave "$root/sys" || {
    echo "skipped: a measurement in the chroot (mounting /proc and /sys there is not allowed)"
    exit 0
}
trap 'umount -R "$root/sys"; umount "$root/proc"; rm -rf "$root"' EXIT INT TERM
timeout 60 chroot "$root" /corehop measure synthetic --wss 4KiB --event none --load idle --samples 5 -o /quick.parquet --json --quiet
test -s "$root/quick.parquet"
echo "the static binary measures in a chroot with nothing but /proc and /sys"
