// SPDX-License-Identifier: MIT OR Apache-2.0
//! The experiment on the gain of a common cache for two threads with common data (Kamali 2010, chapter 4).
//!
//! Every program runs in turn with its threads on cores that share a cache, on cores that share no cache, and on
//! one core. Control runs use read-only data, or private data of each thread. Times, misses and snoop responses
//! show the cost of sharing and a way to detect sharing. The experiment does not cover the decisions of a
//! scheduler.

use serde::{Deserialize, Serialize};

use super::{Experiment, ExperimentError, RunPosition, SamplingUnit};
use crate::kinds::{Gang, GangMove, Gangs, GangsError, Kind, Plan};
use crate::platform::{Affinity, Platform};
use crate::units::{Cpu, CpuList};
use crate::workload::gang::{GangProgram, Placing, Sharing};

/// The parameters of the experiment on shared data.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SharedData {
    /// The programs that the threads run.
    pub programs: Vec<GangProgram>,
    /// The ways in which the threads share data.
    pub sharings: Vec<Sharing>,
    /// The placements of the threads; if empty, all placements without moves that the platform has.
    pub placings: Vec<Placing>,
    /// The number of threads of each gang.
    #[serde(default = "two")]
    pub threads: usize,
    /// The number of measured rounds of each thread, see [`Gang::rounds`]; if the number is `None`, `steps` determines
    /// the number.
    pub rounds: Option<u64>,
    /// The number of steps that the rounds take ([`GangProgram::rounds_of`]), or `None` for the steps of a burst
    /// ([`GangProgram::burst`]).
    #[serde(default)]
    pub steps: Option<u64>,
    /// The number of runs of each gang.
    pub samples: u32,
    /// The number of passes over all gangs in which the runs are made; 1 on a simulated machine, which starts
    /// every run anew.
    #[serde(default = "one")]
    pub replicates: u32,
    /// The CPUs that the experiment can use; empty for all CPUs.
    #[serde(default)]
    pub cpus: CpuList,
}

const fn two() -> usize {
    2
}

const fn one() -> u32 {
    1
}

/// The CPUs of the threads of a gang.
struct GangPlacement {
    placing: Placing,
    /// The CPU on which each thread starts.
    cpus: Vec<Cpu>,
    /// The CPU of each thread after half of the rounds; empty if the threads stay.
    to: Vec<Cpu>,
}

impl SharedData {
    /// Returns the gangs of the experiment: every program in every way of sharing and placing.
    ///
    /// # Errors
    /// Returns [`GangsError`] if `platform` cannot run a program or a placing.
    pub fn gangs(&self, platform: &Platform) -> Result<Gangs, GangsError> {
        let placed = self.placed(platform)?;
        let mut gangs = Vec::new();
        for program in &self.programs {
            program.check()?;
            for &sharing in &self.sharings {
                for place in &placed {
                    gangs.push(self.gang(program, sharing, place));
                }
            }
        }
        let gangs = Gangs { gangs };
        gangs.check(platform)?;
        Ok(gangs)
    }

    fn gang(&self, program: &GangProgram, sharing: Sharing, place: &GangPlacement) -> Gang {
        let of_steps = || self.steps.map_or_else(|| program.burst(), |it| program.rounds_of(it));
        let rounds = self.rounds.unwrap_or_else(of_steps);
        let to = |(thread, &cpu)| GangMove { after_rounds: rounds / 2, thread, cpu };
        Gang {
            program: program.clone(),
            sharing,
            placing: place.placing,
            cpus: place.cpus.clone(),
            moves: place.to.iter().enumerate().map(to).collect(),
            rounds,
            warm_up: rounds / 2,
            replicate: 0,
            samples: self.samples,
            first_run: 0,
        }
    }

    /// Returns the requested placings, each with the CPU of every thread; without a request, the fixed placings
    /// that the platform has.
    fn placed(&self, platform: &Platform) -> Result<Vec<GangPlacement>, GangsError> {
        let place = |&placing: &Placing| self.place(platform, placing);
        if self.placings.is_empty() {
            return Ok(Placing::FIXED.iter().filter_map(|it| place(it).ok()).collect());
        }
        self.placings.iter().map(place).collect()
    }

