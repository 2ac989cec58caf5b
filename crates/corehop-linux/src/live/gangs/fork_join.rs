// SPDX-License-Identifier: MIT OR Apache-2.0
//! The memory of a fork-join program: task records, and a deque for each thread from which other threads steal.
//!
//! The deque is that of Chase and Lev ("Dynamic circular work-stealing deque", SPAA 2005), with the memory orders of
//! Lê and others (PPoPP 2013). The deque has an entry for every possible task, so the deque never grows.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

use corehop_plan::workload::fork_join::{ForkTask, tasks};

/// The low bits of a record's first word hold the number of unfinished child tasks; the bits above hold the sum so
/// far.
const PENDING_BITS: u32 = 2;
const PENDING: u64 = (1 << PENDING_BITS) - 1;

/// A task's record, on its own cache line.
#[derive(Debug, Default)]
#[repr(align(64))]
struct ForkJoinRecord {
    sum_and_pending: AtomicU64,
    parent: AtomicU32,
}

#[derive(Debug, Default)]
#[repr(align(64))]
struct DequeCursor(AtomicU32);

/// A deque: the position where thieves take tasks, the position of the owner, and the tasks.
#[derive(Debug, Default)]
#[repr(align(64))]
struct StealDeque {
    head: DequeCursor,
    foot: DequeCursor,
    tasks: [AtomicU32; ForkTask::SLOTS],
}

/// The tree of tasks on which the threads work.
#[derive(Debug)]
pub(super) struct SharedTaskTree {
    records: Vec<ForkJoinRecord>,
    deques: Vec<StealDeque>,
    /// The number of finished rounds.
    done: DequeCursor,
    /// The sum of the results of the finished rounds.
    results: AtomicU64,
}

impl StealDeque {
    const fn place(&self, at: u32) -> &AtomicU32 {
        &self.tasks[at as usize % ForkTask::SLOTS]
    }

    /// Adds a task; only the owner of the deque calls this function.
    #[inline]
    fn push(&self, task: ForkTask) {
        let foot = self.foot.0.load(Ordering::Relaxed);
        self.place(foot).store(task.word(), Ordering::Relaxed);
        // A fence, and no release store: a thief may read what a later pop has put there.
        fence(Ordering::Release);
        self.foot.0.store(foot.wrapping_add(1), Ordering::Relaxed);
    }

    /// Takes the newest task; only the owner of the deque calls this function.
    #[inline]
    fn pop(&self) -> Option<ForkTask> {
        let foot = self.foot.0.load(Ordering::Relaxed);
        // Empty: it stays as it is, for thieves leave nothing behind. The numbers of places may wrap.
        if foot == self.head.0.load(Ordering::Relaxed) {
            return None;
        }
        let last = foot.wrapping_sub(1);
        self.foot.0.store(last, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        let head = self.head.0.load(Ordering::Relaxed);
        let left = last.wrapping_sub(head).cast_signed();
        if left > 0 {
            return Some(self.task(last));
        }
        // The last one, which a thief may be after; or it was taken meanwhile.
        let mine = left == 0 && self.take(head);
        self.foot.0.store(foot, Ordering::Relaxed);
        mine.then(|| self.task(last))
    }

    /// Takes the oldest task for another thread.
    #[inline]
    fn steal(&self) -> Option<ForkTask> {
        let head = self.head.0.load(Ordering::Acquire);
        fence(Ordering::SeqCst);
        let foot = self.foot.0.load(Ordering::Acquire);
        if foot.wrapping_sub(head).cast_signed() <= 0 {
            return None;
        }
        let task = self.task(head);
        self.take(head).then_some(task)
    }

    fn task(&self, at: u32) -> ForkTask {
        ForkTask::of_word(self.place(at).load(Ordering::Relaxed))
    }

    /// Whether this thread, and no other, advances the head from this position.
    fn take(&self, head: u32) -> bool {
        let next = head.wrapping_add(1);
        let (order, lost) = (Ordering::SeqCst, Ordering::Relaxed);
        self.head.0.compare_exchange(head, next, order, lost).is_ok()
    }
}

impl SharedTaskTree {
    /// Creates the tree for `threads` threads.
    pub(super) fn new(number: u32, threads: usize) -> Self {
        Self {
            records: std::iter::repeat_with(ForkJoinRecord::default)
                .take(tasks(number) as usize)
                .collect(),
            deques: std::iter::repeat_with(StealDeque::default).take(threads).collect(),
            done: DequeCursor::default(),
            results: AtomicU64::new(0),
        }
    }

