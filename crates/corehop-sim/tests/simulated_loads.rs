// SPDX-License-Identifier: MIT OR Apache-2.0
//! Background loads on the simulated machine: what each of them takes from a job, and what it leaves alone.

use corehop_plan::experiment::{Experiment, Length, SamplingGroup, Synthetic};
use corehop_plan::machine::{MachineError, samples_of};
use corehop_plan::platform::{Fact, Latency, Platform};
use corehop_plan::samples::Sample;
use corehop_plan::units::{Bytes, CpuList, Nanos};
use corehop_plan::workload::{
    Absence, Event, Load, Mover, MovingProgram, Page, Pattern, Polluter, Transfer, WorkingSet,
};
use corehop_sim::SimMachine;

/// The X5650 without what looks ahead, with the addresses of all lines known, and awake at once.
fn plain() -> Platform {
    let platform = Platform::named("xeon_x5650").unwrap().unwrap();
    let mut platform = Platform { prefetchers: Vec::new(), tlbs: Vec::new(), ..platform };
    platform.core.switch_footprint = None;
    platform.clock.after_idle = None;
    platform.clock.waking = None;
    platform
}

/// Jobs that leave their CPU to the load alone.
fn experiment(load: Load, kib: u64, length: Nanos) -> Synthetic {
    let walks = load.absence() == Absence::Load;
    let event = if walks { Event::Preemption } else { Event::IdleLeave };
    let absence = if walks { Absence::Load } else { Absence::Nothing };
    away(load, (event, absence), kib, length)
}

/// Jobs that are away while this has their CPU.
fn away(load: Load, of: (Event, Absence), kib: u64, length: Nanos) -> Synthetic {
    let set = WorkingSet { page: Page::Transparent, ..WorkingSet::list(Bytes::from_kib(kib), 0.5) };
    Synthetic {
        mover: Mover::Affinity,
        preemptor: polluter(64),
        preemptor_sizes: Vec::new(),
        passes: 0,
        groups: vec![SamplingGroup {
            absence: of.1,
            load,
            sets: vec![set],
            events: vec![of.0],
            length: Length::Fixed(length),
            samples: 4,
        }],
        cpus: "0".parse().unwrap(),
    }
}

fn polluter(kib: u64) -> Polluter {
    Polluter { wss: Bytes::from_kib(kib), pattern: Pattern::Shuffled, write_ratio: 0.0 }
}

fn run(platform: &Platform, load: Load, kib: u64) -> Vec<Sample> {
    run_for(platform, load, kib, Nanos::from_micros(100))
}

fn run_for(platform: &Platform, load: Load, kib: u64, length: Nanos) -> Vec<Sample> {
    let plan = experiment(load, kib, length).plan(platform, 7).unwrap();
    samples_of(&mut SimMachine::new(platform.clone()).unwrap(), &plan).unwrap()
}

fn mean(samples: &[Sample], of: impl Fn(&Sample) -> f64) -> f64 {
    samples.iter().map(of).sum::<f64>() / samples.len() as f64
}

fn cold(samples: &[Sample]) -> f64 {
    mean(samples, |sample| sample.cold_ns)
}

fn warm(samples: &[Sample]) -> f64 {
    mean(samples, |sample| sample.warm_ns)
}

fn delay(samples: &[Sample]) -> f64 {
    mean(samples, |sample| sample.resumed_ns - sample.warm_ns)
}

fn cpus(list: &str) -> CpuList {
    list.parse().unwrap()
}

fn device() -> Load {
    Load::Dma { transfer: Transfer::Direct, cpus: cpus("1") }
}

#[test]
fn a_device_slows_who_needs_memory_and_takes_no_line_from_any_cache() {
    let mut platform = plain();
    // A device that has the memory controller for half of the time.
    platform.memory.device = Some(Fact::assumed(Latency::Picos(15_000), ""));
    let (idle, loaded) = (run(&platform, Load::Idle, 1_024), run(&platform, device(), 1_024));
    assert!(cold(&loaded) > 1.01 * cold(&idle), "{} against {}", cold(&loaded), cold(&idle));
    assert!((warm(&loaded) / warm(&idle) - 1.0).abs() < 1e-9);
    assert!(delay(&loaded).abs() < 1e-9);
}

