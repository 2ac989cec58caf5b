// SPDX-License-Identifier: MIT OR Apache-2.0
//! Bytes of a valid file, changed by a seed.

/// Random numbers: SplitMix64.
pub(crate) struct Draw(pub(crate) u64);

impl Draw {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, most: usize) -> usize {
        (self.next() % most.max(1) as u64) as usize
    }
}

/// Pieces that break readers: limits of numbers, other types, nothing.
pub(crate) const PIECES: [&str; 24] = [
    "",
    "0",
    "-1",
    "1",
    "255",
    "65536",
    "2147483648",
    "4294967295",
    "18446744073709551615",
    "-9223372036854775808",
    "1e308",
    "1e-308",
    "nan",
    "inf",
    "null",
    "true",
    "\"\"",
    "[]",
    "{}",
    "0-65535",
    "9999999 GiB",
    "\u{0}",
    "é",
    ",",
];

/// Some places of the bytes changed.
pub(crate) fn changed(seed: &[u8], draw: &mut Draw) -> Vec<u8> {
    let mut bytes = seed.to_vec();
    for _ in 0..=draw.below(4) {
        let at = draw.below(bytes.len());
        let to = (at + 1 + draw.below(16)).min(bytes.len());
        match draw.below(8) {
            0 => bytes[at..].iter_mut().take(1).for_each(|it| *it ^= 1 << draw.below(8)),
            1 => bytes[at..].iter_mut().take(1).for_each(|it| *it = draw.next() as u8),
            2 => bytes[at..to].fill(if draw.below(2) == 0 { 0 } else { 0xff }),
            3 => drop(bytes.drain(at..to)),
            4 => drop(bytes.splice(at..at, seed[..to.min(seed.len())].to_vec())),
            5 => bytes.truncate(at),
            // A number or a word becomes another.
            _ => {
                let is_word = |byte: &u8| byte.is_ascii_alphanumeric() || b".-_".contains(byte);
                let from = at + bytes[at..].iter().position(is_word).unwrap_or(0);
                let length = bytes[from..].iter().position(|it| !is_word(it)).unwrap_or(1);
                let piece = PIECES[draw.below(PIECES.len())].bytes();
                drop(bytes.splice(from..(from + length).min(bytes.len()), piece));
            }
        }
    }
    bytes
}
