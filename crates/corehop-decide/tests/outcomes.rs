// SPDX-License-Identifier: MIT OR Apache-2.0
//! The numbers of every study are those in `studies/outcomes.csv`, and the READMEs of the studies say the same.
//!
//! A commit that moves a number runs `COREHOP_UPDATE_OUTCOMES=1 cargo test --release -p corehop-decide --test outcomes --
//! --include-ignored`, and says in CHANGELOG which study moved, and why.
#![allow(clippy::print_stdout, reason = "a test program reports")]

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;

use corehop_decide::validation::aim::ErrorQuantiles;
use corehop_decide::validation::printed_number::ErrorLaw;
use corehop_decide::validation::sheet::{QuantityErrors, Tested};
use corehop_decide::validation::{JudgementRole, Lab, PublishedStudy, Sheet, all};
use corehop_plan::platform::Platform;

/// Studies that together take less than a minute: `cargo test` simulates them. `make test-deep` simulates all.
const QUICK: [&str; 15] = [
    "kamali-3-6",
    "kamali-4-5",
    "kamali-5-1",
    "kamali-regression",
    "strong-10",
    "strong-14",
    "strong-2a",
    "strong-2b",
    "strong-3",
    "strong-5",
    "strong-6",
    "strong-8",
    "waechtler-5-2",
    "waechtler-5-3",
    "waechtler-exclusive",
];
/// Pairs in the printed order: those that are printed apart, and those that are printed nearer and judge nothing.
const ORDER: &str = "order";
const NEAR: &str = "order of near pairs";
const HEADER: &str = "study,quantity,errors,part,rows,missing,median,p90";
/// A median and a 90th percentile may move by so much of an error before a person has to look.
const TOLERANCE: [f64; 2] = [0.002, 0.01];
const BEGIN: &str = "<!-- from studies/outcomes.csv -->\n";
const END: &str = "<!-- end -->\n";

/// Some rows of a study that judge or have another part; of an order the pairs and those that agree, of claims all and those
/// that came out otherwise.
#[derive(Debug, Clone, PartialEq)]
struct Outcome {
    quantity: String,
    law: Option<ErrorLaw>,
    part: String,
    counts: [usize; 2],
    errors: Option<[f64; 2]>,
}

impl Outcome {
    fn line(&self, study: &str) -> String {
        let law = self.law.map_or("", ErrorLaw::word);
        let errors = self.errors.map(|errors| errors.map(|error| format!("{error:.4}")).join(","));
        let [rows, missing] = self.counts;
        let (quantity, part) = (&self.quantity, &self.part);
        let errors = errors.unwrap_or_else(|| ",".to_owned());
        format!("{study},{quantity},{law},{part},{rows},{missing},{errors}\n")
    }

    /// A line of the file, and the study it is about.
    fn read(line: &str) -> (String, Self) {
        let cells: Vec<&str> = line.split(',').collect();
        let [study, quantity, law, part, rows, missing, median, p90] = cells[..] else {
            panic!("`{line}` is no line of outcomes.csv")
        };
        let number = |text: &str| text.parse().unwrap_or_else(|_| panic!("`{text}` in `{line}`"));
        let outcome = Self {
            quantity: quantity.to_owned(),
            law: law.parse().ok(),
            part: part.to_owned(),
            counts: [rows, missing].map(|text| number(text) as usize),
            errors: (!median.is_empty()).then(|| [median, p90].map(number)),
        };
        (study.to_owned(), outcome)
    }

    /// Whether both say the same, but for what is tolerated.
    fn is_like(&self, other: &Self) -> bool {
        let near = |[a, b]: [[f64; 2]; 2]| {
            let off = |at: usize| (a[at] - b[at]).abs() > TOLERANCE[at];
            let same = |at: usize| a[at].is_infinite() == b[at].is_infinite() && !off(at);
            same(0) && same(1)
        };
        let errors = match (self.errors, other.errors) {
            (Some(a), Some(b)) => near([a, b]),
            (a, b) => a.is_none() && b.is_none(),
        };
        let words = |it: &Self| (it.quantity.clone(), it.law, it.part.clone(), it.counts);
        errors && words(self) == words(other)
    }

    /// A row of a README's table.
    fn row(&self) -> String {
        let [count, other] = self.counts;
        let rows = match (self.part.as_str(), other) {
            (ORDER | NEAR | "claims", _) => format!("{} of {count}", count - other),
            (_, 0) => count.to_string(),
            _ => format!("{count} ({other} without a value)"),
        };
        let errors = self.errors.zip(self.law).map(|(errors, law)| errors.map(|it| law.show(it)));
        let [median, p90] = errors.unwrap_or_default();
        let quantity = match self.quantity.as_str() {
            "avg" => "averages",
            "max" => "maxima",
            "std" => "standard deviations",
            "runtime_ratio" => "gain",
            other => &other.replace('_', " "),
        };
        let part = self.part.replace('_', " ");
        format!("| {quantity} | {part} | {rows} | {median} | {p90} |\n")
    }
}

