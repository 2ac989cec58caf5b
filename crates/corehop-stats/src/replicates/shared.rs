// SPDX-License-Identifier: MIT OR Apache-2.0
//! Estimates the dependence that all cells of a run share.
//!
//! Slow changes of a machine (neighbours come and go, the host moves memory) make neighbouring replicates
//! slightly alike. The effect is too small to stand out in one cell of twenty replicates, but large enough to
//! make the cell's interval a third too narrow. All cells of a run experience the machine's slow changes
//! together, so the dependence shows in all of them. The dependence is estimated from blocks of neighbouring
//! replicates (batch means: Conway, Management Science 9, 1963). The mean ranks of blocks of `b` independent
//! replicates have a `b`-th of the variance of the ranks; the excess variance shows how many consecutive
//! replicates count as one. The estimate averages over cells because one cell has only a handful of blocks.
//! The estimate is the larger result of two block lengths, because long blocks show slower changes and short
//! blocks are more numerous.

use super::Nested;

/// The numbers of blocks into which a cell's run is divided, for short and for long blocks.
const BLOCKS: [usize; 2] = [5, 3];

/// Returns the number of consecutive replicates that count as one, from all `cells` of a run together; 1 if
/// no cell has enough replicates.
fn shared_dependence<'a>(cells: impl Iterator<Item = &'a Nested>) -> f64 {
    let medians: Vec<Vec<f64>> = cells.map(Nested::medians).collect();
    let pooled = |blocks| {
        let all: Vec<f64> = medians.iter().filter_map(|it| inflation(it, blocks)).collect();
        all.iter().sum::<f64>() / all.len().max(1) as f64
    };
    BLOCKS.into_iter().map(pooled).fold(1.0, f64::max)
}

/// The number of consecutive replicates that count as one in the cells of a run. Controls, in which nothing
/// happens between two touches, are not affected by slow changes of a machine, so they are estimated
/// separately.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SharedDependence {
    controls: f64,
    others: f64,
}

impl SharedDependence {
    /// Returns the dependence of the cells of a run; each cell states whether it is a control.
    pub fn of<'a>(cells: impl Iterator<Item = (bool, &'a Nested)>) -> Self {
        let (controls, others): (Vec<_>, Vec<_>) = cells.partition(|&(control, _)| control);
        let shown =
            |cells: Vec<(bool, &'a Nested)>| shared_dependence(cells.into_iter().map(|it| it.1));
        Self { controls: shown(controls), others: shown(others) }
    }

    /// Returns the number of consecutive replicates that count as one, for a control or for another cell; at
    /// least 1.
    pub fn in_a_row(&self, control: bool) -> f64 {
        if control { self.controls } else { self.others }
    }
}

/// The smallest number of replicates that is divided into blocks.
const FEWEST: usize = 10;

/// Returns the factor by which the block means of the ranks vary more than those of independent values, or
/// `None` for fewer than ten values, or if all values are equal.
fn inflation(series: &[f64], blocks: usize) -> Option<f64> {
    let length = series.len() / blocks;
    if series.len() < FEWEST {
        return None;
    }
    let ranks = super::serial::centred_ranks(&series[..length * blocks]);
    let whole = variance(&ranks);
    let means: Vec<f64> =
        ranks.chunks(length).map(|block| block.iter().sum::<f64>() / length as f64).collect();
    (whole > 0.0).then(|| length as f64 * variance(&means) / whole)
}

