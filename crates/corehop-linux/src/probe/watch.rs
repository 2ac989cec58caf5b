// SPDX-License-Identifier: MIT OR Apache-2.0
//! Watching how far apart CPUs are: lines exchanged between some pairs again and again.

use std::time::{Duration, Instant};

use corehop_plan::platform::Platform;
use corehop_plan::platform::observed::ExchangeSeries;
use corehop_plan::units::CpuList;

use super::ProbeError;
use super::partners::Partners;
use corehop_system::clock::TickClock;

/// Watches some pairs of usable CPUs of each class, for `long`, with a look `every` so often. There
/// is nothing to watch where only one CPU is usable. A look takes well below a millisecond where the
/// CPUs are free, a few milliseconds a pair where they are not.
///
/// # Errors
/// If the system starts no more threads, or has no memory for the lines.
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
