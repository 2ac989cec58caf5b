// SPDX-License-Identifier: MIT OR Apache-2.0
//! Page sampling: which threads of a program write to the same pages.
//!
//! Pages are write-protected (userfaultfd(2)). The kernel tells which thread writes to one and lets it wait; a handler
//! lifts the protection, and protects the page again soon after, so that the next writer shows itself.
//! [The concept](../../../docs/concepts/page-sampling.md) has the blind spots and the costs.
//!
//! The handler is a process of its own and has the only descriptor: whatever kills it, the kernel then lifts all
//! protection. If it hangs, it is killed. `budget`, `page`, `sampler` and `areas` make no system calls.

mod areas;
mod budget;
mod page;
mod sampler;
mod uffd;
mod threads;
mod memory;
mod passing;
mod inject;
mod handler;

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io::{self, BufRead, BufReader};
use std::net::Shutdown;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{JoinHandle, sleep};
use std::time::{Duration, Instant};

use corehop_plan::host::{DataSharing, Evidence};
use serde::{Deserialize, Serialize};

use corehop_system::supervisor::start_helper;

pub(crate) use handler::{ROLE, handle};

/// The most faults a second that sampling causes to a thread, unless something else is asked for.
pub const FAULTS_PER_SECOND: u32 = 100;
/// A handler that has said nothing for so long does not answer any more. It reports ten times as often.
const SILENCE: Duration = Duration::from_secs(1);

/// Why pages cannot be sampled, or not any more.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PagesError {
    /// The kernel refuses, or lacks something.
    #[error(
        "the kernel denies write protection of the program's pages ({0}): page sampling needs root, or CAP_SYS_PTRACE in the program itself, or `sysctl vm.unprivileged_userfaultfd=1`"
    )]
    Refused(io::Error),
    /// A kernel without what it takes.
    #[error(
        "the kernel lacks asynchronous write protection of pages ({0}): boot Linux 6.7 or later with CONFIG_USERFAULTFD"
    )]
    Lacking(io::Error),
    /// The descriptor was not got.
    #[error(
        "corehop cannot watch the program's memory ({0}); the program runs without page sampling"
    )]
    NotTaken(io::Error),
    /// The handler cannot be started.
    #[error(
        "corehop cannot start the process that handles page faults ({0}); the program runs without page sampling"
    )]
    NoHandler(io::Error),
    /// The handler is gone.
    #[error(
        "the process that handles page faults was ended from outside; the program's pages are as before"
    )]
    Died,
    /// The handler hangs.
    #[error(
        "the process that handles page faults did not answer for {} s, so corehop ended it; the program's pages are as before",
        SILENCE.as_secs()
    )]
    Silent,
    /// Another program runs in the process.
    #[error("the program has started another program (exec), whose pages corehop does not sample")]
    Gone,
}

/// A message of the handler.
#[derive(Debug, Default, Serialize, Deserialize)]
struct HandoverReport {
    /// Pairs of threads, their new hand-overs, and their rate.
    pairs: Vec<(u32, u32, u64, f64)>,
    /// All faults so far.
    faults: u64,
    /// Whether the memory is gone: exec, or the end.
    gone: bool,
}

/// News of the handler since the last time.
#[derive(Debug, Default)]
struct HandlerReport {
    pairs: BTreeMap<(u32, u32), (u64, f64)>,
    faults: u64,
    lost: Option<PagesError>,
}

/// Sampling under way. It ends when this is dropped; nothing is protected then.
#[derive(Debug)]
pub(crate) struct PageSampling {
    handler: Child,
    socket: UnixStream,
    heard: Arc<Mutex<HandlerReport>>,
    reader: Option<JoinHandle<()>>,
}

/// Whether pages can be sampled here.
///
/// # Errors
/// [`PagesError`] with the remedy.
pub(crate) fn check() -> Result<(), PagesError> {
    let probe = uffd::Uffd::own().and_then(|_| {
        let pagemap = std::fs::File::open("/proc/self/pagemap")?;
        uffd::populated(&pagemap, (0, uffd::PAGE))
    });
    match probe {
        Ok(_) => Ok(()),
        Err(error) if error.raw_os_error() == Some(libc::EPERM) => Err(PagesError::Refused(error)),
        Err(error) => Err(PagesError::Lacking(error)),
    }
}

