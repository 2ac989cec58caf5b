// SPDX-License-Identifier: MIT OR Apache-2.0
//! A placement that the placer kept, as text for a shell, a systemd unit, a container, or another program.
//!
//! The names of threads, processes and cgroups come from other people, so that a name may hold any character. A
//! comment shows the name of a thread, process or cgroup with its control characters escaped; a command has the name
//! in quotes, or leaves it out if it has unusual characters.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::placement;
use super::table::wrapped;
use super::wake_cost;
use corehop_decide::placer::log::PlacementFindings;
use corehop_decide::placer::pin::{Pin, PinEvidence, PinnedProcess, PinnedThread};
use corehop_plan::shown;
use corehop_plan::units::CpuList;

/// The form in which corehop prints a kept placement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Emit {
    /// Commands of taskset for a shell, which name threads by their numbers and by their names.
    Taskset,
    /// Drop-in files for services of systemd.
    Systemd,
    /// The CPUs of containers and cgroups.
    Cpuset,
    /// The placement with all of its evidence, as JSON.
    Json,
}

/// Writes a kept placement in the form `emit`.
pub fn text(pin: &Pin, emit: Emit) -> String {
    let body = match emit {
        Emit::Json => return format!("{:#}\n", json!(pin)),
        Emit::Taskset => taskset(pin),
        Emit::Systemd => systemd(pin),
        Emit::Cpuset => cpuset(pin),
    };
    heading(&pin.evidence) + &body
}

/// Writes in the syntax of `emit` that there is nothing to pin, and why.
pub fn nothing(why: &str, emit: Emit) -> String {
    match emit {
        Emit::Json => {
            let none: [Value; 0] = [];
            format!("{:#}\n", json!({"placement": none, "why": why}))
        }
        _ => comment(why),
    }
}

/// Returns a sentence about the reason why there is nothing to pin.
pub fn reason(answer: &PlacementFindings) -> String {
    let why = match answer.trials.last() {
        Some(it) => placement::judged(it),
        None if !answer.proposals.is_empty() => {
            "no trial of a placement finished in this time.".to_owned()
        }
        None => placement::placement(answer),
    };
    let mut letters = why.chars();
    let small =
        letters.next().map_or_else(String::new, |it| it.to_lowercase().chain(letters).collect());
    format!("Nothing to pin: {small}")
}

/// Returns a sentence about the text that corehop wrote, and whether the chosen form can express the whole placement.
pub fn sentence(pin: &Pin, emit: Emit) -> (String, bool) {
    let of = |it: &&PinnedProcess| it.whole().is_ok();
    let (all, whole) = (pin.processes.len(), pin.processes.iter().filter(of).count());
    let is_whole = matches!(emit, Emit::Json | Emit::Taskset) || (all > 0 && whole == all);
    let ratio = ratio(&pin.evidence);
    let what = match emit {
        Emit::Taskset => "commands of taskset",
        Emit::Systemd => "a drop-in for each service",
        Emit::Cpuset => "a set of CPUs for each container",
        Emit::Json => "the placement as JSON",
    };
    let limit = if is_whole {
        String::new()
    } else if all == 0 {
        " The processes have exited, so no unit or container can be named.".to_owned()
    } else {
        format!(
            " Of {all} processes, {whole} can be confined as a whole: a unit or a container cannot pin single threads."
        )
    };
    (format!("Kept a placement ({ratio}), restored all masks, and wrote {what}.{limit}"), is_whole)
}

fn ratio(it: &PinEvidence) -> String {
    let it = it.outcome;
    format!(
        "progress placed over left alone {:.2} [{:.2}, {:.2}], 95 %, {} pairs",
        it.ratio, it.low, it.high, it.pairs
    )
}

/// Returns a shell comment, broken into lines of at most 100 columns.
fn comment(text: &str) -> String {
    let lines = wrapped(&shown::line(text), 98);
    lines.lines().fold(String::new(), |all, line| all + "# " + line + "\n")
}

/// Writes the evidence for a placement as comments.
fn heading(it: &PinEvidence) -> String {
    let host = &it.host;
    let outcome = it.outcome;
    let mut text = comment(&format!(
        "`corehop place` kept this placement: {} of stretches; {} pairs are excluded because the distance of the CPUs changed.",
        ratio(it),
        outcome.set_aside
    ));
    text += &comment(&format!(
        "Measured on {}, Linux {}, load {}, {}, by corehop {}; progress: {}.",
        host.platform, host.kernel, host.load, host.date, host.corehop, it.progress
    ));
    let caches: Vec<String> = it.caches.iter().map(ToString::to_string).collect();
    let line = |what: &str, times: Option<[f64; 2]>| {
        times.map_or_else(String::new, |[least, most]| {
            format!(" A line took {least:.0} to {most:.0} ns {what}.")
        })
    };
    text += &comment(&format!(
        "CPUs below each last-level cache: {}.{}{}",
        caches.join("; "),
        line("within a cache", it.line_shared_cache_ns),
        line("between caches", it.line_separate_ns)
    ));
    if let Some(cost) = &it.wake_up {
        text += &comment(&format!("There, {}.", wake_cost::costs(cost)));
        text += &wake_cost::cure(cost).map_or_else(String::new, |it| comment(&it));
    }
    text + &comment("Measure again after a change of the program, its load, or the host.") + "\n"
}

