// SPDX-License-Identifier: MIT OR Apache-2.0
//! Follows the threads of a trace: the CPU of each running thread, and for each other thread the time and the reason of
//! its departure.

use std::collections::{BTreeMap, BTreeSet};

use crate::kinds::program::trace_line::{TraceEvent, TraceLine, TracedThread};
use crate::kinds::{Absence, ObservedThread, ProgramRecord};
use crate::units::Cpu;

/// The departure of a thread from its CPU.
#[derive(Debug, Clone)]
struct Departure {
    ns: u64,
    cpu: Cpu,
    preempted: bool,
    ran_ns: u64,
    cpu_ns: u64,
    by: Option<(u32, String)>,
}

/// The state of a followed thread.
#[derive(Debug, Clone, Default)]
struct FollowedThread {
    counts: ObservedThread,
    /// The CPU that the thread has, and the time at which it got the CPU.
    running: Option<(Cpu, u64)>,
    departure: Option<Departure>,
    woken_ns: Option<u64>,
    cpu_ns: u64,
    waited_ns: u64,
}

/// All followed threads of a trace.
#[derive(Debug, Default)]
pub(super) struct FollowedThreads {
    /// The process whose threads are followed, or `None` for all processes.
    pid: Option<u32>,
    /// The threads that belong to the process because its threads started them, although no line states the process.
    started: BTreeSet<u32>,
    threads: BTreeMap<u32, FollowedThread>,
    /// The CPUs for which the trace has a line.
    known: BTreeSet<Cpu>,
    /// The thread that most recently got each CPU, followed or not, with the time.
    on: BTreeMap<Cpu, (u32, u64)>,
    /// The number of departures that the trace lacks: a line shows that another thread had the CPU.
    pub(super) unseen_leaves: u64,
    /// The time for which followed threads had each CPU, in nanoseconds.
    pub(super) ran: BTreeMap<Cpu, u64>,
    /// The absences that have ended so far.
    pub(super) records: Vec<ProgramRecord>,
}

impl FollowedThreads {
    pub(super) fn new(pid: Option<u32>) -> Self {
        Self { pid, ..Self::default() }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.threads.is_empty()
    }

    pub(super) fn take(&mut self, line: &TraceLine) {
        if let (Some(pid), Some(of)) = (self.pid, line.pid)
            && pid == of
        {
            self.started.insert(line.current.tid);
        }
        self.contradicts(line);
        let is_first = self.known.insert(line.cpu);
        if let Some(thread) = self.followed(&line.current) {
            thread.counts.pid = line.pid.unwrap_or(thread.counts.pid);
            if is_first && thread.departure.is_none() {
                // Whatever began earlier is not part of the trace.
                thread.running = Some((line.cpu, line.ns));
            }
        }
        match &line.event {
            TraceEvent::Switch { prev, preempted, next } => {
                self.leaves(prev, *preempted, next, (line.cpu, line.ns));
                self.comes(next, (line.cpu, line.ns));
            }
            TraceEvent::Wake(thread) => {
                if let Some(thread) = self.followed(thread)
                    && thread.running.is_none()
                {
                    thread.woken_ns.get_or_insert(line.ns);
                }
            }
            TraceEvent::Migrate(thread) => {
                if let Some(thread) = self.followed(thread) {
                    thread.counts.migrations += 1;
                }
            }
            TraceEvent::Fork { parent, child } => {
                if self.pid.is_some() && self.is_followed(parent.tid) {
                    self.started.insert(child.tid);
                }
            }
            TraceEvent::Other(_) => {}
        }
    }

    /// Ends the CPU time of a thread that left without a line, because the line shows another thread on its CPU. The
    /// time of the departure is unknown, so the thread's time on this CPU is not counted.
    fn contradicts(&mut self, line: &TraceLine) {
        let now = match &line.event {
            TraceEvent::Switch { prev, .. } => prev.tid,
            _ => line.current.tid,
        };
        let Some(&(before, _)) = self.on.get(&line.cpu).filter(|(tid, _)| *tid != now) else {
            return;
        };
        self.on.insert(line.cpu, (now, line.ns));
        let of_cpu = |it: &&mut FollowedThread| it.running.is_some_and(|(cpu, _)| cpu == line.cpu);
        if let Some(thread) = self.threads.get_mut(&before).filter(of_cpu) {
            thread.running = None;
        }
        self.unseen_leaves += u64::from(before != 0);
        if let Some(thread) = self.followed(&TracedThread { tid: now, name: "<...>".to_owned() })
            && thread.departure.is_none()
        {
            thread.running = Some((line.cpu, line.ns));
        }
    }

