// SPDX-License-Identifier: MIT OR Apache-2.0
//! The kernel's own type information (BTF), as far as a tracing program needs it.
//!
//! A tracing program is attached by the number of a type (`btf_trace_sched_switch`), and it reads
//! kernel structures at offsets that differ from build to build. Both are looked up here, in the
//! bytes of `/sys/kernel/btf/vmlinux`. Format: Documentation/bpf/btf.rst of the kernel; kinds
//! unknown here are stepped over where the blob says how long they are (Linux 7.1 and later).

use std::ops::Range;

/// Why the type information does not answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BtfError {
    /// The bytes do not begin as BTF of this machine's byte order does.
    #[error("not BTF of this machine: it begins with {found:#06x} instead of 0xeb9f")]
    NotBtf {
        /// The first two bytes, in this machine's byte order.
        found: u16,
    },
    /// A version of the format that did not exist when this was written.
    #[error("BTF version {found} is not known (only 1 is): a newer corehop may read this kernel's")]
    OtherVersion {
        /// The version found.
        found: u8,
    },
    /// The bytes end, or point, outside of the blob.
    #[error("the BTF is damaged: {what} at byte {at} lies outside of it")]
    Truncated {
        /// What was being read.
        what: &'static str,
        /// Where.
        at: usize,
    },
    /// A kind of type that is neither known here nor described in the blob.
    #[error(
        "type {id} of the BTF is of kind {kind}, which is not known: a newer corehop may read it"
    )]
    UnknownKind {
        /// Number of the type.
        id: u32,
        /// Number of its kind.
        kind: u32,
    },
    /// This kernel has no such tracepoint.
    #[error("this kernel has no tracepoint `{name}` (its BTF has no type `btf_trace_{name}`)")]
    NoTracepoint {
        /// Name of the tracepoint.
        name: String,
    },
    /// This kernel has no such structure.
    #[error("this kernel's BTF has no structure `{name}`")]
    NoType {
        /// Name of the structure.
        name: String,
    },
    /// A structure lacks a member.
    #[error("`struct {structure}` of this kernel has no member `{member}`")]
    NoMember {
        /// Name of the structure.
        structure: String,
        /// Name of the member.
        member: String,
    },
    /// A member that cannot be loaded with one instruction.
    #[error("member `{member}` of `struct {structure}` is {what}, which cannot be read as a word")]
    NotAWord {
        /// Name of the structure.
        structure: String,
        /// Name of the member.
        member: String,
        /// What it is.
        what: &'static str,
    },
}

/// Where a member lies in its structure, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Member {
    /// Distance from the start of the structure.
    pub offset: u32,
    /// Size of the member.
    pub size: u32,
}

/// Kinds of type, as numbered in the format.
mod kind {
    pub(super) const INT: u32 = 1;
    pub(super) const PTR: u32 = 2;
    pub(super) const ARRAY: u32 = 3;
    pub(super) const STRUCT: u32 = 4;
    pub(super) const UNION: u32 = 5;
    pub(super) const ENUM: u32 = 6;
    pub(super) const TYPEDEF: u32 = 8;
    pub(super) const VOLATILE: u32 = 9;
    pub(super) const CONST: u32 = 10;
    pub(super) const RESTRICT: u32 = 11;
    pub(super) const FUNC_PROTO: u32 = 13;
    pub(super) const VAR: u32 = 14;
    pub(super) const DATASEC: u32 = 15;
    pub(super) const FLOAT: u32 = 16;
    pub(super) const DECL_TAG: u32 = 17;
    pub(super) const TYPE_TAG: u32 = 18;
    pub(super) const ENUM64: u32 = 19;
}

/// The kinds that only qualify another type.
const QUALIFIERS: [u32; 5] =
    [kind::TYPEDEF, kind::VOLATILE, kind::CONST, kind::RESTRICT, kind::TYPE_TAG];
/// No chain of qualifiers or arrays of a real kernel is nearly as deep; a damaged blob may hold a
/// loop.
const DEPTH: u32 = 32;
/// As deep as anonymous members are searched; real ones are three deep.
const NESTING: u32 = 8;
/// Size of the fixed part of every type record.
const RECORD: usize = 12;
/// Pointers of the 64-bit kernels this runs on.
const POINTER_SIZE: u32 = 8;

/// A type record: its fixed part, and where it lies.
#[derive(Debug, Clone, Copy)]
struct Record {
    at: usize,
    name: u32,
    info: u32,
    /// Size of the type, or number of the type it refers to.
    size_or_type: u32,
}

