// SPDX-License-Identifier: MIT OR Apache-2.0
//! Looks through patterns of releases for a missed deadline, or for a long response.

use std::collections::BTreeSet;

use serde::Serialize;
use serde_json::{Value, json};

use super::pattern::Pattern;
use super::play::{Played, SimulationGoal, Until, play};
use super::scene::{PriorityRule, Scene, Scenes};
use super::{CpuActivity, Schedule};
use corehop_plan::workload::task::Time;

/// The jobs of a simulation that begins with all tasks at once.
const JOBS_AT_ONCE: u64 = 10_000;
/// The jobs of every other simulation.
const JOBS: u64 = 300;
/// The number of random patterns for each group of CPUs, and of patterns in which one task begins later.
const RANDOM: u64 = 40;
const LATER: usize = 40;
/// The most jobs before the one in question that an answer in JSON has.
const JOBS_IN_JSON: usize = 200;
/// Groups of CPUs of which random patterns are tried.
const GROUPS: usize = 8;

/// The kind of pattern by which the jobs of a schedule were released.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Releases {
    /// All tasks at once, and then as soon as they may.
    AtOnce,
    /// The same, but one task later.
    OneLater,
    /// At random.
    Random,
}

impl Releases {
    /// In words, after "if".
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
    /// The schedule, and how its jobs were released.
    pub schedule: Option<(Schedule, Releases)>,
    /// The simulations.
    pub simulations: u64,
    /// The jobs that were released in them.
    pub jobs: u64,
    /// Whether the simulation chose the CPUs of tasks.
    pub assigned: bool,
    /// The costs that the verdict allows for and the simulations do not, as nouns.
    pub without: Vec<&'static str>,
}

/// The first missed deadline that simulation finds: with jobs that lose nothing when they are preempted, and if none of those misses,
/// with the delays that are charged.
pub fn miss(scenes: &Scenes) -> SearchResult {
    let mut search = ScheduleSearch::new(SimulationGoal::Miss);
    let bare: Vec<Scene> = scenes.all.iter().map(Scene::without_delays).collect();
    let found = search.among(&bare);
    let delays = scenes.all.iter().any(Scene::with_delays);
    let found = found.or_else(|| delays.then(|| search.among(&scenes.all)).flatten());
    search.found(scenes, found)
}

/// The schedule with the longest response of a task that simulation finds.
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

    /// The first hit: in all groups with releases at once, then with equals in turn, then at random.
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

    /// Tasks that share a priority: each begins later in turn, at once with another one.
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

    /// The longest response of a task: released with all others, later than those, and at random.
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

/// The one whose job responds later; the first of equals.
fn longer(one: Option<Hit>, other: Option<Hit>) -> Option<Hit> {
    let response = |it: &Option<Hit>| it.as_ref().map(|it| it.0.response_us());
    if response(&other) > response(&one) { other } else { one }
}

/// The offsets of a task at which its deadline meets that of another job (Spuri 1996), or, under fixed priorities, its release
/// meets another release. Its jobs follow each other, so that offsets within its period tell them all.
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
    /// As JSON: a `miss` or the `busiest` window.
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
