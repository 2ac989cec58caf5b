// SPDX-License-Identifier: MIT OR Apache-2.0
//! The documentation: what is generated is up to date, what is linked is there, what is told to be
//! typed exists.
//!
//! `COREHOP_UPDATE_DOCS=1 cargo test -p corehop --test docs` brings the generated parts up to date.

mod gallery;
mod site;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use corehop_fixtures::{repository, text as read};
use corehop_linux::preflight;
use corehop_plan::experiment::Kind;
use corehop_plan::for_each_kind;
use corehop_plan::samples::RowKind;
use corehop_sched::all as all_tests;

const UPDATE: &str = "COREHOP_UPDATE_DOCS";

/// The program's help for a verb, or for none.
fn help(verb: &str) -> String {
    let asked = verb.split_whitespace().chain(["--help"]);
    let answer = Command::new(env!("CARGO_BIN_EXE_corehop")).args(asked).output().unwrap();
    assert!(answer.status.success(), "{verb:?}");
    let text = String::from_utf8(answer.stdout).unwrap();
    text.lines().flat_map(|line| [line.trim_end(), "\n"]).collect()
}

/// The verbs, and after each its modes.
fn verbs() -> Vec<String> {
    let mut all = Vec::new();
    add_below("", &mut all);
    all
}

/// Adds the commands that the help of a command lists, each before those below it.
fn add_below(above: &str, all: &mut Vec<String>) {
    let help = help(above);
    let Some((_, list)) = help.split_once("\nCommands:\n") else { return };
    let names = list.lines().take_while(|line| !line.is_empty());
    let names = names.filter(|line| !line.starts_with("    "));
    for name in names.filter_map(|line| line.split_whitespace().next()) {
        let command = format!("{above} {name}").trim_start().to_owned();
        all.push(command.clone());
        add_below(&command, all);
    }
}

/// Declarations in a source file: `/// DOC`, then what is documented.
struct Declared {
    doc: String,
    code: String,
}

/// The documented lines between the line that holds `begin` and the next closing brace at its column.
fn declared(source: &str, begin: &str) -> Vec<Declared> {
    let start = source.find(begin).unwrap_or_else(|| panic!("no `{begin}`"));
    let mut lines = source[start..].lines();
    let column = source[..start].lines().next_back().map_or(0, |line| {
        if source[..start].ends_with('\n') { 0 } else { line.len() - line.trim_start().len() }
    });
    lines.next();
    let end = format!("{}}}", " ".repeat(column));
    let (mut found, mut doc) = (Vec::new(), String::new());
    for line in lines.take_while(|line| !line.starts_with(&end)) {
        let line = line.trim();
        if let Some(text) = line.strip_prefix("///") {
            doc.push_str(if doc.is_empty() { "" } else { " " });
            doc.push_str(text.trim());
        } else if !line.starts_with('#') && !line.is_empty() {
            found.push(Declared { doc: std::mem::take(&mut doc), code: line.to_owned() });
        }
    }
    found
}

/// Text that stands in a cell of a table.
fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace("[`", "`").replace("`]", "`")
}

fn commands() -> String {
    let mut text = format!("```text\n{}```\n", help(""));
    for verb in verbs() {
        write!(text, "\n## corehop {verb}\n\n```text\n{}```\n", help(&verb)).unwrap();
    }
    text
}

fn columns(kind: RowKind, title: &str) -> String {
    let mut text = format!("## {title}\n\nKind `{}`.\n\n", kind.word());
    text += "| column | type | meaning |\n|---|---|---|\n";
    for (field, (name, doc)) in kind.fields().iter().zip(kind.docs()) {
        let kind = match field.data_type().to_string().as_str() {
            "UInt64" => "whole number",
            "Float64" => "number",
            "Utf8" => "text",
            "Boolean" => "true or false",
            list if list.starts_with("List") => "list of words",
            other => panic!("no word for {other}"),
        };
        let absent = if field.is_nullable() { ", may be absent" } else { "" };
        writeln!(text, "| `{name}` | {kind}{absent} | {} |", cell(doc)).unwrap();
    }
    text
}

