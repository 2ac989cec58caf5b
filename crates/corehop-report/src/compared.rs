// SPDX-License-Identifier: MIT OR Apache-2.0
//! A comparison of two results as text: the answer first, then tables that fit into an e-mail, then the smallest
//! slowdown that the data could show.

use std::collections::{BTreeMap, BTreeSet};

use super::figure::FigureTable;
use super::label;
use super::table::{micros, plain, wrapped};
use corehop_decide::comparison::{QuantityComparison, ResultComparison};
use corehop_decide::gate::{CostChange, FailOn, Gate};
use corehop_plan::experiment::Renewed;
use corehop_plan::units::three_digits;

/// The width of the widest table line, because kernel mailing lists accept no wider lines.
const WIDEST: usize = 75;

/// Returns the evidence that follows the [`answer`]: a table for each group of quantities, then the smallest slowdown
/// that the data could show; sentences are wrapped at `width` columns.
pub fn comparison(comparison: &ResultComparison, width: usize) -> String {
    let mut text = String::new();
    text.extend(groups(comparison).map(|cells| mailed(&table_of(cells))));
    for sentence in evidence(comparison) {
        text.push_str(&wrapped(&sentence, width));
    }
    text
}

/// Returns the answer of the gate as one sentence.
pub fn answer(comparison: &ResultComparison, fail_on: &[FailOn]) -> String {
    let all = counted(comparison.gated().count());
    let counts = counts(comparison);
    match comparison.gate(fail_on) {
        Gate::Nothing => "Nothing was compared: the results have no cell in common.".to_owned(),
        Gate::Mute => format!(
            "Cannot tell whether B is slower: {} of {all} could show no slowdown, because independent replicates are too few \
             ({counts}); {}.",
            comparison.mute().count(),
            remedies(comparison)
        ),
        Gate::Incomplete => {
            let (lacking, first) = (comparison.lacking.len(), &comparison.lacking[0]);
            format!(
                "Cannot tell whether B is slower: B has no valid sample of {} of A, such as {} ({}); of the {all} that both have: \
                 {counts}.",
                counted(lacking),
                first.name,
                first.group
            )
        }
        Gate::Passes if comparison.count(CostChange::Slower) == 0 => {
            format!("No sign that B is slower than A, in {all}: {counts}.")
        }
        Gate::Passes | Gate::Fails if comparison.count(CostChange::Slower) > 0 => {
            let (slower, worst) = (comparison.count(CostChange::Slower), worst(comparison));
            format!("B is slower than A in {slower} of {all}{worst} ({counts}).")
        }
        Gate::Passes | Gate::Fails => {
            format!("B is not slower than A, but the gate fails on other outcomes: {counts}.")
        }
    }
}

/// Returns a number of cells as text, `1 cell` or `2 cells`.
fn counted(cells: usize) -> String {
    label::plural(cells, "cell")
}

/// The largest number of replicates that the text recommends.
const MOST: u64 = 2_000;

/// The instruction that needs no new measurement.
const WIDER: &str = "choose a wider --margin";

/// Adds the instruction to choose a wider margin, unless `remedy` ends with it.
fn or_wider(remedy: String) -> String {
    if remedy.ends_with(WIDER) { remedy } else { format!("{remedy}, or {WIDER}") }
}

/// Returns the instruction that gives an experiment this many replicates, with the experiment's own option.
fn remedy(experiment: &str, replicates: u64) -> String {
    if replicates > MOST {
        return format!("even {MOST} replicates of {experiment} are not enough: {WIDER}");
    }
    let n = replicates;
    match experiment {
        "program" => format!("record {n} runs for either result (`record --repeat {n}`)"),
        "schedule-sensitive" | "overheads" => {
            format!("measure {n} task sets for either result (`measure {experiment} --sets {n}`)")
        }
        "shared-data" => {
            format!("measure {n} runs for either result (`measure shared-data --samples {n}`)")
        }
        "conditions" => format!(
            "measure {n} complete renewals for either result (`measure conditions --replicates {0} --samples {0}`)",
            STEPS_OF_A_RENEWAL * n
        ),
        "place" => format!("run the placer for {n} windows for either result (`place --for`)"),
        "hyperfine" => format!("time {n} runs of either command (`hyperfine --runs {n}`)"),
        "offload" => {
            format!(
                "write {n} answers of either result into a folder each (`answer-1.json`, `answer-2.json`, …)"
            )
        }
        _ => format!(
            "measure {n} replicates of either result (`measure {experiment} --replicates {n}`)"
        ),
    }
}

