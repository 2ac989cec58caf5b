// SPDX-License-Identifier: MIT OR Apache-2.0
//! A drawing of lines, shapes and words for a paper, which corehop writes as SVG and as PDF.
//!
//! The SVG and the PDF of a drawing have the same coordinates, counted from the upper left corner. The text of a
//! drawing is in Helvetica, which each PDF reader has, and the PDF shows a question mark for each character outside
//! Latin-1.

use std::fmt::Write as _;

use super::escape::escape_xml as escape;

/// The points of a PDF per unit of a drawing, so that 460 units are as wide as a column of a paper with two columns.
const POINTS: f64 = 0.55;
/// The distance of a circle's control points as a part of the circle's radius.
const ROUND: f64 = 0.5523;

/// A drawing to which the code adds marks.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct PaperDrawing {
    width: f64,
    height: f64,
    label: String,
    marks: Vec<PaperMark>,
}

/// The side of a place on which a text lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TextSide {
    Right,
    Middle,
    Left,
}

/// The form of a point, so that readers can tell points apart without colours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PointForm {
    Disc,
    Square,
    Diamond,
}

/// A part of a drawing, whose colours are six hexadecimal digits.
#[derive(Debug, Clone, PartialEq)]
enum PaperMark {
    Stroke {
        from: (f64, f64),
        to: (f64, f64),
        width: f64,
        colour: &'static str,
    },
    Point {
        at: (f64, f64),
        form: PointForm,
        colour: &'static str,
    },
    Text {
        at: (f64, f64),
        size: f64,
        side: TextSide,
        bold: bool,
        colour: &'static str,
        text: String,
    },
}

/// The radius of a point in a drawing.
const RADIUS: f64 = 5.0;

impl PaperDrawing {
    pub(super) fn new(width: f64, height: f64, label: &str) -> Self {
        Self { width, height, label: label.to_owned(), marks: Vec::new() }
    }

    pub(super) fn stroke(
        &mut self,
        from: (f64, f64),
        to: (f64, f64),
        width: f64,
        colour: &'static str,
    ) {
        self.marks.push(PaperMark::Stroke { from, to, width, colour });
    }

    pub(super) fn point(&mut self, at: (f64, f64), form: PointForm, colour: &'static str) {
        self.marks.push(PaperMark::Point { at, form, colour });
    }

    pub(super) fn text(
        &mut self,
        at: (f64, f64),
        size: f64,
        side: TextSide,
        colour: &'static str,
        text: &str,
    ) {
        let bold = false;
        self.marks.push(PaperMark::Text { at, size, side, bold, colour, text: text.to_owned() });
    }

    pub(super) fn bold(&mut self, at: (f64, f64), size: f64, side: TextSide, text: &str) {
        let (bold, colour) = (true, "1c2733");
        self.marks.push(PaperMark::Text { at, size, side, bold, colour, text: text.to_owned() });
    }

    /// Writes the drawing as an SVG file that needs no other file.
    pub(super) fn svg(&self) -> String {
        let Self { width, height, label, marks } = self;
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" \
             height=\"{height}\" font-family=\"Helvetica, Arial, sans-serif\" role=\"img\" aria-label=\"{}\">\n\
             <rect width=\"{width}\" height=\"{height}\" fill=\"#fff\"/>\n",
            escape(label)
        );
        svg.extend(marks.iter().map(PaperMark::svg));
        svg + "</svg>\n"
    }

    /// Writes the drawing as a PDF of one page.
    pub(super) fn pdf(&self) -> Vec<u8> {
        let mut stream = format!("{POINTS} 0 0 {POINTS} 0 0 cm\n").into_bytes();
        for mark in &self.marks {
            stream.extend(latin(&mark.pdf(self.height)));
        }
        let page = format!(
            "<</Type/Page/Parent 2 0 R/MediaBox[0 0 {:.1} {:.1}]/Contents 4 0 R/Resources<</Font<</F1 5 0 R/F2 6 0 R>>>>>>",
            POINTS * self.width,
            POINTS * self.height
        );
        let font = |name: &str| {
            format!("<</Type/Font/Subtype/Type1/BaseFont/{name}/Encoding/WinAnsiEncoding>>")
                .into_bytes()
        };
        let head = format!("<</Length {}>>\nstream\n", stream.len()).into_bytes();
        document(&[
            b"<</Type/Catalog/Pages 2 0 R>>".to_vec(),
            b"<</Type/Pages/Kids[3 0 R]/Count 1>>".to_vec(),
            page.into_bytes(),
            [head, stream, b"endstream".to_vec()].concat(),
            font("Helvetica"),
            font("Helvetica-Bold"),
        ])
    }
}

