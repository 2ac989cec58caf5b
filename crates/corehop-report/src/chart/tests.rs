// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests compare the drawings of small figures with places that were computed by hand.

use super::*;
use crate::figure::{AxisMark, FigureSeries, SeriesPoint, Style};

fn point(x: f64, y: f64, ends: Option<[f64; 2]>) -> SeriesPoint {
    let [low, high] = [0, 1].map(|at| ends.map(|it| it[at]).into_iter().map(Some).collect());
    SeriesPoint { x, y: vec![Some(y), Some(y / x)], low, high, note: "9 valid samples".to_owned() }
}

fn series(name: &str, statistic: &str, points: Vec<SeriesPoint>) -> FigureSeries {
    let (name, statistic) = (name.to_owned(), statistic.to_owned());
    FigureSeries { name, statistic, colour: 3, style: Style::Solid, points }
}

fn curves() -> Figure {
    let median = vec![point(4.0, 1.0, Some([0.5, 2.0])), point(16.0, 10.0, None)];
    let mean = vec![point(4.0, 1.5, None), point(8.0, -1.0, None), point(16.0, 12.0, None)];
    let load =
        |label: &str, series| Variant { label: label.to_owned(), series, ..Variant::default() };
    Figure {
        id: "cost".to_owned(),
        kind: FigureKind::Curves,
        x: Axis::new("working-set size", "WSS", true, ValueUnit::Kib),
        views: vec![
            Axis::new("delay in µs", "µs", true, ValueUnit::Number),
            Axis::new("delay in µs per KiB", "µs/KiB", false, ValueUnit::Number),
        ],
        statistics: vec![("median".to_owned(), true), ("mean".to_owned(), false)],
        variants: vec![
            load(
                "idle",
                vec![series("preemption", "median", median), series("preemption", "mean", mean)],
            ),
            load("a<b", Vec::new()),
        ],
        marks: vec![
            AxisMark { x: 8.0, label: "L1".to_owned() },
            AxisMark { x: 64.0, label: "L2".to_owned() },
        ],
        marked: "cache size",
    }
}

fn drawing(view: usize, log: bool) -> String {
    let figure = curves();
    let choice = FigureSelection {
        figure: &figure,
        variant: &figure.variants[0],
        view,
        log,
        titles: 1_000,
        narrow: true,
    };
    curves::drawing(&choice, axes::WIDE, "Cost")
}

#[test]
fn every_selection_unit_and_scale_is_drawn_and_the_first_one_alone_is_shown() {
    let html = plots(&curves(), "Cost", DrawingDetail::ALL);
    assert_eq!(html.matches("<div class=\"plot\"").count(), 2 * 2 * 2);
    assert_eq!(html.matches("<svg").count(), 2 * 2 * 2 * 2, "for a screen and for a phone");
    let shown: Vec<&str> =
        html.lines().filter(|it| it.starts_with("<div") && !it.contains(" hidden")).collect();
    assert_eq!(shown.len(), 1);
    assert!(
        shown[0].contains("data-variant=\"0\" data-view=\"0\" data-scale=\"log\""),
        "{shown:?}"
    );
    assert!(html.contains("aria-label=\"Cost: delay in µs by working-set size (a&lt;b)\""));
}

#[test]
fn a_point_stands_where_its_values_say_and_tells_them() {
    let svg = drawing(0, true);
    // 4 KiB is one doubling and 16 KiB three of the four from 2 to 32 KiB, of 68 to 842; 1 and 10 of the two decades and a half
    // from 0.1 to 100 are one and two thirds of 300 upwards.
    assert!(svg.contains("d=\"M261.5 242.0L648.5 142.0\""), "{svg}");
    assert!(
        svg.contains(
            "<title>preemption\nWSS: 4 KiB\nmedian: 1 µs [0.5, 2]\n9 valid samples</title>"
        ),
        "{svg}"
    );
    // The interval from 0.5 to 2.
    assert!(svg.contains("M257.5 272.1h8m-4 0V211.9m-4 0h8"), "{svg}");
    assert!(svg.contains(">working-set size</text>") && svg.contains(">delay in µs</text>"));
}

#[test]
fn a_value_that_a_logarithm_cannot_show_breaks_the_line() {
    let of_mean = |svg: String| {
        let (_, group) = svg.split_once("data-statistic=\"mean\"").unwrap();
        let (line, _) = group.split_once("\" fill=\"none\"").unwrap();
        line.rsplit_once("d=\"").unwrap().1.to_owned()
    };
    let log = of_mean(drawing(0, true));
    assert_eq!((log.matches('M').count(), log.matches('L').count()), (2, 0), "{log}");
    let linear = of_mean(drawing(0, false));
    assert_eq!((linear.matches('M').count(), linear.matches('L').count()), (1, 2), "{linear}");
}

