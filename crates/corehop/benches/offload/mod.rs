// SPDX-License-Identifier: MIT OR Apache-2.0
//! Off-loading: the cost of a call that stays, and the time until a loss is turned off.
//!
//! The program that is run is this one again, with a word for what it is to do.

use std::arch::asm;
use std::fs::File;
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

/// The cost of a call below the threshold, with and without the library: by how much it takes longer than the system call
/// without libc, in batches of one process that take turns.
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
        "peer": "libc's pread beyond the system call", "peer_ns": alone, "runs": RUNS, "percentile": 10,
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
    let file = File::open(file)?;
    if what == "small" {
        let (mut by_name, mut bare) = (Vec::new(), Vec::new());
        for _ in 0..BATCHES {
            by_name.push(batch(&file, CALLS, 64, by_libc));
            bare.push(batch(&file, CALLS, 64, by_kernel));
        }
        let tenth = |times: &mut Vec<f64>| {
            times.sort_by(f64::total_cmp);
            times[BATCHES / 10]
        };
        println!("{}", tenth(&mut by_name) - tenth(&mut bare));
        return Ok(());
    }
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(4) {
        batch(&file, 100, 8192, by_libc);
    }
    Ok(())
}

/// The mean time of a call, in nanoseconds.
fn batch(file: &File, calls: u32, bytes: usize, call: fn(i32, &mut [u8])) -> f64 {
    let mut to = [0_u8; 8192];
    let begun = Instant::now();
    for _ in 0..calls {
        call(file.as_raw_fd(), &mut to[..bytes]);
    }
    begun.elapsed().as_nanos() as f64 / f64::from(calls)
}

/// By its name in libc: that is what a preloaded library stands before.
fn by_libc(file: i32, to: &mut [u8]) {
    // SAFETY: the buffer has this many bytes.
    unsafe { libc::pread(file, to.as_mut_ptr().cast(), to.len(), 0) };
}

/// The system call alone.
fn by_kernel(file: i32, to: &mut [u8]) {
    // SAFETY: the buffer has this many bytes; the kernel changes rcx and r11.
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") libc::SYS_pread64 => _,
            in("rdi") i64::from(file), in("rsi") to.as_mut_ptr(), in("rdx") to.len(), in("r10") 0_u64,
            lateout("rcx") _, lateout("r11") _,
            options(nostack),
        );
    }
}
