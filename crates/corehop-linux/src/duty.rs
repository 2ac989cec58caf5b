// SPDX-License-Identifier: MIT OR Apache-2.0
//! The duty budget: how long a measured job, its preemptor and the thread that answers exchanges may keep a CPU busy.
//!
//! Each CPU has one ledger in the whole process, which outlives phases, plans and threads. Before a step, the ledger
//! says how long the step must wait and how long it may take. After the step, its time is recorded. A thread knows
//! when it woke up and when it went to sleep. The kernel charges additional time: the entry to and exit from sleep,
//! and the start of the thread. [`settle`] records the difference to the kernel's accounting.

use std::cell::Cell;
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, PoisonError};

use corehop_plan::units::Cpu;

use corehop_system::clock::{monotonic_ns, read};

/// The length of the windows in which the budget limits the busy time of a CPU, in nanoseconds.
const WINDOW_NS: f64 = 100e6;
/// The largest busy time of a CPU in any window of [`WINDOW_NS`], in nanoseconds.
pub(crate) const BUDGET_NS: f64 = 50e6;
/// The part of the budget that steps may plan to use. The rest of the budget covers exchanges, and steps that take
/// longer than estimated.
pub(crate) const PLANNED_NS: f64 = 45e6;
/// The busy time at which walks give up. The rest of the budget covers work that cannot be interrupted: a flush, a
/// chunk of a walk, a page fault, and the time to the next clock reading on a host that stops the CPU meanwhile.
const STOP_NS: f64 = 48e6;

/// A busy span, in nanoseconds since some origin.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Span {
    from: f64,
    to: f64,
    /// The busy time of all spans before this span.
    before: f64,
}

/// The busy spans of one CPU.
#[derive(Debug, Default)]
struct CpuLedger {
    spans: VecDeque<Span>,
}

impl CpuLedger {
    /// Records a busy span. If recorded spans overlap, two threads used the CPU one after the other. The new span then
    /// moves behind the earlier span, so that it counts and leaves the window later rather than sooner.
    fn busy(&mut self, from: f64, to: f64) {
        let length = (to - from).max(0.0);
        match self.spans.back_mut() {
            // One span with the one before: there are thousands of short jobs in a window.
            Some(last) if from <= last.to + 1.0 => last.to += length,
            Some(&mut last) => {
                let before = last.before + last.to - last.from;
                self.spans.push_back(Span { from, to, before });
            }
            None => self.spans.push_back(Span { from, to, before: 0.0 }),
        }
        while self.spans.front().is_some_and(|span| span.to < to - WINDOW_NS) {
            self.spans.pop_front();
        }
    }

    /// The busy time from `since` on.
    fn busy_since(&self, since: f64) -> f64 {
        let first = self.spans.partition_point(|span| span.to <= since);
        let (Some(first), Some(last)) = (self.spans.get(first), self.spans.back()) else {
            return 0.0;
        };
        last.before + last.to - last.from - first.before - (since - first.from).max(0.0)
    }

    /// The time to wait at `now` before `need` more busy nanoseconds stay within `most` in any window. If `need` alone
    /// exceeds `most`, the wait lasts until the window is empty.
    fn wait(&self, now: f64, need: f64, most: f64) -> f64 {
        let need = need.min(most);
        let fits = |start: f64| self.busy_since(start + need - WINDOW_NS) + need <= most;
        if fits(now) { 0.0 } else { last(0.0, 2.0 * WINDOW_NS, |wait| !fits(now + wait)).1 }
    }

    /// The busy time from `now` on, with or without pauses, after which a step must give up.
    fn allowance(&self, now: f64) -> f64 {
        let fits = |more: f64| self.busy_since(now + more - WINDOW_NS) + more <= STOP_NS;
        if fits(STOP_NS) { STOP_NS } else { last(0.0, STOP_NS, fits).0 }
    }
}

