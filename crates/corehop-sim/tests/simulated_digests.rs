// SPDX-License-Identifier: MIT OR Apache-2.0
//! Digests of what the simulated machine answers for a fixed seed. A change that makes it faster
//! leaves all of them as they are; a change of its physics replaces them, and says so.
//!
//! `COREHOP_UPDATE_DIGESTS=1 cargo test -p corehop-sim --test simulated_digests` writes them anew;
//! `-- --ignored` compares more and larger plans, which takes minutes. A build without optimisation compares only the plans of
//! three platforms.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use corehop_plan::experiment::{
    AccessTime, Experiment, Length, Plan, Preset, RandomSets, SamplingGroup, SharedData, Synthetic,
    TaskOrigin, TaskSets,
};
use corehop_plan::machine::{Machine, Records};
use corehop_plan::platform::Platform;
use corehop_plan::samples::JobRecord;
use corehop_plan::units::{Bytes, CpuList, Nanos};
use corehop_plan::workload::gang::{Channel, GangProgram, Placing, Sharing};
use corehop_plan::workload::scheduler::Scheduler;
use corehop_plan::workload::{
    Event, LineState, Load, Mover, MovingProgram, Page, Pattern, Polluter, Transfer, WorkingSet,
};
use corehop_sim::SimMachine;

/// FNV-1a over the eight bytes of each number.
struct Digest(u64);

impl Digest {
    const fn new() -> Self {
        Self(0xCBF2_9CE4_8422_2325)
    }

    fn add(&mut self, numbers: impl IntoIterator<Item = u64>) {
        for byte in numbers.into_iter().flat_map(u64::to_le_bytes) {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x100_0000_01B3);
        }
    }

    fn job(&mut self, record: &JobRecord) {
        self.add([record.phase as u64, record.job as u64, record.start_ns]);
        self.add(record.draw);
        for touch in &record.touches {
            self.add([touch.ns.to_bits(), touch.lines, touch.misses.unwrap_or(u64::MAX)]);
        }
        for leave in &record.leaves {
            self.add([leave.length_ns.to_bits(), u64::from(leave.to.0)]);
            self.add(leave.preemptor_lines);
            self.add(leave.load_bytes);
        }
    }
}

fn jobs(machine: &mut SimMachine, plan: &Plan) -> u64 {
    let mut records = Records::default();
    machine.run(plan, &mut records).unwrap();
    let mut digest = Digest::new();
    records.jobs.iter().for_each(|record| digest.job(record));
    digest.0
}

fn list(kib: u64, write_ratio: f64) -> WorkingSet {
    WorkingSet::list(Bytes::from_kib(kib), write_ratio)
}

fn polluter(kib: u64, write_ratio: f64) -> Polluter {
    Polluter { wss: Bytes::from_kib(kib), pattern: Pattern::Shuffled, write_ratio }
}

/// Working sets of every pattern, page and number of chains.
fn sets(kib: u64) -> Vec<WorkingSet> {
    vec![
        list(kib, 0.0),
        list(kib, 0.5),
        WorkingSet { chains: 4, ..list(kib / 4, 0.25) },
        WorkingSet { pattern: Pattern::Scan, ..list(kib, 1.0 / 3.0) },
        WorkingSet { pattern: Pattern::Scan, write_ratio: 1.0, ..list(kib / 4, 0.0) },
        WorkingSet { pattern: Pattern::Code, ..list(kib / 4, 0.0) },
        WorkingSet { page: Page::Transparent, fresh_frames: true, ..list(kib, 0.5) },
    ]
}

fn group(load: Load, sets: Vec<WorkingSet>, events: &[Event], samples: u32) -> SamplingGroup {
    let absence = load.absence();
    let length = Length::Fixed(Nanos::from_micros(50));
    SamplingGroup { load, sets, events: events.to_vec(), length, absence, samples }
}

fn synthetic(groups: Vec<SamplingGroup>) -> Synthetic {
    Synthetic {
        mover: Mover::Affinity,
        preemptor: polluter(64, 0.5),
        preemptor_sizes: Vec::new(),
        passes: 0,
        groups,
        cpus: CpuList::default(),
    }
}

