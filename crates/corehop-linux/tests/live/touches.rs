// SPDX-License-Identifier: MIT OR Apache-2.0
//! Touches and absences: their order by cost, and the duty budget.

use std::path::Path;
use std::process::Command;

use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use corehop_plan::experiment::{Jobs, Step};
use corehop_plan::machine::{Machine, MachineError};
use corehop_plan::samples::{Certificate, JobRecord};
use corehop_plan::units::Nanos;
use corehop_plan::workload::{LineState, Load, WorkingSet};
use serde_json::Value;

use crate::harness::skipped;
use crate::plans::{cpus, leave, list, machine, median, plan_of, records, run};

const VALID: Step = Step::Prepare(LineState::Valid);
const INVALID: Step = Step::Prepare(LineState::Invalid);

/// The median time of the last touch of `count` jobs, in nanoseconds.
fn last_touch(set: &WorkingSet, count: usize, steps: &[Step]) -> f64 {
    let records = records(&mut machine(), &plan_of(set.clone(), Load::Idle, count, steps));
    assert!(records.iter().all(|record| record.touches.len() == touches(steps)));
    median(&records, |record| record.touches.last().unwrap().ns)
}

fn touches(steps: &[Step]) -> usize {
    steps.iter().filter(|step| **step == Step::Touch).count()
}

pub(crate) fn an_undisturbed_touch_is_quicker_than_one_after_a_flush() {
    let before = [INVALID, Step::Touch, VALID, Step::Touch];
    let none = last_touch(&list(64), 40, &[&before[..], &[Step::Touch]].concat());
    let flush = last_touch(&list(64), 40, &[&before[..], &[INVALID, Step::Touch]].concat());
    assert!(none < flush, "{none} ns against {flush} ns");
}

pub(crate) fn lines_from_modified_caches_are_dearer_than_valid_ones() {
    let valid = last_touch(&list(64), 10, &[VALID, VALID, Step::Touch]);
    let modified = [Step::Prepare(LineState::Modified), Step::Touch];
    let plan = plan_of(list(64), Load::Idle, 10, &modified);
    let mut machine = machine();
    let records = records(&mut machine, &plan);
    let modified = median(&records, |record| record.touches[0].ns);
    assert!(valid < modified, "{valid} ns against {modified} ns");
    let buffer = &machine.provenance()["eviction_buffer"];
    assert!(buffer["bytes"].as_u64().unwrap() <= 32 << 20, "{buffer}");
}

pub(crate) fn an_absence_lasts_at_least_as_long_as_asked() {
    let lengths = [0, 50_000, 1_000_000].map(Nanos::new);
    let here = cpus()[0];
    let steps = lengths.map(|length| [Step::Touch, leave(here, length)]).concat();
    let records = records(&mut machine(), &plan_of(list(4), Load::Idle, 20, &steps));
    for leave in records.iter().flat_map(|record| &record.leaves) {
        assert!(leave.length_ns >= leave.requested_ns as f64, "{leave:?}");
        assert!(leave.switch_ns.is_none() && (leave.from, leave.to) == (here, here));
        // Away and back, where the kernel's switches are counted and there was time to be away.
        let counted = leave.switches.filter(|_| leave.requested_ns >= 1_000_000);
        assert!(counted.is_none_or(|switches| switches >= 2), "{leave:?}");
    }
}

/// The example's function, compiled as its page says.
fn matrix_vector(folder: &Path) -> Option<String> {
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/own-job/matrix_vector.c");
    let library = folder.join("matrix_vector.so");
    let cc = Command::new("cc")
        .args(["-O2", "-Wall", "-Werror", "-shared", "-fPIC", "-o"])
        .arg(&library)
        .arg(source)
        .status();
    match cc {
        Ok(status) => assert!(status.success()),
        Err(error) => {
            skipped(&format!("no C compiler: {error}"));
            return None;
        }
    }
    Some(library.display().to_string())
}

fn own_job(workload: String) -> Jobs {
    let set = WorkingSet { workload: Some(workload), ..list(64) };
    let steps = [INVALID, Step::Touch, VALID, Step::Touch, INVALID, Step::Touch];
    plan_of(set, Load::Idle, 20, &steps)
}

pub(crate) fn the_users_own_job_is_measured_as_any_other() {
    let folder = tempfile::tempdir().unwrap();
    let Some(library) = matrix_vector(folder.path()) else { return };
    let records = records(&mut machine(), &own_job(format!("{library}:matrix_vector")));
    let touches = || records.iter().flat_map(|record| &record.touches);
    assert!(touches().all(|touch| touch.certificate == Certificate::Switches && touch.ns > 0.0));
    assert!(touches().all(|touch| (touch.switches == 0) == (touch.lines_certified > 0)));
    assert!(records.iter().all(|record| record.policy.starts_with("other")));
    let of = |index: usize| move |record: &JobRecord| record.touches[index].ns;
    let (warm, flushed) = (median(&records, of(1)), median(&records, of(2)));
    assert!(warm < flushed, "{warm} ns against {flushed} ns");
}

