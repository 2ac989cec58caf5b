// SPDX-License-Identifier: MIT OR Apache-2.0
//! Figures and tables as data that state what to draw, but not how.

/// A figure with curves, points or bars, in variants of which a page shows one at a time.
#[derive(Debug, Clone, PartialEq)]
pub struct Figure {
    /// The name of the figure for links and files.
    pub id: String,
    /// The kind of the figure: curves and points over numbers, or stacked bars over names.
    pub kind: FigureKind,
    /// The horizontal axis of the figure.
    pub x: Axis,
    /// The vertical axes that a reader can choose; the first is the default.
    pub views: Vec<Axis>,
    /// The statistics that a reader can show and hide, each with whether it is shown at first.
    pub statistics: Vec<(String, bool)>,
    /// The variants of the figure; each is a selection of the data.
    pub variants: Vec<Variant>,
    /// Marked values of the horizontal axis, drawn as lines.
    pub marks: Vec<AxisMark>,
    /// The meaning of the marked values of the figure and its variants; empty if there are none.
    pub marked: &'static str,
}

/// The kind of drawing that a figure has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FigureKind {
    /// The figure has curves and points.
    Curves,
    /// The figure consists of horizontal bars.
    Bars,
}

/// An axis of a figure, with its name and its unit.
#[derive(Debug, Clone, PartialEq)]
pub struct Axis {
    /// The quantity of the axis, with its unit.
    pub name: String,
    /// A short name of the axis, for a button.
    pub short: String,
    /// Whether the axis is logarithmic at first.
    pub log: bool,
    /// The format of the axis' values.
    pub unit: ValueUnit,
}

/// The format in which a figure shows values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ValueUnit {
    /// Values are in KiB, written with the binary unit that fits.
    Kib,
    /// The figure shows values as plain numbers.
    Number,
    /// Values are shares, written in percent.
    Share,
}

impl Axis {
    /// Makes an axis with this name, short name, scale and unit.
    pub fn new(name: &str, short: &str, log: bool, unit: ValueUnit) -> Self {
        Self { name: name.to_owned(), short: short.to_owned(), log, unit }
    }
}

/// A selection of a figure's data.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Variant {
    /// The label of the selection for the user of the page.
    pub label: String,
    /// The names on the axis of a bar figure.
    pub categories: Vec<String>,
    /// The series that the variant shows.
    pub series: Vec<FigureSeries>,
    /// Marked values of the horizontal axis, in addition to the marked values of the figure.
    pub marks: Vec<AxisMark>,
}

/// A marked value of the horizontal axis, drawn as a line.
#[derive(Debug, Clone, PartialEq)]
pub struct AxisMark {
    /// The value of the horizontal axis at which the mark is drawn.
    pub x: f64,
    /// The label at the marked line.
    pub label: String,
}

/// A series of a figure: one curve, cloud or kind of bar.
#[derive(Debug, Clone, PartialEq)]
pub struct FigureSeries {
    /// The name of the series in the legend; series of one name are shown and hidden together.
    pub name: String,
    /// The statistic of the series, if the figure has several statistics.
    pub statistic: String,
    /// The number of the series' colour.
    pub colour: usize,
    /// The style in which the series is drawn.
    pub style: Style,
    /// The points through which the series goes.
    pub points: Vec<SeriesPoint>,
}

/// The style in which a series is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Style {
    /// The series is a line with markers.
    Solid,
    /// The series is a broken line with markers.
    Dashed,
    /// The series is a dotted line.
    Dotted,
    /// The series consists of points only.
    Points,
    /// The series consists of hollow points, which are invalid samples.
    Hollow,
    /// The style draws the series as bars.
    Bars,
}

/// A point of a series in a figure. A value of None is not drawn.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SeriesPoint {
    /// The horizontal value; for bars, the index of the category.
    pub x: f64,
    /// The vertical value in each view.
    pub y: Vec<Option<f64>>,
    /// The lower end of the point's interval in each view.
    pub low: Vec<Option<f64>>,
    /// The upper end of the point's interval in each view.
    pub high: Vec<Option<f64>>,
    /// A note that the page shows at the point.
    pub note: String,
}

/// A table of a report, with its caption.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct FigureTable {
    /// The caption above the table.
    pub caption: String,
    /// The heads of the columns of the table.
    pub head: Vec<String>,
    /// The rows; the first field of each row is its head.
    pub rows: Vec<Vec<String>>,
    /// Whether the table is shown at once, or only on demand below its figure.
    pub open: bool,
}

impl FigureTable {
    /// Makes a table without rows.
    pub fn new(caption: impl Into<String>, head: &[&str]) -> Self {
        Self {
            caption: caption.into(),
            head: head.iter().map(|&name| name.to_owned()).collect(),
            ..Self::default()
        }
    }
    /// Returns the table, shown at once.
    #[must_use]
    pub fn shown(self) -> Self {
        Self { open: true, ..self }
    }
}

/// The place of a section on a page. The order of the variants is the order of the sections on every page,
/// whatever was measured.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum SectionPlace {
    /// The section has figures and tables that support the answer.
    #[default]
    Result,
    /// The section has other results of the same files.
    Detail,
    /// The section has reasons to trust or doubt the results.
    Trust,
    /// The section describes the machine, and its state before the run.
    Machine,
    /// The section states the origin of the data.
    Origin,
}

impl SectionPlace {
    /// All places, in the order of a page.
    pub const ALL: [Self; 5] =
        [Self::Result, Self::Detail, Self::Trust, Self::Machine, Self::Origin];

    /// Returns the heading of the sections at this place.
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

/// A section of a page, with text, figures and tables.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PageSection {
    /// The place of the section on a page.
    pub place: SectionPlace,
    /// The name of the section for links.
    pub id: String,
    /// The heading above the section.
    pub title: String,
    /// The paragraphs of the section, which also explain how to read its figures.
    pub text: Vec<String>,
    /// A drawing of the section, as SVG.
    pub drawing: Option<String>,
    /// The figures that the section shows.
    pub figures: Vec<Figure>,
    /// The tables that the section shows.
    pub tables: Vec<FigureTable>,
}

impl PageSection {
    /// Makes a section with only a heading.
    pub fn new(place: SectionPlace, id: &str, title: &str) -> Self {
        Self { place, id: id.to_owned(), title: title.to_owned(), ..Self::default() }
    }
    /// Adds a paragraph to the section.
    #[must_use]
    pub fn says(mut self, text: impl Into<String>) -> Self {
        self.text.push(text.into());
        self
    }
}
