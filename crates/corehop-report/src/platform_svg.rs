// SPDX-License-Identifier: MIT OR Apache-2.0
//! A machine as a drawing of nested boxes, in a single SVG file that needs no other file and fits dark and
//! light pages.

use std::fmt::Write as _;

use super::escape::escape_xml;
use super::label;
use corehop_plan::platform::Platform;
use corehop_plan::platform::tree::{SharingDomain, TopologyDomain};

/// The greatest width of a drawing in pixels, before the drawing continues its boxes in another row.
const WIDEST: f64 = 1_000.0;
/// The ratio of width to height that the arrangement of the boxes aims at.
const ASPECT: f64 = 1.9;
/// The width of a character in the font of the labels.
const CHARACTER: f64 = 6.4;
/// The height of a line of a label.
const LINE: f64 = 15.0;

/// The amount of text in the boxes of a machine's drawing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Density {
    /// Every box of the drawing has a label.
    Roomy,
    /// The boxes of cores have no labels, because the legend says what a core has.
    Dense,
    /// The boxes of cores have no labels, and all boxes are small.
    Tiny,
}

impl Density {
    fn of(cpus: usize) -> Self {
        match cpus {
            ..=16 => Self::Roomy,
            17..=64 => Self::Dense,
            _ => Self::Tiny,
        }
    }
    /// Returns the width and height of the box of a CPU.
    fn cell(self) -> (f64, f64) {
        match self {
            Self::Roomy => (58.0, 26.0),
            Self::Dense => (32.0, 20.0),
            Self::Tiny => (24.0, 15.0),
        }
    }
    /// Returns the space between two boxes, and between a box and the boxes inside it.
    fn gap(self) -> f64 {
        match self {
            Self::Roomy => 8.0,
            Self::Dense => 5.0,
            Self::Tiny => 3.0,
        }
    }
}

/// A box with its place relative to the box around it.
struct LayoutBox<'a> {
    block: &'a SharingDomain<'a>,
    x: f64,
    y: f64,
    width: f64,
    height: f64,
    lines: Vec<String>,
    inside: Vec<LayoutBox<'a>>,
}

/// Draws a machine as SVG. The colours follow the reader's preference, or the attribute `data-theme="dark"`
/// or `data-theme="light"` of the root of the page that holds the drawing.
pub fn draw(platform: &Platform) -> String {
    let tree = platform.tree();
    let density = Density::of(tree.cpus.len());
    let boxes = grid(tree.inside.iter().map(|block| place(block, density)).collect(), density);
    let notes = notes(platform, density);
    let longest =
        notes.iter().map(|note| text_width(note)).fold(text_width(&platform.name) * 1.4, f64::max);
    let gap = density.gap().max(6.0);
    let top = 30.0;
    let width = (boxes.width + 2.0 * gap).max(longest + 2.0 * gap);
    let height = top + boxes.height + gap + LINE * notes.len() as f64 + 8.0;

    let mut svg = String::new();
    head(&mut svg, platform, width, height);
    text(&mut svg, "name", gap, 20.0, &platform.name);
    for placed in &boxes.items {
        paint(&mut svg, platform, placed, (gap, top), density);
    }
    for (place, note) in notes.iter().enumerate() {
        let y = top + boxes.height + gap + LINE * (place as f64 + 0.8);
        text(&mut svg, "note", gap, y, note);
    }
    svg.push_str("</g></svg>\n");
    svg
}

fn head(svg: &mut String, platform: &Platform, width: f64, height: f64) {
    let name = escape_xml(&platform.name);
    // Writing to a string cannot fail, here and below.
    let _ = write!(
        svg,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\" \
         width=\"{width:.0}\" height=\"{height:.0}\" role=\"img\" \
         style=\"max-width:100%;height:auto\"><title>{name}</title>\
         <style>{STYLE}</style><g class=\"corehop-platform\">\
         <rect class=\"page\" width=\"100%\" height=\"100%\"/>"
    );
}

