// SPDX-License-Identifier: MIT OR Apache-2.0
//! `corehop._corehop`: what the Python package does in process.
//!
//! Files of samples, their summaries, platforms, and schedulability: thin wrappers over the crates that know no
//! Python. Tables leave as Arrow streams, structures as JSON; the words are in `corehop/`. Neither
//! measuring nor planning is done here: the program does both, in a process of its own.

mod errors;
mod table;
mod file;
mod summary;
mod platform;
mod model;
mod placement;
mod off_load;
mod sched;
mod compare;
mod arrow_in;

use pyo3::prelude::pymodule;

/// The compiled part of corehop.
#[pymodule]
mod _corehop {
    #[pymodule_export]
    use super::arrow_in::rows_json;
    #[pymodule_export]
    use super::compare::compare;
    #[pymodule_export]
    use super::file::{File, load};
    #[pymodule_export]
    use super::model::{Costs, Model, advise_on};
    #[pymodule_export]
    use super::off_load::{OffLoad, load_off_load};
    #[pymodule_export]
    use super::placement::{Placement, load_placement};
    #[pymodule_export]
    use super::platform::PlatformDescription;
    #[pymodule_export]
    use super::sched::{Outcome, Study, check, limit_preemptions};
    #[pymodule_export]
    use super::summary::Summary;
    #[pymodule_export]
    use super::table::Table;

    use pyo3::prelude::*;
    use pyo3::types::PyModule;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
