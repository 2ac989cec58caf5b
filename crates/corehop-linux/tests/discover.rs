// SPDX-License-Identifier: MIT OR Apache-2.0
//! Discovery on machines that are written out as files.

mod trees;

use std::fs;

use corehop_plan::platform::tree::TopologyDomain;
use corehop_plan::platform::{Affinity, CacheKind, MemoryArchitecture, Platform};
use corehop_plan::units::{Bytes, Cpu, CpuList};
use corehop_system::discover::{DiscoverError, SysRoot, discover};
use tempfile::TempDir;
use trees::tree;

const MACHINES: [&str; 9] = [
    "smt_laptop",
    "xeon_two_sockets",
    "epyc_many_l3",
    "epyc_nps4",
    "arm_big_little",
    "guest_480_mib",
    "one_cpu",
    "no_cache_info",
    "hybrid",
];

fn found(name: &str) -> Platform {
    let root = tree(name);
    discover(&SysRoot::at(root.path())).unwrap()
}

fn classes(platform: &Platform, from: u32) -> Vec<(Affinity, String)> {
    let classes = platform.classes(Cpu(from)).into_iter();
    classes.map(|(affinity, cpus)| (affinity, cpus.to_string())).collect()
}

fn named(pairs: &[(Affinity, &str)]) -> Vec<(Affinity, String)> {
    pairs.iter().map(|&(affinity, cpus)| (affinity, cpus.to_owned())).collect()
}

fn missing(platform: &Platform) -> Vec<Affinity> {
    platform.missing_classes().into_iter().map(|class| class.affinity).collect()
}

fn cpus(text: &str) -> CpuList {
    text.parse().unwrap()
}

#[test]
fn every_machine_found_can_be_written_to_a_file_and_read_back() {
    for name in MACHINES {
        let platform = found(name);
        let text = platform.to_toml();
        assert_eq!(Platform::from_toml(&text).as_ref(), Ok(&platform), "{name}\n{text}");
    }
}

#[test]
fn on_a_laptop_siblings_share_a_core_and_all_cores_a_level_3_cache() {
    let laptop = found("smt_laptop");
    let expected = [(Affinity::SameCpu, "1"), (Affinity::Smt, "5"), (Affinity::L3, "0,2-4,6-7")];
    assert_eq!(classes(&laptop, 1), named(&expected));
    assert_eq!(missing(&laptop), [Affinity::L2, Affinity::Memory]);
    assert_eq!(laptop.memory_architecture(), MemoryArchitecture::SingleSocket);
    assert_eq!(
        laptop.cache_sizes(),
        [(1, Bytes::from_kib(32)), (2, Bytes::from_kib(256)), (3, Bytes::from_mib(8))]
    );
    assert_eq!(laptop.largest_private_cache(), Some(Bytes::from_kib(256)));
    assert_eq!(laptop.id, "intel_core_i7_8565u_8_cpus");
    assert_eq!(laptop.clock.core.unwrap().value.to_string(), "1.8 GHz");
    assert!(laptop.clock.invariant.unwrap().value && laptop.hypervisor.is_none());
    assert_eq!(laptop.pages.base.unwrap().value, Bytes::from_kib(4));
    let huge = laptop.pages.huge.unwrap().value;
    assert_eq!(huge, [Bytes::from_mib(2), Bytes::from_mib(1024)]);
    assert_eq!(laptop.pages.transparent.unwrap().value, "madvise");
    assert!(laptop.core_kinds.is_empty());
}

#[test]
fn two_packages_with_a_node_each_are_numa() {
    let xeon = found("xeon_two_sockets");
    assert_eq!(xeon.memory_architecture(), MemoryArchitecture::Numa);
    assert_eq!(xeon.packages.value.len(), 2);
    let expected = [
        (Affinity::SameCpu, "12"),
        (Affinity::Smt, "36"),
        (Affinity::L3, "13-23,37-47"),
        (Affinity::Memory, "0-11,24-35"),
    ];
    assert_eq!(classes(&xeon, 12), named(&expected));
    assert_eq!(xeon.nodes[1].distances.as_ref().unwrap().value, [21, 10]);
    assert_eq!(xeon.nodes[1].memory.as_ref().unwrap().value, Bytes::from_kib(66_059_000));
    assert_eq!(xeon.llc_size(), Some(Bytes::from_mib(30)));
    assert_eq!(missing(&xeon), [Affinity::L2]);
}

#[test]
fn several_level_3_caches_in_a_package_make_memory_migrations_inside_it() {
    let epyc = found("epyc_many_l3");
    let l3 = epyc.caches.iter().find(|cache| cache.level == 3).unwrap();
    assert_eq!((l3.instances.value.len(), epyc.packages.value.len()), (16, 2));
    assert_eq!(epyc.affinity(Cpu(0), Cpu(33)), Affinity::L3);
    assert_eq!(epyc.affinity(Cpu(0), Cpu(2)), Affinity::Memory);
    assert_eq!(epyc.affinity(Cpu(0), Cpu(16)), Affinity::Memory);
    assert_eq!(epyc.node_of(Cpu(2)).unwrap().id, 0);
}

