// SPDX-License-Identifier: MIT OR Apache-2.0
//! Parses the text of a MAST model: elements `Keyword (Name => value, …);` with comments that begin with `--`.
//!
//! Keywords and names are the same in capital and small letters. A value is a word, or a group of entries in
//! parentheses.

use crate::workload::foreign::TaskFileError;

/// The deepest allowed nesting of parentheses; the requirements of an event in a transaction need five levels.
const DEEPEST: usize = 16;

/// An entry of a group: a value, mostly with a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct MastEntry {
    /// The name before the arrow, as written; empty if the entry is only a value.
    pub(super) name: String,
    /// The line of the entry, from 1.
    pub(super) line: usize,
    pub(super) value: MastValue,
}

/// A value of a MAST model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum MastValue {
    /// A keyword, a name, a number or a date, as written, without quotation marks.
    Word(String),
    /// The entries between parentheses.
    Group(Vec<MastEntry>),
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum MastToken {
    Word(String),
    Open,
    Close,
    Arrow,
    Comma,
    Semicolon,
}

impl MastToken {
    /// Returns the token as error messages show the token.
    fn shown(&self) -> String {
        match self {
            Self::Word(word) => format!("`{word}`"),
            Self::Open => "`(`".to_owned(),
            Self::Close => "`)`".to_owned(),
            Self::Arrow => "`=>`".to_owned(),
            Self::Comma => "`,`".to_owned(),
            Self::Semicolon => "`;`".to_owned(),
        }
    }
}

/// A place in the text: line and column, from 1.
type TextPlace = (usize, usize);

fn syntax((line, column): TextPlace, what: &str) -> TaskFileError {
    let what = format!("line {line}, column {column}: {what}");
    TaskFileError::Syntax { format: "MAST", what }
}

/// Returns the elements of a model, each as an entry whose name is the keyword and whose value is a group.
pub(super) fn elements(text: &str) -> Result<Vec<MastEntry>, TaskFileError> {
    let (tokens, end) = tokens(text)?;
    let mut parsing = MastParsing { tokens, at: 0, end };
    let mut elements = Vec::new();
    while parsing.at < parsing.tokens.len() {
        let line = parsing.place().0;
        let Some(MastToken::Word(name)) = parsing.next() else {
            return Err(parsing.wrong("expected a keyword, for example `Transaction`"));
        };
        parsing.expect(&MastToken::Open)?;
        let value = MastValue::Group(parsing.group(1)?);
        parsing.expect(&MastToken::Semicolon)?;
        elements.push(MastEntry { name, line, value });
    }
    Ok(elements)
}

/// Splits a text into tokens with their places; also returns the place of the end.
fn tokens(text: &str) -> Result<(Vec<(MastToken, TextPlace)>, TextPlace), TaskFileError> {
    let mut tokens = Vec::new();
    let mut end = (1, 1);
    for (at, line) in text.lines().enumerate() {
        let (mut rest, mut column) = (line, 1);
        loop {
            let trimmed = rest.trim_start();
            column += rest[..rest.len() - trimmed.len()].chars().count();
            rest = trimmed;
            end = (at + 1, column);
            if rest.is_empty() || rest.starts_with("--") {
                break;
            }
            let (token, length) = first(rest).map_err(|what| syntax(end, &what))?;
            tokens.push((token, end));
            column += rest[..length].chars().count();
            rest = &rest[length..];
        }
    }
    Ok((tokens, end))
}

/// Returns the token at the start of a text, with its length in bytes, or the error in words.
fn first(text: &str) -> Result<(MastToken, usize), String> {
    let mark = text.chars().next().unwrap_or_default();
    Ok(match mark {
        '(' => (MastToken::Open, 1),
        ')' => (MastToken::Close, 1),
        ',' => (MastToken::Comma, 1),
        ';' => (MastToken::Semicolon, 1),
        '=' if text.starts_with("=>") => (MastToken::Arrow, 2),
        '"' => {
            let word = text[1..].split_once('"').map(|(word, _)| word);
            let word = word.ok_or("the quotation mark is not closed on its line")?;
            (MastToken::Word(word.to_owned()), word.len() + 2)
        }
        _ => match word(text) {
            "" => return Err(format!("`{mark}` has no meaning in a model")),
            word => (MastToken::Word(word.to_owned()), word.len()),
        },
    })
}

/// Returns the word at the start of a text: letters, digits, and the marks of names, numbers and dates, up to a
/// comment.
fn word(text: &str) -> &str {
    let ends = |c: char| !c.is_alphanumeric() && !"_.+-:".contains(c);
    let word = &text[..text.find(ends).unwrap_or(text.len())];
    word.split_once("--").map_or(word, |(word, _)| word)
}

/// The state of parsing: the tokens, and the next token's number.
struct MastParsing {
    tokens: Vec<(MastToken, TextPlace)>,
    at: usize,
    end: TextPlace,
}

impl MastParsing {
    fn peek(&self) -> Option<&MastToken> {
        self.tokens.get(self.at).map(|(token, _)| token)
    }

    fn next(&mut self) -> Option<MastToken> {
        let token = self.peek().cloned();
        self.at += 1;
        token
    }

    /// Returns the place of the next token, or of the end.
    fn place(&self) -> TextPlace {
        self.tokens.get(self.at).map_or(self.end, |(_, place)| *place)
    }

    /// Returns the error for the token that was read last.
    fn wrong(&mut self, expected: &str) -> TaskFileError {
        self.at -= 1;
        match self.peek() {
            Some(token) => syntax(self.place(), &format!("found {}: {expected}", token.shown())),
            None => syntax(self.end, &format!("the text ends: {expected}")),
        }
    }

    fn expect(&mut self, token: &MastToken) -> Result<(), TaskFileError> {
        if self.next().as_ref() == Some(token) {
            return Ok(());
        }
        Err(self.wrong(&format!("expected {}", token.shown())))
    }

    /// Parses the entries up to the closing parenthesis of a group at nesting depth `depth`.
    fn group(&mut self, depth: usize) -> Result<Vec<MastEntry>, TaskFileError> {
        if depth > DEEPEST {
            self.at -= 1;
            return Err(syntax(self.place(), &format!("parentheses deeper than {DEEPEST} levels")));
        }
        let mut entries = Vec::new();
        if self.peek() == Some(&MastToken::Close) {
            self.at += 1;
            return Ok(entries);
        }
        loop {
            entries.push(self.entry(depth)?);
            match self.next() {
                Some(MastToken::Comma) => {}
                Some(MastToken::Close) => return Ok(entries),
                _ => return Err(self.wrong("expected `,` or `)`")),
            }
        }
    }

    fn entry(&mut self, depth: usize) -> Result<MastEntry, TaskFileError> {
        let line = self.place().0;
        let named = self.tokens.get(self.at + 1).is_some_and(|(it, _)| *it == MastToken::Arrow);
        let name = match self.peek() {
            Some(MastToken::Word(name)) if named => name.clone(),
            _ => String::new(),
        };
        if !name.is_empty() {
            self.at += 2;
        }
        let value = match self.next() {
            Some(MastToken::Word(word)) => MastValue::Word(word),
            Some(MastToken::Open) => MastValue::Group(self.group(depth + 1)?),
            _ => return Err(self.wrong("expected a word or `(`")),
        };
        Ok(MastEntry { name, line, value })
    }
}
