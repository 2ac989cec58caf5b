// SPDX-License-Identifier: MIT OR Apache-2.0
//! Checks of the kernel's page management: huge pages, merging, swapping, and migration to other
//! nodes.

use super::host::{PreflightHost, chosen};
use super::{CheckFinding, Concern};

/// The name of the finding about pages that the kernel migrates.
pub(super) const NUMA_BALANCING: &str = "numa-balancing";

pub(super) const CONCERNS: &[Concern] = &[
    Concern {
        id: "transparent-huge-pages",
        why: "The page size determines the share of address translation in a touch, so the cost changes if the kernel moves a working set to or from huge pages within a run.",
        check: transparent_huge_pages,
    },
    Concern {
        id: "huge-page-pool",
        why: "Only reserved huge pages (hugetlb) reliably remove translation and page colours from a \
              measurement.",
        check: huge_page_pool,
    },
    Concern {
        id: "page-merging",
        why: "The merging daemon (KSM) walks through memory, evicts cache lines and takes CPU time \
              at unpredictable times.",
        check: page_merging,
    },
    Concern {
        id: "swap",
        why: "A page that is swapped out between two touches costs milliseconds, which is not a cost \
              of a preemption.",
        check: swap,
    },
    Concern {
        id: NUMA_BALANCING,
        why: "The kernel unmaps pages periodically to find their users, and moves pages to another node; the next touch pays for the move.",
        check: numa_balancing,
    },
];

const HUGE: &str = "sys/kernel/mm/transparent_hugepage";

fn transparent_huge_pages(host: &PreflightHost) -> Option<CheckFinding> {
    let text = host.text(format!("{HUGE}/enabled"))?;
    let (enabled, file) = (chosen(&text), format!("/{HUGE}/enabled"));
    let defrag = host.text(format!("{HUGE}/defrag"));
    let effort = defrag.as_deref().map(|text| format!(", defrag {}", chosen(text)));
    let found = format!("transparent huge pages: {enabled}{}", effort.unwrap_or_default());
    Some(match enabled {
        "madvise" => CheckFinding::ok(found),
        "always" => CheckFinding::note(found).command(host.write("madvise", &file)).remark(
            "The measured working set selects its own page size; everything else on the machine uses this setting.",
        ),
        _ => CheckFinding::note(format!("{found}; --page thp is not possible"))
            .command(host.write("madvise", &file)),
    })
}

fn huge_page_pool(host: &PreflightHost) -> Option<CheckFinding> {
    let folder = "sys/kernel/mm/hugepages";
    let names = host.names(folder);
    let free = |name: &&String| {
        let file = format!("{folder}/{name}/free_hugepages");
        let file_all = format!("{folder}/{name}/nr_hugepages");
        host.value::<u64>(&file).or_else(|| host.value(&file_all)).is_some_and(|free| free > 0)
    };
    // The smallest size is the one that a working set is put on.
    let smallest = names.iter().min_by_key(|name| (name.len(), name.as_str()))?;
    if let Some(some) = names.iter().find(free) {
        return Some(CheckFinding::ok(format!("reserved huge pages are free ({some})")));
    }
    let command = host.write(32, &format!("/{folder}/{smallest}/nr_hugepages"));
    let found = "no huge pages are reserved; --page hugetlb is not possible";
    Some(CheckFinding::note(found).command(command))
}

fn page_merging(host: &PreflightHost) -> Option<CheckFinding> {
    let file = "sys/kernel/mm/ksm/run";
    if host.value::<u32>(file)? != 1 {
        return Some(CheckFinding::ok("equal pages are not merged"));
    }
    let command = host.write(0, &format!("/{file}"));
    Some(CheckFinding::note("equal pages are being merged").command(command))
}

/// Whether the host has swap space.
pub(super) fn swaps(host: &PreflightHost) -> bool {
    host.text("proc/swaps").is_some_and(|text| text.lines().count() > 1)
}

fn swap(host: &PreflightHost) -> Option<CheckFinding> {
    host.text("proc/swaps")?;
    if !swaps(host) {
        return Some(CheckFinding::ok("there is no swap"));
    }
    let command = format!("{}swapoff -a", host.sudo());
    Some(CheckFinding::note("there is swap").command(command).remark(
        "Locked working sets stay in memory (see memory-lock); swapping of other memory adds noise.",
    ))
}

fn numa_balancing(host: &PreflightHost) -> Option<CheckFinding> {
    let nodes = host.platform.nodes.len();
    let setting: u32 = host.value("proc/sys/kernel/numa_balancing")?;
    if setting == 0 || nodes < 2 {
        return Some(CheckFinding::ok("pages are not moved between nodes"));
    }
    let found = format!("pages are moved between {nodes} nodes");
    Some(CheckFinding::warning(found).command(host.sysctl("kernel.numa_balancing", 0)))
}
