// SPDX-License-Identifier: MIT OR Apache-2.0
//! Faults that a test plants into the protocols, to show that the checks would find them.
//!
//! Outside of models no fault is planted, and the compiler removes the checks for faults.

/// A step that a faulty protocol omits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ProtocolFault {
    /// A thread goes to sleep without checking for news once more, so a wake-up is lost.
    SleepsWithoutLooking,
    /// A partner does not claim the call, so a call that was taken back runs twice.
    TakesWithoutClaim,
    /// A partner checks whether the caller wants the call back before it announces that it runs the
    /// call.
    LooksBeforeItAnnounces,
    /// A partner does not order its announcement before its check.
    AnnouncesWithoutOrder,
    /// A caller takes a call back without ordering the partner's steps.
    TakesBackWithoutOrder,
    /// The call is posted before its closure is complete.
    PostsWithoutRelease,
    /// The sequence number is written before the result, so the caller reads an old result.
    AnnouncesBeforeResult,
}

/// Whether the fault is planted.
#[cfg(not(loom))]
pub(crate) const fn planted(_: ProtocolFault) -> bool {
    false
}

#[cfg(loom)]
mod switch {
    use super::ProtocolFault;
    use std::sync::Mutex;

    static PLANTED: Mutex<Option<ProtocolFault>> = Mutex::new(None);

    pub(crate) fn planted(fault: ProtocolFault) -> bool {
        *PLANTED.lock().unwrap_or_else(std::sync::PoisonError::into_inner) == Some(fault)
    }

    /// Plants a fault for all models that follow.
    pub(crate) fn plant(fault: Option<ProtocolFault>) {
        *PLANTED.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = fault;
    }
}

#[cfg(loom)]
pub(crate) use switch::{plant, planted};
