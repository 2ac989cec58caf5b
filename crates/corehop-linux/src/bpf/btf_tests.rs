// SPDX-License-Identifier: MIT OR Apache-2.0
//! The parser on a blob small enough to check by hand, on damaged ones, and on this kernel's own.

use proptest::prelude::*;

use super::*;

/// A blob written record by record.
#[derive(Default)]
struct Blob {
    types: Vec<u32>,
    strings: Vec<u8>,
    layout: Vec<[u8; 4]>,
}

impl Blob {
    fn new() -> Self {
        Self { strings: vec![0], ..Self::default() }
    }
    fn name(&mut self, name: &str) -> u32 {
        if name.is_empty() {
            return 0;
        }
        let at = self.strings.len() as u32;
        self.strings.extend(name.bytes().chain([0]));
        at
    }
    /// A record; `info` is the kind in its upper byte and the number of elements in the others.
    fn record(&mut self, name: &str, info: u32, size_or_type: u32, trailing: &[u32]) {
        let name = self.name(name);
        self.types.extend([name, info, size_or_type]);
        self.types.extend(trailing);
    }
    fn compound(&mut self, kind: u32, name: &str, size: u32, members: &[(&str, u32, u32)]) {
        let trailing: Vec<u32> = members
            .iter()
            .flat_map(|&(member, type_id, bits)| [self.name(member), type_id, bits])
            .collect();
        self.record(name, kind << 24 | members.len() as u32, size, &trailing);
    }
    fn bytes(&self) -> Vec<u8> {
        let types: Vec<u8> = self.types.iter().flat_map(|word| word.to_ne_bytes()).collect();
        let layout = self.layout.concat();
        let (t, s, l) = (types.len() as u32, self.strings.len() as u32, layout.len() as u32);
        let header = [32, 0, t, t, s, t + s, l];
        let mut bytes = 0xeb9f_u16.to_ne_bytes().to_vec();
        bytes.extend([1, 0]);
        bytes.extend(header.iter().flat_map(|word: &u32| word.to_ne_bytes()));
        bytes.extend(types);
        bytes.extend(&self.strings);
        bytes.extend(layout);
        bytes
    }
}

/// A kernel of twelve types. Offsets in bits, as in the format.
fn tiny_kernel() -> Blob {
    let mut blob = Blob::new();
    blob.record("int", kind::INT << 24, 4, &[32]); // 1
    blob.record("u64", kind::INT << 24, 8, &[64]); // 2
    let rq = [("lock", 1, 0), ("clock", 2, 128), ("prev_steal_time_rq", 2, 192)];
    blob.compound(kind::STRUCT, "rq", 64, &rq); // 3
    blob.record("", kind::PTR << 24, 3, &[]); // 4: struct rq *
    blob.compound(kind::STRUCT, "cfs_rq", 32, &[("load", 2, 0), ("rq", 4, 192)]); // 5
    blob.record("", kind::PTR << 24, 5, &[]); // 6: struct cfs_rq *
    blob.compound(kind::STRUCT, "sched_entity", 48, &[("weight", 2, 0), ("cfs_rq", 6, 64)]); // 7
    blob.record("pid_t", kind::TYPEDEF << 24, 1, &[]); // 8
    blob.compound(kind::UNION, "", 8, &[("a", 1, 0), ("b", 2, 0)]); // 9, anonymous
    blob.record("", kind::ARRAY << 24, 0, &[1, 1, 4]); // 10: int[4]
    blob.record("btf_trace_sched_switch", kind::TYPEDEF << 24, 0, &[]); // 11
    // 12: with bit fields, so that the upper byte of an offset is a width
    blob.compound(
        kind::STRUCT | 0x80,
        "task_struct",
        256,
        &[
            ("__state", 1, 0),
            ("flag", 1, 1 << 24 | 32),
            ("se", 7, 512),
            ("pid", 8, 1024),
            ("", 9, 1088),
            ("cpus", 10, 1280),
        ],
    );
    blob
}

pub(in crate::bpf) fn tiny() -> Btf {
    Btf::parse(tiny_kernel().bytes()).unwrap()
}

