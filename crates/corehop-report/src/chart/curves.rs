// SPDX-License-Identifier: MIT OR Apache-2.0
//! Draws curves and points over numbers, with intervals and marks.

use std::fmt::Write as _;

use super::axes::{ChartFrame, LegendEntry, PlotArea, horizontal, legend, vertical};
use super::{FigureSelection, written};
use crate::escape::escape;
use crate::figure::{AxisMark, FigureSeries, SeriesPoint, Style, ValueUnit};
use crate::scale::{AxisScale, TickSpacing};

/// The number of points above which discs are drawn with fewer bytes, although they are then harder to
/// hit with the mouse.
const SEVERAL: usize = 300;

/// The drawing to which the code adds curves.
struct Canvas<'a> {
    choice: &'a FigureSelection<'a>,
    area: PlotArea,
    x: AxisScale,
    y: AxisScale,
    titles: bool,
    dots: bool,
}

/// Returns the drawing of a figure with curves.
pub(super) fn drawing(choice: &FigureSelection, frame: ChartFrame, title: &str) -> String {
    let (legend, above) = legend(&entries(choice), frame);
    let (x, y) = (horizontal_scale(choice), vertical_scale(choice));
    let marks: Vec<&AxisMark> = marks(choice).collect();
    let top = above + if marks.is_empty() { 10.0 } else { 24.0 };
    let left = if frame.is_narrow() { 56.0 } else { 68.0 };
    let area = PlotArea { left, top, right: frame.width - 18.0, bottom: top + frame.tall };
    let mut svg = frame.head(area.bottom + 46.0, choice, title) + &legend;
    horizontal(&mut svg, frame, area, &choice.figure.x, &x);
    vertical(&mut svg, area, choice.axis(), &y);
    for mark in marks {
        let at = area.x(&x, mark.x);
        // Writing to a string cannot fail, here and below.
        let _ = writeln!(
            svg,
            "<path class=\"mark\" data-x=\"{}\" d=\"M{at:.1} {top}V{}\" stroke=\"var(--dim)\" stroke-dasharray=\"4 4\"/>\
             <text x=\"{at:.1}\" y=\"{}\" fill=\"var(--dim)\" text-anchor=\"middle\">{}</text>",
            mark.x,
            area.bottom,
            top - 6.0,
            escape(&mark.label),
        );
    }
    let points: usize = choice.variant.series.iter().map(|series| series.points.len()).sum();
    let titles = frame.titles && points <= choice.titles;
    let dots = !titles || points > SEVERAL;
    let canvas = Canvas { choice, area, x, y, titles, dots };
    svg.extend(choice.variant.series.iter().map(|series| canvas.series(series)));
    svg + "</svg>\n"
}

/// Returns the entries of the legend, each name once, with the marker of its first series.
fn entries<'a>(choice: &FigureSelection<'a>) -> Vec<LegendEntry<'a>> {
    let mut entries: Vec<LegendEntry> = Vec::new();
    for series in &choice.variant.series {
        if entries.iter().any(|entry| entry.name == series.name) {
            continue;
        }
        let colour = format!("var(--c{})", series.colour);
        let marker = marker(choice, series).path(0.0, 0.0, 3.5);
        let line = if is_cloud(series) { "" } else { "M-9 0H9" };
        let fill = if series.style == Style::Hollow { "none" } else { &colour };
        let sign = format!("<path d=\"{line}{marker}\" stroke=\"{colour}\" fill=\"{fill}\"/>");
        entries.push(LegendEntry { name: &series.name, sign });
    }
    entries
}

fn is_cloud(series: &FigureSeries) -> bool {
    matches!(series.style, Style::Points | Style::Hollow)
}

/// Returns the value of a point that its axis can show.
fn drawn(values: &[Option<f64>], choice: &FigureSelection) -> Option<f64> {
    let value = values.get(choice.view).copied().flatten();
    value.filter(|it| it.is_finite() && (!choice.log || *it > 0.0))
}

fn extent(values: impl Iterator<Item = f64>) -> Option<[f64; 2]> {
    values.filter(|it| it.is_finite()).fold(None, |ends, it| {
        let [low, high] = ends.unwrap_or([it, it]);
        Some([low.min(it), high.max(it)])
    })
}

fn horizontal_extent(choice: &FigureSelection) -> [f64; 2] {
    let points = choice.variant.series.iter().flat_map(|series| &series.points);
    extent(points.map(|point| point.x)).unwrap_or([0.0, 1.0])
}

