// SPDX-License-Identifier: MIT OR Apache-2.0
//! The number and positions of the levels of exchanges.
//!
//! **Dense values.** Values are counted in cells of 1 % (in the logarithm). Only values with enough
//! company ([`SHARE`] of all values within 10 %) determine the number of levels. Disturbed exchanges
//! are scattered upward and have no company.
//!
//! **Pieces.** The number of clusters follows from the gap statistic (Tibshirani, Walther and Hastie,
//! Journal of the Royal Statistical Society B 63(2), 2001) of the logarithms. `Gap(k)` is the
//! difference between the logarithms of the sum of squares within `k` clusters for uniform values
//! over the same range and for the actual values. The clusters are exact (dynamic programming over
//! cells). The number is the smallest one whose gap is within one standard error of the largest gap;
//! the first rise, which the paper uses, misses three levels at equal distances. Cells are weighted
//! with the root of their counts, so that a level of 2 % still counts beside a level of 98 %. The
//! root of a log-concave density is log-concave, so uniform values remain the hardest case of one
//! cluster (their theorem 1).
//!
//! **Levels.** Pieces that are not apart are joined again, the closest pieces first. The algorithm
//! keeps two pieces apart if three conditions hold. Their medians differ at least by [`RELEVANT`].
//! The stretch between the two pieces (95 % of the nearer to 5 % of the farther) is longer than both
//! half spreads that face it. The values in its middle are [`THINNER`] than in either piece. The two
//! halves of one peak never satisfy the three conditions.
//!
//! **Certainty.** The certainty is the share of resamples with the same number of levels, as for the
//! branches of a tree (Felsenstein, Evolution 39(4), 1985; for clusters Jain and Moreau, Pattern
//! Recognition 20(5), 1987). Exchanges depend on each other over seconds, so whole blocks of
//! neighbours are redrawn (circular block bootstrap, Politis and Romano, 1992, with the block length
//! of [`moments`]).

use std::ops::Range;

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use super::ExchangeLevel;
use crate::moments;

/// The smallest share of all exchanges that forms a level.
pub const SHARE: f64 = 0.01;

/// The smallest number of exchanges that forms a level; two or three exchanges can be a single
/// disturbance.
pub const FEWEST: usize = 4;

/// The ratio of medians below which two levels count as one.
///
/// The value concerns relevance, not detection: an exchange through caches takes a number of clock
/// cycles, and the clock of a server changes by half between base and boost frequency (2.4 and 3.7
/// GHz on an EPYC 9654). A guest whose exchanges took 30 to 60 ns has two states of its clock, at 31
/// and 46 ns. The two states of the clock can be distinguished, but they are not different distances.
/// Two classes of CPU pairs differ by a factor of about two or more.
pub const RELEVANT: f64 = 1.75;

/// The largest number of levels, from SMT siblings to no shared cache.
const MOST_LEVELS: usize = 4;
/// The largest number of pieces; a wide level can at first consist of several pieces.
const MOST_PIECES: usize = 6;
/// The width of a cell, as a difference of logarithms.
const CELL: f64 = 0.01;
/// The number of cells on each side of a value within which other values count as its company.
const COMPANY: usize = 10;
/// The smallest share of values with company at which cells without company are left out.
const CROWD: f64 = 0.9;
/// The factor by which values between two levels must be thinner than in the thinner level.
const THINNER: f64 = 3.0;
/// The number of values at which the correction doubles a spread; with more values, the correction
/// is smaller.
const WARY: f64 = 8.0;
/// The largest number of cells that are clustered; for a wider range, several cells are merged.
const GRID: usize = 100;
/// The number of sets of uniform values whose mean is the reference.
const SETS: usize = 20;
/// The seed of all random draws in this module.
const SEED: u64 = 0x6469_7374_616e_6365;
/// The number of resamples for the certainty of the number of levels.
const RESAMPLES: usize = 100;
/// The largest number of exchanges that are resampled, taken evenly from the run.
const RESAMPLED: usize = 5_000;

/// The exchanges of a run, with its levels in units of cells.
#[derive(Debug)]
pub(super) struct ExchangeRun {
    /// The shortest exchange in ns, at which the first cell begins.
    least: f64,
    /// The cell of each exchange, in the order of measurement.
    cells: Vec<usize>,
    reference: UniformReference,
    pieces: Vec<CellRange>,
}

impl ExchangeRun {
    /// Returns the run of positive, finite values in the order of measurement.
    pub(super) fn new(values: &[f64]) -> Self {
        let least = values.iter().copied().fold(f64::INFINITY, f64::min);
        // A difference of logarithms, since the quotient of two values may be infinite.
        let cell = |value: &f64| ((value.ln() - least.ln()) / CELL) as usize;
        let cells: Vec<usize> = values.iter().map(cell).collect();
        let reference = UniformReference::new(values.len());
        let pieces = pieces(&histogram(&cells), &reference);
        Self { least, cells, reference, pieces }
    }

