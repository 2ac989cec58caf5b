// SPDX-License-Identifier: MIT OR Apache-2.0
//! Corehop reads the answers that `corehop offload -o` wrote, live or simulated, and shows them as text
//! and as a page.
//!
//! The file of an answer holds its sentences, because they follow from what the program did while it
//! ran.

use serde_json::Value;

use super::figure::{FigureTable, PageSection, SectionPlace};
use super::front::{PageFront, SurenessCheck, WordedChart, WordedLine};
use super::html;
use super::table::plain;
use corehop_plan::shown;

/// The schema of an answer about a real program, and the schema of an answer about a simulated machine.
pub const SCHEMAS: [&str; 2] = ["corehop-offload", "corehop-offload-simulated"];
/// The version that both schemas of an answer have.
pub const VERSION: u64 = 1;

/// The share of a program's calls, in percent, that the library must see.
const ENOUGH_SEEN: f64 = 99.0;

/// The reason why a text is not a readable answer of `corehop offload`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotAnAnswer {
    /// The text is not an answer of `corehop offload`.
    #[error("this is not an answer of `corehop offload`")]
    NotOurs,
    /// A later version of corehop wrote the answer.
    #[error(
        "this answer of `corehop offload` has version {0}, but this corehop reads version {VERSION}: use a newer corehop"
    )]
    Later(u64),
    /// The text begins like an answer of `corehop offload`, but corehop cannot read its rest.
    #[error("this answer of `corehop offload` is damaged: {0}")]
    Damaged(String),
}

/// An answer of `corehop offload`, read from a file.
#[derive(Debug, Clone, PartialEq)]
pub struct OffLoadAnswer(Value);

impl OffLoadAnswer {
    /// Reads an answer from the text of a file.
    ///
    /// # Errors
    /// Returns [`NotAnAnswer`] if the text is not an answer that this version of corehop can read.
    pub fn parse(text: &str) -> Result<Self, NotAnAnswer> {
        let is_ours = || text.chars().take(200).collect::<String>().contains("\"corehop-offload");
        let value: Value = match serde_json::from_str(text) {
            Ok(value) => value,
            Err(error) if is_ours() => return Err(NotAnAnswer::Damaged(error.to_string())),
            Err(_) => return Err(NotAnAnswer::NotOurs),
        };
        let schema = value.get("schema").and_then(Value::as_str).unwrap_or_default();
        if !SCHEMAS.contains(&schema) {
            return Err(NotAnAnswer::NotOurs);
        }
        match value.get("version").and_then(Value::as_u64) {
            Some(VERSION) => Ok(Self(value)),
            Some(later) => Err(NotAnAnswer::Later(later)),
            None => Err(NotAnAnswer::Damaged("it has no version".to_owned())),
        }
    }

    /// Returns the whole answer of `corehop offload` as JSON.
    pub const fn json(&self) -> &Value {
        &self.0
    }

    /// Returns the sentences of the answer of `corehop offload`, of which the main sentence comes
    /// first.
    fn sentences(&self) -> Vec<String> {
        let all = self.0.get("sentences").and_then(Value::as_array).into_iter().flatten();
        all.filter_map(|it| Some(shown::line(it.as_str()?).into_owned())).collect()
    }

    /// Returns the main sentence of the answer of `corehop offload`.
    pub fn sentence(&self) -> String {
        let first = self.sentences().into_iter().next();
        first.unwrap_or_else(|| {
            "The answer has no sentence, because an early version wrote the file.".to_owned()
        })
    }

    /// Returns the rows of the answer: one for each system call of a program, or one for each policy on
    /// a simulated machine.
    pub fn rows(&self) -> &[Value] {
        let list = ["by_call", "policies"].iter().find_map(|key| self.0.get(key)?.as_array());
        list.map_or(&[], Vec::as_slice)
    }

    /// Returns the rows of the answer as a table, followed by the sentences after the main one.
    pub fn text(&self) -> String {
        let mut text = self.table().as_ref().map(plain).unwrap_or_default();
        text.extend(self.sentences().iter().skip(1).flat_map(|it| [it, "\n"]));
        text
    }

