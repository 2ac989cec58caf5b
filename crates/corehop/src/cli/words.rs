// SPDX-License-Identifier: MIT OR Apache-2.0
//! Translates command lines of earlier versions, in which an option chose the mode and some modes were verbs.

use std::ffi::{OsStr, OsString};

/// An earlier form of a command line, with its present form.
struct LegacyCommand {
    /// The first words of the earlier form.
    words: &'static [&'static str],
    /// The option that must be present, or the required ending of the next word; None if neither is required.
    option: Option<(&'static str, Becomes)>,
    /// The present words that replace the first words.
    now: &'static [&'static str],
}

/// The translation of the option that chose a mode.
#[derive(Clone, Copy)]
enum Becomes {
    /// The option stays.
    Itself,
    /// The option is renamed to this name.
    Named(&'static str),
    /// The option's value stays as a positional argument, without the name.
    Value,
    /// The option's value becomes the mode, after the present words.
    Mode,
    /// The option disappears, because the mode implies its meaning.
    Nothing,
}

const fn verb(words: &'static [&'static str], now: &'static [&'static str]) -> LegacyCommand {
    LegacyCommand { words, option: None, now }
}

const fn mode(
    words: &'static [&'static str],
    option: &'static str,
    becomes: Becomes,
    now: &'static [&'static str],
) -> LegacyCommand {
    LegacyCommand { words, option: Some((option, becomes)), now }
}

/// The earlier forms of commands; the first form that matches a command line applies.
const EARLIER: [LegacyCommand; 30] = [
    mode(&["platform"], "--calibrate", Becomes::Nothing, &["sim", "calibrate"]),
    mode(&["platform"], "--measure", Becomes::Nothing, &["measure", "platform"]),
    mode(&["platform"], "--sysfs-root", Becomes::Value, &["sim", "platform"]),
    verb(&["platform"], &["sim", "platform"]),
    mode(&["validate"], "--live", Becomes::Itself, &["sim", "validate-host"]),
    mode(&["validate"], ".toml", Becomes::Itself, &["sim", "validate-host"]),
    verb(&["validate"], &["sim", "validate"]),
    mode(&["study"], "--merge", Becomes::Nothing, &["check", "study", "merge"]),
    verb(&["study"], &["check", "study"]),
    verb(&["show"], &["report", "contents"]),
    verb(&["fit"], &["advise", "fit"]),
    mode(&["predict"], "--program", Becomes::Itself, &["advise", "gain"]),
    mode(&["predict"], "--smr", Becomes::Itself, &["advise", "gain"]),
    verb(&["predict"], &["advise", "predict"]),
    verb(&["explain"], &["help"]),
    verb(&["completions"], &["help", "--completions"]),
    verb(&["manual"], &["help", "--man"]),
    verb(&["measure", "program"], &["record"]),
    mode(&["measure", "schedule-sensitive"], "--", Becomes::Itself, &["record"]),
    mode(&["measure", "schedule-sensitive"], "--pid", Becomes::Itself, &["record"]),
    mode(&["measure", "schedule-sensitive"], "--cgroup", Becomes::Itself, &["record"]),
    mode(&["measure"], "--plan", Becomes::Value, &["measure", "plan"]),
    mode(&["place"], "--on", Becomes::Itself, &["place", "simulate"]),
    mode(&["place"], "--replay", Becomes::Value, &["place", "replay"]),
    mode(&["offload"], "--on", Becomes::Itself, &["offload", "simulate"]),
    mode(&["advise"], "--on", Becomes::Itself, &["advise", "simulate"]),
    mode(&["advise"], "--costs", Becomes::Itself, &["advise", "set"]),
    mode(&["check"], "--deploy", Becomes::Named("--folder"), &["check", "deploy"]),
    mode(&["doctor"], "--restore", Becomes::Nothing, &["doctor", "restore"]),
    mode(&["convert"], "--to", Becomes::Mode, &["convert"]),
];

/// Translates a command line to present words.
pub(crate) fn words(typed: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let typed: Vec<OsString> = typed.collect();
    let now = EARLIER.iter().find_map(|it| it.today(&typed));
    now.unwrap_or(typed)
}

impl LegacyCommand {
    /// The translated command line, if the typed command line has this earlier form.
    fn today(&self, typed: &[OsString]) -> Option<Vec<OsString>> {
        let (program, rest) = typed.split_first()?;
        let begins = rest.len() >= self.words.len()
            && self.words.iter().zip(rest).all(|(word, typed)| typed == word);
        let rest = begins.then(|| &rest[self.words.len()..])?;
        let mut now: Vec<OsString> = self.now.iter().map(OsString::from).collect();
        match self.option {
            None => now.extend_from_slice(rest),
            Some(_) if is_mode(self.words[0], rest.first()?) => return None,
            // A word that is no option is a mode already, where modes are all that there is.
            Some(_) if self.words == ["measure"] && !is_option(rest.first()?) => return None,
            Some((name, becomes)) => now.extend(becomes.applied(name, rest)?),
        }
        now.insert(0, program.clone());
        Some(now)
    }
}

