// SPDX-License-Identifier: MIT OR Apache-2.0
//! Describes a kept placement for export: the threads and their CPUs, the processes, and the evidence.
//!
//! A systemd unit or a container can only confine whole processes. So each process states whether all its placed
//! threads use one set of CPUs, and how much its other threads run.

use std::collections::BTreeMap;

use serde::Serialize;

use super::log::PlacementFindings;
use super::step::Proposal;
use super::terrain::WakeCosts;
use super::trial::{TrialOutcome, TrialVerdict};
use crate::wake_cost::WakeCost;
use corehop_plan::host::Activity;
use corehop_plan::host::residence::Residence;
use corehop_plan::units::CpuList;

/// The share of a CPU below which other threads count as idle, so that confining them too has no visible cost.
const IDLE: f64 = 0.02;

/// A kept placement with its evidence.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Pin {
    /// The placed threads, in the order of their processes.
    pub placement: Vec<PinnedThread>,
    /// The processes of the placed threads.
    pub processes: Vec<PinnedProcess>,
    /// The evidence for the placement.
    pub evidence: PinEvidence,
}

/// A placed thread and its CPUs in the trial.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PinnedThread {
    /// The ID of the thread's process.
    pub pid: u32,
    /// The ID of the thread.
    pub tid: u32,
    /// The name of the thread.
    pub name: String,
    /// The CPUs on which the trial placed the thread.
    pub cpus: CpuList,
}

/// A process with placed threads.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PinnedProcess {
    /// The environment of the process, such as its unit or container.
    #[serde(flatten)]
    pub residence: Residence,
    /// The CPUs of all placed threads of the process; `None` if these differ.
    pub cpus: Option<CpuList>,
    /// The number of threads of the process that the trial did not place.
    pub other_threads: usize,
    /// The share of a CPU that the other threads used.
    pub others_use: f64,
}

impl PinnedProcess {
    /// Returns the CPUs to which the whole process can be confined without changing the tried placement, as far as
    /// observed.
    ///
    /// # Errors
    /// Returns the reason why confining the process would differ from the tried placement.
    pub fn whole(&self) -> Result<&CpuList, String> {
        let Some(cpus) = &self.cpus else {
            return Err("its threads were placed on different CPUs".to_owned());
        };
        if self.others_use > IDLE {
            let Self { other_threads, others_use, .. } = self;
            let (s, use_) = if *other_threads == 1 { ("", "uses") } else { ("s", "use") };
            return Err(format!(
                "the trial did not move {other_threads} other thread{s} of the process, which {use_} {:.0} % of a CPU",
                100.0 * others_use
            ));
        }
        Ok(cpus)
    }
}

/// The evidence for a placement.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PinEvidence {
    /// The progress of the placed program relative to the unplaced program, with its interval and the number of
    /// pairs.
    #[serde(flatten)]
    pub outcome: TrialOutcome,
    /// The confidence of the interval.
    pub confidence: f64,
    /// The saving predicted before the trial, in CPUs.
    pub predicted_saving: Option<f64>,
    /// The CPUs below each last-level cache.
    pub caches: Vec<CpuList>,
    /// The smallest and the largest time in ns of a cache line between CPUs with a common cache, during the whole
    /// run.
    pub line_shared_cache_ns: Option<[f64; 2]>,
    /// The smallest and the largest time in ns of a cache line between CPUs without a common cache, during the whole
    /// run.
    pub line_separate_ns: Option<[f64; 2]>,
    /// The wake-up costs that the prediction used.
    pub wake_costs: WakeCosts,
    /// The costs of wake-ups with intervals and reasons.
    pub wake_up: Option<WakeCost>,
    /// The number of observed windows.
    pub windows: u64,
    /// The way in which progress was measured.
    pub progress: String,
    /// The host of the trial.
    pub host: PinHost,
}

/// The host and the time of a trial.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct PinHost {
    /// The name of the platform.
    pub platform: String,
    /// The kernel release of the host.
    pub kernel: String,
    /// The load averages at the end of the trial.
    pub load: String,
    /// The date of the trial, UTC.
    pub date: String,
    /// The version of corehop.
    pub corehop: String,
}

/// The facts about threads and distances that the windows contain and the answer does not.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct WindowFacts {
    /// The process ID of each thread.
    pids: BTreeMap<u32, u32>,
    /// The CPU time of each thread, in ns.
    busy: BTreeMap<u32, u64>,
    span_ns: u64,
    lines: [Option<[f64; 2]>; 2],
}

impl WindowFacts {
    pub(super) fn take(&mut self, window: &Activity) {
        self.span_ns = self.span_ns.saturating_add(window.span_ns);
        for it in &window.threads {
            self.pids.insert(it.tid, it.pid);
            let busy = self.busy.entry(it.tid).or_default();
            *busy = busy.saturating_add(it.busy_ns);
        }
        let times = window.lines.unwrap_or_default();
        for (at, time) in [times.shared_cache_ns, times.separate_ns].into_iter().enumerate() {
            let Some(time) = time else { continue };
            let [least, most] = self.lines[at].unwrap_or([time, time]);
            self.lines[at] = Some([least.min(time), most.max(time)]);
        }
    }

    fn use_of<'a>(&self, threads: impl Iterator<Item = &'a u32>) -> f64 {
        let busy: u64 = threads.filter_map(|it| self.busy.get(it)).sum();
        busy as f64 / self.span_ns.max(1) as f64
    }
}