impl Record {
    /// Seven bits since Linux 7.1, five before, when the others were zero.
    fn kind(self) -> u32 {
        (self.info >> 24) & 0x7f
    }
    /// Number of members, values or parameters. 24 bits since Linux 7.1, 16 before.
    fn len(self) -> usize {
        (self.info & 0x00ff_ffff) as usize
    }
    /// Whether the offsets of members carry the width of bit fields in their upper byte.
    fn has_bit_fields(self) -> bool {
        self.info >> 31 == 1
    }
    fn is_compound(self) -> bool {
        matches!(self.kind(), kind::STRUCT | kind::UNION)
    }
}

/// A member as it lies in its record.
#[derive(Debug, Clone, Copy)]
struct RawMember {
    name: u32,
    type_id: u32,
    bit_offset: u32,
    is_bit_field: bool,
}

/// Parsed type information of a kernel.
#[derive(Debug)]
pub struct Btf {
    bytes: Vec<u8>,
    strings: Range<usize>,
    /// Position of each type's record, by number; number 0 is `void` and has none.
    positions: Vec<u32>,
    /// Numbers of the named structures, unions and typedefs: all that is ever looked up by name.
    named: Vec<u32>,
}

impl Btf {
    /// Index the bytes of a BTF blob.
    ///
    /// # Errors
    /// Where the bytes are not BTF, or damaged, or of a newer kind.
    pub fn parse(bytes: Vec<u8>) -> Result<Self, BtfError> {
        let header = Header::parse(&bytes)?;
        let mut btf = Self { bytes, strings: header.strings, positions: vec![0], named: vec![] };
        let mut at = header.types.start;
        while at < header.types.end {
            let record = btf.record_at(at)?;
            let id = btf.positions.len() as u32;
            let trailing =
                trailing_bytes(record).or_else(|| layout_of(&btf.bytes, &header.layout, record));
            let trailing = trailing.ok_or(BtfError::UnknownKind { id, kind: record.kind() })?;
            if record.name != 0 && (record.is_compound() || record.kind() == kind::TYPEDEF) {
                btf.named.push(id);
            }
            btf.positions.push(at as u32);
            at += RECORD + trailing;
        }
        if at > header.types.end {
            return Err(BtfError::Truncated { what: "the last type", at });
        }
        Ok(btf)
    }

    /// Number of types, `void` included.
    pub fn type_count(&self) -> usize {
        self.positions.len()
    }

    /// Number of the type to attach a program of a tracepoint by.
    ///
    /// # Errors
    /// Where this kernel has no such tracepoint.
    pub fn tracepoint(&self, name: &str) -> Result<u32, BtfError> {
        let typedef = format!("btf_trace_{name}");
        self.find(&typedef, |record| record.kind() == kind::TYPEDEF)?
            .first()
            .copied()
            .ok_or_else(|| BtfError::NoTracepoint { name: name.to_owned() })
    }

    /// Number and size in bytes of the first structure with this name.
    ///
    /// # Errors
    /// Where this kernel has no such structure.
    pub fn structure(&self, name: &str) -> Result<(u32, u32), BtfError> {
        let found = self.find(name, |record| record.kind() == kind::STRUCT)?;
        let missing = || BtfError::NoType { name: name.to_owned() };
        let id = *found.first().ok_or_else(missing)?;
        Ok((id, self.size_of(id)?))
    }

    /// How many arguments the tracepoint hands to a program. They have grown over time.
    ///
    /// # Errors
    /// Where this kernel has no such tracepoint.
    pub fn arguments(&self, name: &str) -> Result<usize, BtfError> {
        let Some(pointer) = self.resolve(self.tracepoint(name)?)? else { return Ok(0) };
        let Some(function) = self.resolve(pointer.size_or_type)? else { return Ok(0) };
        // The first one is the tracepoint's own and is not handed on.
        let is_function = function.kind() == kind::FUNC_PROTO;
        Ok(if is_function { function.len().saturating_sub(1) } else { 0 })
    }

    /// Where `path` lies in `struct structure`: a member, or one nested by value (`se.cfs_rq`).
    /// Members of anonymous structures and unions are found by their own name, as in C.
    ///
    /// # Errors
    /// Names the structure or member that this kernel lacks.
    pub fn member(&self, structure: &str, path: &str) -> Result<Member, BtfError> {
        self.loads(structure, path).map(|loads| loads[loads.len() - 1])
    }

    /// The loads that follow a chain of pointers: `se.cfs_rq->rq->clock` from `task_struct` is
    /// three of them, each relative to the address that the one before has loaded. Never empty.
    ///
    /// # Errors
    /// Names the structure or member that this kernel lacks, or that is no pointer.
    pub fn loads(&self, structure: &str, path: &str) -> Result<Vec<Member>, BtfError> {
        let candidates = self.find(structure, Record::is_compound)?;
        // A name may belong to several structures, private ones of drivers among them: the first
        // that answers is taken, and if none does, the first one's complaint.
        let mut complaint = BtfError::NoType { name: structure.to_owned() };
        for (index, id) in candidates.into_iter().enumerate() {
            match self.follow(id, structure, path) {
                Ok(loads) => return Ok(loads),
                Err(error) if index == 0 => complaint = error,
                Err(_) => {}
            }
        }
        Err(complaint)
    }