    /// Writes the page of the answer; the command `everything` prints the complete answer.
    pub fn page(&self, everything: &str) -> String {
        let front = PageFront {
            title: self.title(),
            answer: self.sentence(),
            checks: self.checks(),
            chart: self.chart(),
            next: Some((
                "corehop measure core-switch".to_owned(),
                "measures the cost of a switch for each mechanism on this host.",
            )),
            everything: everything.to_owned(),
            facts: self.facts(),
            ..PageFront::default()
        };
        let section =
            PageSection::new(SectionPlace::Result, "answer", "Cores that executed the calls");
        let section = self.sentences().into_iter().skip(1).fold(section, PageSection::says);
        let tables = self.table().map(FigureTable::shown).into_iter().collect();
        html::page_of(&front, vec![PageSection { tables, ..section }])
    }

    /// Returns the checks behind the answer about a program: the calls that were timed on both cores, and the share of the
    /// kernel's calls that the library saw, if the kernel counted the calls.
    fn checks(&self) -> Vec<SurenessCheck> {
        let has = |row: &Value, key: &str| row.get(key).is_some_and(Value::is_number);
        let calls = || self.rows().iter().filter(|row| row.get("call").is_some());
        let timed = calls().filter(|row| has(row, "here_ns") && has(row, "there_ns")).count();
        let (all, seen) = (calls().count(), self.0.pointer("/coverage/percent"));
        let both = (all > 0).then(|| {
            SurenessCheck::new(
                timed == all,
                format!("{timed} of {all} system calls were timed on both cores"),
            )
        });
        let seen = seen.and_then(Value::as_f64).map(|percent| {
            let text =
                format!("the library saw {percent:.1} % of the calls that the kernel counted");
            SurenessCheck::new(percent >= ENOUGH_SEEN, text)
        });
        [both, seen].into_iter().flatten().collect()
    }

    /// Returns a chart that compares the time of a system call on the program's cores with the time on
    /// the OS cores, for the first call with both times.
    fn chart(&self) -> Option<WordedChart> {
        let times = |row: &Value| {
            let time = |key: &str| row.get(key).and_then(Value::as_f64);
            Some((row.get("call")?.as_str()?.to_owned(), time("here_ns")?, time("there_ns")?))
        };
        let (call, here, there) = self.rows().iter().find_map(times)?;
        let line = |(words, value, group): (&str, f64, usize)| WordedLine {
            words: format!("{} {words}", shown::line(&call)),
            value,
            ends: None,
            group,
        };
        Some(WordedChart {
            quantity: "time of a call in ns".to_owned(),
            unit: "ns",
            point: "mean",
            level: 0.95,
            under: String::new(),
            lines: [("on the program's own core", here, 0), ("on the OS core", there, 1)]
                .map(line)
                .to_vec(),
        })
    }

    /// Returns a title with the name of the program, or of the simulated machine.
    fn title(&self) -> String {
        let words = self.0.get("program").and_then(Value::as_array).into_iter().flatten();
        let program: Vec<&str> = words.filter_map(Value::as_str).collect();
        match self.0.get("platform").and_then(Value::as_str) {
            Some(platform) => format!("Off-load on {platform}, simulated"),
            None => format!("Off-load of {}", shown::line(&program.join(" "))),
        }
    }

    fn facts(&self) -> Vec<String> {
        let about = self.0.get("load").unwrap_or(&self.0);
        let fact = |(key, name): (&str, &str)| Some(format!("{name} {}", word(about.get(key)?)));
        [
            ("os_cores", "OS cores"),
            ("program_cpus", "the program's CPUs"),
            ("mechanism", "mechanism"),
        ]
        .into_iter()
        .filter_map(fact)
        .collect()
    }

