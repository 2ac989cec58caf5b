// SPDX-License-Identifier: MIT OR Apache-2.0
//! The simulated machine, which runs plans through the same interface as the live machine.

use serde_json::{Map, Value, json};

use corehop_plan::experiment::{Body, Kind, Plan};
use corehop_plan::machine::{Machine, MachineError, RunEnd, Sink};
use corehop_plan::platform::Platform;

use super::chunk::Sum;
use super::partitioning::Partitioning;
use super::recipe::{Recipe, Sampling, no_programs};
use super::times::Picos;
use super::{gang, jobs, switch, tasks};

/// A machine in software, as its platform file describes it.
#[derive(Debug)]
pub struct SimMachine {
    recipe: Recipe,
    sum: Sum,
    /// Whether a plan had large working sets, for which only some of the cache sets were simulated.
    large_sampled: bool,
}

impl SimMachine {
    /// Creates a machine that simulates `platform`.
    ///
    /// # Errors
    /// Returns [`MachineError::NotPossible`], which names the fact that the platform file lacks or that cannot be
    /// simulated.
    pub fn new(platform: Platform) -> Result<Self, MachineError> {
        Self::partitioned(platform, Partitioning::default())
    }

    /// Creates a machine that simulates `platform` with partitioned memory and caches.
    ///
    /// # Errors
    /// Returns the errors of [`SimMachine::new`], and an error if the platform does not support the partitioning.
    pub fn partitioned(
        platform: Platform,
        partitioning: Partitioning,
    ) -> Result<Self, MachineError> {
        Ok(Self {
            recipe: Recipe::new(platform, partitioning)?,
            sum: Sum::default(),
            large_sampled: false,
        })
    }

    /// Returns this machine with [`Sampling::Most`].
    #[must_use]
    pub fn sampled(self) -> Self {
        self.sampling(Sampling::Most)
    }

    /// Returns this machine with the sampling rule `sampling`, which selects the working sets for which only some
    /// sets of each cache are simulated.
    #[must_use]
    pub fn sampling(self, sampling: Sampling) -> Self {
        Self { recipe: Recipe { sampling, ..self.recipe }, ..self }
    }

    /// Returns this machine with slower polluters, which spend `pause` on each line in addition to the access.
    #[must_use]
    pub fn pausing(self, pause: Picos) -> Self {
        Self { recipe: Recipe { pause, ..self.recipe }, ..self }
    }
}

/// The error for a kind of plan that declares that only the live machine runs the plan.
fn only_live<K: Kind>(_: &K) -> MachineError {
    MachineError::NotPossible {
        what: const { K::ONLY_LIVE.expect("the kind itself says so") }.to_owned(),
        why: "a simulated machine has no kernel and runs no programs".to_owned(),
        remedy: "use --on live".to_owned(),
    }
}

impl Machine for SimMachine {
    fn platform(&self) -> &Platform {
        &self.recipe.platform
    }

    fn run(&mut self, plan: &Plan, sink: &mut dyn Sink) -> Result<RunEnd, MachineError> {
        self.recipe.stop = sink.stop();
        let (recipe, seed, sum) = (&self.recipe, plan.seed, &mut self.sum);
        plan.check(&recipe.platform)?;
        let sets = plan.body.working_sets();
        no_programs(&sets)?;
        self.large_sampled |= sets.iter().any(|set| recipe.is_sampled(set));
        match &plan.body {
            Body::Jobs(jobs) => jobs::run(recipe, jobs, seed, sink, sum),
            Body::Tasks(tasks) => tasks::run(recipe, tasks, seed, sink, sum),
            Body::Gangs(gangs) => gang::run(recipe, gangs, seed, sink),
            Body::Switches(switches) => switch::run(recipe, switches, seed, sink),
            Body::Program(program) => Err(only_live(program)),
            Body::Overheads(overheads) => Err(only_live(overheads)),
            Body::Supply(watch) => Err(only_live(watch)),
            Body::ProgramCosts(costs) => Err(only_live(costs)),
        }
    }

    fn provenance(&self) -> Map<String, Value> {
        let mut map = Map::from_iter([
            ("kind".to_owned(), json!("simulated")),
            ("jobs".to_owned(), json!(self.sum.jobs)),
        ]);
        if self.recipe.sampling == Sampling::Most {
            map.insert("sampled_sets".to_owned(), json!(true));
        } else if self.large_sampled {
            map.insert("large_sampled".to_owned(), json!(true));
        }
        if !self.recipe.partitioning.is_usual() {
            map.insert("arrangement".to_owned(), json!(self.recipe.partitioning));
        }
        if !self.recipe.platform.tlbs.is_empty() && self.sum.picos > 0 {
            let Sum { picos, walks, finding, .. } = self.sum;
            let share = finding as f64 / picos.max(1) as f64;
            map.insert("translation".to_owned(), json!({ "walks": walks, "share": share }));
        }
        map
    }
}