/// Starts a command, and takes a descriptor of its memory, of which it notices nothing. If that fails, the command runs all the
/// same.
///
/// # Errors
/// As [`Command::spawn`].
pub(crate) fn start(command: &mut Command) -> io::Result<(Child, Result<OwnedFd, PagesError>)> {
    let (child, descriptor) = inject::start(command)?;
    Ok((child, descriptor.map_err(PagesError::NotTaken)))
}

impl PageSampling {
    /// Samples the process `pid`, of which `descriptor` is, until it runs another program.
    ///
    /// # Errors
    /// If there is no handler.
    pub(crate) fn begin(
        pid: u32,
        descriptor: OwnedFd,
        faults_per_second: u32,
    ) -> Result<Self, PagesError> {
        Self::with_handler(pid, descriptor, faults_per_second).map_err(PagesError::NoHandler)
    }

    fn with_handler(pid: u32, descriptor: OwnedFd, faults_per_second: u32) -> io::Result<Self> {
        let (pid, faults) = (pid.to_string(), faults_per_second.to_string());
        let arguments = [OsStr::new(&pid), OsStr::new(&faults)];
        let (mut handler, socket) = start_helper(ROLE, &arguments, Stdio::null(), Stdio::null())?;
        let heard = Arc::new(Mutex::new(HandlerReport::default()));
        let number = handler.id().cast_signed();
        let sent = passing::send(&socket, descriptor.as_fd());
        // From here on the handler has it alone.
        drop(descriptor);
        let reader = sent.and_then(|()| {
            socket.set_read_timeout(Some(SILENCE))?;
            let (theirs, heard) = (socket.try_clone()?, heard.clone());
            let named = std::thread::Builder::new().name("pages".into());
            named.spawn(move || listen(theirs, number, &heard))
        });
        match reader {
            Ok(reader) => Ok(Self { handler, socket, heard, reader: Some(reader) }),
            Err(error) => {
                // It is our child and was not waited for, so its number is its own.
                handler.kill()?;
                handler.wait()?;
                Err(error)
            }
        }
    }

    /// The threads that were seen at the same pages since the last time.
    ///
    /// # Errors
    /// Why nothing more will be seen.
    pub(crate) fn take(&mut self) -> Result<Vec<DataSharing>, PagesError> {
        let mut heard = locked(&self.heard);
        if let Some(why) = heard.lost.take() {
            return Err(why);
        }
        let pairs = std::mem::take(&mut heard.pairs).into_iter();
        let shared = |((a, b), (seen, per_second))| DataSharing {
            a,
            b,
            by: Evidence::Pages,
            seen,
            per_second,
        };
        Ok(pairs.map(shared).collect())
    }
}

impl Drop for PageSampling {
    fn drop(&mut self) {
        // Both ends hear of it, the handler and the thread that listens.
        let _closed_already = self.socket.shutdown(Shutdown::Both);
        let _no_panic = self.reader.take().map(JoinHandle::join);
        let begun = Instant::now();
        while matches!(self.handler.try_wait(), Ok(None)) {
            if begun.elapsed() > SILENCE {
                let _ends_it = self.handler.kill();
            }
            sleep(Duration::from_micros(200));
        }
    }
}

fn locked(heard: &Mutex<HandlerReport>) -> MutexGuard<'_, HandlerReport> {
    heard.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Takes reports until there are no more. A handler that is silent is killed, so that the program goes on at once,
/// whatever the placer does meanwhile.
fn listen(socket: UnixStream, handler: i32, heard: &Mutex<HandlerReport>) {
    let mut lines = BufReader::new(socket);
    let mut line = Vec::new();
    let why = loop {
        line.clear();
        match lines.read_until(b'\n', &mut line) {
            Ok(0) => break PagesError::Died,
            Ok(_) => {}
            Err(_) => {
                // SAFETY: takes two integers. The child is waited for after this thread, so the number is its own.
                unsafe { libc::kill(handler, libc::SIGKILL) };
                break PagesError::Silent;
            }
        }
        // A handler that was killed may leave half a line.
        let Ok(report) = serde_json::from_slice::<HandoverReport>(&line) else { continue };
        if report.gone {
            break PagesError::Gone;
        }
        let mut heard = locked(heard);
        heard.faults = report.faults;
        for (a, b, seen, per_second) in report.pairs {
            let sum = heard.pairs.entry((a, b)).or_default();
            *sum = (sum.0 + seen, per_second);
        }
    };
    locked(heard).lost.get_or_insert(why);
}
