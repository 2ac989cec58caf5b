// SPDX-License-Identifier: MIT OR Apache-2.0
//! The simulated machine, through the seam: hand-computed times, orders, refusals, repeatability.
#![expect(clippy::float_cmp, reason = "a machine without chance repeats itself to the bit")]

use corehop_fixtures::x5650;
use corehop_plan::experiment::{Experiment, Length, Plan, SamplingGroup, Synthetic};
use corehop_plan::machine::{Machine, MachineError, Records, RunEnd};
use corehop_plan::platform::{Fact, Latency, Loss, Platform, PrefetchKind, Prefetcher};
use corehop_plan::samples::JobRecord;
use corehop_plan::units::{Bytes, CpuList, Nanos};
use corehop_plan::workload::{Absence, Event, Load, Mover, Page, Pattern, Polluter, WorkingSet};
use corehop_sim::{CacheShare, Partitioning, SimMachine, Ways};

fn list(kib: u64) -> WorkingSet {
    WorkingSet { page: Page::Transparent, ..WorkingSet::list(Bytes::from_kib(kib), 0.5) }
}

fn polluter(mib: u64) -> Polluter {
    Polluter { wss: Bytes::from_mib(mib), pattern: Pattern::Shuffled, write_ratio: 0.5 }
}

/// The CPUs of the first package: jobs are put there alone where only they are loaded.
fn one_package() -> CpuList {
    "0-3".parse().unwrap()
}

fn experiment(load: Load, sets: &[WorkingSet], events: &[Event], samples: u32) -> Synthetic {
    let absence = if load == Load::Idle { Absence::Preemptor } else { Absence::Load };
    Synthetic {
        mover: Mover::Affinity,
        preemptor: polluter(4),
        preemptor_sizes: Vec::new(),
        passes: 0,
        groups: vec![SamplingGroup {
            load,
            sets: sets.to_vec(),
            events: events.to_vec(),
            length: Length::Fixed(Nanos::from_millis(2)),
            absence,
            samples,
        }],
        cpus: CpuList::default(),
    }
}

fn plan(platform: &Platform, experiment: &Synthetic) -> Plan {
    experiment.plan(platform, 7).unwrap()
}

fn records(platform: &Platform, plan: &Plan) -> Vec<JobRecord> {
    records_of(&mut SimMachine::new(platform.clone()).unwrap(), plan)
}

fn records_of(machine: &mut SimMachine, plan: &Plan) -> Vec<JobRecord> {
    let mut kept = Records::default();
    assert_eq!(machine.run(plan, &mut kept).unwrap(), RunEnd::Complete);
    kept.jobs
}

/// The mean of resumed less warm over the records of each cell, in nanoseconds.
fn delays(plan: &Plan, records: &[JobRecord]) -> Vec<f64> {
    let plan = plan.jobs().unwrap();
    let mut sums = vec![(0.0, 0.0); plan.cells.len()];
    for record in records {
        let cell = &mut sums[plan.phases[record.phase].jobs[record.job].cell];
        cell.0 += record.touches.last().unwrap().ns - record.touches[1].ns;
        cell.1 += 1.0;
    }
    sums.iter().map(|(sum, count)| sum / count).collect()
}

/// The X5650 without what looks ahead, with the addresses of all lines known, and awake at once.
fn plain() -> Platform {
    let mut platform = Platform { prefetchers: Vec::new(), tlbs: Vec::new(), ..x5650() };
    platform.core.switch_footprint = None;
    platform.clock.after_idle = None;
    platform.clock.waking = None;
    platform
}

#[test]
fn warm_touches_take_what_the_levels_take() {
    let platform = plain();
    let plan = plan(&platform, &experiment(Load::Idle, &[list(16), list(128)], &[Event::None], 2));
    for record in records(&platform, &plan) {
        let lines = record.touches[1].lines as f64;
        let cycles = if lines < 512.0 { 4.0 } else { 10.0 };
        let expected = lines * cycles / 2.66;
        assert!((record.touches[1].ns / expected - 1.0).abs() < 0.01, "{record:?}");
        assert_eq!(record.touches[1].ns, record.touches[2].ns);
        assert_eq!(record.touches[1].misses, Some(0));
        assert_eq!(record.touches[0].misses, Some(record.touches[0].lines));
    }
}