/// The style sheet of a drawing has its colours as variables, with one set for light pages and one for dark
/// pages. All names in the style sheet are local to the drawing, so that the drawing can stand in a page
/// with styles of its own.
const STYLE: &str = "\
.corehop-platform{--page:#ffffff;--ink:#1d2733;--dim:#5b6875;--edge:#8794a3;--node:#f3f5f8;\
--cache:#dfe9f5;--core:#fff6e3;--cpu:#ffffff;--off:#e9e9e9;--bad:#b3261e;\
font-family:system-ui,-apple-system,'Segoe UI',Roboto,sans-serif}\
:root[data-theme=dark] .corehop-platform{--page:#14181d;--ink:#e6ebf1;--dim:#9aa7b5;--edge:#66727f;\
--node:#1c2229;--cache:#22334a;--core:#3a3222;--cpu:#171c22;--off:#2b2b2b;--bad:#ff8a80}\
@media (prefers-color-scheme:dark){:root:not([data-theme=light]) .corehop-platform{--page:#14181d;\
--ink:#e6ebf1;--dim:#9aa7b5;--edge:#66727f;--node:#1c2229;--cache:#22334a;--core:#3a3222;\
--cpu:#171c22;--off:#2b2b2b;--bad:#ff8a80}}\
.corehop-platform .page{fill:var(--page)}\
.corehop-platform .box{stroke:var(--edge);stroke-width:1}\
.corehop-platform .node{fill:var(--node)}.corehop-platform .cache{fill:var(--cache)}\
.corehop-platform .core{fill:var(--core)}.corehop-platform .cpu{fill:var(--cpu)}\
.corehop-platform .off{fill:var(--off);stroke-dasharray:3 2}\
.corehop-platform .bad{stroke:var(--bad);stroke-width:2}\
.corehop-platform text{fill:var(--ink);font-size:11px}\
.corehop-platform .name{font-size:15px;font-weight:600}\
.corehop-platform .note,.corehop-platform .dim{fill:var(--dim)}\
.corehop-platform .number{text-anchor:middle}.corehop-platform .tiny{font-size:9px}";

/// Measures a block of the machine and arranges the blocks inside it.
fn place<'a>(block: &'a SharingDomain<'a>, density: Density) -> LayoutBox<'a> {
    let (x, y, inside) = (0.0, 0.0, Vec::new());
    if block.inside.is_empty() {
        let (width, height) = density.cell();
        return LayoutBox { block, x, y, width, height, lines: Vec::new(), inside };
    }
    let gap = density.gap();
    let grid = grid(block.inside.iter().map(|inner| place(inner, density)).collect(), density);
    let lines = lines(block, density, grid.width);
    let longest = lines.iter().map(|line| text_width(line)).fold(grid.width, f64::max);
    let top = if lines.is_empty() { gap } else { LINE * lines.len() as f64 + 4.0 };
    let mut inside = grid.items;
    for inner in &mut inside {
        inner.x += gap;
        inner.y += top;
    }
    let (width, height) = (longest + 2.0 * gap, top + grid.height + gap);
    LayoutBox { block, x, y, width, height, lines, inside }
}

/// Boxes in rows and columns, with the space that they need together.
struct BoxGrid<'a> {
    items: Vec<LayoutBox<'a>>,
    width: f64,
    height: f64,
}

