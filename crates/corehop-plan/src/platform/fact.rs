// SPDX-License-Identifier: MIT OR Apache-2.0
//! A value with its source and the result of a check.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A value, its source, and the result of checking the value.
///
/// A fact in a platform file has the form
/// `{ value = "3 MiB", source = "cited: section 4 of the paper" }`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fact<T> {
    /// The value that the fact states.
    pub value: T,
    /// The source from which corehop has the value.
    pub source: FactOrigin,
    /// The result of checking the value against the machine.
    #[serde(default, skip_serializing_if = "Check::is_unchecked")]
    pub check: Check,
}

impl<T> Fact<T> {
    /// Makes a fact with `value` from `source`, not yet checked.
    pub fn new(value: T, source: FactOrigin) -> Self {
        Self { value, source, check: Check::Unchecked }
    }
    /// Makes a fact that is stated in `place`: a section, a table, or a file of the kernel.
    pub fn cited(value: T, place: impl Into<String>) -> Self {
        Self::new(value, FactOrigin::Cited { place: place.into() })
    }
    /// Makes a fact that was measured by the method `how`, which may be empty.
    pub fn measured(value: T, how: impl Into<String>) -> Self {
        Self::new(value, FactOrigin::Measured { how: how.into() })
    }
    /// Makes a fact that was fitted on the rows that `on` names.
    pub fn fitted(value: T, on: impl Into<String>) -> Self {
        Self::new(value, FactOrigin::Fitted { on: on.into() })
    }
    /// Makes a fact that is assumed for the reason `why`, which may be empty.
    pub fn assumed(value: T, why: impl Into<String>) -> Self {
        Self::new(value, FactOrigin::Assumed { why: why.into() })
    }
    /// Returns whether a check contradicted the value.
    pub fn is_contradicted(&self) -> bool {
        matches!(self.check, Check::Contradicted { .. })
    }
}

/// The source from which corehop has the value of a fact. A platform file writes the
/// source as a word (`cited`, `measured`, `fitted` or `assumed`), a colon, and the place, method, rows or reason.
/// The method of `measured` and the reason of `assumed` may be absent, together with the colon.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum FactOrigin {
    /// A document, or a file of the kernel, states the value.
    Cited {
        /// The document, and the place in the document.
        place: String,
    },
    /// The value was measured on the machine itself.
    Measured {
        /// The method of the measurement, or an empty text.
        how: String,
    },
    /// The value was chosen so that a prediction fits data.
    Fitted {
        /// The rows on which the value was fitted; these rows cannot be used to judge the value.
        on: String,
    },
    /// The value is unknown, so a plausible value was chosen.
    Assumed {
        /// The reason why the value is plausible, or an empty text.
        why: String,
    },
}

/// The result of checking a stated value against the machine. A platform file writes the check
/// as the word `observed` or `contradicted`, a colon, and the evidence. The evidence of `observed` may be absent,
/// together with the colon.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Check {
    /// No measurement checked the value of the fact.
    #[default]
    Unchecked,
    /// The machine behaves as the value states.
    Observed {
        /// The evidence that a measurement gave for the value.
        how: String,
    },
    /// The machine, or another fact about the machine, contradicts the value.
    Contradicted {
        /// The evidence that a measurement gave against the value.
        why: String,
    },
}

impl Check {
    /// Returns whether the value was not checked.
    pub fn is_unchecked(&self) -> bool {
        *self == Self::Unchecked
    }
}

/// The error for a text that is not a source or not a check.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not {expected}")]
pub struct ProvenanceError {
    text: String,
    expected: &'static str,
}

/// Writes `word` alone, or `word: detail`.
fn tagged(f: &mut fmt::Formatter<'_>, word: &str, detail: &str) -> fmt::Result {
    if detail.is_empty() { f.write_str(word) } else { write!(f, "{word}: {detail}") }
}

/// Returns the word before the first colon, and the text after the colon.
fn untagged(text: &str) -> (&str, String) {
    let (word, detail) = text.split_once(':').unwrap_or((text, ""));
    (word.trim(), detail.trim().to_owned())
}

impl fmt::Display for FactOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cited { place } => tagged(f, "cited", place),
            Self::Measured { how } => tagged(f, "measured", how),
            Self::Fitted { on } => tagged(f, "fitted", on),
            Self::Assumed { why } => tagged(f, "assumed", why),
        }
    }
}

impl FromStr for FactOrigin {
    type Err = ProvenanceError;
    fn from_str(text: &str) -> Result<Self, ProvenanceError> {
        match untagged(text) {
            ("cited", place) if !place.is_empty() => Ok(Self::Cited { place }),
            ("fitted", on) if !on.is_empty() => Ok(Self::Fitted { on }),
            ("measured", how) => Ok(Self::Measured { how }),
            ("assumed", why) => Ok(Self::Assumed { why }),
            _ => Err(ProvenanceError {
                text: text.to_owned(),
                expected: "a source: write `cited: PLACE`, `measured`, `fitted: ROWS` or `assumed`",
            }),
        }
    }
}

impl fmt::Display for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unchecked => f.write_str("unchecked"),
            Self::Observed { how } => tagged(f, "observed", how),
            Self::Contradicted { why } => tagged(f, "contradicted", why),
        }
    }
}

impl FromStr for Check {
    type Err = ProvenanceError;
    fn from_str(text: &str) -> Result<Self, ProvenanceError> {
        match untagged(text) {
            ("unchecked", rest) if rest.is_empty() => Ok(Self::Unchecked),
            ("observed", how) => Ok(Self::Observed { how }),
            ("contradicted", why) if !why.is_empty() => Ok(Self::Contradicted { why }),
            _ => Err(ProvenanceError {
                text: text.to_owned(),
                expected: "a check: write `observed` or `contradicted: WHY`",
            }),
        }
    }
}

/// Lets serde write a source or a check as its text.
macro_rules! as_text {
    ($($kind:ty),*) => {$(
        impl From<$kind> for String {
            fn from(value: $kind) -> Self { value.to_string() }
        }
        impl TryFrom<String> for $kind {
            type Error = ProvenanceError;
            fn try_from(text: String) -> Result<Self, ProvenanceError> { text.parse() }
        }
    )*};
}
as_text!(FactOrigin, Check);
