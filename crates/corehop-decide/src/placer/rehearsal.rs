// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs a placer on a simulated host, and compares its placement with no placement and with the best placement.

use std::time::Duration;

use serde::Serialize;

use super::session::Session;
use super::settings::Settings;
use super::step::{Action, Placer};
use super::terrain::{Terrain, WakeCosts};
use corehop_plan::experiment::{Experiment, Gang, Gangs, SharedData};
use corehop_plan::host::{Host, HostError, Move};
use corehop_plan::machine::{MachineError, rows_of};
use corehop_plan::platform::Platform;
use corehop_plan::units::{Cpu, CpuList};
use corehop_plan::workload::gang::{Channel, GangProgram, Sharing};
use corehop_sim::SimMachine;
use corehop_sim::gang::SimHost;
use corehop_stats::gangs::{GangOutcome, SharingSummary, Sharings};

/// The length of a window. Windows can be short because simulated threads behave alike in each.
const WINDOW: Duration = Duration::from_millis(2);
/// The half-life of evidence in windows, as on a live host.
const HALF_LIFE: f64 = 20.0;
/// The number of windows over which a rate is measured, after as many windows to fill the caches.
const MEASURED: u32 = 5;
/// The number of windows after which an undecided placer is stopped.
const MOST_WINDOWS: u32 = 400;
/// The number of consecutive windows without action after which the placer counts as finished.
const QUIET: u32 = 12;

/// A rehearsal with pairs of threads on a simulated machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PairRehearsal {
    /// The program that each pair runs.
    pub program: GangProgram,
    /// The way in which the two threads of a pair share data.
    pub sharing: Sharing,
    /// The CPUs on which the threads begin; the two threads of a pair are adjacent.
    pub cpus: Vec<Cpu>,
}

