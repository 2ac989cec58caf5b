// SPDX-License-Identifier: MIT OR Apache-2.0
//! A CPU that is taken out of the cpuset while a run is under way.

#[path = "../cpuset/mod.rs"]
mod throw_away;

use self::throw_away::Cpuset;
use super::*;

#[test]
fn a_cpu_taken_out_of_the_cpuset_during_a_run_is_named_and_what_was_recorded_is_kept() {
    let (directory, file) = scratch();
    let Some(set) = Cpuset::new() else { return };
    let migrations = ["--event", "l3_migration,idle_leave", "--length", "1ms", "--samples", "8000"];
    let mut command = small(&file, &migrations);
    set.starts(&mut command);
    let child = command.stderr(std::process::Stdio::piped()).spawn().unwrap();
    let part = directory.path().join("run.parquet.part");
    assert!(eventually(|| std::fs::metadata(&part).is_ok_and(|meta| meta.len() > 80_000)));
    set.write("cpuset.cpus", "0");
    let output = child.wait_with_output().unwrap();
    let text = said(&output);
    assert_eq!(output.status.code(), Some(6), "{text}");
    assert!(text.contains("CPU 1") && text.contains("cpuset"), "{text}");
    assert_eq!(files_in(&directory), ["run.parquet"]);
    let (kept, provenance) = rows(&file);
    assert!(!kept.is_empty() && provenance.stopped_by.is_some());
}
