// SPDX-License-Identifier: MIT OR Apache-2.0
//! Counts the absences of a recording while they stream in; the size of the counts does not grow with the number of
//! absences.
//!
//! An hour of a busy program has millions of absences. corehop keeps a count for each thread, class and octave of
//! lengths, with the CPU time after these absences by octave. The counts also keep at most [`Lengths::MOST`] different
//! lengths of each class, the [`Absences::LONGEST`] longest absences, and at most [`Absences::MOST_NAMES`] names of
//! preempting threads. All counts together need less than 16 MB, plus some 100 bytes for each class and octave of a
//! thread.

use std::collections::{BTreeMap, HashMap};

use crate::kinds::{Absence, Rooms};
use crate::workload::Event;

/// The common properties of absences that are counted together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct AbsenceKind {
    /// The run of the program; None in files that do not number runs.
    pub run: Option<u64>,
    /// The id of the thread that was absent.
    pub tid: u32,
    /// The event with which the thread resumed: a preemption, or a class of migration.
    pub event: Event,
    /// The exponent of the largest power of two that is at most the absence's length in nanoseconds.
    pub octave: u32,
}

/// The count of absences that have one [`AbsenceKind`].
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AbsenceCount {
    /// The number of absences of this kind.
    pub times: u64,
    /// The number of absences of this kind that began with a preemption.
    pub preempted: u64,
    /// The number of absences of this kind that are moves required by the thread's affinity.
    pub pinned: u64,
    /// The sum of the lengths of the absences of this kind, in nanoseconds.
    pub sum_ns: u64,
    /// The length of the shortest absence of this kind, in nanoseconds.
    pub shortest_ns: u64,
    /// The length of the longest absence of this kind, in nanoseconds.
    pub longest_ns: u64,
    /// The CPU time that the thread had from each absence to its next absence, if known; the last absence has no next
    /// absence.
    pub rooms: Rooms,
}

/// The most recent absence of a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LastAbsence {
    /// The kind with which the absence is counted.
    pub kind: AbsenceKind,
    /// The CPU time of the thread up to the absence, in nanoseconds, if known.
    pub cpu_ns: Option<u64>,
    in_ns: u64,
}

impl LastAbsence {
    /// Returns the CPU time from this absence to the next, with true; if the CPU time is unknown, the elapsed time as
    /// an upper bound, with false. Returns `None` if neither the CPU time nor an upper bound of the CPU time is known.
    fn until(&self, next: &Absence) -> Option<(u64, bool)> {
        let cpu_ns = next.cpu_ns.zip(self.cpu_ns).and_then(|(end, begin)| end.checked_sub(begin));
        let time = || Some((next.out_ns.checked_sub(self.in_ns)?, false));
        cpu_ns.map(|ns| (ns, true)).or_else(time)
    }
}

/// The counted absences of a recording.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Absences {
    counts: BTreeMap<AbsenceKind, AbsenceCount>,
    lengths: BTreeMap<Event, Lengths>,
    /// The longest absences, by length and position.
    longest: BTreeMap<(u64, std::cmp::Reverse<u64>), Absence>,
    by: HashMap<String, u64>,
    other_names: u64,
    times: u64,
    last_run: Option<u64>,
    /// The most recent absence of each thread, by run and thread.
    last: BTreeMap<(Option<u64>, u32), LastAbsence>,
}

impl Absences {
    /// The number of absences that corehop keeps individually: the longest.
    pub const LONGEST: usize = 4_000;
    /// The largest number of different names of preempting threads that corehop keeps.
    pub const MOST_NAMES: usize = 16_384;

    /// Counts an absence of the run `run` in the class of `event`.
    pub fn take(&mut self, run: Option<u64>, event: Event, absence: &Absence) {
        let length_ns = absence.length_ns();
        let octave = length_ns.max(1).ilog2();
        let kind = AbsenceKind { run, tid: absence.tid, event, octave };
        let count = self.counts.entry(kind).or_default();
        count.shortest_ns =
            if count.times == 0 { length_ns } else { count.shortest_ns.min(length_ns) };
        count.times += 1;
        count.preempted += u64::from(absence.preempted);
        count.pinned += u64::from(absence.pinned);
        count.sum_ns = count.sum_ns.saturating_add(length_ns);
        count.longest_ns = count.longest_ns.max(length_ns);
        self.lengths.entry(event).or_default().take(length_ns, 1);
        self.last_run = self.last_run.max(run);
        self.end_room(absence, kind);
        self.name(absence);
        self.keep(length_ns, absence);
        self.times += 1;
    }

    /// Counts the room between the thread's previous absence and `absence`; a room is the CPU time from one absence to
    /// the next.
    fn end_room(&mut self, absence: &Absence, kind: AbsenceKind) {
        let last = LastAbsence { kind, cpu_ns: absence.cpu_ns, in_ns: absence.in_ns };
        let before = self.last.insert((kind.run, kind.tid), last);
        let room = before.and_then(|before| Some((before.kind, before.until(absence)?)));
        if let Some((kind, (ns, exact))) = room {
            self.counts.entry(kind).or_default().rooms.take(ns, exact);
        }
    }

