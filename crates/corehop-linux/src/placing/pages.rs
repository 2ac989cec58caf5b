// SPDX-License-Identifier: MIT OR Apache-2.0
//! Samples pages that several threads of a command write.

use std::collections::HashSet;
use std::io;
use std::os::fd::OwnedFd;
use std::process::{Child, Command};

use corehop_plan::host::{Activity, Evidence};

use super::sources::{EvidenceSource, Off};
use crate::pages::{PageSampling, PagesError, check, start};

/// The state of page sampling, starting before the command does.
#[derive(Debug)]
pub(super) enum PageSamplingState {
    /// The command is not started; sampling may cause this many faults per second to a thread.
    Ready(u32),
    /// The command runs; its process ID, the descriptor of its memory, and the allowed faults per
    /// second.
    Taken(u32, OwnedFd, u32),
    /// Pages of the command are being sampled.
    Sampled(PageSampling),
    /// Sampling failed, with the error.
    Off(PagesError),
}

impl PageSamplingState {
    /// Prepares sampling for a command, with at most `faults` faults per second for each thread.
    ///
    /// # Errors
    /// Fails with the capability that the host lacks.
    pub(super) fn ready(faults: u32) -> Result<Self, PagesError> {
        check()?;
        Ok(Self::Ready(faults))
    }
}

impl EvidenceSource for PageSamplingState {
    fn evidence(&self) -> Evidence {
        Evidence::Pages
    }

    fn start(&mut self, command: &mut Command) -> Option<io::Result<Child>> {
        let Self::Ready(faults) = *self else { return None };
        Some(start(command).map(|(child, descriptor)| {
            *self = match descriptor {
                Ok(it) => Self::Taken(child.id(), it, faults),
                Err(why) => Self::Off(why),
            };
            child
        }))
    }

    fn started(&mut self) {
        *self = match std::mem::replace(self, Self::Ready(0)) {
            Self::Taken(pid, descriptor, faults) => {
                let begun = PageSampling::begin(pid, descriptor, faults);
                begun.map_or_else(Self::Off, Self::Sampled)
            }
            other => other,
        };
    }

    fn take(&mut self, window: &mut Activity) -> Result<(), Off> {
        let sampling = match self {
            Self::Sampled(sampling) => sampling,
            other => {
                return Err(match std::mem::replace(other, Self::Ready(0)) {
                    Self::Off(why) => why.into(),
                    _ => Off::NotStarted,
                });
            }
        };
        let alive: HashSet<u32> = window.threads.iter().map(|it| it.tid).collect();
        let shared = sampling.take()?.into_iter();
        window.shared.extend(shared.filter(|it| alive.contains(&it.a) && alive.contains(&it.b)));
        Ok(())
    }
}
