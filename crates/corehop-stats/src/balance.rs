// SPDX-License-Identifier: MIT OR Apache-2.0
//! Balances a measured delay: how much of it the latencies of the cache levels explain.
//!
//! A line that left the inner caches is fetched again from the next place that still has the line. If
//! this applies to all lines of a working set, the delay is
//! `lines × (latency there − warm time of a line)`. The event and the platform determine the place of
//! a line after an event:
//!
//! | event | all lines come from |
//! |---|---|
//! | `none`, `idle_leave` | where they were: nothing is lost |
//! | `flush` | memory |
//! | `smt_migration` | the same caches: nothing is lost |
//! | `l2_migration`, `l3_migration`, `memory_migration` | the cache that both CPUs share, or memory |
//! | `preemption` by a preemptor or load | the first cache larger than what ran meanwhile |
//!
//! The balance is an upper bound for a preemption that did not evict everything. The predicted delay
//! leaves out the extra cost of a modified line (its transfer from another core's cache), overlapping
//! misses, write-backs, and translation; these, and errors, make up the residual.

use serde::Serialize;

use super::access::AccessCurve;
use super::cell::CellKey;
use super::summary::CellSummary;
use corehop_plan::platform::{Hertz, Platform};
use corehop_plan::workload::{Absence, Event, LINE, LineState, Page};

/// The access time to each cache and to memory, in nanoseconds.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LevelLatencies {
    /// The caches that hold data, innermost first, each with its label, its size in bytes, and the
    /// time of a hit.
    pub caches: Vec<(String, u64, Option<f64>)>,
    /// The access time to memory, in nanoseconds.
    pub memory_ns: Option<f64>,
    /// The source of each time, in order, memory last.
    pub sources: Vec<String>,
}

impl LevelLatencies {
    /// Returns the levels of `platform`, with the times that `curves` measured, or else with the
    /// times that the platform states.
    ///
    /// The time of a cache is the level of its plateau; the time of memory is the access time in
    /// the largest working set that was measured with invalid lines.
    pub fn of(platform: &Platform, curves: &[AccessCurve]) -> Self {
        let mine =
            |curve: &&AccessCurve| *curve.key.machine == *platform.id && curve.key.chains == 1;
        let curve =
            |state| curves.iter().filter(mine).find(move |curve| curve.key.cache_state == state);
        let edges = curve(LineState::Valid).map(|curve| super::access::edges(curve, platform));
        let clock = platform.clock.core.as_ref().map(|core| core.value);
        let cpu = platform.usable().first().unwrap_or_default();
        let mut sources = Vec::new();
        let mut caches = Vec::new();
        for cache in platform.data_caches(cpu) {
            let Some(size) = &cache.size else { continue };
            let label = cache.label();
            let its_edge = edges.iter().flatten().find(|edge| edge.cache == label);
            let measured = its_edge.and_then(|edge| edge.access_ns);
            let stated = cache.latency.as_ref().and_then(|fact| nanos(fact.value, clock));
            sources.push(source(measured, stated));
            caches.push((label, size.value.get(), measured.or(stated)));
        }
        let measured = curve(LineState::Invalid).and_then(|curve| {
            Some(curve.points.iter().rev().find_map(|point| point.access_ns)?.estimate)
        });
        let stated = platform.memory.local.as_ref().and_then(|fact| nanos(fact.value, clock));
        sources.push(source(measured, stated));
        Self { caches, memory_ns: measured.or(stated), sources }
    }

    /// Returns the first cache that still has the lines after a walk of this size ran, or memory.
    fn beyond(&self, bytes: u64) -> (String, Option<f64>) {
        let larger = self.caches.iter().skip(1).find(|&&(_, size, _)| size > bytes);
        larger.map_or_else(|| self.memory(), |(label, _, time)| (label.clone(), *time))
    }

    /// Returns the innermost cache at this level or farther out, or memory.
    fn at_level(&self, level: u32) -> (String, Option<f64>) {
        let prefix = format!("L{level}");
        let found = self.caches.iter().find(|(label, ..)| label.starts_with(&prefix));
        found.map_or_else(|| self.memory(), |(label, _, time)| (label.clone(), *time))
    }

    fn memory(&self) -> (String, Option<f64>) {
        ("memory".to_owned(), self.memory_ns)
    }

    /// Returns the place of the lines of a cell after its event, or `None` if nothing is lost, or if
    /// the place is unknown.
    fn source(&self, cell: &CellKey) -> Option<(String, Option<f64>)> {
        match cell.event {
            Event::None | Event::IdleLeave | Event::SmtMigration => None,
            Event::Flush | Event::MemoryMigration => Some(self.memory()),
            Event::L2Migration => Some(self.at_level(2)),
            Event::L3Migration => Some(self.at_level(3)),
            Event::Preemption if cell.preempted_by == Absence::Nothing => None,
            Event::Preemption => Some(self.beyond(cell.polluter_bytes()?)),
        }
    }
}

