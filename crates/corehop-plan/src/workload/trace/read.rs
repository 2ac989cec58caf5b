// SPDX-License-Identifier: MIT OR Apache-2.0
//! Converts the text of a trace to visits. corehop reads the text once from front to back, and only as far as the
//! window needs, because a file can have any size or be a pipe.

use std::collections::BTreeSet;
use std::io::BufRead;

use super::formats::{Format, Item, TraceAccess, TraceThread};
use super::{LINES_OF_PAGE, Source, Trace, TraceVisit};
use crate::workload::LINE;

/// The largest number of accesses in a window; a plan stores this many accesses in some tens of megabytes.
pub const MOST_ACCESSES: u64 = 1 << 24;
/// The number of lines in which the first access must occur.
const HEAD: u64 = 100_000;
/// The length of the longest line, in bytes; a file with a longer line is not a trace.
const LONGEST_LINE: u64 = 64 << 10;
/// The largest number of threads that a message names.
const MOST_SHOWN: usize = 12;
/// The size of the largest access in bytes, which is the size of all registers of a vector unit.
const LARGEST: u64 = 16 << 10;

/// The part of a file's accesses that becomes a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TraceWindow {
    /// The number of accesses to data before the window.
    pub skip: u64,
    /// The number of accesses to data in the window, at most [`MOST_ACCESSES`].
    pub take: u64,
    /// The thread whose accesses count, or `None` for the first thread that accesses data.
    pub thread: Option<TraceThread>,
}

impl Default for TraceWindow {
    /// Returns the window with the first million accesses.
    fn default() -> Self {
        Self { skip: 0, take: 1_000_000, thread: None }
    }
}

/// A trace that corehop has read, with remarks for the user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParsedTrace {
    /// The trace that was read from the file.
    pub trace: Trace,
    /// The remarks on the reading, one sentence each.
    pub notes: Vec<String>,
}

/// The reason why a file is not a usable trace.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The system could not read the file.
    #[error("{name}: {error}")]
    Io {
        /// The name of the trace file that cannot be read.
        name: String,
        /// The error that the system returned.
        error: std::io::Error,
    },
    /// The trace file is not a text.
    #[error("{name} is {what}, not text: {remedy}")]
    Binary {
        /// The name of the trace file that cannot be read.
        name: String,
        /// The kind of file that corehop found instead.
        what: &'static str,
        /// The command that prints the file as text.
        remedy: &'static str,
    },
    /// The file has no line of a known format.
    #[error(
        "{name} is no trace: none of its first {lines} lines is an access as lackey (--trace-mem=yes) or DynamoRIO's \
         view or memtrace print it"
    )]
    Unknown {
        /// The name of the trace file that cannot be read.
        name: String,
        /// The number of lines that were read.
        lines: u64,
    },
    /// The requested thread has no access in the file.
    #[error("{name} has no access of thread {thread}: {there}")]
    Absent {
        /// The name of the trace file that lacks the thread.
        name: String,
        /// The thread that the caller requested.
        thread: TraceThread,
        /// The threads of the file, as a clause.
        there: String,
    },
    /// The requested window of the trace contains no access.
    #[error(
        "{name} has {accesses} accesses to data{of_thread}, and {skip} were to be skipped: skip fewer"
    )]
    Short {
        /// The name of the trace file that is too short.
        name: String,
        /// The number of accesses in the file.
        accesses: u64,
        /// The requested thread in words.
        of_thread: String,
        /// The number of accesses to skip.
        skip: u64,
    },
}

/// The state of reading a trace.
#[derive(Default)]
struct TraceProgress {
    /// The number of accesses of the thread, the number in the window, and the number of instructions in the window.
    seen: u64,
    accesses: u64,
    writes: u64,
    instructions: u64,
    /// The requested thread, and the thread whose accesses count.
    asked: Option<TraceThread>,
    thread: Option<TraceThread>,
    /// The number of accesses of other threads, or of unstated threads if a thread was requested.
    others: u64,
    /// The threads that have accesses, as many as a message names.
    there: BTreeSet<TraceThread>,
    /// The number of lines that do not have the format.
    unknown: u64,
    /// The number of instructions since the last access, and their thread.
    pending: u32,
    pending_of: Option<TraceThread>,
    foreign: Option<&'static str>,
    /// The visits so far, each with the address of its line.
    visits: Vec<(u64, TraceVisit)>,
}

