// SPDX-License-Identifier: MIT OR Apache-2.0
//! Decides whether there are enough samples, with intervals that stay valid for any number of looks at the
//! data.
//!
//! A 95 % interval that is computed after every batch, until it is narrow enough, covers less than 95 %:
//! among many looks one errs, and sampling may stop exactly there. A confidence *sequence* errs at any time
//! at all with a total probability of at most `alpha`.
//!
//! **One quantile.** The number of samples at or below the quantile `p` is a sum of coin tosses with
//! probability `p`. The likelihood ratio against tosses of probability `p`, mixed over a beta prior, is a
//! martingale that starts at 1. The martingale ever reaches `1/alpha` with probability at most `alpha`
//! (Ville's inequality; Robbins, Annals of Mathematical Statistics 41, 1970). The numbers of tosses for
//! which the martingale stays below `1/alpha` bound the rank of the quantile. The bound of the rank is the
//! beta-binomial sequence of Howard and Ramdas (Bernoulli 28(3), 2022, section 3.2). The tests compare the
//! bound with the closed form of Howard and Ramdas (Theorem 1), which is wider at every size used here, by
//! half at a thousand samples.
//!
//! **All quantiles at once** ([`band_radius`]): this is a band around the whole distribution function, for
//! tables that show several quantiles during sampling.
//!
//! **Assumption.** Each sample is below the quantile with probability `p`, whatever the previous samples
//! are. If neighbours are visibly dependent, [`decided`] counts them as fewer samples (see
//! [`crate::moments`]), which is sound in the long run but not proven.

use serde::Serialize;
use statrs::function::gamma::ln_gamma;

use super::moments::dependence;
use super::ordered::{BadInput, Interval, Ordered, positive, probability};
use super::quantile::median;

/// The number of samples at which the sequence is tightest. The number must be fixed before any sample is
/// seen; a factor of ten in either direction widens the interval by a tenth.
const TIGHTEST_AT: f64 = 300.0;

/// The largest projection; a larger number only means that the target is out of reach.
const MOST_SAMPLES: usize = 1 << 40;

/// Returns the range `least..=greatest` that contains the number of samples at or below the quantile `p` at
/// all times `t`, with probability `1 - alpha`.
fn counts(t: usize, p: f64, alpha: f64) -> (usize, usize) {
    let mixture = Mixture::new(p, alpha);
    let centre = (t as f64 * p).round() as usize;
    let inside = |hits: usize| mixture.log(t, hits) < mixture.limit;
    (last(centre, 0, &inside), last(centre, t, &inside))
}

/// Returns the last number from `from` towards `to` that is `inside`; `inside` must be true at `from` and
/// must not become true again once it is false.
fn last(from: usize, to: usize, inside: &impl Fn(usize) -> bool) -> usize {
    if inside(to) {
        return to;
    }
    let (mut yes, mut no) = (from, to);
    while yes.abs_diff(no) > 1 {
        let middle = usize::midpoint(yes, no);
        if inside(middle) { yes = middle } else { no = middle }
    }
    yes
}

/// The mixture martingale of a coin with probability `p`.
struct Mixture {
    p: f64,
    hits: f64,
    misses: f64,
    limit: f64,
}

impl Mixture {
    fn new(p: f64, alpha: f64) -> Self {
        let limit = -alpha.ln();
        // The concentration that makes it tightest there (Howard, Ramdas, McAuliffe and Sekhon,
        // Annals of Statistics 49(2), 2021, section 3.5).
        let concentration = TIGHTEST_AT / (2.0 * limit + (1.0 + 2.0 * limit).ln());
        Self { p, hits: concentration * p, misses: concentration * (1.0 - p), limit }
    }

    /// Returns the logarithm of the martingale after `t` tosses with `hits` below the quantile.
    fn log(&self, t: usize, hits: usize) -> f64 {
        let (yes, no) = (hits as f64, (t - hits) as f64);
        ln_beta(self.hits + yes, self.misses + no)
            - ln_beta(self.hits, self.misses)
            - yes * self.p.ln()
            - no * (-self.p).ln_1p()
    }
}

fn ln_beta(a: f64, b: f64) -> f64 {
    ln_gamma(a) + ln_gamma(b) - ln_gamma(a + b)
}

