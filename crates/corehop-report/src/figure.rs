// SPDX-License-Identifier: MIT OR Apache-2.0
//! Figures and tables as data: what to draw, not how.

/// A figure: curves, points or bars, in variants of which one is shown at a time.
#[derive(Debug, Clone, PartialEq)]
pub struct Figure {
    /// A name for links and file names.
    pub id: String,
    /// Curves and points over numbers, or stacked bars over names.
    pub kind: FigureKind,
    /// The horizontal axis.
    pub x: Axis,
    /// The possible vertical axes: the first unless another is chosen.
    pub views: Vec<Axis>,
    /// The statistics that can be switched on and off; those that are on at first.
    pub statistics: Vec<(String, bool)>,
    /// The variants: each a selection of the data.
    pub variants: Vec<Variant>,
    /// Lines at certain values of the horizontal axis.
    pub marks: Vec<AxisMark>,
    /// The meaning of these lines, and of those of a variant; empty where there are none.
    pub marked: &'static str,
}

/// The kind of a figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FigureKind {
    /// Curves and points.
    Curves,
    /// Horizontal bars.
    Bars,
}

/// An axis.
#[derive(Debug, Clone, PartialEq)]
pub struct Axis {
    /// The quantity, with its unit.
    pub name: String,
    /// A short name, for a button.
    pub short: String,
    /// Whether it is logarithmic at first.
    pub log: bool,
    /// The form of its values.
    pub unit: ValueUnit,
}

/// The form of values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ValueUnit {
    /// KiB, written with the binary unit that fits.
    Kib,
    /// A number.
    Number,
    /// A share, written in percent.
    Share,
}

impl Axis {
    /// An axis.
    pub fn new(name: &str, short: &str, log: bool, unit: ValueUnit) -> Self {
        Self { name: name.to_owned(), short: short.to_owned(), log, unit }
    }
}

/// A selection of a figure's data.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Variant {
    /// The name of the selection.
    pub label: String,
    /// The names on the axis of a bar figure.
    pub categories: Vec<String>,
    /// Its series.
    pub series: Vec<FigureSeries>,
    /// Lines at certain values of the horizontal axis, besides those of the figure.
    pub marks: Vec<AxisMark>,
}

/// A line at a value of the horizontal axis.
#[derive(Debug, Clone, PartialEq)]
pub struct AxisMark {
    /// The value.
    pub x: f64,
    /// Its label.
    pub label: String,
}

/// One curve, cloud or kind of bar.
#[derive(Debug, Clone, PartialEq)]
pub struct FigureSeries {
    /// Its name in the legend; series of one name are switched together.
    pub name: String,
    /// The statistic, where the figure has several.
    pub statistic: String,
    /// Its colour, by number.
    pub colour: usize,
    /// The style of its drawing.
    pub style: Style,
    /// Its points.
    pub points: Vec<SeriesPoint>,
}

/// The style of a series.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Style {
    /// A line with markers.
    Solid,
    /// A broken line with markers.
    Dashed,
    /// A dotted line.
    Dotted,
    /// Points alone.
    Points,
    /// Hollow points: what is not valid.
    Hollow,
    /// Bars.
    Bars,
}

/// A point of a series. Empty values are not drawn.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SeriesPoint {
    /// The horizontal value; the place of its category for bars.
    pub x: f64,
    /// The vertical value in each view.
    pub y: Vec<Option<f64>>,
    /// The lower end of its interval in each view.
    pub low: Vec<Option<f64>>,
    /// The upper end of its interval in each view.
    pub high: Vec<Option<f64>>,
    /// A note on the point.
    pub note: String,
}

/// A table.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct FigureTable {
    /// The caption.
    pub caption: String,
    /// The column heads.
    pub head: Vec<String>,
    /// The rows; the first field of each is its head.
    pub rows: Vec<Vec<String>>,
    /// Whether it is shown at once, or on demand under its figure.
    pub open: bool,
}

impl FigureTable {
    /// A table without rows.
    pub fn new(caption: impl Into<String>, head: &[&str]) -> Self {
        Self {
            caption: caption.into(),
            head: head.iter().map(|&name| name.to_owned()).collect(),
            ..Self::default()
        }
    }
    /// The same, shown at once.
    #[must_use]
    pub fn shown(self) -> Self {
        Self { open: true, ..self }
    }
}

/// The place of a section on a page. The order of these values is the order of every page, whatever was measured.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum SectionPlace {
    /// The figures and tables behind the answer.
    #[default]
    Result,
    /// Other results of the same files.
    Detail,
    /// Reasons to trust or to doubt the results.
    Trust,
    /// The machine, and the state of the machine before the run.
    Machine,
    /// The origin of the data.
    Origin,
}

impl SectionPlace {
    /// All places, in the order of a page.
    pub const ALL: [Self; 5] =
        [Self::Result, Self::Detail, Self::Trust, Self::Machine, Self::Origin];

    /// The heading of the sections at this place.
    pub const fn heading(self) -> &'static str {
        match self {
            Self::Result => "The result in detail",
            Self::Detail => "Further results",
            Self::Trust => "Reasons to trust or doubt this",
            Self::Machine => "The machine",
            Self::Origin => "Origin of the data",
        }
    }
}

/// A part of a page.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PageSection {
    /// The place on a page.
    pub place: SectionPlace,
    /// A name for links.
    pub id: String,
    /// The heading.
    pub title: String,
    /// The text, and how to read it: a paragraph each.
    pub text: Vec<String>,
    /// A drawing, as SVG.
    pub drawing: Option<String>,
    /// The figures.
    pub figures: Vec<Figure>,
    /// The tables.
    pub tables: Vec<FigureTable>,
}

impl PageSection {
    /// A section with a heading alone.
    pub fn new(place: SectionPlace, id: &str, title: &str) -> Self {
        Self { place, id: id.to_owned(), title: title.to_owned(), ..Self::default() }
    }
    /// Adds a paragraph.
    #[must_use]
    pub fn says(mut self, text: impl Into<String>) -> Self {
        self.text.push(text.into());
        self
    }
}
