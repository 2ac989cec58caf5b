// SPDX-License-Identifier: MIT OR Apache-2.0
//! A run of gangs: one plan on a machine, its threads written as runs end.

use corehop_core::experiment::GangPlan;
use corehop_core::machine::{Outcome, SinkError};
use corehop_core::samples::{GangRecord, SharedData};
use corehop_linux::supervisor::interrupt;
use serde_json::Value;

use super::output::Output;
use super::{Destination, Run, answer, provenance};
use crate::cmd::shared_data::GangRunner;
use crate::exit::{Exit, Failure};

impl Run {
    /// Runs a plan of gangs as it stands.
    pub(crate) fn gangs(
        &self,
        machine: &mut dyn GangRunner,
        plan: &GangPlan,
        parameters: Value,
    ) -> Result<Exit, Failure> {
        if matches!(self.destination, Destination::File { resume: true, .. }) {
            let what = "--resume goes on with runs of jobs: a run of gangs is repeated as a whole";
            return Err(Failure::says(Exit::Usage, what));
        }
        interrupt::install().map_err(|error| Failure::new(Exit::Failed, error))?;
        let platform = machine.platform().clone();
        let mut provenance = provenance::of(&*machine, &plan.experiment, plan.seed);
        provenance.parameters = parameters;
        provenance.note_text(&plan.to_json());
        let (mut output, _) = Output::<SharedData>::begin(&self.destination, &provenance)?;
        let mut runs = 0;
        let mut take = |record: &GangRecord| -> Result<bool, SinkError> {
            output.append(&SharedData::of(plan, &platform, record))?;
            runs += 1;
            Ok(!interrupt::requested())
        };
        let ended = machine.run_gangs(plan, &mut take);
        if ended.is_err() && runs == 0 {
            output.discard();
            return Ok(ended.map(|_| Exit::Done)?);
        }
        let stopped = ended.as_ref().is_ok_and(|outcome| *outcome == Outcome::Stopped);
        provenance.stopped_by = match &ended {
            Err(_) => Some("failure".to_owned()),
            Ok(_) => stopped.then(|| "interrupt".to_owned()),
        };
        provenance.cells_lacking_samples = u64::from(runs < plan.runs());
        let lacking = provenance.cells_lacking_samples as usize;
        let written = output.end(&provenance);
        ended?;
        let written = written?;
        if self.json {
            answer(written.as_deref(), runs, runs, provenance.stopped_by.as_deref(), lacking)?;
        }
        Ok(if stopped { Exit::Interrupted } else { Exit::Done })
    }
}
