// SPDX-License-Identifier: MIT OR Apache-2.0
//! Summaries as tables: as CSV, whose columns fit the printed tables of published studies, and as text for a terminal.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt::Write as _;

use super::figure::FigureTable;
use corehop_plan::shown;
use corehop_plan::units::Bytes;
use corehop_plan::units::three_digits;
use corehop_plan::workload::{Absence, Event};
use corehop_stats::cell::CellKey;
use corehop_stats::control::{leaving_alone, within_error};
use corehop_stats::delay::DelayStatistics;
use corehop_stats::quantile::Quantile;
use corehop_stats::replicates::Spread;
use corehop_stats::summary::CellSummary;

/// The columns of the CSV table. A table of corehop and a printed table join on all columns except the last.
pub const COLUMNS: &str = "platform,memory_architecture,load,event,preemption_length,write_ratio,statistic,wss_kib,cost_us";

/// The summaries that make up one table with the columns [`COLUMNS`].
#[derive(Debug, Clone)]
pub struct Joinable<'a> {
    /// The cells for every combination of values of the columns: one cell, or several cells that differ in a property
    /// that no column shows.
    keys: Vec<TableKey<'a>>,
    /// The differences between cells that share a key, such as `page=thp`, each with the number of later cells that
    /// differ in this way from the first cell.
    pub shared: Vec<(String, usize)>,
}

/// A combination of values of the CSV columns.
#[derive(Debug, Clone)]
struct TableKey<'a> {
    event: Event,
    cells: Vec<&'a CellSummary>,
}

/// Groups summaries into one table with the columns [`COLUMNS`]. Cells share a key if they differ only in what no
/// printed column shows, such as pages, pattern, chains, mover, or what ran. The table has the largest value of each
/// statistic among the cells that share a key, because decisions rely on the costs in the table.
pub fn joinable(summaries: &[CellSummary]) -> Joinable<'_> {
    let mut keys: Vec<TableKey<'_>> = Vec::new();
    let mut shared: Vec<(String, usize)> = Vec::new();
    for summary in summaries {
        let event = named(&summary.cell, summaries);
        let same = |other: &&mut TableKey| {
            other.event == event && told_apart(&other.cells[0].cell) == told_apart(&summary.cell)
        };
        let Some(key) = keys.iter_mut().find(same) else {
            keys.push(TableKey { event, cells: vec![summary] });
            continue;
        };
        let why = differences(&summary.cell, &key.cells[0].cell);
        match shared.iter_mut().find(|(known, _)| *known == why) {
            Some((_, count)) => *count += 1,
            None => shared.push((why, 1)),
        }
        key.cells.push(summary);
    }
    Joinable { keys, shared }
}

/// Returns the event of a cell in a table of costs. An absence in which nothing ran is an `idle_leave` if preemptions
/// in company were measured beside it; otherwise it is a preemption of an idle system, as the published studies call
/// it.
fn named(cell: &CellKey, summaries: &[CellSummary]) -> Event {
    let empty = |it: &CellKey| it.event == Event::Preemption && it.preempted_by == Absence::Nothing;
    let in_company = |it: &CellSummary| {
        it.cell.event == Event::Preemption
            && !empty(&it.cell)
            && (&it.cell.machine, &it.cell.load) == (&cell.machine, &cell.load)
    };
    if empty(cell) && summaries.iter().any(in_company) { Event::IdleLeave } else { cell.event }
}

/// Returns the fields of `cell` whose values differ from those of `other`, such as `page=thp and chains=4`.
fn differences(cell: &CellKey, other: &CellKey) -> String {
    let both = cell.fields().into_iter().zip(other.fields());
    let differing = both.filter(|(here, there)| here != there);
    differing.map(|((name, value), _)| format!("{name}={value}")).collect::<Vec<_>>().join(" and ")
}

