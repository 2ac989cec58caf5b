// SPDX-License-Identifier: MIT OR Apache-2.0
//! The room that working sets find in the second and in the last level of cache, by how long their warm touches take.

use crate::experiment::Group;
use crate::platform::{Check, Fact, Platform, Replacement};
use crate::sim::side_by_side;
use crate::units::Bytes;
use crate::workload::{Event, Page};

use super::cells::{SIZES, large, last_level, near_second, second_level};
use super::fit::{CalibrationError, Fit, Number, listed, nanos};
use super::trial::{Times, Told, exactly, simulated};

/// Simulated samples of a large working set: frames and orders hardly matter.
const OF_LARGE: u32 = 1;
/// The same near the size of the second level, where they do.
const OF_SECOND: u32 = 3;
/// The whole of a stated size, in parts.
const WHOLE: u64 = 64;
/// The parts of the stated last level that may be a guest's own.
const PARTS: [u64; 10] = [64, 48, 32, 24, 16, 12, 8, 6, 4, 2];
/// The parts of the stated second level.
const PARTS_OF_SECOND: [u64; 6] = [64, 56, 48, 32, 16, 8];
/// Capacities larger than the largest working set by this factor are all alike.
const BEYOND: f64 = 1.3;
/// Squares of logarithms, summed: below this difference two descriptions are alike.
const ALIKE: f64 = 0.02;

impl Fit {
    /// The room in the second level, and how it replaces: the capacity and the policy with which warm touches near its stated
    /// size take as long as live. Another guest's thread may have a part of it, and few caches replace strictly by age.
    pub(super) fn second_level(&mut self) -> Result<(), CalibrationError> {
        let near = near_second(&self.declared);
        let sizes = [near[0], near[1], SIZES[0], SIZES[1]];
        let all = sizes.iter().flat_map(|&wss| [(wss, Page::Base), (wss, Page::Transparent)]);
        let told = |(wss, page)| Some((wss, page, self.live.warm_on(wss, page)?.median));
        let live: Vec<(Bytes, Page, f64)> = all.filter_map(told).collect();
        let is_near = |it: &(Bytes, Page, f64)| near.contains(&it.0);
        let last = last_level(&self.platform).map(|(place, _)| place);
        let found = second_level(&self.platform).filter(|(place, _)| Some(*place) != last);
        let Some((place, stated)) = found.filter(|_| live.iter().any(is_near)) else {
            self.notes.push(
                "second level: no warm touches near its size, or no such cache; left as it was"
                    .to_owned(),
            );
            return Ok(());
        };
        self.backing(&near);
        let groups = self.groups(Event::None, &sizes);
        let policies = [Replacement::Lru, Replacement::TreePlru, Replacement::Random];
        let all: Vec<(Bytes, Replacement)> = policies
            .into_iter()
            .flat_map(|it| PARTS_OF_SECOND.map(|part| (share_of(stated, part), it)))
            .collect();
        let trial = |at: usize| {
            let mut platform = self.platform.clone();
            set_second(&mut platform, place, stated, all[at]);
            simulated(&platform, groups.clone(), OF_SECOND).map(|times| off(&live, &times))
        };
        let mut trials: Vec<(f64, (Bytes, Replacement))> = Vec::new();
        for (off, candidate) in side_by_side(0..all.len(), trial).into_iter().zip(&all) {
            match off {
                Ok(off) => trials.push((off, *candidate)),
                // A policy that needs another number of ways is none of its.
                Err(_) if candidate.1 != Replacement::Lru => {}
                Err(error) => return Err(error),
            }
        }
        trials.sort_by(|a, b| a.0.total_cmp(&b.0));
        let Some(&(least, (capacity, policy))) = trials.first() else { return Ok(()) };
        // As it is stated, by age, unless something else does better.
        let usual = trials.iter().find(|it| it.1 == (stated, Replacement::Lru));
        let (capacity, policy) = match usual {
            Some(&(off, usual)) if off <= least + ALIKE => usual,
            _ => (capacity, policy),
        };
        set_second(&mut self.platform, place, stated, (capacity, policy));
        let alike = trials.iter().filter(|it| it.0 <= least + ALIKE).map(|it| it.1.0);
        let (low, high) = (alike.clone().min(), alike.max());
        let number = Number {
            fact: format!(
                "{}, effective, and how it replaces",
                self.platform.caches[place].label()
            ),
            value: format!("{capacity}, {policy}"),
            interval: low
                .zip(high)
                .map(|(low, high)| [low.min(capacity).to_string(), high.max(capacity).to_string()]),
            cells: format!("warm touches of {}", listed(&near)),
            n: self.live.samples_of(Event::None, &near),
        };
        self.enter(number);
        Ok(())
    }
}

