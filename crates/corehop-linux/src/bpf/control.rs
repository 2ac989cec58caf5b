// SPDX-License-Identifier: MIT OR Apache-2.0
//! The control page: the kernel tells a thread that it was preempted or migrated, for how long,
//! where to, and by whom (Bastoni, Brandenburg and Anderson, OSPERT 2010, section 3.3), without a
//! patch.
//!
//! A program on `sched_switch` and one on `sched_migrate_task` write into the *slot* of a
//! registered thread, 256 bytes that the thread reads with loads. The counts are the kernel's own:
//! preemptions are `nivcsw`, voluntary switches `nvcsw`, migrations those of
//! `sched_migrate_task`, which sees moves at wake-up that a switch alone does not show.
//!
//! A thread that is not registered is passed over by one load from a table of 65,536 bytes, at
//! the lower 16 bits of its number; only where that byte is set, a hash table is asked.
//!
//! With [`Mode::Follow`] children of registered threads are registered as they are made, and each
//! absence that was a preemption or ended on another CPU becomes a record in a ring.
//!
//! A migration is an *affinity move* where the CPU that the thread ran on last is not among those
//! it may use any more: it moved itself, or somebody narrowed its mask or its cpuset. What the
//! scheduler's balancing does is counted without them.

use std::io;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};

use super::asm::Reg::{self, R0, R1, R2, R3, R4, R6, R7, R8, R9, R10};
use super::asm::Source::{self, Imm};
use super::asm::{Alu, Compare, Helper, Insn, Width, add, load, set, shift_left, store};
use super::btf::{Btf, BtfError};
use super::ring::Ring;
use super::{Attached, BpfError, Map, ProgramInfo, Shown, Table, kernel_types};

/// Words of a slot, in their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(i16)]
enum Word {
    /// The thread's number, its process's in the upper half.
    Thread,
    /// Times it came back to a CPU.
    Arrivals,
    Preemptions,
    Voluntary,
    Migrations,
    AffinityMoves,
    /// Times it came back to another CPU than it had left.
    CpuChanges,
    OutTime,
    OutCpu,
    InTime,
    InCpu,
    /// Sum and last of the time between being preempted and being back.
    PreemptedNs,
    LastNs,
    BlockedNs,
    /// Number and name of who had the CPU first after the last preemption.
    By,
    Name,
    NameEnd,
    /// How it left last: [`PREEMPTED`], [`PINNED`], [`MOVED`].
    How,
    RanNs,
}

impl Word {
    const COUNT: usize = Self::RanNs as usize + 1;
    const fn at(self) -> i16 {
        self as i16 * 8
    }
}

/// It was taken off its CPU (otherwise it blocked).
const PREEMPTED: i32 = 1;
/// Its affinity made it move while it was away.
const PINNED: i32 = 2;
/// It came back to another CPU.
const MOVED: i32 = 4;

const SLOT_SHIFT: u8 = 8;
const SLOT_BYTES: u32 = 1 << SLOT_SHIFT;
/// What comes before the slots: four words of statistics, padded, and the filter.
const LOST: u32 = 0;
const UNFOLLOWED: u32 = 8;
const NEXT: u32 = 16;
const FILTER: u32 = SLOT_BYTES;
const FILTER_BYTES: u32 = 1 << 16;
const SLOTS: u32 = FILTER + FILTER_BYTES;
/// As many slots as fit into the 4 MiB that older kernels allow a value.
const MOST_SLOTS: u32 = 16_000;
const FEW_SLOTS: u32 = 1_000;
/// CPUs whose bit of the affinity mask is looked at; moves off higher ones count as balancing.
const MASK_WORDS: i16 = 16;
const RING_BYTES: u32 = 4 << 20;
/// The reader looks by itself: no interrupt to wake it.
const NO_WAKE_UP: i32 = 1;
/// The record on the program's stack, and where its parts are.
const RECORD_BYTES: i16 = 64;
const RECORD: i16 = -80;

