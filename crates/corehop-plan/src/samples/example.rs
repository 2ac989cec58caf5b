// SPDX-License-Identifier: MIT OR Apache-2.0
//! Made-up rows, clean ones, to be varied; and a machine that they may come from. The examples serve
//! tests, and programs that show a report.

use super::{
    AccessTime, Certificate, EndedRun, JobOutcome, ObservedThread, PreemptionLength,
    RecordedAbsence, RecordedRun, RecordedThread, Sample, SwitchBatch, TaskJob,
};
use crate::platform::{MemoryArchitecture, Platform};
use crate::workload::scheduler::Scheduler;
use crate::workload::switching::{SwitchCall, SwitchMechanism};
use crate::workload::{Absence, Event, LineState, Mover, Page, Pattern};

/// Returns a job of a task set beside polluters: 1 ms of work in each 10 ms, which moved once and
/// took 2 ms.
pub fn task_job() -> TaskJob {
    TaskJob {
        machine: "box".into(),
        scheduler: Scheduler::GEdf,
        seed: 1,
        run: 0,
        set: 0,
        load: "constructed".into(),
        task: 0,
        task_count: 2,
        wss_bytes: 4_096,
        write_ratio: 0.5,
        job: 0,
        period_ns: 10_000_000,
        deadline_ns: 10_000_000,
        wcet_ns: 1_000_000,
        release_ns: 0,
        latency_ns: 0.0,
        response_ns: 2_000_000.0,
        lateness_ns: -8_000_000.0,
        executed_ns: 1_000_000,
        course: JobOutcome::Sample,
        preemptions: 0,
        migrations: 1,
        event: Event::L3Migration,
        length_ns: Some(1e6),
        by: None,
        scale: 1.0,
    }
}

/// Returns a valid sample: 4 KiB, warm 1 µs, preempted for 4 ms, resumed 3 µs.
pub fn sample() -> Sample {
    Sample {
        experiment: "synthetic".into(),
        machine: "box".into(),
        seed: 1,
        job: 0,
        cell: 0,
        wss_bytes: 4096,
        pattern: Pattern::Shuffled,
        page: Page::Base,
        write_ratio: 0.5,
        load: "idle".into(),
        event: Event::Preemption,
        memory_architecture: MemoryArchitecture::SingleSocket,
        from_cpu: 0,
        to_cpu: 0,
        start_ns: 0,
        requested_length_ns: 4_000_000,
        length_ns: 4_050_000.0,
        cold_ns: 5_000.0,
        warm_ns: 1_000.0,
        resumed_ns: 3_000.0,
        policy: "fifo:2".into(),
        cache_state: LineState::Invalid,
        chains: 1,
        polluter: None,
        preempted_by: Absence::Preemptor,
        task: None,
        task_count: None,
        lines: 64,
        lines_certified: 64,
        valid: true,
        disturbed_by: Vec::new(),
        repaired: Vec::new(),
        repaired_ns: 0.0,
        certificate: Certificate::RseqAndGaps,
        cold_valid: true,
        preemption_length: "fixed_4ms".into(),
        length_bound_ns: 0.0,
        mover: Mover::Affinity,
        switch_ns: None,
        preemptor_lines: Some(60_000),
        load_bytes_per_s: None,
        huge_share: 0.0,
        spin_warm_ns: 100.0,
        spin_resumed_ns: 100.0,
        steal_ns: 0,
        interrupts: None,
        misses_warm: None,
        misses_resumed: None,
        sibling_busy: None,
        workload: None,
        node: None,
        fresh_frames: None,
        absence_switches: None,
        replicate: None,
        exchange_cpu: None,
        exchange_ns: None,
        exchange_after_ns: None,
        declared_event: None,
        pair_class: None,
        renewed: None,
        llc_share: None,
    }
}

/// Returns a valid walk of 4 KiB at 1.5 ns an access.
pub fn access_time() -> AccessTime {
    AccessTime {
        machine: "box".into(),
        seed: 1,
        job: 0,
        cell: 0,
        wss_bytes: 4096,
        pattern: Pattern::Shuffled,
        page: Page::Base,
        write_ratio: 0.0,
        chains: 1,
        cache_state: LineState::Valid,
        node: None,
        cpu: 0,
        start_ns: 0,
        walk_ns: 96.0,
        access_ns: 1.5,
        policy: "fifo:2".into(),
        lines: 64,
        lines_certified: 64,
        valid: true,
        disturbed_by: Vec::new(),
        repaired: Vec::new(),
        certificate: Certificate::RseqAndGaps,
        huge_share: 0.0,
        replicate: None,
    }
}

/// Returns an absence that was requested for 1 ms and took 1.06 ms.
pub fn preemption_length() -> PreemptionLength {
    PreemptionLength {
        machine: "box".into(),
        seed: 1,
        job: 0,
        cell: 0,
        load: "idle".into(),
        cpu: 0,
        start_ns: 0,
        requested_length_ns: 1_000_000,
        length_ns: 1_060_000.0,
        policy: "fifo:2".into(),
        replicate: None,
    }
}

/// Returns the row of an absence in the first run of a recorded program.
pub fn recorded_absence(platform: &Platform, absence: &super::Absence) -> RecordedAbsence {
    RecordedAbsence::of(platform, 1, 0, absence)
}

/// Returns the row of a thread in the first run of a recorded program.
pub fn recorded_thread(platform: &Platform, thread: &ObservedThread) -> RecordedThread {
    RecordedThread::of(platform, 1, 0, thread)
}

/// Returns the row of the first run of a recorded program.
pub fn recorded_run(platform: &Platform, run: &EndedRun) -> RecordedRun {
    RecordedRun::of(platform, 1, (0, "plain", 0), run)
}

/// Makes the platform of a guest that sees two CPUs below one cache.
///
/// # Panics
/// The function never panics, because its text is a platform.
pub fn guest() -> Platform {
    let text = "schema = 1\nid = \"box\"\nname = \"box\"\n\
         cpus = { value = \"0-1\", source = \"assumed\" }\n\
         packages = { value = \"0-1 by 2\", source = \"assumed\" }\n\
         cores = { value = \"0-1 by 1\", source = \"assumed\" }\n\
         [[cache]]\nlevel = 3\nkind = \"unified\"\n\
         size = { value = \"32 MiB\", source = \"assumed\" }\n\
         instances = { value = \"0-1 by 2\", source = \"assumed\" }\n";
    Platform::from_toml(text).expect("the text is a platform")
}

/// Returns a valid batch of ten polling calls of 400 ns.
pub fn switch_batch() -> SwitchBatch {
    SwitchBatch {
        machine: "box".into(),
        seed: 1,
        batch: 0,
        cell: 0,
        mechanism: SwitchMechanism::V4,
        from_cpu: 0,
        to_cpu: 1,
        call: SwitchCall::Gettid,
        bytes: 0,
        outstanding: 1,
        start_ns: 0,
        calls: 10,
        stayed: 0,
        mean_ns: Some(400.0),
        least_ns: Some(390.0),
        p10_ns: Some(395.0),
        p50_ns: Some(400.0),
        p90_ns: Some(410.0),
        p99_ns: Some(420.0),
        most_ns: Some(420.0),
        preempted: Some(0),
        valid: true,
        replicate: Some(0),
        exchange_ns: Some(50.0),
        exchange_after_ns: Some(50.0),
        pair_class: None,
        not_measured: None,
    }
}
