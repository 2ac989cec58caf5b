// SPDX-License-Identifier: MIT OR Apache-2.0
//! The background load of a phase: activities that run while samples are taken, and the proof that they ran.
//!
//! Load threads that run in this process end with the process. The supervisor ends the copies of a command, even if
//! this process is killed.

mod buslock;
mod changing;
mod classify;
mod command;
mod dma;
pub(super) mod workers;

use std::time::{Duration, Instant};

use corehop_plan::experiment::DrawStream;
use corehop_plan::machine::MachineError;
use corehop_plan::platform::Platform;
use corehop_plan::units::{Cpu, CpuList};
use corehop_plan::workload::{Load, Polluter, Transfer};
use serde_json::{Value, json};

use super::polluter::Cursor;
use corehop_system::clock::TickClock;
use corehop_system::proc;
use corehop_system::supervisor::{Guard, SupervisorError};
use corehop_system::thread::SchedulingPolicy;

use buslock::{BusLocker, SplitLockLoad};
use changing::WindowWalker;
pub(super) use classify::{Classification, Probe};
use command::Commands;
use dma::{Direct, Loopback};
pub(super) use workers::LoadWork;
use workers::Workers;

/// The environment in which a load starts.
#[derive(Debug, Clone, Copy)]
pub(super) struct LoadEnvironment<'a> {
    pub(super) platform: &'a Platform,
    pub(super) clock: TickClock,
    pub(super) guard: &'a Guard,
    /// Whether preemptors use CPUs beside the load.
    pub(super) is_preempted: bool,
}

impl LoadEnvironment<'_> {
    /// The policy of computing threads, which yield to a preemptor so that it has the CPU alone.
    const fn policy(&self) -> SchedulingPolicy {
        if self.is_preempted { SchedulingPolicy::Idle } else { ORDINARY }
    }
}

/// The policy of load threads without preemptors, and of load threads that wait for a device.
const ORDINARY: SchedulingPolicy = SchedulingPolicy::Other(0);

/// The background load of a phase, which runs until dropped.
#[derive(Debug)]
pub(crate) struct RunningLoad {
    word: &'static str,
    kind: LoadGenerator,
    begun: Instant,
    /// The load's progress before `begun`, if the load is kept from one phase to the next.
    before: LoadProgress,
}

#[derive(Debug)]
enum LoadGenerator {
    Idle,
    Threads(Workers),
    Commands(Commands),
}

impl RunningLoad {
    /// A running load that does nothing.
    #[cfg(test)]
    pub(crate) fn idle() -> Self {
        Self {
            word: Load::Idle.word(),
            kind: LoadGenerator::Idle,
            begun: Instant::now(),
            before: LoadProgress::default(),
        }
    }

    /// Starts `load`; `seed` determines the order of its accesses.
    ///
    /// # Errors
    /// Fails with [`MachineError::NotPossible`] if this host does not allow the load; the error names the remedy.
    pub(super) fn start(
        load: &Load,
        host: LoadEnvironment<'_>,
        seed: u64,
    ) -> Result<Self, MachineError> {
        let on =
            |list: &CpuList| if list.is_empty() { host.platform.usable() } else { list.clone() };
        let cpus: Vec<Cpu> = load.cpus().map_or_else(Vec::new, |list| on(list).iter().collect());
        let kind = match load {
            Load::Idle => LoadGenerator::Idle,
            Load::Constructed { polluter, .. } => {
                LoadGenerator::Threads(polluters(polluter, (&cpus, host.policy()), seed)?)
            }
            Load::Changing { program, .. } => {
                let programs = WindowWalker::on(program, &cpus, host.clock, seed);
                let programs = programs.map_err(|error| super::not_possible(&error))?;
                LoadGenerator::Threads(threads("changing", programs, host.policy())?)
            }
            Load::Realistic { command, .. } => {
                LoadGenerator::Commands(commands(command, &cpus, host.guard)?)
            }
            Load::Dma { transfer, .. } => {
                LoadGenerator::Threads(dma(*transfer, &cpus, host.policy())?)
            }
            Load::Buslock { split: false, .. } => {
                LoadGenerator::Threads(threads("buslock", BusLocker::on(&cpus), host.policy())?)
            }
            Load::Buslock { split: true, .. } => LoadGenerator::Threads(split_locks(&cpus, host)?),
        };
        Ok(Self { word: load.word(), kind, begun: Instant::now(), before: LoadProgress::default() })
    }

