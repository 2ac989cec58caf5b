// SPDX-License-Identifier: MIT OR Apache-2.0
//! The files with the rows of a measurement: reading, writing, and the conversion of a machine's
//! records.
//!
//! A row holds raw intervals and the causes that may have disturbed them. The delay of a sample is
//! not defined in this module: a named estimator of `corehop_stats` computes it.

pub mod damage;
pub mod example;
mod error;
mod message;
mod missing;
pub mod parquet_sums;
mod provenance;
mod seen;
pub mod store;
mod stream;

pub use crate::kinds::gangs::{GangRecord, MemberCounts, MemberRecord, SharedData};
pub use crate::kinds::jobs::{
    AccessTime, BatchExchange, Cause, Certificate, JobRecord, Leave, PreemptionLength, REPAIRABLE,
    Sample, Touch,
};
pub use crate::kinds::overheads::{
    ControlPageCost, KernelObservation, Overhead, OverheadFacts, OverheadRecord, OverheadTime,
    Vantage,
};
pub use crate::kinds::program::{
    Absence, AbsenceCount, AbsenceKind, Absences, Bar, Bars, CpuHoldTime, EndedRun, GroupLimit,
    LastAbsence, Lengths, ObservedThread, ProgramRecord, RecordedAbsence, RecordedRun,
    RecordedThread, Recording, RecordingFacts, Rooms, SwitchesTook, Took,
};
pub use crate::kinds::program_costs::{CausedBlock, CausedRecord};
pub use crate::kinds::supply::{SupplyGap, SupplyRecord};
pub use crate::kinds::switches::{CallTimes, SwitchBatch, SwitchRecord, SwitchTimes};
pub use crate::kinds::tasks::{AS_SCHEDULED, JobAbsence, JobOutcome, TaskJob, TaskJobRecord};
pub use crate::kinds::{
    Batch, Column, Projector, Row, RowCounter, RowKind, RowObservation, Rows, SCHEMA_VERSION,
    SchemaError, Text,
};
pub use damage::{Damage, Verification};
pub use error::FileError;
pub use missing::MissingFile;
pub use provenance::Provenance;
pub use seen::{ENOUGH, FileFormat, HYPERFINE, TRACE, seen};
pub use store::{BatchWriter, FileKind, Reader, copy_parquet, write_parquet};
