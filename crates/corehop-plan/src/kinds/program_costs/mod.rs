// SPDX-License-Identifier: MIT OR Apache-2.0
//! A plan to cause preemptions and migrations in a program: blocks of the program's time, or of its runs, with events
//! at several rates.

mod rows;

pub use rows::CausedBlock;

use serde::{Deserialize, Serialize};

use crate::kinds::kind::samples;
use crate::kinds::{
    Kind, Projection, ProjectionContext, RowCounting, RowKind, RowTime, Rows, SamplingUnit, Target,
    Text,
};
use crate::platform::Platform;
use crate::units::Nanos;
use crate::workload::{Event, Polluter};

/// The name by which the experiment is known to users.
pub(crate) const NAME: &str = "program-costs";

/// A plan of blocks of a program; corehop causes events in the blocks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Interventions {
    /// The program in which corehop causes events.
    pub target: Target,
    /// The measure of the program's progress, as `--progress` names it. If there is no measure of progress, a block
    /// is one run of the command.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress: Option<String>,
    /// The length of a block if the plan has a measure of progress.
    pub block: Nanos,
    /// The share of the program's time that the events may cost on average over all blocks, 0 to 1.
    pub share: f64,
    /// The lengths of preemptions and of idle leaves: each is a class of its own.
    pub lengths: Vec<Nanos>,
    /// The work of preemptors: each is a class of its own.
    pub preemptors: Vec<Polluter>,
    /// The events: migrations of a class, preemptions, and idle leaves.
    pub events: Vec<Event>,
    /// The blocks of the plan, in order.
    pub blocks: Vec<InterventionBlock>,
}

/// The events that have blocks of their own.
#[derive(Debug, Clone, PartialEq)]
pub struct InterventionClass {
    /// The event that the blocks of the class cause.
    pub event: Event,
    /// The length of a preemption or of an idle leave; `None` for migrations.
    pub length: Option<Nanos>,
    /// The work of the preemptor; `None` if nothing runs in the place of the thread.
    pub preemptor: Option<Polluter>,
}

impl std::fmt::Display for InterventionClass {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.event)?;
        self.length.map_or(Ok(()), |length| write!(f, " of {length}"))?;
        self.preemptor.as_ref().map_or(Ok(()), |it| write!(f, " by {it}"))
    }
}

/// A block: a part of the program's time, or a run, with events at one rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InterventionBlock {
    /// The round to which the block belongs.
    pub round: u32,
    /// The class of the block's events, as an index into [`Interventions::classes`].
    pub class: usize,
    /// The rate of events as a multiple of the lowest rate; 0 for no events.
    pub dose: u32,
}

/// The reason why corehop cannot cause the planned events.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum InterventionError {
    /// The plan names an event that corehop causes in no running program, or that the machine lacks.
    #[error(
        "corehop cannot cause {event} in a program on this machine: name some of {known} (--event)"
    )]
    Event {
        /// The event that the plan names.
        event: Event,
        /// The events that corehop can cause, separated by commas.
        known: String,
    },
    /// The plan names no event, or names an event twice.
    #[error("name at least one class of event, and each class once: for example preemption")]
    Events,
    /// The plan names no length of preemptions, or names a length twice.
    #[error("name at least one length of preemptions, and each length once: for example 1ms")]
    Lengths,
    /// The plan names no preemptor, or names a preemptor twice.
    #[error(
        "name at least one size of preemptors, and each size once: for example 512KiB (--preemptor)"
    )]
    Preemptors,
    /// A block names a class of events that the plan does not have.
    #[error(
        "a block names class {class}, but the plan has {classes}, counted from 0: correct one of the two"
    )]
    Block {
        /// The class that the block names.
        class: usize,
        /// The number of classes in the plan.
        classes: usize,
    },
    /// A quantity of the plan is out of bounds.
    #[error("{what} of {value}: expected {expected}")]
    Quantity {
        /// The name of the quantity that is out of bounds.
        what: &'static str,
        /// The value that the plan states.
        value: String,
        /// The bounds between which the quantity must lie.
        expected: String,
    },
    /// The target is no command, so corehop cannot start it again for every block, which a plan without a measure of
    /// progress needs.
    #[error("{0} cannot run repeatedly: name its --progress, or give a command after `--`")]
    NotACommand(String),
}

