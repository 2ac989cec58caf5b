// SPDX-License-Identifier: MIT OR Apache-2.0
//! Servers and clients that talk over the loopback device, which counts their packets: progress that neither of them tells.

use std::ffi::OsStr;
use std::net::{Ipv4Addr, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use corehop_core::units::{Cpu, CpuList};
use corehop_linux::thread::{affinity, set_affinity_of};

use crate::Fallible;
use crate::packages::{Packages, Started, free_port, nginx_conf};

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

    fn server(self, packages: &Packages, scratch: &Path, port: u16) -> Fallible<Command> {
        let port_text = port.to_string();
        let program =
            |path: &str| silent(packages.ready(Command::new(packages.path(path)), scratch));
        let command = match self {
            Self::Redis => {
                let mut command = program("usr/bin/redis-server");
                let fixed = "--save  --appendonly no --daemonize no --loglevel warning --port";
                command.args(fixed.split(' ')).arg(&port_text);
                command
            }
            Self::Nginx => {
                std::fs::write(scratch.join("page"), "a page of a few words\n")?;
                let text = nginx_conf("master_process off;", "", scratch, scratch, port);
                std::fs::write(scratch.join("nginx.conf"), text)?;
                let mut command = program("usr/sbin/nginx");
                command.arg("-c").arg(scratch.join("nginx.conf")).arg("-p").arg(scratch);
                command
            }
            Self::Memcached => {
                let mut command = program("usr/bin/memcached");
                command.args(["-u", "root", "-l", "127.0.0.1", "-t", "1", "-p", &port_text]);
                command
            }
        };
        Ok(command)
    }

    fn client(self, packages: &Packages, scratch: &Path, port: u16) -> Command {
        let port_text = port.to_string();
        let program =
            |path: &str| silent(packages.ready(Command::new(packages.path(path)), scratch));
        match self {
            Self::Redis => {
                let mut command = program("usr/bin/redis-benchmark");
                command.args(["-t", "get", "-c", "1", "-l", "-q", "-p", &port_text]);
                command
            }
            Self::Nginx => {
                let mut command = program("usr/bin/wrk");
                command.args(["-t1", "-c1", "-d", LONG]);
                command.arg(format!("http://127.0.0.1:{port}/page"));
                command
            }
            Self::Memcached => {
                let mut command = program("usr/bin/memcaslap");
                command.args(["-T", "1", "-c", "1", "-t"]).arg(format!("{LONG}s"));
                command.arg("-s").arg(format!("127.0.0.1:{port}"));
                command
            }
        }
    }

    /// Starts the server and so many clients.
    pub(crate) fn begin(self, packages: &Packages, clients: usize) -> Fallible<Pair> {
        let scratch = tempfile::Builder::new().prefix("corehop-place-").tempdir()?;
        let port = free_port()?;
        let mut server = Started::of(&mut self.server(packages, scratch.path(), port)?)?;
        let ready = || TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_ok();
        server.answers(ready, &scratch.path().join("errors"))?;
        let clients =
            (0..clients).map(|_| Started::of(&mut self.client(packages, scratch.path(), port)));
        let clients = clients.collect::<Fallible<Vec<_>>>()?;
        sleep(Duration::from_millis(500));
        Ok(Pair { server, clients, _scratch: scratch })
    }
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
        [&self.server].into_iter().chain(&self.clients).map(Started::pid).collect()
    }

    /// The threads of the server.
    pub(crate) fn server_threads(&self) -> Vec<u32> {
        threads(self.server.pid())
    }

    /// The threads of all clients.
    pub(crate) fn client_threads(&self) -> Vec<u32> {
        self.clients.iter().flat_map(|it| threads(it.pid())).collect()
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

/// The threads of a process.
pub(crate) fn threads(pid: u32) -> Vec<u32> {
    let folder = std::fs::read_dir(format!("/proc/{pid}/task"));
    let names = folder.into_iter().flatten().flatten().map(|it| it.file_name());
    names.filter_map(|it| it.to_str()?.parse().ok()).collect()
}

fn put(process: &Started, cpus: &CpuList) -> Fallible<()> {
    for tid in threads(process.pid()) {
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

/// A command that prints into nothing.
fn silent(mut command: Command) -> Command {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

/// A placer beside the programs.
pub(crate) fn placer(pids: &[u32], more: &[&OsStr]) -> Fallible<Started> {
    let mut command = silent(Command::new(env!("CARGO_BIN_EXE_corehop")));
    command.arg("place").args(more).args(pids.iter().map(ToString::to_string));
    Started::of(&mut command)
}

/// Ends it as Ctrl-C does, so that it puts everything back.
pub(crate) fn interrupt(mut placer: Started) -> Fallible<()> {
    if placer.end(libc::SIGINT) { Ok(()) } else { Err("the placer does not end".into()) }
}

/// The CPU time that a process has used, in seconds.
pub(crate) fn cpu_s(process: &Started) -> Fallible<f64> {
    let mut ns = 0.0;
    for tid in threads(process.pid()) {
        let path = format!("/proc/{}/task/{tid}/schedstat", process.pid());
        let text = std::fs::read_to_string(path)?;
        ns += text.split_whitespace().next().unwrap_or("0").parse::<f64>()?;
    }
    Ok(ns * 1e-9)
}

/// One CPU.
pub(crate) fn only(cpu: Cpu) -> CpuList {
    CpuList::new([cpu])
}