/// What the pages are for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Threads of this process register themselves and read their slots.
    Own,
    /// A program's threads are followed as it starts them, and absences are recorded.
    Follow,
}

/// What the kernel has counted for a registered thread since it was registered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// The thread.
    pub tid: u32,
    /// Its process.
    pub pid: u32,
    /// Times it came back to a CPU: the number that changes with every absence.
    pub arrivals: u64,
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
    /// When it left its CPU last, in ns of CLOCK_MONOTONIC; 0 before the first time.
    pub out_ns: u64,
    /// The CPU it left last.
    pub out_cpu: u64,
    /// When it came back last.
    pub in_ns: u64,
    /// The CPU it came back to last.
    pub in_cpu: u64,
    /// Preemption length: the time between being preempted and being back, summed up.
    pub preempted_ns: u64,
    /// The length of its last absence, whatever its kind.
    pub last_ns: u64,
    /// The time it was away because it had blocked, waiting for a CPU afterwards included.
    pub blocked_ns: u64,
    /// The thread that had the CPU first after the last preemption.
    pub by: u32,
    /// Whether the last absence was a preemption.
    pub was_preempted: bool,
}

impl Counts {
    fn of(words: [u64; Word::COUNT]) -> Self {
        let word = |word: Word| words[word as usize];
        Self {
            tid: word(Word::Thread) as u32,
            pid: (word(Word::Thread) >> 32) as u32,
            arrivals: word(Word::Arrivals),
            preemptions: word(Word::Preemptions),
            voluntary: word(Word::Voluntary),
            migrations: word(Word::Migrations),
            affinity_moves: word(Word::AffinityMoves),
            cpu_changes: word(Word::CpuChanges),
            out_ns: word(Word::OutTime),
            out_cpu: word(Word::OutCpu),
            in_ns: word(Word::InTime),
            in_cpu: word(Word::InCpu),
            preempted_ns: word(Word::PreemptedNs),
            last_ns: word(Word::LastNs),
            blocked_ns: word(Word::BlockedNs),
            by: word(Word::By) as u32,
            was_preempted: word(Word::How) & PREEMPTED as u64 != 0,
        }
    }
}

/// An absence that was a preemption, a migration, or both, as [`Mode::Follow`] records it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Absence {
    /// The thread.
    pub tid: u32,
    /// Its process.
    pub pid: u32,
    /// When it left, in ns of CLOCK_MONOTONIC.
    pub out_ns: u64,
    /// When it was back.
    pub in_ns: u64,
    /// The CPU it left.
    pub out_cpu: u32,
    /// The CPU it came back to.
    pub in_cpu: u32,
    /// Whether it was taken off its CPU; otherwise it had blocked.
    pub preempted: bool,
    /// Whether its affinity made it move.
    pub pinned: bool,
    /// How long it had run before it left; 0 where that was not seen.
    pub ran_ns: u64,
    /// Who had the CPU first, of a preemption.
    pub by: u32,
    /// That thread's name, padded with zeros.
    pub by_name: [u8; 16],
}

impl Absence {
    fn of(words: &[u64]) -> Option<Self> {
        let &[thread, out_ns, in_ns, cpus, how, name, name_end, ran_ns] = words else {
            return None;
        };
        let mut by_name = [0; 16];
        by_name[..8].copy_from_slice(&name.to_ne_bytes());
        by_name[8..].copy_from_slice(&name_end.to_ne_bytes());
        Some(Self {
            tid: thread as u32,
            pid: (thread >> 32) as u32,
            out_ns,
            in_ns,
            out_cpu: cpus as u32,
            in_cpu: (cpus >> 32) as u32,
            preempted: how & PREEMPTED as u64 != 0,
            pinned: how & PINNED as u64 != 0,
            ran_ns,
            by: (how >> 32) as u32,
            by_name,
        })
    }
}

/// Where the programs find what they need.
struct Parts {
    page: i32,
    threads: i32,
    ring: Option<i32>,
    slots: u32,
    pid: i16,
    tgid: i16,
    comm: i16,
    /// Offsets of the pointer to the affinity mask and of its bits, and how many words these are.
    mask: (i16, i16, i16),
    /// Where the state of the thread that leaves is: an argument, or (older kernels) a member.
    state: Option<i16>,
}

