// SPDX-License-Identifier: MIT OR Apache-2.0
//! The order of turns: the threads that walk forever beside the job, each with its own clock.

use super::background::{Device, SplitLocks, Transfer};
use super::tags::LineNumber;
use super::times::Picos;
use super::turns::EventQueue;
use super::walker::{Visit, WalkParameters, Walker};

/// The repeated activity of an actor.
#[derive(Debug, Clone)]
pub enum ActorRole {
    /// Walks.
    Walks(Walker),
    /// Moves data past the caches, on behalf of any CPU.
    Moves(Device),
    /// Splits locks.
    Locks(SplitLocks),
}

/// The next step of an actor.
#[derive(Debug, Clone, Copy)]
pub(super) enum ActorStep {
    /// The first of a walk, or a later one.
    Visit(Visit, WalkParameters, bool),
    Transfer(Transfer),
    /// Stops everybody for the first time, and goes on after the second.
    Lock(Picos, Picos),
}

/// Somebody who goes on for ever.
#[derive(Debug, Clone)]
struct Actor {
    cpu: usize,
    /// The outermost cache of its CPU.
    root: usize,
    role: ActorRole,
    /// When it makes its next visit, once it no longer waits.
    at: Picos,
    waits: bool,
    /// Whether it has taken its CPU from all others who walk there.
    preempts: bool,
    visits: u64,
}

/// All of them.
#[derive(Debug, Clone, Default)]
pub(super) struct Actors {
    all: Vec<Actor>,
    /// Those who do not wait, by when they make their next visit.
    turns: EventQueue,
    /// The CPU whose actors wait because the job has it.
    held: Option<usize>,
    /// The only roots whose actors do not wait.
    awake: Option<[usize; 2]>,
    /// The CPUs that tasks or preemptors have: all other actors there wait too.
    taken: Vec<usize>,
}

impl Actors {
    /// Lets somebody act on `cpu` from `now` on, whenever the job does not have that CPU.
    pub(super) fn add(&mut self, cpu: usize, root: usize, role: ActorRole, now: Picos) {
        let (waits, preempts) = (true, false);
        self.all.push(Actor { cpu, root, role, at: now, waits, preempts, visits: 0 });
        self.set(self.held, self.awake, now);
    }

    /// Lets a preemptor walk on `cpu` from `now` on. All others on this CPU wait until the preemptor is removed.
    pub(super) fn preempt(&mut self, cpu: usize, root: usize, walker: Walker, now: Picos) {
        let (role, waits, preempts) = (ActorRole::Walks(walker), true, true);
        self.all.push(Actor { cpu, root, role, at: now, waits, preempts, visits: 0 });
        self.take(cpu, now);
    }

    /// Ends the preemptor on `cpu`, which is handed back with the lines that it has visited. From `now` on
    /// the others have the CPU again.
    pub(super) fn remove(&mut self, cpu: usize, now: Picos) -> Option<(Walker, u64)> {
        let preempts = |actor: &Actor| actor.cpu == cpu && actor.preempts;
        let place = self.all.iter().position(preempts)?;
        let Actor { role, visits, .. } = self.all.remove(place);
        self.give_back(cpu, now);
        if let ActorRole::Walks(walker) = role { Some((walker, visits)) } else { None }
    }

    /// Whether somebody walks on such a CPU.
    pub(super) fn any(&self, on: impl Fn(usize) -> bool) -> bool {
        self.all.iter().any(|actor| on(actor.cpu))
    }

    /// The CPUs of those below other roots.
    pub(super) fn outside(&self, roots: [usize; 2]) -> impl Iterator<Item = usize> {
        let outside = move |actor: &&Actor| !roots.contains(&actor.root);
        self.all.iter().filter(outside).map(|actor| actor.cpu)
    }

    /// The lines that all have visited.
    pub(super) fn visits(&self) -> u64 {
        self.all.iter().map(|actor| actor.visits).sum()
    }

    /// From `now` on the job has the CPU `held`, and of the others only those below the roots `awake`
    /// do not wait, if there are any.
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

    /// Puts those who do not wait in order.
    fn order(&mut self) {
        let awake = self.all.iter().enumerate().filter(|(_, actor)| !actor.waits);
        self.turns = EventQueue::of(awake.map(|(place, actor)| (actor.at, place)));
    }

    /// From `now` on a task has `cpu`.
    pub(super) fn take(&mut self, cpu: usize, now: Picos) {
        self.taken.push(cpu);
        self.set(self.held, self.awake, now);
    }

    /// From `now` on no task has `cpu`.
    pub(super) fn give_back(&mut self, cpu: usize, now: Picos) {
        self.taken.retain(|&taken| taken != cpu);
        self.set(self.held, self.awake, now);
    }

    /// The job no longer has its CPU.
    pub(super) fn release(&mut self, now: Picos) -> Option<usize> {
        let held = self.held;
        self.set(None, self.awake, now);
        held
    }

    /// Moves all clocks on.
    pub(super) fn skip(&mut self, time: Picos) {
        self.all.iter_mut().for_each(|actor| actor.at += time);
        self.turns.skip(time);
    }

    /// The next actor, and its time; of several at one time the first.
    #[inline]
    pub(super) fn next(&self) -> Option<(usize, Picos)> {
        self.turns.first().map(|(at, place)| (place, at))
    }

    /// The next step of one of them, and its CPU.
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

    /// The next one, in this place, acts again at this time; to which line it then
    /// walks, if it walks.
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
