// SPDX-License-Identifier: MIT OR Apache-2.0
//! The seam: the only thing that runs a plan.

use serde_json::{Map, Value};

use crate::experiment::{Plan, PlanError};
use crate::kinds::{Kind, for_each_kind};
use crate::platform::Platform;
use crate::samples::{Batch, Projector, Rows, Sample};
use crate::stop::Stop;

/// A machine on which plans run. There are two, live and simulated, and nothing above this trait
/// knows which.
pub trait Machine {
    /// The description of the machine.
    fn platform(&self) -> &Platform;

    /// Runs `plan`, handing records to `sink` soon after what they are of has ended: those of jobs and
    /// gangs in order, those of a task set's jobs in no particular order within a run.
    ///
    /// # Errors
    /// [`MachineError`]; the records handed over before it remain good.
    fn run(&mut self, plan: &Plan, sink: &mut dyn Sink) -> Result<RunEnd, MachineError>;

    /// The machine's description of itself and of its runs so far, for the provenance.
    fn provenance(&self) -> Map<String, Value>;
}

/// A sink takes records, and may ask for an end.
pub trait Sink {
    /// Takes some records. Whether the run should go on: false ends it after what is under way.
    ///
    /// # Errors
    /// The error that keeps it from keeping them; the run ends then.
    fn take(&mut self, batch: Batch<'_>) -> Result<bool, SinkError>;

    /// Whether the run has to end between two batches too. A machine asks this often enough to end within a second,
    /// and gives up the record under way.
    fn stop(&self) -> Stop {
        Stop::never()
    }
}

/// Why a sink could not take records.
pub type SinkError = Box<dyn std::error::Error + Send + Sync>;

/// Carries out a plan; its rows, in memory.
///
/// # Errors
/// As [`Machine::run`].
pub fn rows_of(machine: &mut dyn Machine, plan: &Plan) -> Result<Rows, MachineError> {
    struct InMemory<'a> {
        projector: Projector<'a>,
        rows: Rows,
    }
    impl Sink for InMemory<'_> {
        fn take(&mut self, batch: Batch<'_>) -> Result<bool, SinkError> {
            self.rows.append(self.projector.rows(batch));
            Ok(true)
        }
    }
    let platform = machine.platform().clone();
    let projector = Projector::new(plan, &platform, 0);
    let mut sink = InMemory { projector, rows: Rows::default() };
    machine.run(plan, &mut sink)?;
    Ok(sink.rows)
}

/// The same, of a plan whose rows are samples.
///
/// # Errors
/// As [`Machine::run`].
pub fn samples_of(machine: &mut dyn Machine, plan: &Plan) -> Result<Vec<Sample>, MachineError> {
    Ok(rows_of(machine, plan)?.samples)
}

/// A sink that is a function of each batch.
pub struct SinkFn<F>(pub F);

impl<F> std::fmt::Debug for SinkFn<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SinkFn").finish_non_exhaustive()
    }
}

impl<F: FnMut(Batch<'_>) -> Result<bool, SinkError>> Sink for SinkFn<F> {
    fn take(&mut self, batch: Batch<'_>) -> Result<bool, SinkError> {
        (self.0)(batch)
    }
}

macro_rules! records {
    ($($(#[doc = $doc:literal])+ $kind:ident, $what:literal, $name:ident: $body:ty;)+) => {
        /// The records of a run, in memory.
        #[derive(Debug, Clone, PartialEq, Default)]
        pub struct Records {
            $(
                #[doc = concat!("Of ", $what, ".")]
                pub $name: Vec<<$body as Kind>::Record>
            ),+
        }

        impl Sink for Records {
            fn take(&mut self, batch: Batch<'_>) -> Result<bool, SinkError> {
                match batch { $(Batch::$kind(records) => self.$name.extend_from_slice(records)),+ }
                Ok(true)
            }
        }
    };
}

for_each_kind!(records);

/// The end of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunEnd {
    /// All jobs have run.
    Complete,
    /// The sink asked for the end.
    Stopped,
}

/// Why a run ended before its plan did.
#[derive(Debug, thiserror::Error)]
pub enum MachineError {
    /// The plan does not fit the machine.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// The host lacks a privilege or a feature; `remedy` is what to type or to change.
    #[error("{what} is not possible here: {why}; {remedy}")]
    NotPossible {
        /// The request.
        what: String,
        /// Why it cannot be.
        why: String,
        /// The change that would make it possible.
        remedy: String,
    },
    /// The same, in the words of the refusing part: what, why and the remedy.
    #[error("{0}")]
    Refused(String),
    /// The host failed midway.
    #[error("{what} failed: {why}; the data recorded so far is kept")]
    Failed {
        /// The action.
        what: String,
        /// The error.
        why: String,
    },
    /// A run of a program failed, where runs are compared.
    #[error(
        "run {run}, of arm `{arm}`, failed with exit status {status}: only successful runs are compared; correct the command, or the arm"
    )]
    RunFailed {
        /// The run of the plan, counted from 0.
        run: usize,
        /// Its arm.
        arm: String,
        /// Its exit code, or 128 plus a signal.
        status: i32,
    },
    /// The sink could not take records.
    #[error("no more rows could be written, but the rows written so far are kept: {0}")]
    Sink(#[source] SinkError),
}

/// Whether a working set is at rest in the caches: what preparing it as
/// [`LineState::Valid`](crate::workload::LineState) means on every machine.
///
/// One or two passes do for a set well within a cache that replaces by age. Others take more: a
/// victim cache that learns what is used again still gives up lines of the first passes, and a set
/// near a cache's size finds its places there only little by little. So passes go on until two in a
/// row are not faster than those before.
#[derive(Debug, Clone, Copy)]
pub struct SteadyStateTest {
    fastest: f64,
    not_faster: u32,
}

impl SteadyStateTest {
    /// The most passes that bring a working set to rest.
    pub const MOST_PASSES: u32 = 8;
    /// The gain over the fastest pass before it that shows a set which is not at rest.
    const FASTER: f64 = 0.995;

    /// Before the first pass.
    pub const fn new() -> Self {
        Self { fastest: f64::INFINITY, not_faster: 0 }
    }

    /// Whether the pass that took `time`, in any unit, is the second in a row that is not faster.
    pub fn is_reached_by(&mut self, time: f64) -> bool {
        self.not_faster = if time < self.fastest * Self::FASTER { 0 } else { self.not_faster + 1 };
        self.fastest = self.fastest.min(time);
        self.not_faster == 2
    }
}

impl Default for SteadyStateTest {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The number of passes after which passes of these times are at rest.
    fn passes(times: &[f64]) -> Option<usize> {
        let mut rest = SteadyStateTest::new();
        times.iter().position(|&time| rest.is_reached_by(time)).map(|index| index + 1)
    }

    #[test]
    fn a_set_is_at_rest_after_two_passes_that_are_not_faster() {
        assert_eq!(passes(&[5.8, 6.3, 6.3, 6.3]), Some(3));
        assert_eq!(passes(&[100.0, 70.0, 69.9, 69.8, 50.0]), Some(4));
        assert_eq!(
            passes(&[7_452.0, 4_199.0, 2_754.0, 2_512.0, 2_476.0, 2_477.0, 2_474.0]),
            Some(7)
        );
        assert_eq!(passes(&[9.0, 8.0, 7.0, 6.0]), None);
    }

    #[test]
    fn one_disturbed_pass_does_not_look_like_rest() {
        assert_eq!(passes(&[100.0, 70.0, 900.0, 50.0, 40.0, 40.0, 40.0]), Some(7));
    }
}
