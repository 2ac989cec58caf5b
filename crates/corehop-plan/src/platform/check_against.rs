// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compares the stated facts of a machine with measurements of the machine.

use super::observed::{
    Contention, Controller, Exchange, LatencyCurve, PlatformObservations, about,
};
use super::{Affinity, Check, CpuGroups, Fact, Latency, Platform, Server, Side, Traffic};
use crate::units::{Bytes, Cpu, CpuList};

/// A slowdown of at least this factor means that two CPUs share a core, and a slowdown below
/// `OWN_CORE` that they do not; in between the check decides nothing.
const SHARED_CORE: f64 = 1.3;
const OWN_CORE: f64 = 1.1;
/// The check counts two plateaus as one if their ratio is above this value.
const SAME_PLATEAU: f64 = 0.8;
/// The range of sizes, relative to the stated size, in which a rise of the curve counts as the edge of the cache. The
/// range is wide because the curve has two points per octave, and because a cache without strict LRU loses a too large
/// set gradually.
const EDGE: [f64; 2] = [0.5, 2.9];
/// The ratio between two consecutive exchange times that separates groups of CPUs.
const STEP: f64 = 1.6;
/// The ratio by which exchanges within a group and between groups must differ to confirm the
/// groups.
const APART: f64 = 1.1;
/// The check takes two groups of exchanges for alike if their ratio is below this value.
const ALIKE: f64 = 1.05;

impl Platform {
    /// Enters the measured values, and marks each stated fact that they concern as observed or
    /// contradicted. A fact that the measurement does not concern stays unchecked.
    pub fn check_against(&mut self, observed: &PlatformObservations) {
        if let Some(counter) = observed.counter {
            self.clock.counter = Some(Fact::measured(counter, "against the kernel's raw clock"));
        }
        for curve in &observed.curves {
            self.check_curve(curve);
        }
        if let Some(check) = cores(self, &observed.contentions) {
            self.cores.check = check;
        }
        for place in 0..self.caches.len() {
            if let Some(check) = sharing(self, place, &observed.exchanges) {
                self.caches[place].instances.check = check;
            }
        }
        if !observed.exchanges.is_empty() {
            let how = "half of a round trip of one line, first touched by the CPU that measures";
            self.exchange = Some(Fact::measured(observed.exchanges.clone(), how));
        }
        if let Some(call) = observed.system_call {
            self.core.system_call = Some(Fact::measured(call, "gettid, the median of batches"));
        }
        if let Some((wake, from, to)) = observed.futex_wake {
            let how = format!("half of a round trip between sleeping threads on {from} and {to}");
            self.core.futex_wake = Some(Fact::measured(wake, how));
        }
        if let Some(controller) = observed.controller.filter(|_| self.servers.is_empty()) {
            self.servers.push(memory_server(self, controller));
        }
    }

    fn check_curve(&mut self, curve: &LatencyCurve) {
        for found in levels(self, curve) {
            let cache = &mut self.caches[found.place];
            cache.latency = found.latency.map(|ns| {
                let list = if found.is_there { "within the cache" } else { "that fits the cache" };
                Fact::measured(
                    Latency::from_nanos(ns),
                    format!("{}, shuffled list {list}", curve.cpu),
                )
            });
            cache.effective = found
                .effective
                .map(|size| Fact::measured(size, format!("{}, shuffled lists", curve.cpu)));
            if let Some(size) = cache.size.as_mut().filter(|_| !found.check.is_unchecked()) {
                size.check = found.check;
            }
        }
        let how = |node: &str| format!("{}, lines in no cache, {node} node", curve.cpu);
        if let Some(ns) = curve.memory {
            self.memory.local = Some(Fact::measured(Latency::from_nanos(ns), how("its own")));
        }
        if let Some(ns) = curve.remote {
            self.memory.remote = Some(Fact::measured(Latency::from_nanos(ns), how("another")));
        }
    }
}

