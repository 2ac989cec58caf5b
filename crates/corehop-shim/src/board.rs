// SPDX-License-Identifier: MIT OR Apache-2.0
//! The board: a folder that a program and its descendants share with the command that started them.
//!
//! The folder contains the settings of the command, in a file that only the starter can write and that is read once.
//! The folder also contains a file of counts for each user as whom the program's processes run; only that user can
//! open the file. So a program that drops its privileges still counts after an exec, and cannot truncate the file of
//! processes with more privileges.
//!
//! A file of counts contains the decisions of the guards and a row for each thread. A row has one writer, so counting
//! needs no atomic read-modify-write operation, and no counts are lost if a thread is killed. The processes of a user
//! can change the user's file arbitrarily, so the command never maps it and trusts none of its words (see
//! [`crate::tally`]).

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

/// The environment variable with the path of the board's folder.
pub const VARIABLE: &str = "COREHOP_OFFLOAD";
/// The name of the file with the settings.
pub const WISHES: &str = "wishes";

const MAGIC: u64 = u64::from_le_bytes(*b"corehop\x02");
/// The largest number of OS cores.
pub const MOST_CORES: usize = 64;
const SET_WORDS: usize = 16;
/// The number of rows. Further threads have no row and are not counted.
pub(crate) const ROWS: usize = 1024;
/// The longest spin that may be requested, and the fastest time-stamp counter that is accepted.
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
/// The number of words in a row: its owner, and the counts of each call.
pub(crate) const ROW: usize = FIRST_COUNT + CALLS * COUNTS;
pub(crate) const FIRST_COUNT: usize = 8;
pub(crate) const WORDS: usize = FIRST_ROW + ROWS * ROW;
/// The size of a file of counts in bytes.
pub const BYTES: usize = WORDS * 8;

/// The rule that decides which core executes a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(u64)]
pub enum PlaceRule {
    /// Recent timings decide, supervised by the guard.
    #[default]
    Predicted = 0,
    /// All calls run on an OS core, supervised by the guard.
    Guarded = 1,
    /// All calls run on an OS core.
    Always = 2,
    /// All calls run on the caller's core, which shows the cost of the library itself.
    Never = 3,
}

impl PlaceRule {
    fn of(word: u64) -> Option<Self> {
        [Self::Predicted, Self::Guarded, Self::Always, Self::Never]
            .into_iter()
            .find(|&it| it as u64 == word)
    }

    /// Returns whether the guard compares intervals with and without off-load.
    pub fn is_guarded(self) -> bool {
        matches!(self, Self::Predicted | Self::Guarded)
    }
}

/// The settings that `corehop offload` passes to the off-load library.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OffloadSettings {
    /// The number of the mechanism, 0 to 5 as in `corehop_switch.h`.
    pub mechanism: u32,
    /// The flags of the policy, as in `corehop_switch.h`.
    pub flags: u32,
    /// The OS cores: bit `n` of word `m` is core `64 m + n`.
    pub os_cores: [u64; SET_WORDS],
    /// The CPUs that the program may use while nothing is off-loaded, if a guard decides.
    pub free_cpus: [u64; SET_WORDS],
    /// The longest spin in nanoseconds; `u64::MAX` selects the default.
    pub spin_limit_ns: u64,
    /// The rule that decides which core executes a call.
    pub decision: PlaceRule,
    /// For each call, the smallest size that is off-loaded; `u64::MAX` means never.
    pub thresholds: [u64; CALLS],
    /// The number of time-stamp counter ticks per microsecond.
    pub ticks_per_microsecond: u64,
}

impl OffloadSettings {
    /// Writes the settings into the folder of a board, which must belong to the caller; returns the open file.
    ///
    /// # Errors
    /// Returns the error of creating or writing the file.
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

