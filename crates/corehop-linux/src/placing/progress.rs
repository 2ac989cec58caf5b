// SPDX-License-Identifier: MIT OR Apache-2.0
//! The progress of a program: a count from a file or a socket, or a number of system calls.

use std::fmt;
use std::io::{self, Read};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use corehop_plan::shown;

use super::calls::CallCount;
use super::sources::Kernel;

/// A source of the program's progress.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProgressSource {
    /// A file that contains one number and is rewritten as the number grows.
    File(PathBuf),
    /// A Unix socket that sends lines with one number each; the last number counts.
    Socket(PathBuf),
    /// Completed system calls of the program, by number, as a proxy for progress.
    Calls(Vec<u32>),
}

impl ProgressSource {
    /// Returns the path of the file or socket, if the source has one.
    pub fn path(&self) -> Option<&Path> {
        match self {
            Self::File(path) | Self::Socket(path) => Some(path),
            Self::Calls(_) => None,
        }
    }
}

/// The reason why progress cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ProgressError {
    /// The file or socket cannot be read.
    #[error(
        "{path} has no progress (the file has to exist, with a number, before the placement starts): {source}"
    )]
    Unreadable {
        /// The path of the file or socket.
        path: String,
        /// The error of the system.
        source: io::Error,
    },
    /// Calls cannot be counted.
    #[error("corehop cannot count completed system calls: {0}")]
    NoCount(Arc<crate::bpf::BpfError>),
}

/// The system calls that can stand for progress.
const CALLS: [(&str, i64); 14] = [
    ("read", libc::SYS_read),
    ("write", libc::SYS_write),
    ("readv", libc::SYS_readv),
    ("writev", libc::SYS_writev),
    ("pread64", libc::SYS_pread64),
    ("pwrite64", libc::SYS_pwrite64),
    ("sendto", libc::SYS_sendto),
    ("recvfrom", libc::SYS_recvfrom),
    ("sendmsg", libc::SYS_sendmsg),
    ("recvmsg", libc::SYS_recvmsg),
    ("sendfile", libc::SYS_sendfile),
    ("accept4", libc::SYS_accept4),
    ("fsync", libc::SYS_fsync),
    ("fdatasync", libc::SYS_fdatasync),
];

impl fmt::Display for ProgressSource {
    /// Writes the source in the form of the command line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => f.write_str(&shown::path(path)),
            Self::Socket(path) => write!(f, "unix:{}", shown::path(path)),
            Self::Calls(numbers) => {
                let name = |it: &u32| CALLS.iter().find(|(_, number)| *number as u32 == *it);
                let names: Vec<&str> =
                    numbers.iter().filter_map(name).map(|(name, _)| *name).collect();
                write!(f, "syscalls:{}", names.join(","))
            }
        }
    }
}

impl FromStr for ProgressSource {
    type Err = String;

    /// Parses `FILE`, `unix:SOCKET` or `syscalls:write,sendmsg`.
    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(path) = text.strip_prefix("unix:") {
            return Ok(Self::Socket(path.into()));
        }
        let Some(names) = text.strip_prefix("syscalls:") else {
            return Ok(Self::File(text.into()));
        };
        let number = |name: &str| {
            let found = CALLS.iter().find(|(known, _)| *known == name);
            found.map(|(_, number)| *number as u32).ok_or_else(|| {
                let names = CALLS.map(|(name, _)| name).join(", ");
                format!("calls of `{name}` cannot stand for progress; use one of: {names}")
            })
        };
        names.split(',').map(number).collect::<Result<_, _>>().map(Self::Calls)
    }
}

/// The largest number of socket reads in one look.
const MOST_READS: usize = 256;
/// The largest number of bytes read from a file; no number is longer.
const MOST_DIGITS: u64 = 64;
/// The number of times that corehop reads an empty file again, because the program may be about to write.
const TRIES: usize = 250;

/// An open source of progress.
#[derive(Debug)]
pub(crate) enum ProgressFeed {
    File(PathBuf),
    Socket { stream: UnixStream, pending: Vec<u8>, last: Option<f64> },
    Calls(CallCount),
}

impl ProgressFeed {
    /// Opens a source; the kernel counts only if the source is system calls.
    pub(crate) fn open(
        source: &ProgressSource,
        kernel: impl FnOnce() -> Kernel,
    ) -> Result<Self, ProgressError> {
        let unreadable = |path: &Path| {
            let path = shown::path(path);
            move |source| ProgressError::Unreadable { path, source }
        };
        match source {
            ProgressSource::File(path) => {
                number_in(path).map_err(unreadable(path))?;
                Ok(Self::File(path.clone()))
            }
            ProgressSource::Socket(path) => {
                let stream = UnixStream::connect(path).map_err(unreadable(path))?;
                stream.set_nonblocking(true).map_err(unreadable(path))?;
                Ok(Self::Socket { stream, pending: Vec::new(), last: None })
            }
            ProgressSource::Calls(numbers) => {
                let graph = kernel().map_err(ProgressError::NoCount)?;
                let begun = CallCount::begin(graph, numbers);
                Ok(Self::Calls(begun.map_err(|it| ProgressError::NoCount(Arc::new(it)))?))
            }
        }
    }

    /// The time from the start of a window at which [`begin`](Self::begin) is due.
    pub(crate) fn begins_after(&self, window: Duration) -> Duration {
        if let Self::Calls(count) = self { count.begins_after(window) } else { Duration::ZERO }
    }

    /// Sets whether a placement is tried in the next window.
    pub(crate) const fn look_closely(&mut self, closely: bool) {
        if let Self::Calls(count) = self {
            count.look_closely(closely);
        }
    }

    /// Starts counting for sources that count only in a part of a window.
    pub(crate) fn begin(&mut self) {
        if let Self::Calls(count) = self {
            count.count();
        }
    }

