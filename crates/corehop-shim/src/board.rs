// SPDX-License-Identifier: MIT OR Apache-2.0
//! The board: a file that a program and its descendants share with the command that started them.
//!
//! It holds the wishes of the command, a row of counts for each thread, and what the guards decided. A row has one
//! writer, so that counting takes no atomic operation; a thread that is killed has lost nothing.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::call::{CALLS, Call};

/// The variable with the path of the board.
pub const VARIABLE: &str = "COREHOP_OFFLOAD";

const MAGIC: u64 = u64::from_le_bytes(*b"corehop\x01");
/// The most OS cores.
pub const MOST_CORES: usize = 64;
const SET_WORDS: usize = 16;
/// Rows. Threads beyond share none, and are not counted.
const ROWS: usize = 1024;

// Places of words.
const MECHANISM: usize = 1;
const FLAGS: usize = 2;
const SPIN_LIMIT: usize = 3;
const DECISION: usize = 4;
const TICKS_PER_MICROSECOND: usize = 5;
const EVENTS: usize = 6;
const CORES: usize = 16;
const THRESHOLDS: usize = CORES + SET_WORDS;
const BUSY: usize = 64;
const FREE: usize = BUSY + MOST_CORES;
const FIRST_ROW: usize = FREE + SET_WORDS;
/// Words of a row: its owner, and the counts of each call.
const ROW: usize = 8 + CALLS * COUNTS;
const WORDS: usize = FIRST_ROW + ROWS * ROW;

/// The rule for the place of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(u64)]
pub enum Decision {
    /// By recent timings, with the guard.
    #[default]
    Predicted = 0,
    /// Always there, with the guard.
    Guarded = 1,
    /// Always there.
    Always = 2,
    /// Never: what the library itself costs.
    Never = 3,
}

impl Decision {
    fn of(word: u64) -> Self {
        match word {
            0 => Self::Predicted,
            1 => Self::Guarded,
            2 => Self::Always,
            _ => Self::Never,
        }
    }

    /// Whether the guard compares stretches.
    pub fn is_guarded(self) -> bool {
        matches!(self, Self::Predicted | Self::Guarded)
    }
}

/// The wishes of the command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wishes {
    /// The mechanism: 0 to 5 as in `corehop_switch.h`.
    pub mechanism: u32,
    /// The policy's flags, as there.
    pub flags: u32,
    /// The OS cores: bit `n` of word `m` is core `64 m + n`.
    pub os_cores: [u64; SET_WORDS],
    /// The CPUs that the program has while nothing is off-loaded, if a guard decides about that.
    pub free_cpus: [u64; SET_WORDS],
    /// The longest spin in nanoseconds; `u64::MAX` for the usual one.
    pub spin_limit_ns: u64,
    /// The rule for the place of a call.
    pub decision: Decision,
    /// The least size of each call that is off-loaded; `u64::MAX`: never.
    pub thresholds: [u64; CALLS],
}

/// The fates of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(usize)]
pub enum Count {
    /// It is smaller than the threshold.
    Small,
    /// It was made on the OS core.
    There,
    /// It was tried there and then made here: it would have slept, or raised a signal.
    Repeated,
    /// Recent timings say that here is faster.
    Predicted,
    /// The guard compares, or has turned off-load off.
    Guarded,
    /// Every OS core was busy, and the policy is work-conserving.
    Busy,
    /// This thread cannot off-load now: it has made few calls, has no partner, or is in a signal handler.
    Kept,
    /// Calls that were timed here, and the ticks that they took.
    TimedHere,
    /// See [`Self::TimedHere`].
    TicksHere,
    /// Calls that were timed there, and the ticks that they took.
    TimedThere,
    /// See [`Self::TimedThere`].
    TicksThere,
}

/// The number of counts of a call.
pub const COUNTS: usize = 11;

/// Events of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(usize)]
pub enum Event {
    /// Processes that loaded the library.
    Processes,
    /// Partners that were started.
    Partners,
    /// Partners that could not be started.
    WithoutPartner,
    /// Times that a guard turned off-load off.
    TurnedOff,
    /// From the first off-loaded call until the guard first turned it off, in ticks.
    UntilTurnedOff,
    /// By how much it lost then, in thousandths of the progress without.
    Loss,
    /// Threads whose credentials, namespaces or filters became their own.
    Private,
    /// Threads without a row: not counted.
    WithoutRow,
    /// Times that a guard turned off-load off because the prediction kept nearly all calls.
    Unused,
    /// Times that a guard sent all calls because that is faster.
    SentAll,
    /// By how much it was faster the last time, in thousandths of the progress without.
    Gain,
}

