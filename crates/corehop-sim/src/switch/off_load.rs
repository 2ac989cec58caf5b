// SPDX-License-Identifier: MIT OR Apache-2.0
//! Off-loading on a simulated machine with several cores of each kind: the effect of a policy of section 9.2 of
//! Strong et al. (2009) on threads that alternate between computing and calls.
//!
//! Each thread computes on an application core, makes a call, and computes again, until a stated time is over; the
//! lengths of both parts are exponentially distributed or constant. The library's own policy chooses the core of
//! the call and the core of the return, and a core runs the parts in its queue in order, each part to its end. Two
//! arms off-load nothing, and their threads go to any idle core: `unmodified` has all cores, `bound` the
//! application cores (section 4). The times of switches are those of the library (see `library`), or of the kernel
//! of 2009 simulated beforehand with all code and data in the caches ([`SwitchLatencies`]), for each pair of cores.
//! The target core spends the time of the switch. The simulation ignores the cache misses of a thread's own data
//! after a move to another core.
//!
//! A call can have interrupts, and a wait after it ([`CallAftermath`]). The core of the call serves the call's
//! interrupts, unless interrupts are kept away from that application core. In that case an OS core serves the
//! interrupts and, if the thread waits for them, wakes the thread by one more interrupt.
//!
//! A core without work polls (V4), is powered down at once (V1 to V3), or polls for as long as a switch takes
//! before it is powered down (V5, section 6.3: polling costs at most as much as the switch that polling can save).
//! For the library's V5, the library's own record of the benefit of polling decides how long a core polls. A switch
//! to a polling core takes a line exchange; a switch to a sleeping core takes a wake-up.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

pub use super::latencies::{SwitchLatencies, unknown};
pub use super::load::{CallAftermath, OffLoadArm, OffLoadWorkload, OffLoaded};
use crate::times::Picos;
use corehop_plan::experiment::DrawStream;
use corehop_plan::machine::MachineError;
use corehop_plan::platform::{Core, Platform, Power};
use corehop_plan::units::{Cpu, Nanos};
use corehop_plan::workload::switching::SwitchMechanism;
use corehop_switch::budget::{SpinBudget, usual_limit};
pub use corehop_switch::policy::Flags;
use corehop_switch::policy::{
    CoreChoice, CoreHistory, CoreOccupancy, CoreSet, select_app_core, select_os_core,
};

/// The first random stream of the load; each thread has its own stream.
const LOAD: u64 = 4 << 48 | 1 << 32;

/// The part of its loop that a thread executes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LoopPhase {
    Compute,
    Call,
    Interrupt,
    Wait,
}

/// The core of a thread's next part.
enum NextPlace {
    /// The next part runs on this core.
    Core(usize),
    /// The next part runs on any idle core that runs threads.
    AnyIdle,
    /// The thread waits and needs no core.
    Away,
}

#[derive(Debug)]
struct CallingThread {
    memory: CoreHistory,
    draw: DrawStream,
    part: LoopPhase,
    /// The number of instructions of the part.
    work: u64,
    /// The number of instructions of the call's interrupts, and the wait after the call.
    interrupts: u64,
    wait: Picos,
    /// The time of the switch before the part.
    switch: Picos,
    called: Picos,
    /// The core of the thread's last part, not counting interrupts.
    at: usize,
    /// The core that serves the interrupts of the thread's call instead of the call's core, until the thread
    /// computes again or the interrupts end.
    served_by: Option<usize>,
    /// Whether the thread's next call waits until the interrupts end.
    is_held: bool,
}

#[derive(Debug)]
struct Served {
    /// The library's record of the benefit of polling, which decides how long V5 polls on this core.
    budget: SpinBudget,
    queue: VecDeque<usize>,
    running: Option<usize>,
    /// The end time of the running part.
    until: Picos,
    idle_since: Picos,
    /// The times for which the core was busy, polled and was powered down.
    spent: [Picos; 3],
}

impl Served {
    /// Creates an idle core on a machine of `cpus` CPUs.
    fn new(cpus: usize) -> Self {
        Self {
            budget: SpinBudget::new(usual_limit(cpus)),
            queue: VecDeque::new(),
            running: None,
            until: 0,
            idle_since: 0,
            spent: [0; 3],
        }
    }
}

