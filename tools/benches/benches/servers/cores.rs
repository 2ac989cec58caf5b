// SPDX-License-Identifier: MIT OR Apache-2.0
//! The time that each CPU spends for users, in the kernel, in interrupts and idle, by the kernel's account.

use std::ops::Sub;

/// Ticks of one CPU since boot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Core {
    user: u64,
    kernel: u64,
    interrupt: u64,
    idle: u64,
}

/// All CPUs, and the switches between threads, at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Account {
    cores: Vec<Core>,
    pub(crate) switches: u64,
}

/// Shares of a core's time.
#[derive(Debug, Clone, Copy, serde::Serialize)]
pub(crate) struct Shares {
    pub(crate) user: f64,
    pub(crate) kernel: f64,
    pub(crate) interrupt: f64,
    pub(crate) idle: f64,
}

impl Account {
    pub(crate) fn now() -> std::io::Result<Self> {
        Ok(Self::of(&std::fs::read_to_string("/proc/stat")?))
    }

    fn of(text: &str) -> Self {
        let (mut cores, mut switches) = (Vec::new(), 0);
        for line in text.lines() {
            let mut words = line.split_whitespace();
            let name = words.next().unwrap_or_default();
            let numbers: Vec<u64> = words.map_while(|word| word.parse().ok()).collect();
            match (name, &numbers[..]) {
                // user, nice, system, idle, iowait, irq, softirq
                (cpu, [u, n, s, idle, wait, irq, soft, ..])
                    if cpu.len() > 3 && cpu.starts_with("cpu") =>
                {
                    cores.push(Core {
                        user: u + n,
                        kernel: *s,
                        interrupt: irq + soft,
                        idle: idle + wait,
                    });
                }
                ("ctxt", [count, ..]) => switches = *count,
                _ => {}
            }
        }
        Self { cores, switches }
    }

    /// The shares of each core since `earlier`, and the switches.
    pub(crate) fn since(&self, earlier: &Self) -> (Vec<Shares>, u64) {
        let pairs = self.cores.iter().zip(&earlier.cores);
        let shares = pairs.map(|(&now, &then)| (now - then).shares()).collect();
        (shares, self.switches - earlier.switches)
    }
}

impl Sub for Core {
    type Output = Self;

    fn sub(self, earlier: Self) -> Self {
        Self {
            user: self.user.saturating_sub(earlier.user),
            kernel: self.kernel.saturating_sub(earlier.kernel),
            interrupt: self.interrupt.saturating_sub(earlier.interrupt),
            idle: self.idle.saturating_sub(earlier.idle),
        }
    }
}

impl Core {
    fn shares(self) -> Shares {
        let all = (self.user + self.kernel + self.interrupt + self.idle).max(1) as f64;
        let of = |ticks: u64| ticks as f64 / all;
        Shares {
            user: of(self.user),
            kernel: of(self.kernel),
            interrupt: of(self.interrupt),
            idle: of(self.idle),
        }
    }
}