impl PlacementFindings {
    /// Returns the placement of the last trial, if that placement was kept.
    pub fn kept(&self) -> Option<(&Proposal, TrialOutcome)> {
        let last = self.trials.last().filter(|it| it.kept)?;
        let outcome = match last.verdict {
            TrialVerdict::Better(it) | TrialVerdict::Worse(it) | TrialVerdict::Same(it) => it,
            TrialVerdict::Invalid { .. } => return None,
        };
        Some((self.proposals.get(self.trials.len() - 1)?, outcome))
    }

    /// Returns whether a trial has reached a result; if the placer `searches`, it continues after a rejected
    /// placement. A search goes on after a placement that was not kept.
    pub fn is_settled(&self, searches: bool) -> bool {
        let says =
            |it: &super::log::TrialJudgement| !matches!(it.verdict, TrialVerdict::Invalid { .. });
        self.trials.last().is_some_and(|it| it.kept || (says(it) && !searches))
    }

    /// Returns the processes of the kept placement.
    pub fn kept_processes(&self) -> Vec<u32> {
        let moves = self.kept().map_or(&[][..], |(it, _)| &it.moves);
        let mut pids: Vec<u32> =
            moves.iter().filter_map(|it| self.seen.pids.get(&it.tid).copied()).collect();
        pids.sort_unstable();
        pids.dedup();
        pids
    }

    /// Returns the kept placement with its evidence; `None` if no placement was kept.
    pub fn pin(&self, residences: &[Residence], progress: &str, host: PinHost) -> Option<Pin> {
        let (proposal, outcome) = self.kept()?;
        let thread = |it: &corehop_plan::host::Move| PinnedThread {
            pid: self.seen.pids.get(&it.tid).copied().unwrap_or(it.tid),
            tid: it.tid,
            name: self.names.get(&it.tid).cloned().unwrap_or_default(),
            cpus: it.cpus.clone(),
        };
        let mut placement: Vec<PinnedThread> = proposal.moves.iter().map(thread).collect();
        placement.sort_by_key(|it| (it.pid, it.tid));
        let processes = residences.iter().map(|it| self.process(it, &placement)).collect();
        let [line_shared_cache_ns, line_separate_ns] = self.seen.lines;
        Some(Pin {
            placement,
            processes,
            evidence: PinEvidence {
                outcome,
                confidence: 0.95,
                predicted_saving: proposal.saved,
                caches: self.caches.clone(),
                line_shared_cache_ns,
                line_separate_ns,
                wake_costs: self.wake_costs,
                wake_up: self.wake_up.clone(),
                windows: self.windows,
                progress: progress.to_owned(),
                host,
            },
        })
    }

    fn process(&self, residence: &Residence, placement: &[PinnedThread]) -> PinnedProcess {
        let mut own = placement.iter().filter(|it| it.pid == residence.pid);
        let first = own.clone().next().map(|it| &it.cpus);
        let is_one = own.all(|it| Some(&it.cpus) == first);
        let placed = |tid: &&u32| placement.iter().any(|it| it.tid == **tid);
        let others: Vec<&u32> = residence.threads.iter().filter(|it| !placed(it)).collect();
        PinnedProcess {
            residence: residence.clone(),
            cpus: first.filter(|_| is_one).cloned(),
            other_threads: others.len(),
            others_use: self.seen.use_of(others.into_iter()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::terrain::tests::list;
    use super::super::trial::UndecidedReason;
    use super::*;
    use crate::example::{OUTCOME, pin, placed as answer, residences};

    #[test]
    fn a_kept_placement_has_its_processes_their_other_threads_and_the_evidence() {
        let answer = answer(&[(7, "0"), (8, "0"), (21, "0")], TrialVerdict::Better(OUTCOME), true);
        assert_eq!(answer.kept_processes(), [7, 20]);
        let pin = pin(&[(21, "0"), (8, "0"), (7, "0")]);
        let threads: Vec<(u32, u32)> = pin.placement.iter().map(|it| (it.pid, it.tid)).collect();
        assert_eq!(threads, [(7, 7), (7, 8), (20, 21)]);
        let [redis, bench] = &pin.processes[..] else { panic!("{:?}", pin.processes) };
        // Thread 9 uses a tenth of a percent: the service can be confined as a whole.
        assert_eq!((redis.whole(), redis.other_threads), (Ok(&list("0")), 1));
        assert_eq!(bench.whole(), Ok(&list("0")));
        assert_eq!(pin.evidence.line_shared_cache_ns, Some([150.0, 200.0]));
        assert_eq!(pin.evidence.outcome, OUTCOME);
    }

    #[test]
    fn a_process_with_threads_on_different_cpus_or_with_busy_ones_beside_is_not_confined_as_a_whole()
     {
        let apart = pin(&[(7, "0"), (8, "1")]);
        assert!(apart.processes[0].whole().unwrap_err().contains("different CPUs"));
        let busy = pin(&[(8, "0")]);
        let why = busy.processes[0].whole().unwrap_err();
        assert!(why.contains("2 other threads") && why.contains("40 % of a CPU"), "{why}");
    }

    #[test]
    fn only_the_last_trial_counts_and_only_if_its_placement_was_kept() {
        let moves = [(7, "0")];
        let same = answer(&moves, TrialVerdict::Same(OUTCOME), false);
        assert!(same.kept().is_none() && same.is_settled(false) && !same.is_settled(true));
        let void = answer(&moves, TrialVerdict::Invalid { why: UndecidedReason::Unknown }, false);
        assert!(void.kept().is_none() && !void.is_settled(false));
        assert!(answer(&moves, TrialVerdict::Better(OUTCOME), true).is_settled(true));
        assert!(void.pin(&residences(), "", PinHost::default()).is_none());
    }
}
