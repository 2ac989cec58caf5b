// SPDX-License-Identifier: MIT OR Apache-2.0
//! Checks of the processor: CPUs, siblings, the last-level cache, the time-stamp counter, and the
//! hypervisor.

use corehop_plan::platform::Cache;
use corehop_plan::units::{Bytes, CpuList};

use super::host::{PreflightHost, cpus_in_words};
use super::{CheckFinding, Concern};

pub(super) const CONCERNS: &[Concern] = &[
    Concern {
        id: "usable-cpus",
        why: "A migration needs two CPUs, and corehop uses SCHED_FIFO only with two CPUs, because on a single CPU a real-time job could starve the whole machine.",
        check: usable_cpus,
    },
    Concern {
        id: "hypervisor",
        why: "The host stops a guest at times that no counter of the guest shows, shares its caches with other guests, and may describe the caches wrongly, so medians from a guest can be useful, but worst cases are not.",
        check: hypervisor,
    },
    Concern {
        id: "llc-size",
        why: "The declared cache sizes determine the sizes of working sets and polluters; with a wrong size a polluter evicts too much or too little.",
        check: llc_size,
    },
    Concern {
        id: "smt",
        why: "A busy SMT sibling shares the core's caches and ports with the measured job, so the private caches are neither private nor as large as declared.",
        check: smt,
    },
    Concern {
        id: "counter",
        why: "Every interval is counted in ticks of the time-stamp counter; if the counter changes its rate, or stops while a CPU sleeps, times are meaningless.",
        check: counter,
    },
    Concern {
        id: "clock-source",
        why: "The kernel compares its clocks continuously; if the kernel does not use the time-stamp counter, it may have found the counter unreliable.",
        check: clock_source,
    },
    Concern {
        id: "mitigations",
        why: "Mitigations for processor flaws flush buffers, predictors or caches at kernel entry or at a process switch, which adds to the cost of a preemption on this host.",
        check: mitigations,
    },
];

fn usable_cpus(host: &PreflightHost) -> Option<CheckFinding> {
    let (online, usable) = (host.platform.online(), host.platform.usable());
    let run = |cpus: &CpuList| format!("taskset -c {cpus} corehop doctor");
    if usable.is_empty() {
        let found = format!("this process may use none of the online CPUs ({online})");
        return Some(CheckFinding::obstacle(found).command(run(online)));
    }
    if usable.len() >= 2 && usable == *online {
        return Some(CheckFinding::ok(format!("every CPU that is online can be used ({online})")));
    }
    let found = format!("{} of {online} can be used", cpus_in_words(&usable));
    if usable.len() >= 2 {
        // Isolated CPUs are usually all that such a process is given.
        return Some(if usable == host.isolated() {
            CheckFinding::ok(found)
        } else {
            CheckFinding::note(found).command(run(online)).remark(
                "If a cpuset excludes the other CPUs, only the cpuset's owner can add them.",
            )
        });
    }
    let found =
        format!("only {found}, so corehop can measure no migration and does not use SCHED_FIFO");
    Some(if online.len() > 1 {
        CheckFinding::warning(found).command(run(online))
    } else {
        CheckFinding::warning(found)
            .remark("Nothing can be done: the machine has no other CPU online.")
    })
}

fn hypervisor(host: &PreflightHost) -> Option<CheckFinding> {
    let Some(name) = &host.platform.hypervisor else {
        return Some(CheckFinding::ok("no hypervisor found"));
    };
    let of = if name.value == "unknown" { String::new() } else { format!(" under {}", name.value) };
    Some(CheckFinding::warning(format!("this machine is a guest{of}")).remark(
        "Nothing can be done inside the guest: for a bound, measure on the physical machine. In a guest, compare only results of one run, and check the controls.",
    ))
}

/// A last-level cache size per CPU that exceeds all processors: the largest so far is 48 MiB for a
/// core (EPYC 7373X, 9184X).
const LARGEST_LLC_PER_CPU: u64 = 64 << 20;
/// The last-level cache size per CPU above which corehop doubts the size stated in a guest, where SMT siblings are
/// rarely switched off. A guest that states a larger cache sees a cache that it shares with other guests.
const LARGEST_LLC_PER_CPU_OF_A_GUEST: u64 = 24 << 20;

