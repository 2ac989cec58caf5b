// SPDX-License-Identifier: MIT OR Apache-2.0
//! The doctor on hosts that are written out as files.
//!
//! One host is as it should be. Every other is that one with something changed, so that each row
//! shows both: the finding with the change, and none without it.

mod trees;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use corehop_linux::preflight::{
    Probes, doctor, examine, idle_wait, is_impossible, movers, reasons,
};
use corehop_plan::finding::{Finding, Severity};
use corehop_plan::platform::Platform;
use corehop_system::discover::{SysRoot, discover};
use tempfile::TempDir;
use trees::{tree, write};

use Severity::{Note, Obstacle, Ok as Fine, Warning};

const GOOD: &str = "as_it_should_be";

/// The answers that a good host gives.
fn good_answers() -> Probes {
    Probes {
        real_time: Some(Ok(())),
        rseq: Some(Ok(())),
        hardware_counters: Some(Ok(())),
        wake_limit_us: None,
        program: Some("/opt/corehop".into()),
    }
}

fn found(root: &TempDir, probes: &Probes) -> Vec<Finding> {
    let root = SysRoot::at(root.path());
    examine(&root, &discover(&root).unwrap(), probes)
}

fn about<'a>(findings: &'a [Finding], id: &str) -> &'a Finding {
    findings.iter().find(|finding| finding.id == id).unwrap_or_else(|| panic!("nothing on {id}"))
}

/// The good host with other files: `PATH: CONTENT`, or `- PATH` to remove a file or a folder.
fn changed(changes: &str) -> TempDir {
    let root = tree(GOOD);
    let (removals, files): (Vec<_>, Vec<_>) =
        changes.lines().map(str::trim_start).partition(|line| line.starts_with("- "));
    for path in removals.iter().map(|line| root.path().join(&line[2..])) {
        if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) }.unwrap();
    }
    write(root.path(), &files.join("\n"));
    root
}

