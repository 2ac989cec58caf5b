// SPDX-License-Identifier: MIT OR Apache-2.0
//! Draws utilisations with a given sum.

use crate::workload::draw::DrawStream;

/// The method that draws utilisations with a given sum.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum UtilisationMethod {
    /// UUniFast (Bini and Buttazzo, Real-Time Systems 30, 2005) is uniform for sums up to 1; for larger sums a
    /// utilisation can exceed 1, which corehop treats as an error.
    UUniFast,
    /// UUniFast, repeated while a utilisation exceeds 1 (Davis and Burns, RTSS 2009), is uniform.
    UUniFastDiscard,
    /// Stafford's RandFixedSum (Emberson, Stafford and Davis, WATERS 2010) is uniform.
    RandFixedSum,
    /// Chooses uniformly among all points of a lattice with the sum, by convolution (similar to Griffin and
    /// Davis, "ConvolutionalFixedSum", RTAS 2025); this method accepts bounds for each task.
    Convolution,
    /// Dirichlet-Rescale (Griffin, Bate and Davis, RTSS 2020) is not uniform; see
    /// [`UtilisationMethod::warning`].
    DirichletRescale,
}

impl UtilisationMethod {
    /// The methods that are uniform and always return a result.
    pub const ALL: &'static [Self] =
        &[Self::UUniFastDiscard, Self::RandFixedSum, Self::Convolution];

    /// Returns a warning about the method's draws, or `None` if the draws are uniform.
    pub fn warning(self) -> Option<&'static str> {
        (self == Self::DirichletRescale).then_some(
            "DRS does not draw uniformly, as its authors found after publication: use rand-fixed-sum or convolution, unless you compare with results that were drawn by DRS",
        )
    }

    /// Draws `n` utilisations of at most 1 with this sum.
    ///
    /// # Errors
    /// Returns [`NoSuchSum`] if no utilisations have this sum, or if [`MOST_ATTEMPTS`] attempts found none.
    pub fn draw(self, n: usize, sum: f64, stream: &mut DrawStream) -> Result<Vec<f64>, NoSuchSum> {
        let refused = |why| Err(NoSuchSum { n, sum, why });
        if n == 0 || sum.is_nan() || sum <= 0.0 || sum > n as f64 {
            return refused("no utilisations of at most 1 have it");
        }
        match self {
            Self::UUniFast | Self::UUniFastDiscard => {
                let attempts = if self == Self::UUniFast { 1 } else { MOST_ATTEMPTS };
                let mut drawn = (0..attempts).map(|_| uunifast(n, sum, stream));
                let fits = |set: &Vec<f64>| set.iter().all(|&u| u <= 1.0);
                drawn.find(fits).map_or_else(|| refused("each attempt had a task above 1"), Ok)
            }
            Self::RandFixedSum => Ok(rand_fixed_sum(n, sum, stream)),
            Self::Convolution => convolution(&vec![(0.0, 1.0); n], sum, stream),
            Self::DirichletRescale => {
                let mut drawn = (0..MOST_ATTEMPTS).map(|_| dirichlet_rescale(n, sum, stream));
                drawn
                    .find_map(|it| it)
                    .map_or_else(|| refused("each attempt had a task above 1"), Ok)
            }
        }
    }
}

/// The number of draws after which UUniFast-discard gives up.
pub const MOST_ATTEMPTS: u32 = 100_000;

/// The error for a sum that no utilisations have.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
#[error("no {n} utilisations have the sum {sum}: {why}")]
pub struct NoSuchSum {
    /// The number of utilisations that were requested.
    pub n: usize,
    /// The sum of utilisations that was requested.
    pub sum: f64,
    /// The reason why no utilisations were found.
    pub why: &'static str,
}

fn uunifast(n: usize, sum: f64, stream: &mut DrawStream) -> Vec<f64> {
    let mut left = sum;
    let mut drawn = Vec::with_capacity(n);
    for after in (1..n).rev() {
        let next = left * stream.unit().powf(1.0 / after as f64);
        drawn.push(left - next);
        left = next;
    }
    drawn.push(left);
    drawn
}