    /// Returns a table of the answer's rows that has a column for each key of a row.
    fn table(&self) -> Option<FigureTable> {
        let mut keys: Vec<&str> = Vec::new();
        for key in self.rows().iter().filter_map(Value::as_object).flat_map(|row| row.keys()) {
            if !keys.contains(&key.as_str()) {
                keys.push(key);
            }
        }
        let names: Vec<String> = keys.iter().map(|key| key.replace('_', " ")).collect();
        let heads: Vec<&str> = names.iter().map(String::as_str).collect();
        let mut table = FigureTable::new(self.title(), &heads);
        let cell = |row: &Value, key: &str| row.get(key).map_or_else(|| "-".to_owned(), word);
        table.rows =
            self.rows().iter().map(|row| keys.iter().map(|key| cell(row, key)).collect()).collect();
        (!table.rows.is_empty()).then_some(table)
    }
}

/// Returns a JSON value as the text of a table field.
fn word(value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::String(text) if text.is_empty() => "in turns".to_owned(),
        Value::String(text) => shown::line(text).into_owned(),
        Value::Number(number) if number.is_f64() => {
            number.as_f64().map_or_else(String::new, |it| format!("{it:.2}"))
        }
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANSWER: &str = r#"{"schema": "corehop-offload", "version": 1, "program": ["a\u001bb"], "os_cores": "1",
        "mechanism": "v5", "coverage": {"percent": 98.0}, "by_call": [{"call": "read", "calls": 3, "here_ns": 12.5}, {"call": "write", "calls": 4}],
        "sentences": ["2 of 3 calls were made on CPU 1.", "The kernel counted 7."]}"#;

    #[test]
    fn an_answer_has_its_sentence_its_rows_and_a_page() {
        let answer = OffLoadAnswer::parse(ANSWER).unwrap();
        assert_eq!(answer.sentence(), "2 of 3 calls were made on CPU 1.");
        assert_eq!(answer.rows().len(), 2);
        let text = answer.text();
        assert!(text.contains("12.50") && text.contains("here ns") && text.contains("counted 7"));
        assert!(!text.contains('\u{1b}') && text.contains(" -"), "{text}");
        let page = answer.page("corehop report a.json --table text");
        assert!(page.contains("2 of 3 calls") && page.contains("Off-load of"));
        assert!(page.contains("0 of 2 system calls were timed on both cores"), "{page}");
        assert!(page.contains("the library saw 98.0 % of the calls"), "{page}");
    }

    #[test]
    fn other_texts_later_versions_and_damage_are_told_apart() {
        let refused = |text: &str| OffLoadAnswer::parse(text).unwrap_err();
        assert_eq!(refused("{\"a\": 1}"), NotAnAnswer::NotOurs);
        assert_eq!(refused("<xml>"), NotAnAnswer::NotOurs);
        assert_eq!(
            refused(&ANSWER.replace("\"version\": 1", "\"version\": 2")),
            NotAnAnswer::Later(2)
        );
        assert!(matches!(refused(&ANSWER[..150]), NotAnAnswer::Damaged(_)));
    }

    #[test]
    fn fields_and_facts_are_told_in_words() {
        use serde_json::json;
        let told = [json!(null), json!(""), json!("x"), json!(1.257), json!(12), json!(true)];
        assert_eq!(told.each_ref().map(word), ["-", "in turns", "x", "1.26", "12", "true"]);
        let answer = OffLoadAnswer::parse(ANSWER).unwrap();
        assert_eq!(answer.facts(), ["OS cores 1", "mechanism v5"]);
        let simulated = r#"{"schema": "corehop-offload-simulated", "version": 1, "platform": "m5", "load": {"os_cores": "2-3"},
            "policies": [{"arm": "bound", "gain": 1.5}]}"#;
        let simulated = OffLoadAnswer::parse(simulated).unwrap();
        assert_eq!(simulated.title(), "Off-load on m5, simulated");
        assert_eq!(simulated.facts(), ["OS cores 2-3"]);
        assert_eq!(
            simulated.sentence(),
            "The answer has no sentence, because an early version wrote the file."
        );
        let table = simulated.table().unwrap();
        let row = |name: &str| {
            table.head.iter().position(|it| it == name).map(|at| table.rows[0][at].as_str())
        };
        assert_eq!((row("arm"), row("gain")), (Some("bound"), Some("1.50")));
    }
}
