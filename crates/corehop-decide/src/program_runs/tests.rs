// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of run comparisons that can be computed by hand.

use proptest::prelude::*;

use super::*;
use corehop_plan::samples::{ObservedThread, RecordingFacts};

fn run(arm: &str, block: u64, wall_us: u64) -> RunFigures {
    let row = RecordedRun {
        machine: "host".into(),
        seed: 1,
        run: 0,
        arm: arm.into(),
        block,
        began_ns: 0,
        wall_ns: wall_us * 1_000,
        cpu_ns: Some(wall_us * 500),
        waited_ns: None,
        preemptions: wall_us / 100,
        migrations: 0,
        status: Some(0),
        ran_on: None,
        allowed: None,
        bound_to: None,
    };
    RunFigures::of(&row, None)
}

/// A block of three runs: the unchanged command twice, and the command with the change.
fn block(number: u64, [plain, again, changed]: [u64; 3]) -> [RunFigures; 3] {
    [run("plain", number, plain), run("again", number, again), run("pinned", number, changed)]
}

fn compared(blocks: &[[u64; 3]]) -> RunComparison {
    let runs = blocks.iter().zip(0..).flat_map(|(&times, number)| block(number, times));
    arms(&runs.collect::<Vec<_>>(), 0.05).unwrap()
}

fn close(value: f64, expected: f64) -> bool {
    (value - expected).abs() < 1e-9
}

#[test]
fn a_change_is_the_median_of_the_ratios_of_pairs_with_the_interval_of_the_sign_test() {
    // Ratios 0.89 to 0.94, whatever the block's own speed: the six of them are the interval at 96.9 %.
    let blocks: Vec<[u64; 3]> =
        (0..6).map(|k| [1_000 * (1 + k), 1_000 * (1 + k), (890 + 10 * k) * (1 + k)]).collect();
    let comparison = compared(&blocks);
    let arm = &comparison.arms[0];
    let wall = arm.wall_time().unwrap();
    let middle = (0.91_f64 * 0.92).sqrt() - 1.0;
    assert!(close(wall.change, middle), "{wall:?}");
    let interval = wall.interval.unwrap();
    assert!(close(interval.low, -0.11) && close(interval.high, -0.06), "{interval:?}");
    assert_eq!((arm.name.as_str(), wall.seen, wall.pairs), ("pinned", Seen::Less, 6));
    assert!(close(wall.floor.unwrap(), 0.0) && close(wall.smallest.unwrap(), 0.0));
    assert_eq!(comparison.pairs_needed(), None);
}

#[test]
fn counts_are_compared_by_their_difference_and_may_be_zero() {
    let comparison = compared(&[[1_000, 1_000, 400]; 6]);
    let of = |quantity| comparison.arms[0].effects.iter().find(|it| it.quantity == quantity);
    let preemptions = of(RunQuantity::Preemptions).unwrap();
    assert!(!preemptions.relative && close(preemptions.change, -6.0), "{preemptions:?}");
    assert_eq!(preemptions.seen, Seen::Less);
    let migrations = of(RunQuantity::Migrations).unwrap();
    assert!(close(migrations.change, 0.0) && migrations.seen == Seen::Nothing);
    assert!(of(RunQuantity::Waited).is_none(), "nothing is said of what is not known");
    assert!(of(RunQuantity::RefillLeast).is_none());
}

#[test]
fn a_change_no_larger_than_that_of_the_command_against_itself_is_not_seen() {
    // Both twins are 3 % slower in each block: nothing causes it.
    let comparison = compared(&[[1_000, 1_030, 1_020]; 8]);
    let wall = comparison.arms[0].wall_time().unwrap();
    assert!(wall.interval.unwrap().low > 0.0);
    assert_eq!(wall.seen, Seen::Nothing);
    assert!(close(wall.floor.unwrap(), 0.03));
}

#[test]
fn the_smallest_effect_is_half_of_the_interval_of_the_command_against_itself() {
    let again = [990, 1_010, 1_000, 980, 1_020, 1_000];
    let blocks = again.map(|again| [1_000, again, 1_500]);
    let comparison = compared(&blocks);
    let wall = comparison.arms[0].wall_time().unwrap();
    assert!(close(wall.smallest.unwrap(), 0.02), "{wall:?}");
    assert_eq!(wall.seen, Seen::More);
}

#[test]
fn five_pairs_have_no_interval_and_six_are_asked_for() {
    let comparison = compared(&[[1_000, 1_000, 500]; 5]);
    assert_eq!(comparison.arms[0].wall_time().unwrap().seen, Seen::CannotTell);
    assert_eq!(comparison.pairs_needed(), Some(6));
    assert!(!passes(&comparison, &[FailOn::Unknown], 0.05));
}

#[test]
fn a_block_without_one_of_the_two_makes_no_pair() {
    let mut runs: Vec<RunFigures> =
        (0..6).flat_map(|number| block(number, [1_000, 1_000, 900])).collect();
    runs.push(run("plain", 6, 5));
    runs.push(run("pinned", 7, 5));
    assert_eq!(arms(&runs, 0.05).unwrap().arms[0].wall_time().unwrap().pairs, 6);
}

