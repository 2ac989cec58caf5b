// SPDX-License-Identifier: MIT OR Apache-2.0
//! The measurements of the studies' presets, and the effect of options on them.

use corehop_plan::experiment::{Cell, Overrides, Preset, Synthetic};
use corehop_plan::platform::Platform;
use corehop_plan::units::{Bytes, Cpu, CpuList};
use corehop_plan::workload::{
    Absence, Event, Load, Mover, MovingProgram, Pattern, Polluter, Transfer,
};

fn x5650() -> Platform {
    Platform::named("xeon_x5650").unwrap().unwrap()
}

fn make() -> Load {
    Load::Realistic { command: "make".to_owned(), cpus: CpuList::default() }
}

/// Load, event and length of every cell at one size, with the samples asked for.
fn at(experiment: &Synthetic, kib: u64) -> Vec<(&'static str, Event, String, u32)> {
    let sets = experiment.sets();
    let of_size = experiment.cells(&x5650()).unwrap().into_iter();
    of_size
        .filter(|(cell, _)| sets[cell.set].wss == Bytes::from_kib(kib))
        .map(|(cell, samples)| (cell.load.word(), cell.event, cell.length.to_string(), samples))
        .collect()
}

#[test]
fn waechtler_asks_for_the_lengths_counts_and_sizes_of_the_study() {
    let preset = Preset::Waechtler.synthetic(&x5650(), None, None);
    assert_eq!(preset.mover, Mover::Handover);
    let of_load = |load| -> Vec<(Event, String, u32)> {
        let all = at(&preset, 64).into_iter().filter(|it| it.0 == load);
        all.map(|(_, event, length, samples)| (event, length, samples)).collect()
    };
    let asked = [
        (Event::None, "fixed_0ns", 128),
        (Event::IdleLeave, "fixed_4ms", 128),
        (Event::Preemption, "fixed_4ms", 128),
        (Event::Preemption, "uniform", 1024),
        (Event::L3Migration, "fixed_0ns", 512),
        (Event::MemoryMigration, "fixed_0ns", 512),
    ]
    .map(|(event, length, samples)| (event, length.to_owned(), samples));
    assert_eq!(of_load("idle"), asked);
    assert_eq!(of_load("constructed"), asked);
    let sizes: Vec<u64> = preset.sets().iter().map(|set| set.wss.get() >> 10).collect();
    assert_eq!(
        sizes,
        [4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 12288, 16384, 32768]
    );
}

#[test]
fn the_realistic_load_of_a_preset_is_there_once_there_is_a_command_for_it() {
    for preset in [Preset::Quick, Preset::Bastoni, Preset::Waechtler] {
        let loads = |realistic: Option<&Load>| {
            let groups = preset.synthetic(&x5650(), None, realistic).groups;
            let mut loads: Vec<&str> = groups.iter().map(|group| group.load.word()).collect();
            loads.dedup();
            loads
        };
        assert_eq!(loads(None), ["idle", "constructed"], "{preset}");
        assert_eq!(loads(Some(&make())), ["idle", "constructed", "realistic"], "{preset}");
    }
    let alone = Preset::Waechtler.synthetic(&x5650(), Some(&make()), None);
    assert!(alone.groups.iter().all(|group| group.load == make()));
}

#[test]
fn a_sweep_runs_the_command_on_the_jobs_own_cpu_and_on_all() {
    let mut sweep = Preset::Waechtler.polluter_sweep(&x5650());
    let overrides = Overrides {
        realistic: Some(make()),
        cpus: CpuList::new([Cpu(3), Cpu(4)]),
        ..Overrides::default()
    };
    overrides.polluter_sweep(&mut sweep, &x5650());
    let on: Vec<Option<String>> = sweep.loads.iter().map(Load::runs).collect();
    assert_eq!(on, [None, Some("make on CPUs 3".to_owned()), Some("make".to_owned())]);
}

#[test]
fn who_names_sizes_gets_every_kind_of_cell_of_a_preset_at_them_once() {
    let overrides = Overrides { wss: vec![Bytes::from_kib(8)], ..Overrides::default() };
    let named = |preset: Preset| {
        let mut experiment = preset.synthetic(&x5650(), None, None);
        let before = at(&experiment, 64);
        overrides.synthetic(&mut experiment);
        assert_eq!(experiment.sets().len(), 1);
        (before, at(&experiment, 8))
    };
    let (before, after) = named(Preset::Waechtler);
    assert_eq!(after, before);
    // The groups that quick has for further sizes, pages and lengths are not repeated.
    let (_, after) = named(Preset::Quick);
    let idle: Vec<Event> = after.iter().filter(|it| it.0 == "idle").map(|it| it.1).collect();
    let words: Vec<&str> = idle.into_iter().map(Event::word).collect();
    let every = ["none", "idle_leave", "flush", "preemption", "l3_migration", "memory_migration"];
    assert_eq!(words, every);
}

