// SPDX-License-Identifier: MIT OR Apache-2.0
//! Records a program: once, or in repeated runs whose arms are compared.

use corehop_plan::experiment::{Program, ProgramRun, Target};
use corehop_plan::machine::{MachineError, RunEnd, Sink};
use corehop_plan::samples::{Batch, EndedRun, ProgramRecord, RecordingFacts};
use serde_json::json;

use super::LiveMachine;
use crate::observe::{How, check_command, record};
use corehop_system::supervisor::interrupt;

impl LiveMachine {
    /// Records the runs of a plan.
    pub(super) fn record(
        &mut self,
        program: &Program,
        sink: &mut dyn Sink,
    ) -> Result<RunEnd, MachineError> {
        if program.arms.is_empty() {
            let mut whole = OneRun { number: 0, is_whole: false, goes_on: true, sink };
            let (facts, end) = self.run_of(program, &program.target, &mut whole)?;
            self.facts.insert(RecordingFacts::KEY.to_owned(), json!(facts));
            return Ok(end);
        }
        let all = (0..program.arms.len()).map(|arm| ProgramRun { block: 0, arm });
        for run in all {
            check_command(&program.target_of(&run))?;
        }
        for (number, run) in program.runs.iter().enumerate() {
            let mut one = OneRun { number, is_whole: true, goes_on: true, sink };
            let (facts, end) = self.run_of(program, &program.target_of(run), &mut one)?;
            let goes_on = one.goes_on;
            self.note_run(program, facts.clone());
            if end == RunEnd::Stopped || interrupt::requested() {
                return Ok(RunEnd::Stopped);
            }
            if let Some(status) = facts.status.filter(|&status| status != 0) {
                let (arm, _) = program.place(number);
                return Err(MachineError::RunFailed { run: number, arm: arm.to_owned(), status });
            }
            if !goes_on {
                return Ok(RunEnd::Stopped);
            }
        }
        Ok(RunEnd::Complete)
    }

    /// Records one run. The last record describes the whole run, unless the run was interrupted.
    fn run_of(
        &self,
        program: &Program,
        target: &Target,
        one: &mut OneRun<'_>,
    ) -> Result<(RecordingFacts, RunEnd), MachineError> {
        let how = How {
            estimate_wss: program.estimate_wss,
            to_stderr: self.options.output_to_stderr,
            method: None,
        };
        one.take(&[ProgramRecord::Begin(one.number)]).map_err(MachineError::Sink)?;
        let mut threads = Vec::new();
        let (facts, end) = record(target, &how, &mut |records| {
            threads.extend(records.iter().filter_map(|record| match record {
                ProgramRecord::Thread(thread) => Some(thread.clone()),
                ProgramRecord::Begin(_) | ProgramRecord::Absence(_) | ProgramRecord::End(_) => None,
            }));
            one.take(records)
        })?;
        // An interrupted run is none that others can be compared with.
        if !(one.is_whole && interrupt::requested()) {
            let bound_to = program.bound_to(one.number);
            let ended = EndedRun { bound_to, ..EndedRun::of(&facts, &threads) };
            let ended = ProgramRecord::End(ended);
            one.take(&[ended]).map_err(MachineError::Sink)?;
        }
        Ok((facts, end))
    }

    /// Adds the facts of a run to the facts of earlier runs.
    fn note_run(&mut self, program: &Program, facts: RecordingFacts) {
        let begin = || RecordingFacts::before_runs(program.target.to_string(), facts.began_ns);
        let mut all = RecordingFacts::of(&self.facts).unwrap_or_else(begin);
        all.add(facts);
        self.facts.insert(RecordingFacts::KEY.to_owned(), json!(all));
    }
}

/// Passes the records of one run to the sink.
struct OneRun<'a> {
    number: usize,
    /// Whether the run must complete even if no further run follows.
    is_whole: bool,
    goes_on: bool,
    sink: &'a mut dyn Sink,
}

impl OneRun<'_> {
    /// Passes records on; returns whether the run continues.
    fn take(
        &mut self,
        records: &[ProgramRecord],
    ) -> Result<bool, corehop_plan::machine::SinkError> {
        self.goes_on &= self.sink.take(Batch::Program(records))?;
        Ok(if self.is_whole { !interrupt::requested() } else { self.goes_on })
    }
}
