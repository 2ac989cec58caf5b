// SPDX-License-Identifier: MIT OR Apache-2.0
//! A recorded run as a page with tables, and with a timeline of the threads that were off a CPU the
//! longest.

use std::collections::HashMap;
use std::fmt::Write as _;

use super::escape::escape;
use super::figure::{FigureTable, PageSection, SectionPlace};
use super::front::{PageFront, WordedChart, WordedLine};
use super::html;
use super::label::time;
use super::observed::{
    classes, firsts, how_many_threads, notes, occupants, processes, threads, title,
};
use super::program_runs::sentence;
use corehop_decide::run_cost::{ClassCost, RunCost, event};
use corehop_plan::platform::Platform;
use corehop_plan::samples::{Absence, Absences, ObservedThread, Recording};
use corehop_plan::workload::Event;

/// The colours of the classes of event, with the nearest class first. Readers with any colour vision can tell these
/// colours apart (Okabe and Ito).
const COLOURS: [&str; 5] = ["#56b4e9", "#009e73", "#0072b2", "#e69f00", "#d55e00"];
/// The timeline shows at most this many threads, each in a row.
const ROWS: usize = 32;
/// The timeline draws at most this many absences, and chooses the longest if a run has more.
const BARS: usize = Absences::LONGEST;
const WIDTH: f64 = 960.0;
/// The timeline's room for names on the left and for the key above, the height of a row, and the
/// room for the axis below.
const LEFT: f64 = 170.0;
const TOP: f64 = 58.0;
const ROW: f64 = 18.0;
const BOTTOM: f64 = 34.0;

/// Writes the page of a recorded run.
pub fn page(recording: &Recording, cost: &RunCost, platform: &Platform) -> String {
    let facts = [
        format!("{:.3} s", recording.facts.span_ns as f64 / 1e9),
        how_many_threads(recording),
        format!("recorded by {}", recording.facts.method),
        platform.name.clone(),
    ];
    let front = PageFront {
        title: recording.facts.what.clone(),
        answer: sentence(recording, cost, None),
        chart: Some(chart(cost)).filter(|it| !it.lines.is_empty()),
        next: Some(next()),
        facts: facts.to_vec(),
        ..PageFront::default()
    };
    html::page_of(&front, sections(recording, cost, platform))
}

/// Returns a chart of the absences of each class of event, by their median length.
pub(super) fn chart(cost: &RunCost) -> WordedChart {
    let line = |it: &ClassCost| WordedLine {
        words: match it.event {
            Event::Preemption => format!("back on the same CPU ({} times)", it.count),
            event => format!("after {} ({} times)", event.word().replace('_', " "), it.count),
        },
        value: it.median_length_us,
        ends: None,
        group: usize::from(it.event.is_migration()),
    };
    let some = cost.classes.iter().filter(|it| it.count > 0);
    WordedChart {
        quantity: "time that a thread was off its CPU in µs".to_owned(),
        unit: "µs",
        point: "median",
        level: 0.95,
        under: String::new(),
        lines: some.map(line).collect(),
    }
}

/// Returns the command that a page recommends after a recording, and what the command does.
pub(super) fn next() -> (String, &'static str) {
    ("corehop try -- PROGRAM".to_owned(), "tests whether the program runs faster on fewer CPUs.")
}

/// Returns the sections of a page about a run: its waiting, its preemptions and migrations, its
/// timeline, and its threads.
pub(super) fn sections(
    recording: &Recording,
    cost: &RunCost,
    platform: &Platform,
) -> Vec<PageSection> {
    let mut waiting = PageSection::new(SectionPlace::Result, "run-waiting", "The waiting");
    waiting.text = firsts(recording, cost);
    waiting.tables = filled([occupants(cost)]);
    let mut what = PageSection::new(SectionPlace::Result, "run-cost", "The cost");
    what.text = notes(recording, cost);
    what.tables = vec![classes(cost).shown()];
    let timeline = PageSection::new(SectionPlace::Detail, "timeline", "When threads were away").says(
        "One row for each of the threads with the longest absences. A bar lasts from the thread's departure from its CPU to its return; the colour shows the kind of return. Blocking with a return to the same CPU is not shown. Point at a bar to see the preempter and the length; a trace for Perfetto (--trace) has all events.",
    );
    let left_out = recording.absences.times().saturating_sub(BARS as u64);
    let timeline = if left_out == 0 {
        timeline
    } else {
        timeline.says(format!(
            "The {BARS} longest absences are drawn; {left_out} shorter absences are omitted."
        ))
    };
    let drawing = Some(drawing(recording, platform));
    let who = PageSection::new(SectionPlace::Detail, "threads", "Processes and threads");
    let tables = filled([processes(cost), threads(cost)]);
    vec![waiting, what, PageSection { drawing, ..timeline }, PageSection { tables, ..who }]
}

