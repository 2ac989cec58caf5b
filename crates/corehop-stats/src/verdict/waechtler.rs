// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests the two observations that Wächtler (2012, section 6.5) added to those of Bastoni et al.

use super::{
    CellView, ClaimVerdict, Comparison, Expect, MachineView, NEGLIGIBLE, ObservationClaim, Says,
    Sureness, TestOutcome, checked, difference, says,
};
use crate::ordered::{BadInput, Interval};
use crate::replicates::median_difference;
use corehop_plan::platform::MemoryArchitecture;
use corehop_plan::workload::Event;

const FIRST: ObservationClaim = ObservationClaim {
    id: "waechtler-1",
    claim: "In a NUMA system (there: one with the MESIF protocol) memory migrations should be \
            avoided, whatever the working set.",
    source: "Wächtler 2012, section 6.5, observation 1",
    rule: "For every working set and load: the median delay of a memory migration is not below that of \
           a preemption or of another migration (by more than 5 % of the warm touch), and at three \
           quarters of those compared with an L3 migration, or with a preemption where there is none, \
           it is above it. The protocol cannot be asked for; the costs can.",
};

/// Tests observation 1 of Wächtler, on memory migrations in NUMA systems.
///
/// # Errors
/// Returns [`BadInput`] for invalid cells or an invalid `alpha`.
pub fn waechtler_1(
    cells: &[CellView],
    machine: &MachineView,
    alpha: f64,
) -> Result<ClaimVerdict, BadInput> {
    let cells = checked(cells, alpha)?;
    if machine.memory_architecture != MemoryArchitecture::Numa {
        let kind = machine.memory_architecture;
        return Ok(FIRST.cannot_tell(format!(
            "this machine's memory is `{kind}`; the observation is about NUMA systems"
        )));
    }
    let pairs = alternatives(&cells);
    let sure = Sureness { alpha, comparisons: pairs.len() };
    let (mut comparisons, mut dearer, mut against) = (Vec::new(), 0, 0);
    for (other, far) in pairs {
        let margin = NEGLIGIBLE * other.warm()?;
        let comparison = difference(other, far, 0.5, margin, Expect::NotLess, sure)?;
        if other.event == Event::L3Migration || !has_l3(&cells, far) {
            against += 1;
            dearer += usize::from(comparison.interval.is_some_and(|i| i.low > margin));
        }
        comparisons.push(comparison);
    }
    let missing =
        "a memory migration, and a preemption or another migration at the same working set";
    let verdict = FIRST.judge(comparisons, missing);
    if verdict.outcome == TestOutcome::Holds && (dearer as f64) < super::MOST * f64::from(against) {
        let evidence = format!(
            "memory migrations never cost less, but cost more in only {dearer} of {against} comparisons"
        );
        return Ok(FIRST.verdict(TestOutcome::CannotTell, evidence, verdict.comparisons));
    }
    Ok(verdict)
}

/// Returns pairs of every memory migration with every event that a scheduler could choose instead.
fn alternatives<'a, 'b>(cells: &[&'b CellView<'a>]) -> Vec<(&'b CellView<'a>, &'b CellView<'a>)> {
    let far = cells.iter().filter(|cell| cell.event == Event::MemoryMigration);
    far.flat_map(|far| {
        let instead = cells.iter().filter(|other| {
            let leaves = other.event == Event::Preemption || other.event.is_migration();
            leaves && other.event != Event::MemoryMigration && other.comparable_to(far)
        });
        instead.map(|other| (*other, *far)).collect::<Vec<_>>()
    })
    .collect()
}

fn has_l3(cells: &[&CellView], far: &CellView) -> bool {
    cells.iter().any(|cell| cell.event == Event::L3Migration && cell.comparable_to(far))
}

const SECOND: ObservationClaim = ObservationClaim {
    id: "waechtler-2",
    claim: "With exclusive caches and nothing else running, a migration can cost less than nothing: a \
            working set too large for the caches of one core gains those of the other.",
    source: "Wächtler 2012, section 6.5, observation 2",
    rule: "Among all migrations with nothing else running and a working set larger than all caches of \
           a core together: at one of them at least the median delay is below 0 and below that of an \
           idle leave (both allowing for the number of cells). It does not hold if the caches are \
           known to be exclusive and at no cell it lies below -1 % of the warm touch.",
};

/// The share of the warm touch below which a gain counts as none.
const GAIN: f64 = 0.01;

