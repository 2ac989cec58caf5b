// SPDX-License-Identifier: MIT OR Apache-2.0
//! The options of `corehop measure` that divide a simulated machine.

use corehop_plan::workload::Absence;

use super::{corehop, refused, rows, scratch, small};

const ON: [&str; 2] = ["--on", "xeon_x5650"];

#[test]
fn a_divided_machine_says_in_its_file_how_it_was_divided() {
    let (_directory, file) = scratch();
    let divided = ["--job-ways", "3:0-3", "--other-ways", "3:4-15", "--job-colours", "0-7,9"];
    let output = small(&file, &[&ON[..], &divided].concat()).output().unwrap();
    assert!(output.status.success());
    let machine = &serde_json::to_value(rows(&file).1).unwrap();
    let text = machine.to_string();
    assert!(text.contains("\"mask\":15") && text.contains("\"mask\":65520"), "{text}");
    assert!(text.contains("[0,1,2,3,4,5,6,7,9]"), "{text}");
}

#[test]
fn shares_that_there_are_not_are_refused_by_name() {
    for (options, words) in [
        (&["--job-ways", "3"][..], "3:0-7"),
        (&["--job-ways", "3:16"], "way 16 does not exist in a level-3 cache of 16 ways"),
        (&["--other-ways", "5:0"], "no level-5 cache"),
        (&["--job-colours", "7-3"], "not a list of numbers"),
        (&["--job-colours", "192"], "colour 192 of 192"),
        (&["--colours", "8", "--other-colours", "8"], "colour 8 of 8"),
        (&["--placement", "contiguous", "--job-colours", "0"], "neighbouring frames"),
        (&["--placement", "scattered"], "random, contiguous"),
    ] {
        let run = [&["measure", "synthetic", "--dry-run"][..], &ON, options].concat();
        refused(corehop(&run), 2, &[words]);
    }
}

#[test]
fn a_program_with_a_changing_working_set_is_refused_where_there_can_be_none() {
    for (options, words) in [
        (&["--load", "changing", "--changing", "0KiB"][..], "a window of 0 B"),
        (&["--load", "changing", "--changing", "2MiB,1.5"], "between 0 and 1"),
        (&["--load", "changing", "--changing", "2MiB,0.1,55"], "55"),
        (&["--load", "changing", "--changing", "2MiB,0.1,55ns,4"], "unexpected `4`"),
        (&["--load", "idle", "--changing", "2MiB"], "another background load"),
        (&["--load", "busy"], "changing"),
    ] {
        let run = [&["measure", "synthetic", "--dry-run"][..], &ON, options].concat();
        refused(corehop(&run), 2, &[words]);
    }
}

#[test]
fn some_of_the_sets_are_enough_where_that_is_asked_for_and_the_file_says_so() {
    let (_directory, file) = scratch();
    let sampled = ["--sampled", "--event", "preemption", "--length", "100us"];
    assert!(small(&file, &[&ON[..], &sampled].concat()).output().unwrap().status.success());
    let machine = serde_json::to_value(rows(&file).1).unwrap().to_string();
    assert!(machine.contains("\"sampled_sets\":true"), "{machine}");
    let gangs = ["measure", "shared-data", "--on", "xeon_e5520", "--sampled", "--dry-run"];
    refused(corehop(&gangs), 2, &["--sampled"]);
    refused(corehop(&["measure", "synthetic", "--dry-run", "--sampled"]), 2, &["--on NAME"]);
}

#[test]
fn this_host_is_not_divided() {
    for options in [["--job-ways", "3:0"], ["--placement", "contiguous"], ["--other-colours", "0"]]
    {
        let run = [&["measure", "synthetic", "--dry-run"][..], &options].concat();
        refused(corehop(&run), 2, &[options[0], "--on NAME", "resctrl"]);
    }
}