/// The average number of steps of a `conditions` run between two complete renewals.
const STEPS_OF_A_RENEWAL: u64 = Renewed::ALL.len() as u64;

/// Returns the remedies for cells that could show no slowdown, one for each experiment.
fn remedies(comparison: &ResultComparison) -> String {
    let replicates = comparison.replicates_to_fail();
    let experiments: BTreeSet<&str> =
        comparison.mute().map(|it| it.quantity.experiment.as_str()).collect();
    let all: Vec<String> = experiments.into_iter().map(|it| remedy(it, replicates)).collect();
    all.join("; ")
}

/// Returns the numbers of outcomes as text: `1 slower, 0 faster, 3 equivalent, 2 cannot tell`.
fn counts(comparison: &ResultComparison) -> String {
    CostChange::ALL.map(|it| format!("{} {}", comparison.count(it), it.words())).join(", ")
}

/// Returns a clause about the slower cell whose cost grew by the largest share.
fn worst(comparison: &ResultComparison) -> String {
    let slower = comparison.gated().filter(|it| it.decided.outcome == CostChange::Slower);
    let Some(worst) = slower.max_by(|a, b| growth(a).total_cmp(&growth(b))) else {
        return String::new();
    };
    let (name, a, b) = (&worst.quantity.name, micros(worst.a_us), micros(worst.b_us));
    format!(", most in {name} ({}): {a} -> {b} us", worst.quantity.group)
}

/// Returns the change as a share of the first result's cost; infinite if that cost is not above 0.
fn growth(it: &QuantityComparison) -> f64 {
    if it.a_us > 0.0 { it.difference_us / it.a_us } else { f64::INFINITY }
}

/// Returns the sentences that follow the tables: the smallest slowdown that the data could show, the level of
/// intervals, and the cells left out.
pub(super) fn evidence(comparison: &ResultComparison) -> Vec<String> {
    if comparison.cells.is_empty() {
        return left_out(comparison).into_iter().chain(not_measured(comparison)).collect();
    }
    let level = comparison.cells.iter().filter_map(|it| Some(it.interval?.level)).reduce(f64::min);
    let holds = level.map(|level| {
        format!(
            "Each interval holds at {} % for its cell alone; the outcomes are corrected for all {}. A/A compares A with itself.",
            label::level(level),
            counted(comparison.gated().count())
        )
    });
    let needed = comparison.least_certain().map(|(cell, replicates)| {
        format!(
            "To decide every cell if nothing changed: {}.",
            or_wider(remedy(&cell.quantity.experiment, replicates))
        )
    });
    [Some(sensitivity(comparison)), holds, left_out(comparison), needed]
        .into_iter()
        .flatten()
        .chain(not_measured(comparison))
        .chain(not_gated(comparison))
        .chain(without_interval(comparison))
        .collect()
}

/// Returns sentences about cells that a result could not measure, with the reason.
fn not_measured(comparison: &ResultComparison) -> Vec<String> {
    let of = |(result, reasons): (&str, &BTreeMap<String, BTreeSet<String>>)| -> Vec<String> {
        let told = |(why, names): (&String, &BTreeSet<String>)| {
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            format!(
                "Not measured in {result}: {}: {}.",
                names.join(", "),
                why.trim_end_matches('.')
            )
        };
        reasons.iter().map(told).collect()
    };
    ["A", "B"].into_iter().zip(&comparison.not_measured).flat_map(of).collect()
}

/// Returns sentences about cells that are shown but cannot fail the gate, by reason.
fn not_gated(comparison: &ResultComparison) -> Vec<String> {
    let told = |why: &str, cells: String| format!("Not gated: {cells}: {why}.");
    by_reason(comparison, |it| it.not_gated.map(str::to_owned), told)
}

