// SPDX-License-Identifier: MIT OR Apache-2.0
//! Recording unmodified programs, by each way there is: BPF needs root or CAP_BPF with
//! CAP_PERFMON, records of switches `kernel.perf_event_paranoid` 2. Skips with the reason where it may not.
#![expect(clippy::print_stderr, reason = "a skip says why")]

use std::io::Write as _;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use corehop_linux::control_page::AbsenceMethod;
use corehop_linux::observe::{How, ObserveError, record};
use corehop_plan::experiment::{Argument, Target};
use corehop_plan::machine::RunEnd;
use corehop_plan::samples::{Absence, ObservedThread, ProgramRecord, RecordingFacts};
use corehop_system::thread::current_cpu;

/// Both ways of recording a program.
const METHODS: [AbsenceMethod; 2] = [AbsenceMethod::Bpf, AbsenceMethod::Records];

/// The records of a run.
#[derive(Debug, Default)]
struct Recording {
    facts: RecordingFacts,
    threads: Vec<ObservedThread>,
    absences: Vec<Absence>,
}

impl Recording {
    fn take(&mut self, record: &ProgramRecord) {
        match record {
            ProgramRecord::Absence(absence) => self.absences.push(absence.clone()),
            ProgramRecord::Thread(thread) => self.threads.push(thread.clone()),
            ProgramRecord::Begin(_) | ProgramRecord::End(_) => {}
        }
    }
}

/// Records until the target ends, or for as long as this.
fn recording(
    target: &Target,
    most: Option<Duration>,
    method: AbsenceMethod,
) -> Result<Recording, ObserveError> {
    recording_then(target, most, method, &mut || {})
}

/// The same, with what is to happen once recording has begun: again and again, until the target ends.
fn recording_then(
    target: &Target,
    most: Option<Duration>,
    method: AbsenceMethod,
    begun: &mut dyn FnMut(),
) -> Result<Recording, ObserveError> {
    let how = How { to_stderr: true, method: Some(method), ..How::default() };
    let (begin, mut recording) = (Instant::now(), Recording::default());
    let mut take = |records: &[ProgramRecord]| {
        begun();
        for record in records {
            recording.take(record);
        }
        Ok(most.is_none_or(|most| begin.elapsed() < most))
    };
    let (facts, end) = record(target, &how, &mut take)?;
    assert_eq!(end == RunEnd::Complete, facts.status.is_some() || most.is_none());
    Ok(Recording { facts, ..recording })
}

fn recorded(target: &Target, most: Option<Duration>, method: AbsenceMethod) -> Option<Recording> {
    allowed(recording(target, most, method), method)
}

