// SPDX-License-Identifier: MIT OR Apache-2.0
//! A scheduler that is walked through a unit at a time, where jobs come late, wait at locks, suspend themselves and activate others.

/// The order of jobs, and what happens at locks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rules {
    /// Fixed priorities; a holder runs in the place of a job that waits for its lock. A released lock has no owner until a job
    /// takes it.
    Inherit,
    /// Fixed priorities; a job that holds a lock has the priority of its ceiling.
    Immediate,
    /// Fixed priorities; a lock is taken only above the ceilings of all that others hold.
    Ceiling,
    /// EDF; a job begins only above the ceilings of all that others hold.
    Stack,
}

/// One unit of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// Execution, holding a lock or none.
    Run(Option<usize>),
    /// Suspension.
    Sleep,
}

/// A task: its jobs by their arrivals, releases and steps; or the steps of jobs that another task activates.
#[derive(Debug, Clone, Default)]
pub(crate) struct Actor {
    pub(crate) cpu: usize,
    pub(crate) rank: usize,
    pub(crate) deadline: u64,
    /// The time for which a job reloads each time that it resumes after another one ran.
    pub(crate) reload: u64,
    pub(crate) jobs: Vec<(u64, u64, Vec<Step>)>,
    /// The task whose ends activate this one: arrivals and releases of `jobs` are then overwritten.
    pub(crate) activator: Option<usize>,
}

/// When a job arrived, was released, ran first and ended; and the release of the job that began its chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ended {
    pub(crate) arrival: u64,
    pub(crate) release: u64,
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) origin: u64,
}

#[derive(Debug, Clone, Copy)]
struct State {
    job: usize,
    step: usize,
    start: u64,
    /// The reload that is still to do.
    reload: u64,
    begun: bool,
}

const FRESH: State = State { job: 0, step: 0, start: 0, reload: 0, begun: false };

struct World<'a> {
    rules: Rules,
    actors: &'a [Actor],
    jobs: Vec<Vec<(u64, u64, Vec<Step>)>>,
    origins: Vec<Vec<u64>>,
    states: Vec<State>,
    /// The task that ran last on each CPU.
    last: Vec<Option<usize>>,
    ended: Vec<Vec<Ended>>,
    /// The users of each lock.
    users: Vec<Vec<usize>>,
}

/// The jobs of each task that ended before the horizon, in order.
pub(crate) fn simulate(rules: Rules, actors: &[Actor], horizon: u64) -> Vec<Vec<Ended>> {
    let jobs: Vec<Vec<_>> = actors
        .iter()
        .map(|actor| if actor.activator.is_some() { Vec::new() } else { actor.jobs.clone() })
        .collect();
    let locks = |step: &Step| if let Step::Run(lock) = step { *lock } else { None };
    let of = |actor: &Actor| -> Vec<usize> {
        actor.jobs.iter().flat_map(|job| job.2.iter().filter_map(locks)).collect()
    };
    let used: Vec<Vec<usize>> = actors.iter().map(of).collect();
    let most = used.iter().flatten().max().map_or(0, |lock| lock + 1);
    let users = (0..most)
        .map(|lock| (0..actors.len()).filter(|&at| used[at].contains(&lock)).collect())
        .collect();
    let mut world = World {
        rules,
        actors,
        origins: jobs.iter().map(|of| of.iter().map(|job| job.1).collect()).collect(),
        jobs,
        states: vec![FRESH; actors.len()],
        last: vec![None; actors.iter().map(|actor| actor.cpu + 1).max().unwrap_or(0)],
        ended: vec![Vec::new(); actors.len()],
        users,
    };
    for now in 0..horizon {
        world.unit(now);
    }
    world.ended
}

