// SPDX-License-Identifier: MIT OR Apache-2.0
//! Computes how many independent replicates a series of replicates is worth.

use super::super::paired::exceeded;

/// The number of replicates from which dependence is corrected as soon as it is plausible.
const ENOUGH_TO_CORRECT: usize = 20;

/// Returns the number of standard errors above which an autocorrelation counts. In fewer replicates than
/// [`ENOUGH_TO_CORRECT`], an autocorrelation must stand out at 5 %, one-sided, because otherwise one in eight runs of
/// independent replicates would lose its interval.
fn stands_out(replicates: usize) -> f64 {
    if replicates < ENOUGH_TO_CORRECT { 1.645 } else { 1.0 }
}

/// Returns the number of independent replicates that the `series`, in time order, is worth; its length if no
/// dependence stands out. The series is modelled as an autoregression of its ranks, in which `(1 + ρ)/(1 - ρ)`
/// replicates carry as much information as one.
pub(super) fn worth(series: &[f64]) -> f64 {
    worth_among(series, 1)
}

/// Returns the number of independent replicates that one of `cells` jointly judged series is worth. The correlation
/// must stand out among all series, at 5 % for all together, because the largest of many correlations is no evidence.
pub(super) fn worth_among(series: &[f64], cells: usize) -> f64 {
    let n = series.len() as f64;
    // Of independent values the estimate is -1/n on average.
    let rho = rank_correlation(series) + 1.0 / n;
    let among_all = if cells > 1 { exceeded(0.05 / cells as f64) } else { 0.0 };
    if rho * n.sqrt() <= stands_out(series.len()).max(among_all) {
        return n;
    }
    let rho = rho.min(0.95);
    (n * (1.0 - rho) / (1.0 + rho)).max(1.0)
}

/// Returns the autocorrelation of the ranks at lag 1; 0 if all values are equal.
fn rank_correlation(series: &[f64]) -> f64 {
    let ranks = centred_ranks(series);
    let squares: f64 = ranks.iter().map(|rank| rank * rank).sum();
    let products: f64 = ranks.windows(2).map(|pair| pair[0] * pair[1]).sum();
    if squares > 0.0 { products / squares } else { 0.0 }
}

/// Returns twice the rank of each value minus the mean: the number of values below minus the number of values above.
/// The equal values of a series share a rank.
pub(super) fn centred_ranks(series: &[f64]) -> Vec<f64> {
    let mut sorted = series.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let above = |x: f64| sorted.len() - sorted.partition_point(|&value| value <= x);
    let rank = |&x: &f64| sorted.partition_point(|&value| value < x) as f64 - above(x) as f64;
    series.iter().map(rank).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ramp_is_worth_little_and_an_alternation_no_more_than_its_length() {
        let ramp: Vec<f64> = (0..50).map(f64::from).collect();
        assert!(worth(&ramp) < 3.0, "{}", worth(&ramp));
        let alternating: Vec<f64> = (0..50).map(|i| f64::from(i % 2)).collect();
        assert!((worth(&alternating) - 50.0).abs() < 1e-12);
    }

    #[test]
    fn a_correlation_that_is_one_of_many_has_to_stand_out_among_them() {
        // Ten values whose corrected rank correlation times √10 is 2.26: alone it stands out (1.645), as one of sixty (3.14) not.
        let series = [1.0, 2.0, 3.0, 5.0, 4.0, 7.0, 6.0, 8.0, 9.0, 10.0];
        assert!(worth(&series) < 6.0, "{}", worth(&series));
        assert!((worth_among(&series, 60) - 10.0).abs() < 1e-12);
        let ramp: Vec<f64> = (0..50).map(f64::from).collect();
        assert!(worth_among(&ramp, 1_000) < 3.0);
    }

    #[test]
    fn equal_replicates_show_no_dependence() {
        assert!((worth(&[3.0; 7]) - 7.0).abs() < 1e-12);
        assert!((worth(&[3.0]) - 1.0).abs() < 1e-12);
    }

    #[test]
    fn ties_share_a_rank() {
        assert_eq!(centred_ranks(&[2.0, 1.0, 2.0, 5.0]), [0.0, -3.0, 0.0, 3.0]);
    }
}
