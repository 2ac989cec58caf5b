// SPDX-License-Identifier: MIT OR Apache-2.0
//! The target of `--on`: this host, or a simulated platform.

use corehop_core::machine::Machine;
use corehop_core::platform::Platform;
use corehop_core::sim::{Arrangement, SimMachine};
use corehop_linux::discover::SysRoot;
use corehop_linux::live::{LiveMachine, Options};

use super::super::platform::{described, found};
use super::partitioning::Arrange;
use crate::exit::{Exit, Failure};

/// The word for this host.
pub(super) const LIVE: &str = "live";

/// The description of the machine named by `on`.
pub(super) fn platform(on: &str) -> Result<Platform, Failure> {
    if on == LIVE { found(&SysRoot::live()) } else { described(on) }
}

/// The partitioning of that machine, if it can be partitioned.
pub(super) fn arrangement(
    on: &str,
    platform: &Platform,
    arrange: &Arrange,
) -> Result<Arrangement, Failure> {
    if on == LIVE {
        arrange.refuse()?;
    }
    let arrangement = arrange.arrangement();
    arrangement.check(platform).map_err(|error| Failure::new(Exit::Usage, error))?;
    Ok(arrangement)
}

fn simulated(
    platform: Platform,
    arrangement: Arrangement,
    arrange: &Arrange,
) -> Result<SimMachine, Failure> {
    let machine = SimMachine::arranged(platform, arrangement)?;
    Ok(if arrange.sampled() { machine.sampled() } else { machine })
}

/// The machine that `on` names, which `platform` describes; a simulated one shared out.
pub(super) fn machine(
    on: &str,
    platform: Platform,
    options: Options,
    arrange: &Arrange,
) -> Result<Box<dyn Machine>, Failure> {
    let arrangement = arrangement(on, &platform, arrange)?;
    Ok(if on == LIVE {
        Box::new(LiveMachine::new(platform, options))
    } else {
        Box::new(simulated(platform, arrangement, arrange)?)
    })
}