#[test]
fn split_locks_stop_only_accesses_beyond_level_1() {
    let platform = plain();
    let locks = |split| Load::Buslock { split, cpus: cpus("1-2") };
    // As long as a period: one burst at least falls into a pass of 32 MiB.
    let small = run(&platform, locks(true), 16);
    assert!((warm(&small) / warm(&run(&platform, Load::Idle, 16)) - 1.0).abs() < 1e-9);
    let (large, idle) = (run(&platform, locks(true), 8_192), run(&platform, Load::Idle, 8_192));
    assert!(cold(&large) > 1.02 * cold(&idle), "{} against {}", cold(&large), cold(&idle));
    // Locks within a line keep each other busy, and leave the job's level-2 cache alone.
    let within = run(&platform, locks(false), 128);
    assert!((warm(&within) / warm(&run(&platform, Load::Idle, 128)) - 1.0).abs() < 1e-9);
}

#[test]
fn datagrams_are_copied_through_the_caches_of_their_own_cpus() {
    let platform = plain();
    let load = Load::Dma { transfer: Transfer::Loopback, cpus: cpus("0") };
    let longer = |kib| run_for(&platform, load.clone(), kib, Nanos::from_millis(1));
    assert!(delay(&longer(32)) > 0.0, "the level-1 cache of the job's CPU");
    assert!(delay(&longer(32)) < delay(&longer(256)), "and its level-2 cache");
    let elsewhere = Load::Dma { transfer: Transfer::Loopback, cpus: cpus("1") };
    assert!(delay(&run(&platform, elsewhere, 256)).abs() < 1e-9);
}

#[test]
fn a_changing_program_takes_the_shared_cache_away_the_sooner_the_more_is_new_to_it() {
    let platform = plain();
    let load = |fresh| Load::Changing {
        program: MovingProgram { fresh, window: Bytes::from_mib(1), ..MovingProgram::COMPILER },
        cpus: cpus("0-5"),
    };
    let delay = |fresh| delay(&run_for(&platform, load(fresh), 512, Nanos::from_millis(4)));
    let [none, some, all] = [0.0, 0.2, 1.0].map(delay);
    assert!(none < some && some < all, "{none} {some} {all}");
}

#[test]
fn what_a_load_needs_and_a_platform_does_not_state_is_named() {
    let mut platform = plain();
    platform.memory.device = None;
    platform.core.split_lock = None;
    let refusal = |load| {
        let plan = experiment(load, 16, Nanos::from_micros(100)).plan(&platform, 7).unwrap();
        let error = samples_of(&mut SimMachine::new(platform.clone()).unwrap(), &plan).unwrap_err();
        assert!(matches!(error, MachineError::NotPossible { .. }));
        error.to_string()
    };
    assert!(refusal(device()).contains("`memory.device` is not stated"));
    let split = Load::Buslock { split: true, cpus: cpus("1") };
    assert!(refusal(split).contains("`core.split_lock` is not stated"));
    let command = Load::Realistic { command: "true".to_owned(), cpus: CpuList::default() };
    assert!(refusal(command).contains("--load changing"));
}

#[test]
fn a_program_that_cannot_change_so_is_refused() {
    let platform = plain();
    for (program, what) in [
        (MovingProgram { window: Bytes::new(0), ..MovingProgram::COMPILER }, "a window of 0 B"),
        (MovingProgram { window: Bytes::new(100), ..MovingProgram::COMPILER }, "a window of 100 B"),
        (MovingProgram { fresh: 1.5, ..MovingProgram::COMPILER }, "new lines of 1.5"),
        (MovingProgram { write_ratio: -0.5, ..MovingProgram::COMPILER }, "a write ratio of -0.5"),
    ] {
        let load = Load::Changing { program, cpus: CpuList::default() };
        let plan = experiment(load, 16, Nanos::from_micros(100)).plan(&platform, 7).unwrap();
        let error = plan.check(&platform).expect_err(what).to_string();
        assert!(error.contains(what), "{error}");
    }
}

/// Every kind of load that can be simulated, beside the CPU of the job and on it.
fn loads() -> Vec<Load> {
    let everywhere = CpuList::default;
    vec![
        device(),
        Load::Dma { transfer: Transfer::Direct, cpus: cpus("0") },
        Load::Dma { transfer: Transfer::Loopback, cpus: everywhere() },
        Load::Buslock { split: false, cpus: everywhere() },
        Load::Buslock { split: true, cpus: everywhere() },
        Load::Constructed { polluter: polluter(4), cpus: everywhere() },
        Load::Changing { program: MovingProgram::COMPILER, cpus: cpus("1") },
    ]
}

