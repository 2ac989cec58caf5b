// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the programs of the control page do, instruction by instruction.

use super::{Btf, BtfError, Map, Ring, Table};
use crate::bpf::asm::Reg::{self, R0, R1, R2, R3, R4, R6, R7, R8, R9, R10};
use crate::bpf::asm::Source::{self, Imm};
use crate::bpf::asm::{Alu, Compare, Helper, Insn, Width, add, load, set, shift_left, store};

/// Words of a slot, in their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(i16)]
pub(super) enum Word {
    /// The thread's number, its process's in the upper half.
    Thread,
    /// Times it left its CPU.
    Departures,
    /// Times it was seen to come back to a CPU.
    Arrivals,
    /// Times it came back and was not seen to.
    Unseen,
    Preemptions,
    Voluntary,
    /// The kernel's count of its migrations, and that at the beginning.
    Migrations,
    FirstMigrations,
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
    /// How it left last: [`PREEMPTED`], [`PINNED`], [`MOVED`], [`AWAY`], [`UNSEEN`].
    How,
    RanNs,
    /// Its own name when it ended.
    OwnName,
    OwnNameEnd,
}

impl Word {
    pub(super) const COUNT: usize = Self::OwnNameEnd as usize + 1;
    const fn at(self) -> i16 {
        self as i16 * 8
    }
}

/// It was taken off its CPU (otherwise it blocked).
pub(super) const PREEMPTED: i32 = 1;
/// Its affinity made it move while it was away.
pub(super) const PINNED: i32 = 2;
/// It came back to another CPU.
const MOVED: i32 = 4;
/// It has left and was not seen to come back.
pub(super) const AWAY: i32 = 8;
/// That it came back was not seen.
pub(super) const UNSEEN: i32 = 16;
/// What a count of migrations begins with that the programs have yet to see.
pub(super) const NOT_YET: u64 = u64::MAX;

const SLOT_SHIFT: u8 = 8;
pub(super) const SLOT_BYTES: u32 = 1 << SLOT_SHIFT;
/// What comes before the slots: four words of statistics, padded, and the filter.
pub(super) const LOST: u32 = 0;
pub(super) const UNFOLLOWED: u32 = 8;
pub(super) const NEXT: u32 = 16;
pub(super) const FILTER: u32 = SLOT_BYTES;
pub(super) const FILTER_BYTES: u32 = 1 << 16;
pub(super) const SLOTS: u32 = FILTER + FILTER_BYTES;
/// CPUs whose bit of the affinity mask is looked at; moves off higher ones count as balancing.
const MASK_WORDS: i16 = 16;
/// The reader looks by itself: no interrupt to wake it.
const NO_WAKE_UP: i32 = 1;
/// The record on the program's stack, and where its parts are.
pub(super) const RECORD_BYTES: i16 = 64;
const RECORD: i16 = -80;
/// Where on its stack the program keeps the time, so that it asks for it once.
const NOW: i16 = -16;

/// A label for each word of a mask.
const HERE: [&str; MASK_WORDS as usize] =
    ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11", "12", "13", "14", "15"];

/// Where the programs find what they need.
pub(super) struct Parts {
    page: i32,
    threads: i32,
    ring: Option<i32>,
    slots: u32,
    pid: i16,
    tgid: i16,
    comm: i16,
    migrations: i16,
    /// Offsets of the pointer to the affinity mask and of its bits, and how many words these are.
    mask: (i16, i16, i16),
    /// Where the state of the thread that leaves is: an argument, or (older kernels) a member.
    state: Option<i16>,
}

