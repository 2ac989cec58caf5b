// SPDX-License-Identifier: MIT OR Apache-2.0
//! Schedulability tests against simulation, against each other, and against the defects of a peer.

mod chains;
mod counterexamples;
mod defects;
mod dominance;
mod draw;
mod holding;
mod jitter;
mod measured;
mod margins;
mod mixed;
mod oracle;
mod pairs;
mod paying;
mod placed;
mod schedules;
mod simulator;
mod soundness;
mod soundness_held_up;
mod supply;
