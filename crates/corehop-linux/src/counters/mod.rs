// SPDX-License-Identifier: MIT OR Apache-2.0
//! The counters of the kernel and the processor for a thread and its CPU, and which of them this
//! host offers. Nothing in this module requires privileges, but some counters are unavailable
//! without them. [`attribution::Attribution`] picks the best available source and reports which one
//! it is.

pub mod software;
pub mod hardware;
pub mod threads;
pub mod traffic;
pub mod attribution;

/// The reason why a counter cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CounterError {
    /// This host does not offer the counter, or denies it to this user.
    #[error("corehop cannot read {what}: {reason}; {remedy}")]
    Unavailable {
        /// The name of the counter.
        what: String,
        /// The reason, derived from the kernel's error.
        reason: String,
        /// The way to make the counter available.
        remedy: String,
        /// The kernel's error number.
        errno: Option<i32>,
    },
    /// A file or an answer of the kernel has an unexpected format.
    #[error("{what} cannot be parsed: `{found}`")]
    Malformed {
        /// The file, or the answer of the kernel, that has the unexpected format.
        what: &'static str,
        /// The part of the file or answer that corehop does not understand.
        found: String,
    },
}

impl CounterError {
    /// The error for the counter `what`, which the kernel refused with `error`.
    fn unavailable(
        what: impl Into<String>,
        error: &std::io::Error,
        reason: impl std::fmt::Display,
        remedy: impl Into<String>,
    ) -> Self {
        Self::Unavailable {
            what: what.into(),
            reason: format!("{reason} ({error})"),
            remedy: remedy.into(),
            errno: error.raw_os_error(),
        }
    }
}
