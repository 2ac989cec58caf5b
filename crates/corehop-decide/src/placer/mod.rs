// SPDX-License-Identifier: MIT OR Apache-2.0
//! Placing threads that belong together: where they are to run, and whether that has paid.
//!
//! [`assign`] computes a placement from ties and loads, [`trial`] whether one is better than leaving alone, and
//! [`step`](Placer::step) goes from one window to the next: it watches, proposes, tries, keeps or takes back. All of it is
//! pure: recorded windows give the same actions again ([`replay`]). A [`Session`] carries the actions out on a host, live or simulated, and a
//! [`rehearsal`] shows what comes of them on a simulated one.

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
