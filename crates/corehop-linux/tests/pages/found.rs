// SPDX-License-Identifier: MIT OR Apache-2.0
//! Pairs that are known are found, and programs are as they are without sampling.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use corehop_plan::host::{Evidence, Host};

use crate::harness::skipped;
use crate::scene::{Scene, host};

/// Hand-overs after which a thread's partner is told.
const ENOUGH: u64 = 20;

/// Whether each thread of a pair was seen most with its partner, and next to nothing beside the pairs: how threads begin and
/// end may leave a little.
fn agree(scene: &Scene, partners: &BTreeMap<u32, u32>) -> bool {
    let right =
        |(tid, partner): (&u32, &u32)| *partner == 0 || scene.heaviest(*tid) == Some(*partner);
    let sum = |of_pairs: bool| -> u64 {
        let chosen = scene.seen.iter().filter(|((a, b), _)| (partners[a] == *b) == of_pairs);
        chosen.map(|(_, seen)| seen).sum()
    };
    partners.iter().all(right) && 10 * sum(false) < sum(true)
}

/// Samples until every thread of a pair was seen with some thread often enough; the pairs by number of the threads, in order.
fn pairs(seed: u64) -> Option<BTreeSet<(usize, usize)>> {
    let mut scene = Scene::begin(3, 2, seed, "write")?;
    let mut partners = scene.partners();
    let paired = partners.iter().filter(|(_, partner)| **partner != 0).map(|(tid, _)| *tid);
    let paired: Vec<u32> = paired.collect();
    let often = |scene: &Scene, tid: u32| {
        scene.seen.iter().any(|((a, b), seen)| *seen >= ENOUGH && (*a == tid || *b == tid))
    };
    scene.until("pairs are seen", |it| paired.iter().all(|tid| often(it, *tid)));
    // The first thread shares with all of them what they begin with.
    scene.seen.retain(|(a, b), _| partners.contains_key(a) && partners.contains_key(b));
    assert!(agree(&scene, &partners), "{partners:?} {:?}", scene.seen);
    let order: Vec<u32> = partners.keys().copied().collect();
    let at = |tid: u32| order.iter().position(|it| *it == tid).unwrap();
    let true_ones = scene.seen.keys().filter(|(a, b)| partners[a] == *b);
    let pairs = true_ones.map(|(a, b)| (at(*a), at(*b))).collect();
    // Partners that are swapped on purpose are noticed.
    let others = paired.iter().find(|tid| **tid != paired[0] && partners[*tid] != paired[0]);
    let others = [*others.unwrap(), partners[others.unwrap()]];
    let ones = [paired[0], partners[&paired[0]]];
    for (a, b) in [(ones[0], others[0]), (ones[1], others[1])] {
        partners.insert(a, b);
        partners.insert(b, a);
    }
    assert!(!agree(&scene, &partners), "{partners:?} {:?}", scene.seen);
    assert_eq!(scene.end(), 0, "writes were lost");
    Some(pairs)
}

pub(crate) fn each_thread_is_found_with_its_partner_and_one_alone_with_none() {
    if let Some(pairs) = pairs(1) {
        assert_eq!(pairs.len(), 3);
    }
}

pub(crate) fn another_order_of_the_threads_has_other_pairs() {
    let (Some(one), Some(other)) = (pairs(2), pairs(3)) else { return };
    assert_ne!(one, other);
}

pub(crate) fn the_kernel_reads_into_protected_pages() {
    let Some(mut scene) = Scene::begin(1, 0, 4, "read") else { return };
    scene.until("the pair is seen", |it| it.seen.values().any(|seen| *seen >= ENOUGH));
    assert_eq!(scene.end(), 0);
}

pub(crate) fn a_pair_in_memory_that_other_processes_could_share_is_found() {
    let Some(mut scene) = Scene::begin(1, 1, 8, "shared") else { return };
    scene.until("the pair is seen", |it| it.seen.values().any(|seen| *seen >= ENOUGH));
    let partners = scene.partners();
    scene.seen.retain(|(a, b), _| partners.contains_key(a) && partners.contains_key(b));
    assert!(agree(&scene, &partners), "{partners:?} {:?}", scene.seen);
    assert_eq!(scene.end(), 0, "writes were lost");
}

/// The memory of a program in huge pages, in KiB.
fn in_huge_pages(scene: &Scene) -> u64 {
    let tid = *scene.partners().keys().next().unwrap();
    let text = std::fs::read_to_string(format!("/proc/{tid}/smaps_rollup")).unwrap();
    let line = text.lines().find_map(|it| it.strip_prefix("AnonHugePages:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

/// Protecting a part would split it, and the program would be slower from then on.
pub(crate) fn huge_pages_are_left_whole() {
    let Some(mut scene) = Scene::begin(1, 0, 9, "huge") else { return };
    let before = in_huge_pages(&scene);
    if before == 0 {
        skipped("there are no huge pages here");
    }
    for _ in 0..40 {
        scene.look();
    }
    assert_eq!(in_huge_pages(&scene), before);
    assert_eq!(scene.end(), 0, "writes were lost");
}

pub(crate) fn a_program_forks_and_its_children_are_not_held_up() {
    let Some(mut scene) = Scene::begin(1, 0, 5, "fork") else { return };
    scene.until("the pair is seen", |it| it.seen.values().any(|seen| *seen >= ENOUGH));
    assert_eq!(scene.end(), 0);
}

pub(crate) fn a_program_that_starts_another_one_is_lost_and_goes_on() {
    let words = ["sh", "-c", "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done; exec sleep 1"];
    let mut host = host(&words.map(str::to_owned));
    if !host.sources().contains(&Evidence::Pages) {
        skipped(&host.notes().join("; "));
        return;
    }
    let mut notes = Vec::new();
    let ended = loop {
        let window = host.observe(std::time::Duration::from_millis(50)).unwrap();
        notes.extend(host.notes());
        if let Some(ended) = window.ended {
            break ended;
        }
    };
    assert_eq!(ended.status, Some(0));
    assert!(notes.iter().any(|it| it.contains("pages is off") && it.contains("exec")), "{notes:?}");
}

pub(crate) fn without_the_right_the_source_is_off_and_says_so() {
    if std::fs::read_to_string("/proc/sys/vm/unprivileged_userfaultfd")
        .is_ok_and(|it| it.trim() == "1")
    {
        skipped("every user may write-protect pages here");
        return;
    }
    let this = std::env::current_exe().unwrap();
    let mut command = Command::new("setpriv");
    command.args(["--bounding-set", "-sys_ptrace", "--inh-caps", "-all", "--"]).arg(this);
    command.args([crate::scene::PLACER, "true"]);
    let Ok(output) = command.output() else {
        skipped("there is no setpriv");
        return;
    };
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert!(said.contains("--evidence pages is off") && said.contains("CAP_SYS_PTRACE"), "{said}");
}
