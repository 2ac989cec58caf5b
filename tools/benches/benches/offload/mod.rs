// SPDX-License-Identifier: MIT OR Apache-2.0
//! Off-loading: the cost of a call that stays, the time until a loss is turned off, the time that a start takes, and what the
//! default and the forced way bring a stream and a reader.
//!
//! The program that is run is this one again, with a word for what it is to do.

use std::arch::asm;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::median::Median;
use super::{BINARY, Fallible};

/// The word before the name of what the child does.
pub(crate) const CHILD: &str = "--offload-child";

/// Calls in a batch, and batches of a run.
const CALLS: u32 = 20_000;
const BATCHES: usize = 50;
/// Runs of each kind, in turns.
const RUNS: usize = 8;
/// Programs that are started.
const STARTS: usize = 30;
/// Blocks of the ways that are compared, and the length of a run in one.
const BLOCKS: usize = 8;
const RUN: Duration = Duration::from_secs(1);
/// The bytes of a call of a stream or a reader.
const BLOCK: usize = 128 << 10;

pub(crate) fn figures(scratch: &Path) -> Fallible<Vec<Value>> {
    if corehop_system::thread::affinity()?.len() < 2 {
        return Ok(Vec::new());
    }
    let mut figures = vec![stays(scratch)?, guard(scratch)?, start()?];
    figures.extend(brought(scratch)?);
    Ok(figures)
}

/// The time by which a program that does nothing ends later.
fn start() -> Fallible<Value> {
    let took = |command: &mut Command| -> Fallible<f64> {
        let begun = Instant::now();
        let status = command.status()?;
        let ms = begun.elapsed().as_secs_f64() * 1e3;
        status.success().then_some(ms).ok_or_else(|| format!("{command:?}: {status}").into())
    };
    let mut later = Vec::new();
    for _ in 0..STARTS {
        let alone = took(&mut Command::new("true"))?;
        let command = ["offload", "--os-cores", "1", "-q", "--", "true"];
        later.push(took(Command::new(BINARY).args(command))? - alone);
    }
    let least = later.iter().copied().fold(f64::INFINITY, f64::min);
    let median = Median::of(&later).ok_or("no start")?;
    let mut figure = median.figure("offload/start-ms", "ms");
    figure["least"] = json!(least);
    figure["starts"] = json!(STARTS);
    Ok(figure)
}

/// Programs that make large calls, by the word of the child.
const LARGE: [&str; 2] = ["stream", "reader"];

/// The gains of these programs by off-loading: by default, and where every call goes there. In blocks, so that all ways meet
/// the same neighbours.
fn brought(scratch: &Path) -> Fallible<Vec<Value>> {
    let file = scratch.join("large");
    std::fs::write(&file, vec![0; BLOCK])?;
    let ways: [&[&str]; 3] = [&[], &["--decide", "predicted"], &["--decide", "always"]];
    let mut figures = Vec::new();
    for what in LARGE {
        let mut rates = [const { Vec::new() }; 3];
        for block in 0..BLOCKS {
            for place in 0..ways.len() {
                let at = (place + block) % ways.len();
                let mut command = Command::new(if at == 0 { "env" } else { BINARY });
                if at > 0 {
                    command.args(["offload", "--os-cores", "1", "-q"]).args(ways[at]).arg("--");
                }
                let program = std::env::current_exe()?;
                rates[at].push(printed(command.arg(program).args([CHILD, what]).arg(&file))?);
            }
        }
        for (way, name) in [(1, "default"), (2, "forced")] {
            let gains: Vec<f64> =
                rates[way].iter().zip(&rates[0]).map(|(it, alone)| it / alone).collect();
            let gain = Median::of(&gains).ok_or("no block")?;
            let mut figure = gain.figure(&format!("offload/{what}-{name}-gain"), "ratio");
            figure["peer"] = json!("alone");
            figure["blocks"] = json!(BLOCKS);
            figures.push(figure);
        }
    }
    Ok(figures)
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
    if what == "stream" {
        println!("{}", stream()?);
        return Ok(());
    }
    let file = File::open(file)?;
    if what == "reader" {
        println!("{}", rate(|to| file.read_at(to, 0))?);
        return Ok(());
    }
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

/// Blocks a second that one thread writes to a socket and another reads.
fn stream() -> Fallible<f64> {
    let (mut there, mut here) = UnixStream::pair()?;
    let reader = std::thread::spawn(move || {
        let mut to = vec![0; BLOCK];
        while here.read(&mut to).is_ok_and(|bytes| bytes > 0) {}
    });
    let blocks = rate(|from| there.write_all(from))?;
    drop(there);
    reader.join().map_err(|_| "the reader panicked")?;
    Ok(blocks)
}

/// Calls of a block that are made in a second.
fn rate<T>(mut call: impl FnMut(&mut [u8]) -> std::io::Result<T>) -> Fallible<f64> {
    let (begun, mut calls) = (Instant::now(), 0_u32);
    let mut block = vec![0; BLOCK];
    while begun.elapsed() < RUN {
        call(&mut block)?;
        calls += 1;
    }
    Ok(f64::from(calls) / begun.elapsed().as_secs_f64())
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
