// SPDX-License-Identifier: MIT OR Apache-2.0
//! CPU frequencies and sleep states.

use std::collections::BTreeMap;

use corehop_core::units::{Cpu, CpuList};

use super::host::{Host, cpus_in_words};
use super::{Concern, Verdict};

pub(super) const CONCERNS: &[Concern] = &[
    Concern {
        id: "governor",
        why: "A clock that follows the load is slow after each sleep, so that the resumed touch \
              runs at another speed than the warm one, and the difference looks like a cache cost.",
        check: governor,
    },
    Concern {
        id: "turbo",
        why: "A boosted clock depends on temperature and on how many cores are awake: touches of \
              one run are then not comparable with each other.",
        check: turbo,
    },
    Concern {
        id: "frequency-range",
        why: "The clock is constant only if the lowest and the highest frequency are \
              equal.",
        check: range,
    },
    Concern {
        id: "idle-states",
        why: "A CPU wakes late from a deep state and may have lost its caches there: the cost of \
              sleeping then looks like the cost of a preemption.",
        check: idle_states,
    },
];

const CPUS: &str = "sys/devices/system/cpu";

/// The content of each usable CPU's `cpufreq/FILE`, with the CPUs that have it.
fn by_setting(host: &Host, file: &str) -> BTreeMap<String, CpuList> {
    let mut settings: BTreeMap<String, Vec<Cpu>> = BTreeMap::new();
    for cpu in host.platform.usable().iter() {
        if let Some(text) = host.text(format!("{CPUS}/cpu{}/cpufreq/{file}", cpu.0)) {
            settings.entry(text).or_default().push(cpu);
        }
    }
    settings.into_iter().map(|(setting, cpus)| (setting, CpuList::new(cpus))).collect()
}

fn governor(host: &Host) -> Option<Verdict> {
    let governors = by_setting(host, "scaling_governor");
    if governors.is_empty() {
        host.cpus(&format!("{CPUS}/online"))?;
        let found = "the kernel does not govern the frequency (no cpufreq)";
        return Some(Verdict::note(found).remark(if host.is_guest() {
            "Nothing can be done from inside: the machine that this is a guest of governs it."
        } else {
            "Nothing can be typed: the firmware governs it; choose maximum performance there."
        }));
    }
    let named = governors.iter().map(|(name, cpus)| format!("{name} on {}", cpus_in_words(cpus)));
    let found = format!("the governor is {}", named.collect::<Vec<_>>().join(", "));
    if governors.keys().all(|name| name == "performance") {
        return Some(Verdict::ok(found));
    }
    let file = format!("/{CPUS}/cpu*/cpufreq/scaling_governor");
    Some(Verdict::warning(found).command(host.write("performance", &file)))
}

fn turbo(host: &Host) -> Option<Verdict> {
    let switches = [
        (format!("{CPUS}/intel_pstate/no_turbo"), "0", "1"),
        (format!("{CPUS}/cpufreq/boost"), "1", "0"),
    ];
    let mut known = switches.into_iter().filter_map(|(file, on, off)| {
        let now = host.text(&file)?;
        Some((now == on, file, off))
    });
    let (is_on, file, off) = known.next()?;
    if !is_on {
        return Some(Verdict::ok("no CPU boosts its clock"));
    }
    Some(Verdict::warning("CPUs boost their clock").command(host.write(off, &format!("/{file}"))))
}

fn range(host: &Host) -> Option<Verdict> {
    let khz = |cpu: Cpu, file: &str| {
        host.value::<u64>(&format!("{CPUS}/cpu{}/cpufreq/scaling_{file}_freq", cpu.0))
    };
    let usable = host.platform.usable();
    let ranges: Vec<_> =
        usable.iter().filter_map(|cpu| Some((khz(cpu, "min")?, khz(cpu, "max")?))).collect();
    let lowest = ranges.iter().map(|&(min, _)| min).min()?;
    let highest = ranges.iter().map(|&(_, max)| max).max()?;
    if ranges.iter().all(|(min, max)| min == max) {
        return Some(Verdict::ok(format!("the frequency is fixed at {} MHz", highest / 1_000)));
    }
    let found = format!("the frequency may be {} to {} MHz", lowest / 1_000, highest / 1_000);
    let all = format!("/{CPUS}/cpu*/cpufreq");
    let copy = format!("{}cp $f/scaling_max_freq $f/scaling_min_freq", host.sudo());
    Some(Verdict::note(found).command(format!("for f in {all}; do {copy}; done")))
}

/// A way of sleeping that is enabled.
struct State {
    number: u32,
    name: String,
    latency_us: u32,
}

/// A state that takes longer to leave may keep less than the caches.
const SHALLOW_US: u32 = 10;

fn states(host: &Host, cpu: Cpu) -> Vec<State> {
    let folder = format!("{CPUS}/cpu{}/cpuidle", cpu.0);
    let state = |number: u32| {
        let file = |name: &str| format!("{folder}/state{number}/{name}");
        let enabled = host.text(file("disable")).is_none_or(|text| text == "0");
        let name = host.text(file("name"))?;
        let latency_us = host.value(file("latency"))?;
        enabled.then_some(State { number, name, latency_us })
    };
    host.numbered(&folder, "state").into_iter().filter_map(state).collect()
}

fn idle_states(host: &Host) -> Option<Verdict> {
    let states: Vec<_> = host.platform.usable().iter().flat_map(|cpu| states(host, cpu)).collect();
    if states.is_empty() {
        host.cpus(&format!("{CPUS}/online"))?;
        return Some(without_driver(host));
    }
    let limit = host.probes.wake_limit_us.unwrap_or(u32::MAX);
    let mut deep: Vec<_> = states.iter().filter(|state| state.latency_us > SHALLOW_US).collect();
    if limit <= SHALLOW_US || deep.is_empty() {
        return Some(Verdict::ok("no CPU sleeps deeply"));
    }
    deep.sort_by_key(|state| state.latency_us);
    let deepest = deep.last()?;
    let (name, latency) = (&deepest.name, deepest.latency_us);
    let found = format!("CPUs sleep as deeply as {name} ({latency} µs to wake up)");
    let mut numbers: Vec<_> = deep.iter().map(|state| state.number.to_string()).collect();
    numbers.sort_unstable();
    numbers.dedup();
    let numbers = match numbers.as_slice() {
        [one] => one.clone(),
        several => format!("[{}]", several.concat()),
    };
    let file = format!("/{CPUS}/cpu*/cpuidle/state{numbers}/disable");
    Some(Verdict::warning(found).command(host.write(1, &file)))
}

fn without_driver(host: &Host) -> Verdict {
    if host.is_guest() {
        let found = "when a CPU is idle, the host decides how it sleeps (no cpuidle)";
        return Verdict::note(found).remark(
            "Nothing can be done from inside. Loads of kind constructed keep the CPUs awake.",
        );
    }
    Verdict::ok("the kernel puts no CPU to sleep deeply (no cpuidle)")
}