fn horizontal_scale(choice: &FigureSelection) -> AxisScale {
    let axis = &choice.figure.x;
    let [low, high] = horizontal_extent(choice);
    match axis.unit {
        ValueUnit::Kib if low > 0.0 => AxisScale::doublings(low, high),
        _ if axis.log && low > 0.0 => {
            AxisScale { low: low / 1.25, high: high * 1.25, steps: TickSpacing::Decades }
        }
        _ => AxisScale::even(low.min(0.0), high),
    }
}

/// Returns a vertical scale that includes all values and intervals, also of statistics that are hidden
/// at first.
fn vertical_scale(choice: &FigureSelection) -> AxisScale {
    let points = choice.variant.series.iter().flat_map(|series| &series.points);
    let values = points.flat_map(|it| [&it.y, &it.low, &it.high]);
    let ends = extent(values.filter_map(|it| drawn(it, choice)));
    match (ends, choice.log) {
        (Some([low, high]), true) => AxisScale::decades(low, high),
        (Some([low, high]), false) => AxisScale::even(low, high),
        (None, true) => AxisScale::decades(1.0, 10.0),
        (None, false) => AxisScale::even(0.0, 1.0),
    }
}

/// Returns the marks between the first and the last point of the horizontal axis.
fn marks<'a>(choice: &FigureSelection<'a>) -> impl Iterator<Item = &'a AxisMark> {
    let [low, high] = horizontal_extent(choice);
    let all = choice.figure.marks.iter().chain(&choice.variant.marks);
    all.filter(move |mark| mark.x >= low && mark.x <= high)
}

/// The shape of a point's marker.
#[derive(Clone, Copy)]
enum Marker {
    Disc,
    Diamond,
    Square,
    Hourglass,
    Triangle,
    /// A disc with few bytes, drawn as the border of an empty path.
    Dot,
}

impl Marker {
    /// Returns the path of the marker around a position.
    fn path(self, x: f64, y: f64, r: f64) -> String {
        let w = 2.0 * r;
        match self {
            Self::Disc => format!("M{:.1} {y:.1}a{r} {r} 0 1 0 {w} 0a{r} {r} 0 1 0-{w} 0z", x - r),
            Self::Diamond => format!("M{x:.1} {:.1}l{r} {r}-{r} {r}-{r}-{r}z", y - r),
            Self::Square => format!("M{:.1} {:.1}h{w}v{w}h-{w}z", x - r, y - r),
            Self::Hourglass => format!("M{:.1} {:.1}h{w}l-{w} {w}h{w}z", x - r, y - r),
            Self::Triangle => format!("M{x:.1} {:.1}l{r} {w}h-{w}z", y - r),
            Self::Dot => format!("M{x:.1} {y:.1}h0"),
        }
    }
}

/// Returns the marker of a series: series of one colour have different markers, and a maximum is a
/// triangle.
fn marker(choice: &FigureSelection, series: &FigureSeries) -> Marker {
    if series.statistic == "max" {
        return Marker::Triangle;
    }
    let mut names: Vec<&str> = Vec::new();
    for other in choice.variant.series.iter().filter(|it| it.colour == series.colour) {
        if !names.contains(&other.name.as_str()) {
            names.push(&other.name);
        }
    }
    let at = names.iter().position(|&it| it == series.name).unwrap_or(0);
    [Marker::Disc, Marker::Diamond, Marker::Square, Marker::Hourglass][at % 4]
}

/// Returns the style of a series' points. A broad invisible border makes a point easier to hit with
/// the mouse.
fn style(marker: Marker, series: &FigureSeries) -> String {
    let colour = format!("var(--c{})", series.colour);
    match (marker, series.style) {
        (Marker::Dot, style) => {
            let (width, opacity) = if style == Style::Points { (5.0, 0.6) } else { (6.4, 1.0) };
            format!(
                "fill=\"none\" stroke=\"{colour}\" stroke-width=\"{width}\" stroke-linecap=\"round\" \
                 opacity=\"{opacity}\""
            )
        }
        (_, Style::Hollow) => {
            format!("fill=\"transparent\" stroke=\"{colour}\" opacity=\"0.55\"")
        }
        (_, Style::Points) => format!("fill=\"{colour}\" opacity=\"0.6\""),
        _ => format!("fill=\"{colour}\" stroke=\"transparent\" stroke-width=\"9\""),
    }
}

