// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of single concerns on hosts with a few files: the words of a finding, and the thresholds.

use std::fs;

use Severity::{Note, Obstacle, Ok as Fine, Warning};
use tempfile::TempDir;

use super::*;

/// A host with these files and contents.
fn root(files: &[(&str, &str)]) -> TempDir {
    let root = tempfile::tempdir().unwrap();
    for (path, content) in files {
        let path = root.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }
    root
}

/// A machine of eight CPUs in two packages and two nodes.
fn platform() -> Platform {
    Platform::named("xeon_e5520").unwrap().unwrap()
}

/// The finding about a concern on a host with these files.
fn about(id: &str, files: &[(&str, &str)]) -> Option<CheckFinding> {
    on(&platform(), id, files, &Probes::default())
}

fn on(
    platform: &Platform,
    id: &str,
    files: &[(&str, &str)],
    probes: &Probes,
) -> Option<CheckFinding> {
    let folder = root(files);
    let root = SysRoot::at(folder.path());
    let host = PreflightHost::new(&root, platform, probes);
    let concern = concerns().find(|it| it.id == id).unwrap();
    (concern.check)(&host)
}

/// The severity and the words of the finding.
fn told(id: &str, files: &[(&str, &str)]) -> (Severity, String) {
    let it = about(id, files).unwrap();
    (it.severity, it.found)
}

fn severities(id: &str, file: &str, contents: &[&str]) -> Vec<Severity> {
    contents.iter().map(|it| told(id, &[(file, it)]).0).collect()
}

#[test]
fn a_load_of_a_twentieth_of_the_cpus_is_a_note_and_of_a_quarter_a_warning() {
    let file = "proc/loadavg";
    assert_eq!(
        severities("load", file, &["0.39 0 0", "0.40 9 9", "1.99 0 0", "2.00 0 0"]),
        [Fine, Note, Note, Warning]
    );
    assert_eq!(
        told("load", &[(file, "0.10 5 5")]).1,
        "over the last minute 0.10 threads ran or waited, on 8 CPUs"
    );
    assert!(about("load", &[(file, "much")]).is_none() && about("load", &[]).is_none());
}

#[test]
fn a_thousandth_of_stolen_time_is_a_warning() {
    let file = "proc/stat";
    let of = |stolen: u64| format!("cpu0 1 1\ncpu  0 0 0 {} 0 0 0 {stolen} 0 0\n", 10_000 - stolen);
    assert_eq!(severities("steal", file, &[&of(0), &of(9), &of(10)]), [Fine, Note, Warning]);
    assert_eq!(
        told("steal", &[(file, &of(9))]).1,
        "the hypervisor has stolen less than 0.1 % of the CPU time since boot"
    );
    assert_eq!(
        told("steal", &[(file, &of(350))]).1,
        "the hypervisor has stolen 3.5 % of the CPU time since boot"
    );
    assert!(about("steal", &[(file, "cpu  1 2 3")]).is_none());
}

#[test]
fn a_process_is_busy_from_a_tenth_of_a_cpu_on_or_while_it_runs() {
    let stat = |pid: u32, name: &str, state: char, parent: u32, ticks: u64| {
        format!("{pid} ({name}) {state} {parent} 1 1 0 -1 0 0 0 0 0 {ticks} 0 0 0 20 0 1 0 0 0 0")
    };
    let busy = |of: &[String]| {
        let files: Vec<(String, String)> = of
            .iter()
            .enumerate()
            .map(|(at, text)| (format!("proc/{}/stat", 100 + at), text.clone()))
            .collect();
        let mut all: Vec<(&str, &str)> =
            files.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
        all.push(("proc/uptime", "100.0 50.0"));
        about("busy-processes", &all).unwrap()
    };
    // 100 s are 10,000 ticks.
    let lazy = [
        stat(100, "a", 'S', 1, 999),
        stat(101, "kworker", 'R', 2, 9_000),
        stat(2, "kthreadd", 'R', 0, 0),
    ];
    assert_eq!(busy(&lazy).found, "no process is busy");
    let many = [
        stat(100, "a", 'S', 1, 1_000),
        stat(101, "b", 'R', 1, 0),
        stat(102, "c", 'S', 1, 5_000),
        stat(103, "d", 'S', 1, 2_000),
        stat(104, "e", 'S', 1, 1_500),
    ];
    let it = busy(&many);
    assert_eq!(
        (it.severity, it.found.as_str()),
        (
            Warning,
            "other busy processes: c (process 102, 50 % of a CPU), d (process 103, 20 % of a CPU), e (process 104, 15 % of a \
             CPU) and 2 more"
        )
    );
    assert_eq!(it.command.unwrap(), "sudo taskset -apc 0 102");
    assert_eq!(busy(&many[1..2]).found, "other busy processes: b (process 101, running now)");
}

