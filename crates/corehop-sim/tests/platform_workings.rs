// SPDX-License-Identifier: MIT OR Apache-2.0
//! The parts of a platform file for a simulation: they are read, written, and refused where they contradict
//! each other.

use corehop_plan::platform::{Inclusion, Index, Platform, Replacement};
use corehop_sim::{Hierarchy, Spec, SpecError};

const MACHINE: &str = r#"
schema = 1
id = "toy"
name = "A toy: two packages of two cores"
cpus = { value = "0-3", source = "assumed" }
packages = { value = "0-3 by 2", source = "assumed" }
cores = { value = "0-3 by 1", source = "assumed" }

[[cache]]
level = 1
kind = "data"
size = { value = "4 KiB", source = "assumed" }
ways = { value = 4, source = "assumed" }
line = { value = "64 B", source = "assumed" }
instances = { value = "0-3 by 1", source = "assumed" }
mechanism.replacement = { value = "tree_plru", source = "assumed" }
mechanism.writes = { value = "write_through", source = "assumed" }

[[cache]]
level = 2
kind = "unified"
size = { value = "48 KiB", source = "assumed" }
ways = { value = 4, source = "assumed" }
line = { value = "64 B", source = "assumed" }
instances = { value = "0-3 by 2", source = "assumed" }
mechanism.inclusion = { value = "inclusive", source = "assumed" }
mechanism.index = { value = "fold 9", source = "assumed" }

[coherence]
protocol = { value = "mesif", source = "assumed" }
lookup = { value = "directory", source = "assumed" }

[core]
outstanding = { value = 10, source = "assumed" }

[[tlb]]
level = 1
kind = "data"
entries = { value = 64, source = "assumed" }
ways = { value = 4, source = "assumed" }
pages = { value = ["4 KiB"], source = "assumed" }
penalty = { value = "7 cycles", source = "assumed" }

[[prefetcher]]
kind = "stream"
level = 2
on = { value = true, source = "assumed" }
trackers = { value = 16, source = "assumed" }

[[latency]]
supplier = "peer"
level = 1
state = "dirty"
distance = "shared_l3"
time = { value = "81 cycles", source = "fitted: A.4" }

[[latency]]
supplier = "memory"
home = "remote"
time = { value = "312 cycles", source = "cited: 5.3" }

[[server]]
name = "bus"
instances = { value = "0-3 by 4", source = "assumed" }
carries = { value = ["memory_read", "write_back"], source = "assumed" }
service = { value = "8 ns", source = "assumed" }

[[loss]]
length = "2 ms"
wss = "32 KiB"
share = { value = [0, 100, 1000], source = "measured" }
"#;

#[test]
fn every_fact_for_a_simulation_survives_writing_and_reading() {
    let platform = Platform::from_toml(MACHINE).unwrap();
    let cache = &platform.caches[1].mechanism;
    assert_eq!(cache.inclusion.as_ref().unwrap().value, Inclusion::Inclusive);
    assert_eq!(cache.index.as_ref().unwrap().value, Index::Fold(9));
    assert_eq!(platform.servers[0].service.value.to_string(), "8 ns");
    let again = Platform::from_toml(&platform.to_toml());
    assert_eq!(again.as_ref(), Ok(&platform), "{}", platform.to_toml());
    let spec = Spec::from_platform(&platform).unwrap();
    assert_eq!((spec.caches[1].sets, spec.caches[0].replacement), (192, Replacement::TreePlru));
    assert!(spec.caches[0].write_through);
    assert!(Hierarchy::new(&spec, 0).is_ok());
}

