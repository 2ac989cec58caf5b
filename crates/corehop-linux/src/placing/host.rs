// SPDX-License-Identifier: MIT OR Apache-2.0
//! The live host that placing acts on.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::io;
use std::path::PathBuf;
use std::process::Child;
use std::time::{Duration, Instant};
use std::{fs, mem};

use corehop_core::experiment::{Argument, Target};
use corehop_core::host::{
    Active, Activity, Contact, Ended, Host, HostError, Move, Observation, Receipt,
};
use corehop_core::units::CpuList;

use super::progress::Progress;
use super::threads::Threads;
use super::{PlacingError, ProgressSource};
use crate::bpf::sharing::WakeGraph;
use crate::counters::software::thread_cpu_time;
use crate::observe::{Moves, command_of, exit_code, members};
use crate::supervisor::{Guard, WholeHost, interrupt};

/// Processes whose threads are looked at and moved.
#[derive(Debug)]
pub struct PlacingHost {
    graph: WakeGraph,
    child: Option<Child>,
    cgroups: Vec<PathBuf>,
    threads: Threads,
    progress: Option<Progress>,
    moves: Moves,
    /// No other placer moves threads meanwhile.
    _alone: Option<WholeHost>,
    /// The moves in force, and the CPUs that each of its threads had before.
    in_force: Option<(Receipt, BTreeMap<u32, CpuList>)>,
    /// The count of each pair at the last look.
    counts: HashMap<(u32, u32), u64>,
    looked: Instant,
    /// The CPU time of a look.
    look_time: Duration,
}

impl PlacingHost {
    /// Finds the targets, or starts the command among them, and begins to count.
    ///
    /// # Errors
    /// [`PlacingError`]: there is no such target, or the host lacks what this needs.
    pub fn begin(
        targets: &[Target],
        progress: Option<&ProgressSource>,
        moves: bool,
        to_stderr: bool,
    ) -> Result<Self, PlacingError> {
        let guard = Guard::new();
        let alone = moves.then(|| guard.lock_whole_host()).transpose()?;
        let mut graph = WakeGraph::open()?;
        let (mut child, mut cgroups) = (None, Vec::new());
        for target in targets {
            match target {
                Target::Process(pid) => follow(*pid, &graph)?,
                Target::Cgroup(path) => {
                    follow_cgroup(path, &graph).map_err(missing(target))?;
                    cgroups.push(path.clone());
                }
                Target::Command(words) => child = Some(start(words, to_stderr, &graph, target)?),
            }
        }
        let progress = progress.map(|it| Progress::open(it, &mut graph)).transpose()?;
        Ok(Self {
            graph,
            child,
            cgroups,
            threads: Threads::default(),
            progress,
            moves: Moves::new(guard),
            _alone: alone,
            in_force: None,
            counts: HashMap::new(),
            looked: Instant::now(),
            look_time: Duration::ZERO,
        })
    }

    /// Wake-ups by interrupts so far: they are not in the graph.
    pub fn from_interrupts(&self) -> u64 {
        self.graph.from_interrupts()
    }

    fn processes(&self) -> Vec<u32> {
        for path in &self.cgroups {
            // One that is gone has no processes.
            let _gone = follow_cgroup(path, &self.graph);
        }
        let mut processes = self.graph.processes();
        processes.sort_unstable();
        processes
    }

    fn look(&mut self) -> Activity {
        let before = thread_cpu_time().get();
        let processes = self.processes();
        let threads = self.threads.look(&processes);
        let contacts = self.contacts(&threads);
        self.adopt(&threads);
        let progress = self.progress.as_mut().and_then(|it| it.now(&self.graph));
        let now = Instant::now();
        let span = now - mem::replace(&mut self.looked, now);
        self.look_time = Duration::from_nanos(thread_cpu_time().get().saturating_sub(before));
        Activity {
            span_ns: span.as_nanos() as u64,
            threads,
            contacts,
            progress,
            ..Activity::default()
        }
    }

    /// The wake-ups since the last look.
    fn contacts(&mut self, threads: &[Active]) -> Vec<Contact> {
        let alive: HashSet<u32> = threads.iter().map(|it| it.tid).collect();
        let mut ended = HashSet::new();
        let mut contacts = Vec::new();
        for it in self.graph.wakes() {
            let pair = (it.waker, it.woken);
            ended.extend([it.waker, it.woken].into_iter().filter(|tid| !alive.contains(tid)));
            let before = self.counts.insert(pair, it.count).unwrap_or(0);
            // A pair that was forgotten meanwhile begins anew.
            let count = it.count.checked_sub(before).unwrap_or(it.count);
            if count > 0 {
                contacts.push(Contact { count, ..it });
            }
        }
        if !ended.is_empty() {
            self.graph.forget(&ended);
            self.counts.retain(|(a, b), _| !ended.contains(a) && !ended.contains(b));
        }
        contacts
    }

