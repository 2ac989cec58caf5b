// SPDX-License-Identifier: MIT OR Apache-2.0
//! The one reader of `/proc` and of the settings in `/sys`. Their text is bytes, and a number in them is no address.
//!
//! A program names itself, its threads, its files and its cgroups with any bytes, and the kernel cuts a thread's name
//! after 15 of them: in the middle of a character, if need be. Text that must be UTF-8 makes such a thread invisible, or a
//! thread that cannot be put back. So files are read and parsed as bytes here, and [`shown`] turns a name into text.
//!
//! A process number goes to another process after its holder's death, so `/proc/PID` may be another process at the
//! next reading. Code that reads it repeatedly compares start times (`Stat::start_time`, `supervisor::ProcessId`), or
//! says why another process's text does no harm.

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
pub use tables::{CgroupEntry, Mount, groups, mounts, own_groups};

/// The bytes of a file of the kernel's.
///
/// # Errors
/// The system's.
pub fn bytes(path: impl AsRef<Path>) -> io::Result<Vec<u8>> {
    fs::read(path)
}

/// A file of the kernel's as text, in which bytes that are no UTF-8 are replaced: for words and numbers of the kernel
/// itself, never for names.
///
/// # Errors
/// The system's.
pub fn text(path: impl AsRef<Path>) -> io::Result<String> {
    let bytes = bytes(path)?;
    Ok(String::from_utf8(bytes)
        .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()))
}

/// The value of a file of the kernel's that holds only that; None if the file cannot be read or holds something else.
pub fn value<T: FromStr>(path: impl AsRef<Path>) -> Option<T> {
    number(bytes(path).ok()?.trim_ascii())
}

/// A number, or another word of ASCII.
pub fn number<T: FromStr>(word: &[u8]) -> Option<T> {
    std::str::from_utf8(word).ok()?.parse().ok()
}

/// The words between blanks.
pub fn words(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty())
}

/// The lines of a text, without their ends.
pub fn lines(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.strip_suffix(b"\n").unwrap_or(text).split(|&byte| byte == b'\n')
}

/// Every number for which `/proc` has a process now.
pub(crate) fn processes() -> impl Iterator<Item = u32> {
    numbers_in(Path::new("/proc")).into_iter().flatten()
}

/// The descriptors that this process has open.
///
/// # Errors
/// `NotFound` where `/proc` is not mounted.
pub(crate) fn own_descriptors() -> io::Result<Vec<i32>> {
    let numbers = numbers_in(Path::new("/proc/self/fd"))?;
    Ok(numbers.filter_map(|number| i32::try_from(number).ok()).collect())
}

/// The numbers among the names in a folder.
fn numbers_in(folder: &Path) -> io::Result<impl Iterator<Item = u32> + use<>> {
    let entries = fs::read_dir(folder)?.flatten();
    Ok(entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()))
}

/// The folder in `/proc` of whichever process or thread has a number at the moment of each reading.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcEntry(String);

impl ProcEntry {
    /// The folder of process `pid`, or of the thread with that number.
    pub fn process(pid: impl Display) -> Self {
        Self(format!("/proc/{pid}"))
    }

    /// The folder of thread `tid` of process `pid`: there is none if the thread is another process's by now.
    pub fn thread(pid: u32, tid: u32) -> Self {
        Self(format!("/proc/{pid}/task/{tid}"))
    }

    /// The path of a file in the folder, for a message.
    pub(crate) fn path(&self, file: &str) -> String {
        format!("{}/{file}", self.0)
    }

    /// Whether there is such a process or thread now.
    pub fn exists(&self) -> bool {
        Path::new(&self.0).exists()
    }

    /// One of its files, opened: it stays with the process or thread that has the number now.
    ///
    /// # Errors
    /// `NotFound` where there is no such process.
    pub fn open(&self, file: &str) -> io::Result<File> {
        File::open(self.path(file))
    }

    /// The bytes of one of its files.
    ///
    /// # Errors
    /// `NotFound` where there is no such process, `ESRCH` where it ended meanwhile.
    pub fn bytes(&self, file: &str) -> io::Result<Vec<u8>> {
        bytes(self.path(file))
    }

    /// Writes to one of its files.
    ///
    /// # Errors
    /// As [`Self::bytes`], and the kernel's refusals.
    pub fn write(&self, file: &str, content: &str) -> io::Result<()> {
        fs::write(self.path(file), content)
    }

    /// Its `stat`.
    ///
    /// # Errors
    /// As [`Self::bytes`]; `InvalidData` for a file that is not as the kernel writes it.
    pub fn stat(&self) -> io::Result<Stat> {
        let bytes = self.bytes("stat")?;
        Stat::parse(&bytes).ok_or_else(|| {
            let problem = format!("{}: {}", self.path("stat"), shown(&bytes));
            io::Error::new(io::ErrorKind::InvalidData, problem)
        })
    }

    /// Its `status`.
    ///
    /// # Errors
    /// As [`Self::bytes`].
    pub fn status(&self) -> io::Result<Status> {
        self.bytes("status").map(Status::new)
    }

    /// Its `schedstat`; None if there is no such thread, or the kernel keeps no account (`CONFIG_SCHED_INFO`).
    pub fn schedstat(&self) -> Option<Schedstat> {
        Schedstat::parse(&self.bytes("schedstat").ok()?)
    }

    /// Its name as text: see [`shown`].
    ///
    /// # Errors
    /// As [`Self::bytes`].
    pub fn name(&self) -> io::Result<String> {
        let bytes = self.bytes("comm")?;
        Ok(shown(bytes.strip_suffix(b"\n").unwrap_or(&bytes)))
    }

    /// The strings in one of its files, each of which ends with a zero: `cmdline` and `environ`.
    ///
    /// # Errors
    /// As [`Self::bytes`], and `PermissionDenied`.
    pub(crate) fn strings(&self, file: &str) -> io::Result<Vec<Vec<u8>>> {
        let bytes = self.bytes(file)?;
        let all = bytes.strip_suffix(b"\0").unwrap_or(&bytes).split(|&byte| byte == 0);
        Ok(if bytes.is_empty() { Vec::new() } else { all.map(<[u8]>::to_vec).collect() })
    }

    /// The numbers of its threads.
    ///
    /// # Errors
    /// `NotFound` where there is no such process.
    pub fn threads(&self) -> io::Result<impl Iterator<Item = u32> + use<>> {
        numbers_in(Path::new(&self.path("task")))
    }

    /// The processes that its threads have started, as far as the kernel tells (`CONFIG_PROC_CHILDREN`).
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
