// SPDX-License-Identifier: MIT OR Apache-2.0
//! A page compares published tables with the simulated machine, with a drawing and a table for each
//! published table.

pub use super::dots::{Dot, Dots};
use super::figure::{FigureTable, PageSection, SectionPlace};
use super::front::{MOST_LINES, PageFront, SurenessCheck, WordedChart, WordedLine};
use super::html;
use super::validation_svg::drawing;
use super::validation_text;
use corehop_decide::validation::aim::AimVerdict;
use corehop_decide::validation::printed_number::ErrorLaw;
use corehop_decide::validation::sheet::{
    PrintedQuantity, PrintedStatistic, QuantityErrors, Sheet, ValidationRow,
};

impl Dots {
    /// Makes a drawing for each quantity of a study.
    pub fn of(sheet: &Sheet) -> Vec<Self> {
        let drawings = sheet.quantities.iter().map(|it| Self::of_quantity(sheet, it));
        drawings.filter(|it| !it.dots.is_empty()).collect()
    }

    fn of_quantity(sheet: &Sheet, it: &QuantityErrors) -> Self {
        let rows: Vec<&ValidationRow> = sheet.rows.iter().filter(|row| row.is_of(it)).collect();
        let is_cost = rows.iter().any(|row| matches!(row.what, PrintedQuantity::Cost { .. }));
        let unit = if is_cost { "µs".to_owned() } else { it.word.replace('_', " ") };
        let mut dots = Self {
            id: sheet.id.clone(),
            title: sheet.title.clone(),
            log: !matches!(it.law, ErrorLaw::Difference | ErrorLaw::Gain),
            least: 0.1,
            limit: it.limits.map(|limits| limits.median),
            reached: it.aim.as_ref().and_then(|aim| reached(aim.outcome)),
            law: it.law,
            dots: rows.iter().filter_map(|row| Dot::of(row, &unit)).collect(),
            judged: it.judged,
            unit,
        };
        match rows.first().map(|row| &row.what) {
            Some(PrintedQuantity::Point { .. }) => {
                dots.log = rows.iter().any(|row| row.printed > 100.0);
                dots.least = 1.0;
            }
            Some(PrintedQuantity::Gang { .. }) => {
                dots.id = format!("{}-{}", sheet.id, it.word.replace('_', "-"));
                dots.title = format!("{}: {}", sheet.title, dots.unit);
                dots.least = 10.0;
            }
            Some(PrintedQuantity::Cost { statistic, .. })
                if *statistic != PrintedStatistic::Average =>
            {
                dots.id = format!("{}-{statistic}", sheet.id);
                dots.title = format!("{}: {}", sheet.title, validation_text::name(it));
            }
            _ => {}
        }
        dots
    }

    fn section(&self) -> PageSection {
        let mut table =
            FigureTable::new("printed and simulated", &["value", "printed", "simulated", ""]);
        let row = |dot: &Dot| {
            let numbers = [format!("{}", dot.printed), format!("{:.2}", dot.simulated)];
            [vec![dot.label.clone()], numbers.to_vec(), vec![dot.role.mark().to_owned()]].concat()
        };
        table.rows = self.dots.iter().map(row).collect();
        let error = |error: f64| self.law.show(error);
        let said = self.judged.map(|errors| {
            format!(
                "{} values are judged: the median error is {}, and the 90th percentile is {}.",
                errors.rows,
                error(errors.median),
                error(errors.p90)
            )
        });
        let section = PageSection {
            drawing: Some(drawing(self)),
            tables: vec![table],
            ..PageSection::new(SectionPlace::Result, &self.id, &self.title)
        };
        said.into_iter().fold(section, PageSection::says)
    }
}

impl Dot {
    /// Returns the dot of a row of a quantity, or `None` if nothing was simulated for the row.
    fn of(row: &ValidationRow, unit: &str) -> Option<Self> {
        let (series, label) = match &row.what {
            PrintedQuantity::Cost { event, preemption_length, wss_kib, .. } => (
                event.word().replace('_', " "),
                format!("{event} {preemption_length}, {wss_kib} KiB"),
            ),
            PrintedQuantity::Point { name } => (unit.to_owned(), name.clone()),
            PrintedQuantity::Gang { program, items, parameters, .. } => (
                format!("{program} {parameters}").trim().to_owned(),
                format!("{program} {parameters}, {items} items"),
            ),
        };
        let (printed, role) = (row.printed, row.role);
        Some(Self { series, label, printed, simulated: row.simulated?, role })
    }
}

/// Returns whether an aim is reached, or `None` if nothing was judged.
fn reached(verdict: AimVerdict) -> Option<bool> {
    match verdict {
        AimVerdict::Reached => Some(true),
        AimVerdict::NotReached => Some(false),
        AimVerdict::NotJudged => None,
    }
}

/// Returns a check whether the tables reach their aims.
fn checks(all: &[Dots]) -> Vec<SurenessCheck> {
    let aimed = all.iter().filter_map(|it| it.reached);
    let (within, aims) =
        aimed.fold((0, 0), |(within, aims), it| (within + usize::from(it), aims + 1));
    let text =
        format!("{within} of {aims} tables with an aim reach it (median, 90th percentile, order)");
    if aims == 0 { Vec::new() } else { vec![SurenessCheck::new(within == aims, text)] }
}

