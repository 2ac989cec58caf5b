// SPDX-License-Identifier: MIT OR Apache-2.0
//! Loads an object file with BPF programs and their maps into the kernel.
//!
//! To add a program, write it in a `bpf/*.bpf.c` file, run `make bpf`, and [`attach`](Object::attach) the program
//! where the object is loaded.

use std::error::Error;
use std::io;
use std::os::fd::AsFd;
use std::sync::{Mutex, PoisonError};

use aya::maps::{HashMap, Map, MapData, MapError, RingBuf};
use aya::programs::tp_btf::BtfTracePointLink;
use aya::programs::{BtfTracePoint, Program, ProgramError};
use aya::{Btf, BtfError, Ebpf, EbpfError, EbpfLoader, Pod};

use super::{ArrayMapping, BpfError, ProgramInfo, syscall};

/// The helper that the loader calls instead of accessing a field that the kernel lacks.
const NO_SUCH_FIELD: &str = "#195896080";

/// An object file with BPF programs and maps that is loaded into the kernel. Dropping the value detaches its programs
/// and removes its maps, except maps that were taken.
#[derive(Debug)]
pub struct Object {
    ebpf: Ebpf,
}

impl Object {
    /// Creates the maps of the object file `bytes`, without running a program. `entries` sets the numbers of entries
    /// of maps, and `constants` the values of `const volatile u32` variables.
    ///
    /// # Errors
    /// Fails if the caller lacks a privilege, or the kernel has too little memory.
    pub fn load(
        bytes: &[u8],
        types: &Btf,
        entries: &[(&str, u32)],
        constants: &[(&str, u32)],
    ) -> Result<Self, BpfError> {
        let mut loader = EbpfLoader::new();
        loader.btf(Some(types));
        for (map, entries) in entries {
            loader.map_max_entries(map, *entries);
        }
        for (name, value) in constants {
            loader.override_global(name, value, true);
        }
        Ok(Self { ebpf: loader.load(bytes).map_err(of_object)? })
    }

    /// Runs the program `program` at the tracepoint `tracepoint` from now on.
    ///
    /// # Errors
    /// Fails if the kernel lacks the tracepoint or a field, the verifier rejects the program, or the caller lacks a
    /// privilege.
    pub fn attach(&mut self, program: &str, tracepoint: &str, types: &Btf) -> Result<(), BpfError> {
        let found = self.loaded(program, tracepoint, types)?;
        found.attach().map_err(|error| of_program(program, tracepoint, error))?;
        Ok(())
    }

    /// Runs the program `program` at the tracepoint `tracepoint` until the returned attachment is dropped.
    ///
    /// # Errors
    /// Fails with the errors of [`attach`](Self::attach).
    pub fn attach_for_now(
        &mut self,
        program: &str,
        tracepoint: &str,
        types: &Btf,
    ) -> Result<Attachment, BpfError> {
        let found = self.loaded(program, tracepoint, types)?;
        let refused = |error| of_program(program, tracepoint, error);
        let link = found.attach().map_err(refused)?;
        Ok(Attachment { _link: found.take_link(link).map_err(refused)? })
    }

    /// A program that the kernel has accepted.
    fn loaded(
        &mut self,
        program: &str,
        tracepoint: &str,
        types: &Btf,
    ) -> Result<&mut BtfTracePoint, BpfError> {
        let found = self.ebpf.program_mut(program).ok_or_else(|| lacks(program))?;
        let found: &mut BtfTracePoint = found.try_into().map_err(|_| lacks(program))?;
        match found.load(tracepoint, types) {
            Ok(()) | Err(ProgramError::AlreadyLoaded) => Ok(found),
            Err(error) => Err(of_program(program, tracepoint, error)),
        }
    }

    /// Maps the memory of an array.
    ///
    /// # Errors
    /// Fails if the kernel has too little memory.
    pub fn show(&self, map: &str) -> Result<ArrayMapping, BpfError> {
        let Some(Map::Array(data)) = self.ebpf.map(map) else { return Err(lacks(map)) };
        let info = data.info().map_err(of_map)?;
        let bytes = info.value_size().next_multiple_of(8) as usize * info.max_entries() as usize;
        ArrayMapping::map(data.fd().as_fd(), bytes)
            .map_err(|source| BpfError::from_call(format!("mmap of the map `{map}`"), source))
    }

    /// Takes a hash map out of the object; each map can be taken once.
    ///
    /// # Errors
    /// Fails if there is no map of that name, or its keys or values have another size.
    pub fn take_table<K: Pod, V: Pod>(&mut self, map: &str) -> Result<BpfTable<K, V>, BpfError> {
        let found = self.ebpf.take_map(map).ok_or_else(|| lacks(map))?;
        Ok(BpfTable { map: Mutex::new(HashMap::try_from(found).map_err(of_map)?) })
    }

