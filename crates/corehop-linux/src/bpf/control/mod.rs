// SPDX-License-Identifier: MIT OR Apache-2.0
//! The control page: an unpatched kernel reports a thread's preemptions and migrations to it, with
//! their length, target and preempter (Bastoni, Brandenburg and Anderson, OSPERT 2010, section 3.3).
//!
//! A program on `sched_switch` and one on `sched_migrate_task` write into the *slot* of a
//! registered thread, 320 bytes that the thread reads with loads. The counts are the kernel's own:
//! preemptions are `nivcsw`, voluntary switches `nvcsw`, migrations `se.nr_migrations`, in which are
//! moves at wake-up, and several in one absence, that a switch alone does not show.
//!
//! A thread, registered or not, is mostly found by one load from a table of 32,768 places, at the
//! lower 15 bits of its number; only where another thread has that place, a hash table is asked.
//!
//! With [`PagePurpose::Follow`] children of registered threads are registered as they are made, and each
//! absence that was a preemption or ended on another CPU becomes a record in a ring, but for [`BRIEF`] ones. The time that a
//! registered thread waited for a CPU is the kernel's own (`sched_info.run_delay`). It is booked to the
//! threads that had the CPU meanwhile: the program keeps the last 64 turns on each CPU. Times are
//! then those of the run queue's clock, which the kernel has read for the switch already.
//!
//! Some kernels run no programs while process 1 has the CPU, so that coming back from it is not
//! seen. Leaving is: it happens on the thread's own time. Hence the number that says that the thread
//! was away counts departures, and an arrival that was not seen is found out, and counted as such,
//! when the thread leaves the next time.
//!
//! A migration is an *affinity move* where the CPU that the thread ran on last is not among those
//! it may use any more: it moved itself, or somebody narrowed its mask or its cpuset. What the
//! scheduler's balancing does is counted without them.

mod word;

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use corehop_plan::samples::Bar;
use corehop_plan::units::Cpu;

use super::object::{BpfRingBuffer, BpfTable, Object};
use super::{ArrayMapping, BpfError, Btf, ProgramInfo, configured_cpus, kernel_types};
use word::{
    AWAY, COMMON_LOST, COMMON_NEXT, COMMON_PLACES, COMMON_UNFOLLOWED, CPU_IDLE, CPU_RAN, CPU_WORDS,
    ENDED, NOT_YET, PINNED, PLACES, PREEMPTED, SLOT_WORDS, SlotWord, UNSEEN,
};

/// The programs, `bpf/control.bpf.c`.
pub(super) const OBJECT: &[u8] = aya::include_bytes_aligned!("../../../bpf/control.bpf.o");

/// Slots for the threads of a program: 5 MiB.
const MOST_SLOTS: u32 = 16_000;

const FEW_SLOTS: u32 = 1_000;

/// Short sleeps after registering; one is seen, unless the kernel found no time to sleep.
const TRIES: u32 = 20;

/// Names of threads that are not registered and had a CPU that a registered one waited for.
const MOST_NAMES: u32 = 10_000;

/// A preemption that is shorter, and ends on the CPU where it began, is counted and not recorded.
pub const BRIEF: Duration = Duration::from_micros(10);

const RING_BYTES: u32 = 4 << 20;
/// The size of the ring if nothing is recorded; a map cannot be left out.
const NO_RING_BYTES: u32 = 4 << 10;

/// The purpose of the pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PagePurpose {
    /// Threads of this process register themselves and read their slots.
    Own,
    /// A program's threads are followed as it starts them, and absences are recorded.
    Follow,
}

