// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs batches of calls that another CPU executes.
//!
//! A batch has a calling thread on the application core and, for mechanisms that need one, a partner on the OS core.
//! The caller and the partner end with the batch, so no partner polls during another batch. A second worker may make
//! its own calls simultaneously. Each batch makes its calls twice: once without time stamps in between, for the mean,
//! and once with a time stamp per call, for the percentiles.

mod way;
mod workers;

use std::collections::{BTreeMap, VecDeque};
use std::ffi::c_void;
use std::io;

use corehop_plan::experiment::{SwitchCell, Switches};
use corehop_plan::machine::{MachineError, RunEnd, Sink};
use corehop_plan::samples::{Batch, CallTimes, SwitchRecord, SwitchTimes};
use corehop_plan::stop::Stop;
use corehop_plan::units::Cpu;
use corehop_plan::workload::switching::{SwitchCall, SwitchMechanism};
use corehop_switch::Ticket;

use super::distance::{CpuPair, PairExchanges};
use super::{BATCH, LiveMachine, failed};
use crate::probe::pin;
use corehop_system::clock::{TickClock, Ticks, now};
use corehop_system::supervisor::interrupt;
use corehop_system::thread::usage;

use way::{CallPath, CallPayload, carry_out};

/// The time that the kernel's polling thread has for a request, in nanoseconds.
const PATIENCE_NS: u64 = 10_000_000;
/// The number of calls between two checks whether the run was stopped. On a busy host each call may wait for a time
/// slice.
const CALLS: u32 = 64;
/// The kernel's thread sleeps after this many milliseconds without a request.
const KERNEL_IDLE_MS: u32 = 50;

/// Returns the mechanisms that are not possible on this host, each with the reason.
pub fn impossible_mechanisms(to: Cpu) -> Vec<(SwitchMechanism, String)> {
    let reason = |&mechanism: &SwitchMechanism| {
        let (call, from) = (SwitchCall::Gettid, to);
        let cell = SwitchCell { mechanism, from, to, call, bytes: 0, outstanding: 1, calls: 1 };
        Some((mechanism, CallPath::open(&cell).err()?.to_string()))
    };
    SwitchMechanism::ALL.iter().filter(|it| !it.is_strong()).filter_map(reason).collect()
}

impl LiveMachine {
    /// Runs the batches of a plan, and measures line exchanges between their CPUs before and after some of them.
    pub(super) fn run_switches(
        &mut self,
        plan: &Switches,
        sink: &mut dyn Sink,
    ) -> Result<RunEnd, MachineError> {
        check(plan)?;
        self.park_partners()?;
        let (mut number, mut measured, mut before) = (0, Vec::new(), PairExchanges::default());
        let (stop, mut lost) = (sink.stop(), BTreeMap::<usize, Tried>::new());
        for round in &plan.rounds {
            let mut rest = &round.order[..];
            while !rest.is_empty() {
                let some;
                (some, rest) = rest.split_at(about_a_batch(plan, rest));
                let pairs = pairs(plan, some);
                if pairs != measured {
                    (before, measured) = (self.exchanges(&pairs), pairs);
                }
                let mut records = Vec::new();
                for &cell in some {
                    let record = match lost.get(&cell).filter(|tried| tried.is_lost()) {
                        Some(tried) => Some(self.unmeasured(tried.why.clone())),
                        None => self.run_cell(&plan.cells[cell], &stop)?,
                    };
                    let Some(record) = record else { break };
                    lost.entry(cell).or_default().take(&record.times);
                    let replicate = round.replicate;
                    records.push(SwitchRecord { cell, batch: number, replicate, ..record });
                    number += 1;
                }
                let after = self.exchanges(&measured);
                for record in &mut records {
                    let cell = &plan.cells[record.cell];
                    record.exchange =
                        Some(PairExchanges::between(&before, &after, cell.from, cell.to));
                }
                before = after;
                let goes_on = sink.take(Batch::Switches(&records)).map_err(MachineError::Sink)?;
                if !goes_on {
                    return Ok(RunEnd::Stopped);
                }
            }
        }
        Ok(RunEnd::Complete)
    }

