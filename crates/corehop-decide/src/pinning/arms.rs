// SPDX-License-Identifier: MIT OR Apache-2.0
//! Derives the arms of a pinning trial: sets of CPUs to which a program can be pinned, from the topology of its host.
//!
//! An arm pins the program as a whole, while `place` moves single threads. `taskset`, a systemd unit, a container and
//! a game launcher can express a set of CPUs, and threads that a program starts later inherit the set.

use std::collections::BTreeSet;

use serde::Serialize;

use corehop_plan::platform::Platform;
use corehop_plan::units::{Cpu, CpuList};
use corehop_plan::words::words;

words! {
    /// A way to choose the CPUs of a program.
    ArmKind, "an arm" {
        /// The program runs on the CPUs of one NUMA node.
        OneNode = "one-node",
        /// The program runs on one CPU of each core, so that no two threads share a core.
        NoSmt = "no-smt",
        /// The program runs on the CPUs that share one last-level cache.
        OneCache = "one-cache",
        /// The program runs on a single CPU.
        OneCpu = "one-cpu",
        /// The program runs on as many CPUs as it has threads that want to run at the same time. corehop takes the CPUs
        /// cache by cache, and distinct cores before SMT siblings.
        CpuPerThread = "cpu-per-thread",
    }
}

/// A set of CPUs that a pinning trial tries.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PinArm {
    /// The way in which the CPUs were chosen.
    pub kind: ArmKind,
    /// The CPUs of the set.
    pub cpus: CpuList,
}

/// An arm that is not tried.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LeftOutArm {
    /// The way in which the CPUs would have been chosen.
    pub kind: ArmKind,
    /// The reason why the arm is not tried.
    pub why: String,
}

/// The load that an unpinned program puts on its CPUs.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct ProgramLoad {
    /// The largest number of threads that wanted a CPU simultaneously; at least 1.
    pub threads: usize,
    /// The CPU time divided by the wall time: the number of CPUs that the program used on average; `None` if the CPU
    /// time is unknown.
    pub busy_cpus: Option<f64>,
}

/// The arms worth trying, and the arms that are left out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PinArms {
    /// The arms to try. Each arm's CPUs differ from those of all other arms and from the program's own CPUs.
    pub arms: Vec<PinArm>,
    /// The arms that are not tried, with the reasons.
    pub left_out: Vec<LeftOutArm>,
}

/// Derives the arms for a program that may run on the CPUs `inherited` and puts `load` on them.
pub fn derive(platform: &Platform, inherited: &CpuList, load: &ProgramLoad) -> PinArms {
    let ground = CpuGround::of(platform, inherited);
    let mut found = PinArms { arms: Vec::new(), left_out: Vec::new() };
    for &kind in ArmKind::ALL {
        let chosen = ground.choose(kind, load.threads).and_then(|cpus| {
            if cpus == ground.cpus {
                return Err("these are the program's own CPUs".to_owned());
            }
            too_small(&cpus, load)?;
            found.is_new(&cpus)?;
            Ok(cpus)
        });
        match chosen {
            Ok(cpus) => found.arms.push(PinArm { kind, cpus }),
            Err(why) => found.left_out.push(LeftOutArm { kind, why }),
        }
    }
    found
}

/// Rejects a set of CPUs if the program used more than [`CROWDED`] times as many CPUs, because a run on the set would
/// take at least twice as long, and on a large machine a hundred times as long.
fn too_small(cpus: &CpuList, load: &ProgramLoad) -> Result<(), String> {
    match load.busy_cpus.filter(|&busy| busy > CROWDED * cpus.len() as f64) {
        Some(busy) => Err(format!(
            "the program uses {busy:.1} CPUs on average, which {} cannot hold",
            many(cpus)
        )),
        None => Ok(()),
    }
}

/// A set of CPUs is rejected if the program used more than this factor times as many. A program on two CPUs is always
/// tried on one CPU.
const CROWDED: f64 = 2.5;

