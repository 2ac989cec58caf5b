// SPDX-License-Identifier: MIT OR Apache-2.0
//! Loads a scheduler of the class `sched_ext` for as long as a value lives.
//!
//! Linux 6.12 and later, built with `CONFIG_SCHED_CLASS_EXT=y`, schedule ordinary threads by a table of BPF
//! functions. Ordinary threads are `SCHED_OTHER` and its relatives; real-time and deadline threads are not affected.
//! The table of this module, [`NAME`], has one function, which wakes an idle CPU near the last used CPU. All other
//! behaviour is the default of the class: one queue for the CPUs of a NUMA node, in the order of arrival. The result
//! is a FIFO scheduler with a time slice. With it every schedule-sensitive measurement can be repeated under a class
//! other than the default.
//!
//! A table without that function would not be a fair scheduler. The class would then put a waking thread into its
//! CPU's own queue, which is served before the common queue. Two threads that wake each other would keep a kernel
//! thread of their CPU waiting without limit (38 s in an emulated guest).
//!
//! The scheduler is loaded for the whole machine. The kernel unloads the scheduler when the value is dropped, when
//! the process ends in any way, and on its own if a thread has waited for 30 s or a CPU goes on- or offline. Check
//! [`SchedulerAttachment::is_in_charge`] after the measurement.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::path::Path;

use aya_obj::btf::{BtfKind, BtfType, Int, IntEncoding};
use aya_obj::generated::{BPF_CALL, BPF_JMP, BPF_PSEUDO_KFUNC_CALL, bpf_insn};

use super::facts::Facts;
use super::object::rejection;
use super::{BpfError, Btf, kernel_types, syscall};
use corehop_system::proc;

/// The name of the scheduler that [`load`] loads, as the kernel shows it.
pub const NAME: &str = "corehop_min";

/// The kernel's folder for the class `sched_ext`.
const SCHED_EXT: &str = "/sys/kernel/sched_ext";
/// The kernel's type of a scheduler table: kernel-internal data, and `struct sched_ext_ops`.
const TABLE: &str = "bpf_struct_ops_sched_ext_ops";
/// The structure whose members are the functions of a scheduler.
const FUNCTIONS: &str = "sched_ext_ops";
/// The kernel's function that [`SELECT_CPU`] calls.
const IDLE_CPU_NEAR: &str = "scx_bpf_select_cpu_dfl";

/// The scheduler's function, and questions about its kernel type: `bpf/sched_ext.bpf.c`.
const OBJECT: &[u8] = aya::include_bytes_aligned!("../../bpf/sched_ext.bpf.o");

/// The name of the function in the object and in the kernel's structure, where it is the first member.
const SELECT_CPU: &str = "select_cpu";
const SELECT_CPU_MEMBER: u32 = 0;
/// The placeholder in the object file for the number of the kernel's function.
const TO_BE_REPLACED: i32 = i32::MAX;

/// The reason why a scheduler cannot be loaded.
#[derive(Debug, thiserror::Error)]
pub enum SchedExtError {
    /// The kernel was built without the class `sched_ext`, or is too old.
    #[error(
        "this kernel ({release}) has no sched_ext: boot a kernel of Linux 6.12 or later built with \
         CONFIG_SCHED_CLASS_EXT=y (`grep SCHED_CLASS_EXT /boot/config-$(uname -r)` says whether \
         one is; Debian's are from 7.0 on)"
    )]
    NotThere {
        /// The running kernel's release.
        release: String,
    },
    /// Another `sched_ext` scheduler is loaded, and the kernel accepts only one at a time.
    #[error(
        "the sched_ext scheduler `{name}` is loaded already, and a kernel takes one at a time: \
         stop the program that has loaded it, or end it with `echo S >/proc/sysrq-trigger` as root"
    )]
    Taken {
        /// The name of the other scheduler.
        name: String,
    },
    /// The kernel's scheduler table differs from the layout that corehop knows.
    #[error(
        "this kernel has an unknown version of sched_ext ({0}): a newer corehop may support this version"
    )]
    Unknown(String),
    /// bpf(2) failed.
    #[error(transparent)]
    Bpf(#[from] BpfError),
}

