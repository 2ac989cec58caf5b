// SPDX-License-Identifier: MIT OR Apache-2.0
//! Counts completed system calls as a proxy for progress.
//!
//! While calls are counted, every system call on the host takes longer. If the host makes few calls, all calls are
//! counted. If there are many, calls are counted only at the end of each window and extrapolated. The counted part is
//! so short that counting costs a hundredth of the host's CPU time. While a placement is tried, all calls are counted
//! in both arms, because uncounted gaps would add noise.

use std::mem;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::bpf::object::Attachment;
use crate::bpf::sharing::{Calls, WakeGraph};
use crate::bpf::{BpfError, configured_cpus};

/// The share of the host's CPU time that counting may take outside trials.
const COST: f64 = 0.01;
/// The time that counting adds to a system call, in seconds (`place/progress-call-ns` of `make bench-place`, rounded
/// up).
const PER_CALL: f64 = 200e-9;
/// The CPU time to start and stop counting, in seconds (`place/progress-switch-us`).
const SWITCH: f64 = 700e-6;
/// The counted share of a window above which the whole window is counted.
const WHOLE: f64 = 0.5;
/// The smallest counted share of a window.
const LEAST: f64 = 0.05;
/// The shortest useful counting time. A shorter counting time shows neither the rate of calls nor the calls in the rest
/// of a window.
const SHORTEST: Duration = Duration::from_millis(1);

/// The counts of system calls in some windows.
#[derive(Debug)]
pub(crate) struct CallCount {
    graph: Arc<WakeGraph>,
    counting: Option<CallCounting>,
    /// The number of the host's CPUs. The number is stored because reading it opens a file.
    cpus: usize,
    /// Whether a placement is tried.
    closely: bool,
    /// The host's system calls per second.
    rate: f64,
    progress: f64,
    looked: Instant,
}

/// A count of calls in progress.
#[derive(Debug)]
struct CallCounting {
    _attachment: Attachment,
    begin: Instant,
    before: Calls,
}

impl CallCount {
    /// Starts counting calls with these numbers, all of them in the first window.
    pub(super) fn begin(graph: Arc<WakeGraph>, numbers: &[u32]) -> Result<Self, BpfError> {
        graph.wish_calls(numbers);
        let counting = Some(CallCounting::begin(&graph)?);
        let (cpus, looked) = (configured_cpus(), Instant::now());
        Ok(Self { graph, counting, cpus, closely: false, rate: 0.0, progress: 0.0, looked })
    }

    /// Sets whether a placement is tried in the next window.
    pub(super) const fn look_closely(&mut self, closely: bool) {
        self.closely = closely;
    }

    /// The share of a window in which system calls are counted.
    fn share(&self, window: Duration) -> f64 {
        if self.closely { 1.0 } else { share(self.rate, self.cpus, COST, window) }
    }

    /// The time from the start of a window after which counting starts.
    pub(super) fn begins_after(&self, window: Duration) -> Duration {
        if self.counting.is_some() {
            Duration::ZERO
        } else {
            window.mul_f64(1.0 - self.share(window))
        }
    }

    /// Starts counting if it is not running.
    pub(super) fn count(&mut self) {
        if self.counting.is_none() {
            // What cannot be counted is not told at the end of the window.
            self.counting = CallCounting::begin(&self.graph).ok();
        }
    }

    /// The estimated number of calls since the start; `None` if no calls were counted in this window.
    pub(super) fn now(&mut self) -> Option<f64> {
        let now = Instant::now();
        let span = now - mem::replace(&mut self.looked, now);
        let CallCounting { begin, before, .. } = self.counting.as_ref()?;
        let (calls, counted) = (self.graph.calls(), now - *begin);
        let stands_for_more = counted < span;
        if stands_for_more && counted < SHORTEST {
            return None;
        }
        let [ended, finished] =
            [calls.ended - before.ended, calls.finished - before.finished].map(|it| it as f64);
        let seconds = counted.as_secs_f64();
        let times = if stands_for_more { span.as_secs_f64() / seconds } else { 1.0 };
        self.progress += finished * times;
        if counted >= SHORTEST {
            self.rate = ended / seconds;
        }
        if self.share(span) < 1.0 {
            self.counting = None;
        } else if let Some(counting) = &mut self.counting {
            (counting.begin, counting.before) = (now, calls);
        }
        Some(self.progress)
    }
}

impl CallCounting {
    fn begin(graph: &WakeGraph) -> Result<Self, BpfError> {
        let attachment = graph.count_calls()?;
        Ok(Self { _attachment: attachment, before: graph.calls(), begin: Instant::now() })
    }
}

/// The counted share of a window at this rate of calls.
fn share(per_second: f64, cpus: usize, cost: f64, window: Duration) -> f64 {
    let all = per_second * PER_CALL;
    if cost * cpus as f64 >= WHOLE * all {
        return 1.0;
    }
    let left = cost * cpus as f64 - SWITCH / window.as_secs_f64();
    (left / all).clamp(LEAST, 1.0)
}

#[cfg(test)]
#[expect(clippy::print_stderr, reason = "a skip says why")]
mod tests {
    use super::*;
    use std::fs::File;
    use std::os::unix::fs::FileExt as _;
    use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
    use std::sync::{Mutex, PoisonError};
    use std::thread::sleep;

