// SPDX-License-Identifier: MIT OR Apache-2.0
//! One meaning for one name: no type name of the workspace stands for two things.

use std::collections::BTreeMap;

use corehop_rules::{code, everything};

/// Names that several files define, with the reason.
const DEFENDED: [(&str, &str); 2] = [
    ("Args", "clap's word for the options of a verb or mode, one in each file of `cmd`"),
    ("Mode", "the modes of a verb, in the file of each verb that has some"),
];

/// The names of the structs, enums, unions, traits and aliases that a source defines outside tests.
fn defined(text: &str) -> Vec<&str> {
    code(text).into_iter().filter_map(definition).collect()
}

/// The name that a line defines. An alias that is indented belongs to a trait.
fn definition(line: &str) -> Option<&str> {
    let mut words = line.split_whitespace().skip_while(|word| {
        word.starts_with("pub") || word.ends_with(')') || ["unsafe", "in"].contains(word)
    });
    let is_alias = match words.next()? {
        "struct" | "enum" | "trait" | "union" => false,
        "type" => true,
        _ => return None,
    };
    let name = words.next()?.split(|c: char| !c.is_alphanumeric() && c != '_').next()?;
    let is_name = name.starts_with(|c: char| c.is_ascii_uppercase());
    (is_name && !(is_alias && line.starts_with(' '))).then_some(name)
}

/// The names that stand in several files, each with those files.
fn doubled(sources: &[(String, String)]) -> BTreeMap<&str, Vec<&str>> {
    let mut files: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (path, text) in sources {
        for name in defined(text) {
            let of_name = files.entry(name).or_default();
            if !of_name.contains(&path.as_str()) {
                of_name.push(path);
            }
        }
    }
    files.retain(|_, files| files.len() > 1);
    files
}

#[test]
fn no_type_name_stands_for_two_things() {
    let sources = everything();
    let mut found = doubled(&sources);
    for (name, why) in DEFENDED {
        assert!(found.remove(name).is_some(), "{name} is defended ({why}) and not doubled");
    }
    assert!(found.is_empty(), "give each its noun: {found:#?}");
}

#[test]
fn a_doubled_name_is_found_however_it_is_defined() {
    let file = |path: &str, text: &str| (path.to_owned(), text.to_owned());
    let sources = [
        file(
            "a.rs",
            "pub(crate) struct Line<'a>(&'a str);\nenum Seen { A }\ntype Pair = (u8, u8);\n",
        ),
        file("b.rs", "    pub(in crate::x) enum Line {\nunsafe trait Seen {}\npub union Pair {\n"),
        file(
            "c.rs",
            "#[cfg(test)]\nmod tests {\n    struct Alone;\n}\nimpl X for Y {\n    type Item = u8;\n}\n",
        ),
        file("d.rs", "struct Alone;\ntype Item = u8;\n// struct Line;\nlet line = Line { a };\n"),
    ];
    let found: Vec<_> = doubled(&sources).into_iter().collect();
    assert_eq!(
        found,
        [
            ("Line", vec!["a.rs", "b.rs"]),
            ("Pair", vec!["a.rs", "b.rs"]),
            ("Seen", vec!["a.rs", "b.rs"])
        ]
    );
}
