// SPDX-License-Identifier: MIT OR Apache-2.0
//! The records of a machine, their rows, and the files that contain them.
//!
//! A row holds raw intervals and what may have disturbed them. What a delay is, is not decided here:
//! that is a named estimator of `corehop_stats`.

mod rooms;
mod absences;
mod bars;
mod column;
mod count;
pub mod damage;
pub mod example;
mod error;
mod gang;
mod message;
mod missing;
mod facts;
mod observed;
mod overhead;
pub mod parquet_sums;
mod origin;
mod project;
mod provenance;
mod record;
mod row;
mod seen;
pub mod store;
mod stream;
mod supply;
mod switch;
mod table;
mod task_job;
mod terms;

pub use absences::{AbsenceCount, AbsenceKind, Absences, LastAbsence, Lengths};
pub use bars::{Bar, Bars};
pub use column::{Column, Row, SchemaError, Text};
pub use count::Counter;
pub use damage::{Damage, Verification};
pub use error::FileError;
pub use facts::{GroupLimit, Held, RecordingFacts, SwitchesTook, Took};
pub use gang::{GangRecord, MemberCounts, MemberRecord};
pub use missing::{MissingFile, TASK_SETS};
pub use observed::{Absence, EndedRun, ObservedThread, ProgramRecord, Recording};
pub use origin::Observation;
pub use overhead::{ControlPageCost, KernelObservation, OverheadFacts, OverheadRecord};
pub use project::{Batch, Projector};
pub use provenance::Provenance;
pub use record::{BatchExchange, Cause, Certificate, JobRecord, Leave, REPAIRABLE, Touch};
pub use rooms::Rooms;
pub use row::{
    AccessTime, OverheadTime, PreemptionLength, RecordedAbsence, RecordedRun, RecordedThread,
    SCHEMA_VERSION, Sample, SharedData, SupplyGap, SwitchBatch, TaskJob,
};
pub use seen::{ENOUGH, Seen, seen};
pub use store::{FileKind, Part, Reader, copy_parquet, write_parquet};
pub use supply::SupplyRecord;
pub use switch::{CallTimes, SwitchRecord, SwitchTimes};
pub use table::{RowKind, Rows};
pub use task_job::{AS_SCHEDULED, Away, TaskJobRecord};
pub use terms::{JobOutcome, Overhead, Vantage};
