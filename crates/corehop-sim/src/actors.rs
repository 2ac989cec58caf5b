// SPDX-License-Identifier: MIT OR Apache-2.0
//! The order in which actors act. Actors are the threads and devices that run forever beside the job, each with its
//! own clock.

use super::background::{Device, SplitLocks, Transfer};
use super::tags::LineNumber;
use super::times::Picos;
use super::turns::EventQueue;
use super::walker::{Visit, WalkParameters, Walker};

/// The repeated activity of an actor.
#[derive(Debug, Clone)]
pub enum ActorRole {
    /// The actor walks over memory.
    Walks(Walker),
    /// The actor moves data past the caches, independently of any CPU.
    Moves(Device),
    /// The actor executes split-lock accesses.
    Locks(SplitLocks),
}

/// The next step of an actor.
#[derive(Debug, Clone, Copy)]
pub(super) enum ActorStep {
    /// Visits a line; the flag marks the first visit of a walk.
    Visit(Visit, WalkParameters, bool),
    Transfer(Transfer),
    /// Blocks all accesses beyond the innermost caches for the first duration; the actor's next step follows after
    /// the second duration.
    Lock(Picos, Picos),
}

/// A thread or device that acts forever beside the job.
#[derive(Debug, Clone)]
struct Actor {
    cpu: usize,
    /// The outermost cache of the actor's CPU.
    root: usize,
    role: ActorRole,
    /// The time of the actor's next visit, once the actor no longer waits.
    at: Picos,
    waits: bool,
    /// Whether the actor has preempted all other walkers on its CPU.
    preempts: bool,
    visits: u64,
}

/// All actors of a machine.
#[derive(Debug, Clone, Default)]
pub(super) struct Actors {
    all: Vec<Actor>,
    /// The actors that do not wait, by the time of their next visit.
    turns: EventQueue,
    /// The CPU whose actors wait because the job has it.
    held: Option<usize>,
    /// The roots whose walkers run; None if the walkers of all roots run.
    awake: Option<[usize; 2]>,
    /// The CPUs that tasks or preemptors occupy; all other walkers on these CPUs wait.
    taken: Vec<usize>,
}

impl Actors {
    /// Adds an actor on `cpu`, which acts from `now` on whenever the job does not have that CPU.
    pub(super) fn add(&mut self, cpu: usize, root: usize, role: ActorRole, now: Picos) {
        let (waits, preempts) = (true, false);
        self.all.push(Actor { cpu, root, role, at: now, waits, preempts, visits: 0 });
        self.set(self.held, self.awake, now);
    }

    /// Adds a preemptor that walks on `cpu` from `now` on. All other actors on this CPU wait until the preemptor is
    /// removed.
    pub(super) fn preempt(&mut self, cpu: usize, root: usize, walker: Walker, now: Picos) {
        let (role, waits, preempts) = (ActorRole::Walks(walker), true, true);
        self.all.push(Actor { cpu, root, role, at: now, waits, preempts, visits: 0 });
        self.take(cpu, now);
    }

    /// Removes the preemptor on `cpu`, and returns its walker with the number of visited lines. From `now` on the
    /// other actors have the CPU again.
    pub(super) fn remove(&mut self, cpu: usize, now: Picos) -> Option<(Walker, u64)> {
        let preempts = |actor: &Actor| actor.cpu == cpu && actor.preempts;
        let place = self.all.iter().position(preempts)?;
        let Actor { role, visits, .. } = self.all.remove(place);
        self.give_back(cpu, now);
        if let ActorRole::Walks(walker) = role { Some((walker, visits)) } else { None }
    }

    /// Whether any actor is on a CPU for which `on` is true.
    pub(super) fn any(&self, on: impl Fn(usize) -> bool) -> bool {
        self.all.iter().any(|actor| on(actor.cpu))
    }

    /// The CPUs of the actors below other roots than `roots`.
    pub(super) fn outside(&self, roots: [usize; 2]) -> impl Iterator<Item = usize> {
        let outside = move |actor: &&Actor| !roots.contains(&actor.root);
        self.all.iter().filter(outside).map(|actor| actor.cpu)
    }

    /// The number of lines that all actors together have visited.
    pub(super) fn visits(&self) -> u64 {
        self.all.iter().map(|actor| actor.visits).sum()
    }

    /// Gives the CPU `held` to the job from `now` on. If `awake` is given, only walkers below these roots continue
    /// to run.
    pub(super) fn set(&mut self, held: Option<usize>, awake: Option<[usize; 2]>, now: Picos) {
        (self.held, self.awake) = (held, awake);
        for actor in &mut self.all {
            if actor.waits {
                actor.at = actor.at.max(now);
            }
            let may_have = actor.preempts || !self.taken.contains(&actor.cpu);
            let has_cpu = Some(actor.cpu) != held && may_have;
            let goes = match actor.role {
                ActorRole::Walks(_) => {
                    has_cpu && awake.is_none_or(|roots| roots.contains(&actor.root))
                }
                // What it does reaches everybody, wherever they are.
                ActorRole::Locks(_) => has_cpu,
                ActorRole::Moves(_) => true,
            };
            actor.waits = !goes;
        }
        self.order();
    }

    /// Sorts the actors that do not wait by the times of their next visits.
    fn order(&mut self) {
        let awake = self.all.iter().enumerate().filter(|(_, actor)| !actor.waits);
        self.turns = EventQueue::of(awake.map(|(place, actor)| (actor.at, place)));
    }

