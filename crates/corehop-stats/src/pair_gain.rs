// SPDX-License-Identifier: MIT OR Apache-2.0
//! The ratio of run times of two threads if they were moved together, from what a host observes of them.
//!
//! A placer asks [`ratio`] for two threads that share data. Pure: what was observed goes in, a prediction with its form comes out.
//! Unknown is None. Misses that are counted give a ratio; a source that sees hand-overs of lines in samples gives the least
//! number of them, and with it the largest ratio.

use super::gain::TAKEN;
use super::machine_gain::{Form, GainLaw, MachineGain, PredictedRatio, overflow};
use corehop_plan::host::{ActiveThread, DataSharing, InstructionCounts, LineTimes};
use corehop_plan::workload::gang::Placing;

/// Two threads in a window.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct ThreadPairWindow {
    /// The length of the window, in nanoseconds.
    pub span_ns: u64,
    /// The CPU time that each used in it, in nanoseconds.
    pub busy_ns: [u64; 2],
    /// Instructions and misses of both together, where counted.
    pub counted: Option<InstructionCounts>,
    /// The lines that one handed to the other in the window: the least number, from sources other than counters.
    pub handed_over: Option<f64>,
    /// Their working sets, where known.
    pub working_sets: Option<WorkingSetPair>,
}

/// The working sets of two threads, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct WorkingSetPair {
    /// That of each, common data among them.
    pub each: [u64; 2],
    /// The bytes that both have in common.
    pub common: u64,
}

/// The machine around them.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct SharingContext {
    /// The times of a line.
    pub lines: LineTimes,
    /// The bytes of one cache of the level that is in question: the one that both are to share.
    pub capacity: Option<u64>,
}

impl ThreadPairWindow {
    /// Two threads as a window has them, with what sources say of the two.
    pub fn of(a: &ActiveThread, b: &ActiveThread, span_ns: u64, shared: &[DataSharing]) -> Self {
        let of_both = |it: &&DataSharing| (it.a, it.b) == (a.tid.min(b.tid), a.tid.max(b.tid));
        // Two sources may see the same lines: their sum would be no lower bound.
        let most = shared.iter().filter(of_both).map(|it| it.per_second).max_by(f64::total_cmp);
        let sum = |(a, b): (InstructionCounts, InstructionCounts)| InstructionCounts {
            instructions: a.instructions + b.instructions,
            misses: a.misses + b.misses,
            from_caches: a.from_caches + b.from_caches,
        };
        Self {
            span_ns,
            busy_ns: [a.busy_ns, b.busy_ns],
            counted: a.counted.zip(b.counted).map(sum),
            handed_over: most.map(|it| it * span_ns as f64 * 1e-9),
            working_sets: None,
        }
    }

    fn busy(&self) -> f64 {
        self.busy_ns.iter().sum::<u64>() as f64
    }

    /// SMR and MPmI.
    fn counts(&self) -> Option<(f64, f64)> {
        let it = self.counted.filter(|it| it.instructions > 0)?;
        let smr = if it.misses > 0 { it.from_caches as f64 / it.misses as f64 } else { 0.0 };
        Some((smr.min(1.0), it.misses as f64 * 1e6 / it.instructions as f64))
    }
}

/// The ratio of run times of two threads, near over far, if they were moved from where they are (`far`: [`Placing::Separate`], or
/// [`Placing::Shared`] with a CPU each) to `near`: below a common cache, or onto one CPU. None where nothing speaks for a number or a
/// bound, and for threads that are on one CPU already.
///
/// The form that answers: the counts by what was fitted on this machine, or by the line times; without line times by the
/// equation for another machine; hand-overs that were seen in samples, by the line times, as a bound. Two busy threads take
/// turns on one CPU: the ratio goes to 2 as far as their time is not the transfer of lines. What no longer fits into the
/// shared cache raises it, by an unknown amount where nothing was fitted.
pub fn ratio(
    pair: &ThreadPairWindow,
    (near, far): (Placing, Placing),
    around: &SharingContext,
    fitted: Option<&MachineGain>,
) -> Option<PredictedRatio> {
    if near == far || far == Placing::Same || pair.busy() <= 0.0 {
        return None;
    }
    let line = |placing| match placing {
        Placing::Same => Some(0.0),
        Placing::Shared => around.lines.shared_cache_ns,
        Placing::Separate => around.lines.separate_ns,
        Placing::Moved => None,
    };
    let fitted = fitted.filter(|it| (it.near, it.far) == (near, far));
    let lines = line(near).zip(line(far));
    let together = by_counts(pair, near, lines, fitted)
        .or_else(|| by_lines(pair, near, lines?, fitted))
        .or_else(|| unfitted(pair, near, lines));
    crowded(pair, around, together, fitted)
}

