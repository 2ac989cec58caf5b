// SPDX-License-Identifier: MIT OR Apache-2.0
//! The program parses, calls `corehop-app` and prints: it contains no arithmetic and no clock.
//!
//! A small tokenizer finds binary `+ - * / %` and their assignments, methods that stand for them, and the types of clocks. It knows
//! no types, so that texts joined with `+` count as well: `format!` joins them.

use corehop_rules::{code, rust};

/// The sources in which some of it belongs to the terminal, and why.
const DEFENDED: [(&str, &str); 1] = [(
    "progress.rs",
    "the bars of a run: their columns and lines on this terminal, and the time since they were drawn",
)];

/// The names of clocks, and of methods that compute.
const COMPUTES: &[&str] = &[
    "Instant",
    "SystemTime",
    "elapsed",
    "sum",
    "product",
    "pow",
    "powi",
    "powf",
    "sqrt",
    "round",
    "div_ceil",
    "div_euclid",
    "rem_euclid",
    "abs_diff",
    "midpoint",
    "mul_add",
];

/// The beginnings of names of methods that compute.
const FAMILIES: &[&str] = &["saturating_", "wrapping_", "checked_", "overflowing_"];

/// The words after which an operand begins: an operator behind one has a single operand.
const KEYWORDS: &[&str] =
    &["return", "in", "if", "else", "match", "break", "move", "let", "mut", "as", "while", "ref"];

/// A piece of a source: a word or a number, a literal, a lifetime, or a sign.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Token {
    Word(String),
    Literal,
    Lifetime,
    Sign(char),
}

/// The tokens of a source, each with its line, without comments. Arrows are left out.
fn tokens(text: &str) -> Vec<(usize, Token)> {
    let chars: Vec<char> = text.chars().collect();
    let at = |place: usize| chars.get(place).copied().unwrap_or(' ');
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let (mut found, mut here, mut line) = (Vec::new(), 0, 1);
    while here < chars.len() {
        let start = here;
        let token = match at(here) {
            '/' if at(here + 1) == '/' => {
                here += chars[here..].iter().take_while(|c| **c != '\n').count();
                None
            }
            '"' => {
                here = end_of_text(&chars, here);
                Some(Token::Literal)
            }
            'r' if at(here + 1) == '"' || (at(here + 1) == '#' && at(here + 2) == '"') => {
                here = end_of_raw(&chars, here);
                Some(Token::Literal)
            }
            '\'' if at(here + 1) == '\\' => {
                here += 3;
                here += chars[here..].iter().take_while(|c| **c != '\'').count() + 1;
                Some(Token::Literal)
            }
            '\'' if at(here + 2) == '\'' => {
                here += 3;
                Some(Token::Literal)
            }
            '\'' => {
                here += 1;
                here += chars[here..].iter().take_while(|c| is_word(**c)).count();
                Some(Token::Lifetime)
            }
            c if is_word(c) => {
                here += chars[here..].iter().take_while(|c| is_word(**c)).count();
                Some(Token::Word(chars[start..here].iter().collect()))
            }
            '-' if at(here + 1) == '>' => {
                here += 2;
                None
            }
            c => {
                here += 1;
                (!c.is_whitespace()).then_some(Token::Sign(c))
            }
        };
        found.extend(token.map(|token| (line, token)));
        line += chars[start..here].iter().filter(|c| **c == '\n').count();
    }
    found
}

/// The place behind a text that begins here.
fn end_of_text(chars: &[char], start: usize) -> usize {
    let mut here = start + 1;
    while here < chars.len() && chars[here] != '"' {
        here += if chars[here] == '\\' { 2 } else { 1 };
    }
    here + 1
}

/// The place behind a raw text, with one `#` or none.
fn end_of_raw(chars: &[char], start: usize) -> usize {
    let fenced = chars[start + 1] == '#';
    let mut here = start + 2 + usize::from(fenced);
    while here < chars.len() && !(chars[here] == '"' && (!fenced || chars[here + 1] == '#')) {
        here += 1;
    }
    here + 1 + usize::from(fenced)
}

/// Whether an operator behind this token has an operand on its left.
fn ends_operand(token: &Token) -> bool {
    match token {
        Token::Word(word) => !KEYWORDS.contains(&word.as_str()),
        Token::Literal => true,
        Token::Lifetime => false,
        Token::Sign(sign) => [')', ']', '?'].contains(sign),
    }
}

