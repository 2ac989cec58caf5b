// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of reading machine descriptions of other programs.

use super::*;

fn read_as(format: &str, text: &str) -> ImportedPlatform {
    read(format, text).unwrap().unwrap()
}

fn refused(format: &str, text: &str) -> String {
    read(format, text).unwrap().unwrap_err().to_string()
}

/// Returns the caches of a platform: label, size in KiB, ways, and instances.
fn caches(of: &Platform) -> Vec<(String, Option<u64>, Option<u32>, String)> {
    let told = |it: &Cache| {
        let instances: Vec<String> = it.instances.value.iter().map(ToString::to_string).collect();
        let size = it.size.as_ref().map(|size| size.value.get() >> 10);
        (it.label(), size, it.ways.as_ref().map(|it| it.value), instances.join(" "))
    };
    of.caches.iter().map(told).collect()
}

/// Returns the rows of a machine with two packages of two cores with two threads each, plus an offline CPU 9;
/// numbers are texts, as in older versions of lscpu.
fn rows() -> String {
    let row = |cpu: u32| {
        let (socket, core) = (cpu % 4 / 2, cpu % 4);
        format!(
            r#"{{"cpu": "{cpu}", "node": "{socket}", "socket": "{socket}", "core": "{core}", "l1d:l1i:l2:l3": "{core}:{core}:{core}:{socket}", "online": "yes"}}"#
        )
    };
    let mut all: Vec<String> = (0..8).map(row).collect();
    all.push(r#"{"cpu": "9", "node": null, "socket": "-", "core": "-", "l1d:l1i:l2:l3": ":::", "online": "no"}"#.to_owned());
    format!("{{\"cpus\": [{}]}}", all.join(","))
}

const SIZES: &str = r#"{"caches": [
    {"name": "L1d", "one-size": "48K", "ways": 12, "level": 1, "coherency-size": 64},
    {"name": "L3", "one-size": "1.5M", "ways": "16", "level": 3, "coherency-size": "64"}]}"#;

#[test]
fn the_parts_of_lscpu_together_are_a_whole_machine() {
    let summary = r#"{"lscpu": [{"field": "Vendor ID:", "data": "Maker", "children": [
        {"field": "Model name:", "data": "Maker(R) M1 CPU"}]}]}"#;
    let read = read_as(LSCPU, &format!("{summary}\n{}\n{SIZES}", rows()));
    let (of, notes) = (&read.platform, read.notes.join("\n"));
    assert_eq!((of.id.as_str(), of.name.as_str()), ("maker_m1_8_cpus", "Maker M1, 8 CPUs"));
    assert_eq!(of.cpus.value.to_string(), "0-7");
    assert_eq!((of.packages.value.len(), of.cores.value.len(), of.nodes.len()), (2, 4, 2));
    assert!(of.cores.value.share(Cpu(0), Cpu(4)) && !of.packages.value.share(Cpu(1), Cpu(2)));
    let expected = [
        ("L1d", Some(48), Some(12), "0,4 1,5 2,6 3,7"),
        ("L1i", None, None, "0,4 1,5 2,6 3,7"),
        ("L2", None, None, "0,4 1,5 2,6 3,7"),
        ("L3", Some(1536), Some(16), "0-1,4-5 2-3,6-7"),
    ];
    assert_eq!(caches(of), expected.map(|it| (it.0.to_owned(), it.1, it.2, it.3.to_owned())));
    assert!(notes.contains("CPUs 9 are offline"), "{notes}");
    assert_eq!(Platform::from_toml(&of.to_toml()).unwrap(), *of);
}

