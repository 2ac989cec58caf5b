// SPDX-License-Identifier: MIT OR Apache-2.0
//! A simulated host that runs gangs, observes them window by window, and moves their threads.
//!
//! The host simulates the kernel features that placing depends on: time slices, threads that sleep and wake, CPU
//! affinity masks, and a load balancer that ignores sharing. When a move is undone, the thread returns to its
//! previous CPU. The host reports the same evidence as a live host: wake-ups, writers of sampled pages, counters,
//! and line transfer times. Collecting evidence takes no simulated time.

use std::collections::BTreeMap;
use std::time::Duration;

use super::line_times::line_times;
use super::run::{GangSimulation, cycle};
use super::seat::gained;
use crate::partitioning::Partitioning;
use crate::recipe::Recipe;
use crate::times::Picos;
use corehop_plan::experiment::{DrawStream, Gang, Gangs};
use corehop_plan::host::{
    ActiveThread, Activity, Contact, Host, HostError, InstructionCounts, LineTimes, Move,
    Observation, Receipt,
};
use corehop_plan::machine::MachineError;
use corehop_plan::platform::Platform;
use corehop_plan::samples::MemberCounts;
use corehop_plan::units::{Cpu, CpuList};

/// The random stream of a simulated host, and of the pages that the host samples.
const STREAM: u64 = 3 << 48;
const PAGES: u64 = 4 << 48;
/// The process ID of all threads, and the thread ID of the first thread.
const PID: u32 = 1;

/// The host's record of a thread.
#[derive(Debug, Clone)]
struct HostThread {
    allowed: CpuList,
    /// The thread's run time before the current window.
    busy: Picos,
    /// The thread's access counts before the current window.
    counts: MemberCounts,
}

/// A simulated host on which gangs run endlessly.
pub struct SimHost {
    recipe: Recipe,
    run: GangSimulation,
    threads: Vec<HostThread>,
    now: Picos,
    /// The moves in force, by receipt, with the previous CPU of each moved thread.
    moves: BTreeMap<u64, Vec<(usize, Cpu)>>,
    next: u64,
    /// The transfer times of lines between CPUs.
    lines: LineTimes,
    /// The number of windows so far; each window samples other pages.
    windows: u64,
    seed: u64,
}

impl std::fmt::Debug for SimHost {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SimHost")
            .field("threads", &self.threads)
            .field("now", &self.now)
            .finish_non_exhaustive()
    }
}

impl SimHost {
    /// Creates a host that runs these gangs. Each thread starts on its planned CPU and may use all CPUs.
    ///
    /// # Errors
    /// Returns the errors of [`SimMachine::new`](crate::SimMachine::new), and an error if the host cannot run a
    /// gang.
    pub fn new(platform: Platform, gangs: &Gangs, seed: u64) -> Result<Self, MachineError> {
        gangs.check(&platform).map_err(corehop_plan::experiment::PlanError::from)?;
        let recipe = Recipe::new(platform, Partitioning::default())?;
        let mut state = recipe.idle_state(seed)?;
        state.redraw(seed, STREAM);
        let mut run = GangSimulation::new(state, true);
        for (at, gang) in gangs.gangs.iter().enumerate() {
            let endless = Gang { warm_up: 0, rounds: u64::MAX, ..gang.clone() };
            run.add(&recipe, &endless, (seed, STREAM | (at as u64) << 24))?;
        }
        let allowed = recipe.platform.usable();
        let none = MemberCounts::default();
        let thread = |_: &_| HostThread { allowed: allowed.clone(), busy: 0, counts: none };
        let threads = run.members.iter().map(thread).collect();
        let lines = line_times(&recipe, seed)?;
        let moves = BTreeMap::new();
        Ok(Self { recipe, run, threads, now: 0, moves, next: 0, lines, windows: 0, seed })
    }

    /// The current CPU of every thread.
    pub fn cpus(&self) -> Vec<Cpu> {
        (0..self.threads.len()).map(|at| self.cpu_of(at)).collect()
    }

    fn cpu_of(&self, at: usize) -> Cpu {
        let cpus = &self.recipe.platform.cpus.value;
        cpus.iter().nth(self.run.members[at].cpu).unwrap_or_default()
    }

    /// The number of threads on a CPU, including threads that sleep.
    fn on(&self, cpu: Cpu) -> usize {
        let place = self.recipe.place(cpu);
        self.run.members.iter().filter(|member| member.cpu == place).count()
    }

    fn take_to(&mut self, at: usize, cpu: Cpu) -> Result<(), HostError> {
        let refused = |why: MachineError| HostError::Move {
            tid: tid(at),
            cpus: CpuList::new([cpu]),
            why: why.to_string(),
        };
        let cycle = cycle(&self.recipe.platform, cpu).map_err(refused)?;
        self.run.take_to(at, self.recipe.place(cpu), cycle);
        Ok(())
    }

