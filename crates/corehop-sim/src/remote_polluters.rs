// SPDX-License-Identifier: MIT OR Apache-2.0
//! Polluters that share no cache with the job: all that it can notice of them are the queues.
//!
//! Each one's requests to the servers are counted while the machine runs by itself, every cache
//! simulated. While a job runs they only come to the servers, as often as they did then, and wait
//! there as everybody does: who waits longer comes later, as in a closed queueing network. Lines that they take from each
//! other within a package do not come to the servers.

use corehop_plan::platform::{Distance, Supplier, Traffic};

use super::outcome::AccessOutcome;
use super::servers::Servers;
use super::times::Picos;
use super::turns::EventQueue;

/// The requests of a thread while it was watched.
#[derive(Debug, Clone, Copy, Default)]
struct Habit {
    /// The place of the node that the last of its lines came from.
    home: usize,
    reads: u64,
    transfers: u64,
    written: u64,
    waited: Picos,
}

/// A thread that only comes to the servers.
#[derive(Debug, Clone)]
struct RemotePolluter {
    cpu: usize,
    /// The time between two misses but for its waiting.
    interval: Picos,
    at: Picos,
    /// Reads and lines written since the last whole one, in parts of its misses.
    debts: [u64; 2],
}

/// All of them.
#[derive(Debug, Clone)]
pub(super) struct RemotePolluters {
    /// By CPU.
    habits: Vec<Habit>,
    begun: Picos,
    /// They are watched now.
    watching: bool,
    /// The time they were watched; nothing before the end of that.
    watched: Picos,
    visitors: Vec<RemotePolluter>,
    /// When each of them comes, by its place.
    turns: EventQueue,
    /// When the first of them does.
    next: Picos,
}

impl Habit {
    /// The lines that did not come from its own caches.
    fn misses(&self) -> u64 {
        self.reads + self.transfers
    }

    /// Whether any of its requests is one for the servers. A thread that only has its lines from others would step through
    /// time and do nothing.
    fn comes_to_servers(&self) -> bool {
        self.reads > 0 || (self.written > 0 && self.transfers > 0)
    }
}

impl RemotePolluters {
    /// A machine of so many CPUs, none of them watched yet.
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

    /// Watches from now on.
    pub(super) fn begin(&mut self, now: Picos) {
        self.habits.fill(Habit::default());
        (self.begun, self.watched, self.watching) = (now, 0, true);
    }

    /// Has watched.
    pub(super) fn end(&mut self, now: Picos) {
        (self.watched, self.watching) = (now - self.begun, false);
    }

    /// An access beyond the innermost cache, to a line of the node at place `home`.
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

    /// The time it waited.
    #[inline(always)]
    pub(super) fn note_wait(&mut self, cpu: usize, waited: Picos) {
        if self.watching {
            self.habits[cpu].waited += waited;
        }
    }

    /// From `now` on those on `cpus` only come to the servers, and all others are simulated.
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

    /// The time between two misses of a thread but for its waiting.
    fn interval(&self, cpu: usize) -> Picos {
        let habit = &self.habits[cpu];
        self.watched.saturating_sub(habit.waited) / habit.misses().max(1)
    }

    fn find_next(&mut self) {
        self.next = self.turns.first().map_or(Picos::MAX, |(at, _)| at);
    }

    /// Whether any of them comes to the servers or is watched.
    pub(super) fn act(&self) -> bool {
        self.watching || !self.visitors.is_empty()
    }

    /// Moves all clocks on.
    pub(super) fn skip(&mut self, time: Picos) {
        self.visitors.iter_mut().for_each(|visitor| visitor.at += time);
        self.turns.skip(time);
        self.find_next();
    }

    /// Lets those come to the servers who do so until `until`.
    #[inline(always)]
    pub(super) fn run(&mut self, until: Picos, servers: &mut Servers) {
        while self.next < until {
            self.step(servers);
        }
    }

    /// The next one comes.
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
