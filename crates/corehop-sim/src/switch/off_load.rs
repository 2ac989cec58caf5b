// SPDX-License-Identifier: MIT OR Apache-2.0
//! Off-loading on a simulated machine with several cores of each kind: what a policy of section 9.2 of Strong et al.
//! (2009) makes of threads that compute and make calls.
//!
//! Each thread computes on an application core, makes a call, and computes again, until a stated time is over; both parts
//! are exponential draws. The library's own policy chooses the core of the call and the core of the return, and a core serves
//! its queue in order, a part to its end. Two arms off-load nothing, and their threads go to any idle core: `unmodified` has
//! all cores, `bound` the application cores (section 4). The times of switches are those of the library (see `library`), or of the kernel of 2009
//! simulated beforehand with all code and data in the caches ([`SwitchLatencies`]), for each pair of cores. The core that is
//! switched to spends the time of the switch. What a thread's own data lose where it goes to another core than the last time
//! is not in it.
//!
//! A core without work polls (V4), is powered down at once (V1 to V3), or polls for as long as a switch takes before it
//! is powered down (V5, section 6.3: polling costs at most as much as the switch that it was to save). A core of the
//! library's V5 polls by the library's own account of what polling has brought; a switch to a core that polls takes a line
//! exchange, and to one that sleeps a wake-up.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use corehop_switch::budget::{SpinBudget, usual_limit};
pub use corehop_switch::policy::Flags;
use corehop_switch::policy::{
    CoreChoice, CoreHistory, CoreOccupancy, CoreSet, select_app_core, select_os_core,
};
use serde::Serialize;

use super::{SwitchMachine, instruction, library};
use crate::recipe::Recipe;
use crate::times::Picos;
use corehop_plan::experiment::DrawStream;
use corehop_plan::machine::MachineError;
use corehop_plan::platform::{Core, Platform, Power};
use corehop_plan::units::{Cpu, CpuList, Nanos};
use corehop_plan::workload::switching::SwitchMechanism;

/// Layouts of the kernel's code that the time of a switch is the mean over, and calls in each.
const LAYOUTS: u64 = 5;
const CALLS: u32 = 4;
/// The stream of draws of the load; those of layouts are below.
const LOAD: u64 = 4 << 48;

/// Threads and what they do.
#[derive(Debug, Clone, Serialize)]
pub struct OffLoadWorkload {
    /// The cores that make calls; the others run the threads.
    pub os_cores: CpuList,
    /// The mechanism: one of the library or of the kernel of 2009.
    pub mechanism: SwitchMechanism,
    /// The threads.
    pub threads: u32,
    /// The mean time from call to call, on the fastest core.
    pub compute: Nanos,
    /// The mean time of a call, on the fastest core, without the switches.
    pub call: Nanos,
    /// The simulated time.
    pub time: Nanos,
    /// Seed of all draws.
    pub seed: u64,
}

/// The cores that run threads, and whether their calls are off-loaded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OffLoadArm {
    /// Nothing is off-loaded, and all cores run threads.
    Unmodified,
    /// Nothing is off-loaded, and no thread runs on an OS core.
    Bound,
    /// Calls are off-loaded, with these settings of the policy.
    Policy(Flags),
}

/// The outcome of one arm.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct OffLoaded {
    /// Calls per second, of all threads.
    pub calls_per_second: f64,
    /// The mean time from the call until the thread computes again, in microseconds.
    pub mean_us: f64,
    /// The 99th percentile of it.
    pub p99_us: f64,
    /// The share of calls that were made on an OS core.
    pub there: f64,
    /// The mean share of time for which an application core was powered down.
    pub quiet: f64,
    /// The energy of all cores for a call, in microjoules. None: the platform lacks a core's power.
    pub microjoules: Option<f64>,
}

/// The times of switches between the cores of a machine.
#[derive(Debug)]
pub struct SwitchLatencies {
    instructions: Vec<Picos>,
    /// By source and target.
    times: Vec<Vec<Picos>>,
    /// The same to a core that has stopped polling.
    woken: Vec<Vec<Picos>>,
}

impl SwitchLatencies {
    /// Simulates the switches between application cores and OS cores.
    ///
    /// # Errors
    /// [`MachineError::NotPossible`] names what the platform lacks.
    pub fn simulate(platform: &Platform, load: &OffLoadWorkload) -> Result<Self, MachineError> {
        let recipe = Recipe::new(platform.clone(), crate::Partitioning::default())?;
        let cpus: Vec<Cpu> = platform.cpus.value.iter().collect();
        let count = cpus.last().map_or(0, |cpu| cpu.0 as usize + 1);
        let mut instructions = vec![0; count];
        for &cpu in &cpus {
            instructions[cpu.0 as usize] = instruction(platform, cpu)?;
        }
        let none = vec![vec![0; count]; count];
        let mut it = Self { instructions, times: none.clone(), woken: none };
        let is_os = |cpu: &Cpu| load.os_cores.contains(*cpu);
        for &from in &cpus {
            for &to in cpus.iter().filter(|to| is_os(to) != is_os(&from)) {
                let [polled, woken] = switch_times(&recipe, load, from, to)?;
                it.times[from.0 as usize][to.0 as usize] = polled;
                it.woken[from.0 as usize][to.0 as usize] = woken;
            }
        }
        Ok(it)
    }

