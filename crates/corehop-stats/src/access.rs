// SPDX-License-Identifier: MIT OR Apache-2.0
//! Access times by working-set size, and the cache levels that they show.
//!
//! While a working set fits into a cache, an access takes the time of that cache whatever the size: a
//! plateau on log–log axes. Between plateaus the curve rises because a growing share of the accesses goes
//! one level further out. The plateaus minimise a penalty: a level costs a constant, a point costs its
//! distance from its level, and a point on no level costs a constant. A single outlier therefore neither
//! creates nor breaks a plateau. A cache of size C is observed if the curve leaves a plateau at C; if the
//! curve stays flat far beyond C, the size is contradicted.

use std::collections::BTreeMap;

use serde::Serialize;

use super::delay::nested_quantile;
use super::ordered::Ordered;
use super::quantile::Quantile;
use super::replicates::Nested;
use corehop_plan::platform::Platform;
use corehop_plan::samples::{AccessTime, Text};
use corehop_plan::workload::{LineState, Page, Pattern};

/// The common properties of the walks in one curve.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CurveKey {
    /// The id of the platform on which the walks were measured.
    #[serde(serialize_with = "super::cell::text")]
    pub machine: Text,
    /// The order in which the walks access their lines.
    pub pattern: Pattern,
    /// The kind of pages that the plan requested for the walks.
    pub page: Page,
    /// The share of word accesses that write.
    pub write_ratio: f64,
    /// The number of independent chains of accesses in a walk.
    pub chains: u64,
    /// The requested NUMA node of the memory, or `None` if none was requested.
    pub node: Option<u64>,
    /// The state of the lines before a walk.
    pub cache_state: LineState,
}

impl CurveKey {
    fn of(walk: &AccessTime) -> Self {
        Self {
            machine: walk.machine.clone(),
            pattern: walk.pattern,
            page: walk.page,
            write_ratio: walk.write_ratio,
            chains: walk.chains,
            node: walk.node,
            cache_state: walk.cache_state,
        }
    }

    fn order(&self) -> impl Ord + '_ {
        let set = (self.pattern, self.page, self.chains, self.write_ratio.to_bits());
        (&self.machine, set, self.node, self.cache_state)
    }
}

impl Eq for CurveKey {}

impl PartialOrd for CurveKey {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for CurveKey {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.order().cmp(&other.order())
    }
}

/// The access time at one working-set size, in nanoseconds.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CurvePoint {
    /// The working-set size of the point in bytes.
    pub wss_bytes: u64,
    /// The number of walks, including disturbed walks.
    pub n_all: usize,
    /// The median of the valid walks, or `None` without valid walks.
    pub access_ns: Option<Quantile>,
    /// The shortest time of the valid walks.
    pub min_ns: Option<f64>,
}

/// A range of sizes with a constant access time.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Plateau {
    /// The smallest size of the range, in bytes.
    pub from_bytes: u64,
    /// The largest size of the range, in bytes.
    pub to_bytes: u64,
    /// The access time in nanoseconds: the median of the points.
    pub access_ns: f64,
    /// The number of points on the plateau.
    pub points: usize,
}

/// A curve of access times, with its plateaus.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct AccessCurve {
    /// The common properties of the curve's walks.
    pub key: CurveKey,
    /// The points of the curve, by size.
    pub points: Vec<CurvePoint>,
    /// The plateaus of the curve, innermost first. Plateaus are searched only if lines were valid before a
    /// walk.
    pub plateaus: Vec<Plateau>,
}

impl AccessCurve {
    /// Returns the median access time at this size, in nanoseconds.
    pub fn at(&self, wss_bytes: u64) -> Option<f64> {
        let point = self.points.iter().find(|point| point.wss_bytes == wss_bytes)?;
        Some(point.access_ns?.estimate)
    }
}

/// The walks of a point: the number of all walks, and the valid walks with their replicates.
#[derive(Debug, Clone, Default)]
struct Walks {
    n_all: usize,
    access_ns: Vec<f64>,
    replicates: Vec<u64>,
}

impl Walks {
    fn take(&mut self, walk: &AccessTime) {
        self.n_all += 1;
        if walk.valid && walk.access_ns.is_finite() {
            self.access_ns.push(walk.access_ns);
            self.replicates.push(walk.replicate.unwrap_or_default());
        }
    }

    fn point(&self, wss_bytes: u64) -> CurvePoint {
        let nested = Nested::from_labelled(&self.access_ns, &self.replicates).ok();
        CurvePoint {
            wss_bytes,
            n_all: self.n_all,
            access_ns: nested.and_then(|nested| nested_quantile(&nested, 0.5)),
            min_ns: Ordered::new(&self.access_ns).ok().as_ref().map(Ordered::min),
        }
    }
}

