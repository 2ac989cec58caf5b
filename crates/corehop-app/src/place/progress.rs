// SPDX-License-Identifier: MIT OR Apache-2.0
//! The status line of a running placer, which is updated in each window.

use corehop_decide::placer::Action;
use corehop_plan::host::Activity;

/// The number of windows so far, and the current step.
#[derive(Debug, Clone)]
pub struct WindowLine {
    windows: u64,
    /// The number of windows after which the placer ends with its advice.
    last: Option<u32>,
    step: &'static str,
}

impl WindowLine {
    /// Creates the line before the first window.
    pub const fn new(last: Option<u32>) -> Self {
        Self { windows: 0, last, step: "watching" }
    }

    /// Returns whether the placer continues after its advice.
    pub const fn goes_on(&self) -> bool {
        self.last.is_none()
    }

    /// Returns the line after a window.
    pub fn after(&mut self, activity: &Activity, actions: &[Action]) -> String {
        self.windows += 1;
        self.step = actions.iter().filter_map(step).next_back().unwrap_or(self.step);
        text(self.windows, self.last, activity, self.step)
    }
}

/// The step of the placer after an action.
fn step(action: &Action) -> Option<&'static str> {
    match action {
        Action::Advise(_) => Some("watching, advice is ready"),
        Action::Try(_) => Some("trying a placement"),
        Action::Judge { kept: true, .. } => Some("watching, a placement is kept"),
        Action::Judge { kept: false, .. } => Some("watching, a placement was undone"),
        Action::Place { .. } | Action::Restore => None,
    }
}

/// Formats, for example, `window 7 of 20: 2 threads use 83 % of a CPU, 20512 wake-ups/s between
/// them; watching`.
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
        assert_eq!(restore.iter().find_map(step), None);
        let line = text(
            1,
            None,
            &activity,
            step(&Action::Judge {
                verdict: corehop_decide::placer::trial::TrialVerdict::Invalid {
                    why: corehop_decide::placer::trial::UndecidedReason::Unknown,
                },
                kept: false,
            })
            .unwrap(),
        );
        assert!(line.starts_with("window 1: 1 thread uses 40 %") && line.ends_with("undone"));
    }
}