/// The reason why a rehearsal is not possible.
#[derive(Debug, thiserror::Error)]
pub enum RehearsalError {
    /// The machine cannot run the pairs.
    #[error(transparent)]
    Machine(#[from] MachineError),
    /// A thread cannot be moved.
    #[error(transparent)]
    Host(#[from] HostError),
}

/// The result of a rehearsal. Rates are rounds of all threads per second of simulated time.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Rehearsed {
    /// The rate without a placer, from the same starting CPUs.
    pub alone: f64,
    /// The rate after the placer was finished.
    pub placed: f64,
    /// The rate with each pair on one CPU.
    pub same: f64,
    /// The rate with each pair below one cache.
    pub together: f64,
    /// The CPUs of the threads after the placer was finished.
    pub cpus: Vec<Cpu>,
    /// The placer's actions that report something, in order.
    pub said: Vec<Action>,
}

impl Rehearsed {
    /// Returns the best of the rates that did not involve the placer.
    pub fn best(&self) -> f64 {
        self.alone.max(self.same).max(self.together)
    }
}

/// Returns the wake-up costs on a simulated machine: hand-overs of a message between threads on one CPU, below one
/// cache, and across caches.
///
/// # Errors
/// Returns an error if the machine cannot be simulated.
pub fn wake_costs(platform: &Platform) -> Result<WakeCosts, MachineError> {
    let message = GangProgram::Exchange { items: 1, instructions: 0, through: Channel::Socket };
    let experiment = SharedData {
        programs: vec![message],
        sharings: vec![Sharing::Write],
        placings: Vec::new(),
        threads: 2,
        rounds: Some(200),
        steps: None,
        samples: 1,
        replicates: 1,
        cpus: CpuList::default(),
    };
    let impossible = |error: corehop_plan::experiment::ExperimentError| MachineError::NotPossible {
        what: format!("wake-ups on {}", platform.name),
        why: error.to_string(),
        remedy: "name a platform with two usable CPUs".to_owned(),
    };
    let plan = experiment.plan(platform, 1).map_err(impossible)?;
    let rows = rows_of(&mut SimMachine::new(platform.clone())?, &plan)?;
    let mut sharings = Sharings::default();
    sharings.take(&rows.shared_data);
    let summary: Option<SharingSummary> = sharings.finish().into_iter().next();
    // Two hand-overs are a round.
    let ns = |side: fn(&SharingSummary) -> Option<GangOutcome>| {
        summary.as_ref().and_then(side).map(|side| side.round_ns / 2.0)
    };
    let same_cpu_ns = ns(|it| it.same).unwrap_or(0.0);
    let shared_cache_ns = ns(|it| it.shared).or(ns(|it| it.separate)).unwrap_or(same_cpu_ns);
    let separate_ns = ns(|it| it.separate).unwrap_or(shared_cache_ns);
    Ok(WakeCosts { same_cpu_ns, shared_cache_ns, separate_ns })
}

/// Lets a placer work on pairs of threads until it is finished, and measures the resulting rate.
///
/// # Errors
/// Returns [`RehearsalError`] if the machine cannot run the pairs.
pub fn rehearse(
    platform: &Platform,
    pairs: &PairRehearsal,
    costs: WakeCosts,
    search: bool,
    seed: u64,
) -> Result<Rehearsed, RehearsalError> {
    let terrain = Terrain::of(platform, costs);
    let host = || SimHost::new(platform.clone(), &pairs.gangs(), seed);
    let alone = rate(&mut host()?)?;
    let fixed = |cpus: Vec<Cpu>| -> Result<f64, RehearsalError> {
        let mut host = host()?;
        let to = |(at, cpu): (usize, Cpu)| Move { tid: at as u32 + 1, cpus: CpuList::new([cpu]) };
        let moves: Vec<Move> = cpus.into_iter().enumerate().map(to).collect();
        // The host ends with its moves in force.
        let _in_force = host.apply(&moves)?;
        rate(&mut host)
    };
    let [same, together] = [1, 2].map(|each| fixed(dealt(&terrain, pairs.cpus.len(), each)));
    let mut host = host()?;
    let half_life_s = HALF_LIFE * WINDOW.as_secs_f64();
    let settings = Settings { may_move: true, search, half_life_s, ..Settings::default() };
    let said = until_quiet(&mut host, Placer::new(settings, terrain))?;
    let placed = rate(&mut host)?;
    Ok(Rehearsed { alone, placed, same: same?, together: together?, cpus: host.cpus(), said })
}

impl PairRehearsal {
    fn gangs(&self) -> Gangs {
        let gang = |cpus: &[Cpu]| Gang {
            program: self.program.clone(),
            sharing: self.sharing,
            placing: corehop_plan::workload::gang::Placing::Shared,
            cpus: cpus.to_vec(),
            moves: Vec::new(),
            rounds: 1,
            warm_up: 0,
            replicate: 0,
            samples: 1,
            first_run: 0,
        };
        Gangs { gangs: self.cpus.chunks_exact(2).map(gang).collect() }
    }
}

/// Deals pairs to the caches in turn, each pair to `each` CPUs of its cache.
fn dealt(terrain: &Terrain, threads: usize, each: usize) -> Vec<Cpu> {
    let caches = terrain.caches();
    let of_pair = |pair: usize| {
        let cpus: Vec<Cpu> = caches[pair % caches.len()].iter().collect();
        let first = pair / caches.len() * each;
        [0, each - 1].map(|next| cpus[(first + next) % cpus.len()])
    };
    (0..threads / 2).flat_map(of_pair).collect()
}

/// Rounds per second of simulated time, measured with warm caches.
fn rate(host: &mut SimHost) -> Result<f64, RehearsalError> {
    let progress = |host: &mut SimHost| -> Result<f64, RehearsalError> {
        let mut last = 0.0;
        for _ in 0..MEASURED {
            let activity = host.observe(WINDOW)?.activity;
            last = activity.and_then(|it| it.progress).unwrap_or(last);
        }
        Ok(last)
    };
    let before = progress(host)?;
    Ok((progress(host)? - before) / (WINDOW.as_secs_f64() * f64::from(MEASURED)))
}

/// Lets the placer act until it is finished. The placer's moves stay in force.
fn until_quiet(host: &mut SimHost, mut placer: Placer) -> Result<Vec<Action>, RehearsalError> {
    let mut session = Session::new(host);
    let (mut said, mut quiet) = (Vec::new(), 0);
    for _ in 0..MOST_WINDOWS {
        let Some(activity) = session.host().observe(WINDOW)?.activity else { break };
        let actions = placer.step(&activity);
        quiet = if actions.is_empty() { quiet + 1 } else { 0 };
        for action in &actions {
            if let Some(refused) = session.act(action, &mut placer)? {
                return Err(refused.into());
            }
        }
        let says = |it: &Action| matches!(it, Action::Try(_) | Action::Judge { .. });
        said.extend(actions.into_iter().filter(says));
        if quiet == QUIET {
            break;
        }
    }
    Ok(said)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(cpus: &[u32]) -> PairRehearsal {
        let program = GangProgram::Exchange { items: 1, instructions: 0, through: Channel::Socket };
        let cpus = cpus.iter().map(|&cpu| Cpu(cpu)).collect();
        PairRehearsal { program, sharing: Sharing::Write, cpus }
    }

    fn e5520() -> Platform {
        let mut platform = Platform::named("xeon_e5520").unwrap().unwrap();
        platform.tlbs.clear();
        platform
    }

    #[test]
    fn wake_ups_cost_more_across_packages_than_below_a_cache() {
        let costs = wake_costs(&e5520()).unwrap();
        assert!(costs.shared_cache_ns < costs.separate_ns, "{costs:?}");
        // 66 lines, each 83 ns in place of 81 cycles of 2.2 GHz.
        let by_hand = 66.0 * (83.0 - 81.0 / 2.2);
        let more = costs.separate_ns - costs.shared_cache_ns;
        assert!((0.9..1.2).contains(&(more / by_hand)), "{more} against {by_hand}");
    }

    #[test]
    fn pairs_that_begin_apart_come_near_the_best_placement_and_those_that_have_it_stay() {
        let platform = e5520();
        let costs = wake_costs(&platform).unwrap();
        for cpus in [&[0, 4][..], &[0, 4, 1, 5, 2, 6, 3, 7], &[0, 1, 4, 5]] {
            let it = rehearse(&platform, &pairs(cpus), costs, false, 1).unwrap();
            assert!(it.placed >= 0.95 * it.best(), "{cpus:?}: {it:?}");
            assert!(it.placed >= 0.99 * it.alone, "{cpus:?}: {it:?}");
            // Of placements that are as good as the one in force none is tried.
            assert_eq!(it.said.len(), 2, "{cpus:?}: {it:?}");
        }
    }

    #[test]
    fn a_search_finds_the_inner_cache_that_two_threads_gain_most_by() {
        let platform = Platform::named("xeon_l7455").unwrap().unwrap();
        let costs = wake_costs(&platform).unwrap();
        assert_eq!(Terrain::of(&platform, costs).inner()[0].len(), 2);
        let program = GangProgram::Swap { items: 100, fixed_low_bits: false };
        // On two packages.
        let apart = PairRehearsal { program, ..pairs(&[0, 6]) };
        let it = rehearse(&platform, &apart, costs, true, 1).unwrap();
        assert!(it.placed >= 0.95 * it.best() && it.alone < 0.9 * it.best(), "{it:?}");
    }

    #[test]
    fn pairs_that_swap_are_found_at_their_pages_and_go_on_from_one_cpu_to_two_below_a_cache() {
        let platform = e5520();
        let costs = wake_costs(&platform).unwrap();
        let program = GangProgram::Swap { items: 100, fixed_low_bits: false };
        let apart = PairRehearsal { program, ..pairs(&[0, 4, 1, 5]) };
        let it = rehearse(&platform, &apart, costs, false, 1).unwrap();
        // Better than apart is one CPU, and better than that are two.
        assert!(it.alone < 0.9 * it.same && it.same < 0.9 * it.together, "{it:?}");
        assert!(it.placed >= 0.95 * it.best(), "{it:?}");
    }

    #[test]
    fn threads_that_share_nothing_are_not_moved_without_a_search() {
        let platform = e5520();
        let costs = wake_costs(&platform).unwrap();
        let program = GangProgram::Swap { items: 100, fixed_low_bits: false };
        let apart = PairRehearsal { program, sharing: Sharing::None, ..pairs(&[0, 4, 1, 5]) };
        let it = rehearse(&platform, &apart, costs, false, 1).unwrap();
        assert_eq!(it.said, []);
        assert_eq!(it.cpus, apart.cpus);
        assert!((it.placed / it.alone - 1.0).abs() < 0.01, "{it:?}");
    }
}
