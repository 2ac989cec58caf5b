// SPDX-License-Identifier: MIT OR Apache-2.0
//! Clusters of CPUs that the kernel enforces: cpuset partitions between which nothing migrates, each with its own
//! admission of `SCHED_DEADLINE` threads.
//!
//! With cgroup v2 each cluster is a remote partition (Linux 6.7) in a cgroup of this process, and the rest of the
//! system keeps the other CPUs. With cgroup v1, load balancing of the whole machine must be off meanwhile; this
//! happens only if allowed, and for seconds. Every change is written to the journal before it is made.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use corehop_plan::machine::MachineError;
use corehop_plan::shown;
use corehop_plan::units::{CpuList, Nanos};

use corehop_system::proc::{self, Mount};
use corehop_system::supervisor::{Guard, SupervisorError, Undo, UndoId, WholeHost};

/// The longest time for which the machine may run without load balancing.
const LONGEST_V1: Nanos = Nanos::from_secs(60);

/// The cgroup hierarchies of the host.
#[derive(Debug, Clone, PartialEq, Eq)]
enum CpusetHierarchy {
    /// The hierarchy has version 2 with the controller `cpuset`.
    Unified(PathBuf),
    /// The hierarchy has version 1.
    Legacy(PathBuf),
}

/// Cpuset partitions that exist until dropped.
#[derive(Debug)]
pub(super) struct Partitions {
    guard: Guard,
    /// For each cluster, the file to which its threads write their thread IDs.
    doors: Vec<PathBuf>,
    undos: Vec<UndoId>,
    /// The lock on the whole host, held until everything is reverted.
    whole: Option<WholeHost>,
}

/// Whether the whole machine may be affected, and for how long.
#[derive(Debug, Clone, Copy)]
pub(super) struct Permission {
    pub(super) allow_system: bool,
    pub(super) duration: Nanos,
}

impl Partitions {
    /// Creates one partition for each of `clusters`.
    ///
    /// # Errors
    /// Fails with [`MachineError::NotPossible`], which names the obstacle; in that case no change remains.
    pub(super) fn make(
        clusters: &[CpuList],
        guard: &Guard,
        permission: Permission,
    ) -> Result<Self, MachineError> {
        let mounts = proc::bytes("/proc/mounts").unwrap_or_default();
        let mut made =
            Self { guard: guard.clone(), doors: Vec::new(), undos: Vec::new(), whole: None };
        match hierarchy(&proc::mounts(&mounts)) {
            Some(CpusetHierarchy::Unified(root)) => {
                made.lock_whole_host()?;
                made.unified(&root, clusters)?;
            }
            Some(CpusetHierarchy::Legacy(root)) => {
                permitted(permission)?;
                made.lock_whole_host()?;
                made.legacy(&root, clusters)?;
            }
            None => {
                return Err(not_possible(
                    "no cgroup hierarchy with the controller cpuset is mounted",
                    "mount one: `mount -t cgroup2 none /sys/fs/cgroup`, or use --scheduler g-edf",
                ));
            }
        }
        Ok(made)
    }

    /// Reverts all changes to the cgroups of the host.
    ///
    /// # Errors
    /// Fails with [`MachineError::Failed`], which names the changes that could not be reverted;
    /// `corehop doctor restore` still lists these changes.
    pub(super) fn end(mut self) -> Result<(), MachineError> {
        let left: Vec<String> = self
            .undos
            .drain(..)
            .rev()
            .filter_map(|id| self.guard.undo(id).err())
            .map(|error| error.to_string())
            .collect();
        if left.is_empty() {
            return Ok(());
        }
        self.whole.take().into_iter().for_each(WholeHost::keep);
        let why = format!("{}; try `corehop doctor restore`", left.join("; "));
        Err(MachineError::Failed { what: "removing the clusters of CPUs".to_owned(), why })
    }

    /// Moves the calling thread into its cluster.
    ///
    /// # Errors
    /// Fails with the kernel's error when the thread ID is written.
    pub(super) fn enter(door: &Path, tid: u32) -> io::Result<()> {
        fs::write(door, tid.to_string())
    }

    /// The file to which a thread of cluster `cluster` writes its thread ID.
    pub(super) fn door(&self, cluster: usize) -> PathBuf {
        self.doors[cluster].clone()
    }

    fn lock_whole_host(&mut self) -> Result<(), MachineError> {
        self.whole = Some(self.guard.lock_whole_host().map_err(|error| of_guard(&error))?);
        Ok(())
    }