/// A change of the good host, in files; the finding that it concerns, and its severity; a part of the text
/// found, and of the remedy.
type Row = (&'static str, &'static str, &'static str, Severity, &'static str, &'static str);

fn check(rows: &[Row]) {
    let good = found(&tree(GOOD), &good_answers());
    for (name, changes, id, severity, says, helps) in rows {
        assert_eq!(about(&good, id).severity, Fine, "{name}: {id} is open without the change");
        let findings = found(&changed(changes), &good_answers());
        let finding = about(&findings, id);
        assert_eq!(finding.severity, *severity, "{name}: {finding:?}");
        assert!(finding.found.contains(says), "{name}: {finding:?}");
        let help = [&finding.remedy, &finding.remark].map(|text| text.as_deref().unwrap_or(""));
        assert!(help.iter().any(|text| text.contains(helps)), "{name}: {finding:?}");
    }
}

#[test]
fn a_host_that_is_as_it_should_be_has_nothing_open() {
    let findings = found(&tree(GOOD), &good_answers());
    let open: Vec<_> = findings.iter().filter(|finding| finding.is_open()).collect();
    assert!(open.is_empty(), "{open:#?}");
    assert!(!is_impossible(&findings));
    let named: BTreeSet<_> = findings.iter().map(|finding| finding.id.as_str()).collect();
    // A host that tells everything, on which nothing is measured (only the verb `doctor` does), and whose
    // journals are not read (only those of this host are).
    let elsewhere = ["not-told", "distance", "wake-up", "left-behind"];
    let known: BTreeSet<_> =
        reasons().map(|(id, _)| id).filter(|id| !elsewhere.contains(id)).collect();
    assert_eq!(named, known);
}

#[test]
fn rights_that_are_missing_are_told_with_the_command_that_gives_them() {
    let none = "proc/self/status: Uid:\\t1000\\t1000\\t1000\\t1000\\nCapEff:\\t0000000000000000\\n\
                NoNewPrivs:\\t0\\nCpus_allowed_list:\\t1-3";
    let contained = "proc/self/status: Uid:\\t0\\t0\\t0\\t0\\nCapEff:\\t0000000000000000\\n\
                     NoNewPrivs:\\t1\\nCpus_allowed_list:\\t1-3";
    let nested = "proc/self/uid_map: 0 1000 1";
    let swap = "\nproc/swaps: Filename\\n/dev/sda2 partition 8388604 0 -2";
    let no_proc = "- proc\nproc2/x: 1";
    let with_swap: &'static str = Box::leak(format!("{none}{swap}").into_boxed_str());
    let setcap = "sudo groupadd -f corehop && sudo chgrp corehop /opt/corehop && \
                  sudo chmod 0750 /opt/corehop && sudo setcap cap_sys_nice,cap_ipc_lock,cap_bpf,cap_perfmon+ep /opt/corehop";
    check(&[
        ("no capabilities", none, "memory-lock", Note, "8 MiB", setcap),
        ("… where there is swap", with_swap, "memory-lock", Warning, "8 MiB", setcap),
        ("no capabilities, no tracing", none, "tracing", Note, "CAP_BPF", setcap),
        ("no way to get any", contained, "tracing", Note, "CAP_BPF", "--cap-add SYS_NICE"),
        ("capabilities that do not count", nested, "tracing", Note, "CAP_BPF", setcap),
        ("no types of the kernel", "- sys/kernel/btf", "tracing", Note, "type", "BTF=y"),
        ("no /proc", no_proc, "procfs", Obstacle, "not mounted", "mount -t proc proc /proc"),
    ]);
}

#[test]
fn real_time_is_what_the_kernel_answers_and_the_files_explain_it() {
    let refused = Probes { real_time: Some(Err(libc::EPERM)), ..good_answers() };
    let findings = found(&tree(GOOD), &refused);
    let finding = about(&findings, "real-time");
    assert_eq!(finding.severity, Warning);
    assert!(finding.found.contains("in spite of CAP_SYS_NICE"), "{finding:?}");
    let bare = "proc/self/status: Uid:\\t0\\t0\\t0\\t0\\nCapEff:\\t0\\nCpus_allowed_list:\\t1-3";
    let findings = found(&changed(bare), &refused);
    let finding = about(&findings, "real-time");
    assert!(finding.found.contains("neither CAP_SYS_NICE nor RLIMIT_RTPRIO"), "{finding:?}");
    // To root the command is told without sudo.
    assert!(finding.remedy.as_ref().unwrap().starts_with("groupadd "), "{finding:?}");
    let unasked = Probes::default();
    let limit = "proc/self/limits: Max realtime priority     99    99";
    let by_limit = changed(&format!("{bare}\n{limit}"));
    assert!(about(&found(&by_limit, &unasked), "real-time").found.contains("RLIMIT_RTPRIO"));
    assert_eq!(about(&found(&changed(bare), &unasked), "real-time").severity, Warning);
}

#[test]
fn what_stops_a_real_time_thread_is_told() {
    let debugfs = "sys/kernel/debug/sched";
    let greedy: &'static str =
        Box::leak(format!("{debugfs}/fair_server/cpu2/runtime: 900000000").into_boxed_str());
    let dynamic = "- sys/kernel/realtime\nproc/version: Linux version 6.12.0 SMP PREEMPT_DYNAMIC\n\
                   sys/kernel/debug/sched/preempt: none voluntary (full) lazy";
    let by_parameter = "- sys/kernel/realtime\nproc/version: Linux 6.1 SMP PREEMPT_DYNAMIC\n\
                        proc/cmdline: preempt=voluntary nohz_full=1-3";
    let no_server = "- sys/kernel/debug\nproc/sys/kernel/sched_rt_runtime_us: 1000000";
    let usual = "sudo sysctl kernel.sched_rt_runtime_us=950000";
    let unlimited = "proc/sys/kernel/sched_rt_runtime_us: -1";
    let little = "proc/sys/kernel/sched_rt_runtime_us: 100000";
    let no_budget = "sys/fs/cgroup/cpu/system.slice/cpu.rt_runtime_us: 0";
    let budget = "echo 500000 | sudo tee /sys/fs/cgroup/cpu/system.slice/cpu.rt_runtime_us";
    check(&[
        ("no throttling", unlimited, "rt-throttling", Warning, "does not throttle", usual),
        ("too little time", little, "rt-throttling", Warning, "10 % of each 1 s", usual),
        ("all time and no server", no_server, "rt-throttling", Note, "100 %", usual),
        ("a greedy fair server", greedy, "fair-server", Warning, "90 %", "echo 50000000"),
        ("a group without a budget", no_budget, "rt-group", Warning, "no real-time", budget),
        ("a kernel with a choice", dynamic, "preemption-model", Note, "full", "another kernel"),
        ("chosen at the start", by_parameter, "preemption-model", Note, "voluntary", "No command"),
    ]);
    let served = changed("proc/sys/kernel/sched_rt_runtime_us: 1000000");
    assert_eq!(about(&found(&served, &good_answers()), "rt-throttling").severity, Fine);
}

#[test]
fn what_the_processor_is_not_is_told() {
    let allowed = |cpus: &str| -> &'static str {
        let status = "proc/self/status: CapEff:\\t000000c000804000\\nCpus_allowed_list:\\t";
        Box::leak(format!("{status}{cpus}").into_boxed_str())
    };
    let single = "sys/devices/system/cpu/present: 0\nsys/devices/system/cpu/online: 0\n\
                  sys/devices/system/cpu/isolated: \n\
                  proc/self/status: CapEff:\\t000000c000804000\\nCpus_allowed_list:\\t0";
    let guest = "proc/cpuinfo: vendor_id : x\\nflags : constant_tsc nonstop_tsc hypervisor\n\
                 sys/class/dmi/id/sys_vendor: QEMU";
    let huge = "{0-3 by 4} sys/devices/system/cpu/cpu@/cache/index3/size: 480M";
    let guest_cache: &'static str = Box::leak(
        format!("{guest}\n{{0-3 by 4}} sys/devices/system/cpu/cpu@/cache/index3/size: 100M")
            .into_boxed_str(),
    );
    let siblings = "{0-3 by 2 stride 2} sys/devices/system/cpu/cpu@/topology/core_cpus_list: %\n\
                    {0-3 by 2 stride 2} sys/devices/system/cpu/cpu@/cache/index0/shared_cpu_list: %\n\
                    {0-3 by 2 stride 2} sys/devices/system/cpu/cpu@/cache/index2/shared_cpu_list: %";
    let unsteady = "proc/cpuinfo: vendor_id : x\\nflags : fpu constant_tsc";
    let clock = "sys/devices/system/clocksource/clocksource0";
    let hpet: &'static str =
        Box::leak(format!("{clock}/current_clocksource: hpet").into_boxed_str());
    let only: &'static str =
        Box::leak(format!("{hpet}\n{clock}/available_clocksource: hpet acpi_pm").into_boxed_str());
    let mitigated = "sys/devices/system/cpu/vulnerabilities/mds: Mitigation: Clear CPU buffers";
    let taskset = "taskset -c 0-3 corehop doctor";
    check(&[
        ("half of the CPUs", allowed("1-2"), "usable-cpus", Note, "CPUs 1-2 of 0-3", taskset),
        ("one of four CPUs", allowed("2"), "usable-cpus", Warning, "only CPU 2 of 0-3", taskset),
        ("a single CPU", single, "usable-cpus", Warning, "does not use SCHED_FIFO", "no other CPU"),
        ("no CPU", allowed("9"), "usable-cpus", Obstacle, "none of the online CPUs", taskset),
        ("a guest", guest, "hypervisor", Warning, "guest under kvm", "Nothing"),
        ("a cache too large", huge, "llc-size", Warning, "480 MiB serves 4", "measure platform"),
        ("a cache of others", guest_cache, "llc-size", Warning, "other guests", "measure platform"),
        ("siblings", siblings, "smt", Warning, "CPUs 0,2", "--cpus 1-2"),
        ("an unsteady counter", unsteady, "counter", Warning, "nonstop_tsc", "governor"),
        ("another clock", hpet, "clock-source", Warning, "hpet", "echo tsc | sudo tee"),
        ("a counter given up", only, "clock-source", Warning, "hpet", "dmesg | grep -i tsc"),
        ("work-arounds", mitigated, "mitigations", Note, "mds", "mitigations=off"),
    ]);
}

