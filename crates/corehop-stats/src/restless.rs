// SPDX-License-Identifier: MIT OR Apache-2.0
//! The distances between some pairs of CPUs over a period, which show whether the host moves virtual CPUs.
//!
//! corehop repeatedly exchanges lines between CPUs on which nothing is measured. The exchanges of all pairs
//! with one declared class fall into levels ([`ExchangeLevels::of`]), and each pair has its own stays
//! ([`stays_of_all`]). The result becomes a measured fact of the platform.

use std::collections::BTreeMap;

use super::distance::{ExchangeLevels, changes_to, stays_of_all};
use corehop_plan::platform::observed::{DistanceLevel, ExchangeSeries};
use corehop_plan::platform::{Affinity, Fact, Latency, Platform};
use corehop_plan::units::Nanos;

/// The series of exchanges between watched pairs of CPUs, by the pairs' declared class.
type ByClass<'a> = BTreeMap<Affinity, Vec<&'a [(u64, f64)]>>;

/// Returns the distances of all watched pairs, by class and from near to far. The list is empty without
/// exchanges.
pub fn distances(platform: &Platform, watched: &[ExchangeSeries]) -> Vec<DistanceLevel> {
    by_class(platform, watched)
        .into_iter()
        .flat_map(|(class, series)| {
            let levels = of_all(&series);
            of_class(class, &series, &levels)
        })
        .collect()
}

/// Returns the distances as a fact of the platform, which states the method; `seconds` is the length of the
/// observation.
pub fn fact(
    platform: &Platform,
    watched: &[ExchangeSeries],
    seconds: f64,
) -> Fact<Vec<DistanceLevel>> {
    Fact::measured(distances(platform, watched), how(platform, watched, seconds))
}

fn how(platform: &Platform, watched: &[ExchangeSeries], seconds: f64) -> String {
    if platform.usable().len() < 2 {
        return "only one CPU is usable, so no lines were exchanged".to_owned();
    }
    let told = |(class, series): (Affinity, Vec<&[(u64, f64)]>)| {
        let levels = of_all(&series);
        let sure = levels.certainty.map_or_else(String::new, |share| {
            format!(", {} in {:.0} % of resamples", count(levels.count(), "level"), 100.0 * share)
        });
        format!(
            "; {}: {} of {}{sure}",
            class.event(),
            count(levels.exchanges, "exchange"),
            count(series.len(), "pair")
        )
    };
    let classes: String = by_class(platform, watched).into_iter().map(told).collect();
    format!("lines exchanged repeatedly for {seconds:.0} s{classes}")
}

fn count(number: usize, noun: &str) -> String {
    if number == 1 { format!("1 {noun}") } else { format!("{number} {noun}s") }
}

fn by_class<'a>(platform: &Platform, watched: &'a [ExchangeSeries]) -> ByClass<'a> {
    let mut all = ByClass::new();
    for pair in watched.iter().filter(|pair| !pair.exchanges.is_empty()) {
        all.entry(platform.affinity(pair.from, pair.to)).or_default().push(&pair.exchanges);
    }
    all
}

/// Returns the levels of all series together, in the order of time.
fn of_all(series: &[&[(u64, f64)]]) -> ExchangeLevels {
    let mut all = series.concat();
    all.sort_by_key(|&(at, _)| at);
    ExchangeLevels::of(&all.iter().map(|&(_, exchange)| exchange).collect::<Vec<_>>())
}