impl Parts {
    fn new(
        types: &Btf,
        map: &Map,
        threads: &Table,
        ring: Option<&Ring>,
        slots: u32,
    ) -> Result<Self, BtfError> {
        let member = |name| types.member("task_struct", name).map(|it| it.offset as i16);
        let mask = types.loads("task_struct", "cpus_ptr->bits")?;
        let words = (mask[1].size / 8).min(MASK_WORDS as u32) as i16;
        let state =
            if types.arguments("sched_switch")? >= 4 { None } else { Some(member("__state")?) };
        Ok(Self {
            page: map.fd(),
            threads: threads.fd(),
            ring: ring.map(Ring::fd),
            slots,
            pid: member("pid")?,
            tgid: member("tgid")?,
            comm: member("comm")?,
            mask: (mask[0].offset as i16, mask[1].offset as i16, words),
            state,
        })
    }

    /// `R8` = number of the thread `R7`, `R9` = address of its slot; or `out` if it has none.
    fn find(&self, out: &'static str) -> Vec<Insn> {
        let mut program = vec![Insn::Load(Width::U32, R8, R7, self.pid)];
        program.extend(self.filter());
        program.extend([
            Insn::Load(Width::U8, R0, R1, 0),
            Insn::JumpIf(Compare::Equal, R0, Imm(0), out),
        ]);
        program.extend(self.look_up(out));
        program
    }

    /// `R1` = address of the byte of the filter for the thread number in `R8`.
    fn filter(&self) -> [Insn; 4] {
        [
            set(R0, Source::Reg(R8)),
            Insn::Alu(Alu::And, R0, Imm(FILTER_BYTES as i32 - 1)),
            Insn::MapValue(R1, self.page, FILTER),
            add(R1, Source::Reg(R0)),
        ]
    }

    /// `R9` = address of the slot of thread number `R8`, or `out`.
    fn look_up(&self, out: &'static str) -> [Insn; 11] {
        let [a, b, c] = self.slot_address();
        [
            Insn::Store(Width::U32, R10, -4, Source::Reg(R8)),
            Insn::MapAddress(R1, self.threads),
            set(R2, Source::Reg(R10)),
            add(R2, Imm(-4)),
            Insn::Call(Helper::MapLookup),
            Insn::JumpIf(Compare::Equal, R0, Imm(0), out),
            Insn::Load(Width::U32, R9, R0, 0),
            Insn::JumpIf(Compare::AtLeast, R9, Imm(self.slots as i32), out),
            a,
            b,
            c,
        ]
    }

    /// `R9` = address of slot number `R9`, through `R1`.
    fn slot_address(&self) -> [Insn; 3] {
        [shift_left(R9, SLOT_SHIFT), Insn::MapValue(R1, self.page, SLOTS), add(R9, Source::Reg(R1))]
    }

    /// What happens when the scheduler goes from one thread to another.
    fn switch(&self) -> Vec<Insn> {
        let mut program = vec![set(R6, Source::Reg(R1)), load(R7, R6, 8)];
        program.extend(self.find("next"));
        program.extend(self.leave());
        program.extend([Insn::Label("next"), load(R7, R6, 16)]);
        program.extend(self.find("out"));
        program.extend(arrive());
        program.extend(self.report());
        program.extend(end());
        program
    }

