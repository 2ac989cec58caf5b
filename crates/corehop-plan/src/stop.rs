// SPDX-License-Identifier: MIT OR Apache-2.0
//! Early ends of long work: an interrupt, or a budget that is used up.
//!
//! A caller makes a [`Stop`] and hands clones of it to everything that takes long. A loop asks the clone every few
//! thousand steps, ends early when the answer is yes, and keeps nothing of the step under way.

use std::fmt;
use std::sync::Arc;

/// The request to end the work under way. The core has no clock and no signals, so the caller supplies the answer.
///
/// An answer costs a call and perhaps a look at a clock: ask at most some thousand times a second.
#[derive(Clone, Default)]
pub struct Stop(Option<Arc<dyn Fn() -> bool + Send + Sync>>);

impl Stop {
    /// Work that is never interrupted.
    pub const fn never() -> Self {
        Self(None)
    }

    /// Work that ends as soon as `asked` returns true. Once true, the answer must stay true.
    pub fn when(asked: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(asked)))
    }

    /// Whether the work has to end now.
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