/// Returns the variance with divisor `n - 1` around the mean; the mean of centred ranks is nearly zero.
fn variance(values: &[f64]) -> f64 {
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    values.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / (values.len() - 1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::draw::ResampleSource;

    /// Makes the cells of one run, with twenty replicates each, of noise and of the slow changes of a
    /// machine.
    fn run(draw: &mut ResampleSource, cells: usize, slow: f64) -> Vec<Nested> {
        let machine = draw.autoregression(0.8, 20);
        let cell = |draw: &mut ResampleSource| {
            let values = machine.iter().map(|it| vec![slow * it + draw.normal()]).collect();
            Nested::new(values).unwrap()
        };
        (0..cells).map(|_| cell(draw)).collect()
    }

    #[test]
    fn independent_replicates_count_for_about_themselves() {
        let mut draw = ResampleSource::new(211);
        let found: Vec<f64> =
            (0..200).map(|_| shared_dependence(run(&mut draw, 40, 0.0).iter())).collect();
        let mean = found.iter().sum::<f64>() / found.len() as f64;
        assert!((1.0..1.15).contains(&mean), "{mean}");
        assert_eq!(shared_dependence([].into_iter()).to_bits(), 1.0_f64.to_bits());
        let alike = Nested::new(vec![vec![3.0]; 20]).unwrap();
        assert_eq!(shared_dependence([&alike].into_iter()).to_bits(), 1.0_f64.to_bits());
    }

    #[test]
    fn what_a_machine_does_slowly_is_seen_in_the_cells_that_feel_it_and_not_in_the_controls() {
        let mut draw = ResampleSource::new(227);
        let (mut controls, mut others) = (0.0, 0.0);
        for _ in 0..100 {
            let (steady, slow) = (run(&mut draw, 20, 0.0), run(&mut draw, 20, 1.5));
            let cells = steady.iter().map(|cell| (true, cell));
            let shown = SharedDependence::of(cells.chain(slow.iter().map(|cell| (false, cell))));
            controls += shown.in_a_row(true) / 100.0;
            others += shown.in_a_row(false) / 100.0;
        }
        assert!(controls < 1.2 && others > controls + 0.4, "{controls} {others}");
    }

    #[test]
    fn what_cells_share_widens_intervals_until_the_next_run_lands() {
        let mut draw = ResampleSource::new(223);
        // The machine's part is a third of the variance of a replicate: a correlation of 0.27.
        let (mut alone, mut shared, mut all) = (0, 0, 0);
        for _ in 0..400 {
            let cells = run(&mut draw, 30, 0.7);
            let dependence = shared_dependence(cells.iter());
            for cell in cells.iter().take(4) {
                let inside = |it: &Nested| {
                    it.median(0.05).unwrap().interval.is_none_or(|it| it.contains(0.0))
                };
                alone += u32::from(inside(cell));
                shared += u32::from(inside(&cell.clone().depending(dependence)));
                all += 1;
            }
        }
        let share = |it: u32| f64::from(it) / f64::from(all);
        assert!(share(shared) > share(alone) + 0.02, "{} {}", share(shared), share(alone));
        assert!(share(shared) > 0.9, "{}", share(shared));
    }

    #[test]
    fn block_means_vary_by_hand_and_ties_and_nine_values_tell_nothing() {
        // Ten in ascending order: ranks vary by 55/6 = 9.17; five blocks of two have means 2 apart, which vary by 10.
        let ten: Vec<f64> = (0..10).map(f64::from).collect();
        let found = inflation(&ten, 5).unwrap();
        assert!((found - 2.0 * 10.0 / (55.0 / 6.0)).abs() < 1e-9, "{found}");
        assert_eq!(inflation(&ten[..9], 5), None);
        assert_eq!(inflation(&[4.0; 12], 5), None);
        // Two in turn: block means are all alike.
        let turns: Vec<f64> = (0..10).map(|at| f64::from(at % 2)).collect();
        assert!(inflation(&turns, 5).unwrap().abs() < 1e-12);
    }

    #[test]
    fn cells_are_pooled_the_larger_length_decides_and_controls_stay_apart() {
        let cell = |values: Vec<f64>| {
            Nested::new(values.into_iter().map(|value| vec![value]).collect()).unwrap()
        };
        let ramp = cell((0..10).map(f64::from).collect());
        let turns = cell((0..10).map(|at| f64::from(at % 2)).collect());
        let few = cell(vec![1.0, 2.0]);
        // Three blocks of three of the first nine: means 3 apart vary by 9, ranks by 7.5.
        let (five, three) = (2.0 * 10.0 / (55.0 / 6.0), 3.0 * 9.0 / 7.5);
        let whole = shared_dependence([&ramp].into_iter());
        assert!((whole - f64::max(five, three)).abs() < 1e-9, "{whole}");
        // A cell that can tell nothing does not count.
        assert!((shared_dependence([&ramp, &few].into_iter()) - whole).abs() < 1e-12);
        let pooled = shared_dependence([&ramp, &turns].into_iter());
        assert!(pooled >= 1.0 && pooled < whole, "{pooled}");
        let shown = SharedDependence::of([(true, &turns), (false, &ramp)].into_iter());
        assert_eq!((shown.in_a_row(true), shown.in_a_row(false)), (1.0, whole));
    }
}
