// SPDX-License-Identifier: MIT OR Apache-2.0
//! The interrupt counters in the running kernel. Needs root or CAP_BPF with CAP_PERFMON, and
//! skips with the reason where it may not.
#![expect(clippy::print_stderr, reason = "a skip says why")]

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use corehop_linux::bpf::interrupts::{
    COUNTERS, InterruptCounter, InterruptCounters, InterruptCounts,
};
use corehop_linux::bpf::{self, BpfError, Btf};
use corehop_linux::counters::software::InterruptTable;
use corehop_plan::units::{Cpu, CpuList};

/// One test at a time: they count descriptors of the process, and load the CPU.
static ALONE: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// The CPUs this thread may use.
fn allowed() -> CpuList {
    // SAFETY: all-zero is a valid, empty set; the kernel fills it, with the size given.
    let set = unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        assert_eq!(libc::sched_getaffinity(0, size_of_val(&set), &raw mut set), 0);
        set
    };
    // SAFETY: below the number of CPUs a set holds.
    CpuList::new(
        (0..1024).filter(|&cpu| unsafe { libc::CPU_ISSET(cpu, &set) }).map(|cpu| Cpu(cpu as u32)),
    )
}

fn pin(Cpu(cpu): Cpu) {
    // SAFETY: all-zero is a valid, empty set; the CPU is one that `allowed` gave.
    let result = unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(cpu as usize, &mut set);
        libc::sched_setaffinity(0, size_of_val(&set), &raw const set)
    };
    assert_eq!(result, 0);
}

/// The counters, or nothing and the reason why this host does not give them.
fn open() -> Option<InterruptCounters> {
    match InterruptCounters::open(&allowed()) {
        Ok(counters) => Some(counters),
        Err(error) => {
            eprintln!("skipped: {error}");
            None
        }
    }
}

fn keep_busy(span: Duration) {
    let begin = Instant::now();
    while begin.elapsed() < span {
        std::hint::spin_loop();
    }
}

/// Two threads on this thread's CPU hand a byte to each other: two switches a round, at least.
fn ping_pong(rounds: u32) {
    let (mut here, mut there) = std::os::unix::net::UnixStream::pair().unwrap();
    let other = std::thread::spawn(move || {
        let mut byte = [0];
        while there.read(&mut byte).unwrap() == 1 {
            there.write_all(&byte).unwrap();
        }
    });
    let mut byte = [1];
    for _ in 0..rounds {
        here.write_all(&byte).unwrap();
        here.read_exact(&mut byte).unwrap();
    }
    drop(here);
    other.join().unwrap();
}

#[test]
fn counts_of_a_busy_cpu_grow_and_never_fall() {
    let _alone = alone();
    let Some(counters) = open() else { return };
    let cpu = allowed().first().unwrap();
    std::thread::spawn(move || {
        pin(cpu);
        let begin = counters.read(cpu);
        let mut last = begin;
        for _ in 0..10 {
            keep_busy(Duration::from_millis(10));
            let now = counters.read(cpu);
            assert!(COUNTERS.iter().all(|&c| now.get(c) >= last.get(c)), "{last:?} then {now:?}");
            last = now;
        }
        // Not even a tickless CPU goes 100 ms with another thread about and no interrupt at all.
        assert!(last.minus(&begin).interrupts() > 0, "{last:?}");
    })
    .join()
    .unwrap();
}

#[test]
fn a_forced_wake_up_raises_the_switches_of_its_own_cpu() {
    let _alone = alone();
    let Some(counters) = open() else { return };
    let cpu = allowed().iter().last().unwrap();
    let added = std::thread::spawn(move || {
        pin(cpu);
        let before = counters.read(cpu);
        ping_pong(100);
        counters.read(cpu).minus(&before)
    })
    .join()
    .unwrap();
    assert!(added.switches >= 200, "{added:?}");
}