fn nanos(latency: corehop_plan::platform::Latency, clock: Option<Hertz>) -> Option<f64> {
    let picos = latency.picos(clock.unwrap_or(Hertz::new(0)));
    (picos > 0).then(|| picos as f64 / 1e3)
}

fn source(measured: Option<f64>, stated: Option<f64>) -> String {
    let source = match (measured, stated) {
        (Some(_), _) => "measured",
        (None, Some(_)) => "stated by the platform",
        (None, None) => "not known",
    };
    source.to_owned()
}

/// The balance of a cell: its median delay and the explained part, in microseconds.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Balance {
    /// The cell to which the balance applies.
    pub cell: CellKey,
    /// The number of lines in the working set.
    pub lines: u64,
    /// The time of the warm touch for each line, in nanoseconds; misses of lines that never fit into
    /// the caches are part of this time.
    pub warm_line_ns: f64,
    /// The place from which the lines come after the event.
    pub from: String,
    /// The access time of a line from the place `from`, in nanoseconds.
    pub from_ns: f64,
    /// The median delay that was measured, in microseconds.
    pub measured_us: f64,
    /// The explained delay, `lines × (from − warm)`.
    pub explained_us: f64,
    /// The residual: the measured delay minus the explained delay.
    pub residual_us: f64,
    /// The explained delay for each KiB of the working set, in microseconds.
    pub explained_us_per_kib: f64,
    /// The residual for each KiB of the working set, in microseconds.
    pub residual_us_per_kib: f64,
    /// The explained delay divided by the measured delay, or `None` if the measured delay is zero.
    pub explained_share: Option<f64>,
    /// The indirect estimate (Bastoni et al. 2010, section 3.1): additional misses × the time of
    /// memory, or `None` if misses were not counted.
    pub indirect_us: Option<f64>,
}

/// Returns the balances of all cells for which the place of the lines is known.
pub fn balances(summaries: &[CellSummary], levels: &LevelLatencies) -> Vec<Balance> {
    summaries.iter().filter_map(|summary| balance(summary, levels)).collect()
}

fn balance(summary: &CellSummary, levels: &LevelLatencies) -> Option<Balance> {
    let (from, from_ns) = levels.source(&summary.cell)?;
    let from_ns = from_ns?;
    let measured_us = summary.delay.as_ref()?.median().estimate;
    let lines = summary.cell.wss_bytes / LINE;
    let warm_line_ns = 1e3 * summary.warm_us?.estimate / lines as f64;
    let explained_us = lines as f64 * (from_ns - warm_line_ns).max(0.0) / 1e3;
    let misses = summary.extra_misses.zip(levels.memory_ns);
    Some(Balance {
        cell: summary.cell.clone(),
        lines,
        warm_line_ns,
        from,
        from_ns,
        measured_us,
        explained_us,
        residual_us: measured_us - explained_us,
        explained_us_per_kib: explained_us / summary.cell.wss_kib(),
        residual_us_per_kib: (measured_us - explained_us) / summary.cell.wss_kib(),
        explained_share: (measured_us > 0.0).then(|| explained_us / measured_us),
        indirect_us: misses.map(|(misses, memory_ns)| misses.estimate * memory_ns / 1e3),
    })
}

/// The share of translation in a delay: a cell in base pages compared with the cell in huge pages.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TranslationShare {
    /// The cell whose working set has base pages.
    pub cell: CellKey,
    /// The kind of huge pages in the comparison.
    pub huge: Page,
    /// The median delay in base pages, in microseconds.
    pub base_us: f64,
    /// The median delay in huge pages, in microseconds.
    pub huge_us: f64,
    /// The part of the delay that translation adds: base minus huge pages, in microseconds.
    pub translation_us: f64,
    /// The added part divided by the delay in base pages, or `None` if that delay is zero.
    pub share: Option<f64>,
}

/// The smallest share of a working set on huge pages at which the set counts as being on huge pages.
const HUGE: f64 = 0.9;

/// Returns the share of translation for every cell that was measured in base and in huge pages.
pub fn translations(summaries: &[CellSummary]) -> Vec<TranslationShare> {
    let base = summaries.iter().filter(|summary| summary.cell.page == Page::Base);
    base.flat_map(|base| {
        let huge = summaries.iter().filter(|other| {
            let same = CellKey { page: Page::Base, ..other.cell.clone() };
            other.cell.page != Page::Base && same == base.cell && other.huge_share >= HUGE
        });
        huge.filter_map(|huge| translation(base, huge))
    })
    .collect()
}

