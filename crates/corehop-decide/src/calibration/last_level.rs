// SPDX-License-Identifier: MIT OR Apache-2.0
//! Fits the last cache level and the page-table walks to the durations of warm touches of large working sets.

use corehop_plan::experiment::SamplingGroup;
use corehop_plan::parallel::side_by_side;
use corehop_plan::platform::{Check, Fact, Latency, Platform, Tlb};
use corehop_plan::units::Bytes;
use corehop_plan::workload::Event;

use super::cells::{large, last_level};
use super::fit::{CalibrationError, CalibrationFit, FactEstimate, LONGEST_NS, stated_ns};
use super::rooms::{ALIKE, set_capacity, share_of};
use super::trial::{MedianEstimate, exactly};

/// The number of simulated samples of a large working set; page frames and orders hardly matter.
const OF_LARGE: u32 = 1;
/// The tried fractions of the stated last level that may belong to a guest.
const PARTS: [u64; 10] = [64, 48, 32, 24, 16, 12, 8, 6, 4, 2];
/// Capacities above the largest working set by this factor are indistinguishable.
const BEYOND: f64 = 1.3;

impl CalibrationFit {
    /// Fits the room in the last level, its hit time, and the time of a page-table walk, so that simulated warm touches
    /// take as long as live ones. The room decides at which size touches become slow. The hit time decides how long
    /// touches take for working sets that fit into the room, and the walk time decides how slow touches become beyond
    /// the reach of the TLBs.
    pub(super) fn capacity(&mut self) -> Result<(), CalibrationError> {
        let sizes = large(&self.declared);
        let live: Vec<(Bytes, MedianEstimate)> =
            sizes.iter().filter_map(|&wss| Some((wss, self.live.warm(wss)?))).collect();
        let Some((place, stated)) = last_level(&self.platform).filter(|_| live.len() >= 3) else {
            self.notes
                .push("last level: fewer than three sizes of warm touches; unchanged".to_owned());
            return Ok(());
        };
        let largest = live.iter().map(|(wss, _)| *wss).max().unwrap_or_default();
        let groups = self.groups(Event::None, &sizes);
        let capacities = near(candidates(stated, largest), self.room);
        let trial = |at: usize| {
            let mut platform = self.platform.clone();
            set_capacity(&mut platform, place, capacities[at], stated);
            CapacityTrial::of(&platform, (place, capacities[at]), &groups, &sizes)
        };
        // Walks do not depend on the caches: they are simulated once.
        if self.reaches.is_empty() {
            self.reaches = reaches(&self.platform, last_tlb(&self.declared), &groups, &sizes)?;
        }
        let trials: Result<Vec<CapacityTrial>, CalibrationError> =
            side_by_side(0..capacities.len(), trial).into_iter().collect();
        let trials = trials?;
        let fitted = |of: &dyn Fn(&MedianEstimate) -> f64| {
            let wanted: Vec<(Bytes, f64)> =
                live.iter().map(|(wss, told)| (*wss, of(told))).collect();
            best(&trials, &self.reaches, &wanted)
        };
        let ends = [fitted(&|it| it.ends[0]), fitted(&|it| it.ends[1])];
        let (Some(found), [Some(one), Some(other)]) = (fitted(&|it| it.median), ends) else {
            return Ok(());
        };
        let cells = format!("warm touches of {} to {largest}", live[0].0);
        let n = live.iter().map(|(_, told)| told.n).sum();
        let found =
            LastLevelFindings { place, stated, largest, all: [found, one, other], cells, n };
        self.room(&found);
        self.hits(&found);
        self.walks(&found);
        Ok(())
    }

    /// Adds the room. If the room holds all touched working sets, only a lower bound is known.
    fn room(&mut self, found: &LastLevelFindings) {
        let &LastLevelFindings { place, stated, largest, ref cells, n, .. } = found;
        let capacity = found.all[0].capacity;
        self.room = Some(capacity);
        let told = capacity <= largest;
        if told {
            set_capacity(&mut self.platform, place, capacity, stated);
        } else {
            let cache = &mut self.platform.caches[place];
            cache.effective = None;
            cache.size.iter_mut().for_each(|size| size.check = Check::Unchecked);
        }
        let ends = found.between(&|it| it.capacity.get() as f64);
        self.enter(FactEstimate {
            fact: format!("{}, effective", self.platform.caches[place].label()),
            value: if told { capacity.to_string() } else { format!("{largest} or more") },
            interval: told.then(|| ends.map(|it| Bytes::new(it as u64).to_string())),
            cells: cells.clone(),
            n,
        });
    }

