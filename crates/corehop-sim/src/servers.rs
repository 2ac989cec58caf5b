// SPDX-License-Identifier: MIT OR Apache-2.0
//! Buses, channels and links: each server handles one line at a time, first come, first served.
//!
//! The machine state issues requests in the order of simulated time, so the state of a server is a single number:
//! the time at which the server becomes free. If N cores wait for one another, the latency at saturation is N times
//! the service time, as in a closed queueing network.

use corehop_plan::platform::{
    Distance, Fact, Latency, Platform, Server as PlatformServer, Side, Traffic,
};

use corehop_plan::units::Cpu;

use super::drift::Drifting;
use super::spec::SpecError;
use super::times::Picos;

/// The number of kinds of traffic, counting transfers once for each distance of the peer.
const KINDS: usize = TRANSFERS + 5;
/// The place of the first kind of transfer.
const TRANSFERS: usize = 5;
/// The distances of peers, in the order of their kinds.
const DISTANCES: [Distance; 5] =
    [Distance::Core, Distance::L2, Distance::L3, Distance::Package, Distance::Machine];

/// One kind of server, as a platform file describes it.
struct ServerKind {
    service: Picos,
    drift: Option<Drifting>,
    /// The server instance that each CPU uses.
    of_cpu: Vec<Option<usize>>,
    /// The server instance that belongs to each node.
    of_node: Vec<Option<usize>>,
    side: Side,
    /// The index of this kind's first instance in the list of all servers' instances.
    first: usize,
    count: usize,
    /// The number of instances for one group of CPUs: 1, or one for each slice of the group's last-level cache.
    slices: usize,
}

/// One server instance, with its own queue.
#[derive(Debug, Clone)]
struct Instance {
    /// The simulated time at which the instance becomes free.
    free: Picos,
    /// The total time for which the instance was busy.
    busy: Picos,
    service: Picos,
    /// The simulated time until which the current service time is valid.
    until: Picos,
    drift: Option<Drifting>,
}

/// The server instances that a line passes, usually a single instance.
#[derive(Debug, Clone, Copy)]
struct Route {
    /// The first instance on the route, or [`NOWHERE`].
    first: u32,
    /// The range of the remaining instances in [`Servers::stops`]: start, and end (exclusive).
    others: (u32, u32),
}

/// The index that stands for no instance.
const NOWHERE: u32 = u32::MAX;

/// All servers of a machine.
#[derive(Debug, Clone, Default)]
pub struct Servers {
    /// The instances of the first server kind, then of the second, and so on.
    instances: Vec<Instance>,
    /// The number of requests at each server.
    counts: Vec<usize>,
    /// The instances that lines pass after the first instance of a route.
    stops: Vec<u32>,
    /// Routes by kind of traffic, CPU and home node. Traffic through the second, third and later slices of a last
    /// level has further kinds after all others.
    routes: Vec<Route>,
    cpus: usize,
    homes: usize,
}

impl Servers {
    /// Creates the servers that `platform` states, possibly none. Each simulated line counts as `weight` lines.
    ///
    /// # Errors
    /// Returns [`SpecError`] if a service time in cycles has no clock, or a server carries nothing.
    pub fn from_platform(platform: &Platform, weight: u64) -> Result<Self, SpecError> {
        let mut all = Self {
            cpus: platform.cpus.value.len(),
            homes: platform.nodes.len().max(1),
            ..Self::default()
        };
        let mut servers = Vec::new();
        for server in &platform.servers {
            let server = ServerKind::new(server, platform, weight, all.instances.len())?;
            let (service, drift) = (server.service, server.drift.clone());
            let until = if drift.is_some() { 0 } else { Picos::MAX };
            let instance = Instance { free: 0, busy: 0, service, until, drift };
            all.instances.resize(server.first + server.count, instance);
            all.counts.push(server.count);
            servers.push(server);
        }
        let slices = platform.cpus.value.iter().map(|cpu| slices_of(platform, cpu)).max();
        let further = (1..slices.unwrap_or(1)).map(|slice| (Traffic::LastLevel as usize, slice));
        for (kind, slice) in (0..KINDS).map(|kind| (kind, 0)).chain(further) {
            let carries = |server: &PlatformServer| times(server, kind);
            let carriers = servers.iter().zip(platform.servers.iter().map(carries));
            let carriers: Vec<&ServerKind> =
                carriers.flat_map(|(server, times)| std::iter::repeat_n(server, times)).collect();
            all.add_routes(&carriers, slice);
        }
        Ok(all)
    }

