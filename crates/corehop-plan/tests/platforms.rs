// SPDX-License-Identifier: MIT OR Apache-2.0
//! Platform files: what they say about CPU pairs, and which slips are refused.

use corehop_plan::platform::{
    Affinity, Check, CpuGroups, Fact, Hertz, Latency, MemoryArchitecture, Platform, PlatformError,
};
use corehop_plan::units::{Bytes, Cpu, CpuList};
use proptest::prelude::*;

/// Four packages of six cores; a level-2 cache per two cores, a level-3 cache per package.
const L7455: &str = r#"
schema = 1
id = "xeon_l7455"
name = "Intel Xeon L7455, four packages"
cpus = { value = "0-23", source = "cited: OSPERT 2010, section 4" }
packages = { value = "0-23 by 6", source = "cited: OSPERT 2010, section 4" }
cores = { value = "0-23 by 1", source = "cited: OSPERT 2010, section 4" }

[clock]
core = { value = "2.13 GHz", source = "cited: OSPERT 2010, section 4" }

[[cache]]
level = 1
kind = "data"
size = { value = "32 KiB", source = "cited: OSPERT 2010, section 4" }
ways = { value = 8, source = "cited: OSPERT 2010, section 4" }
line = { value = "64 B", source = "cited: OSPERT 2010, section 4" }
instances = { value = "0-23 by 1", source = "cited: OSPERT 2010, section 4" }
latency = { value = "3 cycles", source = "assumed: as others of its family" }

[[cache]]
level = 2
kind = "unified"
size = { value = "3 MiB", source = "cited: OSPERT 2010, section 4" }
ways = { value = 12, source = "cited: OSPERT 2010, section 4" }
line = { value = "64 B", source = "cited: OSPERT 2010, section 4" }
instances = { value = "0-23 by 2", source = "cited: OSPERT 2010, section 4" }

[[cache]]
level = 3
kind = "unified"
size = { value = "12 MiB", source = "cited: OSPERT 2010, section 4" }
ways = { value = 12, source = "cited: OSPERT 2010, section 4" }
line = { value = "64 B", source = "cited: OSPERT 2010, section 4" }
sets = { value = 16384, source = "cited: OSPERT 2010, section 4" }
instances = { value = "0-23 by 6", source = "cited: OSPERT 2010, section 4" }
"#;

fn l7455() -> Platform {
    Platform::from_toml(L7455).unwrap()
}

fn cpus(text: &str) -> CpuList {
    text.parse().unwrap()
}

#[test]
fn the_class_of_a_pair_is_the_innermost_cache_for_data_that_both_share() {
    let platform = l7455();
    for (to, affinity) in [
        (0, Affinity::SameCpu),
        (1, Affinity::L2),
        (2, Affinity::L3),
        (5, Affinity::L3),
        (6, Affinity::Memory),
        (23, Affinity::Memory),
        (99, Affinity::Memory),
    ] {
        assert_eq!(platform.affinity(Cpu(0), Cpu(to)), affinity, "CPU {to}");
        assert_eq!(platform.affinity(Cpu(to), Cpu(0)), affinity, "CPU {to}");
    }
    let expected = [
        (Affinity::SameCpu, cpus("7")),
        (Affinity::L2, cpus("6")),
        (Affinity::L3, cpus("8-11")),
        (Affinity::Memory, cpus("0-5,12-23")),
    ];
    assert_eq!(platform.classes(Cpu(7)), expected);
    assert_eq!(platform.memory_architecture(), MemoryArchitecture::Uma);
}

#[test]
fn a_shared_instruction_cache_does_not_make_two_cpus_near() {
    let text = L7455.replacen("kind = \"unified\"", "kind = \"instruction\"", 1);
    let platform = Platform::from_toml(&text).unwrap();
    assert_eq!(platform.affinity(Cpu(0), Cpu(1)), Affinity::L3);
    assert_eq!(platform.cache_sizes().len(), 2);
}

