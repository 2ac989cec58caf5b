// SPDX-License-Identifier: MIT OR Apache-2.0
//! The rows to which a form is fitted: one row for each program, size and sharing.

use serde::{Deserialize, Serialize};

use super::super::gangs::{GangOutcome, SharingSummary};
use super::capacity;
use super::construction::Built;

use corehop_plan::platform::{
    Affinity, Distance, Found, Hertz, Latency, LatencyRow, Platform, Supplier,
};
use corehop_plan::workload::gang::{Placing, Sharing};

/// A program that ran in the near and in the far placement.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GainRow {
    /// The word for the program of the row.
    pub program: String,
    /// The size of the program's data.
    pub items: u64,
    /// The parameters of the program, apart from the size of its data.
    pub parameters: String,
    /// The way in which the threads share their data.
    pub sharing: Sharing,
    /// The number of threads of the program.
    pub threads: u64,
    /// The run time in the near placement divided by the run time in the far placement.
    pub ratio: f64,
    /// The lower end of the ratio's interval, or `None` without replicates.
    pub low: Option<f64>,
    /// The upper end of the ratio's interval.
    pub high: Option<f64>,
    /// The number of replicates behind the row.
    pub replicates: Option<usize>,
    /// The inputs from which the ratio is predicted.
    pub inputs: Inputs,
}

/// The inputs of a prediction, or `None` for an unknown input.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Inputs {
    /// The number of threads that run in turn in the near placement because they are on one CPU; 1 if each
    /// thread has a CPU.
    pub turns: f64,
    /// The SMR in the far placement, if counted; 0 without a miss.
    pub smr: Option<f64>,
    /// The number of misses per million instructions in the far placement, if misses were counted.
    pub mpmi: Option<f64>,
    /// The number of lines that a round hands over in the far placement, by construction.
    pub handed_over: Option<f64>,
    /// The transfer time of a line in the far placement, in nanoseconds.
    pub far_line_ns: Option<f64>,
    /// The transfer time of a line in the near placement, in nanoseconds; 0 on one CPU.
    pub near_line_ns: Option<f64>,
    /// The time of a round in the far placement of the control run with private data, in nanoseconds.
    pub alone_ns: Option<f64>,
    /// The share of the data that fits into caches in the far placement but not in the near placement.
    pub crowded: Option<f64>,
}

impl GainRow {
    /// Returns whether the two rows differ at most in the size.
    pub(super) fn is_like(&self, other: &Self) -> bool {
        let key =
            |it: &Self| (it.program.clone(), it.parameters.clone(), it.sharing.word(), it.threads);
        key(self) == key(other)
    }
}

fn built(it: &SharingSummary, threads: u64) -> Built<'_> {
    let SharingSummary { program, items, parameters, sharing, .. } = it;
    Built { program, items: *items, parameters, sharing: *sharing, threads }
}

/// Returns the rows of all programs that ran in the near and in the far placement.
pub(super) fn rows(
    summaries: &[SharingSummary],
    platform: &Platform,
    sides: (Placing, Placing),
) -> Vec<GainRow> {
    let of = |summary| row(summary, summaries, platform, sides);
    summaries.iter().filter_map(of).collect()
}

fn row(
    summary: &SharingSummary,
    all: &[SharingSummary],
    platform: &Platform,
    (near, far): (Placing, Placing),
) -> Option<GainRow> {
    let threads = summary.threads?;
    let (near_side, far_side) = (side(summary, near)?, side(summary, far)?);
    let ratio = summary.runtime_ratio.filter(|it| it.is_finite() && *it > 0.0)?;
    let is_twin = |it: &&SharingSummary| {
        it.sharing == Sharing::None
            && (&it.program, it.items, &it.parameters, it.threads)
                == (&summary.program, summary.items, &summary.parameters, summary.threads)
    };
    let twin = all.iter().find(is_twin).and_then(|it| side(it, far));
    let shape = shape(built(summary, threads), platform, (near, far));
    let interval = summary.ratio_interval;
    Some(GainRow {
        program: summary.program.clone(),
        items: summary.items,
        parameters: summary.parameters.clone(),
        sharing: summary.sharing,
        threads,
        ratio,
        // Of an interval that reaches zero the logarithm is none.
        low: interval.map(|it| it.low).filter(|&it| it > 0.0),
        high: interval.map(|it| it.high),
        replicates: summary.replicates,
        inputs: Inputs {
            smr: far_side.mpmi.map(|_| far_side.smr.unwrap_or(0.0)),
            mpmi: far_side.mpmi,
            far_line_ns: far_side.line_ns.or_else(|| stated(platform, far)),
            near_line_ns: near_side
                .line_ns
                .filter(|_| near != Placing::Same)
                .or_else(|| stated(platform, near)),
            alone_ns: twin.map(|it| it.round_ns),
            ..shape
        },
    })
}