/// Returns the interval of the quantile `p` that is valid at all looks together with probability
/// `1 - alpha`. Returns `None` if there are too few samples for both ends.
///
/// # Errors
/// Returns [`BadInput::NotAProbability`] unless 0 < `p` < 1 and 0 < `alpha` < 1.
pub fn quantile_sequence(
    values: &Ordered,
    p: f64,
    alpha: f64,
) -> Result<Option<Interval>, BadInput> {
    probability("p", p)?;
    probability("alpha", alpha)?;
    Ok(sequence(values, p, alpha, 1.0))
}

/// Returns the interval if every `time` samples count as one.
fn sequence(values: &Ordered, p: f64, alpha: f64, time: f64) -> Option<Interval> {
    let n = values.len() as f64;
    let worth = ((n / time).floor() as usize).max(1);
    let (least, greatest) = counts(worth, p, alpha);
    let scaled = n / worth as f64;
    let low = values.rank((least as f64 * scaled).floor() as usize)?;
    let high = values.rank((greatest as f64 * scaled).ceil() as usize + 1)?;
    Some(Interval { low, high, level: 1.0 - alpha })
}

/// The stopping rule of sampling: the median is known to `±relative` of a scale, with confidence `1 - alpha`
/// at whichever look the rule is satisfied.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Precision {
    /// The largest half width of the interval as a share of the scale: 0.05 for ±5 %.
    pub relative: f64,
    /// The probability that an interval, at any look, does not contain the median.
    pub alpha: f64,
}

/// The decision whether there are enough samples.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub enum StoppingDecision {
    /// The median is known with the requested precision.
    Yes {
        /// The interval of the median that is narrow enough.
        interval: Interval,
        /// Half of the interval's width divided by the scale.
        plus_minus: f64,
    },
    /// The median is not yet known with the requested precision.
    No {
        /// Half of the interval's width divided by the scale, or `None` without an interval.
        plus_minus: Option<f64>,
        /// The expected number of further samples, if they continue like the present samples.
        projected_more: usize,
    },
}

/// Decides whether `samples`, in the order of measurement, determine the median with the requested
/// precision, in units of `scale`. The caller chooses the scale: a delay can be zero, so its own size is not
/// a suitable scale, but the warm touch is.
///
/// # Errors
/// Returns [`BadInput`] for no samples, a value that is not a number, a scale or precision that is not
/// positive, or an `alpha` that is not a probability.
pub fn decided(
    samples: &[f64],
    scale: f64,
    precision: Precision,
) -> Result<StoppingDecision, BadInput> {
    positive("scale", scale)?;
    positive("relative precision", precision.relative)?;
    probability("alpha", precision.alpha)?;
    let sorted = Ordered::new(samples)?;
    let time = dependence_about(samples, median(&sorted));
    let interval = sequence(&sorted, 0.5, precision.alpha, time);
    let plus_minus = interval.map(|interval| interval.width() / 2.0 / scale);
    Ok(match (interval, plus_minus) {
        (Some(interval), Some(plus_minus)) if plus_minus <= precision.relative => {
            StoppingDecision::Yes { interval, plus_minus }
        }
        _ => {
            let needed = projected(samples.len(), time, plus_minus, precision);
            StoppingDecision::No {
                plus_minus,
                projected_more: needed.saturating_sub(samples.len()).max(1),
            }
        }
    })
}

/// Returns the number of consecutive samples that count as one in the series that states which samples are
/// below `x`.
pub(crate) fn dependence_about(samples: &[f64], x: f64) -> f64 {
    let sides: Vec<f64> = samples.iter().map(|&value| f64::from(value <= x)).collect();
    dependence(&sides)
}

/// Returns the number of samples at which the target will be met if the width shrinks as the ranks converge.
fn projected(n: usize, time: f64, plus_minus: Option<f64>, precision: Precision) -> usize {
    let alpha = precision.alpha;
    let share = |n: usize| {
        let worth = ((n as f64 / time) as usize).max(1);
        let (least, greatest) = counts(worth, 0.5, alpha);
        let open = least == 0 || greatest == worth;
        if open { f64::INFINITY } else { (greatest - least) as f64 / worth as f64 }
    };
    let wanted = match plus_minus {
        // Finite, since there was an interval; ties can make it no narrower than it is.
        Some(now) => share(n) * precision.relative / now,
        None => f64::MAX,
    };
    let mut high = n + 1;
    while share(high) > wanted && high < MOST_SAMPLES {
        high *= 2;
    }
    let mut low = n;
    while high - low > 1 + low / 100 {
        let middle = usize::midpoint(low, high);
        if share(middle) > wanted { low = middle } else { high = middle }
    }
    high
}

