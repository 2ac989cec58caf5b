// SPDX-License-Identifier: MIT OR Apache-2.0
//! Study counts as integers, and the shares with their intervals.

use corehop_stats::binomial;

/// The two-sided 95 % point of the normal distribution.
const Z: f64 = 1.959_963_984_540_054;
/// The probability that the true value lies beyond one given end of an interval.
const TAIL: f64 = 0.025;

/// The number of sets, the sum of one whole number per set, and the sum of the squares of these numbers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SetMoments {
    /// The number of sets.
    pub sets: u64,
    /// The sum of the numbers.
    pub sum: i64,
    /// The sum of the squares.
    pub square: i64,
}

/// An estimate with its 95 % interval.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize)]
pub struct ShareEstimate {
    /// The estimated share.
    pub value: f64,
    /// The lower end of the 95 % interval.
    pub low: f64,
    /// The upper end of the 95 % interval.
    pub high: f64,
}

impl SetMoments {
    /// Adds the number of one set.
    pub fn add(&mut self, value: i64) {
        self.sets += 1;
        self.sum += value;
        self.square += value * value;
    }
    /// Adds another tally.
    pub fn merge(&mut self, other: Self) {
        self.sets += other.sets;
        self.sum += other.sum;
        self.square += other.square;
    }
    /// The mean of the numbers, or `None` without sets.
    pub fn mean(self) -> Option<f64> {
        (self.sets > 0).then(|| self.sum as f64 / self.sets as f64)
    }
    /// Returns the share of counted sets, with the interval of Clopper and Pearson (Biometrika 26, 1934), which covers
    /// the true share in at least 95 of 100 cases.
    pub fn share(self) -> Option<ShareEstimate> {
        let value = self.mean()?;
        let (n, hits) = (self.sets as usize, self.sum.max(0) as usize);
        let low = if hits == 0 { 0.0 } else { solve(|p| binomial::at_least(n, p, hits) < TAIL) };
        let high = if hits >= n { 1.0 } else { solve(|p| binomial::at_most(n, p, hits) >= TAIL) };
        Some(ShareEstimate { value, low, high })
    }
    /// The mean of numbers from 0 to `most`, as a share of `most`. The interval is that of Agresti and Coull (The
    /// American Statistician 52, 1998), generalised from counts. Two observations of 0 and two of `most` are added
    /// (`Z²/2` each, to be exact), so the interval has a width even if all numbers are equal.
    pub fn mean_of(self, most: u64) -> Option<ShareEstimate> {
        let (mean, most) = (self.mean()?, most as f64);
        let count = self.sets as f64 + Z * Z;
        let middle = (self.sum as f64 / most + Z * Z / 2.0) / count;
        let square = (self.square as f64 / (most * most) + Z * Z / 2.0) / count;
        let reach = Z * ((square - middle * middle).max(0.0) / count).sqrt();
        let (low, high) = ((middle - reach).max(0.0), (middle + reach).min(1.0));
        let value = mean / most;
        Some(ShareEstimate { value, low: low.min(value), high: high.max(value) })
    }
    /// The distance of the mean above zero, in standard errors; `None` if unknown. Paired numbers differ by at most
    /// `most`; one pair with the difference `most` and one with `-most` are added.
    pub(super) fn errors_above_zero(self, most: u64) -> Option<f64> {
        self.mean()?;
        let (count, most) = (self.sets as f64 + 2.0, most as f64);
        let mean = self.sum as f64 / count;
        let square = (self.square as f64 + 2.0 * most * most) / count;
        Some(mean / ((square - mean * mean) / count).sqrt())
    }
    /// The half-width of the interval in standard errors.
    pub(super) const REACH: f64 = Z;
}

/// The largest probability up to which `holds` is true; `holds` must be true from 0 to that probability.
fn solve(holds: impl Fn(f64) -> bool) -> f64 {
    let (mut low, mut high) = (0.0, 1.0);
    for _ in 0..50 {
        let middle = f64::midpoint(low, high);
        if holds(middle) { low = middle } else { high = middle }
    }
    f64::midpoint(low, high)
}

