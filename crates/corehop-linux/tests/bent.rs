// SPDX-License-Identifier: MIT OR Apache-2.0
//! Descriptions that contradict themselves: the fact is marked, and the host is used.

mod trees;

use std::fs;
use std::path::Path;

use corehop_plan::platform::{Affinity, Cache, Check, Fact, Platform};
use corehop_plan::units::Cpu;
use corehop_report::platform_text;
use corehop_system::discover::{SysRoot, discover};
use tempfile::TempDir;
use trees::tree;

const CPUS: &str = "sys/devices/system/cpu";
const NODES: &str = "sys/devices/system/node";

/// The description of `base` with these files written over it.
fn with(base: &TempDir, lines: &[String]) -> Platform {
    trees::write(base.path(), &lines.join("\n"));
    let found = discover(&SysRoot::at(base.path())).unwrap();
    let text = found.to_toml();
    assert_eq!(Platform::from_toml(&text).as_ref(), Ok(&found), "{text}");
    found
}

fn why<T>(fact: &Fact<T>) -> &str {
    match &fact.check {
        Check::Contradicted { why } => why,
        other => panic!("{other:?}"),
    }
}

fn last_level(platform: &Platform) -> &Cache {
    platform.caches.iter().max_by_key(|cache| cache.level).unwrap()
}

/// Eight CPUs in two packages, each CPU with a level-2 cache.
fn two_packages() -> TempDir {
    let root = TempDir::new().unwrap();
    trees::write(
        root.path(),
        &format!(
            "{CPUS}/present: 0-7\n{CPUS}/online: 0-7\n\
             {{0-7 by 4}} {CPUS}/cpu@/topology/package_cpus_list: %\n\
             {{0-7 by 1}} {CPUS}/cpu@/topology/core_cpus_list: %\n\
             {{0-7 by 1}} {CPUS}/cpu@/cache/index2/level: 2\n\
             {{0-7 by 1}} {CPUS}/cpu@/cache/index2/type: Unified\n\
             {{0-7 by 1}} {CPUS}/cpu@/cache/index2/size: 2048K\n\
             {{0-7 by 1}} {CPUS}/cpu@/cache/index2/shared_cpu_list: %\n\
             {{0-7 by 1}} {CPUS}/cpu@/cache/index3/level: 3\n\
             {{0-7 by 1}} {CPUS}/cpu@/cache/index3/type: Unified\n\
             {{0-7 by 1}} {CPUS}/cpu@/cache/index3/size: 32768K\n\
             {{0-7 by 4}} {CPUS}/cpu@/cache/index3/shared_cpu_list: %"
        ),
    );
    root
}

fn l3(groups: &str) -> String {
    format!("{{{groups}}} {CPUS}/cpu@/cache/index3/shared_cpu_list: %")
}

#[test]
fn a_last_level_that_spans_packages_is_doubted_and_drawn_as_one_box() {
    for (groups, boxes) in [("0-7 by 8", 1), ("0-3 | 4-5 | 6-7", 3), ("0-1 | 2-5 | 6-7", 3)] {
        let found = with(&two_packages(), &[l3(groups)]);
        let text = platform_text::text(&found);
        let (tree, rest) = text.split_once("\nclasses").unwrap();
        assert_eq!(tree.matches("L3 32 MiB").count(), boxes, "{text}");
        let spans = groups != "0-3 | 4-5 | 6-7";
        assert_eq!(last_level(&found).instances.is_contradicted(), spans, "{text}");
        assert_eq!(rest.contains("are in 2 packages"), spans, "{text}");
        // What is doubted makes no class of pairs; what each package has alone does.
        assert_eq!(found.affinity(Cpu(3), Cpu(4)), Affinity::Memory, "{text}");
        assert_eq!(found.affinity(Cpu(0), Cpu(1)) == Affinity::L3, !spans, "{text}");
        assert_eq!(
            rest.contains("the statement which CPUs share the L3 is contradicted"),
            spans,
            "{text}"
        );
    }
    let text = platform_text::text(&with(&two_packages(), &[l3("0-7 by 8")]));
    let outer = text.find("L3 32 MiB (contradicted)").unwrap();
    assert!(outer < text.find("package 0").unwrap(), "{text}");
}

#[test]
fn a_cache_that_spans_nodes_but_no_package_is_drawn_as_one_box_and_believed() {
    let nodes = format!(
        "{NODES}/node0/cpulist: 0-1\n{NODES}/node1/cpulist: 2-3\n{NODES}/node2/cpulist: 4-7"
    );
    let found = with(&two_packages(), &[nodes]);
    let text = platform_text::text(&found);
    assert!(!text.contains("contradicted"), "{text}");
    assert_eq!(text.matches("L3 32 MiB").count(), 2, "{text}");
}