#[test]
fn memory_is_too_little_below_48_mib_and_little_below_256() {
    let of = |kib: u64| format!("MemTotal: 1 kB\nMemAvailable:   {kib} kB\n");
    let file = "proc/meminfo";
    assert_eq!(
        severities("memory", file, &[&of(49_151), &of(49_152), &of(262_143), &of(262_144)]),
        [Obstacle, Warning, Warning, Fine]
    );
    // A group that leaves less counts.
    let limited = [
        (file, "MemAvailable: 4194304 kB"),
        ("proc/self/cgroup", "0::/a/b\n"),
        ("sys/fs/cgroup/a/b/memory.max", "104857600"),
        ("sys/fs/cgroup/a/b/memory.current", "52428800"),
        ("sys/fs/cgroup/a/memory.max", "max"),
    ];
    assert_eq!(told("memory", &limited), (Warning, "50 MiB of memory are available".to_owned()));
}

#[test]
fn the_tightest_quota_of_the_groups_is_told_with_its_file() {
    let files = [
        ("proc/self/cgroup", "0::/a/b\n"),
        ("sys/fs/cgroup/a/b/cpu.max", "300000 100000"),
        ("sys/fs/cgroup/a/cpu.max", "50000 100000"),
    ];
    let it = about("cpu-quota", &files).unwrap();
    assert_eq!(
        it.found,
        "the control group of this process may use 0.50 CPUs, and the kernel stops the group beyond this quota"
    );
    assert_eq!(it.command.unwrap(), "echo max | sudo tee /sys/fs/cgroup/a/cpu.max");
    let free = [("proc/self/cgroup", "0::/a\n"), ("sys/fs/cgroup/a/cpu.max", "max 100000")];
    assert_eq!(told("cpu-quota", &free).0, Fine);
}

#[test]
fn real_time_threads_are_throttled_to_half_at_least_and_not_never() {
    let with = |runtime: &str, fair: Option<&str>| {
        let mut files = vec![
            ("proc/sys/kernel/sched_rt_runtime_us", runtime),
            ("proc/sys/kernel/sched_rt_period_us", "1000000"),
        ];
        let server = "sys/kernel/debug/sched/fair_server/cpu0";
        let (share, period) = (format!("{server}/runtime"), format!("{server}/period"));
        if let Some(fair) = fair {
            files.extend([(share.as_str(), fair), (period.as_str(), "1000000000")]);
        }
        let it = about("rt-throttling", &files).unwrap();
        (it.severity, it.found, it.command)
    };
    let usual = Some("sudo sysctl kernel.sched_rt_runtime_us=950000".to_owned());
    assert_eq!(
        with("950000", None),
        (Fine, "real-time threads may use 95 % of each 1 s".to_owned(), None)
    );
    assert_eq!(with("500000", None).0, Fine);
    assert_eq!(
        with("499999", None),
        (
            Warning,
            "real-time threads may use 50 % of each 1 s, less than the 50 % that a measurement needs"
                .to_owned(),
            usual.clone()
        )
    );
    assert_eq!((with("-1", None).0, with("-1", None).2), (Warning, usual.clone()));
    assert_eq!((with("1000000", None).0, with("1000000", None).2), (Note, usual));
    assert_eq!(with("1000000", Some("0")).0, Note);
    assert_eq!(with("1000000", Some("50000000")).0, Fine);
}

#[test]
fn clocks_are_fixed_only_where_every_cpu_has_one_frequency() {
    let file =
        |cpu: u32, end: &str| format!("sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_{end}_freq");
    let of = |ranges: &[(u32, &str, &str)]| {
        let files: Vec<(String, &str)> = ranges
            .iter()
            .flat_map(|&(cpu, min, max)| [(file(cpu, "min"), min), (file(cpu, "max"), max)])
            .collect();
        let files: Vec<(&str, &str)> =
            files.iter().map(|(path, text)| (path.as_str(), *text)).collect();
        told("frequency-range", &files)
    };
    assert_eq!(
        of(&[(0, "2000000", "2000000"), (1, "2000000", "2000000")]),
        (Fine, "the frequency is fixed at 2000 MHz".to_owned())
    );
    assert_eq!(
        of(&[(0, "2000000", "2000000"), (1, "800000", "3000000")]),
        (Note, "the frequency may be 800 to 3000 MHz".to_owned())
    );
}