/// Keeps the summaries whose cells have all of the values in `wanted`, each written as `name=value` with a name of
/// [`CellKey::fields`].
///
/// # Errors
/// Returns a sentence that names the unknown name or value, and the known names or values.
pub fn only(summaries: &[CellSummary], wanted: &[String]) -> Result<Vec<CellSummary>, String> {
    let mut left: Vec<CellSummary> = summaries.to_vec();
    for one in wanted {
        let Some((name, value)) = one.split_once('=') else {
            return Err(format!("`{one}` does not have the form NAME=VALUE, for example page=thp"));
        };
        let has = |cell: &CellSummary| {
            let fields = cell.cell.fields();
            fields.into_iter().find(|(known, _)| known == name).map(|(_, value)| value)
        };
        let known: BTreeSet<String> = left.iter().filter_map(has).collect();
        if known.is_empty() && !left.is_empty() {
            let fields = left[0].cell.fields();
            let names: Vec<&str> = fields.iter().map(|(name, _)| name.as_str()).collect();
            return Err(format!("cells have no `{name}`; they have {}", names.join(", ")));
        }
        left.retain(|cell| has(cell).is_some_and(|its| its == value));
        if left.is_empty() {
            let known: Vec<String> = known.into_iter().collect();
            return Err(format!("no cell has {name}={value}; the cells have {}", known.join(", ")));
        }
    }
    Ok(left)
}

/// Returns the properties of a cell that the CSV columns show.
fn told_apart(cell: &CellKey) -> impl PartialEq + '_ {
    let place = (&cell.machine, cell.memory_architecture, &cell.load);
    (place, length(cell), cell.write_ratio.to_bits(), cell.wss_bytes)
}

/// Writes the summaries as CSV with the columns [`COLUMNS`], one statistic on each line.
///
/// The statistics are `max`, `avg` (with `avg_low` and `avg_high`), `std`, `min`, and quantiles such as `p50` and `p90`
/// (with `_low` and `_high`, if enough samples support them). `n` and `n_all` are the numbers of valid and of all
/// samples, for which `cost_us` is a count.
pub fn csv(joinable: &Joinable<'_>) -> String {
    let mut table = format!("{COLUMNS}\n");
    for key in &joinable.keys {
        let cell = &key.cells[0].cell;
        let head = [
            field(&cell.machine),
            cell.memory_architecture.to_string(),
            field(&cell.load),
            key.event.to_string(),
            field(&length(cell)),
            number(cell.write_ratio),
        ];
        for (statistic, value) in largest(&key.cells) {
            let (head, wss) = (head.join(","), number(cell.wss_kib()));
            // Writing to a string cannot fail.
            let _ = writeln!(table, "{head},{statistic},{wss},{}", number(value));
        }
    }
    table
}

/// Returns the statistics of cells that share a key: each statistic comes, with its interval, from the cell in which
/// the statistic is largest.
fn largest(cells: &[&CellSummary]) -> Vec<(String, f64)> {
    let all: Vec<Vec<(String, f64)>> = cells.iter().map(|cell| statistics(cell)).collect();
    let value = |of: &[(String, f64)], name: &str| {
        of.iter().find(|(known, _)| known == name).map(|&(_, value)| value)
    };
    let of_family = |name: &str| {
        let some = all.iter().filter_map(|of| Some((value(of, leader(name))?, of)));
        let most = some.max_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, of)| of);
        most.or(all.first()).and_then(|of| value(of, name))
    };
    let mut names: Vec<&str> = Vec::new();
    for (name, _) in all.iter().flatten() {
        if !names.contains(&name.as_str()) {
            names.push(name);
        }
    }
    names.into_iter().filter_map(|name| Some((name.to_owned(), of_family(name)?))).collect()
}

/// Returns the statistic that decides which of several cells supplies the value `name`. An interval comes from the cell
/// of its estimate, and the number of samples comes from the cell of the maximum, because these samples bound it.
fn leader(name: &str) -> &str {
    match name {
        "std" | "min" => "avg",
        "n" | "n_all" => "max",
        _ => name.trim_end_matches("_low").trim_end_matches("_high"),
    }
}

/// Returns the distribution of preemption lengths in the words of the printed tables: an empty text for an event
/// without an absence, and `LOW..HIGHms` for a range that no printed table has.
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

/// Returns a field of CSV, in quotes if RFC 4180 requires them.
fn field(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}