/// Returns the state of the class `sched_ext` in the kernel's words (`enabled`, `disabled`, or a transition); `None` if
/// the kernel has no such class.
pub fn state() -> Option<String> {
    word(Path::new(SCHED_EXT), "state")
}

/// Returns the name of the loaded scheduler, whichever process loaded it.
pub fn loaded_name() -> Option<String> {
    word(Path::new(SCHED_EXT), "root/ops")
}

fn word(folder: &Path, file: &str) -> Option<String> {
    let text = proc::text(folder.join(file)).ok()?;
    Some(text.trim().to_owned()).filter(|word| !word.is_empty())
}

/// The loaded scheduler, which schedules all ordinary threads of the machine. Dropping the value returns the threads
/// to the default scheduler.
#[derive(Debug)]
pub struct SchedulerAttachment {
    // Closed first: that ends it. The table may go then.
    _link: OwnedFd,
    _table: OwnedFd,
}

impl SchedulerAttachment {
    /// Returns whether the scheduler is still loaded, because the kernel may have unloaded it.
    pub fn is_in_charge(&self) -> bool {
        state().as_deref() == Some("enabled") && loaded_name().as_deref() == Some(NAME)
    }
}

/// Loads the scheduler [`NAME`]. The caller needs root, or `CAP_BPF` with `CAP_PERFMON` and `CAP_SYS_ADMIN`.
///
/// # Errors
/// Fails if the kernel has no class `sched_ext`, another scheduler of the class is loaded, or the caller lacks a
/// privilege.
pub fn load() -> Result<SchedulerAttachment, SchedExtError> {
    if state().is_none() {
        let release = word(Path::new("/proc/sys/kernel"), "osrelease");
        return Err(SchedExtError::NotThere { release: release.unwrap_or_default() });
    }
    if let Some(name) = loaded_name() {
        return Err(SchedExtError::Taken { name });
    }
    let parts = SchedulerTypes::of(kernel_types()?).map_err(SchedExtError::Unknown)?;
    let step = |what: &str, source| BpfError::from_call(format!("{what} of `{NAME}`"), source);
    let types = syscall::load_btf(&one_type()).map_err(|source| step("the types", source))?;
    let member = SELECT_CPU_MEMBER;
    let select_cpu =
        syscall::load_struct_ops_program(SELECT_CPU, &parts.select_cpu, parts.functions_id, member)
            .map_err(|(source, log)| rejection(SELECT_CPU, source, &log))?;
    // The table keeps the function.
    let value = parts.value(select_cpu.as_raw_fd());
    let table = syscall::create_struct_ops(NAME, &value, parts.table_id, &types)
        .map_err(|source| step("the table", source))?;
    let link = syscall::register_struct_ops(&table).map_err(refusal)?;
    Ok(SchedulerAttachment { _link: link, _table: table })
}

/// The error for a load that the kernel refused; another process may have loaded a scheduler meanwhile.
fn refusal(source: io::Error) -> SchedExtError {
    if source.raw_os_error() == Some(libc::EBUSY) {
        return SchedExtError::Taken { name: loaded_name().unwrap_or_else(|| "?".to_owned()) };
    }
    BpfError::from_call(format!("registering the scheduler `{NAME}`"), source).into()
}

/// The scheduler in the form that the running kernel accepts.
#[derive(Debug)]
struct SchedulerTypes {
    /// The numbers of the kernel's types for the scheduler table and for the structure of its functions.
    table_id: u32,
    functions_id: u32,
    /// The function, with its call of the kernel's function by number.
    select_cpu: Vec<bpf_insn>,
    /// A table without functions: zero except for its name.
    unnamed: Vec<u8>,
    /// The offset of the function in the table.
    select_cpu_offset: usize,
}

