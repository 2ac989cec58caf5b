// SPDX-License-Identifier: MIT OR Apache-2.0
//! Hardware counters of the calling thread by perf_event_open(2): cycles, instructions, misses.
//!
//! corehop determines the events of a processor by trying to open them. Counters are read by `rdpmc` without a system
//! call if the kernel allows that, and otherwise by read(2). Only user mode is counted, because misses of an
//! interrupt do not belong to the walk. Counting needs no privilege with `kernel.perf_event_paranoid` 2. If a group
//! had to share the processor's counters, its counts are scaled by the time for which it was counting.

use std::io;
use std::marker::PhantomData;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

use corehop_plan::units::Cpu;

use super::CounterError;
use crate::perf_event::{EventOwner, PerfEvent, USER_ONLY};
use corehop_system::proc;

mod page;

/// The hardware events that corehop can count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HardwareEvent {
    /// Cycles of the core (not of the time stamp counter).
    Cycles,
    /// Instructions retired.
    Instructions,
    /// Reads that missed the last-level cache.
    LlcMisses,
    /// Misses of the L2 cache. On Intel these are retired loads, on AMD requests, and on ARM refills.
    L2Misses,
    /// Reads that missed the L1 data cache.
    L1Misses,
    /// Reads that missed the first-level data TLB.
    DtlbMisses,
}

/// All events, in the order in which they are opened: the first events share a group.
pub const EVENTS: [HardwareEvent; 6] = [
    HardwareEvent::Cycles,
    HardwareEvent::Instructions,
    HardwareEvent::LlcMisses,
    HardwareEvent::L2Misses,
    HardwareEvent::L1Misses,
    HardwareEvent::DtlbMisses,
];

/// The kinds of events (`enum perf_type_id`).
pub(super) const TYPE_HARDWARE: u32 = 0;
const TYPE_CACHE: u32 = 3;
pub(super) const TYPE_RAW: u32 = 4;

/// The encoding of a cache event: cache, operation 0 (read), result 1 (miss).
const fn read_misses(cache: u64) -> (u32, u64) {
    (TYPE_CACHE, cache | 1 << 16)
}

impl HardwareEvent {
    /// Returns the name of the event's column.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cycles => "cycles",
            Self::Instructions => "instructions",
            Self::LlcMisses => "llc_misses",
            Self::L2Misses => "l2_misses",
            Self::L1Misses => "l1_misses",
            Self::DtlbMisses => "dtlb_misses",
        }
    }

    /// The event's type and configuration for the kernel; `None` if unknown for this processor.
    const fn encoding(self, vendor: Vendor) -> Option<(u32, u64)> {
        Some(match (self, vendor) {
            (Self::Cycles, _) => (TYPE_HARDWARE, 0),
            (Self::Instructions, _) => (TYPE_HARDWARE, 1),
            (Self::L1Misses, _) => read_misses(0),
            (Self::LlcMisses, _) => read_misses(2),
            (Self::DtlbMisses, _) => read_misses(3),
            // MEM_LOAD_RETIRED.L2_MISS: event 0xd1, unit mask 0x10, since Haswell.
            (Self::L2Misses, Vendor::Intel) => (TYPE_RAW, 0x10d1),
            // l2_cache_req_stat.ic_dc_miss_in_l2: event 0x64, unit mask 0x09, since Zen.
            (Self::L2Misses, Vendor::Amd) => (TYPE_RAW, 0x0964),
            // L2D_CACHE_REFILL of the architecture's common events.
            (Self::L2Misses, Vendor::Arm) => (TYPE_RAW, 0x17),
            (Self::L2Misses, Vendor::Other) => return None,
        })
    }
}

/// The processor vendors whose events differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Vendor {
    Intel,
    Amd,
    Arm,
    Other,
}

impl Vendor {
    /// Parses the text of `/proc/cpuinfo`.
    pub(super) fn parse(cpuinfo: &str) -> Self {
        let fields = cpuinfo.lines().filter_map(|line| line.split_once(':'));
        for (name, value) in fields {
            match (name.trim(), value.trim()) {
                ("vendor_id", "GenuineIntel") => return Self::Intel,
                ("vendor_id", "AuthenticAMD" | "HygonGenuine") => return Self::Amd,
                // A line of the 64-bit ARM kernel only, for cores of every maker.
                ("CPU implementer", _) => return Self::Arm,
                _ => {}
            }
        }
        Self::Other
    }
}

/// The read format: the whole group (8), and each value with its number (4), the time it was enabled (1) and the time
/// it was counting (2).
pub(super) const READ_FORMAT: u64 = 15;
/// `PERF_EVENT_IOC_ID`: returns the number that identifies an event in the data read from its group.
const IOC_ID: u64 = 0x8008_2407;