    fn follow(&self, start: u32, structure: &str, path: &str) -> Result<Vec<Member>, BtfError> {
        let mut loads = Vec::new();
        let (mut id, mut owner) = (start, structure.to_owned());
        for (step, part) in path.split("->").enumerate() {
            if step > 0 {
                (id, owner) = self.pointee(id, &owner)?;
            }
            let (member, type_id) = self.nested(id, &owner, part)?;
            loads.push(member);
            (id, owner) = (type_id, part.to_owned());
        }
        Ok(loads)
    }

    /// Number and name of the structure that the pointer type `id`, of member `name`, points to.
    fn pointee(&self, id: u32, name: &str) -> Result<(u32, String), BtfError> {
        let not_a_pointer = || BtfError::NoType { name: format!("that `{name}` points to") };
        let pointer = self.resolve(id)?.ok_or_else(not_a_pointer)?;
        if pointer.kind() != kind::PTR {
            return Err(not_a_pointer());
        }
        let target = self.resolve(pointer.size_or_type)?.ok_or_else(not_a_pointer)?;
        Ok((pointer.size_or_type, self.string(target.name)?.to_owned()))
    }

    /// Offset, size and type of `path` (names joined by points) in the structure `id`.
    fn nested(&self, id: u32, structure: &str, path: &str) -> Result<(Member, u32), BtfError> {
        let (mut id, mut offset) = (id, 0_u32);
        for name in path.split('.') {
            let missing =
                || BtfError::NoMember { structure: structure.to_owned(), member: path.to_owned() };
            let record = self.resolve(id)?.filter(|record| record.is_compound());
            let found = self.find_member(record.ok_or_else(missing)?, name, 0)?;
            let member = found.ok_or_else(missing)?;
            if member.is_bit_field || !member.bit_offset.is_multiple_of(8) {
                return Err(BtfError::NotAWord {
                    structure: structure.to_owned(),
                    member: path.to_owned(),
                    what: "a bit field",
                });
            }
            offset = u32::saturating_add(offset, member.bit_offset / 8);
            id = member.type_id;
        }
        Ok((Member { offset, size: self.size_of(id)? }, id))
    }

    /// The member called `name`, searched through anonymous members as well; its offset counts
    /// from the start of `record`.
    fn find_member(
        &self,
        record: Record,
        name: &str,
        depth: u32,
    ) -> Result<Option<RawMember>, BtfError> {
        for index in 0..record.len() {
            let member = self.raw_member(record, index)?;
            if self.is_called(member.name, name) {
                return Ok(Some(member));
            }
            if member.name != 0 || depth == NESTING {
                continue;
            }
            let Some(anonymous) = self.resolve(member.type_id)?.filter(|r| r.is_compound()) else {
                continue;
            };
            if let Some(mut inner) = self.find_member(anonymous, name, depth + 1)? {
                inner.bit_offset = inner.bit_offset.saturating_add(member.bit_offset);
                return Ok(Some(inner));
            }
        }
        Ok(None)
    }

    fn raw_member(&self, record: Record, index: usize) -> Result<RawMember, BtfError> {
        let at = record.at + RECORD + index * 12;
        let offset = self.word(at + 8, "a member")?;
        let (bit_offset, width) = if record.has_bit_fields() {
            (offset & 0x00ff_ffff, offset >> 24)
        } else {
            (offset, 0)
        };
        Ok(RawMember {
            name: self.word(at, "a member")?,
            type_id: self.word(at + 4, "a member")?,
            bit_offset,
            is_bit_field: width != 0,
        })
    }

    /// The type behind qualifiers and typedefs; none for `void`.
    fn resolve(&self, mut id: u32) -> Result<Option<Record>, BtfError> {
        for _ in 0..DEPTH {
            let Some(record) = self.record(id)? else { return Ok(None) };
            if !QUALIFIERS.contains(&record.kind()) {
                return Ok(Some(record));
            }
            id = record.size_or_type;
        }
        Err(BtfError::Truncated { what: "the end of a chain of typedefs", at: id as usize })
    }

    fn size_of(&self, mut id: u32) -> Result<u32, BtfError> {
        let mut count = 1_u32;
        for _ in 0..DEPTH {
            let Some(record) = self.resolve(id)? else { return Ok(0) };
            let size = match record.kind() {
                kind::PTR => POINTER_SIZE,
                kind::ARRAY => {
                    count = count.saturating_mul(self.word(record.at + RECORD + 8, "an array")?);
                    id = self.word(record.at + RECORD, "an array")?;
                    continue;
                }
                kind::INT
                | kind::STRUCT
                | kind::UNION
                | kind::ENUM
                | kind::FLOAT
                | kind::ENUM64 => record.size_or_type,
                _ => 0,
            };
            return Ok(count.saturating_mul(size));
        }
        Err(BtfError::Truncated { what: "the end of a chain of arrays", at: id as usize })
    }