#[test]
fn a_contradiction_is_refused_with_its_line_and_its_key() {
    for (from, to, expected) in [
        (
            "level = 2\nkind = \"unified\"",
            "level = 4294967295\nkind = \"unified\"",
            "line 20, `cache[1].level`",
        ),
        (
            "entries = { value = 64,",
            "entries = { value = 2147483648,",
            "line 39, `tlb[0].entries.value`",
        ),
        ("\"fold 9\"", "\"fold 7\"", "line 27, `cache[1].mechanism.index.value` contradicts"),
        (
            "\"fold 9\"",
            "\"hash\"",
            "line 27, `cache[1].mechanism.index.value`: `hash` is not an index",
        ),
        (
            "\"inclusive\"",
            "\"exclusive\"",
            "line 17, `cache[0].mechanism.writes.value` contradicts",
        ),
        (
            "mechanism.replacement = { value = \"tree_plru\"",
            "mechanism.inclusion = { value = \"inclusive\"",
            "line 16, `cache[0].mechanism.inclusion.value`",
        ),
        ("\"tree_plru\"", "\"plru\"", "line 16, `cache[0].mechanism.replacement.value`"),
        (
            "ways = { value = 4, source = \"assumed\" }\npages",
            "ways = { value = 5, source = \"assumed\" }\npages",
            "line 40, `tlb[0].ways.value` contradicts",
        ),
        ("[\"4 KiB\"]", "[\"4 KiB\", \"5 KiB\"]", "line 41, `tlb[0].pages.value` contradicts"),
        ("level = 2\non", "level = 3\non", "line 46, `prefetcher[0].level` contradicts"),
        (
            "supplier = \"memory\"\n",
            "supplier = \"memory\"\nlevel = 1\n",
            "line 59, `latency[1].level` contradicts",
        ),
        (
            "supplier = \"memory\"\n",
            "supplier = \"memory\"\nstate = \"dirty\"\n",
            "line 59, `latency[1].state` contradicts",
        ),
        ("supplier = \"peer\"", "supplier = \"own\"", "line 54, `latency[0].distance` contradicts"),
        ("level = 1\nstate", "level = 4\nstate", "line 52, `latency[0].level` contradicts"),
        ("\"0-3 by 4\"", "\"0-7 by 4\"", "line 64, `server[0].instances.value` contradicts"),
        (
            "[\"memory_read\", \"write_back\"]",
            "[]",
            "line 65, `server[0].carries.value` contradicts",
        ),
        (
            "service = { value = \"8 ns\"",
            "distances = { value = [\"shared_l3\"], source = \"assumed\" }\nservice = { value = \"8 ns\"",
            "line 66, `server[0].distances.value` contradicts",
        ),
        ("[0, 100, 1000]", "[0, 100, 1001]", "line 71, `loss[0].share.value` contradicts"),
        ("[0, 100, 1000]", "[100, 0]", "line 71, `loss[0].share.value` contradicts"),
        ("[0, 100, 1000]", "[]", "line 71, `loss[0].share.value` contradicts"),
        ("length = \"2 ms\"", "length = \"0 ms\"", "line 69, `loss[0].length` contradicts"),
    ] {
        assert!(MACHINE.contains(from), "{from}");
        let error = Platform::from_toml(&MACHINE.replacen(from, to, 1)).unwrap_err().to_string();
        assert!(error.starts_with(expected), "{from} -> {to}\n{error}\n{expected}");
    }
}

/// A last level in slices, with a directory of what is inside.
const LAST_LEVEL: &str = r#"
[[cache]]
level = 3
kind = "unified"
size = { value = "128 KiB", source = "assumed" }
ways = { value = 8, source = "assumed" }
line = { value = "64 B", source = "assumed" }
instances = { value = "0-3 by 2", source = "assumed" }
mechanism.inclusion = { value = "non_inclusive", source = "assumed" }
[cache.mechanism.snoop_filter]
entries = { value = 96, source = "assumed" }
ways = { value = 6, source = "assumed" }
replacement = { value = "tree_plru", source = "assumed" }
index = { value = "fold 4", source = "assumed" }
[cache.mechanism.slices]
count = { value = 4, source = "assumed" }
index = { value = "parity 0x3,0x4", source = "assumed" }
hop = { value = "2 ns", source = "assumed" }
columns = { value = 2, source = "assumed" }
"#;