    /// Returns the levels of the run, nearest first, described by their dense values.
    pub(super) fn levels(&self) -> Vec<ExchangeLevel> {
        self.pieces.iter().map(|piece| piece.level(self.least)).collect()
    }

    /// Returns the share of resamples with the same number of levels.
    pub(super) fn certainty(&self) -> f64 {
        let every = self.cells.len().div_ceil(RESAMPLED).max(1);
        let cells: Vec<usize> = self.cells.iter().copied().step_by(every).collect();
        let logs: Vec<f64> = cells.iter().map(|&cell| cell as f64).collect();
        let block = moments::block(&logs);
        let mut random = Pcg64Mcg::seed_from_u64(SEED);
        let mut same = || {
            let counts = histogram(&resample(&cells, block, &mut random));
            pieces(&counts, &self.reference).len() == self.pieces.len()
        };
        let same = (0..RESAMPLES).filter(|_| same()).count();
        same as f64 / RESAMPLES as f64
    }
}

fn histogram(cells: &[usize]) -> Vec<u32> {
    let mut counts = vec![0; cells.iter().max().map_or(0, |last| last + 1)];
    for &cell in cells {
        counts[cell] += 1;
    }
    counts
}

/// Returns the smallest number of `n` values that forms a level.
fn fewest(n: usize) -> usize {
    ((SHARE * n as f64).ceil() as usize).max(FEWEST)
}

/// Returns the counts of the cells whose values have company. If less than [`CROWD`] of the values
/// have company, the function returns the counts of all cells, because the values are then too few
/// or too scattered.
fn dense(counts: &[u32]) -> Vec<u32> {
    let mut below = vec![0_usize];
    for &count in counts {
        below.push(below[below.len() - 1] + count as usize);
    }
    let n = below[counts.len()];
    let fewest = fewest(n);
    let around = |cell: usize| {
        let last = (cell + COMPANY + 1).min(counts.len());
        below[last] - below[cell.saturating_sub(COMPANY)]
    };
    let kept = |(cell, &count): (usize, &u32)| if around(cell) >= fewest { count } else { 0 };
    let dense: Vec<u32> = counts.iter().enumerate().map(kept).collect();
    if (total(&dense) as f64) < CROWD * n as f64 { counts.to_vec() } else { dense }
}

/// Returns the number of values per cell in the middle third between two cells; the outer thirds
/// contain the tails of levels.
fn middle(counts: &[u32], end: f64, start: f64) -> f64 {
    let third = (start - end) / 3.0;
    let (first, last) = ((end + third) as usize, (start - third) as usize);
    let between = counts.get(first..last).unwrap_or_default();
    total(between) as f64 / between.len().max(1) as f64
}

fn total(counts: &[u32]) -> usize {
    counts.iter().map(|&count| count as usize).sum()
}

/// A range of neighbouring cells that form a level or a part of one.
#[derive(Debug, Clone, Copy, PartialEq)]
struct CellRange {
    /// The first cell of the range.
    start: usize,
    /// The cell after the last cell of the range.
    end: usize,
    /// The 5, 50 and 95 % quantiles, in cells.
    quantiles: [f64; 3],
    n: usize,
}

impl CellRange {
    /// Returns the range of the occupied cells within the given cells, or `None` if all cells are
    /// empty.
    fn new(counts: &[u32], range: Range<usize>) -> Option<Self> {
        let inner = occupied(&counts[range.clone()])?;
        let (start, end) = (range.start + inner.start, range.start + inner.end);
        let n = total(&counts[start..end]);
        let quantiles = [0.05, 0.5, 0.95].map(|p| {
            let (rank, mut below) = (((p * n as f64).ceil() as usize).max(1), 0);
            let reached = counts[start..end].iter().position(|&count| {
                below += count as usize;
                below >= rank
            });
            (start + reached.unwrap_or(0)) as f64 + 0.5
        });
        Some(Self { start, end, quantiles, n })
    }

    /// Returns the level in ns; `least` is the beginning of the first cell.
    fn level(&self, least: f64) -> ExchangeLevel {
        let [low_ns, median_ns, high_ns] =
            self.quantiles.map(|quantile| (least.ln() + quantile * CELL).exp());
        ExchangeLevel { median_ns, low_ns, high_ns, exchanges: self.n }
    }

    /// Returns the difference of the medians' logarithms.
    fn distance(&self, farther: &Self) -> f64 {
        (farther.quantiles[1] - self.quantiles[1]) * CELL
    }

