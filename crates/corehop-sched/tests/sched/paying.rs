// SPDX-License-Identifier: MIT OR Apache-2.0
//! A scheduler in which victims pay when they resume: from event to event, with what an operating system takes.
//!
//! A job that was preempted reloads its delay before it goes on, once per resumption, by whether it came back to its CPU.
//! Every dispatch takes a scheduling decision and a context switch of its CPU; each release an interrupt, each quantum a
//! tick; releases are seen late. What interrupts and dispatches take cannot be preempted.

use std::collections::BTreeMap;

/// The order of the jobs of a domain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum By {
    /// The earlier deadline.
    Deadline,
    /// The rank of the task.
    Rank,
}

/// A part of every job of a task: so much work in a domain, from an offset after its release.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stage {
    pub(crate) domain: usize,
    pub(crate) work: u64,
    /// When it begins at the earliest, counted from the release of the job.
    pub(crate) from: u64,
    /// When it is due, counted from there.
    pub(crate) deadline: u64,
    /// The class, before all deadlines and ranks: the smaller first.
    pub(crate) class: u32,
}

/// A task as it is simulated.
#[derive(Debug, Clone)]
pub(crate) struct Actor {
    pub(crate) period: u64,
    pub(crate) deadline: u64,
    pub(crate) rank: u32,
    /// The reload of a job when it resumes on its CPU.
    pub(crate) resumed: u64,
    /// The reload when it resumes on another one, or goes on with its next stage.
    pub(crate) moved: u64,
    /// The reload by the CPU that it left (the row) and the one it resumes on, in the order of the domains; in place of both,
    /// where it is given.
    pub(crate) between: Vec<Vec<u64>>,
    /// The stages of its jobs; job `v` has those at `v` modulo their number.
    pub(crate) jobs: Vec<Vec<Stage>>,
    pub(crate) offset: u64,
    /// The lateness of each release, cycled through.
    pub(crate) late: Vec<u64>,
}

/// The times of an operating system.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Taken {
    /// Of each dispatch.
    pub(crate) dispatch: u64,
    /// Of each release, on a CPU of the domain.
    pub(crate) release: u64,
    /// Whether a further CPU handles releases, one after the other, in place of the CPUs of the tasks.
    pub(crate) dedicated: bool,
    /// Of each tick, and the time between two.
    pub(crate) tick: u64,
    pub(crate) quantum: u64,
    /// By how much a release is seen late, at most.
    pub(crate) latency: u64,
    /// The time to tell another CPU.
    pub(crate) interprocessor: u64,
}

/// The simulated world.
#[derive(Debug, Clone)]
pub(crate) struct World {
    pub(crate) by: By,
    /// The number of CPUs of each domain.
    pub(crate) domains: Vec<usize>,
    pub(crate) actors: Vec<Actor>,
    pub(crate) taken: Taken,
    pub(crate) horizon: u64,
    /// Whether a job that resumes prefers a CPU that it was not on.
    pub(crate) restless: bool,
    /// The cache blocks of each task, of one CPU: where there are some, a job that resumes reloads those
    /// that others took meanwhile, one unit of time each, in place of its delay.
    pub(crate) blocks: Vec<Vec<u32>>,
}

#[derive(Debug, Clone)]
struct Job {
    actor: usize,
    number: usize,
    stage: usize,
    release: u64,
    /// When it may run its stage.
    ready: u64,
    left: u64,
    reload: u64,
    begun: bool,
    /// The CPU it runs on now, and the one it ran on last.
    on: Option<usize>,
    last: Option<usize>,
}

/// The longest response of each task, late jobs at the horizon included; and how late one was at most.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) responses: Vec<u64>,
    pub(crate) missed: bool,
}

/// Simulates until the horizon.
pub(crate) fn simulate(world: &World) -> Seen {
    let mut state = State::new(world);
    while state.now < world.horizon {
        state.release();
        state.dispatch();
        let until = state.next_event().min(world.horizon);
        state.run(until - state.now);
        state.now = until;
        state.retire();
    }
    state.finish()
}

