// SPDX-License-Identifier: MIT OR Apache-2.0
//! A CPU that is taken out of the cpuset while a run is under way.

use super::*;

/// A cpuset of our own with CPUs 0 and 1, below that of the machine, which stays as it is.
struct Cpuset(PathBuf);

impl Cpuset {
    /// None, and a printed reason, where none can be made here.
    fn new() -> Option<Self> {
        let own = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        let at_root = own.lines().any(|line| line.ends_with(":cpuset:/"));
        let place = PathBuf::from("/sys/fs/cgroup/cpuset")
            .join(format!("corehop-test-{}", std::process::id()));
        let made = if at_root { std::fs::create_dir(&place) } else { Err(unusual()) };
        if let Err(error) = made {
            println!(
                "skipped: a CPU taken out of the cpuset (needs one of version 1 below the root: {error})"
            );
            return None;
        }
        let set = Self(place);
        set.write("cpuset.mems", "0");
        set.write("cpuset.cpus", "0-1");
        Some(set)
    }

    fn write(&self, file: &str, text: &str) {
        std::fs::write(self.0.join(file), text).unwrap();
    }

    /// Puts all that this command starts into the set.
    fn holds(&self, command: &mut Command) {
        let tasks = std::ffi::CString::new(self.0.join("tasks").to_str().unwrap()).unwrap();
        // SAFETY: open, write and close may be called between fork and exec.
        unsafe {
            command.pre_exec(move || {
                let file = libc::open(tasks.as_ptr(), libc::O_WRONLY);
                let written = libc::write(file, c"0".as_ptr().cast(), 1);
                libc::close(file);
                if written == 1 { Ok(()) } else { Err(std::io::Error::last_os_error()) }
            });
        }
    }
}

fn unusual() -> std::io::Error {
    std::io::Error::other("this process is not in the root of one")
}

impl Drop for Cpuset {
    fn drop(&mut self) {
        let gone = eventually(|| std::fs::remove_dir(&self.0).is_ok());
        assert!(gone || std::thread::panicking(), "{} is still there", self.0.display());
    }
}

#[test]
fn a_cpu_taken_out_of_the_cpuset_during_a_run_is_named_and_what_was_recorded_is_kept() {
    let (directory, file) = scratch();
    let Some(set) = Cpuset::new() else { return };
    let migrations = ["--event", "l3_migration,idle_leave", "--length", "1ms", "--samples", "8000"];
    let mut command = small(&file, &migrations);
    set.holds(&mut command);
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
