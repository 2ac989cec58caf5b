// SPDX-License-Identifier: MIT OR Apache-2.0
//! Hardware counters of other threads: instructions, misses of the last-level cache, and misses that another core's
//! cache answered.
//!
//! The event for answered misses differs between processor families; if it is unknown for a processor, this source is
//! not available. Only loads in user mode are counted. Reading takes a system call per thread.

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

use corehop_plan::host::InstructionCounts;

use super::CounterError;
use super::hardware::{GroupReading, READ_FORMAT, TYPE_HARDWARE, TYPE_RAW, Vendor, id_of, refused};
use crate::perf_event::{EventOwner, PerfEvent, USER_ONLY};
use corehop_system::proc;

/// The largest number of threads counted simultaneously, with three descriptors each: a process may usually have
/// 1,024 descriptors.
pub const MOST: usize = 256;

/// The type and configuration of an event.
type Encoding = (u32, u64);

/// The events, in the order of [`InstructionCounts`].
type Encodings = [Encoding; 3];

/// The events of this processor, from the text of `/proc/cpuinfo`; `None` if they are unknown.
fn encodings(cpuinfo: &str) -> Option<Encodings> {
    let number = |name: &str| -> Option<u32> {
        let mut fields = cpuinfo.lines().filter_map(|line| line.split_once(':'));
        fields.find(|(field, _)| field.trim() == name)?.1.trim().parse().ok()
    };
    let instructions = (TYPE_HARDWARE, 1);
    let (misses, from_caches) = match (Vendor::parse(cpuinfo), number("cpu family")?) {
        (Vendor::Intel, 6) => (0x20d1, answered_by_remote_caches(number("model")?)?),
        // ls_dmnd_fills_from_sys, since Zen 3: all fills from beyond the core complex, and those from caches.
        (Vendor::Amd, 0x19..) => (0x5c43, 0x1443),
        _ => return None,
    };
    Some([instructions, (TYPE_RAW, misses), (TYPE_RAW, from_caches)])
}

/// The event for retired loads that a cache of another package answered, modified or not: MEM_LOAD_L3_MISS_RETIRED,
/// or before Skylake MEM_LOAD_UOPS_L3_MISS_RETIRED, with other unit masks.
const fn answered_by_remote_caches(model: u32) -> Option<u64> {
    match model {
        // Haswell and Broadwell servers.
        63 | 79 | 86 => Some(0x30d3),
        // Skylake to Cooper Lake, Ice Lake, Sapphire and Emerald Rapids, Granite Rapids.
        85 | 106 | 108 | 143 | 207 | 173 | 174 => Some(0x0cd3),
        _ => None,
    }
}

/// The events of one thread, which count together.
#[derive(Debug)]
struct CounterGroup {
    /// The events, the leader first. The descriptors stay open as long as the events count.
    events: Vec<(OwnedFd, u64)>,
    last: [u64; 3],
}

impl CounterGroup {
    fn open(tid: u32, encodings: &Encodings) -> io::Result<Self> {
        let mut events: Vec<(OwnedFd, u64)> = Vec::with_capacity(encodings.len());
        for &(kind, config) in encodings {
            let leader: Option<RawFd> = events.first().map(|(fd, _)| fd.as_raw_fd());
            let (read_format, flags) = (READ_FORMAT, USER_ONLY);
            let event = PerfEvent { kind, config, read_format, flags, ..PerfEvent::default() };
            let fd = event.open(EventOwner::Thread(tid, leader))?;
            let id = id_of(&fd)?;
            events.push((fd, id));
        }
        let mut group = Self { events, last: [0; 3] };
        // One that has not run so far has counted nothing.
        group.last = group.read().unwrap_or_default();
        Ok(group)
    }

    /// The counts so far; `None` if the group has not yet used the processor's counters.
    fn read(&self) -> Option<[u64; 3]> {
        let mut answer = [0_u8; 24 + 16 * 3];
        let leader = self.events.first()?.0.as_raw_fd();
        // SAFETY: the kernel writes at most the length given.
        let length = unsafe { libc::read(leader, answer.as_mut_ptr().cast(), answer.len()) };
        let answer = answer.get(..usize::try_from(length).ok()?)?;
        let reading = GroupReading::parse(answer).ok()?;
        let mut counts = [0; 3];
        for (count, (_, id)) in counts.iter_mut().zip(&self.events) {
            *count = reading.count(*id)?;
        }
        Some(counts)
    }

    /// The counts since the last call.
    fn take(&mut self) -> Option<InstructionCounts> {
        let now = self.read()?;
        let before = std::mem::replace(&mut self.last, now);
        let added = |at: usize| now[at].saturating_sub(before[at]);
        Some(InstructionCounts { instructions: added(0), misses: added(1), from_caches: added(2) })
    }
}

/// The running counters of some threads.
#[derive(Debug)]
pub struct ThreadCounters {
    encodings: Encodings,
    groups: HashMap<u32, CounterGroup>,
}

impl ThreadCounters {
    /// Checks that the events can be counted; no thread is counted yet.
    ///
    /// # Errors
    /// Fails if this processor's events are unknown, or cannot be counted on this host.
    pub fn open() -> Result<Self, CounterError> {
        let cpuinfo = proc::text("/proc/cpuinfo").unwrap_or_default();
        let encodings = encodings(&cpuinfo).ok_or_else(|| CounterError::Unavailable {
            what: "misses that another core's cache answers".to_owned(),
            reason: "corehop knows no event of this processor that counts these misses".to_owned(),
            remedy: "use a Xeon from Haswell on, or an AMD processor from Zen 3 on".to_owned(),
            errno: None,
        })?;
        Self::with(encodings)
    }

