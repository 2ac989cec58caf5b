// SPDX-License-Identifier: MIT OR Apache-2.0
//! Summaries as tables: CSV that joins the printed tables of the studies, and text for a terminal.

use std::fmt::Write as _;

use super::figure::Table;
use crate::model::cell::CellKey;
use crate::model::delay::Delay;
use crate::model::quantile::Quantile;
use crate::model::summary::CellSummary;
use crate::units::Bytes;

/// The columns of the CSV table. A table of ours and a printed one join on all but the last.
pub const COLUMNS: &str = "platform,memory_architecture,load,event,preemption_length,write_ratio,statistic,wss_kib,cost_us";

/// The summaries that make up one table: where several differ only in what the columns of a
/// printed table do not tell apart (pages, pattern, chains, mover, …), the first one of each.
///
/// Summaries are sorted, so that the first is the one in base pages, as a shuffled list, with one
/// chain. The second value is how many were left out.
pub fn joinable(summaries: &[CellSummary]) -> (Vec<&CellSummary>, usize) {
    let mut chosen: Vec<&CellSummary> = Vec::new();
    for summary in summaries {
        if !chosen.iter().any(|other| told_apart(&other.cell) == told_apart(&summary.cell)) {
            chosen.push(summary);
        }
    }
    let left_out = summaries.len() - chosen.len();
    (chosen, left_out)
}

/// What the columns tell apart.
fn told_apart(cell: &CellKey) -> impl PartialEq + '_ {
    let place = (&cell.machine, cell.memory_architecture, &cell.load, cell.event);
    (place, length(cell), cell.write_ratio.to_bits(), cell.wss_bytes)
}

/// The summaries as CSV with the columns [`COLUMNS`], one statistic a line.
///
/// Statistics: `max`, `avg` (with `avg_low` and `avg_high`), `std`, `min`, quantiles `p50`, `p90`, …
/// (each with `_low` and `_high`, absent where too few samples carry them), and `n` and `n_all`, the
/// numbers of valid and of all samples, for which `cost_us` is a count.
pub fn csv(summaries: &[&CellSummary]) -> String {
    let mut table = format!("{COLUMNS}\n");
    for summary in summaries {
        let cell = &summary.cell;
        let head = [
            field(&cell.machine),
            cell.memory_architecture.to_string(),
            field(&cell.load),
            cell.event.to_string(),
            field(&length(cell)),
            number(cell.write_ratio),
        ];
        for (statistic, value) in statistics(summary) {
            let (head, wss) = (head.join(","), number(cell.wss_kib()));
            // Writing to a string cannot fail.
            let _ = writeln!(table, "{head},{statistic},{wss},{}", number(value));
        }
    }
    table
}

/// How preemption lengths were drawn, in the words of the printed tables: nothing for an event
/// without an absence, `LOW..HIGHms` for a range that is none of theirs.
fn length(cell: &CellKey) -> String {
    let text = &*cell.preemption_length;
    match text {
        "none" | "fixed_0ns" => String::new(),
        "uniform_0_50ms" => text.to_owned(),
        _ => match text.strip_prefix("uniform_").and_then(|range| range.split_once('_')) {
            Some((low, high)) => format!("{low}..{high}"),
            None => text.to_owned(),
        },
    }
}

/// A field of CSV, quoted where it must be (RFC 4180).
fn field(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}

