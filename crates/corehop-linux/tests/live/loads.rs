// SPDX-License-Identifier: MIT OR Apache-2.0
//! Background loads: they run, they prove it, and nothing of them is left.

use std::fs;

use corehop_linux::live::LiveMachine;
use corehop_plan::experiment::{Jobs, Step};
use corehop_plan::machine::{Machine, MachineError};
use corehop_plan::units::{Bytes, CpuList, Nanos};
use corehop_plan::workload::{Absence, Load, MovingProgram, Pattern, Polluter, Transfer};
use serde_json::Value;

use crate::endings::eventually;
use crate::harness::skipped;
use crate::plans::{cpus, list, machine, plan_of, records, run};

/// A command that computes for as long as it is let.
const BUSY: &str = "while :; do :; done";

/// Jobs that leave their CPU to the load.
fn plan_under(load: Load) -> Jobs {
    let steps = [
        Step::Touch,
        Step::Leave(corehop_plan::experiment::Absent {
            to: cpus()[0],
            length: Nanos::from_millis(2),
            to_whom: Absence::Load,
        }),
        Step::Touch,
    ];
    plan_of(list(16), load, 20, &steps)
}

/// Jobs that leave their CPU to a preemptor beside the load.
fn preempted_under(load: Load) -> Jobs {
    let steps = [
        Step::Touch,
        Step::Touch,
        Step::Leave(corehop_plan::experiment::Absent {
            to: cpus()[0],
            length: Nanos::from_millis(20),
            to_whom: Absence::Preemptor,
        }),
        Step::Touch,
    ];
    let mut plan = plan_of(list(16), load, 8, &steps);
    plan.cells[0].absence = Absence::Preemptor;
    let wss = Bytes::from_kib(64);
    plan.preemptor = Some(Polluter { wss, pattern: Pattern::Shuffled, write_ratio: 0.0 });
    plan
}

/// The median of the lines that preemptors walk beside this load.
fn walked_beside(load: Load) -> Option<u64> {
    let records = match run(&mut machine(), &preempted_under(load)) {
        Ok(records) => records,
        Err((MachineError::NotPossible { what, why, .. }, _)) => {
            skipped(&format!("{what}: {why}"));
            return None;
        }
        Err((error, _)) => panic!("{error}"),
    };
    let leaves = records.iter().flat_map(|record| &record.leaves);
    let mut lines: Vec<u64> = leaves.map(|leave| leave.preemptor_lines.unwrap()).collect();
    lines.sort_unstable();
    Some(lines[lines.len() / 2])
}

/// A thread that computes would take half of the CPU from the preemptor, and of the lines that it walks while
/// the load runs on all other CPUs alone.
pub(crate) fn a_preemptor_has_the_cpu_to_itself_beside_loads_that_compute() {
    if cpus().len() < 2 {
        return skipped("only one CPU is usable");
    }
    let others = CpuList::new(cpus()[1..].iter().copied());
    let loads: [fn(CpuList) -> Load; 3] = [
        |cpus| Load::Constructed { cpus, polluter: small_polluter() },
        |cpus| Load::Dma { transfer: Transfer::Loopback, cpus },
        |cpus| Load::Buslock { split: false, cpus },
    ];
    for load in loads {
        // A neighbour may take the host's CPU during one run; more seldom during each of several.
        let most = |cpus: &CpuList| (0..5).filter_map(|_| walked_beside(load(cpus.clone()))).max();
        let Some((alone, shared)) = most(&others).zip(most(&everywhere())) else { continue };
        assert!(shared * 10 > alone * 7, "{shared} for {alone}: {:?}", load(everywhere()));
    }
}

fn everywhere() -> CpuList {
    CpuList::default()
}

fn small_polluter() -> Polluter {
    Polluter { wss: Bytes::from_kib(256), pattern: Pattern::Shuffled, write_ratio: 0.5 }
}

fn constructed() -> Load {
    Load::Constructed { polluter: small_polluter(), cpus: everywhere() }
}

/// The provenance of the only load.
fn known(machine: &LiveMachine) -> Value {
    let facts = machine.provenance();
    assert_eq!(facts["load"].as_array().unwrap().len(), 1);
    facts["load"][0].clone()
}

fn threads() -> usize {
    fs::read_dir("/proc/self/task").unwrap().count()
}

/// The processes that are children of this one.
fn children() -> Vec<String> {
    let own = std::process::id().to_string();
    let parent = |stat: &str| stat.rsplit_once(") ")?.1.split(' ').nth(1).map(str::to_owned);
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let stats = processes.filter_map(|entry| fs::read_to_string(entry.path().join("stat")).ok());
    stats.filter(|stat| parent(stat).as_ref() == Some(&own)).collect()
}