    /// Reads the settings of a board.
    ///
    /// # Errors
    /// Returns the error of opening or reading the file. The error is `PermissionDenied` for a file that another user
    /// except root could write, and `InvalidData` for a file without valid settings.
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

/// Converts bytes to 64-bit words.
pub(crate) fn words(bytes: &[u8]) -> Vec<u64> {
    let word = |eight: &[u8]| eight.try_into().map_or(0, u64::from_ne_bytes);
    bytes.chunks_exact(8).map(word).collect()
}

/// The fate of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(usize)]
pub enum CallFate {
    /// The call was smaller than the threshold.
    Small,
    /// The call ran on the OS core.
    There,
    /// The call was tried on the OS core and then repeated on the caller's core, because it would have slept or
    /// raised a signal.
    Repeated,
    /// The call stayed on the caller's core because recent timings were faster there.
    Predicted,
    /// The call stayed on the caller's core because the guard measures the progress without off-load, or has turned
    /// off-load off.
    Guarded,
    /// The call stayed on the caller's core because every OS core was busy and the policy is work-conserving.
    Busy,
    /// The call stayed on the caller's core because the thread cannot off-load now: the thread has made few calls, has
    /// no partner, or is in a signal handler.
    Kept,
    /// The number of calls timed on the caller's core; the ticks are counted separately.
    TimedHere,
    /// The ticks of the calls counted by [`Self::TimedHere`].
    TicksHere,
    /// The number of calls timed on an OS core; the ticks are counted separately.
    TimedThere,
    /// The ticks of the calls counted by [`Self::TimedThere`].
    TicksThere,
}

/// The number of different counts per call.
pub const COUNTS: usize = 11;

/// The events of a process that the board counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(usize)]
pub enum ProcessEvent {
    /// The number of processes that loaded the library.
    Processes,
    /// The number of partner threads that were started.
    Partners,
    /// The number of partner threads that could not be started.
    WithoutPartner,
    /// The number of times that a guard turned off-load off.
    TurnedOff,
    /// The ticks from the first off-loaded call until the guard first turned off-load off.
    UntilTurnedOff,
    /// The loss by off-load when a guard first turned off-load off, in thousandths of the progress without off-load.
    Loss,
    /// The number of threads whose credentials, namespaces or filters became private.
    Private,
    /// The number of threads without a row, which are not counted.
    WithoutRow,
    /// The number of times that a guard turned off-load off because the prediction kept nearly all calls on the
    /// caller's core.
    Unused,
    /// The number of times that a guard sent all calls to OS cores because the program then made faster progress.
    SentAll,
    /// The gain when a guard last sent all calls to OS cores, in thousandths of the progress without off-load.
    Gain,
}

/// The memory that the shim shares with corehop for the exchange of calls (the board), mapped into this process.
#[derive(Debug)]
pub struct Board {
    words: NonNull<AtomicU64>,
}

// SAFETY: it is atomics in shared memory.
unsafe impl Send for Board {}
// SAFETY: as above.
unsafe impl Sync for Board {}

/// The row of one thread.
#[derive(Debug, Clone, Copy)]
pub struct ThreadRow(NonNull<AtomicU64>);

/// The flags with which every file is opened: not through a link, and without waiting for a FIFO or a lease.
pub const CAREFUL: i32 = libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_NOCTTY;

fn without_links() -> OpenOptions {
    File::options().read(true).write(true).custom_flags(CAREFUL).to_owned()
}

/// Whether a file is a regular file with a single name that belongs to `user` and denies all others the permissions
/// `denied`.
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
    /// Opens the counts of this process's user on a board, and creates them if no process has done so yet.
    ///
    /// # Errors
    /// Returns the error of creating, opening or mapping the file. The error is `PermissionDenied` if the file with
    /// this user's name belongs to another user, and `InvalidData` if the length of the file is not [`BYTES`].
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

    /// Returns the number of calls that the n-th OS core currently has, over all processes of this user.
    pub fn busy(&self, place: usize) -> &AtomicU64 {
        self.word(BUSY + place.min(MOST_CORES - 1))
    }

    /// Returns the count of an event.
    pub fn event(&self, event: ProcessEvent) -> &AtomicU64 {
        self.word(EVENTS + event as usize)
    }

    /// Counts an event of a process; returns the count before this event.
    pub fn count(&self, event: ProcessEvent) -> u64 {
        self.event(event).fetch_add(1, Ordering::Relaxed)
    }

    /// Returns a row for the thread with this ID, or `None` if all rows are taken.
    pub fn claim(&self, owner: u64) -> Option<ThreadRow> {
        (0..ROWS).map(|row| self.word(FIRST_ROW + row * ROW)).find_map(|word| {
            let free = word.load(Ordering::Relaxed) == 0;
            let claimed = free
                && word.compare_exchange(0, owner, Ordering::AcqRel, Ordering::Relaxed).is_ok();
            claimed.then(|| ThreadRow(NonNull::from(word)))
        })
    }
}

/// Creates a file of counts under a temporary name, and gives the complete file its name.
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

/// Sets the length of a file and allocates all of it, because a full file system would otherwise end the program when
/// it counts.
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

/// Renames a file without replacing an existing one.
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
    /// Adds `much` to a count of `call`.
    #[inline]
    pub fn add(self, call: Call, count: CallFate, much: u64) {
        let at = FIRST_COUNT + call as usize * COUNTS + count as usize;
        // SAFETY: a row has this many words, and its board lives as long as the process.
        let word = unsafe { self.0.add(at).as_ref() };
        // One writer.
        word.store(word.load(Ordering::Relaxed).wrapping_add(much), Ordering::Relaxed);
    }

    /// Frees the row for another thread; its counts stay.
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