#[test]
fn nodes_may_lie_inside_packages() {
    let epyc = found("epyc_nps4");
    let tree = epyc.tree();
    assert_eq!(tree.inside.len(), 2);
    assert!(matches!(tree.inside[0].parts[..], [TopologyDomain::Package(0)]));
    let node = &tree.inside[0].inside[3];
    assert!(matches!(node.parts[..], [TopologyDomain::Node(node)] if node.id == 3));
    assert_eq!(node.cpus, cpus("48-63,176-191"));
    assert_eq!(epyc.usable().len(), 100);
}

#[test]
fn two_kinds_of_core_have_caches_and_capacities_of_their_own() {
    let arm = found("arm_big_little");
    let kinds: Vec<_> = arm
        .core_kinds
        .iter()
        .map(|kind| {
            (
                kind.name.as_str(),
                kind.cpus.value.to_string(),
                kind.capacity.as_ref().map(|c| c.value),
            )
        })
        .collect();
    let expected =
        [("Cortex-A53", "0-3".to_owned(), Some(485)), ("Cortex-A72", "4-5".to_owned(), Some(1024))];
    assert_eq!(kinds, expected);
    assert_eq!(
        arm.cache_sizes(),
        [(1, Bytes::from_kib(32)), (2, Bytes::from_kib(512)), (2, Bytes::from_mib(1))]
    );
    let expected = [(Affinity::SameCpu, "4"), (Affinity::L2, "5"), (Affinity::Memory, "0-3")];
    assert_eq!(classes(&arm, 4), named(&expected));
    assert_eq!(missing(&arm), [Affinity::Smt, Affinity::L3]);
    assert_eq!(arm.memory_architecture(), MemoryArchitecture::SingleSocket);
    assert_eq!(arm.nodes[0].memory.as_ref().unwrap().value, Bytes::from_kib(3_911_564));
    assert_eq!(arm.vendor.unwrap().value, "Arm");
}

#[test]
fn a_guest_is_taken_at_its_word_and_named_a_guest() {
    let guest = found("guest_480_mib");
    assert_eq!(guest.llc_size(), Some(Bytes::from_mib(480)));
    assert_eq!(guest.hypervisor.as_ref().unwrap().value, "kvm");
    assert_eq!(guest.name, "Intel Xeon Processor, 2 CPUs, a guest under kvm");
    assert_eq!(missing(&guest), [Affinity::Smt, Affinity::L2, Affinity::Memory]);
}

#[test]
fn an_offline_cpu_and_a_cpuset_are_left_out_of_the_classes_and_named_as_the_reason() {
    let hybrid = found("hybrid");
    assert_eq!(hybrid.usable(), cpus("0-2,4-5"));
    assert_eq!(hybrid.allowed(), &cpus("0-2,4-5"));
    let expected = [(Affinity::SameCpu, "4"), (Affinity::L2, "5"), (Affinity::L3, "0-2")];
    assert_eq!(classes(&hybrid, 4), named(&expected));
    assert_eq!(hybrid.core_kinds.len(), 2);
    assert_eq!(hybrid.cpus.value, cpus("0-7"));
    assert!(hybrid.cores.value.containing(Cpu(3)).is_none());

    let root = tree("hybrid");
    let l3 = "sys/devices/system/cpu/cpu@/cache/index3/shared_cpu_list";
    trees::write(root.path(), &format!("{{0-2,4-7 by 7}} {l3}: 0-7"));
    let found = discover(&SysRoot::at(root.path())).unwrap();
    let l3 = found.caches.iter().find(|cache| cache.level == 3).unwrap();
    assert_eq!(l3.instances.value.cpus(), cpus("0-2,4-7"));

    let file = root.path().join("sys/fs/cgroup/user.slice/cpuset.cpus.effective");
    fs::write(file, "0,3-4\n").unwrap();
    let narrow = discover(&SysRoot::at(root.path())).unwrap();
    assert_eq!(narrow.usable(), cpus("0,4"));
    let why: Vec<_> = narrow.missing_classes().into_iter().map(|class| class.why).collect();
    assert_eq!(why[0], "no two usable CPUs share a core; CPU 1 is not allowed to us");
}

#[test]
fn a_cpuset_of_the_first_version_counts_too() {
    let root = tree("smt_laptop");
    let add = |text: &str| trees::write(root.path(), text);
    add(
        "proc/self/cgroup: 3:cpuset:/batch\\n0::/\nsys/fs/cgroup/cpuset/batch/cpuset.effective_cpus: 2-3",
    );
    assert_eq!(discover(&SysRoot::at(root.path())).unwrap().usable(), cpus("2-3"));
}

#[test]
fn one_cpu_has_nothing_but_preemptions() {
    let one = found("one_cpu");
    assert_eq!(classes(&one, 0), named(&[(Affinity::SameCpu, "0")]));
    let why: Vec<_> = one.missing_classes().into_iter().map(|class| class.why).collect();
    assert_eq!(why, ["only 1 CPU is usable"; 4]);
    assert_eq!(one.hypervisor.unwrap().value, "kvm");
}

