// SPDX-License-Identifier: MIT OR Apache-2.0
//! CPUs of unequal capacity. The tests assume identical CPUs, so a yes must hold on the slowest CPU.
//!
//! Execution times of a set are those on the fastest CPUs. On a CPU of capacity `c` of `c_max` a job takes `c_max /
//! c` times as long. If a test accepts with each task as long as on the slowest CPU that the task may use, the set
//! also meets its deadlines when tasks run elsewhere, because a shorter job harms none of these tests.

use corehop_plan::platform::Platform;
use corehop_plan::units::Cpu;
use corehop_plan::workload::placement::TaskPlacement;
use corehop_plan::workload::task::{TaskSet, Time};

/// The set with the longer execution times of a machine with different CPUs, or why the speeds are not known. Returns
/// `None` if all CPUs have equal speed.
pub(crate) fn stretched(set: &TaskSet, platform: &Platform) -> Option<Result<TaskSet, String>> {
    let speeds = match speeds(platform)? {
        Ok(speeds) => speeds,
        Err(why) => return Some(Err(why)),
    };
    let fastest = speeds.iter().map(|it| it.1).max()?;
    let slowest = |cpus: &mut dyn Iterator<Item = usize>| {
        cpus.filter_map(|place| speeds.get(place)).map(|it| it.1).min()
    };
    let all = slowest(&mut (0..speeds.len()))?;
    // A set on fewer CPUs than the machine has does not say which ones they are.
    let numbered = set.cpus() as usize == speeds.len();
    let of = |at: usize| -> Time {
        let own = set.placement().filter(|_| numbered).map(|places| places[at].cpus());
        let capacity = own.and_then(|cpus| slowest(&mut cpus.into_iter())).unwrap_or(all);
        let wcet = u128::from(set.tasks()[at].wcet()) * u128::from(fastest);
        Time::new(wcet.div_ceil(u128::from(capacity)).min(u128::from(u64::MAX >> 8)) as u64)
    };
    let wcets: Vec<Time> = (0..set.tasks().len()).map(of).collect();
    let in_parts = |place: &TaskPlacement| !matches!(place, TaskPlacement::Cpus(_));
    if set.placement().is_some_and(|places| places.iter().any(in_parts)) {
        let why = "pieces and shares on CPUs of unequal capacity are not analysed";
        return Some(Err(why.to_owned()));
    }
    let longer = wcets.iter().zip(set.tasks()).any(|(&wcet, task)| wcet > task.wcet());
    longer.then(|| Ok(set.clone().stretched(&wcets)))
}

/// The capacity of each CPU, by index, or why the capacities are not known. Returns `None` if all CPUs are of one kind.
fn speeds(platform: &Platform) -> Option<Result<Vec<(Cpu, u32)>, String>> {
    if platform.core_kinds.len() < 2 {
        return None;
    }
    let capacity = |cpu: Cpu| {
        let kind = platform.core_kinds.iter().find(|kind| kind.cpus.value.contains(cpu));
        kind.and_then(|kind| kind.capacity.as_ref()).map(|it| it.value.max(1))
    };
    let of = |cpu: Cpu| capacity(cpu).map(|capacity| (cpu, capacity)).ok_or(cpu);
    let all: Result<Vec<_>, Cpu> = platform.cpus.value.iter().map(of).collect();
    Some(all.map_err(|cpu| {
        format!(
            "{} has cores of several kinds, but the capacity of {cpu} is unknown: state the capacities in the platform file",
            platform.id
        )
    }))
}

/// The reason why a yes for identical CPUs does not hold on this machine.
pub(crate) fn why(platform: &Platform) -> String {
    let speeds = speeds(platform).and_then(Result::ok).unwrap_or_default();
    let fastest = speeds.iter().map(|it| it.1).max().unwrap_or(1);
    let slowest = speeds.into_iter().min_by_key(|it| it.1);
    slowest.map_or_else(String::new, |(cpu, capacity)| {
        format!(
            "the test accepts the set if all CPUs are as fast as the fastest, but not with the execution times of the slowest CPU that tasks may use (the capacity of {cpu} is {capacity} of {fastest})"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::charge::{ChargedSet, DelayCharge};
    use crate::{Verdict, test};
    use corehop_plan::platform::{CoreKind, Fact};
    use corehop_plan::workload::set_file;

    /// The four CPUs of the Phenom, with the last two slow.
    fn two_kinds(slow: Option<u32>) -> Platform {
        let mut platform = Platform::named("phenom_9550").unwrap().unwrap();
        let kind = |name: &str, cpus: &str, capacity: Option<u32>| CoreKind {
            name: name.to_owned(),
            cpus: Fact::cited(cpus.parse().unwrap(), "here"),
            capacity: capacity.map(|it| Fact::cited(it, "here")),
            frequency: None,
            core: corehop_plan::platform::Core::default(),
        };
        platform.core_kinds = vec![kind("big", "0-1", Some(1_024)), kind("little", "2-3", slow)];
        platform
    }

    fn verdict(cpus: u32, tasks: &str, name: &str, slow: Option<u32>) -> (Verdict, String) {
        let set = set_file::parse(&format!(r#"{{"cpus": {cpus}, "tasks": [{tasks}]}}"#)).unwrap();
        let platform = two_kinds(slow);
        let mut charged = ChargedSet::new(&set, Some(&platform), DelayCharge::Nothing, None);
        let answer = charged.ask(test(name).unwrap()).unwrap().answer;
        (answer.verdict, answer.why.unwrap_or_default())
    }

    #[test]
    fn a_yes_holds_on_the_slowest_cpu_or_is_none() {
        // 0.69 of a CPU of capacity 0.27 is more than there is; 0.2 is not.
        let task =
            |wcet: u32, more: &str| format!(r#"{{"wcet_us": {wcet}, "period_us": 100{more}}}"#);
        for name in ["p-edf-wfd", "g-edf", "p-fp-wfd", "c-edf-4"] {
            let (found, why) = verdict(4, &task(69, ""), name, Some(276));
            assert_eq!(found, Verdict::Unknown, "{name}");
            assert!(why.contains("276 of 1024"), "{name}: {why}");
            assert_eq!(
                verdict(4, &task(20, ""), name, Some(276)).0,
                Verdict::Schedulable,
                "{name}"
            );
            // Kinds of the same capacity are no difference, and unknown ones may be one.
            assert_eq!(verdict(4, &task(69, ""), name, Some(1_024)).0, Verdict::Schedulable);
            assert_eq!(verdict(4, &task(69, ""), name, None).0, Verdict::Unknown, "{name}");
        }
        // On the CPU that the set gives it.
        assert_eq!(
            verdict(4, &task(69, r#", "cpus": [1]"#), "p-edf-given", Some(276)).0,
            Verdict::Schedulable
        );
        let on_slow = verdict(4, &task(69, r#", "cpus": [2]"#), "p-edf-given", Some(276));
        assert_eq!(on_slow.0, Verdict::Unknown);
        // More than four fast CPUs can do is too much.
        let five = [task(90, ""), task(90, ""), task(90, ""), task(90, ""), task(90, "")].join(",");
        assert_eq!(verdict(4, &five, "necessary", Some(276)).0, Verdict::Unschedulable);
    }
}
