// SPDX-License-Identifier: MIT OR Apache-2.0
//! Made-up files of every kind, with round numbers: a reader of the expected texts can work out what each must say.

use std::fs::File;
use std::io::{Seek as _, Write as _};
use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::{Value, json};

use corehop_plan::finding::{Finding, Severity};
use corehop_plan::platform::Platform;
use corehop_plan::samples::example::{
    access_time, preemption_length, recorded_absence, recorded_run, recorded_thread, sample,
    switch_batch, task_job,
};
use corehop_plan::samples::{
    Absence, AccessTime, BatchWriter, Cause, Certificate, EndedRun, KernelObservation,
    ObservedThread, Overhead, OverheadFacts, OverheadTime, Provenance, Reader, RecordingFacts,
    RowKind, Rows, Sample, SharedData, SupplyGap, SwitchBatch, TaskJob, Vantage,
};
use corehop_plan::units::{Bytes, Cpu, CpuList};
use corehop_plan::workload::gang::{Placing, Sharing};
use corehop_plan::workload::scheduler::Scheduler;
use corehop_plan::workload::switching::{SwitchCall, SwitchMechanism};
use corehop_plan::workload::{Absence as Away, Event, LineState, Load, Page, Pattern, Polluter};
use corehop_results::Gather;
use corehop_stats::estimator::Estimator;
use corehop_stats::saturation::SWEEP;

/// Two cores of 32 KiB and a common cache of 1 MiB: `box`, which is a guest. And `tub`, whose cores have 64 KiB each and
/// nothing in common.
pub(super) fn platform(id: &str) -> Platform {
    let cache = |level: u32, size: &str, instances: &str| {
        format!(
            "[[cache]]\nlevel = {level}\nkind = \"unified\"\nline = {{ value = \"64 B\", source = \"assumed\" }}\n\
             size = {{ value = \"{size}\", source = \"assumed\" }}\n\
             instances = {{ value = \"{instances}\", source = \"assumed\" }}\n"
        )
    };
    let (hypervisor, caches) = match id {
        "box" => (
            "hypervisor = { value = \"KVM\", source = \"assumed\" }\n",
            cache(1, "32 KiB", "0-1 by 1") + &cache(3, "1 MiB", "0-1 by 2"),
        ),
        _ => ("", cache(1, "64 KiB", "0-1 by 1")),
    };
    let text = format!(
        "schema = 1\nid = \"{id}\"\nname = \"The {id}\"\n{hypervisor}\
         cpus = {{ value = \"0-1\", source = \"assumed\" }}\n\
         packages = {{ value = \"0-1 by 2\", source = \"assumed\" }}\n\
         cores = {{ value = \"0-1 by 1\", source = \"assumed\" }}\n{caches}"
    );
    Platform::from_toml(&text).unwrap()
}

/// `box` with the lines between its CPUs and its latencies measured, and one of its caches contradicted.
pub(super) fn measured() -> Platform {
    let mut text = platform("box").to_toml();
    let exchange = r#"exchange = { value = [{ from = 0, to = 1, min = "61.5 ns", median = "73.2 ns", batches = 1000 },
        { from = 1, to = 0, min = "62.5 ns", median = "75.2 ns", batches = 900 }], source = "measured" }"#;
    text = text.replacen("packages =", &format!("{exchange}\npackages ="), 1);
    let size = r#"size = { value = "32 KiB", source = "assumed""#;
    assert!(text.contains(size), "{text}");
    text = text.replacen(size, &format!("latency = {{ value = \"4 cycles\", source = \"measured\" }}\n{size}, check = \"observed: a plateau ends there\""), 1);
    let size = r#"size = { value = "1 MiB", source = "assumed""#;
    text = text.replacen(
        size,
        &format!("{size}, check = \"contradicted: a plateau ends at 512 KiB\""),
        1,
    );
    Platform::from_toml(&text).unwrap()
}

/// The bytes as a file that is gone when it is closed.
fn file(bytes: &[u8]) -> File {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let name = format!("corehop-told-{}-{number}", std::process::id());
    let path = std::env::temp_dir().join(name);
    let mut file = File::options().create_new(true).read(true).write(true).open(&path).unwrap();
    std::fs::remove_file(path).unwrap();
    file.write_all(bytes).unwrap();
    file.rewind().unwrap();
    file
}