/// The events that there are on this platform.
fn events(platform: &Platform) -> Vec<Event> {
    let possible = |event: &&Event| {
        let one = synthetic(vec![group(Load::Idle, vec![list(4, 0.0)], &[**event], 1)]);
        one.cells(platform).is_ok()
    };
    Event::ALL.iter().filter(possible).copied().collect()
}

/// The loads, of these, that the platform can simulate.
fn loads(platform: &Platform) -> Vec<Load> {
    let cpus = CpuList::default();
    let mut loads = vec![
        Load::Idle,
        Load::Constructed { polluter: polluter(256, 0.25), cpus: cpus.clone() },
        Load::Changing { program: MovingProgram::COMPILER, cpus: cpus.clone() },
    ];
    if platform.memory.device.is_some() {
        loads.push(Load::Dma { transfer: Transfer::Direct, cpus: cpus.clone() });
        loads.push(Load::Dma { transfer: Transfer::Loopback, cpus: cpus.clone() });
    }
    if platform.core.split_lock.is_some() {
        loads.push(Load::Buslock { split: true, cpus });
    }
    loads
}

/// A digest by the name of what was run.
type Digests = BTreeMap<String, u64>;

/// All loads on all platforms: working sets of `kib` when nothing else runs, a quarter of it beside
/// a load.
fn on_platforms(digests: &mut Digests, kib: u64, all_loads: bool) {
    let some = ["opteron_2x4", "xeon_l7455", "xeon_x5650"];
    for id in Platform::names().filter(|id| !cfg!(debug_assertions) || some.contains(id)) {
        let platform = Platform::named(id).unwrap().unwrap();
        let events = events(&platform);
        for load in loads(&platform) {
            let idle = load == Load::Idle;
            if !(idle || all_loads || id.starts_with("xeon")) {
                continue;
            }
            let word = load.word().to_owned();
            let sets = if idle { sets(kib) } else { vec![list(kib / 4, 0.25)] };
            let plan = synthetic(vec![group(load, sets, &events, 1)]).plan(&platform, 7).unwrap();
            let machine = SimMachine::new(platform.clone());
            let mut machine =
                if idle { machine } else { machine.map(SimMachine::sampled) }.unwrap();
            let digest = jobs(&mut machine, &plan);
            let before = digests.entry(format!("{id} {word}")).or_default();
            *before = before.rotate_left(1) ^ digest;
        }
    }
}

/// Access times in every state of the lines.
fn access_times(digests: &mut Digests, kib: &[u64]) {
    let states = LineState::ALL.iter().map(|&state| (state, 1)).collect();
    let each = kib.iter().flat_map(|&kib| [list(kib, 0.0), list(kib, 0.5)]);
    let experiment = AccessTime { sets: each.collect(), states, cpu: None };
    for id in ["xeon_x5650", "phenom_9550", "m5_cc"] {
        let platform = Platform::named(id).unwrap().unwrap();
        let plan = experiment.plan(&platform, 7).unwrap();
        let digest = jobs(&mut SimMachine::new(platform).unwrap(), &plan);
        digests.insert(format!("{id} access-time"), digest);
    }
}

/// Replicates that draw anew, beside polluters.
fn conditions(digests: &mut Digests) {
    let platform = Platform::named("xeon_x5650").unwrap().unwrap();
    let mut experiment = Preset::Quick.conditions(&platform);
    experiment.rounds = 1;
    experiment.cell.groups[0].samples = 6;
    experiment.cell.groups[0].sets = vec![list(64, 0.5)];
    let plan = experiment.plan(&platform, 7).unwrap();
    let digest = jobs(&mut SimMachine::new(platform).unwrap().sampled(), &plan);
    digests.insert("xeon_x5650 conditions".to_owned(), digest);
}