    /// Runs one batch on a separate thread; `None` if the run was stopped first. If a mechanism fails, its batch is
    /// recorded as not measured, and other batches continue.
    fn run_cell(
        &self,
        cell: &SwitchCell,
        stop: &Stop,
    ) -> Result<Option<SwitchRecord>, MachineError> {
        let (start_ns, clock) = (self.started.elapsed().as_nanos() as u64, self.clock);
        let measured = std::thread::scope(|scope| {
            let caller = std::thread::Builder::new().name(format!("switch-{}", cell.from.0));
            let thread = caller.spawn_scoped(scope, || measure(cell, (&clock, stop)))?;
            thread.join().unwrap_or(Err(CallError::Panicked))
        });
        if matches!(measured, Err(CallError::Stopped)) {
            return Ok(None);
        }
        let record = match measured {
            Ok(SwitchBatchResult { times, stayed, preempted }) => SwitchRecord {
                start_ns,
                stayed,
                times,
                preempted,
                ..self.unmeasured(String::new())
            },
            Err(CallError::Panicked) => {
                return Err(failed(&format!("`{}`", cell.name()), CallError::Panicked));
            }
            Err(error) => SwitchRecord { start_ns, ..self.unmeasured(error.to_string()) },
        };
        Ok(Some(record))
    }

    /// A batch that was not measured, with the reason.
    fn unmeasured(&self, why: String) -> SwitchRecord {
        SwitchRecord {
            cell: 0,
            batch: 0,
            replicate: 0,
            start_ns: self.started.elapsed().as_nanos() as u64,
            stayed: 0,
            times: Err(why),
            preempted: None,
            exchange: None,
        }
    }
}

/// The results of a cell's batches in a plan.
#[derive(Default)]
struct Tried {
    measured: u32,
    unmeasured: u32,
    why: String,
}

impl Tried {
    /// The number of batches after which a cell is given up if none of them could be measured.
    const MOST: u32 = 5;

    fn take(&mut self, times: &SwitchTimes) {
        match times {
            Ok(_) => self.measured += 1,
            Err(why) => {
                self.unmeasured += 1;
                self.why.clone_from(why);
            }
        }
    }

    const fn is_lost(&self) -> bool {
        self.measured == 0 && self.unmeasured >= Self::MOST
    }
}

/// Rejects mechanisms that exist only in simulation.
fn check(plan: &Switches) -> Result<(), MachineError> {
    match plan.cells.iter().find(|cell| cell.mechanism.is_strong()) {
        None => Ok(()),
        Some(cell) => Err(MachineError::NotPossible {
            what: format!("`{}`", cell.name()),
            why: format!(
                "{} is a mechanism of the kernel of Strong et al. (2009), which is simulated only",
                cell.mechanism
            ),
            remedy: "name v1 to v5, or simulate it with --on m5_cc".to_owned(),
        }),
    }
}

/// The number of cells from the front that take about [`BATCH`] together; at least one.
fn about_a_batch(plan: &Switches, order: &[usize]) -> usize {
    let mut expected = 0;
    let fits = |&&cell: &&usize| {
        // The calls are made twice.
        expected += 2 * plan.cells[cell].projected().get();
        u128::from(expected) < BATCH.as_nanos()
    };
    order.iter().take_while(fits).count().max(1)
}

/// The distinct CPU pairs of some cells.
fn pairs(plan: &Switches, cells: &[usize]) -> Vec<CpuPair> {
    let mut pairs: Vec<CpuPair> = cells
        .iter()
        .map(|&cell| &plan.cells[cell])
        .map(|it| (it.from.min(it.to), it.from.max(it.to)))
        .collect();
    pairs.sort_unstable();
    pairs.dedup();
    pairs
}

