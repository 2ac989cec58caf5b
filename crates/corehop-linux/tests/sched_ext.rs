// SPDX-License-Identifier: MIT OR Apache-2.0
//! A sched_ext scheduler on the kernel at hand: loaded where there is the class, refused with a
//! remedy where not. The kernel lab (`make lab`) runs this file on a kernel that has it.
#![expect(clippy::print_stderr, reason = "a skip says why")]

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use corehop_linux::bpf::sched_ext::{self, NAME, SchedExtError};

/// One test at a time: there is one class. None, and a printed reason, where this is not the kernel
/// for the test.
fn alone(needs_class: bool) -> Option<MutexGuard<'static, ()>> {
    static CLASS: Mutex<()> = Mutex::new(());
    let has_class = sched_ext::state().is_some();
    if has_class != needs_class {
        let has = if has_class { "has" } else { "has no" };
        eprintln!("skipped: this kernel {has} sched_ext");
        return None;
    }
    Some(CLASS.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Loaded, or none and a printed reason where this user may not.
fn load() -> Option<sched_ext::SchedulerAttachment> {
    match sched_ext::load() {
        Ok(loaded) => Some(loaded),
        Err(SchedExtError::Bpf(error)) if error.is_general() => {
            eprintln!("skipped: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

fn is_gone_soon() -> bool {
    let deadline = Instant::now() + Duration::from_secs(10);
    while sched_ext::state().as_deref() != Some("disabled") {
        if Instant::now() > deadline {
            return false;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    sched_ext::loaded_name().is_none()
}

#[test]
fn a_kernel_without_the_class_is_named_with_the_option_it_lacks_and_the_remedy() {
    let Some(_alone) = alone(false) else { return };
    let error = sched_ext::load().unwrap_err();
    assert!(matches!(error, SchedExtError::NotThere { .. }), "{error}");
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    for word in [release.trim(), "CONFIG_SCHED_CLASS_EXT=y", "6.12", "boot"] {
        assert!(error.to_string().contains(word), "{error}");
    }
    assert_eq!(sched_ext::loaded_name(), None);
}

#[test]
fn the_scheduler_is_in_charge_while_its_value_lives_and_gone_afterwards() {
    let Some(_alone) = alone(true) else { return };
    let Some(loaded) = load() else { return };
    assert!(loaded.is_in_charge());
    assert_eq!(sched_ext::loaded_name().as_deref(), Some(NAME));
    // Threads run under it: these wait for one another.
    let total = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..16).map(|n| scope.spawn(move || n)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum::<i32>()
    });
    assert_eq!(total, 120);
    drop(loaded);
    assert!(is_gone_soon(), "{:?}, {:?}", sched_ext::state(), sched_ext::loaded_name());
}

#[test]
fn of_two_at_once_the_second_is_told_who_is_there_and_the_first_stays() {
    let Some(_alone) = alone(true) else { return };
    let Some(first) = load() else { return };
    let error = sched_ext::load().unwrap_err();
    assert!(matches!(&error, SchedExtError::Taken { name } if name == NAME), "{error}");
    assert!(first.is_in_charge());
    drop(first);
    assert!(is_gone_soon());
    let again = load();
    assert!(again.is_some_and(|loaded| loaded.is_in_charge()), "loads once more");
    assert!(is_gone_soon());
}