    /// The thread of slot `R9` leaves its CPU.
    fn leave(&self) -> Vec<Insn> {
        let mut program = vec![
            Insn::Call(Helper::MonotonicNanos),
            put(Word::OutTime, R0),
            get(R1, Word::InTime),
            Insn::JumpIf(Compare::Equal, R1, Imm(0), "ran"),
            Insn::Alu(Alu::Sub, R0, Source::Reg(R1)),
            put(Word::RanNs, R0),
            Insn::Label("ran"),
            Insn::Call(Helper::Cpu),
            put(Word::OutCpu, R0),
            load(R1, R6, 0),
            Insn::JumpIf(Compare::NotEqual, R1, Imm(0), "preempted"),
        ];
        program.push(match self.state {
            None => load(R1, R6, 24),
            Some(member) => Insn::Load(Width::U32, R1, R7, member),
        });
        program.push(Insn::JumpIf(Compare::Equal, R1, Imm(0), "preempted"));
        program.extend(count(Word::Voluntary));
        program.extend([
            store(R9, Word::How.at(), Imm(0)),
            Insn::Jump("next"),
            Insn::Label("preempted"),
        ]);
        program.extend(count(Word::Preemptions));
        program.extend([
            store(R9, Word::How.at(), Imm(PREEMPTED)),
            load(R7, R6, 16),
            Insn::Load(Width::U32, R1, R7, self.pid),
            put(Word::By, R1),
            set(R1, Source::Reg(R9)),
            add(R1, Imm(i32::from(Word::Name.at()))),
            set(R2, Imm(16)),
            set(R3, Source::Reg(R7)),
            add(R3, Imm(i32::from(self.comm))),
            Insn::Call(Helper::ProbeRead),
        ]);
        program
    }

    /// A record of the absence that has just ended, where it is one that is asked for.
    fn report(&self) -> Vec<Insn> {
        let Some(ring) = self.ring else { return vec![] };
        let mut program = vec![
            get(R1, Word::How),
            set(R2, Source::Reg(R1)),
            Insn::Alu(Alu::And, R2, Imm(PREEMPTED | MOVED)),
            Insn::JumpIf(Compare::Equal, R2, Imm(0), "out"),
        ];
        // By whom, in the upper half of how.
        program.extend([
            get(R2, Word::By),
            shift_left(R2, 32),
            Insn::Alu(Alu::Or, R1, Source::Reg(R2)),
        ]);
        program.push(store(R10, RECORD + 32, Source::Reg(R1)));
        program.extend([get(R1, Word::InCpu), shift_left(R1, 32), get(R2, Word::OutCpu)]);
        program.push(Insn::Alu(Alu::Or, R1, Source::Reg(R2)));
        program.push(store(R10, RECORD + 24, Source::Reg(R1)));
        let copied = [
            (Word::Thread, 0),
            (Word::OutTime, 8),
            (Word::InTime, 16),
            (Word::Name, 40),
            (Word::NameEnd, 48),
            (Word::RanNs, 56),
        ];
        for (word, at) in copied {
            program.extend([get(R1, word), store(R10, RECORD + at, Source::Reg(R1))]);
        }
        program.extend([
            Insn::MapAddress(R1, ring),
            set(R2, Source::Reg(R10)),
            add(R2, Imm(i32::from(RECORD))),
            set(R3, Imm(i32::from(RECORD_BYTES))),
            set(R4, Imm(NO_WAKE_UP)),
            Insn::Call(Helper::RingOutput),
            Insn::JumpIf(Compare::Equal, R0, Imm(0), "out"),
        ]);
        program.extend(self.add_one(LOST));
        program
    }

    /// Adds one to a statistic.
    fn add_one(&self, statistic: u32) -> [Insn; 3] {
        [
            Insn::MapValue(R1, self.page, statistic),
            set(R2, Imm(1)),
            Insn::AtomicAdd(Width::U64, R1, 0, R2),
        ]
    }

