// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads `stat` and `schedstat` of a process or thread.

use corehop_plan::units::Cpu;

use super::{number, shown, words};

/// The used fields of `/proc/PID/stat` (proc_pid_stat(5)).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stat {
    /// The ID of the process or thread.
    pub pid: u32,
    /// The letter of the state: `R`, `S`, `D`, `Z`, `T`, …
    pub state: u8,
    /// The ID of the parent process.
    pub parent: u32,
    /// The ID of the process group.
    pub(crate) pgrp: i32,
    /// User and system time, in clock ticks.
    pub own_ticks: u64,
    /// User and system time of the children for which the process has waited, in clock ticks.
    pub(crate) child_ticks: u64,
    /// The start time, in clock ticks since the host started.
    pub start_time: u64,
    /// The CPU on which the thread ran last; `None` before Linux 2.2.8.
    pub cpu: Option<Cpu>,
}

/// The ID, the name, and the fields from the third one on. The fields follow the last parenthesis, because a name may
/// contain blanks, line ends and parentheses, but no later field does.
fn parts(text: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    let open = text.iter().position(|&byte| byte == b'(')?;
    let close = text.iter().rposition(|&byte| byte == b')').filter(|&close| close > open)?;
    Some((&text[..open], &text[open + 1..close], &text[close + 1..]))
}

impl Stat {
    /// Parses the text of the file; `None` if its format is unexpected.
    pub fn parse(text: &[u8]) -> Option<Self> {
        let (pid, _, rest) = parts(text)?;
        let mut fields = [&b""[..]; 37];
        let count = fields.iter_mut().zip(words(rest)).map(|(field, word)| *field = word).count();
        let unsigned = |at: usize| number::<u64>(fields[at]);
        Some(Self {
            pid: number(pid.trim_ascii())?,
            state: *fields[0].first().filter(|_| count > 19)?,
            parent: number(fields[1])?,
            pgrp: number(fields[2])?,
            own_ticks: unsigned(11)?.checked_add(unsigned(12)?)?,
            child_ticks: unsigned(13)?.checked_add(unsigned(14)?)?,
            start_time: unsigned(19)?,
            cpu: number(fields[36]).map(Cpu),
        })
    }

    /// Returns the name in the text of the file: see [`shown`].
    pub fn name(text: &[u8]) -> Option<String> {
        Some(shown(parts(text)?.1))
    }

    /// Returns whether the process is dead, possibly still waiting for its parent to reap it.
    pub const fn is_dead(&self) -> bool {
        matches!(self.state, b'Z' | b'X' | b'x')
    }

    /// Whether the process is stopped by a signal or a tracer, and does nothing until it is continued.
    pub(crate) const fn is_stopped(&self) -> bool {
        matches!(self.state, b'T' | b't')
    }
}

/// The kernel's accounting of a thread (`/proc/PID/task/TID/schedstat`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Schedstat {
    /// The thread's CPU time, in nanoseconds.
    pub cpu_ns: u64,
    /// The time for which the thread waited for a CPU, in nanoseconds.
    pub waited_ns: u64,
    /// The number of times that the thread got a CPU.
    pub turns: u64,
}

impl Schedstat {
    /// Parses the text of the file; `None` if it does not contain three numbers.
    pub fn parse(text: &[u8]) -> Option<Self> {
        let mut numbers = words(text).map(number);
        let mut next = || numbers.next()?;
        Some(Self { cpu_ns: next()?, waited_ns: next()?, turns: next()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A line in the kernel's format with this name; the value of fields 4 to 52 is the field number.
    fn line(name: &[u8]) -> Vec<u8> {
        let fields: Vec<String> = (4..=52).map(|field| field.to_string()).collect();
        [b"77 (", name, b") S ", fields.join(" ").as_bytes(), b"\n"].concat()
    }

    #[test]
    fn the_fields_are_found_whatever_the_name_is() {
        let expected = Stat {
            pid: 77,
            state: b'S',
            parent: 4,
            pgrp: 5,
            own_ticks: 14 + 15,
            child_ticks: 16 + 17,
            start_time: 22,
            cpu: Some(Cpu(39)),
        };
        let hostile: [(&[u8], &str); 9] = [
            (b"cat", "cat"),
            (b"", ""),
            (b"a) b (c", "a) b (c"),
            (b") R 1 2\n3 4", r") R 1 2\x0a3 4"),
            (b")", ")"),
            (b"((", "(("),
            (b"\xc3\x9cberwachungsf\xc3", r"Überwachungsf\xc3"),
            (b"\xff\xfe\x1b[2J", r"\xff\xfe\x1b[2J"),
            (b"kworker/u:1) Z", "kworker/u:1) Z"),
        ];
        for (name, text) in hostile {
            let line = line(name);
            assert_eq!(Stat::parse(&line), Some(expected), "{text}");
            assert_eq!(Stat::name(&line).as_deref(), Some(text));
        }
    }

    #[test]
    fn a_line_that_the_kernel_does_not_write_is_none() {
        let whole = line(b"cat");
        for damaged in [&b""[..], b"77", b"77 (cat", b"77 cat) S 1", b")(", b"77 (cat) S 1 42"] {
            assert_eq!(Stat::parse(damaged), None, "{}", shown(damaged));
        }
        assert_eq!(Stat::parse(&whole[1..]).map(|it| it.pid), Some(7));
        assert_eq!(Stat::parse(&whole[2..]), None, "no number");
        // An overflow is no reason to end.
        let huge =
            [&b"7 (x) S 1 1 1 1 1 1 1 1 1 1 "[..], &b"18446744073709551615 ".repeat(30)].concat();
        assert_eq!(Stat::parse(&huge), None);
    }

    #[test]
    fn the_fields_up_to_the_start_time_are_enough() {
        let old = b"77 (a) Z 1 42 42 0 -1 4194304 9 8 7 6 10 20 300 4000 20 0 1 0 5555 0";
        let stat = Stat::parse(old).unwrap();
        assert_eq!((stat.pgrp, stat.start_time, stat.cpu), (42, 5555, None));
        assert_eq!((stat.own_ticks, stat.child_ticks), (30, 4300));
        assert!(stat.is_dead() && !stat.is_stopped());
    }

    #[test]
    fn an_account_has_three_numbers() {
        let account = Schedstat { cpu_ns: 7, waited_ns: 446_333, turns: 1 };
        assert_eq!(Schedstat::parse(b"7 446333 1\n"), Some(account));
        for damaged in [&b"7 8"[..], b"", b"7 \xff 9"] {
            assert_eq!(Schedstat::parse(damaged), None);
        }
    }
}
