// SPDX-License-Identifier: MIT OR Apache-2.0
//! `corehop measure schedule-sensitive` with task sets, as a user types it.
#![expect(clippy::print_stderr, reason = "a skip says why")]

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Output};

use corehop_plan::experiment::{Plan, Tasks};
use corehop_plan::samples::{JobOutcome, Reader, Sample, TaskJob};

fn command(words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_corehop"));
    command.args(["measure", "schedule-sensitive"]).args(words);
    command
}

fn corehop(words: &[&str]) -> Output {
    command(words).output().unwrap()
}

fn refused(words: &[&str], code: i32, part: &str) {
    let output = corehop(words);
    let said = String::from_utf8_lossy(&output.stderr).replace("\n         ", " ");
    assert_eq!(output.status.code(), Some(code), "{words:?}: {said}");
    assert!(said.contains(part), "{words:?}: {said}");
}

/// The words of a command line.
fn words(line: &str) -> Vec<&str> {
    line.split_whitespace().collect()
}

/// A small set for a second, under the kernel's fair scheduler.
const SMALL: &str = "--scheduler eevdf --tasks 6 --sets 1 --wss 16KiB --duration 1s --load \
     idle --seed 3";

fn rows<R: corehop_plan::samples::Row>(path: &Path) -> Vec<R> {
    Reader::open(std::fs::File::open(path).unwrap()).unwrap().all().unwrap()
}

#[test]
fn a_run_leaves_samples_and_jobs_that_agree_with_its_answer_and_its_plan() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("run.parquet");
    let path = file.to_string_lossy().into_owned();
    let output = corehop(&[&words(SMALL)[..], &["-o", &path, "--json"]].concat());
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let answer: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let samples: Vec<Sample> = rows(&file);
    let jobs: Vec<TaskJob> = rows(&folder.path().join("run.jobs.parquet"));
    assert_eq!(answer["jobs"], jobs.len());
    assert_eq!(answer["samples"], samples.len());
    assert_eq!(answer["valid"], samples.iter().filter(|sample| sample.valid).count());
    let courses: u64 =
        answer["courses"].as_object().unwrap().values().map(|it| it.as_u64().unwrap()).sum();
    assert_eq!(courses as usize, jobs.len());
    let planned = corehop(&[&words(SMALL)[..], &["--dry-run", "--json"]].concat());
    let plan = tasks_of(&planned.stdout);
    let releases: usize = (0..6).map(|task| plan.releases(3, 0, task).count()).sum();
    assert_eq!(releases, jobs.len(), "every release has a job");
    for sample in &samples {
        assert_eq!((sample.task_count, &*sample.preemption_length), (Some(6), "as_scheduled"));
    }
    let left: Vec<_> =
        std::fs::read_dir(folder.path()).unwrap().flatten().map(|it| it.file_name()).collect();
    assert_eq!(left.len(), 2, "{left:?}");
}

#[test]
fn what_watching_changes_is_told_from_runs_with_and_without_it() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("run.parquet");
    let path = file.to_string_lossy().into_owned();
    let output = corehop(&[&words(SMALL)[..], &["--paired", "-o", &path, "--json"]].concat());
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let answer: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let jobs: Vec<TaskJob> = rows(&folder.path().join("run.jobs.parquet"));
    let unwatched = jobs.iter().filter(|job| job.course == JobOutcome::Unwatched).count();
    assert_eq!(unwatched * 2, jobs.len(), "each job runs both ways");
    assert_eq!(answer["recording"]["response_ns"]["pairs"], unwatched);
    let samples: Vec<Sample> = rows(&file);
    let of_watched = jobs.iter().filter(|job| job.run == 1).count();
    assert!(samples.len() <= of_watched);
    let text = corehop(&[&words(SMALL)[..], &["--paired", "--force", "-o", &path]].concat());
    let text = String::from_utf8(text.stdout).unwrap();
    assert!(
        text.contains("watched against unwatched") && text.contains("response times"),
        "{text}"
    );
}