struct State<'a> {
    world: &'a World,
    now: u64,
    jobs: Vec<Job>,
    /// The next release of each task, and the number of the job.
    next: Vec<(u64, usize)>,
    next_tick: u64,
    /// The time at which the CPU for releases has handled all releases so far.
    handled: u64,
    /// The domain of each CPU; what interrupts and dispatches still take of it.
    cpus: Vec<(usize, u64)>,
    /// The owner of the data in each block.
    cache: BTreeMap<u32, usize>,
    seen: Seen,
}

impl<'a> State<'a> {
    fn new(world: &'a World) -> Self {
        let cpus = world.domains.iter().enumerate();
        let cpus = cpus.flat_map(|(domain, &count)| (0..count).map(move |_| (domain, 0))).collect();
        Self {
            world,
            now: 0,
            jobs: Vec::new(),
            next: world.actors.iter().map(|actor| (actor.offset, 0)).collect(),
            handled: 0,
            next_tick: if world.taken.tick > 0 { 0 } else { u64::MAX },
            cpus,
            cache: BTreeMap::new(),
            seen: Seen { responses: vec![0; world.actors.len()], missed: false },
        }
    }

    fn stage(&self, job: &Job) -> Stage {
        let jobs = &self.world.actors[job.actor].jobs;
        jobs[job.number % jobs.len()][job.stage]
    }

    /// Jobs arrive, and ticks are due.
    fn release(&mut self) {
        if self.next_tick <= self.now {
            self.cpus.iter_mut().for_each(|cpu| cpu.1 += self.world.taken.tick);
            self.next_tick += self.world.taken.quantum;
        }
        let count = self.world.actors.len();
        for place in 0..count {
            // Of releases at once, any may be handled first.
            let at = if self.world.restless { count - 1 - place } else { place };
            let actor = &self.world.actors[at];
            while self.next[at].0 <= self.now {
                let (release, number) = self.next[at];
                let late = actor.late[number % actor.late.len()];
                self.next[at] = (release + actor.period + late, number + 1);
                let stage = actor.jobs[number % actor.jobs.len()][0];
                let taken = self.world.taken;
                // Latencies differ from job to job.
                let seen = if number % 3 == 1 { 0 } else { taken.latency };
                let tells = self.world.domains[stage.domain] > 1 || taken.dedicated;
                let told = if tells { taken.interprocessor } else { 0 };
                let ready = self.handle(release + seen) + told;
                let (left, reload) = (stage.work, 0);
                self.jobs.push(Job {
                    actor: at,
                    number,
                    stage: 0,
                    release,
                    ready,
                    left,
                    reload,
                    begun: false,
                    on: None,
                    last: None,
                });
                self.interrupt(stage.domain, number);
            }
        }
    }

    /// The time at which a release that was seen is handled: by the CPU for releases, after those before it.
    fn handle(&mut self, seen: u64) -> u64 {
        if !self.world.taken.dedicated {
            return seen;
        }
        self.handled = self.handled.max(seen) + self.world.taken.release;
        self.handled
    }

    /// A release takes a CPU of its domain.
    fn interrupt(&mut self, domain: usize, number: usize) {
        if self.world.taken.release > 0 && !self.world.taken.dedicated {
            let here: Vec<usize> =
                (0..self.cpus.len()).filter(|&cpu| self.cpus[cpu].0 == domain).collect();
            self.cpus[here[number % here.len()]].1 += self.world.taken.release;
        }
    }

    /// Whether a job may run: it is ready, and its task has none before it.
    fn able(&self, at: usize) -> bool {
        let job = &self.jobs[at];
        let earlier = |it: &Job| it.actor == job.actor && it.number < job.number;
        job.ready <= self.now && !self.jobs.iter().any(earlier)
    }

    fn rank(&self, at: usize) -> (u32, u64, u64, usize) {
        let job = &self.jobs[at];
        let stage = self.stage(job);
        let (key, since) = match self.world.by {
            By::Deadline => (job.release + stage.from + stage.deadline, 0),
            By::Rank => (u64::from(self.world.actors[job.actor].rank), job.ready),
        };
        (stage.class, key, since, job.actor)
    }