    /// Adds the fitted hit time of the last level; a time measured with a list as large as the stated size would
    /// include memory time.
    fn hits(&mut self, found: &LastLevelFindings) {
        let Some(ns) = found.all[0].hit_ns else { return };
        let cache = &mut self.platform.caches[found.place];
        cache.latency = Some(Fact::measured(Latency::from_nanos(ns), &found.cells));
        let fact = format!("{}, latency", cache.label());
        self.enter(found.number(fact, ns, &|it| it.hit_ns.unwrap_or(ns)));
    }

    /// Adds the number of translations in the last TLB of base pages, and its penalty: the time of a page-table walk.
    fn walks(&mut self, found: &LastLevelFindings) {
        let CapacityFit { walk_ns: ns, entries, .. } = found.all[0];
        self.reach(found, entries);
        if !set_walk(&mut self.platform, ns, &found.cells) {
            self.notes
                .push("walks of the page tables: no TLB is stated, they take no time".to_owned());
            return;
        }
        self.enter(found.number("tlb, penalty of a walk".to_owned(), ns, &|it| it.walk_ns));
    }

    /// Adds the number of translations if it differs from the stated number.
    fn reach(&mut self, found: &LastLevelFindings, entries: Option<u32>) {
        let stated = last_tlb(&self.declared).map(|tlb| tlb.entries.clone());
        let Some((entries, stated)) = entries.zip(stated) else { return };
        let is_stated = entries == stated.value;
        let how = format!("{}; {} are stated", found.cells, stated.value);
        let fact = if is_stated { stated } else { Fact::measured(entries, how) };
        set_entries(&mut self.platform, fact);
        if is_stated {
            self.numbers.retain(|it| it.fact != ENTRIES);
            return;
        }
        let ends = found.between(&|it| f64::from(it.entries.unwrap_or(entries)));
        self.enter(FactEstimate {
            fact: ENTRIES.to_owned(),
            value: entries.to_string(),
            interval: Some(ends.map(|it| format!("{it:.0}"))),
            cells: found.cells.clone(),
            n: found.n,
        });
    }
}

/// The results of the fit of the last level.
struct LastLevelFindings {
    place: usize,
    stated: Bytes,
    /// The largest working set that was touched.
    largest: Bytes,
    /// The fits to the live medians, and to either end of their intervals.
    all: [CapacityFit; 3],
    cells: String,
    n: usize,
}

impl LastLevelFindings {
    /// The smallest and the largest of a value over the three fits.
    fn between(&self, of: &dyn Fn(&CapacityFit) -> f64) -> [f64; 2] {
        let values = self.all.iter().map(of);
        [values.clone().fold(f64::INFINITY, f64::min), values.fold(0.0, f64::max)]
    }

    /// Creates a calibrated number in nanoseconds.
    fn number(&self, fact: String, ns: f64, of: &dyn Fn(&CapacityFit) -> f64) -> FactEstimate {
        FactEstimate {
            fact,
            value: format!("{ns:.1} ns"),
            interval: Some(self.between(of).map(|ns| format!("{ns:.1} ns"))),
            cells: self.cells.clone(),
            n: self.n,
        }
    }
}

/// The capacities to try, the largest first; of the capacities that hold every working set, only the smallest is tried.
fn candidates(stated: Bytes, largest: Bytes) -> Vec<Bytes> {
    let all = PARTS.map(|part| share_of(stated, part));
    let beyond = |it: &Bytes| it.get() as f64 > BEYOND * largest.get() as f64;
    let held = all.iter().copied().filter(beyond).min();
    held.into_iter().chain(all.into_iter().filter(|it| !beyond(it))).collect()
}

