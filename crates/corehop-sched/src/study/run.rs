// SPDX-License-Identifier: MIT OR Apache-2.0
//! Draws the sets of a study, tests every scheduler, and counts.
//!
//! Readings that differ only in a scheduler share their sets, and a shared scheduler is tested once. Counts are whole
//! numbers: neither the order of the sets nor the number of threads can change them.

use super::bins::Bins;
use super::breakdown::breakdown;
use super::counts::{ReadingCounts, StudyCounts};
use super::family::{Family, families};
use super::fast_path::{FamilyNeeds, PackingRule};
use super::shard::{Shard, Shards};
use super::tally::SetMoments;
use super::verdicts::PolicyQuery;
use super::{Measure, SchedulabilityStudy, SchedulerTest, StudyReading};
use corehop_plan::parallel::summed;
use corehop_plan::workload::generate::fixed_sum::NoSuchSum;
use corehop_plan::workload::task::Time;

/// Receives the progress of a study.
pub trait Progress: Sync {
    /// Reports that `sets` more sets are done; returns whether to continue.
    fn advance(&self, sets: u64) -> bool;
}

/// Ignores the progress and always continues.
impl Progress for () {
    fn advance(&self, _: u64) -> bool {
        true
    }
}

/// The number of sets that a thread takes at once.
const AT_ONCE: usize = 64;

/// The reason why a study was not completed.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum StudyRunError {
    /// The generator found no set with a requested sum.
    #[error(transparent)]
    NoSet(#[from] NoSuchSum),
    /// The progress receiver stopped the study.
    #[error("interrupted")]
    Interrupted,
    /// The threads could not be started.
    #[error("corehop cannot start the threads of the study: {0}")]
    Threads(String),
}

/// Runs a part of a study on `threads` threads (one per CPU if not given).
///
/// # Errors
/// Returns [`StudyRunError`]; in that case there are no counts.
pub fn run(
    study: &SchedulabilityStudy,
    shard: Shard,
    threads: Option<usize>,
    progress: &dyn Progress,
) -> Result<StudyCounts, StudyRunError> {
    run_by(study, shard, threads, progress, VerdictMethod::Quick)
}

/// The way in which verdicts are computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum VerdictMethod {
    /// Verdicts come from the fastest method available.
    Quick,
    /// Verdicts come from the test itself, for each set separately.
    #[cfg_attr(not(test), expect(dead_code, reason = "the obvious twin of the other"))]
    Obvious,
}

pub(super) fn run_by(
    study: &SchedulabilityStudy,
    shard: Shard,
    threads: Option<usize>,
    progress: &dyn Progress,
    manner: VerdictMethod,
) -> Result<StudyCounts, StudyRunError> {
    let groups = groups(study, manner);
    let indices: Vec<u64> = shard.indices(study.sets).collect();
    let chunk = |indices: &[u64]| {
        let mut sums: Vec<GroupSums> = groups.iter().map(GroupSums::new).collect();
        let mut scratch = Scratch::default();
        for &index in indices {
            for (group, sums) in groups.iter().zip(&mut sums) {
                group.count(study.seed, index, &mut scratch, sums)?;
            }
        }
        if progress.advance(indices.len() as u64) {
            Ok(sums)
        } else {
            Err(StudyRunError::Interrupted)
        }
    };
    let nothing = || groups.iter().map(GroupSums::new).collect();
    let add = |mut a: Vec<GroupSums>, b: Vec<GroupSums>| {
        a.iter_mut().zip(&b).for_each(|(a, b)| a.merge(b));
        a
    };
    let sums = summed((&indices, AT_ONCE), threads, nothing, chunk, add, StudyRunError::Threads)?;
    let readings = study.readings.iter().enumerate().map(|(at, reading)| {
        let (group, sums) = groups
            .iter()
            .zip(&sums)
            .find(|(group, _)| group.readings.contains(&at))
            .unwrap_or((&groups[0], &sums[0]));
        group.counts(reading, sums, indices.len() as u64)
    });
    let readings = readings.collect();
    Ok(StudyCounts { study: study.clone(), shards: Shards::one(shard), readings })
}

