// SPDX-License-Identifier: MIT OR Apache-2.0
//! A host that moves its virtual CPUs, simulated: the guest is told of two CPUs below one cache, and they
//! are so for some batches and apart for others. Every sample's true class is known.

use corehop_plan::experiment::{
    Cell, DrawStream, Experiment, Job, Jobs, Plan, RunPosition, Synthetic,
};
use corehop_plan::machine::{Machine, MachineError, Records, RunEnd, Sink, rows_of};
use corehop_plan::platform::Platform;
use corehop_plan::samples::example::guest;
use corehop_plan::samples::{Batch, BatchExchange, Cause, Sample};
use corehop_plan::units::{Cpu, Nanos};
use corehop_plan::workload::Event;
use corehop_sim::SimMachine;
use corehop_stats::classes::{ClassExchanges, Classes, as_declared};
use corehop_stats::estimator::Estimator;
use corehop_stats::summary::{CellSummary, summarize};
use serde_json::{Map, Value};

/// The host behind it: two packages, of which the guest's second CPU is now in one, now in the other.
struct Restless {
    declared: Platform,
    host: SimMachine,
    draw: DrawStream,
    far: bool,
    /// A batch in so many sees the host move.
    moves: u64,
    now_ns: u64,
    /// For each job whether its batch was far; None where the host moved meanwhile.
    truth: Vec<Option<bool>>,
}

/// The jobs of a batch, about 100 ms.
const BATCH: usize = 8;
/// Of a host that moves every second or two.
const MOVES: u64 = 15;

impl Restless {
    fn new(seed: u64, moves: u64) -> Self {
        let host = SimMachine::new(corehop_fixtures::x5650()).unwrap();
        let declared = guest();
        let draw = DrawStream::new(seed, 77);
        Self { declared, host, draw, far: false, moves, now_ns: 0, truth: Vec::new() }
    }

    /// The CPU of the host that a CPU of the guest is on: the second package of the X5650 begins at CPU 6.
    fn place(&self, cpu: Cpu) -> Cpu {
        if cpu == Cpu(1) && self.far { Cpu(6) } else { cpu }
    }

    /// Some jobs as the host runs them.
    fn on_host(&self, plan: &Jobs, phase: usize, jobs: &[Job]) -> Jobs {
        let cell = |cell: &Cell| {
            let event = match cell.event {
                Event::L3Migration if self.far => Event::MemoryMigration,
                event => event,
            };
            Cell { event, ..cell.clone() }
        };
        let moved = |job: &Job| {
            let mut job = job.clone();
            job.start = self.place(job.start);
            for step in &mut job.steps {
                if let corehop_plan::experiment::Step::Leave(away) = step {
                    away.to = self.place(away.to);
                }
            }
            job
        };
        let mut on_host = plan.clone();
        on_host.cells = plan.cells.iter().map(cell).collect();
        on_host.phases = vec![plan.phases[phase].clone()];
        on_host.phases[0].jobs = jobs.iter().map(moved).collect();
        on_host
    }

    /// An exchange: near 27 to 55 ns, far 190 to 225, as seen on a guest; one in fifty takes longer.
    fn exchange(&mut self) -> f64 {
        let disturbed = if self.draw.below(50) == 0 { 1.3 } else { 1.0 };
        let within = self.draw.below(1_000) as f64 / 1_000.0;
        disturbed * if self.far { 190.0 + 35.0 * within } else { 27.0 + 28.0 * within }
    }
}

impl Machine for Restless {
    fn platform(&self) -> &Platform {
        &self.declared
    }

    fn run(&mut self, plan: &Plan, sink: &mut dyn Sink) -> Result<RunEnd, MachineError> {
        plan.check(&self.declared)?;
        let (name, seed, plan) = (&plan.experiment, plan.seed, plan.jobs().unwrap());
        for phase in 0..plan.phases.len() {
            let mut before_ns = self.exchange();
            for (batch, jobs) in plan.phases[phase].jobs.chunks(BATCH).enumerate() {
                let mut kept = Records::default();
                let on_host = Plan::new(name, seed, self.on_host(plan, phase, jobs));
                self.host.run(&on_host, &mut kept)?;
                let mut kept = kept.jobs;
                let was = self.far;
                self.far ^= self.draw.below(self.moves) == 0;
                let after_ns = self.exchange();
                for (record, job) in kept.iter_mut().zip(jobs) {
                    record.phase = phase;
                    record.job += batch * BATCH;
                    record.start_ns = self.now_ns;
                    record.exchange = Some(BatchExchange {
                        from: job.start,
                        with: Cpu(1 - job.start.0),
                        before_ns: Some(before_ns),
                        after_ns: Some(after_ns),
                    });
                    self.truth.push((was == self.far).then_some(was));
                }
                // On the guest a CPU has its guest's number again.
                for record in &mut kept {
                    let back = |cpu: &mut Cpu| cpu.0 = u32::from(cpu.0 != 0);
                    record.touches.iter_mut().for_each(|touch| back(&mut touch.cpu));
                    record.touches.iter_mut().for_each(|touch| back(&mut touch.ended_on));
                }
                self.now_ns += 100_000_000;
                before_ns = after_ns;
                sink.take(Batch::Jobs(&kept)).map_err(MachineError::Sink)?;
            }
        }
        Ok(RunEnd::Complete)
    }

