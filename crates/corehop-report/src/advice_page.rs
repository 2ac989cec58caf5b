// SPDX-License-Identifier: MIT OR Apache-2.0
//! Advice as a page: for each load a map of working-set size and expected wait, coloured by the
//! recommended action.

use std::fmt::Write as _;

use super::decided::{
    constants_of, cost, is_bound, isolation, partitioning, rules, time, together, withheld,
};
use super::escape::escape;
use super::figure::{FigureTable, PageSection, SectionPlace};
use super::front::{PageFront, SurenessCheck, WordedChart, WordedLine};
use super::html;
use super::label::size;
use corehop_decide::advice::{
    Advice, AdviceRule, AdvisedMove, AdvisedWait, Preference, WaitOrigin,
};
use corehop_plan::units::Bytes;

/// The colour of a verdict (distinguishable with any colour vision) and the text in its field.
const FIELDS: [(&str, &str, &str); 3] = [
    ("#56b4e9", "stay", "staying costs less"),
    ("#e69f00", "move", "moving costs less"),
    ("#ffffff", "?", "unknown"),
];
const CELL: (f64, f64) = (92.0, 34.0);
/// The margins of a map: left for the sizes, and above for its title and the lengths.
const MARGIN: (f64, f64) = (96.0, 62.0);
const KEY: f64 = 44.0;

/// Returns the page of the advice on the costs in `origin`; the command `everything` prints the complete advice.
pub fn page(advice: &Advice, origin: &str, everything: &str) -> String {
    let front = PageFront {
        title: format!("Advice from {origin}"),
        answer: advice.sentence(),
        checks: checks(advice),
        chart: chart(advice),
        next: Some((
            "corehop place PID".to_owned(),
            "finds threads of a running program that gain from a move.",
        )),
        everything: everything.to_owned(),
        facts: vec![format!("{} rules", advice.rules.len())],
        ..PageFront::default()
    };
    html::page_of(&front, sections(advice))
}

/// Returns the checks behind the advice: replicates, measured lengths, and missing measurements.
fn checks(advice: &Advice) -> Vec<SurenessCheck> {
    let moves = || advice.rules.iter().flat_map(|rule| &rule.moves);
    let replicates = moves().filter_map(|it| it.replicates);
    let (all, measured) =
        (moves().count(), moves().filter(|it| it.known_by == WaitOrigin::Measured).count());
    let lengths = (all > 0).then(|| {
        let text = format!(
            "{measured} of {all} waits from which a move pays lie between measured lengths"
        );
        SurenessCheck::new(measured == all, text)
    });
    let lacking = advice.lacking.len();
    let missing = (lacking > 0).then(|| {
        SurenessCheck::new(
            false,
            format!("{lacking} measurement{} missing", if lacking == 1 { " is" } else { "s are" }),
        )
    });
    let replicated = SurenessCheck::replicated("replicates of a cost", replicates);
    [replicated, lengths, missing].into_iter().flatten().collect()
}

/// Returns a chart of the waits from which the nearest migration pays, by size, for the first load and company.
fn chart(advice: &Advice) -> Option<WordedChart> {
    let rules = together(&advice.rules).next()?;
    let line = |rule: &AdviceRule| {
        let moved = rule.moves.first()?;
        let (wss, event, pays) = (size(Bytes::new(rule.wss_bytes)), moved.event, moved.pays_from);
        Some(WordedLine {
            words: format!("{wss}, {event}{}", if is_bound(moved) { ", at most" } else { "" }),
            value: pays.estimate_us,
            ends: pays.low_us.zip(pays.high_us),
            group: 0,
        })
    };
    let lines: Vec<WordedLine> = rules.iter().filter_map(line).collect();
    (!lines.is_empty()).then(|| WordedChart {
        quantity: "expected wait from which a move pays, in µs".to_owned(),
        unit: "µs",
        point: "estimate",
        level: 0.95,
        under: format!("load {}, {}", rules[0].load, rules[0].company),
        lines: WordedLine::spread(lines),
    })
}