/// Returns the server of a machine whose memory has the measured rate: one instance for each node.
fn memory_server(platform: &Platform, measured: Controller) -> Server {
    let Controller { one_ns, all_ns, cpus } = measured;
    let nodes =
        platform.nodes.iter().map(|node| node.cpus.value.clone()).filter(|it| !it.is_empty());
    let nodes: Vec<CpuList> = nodes.collect();
    let several = nodes.len() > 1;
    let nodes = if nodes.is_empty() { vec![platform.cpus.value.clone()] } else { nodes };
    let how = format!(
        "each CPU reads eight lines at once: a line takes {one_ns:.1} ns if one CPU reads, and {all_ns:.1} ns if {cpus} CPUs read together"
    );
    let all = vec![Traffic::MemoryRead, Traffic::WriteBack];
    Server {
        name: "memory".to_owned(),
        instances: Fact::assumed(CpuGroups::new(nodes), "one controller a node"),
        carries: Fact::assumed(all, "reads and write-backs share the controller"),
        distances: None,
        service: Fact::measured(Latency::from_nanos(one_ns.min(all_ns)), how),
        side: several
            .then(|| Fact::assumed(Side::Home, "memory is behind the controller of its node")),
        drift: None,
    }
}

/// The evidence that a latency curve gives about one cache.
struct CacheEvidence {
    place: usize,
    latency: Option<f64>,
    /// Whether accesses to a list that fits into the cache are faster than accesses outside the cache. If a hypervisor
    /// leaves a guest no share of the cache, these accesses are not faster, and their latency is nearly the latency of
    /// memory.
    is_there: bool,
    effective: Option<Bytes>,
    check: Check,
}

/// A cache of the CPU, with the size of the next inner cache.
#[derive(Clone, Copy)]
struct NestedCache {
    place: usize,
    size: f64,
    /// The size of the next inner cache; 0 if there is none.
    inner: f64,
}

/// A measured list: its size, and the time per access in nanoseconds inside and outside the caches.
#[derive(Clone, Copy)]
struct LatencyPoint {
    size: f64,
    warm: f64,
    cold: f64,
}

/// Returns the evidence of a latency curve about the caches that serve its CPU.
fn levels(platform: &Platform, curve: &LatencyCurve) -> Vec<CacheEvidence> {
    let mut levels: Vec<NestedCache> = Vec::new();
    for (place, cache) in platform.caches.iter().enumerate() {
        let holds = cache.holds_data_of(curve.cpu);
        let Some(size) = cache.size.as_ref().filter(|_| holds) else { continue };
        let inner = levels.last().map_or(0.0, |inner| inner.size);
        levels.push(NestedCache { place, size: size.value.get() as f64, inner });
    }
    let points = falling(curve);
    // From memory inwards, so that each level is held against what was found of the one outside it.
    let mut outer: Option<f64> = None;
    let mut found = Vec::new();
    for &level in levels.iter().rev() {
        let beyond = |point: &LatencyPoint| outer.unwrap_or(point.cold);
        let verdict = judge(level, &points, &beyond);
        outer = verdict.latency.filter(|_| verdict.is_there).or(outer);
        found.push(verdict);
    }
    found
}

impl CacheEvidence {
    fn nothing(place: usize) -> Self {
        Self { place, latency: None, is_there: false, effective: None, check: Check::Unchecked }
    }
}

/// Returns the curve without the increases that noise causes: no list is faster than a smaller
/// list. A list without a measured cold time gets the cold time of the smallest list that has one,
/// or else infinity.
fn falling(curve: &LatencyCurve) -> Vec<LatencyPoint> {
    let mut least = LatencyPoint { size: 0.0, warm: f64::INFINITY, cold: f64::INFINITY };
    least.cold = curve.memory.unwrap_or(f64::INFINITY);
    let colds = curve.points.iter().filter_map(|point| point.cold);
    least.cold = colds.fold(least.cold, f64::max);
    let mut points = Vec::new();
    for point in curve.points.iter().rev() {
        least.size = point.size.get() as f64;
        least.warm = least.warm.min(point.warm);
        least.cold = least.cold.min(point.cold.unwrap_or(least.cold));
        points.push(least);
    }
    points.reverse();
    points
}

/// Returns a list that fits into this cache and is well above the size of the next inner cache, if
/// one was measured: near the geometric mean of the two sizes, or somewhat smaller than the cache.
fn plateau<'a>(points: &'a [LatencyPoint], level: &NestedCache) -> Option<&'a LatencyPoint> {
    let middle = (level.inner * level.size).sqrt().max(1.9 * level.inner);
    let middle = if level.inner > 0.0 { middle } else { level.size / 2.0 };
    let most = 0.75 * level.size;
    let at = points.iter().rev().find(|point| point.size <= middle.min(most));
    at.filter(|point| point.size > 1.2 * level.inner)
}