#[test]
fn lists_of_sharing_cpus_that_exclude_each_other_are_marked_and_each_cpu_is_taken_at_its_word() {
    for (groups, expected) in [
        // CPUs 4 to 7 know a smaller group than CPUs 0 to 3 do.
        (vec![format!("{{0-3 by 4}} {CPUS}/cpu@/cache/index3/shared_cpu_list: 0-7")], "0-7 by 4"),
        // CPU 3 is in a group that does not know it.
        (vec![format!("{CPUS}/cpu3/cache/index3/shared_cpu_list: 0-2")], "0-2 | 3 | 4-7"),
        (vec![format!("{CPUS}/cpu0/cache/index3/shared_cpu_list: 0,4")], "0 | 1-3 | 4-7"),
    ] {
        let found = with(&two_packages(), &groups);
        let last = last_level(&found);
        assert_eq!(last.instances.value.to_string(), expected);
        assert!(why(&last.instances).contains("states the group"), "{groups:?}");
        assert!(platform_text::text(&found).contains("contradicted  L3, who shares it: CPU "));
    }
}

#[test]
fn caches_of_two_sizes_in_one_place_are_marked_and_belong_to_those_that_state_them() {
    let found = with(&two_packages(), &[format!("{CPUS}/cpu0/cache/index3/size: 16384K")]);
    let last: Vec<_> = found.caches.iter().filter(|cache| cache.level == 3).collect();
    let groups: Vec<_> = last.iter().map(|cache| cache.instances.value.to_string()).collect();
    assert_eq!(groups, ["0 by 1", "1-3 | 4-7"]);
    assert!(last.iter().all(|cache| cache.instances.is_contradicted()));

    let second = format!("{CPUS}/cpu0/cache/index4");
    let lines = [("level", "3"), ("type", "Unified"), ("size", "64M"), ("shared_cpu_list", "0-3")];
    let found =
        with(&two_packages(), &lines.map(|(file, text)| format!("{second}/{file}: {text}")));
    let last = last_level(&found);
    assert_eq!(last.instances.value.to_string(), "0-7 by 4");
    assert!(why(&last.instances).contains("two level-3 data caches of CPU 0"));
}

#[test]
fn a_level_and_a_size_that_no_cache_has_are_left_out() {
    let lines = [("level", "12"), ("size", "8388608K")]
        .map(|(file, text)| format!("{{0-7 by 1}} {CPUS}/cpu@/cache/index3/{file}: {text}"));
    assert_eq!(last_level(&with(&two_packages(), &lines)).level, 2);
    let ways = format!("{{0-7 by 1}} {CPUS}/cpu@/cache/index3/ways_of_associativity: 12");
    let found = with(&two_packages(), &[lines[1].clone(), ways.clone()]);
    let last = last_level(&found);
    assert_eq!(last.size, None);
    assert!(why(last.ways.as_ref().unwrap()).contains("8 GiB"));
    // No whole number of sets of 16 lines, where the number of sets is not stated.
    let line = format!("{{0-7 by 1}} {CPUS}/cpu@/cache/index3/coherency_line_size: 64");
    let size = format!("{{0-7 by 1}} {CPUS}/cpu@/cache/index3/size: 33001K");
    let found = with(&two_packages(), &[ways, line, size]);
    assert!(last_level(&found).ways.as_ref().unwrap().is_contradicted());
}

#[test]
fn a_cpu_in_two_cores_or_packages_is_left_where_it_says_it_is() {
    let found = with(&two_packages(), &[format!("{CPUS}/cpu0/topology/core_cpus_list: 0,5")]);
    assert_eq!(found.cores.value.len(), 8);
    assert!(why(&found.cores).contains("CPU 0 states the group 0,5, but CPU 5 states CPUs 5"));
    let found = with(&two_packages(), &[format!("{CPUS}/cpu7/topology/package_cpus_list: 0-7")]);
    assert_eq!(found.packages.value.to_string(), "0-3 | 4-6 | 7");
    assert!(platform_text::text(&found).contains("contradicted  packages: CPU "));
}

#[test]
fn nodes_that_overlap_are_marked_and_a_cpu_stays_in_the_first() {
    let nodes = ["0-4", "3-7", ""].iter().enumerate();
    let nodes: Vec<_> =
        nodes.map(|(id, cpus)| format!("{NODES}/node{id}/cpulist: {cpus}")).collect();
    let found = with(&two_packages(), &nodes);
    assert_eq!(found.nodes[1].cpus.value.to_string(), "5-7");
    assert_eq!(found.node_of(Cpu(4)).unwrap().id, 0);
    assert!(why(&found.nodes[1].cpus).contains("CPUs 3-4 are also in node 0"));
    assert!(platform_text::text(&found).contains("contradicted  node 1, its CPUs: "));
    assert!(!found.nodes[0].cpus.is_contradicted() && !found.nodes[2].cpus.is_contradicted());
}

