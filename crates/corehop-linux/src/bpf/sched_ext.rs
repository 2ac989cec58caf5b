// SPDX-License-Identifier: MIT OR Apache-2.0
//! A scheduler of the class `sched_ext`, loaded while a value lives.
//!
//! Linux 6.12 and later, where built with `CONFIG_SCHED_CLASS_EXT=y`, take the scheduling of
//! ordinary threads (`SCHED_OTHER` and its kin; real-time and deadline threads stay as they are)
//! from a table of BPF functions. The table loaded here, [`NAME`], has no function at all: the
//! class then does what it does by itself, one queue for all CPUs in the order of arrival, an idle
//! CPU near the one used last. That is a scheduler, global FIFO with a time slice, and with it
//! every schedule-sensitive measurement can be repeated under a class other than the stock one.
//!
//! It is loaded for the whole machine. The kernel takes it back when the value is dropped, when
//! its process dies in whatever way, and by itself where a thread has waited for 30 s or a CPU
//! goes on- or offline: ask [`Loaded::is_in_charge`] at the end of what was to run under it.

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use aya_obj::btf::{BtfKind, BtfType, Int, IntEncoding};

use super::facts::Facts;
use super::{BpfError, Btf, kernel_types, syscall};

/// The name of the scheduler that [`load`] loads, as the kernel shows it.
pub const NAME: &str = "corehop_min";

/// The kernel's folder about the class.
const SCHED_EXT: &str = "/sys/kernel/sched_ext";
/// The kernel's type of a table: some data of its own, and `struct sched_ext_ops`.
const TABLE: &str = "bpf_struct_ops_sched_ext_ops";

/// Questions about that type, `bpf/sched_ext.bpf.c`.
const OBJECT: &[u8] = aya::include_bytes_aligned!("../../bpf/sched_ext.bpf.o");

/// Why a scheduler is not loaded.
#[derive(Debug, thiserror::Error)]
pub enum SchedExtError {
    /// The kernel was built without the class, or is older than it.
    #[error(
        "this kernel ({release}) has no sched_ext: boot one of Linux 6.12 or later built with \
         CONFIG_SCHED_CLASS_EXT=y (`grep SCHED_CLASS_EXT /boot/config-$(uname -r)` says whether \
         one is; Debian's are from 7.0 on)"
    )]
    NotThere {
        /// The running kernel's release.
        release: String,
    },
    /// There can be one at a time.
    #[error(
        "the sched_ext scheduler `{name}` is loaded already, and a kernel takes one at a time: \
         stop the program that has loaded it, or end it with `echo S >/proc/sysrq-trigger` as root"
    )]
    Taken {
        /// Name of the other one.
        name: String,
    },
    /// The kernel's table is not as it is known here.
    #[error("unknown version of sched_ext in this kernel ({0}): a newer corehop may support it")]
    Unknown(String),
    /// bpf(2) refuses.
    #[error(transparent)]
    Bpf(#[from] BpfError),
}

/// The state of the class, in the kernel's word (`enabled`, `disabled`, or on the way to either); None if the
/// kernel has no such class.
pub fn state() -> Option<String> {
    word(Path::new(SCHED_EXT), "state")
}

/// Name of the scheduler that is loaded, by any process.
pub fn loaded_name() -> Option<String> {
    word(Path::new(SCHED_EXT), "root/ops")
}

fn word(folder: &Path, file: &str) -> Option<String> {
    let text = std::fs::read_to_string(folder.join(file)).ok()?;
    Some(text.trim().to_owned()).filter(|word| !word.is_empty())
}

/// The scheduler, in charge of all ordinary threads of the machine. Dropping it hands them back to
/// the stock one.
#[derive(Debug)]
pub struct Loaded {
    // Closed first: that ends it. The table may go then.
    _link: OwnedFd,
    _table: OwnedFd,
}

impl Loaded {
    /// Whether it still is; the kernel may have taken it back.
    pub fn is_in_charge(&self) -> bool {
        state().as_deref() == Some("enabled") && loaded_name().as_deref() == Some(NAME)
    }
}

