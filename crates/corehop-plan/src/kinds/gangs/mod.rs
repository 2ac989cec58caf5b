// SPDX-License-Identifier: MIT OR Apache-2.0
//! A plan of gangs: a gang is a program whose threads run together on common data, and the gangs run one
//! after the other.

mod record;
mod rows;

pub use record::{GangRecord, MemberCounts, MemberRecord};
pub use rows::SharedData;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::kinds::kind::samples;
use crate::kinds::{
    Kind, Projection, ProjectionContext, RowCounting, RowKind, RowTime, Rows, SamplingUnit,
};
use crate::platform::Platform;
use crate::units::{Cpu, CpuList, Nanos};
use crate::workload::gang::{GangError, GangProgram, Placing, Sharing};

/// The largest number of threads in a gang.
pub const MOST_THREADS: usize = 64;

/// A plan of gangs with the number of runs of each.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Gangs {
    /// The gangs that the plan runs, in order.
    pub gangs: Vec<Gang>,
}

/// A gang: a program, the way in which its threads share data, and the CPU of each thread.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Gang {
    /// The program that the threads run.
    pub program: GangProgram,
    /// The way in which the threads share their data.
    pub sharing: Sharing,
    /// The placement of the threads, as a word.
    pub placing: Placing,
    /// The CPU on which each thread starts.
    pub cpus: Vec<Cpu>,
    /// The moves of threads to other CPUs during a run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub moves: Vec<GangMove>,
    /// The number of measured rounds of each thread (a round is a swap, an item, a point, a hand-over or
    /// a Fibonacci number).
    pub rounds: u64,
    /// The number of rounds that each thread runs before the measured rounds.
    pub warm_up: u64,
    /// The replicate to which the gang's runs belong.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub replicate: u32,
    /// The number of runs of the gang.
    pub samples: u32,
    /// The number of the first run: a resumed experiment continues the numbering.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub first_run: u32,
}

/// The move of a gang's thread to another CPU, between two of the thread's rounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GangMove {
    /// The number of measured rounds that the thread finishes before the move.
    pub after_rounds: u64,
    /// The moved thread, counted from 0.
    pub thread: usize,
    /// The CPU to which the thread moves.
    pub cpu: Cpu,
}

/// The reason why a plan of gangs cannot run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GangsError {
    /// A gang's program cannot run as described.
    #[error(transparent)]
    Program(#[from] GangError),
    /// No two CPUs are as near or as far apart as the requested placement needs.
    #[error("no two usable CPUs of {platform} are placed `{placing}` ({what}): omit this placing")]
    Placing {
        /// The placement that the plan requested for a gang.
        placing: Placing,
        /// The name of the platform that does not have the placement.
        platform: String,
        /// The relation that the CPUs of the placement must have, such as "no cache in common".
        what: &'static str,
    },
    /// A gang names the wrong number of CPUs, or a CPU that the platform lacks.
    #[error(
        "gang {gang} names the CPUs {cpus}: expected a CPU of {usable} for each of 2 to {MOST_THREADS} threads"
    )]
    Cpus {
        /// The number of the gang that has the error, counted from 0.
        gang: usize,
        /// The CPUs that the gang names.
        cpus: String,
        /// The CPUs that corehop may use on the platform.
        usable: String,
    },
    /// A gang has a move that cannot be made, or that the result rows could not show.
    #[error("the moves of gang {gang}: {what}; {remedy}")]
    Moves {
        /// The number of the gang that has the error, counted from 0.
        gang: usize,
        /// A description of the problem with the moves of the gang.
        what: String,
        /// The change to the plan that helps.
        remedy: &'static str,
    },
    /// A gang of the plan has no work.
    #[error("gang {gang} has no rounds to measure: give the gang at least one round")]
    Nothing {
        /// The number of the gang that has the error, counted from 0.
        gang: usize,
    },
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
const fn is_zero(number: &u32) -> bool {
    *number == 0
}

impl Gang {
    /// Returns a short description of the gang's work.
    pub fn name(&self) -> String {
        let cpus: Vec<String> = self.cpus.iter().map(|cpu| cpu.0.to_string()).collect();
        format!(
            "{} {} {}, sharing {}, {} on CPUs {}",
            self.program.word(),
            self.program.items(),
            self.program.parameters(),
            self.sharing,
            self.placing,
            cpus.join(",")
        )
    }
}

impl Gang {
    /// Returns the moves of a thread, in the order in which the moves happen.
    pub fn moves_of(&self, thread: usize) -> Vec<GangMove> {
        let its = |it: &&GangMove| it.thread == thread;
        let mut moves: Vec<GangMove> = self.moves.iter().filter(its).copied().collect();
        moves.sort_by_key(|it| it.after_rounds);
        moves
    }