#[test]
fn other_users_of_the_machine_are_told() {
    let compiler =
        "proc/812/stat: 812 (cc1) S 1 1 1 0 -1 0 0 0 0 0 9000 500 0 0 20 0 1 0 9990000 0";
    let runner = "proc/813/stat: 813 (sh) R 1 1 1 0 -1 0 0 0 0 0 1 0 0 0 20 0 1 0 10 0";
    let quota = "proc/self/cgroup: 0::/system.slice\n\
                 sys/fs/cgroup/system.slice/cpu.max: 150000 100000";
    let lift = "echo max | sudo tee /sys/fs/cgroup/system.slice/cpu.max";
    let first =
        "sys/fs/cgroup/cpu/cpu.cfs_quota_us: 50000\nsys/fs/cgroup/cpu/cpu.cfs_period_us: 100000";
    let lift_first = "echo -1 | sudo tee /sys/fs/cgroup/cpu/cpu.cfs_quota_us";
    let stolen = "proc/stat: cpu  100 0 100 700 0 0 0 100 0 0";
    let hardly = "proc/stat: cpu  100 0 100 1000000 0 0 0 1 0 0";
    let scarce = "proc/meminfo: MemAvailable:  130000 kB";
    let none = "proc/meminfo: MemAvailable:  9000 kB";
    let group = "sys/fs/cgroup/memory.max: 104857600\nsys/fs/cgroup/memory.current: 20971520";
    check(&[
        ("load", "proc/loadavg: 3.10 1 1 4/99 7", "load", Warning, "3.10", "top -b"),
        ("a little load", "proc/loadavg: 0.30 1 1 1/99 7", "load", Note, "0.30", "top -b"),
        ("a compiler", compiler, "busy-processes", Warning, "95 % of a CPU", "taskset -apc 0 812"),
        ("something that runs", runner, "busy-processes", Warning, "running now", "-apc 0 813"),
        ("stolen time", stolen, "steal", Warning, "10 %", "Nothing can be done inside the guest"),
        ("hardly any stolen", hardly, "steal", Note, "less than 0.1 %", "Nothing"),
        ("a quota", quota, "cpu-quota", Warning, "1.50 CPUs", lift),
        ("a quota of the first version", first, "cpu-quota", Warning, "0.50 CPUs", lift_first),
        ("little memory", scarce, "memory", Warning, "126 MiB", "--wss"),
        ("a group with little memory", group, "memory", Warning, "80 MiB", "--wss"),
        ("hardly any memory", none, "memory", Obstacle, "8 MiB", "--wss"),
    ]);
}

