// SPDX-License-Identifier: MIT OR Apache-2.0
//! Gives the shared library its versioned name, so that programs find the same interface again.

/// The version of the C interface: `corehop_switch.h` has the same number.
const ABI: u32 = 0;

fn main() {
    println!("cargo::rustc-check-cfg=cfg(loom)");
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libcorehop_switch.so.{ABI}");
}
