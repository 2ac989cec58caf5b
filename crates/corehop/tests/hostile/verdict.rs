// SPDX-License-Identifier: MIT OR Apache-2.0
//! One run of the program inside limits, and whether its end is a finding.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// The documented exit codes.
const DOCUMENTED: [i32; 7] = [0, 1, 2, 3, 4, 6, 130];
/// The first number of users without any right, who own nothing.
const USERS: u32 = 1 << 20;

/// A user of whom no process of another run or of another test counts.
fn next_user() -> u32 {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    USERS
        + (std::process::id() % (1 << 15)) * (1 << 12)
        + COUNT.fetch_add(1, Ordering::Relaxed) % (1 << 12)
}

/// The limits of one run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// The address space in bytes.
    pub(crate) memory: u64,
    /// The processor time in seconds.
    pub(crate) cpu_s: u64,
    /// The time after which SIGTERM is sent.
    pub(crate) patience: Duration,
    /// The processes and threads of the user, if they are limited.
    pub(crate) processes: Option<u64>,
}

impl Limits {
    /// 3 GiB and 20 s. A request for a day of simulation is honest: the program has to end when it is told to.
    pub(crate) const USUAL: Self =
        Self { memory: 3 << 30, cpu_s: 20, patience: Duration::from_secs(8), processes: None };
}

/// The end of a run.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) status: ExitStatus,
    /// The text on stderr.
    pub(crate) said: String,
    /// Whether SIGTERM was sent.
    pub(crate) told: bool,
}

/// Runs `program` in `folder` within `limits`, as a user without rights where the caller may choose.
pub(crate) fn run(program: &Path, words: &[OsString], folder: &Path, limits: Limits) -> Ended {
    let stderr = folder.join("stderr");
    let mut command = Command::new(program);
    command.args(words).current_dir(folder).stdin(Stdio::null());
    command.stdout(File::create(folder.join("stdout")).unwrap());
    command.stderr(File::create(&stderr).unwrap());
    command.env_clear().env("PATH", "/usr/bin:/bin").env("HOME", folder).env("TMPDIR", folder);
    let user = next_user();
    // SAFETY: only system calls between fork and exec, on values that were copied before.
    unsafe { command.pre_exec(move || limit(limits, user)) };
    let mut child = command.spawn().unwrap();
    let (status, told) = wait(&mut child, limits.patience);
    // Enough to see a panic; a note may be printed for every line of a file.
    let said = fs::read(stderr).unwrap();
    let from = said.len().saturating_sub(20_000);
    Ended { status, said: String::from_utf8_lossy(&said[from..]).into_owned(), told }
}

/// Limits the calling process. Root has no limits of its own and could change the system, so that it becomes another.
fn limit(limits: Limits, user: u32) -> io::Result<()> {
    for (what, soft, hard) in [
        (libc::RLIMIT_AS, limits.memory, limits.memory),
        (libc::RLIMIT_CPU, limits.cpu_s, limits.cpu_s + 1),
        (libc::RLIMIT_FSIZE, 1 << 30, 1 << 30),
        (libc::RLIMIT_CORE, 0, 0),
        (libc::RLIMIT_RTPRIO, 0, 0),
    ] {
        let limit = libc::rlimit { rlim_cur: soft, rlim_max: hard };
        // SAFETY: reads `limit`.
        if unsafe { libc::setrlimit(what, &raw const limit) } != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    if let Some(most) = limits.processes {
        let limit = libc::rlimit { rlim_cur: most, rlim_max: most };
        // SAFETY: reads `limit`.
        if unsafe { libc::setrlimit(libc::RLIMIT_NPROC, &raw const limit) } != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    // SAFETY: takes numbers and, with the length 0, no pointer.
    let dropped = unsafe {
        libc::geteuid() != 0
            || libc::setgroups(0, std::ptr::null()) == 0
                && libc::setgid(user) == 0
                && libc::setuid(user) == 0
    };
    // SAFETY: takes numbers.
    let private = unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
            && libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) == 0
    };
    if dropped && private { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// The status at the end. After `patience` SIGTERM is sent; a program that does not mind it runs into its limit of
/// processor time, or is killed after two minutes of waiting.
fn wait(child: &mut Child, patience: Duration) -> (ExitStatus, bool) {
    let (begun, mut told) = (Instant::now(), false);
    let mut pause = Duration::from_micros(500);
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return (status, told);
        }
        let passed = begun.elapsed();
        if !told && passed > patience {
            told = true;
            // SAFETY: our child, which was not waited for, so that the number is its own.
            unsafe { libc::kill(child.id().cast_signed(), libc::SIGTERM) };
        }
        if passed > patience + Duration::from_mins(2) {
            child.kill().unwrap();
        }
        std::thread::sleep(pause);
        pause = (pause * 5 / 4).min(Duration::from_millis(20));
    }
}

/// Why a run is a finding; None if it ended as documented.
pub(crate) fn finding(ended: &Ended) -> Option<String> {
    if ended.said.contains("panicked at") {
        return Some("panic".to_owned());
    }
    match (ended.status.code(), ended.status.signal()) {
        (Some(code), _) if DOCUMENTED.contains(&code) => None,
        (Some(code), _) => Some(format!("exit code {code}")),
        // It ended when it was told to.
        (_, Some(libc::SIGTERM)) if ended.told => None,
        (_, Some(libc::SIGXCPU)) => Some("endless: the limit of processor time".to_owned()),
        (_, Some(libc::SIGKILL)) if ended.told => Some("endless: it did not end".to_owned()),
        (_, signal) => Some(format!("signal {signal:?}")),
    }
}

#[test]
fn panics_signals_and_foreign_codes_are_findings_and_documented_ends_are_none() {
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), std::os::unix::fs::PermissionsExt::from_mode(0o777))
        .unwrap();
    let of = |script: &str| {
        let words = ["-c", script].map(OsString::from);
        let limits = Limits { cpu_s: 1, patience: Duration::from_secs(30), ..Limits::USUAL };
        finding(&run(Path::new("/bin/sh"), &words, folder.path(), limits))
    };
    assert_eq!(of("exit 4"), None);
    assert_eq!(of("exit 130"), None);
    assert_eq!(of("echo \"thread 'main' panicked at x\" >&2; exit 0"), Some("panic".into()));
    assert_eq!(of("exit 101"), Some("exit code 101".into()));
    assert_eq!(of("kill -SEGV $$"), Some("signal Some(11)".into()));
    assert_eq!(of("kill -ABRT $$"), Some("signal Some(6)".into()));
    assert!(of("while :; do :; done").unwrap().contains("endless"));
}