    fn provenance(&self) -> Map<String, Value> {
        Map::new()
    }
}

fn experiment(samples: u32) -> Synthetic {
    let events = [Event::None, Event::L3Migration];
    corehop_fixtures::idle(32, &events, Nanos::from_micros(20), samples, "")
}

/// A run of twenty replicates: its samples with their classes, and the true ones.
fn run(seed: u64, moves: u64) -> (Vec<Sample>, Classes, Vec<Option<bool>>) {
    let mut guest = Restless::new(seed, moves);
    let mut samples: Vec<Sample> = Vec::new();
    for replicate in 0..20 {
        let turn = RunPosition { block: u64::from(replicate), replicate: Some(replicate) };
        let plan = experiment(0).block(&guest.declared, seed, turn, &[40, 40]).unwrap();
        samples.extend(rows_of(&mut guest, &plan).unwrap().samples);
    }
    let mut exchanges = ClassExchanges::default();
    for sample in &samples {
        exchanges.take(&guest.declared, sample);
    }
    let classes = exchanges.finish();
    for sample in &mut samples {
        classes.assign(&guest.declared, sample);
    }
    (samples, classes, guest.truth)
}

fn migrations(samples: &[Sample]) -> Vec<CellSummary> {
    let all = summarize(samples, Estimator::Difference);
    all.into_iter().filter(|it| it.cell.event.is_migration()).collect()
}

#[test]
fn ninety_nine_in_a_hundred_migrations_get_their_true_class() {
    for seed in 1..=3 {
        let (samples, classes, truth) = run(seed, MOVES);
        assert_eq!(samples.len(), truth.len());
        assert!(classes.several(), "{classes:?}");
        let (mut right, mut all) = (0, 0);
        for (sample, truth) in samples.iter().zip(&truth) {
            assert_eq!(sample.valid, sample.disturbed_by.is_empty());
            if sample.declared_event != Some(Event::L3Migration) {
                continue;
            }
            all += 1;
            right += u32::from(match truth {
                Some(true) => sample.valid && sample.event == Event::MemoryMigration,
                Some(false) => sample.valid && sample.event == Event::L3Migration,
                None => !sample.valid,
            });
        }
        assert!(f64::from(right) >= 0.99 * f64::from(all), "seed {seed}: {right} of {all}");
    }
}

#[test]
fn the_cost_of_a_class_is_that_of_the_host_in_that_class_and_pooled_classes_are_neither() {
    let (samples, ..) = run(4, MOVES);
    let cells = migrations(&samples);
    let median = |event: Event| {
        let cell = cells.iter().find(|it| it.cell.event == event).unwrap();
        *cell.delay.as_ref().unwrap().median()
    };
    let (near, far) = (median(Event::L3Migration), median(Event::MemoryMigration));
    assert!(far.estimate > 1.2 * near.estimate, "{near:?} {far:?}");
    assert!(near.interval().unwrap().high < far.interval().unwrap().low, "{near:?} {far:?}");
    // The planted defect: what topology says, for all of them.
    let mut pooled = samples.clone();
    pooled.iter_mut().for_each(as_declared);
    let [one] = migrations(&pooled).try_into().unwrap();
    let spread = one.delay.unwrap().spread;
    let of_near = cells.iter().find(|it| it.cell.event == Event::L3Migration).unwrap();
    let own = of_near.delay.as_ref().unwrap().spread;
    assert!(spread.high - spread.low > 3.0 * (own.high - own.low), "{spread:?} {own:?}");
}

#[test]
fn a_host_that_moves_within_every_batch_gives_no_valid_migration_and_says_why() {
    let (samples, classes, truth) = run(5, 1);
    assert!(classes.several() && truth.iter().all(Option::is_none));
    let changed = |it: &Sample| !it.valid && it.disturbed_by == [Cause::ClassChanged];
    let moved = samples.iter().filter(|it| it.declared_event == Some(Event::L3Migration));
    let (all, changed) =
        moved.fold((0, 0), |(all, sum), it| (all + 1, sum + u32::from(changed(it))));
    // An exchange that is disturbed may be of no level; the other one then decides.
    assert!(f64::from(changed) > 0.9 * f64::from(all), "{changed} of {all}");
}