    /// A thread is given another CPU.
    fn migrate(&self) -> Vec<Insn> {
        let mut program = vec![load(R7, R1, 0)];
        program.extend(self.find("out"));
        program.extend(count(Word::Migrations));
        program.extend([
            get(R2, Word::OutTime),
            Insn::JumpIf(Compare::Equal, R2, Imm(0), "out"),
            get(R2, Word::OutCpu),
            set(R3, Source::Reg(R2)),
            Insn::Alu(Alu::ShiftRight, R3, Imm(6)),
            load(R7, R7, self.mask.0),
        ]);
        const HERE: [&str; MASK_WORDS as usize] =
            ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11", "12", "13", "14", "15"];
        for (word, here) in (0..self.mask.2).zip(HERE) {
            program.extend([
                Insn::JumpIf(Compare::NotEqual, R3, Imm(i32::from(word)), here),
                load(R4, R7, self.mask.1 + word * 8),
                Insn::Jump("test"),
                Insn::Label(here),
            ]);
        }
        program.extend([
            Insn::Jump("out"),
            Insn::Label("test"),
            Insn::Alu(Alu::And, R2, Imm(63)),
            Insn::Alu(Alu::ShiftRight, R4, Source::Reg(R2)),
            Insn::Alu(Alu::And, R4, Imm(1)),
            Insn::JumpIf(Compare::NotEqual, R4, Imm(0), "out"),
        ]);
        program.extend(count(Word::AffinityMoves));
        program.extend([
            get(R1, Word::How),
            Insn::Alu(Alu::Or, R1, Imm(PINNED)),
            put(Word::How, R1),
        ]);
        program.extend(end());
        program
    }

    /// A registered thread makes another one, which becomes registered.
    fn fork(&self) -> Vec<Insn> {
        let mut program = vec![set(R6, Source::Reg(R1)), load(R7, R6, 0)];
        program.extend(self.find("out"));
        program.extend([
            Insn::MapValue(R1, self.page, NEXT),
            set(R9, Imm(1)),
            Insn::AtomicFetchAdd(Width::U64, R1, 0, R9),
            Insn::JumpIf(Compare::AtLeast, R9, Imm(self.slots as i32), "full"),
            Insn::Store(Width::U32, R10, -8, Source::Reg(R9)),
            load(R7, R6, 8),
            Insn::Load(Width::U32, R8, R7, self.pid),
            Insn::Store(Width::U32, R10, -4, Source::Reg(R8)),
        ]);
        program.extend(self.slot_address());
        program.extend([
            Insn::Load(Width::U32, R1, R7, self.tgid),
            shift_left(R1, 32),
            Insn::Alu(Alu::Or, R1, Source::Reg(R8)),
            put(Word::Thread, R1),
        ]);
        program.extend(self.filter());
        program.push(Insn::Store(Width::U8, R1, 0, Imm(1)));
        program.extend(self.enter());
        program.extend([Insn::JumpIf(Compare::Equal, R0, Imm(0), "out"), Insn::Label("full")]);
        program.extend(self.add_one(UNFOLLOWED));
        program.extend(end());
        program
    }

    /// Puts the slot number at -8 of the stack under the thread number at -4.
    fn enter(&self) -> [Insn; 7] {
        [
            Insn::MapAddress(R1, self.threads),
            set(R2, Source::Reg(R10)),
            add(R2, Imm(-4)),
            set(R3, Source::Reg(R10)),
            add(R3, Imm(-8)),
            set(R4, Imm(0)),
            Insn::Call(Helper::MapUpdate),
        ]
    }

    /// A thread starts another program and takes its process's number on.
    fn exec(&self) -> Vec<Insn> {
        let mut program = vec![
            load(R7, R1, 0),
            load(R8, R1, 8),
            Insn::Load(Width::U32, R6, R7, self.pid),
            Insn::JumpIf(Compare::Equal, R6, Source::Reg(R8), "out"),
            Insn::Store(Width::U32, R10, -4, Source::Reg(R8)),
            Insn::MapAddress(R1, self.threads),
            set(R2, Source::Reg(R10)),
            add(R2, Imm(-4)),
            Insn::Call(Helper::MapLookup),
            Insn::JumpIf(Compare::Equal, R0, Imm(0), "out"),
            Insn::Load(Width::U32, R1, R0, 0),
            Insn::Store(Width::U32, R10, -8, Source::Reg(R1)),
            Insn::Store(Width::U32, R10, -4, Source::Reg(R6)),
        ];
        program.extend(self.enter());
        program.extend(end());
        program
    }

