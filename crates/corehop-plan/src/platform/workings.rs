// SPDX-License-Identifier: MIT OR Apache-2.0
//! Checks that the facts of a simulation agree with each other and with the caches.

use super::consistency::{ConsistencyResult, Disagreement, known, level, require};
use super::mechanism::{LatencyRow, Supplier, Traffic, Writes};
use super::{Cache, CacheKind, Found, Inclusion, Index, Platform};

/// The largest number of entries of a TLB for which the simulation allocates memory; current TLBs
/// have some thousands.
const MOST_ENTRIES: u32 = 1 << 20;

/// The largest number of stages of a service time; with more stages the distribution hardly
/// changes.
const MOST_STAGES: u32 = 1_000;

/// The largest number of banks of a node; current nodes have some hundreds.
const MOST_BANKS: u32 = 1 << 16;

/// The largest number of slices of a cache; current caches have at most a hundred.
const MOST_SLICES: u32 = 1 << 10;

/// Returns the first disagreement between facts of the platform.
pub(super) fn check(platform: &Platform) -> ConsistencyResult {
    for (place, cache) in platform.caches.iter().enumerate() {
        let fact = |name: &str| format!("cache[{place}].mechanism.{name}");
        mechanism(platform, cache, &fact)?;
        snoop_filter(cache, &fact)?;
        slices(platform, cache, &fact)?;
    }
    translation(platform)?;
    prefetchers(platform)?;
    for (place, row) in platform.latencies.iter().enumerate() {
        latency(platform, row, &|name| format!("latency[{place}].{name}"))?;
        let earlier = platform.latencies[..place].iter().position(|other| same_case(other, row));
        require(earlier.is_none(), format!("latency[{place}].time.value"), || {
            format!("latency[{}] already has a time for this case", earlier.unwrap_or(0))
        })?;
    }
    losses(platform)?;
    rows(platform)?;
    servers(platform)
}

fn rows(platform: &Platform) -> ConsistencyResult {
    let Some(rows) = &platform.memory.rows else { return Ok(()) };
    let (size, banks, line) = (rows.size.value.get(), rows.banks.value, platform.line_size().get());
    require(size > 0 && size.is_multiple_of(line), "memory.rows.size.value".to_owned(), || {
        format!("a row of {size} bytes is not a positive multiple of a line of {line}")
    })?;
    require((1..=MOST_BANKS).contains(&banks), "memory.rows.banks.value".to_owned(), || {
        format!("a node has 1 to {MOST_BANKS} banks, not {banks}")
    })
}

fn losses(platform: &Platform) -> ConsistencyResult {
    for (place, loss) in platform.losses.iter().enumerate() {
        let fact = |name: &str| format!("loss[{place}].{name}");
        require(loss.length.get() > 0, fact("length"), || "nothing is lost in no time".to_owned())?;
        require(loss.wss.get() > 0, fact("wss"), || "nothing has nothing to lose".to_owned())?;
        let shares = &loss.share.value;
        require(!shares.is_empty(), fact("share.value"), || "a quantile is missing".to_owned())?;
        let sound = shares.is_sorted() && shares.iter().all(|&share| share <= 1_000);
        require(sound, fact("share.value"), || {
            "quantiles are thousandths from 0 to 1000, ascending".to_owned()
        })?;
        let twin = platform.losses[..place]
            .iter()
            .any(|it| (it.length, it.wss) == (loss.length, loss.wss));
        require(!twin, fact("length"), || {
            format!("there is a loss in {} of {} already", loss.length, loss.wss)
        })?;
    }
    Ok(())
}

