// SPDX-License-Identifier: MIT OR Apache-2.0
//! The words for the courses of jobs.

use crate::words::words;

impl Default for JobOutcome {
    /// Returns the course of a job for which no record exists yet.
    fn default() -> Self {
        Self::Unwatched
    }
}

words! {
    /// The course of a job of a task set, compared with Fig. 1 of Bastoni et al.
    JobOutcome, "a course" {
        /// The job ran as in Fig. 1 of Bastoni, Brandenburg and Anderson (2010): a cold and a warm touch, one absence
        /// while the job waited, and a resumed touch.
        Sample = "sample",
        /// The job never lost its CPU: it waited on the CPU until its execution time was over.
        NotAway = "not_away",
        /// The job lost its CPU during the cold touch.
        AwayInCold = "away_in_cold",
        /// The job lost its CPU during the warm touch.
        AwayInWarm = "away_in_warm",
        /// The job lost its CPU a second time, before the resumed touch was complete.
        AwayAgain = "away_again",
        /// The job's execution time ended before the working set was warm, or too little execution time remained
        /// after the absence for a resumed touch.
        TooShort = "too_short",
        /// The job gave up its CPU itself, because of a page fault or because the kernel made the job wait.
        Blocked = "blocked",
        /// corehop did not watch the run, in order to measure what watching costs, so the course of the job is
        /// unknown.
        Unwatched = "unwatched",
    }
}