/// Returns a number with at most six decimals, and without trailing zeros.
fn number(value: f64) -> String {
    let text = format!("{value:.6}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text == "-0" { "0".to_owned() } else { text.to_owned() }
}

/// Returns the name and the value of every statistic of a summary.
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

/// Returns the names and values of a quantile, such as `p50`, `p50_low` and `p50_high`, or `p999` for 99.9 %.
fn of_quantile(quantile: &Quantile) -> Vec<(String, f64)> {
    let digits = format!("{:.4}", quantile.p);
    let name = format!("p{:0<2}", digits.trim_start_matches("0.").trim_end_matches('0'));
    let ends = [("_low", quantile.low), ("_high", quantile.high)];
    let ends = ends.into_iter().filter_map(|(end, value)| Some((format!("{name}{end}"), value?)));
    std::iter::once((name.clone(), quantile.estimate)).chain(ends).collect()
}

/// Writes the summaries for a terminal of `width` columns, with one block for each machine, load and kind of working
/// set. A block has a row for each size and a column for each event; each cell shows the median with its interval, and
/// below it the greatest value with the number of samples.
pub fn text(summaries: &[CellSummary], width: usize) -> String {
    let mut table = match summaries.first() {
        Some(first) => format!(
            "delay in µs by `{}`: median [95 % interval], max (n valid samples, of how many), \
             medians of the replicates\n\n",
            first.estimator
        ),
        None => String::new(),
    };
    let mut rest = summaries;
    while let Some(first) = rest.first() {
        let same = rest.iter().take_while(|other| panel(&other.cell) == panel(&first.cell)).count();
        let (block, others) = rest.split_at(same);
        table.push_str(&block_text(block, width, usize::MAX));
        rest = others;
    }
    if table.contains(&format!(" {IN_ERROR}")) {
        table.push_str(&paragraph(IN_ERROR_MEANS, width));
    }
    if let Some(leaving) = leaving(summaries) {
        table.push_str(&paragraph(&leaving, width));
    }
    table
}

/// Writes the medians with their intervals, one line for each size, in one block of text for each machine, load and
/// kind of working set.
pub(super) fn medians(summaries: &[CellSummary], width: usize) -> Vec<String> {
    let mut blocks = Vec::new();
    let mut rest = summaries;
    while let Some(first) = rest.first() {
        let same = rest.iter().take_while(|other| panel(&other.cell) == panel(&first.cell)).count();
        let (block, others) = rest.split_at(same);
        blocks.push(block_text(block, width, 1));
        rest = others;
    }
    if let (Some(first), Some(summary)) = (blocks.first_mut(), summaries.first()) {
        let caption = format!("delay in µs by `{}`: median [95 % interval]", summary.estimator);
        *first = format!("{caption}\n\n{first}");
    }
    if blocks.iter().any(|block| block.contains(&format!(" {IN_ERROR}"))) {
        blocks.push(paragraph(IN_ERROR_MEANS, width));
    }
    blocks
}

/// Breaks a text into lines of at most `width` columns.
pub(super) fn paragraph(text: &str, width: usize) -> String {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines.join("\n") + "\n"
}

/// Returns the properties that all cells of one block of the text table have in common.
fn panel(cell: &CellKey) -> impl PartialEq + '_ {
    let place = (&cell.machine, &cell.experiment, &cell.load, cell.cache_state);
    let memory = (&cell.workload, cell.page, cell.node, cell.fresh_frames);
    (place, cell.pattern, memory, cell.chains, cell.write_ratio.to_bits())
}

