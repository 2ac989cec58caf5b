// SPDX-License-Identifier: MIT OR Apache-2.0
//! Calibrates a platform description of this host, so that simulated experiments give the results of live
//! experiments.
//!
//! One live experiment, [`experiment`], contains the cells of the quick experiment and its own calibration cells.
//! Both kinds of cells are mixed in the same replicates, so a host that changes within minutes affects both. The
//! calibration cells determine the numbers of the description ([`calibrate`]). The sizes and lengths of the
//! calibration cells do not occur in the quick experiment, and these cells are not used for validation. The cells of
//! the quick experiment validate the description ([`crate::validation::host`]).
//!
//! Each number is chosen so that the simulated machine reproduces the live measurement, with the simulator in the
//! search loop:
//!
//! | number | cells from which the number follows |
//! |---|---|
//! | time of memory | flushes |
//! | capacity of the second cache level, and its replacement policy | warm touches near its stated size, on small and on huge pages |
//! | capacity and hits of the last level, translations of the last TLB, walks of the page tables | warm touches from twice the second level to beyond the last level |
//! | time of a line from another core, by class | migrations that resume at once |
//! | loss of cache lines while a job is away | absences of three lengths without a preemptor |
//!
//! A hypervisor may place the virtual CPUs of a guest on separate caches and on a shared cache again within seconds.
//! Such a guest behaves like two machines, and each machine has its own description ([`States`]).

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
