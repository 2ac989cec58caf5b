// SPDX-License-Identifier: MIT OR Apache-2.0
//! The share of mutants that the tests catch, and the survivors.

use std::collections::BTreeMap;
use std::fmt::Write;

use crate::results::MutantText;
use crate::trial::MutantFate;

/// The quantile of the normal distribution for a two-sided interval of 95 %.
const Z: f64 = 1.959_963_984_540_054;

/// A mutant of the sample with its result.
#[derive(Debug)]
pub(crate) struct ShownMutant<'a> {
    pub number: u32,
    pub mutant: &'a MutantText,
    pub fate: &'a MutantFate,
}

/// The whole report: survivors, then a line for each package and one for all.
pub(crate) fn text(judged: &[ShownMutant<'_>], equivalent: usize) -> String {
    let mut text = String::new();
    for shown in judged.iter().filter(|shown| !shown.fate.is_caught()) {
        let _ = writeln!(text, "{}", survivor(shown));
    }
    let mut packages: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    for shown in judged {
        for name in [&shown.mutant.package, "all"] {
            let (caught, total) = packages.entry(name).or_default();
            *caught += usize::from(shown.fate.is_caught());
            *total += 1;
        }
    }
    let all = packages.remove("all").unwrap_or_default();
    let _ = writeln!(
        text,
        "{:<20} {:>7} {:>7}   share caught, 95 % interval",
        "package", "caught", "of"
    );
    for (name, (caught, total)) in packages.into_iter().chain([("all", all)]) {
        let _ = writeln!(text, "{name:<20} {caught:>7} {total:>7}   {}", share(caught, total));
    }
    let unseen = judged.iter().filter(|shown| *shown.fate == MutantFate::NotExecuted).count();
    let _ = writeln!(text, "{} survivors, of which {unseen} are not executed", all.1 - all.0);
    if equivalent > 0 {
        let _ =
            writeln!(text, "{equivalent} more change nothing (equivalent.txt) and are left out");
    }
    text
}

/// A survivor as a diff.
pub(crate) fn survivor(shown: &ShownMutant<'_>) -> String {
    let MutantText { file, line, before, after, .. } = shown.mutant;
    let why = match shown.fate {
        MutantFate::NotExecuted => "no test executes the place".to_owned(),
        MutantFate::Survived { passed: 1 } => "1 test passes".to_owned(),
        MutantFate::Survived { passed: tests } => format!("{tests} tests pass"),
        MutantFate::Caught { by } => format!("caught by {by}"),
        MutantFate::TimedOut { by } => format!("time-out of {by}"),
    };
    let mut text = format!("{file}:{line}: mutant {}: {why}\n", shown.number);
    for (sign, lines) in [('-', before), ('+', after)] {
        for line in lines.lines().filter(|line| !line.trim().is_empty()) {
            let _ = writeln!(text, "{sign}{line}");
        }
    }
    text
}

/// A share in percent with its Wilson interval.
fn share(caught: usize, total: usize) -> String {
    if total == 0 {
        return "no mutants".to_owned();
    }
    let (low, high) = wilson(caught, total);
    let percent = 100.0 * caught as f64 / total as f64;
    format!("{percent:.0} % [{:.0}, {:.0}]", 100.0 * low, 100.0 * high)
}

/// The interval of 95 % for a share, by Wilson (1927): the shares from which the seen one is at most `Z` standard
/// deviations away.
fn wilson(hits: usize, total: usize) -> (f64, f64) {
    let (hits, total) = (hits as f64, total as f64);
    let share = hits / total;
    let weight = 1.0 + Z * Z / total;
    let middle = (share + Z * Z / (2.0 * total)) / weight;
    let spread = share * (1.0 - share) / total + Z * Z / (4.0 * total * total);
    let half = Z / weight * spread.sqrt();
    ((middle - half).max(0.0), (middle + half).min(1.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sites::MutationKind;

    #[test]
    fn the_interval_is_that_of_wilson() {
        // 10 of 20: 0.5 -+ 1.96 sqrt(1/80 + 1.96^2/1600) / (1 + 1.96^2/20), by hand.
        let (low, high) = wilson(10, 20);
        assert!((low - 0.2993).abs() < 1e-4 && (high - 0.7007).abs() < 1e-4, "{low} {high}");
        assert!(wilson(0, 5).0 <= 0.0);
        assert!(wilson(5, 5).1 >= 1.0);
        assert_eq!(share(128, 157), "82 % [75, 87]");
    }

    #[test]
    fn the_report_counts_packages_and_shows_survivors_as_diffs() {
        let mutant = |package: &str, after: &str| MutantText {
            package: package.to_owned(),
            file: format!("{package}/src/a.rs"),
            line: 7,
            kind: MutationKind::Operator,
            before: "    a && b".to_owned(),
            after: after.to_owned(),
            byte: 0,
        };
        let [one, two, three] =
            [mutant("x", "    (a || b)"), mutant("x", "  "), mutant("y", "true")];
        let caught = MutantFate::Caught { by: "x lib x a".to_owned() };
        let survived = MutantFate::Survived { passed: 3 };
        let judged = [
            ShownMutant { number: 1, mutant: &one, fate: &survived },
            ShownMutant { number: 2, mutant: &two, fate: &MutantFate::NotExecuted },
            ShownMutant { number: 3, mutant: &three, fate: &caught },
        ];
        let text = text(&judged, 4);
        assert!(
            text.contains("x/src/a.rs:7: mutant 1: 3 tests pass\n-    a && b\n+    (a || b)\n\n")
        );
        assert!(text.contains("mutant 2: no test executes the place\n-    a && b\n\n"), "{text}");
        let lines: Vec<_> = text.lines().map(str::split_whitespace).map(Vec::from_iter).collect();
        assert!(lines.iter().any(|line| line[..].starts_with(&["x", "0", "2"])), "{text}");
        assert!(lines.iter().any(|line| line[..].starts_with(&["y", "1", "1"])), "{text}");
        assert!(lines.iter().any(|line| line[..].starts_with(&["all", "1", "3", "33"])), "{text}");
        assert!(text.contains("2 survivors, of which 1 are not executed\n4 more change nothing"));
    }
}