/// Returns the name and number of a process, such as `redis-server (process 4711)`.
fn process(it: &PinnedProcess) -> String {
    format!("{} (process {})", shown::line(&it.residence.name), it.residence.pid)
}

/// Returns whether a name can stand in quotes in a shell command, because it has only plain characters and none that
/// ends the quotes.
fn is_plain(name: &str) -> bool {
    let plain = |it: char| {
        it.is_ascii_graphic() && !matches!(it, '\'' | '\\' | '`' | '$' | '"') || it == ' '
    };
    !name.is_empty() && name.chars().all(plain)
}

/// A shell function that pins threads by the names of their process and thread.
const BY_NAME: &str = "pin() {  # PROCESS THREAD CPUS\n  for p in /proc/[0-9]*; do\n    \
     [ \"$(cat \"$p/comm\" 2>/dev/null)\" = \"$1\" ] || continue\n    for t in \"$p\"/task/[0-9]*; do\n      \
     [ \"$(cat \"$t/comm\" 2>/dev/null)\" = \"$2\" ] && taskset -pc \"$3\" \"${t##*/}\"\n    done\n  done\n}\n";

fn taskset(pin: &Pin) -> String {
    let mut text = comment("By the numbers of threads, as long as these threads live:");
    for it in &pin.placement {
        let _ = writeln!(text, "taskset -pc {} {}  # {}", it.cpus, it.tid, shown::line(&it.name));
    }
    let mut named: Vec<(&str, &str, &CpuList)> = Vec::new();
    let mut left = Vec::new();
    for it in &pin.placement {
        match by_name(pin, it) {
            Some(name) if !named.contains(&name) => named.push(name),
            Some(_) => {}
            None => left.push(it.tid.to_string()),
        }
    }
    if !named.is_empty() {
        text += "\n";
        text += &comment("By the names of process and thread, after a restart:");
        text += BY_NAME;
        for (process, thread, cpus) in named {
            let _ = writeln!(text, "pin '{process}' '{thread}' {cpus}");
        }
    }
    if !left.is_empty() {
        text += &comment(&format!(
            "These lines do not name threads {}, because other threads have the same name, or the name is not plain text.",
            left.join(", ")
        ));
    }
    text
}

/// Returns the names and the CPUs of a thread, if the names are plain and the placement gives these CPUs to all placed
/// threads with these names.
fn by_name<'a>(pin: &'a Pin, it: &'a PinnedThread) -> Option<(&'a str, &'a str, &'a CpuList)> {
    let of = |pid: u32| {
        Some(pin.processes.iter().find(|it| it.residence.pid == pid)?.residence.name.as_str())
    };
    let process = of(it.pid)?;
    let others = pin
        .placement
        .iter()
        .filter(|other| other.name == it.name && of(other.pid) == Some(process));
    let is_one = others.clone().all(|other| other.cpus == it.cpus);
    (is_one && is_plain(process) && is_plain(&it.name)).then_some((process, &it.name, &it.cpus))
}

fn systemd(pin: &Pin) -> String {
    let mut text = String::new();
    for it in &pin.processes {
        let unit = it.residence.unit.as_deref();
        let service = unit.unwrap_or("SERVICE.service");
        if unit.is_none() {
            text += &comment(&format!(
                "{} belongs to no known service: put these lines into a drop-in of the unit that starts the process.",
                process(it)
            ));
        }
        let same_unit =
            |other: &&PinnedProcess| unit.is_some() && other.residence.unit.as_deref() == unit;
        let rest = || pin.processes.iter().filter(same_unit);
        // A service with several processes has one section, at the first of them.
        if rest().next().is_some_and(|first| first.residence.pid != it.residence.pid) {
            continue;
        }
        let whole = it.whole().and_then(|cpus| {
            let differs = rest().any(|other| other.whole() != Ok(cpus));
            if differs {
                Err("its processes were placed on different CPUs".to_owned())
            } else {
                Ok(cpus)
            }
        });
        text += &comment(&format!(
            "/etc/systemd/system/{service}.d/corehop.conf, for {}:",
            process(it)
        ));
        match whole {
            Ok(cpus) => {
                text += &beside(it);
                let _ = writeln!(text, "[Service]\nCPUAffinity={cpus}\n");
            }
            Err(why) => text += &(comment(&not_by_unit(it, service, &why)) + "\n"),
        }
    }
    text += &comment(
        "CPUAffinity= applies to all threads and child processes of a service; a unit cannot pin a single thread. A drop-in takes effect after systemctl daemon-reload and a restart of the service.",
    );
    text
}

