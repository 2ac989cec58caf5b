// SPDX-License-Identifier: MIT OR Apache-2.0
//! The control page against the kernel's own counts. Needs root or CAP_BPF with CAP_PERFMON, and
//! skips with the reason where it may not.
#![expect(clippy::print_stderr, reason = "a skip says why")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use corehop_linux::bpf::control::{
    AbsenceCounts, AbsenceRecord, ControlPage, ControlPages, PagePurpose,
};
use corehop_linux::counters::software::ThreadCounts;
use corehop_plan::units::Cpu;
use corehop_system::thread::{SchedulingPolicy, affinity, current_cpu, set_affinity, set_policy};

/// The pages, or nothing and the reason why this host does not give them.
fn open(mode: PagePurpose) -> Option<Arc<ControlPages>> {
    match ControlPages::open(mode) {
        Ok(pages) => Some(pages),
        Err(error) if error.is_general() => {
            eprintln!("skipped: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// The kernel's own count of this thread's migrations, where it shows one.
fn kernels_migrations() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/thread-self/sched").ok()?;
    let line = text.lines().find(|line| line.starts_with("se.nr_migrations"))?;
    line.split_once(':')?.1.trim().parse().ok()
}

/// The page's counts and the kernel's, with no absence in between.
fn both(page: &ControlPage) -> (AbsenceCounts, ThreadCounts) {
    loop {
        let (before, kernels, after) = (page.read(), ThreadCounts::read(), page.read());
        if before == after {
            return (after, kernels);
        }
    }
}

/// The page's counts after an arrival that was seen (not all are, on some kernels).
fn settled(page: &ControlPage) -> AbsenceCounts {
    loop {
        let counts = page.read();
        if !counts.is_away {
            return counts;
        }
        thread::sleep(Duration::from_micros(10));
    }
}

fn on_a_thread<T: Send + 'static>(run: impl FnOnce() -> T + Send + 'static) -> T {
    thread::spawn(run).join().unwrap()
}

/// Takes the CPU away from the thread that runs on it, some thousand times a second, until told to stop.
fn preemptor(cpu: Cpu, stop: Arc<AtomicBool>) -> thread::JoinHandle<i32> {
    thread::spawn(move || {
        set_affinity([cpu]).unwrap();
        // SAFETY: both concern the calling thread; a refusal leaves slower preemption.
        unsafe {
            libc::setpriority(libc::PRIO_PROCESS, 0, -19);
            libc::prctl(libc::PR_SET_TIMERSLACK, 1);
        }
        while !stop.load(Ordering::Relaxed) {
            thread::sleep(Duration::from_micros(100));
        }
        // SAFETY: asks a number of the kernel.
        unsafe { libc::gettid() }
    })
}

#[test]
fn a_thousand_preemptions_are_counted_as_the_kernel_counts_them() {
    let Some(pages) = open(PagePurpose::Own) else { return };
    on_a_thread(move || {
        let cpu = current_cpu();
        set_affinity([cpu]).unwrap();
        let page = pages.register().unwrap();
        let (first, kernels_first) = both(&page);
        let stop = Arc::new(AtomicBool::new(false));
        let other = preemptor(cpu, stop.clone());
        let begin = Instant::now();
        while page.read().preemptions - first.preemptions < 1_000 {
            assert!(begin.elapsed() < Duration::from_mins(2), "{:?}", page.read());
        }
        let (last, kernels) = both(&page);
        let span = begin.elapsed().as_nanos() as u64;
        stop.store(true, Ordering::Relaxed);
        let kernels = kernels.minus(&kernels_first);
        assert_eq!(last.preemptions - first.preemptions, kernels.involuntary_switches);
        assert_eq!(last.voluntary - first.voluntary, kernels.voluntary_switches);
        assert_eq!((last.migrations, last.cpu_changes), (first.migrations, first.cpu_changes));
        assert_eq!((last.out_cpu, last.in_cpu), (u64::from(cpu.0), u64::from(cpu.0)));
        assert!(last.is_away || last.last_ns == last.in_ns - last.out_ns);
        let away = last.preempted_ns - first.preempted_ns;
        assert!(0 < away && away < span, "away {away} ns of {span}");
        assert!(other.join().unwrap() > 0 && last.by > 0);
    });
}

#[test]
fn a_thousand_moves_of_its_own_are_counted_and_told_from_the_schedulers() {
    let Some(pages) = open(PagePurpose::Own) else { return };
    on_a_thread(move || {
        let cpus: Vec<Cpu> = affinity().unwrap().iter().collect();
        if cpus.len() < 2 {
            eprintln!("skipped: one CPU only");
            return;
        }
        set_affinity([cpus[0]]).unwrap();
        let page = pages.register().unwrap();
        let (first, kernels_first) = (settled(&page), kernels_migrations());
        for round in 1..=1_000 {
            set_affinity([cpus[round % 2]]).unwrap();
            let now = page.read();
            assert!(now.is_away || now.in_cpu == u64::from(cpus[round % 2].0), "{round}: {now:?}");
            assert_eq!(now.affinity_moves - first.affinity_moves, round as u64);
        }
        let last = settled(&page);
        let migrations = last.migrations - first.migrations;
        assert_eq!((migrations, last.cpu_changes - first.cpu_changes), (1_000, 1_000));
        assert_eq!(last.departures, last.arrivals + last.unseen);
        match (kernels_first, kernels_migrations()) {
            (Some(first), Some(last)) => assert_eq!(last - first, migrations),
            _ => eprintln!("not compared: this kernel shows no se.nr_migrations"),
        }
    });
}

/// A real-time thread bound to `cpu` that takes it, whenever it is woken, until `of_other` is elsewhere, or
/// for a fraction of a millisecond; it ends when `stop` says so.
fn pusher(cpu: Cpu, of_other: Arc<AtomicU32>, stop: Arc<AtomicBool>) -> thread::JoinHandle<()> {
    thread::spawn(move || {
        set_affinity([cpu]).unwrap();
        set_policy(SchedulingPolicy::Fifo(2)).unwrap();
        while !stop.load(Ordering::Relaxed) {
            thread::park();
            let begin = Instant::now();
            while of_other.load(Ordering::Relaxed) == cpu.0
                && begin.elapsed() < Duration::from_micros(300)
            {
                std::hint::spin_loop();
            }
        }
    })
}

#[test]
fn a_thousand_moves_by_the_scheduler_are_counted_as_the_kernel_counts_them() {
    let Some(pages) = open(PagePurpose::Own) else { return };
    on_a_thread(move || {
        let cpus: Vec<Cpu> = affinity().unwrap().iter().collect();
        if cpus.len() < 2 || kernels_migrations().is_none() {
            eprintln!("skipped: one CPU only, or a kernel that shows no se.nr_migrations");
            return;
        }
        if let Err(error) = set_policy(SchedulingPolicy::Fifo(1)) {
            eprintln!("skipped: SCHED_FIFO: {error}");
            return;
        }
        let (here, stop) =
            (Arc::new(AtomicU32::new(current_cpu().0)), Arc::new(AtomicBool::new(false)));
        let pushers: Vec<_> =
            cpus.iter().map(|&cpu| (cpu, pusher(cpu, here.clone(), stop.clone()))).collect();
        let page = pages.register().unwrap();
        let (first, kernels_first) = (settled(&page), kernels_migrations().unwrap());
        let begin = Instant::now();
        while page.read().migrations - first.migrations < 1_000
            && begin.elapsed() < Duration::from_secs(30)
        {
            let (cpu, round) = (current_cpu(), Instant::now());
            here.store(cpu.0, Ordering::Relaxed);
            let own = pushers.iter().find(|(of, _)| *of == cpu);
            own.unwrap().1.thread().unpark();
            while current_cpu() == cpu && round.elapsed() < Duration::from_micros(300) {
                std::hint::spin_loop();
            }
            here.store(u32::MAX, Ordering::Relaxed);
            thread::sleep(Duration::from_millis(1));
        }
        let (last, kernels) = (settled(&page), kernels_migrations().unwrap());
        stop.store(true, Ordering::Relaxed);
        for (_, pusher) in pushers {
            pusher.thread().unpark();
            pusher.join().unwrap();
        }
        let migrations = last.migrations - first.migrations;
        assert!(migrations >= 1_000, "{migrations} moves in {:?}", begin.elapsed());
        assert_eq!(migrations, kernels - kernels_first);
        assert_eq!(last.affinity_moves, first.affinity_moves, "none of them was its own");
    });
}

#[test]
fn two_users_at_once_count_the_same_and_slots_are_used_again() {
    let (Some(one), Some(two)) = (open(PagePurpose::Own), open(PagePurpose::Own)) else { return };
    on_a_thread(move || {
        let (first, second) = (one.register().unwrap(), two.register().unwrap());
        let begin = (first.read(), second.read());
        for _ in 0..100 {
            thread::sleep(Duration::from_micros(50));
        }
        let (a, b) = (first.read(), second.read());
        assert_eq!(a.voluntary - begin.0.voluntary, b.voluntary - begin.1.voluntary);
        assert!(a.voluntary - begin.0.voluntary >= 100);
        drop(first);
        for _ in 0..3_000 {
            let page = one.register().unwrap();
            assert!(page.read().voluntary < 100, "a slot begins with zeros");
        }
        drop(one);
        let before = second.read();
        thread::sleep(Duration::from_micros(10));
        assert!(second.read().departures > before.departures, "the other one goes on");
    });
}

#[test]
fn a_thread_that_is_not_registered_leaves_no_trace() {
    let Some(pages) = open(PagePurpose::Own) else { return };
    on_a_thread(move || {
        let page = pages.register().unwrap();
        let (mine, counted) = (page.read().tid, pages.all().len());
        on_a_thread(|| (0..50).for_each(|_| thread::sleep(Duration::from_micros(10))));
        assert_eq!((pages.all().len(), page.read().tid), (counted, mine));
        let programs = pages.programs().unwrap();
        assert_eq!(
            programs.iter().map(|&(name, _)| name).collect::<Vec<_>>(),
            ["sched_switch", "sched_migrate_task"]
        );
    });
}

#[test]
fn children_are_followed_and_their_absences_recorded() {
    let Some(pages) = open(PagePurpose::Follow) else { return };
    let cpu = current_cpu().0;
    let (mut begin, start) = std::os::unix::net::UnixStream::pair().unwrap();
    let script = "read go; i=0; while [ $i -lt 60000 ]; do i=$((i+1)); done & \
                  i=0; while [ $i -lt 60000 ]; do i=$((i+1)); done; wait; /bin/true";
    let mut shell = std::process::Command::new("taskset")
        .args(["-c", &cpu.to_string(), "sh", "-c", script])
        .stdin(std::os::fd::OwnedFd::from(start))
        .spawn()
        .unwrap();
    pages.watch(shell.id(), shell.id(), None).unwrap();
    std::io::Write::write_all(&mut begin, b"\n").unwrap();
    assert!(shell.wait().unwrap().success());
    let mut absences: Vec<AbsenceRecord> = Vec::new();
    pages.absences(|absence| absences.push(absence));
    let threads = pages.all();
    assert!(threads.len() >= 3, "the shell, its loop, /bin/true: {threads:?}");
    assert!(threads.iter().all(|thread| thread.tid > 0 && !pages.watches(thread.tid)));
    assert_eq!((pages.lost(), pages.unfollowed()), (0, 0));
    let preempted = absences.iter().filter(|absence| absence.preempted).count() as u64;
    // The last absence of a thread that came back unseen and then ended has no record.
    let unseen_end = threads.iter().filter(|thread| thread.is_away && thread.was_preempted).count();
    let counted = threads.iter().map(|thread| thread.preemptions).sum::<u64>();
    let brief: u64 = threads.iter().map(|thread| thread.brief).sum();
    assert_eq!(preempted, counted - unseen_end as u64 - brief);
    assert!(preempted > 0, "two loops share a CPU");
    // Any thread; on a busy machine it need not be the other loop.
    assert!(absences.iter().all(|it| !it.preempted || it.by_name[0] != 0));
    assert!(absences.iter().all(|it| it.in_ns > it.out_ns));
}