/// Returns the largest distance of the empirical distribution function of `t` samples from the true
/// distribution function. The bound holds everywhere and at all looks from `first_look` samples on, with
/// probability `1 - alpha` (Howard and Ramdas 2022, Theorem 2 with `A = 0.85`). Returns `None` for fewer
/// samples than the first look, which must be fixed in advance.
///
/// # Errors
/// Returns [`BadInput`] for an `alpha` that is not a probability, or without a first look.
pub fn band_radius(t: usize, first_look: usize, alpha: f64) -> Result<Option<f64>, BadInput> {
    probability("alpha", alpha)?;
    positive("first look", first_look as f64)?;
    if t < first_look {
        return Ok(None);
    }
    let growth = (1.0 + (t as f64 / first_look as f64).ln()).ln();
    Ok(Some(BAND * ((growth + band_constant(alpha)) / t as f64).sqrt()))
}

/// Returns the interval of the quantile `p` that is valid for all `p` and all looks from `first_look` on
/// together, with probability `1 - alpha`. An end that the samples do not support is None.
///
/// # Errors
/// Returns [`BadInput`], as [`band_radius`] does, and for a `p` that is not a probability.
pub fn band_quantile(
    values: &Ordered,
    p: f64,
    first_look: usize,
    alpha: f64,
) -> Result<(Option<f64>, Option<f64>), BadInput> {
    probability("p", p)?;
    let n = values.len() as f64;
    let Some(radius) = band_radius(values.len(), first_look, alpha)? else {
        return Ok((None, None));
    };
    // F is below p left of the quantile and at least p from it on.
    let low = (n * (p - radius)).ceil().max(0.0) as usize;
    let high = (n * (p + radius)).floor() as usize + 1;
    Ok((values.rank(low), values.rank(high)))
}

/// The parameter `A` in Theorem 2 of Howard and Ramdas (2022).
const BAND: f64 = 0.85;

/// Returns the smallest `C` for which the error probability in Theorem 2 of Howard and Ramdas (2022) is at
/// most `alpha`.
fn band_constant(alpha: f64) -> f64 {
    let (mut low, mut high) = (1.0, 1_000.0);
    while high - low > 1e-9 * high {
        let middle = f64::midpoint(low, high);
        if band_error(middle) > alpha { low = middle } else { high = middle }
    }
    high
}

/// Returns the error probability in Theorem 2 of Howard and Ramdas (2022) for `C`, minimised over some
/// values of the free parameter `η`. Every value of `η` is valid, so a coarse grid only costs a little
/// width.
fn band_error(c: f64) -> f64 {
    let error = |eta: f64| {
        let room = BAND - (2.0 * (eta - 1.0) / c).sqrt();
        let square = 2.0 / eta * room * room;
        if room <= 0.0 || square <= 1.0 {
            return f64::INFINITY;
        }
        4.0 * (-square * c).exp() * (1.0 + 1.0 / ((square - 1.0) * eta.ln()))
    };
    (1..=89).map(|i| error(1.0 + f64::from(i) / 200.0)).fold(f64::INFINITY, f64::min)
}

#[cfg(test)]
mod tests {
    use super::super::draw::{ReferenceLaw, ResampleSource};
    use super::*;
    use proptest::prelude::*;

    /// Returns the exact probability that a coin's count leaves `range(t)` at some look up to `until`. The
    /// function follows the law of the count among the runs that have not left, one toss after the other.
    fn ever_outside(until: usize, p: f64, range: impl Fn(usize) -> (usize, usize)) -> f64 {
        let mut alive = vec![1.0];
        let mut left = 0.0;
        for t in 1..=until {
            let mut next = vec![0.0; t + 1];
            for (hits, mass) in alive.iter().enumerate() {
                next[hits] += mass * (1.0 - p);
                next[hits + 1] += mass * p;
            }
            let (least, greatest) = range(t);
            for (hits, mass) in next.iter_mut().enumerate() {
                if hits < least || hits > greatest {
                    left += std::mem::take(mass);
                }
            }
            alive = next;
        }
        left
    }

    /// Returns the ranks by theorem 1 of Howard and Ramdas (2022), which is
    /// `|F_t - p| <= 1.5·sqrt(p(1-p)·l) + 0.8·l` with `l = (1.4·ln ln(2.1·t) + ln(10/alpha))/t`. The
    /// constants of the closed form follow from the stitched boundary of Howard et al. (2021, equation 10)
    /// with η = 2.04 and s = 1.4.
    fn closed_form(t: usize, p: f64, alpha: f64) -> (usize, usize) {
        let n = t as f64;
        let l = (1.4 * (2.1 * n).ln().ln() + (10.0 / alpha).ln()) / n;
        let side = |q: f64| n * (1.5 * (q * (1.0 - q) * l).sqrt() + 0.8 * l);
        let least = (n * p - side(p)).ceil().max(0.0) as usize;
        (least, ((n * p + side(p)).floor() as usize).min(t))
    }