    /// Takes a ring out of the object; each ring can be taken once.
    ///
    /// # Errors
    /// Fails if there is no ring of that name, or the kernel has too little memory to map it.
    pub fn take_ring(&mut self, map: &str) -> Result<BpfRingBuffer, BpfError> {
        let found = self.ebpf.take_map(map).ok_or_else(|| lacks(map))?;
        Ok(BpfRingBuffer { ring: RingBuf::try_from(found).map_err(of_map)? })
    }

    /// Returns the kernel's information about an attached program.
    ///
    /// # Errors
    /// Fails with the kernel's error.
    pub fn info(&self, program: &str) -> io::Result<ProgramInfo> {
        let found = self.ebpf.program(program).map(Program::fd);
        let fd = found.ok_or_else(|| io::Error::other(lacks(program)))?;
        syscall::program_info(fd.map_err(io::Error::other)?.as_fd())
    }
}

/// A program that runs at its tracepoint until this value is dropped.
#[derive(Debug)]
pub struct Attachment {
    _link: BtfTracePointLink,
}

/// A hash map that BPF programs and this process read and change.
#[derive(Debug)]
pub struct BpfTable<K, V> {
    map: Mutex<HashMap<MapData, K, V>>,
}

impl<K: Pod, V: Pod> BpfTable<K, V> {
    /// Stores `value` under `key`, replacing an earlier value.
    ///
    /// # Errors
    /// Fails with `E2BIG` if the table is full.
    pub fn put(&self, key: K, value: V) -> io::Result<()> {
        self.locked().insert(key, value, 0).map_err(of_call)
    }

    /// Returns the value under `key`.
    pub fn get(&self, key: K) -> Option<V> {
        self.locked().get(&key, 0).ok()
    }

    /// Removes `key`, which need not exist.
    pub fn remove(&self, key: K) {
        let _absent = self.locked().remove(&key);
    }

    /// Returns all keys with their values, while the table may change.
    ///
    /// # Errors
    /// Fails with the kernel's error if the table can no longer be read.
    pub fn all(&self) -> io::Result<Vec<(K, V)>> {
        self.locked().iter().collect::<Result<_, _>>().map_err(of_call)
    }

    fn locked(&self) -> std::sync::MutexGuard<'_, HashMap<MapData, K, V>> {
        self.map.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A ring to which BPF programs append records and which this process empties.
pub struct BpfRingBuffer {
    ring: RingBuf<MapData>,
}

impl std::fmt::Debug for BpfRingBuffer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ring").finish_non_exhaustive()
    }
}

impl BpfRingBuffer {
    /// Passes on every complete record as words; returns the number of records.
    pub fn drain(&mut self, mut take: impl FnMut(&[u64])) -> usize {
        let (mut record, mut count) = (Vec::new(), 0);
        while let Some(item) = self.ring.next() {
            let (words, _) = item.as_chunks();
            record.clear();
            record.extend(words.iter().map(|word| u64::from_ne_bytes(*word)));
            take(&record);
            count += 1;
        }
        count
    }
}

/// The kernel's error inside a map error.
fn of_call(error: MapError) -> io::Error {
    match error {
        MapError::SyscallError(error) => error.io_error,
        other => io::Error::other(other),
    }
}

/// The error for an object file that lacks something that the source contains, because the file is older than its
/// source.
fn lacks(what: &str) -> BpfError {
    BpfError::Malformed { reason: format!("the object lacks `{what}`: run `make bpf`") }
}

/// Formats an error with its causes, in one line.
fn with_causes(error: &dyn Error) -> String {
    match error.source() {
        Some(cause) => format!("{error}: {}", with_causes(cause)),
        None => error.to_string(),
    }
}

/// Converts the error of an object that cannot be loaded.
fn of_object(error: EbpfError) -> BpfError {
    match error {
        EbpfError::MapError(error) => of_map(error),
        EbpfError::BtfError(BtfError::LoadError { io_error, .. }) => {
            BpfError::from_call("the types of BPF programs", io_error)
        }
        other => BpfError::Malformed { reason: with_causes(&other) },
    }
}

/// Converts the error of a map that cannot be created or mapped.
fn of_map(error: MapError) -> BpfError {
    match error {
        MapError::CreateError { name, io_error } => {
            BpfError::from_call(format!("a BPF map, `{name}`"), io_error)
        }
        MapError::SyscallError(error) => {
            BpfError::from_call(format!("{} of a BPF map", error.call), error.io_error)
        }
        other => BpfError::Malformed { reason: with_causes(&other) },
    }
}

/// Converts the error of a program that cannot be loaded or attached.
fn of_program(program: &str, tracepoint: &str, error: ProgramError) -> BpfError {
    match error {
        ProgramError::Btf(_) => BpfError::NoTracepoint { name: tracepoint.to_owned() },
        ProgramError::LoadError { io_error, verifier_log } => {
            rejection(program, io_error, &verifier_log.to_string())
        }
        ProgramError::SyscallError(error) => BpfError::from_call(
            format!("attaching `{program}` to the tracepoint `{tracepoint}`"),
            error.io_error,
        ),
        other => BpfError::Malformed { reason: with_causes(&other) },
    }
}