impl Interventions {
    /// The shortest block, which lasts several periods of the scheduler tick.
    pub const SHORTEST: Nanos = Nanos::from_millis(20);
    /// The longest block that a plan may request.
    pub const LONGEST: Nanos = Nanos::from_secs(10);
    /// The shortest preemption; a context switch alone takes some microseconds.
    pub const BRIEFEST: Nanos = Nanos::from_micros(20);
    /// The longest preemption that a plan may request.
    pub const MOST_ABSENT: Nanos = Nanos::from_millis(50);
    /// The largest share of a program's time that a plan allows the program to lose.
    pub const MOST_SHARE: f64 = 0.5;

    /// Checks whether `platform` can run the plan.
    ///
    /// # Errors
    /// Returns [`InterventionError`] for the part of the plan that does not fit.
    pub fn check(&self, platform: &Platform) -> Result<(), InterventionError> {
        self.check_events(platform)?;
        between("a block", self.block, Self::SHORTEST, Self::LONGEST)?;
        self.check_lengths()?;
        if !names_each_once(&self.preemptors) {
            return Err(InterventionError::Preemptors);
        }
        if !(self.share > 0.0 && self.share <= Self::MOST_SHARE) {
            return Err(InterventionError::Quantity {
                what: "a share",
                value: format!("{} %", 100.0 * self.share),
                expected: format!("more than 0 and at most {} %", 100.0 * Self::MOST_SHARE),
            });
        }
        if self.progress.is_none() && !matches!(self.target, Target::Command(_)) {
            return Err(InterventionError::NotACommand(self.target.to_string()));
        }
        let classes = self.classes().len();
        match self.blocks.iter().find(|block| block.class >= classes) {
            Some(block) => Err(InterventionError::Block { class: block.class, classes }),
            None => Ok(()),
        }
    }

    /// Returns the events that corehop can cause on `platform`, preemptions and migrations first.
    pub fn known(platform: &Platform) -> Vec<Event> {
        [Event::on(platform), vec![Event::IdleLeave]].concat()
    }

    /// Returns the classes of events, each of which has its own blocks: migrations, idle leaves by length, and
    /// preemptions by length and preemptor.
    pub fn classes(&self) -> Vec<InterventionClass> {
        let class = |event, length, preemptor| InterventionClass { event, length, preemptor };
        let of = |&event: &Event| -> Vec<InterventionClass> {
            let lengths = self.lengths.iter().map(|&it| Some(it));
            match event {
                Event::Preemption => lengths
                    .flat_map(|length| {
                        self.preemptors.iter().map(move |it| class(event, length, Some(it.clone())))
                    })
                    .collect(),
                Event::IdleLeave => lengths.map(|length| class(event, length, None)).collect(),
                _ => vec![class(event, None, None)],
            }
        };
        self.events.iter().flat_map(of).collect()
    }

    fn check_lengths(&self) -> Result<(), InterventionError> {
        for &length in &self.lengths {
            between("a preemption", length, Self::BRIEFEST, Self::MOST_ABSENT)?;
        }
        if names_each_once(&self.lengths) { Ok(()) } else { Err(InterventionError::Lengths) }
    }

    fn check_events(&self, platform: &Platform) -> Result<(), InterventionError> {
        let known = Self::known(platform);
        if let Some(&event) = self.events.iter().find(|event| !known.contains(event)) {
            let words: Vec<&str> = known.iter().map(|event| event.word()).collect();
            return Err(InterventionError::Event { event, known: words.join(", ") });
        }
        if names_each_once(&self.events) { Ok(()) } else { Err(InterventionError::Events) }
    }
}

/// Returns whether a list has at least one element and no element twice.
fn names_each_once<T: PartialEq>(all: &[T]) -> bool {
    let is_new = |(at, it): (usize, &T)| !all[..at].contains(it);
    !all.is_empty() && all.iter().enumerate().all(is_new)
}

fn between(
    what: &'static str,
    value: Nanos,
    least: Nanos,
    most: Nanos,
) -> Result<(), InterventionError> {
    if (least..=most).contains(&value) {
        return Ok(());
    }
    let (value, expected) = (value.to_string(), format!("{least} to {most}"));
    Err(InterventionError::Quantity { what, value, expected })
}

