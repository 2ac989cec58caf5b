// SPDX-License-Identifier: MIT OR Apache-2.0
//! The inputs of the checks: files, the platform, the results of system calls, and the processes.

use std::cell::OnceCell;
use std::fmt::Display;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::str::FromStr;

use corehop_plan::platform::Platform;
use corehop_plan::units::{Cpu, CpuList};

use super::Probes;
use corehop_system::discover::SysRoot;
use corehop_system::proc::{Stat, shown};

/// The data about the host that the checks examine: its files, its platform, and the results of system calls.
pub(super) struct PreflightHost<'a> {
    root: &'a SysRoot,
    pub(super) platform: &'a Platform,
    pub(super) probes: &'a Probes,
    processes: OnceCell<Vec<ProcessStat>>,
}

/// A process with the values of its `stat` file (proc_pid_stat(5)).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ProcessStat {
    pub(super) pid: u32,
    pub(super) name: String,
    /// The state; `R` means running, or waiting for a CPU.
    pub(super) state: char,
    pub(super) parent: u32,
    /// The CPU time so far, in ticks of 10 ms.
    pub(super) ticks: u64,
    /// The start time, in ticks since the host started.
    pub(super) start: u64,
}

/// The process ID of kthreadd, the parent of the kernel's own threads.
pub(super) const KTHREADD: u32 = 2;

impl<'a> PreflightHost<'a> {
    pub(super) fn new(root: &'a SysRoot, platform: &'a Platform, probes: &'a Probes) -> Self {
        Self { root, platform, probes, processes: OnceCell::new() }
    }
    /// The content of a file without surrounding white space.
    pub(super) fn text(&self, path: impl AsRef<Path>) -> Option<String> {
        Some(self.root.read(path)?.trim().to_owned())
    }
    /// The content of a file as a value; `None` if the content cannot be parsed.
    pub(super) fn value<T: FromStr>(&self, path: impl AsRef<Path>) -> Option<T> {
        self.text(path)?.parse().ok()
    }
    /// A file that lists CPUs; an empty list if the file lists none.
    pub(super) fn cpus(&self, path: &str) -> Option<CpuList> {
        let text = self.text(path)?;
        if text.is_empty() || text == "(null)" {
            return Some(CpuList::default());
        }
        text.parse().ok()
    }
    /// The bytes of a file that contains names.
    pub(super) fn bytes(&self, path: &str) -> Option<Vec<u8>> {
        self.root.bytes(path)
    }
    pub(super) fn names(&self, directory: &str) -> Vec<String> {
        self.root.names(directory)
    }
    pub(super) fn numbered(&self, directory: &str, prefix: &str) -> Vec<u32> {
        self.root.numbered(directory, prefix, "")
    }
    /// The text after `KEY:` in a file whose lines have the form `KEY: TEXT`.
    pub(super) fn line(&self, path: &str, key: &str) -> Option<String> {
        let text = self.text(path)?;
        let lines = text.lines().filter_map(|line| line.split_once(':'));
        let mut values = lines.filter(|(name, _)| name.trim() == key);
        values.next().map(|(_, value)| value.trim().to_owned())
    }
    /// The value of a parameter on the kernel's command line; empty if the parameter has no value.
    pub(super) fn boot_parameter(&self, name: &str) -> Option<String> {
        let line = self.text("proc/cmdline")?;
        line.split_whitespace().find_map(|word| {
            let (key, value) = word.split_once('=').unwrap_or((word, ""));
            (key == name).then(|| value.to_owned())
        })
    }
    pub(super) fn is_guest(&self) -> bool {
        self.platform.hypervisor.is_some()
    }
    /// Whether the process runs as root of its own namespace.
    pub(super) fn is_root(&self) -> bool {
        let uids = self.line("proc/self/status", "Uid").unwrap_or_default();
        uids.split_whitespace().nth(1) == Some("0")
    }
    /// The prefix of a command that needs root.
    pub(super) fn sudo(&self) -> &'static str {
        if self.is_root() { "" } else { "sudo " }
    }
    /// The command that writes `value` into the files `path`.
    pub(super) fn write(&self, value: impl Display, path: &str) -> String {
        format!("echo {value} | {}tee {path}", self.sudo())
    }
    /// The command that writes `value` into a file below the root, whose name may contain any
    /// bytes.
    pub(super) fn write_below(&self, value: impl Display, file: &Path) -> String {
        self.write(value, &format!("/{}", shown(file.as_os_str().as_bytes())))
    }
    /// The command that sets a kernel setting.
    pub(super) fn sysctl(&self, setting: &str, value: impl Display) -> String {
        format!("{}sysctl {setting}={value}", self.sudo())
    }
    /// The CPUs that the kernel keeps free of other work.
    pub(super) fn isolated(&self) -> CpuList {
        let files = ["sys/devices/system/cpu/isolated", "sys/fs/cgroup/cpuset.cpus.isolated"];
        let lists = files.into_iter().filter_map(|file| self.cpus(file));
        CpuList::new(lists.flat_map(|list| list.iter().collect::<Vec<_>>()))
    }
    /// The CPUs suited for measurements: the isolated CPUs, or all usable CPUs if there are none.
    pub(super) fn measured(&self) -> CpuList {
        let usable = self.platform.usable();
        let isolated = usable.intersection(&self.isolated());
        if isolated.is_empty() { usable } else { isolated }
    }
    /// A CPU for all other work: the first that is not isolated.
    pub(super) fn housekeeping(&self) -> Cpu {
        let isolated = self.isolated();
        let mut online = self.platform.online().iter();
        online.find(|&cpu| !isolated.contains(cpu)).unwrap_or(Cpu(0))
    }
    /// Every process that this process can see.
    pub(super) fn processes(&self) -> &[ProcessStat] {
        self.processes.get_or_init(|| {
            let pids = self.numbered("proc", "").into_iter();
            pids.filter_map(|pid| process(&self.root.bytes(format!("proc/{pid}/stat"))?)).collect()
        })
    }
    /// The record of this process.
    pub(super) fn own_process(&self) -> Option<ProcessStat> {
        process(&self.bytes("proc/self/stat")?)
    }
}

