// SPDX-License-Identifier: MIT OR Apache-2.0
//! The commands of bpf(2) that aya lacks, each behind a safe function.
//!
//! <https://man7.org/linux/man-pages/man2/bpf.2.html>; the structures are the kernel's own
//! (include/uapi/linux/bpf.h), as defined in aya.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use aya_obj::generated::{
    BPF_F_LINK, bpf_attach_type, bpf_attr, bpf_cmd, bpf_insn, bpf_map_type, bpf_prog_info,
    bpf_prog_type,
};

/// The kernel's information about a loaded program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProgramInfo {
    /// The program ID that tools such as bpftool show.
    pub id: u32,
    /// The size of the program's machine code in bytes; 0 if the program is interpreted.
    pub machine_code_bytes: u32,
    /// The run time of the program while [`RunTimeStatistics`](super::RunTimeStatistics) were on.
    pub run_time_ns: u64,
    /// The number of runs while the statistics were on.
    pub runs: u64,
    /// The number of times the program was skipped because it was already running on that CPU.
    pub missed: u64,
}

/// The arguments of a command, all zero.
fn arguments() -> bpf_attr {
    // SAFETY: a union of plain numbers, for which all-zero is valid.
    unsafe { std::mem::zeroed() }
}

/// Calls bpf(2) once.
///
/// # Safety
/// Every pointer in `attr` must be valid for the use that `command` makes of it.
unsafe fn bpf(command: bpf_cmd, attr: &mut bpf_attr) -> io::Result<i32> {
    let (command, attr) = (command as i32, std::ptr::from_mut(attr));
    // SAFETY: attr is a live object of the size given; its pointers are the caller's duty.
    let result = unsafe { libc::syscall(libc::SYS_bpf, command, attr, size_of::<bpf_attr>()) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result as i32) }
}

