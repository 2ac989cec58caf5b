// SPDX-License-Identifier: MIT OR Apache-2.0
//! Detects whether a program, or the host below it, has entered another phase, so that earlier judgements must be
//! repeated.
//!
//! A phase is characterised by a rate of progress and a time per cache line. The rate and the line time are medians
//! over several windows, so one window changes nothing. A new phase begins when either value is more than twice or
//! less than half its earlier value.

use std::collections::VecDeque;

use corehop_plan::host::{Activity, LineTimes};
use corehop_stats::ordered::Ordered;
use corehop_stats::quantile::median;

/// The number of windows in a median.
const WINDOWS: usize = 9;
/// The factor by which a median must change to start another phase.
const CHANGED: f64 = 2.0;

/// The recent windows, and the phase in which placements were last judged.
#[derive(Debug, Clone, Default)]
pub(super) struct Phases {
    last_progress: Option<f64>,
    rates: VecDeque<f64>,
    lines: VecDeque<f64>,
    basis: Option<PhaseSignature>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct PhaseSignature {
    rate: Option<f64>,
    line_ns: Option<f64>,
}

impl Phases {
    /// Adds a window.
    pub(super) fn take(&mut self, activity: &Activity) {
        let gained = activity.progress.zip(self.last_progress).map(|(now, last)| now - last);
        self.last_progress = activity.progress;
        let rate = gained.map(|it| it / (activity.span_ns.max(1) as f64 * 1e-9));
        push(&mut self.rates, rate.filter(|it| *it > 0.0));
        push(&mut self.lines, activity.lines.and_then(line_ns));
    }

    /// Records that placements are judged, so that the next windows define their phase.
    pub(super) fn judged(&mut self) {
        (self.basis, self.last_progress) = (None, None);
        self.rates.clear();
        self.lines.clear();
    }

    /// Whether the current phase differs from the phase of the first windows after a judgement.
    pub(super) fn changed(&mut self) -> bool {
        if self.rates.len() < WINDOWS && self.lines.len() < WINDOWS {
            return false;
        }
        let now = PhaseSignature { rate: middle(&self.rates), line_ns: middle(&self.lines) };
        let basis = self.basis.get_or_insert(now);
        basis.rate = basis.rate.or(now.rate);
        basis.line_ns = basis.line_ns.or(now.line_ns);
        differ(basis.rate, now.rate) || differ(basis.line_ns, now.line_ns)
    }
}

fn push(values: &mut VecDeque<f64>, value: Option<f64>) {
    let Some(value) = value else { return };
    if values.len() == WINDOWS {
        values.pop_front();
    }
    values.push_back(value);
}

/// The median of a complete row of values.
fn middle(values: &VecDeque<f64>) -> Option<f64> {
    let values: Vec<f64> = values.iter().copied().collect();
    let full = Ordered::new(&values).ok().filter(|_| values.len() == WINDOWS);
    full.map(|it| median(&it))
}

fn line_ns(times: LineTimes) -> Option<f64> {
    times.separate_ns.or(times.shared_cache_ns)
}

fn differ(before: Option<f64>, now: Option<f64>) -> bool {
    before.zip(now).is_some_and(|(x, y)| x.max(y) > CHANGED * x.min(y))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The windows at which a new phase is detected, if each window has the progress and line time that `of` returns.
    fn noticed(of: impl Fn(usize) -> (f64, f64)) -> Vec<usize> {
        let (mut phases, mut progress, mut noticed) = (Phases::default(), 0.0, Vec::new());
        for at in 0..60 {
            let (gained, ns) = of(at);
            progress += gained;
            let lines = LineTimes { shared_cache_ns: Some(ns), separate_ns: None };
            let (lines, progress) = (Some(lines), Some(progress));
            phases.take(&Activity { span_ns: 100_000_000, lines, progress, ..Activity::default() });
            if phases.changed() {
                noticed.push(at);
                phases.judged();
            }
        }
        noticed
    }

    #[test]
    fn a_phase_of_another_rate_or_distance_is_noticed_once_and_a_single_window_is_none() {
        assert!(noticed(|_| (10.0, 30.0)).is_empty());
        assert!(noticed(|at| (if at % 7 == 0 { 100.0 } else { 10.0 }, 30.0)).is_empty());
        for of in [
            |at| (if at < 30 { 10.0 } else { 30.0 }, 30.0),
            |at| (10.0, if at < 30 { 26.0 } else { 160.0 }),
            |at| (if at < 30 { 10.0 } else { 3.0 }, 30.0),
        ] {
            let at = noticed(of);
            assert!(at.len() == 1 && (31..40).contains(&at[0]), "{at:?}");
        }
    }

    #[test]
    fn a_program_that_tells_no_progress_has_one_phase() {
        let mut phases = Phases::default();
        for _ in 0..40 {
            phases.take(&Activity { span_ns: 1, ..Activity::default() });
            assert!(!phases.changed());
        }
    }
}