impl ParsedTrace {
    /// Reads the accesses of `window` from the text `input`; errors call the text `name`.
    ///
    /// # Errors
    /// Returns [`ReadError`] if the file cannot be read or is no usable trace; the error names the problem and the
    /// remedy.
    pub fn from(
        mut input: impl BufRead,
        name: &str,
        window: TraceWindow,
    ) -> Result<Self, ReadError> {
        let io = |error| ReadError::Io { name: name.to_owned(), error };
        if let Some((what, remedy)) = binary(input.fill_buf().map_err(io)?) {
            return Err(ReadError::Binary { name: name.to_owned(), what, remedy });
        }
        let mut tally = TraceProgress { asked: window.thread, ..TraceProgress::default() };
        let mut format = None;
        let (mut bytes, mut number, mut cut) = (Vec::new(), 0_u64, None);
        while tally.accesses < window.take.min(MOST_ACCESSES) {
            bytes.clear();
            let length =
                std::io::Read::take(&mut input, LONGEST_LINE).read_until(b'\n', &mut bytes);
            if length.map_err(io)? == 0 {
                break;
            }
            number += 1;
            let ended = bytes.last() == Some(&b'\n');
            let line = String::from_utf8_lossy(&bytes);
            let line = line.trim_end_matches(['\n', '\r']);
            format = format.or_else(|| Format::of(line));
            let Some(format) = format else {
                if number == HEAD {
                    break;
                }
                continue;
            };
            match format.item(line) {
                None if !ended => cut = Some(number),
                item => tally.take(item, window.skip),
            }
        }
        let unknown = || ReadError::Unknown { name: name.to_owned(), lines: number };
        let source = format.ok_or_else(unknown)?.source();
        if let (Some(thread), None) = (window.thread, tally.thread) {
            let name = name.to_owned();
            return Err(ReadError::Absent { name, thread, there: tally.threads() });
        }
        if tally.visits.is_empty() {
            let of_thread =
                tally.thread.map_or_else(String::new, |thread| format!(" of thread {thread}"));
            let (accesses, skip) = (tally.seen, window.skip);
            return Err(ReadError::Short { name: name.to_owned(), accesses, of_thread, skip });
        }
        let notes = tally.notes(name, source, window, cut);
        Ok(Self { trace: tally.trace(name, source), notes })
    }
}

impl TraceProgress {
    /// Returns whether accesses of this thread count. Only accesses of the requested thread count; without a request,
    /// only accesses of the first thread count.
    fn counts(&mut self, of: Option<TraceThread>) -> bool {
        let Some(of) = of else { return self.asked.is_none() };
        if self.there.len() <= MOST_SHOWN {
            self.there.insert(of);
        }
        let is_asked = self.asked.is_none_or(|asked| of.is(asked));
        if self.thread.is_none() && is_asked {
            self.thread = Some(of);
        }
        self.thread == Some(of)
    }

    /// Counts an instruction, if a thread that counts executed it.
    fn instruction(&mut self, of: Option<TraceThread>) {
        if self.thread.is_some() && of.is_some() && of != self.thread {
            return;
        }
        if of != self.pending_of {
            self.pending = 0;
            self.pending_of = of;
        }
        self.pending = self.pending.saturating_add(1);
    }

    /// Returns the threads of the file, as a clause.
    fn threads(&self) -> String {
        if self.there.is_empty() {
            return "its lines name no threads; leave out --trace-thread".to_owned();
        }
        let shown: Vec<String> =
            self.there.iter().take(MOST_SHOWN).map(ToString::to_string).collect();
        let more = if self.there.len() > MOST_SHOWN { ", …" } else { "" };
        format!("it has threads {}{more}", shown.join(", "))
    }