    fn legacy(&mut self, root: &Path, clusters: &[CpuList]) -> Result<(), MachineError> {
        if let Some(other) = other_domain(root) {
            return Err(not_possible(
                &format!("the cpuset {} balances its own CPUs", shown::path(&other)),
                "end the programs that use this cpuset, or use --scheduler g-edf",
            ));
        }
        let home = own_cgroup(root, "cpuset");
        let nodes = proc::text(root.join("cpuset.mems")).unwrap_or_default();
        for (number, cpus) in clusters.iter().enumerate() {
            let folder = self.folder(root, number, &home)?;
            write(&folder.join("cpuset.cpus"), &cpus.to_string())?;
            write(&folder.join("cpuset.mems"), nodes.trim())?;
            self.doors.push(folder.join("tasks"));
        }
        let balance = root.join("cpuset.sched_load_balance");
        self.undos.push(self.guard.set(&balance, "0").map_err(|error| of_guard(&error))?);
        Ok(())
    }

    fn unified(&mut self, root: &Path, clusters: &[CpuList]) -> Result<(), MachineError> {
        let all = CpuList::new(clusters.iter().flat_map(CpuList::iter)).to_string();
        let control = root.join("cgroup.subtree_control");
        let on = proc::text(&control).unwrap_or_default();
        if !on.split_whitespace().any(|it| it == "cpuset") {
            let off = Undo::WriteFile { path: control.clone(), content: "-cpuset".to_owned() };
            self.undos.push(self.guard.record(off).map_err(|error| of_guard(&error))?);
            write(&control, "+cpuset")?;
        }
        let home = own_cgroup(root, "");
        let base = root.join(format!("corehop-{}", std::process::id()));
        self.made(&base, &home)?;
        write(&base.join("cgroup.procs"), &std::process::id().to_string())?;
        for number in 0..clusters.len() {
            let folder = self.folder(&base, number, &base)?;
            write(&folder.join("cgroup.type"), "threaded")?;
            self.doors.push(folder.join("cgroup.threads"));
        }
        write(&base.join("cgroup.subtree_control"), "+cpuset")?;
        exclusive(&base, &all)?;
        for (door, cpus) in self.doors.iter().zip(clusters) {
            let folder = door.parent().unwrap_or(&base);
            write(&folder.join("cpuset.cpus"), &cpus.to_string())?;
            exclusive(folder, &cpus.to_string())?;
            let kind = folder.join("cpuset.cpus.partition");
            write(&kind, "root")?;
            let got = proc::text(&kind).unwrap_or_default();
            if got.trim() != "root" {
                return Err(not_possible(
                    &format!(
                        "the kernel does not make CPUs {cpus} a partition, and reports `{}`",
                        got.trim()
                    ),
                    "leave a CPU to the rest of the system (--cpus), and remove other partitions that contain these CPUs",
                ));
            }
        }
        Ok(())
    }

    /// The cgroup of a cluster, recorded in the journal.
    fn folder(
        &mut self,
        parent: &Path,
        number: usize,
        home: &Path,
    ) -> Result<PathBuf, MachineError> {
        let folder = parent.join(format!("corehop-{}-{number}", std::process::id()));
        self.made(&folder, home)?;
        Ok(folder)
    }

    fn made(&mut self, folder: &Path, home: &Path) -> Result<(), MachineError> {
        let gone = Undo::RemoveCgroup { path: folder.to_owned(), back_to: home.to_owned() };
        self.undos.push(self.guard.record(gone).map_err(|error| of_guard(&error))?);
        fs::create_dir(folder).map_err(|error| of_file(folder, &error))
    }
}

impl Drop for Partitions {
    fn drop(&mut self) {
        // The set has failed already, and says why; what cannot be taken back stays listed.
        let undone = self.undos.iter().rev().filter(|id| self.guard.undo(**id).is_ok()).count();
        if undone < self.undos.len() {
            self.whole.take().into_iter().for_each(WholeHost::keep);
        }
    }
}

/// The hierarchy with the controller, according to the kernel's list of mounts.
fn hierarchy(mounts: &[Mount]) -> Option<CpusetHierarchy> {
    let legacy = mounts.iter().find(|it| it.kind == b"cgroup" && it.has("cpuset"));
    if let Some(mount) = legacy {
        return Some(CpusetHierarchy::Legacy(mount.at.clone()));
    }
    let has = |at: &&Path| {
        let file = proc::text(at.join("cgroup.controllers")).unwrap_or_default();
        file.split_whitespace().any(|it| it == "cpuset")
    };
    proc::unified(mounts).filter(has).map(Path::to_owned).map(CpusetHierarchy::Unified)
}

