// SPDX-License-Identifier: MIT OR Apache-2.0
//! Checks whether the distance between CPUs is constant, by exchanging lines for a while.

use std::time::Duration;

use corehop_plan::finding::Finding;
use corehop_plan::platform::observed::DistanceLevel;
use corehop_plan::platform::{Latency, Platform};

use super::CheckFinding;

pub(super) const ID: &str = "distance";
pub(super) const WHY: &str = "A hypervisor may move the virtual CPUs of a guest: one declared class of migration then has two costs, and an average of the two costs describes neither.";

/// Returns the doctor's finding about the `distances` that were measured over the time `long`.
pub fn distance(platform: &Platform, distances: &[DistanceLevel], long: Duration) -> Finding {
    super::finding(ID, WHY, verdict(platform, distances, long))
}

fn verdict(platform: &Platform, distances: &[DistanceLevel], long: Duration) -> CheckFinding {
    let seconds = format!("{} s", long.as_secs_f64().round());
    if platform.usable().len() < 2 {
        let found = "only one CPU is usable: there is no exchange of lines, and no migration";
        return CheckFinding::note(found);
    }
    if distances.is_empty() {
        let found = format!(
            "within {seconds} no two CPUs exchanged cache lines, so their distances are unknown"
        );
        return CheckFinding::note(found)
            .command("corehop measure platform")
            .remark("The CPUs are busy; this command watches for longer.");
    }
    let classes = distances.chunk_by(|a, b| a.class == b.class);
    let moving = classes.clone().find(|levels| levels.len() > 1);
    let Some(levels) = moving else {
        let each: Vec<String> = classes.filter_map(|levels| one(levels.first()?)).collect();
        return CheckFinding::ok(format!(
            "within {seconds} each class had one distance: {}",
            each.join(", ")
        ));
    };
    let each: Vec<String> = levels.iter().map(part).collect();
    let changes: u32 = levels.iter().map(|level| level.changes).sum();
    CheckFinding::warning(format!(
        "within {seconds} the {} pairs of CPUs alternated between {} distances ({}), with {changes} changes",
        levels[0].class.event(),
        levels.len(),
        each.join(", ")
    ))
    .command("corehop measure platform --watch 60")
    .remark(
        "This command prints how long each distance lasts. `corehop measure` distinguishes the classes automatically. An interval needs each class in six replicates: measure for longer (--replicates 20), or pin the virtual CPUs on the host.",
    )
}

fn one(level: &DistanceLevel) -> Option<String> {
    Some(format!("{} {} ns", level.class.event(), nanos(level)?))
}

fn part(level: &DistanceLevel) -> String {
    let ns = nanos(level).unwrap_or_default();
    format!("{ns} ns {:.0} % of the time", f64::from(level.share) / 10.0)
}

/// The line time of a level of distance as text, in whole nanoseconds.
fn nanos(level: &DistanceLevel) -> Option<String> {
    match level.exchange {
        Latency::Picos(picos) => Some(format!("{:.0}", picos as f64 / 1e3)),
        Latency::MilliCycles(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use corehop_plan::finding::Severity;
    use corehop_plan::platform::Affinity;
    use corehop_plan::units::Nanos;

    fn level(ns: u64, share: u32, changes: u32) -> DistanceLevel {
        DistanceLevel {
            class: Affinity::L3,
            exchange: Latency::Picos(1_000 * ns),
            share,
            changes,
            median_stay: None,
            longest_stay: Nanos::from_millis(400),
        }
    }

    fn of(platform: &Platform, distances: &[DistanceLevel]) -> Finding {
        distance(platform, distances, Duration::from_secs(1))
    }

    fn named(name: &str) -> Platform {
        Platform::named(name).unwrap().unwrap()
    }

    #[test]
    fn several_distances_are_a_warning_that_says_what_they_are_and_what_to_do() {
        let found = of(&named("xeon_x5650"), &[level(46, 700, 1), level(210, 300, 1)]);
        assert_eq!(found.severity, Severity::Warning);
        let words = "l3_migration pairs of CPUs alternated between 2 distances (46 ns 70 % of the time, 210 ns 30 \
                     % of the time), with 2 changes";
        assert!(found.found.contains(words), "{}", found.found);
        assert!(found.remark.unwrap().contains("--replicates 20"));
        assert!(found.remedy.unwrap().contains("--watch 60"));
    }

    #[test]
    fn one_distance_is_as_it_should_be_and_the_finding_says_so() {
        let found = of(&named("xeon_x5650"), &[level(46, 1000, 0)]);
        assert_eq!(found.severity, Severity::Ok);
        assert!(found.found.ends_with("one distance: l3_migration 46 ns"), "{}", found.found);
    }

    #[test]
    fn no_exchange_is_told_with_its_reason() {
        let busy = of(&named("xeon_x5650"), &[]);
        assert!(
            busy.severity == Severity::Note
                && busy.found.contains("no two CPUs exchanged cache lines")
        );
        let mut single = named("xeon_x5650");
        single.allowed =
            Some(corehop_plan::platform::Fact::measured("0".parse().unwrap(), "a test"));
        let alone = of(&single, &[]);
        assert!(alone.found.contains("only one CPU is usable"), "{}", alone.found);
    }
}