impl Canvas<'_> {
    fn at(&self, x: f64) -> f64 {
        self.area.x(&self.x, x)
    }

    /// Returns the vertical position of a value, or `None` if the axis cannot show the value or begins
    /// above it.
    fn level(&self, values: &[Option<f64>]) -> Option<f64> {
        let value = drawn(values, self.choice).filter(|&it| it >= self.y.low)?;
        Some(self.area.y(&self.y, value))
    }

    /// Draws a series: its line, its intervals and its points.
    fn series(&self, series: &FigureSeries) -> String {
        let off =
            self.choice.figure.statistics.iter().any(|(name, on)| *name == series.statistic && !on);
        let mut svg = format!(
            "<g class=\"series\" data-name=\"{}\" data-statistic=\"{}\"{}>",
            escape(&series.name),
            escape(&series.statistic),
            if off { " display=\"none\"" } else { "" },
        );
        if !is_cloud(series) {
            svg.push_str(&self.line(series));
        }
        svg.push_str(&self.intervals(series));
        svg.push_str(&self.points(series));
        svg + "</g>\n"
    }

    fn line(&self, series: &FigureSeries) -> String {
        let mut path = String::new();
        let mut step = 'M';
        for point in &series.points {
            // A value that cannot be drawn breaks the line.
            let Some(y) = self.level(&point.y) else {
                step = 'M';
                continue;
            };
            let _ = write!(path, "{step}{:.1} {y:.1}", self.at(point.x));
            step = 'L';
        }
        let (width, dashes) = match series.style {
            Style::Dashed => (1.4, " stroke-dasharray=\"6 4\""),
            Style::Dotted => (1.4, " stroke-dasharray=\"2 3\""),
            _ => (2.0, ""),
        };
        let colour = series.colour;
        format!(
            "<path d=\"{path}\" fill=\"none\" stroke=\"var(--c{colour})\" stroke-width=\"{width}\"{dashes}/>"
        )
    }

    /// Draws the intervals as lines with a bar at each end.
    fn intervals(&self, series: &FigureSeries) -> String {
        let mut path = String::new();
        for point in &series.points {
            let (Some(low), Some(high)) = (self.level(&point.low), self.level(&point.high)) else {
                continue;
            };
            let left = self.at(point.x) - 4.0;
            let _ = write!(path, "M{left:.1} {low:.1}h8m-4 0V{high:.1}m-4 0h8");
        }
        if path.is_empty() {
            return path;
        }
        format!(
            "<path d=\"{path}\" fill=\"none\" stroke=\"var(--c{})\" stroke-width=\"1.2\"/>",
            series.colour
        )
    }

    fn points(&self, series: &FigureSeries) -> String {
        let marker = match (marker(self.choice, series), series.style) {
            (Marker::Disc, Style::Points) => Marker::Dot,
            (Marker::Disc, style) if self.dots && style != Style::Hollow => Marker::Dot,
            (marker, _) => marker,
        };
        // Whole numbers keep drawings with many points small.
        let size = if is_cloud(series) { 2.0 } else { 3.0 };
        let shown = series.points.iter().filter_map(|point| {
            let path = marker.path(self.at(point.x), self.level(&point.y)?, size);
            Some((point, path))
        });
        let style = style(marker, series);
        if !self.titles {
            let path: String = shown.map(|(_, path)| path).collect();
            return format!("<path d=\"{path}\" {style}/>");
        }
        let mut svg = format!("<g {style}>");
        for (point, path) in shown {
            let title = escape(&self.values(series, point));
            let _ = write!(svg, "<path d=\"{path}\"><title>{title}</title></path>");
        }
        svg + "</g>"
    }

    /// Returns the tooltip of a point: its values in words.
    fn values(&self, series: &FigureSeries, point: &SeriesPoint) -> String {
        let value = point.y.get(self.choice.view).copied().flatten().unwrap_or(f64::NAN);
        let (x, axis) = (&self.choice.figure.x, self.choice.axis());
        let what = if series.statistic.is_empty() { &axis.short } else { &series.statistic };
        let mut text = format!(
            "{}\n{}: {}\n{what}: {}",
            series.name,
            x.short,
            written(point.x, x.unit),
            written(value, axis.unit)
        );
        if !series.statistic.is_empty() && axis.unit == ValueUnit::Number {
            let _ = write!(text, " {}", axis.short);
        }
        if let (Some(low), Some(high)) =
            (drawn(&point.low, self.choice), drawn(&point.high, self.choice))
        {
            let _ = write!(text, " [{}, {}]", written(low, axis.unit), written(high, axis.unit));
        }
        if !point.note.is_empty() {
            let _ = write!(text, "\n{}", point.note);
        }
        text
    }
}