    fn take(&mut self, item: Option<Item>, skip: u64) {
        match item {
            None => self.unknown += 1,
            Some(Item::Other) => {}
            Some(Item::Foreign(name)) => self.foreign = Some(name),
            Some(Item::Instruction(of)) => self.instruction(of),
            Some(Item::Data(access)) => {
                if !self.counts(access.thread) {
                    self.others += 1;
                    return;
                }
                let pending = std::mem::take(&mut self.pending);
                let pending = if self.pending_of == access.thread { pending } else { 0 };
                self.seen += 1;
                if self.seen > skip {
                    self.accesses += 1;
                    self.writes += u64::from(access.writes);
                    self.instructions += u64::from(pending);
                    self.access(access, pending);
                }
            }
        }
    }

    /// Adds an access, with the number of instructions before it.
    fn access(&mut self, access: TraceAccess, mut pending: u32) {
        let TraceAccess { address, size, reads, writes, .. } = access;
        let last = address.saturating_add(size.clamp(1, LARGEST) - 1);
        for line in address / LINE..=last / LINE {
            let words = 1 + std::mem::take(&mut pending);
            match self.visits.last_mut() {
                Some((same, visit)) if *same == line => {
                    visit.writes |= writes;
                    visit.words = visit.words.saturating_add(words);
                }
                _ => self.visits.push((line, TraceVisit { line: 0, reads, writes, words })),
            }
        }
    }

    fn trace(self, name: &str, source: Source) -> Trace {
        let of_page = u64::from(LINES_OF_PAGE);
        let mut pages: Vec<u64> = self.visits.iter().map(|(line, _)| line / of_page).collect();
        pages.sort_unstable();
        pages.dedup();
        let visit = |&(line, visit): &(u64, TraceVisit)| {
            let page = pages.partition_point(|&page| page < line / of_page) as u64;
            TraceVisit { line: (page * of_page + line % of_page) as u32, ..visit }
        };
        let visits: Vec<TraceVisit> = self.visits.iter().map(visit).collect();
        Trace::of((name, source), [self.accesses, self.writes, self.instructions], &pages, &visits)
    }

    fn notes(
        &self,
        name: &str,
        source: Source,
        window: TraceWindow,
        cut: Option<u64>,
    ) -> Vec<String> {
        let mut notes = Vec::new();
        if let Some(line) = cut {
            notes.push(format!(
                "{name} was cut off within line {line}: corehop uses only the lines before"
            ));
        }
        if self.accesses < window.take {
            let has = if cut.is_some() { "the part before the cut has" } else { "the trace has" };
            notes.push(format!(
                "{name}: {has} only {} of the {} requested accesses",
                self.accesses, window.take
            ));
        }
        if let (Some(thread), 1..) = (self.thread, self.others) {
            notes.push(format!(
                "{name}: corehop omits {} accesses of threads other than {} (--trace-thread names another thread)",
                self.others, thread
            ));
        }
        if self.unknown > 0 {
            notes.push(format!(
                "{name}: corehop omits {} lines that do not have the format {source}",
                self.unknown
            ));
        }
        if let Some(architecture) = self.foreign {
            notes.push(format!(
                "{name} was recorded on {architecture}: its accesses are simulated as they are, in lines of {LINE} bytes"
            ));
        }
        notes
    }
}

