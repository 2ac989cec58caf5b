// SPDX-License-Identifier: MIT OR Apache-2.0
//! `corehop measure schedule-sensitive`: a program that nobody has prepared, recorded as it runs.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use corehop_core::decision::costs::{Selection, Source};
use corehop_core::decision::run_cost::{Prices, WssRange, run_cost};
use corehop_core::platform::Platform;
use corehop_core::report::{observed, observed_page};
use corehop_core::samples::Recording;
use corehop_core::units::{Bytes, Nanos};
use corehop_linux::observe::{How, ObserveError, Target, record};
use corehop_linux::supervisor::interrupt;

use super::costs::source;
use super::predict::pair;
use crate::answer::{self, print};
use crate::exit::{Exit, Failure};

/// Where these options are listed.
const HEADING: &str = "A program as it runs";

/// What is recorded, and by which costs.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Observe {
    /// Record this process, and what it starts, until it ends or --budget is over
    #[arg(long, value_name = "PID", help_heading = HEADING)]
    pid: Option<u32>,
    /// Record the processes of this cgroup
    #[arg(
        long,
        value_name = "DIRECTORY",
        conflicts_with = "pid",
        help_heading = HEADING
    )]
    cgroup: Option<PathBuf>,
    /// What preemptions and migrations cost a working set: a table (`*.csv`), a model that `corehop fit` wrote
    /// (`*.json`), or samples to fit one to; --load and --length say which of them
    #[arg(long, value_name = "FILE", help_heading = HEADING)]
    costs: Option<PathBuf>,
    /// By which statistic, in place of the mean
    #[arg(long, value_name = "NAME", requires = "costs", help_heading = HEADING)]
    statistic: Option<String>,
    /// Which of several series of a model or samples: `page=thp`, `write_ratio=0.5`
    #[arg(
        long,
        value_name = "NAME=VALUE",
        value_parser = pair,
        requires = "costs",
        help_heading = HEADING
    )]
    only: Vec<(String, String)>,
    /// Estimate the working set from the pages that the program touches within 10 ms, four times a second: each
    /// time it fills its TLB anew
    #[arg(long, conflicts_with = "wss", help_heading = HEADING)]
    estimate_wss: bool,
    /// Write a page: tables, and a timeline of the threads that were away the most
    #[arg(long, value_name = "FILE.html", help_heading = HEADING)]
    timeline: Option<PathBuf>,
    /// Write what happened in the trace-event format, which Perfetto shows
    #[arg(long, value_name = "FILE.json", help_heading = HEADING)]
    trace: Option<PathBuf>,
    /// The program to start and record, with its arguments: after `--`
    #[arg(last = true, value_name = "PROGRAM")]
    program: Vec<OsString>,
}

impl Observe {
    /// The options that are given, for an experiment that has no use for them.
    pub(super) fn given(&self) -> [(&'static str, bool); 7] {
        [
            ("--pid", self.pid.is_some()),
            ("--cgroup", self.cgroup.is_some()),
            ("--costs", self.costs.is_some()),
            ("--estimate-wss", self.estimate_wss),
            ("--timeline", self.timeline.is_some()),
            ("--trace", self.trace.is_some()),
            ("the program after `--`", !self.program.is_empty()),
        ]
    }

    /// Whether a program is to be recorded; otherwise task sets run.
    pub(super) fn is_asked_for(&self) -> bool {
        self.given().iter().any(|&(_, given)| given)
    }

    fn target(&self, to_stderr: bool) -> Result<Target, Failure> {
        let words = &self.program;
        match (self.pid, &self.cgroup) {
            (None, None) if words.is_empty() => Err(Failure::says(
                Exit::Usage,
                "what is to be recorded? write `-- PROGRAM ARGUMENTS`, --pid PID or --cgroup DIRECTORY",
            )),
            (None, None) => Ok(Target::Command { words: words.clone(), to_stderr }),
            _ if !words.is_empty() => Err(Failure::says(
                Exit::Usage,
                "a program to start, and --pid or --cgroup: one of them",
            )),
            (Some(pid), _) => Ok(Target::Process(pid)),
            (_, Some(path)) => Ok(Target::Cgroup(path.clone())),
        }
    }
}

/// What else was asked for.
#[derive(Debug)]
pub(super) struct Asked<'a> {
    pub(super) live: bool,
    pub(super) platform: &'a Platform,
    pub(super) load: Option<String>,
    pub(super) length: Option<Nanos>,
    pub(super) wss: Option<Bytes>,
    pub(super) budget: Option<Duration>,
    pub(super) output: Option<&'a Path>,
    pub(super) json: bool,
}

