// SPDX-License-Identifier: MIT OR Apache-2.0
//! Text from data, made safe for pages and for drawings that stand alone.

/// `text` as the content of an HTML element or of a quoted attribute.
pub(super) fn escape(text: &str) -> String {
    safe(text, |c| (c == '\'').then_some("&#39;"))
}

/// `text` as it may stand in XML, which has no control characters.
pub(super) fn escape_xml(text: &str) -> String {
    safe(text, |c| (c.is_control() && c != '\n').then_some(" "))
}

/// Replaces the characters with a meaning in both, and those for which `more` has a replacement.
fn safe(text: &str, more: impl Fn(char) -> Option<&'static str>) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            c => match more(c) {
                Some(replacement) => safe.push_str(replacement),
                None => safe.push(c),
            },
        }
    }
    safe
}