/// The kernel's counts for a registered thread since it was registered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AbsenceCounts {
    /// The thread.
    pub tid: u32,
    /// Its process.
    pub pid: u32,
    /// Times it left its CPU: the number that changes with every absence.
    pub departures: u64,
    /// Times it was seen to come back to a CPU.
    pub arrivals: u64,
    /// Times it came back and was not seen to; of these absences only the departure is known.
    pub unseen: u64,
    /// Times it was taken off its CPU.
    pub preemptions: u64,
    /// Times it left because it blocked.
    pub voluntary: u64,
    /// Times the scheduler changed its CPU, those of `affinity_moves` included.
    pub migrations: u64,
    /// Migrations that its affinity made necessary: self-moves among them.
    pub affinity_moves: u64,
    /// Times it came back to another CPU than the one it had left.
    pub cpu_changes: u64,
    /// When it left its CPU last, in ns of CLOCK_MONOTONIC ([`PagePurpose::Own`]) or of the run queue's clock; 0
    /// before the first time.
    pub out_ns: u64,
    /// The CPU it left last.
    pub out_cpu: u64,
    /// When it was seen to come back last, by the same clock.
    pub in_ns: u64,
    /// The CPU it was seen to come back to last.
    pub in_cpu: u64,
    /// Preemption length: the time between being preempted and being back, summed up.
    pub preempted_ns: u64,
    /// Preemptions shorter than [`BRIEF`] that ended on the CPU where they began: [`PagePurpose::Follow`] counts
    /// them, and does not record them one by one.
    pub brief: u64,
    /// Their lengths summed up, which `preempted_ns` contains.
    pub brief_ns: u64,
    /// The length of its last absence, whatever its kind.
    pub last_ns: u64,
    /// The time it was away because it had blocked, waiting for a CPU afterwards included.
    pub blocked_ns: u64,
    /// The preempting thread of the last preemption.
    pub by: u32,
    /// Its name when it ended, padded with zeros; nothing but zeros before that, and where threads are
    /// not followed.
    pub name: Name,
    /// The time it had a CPU since it was registered, when it left last; by the kernel's account, as the
    /// next two are, where threads are followed.
    pub cpu_ns: u64,
    /// The time it waited for a CPU since it was registered, when it left last.
    pub waited_ns: u64,
    /// Both before it was registered.
    pub first: ThreadTimes,
    /// The time it had a CPU that other followed threads waited for, for each of them.
    pub held_ns: u64,
    /// The time that it was not allowed to run, by cause, in the order of [`Bar::ALL`].
    pub barred_ns: [u64; Bar::ALL.len()],
    /// Whether it has ended.
    pub has_ended: bool,
    /// Whether the last absence was a preemption.
    pub was_preempted: bool,
    /// Whether it has left and was not seen to come back: it is away, or came back unseen.
    pub is_away: bool,
}

impl AbsenceCounts {
    fn of(words: &[u64; SlotWord::COUNT]) -> Self {
        let word = |word: SlotWord| words[word as usize];
        Self {
            tid: word(SlotWord::Thread) as u32,
            pid: (word(SlotWord::Thread) >> 32) as u32,
            departures: word(SlotWord::Departures),
            arrivals: word(SlotWord::Arrivals),
            unseen: word(SlotWord::Unseen),
            preemptions: word(SlotWord::Preemptions),
            voluntary: word(SlotWord::Voluntary),
            migrations: word(SlotWord::Migrations).saturating_sub(word(SlotWord::FirstMigrations)),
            affinity_moves: word(SlotWord::AffinityMoves),
            cpu_changes: word(SlotWord::CpuChanges),
            out_ns: word(SlotWord::OutTime),
            out_cpu: word(SlotWord::OutCpu),
            in_ns: word(SlotWord::InTime),
            in_cpu: word(SlotWord::InCpu),
            preempted_ns: word(SlotWord::PreemptedNs),
            brief: word(SlotWord::Brief),
            brief_ns: word(SlotWord::BriefNs),
            last_ns: word(SlotWord::LastNs),
            blocked_ns: word(SlotWord::BlockedNs),
            by: word(SlotWord::By) as u32,
            name: name(word(SlotWord::OwnName), word(SlotWord::OwnNameEnd)),
            cpu_ns: word(SlotWord::CpuNs).saturating_sub(word(SlotWord::FirstCpuNs)),
            waited_ns: word(SlotWord::WaitedNs).saturating_sub(word(SlotWord::FirstWaitedNs)),
            first: ThreadTimes {
                cpu_ns: word(SlotWord::FirstCpuNs),
                waited_ns: word(SlotWord::FirstWaitedNs),
            },
            held_ns: word(SlotWord::HeldNs),
            barred_ns: std::array::from_fn(|at| words[SlotWord::BarredByQuota as usize + at]),
            has_ended: word(SlotWord::Ended) != 0,
            was_preempted: word(SlotWord::How) & PREEMPTED != 0,
            is_away: word(SlotWord::How) & AWAY != 0,
        }
    }
}

/// An absence that was a preemption, a migration, or both, as [`PagePurpose::Follow`] records it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AbsenceRecord {
    /// The thread.
    pub tid: u32,
    /// Its process.
    pub pid: u32,
    /// When it left, in ns of CLOCK_MONOTONIC.
    pub out_ns: u64,
    /// When it was back; where that was not seen, when it left again.
    pub in_ns: u64,
    /// Whether it was seen to come back; otherwise `in_ns` is a bound.
    pub seen: bool,
    /// The CPU it left.
    pub out_cpu: u32,
    /// The CPU it came back to.
    pub in_cpu: u32,
    /// Whether it was taken off its CPU; otherwise it had blocked.
    pub preempted: bool,
    /// Whether its affinity made it move.
    pub pinned: bool,
    /// Its running time before it left; 0 where that was not seen.
    pub ran_ns: u64,
    /// Its CPU time until it left, since it was registered.
    pub cpu_ns: u64,
    /// The preempting thread.
    pub by: u32,
    /// That thread's name, padded with zeros.
    pub by_name: Name,
}

