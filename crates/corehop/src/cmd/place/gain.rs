// SPDX-License-Identifier: MIT OR Apache-2.0
//! The model of the gain from sharing on this machine, read from the user's file.

use std::path::Path;

use corehop_plan::platform::Platform;
use corehop_plan::shown;
use corehop_stats::costs::HostIdentity;
use corehop_stats::machine_gain::MachineGain;
use corehop_system::discover::identity;

use crate::output::note;
use corehop_app::failure::Failure;
use corehop_app::input;

/// Reads the model from a file; adds a note if the model belongs to another machine.
///
/// # Errors
/// Returns a failure with exit code 4 if the file contains no model of the gain.
pub(super) fn of_machine(
    path: Option<&Path>,
    platform: &Platform,
) -> Result<Option<MachineGain>, Failure> {
    let Some(path) = path else { return Ok(None) };
    let gain = input::parsed(path, "a model of shared data (JSON)", MachineGain::from_json)?;
    let here = HostIdentity { platform: platform.clone(), identity: identity() };
    if let Some(difference) = here.difference(&gain.host, "of the model") {
        note(&format!(
            "{}: the model comes from another machine ({difference}), and its gains may be wrong here; {}",
            shown::path(path),
            gain.source()
        ));
    }
    Ok(Some(gain))
}