#[test]
fn a_snoop_filter_and_slices_survive_writing_and_reading() {
    let platform = Platform::from_toml(&format!("{MACHINE}{LAST_LEVEL}")).unwrap();
    let again = Platform::from_toml(&platform.to_toml());
    assert_eq!(again.as_ref(), Ok(&platform), "{}", platform.to_toml());
    let spec = Spec::from_platform(&platform).unwrap();
    let filter = spec.caches[2].snoop_filter.as_ref().unwrap();
    assert_eq!((filter.sets, filter.ways), (16, 6));
    assert_eq!((&filter.index, filter.replacement), (&Index::Fold(4), Replacement::TreePlru));
    let slices = platform.slices(platform.cpus.value.first().unwrap()).unwrap();
    assert_eq!((slices.count.value, slices.hop.value.to_string()), (4, "2 ns".to_owned()));
}

#[test]
fn a_snoop_filter_or_slices_that_cannot_be_are_refused_by_their_key() {
    for (from, to, key, why) in [
        ("non_inclusive", "inclusive", "snoop_filter.entries", "needs no filter to know the lines"),
        ("value = 96", "value = 97", "snoop_filter.entries", "97 entries are not a whole number"),
        ("value = 96", "value = 0", "snoop_filter.entries", "0 entries"),
        ("value = 6,", "value = 0,", "snoop_filter.ways", "a set has at least one entry"),
        ("fold 4", "fold 3", "snoop_filter.index", "`fold 3` cannot select among 16 sets"),
        ("count = { value = 4", "count = { value = 0", "slices.count", "not 0"),
        (
            "count = { value = 4",
            "count = { value = 5",
            "slices.index",
            "cannot select among 5 slices",
        ),
        (
            "columns = { value = 2",
            "columns = { value = 0",
            "slices.columns",
            "do not fill 0 columns",
        ),
        (
            "columns = { value = 2",
            "columns = { value = 9",
            "slices.columns",
            "do not fill 9 columns",
        ),
    ] {
        assert!(LAST_LEVEL.contains(from), "{from}");
        let text = format!("{MACHINE}{}", LAST_LEVEL.replacen(from, to, 1));
        let error = Platform::from_toml(&text).unwrap_err().to_string();
        let key = format!("`cache[2].mechanism.{key}.value` contradicts");
        assert!(error.contains(&key) && error.contains(why), "{from} -> {to}\n{error}");
    }
    let inner = "mechanism.slices.count = { value = 2, source = \"assumed\" }\n\
                 mechanism.slices.hop = { value = \"1 ns\", source = \"assumed\" }\n\
                 mechanism.index = { value = \"fold 9\"";
    let text = MACHINE.replacen("mechanism.index = { value = \"fold 9\"", inner, 1) + LAST_LEVEL;
    let error = Platform::from_toml(&text).unwrap_err().to_string();
    assert!(error.contains("`cache[1].mechanism.slices.count.value`"), "{error}");
    assert!(error.contains("not the last level"), "{error}");
}

#[test]
fn what_cannot_be_simulated_is_named() {
    let wide = MACHINE.replacen("ways = { value = 4", "ways = { value = 64", 1);
    let platform = Platform::from_toml(&wide).unwrap();
    let error = Spec::from_platform(&platform).unwrap_err();
    assert!(matches!(&error, SpecError::Unsupported { fact, .. } if fact == "cache[0].ways"));
    assert_eq!(error.to_string(), "`cache[0].ways`: 64 ways; corehop simulates 1 to 32 ways");
}

#[test]
fn every_replacement_policy_is_read_written_and_simulated() {
    for &policy in Replacement::ALL {
        let text = MACHINE.replace("tree_plru", policy.word());
        let platform = Platform::from_toml(&text).unwrap();
        assert_eq!(Platform::from_toml(&platform.to_toml()).as_ref(), Ok(&platform), "{policy}");
        let spec = Spec::from_platform(&platform).unwrap();
        assert_eq!(spec.caches[0].replacement, policy);
        assert!(Hierarchy::new(&spec, 0).is_ok());
        // Some of the sets of a cache would decide a duel otherwise than all of them.
        let mut alone = spec.clone();
        alone.caches.truncate(1);
        assert_eq!(alone.sampled(2).is_some(), policy != Replacement::Drrip, "{policy}");
    }
}