/// The reason why a batch was not measured.
#[derive(Debug, thiserror::Error)]
enum CallError {
    /// The mechanism is not available.
    #[error("{why}")]
    Impossible { why: String },
    /// A thread or a file was not available.
    #[error("{0}")]
    Resources(#[from] io::Error),
    /// A call returned a result that differs from the result without a switch.
    #[error("a call returned {got} instead of {expected}")]
    Result { got: u64, expected: u64 },
    /// The kernel's thread did not execute a request in time.
    #[error("the kernel's polling thread did not answer within {} ms", PATIENCE_NS / 1_000_000)]
    Unanswered,
    /// The calling thread panicked.
    #[error("the caller's thread panicked")]
    Panicked,
    /// The run was stopped.
    #[error("interrupted")]
    Stopped,
}

/// The measurements of one batch.
struct SwitchBatchResult {
    times: SwitchTimes,
    stayed: u64,
    preempted: Option<u64>,
}

/// Measures a batch on the calling thread.
fn measure(
    cell: &SwitchCell,
    (clock, stop): (&TickClock, &Stop),
) -> Result<SwitchBatchResult, CallError> {
    interrupt::keep_off_this_thread();
    pin(cell.from).map_err(|error| CallError::Impossible { why: error.to_string() })?;
    let mut work = CallPayload::new(cell)?;
    let mut way = CallPath::open(cell)?;
    let outstanding = cell.outstanding;
    let mut caller = Caller { way: &mut way, work: &mut work, outstanding, stop };
    caller.calls((cell.calls / 10).clamp(1, 100), |_| ())?;
    let (before, stayed) = (usage(), caller.way.stayed());
    let begun = now();
    caller.calls(cell.calls, |_| ())?;
    let whole = now().saturating_sub(begun);
    let mut each = Vec::with_capacity(cell.calls as usize);
    caller.calls(cell.calls, |begun| each.push(clock.nanos(now().saturating_sub(begun))))?;
    let preempted = usage().since(before).switches;
    let stayed = caller.way.stayed() - stayed;
    let none = || CallError::Resources(io::ErrorKind::InvalidInput.into());
    let times = CallTimes::of(clock.nanos(whole) / way.workers(), &mut each).ok_or_else(none)?;
    Ok(SwitchBatchResult { times: Ok(times), stayed, preempted: Some(preempted) })
}

/// Makes calls through one path.
struct Caller<'a> {
    way: &'a mut CallPath,
    work: &'a mut CallPayload,
    outstanding: u32,
    /// Tells whether the run was stopped.
    stop: &'a Stop,
}

impl Caller<'_> {
    /// Makes `calls` calls; `done` receives the start time of each call when the call's result arrives.
    fn calls(&mut self, calls: u32, mut done: impl FnMut(Ticks)) -> Result<(), CallError> {
        if self.outstanding > 1 {
            return self.overlapping(calls, done);
        }
        if let CallPath::Beside(second) = self.way {
            return second.calls(calls, self.work, self.stop, done);
        }
        for call in 0..calls {
            look(self.stop, call)?;
            let begun = now();
            let result = self.way.call(self.work)?;
            self.work.check(result)?;
            done(begun);
        }
        Ok(())
    }

    /// Makes calls with several of them outstanding; the oldest is awaited first.
    fn overlapping(&mut self, calls: u32, mut done: impl FnMut(Ticks)) -> Result<(), CallError> {
        let CallPath::Partner(switch) = self.way else { return Err(CallError::Panicked) };
        let most = self.outstanding as usize;
        let mut under_way: VecDeque<(Ticks, Ticket)> = VecDeque::with_capacity(most);
        let (function, argument) = (carry_out, (&raw mut *self.work).cast::<c_void>());
        let mut submitted = 0;
        while submitted < calls || !under_way.is_empty() {
            if submitted < calls && under_way.len() < most {
                look(self.stop, submitted)?;
                let begun = now();
                // SAFETY: the work outlives every call: all of them are waited for below, and where an error
                // ends the batch, dropping the switch waits for the rest before the work is dropped.
                let ticket = unsafe { switch.submit(function, argument) };
                under_way.push_back((begun, ticket.map_err(io::Error::other)?));
                submitted += 1;
            } else if let Some((begun, ticket)) = under_way.pop_front() {
                self.work.check(switch.wait(ticket).map_err(io::Error::other)?)?;
                done(begun);
            }
        }
        Ok(())
    }
}