/// Returns the slowdown that each gated cell would have shown, as a share of A's cost, from the smallest to the largest.
fn detectable(comparison: &ResultComparison) -> Vec<f64> {
    let share =
        |it: &QuantityComparison| Some(it.detectable_us? / it.a_us).filter(|_| it.a_us > 0.0);
    let mut seen: Vec<f64> = comparison.gated().filter_map(share).collect();
    seen.sort_by(f64::total_cmp);
    seen
}

/// Returns a sentence about the smallest slowdown that the data could show.
fn sensitivity(comparison: &ResultComparison) -> String {
    let seen = detectable(comparison);
    let percent = |at: usize| format!("{} %", three_digits(100.0 * seen[at]));
    let same = |it: &QuantityComparison| it.decided.same;
    match seen.len() {
        0 if comparison.gated().all(same) => {
            "A and B are the same measurement, which does not differ from itself.".to_owned()
        }
        0 => "No slowdown would have been seen with 80 % power.".to_owned(),
        1 => format!("A slowdown of {} would have been seen with 80 % power.", percent(0)),
        n => format!(
            "A slowdown of {} would have been seen with 80 % power in the most sensitive cell, of {} in half of the {n} cells \
             with a known limit, of {} in the least sensitive of them.",
            percent(0),
            percent((n - 1) / 2),
            percent(n - 1)
        ),
    }
}

/// Returns a sentence about cells that only one result has.
fn left_out(comparison: &ResultComparison) -> Option<String> {
    let (only_a, only_b) = (comparison.only_a, comparison.only_b);
    let of = |(cells, result): (usize, &str)| {
        let are = if cells == 1 { "is" } else { "are" };
        (cells > 0).then(|| format!("{} {are} only in {result}", counted(cells)))
    };
    let told: Vec<String> = [(only_a, "A"), (only_b, "B")].into_iter().filter_map(of).collect();
    (!told.is_empty()).then(|| format!("Not compared: {}.", told.join(", ")))
}

/// Returns sentences about cells without an interval, by reason.
fn without_interval(comparison: &ResultComparison) -> Vec<String> {
    let told = |why: &str, cells: String| format!("No interval for {cells}: {why}.");
    let why = |it: &QuantityComparison| it.no_interval.clone().filter(|_| it.not_gated.is_none());
    by_reason(comparison, why, told)
}

/// Returns a sentence for each reason, with the names of the cells to which it applies.
fn by_reason(
    comparison: &ResultComparison,
    reason: impl Fn(&QuantityComparison) -> Option<String>,
    told: impl Fn(&str, String) -> String,
) -> Vec<String> {
    let mut reasons: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for it in &comparison.cells {
        if let Some(why) = reason(it) {
            let cell = format!("{} ({})", it.quantity.name, it.quantity.group);
            reasons.entry(why).or_default().push(cell);
        }
    }
    reasons.into_iter().map(|(why, cells)| told(&why, cells.join(", "))).collect()
}

/// Returns the cells of each table.
pub(super) fn groups(comparison: &ResultComparison) -> impl Iterator<Item = &[QuantityComparison]> {
    comparison.cells.chunk_by(|a, b| group_of(a) == group_of(b))
}

/// Returns the common properties of the quantities of one table.
fn group_of(it: &QuantityComparison) -> (&str, &str, &str) {
    (&it.quantity.file, &it.quantity.experiment, &it.quantity.group)
}

/// Returns the table of cells of one group.
pub(super) fn table_of(cells: &[QuantityComparison]) -> FigureTable {
    let of = cells.first().map(|row| {
        let file = if row.quantity.file.is_empty() { "" } else { ", " };
        format!("{}{file}{}: {}", row.quantity.experiment, row.quantity.file, row.quantity.group)
    });
    let head = ["us", "A", "B", "B-A, %", "A/A, %", "outcome"];
    let mut table = FigureTable::new(of.unwrap_or_default(), &head);
    table.rows = cells.iter().map(row).collect();
    table
}

/// Writes a table whose lines fit into an e-mail; names that are too long get a line of their own.
fn mailed(table: &FigureTable) -> String {
    let of = wrapped(&table.caption, WIDEST);
    let table = FigureTable { caption: String::new(), ..table.clone() };
    let rows = plain(&table);
    let widest = rows.lines().map(|line| line.chars().count()).max().unwrap_or(0);
    let rows = if widest > WIDEST { folded(&table, widest - WIDEST) } else { rows };
    of + rows.trim_start_matches('\n')
}