/// Readings that share their sets, with all scheduler queries about these sets.
struct ReadingGroup<'a> {
    /// The indexes of the readings.
    readings: Vec<usize>,
    /// One reading of the group, which stands for all of them.
    reading: &'a StudyReading,
    /// The queries by rising delay.
    requests: Vec<SchedulerQuery>,
    /// The pairs of queries whose weights are compared, as indexes.
    pairs: Vec<(usize, usize)>,
    /// The number of queries that are counted by cap.
    by_cap: usize,
    /// The queries that are answered together.
    swept: Vec<Swept>,
}

/// Queries about one scheduler with one queue, by rising delay.
struct Swept {
    rule: PackingRule,
    requests: Vec<usize>,
    delays: Vec<Time>,
}

/// One scheduler at one delay.
#[derive(Debug, Clone, Copy)]
struct SchedulerQuery {
    policy: SchedulerTest,
    delay: Time,
    way: Option<PolicyQuery>,
    /// The index of the query's counts by cap, if these are needed.
    by_cap: Option<usize>,
}

impl SchedulerQuery {
    /// Whether the query is answered together with others.
    fn is_swept(&self) -> bool {
        self.by_cap.is_none() && self.way.is_some_and(|way| way.one_bin().is_some())
    }
}

fn groups(study: &SchedulabilityStudy, manner: VerdictMethod) -> Vec<ReadingGroup<'_>> {
    let mut groups: Vec<ReadingGroup<'_>> = Vec::new();
    for (at, reading) in study.readings.iter().enumerate() {
        let same = |group: &&mut ReadingGroup<'_>| {
            let other = group.reading;
            other.generator == reading.generator
                && (other.cpus, other.caps, other.measure)
                    == (reading.cpus, reading.caps, reading.measure)
        };
        if let Some(group) = groups.iter_mut().find(same) {
            group.readings.push(at);
        } else {
            let (requests, pairs, swept) = (Vec::new(), Vec::new(), Vec::new());
            groups.push(ReadingGroup {
                readings: vec![at],
                reading,
                requests,
                pairs,
                by_cap: 0,
                swept,
            });
        }
    }
    for group in &mut groups {
        for &at in &group.readings.clone() {
            group.ask(&study.readings[at], manner);
        }
        group.sort();
    }
    groups
}