impl World<'_> {
    fn unit(&mut self, now: u64) {
        let cpus = self.actors.iter().map(|actor| actor.cpu).max().unwrap_or(0);
        let running: Vec<usize> = (0..=cpus).filter_map(|cpu| self.choose(cpu, now)).collect();
        let sleeping: Vec<usize> =
            (0..self.actors.len()).filter(|&at| self.step(at, now) == Some(Step::Sleep)).collect();
        for &at in &running {
            self.resume(at);
        }
        for at in running.into_iter().chain(sleeping) {
            let state = &mut self.states[at];
            if !state.begun {
                (state.start, state.begun) = (now, true);
            }
            if state.reload > 0 {
                state.reload -= 1;
                continue;
            }
            state.step += 1;
            let State { job, step, start, .. } = self.states[at];
            if step == self.jobs[at][job].2.len() {
                self.end(at, start, now + 1);
            }
        }
    }

    /// Makes a job reload that ran before, and after which another one ran.
    fn resume(&mut self, at: usize) {
        let &Actor { cpu, reload, .. } = &self.actors[at];
        if self.states[at].begun && self.last[cpu] != Some(at) {
            self.states[at].reload = reload;
        }
        self.last[cpu] = Some(at);
    }

    fn end(&mut self, at: usize, start: u64, end: u64) {
        let job = self.states[at].job;
        let (arrival, release, _) = self.jobs[at][job];
        let origin = self.origins[at][job];
        self.ended[at].push(Ended { arrival, release, start, end, origin });
        self.states[at] = State { job: job + 1, ..FRESH };
        for next in 0..self.actors.len() {
            if self.actors[next].activator == Some(at) {
                let number = self.jobs[next].len() % self.actors[next].jobs.len();
                let steps = self.actors[next].jobs[number].2.clone();
                self.jobs[next].push((end, end, steps));
                self.origins[next].push(origin);
            }
        }
    }

    /// The next unit of the present job of a task, if it has one.
    fn step(&self, at: usize, now: u64) -> Option<Step> {
        let state = &self.states[at];
        let job = self.jobs[at].get(state.job).filter(|job| job.1 <= now)?;
        Some(job.2[state.step])
    }

    /// The lock that a task's present job holds: it is within a section.
    fn held(&self, at: usize) -> Option<usize> {
        let State { job, step, .. } = self.states[at];
        let steps = &self.jobs[at].get(job)?.2;
        let of = |step: Step| if let Step::Run(lock) = step { lock } else { None };
        let lock = of(*steps.get(step)?);
        lock.filter(|_| step > 0 && of(steps[step - 1]) == lock)
    }

    /// The lock that the present job of a task takes with its next unit.
    fn wanted(&self, at: usize, now: u64) -> Option<usize> {
        match self.step(at, now)? {
            Step::Run(Some(lock)) if self.held(at) != Some(lock) => Some(lock),
            _ => None,
        }
    }

    fn holder(&self, lock: usize) -> Option<usize> {
        (0..self.actors.len()).find(|&at| self.held(at) == Some(lock))
    }

    /// The rank of the most urgent user of a lock.
    fn ceiling(&self, lock: usize) -> usize {
        self.users[lock].iter().map(|&at| self.actors[at].rank).min().unwrap_or(usize::MAX)
    }

    fn choose(&self, cpu: usize, now: u64) -> Option<usize> {
        let runs = |&at: &usize| {
            self.actors[at].cpu == cpu && matches!(self.step(at, now), Some(Step::Run(_)))
        };
        let ready: Vec<usize> = (0..self.actors.len()).filter(runs).collect();
        let rank = |&at: &usize| self.actors[at].rank;
        let first = ready.iter().copied().min_by_key(rank)?;
        match self.rules {
            Rules::Inherit => {
                let holder = self.wanted(first, now).and_then(|lock| self.holder(lock));
                Some(holder.unwrap_or(first))
            }
            Rules::Immediate => {
                let held = |at: usize| self.held(at).map(|lock| self.ceiling(lock));
                let raised = |&at: &usize| {
                    (held(at).map_or(rank(&at), |it| it.min(rank(&at))), held(at).is_none())
                };
                ready.iter().copied().min_by_key(raised)
            }
            Rules::Ceiling => {
                let others = ready.iter().copied().filter(|&at| at != first);
                let holder = others.filter_map(|at| Some((self.ceiling(self.held(at)?), at))).min();
                let waits =
                    holder.filter(|it| self.wanted(first, now).is_some() && it.0 <= rank(&first));
                Some(waits.map_or(first, |it| it.1))
            }
            Rules::Stack => self.on_the_stack(&ready),
        }
    }

    fn on_the_stack(&self, ready: &[usize]) -> Option<usize> {
        let due = |&at: &usize| {
            let job = &self.jobs[at][self.states[at].job];
            (job.0 + self.actors[at].deadline, self.actors[at].rank)
        };
        let level = |lock: usize| self.users[lock].iter().map(|&at| self.actors[at].deadline).min();
        let begun = |at: &usize| self.states[*at].begun;
        let first = ready.iter().copied().min_by_key(due)?;
        let cpu = self.actors[first].cpu;
        let here = |&at: &usize| at != first && self.actors[at].cpu == cpu;
        let ceiling = (0..self.actors.len()).filter(here);
        let ceiling = ceiling.filter_map(|at| level(self.held(at)?)).min();
        let may_begin = ceiling.is_none_or(|it| self.actors[first].deadline < it);
        if begun(&first) || may_begin {
            return Some(first);
        }
        ready.iter().copied().filter(begun).min_by_key(due)
    }
}