/// The point between `low` and `high` up to which `holds` is true, bracketed from both sides.
fn last(mut low: f64, mut high: f64, holds: impl Fn(f64) -> bool) -> (f64, f64) {
    for _ in 0..40 {
        let middle = f64::midpoint(low, high);
        if holds(middle) { low = middle } else { high = middle }
    }
    (low, high)
}

/// The two ledgers of a CPU.
#[derive(Debug, Default)]
struct CpuLedgers {
    /// All busy time that the budget counts.
    all: CpuLedger,
    /// The busy time without preemptors, which are never real-time.
    urgent: CpuLedger,
}

/// The ledgers by CPU, with times of CLOCK_MONOTONIC.
static ACCOUNTS: Mutex<BTreeMap<Cpu, CpuLedgers>> = Mutex::new(BTreeMap::new());

thread_local! {
    /// The calling thread's time by the kernel's accounting at the last settlement, and the time that the thread has
    /// recorded since.
    static SETTLED: Cell<(i64, f64)> = const { Cell::new((0, 0.0)) };
}

fn of<R>(cpu: Cpu, work: impl FnOnce(&mut CpuLedgers) -> R) -> R {
    let mut accounts = ACCOUNTS.lock().unwrap_or_else(PoisonError::into_inner);
    work(accounts.entry(cpu).or_default())
}

fn monotonic() -> f64 {
    monotonic_ns() as f64
}

/// Records that the calling thread kept `cpu` busy for `length_ns` until `ago_ns` before now.
pub(crate) fn enter(cpu: Cpu, length_ns: f64, ago_ns: f64) {
    let (kernel, entered) = SETTLED.get();
    SETTLED.set((kernel, entered + length_ns));
    charge(cpu, length_ns, monotonic() - ago_ns);
}

/// Records that a thread of another process kept `cpu` busy until now.
pub(crate) fn enter_other(cpu: Cpu, length_ns: f64) {
    charge(cpu, length_ns, monotonic());
}

/// Records that a preemptor kept `cpu` busy.
pub(crate) fn enter_preemptor(cpu: Cpu, length_ns: f64, ago_ns: f64) {
    let to = monotonic() - ago_ns;
    of(cpu, |account| account.all.busy(to - length_ns, to));
}

/// Records for `cpu` the time that the kernel charged to the calling thread beyond the recorded time.
pub(crate) fn settle(cpu: Cpu) {
    let kernel = read(libc::CLOCK_THREAD_CPUTIME_ID);
    let (before, entered) = SETTLED.replace((kernel, 0.0));
    let unseen = (kernel - before) as f64 - entered;
    if unseen > 0.0 {
        charge(cpu, unseen, monotonic());
    }
}

fn charge(cpu: Cpu, length_ns: f64, to: f64) {
    of(cpu, |account| {
        account.all.busy(to - length_ns, to);
        account.urgent.busy(to - length_ns, to);
    });
}

/// The time to wait before `need_ns` more busy nanoseconds on `cpu` stay within the planned part of the budget.
pub(crate) fn wait_ns(cpu: Cpu, need_ns: f64) -> f64 {
    of(cpu, |account| account.all.wait(monotonic(), need_ns, PLANNED_NS))
}

/// The time to wait before an exchange of `need_ns`, which may use the part of the budget that jobs do not plan.
pub(crate) fn wait_for_exchange_ns(cpu: Cpu, need_ns: f64) -> f64 {
    of(cpu, |account| account.all.wait(monotonic(), need_ns, STOP_NS))
}

/// The busy nanoseconds on `cpu` from now on after which a real-time step must give up.
pub(crate) fn allowance_ns(cpu: Cpu) -> f64 {
    of(cpu, |account| account.urgent.allowance(monotonic()))
}

/// The busy nanoseconds on `cpu` from now on after which a real-time step and its preemptor must give up.
pub(crate) fn allowance_together_ns(cpu: Cpu) -> f64 {
    of(cpu, |account| account.all.allowance(monotonic()))
}

