// SPDX-License-Identifier: MIT OR Apache-2.0
//! Takes the library that `corehop offload` preloads, so that the program carries it: the file that `COREHOP_SHIM` names
//! (`cargo shim` in a checkout builds it). Without one, a program is built that cannot off-load and says so.

use std::path::PathBuf;
use std::{env, fs};

fn main() {
    println!("cargo::rustc-check-cfg=cfg(carries_shim)");
    println!("cargo::rerun-if-env-changed=COREHOP_SHIM");
    let Some(given) = env::var_os("COREHOP_SHIM").map(PathBuf::from) else { return };
    println!("cargo::rerun-if-changed={}", given.display());
    if !given.exists() {
        let name = given.display();
        println!(
            "cargo::warning={name} is missing: this corehop cannot off-load; build it by `cargo shim`"
        );
        return;
    }
    let out = PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default());
    match fs::copy(&given, out.join("corehop_shim.so")) {
        Ok(_) => println!("cargo::rustc-cfg=carries_shim"),
        Err(error) => println!("cargo::error=COREHOP_SHIM={}: {error}", given.display()),
    }
}
