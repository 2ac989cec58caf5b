// SPDX-License-Identifier: MIT OR Apache-2.0
//! The words of the courses of jobs.

use crate::words::words;

impl Default for JobOutcome {
    /// Of a record that tells of nothing yet.
    fn default() -> Self {
        Self::Unwatched
    }
}

words! {
    /// The course of a job of a task set, seen from Fig. 1 of Bastoni et al.
    JobOutcome, "a course" {
        /// As in Fig. 1: cold and warm, away once while it waited, and touched again.
        Sample = "sample",
        /// It was never away: it waited until its execution time was over.
        NotAway = "not_away",
        /// It was away during its cold touch.
        AwayInCold = "away_in_cold",
        /// It was away during its warm touch.
        AwayInWarm = "away_in_warm",
        /// It was away a second time, before it had touched its working set again.
        AwayAgain = "away_again",
        /// Its execution time was over before its working set was warm, or too little of it was left, when
        /// it was away, to touch it again.
        TooShort = "too_short",
        /// It gave its CPU up itself: a page fault, or the kernel made it wait.
        Blocked = "blocked",
        /// The run was not watched, to see what watching costs: its course is unknown.
        Unwatched = "unwatched",
    }
}