/// The candidates within a few steps of an earlier result.
fn near(candidates: Vec<Bytes>, found: Option<Bytes>) -> Vec<Bytes> {
    let place = found.and_then(|found| candidates.iter().position(|it| *it == found));
    match place {
        Some(at) => {
            candidates.into_iter().skip(at.saturating_sub(STEPS)).take(2 * STEPS + 1).collect()
        }
        None => candidates,
    }
}

/// The number of steps around an earlier result that are tried again.
const STEPS: usize = 2;

/// A simulated warm touch with some capacity of the last level.
#[derive(Debug, Clone, Copy)]
struct WarmTouch {
    wss: Bytes,
    /// Nanoseconds per line, without the time of walks.
    ns: f64,
    /// Hits in the last level per line.
    hits: f64,
}

/// The simulated warm touches with some capacity of the last level.
struct CapacityTrial {
    capacity: Bytes,
    /// The hit time used in the simulation, if stated as a time.
    hit_ns: Option<f64>,
    /// The bounds of the hit time: the hit time of the next inner cache, and memory latency.
    bounds: [f64; 2],
    touches: Vec<WarmTouch>,
}

/// Page-table walks per line, by working set size, with this number of translations in the last TLB of base pages.
pub(super) struct TlbReach {
    /// The number of translations; `None` if no TLB is stated.
    entries: Option<u32>,
    walks: Vec<(Bytes, f64)>,
}

/// The best fit for one capacity.
#[derive(Debug, Clone, Copy)]
struct CapacityFit {
    capacity: Bytes,
    entries: Option<u32>,
    walk_ns: f64,
    /// The fitted hit time; `None` if the hits do not determine it.
    hit_ns: Option<f64>,
    /// The sum of squared relative errors.
    off: f64,
}

/// The additional time of a walk, and of a hit, that is simulated to measure their influence.
const MORE_NS: [f64; 2] = [50.0, 10.0];
/// The fewest hits per line with which the hit time can be determined.
const FEWEST_HITS: f64 = 0.2;
/// The tried quarters of the stated translations that a guest may have.
const QUARTERS: [u32; 4] = [4, 3, 2, 1];

impl CapacityTrial {
    /// Simulates every set of every cache, because all lines of a page are touched.
    fn of(
        platform: &Platform,
        (place, capacity): (usize, Bytes),
        groups: &[SamplingGroup],
        sizes: &[Bytes],
    ) -> Result<Self, CalibrationError> {
        let mut platform = platform.clone();
        set_walk(&mut platform, 0.0, "");
        let hit_ns = stated_ns(platform.caches[place].latency.as_ref());
        let without = exactly(&platform, groups.to_vec(), OF_LARGE)?;
        let mut with = without.clone();
        let more = MORE_NS[1];
        if let Some(ns) = hit_ns {
            platform.caches[place].latency =
                Some(Fact::measured(Latency::from_nanos(ns + more), ""));
            with = exactly(&platform, groups.to_vec(), OF_LARGE)?;
        }
        let touches = sizes.iter().filter_map(|&wss| {
            let [ns, with] = [without.warm(wss)?, with.warm(wss)?].map(|it| it.median);
            Some(WarmTouch { wss, ns, hits: (with - ns) / more })
        });
        let touches = touches.collect();
        Ok(Self { capacity, hit_ns, bounds: bounds(&platform, place), touches })
    }

    /// Fits the times of walks and hits to these times per line, by least squares of relative errors.
    fn fit(&self, reach: &TlbReach, wanted: &[(Bytes, f64)]) -> CapacityFit {
        let all: Vec<RegressionRow> = wanted
            .iter()
            .filter_map(|(wss, live)| {
                let touch = self.touches.iter().find(|it| it.wss == *wss)?;
                let walks = reach.walks.iter().find(|it| it.0 == *wss).map_or(0.0, |it| it.1);
                Some(((live - touch.ns) / live, [walks / live, touch.hits / live]))
            })
            .collect();
        let told = self.touches.iter().any(|it| it.hits >= FEWEST_HITS);
        let stated = self.hit_ns.filter(|_| told);
        let of_hits = stated.map_or([0.0, 0.0], |ns| self.bounds.map(|bound| bound - ns));
        let ([walk_ns, more], off) = least_squares(&all, [[0.0, f64::INFINITY], of_hits]);
        let hit_ns = stated.map(|ns| ns + more);
        CapacityFit { capacity: self.capacity, entries: reach.entries, walk_ns, hit_ns, off }
    }
}

