#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# Checks that this host has a Rust compiler new enough for the checkout, before cargo fails with its own words.
set -eu
cd "$(dirname "$0")/.."
needed=$(sed -n 's/^rust-version = "\(.*\)"$/\1/p' Cargo.toml)
says() {
    echo "corehop needs Rust $needed or later to build, but $1" >&2
    exit 1
}
for program in cargo rustc; do
    command -v "$program" >/dev/null 2>&1 || says "there is no $program in PATH: install Rust from https://rustup.rs"
done
found=$(rustc --version 2>&1 | sed -n 's/^rustc \([0-9.]*\).*/\1/p')
[ -n "$found" ] || says "\`rustc --version\` prints no version: install Rust from https://rustup.rs"
printf '%s\n' "$needed" "$found" | sort -V -C ||
    says "$(command -v rustc) is version $found: run \`rustup update stable\`, or install Rust from https://rustup.rs"
