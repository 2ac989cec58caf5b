// SPDX-License-Identifier: MIT OR Apache-2.0
//! Discovers the machine from Linux's files.
//!
//! All files are read below one directory, so that a copy of another machine's files describes that machine. Each
//! value cites its source file. This module checks nothing against the hardware, although firmware and hypervisors
//! sometimes state wrong values.

use std::path::PathBuf;

use corehop_plan::platform::{Coherence, Core, Platform, PlatformError, SCHEMA};
use corehop_plan::shown;

mod allowed;
mod caches;
mod identity;
mod inclusion;
mod memory;
mod root;
mod stated;
mod tlbs;
mod topology;

pub use allowed::cpuset_of;
pub use identity::identity;
pub use inclusion::last_level_inclusion;
pub use root::SysRoot;
pub use tlbs::tlbs;

/// The reason why a host could not be described.
#[derive(Debug, thiserror::Error)]
pub enum DiscoverError {
    /// The files contain no list of CPUs.
    #[error(
        "no CPU found under {}: it has no sys/devices/system/cpu with `present`, `possible` or \
         cpu0; give the directory that contains sys/ and proc/",
        shown::path(.root)
    )]
    NoCpus {
        /// The folder that was searched.
        root: PathBuf,
    },
    /// A file contains something other than what the kernel writes.
    #[error("{} contains `{text}`, which is not valid in this file", shown::path(.path))]
    Unreadable {
        /// The path of the file.
        path: PathBuf,
        /// The beginning of the file's content.
        text: String,
    },
    /// The files contradict each other.
    #[error("the kernel's description of this machine contradicts itself: {0}")]
    Contradiction(#[from] PlatformError),
}

/// Returns the description of the machine whose files are below `root`.
///
/// # Errors
/// Returns an error if no CPUs are listed, a file is damaged, or the CPU lists contradict each other. Values that the
/// host does not state (caches, nodes, clocks) are missing in the result.
pub fn discover(root: &SysRoot) -> Result<Platform, DiscoverError> {
    let (cpus, online) = topology::cpus(root)?;
    let packages = topology::packages(root, &online.value)?;
    let mut cores = topology::cores(root, &online.value)?;
    let mut caches = caches::caches(root, &online.value)?;
    topology::mark_straddling(&mut cores, &packages.value);
    caches::mark_straddling(&mut caches);
    caches::mark_spanning(&mut caches, &packages.value);
    let info = identity::CpuInfo::read(root);
    let hypervisor = identity::hypervisor(root, &info);
    let model = info.model();
    let title = identity::title(model.as_ref(), cpus.value.len());
    let platform = Platform {
        schema: SCHEMA,
        id: identity::id(&title),
        name: identity::name(&title, hypervisor.as_ref()),
        vendor: info.vendor(),
        model,
        hypervisor,
        allowed: Some(allowed::allowed(root, &cpus.value)?),
        packages,
        cores,
        clock: identity::clock(root, &info)?,
        pages: memory::pages(root)?,
        memory: corehop_plan::platform::Memory::default(),
        core_kinds: identity::core_kinds(root, &online.value, &info)?,
        caches,
        tlbs: Vec::new(),
        prefetchers: Vec::new(),
        coherence: Coherence::default(),
        core: Core::default(),
        latencies: Vec::new(),
        servers: Vec::new(),
        exchange: None,
        distance: None,
        losses: Vec::new(),
        nodes: memory::nodes(root, &cpus.value)?,
        cpus,
        online: Some(online),
    };
    platform.validate()?;
    Ok(platform)
}