/// The reason why the verifier rejected a program.
pub(super) fn rejection(program: &str, source: io::Error, log: &str) -> BpfError {
    if let Some(libc::EPERM | libc::ENOSYS) = source.raw_os_error() {
        return BpfError::from_call(format!("loading the BPF program `{program}`"), source);
    }
    let program = program.to_owned();
    if log.contains(NO_SUCH_FIELD) {
        return BpfError::NoField { program, what: "a field".to_owned() };
    }
    BpfError::Rejected { program, source, log: log.trim_end().to_owned() }
}

#[cfg(test)]
#[expect(clippy::print_stderr, reason = "a skip says why")]
mod tests {
    use super::*;
    use crate::bpf::interrupts::OBJECT;
    use crate::bpf::{kernel_types, parse_types};

    /// The object of the interrupt counters for 4 CPUs, and the kernel's types; prints the reason if they are not
    /// available.
    fn loaded() -> Option<(Object, &'static Btf)> {
        let loaded = kernel_types().and_then(|types| {
            Ok((Object::load(OBJECT, types, &[("corehop_irqs", 4)], &[])?, types))
        });
        loaded
            .inspect_err(|error| {
                assert!(error.is_general(), "{error}");
                eprintln!("skipped: {error}");
            })
            .ok()
    }

    #[test]
    fn what_the_verifier_does_not_take_comes_back_with_its_log() {
        let Some((mut object, types)) = loaded() else { return };
        // It reads the third argument of a tracepoint that has one.
        let error = object.attach("hop_sched_switch", "sched_waking", types).unwrap_err();
        assert!(matches!(error, BpfError::Rejected { .. }), "{error}");
        let text = error.to_string();
        assert!(text.contains("hop_sched_switch") && text.contains("invalid"), "{text}");
    }

    #[test]
    fn an_array_is_shown_in_whole_pages_and_words_beyond_it_are_not() {
        let Some((object, _)) = loaded() else { return };
        let shown = object.show("corehop_irqs").unwrap();
        assert_eq!(shown.len() * 8 % crate::bpf::page_size(), 0);
        assert_eq!(shown.words(4 * 16 - 4), [0; 4]);
        let beyond = shown.len() - 3;
        assert!(std::panic::catch_unwind(|| shown.words::<4>(beyond)).is_err());
        assert!(matches!(object.show("no_such_map"), Err(BpfError::Malformed { .. })));
    }

    #[test]
    fn a_kernel_that_lacks_a_field_or_a_tracepoint_is_told_from_a_fault() {
        let Some((_, types)) = loaded() else { return };
        let bytes = std::fs::read(crate::bpf::VMLINUX_BTF).unwrap();
        let poorer =
            parse_types(&without(bytes, b"\0nr_migrations\0", b"\0rn_migrations\0")).unwrap();
        let object = crate::bpf::control::OBJECT;
        let mut object = Object::load(object, &poorer, &[], &[]).unwrap();
        let error = object.attach("hop_switch", "sched_switch", types).unwrap_err();
        assert!(matches!(error, BpfError::NoField { .. }), "{error}");
        let error = object.attach("hop_migrate", "no_such_one", types).unwrap_err();
        assert!(error.to_string().contains("no tracepoint `no_such_one`"), "{error}");
        object.attach("hop_migrate", "sched_migrate_task", types).unwrap();
    }

    /// A copy of `bytes` in which every `from` is replaced by `to`.
    fn without(mut bytes: Vec<u8>, from: &[u8], to: &[u8]) -> Vec<u8> {
        for at in 0..bytes.len() - from.len() {
            if bytes[at..].starts_with(from) {
                bytes[at..at + to.len()].copy_from_slice(to);
            }
        }
        bytes
    }

    #[test]
    fn a_table_holds_what_was_put_until_it_is_removed_or_full() {
        let Ok(types) = kernel_types() else { return };
        let entries = [("corehop_threads", 2)];
        let object = crate::bpf::control::OBJECT;
        let Ok(mut object) = Object::load(object, types, &entries, &[]) else {
            return;
        };
        let table = object.take_table::<u32, u32>("corehop_threads").unwrap();
        table.put(7, 70).unwrap();
        table.put(8, 80).unwrap();
        assert_eq!(table.put(9, 90).unwrap_err().raw_os_error(), Some(libc::E2BIG));
        table.remove(7);
        table.remove(7);
        assert_eq!((table.get(7), table.get(8)), (None, Some(80)));
        assert!(object.take_table::<u32, u32>("corehop_threads").is_err(), "taken");
    }
}
