// SPDX-License-Identifier: MIT OR Apache-2.0
//! A user who has no more processes: every verb ends with a documented exit code, or does without further threads.
//!
//! The limit counts a user's processes and threads. As root, each run has a user of its own, so that exactly so many
//! threads can be started; otherwise the caller's own processes already fill the limit, and no thread can be.

use std::ffi::OsString;
use std::time::Duration;

use crate::lines::RECIPES;
use crate::verdict::{Limits, finding, run};
use crate::{Bench, say};

/// Live measurements, of which each starts threads. None is real-time: the user has no right to that.
const LIVE: [&str; 11] = [
    "measure synthetic --samples 1 --wss 4KiB --event preemption --no-real-time --budget 1s -q",
    "measure synthetic --samples 1 --wss 4KiB --load constructed --polluter 64KiB --no-real-time --budget 1s -q",
    "measure core-switch --samples 1 --budget 1s -q",
    "measure shared-data --samples 1 --program exchange --items 10 --budget 1s -q",
    "measure schedule-sensitive --scheduler eevdf --tasks 2 --sets 1 --duration 50ms --wss 4KiB --load idle --budget 1s -q",
    "measure supply --samples 1 --no-real-time --budget 1s -q",
    "measure overheads --no-bpf --tasks 2 --budget 1s -q",
    "record -- true",
    "offload --os-cores 0 -- true",
    "place --for 1s -- true",
    "doctor --json",
];

#[test]
fn a_user_without_further_processes_gets_a_sentence_and_no_panic() {
    let bench = Bench::shared();
    let folder = bench.scratch("threads");
    for name in &bench.seeds.names {
        bench.file_as_it_is(name, &folder);
    }
    let recipes = RECIPES.iter().map(|(guarded, free)| format!("{guarded} {free}"));
    let lines = recipes.chain(LIVE.map(str::to_owned)).map(|it| (it, 1..=1));
    // The first threads start, and a later one does not.
    let partly = LIVE[..8].iter().map(|it| ((*it).to_owned(), 2..=3));
    let mut found = Vec::new();
    for (line, most) in lines.chain(partly) {
        for processes in most {
            let words: Vec<OsString> = line.split_whitespace().map(OsString::from).collect();
            let limits = Limits {
                processes: Some(processes),
                patience: Duration::from_secs(20),
                ..Limits::USUAL
            };
            let ended = run(&bench.program, &words, &folder, limits);
            if let Some(why) = finding(&ended) {
                let what = format!("{processes} processes: {why}: corehop {line}: {}", ended.said);
                say(&what);
                found.push(what);
            }
        }
    }
    assert!(found.is_empty(), "{} findings:\n{}", found.len(), found.join("\n"));
    // The limit bites: without processes no program can be started.
    let words = ["offload", "--os-cores", "0", "--", "true"].map(OsString::from);
    let limits = Limits { processes: Some(1), ..Limits::USUAL };
    let ended = run(&bench.program, &words, &folder, limits);
    assert_eq!(ended.status.code(), Some(6), "{ended:?}");
}