impl AbsenceRecord {
    fn of(words: &[u64]) -> Option<Self> {
        let &[thread, out_ns, in_ns, cpus, how, by_name, by_name_end, ran_ns, cpu_ns] = words
        else {
            return None;
        };
        Some(Self {
            tid: thread as u32,
            pid: (thread >> 32) as u32,
            out_ns,
            in_ns,
            out_cpu: cpus as u32,
            in_cpu: (cpus >> 32) as u32,
            preempted: how & PREEMPTED != 0,
            pinned: how & PINNED != 0,
            seen: how & UNSEEN == 0,
            ran_ns,
            cpu_ns,
            by: (how >> 32) as u32,
            by_name: name(by_name, by_name_end),
        })
    }
}

/// A thread's name, padded with zeros.
pub type Name = [u8; 16];

/// The kernel's account of a thread, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ThreadTimes {
    /// The time it had a CPU.
    pub cpu_ns: u64,
    /// The time it waited for one.
    pub waited_ns: u64,
}

/// The two halves of a thread's name.
const fn name(begin: u64, end: u64) -> Name {
    (begin as u128 | (end as u128) << 64).to_le_bytes()
}

/// The programs and the slots. All of it goes when the last owner does; several may run side by
/// side.
#[derive(Debug)]
pub struct ControlPages {
    // Declared first, so that the programs run no more when their memory goes.
    object: Object,
    /// By tracepoint.
    programs: Vec<(&'static str, &'static str)>,
    common: ArrayMapping,
    memory: ArrayMapping,
    cpus: ArrayMapping,
    threads: BpfTable<u32, u32>,
    others: BpfTable<Name, u64>,
    ring: Option<Mutex<BpfRingBuffer>>,
    slots: u32,
    free: Mutex<Vec<u32>>,
}

impl ControlPages {
    /// Loads the programs.
    ///
    /// # Errors
    /// If the kernel has no BTF, or its BTF lacks a field (which is named), or the caller may not.
    pub fn open(mode: PagePurpose) -> Result<Arc<Self>, BpfError> {
        Self::open_with(kernel_types()?, mode)
    }

    /// The same with type information that has been read already.
    ///
    /// # Errors
    /// As for [`open`](Self::open).
    pub fn open_with(types: &Btf, mode: PagePurpose) -> Result<Arc<Self>, BpfError> {
        let follow = mode == PagePurpose::Follow;
        let [slots, ring, cpus, names] = if follow {
            [MOST_SLOTS, RING_BYTES, configured_cpus() as u32, MOST_NAMES]
        } else {
            [FEW_SLOTS, NO_RING_BYTES, 1, 1]
        };
        let entries = [
            ("corehop_slots", slots),
            ("corehop_threads", slots),
            ("corehop_ring", ring),
            ("corehop_cpus", cpus),
            ("corehop_others", names),
        ];
        let mut object = Object::load(OBJECT, types, &entries, &[])?;
        let programs = attach(&mut object, types, mode)?;
        let (common, memory) = (object.show("corehop_common")?, object.show("corehop_slots")?);
        let cpus = object.show("corehop_cpus")?;
        let threads = object.take_table("corehop_threads")?;
        let others = object.take_table("corehop_others")?;
        let ring = follow.then(|| object.take_ring("corehop_ring")).transpose()?.map(Mutex::new);
        let free = Mutex::new(Vec::new());
        Ok(Arc::new(Self {
            object,
            programs,
            common,
            memory,
            cpus,
            threads,
            others,
            ring,
            slots,
            free,
        }))
    }

    /// Registers the calling thread, until the page is dropped.
    ///
    /// # Errors
    /// If all slots are taken, or the kernel counts under another number than the thread knows of itself (in
    /// a PID namespace).
    pub fn register(self: &Arc<Self>) -> Result<ControlPage, BpfError> {
        // SAFETY: both ask a number of the kernel.
        let (tid, pid) = unsafe { (libc::gettid(), libc::getpid()) };
        let (tid, pid) = (tid.cast_unsigned(), pid.cast_unsigned());
        let page = ControlPage { slot: self.watch(tid, pid, None)?, tid, pages: self.clone() };
        // Away once: then the slot must have seen it.
        for _ in 0..TRIES {
            std::thread::sleep(Duration::from_micros(50));
            if page.departures() > 0 {
                return Ok(page);
            }
        }
        Err(BpfError::Failed {
            what: format!(
                "watching thread {tid}: the kernel knows it by another number (is this a PID \
                 namespace?), which"
            ),
            source: io::Error::from_raw_os_error(libc::ESRCH),
        })
    }

