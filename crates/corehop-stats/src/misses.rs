// SPDX-License-Identifier: MIT OR Apache-2.0
//! SMR and MPmI of running threads, from hardware counters (Kamali 2010, section 4.3.5).

use serde::Serialize;

use corehop_plan::host::InstructionCounts;

/// The miss rates of a thread or a program.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct MissRates {
    /// The misses that another core's cache answered, divided by all misses (SMR), or `None`
    /// without a miss.
    pub smr: Option<f64>,
    /// The misses of the last-level cache per million instructions (MPmI).
    pub mpmi: f64,
}

impl MissRates {
    /// Returns the miss rates of the given counts, or `None` without an instruction.
    pub fn of(counted: &InstructionCounts) -> Option<Self> {
        let InstructionCounts { instructions, misses, from_caches } = *counted;
        let over = |part: u64, whole: u64| (whole > 0).then(|| part as f64 / whole as f64);
        Some(Self { smr: over(from_caches, misses), mpmi: 1e6 * over(misses, instructions)? })
    }
}

/// Returns the sum of the counts, or `None` if nothing was counted.
pub fn sum(
    counted: impl IntoIterator<Item = Option<InstructionCounts>>,
) -> Option<InstructionCounts> {
    counted.into_iter().flatten().reduce(|x, y| InstructionCounts {
        instructions: x.instructions + y.instructions,
        misses: x.misses + y.misses,
        from_caches: x.from_caches + y.from_caches,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_has_the_rates_of_its_threads_together() {
        let thread = |instructions, misses, from_caches| {
            Some(InstructionCounts { instructions, misses, from_caches })
        };
        let all = sum([thread(400_000, 30, 30), None, thread(600_000, 10, 0)]).unwrap();
        assert_eq!(MissRates::of(&all), Some(MissRates { smr: Some(0.75), mpmi: 40.0 }));
        assert_eq!(MissRates::of(&thread(5, 0, 0).unwrap()).unwrap().smr, None);
        assert_eq!(MissRates::of(&InstructionCounts::default()), None);
        assert_eq!(sum([None]), None);
    }
}
