// SPDX-License-Identifier: MIT OR Apache-2.0
//! The answers of `place` and `offload` in files: what `-o` wrote, read again.

use std::path::Path;

use corehop_core::decision::placer::log::PlacementLog;
use serde_json::Value;

use crate::exit::{Exit, Failure};
use crate::input;

/// The first word of an answer of `offload`.
const OFFLOAD: &str = "corehop-offload";

/// An answer in a file.
#[derive(Debug)]
pub(crate) enum Answer {
    /// The log of a placer.
    Placement(Box<PlacementLog>),
    /// The calls of a program under `offload`.
    Offload(Value),
}

impl Answer {
    /// The answer in a file; None if the file is something else.
    ///
    /// # Errors
    /// Exit 4 where the file begins as an answer and is damaged.
    pub(crate) fn read(path: &Path) -> Result<Option<Self>, Failure> {
        if let Some(log) = input::placement(path)? {
            return Ok(Some(Self::Placement(Box::new(log))));
        }
        offload(path).map(|answer| answer.map(Self::Offload))
    }
}

/// The answer of `offload` in a file, if it is one.
fn offload(path: &Path) -> Result<Option<Value>, Failure> {
    let named =
        |what: String| Failure::says(Exit::Damaged, what).context(corehop_core::shown::path(path));
    let Ok(text) = input::text(path) else { return Ok(None) };
    if !text.trim_start().starts_with('{') || !text.contains(OFFLOAD) {
        return Ok(None);
    }
    let answer: Value = serde_json::from_str(&text).map_err(|error| named(error.to_string()))?;
    if answer["schema"] != OFFLOAD {
        return Ok(None);
    }
    match answer["version"].as_u64() {
        Some(1) => Ok(Some(answer)),
        _ => Err(named("an answer of a later version: use a later corehop".to_owned())),
    }
}
