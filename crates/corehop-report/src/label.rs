// SPDX-License-Identifier: MIT OR Apache-2.0
//! Short names for the parts of a machine, and descriptions of the parts.

use corehop_plan::platform::tree::TopologyDomain;
use corehop_plan::platform::{Affinity, Cache, Check, Fact, Latency, Platform};
use corehop_plan::units::{Bytes, Cpu, CpuList, three_digits};

/// Returns a size for people: exact if a unit divides it, otherwise with one decimal.
pub fn size(bytes: Bytes) -> String {
    let exact = bytes.to_string();
    if exact.len() <= 8 {
        return exact;
    }
    let (unit, factor) =
        if bytes.get() >= 1 << 30 { ("GiB", 1_u64 << 30) } else { ("MiB", 1 << 20) };
    format!("{:.1} {unit}", bytes.get() as f64 / factor as f64)
}

/// Returns a number with its noun, such as `1 cell` or `2 cells`.
pub(super) fn plural(count: usize, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

/// Returns the level of an interval in percent, rounded down, so that no level below 1 is 100 %.
pub fn level(share: f64) -> String {
    let tenths = (1e3 * share + 1e-6).floor();
    format!("{}", tenths / 10.0)
}

/// Returns a span of time for people: three digits and a suitable unit.
pub fn time(ns: f64) -> String {
    let units = [
        (3.6e12, "h", 7.2e12),
        (6e10, "min", 6e11),
        (1e9, "s", 1e9),
        (1e6, "ms", 1e6),
        (1e3, "µs", 1e3),
    ];
    let unit = units.into_iter().find(|&(.., from)| ns.abs() >= from);
    let (factor, unit, _) = unit.unwrap_or((1.0, "ns", 0.0));
    format!("{} {unit}", three_digits(ns / factor))
}

/// Returns the name of a part in a tree or a drawing.
pub fn part(part: TopologyDomain<'_>) -> String {
    match part {
        TopologyDomain::Machine => "machine".to_owned(),
        TopologyDomain::Package(place) => format!("package {place}"),
        TopologyDomain::Core(place) => format!("core {place}"),
        TopologyDomain::Cpu(cpu) => cpu.to_string(),
        TopologyDomain::Node(node) => match &node.memory {
            Some(memory) => format!("node {} ({})", node.id, size(memory.value)),
            None => format!("node {}", node.id),
        },
        TopologyDomain::Cache(cache) => short(cache),
    }
}

/// Returns the kind of a part without its number, for one of many equal parts.
pub fn kind(part: TopologyDomain<'_>) -> String {
    match part {
        TopologyDomain::Package(_) => "package".to_owned(),
        TopologyDomain::Core(_) => "core".to_owned(),
        TopologyDomain::Cpu(_) => "CPU".to_owned(),
        TopologyDomain::Node(_) => "node".to_owned(),
        TopologyDomain::Machine | TopologyDomain::Cache(_) => self::part(part),
    }
}

/// Returns the short name of a cache, such as `L2 2 MiB`, with a mark if its size or its sharers are contradicted.
fn short(cache: &Cache) -> String {
    let name = match &cache.size {
        Some(bytes) => format!("{} {}", cache.label(), size(bytes.value)),
        None => cache.label(),
    };
    if doubted(cache) { format!("{name} (contradicted)") } else { name }
}

/// Returns whether a check contradicted the size or the sharers of a cache.
pub fn doubted(cache: &Cache) -> bool {
    cache.size.as_ref().is_some_and(Fact::is_contradicted) || cache.instances.is_contradicted()
}

/// Returns the full description of a cache: size, ways, line and latency, with the results of checks.
pub fn cache(cache: &Cache) -> String {
    let mut words = vec![short(cache)];
    words.extend(cache.ways.as_ref().map(|ways| format!("{} ways", ways.value)));
    words.extend(cache.line.as_ref().map(|line| format!("lines of {}", line.value)));
    let measured = cache.effective.as_ref();
    words.extend(measured.map(|bytes| format!("{} found", size(bytes.value))));
    words.extend(cache.latency.as_ref().map(|latency| latency.value.to_string()));
    words.join(", ")
}

/// Returns the errors in a cache's description, one line for each contradicted fact.
pub fn doubts(cache: &Cache) -> Vec<String> {
    let facts = cache_checks(cache).into_iter();
    facts
        .filter_map(|(fact, check)| match check {
            Check::Contradicted { why } => Some(format!("{fact}: {why}")),
            _ => None,
        })
        .collect()
}

/// Returns the stated facts that a measurement can check, and facts that another fact contradicts, each with the
/// result of its check; empty if no fact was checked.
pub fn checks(platform: &Platform) -> Vec<(String, &Check)> {
    let mut checks = vec![
        ("the CPUs that are present".to_owned(), &platform.cpus.check),
        ("packages".to_owned(), &platform.packages.check),
        ("who shares a core".to_owned(), &platform.cores.check),
    ];
    for node in &platform.nodes {
        checks.push((format!("node {}, its CPUs", node.id), &node.cpus.check));
        let distances = node.distances.as_ref();
        checks.extend(distances.map(|it| (format!("node {}, distances", node.id), &it.check)));
    }
    let caches = platform.caches.iter().filter(|cache| cache.holds_data());
    checks.extend(caches.flat_map(cache_checks));
    let looked = platform.exchange.is_some();
    // Who shares a level-1 cache shows nowhere but in who shares the core; ways, lines and sets are
    // listed only where they are wrong.
    checks.retain(|(fact, check)| {
        !check.is_unchecked() || (looked && (fact.contains("size") || fact.contains("who shares")))
    });
    checks
}

fn cache_checks(cache: &Cache) -> Vec<(String, &Check)> {
    let label = cache.label();
    let size = cache.size.as_ref();
    let named = size.map_or("size".to_owned(), |fact| format!("size {}", self::size(fact.value)));
    let sharing = (cache.level > 1 || !cache.instances.check.is_unchecked())
        .then(|| (format!("{label}, who shares it"), &cache.instances.check));
    [
        size.map(|fact| (format!("{label}, {named}"), &fact.check)),
        cache.ways.as_ref().map(|fact| (format!("{label}, ways"), &fact.check)),
        cache.line.as_ref().map(|fact| (format!("{label}, line"), &fact.check)),
        cache.sets.as_ref().map(|fact| (format!("{label}, sets"), &fact.check)),
        sharing,
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Returns the access time of each level, if known, memory last.
pub fn latencies(platform: &Platform) -> Vec<(String, &Fact<Latency>)> {
    let caches = platform.caches.iter().filter_map(|cache| {
        let own = if platform.core_kinds.is_empty() {
            String::new()
        } else {
            format!(" of {}", cpus(&cache.instances.value.cpus()))
        };
        Some((format!("{}{own}", cache.label()), cache.latency.as_ref()?))
    });
    let memory = [("memory", &platform.memory.local), ("remote memory", &platform.memory.remote)];
    let memory = memory.iter().filter_map(|&(name, fact)| Some((name.to_owned(), fact.as_ref()?)));
    caches.chain(memory).collect()
}

/// Returns the name of a line exchange between two CPUs of this affinity: the control within one CPU, or the
/// migration between the two.
pub fn exchange(affinity: Affinity) -> &'static str {
    if affinity == Affinity::SameCpu { "control" } else { affinity.event() }
}

/// Returns a latency in nanoseconds with one decimal; a latency in cycles keeps its unit.
pub fn ns(latency: Latency) -> String {
    match latency {
        Latency::Picos(picos) => format!("{:.1}", picos as f64 / 1e3),
        Latency::MilliCycles(_) => latency.to_string(),
    }
}

/// Returns the name of CPUs in a sentence: `CPU 3` or `CPUs 0-3`.
pub fn cpus(cpus: &CpuList) -> String {
    if cpus.len() == 1 { format!("CPU {cpus}") } else { format!("CPUs {cpus}") }
}

const OFFLINE: &str = "offline";
const NOT_ALLOWED: &str = "not allowed to us";

/// Returns the CPUs on which corehop cannot place work, grouped by the reason.
pub fn all_unusable(platform: &Platform) -> Vec<(&'static str, CpuList)> {
    let for_reason = |reason| {
        let cpus = platform.cpus.value.iter();
        (reason, CpuList::new(cpus.filter(|&cpu| unusable(platform, cpu) == Some(reason))))
    };
    let reasons = [OFFLINE, NOT_ALLOWED].into_iter().map(for_reason);
    reasons.filter(|(_, cpus)| !cpus.is_empty()).collect()
}

/// Returns the reason why corehop cannot place work on a CPU, or `None` if it can.
pub fn unusable(platform: &Platform, cpu: Cpu) -> Option<&'static str> {
    if !platform.online().contains(cpu) {
        Some(OFFLINE)
    } else if !platform.allowed().contains(cpu) {
        Some(NOT_ALLOWED)
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_of_time_has_three_digits_and_the_unit_that_suits_it() {
        let spans = [(0.0, "0 ns"), (2_900.0, "2.90 µs"), (1.15e6, "1.15 ms"), (1.13e11, "113 s")];
        for (ns, text) in spans.into_iter().chain([(9e11, "15.0 min"), (9e12, "2.50 h")]) {
            assert_eq!(time(ns), text);
        }
    }

    #[test]
    fn a_level_below_1_is_never_100_percent() {
        let levels = [0.95, 0.99, 0.92187, 0.9996, 1.0].map(level);
        assert_eq!(levels, ["95", "99", "92.1", "99.9", "100"]);
    }

    #[test]
    fn a_size_is_exact_where_its_unit_divides_it_and_has_a_decimal_otherwise() {
        let told = |bytes| size(Bytes::new(bytes));
        assert_eq!(told(64 << 10), "64 KiB");
        assert_eq!(told((3 << 20) + (1 << 19)), "3584 KiB");
        assert_eq!(told((19 << 20) + (1 << 18)), "19.2 MiB");
        assert_eq!(told((1 << 30) + (1 << 10)), "1.0 GiB");
    }

    #[test]
    fn one_cpu_is_singular_and_a_pair_on_one_cpu_is_the_control() {
        assert_eq!(cpus(&"3".parse().unwrap()), "CPU 3");
        assert_eq!(cpus(&"0-3".parse().unwrap()), "CPUs 0-3");
        assert_eq!(exchange(Affinity::SameCpu), "control");
        assert_eq!(exchange(Affinity::L3), "l3_migration");
        assert_eq!(ns(Latency::Picos(1_250)), "1.2");
    }
}