/// The running simulation of an off-load arm.
struct OffLoadMachine<'a> {
    load: &'a OffLoadWorkload,
    switches: &'a SwitchLatencies,
    arm: OffLoadArm,
    app: CoreSet,
    os: CoreSet,
    cores: Vec<Served>,
    /// The threads that wait for any core, if nothing is off-loaded.
    ready: VecDeque<usize>,
    threads: Vec<CallingThread>,
    ends: BinaryHeap<Reverse<(Picos, u64, usize)>>,
    events: u64,
    calls: u64,
    there: u64,
    times: Vec<f64>,
}

/// Simulates one arm of an off-load workload.
///
/// # Errors
/// Returns [`MachineError::NotPossible`] if there are no threads, application cores or OS cores, or the time is too short for
/// a call.
pub fn off_load(
    platform: &Platform,
    load: &OffLoadWorkload,
    switches: &SwitchLatencies,
    arm: OffLoadArm,
) -> Result<OffLoaded, MachineError> {
    let mut machine = OffLoadMachine::new(platform, load, switches, arm)?;
    machine.run();
    if machine.times.is_empty() {
        return Err(not_possible(platform, "no call ends within the simulated time"));
    }
    Ok(machine.outcome(platform))
}

fn not_possible(platform: &Platform, why: &str) -> MachineError {
    MachineError::NotPossible {
        what: format!("off-load on {}", platform.name),
        why: why.to_owned(),
        remedy: format!("its cores are {}", platform.cpus.value),
    }
}

impl<'a> OffLoadMachine<'a> {
    fn new(
        platform: &Platform,
        load: &'a OffLoadWorkload,
        switches: &'a SwitchLatencies,
        arm: OffLoadArm,
    ) -> Result<Self, MachineError> {
        let places = |os: bool| {
            let all = platform.cpus.value.iter().filter(|&cpu| load.os_cores.contains(cpu) == os);
            CoreSet::of(&all.map(|cpu| cpu.0 as usize).collect::<Vec<_>>())
        };
        let (app, os) = (places(false), places(true));
        let lacks = match () {
            () if app.is_empty() => Some("no core is left for the threads"),
            () if os.len() != load.os_cores.len() => Some("an OS core is not one of its cores"),
            () if load.threads == 0 => Some("there is nothing to do"),
            () => None,
        };
        if let Some(why) = lacks {
            return Err(not_possible(platform, why));
        }
        let thread = |turn: u32| CallingThread {
            memory: CoreHistory::dealt(turn as usize, &os, &app),
            draw: DrawStream::new(load.seed, LOAD | u64::from(turn)),
            part: LoopPhase::Compute,
            work: 0,
            interrupts: 0,
            wait: 0,
            switch: 0,
            called: 0,
            at: 0,
            served_by: None,
            is_held: false,
        };
        // Behind the threads are their interrupts that come beside calls.
        let interrupts = |turn| CallingThread { part: LoopPhase::Interrupt, ..thread(turn) };
        Ok(Self {
            load,
            switches,
            arm,
            app,
            os,
            cores: switches
                .instructions
                .iter()
                .map(|_| Served::new(platform.cpus.value.len()))
                .collect(),
            ready: VecDeque::new(),
            threads: (0..load.threads)
                .map(thread)
                .chain((0..load.threads).map(interrupts))
                .collect(),
            ends: BinaryHeap::new(),
            events: 0,
            calls: 0,
            there: 0,
            times: Vec::new(),
        })
    }

    /// The end of the simulated time.
    const fn end(&self) -> Picos {
        self.load.time.get().saturating_mul(1_000)
    }

    /// Runs the simulation until its time is over.
    fn run(&mut self) {
        for thread in 0..self.load.threads as usize {
            self.threads[thread].work = self.instructions(thread, self.load.compute);
            self.start(thread);
        }
        while let Some(Reverse((at, _, core))) = self.ends.pop() {
            if at > self.end() {
                break;
            }
            match core.checked_sub(self.cores.len()) {
                Some(thread) => self.awoke(thread, at),
                None => self.ended(core, at),
            }
        }
        for core in 0..self.cores.len() {
            self.cut(core);
        }
    }

    /// Starts a thread on its application core, or on the fastest idle core.
    fn start(&mut self, thread: usize) {
        let app = self.app.len();
        match self.arm {
            OffLoadArm::Policy(_) => {
                let core = self.app.iter().nth(thread % app).unwrap_or_default();
                self.arrive(thread, core, 0);
            }
            _ => self.dispatch(thread, 0),
        }
    }

    /// Whether the arm runs threads on a core.
    fn runs_threads(&self, core: usize) -> bool {
        match self.arm {
            OffLoadArm::Unmodified => true,
            OffLoadArm::OsCores => self.os.is_empty() || self.os.contains(core),
            OffLoadArm::Bound | OffLoadArm::Policy(_) => self.app.contains(core),
        }
    }

