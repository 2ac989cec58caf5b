// SPDX-License-Identifier: MIT OR Apache-2.0
//! No option is ignored: in each mode of each verb an option changes something, or is refused by its name.
//!
//! A mode is a command line. Each option of its verb is added to that line in turn, with a value that is not the default. The
//! answer, the messages, the exit code or a file has to change; or the exit code is 2, and the message names the option. What
//! may change nothing is listed below, with the reason.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};
use std::sync::LazyLock;

/// The files that the command lines name.
const FILES: [(&str, &str); 13] = [
    ("sys/devices/system/cpu/present", "0-1\n"),
    (
        "set.json",
        r#"{"cpus": 2, "tasks": [{"wcet_us": 5000, "period_us": 100000, "wss_kib": 64},
            {"wcet_us": 9000, "period_us": 200000, "wss_kib": 64}]}"#,
    ),
    (
        "one.json",
        r#"{"cpus": 1, "tasks": [{"wcet_us": 5000, "period_us": 100000, "wss_kib": 64},
            {"wcet_us": 9000, "period_us": 200000, "wss_kib": 64}]}"#,
    ),
    (
        "plain.json",
        r#"{"cpus": 2, "tasks": [{"wcet_us": 5000, "period_us": 100000, "priority": 1},
            {"wcet_us": 9000, "period_us": 200000, "priority": 2}]}"#,
    ),
    (
        "workload.json",
        r#"{"tasks": {"t": {"run": 3000, "timer": {"ref": "unique", "period": 10000}}}}"#,
    ),
    (
        "costs.csv",
        "load,event,statistic,wss_kib,cost_us\n\
         idle,preemption,max,64,10\nidle,l2_migration,max,64,12\nidle,l3_migration,max,64,15\n\
         idle,memory_migration,max,64,20\nidle,preemption,avg,64,5\nidle,l2_migration,avg,64,6\n\
         idle,l3_migration,avg,64,7\nidle,memory_migration,avg,64,8\n\
         constructed,preemption,max,64,30\nconstructed,l2_migration,max,64,32\n\
         constructed,l3_migration,max,64,35\nconstructed,memory_migration,max,64,40\n",
    ),
    ("pmo.csv", "WSS,L1,L2,L3,MEM\n64,5,6,7,8\n"),
    (
        "overheads.csv",
        "TASK-COUNT,CXS,SCHEDULE,TICK,RELEASE,RELEASE-LATENCY,IPI-LATENCY\n\
         10,1.5,2,1,1,1,1\n20,2.5,3,1,1,1,1\n",
    ),
    (
        "study.toml",
        r#"
            id = "small"
            title = "Two sets"
            platform = "xeon_l7455"
            seed = 1
            sets = 2
            caps = { from = 2.0, to = 4.0, step = 1.0 }
            delays_us = [0, 500]
            [tasks]
            utilisation = { uniform = [0.5, 0.9] }
            deadline = "implicit"
            period_us = { uniform = [3000, 33000], step = 1000 }
            last = "discard"
            [schedulers]
            g-edf = { test = "soft-g-edf" }
            p-edf = { test = "soft-g-edf", cluster = 1, packing = "wfd" }
            [[crossover]]
            of = "g-edf"
            against = "p-edf"
            step_us = 100
        "#,
    ),
    ("supply.json", "{\"cpus\": \"0-7\", \"period_us\": 1000, \"budget_us\": 900}"),
    (
        "sched.txt",
        "a-1 [000] 1.000001: sched_switch: a:1 [120] R ==> b:2 [120]\n\
         b-2 [000] 1.000101: sched_switch: b:2 [120] R ==> a:1 [120]\n\
         a-1 [000] 1.000301: sched_switch: a:1 [120] R ==> b:2 [120]\n",
    ),
    ("exchange.csv", ",,,\n40,,,\n50,60,,\n70,80,90,\n"),
    ("trace.lackey", "I  0401ab70,3\n L 1000,8\n S 1008,8\nI  0401ab80,3\n L 2040,4\n"),
];