#[test]
fn prefetching_saves_misses_in_no_more_pages_than_are_tracked() {
    let share_of_misses = |platform: &Platform, kib| {
        let plan = plan(platform, &experiment(Load::Idle, &[list(kib)], &[Event::None], 1));
        let cold = records(platform, &plan)[0].touches[0];
        cold.misses.unwrap() as f64 / cold.lines as f64
    };
    // 16 trackers follow 16 pages.
    let (few, many) = (share_of_misses(&x5650(), 32), share_of_misses(&x5650(), 1024));
    assert!(few < 0.8 && many > 0.95, "{few} {many}");
    assert_eq!(share_of_misses(&plain(), 32), 1.0);
}

#[test]
fn a_load_with_a_stride_misses_the_first_lines_of_a_page_alone() {
    let prefetcher = |on| Prefetcher {
        kind: PrefetchKind::LoadStride,
        level: 1,
        on: Fact::assumed(on, ""),
        trackers: None,
        ahead: Some(Fact::assumed(1, "")),
        confirm: None,
    };
    let misses = |pattern, on| {
        let platform = Platform { prefetchers: vec![prefetcher(on)], ..plain() };
        let set = WorkingSet { pattern, page: Page::Base, ..list(16) };
        let plan = plan(&platform, &experiment(Load::Idle, &[set], &[Event::None], 1));
        records(&platform, &plan)[0].touches[0].misses.unwrap()
    };
    // Two equal steps start it: three lines of the first of four pages miss, and the first one of each other page.
    assert_eq!(misses(Pattern::Scan, true), 6);
    assert_eq!(misses(Pattern::Scan, false), 256);
    // A list has no stride; here and there three of its lines do by chance.
    assert!(misses(Pattern::Shuffled, true) > 240);
}

#[test]
fn pages_that_no_tlb_holds_cost_a_walk_each_and_huge_pages_none() {
    let platform = Platform { tlbs: x5650().tlbs, ..plain() };
    let share = |page| {
        let set = WorkingSet { page, ..list(4096) };
        let plan = plan(&platform, &experiment(Load::Idle, &[set], &[Event::None], 1));
        let mut machine = SimMachine::new(platform.clone()).unwrap();
        let warm = records_of(&mut machine, &plan)[0].touches[1].ns;
        (warm, machine.provenance()["translation"]["share"].as_f64().unwrap())
    };
    let ((small, found), (huge, of_huge)) = (share(Page::Base), share(Page::Transparent));
    // 1,024 pages, 512 translations: at least every other line pays the level and half of them a walk.
    assert!(
        small > huge * 1.1 && found > 0.1 && of_huge < 0.001,
        "{small} {huge} {found} {of_huge}"
    );
}

#[test]
fn a_share_of_the_ways_or_colours_keeps_what_polluters_would_take() {
    let platform = x5650();
    let load = Load::Constructed { polluter: polluter(4), cpus: one_package() };
    let sets = [WorkingSet { page: Page::Base, ..list(512) }];
    let mut experiment = experiment(load, &sets, &[Event::Preemption], 2);
    experiment.groups[0].length = Length::Fixed(Nanos::from_millis(6));
    let plan = plan(&platform, &experiment);
    let cost = |partitioning| {
        let mut machine = SimMachine::partitioned(platform.clone(), partitioning).unwrap();
        delays(&plan, &records_of(&mut machine, &plan))[0]
    };
    let share = |colours: std::ops::Range<u32>, mask| CacheShare {
        colours: colours.collect(),
        ways: if mask == 0 { Vec::new() } else { vec![Ways { level: 3, mask }] },
    };
    let shared = cost(Partitioning::default());
    let ways = Partitioning {
        job: share(0..0, 0x000f),
        others: share(0..0, 0xfff0),
        ..Partitioning::default()
    };
    let colours =
        Partitioning { job: share(0..32, 0), others: share(32..192, 0), ..Partitioning::default() };
    let divided = [cost(ways), cost(colours)];
    assert!(divided.iter().all(|&cost| cost < shared / 3.0), "{shared} {divided:?}");
}

/// The plain machine, whose cores have one TLB, for 512 small pages, with walks of 100 ns, and four misses under way. A
/// switch `flushes` it or does not.
fn translating(flushes: bool) -> Platform {
    let mut platform = Platform { tlbs: x5650().tlbs, ..plain() };
    platform.tlbs.retain(|tlb| tlb.level == 2);
    platform.tlbs[0].penalty = Fact::assumed(Latency::Picos(100_000), "");
    platform.core.parallelism = Some(Fact::assumed(4_000, ""));
    platform.core.switch_flushes_tlb = Some(Fact::assumed(flushes, ""));
    platform
}