    /// Returns whether the piece `farther` is another level; `counts` are the counts of all values.
    fn apart(&self, farther: &Self, counts: &[u32]) -> bool {
        let ([_, median, end], [start, farther_median, _]) = (self.quantiles, farther.quantiles);
        let facing = self.wary(end - median) + farther.wary(farther_median - start);
        let distance = self.distance(farther);
        distance >= RELEVANT.ln()
            && distance > 2.0 * facing * CELL
            && THINNER * middle(counts, end, start) <= self.density().min(farther.density())
    }

    /// Returns a spread in cells, widened because the spread of few values is underestimated.
    fn wary(&self, spread: f64) -> f64 {
        spread * (1.0 + WARY / self.n as f64)
    }

    /// Returns the number of all values in or near the piece.
    fn with_company(&self, counts: &[u32]) -> usize {
        total(&counts[self.start.saturating_sub(COMPANY)..(self.end + COMPANY).min(counts.len())])
    }

    /// Returns the number of values per cell in the piece's own range.
    fn density(&self) -> f64 {
        0.9 * self.n as f64 / (self.quantiles[2] - self.quantiles[0] + 1.0)
    }
}

/// Returns the levels of the given counts as pieces, nearest first; at least one piece if there are
/// values.
fn pieces(counts: &[u32], reference: &UniformReference) -> Vec<CellRange> {
    let dense = dense(counts);
    let Some(range) = occupied(&dense) else { return Vec::new() };
    let ranges = if range.len() as f64 * CELL < RELEVANT.ln() {
        vec![range]
    } else {
        reference.clusters(&dense, range)
    };
    let mut pieces: Vec<CellRange> =
        ranges.into_iter().filter_map(|range| CellRange::new(&dense, range)).collect();
    while let Some(at) = next_to_join(&pieces, counts) {
        let joined = CellRange::new(&dense, pieces[at].start..pieces[at + 1].end);
        pieces.splice(at..at + 2, joined);
    }
    let fewest = fewest(total(counts));
    pieces.retain(|piece| piece.with_company(counts) >= fewest);
    if pieces.is_empty() {
        pieces.extend(CellRange::new(counts, 0..counts.len()));
    }
    pieces
}

/// Returns the range from the first to the last cell with values.
fn occupied(counts: &[u32]) -> Option<Range<usize>> {
    let first = counts.iter().position(|&count| count > 0)?;
    let last = counts.iter().rposition(|&count| count > 0)?;
    Some(first..last + 1)
}

/// Returns the index of the first of the two closest pieces that must be joined: pieces that are not
/// apart, or any pieces if there are too many.
fn next_to_join(pieces: &[CellRange], counts: &[u32]) -> Option<usize> {
    let too_many = pieces.len() > MOST_LEVELS;
    let distance = |at: &usize| pieces[*at].distance(&pieces[at + 1]);
    (1..pieces.len())
        .map(|at| at - 1)
        .filter(|&at| too_many || !pieces[at].apart(&pieces[at + 1], counts))
        .min_by(|a, b| distance(a).total_cmp(&distance(b)))
}

/// The reference for the gap statistic: the spread of uniform values within their clusters, over the
/// same range.
#[derive(Debug)]
struct UniformReference {
    /// The means of the logarithm of the spread within 1, 2, … clusters, per value and squared range.
    within: Vec<f64>,
    /// The standard error of each mean.
    error: Vec<f64>,
}

impl UniformReference {
    /// Returns the reference for `n` values; from 5,000 values on, chance no longer matters.
    fn new(n: usize) -> Self {
        let mut random = Pcg64Mcg::seed_from_u64(SEED);
        let mut set = || {
            let mut counts = vec![0; GRID];
            for _ in 0..n.min(RESAMPLED) {
                counts[random.random_range(0..GRID)] += 1;
            }
            logs_within(&partitions(&weights(&counts, 1)), GRID)
        };
        let sets: Vec<Vec<f64>> = (0..SETS).map(|_| set()).collect();
        let mean = |k| sets.iter().map(|set| set[k]).sum::<f64>() / SETS as f64;
        let within: Vec<f64> = (0..MOST_PIECES).map(mean).collect();
        let error = |k: usize| {
            let squares: f64 = sets.iter().map(|set| (set[k] - within[k]).powi(2)).sum();
            (squares / SETS as f64 * (1.0 + 1.0 / SETS as f64)).sqrt()
        };
        let error = (0..MOST_PIECES).map(error).collect();
        Self { within, error }
    }

