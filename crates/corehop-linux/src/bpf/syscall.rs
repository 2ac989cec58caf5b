// SPDX-License-Identifier: MIT OR Apache-2.0
//! The few commands of bpf(2) that are used, each behind a safe function.
//!
//! <https://man7.org/linux/man-pages/man2/bpf.2.html>; the structures are the parts of
//! `union bpf_attr` and `struct bpf_prog_info` (include/uapi/linux/bpf.h) that the commands read.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use super::asm::Slot;

/// Commands (`enum bpf_cmd`).
mod command {
    pub(super) const MAP_CREATE: i32 = 0;
    pub(super) const MAP_LOOKUP: i32 = 1;
    pub(super) const MAP_UPDATE: i32 = 2;
    pub(super) const MAP_DELETE: i32 = 3;
    pub(super) const PROG_LOAD: i32 = 5;
    pub(super) const OBJ_GET_INFO_BY_FD: i32 = 15;
    pub(super) const RAW_TRACEPOINT_OPEN: i32 = 17;
    pub(super) const BTF_LOAD: i32 = 18;
    pub(super) const LINK_CREATE: i32 = 28;
    pub(super) const ENABLE_STATS: i32 = 32;
}

const MAP_TYPE_HASH: u32 = 1;
const MAP_TYPE_ARRAY: u32 = 2;
const MAP_TYPE_STRUCT_OPS: u32 = 26;
const MAP_TYPE_RING: u32 = 27;
/// The values may be mapped into user memory.
const MMAPABLE: u32 = 1 << 10;
/// What is registered by a link, so that it goes with the link's descriptor.
const BY_LINK: u32 = 1 << 13;
const PROG_TYPE_TRACING: u32 = 26;
/// A tracepoint, its arguments typed by BTF (`tp_btf` elsewhere).
const TRACE_RAW_TP: u32 = 23;
const STRUCT_OPS: u32 = 44;
/// The kernel lends its GPL-only functions to programs that are also under the GPL.
const LICENCE: &std::ffi::CStr = c"Dual MIT/GPL";
const STATS_RUN_TIME: u32 = 0;

#[repr(C)]
#[derive(Default)]
struct MapCreate {
    map_type: u32,
    key_size: u32,
    value_size: u32,
    max_entries: u32,
    map_flags: u32,
    inner_map_fd: u32,
    numa_node: u32,
    map_name: [u8; 16],
    map_ifindex: u32,
    btf_fd: u32,
    btf_key_type_id: u32,
    btf_value_type_id: u32,
    btf_vmlinux_value_type_id: u32,
}

#[repr(C)]
#[derive(Default)]
struct MapEntry {
    map_fd: u32,
    unused: u32,
    key: u64,
    value: u64,
    flags: u64,
}

#[repr(C)]
#[derive(Default)]
struct ProgLoad {
    prog_type: u32,
    insn_count: u32,
    insns: u64,
    licence: u64,
    log_level: u32,
    log_size: u32,
    log_buffer: u64,
    kern_version: u32,
    prog_flags: u32,
    prog_name: [u8; 16],
    prog_ifindex: u32,
    expected_attach_type: u32,
    prog_btf_fd: u32,
    func_info_rec_size: u32,
    func_info: u64,
    func_info_count: u32,
    line_info_rec_size: u32,
    line_info: u64,
    line_info_count: u32,
    attach_btf_id: u32,
}

#[repr(C)]
#[derive(Default)]
struct RawTracepointOpen {
    /// Zero for tracing programs: the program itself says where it belongs.
    name: u64,
    prog_fd: u32,
    unused: u32,
}

#[repr(C)]
#[derive(Default)]
struct BtfLoad {
    btf: u64,
    log_buffer: u64,
    btf_size: u32,
    log_size: u32,
    log_level: u32,
    unused: u32,
}

#[repr(C)]
#[derive(Default)]
struct LinkCreate {
    map_fd: u32,
    target_fd: u32,
    attach_type: u32,
    flags: u32,
}

#[repr(C)]
#[derive(Default)]
struct InfoByFd {
    fd: u32,
    info_len: u32,
    info: u64,
}

/// `struct bpf_prog_info` up to the last field used. Kernels that know less fill less.
#[repr(C)]
#[derive(Default)]
struct RawProgramInfo {
    prog_type: u32,
    id: u32,
    tag: [u8; 8],
    jited_len: u32,
    translated_len: u32,
    jited: u64,
    translated: u64,
    load_time: u64,
    created_by: u32,
    map_count: u32,
    map_ids: u64,
    name: [u8; 16],
    ifindex: u32,
    gpl_compatible: u32,
    netns: [u64; 2],
    jited_symbol_count: u32,
    jited_function_count: u32,
    jited_symbols: u64,
    jited_function_lens: u64,
    btf_id: u32,
    function_info_rec_size: u32,
    function_info: u64,
    function_info_count: u32,
    line_info_count: u32,
    line_info: u64,
    jited_line_info: u64,
    jited_line_info_count: u32,
    line_info_rec_size: u32,
    jited_line_info_rec_size: u32,
    tag_count: u32,
    tags: u64,
    run_time_ns: u64,
    run_count: u64,
    recursion_misses: u64,
}

