// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads the answer files that `place` and `offload` write with `-o`.

use std::path::Path;

use corehop_decide::placer::log::PlacementLog;
use corehop_report::off_load::OffLoadAnswer;

use crate::failure::Failure;
use crate::input;

/// An answer that was read from a file.
#[derive(Debug)]
pub enum AnswerFile {
    /// The log of a placer.
    Placement(Box<PlacementLog>),
    /// The counted system calls of a program under `offload`.
    Offload(OffLoadAnswer),
}

impl AnswerFile {
    /// Returns the answer in a file; `None` if the file is something else.
    ///
    /// # Errors
    /// Fails with exit code 4 if the file begins like an answer and is damaged.
    pub fn read(path: &Path) -> Result<Option<Self>, Failure> {
        if let Some(log) = input::placement(path)? {
            return Ok(Some(Self::Placement(Box::new(log))));
        }
        input::off_load(path).map(|answer| answer.map(Self::Offload))
    }
}
