// SPDX-License-Identifier: MIT OR Apache-2.0
//! Checks of CPU isolation: isolated CPUs, no tick, and callbacks and interrupts on other CPUs.

use corehop_plan::units::CpuList;

use super::host::{PreflightHost, cpus_in_words};
use super::{CheckFinding, Concern};

pub(super) const CONCERNS: &[Concern] = &[
    Concern {
        id: "isolation",
        why: "On a CPU that is not isolated, any process and any kernel thread may preempt the \
              measured job and use its caches.",
        check: isolation,
    },
    Concern {
        id: "tick",
        why: "The timer interrupts each busy CPU 100 to 1,000 times a second, so that a touch of several milliseconds is always disturbed.",
        check: tick,
    },
    Concern {
        id: "rcu-callbacks",
        why: "The kernel runs deferred work (RCU callbacks) on the CPU that requested the work, possibly in the middle of a touch.",
        check: rcu_callbacks,
    },
    Concern {
        id: "interrupts",
        why: "A device interrupt takes some microseconds of the measured CPU, and its handler evicts cache lines of the working set.",
        check: interrupts,
    },
    Concern {
        id: "nmi-watchdog",
        why: "The watchdog's interrupts cannot be masked, and the watchdog occupies a hardware counter.",
        check: nmi_watchdog,
    },
];

/// The CPUs to isolate: all online CPUs except those of the first core.
fn candidates(host: &PreflightHost) -> CpuList {
    let online = host.platform.online();
    let first = host.platform.cores.value.containing(host.housekeeping());
    CpuList::new(online.iter().filter(|&cpu| first.is_none_or(|core| !core.contains(cpu))))
}

/// The addition to the kernel's command line, where `LIST` stands for the CPUs.
fn at_boot(host: &PreflightHost, parameters: &str) -> String {
    let cpus = candidates(host);
    if cpus.is_empty() {
        return "Nothing can be done: isolation needs a second core for everything else."
            .to_owned();
    }
    let parameters = parameters.replace("LIST", &cpus.to_string());
    format!("Add {parameters} to the kernel's command line and restart.")
}

fn isolation(host: &PreflightHost) -> Option<CheckFinding> {
    host.cpus("sys/devices/system/cpu/isolated")?;
    let (isolated, usable) = (host.isolated(), host.platform.usable());
    if isolated.is_empty() {
        let found = "no CPU is isolated: other threads may run on each CPU";
        let parameters = "isolcpus=managed_irq,domain,LIST nohz_full=LIST rcu_nocbs=LIST";
        return Some(CheckFinding::warning(found).remark(at_boot(host, parameters)));
    }
    let both = usable.intersection(&isolated);
    let found = format!("isolated: {}", cpus_in_words(&isolated));
    if both.is_empty() {
        let command = format!("taskset -c {isolated} corehop measure synthetic");
        let found = format!("{found}, but this process may not use any of them");
        return Some(CheckFinding::warning(found).command(command));
    }
    if both == usable {
        return Some(CheckFinding::ok(found));
    }
    let command = format!("corehop measure synthetic --cpus {both}");
    Some(CheckFinding::note(format!("{found}; the others are not")).command(command))
}

fn tick(host: &PreflightHost) -> Option<CheckFinding> {
    let Some(tickless) = host.cpus("sys/devices/system/cpu/nohz_full") else {
        host.cpus("sys/devices/system/cpu/online")?;
        return Some(
            CheckFinding::note("every CPU has a periodic tick, which this kernel cannot stop")
                .remark("Only a kernel with CONFIG_NO_HZ_FULL=y helps."),
        );
    };
    let measured = host.measured();
    if !measured.is_empty() && measured.is_within(&tickless) {
        return Some(CheckFinding::ok(format!(
            "CPUs {tickless} have no tick while a single thread runs"
        )));
    }
    let found = format!("{} keep their tick", cpus_in_words(&measured));
    Some(CheckFinding::note(found).remark(at_boot(host, "nohz_full=LIST")))
}

