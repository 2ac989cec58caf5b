// SPDX-License-Identifier: MIT OR Apache-2.0
//! The share of its working set that a job loses while it is away: the additional time of a touch, divided by the
//! time that losing every line costs the described machine. Live flushes are not used for this: a flush costs a small
//! working set more than losing all its lines, because the lines are read while they are still being written back.

use corehop_plan::platform::{Fact, Loss};
use corehop_plan::units::{Bytes, Nanos};
use corehop_plan::workload::Event;
use corehop_stats::ordered::Ordered;
use corehop_stats::quantile::quantile;

use super::cells::{LENGTHS, SIZES};
use super::trial::IdleLineTimes;

/// The number of quantiles of a loss in a platform file.
const QUANTILES: usize = 20;

/// The fewest absences for which quantiles are computed.
const FEWEST: usize = 20;
/// The lowest full cost per line, in nanoseconds, with which a loss is computed. At smaller costs a working set has
/// nothing to lose.
const LEAST_NS: f64 = 5.0;

/// The losses of every length and size that was measured live, in the order of sizes; `flushed` contains flushes on
/// the described machine.
pub(super) fn losses(live: &IdleLineTimes, flushed: &IdleLineTimes) -> Vec<Loss> {
    let all = SIZES.iter().flat_map(|&wss| LENGTHS.map(|length| (wss, length)));
    all.filter_map(|(wss, length)| loss(live, flushed, wss, length)).collect()
}

fn loss(live: &IdleLineTimes, flushed: &IdleLineTimes, wss: Bytes, length: Nanos) -> Option<Loss> {
    let whole = flushed.delay(Event::Flush, wss, Nanos::new(0))?.median;
    let shares: Vec<f64> = live
        .delays(Event::IdleLeave, wss, length)
        .iter()
        .map(|delay| (delay / whole).clamp(0.0, 1.0))
        .collect();
    if shares.len() < FEWEST || whole < LEAST_NS {
        return None;
    }
    let ordered = Ordered::new(&shares).ok()?;
    let of = |at: usize| {
        let share = quantile(&ordered, (at as f64 + 0.5) / QUANTILES as f64).ok()?;
        Some((share * 1e3).round() as u32)
    };
    let share: Option<Vec<u32>> = (0..QUANTILES).map(of).collect();
    let how = format!(
        "delays of idle_leave divided by the delay of a simulated flush, {} absences",
        shares.len()
    );
    Some(Loss { length, wss, share: Fact::measured(share?, how) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use corehop_plan::samples::Sample;
    use corehop_plan::samples::example::sample;

    #[test]
    fn a_loss_is_the_share_of_what_a_flush_costs() {
        let base = Sample { wss_bytes: SIZES[0].get(), lines: 100, warm_ns: 0.0, ..sample() };
        let flush = |ns| Sample {
            event: Event::Flush,
            requested_length_ns: 0,
            resumed_ns: ns,
            ..base.clone()
        };
        let away = |ns| Sample {
            event: Event::IdleLeave,
            requested_length_ns: LENGTHS[0].get(),
            resumed_ns: ns,
            ..base.clone()
        };
        let mut samples = vec![flush(1_000.0), flush(1_000.0)];
        samples.extend((0..=100).map(|share| away(10.0 * f64::from(share))));
        // A touch that was slower than a flush lost everything, one that was faster than warm nothing.
        samples.extend([away(3_000.0), away(-500.0)]);
        let times = IdleLineTimes::of(&samples);
        let [loss] = &losses(&times, &times)[..] else { panic!() };
        assert_eq!((loss.length, loss.wss), (LENGTHS[0], SIZES[0]));
        let shares = &loss.share.value;
        assert!(shares.is_sorted() && shares.len() == QUANTILES);
        assert!(shares[0] <= 30 && shares[19] >= 970, "{shares:?}");
        assert!((450..550).contains(&shares[10]), "{shares:?}");
    }

    #[test]
    fn few_absences_and_a_flush_that_costs_nothing_tell_no_loss() {
        let base = Sample { wss_bytes: SIZES[0].get(), lines: 100, warm_ns: 0.0, ..sample() };
        let times = |count: usize, flush_ns: f64| {
            let flush = Sample {
                event: Event::Flush,
                requested_length_ns: 0,
                resumed_ns: flush_ns,
                ..base.clone()
            };
            let away = Sample {
                event: Event::IdleLeave,
                requested_length_ns: LENGTHS[0].get(),
                resumed_ns: flush_ns / 2.0,
                ..base.clone()
            };
            let mut all = vec![flush];
            all.extend(vec![away; count]);
            IdleLineTimes::of(&all)
        };
        let shares = |count, flush_ns| {
            let times = times(count, flush_ns);
            losses(&times, &times).into_iter().map(|it| it.share.value).collect::<Vec<_>>()
        };
        assert_eq!(shares(FEWEST, 1_000.0), [vec![500; QUANTILES]]);
        assert!(shares(FEWEST - 1, 1_000.0).is_empty());
        // 5 ns a line, and less.
        assert_eq!(shares(FEWEST, 500.0).len(), 1);
        assert!(shares(FEWEST, 490.0).is_empty());
    }
}
