// SPDX-License-Identifier: MIT OR Apache-2.0
//! The way in which an idle CPU waits for work, according to the host's files, and the one setting that would make
//! wake-ups cheaper.

use corehop_plan::host::wakes::{IdleWait, Setting};
use corehop_plan::units::Cpu;

use super::CheckFinding;
use super::frequency::CPUS;
use super::host::PreflightHost;

/// The exit latency in µs above which an idle state may lose more than the caches.
const SHALLOW_US: u32 = 10;
/// The file with the time for which an idle CPU of a guest polls before it halts.
const HALT_POLL: &str = "sys/module/haltpoll/parameters/guest_halt_poll_ns";
/// The kernel's default for the file [`HALT_POLL`].
const POLL_NS: u64 = 200_000;

/// An enabled idle state.
struct IdleState {
    number: u32,
    name: String,
    latency_us: u32,
}

/// The kernel's files about idle CPUs.
struct Idle {
    driver: Option<String>,
    governor: Option<String>,
    /// The idle states that are enabled on some usable CPU, by number.
    states: Vec<IdleState>,
    /// The time for which an idle CPU polls before it halts, in ns; `None` if the host lacks the file [`HALT_POLL`].
    halt_poll_ns: Option<u64>,
}

impl Idle {
    /// Reads the host's files about idle CPUs; `None` if the host has no such files.
    fn of(host: &PreflightHost) -> Option<Self> {
        let mut states: Vec<IdleState> =
            host.platform.usable().iter().flat_map(|cpu| states(host, cpu)).collect();
        if states.is_empty() {
            host.cpus(&format!("{CPUS}/online"))?;
        }
        // Where CPUs differ, the one that sleeps longest counts.
        states.sort_by_key(|it| (it.number, std::cmp::Reverse(it.latency_us)));
        states.dedup_by_key(|it| it.number);
        let file = |name: &str| host.text(format!("{CPUS}/cpuidle/{name}"));
        Some(Self {
            driver: file("current_driver").filter(|it| it != "none"),
            governor: file("current_governor").or_else(|| file("current_governor_ro")),
            states,
            halt_poll_ns: host.value(HALT_POLL),
        })
    }

    /// Whether idle CPUs poll for a while before they halt, under a governor for guests.
    fn is_haltpoll(&self) -> bool {
        self.governor.as_deref() == Some("haltpoll")
    }

    /// The text `driver D, governor G`, as far as both are known.
    fn by(&self) -> String {
        let part = |what: &str, name: &Option<String>| Some(format!("{what} {}", name.as_ref()?));
        let both = [part("driver", &self.driver), part("governor", &self.governor)];
        both.into_iter().flatten().collect::<Vec<_>>().join(", ")
    }

    /// The idle states with a long exit latency, the deepest last.
    fn deep(&self) -> Vec<&IdleState> {
        let mut deep: Vec<_> = self.states.iter().filter(|it| it.latency_us > SHALLOW_US).collect();
        deep.sort_by_key(|it| it.latency_us);
        deep
    }
}

fn states(host: &PreflightHost, cpu: Cpu) -> Vec<IdleState> {
    let folder = format!("{CPUS}/cpu{}/cpuidle", cpu.0);
    let state = |number: u32| {
        let file = |name: &str| format!("{folder}/state{number}/{name}");
        let enabled = host.text(file("disable")).is_none_or(|text| text == "0");
        let name = host.text(file("name"))?;
        let latency_us = host.value(file("latency"))?;
        enabled.then_some(IdleState { number, name, latency_us })
    };
    host.numbered(&folder, "state").into_iter().filter_map(state).collect()
}

/// The way in which an idle CPU waits. Returns `None` if the host's files do not show the way.
pub(super) fn wait(host: &PreflightHost) -> Option<IdleWait> {
    let idle = Idle::of(host)?;
    let fixed = |how: String| IdleWait { how, setting: None };
    if host.probes.wake_limit_us == Some(0) {
        return Some(fixed(
            "an idle CPU polls as long as a program holds /dev/cpu_dma_latency at 0".to_owned(),
        ));
    }
    if idle.is_haltpoll() {
        return Some(haltpoll(host, &idle));
    }
    if idle.states.is_empty() {
        return Some(without_states(host));
    }
    let names: Vec<&str> = idle.states.iter().map(|it| it.name.as_str()).collect();
    let how = format!("an idle CPU waits in one of {} ({})", names.join(", "), idle.by());
    let polls = idle.states.iter().any(|it| it.name == "POLL");
    let setting = if let Some(deepest) = idle.deep().last() {
        Some(without_deep(host, &idle, deepest))
    } else if polls {
        Some(latency_limit(host))
    } else {
        None
    };
    Some(IdleWait { how, setting })
}

