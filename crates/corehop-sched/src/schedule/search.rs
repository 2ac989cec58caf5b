// SPDX-License-Identifier: MIT OR Apache-2.0
//! Searches release patterns for a missed deadline or for a long response.

use std::collections::BTreeSet;

use serde::Serialize;
use serde_json::{Value, json};

use super::pattern::Pattern;
use super::play::{Played, SimulationGoal, Until, play};
use super::scene::{PriorityRule, Scene, Scenes};
use super::{CpuActivity, Schedule};
use corehop_plan::workload::task::Time;

/// The number of jobs in a simulation that begins with all tasks at one instant.
const JOBS_AT_ONCE: u64 = 10_000;
/// The number of jobs in every other simulation.
const JOBS: u64 = 300;
/// For each group of CPUs, the number of random patterns, and the number of patterns in which one task begins later.
const RANDOM: u64 = 40;
const LATER: usize = 40;
/// The largest number of jobs before the subject job in a JSON answer.
const JOBS_IN_JSON: usize = 200;
/// The largest number of CPU groups for which random patterns are tried.
const GROUPS: usize = 8;

/// The kind of release pattern behind a schedule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Releases {
    /// All tasks start at one instant and release further jobs as early as possible.
    AtOnce,
    /// All tasks but one start at one instant; one task starts later.
    OneLater,
    /// Releases are random.
    Random,
}

impl Releases {
    /// Describes the pattern in words, to follow "if".
    pub const fn words(self) -> &'static str {
        match self {
            Self::AtOnce => "all tasks are released at once",
            Self::OneLater => "one task is released later than the others",
            Self::Random => "tasks are released at random",
        }
    }
}

/// The result of a search.
#[derive(Debug, Clone)]
pub struct SearchResult {
    /// The schedule, and the kind of release pattern behind it.
    pub schedule: Option<(Schedule, Releases)>,
    /// The number of simulations.
    pub simulations: u64,
    /// The number of jobs released in all simulations.
    pub jobs: u64,
    /// Whether the simulation chose the CPUs of tasks.
    pub assigned: bool,
    /// The costs that the verdict includes and the simulations do not, as nouns.
    pub without: Vec<&'static str>,
}

/// Returns the first missed deadline that the simulation finds. The first simulations run without delays; if no job
/// misses its deadline, further simulations include the charged delays.
pub fn miss(scenes: &Scenes) -> SearchResult {
    let mut search = ScheduleSearch::new(SimulationGoal::Miss);
    let bare: Vec<Scene> = scenes.all.iter().map(Scene::without_delays).collect();
    let found = search.among(&bare);
    let delays = scenes.all.iter().any(Scene::with_delays);
    let found = found.or_else(|| delays.then(|| search.among(&scenes.all)).flatten());
    search.found(scenes, found)
}

/// Returns the schedule with the longest response of `task` that the simulation finds.
pub fn busiest(scenes: &Scenes, task: usize) -> SearchResult {
    let mut search = ScheduleSearch::new(SimulationGoal::Miss);
    let place = |scene: &Scene| scene.tasks.iter().position(|&at| at == task);
    let scene = scenes.all.iter().find_map(|scene| Some((scene, place(scene)?)));
    let found = scene.and_then(|(scene, place)| {
        search.goal = SimulationGoal::Longest(place);
        search.longest(scene, place)
    });
    search.found(scenes, found)
}

struct ScheduleSearch {
    goal: SimulationGoal,
    simulations: u64,
    jobs: u64,
}

type Hit = (Schedule, Releases);

impl ScheduleSearch {
    fn new(goal: SimulationGoal) -> Self {
        Self { goal, simulations: 0, jobs: 0 }
    }

    fn found(self, scenes: &Scenes, schedule: Option<Hit>) -> SearchResult {
        let Self { simulations, jobs, .. } = self;
        let (assigned, without) = (scenes.assigned, scenes.without.clone());
        SearchResult { schedule, simulations, jobs, assigned, without }
    }

    fn play(&mut self, scene: &Scene, pattern: Pattern, until: Until) -> Option<Schedule> {
        let Played { schedule, jobs } = play(scene, pattern, self.goal, until);
        self.simulations += 1;
        self.jobs += jobs;
        schedule
    }

    fn at_once(&mut self, scene: &Scene) -> Option<Hit> {
        let until = Until { jobs: JOBS_AT_ONCE, idle: scene.cpus.len() == 1 };
        let found = self.play(scene, Pattern::at_once(scene.tasks.len()), until)?;
        Some((found, Releases::AtOnce))
    }

