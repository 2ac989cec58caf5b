// SPDX-License-Identifier: MIT OR Apache-2.0
//! A program under way: its threads, where they are put, and the rate at which it gets on.

use std::ffi::OsStr;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use corehop_plan::units::{Cpu, CpuList};
use corehop_system::thread::{affinity, affinity_of, set_affinity_of};
use tempfile::TempDir;

use crate::packages::Started;
use crate::{Fallible, pause};

/// A proxy of progress that each of the servers and clients has.
const CALLS: &str = "syscalls:write,writev,sendto,sendmsg";
/// The time in which a program has to get going.
const PATIENCE: Duration = Duration::from_secs(10);
/// From the start to the first rate.
const WARM: Duration = Duration::from_millis(500);

/// The threads on the far side, where a static placement has two sides.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Far {
    /// All of every process but the first.
    Clients,
    /// Those that were started last.
    LastHalf,
    /// All but the first thread.
    Workers,
    /// Those of this name.
    Named(&'static str),
}

/// The count that tells how the program gets on.
#[derive(Debug)]
pub(crate) enum Count {
    /// Packets on the loopback device.
    Packets,
    /// Calls of write, by the kernel's account of the processes.
    Writes,
    /// The program's own, in a file.
    File(PathBuf),
}

/// A program under way. It ends with this.
#[derive(Debug)]
pub(crate) struct Running {
    processes: Vec<Started>,
    far: Far,
    count: Count,
    folder: TempDir,
}

impl Running {
    /// Takes processes that have just been started, a server's first, and waits until they get on.
    pub(crate) fn begin(
        processes: Vec<Started>,
        far: Far,
        count: Count,
        folder: TempDir,
    ) -> Fallible<Self> {
        let mut it = Self { processes, far, count, folder };
        let begun = Instant::now();
        while it.count().unwrap_or(0.0) <= 0.0 {
            it.goes_on()?;
            if begun.elapsed() > PATIENCE {
                return Err("the program does not get on".into());
            }
            pause(Duration::from_millis(5))?;
        }
        pause(WARM)?;
        it.goes_on()?;
        Ok(it)
    }

    /// Says so where a process has ended.
    fn goes_on(&mut self) -> Fallible<()> {
        for at in &mut self.processes {
            if let Some(status) = at.ended()? {
                let log = self.folder.path().join("log");
                let log = fs::read_to_string(log).unwrap_or_default();
                return Err(format!("the program has ended ({status}): {log}").into());
            }
        }
        Ok(())
    }

    /// The processes that were started, a server's first.
    pub(crate) fn pids(&self) -> Vec<u32> {
        self.processes.iter().map(Started::pid).collect()
    }

    /// The progress that a placer goes by.
    pub(crate) fn progress(&self) -> &OsStr {
        match &self.count {
            Count::Packets => CALLS.as_ref(),
            Count::Writes => "syscalls:write".as_ref(),
            Count::File(path) => path.as_os_str(),
        }
    }

    /// The threads of both sides.
    pub(crate) fn sides(&self) -> [Vec<u32>; 2] {
        let mut all: Vec<(u32, u32)> = Vec::new();
        for pid in self.pids() {
            all.extend(
                tree(pid)
                    .into_iter()
                    .flat_map(|pid| threads(pid).into_iter().map(move |tid| (pid, tid))),
            );
        }
        all.sort_unstable_by_key(|&(_, tid)| tid);
        let (first, half) = (self.processes[0].pid(), all.len() / 2);
        let far = |at: usize, &(pid, tid): &(u32, u32)| match self.far {
            Far::Clients => pid != first,
            Far::LastHalf => at >= half,
            Far::Workers => tid != first,
            Far::Named(name) => {
                let found = fs::read_to_string(format!("/proc/{pid}/task/{tid}/comm"));
                found.is_ok_and(|it| it.trim_end() == name)
            }
        };
        let mut sides = [Vec::new(), Vec::new()];
        for (at, it) in all.iter().enumerate() {
            sides[usize::from(far(at, it))].push(it.1);
        }
        sides
    }

    /// Puts the sides onto these CPUs.
    pub(crate) fn put(&self, [near, far]: [&CpuList; 2]) -> Fallible<()> {
        let [first, second] = self.sides();
        put(&first, near)?;
        put(&second, far)
    }

    /// Puts each side onto one CPU.
    pub(crate) fn on(&self, [near, far]: [Cpu; 2]) -> Fallible<()> {
        self.put([&CpuList::new([near]), &CpuList::new([far])])
    }

    /// Leaves it to the kernel.
    pub(crate) fn release(&self) -> Fallible<()> {
        let all = affinity()?;
        self.put([&all, &all])
    }

    /// Says so where a thread may not run everywhere.
    pub(crate) fn is_free(&self) -> Fallible<()> {
        let all = affinity()?;
        let bound = |tid: &u32| affinity_of(tid.cast_signed()).is_ok_and(|cpus| cpus != all);
        let bound = self.sides().iter().flatten().filter(|it| bound(it)).count();
        if bound == 0 { Ok(()) } else { Err(format!("{bound} threads are still bound").into()) }
    }

    /// The count per second, over some time.
    pub(crate) fn rate(&self, length: Duration) -> Fallible<f64> {
        let (begin, before) = (Instant::now(), self.count()?);
        pause(length)?;
        let rate = (self.count()? - before) / begin.elapsed().as_secs_f64();
        if rate > 0.0 { Ok(rate) } else { Err("the program does not get on".into()) }
    }

    fn count(&self) -> Fallible<f64> {
        match &self.count {
            Count::Packets => {
                number(&fs::read_to_string("/sys/class/net/lo/statistics/rx_packets")?)
            }
            Count::File(path) => number(&fs::read_to_string(path)?),
            Count::Writes => {
                let all = self.pids().into_iter().flat_map(tree);
                Ok(all.filter_map(writes).sum())
            }
        }
    }
}

fn number(text: &str) -> Fallible<f64> {
    Ok(text.trim().parse()?)
}

/// The calls of write that a process has made.
fn writes(pid: u32) -> Option<f64> {
    let text = fs::read_to_string(format!("/proc/{pid}/io")).ok()?;
    text.lines().find_map(|line| line.strip_prefix("syscw: "))?.parse().ok()
}

/// A process and its descendants.
fn tree(pid: u32) -> Vec<u32> {
    let mut all = vec![pid];
    for tid in threads(pid) {
        let text = fs::read_to_string(format!("/proc/{pid}/task/{tid}/children"));
        let text = text.unwrap_or_default();
        all.extend(text.split_whitespace().filter_map(|it| it.parse().ok()).flat_map(tree));
    }
    all
}

/// The threads of a process.
pub(crate) fn threads(pid: u32) -> Vec<u32> {
    let folder = fs::read_dir(format!("/proc/{pid}/task"));
    let names = folder.into_iter().flatten().flatten().map(|it| it.file_name());
    names.filter_map(|it| it.to_str()?.parse().ok()).collect()
}

/// Threads that have ended meanwhile need no CPU.
fn put(threads: &[u32], cpus: &CpuList) -> Fallible<()> {
    for tid in threads {
        match set_affinity_of(tid.cast_signed(), cpus.iter()) {
            Err(error) if error.raw_os_error() != Some(libc::ESRCH) => return Err(error.into()),
            _ => {}
        }
    }
    Ok(())
}

/// A command that prints into nothing.
pub(crate) fn silent(command: &mut Command) -> &mut Command {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null())
}
