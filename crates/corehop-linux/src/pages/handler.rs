// SPDX-License-Identifier: MIT OR Apache-2.0
//! The process that handles faults. Only this process has the descriptor, so its death removes all protection.

use std::ffi::OsStr;
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use super::HandoverReport;
use super::memory::ProcessMemory;
use super::passing::receive;
use super::sampler::{After, PageSampler};
use super::threads::NamespaceThreads;
use super::uffd::{PAGE, Uffd};
use corehop_system::supervisor::{READY, enter_helper};

/// The command-line argument that starts the program as a handler.
pub(crate) const ROLE: &str = "__pages";
/// The time between two reports.
pub(super) const REPORT: Duration = Duration::from_millis(100);
/// The time between two searches for pages that are written.
const ROUND: Duration = Duration::from_millis(20);
/// The shortest time between two reads of the process's areas; reading takes at most one hundredth of the time.
const REFRESH: Duration = Duration::from_millis(300);

/// The handler's `main`, which samples the process `pid` with at most `faults` faults per second for each thread.
pub(crate) fn handle(pid: &OsStr, faults: &OsStr) -> io::Result<()> {
    let mut socket = enter_helper(c"corehop-pages")?;
    socket.write_all(READY)?;
    let number = |text: &OsStr| text.to_str().and_then(|text| text.parse::<u32>().ok());
    let (Some(pid), Some(faults)) = (number(pid), number(faults)) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    let uffd = Uffd::new(receive(&socket)?)?;
    be_prompt();
    socket.set_nonblocking(true)?;
    let mut handler = PageFaultHandler::new(pid, faults, uffd, socket)?;
    match handler.run() {
        // The program has ended, or runs another one.
        Err(error) if error.raw_os_error() == Some(libc::ESRCH) => handler.say_gone(),
        done => done,
    }
}

/// Raises the handler's priority if allowed and makes its timers exact, because suspended threads wait for it.
fn be_prompt() {
    // SAFETY: the calls take integers. If they fail, threads wait a little longer.
    unsafe {
        libc::setpriority(libc::PRIO_PROCESS, 0, -10);
        libc::prctl(libc::PR_SET_TIMERSLACK, 1_000);
    }
}

struct PageFaultHandler {
    uffd: Uffd,
    socket: UnixStream,
    memory: ProcessMemory,
    threads: NamespaceThreads,
    sampler: PageSampler,
    begun: Instant,
    /// The times of the next round, report and refresh, in nanoseconds since the start.
    round_ns: u64,
    report_ns: u64,
    refresh_ns: u64,
    /// Evidence that could not be sent yet.
    unsent: Vec<u8>,
}

impl PageFaultHandler {
    fn new(pid: u32, faults: u32, uffd: Uffd, socket: UnixStream) -> io::Result<Self> {
        Ok(Self {
            uffd,
            socket,
            memory: ProcessMemory::of(pid)?,
            threads: NamespaceThreads::of(pid),
            sampler: PageSampler::new(faults, u64::from(pid), 0),
            begun: Instant::now(),
            round_ns: 0,
            report_ns: 0,
            refresh_ns: 0,
            unsent: Vec::new(),
        })
    }

    fn now_ns(&self) -> u64 {
        self.begun.elapsed().as_nanos() as u64
    }

    /// Runs until the placer has ended.
    fn run(&mut self) -> io::Result<()> {
        while self.wait() {
            self.answer()?;
            self.look_again()?;
            let now_ns = self.now_ns();
            if now_ns >= self.refresh_ns {
                self.memory.refresh(&self.uffd)?;
                let took_ns = self.now_ns() - now_ns;
                self.refresh_ns = now_ns + (REFRESH.as_nanos() as u64).max(100 * took_ns);
            }
            if now_ns >= self.round_ns {
                self.round_ns = now_ns + ROUND.as_nanos() as u64;
                if self.sampler.may_explore(now_ns) {
                    self.memory.explore(&self.uffd, &mut self.sampler)?;
                }
            }
            if now_ns >= self.report_ns {
                self.report_ns = now_ns + REPORT.as_nanos() as u64;
                self.report(false)?;
            }
        }
        Ok(())
    }

    /// Waits for a fault or for the next scheduled time; returns false if the placer has ended.
    fn wait(&mut self) -> bool {
        let next = [self.round_ns, self.report_ns, self.refresh_ns].into_iter();
        let next_ns = next.chain(self.sampler.next_ns()).min().unwrap_or(0);
        let left = Duration::from_nanos(next_ns.saturating_sub(self.now_ns()));
        let timeout = libc::timespec {
            tv_sec: left.as_secs() as i64,
            tv_nsec: i64::from(left.subsec_nanos()),
        };
        let of = |fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
        let mut polled = [of(self.uffd.as_raw_fd()), of(self.socket.as_raw_fd())];
        // SAFETY: both elements and the timeout outlive the call; no signals are named.
        let ready =
            unsafe { libc::ppoll(polled.as_mut_ptr(), 2, &raw const timeout, std::ptr::null()) };
        if ready <= 0 || polled[1].revents == 0 {
            return true;
        }
        match self.socket.read(&mut [0; 64]) {
            Ok(length) => length > 0,
            Err(error) => error.kind() == io::ErrorKind::WouldBlock,
        }
    }

    /// Resumes the threads that are suspended at protected pages.
    fn answer(&mut self) -> io::Result<()> {
        loop {
            let faults = self.uffd.faults()?;
            if faults.is_empty() {
                return Ok(());
            }
            let now_ns = self.now_ns();
            for fault in faults {
                let page = fault.address & !(PAGE - 1);
                self.uffd.release((page, page + PAGE))?;
                self.memory.written(fault.address);
                let Some(tid) = self.threads.seen(fault.tid) else { continue };
                if self.sampler.fault(fault.address, tid, now_ns) == After::Stop {
                    self.memory.release_all(fault.address, &self.uffd, &self.sampler)?;
                }
            }
        }
    }

    /// Protects the pages that are due for another look.
    fn look_again(&mut self) -> io::Result<()> {
        for page in self.sampler.take_due(self.now_ns()) {
            match self.uffd.protect((page, page + PAGE)) {
                Ok(()) => {}
                Err(error) if error.raw_os_error() == Some(libc::ESRCH) => return Err(error),
                Err(_) => self.sampler.forget(page),
            }
        }
        Ok(())
    }

    /// Sends the evidence about hand-overs to the placer as a line. The line also shows that the handler is alive.
    fn report(&mut self, gone: bool) -> io::Result<()> {
        // A placer that does not read is told more later.
        if self.unsent.is_empty() {
            let pairs = self.sampler.report(self.now_ns());
            let pairs = pairs.into_iter().map(|it| (it.pair.0, it.pair.1, it.seen, it.per_second));
            let report =
                HandoverReport { pairs: pairs.collect(), faults: self.sampler.faults(), gone };
            self.unsent = serde_json::to_vec(&report)?;
            self.unsent.push(b'\n');
        }
        match self.socket.write(&self.unsent) {
            Ok(length) => drop(self.unsent.drain(..length)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }

    fn say_gone(&mut self) -> io::Result<()> {
        self.socket.set_nonblocking(false)?;
        self.report(false)?;
        self.report(true)
    }
}