    /// Registers the thread `tid` of the process `pid`, whose times so far are `times` by the kernel's account;
    /// the number of its slot.
    ///
    /// # Errors
    /// If all slots are taken.
    pub fn watch(&self, tid: u32, pid: u32, times: Option<ThreadTimes>) -> Result<u32, BpfError> {
        let slot = self.free_slot()?;
        let first = Self::first_word(slot);
        self.memory.word(first).store(u64::from(tid) | u64::from(pid) << 32, Ordering::Relaxed);
        let put = |word: SlotWord, value| {
            self.memory.word(first + word as usize).store(value, Ordering::Relaxed);
        };
        put(SlotWord::FirstMigrations, NOT_YET);
        let times = times.unwrap_or_default();
        put(SlotWord::CpuNs, times.cpu_ns);
        put(SlotWord::FirstCpuNs, times.cpu_ns);
        put(SlotWord::WaitedNs, times.waited_ns);
        put(SlotWord::FirstWaitedNs, times.waited_ns);
        self.threads.put(tid, slot).map_err(|source| BpfError::Failed {
            what: format!("registering thread {tid}"),
            source,
        })?;
        self.place(tid).store(u64::from(tid) | u64::from(slot + 1) << 32, Ordering::Relaxed);
        Ok(slot)
    }

    /// The place of a thread: its number, and that of its slot plus one in the upper half.
    fn place(&self, tid: u32) -> &AtomicU64 {
        self.common.word(COMMON_PLACES + tid as usize % PLACES)
    }

    /// Makes the place of a thread that is registered no more one of a thread that has ended.
    fn displace(&self, tid: u32) {
        let ended = |place| (place as u32 == tid).then_some(u64::from(ENDED));
        let _another_has_it =
            self.place(tid).fetch_update(Ordering::Relaxed, Ordering::Relaxed, ended);
    }

    fn free_slot(&self) -> Result<u32, BpfError> {
        let free = self.free.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let slot = free.map_or_else(
            || self.common.word(COMMON_NEXT).fetch_add(1, Ordering::Relaxed),
            u64::from,
        );
        u32::try_from(slot).ok().filter(|&slot| slot < self.slots).ok_or_else(|| BpfError::Failed {
            what: format!("registering more than {} threads", self.slots),
            source: io::Error::from_raw_os_error(libc::ENOSPC),
        })
    }

    const fn first_word(slot: u32) -> usize {
        slot as usize * SLOT_WORDS
    }

    /// The counts in slot `slot`. The words are read one by one: a thread that reads its own while it runs
    /// reads what cannot change; of another one they may belong to two moments.
    pub fn counts(&self, slot: u32) -> AbsenceCounts {
        AbsenceCounts::of(&self.memory.words(Self::first_word(slot)))
    }

    /// The counts of every thread that was registered so far, in the order of registration.
    pub fn all(&self) -> Vec<AbsenceCounts> {
        (0..self.registered()).map(|slot| self.counts(slot)).collect()
    }

    fn registered(&self) -> u32 {
        let [next] = self.common.words(COMMON_NEXT);
        next.min(u64::from(self.slots)) as u32
    }

    /// Whether a registered thread that has not ended yet has the number `tid`.
    pub fn watches(&self, tid: u32) -> bool {
        self.threads.get(tid).is_some()
    }

    /// Takes the absences recorded since the last time.
    pub fn absences(&self, mut take: impl FnMut(AbsenceRecord)) {
        let Some(ring) = &self.ring else { return };
        let mut ring = ring.lock().unwrap_or_else(PoisonError::into_inner);
        ring.drain(|words| {
            if let Some(absence) = AbsenceRecord::of(words) {
                take(absence);
            }
        });
    }

    /// The time that other threads had CPUs that followed threads waited for, for each of these, by name.
    pub fn others(&self) -> Vec<(Name, u64)> {
        self.others.all().unwrap_or_default()
    }

    /// The time that followed threads waited for CPUs that were idle and had to wake up.
    pub fn idle_ns(&self) -> u64 {
        let cpus = (0..self.cpus.len() / CPU_WORDS).map(|cpu| cpu * CPU_WORDS + CPU_IDLE);
        cpus.map(|word| self.cpus.words::<1>(word)[0]).sum()
    }