fn mechanism(
    platform: &Platform,
    cache: &Cache,
    fact: &dyn Fn(&str) -> String,
) -> ConsistencyResult {
    let mechanism = &cache.mechanism;
    if let Some(inclusion) = &mechanism.inclusion {
        let plain = inclusion.value == Inclusion::NonInclusive;
        require(plain || cache.level > 1, fact("inclusion.value"), || {
            format!(
                "a level-1 cache cannot be {}, because there is no cache inside",
                inclusion.value
            )
        })?;
    }
    if let Some(parallelism) = &mechanism.parallelism {
        require(parallelism.value >= 1_000, fact("parallelism.value"), || {
            format!(
                "{} thousandths of a miss: at least one whole miss (1000) has to be possible",
                parallelism.value
            )
        })?;
    }
    if let (Some(index), Some(sets)) = (&mechanism.index, cache.set_count()) {
        finds(&index.value, sets, fact("index.value"), "sets")?;
    }
    let through = mechanism.writes.as_ref().filter(|writes| writes.value == Writes::Through);
    let around = platform.caches.iter().filter(|outer| outer.level == cache.level + 1);
    let excluded = |outer: &Cache| {
        let inclusion = outer.mechanism.inclusion.as_ref();
        inclusion.is_some_and(|inclusion| inclusion.value.takes_victims())
    };
    let excluded = around.filter(|outer| excluded(outer)).count() > 0;
    require(through.is_none() || !excluded, fact("writes.value"), || {
        "the lines that this cache writes through would be in the exclusive cache around this cache"
            .to_owned()
    })
}

fn finds(index: &Index, count: u64, fact: String, of: &str) -> ConsistencyResult {
    require(index.fits(count), fact, || {
        format!("the index function `{index}` cannot select among {count} {of}")
    })
}

/// Checks that a snoop filter has whole sets, and that the cache around it needs a filter to know
/// the lines of the inner caches.
fn snoop_filter(cache: &Cache, fact: &dyn Fn(&str) -> String) -> ConsistencyResult {
    let Some(filter) = &cache.mechanism.snoop_filter else { return Ok(()) };
    let fact = |name: &str| fact(&format!("snoop_filter.{name}.value"));
    let inclusion = cache.mechanism.inclusion.as_ref().map(|inclusion| inclusion.value);
    let needed = inclusion != Some(Inclusion::Inclusive) && cache.level > 1;
    let (entries, ways) = (filter.entries.value, filter.ways.value);
    require(needed, fact("entries"), || {
        format!("the {} cache needs no filter to know the lines of inner caches", cache.label())
    })?;
    require(ways > 0, fact("ways"), || "a set has at least one entry".to_owned())?;
    require(entries > 0 && entries.is_multiple_of(ways), fact("entries"), || {
        format!("{entries} entries are not a whole number of sets of {ways}")
    })?;
    require(entries <= MOST_ENTRIES << 8, fact("entries"), || {
        format!("no snoop filter has more than {} entries", MOST_ENTRIES << 8)
    })?;
    let Some(index) = &filter.index else { return Ok(()) };
    finds(&index.value, u64::from(entries / ways), fact("index"), "sets")
}

/// Checks that slices belong to a last-level cache, and that the slices of a mesh fill its columns.
fn slices(platform: &Platform, cache: &Cache, fact: &dyn Fn(&str) -> String) -> ConsistencyResult {
    let Some(slices) = &cache.mechanism.slices else { return Ok(()) };
    let fact = |name: &str| fact(&format!("slices.{name}.value"));
    let further = |cpu| platform.data_caches(cpu).any(|other| other.level > cache.level);
    let last = cache.holds_data() && !cache.instances.value.cpus().iter().any(further);
    let count = slices.count.value;
    require(last, fact("count"), || {
        format!("the {} cache is not the last level: only the last level has slices", cache.label())
    })?;
    require((1..=MOST_SLICES).contains(&count), fact("count"), || {
        format!("a cache has 1 to {MOST_SLICES} slices, not {count}")
    })?;
    let columns = slices.columns.as_ref().map_or(1, |columns| columns.value);
    require((1..=count).contains(&columns), fact("columns"), || {
        format!("{count} slices do not fill {columns} columns")
    })?;
    let Some(index) = &slices.index else { return Ok(()) };
    finds(&index.value, u64::from(count), fact("index"), "slices")
}

