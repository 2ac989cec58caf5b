// SPDX-License-Identifier: MIT OR Apache-2.0
//! The board: a folder that a program and its descendants share with the command that started them.
//!
//! The folder holds the wishes of the command, a file that only the starter can write and that is read once, and for each
//! user as whom processes of the program run a file with counts, which that user alone can open. So a program that gives up
//! its rights still counts after an exec, and cannot cut off the file of processes that have more rights.
//!
//! A file of counts has what the guards decided and a row for each thread. A row has one writer, so that counting takes no
//! atomic operation; a thread that is killed has lost nothing. The processes of one user can change the file in any
//! way: the command never maps it, and believes none of its words (see [`crate::tally`]).

use std::ffi::CString;
use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::call::{CALLS, Call};

/// The variable with the path of the board.
pub const VARIABLE: &str = "COREHOP_OFFLOAD";
/// The file with the wishes.
pub const WISHES: &str = "wishes";

const MAGIC: u64 = u64::from_le_bytes(*b"corehop\x02");
/// The most OS cores.
pub const MOST_CORES: usize = 64;
const SET_WORDS: usize = 16;
/// Rows. Threads beyond share none, and are not counted.
pub(crate) const ROWS: usize = 1024;
/// The longest spin that may be wished, and the fastest time-stamp counter that is believed.
const MOST_SPIN_NS: u64 = 1_000_000_000;
const MOST_TICKS_PER_MICROSECOND: u64 = 1_000_000;

// Places of words in the wishes.
const MECHANISM: usize = 1;
const FLAGS: usize = 2;
const SPIN_LIMIT: usize = 3;
const DECISION: usize = 4;
const TICKS_PER_MICROSECOND: usize = 5;
const CORES: usize = 6;
const FREE: usize = CORES + SET_WORDS;
const THRESHOLDS: usize = FREE + SET_WORDS;
const WISHES_WORDS: usize = THRESHOLDS + CALLS;

// Places of words in a file of counts.
pub(crate) const EVENTS: usize = 8;
const BUSY: usize = 64;
pub(crate) const FIRST_ROW: usize = BUSY + MOST_CORES;
/// Words of a row: its owner, and the counts of each call.
pub(crate) const ROW: usize = FIRST_COUNT + CALLS * COUNTS;
pub(crate) const FIRST_COUNT: usize = 8;
pub(crate) const WORDS: usize = FIRST_ROW + ROWS * ROW;
/// The bytes of a file of counts.
pub const BYTES: usize = WORDS * 8;

/// The rule for the place of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(u64)]
pub enum PlaceRule {
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

impl PlaceRule {
    fn of(word: u64) -> Option<Self> {
        [Self::Predicted, Self::Guarded, Self::Always, Self::Never]
            .into_iter()
            .find(|&it| it as u64 == word)
    }

    /// Whether the guard compares stretches.
    pub fn is_guarded(self) -> bool {
        matches!(self, Self::Predicted | Self::Guarded)
    }
}

/// The wishes of the command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OffloadSettings {
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
    pub decision: PlaceRule,
    /// The least size of each call that is off-loaded; `u64::MAX`: never.
    pub thresholds: [u64; CALLS],
    /// Ticks of the time-stamp counter in a microsecond.
    pub ticks_per_microsecond: u64,
}

impl OffloadSettings {
    /// Writes the wishes into the folder of a board, which belongs to the caller; returns their file.
    ///
    /// # Errors
    /// As for making and writing a file.
    pub fn write(&self, folder: &Path) -> io::Result<File> {
        let mut words = [0; WISHES_WORDS];
        words[..CORES].copy_from_slice(&[
            MAGIC,
            u64::from(self.mechanism),
            u64::from(self.flags),
            self.spin_limit_ns,
            self.decision as u64,
            self.ticks_per_microsecond,
        ]);
        words[CORES..FREE].copy_from_slice(&self.os_cores);
        words[FREE..THRESHOLDS].copy_from_slice(&self.free_cpus);
        words[THRESHOLDS..].copy_from_slice(&self.thresholds);
        let mut file = without_links().create_new(true).mode(0o600).open(folder.join(WISHES))?;
        file.write_all(&words.map(u64::to_ne_bytes).concat())?;
        // Processes that changed their user read the file; the umask is not asked.
        file.set_permissions(PermissionsExt::from_mode(0o644))?;
        Ok(file)
    }