/// The number of times that a point is rescaled before a new point is drawn.
const MOST_RESCALINGS: u32 = 1_000;

/// Draws a point of the simplex; while a utilisation exceeds 1, the corner that contains the point is stretched
/// over the whole simplex. If the sum exceeds half of `n`, the remainder of each task to 1 is drawn instead.
fn dirichlet_rescale(n: usize, sum: f64, stream: &mut DrawStream) -> Option<Vec<f64>> {
    if sum > n as f64 / 2.0 {
        let left = dirichlet_rescale(n, n as f64 - sum, stream)?;
        return Some(left.into_iter().map(|left| 1.0 - left).collect());
    }
    let mut point: Vec<f64> = (0..n).map(|_| -(1.0 - stream.unit()).ln()).collect();
    for _ in 0..MOST_RESCALINGS {
        // Stretching a small corner stretches what was rounded too: the sum is set right each time.
        let whole: f64 = point.iter().sum();
        for u in &mut point {
            *u *= sum / whole;
        }
        let above: Vec<bool> = point.iter().map(|&u| u > 1.0).collect();
        let corner = above.iter().filter(|&&above| above).count() as f64;
        if corner == 0.0 {
            return Some(point);
        }
        let stretch = sum / (sum - corner);
        if !stretch.is_finite() || stretch <= 0.0 {
            return None;
        }
        for (u, above) in point.iter_mut().zip(above) {
            *u = (*u - if above { 1.0 } else { 0.0 }).max(0.0) * stretch;
        }
    }
    None
}

/// Chooses one of the simplices that form the slice of the cube, by volume, and draws a point in it; the
/// coordinates are shuffled at the end.
fn rand_fixed_sum(n: usize, sum: f64, stream: &mut DrawStream) -> Vec<f64> {
    let k = (sum.floor() as usize).min(n - 1);
    let choices = volumes(n, k, sum);
    let (mut level, mut rest, mut base, mut scale) = (k, sum, 0.0, 1.0);
    let mut drawn = Vec::with_capacity(n);
    for i in (1..n).rev() {
        let one = stream.unit() <= choices[i - 1][level];
        let shrink = stream.unit().powf(1.0 / i as f64);
        base += (1.0 - shrink) * scale * rest / (i + 1) as f64;
        scale *= shrink;
        drawn.push(base + if one { scale } else { 0.0 });
        if one {
            rest -= 1.0;
            level = level.saturating_sub(1);
        }
    }
    drawn.push(base + scale * rest);
    for i in (1..n).rev() {
        drawn.swap(i, stream.below(i as u64 + 1) as usize);
    }
    drawn
}

/// Returns the probabilities of going down a level, from the relative volumes of the simplices.
fn volumes(n: usize, k: usize, sum: f64) -> Vec<Vec<f64>> {
    let up: Vec<f64> = (0..n).map(|j| sum - k as f64 + j as f64).collect();
    let down: Vec<f64> = (0..n).map(|j| (k + n - j) as f64 - sum).collect();
    let mut weight = vec![0.0; n + 1];
    weight[1] = f64::MAX.sqrt();
    let mut choices = Vec::with_capacity(n - 1);
    for i in 2..=n {
        let mut next = vec![0.0; n + 1];
        let mut row = vec![0.0; n];
        for j in 0..i {
            let a = weight[j + 1] * up[j] / i as f64;
            let b = weight[j] * down[n - i + j] / i as f64;
            next[j + 1] = a + b;
            let whole = a + b + f64::MIN_POSITIVE;
            // The smaller of the two is the more precise.
            row[j] = if down[n - i + j] > up[j] { b / whole } else { 1.0 - a / whole };
        }
        weight = next;
        choices.push(row);
    }
    choices
}

/// The number of steps of the lattice in the range that each sum can have.
const LATTICE: usize = 4_096;