    #[test]
    fn the_constants_of_the_closed_form_follow_from_the_stitched_boundary() {
        let (eta, s): (f64, f64) = (2.04, 1.4);
        let zeta: f64 = (1..200_000).map(|k| f64::from(k).powf(-s)).sum::<f64>()
            + 200_000.0_f64.powf(1.0 - s) / (s - 1.0); // the rest as an integral
        assert!((eta.powf(0.25) + eta.powf(-0.25)) / 2.0_f64.sqrt() < 1.5);
        assert!((eta.sqrt() + 1.0) / 3.0 < 0.81); // 2·k2·c with c = 1/3
        assert!(2.0 * zeta / eta.ln().powf(s) < 10.0); // two sides
    }

    #[test]
    fn the_sequence_errs_at_any_of_two_thousand_looks_with_at_most_its_probability() {
        for (p, alpha) in [(0.5, 0.05), (0.5, 0.2), (0.9, 0.05), (0.99, 0.05)] {
            let error = ever_outside(2_000, p, |t| counts(t, p, alpha));
            assert!(error <= alpha, "{p} {alpha}: {error}");
            assert!(error > alpha / 10.0, "{p} {alpha}: {error} would be needlessly wide");
        }
    }

    #[test]
    fn a_fixed_sample_interval_looked_at_again_and_again_errs_far_more_often() {
        let fixed = |t: usize| {
            let half = 1.96 * (t as f64).sqrt() / 2.0;
            let centre = t as f64 / 2.0;
            ((centre - half).ceil().max(0.0) as usize, (centre + half).floor() as usize)
        };
        let late = |t: usize| if t < 30 { (0, t) } else { fixed(t) };
        assert!(ever_outside(2_000, 0.5, late) > 0.3);
    }

    #[test]
    fn the_closed_form_of_the_theorem_holds_and_is_wider() {
        assert!(ever_outside(2_000, 0.5, |t| closed_form(t, 0.5, 0.05)) <= 0.05);
        for t in [20, 50, 100, 300, 1_000, 5_000, 20_000, 100_000] {
            let (least, greatest) = counts(t, 0.5, 0.05);
            let (least_twin, greatest_twin) = closed_form(t, 0.5, 0.05);
            assert!(greatest - least <= greatest_twin - least_twin, "t {t}");
        }
    }

    proptest! {
        #[test]
        fn the_range_of_counts_is_that_of_a_walk(t in 1_usize..400, p in 0.05_f64..0.95) {
            let mixture = Mixture::new(p, 0.05);
            let inside: Vec<usize> =
                (0..=t).filter(|&hits| mixture.log(t, hits) < mixture.limit).collect();
            prop_assert_eq!(counts(t, p, 0.05), (inside[0], inside[inside.len() - 1]));
            prop_assert_eq!(inside.len(), inside[inside.len() - 1] - inside[0] + 1);
        }
    }

    #[test]
    fn intervals_hold_at_every_look_of_a_run_for_every_law_ties_included() {
        let mut draw = ResampleSource::new(109);
        for law in [ReferenceLaw::Uniform, ReferenceLaw::LogNormal, ReferenceLaw::Die] {
            let (runs, truth) = (300, law.quantile(0.5));
            let missed = (0..runs).filter(|_| {
                let run = draw.values(law, 800);
                (10..=800).step_by(41).any(|t| {
                    let values = Ordered::new(&run[..t]).unwrap();
                    let interval = quantile_sequence(&values, 0.5, 0.1).unwrap();
                    interval.is_some_and(|interval| !interval.contains(truth))
                })
            });
            let missed = missed.count() as f64 / f64::from(runs);
            assert!(missed <= 0.1, "{law:?}: {missed}");
        }
    }

    const FIVE_PERCENT: Precision = Precision { relative: 0.05, alpha: 0.05 };