    /// The size of a tree in bytes.
    pub(super) fn bytes(number: u32, threads: u64) -> u64 {
        let deque = size_of::<StealDeque>() as u64;
        u64::from(tasks(number)) * size_of::<ForkJoinRecord>() as u64 + threads * deque
    }

    /// The sum of the results of all rounds.
    pub(super) fn results(&self) -> u64 {
        self.results.load(Ordering::Relaxed)
    }

    /// The number of finished rounds.
    #[inline]
    pub(super) fn done(&self) -> u32 {
        self.done.0.load(Ordering::Acquire)
    }

    /// The newest task of a thread's own deque.
    #[inline]
    pub(super) fn pop(&self, thread: usize) -> Option<ForkTask> {
        self.deques[thread].pop()
    }

    /// The oldest task of another thread's deque.
    #[inline]
    pub(super) fn steal(&self, victim: usize) -> Option<ForkTask> {
        self.deques[victim].steal()
    }

    /// Executes a task and the larger part of its forks, down to a task with a known result.
    #[inline]
    pub(super) fn run(&self, thread: usize, mut task: ForkTask) {
        loop {
            if let Some(value) = task.value() {
                self.join(task.at, value);
                return;
            }
            let [larger, smaller] = task.children();
            for it in [larger, smaller] {
                self.records[it.at as usize].parent.store(task.at, Ordering::Relaxed);
            }
            self.records[task.at as usize].sum_and_pending.store(2, Ordering::Relaxed);
            self.deques[thread].push(smaller);
            task = larger;
        }
    }

    /// Finishes a task; the last child task finishes its parent too.
    #[inline]
    fn join(&self, mut at: u32, mut value: u64) {
        while at > 0 {
            let parent = self.records[at as usize].parent.load(Ordering::Relaxed);
            // One fewer is pending, and the sum is larger.
            let more = (value << PENDING_BITS).wrapping_sub(1);
            let record = &self.records[parent as usize].sum_and_pending;
            let sum = record.fetch_add(more, Ordering::AcqRel).wrapping_add(more);
            if sum & PENDING > 0 {
                return;
            }
            (at, value) = (parent, sum >> PENDING_BITS);
        }
        self.results.fetch_add(value, Ordering::Relaxed);
        self.done.0.fetch_add(1, Ordering::Release);
    }

    /// Reads the records of a task and all tasks below it, in the order in which one thread executes them.
    pub(super) fn read(&self, task: ForkTask) -> u64 {
        let record = &self.records[task.at as usize];
        let of_record = record.sum_and_pending.load(Ordering::Relaxed);
        let read = of_record + u64::from(record.parent.load(Ordering::Relaxed));
        match task.value() {
            Some(value) => read + value,
            None => task.children().map(|it| self.read(it)).iter().sum::<u64>() + read,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(at: u32) -> ForkTask {
        ForkTask { at, number: 7 }
    }

    #[test]
    fn its_thread_takes_the_newest_task_and_a_thief_the_oldest() {
        let deque = StealDeque::default();
        for round in 0..100 {
            (0..3).for_each(|at| deque.push(task(3 * round + at)));
            assert_eq!(deque.steal(), Some(task(3 * round)));
            assert_eq!(deque.pop(), Some(task(3 * round + 2)));
            assert_eq!(deque.pop(), Some(task(3 * round + 1)));
            assert_eq!((deque.pop(), deque.steal()), (None, None));
        }
    }

    #[test]
    fn of_a_task_that_is_stolen_from_many_sides_there_is_one() {
        let deque = StealDeque::default();
        let taken = AtomicU32::new(0);
        let over = AtomicU32::new(0);
        let sum = AtomicU64::new(0);
        let count = |task: Option<ForkTask>| {
            if let Some(task) = task {
                taken.fetch_add(1, Ordering::Relaxed);
                sum.fetch_add(u64::from(task.at), Ordering::Relaxed);
            }
        };
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    while over.load(Ordering::Acquire) == 0 {
                        count(deque.steal());
                    }
                });
            }
            for at in 0..20_000_u32 {
                deque.push(task(at));
                if at % 3 > 0 {
                    count(deque.pop());
                }
                // There are not more tasks than places.
                if at % 16 == 15 {
                    while let Some(task) = deque.pop() {
                        count(Some(task));
                    }
                }
            }
            while let Some(task) = deque.pop() {
                count(Some(task));
            }
            over.store(1, Ordering::Release);
        });
        assert_eq!(taken.into_inner(), 20_000);
        assert_eq!(sum.into_inner(), 20_000 * 19_999 / 2);
    }
}