    /// Returns the clusters of the cells in `range`, as many as the gap statistic indicates.
    fn clusters(&self, counts: &[u32], range: Range<usize>) -> Vec<Range<usize>> {
        let together = range.len().div_ceil(GRID);
        let weights = weights(&counts[range.clone()], together);
        let partitions = partitions(&weights);
        let gaps: Vec<f64> = logs_within(&partitions, weights.len())
            .iter()
            .zip(&self.within)
            .map(|(within, uniform)| uniform - within)
            .collect();
        let best = (0..gaps.len()).max_by(|&a, &b| gaps[a].total_cmp(&gaps[b])).unwrap_or(0);
        let enough = gaps[best] - self.error[best];
        let k = gaps.iter().position(|&gap| gap >= enough).unwrap_or(best);
        let cell = |at: usize| (range.start + at * together).min(range.end);
        partitions[k].ends(weights.len()).map(|(start, end)| cell(start)..cell(end)).collect()
    }
}

/// Returns the roots of the counts, with `together` cells merged into one.
fn weights(counts: &[u32], together: usize) -> Vec<f64> {
    counts.chunks(together).map(|cells| (total(cells) as f64).sqrt()).collect()
}

/// The best way to divide cells into a number of clusters.
#[derive(Debug, Clone)]
struct Partition {
    /// The weighted mean of the squared distances from the clusters' means, in cells.
    within: f64,
    /// The first cell of each cluster.
    starts: Vec<usize>,
}

impl Partition {
    /// Returns the start and the end of each cluster of `cells` cells.
    fn ends(&self, cells: usize) -> impl Iterator<Item = (usize, usize)> {
        let ends = self.starts.iter().copied().skip(1).chain([cells]);
        self.starts.iter().copied().zip(ends)
    }
}

/// Returns the logarithm of the spread within clusters, divided by the squared range. Values are
/// uniform within a cell, which adds a constant to every spread and keeps the spread above 0.
fn logs_within(partitions: &[Partition], cells: usize) -> Vec<f64> {
    let range = (cells * cells) as f64;
    partitions.iter().map(|partition| ((partition.within + 1.0 / 12.0) / range).ln()).collect()
}

/// Returns the best partitions into 1, 2, … clusters, found exactly by dynamic programming (Fisher,
/// Journal of the American Statistical Association 53, 1958). The caller must pass at least six
/// cells.
fn partitions(weights: &[f64]) -> Vec<Partition> {
    let sums = PrefixMoments::new(weights);
    let cells = weights.len();
    let mut best: Vec<f64> = (0..=cells).map(|end| sums.within(0, end)).collect();
    let mut cuts: Vec<Vec<usize>> = vec![vec![0; cells + 1]];
    let mut found = vec![sums.partition(&best, &cuts)];
    while found.len() < MOST_PIECES.min(cells) {
        let cut = |end: usize| {
            let cost = |start: usize| best[start] + sums.within(start, end);
            let costs = (0..=end).map(|start| (cost(start), start));
            costs.min_by(|a, b| a.0.total_cmp(&b.0)).unwrap_or((0.0, 0))
        };
        (best, cuts) = {
            let (costs, starts) = (0..=cells).map(cut).unzip();
            cuts.push(starts);
            (costs, cuts)
        };
        found.push(sums.partition(&best, &cuts));
    }
    found
}

/// Sums over the first cells: of weights, of weighted places, and of weighted squared places.
#[derive(Debug)]
struct PrefixMoments(Vec<[f64; 3]>);

impl PrefixMoments {
    fn new(weights: &[f64]) -> Self {
        let mut sums = vec![[0.0; 3]];
        for (place, weight) in weights.iter().enumerate() {
            let ([n, first, second], x) = (sums[place], place as f64);
            sums.push([n + weight, first + weight * x, second + weight * x * x]);
        }
        Self(sums)
    }

    /// Returns the sum of squared distances from the mean, for the cells from `start` to just before
    /// `end`.
    fn within(&self, start: usize, end: usize) -> f64 {
        let (a, b) = (self.0[start], self.0[end]);
        let n = b[0] - a[0];
        if n <= 0.0 {
            return 0.0;
        }
        let first = b[1] - a[1];
        (b[2] - a[2] - first * first / n).max(0.0)
    }

    /// Returns the partition that follows from the given cuts, from the last cluster backwards.
    fn partition(&self, best: &[f64], cuts: &[Vec<usize>]) -> Partition {
        let cells = self.0.len() - 1;
        let mut end = cells;
        let mut starts: Vec<usize> = cuts
            .iter()
            .rev()
            .map(|cut| {
                end = cut[end];
                end
            })
            .collect();
        starts.reverse();
        Partition { within: best[cells] / self.0[cells][0].max(1.0), starts }
    }
}

/// Draws as many cells as there are, in blocks of neighbours from the series closed to a circle.
fn resample(cells: &[usize], block: usize, random: &mut Pcg64Mcg) -> Vec<usize> {
    let n = cells.len();
    let mut drawn = Vec::with_capacity(n + block);
    while drawn.len() < n {
        let start = random.random_range(0..n);
        drawn.extend((start..start + block).map(|at| cells[at % n]));
    }
    drawn.truncate(n);
    drawn
}
