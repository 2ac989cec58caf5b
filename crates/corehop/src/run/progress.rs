// SPDX-License-Identifier: MIT OR Apache-2.0
//! How far a run is, on stderr, where that is a terminal.

use std::io::IsTerminal;
use std::time::Duration;

use corehop_core::decision::sampling::{Campaign, CellProgress};
use indicatif::{ProgressBar, ProgressStyle};

/// The progress of a run.
pub(super) struct Progress {
    bar: Option<ProgressBar>,
    quiet: bool,
}

impl Progress {
    pub(super) fn new(quiet: bool) -> Self {
        let visible = !quiet && std::io::stderr().is_terminal();
        Self { bar: visible.then(bar), quiet }
    }

    pub(super) fn show(&self, campaign: &Campaign) {
        let Some(bar) = &self.bar else { return };
        let cells = campaign.progress();
        bar.set_length(cells.iter().map(|cell| u64::from(cell.asked)).sum());
        bar.set_position(cells.iter().map(|cell| u64::from(cell.valid.min(cell.asked))).sum());
        let done = cells.iter().filter(|cell| cell.valid >= cell.asked).count();
        bar.set_message(format!("{done} of {} cells complete", cells.len()));
    }

    /// The last word: what was asked for and is missing.
    #[expect(clippy::print_stderr, reason = "progress goes to stderr")]
    pub(super) fn end(&self, campaign: &Campaign, stopped_by: Option<&str>) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
        if self.quiet {
            return;
        }
        let lacking: Vec<CellProgress> =
            campaign.progress().into_iter().filter(|cell| cell.valid < cell.asked).collect();
        if let Some(why) = stopped_by {
            eprintln!("stopped by {why}: {} cells lack samples that were asked for", lacking.len());
        }
        let given_up = lacking.iter().filter(|cell| cell.given_up).count();
        if given_up > 0 {
            eprintln!(
                "{given_up} cells were given up: too many of their samples were disturbed; `corehop show` says by what"
            );
        }
    }
}

fn bar() -> ProgressBar {
    let bar = ProgressBar::new(0);
    // The template is a constant; where it could not be parsed the default would be shown.
    if let Ok(style) =
        ProgressStyle::with_template("{bar:30} {pos}/{len} valid samples, {msg}, {eta} left")
    {
        bar.set_style(style);
    }
    bar
}

/// A span of time for people: `about 40 s`, `about 3 min`, `about 12 h`.
pub(crate) fn rough(time: Duration) -> String {
    match time.as_secs() {
        seconds @ 0..=119 => format!("about {} s", seconds.max(1)),
        seconds @ 120..=7199 => format!("about {} min", seconds / 60),
        seconds => format!("about {} h", seconds / 3600),
    }
}