/// Anonymous resident memory, in KiB, without what the allocator keeps of what it was given back. (Code
/// that runs for the first time becomes resident too, and is no memory that was left behind.)
fn resident() -> u64 {
    // SAFETY: gives free memory back to the kernel.
    unsafe { libc::malloc_trim(0) };
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

/// Runs under a load of threads, and looks at what it reports and what it leaves. The bytes that it moved in the absences of
/// the plan; None where it is not possible.
fn moved_under(load: &Load) -> Option<u64> {
    let (threads_before, resident_before) = (threads(), resident());
    let mut machine = machine();
    let plan = plan_under(load.clone());
    let records = match run(&mut machine, &plan) {
        Ok(records) => records,
        Err((MachineError::NotPossible { what, why, .. }, _)) => {
            skipped(&format!("{what}: {why}"));
            return None;
        }
        Err((error, _)) => panic!("{error}"),
    };
    let moved: u64 = records
        .iter()
        .flat_map(|record| &record.leaves)
        .map(|leave| leave.load_bytes.unwrap())
        .sum();
    let known = known(&machine);
    assert!(known["progress"]["bytes"].as_u64().unwrap() >= moved, "{known}");
    for reading in ["alone", "loaded"] {
        let reading = &known["classification"][reading];
        assert!(reading["read_bytes_per_s"].as_f64().unwrap() > 0.0, "{known}");
        assert!(reading["access_ns"].as_f64().unwrap() > 0.0, "{known}");
    }
    assert!(known["classification"]["llc"].is_object(), "{known}");
    // A thread that was joined is listed until the kernel has done with it.
    eventually("no threads are left", || threads() == threads_before);
    drop(machine);
    // The probe's memory alone is 4 MiB or more.
    assert!(
        resident() < resident_before + (3 << 10),
        "{resident_before} KiB became {}",
        resident()
    );
    Some(moved)
}

/// The same for a load that needs nothing but its CPU.
fn check_threads(load: &Load) {
    assert!(moved_under(load).is_none_or(|moved| moved > 0), "{load:?}");
}

pub(crate) fn polluters_run_and_are_gone_afterwards() {
    // An arena of the allocator's for each thread, on a huge page, would outlive the threads.
    // SAFETY: a setting of the allocator.
    unsafe { libc::mallopt(libc::M_ARENA_MAX, 1) };
    // Once before, so that what a process keeps from its first run is there.
    check_threads(&constructed());
    check_threads(&constructed());
}

pub(crate) fn changing_programs_run_and_are_gone_afterwards() {
    check_threads(&Load::Changing { program: MovingProgram::COMPILER, cpus: everywhere() });
}

pub(crate) fn direct_transfers_run_and_are_gone_afterwards() {
    // A disk that others use, or that has a limit, may take longer for one transfer than all absences of a run last.
    let load = Load::Dma { transfer: Transfer::Direct, cpus: everywhere() };
    let moves = |_| moved_under(&load).is_none_or(|moved| moved > 0);
    assert!((0..10).any(moves), "{load:?}");
}

pub(crate) fn datagrams_run_and_are_gone_afterwards() {
    check_threads(&Load::Dma { transfer: Transfer::Loopback, cpus: everywhere() });
}

pub(crate) fn locked_instructions_run_and_are_gone_afterwards() {
    check_threads(&Load::Buslock { split: false, cpus: everywhere() });
}

pub(crate) fn a_command_runs_on_every_cpu_and_is_gone_afterwards() {
    let mut machine = machine();
    let load = Load::Realistic { command: BUSY.to_owned(), cpus: everywhere() };
    records(&mut machine, &plan_under(load.clone()));
    let known = known(&machine);
    let copies = known["progress"]["copies"].as_array().unwrap();
    assert_eq!(copies.len(), cpus().len());
    assert!(copies.iter().all(|copy| copy["cpu_ns"].as_u64().unwrap() > 0), "{known}");
    assert_eq!(known["load"]["command"], BUSY);
    drop(machine);
    assert_eq!(children(), [""; 0]);
}

pub(crate) fn a_command_that_ends_at_once_is_an_error_that_names_it() {
    let load = Load::Realistic { command: "no-such-program-here".to_owned(), cpus: everywhere() };
    let (error, _) = run(&mut machine(), &plan_under(load)).unwrap_err();
    let text = error.to_string();
    assert!(text.contains("no-such-program-here") && text.contains("by hand"), "{text}");
    assert_eq!(children(), [""; 0]);
}

pub(crate) fn split_locks_are_refused_with_a_reason_where_they_would_be_punished() {
    let load = Load::Buslock { split: true, cpus: everywhere() };
    let platform = crate::plans::platform();
    if platform.hypervisor.is_none() {
        return skipped("on a bare machine they may be allowed; they are not tried in a test");
    }
    let (error, records) = run(&mut machine(), &plan_under(load)).unwrap_err();
    assert!(matches!(error, MachineError::NotPossible { .. }) && records.is_empty(), "{error}");
    assert!(error.to_string().contains("guest"), "{error}");
}

pub(crate) fn a_load_on_a_cpu_that_is_not_there_is_refused_by_its_number() {
    let nowhere = CpuList::new([corehop_plan::units::Cpu(60_000)]);
    for load in [
        Load::Realistic { command: BUSY.to_owned(), cpus: nowhere.clone() },
        Load::Buslock { split: false, cpus: nowhere },
    ] {
        let (error, _) = run(&mut machine(), &plan_under(load)).unwrap_err();
        assert!(error.to_string().contains("60000"), "{error}");
    }
    assert_eq!(children(), [""; 0]);
}