    /// Reads the wishes of a board.
    ///
    /// # Errors
    /// As for opening and reading a file; `PermissionDenied` for a file that another user could write, except for root's, and
    /// `InvalidData` for a file without sensible wishes.
    pub fn read(folder: &Path) -> io::Result<Self> {
        let mut file =
            File::options().read(true).custom_flags(CAREFUL).open(folder.join(WISHES))?;
        let of = file.metadata()?;
        if !(is_ours(&of, 0o022) || is_of(&of, 0, 0o022)) {
            return Err(foreign());
        }
        let mut bytes = [0; WISHES_WORDS * 8];
        if of.len() != bytes.len() as u64 {
            return Err(not_one());
        }
        file.read_exact(&mut bytes)?;
        Self::of(&words(&bytes)).ok_or_else(not_one)
    }

    fn of(words: &[u64]) -> Option<Self> {
        let set = |from: usize| std::array::from_fn(|at| words[from + at]);
        let wishes = Self {
            mechanism: u32::try_from(words[MECHANISM]).ok().filter(|it| *it <= 5)?,
            flags: u32::try_from(words[FLAGS]).ok().filter(|it| *it < 16)?,
            os_cores: set(CORES),
            free_cpus: set(FREE),
            spin_limit_ns: words[SPIN_LIMIT],
            decision: PlaceRule::of(words[DECISION])?,
            thresholds: std::array::from_fn(|at| words[THRESHOLDS + at]),
            ticks_per_microsecond: words[TICKS_PER_MICROSECOND],
        };
        let cores: u32 = wishes.os_cores.iter().map(|word| word.count_ones()).sum();
        let spins = wishes.spin_limit_ns <= MOST_SPIN_NS || wishes.spin_limit_ns == u64::MAX;
        let ticks = (1..=MOST_TICKS_PER_MICROSECOND).contains(&wishes.ticks_per_microsecond);
        let sensible = words[0] == MAGIC && cores as usize <= MOST_CORES && spins && ticks;
        sensible.then_some(wishes)
    }
}

/// The 64-bit words in some bytes.
pub(crate) fn words(bytes: &[u8]) -> Vec<u64> {
    let word = |eight: &[u8]| eight.try_into().map_or(0, u64::from_ne_bytes);
    bytes.chunks_exact(8).map(word).collect()
}

/// The fates of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(usize)]
pub enum CallFate {
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
pub enum ProcessEvent {
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
pub struct ThreadRow(NonNull<AtomicU64>);

/// A file is opened in no other way: not through a link, and without a wait for a FIFO or a lease.
pub const CAREFUL: i32 = libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_NOCTTY;

fn without_links() -> OpenOptions {
    File::options().read(true).write(true).custom_flags(CAREFUL).to_owned()
}

/// Whether a file is a regular one with one name that belongs to `user` and denies all others the rights `denied`.
fn is_of(of: &Metadata, user: u32, denied: u32) -> bool {
    of.is_file() && of.nlink() == 1 && of.uid() == user && of.mode() & denied == 0
}

fn is_ours(of: &Metadata, denied: u32) -> bool {
    is_of(of, user(), denied)
}

/// The user as whom this process opens files.
fn user() -> u32 {
    // SAFETY: no arguments.
    unsafe { libc::geteuid() }
}

fn foreign() -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, "another user could write this file")
}

fn not_one() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "this file is not one of a board")
}

