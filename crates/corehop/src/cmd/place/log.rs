// SPDX-License-Identifier: MIT OR Apache-2.0
//! The log of a placer under way, and the answer.

use std::io::Write as _;

use corehop_decide::placer::Action;
use corehop_decide::placer::log::{Answer, End, Head, Line};
use corehop_plan::host::{Activity, HostError};
use corehop_report::placement;

use crate::output::file::Growing;
use crate::output::{Page, Rest, answer, note};
use corehop_app::failure::{Exit, Failure};

/// The log of a run.
#[derive(Debug)]
pub(super) struct Log {
    /// The file, line by line as things happen: what ends the placer does not take them away.
    file: Option<Growing>,
    /// The reason why the file ends before the placer does.
    torn: Option<std::io::Error>,
    answer: Answer,
}

impl Log {
    /// The log's file takes its name, and begins with what the placer knows.
    ///
    /// # Errors
    /// Exit 6 where it cannot be written.
    pub(super) fn begin(head: Head, file: Option<Growing>) -> Result<Self, Failure> {
        let file = file.map(Growing::place).transpose()?;
        let mut log = Self { file, torn: None, answer: Answer::new(&head) };
        log.take(&Line::Head(Box::new(head)))?;
        Ok(log)
    }

    fn take(&mut self, line: &Line) -> Result<(), Failure> {
        self.answer.take(line);
        let Some(file) = &mut self.file else { return Ok(()) };
        let mut text = serde_json::to_string(line).map_err(|it| Failure::new(Exit::Failed, it))?;
        text.push('\n');
        if let Err(error) = file.write_all(text.as_bytes()) {
            note(&format!("the log ends here, placing goes on: {error}"));
            (self.file, self.torn) = (None, Some(error));
        }
        Ok(())
    }

    /// Whether all of it was written.
    ///
    /// # Errors
    /// Exit 6 where the file ends too early.
    pub(super) fn whole(self) -> Result<(), Failure> {
        self.torn.map_or(Ok(()), |error| Err(unwritten(error)))
    }

    pub(super) fn window(&mut self, window: Activity, actions: &[Action]) -> Result<(), Failure> {
        self.take(&Line::Window { window, actions: actions.to_vec() })
    }

    pub(super) fn refused(&mut self, error: &HostError) -> Result<(), Failure> {
        self.take(&Line::Refused { refused: error.to_string() })
    }

    pub(super) fn end(&mut self, wakes_by_interrupts: u64) -> Result<(), Failure> {
        let windows = self.answer.windows;
        self.take(&Line::End { end: End { windows, wakes_by_interrupts } })
    }

    /// The windows so far.
    pub(super) const fn windows(&self) -> u64 {
        self.answer.windows
    }

    /// The answer so far.
    pub(super) const fn answer(&self) -> &Answer {
        &self.answer
    }

    /// Says the answer. Standard output belongs to a program that was started.
    pub(super) fn say(&self, as_json: bool, beside_program: bool) -> Result<(), Failure> {
        let sentence = placement::sentence(&self.answer);
        if as_json {
            let text = serde_json::to_string_pretty(&self.answer);
            let text = text.map_err(|it| Failure::new(Exit::Failed, it))?;
            return answer(&sentence, Rest::Data(&format!("{text}\n")));
        }
        let page = Page::of_stdout();
        let lines = placement::text(&self.answer);
        let text: String = lines.lines().map(|it| page.wrap(it, 0) + "\n").collect();
        answer(&sentence, if beside_program { Rest::Beside(&text) } else { Rest::Text(&text) })
    }
}

fn unwritten(error: std::io::Error) -> Failure {
    Failure::new(Exit::Failed, error).context("writing the log")
}
