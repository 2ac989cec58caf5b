// SPDX-License-Identifier: MIT OR Apache-2.0
//! Bad luck: one core, io_uring forbidden, a fork, a core that others use.
#![expect(clippy::print_stdout, reason = "a test says why it cannot look")]

use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use corehop_switch::policy::CoreSet;
use corehop_switch::{Fallback, Mechanism, Options, Switch, WaitError};

fn pin(core: usize) {
    let words = CoreSet::of(&[core]).words();
    // SAFETY: the kernel reads the given number of bytes.
    let outcome = unsafe { libc::sched_setaffinity(0, size_of_val(&words), words.as_ptr().cast()) };
    assert_eq!(outcome, 0, "core {core}");
}

fn usable() -> Vec<usize> {
    let mut words = CoreSet::EMPTY.words();
    // SAFETY: the kernel writes at most the given number of bytes.
    unsafe { libc::sched_getaffinity(0, size_of_val(&words), words.as_mut_ptr().cast()) };
    CoreSet::from_words(words).iter().collect()
}

unsafe extern "C" fn count(word: *mut c_void) -> u64 {
    // SAFETY: the tests pass a word that outlives the call.
    unsafe { &*word.cast::<AtomicU64>() }.fetch_add(1, Ordering::Relaxed) + 1
}

fn pointer(word: &AtomicU64) -> *mut c_void {
    std::ptr::from_ref(word).cast_mut().cast()
}

/// In a thread of its own, whose affinity and filters end with it.
fn apart(test: impl FnOnce() + Send) {
    std::thread::scope(|scope| {
        scope.spawn(test).join().unwrap();
    });
}

#[test]
fn one_core_runs_calls_where_they_are_and_says_so() {
    let core = usable()[0];
    apart(|| {
        pin(core);
        for os_cores in [CoreSet::EMPTY, CoreSet::of(&[core])] {
            for mechanism in Mechanism::ALL.map(Some).into_iter().chain([None]) {
                let mut switch =
                    Switch::open(&Options { os_cores, mechanism, ..Options::default() });
                assert_eq!(switch.mechanism(), Mechanism::Local);
                assert!(matches!(switch.fallbacks(), [Fallback::OneCore]));
                assert_eq!(switch.run(|| 5), 5);
            }
        }
    });
}

#[test]
fn a_core_that_is_not_allowed_is_left_out_and_the_others_serve() {
    let Some(&core) = usable().get(1) else { return println!("skipped: one usable core") };
    let os_cores = CoreSet::of(&[core, 1000]);
    let mut switch = Switch::open(&Options { os_cores, ..Options::default() });
    assert_eq!(switch.os_cores(), CoreSet::of(&[core]));
    assert!(matches!(switch.fallbacks(), [Fallback::Core { core: 1000, .. }]));
    assert_eq!(switch.run(|| 5), 5);
}

/// Answers EPERM to a system call of this thread and of those that it starts.
fn forbid(call: libc::c_long) {
    let step = |code: u32, jump: (u8, u8), value: u32| libc::sock_filter {
        code: code as u16,
        jt: jump.0,
        jf: jump.1,
        k: value,
    };
    let returns = libc::BPF_RET | libc::BPF_K;
    let filter = [
        step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, (0, 0), 0),
        step(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, (0, 1), call as u32),
        step(returns, (0, 0), libc::SECCOMP_RET_ERRNO | libc::EPERM as u32),
        step(returns, (0, 0), libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_ptr().cast_mut() };
    // SAFETY: the kernel copies the program, which is four steps long.
    unsafe {
        assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
        let mode = libc::SECCOMP_MODE_FILTER;
        assert_eq!(libc::prctl(libc::PR_SET_SECCOMP, mode, &raw const program), 0);
    }
}

#[test]
fn without_io_uring_v2_takes_the_place_of_v3_and_it_is_said() {
    if usable().len() < 2 {
        return println!("skipped: one usable core");
    }
    apart(|| {
        forbid(libc::SYS_io_uring_setup);
        let wish = Options { mechanism: Some(Mechanism::Linked), ..Options::default() };
        let mut switch = Switch::open(&wish);
        assert_eq!(switch.mechanism(), Mechanism::HandOff);
        let said = switch.fallbacks()[0].to_string();
        assert!(said.starts_with("v2 instead of v3") && said.contains("not permitted"), "{said}");
        assert_eq!(switch.run(|| 5), 5);
        let mut chosen = Switch::open(&Options::default());
        assert!(
            chosen.fallbacks().is_empty(),
            "the default asks for no ring: {:?}",
            chosen.fallbacks()
        );
        assert_eq!(chosen.run(|| 6), 6);
    });
}

