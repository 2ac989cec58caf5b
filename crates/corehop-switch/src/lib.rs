// SPDX-License-Identifier: MIT OR Apache-2.0
//! Fast core switching: runs a function on another core and returns its result.
//!
//! A [`Switch`] has a partner thread on an OS core. [`Switch::run`] runs a closure on that OS core:
//!
//! ```
//! use corehop_switch::{Options, Switch};
//!
//! let mut switch = Switch::open(&Options::default());
//! let words = String::from("carried out on another core");
//! assert_eq!(switch.run(|| words.split(' ').count()), 5);
//! ```
//!
//! [`Mechanism`] lists the ways to run on the other core, from a migration of the thread to a polling partner.
//! [`policy`] chooses among several cores, and [`budget`] bounds how long a thread spins. The modules `policy` and
//! `budget` need no operating system, and only these two are left without the feature `library`. The C interface is
//! in `include/corehop_switch.h`.
//!
//! Every wait is bounded. A call that the partner has not taken in time runs on the caller's core. A call that the
//! partner has taken runs there to its end, exactly once.

pub mod policy;
pub mod budget;
#[cfg(any(feature = "library", loom))]
mod fault;
#[cfg(any(feature = "library", loom))]
mod lane;
#[cfg(all(test, loom))]
mod models;
#[cfg(any(feature = "library", loom))]
mod sync;

#[cfg(all(feature = "library", not(loom)))]
mod library {
    pub use crate::ffi::*;
    pub use crate::hop::{Hop, HopRefused};
    pub use crate::leash::Leash;
    pub use crate::mechanism::Mechanism;
    pub use crate::options::{Fallback, Options};
    pub use crate::partner::Function;
    pub use crate::scope::{Pending, Scope};
    pub use crate::switch::{CallPlaceCounts, Full, Switch, Ticket, WaitError};
    pub use crate::uring::KernelPoller;
}
#[cfg(all(feature = "library", not(loom)))]
pub use library::*;

#[cfg(all(feature = "library", not(loom)))]
mod choice;
#[cfg(all(feature = "library", not(loom)))]
mod ffi;
#[cfg(all(feature = "library", not(loom)))]
mod frame;
#[cfg(all(feature = "library", not(loom)))]
mod hop;
#[cfg(all(feature = "library", not(loom)))]
mod leash;
#[cfg(all(feature = "library", not(loom)))]
mod line;
#[cfg(all(feature = "library", not(loom)))]
mod mechanism;
#[cfg(all(feature = "library", not(loom)))]
mod options;
#[cfg(all(feature = "library", not(loom)))]
mod partner;
#[cfg(all(feature = "library", not(loom)))]
mod scope;
#[cfg(all(feature = "library", not(loom)))]
mod switch;
#[cfg(all(feature = "library", not(loom)))]
mod sys;
#[cfg(all(feature = "library", not(loom)))]
mod uring;