/// A number with at most six decimals and no more than it needs.
fn number(value: f64) -> String {
    let text = format!("{value:.6}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text == "-0" { "0".to_owned() } else { text.to_owned() }
}

/// Name and value of every statistic of a summary.
fn statistics(summary: &CellSummary) -> Vec<(String, f64)> {
    let mut all = Vec::new();
    if let Some(delay) = &summary.delay {
        all.extend([("max".to_owned(), delay.max.value), ("avg".to_owned(), delay.moments.mean)]);
        all.extend(delay.moments.interval.iter().flat_map(|interval| {
            [("avg_low".to_owned(), interval.low), ("avg_high".to_owned(), interval.high)]
        }));
        all.extend(delay.moments.std.map(|std| ("std".to_owned(), std)));
        all.push(("min".to_owned(), delay.min));
        all.extend(delay.quantiles.iter().flat_map(of_quantile));
    }
    all.push(("n".to_owned(), summary.n_valid as f64));
    all.push(("n_all".to_owned(), summary.n_all as f64));
    all
}

/// `p50`, `p50_low`, `p50_high`; `p999` for 99.9 %.
fn of_quantile(quantile: &Quantile) -> Vec<(String, f64)> {
    let digits = format!("{:.4}", quantile.p);
    let name = format!("p{:0<2}", digits.trim_start_matches("0.").trim_end_matches('0'));
    let ends = [("_low", quantile.low), ("_high", quantile.high)];
    let ends = ends.into_iter().filter_map(|(end, value)| Some((format!("{name}{end}"), value?)));
    std::iter::once((name.clone(), quantile.estimate)).chain(ends).collect()
}

/// The summaries for a terminal of `width` columns: one block for each machine, load and kind of
/// working set; a row for each size, a column for each event; the median with its interval, and
/// below it the greatest value with the number of samples.
pub fn text(summaries: &[CellSummary], width: usize) -> String {
    let mut table = match summaries.first() {
        Some(first) => format!(
            "delay in µs by `{}`: median [95 % interval], max (n valid samples, of how many)\n\n",
            first.estimator
        ),
        None => String::new(),
    };
    let mut rest = summaries;
    while let Some(first) = rest.first() {
        let same = rest.iter().take_while(|other| panel(&other.cell) == panel(&first.cell)).count();
        let (block, others) = rest.split_at(same);
        table.push_str(&block_text(block, width));
        rest = others;
    }
    table
}

/// What the cells of one block of the text table have in common.
fn panel(cell: &CellKey) -> impl PartialEq + '_ {
    let place = (&cell.machine, &cell.experiment, &cell.load, cell.cache_state);
    (place, cell.pattern, cell.page, cell.chains, cell.write_ratio.to_bits())
}

/// One block: a heading, and as many tables below each other as the width asks for.
fn block_text(block: &[CellSummary], width: usize) -> String {
    let cell = &block[0].cell;
    let chains = if cell.chains == 1 { String::new() } else { format!(", {} chains", cell.chains) };
    let mut text = format!(
        "{} · {} · load {} · {}, {} pages, write ratio {}{chains}\n",
        cell.machine,
        cell.experiment,
        cell.load,
        cell.pattern,
        cell.page,
        number(cell.write_ratio)
    );
    let columns = columns(block);
    let stub: Vec<String> = sizes(block).iter().map(|&(wss, _)| wss.to_string()).collect();
    let mut rest = columns.as_slice();
    while !rest.is_empty() {
        let (some, others) = rest.split_at(that_fit(rest, width));
        text.push_str(&aligned(&stub, some));
        rest = others;
    }
    text.push('\n');
    text
}

/// How many of the columns fit beside the sizes; at least one.
fn that_fit(columns: &[Column], width: usize) -> usize {
    let ends = columns.iter().scan(STUB, |end, column| {
        *end += column.width() + 2;
        Some(*end)
    });
    ends.take_while(|&end| end <= width).count().max(1)
}

/// What the sizes take at the left of the text table.
const STUB: usize = 8;

/// A column of the text table: heading lines, and for each size its lines.
struct Column {
    head: Vec<String>,
    cells: Vec<Vec<String>>,
}

impl Column {
    fn width(&self) -> usize {
        let lines = self.head.iter().chain(self.cells.iter().flatten());
        lines.map(|line| line.chars().count()).max().unwrap_or(0)
    }
}

/// The sizes of a block in ascending order, each with its median warm touch.
fn sizes(block: &[CellSummary]) -> Vec<(Bytes, Option<f64>)> {
    let mut sizes: Vec<(Bytes, Option<f64>)> = Vec::new();
    for summary in block {
        let wss = Bytes::new(summary.cell.wss_bytes);
        if !sizes.iter().any(|&(known, _)| known == wss) {
            sizes.push((wss, summary.warm_us.map(|warm| warm.estimate)));
        }
    }
    sizes.sort_by_key(|&(wss, _)| wss);
    sizes
}

