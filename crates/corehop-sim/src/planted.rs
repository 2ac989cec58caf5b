// SPDX-License-Identifier: MIT OR Apache-2.0
//! Planted bugs: mistakes that a test can switch on, to see whether the other tests notice.
//!
//! The simulator evaluates `bug!(NAME)` at each place where an error would matter. In the library, the macro is the
//! constant `false`, so no code remains; in the unit tests, the macro is true on the thread that has planted this
//! bug.

#[cfg(not(test))]
macro_rules! bug {
    ($name:ident) => {
        false
    };
}
#[cfg(test)]
macro_rules! bug {
    ($name:ident) => {
        $crate::planted::is($crate::planted::Bug::$name)
    };
}

#[cfg(test)]
pub(crate) use switch::{Bug, is, with};

#[cfg(test)]
mod switch {
    use std::cell::Cell;

    macro_rules! bugs {
        ($($(#[doc = $doc:literal])+ $name:ident),+ $(,)?) => {
            /// A planted bug.
            #[derive(Debug, Clone, Copy, PartialEq, Eq)]
            pub(crate) enum Bug { $($(#[doc = $doc])+ $name),+ }
            impl Bug {
                pub(crate) const ALL: &'static [Self] = &[$(Self::$name),+];
            }
        };
    }

    bugs! {
        /// A hit does not change the order of replacement.
        HitIsNoUse,
        /// A new line does not come first in the order of replacement.
        FillIsNoUse,
        /// FIFO orders lines by use instead of by fill.
        FifoUsesHits,
        /// The bits of the tree point to the last use.
        TreeNotFlipped,
        /// The last bit of bit PLRU clears nothing.
        BitPlruNeverClears,
        /// SRRIP expects new lines soon.
        SrripFillsNear,
        /// The ages of a quad-age policy do not grow after a use.
        QuadAgeNeverGrows,
        /// The misses of a policy's leader sets count in favour of that policy in DRRIP.
        DuelVotesInverted,
        /// The bimodal sets of DRRIP insert as the static sets do.
        BimodalIsStatic,
        /// Empty ways are not taken first.
        EmptyWaysIgnored,
        /// The way mask is ignored.
        MaskIgnored,
        /// The set index is computed for the next lower power of two of sets.
        SetsPowerOfTwo,
        /// A line that leaves an inclusive cache stays in the inner caches.
        NoBackInvalidation,
        /// The dirty data of the inner caches are lost at a back-invalidation.
        BackInvalidationLosesData,
        /// A dirty line that is evicted is dropped.
        DirtyEvictionDropped,
        /// A hit in an exclusive cache leaves the line there.
        ExclusiveKeeps,
        /// A line moved inwards from an exclusive cache comes clean.
        ExclusiveMoveCleans,
        /// Clean victims do not enter an exclusive cache.
        ExclusiveTakesOnlyDirty,
        /// A victim enters an exclusive cache although another inner cache still has the victim.
        ExclusiveDuplicates,
        /// A read takes a shared line out of a mostly exclusive cache.
        SharedLineMoves,
        /// A write leaves the line in a mostly exclusive cache.
        WrittenLineStays,
        /// A mostly exclusive cache that has a line rejects newer data of that line.
        StayedLineLosesData,
        /// A dirty victim that a non-inclusive cache lacks is dropped.
        NonInclusiveDropsVictims,
        /// A write to an exclusive line leaves the line clean.
        SilentWriteStaysClean,
        /// A write to a shared line does not invalidate the other copies.
        UpgradeForgetsOthers,
        /// A write that misses leaves the copies of other packages.
        WriteMissForgetsPackages,
        /// A reader gets a line as exclusive although other caches have the line.
        ReadGrantsExclusive,
        /// The owner keeps the right to write when another cache reads.
        OwnerKeepsRight,
        /// Modified data is not written back when another package reads under MESI.
        MesiForgetsWriteBack,
        /// The owner under MOESI loses its data when another cache reads.
        OwnerForgetsData,
        /// A forwarder remains the forwarder after another cache has become the forwarder.
        TwoForwarders,
        /// An inclusive cache does not set the child's bit when a line moves to the child.
        PresenceNotSet,
        /// An inclusive cache clears the child's bit when the child evicts a dirty line, although the child has
        /// another copy.
        PresenceClearedEarly,
        /// A stale child bit stays set after the child has answered that it lacks the line.
        StalePresenceKept,
        /// Instruction caches keep lines that are written.
        WriteForgetsInstructions,
        /// Only the first of several children with the line is asked.
        OneSharerAsked,
        /// A flush forgets the outermost level.
        FlushForgetsLast,
        /// Hits of the innermost cache are not counted for writes.
        WriteHitsUncounted,
        /// A write-through cache keeps the dirty line.
        WriteThroughKeepsDirty,
        /// A prefetch goes into the innermost cache.
        PrefetchGoesInside,
        /// The quick loop passes lines inwards that other caches may have, without asking these caches.
        FastPathAsksNone,
        /// The quick loop does not set the bit of the cache inside.
        FastPathSetsNoBit,
        /// The quick loop does not purge the second cache.
        FastPathPurgesOnlyInnermost,
        /// The quick loop drops dirty lines of the outermost cache.
        FastPathForgetsWriteBack,
        /// The quick loop drops lines that prefetchers ask for.
        FastPathDropsWanted,
        /// The quick loop drops dirty lines of the second cache.
        FastPathForgetsSecond,
        /// The quick loop drops dirty lines of the innermost cache.
        FastPathForgetsInnermost,
        /// The quick loop does not make written lines dirty.
        FastPathForgetsWrite,
        /// After a pause of the quick loop the caches inside are not filled.
        FastPathResumesTooLate,
        /// The quick loop ignores the caches of other packages.
        FastPathForgetsPackages,
        /// The quick loop ignores caches beside the innermost cache.
        FastPathForgetsBeside,
        /// Sharers that need no request are counted as absent.
        OtherSharersUncounted,
        /// A line whose entry in a snoop filter has gone stays in the caches inside.
        FilterForgetsVictim,
        /// The newer data of a line is lost when the line's snoop-filter entry is evicted.
        FilterLosesData,
        /// Snoop-filter entries of lines that have left are not preferred for replacement.
        FilterKeepsStale,
    }

    thread_local! {
        static PLANTED: Cell<Option<Bug>> = const { Cell::new(None) };
    }

    /// Whether this bug is planted on this thread.
    #[inline]
    pub(crate) fn is(bug: Bug) -> bool {
        PLANTED.get() == Some(bug)
    }

    /// The result of `body` with this bug planted.
    pub(crate) fn with<T>(bug: Bug, body: impl FnOnce() -> T) -> T {
        struct Clear;
        impl Drop for Clear {
            fn drop(&mut self) {
                PLANTED.set(None);
            }
        }
        let _clear = Clear;
        PLANTED.set(Some(bug));
        body()
    }
}
