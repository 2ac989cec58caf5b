// SPDX-License-Identifier: MIT OR Apache-2.0
//! The findings and actions of a placer as text, and as a page with the graph of threads.

use std::collections::BTreeMap;
use std::f64::consts::TAU;
use std::fmt::Write as _;

use serde_json::{Value, json};

use super::escape::escape_xml;
use super::figure::{
    Axis, Figure, FigureKind, FigureSeries, FigureTable, PageSection, SectionPlace, SeriesPoint,
    Style, ValueUnit, Variant,
};
use super::label::plural;
use super::placement_front::front;
use super::{html, wake_cost};
use corehop_decide::placer::Proposal;
use corehop_decide::placer::log::{PlacementFindings, PlacementLog, TrialJudgement};
use corehop_decide::placer::trial::TrialVerdict;
use corehop_plan::shown;
use corehop_stats::contacts::Tie;

/// The text shows at most this many ties between threads.
const SHOWN: usize = 10;
/// The sentence about a program whose threads were not seen to wake each other or to share data.
const NO_TIES: &str = "No threads of the program were seen to wake each other or to share data.";
/// The page draws at most this many ties between threads.
const DRAWN: usize = 60;

/// Returns a sentence about the result of the placer. If a setting is expected to make the wake-ups of all programs
/// cheaper, a sentence about the setting comes before the sentence about the placement.
pub fn sentence(answer: &PlacementFindings) -> String {
    let placement = placement(answer);
    let cost = answer.wake_up.as_ref().filter(|_| hands_over(answer));
    match cost.and_then(wake_cost::cure) {
        Some(cure) => format!("{cure} {placement}"),
        None => placement,
    }
}

/// The two threads of a tie gain nothing from a cheaper wake-up if they wake each other fewer than this many times per
/// second.
const OFTEN: f64 = 100.0;

/// Returns whether wake-ups between CPUs matter to the program, because the placer proposed a placement, or because
/// threads that ran on two CPUs wake each other often.
fn hands_over(answer: &PlacementFindings) -> bool {
    let apart = |it: &Tie| it.per_second >= OFTEN && !answer.ran_together(it);
    !answer.proposals.is_empty() || answer.ties.iter().any(apart)
}

/// Returns a sentence about the result of the placer, without a sentence about settings.
pub(super) fn placement(answer: &PlacementFindings) -> String {
    let tried = answer.trials.len();
    let kept =
        answer.trials.iter().filter(|it| matches!(it.verdict, TrialVerdict::Better(_))).count();
    match (answer.windows, answer.proposals.last()) {
        (0, _) => "Nothing was observed: the placer stopped before the end of its first window."
            .to_owned(),
        (seen, None) if seen < answer.least_windows => format!(
            "The placer stopped too early: a proposal needs {} windows of evidence, and {seen} were observed.",
            answer.least_windows
        ),
        (_, None) => format!("No placement is worth its moves{}.", closest(answer)),
        (_, Some(it)) if tried == 0 => {
            format!("Placement ({}), not tried: {}.", why(it), groups(it, answer))
        }
        _ if kept == 0 => format!(
            "corehop tried {}, and kept none because no faster progress was seen.",
            plural(tried, "placement")
        ),
        _ => format!(
            "corehop tried {}, and kept {kept} because the program made faster progress.",
            plural(tried, "placement")
        ),
    }
}

/// Returns a clause that explains why the placer did not move the two threads that have the most contact.
fn closest(answer: &PlacementFindings) -> String {
    let first = answer.ties.first();
    let seen = first.and_then(|it| Some((it, answer.seen_together(it)?)));
    let seen = seen.filter(|(it, _)| answer.ran_together(it));
    seen.map_or_else(
        || ", as far as was seen".to_owned(),
        |(it, seen)| {
            format!(": {} and {} already ran {seen}", answer.name(it.a), answer.name(it.b))
        },
    )
}