/// Whether a `+` before these tokens adds a bound to a type, and no value.
fn is_bound(after: &[(usize, Token)]) -> bool {
    let is = |place: usize, sign| after.get(place).is_some_and(|it| it.1 == Token::Sign(sign));
    match after.first() {
        Some((_, Token::Lifetime)) => true,
        Some((_, Token::Word(word))) => {
            let mut letters = word.chars();
            let camel =
                letters.next().is_some_and(char::is_uppercase) && letters.any(char::is_lowercase);
            let called = is(1, '(') && !["Fn", "FnMut", "FnOnce"].contains(&word.as_str());
            camel && !called && !(is(1, ':') && is(2, ':'))
        }
        _ => false,
    }
}

/// The arithmetic and the clocks of a source, each with the line of code that has it. Items for tests are left out.
fn computes(source: &str) -> Vec<(String, String)> {
    let lines = code(source);
    let all = tokens(&lines.join("\n"));
    let mut found = Vec::new();
    for (place, (line, token)) in all.iter().enumerate() {
        let before = place.checked_sub(1).map(|before| &all[before].1);
        let what = match token {
            Token::Word(word)
                if COMPUTES.contains(&word.as_str())
                    || FAMILIES.iter().any(|family| word.starts_with(family)) =>
            {
                word.clone()
            }
            // These have no form with one operand; `::*` and `$(…)*` follow signs.
            Token::Sign('+') if !is_bound(&all[place + 1..]) => "+".to_owned(),
            Token::Sign(sign @ ('/' | '%')) => sign.to_string(),
            Token::Sign(sign @ ('-' | '*')) if before.is_some_and(ends_operand) => sign.to_string(),
            _ => continue,
        };
        found.push((lines[line - 1].trim().to_owned(), what));
    }
    found
}

/// The sources of the program: their paths below its `src`, and their texts.
fn program() -> Vec<(String, String)> {
    let own = |(path, text): (String, String)| {
        Some((path.strip_prefix("crates/corehop/src/")?.to_owned(), text))
    };
    rust().into_iter().filter_map(own).collect()
}

#[test]
fn the_program_contains_no_arithmetic_and_no_clock() {
    let all = program();
    assert!(all.len() > 40, "{}", all.len());
    let mut wrong = Vec::new();
    for (path, text) in &all {
        let found = computes(text);
        if DEFENDED.iter().any(|(source, _)| source == path) {
            assert!(!found.is_empty(), "{path} needs no defence any more");
            continue;
        }
        wrong.extend(found.into_iter().map(|(line, what)| format!("{path}: {what}: {line}")));
    }
    assert!(wrong.is_empty(), "these belong to corehop-app: {wrong:#?}");
}

#[test]
fn every_way_to_compute_is_found() {
    let bad = [
        "let x = a + 1;",
        "let x = a+b;",
        "x += 1;",
        "let x = self.width - (indent);",
        "let x = rest[0] - 1;",
        "f(x)? * times",
        "1e3 * us",
        "a / b",
        "a %= 2;",
        "text + \"\\n\"",
        "let x = if c { 1 } else { 2 } + n;",
        "let x = 1 + LINES;",
        "let x = a + Nanos(3);",
        "let x = a + Nanos::ZERO;",
        "use std::time::Instant;",
        "let now = std::time::SystemTime::now();",
        "let x = width.saturating_sub(1);",
        "rows.iter().sum::<u64>()",
        "a.div_ceil(b)",
        "let c = '\"'; let x = a - b;",
        "let c = '\\''; let x = a - b; // '",
        "#[cfg(test)]\nmod tests;\nfn f() { 1 + 1; }",
    ];
    for code in bad {
        assert_eq!(computes(code).len(), 1, "{code}");
    }
}

#[test]
fn what_only_looks_like_arithmetic_is_not_found() {
    let good = [
        "fn f(x: &str) -> impl Fn(&str) -> Result<u32, String> + Clone { *x }",
        "fn f<'a, T: Read + 'a>(x: &'a T) -> Box<dyn Write + Send + 'a> { g(x) }",
        "fn f(x: impl Clone + FnOnce(u8)) {}",
        "use super::*;",
        "let x = -1; let y = &*x; let z = *y; return -z;",
        "match x { Some(y) => *y, None => -1 }",
        "let x = \"a + b / c % d\"; // a + b",
        "let x = r#\"1 + \"2\" \"#;",
        "/// a + b\nfn f() {}",
        "(1..=4096).contains(&x)",
        "#[cfg(test)]\nmod tests { fn f() { 1 + 1; } }",
        "let [first, ..] = words else { return Ok(()) };",
    ];
    for code in good {
        assert_eq!(computes(code), [], "{code}");
    }
}
