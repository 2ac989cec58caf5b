// SPDX-License-Identifier: MIT OR Apache-2.0
//! The control groups of this process.

use std::path::PathBuf;

use super::host::PreflightHost;
use crate::limits::folders;

/// The directory of the process's group for `controller`, and of the groups above it, innermost
/// first.
pub(super) fn groups(host: &PreflightHost, controller: &str) -> Vec<PathBuf> {
    folders(&host.bytes("proc/self/cgroup").unwrap_or_default(), controller)
}
