// SPDX-License-Identifier: MIT OR Apache-2.0
//! Independent parts of a simulation, computed on all cores where the build has threads.

/// The results of `run` for each number, in order, computed on all cores.
#[cfg(feature = "parallel")]
pub(crate) fn side_by_side<T: Send>(
    numbers: std::ops::Range<usize>,
    run: impl Fn(usize) -> T + Sync + Send,
) -> Vec<T> {
    use rayon::prelude::*;
    numbers.into_par_iter().map(run).collect()
}

/// The number that is computed at a time.
#[cfg(feature = "parallel")]
pub(super) fn threads() -> usize {
    rayon::current_num_threads()
}

/// The number that is computed at a time.
#[cfg(not(feature = "parallel"))]
pub(super) const fn threads() -> usize {
    1
}

/// The results of `run` for each number, in order.
#[cfg(not(feature = "parallel"))]
pub(crate) fn side_by_side<T>(numbers: std::ops::Range<usize>, run: impl Fn(usize) -> T) -> Vec<T> {
    numbers.map(run).collect()
}
