#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# The C test with the address and the thread sanitizer: sanitize.sh [CALLS]. Needs a nightly Rust, whose own code is not
# instrumented; the library's is, and so is the test's.
set -eu
cd "$(dirname "$0")/../../.."
calls=${1:-20000}
host=x86_64-unknown-linux-gnu
if ! cargo +nightly --version >/dev/null 2>&1; then
    echo "sanitize: skipped: no nightly Rust (rustup toolchain install nightly)"
    exit 0
fi
if [ "$(uname -m)" != x86_64 ]; then
    echo "sanitize: skipped: the sanitizers are set up for x86_64 only"
    exit 0
fi
runtimes=$(rustc +nightly --print sysroot)/lib/rustlib/$host/lib
for kind in address thread; do
    case $kind in address) short=asan ;; *) short=tsan ;; esac
    built=target/sanitize-$kind
    RUSTFLAGS="-Zsanitizer=$kind -Cunsafe-allow-abi-mismatch=sanitizer" \
        cargo +nightly build --quiet --locked --target-dir "$built" --target $host -p corehop-switch
    # Rust's runtime, not the C compiler's, so that both halves have the same.
    cc -fsanitize=$kind -g -O1 -Icrates/corehop-switch/include -c crates/corehop-switch/tests/c/calls.c -o "$built/calls.o"
    cc "$built/calls.o" "$built/$host/debug/libcorehop_switch.a" \
        -Wl,--whole-archive "$runtimes/librustc-nightly_rt.$short.a" -Wl,--no-whole-archive \
        -rdynamic -lpthread -ldl -lm -lrt -lgcc_s -o "$built/calls"
    echo "$kind sanitizer:"
    "$built/calls" "$calls"
done