/// Opens an event of the calling thread, on every CPU it runs on, in the group of `leader`.
fn open_event((kind, config): (u32, u64), leader: Option<RawFd>) -> io::Result<OwnedFd> {
    let (read_format, flags) = (READ_FORMAT, USER_ONLY);
    PerfEvent { kind, config, read_format, flags, ..PerfEvent::default() }
        .open(EventOwner::InGroup(leader))
}

/// Opens a cache event for all code that runs on `cpu`, including the kernel. Reading the event gives its value, the
/// time enabled and the time counting.
pub(super) fn open_event_of_cpu(config: u64, cpu: Cpu) -> io::Result<OwnedFd> {
    const TIMES: u64 = 3;
    PerfEvent { kind: TYPE_CACHE, config, read_format: TIMES, ..PerfEvent::default() }
        .open(EventOwner::AllOn(cpu))
}

pub(super) fn id_of(event: &OwnedFd) -> io::Result<u64> {
    let mut id = 0_u64;
    // SAFETY: the command writes 64 bits, into id.
    let result = unsafe { libc::ioctl(event.as_raw_fd(), IOC_ID as _, &raw mut id) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(id) }
}

/// The reason why an event cannot be counted, derived from the kernel's error. `paranoid` is the value of
/// `kernel.perf_event_paranoid`, if known.
fn refusal(event: &str, error: &io::Error, paranoid: Option<i32>) -> CounterError {
    let level = paranoid.map_or(String::from("unknown"), |level| level.to_string());
    let (reason, remedy) = match error.raw_os_error() {
        Some(libc::ENOENT | libc::ENODEV | libc::EOPNOTSUPP | libc::ENXIO) => (
            "the kernel knows no such hardware event, because the processor has no counters or a hypervisor hides the counters"
                .to_owned(),
            "run on the bare machine, or give the guest a PMU (QEMU: -cpu host,pmu=on)",
        ),
        Some(libc::EACCES | libc::EPERM) => (
            format!("kernel.perf_event_paranoid is {level}, and the caller has no CAP_PERFMON"),
            "`setcap cap_perfmon+ep FILE`, or `sysctl kernel.perf_event_paranoid=2` (0 for counters \
             of a whole CPU)",
        ),
        Some(libc::ENOSYS) => (
            "this kernel has no perf_event_open(2), or a seccomp profile hides it".to_owned(),
            "use a kernel with CONFIG_PERF_EVENTS=y",
        ),
        Some(libc::EMFILE) => {
            ("too many files are open".to_owned(), "raise the limit with `ulimit -n`")
        }
        Some(libc::EBUSY) => (
            "another program uses the processor's counters exclusively".to_owned(),
            "stop other profilers; `sysctl kernel.nmi_watchdog=0` frees one counter",
        ),
        _ => ("the kernel refuses the event".to_owned(), "see `perf list` for the available events"),
    };
    CounterError::unavailable(event, error, reason, remedy)
}

/// The reason why the event of this name cannot be counted on this host.
pub(super) fn refused(event: &str, error: &io::Error) -> CounterError {
    refusal(&format!("hardware counter `{event}`"), error, paranoid_level())
}

fn paranoid_level() -> Option<i32> {
    proc::value("/proc/sys/kernel/perf_event_paranoid")
}

/// An event that is being counted.
#[derive(Debug)]
struct OpenCounter {
    event: HardwareEvent,
    id: u64,
    /// The file descriptor, kept open as long as the event counts.
    fd: OwnedFd,
    /// The event's mapped page; `None` if the kernel provides no page, or users cannot read the processor's counter.
    page: Option<page::MappedPage>,
}

/// Counts at one moment, or the increase between two moments. An event that is not counted has no value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct HardwareCounts([Option<u64>; EVENTS.len()]);

impl HardwareCounts {
    /// Returns the count of one event.
    pub const fn get(&self, event: HardwareEvent) -> Option<u64> {
        self.0[event as usize]
    }

    /// Returns the increase since `earlier`; `None` for events missing in either.
    #[must_use]
    pub fn minus(&self, earlier: &Self) -> Self {
        Self(EVENTS.map(|event| Some(self.get(event)?.saturating_sub(earlier.get(event)?))))
    }

    fn set(&mut self, event: HardwareEvent, count: Option<u64>) {
        self.0[event as usize] = count;
    }
}

/// The counters of the thread that opened them. Only this thread may read them, because `rdpmc` reads the counters of
/// the current CPU, which belong to this thread while it runs.
#[derive(Debug)]
pub struct HardwareCounters {
    /// The groups; a group counts all its members or none, and the first member leads it.
    groups: Vec<Vec<OpenCounter>>,
    unavailable: Vec<CounterError>,
    of_this_thread: PhantomData<*const ()>,
}