fn llc_size(host: &PreflightHost) -> Option<CheckFinding> {
    let caches = host.platform.caches.iter().filter(|cache| cache.holds_data());
    let last = caches.max_by_key(|cache| cache.level)?;
    let size = last.size.as_ref()?;
    let served = last.instances.value.iter().map(CpuList::len).min().unwrap_or(1).max(1) as u64;
    let found = format!("{} of {} serves {served} CPUs", last.label(), size.value);
    if let Some(why) = contradicted(last) {
        return Some(doubted(format!("{found}, but {why}")));
    }
    let (per_cpu, why) = if host.is_guest() {
        (
            LARGEST_LLC_PER_CPU_OF_A_GUEST,
            "too large for these CPUs alone: other guests use the cache as well",
        )
    } else {
        (LARGEST_LLC_PER_CPU, "larger than the cache of any processor with that number of CPUs")
    };
    if size.value > Bytes::new(per_cpu * served) {
        return Some(doubted(format!("{found}, {why}")));
    }
    Some(CheckFinding::ok(found))
}

fn contradicted(cache: &Cache) -> Option<&str> {
    use corehop_plan::platform::Check;
    match &cache.instances.check {
        Check::Contradicted { why } => Some(why),
        _ => None,
    }
}

fn doubted(found: String) -> CheckFinding {
    CheckFinding::warning(found)
        .command("corehop measure platform")
        .remark("This command measures the sizes of the levels; until then set sizes with --wss.")
}

fn smt(host: &PreflightHost) -> Option<CheckFinding> {
    let usable = host.platform.usable();
    let online = host.platform.online();
    let cores = host.platform.cores.value.iter().map(|core| core.intersection(online));
    let shared: Vec<_> = cores.filter(|core| core.len() > 1).collect();
    let Some(example) = shared.first() else {
        return Some(CheckFinding::ok("no two online CPUs share a core"));
    };
    let first = host
        .platform
        .cores
        .value
        .iter()
        .filter_map(|core| core.intersection(&usable).iter().next());
    let one_each = CpuList::new(first);
    let found = format!("SMT is on: {} share a core, for instance", cpus_in_words(example));
    let off = host.write("off", "/sys/devices/system/cpu/smt/control");
    let remark = format!(
        "With this option the measurement does not use the siblings, but other programs may. To switch siblings off for the whole machine: `{off}` (cpusets of cgroup version 1 lose them permanently)."
    );
    let command = format!("corehop measure synthetic --cpus {one_each}");
    Some(CheckFinding::warning(found).command(command).remark(remark))
}

fn counter(host: &PreflightHost) -> Option<CheckFinding> {
    let steady = host.platform.clock.invariant.as_ref()?;
    if steady.value {
        return Some(CheckFinding::ok("the time-stamp counter runs at one rate and never stops"));
    }
    let found = "the time-stamp counter is not marked as steady (constant_tsc, nonstop_tsc)";
    Some(CheckFinding::warning(found).remark(if host.is_guest() {
        "Nothing can be done inside the guest: the host has to expose the flag invtsc."
    } else {
        "Nothing can be done on this processor, except keeping its clock fixed (see governor, \
         turbo, idle-states)."
    }))
}

fn clock_source(host: &PreflightHost) -> Option<CheckFinding> {
    let folder = "sys/devices/system/clocksource/clocksource0";
    let current = host.text(format!("{folder}/current_clocksource"))?;
    let found = format!("the kernel keeps time with {current}");
    let counters = ["tsc", "arch_sys_counter", "kvm-clock", "hyperv_clocksource_tsc_page"];
    if counters.contains(&current.as_str()) {
        return Some(CheckFinding::ok(found));
    }
    let offered = host.text(format!("{folder}/available_clocksource")).unwrap_or_default();
    let found = format!("{found}, but time stamps come from another counter");
    Some(if offered.split_whitespace().any(|name| name == "tsc") {
        let file = format!("/{folder}/current_clocksource");
        CheckFinding::warning(found).command(host.write("tsc", &file))
    } else {
        CheckFinding::warning(found).remark(
            "No command helps: the kernel no longer offers tsc. `dmesg | grep -i tsc` prints the reason.",
        )
    })
}

fn mitigations(host: &PreflightHost) -> Option<CheckFinding> {
    let folder = "sys/devices/system/cpu/vulnerabilities";
    let names = host.names(folder);
    if names.is_empty() {
        return None;
    }
    let active = |name: &&String| {
        host.text(format!("{folder}/{name}")).is_some_and(|text| text.contains("Mitigation"))
    };
    let active: Vec<_> = names.iter().filter(active).map(String::as_str).collect();
    if active.is_empty() {
        return Some(CheckFinding::ok("no work-around for a flaw of the processor is active"));
    }
    let found = format!("work-arounds are active for: {}", active.join(", "));
    Some(CheckFinding::note(found).remark(
        "Keep the mitigations as in production. mitigations=off on the kernel's command line shows their share.",
    ))
}
