// SPDX-License-Identifier: MIT OR Apache-2.0
//! Writes sections as one HTML file that needs no network.
//!
//! The words, tables, drawings and charts are in the HTML itself and can be read without scripts; a script only chooses
//! which drawing of a chart is shown. The function `escape` escapes all text that comes from data.

mod front;
mod key;
mod thrift;

use std::fmt::Write as _;

use super::chart;
use super::escape::escape;
use super::figure::{Figure, FigureTable, PageSection, SectionPlace};
use super::front::PageFront;
use front::front_html;
use thrift::PageThrift;

const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

pub(super) fn facts_line(facts: &[String]) -> String {
    format!("<p class=\"facts\">{}</p>", escape(&facts.join(" · ")))
}

/// Writes a page with the first screen and the given sections, which are folded and ordered by their places. If the
/// page would be too large, the largest sections become extracts.
pub(super) fn page_of(front: &PageFront, sections: Vec<PageSection>) -> String {
    let sections = in_order(sections);
    let around = whole(front, &[], &[]).len();
    let all = |parts: &[String]| around + parts.iter().map(String::len).sum::<usize>();
    let write = |at: usize, step: usize| {
        let writer =
            SectionWriter { everything: &front.everything, thrift: PageThrift::STEPS[step] };
        writer.section(&sections[at])
    };
    let mut parts: Vec<String> = (0..sections.len()).map(|at| write(at, 0)).collect();
    let mut steps = vec![0; parts.len()];
    while all(&parts) > thrift::MOST_BYTES - PLACES {
        let open = (0..parts.len()).filter(|&at| steps[at] + 1 < PageThrift::STEPS.len());
        let weight = |at: usize| parts[at].len() / usize::from(keeps(&sections[at]));
        let Some(largest) = open.max_by_key(|&at| weight(at)) else { break };
        steps[largest] += 1;
        parts[largest] = write(largest, steps[largest]);
    }
    whole(front, &sections, &parts)
}

/// Returns the factor by which a section can stay larger than others: readers want the result, and drawings of the
/// machine cannot be shortened.
fn keeps(section: &PageSection) -> u8 {
    match section.place {
        SectionPlace::Result => 4,
        SectionPlace::Machine => 100,
        _ => 1,
    }
}

/// The room in bytes that is reserved for the headings of places.
const PLACES: usize = 1_000;

/// Returns the sections in the order that every page has.
fn in_order(mut sections: Vec<PageSection>) -> Vec<PageSection> {
    sections.sort_by_key(|it| it.place);
    sections
}

/// Returns the page with the given sections, whose HTML is in `parts`.
fn whole(front: &PageFront, sections: &[PageSection], parts: &[String]) -> String {
    let mut body = String::new();
    let mut before = None;
    for (section, part) in sections.iter().zip(parts) {
        if before != Some(section.place) {
            // Writing to a string cannot fail, here and below.
            let _ = writeln!(body, "<p class=\"place\">{}</p>", section.place.heading());
        }
        before = Some(section.place);
        body.push_str(part);
    }
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"generator\" content=\"corehop {version}\">\n\
         <link rel=\"icon\" href=\"data:,\">\n<title>{title}</title>\n<style>\n{STYLE}</style>\n\
         </head>\n<body>\n<header>\n<div class=\"bar\"><span class=\"brand\">corehop</span>\
         <button type=\"button\" id=\"theme\" title=\"Dark or light\">Theme</button></div>\n\
         <h1>{title}</h1>\n{front}</header>\n\
         <main>\n{body}</main>\n<footer>Made by corehop {version}.</footer>\n<script>\n{SCRIPT}</script>\n</body>\n</html>\n",
        version = env!("CARGO_PKG_VERSION"),
        title = escape(&front.title),
        front = front_html(front),
    )
}

/// Writes a section of a page as HTML.
struct SectionWriter<'a> {
    /// The command that prints the complete result.
    everything: &'a str,
    thrift: PageThrift,
}

