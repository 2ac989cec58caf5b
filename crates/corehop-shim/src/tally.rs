// SPDX-License-Identifier: MIT OR Apache-2.0
//! The counts of a board, which the command reads after the program has ended.
//!
//! The files of a board belong to the program, which may have truncated them, deleted them or filled them with
//! anything. So the files are read and not mapped, because a mapping of a file that became shorter raises SIGBUS.
//! Numbers that are impossible within the run's time make all counts unknown.

use std::ffi::OsStr;
use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use crate::board::{
    self, BYTES, CAREFUL, COUNTS, CallFate, EVENTS, FIRST_COUNT, FIRST_ROW, ProcessEvent, ROW,
};
use crate::call::{CALLS, Call};

/// The largest number of files of counts that are read, one for each user of the program's processes.
const MOST_FILES: usize = 256;
/// The counts of a call that are times; all others are numbers of calls.
const TICKS: [CallFate; 2] = [CallFate::TicksHere, CallFate::TicksThere];
/// The largest accepted gain, in thousandths: a thousand times as fast.
const MOST_GAIN: u64 = 1_000_000;

/// The largest numbers that are possible within the time of a run.
#[derive(Debug, Clone, Copy)]
pub struct TallyLimits {
    /// The largest number of calls of one thread, and of events of a program.
    pub calls: u64,
    /// The largest number of time-stamp counter ticks in the calls of one thread.
    pub ticks: u64,
}

impl TallyLimits {
    /// Returns the limits for a run of `elapsed_ns` nanoseconds. No call takes less than a nanosecond, and calls from
    /// signal handlers inside calls are not nested deeply.
    pub fn of(elapsed_ns: u64, ticks_per_ns: f64) -> Self {
        const NESTED: u64 = 16;
        let calls = elapsed_ns.saturating_mul(NESTED);
        Self { calls, ticks: (calls as f64 * ticks_per_ns) as u64 }
    }
}

/// The reason why the counts of a program are unknown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unknown(String);

impl fmt::Display for Unknown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The counts over all processes of a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallTally {
    counts: [[u64; COUNTS]; CALLS],
    events: [u64; ProcessEvent::ALL.len()],
}

impl CallTally {
    /// Reads all files of counts in the folder of a board.
    ///
    /// # Errors
    /// Returns an error if a file is missing, has another length, or contains numbers beyond `limits`, because the
    /// program has then changed the file.
    pub fn of(folder: &Path, limits: &TallyLimits) -> Result<Self, Unknown> {
        let unreadable = |error: io::Error| Unknown(format!("{}: {error}", folder.display()));
        let mut tally = Self { counts: [[0; COUNTS]; CALLS], events: [0; ProcessEvent::ALL.len()] };
        let mut files = 0;
        for entry in std::fs::read_dir(folder).map_err(unreadable)? {
            let name = entry.map_err(unreadable)?.file_name();
            if !is_of_a_user(&name) {
                continue;
            }
            files += 1;
            if files > MOST_FILES {
                return Err(Unknown(format!("there are more than {MOST_FILES} files of counts")));
            }
            let added = words(&folder.join(&name)).and_then(|words| tally.add(&words, limits));
            let of_user = |why| Unknown(format!("file of user {}: {why}", name.to_string_lossy()));
            added.map_err(of_user)?;
        }
        if files == 0 { Err(Unknown("the file of counts is gone".to_owned())) } else { Ok(tally) }
    }