#[test]
fn a_cpu_that_others_may_use_is_told() {
    let none = "sys/devices/system/cpu/isolated: ";
    let boot = "isolcpus=managed_irq,domain,1-3 nohz_full=1-3 rcu_nocbs=1-3";
    let away = "proc/self/status: CapEff:\\t000000c000804000\\nCpus_allowed_list:\\t0";
    let some = "sys/devices/system/cpu/isolated: 3";
    let partition = "sys/devices/system/cpu/isolated: \nsys/fs/cgroup/cpuset.cpus.isolated: 2-3";
    let ticking = "sys/devices/system/cpu/nohz_full:  (null)";
    let built_without = "- sys/devices/system/cpu/nohz_full";
    let here = "proc/cmdline: rcu_nocbs=2\nsys/devices/system/cpu/nohz_full: ";
    let reached = "proc/irq/24/effective_affinity_list: 2";
    let aside = "echo 0 | sudo tee /proc/irq/*/smp_affinity_list";
    let balanced = "proc/irq/24/effective_affinity_list: 2\n\
                    proc/55/stat: 55 (irqbalance) S 1 1 1 0 -1 0 0 0 0 0 1 1 0 0 20 0 1 0 10 0";
    let everywhere = "sys/devices/system/cpu/isolated: \nproc/irq/24/effective_affinity_list: 2";
    check(&[
        ("no isolation", none, "isolation", Warning, "no CPU is isolated", boot),
        ("not for this process", away, "isolation", Warning, "may not use", "taskset -c 1-3"),
        ("for one CPU", some, "isolation", Note, "CPU 3", "--cpus 3"),
        ("by a partition", partition, "isolation", Note, "CPUs 2-3", "--cpus 2-3"),
        ("a tick", ticking, "tick", Note, "CPUs 1-3 keep their tick", "nohz_full=1-3"),
        ("a tick for good", built_without, "tick", Note, "every CPU", "CONFIG_NO_HZ_FULL=y"),
        ("callbacks", here, "rcu-callbacks", Note, "CPUs 1-3 themselves", "rcu_nocbs=1-3"),
        ("an interrupt", reached, "interrupts", Warning, "nvme0q1 (900 times", aside),
        ("one that is moved about", balanced, "interrupts", Warning, "nvme0q1", "irqbalance"),
        ("one on a shared CPU", everywhere, "interrupts", Note, "1 device interrupt may", aside),
        ("a watchdog", "proc/sys/kernel/nmi_watchdog: 1", "nmi-watchdog", Note, "on", "=0"),
    ]);
    let all = changed("proc/cmdline: rcu_nocbs=all\nsys/devices/system/cpu/nohz_full: ");
    assert_eq!(about(&found(&all, &good_answers()), "rcu-callbacks").severity, Fine);
}