fn of_class(
    class: Affinity,
    series: &[&[(u64, f64)]],
    levels: &ExchangeLevels,
) -> Vec<DistanceLevel> {
    let nanos = |seconds: f64| Nanos::from_millis((1e3 * seconds).round() as u64);
    let stays = stays_of_all(series, levels).levels.into_iter();
    stays
        .zip(changes_to(series, levels))
        .map(|(stay, changes)| DistanceLevel {
            class,
            exchange: Latency::from_nanos(stay.level.median_ns),
            share: (1e3 * stay.share).round() as u32,
            changes: changes as u32,
            median_stay: stay.median_stay_s.map(nanos),
            longest_stay: nanos(stay.longest_stay_s),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example::guest;
    use corehop_plan::units::Cpu;

    /// Returns the exchanges of a pair of CPUs, one every 100 ms: 45 ns or slightly more where the letter
    /// in `course` is `n`, and 210 ns or slightly more where the letter is `f`. A dot in `course` stands
    /// for an exchange at which the threads did not meet.
    fn pair(from: u32, to: u32, course: &str) -> ExchangeSeries {
        let look = |(at, letter): (usize, char)| {
            let jitter = (at % 7) as f64 * 0.4;
            let ns = match letter {
                'n' => 45.0 + jitter,
                'f' => 210.0 + jitter,
                _ => return None,
            };
            Some((at as u64 * 100_000_000, ns))
        };
        let exchanges = course.chars().enumerate().filter_map(look).collect();
        ExchangeSeries { from: Cpu(from), to: Cpu(to), exchanges }
    }

    #[test]
    fn a_course_of_near_and_far_has_the_shares_stays_and_changes_counted_by_hand() {
        // 2 s near, 1 s far, 3 s near, 2 s far, 2 s near; changes lie halfway between two looks.
        let course =
            ["n".repeat(20), "f".repeat(10), "n".repeat(30), "f".repeat(20), "n".repeat(20)];
        let found = distances(&guest(), &[pair(0, 1, &course.concat())]);
        let [near, far] = found.as_slice() else { panic!("{found:?}") };
        assert_eq!((near.class, far.class), (Affinity::L3, Affinity::L3));
        assert_eq!((near.changes, far.changes), (2, 2));
        // From the first look to the last are 9.9 s, of which 3.0 s far.
        assert_eq!((near.share, far.share), (697, 303));
        // Far stays of 1 and 2 s were seen whole: of two, half survive the first.
        assert_eq!(far.median_stay, Some(Nanos::from_secs(1)));
        // The near ones at the ends lasted at least 1.95 s, the one between 3 s.
        assert_eq!(near.median_stay, Some(Nanos::from_secs(3)));
        assert_eq!(
            (near.longest_stay, far.longest_stay),
            (Nanos::from_secs(3), Nanos::from_secs(2))
        );
        let Latency::Picos(picos) = far.exchange else { panic!() };
        assert!((210_000..213_000).contains(&picos));
    }

    #[test]
    fn one_level_has_all_of_the_time_no_change_and_a_stay_that_was_not_seen_to_end() {
        let found = distances(&guest(), &[pair(0, 1, &"n".repeat(50))]);
        let [only] = found.as_slice() else { panic!("{found:?}") };
        assert_eq!((only.share, only.changes, only.median_stay), (1000, 0, None));
        assert_eq!(only.longest_stay, Nanos::from_millis(4900));
    }

    #[test]
    fn pairs_that_are_declared_alike_share_levels_and_each_has_its_own_stays() {
        // One is near all the time, the other far: two distances, and nothing ever moved.
        let (near, far) = (pair(0, 1, &"n".repeat(40)), pair(1, 0, &"f".repeat(40)));
        let found = distances(&guest(), &[near, far]);
        assert_eq!(found.iter().map(|it| it.share).collect::<Vec<_>>(), [500, 500]);
        assert!(found.iter().all(|it| it.changes == 0), "{found:?}");
    }

    #[test]
    fn looks_at_which_threads_did_not_meet_make_no_change() {
        let course = ["n".repeat(15), ".".repeat(9), "n".repeat(15)].concat();
        let found = distances(&guest(), &[pair(0, 1, &course)]);
        assert_eq!((found.len(), found[0].changes, found[0].share), (1, 0, 1000));
    }

    #[test]
    fn without_an_exchange_there_is_no_distance_and_the_source_says_for_how_long_it_was_watched() {
        let none = fact(&guest(), &[pair(0, 1, "....")], 20.0);
        assert!(none.value.is_empty());
        assert!(none.source.to_string().contains("for 20 s"), "{}", none.source);
        let some = fact(&guest(), &[pair(0, 1, &"n".repeat(20))], 2.0);
        let said = some.source.to_string();
        assert!(said.contains("l3_migration: 20 exchanges of 1 pair, 1 level in"), "{said}");
    }
}