/// Formats a number of CPUs as `1 CPU` or `4 CPUs`.
fn many(cpus: &CpuList) -> String {
    format!("{} CPU{}", cpus.len(), if cpus.len() == 1 { "" } else { "s" })
}

impl PinArms {
    fn is_new(&self, cpus: &CpuList) -> Result<(), String> {
        match self.arms.iter().find(|arm| arm.cpus == *cpus) {
            Some(arm) => Err(format!("the same CPUs as {}: {cpus}", arm.kind)),
            None => Ok(()),
        }
    }
}

/// The CPUs that the program may use, grouped by what they share.
struct CpuGround {
    cpus: CpuList,
    nodes: Vec<CpuList>,
    caches: Vec<CpuList>,
    cores: Vec<CpuList>,
}

impl CpuGround {
    fn of(platform: &Platform, inherited: &CpuList) -> Self {
        let cpus = platform.online().intersection(inherited);
        let node = |cpu| platform.node_of(cpu).map(|it| &it.cpus.value);
        let cache = |cpu| platform.last_level(cpu)?.instances.value.containing(cpu);
        let core = |cpu| platform.cores.value.containing(cpu);
        let (nodes, caches, cores) =
            (groups(&cpus, node), groups(&cpus, cache), groups(&cpus, core));
        Self { cpus, nodes, caches, cores }
    }

    /// The CPUs of an arm, or why the arm makes no sense.
    fn choose(&self, kind: ArmKind, threads: usize) -> Result<CpuList, String> {
        match kind {
            ArmKind::OneNode => one_of(&self.nodes, "the CPUs are in one NUMA node"),
            ArmKind::NoSmt => self.no_smt(),
            ArmKind::OneCache => one_of(&self.caches, "the CPUs have one last-level cache"),
            ArmKind::OneCpu => Ok(self.packed(1)),
            ArmKind::CpuPerThread if threads >= self.cpus.len() => {
                let s = if threads == 1 { "" } else { "s" };
                Err(format!(
                    "{threads} thread{s} wanted a CPU at a time, and there are {}",
                    many(&self.cpus)
                ))
            }
            ArmKind::CpuPerThread => Ok(self.packed(threads)),
        }
    }

    fn no_smt(&self) -> Result<CpuList, String> {
        let first = CpuList::new(self.cores.iter().filter_map(CpuList::first));
        if first == self.cpus {
            return Err("no core has two of the CPUs (SMT siblings)".to_owned());
        }
        Ok(first)
    }

    /// Chooses `count` CPUs: cache by cache, the largest first, and within each cache one CPU of every core before
    /// SMT siblings.
    fn packed(&self, count: usize) -> CpuList {
        let whole = [self.cpus.clone()];
        let caches = if self.caches.is_empty() { &whole[..] } else { &self.caches };
        let rank = |cpu: Cpu| {
            let cache = caches.iter().position(|it| it.contains(cpu)).unwrap_or(caches.len());
            let core = self.cores.iter().find(|it| it.contains(cpu));
            let sibling = core.and_then(|it| it.iter().position(|other| other == cpu));
            (cache, sibling.unwrap_or(0), cpu)
        };
        let mut order: Vec<Cpu> = self.cpus.iter().collect();
        order.sort_by_key(|&cpu| rank(cpu));
        CpuList::new(order.into_iter().take(count.max(1)))
    }
}

/// The groups that contain usable CPUs, the largest first, reduced to usable CPUs.
fn groups<'a>(cpus: &CpuList, of: impl Fn(Cpu) -> Option<&'a CpuList>) -> Vec<CpuList> {
    let found: BTreeSet<Vec<Cpu>> =
        cpus.iter().filter_map(of).map(|it| it.intersection(cpus).iter().collect()).collect();
    let mut groups: Vec<CpuList> = found.into_iter().map(CpuList::new).collect();
    groups.sort_by_key(|it| std::cmp::Reverse(it.len()));
    groups
}