#[test]
fn a_value_below_the_axis_is_not_drawn_at_its_end() {
    let mut figure = curves();
    figure.variants[0].series[0].points[0].y[0] = Some(1e-5);
    let choice = FigureSelection {
        figure: &figure,
        variant: &figure.variants[0],
        view: 0,
        log: true,
        titles: 1_000,
        narrow: true,
    };
    let svg = curves::drawing(&choice, axes::WIDE, "Cost");
    assert_eq!(svg.matches("<title>preemption\nWSS: 4 KiB\nmedian").count(), 0, "{svg}");
    assert_eq!(svg.matches("<title>preemption\nWSS: 16 KiB\nmedian").count(), 1);
}

#[test]
fn a_statistic_that_is_off_at_first_is_there_and_hidden() {
    let svg = drawing(0, true);
    assert!(svg.contains("data-statistic=\"mean\" display=\"none\""));
    assert!(svg.contains("data-statistic=\"median\">"));
    let controls = controls(&curves());
    assert!(controls.contains("data-statistic=\"mean\" aria-pressed=\"false\""), "{controls}");
    assert!(
        controls.contains("data-view=\"1\" data-scale=\"linear\" aria-pressed=\"false\">µs/KiB")
    );
    assert!(controls.contains("<option value=\"1\">a&lt;b</option>"));
}

#[test]
fn marks_between_the_points_are_drawn_and_others_are_not() {
    let svg = drawing(0, true);
    assert!(svg.contains("data-x=\"8\"") && svg.contains(">L1</text>"));
    assert!(!svg.contains("data-x=\"64\""));
}

#[test]
fn bars_are_stacked_each_sign_on_its_side() {
    let bar = |x: f64, y: f64| SeriesPoint { x, y: vec![Some(y)], ..SeriesPoint::default() };
    let each = |name: &str, points| FigureSeries { style: Style::Bars, ..series(name, "", points) };
    let figure = Figure {
        kind: FigureKind::Bars,
        views: vec![Axis::new("delay in µs", "µs", false, ValueUnit::Number)],
        statistics: Vec::new(),
        variants: vec![Variant {
            categories: vec!["4 KiB".to_owned(), "8 KiB".to_owned()],
            series: vec![
                each("refill", vec![bar(0.0, 6.0), bar(1.0, -4.0)]),
                each("rest", vec![bar(0.0, 4.0), bar(1.0, 2.0)]),
            ],
            ..Variant::default()
        }],
        ..curves()
    };
    let html = plots(&figure, "Balance", DrawingDetail::ALL);
    assert_eq!(html.matches("<div class=\"plot\"").count(), 1);
    // From -4 to 10 in steps of 5: -5 to 10 are 250 to 842, so that 0 is at 447.3 and each µs takes 39.5.
    for bar in ["H684.1v18H447.3z", "H842.0v18H684.1z", "H289.5v18H447.3z", "H526.3v18H447.3z"] {
        assert!(html.contains(bar), "{bar}: {html}");
    }
    assert!(html.contains("<title>8 KiB\nrefill, µs: -4</title>"), "{html}");
    assert!(!controls(&figure).contains("Vertical axis"));
}

#[test]
fn numbers_have_three_digits_and_sizes_their_unit() {
    let numbers = [0.0, 0.0123, 1.5, 12.34, 123.4, 1234.5, 1e5, 0.0001, -2.0].map(number);
    assert_eq!(numbers, ["0", "0.0123", "1.5", "12.3", "123", "1234", "1.0e5", "1.0e-4", "-2"]);
    assert_eq!([4.0, 1536.0].map(|it| written(it, ValueUnit::Kib)), ["4 KiB", "1.5 MiB"]);
    assert_eq!(written(0.125, ValueUnit::Share), "12.5 %");
}

#[test]
fn hidden_drawings_of_a_small_page_show_no_values_under_the_mouse_and_none_for_phones() {
    let drawn = |detail| plots(&curves(), "Cost", detail);
    let (all, few) = (drawn(DrawingDetail::ALL), drawn(DrawingDetail::of_shown(1_000)));
    let count = |html: &str, what: &str| html.matches(what).count();
    assert!(0 < count(&few, "<title>") && count(&few, "<title>") < count(&all, "<title>"));
    assert_eq!(count(&few, "\"narrow\""), 1);
    // One of the two selections is shown at first; the other has one drawing.
    assert_eq!(count(&few, "\"wide\""), count(&all, "\"wide\"") / 2 + 1);
}
