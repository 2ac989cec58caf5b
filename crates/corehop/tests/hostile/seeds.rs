// SPDX-License-Identifier: MIT OR Apache-2.0
//! Small valid files of every kind that the program reads, most of them made by the program.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use corehop_plan::samples::{
    BatchWriter, OverheadTime, Provenance, RecordedAbsence, RecordedRun, RecordedThread, RowKind,
    Rows, SupplyGap, Vantage,
};
use corehop_plan::workload::Event;

const QUICK: &str = "--samples 6 --replicates 6 --load idle -q --on xeon_x5650";

/// Files that the program makes: a name, and the command whose -o is that file. `>` takes its standard output.
const MADE: [(&str, &str); 16] = [
    ("samples.parquet", "measure synthetic --wss 4KiB,64KiB --event preemption,l3_migration QUICK"),
    (
        "samples.part",
        "> measure synthetic --wss 4KiB --event preemption,l3_migration QUICK --stream",
    ),
    ("sweep.parquet", "measure polluter-sweep --wss 4KiB --length 1ms QUICK"),
    (
        "conditions.parquet",
        "measure conditions --samples 12 --replicates 12 --wss 4KiB --load idle -q --on xeon_x5650",
    ),
    (
        "access.parquet",
        "measure access-time --wss 4KiB --samples 4 --replicates 2 -q --on xeon_x5650",
    ),
    ("length.parquet", "measure preemption-length --samples 4 --replicates 2 -q --on xeon_x5650"),
    (
        "shared.parquet",
        "measure shared-data --program swap,bucket-sort --items 10,20,40 --rounds 20 --samples 2 -q --on xeon_x5650",
    ),
    ("switches.parquet", "measure core-switch --samples 2 -q --on xeon_x5650"),
    (
        "tasks.parquet",
        "measure schedule-sensitive --tasks 3 --sets 1 --duration 20ms --wss 4KiB --load idle -q --on xeon_x5650",
    ),
    ("counts.parquet", "study study.toml --sets 2"),
    ("model.json", "advise fit samples.parquet"),
    ("gain.json", "advise fit shared.parquet"),
    ("costs.csv", "> report samples.parquet --table csv"),
    ("plan.json", "> measure synthetic --wss 4KiB --event preemption QUICK --dry-run --json"),
    ("rtapp.json", "convert rt-app set.json"),
    ("schedcat.csv", "convert schedcat costs.csv"),
];

