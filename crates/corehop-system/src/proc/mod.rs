// SPDX-License-Identifier: MIT OR Apache-2.0
//! The only reader of `/proc` and of the settings in `/sys`. Text in these files consists of bytes, and a process ID
//! is no stable reference to a process.
//!
//! Programs may name themselves, their threads, files and cgroups with any bytes. The kernel cuts a thread's name
//! after 15 bytes, even in the middle of a character. A reader that requires UTF-8 would miss such a thread, or could
//! not put it back. So this module reads and parses bytes, and [`shown`] converts a name to text.
//!
//! After a process ends, its ID may go to another process, so `/proc/PID` may belong to another process at the next
//! reading. Code that reads `/proc/PID` repeatedly compares start times (`Stat::start_time`,
//! `supervisor::ProcessId`), or explains why another process's text does no harm.

mod name;
mod stat;
mod status;
mod tables;

use std::fmt::Display;
use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::str::FromStr;

pub use name::cut;
pub use name::shown;
pub use stat::{Schedstat, Stat};
pub use status::Status;
pub use tables::flock_owner;
pub use tables::{CgroupEntry, Mount, groups, mounts, own_groups, unified};

/// Returns the bytes of a kernel file.
///
/// # Errors
/// Returns the system's errors.
pub fn bytes(path: impl AsRef<Path>) -> io::Result<Vec<u8>> {
    fs::read(path)
}

/// Returns the text of a kernel file, with bytes that are not UTF-8 replaced. Use this function for words and numbers
/// of the kernel itself, and never for names.
///
/// # Errors
/// Returns the system's errors.
pub fn text(path: impl AsRef<Path>) -> io::Result<String> {
    let bytes = bytes(path)?;
    Ok(String::from_utf8(bytes)
        .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()))
}

/// Returns the value of a kernel file that contains a single value; `None` if the file cannot be read or parsed.
pub fn value<T: FromStr>(path: impl AsRef<Path>) -> Option<T> {
    number(bytes(path).ok()?.trim_ascii())
}

/// Parses a number or another ASCII word.
pub fn number<T: FromStr>(word: &[u8]) -> Option<T> {
    std::str::from_utf8(word).ok()?.parse().ok()
}

/// Returns the words between blanks.
pub fn words(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty())
}

/// Returns the lines of a text without their line ends.
pub fn lines(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.strip_suffix(b"\n").unwrap_or(text).split(|&byte| byte == b'\n')
}

/// The IDs of all current processes in `/proc`.
pub(crate) fn processes() -> impl Iterator<Item = u32> {
    numbers_in(Path::new("/proc")).into_iter().flatten()
}

/// The open descriptors of this process.
///
/// # Errors
/// Returns `NotFound` if `/proc` is not mounted.
pub(crate) fn own_descriptors() -> io::Result<Vec<i32>> {
    let numbers = numbers_in(Path::new("/proc/self/fd"))?;
    Ok(numbers.filter_map(|number| i32::try_from(number).ok()).collect())
}

/// The numbers among the names in a folder.
fn numbers_in(folder: &Path) -> io::Result<impl Iterator<Item = u32> + use<>> {
    let entries = fs::read_dir(folder)?.flatten();
    Ok(entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()))
}

/// A folder in `/proc`. At each reading the folder belongs to the process or thread that has the ID at that moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcEntry(String);

impl ProcEntry {
    /// Returns the folder of process `pid`, or of the thread with that ID.
    pub fn process(pid: impl Display) -> Self {
        Self(format!("/proc/{pid}"))
    }

    /// Returns the folder of thread `tid` in process `pid`; the folder does not exist if the thread now belongs to
    /// another process.
    pub fn thread(pid: u32, tid: u32) -> Self {
        Self(format!("/proc/{pid}/task/{tid}"))
    }

    /// The path of a file in the folder, for messages.
    pub(crate) fn path(&self, file: &str) -> String {
        format!("{}/{file}", self.0)
    }

    /// Returns whether a process or thread with this ID exists now.
    pub fn exists(&self) -> bool {
        Path::new(&self.0).exists()
    }

    /// Opens a file in the folder. The open file stays with the process or thread that has the ID now.
    ///
    /// # Errors
    /// Returns `NotFound` if the process does not exist.
    pub fn open(&self, file: &str) -> io::Result<File> {
        File::open(self.path(file))
    }

    /// Returns the bytes of a file in the folder.
    ///
    /// # Errors
    /// Returns `NotFound` if the process does not exist, `ESRCH` if it ended meanwhile.
    pub fn bytes(&self, file: &str) -> io::Result<Vec<u8>> {
        bytes(self.path(file))
    }

    /// Writes to a file in the folder.
    ///
    /// # Errors
    /// Returns the errors of [`Self::bytes`], and the kernel's refusals.
    pub fn write(&self, file: &str, content: &str) -> io::Result<()> {
        fs::write(self.path(file), content)
    }

