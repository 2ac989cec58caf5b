// SPDX-License-Identifier: MIT OR Apache-2.0
//! The frequency of changes between levels, and the length of stays.

use serde::{Deserialize, Serialize};

use super::{ExchangeLevel, ExchangeLevels};

/// The time that the machine spends at each level.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LevelResidence {
    /// The time from the first exchange at a level to the last, in seconds.
    pub seconds: f64,
    /// The number of changes of the level.
    pub changes: usize,
    /// The stays at each level, nearest first.
    pub levels: Vec<LevelStay>,
}

/// The time that the machine spends at one level.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LevelStay {
    /// The share of the time at the level, 0 to 1; 0 if no time passed.
    pub share: f64,
    /// The number of visits to the level.
    pub visits: usize,
    /// The median length of a stay, in seconds. The first and the last visit extend beyond the run, so their
    /// lengths are lower bounds (Kaplan and Meier, Journal of the American Statistical Association 53, 1958).
    /// The field is `None` if the bounds of stays leave the median open.
    pub median_stay_s: Option<f64>,
    /// The longest visit in seconds; 0 without a visit. The first or last visit may have been longer.
    pub longest_stay_s: f64,
    /// The level at which the CPUs stayed.
    pub level: ExchangeLevel,
}

/// Returns the time that the machine spends at each level, from exchanges as (time in ns, exchange in ns) in
/// the order of time.
///
/// Exchanges that belong to no level are ignored. Between two exchanges at one level, the machine counts as
/// having stayed; between two exchanges at different levels, as having changed halfway. Stays shorter than
/// the time between two exchanges are therefore not seen, and a disturbed exchange that is as long as the
/// exchanges of a farther level counts as a visit to that level.
pub fn stays(series: &[(u64, f64)], levels: &ExchangeLevels) -> LevelResidence {
    stays_of_all(&[series], levels)
}

/// Returns the time at each level of exchange times for several pairs of CPUs together. Each share is a part of the
/// time of all pairs; changes and stays are summed over all pairs.
pub fn stays_of_all(series: &[&[(u64, f64)]], levels: &ExchangeLevels) -> LevelResidence {
    let visits: Vec<Vec<LevelSojourn>> =
        series.iter().map(|of_pair| seen(of_pair, levels)).collect();
    let seconds = visits.iter().flatten().map(|visit| visit.seconds).sum();
    let stay = |(index, level): (usize, &ExchangeLevel)| {
        let own = |visit: &&LevelSojourn| visit.level == index;
        let own: Vec<LevelSojourn> = visits.iter().flatten().filter(own).copied().collect();
        level_stay(&own, *level, seconds)
    };
    LevelResidence {
        seconds,
        changes: visits.iter().map(|of_pair| of_pair.len().saturating_sub(1)).sum(),
        levels: levels.levels.iter().enumerate().map(stay).collect(),
    }
}

/// Returns the number of changes to each level, from near to far, added over all pairs of CPUs.
pub fn changes_to(series: &[&[(u64, f64)]], levels: &ExchangeLevels) -> Vec<usize> {
    let mut changes = vec![0; levels.count()];
    for visit in series.iter().flat_map(|of_pair| seen(of_pair, levels).into_iter().skip(1)) {
        changes[visit.level] += 1;
    }
    changes
}

/// Returns the visits of a series of (time in ns, exchange in ns).
fn seen(series: &[(u64, f64)], levels: &ExchangeLevels) -> Vec<LevelSojourn> {
    let known = series.iter().filter_map(|&(at, ns)| Some((at, levels.level_of(ns)?)));
    visits(&known.collect::<Vec<_>>())
}

/// A visit: a stretch of time at one level.
#[derive(Debug, Clone, Copy, PartialEq)]
struct LevelSojourn {
    level: usize,
    seconds: f64,
    /// Whether both ends of the visit were seen.
    whole: bool,
}

/// Returns the visits of a series of (time in ns, level).
fn visits(known: &[(u64, usize)]) -> Vec<LevelSojourn> {
    let runs: Vec<&[(u64, usize)]> = known.chunk_by(|a, b| a.1 == b.1).collect();
    let mut starts: Vec<u64> = known.iter().take(1).map(|first| first.0).collect();
    let halfway =
        |pair: &[&[(u64, usize)]]| u64::midpoint(pair[0][pair[0].len() - 1].0, pair[1][0].0);
    starts.extend(runs.windows(2).map(halfway));
    starts.extend(known.last().map(|last| last.0));
    let visit = |(index, run): (usize, &&[(u64, usize)])| LevelSojourn {
        level: run[0].1,
        seconds: starts[index + 1].saturating_sub(starts[index]) as f64 / 1e9,
        whole: index > 0 && index + 1 < runs.len(),
    };
    runs.iter().enumerate().map(visit).collect()
}

fn level_stay(visits: &[LevelSojourn], level: ExchangeLevel, seconds: f64) -> LevelStay {
    let inside: f64 = visits.iter().map(|visit| visit.seconds).sum();
    LevelStay {
        share: if seconds > 0.0 { inside / seconds } else { 0.0 },
        visits: visits.len(),
        median_stay_s: median_stay(visits),
        longest_stay_s: visits.iter().map(|visit| visit.seconds).fold(0.0, f64::max),
        level,
    }
}

/// Returns the length that half of the stays exceed, by the estimator of Kaplan and Meier.
fn median_stay(visits: &[LevelSojourn]) -> Option<f64> {
    let mut visits = visits.to_vec();
    // Of equally long ones those that ended come first: the others went on.
    visits.sort_by(|a, b| a.seconds.total_cmp(&b.seconds).then(b.whole.cmp(&a.whole)));
    let mut surviving = 1.0;
    for (place, visit) in visits.iter().enumerate() {
        if visit.whole {
            surviving *= 1.0 - 1.0 / (visits.len() - place) as f64;
        }
        if surviving <= 0.5 + 1e-9 {
            return Some(visit.seconds);
        }
    }
    None
}