#[test]
fn with_two_arms_each_interval_is_wider() {
    let of = |others: &[&str]| {
        let spread = |number: u64| 900 + number * 37 % 20;
        let runs = (0..20).flat_map(|number| {
            let of = |arm: &&str| run(arm, number, spread(number));
            let changed: Vec<RunFigures> = others.iter().map(of).collect();
            [vec![run("plain", number, 1_000)], changed].concat()
        });
        let comparison = arms(&runs.collect::<Vec<_>>(), 0.05).unwrap();
        comparison.arms[0].wall_time().unwrap().interval.unwrap().width()
    };
    assert!(of(&["a", "b", "c"]) > of(&["a"]));
}

#[test]
fn two_recordings_are_compared_by_the_medians_of_their_runs() {
    let runs = |us: u64| (0..20).map(|k| run("plain", k, us + k * 7 % 20)).collect::<Vec<_>>();
    let (slow, quick) = (runs(2_000), runs(1_000));
    let compare = |a: &[RunFigures], b: &[RunFigures]| {
        recordings([a, b], ["a.parquet", "b.parquet"], 0.05).unwrap()
    };
    let slower = compare(&quick, &slow);
    let wall = slower.arms[0].wall_time().unwrap();
    assert_eq!((wall.seen, slower.paired), (Seen::More, false));
    // The middle of two ratios lies below that of their logarithms by less than this.
    assert!((wall.change - 2_009.5 / 1_009.5 + 1.0).abs() < 1e-6, "{wall:?}");
    let one = compare(&quick[..1], &slow[..1]);
    assert_eq!(one.arms[0].wall_time().unwrap().seen, Seen::CannotTell);
}

#[test]
fn a_recording_that_knows_of_no_runs_is_one_and_without_its_threads_has_no_counts() {
    let facts = RecordingFacts { span_ns: 5_000, ..RecordingFacts::default() };
    let thread = ObservedThread { preemptions: 2, ..ObservedThread::default() };
    let recording = Recording { facts, threads: vec![thread], ..Recording::default() };
    let none = BTreeMap::new();
    let known = |recording: &Recording| RunFigures::of_recording(recording, &none).remove(0).values;
    let whole = known(&recording);
    assert_eq!(whole[&RunQuantity::WallTime].to_bits(), 5.0_f64.to_bits());
    assert_eq!(whole[&RunQuantity::Preemptions].to_bits(), 2.0_f64.to_bits());
    let alone = known(&Recording { threads: Vec::new(), ..recording });
    assert_eq!(alone.keys().collect::<Vec<_>>(), [&RunQuantity::WallTime]);
}

#[test]
fn runs_that_failed_are_left_out() {
    let of = |status| RecordedRun { status, ..Recording::default().ended_runs().remove(0) };
    let runs = vec![of(Some(0)), of(Some(1)), of(None)];
    let recording = Recording { runs, ..Recording::default() };
    assert_eq!(RunFigures::of_recording(&recording, &BTreeMap::new()).len(), 2);
}

#[test]
fn runs_without_a_change_have_nothing_to_compare_and_pass_no_gate() {
    let runs: Vec<RunFigures> = (0..8).map(|k| run("plain", k, 1_000)).collect();
    let comparison = arms(&runs, 0.05).unwrap();
    assert!(comparison.arms.is_empty() && comparison.itself.is_none());
    assert!(!passes(&comparison, &[FailOn::Slower], 0.05));
}

proptest! {
    /// The test exchanges the names of the two arms: every change and every interval must change
    /// its sign.
    #[test]
    fn exchanged_arms_turn_the_sign(times in proptest::collection::vec((100_u64..9_000, 100_u64..9_000), 1..30)) {
        let of = |swapped: bool| {
            let runs = times.iter().zip(0..).flat_map(|(&(one, other), number)| {
                let (plain, pinned) = if swapped { (other, one) } else { (one, other) };
                [run("plain", number, plain), run("pinned", number, pinned)]
            });
            arms(&runs.collect::<Vec<_>>(), 0.05).unwrap().arms.remove(0)
        };
        let (there, back) = (of(false), of(true));
        let turned = |effect: &Effect, value: f64| {
            if effect.relative { (-value.ln_1p()).exp_m1() } else { -value }
        };
        let same = |one: f64, other: f64| (one - other).abs() < 1e-9 * (1.0 + other.abs());
        for (one, other) in there.effects.iter().zip(&back.effects) {
            prop_assert!(same(turned(one, one.change), other.change), "{one:?} {other:?}");
            prop_assert_eq!(one.interval.is_some(), other.interval.is_some());
            if let Some((a, b)) = one.interval.zip(other.interval) {
                prop_assert!(same(turned(one, a.low), b.high) && same(turned(one, a.high), b.low));
            }
            let turn = match one.seen {
                Seen::More => Seen::Less,
                Seen::Less => Seen::More,
                same => same,
            };
            prop_assert_eq!(turn, other.seen);
        }
    }
}

/// Whether a gate passes.
fn passes(comparison: &RunComparison, fail_on: &[FailOn], margin: f64) -> bool {
    let margin = EquivalenceMargin { share: margin, least_us: None };
    comparison.judged(fail_on, margin).unwrap().gate == Gate::Passes
}