impl Board {
    /// Opens the counts of this process's user on a board, and makes them if no process did so yet.
    ///
    /// # Errors
    /// As for making, opening and mapping a file; `PermissionDenied` if the file of this user's name belongs to another one;
    /// `InvalidData` if the file has another length than [`BYTES`].
    pub fn open(folder: &Path) -> io::Result<Self> {
        let path = folder.join(user().to_string());
        let open = || without_links().open(&path);
        let file = match open() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                make(folder, &path)?;
                open()?
            }
            other => other?,
        };
        let of = file.metadata()?;
        if !is_ours(&of, 0o077) {
            return Err(foreign());
        }
        if of.len() == BYTES as u64 { Self::map(&file) } else { Err(not_one()) }
    }

    fn map(file: &File) -> io::Result<Self> {
        let rights = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping of a file that has this length.
        let at = unsafe {
            let fd = file.as_raw_fd();
            libc::mmap(std::ptr::null_mut(), BYTES, rights, libc::MAP_SHARED, fd, 0)
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

    /// The number of calls that the n-th OS core has now, of all processes of this user.
    pub fn busy(&self, place: usize) -> &AtomicU64 {
        self.word(BUSY + place.min(MOST_CORES - 1))
    }

    /// An event's count.
    pub fn event(&self, event: ProcessEvent) -> &AtomicU64 {
        self.word(EVENTS + event as usize)
    }

    /// Counts an event; returns how often it was counted before.
    pub fn count(&self, event: ProcessEvent) -> u64 {
        self.event(event).fetch_add(1, Ordering::Relaxed)
    }

    /// A row for a thread of this number, or None if all are taken.
    pub fn claim(&self, owner: u64) -> Option<ThreadRow> {
        (0..ROWS).map(|row| self.word(FIRST_ROW + row * ROW)).find_map(|word| {
            let free = word.load(Ordering::Relaxed) == 0;
            let claimed = free
                && word.compare_exchange(0, owner, Ordering::AcqRel, Ordering::Relaxed).is_ok();
            claimed.then(|| ThreadRow(NonNull::from(word)))
        })
    }
}

/// Makes a file of counts that is whole from the moment at which the file has its name.
fn make(folder: &Path, path: &Path) -> io::Result<()> {
    let unfinished = folder.join(format!(".{}-{}", user(), std::process::id()));
    let file = without_links().create_new(true).mode(0o600).open(&unfinished)?;
    let finish = || {
        file.set_permissions(PermissionsExt::from_mode(0o600))?;
        reserve(&file)?;
        rename_new(&unfinished, path)
    };
    let made = finish();
    if made.is_err() {
        std::fs::remove_file(&unfinished).ok();
    }
    match made {
        // Another process of this user was faster.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        other => other,
    }
}

/// Gives a file its length, and the room for all of it: a full file system would end the program at a count.
fn reserve(file: &File) -> io::Result<()> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: a limit to write.
    unsafe { libc::getrlimit(libc::RLIMIT_FSIZE, &raw mut limit) };
    if limit.rlim_cur < BYTES as u64 {
        // The attempt would raise a signal.
        return Err(io::Error::from_raw_os_error(libc::EFBIG));
    }
    // SAFETY: a descriptor and numbers.
    let done = unsafe { libc::fallocate(file.as_raw_fd(), 0, 0, BYTES as libc::off_t) };
    let error = io::Error::last_os_error();
    match (done, error.raw_os_error()) {
        (0, _) => Ok(()),
        // A file system that cannot reserve.
        (_, Some(libc::EOPNOTSUPP | libc::ENOSYS)) => file.set_len(BYTES as u64),
        _ => Err(error),
    }
}