/// Files that people write.
const WRITTEN: [(&str, &str); 18] = [
    (
        "held.json",
        r#"{"cpus": 2, "locking": "pi", "chains": [{"name": "c", "tasks": ["a", "b"], "activation": "event", "deadline_us": 30000}],
        "tasks": [{"name": "a", "wcet_us": 2000, "period_us": 10000, "bcet_us": 5, "locks": [{"resource": "r", "longest_us": 9}]},
        {"name": "b", "wcet_us": 3500, "period_us": 10000, "suspension_us": 2}]}"#,
    ),
    (
        "set.json",
        r#"{"cpus": 2, "tasks": [{"name": "a", "wcet_us": 2000, "period_us": 10000, "deadline_us": 8000,
        "priority": 1}, {"wcet_us": 3500, "period_us": 12000, "priority": 2, "jitter_us": 5, "blocking_us": 7}]}"#,
    ),
    (
        "cached.json",
        r#"{"cpus": 2, "block_reload_ns": 150, "tasks": [{"wcet_us": 2000, "period_us": 10000, "wss_kib": 64,
        "ucb": "0-31,64", "ecb": "0-99"}, {"wcet_us": 3500, "period_us": 12000, "wss_kib": 4, "ucb": [1], "ecb": [1, 2]}]}"#,
    ),
    (
        "placed.json",
        r#"{"cpus": 2, "tasks": [{"wcet_us": 2, "period_us": 10, "cpus": [1]},
        {"wcet_us": 3, "period_us": 12, "cpus": [0, 1]}]}"#,
    ),
    ("supply.json", r#"[{"cpus": "0-1", "period_us": 1000, "budget_us": 800.5}]"#),
    ("overheads.csv", "TASK-COUNT,CXS,SCHEDULE,TICK\n10,1.5,2,1\n20,2.5,3,1\n"),
    (
        "lackey.txt",
        "I  04001000,3\n L 1ffeffe7e0,8\n S 1ffeffe7e8,8\n M 0421c7cc,4\n L 0421d000,16\n",
    ),
    (
        "memtrace.txt",
        "Format: <data address>: <data size>, <(r)ead/(w)rite/opcode>\n0x7f0010: 8, r\n0x7f0050: 4, w\n0x7f0090: 8, r\n",
    ),
    (
        "trace.txt",
        "# tracer: nop\n  a-7 (7) [000] d..2. 10.000000: sched_switch: prev_comm=a prev_pid=7 prev_prio=120 prev_state=R ==> next_comm=b \
         next_pid=8 next_prio=120\n  b-8 (8) [000] d..2. 10.000030: sched_switch: prev_comm=b prev_pid=8 prev_prio=120 prev_state=S ==> \
         next_comm=a next_pid=7 next_prio=120\nno event\n",
    ),
    ("tasks.csv", "name,wcet [us],T,D,prio\na,1000,10ms,8ms,1\nb,2000,20ms,,2\n"),
    (
        "tasks.yaml",
        "cpus: 2\ntasks:\n  - {name: a, C: 1ms, T: 10ms}\n  - {wcet: 2, period: 20 ms}\n",
    ),
    (
        "times.json",
        r#"{"results": [{"command": "a", "mean": 1.0, "times": [0.9, 1.0, 1.1], "exit_codes": [0, 0, 0]},
        {"command": "b", "mean": 2.0, "times": [1.9, 2.0, 2.1], "exit_codes": [0, 1, 0]}]}"#,
    ),
    (
        "lscpu.json",
        r#"{"cpus": [{"cpu": 0, "socket": 0, "core": 0, "l1d:l1i:l2:l3": "0:0:0:0"}, {"cpu": 1, "socket": 0, "core": 1, "l1d:l1i:l2:l3": "1:1:0:0"}]}"#,
    ),
    (
        "topology.xml",
        r#"<topology version="2.0"><object type="Package" os_index="0"><object type="NUMANode" os_index="0" local_memory="1073741824"/>
        <object type="L3Cache" cache_size="2097152" depth="3" cache_linesize="64" cache_associativity="16" cache_type="0">
        <object type="Core" os_index="0"><object type="PU" os_index="0"/></object></object></object></topology>"#,
    ),
    (
        "schedcat.xml",
        r#"<taskset><task id="1" wcet="2.5" period="10" partition="0" wss="64"/><task id="2" wcet="3" period="20" deadline="15"/></taskset>"#,
    ),
    (
        "mast.txt",
        "-- a model\nProcessing_Resource (Type => Fixed_Priority_Processor, Name => p, Max_Priority => 9);\nProcessing_Resource (Type => Regular_Processor, \
         Name => q);\nScheduler (Type => Primary_Scheduler, Name => k, Host => q, Policy => (Type => Fixed_Priority));\nScheduling_Server (Type => Regular, \
         Name => s, Scheduler => k, Server_Sched_Parameters => (Type => Fixed_Priority_Policy, The_Priority => 7));\nScheduling_Server (Type => \
         Fixed_Priority, Name => i, Server_Processing_Resource => p, Server_Sched_Parameters => (Type => Interrupt_FP_Policy, The_Priority => 9));\n\
         Operation (Type => Simple, Name => a, Worst_Case_Execution_Time => 1.5, Best_Case_Execution_Time => 1E0);\nOperation (Type => Composite, Name => \
         b, Composite_Operation_List => (a, a));\nTransaction (Type => Regular, Name => t, External_Events => ((Type => Periodic, Name => e, Period => 20, \
         Max_Jitter => 0.5)), Internal_Events => ((Type => Regular, Name => f, Timing_Requirements => (Type => Hard_Local_Deadline, Deadline => 9)), \
         (Type => Regular, Name => g, Timing_Requirements => (Type => Hard_Global_Deadline, Deadline => 30, Referenced_Event => e))), Event_Handlers => \
         ((Type => Activity, Input_Event => e, Output_Event => f, Activity_Operation => a, Activity_Server => i), (Type => Activity, Input_Event => f, \
         Output_Event => g, Activity_Operation => b, Activity_Server => s)));\n",
    ),
    ("exchanges.csv", ",,\n40.5,,\n60,41,\n"),
    ("empty", ""),
];

/// Files of the repository.
const KEPT: [(&str, &str); 6] = [
    ("study.toml", "studies/bastoni-fig5/study.toml"),
    ("limited.toml", "studies/limited-preemption/study.toml"),
    ("platform.toml", "platforms/m5_c.toml"),
    ("numa.toml", "platforms/xeon_x5650.toml"),
    ("placement.jsonl", "python/tests/data/placement.jsonl"),
    ("published.csv", "studies/bastoni-fig5/costs.csv"),
];

/// Recorded trees of `/sys` and `/proc`; a run gets them as folders.
pub(crate) const TREES: [&str; 3] = ["one_cpu.tree", "smt_laptop.tree", "hybrid.tree"];

/// The files, in a folder.
pub(crate) struct Seeds {
    pub(crate) folder: PathBuf,
    /// Their names.
    pub(crate) names: Vec<String>,
}

/// Makes the files.
pub(crate) fn make(program: &Path, folder: &Path) -> Seeds {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for (name, text) in WRITTEN {
        fs::write(folder.join(name), text).unwrap();
    }
    for (name, from) in KEPT {
        let text = fs::read(root.join(from)).unwrap();
        // A log is long, and its first windows have every kind of line.
        let most = if Path::new(name).extension().is_some_and(|it| it == "jsonl") {
            12_000
        } else {
            usize::MAX
        };
        fs::write(folder.join(name), &text[..most.min(text.len())]).unwrap();
    }
    for name in TREES {
        let from = format!("crates/corehop-linux/tests/trees/{}", name.replace(".tree", ".txt"));
        fs::copy(root.join(from), folder.join(name)).unwrap();
    }
    for (name, command) in MADE {
        by_program(program, folder, name, command);
    }
    recorded(folder);
    let names = fs::read_dir(folder).unwrap().map(|it| it.unwrap().file_name());
    let mut names: Vec<String> = names.map(|it| it.into_string().unwrap()).collect();
    names.sort();
    Seeds { folder: folder.to_owned(), names }
}