    /// Gives each domain's CPUs to its first jobs; one that stays keeps its CPU.
    fn dispatch(&mut self) {
        for domain in 0..self.world.domains.len() {
            let mut able: Vec<usize> = (0..self.jobs.len())
                .filter(|&at| self.stage(&self.jobs[at]).domain == domain && self.able(at))
                .collect();
            able.sort_by_key(|&at| self.rank(at));
            able.truncate(self.world.domains[domain]);
            for at in 0..self.jobs.len() {
                let here = self.jobs[at].on.is_some_and(|cpu| self.cpus[cpu].0 == domain);
                if here && !able.contains(&at) {
                    self.jobs[at].on = None;
                }
            }
            for at in able {
                if self.jobs[at].on.is_none() {
                    self.start(at, domain);
                }
            }
        }
    }

    /// Starts or resumes a job on a free CPU.
    fn start(&mut self, at: usize, domain: usize) {
        let taken: Vec<usize> = self.jobs.iter().filter_map(|job| job.on).collect();
        let mut free =
            (0..self.cpus.len()).filter(|cpu| self.cpus[*cpu].0 == domain && !taken.contains(cpu));
        let last = self.jobs[at].last;
        let wanted = free.clone().find(|&cpu| (last == Some(cpu)) != self.world.restless);
        let cpu = wanted.or_else(|| free.next()).expect("as many CPUs as jobs");
        let lost = self.take_cache(self.jobs[at].actor);
        let actor = &self.world.actors[self.jobs[at].actor];
        let job = &mut self.jobs[at];
        if let Some(lost) = lost {
            // What it had not reloaded yet is still to come; more than it has cannot be lost.
            let all = self.world.blocks[job.actor].len() as u64;
            job.reload = if job.begun { (job.reload + lost).min(all) } else { 0 };
        } else if job.begun {
            let by_cpus = last.and_then(|last| actor.between.get(last)?.get(cpu).copied());
            let by_whether = if last == Some(cpu) { actor.resumed } else { actor.moved };
            job.reload = by_cpus.unwrap_or(by_whether);
        }
        (job.begun, job.on, job.last) = (true, Some(cpu), Some(cpu));
        self.cpus[cpu].1 += self.world.taken.dispatch;
    }

    /// Loads the blocks of a task; how many of them others had taken. None where there are no blocks.
    fn take_cache(&mut self, actor: usize) -> Option<u64> {
        let own = self.world.blocks.get(actor)?;
        let lost = own.iter().filter(|block| self.cache.get(block) != Some(&actor)).count();
        self.cache.extend(own.iter().map(|&block| (block, actor)));
        Some(lost as u64)
    }

    fn next_event(&self) -> u64 {
        let releases = self.next.iter().map(|next| next.0);
        let ready = self.jobs.iter().map(|job| job.ready).filter(|&ready| ready > self.now);
        let ends = self
            .jobs
            .iter()
            .filter_map(|job| Some(self.now + self.cpus[job.on?].1 + job.reload + job.left));
        let all = releases.chain(ready).chain(ends).chain([self.next_tick]);
        all.min().unwrap_or(u64::MAX).max(self.now + 1)
    }

    fn run(&mut self, span: u64) {
        let mut left = vec![span; self.cpus.len()];
        for (cpu, left) in self.cpus.iter_mut().zip(&mut left) {
            let stolen = cpu.1.min(*left);
            cpu.1 -= stolen;
            *left -= stolen;
        }
        for job in &mut self.jobs {
            let Some(cpu) = job.on else { continue };
            let reloading = job.reload.min(left[cpu]);
            job.reload -= reloading;
            job.left -= left[cpu] - reloading;
        }
    }

    /// Jobs that are done leave, or go on with their next stage.
    fn retire(&mut self) {
        let mut at = 0;
        while at < self.jobs.len() {
            if self.jobs[at].left > 0 || self.jobs[at].on.is_none() {
                at += 1;
                continue;
            }
            let job = &self.jobs[at];
            let actor = &self.world.actors[job.actor];
            let stages = &actor.jobs[job.number % actor.jobs.len()];
            let Some(next) = stages.get(job.stage + 1) else {
                let job = self.jobs.swap_remove(at);
                self.ended(&job, self.now);
                continue;
            };
            let (due, moved) = (job.release + next.from, actor.moved);
            let job = &mut self.jobs[at];
            (job.stage, job.left, job.reload) = (job.stage + 1, next.work, moved);
            (job.begun, job.on, job.last) = (false, None, None);
            job.ready = due.max(self.now);
            at += 1;
        }
    }