#[test]
fn a_file_of_tasks_runs_on_as_many_cpus_as_it_says() {
    let folder = tempfile::tempdir().unwrap();
    let set = folder.path().join("set.json");
    let text = r#"{"cpus": 1, "tasks": [
        {"name": "video", "wcet_us": 1000, "period_us": 10000, "wss_kib": 32, "priority": 2},
        {"wcet_us": 500, "period_us": 20000, "deadline_us": 15000, "priority": 1}]}"#;
    std::fs::write(&set, text).unwrap();
    let set = set.to_string_lossy().into_owned();
    let words =
        ["--task-set", &set, "--scheduler", "p-fp", "--load", "idle", "--dry-run", "--json"];
    let output = corehop(&words);
    let plan = tasks_of(&output.stdout);
    let run = &plan.runs[0];
    assert_eq!((run.clusters.len(), run.tasks[0].rank, run.tasks[1].rank), (1, 1, 0));
    assert_eq!(run.tasks[0].name.as_deref(), Some("video"));
    let bytes: Vec<u64> = run.tasks.iter().map(|task| task.set.wss.get()).collect();
    assert_eq!(bytes, [32 << 10, 64 << 10]);
    refused(&[&words[..2], &["--sets", "3", "-o", "x.parquet"]].concat(), 2, "--sets");
    std::fs::write(&set, text.replace("\"cpus\": 1", "\"cpus\": 4096")).unwrap();
    refused(&[&words[..], &["-q"]].concat(), 2, "4096");
    std::fs::write(&set, "{}").unwrap();
    refused(&words, 4, "cpus is missing");
    refused(&["--task-set", "/none.json", "--dry-run"], 2, "/none.json");
}

/// The plan that these words ask for.
/// The task sets of a plan in JSON.
fn tasks_of(json: &[u8]) -> Tasks {
    let plan = Plan::from_json(std::str::from_utf8(json).unwrap()).unwrap();
    plan.tasks().unwrap().clone()
}

fn planned(words: &[&str]) -> Tasks {
    let output = corehop(&[words, &["--dry-run", "--json"]].concat());
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    tasks_of(&output.stdout)
}

#[test]
fn every_option_comes_through_to_the_plan() {
    let usual = words("--on xeon_l7455 --tasks 7 --sets 1 --load idle --seed 3");
    let with = |more: &[&str]| planned(&[&usual[..], more].concat());
    let usual = with(&[]);
    assert_eq!(usual.runs.len(), 2, "of 64 and of 256 KiB");
    let plan = with(&words(
        "--wss 32KiB --write-ratio 0.25 --period 20..30ms --sporadic 0.5 \
         --utilisation 0.2..0.3 --duration 250ms",
    ));
    let run = &plan.runs[0];
    assert_eq!(
        (plan.runs.len(), run.tasks.len(), run.duration.to_string()),
        (1, 7, "250 ms".into())
    );
    for task in &run.tasks {
        assert_eq!((task.set.wss.get(), task.set.write_ratio), (32 << 10, 0.25));
        assert!((20_000_000..=30_000_000).contains(&task.period.get()));
        assert_eq!(task.longest_delay.get(), task.period.get() / 2);
        assert!((0.199..0.3).contains(&task.utilisation()), "{}", task.utilisation());
    }
    let clusters =
        |level| with(&["--scheduler", "c-edf", "--cluster-level", level]).runs[0].clusters.len();
    assert_eq!((clusters("2"), clusters("3")), (12, 4));
    // A task that takes a whole CPU: a described machine has room, real-time tasks of this host have half.
    let full = ["--tasks", "1", "--sets", "1", "--load", "idle", "--utilisation", "1..1"];
    let scale = |more: &[&str]| planned(&[&full[..], more].concat()).runs[0].scale;
    assert!((scale(&["--on", "xeon_l7455"]) - 1.0).abs() < 1e-9);
    assert!((scale(&["--scheduler", "g-edf"]) - 0.5).abs() < 1e-9);
    assert!((scale(&["--scheduler", "eevdf"]) - 1.0).abs() < 1e-9);
}

