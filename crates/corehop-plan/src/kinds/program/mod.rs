// SPDX-License-Identifier: MIT OR Apache-2.0
//! A plan to record an unmodified program: corehop records the absences of the program's threads, in
//! one run or in runs that are compared.

mod absences;
mod bars;
mod binding;
mod facts;
mod record;
mod rooms;
mod rows;
pub mod trace_line;

pub use absences::{AbsenceCount, AbsenceKind, Absences, LastAbsence, Lengths};
pub use bars::{Bar, Bars};
pub use facts::{CpuHoldTime, GroupLimit, RecordingFacts, SwitchesTook, Took};
pub use record::{Absence, EndedRun, ObservedThread, ProgramRecord, Recording};
pub use rooms::Rooms;
pub use rows::{RecordedAbsence, RecordedRun, RecordedThread};

use std::collections::BTreeSet;
use std::fmt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::kinds::count::AsOne;
use crate::kinds::kind::samples;
use crate::kinds::{
    Kind, Projection, ProjectionContext, RowCounting, RowKind, RowTime, Rows, SamplingUnit,
};
use crate::platform::Platform;
use crate::shown;
use crate::units::{CpuList, Nanos};

/// The name of the experiment, with and without arms.
pub(crate) const NAME: &str = "program";

/// A plan to record one program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Program {
    /// The program that corehop records.
    pub target: Target,
    /// Whether corehop estimates the program's working set from the pages that the program touches.
    #[serde(default)]
    pub estimate_wss: bool,
    /// The compared ways of running the program; empty for a single recording.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub arms: Vec<Arm>,
    /// The runs of the arms, in order; empty for a single recording.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub runs: Vec<ProgramRun>,
}

/// An arm is one of the compared ways of running the program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Arm {
    /// The name of the arm in results.
    pub name: String,
    /// The words in front of the command; empty if the arm runs the command unchanged.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub prefix: Vec<Argument>,
}

impl Arm {
    /// The name of the arm that runs the command unchanged, with which corehop compares the other
    /// arms.
    pub const PLAIN: &'static str = "plain";
    /// The name of the arm that runs the unchanged command a second time. The difference of this arm
    /// from [`Arm::PLAIN`] is the A/A floor.
    pub const AGAIN: &'static str = "again";

    /// Makes an arm of this name that runs the command unchanged.
    pub fn unchanged(name: &str) -> Self {
        Self { name: name.to_owned(), prefix: Vec::new() }
    }
}

/// A run of the program in one of the arms.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProgramRun {
    /// The block to which the run belongs, counted from 0. corehop compares the runs of one block with
    /// each other.
    pub block: u32,
    /// The arm that the run belongs to, counted from 0.
    pub arm: usize,
}

/// The reason why runs of a program cannot be compared.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProgramError {
    /// The target is a process or a cgroup, which corehop cannot start again.
    #[error("{0} cannot run repeatedly: --arm and --repeat need a command after `--`")]
    NotACommand(String),
    /// The plan has two arms with one name.
    #[error("two arms have the name `{0}`: use distinct names")]
    Twice(String),
    /// An arm has a name that is reserved for the unchanged command.
    #[error("the arm `{0}` always exists and is the unchanged command: use another name")]
    Reserved(String),
    /// An arm runs the command unchanged.
    #[error("arm `{0}` has no command before the program: write for example `{0}=taskset -c 1`")]
    Unchanged(String),
    /// A run names an arm that the plan does not have.
    #[error(
        "run {run} names arm {arm}, but the plan has {arms} arms, counted from 0: correct one of the two"
    )]
    NoArm {
        /// The number of the run that has the error, counted from 0.
        run: usize,
        /// The arm that the run names.
        arm: usize,
        /// The number of arms in the plan.
        arms: usize,
    },
    /// The plan has arms, but no block of runs.
    #[error("--repeat 0 runs nothing: give 1 or more")]
    Nothing,
}