    /// Returns the most recent absence of each thread, ordered by run and thread.
    pub fn last(&self) -> impl Iterator<Item = &LastAbsence> {
        self.last.values()
    }

    fn name(&mut self, absence: &Absence) {
        let Some((_, name)) = &absence.by else { return };
        if let Some(times) = self.by.get_mut(name) {
            *times += 1;
        } else if self.by.len() < Self::MOST_NAMES {
            self.by.insert(name.clone(), 1);
        } else {
            self.other_names += 1;
        }
    }

    /// Keeps an absence if it is among the longest; of equally long absences, the earlier is kept.
    fn keep(&mut self, length_ns: u64, absence: &Absence) {
        let place = (length_ns, std::cmp::Reverse(self.times));
        let is_full = self.longest.len() >= Self::LONGEST;
        if is_full && self.longest.first_key_value().is_some_and(|(least, _)| place < *least) {
            return;
        }
        self.longest.insert(place, absence.clone());
        if is_full {
            self.longest.pop_first();
        }
    }

    /// Returns the number of absences that were counted.
    pub const fn times(&self) -> u64 {
        self.times
    }

    /// Returns the counts, ordered by run, thread, class and octave.
    pub fn counts(&self) -> impl Iterator<Item = (&AbsenceKind, &AbsenceCount)> {
        self.counts.iter()
    }

    /// Returns the counts of absences in one run of the program.
    pub fn of_run(&self, run: u64) -> impl Iterator<Item = (&AbsenceKind, &AbsenceCount)> {
        let first = |run| AbsenceKind { run, tid: 0, event: Event::ALL[0], octave: 0 };
        let from = self.counts.range(first(Some(run))..);
        from.take_while(move |(kind, _)| kind.run == Some(run))
    }

    /// Returns the lengths of the absences of a class.
    pub fn lengths(&self, event: Event) -> Option<&Lengths> {
        self.lengths.get(&event)
    }

    /// Returns the absences kept individually: all absences in their order, or only the longest, sorted from long to
    /// short.
    pub fn kept(&self) -> Vec<&Absence> {
        let mut kept: Vec<_> = self.longest.iter().rev().collect();
        if self.times as usize <= Self::LONGEST {
            kept.sort_by_key(|((_, place), _)| place.0);
        }
        kept.into_iter().map(|(_, absence)| absence).collect()
    }

    /// Returns the names of preempting threads, each with the number of absences whose preempting thread has this name.
    pub fn by(&self) -> impl Iterator<Item = (&str, u64)> {
        self.by.iter().map(|(name, &times)| (name.as_str(), times))
    }

    /// Returns the number of absences whose preempting thread has a name beyond [`Self::MOST_NAMES`].
    pub const fn other_names(&self) -> u64 {
        self.other_names
    }

    /// Returns the highest number of a run that has an absence, if runs are numbered.
    pub const fn last_run(&self) -> Option<u64> {
        self.last_run
    }

    /// Returns the number of all kept entries, which bounds the memory.
    pub fn entries(&self) -> usize {
        let lengths: usize = self.lengths.values().map(|it| it.times.len()).sum();
        let rooms: usize = self.counts.values().map(|it| it.rooms.kinds()).sum();
        let counts = self.counts.len() + rooms + self.last.len();
        counts + lengths + self.longest.len() + self.by.len()
    }
}

/// The distribution of the lengths of a class of absences. If more lengths differ, the distribution keeps only the
/// leading bits of each length: as many bits as leave at most [`Self::MOST`] different values, but at least
/// [`Self::FEWEST_BITS`] bits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lengths {
    times: BTreeMap<u64, u64>,
    count: u64,
    bits: u32,
}

impl Default for Lengths {
    fn default() -> Self {
        Self { times: BTreeMap::new(), count: 0, bits: u64::BITS }
    }
}

impl Lengths {
    /// The largest number of different lengths that are kept.
    pub const MOST: usize = 1 << 16;
    /// The fewest leading bits of a length that are kept: with this number of bits, 64-bit lengths have at most 56,320
    /// different values.
    pub const FEWEST_BITS: u32 = 11;

    /// Adds a length that occurred `times` times.
    pub fn take(&mut self, length_ns: u64, times: u64) {
        *self.times.entry(self.lowest(length_ns)).or_default() += times;
        self.count += times;
        while self.times.len() > Self::MOST && self.bits > Self::FEWEST_BITS {
            self.bits -= 1;
            let finer = std::mem::take(&mut self.times);
            for (length_ns, times) in finer {
                *self.times.entry(self.lowest(length_ns)).or_default() += times;
            }
        }
    }

    /// Returns the smallest length that the distribution does not distinguish from this length.
    const fn lowest(&self, length_ns: u64) -> u64 {
        length_ns & !(self.width(length_ns) - 1)
    }

