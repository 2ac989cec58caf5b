// SPDX-License-Identifier: MIT OR Apache-2.0
//! Writes a kept placement as a configuration that replaces a running placer.

use corehop_decide::placer::log::PlacementFindings;
use corehop_decide::placer::pin::{Pin, PinHost};
use corehop_linux::placing::{ProgressSource, kernel_and_load, residences};
use corehop_plan::platform::Platform;
use corehop_report::pin::{self, Emit};

use crate::output::{AnswerBody, OutputFile, answer};
use corehop_app::failure::{Exit, Failure};
use corehop_app::run::utc_now;

/// A form of a placement, as an option names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum PlacementFormat {
    /// Print shell commands that pin threads, by thread number and by thread name
    Taskset,
    /// Print a systemd drop-in for each service; a unit cannot pin single threads
    Systemd,
    /// Print the CPUs for containers and cgroups, which cannot pin single threads
    Cpuset,
    /// Print the placement with all evidence as JSON
    Json,
}

impl From<PlacementFormat> for Emit {
    fn from(form: PlacementFormat) -> Self {
        match form {
            PlacementFormat::Taskset => Self::Taskset,
            PlacementFormat::Systemd => Self::Systemd,
            PlacementFormat::Cpuset => Self::Cpuset,
            PlacementFormat::Json => Self::Json,
        }
    }
}

/// The format and the file of the emitted configuration.
#[derive(Debug)]
pub(super) struct Emission {
    pub(super) form: Emit,
    /// The output file; None for stdout.
    pub(super) file: Option<OutputFile>,
    /// Whether corehop started a program, which then owns stdout.
    pub(super) beside_program: bool,
}

impl Emission {
    /// Writes the kept placement, or prints why no placement was kept.
    ///
    /// # Errors
    /// Returns a failure with exit code 6 if the file or stdout cannot be written.
    pub(super) fn say(
        &self,
        seen: &PlacementFindings,
        platform: &Platform,
        progress: Option<&ProgressSource>,
    ) -> Result<Exit, Failure> {
        let Some(pin) = of(seen, platform, progress) else {
            let why = pin::reason(seen);
            self.hand_out(&pin::nothing(&why, self.form), &why, seen, false)?;
            return Ok(Exit::No);
        };
        let (sentence, is_whole) = pin::sentence(&pin, self.form);
        self.hand_out(&pin::text(&pin, self.form), &sentence, seen, true)?;
        Ok(if is_whole { Exit::Done } else { Exit::No })
    }

    /// Writes the configuration to its destination; without a placement, the file stays unchanged.
    fn hand_out(
        &self,
        text: &str,
        sentence: &str,
        seen: &PlacementFindings,
        kept: bool,
    ) -> Result<(), Failure> {
        let evidence = super::evidence(seen);
        let Some(file) = &self.file else { return answer(sentence, AnswerBody::Data(text)) };
        if kept {
            file.write(text)?;
        }
        let rest = if self.beside_program {
            AnswerBody::Beside(&evidence)
        } else {
            AnswerBody::Text(&evidence)
        };
        answer(sentence, rest)
    }
}

/// The kept placement, with the present processes.
fn of(
    seen: &PlacementFindings,
    platform: &Platform,
    progress: Option<&ProgressSource>,
) -> Option<Pin> {
    let residences = residences(&seen.kept_processes());
    let [kernel, load] = kernel_and_load();
    let host = PinHost {
        platform: platform.name.clone(),
        kernel,
        load,
        date: utc_now(),
        corehop: env!("CARGO_PKG_VERSION").to_owned(),
    };
    let progress = progress.map(ToString::to_string).unwrap_or_default();
    seen.pin(&residences, &progress, host)
}
