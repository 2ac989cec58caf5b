// SPDX-License-Identifier: MIT OR Apache-2.0
//! The live machine of corehop, and all code that queries Linux.

pub mod bpf;
pub mod counters;
mod limits;
mod duty;
pub mod live;
mod mapped;
mod group_memory;
pub mod memory;
mod set_memory;
pub mod observe;
mod overheads;
pub mod control_page;
mod perf_event;
pub mod offload;
mod pages;
pub mod placing;
pub mod preflight;
pub mod probe;
pub mod rseq;
mod switches;
pub mod walk;
pub mod whole_runs;

use std::ffi::OsString;
use std::io;
use std::process::ExitCode;

use probe::{partners, waking};

/// Runs a helper's work if this process was started as a helper, and returns its exit code. Call this function at the
/// beginning of `main`:
///
/// ```no_run
/// # use std::process::ExitCode;
/// fn main() -> ExitCode {
///     if let Some(code) = corehop_linux::main_if_asked() {
///         return code;
///     }
///     // …
/// #   ExitCode::SUCCESS
/// }
/// ```
pub fn main_if_asked() -> Option<ExitCode> {
    corehop_system::supervisor::main_if_asked(helper)
}

/// Runs the live machine's helper with this role.
fn helper(role: &str, arguments: &[OsString]) -> Option<io::Result<()>> {
    Some(match (role, arguments) {
        (pages::ROLE, [pid, faults]) => pages::handle(pid, faults),
        (partners::ROLE, [cpus, rate, policy]) => partners::serve(cpus, rate, policy),
        (waking::ROLE, [cpus, most]) => waking::serve(cpus, most),
        _ => return None,
    })
}
