// SPDX-License-Identifier: MIT OR Apache-2.0
//! The machine that this process runs on.

use corehop_plan::machine::Machine;
use corehop_plan::platform::Platform;
use corehop_plan::stop::Stop;
use corehop_system::discover::{DiscoverError, SysRoot, discover};

use crate::failure::{Exit, Failure};

/// Describes the machine whose files are below `root`.
///
/// # Errors
/// Fails with exit code 3 if this host cannot be described, with exit code 2 for a folder without a machine's files,
/// and with exit code 4 for damaged files.
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

/// The operations that only a live machine can do; the caller provides the implementation.
pub trait ThisHost {
    /// Returns the description of this host, with measured values of its caches and CPUs.
    ///
    /// # Errors
    /// Fails with exit code 6 if the host failed.
    fn measured(&self) -> Result<Platform, Failure>;

    /// Returns the live machine of this description.
    fn machine(&self, platform: Platform) -> Box<dyn Machine>;

    /// Returns the value that tells whether the current work was stopped.
    fn stop(&self) -> Stop;
}
