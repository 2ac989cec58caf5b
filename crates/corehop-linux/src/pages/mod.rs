// SPDX-License-Identifier: MIT OR Apache-2.0
//! Page sampling finds threads of a program that write to common pages.
//!
//! Pages are write-protected (userfaultfd(2)). The kernel reports which thread writes to a protected page, and
//! suspends that thread. A handler removes the protection and soon protects the page again, so that the next writer
//! is found. [The concept](../../../docs/concepts/page-sampling.md) describes the blind spots and the costs.
//!
//! The handler is a separate process with the only descriptor: if it is killed, the kernel removes all protection. If
//! the handler hangs, it is killed. `budget`, `page`, `sampler` and `areas` make no system calls.

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

/// The default for the largest number of faults per second that sampling causes to a thread.
pub const FAULTS_PER_SECOND: u32 = 100;
/// The silence after which a handler counts as hanging. The handler reports ten times as often.
const SILENCE: Duration = Duration::from_secs(1);

/// The reason why pages cannot be sampled, or can no longer be sampled.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PagesError {
    /// The kernel refuses, or lacks a feature.
    #[error(
        "the kernel denies write protection of the program's pages ({0}): page sampling needs root, or CAP_SYS_PTRACE in the program itself, or `sysctl vm.unprivileged_userfaultfd=1`"
    )]
    Refused(io::Error),
    /// The kernel lacks asynchronous write protection.
    #[error(
        "the kernel lacks asynchronous write protection of pages ({0}): boot Linux 6.7 or later with CONFIG_USERFAULTFD"
    )]
    Lacking(io::Error),
    /// corehop could not obtain the descriptor of the program's memory.
    #[error(
        "corehop cannot watch the program's memory ({0}); the program runs without page sampling"
    )]
    NotTaken(io::Error),
    /// The process that handles page faults cannot be started.
    #[error(
        "corehop cannot start the process that handles page faults ({0}); the program runs without page sampling"
    )]
    NoHandler(io::Error),
    /// The process that handles page faults has ended.
    #[error(
        "the process that handles page faults was ended from outside; the program's pages are as before"
    )]
    Died,
    /// The process that handles page faults does not answer.
    #[error(
        "the process that handles page faults did not answer for {} s, so corehop ended it; the program's pages are as before",
        SILENCE.as_secs()
    )]
    Silent,
    /// Another program runs in the process.
    #[error("the program has started another program (exec), whose pages corehop does not sample")]
    Gone,
}

/// A message from the process that handles page faults.
#[derive(Debug, Default, Serialize, Deserialize)]
struct HandoverReport {
    /// Pairs of threads, their new hand-overs, and their rate of hand-overs.
    pairs: Vec<(u32, u32, u64, f64)>,
    /// The number of faults so far.
    faults: u64,
    /// Whether the memory is gone because of exec or process exit.
    gone: bool,
}

/// The handler's reports since the last call.
#[derive(Debug, Default)]
struct HandlerReport {
    pairs: BTreeMap<(u32, u32), (u64, f64)>,
    faults: u64,
    lost: Option<PagesError>,
}

/// The page sampling of a running program. Dropping the value stops the sampling and removes all protection.
#[derive(Debug)]
pub(crate) struct PageSampling {
    handler: Child,
    socket: UnixStream,
    heard: Arc<Mutex<HandlerReport>>,
    reader: Option<JoinHandle<()>>,
}

/// Checks whether pages can be sampled on this host.
///
/// # Errors
/// Fails with [`PagesError`], which names the remedy.
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

/// Starts a command, and obtains a descriptor of its memory without cooperation of the command. If no descriptor can be
/// obtained, the command still runs.
///
/// # Errors
/// Fails with the errors of [`Command::spawn`].
pub(crate) fn start(command: &mut Command) -> io::Result<(Child, Result<OwnedFd, PagesError>)> {
    let (child, descriptor) = inject::start(command)?;
    Ok((child, descriptor.map_err(PagesError::NotTaken)))
}

impl PageSampling {
    /// Samples the process `pid` by its `descriptor`, until the process runs another program.
    ///
    /// # Errors
    /// Fails if the process has no handler of page faults.
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

    /// Returns the threads that were seen writing to common pages since the last call.
    ///
    /// # Errors
    /// Fails with the reason why sampling has ended.
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

/// Receives reports until there are no more. A silent handler is killed, so that the program continues immediately,
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
