// SPDX-License-Identifier: MIT OR Apache-2.0
//! The assembler against encodings from RFC 9669, and against a disassembler of its own.

use proptest::prelude::*;

use super::Insn::*;
use super::Reg::*;
use super::*;

/// Writes slots in the notation of [`Insn`]; the targets of jumps are the numbers of slots. Reads
/// the tables of the RFC from the other side: nothing of the encoder is used.
fn disassemble(slots: &[Slot]) -> Vec<String> {
    let mut lines = Vec::new();
    let mut at = 0;
    while at < slots.len() {
        let Slot { code, registers, offset, immediate } = slots[at];
        let (to, from) = (registers & 15, registers >> 4);
        let there = at as i64 + 1 + i64::from(offset);
        let second = if code & 8 == 0 { immediate.to_string() } else { format!("r{from}") };
        let width = ["u32", "u16", "u8", "u64"][usize::from(code >> 3 & 3)];
        let line = match (code & 7, code >> 4) {
            (0, 1) => {
                at += 1;
                match from {
                    1 => format!("r{to} = map[fd {immediate}]"),
                    2 => format!("r{to} = map[fd {immediate}][0] +{}", slots[at].immediate),
                    other => panic!("pseudo source {other}"),
                }
            }
            (1, _) => format!("r{to} = *({width} *)(r{from} {offset:+})"),
            (2, _) => format!("*({width} *)(r{to} {offset:+}) = {immediate}"),
            (3, 6 | 7) => format!("*({width} *)(r{to} {offset:+}) = r{from}"),
            (3, 12 | 13) if immediate == 1 => {
                format!("r{from} = atomic_fetch_add(({width} *)(r{to} {offset:+}), r{from})")
            }
            (3, 12 | 13) => format!("lock *({width} *)(r{to} {offset:+}) += r{from}"),
            (5, 0) => format!("goto {there}"),
            (5, 8) => match immediate {
                1 => "call map_lookup_elem".into(),
                2 => "call map_update_elem".into(),
                3 => "call map_delete_elem".into(),
                113 => "call probe_read_kernel".into(),
                130 => "call ringbuf_output".into(),
                5 => "call ktime_get_ns".into(),
                8 => "call get_smp_processor_id".into(),
                158 => "call get_current_task_btf".into(),
                other => panic!("helper {other}"),
            },
            (5, 9) => "exit".into(),
            (5, operation) => {
                let sign = ["", "==", ">", ">=", "", "!=", "", "", "", "", "<", "<="];
                format!("if r{to} {} {second} goto {there}", sign[usize::from(operation)])
            }
            (7, operation) => {
                let sign = ["+=", "-=", "*=", "", "|=", "&=", "<<=", ">>=", "", "", "^=", "="];
                format!("r{to} {} {second}", sign[usize::from(operation)])
            }
            other => panic!("class and operation {other:?}"),
        };
        lines.push(line);
        at += 1;
    }
    lines
}

#[test]
fn the_encoding_is_that_of_the_rfc() {
    for (insn, bytes) in [
        (set(R1, Source::Reg(R2)), [0xbf, 0x21, 0, 0, 0, 0, 0, 0]),
        (set(R0, Source::Imm(-1)), [0xb7, 0, 0, 0, 0xff, 0xff, 0xff, 0xff]),
        (add(R3, Source::Imm(8)), [0x07, 3, 0, 0, 8, 0, 0, 0]),
        (shift_left(R0, 7), [0x67, 0, 0, 0, 7, 0, 0, 0]),
        (load(R1, R9, -8), [0x79, 0x91, 0xf8, 0xff, 0, 0, 0, 0]),
        (Store(Width::U32, R10, -4, Source::Reg(R6)), [0x63, 0x6a, 0xfc, 0xff, 0, 0, 0, 0]),
        (Store(Width::U8, R1, 0, Source::Imm(3)), [0x72, 1, 0, 0, 3, 0, 0, 0]),
        (AtomicAdd(Width::U64, R1, 16, R2), [0xdb, 0x21, 16, 0, 0, 0, 0, 0]),
        (Call(Helper::Cpu), [0x85, 0, 0, 0, 8, 0, 0, 0]),
        (Exit, [0x95, 0, 0, 0, 0, 0, 0, 0]),
    ] {
        let slot = assemble(&[insn]).unwrap()[0];
        let [low, high] = slot.offset.to_le_bytes();
        let mut got = vec![slot.code, slot.registers, low, high];
        got.extend(slot.immediate.to_le_bytes());
        assert_eq!(got, bytes, "{insn}");
    }
}