#[test]
fn asking_another_cpu_to_run_a_function_is_counted_there() {
    let _alone = alone();
    let Some(counters) = open() else { return };
    if allowed().len() < 2 || !counters.has(InterruptCounter::CallFunction) {
        return eprintln!("skipped: it takes two CPUs and the tracepoints of function calls");
    }
    let (here, there) = (allowed().first().unwrap(), allowed().iter().nth(1).unwrap());
    let stop = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let stopping = stop.clone();
    let runner = std::thread::spawn(move || {
        pin(there);
        while !stopping.load(std::sync::atomic::Ordering::Relaxed) {
            keep_busy(Duration::from_millis(1));
        }
    });
    std::thread::spawn(move || {
        pin(here);
        // A membarrier that has other CPUs run a barrier, which is such a function.
        // SAFETY: registers and issues a barrier; no memory is passed.
        let barrier = |command: i32| unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) };
        assert_eq!(barrier(1 << 4), 0);
        let before = counters.read(there);
        let begin = Instant::now();
        let added = loop {
            assert_eq!(barrier(1 << 3), 0);
            let added = counters.read(there).minus(&before);
            if added.call_function > 0 || begin.elapsed() > Duration::from_secs(5) {
                break added;
            }
        };
        assert!(added.call_function > 0, "{added:?}");
    })
    .join()
    .unwrap();
    stop.store(true, std::sync::atomic::Ordering::Relaxed);
    runner.join().unwrap();
}

#[test]
fn two_sets_of_counters_count_the_same_side_by_side() {
    let _alone = alone();
    let (Some(one), Some(two)) = (open(), open()) else { return };
    let cpu = allowed().first().unwrap();
    std::thread::spawn(move || {
        pin(cpu);
        let (one_before, two_before) = (one.read(cpu), two.read(cpu));
        ping_pong(50);
        let two_added = two.read(cpu).minus(&two_before);
        let one_added = one.read(cpu).minus(&one_before);
        // The second was read inside of the first: it cannot have seen more.
        assert!(one_added.switches >= two_added.switches && two_added.switches >= 100);
        assert!(one_added.local_timer >= two_added.local_timer);
    })
    .join()
    .unwrap();
}

/// The kernel's own counts for one CPU: the slow twin of some counters.
fn kernels_own(cpu: Cpu) -> Vec<(InterruptCounter, u64)> {
    let table = InterruptTable::read().unwrap();
    let rows = [
        (InterruptCounter::LocalTimer, "LOC"),
        (InterruptCounter::Reschedule, "RES"),
        (InterruptCounter::CallFunction, "CAL"),
    ];
    let mut counts: Vec<_> =
        rows.iter().filter_map(|&(counter, row)| Some((counter, table.count(row, cpu)?))).collect();
    // The same layout, one row per kind of softirq.
    let text = std::fs::read_to_string("/proc/softirqs").unwrap();
    let softirqs = InterruptTable::parse(&text).unwrap();
    let kinds = text.lines().filter_map(|line| Some(line.split_once(':')?.0.trim()));
    counts.push((
        InterruptCounter::Softirqs,
        kinds.filter_map(|kind| softirqs.count(kind, cpu)).sum(),
    ));
    counts
}

/// One window on `cpu`: for each counter, what it counted from after the kernel's first reading to
/// before its last one, what the kernel counted, and what it counted from before to after.
fn window(counters: &InterruptCounters, cpu: Cpu) -> Vec<(InterruptCounter, u64, u64, u64)> {
    let outer = counters.read(cpu);
    let kernel_begin = kernels_own(cpu);
    let inner = counters.read(cpu);
    std::thread::sleep(Duration::from_millis(60));
    let inner = counters.read(cpu).minus(&inner);
    let kernel_end = kernels_own(cpu);
    let outer = counters.read(cpu).minus(&outer);
    let kernel = kernel_begin.iter().zip(kernel_end);
    kernel.map(|(&(c, begin), (_, end))| (c, inner.get(c), end - begin, outer.get(c))).collect()
}

