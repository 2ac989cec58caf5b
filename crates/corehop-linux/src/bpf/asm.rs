// SPDX-License-Identifier: MIT OR Apache-2.0
//! A small assembler for eBPF: instructions as data, jumps to named labels.
//!
//! The programs here are a dozen instructions long; written out they need neither a compiler nor
//! an object file, and the listing in the source is what the kernel verifies. An instruction
//! prints in the notation of the kernel's verifier log. Encoding: RFC 9669.

use std::fmt;
use std::os::fd::RawFd;

/// A register. `R0` holds results, `R1` to `R5` arguments (lost at a call), `R6` to `R9` survive
/// calls, `R10` is the frame pointer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Reg {
    R0,
    R1,
    R2,
    R3,
    R4,
    R5,
    R6,
    R7,
    R8,
    R9,
    R10,
}

impl fmt::Display for Reg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "r{}", *self as u8)
    }
}

/// The second operand of an instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// A register.
    Reg(Reg),
    /// A number, extended with its sign to 64 bits.
    Imm(i32),
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Reg(reg) => reg.fmt(f),
            Self::Imm(value) => value.fmt(f),
        }
    }
}

/// Width of an access to memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Width {
    /// 8 bits.
    U8 = 0x10,
    /// 16 bits.
    U16 = 0x08,
    /// 32 bits.
    U32 = 0x00,
    /// 64 bits.
    U64 = 0x18,
}

impl fmt::Display for Width {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::U8 => "u8",
            Self::U16 => "u16",
            Self::U32 => "u32",
            Self::U64 => "u64",
        })
    }
}

/// A 64-bit operation on a register.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
#[allow(missing_docs)]
pub enum Alu {
    Add = 0x00,
    Sub = 0x10,
    Mul = 0x20,
    Or = 0x40,
    And = 0x50,
    ShiftLeft = 0x60,
    ShiftRight = 0x70,
    Xor = 0xa0,
    Move = 0xb0,
}

impl Alu {
    const fn sign(self) -> &'static str {
        match self {
            Self::Add => "+=",
            Self::Sub => "-=",
            Self::Mul => "*=",
            Self::Or => "|=",
            Self::And => "&=",
            Self::ShiftLeft => "<<=",
            Self::ShiftRight => ">>=",
            Self::Xor => "^=",
            Self::Move => "=",
        }
    }
}

/// A comparison of 64-bit numbers without sign.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
#[allow(missing_docs)]
pub enum Compare {
    Equal = 0x10,
    Above = 0x20,
    AtLeast = 0x30,
    NotEqual = 0x50,
    Below = 0xa0,
    AtMost = 0xb0,
}

impl Compare {
    const fn sign(self) -> &'static str {
        match self {
            Self::Equal => "==",
            Self::Above => ">",
            Self::AtLeast => ">=",
            Self::NotEqual => "!=",
            Self::Below => "<",
            Self::AtMost => "<=",
        }
    }
}

/// A function of the kernel that a program may call, by its number in `enum bpf_func_id`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(i32)]
pub enum Helper {
    /// Address of the value under a key (`r1` map, `r2` address of the key), or 0.
    MapLookup = 1,
    /// Puts a value under a key (`r1` map, `r2` key's address, `r3` value's, `r4` flags); 0 if done.
    MapUpdate = 2,
    /// Removes a key (`r1` map, `r2` address of the key).
    MapDelete = 3,
    /// CLOCK_MONOTONIC in nanoseconds.
    MonotonicNanos = 5,
    /// The CPU it runs on. Stable: a tracing program is never migrated.
    Cpu = 8,
    /// The current thread: its process's number in the upper half, its own in the lower.
    CurrentThread = 14,
    /// Copies `r2` bytes of the kernel's memory from `r3` to `r1`.
    ProbeRead = 113,
    /// Appends `r3` bytes from `r2` to the ring `r1`, with flags `r4`; 0 if there was room.
    RingOutput = 130,
    /// The current thread's `struct task_struct`, typed, so that it can be read directly.
    CurrentTask = 158,
}

impl Helper {
    const fn name(self) -> &'static str {
        match self {
            Self::MapLookup => "map_lookup_elem",
            Self::MapUpdate => "map_update_elem",
            Self::MapDelete => "map_delete_elem",
            Self::ProbeRead => "probe_read_kernel",
            Self::RingOutput => "ringbuf_output",
            Self::MonotonicNanos => "ktime_get_ns",
            Self::Cpu => "get_smp_processor_id",
            Self::CurrentThread => "get_current_pid_tgid",
            Self::CurrentTask => "get_current_task_btf",
        }
    }
}

