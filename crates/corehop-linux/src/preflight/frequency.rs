// SPDX-License-Identifier: MIT OR Apache-2.0
//! Checks of CPU frequencies and idle states.

use std::collections::BTreeMap;

use corehop_plan::units::{Cpu, CpuList};

use super::host::{PreflightHost, cpus_in_words};
use super::{CheckFinding, Concern};

pub(super) const CONCERNS: &[Concern] = &[
    Concern {
        id: "governor",
        why: "A core clock that follows the load is slow after each sleep, so the resumed touch runs at a different speed from the warm touch, and the difference looks like a cache cost.",
        check: governor,
    },
    Concern {
        id: "turbo",
        why: "A boosted core clock depends on temperature and on the number of awake cores, so touches of one run are not comparable with each other.",
        check: turbo,
    },
    Concern {
        id: "frequency-range",
        why: "The core clock is constant only if the lowest and the highest frequency are equal.",
        check: range,
    },
    Concern {
        id: "idle-states",
        why: "A CPU wakes up slowly from a deep idle state and may have lost its cache contents, so the cost of sleeping looks like the cost of a preemption.",
        check: super::idle::idle_states,
    },
];

pub(super) const CPUS: &str = "sys/devices/system/cpu";

/// The contents of the usable CPUs' `cpufreq/FILE`, each with the CPUs that have it.
fn by_setting(host: &PreflightHost, file: &str) -> BTreeMap<String, CpuList> {
    let mut settings: BTreeMap<String, Vec<Cpu>> = BTreeMap::new();
    for cpu in host.platform.usable().iter() {
        if let Some(text) = host.text(format!("{CPUS}/cpu{}/cpufreq/{file}", cpu.0)) {
            settings.entry(text).or_default().push(cpu);
        }
    }
    settings.into_iter().map(|(setting, cpus)| (setting, CpuList::new(cpus))).collect()
}

fn governor(host: &PreflightHost) -> Option<CheckFinding> {
    let governors = by_setting(host, "scaling_governor");
    if governors.is_empty() {
        host.cpus(&format!("{CPUS}/online"))?;
        let found = "the kernel does not govern the frequency (no cpufreq)";
        return Some(CheckFinding::note(found).remark(if host.is_guest() {
            "Nothing can be done inside the guest: the host machine controls the frequency."
        } else {
            "No command helps: the firmware controls the frequency; select maximum performance there."
        }));
    }
    let named = governors.iter().map(|(name, cpus)| format!("{name} on {}", cpus_in_words(cpus)));
    let found = format!("the governor is {}", named.collect::<Vec<_>>().join(", "));
    if governors.keys().all(|name| name == "performance") {
        return Some(CheckFinding::ok(found));
    }
    let file = format!("/{CPUS}/cpu*/cpufreq/scaling_governor");
    Some(CheckFinding::warning(found).command(host.write("performance", &file)))
}

fn turbo(host: &PreflightHost) -> Option<CheckFinding> {
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
        return Some(CheckFinding::ok("no CPU boosts its clock"));
    }
    Some(
        CheckFinding::warning("CPUs boost their clock")
            .command(host.write(off, &format!("/{file}"))),
    )
}

fn range(host: &PreflightHost) -> Option<CheckFinding> {
    let khz = |cpu: Cpu, file: &str| {
        host.value::<u64>(&format!("{CPUS}/cpu{}/cpufreq/scaling_{file}_freq", cpu.0))
    };
    let usable = host.platform.usable();
    let ranges: Vec<_> =
        usable.iter().filter_map(|cpu| Some((khz(cpu, "min")?, khz(cpu, "max")?))).collect();
    let lowest = ranges.iter().map(|&(min, _)| min).min()?;
    let highest = ranges.iter().map(|&(_, max)| max).max()?;
    if ranges.iter().all(|(min, max)| min == max) {
        return Some(CheckFinding::ok(format!(
            "the frequency is fixed at {} MHz",
            highest / 1_000
        )));
    }
    let found = format!("the frequency may be {} to {} MHz", lowest / 1_000, highest / 1_000);
    let all = format!("/{CPUS}/cpu*/cpufreq");
    let copy = format!("{}cp $f/scaling_max_freq $f/scaling_min_freq", host.sudo());
    Some(CheckFinding::note(found).command(format!("for f in {all}; do {copy}; done")))
}