/// Keeps the tables that have rows.
fn filled(tables: impl IntoIterator<Item = FigureTable>) -> Vec<FigureTable> {
    tables.into_iter().filter(|it| !it.rows.is_empty()).map(FigureTable::shown).collect()
}

/// Returns the threads that have a row in the timeline, sorted so that the thread with the longest
/// absences comes first.
fn rows(recording: &Recording) -> Vec<&ObservedThread> {
    let mut away: HashMap<u32, u64> = HashMap::new();
    for (kind, count) in recording.absences.counts() {
        *away.entry(kind.tid).or_default() += count.sum_ns;
    }
    let away = |thread: &ObservedThread| away.get(&thread.tid).copied().unwrap_or(0);
    let mut rows: Vec<(u64, &ObservedThread)> =
        recording.threads.iter().map(|thread| (away(thread), thread)).collect();
    rows.retain(|&(away, _)| away > 0);
    rows.sort_by_key(|&(away, thread)| (std::cmp::Reverse(away), thread.tid));
    rows.into_iter().take(ROWS).map(|(_, thread)| thread).collect()
}

/// Draws the timeline of a recorded run as SVG.
fn drawing(recording: &Recording, platform: &Platform) -> String {
    let rows = rows(recording);
    let bottom = TOP + ROW * rows.len().max(1) as f64;
    let label = escape(&format!("When threads of {} were away", recording.facts.what));
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" \
         font-family=\"sans-serif\" font-size=\"12\" fill=\"#1c2733\" role=\"img\" aria-label=\"{label}\">\n\
         <rect width=\"{WIDTH}\" height=\"{height}\" fill=\"#ffffff\"/>\n",
        height = bottom + BOTTOM,
    );
    key(&mut svg);
    let span = recording.facts.span_ns.max(1) as f64;
    let x = |ns: u64| {
        let since = ns.saturating_sub(recording.facts.began_ns) as f64;
        LEFT + (WIDTH - LEFT - 16.0) * (since / span).min(1.0)
    };
    axis(&mut svg, recording, bottom, x);
    for (row, thread) in rows.iter().enumerate() {
        let middle = TOP + ROW * (row as f64 + 0.5);
        // Writing to a string cannot fail, here and below.
        let _ = writeln!(
            svg,
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>\
             <line x1=\"{LEFT}\" y1=\"{middle:.1}\" x2=\"{:.1}\" y2=\"{middle:.1}\" stroke=\"#d9dee3\"/>",
            LEFT - 8.0,
            middle + 4.0,
            escape(&format!("{} ({})", thread.name, thread.tid)),
            WIDTH - 16.0,
        );
    }
    for absence in recording.absences.kept() {
        let Some(row) = rows.iter().position(|thread| thread.tid == absence.tid) else { continue };
        bar(&mut svg, absence, event(platform, absence), row, x);
    }
    svg + "</svg>\n"
}

fn bar(svg: &mut String, absence: &Absence, event: Event, row: usize, x: impl Fn(u64) -> f64) {
    let (from, to) = (x(absence.out_ns), x(absence.in_ns));
    let _ = writeln!(
        svg,
        "<rect x=\"{from:.2}\" y=\"{:.1}\" width=\"{:.2}\" height=\"{:.1}\" fill=\"{}\"><title>{}</title></rect>",
        TOP + ROW * row as f64 + 3.0,
        // What is too short to be seen is a hair's breadth wide.
        (to - from).max(0.4),
        ROW - 6.0,
        colour(event),
        escape(&format!("{}, {event}: {}", title(absence), time(absence.length_ns() as f64))),
    );
}

fn colour(event: Event) -> &'static str {
    let place = Event::RESUMING.iter().position(|&it| it == event).unwrap_or(0);
    COLOURS[place]
}

fn key(svg: &mut String) {
    let mut left = LEFT;
    for event in Event::RESUMING {
        let _ = writeln!(
            svg,
            "<rect x=\"{left}\" y=\"12\" width=\"12\" height=\"12\" fill=\"{}\"/><text x=\"{}\" y=\"22\">{event}</text>",
            colour(event),
            left + 17.0,
        );
        left += 150.0;
    }
}

