// SPDX-License-Identifier: MIT OR Apache-2.0
//! The break-even point of a core switch with its interval, and whether a second worker would have been the better use
//! of the other core.
//!
//! All values are computed in each replicate and decided by the median over replicates. If the interval of the median
//! includes both signs, or if there are too few replicates for an interval, the evidence is not sufficient.

use std::collections::BTreeMap;

use serde::Serialize;

use super::super::replicates::Nested;
use super::ALPHA;

/// The median times of a mechanism, by seed and replicate.
pub(super) type Medians = BTreeMap<(u64, u64), f64>;

/// A difference of times in nanoseconds, as a median over replicates.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct MedianDifference {
    /// The estimate of the difference in nanoseconds.
    pub ns: f64,
    /// The ends of the interval, or `None` for fewer than six replicates.
    pub interval: Option<(f64, f64)>,
    /// The number of replicates behind the difference.
    pub replicates: usize,
}

/// The break-even point of a switch.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "snake_case", tag = "when")]
pub enum Pays {
    /// The switch pays if the call is faster by this time on the other core; a value of 0 or less means that it always
    /// pays.
    FasterThere(MedianDifference),
    /// The switch pays if the caller has at least this much own work per call; 0 means that it always pays.
    OwnWork(MedianDifference),
    /// The switch never pays because the caller's part of a switch takes as long as the call.
    Never {
        /// The caller's part of a switch, in nanoseconds.
        part_ns: f64,
        /// The number of replicates behind `part_ns`.
        replicates: usize,
    },
    /// The interval of the deciding difference includes both signs, or there is no interval.
    NotEnough(MedianDifference),
    /// The caller's part, or the call without a switch, was not measured.
    Unknown,
}

/// The own work per call with which a switch is better than a second worker thread on the other core.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "snake_case", tag = "when")]
pub enum Instead {
    /// A switch is better if the own work is between the times `from` and `to`.
    OwnWork {
        /// The own work from which the other core keeps up with the caller.
        from: MedianDifference,
        /// The own work from which a second worker, which takes half of it, saves more time than the switch.
        to: MedianDifference,
    },
    /// A switch is never better: the second worker saves at least this time per call.
    Never(MedianDifference),
    /// The interval of the deciding difference includes both signs, or there is no interval.
    NotEnough(MedianDifference),
    /// The second worker, or the caller's part, was not measured.
    Unknown,
}

/// The sign of a difference, as far as its interval determines it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sign {
    Above,
    /// The difference is negative or zero.
    NotAbove,
    Both,
}

impl MedianDifference {
    /// Returns the difference with one value for each replicate.
    fn of(values: &[f64]) -> Option<Self> {
        let groups = values.iter().map(|&value| vec![value]).collect();
        let between = Nested::new(groups).ok()?.median(ALPHA).ok()?;
        let interval = between.interval.map(|it| (it.low, it.high));
        Some(Self { ns: between.estimate, interval, replicates: between.replicates })
    }

    fn sign(&self) -> Sign {
        match self.interval {
            Some((low, _)) if low > 0.0 => Sign::Above,
            Some((_, high)) if high <= 0.0 => Sign::NotAbove,
            _ => Sign::Both,
        }
    }

    /// Returns the difference limited to zero or more, because own work cannot be negative.
    fn above_zero(self) -> Self {
        let interval = self.interval.map(|(low, high)| (low.max(0.0), high.max(0.0)));
        Self { ns: self.ns.max(0.0), interval, ..self }
    }
}

/// The times of a call with one mechanism, and the times with which they are compared.
pub(super) struct SwitchMedians {
    pub(super) outstanding: u64,
    pub(super) way: Medians,
    /// The time of the call without a switch.
    pub(super) none: Option<Medians>,
    /// An upper bound of the caller's part of a switch.
    pub(super) part: Option<Medians>,
    /// The time of the call with two workers, each on its own core.
    pub(super) two: Option<Medians>,
}

impl SwitchMedians {
    /// Returns a value computed for each replicate that all inputs have.
    fn each<const N: usize>(
        of: [Option<&Medians>; N],
        value: impl Fn([f64; N]) -> f64,
    ) -> Option<MedianDifference> {
        let values = of[0]?.keys().filter_map(|replicate| {
            let mut times = [0.0; N];
            for (time, medians) in times.iter_mut().zip(of) {
                *time = *medians?.get(replicate)?;
            }
            Some(value(times))
        });
        MedianDifference::of(&values.collect::<Vec<_>>())
    }

