// SPDX-License-Identifier: MIT OR Apache-2.0
//! Discovers the machine from the files of Linux.
//!
//! Everything is read from files below one directory, so that a copy of another machine's files
//! describes that machine. Each value cites the file it came from; nothing is checked against the
//! hardware here, and firmware and hypervisors do state falsehoods.

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

/// Why a host could not be described.
#[derive(Debug, thiserror::Error)]
pub enum DiscoverError {
    /// There is no list of CPUs.
    #[error(
        "no CPU found under {}: it has no sys/devices/system/cpu with `present`, `possible` or \
         cpu0; give the directory that contains sys/ and proc/",
        shown::path(.root)
    )]
    NoCpus {
        /// The folder that was searched.
        root: PathBuf,
    },
    /// A file holds something else than the kernel writes there.
    #[error("{} contains `{text}`, which is not valid there", shown::path(.path))]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The beginning of its content.
        text: String,
    },
    /// The files contradict each other.
    #[error("the kernel's description of this machine contradicts itself: {0}")]
    Contradiction(#[from] PlatformError),
}

/// Describes the machine whose files are below `root`.
///
/// # Errors
/// If no CPUs are listed, a file is damaged, or the CPU lists exclude each other. What a host merely does not
/// tell (caches, nodes, clocks) is absent in the result.
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