macro_rules! kinds {
    ($($(#[doc = $doc:literal])+ $kind:ident, $what:literal, $name:ident: $body:ty;)+) => {
        /// The kinds of plans, and the machines that run each.
        fn kinds() -> String {
            let mut text = String::from("| kind of plan | what it measures | machines |\n|---|---|---|\n");
            $(
                let only_live = <$body as Kind>::ONLY_LIVE.is_some();
                let machines = if only_live { "live" } else { "live, simulated" };
                let what = concat!($($doc),+).trim();
                writeln!(text, "| `{}` | {what} | {machines} |", stringify!($name)).unwrap();
            )+
            text
        }
    };
}

for_each_kind!(kinds);

fn rows() -> String {
    let all = RowKind::ALL.iter().map(|&kind| columns(kind, kind.experiments()));
    all.collect::<Vec<_>>().join("\n")
}

/// The words of an enum that is declared by `words!`: its name, then `Variant = "word"`.
fn table_of_words(source: &str, title: &str, name: &str, what: &str) -> String {
    let mut text = format!("## {title}\n\n| word | meaning |\n|---|---|\n");
    for declared in declared(source, &format!("{name}, \"{what}\" {{")) {
        let word = declared.code.split('"').nth(1).unwrap();
        writeln!(text, "| `{word}` | {} |", cell(&declared.doc)).unwrap();
    }
    text
}

fn words() -> String {
    let workload = read("crates/corehop-plan/src/workload/mod.rs");
    let gang = read("crates/corehop-plan/src/workload/gang.rs");
    let record = read("crates/corehop-plan/src/kinds/jobs/record.rs");
    let platform = read("crates/corehop-plan/src/platform/affinity.rs");
    [
        table_of_words(&workload, "Events", "Event", "an event"),
        table_of_words(&record, "Causes", "Cause", "a cause"),
        table_of_words(&record, "Certificates", "Certificate", "a certificate"),
        table_of_words(&workload, "Patterns", "Pattern", "a pattern"),
        table_of_words(&workload, "Pages", "Page", "a page kind"),
        table_of_words(&workload, "Cache states", "LineState", "a cache state"),
        table_of_words(&workload, "Movers", "Mover", "a way to move"),
        table_of_words(&workload, "Absences", "Absence", "a kind of absence"),
        table_of_words(&gang, "Sharings", "Sharing", "a sharing"),
        table_of_words(&gang, "Placings", "Placing", "a placing"),
        table_of_words(
            &platform,
            "Memory architectures",
            "MemoryArchitecture",
            "a memory architecture",
        ),
    ]
    .join("\n")
}

/// The kind of a key's value, for people, from the type of its field.
fn kind(field: &str) -> String {
    let optional = field.starts_with("Option<");
    let inner = field.trim_start_matches("Option<").trim_start_matches("Fact<");
    let inner = inner.trim_end_matches(['>', ',']);
    let word = match inner {
        "u32" | "u64" => "whole number",
        "Cpu" => "number of a CPU",
        "Nanos" => "span of time",
        "Affinity" => "`same_cpu`, `smt`, `l2`, `l3` or `memory`",
        "String" | "Index" => "text",
        "bool" => "true or false",
        "CpuList" => "CPUs",
        "CpuGroups" => "groups of CPUs",
        "Bytes" => "size",
        "Hertz" => "frequency",
        "Latency" => "time or cycles",
        "Power" => "power",
        "CacheKind" => "`data`, `instruction` or `unified`",
        "Vec<Traffic" | "Vec<Distance" => "list of words",
        "Replacement" | "Inclusion" | "Writes" | "Protocol" | "Lookup" | "PrefetchKind"
        | "Side" | "LineRequest" | "Supplier" | "Found" | "Distance" | "Home" => {
            return words_of(inner, field);
        }
        "Vec<u32" => "list of whole numbers",
        "Vec<Bytes" => "list of sizes",
        "Clock" | "PageSizes" | "Memory" | "Coherence" | "Core" | "CacheMechanism" | "DramRows"
        | "Drift" | "SnoopFilter" | "Slices" => "table, see below",
        list if list.starts_with("Vec<") => "tables, see below",
        other => panic!("no word for the type `{other}` of a key"),
    };
    provenance(word.to_owned(), field, optional)
}

fn provenance(word: String, field: &str, optional: bool) -> String {
    let fact = if field.contains("Fact<") { " with its source" } else { "" };
    let optional = if optional { ", optional" } else { "" };
    word + fact + optional
}

/// The values of a key that holds one of the words of `platform/mechanism.rs`.
fn words_of(name: &str, field: &str) -> String {
    let source = read("crates/corehop-plan/src/platform/mechanism.rs");
    let declared = declared(&source, &format!("{name}, \""));
    let word = |declared: &Declared| format!("`{}`", declared.code.split('"').nth(1).unwrap());
    let words: Vec<_> = declared.iter().map(word).collect();
    provenance(words.join(", "), field, field.starts_with("Option<"))
}

fn keys() -> String {
    let source = read("crates/corehop-plan/src/platform/mod.rs")
        + &read("crates/corehop-plan/src/platform/mechanism.rs")
        + &read("crates/corehop-plan/src/platform/observed.rs")
        + &read("crates/corehop-plan/src/platform/loss.rs");
    let tables = [
        ("Platform", "The file itself"),
        ("Clock", "`[clock]`"),
        ("PageSizes", "`[pages]`"),
        ("Memory", "`[memory]`"),
        ("DramRows", "`[memory.rows]`, for a simulation"),
        ("CoreKind", "`[[core_kind]]`, one for each kind of core"),
        ("Cache", "`[[cache]]`, one for each level and kind"),
        ("Node", "`[[node]]`, one for each NUMA node"),
        ("CacheMechanism", "`[cache.mechanism]`, for a simulation"),
        ("SnoopFilter", "`[cache.mechanism.snoop_filter]`"),
        ("Slices", "`[cache.mechanism.slices]`"),
        ("Coherence", "`[coherence]`, for a simulation"),
        ("Tlb", "`[[tlb]]`, one for each level and kind"),
        ("Prefetcher", "`[[prefetcher]]`, one for each"),
        ("LatencyRow", "`[[latency]]`, one for each way of an access"),
        ("Server", "`[[server]]`, one for each bus, channel or link"),
        ("Drift", "`drift` of a `[[server]]`"),
        ("Loss", "`[[loss]]`, one for each length and size"),
        ("Core", "`[core]` and `[core_kind.core]`"),
        ("Exchange", "Each of `exchange`, as measured"),
        ("DistanceLevel", "Each of `distance`, as measured"),
    ];
    let in_file = |name: &str| match name {
        "core_kinds" => "core_kind".to_owned(),
        "caches" => "cache".to_owned(),
        "nodes" => "node".to_owned(),
        "tlbs" => "tlb".to_owned(),
        "prefetchers" => "prefetcher".to_owned(),
        "latencies" => "latency".to_owned(),
        "servers" => "server".to_owned(),
        "losses" => "loss".to_owned(),
        name => name.to_owned(),
    };
    let mut parts = Vec::new();
    for (name, title) in tables {
        let mut text = format!("## {title}\n\n| key | holds | meaning |\n|---|---|---|\n");
        for Declared { doc, code } in declared(&source, &format!("pub struct {name} {{")) {
            let (key, field) = code.trim_start_matches("pub ").split_once(": ").unwrap();
            let (key, kind) = (in_file(key), kind(field));
            writeln!(text, "| `{key}` | {kind} | {} |", cell(&doc)).unwrap();
        }
        parts.push(text);
    }
    parts.join("\n")
}

fn example() -> String {
    format!("```toml\n{}```\n", read("platforms/xeon_l7455.toml"))
}

fn codes() -> String {
    let mut text = String::from("| code | meaning |\n|---|---|\n");
    let source = read("crates/corehop-app/src/failure.rs");
    for Declared { doc, code } in declared(&source, "enum Exit {") {
        let arm = format!("Self::{} => ", code.trim_end_matches(','));
        // The status of a recorded program has no number of its own.
        let Some((_, rest)) = source.split_once(&arm) else { continue };
        let number = rest.split(',').next().unwrap();
        writeln!(text, "| {number} | {} |", cell(&doc)).unwrap();
    }
    text
}

fn findings() -> String {
    let mut text = String::from("| finding | why it matters |\n|---|---|\n");
    for (id, why) in preflight::reasons() {
        writeln!(text, "| `{id}` | {} |", cell(why)).unwrap();
    }
    text
}

fn tests() -> String {
    let mut text = String::new();
    let mut scheduler = "";
    let mut sorted: Vec<_> = all_tests().collect();
    sorted.sort_by_key(|test| all_tests().position(|other| other.scheduler == test.scheduler));
    for test in sorted {
        if test.scheduler != scheduler {
            scheduler = test.scheduler;
            let title = scheduler[..1].to_uppercase() + &scheduler[1..];
            writeln!(text, "{}## {title}", if text.is_empty() { "" } else { "\n" }).unwrap();
            text += "\n| test | asks | can say | deadlines | from |\n|---|---|---|---|---|\n";
        }
        let deadlines = format!("{:?}", test.deadlines).to_lowercase();
        let (name, asks, kind) = (test.name, cell(test.title), test.kind.meaning());
        writeln!(text, "| `{name}` | {asks} | {kind} | {deadlines} | {} |", cell(test.citation))
            .unwrap();
    }
    text
}

/// `page` with the generated part `name` replaced; nothing where it has no such part.
fn with_part(page: &str, name: &str, part: &str) -> Option<String> {
    let begin = format!("<!-- generated: {name} -->\n");
    let (before, rest) = page.split_once(&begin)?;
    let (_, after) = rest.split_once("<!-- end -->")?;
    Some(format!("{before}{begin}\n{part}\n<!-- end -->{after}"))
}

/// A page, the name of a part of it, and what that is to hold.
type Part = (&'static str, &'static str, fn() -> String);

#[test]
fn the_generated_parts_are_up_to_date() {
    let parts: [Part; 11] = [
        ("docs/reference/cli.md", "commands", commands),
        ("docs/reference/samples.md", "kinds", kinds),
        ("docs/reference/samples.md", "rows", rows),
        ("docs/reference/samples.md", "words", words),
        ("docs/reference/platform-file.md", "keys", keys),
        ("docs/reference/platform-file.md", "example", example),
        ("docs/reference/exit-codes.md", "codes", codes),
        ("docs/reference/findings.md", "findings", findings),
        ("docs/reference/tests.md", "tests", tests),
        ("docs/reference/glossary.md", "glossary", site::glossary),
        ("docs/gallery.md", "gallery", site::gallery),
    ];
    let mut stale = BTreeSet::new();
    for (path, name, part) in parts {
        let page = read(path);
        let now = with_part(&page, name, &part()).unwrap_or_else(|| panic!("{path}: no {name}"));
        if now != page && std::env::var_os(UPDATE).is_some() {
            fs::write(repository(path), now).unwrap();
        } else if now != page {
            stale.insert(path);
        }
    }
    assert!(stale.is_empty(), "run `{UPDATE}=1 cargo test -p corehop --test docs`: {stale:?}");
}

/// The options of all experiments, in the order of their help: name and value (empty for a flag).
fn options_of_experiments() -> Vec<(String, String)> {
    let mut all: Vec<(String, String)> = Vec::new();
    let others = ["measure platform", "measure plan"];
    let runs = |verb: &String| {
        verb == "record" || verb.starts_with("measure ") && !others.contains(&verb.as_str())
    };
    for experiment in verbs().into_iter().filter(runs) {
        let help = help(&experiment);
        // Deeper than options begin only lines of what is said of them.
        let lines =
            help.lines().filter(|line| line.starts_with("  ") && !line.starts_with("       "));
        for line in lines {
            let Some((_, rest)) = line.split_once("--").filter(|_| line.trim().starts_with('-'))
            else {
                continue;
            };
            let mut words = rest.split([' ', '[', '=']).filter(|word| !word.is_empty());
            let name = words.next().unwrap().replace('-', "_");
            let value = words.next().filter(|word| word.starts_with('<')).unwrap_or_default();
            if !all.iter().any(|(known, _)| *known == name) {
                all.push((name, value.to_owned()));
            }
        }
    }
    all
}

/// The declarations of the options of `measure` in Python, brought up to date: an option that the program lacks goes, and a
/// new one comes last. The type of a declaration that is there may be narrower than what the help tells, and stays.
fn declared_in_python(source: &str) -> String {
    let (begin, end) = ("    # Enough samples.\n", "\n\n\n");
    let (before, rest) = source.split_once(begin).expect("the options");
    let (declared, after) = rest.split_once(end).expect("the end of the options");
    let elsewhere = after.split_once("ELSEWHERE = frozenset(\n    \"").expect("ELSEWHERE").1;
    let elsewhere = elsewhere.split('"').next().unwrap().replace('-', "_");
    let mut options = options_of_experiments();
    options.retain(|(name, _)| !elsewhere.split(' ').any(|it| it == name));
    let name_of = |line: &str| line.trim().split(':').next().unwrap().to_owned();
    let is_there = |line: &&str| {
        line.trim().starts_with('#') || options.iter().any(|(name, _)| *name == name_of(line))
    };
    let mut lines: Vec<String> = declared.lines().filter(is_there).map(ToOwned::to_owned).collect();
    for (name, value) in &options {
        let kind = match value.as_str() {
            "" => "bool",
            "<N>" => "int | None",
            "<TIME>" => "Time | None",
            "<SIZE>" => "Size | None",
            _ => "Value | None",
        };
        if !lines.iter().any(|line| name_of(line) == *name) {
            lines.push(format!("    {name}: {kind}"));
        }
    }
    format!("{before}{begin}{}{end}{after}", lines.join("\n"))
}

#[test]
fn python_knows_every_option_of_every_experiment_and_no_other() {
    let path = "python/corehop/_options.py";
    let page = read(path);
    let now = declared_in_python(&page);
    if now != page && std::env::var_os(UPDATE).is_some() {
        fs::write(repository(path), now).unwrap();
    } else {
        assert!(now == page, "{path}: run `{UPDATE}=1 cargo test -p corehop --test docs`");
    }
    let stale = page.replacen("    window: Time | None\n", "    nonsense: str | None\n", 1);
    let mended = declared_in_python(&stale);
    assert!(mended.contains("\n    window: Time | None\n") && !mended.contains("nonsense"));
}

/// Every page of the repository, by its path.
fn pages() -> BTreeMap<String, String> {
    let root = repository("");
    let mut folders = vec![root.join("docs")];
    let mut paths = Vec::new();
    while let Some(folder) = folders.pop() {
        for path in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            if path.is_dir() { folders.push(path) } else { paths.push(path) }
        }
    }
    paths.extend(fs::read_dir(&root).unwrap().map(|entry| entry.unwrap().path()));
    let markdown = paths.into_iter().filter(|path| path.extension().is_some_and(|e| e == "md"));
    let named = markdown.map(|path| {
        let name = path.strip_prefix(&root).unwrap().display().to_string();
        (name, fs::read_to_string(path).unwrap())
    });
    named.collect()
}

/// The lines of a page that are no code.
fn prose(page: &str) -> impl Iterator<Item = &str> {
    let mut in_code = false;
    page.lines().filter(move |line| {
        let fence = line.starts_with("```");
        in_code ^= fence;
        !in_code && !fence && !line.starts_with("    ")
    })
}

/// The anchors that a page's headings make, as web hosts of repositories make them.
fn anchors(page: &str) -> BTreeSet<String> {
    let headings = prose(page).filter(|line| line.starts_with('#'));
    let anchor = |heading: &str| -> String {
        let text = heading.trim_start_matches('#').trim().to_lowercase();
        let kept = text.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
        kept.map(|c| if c == ' ' { '-' } else { c }).collect()
    };
    headings.map(anchor).collect()
}

/// The targets of a page's links and pictures.
fn links(page: &str) -> Vec<String> {
    let text: String = prose(page).flat_map(|line| [line, "\n"]).collect();
    let after = text.match_indices("](").map(|(at, mark)| &text[at + mark.len()..]);
    after.filter_map(|rest| Some(rest.split_once(')')?.0.to_owned())).collect()
}

/// The error of a link of the page at `path`, if any.
fn broken(pages: &BTreeMap<String, String>, path: &str, link: &str) -> Option<String> {
    if link.contains("://") {
        return None;
    }
    let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
    let folder = Path::new(path).parent().unwrap();
    let mut target = PathBuf::new();
    for part in folder.join(file).components() {
        match part {
            std::path::Component::ParentDir => drop(target.pop()),
            part => target.push(part),
        }
    }
    let target = if file.is_empty() { path.to_owned() } else { target.display().to_string() };
    if !pages.contains_key(&target) && !repository(&target).exists() {
        return Some(format!("{path}: {link} leads nowhere"));
    }
    let known = |page: &String| anchor.is_empty() || anchors(page).contains(anchor);
    let fine = pages.get(&target).is_none_or(known);
    (!fine).then(|| format!("{path}: {link}: no such heading"))
}

#[test]
fn every_link_leads_somewhere() {
    let pages = pages();
    assert!(pages.len() >= 15, "{:?}", pages.keys());
    let mut wrong = Vec::new();
    for (path, page) in &pages {
        wrong.extend(links(page).iter().filter_map(|link| broken(&pages, path, link)));
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn a_broken_link_is_found() {
    let mut pages = pages();
    let page = "# A heading, with `code`\n\n[a](x.md#one-two) [b](#a-heading-with-code)\n";
    pages.insert("docs/guide/y.md".into(), page.into());
    pages.insert("docs/guide/measuring.md".into(), "# One\n## One: two\n".into());
    let of = |link: &str| broken(&pages, "docs/guide/y.md", link);
    assert_eq!(links(page), ["x.md#one-two", "#a-heading-with-code"]);
    for good in ["#a-heading-with-code", "measuring.md#one-two", "../README.md", "http://x/y"] {
        assert_eq!(of(good), None);
    }
    for bad in ["#nowhere", "measuring.md#three", "x.md", "../../nothing"] {
        assert!(of(bad).is_some(), "{bad}");
    }
}

/// The commands of corehop that a page tells to type, without the program's name: indented, or in a fenced block for a shell.
fn typed(page: &str) -> Vec<&str> {
    let mut in_shell = false;
    let mut commands = Vec::new();
    for line in page.lines() {
        if line.starts_with("```") {
            in_shell = line == "```sh";
        }
        let command = line.strip_prefix("    ").or(in_shell.then_some(line));
        commands.extend(command.and_then(|it| it.strip_prefix("corehop ")));
    }
    commands
}

#[test]
fn every_command_that_a_page_tells_to_type_exists() {
    let verbs = verbs();
    let mut wrong = Vec::new();
    for (path, page) in pages() {
        for line in typed(&page) {
            let line = line.split(" # ").next().unwrap_or_default();
            let line = line.split(" -- ").next().unwrap_or_default();
            let words: Vec<&str> = line.split_whitespace().collect();
            let typed = |count: usize| words[..count.min(words.len())].join(" ");
            let Some(verb) =
                [typed(3), typed(2), typed(1)].into_iter().find(|it| verbs.contains(it))
            else {
                wrong.push(format!("{path}: no verb `{}`", typed(1)));
                continue;
            };
            let help = help(&verb);
            let options = words.iter().filter(|word| word.starts_with("--"));
            let unknown = options.filter(|option| !help.contains(&format!("{option} ")));
            let unknown = unknown.filter(|option| !help.contains(&format!("{option}\n")));
            wrong.extend(unknown.map(|option| format!("{path}: {verb} has no option {option}")));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn one_version_stands_everywhere() {
    let version = env!("CARGO_PKG_VERSION");
    assert!(read("CITATION.cff").contains(&format!("\nversion: {version}\n")), "CITATION.cff");
    assert!(read("CHANGELOG.md").contains(&format!("\n## {version}")), "CHANGELOG.md");
}

#[test]
fn the_licences_are_there_and_whole() {
    let apache = read("LICENSE-APACHE");
    assert!(apache.contains("Version 2.0, January 2004") && apache.lines().count() > 190);
    assert!(read("LICENSE-MIT").starts_with("MIT License"));
}
