// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of a host that loses its foundations: BPF fails, threads end, and thread IDs are reused.
#![expect(clippy::print_stderr, reason = "a skip says why")]

use super::*;
use corehop_system::discover::{SysRoot, discover};
use std::process::{Command, Stdio};

/// A process that sleeps until this value is dropped.
struct Sleeper(Child);

impl Sleeper {
    fn begin() -> Self {
        Self(Command::new("sleep").arg("60").stdout(Stdio::null()).spawn().unwrap())
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        // It may have been killed.
        let _gone = self.0.kill();
        let _status = self.0.wait();
    }
}

fn begin(sleeper: &Sleeper, search: bool) -> Result<PlacingHost, PlacingError> {
    let evidence = &[Evidence::Wakes, Evidence::Locks][..];
    let platform = discover(&SysRoot::live()).unwrap();
    let wishes = PlacerSettings {
        platform: &platform,
        progress: None,
        evidence,
        page_faults: 100,
        search,
        moves: false,
        to_stderr: false,
    };
    PlacingHost::begin(&[Target::Process(sleeper.0.id())], wishes)
}

/// Makes the kernel refuse bpf(2) to the calling thread from now on.
fn lose_bpf() {
    // seccomp(2): the number of the call is the first word; RET_ERRNO with EPERM, or RET_ALLOW.
    let step = |code, jt, jf, k| libc::sock_filter { code, jt, jf, k };
    let mut program = [
        step(0x20, 0, 0, 0),
        step(0x15, 0, 1, libc::SYS_bpf as u32),
        step(0x06, 0, 0, 0x0005_0000 | libc::EPERM as u32),
        step(0x06, 0, 0, 0x7fff_0000),
    ];
    let filter = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    // SAFETY: the filter outlives the call.
    let done = unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
            && libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const filter) == 0
    };
    assert!(done, "{}", io::Error::last_os_error());
}

/// Runs a test in a separate thread, whose system call filter ends with it.
fn apart(test: fn()) {
    std::thread::spawn(test).join().unwrap();
}

const WINDOW: Duration = Duration::from_millis(10);

#[test]
fn with_bpf_lost_in_the_middle_its_sources_are_off_and_a_search_goes_on() {
    apart(|| {
        let sleeper = Sleeper::begin();
        let mut host = begin(&sleeper, true).unwrap();
        if !host.notes().is_empty() {
            return eprintln!("skipped: no BPF");
        }
        lose_bpf();
        let activity = host.observe(WINDOW).unwrap().activity.unwrap();
        assert_eq!(activity.threads.len(), 1);
        let notes = host.notes().join("\n");
        for word in ["wakes", "locks"] {
            assert!(notes.contains(&format!("--evidence {word} is off from now on: ")), "{notes}");
        }
        assert!(host.sources().is_empty());
        // Its threads are found without the kernel's table, and its end is noticed.
        assert_eq!(host.observe(WINDOW).unwrap().activity.unwrap().threads.len(), 1);
        assert_eq!(host.notes(), [""; 0]);
        drop(sleeper);
        assert!(host.observe(WINDOW).unwrap().ended.is_some());
    });
}

#[test]
fn with_bpf_lost_and_no_source_left_placing_ends_and_says_why() {
    apart(|| {
        let sleeper = Sleeper::begin();
        let Ok(mut host) = begin(&sleeper, false) else { return eprintln!("skipped: no BPF") };
        host.observe(WINDOW).unwrap();
        lose_bpf();
        // Locks are asked for again in the tenth window.
        let error = (0..12).find_map(|_| host.observe(WINDOW).err()).unwrap().to_string();
        assert!(
            error.starts_with("no source of evidence is left to show which threads share data"),
            "{error}"
        );
    });
}

#[test]
fn without_bpf_from_the_beginning_a_search_goes_on_and_anything_else_is_refused() {
    apart(|| {
        let sleeper = Sleeper::begin();
        lose_bpf();
        let error = begin(&sleeper, false).unwrap_err().to_string();
        assert!(error.contains("--evidence wakes,locks is off: ") && error.contains("setcap"));
        let mut host = begin(&sleeper, true).unwrap();
        assert_eq!(host.observe(WINDOW).unwrap().activity.unwrap().threads.len(), 1);
        assert!(host.notes().join("\n").contains("setcap cap_bpf"));
    });
}

#[test]
fn a_thread_that_is_not_followed_or_has_ended_is_not_moved() {
    apart(|| {
        let sleeper = Sleeper::begin();
        let mut host = begin(&sleeper, true).unwrap();
        host.observe(WINDOW).unwrap();
        let own = corehop_system::thread::current_tid();
        let before = corehop_system::thread::affinity().unwrap();
        let cpus = CpuList::new(before.iter().take(1));
        let moved = |host: &mut PlacingHost, tid| host.apply(&[Move { tid, cpus: cpus.clone() }]);
        let error = moved(&mut host, own).unwrap_err().to_string();
        assert!(error.contains("corehop does not follow this thread"), "{error}");
        assert_eq!(corehop_system::thread::affinity().unwrap(), before);
        let pid = sleeper.0.id();
        drop(sleeper);
        assert!(moved(&mut host, pid).is_err());
    });
}

/// A window of a host whose last looks took these times, and the duration of the window.
fn window_after(looks: [u64; 3], closely: bool) -> (Duration, PlacingHost, Sleeper) {
    let sleeper = Sleeper::begin();
    let mut host = begin(&sleeper, true).unwrap();
    host.look_closely(closely);
    host.look_times = looks.map(Duration::from_micros);
    let activity = host.observe(WINDOW).unwrap().activity.unwrap();
    (Duration::from_nanos(activity.span_ns), host, sleeper)
}

/// The test checks the limit on the cost of looks: with a median look of 1 ms over three, a window lasts at least 300
/// ms, and a third of that while a placement is tried.
#[test]
fn a_window_is_as_long_as_the_usual_look_makes_it() {
    let ms = Duration::from_millis;
    let least = |looks, closely| window_after(looks, closely).0;
    assert!(least([1_000, 0, 1_000], false) >= ms(300), "two of three looks took 1 ms");
    assert!(least([1_000; 3], true) >= ms(100), "a trial");
    // Shorter windows than those are held up by a busy host, and some of five are not.
    let most = |looks, closely, limit: Duration| {
        let seen: Vec<Duration> = (0..5).map(|_| least(looks, closely)).collect();
        assert!(seen.iter().any(|&it| it >= WINDOW && it < limit), "{looks:?}: {seen:?}");
    };
    most([0, 0, 9_000], false, ms(200));
    most([1_000; 3], true, ms(250));
}

#[test]
fn each_look_is_charged_with_its_cpu_time_and_the_oldest_of_three_is_forgotten() {
    apart(|| {
        let (_, mut host, _sleeper) = window_after([1, 2, 3], false);
        let [first, second, own] = host.look_times;
        assert_eq!([first, second], [2, 3].map(Duration::from_micros));
        // It reads some files in /proc.
        assert!((Duration::from_micros(5)..Duration::from_secs(1)).contains(&own), "{own:?}");
        let before = thread_cpu_time().get();
        host.observe(WINDOW).unwrap();
        let all = Duration::from_nanos(thread_cpu_time().get() - before);
        assert!(host.look_times[2] <= all, "{:?} of {all:?}", host.look_times);
        assert_eq!(host.look_times[1], own);
    });
}
