// SPDX-License-Identifier: MIT OR Apache-2.0
//! The time-stamp counter as a clock.

use std::arch::x86_64::{__rdtscp, _mm_lfence, _rdtsc};
use std::time::Duration;

/// A number of ticks of the time-stamp counter. Only a [`TickClock`] converts ticks to time.
pub type Ticks = u64;

/// Returns the current counter value after all earlier loads are complete.
pub fn now() -> Ticks {
    let mut processor = 0;
    // SAFETY: every x86-64 CPU of the last fifteen years has rdtscp; it only writes `processor`.
    let ticks = unsafe { __rdtscp(&raw mut processor) };
    // SAFETY: a fence.
    unsafe { _mm_lfence() };
    ticks
}

/// The rate of the time-stamp counter, measured against the kernel's raw clock.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TickClock {
    ticks_per_ns: f64,
    /// The largest relative error of the rate.
    pub error: f64,
}

impl TickClock {
    /// Compares the two clocks over `span` (20 ms give about 2 parts in a million).
    pub fn calibrate(span: Duration) -> Self {
        ClockComparison::begin().after(span)
    }

    /// Creates a clock with a known rate.
    pub const fn of_rate(ticks_per_ns: f64) -> Self {
        Self { ticks_per_ns, error: 0.0 }
    }

    /// Returns the duration of `ticks` ticks, in nanoseconds.
    pub fn nanos(&self, ticks: Ticks) -> f64 {
        ticks as f64 / self.ticks_per_ns
    }

    /// Returns the time between two stamps of one CPU, in nanoseconds; negative if `later` is the earlier stamp.
    pub fn between(&self, earlier: Ticks, later: Ticks) -> f64 {
        later.wrapping_sub(earlier).cast_signed() as f64 / self.ticks_per_ns
    }

    /// Returns the number of ticks in `nanos` nanoseconds.
    pub fn ticks(&self, nanos: f64) -> Ticks {
        (nanos * self.ticks_per_ns) as Ticks
    }

    /// Returns the number of ticks per second.
    pub fn hertz(&self) -> f64 {
        self.ticks_per_ns * 1e9
    }
}

/// A running comparison of the two clocks. The longer the comparison lasts, the smaller is the error of the rate.
#[derive(Debug, Clone, Copy)]
pub struct ClockComparison {
    ticks: Ticks,
    nanos: i64,
    width: Ticks,
}

impl ClockComparison {
    /// Starts a comparison by reading both clocks.
    pub fn begin() -> Self {
        let (ticks, nanos, width) = bracket();
        Self { ticks, nanos, width }
    }

    /// Returns the clock as measured so far. If less than `least` has passed, the calling thread first sleeps for the
    /// rest.
    pub fn after(&self, least: Duration) -> TickClock {
        let passed = u64::try_from(raw_nanos() - self.nanos).unwrap_or_default();
        std::thread::sleep(least.saturating_sub(Duration::from_nanos(passed)));
        let (ticks, nanos, width) = bracket();
        let nanos = (nanos - self.nanos) as f64;
        let ticks_per_ns = (ticks - self.ticks) as f64 / nanos;
        TickClock { ticks_per_ns, error: (self.width + width) as f64 / ticks_per_ns / nanos }
    }
}

/// The counter and the raw clock at one moment: the narrowest of several attempts, with its width in ticks.
fn bracket() -> (Ticks, i64, Ticks) {
    let tries = (0..32).map(|_| {
        let before = now();
        let nanos = raw_nanos();
        let after = now();
        (before + (after - before) / 2, nanos, after - before)
    });
    tries.min_by_key(|&(.., width)| width).unwrap_or_default()
}

/// The time of `CLOCK_MONOTONIC_RAW` in nanoseconds.
fn raw_nanos() -> i64 {
    read(libc::CLOCK_MONOTONIC_RAW)
}

/// Returns the time of a kernel clock in nanoseconds.
pub fn read(clock: libc::clockid_t) -> i64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: writes `time`; the clocks asked for here exist on every kernel.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    time.tv_sec * 1_000_000_000 + time.tv_nsec
}

