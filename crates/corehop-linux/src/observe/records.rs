// SPDX-License-Identifier: MIT OR Apache-2.0
//! Follows a program's threads by records of their context switches, if BPF is not available.
//!
//! Each CPU has a ring for the records of all threads on it, so the records of one thread are in several rings. The
//! records are sorted by time before they are evaluated.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::io;
use std::os::fd::OwnedFd;

use corehop_plan::samples::{Absence, ObservedThread};
use corehop_plan::units::{Cpu, CpuList};

use super::account::times;
use crate::bpf::control::ThreadTimes;
use crate::switches::{SwitchLogRecord, SwitchRing, ThreadSwitch};
use corehop_system::clock::monotonic_ns;
use corehop_system::proc::{self, ProcEntry};
use corehop_system::thread::current_tid;

/// The number of pages per ring: 256 KiB have room for 6,500 records per CPU, which suffice between two reads.
const PAGES: usize = 64;
/// The age in ns from which records are complete in all rings.
const SETTLED_NS: u64 = 1_000_000;

/// The rings, and the state derived from their records.
#[derive(Debug)]
pub(super) struct SwitchRecords {
    cpus: CpuList,
    rings: Vec<SwitchRing>,
    /// The events of threads other than the first.
    events: Vec<OwnedFd>,
    /// The threads that are followed individually, with their times at the start.
    watched: HashMap<u32, ThreadTimes>,
    history: History,
}

impl SwitchRecords {
    /// Opens the records, if the kernel allows the caller to record itself.
    ///
    /// # Errors
    /// Fails with the kernel's error if the caller may not record itself.
    pub(super) fn new() -> io::Result<Self> {
        let _possible = SwitchRing::of_this_thread(1)?;
        let online = proc::text("/sys/devices/system/cpu/online")?;
        let cpus = online.parse().map_err(io::Error::other)?;
        let (rings, events, watched) = (Vec::new(), Vec::new(), HashMap::new());
        Ok(Self { cpus, rings, events, watched, history: History::default() })
    }

    /// Follows the threads and processes that the calling thread starts from now on.
    pub(super) fn follow_own_children(&mut self) -> io::Result<()> {
        self.history.ignored.insert(current_tid());
        self.follow(0)
    }

    /// Follows thread `tid` of process `pid`, and the threads that it starts.
    pub(super) fn watch(&mut self, tid: u32, pid: u32) -> io::Result<()> {
        self.follow(tid).map_err(|error| {
            let remedy = match error.raw_os_error() {
                Some(libc::ESRCH) => return io::Error::from(io::ErrorKind::NotFound),
                Some(libc::EMFILE) => {
                    "each thread of the program takes a descriptor for each CPU: raise `ulimit -n`"
                }
                _ => "the thread may belong to another user: run as root",
            };
            io::Error::new(
                error.kind(),
                format!("thread {tid}: perf_event_open(2): {error}; {remedy}"),
            )
        })?;
        self.watched.insert(tid, times(pid, tid).unwrap_or_default());
        let name = ProcEntry::thread(pid, tid).name();
        self.history.notice(tid, pid);
        self.history.names.insert(tid, name.unwrap_or_default());
        Ok(())
    }

    fn follow(&mut self, tid: u32) -> io::Result<()> {
        if self.rings.is_empty() {
            let ring = |cpu| SwitchRing::following(tid, cpu, PAGES);
            self.rings = self.cpus.iter().map(ring).collect::<io::Result<_>>()?;
            return Ok(());
        }
        for (ring, cpu) in self.rings.iter().zip(self.cpus.iter()) {
            self.events.push(ring.also_following(tid, cpu)?);
        }
        Ok(())
    }

    /// Whether the thread is followed individually, and not only because a followed thread started it.
    pub(super) fn watches(&self, tid: u32) -> bool {
        self.watched.contains_key(&tid) || self.history.threads.contains_key(&tid)
    }

    /// Passes on the absences since the last call; with `all`, also the absences that are not yet sorted.
    pub(super) fn absences(&mut self, all: bool, take: impl FnMut(Absence)) {
        let settled = if all { u64::MAX } else { monotonic_ns().saturating_sub(SETTLED_NS) };
        for ring in &mut self.rings {
            ring.drain(|record| self.history.note(record));
        }
        self.history.tell(settled, take);
    }

    /// The threads so far, in the order in which they were noticed. The kernel keeps no accounting of threads that
    /// have ended.
    pub(super) fn threads(&self) -> Vec<ObservedThread> {
        let mut all = self.history.observed();
        for thread in &mut all {
            let first = self.watched.get(&thread.tid).copied().unwrap_or_default();
            let now = times(thread.pid, thread.tid);
            thread.cpu_ns = now.map(|now| now.cpu_ns.saturating_sub(first.cpu_ns));
            thread.waited_ns = now.map(|now| now.waited_ns.saturating_sub(first.waited_ns));
        }
        all
    }

