// SPDX-License-Identifier: MIT OR Apache-2.0
//! Servers and clients that talk over the loopback device, which counts their packets: progress that neither of them tells.

use std::ffi::OsStr;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use corehop_core::units::{Cpu, CpuList};
use corehop_linux::thread::{affinity, set_affinity_of};

use crate::Fallible;

/// Seconds that clients go on. They are ended before.
const LONG: &str = "600";

/// A server, with its client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Program {
    Redis,
    Nginx,
    Memcached,
}

impl Program {
    pub(crate) const ALL: [Self; 3] = [Self::Redis, Self::Nginx, Self::Memcached];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Redis => "redis",
            Self::Nginx => "nginx",
            Self::Memcached => "memcached",
        }
    }

    fn server(self, root: &Path, scratch: &Path, port: u16) -> Fallible<Command> {
        let port_text = port.to_string();
        let mut command = match self {
            Self::Redis => {
                let mut command = program(root, "usr/bin/redis-server");
                let fixed = "--save  --appendonly no --daemonize no --loglevel warning --port";
                command.args(fixed.split(' ')).arg(&port_text);
                command
            }
            Self::Nginx => {
                std::fs::write(scratch.join("page"), "a page of a few words\n")?;
                std::fs::write(scratch.join("nginx.conf"), nginx_conf(scratch, port))?;
                let mut command = program(root, "usr/sbin/nginx");
                command.arg("-c").arg(scratch.join("nginx.conf")).arg("-p").arg(scratch);
                command
            }
            Self::Memcached => {
                let mut command = program(root, "usr/bin/memcached");
                command.args(["-u", "root", "-l", "127.0.0.1", "-t", "1", "-p", &port_text]);
                command
            }
        };
        command.current_dir(scratch);
        Ok(command)
    }

    fn client(self, root: &Path, port: u16) -> Command {
        let port_text = port.to_string();
        match self {
            Self::Redis => {
                let mut command = program(root, "usr/bin/redis-benchmark");
                command.args(["-t", "get", "-c", "1", "-l", "-q", "-p", &port_text]);
                command
            }
            Self::Nginx => {
                let mut command = program(root, "usr/bin/wrk");
                command.args(["-t1", "-c1", "-d", LONG]);
                command.arg(format!("http://127.0.0.1:{port}/page"));
                command
            }
            Self::Memcached => {
                let mut command = program(root, "usr/bin/memcaslap");
                command.args(["-T", "1", "-c", "1", "-t"]).arg(format!("{LONG}s"));
                command.arg("-s").arg(format!("127.0.0.1:{port}"));
                command
            }
        }
    }

    /// Starts the server and so many clients.
    pub(crate) fn begin(self, root: &Path, clients: usize) -> Fallible<Pair> {
        let scratch = tempfile::Builder::new().prefix("corehop-place-").tempdir()?;
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port();
        let server = Started::of(&mut self.server(root, scratch.path(), port)?)?;
        let begun = Instant::now();
        while TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err() {
            if begun.elapsed() > Duration::from_secs(10) {
                return Err(format!("{} does not answer", self.name()).into());
            }
            sleep(Duration::from_millis(5));
        }
        let clients = (0..clients).map(|_| Started::of(&mut self.client(root, port)));
        let clients = clients.collect::<Fallible<Vec<_>>>()?;
        sleep(Duration::from_millis(500));
        Ok(Pair { server, clients, _scratch: scratch })
    }
}

fn program(root: &Path, path: &str) -> Command {
    let unpacked = root.join(path);
    let path = if unpacked.exists() { unpacked } else { Path::new("/").join(path) };
    let mut command = Command::new(path);
    command.env("LD_LIBRARY_PATH", root.join("usr/lib/x86_64-linux-gnu"));
    command
}

fn nginx_conf(scratch: &Path, port: u16) -> String {
    let folder = scratch.display();
    let temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .map(|kind| format!("{kind}_temp_path {folder};"))
        .join(" ");
    format!(
        "daemon off; master_process off; user root; pid {folder}/pid; error_log {folder}/errors;\n\
         events {{ worker_connections 64; }}\n\
         http {{ access_log off; keepalive_requests 1000000000; {temporary}\n\
         server {{ listen 127.0.0.1:{port}; root {folder}; }} }}\n"
    )
}