/// Files of rows and answers that modes name, and the words that make each.
const MADE: [(&str, &str); 6] = [
    (
        "a.parquet",
        "measure synthetic --on m5_cc --wss 4KiB,64KiB --load idle --samples 20 --replicates 10 -o OUT",
    ),
    (
        "b.parquet",
        "measure synthetic --on m5_cc --wss 4KiB,64KiB --load idle --samples 20 --replicates 10 --seed 9 -o OUT",
    ),
    ("switches.parquet", "measure core-switch --on m5_cc --samples 10 -o OUT"),
    ("model.json", "advise fit a.parquet -o OUT"),
    ("plan.json", "report contents switches.parquet --plan"),
    ("counts.parquet", "check study study.toml -o OUT"),
];

/// The folder with [`MADE`], made once for all tests.
fn made() -> &'static Path {
    static MADE_ONCE: LazyLock<tempfile::TempDir> = LazyLock::new(|| {
        let folder = tempfile::tempdir().unwrap();
        write_files(folder.path());
        for (name, words) in MADE {
            let words: Vec<String> =
                words.split(' ').chain(["--quiet"]).map(|it| it.replace("OUT", name)).collect();
            let output = corehop(&words, folder.path());
            assert!(output.status.success(), "{name}: {output:?}");
            if !folder.path().join(name).exists() {
                fs::write(folder.path().join(name), output.stdout).unwrap();
            }
        }
        folder
    });
    MADE_ONCE.path()
}