#[test]
fn jumps_count_slots_and_an_address_takes_two() {
    let program = [
        Label("again"),
        MapValue(R1, 7, 128),
        JumpIf(Compare::AtLeast, R0, Source::Imm(2), "out"),
        MapAddress(R2, 7),
        Jump("again"),
        Label("out"),
        Exit,
    ];
    assert_eq!(
        disassemble(&assemble(&program).unwrap()),
        ["r1 = map[fd 7][0] +128", "if r0 >= 2 goto 6", "r2 = map[fd 7]", "goto 0", "exit"]
    );
}

#[test]
fn labels_that_are_missing_or_there_twice_are_named() {
    assert_eq!(assemble(&[Jump("out")]), Err(AsmError::NoLabel("out")));
    assert_eq!(assemble(&[Label("a"), Label("a")]), Err(AsmError::TwoLabels("a")));
    let mut far = vec![Jump("out")];
    far.resize(40_000, Exit);
    far.push(Label("out"));
    assert_eq!(assemble(&far), Err(AsmError::TooFar("out")));
}

fn any_reg() -> impl Strategy<Value = Reg> {
    prop::sample::select(vec![R0, R1, R2, R3, R4, R5, R6, R7, R8, R9, R10])
}

fn any_source() -> impl Strategy<Value = Source> {
    prop_oneof![any_reg().prop_map(Source::Reg), any::<i32>().prop_map(Source::Imm)]
}

fn any_insn() -> impl Strategy<Value = Insn> {
    use super::Alu::{Add, And, Move, Mul, Or, ShiftLeft, ShiftRight, Sub, Xor};
    let alu = prop::sample::select(vec![Add, Sub, Mul, Or, And, ShiftLeft, ShiftRight, Xor, Move]);
    let width = || prop::sample::select(vec![Width::U8, Width::U16, Width::U32, Width::U64]);
    let wide = || prop::sample::select(vec![Width::U32, Width::U64]);
    let compare = prop::sample::select(vec![
        Compare::Equal,
        Compare::Above,
        Compare::AtLeast,
        Compare::NotEqual,
        Compare::Below,
        Compare::AtMost,
    ]);
    let helper = prop::sample::select(vec![
        Helper::MapLookup,
        Helper::MapUpdate,
        Helper::MapDelete,
        Helper::ProbeRead,
        Helper::RingOutput,
        Helper::MonotonicNanos,
        Helper::Cpu,
        Helper::CurrentTask,
    ]);
    prop_oneof![
        (alu, any_reg(), any_source()).prop_map(|(a, to, from)| Alu(a, to, from)),
        (width(), any_reg(), any_reg(), any::<i16>()).prop_map(|(w, to, b, o)| Load(w, to, b, o)),
        (width(), any_reg(), any::<i16>(), any_source()).prop_map(|(w, b, o, s)| Store(w, b, o, s)),
        (wide(), any_reg(), any::<i16>(), any_reg()).prop_map(|(w, b, o, s)| AtomicAdd(w, b, o, s)),
        (wide(), any_reg(), any::<i16>(), any_reg())
            .prop_map(|(w, b, o, s)| AtomicFetchAdd(w, b, o, s)),
        (any_reg(), 0..99).prop_map(|(to, fd)| MapAddress(to, fd)),
        (any_reg(), 0..99, 0_u32..1 << 30).prop_map(|(to, fd, o)| MapValue(to, fd, o)),
        (compare, any_reg(), any_source()).prop_map(|(c, l, r)| JumpIf(c, l, r, "end")),
        Just(Jump("end")),
        helper.prop_map(Call),
        Just(Exit),
    ]
}

proptest! {
    #[test]
    fn a_program_disassembles_to_what_was_written(
        program in prop::collection::vec(any_insn(), 0..40),
    ) {
        let end: usize = program.iter().map(slots_of).sum();
        let written: Vec<String> =
            program.iter().map(|i| i.to_string().replace("goto end", &format!("goto {end}"))).collect();
        let mut labelled = program;
        labelled.push(Label("end"));
        prop_assert_eq!(disassemble(&assemble(&labelled).unwrap()), written);
    }
}