    /// The time that followed threads had each CPU, where they had any.
    pub fn ran(&self) -> Vec<(Cpu, u64)> {
        let on = |cpu: usize| (Cpu(cpu as u32), self.cpus.words::<1>(cpu * CPU_WORDS + CPU_RAN)[0]);
        (0..self.cpus.len() / CPU_WORDS).map(on).filter(|&(_, ns)| ns > 0).collect()
    }

    /// Absences that found no room in the ring.
    pub fn lost(&self) -> u64 {
        let [lost] = self.common.words(COMMON_LOST);
        lost
    }

    /// Threads that were started when all slots were taken, and are not followed.
    pub fn unfollowed(&self) -> u64 {
        let [unfollowed] = self.common.words(COMMON_UNFOLLOWED);
        unfollowed
    }

    /// The kernel's facts about each program, by tracepoint.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn programs(&self) -> io::Result<Vec<(&'static str, ProgramInfo)>> {
        let info = |program: &str| self.object.info(program);
        self.programs.iter().map(|(name, program)| Ok((*name, info(program)?))).collect()
    }
}

/// Runs the programs; their names, by tracepoint.
fn attach(
    object: &mut Object,
    types: &Btf,
    mode: PagePurpose,
) -> Result<Vec<(&'static str, &'static str)>, BpfError> {
    let others: &[_] = match mode {
        PagePurpose::Own => &[("sched_migrate_task", "hop_migrate")],
        PagePurpose::Follow => &[
            ("sched_migrate_task", "hop_migrate_follow"),
            ("sched_process_fork", "hop_fork"),
            ("sched_process_exec", "hop_exec"),
        ],
    };
    let mut programs = vec![("sched_switch", attach_switch(object, types, mode)?)];
    for &(tracepoint, program) in others {
        object.attach(program, tracepoint, types)?;
        programs.push((tracepoint, program));
    }
    Ok(programs)
}

/// The verifier decides whether the tracepoint has the argument that Linux 5.18 has added. Distributions
/// have added it to older kernels, so that a release number does not tell.
fn attach_switch(
    object: &mut Object,
    types: &Btf,
    mode: PagePurpose,
) -> Result<&'static str, BpfError> {
    let (new, old) = match mode {
        PagePurpose::Own => ("hop_switch", "hop_switch_old"),
        PagePurpose::Follow => ("hop_switch_follow", "hop_switch_follow_old"),
    };
    match object.attach(new, "sched_switch", types) {
        Ok(()) => Ok(new),
        Err(error @ BpfError::Rejected { .. }) => {
            object.attach(old, "sched_switch", types).map(|()| old).map_err(|_| error)
        }
        Err(error) => Err(error),
    }
}

/// The calling thread's own slot.
#[derive(Debug)]
pub struct ControlPage {
    pages: Arc<ControlPages>,
    slot: u32,
    tid: u32,
}

impl ControlPage {
    /// A number that changes whenever the thread was away: one load.
    #[inline]
    pub fn departures(&self) -> u64 {
        let first = ControlPages::first_word(self.slot);
        let [departures] = self.pages.memory.words(first + SlotWord::Departures as usize);
        departures
    }

    /// All of it, at one moment: read again where the thread was away in between.
    pub fn read(&self) -> AbsenceCounts {
        loop {
            let counts = self.pages.counts(self.slot);
            if counts.departures == self.departures() {
                return counts;
            }
        }
    }
}

impl Drop for ControlPage {
    fn drop(&mut self) {
        self.pages.displace(self.tid);
        self.pages.threads.remove(self.tid);
        let first = ControlPages::first_word(self.slot);
        for word in 0..SlotWord::COUNT {
            self.pages.memory.word(first + word).store(0, Ordering::Relaxed);
        }
        self.pages.free.lock().unwrap_or_else(PoisonError::into_inner).push(self.slot);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_holds_its_words_and_a_record_its_parts() {
        const { assert!(SlotWord::COUNT <= SLOT_WORDS) };
        let words = [
            7 | 5 << 32,
            10,
            30,
            1 << 32,
            5 | 9 << 32,
            u64::from_ne_bytes(*b"make\0\0\0\0"),
            0,
            4,
            6,
        ];
        let absence = AbsenceRecord::of(&words).unwrap();
        assert_eq!((absence.tid, absence.pid, absence.by), (7, 5, 9));
        assert_eq!((absence.out_cpu, absence.in_cpu, absence.ran_ns), (0, 1, 4));
        assert_eq!(absence.cpu_ns, 6);
        assert!(absence.preempted && !absence.pinned && absence.by_name.starts_with(b"make\0"));
    }
}
