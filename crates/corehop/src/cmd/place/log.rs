// SPDX-License-Identifier: MIT OR Apache-2.0
//! The log of a placer, lines of JSON, and the answer.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::File;
use std::io::Write as _;

use corehop_core::decision::placer::terrain::{Terrain, WakeCosts};
use corehop_core::decision::placer::trial::Verdict;
use corehop_core::decision::placer::{Action, Proposal, Settings};
use corehop_core::host::{Activity, HostError};
use corehop_core::model::contacts::{ContactGraph, Tie};
use serde::Serialize;
use serde_json::{Value, json};

use crate::exit::{Exit, Failure};
use crate::output::{OutputFile, print};

/// The version of the log's lines.
const VERSION: u32 = 1;
/// Ties that the answer shows.
const SHOWN: usize = 10;

/// The log of a run.
#[derive(Debug)]
pub(super) struct Log {
    /// The file, line by line as things happen: what ends the placer does not take them away.
    file: Option<File>,
    answer: Answer,
    names: BTreeMap<u32, String>,
}

/// The answer.
#[derive(Debug, Serialize)]
struct Answer {
    targets: Vec<String>,
    wake_costs: WakeCosts,
    windows: u64,
    may_move: bool,
    proposals: Vec<Proposal>,
    trials: Vec<Trial>,
    refused: Vec<String>,
    ties: Vec<Tie>,
    wakes_by_interrupts: u64,
}

#[derive(Debug, Serialize)]
struct Trial {
    #[serde(flatten)]
    verdict: Verdict,
    kept: bool,
}

impl Log {
    /// The log's file begins with what the placer knows.
    ///
    /// # Errors
    /// Exit 6 where it cannot be written.
    pub(super) fn begin(
        settings: &Settings,
        terrain: &Terrain,
        targets: &[String],
        output: Option<OutputFile>,
    ) -> Result<Self, Failure> {
        let answer = Answer {
            targets: targets.to_vec(),
            wake_costs: terrain.costs(),
            windows: 0,
            may_move: settings.may_move,
            proposals: Vec::new(),
            trials: Vec::new(),
            refused: Vec::new(),
            ties: Vec::new(),
            wakes_by_interrupts: 0,
        };
        let file = output.map(OutputFile::into_path).map(File::create).transpose();
        let file = file.map_err(unwritten)?;
        let mut log = Self { file, answer, names: BTreeMap::new() };
        let caches: Vec<String> = terrain.caches().iter().map(ToString::to_string).collect();
        log.line(|| {
            json!({
                "corehop_placement": VERSION, "targets": targets, "settings": settings,
                "caches": caches, "wake_costs": terrain.costs(),
            })
        })?;
        Ok(log)
    }

    fn line(&mut self, value: impl FnOnce() -> Value) -> Result<(), Failure> {
        let Some(file) = &mut self.file else { return Ok(()) };
        let line = format!("{}\n", value());
        file.write_all(line.as_bytes()).map_err(unwritten)
    }

    pub(super) fn window(
        &mut self,
        activity: &Activity,
        graph: &ContactGraph,
        actions: &[Action],
    ) -> Result<(), Failure> {
        self.answer.windows += 1;
        self.line(|| json!({ "window": activity, "actions": actions }))?;
        self.names.extend(activity.threads.iter().map(|it| (it.tid, it.name.clone())));
        self.answer.ties = graph.ties();
        for action in actions {
            match action {
                Action::Advise(it) | Action::Try(it) => self.answer.proposals.push(it.clone()),
                Action::Judge { verdict, kept } => {
                    self.answer.trials.push(Trial { verdict: *verdict, kept: *kept });
                }
                Action::Place { .. } | Action::Restore => {}
            }
        }
        Ok(())
    }

    pub(super) fn refused(&mut self, error: &HostError) -> Result<(), Failure> {
        self.answer.refused.push(error.to_string());
        self.line(|| json!({ "refused": error.to_string() }))
    }

    pub(super) fn end(&mut self, wakes_by_interrupts: u64) -> Result<(), Failure> {
        self.answer.wakes_by_interrupts = wakes_by_interrupts;
        self.answer.ties.sort_by(|x, y| y.per_second.total_cmp(&x.per_second));
        let windows = self.answer.windows;
        self.line(|| json!({ "end": { "windows": windows } }))
    }

    pub(super) fn say(&self, as_json: bool) -> Result<(), Failure> {
        if as_json {
            let text = serde_json::to_string_pretty(&self.answer);
            return print(&format!("{}\n", text.map_err(|it| Failure::new(Exit::Failed, it))?));
        }
        say(&self.text());
        Ok(())
    }

    fn text(&self) -> String {
        let mut text = String::new();
        let name = |tid: u32| {
            let name = self.names.get(&tid).map_or("?", String::as_str);
            format!("{name} ({tid})")
        };
        for tie in self.answer.ties.iter().take(SHOWN) {
            let rate = tie.per_second;
            // Writing to a string does not fail.
            let _ = writeln!(text, "{} and {}: {rate:.0} wake-ups/s", name(tie.a), name(tie.b));
        }
        if self.answer.ties.is_empty() {
            text.push_str("No threads of the program wake each other.\n");
        }
        for it in &self.answer.proposals {
            let _ = writeln!(text, "{}", proposed(it, &name));
        }
        for it in &self.answer.trials {
            let _ = writeln!(text, "{}", judged(it));
        }
        for why in &self.answer.refused {
            let _ = writeln!(text, "Refused: {why}");
        }
        if self.answer.proposals.is_empty() {
            text.push_str("No placement is worth its moves: none was tried.\n");
        } else if !self.answer.may_move {
            text.push_str("Nothing was moved: --progress says how the program gets on.\n");
        }
        text
    }
}

fn unwritten(error: std::io::Error) -> Failure {
    Failure::new(Exit::Failed, error).context("writing the log")
}

/// A proposal in words.
fn proposed(it: &Proposal, name: &dyn Fn(u32) -> String) -> String {
    let mut groups: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for it in &it.moves {
        groups.entry(it.cpus.to_string()).or_default().push(name(it.tid));
    }
    let groups =
        groups.into_iter().map(|(cpus, names)| format!("{} on CPU {cpus}", names.join(", ")));
    let groups: Vec<String> = groups.collect();
    let why = match it.saved {
        Some(saved) => format!("predicted to save {:.1} % of a CPU", 100.0 * saved),
        None => "without evidence".to_owned(),
    };
    format!("Placement ({why}): {}.", groups.join("; "))
}

fn judged(it: &Trial) -> String {
    let (word, outcome) = match &it.verdict {
        Verdict::Better(it) => ("better, kept", it),
        Verdict::Worse(it) => ("worse, taken back", it),
        Verdict::Same(it) => ("not told apart, taken back", it),
        Verdict::Invalid { why } => return format!("No verdict, taken back: {why}."),
    };
    format!(
        "Progress placed over left alone: {:.2} [{:.2}, {:.2}], {} pairs: {word}. Left alone, it varied by up to {:.2}.",
        outcome.ratio, outcome.low, outcome.high, outcome.pairs, outcome.floor
    )
}

#[expect(clippy::print_stderr, reason = "stdout is the program's own")]
fn say(text: &str) {
    eprint!("{text}");
}
