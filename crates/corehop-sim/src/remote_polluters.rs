// SPDX-License-Identifier: MIT OR Apache-2.0
//! Polluters that share no cache with the job, so that the job notices only the queues that these polluters cause.
//!
//! The simulator counts each polluter's requests to the servers while the machine runs without a job and with all
//! caches simulated. While a job runs, such a polluter only sends requests to the servers at the counted rate, and
//! waits in their queues like every other thread: a polluter that waits longer sends its next request later, as in
//! a closed queueing network. Lines that polluters take from each other within a package cause no requests to the
//! servers.

use corehop_plan::platform::{Distance, Supplier, Traffic};

use super::outcome::AccessOutcome;
use super::servers::Servers;
use super::times::Picos;
use super::turns::EventQueue;

/// The counted requests of a thread.
#[derive(Debug, Clone, Copy, Default)]
struct Habit {
    /// The index of the home node of the thread's last line.
    home: usize,
    reads: u64,
    transfers: u64,
    written: u64,
    waited: Picos,
}

/// A thread that only sends requests to the servers.
#[derive(Debug, Clone)]
struct RemotePolluter {
    cpu: usize,
    /// The time between two misses, without waiting times.
    interval: Picos,
    at: Picos,
    /// The fractions of reads and write-backs not yet sent, in parts of the thread's misses.
    debts: [u64; 2],
}

/// All remote polluters of a machine.
#[derive(Debug, Clone)]
pub(super) struct RemotePolluters {
    /// The counted requests, by CPU.
    habits: Vec<Habit>,
    begun: Picos,
    /// Whether requests are being counted.
    watching: bool,
    /// The length of the counting period; 0 before its end.
    watched: Picos,
    visitors: Vec<RemotePolluter>,
    /// The time of each polluter's next request, by the polluter's index.
    turns: EventQueue,
    /// The time of the earliest next request.
    next: Picos,
}

impl Habit {
    /// The number of lines that did not come from the thread's own caches.
    fn misses(&self) -> u64 {
        self.reads + self.transfers
    }

    /// Whether any of the thread's requests goes to the servers. A thread that receives lines only from other
    /// caches would step through time without effect.
    fn comes_to_servers(&self) -> bool {
        self.reads > 0 || (self.written > 0 && self.transfers > 0)
    }
}

impl RemotePolluters {
    /// Creates the tally of remote polluters for `cpus` CPUs, without any counted requests.
    pub(super) fn new(cpus: usize) -> Self {
        Self {
            habits: vec![Habit::default(); cpus],
            begun: 0,
            watching: false,
            watched: 0,
            visitors: Vec::new(),
            turns: EventQueue::default(),
            next: Picos::MAX,
        }
    }

    /// Starts counting the polluters' requests to the servers at `now`.
    pub(super) fn begin(&mut self, now: Picos) {
        self.habits.fill(Habit::default());
        (self.begun, self.watched, self.watching) = (now, 0, true);
    }

    /// Ends counting the polluters' requests to the servers at `now`.
    pub(super) fn end(&mut self, now: Picos) {
        (self.watched, self.watching) = (now - self.begun, false);
    }

    /// Counts an access of `cpu` beyond the innermost cache, to a line of the node at index `home`.
    #[inline(always)]
    pub(super) fn note(&mut self, cpu: usize, home: usize, outcome: AccessOutcome) {
        if !self.watching {
            return;
        }
        let habit = &mut self.habits[cpu];
        habit.written += u64::from(outcome.written_back);
        match outcome.supplier {
            Supplier::Memory => (habit.home, habit.reads) = (home, habit.reads + 1),
            Supplier::Peer if outcome.distance == Distance::Machine => habit.transfers += 1,
            _ => {}
        }
    }

    /// Adds a waiting time of `cpu`.
    #[inline(always)]
    pub(super) fn note_wait(&mut self, cpu: usize, waited: Picos) {
        if self.watching {
            self.habits[cpu].waited += waited;
        }
    }

    /// Reduces the threads on `cpus` to server requests from `now` on; all other threads are simulated in full.
    pub(super) fn send(&mut self, cpus: impl IntoIterator<Item = usize>, now: Picos) {
        let before = std::mem::take(&mut self.visitors);
        for cpu in cpus {
            if self.watched == 0 || !self.habits[cpu].comes_to_servers() {
                continue;
            }
            let known = before.iter().find(|visitor| visitor.cpu == cpu);
            let interval = self.interval(cpu);
            let fresh = || RemotePolluter { cpu, interval, at: now + interval, debts: [0; 2] };
            let visitor = known.cloned().unwrap_or_else(fresh);
            self.visitors.push(RemotePolluter { interval, at: visitor.at.max(now), ..visitor });
        }
        let times = self.visitors.iter().enumerate().map(|(place, it)| (it.at, place));
        self.turns = EventQueue::of(times);
        self.find_next();
    }

