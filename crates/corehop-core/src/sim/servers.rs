// SPDX-License-Identifier: MIT OR Apache-2.0
//! Buses, channels and links: each serves one line at a time, first come, first served.
//!
//! Requests come in the order of simulated time (the machine state sees to that), so that a server is a
//! single number: the time from which on it is free. With N cores that wait for one another the
//! latency at saturation is N times the service time, as in a closed queueing network.

use crate::platform::{Fact, Platform, Server as PlatformServer, Side, Traffic};

use super::spec::SpecError;
use super::times::Picos;

const KINDS: usize = 4;

/// One kind of server with its instances.
#[derive(Debug, Clone)]
struct Server {
    service: Picos,
    /// The instance that each CPU uses.
    of_cpu: Vec<Option<usize>>,
    /// The instance that belongs to each node.
    of_node: Vec<Option<usize>>,
    side: Side,
    free: Vec<Picos>,
    /// The time that each instance was busy.
    busy: Vec<Picos>,
}

/// All servers of a machine.
#[derive(Debug, Clone, Default)]
pub struct Servers {
    servers: Vec<Server>,
    /// For each kind of traffic the servers that carry it, in the order of the platform file.
    carriers: [Vec<usize>; KINDS],
}

impl Servers {
    /// The servers that `platform` states; there may be none. Each line that passes stands for
    /// `weight` lines.
    ///
    /// # Errors
    /// Where a service time in cycles has no clock, or a server carries nothing.
    pub fn from_platform(platform: &Platform, weight: u64) -> Result<Self, SpecError> {
        let server = |server| {
            let mut server = Server::new(server, platform)?;
            server.service *= weight;
            Ok(server)
        };
        let servers: Result<Vec<Server>, SpecError> = platform.servers.iter().map(server).collect();
        let mut carriers: [Vec<usize>; KINDS] = Default::default();
        for (at, server) in platform.servers.iter().enumerate() {
            for &traffic in &server.carries.value {
                carriers[traffic as usize].push(at);
            }
        }
        Ok(Self { servers: servers?, carriers })
    }

    /// Whether there is nothing to queue for.
    pub fn is_empty(&self) -> bool {
        self.servers.is_empty()
    }

    /// One line of `traffic` for `cpu`, whose home is the node at place `home`, asked for at `at`:
    /// how long it waits. The time of the service itself is in the latency table.
    #[inline]
    pub fn pass(&mut self, traffic: Traffic, cpu: usize, home: usize, at: Picos) -> Picos {
        let mut waited = 0;
        for &carrier in &self.carriers[traffic as usize] {
            waited += self.servers[carrier].pass(cpu, home, at + waited);
        }
        waited
    }

    /// Moves all clocks on, as if so much time had passed with the queues as they are.
    pub fn skip(&mut self, time: Picos) {
        self.servers.iter_mut().flat_map(|server| &mut server.free).for_each(|free| *free += time);
    }

    /// For each server and instance the share of the time up to `now` that it was busy, in
    /// thousandths.
    pub fn utilisation(&self, now: Picos) -> Vec<Vec<u64>> {
        let share = |&busy: &Picos| (u128::from(busy) * 1_000 / u128::from(now.max(1))) as u64;
        self.servers.iter().map(|server| server.busy.iter().map(share).collect()).collect()
    }
}

impl Server {
    fn new(server: &PlatformServer, platform: &Platform) -> Result<Self, SpecError> {
        let instances = &server.instances.value;
        let find = |cpu| instances.iter().position(|cpus| cpus.contains(cpu));
        let of_cpu = platform.cpus.value.iter().map(find).collect();
        let of_node =
            platform.nodes.iter().map(|node| node.cpus.value.first().and_then(find)).collect();
        let missing = || SpecError::Missing { fact: "clock.core".to_owned() };
        let core = platform.clock.core.as_ref().map(|fact: &Fact<_>| fact.value);
        let service = match server.service.value {
            crate::platform::Latency::Picos(picos) => picos,
            cycles @ crate::platform::Latency::MilliCycles(_) => {
                cycles.picos(core.ok_or_else(missing)?)
            }
        };
        let count = instances.iter().count();
        Ok(Self {
            service,
            of_cpu,
            of_node,
            side: server.side.as_ref().map_or(Side::Requester, |fact| fact.value),
            free: vec![0; count],
            busy: vec![0; count],
        })
    }

    #[inline]
    fn pass(&mut self, cpu: usize, home: usize, at: Picos) -> Picos {
        let instance = match self.side {
            Side::Requester => self.of_cpu[cpu],
            Side::Home => self.of_node.get(home).copied().flatten(),
        };
        let Some(instance) = instance else { return 0 };
        let begins = self.free[instance].max(at);
        self.free[instance] = begins + self.service;
        self.busy[instance] += self.service;
        begins - at
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::platform::Latency;

    fn machine(side: Side) -> Platform {
        let mut platform = Platform::named("xeon_x5650").unwrap().unwrap();
        platform.servers = vec![PlatformServer {
            name: "channel".to_owned(),
            instances: platform.packages.clone(),
            carries: Fact::assumed(vec![Traffic::MemoryRead, Traffic::WriteBack], ""),
            service: Fact::assumed(Latency::Picos(8_000), ""),
            side: Some(Fact::assumed(side, "")),
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