/// A mode: its verb, and its command lines, which differ only in what they print.
type Mode = (&'static str, &'static [&'static str]);

/// The modes: each looks at every option of its verb.
const MODES: [Mode; 39] = [
    ("convert tasks", &["convert tasks workload.json"]),
    ("convert rt-app", &["convert rt-app plain.json"]),
    ("convert costs", &["convert costs costs.csv"]),
    ("convert costs", &["convert costs pmo.csv"]),
    ("convert schedcat", &["convert schedcat costs.csv"]),
    ("convert schedcat", &["convert schedcat overheads.csv"]),
    ("convert rows", &["convert rows a.parquet -o new.parquet"]),
    ("check", &["check plain.json --test p-edf-ffd --json"]),
    ("check", &["check set.json --test p-edf-ffd --json --costs costs.csv --load idle"]),
    ("check", &["check plain.json --test p-edf-ffd --json --overheads overheads.csv"]),
    ("check study", &["check study study.toml"]),
    ("check study merge", &["check study merge counts.parquet"]),
    ("advise", &["advise a.parquet"]),
    ("advise set", &["advise set one.json --costs costs.csv --load idle"]),
    ("advise fit", &["advise fit a.parquet"]),
    ("advise predict", &["advise predict model.json --wss 4KiB"]),
    ("sim platform", &["sim platform xeon_x5650"]),
    ("sim platform", &["sim platform ."]),
    ("sim validate", &["sim validate waechtler-a4 --wss 4KiB --samples 2"]),
    ("compare", &["compare a.parquet b.parquet"]),
    ("compare", &["compare switches.parquet switches.parquet"]),
    ("report", &["report a.parquet", "--table text"]),
    ("report", &["report switches.parquet", "--table text"]),
    ("report contents", &["report contents a.parquet"]),
    ("place simulate", &["place simulate --on xeon_e5520 --pairs 1"]),
    ("doctor", &["doctor --sysfs-root ."]),
    ("help", &["help slack"]),
    ("measure access-time", &["measure access-time --on m5_cc --wss 4KiB --dry-run", "--json"]),
    ("measure preemption-length", &["measure preemption-length --on m5_cc --dry-run", "--json"]),
    (
        "measure synthetic",
        &["measure synthetic --on m5_cc --wss 4KiB --load idle --dry-run", "--json"],
    ),
    (
        "measure schedule-sensitive",
        &["measure schedule-sensitive --on m5_cc --tasks 2 --sets 1 --dry-run", "--json"],
    ),
    ("measure core-switch", &["measure core-switch --on m5_cc --dry-run", "--json"]),
    ("measure shared-data", &["measure shared-data --on m5_cc --dry-run", "--json"]),
    ("measure overheads", &["measure overheads --tasks 2 --dry-run", "--json"]),
    ("measure supply", &["measure supply --dry-run", "--json"]),
    (
        "measure program-costs",
        &["measure program-costs --dry-run --progress plain.json -- true", "--json"],
    ),
    ("measure plan", &["measure plan plan.json --on m5_cc --dry-run", "--json"]),
    ("record", &["record --dry-run -- true", "--json"]),
    ("record from", &["record from sched.txt --costs costs.csv --load idle --wss 64KiB"]),
];

/// A value of each option that takes one, different from its default; `verb:option` is for one verb.
const VALUES: &str = "bytes=128B bundle=out.tar budget=90s call=getppid chains=4 colours=4 command=true compute=3us \
    confidence=80% cluster-level=2 costs=pmo.csv cpus=1 changing=4KiB delay=77us duration=4s convert:duration=7 event=none \
    estimator=ratio fibonacci=10 from-trace=trace.lackey gem5=out.py items=64 job-colours=0 job-ways=1:0 \
    length=3ms load=constructed load-cpus=1 margin=35% mechanism=v4 mover=handover node=0 on=epyc_7313 \
    only=page=thp other-colours=1 other-ways=1:0 outstanding=2 output=out.file overheads=overheads.csv \
    page=thp pair=0:1 passes=2 pattern=scan period=10..20ms placement=contiguous placing=same \
    platform=xeon_x5650 polluter=128KiB precision=3% preemptor=128KiB preemptor-wss=64KiB preset=bastoni \
    program=exchange quantum=2ms repeat=2 replicates=11 rounds=4 samples=9 scheduler=p-edf seed=7 sets=3 \
    share=1% sharing=read sleeping-batch=7 sporadic=0.5 statistic=avg svg=out.svg gantt=out.svg sysfs-root=. \
    task-set=plain.json tasks=3 test=p-fp-bfd threads=3 through=pipe timeline=out.html trace=out.json \
    trace-skip=1 trace-take=2 trace-thread=5 transfer=loopback utilisation=0.1..0.2 watch=1 \
    workload=lib.so:job write-ratio=0.25 wss=128KiB arm=x=true batch=7 buckets=16 cgroup=/sys/fs/cgroup unit=ms exchange=exchange.csv \
    pid=1 to=costs least=50us fail-on=unknown rows=2 live=a.parquet method=curve smr=0.5 mpmi=3 \
    deploy=plain.json for=3s supply=supply.json threshold=2us shard=0/2 page=thp picture=out.svg check~study:threads=2 check~study:page=out.html check~study~merge:page=out.html start=packed pairs=2 man=man completions=bash watched=20s window=10ms block=50ms metrics=out.prom report:output=out.html advise~fit:output=out.json sim~validate:output=out.html sim~validate:svg=. record~from:statistic=max";

/// Options that may change nothing, with the reason; a mode is the beginning of a command line.
const QUIET: [(&str, &str, &str); 32] = [
    ("", "force", "a permission: nothing is in the way (tested below)"),
    ("", "quiet", "no note stands on stderr beside these answers (tested below)"),
    ("convert rows", "salvage", "a permission: the file is sound (tests/damaged)"),
    ("check study", "threads", "the counts are the same, however many count"),
    ("", "no-real-time", "a promise: a plan has no policy, a simulated machine no SCHED_FIFO"),
    ("", "allow-system", "a permission, which these plans do not need"),
    (
        "check",
        "accept-largest",
        "the table of costs has no largest of so many samples (tests/costs)",
    ),
    ("measure", "output", "a dry run writes no file"),
    ("measure", "budget", "a dry run shows the whole plan"),
    ("measure", "precision", "a dry run shows the first round"),
    ("measure", "sampled", "the plan is the same, its simulation is not"),
    ("measure", "exact", "the plan is the same, its simulation is not"),
    ("measure", "placement", "the plan is the same, its simulation is not"),
    ("measure", "colours", "the plan is the same, its simulation is not"),
    ("measure", "job-colours", "the plan is the same, its simulation is not"),
    ("measure", "other-colours", "the plan is the same, its simulation is not"),
    ("measure", "job-ways", "the plan is the same, its simulation is not"),
    ("measure", "other-ways", "the plan is the same, its simulation is not"),
    ("record", "output", "a dry run writes no file"),
    ("record", "budget", "a dry run shows the whole plan"),
    ("record", "wss", "a recording without costs of this host prints no cost"),
    ("record", "costs", "a dry run prices nothing"),
    ("record", "timeline", "a dry run writes no file"),
    ("record", "trace", "a dry run writes no file"),
    ("", "metrics", "a dry run writes no file (tests/program_costs)"),
    ("compare switches", "fail-on", "equal results have no outcome to fail on"),
    ("sim validate", "exact", "a working set of 4 KiB is simulated in every set"),
    ("sim validate", "passes", "4 KiB are warm after any number of passes"),
    ("check", "slack", "sets of few tasks are asked in any case (tests/check)"),
    ("check", "ignore-cpus", "these sets put no task on a CPU (tests/check)"),
    ("check", "platform", "a partitioned test has no migrations and no clusters"),
    ("convert tasks workload.json", "cpus", "1 is what the workload names"),
];

/// The effect of a command line: its exit code, what it prints, and the files that it makes.
#[derive(Debug, PartialEq, Eq)]
struct Seen {
    code: Option<i32>,
    out: String,
    err: String,
    files: BTreeMap<String, Vec<u8>>,
}

fn corehop(words: &[String], folder: &Path) -> Output {
    Command::new(env!("CARGO_BIN_EXE_corehop"))
        .args(words)
        .current_dir(folder)
        .env("HOME", folder)
        .env("XDG_DATA_HOME", folder)
        .output()
        .unwrap()
}

/// Writes [`FILES`] into a folder.
fn write_files(folder: &Path) {
    for (name, text) in FILES {
        let path = folder.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
}

/// Runs a command line in a folder of its own.
fn seen(words: &[String]) -> Seen {
    let folder = tempfile::tempdir().unwrap();
    write_files(folder.path());
    let named = MADE.iter().filter(|(name, _)| words.iter().any(|word| word == name));
    for (name, _) in named {
        fs::copy(made().join(name), folder.path().join(name)).unwrap();
    }
    let output = corehop(words, folder.path());
    let made = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap());
    let files = made.filter_map(|entry| {
        let name = entry.file_name().into_string().unwrap();
        let given = FILES.iter().chain(&MADE).any(|(given, _)| *given == name);
        (!given && entry.path().is_file()).then(|| (name, fs::read(entry.path()).unwrap()))
    });
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Seen {
        code: output.status.code(),
        out: text(&output.stdout),
        err: text(&output.stderr),
        files: files.collect(),
    }
}

/// The options of a verb, from its help: the name, and whether an option takes a value.
fn options(verb: &str) -> Vec<(String, bool)> {
    let words: Vec<String> = verb.split(' ').chain(["--help"]).map(str::to_owned).collect();
    let help = corehop(&words, Path::new("/"));
    assert!(help.status.success(), "{verb}");
    let mut all: Vec<(String, bool)> = Vec::new();
    for line in String::from_utf8(help.stdout).unwrap().lines() {
        let line = line.trim_start();
        let short =
            line.strip_prefix('-').is_some_and(|rest| rest.as_bytes().get(1) == Some(&b','));
        let long = if short { line.get(4..).unwrap_or_default() } else { line };
        let Some(long) = long.strip_prefix("--") else { continue };
        let name: String =
            long.chars().take_while(|&c| c == '-' || c.is_ascii_alphanumeric()).collect();
        let rest = &long[name.len()..];
        if !["help", "version"].contains(&name.as_str()) && !all.iter().any(|it| it.0 == name) {
            all.push((name, rest.starts_with(" <")));
        }
    }
    all
}

/// The words of a mode's lines, the second one with what the second adds.
fn lines(lines: &[&str], add: &[String]) -> Vec<Vec<String>> {
    let words =
        |line: &str| -> Vec<String> { line.split_whitespace().map(str::to_owned).collect() };
    let first = words(lines[0]);
    let end = first.iter().position(|word| word == "--").unwrap_or(first.len());
    let of = |more: &str| [&first[..end], &words(more), add, &first[end..]].concat();
    let more = lines.get(1).map(|more| of(more));
    [Some(of("")), more].into_iter().flatten().collect()
}

/// The options of a mode that are neither used nor refused by name.
fn ignored(verb: &str, mode: &[&str]) -> Vec<String> {
    let values: BTreeMap<&str, &str> =
        VALUES.split_whitespace().filter_map(|it| it.split_once('=')).collect();
    let base: Vec<Seen> = lines(mode, &[]).iter().map(|line| seen(line)).collect();
    let mut ignored = Vec::new();
    for (name, takes_value) in options(verb) {
        let option = format!("--{name}");
        let given = mode.iter().any(|line| line.split(' ').any(|word| word == option));
        let quiet = QUIET.iter().any(|(of, it, _)| mode[0].starts_with(of) && *it == name);
        if given || quiet {
            continue;
        }
        let value = takes_value.then(|| {
            let of_verb = values.get(format!("{}:{name}", verb.replace(' ', "~")).as_str());
            let value = of_verb.or_else(|| values.get(name.as_str()));
            (*value.unwrap_or_else(|| panic!("{verb}: no value for {option}"))).to_owned()
        });
        let add: Vec<String> = [Some(option.clone()), value].into_iter().flatten().collect();
        let with: Vec<Seen> = lines(mode, &add).iter().map(|line| seen(line)).collect();
        let refused = with.iter().all(|it| it.code == Some(2));
        // `-o` is how messages name `--output`.
        let named =
            |it: &Seen| it.err.contains(&option) || name == "output" && it.err.contains("-o OUT");
        if with == base {
            ignored.push(format!("{}: {option} changes nothing", mode[0]));
        } else if refused && !with.iter().all(named) {
            ignored.push(format!(
                "{}: {option} is refused without its name: {}",
                mode[0], with[0].err
            ));
        }
    }
    ignored
}

/// Checks the modes of some verbs.
fn none_is_ignored(of: impl Fn(&str) -> bool) {
    let modes = MODES.iter().filter(|(verb, _)| of(verb));
    let ignored: Vec<String> = modes.flat_map(|(verb, mode)| ignored(verb, mode)).collect();
    assert!(ignored.is_empty(), "{}", ignored.join("\n"));
}

#[test]
fn every_option_of_a_measurement_is_used_or_refused_by_name() {
    none_is_ignored(is_measurement);
}

#[test]
fn every_option_of_the_other_verbs_is_used_or_refused_by_name() {
    none_is_ignored(|verb| !is_measurement(verb) && !is_about_results(verb));
}

fn is_measurement(verb: &str) -> bool {
    verb.starts_with("measure") || verb.starts_with("record")
}

/// Whether a verb reads results.
fn is_about_results(verb: &str) -> bool {
    ["compare", "report", "advise", "sim validate"].iter().any(|it| verb.starts_with(it))
}

#[test]
fn every_option_of_verbs_about_results_is_used_or_refused_by_name() {
    none_is_ignored(is_about_results);
}

/// Command lines with an option of another mode, and that option. These modes run for long, act on the host, or need a file of
/// samples, so that the test above does not add every option to them.
const REFUSED: [(&str, &str); 43] = [
    ("place simulate --on xeon_x5650 --costs /nonexistent", "--costs"),
    ("place simulate --on xeon_x5650 --model /nonexistent", "--model"),
    ("place simulate --on xeon_x5650 --window 20ms", "--window"),
    ("place simulate --on xeon_x5650 --evidence locks", "--evidence"),
    ("place simulate --on xeon_x5650 --page-faults 7", "--page-faults"),
    ("place simulate --on xeon_x5650 --progress syscalls:write", "--progress"),
    ("place simulate --on xeon_x5650 --for 1s", "--for"),
    ("place simulate --on xeon_x5650 --dry-run", "--dry-run"),
    ("place simulate --on xeon_x5650 --output log.jsonl", "--output"),
    ("place --pairs 2 1", "--pairs"),
    ("place --on xeon_x5650 --costs /nonexistent --model /nonexistent --window 5s", "--costs"),
    ("place replay log.jsonl --pairs 2", "--pairs"),
    ("place replay log.jsonl --costs costs.csv", "--costs"),
    ("place replay log.jsonl --window 20ms", "--window"),
    ("place replay log.jsonl --search", "--search"),
    ("advise a.parquet --seed 3", "--seed"),
    ("advise a.parquet --samples 3", "--samples"),
    ("advise a.parquet --idle", "--idle"),
    ("advise a.parquet --margin 5%", "--margin"),
    ("advise simulate --on xeon_x5650 --load idle", "--load"),
    ("advise simulate --on xeon_x5650 --statistic max", "--statistic"),
    ("advise set one.json --costs costs.csv --margin 5%", "--margin"),
    ("advise one.json --costs costs.csv --margin 99%", "--margin"),
    ("try --progress count.txt -- true", "--progress"),
    ("offload --os-cores 1 --threads 2 -- true", "--threads"),
    ("offload --os-cores 1 --seed 2 -- true", "--seed"),
    ("offload --os-cores 1 --compute 2us -- true", "--compute"),
    ("offload simulate --os-cores 1 --on xeon_x5650 --spin 2", "--spin"),
    ("advise predict model.json --wss 64KiB --items 3", "--items"),
    ("advise predict model.json --wss 64KiB --sharing read", "--sharing"),
    ("advise predict model.json --wss 64KiB --mpmi 3", "--mpmi"),
    ("measure access-time --on m5_cc --cpus 0,1 --dry-run", "--cpus"),
    ("measure preemption-length --on m5_cc --cpus 0,1 --dry-run", "--cpus"),
    ("measure schedule-sensitive --on m5_cc --preset waechtler --dry-run", "--preset"),
    ("measure schedule-sensitive --on m5_cc --cluster-level 2 --dry-run", "--cluster-level"),
    ("measure schedule-sensitive --on m5_cc --command true --dry-run", "--command"),
    ("measure core-switch --on m5_cc --call gettid --bytes 64B --dry-run", "--bytes"),
    ("measure shared-data --on m5_cc --program swap --buckets 4 --dry-run", "--buckets"),
    ("measure shared-data --on m5_cc --program swap --fibonacci 4 --dry-run", "--fibonacci"),
    ("measure shared-data --on m5_cc --program fork-join --items 4 --dry-run", "--items"),
    ("measure synthetic --on m5_cc --wss 4KiB --trace-take 3 --dry-run", "--trace-take"),
    ("measure synthetic --on m5_cc --stream --resume", "--resume"),
    ("sim validate-host host.toml --samples 3", "--samples"),
];

#[test]
fn an_option_of_another_mode_is_refused_by_name() {
    for (line, option) in REFUSED {
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        let seen = seen(&words);
        assert!(seen.code == Some(2) && seen.err.contains(option), "{line}: {seen:?}");
        assert!(seen.files.is_empty(), "{line}: {seen:?}");
    }
}

#[test]
fn a_quiet_answer_is_the_same_on_stdout_and_leaves_stderr_empty() {
    for (verb, mode) in MODES {
        let has_json = options(verb).iter().any(|(name, _)| name == "json");
        let json = has_json && !mode.iter().any(|line| line.contains("--json"));
        let add: Vec<String> = json.then(|| "--json".to_owned()).into_iter().collect();
        for line in lines(&mode[..1], &add) {
            let loud = seen(&line);
            let at = line.iter().position(|word| word == "--").unwrap_or(line.len());
            let quiet = [&line[..at], &["--quiet".to_owned()], &line[at..]].concat();
            let quiet = seen(&quiet);
            assert_eq!((&quiet.code, &quiet.out), (&loud.code, &loud.out), "{line:?}");
            assert!(quiet.err.is_empty(), "{line:?}: {quiet:?}");
            assert!(has_json, "{verb} has no --json");
        }
    }
}

#[test]
fn force_overwrites_what_is_refused_without() {
    let line = |more: &str| -> Vec<String> {
        let line = format!("convert rt-app plain.json -o workload.json {more}");
        line.split_whitespace().map(str::to_owned).collect()
    };
    assert_ne!(seen(&line("")).code, Some(0));
    assert_eq!(seen(&line("--force")).code, Some(0));
}

#[test]
fn the_options_of_a_verb_are_found_in_its_help() {
    let all = options("convert rows");
    let has = |name: &str, value: bool| all.contains(&(name.to_owned(), value));
    assert!(has("output", true) && has("salvage", false), "{all:?}");
}
