// SPDX-License-Identifier: MIT OR Apache-2.0
//! A cpuset that lasts as long as a test.

use std::io::Error;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

/// A cpuset with CPUs 0 and 1, below that of the machine, which stays as it is.
pub(crate) struct Cpuset(PathBuf);

impl Cpuset {
    /// None, and a printed reason, where none can be made here.
    pub(crate) fn new() -> Option<Self> {
        let own = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        let at_root = own.lines().any(|line| line.ends_with(":cpuset:/"));
        let place = PathBuf::from("/sys/fs/cgroup/cpuset")
            .join(format!("corehop-test-{}", std::process::id()));
        let unusual = || Error::other("this process is not in the root of one");
        let made = if at_root { std::fs::create_dir(&place) } else { Err(unusual()) };
        if let Err(error) = made {
            println!("skipped: a cpuset (needs one of version 1 below the root: {error})");
            return None;
        }
        let set = Self(place);
        set.write("cpuset.mems", "0");
        set.write("cpuset.cpus", "0-1");
        Some(set)
    }

    pub(crate) fn write(&self, file: &str, text: &str) {
        std::fs::write(self.0.join(file), text).unwrap();
    }

    /// Puts all that this command starts into the set.
    pub(crate) fn starts(&self, command: &mut Command) {
        let tasks = std::ffi::CString::new(self.0.join("tasks").to_str().unwrap()).unwrap();
        // SAFETY: open, write and close may be called between fork and exec.
        unsafe {
            command.pre_exec(move || {
                let file = libc::open(tasks.as_ptr(), libc::O_WRONLY);
                let written = libc::write(file, c"0".as_ptr().cast(), 1);
                libc::close(file);
                if written == 1 { Ok(()) } else { Err(Error::last_os_error()) }
            });
        }
    }
}

impl Drop for Cpuset {
    fn drop(&mut self) {
        // A process that is ending keeps it busy for a moment.
        let gone = (0..1_000).any(|_| {
            std::thread::sleep(Duration::from_millis(10));
            std::fs::remove_dir(&self.0).is_ok()
        });
        assert!(gone || std::thread::panicking(), "{} is still there", self.0.display());
    }
}
