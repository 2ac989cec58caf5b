// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads the XML of hwloc (`lstopo --of xml FILE`), version 1 and version 2.
//!
//! The CPUs of an object are its processing units (`PU`). A node in a file of version 2 is a sibling of the objects
//! whose CPUs are near to it.

use std::collections::BTreeSet;

use roxmltree::{Document, Node, ParsingOptions};

use super::{CacheInstance, DescribedCache, DescriptionError, MachineDescription};
use crate::platform::CacheKind;
use crate::units::{Cpu, CpuList};

/// The types of objects that a platform does not describe and that say nothing about CPUs and caches.
const NO_PART: [&str; 9] =
    ["Machine", "System", "Group", "Die", "Misc", "Bridge", "PCIDev", "OSDev", "PU"];

pub(super) fn read(text: &str) -> Result<MachineDescription, DescriptionError> {
    let syntax = |error: roxmltree::Error| DescriptionError::Syntax {
        format: "XML",
        what: error.to_string(),
    };
    // hwloc names its document type, which has no definitions within the file.
    let options = ParsingOptions { allow_dtd: true, ..ParsingOptions::default() };
    let document = Document::parse_with_options(text, options).map_err(syntax)?;
    let mut machine = MachineDescription { source: "hwloc", ..MachineDescription::default() };
    let mut unknown = BTreeSet::new();
    for object in document.descendants().filter(|node| node.has_tag_name("object")) {
        let kind = object.attribute("type").unwrap_or_default();
        match kind {
            "Package" | "Socket" => machine.packages.push(cpus(object)),
            "Core" => machine.cores.push(cpus(object)),
            "NUMANode" => machine.nodes.push(node(object)?),
            _ if kind.ends_with("Cache") && kind != "MemCache" => {
                machine.caches.push(cache(object)?);
            }
            _ if NO_PART.contains(&kind) => {}
            _ => {
                unknown.insert(kind.to_owned());
            }
        }
    }
    for (part, list) in [("Package", &machine.packages), ("Core", &machine.cores)] {
        if list.iter().all(CpuList::is_empty) {
            let what = format!(
                "the file has no object of the type {part} with a PU: export the whole topology with `lstopo --of xml FILE`"
            );
            return Err(DescriptionError::Incomplete(what));
        }
    }
    machine.vendor = info(&document, "CPUVendor");
    machine.model = info(&document, "CPUModel");
    if !unknown.is_empty() {
        let types: Vec<String> = unknown.into_iter().collect();
        machine.notes.push(format!("objects of the types {} are not used", types.join(", ")));
    }
    if document.descendants().any(|node| node.tag_name().name().starts_with("distances")) {
        machine.notes.push("distances between nodes are not read".to_owned());
    }
    Ok(machine)
}

/// Returns the value that the whole machine or the first package has under a name.
fn info(document: &Document<'_>, name: &str) -> Option<String> {
    let is_named =
        |node: &Node<'_, '_>| node.has_tag_name("info") && node.attribute("name") == Some(name);
    let value = document.descendants().find(is_named)?.attribute("value")?;
    Some(value.trim().to_owned()).filter(|value| !value.is_empty())
}

/// Returns the processing units within an object.
fn cpus(object: Node<'_, '_>) -> CpuList {
    let units = object.descendants().filter(|node| node.attribute("type") == Some("PU"));
    CpuList::new(units.filter_map(|unit| unit.attribute("os_index")?.parse().ok().map(Cpu)))
}

/// Returns the number, the CPUs and the memory of a node.
fn node(object: Node<'_, '_>) -> Result<(u32, CpuList, Option<u64>), DescriptionError> {
    let id = object.attribute("os_index").and_then(|id| id.parse().ok());
    let id = id.ok_or_else(|| {
        DescriptionError::Incomplete("an object of the type NUMANode has no os_index".to_owned())
    })?;
    let near = object.ancestors().map(cpus).find(|cpus| !cpus.is_empty()).unwrap_or_default();
    let memory = object.attribute("local_memory").and_then(|bytes| bytes.parse().ok());
    Ok((id, near, memory.filter(|&bytes: &u64| bytes > 0)))
}

fn cache(object: Node<'_, '_>) -> Result<CacheInstance, DescriptionError> {
    let number = |name: &str| object.attribute(name).and_then(|text| text.parse::<i64>().ok());
    // hwloc writes 0 for what is unknown, and -1 for a cache without sets.
    let known = |name: &str| number(name).filter(|&value| value > 0);
    let level = known("depth").and_then(|depth| u32::try_from(depth).ok());
    let level = level.ok_or_else(|| {
        DescriptionError::Incomplete("an object of the type Cache has no depth".to_owned())
    })?;
    let kind = match number("cache_type") {
        Some(1) => CacheKind::Data,
        Some(2) => CacheKind::Instruction,
        _ => CacheKind::Unified,
    };
    let shape = DescribedCache {
        level,
        kind,
        size: known("cache_size").map(i64::unsigned_abs),
        ways: known("cache_associativity").and_then(|ways| u32::try_from(ways).ok()),
        line: known("cache_linesize").map(i64::unsigned_abs),
    };
    Ok(CacheInstance { shape, cpus: cpus(object) })
}