/// The machine's record of a block. The times of the record are in nanoseconds.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct CausedRecord {
    /// The index of the block in the plan, counted from 0.
    pub block: u64,
    /// The number of events that the machine caused.
    pub events: u64,
    /// The number of events that the machine tried to cause.
    pub tried: u64,
    /// The time for which preemptors had the CPUs.
    pub preemptors_ns: f64,
    /// The CPU time that the program used in the block.
    pub cpu_ns: f64,
    /// The progress that the program made in the block.
    pub progress: f64,
    /// The length of the block in wall time.
    pub wall_ns: f64,
    /// The number of threads at the beginning of the block.
    pub threads: u64,
    /// The time that two CPUs of the class need to exchange a line.
    pub exchange_ns: Option<f64>,
    /// The reason why the block is not valid.
    pub invalid: Option<String>,
}

impl CausedRecord {
    fn row(&self, at: &ProjectionContext<'_>, plan: &Interventions) -> Option<CausedBlock> {
        let planned = plan.blocks.get(usize::try_from(self.block).ok()?)?;
        let InterventionClass { event, length, preemptor } =
            plan.classes().into_iter().nth(planned.class)?;
        Some(CausedBlock {
            machine: at.context.machine.clone(),
            seed: at.context.seed,
            block: at.first + self.block,
            replicate: u64::from(planned.round),
            event,
            dose: u64::from(planned.dose),
            events: self.events,
            tried: self.tried,
            asked_ns: length.map(|it| it.get() as f64),
            polluter: preemptor.map(|it| Text::from(it.to_string().as_str())),
            preemptors_ns: self.preemptors_ns,
            cpu_ns: self.cpu_ns,
            progress: self.progress,
            wall_ns: self.wall_ns,
            threads: self.threads,
            exchange_ns: self.exchange_ns,
            invalid: self.invalid.as_deref().map(Into::into),
        })
    }
}

impl Kind for Interventions {
    type Record = CausedRecord;
    type Error = InterventionError;
    const ONLY_LIVE: Option<&'static str> = Some("causing events in a program");

    fn fits(&self, platform: &Platform) -> Result<(), Self::Error> {
        self.check(platform)
    }

    fn amount(&self) -> Option<(&'static str, u64)> {
        Some(("blocks", self.blocks.len() as u64))
    }

    /// Returns one unit for each class of events, with its number of blocks.
    fn units(&self) -> Vec<SamplingUnit> {
        let each = if self.progress.is_some() { self.block } else { Nanos::default() };
        let unit = |(at, class): (usize, &InterventionClass)| {
            let asked = self.blocks.iter().filter(|block| block.class == at).count() as u32;
            SamplingUnit { name: class.to_string(), asked, each }
        };
        self.classes().iter().enumerate().map(unit).collect()
    }

    fn leave_out(&mut self, done: u64, _: u64) {
        self.blocks.drain(..self.blocks.len().min(done as usize));
    }

    fn go_on(&mut self, more: Self) {
        self.blocks.extend(more.blocks);
    }

    fn is_whole(&self) -> Option<&'static str> {
        Some("a program")
    }

    fn outline(&self, units: &[SamplingUnit], _: Option<usize>) -> String {
        let what = if self.progress.is_some() { "blocks" } else { "runs" };
        format!(": {} classes of events, {} {what} of {}", units.len(), samples(units), self.target)
    }

    fn row_kinds(&self) -> &'static [RowKind] {
        &[RowKind::ProgramCosts]
    }

    fn projection<'a>(&'a self, at: ProjectionContext<'a>) -> Projection<'a, CausedRecord> {
        Box::new(move |records, rows| {
            rows.program_costs.extend(records.iter().filter_map(|record| record.row(&at, self)));
        })
    }

    /// Counts one observation for each block, in the class of the block.
    fn counting(&self, _: u64) -> Box<dyn RowCounting> {
        let classes = self.classes();
        Box::new(move |rows: &Rows| {
            rows.program_costs.iter().filter_map(|row| row.observation(&classes)).collect()
        })
    }

    fn times(rows: &Rows) -> Vec<RowTime> {
        rows.program_costs.iter().filter_map(CausedBlock::time).collect()
    }
}