#[test]
fn governors_are_told_with_their_cpus_and_a_boost_by_either_switch() {
    let governor = |cpu: u32| format!("sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_governor");
    let (first, second) = (governor(0), governor(5));
    let both = |a, b| told("governor", &[(first.as_str(), a), (second.as_str(), b)]);
    assert_eq!(both("performance", "performance").0, Fine);
    assert_eq!(
        both("performance", "powersave"),
        (Warning, "the governor is performance on CPU 0, powersave on CPU 5".to_owned())
    );
    let (intel, other) =
        ("sys/devices/system/cpu/intel_pstate/no_turbo", "sys/devices/system/cpu/cpufreq/boost");
    assert_eq!(severities("turbo", intel, &["0", "1"]), [Warning, Fine]);
    assert_eq!(severities("turbo", other, &["0", "1"]), [Fine, Warning]);
    let commands =
        [(intel, "0"), (other, "1")].map(|it| about("turbo", &[it]).unwrap().command.unwrap());
    assert_eq!(
        commands,
        [format!("echo 1 | sudo tee /{intel}"), format!("echo 0 | sudo tee /{other}")]
    );
}

#[test]
fn others_that_move_threads_are_named() {
    let sched = "sys/kernel/sched_ext/state";
    assert_eq!(told("sched-ext", &[(sched, "disabled")]).0, Fine);
    assert_eq!(
        told("sched-ext", &[(sched, "enabled"), ("sys/kernel/sched_ext/root/ops", "lavd\n")]),
        (Note, "the scheduler `lavd` is loaded".to_owned())
    );
    assert_eq!(
        told("sched-ext", &[(sched, "enabled")]).1,
        "the scheduler `without a name` is loaded"
    );
    assert_eq!(
        severities(
            "cache-aware-balancing",
            "sys/kernel/debug/sched/llc_balancing/enabled",
            &["Y", "1", "0", "N"]
        ),
        [Note, Note, Fine, Fine]
    );
    let stat = "7 (numad) S 1 1 1 0 -1 0 0 0 0 0 1 0 0 0 20 0 1 0 0 0 0";
    assert_eq!(
        told("numad", &[("proc/7/stat", stat)]),
        (Warning, "numad runs (process 7)".to_owned())
    );
    assert_eq!(told("numad", &[("proc/7/stat", &stat.replace("numad", "numa"))]).0, Fine);
}

#[test]
fn pages_are_told_by_what_the_kernel_does_to_them() {
    assert_eq!(
        severities("page-merging", "sys/kernel/mm/ksm/run", &["0", "1", "2"]),
        [Fine, Note, Fine]
    );
    let header = "Filename Type Size Used Priority";
    assert_eq!(
        severities("swap", "proc/swaps", &[header, &format!("{header}\n/x file 1 0 -1")]),
        [Fine, Note]
    );
    let huge = "sys/kernel/mm/transparent_hugepage/enabled";
    assert_eq!(
        severities(
            "transparent-huge-pages",
            huge,
            &["always [madvise] never", "[always] madvise never", "always madvise [never]"]
        ),
        [Fine, Note, Note]
    );
    assert_eq!(
        told(
            "transparent-huge-pages",
            &[(huge, "[never]"), ("sys/kernel/mm/transparent_hugepage/defrag", "[defer] always")]
        )
        .1,
        "transparent huge pages: never, defrag defer; --page thp is not possible"
    );
    let pool = "sys/kernel/mm/hugepages/hugepages-2048kB";
    let (all, free) = (format!("{pool}/nr_hugepages"), format!("{pool}/free_hugepages"));
    assert_eq!(severities("huge-page-pool", &all, &["0", "4"]), [Note, Fine]);
    assert_eq!(
        told("huge-page-pool", &[(&all, "4"), (&free, "0")]).0,
        Note,
        "none of them is free"
    );
    let balancing = "proc/sys/kernel/numa_balancing";
    let nodes = platform().nodes.len();
    assert_eq!(
        severities("numa-balancing", balancing, &["0", "1"]),
        [Fine, if nodes < 2 { Fine } else { Warning }]
    );
}

#[test]
fn a_cache_is_doubted_beyond_what_a_processor_has_for_so_few() {
    let of = |mib: u64, guest: bool| {
        let mut platform = platform();
        let last = platform.caches.iter_mut().max_by_key(|it| it.level).unwrap();
        last.size.as_mut().unwrap().value = corehop_plan::units::Bytes::from_mib(mib);
        if guest {
            platform.hypervisor =
                Some(corehop_plan::platform::Fact::measured("kvm".to_owned(), "x"));
        }
        let it = on(&platform, "llc-size", &[], &Probes::default()).unwrap();
        (it.severity, it.found)
    };
    // Four CPUs below each.
    assert_eq!(of(256, false), (Fine, "L3 of 256 MiB serves 4 CPUs".to_owned()));
    assert_eq!(
        of(257, false),
        (Warning, "L3 of 257 MiB serves 4 CPUs, larger than the cache of any processor with that number of CPUs".to_owned())
    );
    assert_eq!(of(96, true).0, Fine);
    assert_eq!(
        of(97, true),
        (
            Warning,
            "L3 of 97 MiB serves 4 CPUs, too large for these CPUs alone: other guests use the cache as well"
                .to_owned()
        )
    );
}

