// SPDX-License-Identifier: MIT OR Apache-2.0
//! Advice from the costs of a simulated machine.

use corehop_decide::advice::{Advice, AdviceQuery, AdviceRule, advise};
use corehop_decide::simulated::SimulationGrid;
use corehop_plan::platform::Platform;
use corehop_plan::units::Nanos;

use crate::failure::{Exit, Failure};

/// The longest simulated preemption, because a longer preemption evicts little more and the longer wait decides the
/// advice in any case.
const LONGEST: Nanos = Nanos::from_millis(100);

/// A request for advice from a simulation.
#[derive(Debug, Clone)]
pub struct SimulatedAdvice {
    /// The query for which the simulation gives advice. The simulation covers the sizes of the query, and preemptions
    /// of up to the query's wait (at most 100 ms).
    pub wanted: AdviceQuery,
    /// Whether polluters run on the other CPUs.
    pub loaded: bool,
    /// The number of samples per cell.
    pub samples: u32,
    /// The seed of all random draws.
    pub seed: u64,
}

impl SimulatedAdvice {
    /// Simulates the synthetic experiment on a platform, and advises from its samples and from the savings of cache
    /// partitioning.
    ///
    /// # Errors
    /// Fails with exit code 2 for advice that the simulation cannot give, and with exit code 3 if the platform cannot
    /// be simulated.
    pub fn on(&self, platform: &Platform) -> Result<Advice, Failure> {
        let grid = self.grid();
        let advice = advise(&grid.model(platform)?, &self.wanted);
        let mut advice = advice.map_err(|error| Failure::new(Exit::Usage, error))?;
        let (savings, silent) = grid.partitioning(platform)?;
        // The grid is fixed: a command that measures more of this platform would not change it.
        let vague = |rule: &AdviceRule| rule.moves.iter().any(|it| it.pays_from.high_us.is_none());
        let more = "some costs have no interval, so corehop cannot advise on any wait; simulate more samples (`--samples 40`)";
        advice.lacking =
            if advice.rules.iter().any(vague) { vec![more.to_owned()] } else { Vec::new() };
        advice.partitioning = savings;
        advice.silent.extend(silent);
        Ok(advice)
    }
    fn grid(&self) -> SimulationGrid {
        let mut grid = SimulationGrid {
            loaded: self.loaded,
            samples: self.samples,
            seed: self.seed,
            ..SimulationGrid::default()
        };
        if !self.wanted.wss.is_empty() {
            grid.wss.clone_from(&self.wanted.wss);
        }
        let wait = self.wanted.length.map(|wait| wait.min(LONGEST));
        grid.lengths.extend(wait.filter(|wait| !grid.lengths.contains(wait)));
        grid
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use corehop_decide::advice::Preference;
    use corehop_plan::units::Bytes;
    use corehop_plan::workload::Event;

    fn asked(length: Option<Nanos>, samples: u32) -> SimulatedAdvice {
        let wanted = AdviceQuery { wss: vec![Bytes::from_kib(16)], length, only: Vec::new() };
        SimulatedAdvice { wanted, loaded: false, samples, seed: 1 }
    }

    #[test]
    fn a_preemption_as_long_as_the_wait_is_simulated_unless_that_takes_for_ever() {
        let lengths = |length| asked(length, 12).grid().lengths;
        let usual = lengths(None);
        assert_eq!(lengths(Some(Nanos::from_millis(4))), usual);
        let with = |length| [usual.clone(), vec![length]].concat();
        assert_eq!(lengths(Some(Nanos::from_millis(25))), with(Nanos::from_millis(25)));
        assert_eq!(lengths(Some(Nanos::from_secs(3_600))), with(LONGEST));
    }

    #[test]
    fn a_wait_that_no_migration_is_as_long_as_has_advice() {
        let platform = Platform::named("xeon_x5650").unwrap().unwrap();
        let of = |samples| asked(Some(Nanos::from_millis(5)), samples).on(&platform).unwrap();
        let advice = of(40);
        assert!(advice.is_any() && advice.lacking.is_empty(), "{advice:?}");
        let rule = &advice.rules[0];
        assert_eq!(rule.waits[0].verdict, Preference::Move(Event::L3Migration));
        assert!(rule.moves.iter().all(|it| it.length_us < 1e-9 && !it.at_most), "{rule:?}");
        let vague = of(2);
        assert_eq!(vague.rules[0].waits[0].verdict, Preference::Unknown);
        assert!(!vague.is_any() && vague.lacking[0].contains("--samples"), "{vague:?}");
    }
}