    /// The allowed CPU with the fewest threads; the thread's own CPU if no other CPU is better.
    fn least_loaded(&self, at: usize) -> Option<Cpu> {
        let own = self.cpu_of(at);
        let load = |cpu: Cpu| (self.on(cpu) - usize::from(cpu == own), cpu != own, cpu);
        self.threads[at].allowed.iter().min_by_key(|&cpu| load(cpu))
    }

    /// Balances the load as a kernel does: moves a thread from a CPU with at least two threads more than another
    /// CPU to that other CPU.
    fn balance(&mut self) -> Result<(), HostError> {
        for at in 0..self.threads.len() {
            let Some(to) = self.least_loaded(at) else { continue };
            if self.on(self.cpu_of(at)) > self.on(to) + 1 {
                self.take_to(at, to)?;
            }
        }
        Ok(())
    }

    /// Restricts a thread to these CPUs, and moves the thread to one of them.
    fn allow(&mut self, at: usize, cpus: &CpuList) -> Result<(), HostError> {
        self.threads[at].allowed = cpus.clone();
        match self.least_loaded(at) {
            Some(to) if !cpus.contains(self.cpu_of(at)) => self.take_to(at, to),
            _ => Ok(()),
        }
    }

    fn activity(&mut self, span: Picos) -> Activity {
        let (mut threads, cpus) = (Vec::new(), self.cpus());
        for (at, member) in self.run.members.iter().enumerate() {
            let thread = &mut self.threads[at];
            // Who sleeps has slept since its own time; who waits for a CPU has waited.
            let busy = member.clock.min(self.now).saturating_sub(member.away);
            let counts = self.run.counted(at);
            threads.push(ActiveThread {
                tid: tid(at),
                pid: PID,
                name: format!("{}-{at}", self.run.gangs[member.gang].gang.program.word()),
                busy_ns: busy.saturating_sub(thread.busy) / 1_000,
                waited_ns: 0,
                allowed: thread.allowed.clone(),
                cpu: Some(cpus[at]),
                working_set: Some(self.run.working_set(at)),
                counted: Some(counted(&gained(&thread.counts, &counts))),
            });
            (thread.busy, thread.counts) = (busy, counts);
        }
        let contact =
            |((waker, woken), count)| Contact { waker: tid(waker), woken: tid(woken), count };
        let contacts = std::mem::take(&mut self.run.wakes).into_iter().map(contact).collect();
        let rounds: u64 = self.run.members.iter().map(|member| member.rounds).sum();
        Activity {
            span_ns: span / 1_000,
            threads,
            contacts,
            counted_ns: None,
            shared: self.run.sampled(span, tid),
            lines: Some(self.lines),
            progress: Some(rounds as f64),
        }
    }
}

/// Converts access counts to the counts that hardware counters report.
const fn counted(it: &MemberCounts) -> InstructionCounts {
    InstructionCounts {
        instructions: it.instructions,
        misses: it.misses,
        from_caches: it.snoop_hits,
    }
}

/// The thread ID of the thread at index `at`; no thread has ID 0.
fn tid(at: usize) -> u32 {
    PID + at as u32
}

/// The index of the thread with this thread ID.
fn number(tid: u32, threads: usize) -> Option<usize> {
    let at = tid.checked_sub(PID)? as usize;
    (at < threads).then_some(at)
}

impl Host for SimHost {
    fn observe(&mut self, window: Duration) -> Result<Observation, HostError> {
        self.balance()?;
        let span = Picos::try_from(window.as_nanos() * 1_000).unwrap_or(Picos::MAX);
        self.windows += 1;
        let draw = DrawStream::new(self.seed, PAGES | self.windows);
        self.run.sample((self.now, span), draw);
        self.now = self.now.saturating_add(span);
        self.run.until(self.now);
        Ok(Observation { activity: Some(self.activity(span)), ..Observation::default() })
    }

    fn apply(&mut self, moves: &[Move]) -> Result<Receipt, HostError> {
        let (mut before, mut cpus) = (Vec::new(), Vec::new());
        for it in moves {
            let Some(at) = number(it.tid, self.threads.len()) else { continue };
            before.push(Move { tid: it.tid, cpus: self.threads[at].allowed.clone() });
            cpus.push((at, self.cpu_of(at)));
            self.allow(at, &it.cpus)?;
        }
        self.next += 1;
        self.moves.insert(self.next, cpus);
        Ok(Receipt { number: self.next, before })
    }