    /// Continues a thread on the fastest idle core, or makes the thread wait for a core.
    fn dispatch(&mut self, thread: usize, now: Picos) {
        let all = self.app.iter().chain(self.os.iter());
        let idle =
            all.filter(|&core| self.runs_threads(core) && self.cores[core].running.is_none());
        match idle.min_by_key(|&core| (self.switches.instructions[core], core)) {
            Some(core) => self.arrive(thread, core, now),
            None => self.ready.push_back(thread),
        }
    }

    /// Accounts for a core's activity that the end of the simulated time cuts short.
    fn cut(&mut self, core: usize) {
        let end = self.end();
        let it = &mut self.cores[core];
        match it.running {
            Some(_) => it.spent[0] -= it.until.saturating_sub(end),
            None => self.idle_until(core, end),
        }
    }

    /// Draws a thread's part length around a mean, in instructions of the fastest core.
    fn instructions(&mut self, thread: usize, mean: Nanos) -> u64 {
        (self.drawn(thread, mean) / self.switches.fastest() as f64) as u64 + 1
    }

    /// Draws a thread's duration around a mean, in picoseconds.
    fn drawn(&mut self, thread: usize, mean: Nanos) -> f64 {
        if self.load.steady {
            return mean.get() as f64 * 1e3;
        }
        let draw = &mut self.threads[thread].draw;
        let uniform = (draw.below(1 << 32) as f64 + 0.5) / (1_u64 << 32) as f64;
        -uniform.ln() * mean.get() as f64 * 1e3
    }

    /// Queues a thread's part on a core.
    fn arrive(&mut self, thread: usize, core: usize, now: Picos) {
        if self.cores[core].running.is_some() {
            self.cores[core].queue.push_back(thread);
        } else {
            let waited = now - self.cores[core].idle_since + self.threads[thread].switch;
            self.idle_until(core, now);
            self.cores[core].budget.learn(waited / 1_000);
            self.begin(thread, core, now);
        }
    }

    fn begin(&mut self, thread: usize, core: usize, now: Picos) {
        match self.threads[thread].part {
            LoopPhase::Call => self.interrupt(thread, core, now),
            LoopPhase::Compute => self.wake(thread, core),
            LoopPhase::Interrupt | LoopPhase::Wait => {}
        }
        let end_of_time = self.end();
        let it = &mut self.threads[thread];
        let begun = now + it.switch;
        if it.part == LoopPhase::Compute && it.called > 0 && begun <= end_of_time {
            self.times.push((begun - it.called) as f64 / 1e6);
        }
        if it.part != LoopPhase::Interrupt {
            it.at = core;
        }
        let end = begun + it.work * self.switches.instructions[core];
        self.cores[core].running = Some(thread);
        self.cores[core].until = end;
        self.cores[core].spent[0] += end - now;
        self.events += 1;
        self.ends.push(Reverse((end, self.events, core)));
    }

    /// Handles the interrupts of a call on a core: either the call takes longer, or another core serves the
    /// interrupts.
    fn interrupt(&mut self, thread: usize, core: usize, now: Picos) {
        let spares = matches!(self.arm, OffLoadArm::Bound | OffLoadArm::Policy(_));
        let turn = thread.checked_rem(self.os.len()).filter(|_| spares && self.app.contains(core));
        let it = &mut self.threads[thread];
        it.served_by = turn.and_then(|turn| self.os.iter().nth(turn)).filter(|_| it.interrupts > 0);
        let (interrupts, served_by) = (it.interrupts, it.served_by);
        match served_by {
            None => it.work += interrupts,
            Some(other) if !self.load.after.awaited => {
                let beside = thread + self.load.threads as usize;
                self.threads[beside].work = interrupts;
                self.arrive(beside, other, now);
            }
            Some(_) => {}
        }
    }

    /// Wakes a thread that waited for interrupts on another core from that core.
    fn wake(&mut self, thread: usize, core: usize) {
        if self.load.after.awaited
            && let Some(from) = self.threads[thread].served_by.take()
        {
            self.threads[thread].switch += self.switches.wakes[from][core];
        }
    }

