// SPDX-License-Identifier: MIT OR Apache-2.0
//! The simulator on trial: by hand, against its slow twin, against invariants, and with bugs.

mod dice;
mod invariants;
mod twins;
mod ages_by_hand;
mod by_hand;
mod shared_victims;
mod traces;