/// Never more than the kernel's own, and equal in most windows. Not in all: a kernel may decline to
/// run programs, as some do while process 1 has the CPU. One more or less is no difference: the
/// kernel counts some instructions before or after it passes its tracepoint.
#[test]
fn every_count_equals_the_kernels_own() {
    let _alone = alone();
    let Some(counters) = open() else { return };
    if cfg!(not(target_arch = "x86_64")) {
        return eprintln!("skipped: the rows of /proc/interrupts are named otherwise here");
    }
    for cpu in allowed().iter().take(4) {
        let windows: Vec<_> = (0..9).map(|_| window(&counters, cpu)).collect();
        for row in 0..windows[0].len() {
            let of_row: Vec<_> = windows.iter().map(|window| window[row]).collect();
            let counter = of_row[0].0;
            if !counters.has(counter) {
                eprintln!("skipped: {counter:?} is not counted here");
                continue;
            }
            assert!(of_row.iter().all(|&(_, least, kernel, _)| least <= kernel + 1), "{of_row:?}");
            let equal = of_row.iter().filter(|&&(_, _, kernel, most)| kernel <= most + 1).count();
            assert!(equal >= 5, "{cpu} {of_row:?}");
        }
    }
}

/// The parts of the kernel's BPF subsystem that this process holds: open files and mapped memory.
fn held_of_bpf() -> usize {
    let links = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
    let open = links
        .filter_map(|entry| std::fs::read_link(entry.path()).ok())
        .filter(|target| target.to_string_lossy().contains("bpf"))
        .count();
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    open + maps.lines().filter(|line| line.contains("anon_inode:bpf")).count()
}

/// Whether the kernel has a program of this number (BPF_PROG_GET_FD_BY_ID).
fn is_loaded(program: u32) -> bool {
    let attr = [program, 0, 0];
    // SAFETY: attr is of the size given and has no pointers in it.
    let fd = unsafe { libc::syscall(libc::SYS_bpf, 13, attr.as_ptr(), size_of_val(&attr)) };
    if fd >= 0 {
        // SAFETY: just opened, with no other owner.
        unsafe { libc::close(fd as i32) };
    }
    fd >= 0
}

/// The kernel takes programs apart after a grace period.
fn are_gone_soon(programs: &[u32]) -> bool {
    let begin = Instant::now();
    while programs.iter().any(|&id| is_loaded(id)) {
        if begin.elapsed() > Duration::from_secs(10) {
            return false;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    true
}

fn program_ids(counters: &InterruptCounters) -> Vec<u32> {
    counters.programs().unwrap().iter().map(|(_, info)| info.id).collect()
}

#[test]
fn dropping_the_counters_leaves_nothing_in_the_process_and_nothing_in_the_kernel() {
    let _alone = alone();
    let before = held_of_bpf();
    let Some(counters) = open() else { return };
    let programs = program_ids(&counters);
    // A program and a link for each tracepoint, the map, and the memory that shows the counts.
    assert_eq!(held_of_bpf(), before + 2 * programs.len() + 2);
    assert!(programs.iter().all(|&id| is_loaded(id)));
    drop(counters);
    assert_eq!(held_of_bpf(), before);
    assert!(are_gone_soon(&programs), "{programs:?}");
}

/// Not a test: the process that the next one kills.
#[test]
fn holds_counters_until_killed_if_told_to() {
    if std::env::var_os("COREHOP_TEST_HOLD").is_some() {
        let counters = open().unwrap();
        let ids: Vec<_> = program_ids(&counters).iter().map(ToString::to_string).collect();
        eprintln!("\nloaded {}", ids.join(" "));
        std::thread::sleep(Duration::from_mins(1));
    }
}

#[test]
fn a_killed_process_leaves_nothing_in_the_kernel() {
    let _alone = alone();
    let Some(counters) = open() else { return };
    drop(counters);
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "holds_counters_until_killed_if_told_to", "--nocapture"])
        .env("COREHOP_TEST_HOLD", "1")
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
    let loaded = lines.find_map(|line| line.strip_prefix("loaded ").map(str::to_owned));
    let programs: Vec<u32> = loaded.unwrap().split(' ').map(|id| id.parse().unwrap()).collect();
    assert!(!programs.is_empty() && programs.iter().all(|&id| is_loaded(id)));
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(are_gone_soon(&programs), "{programs:?}");
}

#[test]
fn no_program_is_rejected_by_this_kernels_verifier() {
    let _alone = alone();
    let Some(counters) = open() else { return };
    for skipped in counters.skipped() {
        eprintln!("{:?}: {}", skipped.counter, skipped.reason);
        assert!(!skipped.reason.contains("verifier"), "{}", skipped.reason);
    }
    assert!(counters.has(InterruptCounter::Switches));
}