#[test]
fn without_cache_files_every_other_cpu_is_a_memory_migration_away() {
    let bare = found("no_cache_info");
    assert!(bare.caches.is_empty() && bare.llc_size().is_none());
    assert_eq!(bare.memory_architecture(), MemoryArchitecture::Uma);
    assert_eq!(classes(&bare, 0), named(&[(Affinity::SameCpu, "0"), (Affinity::Memory, "1-3")]));
    assert_eq!(bare.hypervisor.unwrap().value, "unknown");
}

#[test]
fn what_a_host_states_against_itself_is_marked_and_the_rest_is_kept() {
    let root = tree("smt_laptop");
    let l3 = "sys/devices/system/cpu/cpu@/cache/index3";
    trees::write(root.path(), &format!("{{0-7 by 8}} {l3}/size: 9000K"));
    // The upper two cores are said to share a cache with half of a core below.
    trees::write(root.path(), &format!("{{0-4 | 5-7}} {l3}/shared_cpu_list: %"));
    let laptop = discover(&SysRoot::at(root.path())).unwrap();
    let l3 = laptop.caches.iter().find(|cache| cache.level == 3).unwrap();
    assert!(
        l3.ways.as_ref().unwrap().is_contradicted() && !l3.size.as_ref().unwrap().is_contradicted()
    );
    let torn = |level| {
        laptop.caches.iter().filter(move |c| c.level == level && c.instances.is_contradicted())
    };
    assert_eq!((torn(1).count(), torn(2).count(), torn(3).count()), (2, 1, 0));
    assert!(Platform::from_toml(&laptop.to_toml()).is_ok());
}

#[test]
fn no_cpus_and_damaged_files_are_errors_that_name_the_place() {
    let empty = tempfile::TempDir::new().unwrap();
    let error = discover(&SysRoot::at(empty.path())).unwrap_err();
    assert!(matches!(error, DiscoverError::NoCpus { .. }));
    assert!(error.to_string().contains(&empty.path().display().to_string()));
    for file in [
        "sys/devices/system/cpu/online",
        "sys/devices/system/cpu/cpu0/cache/index0/size",
        "sys/devices/system/cpu/cpu0/topology/core_cpus_list",
        "sys/devices/system/node/node0/meminfo",
        "sys/devices/system/node/node0/distance",
        "sys/kernel/mm/transparent_hugepage/enabled",
    ] {
        let root = tree("smt_laptop");
        fs::write(root.path().join(file), "none of your business\n").unwrap();
        let error = discover(&SysRoot::at(root.path())).unwrap_err().to_string();
        assert!(error.contains(file) && error.contains("none of your business"), "{error}");
    }
}

#[test]
fn this_host_has_a_cpu_that_is_usable_and_its_description_can_be_read_back() {
    let host = discover(&SysRoot::live()).unwrap();
    assert!(!host.usable().is_empty());
    assert_eq!(Platform::from_toml(&host.to_toml()), Ok(host.clone()));
    assert!(host.caches.iter().all(|cache| cache.kind != CacheKind::Data || cache.level == 1));
}

/// Every CPU has the same files: one package, one level-3 cache for all, and cores of one CPU. With a step for each pair
/// of CPUs this would take minutes, with one for each pair and core for ever, and a list for each CPU of all CPUs a
/// gigabyte of memory.
#[test]
fn a_machine_of_16384_cpus_is_described_and_checked_in_steps_that_grow_with_their_number() {
    const CPUS: u32 = 16_384;
    let root = TempDir::new().unwrap();
    let (folder, all) = (root.path().join("sys/devices/system/cpu"), format!("0-{}", CPUS - 1));
    trees::write(
        root.path(),
        &format!(
            "sys/devices/system/cpu/present: {all}\n\
             sys/devices/system/cpu/cpu0/topology/package_cpus_list: {all}\n\
             sys/devices/system/cpu/cpu0/cache/index3/type: Unified\n\
             sys/devices/system/cpu/cpu0/cache/index3/level: 3\n\
             sys/devices/system/cpu/cpu0/cache/index3/size: 32768K\n\
             sys/devices/system/cpu/cpu0/cache/index3/shared_cpu_list: {all}\n"
        ),
    );
    for cpu in 1..CPUS {
        std::os::unix::fs::symlink("cpu0", folder.join(format!("cpu{cpu}"))).unwrap();
    }
    let (send, receive) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let root = SysRoot::at(root.path());
        let platform = discover(&root).unwrap();
        let findings = corehop_linux::preflight::doctor(&root, &platform);
        // The receiver has given up if it is gone.
        let _late = send.send((platform.missing_classes(), platform, findings));
    });
    let limit = std::time::Duration::from_mins(3);
    let (missing, platform, findings) = receive.recv_timeout(limit).expect("it ends");
    assert_eq!((platform.packages.value.len(), platform.cores.value.len()), (1, CPUS as usize));
    assert_eq!(platform.caches[0].instances.value.len(), 1);
    let missing: Vec<Affinity> = missing.iter().map(|it| it.affinity).collect();
    assert_eq!(missing, [Affinity::Smt, Affinity::L2, Affinity::Memory]);
    assert!(!findings.is_empty());
}