/// Draws five time labels along the run, in milliseconds.
fn axis(svg: &mut String, recording: &Recording, bottom: f64, x: impl Fn(u64) -> f64) {
    for part in 0..=4 {
        let ns = recording.facts.span_ns * part / 4;
        let at = x(recording.facts.began_ns + ns);
        let _ = writeln!(
            svg,
            "<line x1=\"{at:.1}\" y1=\"{:.1}\" x2=\"{at:.1}\" y2=\"{bottom:.1}\" stroke=\"#eef1f4\"/>\
             <text x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"{}\">{:.1} ms</text>",
            TOP - 8.0,
            bottom + 18.0,
            if part == 4 { "end" } else { "middle" },
            ns as f64 / 1e6,
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observed::tests::{counted, recording};
    use corehop_decide::run_cost::{WssRange, run_cost};

    #[test]
    fn the_page_has_a_bar_for_every_absence_that_says_by_whom() {
        let platform = Platform::named("xeon_x5650").unwrap().unwrap();
        let recording = recording();
        let range = WssRange::unknown(recording.facts.rss_bytes, &platform);
        let cost = run_cost(&recording, None, range).unwrap();
        let page = page(&recording, &cost, &platform);
        let bars = page.matches("<title>").count();
        // The page's own title is one more.
        assert_eq!(bars as u64, recording.absences.times() + 1);
        for absence in recording.absences.kept() {
            assert!(page.contains(&escape(&title(absence))), "{}", title(absence));
        }
        assert!(page.contains("When threads were away"));
    }

    #[test]
    fn names_from_outside_are_escaped_and_a_run_without_absences_has_a_page() {
        let platform = Platform::named("xeon_x5650").unwrap().unwrap();
        let mut recording = recording();
        recording.facts.what = "<script>alert(1)</script>".to_owned();
        recording.absences = Absences::default();
        let range = WssRange::unknown(None, &platform);
        let cost = run_cost(&recording, None, range).unwrap();
        let page = page(&recording, &cost, &platform);
        assert!(!page.contains("<script>alert") && page.contains("&lt;script&gt;alert"));
    }

    /// Returns a recording of one millisecond with two threads: thread 7 is away from a quarter to three quarters of
    /// the millisecond, and thread 8 for 1 us.
    fn millisecond() -> Recording {
        millisecond_after(0)
    }

    /// Makes the recording of the test again after `more` further absences of 1 us.
    fn millisecond_after(more: usize) -> Recording {
        let mut recording = recording();
        (recording.facts.began_ns, recording.facts.span_ns) = (5_000_000, 1_000_000);
        let at = |tid, from, length| Absence {
            tid,
            out_ns: recording.facts.began_ns + from,
            in_ns: recording.facts.began_ns + from + length,
            ..recording.absences.kept()[0].clone()
        };
        let two = [at(8, 0, 1_000), at(7, 250_000, 500_000)];
        let short = two[0].clone();
        let all: Vec<Absence> = std::iter::repeat_n(short, more).chain(two).collect();
        recording.absences = counted(&all);
        let thread = |tid| ObservedThread { tid, ..recording.threads[0].clone() };
        recording.threads = vec![thread(8), thread(7)];
        recording
    }

    #[test]
    fn bars_lie_where_absences_were_below_the_longest_and_the_axis_is_in_milliseconds() {
        let platform = Platform::named("xeon_x5650").unwrap().unwrap();
        let svg = drawing(&millisecond(), &platform);
        // A quarter and a half of the 774 that are left for the time; the first row begins at 58.
        assert!(svg.contains("<rect x=\"363.50\" y=\"61.0\" width=\"387.00\""), "{svg}");
        assert!(svg.contains("<rect x=\"170.00\" y=\"79.0\" width=\"0.77\""), "{svg}");
        for time in ["0.0 ms", "0.2 ms", "0.5 ms", "0.8 ms", "1.0 ms"] {
            assert!(svg.contains(&format!(">{time}<")), "{time}: {svg}");
        }
    }

    #[test]
    fn of_too_many_absences_the_longest_are_drawn_and_the_others_counted() {
        let platform = Platform::named("xeon_x5650").unwrap().unwrap();
        let recording = millisecond_after(BARS);
        let svg = drawing(&recording, &platform);
        assert_eq!(svg.matches("<title>").count(), BARS);
        assert!(svg.contains("width=\"387.00\""));
        let range = WssRange::unknown(None, &platform);
        let cost = run_cost(&recording, None, range).unwrap();
        assert!(page(&recording, &cost, &platform).contains("2 shorter absences are omitted"));
    }
}
