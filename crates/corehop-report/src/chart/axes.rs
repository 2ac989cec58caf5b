// SPDX-License-Identifier: MIT OR Apache-2.0
//! The frame of a drawing: its size, the legend above it, and the axes with their ticks and names.

use std::fmt::Write as _;

use super::{FigureSelection, written};
use crate::escape::escape;
use crate::figure::Axis;
use crate::scale::AxisScale;

/// The sizes of a drawing and of its margins.
#[derive(Clone, Copy)]
pub(super) struct ChartFrame {
    /// The class by which a page selects the drawing.
    class: &'static str,
    pub(super) width: f64,
    /// The height of the plot area.
    pub(super) tall: f64,
    pub(super) font: f64,
    /// Whether points have tooltips; a phone shows none.
    pub(super) titles: bool,
}

/// The frame for screens and for paper.
pub(super) const WIDE: ChartFrame =
    ChartFrame { class: "wide", width: 860.0, tall: 300.0, font: 12.0, titles: true };
/// The frame of drawings for phones.
pub(super) const NARROW: ChartFrame =
    ChartFrame { class: "narrow", width: 360.0, tall: 250.0, font: 10.5, titles: false };

impl ChartFrame {
    /// Returns the approximate width of a text.
    pub(super) fn room(&self, text: &str) -> f64 {
        text.chars().count() as f64 * self.font * 0.58
    }

    /// Returns a text that is shortened to this width.
    pub(super) fn cut(&self, text: &str, room: f64) -> String {
        let most = (room / (self.font * 0.58)) as usize;
        if text.chars().count() <= most {
            return text.to_owned();
        }
        text.chars().take(most.saturating_sub(1)).chain(['…']).collect()
    }

    pub(super) fn is_narrow(&self) -> bool {
        !self.titles
    }

    /// Returns the opening element of a drawing of this height.
    pub(super) fn head(&self, height: f64, choice: &FigureSelection, title: &str) -> String {
        let (figure, axis) = (choice.figure, choice.axis());
        let variant = &choice.variant.label;
        let of_variant = if variant.is_empty() { String::new() } else { format!(" ({variant})") };
        let over = match figure.kind {
            crate::figure::FigureKind::Curves => format!(" by {}", figure.x.name),
            crate::figure::FigureKind::Bars => String::new(),
        };
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"{}\" viewBox=\"0 0 {} {height:.0}\" font-family=\"system-ui, \
             sans-serif\" font-size=\"{}\" fill=\"var(--ink)\" role=\"group\" aria-label=\"{}\">\n",
            self.class,
            self.width,
            self.font,
            escape(&format!("{title}: {}{over}{of_variant}", axis.name)),
        )
    }
}

/// The plot area: left, top, right and bottom.
#[derive(Clone, Copy)]
pub(super) struct PlotArea {
    pub(super) left: f64,
    pub(super) top: f64,
    pub(super) right: f64,
    pub(super) bottom: f64,
}

impl PlotArea {
    pub(super) fn x(&self, scale: &AxisScale, value: f64) -> f64 {
        self.left + (self.right - self.left) * scale.place(value)
    }

    pub(super) fn y(&self, scale: &AxisScale, value: f64) -> f64 {
        self.bottom - (self.bottom - self.top) * scale.place(value)
    }
}

/// An entry of the legend: a name with its sign.
pub(super) struct LegendEntry<'a> {
    pub(super) name: &'a str,
    /// The sign as SVG, drawn around the origin.
    pub(super) sign: String,
}

const ROW: f64 = 18.0;

/// Returns the legend as rows of names, and its height; a click on a name shows or hides its
/// series.
pub(super) fn legend(entries: &[LegendEntry], frame: ChartFrame) -> (String, f64) {
    let (mut svg, mut x, mut row) = (String::new(), 4.0, 0.0);
    for entry in entries {
        let name = frame.cut(entry.name, frame.width - 30.0);
        let room = 24.0 + frame.room(&name) + 12.0;
        if x + room > frame.width && x > 4.0 {
            (x, row) = (4.0, row + 1.0);
        }
        // Writing to a string cannot fail, here and below.
        let _ = writeln!(
            svg,
            "<g class=\"name\" data-name=\"{}\" role=\"button\" tabindex=\"0\" aria-pressed=\"true\" \
             transform=\"translate({x:.0} {:.0})\"><g transform=\"translate(9 7)\">{}</g><text x=\"22\" y=\"11\">{}</text></g>",
            escape(entry.name),
            row * ROW,
            entry.sign,
            escape(&name),
        );
        x += room;
    }
    (svg, if entries.is_empty() { 0.0 } else { (row + 1.0) * ROW })
}

/// Draws the horizontal axis below the plot area, with a vertical line at each tick.
pub(super) fn horizontal(
    svg: &mut String,
    frame: ChartFrame,
    area: PlotArea,
    axis: &Axis,
    scale: &AxisScale,
) {
    let ticks = scale.ticks();
    let texts: Vec<String> = ticks.iter().map(|&it| written(it, axis.unit)).collect();
    let widest = texts.iter().map(|it| frame.room(it)).fold(0.0, f64::max) + 8.0;
    let fit = ((area.right - area.left) / widest).max(1.0);
    let every = (ticks.len() as f64 / fit).ceil().max(1.0) as usize;
    // Beside sizes of memory the ends of the axis are room, and have no label.
    let first = usize::from(every > 1);
    let (mut lines, mut labels) = (String::new(), String::new());
    for (at, (&tick, text)) in ticks.iter().zip(&texts).enumerate() {
        let x = area.x(scale, tick);
        let _ = write!(lines, "M{x:.1} {:.1}V{:.1}", area.top, area.bottom + 4.0);
        if at % every == first {
            let _ =
                write!(labels, "<text x=\"{x:.1}\" y=\"{:.1}\">{text}</text>", area.bottom + 17.0);
        }
    }
    let _ = writeln!(
        svg,
        "<path d=\"{lines}\" stroke=\"var(--chart-grid)\"/><path d=\"M{} {:.1}H{}\" stroke=\"var(--dim)\"/>\
         <g fill=\"var(--dim)\" text-anchor=\"middle\">{labels}<text x=\"{}\" y=\"{:.1}\">{}</text></g>",
        area.left,
        area.bottom,
        area.right,
        f64::midpoint(area.left, area.right),
        area.bottom + 36.0,
        escape(&axis.name),
    );
}

/// Draws the vertical axis to the left of the plot area.
pub(super) fn vertical(svg: &mut String, area: PlotArea, axis: &Axis, scale: &AxisScale) {
    let (mut lines, mut labels) = (String::new(), String::new());
    for tick in scale.ticks() {
        let y = area.y(scale, tick);
        let _ = write!(lines, "M{} {y:.1}H{}", area.left - 4.0, area.right);
        let text = written(tick, axis.unit);
        let _ =
            write!(labels, "<text x=\"{}\" y=\"{:.1}\">{text}</text>", area.left - 8.0, y + 4.0);
    }
    let _ = writeln!(
        svg,
        "<path d=\"{lines}\" stroke=\"var(--chart-grid)\"/><path d=\"M{} {:.1}V{:.1}\" stroke=\"var(--dim)\"/>\
         <g fill=\"var(--dim)\" text-anchor=\"end\">{labels}</g><text fill=\"var(--dim)\" text-anchor=\"middle\" \
         transform=\"translate(11 {:.1}) rotate(-90)\">{}</text>",
        area.left,
        area.top,
        area.bottom,
        f64::midpoint(area.top, area.bottom),
        escape(&axis.name),
    );
}