    #[test]
    fn sampling_until_decided_ends_with_a_true_interval_near_the_projected_number() {
        let mut draw = ResampleSource::new(113);
        let (mut missed, mut first_guess) = (0, Vec::new());
        for _ in 0..200 {
            let mut samples = draw.values(ReferenceLaw::Exponential, 100);
            loop {
                match decided(&samples, 1.0, FIVE_PERCENT).unwrap() {
                    StoppingDecision::Yes { interval, plus_minus } => {
                        assert!(plus_minus <= 0.05);
                        missed += u32::from(!interval.contains(2.0_f64.ln()));
                        break;
                    }
                    StoppingDecision::No { projected_more, .. } => {
                        if samples.len() == 100 {
                            first_guess.push((100 + projected_more) as f64);
                        }
                        samples.extend(
                            draw.values(ReferenceLaw::Exponential, 100 + samples.len() / 4),
                        );
                    }
                }
            }
            let last = samples.len() as f64;
            assert!((300.0..20_000.0).contains(&last), "{last}");
        }
        assert!(missed <= 20, "{missed} of 200");
        let guess = median(&Ordered::new(&first_guess).unwrap());
        // sqrt(1/4)·2.9/sqrt(n) / f(median) = 0.05 with density 1/2 there: n is some 3,400.
        assert!((1_500.0..8_000.0).contains(&guess), "{guess}");
    }

    #[test]
    fn equal_samples_are_decided_as_soon_as_there_is_an_interval() {
        let (mut n, zeros) = (1, [0.0; 64]);
        while matches!(
            decided(&zeros[..n], 1e3, FIVE_PERCENT).unwrap(),
            StoppingDecision::No { .. }
        ) {
            n += 1;
        }
        assert!((6..40).contains(&n), "{n}");
        let StoppingDecision::No { plus_minus: None, projected_more } =
            decided(&zeros[..1], 1e3, FIVE_PERCENT).unwrap()
        else {
            panic!("one sample cannot decide");
        };
        assert_eq!(projected_more, n - 1);
    }

    #[test]
    fn related_samples_count_for_fewer() {
        let mut draw = ResampleSource::new(127);
        let width = |samples: &[f64]| match decided(samples, 1.0, FIVE_PERCENT).unwrap() {
            StoppingDecision::No { plus_minus, .. } => plus_minus.unwrap(),
            StoppingDecision::Yes { plus_minus, .. } => plus_minus,
        };
        let white = width(&draw.values(ReferenceLaw::Normal, 1_000));
        let related = width(&draw.autoregression(0.9, 1_000));
        assert!(related > 1.8 * white, "{related} {white}");
    }

    #[test]
    fn broken_input_is_an_error() {
        assert_eq!(decided(&[], 1.0, FIVE_PERCENT), Err(BadInput::Empty));
        assert!(decided(&[f64::NAN], 1.0, FIVE_PERCENT).is_err());
        for scale in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            let error = decided(&[1.0], scale, FIVE_PERCENT).unwrap_err();
            assert!(error.to_string().contains("scale"), "{error}");
        }
        assert!(decided(&[1.0], 1.0, Precision { relative: 0.0, alpha: 0.05 }).is_err());
        assert!(decided(&[1.0], 1.0, Precision { relative: 0.1, alpha: 1.0 }).is_err());
    }

    #[test]
    fn the_band_has_the_constant_of_the_paper_and_holds() {
        // The paper's summary of the theorem: error at most 1612·exp(-1.25·C) from C = 7 on.
        for c in [7.0_f64, 8.3, 12.0] {
            assert!(band_error(c) <= 1_612.0 * (-1.25 * c).exp(), "{c}: {}", band_error(c));
        }
        assert_eq!(band_radius(9, 10, 0.05), Ok(None));
        assert!(band_radius(9, 0, 0.05).is_err() && band_radius(9, 1, 0.0).is_err());
        let mut draw = ResampleSource::new(131);
        let missed = (0..200).filter(|_| {
            let run = draw.values(ReferenceLaw::Uniform, 600);
            (30..=600).step_by(30).any(|t| {
                let values = Ordered::new(&run[..t]).unwrap();
                [0.1, 0.5, 0.9, 0.99].into_iter().any(|p| {
                    let (low, high) = band_quantile(&values, p, 30, 0.2).unwrap();
                    low.is_some_and(|low| low > p) || high.is_some_and(|high| high < p)
                })
            })
        });
        assert!(missed.count() <= 40);
    }

    #[test]
    fn a_band_has_no_upper_end_where_the_samples_cannot_carry_it() {
        let values = Ordered::new(&(0..500).map(f64::from).collect::<Vec<_>>()).unwrap();
        let (low, high) = band_quantile(&values, 0.99, 30, 0.05).unwrap();
        assert!(low.is_some() && high.is_none());
    }
}
