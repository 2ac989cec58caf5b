// SPDX-License-Identifier: MIT OR Apache-2.0
//! Writes the first screen as HTML: the answer, its certainty, the chart with download links, and the next
//! command.

use std::fmt::Write as _;

use crate::escape::escape;
use crate::front::{PageFront, SurenessCheck, WordedChart};
use crate::label;

/// Returns the first screen below the page's title.
pub(super) fn front_html(front: &PageFront) -> String {
    let mut html = String::new();
    if !front.answer.is_empty() {
        let _ = writeln!(html, "<p class=\"answer\">{}</p>", escape(&front.answer));
    }
    for (what, why) in &front.warnings {
        // Writing to a string cannot fail, here and below.
        let _ = writeln!(
            html,
            "<p class=\"warning\" role=\"note\"><strong>{what}:</strong> {}</p>",
            escape(why)
        );
    }
    html.push_str("<div class=\"front\">");
    html.push_str(&front.chart.as_ref().map_or_else(String::new, chart_html));
    html.push_str("<div class=\"beside\">");
    html.push_str(&badge(&front.checks));
    if let Some((command, why)) = &front.next {
        let _ = write!(
            html,
            "<p class=\"next\"><strong>Next:</strong> <code>{}</code> {why}</p>",
            escape(command)
        );
    }
    html + &super::facts_line(&front.facts) + "</div></div>\n"
}

/// Returns the checks as a badge: the number of checks that hold, and each check in words.
fn badge(checks: &[SurenessCheck]) -> String {
    if checks.is_empty() {
        return String::new();
    }
    let hold = checks.iter().filter(|it| it.holds).count();
    let class = match hold {
        0 => "bad",
        _ if hold == checks.len() => "good",
        _ => "partly",
    };
    let mut html = format!(
        "<div class=\"badge\"><p class=\"{class}\">How sure: {hold} of {} checks hold</p><ul>",
        checks.len()
    );
    for SurenessCheck { text, holds } in checks {
        let (sign, word) = if *holds { ("✓", "holds") } else { ("✗", "fails") };
        let _ = write!(
            html,
            "<li><span class=\"sign\" role=\"img\" aria-label=\"{word}\">{sign}</span>{}</li>",
            escape(text)
        );
    }
    html + "</ul></div>"
}

/// Returns the chart, with links that save it as files.
fn chart_html(chart: &WordedChart) -> String {
    let drawing = chart.drawing();
    let svg = drawing.svg();
    let link = |name: &str, kind: &str, bytes: &[u8]| {
        format!(
            "<a download=\"corehop.{}\" href=\"data:{kind},{}\">{name}</a>",
            name.to_lowercase(),
            in_percent(bytes)
        )
    };
    format!(
        "<figure class=\"words\">{svg}<figcaption>Point: {}.{} <span class=\"files\">For a paper: {} {}</span></figcaption></figure>",
        chart.point,
        intervals(chart),
        link("SVG", "image/svg+xml", svg.as_bytes()),
        link("PDF", "application/pdf", &drawing.pdf()),
    )
}

/// Returns the sentence about the intervals of a chart, if the chart has intervals.
fn intervals(chart: &WordedChart) -> String {
    let has_any = chart.lines.iter().any(|it| it.ends.is_some());
    let level = label::level(chart.level);
    if has_any { format!(" Line: {level} % interval.") } else { String::new() }
}

/// Bytes encoded for a URL: letters and digits are unchanged, other bytes are written in hexadecimal.
fn in_percent(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len() * 2);
    for &byte in bytes {
        if byte.is_ascii_alphanumeric() || b"-_.~/:;=,()".contains(&byte) {
            text.push(char::from(byte));
        } else {
            let _ = write!(text, "%{byte:02X}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_check_that_fails_is_counted_and_seen_without_colours() {
        let html = badge(&[SurenessCheck::new(true, "a"), SurenessCheck::new(false, "<b>")]);
        assert!(html.contains("class=\"partly\">How sure: 1 of 2 checks hold"), "{html}");
        assert!(html.contains("aria-label=\"fails\">✗</span>&lt;b&gt;"), "{html}");
        assert_eq!(badge(&[]), "");
    }

    #[test]
    fn bytes_of_a_link_cannot_end_it() {
        assert_eq!(in_percent(b"a\"<\xb5 1"), "a%22%3C%B5%201");
    }
}
