// SPDX-License-Identifier: MIT OR Apache-2.0
//! The log of a placer under way, and the answer.

use std::io::Write as _;

use corehop_decide::placer::Action;
use corehop_decide::placer::log::{End, PlacementFindings, PlacementLogEntry, PlacementLogHeader};
use corehop_plan::host::{Activity, HostError};

use crate::failure::{Exit, Failure};
use crate::file::Growing;
use crate::voice::note;

/// The log of a run.
#[derive(Debug)]
pub struct PlacementFile {
    /// The file, line by line as things happen: what ends the placer does not take them away.
    file: Option<Growing>,
    /// The reason why the file ends before the placer does.
    torn: Option<std::io::Error>,
    answer: PlacementFindings,
}

impl PlacementFile {
    /// The log's file takes its name, and begins with what the placer knows.
    ///
    /// # Errors
    /// Exit 6 where it cannot be written.
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
            note(&format!("the log ends here; placing continues: {error}"));
            (self.file, self.torn) = (None, Some(error));
        }
        Ok(())
    }

    /// Whether all of it was written.
    ///
    /// # Errors
    /// Exit 6 where the file ends too early.
    pub fn whole(self) -> Result<(), Failure> {
        self.torn.map_or(Ok(()), |error| Err(unwritten(error)))
    }

    /// A window, and what the placer did in it.
    ///
    /// # Errors
    /// Exit 6 where a line cannot be made.
    pub fn window(&mut self, window: Activity, actions: &[Action]) -> Result<(), Failure> {
        self.take(&PlacementLogEntry::Window { window, actions: actions.to_vec() })
    }

    /// A move that the host refused.
    ///
    /// # Errors
    /// As [`Self::window`].
    pub fn refused(&mut self, error: &HostError) -> Result<(), Failure> {
        self.take(&PlacementLogEntry::Refused { refused: error.to_string() })
    }

    /// The end, with the wake-ups that were made by interrupts.
    ///
    /// # Errors
    /// As [`Self::window`].
    pub fn end(&mut self, wakes_by_interrupts: u64) -> Result<(), Failure> {
        let windows = self.answer.windows;
        self.take(&PlacementLogEntry::End { end: End { windows, wakes_by_interrupts } })
    }

    /// The windows so far.
    pub const fn windows(&self) -> u64 {
        self.answer.windows
    }

    /// The answer so far.
    pub const fn answer(&self) -> &PlacementFindings {
        &self.answer
    }
}

fn unwritten(error: std::io::Error) -> Failure {
    Failure::new(Exit::Failed, error).context("writing the log")
}