    /// Returns the CPUs of the threads in a placing. Threads that move start at the farther of two places and go
    /// to the nearer place after half of the rounds.
    fn place(&self, platform: &Platform, placing: Placing) -> Result<GangPlacement, GangsError> {
        let at = |placing| self.cpus_of(platform, placing);
        if placing != Placing::Moved {
            return Ok(GangPlacement { placing, cpus: at(placing)?, to: Vec::new() });
        }
        let (cpus, to) = match at(Placing::Separate) {
            Ok(cpus) => (cpus, at(Placing::Shared).or_else(|_| at(Placing::Same))?),
            Err(_) => (at(Placing::Shared)?, at(Placing::Same)?),
        };
        Ok(GangPlacement { placing, cpus, to })
    }

    /// Returns the CPU of each thread: the first CPUs that fit the placing; if there are fewer CPUs than
    /// threads, the CPUs are used repeatedly.
    fn cpus_of(&self, platform: &Platform, placing: Placing) -> Result<Vec<Cpu>, GangsError> {
        let usable = platform.usable();
        let wanted = |cpu: &Cpu| self.cpus.is_empty() || self.cpus.contains(*cpu);
        let cpus = CpuList::new(usable.iter().filter(wanted));
        let (of, what): (Vec<Cpu>, _) = match placing {
            Placing::Same => (cpus.first().into_iter().collect(), "a CPU to run on"),
            Placing::Shared => (together(platform, &cpus), "a cache in common, not a core"),
            Placing::Separate => (apart(platform, &cpus), "no cache in common"),
            Placing::Moved => (Vec::new(), "a nearer place to go to"),
        };
        let least = if placing == Placing::Same { 1 } else { 2 };
        if of.len() < least {
            let platform = platform.name.clone();
            return Err(GangsError::Placing { placing, platform, what });
        }
        Ok(of.into_iter().cycle().take(self.threads).collect())
    }
}

/// Returns CPUs of different cores below one cache: the outermost cache that two of the cores share.
fn together(platform: &Platform, cpus: &CpuList) -> Vec<Cpu> {
    let pair = [Affinity::L3, Affinity::L2].iter().find_map(|&it| platform.pair(cpus, it));
    let Some((first, second)) = pair else { return Vec::new() };
    let outermost = platform.affinity(first, second);
    let mut together = vec![first, second];
    for cpu in cpus.iter() {
        let to = |&it: &Cpu| platform.affinity(it, cpu);
        let is_below = to(&first) <= outermost;
        if is_below && together.iter().all(|it| to(it) > Affinity::Smt) {
            together.push(cpu);
        }
    }
    together
}

/// Returns one CPU of each group that shares a cache, then a second CPU of each group, and so on.
fn apart(platform: &Platform, cpus: &CpuList) -> Vec<Cpu> {
    let mut groups: Vec<Vec<Cpu>> = Vec::new();
    for cpu in cpus.iter() {
        let near = |group: &&mut Vec<Cpu>| platform.affinity(group[0], cpu) != Affinity::Memory;
        match groups.iter_mut().find(near) {
            Some(group) => group.push(cpu),
            None => groups.push(vec![cpu]),
        }
    }
    if groups.len() < 2 {
        return Vec::new();
    }
    let most = groups.iter().map(Vec::len).min().unwrap_or(0);
    (0..most).flat_map(|at| groups.iter().map(move |group| group[at])).collect()
}

