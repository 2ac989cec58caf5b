// SPDX-License-Identifier: MIT OR Apache-2.0
//! Pages that several threads write, of a command that is started with them.

use std::collections::HashSet;
use std::io;
use std::os::fd::OwnedFd;
use std::process::{Child, Command};

use corehop_core::host::{Activity, Evidence};

use super::sources::{Off, Source};
use crate::pages::{FAULTS_PER_SECOND, PageSampling, PagesError, check, start};

/// Page sampling, from before the start of the command on.
#[derive(Debug)]
pub(super) enum Pages {
    /// Nothing is started.
    Ready,
    /// The command runs, and this is its memory.
    Taken(u32, OwnedFd),
    /// Sampling is under way.
    Sampled(PageSampling),
    /// It failed.
    Off(PagesError),
}

impl Pages {
    /// Ready for a command.
    ///
    /// # Errors
    /// The thing that the host lacks.
    pub(super) fn ready() -> Result<Self, PagesError> {
        check()?;
        Ok(Self::Ready)
    }
}

impl Source for Pages {
    fn evidence(&self) -> Evidence {
        Evidence::Pages
    }

    fn start(&mut self, command: &mut Command) -> Option<io::Result<Child>> {
        Some(start(command).map(|(child, descriptor)| {
            *self = match descriptor {
                Ok(it) => Self::Taken(child.id(), it),
                Err(why) => Self::Off(why),
            };
            child
        }))
    }

    fn started(&mut self) {
        *self = match std::mem::replace(self, Self::Ready) {
            Self::Taken(pid, descriptor) => {
                let begun = PageSampling::begin(pid, descriptor, FAULTS_PER_SECOND);
                begun.map_or_else(Self::Off, Self::Sampled)
            }
            other => other,
        };
    }

    fn take(&mut self, window: &mut Activity) -> Result<(), Off> {
        let sampling = match self {
            Self::Sampled(sampling) => sampling,
            other => {
                return Err(match std::mem::replace(other, Self::Ready) {
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