    pub(super) const fn lost(&self) -> u64 {
        self.history.lost
    }

    /// Returns, by CPU, how long threads of the program ran on the CPU.
    pub(super) fn ran(&self) -> Vec<(Cpu, u64)> {
        self.history.ran.iter().map(|(&cpu, &ns)| (Cpu(cpu), ns)).collect()
    }
}

/// The state derived from the records so far.
#[derive(Debug, Default)]
struct History {
    /// Records that are not evaluated yet because earlier records may still arrive, each with its time.
    pending: Vec<(u64, SwitchLogRecord)>,
    threads: HashMap<u32, AbsenceTracker>,
    order: Vec<u32>,
    names: HashMap<u32, String>,
    /// Threads that do not belong to the program.
    ignored: HashSet<u32>,
    /// The time for which the threads ran on each CPU, in nanoseconds.
    ran: BTreeMap<u32, u64>,
    lost: u64,
}

#[derive(Debug, Default)]
struct AbsenceTracker {
    counts: ObservedThread,
    left: Option<ThreadSwitch>,
    back_ns: Option<u64>,
    /// The thread's CPU time up to its last departure.
    cpu_ns: u64,
}

impl History {
    fn note(&mut self, record: SwitchLogRecord) {
        match (record.ns(), &record) {
            (Some(ns), _) => self.pending.push((ns, record)),
            (None, SwitchLogRecord::Lost(more)) => self.lost += more,
            (None, _) => {}
        }
    }

    fn notice(&mut self, tid: u32, pid: u32) -> &mut AbsenceTracker {
        let order = &mut self.order;
        self.threads.entry(tid).or_insert_with(|| {
            order.push(tid);
            let counts = ObservedThread { tid, pid, ..ObservedThread::default() };
            AbsenceTracker { counts, ..AbsenceTracker::default() }
        })
    }

    /// Evaluates the records before `settled_ns`, in order.
    fn tell(&mut self, settled_ns: u64, mut take: impl FnMut(Absence)) {
        self.pending.sort_by_key(|(ns, _)| *ns);
        let end = self.pending.partition_point(|(ns, _)| *ns < settled_ns);
        let settled: Vec<_> = self.pending.drain(..end).collect();
        for (_, record) in settled {
            match record {
                SwitchLogRecord::Switch(switch) if !self.ignored.contains(&switch.tid) => {
                    let ran_ns = self.notice(switch.tid, switch.pid).ran_until(&switch);
                    *self.ran.entry(switch.cpu).or_default() += ran_ns;
                    self.notice(switch.tid, switch.pid).switch(switch).map(&mut take);
                }
                SwitchLogRecord::Name(_, tid, name) => {
                    self.names.insert(tid, name);
                }
                SwitchLogRecord::Started(_, by, tid) => {
                    let name = self.names.get(&by).cloned().unwrap_or_default();
                    self.names.insert(tid, name);
                }
                SwitchLogRecord::Switch(_) | SwitchLogRecord::Lost(_) => {}
            }
        }
    }

    fn observed(&self) -> Vec<ObservedThread> {
        let all = self.order.iter().filter_map(|tid| self.threads.get(tid));
        let name = |tid| self.names.get(&tid).cloned().unwrap_or_default();
        all.map(|it| ObservedThread { name: name(it.counts.tid), ..it.counts.clone() }).collect()
    }
}

impl AbsenceTracker {
    /// The time that the thread had the CPU that it leaves with this switch; 0 if unknown.
    fn ran_until(&mut self, switch: &ThreadSwitch) -> u64 {
        let back_ns = self.back_ns.filter(|_| switch.out && self.left.is_none());
        let ran_ns = back_ns.map_or(0, |back_ns| switch.ns.saturating_sub(back_ns));
        self.cpu_ns += ran_ns;
        ran_ns
    }

