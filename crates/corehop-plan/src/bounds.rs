// SPDX-License-Identifier: MIT OR Apache-2.0
//! The largest number that a reader of files accepts, in any unit: 10^18.
//!
//! 10^18 ns are 31 years, longer than any machine runs, and 10^18 bytes are more than any machine has. The statistics
//! square times and add up the squares. A time above 1.3e154 has no finite square; the limit of 10^18 leaves room for
//! the squares of as many rows as a file can have. Seeds are not quantities and have no bound.

use serde::de::{DeserializeOwned, Error as _};
use serde_json::Value;

/// The largest magnitude of a number that corehop accepts in a file.
pub const MOST: f64 = 1e18;
/// The bound [`MOST`] as a whole number.
pub const MOST_WHOLE: u64 = 1_000_000_000_000_000_000;

/// The error for a number that is out of bounds, which every reader rejects.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{value:e}: expected a number from {least:e} to {MOST:e}")]
pub struct OutOfBounds {
    /// The number that is out of bounds.
    pub value: f64,
    /// The smallest number that corehop accepts.
    pub least: f64,
}

/// Returns `value` if it is finite, at least `least`, and at most [`MOST`].
///
/// # Errors
/// Returns [`OutOfBounds`] with the number and the bounds if `value` is out of bounds.
pub fn bounded(value: f64, least: f64) -> Result<f64, OutOfBounds> {
    if (least..=MOST).contains(&value) { Ok(value) } else { Err(OutOfBounds { value, least }) }
}

/// Returns the number in a text, between -10^18 and 10^18.
///
/// # Errors
/// Returns a clause with the expected form if the text is not a number, or if the number is out of
/// bounds.
pub fn number(text: &str) -> Result<f64, String> {
    let value: f64 = text.parse().map_err(|_| "expected a number".to_owned())?;
    bounded(value, -MOST).map_err(|_| format!("expected a number from {:e} to {MOST:e}", -MOST))
}

/// Returns the value of a JSON text, after a check of every number in the text.
///
/// # Errors
/// Returns the error of serde if the text is not a valid value, or the key and the bounds of a
/// number that is out of bounds.
pub fn from_json<T: DeserializeOwned>(text: &str) -> Result<T, serde_json::Error> {
    json(&serde_json::from_str(text)?).map_err(serde_json::Error::custom)?;
    serde_json::from_str(text)
}

/// Checks every number in a JSON value.
///
/// # Errors
/// Returns a sentence with the key, the number and the bounds if a number is out of bounds.
pub fn json(value: &Value) -> Result<(), String> {
    visit("", value)
}

/// Returns the value of a TOML text, after a check of every number in the text.
///
/// # Errors
/// Returns the error of serde if the text is not a valid value, or the key and the bounds of a
/// number that is out of bounds.
pub fn from_toml<T: DeserializeOwned>(text: &str) -> Result<T, toml::de::Error> {
    toml(&toml::from_str(text)?).map_err(toml::de::Error::custom)?;
    toml::from_str(text)
}

/// Checks every number in a TOML table.
///
/// # Errors
/// Returns a sentence with the key, the number and the bounds, as [`json`] does, if a number is out
/// of bounds.
pub fn toml(table: &toml::Table) -> Result<(), String> {
    table.iter().try_for_each(|(key, value)| visit_toml(key, value))
}

fn visit(key: &str, value: &Value) -> Result<(), String> {
    match value {
        Value::Number(number) => checked(key, number.as_f64().unwrap_or(f64::NAN)),
        Value::Array(items) => items.iter().try_for_each(|item| visit(key, item)),
        Value::Object(fields) => fields.iter().try_for_each(|(key, value)| visit(key, value)),
        _ => Ok(()),
    }
}

fn visit_toml(key: &str, value: &toml::Value) -> Result<(), String> {
    match value {
        toml::Value::Integer(number) => checked(key, *number as f64),
        toml::Value::Float(number) => checked(key, *number),
        toml::Value::Array(items) => items.iter().try_for_each(|item| visit_toml(key, item)),
        toml::Value::Table(table) => toml(table),
        _ => Ok(()),
    }
}

fn checked(key: &str, value: f64) -> Result<(), String> {
    if key.ends_with("seed") {
        return Ok(());
    }
    bounded(value, -MOST).map_err(|error| format!("{key} is {error}")).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_up_to_the_bound_are_accepted_and_larger_ones_are_named() {
        assert_eq!(bounded(MOST, 0.0), Ok(MOST));
        for bad in [f64::NAN, f64::INFINITY, 1.1e18, -1.0] {
            assert!(bounded(bad, 0.0).unwrap_err().to_string().contains("1e18"));
        }
        assert!(number("1e200").unwrap_err().contains("1e18"));
        assert_eq!(number("-0.5"), Ok(-0.5));
    }

    #[test]
    fn a_number_is_found_wherever_it_is_and_a_seed_is_none() {
        type Any = Value;
        let ok: Result<Any, _> = from_json(r#"{"seed": 18446744073709551615, "a": [1, {"b": 2}]}"#);
        assert!(ok.is_ok());
        let error = from_json::<Any>(r#"{"a": [1, {"cost_us": -1e200}]}"#).unwrap_err().to_string();
        assert!(error.contains("cost_us is -1e200"), "{error}");
        let error = from_toml::<toml::Table>("[a]\nb = [{ c = inf }]\n").unwrap_err().to_string();
        assert!(error.contains("c is inf"), "{error}");
        assert!(from_toml::<toml::Table>("seed = 9223372036854775807\nb = 0.5\n").is_ok());
    }
}
