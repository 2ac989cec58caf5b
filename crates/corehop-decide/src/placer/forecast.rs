// SPDX-License-Identifier: MIT OR Apache-2.0
//! Predicts the gain of groups of threads before a trial, by the model for each pair.

use super::looks::Looks;
use super::search::MoveCandidate;
use super::terrain::Terrain;
use corehop_plan::host::Activity;
use corehop_plan::units::Bytes;
use corehop_plan::workload::gang::Placing;
use corehop_stats::contacts::Tie;
use corehop_stats::machine_gain::{MachineGain, PredictedRatio};
use corehop_stats::pair_gain::{SharingContext, ThreadPairWindow, WorkingSetPair, ratio};

/// A window, the looks up to its end, the host, and the model fitted on this host.
#[derive(Debug, Clone, Copy)]
pub(super) struct PlacementForecast<'a> {
    terrain: &'a Terrain,
    looks: &'a Looks,
    activity: &'a Activity,
    around: SharingContext,
    far: Placing,
    fitted: Option<&'a MachineGain>,
}

impl<'a> PlacementForecast<'a> {
    pub(super) fn new(
        terrain: &'a Terrain,
        looks: &'a Looks,
        fitted: Option<&'a MachineGain>,
        activity: &'a Activity,
    ) -> Self {
        let several = terrain.caches().len() > 1;
        let far = if several { Placing::Separate } else { Placing::Shared };
        let capacity = terrain.size(0).map(Bytes::get);
        let around = SharingContext { lines: terrain.line_times(), capacity };
        Self { terrain, looks, activity, around, far, fitted }
    }

    /// The predicted ratio of the pair that gains least, on one CPU or below a cache; `None` if a group is not a
    /// pair, or a pair has no prediction.
    pub(super) fn of(
        self,
        groups: &[Vec<MoveCandidate<'_>>],
        ties: &[Tie],
        on_one_cpu: bool,
    ) -> Option<PredictedRatio> {
        let near = if on_one_cpu { Placing::Same } else { Placing::Shared };
        let of = |group: &Vec<MoveCandidate<'_>>| {
            let [a, b] = group[..] else { return None };
            let of_all =
                ratio(&self.pair(a, b, ties), (near, self.far), &self.around, self.fitted)?;
            // Where they ran together already, they gain nothing.
            let ran = self.terrain.ran(self.looks.of(a.thread.tid, b.thread.tid));
            Some(of_all.of_part(ran.map_or(1.0, |it| 1.0 - it.near(on_one_cpu))))
        };
        let all: Option<Vec<PredictedRatio>> = groups.iter().map(of).collect();
        let most = |it: &PredictedRatio| it.low.or(it.ratio).unwrap_or(0.0);
        all?.into_iter().max_by(|x, y| most(x).total_cmp(&most(y)))
    }

    fn pair(self, a: MoveCandidate<'_>, b: MoveCandidate<'_>, ties: &[Tie]) -> ThreadPairWindow {
        let (a, b) = (a.thread, b.thread);
        let (low, high) = (a.tid.min(b.tid), a.tid.max(b.tid));
        // The graph knows more than one window does.
        let tie = ties.iter().find(|it| (it.a, it.b) == (low, high) && it.lines_at_least > 0.0);
        let seconds = self.activity.span_ns as f64 * 1e-9;
        let sets = a.working_set.zip(b.working_set);
        ThreadPairWindow {
            handed_over: tie.map(|it| it.lines_at_least * seconds),
            // Of one process each has its share, so that nothing is counted twice.
            working_sets: sets.map(|(a, b)| WorkingSetPair { each: [a, b], common: 0 }),
            ..ThreadPairWindow::of(a, b, self.activity.span_ns, &[])
        }
    }
}
