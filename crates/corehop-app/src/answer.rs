// SPDX-License-Identifier: MIT OR Apache-2.0
//! The answer of a use case, in every form that a caller may show.

use serde_json::Value;

use crate::failure::Exit;

/// A sentence in plain words, and what it rests on.
#[derive(Debug)]
pub struct Answer {
    /// The answer to the question that was asked.
    pub sentence: String,
    /// The same for programs, with all of the evidence.
    pub json: Value,
    /// The evidence for people; may be empty.
    pub text: String,
    /// Whether the answer is yes, no, or that the work ended early.
    pub exit: Exit,
}
