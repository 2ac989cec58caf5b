// SPDX-License-Identifier: MIT OR Apache-2.0
//! Off-loading: the cost of a call that stays, and the time until a loss is turned off.
//!
//! The program that is run is this one again, with a word for what it is to do.

use std::os::fd::AsRawFd;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{BINARY, Fallible};

/// The word before the name of what the child does.
pub(crate) const CHILD: &str = "--offload-child";

/// Calls in a batch, and batches of a run.
const CALLS: u32 = 20_000;
const BATCHES: usize = 50;
/// Runs of each kind, in turns.
const RUNS: usize = 8;

pub(crate) fn figures(scratch: &Path) -> Fallible<Vec<Value>> {
    if corehop_linux::thread::affinity()?.len() < 2 {
        return Ok(Vec::new());
    }
    Ok(vec![stays(scratch)?, guard(scratch)?])
}

/// The cost of a call below the threshold: the difference of runs with and without the library.
fn stays(scratch: &Path) -> Fallible<Value> {
    let file = scratch.join("small");
    std::fs::write(&file, [0; 64])?;
    let program = std::env::current_exe()?;
    let (mut alone, mut loaded) = (Vec::new(), Vec::new());
    for _ in 0..RUNS {
        let mut plain = Command::new("taskset");
        plain.args(["-c", "0"]).arg(&program);
        alone.push(printed(plain.args([CHILD, "small"]).arg(&file))?);
        let mut with = Command::new(BINARY);
        with.args(["offload", "--os-cores", "1", "-q", "--"]).arg(&program);
        loaded.push(printed(with.args([CHILD, "small"]).arg(&file))?);
    }
    let (alone, loaded) = (median(&mut alone), median(&mut loaded));
    Ok(json!({
        "name": "switch/shim-ns", "value": loaded - alone, "unit": "ns",
        "peer": "pread of 64 bytes without the library", "peer_ns": alone, "ratio": loaded / alone,
        "runs": RUNS, "percentile": 10,
    }))
}

/// The time until the guard turns off calls that move their thread there and back.
fn guard(scratch: &Path) -> Fallible<Value> {
    let (file, answer) = (scratch.join("large"), scratch.join("answer.json"));
    std::fs::write(&file, [0; 8192])?;
    let status = Command::new(BINARY)
        .args(["offload", "--os-cores", "1", "-q", "--decide", "guarded", "--mechanism", "v1"])
        .arg("-o")
        .arg(&answer)
        .arg("--")
        .arg(std::env::current_exe()?)
        .args([CHILD, "large"])
        .arg(&file)
        .status()?;
    let answer: Value = serde_json::from_slice(&std::fs::read(&answer)?)?;
    let seconds = answer["guard"]["after_seconds"].as_f64();
    Ok(json!({
        "name": "offload/guard-seconds", "value": seconds, "unit": "s",
        "loss_percent": answer["guard"]["loss_percent"], "ended": status.code(),
    }))
}

fn printed(command: &mut Command) -> Fallible<f64> {
    let output = command.output()?;
    let text = String::from_utf8(output.stdout)?;
    let number = text.trim().parse();
    number.map_err(|_| {
        format!("{command:?}: {text}{}", String::from_utf8_lossy(&output.stderr)).into()
    })
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Does what the words after [`CHILD`] say.
#[expect(clippy::print_stdout, reason = "the parent reads it")]
pub(crate) fn child(what: &str, file: &str) -> Fallible<()> {
    let file = std::fs::File::open(file)?;
    if what == "small" {
        let mut batches: Vec<f64> = (0..BATCHES).map(|_| batch(&file, CALLS, 64)).collect();
        batches.sort_by(f64::total_cmp);
        println!("{}", batches[BATCHES / 10]);
        return Ok(());
    }
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(4) {
        batch(&file, 100, 8192);
    }
    Ok(())
}

/// The mean time of a call, in nanoseconds.
fn batch(file: &std::fs::File, calls: u32, bytes: usize) -> f64 {
    let mut to = [0_u8; 8192];
    let begun = Instant::now();
    for _ in 0..calls {
        // By its name in libc: that is what a preloaded library stands before.
        // SAFETY: the buffer has this many bytes.
        unsafe { libc::pread(file.as_raw_fd(), to.as_mut_ptr().cast(), bytes, 0) };
    }
    begun.elapsed().as_nanos() as f64 / f64::from(calls)
}
