// SPDX-License-Identifier: MIT OR Apache-2.0
//! The kinds of measurement, each once: what has to exist for every kind is made from this list, so that no kind can be
//! forgotten. The list names types of modules below; it uses none.

/// The registry: lists the kinds of measurement once, for whatever is made for each of them. A kind has its variant, the noun
/// of its plans, the name of its field, the body of its plans ([`Kind`]), and the records that a machine hands over.
macro_rules! for_each_kind {
    ($then:ident) => {
        $then! {
            /// Scripted jobs on working sets.
            Jobs, "jobs", jobs: $crate::experiment::Jobs, $crate::samples::JobRecord;
            /// Task sets under a scheduler.
            Tasks, "task sets", tasks: $crate::experiment::Tasks, $crate::samples::TaskJobRecord;
            /// Threads with common data.
            Gangs, "gangs", gangs: $crate::experiment::Gangs, $crate::samples::GangRecord;
            /// A program to record.
            Program, "program", program: $crate::experiment::Program, $crate::samples::ProgramRecord;
            /// A kernel whose scheduling overheads are measured.
            Overheads, "overheads", overheads: $crate::experiment::Overheads, $crate::samples::OverheadRecord;
            /// Core switches by several mechanisms.
            Switches, "core switches", switches: $crate::experiment::Switches, $crate::samples::SwitchRecord;
            /// CPUs whose supply is watched.
            Supply, "windows", supply: $crate::experiment::Watch, $crate::samples::SupplyRecord;
        }
    };
}
pub(crate) use for_each_kind;
