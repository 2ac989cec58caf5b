// SPDX-License-Identifier: MIT OR Apache-2.0
//! `corehop measure` as its users meet it: exit codes, what is left behind, bad input and bad luck.
//!
//! Runs are live, tiny and under the ordinary policy, unless the point is the real-time one.
#![expect(clippy::print_stdout, reason = "what is skipped says why")]

use std::fs::File;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output};
use std::time::{Duration, Instant};

use corehop_plan::samples::{Certificate, FileError, Provenance, Reader, Sample};
use corehop_stats::classes::as_declared;
use tempfile::TempDir;

mod conditions;
mod cpuset;
mod kinds;
mod leftovers;
mod refused;
mod replicates;
mod simulated;
mod terminal;
mod traces;

const BINARY: &str = env!("CARGO_BIN_EXE_corehop");

fn corehop(arguments: &[&str]) -> Command {
    let mut command = Command::new(BINARY);
    command.args(arguments);
    command
}

/// The words of a command line.
fn words(line: &str) -> Vec<&str> {
    line.split_whitespace().collect()
}

/// A small synthetic run into `file`.
fn small(file: &Path, more: &[&str]) -> Command {
    let mut command = corehop(&["measure", "synthetic", "--load", "idle", "--no-real-time", "-q"]);
    if !more.contains(&"--wss") {
        command.args(["--wss", "4KiB"]);
    }
    if !more.contains(&"--event") {
        command.args(["--event", "none"]);
    }
    if !more.contains(&"--samples") {
        command.args(["--samples", "5"]);
    }
    command.args(more).arg("-o").arg(file);
    command
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).replace("\n         ", " ")
}

/// Runs it and demands an exit code and words in what it says.
fn refused(mut command: Command, code: i32, words: &[&str]) {
    let output = command.output().unwrap();
    let text = said(&output);
    assert_eq!(output.status.code(), Some(code), "{text}");
    for word in words {
        assert!(text.contains(word), "`{word}` is missing in: {text}");
    }
}

fn rows(file: &Path) -> (Vec<Sample>, Provenance) {
    let mut reader = Reader::open(File::open(file).unwrap()).unwrap();
    let provenance = reader.kind().provenance.clone();
    (reader.all().unwrap(), provenance)
}

fn scratch() -> (TempDir, PathBuf) {
    let directory = TempDir::new().unwrap();
    let file = directory.path().join("run.parquet");
    (directory, file)
}