/// A server and its clients under way.
pub(crate) struct Pair {
    server: Started,
    clients: Vec<Started>,
    _scratch: tempfile::TempDir,
}

impl Pair {
    /// The processes, the server's first.
    pub(crate) fn pids(&self) -> Vec<u32> {
        [&self.server].into_iter().chain(&self.clients).map(|it| it.0.id()).collect()
    }

    /// The threads of the server.
    pub(crate) fn server_threads(&self) -> Vec<u32> {
        threads(self.server.0.id())
    }

    /// The threads of all clients.
    pub(crate) fn client_threads(&self) -> Vec<u32> {
        self.clients.iter().flat_map(|it| threads(it.0.id())).collect()
    }

    /// Puts the server and the clients onto these CPUs.
    pub(crate) fn put(&self, server: &CpuList, clients: &CpuList) -> Fallible<()> {
        put(&self.server, server)?;
        self.clients.iter().try_for_each(|it| put(it, clients))
    }

    /// Leaves them to the kernel.
    pub(crate) fn release(&self) -> Fallible<()> {
        let all = affinity()?;
        self.put(&all, &all)
    }
}

fn threads(pid: u32) -> Vec<u32> {
    let folder = std::fs::read_dir(format!("/proc/{pid}/task"));
    let names = folder.into_iter().flatten().flatten().map(|it| it.file_name());
    names.filter_map(|it| it.to_str()?.parse().ok()).collect()
}

fn put(process: &Started, cpus: &CpuList) -> Fallible<()> {
    for tid in threads(process.0.id()) {
        set_affinity_of(tid.cast_signed(), cpus.iter())?;
    }
    Ok(())
}

/// Packets per second over some time.
pub(crate) fn rate(length: Duration) -> Fallible<f64> {
    let (begin, before) = (Instant::now(), packets()?);
    sleep(length);
    Ok((packets()? - before) / begin.elapsed().as_secs_f64())
}

fn packets() -> Fallible<f64> {
    let text = std::fs::read_to_string("/sys/class/net/lo/statistics/rx_packets")?;
    Ok(text.trim().parse()?)
}

/// A process that ends with this.
pub(crate) struct Started(pub(crate) Child);

impl Started {
    fn of(command: &mut Command) -> Fallible<Self> {
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let child = command
            .spawn()
            .map_err(|error| format!("{}: {error}", command.get_program().display()))?;
        Ok(Self(child))
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        // It may have ended.
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

/// A placer beside the programs.
pub(crate) fn placer(pids: &[u32], more: &[&OsStr]) -> Fallible<Started> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_corehop"));
    command.arg("place").args(more).args(pids.iter().map(ToString::to_string));
    Started::of(&mut command)
}

impl Started {
    /// Ends it as Ctrl-C does, so that it puts everything back.
    pub(crate) fn interrupt(mut self) -> Fallible<()> {
        // SAFETY: a child that has not been waited for.
        unsafe { libc::kill(self.0.id().cast_signed(), libc::SIGINT) };
        let begun = Instant::now();
        while self.0.try_wait()?.is_none() {
            if begun.elapsed() > Duration::from_secs(10) {
                return Err("the placer does not end".into());
            }
            sleep(Duration::from_millis(2));
        }
        Ok(())
    }

    /// The CPU time that it has used, in seconds.
    pub(crate) fn cpu_s(&self) -> Fallible<f64> {
        let mut ticks = 0.0;
        for tid in threads(self.0.id()) {
            let path = format!("/proc/{}/task/{tid}/schedstat", self.0.id());
            let text = std::fs::read_to_string(path)?;
            ticks += text.split_whitespace().next().unwrap_or("0").parse::<f64>()?;
        }
        Ok(ticks * 1e-9)
    }
}

/// One CPU.
pub(crate) fn only(cpu: Cpu) -> CpuList {
    CpuList::new([cpu])
}

/// The folder of the packages, or None: they cannot be had, which is said.
pub(crate) fn fetched() -> Fallible<Option<PathBuf>> {
    const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/servers/fetch.sh");
    const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/servers");
    let output = Command::new(SCRIPT).arg(FOLDER).output()?;
    if output.status.success() {
        return Ok(Some(Path::new(FOLDER).canonicalize()?.join("root")));
    }
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    eprintln!("skipped: {}", text.lines().last().unwrap_or("the packages cannot be had"));
    Ok(None)
}