    /// The number of bytes that the load has moved so far, if it counts bytes.
    pub(crate) fn bytes(&self) -> Option<u64> {
        match &self.kind {
            LoadGenerator::Idle | LoadGenerator::Commands(_) => None,
            LoadGenerator::Threads(workers) => Some(workers.bytes()),
        }
    }

    /// Checks that the load still runs as requested.
    ///
    /// # Errors
    /// Fails with [`MachineError::Failed`], which says why the load no longer runs as requested.
    pub(crate) fn check(&self) -> Result<(), MachineError> {
        let why = match &self.kind {
            LoadGenerator::Idle => None,
            LoadGenerator::Threads(workers) => workers.given_up(),
            LoadGenerator::Commands(commands) => {
                commands.check().err().map(|error| error.to_string())
            }
        };
        why.map_or(Ok(()), |why| Err(super::failed(&format!("the load `{}`", self.word), why)))
    }

    /// The proof that the load ran, at the end of a phase: its progress since the last call.
    pub(super) fn progress(&mut self) -> LoadProgress {
        let (cpu_ns, restarts) = match &self.kind {
            LoadGenerator::Commands(commands) => (commands.cpu_ns(), commands.restarts()),
            LoadGenerator::Idle | LoadGenerator::Threads(_) => (Vec::new(), 0),
        };
        let all =
            LoadProgress { wall: self.begun.elapsed(), bytes: self.bytes(), cpu_ns, restarts };
        let since = all.since(&self.before);
        self.before = all;
        since
    }
}

/// The progress of a load over some phases.
#[derive(Debug, Clone, Default)]
pub(super) struct LoadProgress {
    wall: Duration,
    bytes: Option<u64>,
    cpu_ns: Vec<(Cpu, u64)>,
    restarts: u64,
}

impl LoadProgress {
    /// The progress since `before`.
    fn since(&self, before: &Self) -> Self {
        let earlier = |cpu: Cpu| before.cpu_ns.iter().find(|it| it.0 == cpu).map_or(0, |it| it.1);
        let cpu_ns = self.cpu_ns.iter().map(|&(cpu, ns)| (cpu, ns.saturating_sub(earlier(cpu))));
        Self {
            wall: self.wall.saturating_sub(before.wall),
            bytes: self.bytes.map(|bytes| bytes - before.bytes.unwrap_or(0)),
            cpu_ns: cpu_ns.collect(),
            restarts: self.restarts - before.restarts,
        }
    }

    /// Adds the progress of another phase.
    pub(super) fn add(&mut self, other: Self) {
        self.wall += other.wall;
        self.bytes = other.bytes.map(|bytes| bytes + self.bytes.unwrap_or(0)).or(self.bytes);
        self.restarts += other.restarts;
        for (cpu, ns) in other.cpu_ns {
            match self.cpu_ns.iter_mut().find(|(known, _)| *known == cpu) {
                Some((_, sum)) => *sum += ns,
                None => self.cpu_ns.push((cpu, ns)),
            }
        }
    }

    /// Describes the progress for the provenance. The CPU share of a command's copy is below 1 if the measured job or a
    /// preemptor also used the CPU, or if the command itself waited.
    pub(super) fn describe(&self) -> Value {
        let wall_ns = self.wall.as_nanos() as u64;
        let share = |&(cpu, ns): &(Cpu, u64)| {
            json!({
                "cpu": cpu.0,
                "cpu_ns": ns,
                "share": ns as f64 / wall_ns.max(1) as f64,
            })
        };
        let copies: Vec<Value> = self.cpu_ns.iter().map(share).collect();
        json!({
            "wall_ns": wall_ns,
            "bytes": self.bytes,
            "copies": copies,
            "restarts": self.restarts,
        })
    }
}

/// The facts about a load, over all its phases.
#[derive(Debug, Clone)]
pub(super) struct LoadFacts {
    pub(super) load: Load,
    pub(super) classification: Classification,
    pub(super) progress: LoadProgress,
}

impl LoadFacts {
    /// Describes the load for the provenance.
    pub(super) fn describe(&self) -> Value {
        json!({
            "load": self.load,
            "classification": self.classification.describe(),
            "progress": self.progress.describe(),
        })
    }
}

fn threads<W: LoadWork>(
    word: &str,
    works: Vec<(Cpu, W)>,
    policy: SchedulingPolicy,
) -> Result<Workers, MachineError> {
    Workers::start(works, policy).map_err(|error| {
        super::failed(&format!("starting the threads of the load `{word}`"), error)
    })
}

