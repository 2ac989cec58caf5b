// SPDX-License-Identifier: MIT OR Apache-2.0
//! The scale of an axis determines the place of a value on the axis, and the values that get a
//! tick.

/// The steps between two ticks of an axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TickSpacing {
    /// The ticks are at equal differences.
    Even,
    /// The ticks are at the powers of ten.
    Decades,
    /// The ticks are at the powers of two, which suit sizes of memory.
    Doublings,
}

impl TickSpacing {
    /// Returns the coordinate of a value before the axis is stretched to its length.
    fn coordinate(self, value: f64) -> f64 {
        match self {
            Self::Even => value,
            Self::Decades => value.log10(),
            Self::Doublings => value.log2(),
        }
    }
}

/// An axis from a low value to a high value.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct AxisScale {
    pub(super) low: f64,
    pub(super) high: f64,
    pub(super) steps: TickSpacing,
}

impl AxisScale {
    /// Makes an axis of even steps that includes two values and ends at whole steps.
    pub(super) fn even(low: f64, high: f64) -> Self {
        let margin = if high > low { 0.0 } else { (low.abs() / 10.0).max(0.5) };
        let (low, high) = (low - margin, high + margin);
        let step = step(low, high);
        let ends = [(low / step).floor() * step, (high / step).ceil() * step];
        Self { low: ends[0], high: ends[1], steps: TickSpacing::Even }
    }

    /// Makes an axis of whole decades that includes two positive values.
    pub(super) fn decades(low: f64, high: f64) -> Self {
        let (low, high) = (low.max(1e-3).log10().floor(), high.max(1e-3).log10().ceil());
        let high = high.max(low + 1.0);
        Self { low: 10_f64.powf(low), high: 10_f64.powf(high), steps: TickSpacing::Decades }
    }

    /// Makes an axis of whole doublings that includes two positive values, with room beside both of
    /// them.
    pub(super) fn doublings(low: f64, high: f64) -> Self {
        let (low, high) = ((low.log2() - 0.4).floor(), (high.log2() + 0.4).ceil());
        Self { low: low.exp2(), high: high.exp2(), steps: TickSpacing::Doublings }
    }

    /// Returns the place of a value on the axis, from 0 at the low end to 1 at the high end; a
    /// value beyond an end gets the place of that end.
    pub(super) fn place(&self, value: f64) -> f64 {
        let at = |value| self.steps.coordinate(value);
        let (low, high) = (self.low, self.high);
        ((at(value.max(low)) - at(low)) / (at(high) - at(low))).clamp(0.0, 1.0)
    }

    /// Returns the values at which the axis has a tick, in ascending order.
    pub(super) fn ticks(&self) -> Vec<f64> {
        let all: Vec<f64> = match self.steps {
            TickSpacing::Even => {
                let step = step(self.low, self.high);
                let first = (self.low / step).ceil() as i64;
                (first..first + 16).map(|at| at as f64 * step).collect()
            }
            TickSpacing::Decades => {
                let fine = self.high / self.low < 300.0;
                let of_decade: &[f64] = if fine { &[1.0, 2.0, 5.0] } else { &[1.0] };
                let decades = self.low.log10().floor() as i32..=self.high.log10().ceil() as i32;
                let each = |at| of_decade.iter().map(move |by| by * 10_f64.powi(at));
                decades.flat_map(each).collect()
            }
            TickSpacing::Doublings => {
                let doublings = self.low.log2().round() as i32..=self.high.log2().round() as i32;
                doublings.map(|at| f64::from(at).exp2()).collect()
            }
        };
        // Ends are ticks in spite of rounding.
        let (least, most) = (self.low - self.low.abs() * 1e-9, self.high + self.high.abs() * 1e-9);
        all.into_iter().filter(|&value| value >= least && value <= most).collect()
    }
}

/// Returns a step of 1, 2 or 5 times a power of ten, of which about five fit between two values.
fn step(low: f64, high: f64) -> f64 {
    let least = (high - low) / 6.0;
    let decade = 10_f64.powf(least.log10().floor());
    [1.0, 2.0, 5.0, 10.0].map(|by| by * decade).into_iter().find(|&it| it >= least).unwrap_or(least)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_axis_begins_and_ends_at_whole_steps() {
        let axis = AxisScale::even(0.0, 870.0);
        assert_eq!((axis.low, axis.high), (0.0, 1000.0));
        assert_eq!(axis.ticks(), [0.0, 200.0, 400.0, 600.0, 800.0, 1000.0]);
        let axis = AxisScale::decades(0.02, 70.0);
        assert_eq!(axis.ticks().len(), 5, "{:?}", axis.ticks());
        assert!((axis.place(1.0) - 0.5).abs() < 1e-12);
        let axis = AxisScale::doublings(4.0, 64.0);
        assert_eq!(axis.ticks(), [2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0]);
    }

    #[test]
    fn one_value_alone_stands_in_the_middle_of_its_axis() {
        let axis = AxisScale::even(20.0, 20.0);
        assert!((axis.place(20.0) - 0.5).abs() < 0.2, "{axis:?}");
        let axis = AxisScale::decades(10.0, 10.0);
        assert!(axis.high > axis.low);
    }

    #[test]
    fn what_is_too_small_for_a_logarithm_is_at_the_lower_end() {
        let places = [0.0, 1e9].map(|value| AxisScale::decades(0.1, 10.0).place(value));
        assert!(places[0] < 1e-9 && places[1] > 1.0 - 1e-9, "{places:?}");
    }
}
