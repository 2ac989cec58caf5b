// SPDX-License-Identifier: MIT OR Apache-2.0
//! Builds the library that `corehop offload` preloads, so that the program can carry it with it.
//!
//! It is a shared object even where the program is linked static, hence a build of its own, without the flags of this
//! one.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

/// Variables by which one cargo, or a tool around it, tells another how to build.
const FLAGS: [&str; 8] = [
    "RUSTFLAGS",
    "CARGO_ENCODED_RUSTFLAGS",
    "CARGO_BUILD_RUSTFLAGS",
    "CARGO_BUILD_TARGET",
    "CARGO_TARGET_DIR",
    "RUSTC_WORKSPACE_WRAPPER",
    "CLIPPY_ARGS",
    "CARGO_MAKEFLAGS",
];

fn main() {
    let folder = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default());
    let out = PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default());
    for part in ["corehop-shim", "corehop-switch/src", "corehop-switch/Cargo.toml"] {
        println!("cargo::rerun-if-changed={}", folder.join("..").join(part).display());
    }
    let built = build(&folder, &out.join("shim"));
    if let Err(error) = built.and_then(|built| {
        fs::copy(built, out.join("corehop_shim.so")).map_err(|error| error.to_string())
    }) {
        println!("cargo::error=the library for `corehop offload` is not built: {error}");
    }
}

fn build(folder: &Path, target: &Path) -> Result<PathBuf, String> {
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    for flag in FLAGS {
        command.env_remove(flag);
    }
    // Its dependencies are this crate's, so that all are at hand.
    command
        .args(["rustc", "--release", "--locked", "--offline", "--features", "preload"])
        .args(["--crate-type", "cdylib", "--config", "profile.release.strip=true"])
        .arg("--manifest-path")
        .arg(folder.join("../corehop-shim/Cargo.toml"))
        .arg("--target-dir")
        .arg(target)
        // A program that unloads it finds it still there: its partners run on.
        .args(["--", "-C", "link-arg=-Wl,-z,nodelete"]);
    let status = command.status().map_err(|error| format!("{command:?}: {error}"))?;
    if !status.success() {
        return Err(format!("{command:?}: {status}"));
    }
    Ok(target.join("release/libcorehop_shim.so"))
}
