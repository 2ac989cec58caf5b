// SPDX-License-Identifier: MIT OR Apache-2.0
//! Draws stacked bars over names.

use std::fmt::Write as _;

use super::axes::{ChartFrame, LegendEntry, PlotArea, horizontal, legend};
use super::{FigureSelection, written};
use crate::escape::escape;
use crate::figure::{FigureSeries, SeriesPoint, ValueUnit};
use crate::scale::{AxisScale, TickSpacing};

const ROW: f64 = 26.0;
const BAR: f64 = 18.0;

/// Returns the drawing of a bar figure.
pub(super) fn drawing(choice: &FigureSelection, frame: ChartFrame, title: &str) -> String {
    let variant = choice.variant;
    let sign = |it: &FigureSeries| {
        format!("<path d=\"M-8 -5h16v10h-16z\" fill=\"var(--c{})\"/>", it.colour)
    };
    let series = variant.series.iter();
    let entries: Vec<LegendEntry> =
        series.map(|series| LegendEntry { name: &series.name, sign: sign(series) }).collect();
    let (legend, above) = legend(&entries, frame);
    let left = if frame.is_narrow() { 124.0 } else { 250.0 };
    let bottom = above + 8.0 + ROW * variant.categories.len().max(2) as f64;
    let area = PlotArea { left, top: above + 8.0, right: frame.width - 18.0, bottom };
    let scale = scale(choice);
    let mut svg = frame.head(bottom + 46.0, choice, title) + &legend;
    horizontal(&mut svg, frame, area, choice.axis(), &scale);
    for (at, name) in variant.categories.iter().enumerate() {
        // Writing to a string cannot fail, here and below.
        let _ = writeln!(
            svg,
            "<text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{}<title>{}</title></text>",
            left - 8.0,
            area.top + ROW * (at as f64 + 0.5) + 4.0,
            escape(&frame.cut(name, left - 12.0)),
            escape(name),
        );
    }
    let mut ends = vec![[0.0; 2]; variant.categories.len()];
    for series in &variant.series {
        svg.push_str(&group(choice, series, frame, area, &scale, &mut ends));
    }
    svg + "</svg>\n"
}

/// Returns a scale from 0, or from the lowest sum of negative values, to the highest sum.
fn scale(choice: &FigureSelection) -> AxisScale {
    let mut ends = vec![[0.0; 2]; choice.variant.categories.len()];
    for point in choice.variant.series.iter().flat_map(|series| &series.points) {
        stack(choice, point, &mut ends);
    }
    let low = ends.iter().map(|it| it[0]).fold(0.0, f64::min);
    let high = ends.iter().map(|it| it[1]).fold(0.0, f64::max);
    if choice.axis().unit == ValueUnit::Share {
        return AxisScale { low: 0.0, high: 1.0, steps: TickSpacing::Even };
    }
    AxisScale::even(low, high)
}

/// Stacks the value of a point on the previous values of its sign, and returns the ends of the bar.
fn stack(choice: &FigureSelection, point: &SeriesPoint, ends: &mut [[f64; 2]]) -> Option<[f64; 2]> {
    let value = point.y.get(choice.view).copied().flatten().filter(|it| it.is_finite())?;
    let end = &mut ends.get_mut(point.x as usize)?[usize::from(value >= 0.0)];
    let from = *end;
    *end += value;
    Some([from, *end])
}

fn group(
    choice: &FigureSelection,
    series: &FigureSeries,
    frame: ChartFrame,
    area: PlotArea,
    scale: &AxisScale,
    ends: &mut [[f64; 2]],
) -> String {
    let mut svg = format!(
        "<g class=\"series\" data-name=\"{}\" fill=\"var(--c{})\">",
        escape(&series.name),
        series.colour
    );
    for point in &series.points {
        let Some(ends) = stack(choice, point, ends) else { continue };
        let (from, to) = (area.x(scale, ends[0]), area.x(scale, ends[1]));
        let top = area.top + ROW * point.x + (ROW - BAR) / 2.0;
        let path = format!("<path d=\"M{from:.1} {top:.1}H{to:.1}v{BAR}H{from:.1}z\"");
        let _ = if frame.titles && choice.titles > 0 {
            write!(svg, "{path}><title>{}</title></path>", escape(&values(choice, series, point)))
        } else {
            write!(svg, "{path}/>")
        };
    }
    svg + "</g>\n"
}

/// Returns the tooltip of a bar: its values in all units.
fn values(choice: &FigureSelection, series: &FigureSeries, point: &SeriesPoint) -> String {
    let category = choice.variant.categories.get(point.x as usize).map_or("", String::as_str);
    let value = |(axis, value): (&crate::figure::Axis, &Option<f64>)| {
        let text = value.map_or_else(|| "–".to_owned(), |it| written(it, axis.unit));
        format!("\n{}, {}: {text}", series.name, axis.short)
    };
    let values: String = choice.figure.views.iter().zip(&point.y).map(value).collect();
    format!("{category}{values}")
}
