// SPDX-License-Identifier: MIT OR Apache-2.0
//! Recognises the headings of tables of tasks under common names: `C`, `wcet_us`, `period [ms]`.

use super::TimeUnit;
use crate::words::nearest_of;

/// The meaning of a heading in a table of tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TaskColumn {
    /// The column states the name of a task.
    Name,
    /// The column states a time; the task set has the time in this field, in microseconds.
    Time(&'static str),
    /// The column states the rank of a task.
    Priority,
    /// The column states the CPUs of a task.
    Cpus,
    /// The column states the size of a task's working set.
    Wss,
    /// The column states a fact that follows from other facts, or that no analysis of sporadic
    /// tasks uses.
    Unused,
}

/// The known headings of each column without units, reduced to small letters and digits.
const KNOWN: [(TaskColumn, &[&str]); 13] = [
    (TaskColumn::Name, &["name", "task", "taskname", "id", "taskid", "label", "thread"]),
    (
        TaskColumn::Time("wcet_us"),
        &[
            "c",
            "ci",
            "e",
            "wcet",
            "cost",
            "exec",
            "exectime",
            "execution",
            "executiontime",
            "runtime",
            "computation",
        ],
    ),
    (TaskColumn::Time("bcet_us"), &["bcet"]),
    (
        TaskColumn::Time("period_us"),
        &["t", "ti", "period", "mit", "interarrival", "mininterarrival", "mininterarrivaltime"],
    ),
    (TaskColumn::Time("deadline_us"), &["d", "di", "deadline", "relativedeadline"]),
    (TaskColumn::Time("jitter_us"), &["j", "ji", "jitter", "releasejitter"]),
    (TaskColumn::Time("blocking_us"), &["b", "bi", "blocking", "blockingtime"]),
    (TaskColumn::Time("suspension_us"), &["suspension", "selfsuspension"]),
    (TaskColumn::Time("budget_us"), &["budget"]),
    (TaskColumn::Priority, &["prio", "priority", "rank"]),
    (TaskColumn::Cpus, &["cpu", "cpus", "core", "processor", "partition", "affinity"]),
    (TaskColumn::Wss, &["wss", "workingset", "workingsetsize"]),
    (
        TaskColumn::Unused,
        &["u", "ui", "util", "utilization", "utilisation", "density", "offset", "phase", "comment"],
    ),
];

/// The units with which a heading can end, for sizes and times.
const UNITS: [(&str, &str); 12] = [
    ("ns", "ns"),
    ("us", "us"),
    ("µs", "us"),
    ("μs", "us"),
    ("ms", "ms"),
    ("s", "s"),
    ("sec", "s"),
    ("kib", "KiB"),
    ("kb", "KiB"),
    ("mib", "MiB"),
    ("bytes", "B"),
    ("b", "B"),
];

/// A heading of a table that corehop recognised.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Heading {
    /// The property of a task that the heading stands for.
    pub column: TaskColumn,
    /// The unit for values that state no unit, spelled as in texts with units.
    pub unit: Option<&'static str>,
}

/// Recognises a heading; returns `None` if the heading is unknown.
pub fn heading(text: &str) -> Option<Heading> {
    let plain = |text: &str| -> String {
        text.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect()
    };
    let column = |name: &str| {
        let name = plain(name);
        KNOWN.iter().find(|(_, names)| names.contains(&name.as_str())).map(|(column, _)| *column)
    };
    // A whole name comes first: the `s` of `cpus` is no unit.
    if let Some(column) = column(text) {
        return Some(Heading { column, unit: None });
    }
    let at = text.trim_end_matches([']', ')', ' ']).rfind(['[', '(', '_', ' ', '/', ','])?;
    let (name, unit) = (&text[..at], plain(&text[at..]));
    let unit = UNITS.iter().find(|(word, _)| *word == unit).map(|(_, unit)| *unit)?;
    let column = column(name)?;
    let fits = match column {
        TaskColumn::Time(_) | TaskColumn::Unused => unit.ends_with('s'),
        TaskColumn::Wss => unit.ends_with('B'),
        _ => false,
    };
    fits.then_some(Heading { column, unit: Some(unit) })
}