#[test]
fn a_file_gives_times_in_microseconds_and_deadlines_of_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let set = folder.path().join("set.json");
    let text =
        r#"{"cpus": 3, "tasks": [{"wcet_us": 1000, "period_us": 10000, "deadline_us": 7000}]}"#;
    std::fs::write(&set, text).unwrap();
    let set = set.to_string_lossy().into_owned();
    let plan = planned(&["--on", "xeon_l7455", "--load", "idle", "--task-set", &set]);
    let (run, task) = (&plan.runs[0], &plan.runs[0].tasks[0]);
    assert_eq!(run.clusters[0].to_string(), "0-2");
    let times = [task.wcet, task.period, task.deadline].map(corehop_plan::units::Nanos::get);
    assert_eq!(times, [1_000_000, 10_000_000, 7_000_000]);
}

#[test]
fn the_cpus_of_a_file_are_kept_or_refused_by_name_and_what_no_run_shows_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("set.json");
    let planned = |scheduler: &str, places: [&str; 2]| {
        let [a, b] = places;
        let text = format!(
            r#"{{"cpus": 4, "tasks": [
            {{"name": "a", "wcet_us": 100, "period_us": 10000, "cpus": {a}, "jitter_us": 10}},
            {{"name": "b", "wcet_us": 100, "period_us": 10000, "cpus": {b}, "blocking_us": 10}}]}}"#
        );
        std::fs::write(&file, text).unwrap();
        let file = file.to_str().unwrap();
        let on = ["--on", "xeon_l7455", "--dry-run", "--load", "idle"];
        corehop(&[&on[..], &["--task-set", file, "--scheduler", scheduler]].concat())
    };
    let said =
        |output: &Output| String::from_utf8_lossy(&output.stderr).replace("\n         ", " ");
    let kept = planned("c-edf", ["[2, 3]", "[0, 1]"]);
    assert_eq!(kept.status.code(), Some(0), "{}", said(&kept));
    assert!(
        said(&kept).contains("the runs do not produce jitter_us, blocking_us"),
        "{}",
        said(&kept)
    );
    for (scheduler, places, words) in [
        ("g-edf", ["[0, 1]", "[0, 1]"], "task 0 (`a`) may run on CPUs 0-1"),
        ("p-fp", ["[0]", "[1, 2]"], "task 1 (`b`) may run on CPUs 1-2"),
        ("p-edf", ["[0]", "[0, 1, 2, 3]"], "task 1 (`b`) may run on all CPUs"),
        ("c-edf", ["[0, 1]", "[1, 2]"], "task 1 (`b`) may run on CPUs 1-2"),
    ] {
        let output = planned(scheduler, places);
        let said = said(&output);
        assert!(output.status.code() != Some(0) && said.contains(words), "{scheduler}: {said}");
    }
}

#[test]
fn what_makes_no_sense_is_refused_before_anything_runs() {
    for (words, code, part) in [
        (&["--scheduler", "edf", "--dry-run"][..], 2, "g-edf"),
        (&["--tasks", "0", "--dry-run"], 2, "0 tasks"),
        (&["--sets", "0", "--dry-run"], 2, "0 sets"),
        (&["--tasks", "5", "--utilisation", "0.5..0.1", "--dry-run"], 2, "the lower first"),
        (&["--tasks", "5", "--duration", "0s", "--dry-run"], 2, "duration"),
        (&["--tasks", "5", "--share", "0%", "--dry-run"], 2, "5%"),
        (&["--tasks", "5", "--cpus", "4095", "--dry-run"], 2, "4095"),
        (&["--tasks", "5", "--samples", "9", "--dry-run"], 2, "--samples"),
        (&["--tasks", "5", "--stream=nonsense"], 2, "task_jobs"),
        (&["--tasks", "5", "--", "true"], 2, "--tasks"),
        (&["--paired", "--on", "xeon_l7455", "-o", "/tmp/no-such-run.parquet"], 3, "--paired"),
        (
            &["--scheduler", "eevdf", "--on", "xeon_l7455", "-o", "/tmp/no-such-run.parquet"],
            3,
            "live",
        ),
        (&["--tasks", "5", "--wss", "100B", "--dry-run"], 2, "1 KiB"),
    ] {
        refused(words, code, part);
    }
    let other = Command::new(env!("CARGO_BIN_EXE_corehop"))
        .args(["measure", "synthetic", "--scheduler", "g-edf", "-o", "x.parquet"])
        .output()
        .unwrap();
    assert_eq!(other.status.code(), Some(2));
    assert!(
        String::from_utf8_lossy(&other.stderr).replace("\n         ", " ").contains("--scheduler")
    );
}