#[test]
fn a_class_without_a_pair_is_missing_and_says_why() {
    let missing = l7455().missing_classes();
    assert_eq!(missing.len(), 1);
    assert_eq!(missing[0].affinity, Affinity::Smt);
    assert_eq!(missing[0].why, "no two CPUs share a core");

    let mut platform = l7455();
    platform.allowed = Some(Fact::cited(cpus("0,2,6"), "a cpuset"));
    platform.online = Some(Fact::cited(cpus("0-5,7-23"), "sysfs"));
    let whys: Vec<_> = platform.missing_classes().into_iter().map(|class| class.why).collect();
    assert_eq!(
        whys,
        [
            "no two CPUs share a core",
            "no two usable CPUs of different cores share a level-2 cache; CPU 1 is not allowed to us",
            "every two usable CPUs share a cache; CPU 6 is offline",
        ]
    );
    platform.allowed = Some(Fact::cited(cpus("3"), "a cpuset"));
    assert_eq!(platform.missing_classes().len(), 4);
    assert_eq!(platform.usable(), cpus("3"));
}

#[test]
fn sizes_are_those_of_caches_that_hold_data_in_ascending_order() {
    let platform = l7455();
    let sizes = [(1, Bytes::from_kib(32)), (2, Bytes::from_mib(3)), (3, Bytes::from_mib(12))];
    assert_eq!(platform.cache_sizes(), sizes);
    assert_eq!(platform.largest_private_cache(), Some(Bytes::from_kib(32)));
    assert_eq!(platform.llc_size(), Some(Bytes::from_mib(12)));
    assert_eq!(platform.line_size(), Bytes::new(64));
    assert_eq!(platform.caches[1].set_count(), Some(4096));
}

#[test]
fn a_platform_survives_writing_and_reading_one_line_per_fact() {
    let mut platform = l7455();
    platform.caches[2].size.as_mut().unwrap().check =
        Check::Contradicted { why: "the plateau ends at \"8 MiB\"".to_owned() };
    platform.cores.check = Check::Observed { how: String::new() };
    let text = platform.to_toml();
    assert_eq!(Platform::from_toml(&text).as_ref(), Ok(&platform), "{text}");
    let line = r#"size = { value = "3 MiB", source = "cited: OSPERT 2010, section 4" }"#;
    assert!(text.lines().any(|other| other == line), "{text}");
    let json = serde_json::to_string(&platform).unwrap();
    assert_eq!(serde_json::from_str::<Platform>(&json).unwrap(), platform);
}

#[test]
fn a_slip_is_refused_with_its_line_and_its_key() {
    for (from, to, expected) in [
        ("schema = 1", "schema = 2", "line 2, `schema`"),
        ("schema = 1", "schema 1", "line 2"),
        ("\"xeon_l7455\"", "\"xeon-l7455\"", "line 3, `id`"),
        (
            "\"0-23 by 6\"",
            "\"0-17 by 6\"",
            "line 6, `packages.value` contradicts the rest of the platform: CPU 18",
        ),
        ("\"0-23 by 6\"", "\"0-23 by 5\"", "line 6, `packages.value`: `0-23 by 5`"),
        (
            "\"0-23 by 1\"",
            "[\"0-5\", \"5-23\"]",
            "line 7, `cores.value` contradicts the rest of the platform: CPU 5",
        ),
        (
            "\"0-23 by 1\"",
            "\"0-23 by 8\"",
            "line 7, `cores.value` contradicts the rest of the platform: CPUs 0-7",
        ),
        ("value = \"2.13 GHz\", ", "", "line 10, `clock.core`"),
        ("\"32 KiB\"", "\"32 KB\"", "line 15, `cache[0].size.value`"),
        ("\"32 KiB\"", "32", "line 15, `cache[0].size.value`"),
        ("\"assumed: as", "\"guessed: as", "line 19, `cache[0].latency.source`"),
        ("\"3 MiB\"", "\"100000 B\"", "line 24, `cache[1].size.value`"),
        ("ways = { value = 12", "wayz = { value = 12", "line 25, `cache[1].wayz`"),
        (
            "\"0-23 by 2\"",
            "\"0-25 by 2\"",
            "line 27, `cache[1].instances.value` contradicts the rest of the platform: CPU 24",
        ),
        ("\"0-23 by 2\"", "\"0-23 by 4\"", "line 27, `cache[1].instances.value`"),
        (
            "16384",
            "12288",
            "line 35, `cache[2].sets.value` contradicts the rest of the platform: 12288 sets",
        ),
        (
            "16384",
            "32768",
            "line 35, `cache[2].sets.value` contradicts the rest of the platform: 32768 sets",
        ),
        (
            "level = 3",
            "level = 2",
            "line 36, `cache[2].instances.value` contradicts the rest of the platform: CPUs 0-23 have two L2",
        ),
    ] {
        assert!(L7455.contains(from), "{from}");
        let error = Platform::from_toml(&L7455.replacen(from, to, 1)).unwrap_err().to_string();
        assert!(error.starts_with(expected), "{from} -> {to}\n{error}\n{expected}");
    }
}