#[test]
fn a_clock_that_changes_is_told() {
    let saving = "sys/devices/system/cpu/cpu2/cpufreq/scaling_governor: powersave";
    let governor =
        "echo performance | sudo tee /sys/devices/system/cpu/cpu*/cpufreq/scaling_governor";
    let ungoverned = "- sys/devices/system/cpu/cpu1/cpufreq\n- sys/devices/system/cpu/cpu2/cpufreq\n\
                      - sys/devices/system/cpu/cpu3/cpufreq";
    let boost = "- sys/devices/system/cpu/intel_pstate\nsys/devices/system/cpu/cpufreq/boost: 1";
    let wide = "sys/devices/system/cpu/cpu1/cpufreq/scaling_min_freq: 800000";
    let deep = "sys/devices/system/cpu/cpu3/cpuidle/state2/disable: 0";
    let deeper = "sys/devices/system/cpu/cpu3/cpuidle/state2/disable: 0\n\
                  sys/devices/system/cpu/cpu3/cpuidle/state3/name: C10\n\
                  sys/devices/system/cpu/cpu3/cpuidle/state3/latency: 890";
    let pstate = "sys/devices/system/cpu/intel_pstate/no_turbo: 0";
    let off = "echo 1 | sudo tee /sys/devices/system/cpu/intel_pstate/no_turbo";
    check(&[
        ("a saving governor", saving, "governor", Warning, "powersave on CPU 2", governor),
        ("no governor", ungoverned, "governor", Note, "no cpufreq", "firmware"),
        ("turbo", pstate, "turbo", Warning, "boost", off),
        ("boost", boost, "turbo", Warning, "boost", "echo 0 | sudo tee"),
        ("a range", wide, "frequency-range", Note, "800 to 2400 MHz", "cp $f/scaling_max_freq"),
        ("a deep state", deep, "idle-states", Warning, "C6 (133 µs", "cpuidle/state2/disable"),
        ("two deep states", deeper, "idle-states", Warning, "C10", "cpuidle/state[23]/disable"),
    ]);
    let limited = Probes { wake_limit_us: Some(0), ..good_answers() };
    assert_eq!(about(&found(&changed(deep), &limited), "idle-states").severity, Fine);
}