fn translation(platform: &Platform) -> ConsistencyResult {
    for (place, tlb) in platform.tlbs.iter().enumerate() {
        let fact = |name: &str| format!("tlb[{place}].{name}");
        level(tlb.level, fact("level"))?;
        let entries = tlb.entries.value;
        require(entries > 0, fact("entries.value"), || "a TLB has an entry".to_owned())?;
        require(entries <= MOST_ENTRIES, fact("entries.value"), || {
            format!("no TLB has more than {MOST_ENTRIES} entries")
        })?;
        if let Some(ways) = &tlb.ways {
            let even = ways.value > 0 && entries.is_multiple_of(ways.value);
            require(even, fact("ways.value"), || {
                format!("{entries} entries are not a whole number of sets of {}", ways.value)
            })?;
        }
        let odd = tlb.pages.value.iter().find(|page| !page.get().is_power_of_two());
        require(odd.is_none() && !tlb.pages.value.is_empty(), fact("pages.value"), || {
            odd.map_or("a page size is missing".to_owned(), |page| {
                format!("a page of {page} is not a power of two")
            })
        })?;
        let twin = platform.tlbs[..place].iter().any(|other| {
            let both = |kind| other.kind == kind || tlb.kind == kind;
            let same = other.kind == tlb.kind || both(CacheKind::Unified);
            let pages = &other.pages.value;
            other.level == tlb.level && same && pages.iter().any(|p| tlb.pages.value.contains(p))
        });
        require(!twin, fact("pages.value"), || {
            format!("level {} already has a TLB for these pages", tlb.level)
        })?;
    }
    Ok(())
}

fn prefetchers(platform: &Platform) -> ConsistencyResult {
    for (place, prefetcher) in platform.prefetchers.iter().enumerate() {
        let level = prefetcher.level;
        let fills = |cache: &&Cache| cache.level == level && cache.holds_data();
        let cache = platform.caches.iter().find(fills);
        let fact = format!("prefetcher[{place}].level");
        require(cache.is_some(), fact.clone(), || {
            format!("there is no level-{level} cache for data")
        })?;
        let inclusion = cache.and_then(|cache| cache.mechanism.inclusion.as_ref());
        let exclusive = inclusion.is_some_and(|inclusion| inclusion.value.takes_victims());
        require(!exclusive, fact, || {
            format!(
                "the level-{level} cache is exclusive, so it receives only lines that inner caches evict"
            )
        })?;
    }
    Ok(())
}

fn latency(
    platform: &Platform,
    row: &LatencyRow,
    fact: &dyn Fn(&str) -> String,
) -> ConsistencyResult {
    let peer = row.supplier == Supplier::Peer;
    require(peer || row.distance.is_none(), fact("distance"), || {
        format!("only a peer has a distance; the supplier is `{}`", row.supplier)
    })?;
    let memory = row.supplier == Supplier::Memory;
    require(!memory || row.level.is_none(), fact("level"), || "memory has no level".to_owned())?;
    require(!memory || row.state != Some(Found::Dirty), fact("state"), || {
        "memory cannot have a line newer than memory".to_owned()
    })?;
    let Some(level) = row.level else { return Ok(()) };
    require(platform.caches.iter().any(|cache| cache.level == level), fact("level"), || {
        format!("there is no level-{level} cache")
    })
}

fn same_case(a: &LatencyRow, b: &LatencyRow) -> bool {
    let case =
        |it: &LatencyRow| (it.supplier, it.level, it.state, it.distance, it.home, it.request);
    case(a) == case(b)
}

fn servers(platform: &Platform) -> ConsistencyResult {
    for (place, server) in platform.servers.iter().enumerate() {
        let fact = |name: &str| format!("server[{place}].{name}");
        known(platform, fact("instances.value"), &server.instances.value.cpus())?;
        if let Some(cpu) = server.instances.value.overlap() {
            let problem = format!("{cpu} is in two groups");
            return Err(Disagreement { fact: fact("instances.value"), problem });
        }
        require(!server.carries.value.is_empty(), fact("carries.value"), || {
            "no traffic passes through the server".to_owned()
        })?;
        let carries = server.carries.value.contains(&Traffic::Transfer);
        require(server.distances.is_none() || carries, fact("distances.value"), || {
            "the server carries no transfers that could have a distance".to_owned()
        })?;
        if let Some(drift) = &server.drift {
            let stages = drift.stages.value;
            require((1..=MOST_STAGES).contains(&stages), fact("drift.stages.value"), || {
                format!("{stages} stages: expected 1 to {MOST_STAGES}")
            })?;
        }
        let twin = platform.servers[..place].iter().any(|other| other.name == server.name);
        require(!twin, fact("name"), || format!("two servers are called {}", server.name))?;
    }
    Ok(())
}
