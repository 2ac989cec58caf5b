// SPDX-License-Identifier: MIT OR Apache-2.0
//! The answer of a use case, in every form that a caller may show.

use serde_json::Value;

use crate::failure::Exit;

/// A plain-language sentence with its evidence.
#[derive(Debug)]
pub struct Answer {
    /// The one-sentence answer to the user's question.
    pub sentence: String,
    /// The answer with all evidence, for programs.
    pub json: Value,
    /// The evidence as text for readers; may be empty.
    pub text: String,
    /// The exit code: the answer is yes, no, or the work ended early.
    pub exit: Exit,
}
