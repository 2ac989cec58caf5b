// SPDX-License-Identifier: MIT OR Apache-2.0
//! Finds the memory areas of a process that can be sampled, from the text of `/proc/PID/maps`.

use corehop_system::proc::{lines, number, words};

/// An address range, from its first byte to just after its last byte.
pub(super) type Range = (u64, u64);

/// The largest size of an inaccessible mapping before a stack for which the mapping counts as a guard; a larger mapping
/// is the rest of a heap.
const GUARD: u64 = 64 << 10;

fn address(digits: &[u8]) -> Option<u64> {
    u64::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}

/// A line of the maps file.
struct MapsEntry<'a> {
    range: Range,
    rights: &'a [u8],
    inode: u64,
    name: &'a [u8],
}

impl<'a> MapsEntry<'a> {
    /// Parses `START-END RIGHTS OFFSET DEVICE INODE NAME`.
    fn parse(text: &'a [u8]) -> Option<Self> {
        let mut words = words(text);
        let mut range = words.next()?.split(|&byte| byte == b'-').map(address);
        let range = (range.next()??, range.next()??);
        let (rights, inode) = (words.next()?, number(words.nth(2)?)?);
        Some(Self { range, rights, inode, name: words.next().unwrap_or_default() })
    }

    /// Whether the area is writable anonymous or shared memory: heaps, mappings, `/dev/shm`. Stacks and huge pages
    /// are left out.
    fn is_data(&self) -> bool {
        let writable = self.rights.starts_with(b"rw");
        let shared = self.rights.ends_with(b"s");
        let special = self.name.starts_with(b"[stack") || self.name.starts_with(b"[v");
        let huge = self.name.windows(8).any(|it| it == b"hugepage");
        writable && !special && !huge && (shared || self.inode == 0)
    }

    fn is_guard(&self) -> bool {
        self.rights.starts_with(b"---") && self.range.1 - self.range.0 <= GUARD
    }
}

/// The areas that can be sampled, in ascending order.
pub(super) fn areas(maps: &[u8]) -> Vec<Range> {
    let lines: Vec<MapsEntry> = lines(maps).filter_map(MapsEntry::parse).collect();
    let guarded = |at: usize| {
        let before = at.checked_sub(1).map(|at| &lines[at]);
        before.is_some_and(|it| it.is_guard() && it.range.1 == lines[at].range.0)
    };
    let data = lines.iter().enumerate().filter(|(at, it)| it.is_data() && !guarded(*at));
    data.map(|(_, it)| it.range).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heaps_and_mappings_are_sampled_and_code_stacks_and_files_are_not() {
        let maps = b"\
5581a000-5581b000 r-xp 00001000 fe:00 1234 /usr/bin/program
5581c000-5581d000 rw-p 00003000 fe:00 1234 /usr/bin/program
5581d000-5582e000 rw-p 00000000 00:00 0 [heap]
7f0000000000-7f0000021000 rw-p 00000000 00:00 0
7f0000021000-7f0004000000 ---p 00000000 00:00 0
7f0004000000-7f0004021000 rw-p 00000000 00:00 0
7f10e0000000-7f10e0001000 ---p 00000000 00:00 0
7f10e0001000-7f10e0801000 rw-p 00000000 00:00 0
7f10e1000000-7f10e1400000 rw-s 00000000 00:01 5 /dev/zero (deleted)
7f10e2000000-7f10e2400000 rw-s 00000000 00:0f 6 /anon_hugepage (deleted)
7f10e3000000-7f10e3400000 r--s 00000000 fe:00 7 /etc/some file
7f10e4000000-7f10e4400000 rw-s 00000000 00:01 8 /dev/shm/half a letter \xc3
7ffd00000000-7ffd00021000 rw-p 00000000 00:00 0 [stack]
ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0 [vsyscall]
not a line
";
        let expected = [
            (0x5581_d000, 0x5582_e000),
            (0x7f00_0000_0000, 0x7f00_0002_1000),
            (0x7f00_0400_0000, 0x7f00_0402_1000),
            (0x7f10_e100_0000, 0x7f10_e140_0000),
            (0x7f10_e400_0000, 0x7f10_e440_0000),
        ];
        assert_eq!(areas(maps), expected);
    }
}
