// SPDX-License-Identifier: MIT OR Apache-2.0
//! The options of a switch, and the reasons why an option could not be met.

use std::{fmt, io};

use crate::leash::Leash;
use crate::mechanism::Mechanism;
use crate::policy::{CoreSet, Flags};

/// The requested properties of a switch.
#[derive(Clone, Debug)]
pub struct Options {
    /// The cores to switch to, at most 64. If the set is empty, the switch uses the last usable core on which
    /// the caller is not running.
    pub os_cores: CoreSet,
    /// The mechanism for switching. `None` selects V5 or V2, whichever makes an empty call cheaper at the start.
    pub mechanism: Option<Mechanism>,
    /// The policy for choosing among several cores.
    pub flags: Flags,
    /// The longest spin, in nanoseconds. `None` selects [`usual_limit`](crate::budget::usual_limit).
    pub spin_limit_ns: Option<u64>,
    /// The time in nanoseconds after which a call that the other core has not taken runs on the caller's core.
    pub patience_ns: u64,
    /// Places for [leashes](Leash): each partner takes one, and does not start if none is free. If this list is
    /// empty, partners have no leashes and only their switch can end them.
    pub leashes: &'static [Leash],
}

impl Default for Options {
    fn default() -> Self {
        Self {
            os_cores: CoreSet::EMPTY,
            mechanism: None,
            flags: Flags::AFFINITY,
            spin_limit_ns: None,
            patience_ns: 10_000_000,
            leashes: &[],
        }
    }
}

/// The reason why a switch does less than requested.
#[derive(Debug)]
pub enum Fallback {
    /// Only one core is usable, so calls run on that core.
    OneCore,
    /// A core is offline, or not allowed for this process.
    Core {
        /// The number of the core.
        core: usize,
        /// The operating system's error for the core.
        error: io::Error,
    },
    /// More than 64 OS cores were named, so this core and all cores with higher numbers are not used.
    TooMany {
        /// The first core that is left out.
        core: usize,
    },
    /// io_uring is forbidden or does not support futexes, so V2 replaces V3.
    Ring(io::Error),
    /// A thread or a page was not available.
    Resources(io::Error),
}

impl fmt::Display for Fallback {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OneCore => f.write_str(
                "only one core is usable, so calls run on that core: allow a second core (taskset, cpuset)",
            ),
            Self::Core { core, error } => write!(
                f,
                "core {core} cannot be used ({error}): name a core that is online and in this process's cpuset"
            ),
            Self::TooMany { core } => {
                write!(f, "core {core} and higher cores are ignored: name at most 64 OS cores")
            }
            Self::Ring(error) => write!(
                f,
                "v2 instead of v3, as io_uring has no futexes here ({error}): Linux 6.7 has them; \
                 look at kernel.io_uring_disabled and seccomp"
            ),
            Self::Resources(error) => {
                write!(f, "calls run on the caller's core, without a partner ({error})")
            }
        }
    }
}
