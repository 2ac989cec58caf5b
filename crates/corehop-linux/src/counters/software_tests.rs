// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests the parsers on files of several kinds of machines, and the readers on this machine.

use std::io::Write;

use super::*;
use crate::mapped::Mapped;

/// The files of a two-socket Intel server, shortened; its CPU 2 is offline.
const INTEL: &str = "\
            CPU0       CPU1       CPU3
   0:         36          0          0  IR-IO-APIC    2-edge      timer
   8:          0          0          1  IR-IO-APIC    8-edge      rtc0
 120:          0          0          0  DMAR-MSI    1-edge      dmar1
 134:     101524          7    3300125  IR-PCI-MSIX-0000:3b:00.0    1-edge      mlx5_comp0@pci:0000:3b:00.0
 NMI:       1214        977       1108   Non-maskable interrupts
 LOC:   99104231   71820334   70213390   Local timer interrupts
 RES:     810221     700128     699023   Rescheduling interrupts
 ERR:          0
 MIS:          0
 PIN:          0          0          0   Posted-interrupt notification event
";

/// The files of an AMD desktop, with one column more than the row of errors has.
const AMD: &str = "\
           CPU0       CPU1
  1:          0          9   IO-APIC    1-edge      i8042
NMI:         12         11   Non-maskable interrupts
LOC:     402340     380011   Local timer interrupts
THR:          0          0   Threshold APIC interrupts
DFR:          0          0   Deferred Error APIC interrupts
ERR:          1
MIS:          0
";

/// The files of an ARM board, without an NMI row and with separate rows for interrupts between
/// processors.
const ARM: &str = "\
           CPU0       CPU1       CPU2       CPU3
 11:      91021      90311      88012      87999     GICv3  30 Level     arch_timer
 14:          0          0          0          0     GICv3  23 Level     arm-pmu
IPI0:      2100       2203       1990       2054       Rescheduling interrupts
IPI1:     10021       9954       9911      10102       Function call interrupts
Err:          0
";

const STAT: &str = "\
cpu  2255 34 2290 22625563 6290 127 456 277 0 0
cpu0 1132 34 1441 11311718 3675 127 438 200 5 0
cpu3 1123 0 849 11313845 2614 0 18 77
intr 114930548 113199788 3 0 5 263 0 4
ctxt 1990473
btime 1062191376
processes 2915
";

#[test]
fn interrupts_are_read_by_row_and_cpu_whatever_is_offline() {
    let table = InterruptTable::parse(INTEL).unwrap();
    assert_eq!(table.count("134", Cpu(3)), Some(3_300_125));
    assert_eq!(table.count("RES", Cpu(1)), Some(700_128));
    assert_eq!(table.nmis(Cpu(3)), Some(1108));
    assert_eq!(table.nmis(Cpu(2)), None, "offline");
    assert_eq!(table.count("ERR", Cpu(0)), None, "a sum over all CPUs belongs to none");
}

#[test]
fn amd_and_arm_differ_in_rows_and_arm_has_no_nmis() {
    let amd = InterruptTable::parse(AMD).unwrap();
    assert_eq!((amd.nmis(Cpu(1)), amd.count("ERR", Cpu(1))), (Some(11), None));
    let arm = InterruptTable::parse(ARM).unwrap();
    assert_eq!((arm.nmis(Cpu(0)), arm.count("IPI1", Cpu(3))), (None, Some(10_102)));
    assert_eq!(arm.count("11", Cpu(2)), Some(88_012));
}

#[test]
fn text_that_is_not_a_table_of_interrupts_is_refused_with_what_was_found() {
    for text in ["", "Hello world\n1: 2", "CPUx\n"] {
        let error = InterruptTable::parse(text).unwrap_err().to_string();
        assert!(error.contains("/proc/interrupts"), "{error}");
    }
}