/// Returns the table with its first column narrower by `by`; a name that does not fit is on a line above its numbers.
fn folded(table: &FigureTable, by: usize) -> String {
    let widest = table.rows.iter().map(|row| row[0].chars().count()).max().unwrap_or(0);
    let room = widest.saturating_sub(by).max(2);
    let mut narrow = table.clone();
    let mut above = Vec::new();
    for row in &mut narrow.rows {
        let fits = row[0].chars().count() <= room;
        above.push((!fits).then(|| std::mem::replace(&mut row[0], " ".repeat(2))));
    }
    let text = plain(&narrow);
    let mut lines = text.trim_start_matches('\n').lines();
    let mut folded = format!("{}\n", lines.next().unwrap_or_default());
    for (line, name) in lines.zip(above.into_iter().chain(std::iter::repeat(None))) {
        if let Some(name) = name {
            folded += &wrapped(&name, WIDEST);
        }
        folded += line;
        folded.push('\n');
    }
    folded + "\n"
}

fn row(it: &QuantityComparison) -> Vec<String> {
    vec![
        it.quantity.name.clone(),
        micros(it.a_us),
        micros(it.b_us),
        change(it),
        it.floor_us.map_or_else(|| "–".to_owned(), |us| percent(us, it)),
        outcome(it),
    ]
}

/// Returns the outcome of a cell, in brackets if the gate does not judge the cell.
fn outcome(it: &QuantityComparison) -> String {
    let words = it.decided.outcome.words();
    if it.not_gated.is_some() { format!("({words})") } else { words.to_owned() }
}

/// Returns the change with its interval, in percent of A; in microseconds if the cost is not above the margin.
fn change(it: &QuantityComparison) -> String {
    let (scale, unit) = if by_share(it) { (100.0 / it.a_us, "") } else { (1.0, " us") };
    let number = |us: f64| three_digits(us * scale);
    let interval = it.interval.map(|its| format!(" [{}, {}]", number(its.low), number(its.high)));
    format!("{}{unit}{}", number(it.difference_us), interval.unwrap_or_default())
}

fn percent(us: f64, it: &QuantityComparison) -> String {
    if by_share(it) {
        three_digits(100.0 * us / it.a_us)
    } else {
        format!("{} us", three_digits(us))
    }
}

/// Returns whether the change is stated in percent; a cost near 0 could change by thousands of percent.
pub(super) fn by_share(it: &QuantityComparison) -> bool {
    it.a_us > 0.0 && it.margin_us < it.a_us
}

#[cfg(test)]
mod tests {
    use super::*;
    use corehop_decide::comparison::{EquivalenceMargin, Quantities, compare};
    use corehop_plan::samples::Sample;
    use corehop_plan::samples::example::sample;
    use corehop_stats::estimator::Estimator;

    /// Makes one sample for each of `replicates` replicates, in an order without a trend.
    fn delays(wss_kib: u64, replicates: u64) -> Vec<Sample> {
        let of = |at: u64| {
            let resumed_ns = 2e3 + (at * 7 % 10) as f64;
            Sample { replicate: Some(at), wss_bytes: wss_kib << 10, resumed_ns, ..sample() }
        };
        (0..replicates).map(of).collect()
    }

    #[test]
    fn a_comparison_says_why_a_cell_has_no_interval_each_reason_once() {
        let mut all = Quantities::new(Estimator::Difference);
        for samples in [delays(4, 10), delays(64, 2), delays(256, 2)] {
            all.take(&samples);
        }
        let margin = EquivalenceMargin { share: 0.05, least_us: Some(1.0) };
        let text = comparison(&compare(&all, &all, margin, 0.05).unwrap(), 100);
        let why = "No interval for preemption 64 KiB (load idle, 4k pages fixed_4ms), preemption 256 KiB (load idle, 4k \
                   pages fixed_4ms): 2 replicates; an interval needs 6.";
        assert!(text.replace('\n', " ").trim_end().ends_with(why), "{text}");
        assert_eq!(text.matches("No interval for").count(), 1);
    }

