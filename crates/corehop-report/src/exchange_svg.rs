// SPDX-License-Identifier: MIT OR Apache-2.0
//! Draws the transfer times of cache lines between CPUs as a heat map: one self-contained SVG.

use std::fmt::Write as _;

use super::escape::escape_xml;
use super::label;
use corehop_plan::platform::observed::Exchange;
use corehop_plan::platform::tree::SharingDomain;
use corehop_plan::platform::{Latency, Platform};
use corehop_plan::units::Cpu;

/// The largest width in pixels of two maps side by side; wider maps are drawn one below the other.
const WIDEST: f64 = 1_000.0;
/// The margins of a map: left for the numbers of the CPUs, and above for the numbers and the title.
const MARGIN: (f64, f64) = (46.0, 58.0);
/// The space between two maps, and the height of the colour key.
const GAP: f64 = 34.0;
const KEY: f64 = 58.0;

/// The colours from the shortest exchange to the longest, from light to dark so that a grey printer
/// preserves the order.
const RAMP: [[f64; 3]; 5] = [
    [246.0, 244.0, 214.0],
    [166.0, 211.0, 160.0],
    [66.0, 156.0, 158.0],
    [42.0, 92.0, 140.0],
    [38.0, 40.0, 84.0],
];

/// A statistic of the exchanges, which is drawn as a separate map.
type ExchangeStatistic = (&'static str, fn(&Exchange) -> Latency);

const STATISTICS: [ExchangeStatistic; 2] =
    [("shortest, ns", |exchange| exchange.min), ("median, ns", |exchange| exchange.median)];

/// The common properties of all cells in the drawing.
struct Map<'a> {
    platform: &'a Platform,
    exchanges: &'a [Exchange],
    /// The CPUs in the order of rows and columns.
    cpus: Vec<Cpu>,
    /// The shortest and the longest time in both maps, in picoseconds.
    range: [f64; 2],
    /// The width and the height of a cell.
    cell: (f64, f64),
}

/// Draws the shortest and the median exchanges of a machine; returns `None` if no exchange was
/// measured.
///
/// The CPUs are in the order of the machine's drawing, so that CPUs with a common cache are
/// neighbours. The colour represents the logarithm of the time, because classes differ by factors.
pub fn draw(platform: &Platform) -> Option<String> {
    let exchanges = &platform.exchange.as_ref()?.value;
    let map = Map::of(platform, exchanges)?;
    let (width, height) = map.extent();
    let beside = 2.0 * width + GAP <= WIDEST;
    let step = if beside { (width + GAP, 0.0) } else { (0.0, height + GAP) };
    let whole = (width + step.0, height + step.1 + KEY);
    let mut svg = String::new();
    head(&mut svg, platform, whole);
    for (place, statistic) in STATISTICS.into_iter().enumerate() {
        let at = (place as f64 * step.0, place as f64 * step.1);
        map.paint(&mut svg, statistic, at);
    }
    map.key(&mut svg, height + step.1 + 14.0);
    svg.push_str("</g></svg>\n");
    Some(svg)
}

fn head(svg: &mut String, platform: &Platform, (width, height): (f64, f64)) {
    let name = escape_xml(&platform.name);
    // Writing to a string cannot fail, here and below.
    let _ = write!(
        svg,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\" \
         width=\"{width:.0}\" height=\"{height:.0}\" role=\"img\" \
         style=\"max-width:100%;height:auto\"><title>A cache line from CPU to CPU on {name}</title>\
         <style>{STYLE}</style><g class=\"corehop-exchange\">\
         <rect class=\"page\" width=\"100%\" height=\"100%\"/>"
    );
}

