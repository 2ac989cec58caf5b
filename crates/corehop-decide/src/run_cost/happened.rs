// SPDX-License-Identifier: MIT OR Apache-2.0
//! Groups of absences with their cost. A cache refill happens within the thread's CPU time until its next absence, so
//! no thread pays more than its CPU time.

use std::collections::{BTreeMap, HashMap};

use super::CostBounds;
use corehop_plan::samples::{AbsenceCount, AbsenceKind, ObservedThread, Recording, Rooms};
use corehop_plan::workload::Event;

/// A group of a thread's absences, or of its brief preemptions, with their class. If costs are requested, the group
/// has its total cost or the reason why the cost is not known.
#[derive(Debug, Clone)]
pub(super) struct Happened {
    pub(super) thread: ThreadKey,
    pub(super) event: Event,
    pub(super) octave: u32,
    pub(super) shortest_ns: u64,
    pub(super) longest_ns: u64,
    pub(super) times: u64,
    pub(super) preempted: u64,
    pub(super) pinned: u64,
    /// Whether the group consists of brief preemptions, of which only the mean length is known.
    pub(super) brief: bool,
    /// The CPU time after each absence until the next, if known.
    pub(super) rooms: Rooms,
    pub(super) cost: Option<Result<CostBounds, String>>,
}

/// The run number, if known, and the thread ID.
pub(super) type ThreadKey = (Option<u64>, u32);

impl Happened {
    /// The total cost of the group at this cost per absence; each absence costs at most the CPU time until the next
    /// absence.
    pub(super) fn all_at(&self, each: CostBounds) -> CostBounds {
        let others = self.times.saturating_sub(self.rooms.times());
        let least = |us: f64| (self.rooms.least_ns(us * 1e3) / 1e3) + others as f64 * us;
        let most = |us: f64| (self.rooms.most_ns(us * 1e3) / 1e3) + others as f64 * us;
        let all_have_room = (others == 0).then(|| self.rooms.sum_ns() / 1e3);
        CostBounds {
            // As if the CPU times of a power of two were equal.
            us: each.us.map(most),
            low_us: least(each.low_us),
            high_us: each.high_us.map(most).or(all_have_room),
        }
        .in_order()
    }

    /// The middle of the length range, in nanoseconds.
    pub(super) fn middle_ns(&self) -> f64 {
        f64::midpoint(self.shortest_ns as f64, self.longest_ns as f64)
    }
}

/// The events of one run or of all runs, with the rows of their threads.
pub(super) fn events<'a>(
    recording: &Recording,
    absences: impl Iterator<Item = (&'a AbsenceKind, &'a AbsenceCount)>,
    (run, threads): (Option<u64>, &[ObservedThread]),
) -> Vec<Happened> {
    let mut last = last_rooms(recording);
    let absence = |(kind, it): (&AbsenceKind, &AbsenceCount)| {
        let mut rooms = it.rooms.clone();
        last.remove(kind).into_iter().flatten().for_each(|ns| rooms.take(ns, true));
        Happened {
            thread: (kind.run, kind.tid),
            event: kind.event,
            octave: kind.octave,
            shortest_ns: it.shortest_ns,
            longest_ns: it.longest_ns,
            times: it.times,
            preempted: it.preempted,
            pinned: it.pinned,
            brief: false,
            rooms,
            cost: None,
        }
    };
    let mut all: Vec<Happened> = absences.map(absence).collect();
    all.extend(threads.iter().filter_map(|it| brief(run, it)));
    all
}

/// The brief preemptions of a thread, with their mean length.
fn brief(run: Option<u64>, it: &ObservedThread) -> Option<Happened> {
    let times = it.brief.filter(|&brief| brief > 0)?;
    let mean_ns = it.brief_ns.unwrap_or(0) / times;
    Some(Happened {
        thread: (run, it.tid),
        event: Event::Preemption,
        octave: mean_ns.max(1).ilog2(),
        shortest_ns: mean_ns,
        longest_ns: mean_ns,
        times,
        preempted: times,
        pinned: 0,
        brief: true,
        rooms: Rooms::default(),
        cost: None,
    })
}

/// The CPU time that each thread had after its last absence, by the kind of that absence.
fn last_rooms(recording: &Recording) -> BTreeMap<AbsenceKind, Vec<u64>> {
    let all_ns = ThreadCpuTimes::of(recording);
    let mut rooms: BTreeMap<AbsenceKind, Vec<u64>> = BTreeMap::new();
    for it in recording.absences.last() {
        let all_ns = all_ns.of_thread((it.kind.run, it.kind.tid));
        let room = all_ns.zip(it.cpu_ns).and_then(|(all, until)| all.checked_sub(until));
        rooms.entry(it.kind).or_default().extend(room);
    }
    rooms
}

/// The CPU times of the threads of a recording, if known.
pub(super) struct ThreadCpuTimes(HashMap<ThreadKey, u64>);

impl ThreadCpuTimes {
    pub(super) fn of(recording: &Recording) -> Self {
        let mut all = HashMap::new();
        let mut take = |run: Option<u64>, threads: &[ObservedThread]| {
            all.extend(threads.iter().filter_map(|it| Some(((run, it.tid), it.cpu_ns?))));
        };
        for &(run, _) in &recording.first_threads {
            take(Some(run), recording.threads_of(run));
        }
        if recording.first_threads.is_empty() {
            take(None, &recording.threads);
        }
        Self(all)
    }

    fn of_thread(&self, (run, tid): ThreadKey) -> Option<u64> {
        self.0.get(&(run, tid)).or_else(|| self.0.get(&(None, tid))).copied()
    }

    /// Limits a thread's cost to the thread's CPU time.
    pub(super) fn within(&self, thread: ThreadKey, cost: CostBounds) -> CostBounds {
        let Some(ns) = self.of_thread(thread) else { return cost };
        let most_us = ns as f64 / 1e3;
        CostBounds { high_us: Some(cost.most_us().min(most_us)), ..cost }.in_order()
    }
}

/// The sum of the known costs of events, with each thread's cost limited to its CPU time. If some absences have an
/// unknown cost, the sum has no upper bound; `None` if all costs are unknown.
pub(super) fn sum<'a>(
    priced: impl Iterator<Item = &'a Happened>,
    times: &ThreadCpuTimes,
) -> Option<CostBounds> {
    let mut by_thread: BTreeMap<ThreadKey, CostBounds> = BTreeMap::new();
    let (mut known, mut unknown) = (0, 0);
    for it in priced {
        match &it.cost {
            Some(Ok(cost)) => {
                by_thread.entry(it.thread).or_insert(CostBounds::NOTHING).add(*cost);
                known += 1;
            }
            Some(Err(_)) | None => unknown += 1,
        }
    }
    let mut total = CostBounds::NOTHING;
    for (thread, cost) in by_thread {
        total.add(times.within(thread, cost));
    }
    let total = total.of_all(unknown == 0);
    (known > 0 || unknown == 0).then_some(total)
}