/// The best fit over all capacities, with the stated translations unless another number fits better.
fn best(
    trials: &[CapacityTrial],
    reaches: &[TlbReach],
    wanted: &[(Bytes, f64)],
) -> Option<CapacityFit> {
    let with = |reach: &TlbReach| {
        let fits = trials.iter().map(|trial| trial.fit(reach, wanted));
        fits.min_by(|a, b| a.off.total_cmp(&b.off))
    };
    let all: Vec<CapacityFit> = reaches.iter().filter_map(with).collect();
    let least = all.iter().map(|it| it.off).fold(f64::INFINITY, f64::min);
    all.into_iter().find(|it| it.off <= least + ALIKE)
}

/// The page-table walks with the stated translations, and with fractions of them. Walks do not depend on the caches.
fn reaches(
    platform: &Platform,
    stated: Option<&Tlb>,
    groups: &[SamplingGroup],
    sizes: &[Bytes],
) -> Result<Vec<TlbReach>, CalibrationError> {
    let mut platform = platform.clone();
    set_walk(&mut platform, 0.0, "");
    let Some(tlb) = stated else {
        return Ok(vec![TlbReach { entries: None, walks: Vec::new() }]);
    };
    let (stated, ways) = (tlb.entries.value, tlb.ways.as_ref().map(|ways| ways.value));
    let without = exactly(&platform, groups.to_vec(), OF_LARGE)?;
    let more = MORE_NS[0];
    let all = QUARTERS.map(|quarters| quarters_of(stated, ways, quarters));
    let reach = |at: usize| {
        let mut platform = platform.clone();
        set_walk(&mut platform, more, "");
        set_entries(&mut platform, Fact::measured(all[at], ""));
        let with = exactly(&platform, groups.to_vec(), OF_LARGE)?;
        let walks = sizes.iter().filter_map(|&wss| {
            let [without, with] = [without.warm(wss)?, with.warm(wss)?].map(|it| it.median);
            Some((wss, (with - without) / more))
        });
        Ok(TlbReach { entries: Some(all[at]), walks: walks.collect() })
    };
    side_by_side(0..all.len(), reach).into_iter().collect()
}

/// The given number of quarters of a TLB's translations, in whole sets.
fn quarters_of(stated: u32, ways: Option<u32>, quarters: u32) -> u32 {
    let ways = ways.unwrap_or(1).max(1);
    (stated / 4 * quarters / ways).max(1) * ways
}

/// A target value, and the multipliers of the two factors.
type RegressionRow = (f64, [f64; 2]);

/// The two factors within bounds that minimise the squared differences to the target values, and the remaining sum of
/// squares.
///
/// The sum is convex. The minimum of the sum is where both factors are free, or where one factor is at a bound and
/// the other is free or at a bound.
fn least_squares(rows: &[RegressionRow], bounds: [[f64; 2]; 2]) -> ([f64; 2], f64) {
    let sum = |of: &dyn Fn(&RegressionRow) -> f64| rows.iter().map(of).sum::<f64>();
    let squares = [0, 1].map(|at| sum(&|it| it.1[at] * it.1[at]));
    let products = [0, 1].map(|at| sum(&|it| it.0 * it.1[at]));
    let both = sum(&|it| it.1[0] * it.1[1]);
    let clamped = |x: f64, at: usize| {
        let [low, high] = bounds[at];
        if x.is_finite() { x.clamp(low, high) } else { 0.0_f64.clamp(low, high) }
    };
    // One is fixed.
    let other = |at: usize, fixed: f64| {
        let free = clamped((products[1 - at] - fixed * both) / squares[1 - at], 1 - at);
        if at == 0 { [fixed, free] } else { [free, fixed] }
    };
    let det = squares[0] * squares[1] - both * both;
    let free = [
        (products[0] * squares[1] - products[1] * both) / det,
        (products[1] * squares[0] - products[0] * both) / det,
    ];
    let inside = (0..2).all(|at| free[at] >= bounds[at][0] && free[at] <= bounds[at][1]);
    let at_bounds = [0, 1].into_iter().flat_map(|at| {
        bounds[at].into_iter().filter(|it| it.is_finite()).map(move |bound| (at, bound))
    });
    let candidates = inside.then_some(free).into_iter();
    let candidates = candidates.chain(at_bounds.map(|(at, bound)| other(at, bound)));
    let off = |x: &[f64; 2]| sum(&|it| (it.0 - x[0] * it.1[0] - x[1] * it.1[1]).powi(2));
    let all = candidates.map(|x| (x, off(&x)));
    all.min_by(|a, b| a.1.total_cmp(&b.1)).unwrap_or(([0.0; 2], f64::INFINITY))
}

