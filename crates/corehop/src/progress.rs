// SPDX-License-Identifier: MIT OR Apache-2.0
//! The progress of a run, on stderr if that is a terminal: a bar for every cell that still lacks
//! samples, as many as the terminal has lines, and one bar for the whole run.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use corehop_app::run::RunView;
use corehop_plan::experiment::SamplingUnit;
use corehop_plan::shown;
use corehop_plan::units::Nanos;
use corehop_stats::campaign::forecast::{CellShortfall, Forecast, Outlook};
use corehop_stats::campaign::sampling::{Campaign, CellProgress};
use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use terminal_size::terminal_size_of;

use crate::output::{bars, counted, say};

/// The interval between updates of the terminal.
const EVERY: Duration = Duration::from_millis(250);
/// The number of terminal lines not available for bars: the lines above the bars, the prompt, and the echo of a
/// Ctrl-C.
const LINES_NOT_OURS: usize = 3;
/// The number of columns after a cell's name and bar, for a text such as `1024/5000`, `2 min left`.
const COUNTS: usize = 9;
const LEFT: usize = 10;
/// The width of a bar on a narrow terminal, the largest width of a narrow terminal, and the width of a bar on a
/// wider terminal, in columns.
const BARS: (usize, usize, usize) = (8, 76, 20);

/// Creates the view of a run on the terminal.
pub(crate) fn view(units: &[SamplingUnit], deadline: Option<Instant>) -> Box<dyn RunView> {
    Box::new(TerminalView::new(units, deadline))
}

/// The progress of a run.
struct TerminalView {
    board: Option<ProgressBoard>,
    names: Vec<String>,
    costs: Vec<Nanos>,
    forecast: Forecast,
    targets: Vec<u32>,
    begun: Instant,
    deadline: Option<Instant>,
}

/// The bars on the terminal.
struct ProgressBoard {
    lines: MultiProgress,
    whole: ProgressBar,
    cells: Vec<ProgressBar>,
    drawn: Option<Instant>,
}

impl TerminalView {
    fn new(units: &[SamplingUnit], deadline: Option<Instant>) -> Self {
        let dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb");
        let terminal = bars().filter(|_| !dumb);
        // Where nothing is known, all are alike.
        let costs: Vec<Nanos> = units.iter().map(|unit| unit.each.max(Nanos::new(1))).collect();
        Self {
            board: terminal.map(ProgressBoard::new),
            names: units.iter().map(|unit| unit.name.clone()).collect(),
            forecast: Forecast::new(costs.clone(), &[]),
            costs,
            targets: units.iter().map(|unit| unit.asked).collect(),
            begun: Instant::now(),
            deadline,
        }
    }
}

impl RunView for TerminalView {
    fn begin(&mut self, campaign: &Campaign) {
        self.forecast = Forecast::new(self.costs.clone(), &campaign.progress());
    }

    fn say(&self, line: &str) {
        if std::io::stderr().is_terminal() {
            say(&format!("corehop: {line}\n"));
        }
    }

    fn block(&mut self, campaign: &Campaign, quota: &[u32]) {
        self.targets = campaign.targets(quota);
    }

    fn show(&mut self, campaign: &Campaign) {
        let Some(board) = self.board.as_mut().filter(|board| board.is_due()) else { return };
        let elapsed = Nanos::new(self.begun.elapsed().as_nanos() as u64);
        let mut outlook = self.forecast.look(elapsed, &campaign.progress(), &self.targets);
        let budget = self.deadline.map(|end| end.saturating_duration_since(Instant::now()));
        if let Some(budget) = budget.map(|left| Nanos::new(left.as_nanos() as u64)) {
            outlook.left = Some(outlook.left.map_or(budget, |left| left.min(budget)));
        }
        board.draw(&outlook, &self.names);
    }

    fn end(&self, campaign: &Campaign, stopped_by: Option<&str>) {
        if let Some(board) = &self.board {
            // A terminal that has gone away needs no cleaning.
            let _ = board.lines.clear();
        }
        let lacking: Vec<CellProgress> =
            campaign.progress().into_iter().filter(|cell| cell.valid < cell.asked).collect();
        if let Some(why) = stopped_by {
            say(&format!("stopped by {why}: {} cells lack requested samples\n", lacking.len()));
        }
        let given_up = lacking.iter().filter(|cell| cell.given_up);
        let (impossible, disturbed): (Vec<&CellProgress>, Vec<&CellProgress>) =
            given_up.partition(|cell| cell.impossible);
        for (cells, why) in
            [(impossible, "no attempt gave a value"), (disturbed, "too many disturbed samples")]
        {
            if !cells.is_empty() {
                let cells = counted(cells.len() as u64, "cell");
                say(&format!(
                    "corehop gave up {cells}: {why}; `corehop report contents FILE` lists the causes\n"
                ));
            }
        }
    }
}

impl ProgressBoard {
    fn new(terminal: ProgressDrawTarget) -> Self {
        let lines = MultiProgress::with_draw_target(terminal);
        let whole = lines.add(ProgressBar::new(1000));
        Self { lines, whole, cells: Vec::new(), drawn: None }
    }

    fn is_due(&self) -> bool {
        self.drawn.is_none_or(|drawn| drawn.elapsed() >= EVERY)
    }