/// Returns a chart of the tables with the largest median errors, in percent of the printed values.
fn chart(all: &[Dots]) -> Option<WordedChart> {
    let in_percent = all.iter().filter(|it| matches!(it.law, ErrorLaw::Relative | ErrorLaw::Gain));
    let line = |it: &Dots| {
        let error = it.judged.as_ref()?.median;
        error.is_finite().then(|| WordedLine {
            words: it.id.clone(),
            value: 100.0 * error,
            ends: None,
            group: usize::from(it.reached == Some(false)),
        })
    };
    let mut lines: Vec<WordedLine> = in_percent.filter_map(line).collect();
    lines.sort_by(|a, b| b.value.total_cmp(&a.value));
    let others = all.iter().filter(|it| it.judged.is_some()).count() - lines.len();
    lines.truncate(MOST_LINES);
    (!lines.is_empty()).then(|| WordedChart {
        quantity: "median error of a table, largest first, in %".to_owned(),
        unit: "%",
        point: "median error (a square: the table misses its aim)",
        level: 0.95,
        under: match others {
            0 => String::new(),
            _ => format!("not drawn: {others} with errors of another kind, or without a value"),
        },
        lines,
    })
}

/// Writes the page of all drawings, whose values were simulated with `seed`.
pub fn page(seed: u64, all: &[Dots]) -> String {
    let sections: Vec<PageSection> = all.iter().map(Dots::section).collect();
    let facts = [format!("seed {seed}"), format!("{} drawings", all.len())];
    let judged = all.iter().filter_map(|it| it.judged.as_ref());
    let (rows, tables) = (judged.clone().map(|it| it.rows).sum::<usize>(), judged.count());
    let front = PageFront {
        title: "Published tables against the simulated machine".to_owned(),
        answer: format!(
            "corehop compares the simulated machine with {rows} printed values of {tables} tables; each section states the errors of its table."
        ),
        next: Some((
            "corehop sim validate --svg FOLDER".to_owned(),
            "writes each drawing to a file.",
        )),
        everything: "corehop sim validate --json".to_owned(),
        facts: facts.to_vec(),
        checks: checks(all),
        chart: chart(all),
        ..PageFront::default()
    };
    html::page_of(&front, sections)
}

#[cfg(test)]
mod tests {
    use super::*;
    use corehop_decide::validation::sheet::JudgementRole;

    fn dots(log: bool) -> Dots {
        let dot = |printed, simulated, role| Dot {
            series: "a & b".to_owned(),
            label: "x".to_owned(),
            printed,
            simulated,
            role,
        };
        Dots {
            id: "x".to_owned(),
            title: "values".to_owned(),
            log,
            least: 0.1,
            limit: Some(0.1),
            reached: None,
            law: if log { ErrorLaw::Relative } else { ErrorLaw::Difference },
            unit: String::new(),
            judged: None,
            dots: vec![
                dot(1.0, 1.0, JudgementRole::Judged),
                dot(100.0, 10.0, JudgementRole::Fitted),
                dot(0.0, -2.0, JudgementRole::NotModelled),
            ],
        }
    }

    #[test]
    fn what_agrees_is_on_the_diagonal_and_what_is_too_small_for_a_logarithm_at_the_edge() {
        let svg = drawing(&dots(true));
        // From 0.1 to 100: one is a third of the way, both ways.
        assert!(svg.contains("cx=\"195.3\" cy=\"280.7\""), "{svg}");
        assert!(svg.contains("cx=\"72.0\" cy=\"404.0\""), "{svg}");
        assert!(svg.contains("hollow: fitted") && svg.contains("±10 %"));
        assert!(
            svg.contains("grey: not modelled") && svg.contains("simulated -2.00, not modelled")
        );
        assert!(svg.contains("a &amp; b"));
    }

    #[test]
    fn a_page_has_a_drawing_for_each() {
        let page = page(7, &[dots(true), dots(false)]);
        assert_eq!(page.matches("aria-label=\"values\"").count(), 2);
        assert!(page.contains("seed 7"));
    }

    #[test]
    fn a_section_states_its_values_with_their_marks_and_the_errors_in_its_unit() {
        use corehop_decide::validation::aim::ErrorQuantiles;
        let judged = Some(ErrorQuantiles { rows: 2, missing: 0, median: 0.125, p90: 0.5 });
        let said = |relative| Dots { judged, ..dots(relative) }.section();
        let section = said(true);
        assert_eq!(
            section.text,
            ["2 values are judged: the median error is 12.5 %, and the 90th percentile is 50.0 %."]
        );
        assert_eq!(
            said(false).text,
            ["2 values are judged: the median error is 0.12, and the 90th percentile is 0.50."]
        );
        assert_eq!(
            section.tables[0].rows,
            [
                ["x", "1", "1.00", ""],
                ["x", "100", "10.00", "fitted"],
                ["x", "0", "-2.00", "not modelled"]
            ]
        );
        assert!(dots(true).section().text.is_empty());
    }
}
