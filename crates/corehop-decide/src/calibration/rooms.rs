// SPDX-License-Identifier: MIT OR Apache-2.0
//! Fits the room that working sets find in the second cache level to the durations of warm touches.

use corehop_plan::parallel::side_by_side;
use corehop_plan::platform::{Check, Fact, Platform, Replacement};
use corehop_plan::units::Bytes;
use corehop_plan::workload::{Event, Page};

use super::cells::{SIZES, last_level, near_second, second_level};
use super::fit::{CalibrationError, CalibrationFit, FactEstimate, listed};
use super::trial::{IdleLineTimes, simulated};

/// The number of simulated samples of a working set near the size of the second level, where page frames and orders
/// matter.
const OF_SECOND: u32 = 3;
/// The number of parts into which a stated size is divided.
const WHOLE: u64 = 64;
/// The tried parts of the stated second level.
const PARTS_OF_SECOND: [u64; 6] = [64, 56, 48, 32, 16, 8];
/// Two descriptions are alike if their sums of squared logarithms differ by less than this value.
pub(super) const ALIKE: f64 = 0.02;

impl CalibrationFit {
    /// Fits the room in the second level and its replacement: the capacity and policy with which simulated warm
    /// touches near the stated size take as long as live ones. A thread of another guest may occupy a part of the
    /// cache, and few caches replace strictly by age.
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
                "second level: no warm touches near its size, or no such cache; unchanged"
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
            set_room(&mut platform, place, stated, all[at]);
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
        // As it is stated, by age, unless something else does better; of another size by age too.
        let by_age =
            |it: &&(f64, (Bytes, Replacement))| it.0 <= least + ALIKE && it.1.1 == Replacement::Lru;
        let mut usual = trials.iter().filter(by_age).map(|it| it.1);
        let whole = usual.clone().find(|it| it.0 == stated);
        let (capacity, policy) = whole.or_else(|| usual.next()).unwrap_or((capacity, policy));
        set_room(&mut self.platform, place, stated, (capacity, policy));
        let alike = trials.iter().filter(|it| it.0 <= least + ALIKE).map(|it| it.1.0);
        let (low, high) = (alike.clone().min(), alike.max());
        let number = FactEstimate {
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

impl CalibrationFit {
    /// Determines whether the host backs a guest's memory with small pages. If the host does, a working set near the
    /// size of the second level is no faster on a huge page.
    fn backing(&mut self, near: &[Bytes; 2]) {
        let on = |wss, page| Some(self.live.warm_on(wss, page)?.median);
        let gain = |&wss: &Bytes| Some((on(wss, Page::Transparent)? / on(wss, Page::Base)?).ln());
        let gains: Vec<f64> = near.iter().filter_map(gain).collect();
        let gain = gains.iter().sum::<f64>() / gains.len() as f64;
        if !gains.is_empty() && gain > NO_FASTER {
            let how = format!("warm touches of {} are no faster on huge pages", listed(near));
            self.platform.pages.backing = Some(Fact::measured(Bytes::from_kib(4), how));
            self.enter(FactEstimate {
                fact: "pages, backing".to_owned(),
                value: "4 KiB".to_owned(),
                interval: None,
                cells: format!("warm touches of {} on both kinds of pages", listed(near)),
                n: self.live.samples_of(Event::None, near),
            });
        }
    }
}

/// The logarithm of a ratio, time on huge pages over time on small pages, above which huge pages bring no gain.
const NO_FASTER: f64 = -0.15;

/// The distance between warm touches: the sum of the squared logarithms of ratios.
fn off(live: &[(Bytes, Page, f64)], times: &IdleLineTimes) -> f64 {
    let each = live
        .iter()
        .filter_map(|&(wss, page, ns)| Some((times.warm_on(wss, page)?.median / ns).ln().powi(2)));
    each.sum()
}

/// Sets the room in a cache, and its replacement policy.
fn set_room(
    platform: &mut Platform,
    place: usize,
    stated: Bytes,
    (found, policy): (Bytes, Replacement),
) {
    set_capacity(platform, place, found, stated);
    let on = "warm touches by size";
    platform.caches[place].mechanism.replacement = Some(Fact::fitted(policy, on));
}

pub(super) fn share_of(stated: Bytes, part: u64) -> Bytes {
    Bytes::new(stated.get() * part / WHOLE)
}

/// Sets the cache capacity that is available to working sets.
pub(super) fn set_capacity(platform: &mut Platform, place: usize, found: Bytes, stated: Bytes) {
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
