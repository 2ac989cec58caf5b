// SPDX-License-Identifier: MIT OR Apache-2.0
//! The control page: BPF programs on an unpatched kernel record a thread's preemptions and migrations, with length,
//! target and preempting thread (Bastoni, Brandenburg and Anderson, OSPERT 2010, section 3.3).
//!
//! A program on `sched_switch` and a program on `sched_migrate_task` write into the *slot* of a registered thread. A
//! slot has 320 bytes, which the thread reads with loads. The counts are the kernel's own: preemptions are `nivcsw`,
//! voluntary switches `nvcsw`, and migrations `se.nr_migrations`. This number includes moves at wake-up and repeated
//! moves in one absence, which a switch alone does not show.
//!
//! The programs usually find a thread, registered or not, by one load from a table of 32,768 entries, indexed by the
//! lower 15 bits of the thread ID. The programs query a hash table only if another thread uses the entry.
//!
//! With [`PagePurpose::Follow`], children of registered threads are registered when they are created. Each absence
//! that was a preemption or ended on another CPU becomes a record in a ring, except [`BRIEF`] ones. The time that a
//! registered thread waited for a CPU comes from the kernel (`sched_info.run_delay`). Waiting time is attributed to
//! the threads that had the CPU meanwhile, because the program stores the last 64 turns on each CPU. Times then come
//! from the run queue's clock, which the kernel has already read for the switch.
//!
//! Some kernels run no BPF programs while process 1 has the CPU, so a thread's return from process 1 is not observed.
//! A departure is always observed, because it happens on the thread's own time. So the counter that shows absences
//! counts departures. An unobserved return is detected, and counted as such, when the thread leaves the next time.
//!
//! A migration is an *affinity move* if the thread may no longer use the CPU that it ran on last: either the thread
//! moved itself, or its mask or cpuset was narrowed. Migrations by the scheduler's balancing are counted without
//! affinity moves.

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

/// The compiled programs of `bpf/control.bpf.c`.
pub(super) const OBJECT: &[u8] = aya::include_bytes_aligned!("../../../bpf/control.bpf.o");

/// The number of slots for the threads of a program, which need 5 MiB.
const MOST_SLOTS: u32 = 16_000;

const FEW_SLOTS: u32 = 1_000;

/// The number of short sleeps after registering. The kernel program observes at least one of these sleeps, unless the
/// kernel never lets the thread sleep.
const TRIES: u32 = 20;

/// The number of names of unregistered threads that had a CPU for which a registered thread waited.
const MOST_NAMES: u32 = 10_000;

/// A preemption that is shorter than this and ends on its CPU is counted but not recorded.
pub const BRIEF: Duration = Duration::from_micros(10);

const RING_BYTES: u32 = 4 << 20;
/// The size of the ring if nothing is recorded, because a map cannot be omitted.
const NO_RING_BYTES: u32 = 4 << 10;

/// The use of the control pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PagePurpose {
    /// Threads of this process register themselves and read their own slots.
    Own,
    /// corehop follows the threads of a program from their start on, and records their absences.
    Follow,
}