/// The threads that corehop follows while it records.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Target {
    /// A command with its arguments, from its start to its end.
    Command(Vec<Argument>),
    /// A process and its descendants, until the process ends.
    Process(u32),
    /// The processes of a cgroup and their descendants, until the cgroup is removed.
    Cgroup(PathBuf),
}

/// An argument of a command is text, or its bytes if they are not UTF-8.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Argument {
    /// The argument is text in UTF-8.
    Text(String),
    /// An argument whose bytes are not UTF-8.
    Bytes(Vec<u8>),
}

impl Argument {
    /// Returns the argument that has the given bytes.
    pub fn new(bytes: Vec<u8>) -> Self {
        String::from_utf8(bytes).map_or_else(|not| Self::Bytes(not.into_bytes()), Self::Text)
    }

    /// Returns the bytes of the argument.
    pub const fn bytes(&self) -> &[u8] {
        match self {
            Self::Text(text) => text.as_bytes(),
            Self::Bytes(bytes) => bytes.as_slice(),
        }
    }
}

impl fmt::Display for Argument {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&String::from_utf8_lossy(self.bytes()))
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Command(words) => {
                let words: Vec<String> = words.iter().map(ToString::to_string).collect();
                f.write_str(&words.join(" "))
            }
            Self::Process(pid) => write!(f, "process {pid}"),
            Self::Cgroup(path) => write!(f, "cgroup {}", shown::path(path)),
        }
    }
}

impl Program {
    /// Makes a plan for a single recording of `target`.
    pub const fn once(target: Target, estimate_wss: bool) -> Self {
        Self { target, estimate_wss, arms: Vec::new(), runs: Vec::new() }
    }

    /// Returns the name of a run's arm, and the run's block; [`Arm::PLAIN`] and block 0 if the plan
    /// does not have the run.
    pub fn place(&self, run: usize) -> (&str, u32) {
        let arm = |run: &ProgramRun| Some((self.arms.get(run.arm)?.name.as_str(), run.block));
        self.runs.get(run).and_then(arm).unwrap_or((Arm::PLAIN, 0))
    }

    /// Returns the target of a run: the plan's command with the words of the run's arm in front.
    pub fn target_of(&self, run: &ProgramRun) -> Target {
        match (&self.target, self.arms.get(run.arm)) {
            (Target::Command(words), Some(arm)) => {
                Target::Command([arm.prefix.as_slice(), words].concat())
            }
            (target, _) => target.clone(),
        }
    }

    /// Returns the CPUs to which the words of a run's arm bind the command, or `None` if the words
    /// name no CPU.
    pub fn bound_to(&self, run: usize) -> Option<CpuList> {
        binding::cpus_of(&self.arms.get(self.runs.get(run)?.arm)?.prefix)
    }

    /// Checks whether the arms and runs of the plan fit together.
    ///
    /// # Errors
    /// Returns [`ProgramError`] for the first arm or run that does not fit.
    pub fn check(&self) -> Result<(), ProgramError> {
        if !self.arms.is_empty() && !matches!(self.target, Target::Command(_)) {
            return Err(ProgramError::NotACommand(self.target.to_string()));
        }
        let mut names = BTreeSet::new();
        if let Some(arm) = self.arms.iter().find(|arm| !names.insert(&arm.name)) {
            return Err(ProgramError::Twice(arm.name.clone()));
        }
        let arms = self.arms.len();
        match self.runs.iter().enumerate().find(|(_, run)| run.arm >= arms) {
            Some((run, it)) => Err(ProgramError::NoArm { run, arm: it.arm, arms }),
            None => Ok(()),
        }
    }
}

impl Kind for Program {
    type Record = ProgramRecord;
    type Error = ProgramError;
    const ONLY_LIVE: Option<&'static str> = Some("recording a program");

    fn fits(&self, _: &Platform) -> Result<(), Self::Error> {
        self.check()
    }