#[test]
fn the_rules_of_locks_by_hand() {
    // The last holds the lock from 0 to 4, the middle one comes at 1, the first at 2 and wants the lock.
    let steps = |all: &[Option<usize>]| all.iter().map(|&lock| Step::Run(lock)).collect::<Vec<_>>();
    let held = [Some(0); 4];
    let actor = |rank: usize, arrival: u64, all: &[Option<usize>]| Actor {
        rank,
        deadline: 20 + 10 * rank as u64,
        jobs: vec![(arrival, arrival, steps(all))],
        ..Actor::default()
    };
    let actors = [actor(0, 2, &[Some(0), None]), actor(1, 1, &[None, None]), actor(2, 0, &held)];
    let ends = |rules| {
        let ended = simulate(rules, &actors, 20);
        ended.iter().map(|of| of[0].end).collect::<Vec<_>>()
    };
    // The middle one runs from 1 to 2, then the holder for the first.
    assert_eq!(ends(Rules::Inherit), [7, 8, 5]);
    assert_eq!(ends(Rules::Ceiling), [7, 8, 5]);
    // At the ceiling the holder is not preempted.
    assert_eq!(ends(Rules::Immediate), [6, 8, 4]);
    assert_eq!(ends(Rules::Stack), [6, 8, 4]);
    let mut reloading = actors.clone();
    reloading[1].reload = 3;
    reloading[2].reload = 3;
    let ended = simulate(Rules::Inherit, &reloading, 20);
    // The holder reloads from 2 to 5 and goes on to 8, the first one ends at 10, the middle one reloads to 13.
    assert_eq!(ended.iter().map(|of| of[0].end).collect::<Vec<_>>(), [10, 14, 8]);
    // Alone a job sleeps where its steps say so, and activates the next one.
    let first = Actor {
        jobs: vec![(1, 3, vec![Step::Run(None), Step::Sleep, Step::Run(None)])],
        ..Actor::default()
    };
    let next = Actor {
        cpu: 1,
        activator: Some(0),
        jobs: vec![(0, 0, steps(&[None]))],
        ..Actor::default()
    };
    let ended = simulate(Rules::Inherit, &[first, next], 20);
    assert_eq!(ended[0], [Ended { arrival: 1, release: 3, start: 3, end: 6, origin: 3 }]);
    assert_eq!(ended[1], [Ended { arrival: 6, release: 6, start: 6, end: 7, origin: 3 }]);
}