    fn ended(&mut self, core: usize, now: Picos) {
        let Some(thread) = self.cores[core].running.take() else { return };
        if let Some(interrupted) = thread.checked_sub(self.load.threads as usize) {
            self.take_next(core, now);
            return self.served(interrupted, now);
        }
        self.next_part(thread, now);
        match self.next_place(thread, now) {
            // Those that wait are first.
            NextPlace::AnyIdle if self.runs_threads(core) => {
                self.ready.push_back(thread);
                self.take_next(core, now);
            }
            NextPlace::AnyIdle => {
                self.take_next(core, now);
                self.dispatch(thread, now);
            }
            NextPlace::Core(next) => {
                self.take_next(core, now);
                self.arrive(thread, next, now);
            }
            NextPlace::Away => self.take_next(core, now),
        }
    }

    /// Makes a core continue with the next queued part, or idle.
    fn take_next(&mut self, core: usize, now: Picos) {
        let queued = self.cores[core].queue.pop_front();
        let next = match queued {
            None if self.runs_threads(core) => self.ready.pop_front(),
            other => other,
        };
        match next {
            Some(thread) => self.begin(thread, core, now),
            None => self.cores[core].idle_since = now,
        }
    }

    /// Ends the wait of a thread.
    fn awoke(&mut self, thread: usize, now: Picos) {
        self.next_part(thread, now);
        self.resume(thread, now);
    }

    /// Ends the interrupts for which a thread's next call waits.
    fn served(&mut self, thread: usize, now: Picos) {
        self.threads[thread].served_by = None;
        if std::mem::take(&mut self.threads[thread].is_held) {
            self.resume(thread, now);
        }
    }

    /// Resumes a thread that was without a core.
    fn resume(&mut self, thread: usize, now: Picos) {
        match self.next_place(thread, now) {
            NextPlace::AnyIdle => self.dispatch(thread, now),
            NextPlace::Core(core) => self.arrive(thread, core, now),
            NextPlace::Away => {}
        }
    }

    /// Moves a thread on to its call, to the wait after the call, or back to computing.
    fn next_part(&mut self, thread: usize, now: Picos) {
        let (load, it) = (self.load, &self.threads[thread]);
        let waits = |it: &CallingThread| match it.wait {
            0 => LoopPhase::Compute,
            _ => LoopPhase::Wait,
        };
        let part = match it.part {
            LoopPhase::Compute => LoopPhase::Call,
            LoopPhase::Call if load.after.awaited && it.served_by.is_some() => LoopPhase::Interrupt,
            LoopPhase::Call | LoopPhase::Interrupt => waits(it),
            LoopPhase::Wait => LoopPhase::Compute,
        };
        let work = match part {
            LoopPhase::Compute => self.instructions(thread, load.compute),
            LoopPhase::Call => self.called(thread, now),
            LoopPhase::Interrupt => it.interrupts,
            LoopPhase::Wait => 0,
        };
        let it = &mut self.threads[thread];
        (it.part, it.work, it.switch) = (part, work, 0);
        if part == LoopPhase::Wait {
            self.events += 1;
            self.ends.push(Reverse((now + it.wait, self.events, self.cores.len() + thread)));
        }
    }

    /// Begins a call, and returns its number of instructions.
    fn called(&mut self, thread: usize, now: Picos) -> u64 {
        let CallAftermath { interrupts, wait, .. } = self.load.after;
        let has = |mean: Nanos| mean.get() > 0;
        let work = self.instructions(thread, self.load.call);
        let interrupts = if has(interrupts) { self.instructions(thread, interrupts) } else { 0 };
        let wait = if has(wait) { self.drawn(thread, wait) as Picos } else { 0 };
        let it = &mut self.threads[thread];
        (it.interrupts, it.wait, it.called) = (interrupts, wait, now.max(1));
        self.calls += 1;
        work
    }

    /// The core for a thread's next part.
    fn next_place(&mut self, thread: usize, now: Picos) -> NextPlace {
        let it = &mut self.threads[thread];
        let (part, at, served_by) = (it.part, it.at, it.served_by);
        match (part, served_by) {
            (LoopPhase::Interrupt, Some(core)) => return NextPlace::Core(core),
            (LoopPhase::Call, Some(_)) => {
                it.is_held = true;
                return NextPlace::Away;
            }
            (LoopPhase::Wait, _) => return NextPlace::Away,
            _ => {}
        }
        let OffLoadArm::Policy(flags) = self.arm else { return NextPlace::AnyIdle };
        NextPlace::Core(match part {
            LoopPhase::Call => self.call(flags, thread, at, now),
            _ => self.compute(flags, thread, at, now),
        })
    }

    /// The core for a call.
    fn call(&mut self, flags: Flags, thread: usize, core: usize, now: Picos) -> usize {
        let view = self.view(core);
        let memory = &mut self.threads[thread].memory;
        let CoreChoice::Switch(to) = select_os_core(flags, &view, memory) else { return core };
        self.threads[thread].switch = self.switch_time(core, to, now);
        self.there += 1;
        to
    }