    /// The mean time of a switch to an OS core and of one back, in microseconds, if the target polls.
    pub fn mean_us(&self, os_cores: &CpuList) -> [f64; 2] {
        let mean = |to_os: bool| {
            let is_os = |cpu: usize| os_cores.contains(Cpu(cpu as u32));
            let of = |(to, time): (usize, &Picos)| {
                (is_os(to) == to_os && *time > 0).then_some(*time as f64 / 1e6)
            };
            let times =
                || self.times.iter().flat_map(|from| from.iter().enumerate().filter_map(of));
            times().sum::<f64>() / times().count().max(1) as f64
        };
        [mean(true), mean(false)]
    }
}

/// The reason for which the switches by a mechanism between the cores of a platform are not known, if they are not.
///
/// # Errors
/// [`MachineError::NotPossible`] names what the platform lacks otherwise.
pub fn unknown(
    platform: &Platform,
    mechanism: SwitchMechanism,
) -> Result<Option<String>, MachineError> {
    if !SwitchMechanism::LIBRARY.contains(&mechanism) || mechanism == SwitchMechanism::V4 {
        return Ok(None);
    }
    for cpu in platform.cpus.value.iter() {
        if library::wake(platform, cpu)?.is_none() {
            return Ok(Some(library::unknown(platform)));
        }
    }
    Ok(None)
}

/// The times of a switch from `from` to `to`, if that polls and if it sleeps.
fn switch_times(
    recipe: &Recipe,
    load: &OffLoadWorkload,
    from: Cpu,
    to: Cpu,
) -> Result<[Picos; 2], MachineError> {
    if load.mechanism.is_strong() {
        return strong_time(recipe, load, from, to).map(|time| [time; 2]);
    }
    let parts = library::LibrarySwitchTimes::new(recipe, [from, to])?;
    let polled = parts.switch(load.mechanism);
    let woken = if load.mechanism == SwitchMechanism::V5 { parts.woken() } else { polled };
    polled.zip(woken).map(|(polled, woken)| [polled, woken]).ok_or_else(|| {
        MachineError::NotPossible {
            what: format!("off-load by {} on {}", load.mechanism, recipe.platform.name),
            why: library::unknown(&recipe.platform),
            remedy: "name v4, which polls, or a mechanism of the kernel of 2009 (strong-v1 to strong-v5)".to_owned(),
        }
    })
}

/// The time of a switch of the kernel of 2009, the mean over some layouts of its code.
fn strong_time(
    recipe: &Recipe,
    load: &OffLoadWorkload,
    from: Cpu,
    to: Cpu,
) -> Result<Picos, MachineError> {
    let mut sum = 0;
    for layout in 0..LAYOUTS {
        let mut pair = SwitchMachine::new(recipe, [from, to], load.seed, LOAD | layout)?;
        // The first ones fill the caches.
        for call in 0..2 * CALLS {
            let [there, _] = pair.there_and_back(load.mechanism);
            sum += if call < CALLS { 0 } else { there };
        }
    }
    Ok(sum / (LAYOUTS * u64::from(CALLS)))
}

/// The part of its loop that a thread is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LoopPhase {
    Compute,
    Call,
}

#[derive(Debug)]
struct CallingThread {
    memory: CoreHistory,
    part: LoopPhase,
    /// Cycles of the part.
    work: u64,
    /// The switch before it.
    switch: Picos,
    called: Picos,
}

#[derive(Debug)]
struct Served {
    /// The library's account of polling, by which its V5 polls here before it sleeps.
    budget: SpinBudget,
    queue: VecDeque<usize>,
    running: Option<usize>,
    /// The end of the part that runs.
    until: Picos,
    idle_since: Picos,
    /// Time busy, polling and powered down.
    spent: [Picos; 3],
}

impl Served {
    /// On a machine of so many CPUs.
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

/// The machine under way.
struct OffLoadMachine<'a> {
    load: &'a OffLoadWorkload,
    switches: &'a SwitchLatencies,
    arm: OffLoadArm,
    app: CoreSet,
    os: CoreSet,
    cores: Vec<Served>,
    /// The threads that wait for any core, where nothing is off-loaded.
    ready: VecDeque<usize>,
    threads: Vec<CallingThread>,
    ends: BinaryHeap<Reverse<(Picos, u64, usize)>>,
    events: u64,
    draw: DrawStream,
    calls: u64,
    there: u64,
    times: Vec<f64>,
}

