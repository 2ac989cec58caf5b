// SPDX-License-Identifier: MIT OR Apache-2.0
//! The time in which `corehop place --for 2s` ends beside programs whose threads hand over without pause, the worst of many runs.

use std::process::Command;
use std::time::Instant;

use serde_json::{Value, json};

use super::programs::Program;
use super::running::{Running, silent};
use crate::packages::Packages;
use crate::{Fallible, pause};

/// Between two runs.
const PAUSE: std::time::Duration = std::time::Duration::from_millis(20);

/// So many runs, beside each of the programs in turns. After each, every thread may run everywhere.
pub(crate) fn figure(packages: &Packages, runs: usize) -> Fallible<Value> {
    let (mut worst, mut of, mut programs) = (0.0_f64, String::new(), Vec::new());
    let running = [Program::Go, Program::Pipes].into_iter().filter_map(|program| {
        let begun = program.begin(packages, 1);
        let said = begun.inspect_err(|why| eprintln!("skipped: {}: {why}", program.name()));
        said.ok().map(|it| (program.name(), it))
    });
    let running: Vec<(String, Running)> = running.collect();
    if running.is_empty() {
        return Err("no program can be begun".into());
    }
    for (name, it) in running.iter().cycle().take(runs) {
        let seconds = seconds(it)?;
        if seconds > worst {
            (worst, of) = (seconds, name.clone());
        }
        it.is_free()?;
        pause(PAUSE)?;
    }
    programs.extend(running.iter().map(|(name, _)| name));
    Ok(json!({
        "name": "place/ends-seconds", "value": worst, "unit": "s", "of": of, "runs": runs, "programs": programs,
    }))
}

/// The length of a run.
fn seconds(running: &Running) -> Fallible<f64> {
    let mut command = Command::new(corehop_benches::PROGRAM);
    command.args(["place", "--json", "--for", "2s", "--progress"]).arg(running.progress());
    command.args(running.pids().iter().map(ToString::to_string));
    let begun = Instant::now();
    let status = silent(&mut command).status()?;
    if !status.success() {
        return Err(format!("corehop place: {status}").into());
    }
    Ok(begun.elapsed().as_secs_f64())
}
