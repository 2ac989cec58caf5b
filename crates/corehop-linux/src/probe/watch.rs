// SPDX-License-Identifier: MIT OR Apache-2.0
//! Observes the distance of CPUs: some pairs exchange lines repeatedly.

use std::time::{Duration, Instant};

use corehop_plan::platform::Platform;
use corehop_plan::platform::observed::ExchangeSeries;
use corehop_plan::units::CpuList;

use super::ProbeError;
use super::partners::Partners;
use corehop_system::clock::TickClock;

/// Measures some pairs of usable CPUs of each class for the time `long`, once per interval `every`.
/// The result is empty if only one CPU is usable. One measurement takes well below a millisecond if
/// the CPUs are free, and otherwise a few milliseconds per pair.
///
/// # Errors
/// Fails if the system starts no more threads, or has too little memory for the lines.
pub fn watch(
    platform: &Platform,
    long: Duration,
    every: Duration,
    progress: &mut dyn FnMut(&str),
) -> Result<Vec<ExchangeSeries>, ProbeError> {
    let pairs = platform.watched_pairs();
    let cpus = CpuList::new(pairs.iter().flat_map(|&(from, to)| [from, to]));
    if pairs.is_empty() {
        return Ok(Vec::new());
    }
    let partners = Partners::park(&cpus, TickClock::calibrate(Duration::from_millis(20)), true)?;
    let still = |&(from, to)| ExchangeSeries { from, to, exchanges: Vec::new() };
    let mut watched: Vec<ExchangeSeries> = pairs.iter().map(still).collect();
    let began = Instant::now();
    while began.elapsed() < long {
        progress(&format!(
            "distance of CPUs, {} of {} s",
            began.elapsed().as_secs(),
            long.as_secs()
        ));
        let next = Instant::now() + every;
        for pair in &mut watched {
            let at = began.elapsed().as_nanos() as u64;
            let exchange = partners.exchange((pair.from, pair.to));
            pair.exchanges.extend(exchange.map(|ns| (at, ns)));
        }
        std::thread::sleep(next.saturating_duration_since(Instant::now()));
    }
    Ok(watched)
}
