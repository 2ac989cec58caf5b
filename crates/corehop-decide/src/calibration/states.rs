// SPDX-License-Identifier: MIT OR Apache-2.0
//! A guest may alternate between two machines: either its CPUs share the last cache level as declared, or the
//! hypervisor has placed them on separate caches. Each of the two machines has its own description.

use corehop_plan::platform::{Affinity, Platform};
use corehop_plan::samples::Sample;
use corehop_plan::units::Cpu;
use corehop_plan::workload::Event;

/// The smallest share of the samples with which a state is described.
const LEAST_SHARE: f64 = 0.2;

/// The samples of a live run, separated by the state of the host.
#[derive(Debug, Clone, PartialEq)]
pub struct States {
    /// The samples taken while CPUs shared caches as declared.
    pub declared: Vec<Sample>,
    /// The samples taken while CPUs that are declared to share a cache did not.
    pub apart: Vec<Sample>,
}

impl States {
    /// Separates the valid samples that were taken on `platform`.
    pub fn of(platform: &Platform, samples: &[Sample]) -> Self {
        let valid = samples.iter().filter(|sample| sample.valid).cloned();
        let (apart, declared) = valid.partition(|sample| is_apart(platform, sample));
        Self { declared, apart }
    }

    /// The share of the samples that were taken with CPUs apart.
    pub fn share_apart(&self) -> f64 {
        self.apart.len() as f64 / (self.apart.len() + self.declared.len()).max(1) as f64
    }

    /// Whether there are enough samples with CPUs apart to describe the state of the host in which CPUs are apart.
    pub fn is_met_apart(&self) -> bool {
        self.share_apart() >= LEAST_SHARE
    }

    /// Whether there are enough samples with CPUs as declared to describe the declared state of the host.
    pub fn is_met_declared(&self) -> bool {
        self.share_apart() <= 1.0 - LEAST_SHARE
    }
}

/// Whether a sample's CPU and its partner CPU, which are declared to share a cache, were measured to share none.
fn is_apart(platform: &Platform, sample: &Sample) -> bool {
    let cpu = |number: u64| u32::try_from(number).ok().map(Cpu);
    let pair = cpu(sample.from_cpu).zip(sample.exchange_cpu.and_then(cpu));
    let shares =
        pair.is_some_and(|(a, b)| matches!(platform.affinity(a, b), Affinity::L2 | Affinity::L3));
    shares && sample.pair_class == Some(Event::MemoryMigration)
}

#[cfg(test)]
mod tests {
    use super::*;
    use corehop_plan::samples::example::sample;

    #[test]
    fn a_sample_is_apart_where_its_declared_pair_was_measured_to_be() {
        let platform = Platform::named("xeon_e5520").unwrap().unwrap();
        let near = Sample {
            from_cpu: 0,
            exchange_cpu: Some(1),
            pair_class: Some(Event::L3Migration),
            ..sample()
        };
        let apart = Sample { pair_class: Some(Event::MemoryMigration), ..near.clone() };
        // Two packages are apart anyway.
        let packages = Sample { exchange_cpu: Some(4), ..apart.clone() };
        let alone = Sample { exchange_cpu: None, ..apart.clone() };
        let states = States::of(&platform, &[near, apart.clone(), packages, alone]);
        assert_eq!((states.apart, states.declared.len()), (vec![apart], 3));
    }

    #[test]
    fn cores_that_were_put_apart_share_no_cache_and_are_a_sound_description() {
        let platform = Platform::named("xeon_e5520").unwrap().unwrap();
        let apart = platform.apart();
        apart.validate().unwrap();
        assert_eq!(platform.affinity(Cpu(0), Cpu(1)), Affinity::L3);
        assert_eq!(apart.affinity(Cpu(0), Cpu(1)), Affinity::Memory);
        assert_eq!(apart.caches.len(), platform.caches.len());
    }

    #[test]
    fn a_state_is_met_from_a_fifth_of_the_samples_on_and_no_samples_are_as_declared() {
        let states = |apart: usize, declared: usize| States {
            declared: vec![sample(); declared],
            apart: vec![sample(); apart],
        };
        assert!(states(1, 4).is_met_apart() && states(1, 4).is_met_declared());
        assert!(!states(1, 5).is_met_apart());
        assert!(states(4, 1).is_met_declared() && !states(5, 1).is_met_declared());
        assert!((states(3, 1).share_apart() - 0.75).abs() < 1e-12);
        let none = states(0, 0);
        assert_eq!(
            (none.share_apart(), none.is_met_apart(), none.is_met_declared()),
            (0.0, false, true)
        );
    }

    #[test]
    fn invalid_samples_are_of_no_state() {
        let platform = Platform::named("xeon_e5520").unwrap().unwrap();
        let invalid = Sample { valid: false, ..sample() };
        let states = States::of(&platform, &[invalid, sample()]);
        assert_eq!((states.apart.len(), states.declared.len()), (0, 1));
    }
}