#[test]
fn preemptors_of_several_sizes_are_each_sampled_and_a_larger_one_costs_more() {
    let (_directory, file) = scratch();
    let sizes =
        ["--preemptor-wss", "16KiB,512KiB", "--event", "none,preemption", "--length", "1ms"];
    let on = ["--on", "xeon_x5650", "--wss", "64KiB", "--samples", "10"];
    let output = small(&file, &[&on[..], &sizes].concat()).output().unwrap();
    assert!(output.status.success(), "{}", super::said(&output));
    let rows = rows(&file).0;
    let mean = |size: &str| {
        let of =
            rows.iter().filter(|it| it.polluter.as_deref().is_some_and(|it| it.contains(size)));
        let delays: Vec<f64> = of.map(|it| it.resumed_ns - it.warm_ns).collect();
        assert_eq!(delays.len(), 10, "{size}");
        delays.iter().sum::<f64>() / 10.0
    };
    assert!(mean("512 KiB") > 2.0 * mean("16 KiB"));
    assert_eq!(rows.len(), 30, "the control has no preemptor");
}

#[test]
fn sizes_of_preemptors_are_refused_where_they_mean_nothing() {
    for (asked, words) in [
        (&["polluter-sweep", "--preemptor-wss", "64KiB"][..], "--preemptor-wss"),
        (&["synthetic", "--preemptor-wss", "1KiB"], "at least 4 KiB"),
    ] {
        let on = ["--dry-run", "--on", "xeon_x5650"];
        refused(corehop(&[&["measure"][..], asked, &on].concat()), 2, &[words]);
    }
}

#[test]
fn a_preemptor_costs_at_least_as_much_beside_a_device_and_locks_as_on_an_idle_machine() {
    let cost = |load: &[&str]| {
        let (_directory, file) = scratch();
        let preempted = ["--preemptor", "512KiB", "--event", "preemption", "--length", "1ms"];
        let on = [
            "--on",
            "xeon_x5650",
            "--wss",
            "64KiB",
            "--page",
            "4k",
            "--samples",
            "5",
            "--seed",
            "3",
        ];
        let measure = ["measure", "synthetic", "--no-real-time", "-q"];
        let run = [&measure[..], &on, &preempted, &["--replicates", "1"], load].concat();
        let output = corehop(&run).arg("-o").arg(&file).output().unwrap();
        assert!(output.status.success(), "{}", super::said(&output));
        let rows = rows(&file).0;
        assert!(rows.iter().all(|row| row.preempted_by == Absence::Preemptor));
        let walked = |text: &str| text.starts_with("shuffled 512 KiB write 0.5");
        assert!(rows.iter().all(|row| row.polluter.as_deref().is_some_and(walked)), "{load:?}");
        rows.iter().map(|row| row.resumed_ns - row.warm_ns).sum::<f64>()
    };
    let idle = cost(&["--load", "idle"]);
    assert!(idle > 0.0, "{idle}");
    let locks = ["--load", "buslock", "--split-locks"];
    let polluters = ["--load", "constructed", "--polluter", "16KiB", "--load-cpus", "1"];
    for load in [&["--load", "dma"][..], &locks, &polluters] {
        let beside = cost(load);
        assert!(beside > 0.98 * idle, "{beside} for {idle}: {load:?}");
    }
}

#[test]
fn a_stated_preemptor_is_refused_in_a_sweep_whose_load_takes_the_cpu_itself() {
    let run =
        ["measure", "polluter-sweep", "--dry-run", "--on", "xeon_x5650", "--preemptor", "1MiB"];
    for load in ["constructed", "changing"] {
        let options = [&run[..], &["--load", load]].concat();
        refused(corehop(&options), 2, &["--preemptor", "--polluter"]);
    }
    for load in ["idle", "dma"] {
        let options = [&run[..], &["--load", load]].concat();
        assert!(corehop(&options).output().unwrap().status.success(), "{load}");
    }
}

#[test]
fn a_load_that_has_the_preemptors_cpu_alone_is_refused_and_leaves_no_file() {
    let (_directory, file) = scratch();
    let alone = ["--load", "buslock", "--load-cpus", "0", "--cpus", "0", "--event", "preemption"];
    let run = [&["measure", "synthetic", "-q"][..], &ON, &alone].concat();
    let mut command = corehop(&run);
    command.arg("-o").arg(&file);
    refused(command, 3, &["buslock", "only CPU 0", "--load-cpus"]);
    assert!(!file.exists());
}