impl Fit {
    /// Whether the host backs a guest's memory with small pages: then a working set of the size of the second level is no
    /// faster on a huge page.
    fn backing(&mut self, near: &[Bytes; 2]) {
        let on = |wss, page| Some(self.live.warm_on(wss, page)?.median);
        let gain = |&wss: &Bytes| Some((on(wss, Page::Transparent)? / on(wss, Page::Base)?).ln());
        let gains: Vec<f64> = near.iter().filter_map(gain).collect();
        let gain = gains.iter().sum::<f64>() / gains.len() as f64;
        if !gains.is_empty() && gain > NO_FASTER {
            let how = format!("warm touches of {} are no faster on huge pages", listed(near));
            self.platform.pages.backing = Some(Fact::measured(Bytes::from_kib(4), how));
            self.enter(Number {
                fact: "pages, backing".to_owned(),
                value: "4 KiB".to_owned(),
                interval: None,
                cells: format!("warm touches of {} on both kinds of pages", listed(near)),
                n: self.live.samples_of(Event::None, near),
            });
        }
    }
}

/// The logarithm of the time on huge pages over that on small ones above which there is no gain.
const NO_FASTER: f64 = -0.15;

/// The distance of warm touches: the sum of the squared logarithms of ratios.
fn off(live: &[(Bytes, Page, f64)], times: &Times) -> f64 {
    let each = live
        .iter()
        .filter_map(|&(wss, page, ns)| Some((times.warm_on(wss, page)?.median / ns).ln().powi(2)));
    each.sum()
}

/// States the room in a second level, and how it replaces.
fn set_second(
    platform: &mut Platform,
    place: usize,
    stated: Bytes,
    (found, policy): (Bytes, Replacement),
) {
    set_capacity(platform, place, found, stated);
    let on = "warm touches near its stated size";
    platform.caches[place].mechanism.replacement = Some(Fact::fitted(policy, on));
}