/// The same with a table of functions for a scheduler: 16 bytes of the kernel's own, then one
/// function and 24 characters.
pub(in crate::bpf) fn kernel_with_sched_ext() -> Btf {
    let mut blob = tiny_kernel();
    blob.record("", kind::ARRAY << 24, 0, &[1, 1, 6]); // 13: as large as 24 characters
    let ops = [("select_cpu", 4, 0), ("name", 13, 64)];
    blob.compound(kind::STRUCT, "sched_ext_ops", 32, &ops); // 14
    let members = [("common", 2, 0), ("data", 14, 128)];
    blob.compound(kind::STRUCT, "bpf_struct_ops_sched_ext_ops", 48, &members); // 15
    Btf::parse(blob.bytes()).unwrap()
}

#[test]
fn a_structure_is_found_with_its_size() {
    assert_eq!(tiny().structure("task_struct"), Ok((12, 256)));
    assert!(matches!(tiny().structure("pid_t"), Err(BtfError::NoType { .. })), "a typedef");
}

#[test]
fn a_tracepoint_is_found_by_the_number_of_its_type() {
    assert_eq!(tiny().tracepoint("sched_switch"), Ok(11));
    assert_eq!(tiny().type_count(), 13);
}

#[test]
fn members_are_found_nested_behind_typedefs_in_anonymous_unions_and_as_arrays() {
    for (path, offset, size) in [
        ("__state", 0, 4),
        ("pid", 128, 4),
        ("se", 64, 48),
        ("se.cfs_rq", 72, 8),
        ("a", 136, 4),
        ("b", 136, 8),
        ("cpus", 160, 16),
    ] {
        assert_eq!(tiny().member("task_struct", path), Ok(Member { offset, size }), "{path}");
    }
}

#[test]
fn a_chain_of_pointers_becomes_one_load_each() {
    let loads = tiny().loads("task_struct", "se.cfs_rq->rq->clock").unwrap();
    assert_eq!(loads.iter().map(|load| load.offset).collect::<Vec<_>>(), [72, 24, 16]);
}

#[test]
fn what_the_kernel_lacks_is_named() {
    let btf = tiny();
    for (error, words) in [
        (btf.tracepoint("local_timer_entry").err(), ["tracepoint", "local_timer_entry"]),
        (btf.member("mm_struct", "pgd").err(), ["structure", "`mm_struct`"]),
        (btf.member("task_struct", "tgid").err(), ["struct task_struct", "`tgid`"]),
        (btf.loads("task_struct", "se.cfs_rq->rq->steal").err(), ["struct rq", "`steal`"]),
        (btf.loads("task_struct", "pid->rq").err(), ["structure", "`pid` points to"]),
        (btf.member("task_struct", "flag").err(), ["`flag`", "bit field"]),
        (btf.member("task_struct", "pid.value").err(), ["struct task_struct", "`pid.value`"]),
    ] {
        let text = error.unwrap().to_string();
        assert!(words.iter().all(|word| text.contains(word)), "{text}");
    }
}

#[test]
fn of_two_structures_with_one_name_the_one_with_the_member_answers() {
    let mut blob = tiny_kernel();
    blob.compound(kind::STRUCT, "rq", 8, &[("steal", 2, 0)]);
    let btf = Btf::parse(blob.bytes()).unwrap();
    assert_eq!(btf.member("rq", "steal").unwrap().offset, 0);
    assert_eq!(btf.member("rq", "clock").unwrap().offset, 16);
}

#[test]
fn a_kind_of_the_future_is_stepped_over_where_the_blob_describes_it() {
    let mut blob = tiny_kernel();
    blob.record("novel", 40 << 24 | 3, 0, &[7, 7, 7, 7]);
    blob.record("btf_trace_later", kind::TYPEDEF << 24, 0, &[]);
    let error = Btf::parse(blob.bytes()).unwrap_err();
    assert_eq!(error, BtfError::UnknownKind { id: 13, kind: 40 });
    blob.layout = vec![[0; 4]; 40];
    blob.layout.push([4, 4, 0, 0]); // four bytes once, four for each of three
    assert_eq!(Btf::parse(blob.bytes()).unwrap().tracepoint("later"), Ok(14));
}