/// Without the kernel's barrier, a call is claimed by a compare-and-swap: it is taken back in time, and runs once.
#[test]
fn without_membarrier_calls_run_once_and_are_taken_back_all_the_same() {
    let Some(&core) = usable().get(1) else { return println!("skipped: one usable core") };
    apart(|| {
        forbid(libc::SYS_membarrier);
        for mechanism in [Mechanism::Polling, Mechanism::Adaptive] {
            let (os_cores, mechanism) = (CoreSet::of(&[core]), Some(mechanism));
            let wish = Options { os_cores, mechanism, patience_ns: 0, ..Options::default() };
            let mut switch = Switch::open(&wish);
            let (word, busy) = (AtomicU64::new(0), AtomicU64::new(0));
            // SAFETY: both words live on.
            let running = unsafe { switch.submit(until_told, pointer(&busy)) }.unwrap();
            while busy.load(Ordering::Acquire) != 1 {
                std::thread::yield_now();
            }
            // SAFETY: as above. The partner has another call, and does not come.
            assert_eq!(unsafe { switch.call(count, pointer(&word)) }, 1, "{mechanism:?}");
            assert_eq!(switch.counts().taken_back, 1, "{mechanism:?}");
            busy.store(2, Ordering::Release);
            assert_eq!(switch.wait(running), Ok(7), "{mechanism:?}");
            assert_eq!(switch.run(|| word.fetch_add(1, Ordering::Relaxed)), 1, "{mechanism:?}");
        }
    });
}

/// Whether the kernel has the barrier by which calls are taken back.
fn has_membarrier() -> bool {
    // SAFETY: no memory.
    let commands = unsafe { libc::syscall(libc::SYS_membarrier, libc::MEMBARRIER_CMD_QUERY, 0, 0) };
    commands > 0 && commands & i64::from(libc::MEMBARRIER_CMD_PRIVATE_EXPEDITED) != 0
}

/// A program that forbids itself the barrier while a switch is open: a call that cannot be taken back is waited for.
#[test]
fn a_barrier_that_is_forbidden_later_costs_patience_and_no_call() {
    let core = usable().get(1).copied().filter(|_| has_membarrier());
    let Some(core) = core else { return println!("skipped: one usable core, or no membarrier") };
    apart(|| {
        let (os_cores, mechanism) = (CoreSet::of(&[core]), Some(Mechanism::Polling));
        let wish = Options { os_cores, mechanism, patience_ns: 0, ..Options::default() };
        let mut switch = Switch::open(&wish);
        forbid(libc::SYS_membarrier);
        let (word, busy) = (AtomicU64::new(0), AtomicU64::new(0));
        // SAFETY: both words live on.
        let running = unsafe { switch.submit(until_told, pointer(&busy)) }.unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(Duration::from_millis(30));
                busy.store(2, Ordering::Release);
            });
            // SAFETY: as above. The partner comes after 30 ms.
            assert_eq!(unsafe { switch.call(count, pointer(&word)) }, 1);
        });
        assert_eq!(switch.wait(running), Ok(7));
        assert_eq!((switch.counts().switched, switch.counts().taken_back), (2, 0));
    });
}

/// Forks; the child runs `work` and ends with its answer as status.
fn in_child(work: impl FnOnce() -> bool) -> bool {
    // SAFETY: the child makes system calls, writes memory of its own, and ends without unwinding.
    unsafe {
        let child = libc::fork();
        assert!(child >= 0);
        if child == 0 {
            libc::_exit(i32::from(!work()));
        }
        let mut status = 0;
        assert_eq!(libc::waitpid(child, &raw mut status, 0), child);
        libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0
    }
}

unsafe extern "C" fn until_told(flag: *mut c_void) -> u64 {
    // SAFETY: the test passes a flag that outlives the call.
    let flag = unsafe { &*flag.cast::<AtomicU64>() };
    flag.store(1, Ordering::Release);
    while flag.load(Ordering::Acquire) != 2 {
        std::thread::yield_now();
    }
    7
}

/// In the child, a call runs, one that had not been taken runs once, one that was running is the parent's, and the switch
/// can be dropped.
#[test]
fn a_fork_loses_no_call_and_ends_no_wait_without_an_answer() {
    for mechanism in Mechanism::ALL {
        let wish = Options {
            mechanism: Some(mechanism),
            patience_ns: 5_000_000_000,
            ..Options::default()
        };
        let mut switch = Some(Switch::open(&wish));
        if matches!(switch.as_ref().unwrap().mechanism(), Mechanism::Local | Mechanism::Affinity) {
            continue;
        }
        let (flag, word) = (AtomicU64::new(0), AtomicU64::new(0));
        let submit = |function, argument| {
            // SAFETY: both words live on.
            unsafe { switch.as_mut().unwrap().submit(function, argument) }.unwrap()
        };
        let mut submit = submit;
        let running = submit(until_told, pointer(&flag));
        let waiting = submit(count, pointer(&word));
        while flag.load(Ordering::Acquire) != 1 {
            std::thread::yield_now();
        }
        let mut tickets = Some((running, waiting));
        let good = in_child(|| {
            let mut own = switch.take().unwrap();
            let (running, waiting) = tickets.take().unwrap();
            // SAFETY: the word lives on.
            let called = unsafe { own.call(count, pointer(&word)) } == 1;
            let lost = own.wait(running) == Err(WaitError::Forked);
            let once = own.wait(waiting) == Ok(2);
            drop(own);
            called && lost && once
        });
        assert!(good, "{mechanism}");
        flag.store(2, Ordering::Release);
        let (running, waiting) = tickets.unwrap();
        let switch = switch.as_mut().unwrap();
        assert_eq!(switch.wait(running), Ok(7), "{mechanism}");
        assert_eq!(switch.wait(waiting), Ok(1), "{mechanism}");
    }
}