/// The delays of a working set on small pages after absences in which no other thread stays on its CPU.
fn quiet_delays(platform: &Platform, set: WorkingSet, events: &[Event], sampled: bool) -> Vec<f64> {
    let set = WorkingSet { page: Page::Base, ..set };
    let mut experiment = experiment(Load::Idle, &[set], events, 6);
    experiment.groups[0].absence = Absence::Nothing;
    experiment.cpus = "0-1".parse().unwrap();
    let plan = plan(platform, &experiment);
    let machine = SimMachine::new(platform.clone()).unwrap();
    let mut machine = if sampled { machine.sampled() } else { machine };
    delays(&plan, &records_of(&mut machine, &plan))
}

#[test]
fn a_switch_that_flushes_the_tlb_costs_a_walk_for_every_page_and_an_idle_cpu_keeps_it() {
    let scan = WorkingSet { pattern: Pattern::Scan, ..list(16) };
    // An access of a list waits for the one before; the four that a scan has under way lie on the page that is to be found.
    for set in [list(16), scan] {
        let of =
            |flushes, event| quiet_delays(&translating(flushes), set.clone(), &[event], false)[0];
        assert_eq!(of(true, Event::IdleLeave), 0.0);
        assert_eq!(of(false, Event::Preemption), 0.0);
        let cost = of(true, Event::Preemption);
        assert!((cost - 400.0).abs() < 1.0, "{cost}");
        // Without it, the CPUs still know the pages from the job before.
        let [with, without] = [true, false].map(|flushes| of(flushes, Event::L3Migration));
        assert!((200.0..=401.0).contains(&(with - without)), "{with} {without}");
    }
}

#[test]
fn some_of_the_sets_find_the_pages_of_a_flushed_tlb_in_the_time_that_all_of_them_do() {
    let of =
        |sampled| quiet_delays(&translating(true), list(1024), &[Event::Preemption], sampled)[0];
    let (all, some) = (of(false), of(true));
    // 256 pages; walked for as often as a visit stands for others they would take twice as long and more.
    assert!((all - 25_600.0).abs() < 256.0 && (some / all - 1.0).abs() < 0.1, "{all} {some}");
}

#[test]
fn some_of_the_sets_cost_what_all_of_them_do() {
    let platform = x5650();
    let load = Load::Constructed { polluter: polluter(4), cpus: one_package() };
    let events = [Event::None, Event::Preemption, Event::L3Migration, Event::MemoryMigration];
    let mut experiment = experiment(load, &[list(2048)], &events, 2);
    experiment.groups[0].length = Length::Fixed(Nanos::from_micros(200));
    let plan = plan(&platform, &experiment);
    let machine = || SimMachine::new(platform.clone()).unwrap();
    let all = delays(&plan, &records_of(&mut machine(), &plan));
    let some = delays(&plan, &records_of(&mut machine().sampled(), &plan));
    let near = |(all, some): (&f64, &f64)| (all - some).abs() < all.abs() * 0.1 + 40_000.0;
    assert!(all.iter().zip(&some).all(near), "{all:?} {some:?}");
}

#[test]
fn some_of_the_sets_find_addresses_in_the_time_that_all_of_them_do() {
    let mut platform = Platform { prefetchers: Vec::new(), ..x5650() };
    // A walk as long as an access to memory, so that it is told; 4 MiB of polluters are more than the TLBs hold.
    for tlb in platform.tlbs.iter_mut().filter(|tlb| tlb.level == 2) {
        tlb.penalty = Fact::assumed(Latency::Picos(100_000), "");
    }
    let load = Load::Constructed { polluter: polluter(4), cpus: one_package() };
    let events = [Event::None, Event::Preemption, Event::L3Migration];
    let set = WorkingSet { page: Page::Base, ..list(1024) };
    let mut experiment = experiment(load, &[set], &events, 4);
    experiment.groups[0].length = Length::Fixed(Nanos::from_micros(200));
    let plan = plan(&platform, &experiment);
    let machine = || SimMachine::new(platform.clone()).unwrap();
    let of = |machine: &mut SimMachine| {
        let records = records_of(machine, &plan);
        (delays(&plan, &records), records.iter().map(|it| it.touches[1].ns).sum::<f64>())
    };
    let ((all, warm), (some, of_some)) = (of(&mut machine()), of(&mut machine().sampled()));
    // If each page that a CPU finds anew were walked for as often as there are sets, the migration would cost a
    // millisecond in place of 41 us.
    let near = |(all, some): (&f64, &f64)| (all - some).abs() < all.abs() * 0.2 + 40_000.0;
    assert!(all.iter().zip(&some).all(near), "{all:?} {some:?}");
    assert!((warm / of_some - 1.0).abs() < 0.1, "{warm} {of_some}");
}

