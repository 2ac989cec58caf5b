// SPDX-License-Identifier: MIT OR Apache-2.0
//! `--from-trace`: a program's accesses as a job, from each kind of file, and what cannot be one.

use super::*;

/// The words of lackey about a program that goes twice through 4 KiB in steps of a line, with its own words in between.
fn lackey() -> String {
    let visit = |line: u32| {
        let (read, written) = (0x5000 + 64 * line, 0x5008 + 64 * line);
        format!("I  0401ab70,3\n L {read:08x},8\n S {written:08x},8\n")
    };
    let pass = (0..64).map(visit).collect::<Vec<_>>().concat();
    format!("==7== Lackey, an example Valgrind tool\n{pass}pass 0 done\n{pass}pass 1 done\n")
}

fn measured(trace: &Path, on: &str, out: &Path, more: &[&str]) -> Output {
    let mut command =
        corehop(&["measure", "synthetic", "--on", on, "--load", "idle", "--samples", "8"]);
    let events = if on == "live" { "none" } else { "none,preemption,memory_migration" };
    command.args(["--event", events, "--length", "4ms", "--force"]);
    command.arg("--from-trace").arg(trace).arg("-o").arg(out).args(more);
    command.output().unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).replace("\n         ", " ")
}

#[test]
fn a_program_s_accesses_are_preempted_and_moved_and_the_file_says_whose_they_are() {
    let folder = TempDir::new().unwrap();
    let (trace, out) = (folder.path().join("job.lackey"), folder.path().join("out.parquet"));
    std::fs::write(&trace, lackey()).unwrap();
    let output = measured(&trace, "xeon_x5650", &out, &[]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(
        stderr(&output).contains("2 lines that do not have the format lackey"),
        "{}",
        stderr(&output)
    );
    assert!(stderr(&output).contains("only 256 of the 1000000"), "{}", stderr(&output));
    let mut reader = Reader::open(File::open(&out).unwrap()).unwrap();
    let mut samples: Vec<Sample> = Vec::new();
    while let Some(rows) = reader.next_rows::<Sample>().unwrap() {
        samples.extend(rows);
    }
    assert_eq!(samples.len(), 24);
    for sample in &samples {
        let job = sample.workload.as_deref().unwrap();
        assert!(job.starts_with("trace:job.lackey#"), "{job}");
        assert_eq!((sample.wss_bytes, sample.lines), (4_096, 64));
    }
    let mean = |event: &str| {
        let of: Vec<f64> = samples
            .iter()
            .filter(|sample| sample.event.to_string() == event)
            .map(|sample| sample.resumed_ns - sample.warm_ns)
            .collect();
        of.iter().sum::<f64>() / of.len() as f64
    };
    assert!(mean("none") < mean("memory_migration") / 10.0);
}

#[test]
fn a_plan_with_a_trace_runs_without_its_file_and_gives_the_same() {
    let folder = TempDir::new().unwrap();
    let path = |name: &str| folder.path().join(name);
    std::fs::write(path("job"), lackey()).unwrap();
    let output = measured(&path("job"), "xeon_x5650", &path("a.parquet"), &["--dry-run", "--json"]);
    assert!(output.status.success(), "{}", stderr(&output));
    std::fs::write(path("plan.json"), &output.stdout).unwrap();
    std::fs::remove_file(path("job")).unwrap();
    let mut again = corehop(&["measure", "--on", "xeon_x5650", "--plan"]);
    again.arg(path("plan.json")).arg("-o").arg(path("b.parquet"));
    let output = again.output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
}

#[test]
fn an_endless_pipe_is_read_as_far_as_it_is_needed() {
    let folder = TempDir::new().unwrap();
    let line = "yes ' L 5000,8' | ";
    let program = format!(
        "{line}{BINARY} measure synthetic --on xeon_x5650 --load idle --samples 2 --event none --from-trace - \
         --trace-skip 1000 --trace-take 50000 -q -o {}",
        folder.path().join("out.parquet").display()
    );
    let output = Command::new("sh").args(["-c", &program]).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
}

#[test]
fn what_is_no_trace_is_refused_with_the_remedy_and_nothing_is_written() {
    let folder = TempDir::new().unwrap();
    let (file, out) = (folder.path().join("it"), folder.path().join("out.parquet"));
    let cases: [(&[u8], i32, &str); 5] = [
        (b"PERFILE2\0\0", 4, "valgrind --tool=lackey"),
        (b"\x1f\x8b\x08\0", 4, "gzip"),
        (b"hello\n", 4, "no trace"),
        (b"", 4, "no trace"),
        (b"I  0401ab70,3\n", 2, "0 accesses to data"),
    ];
    for (contents, code, words) in cases {
        std::fs::write(&file, contents).unwrap();
        let output = measured(&file, "xeon_x5650", &out, &[]);
        assert_eq!(output.status.code(), Some(code), "{}", stderr(&output));
        assert!(stderr(&output).contains(words), "{}", stderr(&output));
        assert!(!out.exists());
    }
    std::fs::write(&file, lackey()).unwrap();
    let refused = |on: &str, more: &[&str], code: i32, words: &str| {
        let output = measured(&file, on, &out, more);
        assert_eq!(output.status.code(), Some(code), "{}", stderr(&output));
        assert!(stderr(&output).contains(words), "{}", stderr(&output));
    };
    refused("live", &[], 3, "--on xeon_x5650");
    refused("xeon_x5650", &["--trace-skip", "256"], 2, "skip fewer");
    refused("xeon_x5650", &["--wss", "4KiB"], 2, "--wss");
    refused("xeon_x5650", &["--trace-take", "0"], 2, "0 is not in");
    let missing = measured(&folder.path().join("none"), "xeon_x5650", &out, &[]);
    assert_eq!(missing.status.code(), Some(2));
}

#[test]
fn a_trace_cut_in_two_and_one_of_another_architecture_are_used_and_named() {
    let folder = TempDir::new().unwrap();
    let (file, out) = (folder.path().join("it"), folder.path().join("out.parquet"));
    let text = lackey();
    std::fs::write(&file, &text[..text.len() / 2 + 3]).unwrap();
    let output = measured(&file, "xeon_x5650", &out, &[]);
    assert!(output.status.success() && stderr(&output).contains("cut off"), "{}", stderr(&output));
    let arm = "1 0: 5 <marker: filetype 0xe48>\n2 1: 5 read 8 byte(s) @ 0x40 by PC 0x4\n";
    std::fs::write(&file, arm).unwrap();
    let output = measured(&file, "xeon_x5650", &out, &[]);
    assert!(output.status.success() && stderr(&output).contains("AArch64"), "{}", stderr(&output));
}

#[test]
fn a_thread_is_named_as_the_trace_names_it() {
    let folder = TempDir::new().unwrap();
    let (trace, out) = (folder.path().join("view.txt"), folder.path().join("out.parquet"));
    let line = |thread: &str, address: u32| {
        format!("1 1: {thread} read 8 byte(s) @ 0x{address:x} by PC 0x1\n")
    };
    let text: String =
        (0..64).map(|at| line("W0.T501", 0x5000 + 64 * at) + &line("W0.T777", 0x9000)).collect();
    std::fs::write(&trace, text).unwrap();
    for (thread, code) in [("501", 0), ("W0.T501", 0), ("W1.T501", 2), ("12345", 2), ("W0-T501", 2)]
    {
        let output = measured(&trace, "xeon_x5650", &out, &["--trace-thread", thread]);
        assert_eq!(output.status.code(), Some(code), "{thread}: {}", stderr(&output));
        let words = if code == 0 { "64 accesses of threads other than W0.T501" } else { thread };
        assert!(stderr(&output).contains(words), "{thread}: {}", stderr(&output));
    }
}