/// Threads that share data.
fn gangs(digests: &mut Digests, rounds: u64) {
    for id in ["xeon_e5520", "xeon_x5650"] {
        let platform = Platform::named(id).unwrap().unwrap();
        let experiment = SharedData {
            programs: vec![
                GangProgram::Swap { items: 500, fixed_low_bits: false },
                GangProgram::Exchange { items: 50, instructions: 1_000, through: Channel::Memory },
            ],
            sharings: Sharing::ALL.to_vec(),
            placings: vec![Placing::Shared, Placing::Separate],
            threads: 2,
            rounds: Some(rounds),
            steps: None,
            samples: 1,
            replicates: 1,
            cpus: CpuList::default(),
        };
        let plan = experiment.plan(&platform, 3).unwrap();
        let mut digest = Digest::new();
        let mut records = Records::default();
        SimMachine::new(platform).unwrap().run(&plan, &mut records).unwrap();
        for member in records.gangs.iter().flat_map(|record| &record.members) {
            let counts = member.counts.unwrap();
            digest.add([member.picos, counts.loads, counts.stores, counts.misses]);
            digest.add([counts.snoop_hits, u64::from(member.cpu.0)]);
        }
        digests.insert(format!("{id} shared-data"), digest.0);
    }
}

/// Task sets under two schedulers.
fn tasks(digests: &mut Digests, millis: u64) {
    let platform = Platform::named("xeon_x5650").unwrap().unwrap();
    for scheduler in [Scheduler::GEdf, Scheduler::PEdf] {
        let drawn = RandomSets {
            task_counts: vec![40],
            sets: 1,
            utilisation: (0.1, 0.9),
            working_sets: vec![list(64, 0.5)],
            ..RandomSets::bastoni()
        };
        let sets = TaskSets {
            scheduler,
            sched_ext: None,
            source: TaskOrigin::Drawn(drawn),
            duration: Nanos::from_millis(millis),
            loads: vec![Load::Idle],
            share: 0.95,
            paired: false,
            cpus: CpuList::default(),
            cluster_level: None,
        };
        let plan = sets.plan(&platform, 5).unwrap();
        let mut digest = Digest::new();
        let mut records = Records::default();
        SimMachine::new(platform.clone()).unwrap().sampled().run(&plan, &mut records).unwrap();
        for record in &records.tasks {
            digest.add([record.task as u64, record.job, record.began_ns, record.ended_ns]);
            record.touched.iter().for_each(|job| digest.job(job));
        }
        digests.insert(format!("xeon_x5650 {scheduler}"), digest.0);
    }
}

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/digests").join(name)
}

/// Compares digests with those in a file, or writes the file.
fn compare(name: &str, digests: &Digests) {
    let mut text = String::new();
    for (what, digest) in digests {
        writeln!(text, "{digest:016x} {what}").unwrap();
    }
    let path = golden(name);
    if std::env::var_os("COREHOP_UPDATE_DIGESTS").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, &text).unwrap();
    }
    let before = std::fs::read_to_string(&path).unwrap();
    for now in text.lines() {
        let of =
            |line: &&str| line.split_once(' ').map(|it| it.1) == now.split_once(' ').map(|it| it.1);
        assert_eq!(Some(now), before.lines().find(of), "{}", path.display());
    }
    let is_whole = text.lines().count() == before.lines().count();
    assert!(is_whole || cfg!(debug_assertions), "{}", path.display());
}

#[test]
fn small_plans_are_answered_as_ever() {
    let mut digests = Digests::new();
    on_platforms(&mut digests, 64, false);
    access_times(&mut digests, &[16, 512]);
    conditions(&mut digests);
    gangs(&mut digests, 100);
    tasks(&mut digests, 20);
    compare("small.txt", &digests);
}

#[test]
#[ignore = "takes minutes"]
fn large_plans_are_answered_as_ever() {
    let mut digests = Digests::new();
    on_platforms(&mut digests, 2_048, true);
    access_times(&mut digests, &[64, 256, 8_192, 16_384]);
    gangs(&mut digests, 2_000);
    tasks(&mut digests, 200);
    compare("large.txt", &digests);
}
