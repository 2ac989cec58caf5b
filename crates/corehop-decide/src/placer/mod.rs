// SPDX-License-Identifier: MIT OR Apache-2.0
//! Placing threads that belong together: where they should run, and whether the placement made the program faster.
//!
//! [`assign`] computes a placement from ties and loads. [`trial`] tests whether a placement is better than the
//! kernel's. [`step`](Placer::step) processes one window after another: it watches, proposes, tries, and keeps or
//! reverts placements. All of this is pure: recorded windows lead to the recorded actions again ([`replay`]). A
//! [`Session`] applies the actions to a live or simulated host, and a [`rehearsal`] shows their results on a
//! simulated host.

pub mod assign;
pub mod log;
pub mod pin;
pub mod regions;
pub mod rehearsal;
pub mod replay;
pub mod terrain;
pub mod trial;
mod controls;
mod crowding;
mod forecast;
mod looks;
mod phases;
mod search;
mod session;
pub mod settings;
mod start;
pub mod step;
#[cfg(test)]
mod tests;

pub use session::Session;
pub use settings::Settings;
pub use start::InitialPlacement;
pub use step::{Action, Placer, Proposal};