impl Fit {
    /// The room in the last level, and the time of a walk of the page tables, at which warm touches take as long as live: the
    /// first decides where they become slow, the second how slow they become beyond what the TLBs hold.
    pub(super) fn capacity(&mut self) -> Result<(), CalibrationError> {
        let sizes = large(&self.declared);
        let live: Vec<(Bytes, Told)> =
            sizes.iter().filter_map(|&wss| Some((wss, self.live.warm(wss)?))).collect();
        let Some((place, stated)) = last_level(&self.platform).filter(|_| live.len() >= 3) else {
            self.notes.push(
                "last level: fewer than three sizes of warm touches; left as it was".to_owned(),
            );
            return Ok(());
        };
        let largest = live.iter().map(|(wss, _)| *wss).max().unwrap_or_default();
        let groups = self.groups(Event::None, &sizes);
        let capacities = candidates(stated, largest);
        let trial = |at: usize| {
            let mut platform = self.platform.clone();
            set_capacity(&mut platform, place, capacities[at], stated);
            Trial::of(&platform, capacities[at], &groups, &sizes)
        };
        let trials: Result<Vec<Trial>, CalibrationError> =
            side_by_side(0..capacities.len(), trial).into_iter().collect();
        let trials = trials?;
        let best = |of: &dyn Fn(&Told) -> f64| {
            let wanted: Vec<(Bytes, f64)> =
                live.iter().map(|(wss, told)| (*wss, of(told))).collect();
            let fits = trials.iter().map(|trial| trial.fit(&wanted));
            fits.min_by(|a, b| a.off.total_cmp(&b.off))
        };
        let ends = [best(&|it| it.ends[0]), best(&|it| it.ends[1])];
        let (Some(found), [Some(one), Some(other)]) = (best(&|it| it.median), ends) else {
            return Ok(());
        };
        // What holds all that was walked is only known to be so large.
        let told = found.capacity <= largest;
        if told {
            set_capacity(&mut self.platform, place, found.capacity, stated);
        } else {
            self.platform.caches[place].effective = None;
            self.platform.caches[place]
                .size
                .iter_mut()
                .for_each(|size| size.check = Check::Unchecked);
        }
        let all = [found, one, other];
        let between = |of: &dyn Fn(&Fitted) -> f64| {
            let values = all.iter().map(of);
            [values.clone().fold(f64::INFINITY, f64::min), values.fold(0.0, f64::max)]
        };
        let cells = format!("warm touches of {} to {largest}", live[0].0);
        let n = live.iter().map(|(_, told)| told.n).sum();
        let rooms = between(&|it| it.capacity.get() as f64);
        self.enter(Number {
            fact: format!("{}, effective", self.platform.caches[place].label()),
            value: if told { found.capacity.to_string() } else { format!("{largest} or more") },
            interval: told.then(|| rooms.map(|it| Bytes::new(it as u64).to_string())),
            cells: cells.clone(),
            n,
        });
        self.walks(found.walk_ns, between(&|it| it.walk_ns), cells, n);
        Ok(())
    }

    /// Enters the time of a walk of the page tables: the penalty of the last TLB of base pages.
    fn walks(&mut self, found: f64, ends: [f64; 2], cells: String, n: usize) {
        if !set_walk(&mut self.platform, found, &cells) {
            self.notes
                .push("walks of the page tables: no TLB is stated, they take no time".to_owned());
            return;
        }
        self.enter(Number {
            fact: "tlb, penalty of a walk".to_owned(),
            value: format!("{found:.1} ns"),
            interval: Some(ends.map(|ns| format!("{ns:.1} ns"))),
            cells,
            n,
        });
    }
}

/// The capacities to try, the largest first: of those that hold every working set one.
fn candidates(stated: Bytes, largest: Bytes) -> Vec<Bytes> {
    let all = PARTS.map(|part| share_of(stated, part));
    let beyond = |it: &Bytes| it.get() as f64 > BEYOND * largest.get() as f64;
    let held = all.iter().copied().filter(beyond).min();
    held.into_iter().chain(all.into_iter().filter(|it| !beyond(it))).collect()
}

/// Warm touches of a machine with some capacity of its last level: without a time of walks, and what a nanosecond a walk
/// adds.
struct Trial {
    capacity: Bytes,
    times: Vec<(Bytes, f64, f64)>,
}

/// The best that a capacity can do.
#[derive(Debug, Clone, Copy)]
struct Fitted {
    capacity: Bytes,
    walk_ns: f64,
    /// The squares of relative errors.
    off: f64,
}

/// The time of a walk with which its share is told.
const A_WALK_NS: f64 = 50.0;

impl Trial {
    /// Every set of every cache is simulated: of a page all lines come, or TLBs would miss more often.
    fn of(
        platform: &Platform,
        capacity: Bytes,
        groups: &[Group],
        sizes: &[Bytes],
    ) -> Result<Self, CalibrationError> {
        let mut platform = platform.clone();
        let mut warm = |ns: f64| {
            let has = set_walk(&mut platform, ns, "");
            exactly(&platform, groups.to_vec(), OF_LARGE).map(|times| (times, has))
        };
        let (without, has) = warm(0.0)?;
        let with = if has { warm(A_WALK_NS)?.0 } else { without.clone() };
        let times = sizes.iter().filter_map(|&wss| {
            let [without, with] = [without.warm(wss)?.median, with.warm(wss)?.median];
            Some((wss, without, (with - without) / A_WALK_NS))
        });
        Ok(Self { capacity, times: times.collect() })
    }