impl SchedulerTypes {
    /// Builds the scheduler for a kernel with these types; if a type differs from the known layout, the error names the
    /// difference.
    fn of(types: &Btf) -> Result<Self, String> {
        let number = |name: &str, kind| {
            types.id_by_type_name_kind(name, kind).map_err(|error| error.to_string())
        };
        let (table_id, functions_id) =
            (number(TABLE, BtfKind::Struct)?, number(FUNCTIONS, BtfKind::Struct)?);
        let facts = Facts::asked_in(OBJECT, types).map_err(|error| error.to_string())?;
        let answer = |question: &str| {
            let known = facts.answer(question).map(|it| it as usize);
            known.ok_or_else(|| format!("`{TABLE}` has no answer to `{question}`"))
        };
        let select_cpu_offset = answer("select_cpu_offset")?;
        if select_cpu_offset != answer("functions_offset")? {
            return Err(format!("`{SELECT_CPU}` is not the first member of `{FUNCTIONS}`"));
        }
        let mut unnamed = vec![0; answer("table_size")?];
        // The last byte stays zero, as the end of the text.
        let room = answer("name_size")?.saturating_sub(1);
        let field = unnamed.iter_mut().skip(answer("name_offset")?).take(room);
        for (to, from) in field.zip(NAME.bytes()) {
            *to = from;
        }
        let idle_cpu_near = number(IDLE_CPU_NEAR, BtfKind::Func)?;
        let select_cpu = facts.instructions(SELECT_CPU).unwrap_or_default();
        let select_cpu = select_cpu.iter().map(|it| calling(*it, idle_cpu_near)).collect();
        Ok(Self { table_id, functions_id, select_cpu, unnamed, select_cpu_offset })
    }

    /// The bytes of the scheduler table with the program `select_cpu`.
    fn value(&self, select_cpu: RawFd) -> Vec<u8> {
        let mut value = self.unnamed.clone();
        let descriptor = u64::from(select_cpu.cast_unsigned()).to_ne_bytes();
        let place = self.select_cpu_offset..self.select_cpu_offset + descriptor.len();
        if let Some(field) = value.get_mut(place) {
            field.copy_from_slice(&descriptor);
        }
        value
    }
}

/// Returns the instruction; the placeholder call becomes a call of the kernel's function number `function`.
fn calling(mut instruction: bpf_insn, function: u32) -> bpf_insn {
    if u32::from(instruction.code) == BPF_JMP | BPF_CALL && instruction.imm == TO_BE_REPLACED {
        instruction.set_src_reg(BPF_PSEUDO_KFUNC_CALL as u8);
        instruction.imm = function.cast_signed();
    }
    instruction
}