/// Returns a remark on the threads that the trial left alone, but that the line before would confine together with
/// their process.
fn beside(it: &PinnedProcess) -> String {
    if it.other_threads == 0 {
        return String::new();
    }
    let percent = 100.0 * it.others_use;
    comment(&format!(
        "This line also confines {} thread(s) that the trial left alone; they used {percent:.1} % of a CPU.",
        it.other_threads
    ))
}

fn not_by_unit(it: &PinnedProcess, service: &str, why: &str) -> String {
    let tried = it
        .cpus
        .as_ref()
        .map_or_else(String::new, |cpus| format!(" (CPU {cpus} for the placed threads)"));
    format!(
        "No CPUAffinity= for {service}: {why}{tried}. The trial did not confine the whole service. `--emit taskset` has commands for single threads, for example in ExecStartPost=."
    )
}

fn cpuset(pin: &Pin) -> String {
    let mut text = String::new();
    for it in &pin.processes {
        let cgroup = it.residence.cgroup.as_deref().unwrap_or("unknown");
        text += &comment(&format!("{}, cgroup {}:", process(it), shown::line(cgroup)));
        let cpus = match it.whole() {
            Ok(cpus) => cpus,
            Err(why) => {
                text += &comment(&format!(
                    "No set of CPUs: {why}. A container cannot pin single threads, and the trial did not confine all threads."
                ));
                text.push('\n');
                continue;
            }
        };
        text += &beside(it);
        text += &container(it, cpus);
        text += "\n";
    }
    text += &comment(
        "Kubernetes: a pod cannot name CPUs. With the kubelet's --cpu-manager-policy=static, a container of the class Guaranteed with whole CPUs (requests equal to limits) gets exclusive CPUs, which the kubelet chooses. Containers that belong on one CPU must be one container there.",
    );
    text
}

/// Returns the lines that confine a container's process through docker, compose, or the file of its cgroup.
fn container(it: &PinnedProcess, cpus: &CpuList) -> String {
    let id = it.residence.cgroup.as_deref().and_then(container_id).unwrap_or("CONTAINER");
    let mut text = format!("docker update --cpuset-cpus={cpus} {id}\n");
    text += &comment(&format!(
        "docker run --cpuset-cpus={cpus} …, and in a compose file: cpuset: \"{cpus}\""
    ));
    text += &comment(&format!(
        "Kubernetes, static policy: resources of {} whole CPU(s) for this container",
        cpus.len()
    ));
    match it.residence.cpuset.as_deref().filter(|folder| is_plain(folder)) {
        Some(folder) => {
            let _ = writeln!(
                text,
                "echo {cpus} > '{folder}/cpuset.cpus'  # all processes of the cgroup"
            );
        }
        None => {
            text += &comment(
                "cgroup: the process is in the root, or its cgroup has no cpuset.cpus: give the process its own cgroup first",
            );
        }
    }
    text
}

/// Returns the first twelve digits of a container's number, which has 64 hexadecimal digits in the path of the
/// container's cgroup.
fn container_id(cgroup: &str) -> Option<&str> {
    let mut words = cgroup.split(|it: char| !it.is_ascii_alphanumeric());
    let is_id = |word: &&str| word.len() == 64 && word.bytes().all(|it| it.is_ascii_hexdigit());
    words.rfind(is_id).map(|it| &it[..12])
}

#[cfg(test)]
mod tests {
    use super::*;
    use corehop_decide::example::{OUTCOME, pin, placed as answer};
    use corehop_decide::placer::trial::{TrialVerdict, UndecidedReason};

    /// Returns every line that is no comment.
    fn active(text: &str) -> Vec<&str> {
        text.lines().filter(|it| !it.is_empty() && !it.starts_with('#')).collect()
    }