/// Reads a `stat` file.
fn process(text: &[u8]) -> Option<ProcessStat> {
    let stat = Stat::parse(text)?;
    Some(ProcessStat {
        pid: stat.pid,
        name: Stat::name(text)?,
        state: char::from(stat.state),
        parent: stat.parent,
        ticks: stat.own_ticks,
        start: stat.start_time,
    })
}

/// Formats a CPU list as "CPU 3" or "CPUs 0-3".
pub(super) fn cpus_in_words(cpus: &CpuList) -> String {
    let noun = if cpus.len() == 1 { "CPU" } else { "CPUs" };
    format!("{noun} {cpus}")
}

/// The word in brackets in a setting that lists its choices: `always [madvise] never`.
pub(super) fn chosen(text: &str) -> &str {
    let inside = text.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
    inside.map_or(text, |(word, _)| word)
}

/// Formats `part` of `whole` in per cent: "97", "3.5", "less than 0.1".
pub(super) fn percent(part: f64, whole: f64) -> String {
    let percent = 100.0 * part / whole;
    if percent > 0.0 && percent < 0.1 {
        return "less than 0.1".to_owned();
    }
    let decimals = usize::from(percent < 10.0 && percent.fract() != 0.0);
    format!("{percent:.decimals$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_may_be_called_anything() {
        let stat = b"812 (a) b (c\xc3) R 7 812 7 0 -1 4194560 1 0 0 0 300 12 0 0 20 0 1 0 5000 0 0";
        let found = process(stat).unwrap();
        assert_eq!((found.pid, found.name.as_str(), found.state), (812, r"a) b (c\xc3", 'R'));
        assert_eq!((found.parent, found.ticks, found.start), (7, 312, 5000));
        for damaged in ["", "812", "812 (a", "812 (a)", "812 (a) R 1", "x (a) R 1 2 3"] {
            assert_eq!(process(damaged.as_bytes()), None, "{damaged}");
        }
    }

    #[test]
    fn the_choice_in_brackets_holds_and_shares_are_rounded_for_people() {
        assert_eq!(chosen("always [madvise] never"), "madvise");
        let shares = [0.0, 0.0001, 0.05, 0.0351, 0.97, 1.0].map(|share| percent(share, 1.0));
        assert_eq!(shares, ["0", "less than 0.1", "5", "3.5", "97", "100"]);
        assert_eq!((chosen("madvise"), chosen("[a"), chosen("")), ("madvise", "[a", ""));
    }
}
