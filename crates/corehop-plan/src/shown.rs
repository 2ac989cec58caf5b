// SPDX-License-Identifier: MIT OR Apache-2.0
//! Makes text from other programs safe for a terminal: control characters become escapes, so that no terminal obeys
//! them.
//!
//! A name of a thread, program or file can contain any bytes, and any user can start a thread with any name. A terminal
//! takes some bytes as commands: it renames its window, hides a line, or shows a text from right to left.
//! [`line`](line()) is for a name in a text, [`lines`] for a whole text with its own line breaks.
//!
//! JSON stays JSON: a control character that JSON allows in a string is written in the way in which JSON escapes it.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::path::Path;

/// Escapes a name for use in one line, including line breaks and tabs in the name.
pub fn line(name: &str) -> Cow<'_, str> {
    escaped(name, is_control)
}

/// Escapes a text of several lines. Line breaks and tabs belong to the text and stay.
pub fn lines(text: &str) -> Cow<'_, str> {
    escaped(text, |letter| is_control(letter) && letter != '\n' && letter != '\t')
}

/// Escapes a name that may not be UTF-8 for use in one line. A byte that is not UTF-8 becomes an escape such as `\xff`.
pub fn bytes(name: &[u8]) -> String {
    let mut shown = String::with_capacity(name.len());
    for chunk in name.utf8_chunks() {
        shown.push_str(&line(chunk.valid()));
        for byte in chunk.invalid() {
            // Writing to a string cannot fail, here and below.
            let _ = write!(shown, "\\x{byte:02x}");
        }
    }
    shown
}

/// Escapes the name of a file for use in one line.
pub fn path(path: &Path) -> String {
    bytes(path.as_os_str().as_encoded_bytes())
}

/// Returns the name of a file as a value for other programs: unchanged if it is UTF-8, otherwise with escapes such as
/// `\xff`. (`serde_json` refuses a path that is not UTF-8, and `json!` panics.)
pub fn value(path: &Path) -> String {
    path.to_str().map_or_else(|| self::path(path), str::to_owned)
}

/// Returns whether a character is C0, DEL, C1, a separator of lines or paragraphs, or a change of the writing
/// direction.
fn is_control(letter: char) -> bool {
    letter.is_control()
        || matches!(letter, '\u{2028}' | '\u{2029}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

fn escaped(text: &str, is_escaped: impl Fn(char) -> bool) -> Cow<'_, str> {
    if !text.contains(&is_escaped) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for letter in text.chars() {
        let _ = match letter {
            letter if !is_escaped(letter) => {
                shown.push(letter);
                Ok(())
            }
            '\n' => write!(shown, "\\n"),
            '\t' => write!(shown, "\\t"),
            '\r' => write!(shown, "\\r"),
            // No serialiser leaves these in JSON.
            '\0'..' ' => write!(shown, "\\x{:02x}", letter as u32),
            letter => write!(shown, "\\u{:04x}", letter as u32),
        };
    }
    Cow::Owned(shown)
}

/// Returns the words of a text; a command in backticks is one word, so that no line cuts it.
pub fn unbroken(text: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let mut is_within = false;
    for word in text.split_whitespace() {
        match words.last_mut() {
            Some(last) if is_within => {
                last.push(' ');
                last.push_str(word);
            }
            _ => words.push(word.to_owned()),
        }
        if word.matches('`').count() % 2 == 1 {
            is_within = !is_within;
        }
    }
    // A backtick without its pair quotes nothing.
    if is_within { text.split_whitespace().map(str::to_owned).collect() } else { words }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_shown_and_all_else_stays() {
        for (name, shown) in [
            ("Überwachung 测试 ‘µs’", "Überwachung 测试 ‘µs’"),
            ("\x1b]0;owned\x07", r"\x1b]0;owned\x07"),
            ("a\nb\tc\rd\0", r"a\nb\tc\rd\x00"),
            ("\x7f\u{80}\u{9b}31m\u{9f}", r"\u007f\u0080\u009b31m\u009f"),
            ("gpj.\u{202e}exe\u{2066}\u{2069}", r"gpj.\u202eexe\u2066\u2069"),
            ("\u{2028}\u{2029}", r"\u2028\u2029"),
        ] {
            assert_eq!(line(name), shown);
        }
        assert!(matches!(line("plain"), Cow::Borrowed("plain")));
        assert_eq!(lines("a\n\tb\r\x1b[2J\n"), "a\n\tb\\r\\x1b[2J\n");
    }

    #[test]
    fn every_character_of_the_control_blocks_is_escaped() {
        let blocks = [0..=0x1f, 0x7f..=0x9f, 0x2028..=0x2029, 0x202a..=0x202e, 0x2066..=0x2069_u32];
        for letter in blocks.into_iter().flatten().filter_map(char::from_u32) {
            let name = letter.to_string();
            assert!(line(&name).chars().all(|it| (' '..='~').contains(&it)), "{letter:?}");
            assert_eq!(lines(&name) == name, ['\n', '\t'].contains(&letter), "{letter:?}");
        }
    }

    #[test]
    fn names_that_are_no_text_keep_their_bytes_and_paths_are_names() {
        assert_eq!(bytes(b"\xc3\x9cberwachungsf\xc3"), r"Überwachungsf\xc3");
        assert_eq!(bytes(b"a\xffb\x1b"), r"a\xffb\x1b");
        assert_eq!(path(Path::new("/tmp/a\nb")), r"/tmp/a\nb");
    }

    #[test]
    fn json_that_is_shown_has_the_same_values() {
        let every: String = (0..0x2100).filter_map(char::from_u32).collect();
        let value = serde_json::json!({ "name": every, "\u{9b}key": ["\u{202e}"] });
        for text in [format!("{value}"), format!("{value:#}")] {
            assert_ne!(lines(&text), text);
            assert_eq!(serde_json::from_str::<serde_json::Value>(&lines(&text)).unwrap(), value);
        }
    }
}