/// A board that is mapped.
#[derive(Debug)]
pub struct Board {
    words: NonNull<AtomicU64>,
}

// SAFETY: it is atomics in shared memory.
unsafe impl Send for Board {}
// SAFETY: as above.
unsafe impl Sync for Board {}

/// A thread's row.
#[derive(Debug, Clone, Copy)]
pub struct Row(NonNull<AtomicU64>);

impl Board {
    /// Makes an empty file a board.
    ///
    /// # Errors
    /// As for extending and mapping a file.
    pub fn create(file: &File, wishes: &Wishes, ticks_per_microsecond: u64) -> io::Result<Self> {
        file.set_len((WORDS * 8) as u64)?;
        let board = Self::map(file)?;
        let write = |at: usize, value: u64| board.word(at).store(value, Ordering::Relaxed);
        write(MECHANISM, u64::from(wishes.mechanism));
        write(FLAGS, u64::from(wishes.flags));
        write(SPIN_LIMIT, wishes.spin_limit_ns);
        write(DECISION, wishes.decision as u64);
        write(TICKS_PER_MICROSECOND, ticks_per_microsecond.max(1));
        wishes.os_cores.iter().enumerate().for_each(|(at, &word)| write(CORES + at, word));
        wishes.free_cpus.iter().enumerate().for_each(|(at, &word)| write(FREE + at, word));
        wishes.thresholds.iter().enumerate().for_each(|(at, &word)| write(THRESHOLDS + at, word));
        board.word(0).store(MAGIC, Ordering::Release);
        Ok(board)
    }

    /// Opens the file of a board.
    ///
    /// # Errors
    /// As for opening and mapping a file; invalid data if it is not a board.
    pub fn open(path: &Path) -> io::Result<Self> {
        let file = File::options().read(true).write(true).open(path)?;
        let not_one = || io::Error::from(io::ErrorKind::InvalidData);
        if file.metadata()?.len() != (WORDS * 8) as u64 {
            return Err(not_one());
        }
        let board = Self::map(&file)?;
        if board.word(0).load(Ordering::Acquire) == MAGIC { Ok(board) } else { Err(not_one()) }
    }

    fn map(file: &File) -> io::Result<Self> {
        let rights = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping of a file that has this length.
        let at = unsafe {
            let fd = file.as_raw_fd();
            libc::mmap(std::ptr::null_mut(), WORDS * 8, rights, libc::MAP_SHARED, fd, 0)
        };
        match NonNull::new(at.cast()) {
            Some(words) if at != libc::MAP_FAILED => Ok(Self { words }),
            _ => Err(io::Error::last_os_error()),
        }
    }

    fn word(&self, at: usize) -> &AtomicU64 {
        assert!(at < WORDS, "word {at} of a board");
        // SAFETY: it is within the mapping, which lives as long as the board.
        unsafe { self.words.add(at).as_ref() }
    }

    fn read(&self, at: usize) -> u64 {
        self.word(at).load(Ordering::Relaxed)
    }

    /// The wishes.
    pub fn wishes(&self) -> Wishes {
        Wishes {
            mechanism: self.read(MECHANISM) as u32,
            flags: self.read(FLAGS) as u32,
            os_cores: std::array::from_fn(|at| self.read(CORES + at)),
            free_cpus: std::array::from_fn(|at| self.read(FREE + at)),
            spin_limit_ns: self.read(SPIN_LIMIT),
            decision: Decision::of(self.read(DECISION)),
            thresholds: std::array::from_fn(|at| self.read(THRESHOLDS + at)),
        }
    }

    /// Ticks of the time-stamp counter in a microsecond.
    pub fn ticks_per_microsecond(&self) -> u64 {
        self.read(TICKS_PER_MICROSECOND).max(1)
    }

    /// The number of calls that the n-th OS core has now, of all processes.
    pub fn busy(&self, place: usize) -> &AtomicU64 {
        self.word(BUSY + place.min(MOST_CORES - 1))
    }

    /// An event's count.
    pub fn event(&self, event: Event) -> &AtomicU64 {
        self.word(EVENTS + event as usize)
    }

    /// Counts an event; returns how often it was counted before.
    pub fn count(&self, event: Event) -> u64 {
        self.event(event).fetch_add(1, Ordering::Relaxed)
    }