    /// Creates counters for these events. The call first counts the events for the calling thread, to test whether they
    /// can be counted.
    fn with(encodings: Encodings) -> Result<Self, CounterError> {
        CounterGroup::open(0, &encodings).map_err(|error| refused("llc_misses", &error))?;
        Ok(Self { encodings, groups: HashMap::new() })
    }

    /// Returns the counts of these threads since the last call, for the first [`MOST`] threads, each from its second
    /// call on. Threads that are no longer listed are no longer counted.
    pub fn take(&mut self, tids: &[u32]) -> HashMap<u32, InstructionCounts> {
        let tids = &tids[..tids.len().min(MOST)];
        let named: std::collections::HashSet<u32> = tids.iter().copied().collect();
        self.groups.retain(|tid, _| named.contains(tid));
        let mut counted = HashMap::new();
        for &tid in tids {
            if let Some(group) = self.groups.get_mut(&tid) {
                counted.extend(group.take().map(|it| (tid, it)));
            } else if let Ok(group) = CounterGroup::open(tid, &self.encodings) {
                // One that cannot be opened has ended, or is another user's.
                self.groups.insert(tid, group);
            }
        }
        counted
    }
}

#[cfg(test)]
#[expect(clippy::print_stderr, reason = "a skip says why")]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};

    #[test]
    fn the_events_of_a_processor_follow_from_its_maker_family_and_model() {
        let raw = |misses, caches| Some([(0, 1), (4, misses), (4, caches)]);
        for (vendor, family, model, events) in [
            ("GenuineIntel", 6, 85, raw(0x20d1, 0x0cd3)),
            ("GenuineIntel", 6, 143, raw(0x20d1, 0x0cd3)),
            ("GenuineIntel", 6, 63, raw(0x20d1, 0x30d3)),
            // A laptop has one last-level cache; of Nehalem it is not known here.
            ("GenuineIntel", 6, 142, None),
            ("GenuineIntel", 6, 26, None),
            ("AuthenticAMD", 25, 1, raw(0x5c43, 0x1443)),
            ("AuthenticAMD", 26, 2, raw(0x5c43, 0x1443)),
            ("AuthenticAMD", 23, 49, None),
        ] {
            let text =
                format!("vendor_id\t: {vendor}\ncpu family\t: {family}\nmodel\t\t: {model}\n");
            assert_eq!(encodings(&text), events, "{text}");
        }
        assert_eq!(encodings("CPU implementer\t: 0x41\n"), None);
    }

    #[test]
    fn a_group_of_three_is_read_as_the_kernel_writes_it() {
        let words = [3_u64, 8_000, 4_000, 500, 11, 40, 12, 30, 13];
        let bytes: Vec<u8> = words.iter().flat_map(|it| it.to_ne_bytes()).collect();
        let reading = GroupReading::parse(&bytes).unwrap();
        // It had its turn half of the time.
        assert_eq!([11, 12, 13].map(|id| reading.count(id)), [Some(1_000), Some(80), Some(60)]);
    }

    /// Kernel events that work without processor counters: the task clock, page faults and switches.
    const SOFTWARE: Encodings = [(1, 1), (1, 2), (1, 3)];

    #[test]
    fn another_thread_is_counted_until_it_is_not_named_any_more() {
        let mut counters = match ThreadCounters::with(SOFTWARE) {
            Ok(counters) => counters,
            Err(error) => return eprintln!("skipped: {error}"),
        };
        let end = AtomicBool::new(false);
        let (tell, told) = std::sync::mpsc::channel();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                tell.send(corehop_system::thread::current_tid()).unwrap();
                while !end.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
            let tid = told.recv().unwrap();
            let begun = counters.take(&[tid]);
            // On a busy machine it may not run at once.
            let counted = (0..2_000).find_map(|_| {
                std::thread::sleep(std::time::Duration::from_millis(5));
                counters.take(&[tid]).get(&tid).copied().filter(|it| it.instructions > 0)
            });
            let left = counters.take(&[]);
            end.store(true, Ordering::Relaxed);
            assert!(begun.is_empty(), "the first time begins");
            // Nanoseconds of its clock; it takes no memory.
            assert!(counted.unwrap().misses < 1_000, "{counted:?}");
            assert!(left.is_empty() && counters.groups.is_empty());
        });
        let gone = 4_194_303;
        assert!(counters.take(&[gone]).is_empty() && counters.groups.is_empty());
    }

    #[test]
    fn threads_beyond_the_most_are_not_counted() {
        let Ok(mut counters) = ThreadCounters::with(SOFTWARE) else {
            return eprintln!("skipped: no perf_event_open(2)");
        };
        let own = corehop_system::thread::current_tid();
        let mut tids = vec![4_194_303; MOST];
        tids.push(own);
        counters.take(&tids);
        assert!(!counters.groups.contains_key(&own));
    }

    #[test]
    fn here_they_count_or_say_what_is_missing_and_what_gives_it() {
        if let Err(error) = ThreadCounters::open() {
            let text = error.to_string();
            assert!(text.contains("corehop cannot read ") && text.contains("; "), "{text}");
            eprintln!("skipped: {text}");
        }
    }
}
