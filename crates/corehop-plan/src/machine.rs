// SPDX-License-Identifier: MIT OR Apache-2.0
//! The trait of machines: only a machine runs plans.

use serde_json::{Map, Value};

use crate::experiment::{Plan, PlanError};
use crate::kinds::{Kind, for_each_kind};
use crate::platform::Platform;
use crate::samples::{Batch, Projector, Rows, Sample};
use crate::stop::Stop;

/// A machine on which plans run. The live machine, the simulated machine and the replay of a trace implement this
/// trait; code that runs plans does not distinguish these machines.
pub trait Machine {
    /// Returns the description of the machine.
    fn platform(&self) -> &Platform;

    /// Runs `plan` and hands each record to `sink` soon after the recorded job or run has ended. Records of jobs
    /// and gangs come in order; records of a task set's jobs come in no particular order within a run.
    ///
    /// # Errors
    /// Returns [`MachineError`] if the plan does not fit the machine, or if the run fails; records handed over before
    /// the error stay valid.
    fn run(&mut self, plan: &Plan, sink: &mut dyn Sink) -> Result<RunEnd, MachineError>;

    /// Returns the machine's description of itself and of its runs so far, for the provenance of a result.
    fn provenance(&self) -> Map<String, Value>;
}

/// A sink takes records and can request the end of a run.
pub trait Sink {
    /// Takes a batch of records from the machine. Returns whether the run should continue; with false the run ends
    /// after the job in progress.
    ///
    /// # Errors
    /// Returns the error that prevents the sink from keeping the records; the error ends the run.
    fn take(&mut self, batch: Batch<'_>) -> Result<bool, SinkError>;

    /// Returns the condition on which the run must end even between two batches. A machine checks the condition
    /// often enough to end within a second, and then drops the record in progress.
    fn stop(&self) -> Stop {
        Stop::never()
    }
}

/// The reason why a sink could not take records.
pub type SinkError = Box<dyn std::error::Error + Send + Sync>;

/// Runs a plan and returns its rows.
///
/// # Errors
/// Returns [`MachineError`], as [`Machine::run`] does.
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

/// Runs a plan whose rows are samples, and returns the samples.
///
/// # Errors
/// Returns [`MachineError`], as [`Machine::run`] does.
pub fn samples_of(machine: &mut dyn Machine, plan: &Plan) -> Result<Vec<Sample>, MachineError> {
    Ok(rows_of(machine, plan)?.samples)
}

/// A sink that calls a function with each batch.
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
        /// The records of a run, kept in memory.
        #[derive(Debug, Clone, PartialEq, Default)]
        pub struct Records {
            $(
                #[doc = concat!("The records of plans of ", $what, ".")]
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

/// The way in which a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunEnd {
    /// All jobs of the plan have run.
    Complete,
    /// The sink requested the end of the run.
    Stopped,
}

/// The reason why a run ended before its plan was complete.
#[derive(Debug, thiserror::Error)]
pub enum MachineError {
    /// The plan does not fit the machine.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// The host lacks a privilege or a feature; `remedy` is the command or the change that helps.
    #[error("{what} is not possible here: {why}; {remedy}")]
    NotPossible {
        /// The request that the host cannot fulfil.
        what: String,
        /// The reason why the host cannot fulfil the request.
        why: String,
        /// The change that would make the request possible.
        remedy: String,
    },
    /// The host lacks a privilege or a feature; one text states the request, the reason and the remedy.
    #[error("{0}")]
    Refused(String),
    /// The host failed during the run.
    #[error("{what} failed: {why}; the data recorded so far is kept")]
    Failed {
        /// The action of the machine that failed.
        what: String,
        /// The error that the action returned.
        why: String,
    },
    /// A run of a program failed in a plan that compares runs.
    #[error(
        "run {run}, of arm `{arm}`, failed with exit status {status}: only successful runs are compared; correct the command, or the arm"
    )]
    RunFailed {
        /// The run of the plan, counted from 0.
        run: usize,
        /// The arm of the run that failed.
        arm: String,
        /// The exit code of the run, or 128 plus a signal number.
        status: i32,
    },
    /// The sink could not take records.
    #[error("no more rows could be written, but the rows written so far are kept: {0}")]
    Sink(#[source] SinkError),
}

/// Tests whether a working set is settled in the caches; on every machine, preparing
/// [`LineState::Valid`](crate::workload::LineState) means to settle the set.
///
/// A set that is much smaller than a cache that replaces by age settles in one or two passes. A set of another
/// size needs more passes: a victim cache that learns about reuse still evicts lines of the first passes, and a
/// set near a cache's size finds its place only gradually. Therefore passes continue until two consecutive passes
/// are not faster than the fastest pass before.
#[derive(Debug, Clone, Copy)]
pub struct SteadyStateTest {
    fastest: f64,
    not_faster: u32,
}

impl SteadyStateTest {
    /// The largest number of passes to settle a working set.
    pub const MOST_PASSES: u32 = 8;
    /// The ratio to the fastest earlier pass below which a pass counts as faster, so that the set is not yet
    /// settled.
    const FASTER: f64 = 0.995;

    /// Returns the state before the first pass.
    pub const fn new() -> Self {
        Self { fastest: f64::INFINITY, not_faster: 0 }
    }

    /// Returns whether the pass that took `time`, in any unit, is the second consecutive pass that is not faster.
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

    /// Returns the number of passes of the given times after which the working set is settled.
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