    /// A row for a thread of this number, or None if all are taken.
    pub fn claim(&self, owner: u64) -> Option<Row> {
        (0..ROWS).map(|row| self.word(FIRST_ROW + row * ROW)).find_map(|word| {
            let free = word.load(Ordering::Relaxed) == 0;
            let claimed = free
                && word.compare_exchange(0, owner, Ordering::AcqRel, Ordering::Relaxed).is_ok();
            claimed.then(|| Row(NonNull::from(word)))
        })
    }

    /// A count of a call, over all threads.
    pub fn total(&self, call: Call, count: Count) -> u64 {
        let at = |row: usize| FIRST_ROW + row * ROW + 8 + call as usize * COUNTS + count as usize;
        (0..ROWS).map(|row| self.read(at(row))).sum()
    }
}

impl Drop for Board {
    fn drop(&mut self) {
        // SAFETY: the mapping was made by `map`, and nothing refers to it any more: rows are used by the library
        // alone, whose board is never dropped.
        unsafe { libc::munmap(self.words.as_ptr().cast(), WORDS * 8) };
    }
}

impl Row {
    /// Adds to a count.
    #[inline]
    pub fn add(self, call: Call, count: Count, much: u64) {
        let at = 8 + call as usize * COUNTS + count as usize;
        // SAFETY: a row has this many words, and its board lives as long as the process.
        let word = unsafe { self.0.add(at).as_ref() };
        // One writer.
        word.store(word.load(Ordering::Relaxed) + much, Ordering::Relaxed);
    }

    /// Gives the row to another thread; what it holds stays.
    pub fn release(self) {
        // SAFETY: as above.
        unsafe { self.0.as_ref() }.store(0, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wishes() -> Wishes {
        let mut thresholds = [4096; CALLS];
        thresholds[3] = u64::MAX;
        let mut os_cores = [0; SET_WORDS];
        os_cores[1] = 5;
        let decision = Decision::Guarded;
        let free_cpus = [7; SET_WORDS];
        Wishes {
            mechanism: 5,
            flags: 3,
            os_cores,
            free_cpus,
            spin_limit_ns: 7,
            decision,
            thresholds,
        }
    }

    /// A file, and its path while it is there.
    fn file(name: &str) -> (File, std::path::PathBuf) {
        let path = std::env::temp_dir().join(format!("corehop-{name}-{}", std::process::id()));
        let how = File::options().read(true).write(true).create(true).truncate(true).to_owned();
        (how.open(&path).unwrap(), path)
    }

    #[test]
    fn a_second_mapping_has_the_wishes_and_the_counts_of_all_threads() {
        let (file, path) = file("board");
        let board = Board::create(&file, &wishes(), 2_500).unwrap();
        let other = Board::open(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        assert_eq!(other.wishes(), wishes());
        assert_eq!(other.ticks_per_microsecond(), 2_500);
        for owner in 1..=3 {
            board.claim(owner).unwrap().add(Call::Accept4, Count::TicksThere, owner);
        }
        assert_eq!(other.total(Call::Accept4, Count::TicksThere), 6);
        assert_eq!(other.total(Call::Accept4, Count::TimedThere), 0);
        assert_eq!(other.total(Call::EpollWait, Count::TicksThere), 0);
    }

    #[test]
    fn a_row_that_is_given_back_keeps_its_counts_for_the_next_owner() {
        let (file, path) = file("rows");
        let board = Board::create(&file, &wishes(), 1).unwrap();
        std::fs::remove_file(&path).unwrap();
        let rows: Vec<Row> = (0..ROWS).map(|at| board.claim(at as u64 + 1).unwrap()).collect();
        assert!(board.claim(9).is_none());
        rows[5].add(Call::Read, Count::Small, 2);
        rows[5].release();
        board.claim(77).unwrap().add(Call::Read, Count::Small, 1);
        assert_eq!(board.total(Call::Read, Count::Small), 3);
    }

    #[test]
    fn a_file_that_is_no_board_is_refused() {
        let (_, path) = file("none");
        std::fs::write(&path, "x").unwrap();
        assert_eq!(Board::open(&path).unwrap_err().kind(), io::ErrorKind::InvalidData);
        std::fs::write(&path, vec![0; WORDS * 8]).unwrap();
        assert_eq!(Board::open(&path).unwrap_err().kind(), io::ErrorKind::InvalidData);
        std::fs::remove_file(&path).unwrap();
    }
}
