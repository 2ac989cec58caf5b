// SPDX-License-Identifier: MIT OR Apache-2.0
//! The experiment of the synthetic method (Bastoni, Brandenburg and Anderson, OSPERT 2010, section 3.2).
//!
//! A job touches its working set cold and warm, then leaves its CPU or loses its lines, resumes, and touches the set
//! again. Every job of the experiment yields a sample. The synthetic method cannot show what a scheduler would have
//! done, or whether delays depend on the size of the task set; the schedule-sensitive method can.

use serde::{Deserialize, Serialize};

use super::{DrawStream, Experiment, ExperimentError, RunPosition, SamplingUnit};
use crate::kinds::{Absent, Cell, Job, JobRows, Jobs, Length, Phase, Plan, Step};
use crate::platform::{Affinity, Platform, UnknownCpu};
use crate::units::{Bytes, Cpu, CpuList, Nanos};
use crate::workload::{Absence, Event, LineState, Load, Mover, Polluter, WorkingSet};

/// The parameters of a measurement by the synthetic method.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Synthetic {
    /// The way in which a job moves to another CPU.
    pub mover: Mover,
    /// The walk over memory that the preemptors make.
    pub preemptor: Polluter,
    /// Sizes that replace the size of the preemptor's working set: corehop samples every preemption by a preemptor with
    /// each size.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub preemptor_sizes: Vec<Bytes>,
    /// The number of further passes over a settled working set before its warm touch. The usual number of further
    /// passes is 0. Caches that do not replace by age can continue to change for some passes after touches no longer
    /// become faster.
    #[serde(default, skip_serializing_if = "is_none")]
    pub passes: u32,
    /// The groups of events, sizes and loads that the experiment measures.
    pub groups: Vec<SamplingGroup>,
    /// The CPUs that the experiment can use; empty for all usable CPUs.
    #[serde(default)]
    pub cpus: CpuList,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
const fn is_none(passes: &u32) -> bool {
    *passes == 0
}

/// A group of working sets and events: corehop samples every combination equally often.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SamplingGroup {
    /// The background load of the group.
    pub load: Load,
    /// The working sets of the group.
    pub sets: Vec<WorkingSet>,
    /// The events that the group measures on each working set.
    pub events: Vec<Event>,
    /// The distribution from which the group draws preemption lengths.
    pub length: Length,
    /// The occupant of the CPU during a preemption.
    pub absence: Absence,
    /// The number of samples of each combination.
    pub samples: u32,
}

impl Synthetic {
    /// Returns one cell for each size of the preemptor if a preemptor has the CPU during the absence; otherwise the
    /// cell alone.
    fn by_preemptor(&self, cell: Cell) -> Vec<Cell> {
        if cell.absence != Absence::Preemptor || self.preemptor_sizes.is_empty() {
            return vec![cell];
        }
        let of = |&wss: &Bytes| Cell {
            preemptor: Some(Polluter { wss, ..self.preemptor.clone() }),
            ..cell.clone()
        };
        self.preemptor_sizes.iter().map(of).collect()
    }

    /// Returns the CPUs that the experiment uses: the requested CPUs, all of which must be usable, or else all usable
    /// CPUs.
    fn usable(&self, platform: &Platform) -> Result<CpuList, ExperimentError> {
        let usable = platform.usable();
        if let Some(cpu) = self.cpus.iter().find(|&cpu| !usable.contains(cpu)) {
            return Err(UnknownCpu::on(platform, cpu).into());
        }
        Ok(if self.cpus.is_empty() { usable } else { self.cpus.clone() })
    }
}

impl Synthetic {
    /// Returns the different working sets of all groups, in the order of first mention; groups with equal working sets
    /// share the memory.
    pub fn sets(&self) -> Vec<WorkingSet> {
        let mut sets: Vec<WorkingSet> = Vec::new();
        for set in self.groups.iter().flat_map(|group| &group.sets) {
            if !sets.contains(set) {
                sets.push(set.clone());
            }
        }
        sets
    }

    /// Returns the experiment's cells on `platform`, each with its requested number of samples.
    ///
    /// # Errors
    /// Returns [`ExperimentError`] if the platform cannot provide a working set, an event or a CPU of the experiment.
    pub fn cells(&self, platform: &Platform) -> Result<Vec<(Cell, u32)>, ExperimentError> {
        let cpus = self.usable(platform)?;
        let sets = self.sets();
        let mut cells: Vec<(Cell, u32)> = Vec::new();
        for group in &self.groups {
            for working_set in &group.sets {
                working_set.check()?;
                let set = sets.iter().position(|other| other == working_set).unwrap_or_default();
                for &event in &group.events {
                    require(platform, &cpus, event)?;
                    for cell in self.by_preemptor(group.cell(set, event)) {
                        // Two groups may share a control; once is enough.
                        match cells.iter_mut().find(|(known, _)| *known == cell) {
                            Some((_, samples)) => *samples = group.samples.max(*samples),
                            None => cells.push((cell, group.samples)),
                        }
                    }
                }
            }
        }
        Ok(cells)
    }

