// SPDX-License-Identifier: MIT OR Apache-2.0
//! The answer of a verb: a sentence in plain words, with the evidence or the data that the sentence summarises.
//!
//! Every verb ends through [`answer`], which alone decides the position of the sentence: first if a program or a
//! pager reads stdout, last on a terminal, where the last line is visible, and on stderr if stdout carries data.

use super::{print, say, stderr_is_terminal, stdout_is_terminal, stdout_layout};
use corehop_app::answer::Answer;
use corehop_app::failure::{Exit, Failure};

/// The rest of an answer, in addition to its sentence.
#[derive(Debug, Clone, Copy)]
pub(crate) enum AnswerBody<'a> {
    /// Text for people on stdout; may be empty.
    Text(&'a str),
    /// Data for programs on stdout.
    Data(&'a str),
    /// Text for people on stderr, because stdout belongs to a program that ran, or has carried data already.
    Beside(&'a str),
}

/// Ends a verb by printing its sentence and the rest of its answer.
///
/// # Errors
/// Returns a failure with exit code 6 if stdout cannot be written.
pub(crate) fn answer(sentence: &str, rest: AnswerBody<'_>) -> Result<(), Failure> {
    let page = stdout_layout();
    let line = format!("{}\n", page.wrap(sentence, 0));
    match rest {
        AnswerBody::Text(text) => print(&ordered(&line, &page.fold(text), stdout_is_terminal())),
        AnswerBody::Data(data) => {
            print(data)?;
            say(&line);
            Ok(())
        }
        AnswerBody::Beside(text) => {
            say(&ordered(&line, &page.fold(text), stderr_is_terminal()));
            Ok(())
        }
    }
}

/// Joins the sentence and the text in the order that suits the stream.
fn ordered(line: &str, text: &str, is_terminal: bool) -> String {
    let gap = |joined: bool| if text.is_empty() || joined { "" } else { "\n" };
    if is_terminal {
        format!("{text}{}{line}", gap(text.ends_with("\n\n")))
    } else {
        format!("{line}{}{text}", gap(text.starts_with('\n')))
    }
}

/// Ends a verb with the answer of a use case, as JSON if requested, else as text.
///
/// # Errors
/// As [`answer`].
pub(crate) fn told(of: &Answer, as_json: bool) -> Result<Exit, Failure> {
    either(&of.sentence, as_json.then_some(&of.json), || of.text.clone())?;
    Ok(of.exit)
}

/// Ends a verb with JSON for programs, or with text for people.
///
/// # Errors
/// As [`answer`].
pub(crate) fn either(
    sentence: &str,
    json: Option<&serde_json::Value>,
    text: impl FnOnce() -> String,
) -> Result<(), Failure> {
    match json {
        Some(json) => {
            let json = with_sentence(json, sentence);
            answer(sentence, AnswerBody::Data(&format!("{json:#}\n")))
        }
        None => answer(sentence, AnswerBody::Text(&text())),
    }
}

/// Adds the sentence to the JSON answer, so that a script can show it. Lists have no field for a sentence and stay
/// unchanged.
fn with_sentence(json: &serde_json::Value, sentence: &str) -> serde_json::Value {
    let mut json = json.clone();
    if let Some(fields) = json.as_object_mut() {
        fields.entry("sentence").or_insert_with(|| sentence.into());
    }
    json
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_json_answer_has_its_sentence_once() {
        assert_eq!(with_sentence(&json!({"n": 1}), "Yes."), json!({"n": 1, "sentence": "Yes."}));
        let own = json!({"sentence": "No."});
        assert_eq!(with_sentence(&own, "Yes."), own);
        assert_eq!(with_sentence(&json!([1]), "Yes."), json!([1]));
    }

    #[test]
    fn the_sentence_stands_first_in_a_pipe_and_last_on_a_terminal() {
        assert_eq!(ordered("Yes.\n", "a table\n", false), "Yes.\n\na table\n");
        assert_eq!(ordered("Yes.\n", "a table\n", true), "a table\n\nYes.\n");
        assert_eq!(ordered("Yes.\n", "", true), "Yes.\n");
        assert_eq!(ordered("Yes.\n", "\na group\n", false), "Yes.\n\na group\n");
    }
}