/// The bounds of the hit time of the cache at index `place`.
fn bounds(platform: &Platform, place: usize) -> [f64; 2] {
    let cpu = platform.caches[place].instances.value.cpus().first();
    let level = platform.caches[place].level;
    let inside = cpu.into_iter().flat_map(|cpu| platform.data_caches(cpu));
    let inside = inside.filter(|cache| cache.level < level).max_by_key(|cache| cache.level);
    let low = inside.and_then(|cache| stated_ns(cache.latency.as_ref())).unwrap_or(0.0);
    let high = stated_ns(platform.memory.local.as_ref()).unwrap_or(LONGEST_NS);
    [low, high.max(low)]
}

/// The name of the number of translations in the last TLB.
const ENTRIES: &str = "tlb, entries";

/// The last TLB of base pages.
fn last_tlb(platform: &Platform) -> Option<&Tlb> {
    last_tlb_place(platform).map(|place| &platform.tlbs[place])
}

fn last_tlb_place(platform: &Platform) -> Option<usize> {
    let base = Bytes::from_kib(4);
    let of_base = platform.tlbs.iter().enumerate();
    let of_base = of_base.filter(|(_, tlb)| tlb.pages.value.contains(&base));
    of_base.max_by_key(|(_, tlb)| tlb.level).map(|(place, _)| place)
}

/// Sets the time of a page-table walk for pages of 4 KiB. Returns false if the platform states no TLB for these
/// pages.
fn set_walk(platform: &mut Platform, ns: f64, how: &str) -> bool {
    let place = last_tlb_place(platform);
    if let Some(place) = place {
        platform.tlbs[place].penalty = Fact::measured(Latency::from_nanos(ns), how);
    }
    place.is_some()
}