#[test]
fn a_few_absences_lose_what_many_would() {
    let quantiles = (0..20).map(|at| 25 + 50 * at).collect();
    let loss = Loss {
        length: Nanos::from_millis(2),
        wss: Bytes::from_kib(64),
        share: Fact::assumed(quantiles, ""),
    };
    let platform = Platform { losses: vec![loss], ..plain() };
    let mut experiment = experiment(Load::Idle, &[list(64)], &[Event::IdleLeave], 20);
    experiment.groups[0].absence = Absence::Nothing;
    for plan in [plan(&platform, &experiment), experiment.replicated(&platform, 7, 10).unwrap()] {
        let records = records(&platform, &plan);
        let lost = |it: &JobRecord| it.touches.last().unwrap().misses.unwrap() as f64 / 1_024.0;
        let mut lost: Vec<f64> = records.iter().map(lost).collect();
        lost.sort_by(f64::total_cmp);
        assert_eq!(lost.len(), 20);
        // Of twenty independent draws some would be farther from their place than 0.15.
        let far = |(at, lost): (usize, &f64)| (lost - (at as f64 + 0.5) / 20.0).abs();
        let farthest = lost.iter().enumerate().map(far).fold(0.0, f64::max);
        assert!(farthest < 0.1, "{lost:?}");
    }
}

#[test]
fn a_huge_page_has_no_colour() {
    let platform = x5650();
    let plan = plan(&platform, &experiment(Load::Idle, &[list(64)], &[Event::None], 1));
    let job = CacheShare { colours: vec![0], ways: Vec::new() };
    let partitioning = Partitioning { job, ..Partitioning::default() };
    let mut machine = SimMachine::partitioned(platform, partitioning).unwrap();
    let text = machine.run(&plan, &mut Records::default()).unwrap_err().to_string();
    assert!(text.contains("huge page") && text.contains("--page 4k"), "{text}");
}

#[test]
fn a_measured_host_runs_and_its_lines_go_from_cpu_to_cpu_as_was_measured() {
    let host = Platform::from_toml(include_str!("hosts/guest_2cpu.toml")).unwrap();
    let events = [Event::None, Event::L3Migration, Event::Flush];
    let plan = plan(&host, &experiment(Load::Idle, &[list(32)], &events, 2));
    let delays = delays(&plan, &records(&host, &plan));
    // 512 lines: 57.351 ns from the other CPU and 130.848 ns from memory in place of 2.513 ns.
    let expected = [0.0, 512.0 * (57.351 - 2.513), 512.0 * (130.848 - 2.513)];
    assert!(delays.iter().zip(expected).all(|(is, be)| (is - be).abs() < 1.0), "{delays:?}");
}

#[test]
fn every_platform_that_comes_with_the_program_runs() {
    for id in Platform::names() {
        let platform = Platform::named(id).unwrap().unwrap();
        let events = [
            Event::None,
            Event::Preemption,
            Event::L2Migration,
            Event::L3Migration,
            Event::MemoryMigration,
        ];
        let possible = |event: &Event| {
            let alone = experiment(Load::Idle, &[list(4)], &[*event], 1);
            alone.plan(&platform, 7).is_ok()
        };
        let events: Vec<Event> = events.into_iter().filter(possible).collect();
        let plan = plan(&platform, &experiment(Load::Idle, &[list(16)], &events, 2));
        let delays = delays(&plan, &records(&platform, &plan));
        assert_eq!(delays[0], 0.0, "{id}");
        let dearest = delays.iter().copied().fold(0.0, f64::max);
        assert!(events.len() == 2 || dearest > 100.0, "{id}: {delays:?}");
    }
}

#[test]
fn nothing_costs_nothing_a_preemption_less_than_a_flush_and_a_far_move_more_than_a_near_one() {
    let platform = plain();
    let events = [
        Event::None,
        Event::IdleLeave,
        Event::Preemption,
        Event::Flush,
        Event::L3Migration,
        Event::MemoryMigration,
    ];
    let plan = plan(&platform, &experiment(Load::Idle, &[list(256)], &events, 4));
    let delays = delays(&plan, &records(&platform, &plan));
    let of = |event| delays[events.iter().position(|&other| other == event).unwrap()];
    assert_eq!(of(Event::None), 0.0);
    assert_eq!(of(Event::IdleLeave), 0.0);
    assert!(0.0 < of(Event::Preemption) && of(Event::Preemption) < of(Event::Flush));
    assert!(of(Event::Preemption) < of(Event::L3Migration));
    assert!(of(Event::L3Migration) < of(Event::MemoryMigration));
}