impl ReadingGroup<'_> {
    /// Adds the queries that a reading needs.
    fn ask(&mut self, reading: &StudyReading, manner: VerdictMethod) {
        for scheduler in &reading.schedulers {
            for &delay in &reading.delays {
                let at = self.request(scheduler.policy, delay, manner);
                if self.requests[at].by_cap.is_none() {
                    self.requests[at].by_cap = Some(self.by_cap);
                    self.by_cap += 1;
                }
            }
        }
        for (of, step, against, delay) in comparisons(reading) {
            let pair = (self.request(of, step, manner), self.request(against, delay, manner));
            if !self.pairs.contains(&pair) {
                self.pairs.push(pair);
            }
        }
    }

    fn find(&self, policy: SchedulerTest, delay: Time) -> Option<usize> {
        self.requests.iter().position(|it| it.policy == policy && it.delay == delay)
    }

    fn request(&mut self, policy: SchedulerTest, delay: Time, manner: VerdictMethod) -> usize {
        self.find(policy, delay).unwrap_or_else(|| {
            let way = match manner {
                VerdictMethod::Quick => PolicyQuery::of(policy, self.reading),
                VerdictMethod::Obvious => PolicyQuery::asked(policy, self.reading.cpus),
            };
            self.requests.push(SchedulerQuery { policy, delay, way, by_cap: None });
            self.requests.len() - 1
        })
    }

    /// Sorts the queries by delay.
    fn sort(&mut self) {
        let mut order: Vec<usize> = (0..self.requests.len()).collect();
        order.sort_by_key(|&at| self.requests[at].delay);
        let mut place = vec![0; order.len()];
        order.iter().enumerate().for_each(|(new, &old)| place[old] = new);
        self.requests = order.iter().map(|&at| self.requests[at]).collect();
        self.pairs.iter_mut().for_each(|(a, b)| (*a, *b) = (place[*a], place[*b]));
        for (at, request) in self.requests.iter().enumerate().filter(|(_, it)| it.is_swept()) {
            let Some(rule) = request.way.and_then(PolicyQuery::one_bin) else { continue };
            let same =
                |swept: &&mut Swept| self.requests[swept.requests[0]].policy == request.policy;
            if let Some(swept) = self.swept.iter_mut().find(same) {
                swept.requests.push(at);
                swept.delays.push(request.delay);
            } else {
                let (requests, delays) = (vec![at], vec![request.delay]);
                self.swept.push(Swept { rule, requests, delays });
            }
        }
    }

    /// Counts the sets of one stream.
    fn count(
        &self,
        seed: u64,
        index: u64,
        scratch: &mut Scratch,
        sums: &mut GroupSums,
    ) -> Result<(), StudyRunError> {
        let families = families(&self.reading.generator, self.reading.caps, seed, index)?;
        scratch.scores.clear();
        scratch.scores.resize(self.requests.len(), 0);
        for family in &families {
            match self.reading.measure {
                Measure::Schedulability => self.weigh(family, scratch, sums),
                Measure::Breakdown => self.stretch(family, scratch, sums),
            }
        }
        if self.reading.measure == Measure::Breakdown {
            let caps = self.reading.caps.len() as i64;
            scratch.scores.iter_mut().for_each(|score| *score /= caps);
        }
        for (square, &score) in sums.weighted.iter_mut().zip(&scratch.scores) {
            square.add(score);
        }
        for (square, &(a, b)) in sums.differences.iter_mut().zip(&self.pairs) {
            square.add(scratch.scores[a] - scratch.scores[b]);
        }
        Ok(())
    }

    fn weigh(&self, family: &Family, scratch: &mut Scratch, sums: &mut GroupSums) {
        let caps = self.reading.caps;
        let Scratch { charged, bins, verdicts, scores, weights, .. } = scratch;
        weights.clear();
        weights.extend(family.members.iter().map(|it| caps.weights(it.caps.clone()) as i64));
        let places = caps.len() + 1;
        for (same, from) in self.by_delay() {
            let delay = same[0].delay;
            if same.iter().all(SchedulerQuery::is_swept) {
                continue;
            }
            charged.fill(family, delay, self.reading.cpus);
            for (request, score) in same.iter().zip(&mut scores[from..]) {
                let Some(way) = request.way.filter(|_| !request.is_swept()) else { continue };
                verdicts.clear();
                way.verdicts(family, charged, delay, bins, verdicts);
                let members = family.members.iter().zip(weights.iter()).zip(verdicts.iter());
                for ((member, &weight), _) in members.filter(|(_, yes)| **yes) {
                    *score += weight;
                    if let Some(at) = request.by_cap {
                        // Where runs of schedulable sets begin and end; added up in the end.
                        let row = &mut sums.edges[at * places..][..places];
                        row[member.caps.start] += 1;
                        row[member.caps.end] -= 1;
                    }
                }
            }
        }
        self.sweep(family, scratch);
    }

    /// Answers queries that need only the total weight, which never grows with the delay: for each set, the number of
    /// delays at which the set fits.
    fn sweep(&self, family: &Family, scratch: &mut Scratch) {
        let Scratch { scores, weights, latest, drops, .. } = scratch;
        for swept in &self.swept {
            latest.clear();
            swept.rule.latest(family, &swept.delays, latest);
            drops.clear();
            drops.resize(swept.delays.len() + 1, 0);
            for (&count, &weight) in latest.iter().zip(weights.iter()) {
                drops[count] += weight;
            }
            let mut sum = 0;
            for (at, &request) in swept.requests.iter().enumerate().rev() {
                sum += drops[at + 1];
                scores[request] += sum;
            }
        }
    }

    fn stretch(&self, family: &Family, scratch: &mut Scratch, sums: &mut GroupSums) {
        let caps = self.reading.caps.len();
        for (request, score) in self.requests.iter().zip(&mut scratch.scores) {
            let Some(way) = request.way else { continue };
            for member in &family.members {
                let value = breakdown(way, self.reading.cpus, family, member, request.delay) as i64;
                *score += value * member.caps.len() as i64;
                for place in member.caps.clone() {
                    if let Some(at) = request.by_cap {
                        sums.cells[at * caps + place].add(value);
                    }
                }
            }
        }
    }

    /// The queries at each delay, with the index of the first of them.
    fn by_delay(&self) -> impl Iterator<Item = (&[SchedulerQuery], usize)> {
        let mut from = 0;
        self.requests.chunk_by(|a, b| a.delay == b.delay).map(move |same| {
            let at = from;
            from += same.len();
            (same, at)
        })
    }

    /// The counts that a reading of this group needs.
    fn counts(&self, reading: &StudyReading, sums: &GroupSums, sets: u64) -> ReadingCounts {
        let caps = reading.caps.len();
        let mut counts = ReadingCounts::default();
        for scheduler in &reading.schedulers {
            for &delay in &reading.delays {
                let Some(at) = self.find(scheduler.policy, delay) else { continue };
                counts.weighted.push(SetMoments { sets, ..sums.weighted[at] });
                let by_cap = self.requests[at].by_cap.unwrap_or(0);
                match reading.measure {
                    Measure::Schedulability => {
                        let row = &sums.edges[by_cap * (caps + 1)..][..caps];
                        counts.cells.extend(row.iter().scan(0, |hits, edge| {
                            *hits += edge;
                            Some(SetMoments { sets, sum: *hits, square: *hits })
                        }));
                    }
                    Measure::Breakdown => {
                        counts.cells.extend(&sums.cells[by_cap * caps..][..caps]);
                    }
                }
            }
        }
        for (of, step, against, delay) in comparisons(reading) {
            let pair = self.find(of, step).zip(self.find(against, delay));
            let at = pair.and_then(|pair| self.pairs.iter().position(|&other| other == pair));
            counts.differences.extend(at.map(|at| sums.differences[at]));
        }
        counts
    }
}