    /// Reads the `stat` file.
    ///
    /// # Errors
    /// Returns the errors of [`Self::bytes`], and `InvalidData` for an unexpected format.
    pub fn stat(&self) -> io::Result<Stat> {
        let bytes = self.bytes("stat")?;
        Stat::parse(&bytes).ok_or_else(|| {
            let problem = format!("{}: {}", self.path("stat"), shown(&bytes));
            io::Error::new(io::ErrorKind::InvalidData, problem)
        })
    }

    /// Reads the `status` file.
    ///
    /// # Errors
    /// Returns the errors of [`Self::bytes`].
    pub fn status(&self) -> io::Result<Status> {
        self.bytes("status").map(Status::new)
    }

    /// Reads the `schedstat` file; `None` if there is no such thread, or the kernel keeps no accounting
    /// (`CONFIG_SCHED_INFO`).
    pub fn schedstat(&self) -> Option<Schedstat> {
        Schedstat::parse(&self.bytes("schedstat").ok()?)
    }

    /// Returns the name of the process or thread as text: see [`shown`].
    ///
    /// # Errors
    /// Returns the errors of [`Self::bytes`].
    pub fn name(&self) -> io::Result<String> {
        let bytes = self.bytes("comm")?;
        Ok(shown(bytes.strip_suffix(b"\n").unwrap_or(&bytes)))
    }

    /// The zero-terminated strings in a file of the folder: `cmdline` and `environ`.
    ///
    /// # Errors
    /// Returns the errors of [`Self::bytes`], and `PermissionDenied`.
    pub(crate) fn strings(&self, file: &str) -> io::Result<Vec<Vec<u8>>> {
        let bytes = self.bytes(file)?;
        let all = bytes.strip_suffix(b"\0").unwrap_or(&bytes).split(|&byte| byte == 0);
        Ok(if bytes.is_empty() { Vec::new() } else { all.map(<[u8]>::to_vec).collect() })
    }

    /// Returns the IDs of the process's threads.
    ///
    /// # Errors
    /// Returns `NotFound` if the process does not exist.
    pub fn threads(&self) -> io::Result<impl Iterator<Item = u32> + use<>> {
        numbers_in(Path::new(&self.path("task")))
    }

    /// Returns the processes that the process's threads have started, as far as the kernel shows them
    /// (`CONFIG_PROC_CHILDREN`).
    pub fn children(&self) -> Vec<u32> {
        let threads = self.threads().into_iter().flatten();
        let texts = threads.filter_map(|tid| self.bytes(&format!("task/{tid}/children")).ok());
        texts.flat_map(|text| words(&text).filter_map(number).collect::<Vec<u32>>()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_and_this_thread_have_their_folders() {
        let own = ProcEntry::process(std::process::id());
        let tid = crate::thread::current_tid();
        assert!(own.exists() && own.threads().unwrap().any(|it| it == tid));
        assert!(processes().any(|it| it == std::process::id()));
        let thread = ProcEntry::thread(std::process::id(), tid);
        assert!(thread.stat().unwrap().start_time >= own.stat().unwrap().start_time);
        assert!(thread.schedstat().is_none_or(|it| it.turns > 0));
        assert_eq!(own.status().unwrap().number("Pid"), Some(std::process::id()));
        let words: Vec<_> =
            std::env::args_os().map(std::ffi::OsString::into_encoded_bytes).collect();
        assert_eq!(own.strings("cmdline").unwrap(), words);
    }

    #[test]
    fn no_process_has_the_highest_number() {
        let none = ProcEntry::process(u32::MAX >> 1);
        assert!(!none.exists() && none.children().is_empty() && none.schedstat().is_none());
        assert_eq!(none.stat().unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn the_name_of_a_thread_may_be_any_bytes() {
        // Half a character, as the kernel cuts it; an escape sequence; the fields of another process.
        for (given, expected) in [
            (c"\xc3\x9cberwachungsf\xc3\xa4den", r"Überwachungsf\xc3"),
            (c"\x1b]0;title\x07", r"\x1b]0;title\x07"),
            (c"x) R 1 2\n3 4", r"x) R 1 2\x0a3 4"),
        ] {
            let found = std::thread::spawn(move || {
                // SAFETY: PR_SET_NAME reads a C string, which `given` is.
                unsafe { libc::prctl(libc::PR_SET_NAME, given.as_ptr()) };
                let task = ProcEntry::thread(std::process::id(), crate::thread::current_tid());
                (task.name().unwrap(), task.stat().unwrap())
            });
            let (name, stat) = found.join().unwrap();
            assert_eq!(name, expected);
            // SAFETY: has no arguments and cannot fail.
            let group = unsafe { libc::getpgrp() };
            assert_eq!((stat.state, stat.pgrp), (b'R', group));
        }
    }
}
