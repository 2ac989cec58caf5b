// SPDX-License-Identifier: MIT OR Apache-2.0
//! The live host on which a placer acts.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::process::Child;
use std::sync::Arc;
use std::time::{Duration, Instant};
use std::{io, mem};

use corehop_plan::experiment::{Argument, Target};
use corehop_plan::host::{
    ActiveThread, Activity, Evidence, Host, HostError, Move, Observation, ProgramExit, Receipt,
};
use corehop_plan::platform::{Affinity, Platform};
use corehop_plan::units::CpuList;

use super::distances::Distances;
use super::followed::ProcessTracker;
use super::progress::ProgressFeed;
use super::sources::Sources;
use super::threads::ThreadTable;
use super::working_sets::ProcessWorkingSets;
use super::{PlacingError, ProgressSource};
use crate::bpf::sharing::WakeGraph;
use crate::counters::software::thread_cpu_time;
use crate::observe::{Moves, command_of, exit_code, pass_on};
use corehop_system::supervisor::{Guard, WholeHost, interrupt};

/// Processes whose threads are observed and moved.
#[derive(Debug)]
pub struct PlacingHost {
    /// The kernel's BPF programs, if they run.
    graph: Option<Arc<WakeGraph>>,
    followed: ProcessTracker,
    sources: Sources,
    child: Option<Child>,
    threads: ThreadTable,
    distances: Option<Distances>,
    /// Whether the distances are measured at the end of a window.
    closely: bool,
    /// The working sets of the processes; `None` on a host with one cache.
    working_sets: Option<ProcessWorkingSets>,
    progress: Option<ProgressFeed>,
    /// Whether placing continues without any evidence.
    search: bool,
    moves: Moves,
    /// The lock that keeps other placers from moving threads.
    _alone: Option<WholeHost>,
    /// The moves in force, and the former CPUs of each moved thread.
    in_force: Option<(Receipt, BTreeMap<u32, CpuList>)>,
    looked: Instant,
    /// The CPU time of the last looks.
    look_times: [Duration; 3],
}

/// The settings of a placer on this host.
#[derive(Debug, Clone, Copy)]
pub struct PlacerSettings<'a> {
    /// The platform of this host.
    pub platform: &'a Platform,
    /// The source of the program's progress.
    pub progress: Option<&'a ProgressSource>,
    /// The requested sources of evidence; wake-ups are counted in any case if the host allows it.
    pub evidence: &'a [Evidence],
    /// The number of faults per second that page sampling may cause to a thread.
    pub page_faults: u32,
    /// Whether placing continues without any evidence.
    pub search: bool,
    /// Whether threads will be moved.
    pub moves: bool,
    /// Whether a command's output goes to stderr.
    pub to_stderr: bool,
}
/// The length of a window as a multiple of the CPU time of a look; while a placement is tried, a window is a third as
/// long.
const LOOK_SHARE: u32 = 300;
/// The time that a command has to end after a signal.
const PATIENCE: Duration = Duration::from_secs(10);

impl PlacingHost {
    /// Finds the targets, or starts the command among them, and begins counting.
    ///
    /// # Errors
    /// Fails with [`PlacingError`] if a target does not exist, or the host lacks evidence, progress or privileges.
    pub fn begin(targets: &[Target], wishes: PlacerSettings<'_>) -> Result<Self, PlacingError> {
        let guard = Guard::new();
        let alone = wishes.moves.then(|| guard.lock_whole_host()).transpose()?;
        let kernel = WakeGraph::open().map(Arc::new).map_err(Arc::new);
        let mut sources = Sources::open(wishes.evidence, wishes.page_faults, &kernel);
        if !wishes.search {
            sources.some()?;
        }
        // First: a program that cannot be placed is not started.
        let progress =
            wishes.progress.map(|it| ProgressFeed::open(it, || kernel.clone())).transpose()?;
        let mut followed = ProcessTracker::new(kernel.clone().ok());
        let mut child = None;
        for target in targets {
            match target {
                Target::Process(pid) => followed.process(*pid)?,
                Target::Cgroup(path) => followed.cgroup(path).map_err(missing(target))?,
                Target::Command(words) => {
                    child =
                        Some(start(words, wishes.to_stderr, &mut followed, &mut sources, target)?);
                }
            }
        }
        Ok(Self {
            graph: kernel.ok(),
            followed,
            sources,
            child,
            threads: ThreadTable::default(),
            distances: Distances::park(wishes.platform),
            closely: false,
            working_sets: has_several_caches(wishes.platform).then(ProcessWorkingSets::default),
            progress,
            search: wishes.search,
            moves: Moves::new(guard),
            _alone: alone,
            in_force: None,
            looked: Instant::now(),
            look_times: [Duration::ZERO; 3],
        })
    }

