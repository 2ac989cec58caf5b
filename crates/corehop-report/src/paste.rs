// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tables that users paste into other texts, as Markdown or as LaTeX.

use corehop_plan::shown;
use corehop_plan::units::{Bytes, three_digits};
use corehop_stats::delay::DelayStatistics;
use corehop_stats::quantile::Quantile;
use corehop_stats::summary::CellSummary;

use super::figure::FigureTable;

/// Returns a table that has a row for each cell, and columns for the properties in which the cells
/// differ.
pub fn cells(summaries: &[CellSummary]) -> Option<FigureTable> {
    let first = summaries.first()?;
    let caption = format!(
        "Delay by {}, in µs: median with its 95 % interval, and the maximum",
        first.estimator
    );
    let fields: Vec<Vec<(String, String)>> = summaries.iter().map(told).collect();
    let names = fields[0].iter().map(|(name, _)| name.clone());
    let differs = |name: &String| {
        let of = |all: &Vec<(String, String)>| all.iter().find(|(it, _)| it == name).cloned();
        fields.iter().any(|all| of(all) != of(&fields[0]))
    };
    let varying: Vec<String> = names.filter(differs).collect();
    let mut table = FigureTable::new(caption, &["event", "working set"]);
    table.head.extend(varying.iter().cloned());
    table.head.extend(["median", "interval", "maximum", "samples"].map(str::to_owned));
    let row = |(summary, fields): (&CellSummary, &Vec<(String, String)>)| {
        let delay = summary.delay.as_ref();
        let size = Bytes::new(summary.cell.wss_bytes);
        let own = varying.iter().map(|name| {
            fields
                .iter()
                .find(|(it, _)| it == name)
                .map_or_else(unknown, |(_, value)| value.clone())
        });
        let median = delay.map(DelayStatistics::median);
        [summary.cell.event.to_string(), size.to_string()]
            .into_iter()
            .chain(own)
            .chain([
                median.map_or_else(unknown, |it| three_digits(it.estimate)),
                median.and_then(interval).unwrap_or_else(unknown),
                delay.map_or_else(unknown, |it| three_digits(it.max.value)),
                summary.n_valid.to_string(),
            ])
            .collect()
    };
    table.rows = summaries.iter().zip(&fields).map(row).collect();
    Some(table)
}

/// Returns the properties of a cell other than its event and its working-set size.
fn told(summary: &CellSummary) -> Vec<(String, String)> {
    let all = summary.cell.fields().into_iter();
    all.filter(|(name, _)| !["event", "wss_kib", "wss_bytes", "wss"].contains(&name.as_str()))
        .collect()
}

fn unknown() -> String {
    "–".to_owned()
}

/// Returns an interval such as `[1.2, 3.4]`, or `None` if one of its ends is unknown.
fn interval(of: &Quantile) -> Option<String> {
    Some(format!("[{}, {}]", three_digits(of.low?), three_digits(of.high?)))
}

/// Writes a table in GitHub's Markdown, with the caption above the table.
pub fn markdown(table: &FigureTable) -> String {
    let escaped = |text: &String| {
        let mut safe = String::new();
        for letter in shown::line(text).chars() {
            match letter {
                '<' => safe.push_str("&lt;"),
                '\\' | '|' | '*' | '`' => safe.extend(['\\', letter]),
                _ => safe.push(letter),
            }
        }
        safe
    };
    let line = |fields: &[String]| {
        let fields: Vec<String> = fields.iter().map(escaped).collect();
        format!("| {} |\n", fields.join(" | "))
    };
    let caption = table.caption.trim();
    let caption = if caption.is_empty() {
        String::new()
    } else {
        format!("{}\n\n", escaped(&caption.to_owned()))
    };
    let rule: Vec<&str> =
        (0..table.head.len()).map(|at| if at == 0 { "---" } else { "--:" }).collect();
    let rows: String = table.rows.iter().map(|row| line(row)).collect();
    format!("{caption}{}| {} |\n{rows}\n", line(&table.head), rule.join(" | "))
}

/// Writes a table in LaTeX with the rules of the package booktabs.
pub fn latex(table: &FigureTable) -> String {
    let line = |fields: &[String]| {
        let fields: Vec<String> = fields.iter().map(|text| tex(&shown::line(text))).collect();
        // A bracket or a star at the begin of a row would belong to the end of the row above.
        let begin =
            if fields.first().is_some_and(|it| it.starts_with(['[', '*'])) { "{}" } else { "" };
        format!("{begin}{} \\\\\n", fields.join(" & "))
    };
    let columns: String = (0..table.head.len()).map(|at| if at == 0 { 'l' } else { 'r' }).collect();
    let rows: String = table.rows.iter().map(|row| line(row)).collect();
    format!(
        "% needs \\usepackage{{booktabs}}\n\\begin{{table}}\n\\centering\n\\caption{{{}}}\n\\begin{{tabular}}{{{columns}}}\n\\toprule\n{}\\midrule\n\
         {rows}\\bottomrule\n\\end{{tabular}}\n\\end{{table}}\n\n",
        tex(table.caption.trim()),
        line(&table.head)
    )
}

/// Escapes in a text the ten characters that have a meaning in LaTeX, and writes the signs of units
/// in ASCII.
fn tex(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '\\' => safe.push_str("\\textbackslash{}"),
            '~' => safe.push_str("\\textasciitilde{}"),
            '^' => safe.push_str("\\textasciicircum{}"),
            '&' | '%' | '$' | '#' | '_' | '{' | '}' => {
                safe.push('\\');
                safe.push(letter);
            }
            'µ' | 'μ' => safe.push_str("$\\mu$"),
            '<' => safe.push_str("\\textless{}"),
            '>' => safe.push_str("\\textgreater{}"),
            '|' => safe.push_str("\\textbar{}"),
            '"' => safe.push_str("\\textquotedbl{}"),
            'σ' => safe.push_str("$\\sigma$"),
            '±' => safe.push_str("$\\pm$"),
            '×' => safe.push_str("$\\times$"),
            '→' => safe.push_str("$\\rightarrow$"),
            '–' => safe.push_str("--"),
            other => safe.push(other),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> FigureTable {
        let mut table = FigureTable::new("Costs, 95 %", &["what", "µs"]);
        table.rows = vec![vec!["a_b | c".to_owned(), "1.5".to_owned()]];
        table
    }

    #[test]
    fn markdown_has_a_rule_below_the_head_and_no_field_ends_a_column() {
        let expected = "Costs, 95 %\n\n| what | µs |\n| --- | --: |\n| a_b \\| c | 1.5 |\n\n";
        assert_eq!(markdown(&table()), expected);
    }

    #[test]
    fn latex_has_the_rules_of_booktabs_and_no_letter_with_a_meaning() {
        let text = latex(&table());
        assert!(
            text.contains("\\caption{Costs, 95 \\%}\n\\begin{tabular}{lr}\n\\toprule\n"),
            "{text}"
        );
        assert!(
            text.contains(
                "what & $\\mu$s \\\\\n\\midrule\na\\_b \\textbar{} c & 1.5 \\\\\n\\bottomrule"
            ),
            "{text}"
        );
        let mut starred = table();
        starred.rows[0] = vec!["[x] <b>".to_owned(), "`*`".to_owned()];
        assert!(latex(&starred).contains("\n{}[x] \\textless{}b\\textgreater{} &"));
        assert!(markdown(&starred).contains("| [x] &lt;b> | \\`\\*\\` |"));
        assert_eq!(tex("\\{~^"), "\\textbackslash{}\\{\\textasciitilde{}\\textasciicircum{}");
    }
}