/// Compares the stated size with the sizes at which the curve rises to `beyond`, the access time
/// outside the cache.
fn judge(
    level: NestedCache,
    points: &[LatencyPoint],
    beyond: &dyn Fn(&LatencyPoint) -> f64,
) -> CacheEvidence {
    let NestedCache { place, size, inner } = level;
    let silent = CacheEvidence::nothing(place);
    let inside = |point: &LatencyPoint| point.warm <= SAME_PLATEAU * beyond(point);
    let Some(at) = plateau(points, &level) else { return silent };
    if !inside(at) {
        // The list is already outside: look for the cache right beyond the one inside it.
        let [here, there] = [at.warm, beyond(at)];
        let list = about(at.size);
        let why = format!(
            "an access to a list of {list} takes {here:.1} ns; an access outside of the cache takes {there:.1} ns"
        );
        let check = Check::Contradicted { why };
        let near = points.iter().find(|point| point.size >= 1.9 * inner);
        let Some(near) = near.filter(|near| inside(near)) else {
            return CacheEvidence { check, latency: Some(here), ..silent };
        };
        let effective = rise(points, near, beyond).map(|(below, _)| Bytes::new(below as u64));
        return CacheEvidence { place, latency: Some(near.warm), is_there: true, effective, check };
    }
    let found = |effective: Option<f64>, check| {
        let effective = effective.map(|size| Bytes::new(size as u64));
        CacheEvidence { place, latency: Some(at.warm), is_there: true, effective, check }
    };
    match rise(points, at, beyond) {
        _ if beyond(at).is_infinite() => found(None, Check::Unchecked),
        Some((below, above)) => {
            let how = format!("accesses slow down between {} and {}", about(below), about(above));
            if (EDGE[0] * size..=EDGE[1] * size).contains(&above) {
                found(None, Check::Observed { how })
            } else {
                found(Some(below), Check::Contradicted { why: how })
            }
        }
        None => {
            let most = points.last().map_or(0.0, |point| point.size);
            let how = format!("lists up to {} fit, and no larger list was tried", about(most));
            if most > EDGE[1] * size {
                found(Some(most), Check::Contradicted { why: how })
            } else if most >= 0.75 * size {
                found(None, Check::Observed { how })
            } else {
                found(None, Check::Unchecked)
            }
        }
    }
}

/// Returns the sizes between which the curve passes the geometric mean of the access times at
/// `from` and outside the cache.
fn rise(
    points: &[LatencyPoint],
    from: &LatencyPoint,
    beyond: &dyn Fn(&LatencyPoint) -> f64,
) -> Option<(f64, f64)> {
    let risen = |point: &LatencyPoint| {
        point.size > from.size && point.warm >= (from.warm * beyond(point)).sqrt()
    };
    let place = points.iter().position(risen)?;
    let below = points[..place].last().map_or(from.size, |point| point.size);
    Some((below, points[place].size))
}

/// Checks whether CPUs share cores as stated: arithmetic that touches no memory slows down only if
/// two CPUs share a core.
fn cores(platform: &Platform, contentions: &[Contention]) -> Option<Check> {
    let mut evidence = Vec::new();
    for &Contention { from, to, slowdown } in contentions {
        let pair = format!("{from} and {to} slow each other down {slowdown:.2} times");
        let stated = platform.cores.value.share(from, to);
        if stated && slowdown < OWN_CORE {
            return Some(Check::Contradicted { why: format!("{pair}: they have a core each") });
        }
        if !stated && slowdown > SHARED_CORE {
            return Some(Check::Contradicted { why: format!("{pair}: they share a core") });
        }
        if (stated && slowdown > SHARED_CORE) || (!stated && slowdown < OWN_CORE) {
            evidence.push(pair);
        }
    }
    let how = match evidence.as_slice() {
        [] => return None,
        [first] => first.clone(),
        [first, rest @ ..] => format!("{first}, and {} more pairs as stated", rest.len()),
    };
    Some(Check::Observed { how })
}