/// Draws utilisations with this sum, each within its own bounds: uniformly over the points of a lattice, then
/// spread within a cell of the lattice.
///
/// # Errors
/// Returns [`NoSuchSum`] if the bounds do not allow the sum.
pub fn convolution(
    bounds: &[(f64, f64)],
    sum: f64,
    stream: &mut DrawStream,
) -> Result<Vec<f64>, NoSuchSum> {
    let lowest: f64 = bounds.iter().map(|&(low, _)| low).sum();
    let highest: f64 = bounds.iter().map(|&(_, high)| high).sum();
    if !(lowest..=highest).contains(&sum) {
        return Err(NoSuchSum { n: bounds.len(), sum, why: "the bounds do not allow it" });
    }
    let spare = sum - lowest;
    let step = (spare / LATTICE as f64).max(f64::MIN_POSITIVE);
    let room: Vec<usize> = bounds
        .iter()
        .map(|&(low, high)| (((high - low) / step).floor() as usize).min(LATTICE))
        .collect();
    let ways = ways(&room);
    let mut left = LATTICE;
    let mut drawn = vec![0.0; bounds.len()];
    for at in (0..bounds.len()).rev() {
        // Points of the others that make up the rest, for each value of this one.
        let others = &ways[at];
        let most = room[at].min(left);
        let total: f64 = (0..=most).map(|value| others[left - value]).sum();
        let mut target = stream.unit() * total;
        let mut value = 0;
        while value < most && target >= others[left - value] {
            target -= others[left - value];
            value += 1;
        }
        drawn[at] = bounds[at].0 + value as f64 * step;
        left -= value;
    }
    // What the lattice cannot hold goes where there is room for it.
    spread(&mut drawn, bounds, left as f64 * step);
    Ok(drawn)
}

/// Returns the number of ways to reach each sum with the first `i` coordinates, scaled to avoid overflow.
fn ways(room: &[usize]) -> Vec<Vec<f64>> {
    let mut all = vec![vec![0.0; LATTICE + 1]];
    all[0][0] = 1.0;
    for &most in room {
        let before = &all[all.len() - 1];
        let mut after = vec![0.0; LATTICE + 1];
        let mut window = 0.0;
        for sum in 0..=LATTICE {
            window += before[sum];
            if sum > most {
                window -= before[sum - most - 1];
            }
            after[sum] = f64::max(window, 0.0);
        }
        let largest = after.iter().copied().fold(f64::MIN_POSITIVE, f64::max);
        for count in &mut after {
            *count /= largest;
        }
        all.push(after);
    }
    all
}