/// Sets the number of translations in the last TLB of base pages.
fn set_entries(platform: &mut Platform, entries: Fact<u32>) {
    if let Some(place) = last_tlb_place(platform) {
        platform.tlbs[place].entries = entries;
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
        // A second time those around what was found.
        assert_eq!(near(large.clone(), None), large);
        assert_eq!(near(large.clone(), Some(Bytes::from_mib(16)))[..], large[..5]);
        assert_eq!(near(large.clone(), Some(Bytes::from_mib(32)))[..], large[..5]);
    }

    fn trial(touches: &[(u64, f64, [f64; 2])]) -> (CapacityTrial, TlbReach) {
        let touch = |&(kib, ns, [_, hits]): &(u64, f64, [f64; 2])| WarmTouch {
            wss: Bytes::from_kib(kib),
            ns,
            hits,
        };
        let walks = |&(kib, _, [walks, _]): &(u64, f64, [f64; 2])| (Bytes::from_kib(kib), walks);
        let trial = CapacityTrial {
            capacity: Bytes::from_mib(8),
            hit_ns: Some(20.0),
            bounds: [4.0, 100.0],
            touches: touches.iter().map(touch).collect(),
        };
        (trial, TlbReach { entries: Some(1_024), walks: touches.iter().map(walks).collect() })
    }

    fn wanted(live: &[(u64, f64)]) -> Vec<(Bytes, f64)> {
        live.iter().map(|&(kib, ns)| (Bytes::from_kib(kib), ns)).collect()
    }

    #[test]
    fn a_walk_is_fitted_by_what_it_adds_to_the_sizes_that_need_it() {
        let (trial, reach) =
            trial(&[(64, 4.0, [0.0, 0.0]), (8_192, 50.0, [0.5, 0.0]), (16_384, 100.0, [1.0, 0.0])]);
        let fitted = trial.fit(&reach, &wanted(&[(64, 4.0), (8_192, 70.0), (16_384, 140.0)]));
        assert!((fitted.walk_ns - 40.0).abs() < 1e-9 && fitted.off < 1e-9, "{fitted:?}");
        assert_eq!(fitted.hit_ns, None, "no working set hits");
        // Where everything is faster than simulated, no walk makes it so.
        assert!(trial.fit(&reach, &wanted(&[(8_192, 20.0)])).walk_ns < 1e-12);
    }

    #[test]
    fn a_hit_is_fitted_by_the_sizes_that_have_some_and_lies_between_its_neighbours() {
        let (trial, reach) = trial(&[
            (2_048, 20.0, [0.0, 1.0]),
            (4_096, 22.0, [0.1, 0.9]),
            (16_384, 100.0, [1.0, 0.0]),
        ]);
        let live = |hit: f64, walk: f64| {
            [(2_048, hit), (4_096, 4.0 + 0.9 * hit + 0.1 * walk), (16_384, 100.0 + walk)]
        };
        let fitted = trial.fit(&reach, &wanted(&live(15.0, 30.0)));
        assert!((fitted.hit_ns.unwrap() - 15.0).abs() < 1e-9, "{fitted:?}");
        assert!((fitted.walk_ns - 30.0).abs() < 1e-9 && fitted.off < 1e-12, "{fitted:?}");
        // Not faster than the cache inside, nor slower than memory.
        assert_eq!(trial.fit(&reach, &wanted(&live(1.0, 0.0))).hit_ns, Some(4.0));
        assert_eq!(trial.fit(&reach, &wanted(&live(300.0, 0.0))).hit_ns, Some(100.0));
    }

    #[test]
    fn least_squares_within_bounds_are_no_worse_than_any_place_of_a_grid() {
        let rows = [(1.0, [1.0, 0.5]), (0.2, [0.5, 1.0]), (-0.7, [0.1, 0.9]), (0.4, [0.8, 0.8])];
        let off = |x: [f64; 2]| {
            rows.iter()
                .map(|(value, each)| (value - x[0] * each[0] - x[1] * each[1]).powi(2))
                .sum::<f64>()
        };
        for bounds in [[[0.0, 2.0], [0.0, 2.0]], [[0.0, 0.5], [-0.2, 2.0]], [[-5.0, 5.0]; 2]] {
            let (found, left) = least_squares(&rows, bounds);
            assert!((off(found) - left).abs() < 1e-12);
            for step in 0..=40 * 40 {
                let at = |it: usize, step: i32| {
                    bounds[it][0] + (bounds[it][1] - bounds[it][0]) * f64::from(step) / 40.0
                };
                let place = [at(0, step % 41), at(1, step / 41)];
                assert!(off(place) >= left - 1e-12, "{place:?} is better than {found:?}");
            }
        }
    }

    #[test]
    fn fewer_translations_are_found_where_working_sets_become_slow_before_the_stated_ones_are_full()
    {
        let (trial, stated) = trial(&[
            (2_048, 20.0, [0.0, 1.0]),
            (4_096, 100.0, [0.0, 0.0]),
            (16_384, 100.0, [1.0, 0.0]),
        ]);
        let half = [(2_048, 0.0), (4_096, 0.8), (16_384, 1.0)];
        let walks = half.map(|(kib, walks)| (Bytes::from_kib(kib), walks)).to_vec();
        let reaches = [stated, TlbReach { entries: Some(512), walks }];
        let trials = [trial];
        let entries = |live: &[(u64, f64)]| best(&trials, &reaches, &wanted(live)).unwrap().entries;
        assert_eq!(entries(&[(2_048, 20.0), (4_096, 180.0), (16_384, 200.0)]), Some(512));
        assert_eq!(entries(&[(2_048, 20.0), (4_096, 100.0), (16_384, 200.0)]), Some(1_024));
        // Where both do as well, what is stated holds.
        assert_eq!(entries(&[(2_048, 20.0), (4_096, 100.0), (16_384, 100.0)]), Some(1_024));
        assert_eq!([4, 3, 1].map(|it| quarters_of(3_072, Some(8), it)), [3_072, 2_304, 768]);
        assert_eq!([4, 2, 1].map(|it| quarters_of(6, Some(6), it)), [6, 6, 6]);
    }
}