/// Writes a PDF that consists of these objects, of which the first is the catalogue.
fn document(objects: &[Vec<u8>]) -> Vec<u8> {
    let mut pdf = b"%PDF-1.4\n".to_vec();
    let mut places = String::new();
    for (at, object) in objects.iter().enumerate() {
        // Writing to a string cannot fail, here and below.
        let _ = writeln!(places, "{:010} 00000 n ", pdf.len());
        pdf.extend(format!("{} 0 obj\n", at + 1).bytes());
        pdf.extend(object);
        pdf.extend(b"\nendobj\n");
    }
    let (start, count) = (pdf.len(), objects.len() + 1);
    let end = format!(
        "xref\n0 {count}\n0000000000 65535 f \n{places}trailer\n<</Size {count}/Root 1 0 R>>\nstartxref\n{start}\n%%EOF\n"
    );
    pdf.extend(end.bytes());
    pdf
}

/// Returns the bytes of a text in the encoding of the PDF's fonts.
fn latin(text: &str) -> Vec<u8> {
    let byte = |letter: char| match letter {
        '–' => 0x96,
        '…' => 0x85,
        '’' => 0x92,
        '\n' => b'\n',
        ' '..='~' | '\u{a1}'..='\u{ff}' => letter as u8,
        _ => b'?',
    };
    text.chars().map(byte).collect()
}

impl PaperMark {
    fn svg(&self) -> String {
        match self {
            Self::Stroke { from, to, width, colour } => format!(
                "<path d=\"M{:.1} {:.1}L{:.1} {:.1}\" stroke=\"#{colour}\" stroke-width=\"{width}\"/>\n",
                from.0, from.1, to.0, to.1
            ),
            Self::Point { at: (x, y), form: PointForm::Disc, colour } => {
                format!("<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{RADIUS}\" fill=\"#{colour}\"/>\n")
            }
            Self::Point { at, form, colour } => {
                let corners = corners(*at, *form).map(|(x, y)| format!("{x:.1} {y:.1}"));
                format!("<path d=\"M{}z\" fill=\"#{colour}\"/>\n", corners.join("L"))
            }
            Self::Text { at: (x, y), size, side, bold, colour, text } => {
                let anchor = match side {
                    TextSide::Right => "start",
                    TextSide::Middle => "middle",
                    TextSide::Left => "end",
                };
                let weight = if *bold { " font-weight=\"bold\"" } else { "" };
                format!(
                    "<text x=\"{x:.1}\" y=\"{y:.1}\" font-size=\"{size}\" text-anchor=\"{anchor}\" fill=\"#{colour}\"{weight}>{}</text>\n",
                    escape(text)
                )
            }
        }
    }

    /// Writes the PDF operators of a mark, and flips its vertical coordinates because PDF coordinates rise from the
    /// lower edge.
    fn pdf(&self, height: f64) -> String {
        let up = |(x, y): (f64, f64)| (x, height - y);
        match self {
            Self::Stroke { from, to, width, colour } => {
                let ((x, y), (right, above)) = (up(*from), up(*to));
                format!("{} RG {width} w {x:.2} {y:.2} m {right:.2} {above:.2} l S\n", rgb(colour))
            }
            Self::Point { at, form: PointForm::Disc, colour } => {
                format!("{} rg {} f\n", rgb(colour), circle(up(*at)))
            }
            Self::Point { at, form, colour } => {
                let path = corners(up(*at), *form).map(|(x, y)| format!("{x:.2} {y:.2}"));
                format!("{} rg {} m {} l h f\n", rgb(colour), path[0], path[1..].join(" l "))
            }
            Self::Text { at, size, side, bold, colour, text } => {
                let (x, y) = up(*at);
                let room = room(text, *size, *bold);
                let x = match side {
                    TextSide::Right => x,
                    TextSide::Middle => x - room / 2.0,
                    TextSide::Left => x - room,
                };
                let font = if *bold { "F2" } else { "F1" };
                let mut shown = String::new();
                for letter in text.replace('→', "->").chars() {
                    if matches!(letter, '(' | ')' | '\\') {
                        shown.push('\\');
                    }
                    shown.push(if letter == '\n' { ' ' } else { letter });
                }
                format!(
                    "{} rg BT /{font} {size} Tf {x:.2} {y:.2} Td ({shown}) Tj ET\n",
                    rgb(colour)
                )
            }
        }
    }
}

/// Returns the four corners of a square or a diamond around a place.
fn corners((x, y): (f64, f64), form: PointForm) -> [(f64, f64); 4] {
    let r = RADIUS;
    match form {
        PointForm::Diamond => {
            [(x, y - 1.2 * r), (x + 1.2 * r, y), (x, y + 1.2 * r), (x - 1.2 * r, y)]
        }
        _ => [(x - r, y - r), (x + r, y - r), (x + r, y + r), (x - r, y + r)],
    }
}

/// Writes a circle as four curves, because PDF has no circles.
fn circle((x, y): (f64, f64)) -> String {
    let (r, k) = (RADIUS, RADIUS * ROUND);
    let place = |(right, up): (f64, f64)| format!("{:.2} {:.2}", x + right, y + up);
    let curve = |points: [(f64, f64); 3]| points.map(place).join(" ") + " c";
    let curves = [
        curve([(r, k), (k, r), (0.0, r)]),
        curve([(-k, r), (-r, k), (-r, 0.0)]),
        curve([(-r, -k), (-k, -r), (0.0, -r)]),
        curve([(k, -r), (r, -k), (r, 0.0)]),
    ];
    format!("{:.2} {y:.2} m {}", x + r, curves.join(" "))
}