    /// Adds the routes of one kind of traffic that the servers `carriers` handle, in the order of the platform
    /// file.
    fn add_routes(&mut self, carriers: &[&ServerKind], slice: usize) {
        for cpu in 0..self.cpus {
            for home in 0..self.homes {
                let mut stops = carriers.iter().filter_map(|server| server.stop(cpu, home, slice));
                let (first, begin) = (stops.next().unwrap_or(NOWHERE), self.stops.len() as u32);
                self.stops.extend(stops);
                self.routes.push(Route { first, others: (begin, self.stops.len() as u32) });
            }
        }
    }

    /// Restarts drifting service times with random draws from stream `stream`.
    pub(super) fn redraw(&mut self, seed: u64, stream: u64) {
        for (place, instance) in self.instances.iter_mut().enumerate() {
            if let Some(drift) = &mut instance.drift {
                drift.redraw(seed, stream ^ (place as u64) << 48);
                instance.until = 0;
            }
        }
    }

    /// Draws new values for drifting service times, because the next job begins at an arbitrary time after the last
    /// job.
    pub(super) fn begin_anew(&mut self) {
        for instance in self.instances.iter_mut().filter(|instance| instance.drift.is_some()) {
            instance.until = 0;
        }
    }

    /// Whether the machine has no servers, so that no request ever waits.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.instances.is_empty()
    }

    /// Sends one line of `traffic` for `cpu`, whose home is the node at place `home`, at time `at`. Returns the
    /// waiting time in the queues; the service time itself is part of the latency table. Transfers count as
    /// transfers from another package.
    #[inline(always)]
    pub fn pass(&mut self, traffic: Traffic, cpu: usize, home: usize, at: Picos) -> Picos {
        let kind = if traffic == Traffic::Transfer { TRANSFERS + 4 } else { traffic as usize };
        self.pass_kind(kind, cpu, home, at)
    }

    /// Sends a line that a peer at this distance supplies, and returns the waiting time in the queues.
    #[inline(always)]
    pub fn transfer(&mut self, distance: Distance, cpu: usize, home: usize, at: Picos) -> Picos {
        self.pass_kind(TRANSFERS + distance as usize, cpu, home, at)
    }

    /// Sends a line through this slice of the last level of `cpu`, and returns the waiting time in the queue.
    #[inline(always)]
    pub(super) fn pass_slice(&mut self, slice: usize, cpu: usize, home: usize, at: Picos) -> Picos {
        let kind = if slice == 0 { Traffic::LastLevel as usize } else { KINDS + slice - 1 };
        self.pass_kind(kind, cpu, home, at)
    }

    #[inline(always)]
    fn pass_kind(&mut self, kind: usize, cpu: usize, home: usize, at: Picos) -> Picos {
        let route = (kind * self.cpus + cpu) * self.homes + home;
        let Some(&Route { first, others: (begin, end) }) = self.routes.get(route) else { return 0 };
        let Some(instance) = self.instances.get_mut(first as usize) else { return 0 };
        let mut time = instance.pass(at);
        if begin < end {
            for &stop in &self.stops[begin as usize..end as usize] {
                time = self.instances[stop as usize].pass(time);
            }
        }
        time - at
    }

    /// The time from `now` until each instance is free; None if any service time drifts.
    pub(super) fn waits(&self, now: Picos) -> Option<Vec<Picos>> {
        let wait = |one: &Instance| one.drift.is_none().then(|| one.free.saturating_sub(now));
        self.instances.iter().map(wait).collect()
    }

    /// The total time for which each instance was busy.
    pub(super) fn busy(&self) -> Vec<Picos> {
        self.instances.iter().map(|instance| instance.busy).collect()
    }

    /// Adds the busy time between two readings of [`Servers::busy`] once more, and moves the servers' clocks on by
    /// `time`.
    pub(super) fn pass_again(&mut self, [before, after]: [&[Picos]; 2], time: Picos) {
        for ((instance, before), after) in self.instances.iter_mut().zip(before).zip(after) {
            instance.free += time;
            instance.busy += after - before;
        }
    }

    /// Moves the clocks of all servers on by `time`; the queues stay as they are.
    pub fn skip(&mut self, time: Picos) {
        for instance in &mut self.instances {
            instance.free += time;
            instance.until = instance.until.saturating_add(time);
        }
    }

    /// The share of the time up to `now` for which each instance of each server was busy, in thousandths.
    pub fn utilisation(&self, now: Picos) -> Vec<Vec<u64>> {
        let share = |instance: &Instance| {
            (u128::from(instance.busy) * 1_000 / u128::from(now.max(1))) as u64
        };
        let mut rest = self.instances.iter().map(share);
        self.counts.iter().map(|&count| rest.by_ref().take(count).collect()).collect()
    }
}

