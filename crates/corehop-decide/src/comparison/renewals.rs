// SPDX-License-Identifier: MIT OR Apache-2.0
//! Defines the replicates of a run of `conditions`.

use corehop_plan::experiment::Renewed;

/// Counts the complete renewals of a run of `conditions`. Steps between two complete renewals keep most of the previous
/// step's random choices, so all steps from one complete renewal to the next are one replicate.
#[derive(Debug, Clone, Default)]
pub(super) struct Renewals {
    step: Option<u64>,
    complete: u64,
}

impl Renewals {
    /// The replicate of a sample whose step renewed `renewed`; steps must be given in order.
    pub(super) fn replicate(&mut self, step: Option<u64>, renewed: Renewed) -> u64 {
        if renewed == Renewed::Everything && self.step != step {
            self.complete += 1;
        }
        self.step = step;
        self.complete.saturating_sub(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_steps_up_to_the_next_complete_renewal_are_one_replicate() {
        let mut renewals = Renewals::default();
        let steps = [
            (0, Renewed::Everything),
            (0, Renewed::Everything),
            (1, Renewed::Frames),
            (2, Renewed::Everything),
            (3, Renewed::Threads),
            (4, Renewed::Everything),
        ];
        let replicates = steps.map(|(step, renewed)| renewals.replicate(Some(step), renewed));
        assert_eq!(replicates, [0, 0, 0, 1, 1, 2]);
    }

    #[test]
    fn steps_before_the_first_complete_renewal_and_without_a_number_are_of_the_first_replicate() {
        let mut renewals = Renewals::default();
        assert_eq!(renewals.replicate(Some(3), Renewed::Frames), 0);
        assert_eq!(renewals.replicate(Some(4), Renewed::Everything), 0);
        assert_eq!(renewals.replicate(Some(5), Renewed::Everything), 1);
        // A step without a number is one step, however many samples it has.
        let mut unnumbered = Renewals::default();
        let replicates = [0; 3].map(|_| unnumbered.replicate(None, Renewed::Everything));
        assert_eq!(replicates, [0; 3]);
    }
}