/// Forks, and returns on both sides: the number of the child, or 0 in it.
unsafe extern "C" fn forks(_: *mut c_void) -> u64 {
    // SAFETY: the child returns to the partner, which ends it.
    unsafe { libc::fork() as u64 }
}

#[test]
fn a_child_in_which_a_function_of_a_partner_returns_ends_with_127() {
    for mechanism in
        [Mechanism::HandOff, Mechanism::Linked, Mechanism::Polling, Mechanism::Adaptive]
    {
        let wish = Options {
            mechanism: Some(mechanism),
            patience_ns: 5_000_000_000,
            ..Options::default()
        };
        let mut switch = Switch::open(&wish);
        if !matches!(switch.mechanism(), it if it == mechanism) {
            println!("{mechanism}: skipped: {:?}", switch.fallbacks());
            continue;
        }
        // SAFETY: no argument is used.
        let child = unsafe { switch.call(forks, std::ptr::null_mut()) } as i32;
        assert!(child > 0, "{mechanism}");
        let mut status = 0;
        // SAFETY: a child of this process.
        unsafe {
            let begun = Instant::now();
            while libc::waitpid(child, &raw mut status, libc::WNOHANG) == 0 {
                if begun.elapsed() > Duration::from_secs(10) {
                    libc::kill(child, libc::SIGKILL);
                }
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        assert!(libc::WIFEXITED(status), "{mechanism}: {status}");
        assert_eq!(libc::WEXITSTATUS(status), 127, "{mechanism}");
        assert_eq!(switch.run(|| 5), 5, "{mechanism}");
    }
}

#[test]
fn the_partner_of_a_real_time_caller_has_the_usual_policy() {
    if usable().len() < 2 {
        return println!("skipped: one usable core");
    }
    apart(|| {
        let parameters = libc::sched_param { sched_priority: 1 };
        // SAFETY: reads the parameters; this thread ends after some calls, which wait for a millisecond at most.
        if unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const parameters) } != 0 {
            return println!("skipped: SCHED_FIFO is not allowed");
        }
        for mechanism in [Mechanism::HandOff, Mechanism::Polling, Mechanism::Adaptive] {
            let wish = Options {
                mechanism: Some(mechanism),
                patience_ns: 1_000_000,
                ..Options::default()
            };
            let mut switch = Switch::open(&wish);
            let here = std::thread::current().id();
            // SAFETY: no memory.
            let policy =
                || unsafe { (std::thread::current().id() != here, libc::sched_getscheduler(0)) };
            let there: Vec<i32> = (0..20)
                .map(|_| switch.run(policy))
                .filter_map(|(there, policy)| there.then_some(policy))
                .collect();
            assert!(there.iter().all(|&it| it == libc::SCHED_OTHER), "{mechanism}: {there:?}");
            println!("{mechanism}: {} of 20 calls ran on the partner", there.len());
        }
    });
}

/// The number of times that the calling thread has given its core up so far.
fn sleeps() -> i64 {
    // SAFETY: all zeroes are a valid record; the kernel writes it.
    unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        assert_eq!(libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage), 0);
        usage.ru_nvcsw
    }
}

#[test]
fn a_caller_that_waits_for_a_long_function_wakes_seldom() {
    let wish = Options {
        mechanism: Some(Mechanism::Polling),
        patience_ns: 5_000_000,
        ..Options::default()
    };
    let mut switch = Switch::open(&wish);
    if switch.mechanism() == Mechanism::Local {
        return println!("skipped: {:?}", switch.fallbacks());
    }
    let before = sleeps();
    switch.run(|| std::thread::sleep(Duration::from_millis(300)));
    let slept = sleeps() - before;
    assert!(slept < 600, "{slept} sleeps in 300 ms");
}

/// A thread of the usual policy uses the partner's core, for at most a second: calls are slower, and all come back.
#[test]
fn calls_to_a_core_that_others_use_come_back() {
    let Some(&core) = usable().get(1) else { return println!("skipped: one usable core") };
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            pin(core);
            let begun = Instant::now();
            while !stop.load(Ordering::Relaxed) && begun.elapsed() < Duration::from_secs(1) {
                std::hint::spin_loop();
            }
        });
        for mechanism in Mechanism::ALL {
            let mechanism = Some(mechanism);
            let wish = Options { os_cores: CoreSet::of(&[core]), mechanism, ..Options::default() };
            let mut switch = Switch::open(&wish);
            let word = AtomicU64::new(0);
            for n in 1..=20 {
                // SAFETY: the word lives on.
                assert_eq!(unsafe { switch.call(count, pointer(&word)) }, n, "{mechanism:?}");
            }
            println!("{mechanism:?}: {:?}", switch.counts());
        }
        stop.store(true, Ordering::Relaxed);
    });
}
