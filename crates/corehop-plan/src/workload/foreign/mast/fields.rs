// SPDX-License-Identifier: MIT OR Apache-2.0
//! The entries of a group in a MAST model by name. A reader takes the entries that it understands; entries that are
//! left over are refused or noted.

use std::collections::{BTreeSet, HashSet};

use super::text::{MastEntry, MastValue};
use super::time::MastTime;
use crate::workload::foreign::TaskFileError;

/// Returns a name as comparisons use the name: MAST does not distinguish capital and small letters.
pub(super) fn plain(name: &str) -> String {
    name.to_ascii_lowercase()
}

/// The entries of a group that no reader has taken yet.
#[derive(Debug)]
pub(super) struct MastFields {
    /// The place of the group, for errors: its line and its keyword.
    pub(super) place: String,
    entries: Vec<MastEntry>,
}

impl MastFields {
    /// Returns the entries of a group, whose entries all need different names.
    pub(super) fn of(entry: MastEntry) -> Result<Self, TaskFileError> {
        let place = match entry.name.as_str() {
            "" => format!("line {}", entry.line),
            name => format!("line {}, {name}", entry.line),
        };
        let MastValue::Group(entries) = entry.value else {
            let what = "expected entries in parentheses, such as `(Type => …)`";
            return Err(TaskFileError::row(&place, what));
        };
        let mut known = HashSet::new();
        for entry in &entries {
            let place = format!("line {}", entry.line);
            if entry.name.is_empty() {
                return Err(TaskFileError::row(
                    &place,
                    "a value without a name, expected `Name => value`",
                ));
            }
            if !known.insert(plain(&entry.name)) {
                let what = format!("`{}` is stated twice in one element: remove one", entry.name);
                return Err(TaskFileError::row(&place, what));
            }
        }
        Ok(Self { place, entries })
    }

    /// Takes the entry of this name, if there is one.
    pub(super) fn take(&mut self, name: &str) -> Option<MastEntry> {
        let at = self.entries.iter().position(|entry| entry.name.eq_ignore_ascii_case(name))?;
        Some(self.entries.remove(at))
    }

    /// Takes the entry of this name, which must exist.
    pub(super) fn need(&mut self, name: &str) -> Result<MastEntry, TaskFileError> {
        let what = format!("`{name}` is missing");
        self.take(name).ok_or_else(|| TaskFileError::row(&self.place, what))
    }

    /// Takes the word of this name, if there is one.
    pub(super) fn word(&mut self, name: &str) -> Result<Option<String>, TaskFileError> {
        let Some(entry) = self.take(name) else { return Ok(None) };
        match entry.value {
            MastValue::Word(word) => Ok(Some(word)),
            MastValue::Group(_) => {
                let place = format!("line {}", entry.line);
                Err(TaskFileError::row(&place, format!("`{name}` is a group: expected one value")))
            }
        }
    }

    /// Takes the word of this name, which must exist.
    pub(super) fn needed_word(&mut self, name: &str) -> Result<String, TaskFileError> {
        let what = format!("`{name}` is missing");
        self.word(name)?.ok_or_else(|| TaskFileError::row(&self.place, what))
    }

    /// Takes the type, which must be one of `known`, and returns the type in small letters.
    pub(super) fn kind(&mut self, known: &[&str], why: &str) -> Result<String, TaskFileError> {
        let kind = self.needed_word("Type")?;
        if known.iter().any(|it| it.eq_ignore_ascii_case(&kind)) {
            return Ok(plain(&kind));
        }
        let what = format!("`Type` is {kind}: expected {}: {why}", known.join(" or "));
        Err(TaskFileError::row(&self.place, what))
    }

