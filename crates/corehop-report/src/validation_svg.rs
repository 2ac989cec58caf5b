// SPDX-License-Identifier: MIT OR Apache-2.0
//! A drawing compares printed values with simulated ones, which lie on the diagonal if they agree.

use std::fmt::Write as _;

use super::dots::{Dot, Dots};
use super::escape::escape;
use super::scale::{AxisScale, TickSpacing};
use corehop_decide::validation::printed_number::ErrorLaw;
use corehop_decide::validation::sheet::JudgementRole;

/// The colours of series, which readers with any colour vision can tell apart (Okabe and Ito).
const COLOURS: [&str; 6] = ["#0072b2", "#d55e00", "#009e73", "#a04f84", "#b08a00", "#4c6a88"];
const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 470.0;
/// The left, top, right and bottom edge of the plot.
const PLOT: (f64, f64, f64, f64) = (72.0, 34.0, 442.0, 404.0);

/// Returns the scale of both axes, which has room for all of `dots`.
fn scale(dots: &Dots) -> AxisScale {
    let values = || dots.dots.iter().flat_map(|dot| [dot.printed, dot.simulated]);
    let most = values().fold(f64::MIN, f64::max);
    if dots.log {
        let least = values().fold(f64::MAX, f64::min).max(dots.least);
        let (low, high) = (10_f64.powf(least.log10().floor()), most.max(least * 10.0));
        return AxisScale {
            low,
            high: 10_f64.powf(high.log10().ceil()),
            steps: TickSpacing::Decades,
        };
    }
    let low = values().fold(0.0, f64::min);
    AxisScale { low, high: (most * 10.0).ceil() / 10.0, steps: TickSpacing::Even }
}

fn place_x(scale: &AxisScale, value: f64) -> f64 {
    PLOT.0 + (PLOT.2 - PLOT.0) * scale.place(value)
}

fn place_y(scale: &AxisScale, value: f64) -> f64 {
    PLOT.3 - (PLOT.3 - PLOT.1) * scale.place(value)
}

/// Returns the values at which the plot has a line.
fn lines(scale: &AxisScale) -> Vec<f64> {
    if scale.steps == TickSpacing::Decades {
        let decades = (scale.high / scale.low).log10().round() as i32;
        return (0..=decades).map(|at| scale.low * 10_f64.powi(at)).collect();
    }
    (0..=5).map(|at| scale.low + (scale.high - scale.low) * f64::from(at) / 5.0).collect()
}

/// Draws printed and simulated values as SVG.
pub fn drawing(dots: &Dots) -> String {
    let scale = scale(dots);
    let title = escape(&dots.title);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" \
         font-family=\"sans-serif\" font-size=\"12\" fill=\"#1c2733\" role=\"img\" aria-label=\"{title}\">\n\
         <rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"#ffffff\"/>\n"
    );
    axes(&mut svg, &scale, dots);
    agreement(&mut svg, &scale, dots.limit, dots.law);
    let mut series: Vec<&str> = Vec::new();
    for dot in &dots.dots {
        if !series.contains(&dot.series.as_str()) {
            series.push(&dot.series);
        }
        let number = series.iter().position(|&it| it == dot.series).unwrap_or(0);
        svg.push_str(&mark(
            place_x(&scale, dot.printed),
            place_y(&scale, dot.simulated),
            number,
            dot,
        ));
    }
    legend(&mut svg, &series, dots);
    svg.push_str("</svg>\n");
    svg
}

/// Draws the line of agreement, and the band of errors within the aim.
fn agreement(svg: &mut String, scale: &AxisScale, limit: Option<f64>, law: ErrorLaw) {
    let ends = [scale.low, scale.high];
    if let Some(limit) = limit {
        let off = |value: f64, sign: f64| {
            let to = match law {
                ErrorLaw::Difference => value + sign * limit,
                ErrorLaw::Gain => value + sign * limit * (1.0 - value).abs(),
                ErrorLaw::Relative => value * (1.0 + sign * limit),
                ErrorLaw::Factor => value * (1.0 + limit).powf(sign),
            };
            (place_x(scale, value), place_y(scale, to))
        };
        let steps = (0..=40).map(|step| {
            let at = f64::from(step) / 40.0;
            if scale.steps == TickSpacing::Decades {
                ends[0] * (ends[1] / ends[0]).powf(at)
            } else {
                ends[0] + (ends[1] - ends[0]) * at
            }
        });
        let steps: Vec<f64> = steps.collect();
        let upper = steps.iter().map(|&value| off(value, 1.0));
        let lower = steps.iter().rev().map(|&value| off(value, -1.0));
        let points: Vec<String> =
            upper.chain(lower).map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        let _ = writeln!(svg, "<polygon points=\"{}\" fill=\"#dfe7ee\"/>", points.join(" "));
    }
    let _ = writeln!(
        svg,
        "<line x1=\"{}\" y1=\"{}\" x2=\"{}\" y2=\"{}\" stroke=\"#7a8591\"/>",
        PLOT.0, PLOT.3, PLOT.2, PLOT.1
    );
}

/// The colour of values that the simulated machine does not model.
const GREY: &str = "#b4bac2";