#[test]
fn every_file_of_the_library_is_known_by_its_id_and_says_what_the_papers_say() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../platforms");
    let mut files: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    files.sort();
    let names: Vec<_> = Platform::names().map(|id| format!("{id}.toml")).collect();
    assert_eq!(files, names);
    for id in Platform::names() {
        assert_eq!(Platform::named(id).unwrap().unwrap().id, id);
    }
    let x5650 = Platform::named("xeon_x5650").unwrap().unwrap();
    assert_eq!(x5650.memory_architecture(), MemoryArchitecture::Numa);
    assert_eq!(x5650.affinity(Cpu(0), Cpu(5)), Affinity::L3);
    assert_eq!(x5650.affinity(Cpu(0), Cpu(6)), Affinity::Memory);
    let l7455 = Platform::named("xeon_l7455").unwrap().unwrap();
    assert_eq!(l7455.memory_architecture(), MemoryArchitecture::Uma);
    assert!(Platform::named("abacus").is_none());
}

#[test]
fn a_fact_marked_as_contradicted_is_not_held_against_the_others() {
    let text = L7455.replacen(
        "{ value = \"3 MiB\", ",
        "{ value = \"100000 B\", check = \"contradicted: by the number of sets\", ",
        1,
    );
    assert!(Platform::from_toml(&text).is_ok());
}

#[test]
fn nodes_make_a_machine_numa_and_must_agree_with_each_other() {
    let node = |id: u32, cpus: &str, distances: &str| {
        format!(
            "[[node]]\nid = {id}\ncpus = {{ value = \"{cpus}\", source = \"assumed\" }}\n\
             distances = {{ value = {distances}, source = \"assumed\" }}\n"
        )
    };
    let with = |nodes: [String; 2]| Platform::from_toml(&format!("{L7455}{}", nodes.concat()));
    let two = with([node(0, "0-11", "[10, 21]"), node(1, "12-23", "[21, 10]")]).unwrap();
    assert_eq!(two.memory_architecture(), MemoryArchitecture::Numa);
    assert_eq!(two.node_of(Cpu(13)).unwrap().id, 1);
    for nodes in [
        [node(0, "0-11", "[10]"), node(1, "12-23", "[10]")],
        [node(0, "0-12", "[10, 21]"), node(1, "12-23", "[21, 10]")],
        [node(0, "0-11", "[10, 21]"), node(0, "12-23", "[21, 10]")],
    ] {
        assert!(matches!(with(nodes), Err(PlatformError::Contradiction { .. })));
    }
}

#[test]
fn a_package_of_two_nodes_is_numa_and_a_node_without_cpus_is_not() {
    let one_package = L7455.replacen("\"0-23 by 6\"", "\"0-23 by 24\"", 1);
    let with = |second: &str| {
        let node = |id: u32, cpus: &str| {
            format!("[[node]]\nid = {id}\ncpus = {{ value = \"{cpus}\", source = \"assumed\" }}\n")
        };
        let text = format!("{one_package}{}{}", node(0, "0-11"), node(1, second));
        Platform::from_toml(&text).unwrap().memory_architecture()
    };
    assert_eq!(with("12-23"), MemoryArchitecture::Numa);
    assert_eq!(with(""), MemoryArchitecture::SingleSocket);
}

