// SPDX-License-Identifier: MIT OR Apache-2.0
//! Limits the size of a page: if a page is too large, its largest sections become extracts.

use crate::chart::DrawingDetail;
use crate::figure::{Figure, Style};

/// The largest size of a page in bytes.
pub(crate) const MOST_BYTES: usize = 400_000;

/// The largest amount of each part that a section can have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PageThrift {
    /// The number of selections of a figure.
    pub(crate) variants: usize,
    /// The number of points of a cloud.
    pub(crate) points: usize,
    /// The parts of drawings other than their lines.
    pub(crate) detail: DrawingDetail,
    /// The number of tables of a section.
    pub(crate) tables: usize,
    /// The number of rows of a table.
    pub(crate) rows: usize,
    /// The size in bytes of a drawing that is not a figure.
    pub(crate) drawing: usize,
    /// The length of a fact in the provenance, in characters.
    pub(crate) fact: usize,
}

impl PageThrift {
    /// The steps from complete to smallest; the largest section takes the next step until the page
    /// fits.
    pub(super) const STEPS: [Self; 7] = [
        Self::of(99, 2_000, DrawingDetail::ALL, 2_000, usize::MAX),
        Self::of(99, 300, DrawingDetail { narrow: false, ..DrawingDetail::ALL }, 400, 200_000),
        Self::of(12, 200, DrawingDetail::of_shown(1_000), 150, 100_000),
        Self::of(8, 120, DrawingDetail::of_shown(400), 60, 50_000),
        Self::of(4, 60, DrawingDetail::of_shown(400), 40, 30_000),
        Self::of(3, 40, DrawingDetail::of_shown(200), 24, 15_000),
        Self::of(2, 12, DrawingDetail::of_shown(120), 8, 0),
    ];

    /// Limits derived from a few numbers: there are as many tables as selections need, and long
    /// facts shrink with the rows of tables.
    const fn of(
        variants: usize,
        points: usize,
        detail: DrawingDetail,
        rows: usize,
        drawing: usize,
    ) -> Self {
        Self { variants, points, detail, tables: 3 * variants, rows, drawing, fact: 50 * rows }
    }

    /// Returns the part of a figure that is drawn, and a sentence about the rest.
    pub(super) fn figure(&self, figure: &Figure) -> (Figure, Option<String>) {
        let mut drawn = figure.clone();
        let left_out = drawn.variants.len().saturating_sub(self.variants);
        drawn.variants.truncate(self.variants);
        let mut thinned = false;
        for series in drawn.variants.iter_mut().flat_map(|variant| &mut variant.series) {
            let step = series.points.len().div_ceil(self.points);
            if matches!(series.style, Style::Points | Style::Hollow) && step > 1 {
                thinned = true;
                series.points = series.points.iter().step_by(step).cloned().collect();
            }
        }
        let selections =
            (left_out > 0).then(|| format!("{left_out} further selections are omitted"));
        let points = thinned.then(|| {
            format!("at most {} points of each series are drawn, evenly chosen", self.points)
        });
        let parts: Vec<String> = selections.into_iter().chain(points).collect();
        (drawn, (!parts.is_empty()).then(|| format!("An extract: {}.", parts.join("; "))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figure::{Axis, FigureKind, FigureSeries, SeriesPoint, ValueUnit, Variant};

    fn figure(style: Style, points: usize, variants: usize) -> Figure {
        let point = |x: usize| SeriesPoint { x: x as f64, ..SeriesPoint::default() };
        let series = FigureSeries {
            name: "x".to_owned(),
            statistic: String::new(),
            colour: 0,
            style,
            points: (0..points).map(point).collect(),
        };
        let variant = Variant { series: vec![series], ..Variant::default() };
        Figure {
            id: "x".to_owned(),
            kind: FigureKind::Curves,
            x: Axis::new("x", "x", false, ValueUnit::Number),
            views: Vec::new(),
            statistics: Vec::new(),
            variants: vec![variant; variants],
            marks: Vec::new(),
            marked: "",
        }
    }

    #[test]
    fn an_extract_of_a_cloud_says_so_and_a_curve_keeps_all_its_points() {
        let thrift = PageThrift { points: 100, variants: 2, ..PageThrift::STEPS[0] };
        let (cloud, said) = thrift.figure(&figure(Style::Points, 250, 3));
        assert_eq!((cloud.variants.len(), cloud.variants[0].series[0].points.len()), (2, 84));
        let said = said.unwrap();
        assert!(
            said.contains("1 further selections") && said.contains("at most 100 points"),
            "{said}"
        );
        let (curve, said) = thrift.figure(&figure(Style::Solid, 250, 2));
        assert_eq!((curve.variants[0].series[0].points.len(), said), (250, None));
    }

    #[test]
    fn each_step_keeps_no_more_than_the_step_before() {
        for pair in PageThrift::STEPS.windows(2) {
            let (before, after) = (pair[0], pair[1]);
            assert!(
                after.rows < before.rows
                    && after.points < before.points
                    && after.fact < before.fact
            );
            assert!(after.variants <= before.variants && after.drawing < before.drawing);
        }
    }
}