/// The type information of this kernel with every `from` in it called `to`.
fn kernel_without(from: &str, to: &str) -> Option<Btf> {
    let mut bytes = std::fs::read(bpf::VMLINUX_BTF).ok()?;
    assert_eq!(from.len(), to.len());
    for at in 0..bytes.len() - from.len() {
        if bytes[at..].starts_with(from.as_bytes()) {
            bytes[at..at + to.len()].copy_from_slice(to.as_bytes());
        }
    }
    Some(bpf::parse_types(&bytes).unwrap())
}

#[test]
fn a_kernel_that_lacks_a_tracepoint_or_a_field_has_that_counter_skipped_and_named() {
    let _alone = alone();
    let Some(counters) = open() else { return };
    for (from, to, counter) in [
        ("btf_trace_sched_switch", "btf_trace_sched_swatch", InterruptCounter::Switches),
        ("prev_steal_time_rq", "prev_steal_time_qr", InterruptCounter::Steal),
    ] {
        if !counters.has(counter) {
            eprintln!("skipped: this kernel does not give {counter:?} anyway");
            continue;
        }
        let types = kernel_without(from, to).unwrap();
        let poorer = InterruptCounters::open_with(&types, &allowed()).unwrap();
        let skipped = poorer.skipped().iter().find(|skipped| skipped.counter == counter).unwrap();
        let named = from.trim_start_matches("btf_trace_");
        assert!(skipped.reason.contains(named), "{}", skipped.reason);
        assert!(!poorer.has(counter) && poorer.has(InterruptCounter::Softirqs));
    }
}

#[test]
fn a_kernel_that_lacks_every_tracepoint_is_an_error_that_names_them() {
    let _alone = alone();
    if open().is_none() {
        return;
    }
    let types = kernel_without("btf_trace_", "btf_trake_").unwrap();
    let error = InterruptCounters::open_with(&types, &allowed()).unwrap_err();
    assert!(matches!(error, BpfError::NothingToCount { .. }));
    let text = error.to_string();
    assert!(text.contains("local_timer_entry") && text.contains("sched_switch"), "{text}");
}

/// Run `command` of this test binary without privileges; false where that cannot be done.
#[test]
fn without_privileges_the_error_says_which_and_what_gives_it() {
    let _alone = alone();
    if std::env::var_os("COREHOP_TEST_NOBODY").is_some() {
        let error = InterruptCounters::open(&allowed()).unwrap_err();
        assert!(error.is_general(), "{error}");
        return eprintln!("\nanswer {error}");
    }
    // SAFETY: no preconditions.
    if unsafe { libc::geteuid() } != 0 {
        return eprintln!("skipped: only root can become nobody");
    }
    let directory = tempfile::tempdir().unwrap();
    let copy = directory.path().join("test");
    std::fs::copy(std::env::current_exe().unwrap(), &copy).unwrap();
    for path in [directory.path(), &copy] {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    let output = Command::new(&copy)
        .args(["--exact", "without_privileges_the_error_says_which_and_what_gives_it"])
        .arg("--nocapture")
        .env("COREHOP_TEST_NOBODY", "1")
        .current_dir("/")
        .uid(65534)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}");
    assert!(text.contains("answer the kernel denies a BPF map"), "{text}");
    assert!(text.contains("cap_bpf,cap_perfmon"), "{text}");
}

#[test]
fn a_difference_is_by_counter_and_never_below_zero() {
    let earlier = InterruptCounts { local_timer: 5, switches: 9, ..Default::default() };
    let later = InterruptCounts { local_timer: 7, switches: 8, steal_ns: 40, ..earlier };
    let added = later.minus(&earlier);
    assert_eq!((added.local_timer, added.switches, added.steal_ns), (2, 0, 40));
    assert_eq!(added.interrupts(), 2);
    let causes: Vec<_> = added.causes().collect();
    assert_eq!(causes, [(InterruptCounter::LocalTimer, 2), (InterruptCounter::Steal, 40)]);
}