    /// The absence that ends with this switch, if it was a preemption or a migration.
    fn switch(&mut self, switch: ThreadSwitch) -> Option<Absence> {
        if switch.out {
            let kind = if switch.preempted {
                &mut self.counts.preemptions
            } else {
                &mut self.counts.voluntary
            };
            *kind += 1;
            // It left twice: that it came back in between was lost.
            self.counts.unseen += u64::from(self.left.is_some());
            self.left = Some(switch);
            return None;
        }
        let ran_since = self.back_ns.replace(switch.ns);
        let left = self.left.take()?;
        let moved = left.cpu != switch.cpu;
        self.counts.cpu_changes += u64::from(moved);
        self.counts.migrations += u64::from(moved);
        if left.preempted {
            self.counts.preempted_ns += switch.ns.saturating_sub(left.ns);
        }
        (left.preempted || moved).then(|| Absence {
            tid: switch.tid,
            out_ns: left.ns,
            in_ns: switch.ns,
            seen: true,
            from: Cpu(left.cpu),
            to: Cpu(switch.cpu),
            preempted: left.preempted,
            pinned: false,
            ran_ns: ran_since.map_or(0, |since| left.ns.saturating_sub(since)),
            cpu_ns: Some(self.cpu_ns),
            by: None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn out(ns: u64, cpu: u32, preempted: bool) -> ThreadSwitch {
        ThreadSwitch { pid: 5, tid: 7, out: true, preempted, ns, cpu }
    }

    fn back(ns: u64, cpu: u32) -> ThreadSwitch {
        ThreadSwitch { out: false, preempted: false, ..out(ns, cpu, false) }
    }

    fn told(switches: &[ThreadSwitch], settled_ns: u64) -> (Vec<Absence>, History) {
        let (mut history, mut absences) = (History::default(), Vec::new());
        for &switch in switches {
            history.note(SwitchLogRecord::Switch(switch));
        }
        history.tell(settled_ns, |absence| absences.push(absence));
        (absences, history)
    }

    #[test]
    fn a_preemption_and_a_migration_are_told() {
        let (absences, history) = told(
            &[back(10, 0), out(30, 0, true), back(50, 0), out(60, 0, false), back(90, 1)],
            u64::MAX,
        );
        let of = |it: &Absence| (it.out_ns, it.length_ns(), it.preempted, it.ran_ns, it.to.0);
        assert_eq!(
            absences.iter().map(of).collect::<Vec<_>>(),
            [(30, 20, true, 20, 0), (60, 30, false, 10, 1)]
        );
        assert!(absences.iter().all(|it| it.seen && it.by.is_none() && it.from.0 == 0));
        let counts = &history.observed()[0];
        assert_eq!((counts.preemptions, counts.voluntary, counts.preempted_ns), (1, 1, 20));
        assert_eq!((counts.cpu_changes, counts.migrations, counts.unseen), (1, 1, 0));
    }

    #[test]
    fn a_sleep_that_ends_where_it_began_is_counted_and_not_told() {
        let (absences, history) = told(&[out(10, 1, false), back(20, 1)], 99);
        let counts = &history.observed()[0];
        assert!(absences.is_empty());
        assert_eq!((counts.tid, counts.pid, counts.voluntary, counts.preemptions), (7, 5, 1, 0));
    }

    #[test]
    fn records_of_two_rings_are_told_by_their_times_and_the_latest_wait() {
        // The ring of CPU 1 is read first, though the thread left CPU 0 before.
        let switches = [back(50, 1), out(70, 1, true), back(10, 0), out(30, 0, true)];
        let (absences, mut history) = told(&switches, 60);
        assert_eq!(absences.len(), 1);
        assert_eq!((absences[0].from, absences[0].to, absences[0].ran_ns), (Cpu(0), Cpu(1), 20));
        history.note(SwitchLogRecord::Switch(back(65, 0)));
        assert_eq!(history.pending.len(), 2);
    }

    #[test]
    fn a_return_that_was_lost_is_counted_and_makes_no_absence() {
        let (absences, history) = told(&[out(10, 0, true), out(50, 1, true), back(60, 1)], 99);
        assert_eq!((absences.len(), absences[0].out_ns), (1, 50));
        assert_eq!(history.observed()[0].unseen, 1);
    }

    #[test]
    fn a_thread_has_its_parents_name_until_it_has_its_own_in_whatever_order_these_are_read() {
        let mut history = History::default();
        let name = |ns, tid, name: &str| SwitchLogRecord::Name(ns, tid, name.to_owned());
        // It becomes `taskset`, and then `sh`, whose record lies in the ring that is read first.
        history.note(name(30, 1, "sh"));
        history.note(name(40, 3, "xz"));
        history.note(name(20, 1, "taskset"));
        history.note(SwitchLogRecord::Started(31, 1, 2));
        history.note(SwitchLogRecord::Started(32, 1, 3));
        history.tell(99, |absence| panic!("{absence:?}"));
        let name = |tid| history.names[&tid].as_str();
        assert_eq!([name(1), name(2), name(3)], ["sh", "sh", "xz"]);
    }

    #[test]
    fn what_is_not_the_programs_is_left_out_and_what_is_lost_is_counted() {
        let mut history = History::default();
        history.ignored.insert(9);
        history.note(SwitchLogRecord::Switch(ThreadSwitch { tid: 9, ..out(1, 0, true) }));
        history.note(SwitchLogRecord::Lost(4));
        history.tell(99, |absence| panic!("{absence:?}"));
        assert!(history.lost == 4 && history.observed().is_empty());
    }
}