    /// Adds the counts of one file.
    fn add(&mut self, words: &[u64], limits: &TallyLimits) -> Result<(), String> {
        let absurd = |what: &str, number: u64| {
            Err(format!(
                "the file counts {number} {what}, more than can happen in the time of the run"
            ))
        };
        for (event, sum) in ProcessEvent::ALL.into_iter().zip(&mut self.events) {
            let number = words[EVENTS + event as usize];
            match event.limit(limits) {
                limit if number > limit => return absurd("events or ticks", number),
                _ => *sum = event.joined(*sum, number),
            }
        }
        for row in words[FIRST_ROW..].chunks_exact(ROW) {
            let (mut calls, mut ticks) = (0_u64, 0_u64);
            for (at, &number) in row[FIRST_COUNT..].iter().enumerate() {
                let is_time = TICKS.iter().any(|it| *it as usize == at % COUNTS);
                let sum = if is_time { &mut ticks } else { &mut calls };
                *sum = sum.saturating_add(number);
                let total = &mut self.counts[at / COUNTS][at % COUNTS];
                *total = total.saturating_add(number);
            }
            if calls > limits.calls {
                return absurd("calls of a thread", calls);
            }
            if ticks > limits.ticks {
                return absurd("ticks in calls of a thread", ticks);
            }
        }
        Ok(())
    }

    /// Returns a count of a call, over all threads.
    pub fn total(&self, call: Call, count: CallFate) -> u64 {
        self.counts[call as usize][count as usize]
    }

    /// Returns the count of an event, over all processes.
    pub fn event(&self, event: ProcessEvent) -> u64 {
        self.events[event as usize]
    }
}

/// Whether the file name is a user ID; other files are the settings and unfinished files.
fn is_of_a_user(name: &OsStr) -> bool {
    name.to_str().is_some_and(|name| name.parse::<u32>().is_ok())
}

/// The words of a file of counts.
fn words(path: &Path) -> Result<Vec<u64>, String> {
    let text = |error: io::Error| error.to_string();
    let file = File::options().read(true).custom_flags(CAREFUL).open(path).map_err(text)?;
    if !file.metadata().map_err(text)?.is_file() {
        return Err("it is not a regular file".to_owned());
    }
    let mut bytes = Vec::with_capacity(BYTES);
    file.take(BYTES as u64 + 1).read_to_end(&mut bytes).map_err(text)?;
    if bytes.len() != BYTES {
        let more = if bytes.len() > BYTES { "more than " } else { "" };
        return Err(format!("it has {more}{} bytes, not {BYTES}", bytes.len().min(BYTES)));
    }
    Ok(board::words(&bytes))
}

impl ProcessEvent {
    /// All events, in the order of their numbers.
    pub const ALL: [Self; 11] = [
        Self::Processes,
        Self::Partners,
        Self::WithoutPartner,
        Self::TurnedOff,
        Self::UntilTurnedOff,
        Self::Loss,
        Self::Private,
        Self::WithoutRow,
        Self::Unused,
        Self::SentAll,
        Self::Gain,
    ];

    fn limit(self, limits: &TallyLimits) -> u64 {
        match self {
            Self::UntilTurnedOff => limits.ticks,
            Self::Loss => 1000,
            Self::Gain => MOST_GAIN,
            _ => limits.calls,
        }
    }