fn files_in(directory: &TempDir) -> Vec<String> {
    let names = std::fs::read_dir(directory.path()).unwrap();
    let mut names: Vec<String> =
        names.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// Waits for `what`, but not for ever.
fn eventually(what: impl Fn() -> bool) -> bool {
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_mins(1) {
        if what() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    false
}

fn end_of(mut child: Child) -> Option<i32> {
    child.wait().unwrap().code()
}

fn is_root() -> bool {
    // SAFETY: asks a number of the kernel.
    unsafe { libc::geteuid() == 0 }
}

#[test]
fn a_run_leaves_one_file_with_every_sample_asked_for_and_where_it_comes_from() {
    let (directory, file) = scratch();
    let output =
        small(&file, &["--event", "none,flush", "--json", "--seed", "7"]).output().unwrap();
    assert!(output.status.success(), "{}", said(&output));
    let (rows, provenance) = rows(&file);
    assert!(rows.iter().filter(|row| row.valid).count() >= 10);
    assert!(rows.iter().all(|row| row.valid == row.disturbed_by.is_empty() && row.seed == 7));
    assert_eq!((provenance.seed, provenance.experiment.as_str()), (7, "synthetic"));
    assert!(!provenance.platform.is_empty() && !provenance.plan_digest.is_empty());
    assert_eq!(files_in(&directory), ["run.parquet"]);
    let answer: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(answer["samples"], rows.len());
}

#[test]
fn none_costs_less_than_a_flush() {
    let (_directory, file) = scratch();
    let status = small(&file, &["--wss", "64KiB", "--event", "none,flush", "--samples", "30"])
        .status()
        .unwrap();
    assert!(status.success());
    let rows = rows(&file).0;
    let median = |event: &str| {
        let of = |row: &&Sample| row.valid && row.event.word() == event;
        let mut delays: Vec<f64> =
            rows.iter().filter(of).map(|row| row.resumed_ns - row.warm_ns).collect();
        delays.sort_by(f64::total_cmp);
        delays[delays.len() / 2]
    };
    assert!(median("none") < median("flush"), "{} {}", median("none"), median("flush"));
}

#[test]
fn impossible_requests_name_the_thing_and_the_remedy() {
    let (directory, file) = scratch();
    refused(small(&file, &["--cpus", "999"]), 2, &["CPU 999", "usable"]);
    refused(small(&file, &["--event", "l4_migration"]), 2, &["l4_migration", "l3_migration"]);
    refused(small(&file, &["--wss", "64"]), 2, &["64", "64 KiB"]);
    refused(small(&file, &["--wss", "100B"]), 2, &["100 B", "1 KiB"]);
    refused(small(&file, &["--write-ratio", "3/4"]), 2, &["0.75", "scan"]);
    refused(small(&file, &["--wss", "60000GiB"]), 3, &["60000 GiB", "memory"]);
    refused(small(&file, &["--length", "5..1ms"]), 2, &["swap the two"]);
    refused(small(&file, &["--precision", "5"]), 2, &["5%"]);
    refused(corehop(&["measure"]), 2, &["EXPERIMENT"]);
    refused(corehop(&["measure", "nonsense"]), 2, &["nonsense", "nearest", "synthetic", "--help"]);
    refused(corehop(&["measure", "synthetic"]), 2, &["-o FILE.parquet"]);
    refused(
        corehop(&["measure", "synthetic", "--load", "realistic", "--dry-run"]),
        2,
        &["--command"],
    );
    refused(
        corehop(&["measure", "synthetic", "--load", "heavy", "--dry-run"]),
        2,
        &["heavy", "constructed"],
    );
    let beside = ["--load", "constructed", "--command", "true", "--dry-run"];
    refused(corehop(&[&["measure", "synthetic"][..], &beside].concat()), 2, &["not to --load"]);
    for load in [["--load", "constructed"], ["--command", "true"]] {
        let asked = [&["measure", "access-time", "--dry-run"][..], &load].concat();
        refused(corehop(&asked), 2, &[load[0]]);
    }
    assert_eq!(files_in(&directory), [] as [String; 0]);
}

#[test]
fn a_preset_without_its_command_leaves_the_load_out_and_says_so() {
    let outline = |more: &[&str]| {
        let asked = [&["measure"][..], more, &["--preset", "waechtler", "--dry-run"]].concat();
        let output = corehop(&asked).output().unwrap();
        assert!(output.status.success(), "{}", said(&output));
        (
            String::from_utf8(output.stdout).unwrap(),
            String::from_utf8(output.stderr).unwrap().replace("\n         ", " "),
        )
    };
    for experiment in ["synthetic", "polluter-sweep"] {
        let (without, said) = outline(&[experiment]);
        assert!(said.contains("realistic") && said.contains("--command"), "{said}");
        let (with, said) = outline(&[experiment, "--command", "true"]);
        assert_eq!(said, "");
        assert!(with.lines().next() != without.lines().next(), "{with}");
    }
    assert_eq!(outline(&["access-time"]).1, "");
    assert_eq!(outline(&["synthetic", "--load", "idle"]).1, "");
}

#[test]
fn an_output_that_cannot_be_written_is_said_before_anything_is_measured() {
    let (directory, _) = scratch();
    refused(
        small(&directory.path().join("no/such/place.parquet"), &[]),
        2,
        &["no/such/place.parquet", "its folder does not exist"],
    );
}

#[test]
fn the_plan_for_another_machine_is_shown_without_running_it() {
    let (_directory, file) = scratch();
    let on = ["--on", "xeon_l7455", "--event", "l2_migration", "--dry-run", "--json"];
    let dry = small(&file, &on).output().unwrap();
    assert!(dry.status.success(), "{}", said(&dry));
    let plan: serde_json::Value = serde_json::from_slice(&dry.stdout).unwrap();
    assert_eq!(plan["jobs"]["cells"][0]["event"], "l2_migration");
    refused(corehop(&["measure", "synthetic", "--on", "pdp11", "--dry-run"]), 2, &["xeon_l7455"]);
    assert!(!file.exists());
}

#[test]
fn the_same_experiment_runs_on_a_simulated_machine_and_gives_the_same_twice() {
    let (directory, _) = scratch();
    let run = |name: &str| {
        let file = directory.path().join(name);
        let on = ["--on", "xeon_x5650", "--event", "none,l3_migration,memory_migration"];
        let run = small(&file, &on).output().unwrap();
        assert!(run.status.success(), "{}", said(&run));
        let show = corehop(&["report", "contents", "--rows", "1000"]).arg(&file).output().unwrap();
        String::from_utf8(show.stdout).unwrap()
    };
    let rows = run("one.parquet");
    assert!(rows.contains("\"memory_migration\"") && rows.contains("\"simulated\""), "{rows}");
    assert_eq!(rows, run("two.parquet"));
}

#[test]
fn a_platform_without_latencies_is_not_simulated_and_the_missing_fact_is_named() {
    let (directory, file) = scratch();
    let platform = directory.path().join("bare.toml");
    assert!(corehop(&["sim", "platform", "-o"]).arg(&platform).status().unwrap().success());
    refused(small(&file, &["--on", platform.to_str().unwrap()]), 3, &["latency"]);
}

#[test]
fn a_dry_run_names_every_cell_and_the_time_and_measures_nothing() {
    let (_directory, file) = scratch();
    let output = small(&file, &["--dry-run", "--wss", "4KiB,8KiB", "--event", "none,flush"])
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    for line in ["4 cells, 20 samples", "5  none 4 KiB", "5  flush 8 KiB", "projected: about"] {
        assert!(text.contains(line), "`{line}` is missing in: {text}");
    }
    assert!(!file.exists());
}

#[test]
fn a_plan_from_a_file_is_run_as_it_stands_and_a_broken_one_is_refused() {
    let (directory, file) = scratch();
    let dry = small(&file, &["--dry-run", "--json"]).output().unwrap();
    assert!(dry.status.success() && !file.exists());
    let plan = directory.path().join("plan.json");
    std::fs::write(&plan, &dry.stdout).unwrap();
    let run = |plan: &Path| {
        let mut command = corehop(&["measure", "--no-real-time", "-q", "--plan"]);
        command.arg(plan).arg("-o").arg(&file);
        command
    };
    assert!(run(&plan).status().unwrap().success());
    assert_eq!(rows(&file).0.len(), 5);
    let text = String::from_utf8(dry.stdout).unwrap();
    std::fs::write(
        &plan,
        text.replace("\"start\":0", "\"start\":77").replace("\"start\":1", "\"start\":77"),
    )
    .unwrap();
    refused(run(&plan), 4, &["CPU 77"]);
    std::fs::write(&plan, &text[..text.len() / 2]).unwrap();
    refused(run(&plan), 4, &["not a plan"]);
    refused(run(&directory.path().join("none.json")), 2, &["none.json"]);
}

#[test]
fn an_interrupted_run_keeps_what_is_there_and_goes_on_when_resumed() {
    let (directory, file) = scratch();
    let arguments = ["--samples", "4000", "--event", "idle_leave", "--length", "2ms"];
    let child = small(&file, &arguments).spawn().unwrap();
    let part = directory.path().join("run.parquet.part");
    assert!(eventually(|| std::fs::metadata(&part).is_ok_and(|meta| meta.len() > 80_000)));
    // SAFETY: a signal to our own child.
    unsafe { libc::kill(child.id().cast_signed(), libc::SIGINT) };
    assert_eq!(end_of(child), Some(130));
    let (first, provenance) = rows(&file);
    assert!(!first.is_empty() && provenance.stopped_by.as_deref() == Some("interrupt"));
    assert_eq!(files_in(&directory), ["run.parquet"]);
    // With other parameters it is not the same run.
    refused(small(&file, &["--resume", "--samples", "7", "--seed", "9"]), 2, &["other parameters"]);
    let child =
        small(&file, &[&arguments[..], &["--resume", "--budget", "1s"]].concat()).spawn().unwrap();
    assert_eq!(end_of(child), Some(0));
    let (all, _) = rows(&file);
    assert!(all.len() > first.len());
    // Classes are those of the whole run; what was measured is as it was.
    let declared = |rows: &[Sample]| {
        let mut rows = rows.to_vec();
        rows.iter_mut().for_each(as_declared);
        rows
    };
    assert_eq!(declared(&all[..first.len()]), declared(&first));
    let (last, next) = (first.last().unwrap().replicate, all[first.len()].replicate);
    assert!(next > last, "it goes on with a replicate of its own: {last:?} {next:?}");
    assert!(all.windows(2).all(|pair| pair[0].job < pair[1].job), "job numbers go on");
}

#[test]
fn after_sigkill_the_stream_opens_and_the_run_can_be_resumed() {
    let (directory, file) = scratch();
    let arguments = ["--samples", "4000", "--event", "idle_leave", "--length", "2ms"];
    let mut child = small(&file, &arguments).spawn().unwrap();
    let part = directory.path().join("run.parquet.part");
    assert!(eventually(|| std::fs::metadata(&part).is_ok_and(|meta| meta.len() > 40_000)));
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(files_in(&directory), ["run.parquet.part"]);
    let survived = rows(&part).0;
    assert!(!survived.is_empty());
    refused(small(&file, &arguments), 2, &["--resume", "corehop report contents"]);
    let child = small(&file, &[&arguments[..], &["--resume", "--budget", "500ms"]].concat())
        .spawn()
        .unwrap();
    assert_eq!(end_of(child), Some(0));
    assert!(rows(&file).0.len() > survived.len());
}

#[test]
fn a_torn_stream_gives_its_whole_batches_and_a_torn_parquet_file_an_error() {
    let (directory, file) = scratch();
    let output = corehop(&words(
        "measure synthetic --load idle --no-real-time -q --stream \
         --wss 4KiB --event none --samples 5",
    ))
    .output()
    .unwrap();
    assert!(output.status.success());
    let torn = directory.path().join("torn.part");
    for length in
        [output.stdout.len() - 9, output.stdout.len() / 2, 5_000.min(output.stdout.len() - 1)]
    {
        std::fs::write(&torn, &output.stdout[..length]).unwrap();
        match Reader::open(File::open(&torn).unwrap()) {
            Ok(mut reader) => {
                reader.all::<Sample>().unwrap();
                assert!(reader.truncated());
            }
            Err(error) => assert!(matches!(error, FileError::NotOurs(_)), "{error}"),
        }
    }
    assert!(small(&file, &[]).status().unwrap().success());
    let whole = std::fs::read(&file).unwrap();
    std::fs::write(&torn, &whole[..whole.len() - 100]).unwrap();
    refused(corehop(&["report", "--table", "csv", torn.to_str().unwrap()]), 4, &["damaged"]);
    std::fs::write(&torn, b"PNG or so, certainly not ours").unwrap();
    refused(
        corehop(&["report", "--table", "csv", torn.to_str().unwrap()]),
        4,
        &["not a corehop file"],
    );
}

#[test]
fn a_full_disk_ends_the_run_with_what_was_recorded() {
    let directory = TempDir::new().unwrap();
    let mounted = Command::new("mount")
        .args(["-t", "tmpfs", "-o", "size=600k", "tmpfs"])
        .arg(directory.path())
        .status();
    if !is_root() || !mounted.is_ok_and(|status| status.success()) {
        println!("skipped: a full disk (needs to mount a small tmpfs)");
        return;
    }
    let file = directory.path().join("run.parquet");
    let output = small(&file, &["--samples", "20000"]).output().unwrap();
    let part = directory.path().join("run.parquet.part");
    let kept = rows(&part).0.len();
    Command::new("umount").arg(directory.path()).status().unwrap();
    assert_eq!(output.status.code(), Some(6), "{}", said(&output));
    assert!(
        said(&output).contains("No space left") && said(&output).contains("kept"),
        "{}",
        said(&output)
    );
    assert!(kept > 0);
}

#[test]
fn on_a_single_cpu_there_is_no_real_time_and_no_migration_but_still_a_result() {
    let (_directory, file) = scratch();
    let on_one_cpu = |mut command: Command| {
        // SAFETY: sched_setaffinity may be called between fork and exec.
        unsafe {
            command.pre_exec(|| {
                let mut mask: libc::cpu_set_t = std::mem::zeroed();
                libc::CPU_SET(0, &mut mask);
                match libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const mask) {
                    0 => Ok(()),
                    _ => Err(std::io::Error::last_os_error()),
                }
            })
        };
        command
    };
    let mut command = corehop(&words(
        "measure synthetic --load idle -q --wss 4KiB --event \
         none,preemption --length 1ms --samples 5 -o",
    ));
    command.arg(&file);
    assert!(on_one_cpu(command).status().unwrap().success());
    let (rows, provenance) = rows(&file);
    assert!(rows.iter().all(|row| row.policy.starts_with("other:")), "{}", rows[0].policy);
    let why = provenance.machine["policy"]["why_no_better"].as_str().unwrap();
    assert!(why.contains("two or more CPUs"), "{why}");
    refused(
        on_one_cpu(small(&file, &["--event", "l3_migration"])),
        3,
        &["l3_migration", "usable CPUs (0)"],
    );
}

#[test]
fn without_privileges_it_measures_under_the_ordinary_policy_and_says_why() {
    if !is_root() {
        println!("skipped: dropping privileges (not root, so this is how every other test runs)");
        return;
    }
    let directory = TempDir::new().unwrap();
    let open: std::fs::Permissions = std::os::unix::fs::PermissionsExt::from_mode(0o777);
    std::fs::set_permissions(directory.path(), open).unwrap();
    let (binary, file) = (directory.path().join("corehop"), directory.path().join("run.parquet"));
    std::fs::copy(BINARY, &binary).unwrap();
    let mut command = Command::new(&binary);
    command
        .args(words("measure synthetic --load idle -q --wss 4KiB --event none --samples 5 -o"))
        .arg(&file);
    command.uid(65534).gid(65534);
    // Another test may just now start a program, which has the copy open for writing until then.
    let output = loop {
        match command.output() {
            Err(error) if error.kind() == std::io::ErrorKind::ExecutableFileBusy => {
                std::thread::sleep(std::time::Duration::from_millis(10));
            }
            done => break done.unwrap(),
        }
    };
    assert!(output.status.success(), "{}", said(&output));
    let (rows, provenance) = rows(&file);
    assert!(rows.iter().all(|row| row.policy.starts_with("other:")));
    assert!(
        provenance.machine["policy"]["why_no_better"].as_str().unwrap().contains("cap_sys_nice")
    );
    // Nor may it see the frames: the run goes on, and file and page say so.
    let unseen = provenance.machine["renewal"]["why_not_seen"].as_str().unwrap();
    assert!(unseen.contains("CAP_SYS_ADMIN"), "{unseen}");
    let page = directory.path().join("page.html");
    let report = ["report", file.to_str().unwrap(), "-o", page.to_str().unwrap()];
    assert!(corehop(&report).output().unwrap().status.success());
    let page = std::fs::read_to_string(page).unwrap();
    assert!(
        page.contains("corehop could not check whether replicates had their own frames"),
        "the page does not say it"
    );
}

#[test]
fn without_restartable_sequences_samples_carry_the_weaker_certificate() {
    let (_directory, file) = scratch();
    let mut command = small(&file, &[]);
    // SAFETY: prctl may be called between fork and exec; the filter lives until then.
    unsafe { command.pre_exec(refuse_rseq) };
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", said(&output));
    let rows = rows(&file).0;
    assert!(
        rows.iter().all(|row| row.certificate == Certificate::GapsAndSwitches),
        "{:?}",
        rows[0].certificate
    );
}

/// Lets rseq(2) answer ENOSYS in this process from here on.
fn refuse_rseq() -> std::io::Result<()> {
    let step = |code: u32, jt, jf, k| libc::sock_filter { code: code as u16, jt, jf, k };
    let filter = [
        step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0),
        step(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0, 1, libc::SYS_rseq as u32),
        step(
            libc::BPF_RET | libc::BPF_K,
            0,
            0,
            libc::SECCOMP_RET_ERRNO | libc::ENOSYS.cast_unsigned(),
        ),
        step(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_ptr().cast_mut() };
    // SAFETY: sets a flag of this process, then reads the program, which lives until this returns.
    let answers = unsafe {
        [
            libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0),
            libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program),
        ]
    };
    if answers == [0, 0] { Ok(()) } else { Err(std::io::Error::last_os_error()) }
}

#[test]
fn a_precision_is_reached_with_as_many_samples_as_it_takes() {
    let (_directory, file) = scratch();
    let output = small(&file, &["--samples", "1"]).output().unwrap();
    assert!(output.status.success());
    let mut command = corehop(&words(
        "measure synthetic --load idle --no-real-time -q --wss \
         64KiB --event none --precision 20% --budget 30s --force -o",
    ));
    command.arg(&file);
    assert!(command.status().unwrap().success());
    let count = rows(&file).0.len();
    assert!(count >= 40, "{count}");
}
