// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads `status` of a process or thread, and other files with one field per line.

use std::str::FromStr;

use super::{lines, number, words};

/// The text of a file with lines of the form `NAME: VALUE`. The kernel escapes only line ends and backslashes of the
/// process name in a file of this kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Status(Vec<u8>);

impl Status {
    /// Wraps the text of the file.
    pub const fn new(text: Vec<u8>) -> Self {
        Self(text)
    }

    /// Returns the value of a field without surrounding blanks.
    pub fn field(&self, name: &str) -> Option<&[u8]> {
        let rest = lines(&self.0).find_map(|line| {
            let rest = line.strip_prefix(name.as_bytes())?;
            rest.strip_prefix(b":")
        });
        rest.map(<[u8]>::trim_ascii)
    }

    /// Returns the first number of a field.
    pub fn number<T: FromStr>(&self, name: &str) -> Option<T> {
        number(words(self.field(name)?).next()?)
    }

    /// Returns all numbers of a field.
    pub fn numbers<T: FromStr>(&self, name: &str) -> Vec<T> {
        words(self.field(name).unwrap_or_default()).map_while(number).collect()
    }

    /// Returns a field that the kernel gives in kB, in bytes.
    pub fn bytes(&self, name: &str) -> Option<u64> {
        let value = self.field(name)?.strip_suffix(b"kB")?;
        number::<u64>(value.trim_ascii())?.checked_mul(1_024)
    }

    /// Returns the letter of the process's state.
    pub fn state(&self) -> Option<u8> {
        self.field("State")?.first().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_is_found_by_its_name_beside_any_name_of_a_program() {
        // The kernel escapes the line end in the name, and leaves all other bytes.
        let text = b"Name:\tx\\nTgid:\t1\xff) Z\nUmask:\t0022\nState:\tS (sleeping)\nTgid:\t4711\n\
            NSpid:\t4711\t30\t7\nVmHWM:\t    512 kB\nVmLck:\t 18446744073709551615 kB\nEnd:\t";
        let status = Status::new(text.to_vec());
        assert_eq!(status.number("Tgid"), Some(4711));
        assert_eq!(status.numbers::<u32>("NSpid"), [4711, 30, 7]);
        assert_eq!(status.bytes("VmHWM"), Some(512 << 10));
        assert_eq!(status.bytes("VmLck"), None, "too large");
        assert_eq!(status.state(), Some(b'S'));
        assert_eq!(status.field("End"), Some(&b""[..]));
        assert_eq!((status.field("Vm"), status.number::<u32>("State")), (None, None));
        assert_eq!(Status::new(Vec::new()).field("Name"), None);
    }
}
