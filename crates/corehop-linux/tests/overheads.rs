// SPDX-License-Identifier: MIT OR Apache-2.0
//! Scheduling overheads of the kernel, measured in both ways: counts and orders, no times.
#![expect(clippy::print_stderr, reason = "a skip says why")]

use corehop_linux::bpf::events::{Events, KernelEventKind};
use corehop_linux::live::{LiveMachine, LiveMachineOptions};
use corehop_plan::experiment::{Body, Overheads, Plan};
use corehop_plan::machine::{Machine, Records};
use corehop_plan::platform::Platform;
use corehop_plan::samples::{Overhead, OverheadFacts, OverheadRecord, Vantage};
use corehop_plan::units::{Cpu, CpuList};
use corehop_system::discover::{SysRoot, discover};
use corehop_system::thread::{affinity, set_affinity};

fn usable() -> CpuList {
    affinity().unwrap()
}

fn host() -> Platform {
    discover(&SysRoot::live()).unwrap()
}

/// The records and facts of a measurement without task sets.
fn measured(cpus: CpuList, in_kernel: bool) -> (Vec<OverheadRecord>, OverheadFacts) {
    let mut machine = LiveMachine::new(host(), LiveMachineOptions::default());
    let plan =
        Plan::new("overheads", 1, Body::Overheads(Overheads { cpus, in_kernel, tasks: None }));
    let mut records = Records::default();
    machine.run(&plan, &mut records).unwrap();
    let facts = OverheadFacts::of(&machine.provenance()).unwrap();
    (records.overheads, facts)
}

/// The times of all replicates together.
fn find(all: &[OverheadRecord], vantage: Vantage, overhead: Overhead) -> Option<OverheadRecord> {
    let mut found =
        all.iter().filter(|it| it.vantage == vantage && it.overhead == overhead).cloned();
    let mut joined = found.next()?;
    found.for_each(|it| joined.ns.extend(it.ns));
    Some(joined)
}

fn median(series: &OverheadRecord) -> f64 {
    let mut ns = series.ns.clone();
    ns.sort_by(f64::total_cmp);
    ns[ns.len() / 2]
}

#[test]
fn each_way_measures_what_it_can_and_the_parts_are_less_than_the_whole() {
    let (found, facts) = measured(usable(), true);
    let threads = |what| find(&found, Vantage::Threads, what).unwrap();
    assert!(!threads(Overhead::WakeUp).ns.is_empty());
    assert_eq!(threads(Overhead::Decision).ns.len(), 400);
    let Some(recording) = facts.recording else {
        return eprintln!("skipped: {:?}", facts.missing);
    };
    assert!(recording.events > 1_000 && recording.noting_ns > 0.0, "{recording:?}");
    assert!(recording.unmatched * 100 < recording.events as u64, "{recording:?}");
    let Some(release) = find(&found, Vantage::Kernel, Overhead::Release) else {
        return eprintln!("skipped: {:?}", facts.missing);
    };
    let latency = find(&found, Vantage::Kernel, Overhead::EventLatency).unwrap();
    // Each of the 400 sleeps once in both, save those over before the thread has left its CPU.
    assert_eq!(release.ns.len(), latency.ns.len());
    assert!(!release.ns.is_empty());
    if release.ns.len() >= 380 {
        // The host moves its CPUs meanwhile: by far more than the whole a part is not.
        assert!(median(&latency) < 2.0 * median(&threads(Overhead::WakeUp)));
    } else {
        eprintln!("skipped: a busy host, medians of different seconds do not compare");
    }
    for series in &found {
        assert!(!series.ns.is_empty(), "{:?}", series.overhead);
        let clocks = series.overhead == Overhead::OneWay;
        let least = if clocks { -recording.clock_bound_ns } else { 0.0 };
        assert!(series.ns.iter().all(|&ns| ns >= least), "{:?}", series.overhead);
    }
    if let Some(decision) = find(&found, Vantage::Kernel, Overhead::Decision) {
        // As many decisions as threads have yielded alone, at least; and less than the system call.
        assert!(decision.ns.len() >= 1_000, "{}", decision.ns.len());
        assert!(find(&found, Vantage::Kernel, Overhead::Switch).is_some());
    }
}

#[test]
fn without_the_kernel_threads_say_what_they_can() {
    let cpus = CpuList::new(usable().iter().take(1));
    let (found, facts) = measured(cpus, false);
    assert!(facts.recording.is_none());
    assert!(found.iter().all(|it| it.vantage == Vantage::Threads && it.tasks == 2));
    assert!(!facts.missing.iter().any(|why| why.contains("in the kernel")));
    assert!(facts.missing.iter().any(|why| why.contains("one CPU only")), "{:?}", facts.missing);
    assert!(facts.control_page.is_some() != facts.no_control_page.is_some());
}

/// The scheduler is entered and left on one CPU, and left by the thread that it switched to.
#[test]
fn events_are_seen_in_the_order_in_which_the_kernel_passes_them() {
    let cpus = usable();
    let events = match Events::open(&cpus) {
        Ok(events) if events.missing().iter().all(|(name, _)| !name.starts_with("sched_")) => {
            events
        }
        Ok(events) => return eprintln!("skipped: {:?}", events.missing()),
        Err(error) => return eprintln!("skipped: {error}"),
    };
    let first = cpus.first().unwrap();
    std::thread::spawn(move || set_affinity([first]).unwrap()).join().unwrap();
    events.begin();
    std::thread::spawn(move || {
        set_affinity([first]).unwrap();
        (0..200).for_each(|_| std::thread::sleep(std::time::Duration::from_micros(100)));
    })
    .join()
    .unwrap();
    let (streams, _) = events.end();
    let own = |argument: u64| (argument >> 32) as u32 == std::process::id();
    let (_, stream) = streams.into_iter().find(|(cpu, _)| *cpu == first).unwrap();
    let ours =
        stream.iter().filter(|it| it.kind == KernelEventKind::Switch && own(it.argument)).count();
    if ours == 0 {
        return eprintln!("skipped: the kernel knows this process by another number");
    }
    assert!(ours >= 200, "{ours}");
    let passes: Vec<_> = stream
        .iter()
        .filter(|event| {
            [KernelEventKind::ScheduleBegin, KernelEventKind::Switch, KernelEventKind::ScheduleEnd]
                .contains(&event.kind)
        })
        .collect();
    let mut switches = 0;
    for three in passes.windows(3) {
        if let [begin, switch, end] = three
            && switch.kind == KernelEventKind::Switch
            && own(switch.argument)
            // A new thread does not leave the scheduler when it begins.
            && end.kind != KernelEventKind::ScheduleBegin
        {
            assert_eq!(
                (begin.kind, end.kind, end.detail),
                (KernelEventKind::ScheduleBegin, KernelEventKind::ScheduleEnd, 1)
            );
            assert_eq!(end.argument, switch.argument, "left by the thread that it switched to");
            assert!(begin.end_ns <= switch.begin_ns && switch.end_ns <= end.begin_ns);
            switches += 1;
        }
    }
    assert!(switches >= 199, "{switches}");
    // Times that were not asked for are not kept for the next time.
    events.begin();
    let (again, _) = events.end();
    let count = |streams: &[(Cpu, Vec<_>)]| streams.iter().map(|(_, it)| it.len()).sum::<usize>();
    assert!(count(&again) < 200, "{}", count(&again));
}