/// Renames a file, but replaces none.
fn rename_new(from: &Path, to: &Path) -> io::Result<()> {
    let name = |path: &Path| CString::new(path.as_os_str().as_bytes());
    let (from, to) = (name(from)?, name(to)?);
    let (here, only_new) = (libc::AT_FDCWD, libc::RENAME_NOREPLACE);
    // SAFETY: two strings that end with a zero.
    let done = unsafe { libc::renameat2(here, from.as_ptr(), here, to.as_ptr(), only_new) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

impl Drop for Board {
    fn drop(&mut self) {
        // SAFETY: the mapping was made by `map`, and nothing refers to it any more: rows are used by the library
        // alone, whose board is never dropped.
        unsafe { libc::munmap(self.words.as_ptr().cast(), BYTES) };
    }
}

impl ThreadRow {
    /// Adds to a count.
    #[inline]
    pub fn add(self, call: Call, count: CallFate, much: u64) {
        let at = FIRST_COUNT + call as usize * COUNTS + count as usize;
        // SAFETY: a row has this many words, and its board lives as long as the process.
        let word = unsafe { self.0.add(at).as_ref() };
        // One writer.
        word.store(word.load(Ordering::Relaxed).wrapping_add(much), Ordering::Relaxed);
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
    use crate::tally::{CallTally, TallyLimits};
    use std::os::unix::fs::symlink;

    fn wishes() -> OffloadSettings {
        let mut thresholds = [4096; CALLS];
        thresholds[3] = u64::MAX;
        let mut os_cores = [0; SET_WORDS];
        os_cores[1] = 5;
        OffloadSettings {
            mechanism: 5,
            flags: 3,
            os_cores,
            free_cpus: [7; SET_WORDS],
            spin_limit_ns: 7,
            decision: PlaceRule::Guarded,
            thresholds,
            ticks_per_microsecond: 2_500,
        }
    }

    fn tally(folder: &Path) -> CallTally {
        CallTally::of(folder, &TallyLimits { calls: 1_000_000, ticks: 1_000_000 }).unwrap()
    }

    #[test]
    fn the_counts_of_all_threads_and_processes_are_added_up() {
        let folder = tempfile::tempdir().unwrap();
        let board = Board::open(folder.path()).unwrap();
        let other = Board::open(folder.path()).unwrap();
        for owner in 1..=3 {
            board.claim(owner).unwrap().add(Call::Accept4, CallFate::TicksThere, owner);
        }
        other.claim(4).unwrap().add(Call::Accept4, CallFate::TicksThere, 4);
        other.count(ProcessEvent::Processes);
        let tally = tally(folder.path());
        assert_eq!(tally.total(Call::Accept4, CallFate::TicksThere), 10);
        assert_eq!(tally.total(Call::Accept4, CallFate::TimedThere), 0);
        assert_eq!(tally.total(Call::EpollWait, CallFate::TicksThere), 0);
        assert_eq!(tally.event(ProcessEvent::Processes), 1);
        let names = std::fs::read_dir(folder.path()).unwrap().count();
        assert_eq!(names, 1, "an unfinished file is left");
    }

    #[test]
    fn a_row_that_is_given_back_keeps_its_counts_for_the_next_owner() {
        let folder = tempfile::tempdir().unwrap();
        let board = Board::open(folder.path()).unwrap();
        let rows: Vec<ThreadRow> =
            (0..ROWS).map(|at| board.claim(at as u64 + 1).unwrap()).collect();
        assert!(board.claim(9).is_none());
        rows[5].add(Call::Read, CallFate::Small, 2);
        rows[5].release();
        board.claim(77).unwrap().add(Call::Read, CallFate::Small, 1);
        assert_eq!(tally(folder.path()).total(Call::Read, CallFate::Small), 3);
    }

    #[test]
    fn wishes_are_read_as_they_were_written_and_senseless_ones_are_not() {
        let folder = tempfile::tempdir().unwrap();
        wishes().write(folder.path()).unwrap();
        assert_eq!(OffloadSettings::read(folder.path()).unwrap(), wishes());
        assert!(wishes().write(folder.path()).is_err(), "wishes replace wishes");
        let path = folder.path().join(WISHES);
        let bytes = std::fs::read(&path).unwrap();
        let places = [0, MECHANISM, FLAGS, SPIN_LIMIT, DECISION, TICKS_PER_MICROSECOND];
        for at in places {
            let mut changed = bytes.clone();
            changed[at * 8..at * 8 + 8].copy_from_slice(&(u64::MAX - 1).to_ne_bytes());
            std::fs::write(&path, &changed).unwrap();
            let error = OffloadSettings::read(folder.path()).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidData, "word {at}");
        }
        std::fs::write(&path, &bytes[8..]).unwrap();
        assert_eq!(
            OffloadSettings::read(folder.path()).unwrap_err().kind(),
            io::ErrorKind::InvalidData
        );
    }

    #[test]
    fn a_link_a_fifo_a_file_of_two_names_and_one_that_others_can_write_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        wishes().write(folder).unwrap();
        let (path, aside) = (folder.join(WISHES), folder.join("aside"));
        let refused = |why: &str| assert!(OffloadSettings::read(folder).is_err(), "{why}");
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o646)).unwrap();
        refused("others can write");
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o644)).unwrap();
        std::fs::hard_link(&path, &aside).unwrap();
        refused("two names");
        std::fs::remove_file(&path).unwrap();
        symlink(&aside, &path).unwrap();
        refused("a link");
        std::fs::remove_file(&path).unwrap();
        let name = CString::new(path.as_os_str().as_bytes()).unwrap();
        // SAFETY: a string that ends with a zero.
        assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
        refused("a FIFO");
    }

    #[test]
    fn counts_that_were_cut_off_or_planted_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        let path = folder.join(user().to_string());
        drop(Board::open(folder).unwrap());
        File::options().write(true).open(&path).unwrap().set_len(8).unwrap();
        assert_eq!(Board::open(folder).unwrap_err().kind(), io::ErrorKind::InvalidData);
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o666)).unwrap();
        assert_eq!(Board::open(folder).unwrap_err().kind(), io::ErrorKind::PermissionDenied);
        std::fs::remove_file(&path).unwrap();
        symlink("/dev/zero", &path).unwrap();
        assert!(Board::open(folder).is_err(), "a link");
        if user() == 0 {
            std::fs::remove_file(&path).unwrap();
            drop(Board::open(folder).unwrap());
            std::os::unix::fs::chown(&path, Some(65_534), None).unwrap();
            assert_eq!(Board::open(folder).unwrap_err().kind(), io::ErrorKind::PermissionDenied);
        }
    }
}