/// The smallest type information that the kernel accepts: one integer. The kernel requires type information with a
/// table, although the table uses only the kernel's own types.
fn one_type() -> Vec<u8> {
    let mut types = Btf::new();
    let name = types.add_string("int");
    types.add_type(BtfType::Int(Int::new(name, 4, IntEncoding::None, 0)));
    types.to_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bpf::parse_types;

    /// Builds type information from `types`, each a record of words, and from strings.
    fn types_of(types: &[u32], strings: &[u8]) -> Btf {
        let bytes = size_of_val(types) as u32;
        let header = [24, 0, bytes, bytes, strings.len() as u32];
        let mut blob = 0xeb9f_u16.to_ne_bytes().to_vec();
        blob.extend([1, 0]);
        blob.extend(header.iter().chain(types).flat_map(|word| word.to_ne_bytes()));
        blob.extend(strings);
        parse_types(&blob).unwrap()
    }

    /// A kernel whose scheduler table has 48 bytes: 16 bytes of kernel-internal data, 8 bytes of the function `first`,
    /// and a name of 24 bytes. The function that finds an idle CPU has the type number 8.
    fn kernel_with_sched_ext(first: &str) -> Btf {
        let words = ["char", "select_cpu", "dequeue", "name", FUNCTIONS, "common", "data", TABLE];
        let text = format!("\0{}\0{IDLE_CPU_NEAR}\0", words.join("\0"));
        let at = |word: &str| text.find(&format!("\0{word}\0")).unwrap() as u32 + 1;
        let kind = |number: u32| number << 24;
        let (integer, pointer, array, structure) = (kind(1), kind(2), kind(3), kind(4));
        let char = [at("char"), integer, 1, 8];
        let function_pointer = [0, pointer, 0];
        let name = [0, array, 0, 1, 1, 24];
        let common = [0, array, 0, 2, 1, 2];
        let ops = [at(FUNCTIONS), structure | 2, 32, at(first), 2, 0, at("name"), 3, 64];
        let table = [at(TABLE), structure | 2, 48, at("common"), 4, 0, at("data"), 5, 128];
        let (prototype, function) = ([0, kind(13), 0], [at(IDLE_CPU_NEAR), kind(12), 7]);
        let types =
            [&char[..], &function_pointer, &name, &common, &ops, &table, &prototype, &function];
        types_of(&types.concat(), text.as_bytes())
    }

    #[test]
    fn the_table_is_all_zero_but_for_its_name_and_the_function() {
        let parts = SchedulerTypes::of(&kernel_with_sched_ext(SELECT_CPU)).unwrap();
        assert_eq!((parts.table_id, parts.functions_id), (6, 5));
        let value = parts.value(0x0102);
        // Behind 16 bytes of the kernel's own.
        assert_eq!(value[16..24], 0x0102_u64.to_ne_bytes());
        assert_eq!(&value[24..], b"corehop_min\0\0\0\0\0\0\0\0\0\0\0\0\0");
        assert!(value[..16].iter().all(|&byte| byte == 0));
    }

    #[test]
    fn the_function_calls_the_kernels_by_its_number_in_the_running_kernel() {
        let parts = SchedulerTypes::of(&kernel_with_sched_ext(SELECT_CPU)).unwrap();
        let is_call = |it: &&bpf_insn| u32::from(it.code) == BPF_JMP | BPF_CALL;
        let calls: Vec<_> = parts.select_cpu.iter().filter(is_call).collect();
        let [call] = calls[..] else { panic!("{} calls", calls.len()) };
        assert_eq!((u32::from(call.src_reg()), call.imm), (BPF_PSEUDO_KFUNC_CALL, 8));
    }

    #[test]
    fn a_kernel_that_is_not_as_it_is_known_says_in_what() {
        let refused = |types: &Btf| {
            SchedExtError::Unknown(SchedulerTypes::of(types).unwrap_err()).to_string()
        };
        let error = refused(&types_of(&[1, 1 << 24, 4, 32], b"\0int\0"));
        assert!(error.contains("`bpf_struct_ops_sched_ext_ops`"), "{error}");
        let error = refused(&kernel_with_sched_ext("dequeue"));
        assert!(error.contains("select_cpu"), "{error}");
    }

    #[test]
    fn the_one_type_is_read_as_one_type() {
        let types = parse_types(&one_type()).unwrap();
        assert_eq!(types.id_by_type_name_kind("int", BtfKind::Int).unwrap(), 1, "after void");
        assert_eq!(one_type().len(), 24 + 16 + 5);
    }

    #[test]
    fn state_and_name_are_words_of_files_that_may_be_missing_or_empty() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(word(folder.path(), "state"), None);
        std::fs::create_dir(folder.path().join("root")).unwrap();
        std::fs::write(folder.path().join("state"), "enabled\n").unwrap();
        std::fs::write(folder.path().join("root/ops"), "\n").unwrap();
        assert_eq!(word(folder.path(), "state").as_deref(), Some("enabled"));
        assert_eq!(word(folder.path(), "root/ops"), None);
    }

    #[test]
    fn the_second_of_two_is_told_that_there_is_one() {
        let busy = refusal(io::Error::from_raw_os_error(libc::EBUSY)).to_string();
        assert!(busy.contains("one at a time") && busy.contains("stop"), "{busy}");
        let other = refusal(io::Error::from_raw_os_error(libc::EINVAL)).to_string();
        assert!(other.contains("registering") && other.contains(NAME), "{other}");
    }
}
