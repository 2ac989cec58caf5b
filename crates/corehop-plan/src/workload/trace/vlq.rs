// SPDX-License-Identifier: MIT OR Apache-2.0
//! Encodes numbers as text with five bits per character, the lowest bits first; the lowest bit of a number is its sign
//! (as in source maps). Small numbers, such as differences between neighbouring lines, need one or two characters.

/// A number that this encoding can represent.
pub(super) type VlqNumber = i64;

const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
/// The number of bits in a digit, and the mark of a digit that more digits follow.
const BITS: u32 = 5;
const MORE: u64 = 1 << BITS;

/// Encodes numbers as text of variable-length quantities.
pub(super) fn text(numbers: impl IntoIterator<Item = VlqNumber>) -> String {
    let mut text = String::new();
    for number in numbers {
        let mut rest = ((number << 1) ^ (number >> 63)) as u64;
        loop {
            let digit = rest & (MORE - 1);
            rest >>= BITS;
            let more = if rest == 0 { 0 } else { MORE };
            text.push(char::from(DIGITS[(digit | more) as usize]));
            if rest == 0 {
                break;
            }
        }
    }
    text
}

/// Decodes the numbers of a text; returns `None` if the text is not valid.
pub(super) fn numbers(text: &str) -> Option<Vec<VlqNumber>> {
    let mut numbers = Vec::new();
    let (mut number, mut shift) = (0_u64, 0);
    for byte in text.bytes() {
        let digit = value(byte)?;
        let bits = (digit & (MORE - 1)).checked_shl(shift)?;
        if bits >> shift != digit & (MORE - 1) {
            return None;
        }
        number |= bits;
        if digit & MORE == 0 {
            numbers.push((number >> 1) as i64 ^ -((number & 1) as i64));
            (number, shift) = (0, 0);
        } else {
            shift += BITS;
        }
    }
    (shift == 0).then_some(numbers)
}

fn value(byte: u8) -> Option<u64> {
    let value = match byte {
        b'A'..=b'Z' => byte - b'A',
        b'a'..=b'z' => byte - b'a' + 26,
        b'0'..=b'9' => byte - b'0' + 52,
        b'+' => 62,
        b'/' => 63,
        _ => return None,
    };
    Some(u64::from(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_back_whatever_their_size_and_sign() {
        let all = [0, 1, -1, 15, -16, 16, 1_000_000, -77, i64::MAX, i64::MIN];
        assert_eq!(numbers(&text(all)).unwrap(), all);
        assert_eq!((text([0]).len(), text([-7]).len()), (1, 1));
        assert_eq!(numbers(""), Some(Vec::new()));
    }

    #[test]
    fn a_text_that_is_cut_or_of_other_characters_or_too_large_is_none() {
        let whole = text([1_000_000]);
        assert_eq!(numbers(&whole[..whole.len() - 1]), None);
        assert_eq!(numbers("A A"), None);
        assert_eq!(numbers(&"/".repeat(20)), None);
    }
}
