// SPDX-License-Identifier: MIT OR Apache-2.0
//! The gain of a shared cache for threads with common data: run-time ratio, SMR and MPmI as defined by Kamali (2010),
//! section 4.3.5.

use std::collections::BTreeMap;

use serde::Serialize;

use super::estimator::Estimator;
use super::gain::TAKEN;
use super::ordered::{Interval, Ordered};
use super::paired::Paired;
use super::quantile::median;
use super::summarise::{FromFile, Summarise};
use corehop_plan::samples::{Rows, SharedData};
use corehop_plan::workload::gang::{Placing, Sharing};

pub use self::Sharings as Summary;

/// The confidence of the intervals is one minus this number, which is 95 %.
const ALPHA: f64 = 0.05;

/// The results of a gang in one placing.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct GangOutcome {
    /// The number of runs behind the outcome.
    pub runs: u64,
    /// The time of the slowest thread for each round, in nanoseconds: the mean of simulated runs, or the median of live
    /// runs, which other threads disturb.
    pub round_ns: f64,
    /// The time of the slowest thread for each round in the shortest run, in nanoseconds.
    pub least_ns: f64,
    /// The one-way time of a line between two CPUs of the gang, in nanoseconds: the median of the exchanges around the
    /// runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line_ns: Option<f64>,
    /// The misses of the last-level cache per million instructions, of all threads (MPmI), or `None` if not counted.
    pub mpmi: Option<f64>,
    /// The misses of the last-level cache for each round of a thread.
    pub misses_a_round: Option<f64>,
    /// The misses that another package answered, divided by all misses (SMR), or `None` without a miss.
    pub smr: Option<f64>,
}

/// The results of a program in all its placings.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SharingSummary {
    /// The id of the platform on which the program ran.
    pub machine: String,
    /// The program that the gang runs.
    pub program: String,
    /// The size of the program's data.
    pub items: u64,
    /// The parameters of the program, apart from the size of its data.
    pub parameters: String,
    /// The way in which the threads share their data.
    pub sharing: Sharing,
    /// The number of threads, or `None` if the runs have different numbers.
    pub threads: Option<u64>,
    /// The results with a common cache.
    pub shared: Option<GangOutcome>,
    /// The results without a common cache.
    pub separate: Option<GangOutcome>,
    /// The results with all threads on one CPU.
    pub same: Option<GangOutcome>,
    /// The results with threads that moved during the run.
    pub moved: Option<GangOutcome>,
    /// The time with a common cache divided by the time without; on a machine whose CPUs all share a cache, the time on
    /// one CPU divided by the time on several. If the ratio is below 1, the threads gain by running together.
    pub runtime_ratio: Option<f64>,
    /// The interval of the ratio for live runs; the ratio is then the geometric mean over replicates, each with the
    /// ratio of its medians.
    pub ratio_interval: Option<Interval>,
    /// The number of replicates behind the ratio.
    pub replicates: Option<usize>,
    /// The ratio that [`TAKEN`] predicts from the misses without a common cache.
    pub predicted_ratio: Option<f64>,
}

#[derive(Debug, Clone, Copy, Default)]
struct GangSums {
    /// The time of the slowest thread of the run, and the thread's number of rounds.
    slowest: (f64, f64),
    /// The number of rounds of all threads.
    rounds: f64,
    /// The numbers of instructions, misses and snoop hits, or `None` if one of them is not counted.
    counts: Option<[u64; 3]>,
    /// The replicate of a live run.
    replicate: Option<u64>,
    /// The number of threads that were added.
    threads: u64,
    /// The line exchanges before and after the run.
    lines: [Option<f64>; 2],
}

impl GangSums {
    /// Returns the time of a round of the slowest thread, in nanoseconds.
    fn each_ns(&self) -> f64 {
        self.slowest.0 / self.slowest.1
    }

    fn take(&mut self, thread: &SharedData) {
        let counts = [thread.instructions, thread.llc_misses, thread.snoop_hits];
        let [Some(instructions), Some(misses), Some(snoop_hits)] = counts else {
            self.counts = None;
            return;
        };
        let before = if self.rounds > 0.0 { self.counts } else { Some([0; 3]) };
        let with = |[a, b, c]: [u64; 3]| [a + instructions, b + misses, c + snoop_hits];
        self.counts = before.map(with);
    }
}

