// SPDX-License-Identifier: MIT OR Apache-2.0
//! The counters of the kernel and the processor for a thread and its CPU, and which are available
//! here. Nothing in this module needs privileges, but some of it does not answer without them;
//! [`attribution::Attribution`] picks the best there is and says so.

pub mod software;
pub mod hardware;
pub mod threads;
pub mod traffic;
pub mod attribution;

/// Why a counter cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CounterError {
    /// This host does not give it, or not to this user.
    #[error("{what} not available: {reason}; {remedy}")]
    Unavailable {
        /// The counter.
        what: String,
        /// Why, from what the kernel said.
        reason: String,
        /// The remedy.
        remedy: String,
        /// The kernel's error number.
        errno: Option<i32>,
    },
    /// A file or an answer of the kernel that does not look as it should.
    #[error("{what} cannot be parsed: `{found}`")]
    Malformed {
        /// The file or answer.
        what: &'static str,
        /// The part of it that is not understood.
        found: String,
    },
}

impl CounterError {
    /// The counter `what`, for which the kernel has answered with `error`.
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
