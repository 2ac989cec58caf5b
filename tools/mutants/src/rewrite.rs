// SPDX-License-Identifier: MIT OR Apache-2.0
//! A source file in which every chosen place has two forms, of which a number picks one at run time.
//!
//! `a < b` becomes `(if crate::__mutant::on(17) { a <= b } else { a < b })`, and a statement that can be left out
//! `if !crate::__mutant::on(17) { … }`. Other bytes stay, and so do the numbers of lines.

use std::fmt::Write;
use std::ops::Range;
use std::str::FromStr;

use crate::sites::{Mutation, MutationKind};

/// A mutation of the file with its number.
pub(crate) type Numbered<'a> = (u32, &'a Mutation);

/// A rewritten file, and the bytes in which each mutation is now.
#[derive(Debug)]
pub(crate) struct Rewritten {
    pub text: String,
    pub places: Vec<(u32, Range<usize>)>,
}

/// Rewrites `text` with the mutations.
pub(crate) fn rewrite(text: &str, mutations: &[Numbered<'_>]) -> Rewritten {
    let mut sorted: Vec<Numbered<'_>> = mutations.to_vec();
    // Outer before inner; places in a syntax tree never overlap otherwise.
    sorted.sort_by_key(|(number, mutation)| {
        (mutation.range.start, std::cmp::Reverse(mutation.range.end), *number)
    });
    let mut rewritten =
        Rewritten { text: String::with_capacity(text.len() * 2), places: Vec::new() };
    emit(text, 0..text.len(), &sorted, &mut rewritten);
    rewritten
}

/// Appends `range` of the source with the mutations in it.
fn emit(text: &str, range: Range<usize>, mutations: &[Numbered<'_>], into: &mut Rewritten) {
    let mut at = range.start;
    let mut rest = mutations;
    while let Some((_, first)) = rest.first() {
        let whole = first.range.clone();
        let same = rest.iter().take_while(|(_, mutation)| mutation.range == whole).count();
        let inside =
            rest.iter().take_while(|(_, mutation)| mutation.range.end <= whole.end).count();
        into.text.push_str(&text[at..whole.start]);
        let start = into.text.len();
        let (before, after) = switches(text, &rest[..same]);
        into.text.push_str(&before);
        emit(text, whole.clone(), &rest[same..inside], into);
        into.text.push_str(after);
        let place = start..into.text.len();
        into.places.extend(rest[..same].iter().map(|(number, _)| (*number, place.clone())));
        at = whole.end;
        rest = &rest[inside..];
    }
    into.text.push_str(&text[at..range.end]);
}

/// The text before and after a place with these mutations.
fn switches(text: &str, mutations: &[Numbered<'_>]) -> (String, &'static str) {
    let (first, mutation) = mutations[0];
    if mutation.kind == MutationKind::Statement {
        return (format!("if !crate::__mutant::on({first}) {{ "), " }");
    }
    let mut before = String::from("(");
    for (number, mutation) in mutations {
        let mutated = in_one_line(mutation.mutated(text, &mutation.range));
        let _ = write!(before, "if crate::__mutant::on({number}) {{ {mutated} }} else ");
    }
    before.push_str("{ ");
    (before, " })")
}

/// The same tokens without the line breaks and the comments between them.
fn in_one_line(text: String) -> String {
    if !text.contains('\n') && !text.contains("//") {
        return text;
    }
    proc_macro2::TokenStream::from_str(&text).map_or(text, |tokens| tokens.to_string())
}

/// The module by which a crate asks for the mutant that is switched on, for `numbers` mutants: one line.
///
/// Programs and libraries started by a test inherit the variables. `COREHOP_MUTANT` is the number. Where
/// `COREHOP_MUTANT_NOTES` names a file, no mutant is on, and each place that is evaluated appends its number once.
pub(crate) fn switch_module(numbers: u32) -> String {
    let words = numbers / 64 + 1;
    let module = include_str!("switch.rs").replace("NUMBERS / 64", &words.to_string());
    let code: Vec<_> = module.lines().filter(|line| !line.trim_start().starts_with("//")).collect();
    format!(
        "\n#[allow(warnings, clippy::all, clippy::pedantic)] mod __mutant {{ {} }}\n",
        code.join(" ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sites::Edit;

    fn mutation(text: &str, whole: &str, part: &str, by: &str) -> Mutation {
        let start = text.find(whole).unwrap();
        let at = start + whole.find(part).unwrap();
        let edits = vec![Edit { range: at..at + part.len(), text: by.to_owned() }];
        let kind =
            if whole.ends_with(';') { MutationKind::Statement } else { MutationKind::Operator };
        Mutation { kind, range: start..start + whole.len(), edits }
    }

    #[test]
    fn each_place_has_its_mutated_form_beside_its_own() {
        let text = "fn f() -> bool { a < b }";
        let one = mutation(text, "a < b", "<", "<=");
        let rewritten = rewrite(text, &[(7, &one)]);
        let expected = "fn f() -> bool { (if crate::__mutant::on(7) { a <= b } else { a < b }) }";
        assert_eq!(rewritten.text, expected);
        assert_eq!(&rewritten.text[rewritten.places[0].1.clone()][..4], "(if ");
    }

    #[test]
    fn places_inside_of_others_and_several_mutations_of_one_place_stay_apart() {
        let text = "x = a + b < c;";
        let inner = mutation(text, "a + b", "+", "-");
        let outer = mutation(text, "a + b < c", "<", "<=");
        let never = mutation(text, "a + b < c", "a + b < c", "false");
        let gone = mutation(text, text, text, "");
        let rewritten = rewrite(text, &[(4, &gone), (3, &never), (1, &inner), (2, &outer)]);
        assert_eq!(
            rewritten.text,
            "if !crate::__mutant::on(4) { x = (if crate::__mutant::on(2) { a + b <= c } else \
             if crate::__mutant::on(3) { false } else { (if crate::__mutant::on(1) { a - b } else \
             { a + b }) < c }); }"
        );
        assert_eq!(rewritten.places.len(), 4);
    }

    #[test]
    fn line_numbers_stay_where_an_expression_has_several_lines_and_comments() {
        let text = "let x = a // one {\n    + b;\nlet y = 2;\n";
        let one = mutation(text, "a // one {\n    + b", "+", "-");
        let rewritten = rewrite(text, &[(1, &one)]).text;
        assert_eq!(rewritten.lines().count(), 3, "{rewritten}");
        assert!(
            rewritten.starts_with("let x = (if crate::__mutant::on(1) { a - b } else { a // one")
        );
        syn::parse_str::<syn::Block>(&format!("{{{rewritten}}}")).unwrap();
    }

    #[test]
    fn the_module_of_the_switch_is_one_line_of_rust() {
        let module = switch_module(400);
        assert_eq!(module.trim().lines().count(), 1);
        assert!(module.contains("[const { AtomicU64::new(0) }; 7]"), "{module}");
        syn::parse_file(&module).unwrap();
    }
}