/// The number of slices of the last-level cache of a CPU; 1 if the cache is not sliced.
fn slices_of(platform: &Platform, cpu: Cpu) -> usize {
    platform.slices(cpu).map_or(1, |slices| slices.count.value.max(1) as usize)
}

/// The number of times that a line of this kind passes through a server.
fn times(server: &PlatformServer, kind: usize) -> usize {
    let far = [Distance::Machine];
    let distances = server.distances.as_ref().map_or(&far[..], |fact| &fact.value);
    let is = |one: Traffic| match kind.checked_sub(TRANSFERS) {
        Some(at) => one == Traffic::Transfer && distances.contains(&DISTANCES[at]),
        None => one != Traffic::Transfer && one as usize == kind,
    };
    server.carries.value.iter().filter(|&&one| is(one)).count()
}

impl Instance {
    /// Queues a line that arrives at time `at`, and returns the time at which its service begins.
    #[inline(always)]
    fn pass(&mut self, at: Picos) -> Picos {
        let begins = self.free.max(at);
        if begins >= self.until {
            self.change(begins);
        }
        self.free = begins + self.service;
        self.busy += self.service;
        begins
    }

    /// Draws a new service time that is valid from `now` on.
    #[cold]
    fn change(&mut self, now: Picos) {
        if let Some(drift) = &mut self.drift {
            let (service, hold) = drift.next();
            (self.service, self.until) = (service, now + hold);
        }
    }
}

impl ServerKind {
    /// Creates the server that the platform describes; each simulated line counts as `weight` lines.
    fn new(
        server: &PlatformServer,
        platform: &Platform,
        weight: u64,
        first: usize,
    ) -> Result<Self, SpecError> {
        let instances = &server.instances.value;
        let find = |cpu| instances.iter().position(|cpus| cpus.contains(cpu));
        let of_cpu = platform.cpus.value.iter().map(find).collect();
        let of_node =
            platform.nodes.iter().map(|node| node.cpus.value.first().and_then(find)).collect();
        let missing = || SpecError::Missing { fact: "clock.core".to_owned() };
        let core = platform.clock.core.as_ref().map(|fact: &Fact<_>| fact.value);
        let service = match server.service.value {
            Latency::Picos(picos) => picos,
            cycles @ Latency::MilliCycles(_) => cycles.picos(core.ok_or_else(missing)?),
        };
        let service = service * weight;
        let drift = server.drift.as_ref().map(|drift| Drifting::new(drift, service));
        let side = server.side.as_ref().map_or(Side::Requester, |fact| fact.value);
        let in_slices = server.carries.value.iter().all(|&it| it == Traffic::LastLevel);
        let sliced = instances.cpus().iter().map(|cpu| slices_of(platform, cpu)).max();
        let slices = sliced.filter(|_| in_slices).unwrap_or(1);
        let count = instances.len() * slices;
        Ok(Self { service, drift, of_cpu, of_node, side, first, count, slices })
    }