/// Tests observation 2 of Wächtler, on migrations that gain.
///
/// # Errors
/// Returns [`BadInput`] for invalid cells or an invalid `alpha`.
pub fn waechtler_2(
    cells: &[CellView],
    machine: &MachineView,
    alpha: f64,
) -> Result<ClaimVerdict, BadInput> {
    let cells = checked(cells, alpha)?;
    if machine.exclusive_caches == Some(false) {
        return Ok(SECOND.cannot_tell("the caches of this machine are known not to be exclusive"));
    }
    let total: u64 = machine.cache_bytes.iter().sum();
    let large = |cell: &&&CellView| {
        cell.quiet() && cell.event.is_migration() && total > 0 && cell.wss_bytes > total
    };
    let migrations: Vec<_> = cells.iter().filter(large).copied().collect();
    let sure = Sureness { alpha, comparisons: migrations.len() };
    let mut comparisons = Vec::new();
    for migration in migrations {
        let control = cells
            .iter()
            .find(|cell| cell.event == Event::IdleLeave && cell.comparable_to(migration));
        comparisons.push(gain(migration, control.copied(), sure)?);
    }
    if comparisons.is_empty() {
        return Ok(SECOND.cannot_tell(format!(
            "not measured: a migration with nothing else running and a working set above {} KiB",
            total / 1024
        )));
    }
    Ok(found_or_not(comparisons, machine.exclusive_caches))
}

/// The observation states that a migration with a gain exists, so one fitting comparison suffices,
/// and only all comparisons together contradict it.
fn found_or_not(comparisons: Vec<Comparison>, exclusive: Option<bool>) -> ClaimVerdict {
    let count = |says| comparisons.iter().filter(|c| c.says == says).count();
    let (all, gains, none) = (comparisons.len(), count(Says::Fits), count(Says::Contradicts));
    let (outcome, evidence) = match comparisons.iter().find(|c| c.says == Says::Fits) {
        Some(example) => (
            TestOutcome::Holds,
            format!(
                "{gains} of {all} migrations reduce the delay; for example {}",
                example.sentence()
            ),
        ),
        None if none == all && exclusive == Some(true) => {
            (TestOutcome::DoesNot, format!("none of {all} migrations reduces the delay"))
        }
        None if none == all => (
            TestOutcome::CannotTell,
            format!(
                "none of {all} migrations reduces the delay, but whether the caches are exclusive is unknown"
            ),
        ),
        None => (
            TestOutcome::CannotTell,
            format!(
                "no migration is shown to reduce the delay, and {} of {all} migrations are undecided",
                all - none
            ),
        ),
    };
    SECOND.verdict(outcome, evidence, comparisons)
}

/// Tests whether the median delay is negative, and more negative than the median delay of the
/// control. The comparison fits the observation if the median delay is certainly negative and
/// certainly below that of the control, and contradicts the observation if the delay is certainly
/// not below the smallest gain.
fn gain(
    migration: &CellView,
    control: Option<&CellView>,
    sure: Sureness,
) -> Result<Comparison, BadInput> {
    let delays = migration.nested()?;
    let margin = GAIN * migration.warm()?;
    let negative = |interval: Option<Interval>| interval.is_some_and(|it| it.high < 0.0);
    let gains = negative(delays.median(sure.to_contradict())?.interval);
    let beats_control = match control {
        Some(control) => {
            let difference = median_difference(&control.nested()?, &delays, sure.to_contradict())?;
            negative(difference.interval)
        }
        None => false,
    };
    let narrow = delays.median(sure.to_fit())?;
    let without_gain = narrow.interval.is_some_and(|it| it.low >= -margin);
    Ok(Comparison {
        what: format!("median delay of {}, load idle", migration.event),
        wss_bytes: migration.wss_bytes,
        estimate: narrow.estimate,
        interval: narrow.interval,
        why_none: narrow.why_none.map(|why| why.to_string()),
        margin,
        unit: "ns",
        // Being negative by less than the margin is a gain all the same if it is certain.
        says: if gains && beats_control { Says::Fits } else { says(false, without_gain) },
    })
}

#[cfg(test)]
mod tests {
    use super::super::synthetic::{Cell, views};
    use super::*;
    use crate::draw::ResampleSource;

    /// The Xeon X5650 of Wächtler: 32 KiB, 256 KiB, 12 MiB; NUMA; inclusive.
    const X5650: MachineView = MachineView {
        cache_bytes: &[32 << 10, 256 << 10, 12 << 20],
        memory_architecture: MemoryArchitecture::Numa,
        exclusive_caches: Some(false),
        lacks: &[],
    };

    /// A machine with exclusive caches of 64 KiB, 512 KiB and 2 MiB in a single socket.
    const EXCLUSIVE: MachineView = MachineView {
        cache_bytes: &[64 << 10, 512 << 10, 2 << 20],
        memory_architecture: MemoryArchitecture::SingleSocket,
        exclusive_caches: Some(true),
        lacks: &[],
    };

    fn numa(n: usize, memory: f64) -> Vec<Cell> {
        let mut draw = ResampleSource::new(21);
        let mut cells = Vec::new();
        for (kib, cost) in [(64, 4.0), (256, 18.0), (1024, 60.0), (4096, 200.0)] {
            for (event, mean) in [
                (Event::Preemption, cost),
                (Event::L3Migration, 2.0 * cost),
                (Event::MemoryMigration, memory * cost),
            ] {
                let law = (mean, 0.2 * cost);
                cells.push(Cell::new(&mut draw, event, "constructed", kib, law, n));
            }
        }
        cells
    }

