// SPDX-License-Identifier: MIT OR Apache-2.0
//! Computes independent parts on all cores if the build has threads.
//!
//! Rayon's global pool panics if the system starts no thread (`ulimit -u`). The first caller starts the pool in this
//! module; if it does not start, the calling thread computes all parts, with the same results.

/// Returns the pool of computing threads, or `None` if the system did not start the threads.
#[cfg(feature = "parallel")]
fn pool() -> Option<&'static rayon::ThreadPool> {
    static POOL: std::sync::OnceLock<Option<rayon::ThreadPool>> = std::sync::OnceLock::new();
    POOL.get_or_init(|| rayon::ThreadPoolBuilder::new().build().ok()).as_ref()
}

/// Returns the results of `run` for each number, in order, computed on all cores.
#[cfg(feature = "parallel")]
pub fn side_by_side<T: Send>(
    numbers: std::ops::Range<usize>,
    run: impl Fn(usize) -> T + Sync + Send,
) -> Vec<T> {
    use rayon::prelude::*;
    match pool() {
        Some(pool) => pool.install(|| numbers.into_par_iter().map(run).collect()),
        None => numbers.map(run).collect(),
    }
}

/// Calls `advance` for each run on all cores and returns the results in order.
#[cfg(feature = "parallel")]
pub fn together<T: Send, R: Send>(
    runs: &mut [T],
    advance: impl Fn(&mut T) -> R + Sync + Send,
) -> Vec<R> {
    use rayon::prelude::*;
    match pool() {
        Some(pool) => pool.install(|| runs.par_iter_mut().map(advance).collect()),
        None => runs.iter_mut().map(advance).collect(),
    }
}

/// Returns the sum of `piece` over pieces of at most `length` items, computed on `threads` threads, by default on
/// all cores.
///
/// # Errors
/// Returns the first error of a call of `piece`, or the result of `refused` with the system's message if the system
/// does not start the requested number of threads.
#[cfg(feature = "parallel")]
pub fn summed<I: Sync, S: Send, E: Send>(
    (items, length): (&[I], usize),
    threads: Option<usize>,
    nothing: impl Fn() -> S + Sync + Send,
    piece: impl Fn(&[I]) -> Result<S, E> + Sync + Send,
    add: impl Fn(S, S) -> S + Sync + Send,
    refused: impl FnOnce(String) -> E,
) -> Result<S, E> {
    use rayon::prelude::*;
    let all = || items.par_chunks(length).map(&piece).try_reduce(&nothing, |a, b| Ok(add(a, b)));
    if let Some(threads) = threads {
        let own = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
        return own.map_err(|error| refused(error.to_string()))?.install(all);
    }
    match pool() {
        Some(pool) => pool.install(all),
        None => items.chunks(length).try_fold(nothing(), |sum, it| Ok(add(sum, piece(it)?))),
    }
}

/// Returns the number of parts that are computed at a time.
#[cfg(feature = "parallel")]
pub fn threads() -> usize {
    pool().map_or(1, rayon::ThreadPool::current_num_threads)
}

/// Returns the number of parts that are computed at a time.
#[cfg(not(feature = "parallel"))]
pub(super) const fn threads() -> usize {
    1
}

/// Returns the results of `run` for each number, in order.
#[cfg(not(feature = "parallel"))]
pub(crate) fn side_by_side<T>(numbers: std::ops::Range<usize>, run: impl Fn(usize) -> T) -> Vec<T> {
    numbers.map(run).collect()
}

/// Calls `advance` for each run and returns the results in order.
#[cfg(not(feature = "parallel"))]
pub(super) fn together<T, R>(runs: &mut [T], advance: impl Fn(&mut T) -> R) -> Vec<R> {
    runs.iter_mut().map(advance).collect()
}

/// Returns the sum of `piece` over pieces of at most `length` items.
///
/// # Errors
/// Returns the first error that a call of `piece` returned.
#[cfg(not(feature = "parallel"))]
pub(crate) fn summed<I, S, E>(
    (items, length): (&[I], usize),
    _: Option<usize>,
    nothing: impl Fn() -> S,
    piece: impl Fn(&[I]) -> Result<S, E>,
    add: impl Fn(S, S) -> S,
    _: impl FnOnce(String) -> E,
) -> Result<S, E> {
    items.chunks(length).try_fold(nothing(), |sum, it| Ok(add(sum, piece(it)?)))
}
