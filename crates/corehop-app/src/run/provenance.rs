// SPDX-License-Identifier: MIT OR Apache-2.0
//! The provenance of a result.

use std::time::{SystemTime, UNIX_EPOCH};

use corehop_plan::experiment::Plan;
use corehop_plan::machine::Machine;
use corehop_plan::samples::Provenance;

/// The provenance of a run that begins now.
pub(super) fn begin(machine: &dyn Machine, plan: &Plan) -> Provenance {
    of(machine, &plan.experiment, plan.seed)
}

/// The provenance of a run of a named experiment that begins now.
pub(super) fn of<M: Machine + ?Sized>(machine: &M, experiment: &str, seed: u64) -> Provenance {
    Provenance {
        corehop: env!("CARGO_PKG_VERSION").to_owned(),
        // A file name may be any bytes; the command is a note for people.
        command: std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect(),
        date: utc_now(),
        seed,
        experiment: experiment.to_owned(),
        platform: machine.platform().to_toml(),
        machine: machine.provenance(),
        ..Provenance::default()
    }
}

/// Returns the current time as UTC in ISO 8601, to the second.
pub fn utc_now() -> String {
    utc(SystemTime::now())
}

/// A time as UTC in ISO 8601, to the second.
fn utc(time: SystemTime) -> String {
    let seconds = time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let (days, of_day) = (seconds / 86_400, seconds % 86_400);
    let (year, month, day) = civil(days);
    format!(
        "{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}Z",
        of_day / 3600,
        of_day / 60 % 60,
        of_day % 60
    )
}

/// The Gregorian date of a day counted from 1970-01-01.
fn civil(days: u64) -> (u64, u64, u64) {
    // Years are counted from March, so that the leap day is a year's last; 400 years have 146,097 days.
    let days = days + 719_468;
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let (month, carry) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    (era * 400 + year + carry, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn dates_are_those_of_the_calendar() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_709_251_199, "2024-02-29T23:59:59Z"),
            (1_795_219_200, "2026-11-21T00:00:00Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
        ] {
            assert_eq!(utc(UNIX_EPOCH + Duration::from_secs(seconds)), text);
        }
    }
}