    /// Gives `cpu` to a task or preemptor from `now` on.
    pub(super) fn take(&mut self, cpu: usize, now: Picos) {
        self.taken.push(cpu);
        self.set(self.held, self.awake, now);
    }

    /// Takes `cpu` from its task or preemptor at `now`.
    pub(super) fn give_back(&mut self, cpu: usize, now: Picos) {
        self.taken.retain(|&taken| taken != cpu);
        self.set(self.held, self.awake, now);
    }

    /// Takes the job off its CPU, and returns that CPU.
    pub(super) fn release(&mut self, now: Picos) -> Option<usize> {
        let held = self.held;
        self.set(None, self.awake, now);
        held
    }

    /// Moves the clocks of all actors on by `time`.
    pub(super) fn skip(&mut self, time: Picos) {
        self.all.iter_mut().for_each(|actor| actor.at += time);
        self.turns.skip(time);
    }

    /// The next actor and its time; if several actors have the same time, the first of these actors.
    #[inline]
    pub(super) fn next(&self) -> Option<(usize, Picos)> {
        self.turns.first().map(|(at, place)| (place, at))
    }

    /// The next step of the actor at index `place`, and the actor's CPU.
    #[inline]
    pub(super) fn turn(&mut self, place: usize) -> (usize, ActorStep) {
        let actor = &mut self.all[place];
        actor.visits += 1;
        let turn = match &mut actor.role {
            ActorRole::Walks(walker) => {
                let begins = walker.is_at_start();
                ActorStep::Visit(walker.visit(), walker.manner(), begins)
            }
            ActorRole::Moves(device) => ActorStep::Transfer(device.next()),
            ActorRole::Locks(locks) => {
                let (stops, until) = locks.next();
                ActorStep::Lock(stops, until)
            }
        };
        (actor.cpu, turn)
    }

    /// Sets the time of the next step of the actor that just acted. Returns the line that the actor visits then, if
    /// the actor walks.
    #[inline]
    pub(super) fn resumes(&mut self, place: usize, at: Picos) -> Option<LineNumber> {
        let actor = &mut self.all[place];
        actor.at = at;
        self.turns.first_again(at);
        if let ActorRole::Walks(walker) = &actor.role { Some(walker.coming()) } else { None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use corehop_plan::experiment::DrawStream;
    use corehop_plan::units::Bytes;
    use corehop_plan::workload::{Pattern, Polluter};

    fn actors() -> Actors {
        let polluter =
            Polluter { wss: Bytes::from_kib(1), pattern: Pattern::Scan, write_ratio: 0.0 };
        let mut actors = Actors::default();
        for cpu in 0..3 {
            let walker =
                Walker::of_polluter(&polluter, (0..16).collect(), 64, &mut DrawStream::new(1, 1));
            actors.add(cpu, cpu / 2, ActorRole::Walks(walker), 10 * cpu as Picos);
        }
        actors
    }

    #[test]
    fn the_earliest_is_next_and_none_on_the_jobs_cpu() {
        let mut actors = actors();
        assert_eq!(actors.next(), Some((0, 0)));
        actors.set(Some(0), None, 0);
        assert_eq!(actors.next(), Some((1, 10)));
        actors.resumes(1, 25);
        assert_eq!(actors.next(), Some((2, 20)));
        // The actor that waited goes on when the job leaves, and not in the past.
        assert_eq!(actors.release(15), Some(0));
        assert_eq!(actors.next(), Some((0, 15)));
    }

    #[test]
    fn who_walks_on_a_cpu_that_a_task_has_waits_until_the_task_gives_it_back() {
        let mut actors = actors();
        actors.take(0, 5);
        actors.take(1, 5);
        assert_eq!(actors.next(), Some((2, 20)));
        actors.give_back(0, 15);
        assert_eq!(actors.next(), Some((0, 15)));
        actors.take(0, 15);
        actors.give_back(1, 30);
        assert_eq!(actors.next(), Some((2, 20)));
        actors.resumes(2, 40);
        assert_eq!(actors.next(), Some((1, 30)));
    }

    #[test]
    fn those_below_other_roots_wait_and_everyone_s_clock_moves_on() {
        let mut actors = actors();
        actors.set(None, Some([1, 1]), 0);
        assert_eq!(actors.next(), Some((2, 20)));
        actors.skip(100);
        assert_eq!(actors.next(), Some((2, 120)));
        actors.set(None, None, 105);
        assert_eq!(actors.next(), Some((0, 105)));
    }

    #[test]
    fn a_preemptor_has_its_cpu_alone_until_it_ends() {
        let mut actors = actors();
        let polluter =
            Polluter { wss: Bytes::from_kib(1), pattern: Pattern::Scan, write_ratio: 0.0 };
        let walker =
            Walker::of_polluter(&polluter, (0..16).collect(), 64, &mut DrawStream::new(1, 2));
        let locks = SplitLocks::new(1, 1);
        actors.add(0, 0, ActorRole::Locks(locks), 0);
        actors.set(Some(0), None, 0);
        actors.preempt(0, 0, walker, 5);
        assert_eq!(actors.next(), Some((1, 10)), "the job still has it");
        actors.release(8);
        assert_eq!(actors.next(), Some((4, 8)), "neither who walks there nor who splits locks");
        actors.turn(4);
        actors.resumes(4, 30);
        assert_eq!(actors.remove(0, 40).map(|(_, visits)| visits), Some(1));
        assert!(actors.remove(0, 40).is_none(), "the others there are of the load");
        actors.resumes(1, 50);
        actors.resumes(2, 60);
        assert_eq!(actors.next(), Some((0, 40)));
    }
}