    /// Searches all groups for the first missed deadline: with simultaneous releases, then with tasks of equal priority
    /// in turn, then with random releases.
    fn among(&mut self, scenes: &[Scene]) -> Option<Hit> {
        let mut found = scenes.iter().find_map(|scene| self.at_once(scene));
        for scene in scenes.iter().filter(|it| it.by == PriorityRule::Rank && it.cpus.len() == 1) {
            found = found.or_else(|| self.equals(scene));
        }
        for scene in scenes.iter().take(GROUPS) {
            for number in 0..RANDOM {
                found = found.or_else(|| self.random(scene, number));
            }
        }
        found
    }

    fn random(&mut self, scene: &Scene, number: u64) -> Option<Hit> {
        let pattern = Pattern::random(&scene.parameters, number, scene.cpus.len() > 1);
        let jobs = JOBS.max(3 * scene.tasks.len() as u64);
        let found = self.play(scene, pattern, Until { jobs, idle: false })?;
        Some((found, Releases::Random))
    }

    /// Tries tasks that share a priority: each task in turn begins later than the others, at an offset where it meets
    /// another job.
    fn equals(&mut self, scene: &Scene) -> Option<Hit> {
        let shares =
            |at: &usize| scene.ranks.iter().filter(|it| **it == scene.ranks[*at]).count() > 1;
        let all: Vec<usize> = (0..scene.tasks.len()).filter(shares).take(LATER).collect();
        all.into_iter().find_map(|at| {
            let offsets = offsets(scene, at);
            offsets.into_iter().find_map(|offset| self.later(scene, at, offset))
        })
    }

    fn later(&mut self, scene: &Scene, at: usize, offset: Time) -> Option<Hit> {
        let pattern = Pattern::but_one(scene.tasks.len(), at, offset);
        let found = self.play(scene, pattern, Until { jobs: JOBS, idle: true })?;
        Some((found, Releases::OneLater))
    }

    /// Searches for the longest response of a task that is released with all others, later than the others, and at
    /// random.
    fn longest(&mut self, scene: &Scene, at: usize) -> Option<Hit> {
        let mut best = self.at_once(scene);
        let alone = scene.by == PriorityRule::Rank
            && !scene
                .ranks
                .iter()
                .enumerate()
                .any(|(other, rank)| other != at && *rank == scene.ranks[at]);
        if scene.cpus.len() == 1 && !alone {
            for offset in offsets(scene, at) {
                best = longer(best, self.later(scene, at, offset));
            }
        }
        for number in (0..RANDOM).filter(|_| scene.cpus.len() > 1) {
            best = longer(best, self.random(scene, number));
        }
        best
    }
}

/// The schedule whose subject job responds later; the first schedule if both responses are equal.
fn longer(one: Option<Hit>, other: Option<Hit>) -> Option<Hit> {
    let response = |it: &Option<Hit>| it.as_ref().map(|it| it.0.response_us());
    if response(&other) > response(&one) { other } else { one }
}

/// The offsets of a task at which its deadline coincides with that of another job (Spuri 1996), or, under fixed
/// priorities, its release coincides with another release. Offsets within the task's period are enough, because the
/// task's jobs repeat.
fn offsets(scene: &Scene, at: usize) -> Vec<Time> {
    let own = scene.parameters[at];
    let mut offsets = BTreeSet::new();
    for turn in 0..LATER as u64 {
        for other in &scene.parameters {
            let meets = match scene.by {
                PriorityRule::Rank => turn * other.period,
                PriorityRule::Deadline => {
                    let due = other.deadline + turn * other.period;
                    due.saturating_sub(own.deadline)
                }
            };
            if offsets.len() < LATER {
                offsets.insert(meets % own.period);
            }
        }
    }
    offsets.remove(&Time::ZERO);
    // At once with the others, the task may still go last among its equals.
    [Time::ZERO].into_iter().chain(offsets).collect()
}

impl SearchResult {
    /// Returns the result as JSON: a `miss` or the `busiest` window.
    pub fn json(&self) -> Value {
        let mut value = json!({ "found": self.schedule.is_some(), "simulations": self.simulations, "simulated_jobs": self.jobs });
        if self.assigned {
            value["cpus_by"] = json!("worst_fit");
        }
        if !self.without.is_empty() {
            value["without"] = json!(self.without);
        }
        if let Some((schedule, releases)) = &self.schedule {
            value["releases"] = json!(releases);
            value["schedule"] = json!(schedule.end(JOBS_IN_JSON));
            value["late_us"] = json!(schedule.late_us());
            let reloads =
                [("preemptions", CpuActivity::Preemption), ("migrations", CpuActivity::Migration)];
            for (name, doing) in reloads.into_iter().filter(|_| schedule.with_delays) {
                let (times, us) = schedule.reloads(doing);
                value[name] = json!({ "times": times, "us": us });
            }
        }
        value
    }
}