/// The style of text outside the cells follows the page; the colour of a cell is its value.
const STYLE: &str = "\
.corehop-exchange{--page:#ffffff;--ink:#1d2733;--dim:#5b6875;\
font-family:system-ui,-apple-system,'Segoe UI',Roboto,sans-serif}\
:root[data-theme=dark] .corehop-exchange{--page:#171e26;--ink:#e6ebf1;--dim:#9aa7b5}\
@media (prefers-color-scheme:dark){:root:not([data-theme=light]) .corehop-exchange{\
--page:#171e26;--ink:#e6ebf1;--dim:#9aa7b5}}\
.corehop-exchange .page{fill:var(--page)}\
.corehop-exchange text{fill:var(--dim);font-size:11px;text-anchor:middle}\
.corehop-exchange .title{fill:var(--ink);font-size:14px;font-weight:600;text-anchor:start}\
.corehop-exchange .left{text-anchor:end}\
.corehop-exchange .on-light{fill:#16202b}.corehop-exchange .on-dark{fill:#ffffff}\
.corehop-exchange .control{stroke:var(--dim);stroke-width:1;stroke-dasharray:2 2}";

impl<'a> Map<'a> {
    /// Returns the map of the given exchanges, or `None` without exchanges.
    fn of(platform: &'a Platform, exchanges: &'a [Exchange]) -> Option<Self> {
        let times = exchanges.iter().flat_map(|exchange| [exchange.min, exchange.median]);
        let times: Vec<f64> = times.map(picos).collect();
        let least = times.iter().copied().reduce(f64::min)?;
        let most = times.iter().copied().reduce(f64::max)?;
        let measured = |cpu: &Cpu| exchanges.iter().any(|it| it.from == *cpu || it.to == *cpu);
        let mut cpus = Vec::new();
        leaves(&platform.tree().inside, &mut cpus);
        cpus.retain(measured);
        // A CPU that the tree does not know has gone offline since.
        for cpu in exchanges.iter().flat_map(|exchange| [exchange.from, exchange.to]) {
            if !cpus.contains(&cpu) {
                cpus.push(cpu);
            }
        }
        let cell = match cpus.len() {
            ..=8 => (54.0, 30.0),
            9..=16 => (34.0, 24.0),
            17..=32 => (20.0, 16.0),
            _ => (9.0, 9.0),
        };
        Some(Self { platform, exchanges, cpus, range: [least, most], cell })
    }

    fn extent(&self) -> (f64, f64) {
        let side = self.cpus.len() as f64;
        // The titles need their room on small machines too.
        let width = MARGIN.0 + (side * self.cell.0).max(150.0);
        (width, MARGIN.1 + side * self.cell.1 + 4.0)
    }

    /// Draws one map: a row for each measuring CPU, a column for each other CPU.
    fn paint(&self, svg: &mut String, statistic: ExchangeStatistic, at: (f64, f64)) {
        let (x, y) = (at.0 + MARGIN.0, at.1 + MARGIN.1);
        let _ = write!(
            svg,
            "<text class=\"title\" x=\"{x:.0}\" y=\"{:.0}\">{}</text>\
             <text class=\"left\" x=\"{:.0}\" y=\"{:.0}\">from \\ to</text>",
            at.1 + 20.0,
            statistic.0,
            x - 4.0,
            y - 6.0,
        );
        // Numbers that would touch are left out.
        let every = (18.0 / self.cell.0).ceil() as usize;
        for (place, cpu) in self.cpus.iter().enumerate().step_by(every) {
            let (column, row) = self.middle(place, place);
            let _ = write!(
                svg,
                "<text x=\"{:.1}\" y=\"{:.1}\">{}</text>\
                 <text class=\"left\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
                x + column,
                y - 6.0,
                cpu.0,
                x - 4.0,
                y + row + 4.0,
                cpu.0
            );
        }
        for exchange in self.exchanges {
            self.paint_cell(svg, exchange, statistic, (x, y));
        }
    }

    /// Returns the centre of a cell, relative to the corner of its map.
    fn middle(&self, column: usize, row: usize) -> (f64, f64) {
        let at = |place: usize, size: f64| (place as f64 + 0.5) * size;
        (at(column, self.cell.0), at(row, self.cell.1))
    }