impl GangOutcome {
    fn of(runs: &[&GangSums]) -> Option<Self> {
        let each: Vec<f64> = runs.iter().map(|run| run.each_ns()).collect();
        let ordered = Ordered::new(&each).ok()?;
        let live = runs.iter().any(|run| run.replicate.is_some());
        let mean = each.iter().sum::<f64>() / each.len() as f64;
        let counts: Option<Vec<[u64; 3]>> = runs.iter().map(|run| run.counts).collect();
        let sum =
            |at: usize| counts.as_ref().map(|all| all.iter().map(|it| it[at]).sum::<u64>() as f64);
        let (instructions, misses, snoops) = (sum(0), sum(1), sum(2));
        let rounds: f64 = runs.iter().map(|it| it.rounds).sum();
        Some(Self {
            runs: runs.len() as u64,
            round_ns: if live { median(&ordered) } else { mean },
            least_ns: ordered.min(),
            line_ns: line_ns(runs),
            mpmi: misses.zip(instructions).map(|(misses, all)| misses / all * 1e6),
            misses_a_round: misses.map(|misses| misses / rounds),
            smr: misses.zip(snoops).filter(|it| it.0 > 0.0).map(|(misses, snoops)| snoops / misses),
        })
    }
}

/// Returns the median of the line exchanges around the runs.
fn line_ns(runs: &[&GangSums]) -> Option<f64> {
    let lines: Vec<f64> = runs.iter().flat_map(|run| run.lines).flatten().collect();
    Some(median(&Ordered::new(&lines).ok()?))
}

/// Returns the ratio of two placings with its interval and its number of replicates, computed from the logarithms of
/// the replicates' medians.
fn paired_ratio(near: &[&GangSums], far: &[&GangSums]) -> Option<(f64, Option<Interval>, usize)> {
    let (near, far) = (medians(near)?, medians(far)?);
    let both = near.iter().filter_map(|(replicate, near)| Some((near, far.get(replicate)?)));
    let logarithms: Vec<f64> = both.map(|(near, far)| (near / far).ln()).collect();
    let paired = Paired::of(&logarithms, ALPHA, 1).ok()?;
    let interval = |it: Interval| Interval { low: it.low.exp(), high: it.high.exp(), ..it };
    Some((paired.mean.exp(), paired.interval.map(interval), paired.pairs))
}

/// Returns the median of each replicate, or `None` if a run has no replicate.
fn medians(runs: &[&GangSums]) -> Option<BTreeMap<u64, f64>> {
    let mut each: BTreeMap<u64, Vec<f64>> = BTreeMap::new();
    for run in runs {
        each.entry(run.replicate?).or_default().push(run.each_ns());
    }
    let median = |(at, values): (u64, Vec<f64>)| Some((at, median(&Ordered::new(&values).ok()?)));
    each.into_iter().map(median).collect()
}

/// The machine, program, parameters, items and sharing of a gang.
type GangKey = (String, String, String, u64, Sharing);

/// The runs of a gang, by placing, seed, gang and run.
type GangRuns = BTreeMap<(Placing, u64, u64, u64), GangSums>;

/// The collector gathers the rows of threads of gangs.
#[derive(Debug, Clone, Default)]
pub struct Sharings {
    runs: BTreeMap<GangKey, GangRuns>,
}

impl Summarise for Sharings {
    type Said = Vec<SharingSummary>;

    fn new(_: Estimator) -> Self {
        Self::default()
    }

    fn take(&mut self, rows: &Rows, _: &FromFile<'_>) {
        Self::take(self, &rows.shared_data);
    }

    fn finish(&mut self) -> Vec<SharingSummary> {
        Self::finish(self)
    }
}

impl Sharings {
    /// Adds rows of threads to the collector.
    pub fn take(&mut self, threads: &[SharedData]) {
        for it in threads {
            let text = |text: &std::sync::Arc<str>| text.to_string();
            let key =
                (text(&it.machine), text(&it.program), text(&it.parameters), it.items, it.sharing);
            let runs = self.runs.entry(key).or_default();
            let sums = runs.entry((it.placing, it.seed, it.gang, it.run)).or_default();
            sums.take(it);
            sums.slowest = (sums.slowest.0.max(it.time_ns), it.rounds as f64);
            sums.rounds += it.rounds as f64;
            sums.replicate = it.replicate;
            sums.threads = sums.threads.max(it.member + 1);
            sums.lines = [it.exchange_ns, it.exchange_after_ns];
        }
    }

    /// Returns the summaries of all programs.
    pub fn finish(&self) -> Vec<SharingSummary> {
        self.runs.iter().map(|(key, runs)| summary(key, runs)).collect()
    }
}

