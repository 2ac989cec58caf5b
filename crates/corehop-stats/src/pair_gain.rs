// SPDX-License-Identifier: MIT OR Apache-2.0
//! Predicts the ratio of run times if two threads were moved together, from a host's observations of the threads.
//!
//! The placer calls [`ratio`] for two threads that share data. The module is pure: it takes observations and returns a
//! prediction with its form. A value that is unknown is `None`. The misses that were counted give a ratio. A source
//! that samples hand-overs of lines gives a lower bound of their number, and therefore an upper bound of the ratio.

use super::gain::TAKEN;
use super::machine_gain::{Form, GainLaw, MachineGain, PredictedRatio, overflow};
use corehop_plan::host::{ActiveThread, DataSharing, InstructionCounts, LineTimes};
use corehop_plan::workload::gang::Placing;

/// The observations of two threads in one window.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct ThreadPairWindow {
    /// The length of the window, in nanoseconds.
    pub span_ns: u64,
    /// The CPU time that each thread used in the window, in nanoseconds.
    pub busy_ns: [u64; 2],
    /// The instructions and misses of both threads together, if counted.
    pub counted: Option<InstructionCounts>,
    /// A lower bound of the number of lines that one thread handed to the other in the window, from sources other than
    /// counters.
    pub handed_over: Option<f64>,
    /// The working sets of the threads, if known.
    pub working_sets: Option<WorkingSetPair>,
}

/// The working sets of two threads, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct WorkingSetPair {
    /// The working set of each thread, including common data.
    pub each: [u64; 2],
    /// The size of the data that both threads use, in bytes.
    pub common: u64,
}

/// The facts of the machine that runs the threads.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct SharingContext {
    /// The transfer times of a line between two CPUs.
    pub lines: LineTimes,
    /// The size in bytes of one cache at the considered level, which both threads would share.
    pub capacity: Option<u64>,
}

impl ThreadPairWindow {
    /// Returns the observations of two threads in a window, with the evidence of sources about this pair.
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

    /// Returns the SMR and the MPmI of the two threads.
    fn counts(&self) -> Option<(f64, f64)> {
        let it = self.counted.filter(|it| it.instructions > 0)?;
        let smr = if it.misses > 0 { it.from_caches as f64 / it.misses as f64 } else { 0.0 };
        Some((smr.min(1.0), it.misses as f64 * 1e6 / it.instructions as f64))
    }
}

/// Returns the ratio of run times, near over far, for two threads that would move from their present placing `far` to
/// the placing `near`. The placing `far` is [`Placing::Separate`], or [`Placing::Shared`] with a CPU each; the placing
/// `near` is below a common cache, or on one CPU. Returns `None` if there is no evidence for a number or a bound, and
/// for threads that already share a CPU.
///
/// The function prefers counts with the law fitted on this machine, then counts with the line times, and then the
/// equation of another machine. Without counts, the function uses sampled hand-overs with the line times, which give
/// only a bound. If two busy threads run in turn on one CPU, the ratio of run times approaches 2, unless the threads
/// spend their time on transferring lines. Data that no longer fits into the shared cache raises the ratio of run times;
/// without a fitted law the increase is unknown.
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

/// Returns the ratio from SMR and MPmI, as fitted on this machine; only for a shared cache, because counts do not show
/// the cost of running in turn.
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

/// Returns the ratio from the lines that are handed over and the transfer times of a line.
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

/// Returns the present time of the work, which is the CPU time of both threads; if `near` is one CPU, the time is at
/// most the length of the window.
fn time_now(pair: &ThreadPairWindow, near: Placing) -> f64 {
    match near {
        Placing::Same => pair.busy().min(pair.span_ns.max(1) as f64),
        _ => pair.busy(),
    }
}

/// Raises the upper bound to at least 1 for threads that also wait for something else, because less work may not make
/// them faster.
fn still_waits(pair: &ThreadPairWindow, near: Placing, it: PredictedRatio) -> PredictedRatio {
    let idle = near == Placing::Same && pair.busy() < pair.span_ns as f64;
    if idle { PredictedRatio { high: it.high.map(|high| high.max(1.0)), ..it } } else { it }
}

/// Returns the ratio without line times: from the equation of another machine, without an interval. The prediction
/// assumes that two busy threads on one CPU run in turn, because nothing shows that they share data.
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

/// Includes the effect of data that no longer fits into the cache that both threads would share.
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