    /// The core on which a thread computes again.
    fn compute(&mut self, flags: Flags, thread: usize, core: usize, now: Picos) -> usize {
        if !self.os.contains(core) {
            return core;
        }
        let view = self.view(core);
        let memory = &mut self.threads[thread].memory;
        let Some(to) = select_app_core(flags, &view, memory) else { return core };
        self.threads[thread].switch = self.switch_time(core, to, now);
        to
    }

    /// The time of a switch to a core; longer if the core has stopped polling.
    fn switch_time(&self, from: usize, to: usize, now: Picos) -> Picos {
        let core = &self.cores[to];
        let sleeps = core.running.is_none() && now - core.idle_since > self.polls_for(to);
        let times = if sleeps { &self.switches.woken } else { &self.switches.times };
        times[from][to]
    }

    /// The occupancy of the cores as seen by a thread that leaves `source`.
    fn view(&self, source: usize) -> CoreOccupancy {
        let mut busy = CoreSet::EMPTY;
        for (core, it) in self.cores.iter().enumerate() {
            if it.running.is_some() || !it.queue.is_empty() {
                busy.insert(core);
            }
        }
        let source_idles = self.cores[source].queue.is_empty();
        CoreOccupancy { os: self.os, app: self.app, busy, source, source_idles }
    }

    /// Accounts for the time that a core has been idle.
    fn idle_until(&mut self, core: usize, now: Picos) {
        if self.cores[core].running.is_some() {
            return;
        }
        let idle = now - self.cores[core].idle_since;
        let polls = match self.load.mechanism {
            _ if !matches!(self.arm, OffLoadArm::Policy(_)) => 0,
            SwitchMechanism::V4 | SwitchMechanism::StrongV4 => idle,
            SwitchMechanism::V5 | SwitchMechanism::StrongV5 => idle.min(self.polls_for(core)),
            _ => 0,
        };
        let it = &mut self.cores[core];
        it.spent[1] += polls;
        it.spent[2] += idle - polls;
        it.idle_since = now;
    }

    /// The time for which V5 polls on a core: for the library, the time set by its record of polling; for the
    /// kernel of 2009, the shortest switch to the sleeping core.
    fn polls_for(&self, core: usize) -> Picos {
        if self.load.mechanism == SwitchMechanism::V5 {
            return 1_000 * self.cores[core].budget.now();
        }
        let to = self.switches.woken.iter().map(|from| from[core]);
        to.filter(|&time| time > 0).min().unwrap_or(0)
    }

    fn outcome(mut self, platform: &Platform) -> OffLoaded {
        let end = self.end();
        self.times.sort_by(f64::total_cmp);
        let (n, seconds) = (self.times.len(), end as f64 / 1e12);
        let quiet: f64 =
            self.app.iter().map(|core| self.cores[core].spent[2] as f64 / end as f64).sum();
        let energy = platform.cpus.value.iter().map(|cpu| {
            let power = power(platform, cpu)?;
            let spent = self.cores[cpu.0 as usize].spent;
            Some(
                power
                    .iter()
                    .zip(spent)
                    .map(|(watts, time)| watts * time as f64 / 1e12)
                    .sum::<f64>(),
            )
        });
        let joules: Option<f64> = energy.sum();
        OffLoaded {
            calls_per_second: n as f64 / seconds,
            mean_us: self.times.iter().sum::<f64>() / n as f64,
            p99_us: self.times[(n * 99 / 100).min(n - 1)],
            there: self.there as f64 / self.calls.max(1) as f64,
            quiet: quiet / self.app.len() as f64,
            microjoules: joules.map(|joules| joules * 1e6 / n as f64),
        }
    }
}

/// The power of a core in watts, when busy, polling and powered down.
fn power(platform: &Platform, cpu: Cpu) -> Option<[f64; 3]> {
    let kind = platform.core_kinds.iter().find(|kind| kind.cpus.value.contains(cpu));
    let of = |core: &Core| {
        let watts =
            |fact: &Option<corehop_plan::platform::Fact<Power>>| Some(fact.as_ref()?.value.watts());
        Some([
            watts(&core.active_power)?,
            watts(&core.polling_power)?,
            watts(&core.quiesced_power)?,
        ])
    };
    kind.and_then(|kind| of(&kind.core)).or_else(|| of(&platform.core))
}

#[cfg(test)]
#[path = "off_load_tests.rs"]
mod tests;