    #[test]
    fn as_many_calls_are_counted_as_cost_a_hundredth_of_the_cpu_time() {
        let window = Duration::from_millis(100);
        let is = |per_second: f64, cpus, expected: f64| {
            let found = share(per_second, cpus, COST, window);
            assert!((found - expected).abs() < 1e-9, "{per_second} on {cpus}: {found}");
        };
        for few in [0.0, 10_000.0, 200_000.0] {
            is(few, 2, 1.0);
        }
        // 0.7 ms of the switch and 500,000 × 200 ns × 13 ms are 2 ms in 100.
        is(500_000.0, 2, 0.13);
        is(50e6, 2, LEAST);
        is(500_000.0, 64, 1.0);
    }

    /// Writes by this process in some windows.
    #[derive(Debug)]
    struct Counted {
        /// The number of writes made before and after the last look.
        made: [f64; 2],
        /// The number of writes that the last look reported.
        told: f64,
        /// The share of a window that is counted from the last look on.
        share: f64,
    }

    impl Counted {
        /// Whether every write was reported, and no other write. One write may be in progress at either look at the
        /// writer.
        fn is_exact(&self) -> bool {
            (self.made[0] - 1.0..=self.made[1] + 1.0).contains(&self.told)
        }

        fn is_near(&self) -> bool {
            (0.3..3.0).contains(&(self.told / self.made[1]))
        }
    }

    /// Serialises the tests, because the calls of all threads in this process are counted.
    static ALONE: Mutex<()> = Mutex::new(());

    fn counted(pause: Duration, closely: bool) -> Option<Counted> {
        let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let graph = match WakeGraph::open() {
            Ok(graph) => Arc::new(graph),
            Err(error) => {
                eprintln!("skipped: {error}");
                return None;
            }
        };
        graph.follow(std::process::id()).unwrap();
        let window = Duration::from_millis(60);
        let mut count = CallCount::begin(graph, &[libc::SYS_pwrite64 as u32]).unwrap();
        count.look_closely(closely);
        let (made, end) = (AtomicU64::new(0), AtomicBool::new(false));
        let made_now = || made.load(Ordering::SeqCst) as f64;
        let (made, told) = std::thread::scope(|scope| {
            scope.spawn(|| {
                let file = File::create("/dev/null").unwrap();
                while !end.load(Ordering::Relaxed) {
                    file.write_at(b"x", 0).unwrap();
                    made.fetch_add(1, Ordering::SeqCst);
                    sleep(pause);
                }
            });
            let (mut made, mut told) = ([0.0; 2], 0.0);
            for _ in 0..10 {
                let end = Instant::now() + window;
                sleep(count.begins_after(window));
                count.count();
                sleep(end.saturating_duration_since(Instant::now()));
                // However long this thread waits for a CPU: what is told was made before or between these.
                let before = made_now();
                told = count.now().unwrap_or(told);
                made = [before, made_now()];
            }
            end.store(true, Ordering::Relaxed);
            (made, told)
        });
        Some(Counted { made, told, share: count.share(window) })
    }

    /// In the test, one counted block ends where the next begins, so a complete count is known however little time has
    /// passed.
    #[test]
    fn a_look_right_after_another_is_told_where_everything_is_counted() {
        let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let graph = match WakeGraph::open() {
            Ok(graph) => Arc::new(graph),
            Err(error) => return eprintln!("skipped: {error}"),
        };
        graph.follow(std::process::id()).unwrap();
        let mut count = CallCount::begin(graph, &[libc::SYS_pwrite64 as u32]).unwrap();
        count.look_closely(true);
        let file = File::create("/dev/null").unwrap();
        for written in 1..=100 {
            file.write_at(b"x", 0).unwrap();
            assert!(count.now().is_some_and(|told| told >= f64::from(written)), "{written}");
            assert!(count.now().is_some(), "{written}");
        }
    }

    const ATTEMPTS: u32 = 5;

    #[test]
    fn few_calls_are_told_exactly_whatever_others_do_while_a_placement_is_tried() {
        let Some(counted) = counted(Duration::from_millis(1), true) else { return };
        assert!(counted.is_exact() && (counted.share - 1.0).abs() < 1e-9, "{counted:?}");
        assert!(counted.told > 20.0, "{counted:?}");
    }

    /// If other processes make many calls meanwhile, only some of the few calls are counted.
    #[test]
    fn few_calls_are_told_exactly_where_others_make_few() {
        for attempt in 1..=ATTEMPTS {
            let Some(counted) = counted(Duration::from_millis(1), false) else { return };
            let is_whole = (counted.share - 1.0).abs() < 1e-9;
            if is_whole && counted.is_exact() {
                return;
            }
            eprintln!("attempt {attempt} of {ATTEMPTS}: others made many calls: {counted:?}");
            assert!(counted.told > 0.0, "{counted:?}");
        }
        eprintln!("skipped: the calls of others on this host are many");
    }

    /// If other processes use the CPU, the last window has few calls, or the windows are not comparable.
    #[test]
    fn many_calls_are_told_nearly_by_a_part_of_each_window() {
        let mut seen = Vec::new();
        for attempt in 1..=ATTEMPTS {
            let Some(counted) = counted(Duration::ZERO, false) else { return };
            if counted.share < WHOLE && counted.is_near() {
                return;
            }
            eprintln!("attempt {attempt} of {ATTEMPTS}: others had the CPU: {counted:?}");
            seen.push(counted);
        }
        panic!("all of many calls are counted each time, or wrongly: {seen:?}");
    }
}
