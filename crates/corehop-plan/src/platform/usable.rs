// SPDX-License-Identifier: MIT OR Apache-2.0
//! Chooses the CPU of an experiment that runs on one CPU.

use super::Platform;
use crate::units::Cpu;

/// The platform lacks a CPU, or corehop may not use the CPU.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{cpu} is not among the usable CPUs of {platform} ({usable}): name one of these")]
pub struct UnknownCpu {
    /// The CPU that the caller requested.
    pub cpu: Cpu,
    /// The name of the platform that does not have the CPU, or that forbids its use.
    pub platform: String,
    /// The usable CPUs of the platform.
    pub usable: String,
}

impl UnknownCpu {
    /// Returns the error for `cpu` on `platform`.
    pub fn on(platform: &Platform, cpu: Cpu) -> Self {
        Self { cpu, platform: platform.name.clone(), usable: platform.usable().to_string() }
    }
}

impl Platform {
    /// Returns the requested CPU, or without a request the first usable CPU.
    ///
    /// # Errors
    /// Returns [`UnknownCpu`] if corehop may not use the CPU.
    pub fn one_usable(&self, cpu: Option<Cpu>) -> Result<Cpu, UnknownCpu> {
        let usable = self.usable();
        let wanted = cpu.or(usable.first()).unwrap_or_default();
        if usable.contains(wanted) { Ok(wanted) } else { Err(UnknownCpu::on(self, wanted)) }
    }
}
