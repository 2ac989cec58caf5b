// SPDX-License-Identifier: MIT OR Apache-2.0
//! The legend of a figure's signs: the meaning of solid, broken and dotted lines, intervals and marks.

use std::fmt::Write as _;

use crate::escape::escape;
use crate::figure::{Figure, FigureKind, Style, Variant};

/// Returns the legend as a list with a small drawing for each sign; empty for bars.
pub(super) fn legend(figure: &Figure) -> String {
    if figure.kind == FigureKind::Bars {
        return String::new();
    }
    let items: Vec<(&str, String)> = lines(figure)
        .chain(intervals(figure).then(|| (INTERVAL, "95 % interval".to_owned())))
        .chain(marked(figure).then(|| (MARK, figure.marked.to_owned())))
        .collect();
    if items.is_empty() {
        return String::new();
    }
    let mut html = "<ul class=\"key\" aria-label=\"Legend\">".to_owned();
    for (sign, meaning) in items {
        // Writing to a string cannot fail.
        let _ = write!(
            html,
            "<li><svg width=\"30\" height=\"14\" viewBox=\"0 0 30 14\" fill=\"none\" stroke=\"currentColor\" \
             aria-hidden=\"true\">{sign}</svg>{}</li>",
            escape(&meaning)
        );
    }
    html + "</ul>"
}

const INTERVAL: &str = "<path d=\"M15 1V13M11 1H19M11 13H19\" stroke-width=\"1.4\"/>";
const MARK: &str = "<path d=\"M15 0V14\" stroke-width=\"1\" stroke-dasharray=\"4 3\"/>";

/// Returns the drawing that represents a style.
fn sign(style: Style) -> &'static str {
    match style {
        Style::Solid => "<path d=\"M0 7H30\" stroke-width=\"2\"/>",
        Style::Dashed => "<path d=\"M0 7H30\" stroke-width=\"1.6\" stroke-dasharray=\"6 4\"/>",
        Style::Dotted => "<path d=\"M0 7H30\" stroke-width=\"1.6\" stroke-dasharray=\"2 3\"/>",
        Style::Points => "<circle cx=\"15\" cy=\"7\" r=\"3\" fill=\"currentColor\"/>",
        Style::Hollow => "<circle cx=\"15\" cy=\"7\" r=\"3\"/>",
        Style::Bars => "<rect x=\"8\" y=\"2\" width=\"14\" height=\"10\"/>",
    }
}

/// Returns each style with its statistic, for figures that name statistics.
fn lines(figure: &Figure) -> impl Iterator<Item = (&'static str, String)> {
    let mut known: Vec<(Style, &str)> = Vec::new();
    for series in figure.variants.iter().flat_map(|variant| &variant.series) {
        let one = (series.style, series.statistic.as_str());
        if !one.1.is_empty() && !known.contains(&one) {
            known.push(one);
        }
    }
    known
        .into_iter()
        .map(|(style, statistic)| {
            let meaning = if statistic == "max" { "max: the largest value" } else { statistic };
            (sign(style), meaning.to_owned())
        })
        .collect::<Vec<_>>()
        .into_iter()
}

fn intervals(figure: &Figure) -> bool {
    let series = figure.variants.iter().flat_map(|variant| &variant.series);
    series.flat_map(|series| &series.points).any(|point| point.low.iter().any(Option::is_some))
}

fn marked(figure: &Figure) -> bool {
    let of_variant = |variant: &Variant| !variant.marks.is_empty();
    !figure.marked.is_empty()
        && (!figure.marks.is_empty() || figure.variants.iter().any(of_variant))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figure::{Axis, AxisMark, FigureSeries, SeriesPoint, ValueUnit};

    fn figure(styles: &[(&str, Style)]) -> Figure {
        let series = styles.iter().map(|&(statistic, style)| FigureSeries {
            name: "preemption".to_owned(),
            statistic: statistic.to_owned(),
            colour: 0,
            style,
            points: vec![SeriesPoint {
                low: vec![(style == Style::Solid).then_some(1.0)],
                ..SeriesPoint::default()
            }],
        });
        Figure {
            id: "x".to_owned(),
            kind: FigureKind::Curves,
            x: Axis::new("size", "size", true, ValueUnit::Kib),
            views: Vec::new(),
            statistics: Vec::new(),
            variants: vec![Variant { series: series.collect(), ..Variant::default() }],
            marks: vec![AxisMark { x: 1.0, label: "L1".to_owned() }],
            marked: "cache size",
        }
    }

    #[test]
    fn every_sign_that_is_drawn_is_explained_once() {
        let drawn = [("median", Style::Solid), ("max", Style::Dashed), ("median", Style::Solid)];
        let html = legend(&figure(&drawn));
        assert_eq!(html.matches("<li>").count(), 4, "{html}");
        for meaning in [">median<", ">max: the largest value<", ">95 % interval<", ">cache size<"] {
            assert!(html.contains(meaning), "{meaning}: {html}");
        }
    }

    #[test]
    fn a_sign_that_is_not_drawn_is_not_explained() {
        let html = legend(&figure(&[("max", Style::Dashed)]));
        assert!(!html.contains("interval") && !html.contains("median"), "{html}");
        let bars = Figure { kind: FigureKind::Bars, ..figure(&[("lost", Style::Bars)]) };
        assert_eq!(legend(&bars), "");
    }
}