    fn revert(&mut self, receipt: Receipt) -> Result<(), HostError> {
        let cpus = self.moves.remove(&receipt.number).unwrap_or_default();
        for (it, (at, cpu)) in receipt.before.iter().zip(cpus) {
            self.threads[at].allowed = it.cpus.clone();
            self.take_to(at, cpu)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use corehop_plan::host::{DataSharing, Evidence};
    use corehop_plan::workload::gang::{Channel, GangProgram, Placing, Sharing};

    const WINDOW: Duration = Duration::from_micros(300);

    /// A host with the E5520 platform and pairs of threads, each pair on two packages.
    fn host(program: &GangProgram, sharing: Sharing, pairs: u32) -> SimHost {
        let platform = Platform::named("xeon_e5520").unwrap().unwrap();
        let gang = |pair: u32| Gang {
            program: program.clone(),
            sharing,
            placing: Placing::Separate,
            cpus: vec![Cpu(pair), Cpu(pair + 4)],
            moves: Vec::new(),
            rounds: 1,
            warm_up: 0,
            replicate: 0,
            samples: 1,
            first_run: 0,
        };
        SimHost::new(platform, &Gangs { gangs: (0..pairs).map(gang).collect() }, 3).unwrap()
    }

    fn windows(host: &mut SimHost, windows: u32) -> Vec<Activity> {
        (0..windows).map(|_| host.observe(WINDOW).unwrap().activity.unwrap()).collect()
    }

    const SWAP: GangProgram = GangProgram::Swap { items: 1_000, fixed_low_bits: false };
    const SORT: GangProgram = GangProgram::BucketSort { items: 10_000, buckets: 8 };
    const ADD: GangProgram = GangProgram::LinearRegression { items: 1_000 };
    const FORK: GangProgram = GangProgram::ForkJoin { number: 10 };

    #[test]
    fn pairs_that_share_memory_are_seen_at_its_pages_and_no_others() {
        for program in [SWAP, SORT, ADD, FORK] {
            for window in windows(&mut host(&program, Sharing::Write, 3), 3) {
                let pairs: Vec<(u32, u32)> = window.shared.iter().map(|it| (it.a, it.b)).collect();
                assert_eq!(pairs, [(1, 2), (3, 4), (5, 6)], "{program:?}");
                for it in &window.shared {
                    // Ten faults a thread; of two that write alike every other one is handed over.
                    assert!(it.by == Evidence::Pages && (1..30).contains(&it.seen), "{it:?}");
                    assert!(
                        (it.per_second * WINDOW.as_secs_f64() / it.seen as f64 - 1.0).abs() < 1e-9
                    );
                }
                assert_eq!(window.contacts, []);
            }
        }
    }

    #[test]
    fn readers_and_threads_with_copies_of_their_own_are_never_seen_at_a_page() {
        for sharing in [Sharing::Read, Sharing::None] {
            for program in [SWAP, SORT, ADD, FORK] {
                let seen: Vec<DataSharing> = windows(&mut host(&program, sharing, 2), 3)
                    .into_iter()
                    .flat_map(|it| it.shared)
                    .collect();
                assert_eq!(seen, [], "{program:?} {sharing}");
            }
        }
    }

    #[test]
    fn messages_through_the_system_wake_and_touch_no_page_of_the_program() {
        let program = GangProgram::Exchange { items: 1, instructions: 0, through: Channel::Socket };
        let all = windows(&mut host(&program, Sharing::Write, 1), 2);
        assert!(all.iter().all(|it| it.shared.is_empty() && !it.contacts.is_empty()));
    }

    #[test]
    fn a_line_takes_what_the_platform_says_below_a_cache_and_across() {
        let [window] = windows(&mut host(&SWAP, Sharing::Write, 1), 1).try_into().unwrap();
        let lines = window.lines.unwrap();
        let near = |value: Option<f64>, to: f64| (value.unwrap() / to - 1.0).abs() < 0.001;
        assert!(near(lines.shared_cache_ns, 81.0 / 2.2), "{lines:?}");
        assert!(near(lines.separate_ns, 83.0), "{lines:?}");
    }

    #[test]
    fn counters_tell_misses_that_another_package_answers_until_the_threads_are_together() {
        let mut host = host(&SWAP, Sharing::Write, 1);
        let apart = windows(&mut host, 2).pop().unwrap();
        assert_eq!(
            apart.threads.iter().filter_map(|it| it.cpu).collect::<Vec<_>>(),
            [Cpu(0), Cpu(4)]
        );
        for it in &apart.threads {
            let counted = it.counted.unwrap();
            // 144 instructions and about two misses a swap.
            let misses = counted.misses as f64 * 144.0 / counted.instructions as f64;
            assert!((1.8..2.3).contains(&misses), "{counted:?}");
            assert_eq!(counted.from_caches, counted.misses);
        }
        let _stays = host.apply(&[Move { tid: 2, cpus: CpuList::new([Cpu(1)]) }]).unwrap();
        let together = windows(&mut host, 2).pop().unwrap();
        assert_eq!(together.threads[1].cpu, Some(Cpu(1)));
        assert!(together.threads.iter().all(|it| it.counted.unwrap().misses == 0));
        assert!(!together.shared.is_empty());
    }

    #[test]
    fn the_same_seed_tells_the_same() {
        let program = GangProgram::Swap { items: 100_000, fixed_low_bits: false };
        let all = || windows(&mut host(&program, Sharing::Write, 2), 3);
        assert_eq!(all(), all());
    }
}