/// Reads a file of these rows, made on the machine `on`, with these facts in its provenance.
fn take(gather: &mut Gather, (name, kind): (&str, RowKind), on: &str, facts: Value, rows: &Rows) {
    let Value::Object(machine) = facts else { panic!("{facts}") };
    let provenance = Provenance {
        corehop: "0.0.0".to_owned(),
        command: vec!["corehop".to_owned(), "measure".to_owned(), "--precision=5%".to_owned()],
        date: "2026-01-02T03:04:05Z".to_owned(),
        seed: 7,
        experiment: kind.word().to_owned(),
        plan_digest: "d1+d2+d3".to_owned(),
        platform: platform(on).to_toml(),
        machine,
        ..Provenance::default()
    };
    let mut bytes = Vec::new();
    let mut part = BatchWriter::begin(&mut bytes, kind, &provenance).unwrap();
    part.append(rows).unwrap();
    part.end().unwrap();
    gather.file(name, &mut Reader::open(file(&bytes)).unwrap()).unwrap();
}

pub(super) fn nothing() -> Gather {
    Gather::new(Estimator::Difference)
}

/// `replicates` times `each` samples like `of`, the delay of which is `us` and a tenth more with each replicate. The first
/// replicate has one sample more: replicates need not be of one size.
pub(super) fn cell(of: &Sample, us: f64, replicates: u64, each: u64) -> Vec<Sample> {
    let one = |replicate: u64, at: u64| Sample {
        job: replicate * 10 + at,
        replicate: Some(replicate),
        // An order in which neighbours are not alike.
        resumed_ns: of.warm_ns + 1e3 * us * (1.0 + 0.1 * (replicate * 5 % replicates) as f64),
        ..of.clone()
    };
    let of_replicate = |it: u64| (0..each + u64::from(it == 0)).map(move |at| one(it, at));
    (0..replicates).flat_map(of_replicate).collect()
}

fn samples_of_box() -> Vec<Sample> {
    let preempted = sample();
    let larger =
        |of: Sample| Sample { wss_bytes: 64 << 10, lines: 1_024, lines_certified: 1_024, ..of };
    let none = Sample {
        event: Event::None,
        preempted_by: Away::Nothing,
        preemption_length: "none".into(),
        ..preempted.clone()
    };
    let moved = Sample { event: Event::L3Migration, to_cpu: 1, ..preempted.clone() };
    let alone =
        Sample { event: Event::IdleLeave, preempted_by: Away::Nothing, ..preempted.clone() };
    let beside = Sample {
        load: "constructed".into(),
        polluter: Some(walker().to_string().as_str().into()),
        ..preempted.clone()
    };
    let varied = Sample { preemption_length: "uniform_0_50ms".into(), ..preempted.clone() };
    let huge = Sample { page: Page::Transparent, huge_share: 1.0, ..preempted.clone() };
    let mut all = cell(&none, 0.02, 8, 2);
    all.extend(cell(&preempted, 2.0, 8, 2));
    all.extend(cell(&larger(preempted.clone()), 20.0, 3, 2));
    all.extend(cell(&moved, 3.0, 8, 2));
    all.extend(cell(&alone, 2.5, 8, 2));
    all.extend(cell(&beside, 8.0, 8, 2));
    all.extend(cell(&huge, 1.5, 8, 2));
    let lengths = cell(&varied, 1.0, 6, 2).into_iter().zip(1..);
    all.extend(lengths.map(|(it, at)| Sample { length_ns: 4e6 * f64::from(at), ..it }));
    // What a disturbance does: one sample is lost, one is repaired, one has a weaker certificate.
    let lost =
        Sample { valid: false, disturbed_by: vec![Cause::Gap, Cause::Interrupt], ..moved.clone() };
    let repaired = Sample {
        repaired: vec![Cause::Gap],
        lines_certified: 60,
        replicate: Some(1),
        ..moved.clone()
    };
    let weak = Sample { certificate: Certificate::GapsAndSwitches, replicate: Some(2), ..moved };
    all.extend([lost, repaired, weak]);
    all
}

fn walker() -> Polluter {
    Polluter { wss: Bytes::from_kib(4_096), pattern: Pattern::Shuffled, write_ratio: 0.5 }
}

/// A polluter that runs for 1, 2, 4 and 8 ms beside 4 KiB and 16 KiB: the delay grows up to 2 ms.
fn samples_of_tub() -> Vec<Sample> {
    let of = |kib: u64, ms: u64, us: f64| {
        let base = Sample {
            machine: "tub".into(),
            experiment: SWEEP.into(),
            load: "constructed".into(),
            polluter: Some(walker().to_string().as_str().into()),
            wss_bytes: kib << 10,
            preemption_length: format!("fixed_{ms}ms").into(),
            requested_length_ns: ms * 1_000_000,
            length_ns: ms as f64 * 1e6,
            cold_ns: 1_000.0 + 4_000.0 * kib as f64,
            preemptor_lines: None,
            ..sample()
        };
        cell(&base, us * kib as f64, 6, 2)
    };
    let lengths = [(1, 0.5), (2, 1.0), (4, 1.0), (8, 1.0)];
    [4, 16].into_iter().flat_map(|kib| lengths.map(|(ms, us)| of(kib, ms, us)).concat()).collect()
}

