// SPDX-License-Identifier: MIT OR Apache-2.0
//! The gain of a shared cache for threads with common data: runtime ratio, SMR and MPmI, as Kamali
//! (2010), section 4.3.5, has them.

use std::collections::BTreeMap;

use serde::Serialize;

use super::gain::TAKEN;
use crate::samples::SharedData;
use crate::workload::gang::{Placing, Sharing};

/// The results of gangs at one place.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Side {
    /// The number of runs.
    pub runs: u64,
    /// The mean time of the slowest thread, in nanoseconds for each thing it does.
    pub round_ns: f64,
    /// Misses of the last level of cache per million instructions, of all threads (MPmI).
    pub mpmi: f64,
    /// Those misses for each thing that a thread does.
    pub misses_a_round: f64,
    /// Misses to which another package answered that it has the line, over all of them (SMR); none
    /// without a miss.
    pub smr: Option<f64>,
}

/// A program that ran in one or both places.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SharingSummary {
    /// The platform, by id.
    pub machine: String,
    /// The program that the gang runs.
    pub program: String,
    /// The size of its data.
    pub items: u64,
    /// Its other parameters.
    pub parameters: String,
    /// The way its threads share their data.
    pub sharing: Sharing,
    /// With a cache in common.
    pub shared: Option<Side>,
    /// Without one.
    pub separate: Option<Side>,
    /// The time with a cache in common over that without: below 1 they gain by being together.
    pub runtime_ratio: Option<f64>,
    /// The same, predicted from the misses without a common cache ([`TAKEN`]).
    pub predicted_ratio: Option<f64>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Sums {
    /// The time of the slowest thread of each run, and its rounds.
    slowest: (f64, f64),
    /// The rounds of all threads.
    rounds: f64,
    instructions: u64,
    misses: u64,
    snoop_hits: u64,
}

impl Sums {
    fn side<'a>(runs: impl Iterator<Item = &'a Self>) -> Option<Side> {
        let runs: Vec<&Self> = runs.collect();
        let sum = |of: fn(&Self) -> u64| runs.iter().map(|it| of(it)).sum::<u64>() as f64;
        let (misses, instructions) = (sum(|it| it.misses), sum(|it| it.instructions));
        let each = runs.iter().map(|it| it.slowest.0 / it.slowest.1).sum::<f64>();
        (!runs.is_empty()).then(|| Side {
            runs: runs.len() as u64,
            round_ns: each / runs.len() as f64,
            mpmi: misses / instructions * 1e6,
            misses_a_round: misses / runs.iter().map(|it| it.rounds).sum::<f64>(),
            smr: (misses > 0.0).then(|| sum(|it| it.snoop_hits) / misses),
        })
    }
}

/// Machine, program, parameters, items and sharing of a gang; then its place.
type Key = (String, String, String, u64, Sharing);

/// The runs of a gang, by placing, seed, gang and run.
type Runs = BTreeMap<(Placing, u64, u64, u64), Sums>;

/// Takes threads, one after the other.
#[derive(Debug, Clone, Default)]
pub struct Sharings {
    runs: BTreeMap<Key, Runs>,
}

impl Sharings {
    /// Takes some more threads.
    pub fn take(&mut self, threads: &[SharedData]) {
        for it in threads {
            let text = |text: &std::sync::Arc<str>| text.to_string();
            let key =
                (text(&it.machine), text(&it.program), text(&it.parameters), it.items, it.sharing);
            let runs = self.runs.entry(key).or_default();
            let sums = runs.entry((it.placing, it.seed, it.gang, it.run)).or_default();
            sums.slowest = (sums.slowest.0.max(it.time_ns), it.rounds as f64);
            sums.rounds += it.rounds as f64;
            sums.instructions += it.instructions;
            sums.misses += it.llc_misses;
            sums.snoop_hits += it.snoop_hits;
        }
    }

    /// The summaries.
    pub fn finish(&self) -> Vec<SharingSummary> {
        let summary = |(key, runs): (&Key, &Runs)| {
            let side = |placing| {
                Sums::side(runs.iter().filter(|(run, _)| run.0 == placing).map(|(_, sums)| sums))
            };
            let (shared, separate) = (side(Placing::Shared), side(Placing::Separate));
            let (machine, program, parameters, items, sharing) = key.clone();
            SharingSummary {
                machine,
                program,
                items,
                parameters,
                sharing,
                shared,
                separate,
                predicted_ratio: separate.map(|it| TAKEN.ratio(it.smr.unwrap_or(0.0), it.mpmi)),
                runtime_ratio: shared.zip(separate).map(|(a, b)| a.round_ns / b.round_ns),
            }
        };
        self.runs.iter().map(summary).collect()
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
            instructions,
            loads: 0,
            stores: 0,
            llc_misses,
            snoop_hits,
            snoop_hits_modified: 0,
            invalidations: 0,
            write_backs: 0,
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
        near(shared.mpmi, 0.0);
        near(separate.mpmi, 4_000.0);
        // 3,000 of them are answered by the other package.
        near(summary.predicted_ratio.unwrap(), 1.0 - 0.946 * 3_000.0 / 17_730.0);
    }
}