fn of_quantity(it: &QuantityErrors) -> Vec<Outcome> {
    let of = |part: &str, errors: &ErrorQuantiles| Outcome {
        quantity: it.word.to_owned(),
        law: Some(it.law),
        part: part.to_owned(),
        counts: [errors.rows, errors.missing],
        errors: Some([errors.median, errors.p90]),
    };
    let mut all: Vec<Outcome> =
        it.judged.iter().map(|errors| of("all that judge", errors)).collect();
    let is_apart = |role: JudgementRole| match role {
        JudgementRole::Judged => it.by_role.contains_key(&JudgementRole::NotModelled),
        _ => true,
    };
    let parts = it.by_role.iter().filter(|(role, _)| is_apart(**role));
    all.extend(parts.map(|(role, errors)| of(role.word(), errors)));
    for (part, order) in [(ORDER, it.order), (NEAR, it.near)] {
        all.extend(order.map(|order| Outcome {
            quantity: it.word.to_owned(),
            law: None,
            part: part.to_owned(),
            counts: [order.pairs, order.pairs - order.agree],
            errors: None,
        }));
    }
    all
}

/// The outcomes of a sheet.
fn of(sheet: &Sheet) -> Vec<Outcome> {
    let mut all: Vec<Outcome> = sheet.quantities.iter().flat_map(of_quantity).collect();
    let judged: Vec<&Tested> = sheet.claims.iter().filter(|it| it.expected.is_some()).collect();
    if !judged.is_empty() {
        let missed = judged.iter().filter(|it| it.is_missed()).count();
        let (quantity, part) = (String::new(), "claims".to_owned());
        let counts = [judged.len(), missed];
        all.push(Outcome { quantity, law: None, part, counts, errors: None });
    }
    all
}

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("studies")
}

fn is_update() -> bool {
    std::env::var_os("COREHOP_UPDATE_OUTCOMES").is_some()
}

/// The recorded outcomes of every study.
fn recorded() -> BTreeMap<String, Vec<Outcome>> {
    let text = std::fs::read_to_string(folder().join("outcomes.csv")).unwrap_or_default();
    let mut all: BTreeMap<String, Vec<Outcome>> = BTreeMap::new();
    for line in text.lines().skip(1) {
        let (study, outcome) = Outcome::read(line);
        all.entry(study).or_default().push(outcome);
    }
    all
}

/// Simulates some studies, and says where their outcomes are not the recorded ones.
fn check(is_wanted: impl Fn(&str) -> bool) {
    let mut lab = Lab::new(1, None, false);
    let (mut known, mut moved) = (recorded(), String::new());
    for study in all().unwrap().iter().filter(|it| is_wanted(it.head().id)) {
        let head = study.head();
        let platform = Platform::named(head.platform).unwrap().unwrap();
        let found = of(&study.judge(&platform, &mut lab).unwrap());
        let before = known.insert(head.id.to_owned(), found.clone()).unwrap_or_default();
        let is_same = before.len() == found.len()
            && before.iter().zip(&found).all(|(before, found)| before.is_like(found));
        if !is_same {
            let lines = |all: &[Outcome]| all.iter().map(|it| it.line(head.id)).collect::<String>();
            let _ = write!(moved, "recorded:\n{}now:\n{}", lines(&before), lines(&found));
        }
    }
    if is_update() {
        let lines = known.iter().flat_map(|(id, all)| all.iter().map(move |it| it.line(id)));
        let text = format!("{HEADER}\n{}", lines.collect::<String>());
        std::fs::write(folder().join("outcomes.csv"), text).unwrap();
        println!("{moved}");
    } else {
        assert!(moved.is_empty(), "numbers of studies moved:\n{moved}");
    }
}

#[test]
fn the_quick_studies_come_out_as_recorded() {
    check(|id| QUICK.contains(&id));
}

#[test]
#[ignore = "some eight minutes of processor time: `make test-deep` asks"]
fn all_studies_come_out_as_recorded() {
    check(|_| true);
}

