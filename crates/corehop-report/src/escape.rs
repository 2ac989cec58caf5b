// SPDX-License-Identifier: MIT OR Apache-2.0
//! Makes text from data safe for pages and for standalone drawings.

/// Escapes `text` for the content of an HTML element or a quoted attribute.
pub(super) fn escape(text: &str) -> String {
    safe(text, |c| (c == '\'').then_some("&#39;"))
}

/// Escapes `text` for XML, which does not allow control characters.
pub(super) fn escape_xml(text: &str) -> String {
    safe(text, |c| (c.is_control() && c != '\n').then_some(" "))
}

/// Replaces the characters with a meaning in HTML and XML, and the characters for which `more` has
/// a replacement.
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