    /// Returns the jobs of a block; see [`Experiment::block`].
    ///
    /// # Errors
    /// Returns [`ExperimentError`], as [`Synthetic::cells`] does.
    pub(super) fn jobs(
        &self,
        platform: &Platform,
        seed: u64,
        turn: RunPosition,
        quota: &[u32],
    ) -> Result<Jobs, ExperimentError> {
        let cpus = self.usable(platform)?;
        let cells: Vec<Cell> = self.cells(platform)?.into_iter().map(|(cell, _)| cell).collect();
        let jobs: u64 = quota.iter().map(|&samples| u64::from(samples)).sum();
        if jobs > Jobs::MOST_JOBS {
            return Err(ExperimentError::TooLarge { jobs });
        }
        let routes = Routes::new(platform, &cpus, seed, turn.replicate);
        let mut draw = DrawStream::new(seed, 1 + turn.block);
        let phases = phases(&cells, quota, turn, &mut draw, |cell, here, draw| {
            let cell_of = &cells[cell];
            let (start, to) = routes.of(cell_of.event, here, draw);
            Job { cell, start, steps: script(cell_of, self.passes, to, draw) }
        });
        let (preemptor, sets) = (Some(self.preemptor.clone()), self.sets());
        Ok(Jobs { rows: JobRows::Samples, mover: self.mover, preemptor, sets, cells, phases })
    }
}

impl Experiment for Synthetic {
    fn name(&self) -> &'static str {
        "synthetic"
    }

    fn units(&self, platform: &Platform, _: u64) -> Result<Vec<SamplingUnit>, ExperimentError> {
        Ok(SamplingUnit::of_cells(&self.cells(platform)?, &self.sets()))
    }

    fn block(
        &self,
        platform: &Platform,
        seed: u64,
        turn: RunPosition,
        quota: &[u32],
    ) -> Result<Plan, ExperimentError> {
        Ok(Plan::new(self.name(), seed, self.jobs(platform, seed, turn, quota)?))
    }
}

impl SamplingGroup {
    fn cell(&self, set: usize, event: Event) -> Cell {
        let absence = match event {
            Event::Preemption => self.absence,
            Event::None | Event::Flush | Event::IdleLeave => Absence::Nothing,
            _ if self.load == Load::Idle => Absence::Nothing,
            _ => Absence::Load,
        };
        let away = event == Event::IdleLeave || event == Event::Preemption || event.is_migration();
        let length = if away { self.length } else { Length::ZERO };
        let load = self.load.clone();
        Cell { load, set, event, length, absence, preemptor: None, state: LineState::Invalid }
    }
}

/// Returns phases with the jobs of every cell in random order; `job` makes a job from the index of its cell and the CPU
/// on which the previous job ended.
pub(super) fn phases(
    cells: &[Cell],
    quota: &[u32],
    turn: RunPosition,
    draw: &mut DrawStream,
    mut job: impl FnMut(usize, Option<Cpu>, &mut DrawStream) -> Job,
) -> Vec<Phase> {
    let mut loads: Vec<Load> = Vec::new();
    for cell in cells {
        if !loads.contains(&cell.load) {
            loads.push(cell.load.clone());
        }
    }
    // Loads take turns, so that none always runs first.
    if let Some(replicate) = turn.replicate {
        let first = replicate as usize % loads.len().max(1);
        loads.rotate_left(first);
    }
    let mut here = None;
    let mut phase = |load: Load| {
        let of_load =
            cells.iter().zip(quota).enumerate().filter(|(_, (cell, _))| cell.load == load);
        let mut order: Vec<usize> = of_load
            .flat_map(|(index, (_, &samples))| std::iter::repeat_n(index, samples as usize))
            .collect();
        draw.shuffle(&mut order);
        let jobs: Vec<Job> = order
            .into_iter()
            .map(|cell| {
                let job = job(cell, here, draw);
                here = Some(job.ends_on());
                job
            })
            .collect();
        Phase { replicate: turn.replicate, condition: None, load, jobs }
    };
    let phases: Vec<Phase> = loads.into_iter().map(&mut phase).collect();
    phases.into_iter().filter(|phase| !phase.jobs.is_empty()).collect()
}

impl Job {
    /// Returns the CPU on which the job ends.
    pub fn ends_on(&self) -> Cpu {
        let leaves = self.steps.iter().rev();
        leaves
            .into_iter()
            .find_map(|step| if let Step::Leave(away) = step { Some(away.to) } else { None })
            .unwrap_or(self.start)
    }
}

/// Returns the affinity between the two CPUs of a migration of this class, or `None` if the event is no migration.
pub(super) const fn affinity_of(event: Event) -> Option<Affinity> {
    match event {
        Event::SmtMigration => Some(Affinity::Smt),
        Event::L2Migration => Some(Affinity::L2),
        Event::L3Migration => Some(Affinity::L3),
        Event::MemoryMigration => Some(Affinity::Memory),
        _ => None,
    }
}