fn finding(id: &str, severity: Severity) -> Finding {
    Finding {
        id: id.to_owned(),
        severity,
        found: format!("the {id} is wrong"),
        why: format!("A wrong {id} moves times."),
        remedy: Some(format!("set-{id} --right")),
        remark: (id == "governor").then(|| "It costs power.".to_owned()),
    }
}

/// Samples of both machines, with all that their provenance can tell.
pub(super) fn samples() -> Gather {
    let mut gather = nothing();
    let load = |loads: f64, stores: f64| {
        let (polluter, cpus) = (walker(), CpuList::default());
        json!([{
            "load": Load::Constructed { polluter, cpus },
            "classification": {"llc": {"load_misses_per_s": loads, "store_misses_per_s": stores}},
        }])
    };
    let of_box = json!({
        "findings": [finding("governor", Severity::Note), finding("clock", Severity::Warning)],
        "no_exchange": "CPU 1 is taken",
        "renewal": {"why_not_fresh": "pagemap is forbidden"},
        "kernel": "6.1",
        "load": load(9e9, 0.0),
    });
    let of_tub = json!({
        "findings": [finding("steal", Severity::Obstacle)],
        "load": load(1e6, 5e5),
        "renewal": {"why_not_seen": "no rights"},
    });
    take(&mut gather, ("box.parquet", RowKind::Samples), "box", of_box, &samples_of_box().into());
    take(&mut gather, ("tub.parquet", RowKind::Samples), "tub", of_tub, &samples_of_tub().into());
    gather
}

/// Walks of 4 KiB to 4 MiB: 2 ns up to the first cache of 32 KiB, 10 ns up to the second one of 1 MiB, 80 ns beyond; of lines
/// that were invalid 90 ns.
fn access_times() -> Vec<AccessTime> {
    let of = |shift: u32, cache_state, ns: f64| {
        let wss_bytes = 4_096 << shift;
        (0..24_u64).map(move |job| AccessTime {
            job,
            wss_bytes,
            cache_state,
            lines: wss_bytes / 64,
            lines_certified: wss_bytes / 64,
            access_ns: ns * (1.0 + 0.01 * (job * 7 % 12) as f64),
            replicate: Some(job / 2),
            valid: job != 5,
            disturbed_by: if job == 5 { vec![Cause::Gap] } else { Vec::new() },
            ..access_time()
        })
    };
    let valid = |shift: u32| {
        if shift <= 3 {
            2.0
        } else if shift <= 8 {
            10.0
        } else {
            80.0
        }
    };
    let all = (0..=10).flat_map(|shift| of(shift, LineState::Valid, valid(shift)));
    all.chain((0..=2).flat_map(|shift| of(shift, LineState::Invalid, 90.0))).collect()
}

/// Samples of `box` with its access times, and with what was measured of it.
pub(super) fn balanced() -> Gather {
    let mut gather = nothing();
    take(
        &mut gather,
        ("access.parquet", RowKind::AccessTimes),
        "box",
        json!({}),
        &access_times().into(),
    );
    take(
        &mut gather,
        ("box.parquet", RowKind::Samples),
        "box",
        json!({}),
        &samples_of_box().into(),
    );
    gather.platform(measured()).unwrap();
    gather
}

fn gangs() -> Vec<SharedData> {
    let of = |placing, member: u64, run: u64, ns: f64| SharedData {
        machine: "box".into(),
        seed: 1,
        gang: 0,
        run,
        member,
        program: "sum".into(),
        items: 1_000,
        parameters: "2 threads".into(),
        sharing: Sharing::Write,
        placing,
        rounds: 10,
        cpu: member,
        package: 0,
        time_ns: ns * 10.0 * (1.0 + 0.01 * run as f64),
        instructions: Some(1_000_000),
        loads: Some(100_000),
        stores: Some(1_000),
        llc_misses: Some(2_000),
        snoop_hits: Some(500),
        snoop_hits_modified: Some(100),
        invalidations: Some(50),
        write_backs: Some(20),
        preempted: Some(0),
        replicate: Some(run),
        exchange_ns: None,
        exchange_after_ns: None,
        moved_to: None,
    };
    let sides = [(Placing::Shared, 80.0), (Placing::Separate, 100.0)];
    let runs =
        sides.into_iter().flat_map(|(placing, ns)| (0..6).map(move |run| (placing, ns, run)));
    runs.flat_map(|(placing, ns, run)| {
        [0, 1].map(|member| of(placing, member, run, ns + member as f64))
    })
    .collect()
}