#[cfg(test)]
mod tests {
    use super::*;
    use corehop_plan::workload::draw::DrawStream;

    #[test]
    fn intervals_of_shares_are_those_of_the_textbook() {
        // 4 of 10: Clopper and Pearson give 0.1216 to 0.7376; 0 of 10 gives 1 - 0.025^(1/10) = 0.3085.
        let share = SetMoments { sets: 10, sum: 4, square: 4 }.share().unwrap();
        assert!((share.low - 0.1216).abs() < 1e-4 && (share.high - 0.7376).abs() < 1e-4);
        let none = SetMoments { sets: 10, sum: 0, square: 0 }.share().unwrap();
        assert!(none.low <= 0.0 && (none.high - 0.3085).abs() < 1e-4, "{none:?}");
        let all = SetMoments { sets: 10, sum: 10, square: 10 }.share().unwrap();
        assert!(all.high >= 1.0 && (all.low - 0.6915).abs() < 1e-4, "{all:?}");
        assert_eq!(SetMoments::default().share(), None);
    }

    #[test]
    fn a_mean_of_equal_numbers_has_an_interval_all_the_same() {
        let mut tally = SetMoments::default();
        (0..1_000).for_each(|_| tally.add(7));
        let mean = tally.mean_of(7).unwrap();
        assert!(mean.value >= 1.0 && mean.high >= 1.0);
        assert!((0.990..0.998).contains(&mean.low), "{mean:?}");
    }

    /// The share of 10,000 repetitions in which the interval contains the true value.
    fn coverage(
        seed: u64,
        truth: f64,
        mut draw: impl FnMut(&mut DrawStream) -> Option<ShareEstimate>,
    ) -> f64 {
        let covers = |index: u64| {
            let estimate = draw(&mut DrawStream::of_set(seed, index)).unwrap();
            estimate.low <= truth && truth <= estimate.high
        };
        (0..10_000).map(covers).filter(|&covers| covers).count() as f64 / 10_000.0
    }

    #[test]
    fn intervals_of_shares_cover_in_94_of_100_cases_at_least() {
        for (seed, (sets, p)) in
            [(20, 0.5), (50, 0.05), (50, 0.93), (200, 0.005), (200, 0.3)].into_iter().enumerate()
        {
            let covered = coverage(seed as u64, p, |stream| {
                let mut tally = SetMoments::default();
                (0..sets).for_each(|_| tally.add(i64::from(stream.unit() < p)));
                tally.share()
            });
            assert!(covered >= 0.94, "{sets} {p}: {covered}");
        }
    }

    #[test]
    fn intervals_of_weighted_means_cover_in_94_of_100_cases_at_least() {
        // A set is schedulable up to a cap that is uniform over the first `reach` of ten, weighted by rank:
        // the score of cap k is 1 + ... + k, of at most 55.
        let score = |k: u64| k * (k + 1) / 2;
        for (seed, (sets, reach)) in [(40, 10), (40, 3), (200, 9), (200, 1)].into_iter().enumerate()
        {
            let truth = (1..=reach).map(score).sum::<u64>() as f64 / reach as f64 / 55.0;
            let covered = coverage(100 + seed as u64, truth, |stream| {
                let mut tally = SetMoments::default();
                (0..sets).for_each(|_| tally.add(score(1 + stream.below(reach)) as i64));
                tally.mean_of(55)
            });
            assert!(covered >= 0.94, "{sets} {reach}: {covered}");
        }
        // Rarely anything but all: the law that intervals find hardest.
        for (seed, (sets, p)) in [(100, 0.02), (1_000, 0.001)].into_iter().enumerate() {
            let truth = 1.0 - p * 54.0 / 55.0;
            let covered = coverage(200 + seed as u64, truth, |stream| {
                let mut tally = SetMoments::default();
                let score = |rare: bool| if rare { 1 } else { 55 };
                (0..sets).for_each(|_| tally.add(score(stream.unit() < p)));
                tally.mean_of(55)
            });
            assert!(covered >= 0.94, "{sets} {p}: {covered}");
        }
    }
}
