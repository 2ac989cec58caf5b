#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# Simulates a small measurement with the program given and prints its table: the same on every machine.
set -eu
folder=$(mktemp -d)
"$1" measure synthetic --on xeon_x5650 --load idle --event none,preemption,l3_migration,memory_migration \
    --wss 4KiB,64KiB --length 1ms --samples 4 --seed 3 --quiet -o "$folder/simulated.parquet" >/dev/null
"$1" report --table csv "$folder/simulated.parquet"
rm -r "$folder"
