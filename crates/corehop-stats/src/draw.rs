// SPDX-License-Identifier: MIT OR Apache-2.0
//! Draws samples of known distributions, for tests of the coverage of intervals.

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

/// A distribution whose quantiles and mean are known.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum ReferenceLaw {
    /// The uniform distribution on [0, 1].
    Uniform,
    /// The exponential distribution with mean 1.
    Exponential,
    /// The distribution of `exp(Z)` with a standard normal `Z`.
    LogNormal,
    /// The values follow the standard normal distribution.
    Normal,
    /// The uniform distribution on the whole numbers 1 to 6, which has many ties.
    Die,
    /// The generalized Pareto distribution with scale 1 and this shape.
    Pareto(f64),
}

impl ReferenceLaw {
    /// Returns the smallest `x` with `F(x) >= p`.
    pub(crate) fn quantile(self, p: f64) -> f64 {
        match self {
            Self::Uniform => p,
            Self::Exponential | Self::Pareto(0.0) => -(-p).ln_1p(),
            Self::Normal => normal_quantile(p),
            Self::LogNormal => normal_quantile(p).exp(),
            Self::Die => (6.0 * p - 1e-12).ceil().max(1.0),
            Self::Pareto(shape) => ((1.0 - p).powf(-shape) - 1.0) / shape,
        }
    }

    /// Returns the mean of the distribution.
    pub(crate) fn mean(self) -> f64 {
        match self {
            Self::Uniform => 0.5,
            Self::Exponential => 1.0,
            Self::Normal => 0.0,
            Self::LogNormal => 0.5_f64.exp(),
            Self::Die => 3.5,
            Self::Pareto(shape) => 1.0 / (1.0 - shape),
        }
    }
}

fn normal_quantile(p: f64) -> f64 {
    -std::f64::consts::SQRT_2 * statrs::function::erf::erfc_inv(2.0 * p)
}

/// A seeded source of resamples and reference values.
pub(crate) struct ResampleSource(Pcg64Mcg);

impl ResampleSource {
    pub(crate) fn new(seed: u64) -> Self {
        Self(Pcg64Mcg::seed_from_u64(seed))
    }

    /// Draws a number uniformly from [0, 1).
    pub(crate) fn unit(&mut self) -> f64 {
        self.0.random()
    }

    /// Draws a standard normal number (Box and Muller, using one of the two numbers).
    pub(crate) fn normal(&mut self) -> f64 {
        let (u, v) = (1.0 - self.unit(), self.unit());
        (-2.0 * u.ln()).sqrt() * (std::f64::consts::TAU * v).cos()
    }

    /// Draws one value of the distribution `law`.
    pub(crate) fn value(&mut self, law: ReferenceLaw) -> f64 {
        match law {
            ReferenceLaw::Normal => self.normal(),
            ReferenceLaw::LogNormal => self.normal().exp(),
            _ => {
                // Away from 0, whose quantile is no value of the law.
                let u = 1.0 - self.unit();
                law.quantile(u.min(1.0 - 1e-16))
            }
        }
    }

    /// Draws `n` independent values of `law`.
    pub(crate) fn values(&mut self, law: ReferenceLaw, n: usize) -> Vec<f64> {
        (0..n).map(|_| self.value(law)).collect()
    }

    /// Draws `n` values of a stationary autoregression `x' = rho·x + noise` with variance 1 and
    /// mean 0.
    pub(crate) fn autoregression(&mut self, rho: f64, n: usize) -> Vec<f64> {
        let mut x = self.normal();
        let step = (1.0 - rho * rho).sqrt();
        (0..n)
            .map(|_| {
                x = rho * x + step * self.normal();
                x
            })
            .collect()
    }
}
