// SPDX-License-Identifier: MIT OR Apache-2.0
//! Unpacked packages, and programs from them that run for as long as a trial.

use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

type Fallible<T> = Result<T, Box<dyn std::error::Error>>;

/// The folder that the packages are unpacked below.
pub(crate) const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/servers");
const FETCH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/servers/fetch.sh");
/// A program has as long to answer, and to end.
const PATIENCE: Duration = Duration::from_secs(10);

/// The root of the unpacked packages.
#[derive(Debug, Clone)]
pub(crate) struct Packages(PathBuf);

impl Packages {
    /// The packages, or None: they cannot be had, which is said.
    pub(crate) fn fetched() -> Fallible<Option<Self>> {
        let output = Command::new(FETCH).arg(FOLDER).output()?;
        let all = [&output.stdout[..], &output.stderr].concat();
        std::fs::write(Path::new(FOLDER).join("fetch.log"), all).ok();
        if output.status.success() {
            return Ok(Some(Self(Path::new(FOLDER).canonicalize()?.join("root"))));
        }
        let text = String::from_utf8_lossy(&output.stdout);
        eprintln!("skipped: {}", text.lines().last().unwrap_or("the packages cannot be had"));
        Ok(None)
    }

    /// A file of the packages, or the system's where they have none.
    pub(crate) fn path(&self, path: &str) -> PathBuf {
        let unpacked = self.0.join(path);
        if unpacked.exists() { unpacked } else { Path::new("/").join(path) }
    }

    /// The libraries that came with the packages.
    pub(crate) fn libraries(&self) -> PathBuf {
        self.0.join("usr/lib/x86_64-linux-gnu")
    }

    /// A command that runs in a folder with the libraries of the packages.
    pub(crate) fn ready(&self, mut command: Command, folder: &Path) -> Command {
        command.env("LD_LIBRARY_PATH", self.libraries()).stdin(Stdio::null());
        command.current_dir(folder);
        command
    }
}

/// A process that ends with this.
#[derive(Debug)]
pub(crate) struct Started(Child);

impl Started {
    /// Starts a command, whose input and output are chosen already. It ends with the calling thread, even after SIGKILL.
    pub(crate) fn of(command: &mut Command) -> Fallible<Self> {
        let name = command.get_program().display().to_string();
        // SAFETY: the closure makes one system call and touches no memory, as it must between fork and exec.
        unsafe {
            command.pre_exec(|| {
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGTERM);
                Ok(())
            });
        }
        Ok(Self(command.spawn().map_err(|error| format!("{name}: {error}"))?))
    }

    /// Its process id.
    pub(crate) fn pid(&self) -> u32 {
        self.0.id()
    }

    /// Its end, if it has ended.
    pub(crate) fn ended(&mut self) -> Fallible<Option<ExitStatus>> {
        Ok(self.0.try_wait()?)
    }

    /// Waits until it answers; `log` is shown when it does not.
    pub(crate) fn answers(&mut self, ready: impl Fn() -> bool, log: &Path) -> Fallible<()> {
        let begun = Instant::now();
        while !ready() {
            let ended = self.ended()?;
            if ended.is_some() || begun.elapsed() > PATIENCE {
                let log = std::fs::read_to_string(log).unwrap_or_default();
                return Err(format!("the program does not answer ({ended:?}): {log}").into());
            }
            sleep(Duration::from_millis(5));
        }
        Ok(())
    }

    /// Signals it and waits; whether it ended by itself in time.
    pub(crate) fn end(&mut self, signal: i32) -> bool {
        if matches!(self.0.try_wait(), Ok(None)) {
            // SAFETY: a child that has not been waited for: its number is still its own.
            unsafe { libc::kill(self.pid().cast_signed(), signal) };
        }
        let begun = Instant::now();
        while let Ok(None) = self.0.try_wait() {
            if begun.elapsed() > PATIENCE {
                self.0.kill().ok();
                self.0.wait().ok();
                return false;
            }
            sleep(Duration::from_millis(2));
        }
        true
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        self.end(libc::SIGTERM);
    }
}

/// The output of a command, if it succeeds.
pub(crate) fn printed(command: &mut Command) -> Fallible<String> {
    let output = command.output().map_err(|error| format!("{command:?}: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    if output.status.success() {
        return Ok(text);
    }
    let errors = String::from_utf8_lossy(&output.stderr);
    Err(format!("{command:?}: {}: {text}{errors}", output.status).into())
}

/// A port that is free at this moment.
pub(crate) fn free_port() -> Fallible<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port())
}

/// The configuration of an nginx that listens on a port and keeps its own files in a folder.
pub(crate) fn nginx_conf(
    processes: &str,
    http: &str,
    folder: &Path,
    web: &Path,
    port: u16,
) -> String {
    let (folder, web) = (folder.display(), web.display());
    let temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .map(|kind| format!("{kind}_temp_path {folder};"))
        .join(" ");
    format!(
        "daemon off; user root; {processes} pid {folder}/pid; error_log {folder}/errors;\n\
         events {{ worker_connections 64; }}\n\
         http {{ access_log off; keepalive_requests 1000000000; {http} {temporary}\n\
         server {{ listen 127.0.0.1:{port}; root {web}; }} }}\n"
    )
}