/// Sorts walks into curves while they stream in.
#[derive(Debug, Clone, Default)]
pub struct Curves {
    walks: BTreeMap<(CurveKey, u64), Walks>,
}

impl Curves {
    /// Adds the times of walks to the curves.
    pub fn take(&mut self, walks: &[AccessTime]) {
        for walk in walks {
            self.walks.entry((CurveKey::of(walk), walk.wss_bytes)).or_default().take(walk);
        }
    }

    /// Returns the curves of access times, with their plateaus.
    pub fn finish(&self) -> Vec<AccessCurve> {
        let mut curves: Vec<AccessCurve> = Vec::new();
        for ((key, wss_bytes), walks) in &self.walks {
            let point = walks.point(*wss_bytes);
            match curves.last_mut() {
                Some(curve) if curve.key == *key => curve.points.push(point),
                _ => curves.push(AccessCurve {
                    key: key.clone(),
                    points: vec![point],
                    plateaus: Vec::new(),
                }),
            }
        }
        for curve in &mut curves {
            if curve.key.cache_state == LineState::Valid {
                curve.plateaus = plateaus(&curve.points);
            }
        }
        curves
    }
}

/// The logarithmic distance from its level at which a point costs a penalty of one.
const TOLERANCE: f64 = 0.095;
/// The largest penalty of a point, however far from its level.
const MOST: f64 = 1.5;
/// The penalty for a further level in the fit of a curve.
const LEVEL: f64 = 1.2;
/// The penalty for a point on no level.
const ON_NONE: f64 = 1.0;
/// The smallest ratio of two levels, because each cache is slower than the next inner cache by at least
/// this factor.
const DISTINCT: f64 = 1.3;

/// Finds the plateaus of a curve by dynamic programming over their ends.
pub fn plateaus(points: &[CurvePoint]) -> Vec<Plateau> {
    let known: Vec<(u64, f64)> = points
        .iter()
        .filter_map(|point| Some((point.wss_bytes, point.access_ns?.estimate)))
        .filter(|&(_, ns)| ns > 0.0)
        .collect();
    let logs: Vec<f64> = known.iter().map(|&(_, ns)| ns.ln()).collect();
    let found = cheapest(&logs).into_iter().map(|(from, to)| Plateau {
        from_bytes: known[from].0,
        to_bytes: known[to].0,
        access_ns: middle(&logs[from..=to]).exp(),
        points: to - from + 1,
    });
    found.fold(Vec::new(), merged)
}

/// Appends a plateau, or merges it with the last plateau.
fn merged(mut plateaus: Vec<Plateau>, next: Plateau) -> Vec<Plateau> {
    match plateaus.last_mut() {
        Some(last) if next.access_ns < last.access_ns * DISTINCT => {
            let weight = |plateau: &Plateau| plateau.points as f64;
            let points = last.points + next.points;
            let logs = last.access_ns.ln() * weight(last) + next.access_ns.ln() * weight(&next);
            last.access_ns = (logs / points as f64).exp();
            last.to_bytes = next.to_bytes;
            last.points = points;
        }
        _ => plateaus.push(next),
    }
    plateaus
}

/// Returns the first and last index of each level in the description of `logs` with the smallest penalty.
fn cheapest(logs: &[f64]) -> Vec<(usize, usize)> {
    // best[k]: the cost of the first k points, and where the level that ends there begins, if any.
    let mut best: Vec<(f64, Option<usize>)> = vec![(0.0, None)];
    for end in 1..=logs.len() {
        let mut choice = (best[end - 1].0 + ON_NONE, None);
        for from in 0..end.saturating_sub(1) {
            let cost = best[from].0 + LEVEL + distance(&logs[from..end]);
            if cost < choice.0 {
                choice = (cost, Some(from));
            }
        }
        best.push(choice);
    }
    let mut levels = Vec::new();
    let mut end = logs.len();
    while end > 0 {
        match best[end].1 {
            Some(from) => {
                levels.push((from, end - 1));
                end = from;
            }
            None => end -= 1,
        }
    }
    levels.reverse();
    levels
}

/// Returns the total penalty of the points on one level.
fn distance(logs: &[f64]) -> f64 {
    let level = middle(logs);
    logs.iter().map(|log| ((log - level).abs() / TOLERANCE).min(MOST)).sum()
}

/// Returns the median of the values.
fn middle(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let half = sorted.len() / 2;
    if sorted.len() % 2 == 1 { sorted[half] } else { f64::midpoint(sorted[half - 1], sorted[half]) }
}