/// An instruction, or the place that a jump goes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Insn {
    /// `r1 += r2`
    Alu(Alu, Reg, Source),
    /// `r1 = *(u64 *)(r2 + 16)`: destination, base, offset.
    Load(Width, Reg, Reg, i16),
    /// `*(u64 *)(r1 + 16) = r2`: base, offset, source.
    Store(Width, Reg, i16, Source),
    /// `lock *(u64 *)(r1 + 16) += r2`: base, offset, source. 32 or 64 bits wide.
    AtomicAdd(Width, Reg, i16, Reg),
    /// `r2 = atomic_fetch_add((u64 *)(r1 + 16), r2)`: the same, and the source gets what was there.
    AtomicFetchAdd(Width, Reg, i16, Reg),
    /// The address of a map, as [`Helper::MapLookup`] wants it.
    MapAddress(Reg, RawFd),
    /// The address of the value of an array map with one entry, plus an offset: no lookup.
    MapValue(Reg, RawFd, u32),
    /// `if r1 >= r2 goto label`
    JumpIf(Compare, Reg, Source, &'static str),
    /// `goto label`
    Jump(&'static str),
    /// `label:`
    Label(&'static str),
    /// `call helper`
    Call(Helper),
    /// `exit`, with the result in `R0`.
    Exit,
}

/// `to = from`
pub const fn set(to: Reg, from: Source) -> Insn {
    Insn::Alu(Alu::Move, to, from)
}
/// `to += from`
pub const fn add(to: Reg, from: Source) -> Insn {
    Insn::Alu(Alu::Add, to, from)
}
/// `reg <<= bits`
pub const fn shift_left(reg: Reg, bits: u8) -> Insn {
    Insn::Alu(Alu::ShiftLeft, reg, Source::Imm(bits as i32))
}
/// `*(u64 *)(base + offset) = from`
pub const fn store(base: Reg, offset: i16, from: Source) -> Insn {
    Insn::Store(Width::U64, base, offset, from)
}
/// `to = *(u64 *)(base + offset)`
pub const fn load(to: Reg, base: Reg, offset: i16) -> Insn {
    Insn::Load(Width::U64, to, base, offset)
}

impl fmt::Display for Insn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Alu(alu, to, from) => write!(f, "{to} {} {from}", alu.sign()),
            Self::Load(width, to, base, offset) => {
                write!(f, "{to} = *({width} *)({base} {offset:+})")
            }
            Self::Store(width, base, offset, from) => {
                write!(f, "*({width} *)({base} {offset:+}) = {from}")
            }
            Self::AtomicAdd(width, base, offset, from) => {
                write!(f, "lock *({width} *)({base} {offset:+}) += {from}")
            }
            Self::AtomicFetchAdd(width, base, offset, from) => {
                write!(f, "{from} = atomic_fetch_add(({width} *)({base} {offset:+}), {from})")
            }
            Self::MapAddress(to, fd) => write!(f, "{to} = map[fd {fd}]"),
            Self::MapValue(to, fd, offset) => write!(f, "{to} = map[fd {fd}][0] +{offset}"),
            Self::JumpIf(compare, left, right, label) => {
                write!(f, "if {left} {} {right} goto {label}", compare.sign())
            }
            Self::Jump(label) => write!(f, "goto {label}"),
            Self::Label(label) => write!(f, "{label}:"),
            Self::Call(helper) => write!(f, "call {}", helper.name()),
            Self::Exit => f.write_str("exit"),
        }
    }
}