    fn amount(&self) -> Option<(&'static str, u64)> {
        if !self.arms.is_empty() {
            return Some(("runs", self.runs.len() as u64));
        }
        match &self.target {
            Target::Command(words) => Some(("command", words.len() as u64)),
            Target::Process(_) | Target::Cgroup(_) => None,
        }
    }

    /// Returns one unit for each arm, with its number of runs; without arms, one unit of unknown
    /// length.
    fn units(&self) -> Vec<SamplingUnit> {
        let unit = |name: String, asked| SamplingUnit { name, asked, each: Nanos::default() };
        if self.arms.is_empty() {
            return vec![unit(self.target.to_string(), 1)];
        }
        let runs = |arm| self.runs.iter().filter(|run| run.arm == arm).count() as u32;
        let of = |(at, arm): (usize, &Arm)| unit(arm.name.clone(), runs(at));
        self.arms.iter().enumerate().map(of).collect()
    }

    fn leave_out(&mut self, done: u64, _: u64) {
        self.runs.drain(..self.runs.len().min(done as usize));
    }

    fn go_on(&mut self, more: Self) {
        self.runs.extend(more.runs);
    }

    fn is_whole(&self) -> Option<&'static str> {
        self.arms.is_empty().then_some("a program")
    }

    fn outline(&self, units: &[SamplingUnit], _: Option<usize>) -> String {
        if self.arms.is_empty() {
            return String::new();
        }
        format!(": {} arms, {} runs of {}", units.len(), samples(units), self.target)
    }

    fn row_kinds(&self) -> &'static [RowKind] {
        &RowKind::OF_RECORDING
    }

    fn projection<'a>(&'a self, at: ProjectionContext<'a>) -> Projection<'a, ProgramRecord> {
        let (mut under_way, platform, seed) = (0, at.platform, at.context.seed);
        Box::new(move |records, rows| {
            for record in records {
                let run = at.first + under_way as u64;
                match record {
                    ProgramRecord::Begin(run) => under_way = *run,
                    ProgramRecord::Absence(absence) => {
                        rows.absences.push(RecordedAbsence::of(platform, seed, run, absence));
                    }
                    ProgramRecord::Thread(thread) => {
                        rows.threads.push(RecordedThread::of(platform, seed, run, thread));
                    }
                    ProgramRecord::End(ended) => {
                        let (arm, block) = self.place(under_way);
                        rows.runs.push(RecordedRun::of(platform, seed, (run, arm, block), ended));
                    }
                }
            }
        })
    }

    /// Counts one observation for each run of an arm; without arms, all rows count as one observation.
    fn counting(&self, _: u64) -> Box<dyn RowCounting> {
        if self.arms.is_empty() {
            return Box::new(AsOne);
        }
        let arms: Vec<String> = self.arms.iter().map(|arm| arm.name.clone()).collect();
        Box::new(move |rows: &Rows| {
            rows.runs.iter().filter_map(|row| row.observation(&arms)).collect()
        })
    }

    /// A program has no row times because the rows of its runs are in a separate file from its
    /// absences.
    fn times(_: &Rows) -> Vec<RowTime> {
        Vec::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::Plan;

    #[test]
    fn an_argument_that_is_not_text_survives_the_plan() {
        let words = [b"xz".to_vec(), vec![0xff, b'a'], b"caf\xc3\xa9".to_vec()];
        let target = Target::Command(words.iter().cloned().map(Argument::new).collect());
        let plan = Plan::new("program", 1, Program::once(target, true));
        let again = Plan::from_json(&plan.to_json()).unwrap();
        assert_eq!(again, plan);
        let program = again.program().unwrap();
        let Target::Command(again) = &program.target else { unreachable!("a command") };
        assert!(again.iter().map(Argument::bytes).eq(words.iter().map(Vec::as_slice)));
        assert_eq!(program.target.to_string(), "xz \u{fffd}a café");
    }
}
