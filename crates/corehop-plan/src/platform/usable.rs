// SPDX-License-Identifier: MIT OR Apache-2.0
//! The CPU that an experiment on one CPU runs on.

use super::Platform;
use crate::units::Cpu;

/// A CPU that a platform lacks, or that may not be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{cpu} is not among the usable CPUs of {platform} ({usable}): name one of these")]
pub struct UnknownCpu {
    /// The CPU asked for.
    pub cpu: Cpu,
    /// The platform's name.
    pub platform: String,
    /// Its usable CPUs.
    pub usable: String,
}

impl UnknownCpu {
    /// The refusal of `cpu` on `platform`.
    pub fn on(platform: &Platform, cpu: Cpu) -> Self {
        Self { cpu, platform: platform.name.clone(), usable: platform.usable().to_string() }
    }
}

impl Platform {
    /// The CPU asked for, or the first usable one.
    ///
    /// # Errors
    /// [`UnknownCpu`] where it may not be used.
    pub fn one_usable(&self, cpu: Option<Cpu>) -> Result<Cpu, UnknownCpu> {
        let usable = self.usable();
        let wanted = cpu.or(usable.first()).unwrap_or_default();
        if usable.contains(wanted) { Ok(wanted) } else { Err(UnknownCpu::on(self, wanted)) }
    }
}