/// The warm touch, then a column for each series of the block.
fn columns(block: &[CellSummary]) -> Vec<Column> {
    let sizes = sizes(block);
    let warm = Column {
        head: vec!["warm touch".to_owned(), "µs".to_owned()],
        cells: sizes
            .iter()
            .map(|&(_, warm)| vec![warm.map_or_else(|| "–".to_owned(), micros)])
            .collect(),
    };
    let mut series: Vec<&CellKey> = Vec::new();
    for summary in block {
        if !series.iter().any(|known| known.same_series(&summary.cell)) {
            series.push(&summary.cell);
        }
    }
    let column = |cell: &CellKey| Column {
        head: vec![cell.event.to_string(), absence(cell)],
        cells: sizes
            .iter()
            .map(|&(wss, _)| {
                let key = CellKey { wss_bytes: wss.get(), ..cell.clone() };
                match block.iter().find(|summary| summary.cell == key) {
                    Some(summary) => statement(summary),
                    None => Vec::new(),
                }
            })
            .collect(),
    };
    std::iter::once(warm).chain(series.into_iter().map(column)).collect()
}

/// Length and occupant of an absence: `fixed_4ms, preemptor`.
fn absence(cell: &CellKey) -> String {
    match (&*cell.preemption_length, cell.preempted_by.word()) {
        ("none", _) => "µs".to_owned(),
        (length, "nothing") => length.to_owned(),
        (length, who) => format!("{length}, {who}"),
    }
}

/// What a cell says, in two lines.
fn statement(summary: &CellSummary) -> Vec<String> {
    let count = if summary.n_valid == summary.n_all {
        format!("n {}", summary.n_valid)
    } else {
        format!("n {} of {}", summary.n_valid, summary.n_all)
    };
    match &summary.delay {
        Some(delay) => {
            vec![median_text(delay), format!("max {} ({count})", micros(delay.max.value))]
        }
        None => vec!["–".to_owned(), format!("({count})")],
    }
}

/// `12.3 [11.9, 12.8]`, an end that too few samples carry as `…`.
fn median_text(delay: &Delay) -> String {
    let median = delay.median();
    let end = |value: Option<f64>| value.map_or_else(|| "…".to_owned(), micros);
    format!("{} [{}, {}]", micros(median.estimate), end(median.low), end(median.high))
}