#[test]
fn cpu_times_are_busy_idle_or_stolen_and_a_guest_is_not_counted_twice() {
    let times = CpuTimes::parse(STAT).unwrap();
    let cpu0 = times.of(Cpu(0)).unwrap();
    assert_eq!(cpu0.busy, 1132 + 34 + 1441 + 127 + 438);
    assert_eq!((cpu0.idle, cpu0.steal), (11_311_718 + 3675, 200));
    assert_eq!(times.of(Cpu(3)).unwrap().steal, 77);
    assert_eq!(times.of(Cpu(1)), None);
}

#[test]
fn the_busy_share_is_of_all_time_and_unknown_where_none_has_passed() {
    let earlier = CpuTicks { busy: 100, idle: 1000, steal: 3 };
    let later = CpuTicks { busy: 130, idle: 1060, steal: 13 };
    assert_eq!(later.minus(&earlier).busy_share(), Some(0.3));
    assert_eq!(earlier.minus(&earlier).busy_share(), None);
    // Idle time may be seen to run backwards.
    assert_eq!(earlier.minus(&later), CpuTicks::default());
}

#[test]
fn damaged_times_are_refused_with_the_line() {
    for (text, found) in
        [("cpu0 1 2 x 4", "cpu0 1 2 x 4"), ("cpux 1 2", "cpux"), ("intr 3", "intr")]
    {
        let error = CpuTimes::parse(text).unwrap_err().to_string();
        assert!(error.contains("/proc/stat") && error.contains(found), "{error}");
    }
}

#[test]
fn time_not_run_is_known_only_while_the_thread_stays_on_its_cpu() {
    let ran = ThreadCounts { cpu_time_ns: 9_000, ..ThreadCounts::default() };
    assert_eq!(ran.not_run(Nanos::new(12_000)), Some(Nanos::new(3_000)));
    assert_eq!(ran.not_run(Nanos::new(9_999)), Some(Nanos::new(0)), "too little to tell");
    assert_eq!(ran.not_run(Nanos::new(8_000)), Some(Nanos::new(0)));
    let preempted = ThreadCounts { involuntary_switches: 1, ..ran };
    assert_eq!(preempted.not_run(Nanos::new(12_000)), None);
}

#[test]
fn this_thread_s_faults_switches_and_time_grow_with_what_it_does() {
    // Memory that the allocator cannot have touched before.
    let memory = Mapped::private(1 << 16, 0).unwrap();
    let before = ThreadCounts::read();
    // SAFETY: just mapped, writable, aligned to a page; nothing else refers to it.
    unsafe { memory.start::<u8>().write_volatile(1) };
    std::thread::sleep(std::time::Duration::from_millis(1));
    let added = ThreadCounts::read().minus(&before);
    assert!(added.minor_faults > 0 && added.voluntary_switches > 0, "{added:?}");
    assert!(added.cpu_time_ns > 0 && added.switches() >= added.voluntary_switches);
}

#[test]
fn this_machine_s_own_files_are_understood() {
    let times = CpuTimes::read().unwrap();
    let table = InterruptTable::read().unwrap();
    let cpu = table.cpus[0];
    assert!(times.of(cpu).unwrap().busy > 0);
    assert!(table.rows.iter().any(|(_, counts)| !counts.is_empty()));
}

#[test]
fn smis_are_the_lower_half_of_the_register() {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    let mut registers = vec![0_u8; 0x34];
    registers.extend((u64::MAX << 32 | 0x4d2).to_ne_bytes());
    file.write_all(&registers).unwrap();
    assert_eq!(SmiCounter::open_file(file.path()).unwrap().read(), Ok(0x4d2));
}

#[test]
fn without_the_register_the_error_says_what_would_help() {
    let missing = SmiCounter::open_file(Path::new("/nonexistent/msr")).unwrap_err().to_string();
    assert!(
        missing.starts_with("corehop cannot read SMI count: ") && missing.contains("modprobe msr")
    );
    let file = tempfile::NamedTempFile::new().unwrap();
    let empty = SmiCounter::open_file(file.path()).unwrap_err().to_string();
    assert!(empty.contains("no register 0x34"), "{empty}");
    let refused = no_msr(&io::Error::from_raw_os_error(libc::EACCES)).to_string();
    assert!(refused.contains("run as root"), "{refused}");
}
