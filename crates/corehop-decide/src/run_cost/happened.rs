// SPDX-License-Identifier: MIT OR Apache-2.0
//! Absences that count together, and their cost: a refill of a cache happens within the CPU time that the thread has
//! until its next absence, so that no thread pays more than its CPU time.

use std::collections::{BTreeMap, HashMap};

use super::CostBounds;
use corehop_plan::samples::{AbsenceCount, AbsenceKind, ObservedThread, Recording, Rooms};
use corehop_plan::workload::Event;

/// Absences of a thread that count together, or its brief ones, their class, and the cost of all of them or why that is
/// not known, where costs were asked for.
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
    /// Whether these are brief preemptions, of which the mean length is known.
    pub(super) brief: bool,
    /// The CPU time after them until the next absence, where that is known.
    pub(super) rooms: Rooms,
    pub(super) cost: Option<Result<CostBounds, String>>,
}

/// A thread by the run that it belongs to, where that is known, and its number.
pub(super) type ThreadKey = (Option<u64>, u32);

impl Happened {
    /// The cost of all of them at this price each: none is higher than the CPU time until the next absence.
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

    /// The middle of their lengths, in nanoseconds.
    pub(super) fn middle_ns(&self) -> f64 {
        f64::midpoint(self.shortest_ns as f64, self.longest_ns as f64)
    }
}

/// The events of a run, or of all, with the rows of their threads.
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

/// The CPU time that threads had after their last absence, by what that counts with.
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

/// The CPU times of the threads of a recording, where they are known.
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

    /// A cost that a thread paid: within its CPU time.
    pub(super) fn within(&self, thread: ThreadKey, cost: CostBounds) -> CostBounds {
        let Some(ns) = self.of_thread(thread) else { return cost };
        let most_us = ns as f64 / 1e3;
        CostBounds { high_us: Some(cost.most_us().min(most_us)), ..cost }.in_order()
    }
}

/// The sum of the known costs of events, each thread's within its CPU time. Those of absences with an unknown cost have no
/// upper bound; None if all are unknown.
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
