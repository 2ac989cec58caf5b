// SPDX-License-Identifier: MIT OR Apache-2.0
//! Parses quantities: shares, lengths, counts, and load programs.
//!
//! # Errors
//! Each parser's error names the fault in the text and the expected form.

use corehop_plan::experiment::Length;
use corehop_plan::units::{Bytes, Nanos};
use corehop_plan::workload::{MovingProgram, Pattern, Polluter};

/// Parses `page=thp` as a pair.
///
/// # Errors
/// Fails with the errors of [all parsers](self#errors).
pub fn pair(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or_else(|| {
        format!("`{text}` does not have the form NAME=VALUE, for example page=thp")
    })?;
    Ok((name.to_owned(), value.to_owned()))
}

/// Parses `5%` as 0.05.
///
/// # Errors
/// Fails with the errors of [all parsers](self#errors).
pub fn percent(text: &str) -> Result<f64, String> {
    share(text, "5%")
}

/// Parses `5%` as 0.05; `0%` makes every difference count.
///
/// # Errors
/// Fails with the errors of [all parsers](self#errors).
pub fn margin(text: &str) -> Result<f64, String> {
    let none = text.strip_suffix('%').and_then(|number| number.trim().parse::<f64>().ok());
    if none == Some(0.0) { Ok(0.0) } else { share(text, "5%") }
}

/// Parses `95%` as 0.95.
///
/// # Errors
/// Fails with the errors of [all parsers](self#errors).
pub fn confidence(text: &str) -> Result<f64, String> {
    share(text, "95%")
}

/// Parses a percentage strictly between 0 and 100.
fn share(text: &str, instance: &str) -> Result<f64, String> {
    let number = text.strip_suffix('%').and_then(|number| number.trim().parse::<f64>().ok());
    match number {
        Some(percent) if percent > 0.0 && percent < 100.0 => Ok(percent / 100.0),
        Some(_) => Err(format!("expected 0% to 100%, for example `{instance}`")),
        None => Err(format!("missing percent sign: write for example `{instance}`")),
    }
}

/// The largest count of samples or replicates: their products, such as the samples of all steps, still fit 32 bits.
const MOST_COUNT: u32 = 10_000_000;

/// Parses a number of at least one; `zero` is the error message for 0.
///
/// # Errors
/// Fails with the errors of [all parsers](self#errors).
pub fn count(zero: &'static str) -> impl Fn(&str) -> Result<u32, String> + Clone {
    move |text| match text.parse::<u32>() {
        Ok(0) => Err(zero.to_owned()),
        Ok(number) if number > MOST_COUNT => Err(format!("at most {MOST_COUNT}")),
        Ok(number) => Ok(number),
        Err(error) => Err(error.to_string()),
    }
}

/// Parses `0.25` or `1/4`.
///
/// # Errors
/// Fails with the errors of [all parsers](self#errors).
pub fn ratio(text: &str) -> Result<f64, String> {
    let number = |text: &str| {
        text.trim().parse::<f64>().map_err(|_| "write for example `0.25` or `1/4`".to_owned())
    };
    let value = match text.split_once('/') {
        Some((above, below)) => number(above)? / number(below)?,
        None => number(text)?,
    };
    if (0.0..=1.0).contains(&value) {
        Ok(value)
    } else {
        Err("a share lies between 0 and 1".to_owned())
    }
}

/// Parses `4ms`, or `0..50ms`.
///
/// # Errors
/// Fails with the errors of [all parsers](self#errors).
pub fn length(text: &str) -> Result<Length, String> {
    let time = |text: &str| text.parse::<Nanos>().map_err(|error| error.to_string());
    match text.split_once("..") {
        None => time(text).map(Length::Fixed),
        Some((low, high)) => {
            let unit = high.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
            let low = if low.ends_with(|c: char| c.is_ascii_digit()) {
                format!("{low}{unit}")
            } else {
                low.to_owned()
            };
            let (low, high) = (time(&low)?, time(high)?);
            if low <= high {
                Ok(Length::Uniform(low, high))
            } else {
                Err("the first length is longer than the second: swap the two".to_owned())
            }
        }
    }
}

/// Parses `4MiB`, `4MiB,scan`, `4MiB,shuffled,0.5`.
///
/// # Errors
/// Fails with the errors of [all parsers](self#errors).
pub fn polluter(text: &str) -> Result<Polluter, String> {
    let mut parts = text.split(',');
    let wss =
        parts.next().unwrap_or_default().parse::<Bytes>().map_err(|error| error.to_string())?;
    let pattern = parts
        .next()
        .map_or(Ok(Pattern::Shuffled), str::parse)
        .map_err(|error| error.to_string())?;
    let write_ratio = parts.next().map_or(Ok(0.5), ratio)?;
    if let Some(more) = parts.next() {
        return Err(format!("unexpected `{more}`: write SIZE,PATTERN,WRITE_RATIO"));
    }
    Ok(Polluter { wss, pattern, write_ratio })
}

/// Parses `2MiB`, `2MiB,0.1`, `2MiB,0.1,60ns`; missing values default to the values of a compiler.
///
/// # Errors
/// Fails with the errors of [all parsers](self#errors).
pub fn changing(text: &str) -> Result<MovingProgram, String> {
    let mut parts = text.split(',');
    let mut program = MovingProgram::COMPILER;
    program.window =
        parts.next().unwrap_or_default().parse::<Bytes>().map_err(|error| error.to_string())?;
    if let Some(fresh) = parts.next() {
        program.fresh = ratio(fresh)?;
    }
    if let Some(pause) = parts.next() {
        program.pause = pause.parse::<Nanos>().map_err(|error| error.to_string())?;
    }
    if let Some(more) = parts.next() {
        return Err(format!("unexpected `{more}`: write WINDOW,FRESH,PAUSE"));
    }
    program.check().map_err(|error| error.to_string())?;
    Ok(program)
}

/// Parses `100`, `4k`, `1.5M`.
///
/// # Errors
/// Fails with the errors of [all parsers](self#errors).
pub fn items(text: &str) -> Result<u64, String> {
    let wrong =
        || format!("`{text}` is not a number of items: write for example `100`, `4k` or `1M`");
    let (number, times) = match text.trim().strip_suffix(['k', 'K']) {
        Some(number) => (number, 1e3),
        None => match text.trim().strip_suffix('M') {
            Some(number) => (number, 1e6),
            None => (text.trim(), 1.0),
        },
    };
    let value = number.parse::<f64>().map_err(|_| wrong())? * times;
    if value >= 1.0 && value.fract() == 0.0 && value < 1e12 {
        Ok(value as u64)
    } else {
        Err(wrong())
    }
}

#[cfg(test)]
mod tests {
    use super::items;

    #[test]
    fn numbers_of_items_are_thousands_and_millions_of_ten() {
        let counts = ["100", "4k", "1.5M", "400K"].map(|text| items(text).unwrap());
        assert_eq!(counts, [100, 4_000, 1_500_000, 400_000]);
        for wrong in ["", "x", "0", "-1", "1.5", "4Ki"] {
            assert!(items(wrong).unwrap_err().contains("4k"), "{wrong}");
        }
    }
}