/// Returns the error for an unknown heading, which lists the known headings.
pub(super) fn unknown(text: &str) -> String {
    if text.trim().eq_ignore_ascii_case("cores") {
        return format!(
            "the column `{text}` can be a number of cores or a list of CPUs: if it lists CPUs, rename it to `cpus`, otherwise remove it"
        );
    }
    let known = [
        "name",
        "wcet",
        "period",
        "deadline",
        "jitter",
        "blocking",
        "suspension",
        "budget",
        "bcet",
        "priority",
        "cpu",
        "wss",
    ];
    format!(
        "`{text}` is not a known column{}: use one of {}, each with its unit, as in `wcet_us` or `wcet [ms]`; remove other columns",
        nearest_of(text, known),
        known.join(", ")
    )
}

/// Returns whether a line is the head of a table of tasks: the line must have a period and an
/// execution time.
pub fn is_head(line: &str) -> bool {
    let cells = super::csv::cells(line, super::csv::separator(line));
    let known: Vec<TaskColumn> =
        cells.iter().filter_map(|cell| heading(cell)).map(|heading| heading.column).collect();
    ["wcet_us", "period_us"].iter().all(|field| known.contains(&TaskColumn::Time(field)))
}

/// Returns a time in nanoseconds from its number and unit, rounded up if `up` is true, or `None` if
/// the number is not a time.
pub(super) fn nanos(number: &str, unit: TimeUnit, up: bool) -> Option<u64> {
    // The shortest decimals of a float: 1e-3 is 0.001.
    let text = if number.contains(['e', 'E']) {
        number.parse::<f64>().ok().filter(|value| value.is_finite())?.to_string()
    } else {
        number.to_owned()
    };
    let (whole, fraction) = text.split_once('.').unwrap_or((&text, ""));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.len() + fraction.len() == 0 || !digits(whole) || !digits(fraction) {
        return None;
    }
    // Twelve decimals of a second are finer than a nanosecond by a thousand.
    let kept = &fraction[..fraction.len().min(12)];
    let is_cut = fraction[kept.len()..].bytes().any(|digit| digit != b'0');
    let scale = 10_u128.pow(kept.len() as u32);
    let value = format!("{whole}{kept}").parse::<u128>().ok()?.checked_mul(unit.nanos().into())?;
    let is_more = value % scale != 0 || is_cut;
    u64::try_from(value / scale).ok()?.checked_add(u64::from(is_more && up))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headings_are_known_by_usual_names_with_and_without_units() {
        let of = |text: &str| heading(text).map(|it| (it.column, it.unit));
        let time = |field, unit| Some((TaskColumn::Time(field), unit));
        for text in ["C [ms]", "wcet_ms", "WCET (ms)", "exec time/ms", "Runtime ms"] {
            assert_eq!(of(text), time("wcet_us", Some("ms")), "{text}");
        }
        assert_eq!(of("T"), time("period_us", None));
        assert_eq!(of("Deadline_µs"), time("deadline_us", Some("us")));
        assert_eq!(of("cpus"), Some((TaskColumn::Cpus, None)));
        assert_eq!(of("wss_kib"), Some((TaskColumn::Wss, Some("KiB"))));
        for text in ["color", "wcet_kib", "name_ms", "wss_ms", "p", ""] {
            assert_eq!(of(text), None, "{text}");
        }
    }

    #[test]
    fn a_head_needs_an_execution_time_and_a_period() {
        assert!(is_head("name,C [ms],T [ms]") && is_head("task;wcet_us;period_us;color"));
        assert!(!is_head("load,event,cost_us") && !is_head("name,wcet_us,deadline_us"));
    }

    #[test]
    fn times_finer_than_a_nanosecond_are_rounded_as_asked_and_others_are_exact() {
        let both = |text| [false, true].map(|up| nanos(text, TimeUnit::Micro, up));
        assert_eq!(both("0.1"), [Some(100); 2]);
        assert_eq!(both("1e-2"), [Some(10); 2]);
        assert_eq!(both("0.3333333333333"), [Some(333), Some(334)]);
        assert_eq!(both("1.0000000000000001"), [Some(1_000), Some(1_001)]);
        for wrong in ["", ".", "-1", "1.2.3", "x", "1e99", "99999999999999999999999999999999999999"]
        {
            assert_eq!(both(wrong), [None; 2], "{wrong}");
        }
    }
}
