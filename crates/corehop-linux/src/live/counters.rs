// SPDX-License-Identifier: MIT OR Apache-2.0
//! The counters for a touch, in addition to its time stamps: the kernel's counters of the CPU and its SMT siblings,
//! and the processor's counters of the thread.

use corehop_plan::platform::Platform;
use corehop_plan::units::{Cpu, CpuList};
use serde_json::{Value, json};

use crate::bpf::interrupts::{InterruptCounter, InterruptCounters, InterruptCounts};
use crate::counters::attribution::Attribution;
use crate::counters::hardware::{HardwareCounters, HardwareEvent};

/// The counters of a host, which stay open while it measures.
#[derive(Debug, Default)]
pub(crate) struct HostCounters {
    attribution: Option<Attribution>,
    /// The SMT siblings of every CPU with siblings.
    siblings: Vec<(Cpu, CpuList)>,
    /// A description of the processor's counters, or the reason why there are none.
    hardware: String,
}

/// The values of the counters at one moment.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Sight {
    counts: Option<InterruptCounts>,
    /// Whether a sibling is busy, and how often siblings have switched threads.
    siblings: Option<(bool, u64)>,
    misses: Option<u64>,
}

/// The events between two moments.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct EventCounts {
    /// The number of interrupts on the CPU.
    pub(crate) interrupts: Option<u32>,
    /// The number of times the CPU switched from one thread to another.
    pub(crate) switches: Option<u32>,
    /// The time stolen by the hypervisor, as far as the scheduler has noticed, in nanoseconds.
    pub(crate) steal_ns: Option<u64>,
    /// Whether a sibling had a thread to run at any time between the two moments.
    pub(crate) sibling_busy: Option<bool>,
    /// Misses of the last-level cache.
    pub(crate) misses: Option<u64>,
}

impl HostCounters {
    /// Opens the best counters that the host described by `platform` offers.
    pub(crate) fn open(platform: &Platform) -> Self {
        let hardware = HardwareCounters::open();
        Self {
            attribution: Some(Attribution::open(platform.online())),
            siblings: siblings(platform),
            hardware: match hardware {
                Ok(_) => "counted in user mode".to_owned(),
                Err(error) => error.to_string(),
            },
        }
    }

    /// Whether the counters that the host offers were opened.
    pub(crate) const fn is_open(&self) -> bool {
        self.attribution.is_some()
    }

    /// The current counter values of `cpu` and of the calling thread, which must have opened `hardware`. Reading
    /// takes a few loads, and no system call if the kernel maps the processor's counters.
    pub(crate) fn look(&self, cpu: Cpu, hardware: Option<&HardwareCounters>) -> Sight {
        let counters = self.interrupt_counters();
        Sight {
            counts: counters.map(|counters| counters.read(cpu)),
            siblings: counters.and_then(|counters| self.look_at_siblings(cpu, counters)),
            misses: hardware.and_then(|counters| counters.read().get(HardwareEvent::LlcMisses)),
        }
    }

    fn interrupt_counters(&self) -> Option<&InterruptCounters> {
        self.attribution.as_ref().and_then(Attribution::counters)
    }

    fn look_at_siblings(&self, cpu: Cpu, counters: &InterruptCounters) -> Option<(bool, u64)> {
        let (_, siblings) = self.siblings.iter().find(|(of, _)| *of == cpu)?;
        let busy = siblings.iter().filter_map(|sibling| counters.is_busy(sibling));
        let switches = siblings.iter().map(|sibling| counters.read(sibling).switches).sum();
        Some((busy.reduce(|any, one| any || one)?, switches))
    }

    /// The events from `before` to `after`, on one CPU.
    pub(crate) fn between(&self, before: &Sight, after: &Sight) -> EventCounts {
        let cpu = after.counts.zip(before.counts).map(|(after, before)| after.minus(&before));
        let siblings = before.siblings.zip(after.siblings);
        EventCounts {
            interrupts: cpu.map(|cpu| cpu.interrupts().try_into().unwrap_or(u32::MAX)),
            switches: cpu
                .filter(|_| self.sees(InterruptCounter::Switches))
                .map(|cpu| cpu.switches.try_into().unwrap_or(u32::MAX)),
            steal_ns: cpu.filter(|_| self.sees(InterruptCounter::Steal)).map(|cpu| cpu.steal_ns),
            sibling_busy: siblings.map(|(old, new)| old.0 || new.0 || old.1 != new.1),
            misses: before.misses.zip(after.misses).map(|(old, new)| new.saturating_sub(old)),
        }
    }