#[test]
fn distances_that_cannot_be_are_marked_and_those_that_can_are_not() {
    let nodes = format!("{NODES}/node0/cpulist: 0-3\n{NODES}/node1/cpulist: 4-7");
    for (distances, odd) in [
        ("10 21", ""),
        ("10 31", ""),
        ("10", "1 distances for 2 nodes"),
        ("10 20 30", "3 distances for 2 nodes"),
        ("0 20", "to itself is 10, not 0"),
        ("10 10", "no other node is at the distance 10"),
        ("10 99999999999", "no other node is at the distance 4294967295"),
    ] {
        let lines = [
            nodes.clone(),
            format!("{NODES}/node0/distance: {distances}"),
            format!("{NODES}/node1/distance: 21 10"),
        ];
        let found = with(&two_packages(), &lines);
        let fact = found.nodes[0].distances.as_ref().unwrap();
        if odd.is_empty() {
            assert_eq!(fact.check, Check::Unchecked, "{distances}");
        } else {
            assert!(why(fact).contains(odd), "{distances}");
            assert!(platform_text::text(&found).contains(odd));
        }
    }
}

#[test]
fn cpus_that_run_are_there_though_the_kernel_does_not_call_them_present() {
    let found = with(&two_packages(), &[format!("{CPUS}/present: 0-3")]);
    assert_eq!(found.usable().to_string(), "0-7");
    assert!(why(&found.cpus).contains("CPUs 4-7 are online"));
}

#[test]
fn masks_say_what_lists_would_where_a_kernel_has_only_masks() {
    let root = two_packages();
    let cpus = root.path().join(CPUS);
    for cpu in 0..8 {
        let cpu = cpus.join(format!("cpu{cpu}"));
        fs::remove_dir_all(cpu.join("topology")).unwrap();
        for index in [2, 3] {
            fs::remove_file(cpu.join(format!("cache/index{index}/shared_cpu_list"))).unwrap();
        }
    }
    let mut lines = vec![format!("{NODES}/node0/cpumap: 00000000,000000ff")];
    for cpu in 0..8 {
        let (alone, four) = (format!("{:08x}", 1 << cpu), format!("{:x}", 15 << (cpu / 4 * 4)));
        let (topology, cache) =
            (format!("{CPUS}/cpu{cpu}/topology"), format!("{CPUS}/cpu{cpu}/cache"));
        lines.extend([
            format!("{topology}/thread_siblings: {alone}"),
            format!("{topology}/core_siblings: {four}"),
            format!("{cache}/index2/shared_cpu_map: {alone}"),
            format!("{cache}/index3/shared_cpu_map: 00000000,{four}"),
        ]);
    }
    let found = with(&root, &lines);
    assert_eq!(last_level(&found).instances.value.to_string(), "0-7 by 4");
    assert_eq!((found.packages.value.len(), found.cores.value.len()), (2, 8));
    assert_eq!(found.nodes[0].cpus.value.len(), 8);
    files_cited_exist(&found, root.path());
}

#[test]
fn a_fact_that_no_file_states_cites_none() {
    let root = two_packages();
    for cpu in 0..8 {
        let file = format!("{CPUS}/cpu{cpu}/cache/index3/shared_cpu_list");
        fs::remove_file(root.path().join(file)).unwrap();
    }
    fs::create_dir_all(root.path().join(NODES).join("node0")).unwrap();
    let found = with(&root, &[]);
    files_cited_exist(&found, root.path());
    let source = last_level(&found).instances.source.to_string();
    assert_eq!(source, "assumed: the kernel does not report which CPUs share the cache");
}

#[test]
fn every_file_that_a_fact_cites_is_there() {
    for name in [
        "smt_laptop",
        "xeon_two_sockets",
        "epyc_many_l3",
        "epyc_nps4",
        "arm_big_little",
        "guest_480_mib",
        "one_cpu",
        "no_cache_info",
        "hybrid",
    ] {
        let root = tree(name);
        files_cited_exist(&with(&root, &[]), root.path());
    }
}

/// Every path after `cited:` in the description exists below `root`; `*` stands for any one number.
fn files_cited_exist(found: &Platform, root: &Path) {
    let text = found.to_toml();
    let cited = text.lines().filter_map(|line| line.split_once("cited: ")).map(|(_, rest)| rest);
    let mut seen = 0;
    for place in cited.map(|rest| rest.split('"').next().unwrap()) {
        let paths = place.split([' ', ',']).filter(|word| word.starts_with('/'));
        for path in paths {
            let there = if path.contains('*') {
                (0..256).any(|cpu| root.join(path[1..].replace('*', &cpu.to_string())).exists())
            } else {
                root.join(&path[1..]).exists()
            };
            assert!(there, "{path} is not below the root:\n{text}");
            seen += 1;
        }
    }
    assert!(seen > 3, "{text}");
}
