// SPDX-License-Identifier: MIT OR Apache-2.0
//! Fast core switching: runs a function on another core and hands the result back.
//!
//! A [`Switch`] has a partner thread on an OS core. [`Switch::run`] runs a closure there:
//!
//! ```
//! use corehop_switch::{Options, Switch};
//!
//! let mut switch = Switch::open(&Options::default());
//! let words = String::from("carried out on another core");
//! assert_eq!(switch.run(|| words.split(' ').count()), 5);
//! ```
//!
//! [`Mechanism`] lists the ways to the other core, from a move of the thread to a partner that polls. [`policy`] chooses
//! among several cores, and [`budget`] bounds how long a thread spins; neither needs an operating system, and without the
//! feature `library` they are all that is left. The C interface is in `include/corehop_switch.h`.
//!
//! Every wait has a bound. A call that the partner has not taken in time runs on the caller's core instead. A call that it
//! has taken runs there to its end, once.

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
