// SPDX-License-Identifier: MIT OR Apache-2.0
//! The simulation of a fork-join program: the contents of the deques, and the next actions of each thread.
//!
//! A thread chooses its next work when it looks for work, not when its round begins: after some acts the thread
//! decides, and the decision yields the next acts. A decision takes no time and reads no line, because the acts
//! before it have read the lines.

use std::collections::VecDeque;

use super::program::{Act, MemoryLine};
use corehop_plan::workload::fork_join::{ForkTask, tasks};

/// The number of lines of a deque: the end for thieves, the end for the deque's own thread, and the tasks.
const DEQUE: u32 = 4;
const HEAD: u32 = 0;
const FOOT: u32 = 1;
const SLOTS: u32 = 2;
/// The number of words in a line.
const WORDS: u32 = 16;
/// The number of instructions of a task, of its fork or of its join (assumed).
pub(super) const INSTRUCTIONS: u32 = 60;

/// A decision of a thread about its next work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ForkJoinStep {
    /// Begin a round.
    Begin,
    /// Put the smaller part of a forked task into the deque.
    Forked(ForkTask),
    /// Join a finished task with this number and value.
    Joined(u32, u64),
    /// Take the newest task of the thread's own deque.
    Pop,
    /// Check whether the round is over; otherwise look at another thread's deque.
    Look,
    /// Check whether the deque of the thread at this index has a task to steal.
    Peek(usize),
    /// Steal the oldest task from the deque of the thread at this index.
    Steal(usize),
}

/// The record of a forked task.
#[derive(Debug, Clone, Copy, Default)]
struct ForkedTask {
    parent: u32,
    /// The number of unfinished child tasks.
    pending: u32,
    sum: u64,
}

/// One thread's deque, and the thread's progress through the rounds.
#[derive(Debug, Clone, Default)]
struct ThreadDeque {
    tasks: VecDeque<ForkTask>,
    /// The number of tasks ever taken from the oldest end; the next slot follows from this number.
    taken: u32,
    /// The number of rounds that the deque's thread has begun.
    begun: u64,
    /// The thread whose deque this thread tries next when stealing.
    victim: usize,
}

impl ThreadDeque {
    /// The slot of the deque's oldest task, or of the task that follows after `more` others.
    const fn slot(&self, more: usize) -> u32 {
        (self.taken + more as u32) % ForkTask::SLOTS as u32
    }
}

/// The tree of tasks on which some threads work.
#[derive(Debug, Clone)]
pub(super) struct ForkJoinTree {
    number: u32,
    /// Whether a single thread works on the tree, as on a tree of its own.
    alone: bool,
    records: Vec<ForkedTask>,
    deques: Vec<ThreadDeque>,
    /// The number of finished rounds, and the sum of their results.
    done: u64,
    results: u64,
}

/// The number of lines of a tree on which `threads` threads work: a record for each task, the deques, and a line
/// that shows whether the round is over.
pub(super) fn lines(number: u32, threads: u64) -> u64 {
    u64::from(tasks(number)) + threads * u64::from(DEQUE) + 1
}

impl ForkJoinTree {
    pub(super) fn new(number: u32, threads: usize, alone: bool) -> Self {
        let deque =
            |thread| ThreadDeque { victim: (thread + 1) % threads, ..ThreadDeque::default() };
        Self {
            number,
            alone,
            records: vec![ForkedTask::default(); tasks(number) as usize],
            deques: (0..threads).map(deque).collect(),
            done: 0,
            results: 0,
        }
    }

    /// The number of finished rounds, and the sum of their results.
    #[cfg(test)]
    pub(super) const fn results(&self) -> (u64, u64) {
        (self.done, self.results)
    }

