// SPDX-License-Identifier: MIT OR Apache-2.0
//! The program in which events are caused: its processes, its CPU time, its progress.

use std::cell::LazyCell;
use std::collections::BTreeMap;
use std::io;
use std::process::Child;
use std::sync::Arc;
use std::time::{Duration, Instant};

use corehop_plan::experiment::Target;
use corehop_plan::host::ActiveThread;

use super::held::{SubjectThread, ThreadHold};
use crate::bpf::sharing::WakeGraph;
use crate::observe::{command_of, pass_on, reap_child};
use crate::placing::{
    Kernel, PlacingError, ProcessTracker, ProgressFeed, ProgressSource, ThreadTable, missing,
};
use corehop_system::clock::process_cpu_ns;
use corehop_system::proc::ProcEntry;

/// The time that a command has to end after a signal.
const PATIENCE: Duration = Duration::from_secs(10);
/// The largest number of threads in which events are caused in turn, the busiest threads first.
const MOST: usize = 64;
/// A thread takes part if it ran for at least one fiftieth of the busiest thread's time.
const PART: u64 = 50;

/// A running program in which events are caused.
#[derive(Debug)]
pub(super) struct Subject {
    followed: ProcessTracker,
    threads: ThreadTable,
    progress: Option<ProgressFeed>,
    child: Option<Child>,
    /// The exit code and the CPU time in nanoseconds of a command that has ended.
    ended: Option<(i32, u64)>,
}

/// The CPU time and the progress of a program at one instant.
#[derive(Debug, Clone)]
pub(super) struct SubjectMark {
    at: Instant,
    /// The CPU time by process, in nanoseconds.
    cpu_ns: BTreeMap<u32, u64>,
    progress: Option<f64>,
}

/// The CPU time and the progress of a program between two instants; times in nanoseconds.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct SubjectSpan {
    pub(super) wall_ns: f64,
    pub(super) cpu_ns: f64,
    pub(super) progress: f64,
    /// The reason why the values are not usable.
    pub(super) invalid: Option<String>,
}

impl Subject {
    /// Finds the program, or starts the command.
    ///
    /// # Errors
    /// Fails if there is no such program, or its progress is not available.
    pub(super) fn begin(
        target: &Target,
        progress: Option<&ProgressSource>,
        to_stderr: bool,
    ) -> Result<Self, PlacingError> {
        let counts = matches!(progress, Some(ProgressSource::Calls(_)));
        let kernel: LazyCell<Kernel> =
            LazyCell::new(|| WakeGraph::open().map(Arc::new).map_err(Arc::new));
        let feed = |source| ProgressFeed::open(source, || LazyCell::force(&kernel).clone());
        let mut progress = progress.map(feed).transpose()?;
        if let Some(feed) = &mut progress {
            // Calls are counted all the time: blocks are compared.
            feed.look_closely(true);
        }
        let mut followed =
            ProcessTracker::new(counts.then(|| LazyCell::force(&kernel).clone().ok()).flatten());
        let mut child = None;
        match target {
            Target::Process(pid) => followed.process(*pid)?,
            Target::Cgroup(path) => followed.cgroup(path).map_err(missing(target))?,
            Target::Command(words) => {
                let no_words = || missing(target)(io::Error::from_raw_os_error(libc::ENOENT));
                let mut command = command_of(words, to_stderr).ok_or_else(no_words)?;
                let started = command.spawn().map_err(missing(target))?;
                followed.started(started.id());
                child = Some(started);
            }
        }
        Ok(Self { followed, threads: ThreadTable::default(), progress, child, ended: None })
    }

    /// The threads in which events are caused, the busiest since the last call first, and the number of all threads.
    pub(super) fn threads(&mut self, hold: &mut ThreadHold) -> (Vec<SubjectThread>, usize) {
        let processes = self.processes();
        let mut all = self.threads.look(&processes);
        hold.correct(&mut all);
        all.sort_by_key(|it| std::cmp::Reverse(it.busy_ns));
        let (count, most) = (all.len(), all.first().map_or(0, |it| it.busy_ns));
        let busy = all.into_iter().filter(|it| it.busy_ns * PART >= most).take(MOST);
        let of = |it: ActiveThread| SubjectThread { pid: it.pid, tid: it.tid, home: it.allowed };
        (busy.map(of).collect(), count)
    }

