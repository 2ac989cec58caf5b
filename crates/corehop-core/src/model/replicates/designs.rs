// SPDX-License-Identifier: MIT OR Apache-2.0
//! Made-up experiments with replicates, of which is known what their intervals should cover. Used by
//! the tests of the module and by `examples/coverage.rs`.

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

/// A law with mean 0 and variance 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Law {
    Normal,
    /// `exp(σZ)`, shifted and scaled; skewed like an exponential one at `σ = 0.5`.
    LogNormal(f64),
    Exponential,
    /// Two peaks ten standard deviations of a peak apart, the lower one with probability 0.35.
    TwoPeaks,
}

/// The course of replicates over a run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Course {
    /// Each is drawn anew.
    Steady,
    /// One period of a sinus in the run, with a random phase, of this amplitude.
    Sinus(f64),
    /// Effects follow a stationary autoregression with this correlation of neighbours; normal.
    Related(f64),
}

/// The generation of samples: `√icc · effect of the replicate + √(1 - icc) · noise + course`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Design {
    pub(crate) effect: Law,
    pub(crate) noise: Law,
    /// The share of the variance that is between replicates.
    pub(crate) icc: f64,
    pub(crate) course: Course,
}

impl Design {
    pub(crate) fn steady(effect: Law, noise: Law, icc: f64) -> Self {
        Self { effect, noise, icc, course: Course::Steady }
    }

    /// One experiment.
    pub(crate) fn run(&self, draw: &mut Draw, replicates: usize, samples: usize) -> Vec<Vec<f64>> {
        let (own, rest) = (self.icc.sqrt(), (1.0 - self.icc).sqrt());
        self.effects(draw, replicates)
            .into_iter()
            .map(|(effect, course)| {
                let level = own * effect + course;
                (0..samples).map(|_| level + rest * draw.value(self.noise)).collect()
            })
            .collect()
    }

    /// The effect of each replicate, by itself and by its time.
    fn effects(&self, draw: &mut Draw, replicates: usize) -> Vec<(f64, f64)> {
        let phase = draw.unit();
        let mut last = draw.normal();
        let mut next = |at: usize| match self.course {
            Course::Steady => (draw.value(self.effect), 0.0),
            Course::Sinus(amplitude) => {
                let angle = std::f64::consts::TAU * (phase + at as f64 / replicates as f64);
                (draw.value(self.effect), amplitude * angle.sin())
            }
            Course::Related(rho) => {
                last = rho * last + (1.0 - rho * rho).sqrt() * draw.normal();
                (last, 0.0)
            }
        };
        (0..replicates).map(&mut next).collect()
    }

    /// `count` replicates, each from a run of its own, so that the time in the run is random too:
    /// what is true of them is the truth about a run.
    pub(crate) fn apart(&self, draw: &mut Draw, count: usize, samples: usize) -> Vec<Vec<f64>> {
        (0..count).flat_map(|_| self.run(draw, 1, samples)).collect()
    }
}

/// A seeded source.
pub(crate) struct Draw(Pcg64Mcg);

impl Draw {
    pub(crate) fn new(seed: u64) -> Self {
        Self(Pcg64Mcg::seed_from_u64(seed))
    }

    fn unit(&mut self) -> f64 {
        self.0.random()
    }

    /// Standard normal by the polar method (Marsaglia and Bray, 1964).
    pub(crate) fn normal(&mut self) -> f64 {
        loop {
            let (u, v) = (2.0 * self.unit() - 1.0, 2.0 * self.unit() - 1.0);
            let square = u * u + v * v;
            if square > 0.0 && square < 1.0 {
                return u * (-2.0 * square.ln() / square).sqrt();
            }
        }
    }

    fn value(&mut self, law: Law) -> f64 {
        match law {
            Law::Normal => self.normal(),
            Law::LogNormal(sigma) => {
                let square = (sigma * sigma).exp();
                let (mean, variance) = (square.sqrt(), square * (square - 1.0));
                ((sigma * self.normal()).exp() - mean) / variance.sqrt()
            }
            Law::Exponential => -(1.0 - self.unit()).ln() - 1.0,
            Law::TwoPeaks => {
                let peak = if self.unit() < 0.35 { -6.5 } else { 3.5 };
                (peak + self.normal()) / (1.0 + 100.0 * 0.35_f64 * 0.65).sqrt()
            }
        }
    }
}
