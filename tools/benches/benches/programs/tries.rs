// SPDX-License-Identifier: MIT OR Apache-2.0
//! Does `corehop try` find the best way to pin a program? Its answer, against all arms measured long.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use serde_json::{Value, json};

use crate::median::Median;
use crate::{BINARY, Fallible};

/// The rounds in which each arm runs once.
const ROUNDS: usize = 40;
/// The winner's time may be so much longer than that of the best arm.
const CLOSE: f64 = 1.02;

/// Programs by a name, each as a line for a shell: some whose processes or threads take turns, some that use both CPUs, some with
/// one thread.
const PROGRAMS: [(&str, &str); 6] = [
    ("ping-pong", PING_PONG),
    ("threads-with-one-lock", ONE_LOCK),
    ("two-hashes", "for i in 1 2; do openssl dgst -sha256 input input input input & done; wait"),
    ("gzip", "head -c 12000000 input | gzip -6 -c"),
    ("xz-two-threads", "xz -1 -T2 --block-size=2MiB -c input"),
    ("forks", "i=0; while [ $i -lt 400 ]; do /bin/true; i=$((i+1)); done"),
];
/// Two processes that pass one byte there and back.
const PING_PONG: &str = r#"python3 -c '
import os
there, back = os.pipe(), os.pipe()
child = os.fork()
while child == 0: os.write(back[1], os.read(there[0], 1))
for _ in range(15000): os.write(there[1], b"x"); os.read(back[0], 1)
os.kill(child, 15)
'"#;
/// Two threads that need the lock of one interpreter.
const ONE_LOCK: &str = r"python3 -c '
import threading
def work():
    n = 0
    for i in range(2000000): n += i
all = [threading.Thread(target=work) for _ in range(2)]
[it.start() for it in all]; [it.join() for it in all]
'";

/// The arms of one program: the CPUs that each has, and the times of its runs.
struct Exhaustive {
    cpus: Vec<Option<String>>,
    seconds: Vec<Vec<f64>>,
}

pub(crate) fn figures(folder: &Path) -> Fallible<Vec<Value>> {
    let text: Vec<u8> =
        (0..16_000_000_u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 27) as u8 + 64).collect();
    std::fs::write(folder.join("input"), text)?;
    let mut met = 0;
    for (name, line) in PROGRAMS {
        let tried = tried(folder, line)?;
        let all = exhaustive(folder, line, &tried)?;
        let chosen = chosen(&tried);
        let medians: Vec<f64> = all.seconds.iter().map(|it| middle(it)).collect();
        let best = medians.iter().copied().fold(f64::INFINITY, f64::min);
        let is_met = medians[chosen] <= CLOSE * best;
        met += usize::from(is_met);
        println!(
            "{name}: {} {:?}, all {:.4?} of {:?}",
            tried["verdict"], all.cpus[chosen], medians, all.cpus
        );
    }
    let name = "try/best-of-exhaustive";
    Ok(vec![json!({"name": name, "value": met, "unit": format!("of {} programs", PROGRAMS.len())})])
}

fn middle(seconds: &[f64]) -> f64 {
    Median::of(seconds).map_or(f64::NAN, |it| it.value)
}

/// The answer of `corehop try`.
fn tried(folder: &Path, line: &str) -> Fallible<Value> {
    let mut command = Command::new(BINARY);
    command.args(["try", "--json", "--", "sh", "-c", line]).current_dir(folder);
    let output = command.stderr(Stdio::null()).output()?;
    Ok(serde_json::from_slice(&output.stdout)?)
}

/// The place of the answer among the arms: 0 for the kernel's default, which every answer without a winner leaves.
fn chosen(tried: &Value) -> usize {
    let winner = tried["arm"].as_u64().filter(|_| tried["verdict"] == "winner");
    winner.map_or(0, |arm| arm as usize + 1)
}

/// Runs the default and all arms that were tried, by turns.
fn exhaustive(folder: &Path, line: &str, tried: &Value) -> Fallible<Exhaustive> {
    let arms = tried["arms"].as_array().ok_or("no arms in the answer of `corehop try`")?;
    let of = |arm: &Value| arm["cpus"].as_str().map(str::to_owned);
    let cpus: Vec<Option<String>> = std::iter::once(None).chain(arms.iter().map(of)).collect();
    let mut seconds = vec![Vec::new(); cpus.len()];
    for round in 0..ROUNDS {
        for turn in 0..cpus.len() {
            // Forwards and backwards by turns, so that no arm always follows the same one.
            let turn = if round % 2 == 1 { cpus.len() - 1 - turn } else { turn };
            let at = (turn + round / 2) % cpus.len();
            seconds[at].push(run(folder, line, cpus[at].as_deref())?);
        }
    }
    Ok(Exhaustive { cpus, seconds })
}

/// The seconds of one run, on these CPUs.
fn run(folder: &Path, line: &str, cpus: Option<&str>) -> Fallible<f64> {
    let pinned = cpus.map_or_else(Vec::new, |cpus| vec!["taskset", "-c", cpus]);
    let words = [pinned, vec!["sh", "-c", line]].concat();
    let mut command = Command::new(words[0]);
    command.args(&words[1..]);
    command.current_dir(folder).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let begun = Instant::now();
    let status = command.status()?;
    if !status.success() {
        return Err(format!("{line}: {status}").into());
    }
    Ok(begun.elapsed().as_secs_f64())
}