    fn outcome(verdict: Result<ClaimVerdict, BadInput>) -> TestOutcome {
        verdict.unwrap().outcome
    }

    #[test]
    fn memory_migrations_that_cost_most_at_every_size_make_the_first_hold() {
        let verdict = waechtler_1(&views(&numa(60, 10.0)), &X5650, 0.05).unwrap();
        assert_eq!(verdict.outcome, TestOutcome::Holds, "{}", verdict.evidence);
        assert_eq!(verdict.comparisons.len(), 8);
    }

    #[test]
    fn a_memory_migration_that_saves_contradicts_the_first() {
        let verdict = waechtler_1(&views(&numa(60, -10.0)), &X5650, 0.05).unwrap();
        assert_eq!(verdict.outcome, TestOutcome::DoesNot, "{}", verdict.evidence);
    }

    #[test]
    fn the_first_cannot_be_told_without_numa_without_cells_or_without_a_difference() {
        let cells = numa(60, 10.0);
        let verdict = waechtler_1(&views(&cells), &EXCLUSIVE, 0.05).unwrap();
        assert_eq!(verdict.outcome, TestOutcome::CannotTell);
        assert!(verdict.evidence.contains("single_socket"), "{}", verdict.evidence);
        let near: Vec<Cell> =
            cells.into_iter().filter(|cell| cell.event != Event::MemoryMigration).collect();
        assert_eq!(outcome(waechtler_1(&views(&near), &X5650, 0.05)), TestOutcome::CannotTell);
        let verdict = waechtler_1(&views(&numa(60, 2.0)), &X5650, 0.05).unwrap();
        assert_eq!(verdict.outcome, TestOutcome::CannotTell, "{}", verdict.evidence);
        assert!(verdict.evidence.contains("never cost less"), "{}", verdict.evidence);
    }

    /// Makes quiet migrations and idle leaves at two sizes beyond all caches and one within.
    fn beyond(n: usize, migration: f64, leave: f64) -> Vec<Cell> {
        let mut draw = ResampleSource::new(23);
        let mut cells = Vec::new();
        for kib in [1024, 4096, 8192] {
            let unit = kib as f64 / 4.0;
            for (event, share) in [(Event::L3Migration, migration), (Event::IdleLeave, leave)] {
                let law = (share * unit, 0.2 * unit);
                cells.push(Cell::new(&mut draw, event, "idle", kib, law, n));
            }
        }
        cells
    }

    #[test]
    fn a_migration_that_gains_where_an_idle_leave_does_not_makes_the_second_hold() {
        let verdict = waechtler_2(&views(&beyond(60, -1.0, 0.0)), &EXCLUSIVE, 0.05).unwrap();
        assert_eq!(verdict.outcome, TestOutcome::Holds, "{}", verdict.evidence);
        let sizes: Vec<u64> = verdict.comparisons.iter().map(|c| c.wss_bytes >> 10).collect();
        assert_eq!(sizes, [4096, 8192], "1024 KiB fits into the caches");
    }

    #[test]
    fn a_gain_that_the_control_shows_too_is_none() {
        let verdict = waechtler_2(&views(&beyond(60, -1.0, -1.0)), &EXCLUSIVE, 0.05).unwrap();
        assert_eq!(verdict.outcome, TestOutcome::CannotTell, "{}", verdict.evidence);
    }

    #[test]
    fn migrations_that_all_cost_contradict_the_second_only_if_the_caches_are_exclusive() {
        let cells = beyond(60, 1.0, 0.0);
        assert_eq!(outcome(waechtler_2(&views(&cells), &EXCLUSIVE, 0.05)), TestOutcome::DoesNot);
        let unknown = MachineView { exclusive_caches: None, ..EXCLUSIVE };
        let verdict = waechtler_2(&views(&cells), &unknown, 0.05).unwrap();
        assert_eq!(verdict.outcome, TestOutcome::CannotTell);
        assert!(verdict.evidence.contains("exclusive is unknown"), "{}", verdict.evidence);
        let inclusive = MachineView { exclusive_caches: Some(false), ..EXCLUSIVE };
        assert_eq!(outcome(waechtler_2(&views(&cells), &inclusive, 0.05)), TestOutcome::CannotTell);
    }

    #[test]
    fn the_second_needs_working_sets_beyond_the_caches_and_samples() {
        let small: Vec<Cell> =
            beyond(60, -1.0, 0.0).into_iter().filter(|cell| cell.kib < 2048).collect();
        let verdict = waechtler_2(&views(&small), &EXCLUSIVE, 0.05).unwrap();
        assert_eq!(verdict.outcome, TestOutcome::CannotTell);
        assert!(verdict.evidence.contains("2624 KiB"), "{}", verdict.evidence);
        let few = beyond(4, -1.0, 0.0);
        assert_eq!(outcome(waechtler_2(&views(&few), &EXCLUSIVE, 0.05)), TestOutcome::CannotTell);
    }
}