    /// The current count; `None` if the source no longer provides it.
    pub(crate) fn now(&mut self) -> Option<f64> {
        match self {
            Self::File(path) => number_in(path).ok(),
            Self::Calls(count) => count.now(),
            Self::Socket { stream, pending, last } => {
                let mut buffer = [0; 4096];
                // A sender that writes faster than this reads does not keep it.
                for _ in 0..MOST_READS {
                    match stream.read(&mut buffer) {
                        // The other side has closed it.
                        Ok(0) => return None,
                        Ok(bytes) => pending.extend(&buffer[..bytes]),
                        Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                        Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                        Err(_) => return None,
                    }
                }
                if let Some(end) = pending.iter().rposition(|&byte| byte == b'\n') {
                    let lines: Vec<u8> = pending.drain(..=end).collect();
                    let text = String::from_utf8_lossy(&lines);
                    *last = text.lines().next_back().and_then(number);
                }
                // No number is that long.
                if pending.len() > buffer.len() {
                    pending.clear();
                    *last = None;
                }
                *last
            }
        }
    }
}

fn number(text: &str) -> Option<f64> {
    text.trim().parse().ok().filter(|it: &f64| it.is_finite())
}

fn number_in(path: &Path) -> io::Result<f64> {
    let mut text = text_in(path)?;
    // A program that writes it in place has emptied it, and is about to write.
    for _ in 0..TRIES {
        if !text.is_empty() {
            break;
        }
        std::thread::sleep(Duration::from_micros(200));
        text = text_in(path)?;
    }
    let damaged = || {
        let start: String = text.chars().take(20).collect();
        io::Error::new(io::ErrorKind::InvalidData, format!("`{start}` is not a number"))
    };
    number(&text).ok_or_else(damaged)
}

/// The text of a regular file, up to the length of a number.
///
/// The program owns the file and may replace it at any time: by a named pipe, which would wait for a writer, by an
/// endless device, or by a device that acts when it is opened. For this reason corehop checks the file before it opens
/// it (`O_PATH` opens nothing), and does not block on kernel files that wait for content.
fn text_in(path: &Path) -> io::Result<String> {
    let opened = |flags, path: &Path| {
        let mut options = std::fs::OpenOptions::new();
        options.read(true).custom_flags(flags).open(path)
    };
    let found = opened(libc::O_PATH, path)?;
    if !found.metadata()?.is_file() {
        let what = "corehop reads progress only from regular files; unix:SOCKET names a socket";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
    }
    let same = format!("/proc/self/fd/{}", found.as_raw_fd());
    let file = opened(libc::O_NONBLOCK, Path::new(&same))?;
    let mut text = Vec::with_capacity(MOST_DIGITS as usize + 1);
    file.take(MOST_DIGITS + 1).read_to_end(&mut text)?;
    if text.len() as u64 > MOST_DIGITS {
        let what = format!("the file has more than {MOST_DIGITS} bytes, too many for a number");
        return Err(io::Error::new(io::ErrorKind::InvalidData, what));
    }
    String::from_utf8(text).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_is_a_file_a_socket_or_calls() {
        let of = |text: &str| text.parse::<ProgressSource>();
        assert_eq!(of("count.txt"), Ok(ProgressSource::File("count.txt".into())));
        assert_eq!(of("unix:/run/x"), Ok(ProgressSource::Socket("/run/x".into())));
        assert_eq!(of("syscalls:write,sendmsg"), Ok(ProgressSource::Calls(vec![1, 46])));
        assert!(of("syscalls:gettid").unwrap_err().contains("`gettid`"));
    }

    #[test]
    fn a_file_that_is_empty_while_it_is_written_is_read_when_it_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("count");
        // A busy host may stop the writer for longer than it is waited for.
        let read = (0..10).any(|_| {
            std::fs::write(&path, "").unwrap();
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    std::thread::sleep(Duration::from_millis(5));
                    std::fs::write(&path, "12").unwrap();
                });
                number_in(&path).is_ok_and(|it| (it - 12.0).abs() < 1e-9)
            })
        });
        assert!(read);
    }

    #[test]
    fn a_pipe_a_device_and_a_text_without_an_end_are_no_progress_and_are_not_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("count");
        let refused = || {
            let begun = std::time::Instant::now();
            let error = number_in(&path).unwrap_err().to_string();
            std::fs::remove_file(&path).unwrap();
            assert!(begun.elapsed() < Duration::from_secs(30), "it was waited for");
            error
        };
        let name = std::ffi::CString::new(path.to_str().unwrap()).unwrap();
        // SAFETY: mkfifo reads a string that ends with a zero.
        assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
        assert!(refused().contains("regular files"));
        for device in ["/dev/zero", "/dev/tty"] {
            std::os::unix::fs::symlink(device, &path).unwrap();
            assert!(refused().contains("regular files"), "{device}");
        }
        std::fs::write(&path, "1".repeat(1 << 20)).unwrap();
        assert!(refused().contains("more than 64 bytes"));
        std::fs::write(&path, format!("{}\n", "1".repeat(63))).unwrap();
        assert!(number_in(&path).is_ok());
    }

    #[test]
    fn a_file_that_holds_no_number_is_refused_with_what_it_holds() {
        let path = std::env::temp_dir().join(format!("corehop-progress-{}", std::process::id()));
        std::fs::write(&path, "12\n").unwrap();
        assert!((number_in(&path).unwrap() - 12.0).abs() < 1e-9);
        for text in ["", "many", "nan"] {
            std::fs::write(&path, text).unwrap();
            assert!(number_in(&path).unwrap_err().to_string().contains(text));
        }
        std::fs::remove_file(&path).unwrap();
    }
}