    /// Writes the thread's next acts to `script` after a decision; leaves `script` empty if the thread's round is
    /// over. Returns whether the thread found no work and looks again.
    pub(super) fn decide(
        &mut self,
        thread: usize,
        choice: ForkJoinStep,
        script: &mut Vec<Act>,
    ) -> bool {
        script.clear();
        match choice {
            ForkJoinStep::Begin => {
                self.deques[thread].begun += 1;
                if self.alone || thread == 0 {
                    self.run(thread, ForkTask::root(self.number), script);
                } else {
                    self.seek(thread, script);
                }
            }
            ForkJoinStep::Forked(task) => {
                let [larger, smaller] = task.children();
                for it in [larger, smaller] {
                    self.records[it.at as usize].parent = task.at;
                }
                self.records[task.at as usize] =
                    ForkedTask { pending: 2, sum: 0, ..self.records[task.at as usize] };
                self.deques[thread].tasks.push_back(smaller);
                self.run(thread, larger, script);
            }
            ForkJoinStep::Joined(at, value) => self.join(thread, at, value, script),
            ForkJoinStep::Pop => self.pop(thread, script),
            ForkJoinStep::Look => {
                if self.done >= self.deques[thread].begun || self.alone {
                    return false;
                }
                let victim = self.victim(thread);
                let of = |line| Act::Load(self.deque(victim, line));
                script.extend([of(HEAD), of(FOOT), Act::Decide(ForkJoinStep::Peek(victim))]);
            }
            ForkJoinStep::Peek(victim) => {
                if self.deques[victim].tasks.is_empty() {
                    return self.look_again(script);
                }
                script.extend([
                    Act::Load(self.slot(victim, 0)),
                    Act::Update(self.deque(victim, HEAD)),
                    Act::Decide(ForkJoinStep::Steal(victim)),
                ]);
            }
            ForkJoinStep::Steal(victim) => {
                let of = &mut self.deques[victim];
                let Some(task) = of.tasks.pop_front() else { return self.look_again(script) };
                of.taken += 1;
                self.run(thread, task, script);
            }
        }
        false
    }

    /// Adds the acts of a task up to its next decision.
    fn run(&self, thread: usize, task: ForkTask, script: &mut Vec<Act>) {
        script.push(Act::Compute(INSTRUCTIONS));
        if let Some(value) = task.value() {
            self.over(task.at, value, script);
            return;
        }
        let record = |task: ForkTask| Act::Store(MemoryLine::Common(task.at));
        let [larger, smaller] = task.children();
        let free = self.deques[thread].tasks.len();
        script.extend([
            record(larger),
            record(smaller),
            record(task),
            Act::Store(self.slot(thread, free)),
            Act::Store(self.deque(thread, FOOT)),
            Act::Decide(ForkJoinStep::Forked(task)),
        ]);
    }

    /// Finishes a task and passes its value to the parent task.
    fn over(&self, at: u32, value: u64, script: &mut Vec<Act>) {
        if at > 0 {
            let parent = self.records[at as usize].parent;
            let line = MemoryLine::Common;
            script.extend([Act::Load(line(at)), Act::Update(line(parent))]);
        }
        script.push(Act::Decide(ForkJoinStep::Joined(at, value)));
    }

    fn join(&mut self, thread: usize, at: u32, value: u64, script: &mut Vec<Act>) {
        if at == 0 {
            (self.done, self.results) = (self.done + 1, self.results + value);
            script.push(Act::Update(self.done_line()));
            self.seek(thread, script);
            return;
        }
        let parent = self.records[at as usize].parent;
        let record = &mut self.records[parent as usize];
        (record.pending, record.sum) = (record.pending - 1, record.sum + value);
        match *record {
            ForkedTask { pending: 0, sum, .. } => self.over(parent, sum, script),
            _ => self.seek(thread, script),
        }
    }

    /// Makes the thread look into its own deque next.
    fn seek(&self, thread: usize, script: &mut Vec<Act>) {
        script.extend([
            Act::Store(self.deque(thread, FOOT)),
            Act::Load(self.deque(thread, HEAD)),
            Act::Decide(ForkJoinStep::Pop),
        ]);
    }

    fn pop(&mut self, thread: usize, script: &mut Vec<Act>) {
        let deque = &mut self.deques[thread];
        let Some(task) = deque.tasks.pop_back() else {
            _ = self.look_again(script);
            return;
        };
        // The last one may be what a thief is after: who moves the head has it.
        if deque.tasks.is_empty() {
            deque.taken += 1;
            script.push(Act::Update(self.deque(thread, HEAD)));
        }
        self.run(thread, task, script);
    }