#[test]
fn what_the_kernel_does_to_pages_is_told() {
    let huge = "sys/kernel/mm/transparent_hugepage/enabled";
    let always: &'static str =
        Box::leak(format!("{huge}: [always] madvise never").into_boxed_str());
    let never: &'static str = Box::leak(format!("{huge}: always madvise [never]").into_boxed_str());
    let reserve = "echo 32 | sudo tee /sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages";
    let pool = "sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages: 0\n\
                sys/kernel/mm/hugepages/hugepages-1048576kB/free_hugepages: 0";
    let nodes = "sys/devices/system/node/node0/cpulist: 0-1\nproc/sys/kernel/numa_balancing: 1\n\
                 sys/devices/system/node/node1/cpulist: 2-3";
    let swap = "proc/swaps: Filename\\n/dev/sda2 partition 8388604 0 -2";
    let madvise = "echo madvise | sudo tee";
    check(&[
        ("huge pages unasked", always, "transparent-huge-pages", Note, "always", madvise),
        ("no huge pages", never, "transparent-huge-pages", Note, "--page thp", madvise),
        ("an empty pool", pool, "huge-page-pool", Note, "--page hugetlb", reserve),
        ("merging", "sys/kernel/mm/ksm/run: 1", "page-merging", Note, "merged", "ksm/run"),
        ("swap", swap, "swap", Note, "there is swap", "sudo swapoff -a"),
        ("moving pages", nodes, "numa-balancing", Warning, "2 nodes", "numa_balancing=0"),
    ]);
    let llc = "sys/kernel/debug/sched/llc_balancing/enabled: 1";
    let loaded = "sys/kernel/sched_ext/state: enabled\nsys/kernel/sched_ext/root/ops: rusty_1.0";
    let numad = "proc/77/stat: 77 (numad) S 1 77 77 0 -1 0 0 0 0 0 5 5 0 0 20 0 1 0 900 0 0";
    check(&[
        ("gathered threads", llc, "cache-aware-balancing", Note, "below one cache", "echo 0 |"),
        ("another scheduler", loaded, "sched-ext", Note, "rusty_1.0", "Stop the scheduler"),
        ("numad", numad, "numad", Warning, "process 77", "stop numad"),
    ]);
    let all = found(&changed(&[llc, loaded, numad].join("\n")), &good_answers());
    assert_eq!(movers(&all).count(), 3);
    assert_eq!(movers(&found(&changed(""), &good_answers())).count(), 0);
    let single = changed("proc/sys/kernel/numa_balancing: 1");
    assert_eq!(about(&found(&single, &good_answers()), "numa-balancing").severity, Fine);
}

#[test]
fn what_cannot_be_observed_is_told() {
    let level = "proc/sys/kernel/perf_event_paranoid: 4\n\
                 proc/self/status: CapEff:\\t0000000000804000\\nCpus_allowed_list:\\t1-3";
    let locked = "sys/kernel/security/lockdown: none integrity [confidentiality]";
    check(&[
        ("a high level", level, "perf-events", Note, "is 4", "perf_event_paranoid=2"),
        ("a locked kernel", locked, "lockdown", Note, "no tracing programs", "Secure Boot"),
    ]);
    let answers = [
        (libc::ENOENT, "there are no hardware counters", "No command helps"),
        (libc::EACCES, "denied", "seccomp"),
    ];
    for (error, says, helps) in answers {
        let probes = Probes { hardware_counters: Some(Err(error)), ..good_answers() };
        let findings = found(&tree(GOOD), &probes);
        let finding = about(&findings, "hardware-counters");
        assert!(finding.severity == Note && finding.found.contains(says), "{finding:?}");
        assert!(finding.remark.as_ref().unwrap().contains(helps), "{finding:?}");
    }
    let probes = Probes { rseq: Some(Err(libc::ENOSYS)), ..good_answers() };
    let findings = found(&tree(GOOD), &probes);
    let finding = about(&findings, "rseq");
    assert!(finding.severity == Warning && finding.remark.is_some(), "{finding:?}");
    let unasked = found(&tree(GOOD), &Probes::default());
    assert!(about(&unasked, "not-told").found.ends_with("report: rseq"), "{unasked:?}");
}