    /// Returns the running sources of evidence.
    pub fn sources(&self) -> Vec<Evidence> {
        self.sources.words()
    }

    /// Returns the number of wake-ups by interrupts so far, which are not in the wake graph.
    pub fn from_interrupts(&self) -> u64 {
        self.graph.as_ref().map_or(0, |it| it.from_interrupts())
    }

    /// Puts back threads that are no longer followed, because their processes have left the cgroup or the threads
    /// have ended.
    fn release(&mut self, threads: &[ActiveThread]) {
        let Some((receipt, homes)) = &mut self.in_force else { return };
        let followed: HashSet<u32> = threads.iter().map(|it| it.tid).collect();
        for (tid, _) in homes.extract_if(.., |tid, _| !followed.contains(tid)) {
            // What cannot be taken back stays in the journal, and is tried again at the end.
            let _later = self.moves.release(receipt, tid);
        }
    }

    fn look(&mut self) -> Activity {
        // Not in the time of a look: calls have a budget of their own.
        let progress = self.progress.as_mut().and_then(ProgressFeed::now);
        let before = thread_cpu_time().get();
        let mut threads = self.threads.look(&self.followed.now());
        self.release(&threads);
        self.adopt(&threads);
        if let Some(it) = &mut self.working_sets {
            it.take(&mut threads);
        }
        let now = Instant::now();
        let span = now - mem::replace(&mut self.looked, now);
        let span_ns = span.as_nanos() as u64;
        // The exchange falls into the next window, in both arms of a trial alike. It is none of what every look takes.
        let exchange = thread_cpu_time().get();
        let lines = self.distances.as_ref().filter(|_| self.closely).and_then(Distances::now);
        let exchange = thread_cpu_time().get() - exchange;
        let mut window = Activity { span_ns, threads, progress, lines, ..Activity::default() };
        self.sources.take(&mut window);
        self.look_times.rotate_left(1);
        let look = (thread_cpu_time().get() - before).saturating_sub(exchange);
        self.look_times[2] = Duration::from_nanos(look);
        self.sources.prepare(&window);
        window
    }

    /// Registers threads that placed threads have started, which inherited their CPUs and must be put back with them.
    fn adopt(&mut self, threads: &[ActiveThread]) {
        let Some((receipt, homes)) = &mut self.in_force else { return };
        let moved: HashMap<(u32, &CpuList), CpuList> = threads
            .iter()
            .filter_map(|it| Some(((it.pid, &it.allowed), homes.get(&it.tid)?.clone())))
            .collect();
        for it in threads {
            let Some(home) = moved.get(&(it.pid, &it.allowed)) else { continue };
            if !homes.contains_key(&it.tid) && *home != it.allowed {
                self.moves.adopt(receipt, it.tid, home.clone());
                homes.insert(it.tid, home.clone());
            }
        }
    }

    /// The exit of the targets, if they have ended.
    fn ended(&mut self, threads: &[ActiveThread]) -> io::Result<Option<ProgramExit>> {
        if let Some(child) = &mut self.child {
            let status = child.try_wait()?;
            return Ok(status.map(|it| ProgramExit { status: Some(exit_code(it)), cpu_ns: None }));
        }
        let there = self.followed.has_cgroup();
        Ok((threads.is_empty() && !there).then(ProgramExit::default))
    }