fn switches() -> Vec<SwitchBatch> {
    let of = |mechanism, outstanding: u64, call, bytes: u64, ns: f64| {
        (0..7).map(move |replicate| SwitchBatch {
            mechanism,
            outstanding,
            call,
            bytes,
            mean_ns: Some(ns * (1.0 + 0.01 * (replicate * 3 % 7) as f64)),
            replicate: Some(replicate),
            ..switch_batch()
        })
    };
    let gettid = |mechanism, outstanding, ns| of(mechanism, outstanding, SwitchCall::Gettid, 0, ns);
    let failed = SwitchBatch {
        mechanism: SwitchMechanism::Sqpoll,
        mean_ns: None,
        valid: false,
        not_measured: Some("no answer in time".into()),
        ..switch_batch()
    };
    let mut all: Vec<SwitchBatch> = gettid(SwitchMechanism::None, 1, 100.0).collect();
    all.extend(gettid(SwitchMechanism::V1, 1, 8_100.0));
    all.extend(gettid(SwitchMechanism::V4, 1, 500.0));
    all.extend(gettid(SwitchMechanism::V4, 16, 90.0));
    for kib in [4_u64, 64] {
        all.extend(of(SwitchMechanism::None, 1, SwitchCall::Pread, kib << 10, 100.0 * kib as f64));
        all.extend(of(
            SwitchMechanism::V4,
            1,
            SwitchCall::Pread,
            kib << 10,
            110.0 * kib as f64 + 400.0,
        ));
    }
    all.push(failed);
    all
}

fn overheads() -> (Value, Vec<OverheadTime>) {
    let facts = OverheadFacts {
        missing: vec!["TICK, in the kernel: no tracepoint".to_owned()],
        recording: Some(KernelObservation {
            noting_ns: 20.0,
            residual_ns: Some(30.0),
            clock_bound_ns: 40.0,
            events: 5_000,
            lost: 12,
            unmatched: 3,
        }),
        control_page: None,
        no_control_page: Some("no rights".to_owned()),
    };
    let row = |overhead, vantage, tasks: u64, ns: f64| OverheadTime {
        machine: "box".into(),
        seed: 1,
        overhead,
        vantage,
        task_count: tasks,
        from_cpu: None,
        to_cpu: None,
        ns,
        replicate: Some(0),
    };
    let hundred = |overhead, vantage, tasks, us: f64| {
        (1..=100).map(move |at| row(overhead, vantage, tasks, us * 10.0 * f64::from(at)))
    };
    let all = hundred(Overhead::Decision, Vantage::Kernel, 2, 1.0)
        .chain(hundred(Overhead::Decision, Vantage::Kernel, 10, 2.0))
        .chain(hundred(Overhead::WakeUp, Vantage::Threads, 2, 30.0));
    (json!({ (OverheadFacts::KEY): facts }), all.collect())
}

fn supply() -> Vec<SupplyGap> {
    let row = |cpu: u64, window: u64, gap: u64, of: Option<(u64, u64)>, cut| SupplyGap {
        machine: "box".into(),
        seed: 1,
        window,
        cpu,
        replicate: Some(window),
        start_ns: window * 1_000_000_000,
        asked_ns: 1_000_000_000,
        watched_ns: 1_000_000_000,
        short_ns: 500_000,
        gap,
        gap_at_ns: of.map(|it| it.0),
        gap_ns: of.map(|it| it.1),
        cut,
        threshold_ns: 1_000,
        policy: if cpu == 0 { "fifo:2".into() } else { "other:0".into() },
    };
    vec![
        row(0, 0, 0, Some((100_000_000, 2_000_000)), true),
        row(0, 0, 1, Some((103_000_000, 500_000)), false),
        row(0, 1, 0, None, false),
        row(1, 2, 0, Some((500_000_000, 30_000_000)), false),
    ]
}