#[test]
fn locked_memory_is_enough_from_64_mib_on_and_without_swap_a_little_is_a_note() {
    let limits = |bytes: &str| {
        format!("Limit Soft Hard\nMax locked memory         {bytes}     {bytes}  bytes\n")
    };
    let file = "proc/self/limits";
    assert_eq!(
        severities(
            "memory-lock",
            file,
            &[&limits("67108863"), &limits("67108864"), &limits("unlimited")]
        ),
        [Note, Fine, Fine]
    );
    let little = limits("8388608");
    let swap = [(file, little.as_str()), ("proc/swaps", "Filename\n/x file 1 0 -1")];
    assert_eq!(told("memory-lock", &swap), (Warning, "only 8 MiB may be locked".to_owned()));
    // Bit 14 is CAP_IPC_LOCK; within a user namespace it opens nothing.
    let right = [(file, little.as_str()), ("proc/self/status", "CapEff:\t0000000000004000\n")];
    assert_eq!(told("memory-lock", &right).0, Fine);
    let mapped = [right[0], right[1], ("proc/self/uid_map", "0 1000 1")];
    assert_eq!(told("memory-lock", &mapped).0, Note);
}

#[test]
fn tracing_takes_two_capabilities_or_the_old_one_and_types() {
    let btf = ("sys/kernel/btf/vmlinux", "");
    let with = |mask: u64| {
        told("tracing", &[("proc/self/status", &format!("CapEff:\t{mask:016x}")), btf]).0
    };
    let (bpf, perfmon, admin) = (1 << 39, 1 << 38, 1 << 21);
    assert_eq!([bpf, perfmon, bpf | perfmon, admin].map(with), [Note, Note, Fine, Fine]);
    let untyped = [("proc/self/status", "CapEff:\tffffffffffffffff")];
    assert_eq!(
        told("tracing", &untyped).1,
        "tracing programs cannot run, because the kernel has no type information"
    );
}

#[test]
fn devices_that_may_interrupt_are_counted_and_the_busiest_is_named() {
    let table = "           CPU0       CPU1\n  8:  5  7  IO-APIC  1-edge  rtc0\n 24:  100  1  PCI-MSI  nvme0\n NMI:  900  900  Non-maskable\n";
    let with = |eight: &str, other: &str| {
        told(
            "interrupts",
            &[
                ("proc/interrupts", table),
                ("proc/irq/8/smp_affinity_list", eight),
                ("proc/irq/24/effective_affinity_list", other),
                ("proc/irq/24/smp_affinity_list", "0-7"),
            ],
        )
    };
    assert_eq!(
        with("0-1", "3"),
        (
            Note,
            "2 device interrupts may reach CPUs 0-7; the busiest is nvme0 (101 times so far)"
                .to_owned()
        )
    );
    assert_eq!(
        with("0-1", "99").1,
        "1 device interrupt may reach CPUs 0-7; the busiest is rtc0 (12 times so far)"
    );
    assert_eq!(with("99", "99"), (Fine, "no device interrupts CPUs 0-7".to_owned()));
}

#[test]
fn what_a_host_does_not_tell_of_is_listed_and_obstacles_come_first() {
    let folder = root(&[("proc/meminfo", "MemAvailable: 1 kB"), ("proc/loadavg", "0.0 0 0")]);
    let findings = examine(&SysRoot::at(folder.path()), &platform(), &Probes::default());
    assert_eq!((findings[0].id.as_str(), findings[0].severity), ("memory", Obstacle));
    assert!(is_impossible(&findings) && !is_impossible(&findings[1..]));
    assert!(findings.is_sorted_by_key(|it| std::cmp::Reverse(it.severity)));
    let silent = findings.iter().find(|it| it.id == NOT_TOLD).unwrap();
    assert!(silent.found.starts_with("this host does not report: "), "{}", silent.found);
    assert!(silent.found.contains("steal") && !silent.found.contains("load,"), "{}", silent.found);
    let all = concerns().count();
    let quiet = silent.found.split(", ").count();
    assert_eq!(findings.len(), all - quiet + 1);
}
