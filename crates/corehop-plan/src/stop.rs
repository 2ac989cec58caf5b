// SPDX-License-Identifier: MIT OR Apache-2.0
//! Early ends of long work, because of an interrupt or an exhausted budget.
//!
//! A caller makes a [`Stop`] and passes clones of it to every function that takes long. A loop checks the clone
//! every few thousand steps; if the clone requests an end, the loop ends early and discards the step in progress.

use std::fmt;
use std::sync::Arc;

/// A request to end the work in progress. The crate uses no clock and no signals, so the caller supplies the
/// check.
///
/// A check costs a call and perhaps a clock reading, so a loop should check at most some thousand times a second.
#[derive(Clone, Default)]
pub struct Stop(Option<Arc<dyn Fn() -> bool + Send + Sync>>);

impl Stop {
    /// Makes a request that never ends the work.
    pub const fn never() -> Self {
        Self(None)
    }

    /// Makes a request that ends the work as soon as `asked` returns true. Once `asked` has returned true, it
    /// must keep returning true.
    pub fn when(asked: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(asked)))
    }

    /// Returns whether the work has to end now.
    pub fn is_asked(&self) -> bool {
        self.0.as_ref().is_some_and(|asked| asked())
    }
}

impl fmt::Debug for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Stop").field(&self.0.as_ref().map(|_| "asked of the caller")).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    #[test]
    fn all_clones_of_a_stop_give_the_answer_of_the_caller() {
        let (flag, shown) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let (its, told) = (flag.clone(), shown.clone());
        let stop = Stop::when(move || {
            told.store(true, Ordering::Relaxed);
            its.load(Ordering::Relaxed)
        });
        let clone = stop.clone();
        assert!(!clone.is_asked() && shown.load(Ordering::Relaxed));
        flag.store(true, Ordering::Relaxed);
        assert!(clone.is_asked() && stop.is_asked());
        assert!(!Stop::never().is_asked());
    }
}
