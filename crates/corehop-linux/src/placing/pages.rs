// SPDX-License-Identifier: MIT OR Apache-2.0
//! Pages that several threads write, of a command that is started with them.

use std::collections::HashSet;
use std::io;
use std::os::fd::OwnedFd;
use std::process::{Child, Command};

use corehop_plan::host::{Activity, Evidence};

use super::sources::{EvidenceSource, Off};
use crate::pages::{PageSampling, PagesError, check, start};

/// Page sampling, from before the start of the command on.
#[derive(Debug)]
pub(super) enum PageSamplingState {
    /// Nothing is started; so many faults a second it may cause to a thread.
    Ready(u32),
    /// The command runs, this is its memory, and so many faults.
    Taken(u32, OwnedFd, u32),
    /// Sampling is under way.
    Sampled(PageSampling),
    /// It failed.
    Off(PagesError),
}

impl PageSamplingState {
    /// Ready for a command, whose threads take at most so many faults a second.
    ///
    /// # Errors
    /// The thing that the host lacks.
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