/// By SMR and MPmI, as fitted on this machine; a shared cache alone, since counts say nothing of turns.
fn by_counts(
    pair: &ThreadPairWindow,
    near: Placing,
    lines: Option<(f64, f64)>,
    fitted: Option<&MachineGain>,
) -> Option<PredictedRatio> {
    let is_no_nearer = lines.is_some_and(|(near, far)| near >= far);
    if near == Placing::Same || is_no_nearer {
        return None;
    }
    let (smr, mpmi) = pair.counts()?;
    fitted?.of_counts(smr, mpmi)
}

/// By the lines that are handed over and the times of a line.
fn by_lines(
    pair: &ThreadPairWindow,
    near: Placing,
    (near_ns, far_ns): (f64, f64),
    fitted: Option<&MachineGain>,
) -> Option<PredictedRatio> {
    let lines = fitted.and_then(|it| it.form(Form::Lines));
    let (form, each) = match lines.map(|it| it.law) {
        Some(GainLaw::Lines { each }) => (Form::Lines, each),
        _ => (Form::Physical, 1.0),
    };
    let counted = pair.counted.map(|it| it.from_caches as f64);
    let handed_over = counted.or(pair.handed_over)?;
    let busy = pair.busy();
    // No thread waits longer than it runs.
    let waits = (each * handed_over * far_ns).min(busy);
    let far_share = if far_ns > 0.0 { near_ns / far_ns } else { 1.0 };
    let then = busy - waits + waits * far_share;
    let ratio = then / time_now(pair, near);
    let point = PredictedRatio::point(ratio, form);
    let judged = lines.and_then(super::machine_gain::FittedForm::judged);
    if counted.is_some() {
        return Some(still_waits(pair, near, point.within(judged)));
    }
    // More may be handed over than was seen: the threads may gain more.
    let high = point.within(judged).high.unwrap_or(ratio);
    let bound = PredictedRatio { ratio: None, low: None, high: Some(high), level: None, ..point };
    Some(still_waits(pair, near, bound))
}

/// The time that the work takes now: of threads with a CPU each the longer one's, and together at least one CPU's worth.
fn time_now(pair: &ThreadPairWindow, near: Placing) -> f64 {
    match near {
        Placing::Same => pair.busy().min(pair.span_ns.max(1) as f64),
        _ => pair.busy(),
    }
}

/// Threads that wait for something else too may not get on faster although they do less.
fn still_waits(pair: &ThreadPairWindow, near: Placing, it: PredictedRatio) -> PredictedRatio {
    let idle = near == Placing::Same && pair.busy() < pair.span_ns as f64;
    if idle { PredictedRatio { high: it.high.map(|high| high.max(1.0)), ..it } } else { it }
}

/// Without line times: by the equation of another machine, which has no interval here. Without any evidence: two busy threads on
/// one CPU take turns, and nothing says that they share.
fn unfitted(
    pair: &ThreadPairWindow,
    near: Placing,
    lines: Option<(f64, f64)>,
) -> Option<PredictedRatio> {
    if near == Placing::Same {
        let most = pair.busy() / time_now(pair, near);
        let bound = PredictedRatio::point(most, Form::Physical);
        return Some(PredictedRatio { ratio: None, high: Some(most), ..bound });
    }
    let (smr, mpmi) = pair.counts().filter(|_| lines.is_none())?;
    Some(PredictedRatio::point(TAKEN.ratio(smr, mpmi), Form::Saturating))
}

/// With what no longer fits into the cache that both are to share.
fn crowded(
    pair: &ThreadPairWindow,
    around: &SharingContext,
    together: Option<PredictedRatio>,
    fitted: Option<&MachineGain>,
) -> Option<PredictedRatio> {
    let Some((sets, capacity)) = pair.working_sets.zip(around.capacity) else { return together };
    let both = sets.each[0] + sets.each[1];
    let alone = sets.each.map(|it| overflow(it, capacity)).into_iter().fold(0.0, f64::max);
    let more = overflow(both.saturating_sub(sets.common), capacity) - alone;
    if more <= 0.0 {
        return together;
    }
    let before = together.unwrap_or(PredictedRatio::point(1.0, Form::Physical));
    let low = before.low.or(before.ratio);
    Some(match fitted.and_then(|it| it.crowding) {
        Some(each) => {
            let times = |it: Option<f64>| it.map(|it| it * (1.0 + each * more));
            let (ratio, low, high) = (times(before.ratio), times(low), times(before.high));
            PredictedRatio { ratio, low, high, ..before }
        }
        // By how much was not measured: it is no less than without.
        None => PredictedRatio { ratio: None, low, high: None, level: None, ..before },
    })
}

#[cfg(test)]
mod tests;