impl SectionWriter<'_> {
    fn section(&self, section: &PageSection) -> String {
        let id = escape(&section.id);
        let mut html = format!(
            "<section id=\"{id}\">\n<details class=\"fold\"><summary><h2>{}</h2></summary>\n",
            escape(&section.title)
        );
        html.push_str(&paragraphs(section));
        html.push_str(&self.drawing(section));
        for figure in &section.figures {
            html.push_str(&self.figure(figure, &section.title));
        }
        let is_origin = section.place == SectionPlace::Origin;
        for table in section.tables.iter().take(self.thrift.tables) {
            html.push_str(&if is_origin { self.facts(table) } else { self.table(table) });
        }
        let left_out = section.tables.len().saturating_sub(self.thrift.tables);
        if left_out > 0 {
            let _ = writeln!(
                html,
                "<p class=\"extract\">An extract: {left_out} further tables are omitted.{}</p>",
                self.rest()
            );
        }
        html + "</details>\n</section>\n"
    }

    /// Returns the sentence about the part that an extract leaves out.
    fn rest(&self) -> String {
        if self.everything.is_empty() {
            return String::new();
        }
        format!(" <code>{}</code> prints everything.", escape(self.everything))
    }

    fn drawing(&self, section: &PageSection) -> String {
        let Some(drawing) = &section.drawing else { return String::new() };
        let id = escape(&section.id);
        if drawing.len() > self.thrift.drawing {
            return format!(
                "<p class=\"extract\">The drawing is omitted because the page would be too large.{}</p>\n",
                self.rest()
            );
        }
        // The drawing is our own SVG: what it writes from data it has escaped.
        format!(
            "<figure class=\"drawing\" id=\"drawing-{id}\"><div class=\"tools\"><button type=\"button\" \
             class=\"save\">SVG</button></div><div class=\"scroll\">{drawing}</div></figure>\n"
        )
    }

    fn figure(&self, figure: &Figure, title: &str) -> String {
        let (figure, extract) = self.thrift.figure(figure);
        let extract = extract.map_or_else(String::new, |what| {
            format!("<p class=\"extract\">{what}{}</p>", self.rest())
        });
        format!(
            "<figure class=\"chart\" id=\"{}\">{}{}\n{}{extract}</figure>\n",
            escape(&figure.id),
            chart::controls(&figure),
            key::legend(&figure),
            chart::plots(&figure, title, self.thrift.detail),
        )
    }

    fn table(&self, table: &FigureTable) -> String {
        let open = if table.open { " open" } else { "" };
        let mut html = format!(
            "<details class=\"table\"{open}><summary>{}</summary><div class=\"scroll\" tabindex=\"0\"><table><thead><tr>",
            escape(&table.caption)
        );
        for (place, name) in table.head.iter().enumerate() {
            let mut fields = table.rows.iter().filter_map(|row| row.get(place));
            let right = place > 0 && fields.all(|field| is_numeric(field));
            let class = if right { " class=\"number\"" } else { "" };
            let _ = write!(html, "<th scope=\"col\"{class}>{}</th>", escape(name));
        }
        html.push_str("</tr></thead><tbody>");
        for row in table.rows.iter().take(self.thrift.rows) {
            html.push_str("<tr>");
            for (place, field) in row.iter().enumerate() {
                html.push_str(&field_html(place, field));
            }
            html.push_str("</tr>\n");
        }
        html.push_str("</tbody></table></div>");
        let left_out = table.rows.len().saturating_sub(self.thrift.rows);
        if left_out > 0 {
            let _ = write!(
                html,
                "<p class=\"extract\">An extract: the first {} of {} rows.{}</p>",
                self.thrift.rows,
                table.rows.len(),
                self.rest()
            );
        }
        html + "</details>\n"
    }

    /// Returns a folded list of facts; the end of a very long fact is left out.
    fn facts(&self, table: &FigureTable) -> String {
        let mut html =
            format!("<details class=\"facts\"><summary>{}</summary><dl>", escape(&table.caption));
        for row in &table.rows {
            if let [name, value] = row.as_slice() {
                let text: String = value.chars().take(self.thrift.fact).collect();
                let cut = if text.len() < value.len() {
                    "… (`corehop report contents FILE --json` prints the whole value)"
                } else {
                    ""
                };
                let value = escape(&(text + cut));
                let value = if value.contains('\n') {
                    format!("<pre tabindex=\"0\">{value}</pre>")
                } else {
                    value
                };
                let _ = write!(html, "<dt>{}</dt><dd>{value}</dd>", escape(name));
            }
        }
        html + "</dl></details>\n"
    }
}

/// Returns the text of a section; if each paragraph is a separate reason, the paragraphs become a list.
fn paragraphs(section: &PageSection) -> String {
    let is_list = section.id == "trust";
    let tag = if is_list { "li" } else { "p" };
    let mut html = if is_list { "<ul>".to_owned() } else { String::new() };
    for paragraph in &section.text {
        let _ = writeln!(html, "<{tag}>{}</{tag}>", with_code(&escape(paragraph)));
    }
    html + if is_list { "</ul>\n" } else { "" }
}

/// Returns a field of a table: the first field of a row is its head, numbers are aligned to the right, and words that
/// state a verdict are highlighted.
fn field_html(place: usize, field: &str) -> String {
    let text = escape(field);
    if place == 0 && !field.is_empty() {
        return format!("<th scope=\"row\">{text}</th>");
    }
    let class = match field {
        "holds" | "observed" | "ok" | "fits" => " class=\"good\"",
        "does not hold" | "contradicted" | "warning" | "obstacle" | "contradicts" => {
            " class=\"bad\""
        }
        "cannot tell" | "note" | "open" => " class=\"dim\"",
        _ if is_numeric(field) => " class=\"number\"",
        _ if field.chars().count() > 40 => " class=\"prose\"",
        _ => "",
    };
    format!("<td{class}>{text}</td>")
}

/// Returns whether a field is a number, possibly with a unit or an interval.
fn is_numeric(field: &str) -> bool {
    let value = field.trim_start_matches(super::table::IN_ERROR);
    value.starts_with(|c: char| c.is_ascii_digit() || c == '-' || c == '–')
        && field.chars().count() < 60
}

/// Turns text between backticks into code.
fn with_code(escaped: &str) -> String {
    let mut html = String::new();
    for (place, part) in escaped.split('`').enumerate() {
        let open = if place % 2 == 1 { "<code>" } else { "" };
        let close = if place % 2 == 1 { "</code>" } else { "" };
        let _ = write!(html, "{open}{part}{close}");
    }
    html
}