    /// A thread ends: its number may belong to another one soon.
    fn exit(&self) -> Vec<Insn> {
        let mut program = vec![load(R7, R1, 0)];
        program.extend(self.find("out"));
        program.extend([
            Insn::MapAddress(R1, self.threads),
            set(R2, Source::Reg(R10)),
            add(R2, Imm(-4)),
            Insn::Call(Helper::MapDelete),
        ]);
        program.extend(end());
        program
    }
}

/// The thread of slot `R9` is back on a CPU.
fn arrive() -> Vec<Insn> {
    let mut program =
        vec![Insn::Call(Helper::MonotonicNanos), put(Word::InTime, R0), get(R1, Word::OutTime)];
    program.extend([
        set(R8, Source::Reg(R1)),
        Insn::Alu(Alu::Sub, R0, Source::Reg(R1)),
        set(R7, Source::Reg(R0)),
    ]);
    program.extend(count(Word::Arrivals));
    program.extend([Insn::Call(Helper::Cpu), put(Word::InCpu, R0)]);
    // Without a time of leaving it has only begun.
    program.extend([Insn::JumpIf(Compare::Equal, R8, Imm(0), "out"), put(Word::LastNs, R7)]);
    program.extend([
        get(R3, Word::How),
        set(R4, Source::Reg(R3)),
        Insn::Alu(Alu::And, R4, Imm(PREEMPTED)),
        Insn::JumpIf(Compare::NotEqual, R4, Imm(0), "was_preempted"),
    ]);
    program.extend(sum(Word::BlockedNs, R7));
    program.extend([Insn::Jump("where"), Insn::Label("was_preempted")]);
    program.extend(sum(Word::PreemptedNs, R7));
    program.extend([
        Insn::Label("where"),
        get(R1, Word::OutCpu),
        Insn::JumpIf(Compare::Equal, R0, Source::Reg(R1), "here"),
        Insn::Alu(Alu::Or, R3, Imm(MOVED)),
        put(Word::How, R3),
    ]);
    program.extend(count(Word::CpuChanges));
    program.push(Insn::Label("here"));
    program
}

/// `to` = a word of the slot `R9`.
const fn get(to: Reg, word: Word) -> Insn {
    load(to, R9, word.at())
}

/// A word of the slot `R9` = `from`.
const fn put(word: Word, from: Reg) -> Insn {
    store(R9, word.at(), Source::Reg(from))
}

/// A word of the slot `R9` += `by`, through `R1`. A thread's words have one writer at a time.
const fn sum(word: Word, by: Reg) -> [Insn; 3] {
    [get(R1, word), add(R1, Source::Reg(by)), put(word, R1)]
}

/// A word of the slot `R9` += 1, through `R1`.
const fn count(word: Word) -> [Insn; 3] {
    [get(R1, word), add(R1, Imm(1)), put(word, R1)]
}

const fn end() -> [Insn; 3] {
    [Insn::Label("out"), set(R0, Imm(0)), Insn::Exit]
}

/// The programs and the slots. All of it goes when the last owner does; several may run side by
/// side.
#[derive(Debug)]
pub struct ControlPages {
    // Declared first, so that the programs run no more when their memory goes.
    programs: Vec<(&'static str, Attached)>,
    memory: Shown,
    threads: Table,
    ring: Option<Mutex<Ring>>,
    slots: u32,
    free: Mutex<Vec<u32>>,
}

impl ControlPages {
    /// Loads the programs.
    ///
    /// # Errors
    /// Where the kernel has no BTF, or its BTF lacks a field (which is named), or the caller may
    /// not.
    pub fn open(mode: Mode) -> Result<Arc<Self>, BpfError> {
        Self::open_with(&kernel_types()?, mode)
    }