    /// The time between two misses of a thread, without waiting times.
    fn interval(&self, cpu: usize) -> Picos {
        let habit = &self.habits[cpu];
        self.watched.saturating_sub(habit.waited) / habit.misses().max(1)
    }

    fn find_next(&mut self) {
        self.next = self.turns.first().map_or(Picos::MAX, |(at, _)| at);
    }

    /// Whether any thread is reduced to server requests or being counted.
    pub(super) fn act(&self) -> bool {
        self.watching || !self.visitors.is_empty()
    }

    /// Moves the clocks of all remote polluters on by `time`.
    pub(super) fn skip(&mut self, time: Picos) {
        self.visitors.iter_mut().for_each(|visitor| visitor.at += time);
        self.turns.skip(time);
        self.find_next();
    }

    /// Sends all requests due before `until` to the servers.
    #[inline(always)]
    pub(super) fn run(&mut self, until: Picos, servers: &mut Servers) {
        while self.next < until {
            self.step(servers);
        }
    }

    /// Sends the next polluter's request to the servers.
    fn step(&mut self, servers: &mut Servers) {
        let Some((_, place)) = self.turns.first() else { return };
        let visitor = &mut self.visitors[place];
        let habit = &self.habits[visitor.cpu];
        let mut waited = 0;
        for (debt, (part, traffic)) in visitor
            .debts
            .iter_mut()
            .zip([(habit.reads, Traffic::MemoryRead), (habit.written, Traffic::WriteBack)])
        {
            *debt += part;
            while *debt >= habit.misses() {
                *debt -= habit.misses();
                let wait = servers.pass(traffic, visitor.cpu, habit.home, visitor.at + waited);
                // A line is written behind the thread's back.
                waited += if traffic == Traffic::MemoryRead { wait } else { 0 };
            }
        }
        visitor.at += visitor.interval.max(1) + waited;
        self.turns.first_again(visitor.at);
        self.find_next();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use corehop_plan::platform::{Fact, Latency, Platform, Server, Side};

    fn servers() -> Servers {
        let mut platform = Platform::named("xeon_x5650").unwrap().unwrap();
        platform.servers = vec![Server {
            name: "memory".to_owned(),
            instances: platform.packages.clone(),
            carries: Fact::assumed(vec![Traffic::MemoryRead, Traffic::WriteBack], ""),
            distances: None,
            service: Fact::assumed(Latency::Picos(10_000), ""),
            side: Some(Fact::assumed(Side::Home, "")),
            drift: None,
        }];
        Servers::from_platform(&platform, 1).unwrap()
    }

    const MISS: AccessOutcome =
        AccessOutcome { supplier: Supplier::Memory, level: 0, ..AccessOutcome::HIT };

    #[test]
    fn who_missed_every_100_ns_and_wrote_every_other_line_does_so_again() {
        let mut servers = servers();
        let mut remote = RemotePolluters::new(12);
        remote.begin(0);
        for miss in 0..10 {
            remote.note(7, 0, AccessOutcome { written_back: miss % 2, ..MISS });
        }
        remote.end(1_000_000);
        remote.send([7], 1_000_000);
        remote.run(2_000_001, &mut servers);
        // Ten reads and five lines written, 10 ns each, in 1 us.
        assert_eq!(servers.utilisation(1_000_000)[0], [150, 0]);
        remote.send([], 2_000_000);
        remote.run(9_000_000, &mut servers);
        assert_eq!(servers.utilisation(1_000_000)[0], [150, 0]);
    }

    #[test]
    fn what_it_waited_while_it_was_watched_does_not_count_and_what_it_waits_now_does() {
        let mut servers = servers();
        let mut remote = RemotePolluters::new(12);
        remote.begin(0);
        for _ in 0..10 {
            remote.note(7, 0, MISS);
            remote.note_wait(7, 50_000);
        }
        remote.end(1_000_000);
        remote.send([7], 1_000_000);
        // Somebody else keeps the channel for 1 us.
        for _ in 0..100 {
            servers.pass(Traffic::MemoryRead, 0, 0, 1_000_000);
        }
        remote.run(2_000_000, &mut servers);
        assert_eq!(remote.next, 1_050_000 + 950_000 + 50_000);
    }
}