pub(crate) fn a_job_of_the_users_own_that_cannot_be_loaded_is_refused_by_name() {
    for workload in ["/no/such/job.so:touch", "libc.so.6:no_such_function", "nothing"] {
        let (error, _) = run(&mut machine(), &own_job(workload.to_owned())).unwrap_err();
        assert!(matches!(error, MachineError::NotPossible { .. }), "{error}");
        let text = error.to_string();
        assert!(text.contains(workload) && text.contains("examples/own-job"), "{text}");
    }
}

/// The CPU time of this process, in nanoseconds.
fn cpu_time() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: writes to a live local; every kernel has this clock.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut time) };
    time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
}

/// Jobs that would never rest if they were let.
pub(crate) fn the_duty_budget_is_kept() {
    let steps = [INVALID, Step::Touch, INVALID, Step::Touch];
    let mut machine = machine();
    let (begun, used) = (std::time::Instant::now(), cpu_time());
    records(&mut machine, &plan_of(list(512), Load::Idle, 200, &steps));
    let (wall, used) = (begun.elapsed().as_nanos() as f64, cpu_time() - used);
    // Half of any 100 ms, of which the last may have been begun only; and what precedes the first job.
    assert!(used <= wall / 2.0 + 150e6, "{used} ns of {wall} ns");
    let facts = machine.provenance();
    let of = |name: &str| facts["wall"].get(name).and_then(Value::as_f64).unwrap();
    assert!(of("duty_waits_ns") > 0.0 && of("jobs") as u32 == 200);
}

/// Short jobs, between which the thread has as much to do as in them.
pub(crate) fn no_window_is_busier_than_the_budget_by_the_kernels_account() {
    let done = AtomicBool::new(false);
    let samples = std::thread::scope(|scope| {
        let watch = scope.spawn(|| account(&done));
        records(&mut machine(), &plan_of(list(4), Load::Idle, 40_000, &[Step::Touch]));
        done.store(true, Ordering::Relaxed);
        watch.join().unwrap()
    });
    let (mut windows, mut most) = (0, 0.0);
    for (at, &(begun, _, before)) in samples.iter().enumerate() {
        let later = samples[at..].iter().find(|&&(_, now, _)| now - begun >= 100_000_000);
        let Some(&(_, ended, after)) = later else { break };
        // A busy machine looks late, at a window and a part of the next one.
        let (span, window) = (ended - begun, 100_000_000);
        let allowed = window / 2 * (span / window) + (span % window).min(window / 2);
        let ran = after - before;
        assert!(ran <= allowed, "{ran} ns of {span} ns");
        most = f64::max(most, ran as f64 / span as f64);
        windows += 1;
    }
    println!("{windows} windows, of the busiest {most:.3}");
    if windows == 0 {
        println!(
            "skipped: the busy share of windows (the run was over too soon, or its thread was not found)"
        );
    }
}

/// The time before and after a look, and the time that the measured thread has run, in nanoseconds.
type Account = (u64, u64, u64);

/// Looks at the kernel's account of the measured thread until `done`.
fn account(done: &AtomicBool) -> Vec<Account> {
    let (begun, mut samples) = (Instant::now(), Vec::new());
    let now = || begun.elapsed().as_nanos() as u64;
    let mut thread = None;
    while !done.load(Ordering::Relaxed) {
        thread = thread.or_else(measured_thread);
        let before = now();
        let ran = thread.and_then(cpu_time_of);
        samples.extend(ran.map(|ran| (before, now(), ran)));
        std::thread::sleep(Duration::from_millis(1));
    }
    samples
}

/// The time that a thread of this process has run, to this moment.
fn cpu_time_of(thread: i32) -> Option<u64> {
    // The clock of a thread: see clock_getcpuclockid(3) and the kernel's posix-timers.
    let clock = (!thread << 3) | 6;
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: writes to a live local; a clock of a thread that has ended is refused.
    let answer = unsafe { libc::clock_gettime(clock, &raw mut time) };
    (answer == 0).then(|| time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}

fn measured_thread() -> Option<i32> {
    let mut threads = fs::read_dir("/proc/self/task").ok()?.flatten();
    let is_measured = |thread: &fs::DirEntry| {
        fs::read_to_string(thread.path().join("comm")).is_ok_and(|name| name.starts_with("job-"))
    };
    threads.find(is_measured)?.file_name().to_str()?.parse().ok()
}