/// Describes the placer's findings in lines of text, without those that [`sentence`] states.
pub fn text(answer: &PlacementFindings) -> String {
    let mut text = String::new();
    if answer.windows == 0 {
        return text;
    }
    text.push_str(&answer.wake_up.as_ref().map_or_else(String::new, wake_cost::lines));
    for tie in answer.ties.iter().take(SHOWN) {
        let (a, b) = (answer.name(tie.a), answer.name(tie.b));
        // Writing to a string does not fail, here and below.
        let seen = answer.seen_together(tie).map_or_else(String::new, |it| format!(", {it}"));
        let _ = writeln!(text, "{a} and {b}: {}{seen}", contact(tie));
    }
    if answer.ties.is_empty() {
        text.push_str(NO_TIES);
        text.push('\n');
    }
    for it in &answer.proposals {
        let _ = writeln!(text, "Placement ({}): {}.", why(it), groups(it, answer));
    }
    for it in &answer.trials {
        let _ = writeln!(text, "{}", judged(it));
    }
    for why in &answer.refused {
        let _ = writeln!(text, "Refused: {why}");
    }
    if !answer.proposals.is_empty() && !answer.may_move {
        text.push_str(
            "Nothing was moved, because this is only advice. To try the advice, use --progress without --dry-run.\n",
        );
    } else if !answer.proposals.is_empty() && answer.trials.is_empty() {
        text.push_str("No trial finished: a trial needs some seconds, and reported progress.\n");
    }
    text
}