    /// Numbers of the named types called `name` for which `wanted` holds.
    fn find(&self, name: &str, wanted: fn(Record) -> bool) -> Result<Vec<u32>, BtfError> {
        let mut found = Vec::new();
        for &id in &self.named {
            // Only records that have been read once are in `named`.
            let Some(record) = self.record(id)? else { continue };
            if wanted(record) && self.is_called(record.name, name) {
                found.push(id);
            }
        }
        Ok(found)
    }

    fn record(&self, id: u32) -> Result<Option<Record>, BtfError> {
        match self.positions.get(id as usize) {
            None => Err(BtfError::Truncated { what: "a type number", at: id as usize }),
            Some(0) => Ok(None),
            Some(&at) => self.record_at(at as usize).map(Some),
        }
    }

    fn record_at(&self, at: usize) -> Result<Record, BtfError> {
        Ok(Record {
            at,
            name: self.word(at, "a type")?,
            info: self.word(at + 4, "a type")?,
            size_or_type: self.word(at + 8, "a type")?,
        })
    }

    fn word(&self, at: usize, what: &'static str) -> Result<u32, BtfError> {
        word(&self.bytes, at).ok_or(BtfError::Truncated { what, at })
    }

    /// Whether the string at `offset` is `name`; a scan of thousands of names needs no more.
    fn is_called(&self, offset: u32, name: &str) -> bool {
        let strings = &self.bytes[self.strings.clone()];
        strings
            .get(offset as usize..)
            .and_then(|rest| rest.strip_prefix(name.as_bytes()))
            .is_some_and(|rest| rest.first() == Some(&0))
    }

    fn string(&self, offset: u32) -> Result<&str, BtfError> {
        let damaged = BtfError::Truncated { what: "a name", at: offset as usize };
        let rest = self.bytes[self.strings.clone()].get(offset as usize..);
        let rest = rest.ok_or_else(|| damaged.clone())?;
        let end = rest.iter().position(|&byte| byte == 0).ok_or_else(|| damaged.clone())?;
        std::str::from_utf8(&rest[..end]).map_err(|_| damaged)
    }
}

/// The sections that the header names, as positions in the blob.
struct Header {
    types: Range<usize>,
    strings: Range<usize>,
    layout: Range<usize>,
}

impl Header {
    fn parse(bytes: &[u8]) -> Result<Self, BtfError> {
        let truncated = |at| BtfError::Truncated { what: "the header", at };
        let start = bytes.first_chunk::<4>().ok_or_else(|| truncated(bytes.len()))?;
        let magic = u16::from_ne_bytes([start[0], start[1]]);
        if magic != 0xeb9f {
            return Err(BtfError::NotBtf { found: magic });
        }
        if start[2] != 1 {
            return Err(BtfError::OtherVersion { found: start[2] });
        }
        let field = |at| word(bytes, at).map(|value| value as usize).ok_or_else(|| truncated(at));
        let length = field(4)?;
        let section = |at: usize| -> Result<Range<usize>, BtfError> {
            let start = length + field(at)?;
            let end = start + field(at + 4)?;
            if length < 24 || end > bytes.len() { Err(truncated(at)) } else { Ok(start..end) }
        };
        // Linux 7.1 has appended a section that says how long each kind of record is.
        let layout = if length >= 32 { section(24)? } else { 0..0 };
        Ok(Self { types: section(8)?, strings: section(16)?, layout })
    }
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|chunk| u32::from_ne_bytes(*chunk))
}

/// Bytes that follow the fixed part of a record of a kind known here.
fn trailing_bytes(record: Record) -> Option<usize> {
    Some(match record.kind() {
        kind::INT | kind::VAR | kind::DECL_TAG => 4,
        kind::ARRAY => 12,
        kind::STRUCT | kind::UNION | kind::DATASEC | kind::ENUM64 => record.len() * 12,
        kind::ENUM | kind::FUNC_PROTO => record.len() * 8,
        kind::PTR..=kind::TYPE_TAG => 0,
        _ => return None,
    })
}

/// The same for a kind that only the blob itself describes: two sizes in bytes per kind, of what
/// follows once and of what follows per element, and 16 bits that are not used.
fn layout_of(bytes: &[u8], layout: &Range<usize>, record: Record) -> Option<usize> {
    let entry = bytes[layout.clone()].get(record.kind() as usize * 4..)?.first_chunk::<4>()?;
    Some(usize::from(entry[0]) + usize::from(entry[1]) * record.len())
}

#[cfg(test)]
#[path = "btf_tests.rs"]
pub(super) mod tests;
