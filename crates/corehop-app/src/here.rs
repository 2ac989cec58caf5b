// SPDX-License-Identifier: MIT OR Apache-2.0
//! The machine that this process runs on.

use corehop_plan::machine::Machine;
use corehop_plan::platform::Platform;
use corehop_plan::stop::Stop;
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

/// This host, as the caller hands it in: what only a live machine can do.
pub trait ThisHost {
    /// The description of this host, with what was measured of its caches and its CPUs.
    ///
    /// # Errors
    /// Exit 6 where the host failed.
    fn measured(&self) -> Result<Platform, Failure>;

    /// The live machine of this description.
    fn machine(&self, platform: Platform) -> Box<dyn Machine>;

    /// Whether the work under way has to end.
    fn stop(&self) -> Stop;
}