#[test]
fn what_the_system_touches_at_a_switch_costs_the_job_where_it_resumes() {
    let cost = |footprint: Option<u64>| {
        let mut platform = plain();
        platform.core.switch_footprint =
            footprint.map(|kib| Fact::assumed(Bytes::from_kib(kib), ""));
        let plan = plan(&platform, &experiment(Load::Idle, &[list(16)], &[Event::IdleLeave], 2));
        delays(&plan, &records(&platform, &plan))[0]
    };
    // 64 KiB drive all 256 lines from the level-1 cache into the next: 6 cycles of 2.66 GHz each.
    let (nothing, much) = (cost(None), cost(Some(64)));
    assert!(nothing == 0.0 && (much - 256.0 * 6.0 / 2.66).abs() < 80.0, "{nothing} {much}");
}

#[test]
fn polluters_on_every_core_take_the_shared_cache_away() {
    let platform = plain();
    let load = Load::Constructed { polluter: polluter(4), cpus: one_package() };
    let events = [Event::None, Event::Preemption];
    let sets = [list(256)];
    let loaded = plan(&platform, &experiment(load, &sets, &events, 4));
    let idle = plan(&platform, &experiment(Load::Idle, &sets, &events, 4));
    let (with, without) =
        (delays(&loaded, &records(&platform, &loaded)), delays(&idle, &records(&platform, &idle)));
    assert!(with[1] > 2.0 * without[1], "{with:?} {without:?}");
    assert!(with[0].abs() < with[1] / 10.0, "{with:?}");
}

#[test]
fn a_longer_preemption_costs_no_less() {
    let platform = x5650();
    let load = Load::Constructed { polluter: polluter(4), cpus: one_package() };
    let cost = |millis| {
        let mut experiment = experiment(load.clone(), &[list(256)], &[Event::Preemption], 4);
        experiment.groups[0].length = Length::Fixed(Nanos::from_millis(millis));
        let plan = plan(&platform, &experiment);
        delays(&plan, &records(&platform, &plan))[0]
    };
    let costs = [0, 1, 8].map(cost);
    assert!(costs.is_sorted(), "{costs:?}");
}

#[test]
fn any_number_of_threads_gives_the_same_records() {
    let platform = x5650();
    let load = Load::Constructed { polluter: polluter(1), cpus: one_package() };
    let events = [Event::Preemption, Event::L3Migration];
    let mut experiment = experiment(load, &[list(64)], &events, 20);
    experiment.groups[0].length = Length::Fixed(Nanos::from_micros(100));
    let plan = plan(&platform, &experiment);
    let on = |threads| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| records(&platform, &plan))
    };
    assert_eq!(on(1), on(3));
}

#[test]
fn what_cannot_be_simulated_is_refused_by_name() {
    let refused = |load: Load, set: WorkingSet| {
        let platform = x5650();
        let plan = plan(&platform, &experiment(load, &[set], &[Event::None], 1));
        let error = SimMachine::new(platform).unwrap().run(&plan, &mut Records::default());
        match error.unwrap_err() {
            error @ MachineError::NotPossible { .. } => error.to_string(),
            other => panic!("{other}"),
        }
    };
    let command = Load::Realistic { command: "make".to_owned(), cpus: CpuList::default() };
    assert!(refused(command, list(64)).contains("realistic"));
    let own = WorkingSet { workload: Some("lib.so:f".to_owned()), ..list(64) };
    assert!(refused(Load::Idle, own).contains("lib.so:f"));
    let elsewhere = WorkingSet { node: Some(9), ..list(64) };
    assert!(refused(Load::Idle, elsewhere).contains("node 9"));
    assert!(refused(Load::Idle, list(64 << 20)).contains("64 GiB"));
}

#[test]
fn a_platform_that_lacks_a_fact_is_refused_with_its_name() {
    let mut platform = x5650();
    platform.caches[2].latency = None;
    let text = SimMachine::new(platform).unwrap_err().to_string();
    assert!(text.contains("latency of L2") && text.contains("xeon_x5650"), "{text}");
}
