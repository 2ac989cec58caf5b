// SPDX-License-Identifier: MIT OR Apache-2.0
//! The readers of a file of a program's costs: reports, recordings, metrics, verdicts and advice.

use super::*;

/// A file of rounds of 100 ms in which each event costs 50 us, but for some noise.
fn costs(folder: &Path, events: &[Event]) {
    let plan = Interventions {
        target: Target::Command(vec![Argument::new(b"/usr/bin/xz".to_vec())]),
        progress: Some("count".to_owned()),
        block: Nanos::from_millis(100),
        share: 0.05,
        lengths: vec![Nanos::from_micros(20)],
        preemptors: vec![Polluter {
            wss: Bytes::from_kib(64),
            pattern: Pattern::Shuffled,
            write_ratio: 0.5,
        }],
        events: events.to_vec(),
        blocks: Vec::new(),
    };
    let parameters = json!(ProgramCosts { plan, rounds: 20 });
    let provenance =
        Provenance { parameters, experiment: "program-costs".to_owned(), ..Provenance::default() };
    let mut rows = Vec::new();
    for (round, &event) in (0..20).flat_map(|round| events.iter().map(move |event| (round, event)))
    {
        for dose in ProgramCosts::DOSES.map(u64::from) {
            let noise = 1.0 + 1e-4 * f64::from((round * 7 + dose as u32 * 3) % 11);
            rows.push(CausedBlock {
                machine: "box".into(),
                seed: 1,
                block: rows.len() as u64,
                replicate: u64::from(round),
                event,
                dose,
                events: 10 * dose,
                tried: 10 * dose,
                asked_ns: (event == Event::Preemption).then_some(20e3),
                polluter: None,
                preemptors_ns: 0.0,
                cpu_ns: (1e8 + 5e5 * dose as f64) * noise,
                progress: 100.0,
                wall_ns: 1e8,
                threads: 1,
                exchange_ns: None,
                invalid: None,
            });
        }
    }
    let file = File::create(folder.join("costs.parquet")).unwrap();
    let mut part = BatchWriter::begin(file, RowKind::ProgramCosts, &provenance).unwrap();
    part.append(&Rows::from(rows)).unwrap();
    part.end().unwrap();
}

#[test]
fn a_recording_charges_the_programs_own_costs_and_says_the_loss_first() {
    let folder = tempfile::tempdir().unwrap();
    costs(folder.path(), &Event::RESUMING);
    let text = said(&corehop(folder.path(), &["report", "costs.parquet", "--table", "text"]));
    assert!(text.contains("xz: a preemption of 20"), "{text}");
    let script = "i=0; while [ $i -lt 30000 ]; do i=$((i+1)); done & i=0; while [ $i -lt 30000 ]; do i=$((i+1)); done; wait";
    let output =
        corehop(folder.path(), &["record", "--costs", "costs.parquet", "--", "sh", "-c", script]);
    let text = said(&output);
    assert_eq!(output.status.code(), Some(0), "{text}");
    assert!(
        text.contains(" of its CPU time to ") || text.contains("lost none of its CPU time"),
        "{text}"
    );
    assert!(text.contains("no working set is assumed"), "{text}");
}

#[test]
fn metrics_have_the_costs_and_the_losses_for_a_collector() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let spins = "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done";
    let words = [
        "measure",
        "program-costs",
        "--event",
        "preemption",
        "--rounds",
        "1",
        "--metrics",
        "costs.prom",
        "--",
        "sh",
        "-c",
        spins,
    ];
    let output = corehop(at, &words);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let text = fs::read_to_string(at.join("costs.prom")).unwrap();
    assert!(
        text.ends_with("# EOF\n")
            && text.contains("corehop_measurement_slowdown_ratio{program=\"sh\"}"),
        "{text}"
    );
    costs(at, &Event::RESUMING);
    let output = corehop(
        at,
        &["record", "--costs", "costs.parquet", "--metrics", "run.prom", "--", "sh", "-c", spins],
    );
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let text = fs::read_to_string(at.join("run.prom")).unwrap();
    assert!(text.contains("# TYPE corehop_run_cpu_seconds counter\n"), "{text}");
    let again = corehop(at, &["record", "--metrics", "run.prom", "--", "true"]);
    assert_eq!(
        again.status.code(),
        Some(2),
        "a file that is there is not replaced: {}",
        said(&again)
    );
}

#[test]
fn a_verdict_on_deadlines_does_not_take_means_for_bounds() {
    let folder = tempfile::tempdir().unwrap();
    costs(folder.path(), &Event::RESUMING);
    let set = r#"{"cpus": 1, "tasks": [{"name": "fast", "wcet_us": 1000, "period_us": 10000, "wss_kib": 64},
        {"name": "slow", "wcet_us": 8000, "period_us": 40000, "wss_kib": 64}]}"#;
    fs::write(folder.path().join("set.json"), set).unwrap();
    let refused = corehop(folder.path(), &["check", "set.json", "--costs", "costs.parquet"]);
    assert_eq!(refused.status.code(), Some(2), "{}", said(&refused));
    assert!(said(&refused).contains("--statistic mean"), "{}", said(&refused));
    let words = ["check", "set.json", "--costs", "costs.parquet", "--statistic", "mean"];
    let taken = corehop(folder.path(), &words);
    assert_eq!(taken.status.code(), Some(1), "{}", said(&taken));
    assert!(said(&taken).contains("no event costs more than the mean"), "{}", said(&taken));
}

#[test]
fn the_costs_of_a_program_give_the_wait_from_which_a_move_pays_and_the_constant_of_linux() {
    let folder = tempfile::tempdir().unwrap();
    costs(folder.path(), &Event::RESUMING);
    // Each event costs 50 us, and preemptions of 20 us were measured: a wait and its preemption cost 50 us at 20 us at the latest.
    let advice = corehop(folder.path(), &["advise", "costs.parquet", "--json"]);
    assert_eq!(advice.status.code(), Some(0), "{}", said(&advice));
    let answer: Value = serde_json::from_slice(&advice.stdout).unwrap();
    let moves = answer["moves"].as_array().unwrap();
    assert_eq!(moves.len(), 4, "{answer}");
    for it in moves {
        let from = it["pays_from"]["estimate_us"].as_f64().unwrap();
        assert!((0.0..=20.0).contains(&from), "{it}");
    }
    let text = said(&corehop(folder.path(), &["advise", "costs.parquet"]));
    assert!(text.contains("xz: moving pays by smt_migration from"), "{text}");
    assert!(text.contains("sched_migration_cost_ns: 50"), "{text}");
    let asked = corehop(folder.path(), &["advise", "costs.parquet", "--length", "10ms"]);
    assert!(said(&asked).contains("for a wait of 10 ms, move (smt_migration)"), "{}", said(&asked));
    let refused = corehop(folder.path(), &["advise", "costs.parquet", "--wss", "64KiB"]);
    assert_eq!(refused.status.code(), Some(2), "{}", said(&refused));
    assert!(said(&refused).contains("--wss"), "{}", said(&refused));
    costs(folder.path(), &[Event::Preemption]);
    let lacks = corehop(folder.path(), &["advise", "costs.parquet"]);
    assert_eq!(lacks.status.code(), Some(1), "{}", said(&lacks));
    assert!(said(&lacks).contains("no cost of a migration"), "{}", said(&lacks));
}