    fn paint_cell(
        &self,
        svg: &mut String,
        exchange: &Exchange,
        of: ExchangeStatistic,
        at: (f64, f64),
    ) {
        let place = |cpu: Cpu| self.cpus.iter().position(|&other| other == cpu);
        let (Some(row), Some(column)) = (place(exchange.from), place(exchange.to)) else { return };
        let (x, y) = self.middle(column, row);
        let (x, y) = (at.0 + x, at.1 + y);
        let (width, height) = self.cell;
        let colour = self.colour(picos((of.1)(exchange)));
        let control = if exchange.from == exchange.to { " class=\"control\"" } else { "" };
        let _ = write!(
            svg,
            "<g><title>{}</title><rect{control} x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" \
             height=\"{:.1}\" fill=\"{}\"/>",
            self.hint(exchange),
            x - width / 2.0 + 0.5,
            y - height / 2.0 + 0.5,
            width - 1.0,
            height - 1.0,
            hex(colour)
        );
        if width >= 30.0 {
            let ink = if is_light(colour) { "on-light" } else { "on-dark" };
            let value = label::ns((of.1)(exchange));
            let _ = write!(
                svg,
                "<text class=\"{ink}\" x=\"{x:.1}\" y=\"{:.1}\">{value}</text>",
                y + 4.0
            );
        }
        svg.push_str("</g>");
    }

    /// Returns the tooltip of a cell.
    fn hint(&self, exchange: &Exchange) -> String {
        let Exchange { from, to, min, median, batches } = exchange;
        let class = label::exchange(self.platform.affinity(*from, *to));
        let [min, median] = [*min, *median].map(label::ns);
        format!(
            "{from} to {to} ({class}): shortest {min} ns, median {median} ns of {batches} batches"
        )
    }

    /// Returns the colour of a time, by its logarithm.
    fn colour(&self, picos: f64) -> [f64; 3] {
        let [least, most] = self.range.map(|end| end.max(1.0).ln());
        let share = if most > least { (picos.max(1.0).ln() - least) / (most - least) } else { 0.0 };
        ramp(share)
    }

    /// Draws the colour key.
    fn key(&self, svg: &mut String, y: f64) {
        const STEPS: usize = 40;
        let step = 200.0 / STEPS as f64;
        for place in 0..STEPS {
            let colour = hex(ramp(place as f64 / (STEPS - 1) as f64));
            let x = MARGIN.0 + place as f64 * step;
            let _ = write!(
                svg,
                "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"10\" fill=\"{colour}\"/>",
                step + 0.3
            );
        }
        let ends = self.range.map(|picos| label::ns(Latency::Picos(picos as u64)));
        for (x, end) in [MARGIN.0, MARGIN.0 + 200.0].into_iter().zip(ends) {
            let _ = write!(svg, "<text x=\"{x:.1}\" y=\"{:.1}\">{end} ns</text>", y + 24.0);
        }
    }
}

/// Collects the CPUs of nested boxes in the order of the machine's drawing.
fn leaves(blocks: &[SharingDomain<'_>], cpus: &mut Vec<Cpu>) {
    for block in blocks {
        if block.inside.is_empty() {
            cpus.extend(block.cpus.iter());
        }
        leaves(&block.inside, cpus);
    }
}

fn picos(latency: Latency) -> f64 {
    match latency {
        Latency::Picos(value) | Latency::MilliCycles(value) => value as f64,
    }
}

/// Returns the colour at a share of the ramp, 0 to 1.
fn ramp(share: f64) -> [f64; 3] {
    let at = share.clamp(0.0, 1.0) * (RAMP.len() - 1) as f64;
    let below = (at as usize).min(RAMP.len() - 2);
    let part = at - below as f64;
    std::array::from_fn(|i| RAMP[below][i] + part * (RAMP[below + 1][i] - RAMP[below][i]))
}

/// Returns whether the colour is so light that dark letters are more readable on it.
fn is_light([red, green, blue]: [f64; 3]) -> bool {
    0.299 * red + 0.587 * green + 0.114 * blue > 140.0
}

fn hex(colour: [f64; 3]) -> String {
    let [red, green, blue] = colour.map(|part| part.round() as u8);
    format!("#{red:02x}{green:02x}{blue:02x}")
}