/// Arranges boxes in rows: up to four innermost boxes in a single row, and other boxes in as many columns as
/// [`columns`] finds best.
fn grid(mut items: Vec<LayoutBox<'_>>, density: Density) -> BoxGrid<'_> {
    let gap = density.gap();
    // SMT siblings stand side by side.
    let leaves = items.len() <= 4 && items.iter().all(|item| item.block.inside.is_empty());
    let columns = if leaves { items.len() } else { columns(&items, gap) };
    let (width, height) = extent(&items, columns, gap);
    let mut y = 0.0;
    for row in items.chunks_mut(columns.max(1)) {
        let high = row.iter().map(|item| item.height).fold(0.0, f64::max);
        let mut x = 0.0;
        for item in row {
            (item.x, item.y, item.height) = (x, y, high);
            x += item.width + gap;
        }
        y += high + gap;
    }
    BoxGrid { items, width, height }
}

/// Returns the space that boxes need if each row has `columns` boxes.
fn extent(items: &[LayoutBox<'_>], columns: usize, gap: f64) -> (f64, f64) {
    let (mut width, mut height) = (0.0, -gap);
    for row in items.chunks(columns.max(1)) {
        width = f64::max(width, row.iter().map(|item| item.width + gap).sum::<f64>() - gap);
        height += row.iter().map(|item| item.height).fold(0.0, f64::max) + gap;
    }
    (width, f64::max(height, 0.0))
}

/// Returns the number of boxes in a row that comes nearest to [`ASPECT`] and leaves the least empty space.
fn columns(items: &[LayoutBox<'_>], gap: f64) -> usize {
    let filled: f64 = items.iter().map(|item| item.width * item.height).sum();
    let ugliness = |&columns: &usize| {
        let (width, height) = extent(items, columns, gap);
        (width / height / ASPECT).ln().abs() + width * height / filled
    };
    let fits = |&columns: &usize| columns == 1 || extent(items, columns, gap).0 <= WIDEST;
    let counts = (1..=items.len()).filter(fits);
    counts.min_by(|a, b| ugliness(a).total_cmp(&ugliness(b))).unwrap_or(1)
}

/// Breaks the label of a block into lines that are about as wide as the boxes inside it.
fn lines(block: &SharingDomain<'_>, density: Density, room: f64) -> Vec<String> {
    let inner = block.cpus.len() == 1 || block.is_core();
    if inner && density != Density::Roomy {
        return Vec::new();
    }
    let mut lines: Vec<String> = Vec::new();
    for part in block.parts.iter().map(|&part| label::part(part)) {
        match lines.last_mut() {
            Some(line) if text_width(line) + text_width(&part) + 16.0 <= room.max(150.0) => {
                line.push_str(" · ");
                line.push_str(&part);
            }
            _ => lines.push(part),
        }
    }
    lines
}

fn text_width(text: &str) -> f64 {
    text.chars().count() as f64 * CHARACTER
}

/// Returns notes below the boxes: the parts of a core that no box shows, the CPUs that cannot be used, and
/// the errors found.
fn notes(platform: &Platform, density: Density) -> Vec<String> {
    let mut notes = Vec::new();
    if density != Density::Roomy {
        let private = platform
            .caches
            .iter()
            .filter(|cache| cache.instances.value.straddling(&platform.cores.value).is_none());
        notes.extend(private.map(|cache| {
            let cpus = cache.instances.value.cpus();
            let all = cpus == platform.cores.value.cpus();
            let owner = if all { "each core".to_owned() } else { label::cpus(&cpus) };
            format!("{owner}: {}", label::cache(cache))
        }));
    }
    for kind in &platform.core_kinds {
        let capacity = kind.capacity.as_ref();
        let capacity = capacity.map_or(String::new(), |fact| format!(", capacity {}", fact.value));
        notes.push(format!("{}: {}{capacity}", kind.name, label::cpus(&kind.cpus.value)));
    }
    for (reason, cpus) in label::all_unusable(platform) {
        notes.push(format!("{reason}: {}", label::cpus(&cpus)));
    }
    notes.extend(platform.caches.iter().flat_map(label::doubts));
    notes
}

fn paint(
    svg: &mut String,
    platform: &Platform,
    placed: &LayoutBox<'_>,
    at: (f64, f64),
    density: Density,
) {
    let (x, y) = (at.0 + placed.x, at.1 + placed.y);
    let (width, height) = (placed.width, placed.height);
    let _ = write!(
        svg,
        "<g><title>{}</title><rect class=\"box {}\" x=\"{x:.1}\" y=\"{y:.1}\" \
         width=\"{width:.1}\" height=\"{height:.1}\" rx=\"3\"/>",
        escape_xml(&tooltip(platform, placed.block)),
        style(platform, placed.block),
    );
    if let [TopologyDomain::Cpu(cpu)] = placed.block.parts[..] {
        let (middle, base) = (x + width / 2.0, y + height / 2.0 + 3.5);
        match density {
            Density::Roomy => text(svg, "number", middle, base, &cpu.to_string()),
            Density::Dense => text(svg, "number", middle, base, &cpu.0.to_string()),
            Density::Tiny => text(svg, "number tiny", middle, base, &cpu.0.to_string()),
        }
    }
    for (place, line) in placed.lines.iter().enumerate() {
        let base = y + LINE * (place as f64 + 0.85);
        text(svg, if place == 0 { "label" } else { "dim" }, x + density.gap(), base, line);
    }
    for inner in &placed.inside {
        paint(svg, platform, inner, (x, y), density);
    }
    svg.push_str("</g>");
}

/// Returns the style classes that colour the box of a block.
fn style(platform: &Platform, block: &SharingDomain<'_>) -> &'static str {
    if let [TopologyDomain::Cpu(cpu)] = block.parts[..] {
        return if label::unusable(platform, cpu).is_some() { "cpu off" } else { "cpu" };
    }
    let has = |wanted: fn(&TopologyDomain<'_>) -> bool| block.parts.iter().any(wanted);
    let doubted = |part: &TopologyDomain<'_>| matches!(part, TopologyDomain::Cache(cache) if label::doubted(cache));
    match (has(|part| matches!(part, TopologyDomain::Cache(_))), block.is_core(), has(doubted)) {
        (_, _, true) => "cache bad",
        (_, true, _) => "core",
        (true, ..) => "cache",
        _ => "node",
    }
}

/// Returns the tooltip of the box of a block.
fn tooltip(platform: &Platform, block: &SharingDomain<'_>) -> String {
    let mut lines: Vec<String> = block
        .parts
        .iter()
        .map(|&part| match part {
            TopologyDomain::Cache(cache) => label::cache(cache),
            other => label::part(other),
        })
        .collect();
    if let [TopologyDomain::Cpu(cpu)] = block.parts[..] {
        lines.extend(label::unusable(platform, cpu).map(ToOwned::to_owned));
    } else {
        lines.push(label::cpus(&block.cpus));
    }
    lines.join("\n")
}

fn text(svg: &mut String, class: &str, x: f64, y: f64, words: &str) {
    let words = escape_xml(words);
    let _ = write!(svg, "<text class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\">{words}</text>");
}