    #[test]
    fn the_sentence_stands_first_and_tables_fit_into_a_mail() {
        let (mut a, mut b) =
            (Quantities::new(Estimator::Difference), Quantities::new(Estimator::Difference));
        for at in 0..20 {
            let of = |more: f64| Sample {
                event: corehop_plan::workload::Event::MemoryMigration,
                load: "a_long_name_of_a_load_that_a_user_gave".into(),
                replicate: Some(at),
                resumed_ns: 1e6 + (at * 7 % 10) as f64 * 1e3 + more,
                ..sample()
            };
            a.take(&[of(0.0)]);
            b.take(&[of(4e5)]);
        }
        let margin = EquivalenceMargin { share: 0.05, least_us: None };
        let told = compare(&a, &b, margin, 0.05).unwrap();
        let text = comparison(&told, 100);
        let answer = answer(&told, &[FailOn::Slower]);
        assert!(
            answer.starts_with("B is slower than A in 1 of 1 cell, most in memory_migration"),
            "{answer}"
        );
        assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
        let table: Vec<&str> = text.split("\n\n").next().unwrap().lines().collect();
        assert!(table.len() >= 3 && table.iter().all(|line| line.chars().count() <= 75), "{text}");
        assert!(text.contains("A slowdown of"), "{text}");
    }

    /// Makes a comparison without common cells, in which one result has `a` cells and the other result has `b` cells.
    fn only(a: usize, b: usize) -> ResultComparison {
        let none = Quantities::new(Estimator::Difference);
        let margin = EquivalenceMargin { share: 0.05, least_us: None };
        ResultComparison { only_a: a, only_b: b, ..compare(&none, &none, margin, 0.05).unwrap() }
    }

    #[test]
    fn cells_that_one_result_has_are_counted_in_grammar_and_none_is_not_said() {
        let told = |a, b| left_out(&only(a, b));
        assert_eq!(told(0, 0), None);
        assert_eq!(told(1, 0).unwrap(), "Not compared: 1 cell is only in A.");
        assert_eq!(told(0, 2).unwrap(), "Not compared: 2 cells are only in B.");
        assert_eq!(
            told(2, 1).unwrap(),
            "Not compared: 2 cells are only in A, 1 cell is only in B."
        );
    }

    #[test]
    fn nothing_in_common_is_told_with_what_was_left_out_and_not_measured() {
        let mut nothing = only(1, 0);
        let why = ("no huge pages.".to_owned(), ["x".to_owned(), "y".to_owned()].into());
        nothing.not_measured[1].insert(why.0, why.1);
        assert_eq!(
            answer(&nothing, &[FailOn::Slower]),
            "Nothing was compared: the results have no cell in common."
        );
        assert_eq!(
            comparison(&nothing, 100),
            "Not compared: 1 cell is only in A.\nNot measured in B: x, y: no huge pages.\n"
        );
    }

    #[test]
    fn more_replicates_are_asked_for_by_the_option_of_the_experiment_and_not_without_end() {
        assert_eq!(
            remedy("synthetic", MOST),
            "measure 2000 replicates of either result (`measure synthetic --replicates 2000`)"
        );
        assert_eq!(
            remedy("synthetic", MOST + 1),
            "even 2000 replicates of synthetic are not enough: choose a wider --margin"
        );
        let steps = STEPS_OF_A_RENEWAL * 3;
        for (experiment, words) in [
            ("program", "record 3 runs for either result (`record --repeat 3`)".to_owned()),
            (
                "overheads",
                "measure 3 task sets for either result (`measure overheads --sets 3`)".to_owned(),
            ),
            (
                "shared-data",
                "measure 3 runs for either result (`measure shared-data --samples 3`)".to_owned(),
            ),
            (
                "conditions",
                format!(
                    "measure 3 complete renewals for either result (`measure conditions --replicates {steps} --samples {steps}`)"
                ),
            ),
            ("place", "run the placer for 3 windows for either result (`place --for`)".to_owned()),
        ] {
            assert_eq!(remedy(experiment, 3), words);
        }
        assert!(remedy("hyperfine", 3).ends_with("(`hyperfine --runs 3`)"));
        assert!(remedy("offload", 3).starts_with("write 3 answers of either result into a folder"));
    }
}
