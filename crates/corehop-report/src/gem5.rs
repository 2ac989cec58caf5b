// SPDX-License-Identifier: MIT OR Apache-2.0
//! Writes a platform as a configuration of gem5 with classic caches, crossbars and a simple memory, as far as gem5
//! supports the platform.
//!
//! The classic caches of gem5 do not support strict inclusion, MESIF or MOESI by name, or numbers of sets that are not
//! powers of two. A fact that gem5 cannot express becomes a remark at the head of the file.

use std::fmt::Write as _;

use corehop_plan::platform::{
    Cache, CacheKind, Hertz, Inclusion, Latency, Platform, Replacement, Traffic,
};
use corehop_plan::units::{Bytes, Cpu};

/// The reason why a platform cannot be written as a gem5 configuration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("gem5 needs `{fact}`: add it to the platform file")]
pub struct Gem5Error {
    /// The fact that the platform lacks.
    pub fact: String,
}

/// A class of caches in the file for gem5.
struct Class<'a> {
    name: String,
    cache: &'a Cache,
    size: Bytes,
    ways: u32,
    /// The latency in cycles, beyond the latency of the inner level.
    cycles: u64,
}

/// Returns the script: `gem5.opt FILE.py COMMAND [ARGUMENTS]` runs a program on the machine, in system-call emulation.
///
/// # Errors
/// Returns [`Gem5Error`] with the first missing fact.
pub fn script(platform: &Platform) -> Result<String, Gem5Error> {
    let clock = platform.clock.core.as_ref().ok_or_else(|| missing("clock.core"))?.value;
    let mut remarks = Vec::new();
    let classes = classes(platform, clock, &mut remarks)?;
    let mut text = String::new();
    let memory = memory(platform, &classes, clock, &mut remarks)?;
    other_remarks(platform, &mut remarks);
    // Writing to a string cannot fail, here and below.
    let _ = writeln!(
        text,
        "# {}, as a configuration of gem5 (classic caches, system-call emulation).",
        platform.name
    );
    let _ = writeln!(
        text,
        "# Written from the platform `{}` by corehop {}.",
        platform.id,
        env!("CARGO_PKG_VERSION")
    );
    text.push_str("#\n#     gem5.opt THIS_FILE.py COMMAND [ARGUMENTS]\n#\n");
    for remark in &remarks {
        let _ = writeln!(text, "# - {remark}");
    }
    text.push_str("\nimport sys\n\nimport m5\nfrom m5.objects import *\n\n");
    for class in &classes {
        text.push_str(&class_text(class));
    }
    text.push_str(&connect(platform, &classes));
    text.push_str(&main(platform, clock, &memory));
    Ok(text)
}

fn missing(fact: impl Into<String>) -> Gem5Error {
    Gem5Error { fact: fact.into() }
}

/// Returns the classes of caches, innermost first.
fn classes<'a>(
    platform: &'a Platform,
    clock: Hertz,
    remarks: &mut Vec<String>,
) -> Result<Vec<Class<'a>>, Gem5Error> {
    let mut all = Vec::new();
    for (place, cache) in platform.caches.iter().enumerate() {
        let fact = |name: &str| format!("cache[{place}].{name}");
        let size = cache.capacity().ok_or_else(|| missing(fact("size")))?;
        let ways = cache.ways.as_ref().ok_or_else(|| missing(fact("ways")))?.value;
        let name = name(cache);
        let own = latency(cache, clock);
        if own.is_none() && cache.holds_data() {
            return Err(missing(fact("latency")));
        }
        let fitting = fitting_ways(size, ways, platform.line_size());
        if fitting != ways {
            remarks.push(format!(
                "{name} has {fitting} ways here, because gem5 needs a number of sets that is a power of two, which {size} with {ways} ways does not have"
            ));
        }
        let inside =
            platform.caches.iter().filter(|it| it.level + 1 == cache.level && it.holds_data());
        let inside = inside.filter_map(|it| latency(it, clock)).max().unwrap_or(0);
        let cycles = own.unwrap_or(1).saturating_sub(inside).max(1);
        all.push(Class { name, cache, size, ways: fitting, cycles });
    }
    all.sort_by_key(|class| class.cache.level);
    Ok(all)
}

/// Returns the number of ways nearest to `ways` with which the number of sets is a power of two; `ways` if there is
/// none.
fn fitting_ways(size: Bytes, ways: u32, line: Bytes) -> u32 {
    let lines = size.get() / line.get().max(1);
    let fits = |ways: &u32| {
        lines.is_multiple_of(u64::from(*ways)) && (lines / u64::from(*ways)).is_power_of_two()
    };
    let near = (1..=64).filter(fits).min_by_key(|it| it.abs_diff(ways));
    near.unwrap_or(ways)
}

fn name(cache: &Cache) -> String {
    let kind = match cache.kind {
        CacheKind::Data => "D",
        CacheKind::Instruction => "I",
        CacheKind::Unified => "",
    };
    format!("L{}{kind}", cache.level)
}