#[test]
fn a_scheduler_that_is_not_loaded_and_changes_that_are_not_allowed_are_named_and_leave_no_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.parquet").to_string_lossy().into_owned();
    let set = [&words("--tasks 4 --sets 1 --wss 16KiB --duration 1s --load idle -o")[..], &[&path]]
        .concat();
    refused(
        &[&set[..], &["--scheduler", "sched_ext:nobody"]].concat(),
        3,
        "`nobody` is not loaded",
    );
    let one = std::thread::available_parallelism().unwrap().get() < 2;
    let legacy = Path::new("/sys/fs/cgroup/cpuset").exists();
    if legacy && !one {
        refused(&[&set[..], &["--scheduler", "p-edf"]].concat(), 3, "--allow-system");
    } else {
        eprintln!("skipped: no cpusets of version 1 here");
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "nothing is left");
}

/// For root: the same command as an ordinary user.
#[test]
fn without_rights_a_real_time_scheduler_is_refused_and_an_ordinary_one_notices_by_a_lower_rung() {
    // SAFETY: asks a number of the kernel.
    if unsafe { libc::geteuid() } != 0 {
        eprintln!("skipped: only root can become nobody");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o777);
    std::fs::set_permissions(folder.path(), open).unwrap();
    // The account `nobody` cannot enter the folder of the program.
    let binary = folder.path().join("corehop");
    std::fs::copy(env!("CARGO_BIN_EXE_corehop"), &binary).unwrap();
    let path = folder.path().join("x.parquet");
    let words = ["measure", "schedule-sensitive", "--tasks", "4", "--sets", "1", "--wss", "16KiB"];
    let run = |scheduler: &str| {
        let mut command = Command::new(&binary);
        command.args(words).args([
            "--duration",
            "1s",
            "--load",
            "idle",
            "--scheduler",
            scheduler,
            "-o",
        ]);
        command.arg(&path).uid(65_534).gid(65_534).output().unwrap()
    };
    let denied = run("g-fp");
    let said = String::from_utf8_lossy(&denied.stderr).replace("\n         ", " ");
    assert_eq!(denied.status.code(), Some(3), "{said}");
    assert!(said.contains("cap_sys_nice") && said.contains("eevdf"), "{said}");
    let ordinary = run("eevdf");
    assert_eq!(ordinary.status.code(), Some(0), "{}", String::from_utf8_lossy(&ordinary.stderr));
    let reader = Reader::open(std::fs::File::open(&path).unwrap()).unwrap();
    let tasks = &reader.kind().provenance.machine["tasks"];
    assert_ne!(tasks["absences_noticed_by"][0], "bpf", "{tasks}");
    assert!(tasks["why_no_control_page"].as_str().unwrap().contains("cap_bpf"), "{tasks}");
}

