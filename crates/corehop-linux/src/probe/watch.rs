// SPDX-License-Identifier: MIT OR Apache-2.0
//! Watching how far apart CPUs are: lines exchanged between some pairs again and again.

use std::time::{Duration, Instant};

use corehop_core::platform::Platform;
use corehop_core::platform::observed::Watched;
use corehop_core::units::CpuList;

use super::ProbeError;
use super::partners::Partners;
use crate::clock::Clock;

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
) -> Result<Vec<Watched>, ProbeError> {
    let pairs = platform.watched_pairs();
    let cpus = CpuList::new(pairs.iter().flat_map(|&(from, to)| [from, to]));
    let partners = Partners::park(&cpus, Clock::calibrate(Duration::from_millis(20)), true)?;
    let still = |&(from, to)| Watched { from, to, exchanges: Vec::new() };
    let mut watched: Vec<Watched> = pairs.iter().map(still).collect();
    let began = Instant::now();
    while !watched.is_empty() && began.elapsed() < long {
        progress(&format!(
            "distance of CPUs, {} of {} s",
            began.elapsed().as_secs(),
            long.as_secs()
        ));
        let next = Instant::now() + every;
        for pair in &mut watched {
            let at = began.elapsed().as_nanos() as u64;
            let exchange = partners.exchange((pair.from, pair.to))?;
            pair.exchanges.extend(exchange.map(|ns| (at, ns)));
        }
        std::thread::sleep(next.saturating_duration_since(Instant::now()));
    }
    Ok(watched)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::discover::{SysRoot, discover};

    #[test]
    fn every_pair_is_looked_at_in_the_order_of_time_and_the_watch_ends() {
        let platform = discover(&SysRoot::live()).unwrap();
        let (long, every) = (Duration::from_millis(200), Duration::from_millis(10));
        let watched = watch(&platform, long, every, &mut |_| {}).unwrap();
        assert_eq!(watched.len(), platform.watched_pairs().len(), "one CPU has no pair");
        for pair in &watched {
            // On a busy machine not every look meets; none is made up.
            assert!(pair.exchanges.len() <= 20 && pair.from != pair.to);
            assert!(pair.exchanges.is_sorted_by_key(|&(at, _)| at));
            assert!(pair.exchanges.iter().all(|&(_, ns)| ns > 1.0));
        }
    }
}