/// Calls bpf(2) for a command that opens a file descriptor.
///
/// # Safety
/// The caller must meet the conditions of [`bpf`], and `command` must return a new descriptor.
unsafe fn open(command: bpf_cmd, attr: &mut bpf_attr) -> io::Result<OwnedFd> {
    // SAFETY: passed on.
    let fd = unsafe { bpf(command, attr) }?;
    // SAFETY: a new descriptor (close-on-exec) without another owner.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Loads type information into the kernel.
pub(super) fn load_btf(blob: &[u8]) -> io::Result<OwnedFd> {
    let mut attr = arguments();
    attr.__bindgen_anon_7.btf = blob.as_ptr() as u64;
    attr.__bindgen_anon_7.btf_size = blob.len() as u32;
    // SAFETY: the blob outlives the call and has the size given.
    unsafe { open(bpf_cmd::BPF_BTF_LOAD, &mut attr) }
}

/// The size of the buffer for the verifier's messages about a program, in bytes.
const LOG_BYTES: usize = 1 << 16;

/// Loads a program for a table of functions: member `member` of the kernel's structure with the type ID `structure`.
/// The error includes the verifier's messages.
pub(super) fn load_struct_ops_program(
    name: &str,
    instructions: &[bpf_insn],
    structure: u32,
    member: u32,
) -> Result<OwnedFd, (io::Error, String)> {
    let mut attr = arguments();
    let mut log = vec![0_u8; LOG_BYTES];
    // SAFETY: all members of the union are plain numbers, valid whatever is in them.
    let program = unsafe { &mut attr.__bindgen_anon_3 };
    program.prog_type = bpf_prog_type::BPF_PROG_TYPE_STRUCT_OPS as u32;
    program.insns = instructions.as_ptr() as u64;
    program.insn_cnt = instructions.len() as u32;
    program.license = c"Dual MIT/GPL".as_ptr() as u64;
    (program.attach_btf_id, program.expected_attach_type) = (structure, member);
    (program.log_level, program.log_size) = (1, log.len() as u32);
    program.log_buf = log.as_mut_ptr() as u64;
    write_name(&mut program.prog_name, name);
    // SAFETY: instructions, licence and log outlive the call and have the sizes given.
    unsafe { open(bpf_cmd::BPF_PROG_LOAD, &mut attr) }.map_err(|error| {
        let said = log.split(|&byte| byte == 0).next().unwrap_or_default();
        (error, String::from_utf8_lossy(said).into_owned())
    })
}

/// Writes a name; the last byte stays zero to end the text.
fn write_name(field: &mut [std::ffi::c_char; 16], name: &str) {
    for (to, from) in field.iter_mut().take(15).zip(name.bytes()) {
        *to = from as std::ffi::c_char;
    }
}

/// Creates a table of functions in the kernel: one value of the kernel type with the ID `type_id`. `btf` can be any
/// valid type information, because the kernel uses none of its types.
pub(super) fn create_struct_ops(
    name: &str,
    value: &[u8],
    type_id: u32,
    btf: &OwnedFd,
) -> io::Result<OwnedFd> {
    let map = create_table(name, value.len() as u32, type_id, btf)?;
    let key = 0_u32;
    let mut attr = arguments();
    attr.__bindgen_anon_2.map_fd = map.as_raw_fd() as u32;
    attr.__bindgen_anon_2.key = std::ptr::from_ref(&key) as u64;
    attr.__bindgen_anon_2.__bindgen_anon_1.value = value.as_ptr() as u64;
    // SAFETY: key and value outlive the call, and the map's values have the value's size.
    unsafe { bpf(bpf_cmd::BPF_MAP_UPDATE_ELEM, &mut attr) }?;
    Ok(map)
}

fn create_table(name: &str, bytes: u32, type_id: u32, btf: &OwnedFd) -> io::Result<OwnedFd> {
    let mut attr = arguments();
    // SAFETY: all members of the union are plain numbers, valid whatever is in them.
    let map = unsafe { &mut attr.__bindgen_anon_1 };
    map.map_type = bpf_map_type::BPF_MAP_TYPE_STRUCT_OPS as u32;
    (map.key_size, map.value_size, map.max_entries) = (4, bytes, 1);
    // It is registered by a link, so that it goes with the link's descriptor.
    map.map_flags = BPF_F_LINK;
    map.btf_fd = btf.as_raw_fd() as u32;
    map.btf_vmlinux_value_type_id = type_id;
    write_name(&mut map.map_name, name);
    // SAFETY: no pointers in it.
    unsafe { open(bpf_cmd::BPF_MAP_CREATE, &mut attr) }
}

/// Registers a table of functions; closing the descriptor unregisters it.
pub(super) fn register_struct_ops(map: &OwnedFd) -> io::Result<OwnedFd> {
    let mut attr = arguments();
    attr.link_create.__bindgen_anon_1.map_fd = map.as_raw_fd() as u32;
    attr.link_create.attach_type = bpf_attach_type::BPF_STRUCT_OPS as u32;
    // SAFETY: no pointers in it.
    unsafe { open(bpf_cmd::BPF_LINK_CREATE, &mut attr) }
}

pub(super) fn program_info(program: BorrowedFd<'_>) -> io::Result<ProgramInfo> {
    // SAFETY: plain numbers, for which all-zero is valid. Kernels that know less fill less.
    let mut info: bpf_prog_info = unsafe { std::mem::zeroed() };
    let mut attr = arguments();
    attr.info.bpf_fd = program.as_raw_fd() as u32;
    attr.info.info_len = size_of::<bpf_prog_info>() as u32;
    attr.info.info = std::ptr::from_mut(&mut info) as u64;
    // SAFETY: info outlives the call and has the size given.
    unsafe { bpf(bpf_cmd::BPF_OBJ_GET_INFO_BY_FD, &mut attr) }?;
    Ok(ProgramInfo {
        id: info.id,
        machine_code_bytes: info.jited_prog_len,
        run_time_ns: info.run_time_ns,
        runs: info.run_cnt,
        missed: info.recursion_misses,
    })
}