    /// Joins the numbers of two files: a value is taken from the file that has it, and counts are added.
    fn joined(self, one: u64, other: u64) -> u64 {
        match self {
            Self::UntilTurnedOff | Self::Loss | Self::Gain => one.max(other),
            _ => one.saturating_add(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::fs;

    const LIMITS: TallyLimits = TallyLimits { calls: 1000, ticks: 5000 };

    fn read(bytes: &[u8]) -> Result<CallTally, Unknown> {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("1000"), bytes).unwrap();
        CallTally::of(folder.path(), &LIMITS)
    }

    fn with(words: &[(usize, u64)]) -> Result<CallTally, Unknown> {
        let mut bytes = vec![0; BYTES];
        for &(at, word) in words {
            bytes[at * 8..at * 8 + 8].copy_from_slice(&word.to_ne_bytes());
        }
        read(&bytes)
    }

    fn said(tally: Result<CallTally, Unknown>) -> String {
        tally.unwrap_err().to_string()
    }

    #[test]
    fn a_file_of_another_length_and_one_that_is_gone_are_unknown_and_not_zero() {
        for length in [0, 1, 8, 4096, BYTES - 1] {
            assert!(said(read(&vec![0; length])).contains(&format!("it has {length} bytes")));
        }
        assert!(said(read(&vec![0; BYTES + 1])).contains("more than"));
        let folder = tempfile::tempdir().unwrap();
        assert!(said(CallTally::of(folder.path(), &LIMITS)).contains("gone"));
        assert!(CallTally::of(&folder.path().join("none"), &LIMITS).is_err());
        fs::create_dir(folder.path().join("7")).unwrap();
        assert!(said(CallTally::of(folder.path(), &LIMITS)).contains("user 7"));
    }

    #[test]
    fn a_link_is_not_followed_and_a_fifo_is_not_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("7");
        std::os::unix::fs::symlink("/dev/zero", &path).unwrap();
        assert!(CallTally::of(folder.path(), &LIMITS).is_err());
        fs::remove_file(&path).unwrap();
        let name = std::ffi::CString::new(path.to_str().unwrap()).unwrap();
        // SAFETY: a string that ends with a zero.
        assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
        assert!(said(CallTally::of(folder.path(), &LIMITS)).contains("regular"));
    }

    #[test]
    fn numbers_beyond_the_time_of_the_run_are_not_believed() {
        let first = FIRST_ROW + FIRST_COUNT;
        assert_eq!(with(&[(first, 1000)]).unwrap().total(Call::Read, CallFate::Small), 1000);
        assert!(said(with(&[(first, 1001)])).contains("1001 calls of a thread"));
        // Two counts of one thread, whose sum is too large, or wraps.
        assert!(with(&[(first, 600), (first + COUNTS, 600)]).is_err());
        assert!(with(&[(first, u64::MAX), (first + COUNTS, 2)]).is_err());
        let ticks = first + CallFate::TicksThere as usize;
        assert!(with(&[(ticks, 5000)]).is_ok());
        assert!(said(with(&[(ticks, 5001)])).contains("ticks in calls"));
        let event = |event: ProcessEvent, number| with(&[(EVENTS + event as usize, number)]);
        assert!(
            event(ProcessEvent::Loss, 1000).is_ok() && event(ProcessEvent::Loss, 1001).is_err()
        );
        assert!(
            event(ProcessEvent::Processes, 1000).is_ok()
                && event(ProcessEvent::Processes, 1001).is_err()
        );
        assert!(
            event(ProcessEvent::Gain, MOST_GAIN).is_ok()
                && event(ProcessEvent::Gain, u64::MAX).is_err()
        );
    }

    #[test]
    fn each_event_has_the_place_of_its_number() {
        for (at, event) in ProcessEvent::ALL.into_iter().enumerate() {
            assert_eq!(event as usize, at);
        }
    }

    #[test]
    fn the_files_of_several_users_are_added_up() {
        let folder = tempfile::tempdir().unwrap();
        let mut bytes = vec![0; BYTES];
        let at = (FIRST_ROW + FIRST_COUNT) * 8;
        bytes[at] = 3;
        for name in ["0", "65534", "wishes", ".33-1"] {
            fs::write(folder.path().join(name), &bytes).unwrap();
        }
        let tally = CallTally::of(folder.path(), &LIMITS).unwrap();
        assert_eq!(tally.total(Call::Read, CallFate::Small), 6);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn random_boards_end_no_command_and_give_no_absurd_number(
            words in prop::collection::vec((0..BYTES / 8, any::<u64>(), 0_u32..64), 0..40),
            length in prop_oneof![Just(BYTES), 0..BYTES * 2],
        ) {
            let mut bytes = vec![0; BYTES];
            for (at, word, shift) in words {
                bytes[at * 8..at * 8 + 8].copy_from_slice(&(word >> shift).to_ne_bytes());
            }
            bytes.resize(length, 0xff);
            if let Ok(tally) = read(&bytes) {
                prop_assert_eq!(length, BYTES);
                let all = Call::ALL.into_iter().flat_map(|call| tally.counts[call as usize]);
                prop_assert!(all.sum::<u64>() <= board::ROWS as u64 * (LIMITS.calls + LIMITS.ticks));
                prop_assert!(ProcessEvent::ALL.into_iter().all(|it| tally.event(it) <= it.limit(&LIMITS)));
            }
        }
    }
}