    fn look_again(&self, script: &mut Vec<Act>) -> bool {
        script.extend([Act::Load(self.done_line()), Act::Decide(ForkJoinStep::Look)]);
        true
    }

    /// The next thread to steal from; a thread tries the other threads in turn.
    fn victim(&mut self, thread: usize) -> usize {
        let threads = self.deques.len();
        let victim = self.deques[thread].victim;
        let next = (victim + 1) % threads;
        self.deques[thread].victim = if next == thread { (next + 1) % threads } else { next };
        victim
    }

    fn deque(&self, thread: usize, line: u32) -> MemoryLine {
        MemoryLine::Common(tasks(self.number) + thread as u32 * DEQUE + line)
    }

    fn slot(&self, thread: usize, more: usize) -> MemoryLine {
        self.deque(thread, SLOTS + self.deques[thread].slot(more) / WORDS)
    }

    fn done_line(&self) -> MemoryLine {
        MemoryLine::Common(tasks(self.number) + self.deques.len() as u32 * DEQUE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use corehop_plan::workload::fork_join::fibonacci;

    /// Runs a thread until its round is over or the thread has found no work `looks` times; returns the number
    /// computed.
    fn run(tree: &mut ForkJoinTree, thread: usize, mut looks: u32, script: &mut Vec<Act>) -> u64 {
        let mut computed = 0;
        while let Some(&Act::Decide(choice)) = script.last() {
            computed += script.iter().filter(|act| matches!(act, Act::Compute(_))).count() as u64;
            if tree.decide(thread, choice, script) {
                looks -= 1;
                if looks == 0 {
                    break;
                }
            }
        }
        computed
    }

    fn begin() -> Vec<Act> {
        vec![Act::Decide(ForkJoinStep::Begin)]
    }

    #[test]
    fn one_thread_alone_does_every_task_once_and_the_sum_is_the_number() {
        for number in [1, 2, 3, 10] {
            let mut tree = ForkJoinTree::new(number, 2, true);
            let mut script = begin();
            assert_eq!(run(&mut tree, 1, 99, &mut script), u64::from(tasks(number)));
            assert_eq!((script.len(), tree.results()), (0, (1, fibonacci(number))));
        }
    }

    #[test]
    fn a_thief_takes_the_oldest_task_and_the_last_of_both_joins() {
        let mut tree = ForkJoinTree::new(4, 2, false);
        let (mut first, mut thief) = (begin(), begin());
        // The first forks 4 into 3 and 2, and 3 into 2 and 1; the thief has nothing yet.
        tree.decide(0, ForkJoinStep::Begin, &mut first);
        for number in [4, 3] {
            let Some(&Act::Decide(choice)) = first.last() else { panic!("{first:?}") };
            assert!(
                matches!(choice, ForkJoinStep::Forked(task) if task.number == number),
                "{choice:?}"
            );
            tree.decide(0, choice, &mut first);
        }
        let numbers = |tree: &ForkJoinTree| -> Vec<u32> {
            tree.deques[0].tasks.iter().map(|it| it.number).collect()
        };
        assert_eq!(numbers(&tree), [2, 1]);
        // The three tasks of 2, then 1, then it looks in vain.
        assert_eq!(run(&mut tree, 1, 2, &mut thief), 4);
        assert!(numbers(&tree).is_empty());
        // The tasks of the other 2. The round is over for both.
        assert_eq!(run(&mut tree, 0, 2, &mut first), 3);
        assert_eq!(tree.results(), (1, 3));
        assert_eq!(run(&mut tree, 1, 2, &mut thief), 0);
        assert_eq!((first.len(), thief.len()), (0, 0));
    }

    #[test]
    fn a_thread_that_comes_late_finds_its_round_over() {
        let mut tree = ForkJoinTree::new(5, 3, false);
        for _ in 0..2 {
            run(&mut tree, 0, 99, &mut begin());
        }
        for _ in 0..2 {
            assert_eq!(run(&mut tree, 2, 99, &mut begin()), 0);
        }
        assert_eq!(tree.results(), (2, 10));
    }
}