    fn ended(&mut self, job: &Job, end: u64) {
        let response = end - job.release;
        let worst = &mut self.seen.responses[job.actor];
        *worst = response.max(*worst);
        self.seen.missed |= response > self.world.actors[job.actor].deadline;
    }

    /// Ends the jobs that are left at the horizon there or later.
    fn finish(mut self) -> Seen {
        for job in std::mem::take(&mut self.jobs) {
            self.ended(&job, self.now);
        }
        self.seen
    }
}

/// A task that does all of its work in one domain.
pub(crate) fn whole(work: u64, period: u64, deadline: u64, domain: usize) -> Actor {
    let stage = Stage { domain, work, from: 0, deadline, class: 0 };
    Actor {
        period,
        deadline,
        rank: 0,
        resumed: 0,
        moved: 0,
        between: Vec::new(),
        jobs: vec![vec![stage]],
        offset: 0,
        late: vec![0],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn world(domains: &[usize], actors: Vec<Actor>) -> World {
        let (by, taken) = (By::Deadline, Taken::default());
        let (domains, blocks) = (domains.to_vec(), Vec::new());
        World { by, domains, actors, taken, horizon: 100, restless: false, blocks }
    }

    #[test]
    fn a_victim_pays_when_it_resumes_by_hand() {
        // The long one runs from 0, is preempted at 5 for 3, and reloads 4: 20 + 3 + 4.
        let short = Actor { offset: 5, ..whole(3, 100, 10, 0) };
        let long = Actor { resumed: 4, moved: 9, ..whole(20, 100, 50, 0) };
        let seen = simulate(&world(&[1], vec![short.clone(), long.clone()]));
        assert_eq!(seen, Seen { responses: vec![3, 27], missed: false });
        // On two CPUs no job waits; with a third one that keeps the other CPU until 10 it does: to 6, where it goes on
        // at 8 on its own CPU.
        let third = whole(10, 100, 20, 0);
        let seen = simulate(&world(&[2], vec![short, long, third]));
        assert_eq!(seen.responses, [3, 27, 10]);
    }

    #[test]
    fn a_victim_reloads_the_blocks_that_were_taken_and_no_others_by_hand() {
        // Blocks 0-9 of the long one; the short one has 8-13 and takes two of them at 5.
        let short = Actor { offset: 5, ..whole(3, 100, 10, 0) };
        let long = whole(20, 100, 50, 0);
        let world = World {
            blocks: vec![(8..14).collect(), (0..10).collect()],
            ..world(&[1], vec![short, long])
        };
        assert_eq!(simulate(&world).responses, [3, 20 + 3 + 2]);
    }

    #[test]
    fn a_job_that_comes_back_elsewhere_pays_its_migration_by_hand() {
        // Preempted at 5 on the second CPU; the first is free at 6: 1 of waiting, and 9 to reload.
        let short = Actor { offset: 5, ..whole(30, 100, 40, 0) };
        let third = whole(6, 100, 20, 0);
        let long = Actor { resumed: 4, moved: 9, ..whole(20, 100, 60, 0) };
        let seen = simulate(&world(&[2], vec![third, short, long]));
        assert_eq!(seen.responses, [6, 30, 30]);
    }

    #[test]
    fn what_an_operating_system_takes_by_hand() {
        // Ticks of 1 at 0, 10 and 20, two of 2 for the release and the dispatch, seen after 5 at the start.
        let mut alone = world(&[1], vec![whole(10, 100, 50, 0)]);
        alone.taken =
            Taken { tick: 1, quantum: 10, release: 2, dispatch: 2, latency: 5, ..alone.taken };
        // From 5 with 2 of dispatch: 10 units between 7 and 18, of which one is a tick.
        assert_eq!(simulate(&alone).responses, [18]);
    }

    #[test]
    fn a_piece_begins_when_the_one_before_it_is_due_by_hand() {
        let mut split = whole(0, 100, 50, 0);
        let stage = |domain, work, from, deadline| Stage { domain, work, from, deadline, class: 0 };
        split.jobs = vec![vec![stage(0, 5, 0, 8), stage(1, 6, 8, 42)]];
        split.moved = 3;
        let seen = simulate(&world(&[1, 1], vec![split]));
        assert_eq!(seen.responses, [8 + 3 + 6]);
    }
}