    /// The instance that a line of this home and slice passes on its way to `cpu`.
    fn stop(&self, cpu: usize, home: usize, slice: usize) -> Option<u32> {
        let instance = match self.side {
            Side::Requester => self.of_cpu[cpu],
            Side::Home => self.of_node.get(home).copied().flatten(),
        };
        instance.map(|group| (self.first + group * self.slices + slice % self.slices) as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(side: Side) -> Platform {
        let mut platform = Platform::named("xeon_x5650").unwrap().unwrap();
        platform.servers = vec![PlatformServer {
            name: "channel".to_owned(),
            instances: platform.packages.clone(),
            carries: Fact::assumed(vec![Traffic::MemoryRead, Traffic::WriteBack], ""),
            distances: None,
            service: Fact::assumed(Latency::Picos(8_000), ""),
            side: Some(Fact::assumed(side, "")),
            drift: None,
        }];
        platform
    }

    #[test]
    fn who_comes_while_it_is_busy_waits_and_who_comes_later_does_not() {
        let mut servers = Servers::from_platform(&machine(Side::Requester), 1).unwrap();
        let mut read = |cpu, at| servers.pass(Traffic::MemoryRead, cpu, 0, at);
        assert_eq!(
            [read(0, 0), read(1, 0), read(2, 1_000), read(0, 50_000)],
            [0, 8_000, 15_000, 0]
        );
    }

    #[test]
    fn each_package_has_its_own_and_the_home_decides_where_it_says_so() {
        let mut servers = Servers::from_platform(&machine(Side::Requester), 1).unwrap();
        assert_eq!(servers.pass(Traffic::WriteBack, 0, 0, 0), 0);
        assert_eq!(servers.pass(Traffic::MemoryRead, 6, 0, 0), 0);
        let mut servers = Servers::from_platform(&machine(Side::Home), 1).unwrap();
        assert_eq!(servers.pass(Traffic::MemoryRead, 0, 0, 0), 0);
        assert_eq!(servers.pass(Traffic::MemoryRead, 6, 0, 0), 8_000);
        assert_eq!(servers.pass(Traffic::MemoryRead, 6, 1, 0), 0);
        assert_eq!(servers.pass(Traffic::Transfer, 6, 0, 0), 0);
    }

    #[test]
    fn lines_of_peers_pass_where_their_distance_says_so() {
        let mut platform = machine(Side::Requester);
        platform.servers[0].carries.value.push(Traffic::Transfer);
        let mut servers = Servers::from_platform(&platform, 1).unwrap();
        let both = |servers: &mut Servers, distance| {
            [0, 1].map(|cpu| servers.transfer(distance, cpu, 0, 0))
        };
        assert_eq!(both(&mut servers, Distance::L3), [0, 0]);
        assert_eq!(both(&mut servers, Distance::Machine), [0, 8_000]);
        assert_eq!(servers.pass(Traffic::Transfer, 2, 0, 0), 16_000);
        platform.servers[0].distances = Some(Fact::assumed(vec![Distance::L3], ""));
        let mut servers = Servers::from_platform(&platform, 1).unwrap();
        assert_eq!(both(&mut servers, Distance::L3), [0, 8_000]);
        assert_eq!(both(&mut servers, Distance::Machine), [0, 0]);
        // It is the same way as to memory.
        assert_eq!(servers.pass(Traffic::MemoryRead, 2, 0, 0), 16_000);
    }

    #[test]
    fn a_port_of_the_last_level_is_one_for_each_slice() {
        let mut platform = machine(Side::Requester);
        platform.servers[0].carries.value = vec![Traffic::LastLevel];
        let last = platform.caches.iter_mut().max_by_key(|cache| cache.level).unwrap();
        last.mechanism.slices = Some(corehop_plan::platform::Slices {
            count: Fact::assumed(3, ""),
            index: None,
            hop: Fact::assumed(Latency::Picos(1_000), ""),
            columns: None,
        });
        let mut servers = Servers::from_platform(&platform, 1).unwrap();
        let mut pass = |slice, cpu| servers.pass_slice(slice, cpu, 0, 0);
        assert_eq!(
            [(0, 0), (1, 1), (2, 0), (2, 1)].map(|(slice, cpu)| pass(slice, cpu)),
            [0, 0, 0, 8_000]
        );
        assert_eq!([(0, 6), (2, 7), (0, 7)].map(|(slice, cpu)| pass(slice, cpu)), [0, 0, 8_000]);
        // What carries something else besides is one for all slices.
        platform.servers[0].carries.value.push(Traffic::MemoryRead);
        let mut servers = Servers::from_platform(&platform, 1).unwrap();
        assert_eq!([0, 1].map(|slice| servers.pass_slice(slice, 0, 0, 0)), [0, 8_000]);
        assert_eq!(servers.pass(Traffic::MemoryRead, 0, 0, 0), 16_000);
    }

    #[test]
    fn at_saturation_each_of_n_waits_for_the_others() {
        let mut servers = Servers::from_platform(&machine(Side::Home), 1).unwrap();
        let (cores, latency) = (12, 20_000);
        let mut at = vec![0; cores];
        for _ in 0..1_000 {
            let first = (0..cores).min_by_key(|&cpu| (at[cpu], cpu)).unwrap();
            let waited = servers.pass(Traffic::MemoryRead, first, 0, at[first]);
            at[first] += latency + waited;
        }
        // In a cycle of 96 ns each is served once: 20 ns of its own, the rest it waits.
        let rounds = 1_000 / cores as u64;
        assert!(at[0].abs_diff(rounds * 96_000) < 200_000, "{}", at[0]);
        let busy = servers.utilisation(at[0]);
        assert!(busy[0][0] > 990 && busy[0][1] == 0, "{busy:?}");
    }
}
