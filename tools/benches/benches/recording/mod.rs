// SPDX-License-Identifier: MIT OR Apache-2.0
//! The cost of recording to a program that switches about ten thousand times a second: by the recorder's own
//! account, and by the work that the program gets done, in pairs with and without it. And to one that does nothing
//! but switch: `perf bench sched pipe`.

use std::ffi::OsString;
use std::io::{Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use corehop_linux::observe::{How, record};
use corehop_plan::experiment::{Argument, Target};
use corehop_plan::samples::ProgramRecord;
use corehop_stats::paired::Paired;
use corehop_system::thread::{affinity, set_affinity};
use serde_json::{Value, json};

use super::{Fallible, figure};

/// By this argument the bench is the program that is recorded: for so many milliseconds it hands a byte to
/// and fro, and writes into a file how often it did.
pub(crate) const CHILD: &str = "--hand-over";

/// Pairs of runs, and how long each is.
const PAIRS: u32 = 30;
const EACH: Duration = Duration::from_millis(400);

/// Additions that each of the two threads does before it hands the CPU over: about 95 us on a core of 2 to
/// 3 GHz, for 10,000 switches a second. Work, not time, so that what is taken from it shows.
const WORK: u64 = 36_000;

/// The program that is recorded: two threads on one CPU.
pub(crate) fn child(millis: &str, file: &str) -> Fallible<()> {
    let cpu = affinity()?.first().ok_or("no CPU")?;
    set_affinity([cpu])?;
    let (mut here, mut there) = UnixStream::pair()?;
    let other = std::thread::spawn(move || -> std::io::Result<()> {
        let mut byte = [0];
        while there.read(&mut byte)? == 1 {
            work();
            there.write_all(&byte)?;
        }
        Ok(())
    });
    let (begin, span) = (Instant::now(), Duration::from_millis(millis.parse()?));
    let (mut turns, mut byte) = (0_u64, [0]);
    while begin.elapsed() < span {
        work();
        here.write_all(&byte)?;
        here.read_exact(&mut byte)?;
        turns += 1;
    }
    std::fs::write(file, format!("{}", turns as f64 / begin.elapsed().as_secs_f64()))?;
    drop(here);
    other.join().map_err(|_| "the other thread")??;
    Ok(())
}

fn work() {
    let mut sum = 0_u64;
    for round in 0..WORK {
        sum = std::hint::black_box(sum + round);
    }
}

/// One run of the child; its turns a second, and what recording it took, where it was recorded: the share of
/// a CPU, and the switches a second.
fn run(scratch: &Path, recorded: bool) -> Fallible<(f64, Option<(f64, f64)>)> {
    let file = scratch.join("turns");
    let own = std::env::current_exe()?;
    let words: [OsString; 4] =
        [own.into(), CHILD.into(), EACH.as_millis().to_string().into(), file.clone().into()];
    let took = if recorded {
        let arguments = words.iter().map(|word| Argument::new(word.as_bytes().to_vec()));
        let mut switches = 0;
        let mut take = |records: &[ProgramRecord]| {
            for record in records {
                if let ProgramRecord::Thread(thread) = record {
                    switches += thread.preemptions + thread.voluntary;
                }
            }
            Ok(true)
        };
        let target = Target::Command(arguments.collect());
        let (facts, _) = record(&target, &How::default(), &mut take)?;
        let seconds = facts.span_ns as f64 / 1e9;
        Some((facts.took.share(facts.span_ns), switches as f64 / seconds))
    } else {
        let status = Command::new(&words[0]).args(&words[1..]).status()?;
        if !status.success() {
            return Err(format!("the program that is recorded: {status}").into());
        }
        None
    };
    Ok((std::fs::read_to_string(&file)?.parse()?, took))
}

/// Pairs of runs of `perf bench sched pipe`, each of so many operations: about 0.7 s.
const PIPE_PAIRS: u32 = 25;
/// The order in each pair, as a coin decided: a bit for each.
const ORDER: u32 = 0b0_1101_0010_0111_0100_1011_0001;
const PIPE: [&str; 6] = ["perf", "bench", "sched", "pipe", "-l", "100000"];

/// The slowdown of `perf bench sched pipe` by being recorded, by its own clock: the median of pairs, of which
/// a coin decided the order.
pub(crate) fn pipe() -> Option<Value> {
    let mut slowdowns = Vec::new();
    for pair in 0..PIPE_PAIRS {
        let first = ORDER >> pair & 1 == 1;
        let (one, other) = (piped(first), piped(!first));
        let (with, without) = if first { (one, other) } else { (other, one) };
        match (with, without) {
            (Ok(with), Ok(without)) => slowdowns.push((with / without - 1.0) * 100.0),
            (Err(why), _) | (_, Err(why)) => {
                eprintln!("skipped: observe/pipe-slowdown-percent: {why}");
                return None;
            }
        }
    }
    slowdowns.sort_by(f64::total_cmp);
    let quartile = |part: usize| slowdowns[slowdowns.len() * part / 4];
    let mut slowdown = figure("observe/pipe-slowdown-percent", quartile(2), "%");
    slowdown["pairs"] = json!(PIPE_PAIRS);
    slowdown["quartiles"] = json!([quartile(1), quartile(3)]);
    Some(slowdown)
}

/// The seconds of one run.
fn piped(recorded: bool) -> Fallible<f64> {
    let recorder = [super::BINARY, "measure", "program", "--"];
    let words: Vec<&str> = recorder.into_iter().filter(|_| recorded).chain(PIPE).collect();
    let output = Command::new(words[0]).args(&words[1..]).output()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let line = text.lines().find_map(|line| line.trim().strip_prefix("Total time:"));
    let seconds = line.and_then(|line| line.split_whitespace().next());
    let why =
        || format!("{words:?}: {}: {}", output.status, String::from_utf8_lossy(&output.stderr));
    Ok(seconds.ok_or_else(why)?.parse()?)
}

pub(crate) fn figures(scratch: &Path) -> Fallible<Vec<Value>> {
    let (mut losses, mut shares, mut rates) = (Vec::new(), Vec::new(), Vec::new());
    for pair in 0..PAIRS {
        // The second finds the machine as the first has left it: they take turns.
        let first = pair % 2 == 0;
        let (one, other) = (run(scratch, first), run(scratch, !first));
        let (with, without) = if first { (one, other) } else { (other, one) };
        let (with, without) = match (with, without) {
            (Ok(with), Ok(without)) => (with, without),
            (Err(why), _) | (_, Err(why)) => {
                eprintln!("skipped: observe/recording-*: {why}");
                return Ok(Vec::new());
            }
        };
        losses.push((1.0 - with.0 / without.0) * 100.0);
        let (share, rate) = with.1.unwrap_or_default();
        shares.push(share * 100.0);
        rates.push(rate);
    }
    let loss = Paired::of(&losses, 0.05, 1)?;
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    let mut throughput = figure("observe/throughput-loss-percent", loss.mean, "%");
    throughput["interval"] = json!(loss.interval.map(|it| [it.low, it.high]));
    throughput["detectable"] = json!(loss.detectable);
    throughput["verdict"] = json!(loss.verdict());
    let mut recording = figure("observe/recording-percent", mean(&shares), "%");
    recording["switches_per_s"] = json!(mean(&rates));
    Ok(vec![recording, throughput])
}
