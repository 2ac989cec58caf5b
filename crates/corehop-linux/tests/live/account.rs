// SPDX-License-Identifier: MIT OR Apache-2.0
//! The kernel's account of the threads of a measurement: which of them had which CPU, and when.

use std::collections::BTreeMap;
use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use corehop_linux::bpf::events::{BpfEvent, Events, KernelEventKind};
use corehop_plan::units::{Cpu, CpuList};

/// The window of the duty budget, in nanoseconds.
const WINDOW_NS: u64 = 100_000_000;

/// The threads that the budget counts: measured threads, the ones that answer exchanges, and preemptors.
const COUNTED: [&str; 3] = ["job-", "echo-", "preempt-"];

/// A span of CLOCK_MONOTONIC, in nanoseconds.
pub(crate) type Span = (u64, u64);

/// Spans in which counted threads had each CPU, in order.
pub(crate) type Busy = BTreeMap<Cpu, Vec<Span>>;

/// CLOCK_MONOTONIC, in nanoseconds.
pub(crate) fn monotonic_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: writes to a live local; every kernel has this clock.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Runs `work`, and records which threads have which CPU meanwhile. None, with the reason, where the kernel shows
/// no switches to this user.
pub(crate) fn of<R>(cpus: &CpuList, work: impl FnOnce() -> R) -> Result<(R, Busy), String> {
    let events = Events::of_switches(cpus).map_err(|error| error.to_string())?;
    let done = AtomicBool::new(false);
    events.begin();
    let (result, names) = std::thread::scope(|scope| {
        let names = scope.spawn(|| names_until(&done));
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
        done.store(true, Ordering::Relaxed);
        (result, names.join().unwrap())
    });
    let (streams, lost) = events.end();
    let result = result.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    if lost > 0 {
        println!("{lost} switches at the end found no room");
    }
    let busy = |(cpu, events): (Cpu, Vec<BpfEvent>)| (cpu, spans_of(&events, &names));
    Ok((result, streams.into_iter().map(busy).collect()))
}

/// The numbers of counted threads of this process that live before `done`.
fn names_until(done: &AtomicBool) -> BTreeMap<u32, String> {
    let mut names = BTreeMap::new();
    while !done.load(Ordering::Relaxed) {
        for thread in fs::read_dir("/proc/self/task").unwrap().flatten() {
            let number = thread.file_name().to_str().and_then(|it| it.parse().ok());
            let name = fs::read_to_string(thread.path().join("comm")).unwrap_or_default();
            if COUNTED.iter().any(|prefix| name.starts_with(prefix)) {
                names.extend(number.map(|number| (number, name.trim().to_owned())));
            }
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    names
}

/// The spans in which a CPU belonged to one of `names`: from the switch to a thread until the next switch.
fn spans_of(events: &[BpfEvent], names: &BTreeMap<u32, String>) -> Vec<Span> {
    let own = std::process::id();
    let switches: Vec<&BpfEvent> =
        events.iter().filter(|it| it.kind == KernelEventKind::Switch).collect();
    let counted = |event: &BpfEvent| {
        (event.argument >> 32) as u32 == own && names.contains_key(&(event.argument as u32))
    };
    let pairs = switches.windows(2).filter(|pair| counted(pair[0]));
    pairs.map(|pair| (pair[0].begin_ns, pair[1].begin_ns)).collect()
}

/// `busy` without what lies in `cut`; both in order.
pub(crate) fn without(busy: &[Span], cut: &[Span]) -> Vec<Span> {
    let mut left = Vec::new();
    for &(first, to) in busy {
        let mut from = first;
        for &(begin, end) in cut.iter().filter(|&&(begin, end)| begin < to && end > first) {
            if begin > from {
                left.push((from, begin));
            }
            from = from.max(end.min(to));
        }
        if from < to {
            left.push((from, to));
        }
    }
    left
}

/// Busy time of the busiest of all windows of 100 ms, in nanoseconds, and the end of the window.
pub(crate) fn busiest(spans: &[Span]) -> (u64, u64) {
    let sums: Vec<u64> = std::iter::once(0)
        .chain(spans.iter().scan(0, |sum, &(from, to)| {
            *sum += to - from;
            Some(*sum)
        }))
        .collect();
    let until = |time: u64| {
        let before = spans.partition_point(|&(from, _)| from < time);
        let beyond = spans[..before].last().map_or(0, |&(_, to)| to.saturating_sub(time));
        sums[before] - beyond
    };
    // Between these ends of windows the busy time of a window has no maximum.
    let ends = spans.iter().flat_map(|&(from, to)| [to, from + WINDOW_NS]);
    let in_window = |end: u64| (until(end) - until(end.saturating_sub(WINDOW_NS)), end);
    ends.map(in_window).max().unwrap_or_default()
}

pub(crate) fn the_busiest_window_of_made_up_spans_is_found() {
    const MS: u64 = 1_000_000;
    let spans = [(10 * MS, 20 * MS), (50 * MS, 90 * MS), (130 * MS, 170 * MS)];
    // From 70 ms to 170 ms: 20 ms of the second and 40 ms of the third span.
    assert_eq!(busiest(&spans), (60 * MS, 170 * MS));
    assert_eq!(busiest(&[]), (0, 0));
    let left = without(&spans, &[(15 * MS, 60 * MS), (80 * MS, 85 * MS)]);
    assert_eq!(
        left,
        [(10 * MS, 15 * MS), (60 * MS, 80 * MS), (85 * MS, 90 * MS), (130 * MS, 170 * MS)]
    );
}
