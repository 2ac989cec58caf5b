// SPDX-License-Identifier: MIT OR Apache-2.0
//! The kinds of measurement; each kind has a folder of its own. Code that must exist for every kind is generated from
//! the two lists below (kinds and their rows), so that no kind can be forgotten.
//!
//! The folder of a kind has the body of its plans with its [`Kind`] (platform requirements, units, outline, counting),
//! the records that a machine hands over, its rows, and the conversion of records to rows.

mod count;
mod kind;
mod origin;
mod plan;
mod project;
mod table;
mod times;
mod unit;
pub mod column;
pub mod gangs;
pub mod jobs;
pub mod overheads;
pub mod program;
pub mod program_costs;
pub mod supply;
pub mod switches;
pub mod tasks;

/// The registry lists every kind of measurement once, in the order in which a terminal prints results; other macros
/// generate code from the list. An entry of the list has a variant, the noun for its plans, the name of its folder and
/// field, and the body of its plans, which implements [`Kind`].
#[macro_export]
macro_rules! for_each_kind {
    ($then:ident) => {
        $then! {
            /// The costs of scripted jobs that access working sets.
            Jobs, "jobs", jobs: $crate::kinds::jobs::Jobs;
            /// The running times of threads that share data.
            Gangs, "gangs", gangs: $crate::kinds::gangs::Gangs;
            /// The jobs of task sets under a scheduler.
            Tasks, "task sets", tasks: $crate::kinds::tasks::Tasks;
            /// The preemptions and migrations of a program that corehop records.
            Program, "program", program: $crate::kinds::program::Program;
            /// The costs of preemptions and migrations that corehop causes in a program.
            ProgramCosts, "program costs", program_costs: $crate::kinds::program_costs::Interventions;
            /// The scheduling overheads of the kernel.
            Overheads, "overheads", overheads: $crate::kinds::overheads::Overheads;
            /// The times of core switches by several mechanisms.
            Switches, "core switches", switches: $crate::kinds::switches::Switches;
            /// The gaps in which a CPU runs something else than the watching thread.
            Supply, "windows", supply: $crate::kinds::supply::Watch;
        }
    };
}
pub(crate) use for_each_kind;

/// Lists every kind of rows once, in the order of the reference pages. An entry of the list has a variant, the field of
/// its rows, the type of a row, the suffix of its file's name if it lies beside the plan's main file, and the
/// experiments that produce such rows.
macro_rules! for_each_row_kind {
    ($then:ident) => {
        $then! {
            /// Samples of costs.
            Samples, samples: $crate::kinds::Sample, None,
                "synthetic, polluter-sweep, conditions, schedule-sensitive";
            /// Times of touches.
            AccessTimes, access_times: $crate::kinds::AccessTime, None, "access-time";
            /// Lengths of absences.
            PreemptionLengths, preemption_lengths: $crate::kinds::PreemptionLength, None, "preemption-length";
            /// Threads of gangs.
            SharedData, shared_data: $crate::kinds::SharedData, None, "shared-data";
            /// Jobs of task sets.
            TaskJobs, task_jobs: $crate::kinds::TaskJob, Some("jobs"), "jobs of schedule-sensitive";
            /// Absences of a program's threads.
            Absences, absences: $crate::kinds::RecordedAbsence, None, "program";
            /// Threads of a program.
            Threads, threads: $crate::kinds::RecordedThread, Some("threads"), "threads of program";
            /// Runs of a program.
            Runs, runs: $crate::kinds::RecordedRun, Some("runs"), "runs of program";
            /// Blocks of a program with caused events.
            ProgramCosts, program_costs: $crate::kinds::CausedBlock, None, "program-costs";
            /// Times of scheduling overheads.
            Overheads, overheads: $crate::kinds::OverheadTime, None, "overheads";
            /// Batches of core switches.
            Switches, switches: $crate::kinds::SwitchBatch, None, "core-switch";
            /// Gaps in the supply of CPUs.
            Supply, supply: $crate::kinds::SupplyGap, None, "supply";
        }
    };
}
pub(crate) use for_each_row_kind;

pub use column::{Column, Row, SCHEMA_VERSION, SchemaError, Text};
pub use count::{RowCounter, RowCounting};
pub use gangs::*;
pub use jobs::*;
pub use kind::{Body, BodyError, Kind};
pub use origin::RowObservation;
pub use overheads::*;
pub use plan::{PLAN_SCHEMA, Plan, PlanError};
pub use program::*;
pub use program_costs::*;
pub use project::{Batch, Projection, ProjectionContext, Projector};
pub use supply::*;
pub use switches::*;
pub use table::{RowKind, Rows};
pub use tasks::*;
pub use times::RowTime;
pub use unit::SamplingUnit;