/// Returns the class of a migration between two CPUs of this affinity.
pub(super) const fn migration_of(affinity: Affinity) -> Event {
    match affinity {
        Affinity::SameCpu => Event::Preemption,
        Affinity::Smt => Event::SmtMigration,
        Affinity::L2 => Event::L2Migration,
        Affinity::L3 => Event::L3Migration,
        Affinity::Memory => Event::MemoryMigration,
    }
}

/// Returns the ordered pairs of distinct CPUs of this affinity.
pub(super) fn pairs(platform: &Platform, cpus: &CpuList, affinity: Affinity) -> Vec<(Cpu, Cpu)> {
    let all = cpus.iter().flat_map(|from| cpus.iter().map(move |to| (from, to)));
    all.filter(|&(from, to)| from != to && platform.affinity(from, to) == affinity).collect()
}

fn require(platform: &Platform, cpus: &CpuList, event: Event) -> Result<(), ExperimentError> {
    let Some(affinity) = affinity_of(event) else { return Ok(()) };
    if pairs(platform, cpus, affinity).is_empty() {
        let why = format!("no two of the usable CPUs ({cpus}) have this distance");
        return Err(ExperimentError::NotMeasurable { event, platform: platform.name.clone(), why });
    }
    Ok(())
}

/// The base number of the random streams from which replicates draw their pairs of CPUs, far from the streams of the
/// blocks.
const PAIRS: u64 = 1 << 40;

/// The pairs of CPUs between which jobs migrate.
struct Routes {
    first: Cpu,
    /// The ordered pairs of CPUs for each class of migration: all pairs, or the pair that the replicate drew, in both
    /// directions.
    pairs: Vec<(Event, Vec<(Cpu, Cpu)>)>,
}

impl Routes {
    /// Returns all pairs of every class; for a replicate, one pair of each class, drawn anew for each replicate.
    fn new(platform: &Platform, cpus: &CpuList, seed: u64, replicate: Option<u32>) -> Self {
        let mut draw = replicate.map(|number| DrawStream::new(seed, PAIRS + u64::from(number)));
        let migrations = Event::ALL.iter().filter_map(|&event| Some((event, affinity_of(event)?)));
        let of_class = |(event, affinity)| {
            let mut all = pairs(platform, cpus, affinity);
            if let Some(draw) = draw.as_mut().filter(|_| !all.is_empty()) {
                let (from, to) = *draw.from(&all);
                all = vec![(from, to), (to, from)];
            }
            (event, all)
        };
        Self {
            first: cpus.first().unwrap_or_default(),
            pairs: migrations.map(of_class).filter(|(_, pairs)| !pairs.is_empty()).collect(),
        }
    }

    /// Returns the CPUs on which a job of this event starts and resumes, if the previous job ended `here`.
    ///
    /// The cell fixes the class, then a pair of that class is drawn, because drawing only a CPU would starve classes to
    /// which few CPUs belong. If the previous job ended on a CPU that has a partner of the class, the job starts there,
    /// as the single task of the method does.
    fn of(&self, event: Event, here: Option<Cpu>, draw: &mut DrawStream) -> (Cpu, Cpu) {
        let start = here.unwrap_or(self.first);
        let Some((_, pairs)) = self.pairs.iter().find(|(of, _)| *of == event) else {
            return (start, start);
        };
        let from_here: Vec<(Cpu, Cpu)> =
            pairs.iter().copied().filter(|&(from, _)| from == start).collect();
        *draw.from(if from_here.is_empty() { pairs } else { &from_here })
    }
}

/// Returns the steps of a job: touch cold, settle, touch warm, event, touch resumed.
///
/// A single pass does not settle a working set in caches that do not replace strictly by age. The untimed passes
/// between the cold and the warm touch settle the working set; without these passes, the warm touch would cost more
/// than an undisturbed resumed touch.
fn script(cell: &Cell, passes: u32, to: Cpu, draw: &mut DrawStream) -> Vec<Step> {
    let settle = Step::Prepare(LineState::Valid);
    let mut steps = vec![Step::Prepare(cell.state), Step::Touch, settle];
    steps.extend((passes > 0).then_some(Step::Passes(passes)));
    steps.push(Step::Touch);
    match cell.event {
        Event::None => {}
        Event::Flush => steps.push(Step::Prepare(LineState::Invalid)),
        _ => steps.push(Step::Leave(Absent {
            to,
            length: cell.length.draw(draw),
            to_whom: cell.absence,
        })),
    }
    steps.push(Step::Touch);
    steps
}

impl Length {
    /// Draws one preemption length from the distribution.
    pub fn draw(self, draw: &mut DrawStream) -> Nanos {
        match self {
            Self::Fixed(time) => time,
            Self::Uniform(low, high) => draw.time(low, high),
            Self::Mean25 => draw.time(Nanos::new(0), Nanos::from_millis(50)),
        }
    }
}