#[test]
fn what_lscpu_leaves_out_is_absent_and_said() {
    let read = read_as(LSCPU, &rows());
    assert!(
        read.platform.model.is_none() && read.platform.caches.iter().all(|it| it.size.is_none())
    );
    let notes = read.notes.join("\n");
    assert!(notes.contains("no model") && notes.contains("`lscpu -J -C`"), "{notes}");
    let bare = read_as(LSCPU, r#"{"cpus": [{"cpu": 0, "socket": 0, "core": 0}]}"#);
    assert!(bare.platform.caches.is_empty() && bare.platform.nodes.is_empty());
    assert!(bare.notes.join("\n").contains("the file states no cache"));
}

#[test]
fn a_size_in_bytes_is_read_and_a_rounded_one_is_said() {
    let of = |size: &str| {
        let cpus = r#"{"cpu": 0, "socket": 0, "core": 0, "l1d:l1i:l2:l3": "0:0:0:0"}"#;
        let cache =
            format!(r#"{{"name": "L3", "one-size": "{size}", "type": "Unified", "level": 3}}"#);
        read_as(LSCPU, &format!(r#"{{"cpus": [{cpus}], "caches": [{cache}]}}"#))
    };
    let size = |read: &ImportedPlatform| {
        let all = read.platform.caches.iter().filter(|it| it.level == 3);
        all.filter_map(|it| it.size.as_ref()).map(|it| it.value.get()).collect::<Vec<_>>()
    };
    assert_eq!(size(&of("1310720")), [1_310_720]);
    let rounded = of("1.3M");
    assert!(size(&rounded).is_empty(), "{:?}", rounded.platform.caches);
    assert!(
        rounded.notes.join("\n").contains("L3: corehop ignores the size `1.3M`"),
        "{:?}",
        rounded.notes
    );
}

/// Returns a summary of lscpu with the further lines in `more`.
fn summary(threads: u32, more: &str) -> String {
    let line = |field: &str, data: &str| format!(r#"{{"field": "{field}:", "data": "{data}"}}"#);
    let all = [
        line("On-line CPU(s) list", "0-3"),
        line("Thread(s) per core", &threads.to_string()),
        line("Socket(s)", "1"),
        line("L1d cache", "96 KiB (4 instances)"),
        line("L2 cache", "4 MiB (2 instances)"),
        line("L3 cache", "16 MiB (1 instance)"),
    ];
    format!(r#"{{"lscpu": [{}{more}]}}"#, all.join(","))
}

#[test]
fn a_summary_is_a_machine_only_where_no_other_has_the_same() {
    let read = read_as(LSCPU, &summary(1, ""));
    let expected = [("L1d", Some(24), None, "0 1 2 3"), ("L3", Some(16 << 10), None, "0-3")];
    assert_eq!(
        caches(&read.platform),
        expected.map(|it| (it.0.to_owned(), it.1, it.2, it.3.to_owned()))
    );
    assert!(read.notes.join("\n").contains("L2 cache is 4 MiB (2 instances)"), "{:?}", read.notes);
    let error = refused(LSCPU, &summary(2, ""));
    assert!(error.contains("which CPUs share a core") && error.contains("lscpu -J -e"), "{error}");
    assert!(refused(LSCPU, r#"{"lscpu": []}"#).contains("`On-line CPU(s) list` is missing"));
    assert!(refused(LSCPU, "{").contains("not valid JSON"));
    assert!(refused(LSCPU, r#"{"cpus": [{"cpu": 3}]}"#).contains("CPU 3 has no `socket`"));
    assert!(refused(LSCPU, r#"{"cpus": [{"core": 3}]}"#).contains("row 0 of `cpus`"));
}

/// A package with a shared cache and two cores, as hwloc version 2 writes it.
const VERSION_2: &str = r#"<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE topology SYSTEM "hwloc2.dtd">
<topology version="2.0"><object type="Machine" os_index="0">
  <object type="Package" os_index="0"><info name="CPUModel" value="Maker M2"/>
    <object type="NUMANode" os_index="0" local_memory="1073741824"/>
    <object type="L3Cache" depth="3" cache_size="2097152" cache_linesize="64" cache_associativity="16" cache_type="0">
      <object type="L1Cache" depth="1" cache_size="32768" cache_linesize="64" cache_associativity="-1" cache_type="1">
        <object type="Core" os_index="0"><object type="PU" os_index="0"/><object type="PU" os_index="2"/></object></object>
      <object type="L1Cache" depth="1" cache_size="32768" cache_linesize="64" cache_associativity="-1" cache_type="1">
        <object type="Core" os_index="1"><object type="PU" os_index="1"/><object type="PU" os_index="3"/></object></object>
    </object></object>
  <object type="Bridge"/><object type="Widget"/></object><distances2 type="NUMANode"/></topology>"#;

#[test]
fn hwloc_of_either_version_is_the_same_machine() {
    let second = read_as(HWLOC, VERSION_2);
    let expected = [("L1d", Some(32), None, "0,2 1,3"), ("L3", Some(2048), Some(16), "0-3")];
    assert_eq!(
        caches(&second.platform),
        expected.map(|it| (it.0.to_owned(), it.1, it.2, it.3.to_owned()))
    );
    assert_eq!(second.platform.nodes[0].cpus.value.to_string(), "0-3");
    assert_eq!(second.platform.nodes[0].memory.as_ref().unwrap().value, Bytes::from_mib(1024));
    let notes = second.notes.join("\n");
    assert!(notes.contains("the types Widget") && notes.contains("distances"), "{notes}");
    let first = VERSION_2
        .replace("L3Cache", "Cache")
        .replace("L1Cache", "Cache")
        .replace("\"Package\"", "\"Socket\"");
    assert_eq!(read_as(HWLOC, &first).platform, second.platform);
}

#[test]
fn a_topology_without_cores_is_refused_with_the_command_that_exports_them() {
    for (text, words) in [
        (VERSION_2.replace("\"Core\"", "\"Group\""), "no object of the type Core with a PU"),
        (VERSION_2.replace("\"Package\"", "\"Group\""), "no object of the type Package"),
        (VERSION_2.replace("depth=\"3\"", ""), "has no depth"),
        (VERSION_2.replace("</topology>", ""), "not valid XML"),
    ] {
        let error = refused(HWLOC, &text);
        assert!(error.contains(words), "{words}: {error}");
    }
}
