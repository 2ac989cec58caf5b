// SPDX-License-Identifier: MIT OR Apache-2.0
//! Finds the argument at which an increasing function reaches a value.

/// The largest number of evaluations; each one is a simulation.
const MOST: usize = 8;
/// The relative error at which the search stops.
const NEAR: f64 = 2e-3;
/// Slopes below this count as zero.
const LEAST_SLOPE: f64 = 0.05;

/// The found argument, and the slope of the function there.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Solved {
    pub(super) x: f64,
    pub(super) slope: f64,
}

/// Finds the `x` between two bounds at which the increasing `f` reaches `target`, by secants from `first`; returns a
/// bound if `f` does not reach `target` between the bounds.
///
/// # Errors
/// Returns the errors of `f`.
pub(super) fn solve<E>(
    bounds: [f64; 2],
    first: f64,
    target: f64,
    mut f: impl FnMut(f64) -> Result<f64, E>,
) -> Result<Solved, E> {
    let within = |x: f64| x.clamp(bounds[0], bounds[1]);
    let mut last = (within(first), f(within(first))?);
    // The first step takes a slope of one: a time of a line for a time of a line.
    let mut slope = 1.0;
    let mut next = within(last.0 + target - last.1);
    // At least one step is made, so that the slope is known.
    for step in 1..MOST {
        let near = (last.1 - target).abs() <= NEAR * target.abs();
        if (next - last.0).abs() < f64::EPSILON || (near && step > 1) {
            break;
        }
        let value = f(next)?;
        let secant = (value - last.1) / (next - last.0);
        last = (next, value);
        slope = if secant.is_finite() && secant > LEAST_SLOPE { secant } else { 1.0 };
        next = within(last.0 + (target - last.1) / slope);
    }
    Ok(Solved { x: last.0, slope })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(bounds: [f64; 2], target: f64, f: impl Fn(f64) -> f64) -> Solved {
        solve(bounds, 50.0, target, |x| Ok::<f64, ()>(f(x))).unwrap()
    }

    #[test]
    fn a_line_and_a_bent_line_are_solved_and_what_is_never_reached_ends_at_a_bound() {
        let line = found([0.0, 1e3], 80.0, |x| 0.5 * x - 3.0);
        assert!((line.x - 166.0).abs() < 0.5 && (line.slope - 0.5).abs() < 1e-9, "{line:?}");
        let bent = |x: f64| if x < 100.0 { 0.2 * x } else { 20.0 + (x - 100.0) };
        assert!((found([0.0, 1e3], 60.0, bent).x - 140.0).abs() < 0.5);
        assert!((found([0.0, 90.0], 500.0, |x| x).x - 90.0).abs() < 1e-9);
        assert!((found([10.0, 90.0], -5.0, |x| x).x - 10.0).abs() < 1e-9);
        // Where nothing depends on it, some value within the bounds.
        assert!((0.0..=90.0).contains(&found([0.0, 90.0], 5.0, |_| 7.0).x));
    }

    #[test]
    fn a_start_that_is_right_makes_one_step_for_the_slope_and_no_more() {
        let mut asked = Vec::new();
        let solved = solve([0.0, 100.0], 50.0, 100.1, |x| {
            asked.push(x);
            Ok::<f64, ()>(2.0 * x)
        });
        assert_eq!(asked.len(), 2, "{asked:?}");
        assert!((asked[1] - 50.1).abs() < 1e-9);
        assert!((solved.unwrap().slope - 2.0).abs() < 1e-6);
    }

    #[test]
    fn no_more_than_eight_places_are_looked_at_and_an_error_ends_the_search() {
        let mut count = 0;
        let far = solve([0.0, 1e9], 1.0, 1e9, |x| {
            count += 1;
            Ok::<f64, ()>(x.sqrt())
        });
        assert!(far.is_ok() && count <= MOST, "{count}");
        assert_eq!(solve([0.0, 1.0], 0.5, 9.0, |_| Err::<f64, _>("no")), Err("no"));
    }
}