/// What the kernel knows of a loaded program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProgramInfo {
    /// The number that tools such as bpftool show it under.
    pub id: u32,
    /// Size of its machine code in bytes; 0 where it is interpreted.
    pub machine_code_bytes: u32,
    /// Time spent in it while [`RunTimeStatistics`](super::RunTimeStatistics) were on.
    pub run_time_ns: u64,
    /// How often it ran meanwhile.
    pub runs: u64,
    /// How often it was due and did not run, because it was running on that CPU already.
    pub missed: u64,
}

/// One call of bpf(2).
///
/// # Safety
/// Every pointer in `attr` has to be valid for what `command` does with it.
unsafe fn bpf<T>(command: i32, attr: &mut T) -> io::Result<i32> {
    // SAFETY: attr is a live object of the size given; its pointers are the caller's duty.
    let result = unsafe {
        libc::syscall(libc::SYS_bpf, command, std::ptr::from_mut(attr), size_of::<T>() as u32)
    };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result as i32) }
}

/// The same for commands that open something.
///
/// # Safety
/// As for [`bpf`]; `command` must answer with a new descriptor.
unsafe fn open<T>(command: i32, attr: &mut T) -> io::Result<OwnedFd> {
    // SAFETY: passed on.
    let fd = unsafe { bpf(command, attr) }?;
    // SAFETY: a new descriptor (close-on-exec), which nobody else has.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// The first 15 bytes of `name`, with a zero behind.
fn object_name(name: &str) -> [u8; 16] {
    let mut field = [0; 16];
    for (to, from) in field.iter_mut().take(15).zip(name.bytes()) {
        *to = from;
    }
    field
}

pub(super) fn create_array(name: &str, value_bytes: u32, entries: u32) -> io::Result<OwnedFd> {
    let mut attr = MapCreate {
        map_type: MAP_TYPE_ARRAY,
        key_size: 4,
        value_size: value_bytes,
        max_entries: entries,
        map_flags: MMAPABLE,
        map_name: object_name(name),
        ..MapCreate::default()
    };
    // SAFETY: no pointers in it.
    unsafe { open(command::MAP_CREATE, &mut attr) }
}

/// A hash table of 32-bit keys and values, its memory taken at once.
pub(super) fn create_hash(name: &str, entries: u32) -> io::Result<OwnedFd> {
    let mut attr = MapCreate {
        map_type: MAP_TYPE_HASH,
        key_size: 4,
        value_size: 4,
        max_entries: entries,
        map_name: object_name(name),
        ..MapCreate::default()
    };
    // SAFETY: no pointers in it.
    unsafe { open(command::MAP_CREATE, &mut attr) }
}

/// A ring of `bytes`, a power of two and a multiple of the page size.
pub(super) fn create_ring(name: &str, bytes: u32) -> io::Result<OwnedFd> {
    let mut attr = MapCreate {
        map_type: MAP_TYPE_RING,
        max_entries: bytes,
        map_name: object_name(name),
        ..MapCreate::default()
    };
    // SAFETY: no pointers in it.
    unsafe { open(command::MAP_CREATE, &mut attr) }
}

fn entry(map: &OwnedFd, key: &u32, value: Option<&mut u32>) -> MapEntry {
    MapEntry {
        map_fd: map.as_raw_fd() as u32,
        key: std::ptr::from_ref(key) as u64,
        value: value.map_or(0, |value| std::ptr::from_mut(value) as u64),
        ..MapEntry::default()
    }
}

pub(super) fn update(map: &OwnedFd, key: u32, mut value: u32) -> io::Result<()> {
    let mut attr = entry(map, &key, Some(&mut value));
    // SAFETY: key and value outlive the call; the map's have their sizes.
    unsafe { bpf(command::MAP_UPDATE, &mut attr) }.map(|_| ())
}

pub(super) fn lookup(map: &OwnedFd, key: u32) -> Option<u32> {
    let mut value = 0;
    let mut attr = entry(map, &key, Some(&mut value));
    // SAFETY: as above.
    unsafe { bpf(command::MAP_LOOKUP, &mut attr) }.ok().map(|_| value)
}

pub(super) fn delete(map: &OwnedFd, key: u32) {
    let mut attr = entry(map, &key, None);
    // SAFETY: the key outlives the call. A key that is not there may stay away.
    let _absent = unsafe { bpf(command::MAP_DELETE, &mut attr) };
}

/// Load a program for the tracepoint whose type has the number `target`; the verifier writes its
/// reasoning into `log`, where one is given.
pub(super) fn load_tracing(
    name: &str,
    target: u32,
    slots: &[Slot],
    log: Option<&mut [u8]>,
) -> io::Result<OwnedFd> {
    let (log_level, log_buffer, log_size) =
        log.map_or((0, 0, 0), |log| (1, log.as_mut_ptr() as u64, log.len() as u32));
    let mut attr = ProgLoad {
        prog_type: PROG_TYPE_TRACING,
        insn_count: slots.len() as u32,
        insns: slots.as_ptr() as u64,
        licence: LICENCE.as_ptr() as u64,
        log_level,
        log_size,
        log_buffer,
        prog_name: object_name(name),
        expected_attach_type: TRACE_RAW_TP,
        attach_btf_id: target,
        ..ProgLoad::default()
    };
    // SAFETY: the instructions, the licence and the log outlive the call, with the sizes given.
    unsafe { open(command::PROG_LOAD, &mut attr) }
}

pub(super) fn attach_tracing(program: &OwnedFd) -> io::Result<OwnedFd> {
    let mut attr =
        RawTracepointOpen { prog_fd: program.as_raw_fd() as u32, ..RawTracepointOpen::default() };
    // SAFETY: no pointers in it but the null one.
    unsafe { open(command::RAW_TRACEPOINT_OPEN, &mut attr) }
}

/// Hand the kernel type information of our own.
pub(super) fn load_btf(blob: &[u8]) -> io::Result<OwnedFd> {
    let mut attr =
        BtfLoad { btf: blob.as_ptr() as u64, btf_size: blob.len() as u32, ..BtfLoad::default() };
    // SAFETY: the blob outlives the call and has the size given.
    unsafe { open(command::BTF_LOAD, &mut attr) }
}

/// A table of functions for the kernel: one value, of the kernel's type with the number `type_id`.
/// `btf` has to be some type information of ours, of which nothing is used.
pub(super) fn create_struct_ops(
    name: &str,
    value: &[u8],
    type_id: u32,
    btf: &OwnedFd,
) -> io::Result<OwnedFd> {
    let mut attr = MapCreate {
        map_type: MAP_TYPE_STRUCT_OPS,
        key_size: 4,
        value_size: value.len() as u32,
        max_entries: 1,
        map_flags: BY_LINK,
        map_name: object_name(name),
        btf_fd: btf.as_raw_fd() as u32,
        btf_vmlinux_value_type_id: type_id,
        ..MapCreate::default()
    };
    // SAFETY: no pointers in it.
    let map = unsafe { open(command::MAP_CREATE, &mut attr) }?;
    let key = 0_u32;
    let mut attr = MapEntry { value: value.as_ptr() as u64, ..entry(&map, &key, None) };
    // SAFETY: key and value outlive the call, and the map's values have the value's size.
    unsafe { bpf(command::MAP_UPDATE, &mut attr) }?;
    Ok(map)
}

/// Register such a table; closing the descriptor takes it back.
pub(super) fn register_struct_ops(map: &OwnedFd) -> io::Result<OwnedFd> {
    let mut attr = LinkCreate {
        map_fd: map.as_raw_fd() as u32,
        attach_type: STRUCT_OPS,
        ..LinkCreate::default()
    };
    // SAFETY: no pointers in it.
    unsafe { open(command::LINK_CREATE, &mut attr) }
}

pub(super) fn program_info(program: &OwnedFd) -> io::Result<ProgramInfo> {
    let mut info = RawProgramInfo::default();
    let mut attr = InfoByFd {
        fd: program.as_raw_fd() as u32,
        info_len: size_of::<RawProgramInfo>() as u32,
        info: std::ptr::from_mut(&mut info) as u64,
    };
    // SAFETY: info outlives the call and has the size given.
    unsafe { bpf(command::OBJ_GET_INFO_BY_FD, &mut attr) }?;
    Ok(ProgramInfo {
        id: info.id,
        machine_code_bytes: info.jited_len,
        run_time_ns: info.run_time_ns,
        runs: info.run_count,
        missed: info.recursion_misses,
    })
}

pub(super) fn enable_run_time_statistics() -> io::Result<OwnedFd> {
    let mut kind = STATS_RUN_TIME;
    // SAFETY: no pointers in it.
    unsafe { open(command::ENABLE_STATS, &mut kind) }
}

#[cfg(test)]
mod tests {
    use std::mem::offset_of;

    use super::*;

    #[test]
    fn fields_lie_where_the_kernels_header_puts_them() {
        assert_eq!(offset_of!(MapCreate, map_name), 28);
        assert_eq!(offset_of!(MapCreate, btf_fd), 48);
        assert_eq!(offset_of!(MapCreate, btf_vmlinux_value_type_id), 60);
        assert_eq!(offset_of!(BtfLoad, btf_size), 16);
        assert_eq!(offset_of!(LinkCreate, attach_type), 8);
        assert_eq!(offset_of!(ProgLoad, prog_name), 48);
        assert_eq!(offset_of!(ProgLoad, expected_attach_type), 68);
        assert_eq!(offset_of!(ProgLoad, attach_btf_id), 108);
        assert_eq!(offset_of!(RawProgramInfo, name), 64);
        assert_eq!(offset_of!(RawProgramInfo, btf_id), 128);
        assert_eq!(offset_of!(RawProgramInfo, run_time_ns), 192);
        assert_eq!(size_of::<RawProgramInfo>(), 216);
    }

    #[test]
    fn a_long_name_is_cut_and_ends_with_a_zero() {
        assert_eq!(&object_name("a_name_of_more_than_fifteen"), b"a_name_of_more_\0");
    }
}
