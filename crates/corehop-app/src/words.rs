// SPDX-License-Identifier: MIT OR Apache-2.0
//! Writes counts and commands as words.

/// Returns a count with its noun, like `1 row` or `2 rows`.
pub fn counted(count: u64, noun: &str) -> String {
    if count == 1 { format!("1 {noun}") } else { format!("{count} {}", plural(noun)) }
}

/// The plural of a noun, like `rows` or `batches of switches`.
fn plural(noun: &str) -> String {
    match noun.split_once(" of ") {
        Some((head, rest)) => format!("{} of {rest}", plural(head)),
        None if noun.ends_with("ch") => format!("{noun}es"),
        None => format!("{noun}s"),
    }
}

/// Joins words to a shell command line, and quotes words with special characters.
pub fn for_a_shell<'a>(words: impl IntoIterator<Item = &'a str>) -> String {
    let quoted = |word: &str| match word {
        plain if !plain.is_empty() && plain.chars().all(is_plain) => plain.to_owned(),
        other => format!("'{}'", other.replace('\'', r"'\''")),
    };
    words.into_iter().map(quoted).collect::<Vec<_>>().join(" ")
}

fn is_plain(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || "-_./=,:+@%".contains(letter)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_gets_back_the_words_that_it_gave() {
        let text = for_a_shell(["sh", "-c", "echo 'a b' $x", "", "--out=f,1"]);
        assert_eq!(text, r"sh -c 'echo '\''a b'\'' $x' '' --out=f,1");
    }

    #[test]
    fn a_count_has_its_noun_in_the_right_number() {
        assert_eq!(counted(1, "batch of switches"), "1 batch of switches");
        assert_eq!(counted(2, "batch of switches"), "2 batches of switches");
        assert_eq!(counted(0, "row"), "0 rows");
    }
}