/// The kernel's counts for a thread since it was registered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AbsenceCounts {
    /// The ID of the thread.
    pub tid: u32,
    /// The ID of the thread's process.
    pub pid: u32,
    /// The number of times the thread left its CPU, which changes with every absence.
    pub departures: u64,
    /// The number of times the thread's return to a CPU was observed.
    pub arrivals: u64,
    /// The number of times the thread returned without being observed; of these absences only the departure is known.
    pub unseen: u64,
    /// The number of times the thread was preempted.
    pub preemptions: u64,
    /// The number of times the thread left its CPU because it blocked.
    pub voluntary: u64,
    /// The number of times the scheduler changed the thread's CPU, including `affinity_moves`.
    pub migrations: u64,
    /// The number of migrations that the thread's affinity required, including moves that the thread requested.
    pub affinity_moves: u64,
    /// The number of times the thread resumed on a CPU other than the one that it had left.
    pub cpu_changes: u64,
    /// The time of the last departure, in ns of CLOCK_MONOTONIC ([`PagePurpose::Own`]) or of the run queue's clock; 0
    /// before the first departure.
    pub out_ns: u64,
    /// The CPU of the last departure.
    pub out_cpu: u64,
    /// The time of the last observed return, by the clock of `out_ns`.
    pub in_ns: u64,
    /// The CPU of the last observed return.
    pub in_cpu: u64,
    /// The total length of preemptions: the time from each preemption to the return, in ns.
    pub preempted_ns: u64,
    /// The number of preemptions that were shorter than [`BRIEF`] and ended on their CPU. [`PagePurpose::Follow`]
    /// counts them but does not record them individually.
    pub brief: u64,
    /// The total length of the brief preemptions, which is included in `preempted_ns`.
    pub brief_ns: u64,
    /// The length of the last absence of any kind, in ns.
    pub last_ns: u64,
    /// The time that the thread was away because it had blocked, including the wait for a CPU afterwards, in ns.
    pub blocked_ns: u64,
    /// The preempting thread of the last preemption.
    pub by: u32,
    /// The thread's name when it ended, padded with zeros; all zeros before the end, and if threads are not followed.
    pub name: Name,
    /// The thread's CPU time from its registration to its last departure, in ns. If threads are followed, `cpu_ns`,
    /// `waited_ns` and `first` come from the kernel's accounting.
    pub cpu_ns: u64,
    /// The time that the thread waited for a CPU from its registration to its last departure, in ns.
    pub waited_ns: u64,
    /// The thread's CPU time and waiting time before it was registered.
    pub first: ThreadTimes,
    /// The time that the thread had a CPU for which other followed threads waited, counted once per waiting thread,
    /// in ns.
    pub held_ns: u64,
    /// The time that the thread was not allowed to run, by cause, in the order of [`Bar::ALL`].
    pub barred_ns: [u64; Bar::ALL.len()],
    /// Whether the thread has ended.
    pub has_ended: bool,
    /// Whether the last absence was a preemption.
    pub was_preempted: bool,
    /// Whether the thread left without an observed return: it is either away, or returned unobserved.
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

/// An absence that was a preemption, a migration, or both, as recorded with [`PagePurpose::Follow`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AbsenceRecord {
    /// The ID of the absent thread.
    pub tid: u32,
    /// The ID of the thread's process.
    pub pid: u32,
    /// The time of the departure, in ns of CLOCK_MONOTONIC.
    pub out_ns: u64,
    /// The time of the return; if the return was not observed, the time of the next departure.
    pub in_ns: u64,
    /// Whether the return was observed; otherwise `in_ns` is an upper bound.
    pub seen: bool,
    /// The CPU that the thread left.
    pub out_cpu: u32,
    /// The CPU on which the thread resumed.
    pub in_cpu: u32,
    /// Whether the thread was preempted; otherwise it blocked.
    pub preempted: bool,
    /// Whether the thread's affinity required the migration.
    pub pinned: bool,
    /// The time that the thread ran before it left, in ns; 0 if the start was not observed.
    pub ran_ns: u64,
    /// The thread's CPU time from its registration to this departure, in ns.
    pub cpu_ns: u64,
    /// The ID of the preempting thread.
    pub by: u32,
    /// The name of the preempting thread, padded with zeros.
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

/// The kernel's accounting of a thread, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ThreadTimes {
    /// The time that the thread had a CPU.
    pub cpu_ns: u64,
    /// The time that the thread waited for a CPU.
    pub waited_ns: u64,
}

/// Combines the two halves of a thread's name.
const fn name(begin: u64, end: u64) -> Name {
    (begin as u128 | (end as u128) << 64).to_le_bytes()
}

/// The BPF programs and the slots that they write. The programs are unloaded when the last owner is dropped; several
/// instances may run simultaneously.
#[derive(Debug)]
pub struct ControlPages {
    // Declared first, so that the programs run no more when their memory goes.
    object: Object,
    /// The names of the programs, by tracepoint.
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
    /// Loads the BPF programs.
    ///
    /// # Errors
    /// Fails if the kernel has no BTF, its BTF lacks a field (which the error names), or the caller lacks a privilege.
    pub fn open(mode: PagePurpose) -> Result<Arc<Self>, BpfError> {
        Self::open_with(kernel_types()?, mode)
    }

    /// Loads the BPF programs with type information that has already been read.
    ///
    /// # Errors
    /// Fails with the errors of [`open`](Self::open).
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

