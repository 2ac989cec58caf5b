// SPDX-License-Identifier: MIT OR Apache-2.0
//! The wake-up costs with which a placer starts.

use std::time::Duration;

use corehop_decide::placer::terrain::WakeCosts;
use corehop_decide::wake_cost::WakeCost;
use corehop_linux::placing::WakeTimes;
use corehop_linux::preflight;
use corehop_linux::probe::wake_batches;
use corehop_plan::platform::Platform;
use corehop_system::discover::SysRoot;

use crate::output::note;

/// The longest time for which wake-ups are measured.
const LONG: Duration = Duration::from_millis(200);

/// Measures wake-ups. Returns the costs that the placer uses for predictions, and the whole finding with its
/// reasons.
pub(super) fn measured(platform: &Platform) -> (WakeCosts, WakeCost) {
    let batches = wake_batches(platform, LONG);
    let times = WakeTimes::of(&batches).unwrap_or_else(|| {
        let why = batches.trouble.as_deref().unwrap_or("no wake-up was observed");
        note(&format!("wake-ups could not be measured ({why}); corehop assumes typical times"));
        WakeTimes::ASSUMED
    });
    let wait = preflight::idle_wait(&SysRoot::live(), platform);
    (costs(&times), WakeCost::of(&batches, wait))
}

fn costs(times: &WakeTimes) -> WakeCosts {
    let same_cpu_ns = times.same_cpu_ns;
    // On a host with one cache, or one CPU, there is no farther.
    let shared_cache_ns = times.shared_cache_ns.or(times.separate_ns).unwrap_or(same_cpu_ns);
    let separate_ns = times.separate_ns.unwrap_or(shared_cache_ns);
    WakeCosts { same_cpu_ns, shared_cache_ns, separate_ns }
}
