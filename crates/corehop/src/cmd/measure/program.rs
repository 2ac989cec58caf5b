// SPDX-License-Identifier: MIT OR Apache-2.0
//! `corehop measure program`: records an unmodified program as it runs.

use std::ffi::OsString;
use std::path::PathBuf;

use corehop_core::decision::run_cost::{Prices, WssRange, run_cost};
use corehop_core::model::costs::{Selection, Source};
use corehop_core::platform::Platform;
use corehop_core::report::{observed, observed_page};
use corehop_core::samples::Recording;
use corehop_core::units::{Bytes, Nanos};
use corehop_linux::observe::{How, ObserveError, Target, record};
use corehop_linux::supervisor::interrupt;

use super::super::quantities::pair;
use super::on;
use super::outline::duration;
use crate::exit::{Exit, Failure};
use crate::input;
use crate::output::{self, print};

/// The program to record, and the costs to charge.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Write the recording to this file
    #[arg(short, long, value_name = "FILE.json")]
    output: Option<PathBuf>,
    /// Print one machine-readable answer on stdout; the program's own output goes to stderr
    #[arg(long)]
    json: bool,
    /// End the recording after this time
    #[arg(long, value_name = "TIME")]
    budget: Option<Nanos>,
    /// Record this process and its children, until it ends or --budget is over
    #[arg(long, value_name = "PID")]
    pid: Option<u32>,
    /// Record the processes of this cgroup
    #[arg(long, value_name = "DIRECTORY", conflicts_with = "pid")]
    cgroup: Option<PathBuf>,
    /// Costs by working-set size: a table (`*.csv`), a model of `corehop fit` (`*.json`), or samples to fit one
    /// to; --load and --length choose among them
    #[arg(long, value_name = "FILE")]
    costs: Option<PathBuf>,
    /// The background load of the costs
    #[arg(long, value_name = "NAME", requires = "costs")]
    load: Option<String>,
    /// The preemption length of the costs
    #[arg(long, value_name = "TIME", requires = "costs")]
    length: Option<Nanos>,
    /// The working set of the program, if known
    #[arg(long, value_name = "SIZE")]
    wss: Option<Bytes>,
    /// The statistic of the costs; default: the mean
    #[arg(long, value_name = "NAME", requires = "costs")]
    statistic: Option<String>,
    /// Choose one of several series of a model or samples: `page=thp`, `write_ratio=0.5`
    #[arg(
        long,
        value_name = "NAME=VALUE",
        value_parser = pair,
        requires = "costs",
    )]
    only: Vec<(String, String)>,
    /// Estimate the working set from the pages that the program touches within 10 ms, four times a second. Each
    /// estimate makes the program refill its TLB
    #[arg(long, conflicts_with = "wss")]
    estimate_wss: bool,
    /// Write a page: tables, and a timeline of the threads that were off the CPU the longest
    #[arg(long, value_name = "FILE.html")]
    timeline: Option<PathBuf>,
    /// Write the events in the trace-event format, for Perfetto
    #[arg(long, value_name = "FILE.json")]
    trace: Option<PathBuf>,
    /// The program to start and record, with its arguments, after `--`
    #[arg(last = true, value_name = "PROGRAM")]
    program: Vec<OsString>,
}

impl Args {
    fn target(&self, to_stderr: bool) -> Result<Target, Failure> {
        let words = &self.program;
        match (self.pid, &self.cgroup) {
            (None, None) if words.is_empty() => Err(Failure::says(
                Exit::Usage,
                "missing program: write `-- PROGRAM ARGUMENTS`, --pid PID or --cgroup DIRECTORY",
            )),
            (None, None) => Ok(Target::Command { words: words.clone(), to_stderr }),
            _ if !words.is_empty() => Err(Failure::says(
                Exit::Usage,
                "a program to start excludes --pid and --cgroup: give one of them",
            )),
            (Some(pid), _) => Ok(Target::Process(pid)),
            (_, Some(path)) => Ok(Target::Cgroup(path.clone())),
        }
    }
}

impl Args {
    /// Records the program, computes its costs, and prints the answer.
    pub(super) fn run(&self) -> Result<Exit, Failure> {
        let platform = &on::platform(on::LIVE)?;
        let target = self.target(self.json)?;
        // Costs that make no sense are said before the program runs.
        let costs = self.costs.as_deref().map(input::costs).transpose()?;
        let prices = costs.as_ref().map(|source| self.prices(source)).transpose()?;
        interrupt::install().map_err(|error| Failure::new(Exit::Failed, error))?;
        let most = self.budget.map(duration);
        let how = How { most, estimate_wss: self.estimate_wss, method: None };
        let recording = record(&target, &how)?;
        let unknown = || WssRange::unknown(recording.rss_bytes, platform);
        let estimated = || WssRange::sampled(&recording.touched_bytes).unwrap_or_else(unknown);
        let wss = self.wss.map_or_else(estimated, WssRange::known);
        let cost = run_cost(&recording, platform, prices.as_ref(), wss)?;
        self.keep(platform, &recording)?;
        if let Some(path) = &self.timeline {
            output::write(path, observed_page::page(&recording, &cost, platform))?;
        }
        print(&if self.json {
            format!("{}\n", observed::json(&recording, &cost))
        } else {
            observed::text(&recording, &cost)
        })?;
        Ok(if interrupt::requested() { Exit::Interrupted } else { Exit::Done })
    }

    /// The chosen costs; fails early if there are none.
    fn prices<'a>(&self, source: &'a Source) -> Result<Prices<'a>, Failure> {
        let usual = match source {
            Source::Model(_) => Some("mean"),
            Source::Table(table) => {
                let has =
                    |word: &&str| table.selections().any(|(_, statistic, _)| statistic == *word);
                ["mean", "avg", "max"].into_iter().find(has)
            }
        };
        let statistic = self.statistic.clone().or_else(|| usual.map(str::to_owned));
        let selection = Selection {
            load: self.load.clone(),
            statistic,
            length: self.length,
            only: self.only.clone(),
        };
        source.selected(&selection)?;
        Ok(Prices { source, selection })
    }

    /// Writes the recording and the trace, if requested.
    fn keep(&self, platform: &Platform, recording: &Recording) -> Result<(), Failure> {
        if let Some(path) = &self.output {
            output::write(path, serde_json::json!(recording).to_string())?;
        }
        if let Some(path) = &self.trace {
            output::write(path, observed::trace(recording, platform).to_string())?;
        }
        Ok(())
    }
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