    /// The same with type information that has been read already.
    ///
    /// # Errors
    /// As for [`open`](Self::open).
    pub fn open_with(types: &Btf, mode: Mode) -> Result<Arc<Self>, BpfError> {
        let slots = if mode == Mode::Follow { MOST_SLOTS } else { FEW_SLOTS };
        let map = Map::array("corehop_page", SLOTS + slots * SLOT_BYTES, 1)?;
        let threads = Table::new("corehop_threads", slots)?;
        let ring =
            (mode == Mode::Follow).then(|| Ring::new("corehop_ring", RING_BYTES)).transpose()?;
        let parts = Parts::new(types, &map, &threads, ring.as_ref(), slots)?;
        let mut listings =
            vec![("sched_switch", parts.switch()), ("sched_migrate_task", parts.migrate())];
        if mode == Mode::Follow {
            listings.push(("sched_process_fork", parts.fork()));
            listings.push(("sched_process_exec", parts.exec()));
            listings.push(("sched_process_exit", parts.exit()));
        }
        let attach = |(tracepoint, listing): (&'static str, Vec<Insn>)| {
            let name = format!("hop_{tracepoint}");
            Ok((tracepoint, Attached::new(types, tracepoint, &name, &listing)?))
        };
        let programs = listings.into_iter().map(attach).collect::<Result<_, BpfError>>()?;
        let memory = map.show_writable()?;
        let (ring, free) = (ring.map(Mutex::new), Mutex::new(Vec::new()));
        Ok(Arc::new(Self { programs, memory, threads, ring, slots, free }))
    }

    /// Registers the calling thread, until the page is dropped.
    ///
    /// # Errors
    /// Where all slots are taken, or the kernel counts under another number than the thread knows
    /// of itself (in a PID namespace).
    pub fn register(self: &Arc<Self>) -> Result<Page, BpfError> {
        // SAFETY: both ask a number of the kernel.
        let (tid, pid) = unsafe { (libc::gettid(), libc::getpid()) }.into();
        let (tid, pid) = (tid.cast_unsigned(), pid.cast_unsigned());
        let page = Page { slot: self.watch(tid, pid)?, tid, pages: self.clone() };
        // Away and back once: then the slot must have seen it.
        std::thread::sleep(std::time::Duration::from_nanos(1));
        if page.arrivals() == 0 {
            return Err(BpfError::Failed {
                what: format!(
                    "watching thread {tid}: the kernel knows it by another number (is this a PID namespace?), which"
                ),
                source: io::Error::from_raw_os_error(libc::ESRCH),
            });
        }
        Ok(page)
    }

    /// Registers the thread `tid` of the process `pid`; the number of its slot.
    ///
    /// # Errors
    /// Where all slots are taken.
    pub fn watch(&self, tid: u32, pid: u32) -> Result<u32, BpfError> {
        let slot = self.free_slot()?;
        let first = Self::first_word(slot);
        self.memory.word(first).store(u64::from(tid) | u64::from(pid) << 32, Ordering::Relaxed);
        self.threads.put(tid, slot).map_err(|source| BpfError::Failed {
            what: format!("registering thread {tid}"),
            source,
        })?;
        let byte = FILTER as usize + (tid as usize & (FILTER_BYTES as usize - 1));
        let mut bit = [0; 8];
        bit[byte % 8] = 1;
        self.memory.word(byte / 8).fetch_or(u64::from_ne_bytes(bit), Ordering::Relaxed);
        Ok(slot)
    }

    fn free_slot(&self) -> Result<u32, BpfError> {
        let free = self.free.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let slot = free.map_or_else(
            || self.memory.word(NEXT as usize / 8).fetch_add(1, Ordering::Relaxed),
            u64::from,
        );
        u32::try_from(slot).ok().filter(|&slot| slot < self.slots).ok_or_else(|| BpfError::Failed {
            what: format!("registering more than {} threads", self.slots),
            source: io::Error::from_raw_os_error(libc::ENOSPC),
        })
    }

    const fn first_word(slot: u32) -> usize {
        (SLOTS as usize + slot as usize * SLOT_BYTES as usize) / 8
    }

    /// What was counted in slot `slot`. The words are read one by one: a thread that reads its own
    /// while it runs reads what cannot change; of another one they may belong to two moments.
    pub fn counts(&self, slot: u32) -> Counts {
        Counts::of(self.memory.words(Self::first_word(slot)))
    }

