// SPDX-License-Identifier: MIT OR Apache-2.0
//! Draws figures as SVG. A page contains a drawing for each selection, unit and scale of a figure, for a screen and for
//! a phone; a script shows one of these drawings.
//!
//! ```text
//! axes ── the frame, the axes and the legend, common to both kinds
//! curves ── curves and points over numbers          bars ── stacked bars over names
//! ```
//!
//! Colours are variables of the page (`--c0` to `--c14`, `--ink` and others), so that one drawing works in the dark and
//! the light scheme.

use std::fmt::Write as _;

use super::escape::escape;
use super::figure::{Axis, Figure, FigureKind, ValueUnit, Variant};

mod axes;
mod bars;
mod curves;

/// The parts of drawings that a page can leave out to stay small.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct DrawingDetail {
    /// The largest number of points with a tooltip, in the drawing that is shown first.
    pub(super) shown: usize,
    /// The largest number of points with a tooltip, in a drawing that is hidden at first.
    pub(super) hidden: usize,
    /// Whether hidden drawings also have a version for phones.
    pub(super) narrow: bool,
    /// Whether selections that are hidden at first have all units and scales, or only the first unit and scale.
    pub(super) all_views: bool,
}

impl DrawingDetail {
    /// The detail in which a drawing has all of its parts. Tooltips for more points would make a page too large.
    pub(super) const ALL: Self =
        Self { shown: 1_000, hidden: 1_000, narrow: true, all_views: true };

    /// Returns all parts for drawings that are shown, with tooltips for `shown` points.
    pub(super) const fn of_shown(shown: usize) -> Self {
        Self { shown, hidden: 0, narrow: false, all_views: false }
    }
}

/// A part of a figure: a selection of its data, and a vertical axis.
#[derive(Clone, Copy)]
struct FigureSelection<'a> {
    figure: &'a Figure,
    variant: &'a Variant,
    view: usize,
    log: bool,
    /// The largest number of points with a tooltip.
    titles: usize,
    /// Whether the page has a drawing for phones, too.
    narrow: bool,
}

impl<'a> FigureSelection<'a> {
    /// Returns the vertical axis of the selection.
    fn axis(&self) -> &'a Axis {
        &self.figure.views[self.view]
    }

    fn drawing(&self, title: &str) -> String {
        let draw = |frame| match self.figure.kind {
            FigureKind::Curves => curves::drawing(self, frame, title),
            FigureKind::Bars => bars::drawing(self, frame, title),
        };
        let narrow = if self.narrow { draw(axes::NARROW) } else { String::new() };
        draw(axes::WIDE) + &narrow
    }
}

/// Returns all drawings of a figure; the first selection in its first unit is shown, and the other drawings are hidden.
pub(super) fn plots(figure: &Figure, title: &str, detail: DrawingDetail) -> String {
    let mut html = String::new();
    for (v, variant) in figure.variants.iter().enumerate() {
        for (view, axis) in figure.views.iter().enumerate() {
            for &log in scales(figure) {
                let first = view == 0 && log == first_scale(figure, axis);
                let shown = v == 0 && first;
                if v > 0 && !first && !detail.all_views {
                    continue;
                }
                let hidden = if shown { "" } else { " hidden" };
                let titles = if shown { detail.shown } else { detail.hidden };
                let narrow = shown || detail.narrow;
                let selection = FigureSelection { figure, variant, view, log, titles, narrow };
                let drawing = selection.drawing(title);
                // Writing to a string cannot fail, here and below.
                let _ = writeln!(
                    html,
                    "<div class=\"plot\" data-variant=\"{v}\" data-view=\"{view}\" data-scale=\"{}\"{hidden}>{drawing}</div>",
                    scale_name(log)
                );
            }
        }
    }
    html
}

/// Returns the scales of the vertical axis that a reader can choose.
fn scales(figure: &Figure) -> &'static [bool] {
    match figure.kind {
        FigureKind::Curves => &[true, false],
        FigureKind::Bars => &[false],
    }
}

fn first_scale(figure: &Figure, axis: &Axis) -> bool {
    axis.log && scales(figure).contains(&true)
}

fn scale_name(log: bool) -> &'static str {
    if log { "log" } else { "linear" }
}

/// Returns the controls of a figure, which stay hidden until the page's script activates them.
pub(super) fn controls(figure: &Figure) -> String {
    let mut html = "<div class=\"tools\" hidden>".to_owned();
    if figure.variants.len() > 1 {
        html.push_str("<select aria-label=\"What to show\">");
        for (at, variant) in figure.variants.iter().enumerate() {
            let _ = write!(html, "<option value=\"{at}\">{}</option>", escape(&variant.label));
        }
        html.push_str("</select>");
    }
    let first = figure.views.first().is_some_and(|axis| first_scale(figure, axis));
    if figure.views.len() > 1 {
        let buttons = figure.views.iter().enumerate().map(|(at, axis)| {
            let scale = scale_name(first_scale(figure, axis));
            let data = format!("data-view=\"{at}\" data-scale=\"{scale}\"");
            (data, axis.short.as_str(), at == 0)
        });
        html.push_str(&group("Unit", buttons));
    }
    if figure.statistics.len() > 1 {
        let buttons = figure
            .statistics
            .iter()
            .map(|(name, on)| (format!("data-statistic=\"{}\"", escape(name)), name.as_str(), *on));
        html.push_str(&group("Statistics", buttons));
    }
    if let scales @ [_, _] = scales(figure) {
        let buttons = scales.iter().map(|&log| {
            (format!("data-scale=\"{}\"", scale_name(log)), scale_name(log), log == first)
        });
        html.push_str(&group("Vertical axis", buttons));
    }
    html + "<span class=\"right\"><button type=\"button\" class=\"save\" \
            title=\"Save this figure as a vector file\">SVG</button></span></div>"
}

/// Returns a group of buttons, each with its data, its text, and whether it is pressed.
fn group<'a>(label: &str, buttons: impl Iterator<Item = (String, &'a str, bool)>) -> String {
    let mut html = format!("<span class=\"group\" role=\"group\" aria-label=\"{label}\">");
    for (data, text, pressed) in buttons {
        let _ = write!(
            html,
            "<button type=\"button\" {data} aria-pressed=\"{pressed}\">{}</button>",
            escape(text)
        );
    }
    html + "</span>"
}

/// Returns a value in the unit of its axis.
fn written(value: f64, unit: ValueUnit) -> String {
    match unit {
        ValueUnit::Number => number(value),
        ValueUnit::Share => format!("{} %", number(100.0 * value)),
        ValueUnit::Kib => {
            let units = [(1_048_576.0, "GiB"), (1024.0, "MiB"), (1.0, "KiB")];
            let fitting = units.into_iter().find(|&(by, _)| value >= by);
            let (by, unit) = fitting.unwrap_or((1.0, "KiB"));
            format!("{} {unit}", number(value / by))
        }
    }
}

/// Returns a number with three digits, or with four from 1000 on.
fn number(value: f64) -> String {
    let size = value.abs();
    if size == 0.0 {
        return "0".to_owned();
    }
    if !(1e-3..1e5).contains(&size) {
        return format!("{value:.1e}");
    }
    let digits = if size >= 1000.0 { 3 } else { 2 };
    let places = (digits - size.log10().floor() as i32).max(0) as usize;
    let text = format!("{value:.places$}");
    if !text.contains('.') {
        return text;
    }
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests;