/// Jobs of two tasks under two schedulers: each tenth one of the second scheduler is late.
fn jobs() -> Vec<TaskJob> {
    let of = |scheduler, task: u64, job: u64| {
        let late = scheduler == Scheduler::PEdf && job.is_multiple_of(10);
        TaskJob {
            scheduler,
            run: u64::from(scheduler == Scheduler::PEdf),
            task,
            job,
            release_ns: 10_000_000 * job,
            response_ns: if late { 12e6 } else { 2e6 },
            lateness_ns: if late { 2e6 } else { -8e6 },
            ..task_job()
        }
    };
    let tasks =
        [(Scheduler::GEdf, 0), (Scheduler::GEdf, 1), (Scheduler::PEdf, 0), (Scheduler::PEdf, 1)];
    tasks
        .into_iter()
        .flat_map(|(scheduler, task)| (0..20).map(move |job| of(scheduler, task, job)))
        .collect()
}

/// All results that are no cells of delays.
pub(super) fn others() -> Gather {
    let mut gather = nothing();
    let mut other =
        |name, kind, facts: Value, rows: Rows| take(&mut gather, (name, kind), "box", facts, &rows);
    other("access.parquet", RowKind::AccessTimes, json!({}), access_times().into());
    let lengths = (0..40).map(|job| corehop_plan::samples::PreemptionLength {
        job,
        requested_length_ns: if job < 20 { 1_000_000 } else { 4_000_000 },
        length_ns: if job < 20 { 1_050_000.0 } else { 4_090_000.0 } + 100.0 * (job % 20) as f64,
        replicate: Some(job % 10),
        ..preemption_length()
    });
    other(
        "lengths.parquet",
        RowKind::PreemptionLengths,
        json!({}),
        lengths.collect::<Vec<_>>().into(),
    );
    other("gangs.parquet", RowKind::SharedData, json!({}), gangs().into());
    other("switches.parquet", RowKind::Switches, json!({}), switches().into());
    let (facts, times) = overheads();
    other("overheads.parquet", RowKind::Overheads, facts, times.into());
    other("supply.parquet", RowKind::Supply, json!({}), supply().into());
    other("sets.jobs.parquet", RowKind::TaskJobs, json!({}), jobs().into());
    gather
}

/// The files of a recorded program: two threads, one of them preempted and moved, six runs of two arms. Without `threads`, that
/// file is not among them.
pub(super) fn recorded(threads: bool) -> Gather {
    let (mut gather, platform) = (nothing(), platform("box"));
    let facts = RecordingFacts {
        what: "sh -c true".to_owned(),
        status: Some(0),
        method: "bpf".to_owned(),
        began_ns: 1_000,
        span_ns: 1_000_000_000,
        cpu_ns: Some(600_000_000),
        rss_bytes: Some(8 << 20),
        lost: 3,
        ..RecordingFacts::default()
    };
    let absence = |at: u64, to: u32, preempted| Absence {
        tid: 7,
        out_ns: at * 1_000_000,
        in_ns: at * 1_000_000 + 500_000,
        seen: at != 3,
        from: Cpu(0),
        to: Cpu(to),
        preempted,
        pinned: false,
        ran_ns: 1_000_000,
        cpu_ns: Some(at * 500_000),
        by: preempted.then(|| (9, "make".to_owned())),
    };
    let thread = |tid: u32, name: &str| ObservedThread {
        tid,
        pid: 7,
        name: name.to_owned(),
        preemptions: 3,
        voluntary: 5,
        migrations: 2,
        cpu_changes: 2,
        unseen: u64::from(tid == 7),
        preempted_ns: 1_500_000,
        cpu_ns: Some(300_000_000),
        waited_ns: Some(2_000_000),
        ..ObservedThread::default()
    };
    let absences =
        [absence(1, 0, true), absence(2, 1, true), absence(3, 1, false), absence(4, 0, true)];
    let rows: Vec<_> = absences.iter().map(|it| recorded_absence(&platform, it)).collect();
    let facts = json!({ (RecordingFacts::KEY): facts });
    take(&mut gather, ("run.parquet", RowKind::Absences), "box", facts.clone(), &rows.into());
    if threads {
        let rows = [thread(7, "sh"), thread(8, "worker")];
        let rows: Vec<_> = rows.iter().map(|it| recorded_thread(&platform, it)).collect();
        take(
            &mut gather,
            ("run.threads.parquet", RowKind::Threads),
            "box",
            facts.clone(),
            &rows.into(),
        );
    }
    let run = |wall_ns: u64| EndedRun {
        wall_ns,
        cpu_ns: Some(wall_ns / 2),
        preemptions: 3,
        ..EndedRun::default()
    };
    let rows: Vec<_> = [1_000_000, 1_100_000].map(|it| recorded_run(&platform, &run(it))).to_vec();
    take(&mut gather, ("run.runs.parquet", RowKind::Runs), "box", facts, &rows.into());
    gather
}