/// The recording, or nothing and the reason why this host does not allow it.
fn allowed(outcome: Result<Recording, ObserveError>, method: AbsenceMethod) -> Option<Recording> {
    match outcome {
        Ok(recording) => {
            let facts = &recording.facts;
            assert_eq!((facts.method.as_str(), &facts.why_not_bpf), (method.name(), &None));
            Some(recording)
        }
        Err(error) if is_general(&error) => {
            eprintln!("skipped: {method}: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// Whether the host does not allow it, whatever is recorded.
fn is_general(error: &ObserveError) -> bool {
    match error {
        ObserveError::Bpf(error) => error.is_general(),
        ObserveError::Records(error) => {
            matches!(error.raw_os_error(), Some(libc::EACCES | libc::EPERM | libc::ENOSYS))
        }
        ObserveError::Neither { .. } => true,
        ObserveError::NoTarget { .. }
        | ObserveError::NotFollowed { .. }
        | ObserveError::Failed { .. }
        | ObserveError::Sink(_) => false,
    }
}

fn command(words: &[&str]) -> Target {
    Target::Command(words.iter().map(|word| Argument::new(word.as_bytes().to_vec())).collect())
}

/// Two loops on one CPU, which have to take turns.
const TURNS: &str = "i=0; while [ $i -lt 80000 ]; do i=$((i+1)); done & \
                     i=0; while [ $i -lt 80000 ]; do i=$((i+1)); done; wait; exit 3";

#[test]
fn a_command_is_followed_from_its_first_instruction_to_its_last() {
    let cpu = current_cpu().0.to_string();
    let target = command(&["taskset", "-c", &cpu, "sh", "-c", TURNS]);
    for method in METHODS {
        let Some(run) = recorded(&target, None, method) else { continue };
        took_turns(&run, method);
    }
}

fn took_turns(run: &Recording, method: AbsenceMethod) {
    let facts = &run.facts;
    assert_eq!((facts.status, facts.lost, facts.unfollowed), (Some(3), 0, 0));
    let shells: Vec<_> = run.threads.iter().filter(|thread| thread.name == "sh").collect();
    assert_eq!(shells.len(), 2, "{:?}", run.threads);
    let preempted = run.absences.iter().filter(|absence| absence.preempted).count() as u64;
    let counted: u64 = run.threads.iter().map(|it| it.preemptions).sum();
    assert!(preempted > 0 && preempted <= counted, "{preempted} of {counted}: {:?}", run.threads);
    let named = |it: &corehop_plan::samples::Absence| {
        it.by.as_ref().map(|(_, name)| !name.is_empty())
            == (method == AbsenceMethod::Bpf && it.preempted).then_some(true)
    };
    assert!(run.absences.iter().all(named), "{:?}", run.absences);
    assert!(run.absences.iter().all(|it| it.length_ns() > 0 && it.length_ns() < facts.span_ns));
    assert!(facts.rss_bytes.is_some_and(|bytes| bytes > 100_000), "{:?}", facts.rss_bytes);
    assert!(facts.took.own_ns > 0);
    let switches = run.threads.iter().map(|it| it.preemptions + it.voluntary).sum::<u64>();
    assert!(facts.took.switches.is_none_or(|it| it.count == switches), "{:?}", facts.took);
}

/// Two loops that share one CPU from begin to end: each waits while the other runs. Where others had the CPU for longer than
/// the loops, they took more turns than are kept: the loops run again.
#[test]
fn waiting_is_as_long_as_others_had_the_cpu_and_booked_to_them() {
    const ATTEMPTS: u32 = 4;
    for attempt in 1..=ATTEMPTS {
        match shared_one_cpu() {
            Some(false) => eprintln!("attempt {attempt} of {ATTEMPTS}: others had the CPU"),
            Some(true) | None => return,
        }
    }
    eprintln!("skipped: this host is too busy to tell whether all of a wait is booked");
}

/// Whether what two loops waited was for each other in the main, so that nearly all of it had to be booked; the rest holds
/// whatever else runs. Nothing where this host does not allow it, and the reason.
fn shared_one_cpu() -> Option<bool> {
    let cpu = current_cpu().0.to_string();
    let turns = "i=0; while [ $i -lt 150000 ]; do i=$((i+1)); done & \
                 i=0; while [ $i -lt 150000 ]; do i=$((i+1)); done; wait";
    let target = command(&["taskset", "-c", &cpu, "sh", "-c", turns]);
    let run = recorded(&target, None, AbsenceMethod::Bpf)?;
    let loops: Vec<_> = run.threads.iter().filter(|thread| thread.name == "sh").collect();
    let [one, other] = loops[..] else { panic!("{:?}", run.threads) };
    let (Some(waited), Some(other_waited)) = (one.waited_ns, other.waited_ns) else {
        eprintln!("skipped: this kernel has no account of waiting");
        return None;
    };
    let (cpu_ns, other_cpu) = (one.cpu_ns.unwrap(), other.cpu_ns.unwrap());
    // Whatever else runs, a loop waits at least for most of what the other does in its own time.
    assert!(waited * 10 > other_cpu * 6, "{one:?} {other:?}");
    assert!(other_waited * 10 > cpu_ns * 6, "{one:?} {other:?}");
    assert!(waited + cpu_ns <= run.facts.span_ns, "{one:?}, {} ns", run.facts.span_ns);
    let all: u64 = run.threads.iter().filter_map(|it| it.waited_ns).sum();
    let own: u64 = run.threads.iter().filter_map(|it| it.held_ns).sum();
    let others: u64 = run.facts.others.iter().flatten().map(|it| it.held_ns).sum();
    let booked = own + others + run.facts.idle_ns.unwrap();
    // Of a wait in which others took more turns than are kept, a part is unknown.
    let undisturbed = all * 10 < (cpu_ns + other_cpu) * 13;
    let whole = all + all / 10 >= booked && (!undisturbed || booked * 10 > all * 7);
    assert!(whole, "{all} ns of waiting, {booked} ns booked: {:?}", run.facts);
    // The two waited for each other, and for nothing that a loop alone had done. Turns are read off the run queue's
    // clock, which begins them somewhat before the thread's own account does.
    let loops = cpu_ns + other_cpu;
    assert!(!undisturbed || own * 10 > loops * 6, "{own} {one:?} {other:?}");
    assert!(own > 0 && own * 50 <= loops * 51, "{own} {one:?} {other:?}");
    Some(undisturbed)
}

#[test]
fn a_process_that_runs_already_is_followed_with_what_it_starts() {
    for method in METHODS {
        // It starts nothing before recording has begun, however long that takes here.
        let mut shell = Command::new("sh");
        shell.args(["-c", "read go; /bin/true; sleep 0.2"]).stdin(Stdio::piped());
        let mut shell = shell.spawn().unwrap();
        let mut told = shell.stdin.take();
        let mut go = || {
            if let Some(mut it) = told.take() {
                it.write_all(b"\n").unwrap();
            }
        };
        let run = recording_then(&Target::Process(shell.id()), None, method, &mut go);
        go();
        shell.wait().unwrap();
        let run = allowed(run, method);
        let Some(run) = run else { continue };
        assert_eq!((run.facts.status, run.threads[0].tid), (None, shell.id()));
        assert!(run.threads.len() >= 3 && run.threads[0].voluntary >= 2, "{:?}", run.threads);
        let named = |name: &str| run.threads.iter().any(|thread| thread.name == name);
        assert!(named("sh") && named("sleep"), "{method}: {:?}", run.threads);
    }
}

#[test]
fn both_ways_count_the_same_of_a_program_that_moves_itself() {
    let moves = "for cpu in 0 1 0 1 0 1; do taskset -p -c $cpu $$; sleep 0.01; done";
    let of = |method| -> Option<(u64, u64)> {
        let run = recorded(&command(&["sh", "-c", moves]), None, method)?;
        let shell = run.threads.iter().find(|it| it.name == "sh")?;
        Some((shell.cpu_changes, shell.voluntary))
    };
    let (Some(bpf), Some(records)) = (of(AbsenceMethod::Bpf), of(AbsenceMethod::Records)) else {
        return;
    };
    if corehop_system::thread::affinity().unwrap().len() < 2 {
        return eprintln!("skipped: one CPU only");
    }
    // It waits for each `sleep`; the first move may find it there.
    for (method, (changes, voluntary)) in [("bpf", bpf), ("records", records)] {
        assert!((5..=8).contains(&changes) && voluntary >= 6, "{method}: {changes} {voluntary}");
    }
}

#[test]
fn a_recording_ends_when_its_time_is_over() {
    for method in METHODS {
        let mut sleeper = Command::new("sleep").arg("60").spawn().unwrap();
        let run =
            recorded(&Target::Process(sleeper.id()), Some(Duration::from_millis(100)), method);
        sleeper.kill().unwrap();
        sleeper.wait().unwrap();
        assert!(run.is_none_or(|run| {
            run.facts.status.is_none() && run.facts.span_ns < 30_000_000_000
        }));
    }
}

#[test]
fn what_is_not_there_is_named() {
    for (target, words) in [
        (command(&["/no/such/program"]), ["/no/such/program", "No such file"]),
        (Target::Process(4_000_000), ["process 4000000", "No such file"]),
        (Target::Cgroup("/no/such/cgroup".into()), ["/no/such/cgroup", "cgroup.procs"]),
    ] {
        for method in METHODS {
            match recording(&target, None, method) {
                Err(error) if is_general(&error) => eprintln!("skipped: {error}"),
                Err(error) => {
                    assert!(words.iter().all(|it| error.to_string().contains(it)), "{error}");
                }
                Ok(run) => panic!("{run:?}"),
            }
        }
    }
}

/// The program itself, as it is when it is started again by [`threads_beyond_the_descriptors`].
const MANY: &str = "COREHOP_TEST_MANY_THREADS";

#[test]
fn threads_beyond_the_descriptors_there_are_end_it_with_the_remedy() {
    if std::env::var_os(MANY).is_some() {
        // 64 threads, of which each takes a descriptor for each CPU, and 40 descriptors.
        let limit = libc::rlimit { rlim_cur: 40, rlim_max: 40 };
        // SAFETY: reads the limit, which lives through the call.
        assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) }, 0);
        for _ in 0..64 {
            std::thread::spawn(|| std::thread::sleep(Duration::from_mins(1)));
        }
        let target = Target::Process(std::process::id());
        match recording(&target, None, AbsenceMethod::Records) {
            Err(error) if is_general(&error) => eprintln!("skipped: {error}"),
            other => {
                let error = other.unwrap_err().to_string();
                assert!(
                    error.contains("cannot follow process") && error.contains("ulimit -n"),
                    "{error}"
                );
            }
        }
        return;
    }
    let name = "threads_beyond_the_descriptors_there_are_end_it_with_the_remedy";
    let own = std::env::current_exe().unwrap();
    let again = Command::new(own).args(["--exact", name, "--nocapture"]).env(MANY, "1").output();
    let again = again.unwrap();
    assert!(again.status.success(), "{}", String::from_utf8_lossy(&again.stderr));
}

#[test]
fn the_processes_of_a_cgroup_are_followed() {
    // The cgroup that this test runs in: whatever it is, the test is in it.
    let own = std::fs::read_to_string("/proc/self/cgroup").unwrap();
    let line = own.lines().find(|line| line.starts_with("0::"));
    let Some(path) = line.and_then(|line| line.strip_prefix("0::/")) else {
        return eprintln!("skipped: no cgroup v2 here");
    };
    if !std::path::Path::new("/sys/fs/cgroup").join(path).join("cgroup.procs").exists() {
        return eprintln!("skipped: the cgroup {path} is not to be seen");
    }
    let target = Target::Cgroup(path.into());
    let here = std::process::id();
    for method in METHODS {
        let most = Some(Duration::from_millis(200));
        let Some(run) = recorded(&target, most, method) else { continue };
        assert!(run.threads.iter().any(|thread| thread.pid == here), "{:?}", run.threads.len());
    }
}
