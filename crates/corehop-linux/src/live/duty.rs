// SPDX-License-Identifier: MIT OR Apache-2.0
//! The duty budget: how long a measured job and its preemptor may keep a CPU busy.

use std::collections::VecDeque;

/// The window that the budget refers to, in nanoseconds.
pub(crate) const WINDOW_NS: f64 = 100e6;
/// The most that may be busy in any such window, in nanoseconds.
pub(crate) const BUDGET_NS: f64 = 50e6;
/// Of these, what may be planned. The rest is for spans that take longer than was estimated.
const PLANNED_NS: f64 = 45e6;

/// Busy spans of one CPU, as nanoseconds since some origin.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    spans: VecDeque<(f64, f64)>,
}

impl Ledger {
    /// Enters a busy span.
    pub(crate) fn busy(&mut self, from: f64, to: f64) {
        match self.spans.back_mut() {
            // One span with the one before: there are thousands of short jobs in a window.
            Some(last) if from <= last.1 + 1.0 => last.1 = last.1.max(to),
            _ => self.spans.push_back((from, to)),
        }
        while self.spans.front().is_some_and(|&(_, end)| end < to - WINDOW_NS) {
            self.spans.pop_front();
        }
    }

    /// The busy time from `since` on.
    fn busy_since(&self, since: f64) -> f64 {
        self.spans.iter().map(|&(from, to)| (to - from.max(since)).max(0.0)).sum()
    }

    /// The time to wait at `now` before `need` more busy nanoseconds keep to the planned part of the budget; a
    /// need above that waits until the window is empty.
    pub(crate) fn wait(&self, now: f64, need: f64) -> f64 {
        let need = need.min(PLANNED_NS);
        let fits = |start: f64| self.busy_since(start + need - WINDOW_NS) + need <= PLANNED_NS;
        if fits(now) {
            return 0.0;
        }
        // Busy time only leaves the window as a span does: the answer lies where enough has left.
        let (mut early, mut late) = (now, now + WINDOW_NS);
        for _ in 0..40 {
            let middle = f64::midpoint(early, late);
            if fits(middle) { late = middle } else { early = middle }
        }
        late - now
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: f64 = 1e6;

    #[test]
    fn an_idle_cpu_need_not_wait() {
        assert!(Ledger::default().wait(0.0, 50.0 * MS) <= 0.0);
    }

    #[test]
    fn a_full_window_waits_until_enough_has_left_it() {
        let mut ledger = Ledger::default();
        ledger.busy(0.0, 50.0 * MS);
        // Another 10 ms fit when 15 ms of the span lie more than 100 ms before their end.
        let wait = ledger.wait(50.0 * MS, 10.0 * MS);
        assert!((wait - 55.0 * MS).abs() < 1.0, "{wait}");
    }

    #[test]
    fn spans_that_touch_are_one_and_count_once() {
        let mut ledger = Ledger::default();
        ledger.busy(0.0, 10.0 * MS);
        ledger.busy(10.0 * MS, 20.0 * MS);
        // A preemptor's span begins when the job left.
        ledger.busy(20.0 * MS, 30.0 * MS);
        ledger.busy(40.0 * MS, 50.0 * MS);
        assert_eq!(ledger.spans, [(0.0, 30.0 * MS), (40.0 * MS, 50.0 * MS)]);
    }

    #[test]
    fn no_window_is_ever_busier_than_the_budget_when_the_waits_are_kept() {
        let mut ledger = Ledger::default();
        let mut spans = Vec::new();
        let mut now = 0.0;
        for round in 0..500 {
            let need = f64::from(round * 7919 % 31) * MS;
            now += ledger.wait(now, need);
            // It takes somewhat longer than was estimated.
            let took = need * 1.1;
            ledger.busy(now, now + took);
            spans.push((now, now + took));
            now += took;
        }
        for &(_, end) in &spans {
            let busy: f64 = spans
                .iter()
                .map(|&(from, to)| (to.min(end) - from.max(end - WINDOW_NS)).max(0.0))
                .sum();
            assert!(busy <= BUDGET_NS + 1.0, "{busy} until {end}");
        }
    }
}