/// Whether steps stay within the planned part of the budget if they begin on idle CPUs; the steps are busy times and
/// absences, each with its CPU.
pub(crate) fn fits(steps: impl Iterator<Item = (Cpu, f64, bool)>) -> bool {
    let (mut ledgers, mut at) = (BTreeMap::<Cpu, CpuLedger>::new(), 0.0);
    for (cpu, length, busy) in steps {
        if busy {
            let ledger = ledgers.entry(cpu).or_default();
            ledger.busy(at, at + length);
            if ledger.busy_since(at + length - WINDOW_NS) > PLANNED_NS {
                return false;
            }
        }
        at += length;
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use corehop_plan::experiment::DrawStream;

    const MS: f64 = 1e6;

    /// The real busy spans, searched by a slow, simple method.
    #[derive(Default)]
    struct Twin(Vec<(f64, f64)>);

    impl Twin {
        fn busy_in(&self, begin: f64, end: f64) -> f64 {
            self.0.iter().map(|&(from, to)| (to.min(end) - from.max(begin)).max(0.0)).sum()
        }

        /// The largest busy time over all windows. A maximum lies in a window that begins or ends with a span, so no
        /// other window is checked.
        fn busiest(&self) -> f64 {
            let ends = self.0.iter().flat_map(|&(from, to)| [to, from + WINDOW_NS]);
            ends.map(|end| self.busy_in(end - WINDOW_NS, end)).fold(0.0, f64::max)
        }

        /// The first time from `now` on, in steps of 10 us, at which `need` fits.
        fn wait(&self, now: f64, need: f64, most: f64) -> f64 {
            let fits = |&wait: &f64| {
                let end = now + wait + need;
                self.busy_in(end - WINDOW_NS, f64::INFINITY) + need <= most
            };
            (0..20_000).map(|step| f64::from(step) * MS / 100.0).find(fits).unwrap()
        }
    }

    #[test]
    fn an_idle_cpu_need_not_wait() {
        assert!(CpuLedger::default().wait(0.0, 45.0 * MS, PLANNED_NS) <= 0.0);
        assert!((CpuLedger::default().allowance(0.0) - STOP_NS).abs() < 1.0);
    }

    #[test]
    fn a_full_window_waits_until_enough_has_left_it() {
        let mut ledger = CpuLedger::default();
        ledger.busy(0.0, 50.0 * MS);
        // Another 10 ms fit when 15 ms of the span lie more than 100 ms before their end.
        let wait = ledger.wait(50.0 * MS, 10.0 * MS, PLANNED_NS);
        assert!((wait - 55.0 * MS).abs() < 1.0, "{wait}");
        assert!(ledger.allowance(50.0 * MS) < 1.0);
        assert!((ledger.allowance(102.0 * MS) - STOP_NS).abs() < 1.0);
        let mut ledger = CpuLedger::default();
        ledger.busy(0.0, 30.0 * MS);
        assert!((ledger.allowance(30.0 * MS) - 18.0 * MS).abs() < 1.0);
    }

    #[test]
    fn spans_that_touch_are_one_and_what_is_entered_twice_counts_twice() {
        let mut ledger = CpuLedger::default();
        ledger.busy(0.0, 10.0 * MS);
        ledger.busy(10.0 * MS, 20.0 * MS);
        // The kernel's account of the way to sleep.
        ledger.busy(15.0 * MS, 20.0 * MS);
        ledger.busy(40.0 * MS, 50.0 * MS);
        let spans: Vec<(f64, f64)> = ledger.spans.iter().map(|span| (span.from, span.to)).collect();
        assert_eq!(spans, [(0.0, 25.0 * MS), (40.0 * MS, 50.0 * MS)]);
        for (since, busy) in [(-1.0, 35.0), (5.0, 30.0), (25.0, 10.0), (45.0, 5.0), (60.0, 0.0)] {
            assert!((ledger.busy_since(since * MS) - busy * MS).abs() < 1.0, "{since}");
        }
    }

    #[test]
    fn waits_are_those_of_the_slow_twin() {
        let mut draw = DrawStream::new(3, 0);
        for _ in 0..40 {
            let (mut ledger, mut twin, mut now) = (CpuLedger::default(), Twin::default(), 0.0);
            for _ in 0..30 {
                let length = draw.below(8_000) as f64 * 1e3;
                ledger.busy(now, now + length);
                twin.0.push((now, now + length));
                now += length + draw.below(9_000) as f64 * 1e3;
            }
            let need = draw.below(44_000) as f64 * 1e3;
            let (wait, slow) =
                (ledger.wait(now, need, PLANNED_NS), twin.wait(now, need, PLANNED_NS));
            assert!((wait - slow).abs() <= MS / 50.0, "{wait} {slow}");
        }
    }

    #[test]
    fn no_window_of_made_up_steps_is_above_half_whatever_they_take() {
        for seed in 0..30 {
            let (mut draw, mut ledger) = (DrawStream::new(seed, 0), CpuLedger::default());
            let (mut twin, mut now) = (Twin::default(), 0.0);
            for _ in 0..300 {
                let magnitude = draw.below(17);
                let need = draw.below(1 << magnitude) as f64 * 1e3;
                now += ledger.wait(now, need, PLANNED_NS);
                let mut left = ledger.allowance(now);
                // A job of up to four steps and rests, which takes up to three times what was estimated.
                let actual = need * (0.3 + draw.below(270) as f64 / 100.0);
                for _ in 0..=draw.below(4) {
                    let length = (actual / 3.0).min(left);
                    left -= length;
                    ledger.busy(now, now + length);
                    twin.0.push((now, now + length));
                    now += length + draw.below(3_000) as f64 * 1e3;
                }
                // What cannot be given up, and what the kernel charges and the thread does not see.
                let beyond = draw.below(1_500) as f64 * 1e3;
                if draw.below(10) == 0 {
                    twin.0.push((now, now + beyond));
                    ledger.busy(now, now + beyond * 0.5);
                    ledger.busy(now + beyond * 0.5, now + beyond);
                    now += beyond;
                }
            }
            let busiest = twin.busiest();
            assert!((30.0 * MS..=BUDGET_NS).contains(&busiest), "{seed}: {busiest}");
        }
    }

    #[test]
    fn steps_fit_where_no_window_of_theirs_is_above_what_is_planned() {
        let here = Cpu(0);
        let job = |rest: f64| {
            let steps = [(here, 30.0, true), (here, rest, false), (here, 30.0, true)];
            steps.map(|(cpu, length, busy)| (cpu, length * MS, busy)).into_iter()
        };
        assert!(!fits(job(1.0)) && !fits(job(54.0)) && fits(job(56.0)));
        let elsewhere = job(1.0).zip([Cpu(0), Cpu(0), Cpu(1)]);
        assert!(fits(elsewhere.map(|((_, length, busy), cpu)| (cpu, length, busy))));
    }

    #[test]
    fn a_thread_is_charged_with_what_the_kernel_charges_it() {
        let cpu = Cpu(40_000);
        std::thread::spawn(move || {
            let used = || read(libc::CLOCK_THREAD_CPUTIME_ID) as f64;
            while used() < 5.0 * MS {}
            enter(cpu, 2.0 * MS, 0.0);
            settle(cpu);
            let (busy, used) = (of(cpu, |account| account.urgent.busy_since(0.0)), used());
            assert!((5.0 * MS..=used).contains(&busy), "{busy} {used}");
            enter_preemptor(cpu, 3.0 * MS, 0.0);
            let all = of(cpu, |account| account.all.busy_since(0.0));
            assert!((all - busy - 3.0 * MS).abs() < 1e3, "{all} {busy}");
        })
        .join()
        .unwrap();
    }
}