    /// Returns the break-even point for a single thread that can use the other core without cost.
    pub(super) fn pays(&self) -> Pays {
        let (way, none, part) = (Some(&self.way), self.none.as_ref(), self.part.as_ref());
        let Some(longer) = Self::each([way, none], |[way, none]| way - none) else {
            return Pays::Unknown;
        };
        if self.outstanding == 1 {
            let is_told = longer.sign() != Sign::Both;
            return if is_told { Pays::FasterThere(longer) } else { Pays::NotEnough(longer) };
        }
        let Some(saved) = Self::each([none, part, way], |[none, part, _]| none - part) else {
            return Pays::Unknown;
        };
        match saved.sign() {
            Sign::Above if longer.interval.is_none() => Pays::NotEnough(longer),
            Sign::Above => Pays::OwnWork(longer.above_zero()),
            Sign::Both => Pays::NotEnough(saved),
            Sign::NotAbove => {
                let part = Self::each([part, none], |[part, _]| part);
                let (part_ns, replicates) = part.map_or((f64::NAN, 0), |it| (it.ns, it.replicates));
                Pays::Never { part_ns, replicates }
            }
        }
    }

    /// Returns the break-even point if a second worker could make calls and do own work on the other core instead.
    ///
    /// The two workers need `two + w/2` per call with `w` of own work, and a caller with a partner needs
    /// `max(way, w + part)`. A caller that waits for each call needs `way + w`.
    pub(super) fn instead(&self) -> Instead {
        let (way, two) = (Some(&self.way), self.two.as_ref());
        let waits = self.outstanding == 1;
        let part = if waits { way } else { self.part.as_ref() };
        let of = [way, part, two];
        // The least lead of the second worker: at the own work from which the other core keeps up.
        let lead = |[way, part, two]: [f64; 3]| {
            let own = (way - part).max(0.0);
            way.max(own + part) - two - own / 2.0
        };
        let Some(lead) = Self::each(of, lead) else { return Instead::Unknown };
        let from = |[way, _, two]: [f64; 3]| if waits { 0.0 } else { (2.0 * (way - two)).max(0.0) };
        let ends = (Self::each(of, from), Self::each(of, |[_, part, two]| 2.0 * (two - part)));
        match (lead.sign(), ends) {
            (Sign::Above, _) => Instead::Never(lead),
            (Sign::NotAbove, (Some(from), Some(to))) => Instead::OwnWork { from, to },
            _ => Instead::NotEnough(lead),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn medians(of: impl Fn(f64) -> f64, replicates: u64) -> Medians {
        (0..replicates).map(|it| ((1, it), of(it as f64))).collect()
    }

    fn beside(outstanding: u64, [way, none, part, two]: [f64; 4], noise: f64) -> SwitchMedians {
        let some = |ns: f64| Some(medians(|_| ns, 8));
        let draws = [0.3, -0.9, 0.5, 1.0, -0.4, -1.0, 0.8, -0.3];
        let way = medians(|it| way + noise * draws[it as usize], 8);
        SwitchMedians { outstanding, way, none: some(none), part: some(part), two: some(two) }
    }

    #[test]
    fn a_difference_of_both_signs_is_not_enough_evidence_and_one_of_a_single_sign_is() {
        let pays = |noise| beside(1, [105.0, 100.0, 0.0, 50.0], noise).pays();
        let Pays::FasterThere(point) = pays(1.0) else { panic!("{:?}", pays(1.0)) };
        assert_eq!((point.ns, point.replicates), (5.0, 8));
        assert!(point.interval.is_some_and(|(low, high)| low > 3.0 && high < 7.0), "{point:?}");
        assert!(matches!(pays(10.0), Pays::NotEnough(_)), "{:?}", pays(10.0));
        let few = SwitchMedians {
            way: medians(|_| 105.0, 3),
            ..beside(1, [105.0, 100.0, 0.0, 50.0], 0.0)
        };
        let Pays::NotEnough(point) = few.pays() else { panic!("{:?}", few.pays()) };
        assert_eq!((point.interval, point.replicates), (None, 3));
    }

    #[test]
    fn a_second_worker_halves_what_a_partner_saves() {
        // A call of 1,000 ns, by two workers 500; the partner takes 600 for one, and the caller's part is 100.
        let instead = beside(16, [600.0, 1_000.0, 100.0, 500.0], 0.0).instead();
        let Instead::OwnWork { from, to } = instead else { panic!("{instead:?}") };
        // 600 = 500 + w/2, and w + 100 = 500 + w/2.
        assert_eq!((from.ns, to.ns), (200.0, 800.0));
        // A caller's part of half the call leaves nothing.
        let never = beside(16, [600.0, 1_000.0, 500.0, 500.0], 0.0).instead();
        assert!(matches!(never, Instead::Never(_)), "{never:?}");
        // Who waits has to be twice as fast there.
        let waits = |way| beside(1, [way, 1_000.0, 100.0, 500.0], 0.0).instead();
        let Instead::OwnWork { to, .. } = waits(400.0) else { panic!("{:?}", waits(400.0)) };
        assert!((to.ns - 200.0).abs() < 1e-9);
        let Instead::Never(by) = waits(1_240.0) else { panic!("{:?}", waits(1_240.0)) };
        assert!((by.ns - 740.0).abs() < 1e-9);
        let unknown =
            SwitchMedians { two: None, ..beside(16, [600.0, 1_000.0, 100.0, 500.0], 0.0) };
        assert_eq!(unknown.instead(), Instead::Unknown);
    }
}