#[test]
fn a_latency_in_cycles_is_time_on_a_core_of_known_frequency() {
    let core: Hertz = "2.66 GHz".parse().unwrap();
    let l3: Latency = "42 cycles".parse().unwrap();
    assert_eq!(l3.picos(core), 15_789);
    assert_eq!("15.8 ns".parse::<Latency>().unwrap().picos(core), 15_800);
    assert_eq!(Latency::Picos(1_504).to_string(), "1.504 ns");
    assert_eq!("4.25 cycles".parse::<Latency>().unwrap().to_string(), "4.25 cycles");
    assert_eq!(core.to_string(), "2.66 GHz");
    assert!("42".parse::<Latency>().is_err());
}

#[test]
fn a_group_straddles_where_even_one_of_its_cpus_lies_elsewhere() {
    let groups = |text: &[&str]| CpuGroups::new(text.iter().map(|group| cpus(group)));
    let outer = groups(&["0", "1-3"]);
    assert_eq!(groups(&["0-1", "2-3"]).straddling(&outer), Some(&cpus("0-1")));
    assert_eq!(groups(&["0", "1", "2-3"]).straddling(&outer), None);
    // CPUs that the outer level does not know do not count.
    assert_eq!(groups(&["8-9"]).straddling(&outer), None);
}

#[test]
fn regular_groups_are_written_short() {
    for (groups, text) in [
        (vec!["0-1", "2-3"], "0-3 by 2"),
        (vec!["0,12", "1,13", "2,14"], "0-2,12-14 by 2 stride 3"),
        (vec!["0,4", "1,5", "2,6", "3,7", "8,12", "9,13", "10,14", "11,15"], "0-15 by 2 stride 4"),
        (vec!["0", "2"], "0,2 by 1"),
        (vec!["0-2", "3"], "0-2 | 3"),
    ] {
        let groups = CpuGroups::new(groups.into_iter().map(cpus));
        assert_eq!(groups.to_string(), text);
        if text.contains("by") {
            assert_eq!(text.parse(), Ok(groups));
        }
    }
    for text in ["0-3", "0-3 by 0", "0-3 by 3", "0-3 by 2 stride 0", "0-3 by 2 stride 3", "x by 1"]
    {
        assert!(text.parse::<CpuGroups>().is_err(), "{text}");
    }
}

proptest! {
    #[test]
    fn any_partition_of_cpus_survives_writing_and_reading(
        marks in prop::collection::vec(0u32..5, 1..40),
    ) {
        let group = |mark| {
            let of = marks.iter().enumerate().filter(|&(_, &other)| other == mark);
            CpuList::new(of.map(|(cpu, _)| Cpu(cpu as u32)))
        };
        let groups = CpuGroups::new((0..5).map(group));
        let text = serde_json::to_string(&groups).unwrap();
        prop_assert_eq!(serde_json::from_str::<CpuGroups>(&text).unwrap(), groups);
    }

    #[test]
    fn a_pair_has_one_class_in_both_directions_and_classes_cover_the_usable_cpus(
        from in 0u32..24,
        seen in 1u32..(1 << 24),
    ) {
        let mut platform = l7455();
        let some = CpuList::new((0..24).filter(|cpu| seen >> cpu & 1 == 1).map(Cpu));
        platform.allowed = Some(Fact::assumed(some.clone(), ""));
        let classes = platform.classes(Cpu(from));
        let covered = CpuList::new(classes.iter().flat_map(|(_, cpus)| cpus.iter()));
        prop_assert_eq!(covered, some);
        for (affinity, cpus) in classes {
            for to in cpus.iter() {
                prop_assert_eq!(platform.affinity(to, Cpu(from)), affinity);
            }
        }
    }

    #[test]
    fn a_latency_and_a_frequency_survive_printing(
        thousandths in 0u64..10_000_000_000,
        hertz in 0u64..10_000_000_000,
    ) {
        for latency in [Latency::MilliCycles(thousandths), Latency::Picos(thousandths)] {
            prop_assert_eq!(latency.to_string().parse(), Ok(latency));
        }
        let hertz = Hertz::new(hertz);
        prop_assert_eq!(hertz.to_string().parse(), Ok(hertz));
    }
}