/// Records, multiplies by the costs, and answers.
pub(super) fn carry_out(observe: &Observe, asked: &Asked<'_>) -> Result<Exit, Failure> {
    if !asked.live {
        return Err(Failure::says(
            Exit::NotPossible,
            "schedule-sensitive records programs of this host: leave --on out",
        ));
    }
    let target = observe.target(asked.json)?;
    // Costs that make no sense are said before the program runs.
    let costs = observe.costs.as_deref().map(source).transpose()?;
    let prices = costs.as_ref().map(|source| prices(observe, asked, source)).transpose()?;
    interrupt::install().map_err(|error| Failure::new(Exit::Failed, error))?;
    let how = How { most: asked.budget, estimate_wss: observe.estimate_wss, rung: None };
    let recording = record(&target, &how)?;
    let unknown = || WssRange::unknown(recording.rss_bytes, asked.platform);
    let estimated = || WssRange::sampled(&recording.touched_bytes).unwrap_or_else(unknown);
    let wss = asked.wss.map_or_else(estimated, WssRange::known);
    let cost = run_cost(&recording, asked.platform, prices.as_ref(), wss)?;
    keep(observe, asked, &recording)?;
    if let Some(path) = &observe.timeline {
        answer::write(path, observed_page::page(&recording, &cost, asked.platform))?;
    }
    print(&if asked.json {
        format!("{}\n", observed::json(&recording, &cost))
    } else {
        observed::text(&recording, &cost)
    })?;
    Ok(if interrupt::requested() { Exit::Interrupted } else { Exit::Done })
}

/// Which costs are meant; that there are such is asked at once.
fn prices<'a>(
    observe: &Observe,
    asked: &Asked<'_>,
    source: &'a Source,
) -> Result<Prices<'a>, Failure> {
    let usual = match source {
        Source::Model(_) => Some("mean"),
        Source::Table(table) => {
            let has = |word: &&str| table.selections().any(|(_, statistic, _)| statistic == *word);
            ["mean", "avg", "max"].into_iter().find(has)
        }
    };
    let statistic = observe.statistic.clone().or_else(|| usual.map(str::to_owned));
    let selection = Selection {
        load: asked.load.clone(),
        statistic,
        length: asked.length,
        only: observe.only.clone(),
    };
    source.selected(&selection)?;
    Ok(Prices { source, selection })
}

/// Writes the recording and the trace, where they were asked for.
fn keep(observe: &Observe, asked: &Asked<'_>, recording: &Recording) -> Result<(), Failure> {
    if let Some(path) = asked.output {
        answer::write(path, serde_json::json!(recording).to_string())?;
    }
    if let Some(path) = &observe.trace {
        answer::write(path, observed::trace(recording, asked.platform).to_string())?;
    }
    Ok(())
}

impl From<ObserveError> for Failure {
    fn from(error: ObserveError) -> Self {
        let exit = match error {
            ObserveError::Bpf(_)
            | ObserveError::Records(_)
            | ObserveError::Neither { .. }
            | ObserveError::NotFollowed { .. } => Exit::NotPossible,
            ObserveError::NoTarget { .. } => Exit::Usage,
            ObserveError::Failed { .. } => Exit::Failed,
        };
        Self::new(exit, error)
    }
}
