// SPDX-License-Identifier: MIT OR Apache-2.0
//! The meaning of a line of a trace in each known format.

use std::fmt;
use std::str::FromStr;

use super::Source;

/// The meaning of a line of a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Item {
    /// The line says that a thread, which the line may name, executed an instruction.
    Instruction(Option<TraceThread>),
    /// The line says that a thread accessed data.
    Data(TraceAccess),
    /// The trace was recorded on another architecture than x86-64.
    Foreign(&'static str),
    /// The line belongs to the format and contains no access.
    Other,
}

/// A thread of a recorded trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct TraceThread {
    /// The program of the thread, if several programs were recorded together: threads of two programs can have equal
    /// numbers.
    pub workload: Option<u64>,
    /// The number of the thread in the trace.
    pub id: u64,
}

impl TraceThread {
    /// Returns whether this thread matches the requested thread. A request without a program matches every thread with
    /// the number.
    pub(super) fn is(self, asked: Self) -> bool {
        self.id == asked.id && (asked.workload.is_none() || asked.workload == self.workload)
    }

    /// Parses a thread that DynamoRIO's view prints as `42`, `T42`, or (since 2025) `W0.T42`.
    fn of_view(text: &str) -> Option<Self> {
        let (workload, id) = match text.split_once('.') {
            Some((workload, id)) => (Some(workload.strip_prefix('W')?.parse().ok()?), id),
            None => (None, text),
        };
        Some(Self { workload, id: id.strip_prefix('T').unwrap_or(id).parse().ok()? })
    }
}

impl fmt::Display for TraceThread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.workload {
            Some(workload) => write!(f, "W{workload}.T{}", self.id),
            None => write!(f, "{}", self.id),
        }
    }
}

/// The error for a text that names no thread of a trace.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` names no thread: write a number such as 501, or W0.T501 as the trace does")]
pub struct NoThread(String);

impl FromStr for TraceThread {
    type Err = NoThread;

    fn from_str(text: &str) -> Result<Self, NoThread> {
        Self::of_view(text).ok_or_else(|| NoThread(text.to_owned()))
    }
}

/// An access to data in a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TraceAccess {
    pub(super) address: u64,
    /// The size of the access, in bytes.
    pub(super) size: u64,
    pub(super) reads: bool,
    pub(super) writes: bool,
    /// The accessing thread, if the line states it.
    pub(super) thread: Option<TraceThread>,
}

/// A format of traces that corehop can read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Format {
    Lackey,
    View,
    Memtrace,
}

impl Format {
    /// Returns the format of a line that contains an access, or `None` if no format matches.
    pub(super) fn of(line: &str) -> Option<Self> {
        let tells = |format: &Self| !matches!(format.item(line), None | Some(Item::Other));
        [Self::Lackey, Self::View, Self::Memtrace].into_iter().find(tells)
    }

    pub(super) fn source(self) -> Source {
        match self {
            Self::Lackey => Source::Lackey,
            Self::View => Source::Drmemtrace,
            Self::Memtrace => Source::Memtrace,
        }
    }

    /// Returns the meaning of a line, or `None` if the line does not have this format.
    pub(super) fn item(self, line: &str) -> Option<Item> {
        match self {
            Self::Lackey => lackey(line),
            Self::View => view(line),
            Self::Memtrace => memtrace(line),
        }
    }
}

/// Parses a line of lackey, such as `I  04001000,3`, ` L 1ffeffe7e0,8`, ` S …`, or ` M …` (read and written).
fn lackey(line: &str) -> Option<Item> {
    if line.starts_with("==") {
        return Some(Item::Other);
    }
    let (kind, rest) = line.split_at_checked(3)?;
    let (address, size) = rest.trim_end().split_once(',')?;
    let (address, size) = (hex(address)?, size.parse().ok().filter(|&size| size > 0)?);
    let (reads, writes) = match kind {
        "I  " => return Some(Item::Instruction(None)),
        " L " => (true, false),
        " S " => (false, true),
        " M " => (true, true),
        _ => return None,
    };
    Some(Item::Data(TraceAccess { address, size, reads, writes, thread: None }))
}

