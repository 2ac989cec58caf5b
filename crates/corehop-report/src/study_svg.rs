// SPDX-License-Identifier: MIT OR Apache-2.0
//! The curves of a reading as a drawing: W(D_c) of each scheduler with its interval, and the crossovers.

use std::fmt::Write as _;

use super::escape::escape;
use corehop_sched::study::{Measure, Preferable, StudyCounts, StudyReading};

/// Colours that readers with any colour vision can tell apart (Okabe and Ito), and marks that readers
/// can tell apart without colours.
const STYLES: [(&str, &str); 6] = [
    ("#0072b2", ""),
    ("#d55e00", "7 4"),
    ("#009e73", "2 3"),
    ("#a04f84", "9 3 2 3"),
    ("#b08a00", "4 2"),
    ("#4c6a88", "12 4"),
];
const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 430.0;
/// The left, top, right and bottom edge of the plot.
const PLOT: (f64, f64, f64, f64) = (64.0, 44.0, 560.0, 372.0);

/// Draws the curves of the reading at place `at` of the study.
pub fn drawing(outcome: &StudyCounts, at: usize) -> Option<String> {
    let reading = outcome.study.readings.get(at)?;
    let last = reading.delays.last()?.as_f64();
    let x = |delay: f64| PLOT.0 + (PLOT.2 - PLOT.0) * delay / last.max(1.0);
    let y = |w: f64| PLOT.3 - (PLOT.3 - PLOT.1) * w;
    let mut svg = head(outcome, reading);
    axes(&mut svg, reading, x, y);
    for crossing in outcome.crossings(at) {
        let Preferable::Below { crossover_us, interval_us: [low, high] } = crossing.preferable
        else {
            continue;
        };
        let (from, to) = (x(low), x(high));
        let _ = writeln!(
            svg,
            "<rect x=\"{from:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\" fill=\"#56707f\" opacity=\"0.25\"/>\
             <line x1=\"{middle:.1}\" y1=\"{:.1}\" x2=\"{middle:.1}\" y2=\"{:.1}\" stroke=\"#56707f\"/>\
             <text x=\"{:.1}\" y=\"{:.1}\">{} = {} at {} µs: {crossover_us:.0} µs</text>",
            PLOT.1,
            (to - from).max(0.5),
            PLOT.3 - PLOT.1,
            PLOT.1,
            PLOT.3,
            x(crossover_us) + 6.0,
            PLOT.1 + 14.0,
            escape(&crossing.of),
            escape(&crossing.against),
            crossing.at_us,
            middle = x(crossover_us),
        );
    }
    for (s, scheduler) in reading.schedulers.iter().enumerate() {
        let points = reading.delays.iter().enumerate();
        let points =
            points.filter_map(|(d, &delay)| Some((delay.as_f64(), outcome.weighted(at, s, d)?)));
        let points: Vec<_> = points.collect();
        let (colour, dashes) = STYLES[s % STYLES.len()];
        let mut path = String::new();
        for (delay, w) in &points {
            let _ = write!(path, "{:.1},{:.1} ", x(*delay), y(w.value));
            let _ = writeln!(
                svg,
                "<line x1=\"{0:.1}\" y1=\"{1:.1}\" x2=\"{0:.1}\" y2=\"{2:.1}\" stroke=\"{colour}\" stroke-width=\"5\" \
                 opacity=\"0.4\"><title>{3} at {delay} µs: {4:.4} [{5:.4}, {6:.4}]</title></line>",
                x(*delay),
                y(w.low),
                y(w.high),
                escape(&scheduler.name),
                w.value,
                w.low,
                w.high,
            );
        }
        let level = PLOT.1 + 8.0 + 22.0 * s as f64;
        let _ = writeln!(
            svg,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\" stroke-dasharray=\"{dashes}\"/>\
             <line x1=\"{left}\" y1=\"{level}\" x2=\"{right}\" y2=\"{level}\" stroke=\"{colour}\" stroke-width=\"2\" \
             stroke-dasharray=\"{dashes}\"/><text x=\"{text}\" y=\"{base}\">{}</text>",
            path.trim_end(),
            escape(&scheduler.name),
            left = PLOT.2 + 16.0,
            right = PLOT.2 + 52.0,
            text = PLOT.2 + 60.0,
            base = level + 4.0,
        );
    }
    svg.push_str("</svg>\n");
    Some(svg)
}

fn head(outcome: &StudyCounts, reading: &StudyReading) -> String {
    let title = escape(&outcome.study.title);
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" font-family=\"sans-serif\" \
         font-size=\"12\" fill=\"#1c2733\" role=\"img\" aria-label=\"{title}\">\n\
         <rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"#ffffff\"/>\n\
         <text x=\"{}\" y=\"18\" font-size=\"13\" font-weight=\"bold\">{title}</text>\n\
         <text x=\"{}\" y=\"34\">{}; {} sets per cap; intervals of 95 %</text>\n",
        PLOT.0,
        PLOT.0,
        escape(&reading.name),
        outcome.sets(),
    )
}

fn axes(svg: &mut String, reading: &StudyReading, x: impl Fn(f64) -> f64, y: impl Fn(f64) -> f64) {
    for tenth in (0..=10).step_by(2) {
        let w = f64::from(tenth) / 10.0;
        let _ = writeln!(
            svg,
            "<line x1=\"{0}\" y1=\"{1:.1}\" x2=\"{2}\" y2=\"{1:.1}\" stroke=\"#d5dbe1\"/>\
             <text x=\"{3}\" y=\"{4:.1}\" text-anchor=\"end\">{w:.1}</text>",
            PLOT.0,
            y(w),
            PLOT.2,
            PLOT.0 - 8.0,
            y(w) + 4.0,
        );
    }
    for &delay in &reading.delays {
        let at = x(delay.as_f64());
        let _ = writeln!(
            svg,
            "<line x1=\"{at:.1}\" y1=\"{}\" x2=\"{at:.1}\" y2=\"{}\" stroke=\"#7a8591\"/>\
             <text x=\"{at:.1}\" y=\"{}\" text-anchor=\"middle\">{delay}</text>",
            PLOT.3,
            PLOT.3 + 5.0,
            PLOT.3 + 19.0,
        );
    }
    let what = match reading.measure {
        Measure::Schedulability => "weighted schedulability W",
        Measure::Breakdown => "mean breakdown utilisation",
    };
    let (middle_x, middle_y) = (f64::midpoint(PLOT.0, PLOT.2), f64::midpoint(PLOT.1, PLOT.3));
    let _ = writeln!(
        svg,
        "<text x=\"{middle_x}\" y=\"{}\" text-anchor=\"middle\">delay D_c in µs</text>\
         <text transform=\"translate(18 {middle_y}) rotate(-90)\" text-anchor=\"middle\">{what}</text>",
        PLOT.3 + 40.0,
    );
}
