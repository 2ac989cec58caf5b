// SPDX-License-Identifier: MIT OR Apache-2.0
//! What `--on` names: this host, or a platform that is simulated.

use corehop_core::machine::Machine;
use corehop_core::platform::Platform;
use corehop_core::sim::SimMachine;
use corehop_linux::discover::SysRoot;
use corehop_linux::live::{LiveMachine, Options};

use super::platform::{described, found};
use crate::exit::Failure;

/// The word for this host.
const LIVE: &str = "live";

/// The description of the machine that `on` names.
pub(super) fn platform(on: &str) -> Result<Platform, Failure> {
    if on == LIVE { found(&SysRoot::live()) } else { described(on) }
}

/// The machine that `on` names, which `platform` describes.
pub(super) fn machine(
    on: &str,
    platform: Platform,
    options: Options,
) -> Result<Box<dyn Machine>, Failure> {
    Ok(if on == LIVE {
        Box::new(LiveMachine::new(platform, options))
    } else {
        Box::new(SimMachine::new(platform)?)
    })
}