/// Runs one arm of a load.
///
/// # Errors
/// [`MachineError::NotPossible`] if there are no threads, application cores or OS cores, or the time is too short for a call.
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
            part: LoopPhase::Compute,
            work: 0,
            switch: 0,
            called: 0,
        };
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
            threads: (0..load.threads).map(thread).collect(),
            ends: BinaryHeap::new(),
            events: 0,
            draw: DrawStream::new(load.seed, LOAD | 1 << 32),
            calls: 0,
            there: 0,
            times: Vec::new(),
        })
    }

    /// The end of the simulated time.
    const fn end(&self) -> Picos {
        self.load.time.get().saturating_mul(1_000)
    }

    /// Runs until the time is over.
    fn run(&mut self) {
        for thread in 0..self.threads.len() {
            self.threads[thread].work = self.instructions(self.load.compute);
            self.start(thread);
        }
        while let Some(Reverse((at, _, core))) = self.ends.pop() {
            if at > self.end() {
                break;
            }
            self.ended(core, at);
        }
        for core in 0..self.cores.len() {
            self.cut(core);
        }
    }

    /// A thread begins: on its application core, or on the fastest of the idle cores.
    fn start(&mut self, thread: usize) {
        let all: Vec<usize> = match self.arm {
            OffLoadArm::Unmodified => self.app.iter().chain(self.os.iter()).collect(),
            _ => self.app.iter().collect(),
        };
        if matches!(self.arm, OffLoadArm::Policy(_)) {
            return self.arrive(thread, all[thread % all.len()], 0);
        }
        let idle = all.into_iter().filter(|&core| self.cores[core].running.is_none());
        match idle.min_by_key(|&core| (self.switches.instructions[core], core)) {
            Some(core) => self.arrive(thread, core, 0),
            None => self.ready.push_back(thread),
        }
    }

    /// Accounts for what a core does at the end of the time.
    fn cut(&mut self, core: usize) {
        let end = self.end();
        let it = &mut self.cores[core];
        match it.running {
            Some(_) => it.spent[0] -= it.until.saturating_sub(end),
            None => self.idle_until(core, end),
        }
    }

    /// A draw around a mean, in instructions of the fastest core.
    fn instructions(&mut self, mean: Nanos) -> u64 {
        let fastest =
            self.switches.instructions.iter().copied().filter(|&it| it > 0).min().unwrap_or(1);
        let uniform = (self.draw.below(1 << 32) as f64 + 0.5) / (1_u64 << 32) as f64;
        (-uniform.ln() * mean.get() as f64 * 1e3 / fastest as f64) as u64 + 1
    }

    /// A part is to be run on a core.
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
        let end_of_time = self.end();
        let it = &mut self.threads[thread];
        let begun = now + it.switch;
        if it.part == LoopPhase::Compute && it.called > 0 && begun <= end_of_time {
            self.times.push((begun - it.called) as f64 / 1e6);
        }
        let end = begun + it.work * self.switches.instructions[core];
        self.cores[core].running = Some(thread);
        self.cores[core].until = end;
        self.cores[core].spent[0] += end - now;
        self.events += 1;
        self.ends.push(Reverse((end, self.events, core)));
    }

    fn ended(&mut self, core: usize, now: Picos) {
        let Some(thread) = self.cores[core].running.take() else { return };
        let called = self.threads[thread].part == LoopPhase::Compute;
        self.next_part(thread, now, called);
        let OffLoadArm::Policy(flags) = self.arm else {
            // Those that wait are first.
            self.ready.push_back(thread);
            let first = self.ready.pop_front().unwrap_or(thread);
            return self.begin(first, core, now);
        };
        let next = if called {
            self.call(flags, thread, core, now)
        } else {
            self.compute(flags, thread, core, now)
        };
        if let Some(other) = self.cores[core].queue.pop_front() {
            self.begin(other, core, now);
        } else {
            self.cores[core].idle_since = now;
        }
        self.arrive(thread, next, now);
    }

    /// The thread goes on to a call, or to compute after one.
    fn next_part(&mut self, thread: usize, now: Picos, called: bool) {
        let load = self.load;
        let work = self.instructions(if called { load.call } else { load.compute });
        let it = &mut self.threads[thread];
        (it.work, it.switch) = (work, 0);
        it.part = if called { LoopPhase::Call } else { LoopPhase::Compute };
        if called {
            it.called = now.max(1);
            self.calls += 1;
        }
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

    /// The time of a switch to a core, which is longer if that has stopped polling.
    fn switch_time(&self, from: usize, to: usize, now: Picos) -> Picos {
        let core = &self.cores[to];
        let sleeps = core.running.is_none() && now - core.idle_since > self.polls_for(to);
        let times = if sleeps { &self.switches.woken } else { &self.switches.times };
        times[from][to]
    }

    /// The machine as a thread on `source` sees it, which leaves it.
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

    /// The time for which V5 polls on a core: that of the library by its account, that of the kernel of 2009 the shortest
    /// switch to the core once it sleeps.
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

/// The watts of a core that is busy, polls, or is powered down.
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