/// Whether a word after a verb names a present mode.
fn is_mode(verb: &str, word: &OsStr) -> bool {
    EARLIER
        .iter()
        .any(|it| it.now.first() == Some(&verb) && it.now.get(1).is_some_and(|now| word == *now))
}

fn is_option(word: &OsStr) -> bool {
    word.as_encoded_bytes().starts_with(b"-")
}

impl Becomes {
    /// The words after the verb with this option translated; None if the words lack the option.
    fn applied(self, name: &str, rest: &[OsString]) -> Option<Vec<OsString>> {
        let before = rest.iter().position(|word| word == "--").unwrap_or(rest.len());
        let end = if name == "--" { rest.len() } else { before };
        let at = rest[..end].iter().position(|word| is_given(word, name));
        let at = if name.starts_with('.') { ends_with(rest.first()?, name) } else { at }?;
        let joined = rest[at].to_str().and_then(|word| word.split_once('='));
        let joined = joined.map(|(_, value)| OsString::from(value));
        let (first, option) = rest.split_at(at);
        let (_, after) = option.split_first()?;
        let (value, last) = match (&joined, self) {
            (Some(value), _) => (Some(value.clone()), after),
            (None, Self::Nothing | Self::Itself) => (None, after),
            (None, _) => after.split_first().map(|(value, last)| (Some(value.clone()), last))?,
        };
        let words = |middle: &[OsString]| [first, middle, last].concat();
        Some(match (self, value) {
            (Self::Itself, _) => rest.to_vec(),
            (Self::Named(now), Some(value)) => words(&[now.into(), value]),
            (Self::Value, Some(value)) => words(&[value]),
            (Self::Mode, Some(mode)) => [&[mode][..], &words(&[])].concat(),
            (_, _) => words(&[]),
        })
    }
}

/// Whether a word is this option, alone or with its value.
fn is_given(word: &OsStr, name: &str) -> bool {
    let rest = word.as_encoded_bytes().strip_prefix(name.as_bytes());
    rest.is_some_and(|rest| rest.is_empty() || name != "--" && rest.starts_with(b"="))
}

/// The position of the next word, if the word has this ending.
fn ends_with(word: &OsStr, end: &str) -> Option<usize> {
    word.as_encoded_bytes().ends_with(end.as_bytes()).then_some(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now(typed: &str) -> String {
        let typed = format!("corehop {typed}");
        let words = words(typed.split(' ').map(OsString::from));
        let words: Vec<_> = words.iter().skip(1).map(|it| it.to_str().unwrap()).collect();
        words.join(" ")
    }

    #[test]
    fn a_verb_of_earlier_versions_is_a_mode_of_todays() {
        for (typed, meant) in [
            ("platform xeon_x5650 --json", "sim platform xeon_x5650 --json"),
            ("platform --measure -o H.toml", "measure platform -o H.toml"),
            ("platform --calibrate -o H.toml", "sim calibrate -o H.toml"),
            ("platform --json --sysfs-root DIR", "sim platform --json DIR"),
            ("platform --sysfs-root=DIR", "sim platform DIR"),
            ("validate waechtler-a4", "sim validate waechtler-a4"),
            ("validate H.toml --live S.parquet", "sim validate-host H.toml --live S.parquet"),
            ("validate H.toml --exact", "sim validate-host H.toml --exact"),
            ("validate x --on H.toml", "sim validate x --on H.toml"),
            ("study S.toml", "check study S.toml"),
            ("study --merge A B", "check study merge A B"),
            ("show F --rows 2", "report contents F --rows 2"),
            ("explain a word", "help a word"),
            ("completions bash", "help --completions bash"),
            ("measure program -- true", "record -- true"),
            ("measure schedule-sensitive -- true", "record -- true"),
            ("measure schedule-sensitive --pid=7", "record --pid=7"),
        ] {
            assert_eq!(now(typed), meant);
        }
    }

    #[test]
    fn an_option_that_chose_a_mode_is_the_mode() {
        for (typed, meant) in [
            ("measure --plan P.json --on m5_cc", "measure plan P.json --on m5_cc"),
            ("place --on m5_cc --pairs 2", "place simulate --on m5_cc --pairs 2"),
            ("place --replay=L.jsonl --json", "place replay L.jsonl --json"),
            ("advise S.json --costs C.csv", "advise set S.json --costs C.csv"),
            ("check S.json --deploy F", "check deploy S.json --folder F"),
            ("check S.json --deploy=F", "check deploy S.json --folder F"),
            ("convert S.json --to rt-app -o A", "convert rt-app S.json -o A"),
            ("doctor --restore", "doctor restore"),
        ] {
            assert_eq!(now(typed), meant);
        }
    }

    #[test]
    fn the_words_of_a_program_and_of_todays_modes_stay() {
        for typed in [
            "record -- measure schedule-sensitive --on x",
            "place -- ./a --on x --replay y",
            "measure schedule-sensitive --tasks 4",
            "measure synthetic --plan x",
            "advise simulate --on m5_cc",
            "advise set S.json --costs C.csv",
            "place simulate --on m5_cc",
            "offload simulate --on m5_cc",
            "check S.json --folder F",
            "doctor",
        ] {
            assert_eq!(now(typed), typed);
        }
    }
}
