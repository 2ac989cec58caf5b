// SPDX-License-Identifier: MIT OR Apache-2.0
//! The line of a placer under way: on a terminal, on stderr, renewed with every window.

use corehop_app::place::PlacingView;
use corehop_decide::placer::Action;
use corehop_decide::placer::log::PlacementFindings;
use corehop_plan::host::Activity;
use corehop_report::placement;
use indicatif::{ProgressBar, ProgressStyle};

use crate::output::spinner;

/// The present step of a placer, on a terminal; nothing elsewhere.
#[derive(Debug)]
pub(super) struct PlacerProgress {
    /// Draws on stderr, and hides where that is no terminal.
    line: ProgressBar,
    windows: u64,
    /// The windows after which the placer ends with its advice.
    last: Option<u32>,
    state: &'static str,
}

impl PlacerProgress {
    pub(super) fn new(last: Option<u32>) -> Self {
        let line = spinner();
        // The template is a constant; where it could not be parsed the default would be shown.
        if let Ok(style) = ProgressStyle::with_template("{wide_msg}") {
            line.set_style(style);
        }
        Self { line, windows: 0, last, state: "watching" }
    }
}

impl PlacingView for PlacerProgress {
    /// Renews the line after a window.
    fn window(&mut self, activity: &Activity, actions: &[Action]) {
        self.windows += 1;
        self.state = actions.iter().filter_map(state).next_back().unwrap_or(self.state);
        self.line.set_message(text(self.windows, self.last, activity, self.state));
        // A steady tick is a thread, and indicatif panics if the system starts none.
        self.line.tick();
    }

    /// Says advice at once, above the line: the program that is placed may go on for long.
    fn advice(&self, answer: &PlacementFindings, actions: &[Action]) {
        let advises = actions.iter().any(|it| matches!(it, Action::Advise(_)));
        if advises && self.last.is_none() {
            self.line.println(placement::sentence(answer));
        }
    }

    /// Lets others write to stderr.
    fn beside(&self, write: &mut dyn FnMut()) {
        self.line.suspend(write);
    }
}

impl Drop for PlacerProgress {
    fn drop(&mut self) {
        self.line.finish_and_clear();
    }
}

/// The step of a placer after an action.
fn state(action: &Action) -> Option<&'static str> {
    match action {
        Action::Advise(_) => Some("watching, advice is there"),
        Action::Try(_) => Some("trying a placement"),
        Action::Judge { kept: true, .. } => Some("watching, a placement is kept"),
        Action::Judge { kept: false, .. } => Some("watching, a placement was taken back"),
        Action::Place { .. } | Action::Restore => None,
    }
}

/// `window 7 of 20: 2 threads use 83 % of a CPU, 20512 wake-ups/s between them; watching`
fn text(windows: u64, last: Option<u32>, activity: &Activity, state: &str) -> String {
    let of = last.map_or_else(String::new, |it| format!(" of {it}"));
    let threads = activity.threads.len();
    let (s, ends) = if threads == 1 { ("", "s") } else { ("s", "") };
    let span = activity.span_ns.max(1) as f64;
    let busy: u64 = activity.threads.iter().map(|it| it.busy_ns).sum();
    let busy = 100.0 * busy as f64 / span;
    let wakes = wake_ups(activity);
    format!(
        "window {windows}{of}: {threads} thread{s} use{ends} {busy:.0} % of a CPU{wakes}; {state}"
    )
}

/// The rate of wake-ups; empty for a window in which they were not counted.
fn wake_ups(activity: &Activity) -> String {
    let wakes: u64 = activity.contacts.iter().map(|it| it.count).sum();
    match activity.counted_ns() {
        0 => String::new(),
        ns => format!(", {:.0} wake-ups/s between them", wakes as f64 / (ns as f64 * 1e-9)),
    }
}

#[cfg(test)]
mod tests {
    use corehop_plan::host::{ActiveThread, Contact};

    use super::*;

    #[test]
    fn the_line_says_the_window_the_load_the_wake_ups_and_what_the_placer_is_at() {
        let thread = ActiveThread { busy_ns: 40_000_000, ..ActiveThread::default() };
        let mut activity = Activity {
            span_ns: 100_000_000,
            threads: vec![thread.clone(), thread],
            contacts: vec![Contact { waker: 1, woken: 2, count: 2_000 }],
            ..Activity::default()
        };
        assert_eq!(
            text(7, Some(20), &activity, "watching"),
            "window 7 of 20: 2 threads use 80 % of a CPU, 20000 wake-ups/s between them; watching"
        );
        activity.threads.truncate(1);
        activity.contacts.clear();
        activity.counted_ns = Some(0);
        let line = text(1, None, &activity, "watching");
        assert_eq!(line, "window 1: 1 thread uses 40 % of a CPU; watching");
        let restore = [Action::Restore];
        assert_eq!(restore.iter().find_map(state), None);
        let line = text(
            1,
            None,
            &activity,
            state(&Action::Judge {
                verdict: corehop_decide::placer::trial::TrialVerdict::Invalid {
                    why: corehop_decide::placer::trial::UndecidedReason::Unknown,
                },
                kept: false,
            })
            .unwrap(),
        );
        assert!(line.starts_with("window 1: 1 thread uses 40 %") && line.ends_with("taken back"));
    }
}