/// Checks whether CPUs that are stated to share this cache as their innermost common cache exchange
/// lines faster than other CPUs.
fn sharing(platform: &Platform, place: usize, exchanges: &[Exchange]) -> Option<Check> {
    let cache = &platform.caches[place];
    let class = if cache.level <= 2 { Affinity::L2 } else { Affinity::L3 };
    if !cache.holds_data() || cache.level < 2 {
        return None;
    }
    let shared = |exchange: &Exchange| cache.instances.value.share(exchange.from, exchange.to);
    let of = |exchange: &Exchange| platform.affinity(exchange.from, exchange.to);
    let within: Vec<_> = exchanges.iter().filter(|e| shared(e) && of(e) == class).collect();
    let across: Vec<_> = exchanges.iter().filter(|e| !shared(e) && of(e) > class).collect();
    let (near, far) = (extremes(&within)?, extremes(&across));
    let Some(far) = far else { return one_instance(platform, place, &within) };
    let [near, far] = [near, far];
    let times = format!(
        "a line passes in {} within an instance, and in {} between two instances",
        range(near),
        range(far)
    );
    if far[0] > APART * near[2] {
        Some(Check::Observed { how: times })
    } else if far[1] < ALIKE * near[1] {
        Some(Check::Contradicted { why: format!("{times}: no difference") })
    } else {
        None
    }
}

/// Checks that the CPUs of a cache with a single instance do not fall into groups.
fn one_instance(platform: &Platform, place: usize, within: &[&Exchange]) -> Option<Check> {
    let cpus = CpuList::new(within.iter().flat_map(|exchange| [exchange.from, exchange.to]));
    if platform.caches[place].instances.value.len() != 1 || cpus.len() < 3 {
        return None;
    }
    if let Some((groups, near, far)) = clusters(platform, within, &cpus) {
        let why = format!(
            "a line passes in at most {near:.0} ns within CPUs {groups}, but in at least {far:.0} ns between these groups"
        );
        return Some(Check::Contradicted { why });
    }
    let times = range(extremes(within)?);
    Some(Check::Observed {
        how: format!("a line passes between any two CPUs of an instance in {times}"),
    })
}

/// Returns the groups into which the largest step in the exchanges divides the CPUs, with the slowest exchange within a
/// group and the fastest between two groups. The result is `None` if no step is large enough, or if the largest step
/// does not divide the CPUs. CPUs that share a nearer cache or a core are in one group.
fn clusters(
    platform: &Platform,
    within: &[&Exchange],
    cpus: &CpuList,
) -> Option<(String, f64, f64)> {
    let mut times: Vec<f64> = within.iter().map(|exchange| shortest(exchange)).collect();
    times.sort_by(f64::total_cmp);
    let steps = times.windows(2).max_by(|a, b| (a[1] / a[0]).total_cmp(&(b[1] / b[0])))?;
    let (near, far) = (steps[0], steps[1]);
    if far < STEP * near {
        return None;
    }
    let class = platform.affinity(within[0].from, within[0].to);
    let fast =
        |a: Cpu, b: Cpu| within.iter().any(|e| (e.from, e.to) == (a, b) && shortest(e) <= near);
    let joined = |a: Cpu, b: Cpu| platform.affinity(a, b) < class || fast(a, b) || fast(b, a);
    let group = |cpu: Cpu| CpuList::new(cpus.iter().filter(|&other| joined(cpu, other)));
    let groups = CpuGroups::new(cpus.iter().map(group));
    // Nearness that is not transitive makes no groups.
    let divides = groups.len() > 1 && groups.overlap().is_none();
    let list: Vec<_> = groups.iter().map(ToString::to_string).collect();
    divides.then(|| (list.join(" | "), near, far))
}

fn shortest(exchange: &Exchange) -> f64 {
    match exchange.min {
        Latency::Picos(picos) => picos as f64 / 1e3,
        Latency::MilliCycles(_) => f64::NAN,
    }
}

/// Returns the minimum, the median and the maximum of the exchanges' shortest times, in
/// nanoseconds.
fn extremes(exchanges: &[&Exchange]) -> Option<[f64; 3]> {
    let mut times: Vec<f64> = exchanges.iter().map(|exchange| shortest(exchange)).collect();
    times.sort_by(f64::total_cmp);
    Some([*times.first()?, times[times.len() / 2], *times.last()?])
}

fn range([least, _, most]: [f64; 3]) -> String {
    format!("{least:.0} to {most:.0} ns")
}
