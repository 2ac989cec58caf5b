// SPDX-License-Identifier: MIT OR Apache-2.0
//! Advice as a page: for each load a map of working-set size and preemption length, coloured by what to do.

use std::fmt::Write as _;

use super::decided::{choice, constants_of, isolation, partitioning, rules, together, withheld};
use super::escape::escape;
use super::figure::{FigureTable, PageSection};
use super::html;
use super::label::size;
use corehop_decide::advice::{Advice, AdviceChoice, AdviceRule, MapCell, Preference};
use corehop_plan::units::{Bytes, three_digits};
use corehop_plan::workload::Event;

/// A verdict's colour (told apart with any colour vision) and what stands in its field.
const FIELDS: [(&str, &str, &str); 4] = [
    ("#56b4e9", "stay", "staying costs less"),
    ("#e69f00", "move", "the cheapest migration costs less"),
    ("#d9dee3", "either", "the difference does not matter"),
    ("#ffffff", "?", "not enough evidence"),
];
const CELL: (f64, f64) = (92.0, 34.0);
/// Room for the sizes left of a map, and for its title and lengths above it.
const MARGIN: (f64, f64) = (96.0, 62.0);
const KEY: f64 = 44.0;

/// The page of the advice for what `title` names.
pub fn page(advice: &Advice, title: &str) -> String {
    let facts = [advice.sentence(), format!("{} rules", advice.rules.len())];
    html::page_of(title, &facts, &sections(advice))
}

fn sections(advice: &Advice) -> Vec<PageSection> {
    let mut all: Vec<PageSection> =
        together(&advice.rules).map(|rules| of_rules(advice, rules)).collect();
    if !advice.isolation.is_empty() {
        let section = PageSection::new("isolation", "Savings by isolation").says(
            "The possible saving of keeping others out of the job's cache lines: a preemption less an absence of the \
             same length in which nothing else ran.",
        );
        all.push(PageSection { tables: vec![isolation(&advice.isolation).shown()], ..section });
    }
    if !advice.constants.is_empty() {
        let section = PageSection::new("constants", "Constants for schedulers").says(
            "The cost of a migration beyond resuming in place after an absence of the same length in the same \
             company, which Linux calls sched_migration_cost_ns; and the warm budget of a sched_ext scheduler, the \
             time off the CPU after which half of the cost is there. A dash stands where the interval holds zero, or \
             the lengths measured do not tell.",
        );
        let section = withheld(&advice.constants).fold(section, PageSection::says);
        let stated = constants_of(&advice.constants).shown();
        let tables = if stated.rows.is_empty() { vec![] } else { vec![stated] };
        all.push(PageSection { tables, ..section });
    }
    if !advice.partitioning.is_empty() {
        let section = PageSection::new("partitioning", "Savings by cache partitioning").says(
            "The same simulation with the last level of cache divided in halves, one for the job and one for \
             everyone else: by its ways, and by page colours.",
        );
        all.push(PageSection {
            tables: vec![partitioning(&advice.partitioning).shown()],
            ..section
        });
    }
    if !advice.silent.is_empty() {
        let section = PageSection::new("silent", "No advice");
        all.push(advice.silent.iter().fold(section, |it, why| it.says(format!("{why}."))));
    }
    all
}

/// The map and the table of one load and company.
fn of_rules(advice: &Advice, rules: &[AdviceRule]) -> PageSection {
    let AdviceRule { load, company, .. } = &rules[0];
    let class = company.pair_class.map(|class| format!("-{class}")).unwrap_or_default();
    let id = format!("map-{load}-{}{class}", company.preempted_by);
    let section = PageSection::new(&id, &format!("Under load {load}, {company}")).says(
        "The advice for a job whose CPU is wanted, by the size of its working set and by how long it would \
         be off its CPU: let it be preempted, or move it by the cheapest migration that was measured for as long \
         in the same company. A field says one of the two where its whole interval is below the other's, and \
         either where nothing in the two intervals differs by more than a margin. Point at a field to see the \
         numbers.",
    );
    let here = |it: &&MapCell| it.load == *load && it.company == *company;
    let places: Vec<&MapCell> = advice.map.iter().filter(here).collect();
    PageSection { drawing: Some(map(&places)), tables: vec![unbroken(rules).shown()], ..section }
}

