// SPDX-License-Identifier: MIT OR Apache-2.0
//! Facts from the kernel's type information, such as whether a field exists or how large a type is.
//!
//! A question is a C function in `bpf/facts.bpf.c` that returns the answer. The loader writes the running kernel's
//! answer into the function's first instruction, and corehop reads the answer from there; the function never runs.

use aya::Btf;
use aya_obj::Object;
use aya_obj::generated::{BPF_ALU, BPF_ALU64, BPF_MOV, bpf_insn};

use super::BpfError;

/// The compiled functions of `bpf/facts.bpf.c`, each of which asks one question about the kernel's types.
const OBJECT: &[u8] = aya::include_bytes_aligned!("../../bpf/facts.bpf.o");

/// The answers of one kernel to corehop's questions about its types.
#[derive(Debug)]
pub struct Facts {
    object: Object,
}

impl Facts {
    /// Returns the answers of the type information `types` to all questions of corehop.
    ///
    /// # Errors
    /// Fails if the types lack something that a question must assume.
    pub fn of(types: &Btf) -> Result<Self, BpfError> {
        Self::asked_in(OBJECT, types)
    }

    /// The answers of the type information `types` to the questions in the object file `bytes`.
    pub(super) fn asked_in(bytes: &[u8], types: &Btf) -> Result<Self, BpfError> {
        let malformed = |reason: String| BpfError::Malformed { reason };
        let mut object = Object::parse(bytes).map_err(|error| malformed(error.to_string()))?;
        object.relocate_btf(types).map_err(|error| malformed(error.to_string()))?;
        Ok(Self { object })
    }

    /// The instructions of the function with this name; `None` if the object has no such function.
    pub(super) fn instructions(&self, function: &str) -> Option<&[bpf_insn]> {
        let mut all = self.object.functions.values();
        all.find(|it| it.name == function).map(|it| it.instructions.as_slice())
    }

    /// Returns the answer to a question; `None` if the types lack the subject of the question.
    pub fn answer(&self, question: &str) -> Option<u32> {
        let first = self.instructions(question)?.first()?;
        // Set a register to a number, in either width; a call where there is no answer.
        let set = [BPF_ALU | BPF_MOV, BPF_ALU64 | BPF_MOV].contains(&u32::from(first.code));
        set.then(|| first.imm.cast_unsigned())
    }

    /// Returns whether the answer to a yes-or-no question is yes.
    pub fn says(&self, question: &str) -> bool {
        self.answer(question).is_some_and(|answer| answer != 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bpf::parse_types;

    /// Type information of a kernel whose `struct rq` has only the field `field`, of 8 bytes.
    fn kernel_with(field: &str) -> Btf {
        let strings = [b"\0rq\0", field.as_bytes(), b"\0"].concat();
        let types: [u32; 10] = [0, 1 << 24, 8, 64, 1, 4 << 24 | 1, 8, 4, 1, 0];
        let bytes = size_of_val(&types) as u32;
        let header = [24, 0, bytes, bytes, strings.len() as u32];
        let mut blob = 0xeb9f_u16.to_ne_bytes().to_vec();
        blob.extend([1, 0]);
        blob.extend(header.iter().chain(&types).flat_map(|word| word.to_ne_bytes()));
        blob.extend(strings);
        parse_types(&blob).unwrap()
    }

    #[test]
    fn a_field_is_there_or_it_is_not() {
        let facts = Facts::of(&kernel_with("prev_irq_time")).unwrap();
        assert!(facts.says("subtracts_interrupts") && !facts.says("tells_steal"));
        let facts = Facts::of(&kernel_with("prev_steal_time_rq")).unwrap();
        assert!(!facts.says("subtracts_interrupts") && facts.says("tells_steal"));
    }

    #[test]
    fn what_is_not_asked_has_no_answer() {
        let facts = Facts::of(&kernel_with("prev_irq_time")).unwrap();
        assert_eq!(facts.answer("no_such_question"), None);
        assert_eq!(facts.answer("tells_steal"), Some(0));
    }
}