impl Experiment for SharedData {
    fn name(&self) -> &'static str {
        "shared-data"
    }

    fn replicates(&self) -> Option<u32> {
        Some(self.replicates)
    }

    fn units(&self, platform: &Platform, _: u64) -> Result<Vec<SamplingUnit>, ExperimentError> {
        Ok(self.gangs(platform)?.units())
    }

    fn block(
        &self,
        platform: &Platform,
        seed: u64,
        turn: RunPosition,
        quota: &[u32],
    ) -> Result<Plan, ExperimentError> {
        let mut body = self.gangs(platform)?;
        for (gang, &samples) in body.gangs.iter_mut().zip(quota) {
            (gang.samples, gang.first_run) = (samples, turn.block as u32);
            gang.replicate = turn.replicate.unwrap_or(0);
        }
        Ok(Plan::new(self.name(), seed, body))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn experiment() -> SharedData {
        SharedData {
            programs: vec![GangProgram::Swap { items: 100, fixed_low_bits: false }],
            sharings: Sharing::ALL.to_vec(),
            placings: vec![Placing::Shared, Placing::Separate],
            threads: 2,
            rounds: Some(10),
            steps: None,
            samples: 1,
            replicates: 1,
            cpus: CpuList::default(),
        }
    }

    #[test]
    fn threads_are_placed_below_the_outermost_common_cache_or_below_none() {
        let cpus = |id: &str| {
            let platform = Platform::named(id).unwrap().unwrap();
            let plan = experiment().gangs(&platform).unwrap();
            plan.check(&platform).unwrap();
            assert_eq!(plan.gangs.len(), 6);
            [0, 1].map(|at| plan.gangs[at].cpus.iter().map(|cpu| cpu.0).collect::<Vec<_>>())
        };
        assert_eq!(cpus("xeon_e5520"), [vec![0, 1], vec![0, 4]]);
        // On the L7455 two cores have a level 2 in common, six a level 3.
        let [shared, separate] = cpus("xeon_l7455");
        let l7455 = Platform::named("xeon_l7455").unwrap().unwrap();
        let class = |pair: &[u32]| l7455.affinity(Cpu(pair[0]), Cpu(pair[1]));
        assert_eq!([class(&shared), class(&separate)], [Affinity::L3, Affinity::Memory]);
    }

    #[test]
    fn more_threads_than_two_fill_a_cache_or_are_dealt_to_the_caches_in_turn() {
        let platform = Platform::named("xeon_e5520").unwrap().unwrap();
        let cpus = |placing, threads| {
            let experiment = SharedData { threads, ..experiment() };
            let cpus = experiment.cpus_of(&platform, placing).unwrap();
            cpus.iter().map(|cpu| cpu.0).collect::<Vec<_>>()
        };
        assert_eq!(cpus(Placing::Shared, 6), [0, 1, 2, 3, 0, 1]);
        assert_eq!(cpus(Placing::Separate, 5), [0, 4, 1, 5, 2]);
        assert_eq!(cpus(Placing::Same, 3), [0, 0, 0]);
    }

    #[test]
    fn without_a_wish_every_placing_that_the_platform_has_is_taken() {
        let all = SharedData { placings: Vec::new(), ..experiment() };
        let placings = |id: &str| {
            let gangs = all.gangs(&Platform::named(id).unwrap().unwrap()).unwrap();
            gangs.gangs.iter().take(3).map(|gang| gang.placing).collect::<Vec<_>>()
        };
        assert_eq!(placings("xeon_e5520"), Placing::FIXED);
        assert_eq!(placings("phenom_9550")[..2], [Placing::Shared, Placing::Same]);
    }

    #[test]
    fn threads_that_are_moved_go_from_far_to_near_after_half_of_their_rounds() {
        let plan = |id: &str| {
            let moved = SharedData { placings: vec![Placing::Moved], ..experiment() };
            let platform = Platform::named(id).unwrap().unwrap();
            let plan = moved.gangs(&platform).unwrap();
            plan.check(&platform).unwrap();
            let gang = plan.gangs[0].clone();
            assert!(gang.moves.iter().all(|it| it.after_rounds == 5), "{gang:?}");
            let to: Vec<u32> = gang.moves.iter().map(|it| it.cpu.0).collect();
            (gang.cpus.iter().map(|cpu| cpu.0).collect::<Vec<_>>(), to)
        };
        assert_eq!(plan("xeon_e5520"), (vec![0, 4], vec![0, 1]));
        // All cores of the Phenom share a cache: one of them is nearer.
        assert_eq!(plan("phenom_9550").1, [0, 0]);
    }

    #[test]
    fn moves_that_cannot_be_made_or_that_no_row_would_tell_of_are_refused() {
        let platform = Platform::named("xeon_e5520").unwrap().unwrap();
        let good = experiment().gangs(&platform).unwrap().gangs[0].clone();
        let to = GangMove { after_rounds: 3, thread: 1, cpu: Cpu(2) };
        let refused = |placing, moves: Vec<GangMove>, word: &str| {
            let gang = Gang { placing, moves, ..good.clone() };
            let error = Gangs { gangs: vec![gang] }.check(&platform).unwrap_err().to_string();
            assert!(error.contains("gang 0") && error.contains(word), "{error}");
        };
        refused(Placing::Shared, vec![to], "`shared`");
        refused(Placing::Moved, Vec::new(), "`moved`");
        refused(Placing::Moved, vec![GangMove { thread: 2, ..to }], "thread 2 of 2");
        refused(Placing::Moved, vec![GangMove { cpu: Cpu(8), ..to }], "CPU");
        refused(Placing::Moved, vec![to, GangMove { after_rounds: 10, ..to }], "10 of 10");
        let gang = Gang { placing: Placing::Moved, moves: vec![to], ..good.clone() };
        assert_eq!(Gangs { gangs: vec![gang] }.check(&platform), Ok(()));
    }

    #[test]
    fn a_plan_without_moves_says_nothing_of_them_and_one_from_before_there_were_any_is_read() {
        let platform = Platform::named("xeon_e5520").unwrap().unwrap();
        let mut gang = experiment().gangs(&platform).unwrap().gangs[0].clone();
        let json = serde_json::json!(gang);
        assert_eq!(json.get("moves"), None);
        assert_eq!(serde_json::from_value::<Gang>(json).unwrap(), gang);
        gang.moves = vec![GangMove { after_rounds: 3, thread: 1, cpu: Cpu(2) }];
        let json = serde_json::json!(gang);
        assert_eq!(json["moves"][0]["after_rounds"], 3);
        assert_eq!(serde_json::from_value::<Gang>(json).unwrap(), gang);
    }

    #[test]
    fn steps_are_rounds_but_for_a_fork_and_join_which_has_many_in_one() {
        let platform = Platform::named("xeon_e5520").unwrap().unwrap();
        let rounds = |program: GangProgram| {
            let steps = SharedData {
                programs: vec![program],
                rounds: None,
                steps: Some(10_000),
                ..experiment()
            };
            steps.gangs(&platform).unwrap().gangs[0].rounds
        };
        assert_eq!(rounds(GangProgram::LinearRegression { items: 10 }), 10_000);
        // 465 tasks, and 21,891.
        assert_eq!([12, 20].map(|number| rounds(GangProgram::ForkJoin { number })), [21, 1]);
    }

    #[test]
    fn a_machine_of_one_package_has_no_separate_cores() {
        let phenom = Platform::named("phenom_9550").unwrap().unwrap();
        let error = experiment().gangs(&phenom).unwrap_err().to_string();
        assert!(error.contains("separate") && error.contains("no cache in common"), "{error}");
        let shared = SharedData { placings: vec![Placing::Shared], ..experiment() };
        assert_eq!(shared.gangs(&phenom).unwrap().gangs.len(), 3);
    }

    #[test]
    fn a_plan_by_hand_that_names_one_cpu_or_none_of_the_machine_is_refused() {
        let platform = Platform::named("xeon_e5520").unwrap().unwrap();
        let mut plan = experiment().gangs(&platform).unwrap();
        for cpus in [vec![Cpu(0)], vec![Cpu(0); 65], vec![Cpu(0), Cpu(8)]] {
            plan.gangs[2].cpus = cpus;
            let error = plan.check(&platform).unwrap_err().to_string();
            assert!(error.contains("gang 2") && error.contains("0-7"), "{error}");
        }
    }
}