/// Why a list of instructions is not a program.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AsmError {
    /// A jump to a label that is nowhere.
    #[error("a jump goes to the label `{0}`, which the program does not have")]
    NoLabel(&'static str),
    /// The same label twice.
    #[error("the label `{0}` is there twice")]
    TwoLabels(&'static str),
    /// A jump over more than 32,767 instructions.
    #[error("the jump to `{0}` is too far")]
    TooFar(&'static str),
}

/// An instruction as the kernel takes it (`struct bpf_insn`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub struct Slot {
    /// Operation.
    pub code: u8,
    /// Destination and source register, four bits each.
    pub registers: u8,
    /// Offset of an access or a jump.
    pub offset: i16,
    /// Number.
    pub immediate: i32,
}

/// Classes and modifiers that make up an operation code.
mod code {
    pub(super) const LOAD_IMM64: u8 = 0x18;
    pub(super) const LOAD: u8 = 0x61;
    pub(super) const STORE_IMM: u8 = 0x62;
    pub(super) const STORE: u8 = 0x63;
    pub(super) const ATOMIC: u8 = 0xc3;
    pub(super) const JUMP: u8 = 0x05;
    pub(super) const CALL: u8 = 0x85;
    pub(super) const EXIT: u8 = 0x95;
    pub(super) const ALU64: u8 = 0x07;
    /// The second operand is a register.
    pub(super) const FROM_REG: u8 = 0x08;
}

/// What the source register of a 64-bit load says about its number: a file descriptor of a map,
/// or of one whose value's address is wanted.
const PSEUDO_MAP: u8 = 1;
const PSEUDO_MAP_VALUE: u8 = 2;
/// What the number of an atomic addition says: the register gets what was there before.
const FETCH: i32 = 1;

const fn slot(code: u8, to: u8, from: u8, offset: i16, immediate: i32) -> Slot {
    // Two bit fields of a byte: the order of their bits is that of the machine's bytes.
    let registers = if cfg!(target_endian = "big") { to << 4 | from } else { from << 4 | to };
    Slot { code, registers, offset, immediate }
}

/// `code` with its second operand.
const fn with_source(code: u8, to: Reg, from: Source, offset: i16) -> Slot {
    match from {
        Source::Reg(reg) => slot(code | code::FROM_REG, to as u8, reg as u8, offset, 0),
        Source::Imm(value) => slot(code, to as u8, 0, offset, value),
    }
}

/// The program as the kernel takes it.
///
/// # Errors
/// Where a label is missing, there twice, or too far away.
pub fn assemble(program: &[Insn]) -> Result<Vec<Slot>, AsmError> {
    let mut labels: Vec<(&str, usize)> = Vec::new();
    let mut length = 0;
    for insn in program {
        if let Insn::Label(label) = insn {
            if labels.iter().any(|(known, _)| known == label) {
                return Err(AsmError::TwoLabels(label));
            }
            labels.push((label, length));
        }
        length += slots_of(insn);
    }
    let mut slots = Vec::with_capacity(length);
    for insn in program {
        encode(insn, &labels, &mut slots)?;
    }
    Ok(slots)
}

const fn slots_of(insn: &Insn) -> usize {
    match insn {
        Insn::Label(_) => 0,
        Insn::MapAddress(..) | Insn::MapValue(..) => 2,
        _ => 1,
    }
}

fn encode(insn: &Insn, labels: &[(&str, usize)], slots: &mut Vec<Slot>) -> Result<(), AsmError> {
    let here = slots.len();
    match *insn {
        Insn::Label(_) => {}
        Insn::Alu(alu, to, from) => {
            slots.push(with_source(code::ALU64 | alu as u8, to, from, 0));
        }
        Insn::Load(width, to, base, offset) => {
            slots.push(slot(code::LOAD | width as u8, to as u8, base as u8, offset, 0));
        }
        Insn::Store(width, base, offset, Source::Reg(from)) => {
            slots.push(slot(code::STORE | width as u8, base as u8, from as u8, offset, 0));
        }
        Insn::Store(width, base, offset, Source::Imm(value)) => {
            slots.push(slot(code::STORE_IMM | width as u8, base as u8, 0, offset, value));
        }
        Insn::AtomicAdd(width, base, offset, from) => {
            slots.push(slot(code::ATOMIC | width as u8, base as u8, from as u8, offset, 0));
        }
        Insn::AtomicFetchAdd(width, base, offset, from) => {
            let code = code::ATOMIC | width as u8;
            slots.push(slot(code, base as u8, from as u8, offset, FETCH));
        }
        Insn::MapAddress(to, fd) => slots.extend(load_imm64(to, PSEUDO_MAP, fd, 0)),
        Insn::MapValue(to, fd, offset) => {
            slots.extend(load_imm64(to, PSEUDO_MAP_VALUE, fd, offset));
        }
        Insn::JumpIf(compare, left, right, label) => {
            let distance = distance(here, label, labels)?;
            slots.push(with_source(code::JUMP | compare as u8, left, right, distance));
        }
        Insn::Jump(label) => slots.push(slot(code::JUMP, 0, 0, distance(here, label, labels)?, 0)),
        Insn::Call(helper) => slots.push(slot(code::CALL, 0, 0, 0, helper as i32)),
        Insn::Exit => slots.push(slot(code::EXIT, 0, 0, 0, 0)),
    }
    Ok(())
}

/// The only instruction of two slots; the second carries the upper 32 bits.
const fn load_imm64(to: Reg, pseudo: u8, low: i32, high: u32) -> [Slot; 2] {
    [slot(code::LOAD_IMM64, to as u8, pseudo, 0, low), slot(0, 0, 0, 0, high as i32)]
}

/// A jump counts from the instruction after it.
fn distance(here: usize, label: &'static str, labels: &[(&str, usize)]) -> Result<i16, AsmError> {
    let found = labels.iter().find(|(known, _)| *known == label);
    let &(_, there) = found.ok_or(AsmError::NoLabel(label))?;
    i16::try_from(there as i64 - here as i64 - 1).map_err(|_| AsmError::TooFar(label))
}

#[cfg(test)]
#[path = "asm_tests.rs"]
mod tests;