/// A declared cache, compared with the curve at its size.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Edge {
    /// The label of the cache, such as `L1d` or `L2`.
    pub cache: String,
    /// The declared size of the cache in bytes.
    pub declared_bytes: u64,
    /// The largest size in bytes that is still on the cache's plateau, or `None` without a plateau.
    pub flat_to_bytes: Option<u64>,
    /// The smallest measured size in bytes at which an access takes twice the plateau's time.
    pub rises_by_bytes: Option<u64>,
    /// The access time on the plateau, in nanoseconds.
    pub access_ns: Option<f64>,
    /// The verdict on the declared size.
    pub outcome: EdgeOutcome,
    /// The reason for the verdict, in a sentence.
    pub why: String,
}

/// The verdict of a curve on a declared cache size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum EdgeOutcome {
    /// The curve leaves a plateau at the declared size.
    Observed,
    /// The curve leaves the plateau well before the declared size, or is flat far beyond.
    Contradicted,
    /// The curve does not reach the declared size, or has no plateau there.
    CannotTell,
}

impl EdgeOutcome {
    /// Returns the outcome of the comparison as words.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Observed => "observed",
            Self::Contradicted => "contradicted",
            Self::CannotTell => "cannot tell",
        }
    }
}

/// The largest factor between the end of a plateau and the size of its cache: hashing, other data and
/// translation make a cache seem smaller, and a victim cache inside makes it seem larger.
const LEEWAY: f64 = 2.0;

/// Compares the declared data caches of `platform` with the plateaus of `curve`.
pub fn edges(curve: &AccessCurve, platform: &Platform) -> Vec<Edge> {
    let cpu = platform.usable().first().unwrap_or_default();
    let caches = platform
        .data_caches(cpu)
        .filter_map(|cache| Some((cache.label(), cache.size.as_ref()?.value.get())));
    let caches: Vec<(String, u64)> = caches.collect();
    let inner = |index: usize| index.checked_sub(1).map_or(0, |inner| caches[inner].1);
    caches
        .iter()
        .enumerate()
        .map(|(index, (label, size))| edge(curve, label, inner(index), *size))
        .collect()
}

