// SPDX-License-Identifier: MIT OR Apache-2.0
//! The words of the field as types: an enum's values are the words of files, columns and options.

/// Declares an enum whose values are exactly the words used in files, columns and options.
#[macro_export]
#[doc(hidden)] // `words::words` is its address.
macro_rules! words {
    ($(#[$meta:meta])* $name:ident, $what:literal { $($(#[doc = $doc:literal])+ $variant:ident = $word:literal),+ $(,)? }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
        pub enum $name { $($(#[doc = $doc])+ #[serde(rename = $word)] $variant),+ }

        impl $name {
            /// Every value, in the order of declaration.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];
            /// The noun for a value of this enum, with its article.
            pub const WHAT: &'static str = $what;
            /// Returns the meaning of the value in a sentence.
            pub const fn meaning(self) -> &'static str {
                match self { $(Self::$variant => concat!($($doc),+).trim_ascii()),+ }
            }
            /// Returns the word for the value in files, columns and options.
            pub const fn word(self) -> &'static str {
                match self { $(Self::$variant => $word),+ }
            }
        }
        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result { f.pad(self.word()) }
        }
        impl std::str::FromStr for $name {
            type Err = $crate::words::UnknownWord;
            fn from_str(text: &str) -> Result<Self, Self::Err> {
                Self::ALL.iter().copied().find(|value| value.word() == text).ok_or_else(|| {
                    $crate::words::UnknownWord {
                        word: text.to_owned(),
                        what: $what,
                        known: [$($word),+].join(", "),
                    }
                })
            }
        }
    };
}
pub use words;

/// The error for a word that the enum does not know.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{word}` is not {what}; use one of: {known}")]
pub struct UnknownWord {
    /// The word that corehop does not know.
    pub word: String,
    /// The expected kind of word, with its article.
    pub what: &'static str,
    /// The words that corehop knows in place of the unknown word.
    pub known: String,
}

/// Returns the 64-bit FNV-1a hash of a text, in hexadecimal.
pub fn digest(text: &str) -> String {
    let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("{hash:016x}")
}

/// Returns the known word that is nearest to an unknown word, as the clause ` (the nearest is `deadline_us`)`;
/// empty if no known word is near.
pub fn nearest_of<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    let plain = word.to_lowercase();
    let near = known.into_iter().map(|word| {
        let lower = word.to_lowercase();
        let is_part = plain.len() >= 3 && (lower.contains(&plain) || plain.contains(&lower));
        (if is_part { 1 } else { edit_distance(&plain, &lower) }, word)
    });
    let best = near.min_by_key(|&(distance, _)| distance);
    let best = best.filter(|&(distance, it)| distance <= it.chars().count().max(3) / 2);
    best.map_or_else(String::new, |(_, it)| format!(" (the nearest is `{it}`)"))
}

/// Returns the smallest number of letters to insert, drop or replace that turns one word into the other.
pub fn edit_distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, &y) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(row[j + 1] + 1);
        }
    }
    row[b.len()]
}
