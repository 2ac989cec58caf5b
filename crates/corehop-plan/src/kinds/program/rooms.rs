// SPDX-License-Identifier: MIT OR Apache-2.0
//! The room for cache refills: after an absence, a thread can refill its cache only within the CPU time that it has
//! until its next absence.

use std::collections::BTreeMap;

/// Counts of rooms by the power of two of their length in nanoseconds; a room is the CPU time from an absence of a
/// thread to its next absence.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Rooms(BTreeMap<u32, RoomClass>);

/// The rooms whose lengths belong to one power of two.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct RoomClass {
    times: u64,
    sum_ns: u64,
    /// Whether the lengths of the rooms are CPU times; otherwise the lengths are upper bounds.
    exact: bool,
}

impl Rooms {
    /// Adds a room of the length `ns`, which is a CPU time, or an upper bound of a CPU time if `exact` is false.
    pub fn take(&mut self, ns: u64, exact: bool) {
        let octave = ns.max(1).ilog2();
        let alike = self.0.entry(octave).or_insert(RoomClass { times: 0, sum_ns: 0, exact: true });
        alike.times += 1;
        alike.sum_ns = alike.sum_ns.saturating_add(ns);
        alike.exact &= exact;
    }

    /// Returns the number of counted rooms, each of which lies between two absences of a thread.
    pub fn times(&self) -> u64 {
        self.0.values().map(|it| it.times).sum()
    }

    /// Returns the number of powers of two to which the length of some room belongs.
    pub fn kinds(&self) -> usize {
        self.0.len()
    }

    /// Returns the total length of the rooms between absences, in nanoseconds.
    pub fn sum_ns(&self) -> f64 {
        self.0.values().map(|it| it.sum_ns as f64).sum()
    }

    /// Returns an upper bound of the refill time that fits into the rooms if a refill takes at most `each_ns`: for
    /// each power of two, the smaller of all refills and all rooms. The smaller of refill and room is a concave
    /// function of the room, so that equal rooms give the largest sum (Jensen).
    pub fn most_ns(&self, each_ns: f64) -> f64 {
        let of = |it: &RoomClass| (it.times as f64 * each_ns).min(it.sum_ns as f64);
        self.0.values().map(of).sum()
    }

    /// Returns a lower bound of the refill time if a refill needs at least `each_ns`: for rooms of a known total
    /// length, the time is least if all lengths are at the ends of their power of two. Rooms that are upper bounds
    /// add nothing to the lower bound.
    pub fn least_ns(&self, each_ns: f64) -> f64 {
        let of = |(&octave, it): (&u32, &RoomClass)| {
            let n = it.times as f64;
            let (low, high) = if octave == 0 { (0.0, 2.0) } else { ends(octave) };
            let above = (it.sum_ns as f64 - n * low) / (high - low);
            let known = if it.exact {
                (n - above) * each_ns.min(low) + above * each_ns.min(high)
            } else {
                0.0
            };
            known.min(n * each_ns)
        };
        self.0.iter().map(of).sum()
    }
}

/// Returns the smallest length in the class of a power of two, and the smallest length in the next class.
fn ends(octave: u32) -> (f64, f64) {
    let low = 2.0_f64.powi(octave as i32);
    (low, 2.0 * low)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bounds_hold_what_fits_into_the_rooms_and_are_exact_where_all_or_none_is_full() {
        let rooms = [700, 900, 40_000, 41_000, 3, 0, 1_000_000];
        let mut all = Rooms::default();
        for &ns in &rooms {
            all.take(ns, true);
        }
        for each in [-5.0_f64, 0.0, 1.0, 650.0, 800.0, 30_000.0, 40_500.0, 1e9] {
            let fits: f64 = rooms.iter().map(|&ns| each.min(ns as f64)).sum();
            let (least, most) = (all.least_ns(each), all.most_ns(each));
            assert!(least <= fits + 1e-6 && fits <= most + 1e-6, "{each}: {least} {fits} {most}");
            assert!(most <= all.sum_ns() && least > 0.6 * fits - 40.0, "{each}: {least} {fits}");
        }
        assert!((all.least_ns(1e9) - all.sum_ns()).abs() < 1e-6);
        assert_eq!((all.times(), all.sum_ns()), (7, 1_082_603.0));
    }

    #[test]
    fn of_rooms_that_are_upper_bounds_nothing_is_sure() {
        let mut rooms = Rooms::default();
        rooms.take(1_000, false);
        let near = |a: f64, b: f64| (a - b).abs() < 1e-9;
        assert!(near(rooms.least_ns(500.0), 0.0) && near(rooms.most_ns(500.0), 500.0));
        assert!(near(rooms.least_ns(-1.0), -1.0));
    }
}