#[test]
fn a_control_that_two_groups_share_is_sampled_once() {
    let mut experiment = Preset::Quick.synthetic(&x5650(), None, None);
    let overrides = Overrides { events: vec![Event::None], ..Overrides::default() };
    overrides.synthetic(&mut experiment);
    let cells = experiment.cells(&x5650()).unwrap();
    for (place, (cell, _)) in cells.iter().enumerate() {
        assert!(cells[..place].iter().all(|(other, _)| other != cell), "{cell:?}");
    }
    // As often as the group that wants most.
    let [none] = at(&experiment, 16).try_into().unwrap();
    assert_eq!(none.3, 240);
}

fn preemptor() -> Polluter {
    Polluter { wss: Bytes::from_kib(96), pattern: Pattern::Scan, write_ratio: 0.25 }
}

/// The occupants of the CPU in the preemptions of an experiment, each once.
fn occupants(experiment: &Synthetic) -> Vec<Absence> {
    let cells = experiment.cells(&x5650()).unwrap().into_iter().map(|(cell, _)| cell);
    let preempted = cells.filter(|cell| cell.event == Event::Preemption);
    let mut all: Vec<Absence> = preempted.map(|cell| cell.absence).collect();
    all.dedup();
    all
}

#[test]
fn a_preemptor_takes_the_cpu_under_loads_that_do_not_and_under_all_if_one_is_stated() {
    let cpus = CpuList::default;
    let loads = [
        (Load::Dma { transfer: Transfer::Direct, cpus: cpus() }, Absence::Preemptor),
        (Load::Dma { transfer: Transfer::Loopback, cpus: cpus() }, Absence::Preemptor),
        (Load::Buslock { split: false, cpus: cpus() }, Absence::Preemptor),
        (Load::Buslock { split: true, cpus: cpus() }, Absence::Preemptor),
        (Load::Constructed { polluter: preemptor(), cpus: cpus() }, Absence::Load),
        (Load::Changing { program: MovingProgram::COMPILER, cpus: cpus() }, Absence::Load),
        (make(), Absence::Load),
    ];
    let stated = Overrides { preemptor: Some(preemptor()), ..Overrides::default() };
    let sizes = Overrides { preemptor_sizes: vec![Bytes::from_kib(8)], ..Overrides::default() };
    for preset in [Preset::Quick, Preset::Bastoni, Preset::Waechtler] {
        for (load, usual) in &loads {
            let mut experiment = preset.synthetic(&x5650(), Some(load), None);
            assert_eq!(occupants(&experiment), [*usual], "{preset} {load:?}");
            sizes.synthetic(&mut experiment);
            assert_eq!(occupants(&experiment), [Absence::Preemptor], "{preset} {load:?}");
            stated.synthetic(&mut experiment);
            assert_eq!(experiment.preemptor, preemptor());
        }
    }
    // Bastoni et al. and Wächtler let nothing run on an idle machine, unless it is stated.
    let mut idle = Preset::Bastoni.synthetic(&x5650(), Some(&Load::Idle), None);
    assert_eq!(occupants(&idle), [Absence::Nothing]);
    stated.synthetic(&mut idle);
    assert_eq!(occupants(&idle), [Absence::Preemptor]);
}

#[test]
fn the_single_polluter_of_a_sweep_and_the_preemptor_of_conditions_run_beside_a_device() {
    let device = Load::Dma { transfer: Transfer::Direct, cpus: CpuList::default() };
    let overrides = Overrides {
        load: Some(device.clone()),
        events: vec![Event::Preemption],
        ..Overrides::default()
    };
    let mut sweep = Preset::Quick.polluter_sweep(&x5650());
    overrides.polluter_sweep(&mut sweep, &x5650());
    let cells = sweep.cells(&x5650()).unwrap();
    let of_device = |cell: &Cell| cell.load == device && cell.absence == Absence::Preemptor;
    assert!(cells.iter().all(|(cell, _)| of_device(cell)));
    let mut conditions = Preset::Quick.conditions(&x5650());
    overrides.conditions(&mut conditions);
    assert_eq!(occupants(&conditions.cell), [Absence::Preemptor]);
}