/// Each step of each crossover: the scheduler and its delay, and the compared scheduler and its delay.
fn comparisons(reading: &StudyReading) -> Vec<(SchedulerTest, Time, SchedulerTest, Time)> {
    let policy = |name: &str| {
        let found = reading.schedulers.iter().find(|scheduler| scheduler.name == name);
        found.map(|scheduler| scheduler.policy)
    };
    let mut all = Vec::new();
    for crossover in &reading.crossovers {
        let Some((of, against)) = policy(&crossover.of).zip(policy(&crossover.against)) else {
            continue;
        };
        let steps = reading.steps(crossover).into_iter();
        all.extend(steps.map(|step| (of, step, against, crossover.at_us)));
    }
    all
}

/// The memory that is reused from set to set.
#[derive(Debug, Default)]
struct Scratch {
    charged: FamilyNeeds,
    bins: Bins,
    verdicts: Vec<bool>,
    scores: Vec<i64>,
    weights: Vec<i64>,
    latest: Vec<usize>,
    drops: Vec<i64>,
}

/// The sums over the sets of a group.
#[derive(Debug, Clone)]
struct GroupSums {
    /// The number of sets that are schedulable at a cap minus the number at the cap before, by query and cap.
    edges: Vec<i64>,
    /// The breakdown utilisations, by query and cap.
    cells: Vec<SetMoments>,
    /// The weighted schedulability, by query.
    weighted: Vec<SetMoments>,
    /// The differences of weights, by pair.
    differences: Vec<SetMoments>,
}

impl GroupSums {
    fn new(group: &ReadingGroup<'_>) -> Self {
        let places = group.by_cap * group.reading.caps.len();
        let stretched = group.reading.measure == Measure::Breakdown;
        Self {
            edges: vec![0; if stretched { 0 } else { places + group.by_cap }],
            cells: vec![SetMoments::default(); if stretched { places } else { 0 }],
            weighted: vec![SetMoments::default(); group.requests.len()],
            differences: vec![SetMoments::default(); group.pairs.len()],
        }
    }

    fn merge(&mut self, other: &Self) {
        self.edges.iter_mut().zip(&other.edges).for_each(|(own, more)| *own += more);
        let tallies = [
            (&mut self.cells, &other.cells),
            (&mut self.weighted, &other.weighted),
            (&mut self.differences, &other.differences),
        ];
        for (own, more) in tallies {
            own.iter_mut().zip(more).for_each(|(own, more)| own.merge(*more));
        }
    }
}
