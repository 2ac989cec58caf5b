// SPDX-License-Identifier: MIT OR Apache-2.0
//! The status line of a running placer: shown on stderr if that is a terminal, and updated after every window.

use corehop_app::place::{PlacingView, WindowLine};
use corehop_decide::placer::Action;
use corehop_decide::placer::log::PlacementFindings;
use corehop_plan::host::Activity;
use corehop_report::placement;
use indicatif::{ProgressBar, ProgressStyle};

use crate::output::spinner;

/// The status display of a placer; hidden without a terminal.
#[derive(Debug)]
pub(super) struct PlacerProgress {
    /// The progress line on stderr; hidden without a terminal.
    line: ProgressBar,
    state: WindowLine,
}

impl PlacerProgress {
    pub(super) fn new(last: Option<u32>) -> Self {
        let line = spinner();
        // The template is a constant; where it could not be parsed the default would be shown.
        if let Ok(style) = ProgressStyle::with_template("{wide_msg}") {
            line.set_style(style);
        }
        Self { line, state: WindowLine::new(last) }
    }
}

impl PlacingView for PlacerProgress {
    /// Updates the status line after a window.
    fn window(&mut self, activity: &Activity, actions: &[Action]) {
        self.line.set_message(self.state.after(activity, actions));
        // A steady tick is a thread, and indicatif panics if the system starts none.
        self.line.tick();
    }

    /// Prints advice at once, above the status line, because the placed program may run for a long time.
    fn advice(&self, answer: &PlacementFindings, actions: &[Action]) {
        let advises = actions.iter().any(|it| matches!(it, Action::Advise(_)));
        if advises && self.state.goes_on() {
            self.line.println(placement::sentence(answer));
        }
    }

    /// Runs `write`, which can print to stderr without disturbing the status line.
    fn beside(&self, write: &mut dyn FnMut()) {
        self.line.suspend(write);
    }
}

impl Drop for PlacerProgress {
    fn drop(&mut self) {
        self.line.finish_and_clear();
    }
}
