// SPDX-License-Identifier: MIT OR Apache-2.0
//! Corehop represents the times of tasks as integers.
//!
//! A time is a number of ticks, and no analysis depends on the length of a tick. Limits keep every product below 128
//! bits, so that no analysis overflows or rounds.

mod arithmetic;

use serde_json::{Number, Value, json};

use crate::units::Nanos;

/// A span of integer time in ticks; the type distinguishes a time from a count and from a number of microseconds.
///
/// [`Tick`] converts between microseconds or nanoseconds and times. The arithmetic overflows as the arithmetic of `u64`
/// does.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, serde::Serialize, serde::Deserialize,
)]
#[serde(transparent)]
#[repr(transparent)]
pub struct Time(u64);

/// The longest span of a task: 2^40 ticks, which is 12 days in microseconds, and 18 minutes in nanoseconds.
pub const LONGEST: Time = Time::new(1 << 40);

/// The largest number of tasks in a set.
pub const MOST_TASKS: usize = 1 << 14;

/// The largest number of CPUs that a task set can have.
pub const MOST_CPUS: u32 = 1 << 16;

/// The unit of the times of a set: a microsecond, or a nanosecond if some time is not a whole number of microseconds.
///
/// The type converts every time that enters or leaves a set; files, answers and sentences are in microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub enum Tick {
    /// The tick of a set is a microsecond.
    #[default]
    Micro,
    /// The tick of a set is a nanosecond.
    Nano,
}

impl Tick {
    /// Returns the number of ticks in a microsecond.
    pub const fn per_us(self) -> u64 {
        match self {
            Self::Micro => 1,
            Self::Nano => 1_000,
        }
    }

    /// Returns the number of nanoseconds in a tick.
    const fn ns(self) -> u64 {
        1_000 / self.per_us()
    }

    /// Returns the longest tick of which all spans are multiples.
    pub(crate) fn of(spans: impl IntoIterator<Item = Nanos>) -> Self {
        let is_whole = spans.into_iter().all(|span| span.get().is_multiple_of(1_000));
        if is_whole { Self::Micro } else { Self::Nano }
    }

    /// Converts a span to ticks, rounded up.
    pub const fn up(self, span: Nanos) -> Time {
        Time::new(span.get().div_ceil(self.ns()))
    }

    /// Converts a number of microseconds to ticks.
    pub const fn of_us(self, us: u64) -> Time {
        Time::new(us * self.per_us())
    }

    /// Converts a cost in microseconds to ticks, rounded up; a negative cost becomes zero.
    pub fn up_from_us(self, us: f64) -> Time {
        Time::new((us.max(0.0) * self.per_us() as f64).ceil() as u64)
    }

    /// Converts a time to a span in nanoseconds.
    pub const fn nanos(self, time: Time) -> Nanos {
        Nanos::new(time.ticks().saturating_mul(self.ns()))
    }

    /// Returns a time in whole microseconds, rounded up.
    pub const fn whole_us(self, time: Time) -> u64 {
        time.ticks().div_ceil(self.per_us())
    }

    /// Returns a time in whole microseconds, rounded down.
    pub const fn full_us(self, time: Time) -> u64 {
        time.ticks() / self.per_us()
    }

    /// Returns whether a time is a whole number of microseconds.
    pub const fn is_whole_us(self, time: Time) -> bool {
        time.ticks().is_multiple_of(self.per_us())
    }

    /// Returns a time in microseconds as text, such as `1500.5`.
    pub fn us(self, time: Time) -> String {
        let (whole, rest) = (time.ticks() / self.per_us(), time.ticks() % self.per_us());
        if rest == 0 {
            return whole.to_string();
        }
        format!("{whole}.{rest:03}").trim_end_matches('0').to_owned()
    }

    /// Returns a time in microseconds, as a number of JSON.
    pub fn json(self, time: Time) -> Value {
        if self.is_whole_us(time) {
            return json!(self.full_us(time));
        }
        let us = time.as_f64() / self.per_us() as f64;
        Number::from_f64(us).map_or(Value::Null, Value::Number)
    }

    /// Converts the fields named `us` or `…_us` in a JSON value from ticks to microseconds.
    pub fn in_us(self, mut value: Value) -> Value {
        self.convert(&mut value, false);
        value
    }

    fn convert(self, value: &mut Value, is_time: bool) {
        match value {
            Value::Object(fields) => fields.iter_mut().for_each(|(name, value)| {
                self.convert(value, name == "us" || name.ends_with("_us"));
            }),
            Value::Array(items) => items.iter_mut().for_each(|it| self.convert(it, is_time)),
            Value::Number(number) if is_time && self == Self::Nano => {
                let ticks = number.as_i64().unwrap_or_default();
                let us = self.json(Time::new(ticks.unsigned_abs()));
                *value = if ticks < 0 { json!(-us.as_f64().unwrap_or_default()) } else { us };
            }
            _ => {}
        }
    }

    /// Returns an exact time with a unit for people, such as `1.2 ms`.
    pub fn span(self, time: Time) -> String {
        let ns = u128::from(time) * u128::from(self.ns());
        let (factor, unit, digits) = match ns {
            1..1_000 => return format!("{ns} ns"),
            0..1_000_000 => (1_000, "us", 3),
            1_000_000..1_000_000_000 => (1_000_000, "ms", 6),
            _ => (1_000_000_000, "s", 9),
        };
        let exact = format!("{}.{:0digits$}", ns / factor, ns % factor);
        format!("{} {unit}", exact.trim_end_matches('0').trim_end_matches('.'))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_shown_exactly_in_either_tick() {
        for (tick, time, us, span) in [
            (Tick::Micro, 0, "0", "0 us"),
            (Tick::Micro, 999, "999", "999 us"),
            (Tick::Micro, 1_200, "1200", "1.2 ms"),
            (Tick::Micro, 21_000, "21000", "21 ms"),
            (Tick::Micro, 1_000_001, "1000001", "1.000001 s"),
            (Tick::Nano, 1, "0.001", "1 ns"),
            (Tick::Nano, 1_500, "1.5", "1.5 us"),
            (Tick::Nano, 1_500_020, "1500.02", "1.50002 ms"),
            (Tick::Nano, 2_000, "2", "2 us"),
        ] {
            let time = Time::new(time);
            assert_eq!((tick.us(time).as_str(), tick.span(time).as_str()), (us, span));
            assert_eq!(tick.json(time).to_string(), us);
        }
    }

    #[test]
    fn a_charge_is_never_rounded_down() {
        assert_eq!(Tick::Micro.up(Nanos::new(1_001)), Time::new(2));
        assert_eq!(Tick::Nano.up(Nanos::new(1_001)), Time::new(1_001));
        assert_eq!(
            [Tick::Micro, Tick::Nano].map(|it| it.up_from_us(1.2)),
            [2, 1_200].map(Time::new)
        );
        assert_eq!(Tick::Nano.up_from_us(-1.0), Time::ZERO);
        assert_eq!(Tick::Nano.whole_us(Time::new(1_001)), 2);
    }
}