/// Writes one block of the text table: a heading, and as many tables as the width requires; each cell has `lines`
/// lines.
fn block_text(block: &[CellSummary], width: usize, lines: usize) -> String {
    let cell = &block[0].cell;
    let mut text = format!(
        "{} · {} · load {} · {}, {} pages, write ratio {}",
        cell.machine,
        cell.experiment,
        cell.load,
        cell.workload.as_deref().unwrap_or(cell.pattern.word()),
        cell.page,
        number(cell.write_ratio)
    );
    if cell.chains > 1 {
        let _ = write!(text, ", {} chains", cell.chains);
    }
    if let Some(node) = cell.node {
        let _ = write!(text, ", memory of node {node}");
    }
    text.push_str(if cell.fresh_frames { ", fresh frames\n" } else { "\n" });
    let columns = columns(block, lines);
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

/// Returns the number of columns that fit beside the column of sizes; at least one.
fn that_fit(columns: &[TextColumn], width: usize) -> usize {
    let ends = columns.iter().scan(STUB, |end, column| {
        *end += column.width() + 2;
        Some(*end)
    });
    ends.take_while(|&end| end <= width).count().max(1)
}

/// The width of the column of sizes at the left of the text table.
const STUB: usize = 8;

/// A column of the text table, with the lines of its heading and the lines of each size.
struct TextColumn {
    head: Vec<String>,
    cells: Vec<Vec<String>>,
}

impl TextColumn {
    fn width(&self) -> usize {
        let lines = self.head.iter().chain(self.cells.iter().flatten());
        lines.map(|line| line.chars().count()).max().unwrap_or(0)
    }
}

/// Returns the sizes of a block in ascending order, each with the median of its warm touch.
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

/// Returns the columns of a block: first the warm touch, then a column for each series; each cell has `lines` lines.
fn columns(block: &[CellSummary], lines: usize) -> Vec<TextColumn> {
    let sizes = sizes(block);
    let warm = TextColumn {
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
    let column = |cell: &CellKey| TextColumn {
        head: heading(cell, &series),
        cells: sizes
            .iter()
            .map(|&(wss, _)| {
                let key = CellKey { wss_bytes: wss.get(), ..cell.clone() };
                match block.iter().find(|summary| summary.cell == key) {
                    Some(summary) => statement(summary, block).into_iter().take(lines).collect(),
                    None => Vec::new(),
                }
            })
            .collect(),
    };
    std::iter::once(warm).chain(series.iter().map(|&cell| column(cell))).collect()
}

/// Returns the heading of a column: the event and the absence, and if several columns would be equal, also what ran or
/// how the job moved.
fn heading(cell: &CellKey, series: &[&CellKey]) -> Vec<String> {
    /// The largest number of characters of a command that a heading shows; a longer command loses its beginning.
    const LONGEST: usize = 32;
    let of = |it: &CellKey| [it.event.to_string(), absence(it)];
    let alike = || series.iter().filter(|other| of(other) == of(cell));
    let mut head = of(cell).to_vec();
    if alike().any(|other| other.polluter != cell.polluter) {
        let ran = cell.polluter.as_deref().unwrap_or("nothing");
        let skipped = ran.chars().count().saturating_sub(LONGEST);
        // The end says where it ran.
        let end: String = ran.chars().skip(skipped).collect();
        head.push(if skipped > 0 { format!("…{end}") } else { end });
    }
    if alike().any(|other| other.mover != cell.mover) {
        head.push(format!("by {}", cell.mover));
    }
    head
}

/// Returns the length and the occupant of an absence, such as `fixed_4ms, preemptor`.
fn absence(cell: &CellKey) -> String {
    match (&*cell.preemption_length, cell.preempted_by.word()) {
        ("none", _) => "µs".to_owned(),
        ("fixed_0ns", "nothing") => "at once".to_owned(),
        ("fixed_0ns", who) => format!("at once, {who}"),
        (length, "nothing") => length.to_owned(),
        (length, who) => format!("{length}, {who}"),
    }
}

/// The mark of a delay that is within the error of the method.
pub const IN_ERROR: &str = "~";

/// A sentence about the meaning of the mark [`IN_ERROR`].
pub const IN_ERROR_MEANS: &str = "~ marks a delay that is no larger than the delay of the control none at that size, which should be zero: the method's own error.";

/// Returns a sentence about the sizes at which an absence in which nothing else ran cost at least as much as a
/// preemption.
pub fn leaving(summaries: &[CellSummary]) -> Option<String> {
    let all = leaving_alone(summaries);
    let first = all.first()?;
    let mut sizes: Vec<u64> = all.iter().map(|it| it.cell.wss_bytes).collect();
    sizes.sort_unstable();
    sizes.dedup();
    let sizes: Vec<String> = sizes.into_iter().map(|size| Bytes::new(size).to_string()).collect();
    Some(format!(
        "At {} an absence in which nothing else ran (idle_leave) cost at least as much as a preemption of the same length ({} µs against {} µs at {}): the kernel, other threads, or the hypervisor and its other guests caused that delay, not the preemptor.",
        sizes.join(", "),
        micros(first.idle_leave_us),
        micros(first.preemption_us),
        Bytes::new(first.cell.wss_bytes)
    ))
}

/// Returns the statistics of a cell in three lines.
fn statement(summary: &CellSummary, all: &[CellSummary]) -> Vec<String> {
    let count = if summary.n_valid == summary.n_all {
        format!("n {}", summary.n_valid)
    } else {
        format!("n {} of {}", summary.n_valid, summary.n_all)
    };
    match &summary.delay {
        Some(delay) => {
            let mark = if within_error(summary, all) { IN_ERROR } else { "" };
            vec![
                mark.to_owned() + &median_text(delay),
                format!("max {} ({count})", micros(delay.max.value)),
                spread_text(delay),
            ]
        }
        None => vec!["–".to_owned(), format!("({count})")],
    }
}

/// Returns the spread of the replicates, such as `0.29 to 0.75 in 20`, or the note `1 replicate`.
pub fn spread_text(delay: &DelayStatistics) -> String {
    match delay.spread.replicates {
        1 => "1 replicate".to_owned(),
        several => {
            let Spread { low, high, .. } = delay.spread;
            format!("{} to {} in {several}", micros(low), micros(high))
        }
    }
}

/// Returns the median with its interval, such as `12.3 [11.9, 12.8]`, with `…` for an end that too few samples support.
fn median_text(delay: &DelayStatistics) -> String {
    let median = delay.median();
    format!("{} {}", micros(median.estimate), interval(median.low, median.high))
}

/// Returns an interval in microseconds, such as `[11.9, 12.8]`, with `…` for an end that too few samples support.
pub fn interval(low: Option<f64>, high: Option<f64>) -> String {
    let end = |value: Option<f64>| value.map_or_else(|| "…".to_owned(), micros);
    format!("[{}, {}]", end(low), end(high))
}

/// Writes a table of a report as text with a caption; each column is as wide as its contents, the first aligned to the
/// left and the others to the right.
pub fn plain(table: &FigureTable) -> String {
    // Fields hold names of threads and programs, which may break the line.
    let rows: Vec<Vec<Cow<'_, str>>> = std::iter::once(&table.head)
        .chain(&table.rows)
        .map(|row| row.iter().map(|field| shown::line(field)).collect())
        .collect();
    let width = |place: usize| {
        let fields = rows.iter().filter_map(|row| row.get(place));
        fields.map(|field| field.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..table.head.len()).map(width).collect();
    let mut text = format!("{}\n", table.caption);
    for row in &rows {
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

/// Breaks a paragraph into lines of at most `width` columns, with a line break at its end. A word that is longer than
/// `width` stays whole.
pub fn wrapped(text: &str, width: usize) -> String {
    let (mut lines, mut line) = (String::new(), String::new());
    for word in &shown::unbroken(text) {
        if !line.is_empty() && line.chars().count() + 1 + word.chars().count() > width {
            lines.push_str(&line);
            lines.push('\n');
            line.clear();
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    lines + &line + "\n"
}

/// Microseconds with three significant digits, and at most three decimals.
pub fn micros(value: f64) -> String {
    three_digits(value)
}

/// Writes the sizes and the columns of a block, aligned to the right, with a rule under the heading.
fn aligned(stub: &[String], columns: &[TextColumn]) -> String {
    let mut text = String::new();
    let mut line = |first: &str, cells: Vec<&str>| {
        let mut row = format!("{first:<STUB$}");
        for (cell, column) in cells.iter().zip(columns) {
            let _ = write!(row, "  {:>width$}", shown::line(cell), width = column.width());
        }
        text.push_str(row.trim_end());
        text.push('\n');
    };
    let at = |lines: &'_ [String], index: usize| lines.get(index).cloned().unwrap_or_default();
    let height = columns.iter().map(|column| column.head.len()).max().unwrap_or(0);
    for index in 0..height {
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
mod tests;
