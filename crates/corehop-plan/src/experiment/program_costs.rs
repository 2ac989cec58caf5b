// SPDX-License-Identifier: MIT OR Apache-2.0
//! The experiment that measures the costs of preemptions and migrations in a given program by causing such events.
//!
//! The working set of a program is unknown, and most guests lack hardware counters. Therefore corehop causes the
//! events: in some blocks of the program's own time it moves or preempts the threads at one rate, in other blocks at
//! another rate or not at all, in random order. The extra CPU time that equal progress needs in blocks with events,
//! divided by the number of events, is the cost of one event. The cost holds for this program, on this machine, beside
//! its present load. Coz uses this method for lines of code (Curtsinger and Berger, SOSP 2015). A round has two blocks
//! without events for each class; the difference between these two blocks has no cause.
//!
//! The experiment does not see costs that a program pays without CPU time of its own (for example if it waits for
//! another program that has lost its caches), or costs of events that are more than a block apart. A migration's cost
//! depends on how long the thread stays away: at twice the rate, the thread returns to caches that had half the time to
//! cool. A cost is therefore always stated with its rate.

use serde::{Deserialize, Serialize};

use super::{DrawStream, Experiment, ExperimentError, RunPosition, SamplingUnit};
use crate::kinds::program_costs::NAME;
use crate::kinds::{InterventionBlock, Interventions, Kind, Plan};
use crate::platform::Platform;
use crate::units::Nanos;
use crate::workload::Event;

/// The experiment that causes events at several rates, in rounds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProgramCosts {
    /// The program and the events, without blocks. An empty list of events stands for all classes of the machine.
    pub plan: Interventions,
    /// The number of rounds of the experiment.
    pub rounds: u32,
}

impl ProgramCosts {
    /// The doses of each class in a round, as multiples of the lowest rate. A round has two blocks without events; the
    /// difference between these two blocks is the noise floor of the costs.
    pub const DOSES: [u32; 5] = [0, 0, 1, 2, 4];

    /// Returns the plan without blocks, with the named classes of events or else with all classes of the machine.
    fn interventions(&self, platform: &Platform) -> Interventions {
        let mut plan = self.plan.clone();
        if plan.events.is_empty() {
            plan.events = Event::on(platform);
        }
        plan
    }

    fn round(seed: u64, round: u32, classes: usize) -> Vec<InterventionBlock> {
        let of = |class| Self::DOSES.map(|dose| InterventionBlock { round, class, dose });
        let mut blocks: Vec<InterventionBlock> = (0..classes).flat_map(of).collect();
        DrawStream::new(seed, u64::from(round)).shuffle(&mut blocks);
        blocks
    }
}

