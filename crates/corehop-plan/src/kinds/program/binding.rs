// SPDX-License-Identifier: MIT OR Apache-2.0
//! Finds the CPUs to which a wrapper command binds a program, from the options of `taskset` and `numactl`.

use crate::kinds::Argument;
use crate::units::{Cpu, CpuList};

/// Returns the CPUs to which the given words bind the command that follows them, or `None` if the words name no
/// CPUs, or name them in an unknown form.
pub(super) fn cpus_of(words: &[Argument]) -> Option<CpuList> {
    let words: Vec<&str> =
        words.iter().map(|it| std::str::from_utf8(it.bytes()).ok()).collect::<Option<_>>()?;
    let name = |word: &str| word.rsplit('/').next().map(str::to_owned);
    let at = words
        .iter()
        .rposition(|word| matches!(name(word).as_deref(), Some("taskset" | "numactl")))?;
    let options = &words[at + 1..];
    match name(words[at]).as_deref() {
        Some("taskset") => taskset(options),
        _ => numactl(options),
    }
}

/// Reads `-c LIST`, `--cpu-list LIST`, or a mask.
fn taskset(words: &[&str]) -> Option<CpuList> {
    let is_list = |word: &&&str| {
        let short = word.starts_with('-') && !word.starts_with("--") && word.contains('c');
        short || word.starts_with("--cpu-list")
    };
    let value = words.iter().find(|word| !word.starts_with('-'))?;
    if words.iter().any(|word| is_list(&word)) {
        return value.parse().ok();
    }
    let mask = u128::from_str_radix(value.trim_start_matches("0x"), 16).ok()?;
    Some(CpuList::new((0..u128::BITS).filter(|bit| mask >> bit & 1 == 1).map(Cpu)))
}

/// Reads `-C LIST`, `--physcpubind=LIST`, or `--physcpubind LIST`.
fn numactl(words: &[&str]) -> Option<CpuList> {
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let list = match word.strip_prefix("--physcpubind=").or_else(|| word.strip_prefix("-C")) {
            Some("") => words.next()?,
            Some(list) => list,
            None if *word == "--physcpubind" => words.next()?,
            None => continue,
        };
        return list.parse().ok();
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cpus_are_those_of_the_innermost_wrapper() {
        for (text, cpus) in [
            ("taskset -c 1", Some("1")),
            ("env A=b /usr/bin/taskset -ac 0,2-3", Some("0,2-3")),
            ("taskset --cpu-list 5", Some("5")),
            ("taskset 0x6", Some("1-2")),
            ("taskset f", Some("0-3")),
            ("numactl --membind=0 --physcpubind=1,3", Some("1,3")),
            ("numactl -C 2", Some("2")),
            ("numactl --physcpubind 2", Some("2")),
            ("numactl --membind=0", None),
            ("taskset -c all", None),
            ("nice -n 5", None),
            ("taskset", None),
            ("", None),
        ] {
            let words = text.split_whitespace().map(|it| Argument::new(it.as_bytes().to_vec()));
            let found = cpus_of(&words.collect::<Vec<_>>()).map(|it| it.to_string());
            assert_eq!(found.as_deref(), cpus, "{text}");
        }
    }
}