/// The largest group, if there are several groups.
fn one_of(groups: &[CpuList], otherwise: &str) -> Result<CpuList, String> {
    match groups {
        [first, _, ..] => Ok(first.clone()),
        [_] => Err(otherwise.to_owned()),
        [] => Err("the platform does not say which CPUs share it".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use super::*;

    /// A machine whose CPUs share cores, last-level caches and nodes as given.
    fn machine(cores: &str, caches: &str, nodes: &str) -> Platform {
        let list = |text: &str| format!("[\"{}\"]", text.replace(' ', "\", \""));
        let assumed = |value: &str| format!("{{ value = {value}, source = \"assumed: by hand\" }}");
        let all = format!("\"{}\"", cores.replace(' ', ","));
        let mut text = format!(
            "schema = 1\nid = \"made\"\nname = \"made by hand\"\ncpus = {}\npackages = {}\ncores = {}\n",
            assumed(&all),
            assumed(&list(nodes)),
            assumed(&list(cores))
        );
        let caches = assumed(&list(caches));
        text += "[[cache]]\nlevel = 3\nkind = \"unified\"\n";
        writeln!(text, "instances = {caches}").unwrap();
        for (id, cpus) in nodes.split(' ').enumerate() {
            let cpus = assumed(&format!("\"{cpus}\""));
            writeln!(text, "[[node]]\nid = {id}\ncpus = {cpus}").unwrap();
        }
        Platform::from_toml(&text).unwrap_or_else(|error| panic!("{error}\n{text}"))
    }

    fn cpus(text: &str) -> CpuList {
        text.parse().unwrap()
    }

    fn load(threads: usize) -> ProgramLoad {
        ProgramLoad { threads, busy_cpus: None }
    }

    /// The arms in the form `one-cache=0-3`, in their order.
    fn arms(machine: &Platform, inherited: &str, load: &ProgramLoad) -> Vec<String> {
        let found = derive(machine, &cpus(inherited), load);
        assert_eq!(found.arms.len() + found.left_out.len(), ArmKind::ALL.len());
        found.arms.iter().map(|it| format!("{}={}", it.kind, it.cpus)).collect()
    }

    fn why(machine: &Platform, inherited: &str, load: &ProgramLoad, kind: ArmKind) -> String {
        let found = derive(machine, &cpus(inherited), load);
        let arm = found.left_out.into_iter().find(|it| it.kind == kind);
        arm.unwrap_or_else(|| panic!("{kind} is tried")).why
    }

    #[test]
    fn two_cores_with_siblings_have_an_arm_without_siblings_and_one_with_one_cpu() {
        let machine = machine("0,2 1,3", "0-3", "0-3");
        assert_eq!(arms(&machine, "0-3", &load(4)), ["no-smt=0-1", "one-cpu=0"]);
        assert_eq!(
            arms(&machine, "0-3", &load(3)),
            ["no-smt=0-1", "one-cpu=0", "cpu-per-thread=0-2"]
        );
        let of = |kind| why(&machine, "0-3", &load(4), kind);
        assert!(of(ArmKind::OneCache).contains("one last-level cache"));
        assert!(of(ArmKind::OneNode).contains("one NUMA node"));
        assert_eq!(
            of(ArmKind::CpuPerThread),
            "4 threads wanted a CPU at a time, and there are 4 CPUs"
        );
    }

    #[test]
    fn two_threads_of_two_cores_with_siblings_get_a_core_each() {
        let machine = machine("0-1 2-3", "0-3", "0-3");
        assert_eq!(arms(&machine, "0-3", &load(2)), ["no-smt=0,2", "one-cpu=0"]);
        let same = why(&machine, "0-3", &load(2), ArmKind::CpuPerThread);
        assert_eq!(same, "the same CPUs as no-smt: 0,2");
    }

    #[test]
    fn two_caches_have_an_arm_of_one_and_threads_fill_one_cache_before_the_other() {
        let machine = machine("0 1 2 3 4 5 6 7", "0-1,4-5 2-3,6-7", "0-7");
        assert_eq!(
            arms(&machine, "0-7", &load(6)),
            ["one-cache=0-1,4-5", "one-cpu=0", "cpu-per-thread=0-5"]
        );
        // Threads that fill a cache have its CPUs.
        let same = why(&machine, "0-7", &load(4), ArmKind::CpuPerThread);
        assert_eq!(same, "the same CPUs as one-cache: 0-1,4-5");
    }

    #[test]
    fn two_nodes_with_a_cache_each_are_one_arm() {
        let machine = machine("0 1 2 3", "0-1 2-3", "0-1 2-3");
        assert_eq!(
            arms(&machine, "0-3", &load(3)),
            ["one-node=0-1", "one-cpu=0", "cpu-per-thread=0-2"]
        );
        let same = why(&machine, "0-3", &load(3), ArmKind::OneCache);
        assert_eq!(same, "the same CPUs as one-node: 0-1");
    }

    #[test]
    fn an_inherited_affinity_takes_away_cpus_and_the_arms_that_need_them() {
        let machine = machine("0,4 1,5 2,6 3,7", "0-1,4-5 2-3,6-7", "0-7");
        // One CPU of the first cache is left, and three of the second, of which two are siblings.
        assert_eq!(
            arms(&machine, "1-3,7", &load(2)),
            ["no-smt=1-3", "one-cache=2-3,7", "one-cpu=2", "cpu-per-thread=2-3"]
        );
        assert_eq!(arms(&machine, "2-3", &load(2)), ["one-cpu=2"]);
        // CPUs that are not there are no arm.
        assert_eq!(arms(&machine, "3,64", &load(1)), [""; 0]);
    }

    #[test]
    fn a_thread_alone_has_one_cpu_and_no_second_arm_for_that() {
        let machine = machine("0 1", "0-1", "0-1");
        assert_eq!(arms(&machine, "0-1", &load(1)), ["one-cpu=0"]);
        let same = why(&machine, "0-1", &load(1), ArmKind::CpuPerThread);
        assert_eq!(same, "the same CPUs as one-cpu: 0");
    }

    #[test]
    fn cpus_that_cannot_hold_the_program_are_left_out_with_both_numbers() {
        let machine = machine("0 1 2 3 4 5 6 7", "0-3 4-7", "0-7");
        let busy = |busy| ProgramLoad { threads: 8, busy_cpus: Some(busy) };
        assert_eq!(arms(&machine, "0-7", &busy(7.5)), ["one-cache=0-3"]);
        let why = why(&machine, "0-7", &busy(7.5), ArmKind::OneCpu);
        assert_eq!(why, "the program uses 7.5 CPUs on average, which 1 CPU cannot hold");
        assert_eq!(arms(&machine, "0-1", &busy(2.1)), ["one-cpu=0"], "two CPUs are tried as one");
    }

    #[test]
    fn a_platform_without_caches_and_nodes_says_so_and_has_the_other_arms() {
        let text = "schema = 1\nid = \"bare\"\nname = \"bare\"\n\
            cpus = { value = \"0-3\", source = \"assumed: x\" }\npackages = { value = [\"0-3\"], source = \"assumed: x\" }\n\
            cores = { value = [\"0\", \"1\", \"2\", \"3\"], source = \"assumed: x\" }\n";
        let machine = Platform::from_toml(text).unwrap();
        assert_eq!(arms(&machine, "0-3", &load(2)), ["one-cpu=0", "cpu-per-thread=0-1"]);
        let unknown = why(&machine, "0-3", &load(2), ArmKind::OneCache);
        assert!(unknown.contains("does not say"), "{unknown}");
    }
}