/// The generated part of a study's README.
fn told(study: &dyn PublishedStudy, outcomes: &[Outcome]) -> String {
    let mut text =
        "| | part | rows | median error | 90th percentile |\n|---|---|---|---|---|\n".to_owned();
    for it in outcomes {
        text.push_str(&it.row());
    }
    let numbers = |role: JudgementRole| -> Vec<&str> {
        study.numbers().into_iter().filter(|it| it.0 == role).map(|it| it.1).collect()
    };
    for (role, what) in [(JudgementRole::Fitted, "fitted"), (JudgementRole::Chosen, "chosen")] {
        let numbers = numbers(role);
        if !numbers.is_empty() {
            let _ = write!(
                text,
                "\nFree numbers, {what}: {} ({}).\n",
                numbers.len(),
                numbers.join("; ")
            );
        }
    }
    text
}

/// A line of the table of all studies.
fn line_of_all(study: &dyn PublishedStudy, outcomes: &[Outcome]) -> String {
    let of = |quantity: &str, part: &str| {
        outcomes.iter().find(|it| it.quantity == quantity && it.part == part)
    };
    let errors = |quantity: &str| {
        let judged = of(quantity, "all that judge")?;
        let [median, p90] = judged.errors?.map(|error| judged.law.unwrap().show(error));
        Some(format!("{median}, {p90}"))
    };
    let first = [
        "avg",
        "ns",
        "throughput",
        "runtime_ratio",
        "cycles_per_line",
        "hit_rate_percent",
        "percent",
    ];
    let first = first.into_iter().find_map(errors).unwrap_or_default();
    let [max, std] = ["max", "std"].map(|it| errors(it).unwrap_or_default());
    let share = |it: &Outcome| format!("{} of {}", it.counts[0] - it.counts[1], it.counts[0]);
    let order = outcomes.iter().find(|it| it.part == ORDER).map(share).unwrap_or_default();
    let claims = of("", "claims").map(share).unwrap_or_default();
    let (id, numbers) = (study.head().id, study.numbers().len());
    format!(
        "| [{id}]({id}/README.md) | {first} | {max} | {std} | {order} | {claims} | {numbers} |\n"
    )
}

/// Replaces the generated part of a file, or says that it is another.
fn hold(path: &std::path::Path, part: &str) -> Option<String> {
    let text = std::fs::read_to_string(path).unwrap();
    let begin = text.find(BEGIN).unwrap_or_else(|| panic!("{} has no {BEGIN}", path.display()));
    let begin = begin + BEGIN.len();
    let end = begin + text[begin..].find(END).unwrap_or_else(|| panic!("no {END}"));
    if is_update() {
        std::fs::write(path, format!("{}{part}{}", &text[..begin], &text[end..])).unwrap();
        return None;
    }
    (text[begin..end] != *part).then(|| path.display().to_string())
}

#[test]
fn the_pages_of_the_studies_say_what_is_recorded() {
    let (known, mut stale) = (recorded(), Vec::new());
    let mut table = "| study | values: median error, 90th percentile | maxima | standard deviations | pairs in order | \
                     claims as printed | free numbers |\n|---|---|---|---|---|---|---|\n"
        .to_owned();
    for study in &all().unwrap() {
        let id = study.head().id;
        let outcomes = known.get(id).unwrap_or_else(|| panic!("outcomes.csv lacks {id}"));
        stale.extend(hold(&folder().join(id).join("README.md"), &told(&**study, outcomes)));
        table.push_str(&line_of_all(&**study, outcomes));
    }
    stale.extend(hold(&folder().join("README.md"), &table));
    assert_eq!(known.len(), all().unwrap().len(), "outcomes.csv has a study that is not there");
    assert_eq!(stale, Vec::<String>::new(), "run with COREHOP_UPDATE_OUTCOMES=1");
}

#[test]
fn a_number_that_moved_is_not_like_the_recorded_one() {
    let line = "x,avg,relative,all that judge,38,0,0.1007,0.6200";
    let (study, recorded) = Outcome::read(line);
    assert_eq!((study.as_str(), recorded.line("x").trim_end()), ("x", line));
    let errors = |median, p90| Outcome { errors: Some([median, p90]), ..recorded.clone() };
    assert!(recorded.is_like(&errors(0.1020, 0.6290)));
    assert!(!recorded.is_like(&errors(0.1030, 0.62)) && !recorded.is_like(&errors(0.1007, 0.64)));
    assert!(!recorded.is_like(&Outcome { counts: [37, 1], ..recorded.clone() }));
    assert!(!recorded.is_like(&Outcome { errors: None, ..recorded.clone() }));
    let none = Outcome::read("x,avg,relative,all that judge,38,9,0.1,inf").1;
    assert!(none.is_like(&none.clone()) && !none.is_like(&recorded));
}