/// Returns the kind of a file that is not text, recognised by its first bytes, and the remedy, or `None` for text.
fn binary(head: &[u8]) -> Option<(&'static str, &'static str)> {
    const PRINT: &str = "print it with DynamoRIO's tool `view`";
    const SAMPLES: &str = "perf takes samples of accesses, and a job needs all of them in order: record the program with \
                           `valgrind --tool=lackey --trace-mem=yes`";
    const UNPACK: &str = "unpack it first, for example `zcat FILE | corehop … --from-trace -`";
    const KINDS: [(&[u8], &str, &str); 6] = [
        (b"PERFILE2", "a recording of perf", SAMPLES),
        (b"2ELIFREP", "a recording of perf from a machine of another byte order", SAMPLES),
        (b"PK\x03\x04", "a zip archive", PRINT),
        (b"\x1f\x8b", "packed by gzip", UNPACK),
        (b"\xfd7zXZ", "packed by xz", UNPACK),
        (b"\x28\xb5\x2f\xfd", "packed by zstd", UNPACK),
    ];
    let known = KINDS.into_iter().find(|(magic, ..)| head.starts_with(magic));
    let known = known.map(|(_, what, remedy)| (what, remedy));
    known.or_else(|| head.iter().take(4_096).any(|&byte| byte == 0).then_some(("binary", PRINT)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LACKEY: &str = "==1== Lackey\nI  0401ab70,3\nI  0401ab73,5\n L 1000,8\n S 1008,8\nI  0401ab80,3\n L 2040,4\n M 103c,8\n";

    fn read(text: &str, window: TraceWindow) -> Result<ParsedTrace, ReadError> {
        ParsedTrace::from(text.as_bytes(), "job.trace", window)
    }

    fn visit(line: u32, does: &str, words: u32) -> TraceVisit {
        TraceVisit { line, reads: does.contains('r'), writes: does.contains('w'), words }
    }

    #[test]
    fn accesses_to_one_line_in_a_row_are_one_visit_and_one_across_two_lines_is_two() {
        let trace = read(LACKEY, TraceWindow::default()).unwrap().trace;
        let expected = [visit(0, "rw", 4), visit(65, "r", 2), visit(0, "rw", 1), visit(1, "rw", 1)];
        assert_eq!(trace.visits().unwrap(), expected);
        assert_eq!(trace.pages().unwrap(), [1, 2]);
        assert_eq!((trace.accesses, trace.instructions, trace.wss().unwrap().get()), (4, 3, 192));
    }

    #[test]
    fn a_window_begins_and_ends_where_it_is_asked_to() {
        let window = TraceWindow { skip: 2, take: 1, thread: None };
        let read = read(LACKEY, window).unwrap();
        assert_eq!(read.trace.visits().unwrap(), [visit(1, "r", 2)]);
        assert!(read.notes.is_empty(), "{:?}", read.notes);
        let whole =
            super::ParsedTrace::from(LACKEY.as_bytes(), "job.trace", TraceWindow::default())
                .unwrap();
        assert_ne!(whole.trace.label(), read.trace.label());
    }

    #[test]
    fn a_file_of_any_size_is_read_no_further_than_the_window() {
        struct Endless(u64);
        impl std::io::Read for Endless {
            fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
                self.0 += 1;
                let line = format!(" L {:x},8\n", self.0 * 64);
                buffer[..line.len()].copy_from_slice(line.as_bytes());
                Ok(line.len())
            }
        }
        let input = std::io::BufReader::new(Endless(0));
        let window = TraceWindow { skip: 10_000, take: 100, thread: None };
        let read = super::ParsedTrace::from(input, "pipe", window).unwrap();
        assert_eq!((read.trace.accesses, read.trace.wss().unwrap().get()), (100, 6_400));
    }

    #[test]
    fn a_trace_cut_in_two_is_used_up_to_the_cut_and_says_so() {
        let cut = &LACKEY[..LACKEY.len() - 4];
        let read = read(cut, TraceWindow::default()).unwrap();
        assert_eq!(read.trace.accesses, 3);
        assert!(read.notes[0].contains("was cut off within line 8"), "{:?}", read.notes);
        assert!(
            read.notes[1].contains("only 3 of the 1000000 requested accesses"),
            "{:?}",
            read.notes
        );
    }

    #[test]
    fn of_several_threads_the_first_is_taken_or_the_one_that_is_asked_for() {
        let text = "T1 read 8 byte(s) @ 0x40 by PC 0x1\nT2 write 8 byte(s) @ 0x80 by PC 0x1\n\
                    T1 read 8 byte(s) @ 0xc0 by PC 0x1\n<marker: filetype 0x48>\n";
        let first = read(text, TraceWindow::default()).unwrap();
        assert_eq!(first.trace.accesses, 2);
        let notes = first.notes.join("\n");
        assert!(notes.contains("1 accesses of threads other than 1"), "{notes}");
        assert!(notes.contains("recorded on AArch64"), "{notes}");
        let second =
            read(text, TraceWindow { thread: "2".parse().ok(), ..TraceWindow::default() }).unwrap();
        assert_eq!(second.trace.visits().unwrap(), [visit(2, "w", 1)]);
    }

    #[test]
    fn a_thread_named_with_its_program_is_one_thread_and_an_absent_one_is_an_error() {
        let of = |thread: &str, what: &str, address: &str| {
            format!("1 1: {thread} {what} 8 byte(s) @ 0x{address} by PC 0x1\n")
        };
        let text = [
            of("W0.T501", "ifetch", "0"),
            of("W0.T501", "read", "40"),
            "----------\n".to_owned(),
            of("W0.T777", "ifetch", "0"),
            of("W0.T777", "ifetch", "0"),
            of("W0.T777", "write", "80"),
            of("W1.T501", "write", "80"),
            of("W0.T777", "ifetch", "0"),
            "----------\n".to_owned(),
            of("W0.T501", "ifetch", "0"),
            of("W0.T501", "read", "c0"),
        ]
        .concat();
        let asked = |thread: &str| {
            read(&text, TraceWindow { thread: thread.parse().ok(), ..TraceWindow::default() })
        };
        for thread in ["", "501", "T501", "W0.T501"] {
            let read = asked(thread).unwrap();
            // An instruction before each access, and none of other threads.
            assert_eq!(read.trace.visits().unwrap(), [visit(1, "r", 2), visit(3, "r", 2)]);
            let notes = read.notes.join("\n");
            assert!(notes.contains("2 accesses of threads other than W0.T501"), "{notes}");
            assert!(!notes.contains("do not have the format"), "{notes}");
        }
        assert_eq!(asked("777").unwrap().trace.visits().unwrap(), [visit(2, "w", 3)]);
        assert_eq!(asked("W1.T501").unwrap().trace.visits().unwrap(), [visit(2, "w", 1)]);
        for absent in ["12345", "W2.T501"] {
            let error = asked(absent).unwrap_err().to_string();
            let there = "W0.T501, W0.T777, W1.T501";
            assert!(
                error.contains(&format!("thread {absent}")) && error.contains(there),
                "{error}"
            );
        }
        let error = "W0-T501".parse::<super::super::TraceThread>().unwrap_err().to_string();
        assert!(
            error.contains("`W0-T501`") && error.contains("W0.T501 as the trace does"),
            "{error}"
        );
        // Lackey names no threads, so that none can be chosen.
        let error =
            read(LACKEY, TraceWindow { thread: "1".parse().ok(), ..TraceWindow::default() })
                .unwrap_err();
        assert!(error.to_string().contains("name no threads"), "{error}");
    }

    #[test]
    fn what_is_no_trace_is_refused_with_its_kind() {
        let error = |bytes: &[u8]| {
            ParsedTrace::from(bytes, "it", TraceWindow::default()).unwrap_err().to_string()
        };
        assert!(
            error(b"PERFILE2\x00").contains("a recording of perf, not text: perf takes samples")
        );
        assert!(error(b"2ELIFREP\x00").contains("another byte order"));
        // Its text is no trace either: samples have no order.
        let samples =
            b"# PID, TID, IP, ADDR, LOCAL WEIGHT, DSRC, SYMBOL\n1,1,0x12,0x40,31,0x142,a:b\n";
        assert!(error(samples).contains("none of its first 2 lines"));
        assert!(error(b"\x1f\x8b\x08").contains("gzip"));
        assert!(error(b"a\x00b").contains("binary, not text"));
        assert!(error(b"hello\nworld\n").contains("none of its first 2 lines"));
        assert!(error(b"").contains("none of its first 0 lines"));
        assert!(error(b"I  0401ab70,3\n").contains("0 accesses to data"));
        assert!(error(&vec![b'x'; 1 << 20]).contains("no trace"));
    }

    #[test]
    fn a_plan_keeps_a_trace_and_finds_its_damage() {
        let trace = read(LACKEY, TraceWindow::default()).unwrap().trace;
        let json = serde_json::to_string(&trace).unwrap();
        assert_eq!(serde_json::from_str::<Trace>(&json).unwrap(), trace);
        for (from, to) in
            [("\"visits\":\"", "\"visits\":\"?"), ("\"visits\":\"", "\"visits\":\"//////A")]
        {
            let damaged: Trace = serde_json::from_str(&json.replace(from, to)).unwrap();
            assert!(damaged.visits().unwrap_err().to_string().contains("job.trace is damaged"));
        }
        let empty: Trace =
            serde_json::from_str(&json.replace("\"pages\":\"", "\"pages\":\"B")).unwrap();
        assert!(empty.wss().is_err());
    }
}