/// A table of a report as text: a caption, and columns as wide as they need be, the first to the
/// left and the others to the right.
pub fn plain(table: &Table) -> String {
    let width = |place: usize| {
        let fields =
            table.rows.iter().filter_map(|row| row.get(place)).chain(table.head.get(place));
        fields.map(|field| field.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..table.head.len()).map(width).collect();
    let mut text = format!("{}\n", table.caption);
    for row in std::iter::once(&table.head).chain(&table.rows) {
        let mut line = String::new();
        for (place, (field, width)) in row.iter().zip(&widths).enumerate() {
            // Writing to a string cannot fail.
            let _ = match place {
                0 => write!(line, "{field:<width$}"),
                _ => write!(line, "  {field:>width$}"),
            };
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text.push('\n');
    text
}

/// Microseconds with three significant digits, and no more than three decimals.
pub fn micros(value: f64) -> String {
    let text = match value.abs() {
        100.0.. => format!("{value:.0}"),
        10.0.. => format!("{value:.1}"),
        1.0.. => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    };
    if text.trim_start_matches('-').chars().all(|c| c == '0' || c == '.') {
        "0".to_owned()
    } else {
        text
    }
}

/// The sizes and the columns, aligned to the right, with a rule under the heading.
fn aligned(stub: &[String], columns: &[Column]) -> String {
    let mut text = String::new();
    let mut line = |first: &str, cells: Vec<&str>| {
        let mut row = format!("{first:<STUB$}");
        for (cell, column) in cells.iter().zip(columns) {
            let _ = write!(row, "  {cell:>width$}", width = column.width());
        }
        text.push_str(row.trim_end());
        text.push('\n');
    };
    let at = |lines: &'_ [String], index: usize| lines.get(index).cloned().unwrap_or_default();
    for index in 0..2 {
        let heads: Vec<String> = columns.iter().map(|column| at(&column.head, index)).collect();
        line(if index == 0 { "WSS" } else { "" }, heads.iter().map(String::as_str).collect());
    }
    for (row, first) in stub.iter().enumerate() {
        let height = columns.iter().map(|column| column.cells[row].len()).max().unwrap_or(1);
        for index in 0..height {
            let cells: Vec<String> =
                columns.iter().map(|column| at(&column.cells[row], index)).collect();
            line(if index == 0 { first } else { "" }, cells.iter().map(String::as_str).collect());
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::estimator::Estimator;
    use crate::model::example::sample;
    use crate::model::summary::summarize;
    use crate::platform::MemoryArchitecture;
    use crate::samples::{Cause, Sample};
    use crate::workload::{Absence, Event, Page};

    /// Lines as printed in the studies: Bastoni et al. 2010, table 1 (Fig. 2a), and Wächtler 2012,
    /// table A.1, each with the columns that its own table has.
    const PRINTED: [&str; 2] = [
        "platform,memory_architecture,load,event,preemption_length,write_ratio,statistic,wss_kib,cost_us
xeon_l7455,uma,constructed,preemption,uniform_0_50ms,0.25,max,4,17.52
xeon_l7455,uma,constructed,l2_migration,uniform_0_50ms,0.25,max,4,19.09",
        "platform,memory_architecture,load,event,preemption_length,statistic,wss_kib,cost_us
xeon_x5650,numa,idle,preemption,fixed_4ms,max,4,0.19
xeon_x5650,numa,idle,l3_migration,,max,4,4.59",
    ];

    /// The samples that would be taken for the lines above.
    fn as_in_the_studies() -> Vec<Sample> {
        let bastoni = Sample {
            machine: "xeon_l7455".into(),
            memory_architecture: MemoryArchitecture::Uma,
            load: "constructed".into(),
            preemption_length: "uniform_0_50ms".into(),
            write_ratio: 0.25,
            ..sample()
        };
        let waechtler = Sample {
            machine: "xeon_x5650".into(),
            memory_architecture: MemoryArchitecture::Numa,
            ..sample()
        };
        vec![
            bastoni.clone(),
            Sample { event: Event::L2Migration, ..bastoni },
            waechtler.clone(),
            Sample { event: Event::L3Migration, preemption_length: "none".into(), ..waechtler },
        ]
    }

    fn table(samples: &[Sample]) -> String {
        let summaries = summarize(samples, Estimator::Difference);
        csv(&joinable(&summaries).0)
    }

    /// The values of the columns `names` in every line of a CSV table without quotes.
    fn values<'a>(table: &'a str, names: &[&str]) -> Vec<Vec<&'a str>> {
        let mut lines = table.lines();
        let head: Vec<&str> = lines.next().unwrap().split(',').collect();
        let places: Vec<usize> = names
            .iter()
            .map(|name| head.iter().position(|column| column == name).unwrap())
            .collect();
        lines
            .map(|line| {
                let fields: Vec<&str> = line.split(',').collect();
                places.iter().map(|&place| fields[place]).collect()
            })
            .collect()
    }

    #[test]
    fn a_table_of_ours_and_a_printed_one_join_on_their_common_columns() {
        let ours = table(&as_in_the_studies());
        for printed in PRINTED {
            let head = printed.lines().next().unwrap();
            let keys: Vec<&str> = head.split(',').filter(|&name| name != "cost_us").collect();
            let rows = values(&ours, &keys);
            for wanted in values(printed, &keys) {
                assert_eq!(rows.iter().filter(|row| **row == wanted).count(), 1, "{wanted:?}");
            }
        }
    }

    #[test]
    fn the_statistics_of_a_cell_are_lines_of_their_own() {
        let delays = [4.0, 1.0, 2.0, 3.0, 10.0];
        let mut samples: Vec<Sample> =
            delays.iter().map(|us| Sample { resumed_ns: 1e3 * (1.0 + us), ..sample() }).collect();
        samples.push(Sample { valid: false, disturbed_by: vec![Cause::Gap], ..sample() });
        let head = "box,single_socket,idle,preemption,fixed_4ms,0.5";
        let expected = [
            ("max", "10"),
            ("avg", "4"),
            ("std", "3.535534"),
            ("min", "1"),
            ("p50", "3"),
            ("n", "5"),
            ("n_all", "6"),
        ];
        let lines: Vec<String> =
            expected.iter().map(|(name, value)| format!("{head},{name},4,{value}")).collect();
        assert_eq!(table(&samples), format!("{COLUMNS}\n{}\n", lines.join("\n")));
    }

    #[test]
    fn an_interval_stands_beside_its_quantile_once_there_are_samples_for_it() {
        let samples: Vec<Sample> =
            (1..=9).map(|us| Sample { resumed_ns: 1e3 * f64::from(1 + us), ..sample() }).collect();
        let table = table(&samples);
        // Nine samples: ranks 2 and 8 cover the median with 96.1 %.
        for line in [",p50,4,5", ",p50_low,4,2", ",p50_high,4,8"] {
            assert_eq!(table.lines().filter(|row| row.ends_with(line)).count(), 1, "{line}");
        }
        assert!(!table.contains("p90"));
    }

    #[test]
    fn cells_that_the_columns_cannot_tell_apart_are_left_out_and_counted() {
        let huge = Sample { page: Page::Transparent, resumed_ns: 9e9, ..sample() };
        let summaries = summarize(&[huge, sample()], Estimator::Difference);
        let (chosen, left_out) = joinable(&summaries);
        assert_eq!((chosen.len(), left_out), (1, 1));
        assert_eq!(chosen[0].cell.page, Page::Base);
    }

    #[test]
    fn a_length_that_no_study_used_is_written_as_its_range() {
        let of = |text: &str| {
            length(&CellKey::of(&Sample { preemption_length: text.into(), ..sample() }))
        };
        let lengths = ["none", "fixed_4ms", "uniform_0_50ms", "uniform_0_20ms", "uniform_1_5ms"];
        assert_eq!(lengths.map(of), ["", "fixed_4ms", "uniform_0_50ms", "0..20ms", "1..5ms"]);
    }

    #[test]
    fn a_name_with_a_comma_or_a_quote_stays_one_field() {
        let odd = Sample { load: "make -j2, \"all\"".into(), ..sample() };
        assert!(table(&[odd]).contains("single_socket,\"make -j2, \"\"all\"\"\",preemption"));
    }

    #[test]
    fn the_terminal_table_is_aligned_and_says_over_how_many_samples_a_maximum_is() {
        let quiet = |event, us: f64| Sample {
            event,
            preempted_by: Absence::Nothing,
            resumed_ns: 1e3 * (1.0 + us),
            ..sample()
        };
        let mut samples: Vec<Sample> = (1..=9)
            .flat_map(|us| {
                [
                    quiet(Event::Preemption, f64::from(us)),
                    quiet(Event::L3Migration, f64::from(100 * us)),
                ]
            })
            .collect();
        samples.push(Sample {
            valid: false,
            disturbed_by: vec![Cause::Gap],
            ..quiet(Event::Preemption, 1.0)
        });
        let text = text(&summarize(&samples, Estimator::Difference), 100);
        assert_eq!(
            text,
            "\
delay in µs by `difference`: median [95 % interval], max (n valid samples, of how many)

box · synthetic · load idle · shuffled, 4k pages, write ratio 0.5
WSS       warm touch            preemption    l3_migration
                  µs             fixed_4ms       fixed_4ms
4 KiB           1.00     5.00 [2.00, 8.00]  500 [200, 800]
                      max 9.00 (n 9 of 10)   max 900 (n 9)

"
        );
    }

    #[test]
    fn a_narrow_terminal_gets_the_columns_below_each_other() {
        let events = [Event::None, Event::Preemption, Event::L3Migration, Event::MemoryMigration];
        let samples: Vec<Sample> =
            events.iter().map(|&event| Sample { event, ..sample() }).collect();
        let text = text(&summarize(&samples, Estimator::Difference), 60);
        assert!(text.lines().skip(1).all(|line| line.chars().count() <= 65), "{text}");
        assert_eq!(text.matches("WSS").count(), 3, "{text}");
    }
}