/// Parses a line of DynamoRIO's view, such as `12 5: W0.T42 read  8 byte(s) @ 0x00007f… by PC 0x…`, with or without the
/// leading numbers, markers in angle brackets, and a rule of dashes at each change of the thread.
fn view(line: &str) -> Option<Item> {
    if line.starts_with("----") && line.bytes().all(|byte| byte == b'-') {
        return Some(Item::Other);
    }
    if let Some((_, marker)) = line.split_once("<marker: ") {
        let filetype = marker.strip_prefix("filetype 0x").and_then(|it| it.split('>').next());
        return Some(filetype.and_then(hex).and_then(foreign).map_or(Item::Other, Item::Foreign));
    }
    let words: Vec<&str> = line.split_whitespace().collect();
    let unit = words.iter().position(|&word| word == "byte(s)").filter(|&unit| unit >= 2)?;
    let address = words.get(unit + 2).filter(|_| words.get(unit + 1) == Some(&"@"))?;
    let address = hex(address.strip_prefix("0x")?)?;
    let size = words[unit - 1].parse().ok()?;
    let thread = unit.checked_sub(3).and_then(|place| TraceThread::of_view(words[place]));
    let (reads, writes) = match words[unit - 2] {
        "ifetch" => return Some(Item::Instruction(thread)),
        "read" => (true, false),
        "write" => (false, true),
        // Prefetches and flushes.
        _ => return Some(Item::Other),
    };
    Some(Item::Data(TraceAccess { address, size, reads, writes, thread }))
}

/// Returns the architecture of a recording, from the bits of DynamoRIO's file type, or `None` for x86-64.
fn foreign(filetype: u64) -> Option<&'static str> {
    const ALL: [(u64, &str); 3] = [(0x08, "AArch64"), (0x10, "32-bit Arm"), (0x20, "32-bit x86")];
    ALL.into_iter().find(|(bit, _)| filetype & bit != 0).map(|(_, name)| name)
}

/// Parses a line of memtrace, such as `0x00007ffc…:  8, w` (with an opcode in place of `r` or `w` for an instruction) or
/// `0xPC,w,8,0xADDRESS`.
fn memtrace(line: &str) -> Option<Item> {
    let access = |address: &str, size: &str, does: &str| {
        let address = hex(address.trim().strip_prefix("0x")?)?;
        let size = size.trim().parse().ok().filter(|&size| size > 0)?;
        let (reads, writes) = (does == "r", does == "w");
        Some(TraceAccess { address, size, reads, writes, thread: None })
    };
    if let Some((address, rest)) = line.split_once(':') {
        let (size, does) = rest.split_once(',')?;
        let does = does.trim();
        let access = access(address, size, does)?;
        let opcode = !does.is_empty() && does.bytes().all(|it| it.is_ascii_alphanumeric());
        return match (access.reads || access.writes, opcode) {
            (true, _) => Some(Item::Data(access)),
            (false, true) => Some(Item::Instruction(None)),
            (false, false) => None,
        };
    }
    let mut columns = line.split(',');
    let (pc, does) = (columns.next()?.trim(), columns.next()?.trim());
    let (size, address) = (columns.next()?, columns.next()?);
    hex(pc.strip_prefix("0x")?)?;
    let access = access(address, size, does).filter(|it| it.reads || it.writes)?;
    columns.next().is_none().then_some(Item::Data(access))
}

