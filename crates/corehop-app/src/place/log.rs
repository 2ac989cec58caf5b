// SPDX-License-Identifier: MIT OR Apache-2.0
//! The log of a running placer, and its answer.

use std::io::Write as _;

use corehop_decide::placer::Action;
use corehop_decide::placer::log::{End, PlacementFindings, PlacementLogEntry, PlacementLogHeader};
use corehop_plan::host::{Activity, HostError};

use crate::failure::{Exit, Failure};
use crate::file::Growing;
use crate::voice::note;

/// The log of a placing run.
#[derive(Debug)]
pub struct PlacementFile {
    /// The log file, written line by line as events happen, so that lines survive the end of the
    /// placer.
    file: Option<Growing>,
    /// The reason why the file ends before the placer does.
    torn: Option<std::io::Error>,
    answer: PlacementFindings,
}

impl PlacementFile {
    /// Creates the log file with its name, beginning with the header.
    ///
    /// # Errors
    /// Fails with exit code 6 if the file cannot be written.
    pub fn begin(head: PlacementLogHeader, file: Option<Growing>) -> Result<Self, Failure> {
        let file = file.map(Growing::place).transpose()?;
        let mut log = Self { file, torn: None, answer: PlacementFindings::new(&head) };
        log.take(&PlacementLogEntry::Head(Box::new(head)))?;
        Ok(log)
    }

    fn take(&mut self, line: &PlacementLogEntry) -> Result<(), Failure> {
        self.answer.take(line);
        let Some(file) = &mut self.file else { return Ok(()) };
        let mut text = serde_json::to_string(line).map_err(|it| Failure::new(Exit::Failed, it))?;
        text.push('\n');
        if let Err(error) = file.write_all(text.as_bytes()) {
            note(&format!("corehop cannot write the log any further; placing continues: {error}"));
            (self.file, self.torn) = (None, Some(error));
        }
        Ok(())
    }

    /// Checks that the whole log was written.
    ///
    /// # Errors
    /// Fails with exit code 6 if the file ends too early.
    pub fn whole(self) -> Result<(), Failure> {
        self.torn.map_or(Ok(()), |error| Err(unwritten(error)))
    }

    /// Adds a window and the placer's actions in it.
    ///
    /// # Errors
    /// Fails with exit code 6 if a line cannot be created.
    pub fn window(&mut self, window: Activity, actions: &[Action]) -> Result<(), Failure> {
        self.take(&PlacementLogEntry::Window { window, actions: actions.to_vec() })
    }

    /// Adds a move that the host refused.
    ///
    /// # Errors
    /// Fails with the errors of [`Self::window`].
    pub fn refused(&mut self, error: &HostError) -> Result<(), Failure> {
        self.take(&PlacementLogEntry::Refused { refused: error.to_string() })
    }

    /// Adds the end, with the number of wake-ups by interrupts.
    ///
    /// # Errors
    /// Fails with the errors of [`Self::window`].
    pub fn end(&mut self, wakes_by_interrupts: u64) -> Result<(), Failure> {
        let windows = self.answer.windows;
        self.take(&PlacementLogEntry::End { end: End { windows, wakes_by_interrupts } })
    }

    /// Returns the number of windows so far.
    pub const fn windows(&self) -> u64 {
        self.answer.windows
    }

    /// Returns the findings so far.
    pub const fn answer(&self) -> &PlacementFindings {
        &self.answer
    }
}

fn unwritten(error: std::io::Error) -> Failure {
    Failure::new(Exit::Failed, error).context("writing the log")
}