fn side(it: &SharingSummary, placing: Placing) -> Option<GangOutcome> {
    match placing {
        Placing::Shared => it.shared,
        Placing::Separate => it.separate,
        Placing::Same => it.same,
        Placing::Moved => it.moved,
    }
}

/// Returns the transfer time of a line that another core has modified: the time that the platform states, or
/// else the measured exchange.
fn stated(platform: &Platform, placing: Placing) -> Option<f64> {
    let (distances, affinities) = match placing {
        Placing::Same => return Some(0.0),
        // Threads that are moved are near for a part of the time.
        Placing::Moved => return None,
        Placing::Shared => ([Distance::L3, Distance::L2], [Affinity::L3, Affinity::L2]),
        Placing::Separate => ([Distance::Package, Distance::Machine], [Affinity::Memory; 2]),
    };
    let clock = platform.clock.core.as_ref().map_or(Hertz::new(0), |core| core.value);
    let nanos = |latency: Latency| Some(latency.picos(clock) as f64 / 1e3).filter(|&ns| ns > 0.0);
    let of = |row: &LatencyRow, distance| {
        let modified = row.state.is_none_or(|state| state == Found::Dirty);
        row.supplier == Supplier::Peer && modified && row.distance == Some(distance)
    };
    let row = |&distance: &Distance| platform.latencies.iter().find(|row| of(row, distance));
    let known = distances.iter().find_map(|distance| nanos(row(distance)?.time.value));
    let classes = platform.exchange_classes();
    let class = |affinity: &Affinity| classes.iter().find(|class| class.affinity == *affinity);
    known.or_else(|| affinities.iter().find_map(|affinity| nanos(class(affinity)?.median)))
}

/// Returns the inputs that follow from the construction of a program.
pub(super) fn shape(
    built: Built<'_>,
    platform: &Platform,
    (near, far): (Placing, Placing),
) -> Inputs {
    let on_one_cpu = near == Placing::Same;
    let turns = if on_one_cpu { built.threads as f64 } else { 1.0 };
    let Some(it) = built.construction() else { return Inputs { turns, ..Inputs::default() } };
    let [near_room, far_room] = [near, far].map(|placing| capacity(platform, placing, far));
    let crowded = near_room.zip(far_room).map(|(near, far)| {
        // Far, each cache has what one thread visits.
        (it.too_many(near, built.threads) - it.too_many(far, 1)).max(0.0)
    });
    // Who waits for a turn on the same CPU pays for a switch, which is no line.
    let known = !(it.in_turn && on_one_cpu);
    let handed_over = known.then(|| it.handed_over_within(far_room));
    Inputs { turns, handed_over, crowded, ..Inputs::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_a_line_is_that_of_the_platform() {
        let platform = |id| Platform::named(id).unwrap().unwrap();
        let ns = |id, placing| stated(&platform(id), placing).unwrap();
        assert!((ns("xeon_e5520", Placing::Separate) - 83.0).abs() < 1e-9);
        assert!((ns("xeon_e5520", Placing::Shared) - 81.0 / 2.2).abs() < 0.01);
        assert!(ns("epyc_7313", Placing::Shared) < ns("epyc_7313", Placing::Separate));
        assert!(ns("xeon_e5520", Placing::Same).abs() < 1e-9);
    }
}