/// Gives up before the call with number `call` if the run was stopped.
fn look(stop: &Stop, call: u32) -> Result<(), CallError> {
    let is_over = call.is_multiple_of(CALLS) && stop.is_asked();
    if is_over { Err(CallError::Stopped) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(mechanism: SwitchMechanism, call: SwitchCall, outstanding: u32) -> SwitchCell {
        let bytes = if call.is_sized() { 512 } else { 0 };
        SwitchCell { mechanism, from: Cpu(0), to: Cpu(1), call, bytes, outstanding, calls: 20 }
    }

    #[test]
    #[expect(clippy::print_stderr, reason = "what is skipped says why")]
    fn every_mechanism_carries_out_every_call_with_the_result_it_has_without_a_switch() {
        let usable = corehop_system::thread::affinity().unwrap();
        if usable.len() < 2 {
            eprintln!("skipped: one CPU is usable, and a switch needs two");
            return;
        }
        let clock = TickClock::calibrate(std::time::Duration::from_millis(5));
        let (from, to) = (usable.first().unwrap(), usable.iter().nth(1).unwrap());
        let impossible = impossible_mechanisms(to);
        for &mechanism in SwitchMechanism::ALL.iter().filter(|it| !it.is_strong()) {
            if let Some((_, why)) = impossible.iter().find(|(it, _)| *it == mechanism) {
                eprintln!("skipped: {mechanism}: {why}");
                continue;
            }
            for &call in SwitchCall::ALL {
                if mechanism == SwitchMechanism::Sqpoll && call.is_sized() {
                    continue;
                }
                for outstanding in if mechanism.has_partner() { &[1, 16][..] } else { &[1] } {
                    let cell = SwitchCell { from, to, ..cell(mechanism, call, *outstanding) };
                    let measured =
                        std::thread::spawn(move || measure(&cell, (&clock, &Stop::never())));
                    let it = measured.join().unwrap().unwrap();
                    let times = it.times.unwrap();
                    assert_eq!(times.calls, 20, "{mechanism} {call} {outstanding}");
                    assert!(times.least_ns > 0.0 && times.mean_ns > 0.0);
                }
            }
        }
    }

    #[test]
    #[expect(clippy::print_stderr, reason = "what is skipped says why")]
    fn a_second_worker_makes_as_many_calls_there_while_the_caller_makes_its_own() {
        let usable = corehop_system::thread::affinity().unwrap();
        let Some(to) = usable.iter().nth(1) else {
            eprintln!("skipped: one CPU is usable");
            return;
        };
        let cell = SwitchCell { to, ..cell(SwitchMechanism::SecondWorker, SwitchCall::Pwrite, 1) };
        let (mut way, mut work) =
            (CallPath::open(&cell).unwrap(), CallPayload::new(&cell).unwrap());
        assert!((way.workers() - 2.0).abs() < f64::EPSILON);
        let mut made = 0;
        let outstanding = 1;
        let stop = &Stop::never();
        let mut caller = Caller { way: &mut way, work: &mut work, outstanding, stop };
        caller.calls(20, |_| made += 1).unwrap();
        let CallPath::Beside(second) = &mut way else { panic!("another way") };
        assert_eq!((made, second.made()), (20, 20));
        // A write there that fails is an error here.
        second.spoil();
        let mut caller = Caller { way: &mut way, work: &mut work, outstanding, stop };
        assert!(matches!(caller.calls(20, |_| ()), Err(CallError::Result { expected: 512, .. })));
    }

    #[test]
    fn a_cell_that_always_fails_is_not_tried_for_ever_and_a_single_success_keeps_it() {
        let times = CallTimes::of(1.0, &mut [1.0]).unwrap();
        let failed = || Err("late".to_owned());
        let after = |all: Vec<SwitchTimes>| {
            let mut tried = Tried::default();
            for times in &all {
                tried.take(times);
            }
            tried.is_lost()
        };
        assert!(!after(vec![failed(); 4]) && after(vec![failed(); 5]));
        assert!(!after([vec![Ok(times)], vec![failed(); 9]].concat()));
    }

    #[test]
    fn a_result_that_a_call_alone_does_not_have_is_an_error() {
        let mut work =
            CallPayload::new(&cell(SwitchMechanism::None, SwitchCall::Pwrite, 1)).unwrap();
        assert!(work.check(512).is_ok() && work.check(511).is_err());
        // A file that cannot be written to.
        work.file = None;
        let result = CallPath::Here.call(&mut work).unwrap();
        let error = work.check(result).unwrap_err().to_string();
        assert!(error.contains("instead of 512"), "{error}");
    }
}