    /// The time of walks at which it comes nearest to these times of a line, by least squares of relative errors.
    fn fit(&self, wanted: &[(Bytes, f64)]) -> Fitted {
        let all: Vec<(f64, f64)> = wanted
            .iter()
            .filter_map(|(wss, live)| {
                let (_, without, each) = self.times.iter().find(|it| it.0 == *wss)?;
                Some(((live - without) / live, each / live))
            })
            .collect();
        let sum = |of: &dyn Fn(&(f64, f64)) -> f64| all.iter().map(of).sum::<f64>();
        let squares = sum(&|it| it.1 * it.1);
        let walk_ns = if squares > 0.0 { (sum(&|it| it.0 * it.1) / squares).max(0.0) } else { 0.0 };
        let off = sum(&|it| (it.0 - walk_ns * it.1).powi(2));
        Fitted { capacity: self.capacity, walk_ns, off }
    }
}

/// States the time of a walk for the pages of 4 KiB. False where the platform states no TLB for them.
fn set_walk(platform: &mut Platform, ns: f64, how: &str) -> bool {
    let base = Bytes::from_kib(4);
    let of_base = platform.tlbs.iter_mut().filter(|tlb| tlb.pages.value.contains(&base));
    let last = of_base.max_by_key(|tlb| tlb.level);
    let found = last.is_some();
    if let Some(tlb) = last {
        tlb.penalty = Fact::measured(nanos(ns), how);
    }
    found
}

fn share_of(stated: Bytes, part: u64) -> Bytes {
    Bytes::new(stated.get() * part / WHOLE)
}

/// Enters what working sets find room in.
fn set_capacity(platform: &mut Platform, place: usize, found: Bytes, stated: Bytes) {
    let cache = &mut platform.caches[place];
    let how =
        "warm touches of working sets by size, the capacity with which they are simulated as long";
    let Some(size) = cache.size.as_mut() else { return };
    if found == stated {
        size.check = Check::Observed { how: how.to_owned() };
        cache.effective = None;
    } else {
        size.check = Check::Contradicted { why: format!("{how}: {found}") };
        cache.effective = Some(Fact::measured(found, how));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_capacities_that_hold_every_working_set_one_is_tried() {
        let mib = |all: &[u64]| all.iter().map(|it| Bytes::from_mib(*it)).collect::<Vec<_>>();
        assert_eq!(
            candidates(Bytes::from_mib(32), Bytes::from_mib(24)),
            [mib(&[32, 24, 16, 12, 8, 6, 4, 3, 2, 1])].concat()
        );
        let large = candidates(Bytes::from_mib(128), Bytes::from_mib(24));
        assert_eq!(large[..4], mib(&[32, 24, 16, 12]));
    }

    #[test]
    fn a_walk_is_fitted_by_what_it_adds_to_the_sizes_that_need_it() {
        let at = |kib: u64, without: f64, each: f64| (Bytes::from_kib(kib), without, each);
        let times = vec![at(64, 4.0, 0.0), at(8_192, 50.0, 0.5), at(16_384, 100.0, 1.0)];
        let trial = Trial { capacity: Bytes::from_mib(8), times };
        let wanted = [
            (Bytes::from_kib(64), 4.0),
            (Bytes::from_kib(8_192), 70.0),
            (Bytes::from_kib(16_384), 140.0),
        ];
        let fitted = trial.fit(&wanted);
        assert!((fitted.walk_ns - 40.0).abs() < 1e-9 && fitted.off < 1e-9, "{fitted:?}");
        // Where everything is faster than simulated, no walk makes it so.
        assert!(trial.fit(&[(Bytes::from_kib(8_192), 20.0)]).walk_ns < 1e-12);
    }
}
