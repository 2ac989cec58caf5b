// SPDX-License-Identifier: MIT OR Apache-2.0
//! A value together with where it came from and whether anyone has looked.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A value, its source, and what a check of it found.
///
/// In a file: `{ value = "3 MiB", source = "cited: OSPERT 2010, section 4" }`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fact<T> {
    /// The value.
    pub value: T,
    /// Its origin.
    pub source: FactOrigin,
    /// The finding of a check against the machine, if there was one.
    #[serde(default, skip_serializing_if = "Check::is_unchecked")]
    pub check: Check,
}

impl<T> Fact<T> {
    /// `value`, from `source`, unchecked.
    pub fn new(value: T, source: FactOrigin) -> Self {
        Self { value, source, check: Check::Unchecked }
    }
    /// `value` as stated in `place`: a section, a table, a file of the kernel.
    pub fn cited(value: T, place: impl Into<String>) -> Self {
        Self::new(value, FactOrigin::Cited { place: place.into() })
    }
    /// `value` as measured; `how` may be empty.
    pub fn measured(value: T, how: impl Into<String>) -> Self {
        Self::new(value, FactOrigin::Measured { how: how.into() })
    }
    /// `value` as fitted on the rows named by `on`.
    pub fn fitted(value: T, on: impl Into<String>) -> Self {
        Self::new(value, FactOrigin::Fitted { on: on.into() })
    }
    /// `value` as assumed; `why` may be empty.
    pub fn assumed(value: T, why: impl Into<String>) -> Self {
        Self::new(value, FactOrigin::Assumed { why: why.into() })
    }
    /// Whether a check found the value wrong.
    pub fn is_contradicted(&self) -> bool {
        matches!(self.check, Check::Contradicted { .. })
    }
}

/// The origin of a value. Written `cited: PLACE`, `measured[: HOW]`, `fitted: ROWS` or `assumed[: WHY]`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum FactOrigin {
    /// Stated somewhere; a file of the kernel counts as such a place.
    Cited {
        /// The document and place.
        place: String,
    },
    /// Measured on the machine itself.
    Measured {
        /// By which method, or empty.
        how: String,
    },
    /// Chosen so that a prediction meets data.
    Fitted {
        /// The rows it was fitted on; they cannot judge it.
        on: String,
    },
    /// Nothing known; a plausible value was put in.
    Assumed {
        /// The reason why it is plausible, or empty.
        why: String,
    },
}

/// The finding of a check of a declared value against the machine. Written `observed[: HOW]` or
/// `contradicted: WHY`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Check {
    /// Not checked.
    #[default]
    Unchecked,
    /// The machine behaves as stated.
    Observed {
        /// The evidence.
        how: String,
    },
    /// The machine, or another fact about it, says otherwise.
    Contradicted {
        /// The evidence.
        why: String,
    },
}

impl Check {
    /// Whether it is unchecked.
    pub fn is_unchecked(&self) -> bool {
        *self == Self::Unchecked
    }
}

/// Why a text is no source or no check.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not {expected}")]
pub struct ProvenanceError {
    text: String,
    expected: &'static str,
}

/// `word` alone, or `word: detail`.
fn tagged(f: &mut fmt::Formatter<'_>, word: &str, detail: &str) -> fmt::Result {
    if detail.is_empty() { f.write_str(word) } else { write!(f, "{word}: {detail}") }
}

/// The word before the first colon, and what follows it.
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
