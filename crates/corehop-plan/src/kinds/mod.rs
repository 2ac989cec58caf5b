// SPDX-License-Identifier: MIT OR Apache-2.0
//! The kinds of measurement: a folder for each. What has to exist for every kind is made from two lists, that of kinds here
//! and that of their rows in `table.rs`, so that no kind can be forgotten.
//!
//! A kind's folder has the body of its plans with its [`Kind`] (what a platform must have, units, outline, counting), the
//! records that a machine hands over, its rows, and the way from records to rows.

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
pub mod supply;
pub mod switches;
pub mod tasks;

/// The registry: lists the kinds of measurement once, for whatever is made for each of them, in the order of results in a terminal. A kind has its variant, the noun
/// of its plans, the name of its folder and field, and the body of its plans, which is a [`Kind`].
#[macro_export]
macro_rules! for_each_kind {
    ($then:ident) => {
        $then! {
            /// Scripted jobs on working sets.
            Jobs, "jobs", jobs: $crate::kinds::jobs::Jobs;
            /// Threads with common data.
            Gangs, "gangs", gangs: $crate::kinds::gangs::Gangs;
            /// Task sets under a scheduler.
            Tasks, "task sets", tasks: $crate::kinds::tasks::Tasks;
            /// A program to record.
            Program, "program", program: $crate::kinds::program::Program;
            /// A kernel whose scheduling overheads are measured.
            Overheads, "overheads", overheads: $crate::kinds::overheads::Overheads;
            /// Core switches by several mechanisms.
            Switches, "core switches", switches: $crate::kinds::switches::Switches;
            /// CPUs whose supply is watched.
            Supply, "windows", supply: $crate::kinds::supply::Watch;
        }
    };
}
pub(crate) use for_each_kind;

pub use column::{Column, Row, SCHEMA_VERSION, SchemaError, Text};
pub use count::{Counter, Counting};
pub use gangs::*;
pub use jobs::*;
pub use kind::{Body, BodyError, Kind};
pub use origin::Observation;
pub use overheads::*;
pub use plan::{PLAN_SCHEMA, Plan, PlanError};
pub use program::*;
pub use project::{Batch, Place, Projection, Projector};
pub use supply::*;
pub use switches::*;
pub use table::{RowKind, Rows};
pub use tasks::*;
pub use times::RowTime;
pub use unit::Unit;