/// Returns the CPU time of all present and past threads of a process up to now, in nanoseconds. Returns `None` if the
/// process has ended.
pub fn process_cpu_ns(pid: u32) -> Option<u64> {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // The clock of a process by its number: clock_getcpuclockid(3).
    let clock = (!pid.cast_signed() << 3) | 2;
    // SAFETY: writes `time`; a clock that is not there is an error.
    let known = unsafe { libc::clock_gettime(clock, &raw mut time) } == 0;
    known.then(|| (time.tv_sec * 1_000_000_000 + time.tv_nsec).cast_unsigned())
}

/// Returns the time of `CLOCK_MONOTONIC` in nanoseconds, the clock of BPF programs and kernel records.
pub fn monotonic_ns() -> u64 {
    read(libc::CLOCK_MONOTONIC).cast_unsigned()
}

/// Sleeps until `CLOCK_MONOTONIC` shows `deadline` nanoseconds; signals do not end the sleep earlier.
pub fn sleep_until(deadline: i64) {
    let time =
        libc::timespec { tv_sec: deadline / 1_000_000_000, tv_nsec: deadline % 1_000_000_000 };
    // SAFETY: reads `time`; with an absolute time the remainder is not written.
    while unsafe {
        libc::clock_nanosleep(
            libc::CLOCK_MONOTONIC,
            libc::TIMER_ABSTIME,
            &raw const time,
            std::ptr::null_mut(),
        )
    } == libc::EINTR
    {}
}

/// Executes a fixed number of dependent additions; the elapsed ticks show the core's clock rate.
///
/// The additions touch no memory and take about an eighth of a microsecond at 3 GHz.
pub(crate) fn spin() -> Ticks {
    let start = now();
    // SAFETY: counts a register down.
    unsafe {
        std::arch::asm!(
            "mov {n}, 400",
            "2: dec {n}",
            "jnz 2b",
            n = out(reg) _,
            options(nomem, nostack),
        );
    }
    now() - start
}

/// Returns the shortest of several spins, so that an interruption does not look like a slow clock.
pub fn clock_rate_spin() -> Ticks {
    (0..3).map(|_| spin()).min().unwrap_or_default()
}

/// Returns the counter value without a fence, for uses where a slightly early value does no harm.
pub fn roughly_now() -> Ticks {
    // SAFETY: reads a counter.
    unsafe { _rdtsc() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_calibrated_clock_agrees_with_the_kernels_over_another_span() {
        let clock = TickClock::calibrate(Duration::from_millis(20));
        let (t0, n0, _) = bracket();
        std::thread::sleep(Duration::from_millis(30));
        let (t1, n1, _) = bracket();
        let ratio = clock.between(t0, t1) / (n1 - n0) as f64;
        assert!((ratio - 1.0).abs() < 1e-3, "{ratio}");
    }

    #[test]
    fn a_comparison_gets_better_with_time_and_waits_for_no_more_than_the_rest() {
        let comparison = ClockComparison::begin();
        let early = comparison.after(Duration::from_millis(1));
        std::thread::sleep(Duration::from_millis(30));
        let begun = std::time::Instant::now();
        // Longer ago than that: nothing is waited for.
        let late = comparison.after(Duration::from_millis(20));
        assert!(begun.elapsed() < Duration::from_millis(20), "{:?}", begun.elapsed());
        assert!(late.error < early.error, "{} {}", late.error, early.error);
        assert!((early.hertz() / late.hertz() - 1.0).abs() < 1e-2, "{early:?} {late:?}");
    }

    #[test]
    fn time_between_stamps_has_a_sign() {
        let clock = TickClock::of_rate(2.0);
        assert_eq!((clock.between(10, 30), clock.between(30, 10)), (10.0, -10.0));
        assert_eq!((clock.ticks(10.0), clock.nanos(20)), (20, 10.0));
    }
}