fn sections(advice: &Advice) -> Vec<PageSection> {
    let mut all: Vec<PageSection> = together(&advice.rules).map(of_rules).collect();
    if !advice.isolation.is_empty() {
        let section = PageSection::new(SectionPlace::Detail, "isolation", "Savings by isolation").says(
            "The table shows how much a job can save at most if no other program evicts its cache lines: the cost of a preemption minus the cost of an absence of equal length in which nothing else ran.",
        );
        all.push(PageSection { tables: vec![isolation(&advice.isolation).shown()], ..section });
    }
    if !advice.constants.is_empty() {
        let section = PageSection::new(SectionPlace::Detail, "constants", "Constants for schedulers").says(
            "The additional cost of a migration over resuming in place, after an absence of the same length in the same company (sched_migration_cost_ns in Linux); and the warm budget of a sched_ext scheduler, the time off the CPU after which half of the cost has accrued. A dash means that the interval contains zero, or that the measured lengths are not sufficient.",
        );
        let section = withheld(&advice.constants).fold(section, PageSection::says);
        let stated = constants_of(&advice.constants).shown();
        let tables = if stated.rows.is_empty() { vec![] } else { vec![stated] };
        all.push(PageSection { tables, ..section });
    }
    if !advice.partitioning.is_empty() {
        let section = PageSection::new(SectionPlace::Detail, "partitioning", "Savings by cache partitioning").says(
            "The table shows the simulation with the last cache level divided into halves, by ways or by page colours: one half for the job and one half for all other threads.",
        );
        all.push(PageSection {
            tables: vec![partitioning(&advice.partitioning).shown()],
            ..section
        });
    }
    for (id, title, lines) in [
        ("silent", "No advice", &advice.silent),
        ("lacking", "What the samples lack", &advice.lacking),
    ] {
        if !lines.is_empty() {
            let section = PageSection::new(SectionPlace::Trust, id, title);
            all.push(lines.iter().fold(section, |it, line| it.says(format!("{line}."))));
        }
    }
    all
}

/// Returns the section with the map and the table of one load and company.
fn of_rules(rules: &[AdviceRule]) -> PageSection {
    let AdviceRule { load, company, .. } = &rules[0];
    let class = company.pair_class.map(|class| format!("-{class}")).unwrap_or_default();
    let id = format!("map-{load}-{}{class}", company.preempted_by);
    let section = PageSection::new(SectionPlace::Result, &id, &format!("Under load {load}, {company}")).says(
        "The advice for a preempted job, by working-set size and by expected wait for its CPU. Staying costs the wait and a preemption of that length; moving at once costs a migration. A field names the choice whose whole interval is below the interval of the other choice. Point at a field to see the numbers.",
    );
    PageSection { drawing: Some(map(rules)), tables: vec![unbroken(rules).shown()], ..section }
}

/// Returns the rules of a load as a table whose fields each stay on one line.
fn unbroken(of_load: &[AdviceRule]) -> FigureTable {
    let mut table = rules(of_load);
    for field in table.rows.iter_mut().flatten() {
        *field = field.replace(' ', "\u{a0}");
    }
    table
}

/// Returns the map of one load as SVG: a row for each size, a column for each wait.
fn map(rules: &[AdviceRule]) -> String {
    let waits = rules.first().map_or(&[][..], |rule| &rule.waits);
    let width = (MARGIN.0 + CELL.0 * waits.len() as f64 + 16.0).max(470.0);
    let bottom = MARGIN.1 + CELL.1 * rules.len() as f64;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" \
         font-family=\"sans-serif\" font-size=\"12\" fill=\"#1c2733\" role=\"img\" aria-label=\"{label}\">\n\
         <rect width=\"{width}\" height=\"{height}\" fill=\"#ffffff\"/>\n\
         <text x=\"{left}\" y=\"20\" font-weight=\"bold\">{label}</text>\n\
         <text x=\"{left}\" y=\"38\">expected wait</text>\n",
        height = bottom + KEY,
        left = MARGIN.0,
        label = escape(&rules.first().map_or_else(String::new, |rule| {
            format!("Stay or move, load {}, {}", rule.load, rule.company)
        })),
    );
    for (at, wait) in waits.iter().enumerate() {
        // Writing to a string cannot fail, here and below.
        let _ = writeln!(
            svg,
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
            MARGIN.0 + CELL.0 * (at as f64 + 0.5),
            MARGIN.1 - 7.0,
            time(wait.wait_us),
        );
    }
    for (row, rule) in rules.iter().enumerate() {
        let top = MARGIN.1 + CELL.1 * row as f64;
        let _ = writeln!(
            svg,
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            MARGIN.0 - 8.0,
            top + CELL.1 / 2.0 + 4.0,
            size(Bytes::new(rule.wss_bytes)),
        );
        for (at, wait) in rule.waits.iter().enumerate() {
            svg.push_str(&field(rule, wait, MARGIN.0 + CELL.0 * at as f64, top));
        }
    }
    svg.push_str(&key(bottom + 16.0));
    svg.push_str("</svg>\n");
    svg
}

fn field(rule: &AdviceRule, wait: &AdvisedWait, left: f64, top: f64) -> String {
    let (at, word) = match wait.verdict {
        Preference::Stay => (0, FIELDS[0].1.to_owned()),
        Preference::Move(event) => (1, event.word().trim_end_matches("_migration").to_owned()),
        Preference::Unknown => (2, FIELDS[2].1.to_owned()),
    };
    let moved = |it: &AdvisedMove| format!("{} {} µs", it.event, cost(&it.cost));
    let moves: Vec<String> = rule.moves.iter().map(moved).collect();
    format!(
        "<g><title>{} and a wait of {}: {}; the wait and {} µs, or {}</title>\
         <rect x=\"{left:.1}\" y=\"{top:.1}\" width=\"{}\" height=\"{}\" fill=\"{}\" stroke=\"#7a8591\"/>\
         <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{word}</text></g>\n",
        size(Bytes::new(rule.wss_bytes)),
        time(wait.wait_us),
        FIELDS[at].2,
        escape(&cost(&wait.stay)),
        escape(&moves.join(", ")),
        CELL.0,
        CELL.1,
        FIELDS[at].0,
        left + CELL.0 / 2.0,
        top + CELL.1 / 2.0 + 4.0,
    )
}

