// SPDX-License-Identifier: MIT OR Apache-2.0
//! A gate over two simulated results: equal machines raise false alarms as rarely as stated, and a planted change is found.
#![allow(clippy::print_stdout, reason = "a test program reports")]

use corehop_decide::comparison::{EquivalenceMargin, Quantities, ResultComparison, compare};
use corehop_decide::gate::{CostChange, FailOn, Gate};
use corehop_fixtures::x5650;
use corehop_plan::experiment::{Experiment, Synthetic};
use corehop_plan::machine::samples_of;
use corehop_plan::platform::Platform;
use corehop_plan::units::{Bytes, Nanos};
use corehop_plan::workload::{Event, WorkingSet};
use corehop_sim::SimMachine;
use corehop_stats::estimator::Estimator;

/// Controls, flushes and preemptions of two small working sets on all CPUs of both packages.
fn experiment(replicates: u32) -> Synthetic {
    let events = [Event::None, Event::Flush, Event::Preemption];
    let mut all =
        corehop_fixtures::idle(16, &events, Nanos::from_micros(200), 2 * replicates, "0-11");
    all.groups[0].sets.push(WorkingSet::list(Bytes::from_kib(64), 0.5));
    all
}

fn run(platform: &Platform, seed: u64) -> Quantities {
    const REPLICATES: u32 = 20;
    let plan = experiment(REPLICATES).replicated(platform, seed, REPLICATES).unwrap();
    let mut machine = SimMachine::new(platform.clone()).unwrap();
    let mut results = Quantities::new(Estimator::Difference);
    results.of_packages(&platform.packages.value);
    results.take(&samples_of(&mut machine, &plan).unwrap());
    results
}

fn compared(a: &Quantities, b: &Quantities, margin: EquivalenceMargin) -> ResultComparison {
    compare(a, b, margin, 0.05).unwrap()
}

const USUAL: EquivalenceMargin = EquivalenceMargin { share: 0.05, least_us: None };

/// `make soundness` draws 200 pairs from 40 runs; of 200 at 5 %, more than 17 have a probability of 1.2 %.
#[test]
fn two_equal_results_raise_a_false_alarm_as_rarely_as_stated_for_soundness() {
    let thorough = std::env::var_os("COREHOP_SOUNDNESS_SETS").is_some();
    let (runs, pairs, most) = if thorough { (40, 200, 17) } else { (3, 3, 1) };
    let platform = x5650();
    let all: Vec<Quantities> = (1..=runs).map(|seed| run(&platform, seed)).collect();
    let every = (0..all.len()).flat_map(|b| (0..b).map(move |a| (a, b)));
    // Spread over all pairs, so that no run is in many more than another.
    let step = (all.len() * (all.len() - 1) / 2 / pairs).max(1);
    let (mut alarms, mut passed) = (0, 0);
    for (a, b) in every.step_by(step).take(pairs) {
        let any = compared(&all[a], &all[b], EquivalenceMargin { share: 0.0, least_us: Some(0.0) });
        alarms += usize::from(any.count(CostChange::Slower) + any.count(CostChange::Faster) > 0);
        let gate = compared(&all[a], &all[b], USUAL).gate(&[FailOn::Slower]);
        passed += usize::from(gate == Gate::Passes);
    }
    println!("false alarms: {alarms} of {pairs} without a margin; the usual gate passes {passed}");
    assert!(alarms <= most, "{alarms} of {pairs} pairs");
    assert!(passed + most >= pairs, "only {passed} of {pairs} pass");
}

#[test]
fn slower_memory_is_found_in_every_flush_that_it_concerns() {
    let text = x5650().to_toml();
    let slow = text.replacen("183 cycles", "280 cycles", 1);
    assert_ne!(text, slow);
    let slow = Platform::from_toml(&slow).unwrap();
    let comparison = compared(&run(&x5650(), 1), &run(&slow, 2), USUAL);
    let slower = |it: &&corehop_decide::comparison::QuantityComparison| {
        it.quantity.name.starts_with("flush") && it.decided.outcome == CostChange::Slower
    };
    let names: Vec<&str> =
        comparison.cells.iter().filter(slower).map(|it| it.quantity.name.as_str()).collect();
    for size in ["flush 16 KiB", "flush 64 KiB"] {
        assert!(names.iter().any(|name| name.starts_with(size)), "{names:?}");
    }
    assert_eq!(comparison.gate(&[FailOn::Slower]), Gate::Fails);
}
