// SPDX-License-Identifier: MIT OR Apache-2.0
//! The target of `--on`: this host, or a simulated platform.

use corehop_linux::live::{LiveMachine, LiveMachineOptions};
use corehop_plan::machine::Machine;
use corehop_plan::platform::Platform;
use corehop_sim::{Partitioning, Sampling, SimMachine};
use corehop_system::discover::SysRoot;

use super::partitioning::PartitioningOptions;
use corehop_app::failure::{Exit, Failure};
use corehop_app::here::found;
use corehop_app::input;

/// The value of `--on` for this host.
pub(crate) const LIVE: &str = "live";

/// The platform description of the machine that `on` names.
pub(crate) fn platform(on: &str) -> Result<Platform, Failure> {
    if on == LIVE { found(&SysRoot::live()) } else { input::platform(on) }
}

/// The partitioning of the machine, if the machine can be partitioned.
pub(super) fn partitioning(
    on: &str,
    platform: &Platform,
    partition: &PartitioningOptions,
    sampling: Sampling,
) -> Result<Partitioning, Failure> {
    if on == LIVE {
        partition.refuse(sampling)?;
    }
    let partitioning = partition.partitioning();
    partitioning.check(platform).map_err(|error| Failure::new(Exit::Usage, error))?;
    Ok(partitioning)
}

/// Creates the machine that `on` names and `platform` describes. A simulated machine gets the requested
/// partitioning and sampling of cache sets.
pub(super) fn machine(
    on: &str,
    platform: Platform,
    options: LiveMachineOptions,
    (partition, sampling): (&PartitioningOptions, Sampling),
) -> Result<Box<dyn Machine>, Failure> {
    let partitioning = partitioning(on, &platform, partition, sampling)?;
    if on == LIVE {
        return Ok(Box::new(LiveMachine::new(platform, options)));
    }
    Ok(Box::new(SimMachine::partitioned(platform, partitioning)?.sampling(sampling)))
}
