// SPDX-License-Identifier: MIT OR Apache-2.0
//! The machine that this process runs on.

use corehop_plan::platform::Platform;
use corehop_system::discover::{DiscoverError, SysRoot, discover};

use crate::failure::{Exit, Failure};

/// The machine whose files are below `root`.
///
/// # Errors
/// Exit 3 for this host, exit 2 for a folder without such files, exit 4 for damaged ones.
pub fn found(root: &SysRoot) -> Result<Platform, Failure> {
    discover(root).map_err(|error| {
        let no_cpus = matches!(error, DiscoverError::NoCpus { .. });
        let exit = match (root.is_live(), no_cpus) {
            (true, _) => Exit::NotPossible,
            (false, true) => Exit::Usage,
            (false, false) => Exit::Damaged,
        };
        Failure::new(exit, error)
    })
}
