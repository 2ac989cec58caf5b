// SPDX-License-Identifier: MIT OR Apache-2.0
//! Converts names to text without loss, so that different names stay different.

use std::fmt::Write as _;

/// Returns a name, which its program may have chosen, as text. Control characters and bytes that are not UTF-8 become
/// `\xNN`, and a backslash is doubled. Different names give different texts, and no text can move a terminal's
/// cursor.
pub fn shown(name: &[u8]) -> String {
    let mut text = String::with_capacity(name.len());
    let escape = |text: &mut String, bytes: &[u8]| {
        for byte in bytes {
            // Writing to a string cannot fail.
            let _ = write!(text, "\\x{byte:02x}");
        }
    };
    for chunk in name.utf8_chunks() {
        for letter in chunk.valid().chars() {
            match letter {
                '\\' => text.push_str("\\\\"),
                _ if letter.is_control() => {
                    escape(&mut text, letter.encode_utf8(&mut [0; 4]).as_bytes());
                }
                _ => text.push(letter),
            }
        }
        escape(&mut text, chunk.invalid());
    }
    text
}

/// Returns the name in a kernel array, up to its first zero.
pub fn cut(array: &[u8]) -> &[u8] {
    array.split(|&byte| byte == 0).next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn an_ordinary_name_is_shown_as_it_is_and_foreign_bytes_are_told() {
        assert_eq!(shown(b"kworker/u4:1-ev"), "kworker/u4:1-ev");
        assert_eq!(shown("Überwachung ☃".as_bytes()), "Überwachung ☃");
        assert_eq!(shown(b"\xc3\x9cberwachungsf\xc3"), r"Überwachungsf\xc3");
        assert_eq!(shown(b"\x1b]0;x\x07\n\\x0a\xff"), r"\x1b]0;x\x07\x0a\\x0a\xff");
        // U+009B begins an escape sequence on some terminals.
        assert_eq!(shown("\u{9b}2J".as_bytes()), r"\xc2\x9b2J");
        assert_eq!(shown(b""), "");
    }

    #[test]
    fn names_that_differ_have_texts_that_differ() {
        let alphabet = [b'a', b'x', b'0', b'\\', b'\n', 0xc3, 0xa4, 0x82, 0xff];
        let mut names = vec![Vec::new()];
        for length in 0..4 {
            let longer: Vec<Vec<u8>> = names
                .iter()
                .filter(|name| name.len() == length)
                .flat_map(|name| alphabet.map(|byte| [&name[..], &[byte]].concat()))
                .collect();
            names.extend(longer);
        }
        let texts: HashSet<String> = names.iter().map(|name| shown(name)).collect();
        assert_eq!(texts.len(), names.len());
        assert!(texts.iter().all(|text| !text.contains(char::is_control)));
    }

    #[test]
    fn an_array_ends_with_its_first_zero() {
        assert_eq!(cut(b"make\0old\0"), b"make");
        assert_eq!(cut(b"\0\0"), b"");
        assert_eq!(cut(b"full"), b"full");
    }
}