    /// Returns the reason why the gang's moves cannot be made, with the remedy, or `None` if all moves are possible or
    /// the gang has no moves.
    fn wrong_move(&self, usable: &CpuList) -> Option<(String, &'static str)> {
        let moved = self.placing == Placing::Moved;
        if moved == self.moves.is_empty() {
            let what =
                format!("{} of them, and the placing is `{}`", self.moves.len(), self.placing);
            return Some((
                what,
                "call the placing `moved` where threads are moved, and only there",
            ));
        }
        self.moves.iter().find_map(|record| {
            if record.thread >= self.cpus.len() {
                let what = format!("thread {} of {}", record.thread, self.cpus.len());
                return Some((what, "threads are counted from 0"));
            }
            if !usable.contains(record.cpu) {
                return Some((format!("to CPU {}", record.cpu), "name a usable one"));
            }
            let late = record.after_rounds >= self.rounds;
            late.then(|| {
                let what = format!("after {} of {} rounds", record.after_rounds, self.rounds);
                (what, "move threads before their last round")
            })
        })
    }
}

impl Gangs {
    /// Checks whether `platform` can run the plan.
    ///
    /// # Errors
    /// Returns [`GangsError`] for the first gang that the platform cannot run.
    pub fn check(&self, platform: &Platform) -> Result<(), GangsError> {
        let usable = platform.usable();
        for (gang, it) in self.gangs.iter().enumerate() {
            it.program.check()?;
            let many = (2..=MOST_THREADS).contains(&it.cpus.len());
            if !many || !it.cpus.iter().all(|&cpu| usable.contains(cpu)) {
                let cpus: Vec<String> = it.cpus.iter().map(|cpu| cpu.0.to_string()).collect();
                let (cpus, usable) = (cpus.join(","), usable.to_string());
                return Err(GangsError::Cpus { gang, cpus, usable });
            }
            if it.rounds == 0 {
                return Err(GangsError::Nothing { gang });
            }
            if let Some((what, remedy)) = it.wrong_move(&usable) {
                return Err(GangsError::Moves { gang, what, remedy });
            }
        }
        Ok(())
    }

    /// Returns the number of runs of all gangs.
    pub fn runs(&self) -> u64 {
        self.gangs.iter().map(|gang| u64::from(gang.samples)).sum()
    }
}

impl Kind for Gangs {
    type Record = GangRecord;
    type Error = GangsError;

    fn fits(&self, platform: &Platform) -> Result<(), Self::Error> {
        self.check(platform)
    }

    fn amount(&self) -> Option<(&'static str, u64)> {
        Some(("gangs that run", self.runs()))
    }

    fn units(&self) -> Vec<SamplingUnit> {
        let each = Nanos::default();
        let unit = |gang: &Gang| SamplingUnit { name: gang.name(), asked: gang.samples, each };
        self.gangs.iter().map(unit).collect()
    }

    /// A gang without remaining runs stays in the plan because rows refer to gangs by their position.
    fn leave_out(&mut self, mut done: u64, _: u64) {
        for gang in &mut self.gangs {
            let skipped = gang.samples.min(u32::try_from(done).unwrap_or(u32::MAX));
            gang.samples -= skipped;
            gang.first_run += skipped;
            done -= u64::from(skipped);
        }
    }

    fn go_on(&mut self, more: Self) {
        for (gang, more) in self.gangs.iter_mut().zip(more.gangs) {
            gang.samples += more.samples;
        }
    }

    fn outline(&self, units: &[SamplingUnit], _: Option<usize>) -> String {
        format!(": {} gangs, {} runs", units.len(), samples(units))
    }

    fn row_kinds(&self) -> &'static [RowKind] {
        &[RowKind::SharedData]
    }

    fn projection<'a>(&'a self, at: ProjectionContext<'a>) -> Projection<'a, GangRecord> {
        Box::new(move |records, rows| {
            let of = |record| SharedData::of(self, at.context.seed, at.platform, record);
            rows.shared_data.extend(records.iter().flat_map(of));
        })
    }

    /// Counts one observation for each run of a gang, from the row of the gang's first thread.
    fn counting(&self, _: u64) -> Box<dyn RowCounting> {
        Box::new(|rows: &Rows| {
            let first_threads = rows.shared_data.iter().filter(|row| row.member == 0);
            first_threads.map(SharedData::observation).collect()
        })
    }

    /// Returns for each run of a gang the time that a round of its slowest thread took.
    fn times(rows: &Rows) -> Vec<RowTime> {
        let mut runs: BTreeMap<(u64, u64), (&SharedData, f64)> = BTreeMap::new();
        for row in &rows.shared_data {
            let round_ns = row.time_ns / row.rounds.max(1) as f64;
            let run = runs.entry((row.gang, row.run)).or_insert((row, round_ns));
            run.1 = run.1.max(round_ns);
        }
        runs.into_iter().map(|((_, run), (row, round_ns))| row.time(run, round_ns)).collect()
    }
}