/// Returns the latency of a cache in whole cycles of this clock.
fn latency(cache: &Cache, clock: Hertz) -> Option<u64> {
    cache.latency.as_ref().map(|fact| cycles(fact.value, clock))
}

fn cycles(latency: Latency, clock: Hertz) -> u64 {
    let picos = u128::from(latency.picos(clock)) * u128::from(clock.get());
    ((picos + 500_000_000_000) / 1_000_000_000_000) as u64
}

fn class_text(class: &Class<'_>) -> String {
    let Class { name, cache, size, ways, cycles } = class;
    let policy = cache.mechanism.replacement.as_ref().map(|fact| fact.value);
    let exclusive =
        cache.mechanism.inclusion.as_ref().is_some_and(|fact| fact.value.takes_victims());
    let clusivity = if exclusive { "mostly_excl" } else { "mostly_incl" };
    let mshrs = if cache.level == 1 { 10 } else { 32 };
    format!(
        "class {name}(Cache):\n    size = \"{}KiB\"\n    assoc = {ways}\n    tag_latency = {cycles}\n    data_latency = {cycles}\n    \
         response_latency = {cycles}\n    mshrs = {mshrs}\n    tgts_per_mshr = 16\n    clusivity = \"{clusivity}\"\n    \
         writeback_clean = {}\n    replacement_policy = {}\n\n\n",
        size.get() / 1024,
        if exclusive { "True" } else { "False" },
        replacement(policy),
    )
}

/// Returns the gem5 policy that equals or is nearest to the platform's policy.
fn replacement(policy: Option<Replacement>) -> &'static str {
    match policy {
        None | Some(Replacement::Lru) => "LRURP()",
        Some(Replacement::Fifo) => "FIFORP()",
        Some(Replacement::TreePlru) => "TreePLRURP()",
        Some(Replacement::BitPlru | Replacement::Nru) => "NRURP()",
        Some(Replacement::Random) => "RandomRP()",
        Some(
            Replacement::Srrip
            | Replacement::Drrip
            | Replacement::QuadAge
            | Replacement::QlruH11M1R0U0
            | Replacement::QlruH11M1R1U2
            | Replacement::QlruH00M1R0U1,
        ) => "RRIPRP()",
    }
}