fn hex(text: &str) -> Option<u64> {
    let plain = text.bytes().all(|it| it.is_ascii_hexdigit());
    if plain { u64::from_str_radix(text, 16).ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[expect(clippy::unnecessary_wraps, reason = "as a format answers")]
    fn data(address: u64, size: u64, does: &str, thread: Option<u64>) -> Option<Item> {
        let (reads, writes) = (does.contains('r'), does.contains('w'));
        let thread = thread.map(|id| TraceThread { workload: None, id });
        Some(Item::Data(TraceAccess { address, size, reads, writes, thread }))
    }

    #[test]
    fn lines_of_lackey_are_read_as_its_manual_has_them() {
        let item = |line| Format::Lackey.item(line);
        assert_eq!(item("I  0401ab70,3"), Some(Item::Instruction(None)));
        assert_eq!(item(" L 1fff000758,8"), data(0x1f_ff00_0758, 8, "r", None));
        assert_eq!(item(" S 1fff000758,8"), data(0x1f_ff00_0758, 8, "w", None));
        assert_eq!(item(" M 04029a10,4"), data(0x402_9a10, 4, "rw", None));
        assert_eq!(item("==77== Command: ./t"), Some(Item::Other));
        for none in [" L 1fff000758,", " L 1fff", "hello, world", "", " X 12,4", " L -1,4"] {
            assert_eq!(item(none), None, "{none}");
        }
    }

    #[test]
    fn lines_of_the_view_of_drmemtrace_are_read_old_and_new() {
        let item = |line| Format::View.item(line);
        let new = "          24           7:     3256418 read         8 byte(s) @ 0x00007ffd4b1d8c88 by PC 0x00007f1";
        assert_eq!(item(new), data(0x7ffd_4b1d_8c88, 8, "r", Some(3_256_418)));
        assert_eq!(item("T42  write  4 byte(s) @ 0x10 by PC 0x20"), data(0x10, 4, "w", Some(42)));
        let thread = Some(TraceThread { workload: None, id: 3 });
        assert_eq!(
            item(" 1 2: 3 ifetch 3 byte(s) @ 0x10 48 89 e7"),
            Some(Item::Instruction(thread))
        );
        // Since 2025 a thread is named with its program.
        let thread = Some(TraceThread { workload: Some(1), id: 501 });
        let line = " 3 1: W1.T501 ifetch 3 byte(s) @ 0x401000 48 89 e7 mov %rsp, %rdi";
        assert_eq!(item(line), Some(Item::Instruction(thread)));
        let access =
            TraceAccess { address: 0x0060_1000, size: 8, reads: true, writes: false, thread };
        let line = " 4 1: W1.T501 read 8 byte(s) @ 0x601000 by PC 0x401000";
        assert_eq!(item(line), Some(Item::Data(access)));
        assert_eq!(item("------------------------------"), Some(Item::Other));
        assert_eq!(item(" 1 2: 3 pref-HW 64 byte(s) @ 0x40 by PC 0x1"), Some(Item::Other));
        assert_eq!(item("  1  0: 3 <marker: version 7>"), Some(Item::Other));
        assert_eq!(item("  2  0: 3 <marker: filetype 0xe48>"), Some(Item::Foreign("AArch64")));
        assert_eq!(item("  2  0: 3 <marker: filetype 0xe40>"), Some(Item::Other));
        assert_eq!(item("read 8 byte(s)"), None);
    }

    #[test]
    fn both_texts_of_the_memtrace_clients_are_read() {
        let item = |line| Format::Memtrace.item(line);
        assert_eq!(item("0x00007ffc4a8:  8, w"), data(0x07ff_c4a8, 8, "w", None));
        assert_eq!(item("0x00007ffc4a8:  3, push"), Some(Item::Instruction(None)));
        assert_eq!(item("0x400,r,16,0x7f00"), data(0x7f00, 16, "r", None));
        for none in ["0x400,r,16", "400,r,16,7f00", "0x400: x, w", "0x400,x,16,0x7f00", "a: b, c"] {
            assert_eq!(item(none), None, "{none}");
        }
    }

    #[test]
    fn a_format_is_known_by_its_first_access() {
        assert_eq!(Format::of("I  0401ab70,3"), Some(Format::Lackey));
        assert_eq!(Format::of("T1 read 8 byte(s) @ 0x10 by PC 0x4"), Some(Format::View));
        assert_eq!(Format::of("0x400,r,16,0x7f00"), Some(Format::Memtrace));
        assert_eq!(Format::of("==1== Lackey, an example Valgrind tool"), None);
        assert_eq!(Format::of("hello"), None);
    }
}