/// Returns a clause about the wake-ups and the shared data of two threads.
fn contact(tie: &Tie) -> String {
    let wakes = (tie.per_second > 0.0).then(|| format!("{:.0} wake-ups/s", tie.per_second));
    let lines = tie.lines_at_least;
    let data = (lines > 0.0).then(|| format!("at least {lines:.0} hand-overs of data/s"));
    let sure = format!("sure to {:.0} %", 100.0 * tie.confidence);
    [wakes, data, Some(sure)].into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// Describes a placer's log in words: the programs, the length of the log, and the findings.
pub fn log_text(log: &PlacementLog) -> String {
    let mut text =
        format!("Placed: {}; {}\n", shown::line(&log.answer.targets.join(", ")), length(log));
    text.push_str(&self::text(&log.answer));
    text
}

/// Returns the length of a placer's log, with a remark if the log is torn off.
fn length(log: &PlacementLog) -> String {
    let seconds = log.rates.last().map_or(0.0, |it| it.end_s);
    let part = if log.is_whole { "" } else { ", torn off: the placer was killed" };
    format!("{} windows, {seconds:.1} s{part}", log.answer.windows)
}

/// Returns the threads of a proposal, grouped by the CPUs to which it moves them.
fn groups(it: &Proposal, answer: &PlacementFindings) -> String {
    let mut groups: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for it in &it.moves {
        groups.entry(it.cpus.to_string()).or_default().push(answer.name(it.tid));
    }
    let group =
        |(cpus, names): (String, Vec<String>)| format!("{} on CPU {cpus}", names.join(", "));
    groups.into_iter().map(group).collect::<Vec<_>>().join("; ")
}

fn why(it: &Proposal) -> String {
    match it.saved {
        Some(saved) => format!("predicted to save {:.1} % of a CPU", 100.0 * saved),
        None if it.ratio.is_some_and(|it| it.gain() > 0.0) => {
            let gain = it.ratio.map_or(0.0, |it| it.gain());
            format!("predicted to shorten the run time by at least {:.1} %", 100.0 * gain)
        }
        None if it.seen => "nothing predicts its gain".to_owned(),
        None => "without evidence".to_owned(),
    }
}

/// Returns the ratio of a trial with its interval, and the verdict on the trial.
fn verdict(it: &TrialJudgement) -> (String, String) {
    let (word, outcome) = match &it.verdict {
        TrialVerdict::Better(it) => ("better, kept", it),
        TrialVerdict::Worse(it) => ("worse, taken back", it),
        TrialVerdict::Same(it) => ("not told apart, taken back", it),
        TrialVerdict::Invalid { why } => return ("-".to_owned(), format!("taken back: {why}")),
    };
    let ratio = format!("{:.2} [{:.2}, {:.2}]", outcome.ratio, outcome.low, outcome.high);
    (ratio, word.to_owned())
}

/// Returns a sentence about the end of a trial.
pub(super) fn judged(it: &TrialJudgement) -> String {
    let (ratio, word) = verdict(it);
    match &it.verdict {
        TrialVerdict::Better(it) | TrialVerdict::Worse(it) | TrialVerdict::Same(it) => format!(
            "Progress with the placement over progress before: {ratio}, {} pairs: {word}. Before the placement, progress varied by a factor of up to {:.2}.",
            it.pairs, it.floor
        ),
        TrialVerdict::Invalid { .. } => format!("No verdict, {word}."),
    }
}

/// Writes a placer's log as JSON, with the findings and the rates of all windows.
pub fn json(log: &PlacementLog) -> Value {
    let names = &log.answer.names;
    json!({
        "answer": log.answer, "rates": log.rates, "names": names, "settings": log.head.settings,
        "caches": log.head.caches, "whole": log.is_whole,
    })
}

/// Writes the page of a placer's log; the command `everything` prints the complete log.
pub fn page(log: &PlacementLog, everything: &str) -> String {
    let facts = vec![
        length(log),
        plural(log.answer.trials.len(), "trial"),
        format!("caches of CPUs {}", lists(log)),
    ];
    let title = format!("Placing {}", log.answer.targets.join(", "));
    html::page_of(&front(title, everything, &log.answer, facts), sections(log))
}

fn lists(log: &PlacementLog) -> String {
    log.head.caches.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

fn sections(log: &PlacementLog) -> Vec<PageSection> {
    let text = format!(
        "{} Thicker lines mean more wake-ups, or hand-overs of data. Threads of one colour are together in the last placement.",
        costs(log)
    );
    let mut graph =
        PageSection::new(SectionPlace::Result, "wake-graph", "Threads that belong together")
            .says(text);
    if log.answer.ties.is_empty() {
        graph = graph.says(NO_TIES);
    } else {
        graph.drawing = Some(drawing(&log.answer));
        graph.tables = vec![ties(&log.answer)];
    }
    let mut trials = PageSection::new(SectionPlace::Result, "trials", "Tried placements").says(
        "corehop tried each placement in alternating stretches with and without the placement. The ratio compares the progress in both kinds of stretches, with a 95 % interval. A placement stays only if its interval is above 1.",
    );
    if log.answer.proposals.is_empty() {
        trials = trials.says("No placement was predicted to pay for its moves, so none was tried.");
    } else {
        trials.tables = vec![tried(&log.answer).shown()];
    }
    let mut all = vec![trials, graph];
    all.extend(progress(log));
    all
}

/// Returns a sentence about the cost of a wake-up at each distance between CPUs that the host has.
fn costs(log: &PlacementLog) -> String {
    let costs = log.head.wake_costs;
    let us = |ns: f64| format!("{:.1} µs", ns / 1e3);
    let (same, near, far) =
        (us(costs.same_cpu_ns), us(costs.shared_cache_ns), us(costs.separate_ns));
    if log.head.caches.len() < 2 {
        return format!("A wake-up costs {same} on one CPU, and {near} on two.");
    }
    format!("A wake-up costs {same} on one CPU, {near} below a cache, and {far} across.")
}

fn tried(answer: &PlacementFindings) -> FigureTable {
    let mut table = FigureTable::new(
        "placements, in turn",
        &["placement", "predicted to save", "ratio", "verdict"],
    );
    let untried = || ("-".to_owned(), "not tried".to_owned());
    for (at, it) in answer.proposals.iter().enumerate() {
        let (ratio, word) = answer.trials.get(at).map_or_else(untried, verdict);
        let predicted =
            it.saved.map_or_else(|| "-".to_owned(), |it| format!("{:.1} %", 100.0 * it));
        table.rows.push(vec![groups(it, answer), predicted, ratio, word]);
    }
    table
}

fn ties(answer: &PlacementFindings) -> FigureTable {
    let mut table = FigureTable::new(
        "ties",
        &[
            "thread",
            "other thread",
            "wake-ups/s",
            "at least",
            "hand-overs of data/s, at least",
            "sure to",
        ],
    );
    for it in &answer.ties {
        let [rate, least, lines] =
            [it.per_second, it.at_least, it.lines_at_least].map(|it| format!("{it:.0}"));
        let sure = format!("{:.0} %", 100.0 * it.confidence);
        table.rows.push(vec![answer.name(it.a), answer.name(it.b), rate, least, lines, sure]);
    }
    table
}

/// Returns a figure of the program's rate of progress over time, while placed and while not placed.
fn progress(log: &PlacementLog) -> Option<PageSection> {
    let of = |placed: bool| {
        let so = log.rates.iter().filter(move |it| it.placed == placed);
        so.filter_map(|window| {
            Some(SeriesPoint {
                x: window.end_s,
                y: vec![Some(window.per_second?)],
                ..SeriesPoint::default()
            })
        })
    };
    let series = |(name, placed, colour): (&str, bool, usize)| FigureSeries {
        name: name.to_owned(),
        statistic: String::new(),
        colour,
        style: Style::Points,
        points: of(placed).collect(),
    };
    let kinds = [("as it was", false, 3), ("placed", true, 6)];
    let series: Vec<FigureSeries> =
        kinds.into_iter().map(series).filter(|it| !it.points.is_empty()).collect();
    if series.is_empty() {
        return None;
    }
    let figure = Figure {
        id: "progress".to_owned(),
        kind: FigureKind::Curves,
        x: Axis::new("time in s", "t", false, ValueUnit::Number),
        views: vec![Axis::new("progress per second", "rate", false, ValueUnit::Number)],
        statistics: Vec::new(),
        variants: vec![Variant { series, ..Variant::default() }],
        marks: Vec::new(),
        marked: "",
    };
    let section = PageSection::new(SectionPlace::Detail, "progress", "Progress").says(
        "One point per window. During a trial, windows with and without the placement alternate.",
    );
    Some(PageSection { figures: vec![figure], ..section })
}

/// The width of the drawing of threads, and the room above and below the circle of threads.
const WIDTH: f64 = 620.0;
const MARGIN: f64 = 32.0;
/// The circle's radius grows by this much for each thread, up to a maximum.
const EACH: f64 = 14.0;
const RADIUS: f64 = 190.0;
/// The colours of clusters of threads, and the colour of threads that belong to no cluster.
const COLOURS: [&str; 6] = ["#2a5c8c", "#c0622d", "#3a8f5c", "#8a4f9e", "#a8862b", "#4a8f9e"];
const NO_COLOUR: &str = "#8a949e";

/// Draws the threads on a circle, with their ties, as SVG.
fn drawing(answer: &PlacementFindings) -> String {
    let ties: Vec<_> = answer.ties.iter().take(DRAWN).collect();
    let mut threads: Vec<u32> = ties.iter().flat_map(|it| [it.a, it.b]).collect();
    threads.sort_unstable();
    threads.dedup();
    let clusters = clusters(answer);
    // Threads of a cluster stand side by side.
    threads.sort_by_key(|tid| (clusters.get(tid).copied().unwrap_or(usize::MAX), *tid));
    let radius = (40.0 + EACH * threads.len() as f64).min(RADIUS);
    let height = 2.0 * (radius + MARGIN);
    let place = |tid: u32| {
        let at = threads.iter().position(|&it| it == tid).unwrap_or(0);
        let angle = TAU * at as f64 / threads.len().max(1) as f64 - TAU / 4.0;
        (angle, WIDTH / 2.0 + radius * angle.cos(), height / 2.0 + radius * angle.sin())
    };
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" \
         font-family=\"sans-serif\" font-size=\"12\" fill=\"#1c2733\" role=\"img\" \
         aria-label=\"Threads that belong together\">\n<rect width=\"{WIDTH}\" height=\"{height}\" fill=\"#ffffff\"/>\n"
    );
    let most = ties.first().map_or(1.0, |it| it.rate().max(1.0));
    for it in &ties {
        let ((_, x1, y1), (_, x2, y2)) = (place(it.a), place(it.b));
        let width = 0.5 + 5.5 * it.rate() / most;
        let title = format!("{} and {}: {}", answer.name(it.a), answer.name(it.b), contact(it));
        let _ = writeln!(
            svg,
            "<line x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\" stroke=\"#5b6b7a\" \
             stroke-width=\"{width:.1}\"><title>{}</title></line>",
            escape_xml(&title)
        );
    }
    for &tid in &threads {
        let (angle, x, y) = place(tid);
        let colour = clusters.get(&tid).map_or(NO_COLOUR, |&at| COLOURS[at % COLOURS.len()]);
        let (dx, anchor) = match angle.cos() {
            right if right > 0.1 => (10.0, "start"),
            left if left < -0.1 => (-10.0, "end"),
            _ => (0.0, "middle"),
        };
        let dy = 4.0 + 14.0 * angle.sin();
        let _ = writeln!(
            svg,
            "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"6\" fill=\"{colour}\"/>\
             <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"{anchor}\">{}</text>",
            x + dx,
            y + dy,
            escape_xml(&answer.name(tid))
        );
    }
    svg + "</svg>\n"
}

/// Returns the cluster of each thread of the last proposal; threads belong to one cluster if the proposal gives them
/// the same CPUs.
fn clusters(answer: &PlacementFindings) -> BTreeMap<u32, usize> {
    let Some(last) = answer.proposals.last() else { return BTreeMap::new() };
    let mut lists: Vec<String> = last.moves.iter().map(|it| it.cpus.to_string()).collect();
    lists.sort();
    lists.dedup();
    let of = |it: &corehop_plan::host::Move| {
        Some((it.tid, lists.iter().position(|list| *list == it.cpus.to_string())?))
    };
    last.moves.iter().filter_map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use corehop_decide::example::{OUTCOME, placed as answer};
    use corehop_decide::example::{halts, seen};
    use corehop_decide::wake_cost::WakeCost;

    fn costs(idle_ns: f64) -> WakeCost {
        WakeCost::of(&seen([2_000.0, idle_ns, 11_000.0]), Some(halts()))
    }

    #[test]
    fn a_setting_that_is_expected_to_help_stands_before_the_placement() {
        let placed = answer(&[(7, "0"), (8, "0")], TrialVerdict::Better(OUTCOME), true);
        let alone = sentence(&placed);
        assert!(alone.starts_with("corehop tried 1 placement, and kept 1 "), "{alone}");
        let with = |idle_ns| {
            let mut answer = placed.clone();
            answer.wake_up = Some(costs(idle_ns));
            answer
        };
        let dear = with(17_000.0);
        let first = sentence(&dear);
        assert!(
            first.starts_with("One setting first, for all programs: guest_halt_poll_ns"),
            "{first}"
        );
        assert!(first.ends_with(&alone), "{first}");
        assert!(text(&dear).starts_with("A wake-up costs 2.0 µs"), "{}", text(&dear));
        // An idle CPU that wakes as fast as a switch needs no setting.
        assert_eq!(sentence(&with(2_300.0)), alone);
    }

    #[test]
    fn a_program_whose_threads_do_not_wake_each_other_is_told_of_no_setting() {
        let mut quiet = answer(&[(7, "0")], TrialVerdict::Same(OUTCOME), false);
        (quiet.proposals, quiet.trials, quiet.least_windows) = (Vec::new(), Vec::new(), 1);
        quiet.wake_up = Some(costs(17_000.0));
        assert!(
            sentence(&quiet).starts_with("No placement is worth its moves"),
            "{}",
            sentence(&quiet)
        );
    }

    fn tried(verdicts: &[TrialVerdict]) -> PlacementFindings {
        let mut answer = answer(&[(7, "0"), (8, "0")], verdicts[0], false);
        answer.trials = verdicts
            .iter()
            .map(|&verdict| TrialJudgement {
                verdict,
                kept: matches!(verdict, TrialVerdict::Better(_)),
            })
            .collect();
        answer
    }

    #[test]
    fn a_trial_that_kept_nothing_is_not_said_to_have_kept_none_for_its_progress() {
        let (better, same, worse) = (
            TrialVerdict::Better(OUTCOME),
            TrialVerdict::Same(OUTCOME),
            TrialVerdict::Worse(OUTCOME),
        );
        for (verdicts, words) in [
            (
                vec![same],
                "corehop tried 1 placement, and kept none because no faster progress was seen.",
            ),
            (
                vec![worse, same],
                "corehop tried 2 placements, and kept none because no faster progress was seen.",
            ),
            (
                vec![worse, better],
                "corehop tried 2 placements, and kept 1 because the program made faster progress.",
            ),
        ] {
            assert_eq!(sentence(&tried(&verdicts)), words);
        }
    }

    #[test]
    fn a_placer_that_ended_before_its_evidence_says_how_much_it_takes() {
        let mut early = tried(&[TrialVerdict::Same(OUTCOME)]);
        early.proposals.clear();
        early.least_windows = early.windows + 1;
        assert_eq!(
            sentence(&early),
            "The placer stopped too early: a proposal needs 3 windows of evidence, and 2 were observed."
        );
        early.least_windows = early.windows;
        assert_eq!(sentence(&early), "No placement is worth its moves, as far as was seen.");
        early.windows = 0;
        assert_eq!(
            sentence(&early),
            "Nothing was observed: the placer stopped before the end of its first window."
        );
        assert_eq!(text(&early), "");
    }

    #[test]
    fn advice_that_was_not_tried_names_its_groups_and_what_a_trial_takes() {
        let mut advised = tried(&[TrialVerdict::Same(OUTCOME)]);
        advised.proposals =
            answer(&[(8, "1"), (7, "0"), (9, "1")], TrialVerdict::Same(OUTCOME), false).proposals;
        advised.trials.clear();
        let groups = "worker-7 (7) on CPU 0; worker-8 (8), worker-9 (9) on CPU 1.";
        assert_eq!(
            sentence(&advised),
            format!("Placement (predicted to save 40.0 % of a CPU), not tried: {groups}")
        );
        advised.refused = vec!["thread 9 has gone".to_owned()];
        let lines = |answer: &PlacementFindings| {
            text(answer).lines().map(str::to_owned).collect::<Vec<_>>()
        };
        let placement = format!("Placement (predicted to save 40.0 % of a CPU): {groups}");
        let mut expected = vec![
            NO_TIES.to_owned(),
            placement,
            "Refused: thread 9 has gone".to_owned(),
            "No trial finished: a trial needs some seconds, and reported progress.".to_owned(),
        ];
        advised.ties.clear();
        assert_eq!(lines(&advised), expected);
        advised.may_move = false;
        expected[3] =
            "Nothing was moved, because this is only advice. To try the advice, use --progress without --dry-run."
                .to_owned();
        assert_eq!(lines(&advised), expected);
    }

    #[test]
    fn contacts_state_what_there_is_of_them() {
        let tie = |per_second, lines_at_least| Tie {
            a: 7,
            b: 8,
            per_second,
            at_least: 1.0,
            lines_at_least,
            confidence: 0.955,
        };
        assert_eq!(contact(&tie(12.4, 0.0)), "12 wake-ups/s, sure to 96 %");
        assert_eq!(contact(&tie(0.0, 3.6)), "at least 4 hand-overs of data/s, sure to 96 %");
        assert_eq!(
            contact(&tie(2.0, 3.0)),
            "2 wake-ups/s, at least 3 hand-overs of data/s, sure to 96 %"
        );
    }

    #[test]
    fn the_end_of_a_trial_states_ratio_interval_pairs_and_floor() {
        let told = |verdict| judged(&TrialJudgement { verdict, kept: false });
        let of = |word: &str| {
            format!(
                "Progress with the placement over progress before: 2.41 [2.10, 2.66], 6 pairs: {word}. Before the placement, progress varied by a factor of up to 1.10."
            )
        };
        assert_eq!(told(TrialVerdict::Better(OUTCOME)), of("better, kept"));
        assert_eq!(told(TrialVerdict::Worse(OUTCOME)), of("worse, taken back"));
        assert_eq!(told(TrialVerdict::Same(OUTCOME)), of("not told apart, taken back"));
    }
}
