// SPDX-License-Identifier: MIT OR Apache-2.0
//! The states in which control intervals of a trial begin.
//!
//! Threads that were placed on one CPU and released stay there for a while, because the kernel wakes a thread where
//! it ran last. An interval that begins in this way is not a control. So each control begins in a state that the
//! kernel itself produced in the looks before the trial, and each of these states is used about equally often.

use super::looks::Looks;
use corehop_plan::host::Move;
use corehop_plan::units::{Cpu, CpuList};

/// The number of states that controls use before the first state is used again.
const TURNS: usize = 8;

/// The recorded states of some threads before they were placed, used in turn.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Controls {
    threads: Vec<u32>,
    states: Vec<Vec<Cpu>>,
    /// The number of controls so far.
    begun: usize,
}

impl Controls {
    /// The states of the threads of these moves in each look that shows all of them. The list is empty if no look
    /// shows all threads; then controls begin where the threads are.
    pub(super) fn of(moves: &[Move], alone: &Looks) -> Self {
        let threads: Vec<u32> = moves.iter().map(|it| it.tid).collect();
        Self { states: alone.together(&threads), threads, begun: 0 }
    }

    /// Returns the moves to the next control state.
    pub(super) fn next(&mut self) -> Vec<Move> {
        if self.states.is_empty() {
            return Vec::new();
        }
        let state = &self.states[self.begun * self.states.len() / TURNS % self.states.len()];
        self.begun += 1;
        let to = |(&tid, &cpu): (&u32, &Cpu)| Move { tid, cpus: CpuList::new([cpu]) };
        self.threads.iter().zip(state).map(to).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use corehop_plan::host::{ActiveThread, Activity};

    fn looks(cpus: &[[u32; 2]]) -> Looks {
        let mut looks = Looks::default();
        for at in cpus {
            let thread = |(tid, cpu): (u32, u32)| ActiveThread {
                tid,
                busy_ns: 1,
                cpu: Some(Cpu(cpu)),
                ..ActiveThread::default()
            };
            let threads = [(1, at[0]), (2, at[1])].map(thread).to_vec();
            looks.take(&Activity { threads, ..Activity::default() });
        }
        looks
    }

    fn moves() -> Vec<Move> {
        [1, 2].map(|tid| Move { tid, cpus: CpuList::new([Cpu(0)]) }).to_vec()
    }

    #[test]
    fn controls_begin_as_often_apart_as_the_kernel_had_the_threads_apart() {
        let alone = looks(&[[0, 1], [0, 0], [1, 0], [0, 1]]);
        let mut controls = Controls::of(&moves(), &alone);
        let apart = (0..8).filter(|_| {
            let state = controls.next();
            state[0].cpus != state[1].cpus
        });
        assert_eq!(apart.count(), 6);
    }

    #[test]
    fn threads_that_were_not_looked_at_together_begin_where_they_are() {
        let mut controls = Controls::of(&moves(), &Looks::default());
        assert!(controls.next().is_empty());
    }
}
