#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# Installs the C library below a prefix: install.sh TARGET-FOLDER PREFIX, after `cargo build --release -p corehop-switch`.
set -eu
built=$1 prefix=$2
here=$(cd "$(dirname "$0")" && pwd)
version=$(sed -n 's/^version = "\(.*\)"$/\1/p' "$here/../../Cargo.toml" | head -n 1)
abi=$(sed -n 's/^#define COREHOP_SWITCH_ABI \([0-9]*\)$/\1/p' "$here/include/corehop_switch.h")
mkdir -p "$prefix/lib/pkgconfig" "$prefix/include"
cp "$built/libcorehop_switch.a" "$prefix/lib/"
cp "$built/libcorehop_switch.so" "$prefix/lib/libcorehop_switch.so.$version"
ln -sf "libcorehop_switch.so.$version" "$prefix/lib/libcorehop_switch.so.$abi"
ln -sf "libcorehop_switch.so.$abi" "$prefix/lib/libcorehop_switch.so"
cp "$here/include/corehop_switch.h" "$prefix/include/"
sed -e "s|@PREFIX@|$prefix|" -e "s|@VERSION@|$version|" "$here/corehop_switch.pc.in" \
    > "$prefix/lib/pkgconfig/corehop_switch.pc"