    /// What was counted of every thread that was registered so far, in the order of registration.
    pub fn all(&self) -> Vec<Counts> {
        (0..self.registered()).map(|slot| self.counts(slot)).collect()
    }

    fn registered(&self) -> u32 {
        let [next] = self.memory.words(NEXT as usize / 8);
        next.min(u64::from(self.slots)) as u32
    }

    /// Whether a registered thread that has not ended yet has the number `tid`.
    pub fn watches(&self, tid: u32) -> bool {
        self.threads.get(tid).is_some()
    }

    /// Takes the absences recorded since the last time.
    pub fn absences(&self, mut take: impl FnMut(Absence)) {
        let Some(ring) = &self.ring else { return };
        let mut ring = ring.lock().unwrap_or_else(PoisonError::into_inner);
        ring.drain(|words| {
            if let Some(absence) = Absence::of(words) {
                take(absence);
            }
        });
    }

    /// Absences that found no room in the ring.
    pub fn lost(&self) -> u64 {
        let [lost] = self.memory.words(LOST as usize / 8);
        lost
    }

    /// Threads that were started when all slots were taken, and are not followed.
    pub fn unfollowed(&self) -> u64 {
        let [unfollowed] = self.memory.words(UNFOLLOWED as usize / 8);
        unfollowed
    }

    /// What the kernel knows of each program, by tracepoint.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn programs(&self) -> io::Result<Vec<(&'static str, ProgramInfo)>> {
        self.programs.iter().map(|(name, program)| Ok((*name, program.info()?))).collect()
    }
}

/// The calling thread's own slot.
#[derive(Debug)]
pub struct Page {
    pages: Arc<ControlPages>,
    slot: u32,
    tid: u32,
}

impl Page {
    /// A number that changes whenever the thread comes back to a CPU: one load.
    #[inline]
    pub fn arrivals(&self) -> u64 {
        let first = ControlPages::first_word(self.slot);
        let [arrivals] = self.pages.memory.words(first + Word::Arrivals as usize);
        arrivals
    }

    /// All of it, at one moment: read again where the thread was away in between.
    pub fn read(&self) -> Counts {
        loop {
            let counts = self.pages.counts(self.slot);
            if counts.arrivals == self.arrivals() {
                return counts;
            }
        }
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        self.pages.threads.remove(self.tid);
        let first = ControlPages::first_word(self.slot);
        for word in 0..Word::COUNT {
            self.pages.memory.word(first + word).store(0, Ordering::Relaxed);
        }
        self.pages.free.lock().unwrap_or_else(PoisonError::into_inner).push(self.slot);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bpf::btf::tests::tiny;

    #[test]
    fn a_field_that_the_kernel_lacks_is_named() {
        let (map, threads) = match (Map::array("corehop_test", 8, 1), Table::new("corehop_test", 1))
        {
            (Ok(map), Ok(threads)) => (map, threads),
            (Err(error), _) | (_, Err(error)) => {
                assert!(error.is_general(), "{error}");
                return;
            }
        };
        let error = Parts::new(&tiny(), &map, &threads, None, 8).err().unwrap().to_string();
        assert!(error.contains("`struct task_struct`") && error.contains("cpus_ptr"), "{error}");
    }

    #[test]
    fn a_slot_holds_its_words_and_a_record_its_parts() {
        assert!(Word::COUNT * 8 <= SLOT_BYTES as usize);
        let words =
            [7 | 5 << 32, 10, 30, 1 << 32, 5 | 9 << 32, u64::from_ne_bytes(*b"make\0\0\0\0"), 0, 4];
        assert_eq!(words.len() * 8, RECORD_BYTES as usize);
        let absence = Absence::of(&words).unwrap();
        assert_eq!((absence.tid, absence.pid, absence.by), (7, 5, 9));
        assert_eq!((absence.out_cpu, absence.in_cpu, absence.ran_ns), (0, 1, 4));
        assert!(absence.preempted && !absence.pinned && absence.by_name.starts_with(b"make\0"));
    }
}