/// With cgroup version 1 this concerns the whole machine for a second: only where that was allowed.
#[test]
fn partitions_come_and_go_with_the_run_even_when_it_is_killed() {
    let balance = Path::new("/sys/fs/cgroup/cpuset/cpuset.sched_load_balance");
    if std::env::var_os("COREHOP_TEST_ALLOW_SYSTEM").is_none() || !balance.exists() {
        eprintln!("skipped: needs cpusets of version 1, and COREHOP_TEST_ALLOW_SYSTEM=1");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.parquet").to_string_lossy().into_owned();
    let set = [
        "--tasks", "4", "--sets", "1", "--wss", "16KiB", "--share", "20%", "--load", "idle",
        "--force", "-o", &path,
    ];
    let ours = || {
        let all = std::fs::read_dir("/sys/fs/cgroup/cpuset").unwrap().flatten();
        all.filter(|it| it.file_name().to_string_lossy().starts_with("corehop-")).count()
    };
    let words = [&set[..], &["--scheduler", "p-edf", "--allow-system", "--duration"]].concat();
    let output = corehop(&[&words[..], &["1s"]].concat());
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let samples: Vec<Sample> = rows(Path::new(&path));
    assert!(samples.iter().all(|sample| sample.from_cpu == sample.to_cpu), "nothing migrates");
    assert_eq!((ours(), std::fs::read_to_string(balance).unwrap().trim()), (0, "1"));
    let mut child = command(&[&words[..], &["20s"]].concat()).spawn().unwrap();
    let part = folder.path().join("x.jobs.parquet.part");
    // The head of the file is there before any row is.
    let begun = || {
        let reader = std::fs::File::open(&part).ok().and_then(|file| Reader::open(file).ok());
        reader.and_then(|mut reader| reader.all::<TaskJob>().ok()).is_some_and(|it| !it.is_empty())
    };
    while !begun() && child.try_wait().unwrap().is_none() {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    for _ in 0..500 {
        if ours() == 0 && std::fs::read_to_string(balance).unwrap().trim() == "1" {
            let kept: Vec<TaskJob> = rows(&part);
            assert!(!kept.is_empty(), "what was recorded is kept");
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    panic!("left behind: {} cgroups", ours());
}

/// A set that keeps a described machine busy for a little while.
const DESCRIBED: &str = "--on xeon_l7455 --sampled --tasks 60 --sets 1 --utilisation 0.1..0.9 \
     --wss 64KiB --write-ratio 0.25 --duration 100ms --load idle";

#[test]
fn a_described_machine_runs_task_sets_and_its_files_are_reported_together() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_string_lossy().into_owned();
    let run = |name: &str| {
        let output = corehop(&[&words(DESCRIBED)[..], &["-o", &path(name)]].concat());
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    };
    run("a.parquet");
    run("b.parquet");
    let samples = |name: &str| rows::<Sample>(Path::new(&path(name)));
    let jobs = |name: &str| rows::<TaskJob>(Path::new(&path(name)));
    assert_eq!(samples("a.parquet"), samples("b.parquet"));
    assert_eq!(jobs("a.jobs.parquet"), jobs("b.jobs.parquet"));
    let valid = samples("a.parquet").iter().filter(|sample| sample.valid).count();
    assert!(valid > 10, "{valid}");
    let mut report = Command::new(env!("CARGO_BIN_EXE_corehop"));
    report.args(["report", &path("a.parquet"), &path("a.jobs.parquet"), "--table", "json"]);
    let output = report.output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let answer: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let sets = &answer["task_sets"];
    assert_eq!(sets["schedulers"][0]["samples"], valid);
    assert_eq!(sets["courses"][0]["jobs"], jobs("a.jobs.parquet").len());
    assert_eq!(sets["tasks"].as_array().unwrap().len(), 60);
    assert!(!answer["cells"].as_array().unwrap().is_empty());
    let text = |name: &str| {
        let output =
            Command::new(env!("CARGO_BIN_EXE_corehop")).args(["report", &path(name)]).output();
        String::from_utf8(output.unwrap().stdout).unwrap()
    };
    // The jobs beside the samples are read with them.
    assert!(!text("a.parquet").contains("not among the files"));
    std::fs::copy(path("a.parquet"), path("alone.parquet")).unwrap();
    let alone = text("alone.parquet").split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(alone.contains("belong to jobs that are not among the files"), "{alone}");
    assert!(text("a.jobs.parquet").contains("gave samples that are not among the files"));
}
