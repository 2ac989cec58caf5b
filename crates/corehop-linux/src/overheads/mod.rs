// SPDX-License-Identifier: MIT OR Apache-2.0
//! Measures the kernel's scheduling overheads, which are the inputs of overhead-aware analysis.
//!
//! The measurement uses the kernel's tracepoints (`kernel`), or threads (`threads`), which need no privileges but
//! show less.

mod kernel;
mod streams;
mod threads;

use std::io;
use std::sync::Arc;

use corehop_plan::experiment::{Overheads, Tasks};
use corehop_plan::machine::{MachineError, RunEnd, Sink, SinkError};
use corehop_plan::samples::{OverheadFacts, OverheadRecord};
use corehop_plan::stop::Stop;

use crate::bpf::BpfError;
use crate::bpf::control::{ControlPages, PagePurpose};
use crate::bpf::events::Events;
use crate::control_page::overhead;

/// The reason why nothing could be measured.
#[derive(Debug, thiserror::Error)]
pub(crate) enum KernelTimingError {
    /// A measuring thread could not be started or pinned.
    #[error("corehop cannot start or pin a measuring thread: {0}")]
    Threads(#[from] io::Error),
    /// A task set cannot be run.
    #[error(transparent)]
    Sets(#[from] MachineError),
    /// The kernel does not run corehop's BPF programs.
    #[error(transparent)]
    NoBpf(#[from] BpfError),
}

impl From<KernelTimingError> for MachineError {
    fn from(error: KernelTimingError) -> Self {
        match error {
            KernelTimingError::Sets(error) => error,
            other => {
                Self::Failed { what: "measuring overheads".to_owned(), why: other.to_string() }
            }
        }
    }
}

/// Receives the records, and returns whether to continue. Calls without records only query whether to continue.
pub(crate) type OverheadReceiver<'a> = dyn FnMut(&[OverheadRecord]) -> Result<bool, SinkError> + 'a;

/// Runs task sets, and starts recording these events at each start.
pub(crate) type RunSets<'a> =
    dyn FnMut(&Tasks, &Arc<Events>, &mut dyn Sink) -> Result<RunEnd, MachineError> + 'a;

/// Measures the overheads of a plan. The measurement from threads takes less than five seconds, plus a fifth of a
/// second for each pair of CPUs. The measurement in the kernel lasts while `run` runs the task sets, or while two
/// threads cause the events.
///
/// # Errors
/// Fails with [`MachineError`] if a thread cannot be pinned, a task set cannot be run, or `take` fails.
pub(crate) fn overheads(
    plan: &Overheads,
    run: &mut RunSets<'_>,
    (take, stop): (&mut OverheadReceiver<'_>, &Stop),
) -> Result<(OverheadFacts, RunEnd), MachineError> {
    let mut facts = OverheadFacts::default();
    if plan.in_kernel {
        let sets = plan.tasks.as_ref().map(|tasks| kernel::MeasuredTaskSets { tasks, run });
        match kernel::measure(&plan.cpus, sets, &mut facts.missing, (take, stop)) {
            Ok((observation, RunEnd::Stopped)) => {
                facts.recording = Some(observation);
                return Ok((facts, RunEnd::Stopped));
            }
            Ok((observation, RunEnd::Complete)) => facts.recording = Some(observation),
            Err(KernelTimingError::NoBpf(error)) => {
                let why = format!(
                    "overheads inside the kernel, and overheads by the number of tasks ({error})"
                );
                facts.missing.push(why);
            }
            Err(error) => return Err(error.into()),
        }
    }
    let mut records = threads::measure(&plan.cpus, &mut facts.missing, stop)
        .map_err(KernelTimingError::Threads)?;
    records.retain(|it| !it.ns.is_empty());
    let goes_on = take(&records).map_err(MachineError::Sink)?;
    if goes_on {
        control_page(plan, &mut facts);
    }
    Ok((facts, if goes_on { RunEnd::Complete } else { RunEnd::Stopped }))
}

/// The number of rounds in which a byte is handed over, one second in total.
const GOES: u32 = 20;

fn control_page(plan: &Overheads, facts: &mut OverheadFacts) {
    let open = || ControlPages::open(PagePurpose::Own);
    let cost = match plan.cpus.first() {
        Some(cpu) => overhead(cpu, GOES, open).map_err(|error| error.to_string()),
        None => Err("no CPU".to_owned()),
    };
    match cost {
        Ok(cost) => facts.control_page = Some(cost),
        Err(why) => facts.no_control_page = Some(why),
    }
}