    fn sees(&self, counter: InterruptCounter) -> bool {
        self.attribution.as_ref().is_some_and(|attribution| attribution.sees(counter))
    }

    /// Whether missing CPU time of an awake thread was stolen by the hypervisor, and not used by interrupts.
    pub(crate) fn not_run_is_stolen(&self) -> bool {
        self.attribution.as_ref().is_some_and(Attribution::not_run_is_stolen)
    }

    /// Describes the counters for the provenance.
    pub(crate) fn describe(&self) -> Value {
        json!({
            "software": self.attribution.as_ref().map(Attribution::provenance),
            "hardware": self.hardware,
        })
    }
}

/// The SMT siblings of every CPU.
fn siblings(platform: &Platform) -> Vec<(Cpu, CpuList)> {
    let others = |core: &CpuList, cpu| CpuList::new(core.iter().filter(|&other| other != cpu));
    let cores = platform.cores.value.iter().filter(|core| core.len() > 1);
    cores.flat_map(|core| core.iter().map(move |cpu| (cpu, others(core, cpu)))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::{Duration, Instant};

    fn two_siblings() -> HostCounters {
        let cpus = CpuList::new([Cpu(0), Cpu(1)]);
        HostCounters {
            attribution: Some(Attribution::open(&cpus)),
            siblings: vec![(Cpu(0), CpuList::new([Cpu(1)])), (Cpu(1), CpuList::new([Cpu(0)]))],
            hardware: String::new(),
        }
    }

    const fn sight(interrupts: u64, sibling: (bool, u64), misses: u64) -> Sight {
        let counts = InterruptCounts {
            local_timer: interrupts,
            reschedule: 0,
            call_function: 0,
            device_irqs: 0,
            softirqs: 99,
            nmis: 0,
            other_irqs: 0,
            switches: 0,
            steal_ns: 0,
        };
        Sight { counts: Some(counts), siblings: Some(sibling), misses: Some(misses) }
    }

    #[test]
    fn what_happened_is_the_difference_of_what_the_counters_said() {
        let counters = HostCounters::default();
        let seen = counters.between(&sight(5, (false, 7), 100), &sight(8, (false, 7), 130));
        let expected = EventCounts {
            interrupts: Some(3),
            switches: None,
            steal_ns: None,
            sibling_busy: Some(false),
            misses: Some(30),
        };
        assert_eq!(seen, expected);
        assert_eq!(counters.between(&Sight::default(), &Sight::default()), EventCounts::default());
    }

    #[test]
    fn a_sibling_was_busy_if_it_is_at_either_end_or_has_switched_in_between() {
        let counters = HostCounters::default();
        let busy = |before, after| {
            counters.between(&sight(0, before, 0), &sight(0, after, 0)).sibling_busy == Some(true)
        };
        assert!(busy((true, 1), (false, 1)) && busy((false, 1), (true, 1)));
        assert!(busy((false, 1), (false, 3)) && !busy((false, 3), (false, 3)));
    }

    #[test]
    #[expect(clippy::print_stderr, reason = "a skip says why")]
    fn a_busy_sibling_is_seen() {
        let counters = two_siblings();
        let Some(interrupts) = counters.interrupt_counters() else {
            return eprintln!("skipped: {}", counters.describe());
        };
        if !interrupts.covers(Cpu(1))
            || !corehop_system::thread::affinity().unwrap().contains(Cpu(1))
        {
            return eprintln!("skipped: there is no second CPU to be busy");
        }
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                corehop_system::thread::set_affinity([Cpu(1)]).unwrap();
                while !stop.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
            let until = Instant::now() + Duration::from_secs(5);
            let busy = || counters.look(Cpu(0), None).siblings.is_some_and(|(busy, _)| busy);
            while !busy() && Instant::now() < until {
                std::thread::sleep(Duration::from_millis(1));
            }
            let seen = busy();
            stop.store(true, Ordering::Relaxed);
            assert!(seen);
        });
    }
}