impl Experiment for ProgramCosts {
    fn name(&self) -> &'static str {
        NAME
    }

    /// The plan has one replicate because the rounds of a program alternate within one plan.
    fn replicates(&self) -> Option<u32> {
        Some(1)
    }

    fn units(&self, platform: &Platform, _: u64) -> Result<Vec<SamplingUnit>, ExperimentError> {
        let plan = self.interventions(platform);
        plan.check(platform)?;
        let asked = self.rounds.saturating_mul(Self::DOSES.len() as u32);
        let unit = |unit: SamplingUnit| SamplingUnit { asked, ..unit };
        Ok(Kind::units(&plan).into_iter().map(unit).collect())
    }

    fn block(
        &self,
        platform: &Platform,
        seed: u64,
        _: RunPosition,
        quota: &[u32],
    ) -> Result<Plan, ExperimentError> {
        let mut plan = self.interventions(platform);
        let asked = quota.iter().copied().max().unwrap_or(0) / Self::DOSES.len() as u32;
        let classes = plan.classes().len();
        let rounds = (0..asked).flat_map(|round| Self::round(seed, round, classes));
        plan.blocks = rounds.collect();
        plan.check(platform)?;
        Ok(Plan::new(NAME, seed, plan))
    }

    fn projected(&self, platform: &Platform, seed: u64) -> Result<Nanos, ExperimentError> {
        Ok(SamplingUnit::projected(&Experiment::units(self, platform, seed)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::{Argument, InterventionClass, Target};
    use crate::units::Bytes;
    use crate::workload::{Pattern, Polluter};

    fn preemptor(kib: u64) -> Polluter {
        Polluter { wss: Bytes::from_kib(kib), pattern: Pattern::Shuffled, write_ratio: 0.5 }
    }

    fn experiment(progress: Option<&str>) -> ProgramCosts {
        let words = ["redis-server"].map(|it| Argument::new(it.as_bytes().to_vec()));
        let plan = Interventions {
            target: Target::Command(words.to_vec()),
            progress: progress.map(str::to_owned),
            block: Nanos::from_millis(100),
            share: 0.05,
            lengths: vec![Nanos::from_millis(1)],
            preemptors: vec![preemptor(512)],
            events: vec![Event::Preemption, Event::L3Migration],
            blocks: Vec::new(),
        };
        ProgramCosts { plan, rounds: 30 }
    }

    fn platform() -> Platform {
        Platform::named("xeon_e5520").unwrap().unwrap()
    }

    #[test]
    fn a_round_has_each_dose_of_each_class_and_none_of_it_twice_in_random_order() {
        let plan = experiment(Some("count")).plan(&platform(), 3).unwrap();
        assert_eq!(Plan::from_json(&plan.to_json()), Ok(plan.clone()));
        let body = plan.program_costs().unwrap();
        assert_eq!(body.blocks.len(), 300);
        for (round, blocks) in body.blocks.chunks(10).enumerate() {
            let mut of: Vec<(usize, u32)> = blocks.iter().map(|it| (it.class, it.dose)).collect();
            of.sort_unstable();
            let doses = ProgramCosts::DOSES.map(|dose| [(0, dose), (1, dose)]);
            let mut expected = doses.concat();
            expected.sort_unstable();
            assert_eq!(of, expected);
            assert!(blocks.iter().all(|it| it.round == round as u32));
        }
        let first = |dose| body.blocks.chunks(10).filter(|it| it[0].dose == dose).count();
        assert!(
            [0, 1, 2, 4].iter().all(|&dose| (1..30).contains(&first(dose))),
            "each comes first at times"
        );
        let again = experiment(Some("count")).plan(&platform(), 4).unwrap();
        assert_ne!(again.program_costs().unwrap().blocks, body.blocks);
    }

    #[test]
    fn all_classes_of_the_machine_are_caused_where_none_is_named() {
        let mut all = experiment(Some("count"));
        all.plan.events.clear();
        let plan = all.plan(&platform(), 1).unwrap();
        assert_eq!(plan.program_costs().unwrap().events, Event::on(&platform()));
    }

    #[test]
    fn each_length_and_preemptor_of_preemptions_and_each_length_of_idle_leaves_is_a_class() {
        let mut several = experiment(Some("count"));
        several.plan.lengths.push(Nanos::from_micros(100));
        several.plan.preemptors.push(preemptor(64));
        several.plan.events.push(Event::IdleLeave);
        let plan = several.plan(&platform(), 1).unwrap();
        let body = plan.program_costs().unwrap();
        let name = |of: &InterventionClass| {
            let wss = of.preemptor.as_ref().map(|it| it.wss.get() >> 10);
            (of.event.word(), of.length.map(|it| it.get() / 1000), wss)
        };
        let names: Vec<_> = body.classes().iter().map(name).collect();
        let preempted = |us, kib| ("preemption", Some(us), Some(kib));
        let expected = [
            preempted(1000, 512),
            preempted(1000, 64),
            preempted(100, 512),
            preempted(100, 64),
            ("l3_migration", None, None),
            ("idle_leave", Some(1000), None),
            ("idle_leave", Some(100), None),
        ];
        assert_eq!(names, expected);
        let of = |class| body.blocks.iter().filter(|it| it.class == class).count();
        assert!((0..names.len()).all(|class| of(class) == 150));
    }

    #[test]
    fn plans_that_make_no_sense_are_refused_with_the_remedy() {
        let says = |change: fn(&mut Interventions)| {
            let mut it = experiment(Some("count"));
            change(&mut it.plan);
            it.plan(&platform(), 1).unwrap_err().to_string()
        };
        for (change, part) in [
            ((|it| it.events = vec![Event::Flush]) as fn(&mut Interventions), "cannot cause flush"),
            (|it| it.events = vec![Event::Preemption; 2], "each class once"),
            (|it| it.block = Nanos::from_millis(1), "a block of 1 ms"),
            (|it| it.lengths.push(Nanos::from_secs(1)), "a preemption of 1 s"),
            (|it| it.lengths.push(Nanos::from_millis(1)), "each length once"),
            (|it| it.lengths.clear(), "name at least one length"),
            (|it| it.preemptors.clear(), "name at least one size"),
            (|it| it.preemptors.push(preemptor(512)), "each size once"),
            (|it| it.share = 0.0, "a share of 0 %"),
            (|it| it.share = f64::NAN, "a share of NaN %"),
            (|it| it.share = 0.6, "at most 50 %"),
            (
                |it| (it.target, it.progress) = (Target::Process(7), None),
                "process 7 cannot run repeatedly",
            ),
        ] {
            let said = says(change);
            assert!(said.contains(part), "{said}");
        }
        let mut plan = experiment(None).plan(&platform(), 1).unwrap();
        if let crate::kinds::Body::ProgramCosts(body) = &mut plan.body {
            body.blocks[0].class = 2;
        }
        let said = plan.check(&platform()).unwrap_err().to_string();
        assert!(said.contains("class 2, but the plan has 2"), "{said}");
    }
}