    /// Threads that placed ones have started have their CPUs, and will be put back with them.
    fn adopt(&mut self, threads: &[Active]) {
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

    /// The end of the targets, if they have ended.
    fn ended(&mut self, threads: &[Active]) -> io::Result<Option<Ended>> {
        if let Some(child) = &mut self.child {
            let status = child.try_wait()?;
            return Ok(status.map(|it| Ended { status: Some(exit_code(it)), cpu_ns: None }));
        }
        let there = self.cgroups.iter().any(|it| it.exists());
        Ok((threads.is_empty() && !there).then(Ended::default))
    }

    /// Passes a signal on to the command, and waits for its end; its exit code.
    pub fn end(&mut self, signal: Option<i32>) -> Option<i32> {
        let child = self.child.as_mut()?;
        if let Some(signal) = signal {
            // SAFETY: signals a child that has not been waited for, so that its number is its own.
            unsafe { libc::kill(child.id().cast_signed(), signal) };
        }
        let deadline = Instant::now() + Duration::from_secs(10);
        while Instant::now() < deadline {
            if let Some(status) = child.try_wait().ok()? {
                return Some(exit_code(status));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        None
    }

    /// Whether the command has ended.
    fn command_ended(&mut self) -> bool {
        self.child.as_mut().is_some_and(|it| matches!(it.try_wait(), Ok(Some(_))))
    }
}

impl Host for PlacingHost {
    fn observe(&mut self, window: Duration) -> Result<Observation, HostError> {
        // A look takes at most a 250th of one CPU, so that a fifth of half a percent is left for the decision and the log.
        let window = window.max(250 * self.look_time);
        let end = self.looked + window;
        while !interrupt::requested() && !self.command_ended() {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            std::thread::sleep(left.min(Duration::from_millis(50)));
        }
        let activity = self.look();
        let failed = |source| HostError::Observe { what: "waiting for the program", source };
        let ended = self.ended(&activity.threads).map_err(failed)?;
        Ok(Observation { absences: Vec::new(), activity: Some(activity), ended })
    }

    fn apply(&mut self, moves: &[Move]) -> Result<Receipt, HostError> {
        let receipt = self.moves.apply(moves)?;
        let homes = receipt.before.iter().map(|it| (it.tid, it.cpus.clone())).collect();
        self.in_force = Some((receipt.clone(), homes));
        Ok(receipt)
    }

    fn revert(&mut self, receipt: Receipt) -> Result<(), HostError> {
        let threads = self.threads.look(&self.processes());
        self.adopt(&threads);
        if self.in_force.as_ref().is_some_and(|(it, _)| it.number == receipt.number) {
            self.in_force = None;
        }
        self.moves.revert(&receipt)
    }
}

fn missing(target: &Target) -> impl Fn(io::Error) -> PlacingError + '_ {
    |source| PlacingError::NoTarget { what: target.to_string(), source }
}

/// Follows a process and its descendants.
fn follow(pid: u32, graph: &WakeGraph) -> Result<(), PlacingError> {
    let what = format!("process {pid}");
    let no_target = |source| PlacingError::NoTarget { what: what.clone(), source };
    let status = fs::read_to_string(format!("/proc/{pid}/status")).map_err(|_| {
        let text = "there is no such process: `pgrep NAME` finds numbers";
        no_target(io::Error::new(io::ErrorKind::NotFound, text))
    })?;
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|it| it.split_whitespace().next()).map(str::to_owned)
    };
    if field("Tgid:").is_some_and(|it| it != pid.to_string()) {
        let text = "it is a thread of another process: name that one (Tgid in /proc/PID/status)";
        return Err(no_target(io::Error::new(io::ErrorKind::NotFound, text)));
    }
    // A thread of the kernel has no memory of its own.
    if field("VmSize:").is_none() && field("State:").is_some_and(|it| it != "Z") {
        return Err(PlacingError::Kernel { pid });
    }
    if field("State:").is_some_and(|it| it == "Z") {
        let text = "it has ended, and waits for its parent";
        return Err(no_target(io::Error::new(io::ErrorKind::NotFound, text)));
    }
    follow_tree(pid, graph).map_err(no_target)
}

fn follow_tree(pid: u32, graph: &WakeGraph) -> io::Result<()> {
    graph.follow(pid)?;
    let Ok(entries) = fs::read_dir(format!("/proc/{pid}/task")) else { return Ok(()) };
    for entry in entries.flatten() {
        let text = fs::read_to_string(entry.path().join("children")).unwrap_or_default();
        for child in text.split_whitespace().filter_map(|it| it.parse().ok()) {
            follow_tree(child, graph)?;
        }
    }
    Ok(())
}

fn follow_cgroup(path: &std::path::Path, graph: &WakeGraph) -> io::Result<()> {
    members(path)?.into_iter().try_for_each(|pid| graph.follow(pid))
}

/// Starts the command so that it is followed from its first instruction on.
fn start(
    words: &[Argument],
    to_stderr: bool,
    graph: &WakeGraph,
    target: &Target,
) -> Result<Child, PlacingError> {
    let no_words = || missing(target)(io::Error::from_raw_os_error(libc::ENOENT));
    let mut command = command_of(words, to_stderr).ok_or_else(no_words)?;
    let own = std::process::id();
    let failed = |source| PlacingError::Failed { what: "following a process", source };
    graph.follow(own).map_err(failed)?;
    let child = command.spawn();
    graph.leave(own);
    child.map_err(missing(target))
}