/// The properties of every finding, on any host.
fn is_sound(findings: &[Finding], of: &str) {
    let known: Vec<_> = reasons().collect();
    let mut seen = BTreeSet::new();
    for finding in findings {
        assert!(seen.insert(&finding.id), "{of}: {} twice", finding.id);
        assert!(known.contains(&(&finding.id, &finding.why)), "{of}: {finding:?}");
        assert!(!finding.found.is_empty() && !finding.found.contains('\n'), "{of}: {finding:?}");
        if finding.severity >= Warning {
            assert!(finding.remedy.is_some() || finding.remark.is_some(), "{of}: {finding:?}");
        }
        assert!(!finding.is_open() || finding.remedy.is_some() || finding.remark.is_some());
    }
    let ranks: Vec<_> = findings.iter().map(|finding| finding.severity).collect();
    assert!(ranks.is_sorted_by(|a, b| a >= b), "{of}: {ranks:?}");
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

#[test]
fn a_missing_file_or_one_of_nonsense_is_no_reason_to_panic() {
    let root = tree(GOOD);
    let platform = discover(&SysRoot::at(root.path())).unwrap();
    let look = || examine(&SysRoot::at(root.path()), &platform, &good_answers());
    // One CPU stands for all.
    let is_of_another = |path: &PathBuf| {
        let path = path.display().to_string();
        ["/cpu1/", "/cpu2/", "/cpu3/"].iter().any(|cpu| path.contains(cpu))
    };
    for path in files(root.path()).into_iter().filter(|path| !is_of_another(path)) {
        let good = fs::read_to_string(&path).unwrap();
        let digits_as = |digit: &str| good.replace(|c: char| c.is_ascii_digit(), digit);
        let (zeros, large) = (digits_as("0"), digits_as("999999999"));
        for text in ["", "nonsense [(:", "-1", "99999999999999999999", &zeros, &large] {
            fs::write(&path, text).unwrap();
            is_sound(&look(), &format!("{} holding `{text}`", path.display()));
        }
        fs::remove_file(&path).unwrap();
        is_sound(&look(), &format!("{} missing", path.display()));
        fs::write(&path, &good).unwrap();
    }
}

#[test]
fn a_host_that_tells_nothing_is_told_so() {
    let platform: Platform = discover(&SysRoot::at(tree(GOOD).path())).unwrap();
    let empty = TempDir::new().unwrap();
    let findings = examine(&SysRoot::at(empty.path()), &platform, &Probes::default());
    is_sound(&findings, "an empty folder");
    assert!(about(&findings, "not-told").found.contains("governor, turbo"), "{findings:?}");
    assert!(is_impossible(&findings), "without /proc");
}

#[test]
fn every_machine_written_out_here_is_described_soundly() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/trees");
    let trees = files(&folder).into_iter().filter(|path| path.extension().unwrap() == "txt");
    let names = trees.map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned());
    // The large ones have thousands of files, and nothing new to say here.
    for name in names.filter(|name| !name.starts_with("big")) {
        is_sound(&found(&tree(&name), &Probes::default()), &name);
    }
}

#[test]
fn this_host_is_described_soundly_and_in_no_time() {
    let root = SysRoot::live();
    let platform = discover(&root).unwrap();
    let findings = doctor(&root, &platform);
    is_sound(&findings, "this host");
    assert!(findings.len() >= 10, "{findings:?}");
}

#[test]
fn every_reason_is_one_sentence_and_every_name_a_word() {
    let mut names = BTreeSet::new();
    for (id, why) in reasons() {
        assert!(names.insert(id), "{id} twice");
        assert!(id.chars().all(|c| c.is_ascii_lowercase() || c == '-'), "{id}");
        assert!(why.ends_with('.') && !why.contains(". ") && !why.contains("  "), "{id}: {why}");
    }
}

#[test]
fn a_shell_can_read_every_command() {
    let broken = changed(
        "sys/devices/system/cpu/isolated: \nsys/devices/system/cpu/nohz_full: \n\
         sys/devices/system/cpu/intel_pstate/no_turbo: 0\nproc/loadavg: 9 9 9 9/9 9\n\
         sys/devices/system/cpu/cpu3/cpuidle/state2/disable: 0\nproc/sys/kernel/nmi_watchdog: 1\n\
         sys/devices/system/cpu/cpu1/cpufreq/scaling_min_freq: 800000\n\
         {0-3 by 1} sys/devices/system/cpu/cpu@/cpufreq/scaling_governor: powersave\n\
         sys/kernel/debug/sched/fair_server/cpu2/runtime: 900000000\n\
         proc/self/cgroup: 0::/system.slice\nsys/fs/cgroup/cpu.max: 150000 100000\n\
         proc/self/status: CapEff:\\t0\\nCpus_allowed_list:\\t1",
    );
    let findings = found(&broken, &Probes { real_time: Some(Err(1)), ..Probes::default() });
    let commands: Vec<_> = findings.iter().filter_map(|finding| finding.remedy.as_ref()).collect();
    assert!(commands.len() >= 10, "{commands:?}");
    for command in commands {
        let read = Command::new("sh").args(["-n", "-c", command]).status().unwrap();
        assert!(read.success(), "{command}");
    }
}