/// Turns a colour of six hexadecimal digits into three shares of red, green and blue.
fn rgb(colour: &str) -> String {
    let part = |at: usize| {
        let byte = colour.get(at..at + 2).and_then(|it| u8::from_str_radix(it, 16).ok());
        format!("{:.3}", f64::from(byte.unwrap_or(0)) / 255.0)
    };
    [part(0), part(2), part(4)].join(" ")
}

/// The widths of Helvetica's characters from the space to the tilde, in thousandths of the font size.
const WIDTHS: [u16; 95] = [
    278, 278, 355, 556, 556, 889, 667, 191, 333, 333, 389, 584, 278, 333, 278, 278, 556, 556, 556,
    556, 556, 556, 556, 556, 556, 556, 278, 278, 584, 584, 584, 556, 1015, 667, 667, 722, 722, 667,
    611, 778, 722, 278, 500, 667, 556, 833, 722, 778, 667, 778, 722, 667, 611, 722, 667, 944, 667,
    667, 611, 278, 278, 278, 469, 556, 333, 556, 556, 500, 556, 556, 278, 556, 556, 222, 222, 500,
    222, 833, 556, 556, 556, 556, 333, 500, 278, 556, 500, 722, 500, 500, 500, 334, 260, 334, 584,
];

/// Returns the width that a text takes in Helvetica, where bold letters are a little wider than others.
pub(super) fn room(text: &str, size: f64, bold: bool) -> f64 {
    let width = |letter: char| {
        let place = (letter as usize).checked_sub(32);
        place.and_then(|at| WIDTHS.get(at)).copied().unwrap_or(556)
    };
    let sum: f64 = text.chars().map(|letter| f64::from(width(letter))).sum();
    sum / 1000.0 * size * if bold { 1.06 } else { 1.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn() -> PaperDrawing {
        let mut drawing = PaperDrawing::new(100.0, 50.0, "a <label>");
        drawing.stroke((10.0, 5.0), (90.0, 5.0), 1.0, "0072b2");
        for form in [PointForm::Disc, PointForm::Square, PointForm::Diamond] {
            drawing.point((20.0, 20.0), form, "d55e00");
        }
        drawing.text((50.0, 40.0), 10.0, TextSide::Middle, "1c2733", "5 µs (a\\b) <c> 漢");
        drawing.bold((90.0, 40.0), 10.0, TextSide::Left, "9");
        drawing
    }

    #[test]
    fn the_same_marks_are_in_both_forms() {
        let (svg, pdf) = (drawn().svg(), drawn().pdf());
        assert!(svg.contains("M10.0 5.0L90.0 5.0") && svg.contains("#0072b2"), "{svg}");
        let text = String::from_utf8_lossy(&pdf).into_owned();
        assert!(text.contains("0.000 0.447 0.698 RG 1 w 10.00 45.00 m 90.00 45.00 l S"), "{text}");
        assert_eq!(
            (svg.matches("#d55e00").count(), text.matches("0.835 0.369 0.000 rg").count()),
            (3, 3)
        );
    }

    #[test]
    fn words_from_data_cannot_leave_their_place() {
        let (svg, pdf) = (drawn().svg(), drawn().pdf());
        assert!(svg.contains("a &lt;label&gt;") && svg.contains("&lt;c&gt;"), "{svg}");
        let wanted = b"(5 \xb5s \\(a\\\\b\\) <c> ?) Tj";
        assert!(pdf.windows(wanted.len()).any(|it| it == wanted));
    }

    #[test]
    fn each_object_of_a_pdf_is_where_its_table_says() {
        let pdf = drawn().pdf();
        let text: String = pdf.iter().map(|&byte| char::from(byte)).collect();
        let start: usize =
            text.rsplit("startxref\n").next().unwrap().lines().next().unwrap().parse().unwrap();
        assert!(text[byte_of(&text, start)..].starts_with("xref\n0 7\n"));
        let places = text.lines().filter(|line| line.ends_with(" 00000 n "));
        let places: Vec<usize> = places.map(|line| line[..10].parse().unwrap()).collect();
        assert_eq!(places.len(), 6);
        for (at, place) in places.into_iter().enumerate() {
            assert!(pdf[place..].starts_with(format!("{} 0 obj\n", at + 1).as_bytes()), "{at}");
        }
    }

    /// Returns the byte position of the character number `at` in a text.
    fn byte_of(text: &str, at: usize) -> usize {
        text.char_indices().nth(at).unwrap().0
    }

    #[test]
    fn a_text_before_its_place_ends_there() {
        let text = String::from_utf8_lossy(&drawn().pdf()).into_owned();
        // A bold digit of size ten is 5.9 wide.
        assert!(text.contains("/F2 10 Tf 84.11 10.00 Td (9)"), "{text}");
    }
}