/// The rules of a load, whose sizes and costs are each kept on one line.
fn unbroken(of_load: &[AdviceRule]) -> FigureTable {
    let mut table = rules(of_load);
    for (row, rule) in table.rows.iter_mut().zip(of_load) {
        let costs = rule.choices.iter().map(|it| choice(it).replace(' ', "\u{a0}"));
        row[0] = row[0].replace(' ', "\u{a0}");
        row[1] = row[1].replace(' ', "\u{a0}");
        row[3] = costs.collect::<Vec<_>>().join(", ");
    }
    table
}

/// One load's map, as SVG.
fn map(places: &[&MapCell]) -> String {
    let mut sizes: Vec<u64> = places.iter().map(|place| place.wss_bytes).collect();
    sizes.sort_unstable();
    sizes.dedup();
    let mut lengths: Vec<u64> = places.iter().map(|place| column(place)).collect();
    lengths.sort_unstable();
    lengths.dedup();
    let width = (MARGIN.0 + CELL.0 * lengths.len() as f64 + 16.0).max(470.0);
    let bottom = MARGIN.1 + CELL.1 * sizes.len() as f64;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" \
         font-family=\"sans-serif\" font-size=\"12\" fill=\"#1c2733\" role=\"img\" aria-label=\"{label}\">\n\
         <rect width=\"{width}\" height=\"{height}\" fill=\"#ffffff\"/>\n\
         <text x=\"{left}\" y=\"20\" font-weight=\"bold\">{label}</text>\n\
         <text x=\"{left}\" y=\"38\">preemption length</text>\n",
        height = bottom + KEY,
        left = MARGIN.0,
        label = escape(&places.first().map_or_else(String::new, |comparison| {
            format!("Stay or move, load {}, {}", comparison.load, comparison.company)
        })),
    );
    for (at, &length) in lengths.iter().enumerate() {
        // Writing to a string cannot fail, here and below.
        let _ = writeln!(
            svg,
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{} ms</text>",
            MARGIN.0 + CELL.0 * (at as f64 + 0.5),
            MARGIN.1 - 7.0,
            three_digits(length as f64 / 1e3),
        );
    }
    for (row, &bytes) in sizes.iter().enumerate() {
        let top = MARGIN.1 + CELL.1 * row as f64;
        let _ = writeln!(
            svg,
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            MARGIN.0 - 8.0,
            top + CELL.1 / 2.0 + 4.0,
            size(Bytes::new(bytes)),
        );
        for place in places.iter().filter(|place| place.wss_bytes == bytes) {
            let at = lengths.iter().position(|&length| length == column(place)).unwrap_or(0);
            svg.push_str(&field(place, MARGIN.0 + CELL.0 * at as f64, top));
        }
    }
    svg.push_str(&key(bottom + 16.0));
    svg.push_str("</svg>\n");
    svg
}

/// The length's column: two digits of it, since an absence is never quite as long as it was meant to be.
fn column(place: &MapCell) -> u64 {
    let digits = place.length_us.max(1.0).log10().floor() as i32 - 1;
    let unit = 10_f64.powi(digits.max(0));
    ((place.length_us / unit).round() * unit) as u64
}