fn permitted(permission: Permission) -> Result<(), MachineError> {
    if !permission.allow_system {
        return Err(not_possible(
            "with cgroup v1 the load balancing of the whole machine is off while a set runs, so that its threads \
             stay on their CPUs",
            "allow that with --allow-system, use --scheduler g-edf, or boot with cgroup v2",
        ));
    }
    if permission.duration > LONGEST_V1 {
        return Err(not_possible(
            &format!(
                "with cgroup v1 the whole machine would have no load balancing for {}",
                permission.duration
            ),
            &format!("run each set for at most {LONGEST_V1} (--duration)"),
        ));
    }
    Ok(())
}

/// A foreign cpuset that forms a scheduling domain, which would merge with corehop's.
fn other_domain(root: &Path) -> Option<PathBuf> {
    let folders = fs::read_dir(root).ok()?.flatten().map(|entry| entry.path());
    let balances = |folder: &PathBuf| {
        let read = |name: &str| proc::text(folder.join(name)).unwrap_or_default();
        read("cpuset.sched_load_balance").trim() == "1" && !read("cpuset.cpus").trim().is_empty()
    };
    folders.filter(|it| it.is_dir()).find(balances)
}

/// The cgroup of this process in the hierarchy at `root` with that controller (none means version 2).
fn own_cgroup(root: &Path, controller: &str) -> PathBuf {
    let all = proc::own_groups();
    let group = proc::groups(&all).find(|it| it.has(controller));
    group.map_or_else(|| root.to_owned(), |it| root.join(it.below()))
}

/// Reserves CPUs for a cpuset; the rest of the system then cannot use these CPUs.
fn exclusive(folder: &Path, cpus: &str) -> Result<(), MachineError> {
    let file = folder.join("cpuset.cpus.exclusive");
    if !file.exists() {
        return Err(not_possible(
            "the kernel makes no partitions below an ordinary cgroup",
            "boot Linux 6.7 or later, or use --scheduler g-edf",
        ));
    }
    write(&file, cpus)
}

fn write(file: &Path, text: &str) -> Result<(), MachineError> {
    fs::write(file, text).map_err(|error| of_file(file, &error))
}

fn of_file(file: &Path, error: &io::Error) -> MachineError {
    let remedy = match error.kind() {
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            "run as root where cgroups can be made, or use --scheduler g-edf"
        }
        io::ErrorKind::AlreadyExists => "`corehop doctor restore` removes what an earlier run left",
        _ => {
            "another program may own these CPUs: end it, name others (--cpus), or run g-edf on all CPUs"
        }
    };
    not_possible(&format!("{}: {error}", shown::path(file)), remedy)
}

fn of_guard(error: &SupervisorError) -> MachineError {
    not_possible(&error.to_string(), "see `corehop doctor`")
}

fn not_possible(why: &str, remedy: &str) -> MachineError {
    MachineError::NotPossible {
        what: "making clusters of CPUs".to_owned(),
        why: why.to_owned(),
        remedy: remedy.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_1_has_the_controller_where_it_is_mounted() {
        let mounts = "tmpfs /sys/fs/cgroup tmpfs rw 0 0\n\
                      cgroup /sys/fs/cgroup/cpu cgroup rw,cpu 0 0\n\
                      cgroup /sys/fs/cgroup/cpuset cgroup rw,cpuset 0 0\n\
                      cgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\n";
        let legacy = CpusetHierarchy::Legacy("/sys/fs/cgroup/cpuset".into());
        let of = |text: &str| hierarchy(&proc::mounts(text.as_bytes()));
        assert_eq!(of(mounts), Some(legacy));
        assert_eq!(of("cgroup2 /nowhere cgroup2 rw 0 0\n"), None);
    }

    #[test]
    fn the_whole_machine_is_affected_only_when_allowed_and_for_seconds() {
        let ask = |allow_system, seconds| {
            permitted(Permission { allow_system, duration: Nanos::from_secs(seconds) })
        };
        assert!(ask(true, 60).is_ok());
        assert!(ask(false, 1).unwrap_err().to_string().contains("--allow-system"));
        assert!(ask(true, 61).unwrap_err().to_string().contains("--duration"));
    }

    #[test]
    fn a_cpuset_of_another_program_is_found() {
        let root = tempfile::tempdir().unwrap();
        let other = root.path().join("other");
        fs::create_dir(&other).unwrap();
        assert_eq!(other_domain(root.path()), None);
        fs::write(other.join("cpuset.cpus"), "0-1\n").unwrap();
        fs::write(other.join("cpuset.sched_load_balance"), "1\n").unwrap();
        assert_eq!(other_domain(root.path()), Some(other));
    }
}