#[test]
fn a_preemption_takes_the_cpu_and_its_caches_in_any_company() {
    let platform = plain();
    let preempted = |load: Load| {
        let plan = away(load, (Event::Preemption, Absence::Preemptor), 16, Nanos::from_micros(200));
        let plan = plan.plan(&platform, 7).unwrap();
        samples_of(&mut SimMachine::new(platform.clone()).unwrap(), &plan).unwrap()
    };
    let lines = |samples: &[Sample]| mean(samples, |it| it.preemptor_lines.unwrap() as f64);
    let idle = preempted(Load::Idle);
    assert!(delay(&idle) > 0.1 * warm(&idle), "the preemptor evicts: {}", delay(&idle));
    for load in loads() {
        let runs = load.runs().unwrap();
        let beside = preempted(load);
        for row in &beside {
            assert_eq!((row.event, row.preempted_by), (Event::Preemption, Absence::Preemptor));
            let polluter = row.polluter.as_deref().unwrap();
            assert_eq!(polluter, format!("shuffled 64 KiB write 0 beside {runs}"));
            assert!(row.valid && row.load_bytes_per_s.is_some(), "{runs}: {:?}", row.disturbed_by);
        }
        // The CPU is the preemptor's alone, so that the preemptor walks as far as on an idle machine; what
        // runs beside slows its memory only.
        assert!(lines(&beside) > 0.8 * lines(&idle), "{runs}: {}", lines(&beside));
        assert!(delay(&beside) > 0.999 * delay(&idle), "{runs}: {}", delay(&beside));
    }
}

#[test]
fn a_preemptor_beyond_the_last_level_leaves_nothing_there_beside_a_device_or_locks() {
    let platform = plain();
    let missed = |load: Load| {
        let event = (Event::Preemption, Absence::Preemptor);
        let mut plan = away(load, event, 64, Nanos::from_millis(30));
        plan.preemptor.wss = Bytes::from_mib(24);
        plan.groups[0].samples = 1;
        let plan = plan.plan(&platform, 7).unwrap();
        let all = samples_of(&mut SimMachine::new(platform.clone()).unwrap(), &plan).unwrap();
        all[0].misses_resumed.unwrap() - all[0].misses_warm.unwrap()
    };
    let (idle, locks) = (missed(Load::Idle), Load::Buslock { split: true, cpus: cpus("1-2") });
    assert!(idle > 900, "{idle} of 1024 lines");
    for load in [device(), locks] {
        let beside = missed(load.clone());
        assert!(beside as f64 > 0.97 * idle as f64, "{beside} for {idle}: {load:?}");
    }
}

#[test]
fn a_preemption_in_which_nothing_takes_the_cpu_is_refused_with_the_remedy() {
    let platform = plain();
    let refusal = |load, by| {
        let plan = away(load, (Event::Preemption, by), 16, Nanos::from_micros(100));
        plan.plan(&platform, 7).unwrap().check(&platform).map_err(|error| error.to_string())
    };
    let on = |list| Load::Buslock { split: false, cpus: cpus(list) };
    for load in [on("1"), device()] {
        let error = refusal(load.clone(), Absence::Load).unwrap_err();
        let words = [load.word(), "no thread takes the CPU", "`to_whom`", "preemptor"];
        assert!(words.iter().all(|word| error.contains(word)), "{error}");
        assert_eq!(refusal(load, Absence::Preemptor), Ok(()));
    }
    let polluters = |list| Load::Constructed { polluter: polluter(64), cpus: cpus(list) };
    assert_eq!(refusal(polluters("0"), Absence::Load), Ok(()));
    for load in [on("0"), polluters("0")] {
        let error = refusal(load, Absence::Preemptor).unwrap_err();
        assert!(error.contains("only CPU 0") && error.contains("--load-cpus"), "{error}");
    }
    // The device goes on while another thread has the CPU.
    let own = Load::Dma { transfer: Transfer::Direct, cpus: cpus("0") };
    assert_eq!(refusal(own, Absence::Preemptor), Ok(()));
}