    /// Waits for the end of the command; returns its exit code. Signals to this process are passed on, and end the
    /// wait some seconds later.
    pub fn end(&mut self) -> Option<i32> {
        let child = self.child.as_mut()?;
        // The threads are back, and the program gets the signal too.
        let _spared = interrupt::spare();
        let mut deadline = None;
        while deadline.is_none_or(|it| Instant::now() < it) {
            if let Some(status) = child.try_wait().ok()? {
                return Some(exit_code(status));
            }
            if let (None, Some(signal)) = (deadline, interrupt::signal()) {
                pass_on(child, signal);
                deadline = Some(Instant::now() + PATIENCE);
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        None
    }

    /// Waits until `end`, until the command ends, or until this process is asked to stop.
    ///
    /// # Errors
    /// Fails with the errors of [`Moves::beat`].
    fn wait(&mut self, end: Instant) -> Result<(), HostError> {
        self.moves.beat()?;
        while !interrupt::requested() && !self.command_ended() {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            std::thread::sleep(left.min(Duration::from_millis(50)));
            self.moves.beat()?;
        }
        Ok(())
    }

    /// Whether the command has ended.
    fn command_ended(&mut self) -> bool {
        self.child.as_mut().is_some_and(|it| matches!(it.try_wait(), Ok(Some(_))))
    }
}

impl Host for PlacingHost {
    fn observe(&mut self, window: Duration) -> Result<Observation, HostError> {
        // A look takes at most a 300th of one CPU, so that a third of half a percent is left for the decision and the log.
        // (One look that took long, as the host was away, is not the rule.) A trial is short, and is to remain so.
        let [_, usual, _] = sorted(self.look_times);
        let share = if self.closely { LOOK_SHARE / 3 } else { LOOK_SHARE };
        let window = window.max(share * usual);
        let after = self.progress.as_ref().map_or(Duration::ZERO, |it| it.begins_after(window));
        self.wait(self.looked + after)?;
        if let Some(it) = &mut self.progress {
            it.begin();
        }
        self.wait(self.looked + window)?;
        let activity = self.look();
        if !self.search && self.sources.words().is_empty() {
            let what = "no source of evidence is left to show which threads share data";
            let source = io::Error::other(self.sources.notes().join("; "));
            return Err(HostError::Observe { what, source });
        }
        let failed = |source| HostError::Observe { what: "waiting for the program", source };
        let ended = self.ended(&activity.threads).map_err(failed)?;
        Ok(Observation { absences: Vec::new(), activity: Some(activity), ended })
    }

    fn apply(&mut self, moves: &[Move]) -> Result<Receipt, HostError> {
        // The number of one that has ended since may be another program's.
        let (known, others): (Vec<Move>, Vec<Move>) =
            moves.iter().cloned().partition(|it| self.threads.has(it.tid));
        if let (true, Some(Move { tid, cpus })) = (known.is_empty(), others.into_iter().next()) {
            let why = "corehop does not follow this thread, or the thread has ended".to_owned();
            return Err(HostError::Move { tid, cpus, why });
        }
        let receipt = self.moves.apply(&known)?;
        let homes = receipt.before.iter().map(|it| (it.tid, it.cpus.clone())).collect();
        self.in_force = Some((receipt.clone(), homes));
        Ok(receipt)
    }

    fn revert(&mut self, receipt: Receipt) -> Result<(), HostError> {
        let threads = self.threads.look(&self.followed.now());
        self.adopt(&threads);
        if self.in_force.as_ref().is_some_and(|(it, _)| it.number == receipt.number) {
            self.in_force = None;
        }
        self.moves.revert(&receipt)
    }

    fn look_closely(&mut self, closely: bool) {
        self.closely = closely;
        if let Some(it) = &mut self.progress {
            it.look_closely(closely);
        }
    }

    fn notes(&mut self) -> Vec<String> {
        let mut notes = self.sources.notes();
        notes.extend(self.threads.note());
        notes
    }
}

fn sorted<T: Ord, const N: usize>(mut values: [T; N]) -> [T; N] {
    values.sort();
    values
}

fn has_several_caches(platform: &Platform) -> bool {
    let cpus = platform.usable();
    platform.pair(&cpus, Affinity::Memory).is_some()
}

pub(crate) fn missing(target: &Target) -> impl Fn(io::Error) -> PlacingError + '_ {
    |source| PlacingError::NoTarget { what: target.to_string(), source }
}

/// Starts the command such that it is followed from its first instruction.
fn start(
    words: &[Argument],
    to_stderr: bool,
    followed: &mut ProcessTracker,
    sources: &mut Sources,
    target: &Target,
) -> Result<Child, PlacingError> {
    let no_words = || missing(target)(io::Error::from_raw_os_error(libc::ENOENT));
    let mut command = command_of(words, to_stderr).ok_or_else(no_words)?;
    let failed = |source| PlacingError::Failed { what: "following a process", source };
    let child =
        followed.child(|| sources.spawn(&mut command)).map_err(failed)?.map_err(missing(target))?;
    followed.started(child.id());
    sources.started();
    Ok(child)
}

#[cfg(test)]
#[path = "host_tests.rs"]
mod tests;