impl HardwareCounters {
    /// Starts counting all events that this processor supports.
    ///
    /// # Errors
    /// Fails if no event can be counted; the error has the reason and the remedy for the first event.
    pub fn open() -> Result<Self, CounterError> {
        let cpuinfo = proc::text("/proc/cpuinfo").unwrap_or_default();
        let mut counters =
            Self { groups: vec![], unavailable: vec![], of_this_thread: PhantomData };
        for event in EVENTS {
            let Some(encoding) = event.encoding(Vendor::parse(&cpuinfo)) else { continue };
            if let Err(error) = counters.add(event, encoding) {
                counters.unavailable.push(refused(event.name(), &error));
            }
        }
        if counters.groups.is_empty() {
            return Err(counters.unavailable.swap_remove(0));
        }
        Ok(counters)
    }

    /// Adds an event to the last group, so that all events of the group count together. If the processor has no counter
    /// left, the event gets its own group, so that the groups take turns.
    fn add(&mut self, event: HardwareEvent, encoding: (u32, u64)) -> io::Result<()> {
        if let Some(group) = self.groups.last_mut() {
            match open_event(encoding, Some(group[0].fd.as_raw_fd())) {
                Ok(fd) => {
                    group.push(OpenCounter::new(event, fd)?);
                    return Ok(());
                }
                Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {}
                Err(error) => return Err(error),
            }
        }
        self.groups.push(vec![OpenCounter::new(event, open_event(encoding, None)?)?]);
        Ok(())
    }

    /// Returns the current counts without allocating memory.
    pub fn read(&self) -> HardwareCounts {
        let mut counts = HardwareCounts::default();
        for group in &self.groups {
            if !read_by_rdpmc(group, &mut counts) {
                read_by_call(group, &mut counts);
            }
        }
        counts
    }

    /// Returns the events that are not counted, with the reason.
    pub fn unavailable(&self) -> &[CounterError] {
        &self.unavailable
    }
}

impl OpenCounter {
    fn new(event: HardwareEvent, fd: OwnedFd) -> io::Result<Self> {
        Ok(Self { event, id: id_of(&fd)?, page: page::MappedPage::of(&fd), fd })
    }
}

/// Reads the whole group without a system call; returns false if that is not possible.
fn read_by_rdpmc(group: &[OpenCounter], counts: &mut HardwareCounts) -> bool {
    for member in group {
        let Some(count) = member.page.as_ref().and_then(page::MappedPage::count) else {
            return false;
        };
        counts.set(member.event, Some(count));
    }
    true
}

fn read_by_call(group: &[OpenCounter], counts: &mut HardwareCounts) {
    let mut answer = [0_u8; 24 + 16 * EVENTS.len()];
    // SAFETY: the kernel writes at most the length given.
    let length =
        unsafe { libc::read(group[0].fd.as_raw_fd(), answer.as_mut_ptr().cast(), answer.len()) };
    let answer = answer.get(..usize::try_from(length).unwrap_or(0)).unwrap_or(&[]);
    let reading = GroupReading::parse(answer);
    for member in group {
        counts.set(member.event, reading.as_ref().ok().and_then(|group| group.count(member.id)));
    }
}

/// The data read from a group: the number of values; the time enabled and the time counting, in ns; then a value and
/// a number for each event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct GroupReading<'a> {
    wanted_ns: u64,
    counted_ns: u64,
    values: &'a [u8],
}

impl<'a> GroupReading<'a> {
    pub(super) fn parse(answer: &'a [u8]) -> Result<Self, CounterError> {
        let malformed = || CounterError::Malformed {
            what: "the answer of a group of hardware counters",
            found: format!("{} bytes", answer.len()),
        };
        let number = |index| word(answer, index).ok_or_else(malformed);
        let values = usize::try_from(number(0)?).ok().and_then(|count| count.checked_mul(16));
        let values = values.and_then(|bytes| answer.get(24..)?.get(..bytes));
        Ok(Self {
            wanted_ns: number(1)?,
            counted_ns: number(2)?,
            values: values.ok_or_else(malformed)?,
        })
    }

    /// The count of the event with this number, scaled if the group shared the counters; `None` if the group never
    /// counted.
    pub(super) fn count(&self, id: u64) -> Option<u64> {
        let mut values = self.values.chunks_exact(16);
        let value = values.find(|value| word(value, 1) == Some(id))?;
        scaled(word(value, 0)?, self.wanted_ns, self.counted_ns)
    }
}

/// The counter value extrapolated from the time for which the event was counting to the time for which it was wanted.
pub(super) fn scaled(value: u64, wanted_ns: u64, counted_ns: u64) -> Option<u64> {
    let product = u128::from(value) * u128::from(wanted_ns);
    let scaled = product.checked_div(u128::from(counted_ns))?;
    u64::try_from(scaled).ok()
}

fn word(bytes: &[u8], index: usize) -> Option<u64> {
    bytes.get(index * 8..)?.first_chunk().map(|chunk| u64::from_ne_bytes(*chunk))
}

#[cfg(test)]
#[path = "hardware_tests.rs"]
mod tests;