    fn draw(&mut self, outlook: &Outlook, names: &[String]) {
        self.drawn = Some(Instant::now());
        let size = terminal_size_of(std::io::stderr());
        let (width, height) =
            size.map_or((80, 24), |(width, height)| (usize::from(width.0), usize::from(height.0)));
        let shown = chosen(&outlook.unfinished, height.saturating_sub(1 + LINES_NOT_OURS));
        while self.cells.len() > shown.len() {
            if let Some(bar) = self.cells.pop() {
                self.lines.remove(&bar);
            }
        }
        while self.cells.len() < shown.len() {
            self.cells.push(self.lines.insert_before(&self.whole, ProgressBar::new(1)));
        }
        let bar_width = if width <= BARS.1 { BARS.0 } else { BARS.2 };
        let room = width.saturating_sub(bar_width + COUNTS + LEFT + 4);
        let longest = shown.iter().map(|it| names[it.cell].chars().count()).max().unwrap_or(0);
        let name_width = longest.min(room).max(8);
        for (bar, it) in self.cells.iter().zip(&shown) {
            bar.set_style(style(bar_width));
            bar.set_prefix(fitted(&names[it.cell], name_width));
            bar.set_length(u64::from(it.target));
            bar.set_position(u64::from(it.valid.min(it.target)));
            let counts = format!("{}/{}", it.valid, it.target);
            bar.set_message(format!("{counts:>COUNTS$} {:>LEFT$}", time_left(it.left)));
        }
        self.whole.set_style(style(bar_width));
        self.whole.set_prefix(fitted("all", name_width));
        self.whole.set_position((1000.0 * outlook.done) as u64);
        let room = width.saturating_sub(name_width + bar_width + 3);
        self.whole.set_message(cut(&summary(outlook, shown.len()), room));
    }
}

/// The summary line of the whole run.
fn summary(outlook: &Outlook, shown: usize) -> String {
    let unfinished = outlook.unfinished.len();
    let complete = outlook.cells - unfinished;
    let left = outlook.left.map(|left| time_left(Some(left)));
    let hidden = (unfinished > shown).then(|| format!("{} not shown", unfinished - shown));
    let complete = format!("{complete} of {} cells complete", outlook.cells);
    left.into_iter().chain([complete]).chain(hidden).collect::<Vec<_>>().join(", ")
}

/// The cells to show, at most `lines`: those with the most work left, in the order of the plan.
fn chosen(unfinished: &[CellShortfall], lines: usize) -> Vec<CellShortfall> {
    let mut some: Vec<CellShortfall> = unfinished.iter().take(lines).copied().collect();
    some.sort_by_key(|it| it.cell);
    some
}

fn style(bar_width: usize) -> ProgressStyle {
    // Where the template could not be parsed the default would be shown.
    ProgressStyle::with_template(&format!("{{prefix}} {{bar:{bar_width}}} {{msg}}"))
        .unwrap_or_else(|_| ProgressStyle::default_bar())
}

/// A name padded or cut to exactly `width` columns.
fn fitted(name: &str, width: usize) -> String {
    format!("{:<width$}", cut(&shown::line(name), width))
}

/// A text in at most `width` columns, with a mark if the text was cut.
fn cut(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    let start: String = text.chars().take(width.saturating_sub(1)).collect();
    format!("{start}…")
}

fn time_left(left: Option<Nanos>) -> String {
    left.map_or_else(
        || "waiting".to_owned(),
        |left| format!("{} left", short(Duration::from_nanos(left.get()))),
    )
}

/// A span of time in a few characters, such as `40 s`, `3 min` or `12 h`.
fn short(time: Duration) -> String {
    match time.as_secs() {
        seconds @ 0..=119 => format!("{} s", seconds.max(1)),
        seconds @ 120..=7199 => format!("{} min", seconds / 60),
        seconds => format!("{} h", seconds / 3600),
    }
}

/// A span of time in words for people, such as `about 40 s`.
pub(crate) fn rough(time: Duration) -> String {
    format!("about {}", short(time))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cells_with_most_work_are_shown_in_the_order_of_the_plan() {
        let it = |cell| CellShortfall { cell, valid: 0, target: 10, left: None };
        let unfinished = [it(7), it(2), it(5), it(1)];
        let cells =
            |lines| -> Vec<usize> { chosen(&unfinished, lines).iter().map(|it| it.cell).collect() };
        assert_eq!((cells(3), cells(0), cells(9)), (vec![2, 5, 7], vec![], vec![1, 2, 5, 7]));
    }

    #[test]
    fn a_name_fills_its_columns_and_a_long_one_is_cut() {
        assert_eq!(fitted("none", 6), "none  ");
        assert_eq!(fitted("l3_migration 64 KiB", 8), "l3_migr…");
    }

    #[test]
    fn the_whole_says_what_is_complete_what_is_not_shown_and_how_long_it_will_take() {
        let it = |cell| CellShortfall { cell, valid: 0, target: 10, left: None };
        let mut outlook =
            Outlook { done: 0.5, left: None, cells: 9, unfinished: (0..4).map(it).collect() };
        assert_eq!(summary(&outlook, 4), "5 of 9 cells complete");
        outlook.left = Some(Nanos::from_secs(185));
        assert_eq!(summary(&outlook, 1), "3 min left, 5 of 9 cells complete, 3 not shown");
    }
}
