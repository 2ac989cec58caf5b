// SPDX-License-Identifier: MIT OR Apache-2.0
//! Scheduling overheads of the kernel: the inputs of overhead-aware analysis.
//!
//! Measured in the kernel, between its own tracepoints (`kernel`), and from threads, which needs no
//! rights but says less (`threads`).

mod kernel;
mod streams;
mod threads;

use std::io;

use corehop_core::experiment::Overheads;
use corehop_core::machine::{MachineError, RunEnd, SinkError};
use corehop_core::samples::{OverheadFacts, OverheadRecord};

use crate::bpf::BpfError;
use crate::bpf::control::{ControlPages, Mode};
use crate::control_page::overhead;
use crate::live::LiveMachine;

/// The reason why nothing was measured.
#[derive(Debug, thiserror::Error)]
pub enum OverheadsError {
    /// A measuring thread could not be started or pinned.
    #[error("a measuring thread: {0}")]
    Threads(#[from] io::Error),
    /// A task set does not run.
    #[error(transparent)]
    Sets(#[from] MachineError),
    /// The kernel does not run corehop's programs.
    #[error(transparent)]
    NoBpf(#[from] BpfError),
}

impl From<OverheadsError> for MachineError {
    fn from(error: OverheadsError) -> Self {
        match error {
            OverheadsError::Sets(error) => error,
            other => {
                Self::Failed { what: "measuring overheads".to_owned(), why: other.to_string() }
            }
        }
    }
}

/// The receiver of records; it tells whether to go on. Without records it is only asked that.
pub type Take<'a> = dyn FnMut(&[OverheadRecord]) -> Result<bool, SinkError> + 'a;

/// Measures the overheads of a plan with this seed: below five seconds from threads, and a fifth for
/// each pair of CPUs; in the kernel, while the task sets run on `machine`, or while two threads
/// provoke what is measured.
///
/// # Errors
/// [`MachineError`], if a thread cannot be pinned, a task set does not run, or `take` fails.
pub fn overheads(
    plan: &Overheads,
    seed: u64,
    machine: &mut LiveMachine,
    take: &mut Take<'_>,
) -> Result<(OverheadFacts, RunEnd), MachineError> {
    let mut facts = OverheadFacts::default();
    if plan.in_kernel {
        let sets = plan.tasks.as_ref().map(|tasks| kernel::Sets { machine, tasks, seed });
        match kernel::measure(&plan.cpus, sets, &mut facts.missing, take) {
            Ok((observation, RunEnd::Stopped)) => {
                facts.recording = Some(observation);
                return Ok((facts, RunEnd::Stopped));
            }
            Ok((observation, RunEnd::Complete)) => facts.recording = Some(observation),
            Err(OverheadsError::NoBpf(error)) => {
                let why = format!("in the kernel, and by the number of tasks: {error}");
                facts.missing.push(why);
            }
            Err(error) => return Err(error.into()),
        }
    }
    let mut records =
        threads::measure(&plan.cpus, &mut facts.missing).map_err(OverheadsError::Threads)?;
    records.retain(|it| !it.ns.is_empty());
    let goes_on = take(&records).map_err(MachineError::Sink)?;
    control_page(plan, &mut facts);
    Ok((facts, if goes_on { RunEnd::Complete } else { RunEnd::Stopped }))
}

/// Rounds of handing over a byte: one second in total.
const GOES: u32 = 20;

fn control_page(plan: &Overheads, facts: &mut OverheadFacts) {
    let open = || ControlPages::open(Mode::Own);
    let cost = match plan.cpus.first() {
        Some(cpu) => overhead(cpu, GOES, open).map_err(|error| error.to_string()),
        None => Err("no CPU".to_owned()),
    };
    match cost {
        Ok(cost) => facts.control_page = Some(cost),
        Err(why) => facts.no_control_page = Some(why),
    }
}