/// Draws one value in the form and colour of its series, hollow if the value cannot judge the machine, and
/// grey if the machine does not model the value.
fn mark(x: f64, y: f64, number: usize, dot: &Dot) -> String {
    let own = COLOURS[number % COLOURS.len()];
    let (colour, fill) = match dot.role {
        JudgementRole::Judged => (own, own),
        JudgementRole::NotModelled => (GREY, GREY),
        JudgementRole::Fitted | JudgementRole::Chosen | JudgementRole::Repeated => (own, "#ffffff"),
    };
    let mark = if dot.role == JudgementRole::Judged { "" } else { ", " };
    let style =
        format!("fill=\"{fill}\" fill-opacity=\"0.8\" stroke=\"{colour}\" stroke-width=\"1.3\"");
    let title = format!(
        "<title>{}: printed {}, simulated {:.2}{mark}{}</title>",
        escape(&dot.label),
        dot.printed,
        dot.simulated,
        dot.role.mark(),
    );
    match number % 4 {
        0 => format!("<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"4\" {style}>{title}</circle>\n"),
        1 => format!(
            "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"7\" height=\"7\" {style}>{title}</rect>\n",
            x - 3.5,
            y - 3.5
        ),
        2 => format!(
            "<polygon points=\"{x:.1},{:.1} {:.1},{:.1} {:.1},{:.1}\" {style}>{title}</polygon>\n",
            y - 4.8,
            x + 4.4,
            y + 3.4,
            x - 4.4,
            y + 3.4
        ),
        _ => format!(
            "<polygon points=\"{x:.1},{:.1} {:.1},{y:.1} {x:.1},{:.1} {:.1},{y:.1}\" {style}>{title}</polygon>\n",
            y - 5.0,
            x + 5.0,
            y + 5.0,
            x - 5.0
        ),
    }
}

fn legend(svg: &mut String, series: &[&str], dots: &Dots) {
    let left = PLOT.2 + 24.0;
    for (number, name) in series.iter().enumerate() {
        let level = PLOT.1 + 12.0 + 22.0 * number as f64;
        svg.push_str(&mark(left, level - 4.0, number, &Dot::default()));
        let _ = writeln!(svg, "<text x=\"{}\" y=\"{level}\">{}</text>", left + 12.0, escape(name));
    }
    let mut level = PLOT.1 + 24.0 + 22.0 * series.len() as f64;
    let mut line = |text: &str| {
        let _ = writeln!(svg, "<text x=\"{left}\" y=\"{level}\" fill=\"#56616d\">{text}</text>");
        level += 18.0;
    };
    let has = |role| dots.dots.iter().any(|dot| dot.role == role);
    let hollow = JudgementRole::ALL.iter().filter(|&&role| !role.judges() && has(role));
    let hollow: Vec<&str> = hollow.map(|role| role.mark()).collect();
    if !hollow.is_empty() {
        line(&format!("hollow: {}", hollow.join(", ")));
    }
    if has(JudgementRole::NotModelled) {
        line("grey: not modelled");
    }
    match (dots.limit, dots.law) {
        (Some(limit), ErrorLaw::Difference) => line(&format!("band: ±{limit}")),
        (Some(limit), ErrorLaw::Factor) => line(&format!("band: {:.1} times", 1.0 + limit)),
        (Some(limit), _) => line(&format!("band: ±{:.0} %", limit * 100.0)),
        (None, _) => line("no aim is set"),
    }
}

fn axes(svg: &mut String, scale: &AxisScale, dots: &Dots) {
    for value in lines(scale) {
        let (x, y) = (place_x(scale, value), place_y(scale, value));
        let text = if value.abs() < 10.0 && value.fract().abs() > 1e-9 {
            format!("{value:.2}").trim_end_matches('0').trim_end_matches('.').to_owned()
        } else {
            format!("{value:.0}")
        };
        let _ = writeln!(
            svg,
            "<line x1=\"{0}\" y1=\"{y:.1}\" x2=\"{1}\" y2=\"{y:.1}\" stroke=\"#e3e8ed\"/>\
             <line x1=\"{x:.1}\" y1=\"{2}\" x2=\"{x:.1}\" y2=\"{3}\" stroke=\"#e3e8ed\"/>\
             <text x=\"{4}\" y=\"{5:.1}\" text-anchor=\"end\">{text}</text>\
             <text x=\"{x:.1}\" y=\"{6}\" text-anchor=\"middle\">{text}</text>",
            PLOT.0,
            PLOT.2,
            PLOT.1,
            PLOT.3,
            PLOT.0 - 8.0,
            y + 4.0,
            PLOT.3 + 18.0,
        );
    }
    let (middle_x, middle_y) = (f64::midpoint(PLOT.0, PLOT.2), f64::midpoint(PLOT.1, PLOT.3));
    let unit = escape(&dots.unit);
    let _ = writeln!(
        svg,
        "<text x=\"{middle_x}\" y=\"{}\" text-anchor=\"middle\">printed, {unit}</text>\
         <text transform=\"translate(18 {middle_y}) rotate(-90)\" text-anchor=\"middle\">simulated, {unit}</text>",
        PLOT.3 + 42.0,
    );
}