fn spread(drawn: &mut [f64], bounds: &[(f64, f64)], mut rest: f64) {
    for (u, &(_, high)) in drawn.iter_mut().zip(bounds) {
        let more = rest.min(high - *u).max(0.0);
        *u += more;
        rest -= more;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_that_cannot_be_are_refused() {
        let mut stream = DrawStream::of_set(1, 0);
        for method in UtilisationMethod::ALL {
            for (n, sum) in [(0, 0.5), (2, 2.5), (3, 0.0), (3, -1.0), (3, f64::NAN)] {
                assert!(method.draw(n, sum, &mut stream).is_err(), "{method:?} {n} {sum}");
            }
            assert!(method.draw(1, 1.0, &mut stream).is_ok());
        }
    }

    #[test]
    fn each_coordinate_has_the_law_of_a_uniform_point() {
        // Of a uniform point with n = 3 and sum 1.5 in the cube, one coordinate has mean 1/2 and the
        // second moment of the hexagon: 1/4 + 1/12 * 5/6 (by hand, from its six triangles: 5/72 variance).
        for method in UtilisationMethod::ALL {
            let mut stream = DrawStream::of_set(2, 0);
            let n = if *method == UtilisationMethod::Convolution { 3_000 } else { 30_000 };
            let draws: Vec<Vec<f64>> =
                (0..n).map(|_| method.draw(3, 1.5, &mut stream).unwrap()).collect();
            for at in 0..3 {
                let mean = draws.iter().map(|set| set[at]).sum::<f64>() / f64::from(n);
                let square =
                    draws.iter().map(|set| (set[at] - 0.5).powi(2)).sum::<f64>() / f64::from(n);
                assert!((mean - 0.5).abs() < 0.02, "{method:?} {at}: {mean}");
                assert!((square - 5.0 / 72.0).abs() < 0.004, "{method:?} {at}: {square}");
            }
            for set in &draws {
                assert!((set.iter().sum::<f64>() - 1.5).abs() < 1e-9);
                assert!(set.iter().all(|&u| (-1e-12..=1.0 + 1e-9).contains(&u)), "{set:?}");
            }
        }
    }

    #[test]
    fn bounds_of_each_task_are_kept() {
        let mut stream = DrawStream::of_set(4, 0);
        let bounds = [(0.1, 0.2), (0.0, 0.9), (0.3, 0.4)];
        for _ in 0..200 {
            let drawn = convolution(&bounds, 1.0, &mut stream).unwrap();
            assert!((drawn.iter().sum::<f64>() - 1.0).abs() < 1e-9);
            let within = drawn
                .iter()
                .zip(&bounds)
                .all(|(u, (low, high))| (low - 1e-9..=high + 1e-9).contains(u));
            assert!(within, "{drawn:?}");
        }
        assert!(convolution(&bounds, 1.6, &mut stream).is_err());
    }

    #[test]
    fn dirichlet_rescale_keeps_sum_and_bounds_and_carries_its_warning() {
        let method = UtilisationMethod::DirichletRescale;
        assert!(method.warning().is_some_and(|it| it.contains("uniformly")));
        assert!(UtilisationMethod::ALL.iter().all(|it| it.warning().is_none()));
        // In how many sets is a task above 0.9?
        let share = |method: UtilisationMethod, n: usize, sum: f64| {
            let above = (0..20_000).filter(|&index| {
                let set = method.draw(n, sum, &mut DrawStream::of_set(5, index)).unwrap();
                assert!((set.iter().sum::<f64>() - sum).abs() < 1e-9);
                assert!(set.iter().all(|&u| (0.0..=1.0).contains(&u)), "{set:?}");
                set.iter().any(|&u| u > 0.9)
            });
            above.count() as f64 / 20_000.0
        };
        // Where no two tasks can be above 1 it still is uniform. Three with the sum 1.4: the triangle of side
        // 1.4 less three of side 0.4 is 1.48; beyond 0.9 are 3 (0.25 - 0.16) = 0.27 of it.
        for method in [method, UtilisationMethod::RandFixedSum] {
            assert!((share(method, 3, 1.4) - 0.27 / 1.48).abs() < 0.01);
        }
        // Where two can, sum and bounds hold all the same.
        assert!((0.0..1.0).contains(&share(method, 8, 4.0)));
    }

    #[test]
    fn dirichlet_rescale_is_not_uniform_as_its_warning_says() {
        // Half of n is the sum of what is left of each task, too: of a uniform point the least utilisation and what
        // the greatest leaves have one law, so their means differ by chance alone (here by some 0.0005).
        let lean = |method: UtilisationMethod| {
            let n = 40_000;
            let draws =
                (0..n).map(|at| method.draw(8, 4.0, &mut DrawStream::of_set(6, at)).unwrap());
            let differences = draws.map(|set| {
                let least = set.iter().copied().fold(1.0, f64::min);
                let most = set.iter().copied().fold(0.0, f64::max);
                least - (1.0 - most)
            });
            differences.sum::<f64>() / n as f64
        };
        assert!(
            lean(UtilisationMethod::RandFixedSum).abs() < 0.0015,
            "{}",
            lean(UtilisationMethod::RandFixedSum)
        );
        assert!(
            lean(UtilisationMethod::DirichletRescale) > 0.002,
            "{}",
            lean(UtilisationMethod::DirichletRescale)
        );
    }
}