fn translation(base: &CellSummary, huge: &CellSummary) -> Option<TranslationShare> {
    let base_us = base.delay.as_ref()?.median().estimate;
    let huge_us = huge.delay.as_ref()?.median().estimate;
    Some(TranslationShare {
        cell: base.cell.clone(),
        huge: huge.cell.page,
        base_us,
        huge_us,
        translation_us: base_us - huge_us,
        share: (base_us > 0.0).then(|| (base_us - huge_us) / base_us),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::estimator::Estimator;
    use crate::example::sample;
    use crate::summary::summarize;
    use corehop_plan::samples::Sample;

    /// Returns latencies with an L1 of 48 KiB at 2 ns, an L2 of 2 MiB at 6 ns, an L3 of 32 MiB at 30
    /// ns, and memory at 100 ns.
    fn levels() -> LevelLatencies {
        let cache = |label: &str, kib: u64, ns| (label.to_owned(), kib << 10, Some(ns));
        LevelLatencies {
            caches: vec![cache("L1d", 48, 2.0), cache("L2", 2048, 6.0), cache("L3", 32_768, 30.0)],
            memory_ns: Some(100.0),
            sources: Vec::new(),
        }
    }

    /// Makes a sample of 64 lines whose warm touch takes 128 ns (2 ns a line), and whose touch after
    /// the event takes longer by the given delay.
    fn delayed(event: Event, delay_ns: f64) -> Sample {
        Sample { event, warm_ns: 128.0, resumed_ns: 128.0 + delay_ns, ..sample() }
    }

    fn of(sample: Sample) -> Vec<Balance> {
        balances(&summarize(&[sample], Estimator::Difference), &levels())
    }

    #[test]
    fn a_flush_is_explained_by_lines_times_what_memory_takes_longer() {
        let [balance] = of(delayed(Event::Flush, 7_000.0)).try_into().unwrap();
        // 64 × (100 − 2) ns = 6.272 µs of 7 µs.
        assert!((balance.explained_us - 6.272).abs() < 1e-9);
        assert!((balance.residual_us - 0.728).abs() < 1e-9);
        assert!((balance.explained_share.unwrap() - 0.896).abs() < 1e-9);
    }

    #[test]
    fn after_a_preemption_lines_come_from_the_first_cache_larger_than_what_ran() {
        for (polluter, from, ns) in [
            ("shuffled 1 MiB write 0.5", "L2", 6.0),
            ("shuffled 4 MiB write 0.5", "L3", 30.0),
            ("scan 64 MiB write 0", "memory", 100.0),
        ] {
            let preempted =
                Sample { polluter: Some(polluter.into()), ..delayed(Event::Preemption, 1_000.0) };
            let [balance] = of(preempted).try_into().unwrap();
            assert_eq!((balance.from.as_str(), balance.from_ns), (from, ns), "{polluter}");
        }
        assert!(of(delayed(Event::Preemption, 1_000.0)).is_empty(), "what ran is not known");
    }

    #[test]
    fn after_a_migration_lines_come_from_what_both_cpus_share() {
        for (event, from) in [
            (Event::L2Migration, "L2"),
            (Event::L3Migration, "L3"),
            (Event::MemoryMigration, "memory"),
        ] {
            assert_eq!(of(delayed(event, 1_000.0))[0].from, from);
        }
        for event in [Event::None, Event::IdleLeave, Event::SmtMigration] {
            assert!(of(delayed(event, 1.0)).is_empty(), "{event} loses nothing");
        }
    }

    #[test]
    fn counted_misses_give_the_indirect_estimate_beside_the_direct_one() {
        let counted = Sample {
            misses_warm: Some(3),
            misses_resumed: Some(63),
            ..delayed(Event::Flush, 7_000.0)
        };
        assert_eq!(of(counted)[0].indirect_us, Some(6.0));
        assert_eq!(of(delayed(Event::Flush, 7_000.0))[0].indirect_us, None);
    }

    #[test]
    fn translation_is_what_base_pages_cost_more_and_pages_that_are_not_huge_are_not_compared() {
        let base = delayed(Event::Flush, 8_000.0);
        let huge = |share| Sample {
            page: Page::Transparent,
            huge_share: share,
            ..delayed(Event::Flush, 6_000.0)
        };
        let of = |samples: &[Sample]| translations(&summarize(samples, Estimator::Difference));
        let [found] = of(&[base.clone(), huge(1.0)]).try_into().unwrap();
        assert!((found.translation_us - 2.0).abs() < 1e-9);
        assert!((found.share.unwrap() - 0.25).abs() < 1e-9);
        assert!(of(&[base, huge(0.2)]).is_empty());
    }
}
