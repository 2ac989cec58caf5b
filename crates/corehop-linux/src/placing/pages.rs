// SPDX-License-Identifier: MIT OR Apache-2.0
//! Pages that several threads write, of a command that is started with them.

use std::collections::HashSet;
use std::io;
use std::process::{Child, Command};

use corehop_core::host::{Activity, Evidence};

use super::sources::{Off, Source};
use crate::pages::{FAULTS_PER_SECOND, PageSampling, PagesError, check, start};

/// Page sampling, before and after the start of the command.
#[derive(Debug)]
pub(super) struct Pages(Option<Result<PageSampling, PagesError>>);

impl Pages {
    /// Ready for a command.
    ///
    /// # Errors
    /// The thing that the host lacks.
    pub(super) fn ready() -> Result<Self, PagesError> {
        check()?;
        Ok(Self(None))
    }
}

impl Source for Pages {
    fn evidence(&self) -> Evidence {
        Evidence::Pages
    }

    fn start(&mut self, command: &mut Command) -> Option<io::Result<Child>> {
        Some(start(command, FAULTS_PER_SECOND).map(|(child, sampling)| {
            self.0 = Some(sampling);
            child
        }))
    }

    fn take(&mut self, window: &mut Activity) -> Result<(), Off> {
        let Some(sampling) = &mut self.0 else { return Err(Off::NotStarted) };
        let sampling = match sampling {
            Ok(sampling) => sampling,
            Err(_) => {
                return Err(self
                    .0
                    .take()
                    .and_then(Result::err)
                    .map_or(Off::NotStarted, Off::Pages));
            }
        };
        let alive: HashSet<u32> = window.threads.iter().map(|it| it.tid).collect();
        let shared = sampling.take()?.into_iter();
        window.shared.extend(shared.filter(|it| alive.contains(&it.a) && alive.contains(&it.b)));
        Ok(())
    }
}