fn polluters(
    polluter: &Polluter,
    (cpus, policy): (&[Cpu], SchedulingPolicy),
    seed: u64,
) -> Result<Workers, MachineError> {
    let cursor = |(index, &cpu): (usize, &Cpu)| {
        Ok((cpu, Cursor::new(polluter, &mut DrawStream::new(seed, 1000 + index as u64))?))
    };
    let cursors: Result<Vec<_>, _> = cpus.iter().enumerate().map(cursor).collect();
    threads("constructed", cursors.map_err(|error| super::not_possible(&error))?, policy)
}

fn commands(command: &str, cpus: &[Cpu], guard: &Guard) -> Result<Commands, MachineError> {
    Commands::start(command, cpus, guard).map_err(|error| match error {
        SupervisorError::LoadGivenUp { .. }
        | SupervisorError::LoadKilled { .. }
        | SupervisorError::Silent { .. } => super::failed("the load `realistic`", error),
        _ => MachineError::NotPossible {
            what: "the load `realistic`".to_owned(),
            why: error.to_string(),
            remedy: "see `corehop doctor`, or use --load constructed".to_owned(),
        },
    })
}

fn dma(
    transfer: Transfer,
    cpus: &[Cpu],
    policy: SchedulingPolicy,
) -> Result<Workers, MachineError> {
    let refused = |why: String, remedy: &str| MachineError::NotPossible {
        what: format!("the load `dma` ({transfer})"),
        why,
        remedy: remedy.to_owned(),
    };
    match transfer {
        Transfer::Direct => {
            let works = Direct::on(cpus).map_err(|error| {
                refused(
                    error.to_string(),
                    "set TMPDIR to a folder on a disk, or use --transfer loopback",
                )
            })?;
            // Most of the time they wait for the device; a preemptor hardly notices them.
            threads("dma", works, ORDINARY)
        }
        Transfer::Loopback => {
            let works = Loopback::on(cpus).map_err(|error| {
                refused(error.to_string(), "`ip link set lo up` as root, or use --transfer direct")
            })?;
            threads("dma", works, policy)
        }
    }
}

fn split_locks(cpus: &[Cpu], host: LoadEnvironment<'_>) -> Result<Workers, MachineError> {
    let text = |path: &str| proc::text(path).ok();
    let refusal = buslock::refusal(
        host.platform.hypervisor.as_ref().map(|name| name.value.as_str()),
        &text("/proc/cmdline").unwrap_or_default(),
        &text("/proc/cpuinfo").unwrap_or_default(),
        text("/proc/sys/kernel/split_lock_mitigate").as_deref(),
    );
    if let Some((why, remedy)) = refusal {
        let what = "the load `buslock` with split locks".to_owned();
        return Err(MachineError::NotPossible { what, why, remedy: remedy.to_owned() });
    }
    let works = SplitLockLoad::on(cpus, host.clock)
        .map_err(|error| super::failed("taking the signal of split locks", error))?;
    threads("buslock", works, host.policy())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_load_that_is_kept_tells_each_phase_once() {
        let at = |ms, bytes, cpu_ns, restarts| LoadProgress {
            wall: Duration::from_millis(ms),
            bytes: Some(bytes),
            cpu_ns: vec![(Cpu(0), cpu_ns)],
            restarts,
        };
        let since = at(30, 700, 900, 4).since(&at(10, 200, 300, 1));
        assert_eq!((since.wall, since.bytes), (Duration::from_millis(20), Some(500)));
        assert_eq!((since.cpu_ns, since.restarts), (vec![(Cpu(0), 600)], 3));
    }

    #[test]
    fn what_a_load_did_adds_up_over_phases() {
        let phase = |bytes, cpu_ns: &[(Cpu, u64)]| LoadProgress {
            wall: Duration::from_millis(1),
            bytes,
            cpu_ns: cpu_ns.to_vec(),
            restarts: 1,
        };
        let mut all = LoadProgress::default();
        all.add(phase(Some(10), &[]));
        all.add(phase(None, &[(Cpu(0), 500_000)]));
        all.add(phase(Some(5), &[(Cpu(1), 3), (Cpu(0), 250_000)]));
        let told = all.describe();
        assert_eq!((&told["bytes"], &told["restarts"]), (&json!(15), &json!(3)));
        assert_eq!(told["copies"][0], json!({"cpu": 0, "cpu_ns": 750_000, "share": 0.25}));
        assert_eq!(told["copies"][1]["cpu"], 1);
    }
}