/// Compares one declared cache with its plateau: the last plateau that begins within the cache and reaches
/// beyond the next inner cache.
fn edge(curve: &AccessCurve, label: &str, inner: u64, size: u64) -> Edge {
    let (within, beyond) = (size as f64 / LEEWAY, size as f64 * LEEWAY);
    let last = curve.points.last().map_or(0, |point| point.wss_bytes);
    let mut its = curve.plateaus.iter().rev();
    let plateau = its.find(|it| it.from_bytes <= size && it.to_bytes > inner.saturating_mul(3) / 2);
    let rises_by = plateau.and_then(|plateau| {
        // A rise by less is translation, or other data in the cache, and no edge.
        let twice = |ns: f64| ns >= 2.0 * plateau.access_ns;
        let mut beyond = curve.points.iter().filter(|point| point.wss_bytes > plateau.to_bytes);
        let point = beyond.find(|point| point.access_ns.is_some_and(|it| twice(it.estimate)))?;
        Some(point.wss_bytes)
    });
    let (outcome, why) = match (plateau, rises_by) {
        _ if last < size => (EdgeOutcome::CannotTell, "the curve ends within it".to_owned()),
        (None, _) => (EdgeOutcome::CannotTell, "no plateau lies within it".to_owned()),
        (Some(plateau), rises) => {
            let until = corehop_plan::units::Bytes::new(plateau.to_bytes);
            match rises {
                _ if plateau.to_bytes as f64 > beyond => {
                    (EdgeOutcome::Contradicted, format!("still flat at {until}"))
                }
                None => (EdgeOutcome::CannotTell, "flat to the end of the curve".to_owned()),
                Some(rises) => {
                    let by = corehop_plan::units::Bytes::new(rises);
                    let why = format!("flat up to {until}, twice as long by {by}");
                    let early = rises as f64 <= within;
                    (if early { EdgeOutcome::Contradicted } else { EdgeOutcome::Observed }, why)
                }
            }
        }
    };
    Edge {
        cache: label.to_owned(),
        declared_bytes: size,
        flat_to_bytes: plateau.map(|plateau| plateau.to_bytes),
        rises_by_bytes: rises_by,
        access_ns: plateau.map(|plateau| plateau.access_ns),
        outcome,
        why,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example::access_time;

    /// Returns a curve through the given times, at 4 KiB and on by doubling.
    fn curve(times: &[f64]) -> AccessCurve {
        let walks: Vec<AccessTime> = times
            .iter()
            .enumerate()
            .map(|(power, &access_ns)| AccessTime {
                wss_bytes: 4096 << power,
                access_ns,
                ..access_time()
            })
            .collect();
        let mut curves = Curves::default();
        curves.take(&walks);
        let [curve] = curves.finish().try_into().unwrap();
        curve
    }

    /// Makes a platform with caches of 48 KiB, 2 MiB and 480 MiB, as a guest reports them.
    fn platform() -> Platform {
        let cache = |level: u32, kind: &str, size: &str| {
            format!(
                "[[cache]]\nlevel = {level}\nkind = \"{kind}\"\nsize = {{ value = \"{size}\", \
                 source = \"assumed\" }}\ninstances = {{ value = [\"0-1\"], source = \"assumed\" }}\n"
            )
        };
        let text = format!(
            "schema = 1\nid = \"box\"\nname = \"box\"\ncpus = {{ value = \"0-1\", source = \
             \"assumed\" }}\npackages = {{ value = [\"0-1\"], source = \"assumed\" }}\ncores = {{ \
             value = [\"0\", \"1\"], source = \"assumed\" }}\n{}{}{}",
            cache(1, "data", "48 KiB"),
            cache(2, "unified", "2 MiB"),
            cache(3, "unified", "480 MiB"),
        );
        Platform::from_toml(&text).unwrap()
    }

    #[test]
    fn three_levels_of_a_clean_curve_are_found_with_their_times() {
        //  4     8    16    32   64   128  256  512  1M   2M    4M    8M    16M
        let times = [1.6, 1.6, 1.6, 1.62, 4.0, 5.4, 5.5, 5.5, 5.6, 12.0, 30.0, 31.0, 31.0];
        let plateaus = curve(&times).plateaus;
        let ends: Vec<(u64, u64)> =
            plateaus.iter().map(|it| (it.from_bytes >> 10, it.to_bytes >> 10)).collect();
        assert_eq!(ends, [(4, 32), (128, 1024), (4096, 16384)]);
        for (plateau, ns) in plateaus.iter().zip([1.6, 5.5, 31.0]) {
            assert!((plateau.access_ns / ns - 1.0).abs() < 0.02, "{plateau:?}");
        }
    }

    #[test]
    fn one_odd_point_neither_breaks_a_plateau_nor_makes_one() {
        let times = [1.6, 1.6, 9.0, 1.6, 1.6, 5.5, 5.5, 5.5, 5.5];
        let ends: Vec<u64> = curve(&times).plateaus.iter().map(|it| it.to_bytes >> 10).collect();
        assert_eq!(ends, [64, 1024]);
    }

    #[test]
    fn a_steady_slope_has_no_plateau_and_noise_of_a_few_percent_is_one() {
        let slope: Vec<f64> = (0..10).map(|power| 1.5_f64.powi(power)).collect();
        assert_eq!(curve(&slope).plateaus, []);
        let noise = [1.0, 1.05, 0.97, 1.02, 1.06, 0.95, 1.0];
        assert_eq!(curve(&noise).plateaus.len(), 1);
        assert_eq!(curve(&[1.0]).plateaus, []);
    }

    #[test]
    fn a_declared_size_is_observed_contradicted_or_out_of_reach() {
        let times = [1.6, 1.6, 1.6, 1.62, 4.0, 5.4, 5.5, 5.5, 5.6, 12.0, 30.0, 31.0, 31.0];
        let edges = edges(&curve(&times), &platform());
        let found: Vec<(&str, EdgeOutcome)> =
            edges.iter().map(|edge| (edge.cache.as_str(), edge.outcome)).collect();
        assert_eq!(
            found,
            [
                ("L1d", EdgeOutcome::Observed),
                ("L2", EdgeOutcome::Observed),
                ("L3", EdgeOutcome::CannotTell),
            ]
        );
        assert_eq!(
            (edges[0].flat_to_bytes, edges[0].rises_by_bytes),
            (Some(32 << 10), Some(64 << 10))
        );
    }

    #[test]
    fn a_size_that_the_curve_does_not_know_is_contradicted() {
        // An L2 of 256 KiB where 2 MiB are declared.
        let small = [1.6, 1.6, 1.6, 1.62, 5.4, 5.5, 5.5, 12.0, 30.0, 31.0, 31.0, 31.0, 31.0];
        let of = |times: &[f64]| edges(&curve(times), &platform())[1].outcome;
        assert_eq!(of(&small), EdgeOutcome::Contradicted);
        // And one of 8 MiB.
        let large = [1.6, 1.6, 1.6, 1.62, 5.4, 5.5, 5.5, 5.5, 5.5, 5.5, 5.5, 5.5, 31.0];
        assert_eq!(of(&large), EdgeOutcome::Contradicted);
    }

    #[test]
    fn disturbed_walks_count_and_do_not_enter() {
        let bad = AccessTime { valid: false, access_ns: 900.0, ..access_time() };
        let mut curves = Curves::default();
        curves.take(&[access_time(), bad, access_time()]);
        let point = &curves.finish()[0].points[0];
        assert_eq!((point.n_all, point.access_ns.unwrap().n), (3, 2));
        assert_eq!(point.min_ns, Some(1.5));
    }
}
