// SPDX-License-Identifier: MIT OR Apache-2.0
//! Calibrating: a description of this host on which its own experiments come out as they do live.
//!
//! One live experiment, [`experiment`], has the cells of the quick one and a few of its own, mixed in the same replicates,
//! so that a host that changes in the course of minutes changes for both. The own cells give the numbers of the
//! description ([`calibrate`]); they are of sizes and lengths that the quick experiment does not have, and judge nothing.
//! The others judge ([`crate::validation::host`]).
//!
//! Each number is the one at which the simulated machine shows what the live one showed, found with the simulator in the
//! loop:
//!
//! | number | cells that give it |
//! |---|---|
//! | time of memory | flushes |
//! | capacity of the second level, and how it replaces | warm touches near its stated size, on small and on huge pages |
//! | capacity and hits of the last level, translations of the last TLB, walks of the page tables | warm touches from twice the second level to beyond the last one |
//! | time of a line from another core, by class | migrations that resume at once |
//! | loss while away | absences of three lengths without a preemptor |
//!
//! A host may put the virtual CPUs of a guest apart and together again in the course of seconds. Such a guest is two
//! machines, and each has its description ([`States`]).

mod cells;
mod fit;
mod lost;
mod last_level;
mod rooms;
mod solve;
mod states;
mod trial;

pub use cells::complete;
pub(crate) use cells::on_described;
pub use cells::{experiment, is_own};
pub use fit::{Calibrated, CalibrationError, FactEstimate, calibrate};
pub use states::States;
pub(crate) use trial::HUGE;
pub use trial::change_of_speed;