    /// Returns the number of lengths that the distribution does not distinguish from this length.
    const fn width(&self, length_ns: u64) -> u64 {
        1 << (u64::BITS - length_ns.leading_zeros()).saturating_sub(self.bits)
    }

    /// Returns the median length, in nanoseconds, or `None` if the distribution is empty.
    pub fn median_ns(&self) -> Option<f64> {
        let at = |place: u64| {
            let mut before = 0;
            let found = self.times.iter().find(|(_, times)| {
                before += **times;
                before > place
            });
            found.map(|(&low, _)| low as f64 + (self.width(low) - 1) as f64 / 2.0)
        };
        Some(f64::midpoint(at(self.count.checked_sub(1)? / 2)?, at(self.count / 2)?))
    }

    /// Returns the largest relative error of the median; 0 if the median is exact.
    pub fn error(&self) -> f64 {
        let is_exact = self.times.keys().all(|&low| self.width(low) == 1);
        if is_exact { 0.0 } else { 0.5_f64.powi(self.bits as i32) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Cpu;

    fn absence(tid: u32, length_ns: u64) -> Absence {
        Absence {
            tid,
            out_ns: 1_000,
            in_ns: 1_000 + length_ns,
            seen: true,
            from: Cpu(0),
            to: Cpu(0),
            preempted: true,
            pinned: false,
            ran_ns: 0,
            cpu_ns: None,
            by: Some((9, format!("job-{}", length_ns % 40_000))),
        }
    }

    /// Draws a number from `seed` by the generator SplitMix64.
    fn drawn(seed: u64) -> u64 {
        let mut z = seed.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    #[test]
    fn three_million_absences_are_counted_in_the_entries_of_a_few_and_their_median_is_right() {
        const ALL: u64 = 3_000_000;
        let mut absences = Absences::default();
        let (mut most, mut lengths) = (0, Vec::with_capacity(ALL as usize));
        for place in 0..ALL {
            // From 1 us to 1 s, each octave as often as the others.
            let octave = 10 + drawn(place) % 20;
            let length_ns = (1 << octave) + drawn(place + ALL) % (1 << octave);
            lengths.push(length_ns);
            absences.take(Some(0), Event::Preemption, &absence((place % 8) as u32, length_ns));
            if place % 4_096 == 0 {
                most = most.max(absences.entries());
            }
        }
        // Of the CPU time after an absence nothing is known here: one room at most, and a last absence, of each thread.
        let bound = 8 * 20 + 8 + Lengths::MOST + Absences::LONGEST + Absences::MOST_NAMES;
        assert!(most.max(absences.entries()) <= bound, "{most} entries, more than {bound}");
        lengths.sort_unstable();
        let kept = absences.lengths(Event::Preemption).unwrap();
        let exact =
            f64::midpoint(lengths[ALL as usize / 2 - 1] as f64, lengths[ALL as usize / 2] as f64);
        let median = kept.median_ns().unwrap();
        assert!((median / exact - 1.0).abs() <= kept.error(), "{median} for {exact}");
        assert!(kept.error() > 0.0 && kept.error() <= 0.0005, "{}", kept.error());
        assert_eq!(absences.counts().map(|(_, it)| it.times).sum::<u64>(), ALL);
        assert_eq!(
            absences.counts().map(|(_, it)| it.sum_ns).sum::<u64>(),
            lengths.iter().sum::<u64>()
        );
        let longest: Vec<u64> = absences.kept().iter().map(|it| it.length_ns()).collect();
        let expected: Vec<u64> = lengths.iter().rev().take(Absences::LONGEST).copied().collect();
        assert!(longest == expected, "the longest are kept, the longest first");
        let named: u64 = absences.by().map(|(_, times)| times).sum();
        assert_eq!(named + absences.other_names(), ALL);
        assert!(absences.other_names() > 0);
    }

    #[test]
    fn the_longest_lengths_of_all_sizes_fit_with_the_fewest_bits() {
        let mut lengths = Lengths::default();
        for place in 0..600_000 {
            lengths.take(drawn(place) >> (drawn(place + 1_000_000) % 64), 1);
        }
        assert!(lengths.times.len() <= Lengths::MOST);
        assert!((Lengths::FEWEST_BITS..64).contains(&lengths.bits), "{}", lengths.bits);
    }

    #[test]
    fn few_absences_are_kept_in_their_order_with_exact_lengths() {
        let mut absences = Absences::default();
        for (run, length_ns) in [(0, 30), (0, 10), (2, 20)] {
            absences.take(Some(run), Event::Preemption, &absence(1, length_ns));
        }
        let kept: Vec<u64> = absences.kept().iter().map(|it| it.length_ns()).collect();
        assert_eq!(kept, [30, 10, 20]);
        let lengths = absences.lengths(Event::Preemption).unwrap();
        assert_eq!((lengths.median_ns(), lengths.error()), (Some(20.0), 0.0));
        let times = |run| absences.of_run(run).map(|(_, it)| it.times).sum::<u64>();
        assert_eq!((times(0), times(1), times(2)), (2, 0, 1));
        assert_eq!(absences.last_run(), Some(2));
    }
}
