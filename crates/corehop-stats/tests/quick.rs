// SPDX-License-Identifier: MIT OR Apache-2.0
//! The samples of the preset `quick`, and the questions that they suffice for.

use corehop_plan::experiment::{DrawStream, Experiment, Preset};
use corehop_plan::platform::{MemoryArchitecture, Platform};
use corehop_plan::units::Nanos;
use corehop_plan::workload::{Absence, Event, Page};
use corehop_stats::verdict::{CellView, ClaimVerdict, MachineView, TestOutcome, verdicts};

/// Two packages with two level-3 caches each: every class of migration but the one within a core.
fn every_class() -> Platform {
    let cache = |level: u32, size: &str, by: u32| {
        format!(
            "[[cache]]\nlevel = {level}\nkind = \"unified\"\n\
             size = {{ value = \"{size}\", source = \"assumed\" }}\n\
             instances = {{ value = \"0-15 by {by}\", source = \"assumed\" }}\n"
        )
    };
    let text = format!(
        "schema = 1\nid = \"box\"\nname = \"box\"\ncpus = {{ value = \"0-15\", source = \"assumed\" }}\n\
         packages = {{ value = \"0-15 by 8\", source = \"assumed\" }}\n\
         cores = {{ value = \"0-15 by 1\", source = \"assumed\" }}\n{}{}{}",
        cache(1, "32 KiB", 1),
        cache(2, "1 MiB", 2),
        cache(3, "16 MiB", 4)
    );
    Platform::from_toml(&text).unwrap()
}

/// The cost of a cell of the plan on a machine that is as the studies found theirs, in microseconds per KiB:
/// nothing for controls, a preemption less than a migration when idle, all alike under load.
fn cost(event: Event, loaded: bool, absence: Absence) -> f64 {
    match (event, absence) {
        (Event::None, _) => 0.0,
        (Event::IdleLeave, _) => 0.1,
        (Event::Preemption, Absence::Nothing) => 0.2,
        _ if loaded => 0.9,
        _ => 0.6,
    }
}

/// The verdicts on samples of all cells of `quick`, each cell as often as it asks for.
fn judged(platform: &Platform) -> Vec<ClaimVerdict> {
    let quick = Preset::Quick.synthetic(platform, None, None);
    let sets = quick.sets();
    let samples: Vec<_> = quick
        .cells(platform)
        .unwrap()
        .into_iter()
        .map(|(cell, count)| {
            let set = &sets[cell.set];
            let kib = set.wss.kib();
            let (low, high) =
                (cell.length.shortest().get() as f64, 2.0 * cell.length.mean().get() as f64);
            let varies = low < 1.0 && high > 0.0;
            // Evenly spread, in an order that has nothing to do with the size.
            let mut shares: Vec<f64> =
                (0..count).map(|i| f64::from(i) / f64::from(count)).collect();
            DrawStream::new(1, u64::from(count)).shuffle(&mut shares);
            let lengths: Vec<f64> = if varies {
                shares.iter().map(|share| share * high).collect()
            } else {
                vec![low; shares.len()]
            };
            let mean = cost(cell.event, cell.load.word() != "idle", cell.absence) * kib * 1e3;
            let by_length = |share: &f64| if varies { 2.0 * share } else { 1.0 };
            let delay = |share: &f64| mean * by_length(share) * (0.95 + 0.1 * share);
            let delays: Vec<f64> = shares.iter().map(delay).collect();
            (cell, set.clone(), delays, lengths, vec![kib * 100.0; count as usize])
        })
        .collect();
    let texts: Vec<(String, String)> = samples
        .iter()
        .map(|(cell, set, ..)| (set.page.to_string(), cell.length.to_string()))
        .collect();
    let most = samples.iter().map(|(_, _, delays, ..)| delays.len()).max().unwrap();
    let numbers: Vec<u64> = (0..most as u64).collect();
    let cells: Vec<CellView> = samples
        .iter()
        .zip(&texts)
        .map(|((cell, set, delays, lengths, warm), (variant, absence))| CellView {
            event: cell.event,
            load: cell.load.word(),
            preempted_by: cell.absence,
            wss_bytes: set.wss.get(),
            write_ratio: set.write_ratio,
            variant,
            absence,
            warm_ns: warm,
            delay_ns: delays,
            length_ns: lengths,
            replicates: &numbers[..delays.len()],
            in_a_row: 1.0,
        })
        .collect();
    let view = MachineView {
        cache_bytes: &[32 << 10, 1 << 20, 16 << 20],
        memory_architecture: MemoryArchitecture::Uma,
        exclusive_caches: None,
        lacks: &[Event::SmtMigration],
    };
    verdicts(&cells, &view, 0.05).unwrap()
}

#[test]
fn quick_measures_what_the_observations_one_to_four_speak_of() {
    let verdicts = judged(&every_class());
    let of = |id: &str| verdicts.iter().find(|verdict| verdict.id == id).unwrap();
    for id in ["bastoni-2", "bastoni-3a", "bastoni-3b", "bastoni-4"] {
        assert_eq!(of(id).outcome, TestOutcome::Holds, "{id}: {}", of(id).evidence);
    }
    // These delays do not spread at all, whatever the size.
    let first = of("bastoni-1");
    assert_eq!(first.outcome, TestOutcome::DoesNot, "{}", first.evidence);
    // A preemption and three classes of migration, each within and beyond the second-level cache.
    assert_eq!(first.comparisons.len(), 8);
}

#[test]
fn quick_has_written_sets_of_64_and_256_kib_and_takes_less_than_three_minutes() {
    let platform = every_class();
    let quick = Preset::Quick.synthetic(&platform, None, None);
    let sets = quick.sets();
    let cells = quick.cells(&platform).unwrap();
    for kib in [64.0, 256.0] {
        let written = cells.iter().filter(|(cell, _)| {
            let set = &sets[cell.set];
            set.wss.kib().to_bits() == f64::to_bits(kib) && set.write_ratio > 0.0
        });
        assert!(written.map(|&(_, samples)| samples).sum::<u32>() >= 500, "{kib} KiB");
    }
    let parts: [&dyn Experiment; 3] =
        [&quick, &Preset::Quick.access_time(&platform), &Preset::Quick.preemption_length()];
    let projected: u64 = parts.iter().map(|part| part.projected(&platform, 1).unwrap().get()).sum();
    assert!(Nanos::new(projected) < Nanos::from_secs(180), "{projected} ns");
}

#[test]
fn quick_gives_the_90_percent_quantile_an_upper_end_in_the_cells_that_a_verdict_asks_for() {
    let platform = every_class();
    let quick = Preset::Quick.synthetic(&platform, None, None);
    let sets = quick.sets();
    let mut asked = 0;
    for (cell, samples) in quick.cells(&platform).unwrap() {
        let set = &sets[cell.set];
        let small = set.wss.kib() <= 1024.0 && set.page == Page::Base;
        let longest = cell.length.mean() >= Nanos::from_millis(4);
        if !small || !longest || cell.event != Event::Preemption && !cell.event.is_migration() {
            continue;
        }
        asked += 1;
        // A model cuts lengths that were drawn into four.
        let parts = if cell.length.shortest().get() == 0 { 4 } else { 1 };
        // Twenty replicates of ten valid samples each, and two more that may be disturbed.
        assert!(samples / parts >= 240 || cell.load.word() != "idle", "{cell:?} {samples}");
        assert!(samples / parts >= 60, "{cell:?} {samples}");
        assert!(cell.absence != Absence::Nothing || cell.event != Event::Preemption, "{cell:?}");
    }
    assert!(asked > 20, "{asked}");
}
