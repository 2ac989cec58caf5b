// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the kernel takes for scheduling, seen from its own tracepoints.

use std::io;
use std::time::Duration;

use corehop_core::units::{Cpu, CpuList};

use super::streams::{Durations, Known, durations};
use super::{Recording, Series, Way, What, threads};
use crate::bpf::BpfError;
use crate::bpf::events::Events;
use crate::clock::Clock;
use crate::live::offsets::Offsets;

/// Why nothing was measured.
#[derive(Debug)]
pub(super) enum Refused {
    NoBpf(BpfError),
    Threads(io::Error),
}

/// The tracepoints of each quantity.
const NEEDS: [(&str, &[&str]); 4] = [
    ("SCHEDULE and CXS", &["sched_entry_tp", "sched_switch", "sched_exit_tp"]),
    (
        "TICK",
        &["local_timer_entry", "local_timer_exit", "hrtimer_expire_entry", "hrtimer_expire_exit"],
    ),
    (
        "RELEASE and RELEASE-LATENCY",
        &["hrtimer_expire_entry", "hrtimer_expire_exit", "sched_waking"],
    ),
    ("IPI-LATENCY", &["ipi_send_cpu", "reschedule_entry", "call_function_single_entry"]),
];

/// Measures while two threads do what there is to be measured.
pub(super) fn measure(
    cpus: &CpuList,
    missing: &mut Vec<String>,
) -> Result<(Vec<Series>, Recording), Refused> {
    let recorder = Recorder::open(cpus)?;
    let (found, lost) = recorder.record(|| threads::exercise(cpus)).map_err(Refused::Threads)?;
    let recording = recorder.account(cpus, &found, lost);
    let series = series(found, 2, cpus);
    missing.extend(recorder.missing(&series));
    Ok((series, recording))
}

/// What takes events down, and what is known of the kernel beside them.
struct Recorder {
    events: Events,
    offsets: Offsets,
    known: Known,
}

impl Recorder {
    fn open(cpus: &CpuList) -> Result<Self, Refused> {
        let clock = Clock::calibrate(Duration::from_millis(20));
        let offsets = Offsets::measure(cpus, &clock).map_err(Refused::Threads)?;
        let events = Events::open(cpus).map_err(Refused::NoBpf)?;
        let tick = std::fs::read_to_string("/proc/kallsyms").ok().and_then(|it| tick_handler(&it));
        Ok(Self { events, offsets, known: Known { process: std::process::id(), tick } })
    }

    /// What was seen while `run` ran, and how many events were lost.
    fn record(&self, run: impl FnOnce() -> io::Result<()>) -> io::Result<(Durations, u64)> {
        self.events.begin();
        let ran = run();
        let (streams, lost) = self.events.end();
        ran?;
        Ok((durations(&streams, self.known, |cpu| self.offsets.ahead(cpu).0), lost))
    }

    fn account(&self, cpus: &CpuList, found: &Durations, lost: u64) -> Recording {
        let first = cpus.first().unwrap_or_default();
        let residual = Events::residual(cpus, || threads::sleep_often(first)).ok();
        let mut bounds: Vec<f64> = cpus.iter().map(|cpu| self.offsets.ahead(cpu).1).collect();
        bounds.sort_by(f64::total_cmp);
        Recording {
            noting_ns: median(found.noting.clone()).unwrap_or_default(),
            residual_ns: residual.and_then(median),
            clock_bound_ns: bounds.iter().rev().take(2).sum(),
            events: found.noting.len(),
            lost,
            unmatched: found.unmatched,
        }
    }

    /// What is not among `series`, with the reason.
    fn missing(&self, series: &[Series]) -> Vec<String> {
        let has = |name: &str| {
            series.iter().any(|it| match it.what {
                What::Scheduling | What::Switch => name.starts_with("SCHEDULE"),
                What::Tick => name == "TICK",
                What::Release | What::EventLatency | What::WakeUp => name.starts_with("RELEASE"),
                What::OneWay(..) | What::RoundTrip(..) => name == "IPI-LATENCY",
            })
        };
        let why = |(name, tracepoints): &(&str, &[&str])| {
            let lacking = |(it, _): &&(&str, String)| tracepoints.contains(it);
            let why = match self.events.missing().iter().find(lacking) {
                Some((_, why)) => why.clone(),
                None if *name == "TICK" && self.known.tick.is_none() => {
                    "/proc/kallsyms does not show where its handler is".to_owned()
                }
                None => "none was seen (is this a PID namespace, or one CPU only?)".to_owned(),
            };
            format!("{name}, in the kernel: {why}")
        };
        NEEDS.iter().filter(|(name, _)| !has(name)).map(why).collect()
    }
}

/// What was found, of so many tasks on `cpus`.
fn series(found: Durations, tasks: u32, cpus: &CpuList) -> Vec<Series> {
    let single = [
        (What::Scheduling, found.scheduling),
        (What::Switch, found.switch),
        (What::Tick, found.tick),
        (What::Release, found.release),
        (What::EventLatency, found.event_latency),
    ];
    let both = |&((from, to), _): &((Cpu, Cpu), _)| cpus.contains(from) && cpus.contains(to);
    let pairs = found.interprocessor.into_iter().filter(both);
    let pairs = pairs.map(|((from, to), ns)| (What::OneWay(from, to), ns));
    let all = single.into_iter().chain(pairs).filter(|(_, ns)| !ns.is_empty());
    all.map(|(what, ns)| Series { what, way: Way::Kernel, tasks, ns }).collect()
}

/// The lower half of the address of the tick's handler, from the kernel's list of symbols, which shows no
/// addresses to those who may not see them.
fn tick_handler(symbols: &str) -> Option<u32> {
    symbols.lines().find_map(|line| {
        let mut words = line.split_ascii_whitespace();
        let (address, name) = (words.next()?, words.nth(1)?);
        // The latter until Linux 6.8.
        let it = ["tick_nohz_handler", "tick_sched_timer"].contains(&name);
        let address = u64::from_str_radix(address, 16).ok()?;
        (it && address != 0).then_some(address as u32)
    })
}

fn median(mut values: Vec<f64>) -> Option<f64> {
    let middle = values.len() / 2;
    (!values.is_empty()).then(|| *values.select_nth_unstable_by(middle, f64::total_cmp).1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ticks_handler_is_found_where_addresses_are_shown() {
        let symbols = "ffffffff81434210 T tick_sched_timer_dying\n\
                       ffffffff814332e0 t tick_nohz_handler\nffffffff81430000 T tick_setup\n";
        assert_eq!(tick_handler(symbols), Some(0x8143_32e0));
        assert_eq!(tick_handler("0000000000000000 t tick_nohz_handler\n"), None);
        assert_eq!(tick_handler(""), None);
    }

    #[test]
    fn the_median_is_one_of_the_values() {
        assert_eq!(median(vec![3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(vec![]), None);
    }
}