fn haltpoll(host: &PreflightHost, idle: &Idle) -> IdleWait {
    let by = idle.by();
    match idle.halt_poll_ns {
        Some(0) => IdleWait {
            how: format!("an idle CPU halts at once ({by}, guest_halt_poll_ns 0)"),
            setting: Some(Setting {
                name: format!("guest_halt_poll_ns = {POLL_NS}"),
                command: Some(host.write(POLL_NS, &format!("/{HALT_POLL}"))),
                left_ns: 0.0,
                price: format!(
                    "Threads that sleep for less than {} µs gain; an idle CPU uses the host's CPU time while it polls.",
                    POLL_NS / 1_000
                ),
            }),
        },
        Some(ns) => IdleWait {
            how: format!("an idle CPU polls for up to {} µs before it halts ({by})", ns / 1_000),
            setting: None,
        },
        None => IdleWait {
            how: format!(
                "an idle CPU halts after a time that corehop cannot read ({by}, no /{HALT_POLL})"
            ),
            setting: None,
        },
    }
}

/// The setting that disables deep idle states and keeps shallow idle states.
fn without_deep(host: &PreflightHost, idle: &Idle, deepest: &IdleState) -> Setting {
    let shallow = idle.states.iter().map(|it| it.latency_us).filter(|&us| us <= SHALLOW_US).max();
    Setting {
        name: format!(
            "disabling idle states of more than {SHALLOW_US} µs (now as deep as {})",
            deepest.name
        ),
        command: Some(switch_off(host, &idle.deep())),
        left_ns: 1e3 * f64::from(shallow.unwrap_or(0)),
        price: "An idle CPU then uses more power, which leaves less power for the clocks of other CPUs."
            .to_owned(),
    }
}

/// The setting that limits the wake-up latency while a program keeps the file open, so that idle CPUs poll.
fn latency_limit(host: &PreflightHost) -> Setting {
    let held = "exec 3> /dev/cpu_dma_latency; printf '\\0\\0\\0\\0' >&3; sleep infinity";
    Setting {
        name: "/dev/cpu_dma_latency = 0".to_owned(),
        command: Some(format!("{}sh -c \"{held}\"", host.sudo())),
        left_ns: 0.0,
        price: "The limit lasts as long as that command runs; idle CPUs then poll, at full power."
            .to_owned(),
    }
}

fn without_states(host: &PreflightHost) -> IdleWait {
    if host.boot_parameter("idle").as_deref() == Some("poll") {
        let how = "an idle CPU polls (idle=poll on the kernel's command line)".to_owned();
        return IdleWait { how, setting: None };
    }
    if !host.is_guest() {
        return IdleWait { how: "an idle CPU halts (no cpuidle driver)".to_owned(), setting: None };
    }
    IdleWait {
        how: "an idle CPU halts, and the host decides how it sleeps (no cpuidle driver)".to_owned(),
        setting: Some(Setting {
            name: format!("cpuidle_haltpoll.force=1 haltpoll.guest_halt_poll_ns={POLL_NS} on the kernel's command line"),
            command: None,
            left_ns: 0.0,
            price: "The setting needs a reboot and a kernel with CONFIG_HALTPOLL_CPUIDLE; idle CPUs use the host's CPU time while they poll."
                .to_owned(),
        }),
    }
}

/// The command that disables idle states.
fn switch_off(host: &PreflightHost, deep: &[&IdleState]) -> String {
    let mut numbers: Vec<_> = deep.iter().map(|state| state.number.to_string()).collect();
    numbers.sort_unstable();
    numbers.dedup();
    let numbers = match numbers.as_slice() {
        [one] => one.clone(),
        several => format!("[{}]", several.concat()),
    };
    host.write(1, &format!("/{CPUS}/cpu*/cpuidle/state{numbers}/disable"))
}

/// The check of the concern `idle-states`.
pub(super) fn idle_states(host: &PreflightHost) -> Option<CheckFinding> {
    let idle = Idle::of(host)?;
    if idle.states.is_empty() {
        return Some(without_driver(host));
    }
    let limit = host.probes.wake_limit_us.unwrap_or(u32::MAX);
    let deep = idle.deep();
    match deep.last() {
        Some(deepest) if limit > SHALLOW_US => {
            let IdleState { name, latency_us, .. } = deepest;
            let found = format!("CPUs sleep as deeply as {name} ({latency_us} µs to wake up)");
            Some(CheckFinding::warning(found).command(switch_off(host, &deep)))
        }
        _ => Some(halting(host, &idle).unwrap_or_else(|| CheckFinding::ok("no CPU sleeps deeply"))),
    }
}

/// The finding for a guest whose idle CPUs halt immediately: the state has no latency of its own, but each exit from
/// a halt involves the hypervisor.
fn halting(host: &PreflightHost, idle: &Idle) -> Option<CheckFinding> {
    let at_once = idle.is_haltpoll() && idle.halt_poll_ns == Some(0);
    let IdleWait { how, setting } = at_once.then(|| haltpoll(host, idle))?;
    let Setting { command, price, .. } = setting?;
    Some(CheckFinding::note(how).command(command?).remark(price))
}

fn without_driver(host: &PreflightHost) -> CheckFinding {
    if host.is_guest() {
        let found = "when a CPU is idle, the host decides how it sleeps (no cpuidle)";
        return CheckFinding::note(found).remark(
            "Nothing can be done inside the guest. The load constructed (--load constructed) keeps the CPUs awake.",
        );
    }
    CheckFinding::ok("the kernel puts no CPU to sleep deeply (no cpuidle)")
}
