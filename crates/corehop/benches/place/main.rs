// SPDX-License-Identifier: MIT OR Apache-2.0
//! Placing: the time of a decision.
//!
//! `cargo bench -p corehop --bench place -- OUT.json`.
#![expect(clippy::print_stderr, reason = "progress and results go to stderr")]

mod decision;
#[path = "../list/mod.rs"]
mod list;

use std::path::PathBuf;

type Fallible<T> = Result<T, Box<dyn std::error::Error>>;

fn main() -> Fallible<()> {
    let out = std::env::args().skip(1).find(|word| !word.starts_with("--"));
    let out = out.map_or_else(|| PathBuf::from("out/bench.json"), PathBuf::from);
    list::put(vec![decision::figure()?], &out)
}
