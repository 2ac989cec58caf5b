// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sections as one HTML file that needs no network.
//!
//! The words, tables, drawings and charts are in the HTML itself and are read without scripts; a script chooses which
//! drawing of a chart is shown. Whatever comes from data is escaped by `escape`.

mod key;

use std::fmt::Write as _;

use super::chart;
use super::escape::escape;
use super::figure::{FigureTable, PageSection};

const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

/// A page of these sections, with facts below its title.
pub(super) fn page_of(title: &str, facts: &[String], sections: &[PageSection]) -> String {
    whole(title, &facts_line(facts), sections)
}

pub(super) fn facts_line(facts: &[String]) -> String {
    format!("<p class=\"facts\">{}</p>", escape(&facts.join(" · ")))
}

/// A page of these sections; `subtitle` is HTML below its title.
pub(super) fn whole(title: &str, subtitle: &str, sections: &[PageSection]) -> String {
    // Writing to a string cannot fail, here and below.
    let mut body = String::new();
    for section in sections {
        body.push_str(&section_html(section));
    }
    let mut contents = String::new();
    for PageSection { id, title, .. } in sections {
        let _ = write!(contents, "<a href=\"#{}\">{}</a>", escape(id), escape(title));
    }
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"generator\" content=\"corehop {version}\">\n\
         <link rel=\"icon\" href=\"data:,\">\n<title>{title}</title>\n<style>\n{STYLE}</style>\n\
         </head>\n<body>\n<header>\n<div class=\"bar\"><span class=\"brand\">corehop</span>\
         <button type=\"button\" id=\"theme\" title=\"Dark or light\">Theme</button></div>\n\
         <h1>{title}</h1>\n{subtitle}\n<nav aria-label=\"Contents\">{contents}</nav>\n</header>\n\
         <main>\n{body}</main>\n<footer>Made by corehop {version}.</footer>\n<script>\n{SCRIPT}</script>\n</body>\n</html>\n",
        version = env!("CARGO_PKG_VERSION"),
        title = escape(title),
    )
}

fn section_html(section: &PageSection) -> String {
    let id = escape(&section.id);
    let mut html = format!("<section id=\"{id}\">\n<h2>{}</h2>\n", escape(&section.title));
    let many = section.id == "trust";
    if many {
        html.push_str("<ul>");
    }
    for paragraph in &section.text {
        let tag = if many { "li" } else { "p" };
        let _ = writeln!(html, "<{tag}>{}</{tag}>", with_code(&escape(paragraph)));
    }
    if many {
        html.push_str("</ul>\n");
    }
    if let Some(drawing) = &section.drawing {
        // The drawing is our own SVG: what it writes from data it has escaped.
        let _ = writeln!(
            html,
            "<figure class=\"drawing\" id=\"drawing-{id}\"><div class=\"tools\"><button type=\"button\" \
             class=\"save\">SVG</button></div><div class=\"scroll\">{drawing}</div></figure>"
        );
    }
    for figure in &section.figures {
        let _ = writeln!(
            html,
            "<figure class=\"chart\" id=\"{}\">{}{}\n{}</figure>",
            escape(&figure.id),
            chart::controls(figure),
            key::legend(figure),
            chart::plots(figure, &section.title),
        );
    }
    let folded = section.id == "provenance";
    for table in &section.tables {
        html.push_str(&if folded { facts_html(table) } else { table_html(table) });
    }
    html.push_str("</section>\n");
    html
}

fn table_html(table: &FigureTable) -> String {
    let open = if table.open { " open" } else { "" };
    let mut html = format!(
        "<details class=\"table\"{open}><summary>{}</summary><div class=\"scroll\"><table><thead><tr>",
        escape(&table.caption)
    );
    for (place, name) in table.head.iter().enumerate() {
        let mut fields = table.rows.iter().filter_map(|row| row.get(place));
        let right = place > 0 && fields.all(|field| is_numeric(field));
        let class = if right { " class=\"number\"" } else { "" };
        let _ = write!(html, "<th scope=\"col\"{class}>{}</th>", escape(name));
    }
    html.push_str("</tr></thead><tbody>");
    for row in &table.rows {
        html.push_str("<tr>");
        for (place, field) in row.iter().enumerate() {
            html.push_str(&field_html(place, field));
        }
        html.push_str("</tr>\n");
    }
    html.push_str("</tbody></table></div></details>\n");
    html
}

/// A field: the first of a row is its head, numbers stand to the right, words that judge stand out.
fn field_html(place: usize, field: &str) -> String {
    let text = escape(field);
    if place == 0 {
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

/// Whether a field is a number, with whatever belongs to it.
fn is_numeric(field: &str) -> bool {
    let value = field.trim_start_matches(super::table::IN_ERROR);
    value.starts_with(|c: char| c.is_ascii_digit() || c == '-' || c == '–')
        && field.chars().count() < 60
}

/// A list of facts, folded away.
fn facts_html(table: &FigureTable) -> String {
    let mut html =
        format!("<details class=\"facts\"><summary>{}</summary><dl>", escape(&table.caption));
    for row in &table.rows {
        if let [name, value] = row.as_slice() {
            let value = escape(value);
            let value = if value.contains('\n') { format!("<pre>{value}</pre>") } else { value };
            let _ = write!(html, "<dt>{}</dt><dd>{value}</dd>", escape(name));
        }
    }
    html.push_str("</dl></details>\n");
    html
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