    /// Returns whether the thread is followed; thread 0 is an idle CPU and never followed.
    fn is_followed(&self, tid: u32) -> bool {
        let of_process = |pid| tid == pid || self.started.contains(&tid);
        tid != 0 && self.pid.is_none_or(of_process)
    }

    fn followed(&mut self, thread: &TracedThread) -> Option<&mut FollowedThread> {
        if !self.is_followed(thread.tid) {
            return None;
        }
        let followed = self.threads.entry(thread.tid).or_default();
        let counts = &mut followed.counts;
        counts.tid = thread.tid;
        if counts.pid == 0 {
            counts.pid = thread.tid;
        }
        // ftrace writes this name where it knows none.
        if thread.name != "<...>" || counts.name.is_empty() {
            counts.name.clone_from(&thread.name);
        }
        Some(followed)
    }

    fn leaves(
        &mut self,
        thread: &TracedThread,
        preempted: bool,
        next: &TracedThread,
        (cpu, ns): (Cpu, u64),
    ) {
        let came = self.on.get(&cpu).copied().filter(|(tid, _)| *tid == thread.tid);
        let Some(it) = self.followed(thread) else { return };
        if it.running.is_none() && it.departure.is_none() {
            // It was not known as one of the process when it came.
            it.running = came.map(|(_, since)| (cpu, since));
        }
        let unseen = it.departure.take().filter(|_| it.running.is_none());
        let ran_ns = it.running.take().map_or(0, |(_, since)| ns - since);
        it.cpu_ns += ran_ns;
        it.woken_ns = None;
        let counts = &mut it.counts;
        *(if preempted { &mut counts.preemptions } else { &mut counts.voluntary }) += 1;
        counts.unseen += u64::from(unseen.is_some());
        let by = (preempted && next.tid != 0).then(|| (next.tid, next.name.clone()));
        it.departure = Some(Departure { ns, cpu, preempted, ran_ns, cpu_ns: it.cpu_ns, by });
        if let Some(departure) = unseen {
            self.ended(thread.tid, departure, (cpu, ns), false);
        }
        *self.ran.entry(cpu).or_default() += ran_ns;
    }

    fn comes(&mut self, thread: &TracedThread, (cpu, ns): (Cpu, u64)) {
        self.on.insert(cpu, (thread.tid, ns));
        let Some(it) = self.followed(thread) else { return };
        it.running = Some((cpu, ns));
        let (departure, woken_ns) = (it.departure.take(), it.woken_ns.take());
        let is_preempted = departure.as_ref().filter(|it| it.preempted).map(|it| it.ns);
        it.waited_ns += is_preempted.or(woken_ns).map_or(0, |since| ns - since);
        if let Some(departure) = departure {
            self.ended(thread.tid, departure, (cpu, ns), true);
        }
    }

    /// Counts an absence, and records it if the thread was preempted or changed its CPU.
    fn ended(&mut self, tid: u32, departure: Departure, (cpu, ns): (Cpu, u64), seen: bool) {
        let Some(it) = self.threads.get_mut(&tid) else { return };
        let is_moved = departure.cpu != cpu;
        it.counts.cpu_changes += u64::from(is_moved);
        if departure.preempted {
            it.counts.preempted_ns += ns - departure.ns;
        }
        if departure.preempted || is_moved {
            self.records.push(ProgramRecord::Absence(Absence {
                tid,
                out_ns: departure.ns,
                in_ns: ns,
                seen,
                from: departure.cpu,
                to: cpu,
                preempted: departure.preempted,
                pinned: false,
                ran_ns: departure.ran_ns,
                cpu_ns: Some(departure.cpu_ns),
                by: departure.by,
            }));
        }
    }

    /// Returns the threads at the end of the trace.
    pub(super) fn end(
        &mut self,
        ns: u64,
        has_wakes: bool,
        has_migrations: bool,
    ) -> Vec<ObservedThread> {
        let ran = &mut self.ran;
        let ended = |mut it: FollowedThread| {
            if let Some((cpu, since)) = it.running {
                it.cpu_ns += ns - since;
                *ran.entry(cpu).or_default() += ns - since;
            } else {
                // A wait that has not ended counts up to the end of the trace.
                let preempted = it.departure.as_ref().filter(|it| it.preempted).map(|it| it.ns);
                it.counts.preempted_ns += preempted.map_or(0, |since| ns - since);
                it.waited_ns += preempted.or(it.woken_ns).map_or(0, |since| ns - since);
            }
            let migrations =
                if has_migrations { it.counts.migrations } else { it.counts.cpu_changes };
            ObservedThread {
                migrations,
                cpu_ns: Some(it.cpu_ns),
                waited_ns: has_wakes.then_some(it.waited_ns),
                ..it.counts
            }
        };
        std::mem::take(&mut self.threads).into_values().map(ended).collect()
    }
}