    /// Registers the calling thread until the returned page is dropped.
    ///
    /// # Errors
    /// Fails if all slots are taken, or the kernel uses another thread ID than the thread sees (in a PID namespace).
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
                "watching thread {tid}, which has another number in the kernel (is this a PID namespace?)"
            ),
            source: io::Error::from_raw_os_error(libc::ESRCH),
        })
    }

    /// Registers the thread `tid` of the process `pid`, which has run and waited for `times` so far; returns the number
    /// of the thread's slot.
    ///
    /// # Errors
    /// Fails if all slots are taken.
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

    /// The table entry of a thread: the thread ID, and the slot number plus one in the upper half.
    fn place(&self, tid: u32) -> &AtomicU64 {
        self.common.word(COMMON_PLACES + tid as usize % PLACES)
    }

    /// Marks the table entry of a registered thread, so that the entry belongs to an ended thread.
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

    /// Returns the counts in slot `slot`. The call reads the words of the slot one by one. A running thread that reads
    /// its own slot sees a consistent state, but the words of another thread's slot may come from different moments.
    pub fn counts(&self, slot: u32) -> AbsenceCounts {
        AbsenceCounts::of(&self.memory.words(Self::first_word(slot)))
    }

    /// Returns the counts of every thread registered so far, in the order of registration.
    pub fn all(&self) -> Vec<AbsenceCounts> {
        (0..self.registered()).map(|slot| self.counts(slot)).collect()
    }

    fn registered(&self) -> u32 {
        let [next] = self.common.words(COMMON_NEXT);
        next.min(u64::from(self.slots)) as u32
    }

    /// Returns whether a registered thread with the ID `tid` exists that has not ended.
    pub fn watches(&self, tid: u32) -> bool {
        self.threads.get(tid).is_some()
    }

    /// Passes on the absences recorded since the last call.
    pub fn absences(&self, mut take: impl FnMut(AbsenceRecord)) {
        let Some(ring) = &self.ring else { return };
        let mut ring = ring.lock().unwrap_or_else(PoisonError::into_inner);
        ring.drain(|words| {
            if let Some(absence) = AbsenceRecord::of(words) {
                take(absence);
            }
        });
    }

    /// Returns, by thread name, the time that other threads had CPUs for which followed threads waited, counted once
    /// per waiting thread.
    pub fn others(&self) -> Vec<(Name, u64)> {
        self.others.all().unwrap_or_default()
    }

    /// Returns the time that followed threads waited for CPUs that were idle and had to wake up.
    pub fn idle_ns(&self) -> u64 {
        let cpus = (0..self.cpus.len() / CPU_WORDS).map(|cpu| cpu * CPU_WORDS + CPU_IDLE);
        cpus.map(|word| self.cpus.words::<1>(word)[0]).sum()
    }

    /// Returns, by CPU, how long followed threads ran on the CPU; CPUs on which no followed thread ran are left out.
    pub fn ran(&self) -> Vec<(Cpu, u64)> {
        let on = |cpu: usize| (Cpu(cpu as u32), self.cpus.words::<1>(cpu * CPU_WORDS + CPU_RAN)[0]);
        (0..self.cpus.len() / CPU_WORDS).map(on).filter(|&(_, ns)| ns > 0).collect()
    }

    /// Returns the number of absences that were lost because the ring was full.
    pub fn lost(&self) -> u64 {
        let [lost] = self.common.words(COMMON_LOST);
        lost
    }

    /// Returns the number of threads that are not followed because all slots were taken when they started.
    pub fn unfollowed(&self) -> u64 {
        let [unfollowed] = self.common.words(COMMON_UNFOLLOWED);
        unfollowed
    }

    /// Returns the kernel's information about each program, by tracepoint.
    ///
    /// # Errors
    /// Fails with the kernel's error.
    pub fn programs(&self) -> io::Result<Vec<(&'static str, ProgramInfo)>> {
        let info = |program: &str| self.object.info(program);
        self.programs.iter().map(|(name, program)| Ok((*name, info(program)?))).collect()
    }
}

/// Attaches the programs; returns their names by tracepoint.
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

/// Lets the verifier decide whether the tracepoint has the argument that Linux 5.18 added. A release number is not
/// reliable, because distributions have added the argument to older kernels.
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

/// The slot of the calling thread.
#[derive(Debug)]
pub struct ControlPage {
    pages: Arc<ControlPages>,
    slot: u32,
    tid: u32,
}

impl ControlPage {
    /// Returns a number that changes with every absence of the thread. Reading the number takes a single load.
    #[inline]
    pub fn departures(&self) -> u64 {
        let first = ControlPages::first_word(self.slot);
        let [departures] = self.pages.memory.words(first + SlotWord::Departures as usize);
        departures
    }

    /// Returns all counts as of a single moment. If the thread was away during the reading, the counts are read again.
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