impl Parts {
    pub(super) fn new(
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
            migrations: member("se.nr_migrations")?,
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
    pub(super) fn switch(&self) -> Vec<Insn> {
        let mut program = vec![set(R6, Source::Reg(R1)), store(R10, NOW, Imm(0)), load(R7, R6, 8)];
        program.extend(self.find("next"));
        program.extend(self.leave());
        program.extend([Insn::Label("next"), load(R7, R6, 16)]);
        program.extend(self.find("out"));
        program.extend(self.copy_migrations("counted_in"));
        program.extend(arrive());
        program.extend(self.report("out"));
        program.extend(end());
        program
    }

    /// The thread of slot `R9`, `R7` leaves its CPU.
    fn leave(&self) -> Vec<Insn> {
        let mut program = vec![
            Insn::Call(Helper::MonotonicNanos),
            set(R8, Source::Reg(R0)),
            store(R10, NOW, Source::Reg(R0)),
        ];
        program.extend(self.copy_migrations("counted_out"));
        program.extend(self.catch_up());
        program.extend(count(Word::Departures));
        program.extend([
            put(Word::OutTime, R8),
            get(R1, Word::InTime),
            set(R2, Imm(0)),
            Insn::JumpIf(Compare::Equal, R1, Imm(0), "ran"),
            set(R2, Source::Reg(R8)),
            Insn::Alu(Alu::Sub, R2, Source::Reg(R1)),
            Insn::Label("ran"),
            put(Word::RanNs, R2),
            Insn::Call(Helper::Cpu),
            put(Word::OutCpu, R0),
            load(R1, R6, 0),
            Insn::JumpIf(Compare::NotEqual, R1, Imm(0), "preempted"),
        ]);
        program.push(match self.state {
            None => load(R1, R6, 24),
            Some(member) => Insn::Load(Width::U32, R1, R7, member),
        });
        program.push(Insn::JumpIf(Compare::Equal, R1, Imm(0), "preempted"));
        program.extend(count(Word::Voluntary));
        program.extend([
            store(R9, Word::How.at(), Imm(AWAY)),
            Insn::Jump("next"),
            Insn::Label("preempted"),
        ]);
        program.extend(count(Word::Preemptions));
        program.extend([
            store(R9, Word::How.at(), Imm(PREEMPTED | AWAY)),
            load(R7, R6, 16),
            Insn::Load(Width::U32, R1, R7, self.pid),
            put(Word::By, R1),
        ]);
        program.extend(self.copy_name(Word::Name));
        program
    }

    /// The name of the thread `R7` into the slot `R9`.
    fn copy_name(&self, to: Word) -> [Insn; 6] {
        [
            set(R1, Source::Reg(R9)),
            add(R1, Imm(i32::from(to.at()))),
            set(R2, Imm(16)),
            set(R3, Source::Reg(R7)),
            add(R3, Imm(i32::from(self.comm))),
            Insn::Call(Helper::ProbeRead),
        ]
    }

    /// The kernel's count of the migrations of thread `R7` into its slot `R9`.
    fn copy_migrations(&self, label: &'static str) -> [Insn; 6] {
        [
            load(R1, R7, self.migrations),
            put(Word::Migrations, R1),
            get(R2, Word::FirstMigrations),
            Insn::JumpIf(Compare::NotEqual, R2, Imm(NOT_YET as i32), label),
            put(Word::FirstMigrations, R1),
            Insn::Label(label),
        ]
    }

    /// Where the thread of slot `R9`, which leaves at `R8`, was not seen to come back: it did, to
    /// this CPU.
    fn catch_up(&self) -> Vec<Insn> {
        let mut program = vec![
            get(R3, Word::How),
            set(R1, Source::Reg(R3)),
            Insn::Alu(Alu::And, R1, Imm(AWAY)),
            Insn::JumpIf(Compare::Equal, R1, Imm(0), "seen"),
        ];
        program.extend(count(Word::Unseen));
        program.extend([Insn::Call(Helper::Cpu), put(Word::InCpu, R0), put(Word::InTime, R8)]);
        program.extend([
            get(R3, Word::How),
            Insn::Alu(Alu::Or, R3, Imm(UNSEEN)),
            put(Word::How, R3),
        ]);
        program.extend(compare_cpus("stayed"));
        program.extend(self.report("reported"));
        program.extend([
            Insn::Label("reported"),
            store(R9, Word::InTime.at(), Imm(0)),
            Insn::Label("seen"),
        ]);
        program
    }

    /// A record of the absence that has just ended, where it is one that is asked for; otherwise on
    /// with `out`.
    fn report(&self, out: &'static str) -> Vec<Insn> {
        let Some(ring) = self.ring else { return vec![] };
        let mut program = vec![
            get(R1, Word::How),
            set(R2, Source::Reg(R1)),
            Insn::Alu(Alu::And, R2, Imm(PREEMPTED | MOVED)),
            Insn::JumpIf(Compare::Equal, R2, Imm(0), out),
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
            Insn::JumpIf(Compare::Equal, R0, Imm(0), out),
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
    pub(super) fn migrate(&self) -> Vec<Insn> {
        let mut program = vec![load(R7, R1, 0)];
        program.extend(self.find("out"));
        program.extend([
            get(R2, Word::OutTime),
            Insn::JumpIf(Compare::Equal, R2, Imm(0), "out"),
            get(R2, Word::OutCpu),
            set(R3, Source::Reg(R2)),
            Insn::Alu(Alu::ShiftRight, R3, Imm(6)),
            load(R7, R7, self.mask.0),
        ]);
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
    pub(super) fn fork(&self) -> Vec<Insn> {
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
    pub(super) fn exec(&self) -> Vec<Insn> {
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
    pub(super) fn exit(&self) -> Vec<Insn> {
        let mut program = vec![load(R7, R1, 0)];
        program.extend(self.find("out"));
        program.extend(self.copy_name(Word::OwnName));
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
    let mut program = vec![
        load(R0, R10, NOW),
        Insn::JumpIf(Compare::NotEqual, R0, Imm(0), "timed"),
        Insn::Call(Helper::MonotonicNanos),
        Insn::Label("timed"),
        put(Word::InTime, R0),
    ];
    program.extend([set(R7, Source::Reg(R0)), Insn::Call(Helper::Cpu), put(Word::InCpu, R0)]);
    program.extend(count(Word::Arrivals));
    program.extend([
        // Without a time of leaving it has only begun.
        get(R1, Word::OutTime),
        Insn::JumpIf(Compare::Equal, R1, Imm(0), "out"),
        Insn::Alu(Alu::Sub, R7, Source::Reg(R1)),
        put(Word::LastNs, R7),
        get(R3, Word::How),
        Insn::Alu(Alu::And, R3, Imm(!AWAY)),
        put(Word::How, R3),
        Insn::Alu(Alu::And, R3, Imm(PREEMPTED)),
        Insn::JumpIf(Compare::NotEqual, R3, Imm(0), "was_preempted"),
    ]);
    program.extend(sum(Word::BlockedNs, R7));
    program.extend([Insn::Jump("where"), Insn::Label("was_preempted")]);
    program.extend(sum(Word::PreemptedNs, R7));
    program.push(Insn::Label("where"));
    program.extend(compare_cpus("here"));
    program
}

/// Notes where the thread of slot `R9` has come back, CPU `R0`, to another CPU than it had left.
fn compare_cpus(same: &'static str) -> Vec<Insn> {
    let mut program = vec![
        get(R1, Word::OutCpu),
        Insn::JumpIf(Compare::Equal, R0, Source::Reg(R1), same),
        get(R3, Word::How),
        Insn::Alu(Alu::Or, R3, Imm(MOVED)),
        put(Word::How, R3),
    ];
    program.extend(count(Word::CpuChanges));
    program.push(Insn::Label(same));
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
