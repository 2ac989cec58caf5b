// SPDX-License-Identifier: MIT OR Apache-2.0
//! Parsers of quantities on the command line: shares, lengths, programs of loads.

use corehop_plan::experiment::Length;
use corehop_plan::units::{Bytes, Nanos};
use corehop_plan::workload::{MovingProgram, Pattern, Polluter};

/// `page=thp` as a pair.
pub(super) fn pair(text: &str) -> Result<(String, String), String> {
    let (name, value) = text
        .split_once('=')
        .ok_or_else(|| format!("`{text}` is not of the form NAME=VALUE, for instance page=thp"))?;
    Ok((name.to_owned(), value.to_owned()))
}

/// `5%` as 0.05.
pub(super) fn percent(text: &str) -> Result<f64, String> {
    share(text, "5%")
}

/// `5%` as 0.05, and `0%`, with which every difference counts.
pub(super) fn margin(text: &str) -> Result<f64, String> {
    let none = text.strip_suffix('%').and_then(|number| number.trim().parse::<f64>().ok());
    if none == Some(0.0) { Ok(0.0) } else { share(text, "5%") }
}

/// `95%` as 0.95.
pub(super) fn confidence(text: &str) -> Result<f64, String> {
    share(text, "95%")
}

/// A percentage between none and all.
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

/// A number of at least one; `zero` is the error message for 0.
pub(super) fn count(zero: &'static str) -> impl Fn(&str) -> Result<u32, String> + Clone {
    move |text| match text.parse::<u32>() {
        Ok(0) => Err(zero.to_owned()),
        Ok(number) if number > MOST_COUNT => Err(format!("at most {MOST_COUNT}")),
        Ok(number) => Ok(number),
        Err(error) => Err(error.to_string()),
    }
}

/// `0.25` or `1/4`.
pub(super) fn ratio(text: &str) -> Result<f64, String> {
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

/// `4ms`, or `0..50ms`.
pub(super) fn length(text: &str) -> Result<Length, String> {
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
                Err("the first length is longer than the second: swap them".to_owned())
            }
        }
    }
}

/// `4MiB`, `4MiB,scan`, `4MiB,shuffled,0.5`.
pub(super) fn polluter(text: &str) -> Result<Polluter, String> {
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

/// `2MiB`, `2MiB,0.1`, `2MiB,0.1,60ns`; the rest as a compiler's.
pub(super) fn changing(text: &str) -> Result<MovingProgram, String> {
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