fn rcu_callbacks(host: &PreflightHost) -> Option<CheckFinding> {
    host.text("proc/cmdline")?;
    let tickless = host.cpus("sys/devices/system/cpu/nohz_full").unwrap_or_default();
    let measured = host.measured();
    let elsewhere = match host.boot_parameter("rcu_nocbs") {
        None => tickless,
        // A list in words, or none, stands for every CPU.
        Some(text) => text.parse().unwrap_or_else(|_| host.platform.cpus.value.clone()),
    };
    if !measured.is_empty() && measured.is_within(&elsewhere) {
        let found = format!("RCU callbacks of {} run elsewhere", cpus_in_words(&elsewhere));
        return Some(CheckFinding::ok(found));
    }
    let found = format!("RCU callbacks run on {} themselves", cpus_in_words(&measured));
    Some(CheckFinding::note(found).remark(at_boot(host, "rcu_nocbs=LIST")))
}

/// A device's interrupt line.
struct Interrupt {
    name: String,
    count: u64,
}

/// The device interrupts that `cpus` may receive, the busiest first.
fn reaching(host: &PreflightHost, cpus: &CpuList) -> Option<Vec<Interrupt>> {
    let text = host.text("proc/interrupts")?;
    let columns = text.lines().next()?.split_whitespace().count();
    let mut found: Vec<_> = text
        .lines()
        .skip(1)
        .filter_map(|line| {
            let (number, rest) = line.split_once(':')?;
            let number: u32 = number.trim().parse().ok()?;
            let targets = ["effective_affinity_list", "smp_affinity_list"]
                .iter()
                .find_map(|file| host.cpus(&format!("proc/irq/{number}/{file}")));
            let targets = targets.filter(|list| !list.is_empty())?;
            let counts = rest.split_whitespace().take(columns);
            let count = counts.filter_map(|count| count.parse().ok()).fold(0, u64::saturating_add);
            let name = rest.split_whitespace().last()?.to_owned();
            (!targets.intersection(cpus).is_empty()).then_some(Interrupt { name, count })
        })
        .collect();
    found.sort_by_key(|interrupt| std::cmp::Reverse(interrupt.count));
    Some(found)
}

fn interrupts(host: &PreflightHost) -> Option<CheckFinding> {
    let measured = host.measured();
    let reaching = reaching(host, &measured)?;
    let Some(busiest) = reaching.first() else {
        let found = format!("no device interrupts {}", cpus_in_words(&measured));
        return Some(CheckFinding::ok(found));
    };
    let (name, count) = (&busiest.name, busiest.count);
    let noun = if reaching.len() == 1 { "device interrupt" } else { "device interrupts" };
    let found = format!(
        "{} {noun} may reach {}; the busiest is {name} ({count} times so far)",
        reaching.len(),
        cpus_in_words(&measured)
    );
    if host.platform.online().len() < 2 {
        return Some(CheckFinding::note(found).remark("Nothing can be done on a single CPU."));
    }
    let isolated = !host.isolated().intersection(&measured).is_empty();
    let verdict = if isolated { CheckFinding::warning(found) } else { CheckFinding::note(found) };
    let aside = host.housekeeping();
    let command = host.write(aside.0, "/proc/irq/*/smp_affinity_list");
    let balanced = host.processes().iter().any(|process| process.name == "irqbalance");
    let stop = if balanced { "Stop irqbalance first (systemctl stop irqbalance). " } else { "" };
    Some(verdict.command(command).remark(format!(
        "{stop}Some drivers refuse to move their interrupts. After this command, measure on CPUs other than CPU {} (--cpus).",
        aside.0
    )))
}

fn nmi_watchdog(host: &PreflightHost) -> Option<CheckFinding> {
    if host.value::<u32>("proc/sys/kernel/nmi_watchdog")? == 0 {
        return Some(CheckFinding::ok("the watchdog by non-maskable interrupts is off"));
    }
    let command = host.sysctl("kernel.nmi_watchdog", 0);
    Some(CheckFinding::note("the watchdog by non-maskable interrupts is on").command(command))
}