/// Load the scheduler [`NAME`]. Needs root, or `CAP_BPF` with `CAP_PERFMON` and `CAP_SYS_ADMIN`.
///
/// # Errors
/// If the kernel has no such class, another scheduler of it is loaded, or the caller may not.
pub fn load() -> Result<Loaded, SchedExtError> {
    if state().is_none() {
        let release = word(Path::new("/proc/sys/kernel"), "osrelease");
        return Err(SchedExtError::NotThere { release: release.unwrap_or_default() });
    }
    if let Some(name) = loaded_name() {
        return Err(SchedExtError::Taken { name });
    }
    let (type_id, value) = table(kernel_types()?).map_err(SchedExtError::Unknown)?;
    let step = |what: &str, source| BpfError::from_call(format!("{what} of `{NAME}`"), source);
    let types = syscall::load_btf(&one_type()).map_err(|source| step("the types", source))?;
    let table = syscall::create_struct_ops(NAME, &value, type_id, &types)
        .map_err(|source| step("the table", source))?;
    let link = syscall::register_struct_ops(&table).map_err(refusal)?;
    Ok(Loaded { _link: link, _table: table })
}

/// Somebody else may have been faster.
fn refusal(source: io::Error) -> SchedExtError {
    if source.raw_os_error() == Some(libc::EBUSY) {
        return SchedExtError::Taken { name: loaded_name().unwrap_or_else(|| "?".to_owned()) };
    }
    BpfError::from_call(format!("registering the scheduler `{NAME}`"), source).into()
}

/// Number of the kernel's type of a table, and one without functions: zero but for its name.
fn table(types: &Btf) -> Result<(u32, Vec<u8>), String> {
    let type_id = types.id_by_type_name_kind(TABLE, BtfKind::Struct).map_err(|e| e.to_string())?;
    let facts = Facts::asked_in(OBJECT, types).map_err(|error| error.to_string())?;
    let answer = |question: &str| {
        facts.answer(question).ok_or_else(|| format!("`{TABLE}` has no `data.name`"))
    };
    let (size, offset, room) =
        (answer("table_size")?, answer("name_offset")?, answer("name_size")?);
    let mut value = vec![0; size as usize];
    let field = value.iter_mut().skip(offset as usize).take(room as usize);
    // The last byte stays zero, as the end of the text.
    for (to, from) in field.take(room.saturating_sub(1) as usize).zip(NAME.bytes()) {
        *to = from;
    }
    Ok((type_id, value))
}

/// The smallest type information that the kernel takes: one integer. A table has to come with
/// some, though its types are the kernel's.
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

    /// Type information made of `types`, each a record of words, and of strings.
    fn types_of(types: &[u32], strings: &[u8]) -> Btf {
        let bytes = size_of_val(types) as u32;
        let header = [24, 0, bytes, bytes, strings.len() as u32];
        let mut blob = 0xeb9f_u16.to_ne_bytes().to_vec();
        blob.extend([1, 0]);
        blob.extend(header.iter().chain(types).flat_map(|word| word.to_ne_bytes()));
        blob.extend(strings);
        parse_types(&blob).unwrap()
    }

    /// A table of 48 bytes: 16 of the kernel's own, 8 of one function, a name of 24.
    fn kernel_with_sched_ext() -> Btf {
        let text = b"\0char\0select_cpu\0name\0sched_ext_ops\0common\0data\0bpf_struct_ops_sched_ext_ops\0";
        let at = |word: &str| {
            let word = [b"\0", word.as_bytes(), b"\0"].concat();
            let found = text.windows(word.len()).position(|window| window == word);
            found.unwrap() as u32 + 1
        };
        let (integer, array, structure) = (1 << 24, 3 << 24, 4 << 24);
        let char = [at("char"), integer, 1, 8];
        let long = [0, integer, 8, 64];
        let name = [0, array, 0, 1, 2, 24];
        let common = [0, array, 0, 2, 2, 2];
        let ops =
            [at("sched_ext_ops"), structure | 2, 32, at("select_cpu"), 2, 0, at("name"), 3, 64];
        let table = [at(TABLE), structure | 2, 48, at("common"), 4, 0, at("data"), 5, 128];
        let types = [&char[..], &long, &name, &common, &ops, &table].concat();
        types_of(&types, text)
    }

    #[test]
    fn the_table_is_all_zero_but_for_its_name() {
        let (type_id, value) = table(&kernel_with_sched_ext()).unwrap();
        assert_eq!((type_id, value.len()), (6, 48));
        // Behind 16 bytes of the kernel's own and 8 of one function.
        assert_eq!(&value[24..], b"corehop_min\0\0\0\0\0\0\0\0\0\0\0\0\0");
        assert!(value[..24].iter().all(|&byte| byte == 0));
    }

    #[test]
    fn a_kernel_without_the_table_says_which_type_is_missing() {
        let types = types_of(&[1, 1 << 24, 4, 32], b"\0int\0");
        let error = SchedExtError::Unknown(table(&types).unwrap_err());
        assert!(error.to_string().contains("`bpf_struct_ops_sched_ext_ops`"), "{error}");
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
