// SPDX-License-Identifier: MIT OR Apache-2.0
//! Published tables against the simulated machine, as a page: a drawing and a table for each.

use super::figure::{Section, Table};
use super::html;
use super::validation_svg::drawing;
use crate::decision::gang_study::{GangJoined, GangQuantity, GangStudy};
use crate::decision::points::{Compared, PointStudy};
use crate::decision::validation::{Errors, Joined, Study};

/// Values that belong into one drawing.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Dots {
    /// A name for links.
    pub id: String,
    /// The title.
    pub title: String,
    /// Their unit.
    pub unit: String,
    /// Whether they are drawn on logarithmic axes, and from which value on.
    pub log: bool,
    /// See `log`.
    pub least: f64,
    /// The median error that is aimed at, if there is an aim.
    pub limit: Option<f64>,
    /// Whether that is relative to what was printed.
    pub relative: bool,
    /// The values.
    pub dots: Vec<Dot>,
    /// The errors of values that nothing was fitted on.
    pub judged: Option<Errors>,
}

/// A printed value and a simulated one.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Dot {
    /// The property it shares with others: an event, a quantity.
    pub series: String,
    /// Its name.
    pub label: String,
    /// The printed value.
    pub printed: f64,
    /// The simulated value.
    pub simulated: f64,
    /// Whether a parameter was fitted on it.
    pub fitted: bool,
}

impl Dots {
    /// The averages of a table of costs.
    pub fn of_table(study: &Study, rows: &[Joined]) -> Self {
        let dot = |row: &Joined| Dot {
            series: row.event.word().replace('_', " "),
            label: format!("{} {}, {} KiB", row.event, row.preemption_length, row.wss_kib),
            printed: row.printed_us,
            simulated: row.simulated_us,
            fitted: row.fitted,
        };
        Self {
            id: study.id.clone(),
            title: study.title.clone(),
            unit: "µs".to_owned(),
            log: true,
            least: 0.1,
            limit: Some(study.limit),
            relative: true,
            dots: rows.iter().filter(|row| row.statistic == "avg").map(dot).collect(),
            judged: Errors::of(rows, false),
        }
    }

    /// Single values.
    pub fn of_points(study: &PointStudy, points: &[Compared]) -> Self {
        let dot = |point: &Compared| Dot {
            series: study.quantity.word().replace('_', " "),
            label: point.name.clone(),
            printed: point.printed,
            simulated: point.simulated,
            fitted: point.fitted,
        };
        Self {
            id: study.id.clone(),
            title: study.title.clone(),
            unit: study.quantity.word().replace('_', " "),
            log: points.iter().any(|point| point.printed > 100.0),
            least: 1.0,
            limit: Some(study.limit),
            relative: true,
            dots: points.iter().map(dot).collect(),
            judged: Compared::errors(points, false),
        }
    }

    /// A table of gangs: a drawing for each of its quantities.
    pub fn of_gangs(study: &GangStudy, rows: &[GangJoined]) -> Vec<Self> {
        let of = |&quantity: &GangQuantity| {
            let mine = rows.iter().filter(|row| row.quantity == quantity);
            let dot = |row: &GangJoined| {
                Some(Dot {
                    series: format!("{} {}", row.program, row.parameters).trim().to_owned(),
                    label: format!("{} {}, {} items", row.program, row.parameters, row.items),
                    printed: row.printed,
                    simulated: row.simulated?,
                    fitted: row.fitted,
                })
            };
            Self {
                id: format!("{}-{}", study.id, quantity.word().replace('_', "-")),
                title: format!("{}: {}", study.title, quantity.word().replace('_', " ")),
                unit: quantity.word().replace('_', " "),
                log: !quantity.is_share(),
                least: 10.0,
                limit: study.limit(quantity),
                relative: !quantity.is_share(),
                dots: mine.filter_map(dot).collect(),
                judged: GangJoined::errors(rows, quantity, false),
            }
        };
        GangQuantity::ALL.iter().map(of).filter(|dots| !dots.dots.is_empty()).collect()
    }

    fn section(&self) -> Section {
        let mut table = Table::new("printed and simulated", &["value", "printed", "simulated", ""]);
        let row = |dot: &Dot| {
            let fitted = if dot.fitted { "fitted" } else { "" };
            let numbers = [format!("{}", dot.printed), format!("{:.2}", dot.simulated)];
            [vec![dot.label.clone()], numbers.to_vec(), vec![fitted.to_owned()]].concat()
        };
        table.rows = self.dots.iter().map(row).collect();
        let error = |error: f64| {
            if self.relative { format!("{:.1} %", error * 100.0) } else { format!("{error:.2}") }
        };
        let said = self.judged.map(|it| {
            format!(
                "{} values that nothing was fitted on: median error {}, 90th percentile {}.",
                it.rows,
                error(it.median),
                error(it.p90)
            )
        });
        let section = Section {
            drawing: Some(drawing(self)),
            tables: vec![table],
            ..Section::new(&self.id, &self.title)
        };
        said.into_iter().fold(section, Section::says)
    }
}

/// The page of all of them, simulated with `seed`.
pub fn page(seed: u64, all: &[Dots]) -> String {
    let sections: Vec<Section> = all.iter().map(Dots::section).collect();
    let facts = [format!("seed {seed}"), format!("{} drawings", all.len())];
    html::page_of("Published tables against the simulated machine", &facts, &sections)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dots(log: bool) -> Dots {
        let dot = |printed, simulated, fitted| Dot {
            series: "a & b".to_owned(),
            label: "x".to_owned(),
            printed,
            simulated,
            fitted,
        };
        Dots {
            id: "x".to_owned(),
            title: "values".to_owned(),
            log,
            least: 0.1,
            limit: Some(0.1),
            relative: log,
            dots: vec![dot(1.0, 1.0, false), dot(100.0, 10.0, true), dot(0.0, -2.0, false)],
            ..Dots::default()
        }
    }

    #[test]
    fn what_agrees_is_on_the_diagonal_and_what_is_too_small_for_a_logarithm_at_the_edge() {
        let svg = drawing(&dots(true));
        // From 0.1 to 100: one is a third of the way, both ways.
        assert!(svg.contains("cx=\"195.3\" cy=\"280.7\""), "{svg}");
        assert!(svg.contains("cx=\"72.0\" cy=\"404.0\""), "{svg}");
        assert!(svg.contains("hollow: fitted on") && svg.contains("±10 %"));
        assert!(svg.contains("a &amp; b"));
    }

    #[test]
    fn a_page_has_a_drawing_for_each() {
        let page = page(7, &[dots(true), dots(false)]);
        assert_eq!(page.matches("aria-label=\"values\"").count(), 2);
        assert!(page.contains("seed 7"));
    }
}