fn summary(key: &GangKey, runs: &GangRuns) -> SharingSummary {
    let of = |placing| {
        let so_placed = runs.iter().filter(|(run, _)| run.0 == placing);
        so_placed.map(|(_, sums)| sums).collect::<Vec<_>>()
    };
    let [shared, separate, same] = Placing::FIXED.map(of);
    let (near, far) = if separate.is_empty() { (&same, &shared) } else { (&shared, &separate) };
    let paired = paired_ratio(near, far);
    let simulated = || {
        let (near, far) = (GangOutcome::of(near)?, GangOutcome::of(far)?);
        Some(near.round_ns / far.round_ns)
    };
    let runtime_ratio = paired.map(|(ratio, ..)| ratio).or_else(simulated);
    let ratio_interval = paired.and_then(|(_, interval, _)| interval);
    let replicates = paired.map(|(_, _, replicates)| replicates);
    let threads = runs.values().next().map(|it| it.threads);
    let threads = threads.filter(|&of_all| runs.values().all(|it| it.threads == of_all));
    let separate = GangOutcome::of(&separate);
    let predicted = |it: GangOutcome| Some(TAKEN.ratio(it.smr.unwrap_or(0.0), it.mpmi?));
    let (machine, program, parameters, items, sharing) = key.clone();
    SharingSummary {
        machine,
        program,
        items,
        parameters,
        sharing,
        threads,
        shared: GangOutcome::of(&shared),
        predicted_ratio: separate.and_then(predicted),
        separate,
        same: GangOutcome::of(&same),
        moved: GangOutcome::of(&of(Placing::Moved)),
        runtime_ratio,
        ratio_interval,
        replicates,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn thread(placing: Placing, member: u64, time_ns: f64, counts: [u64; 3]) -> SharedData {
        let [instructions, llc_misses, snoop_hits] = counts;
        SharedData {
            machine: "x".into(),
            seed: 1,
            gang: 0,
            run: 0,
            member,
            program: "swap".into(),
            items: 100,
            parameters: "".into(),
            sharing: Sharing::Write,
            placing,
            rounds: 10,
            cpu: member,
            package: 0,
            time_ns,
            instructions: Some(instructions),
            loads: None,
            stores: None,
            llc_misses: Some(llc_misses),
            snoop_hits: Some(snoop_hits),
            snoop_hits_modified: None,
            invalidations: None,
            write_backs: None,
            preempted: None,
            replicate: None,
            exchange_ns: None,
            exchange_after_ns: None,
            moved_to: None,
        }
    }

    #[test]
    fn ratio_smr_and_mpmi_are_those_of_the_slowest_thread_and_of_both_together() {
        let mut sharings = Sharings::default();
        sharings.take(&[
            thread(Placing::Shared, 0, 500.0, [400, 0, 0]),
            thread(Placing::Shared, 1, 600.0, [600, 0, 0]),
            thread(Placing::Separate, 0, 1_000.0, [400, 3, 3]),
            thread(Placing::Separate, 1, 900.0, [600, 1, 0]),
        ]);
        let [summary] = sharings.finish().try_into().unwrap();
        let (shared, separate) = (summary.shared.unwrap(), summary.separate.unwrap());
        assert!((summary.runtime_ratio.unwrap() - 0.6).abs() < 1e-12);
        let near = |value: f64, to: f64| assert!((value - to).abs() < 1e-9, "{value}");
        near(shared.round_ns, 60.0);
        near(separate.round_ns, 100.0);
        assert_eq!([shared.smr, separate.smr], [None, Some(0.75)]);
        near(shared.mpmi.unwrap(), 0.0);
        near(separate.mpmi.unwrap(), 4_000.0);
        // 3,000 of them are answered by the other package.
        near(summary.predicted_ratio.unwrap(), 1.0 - 0.946 * 3_000.0 / 17_730.0);
        assert_eq!(summary.ratio_interval, None);
    }

    #[test]
    fn live_runs_have_a_ratio_of_medians_with_the_interval_over_replicates() {
        let mut sharings = Sharings::default();
        for replicate in 0..24 {
            for run in 0..3 {
                // One run in three was disturbed.
                let time =
                    |ns: f64| if run == 2 { ns * 50.0 } else { ns + (replicate * 7 % 5) as f64 };
                let live = |placing, ns| SharedData {
                    run: replicate * 3 + run,
                    replicate: Some(replicate),
                    instructions: None,
                    ..thread(placing, 0, time(ns), [0; 3])
                };
                sharings.take(&[live(Placing::Same, 400.0), live(Placing::Shared, 800.0)]);
            }
        }
        let [summary] = sharings.finish().try_into().unwrap();
        let (ratio, interval) = (summary.runtime_ratio.unwrap(), summary.ratio_interval.unwrap());
        assert!((ratio - 0.5).abs() < 0.01, "{ratio}");
        assert!(interval.contains(ratio) && interval.width() < 0.01, "{interval:?}");
        let same = summary.same.unwrap();
        assert_eq!((same.runs, same.least_ns, same.mpmi), (72, 40.0, None));
    }
}