fn key(top: f64) -> String {
    let entry = |(at, (colour, word, _)): (usize, &(&str, &str, &str))| {
        let left = 16.0 + 110.0 * at as f64;
        let word = if *word == "?" { "unknown" } else { word };
        format!(
            "<rect x=\"{left}\" y=\"{top:.1}\" width=\"14\" height=\"14\" fill=\"{colour}\" stroke=\"#7a8591\"/>\
             <text x=\"{:.1}\" y=\"{:.1}\">{word}</text>\n",
            left + 20.0,
            top + 11.0,
        )
    };
    FIELDS.iter().enumerate().map(entry).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use corehop_decide::advice::Company;
    use corehop_plan::workload::{Absence, Event};
    use corehop_stats::cpmd::CostEstimate;

    fn rule(kib: u64, verdicts: &[(f64, Preference)]) -> AdviceRule {
        let cost = |us| CostEstimate { estimate_us: us, low_us: Some(us - 1.0), high_us: None };
        let moved = AdvisedMove {
            event: Event::L3Migration,
            cost: cost(30.0),
            length_us: 0.0,
            at_most: false,
            n: 60,
            replicates: Some(20),
            pays_from: cost(12.0),
            known_by: WaitOrigin::Measured,
        };
        let wait = |&(wait_us, verdict): &(f64, Preference)| AdvisedWait {
            wait_us,
            stay: cost(20.0),
            verdict,
        };
        AdviceRule {
            load: "idle".to_owned(),
            company: Company { preempted_by: Absence::Preemptor, polluter: None, pair_class: None },
            wss_bytes: kib << 10,
            moves: vec![moved],
            waits: verdicts.iter().map(wait).collect(),
        }
    }

    const MOVE: Preference = Preference::Move(Event::L3Migration);

    #[test]
    fn each_size_and_wait_has_a_field_that_says_what_to_do_and_why() {
        let rules = vec![
            rule(64, &[(10.0, Preference::Stay), (4_000.0, MOVE)]),
            rule(256, &[(10.0, Preference::Unknown), (4_000.0, MOVE)]),
        ];
        let lacking = vec!["shorter preemptions".to_owned()];
        let page = page(&Advice { rules, lacking, ..Advice::default() }, "x", "corehop advise x");
        assert_eq!(page.matches("<g><title>").count(), 4);
        assert_eq!(page.matches("4.00 ms</text>").count(), 1);
        for words in [">stay</text>", ">l3</text>", ">?</text>", "256 KiB and a wait of 4.00 ms"] {
            assert!(page.contains(words), "{words}");
        }
        let numbers = "the wait and 20.0 [19.0, …] µs, or l3_migration 30.0 [29.0, …] µs";
        assert!(page.contains(numbers), "hover values");
        assert!(page.contains("shorter preemptions."), "what is lacking");
    }

    #[test]
    fn the_key_has_a_place_and_a_colour_for_every_verdict() {
        let places: Vec<(&str, f64, &str, &str)> = vec![
            ("16", 36.0, "#56b4e9", "stay"),
            ("126", 146.0, "#e69f00", "move"),
            ("236", 256.0, "#ffffff", "unknown"),
        ];
        let entry = |(left, text, colour, word): (&str, f64, &str, &str)| {
            format!(
                "<rect x=\"{left}\" y=\"10.0\" width=\"14\" height=\"14\" fill=\"{colour}\" stroke=\"#7a8591\"/>\
                 <text x=\"{text:.1}\" y=\"21.0\">{word}</text>\n"
            )
        };
        let entries: Vec<String> = places.into_iter().map(entry).collect();
        assert_eq!(key(10.0), entries.concat());
    }

    #[test]
    fn a_field_stands_in_the_column_of_its_wait_and_the_row_of_its_size() {
        let svg = map(&[
            rule(4, &[(1_000.0, Preference::Stay), (4_000.0, MOVE)]),
            rule(64, &[(1_000.0, Preference::Stay), (4_000.0, Preference::Unknown)]),
        ]);
        // Columns are 92 wide from 96 on, rows 34 high from 62 on.
        let last = "<rect x=\"188.0\" y=\"96.0\" width=\"92\" height=\"34\" fill=\"#ffffff\"";
        assert!(svg.contains(last), "{svg}");
        let first = "<rect x=\"96.0\" y=\"62.0\" width=\"92\" height=\"34\" fill=\"#56b4e9\"";
        assert!(svg.contains(first), "{svg}");
        assert!(svg.contains("viewBox=\"0 0 470 174\""), "{svg}");
        assert!(svg.contains("64 KiB and a wait of 4.00 ms: unknown; "), "{svg}");
    }
}