/// Returns the memory's latency beyond the caches, and its bandwidth.
fn memory(
    platform: &Platform,
    classes: &[Class<'_>],
    clock: Hertz,
    remarks: &mut Vec<String>,
) -> Result<(u64, Option<u64>), Gem5Error> {
    let local = platform.memory.local.as_ref().ok_or_else(|| missing("memory.local"))?;
    let caches = classes
        .iter()
        .filter_map(|it| it.cache.latency.as_ref())
        .map(|it| it.value.picos(clock))
        .max();
    let beyond = local.value.picos(clock).saturating_sub(caches.unwrap_or(0)).max(1_000);
    let reads =
        |it: &&corehop_plan::platform::Server| it.carries.value.contains(&Traffic::MemoryRead);
    let slowest =
        platform.servers.iter().filter(reads).map(|it| it.service.value.picos(clock)).max();
    if slowest.is_none() {
        remarks.push(
            "no [[server]] carries memory_read: the memory's bandwidth is gem5's default"
                .to_owned(),
        );
    }
    let line = u128::from(platform.line_size().get());
    Ok((beyond, slowest.map(|picos| (line * 1_000_000_000_000 / u128::from(picos.max(1))) as u64)))
}

fn other_remarks(platform: &Platform, remarks: &mut Vec<String>) {
    let inclusive = |it: &Cache| {
        it.mechanism.inclusion.as_ref().is_some_and(|fact| fact.value == Inclusion::Inclusive)
    };
    if platform.caches.iter().any(inclusive) {
        remarks
            .push("inclusion is not strict: gem5's classic caches are mostly inclusive".to_owned());
    }
    let policies = |it: &Cache| Some(it.mechanism.replacement.as_ref()?.value);
    let policies: Vec<Replacement> = platform.caches.iter().filter_map(policies).collect();
    if policies.contains(&Replacement::BitPlru) {
        remarks.push("bit_plru is written as NRURP, which clears its bits later".to_owned());
    }
    let aged = |it: &&Replacement| {
        **it != Replacement::Srrip
            && replacement(Some(**it)) == replacement(Some(Replacement::Srrip))
    };
    if let Some(policy) = policies.iter().find(aged) {
        remarks.push(format!(
            "{policy} is written as RRIPRP, which expects equal reuse of all new lines"
        ));
    }
    if platform.nodes.len() > 1 {
        remarks.push("gem5 has one memory, near to all CPUs: nodes are omitted".to_owned());
    }
    if !platform.prefetchers.is_empty() {
        remarks.push("prefetchers are omitted".to_owned());
    }
    remarks.push("a line from another core costs what gem5's crossbars cost, not what the platform file states".to_owned());
}

/// Returns the part of the script that connects the caches of all CPUs.
fn connect(platform: &Platform, classes: &[Class<'_>]) -> String {
    let places: Vec<Cpu> = platform.cpus.value.iter().collect();
    let index = |cpu: Cpu| places.iter().position(|&other| other == cpu).unwrap_or(0);
    let outermost = classes.iter().map(|it| it.cache.level).max().unwrap_or(1);
    let mut text = String::from("def connect(system):\n    below = {}\n");
    for class in classes.iter().filter(|it| it.cache.level == 1) {
        let ports: &[&str] = match class.cache.kind {
            CacheKind::Data => &["dcache_port"],
            CacheKind::Instruction => &["icache_port"],
            CacheKind::Unified => &["icache_port", "dcache_port"],
        };
        let variable = class.name.to_lowercase();
        let _ = writeln!(text, "    system.{variable} = [{}() for _ in system.cpu]", class.name);
        for port in ports {
            let _ = writeln!(
                text,
                "    for cpu, cache in zip(system.cpu, system.{variable}):\n        cpu.{port} = cache.cpu_side"
            );
        }
    }
    for level in 2..=outermost {
        for class in classes.iter().filter(|it| it.cache.level == level) {
            let groups: Vec<String> = class
                .cache
                .instances
                .value
                .iter()
                .map(|cpus| format!("{:?}", cpus.iter().map(index).collect::<Vec<_>>()))
                .collect();
            let (variable, bus) = (class.name.to_lowercase(), format!("to_l{level}"));
            let _ = writeln!(text, "    groups = [{}]", groups.join(", "));
            let _ = writeln!(text, "    system.{bus} = [L2XBar() for _ in groups]");
            let _ = writeln!(text, "    system.{variable} = [{}() for _ in groups]", class.name);
            let _ = writeln!(
                text,
                "    for bus, cache, cpus in zip(system.{bus}, system.{variable}, groups):"
            );
            let _ = writeln!(text, "        cache.cpu_side = bus.mem_side_ports");
            let _ = writeln!(text, "        attach(system, {level}, bus, cpus, below)");
            let _ = writeln!(text, "        for cpu in cpus:\n            below[cpu] = cache");
        }
    }
    if outermost == 1 {
        text.push_str("    for cpu in range(len(system.cpu)):\n        first_level(system, cpu, system.membus)\n");
    } else {
        text.push_str(
            "    for cache in {id(it): it for it in below.values()}.values():\n        cache.mem_side = system.membus.cpu_side_ports\n",
        );
    }
    let first: Vec<String> = classes
        .iter()
        .filter(|it| it.cache.level == 1)
        .map(|cache| {
            format!("    system.{}[cpu].mem_side = bus.cpu_side_ports\n", cache.name.to_lowercase())
        })
        .collect();
    format!(
        "def first_level(system, cpu, bus):\n{}\n\ndef attach(system, level, bus, cpus, below):\n    \
         \"\"\"Connects what the CPUs have inside this level with the bus to it.\"\"\"\n    if level == 2:\n        \
         for cpu in cpus:\n            first_level(system, cpu, bus)\n    else:\n        inside = {{id(below[cpu]): below[cpu] for cpu in cpus}}\n        \
         for cache in inside.values():\n            cache.mem_side = bus.cpu_side_ports\n\n\n{text}\n\n",
        first.concat()
    )
}

fn main(platform: &Platform, clock: Hertz, (latency, bandwidth): &(u64, Option<u64>)) -> String {
    let cpus = platform.cpus.value.len();
    let bandwidth =
        bandwidth.map_or_else(String::new, |bytes| format!(", bandwidth=\"{bytes}B/s\""));
    format!(
        r#"system = System(cache_line_size={line}, mem_mode="timing")
system.clk_domain = SrcClockDomain(clock="{clock}Hz", voltage_domain=VoltageDomain())
system.mem_ranges = [AddrRange("4GiB")]
system.cpu = [X86TimingSimpleCPU(cpu_id=number) for number in range({cpus})]
system.membus = SystemXBar()
connect(system)

for cpu in system.cpu:
    cpu.createInterruptController()
    cpu.interrupts[0].pio = system.membus.mem_side_ports
    cpu.interrupts[0].int_requestor = system.membus.cpu_side_ports
    cpu.interrupts[0].int_responder = system.membus.mem_side_ports
system.system_port = system.membus.cpu_side_ports

system.memory = SimpleMemory(range=system.mem_ranges[0], latency="{latency}ps"{bandwidth})
system.memory.port = system.membus.mem_side_ports

command = sys.argv[1:]
if not command:
    sys.exit("name the program to run: gem5.opt THIS_FILE.py COMMAND [ARGUMENTS]")
system.workload = SEWorkload.init_compatible(command[0])
process = Process(cmd=command)
for cpu in system.cpu:
    cpu.workload = process
    cpu.createThreads()

root = Root(full_system=False, system=system)
m5.instantiate()
print("ended:", m5.simulate().getCause())
"#,
        line = platform.line_size().get(),
        clock = clock.get(),
    )
}
