// SPDX-License-Identifier: MIT OR Apache-2.0
//! Counts in words.

/// `1 row`, `2 rows`.
pub fn counted(count: u64, noun: &str) -> String {
    if count == 1 { format!("1 {noun}") } else { format!("{count} {}", plural(noun)) }
}

/// `rows`, `batches of switches`.
fn plural(noun: &str) -> String {
    match noun.split_once(" of ") {
        Some((head, rest)) => format!("{} of {rest}", plural(head)),
        None if noun.ends_with("ch") => format!("{noun}es"),
        None => format!("{noun}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_has_its_noun_in_the_right_number() {
        assert_eq!(counted(1, "batch of switches"), "1 batch of switches");
        assert_eq!(counted(2, "batch of switches"), "2 batches of switches");
        assert_eq!(counted(0, "row"), "0 rows");
    }
}
