// SPDX-License-Identifier: MIT OR Apache-2.0
//! The costs of events that are caused in a program, against what is known of the program.
//!
//! A program that walks a set of known size is measured as a stranger (`measure program-costs`), and so is the same size by the
//! synthetic method, in the same minutes, with the same absence. Their costs should agree, as far as two synthetic runs agree. Blocks
//! without events are compared with each other: what differs there is a false effect. Then programs that people run are measured, and
//! the loss that `record` predicts for them beside a load is compared with their CPU time beside it and without it.
//! At last `corehop try` is asked how to pin programs, and all ways are measured long.
//! `make bench-programs` runs this; `-- OUT.json known`, `-- OUT.json strangers` and `-- OUT.json tries` run one part.
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "the table is what this program is for, and figures go to stderr"
)]

mod company;
mod known;
mod strangers;
mod study;
mod tries;
mod walker;
#[path = "../list/mod.rs"]
mod list;
#[path = "../median/mod.rs"]
#[expect(dead_code, reason = "medians are parts of figures here")]
mod median;
#[path = "../packages/mod.rs"]
mod packages;

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

type Fallible<T> = Result<T, Box<dyn std::error::Error>>;

/// A part of this benchmark: its figures, with a folder for its files.
type Figures = fn(&Path) -> Fallible<Vec<Value>>;

const BINARY: &str = corehop_benches::PROGRAM;

fn main() -> Fallible<()> {
    let words: Vec<String> = std::env::args().skip(1).filter(|it| it != "--bench").collect();
    match &words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["walk", kib, path] => return Ok(walker::walk(kib.parse()?, Path::new(path))?),
        ["disturb", cpu] => company::disturb(cpu.parse()?),
        _ => {}
    }
    let out = PathBuf::from(words.first().map_or("out/bench.json", String::as_str));
    let folder = out.parent().unwrap_or(Path::new(".")).join("programs");
    std::fs::create_dir_all(&folder)?;
    let folder = folder.canonicalize()?;
    let parts: [(&str, Figures); 3] =
        [("known", known::figures), ("strangers", study::figures), ("tries", tries::figures)];
    for (_, figures) in parts.iter().filter(|(name, _)| words.get(1).is_none_or(|it| it == name)) {
        list::put(figures(&folder)?, &out)?;
    }
    Ok(())
}

/// The answer of a command on its standard output.
fn answer(command: &mut Command) -> Fallible<Value> {
    let output = command.output()?;
    if !output.status.success() {
        return Err(format!("{command:?}: {}", String::from_utf8_lossy(&output.stderr)).into());
    }
    Ok(serde_json::from_slice(&output.stdout)?)
}