    #[test]
    fn a_service_whose_threads_share_cpus_gets_a_drop_in_with_the_evidence_before_it() {
        let text = text(&pin(&[(7, "0"), (8, "0"), (21, "0")]), Emit::Systemd);
        assert_eq!(active(&text), ["[Service]", "CPUAffinity=0", "[Service]", "CPUAffinity=0"]);
        for words in [
            "2.41 [2.10, 2.66]",
            "6 pairs",
            "/etc/systemd/system/redis.service.d/corehop.conf",
            "1 thread(s)",
            "bench (process 20) belongs to no known service",
            "cannot pin a single thread",
            "150 to 200 ns",
        ] {
            assert!(text.replace("\n# ", " ").contains(words), "{words}: {text}");
        }
        assert!(text.lines().all(|it| it.chars().count() <= 100), "{text}");
    }

    #[test]
    fn what_a_unit_or_a_container_cannot_express_is_said_and_no_line_of_it_takes_effect() {
        let apart = pin(&[(7, "0"), (8, "1")]);
        for emit in [Emit::Systemd, Emit::Cpuset] {
            let text = text(&apart, emit);
            let seven: Vec<&str> =
                active(&text).into_iter().filter(|it| it.contains("CPUAffinity")).collect();
            assert!(seven.len() <= 1 && text.contains("different CPUs"), "{text}");
            let (sentence, whole) = sentence(&apart, emit);
            assert!(!whole && sentence.contains("cannot pin single threads"), "{sentence}");
        }
        assert!(sentence(&apart, Emit::Taskset).1);
    }

    #[test]
    fn commands_name_threads_by_number_and_by_plain_names_alone() {
        let mut pin = pin(&[(7, "0"), (8, "1"), (21, "1")]);
        pin.placement[1].name = "a'; reboot; '".to_owned();
        pin.placement[2].name = "x\ny\u{1b}[2J".to_owned();
        let text = text(&pin, Emit::Taskset);
        assert!(text.contains("taskset -pc 0 7  # worker-7\n") && text.contains("taskset -pc 1 8"));
        assert!(text.contains("pin 'redis' 'worker-7' 0\n") && !text.contains("pin 'redis' 'a"));
        assert!(text.replace("\n# ", " ").contains("do not name threads 8, 21"), "{text}");
        // No name ends a comment or a quotation.
        let commands = active(&text).into_iter().filter(|it| !BY_NAME.contains(it));
        assert!(
            commands
                .into_iter()
                .all(|it| it.starts_with("taskset -pc ") || it.starts_with("pin '"))
        );
        assert!(!text.contains('\u{1b}'), "{text}");
    }

    #[test]
    fn a_container_is_named_by_its_number_and_its_cgroup_by_its_folder() {
        let mut pin = pin(&[(7, "0"), (8, "0")]);
        let id = "0123456789ab".repeat(6);
        pin.processes[0].residence.cgroup = Some(format!("/docker-{}.scope", &id[..64]));
        let text = text(&pin, Emit::Cpuset);
        assert!(text.contains("docker update --cpuset-cpus=0 0123456789ab\n"), "{text}");
        assert!(text.contains("echo 0 > '/sys/fs/cgroup/system.slice/redis.service/cpuset.cpus'"));
        assert!(text.contains("static") && text.contains("cpuset: \"0\""), "{text}");
        assert_eq!(container_id("/user.slice"), None);
    }

    #[test]
    fn json_has_the_placement_and_all_evidence() {
        let json: Value =
            serde_json::from_str(&text(&pin(&[(7, "0"), (21, "0")]), Emit::Json)).unwrap();
        assert_eq!(json["placement"][0]["tid"], 7);
        assert_eq!(json["placement"][0]["cpus"], "0");
        assert_eq!(json["processes"][0]["unit"], "redis.service");
        for key in ["ratio", "low", "high", "pairs", "caches", "wake_costs", "host", "progress"] {
            assert!(!json["evidence"][key].is_null(), "{key}: {json:#}");
        }
    }

    #[test]
    fn nothing_to_pin_has_its_reason_in_the_syntax_of_each_form() {
        let moves = [(7, "0")];
        for (verdict, words) in [
            (TrialVerdict::Same(OUTCOME), "not told apart"),
            (TrialVerdict::Worse(OUTCOME), "worse"),
            (TrialVerdict::Invalid { why: UndecidedReason::StoodStill }, "no verdict"),
        ] {
            let why = reason(&answer(&moves, verdict, false));
            assert!(why.starts_with("Nothing to pin: ") && why.contains(words), "{why}");
            for emit in [Emit::Taskset, Emit::Systemd, Emit::Cpuset] {
                let text = nothing(&why, emit);
                assert!(active(&text).is_empty() && text.contains("Nothing to pin"), "{text}");
            }
            let json: Value = serde_json::from_str(&nothing(&why, Emit::Json)).unwrap();
            assert!(
                json["placement"].as_array().unwrap().is_empty() && json["why"] == why.as_str()
            );
        }
    }
}
