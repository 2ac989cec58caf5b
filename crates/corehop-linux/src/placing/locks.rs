// SPDX-License-Identifier: MIT OR Apache-2.0
//! Detects, from futex calls, locks that one thread holds when another wants them.
//!
//! While futex calls are counted, every system call on the host takes longer. So futex calls are counted in only one
//! window of ten.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Instant;

use corehop_plan::host::locks::handed_over;
use corehop_plan::host::{Activity, Evidence};

use super::sources::{EvidenceSource, Off};
use crate::bpf::BpfError;
use crate::bpf::object::Attachment;
use crate::bpf::sharing::WakeGraph;

/// The number of windows from one counted window to the next.
pub const ONE_IN: u64 = 10;

/// Counts the futex calls of followed processes in every tenth window, starting with the first.
#[derive(Debug)]
pub(super) struct LockSampler {
    graph: Arc<WakeGraph>,
    windows: u64,
    /// The attachment in a counted window, with its start time.
    counting: Option<(Attachment, Instant)>,
}

impl LockSampler {
    pub(super) fn begin(graph: Arc<WakeGraph>) -> Result<Self, BpfError> {
        let counting = Some((graph.count_locks()?, Instant::now()));
        Ok(Self { graph, windows: 0, counting })
    }
}

impl EvidenceSource for LockSampler {
    fn evidence(&self) -> Evidence {
        Evidence::Locks
    }

    fn take(&mut self, window: &mut Activity) -> Result<(), Off> {
        if let Some((attachment, begin)) = self.counting.take() {
            drop(attachment);
            let seconds = begin.elapsed().as_secs_f64();
            let alive: HashSet<u32> = window.threads.iter().map(|it| it.tid).collect();
            let mut uses = self.graph.take_words()?;
            uses.retain(|it| alive.contains(&it.tid));
            window.shared.extend(handed_over(uses, seconds));
        }
        self.windows += 1;
        if self.windows.is_multiple_of(ONE_IN) {
            let attachment = self.graph.count_locks().map_err(|it| Off::Kernel(Arc::new(it)))?;
            self.counting = Some((attachment, Instant::now()));
        }
        Ok(())
    }
}

#[cfg(test)]
#[expect(clippy::print_stderr, reason = "a skip says why")]
mod tests {
    use super::*;
    use corehop_plan::host::{ActiveThread, DataSharing};
    use corehop_system::thread::current_tid;
    use std::collections::{BTreeMap, BTreeSet};
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::{Mutex, mpsc};
    use std::time::Duration;

    /// The index of each thread's lock, by thread ID.
    type Gangs = BTreeMap<u32, usize>;

    /// Checks that the reported pairs are exactly the pairs with a common lock.
    fn judge(shared: &[DataSharing], gangs: &Gangs) -> Result<(), String> {
        let ours = shared.iter().filter(|it| [it.a, it.b].iter().all(|it| gangs.contains_key(it)));
        let found: BTreeSet<(u32, u32)> = ours.map(|it| (it.a, it.b)).collect();
        let pairs = gangs.keys().flat_map(|a| gangs.keys().map(move |b| (*a, *b)));
        let true_ones = pairs.filter(|(a, b)| a < b && gangs[a] == gangs[b]).collect();
        if found == true_ones { Ok(()) } else { Err(format!("{found:?}, not {true_ones:?}")) }
    }

    /// Runs threads, each using the lock with its index, until `watch` returns.
    fn run(locks: &[usize], hold: Duration, watch: impl FnOnce(&Gangs)) {
        let mutexes: Vec<Mutex<u64>> = locks.iter().map(|_| Mutex::new(0)).collect();
        let end = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let (tell, told) = mpsc::channel();
            for &lock in locks {
                let (tell, end, mutex) = (tell.clone(), &end, &mutexes[lock]);
                scope.spawn(move || {
                    tell.send((current_tid(), lock)).unwrap();
                    while !end.load(Ordering::Relaxed) {
                        let mut count = mutex.lock().unwrap();
                        *count += 1;
                        let begin = Instant::now();
                        while begin.elapsed() < hold {
                            std::hint::spin_loop();
                        }
                    }
                });
            }
            let gangs: Gangs = told.iter().take(locks.len()).collect();
            // What a failed assertion leaves would run on.
            let watched = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| watch(&gangs)));
            end.store(true, Ordering::Relaxed);
            watched.unwrap();
        });
    }

    fn graph() -> Option<Arc<WakeGraph>> {
        let graph = WakeGraph::open().and_then(|it| it.count_locks().map(|_| it));
        let graph = graph.inspect_err(|error| eprintln!("skipped: {error}")).ok()?;
        graph.follow(std::process::id()).unwrap();
        Some(Arc::new(graph))
    }

    fn window(gangs: &Gangs) -> Activity {
        let active =
            |&tid: &u32| ActiveThread { tid, pid: std::process::id(), ..ActiveThread::default() };
        Activity { threads: gangs.keys().map(active).collect(), ..Activity::default() }
    }

    #[test]
    fn two_locks_of_two_threads_each_are_two_pairs_and_a_swapped_pair_is_found() {
        let Some(graph) = graph() else { return };
        run(&[1, 0, 0, 1], Duration::from_micros(20), |gangs| {
            let mut source = LockSampler::begin(graph).unwrap();
            std::thread::sleep(Duration::from_millis(500));
            let mut window = window(gangs);
            source.take(&mut window).unwrap();
            judge(&window.shared, gangs).unwrap();
            assert!(window.shared.iter().all(|it| it.seen > 0 && it.per_second > 0.0));
            // The second thread at the lock of the first, which is not its own.
            let mut planted = gangs.clone();
            let tids: Vec<u32> = gangs.keys().copied().collect();
            let other = *tids.iter().find(|it| gangs[it] != gangs[&tids[0]]).unwrap();
            planted.insert(other, gangs[&tids[0]]);
            planted.insert(tids[0], gangs[&other]);
            assert!(judge(&window.shared, &planted).is_err(), "{:?}", window.shared);
        });
    }

    #[test]
    fn locks_that_are_free_when_they_are_taken_make_no_pair() {
        let Some(graph) = graph() else { return };
        run(&[0, 1, 2], Duration::from_micros(20), |gangs| {
            let mut source = LockSampler::begin(graph).unwrap();
            std::thread::sleep(Duration::from_millis(200));
            let mut window = window(gangs);
            source.take(&mut window).unwrap();
            assert_eq!(window.shared, []);
        });
    }

    #[test]
    fn one_window_of_ten_is_counted_the_first_among_them() {
        let Some(graph) = graph() else { return };
        let mut source = LockSampler::begin(graph).unwrap();
        let mut counted = Vec::new();
        for _ in 0..21 {
            counted.push(source.counting.is_some());
            source.take(&mut Activity::default()).unwrap();
        }
        let at: Vec<usize> = (0..21).filter(|&at| counted[at]).collect();
        assert_eq!(at, [0, 10, 20]);
    }
}