/// A guest under the haltpoll governor, with this content of `guest_halt_poll_ns`.
fn haltpoll(ns: &str) -> String {
    let folder = "sys/devices/system/cpu";
    let states = |cpu| {
        let idle = format!("{folder}/cpu{cpu}/cpuidle");
        format!("- {idle}/state2\n{idle}/state1/name: haltpoll\n{idle}/state1/latency: 1\n")
    };
    let states = [0, 1, 2, 3].map(states).concat();
    format!(
        "{states}{folder}/cpuidle/current_driver: haltpoll\n{folder}/cpuidle/current_governor: haltpoll\n\
         sys/module/haltpoll/parameters/guest_halt_poll_ns: {ns}"
    )
}

#[test]
fn a_guest_that_halts_at_once_is_told_the_one_setting_and_one_that_polls_is_as_it_should_be() {
    let command = "echo 200000 | sudo tee /sys/module/haltpoll/parameters/guest_halt_poll_ns";
    let of = |ns: &str| {
        let root = changed(&haltpoll(ns));
        let findings = found(&root, &good_answers());
        let root = SysRoot::at(root.path());
        let wait = idle_wait(&root, &discover(&root).unwrap()).unwrap();
        (about(&findings, "idle-states").clone(), wait)
    };
    let (finding, wait) = of("0");
    assert_eq!((finding.severity, finding.remedy.as_deref()), (Note, Some(command)));
    assert!(
        finding.found.contains("halts at once (driver haltpoll, governor haltpoll"),
        "{finding:?}"
    );
    assert_eq!(wait.setting.unwrap().command.as_deref(), Some(command));
    let (finding, wait) = of("200000");
    assert_eq!(finding.severity, Fine, "{finding:?}");
    assert!(wait.setting.is_none() && wait.how.contains("polls for up to 200 µs"), "{wait:?}");
}

#[test]
fn how_an_idle_cpu_waits_is_read_from_the_files_there_are_and_each_has_one_setting_at_most() {
    let cpuidle = "sys/devices/system/cpu/cpuidle";
    let by = format!("{cpuidle}/current_driver: intel_idle\n{cpuidle}/current_governor: menu");
    let deep = format!("{by}\nsys/devices/system/cpu/cpu1/cpuidle/state2/disable: 0");
    let none =
        [0, 1, 2, 3].map(|cpu| format!("- sys/devices/system/cpu/cpu{cpu}/cpuidle\n")).concat();
    let guest = "proc/cpuinfo: processor : 0\\nvendor_id : GenuineIntel\\nmodel name : Xeon\\nflags : fpu hypervisor";
    let polls = "proc/cmdline: quiet idle=poll";
    for (name, changes, how, setting) in [
        (
            "shallow states",
            by,
            "POLL, C1 (driver intel_idle, governor menu)",
            Some("/dev/cpu_dma_latency = 0"),
        ),
        ("a deep state", deep, "POLL, C1, C6", Some("as deep as C6")),
        ("no cpuidle", none.clone(), "halts (no cpuidle driver)", None),
        (
            "a guest without",
            format!("{none}{guest}"),
            "the host decides",
            Some("cpuidle_haltpoll.force=1"),
        ),
        ("idle=poll", format!("{none}{polls}"), "idle=poll", None),
        ("an unreadable time", haltpoll("-"), "cannot read", None),
    ] {
        let root = changed(&changes);
        let root = SysRoot::at(root.path());
        let wait = idle_wait(&root, &discover(&root).unwrap()).unwrap();
        assert!(wait.how.contains(how), "{name}: {wait:?}");
        let named = wait.setting.as_ref().map(|it| it.name.as_str());
        let as_expected = match setting {
            Some(part) => named.is_some_and(|it| it.contains(part)),
            None => named.is_none(),
        };
        assert!(as_expected, "{name}: {wait:?}");
        if let Some(command) = wait.setting.and_then(|it| it.command) {
            let read = Command::new("sh").args(["-n", "-c", &command]).status().unwrap();
            assert!(read.success(), "{name}: {command}");
        }
    }
    let silent = changed(&format!("{none}- sys/devices/system/cpu/online"));
    let silent = SysRoot::at(silent.path());
    let platform = discover(&silent).unwrap();
    assert_eq!(idle_wait(&silent, &platform), None, "a host without the files says nothing");
}
