// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of the places that are found, each on a few lines.

use super::*;
use crate::modules::Enabled;
use crate::workspace::WorkspaceMember;

/// The mutations of a function body: the kind, and the body after each.
fn of_body(body: &str) -> Vec<(MutationKind, String)> {
    let text = format!("fn f() {{ {body} }}");
    let found = of_text(&text);
    let inner = |after: String| after["fn f() { ".len()..after.len() - " }".len()].to_owned();
    found.into_iter().map(|(kind, after)| (kind, inner(after))).collect()
}

fn of_text(text: &str) -> Vec<(MutationKind, String)> {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("lib.rs"), text).unwrap();
    let member = WorkspaceMember::alone("x", "lib.rs");
    let host = Enabled::of_host().unwrap();
    let sources = crate::modules::of_member(folder.path(), &member, &host).unwrap();
    let found = find(&sources[0]);
    let after = |mutation: &Mutation| (mutation.kind, mutation.mutated(text, &(0..text.len())));
    found.iter().map(after).collect()
}

/// The bodies after the mutations of one kind.
fn after(kind: MutationKind, body: &str) -> Vec<String> {
    let of_kind = of_body(body).into_iter().filter(|(found, _)| *found == kind);
    of_kind.map(|(_, after)| after).collect()
}

#[test]
fn operators_become_their_neighbours() {
    let mutated = |body: &str| after(MutationKind::Operator, body);
    assert_eq!(mutated("x < y"), ["x <= y"]);
    assert_eq!(mutated("x >= y"), ["x > y"]);
    assert_eq!(mutated("x == y"), ["x != y"]);
    assert_eq!(mutated("x * y - z"), ["x * y + z", "x / y - z"]);
    assert_eq!(mutated("x += y;"), ["x -= y;"]);
    assert_eq!(mutated("!x.y()"), ["x.y()"]);
    assert_eq!(mutated("-x"), Vec::<String>::new());
    assert_eq!(mutated("x && y || z"), ["x && y && z", "(x || y) || z"]);
    assert_eq!(mutated("x % y & z"), Vec::<String>::new());
}

#[test]
fn conditions_are_negated_or_fixed() {
    let mutated = |body: &str| after(MutationKind::Condition, body);
    assert_eq!(mutated("if x.y() {}"), ["if !(x.y()) {}", "if true {}", "if false {}"]);
    assert_eq!(mutated("while x {}").len(), 3);
    assert_eq!(
        mutated("match x { y if z => {} _ => {} }")[1],
        "match x { y if true => {} _ => {} }"
    );
    assert_eq!(mutated("if let Some(x) = y {}"), Vec::<String>::new());
    assert_eq!(mutated("if x && let Some(y) = z && w {}"), Vec::<String>::new());
    assert_eq!(mutated("while true {}"), Vec::<String>::new());
}

#[test]
fn numbers_and_truth_values_become_others() {
    let mutated = |body: &str| after(MutationKind::Constant, body);
    assert_eq!(mutated("f(0)"), ["f(1)"]);
    assert_eq!(mutated("f(1_u8)"), ["f(0u8)", "f(2u8)"]);
    assert_eq!(mutated("f(0x10)"), ["f(17)", "f(0)"]);
    assert_eq!(mutated("f(2.5)"), ["f(3.5)", "f(0.0)"]);
    assert_eq!(mutated("f(true)"), ["f(false)"]);
    assert_eq!(mutated("f(\"1\", x.0, 'a')"), Vec::<String>::new());
}

#[test]
fn statements_that_act_are_left_out() {
    let mutated = |body: &str| after(MutationKind::Statement, body);
    assert_eq!(mutated("f(); g()"), [" g()"]);
    assert_eq!(mutated("x.push(y)?; x = y; x |= y;").len(), 3);
    assert_eq!(mutated("writeln!(x)?; log!(x);").len(), 2);
    let not = "let x = f(); return x; break; assert!(x); if x {} else {}; x && y;";
    assert_eq!(mutated(not), Vec::<String>::new());
}

#[test]
fn places_that_the_compiler_evaluates_have_no_mutants() {
    for text in [
        "const X: u8 = 1 + 2;",
        "static X: u8 = 1 + 2;",
        "const fn f() -> u8 { 1 + 2 }",
        "struct X; impl X { const Y: u8 = 1; const fn f() -> u8 { 1 + 2 } }",
        "enum X { A = 1 + 2 }",
        "fn f(x: [u8; 3]) {}",
        "fn f() { g::<3>(); const { 1 + 2 }; match x { 1..=3 => {} _ => {} } }",
        "fn f() { let x = [y; 3]; }",
        "#[x(1)] fn f() {}",
        "macro_rules! x { () => { 1 + 2 } } fn f() { other!(1 + 2); assert!(x < y); }",
    ] {
        let calls = of_text(text).into_iter().filter(|(kind, _)| *kind != MutationKind::Statement);
        assert_eq!(calls.collect::<Vec<_>>(), [], "{text}");
    }
}

#[test]
fn code_for_tests_alone_has_no_mutants() {
    for text in [
        "#[cfg(test)] mod tests { fn f() { g(1); } }",
        "#[cfg(test)] fn f() { g(1); }",
        "struct X; impl X { #[cfg(test)] fn f() { g(1); } }",
        "#[cfg(test)] impl X { fn f() { g(1); } }",
        "fn f() { #[cfg(test)] g(1); }",
        "fn f() { #[cfg(test)] let x = 1; #[cfg(target_os = \"macos\")] { g(1); } }",
    ] {
        assert_eq!(of_text(text), [], "{text}");
    }
    assert_eq!(of_text("#[cfg(not(test))] fn f() { g(1); }").len(), 3);
}

#[test]
fn arguments_of_known_macros_have_mutants() {
    let mutated = |body: &str| after(MutationKind::Operator, body);
    assert_eq!(mutated("vec![x + y, z]"), ["vec![x - y, z]"]);
    assert_eq!(mutated("vec![x; y + z]"), ["vec![x; y - z]"]);
    assert_eq!(mutated("format!(\"{} {z}\", x + y, z = v * w)").len(), 2);
    assert_eq!(mutated("matches!(x + y, Some(1) if z < w)"), ["matches!(x - y, Some(1) if z < w)"]);
}

#[test]
fn a_mutation_knows_the_lines_that_it_changes() {
    let text = "fn f() {\n    if x &&\n        y < z\n    {\n        g(\n            1,\n        );\n    }\n}\n";
    let parsed = of_text(text);
    assert!(parsed.len() > 5);
    let edit = |range: std::ops::Range<usize>| Edit { range, text: String::new() };
    let at = text.find('<').unwrap();
    let edits = vec![edit(at..at + 1)];
    let one = Mutation { kind: MutationKind::Operator, range: at - 2..at + 3, edits };
    assert_eq!(&text[one.lines(text)], "        y < z");
    let (start, end) = (text.find("g(").unwrap(), text.find(");").unwrap() + 2);
    let kind = MutationKind::Statement;
    let gone = Mutation { kind, range: start..end, edits: vec![edit(start..end)] };
    assert_eq!(text[gone.lines(text)].lines().count(), 3);
}