    /// Takes the time of this name, if there is one.
    pub(super) fn time(&mut self, name: &str) -> Result<Option<MastTime>, TaskFileError> {
        let place = self.place.clone();
        let parse = |word: String| {
            let what = format!(
                "`{name}` is {word}: expected a number of at least 0 with at most 18 decimals, below 10^20"
            );
            MastTime::parse(&word).ok_or_else(|| TaskFileError::row(&place, what))
        };
        self.word(name)?.map(parse).transpose()
    }

    /// Takes the time of this name, which must exist.
    pub(super) fn needed_time(&mut self, name: &str) -> Result<MastTime, TaskFileError> {
        let what = format!("`{name}` is missing");
        self.time(name)?.ok_or_else(|| TaskFileError::row(&self.place, what))
    }

    /// Takes the number of this name, and refuses any value but `usual`.
    pub(super) fn only(
        &mut self,
        name: &str,
        usual: &str,
        remedy: &str,
    ) -> Result<(), TaskFileError> {
        let Some(word) = self.word(name)? else { return Ok(()) };
        if MastTime::parse(&word).is_some_and(|it| Some(it) == MastTime::parse(usual)) {
            return Ok(());
        }
        Err(TaskFileError::row(&self.place, format!("`{name}` is {word}: {remedy}")))
    }

    /// Refuses the entry of this name, unless the entry is an empty group.
    pub(super) fn refuse(&mut self, name: &str, why: &str) -> Result<(), TaskFileError> {
        match self.take(name) {
            None => Ok(()),
            Some(MastEntry { value: MastValue::Group(entries), .. }) if entries.is_empty() => {
                Ok(())
            }
            Some(entry) => {
                let place = format!("line {}, {}", entry.line, entry.name);
                Err(TaskFileError::row(&place, why))
            }
        }
    }

    /// Ends the reading of the group: entries in `unread` are noted in `notes`, and all others are refused.
    pub(super) fn finish(
        self,
        unread: &[&str],
        notes: &mut BTreeSet<String>,
    ) -> Result<(), TaskFileError> {
        for entry in self.entries {
            let known = unread.iter().find(|name| name.eq_ignore_ascii_case(&entry.name));
            let Some(name) = known else {
                let place = format!("line {}, {}", entry.line, entry.name);
                return Err(TaskFileError::row(
                    &place,
                    "not known here: no task set has this part",
                ));
            };
            notes.insert((*name).to_owned());
        }
        Ok(())
    }
}

/// Returns the groups of a list such as `((Type => …), (Type => …))`; a single group may stand without the outer
/// parentheses.
pub(super) fn groups(entry: MastEntry) -> Result<Vec<MastFields>, TaskFileError> {
    let MastValue::Group(entries) = entry.value else {
        let place = format!("line {}, {}", entry.line, entry.name);
        return Err(TaskFileError::row(&place, "expected a list in parentheses"));
    };
    if entries.first().is_some_and(|first| !first.name.is_empty()) {
        let value = MastValue::Group(entries);
        return Ok(vec![MastFields::of(MastEntry { value, ..entry })?]);
    }
    let named = |inner: MastEntry| match inner.name.as_str() {
        "" => MastFields::of(MastEntry { name: entry.name.clone(), ..inner }),
        other => {
            let place = format!("line {}, {}", inner.line, entry.name);
            Err(TaskFileError::row(
                &place,
                format!("`{other}` stands between groups in parentheses"),
            ))
        }
    };
    entries.into_iter().map(named).collect()
}

/// Returns the names of a list such as `(a, b)`.
pub(super) fn names(entry: MastEntry) -> Result<Vec<String>, TaskFileError> {
    let place = format!("line {}, {}", entry.line, entry.name);
    let wrong = || TaskFileError::row(&place, "expected a list of names in parentheses");
    let MastValue::Group(entries) = entry.value else { return Err(wrong()) };
    let name = |inner: MastEntry| match inner.value {
        MastValue::Word(word) if inner.name.is_empty() => Ok(word),
        _ => Err(wrong()),
    };
    entries.into_iter().map(name).collect()
}