    /// The processes of the program. If the program existed before this process, this process and its helpers may be
    /// among its descendants (a shell's, for instance), so they are excluded.
    fn processes(&mut self) -> Vec<u32> {
        let mut all = self.followed.now();
        if self.child.is_none() {
            let own = std::process::id();
            let helpers = ProcEntry::process(own).children();
            all.retain(|pid| *pid != own && !helpers.contains(pid));
        }
        all
    }

    /// The current CPU time and progress.
    pub(super) fn mark(&mut self) -> SubjectMark {
        if let Some(feed) = &mut self.progress {
            feed.begin();
        }
        let progress = self.progress.as_mut().and_then(ProgressFeed::now);
        let processes = self.processes();
        let time = |pid| Some((pid, process_cpu_ns(pid)?));
        let cpu_ns = processes.into_iter().filter_map(time).collect();
        SubjectMark { at: Instant::now(), cpu_ns, progress }
    }

    /// Whether the program has ended.
    pub(super) fn has_ended(&mut self) -> bool {
        let Some(child) = &self.child else { return self.processes().is_empty() };
        if self.ended.is_none() {
            // A child that cannot be waited for has ended, too.
            let ended = reap_child(child.id()).unwrap_or(Some((-1, 0)));
            self.ended = ended;
        }
        self.ended.is_some()
    }

    /// The exit code and the CPU time in nanoseconds of a command that has ended, including the children for which it
    /// waited.
    pub(super) const fn ended(&self) -> Option<(i32, u64)> {
        self.ended
    }
}

impl Drop for Subject {
    /// Ends the command by SIGTERM, and after some seconds by SIGKILL. A program that corehop did not start continues
    /// to run.
    fn drop(&mut self) {
        if self.child.is_none() || self.has_ended() {
            return;
        }
        self.child.as_ref().map(|child| pass_on(child, libc::SIGTERM));
        let begin = Instant::now();
        while begin.elapsed() < PATIENCE {
            if self.has_ended() {
                return;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        // What cannot be ended has ended.
        let _gone = self.child.as_mut().map(|child| child.kill().and_then(|()| child.wait()));
    }
}

impl SubjectMark {
    /// The time and the progress from this mark to `later`.
    pub(super) fn until(&self, later: &Self) -> SubjectSpan {
        let wall_ns = (later.at - self.at).as_nanos() as f64;
        let since = |(pid, &ns): (&u32, &u64)| {
            ns.saturating_sub(self.cpu_ns.get(pid).copied().unwrap_or_default())
        };
        let cpu_ns = later.cpu_ns.iter().map(since).sum::<u64>() as f64;
        let progress = later.progress.zip(self.progress).map(|(later, before)| later - before);
        let lost = self.cpu_ns.keys().any(|pid| !later.cpu_ns.contains_key(pid));
        let invalid = match progress {
            _ if lost => Some("a process of the program ended"),
            None => Some("the progress could not be read"),
            Some(progress) if progress < 0.0 => Some("the progress ran backwards"),
            Some(0.0) => Some("no progress"),
            Some(_) => None,
        };
        SubjectSpan {
            wall_ns,
            cpu_ns,
            progress: progress.unwrap_or_default().max(0.0),
            invalid: invalid.map(str::to_owned),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mark(cpu_ns: &[(u32, u64)], progress: Option<f64>) -> SubjectMark {
        SubjectMark { at: Instant::now(), cpu_ns: cpu_ns.iter().copied().collect(), progress }
    }

    #[test]
    fn a_span_counts_new_processes_from_their_beginning() {
        let span = mark(&[(1, 500)], Some(3.0)).until(&mark(&[(1, 700), (2, 40)], Some(8.0)));
        assert_eq!((span.cpu_ns, span.progress, span.invalid), (240.0, 5.0, None));
    }

    #[test]
    fn a_span_that_says_nothing_says_why() {
        let why = |before: &SubjectMark, after: &SubjectMark| before.until(after).invalid.unwrap();
        let of = |progress| mark(&[(1, 5)], progress);
        assert_eq!(why(&of(Some(1.0)), &of(Some(1.0))), "no progress");
        assert_eq!(why(&of(Some(2.0)), &of(Some(1.0))), "the progress ran backwards");
        assert_eq!(why(&of(Some(2.0)), &of(None)), "the progress could not be read");
        assert_eq!(why(&of(Some(1.0)), &mark(&[], Some(2.0))), "a process of the program ended");
        let span = of(Some(2.0)).until(&of(Some(1.0)));
        assert!(span.progress.abs() < 1e-12, "no negative quantity is recorded");
    }
}
