// SPDX-License-Identifier: MIT OR Apache-2.0
//! A working set of code: a chain of jumps in random order, one per line.

use std::io;

use corehop_plan::experiment::DrawStream;
use corehop_plan::workload::{CHUNK_LINES, LINE};

use crate::memory::{Linked, Mapping};
use crate::rseq::SIGNATURE;

unsafe extern "C" {
    fn corehop_code_abort();
}

/// The kernel's `struct rseq_cs`: the code range of a sequence, and its abort address.
#[repr(C, align(32))]
#[derive(Debug)]
struct SequenceDescriptor {
    version: u32,
    flags: u32,
    start: u64,
    length: u64,
    abort: u64,
}

/// Executable lines that each end in a jump to the next.
#[derive(Debug)]
pub(crate) struct CodeMemory {
    descriptor: Box<SequenceDescriptor>,
    start: u64,
}

impl CodeMemory {
    /// Writes the chain into `mapping`, in an order drawn from `draw`, and makes the memory
    /// executable.
    ///
    /// # Errors
    /// Fails with the error of mprotect(2) if the system forbids executing memory that was once writable.
    pub(crate) fn write(
        mapping: &mut Mapping,
        lines: u64,
        draw: &mut DrawStream,
    ) -> io::Result<Self> {
        let base = mapping.address();
        let next = draw.cycle(lines as usize);
        let mut at = 0_usize;
        for place in 1..=lines {
            let line = at * LINE as usize;
            let target = (place < lines).then(|| i64::from(next[at]) * LINE as i64);
            let bytes = if place % CHUNK_LINES == 0 {
                stamping_line(line, target)
            } else {
                jumping_line(line, target)
            };
            mapping.bytes_mut()[line..line + bytes.len()].copy_from_slice(&bytes);
            at = next[at] as usize;
        }
        mapping.make_executable()?;
        let abort = corehop_code_abort as *const () as u64;
        debug_assert_eq!(SIGNATURE, 0x5305_3053);
        let descriptor =
            SequenceDescriptor { version: 0, flags: 0, start: base, length: lines * LINE, abort };
        Ok(Self { descriptor: Box::new(descriptor), start: base })
    }

    /// The start of a walk, and the address of its sequence's descriptor.
    pub(crate) fn linked(&self) -> Linked {
        Linked { start: self.start, end: (&raw const *self.descriptor) as u64, chains: [0; 8] }
    }
}

/// The code of `jmp target`, or of `jmp r12` at the end of the chain.
fn jump(from: usize, target: Option<i64>) -> Vec<u8> {
    match target {
        Some(target) => {
            let relative = (target - from as i64 - 5) as i32;
            [&[0xe9], &relative.to_le_bytes()[..]].concat()
        }
        None => vec![0x41, 0xff, 0xe4],
    }
}

fn jumping_line(line: usize, target: Option<i64>) -> Vec<u8> {
    jump(line, target)
}

/// The line at the end of a chunk: the time stamp and its checks, like `CH_STAMP` in walk.s.
fn stamping_line(line: usize, target: Option<i64>) -> Vec<u8> {
    let mut code = vec![
        0x0f, 0x31, // rdtsc
        0x48, 0xc1, 0xe2, 0x20, // shl rdx, 32
        0x48, 0x09, 0xd0, // or rax, rdx
        0x48, 0x89, 0xc2, // mov rdx, rax
        0x4c, 0x29, 0xfa, // sub rdx, r15
        0x49, 0x89, 0xc7, // mov r15, rax
        0x4c, 0x39, 0xea, // cmp rdx, r13
        0x76, 0x0a, // jbe on
        0x48, 0x8d, 0x35, 0x03, 0x00, 0x00, 0x00, // lea rsi, [rip + 3]: on
        0x41, 0xff, 0xe2, // jmp r10
        0x48, 0x8d, 0x2d, 0xf9, 0xff, 0xff, 0xff, // on: lea rbp, [rip - 7]: on itself
        0x4c, 0x39, 0xf0, // cmp rax, r14
        0x76, 0x03, // jbe onward
        0x41, 0xff, 0xe3, // jmp r11
    ];
    let onward = jump(line + code.len(), target);
    code.extend(onward);
    code
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_line_fits_into_a_cache_line() {
        for target in [Some(1 << 20), None] {
            assert!(stamping_line(0, target).len() <= LINE as usize);
            assert!(jumping_line(0, target).len() <= LINE as usize);
        }
    }

    #[test]
    fn a_jump_is_relative_to_its_own_end() {
        assert_eq!(jump(0, Some(64)), [0xe9, 59, 0, 0, 0]);
        assert_eq!(jump(64, Some(0)), [0xe9, 0xbb, 0xff, 0xff, 0xff]);
    }
}