fn field(place: &MapCell, left: f64, top: f64) -> String {
    let (at, word) = match place.verdict {
        Preference::Prefer(Event::Preemption | Event::IdleLeave) => (0, FIELDS[0].1.to_owned()),
        Preference::Prefer(event) => (1, event.word().trim_end_matches("_migration").to_owned()),
        Preference::NoDifference => (2, FIELDS[2].1.to_owned()),
        Preference::NotEnoughEvidence => (3, FIELDS[3].1.to_owned()),
    };
    let cost = |it: &AdviceChoice| format!("{} µs", choice(it));
    format!(
        "<g><title>{} after {} ms: {}; {}, {}</title>\
         <rect x=\"{left:.1}\" y=\"{top:.1}\" width=\"{}\" height=\"{}\" fill=\"{}\" stroke=\"#7a8591\"/>\
         <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{word}</text></g>\n",
        size(Bytes::new(place.wss_bytes)),
        three_digits(place.length_us / 1e3),
        FIELDS[at].2,
        escape(&cost(&place.stay)),
        escape(&cost(&place.migration)),
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
        let word = if *word == "?" { "cannot tell" } else { word };
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
    use corehop_plan::workload::Absence;
    use corehop_stats::cpmd::CostEstimate;

    fn place(kib: u64, length_us: f64, verdict: Preference) -> MapCell {
        let choice = |event, us| AdviceChoice {
            event,
            cost: CostEstimate { estimate_us: us, low_us: Some(us - 1.0), high_us: None },
            measured: None,
            n: 60,
            replicates: Some(20),
            avoid: false,
        };
        MapCell {
            load: "idle".to_owned(),
            company: company(),
            wss_bytes: kib << 10,
            length_us,
            stay: choice(Event::Preemption, 20.0),
            migration: choice(Event::L3Migration, 30.0),
            verdict,
        }
    }

    fn company() -> Company {
        Company { preempted_by: Absence::Nothing, polluter: None, pair_class: None }
    }

    fn advice(map: Vec<MapCell>) -> Advice {
        let rule = |place: &MapCell| AdviceRule {
            load: place.load.clone(),
            company: company(),
            wss_bytes: place.wss_bytes,
            length_us: place.length_us,
            choices: vec![place.stay, place.migration],
            verdict: place.verdict,
            margin_us: 1.0,
            flip: None,
        };
        Advice { rules: map.iter().map(rule).collect(), map, ..Advice::default() }
    }

    #[test]
    fn each_size_and_length_has_a_field_that_says_what_to_do_and_why() {
        let map = vec![
            place(64, 1_000.4, Preference::Prefer(Event::Preemption)),
            place(64, 4_003.0, Preference::Prefer(Event::L3Migration)),
            place(256, 1_000.1, Preference::NotEnoughEvidence),
        ];
        let page = page(&advice(map), "Advice");
        assert_eq!(page.matches("<g><title>").count(), 3);
        // Lengths that were meant to be one stand in one column.
        assert_eq!(page.matches("1.00 ms</text>").count(), 1);
        for words in [">stay</text>", ">l3</text>", ">?</text>", "256 KiB after 1.00 ms"] {
            assert!(page.contains(words), "{words}");
        }
        assert!(page.contains("preemption 20.0 [19.0, …] (60 in 20) µs"), "hover values");
    }

    #[test]
    fn the_key_has_a_place_and_a_colour_for_every_verdict() {
        let places: Vec<(&str, f64, &str, &str)> = vec![
            ("16", 36.0, "#56b4e9", "stay"),
            ("126", 146.0, "#e69f00", "move"),
            ("236", 256.0, "#d9dee3", "either"),
            ("346", 366.0, "#ffffff", "cannot tell"),
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
    fn lengths_fall_into_columns_by_their_first_two_digits() {
        let of = |us| column(&place(4, us, Preference::NoDifference));
        assert_eq!([4.0, 94.4, 1_049.0, 1_051.0, 0.2].map(of), [4, 94, 1_000, 1_100, 0]);
    }

    #[test]
    fn a_field_stands_in_the_column_of_its_length_and_the_row_of_its_size() {
        let places = [
            place(64, 4_000.0, Preference::NoDifference),
            place(4, 1_000.0, Preference::Prefer(Event::IdleLeave)),
        ];
        let svg = map(&places.iter().collect::<Vec<_>>());
        // Columns are 92 wide from 96 on, rows 34 high from 62 on.
        assert!(
            svg.contains(
                "<rect x=\"188.0\" y=\"96.0\" width=\"92\" height=\"34\" fill=\"#d9dee3\""
            ),
            "{svg}"
        );
        assert!(
            svg.contains("<rect x=\"96.0\" y=\"62.0\" width=\"92\" height=\"34\" fill=\"#56b4e9\""),
            "{svg}"
        );
        assert!(svg.contains("viewBox=\"0 0 470 174\""), "{svg}");
        assert!(svg.contains("64 KiB after 4.00 ms: the difference does not matter; "), "{svg}");
    }
}