fn by_program(program: &Path, folder: &Path, name: &str, command: &str) {
    let line = command.replace("QUICK", QUICK);
    let to_stdout = line.strip_prefix("> ");
    let mut words: Vec<&str> = to_stdout.unwrap_or(&line).split_whitespace().collect();
    let mut run = Command::new(program);
    if to_stdout.is_some() {
        run.stdout(File::create(folder.join(name)).unwrap());
    } else {
        run.stdout(Stdio::null());
        words.extend(["-o", name]);
    }
    let output = run.args(words).current_dir(folder).stdin(Stdio::null()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).replace("\n         ", " ");
    assert!(matches!(output.status.code(), Some(0 | 1)), "{command}: {said}");
    assert!(folder.join(name).exists(), "{command}: {said}");
}

/// Rows that need a live machine: a recording of a program, and overheads.
fn recorded(folder: &Path) {
    let machine = || "box".into();
    let absence = |at: u64| RecordedAbsence {
        machine: machine(),
        seed: 1,
        tid: 7,
        out_ns: at * 1_000_000,
        in_ns: at * 1_000_000 + 40_000,
        length_ns: 40_000,
        seen: true,
        from_cpu: 0,
        to_cpu: at % 2,
        event: if at.is_multiple_of(2) { Event::Preemption } else { Event::L3Migration },
        preempted: true,
        by_affinity: false,
        ran_ns: 500_000,
        by_tid: Some(9),
        by: Some("other".into()),
        run: Some(0),
        cpu_ns: Some(at * 500_000),
    };
    let thread = RecordedThread {
        machine: machine(),
        seed: 1,
        tid: 7,
        pid: 7,
        name: "worker".into(),
        preemptions: 20,
        voluntary: 3,
        migrations: 10,
        affinity_moves: 0,
        cpu_changes: 10,
        unseen: 0,
        preempted_ns: 800_000,
        cpu_ns: Some(10_000_000),
        waited_ns: Some(900_000),
        held_ns: Some(100),
        brief: Some(1),
        brief_ns: Some(1_000),
        run: Some(0),
        quota_ns: Some(100_000),
        budget_ns: Some(0),
        realtime_ns: Some(0),
        frozen_ns: Some(5_000),
        stopped_ns: Some(0),
    };
    let run = RecordedRun {
        machine: machine(),
        seed: 1,
        run: 0,
        arm: "plain".into(),
        block: 0,
        began_ns: 0,
        wall_ns: 20_000_000,
        cpu_ns: Some(10_000_000),
        waited_ns: Some(900_000),
        preemptions: 20,
        migrations: 10,
        status: Some(0),
        ran_on: Some("0-1".into()),
        allowed: Some("0-1".into()),
        bound_to: None,
    };
    let time = |ns: f64| OverheadTime {
        machine: machine(),
        seed: 1,
        overhead: corehop_plan::samples::Overhead::Switch,
        vantage: Vantage::Threads,
        task_count: 4,
        from_cpu: None,
        to_cpu: None,
        ns,
        replicate: None,
    };
    write(folder, "supply.parquet", RowKind::Supply, (0..80).map(gap).collect::<Vec<_>>());
    write(folder, "program.parquet", RowKind::Absences, (0..20).map(absence).collect::<Vec<_>>());
    write(folder, "program.threads.parquet", RowKind::Threads, vec![thread]);
    write(folder, "program.runs.parquet", RowKind::Runs, vec![run]);
    write(
        folder,
        "overheads.parquet",
        RowKind::Overheads,
        (1..9).map(|it| time(f64::from(it) * 100.0)).collect::<Vec<_>>(),
    );
}

/// A gap of two in each window, of CPU 0 and 1 by turns.
fn gap(at: u64) -> SupplyGap {
    SupplyGap {
        machine: "box".into(),
        seed: 1,
        window: at / 2,
        cpu: at / 2 % 2,
        replicate: Some(0),
        start_ns: at * 50_000_000,
        asked_ns: 40_000_000,
        watched_ns: 40_500_000,
        short_ns: 300,
        gap: at % 2,
        gap_at_ns: Some(at % 2 * 20_000_000),
        gap_ns: Some(5_000 * (at + 1)),
        cut: at == 0,
        threshold_ns: 500,
        policy: "fifo:2".into(),
    }
}

fn write(folder: &Path, name: &str, kind: RowKind, rows: impl Into<Rows>) {
    let file = File::create(folder.join(name)).unwrap();
    let mut part = BatchWriter::begin(file, kind, &Provenance::default()).unwrap();
    part.append(&rows.into()).unwrap();
    part.end().unwrap();
}