#[test]
fn a_blob_of_linux_before_7_1_has_a_header_of_24_bytes() {
    let mut bytes = tiny_kernel().bytes();
    bytes[4] = 24;
    bytes.drain(24..32);
    assert_eq!(Btf::parse(bytes).unwrap().tracepoint("sched_switch"), Ok(11));
}

#[test]
fn other_files_and_other_byte_orders_are_refused_by_their_first_bytes() {
    let elf = Btf::parse(b"\x7fELF\x02\x01\x01".to_vec()).unwrap_err().to_string();
    assert!(elf.contains("0x457f instead of 0xeb9f"), "{elf}");
    let mut swapped = tiny_kernel().bytes();
    swapped.swap(0, 1);
    assert_eq!(Btf::parse(swapped).unwrap_err(), BtfError::NotBtf { found: 0x9feb });
    let mut newer = tiny_kernel().bytes();
    newer[2] = 2;
    assert_eq!(Btf::parse(newer).unwrap_err(), BtfError::OtherVersion { found: 2 });
    assert!(matches!(Btf::parse(vec![]), Err(BtfError::Truncated { .. })));
}

#[test]
fn typedefs_and_arrays_that_refer_to_themselves_end_in_an_error() {
    let mut blob = tiny_kernel();
    blob.record("loop", kind::TYPEDEF << 24, 13, &[]); // 13, of itself
    blob.record("", kind::ARRAY << 24, 0, &[14, 1, 2]); // 14, of itself
    blob.compound(kind::STRUCT, "", 8, &[("", 15, 0)]); // 15, in itself
    blob.compound(kind::STRUCT, "s", 8, &[("x", 13, 0), ("y", 14, 0), ("", 15, 64)]);
    let btf = Btf::parse(blob.bytes()).unwrap();
    assert!(matches!(btf.member("s", "x"), Err(BtfError::Truncated { .. })));
    assert!(matches!(btf.member("s", "y"), Err(BtfError::Truncated { .. })));
    assert!(matches!(btf.member("s", "z"), Err(BtfError::NoMember { .. })));
}

proptest! {
    #[test]
    fn damaged_bytes_give_an_error_or_an_answer_and_never_a_panic(
        cut in 0_usize..700,
        changes in prop::collection::vec((0_usize..700, any::<u8>()), 0..4),
    ) {
        let mut bytes = tiny_kernel().bytes();
        for (at, value) in changes {
            if let Some(byte) = bytes.get_mut(at) {
                *byte = value;
            }
        }
        bytes.truncate(cut.max(1));
        if let Ok(btf) = Btf::parse(bytes) {
            let _ = btf.tracepoint("sched_switch");
            let _ = btf.loads("task_struct", "se.cfs_rq->rq->clock");
            let _ = btf.member("task_struct", "nowhere");
        }
    }
}

#[test]
#[expect(clippy::print_stderr, reason = "a skip says why")]
fn this_kernels_own_types_answer() {
    let bytes = match std::fs::read(super::super::VMLINUX_BTF) {
        Ok(bytes) => bytes,
        Err(error) => return eprintln!("skipped: {}: {error}", super::super::VMLINUX_BTF),
    };
    let btf = Btf::parse(bytes).unwrap();
    assert!(btf.tracepoint("sched_switch").unwrap() > 0);
    let pid = btf.member("task_struct", "pid").unwrap();
    let tgid = btf.member("task_struct", "tgid").unwrap();
    assert_eq!((pid.size, tgid.offset), (4, pid.offset + 4));
    let name = btf.member("task_struct", "comm").unwrap();
    assert_eq!(name.size, 16);
    assert_eq!(btf.member("list_head", "prev").unwrap(), Member { offset: 8, size: 8 });
    assert!(matches!(btf.member("task_struct", "no_such"), Err(BtfError::NoMember { .. })));
}
