// SPDX-License-Identifier: MIT OR Apache-2.0
//! The scheduling of a thread of rt-app. The policy decides the meaning of every other field.

use std::fmt;

use serde_json::Value;

use super::super::set_file::JsonTree;
use super::super::task::Time;
use super::fields::{JsonFields, find, micros, number, text, whole};
use super::thread::{RtAppPhase, SCHEDULING};

/// The priority of a thread under SCHED_FIFO or SCHED_RR that states no priority.
const DEFAULT_PRIORITY: u64 = 10;

/// A scheduling policy of Linux that rt-app can name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RtAppPolicy {
    Other,
    Batch,
    Idle,
    Fifo,
    RoundRobin,
    Deadline,
}

const POLICIES: [(RtAppPolicy, &str); 6] = [
    (RtAppPolicy::Other, "SCHED_OTHER"),
    (RtAppPolicy::Batch, "SCHED_BATCH"),
    (RtAppPolicy::Idle, "SCHED_IDLE"),
    (RtAppPolicy::Fifo, "SCHED_FIFO"),
    (RtAppPolicy::RoundRobin, "SCHED_RR"),
    (RtAppPolicy::Deadline, "SCHED_DEADLINE"),
];

impl RtAppPolicy {
    /// Returns the policy that the field `name` states, or `None` if the field is absent.
    pub(super) fn in_field(fields: &JsonFields, name: &str) -> Result<Option<Self>, String> {
        let Some(stated) = text(fields, name)? else { return Ok(None) };
        let known = POLICIES.iter().find(|(_, text)| *text == stated);
        let names = POLICIES.map(|(_, text)| text).join(", ");
        known
            .map(|(policy, _)| Some(*policy))
            .ok_or_else(|| format!("`{name}` is {stated}: expected one of {names}"))
    }

    /// Returns whether the kernel shares the CPU fairly among threads of this policy.
    pub(super) fn is_fair(self) -> bool {
        matches!(self, Self::Other | Self::Batch | Self::Idle)
    }
}

impl fmt::Display for RtAppPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = POLICIES.iter().find(|(policy, _)| policy == self).map_or("", |(_, name)| name);
        f.write_str(name)
    }
}

/// A reservation of SCHED_DEADLINE: the run time in each period, and the deadline after the start of the period.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Reservation {
    pub(super) runtime: Time,
    pub(super) period: Time,
    pub(super) deadline: Time,
}

/// The scheduling of a thread in all its phases.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Scheduling {
    pub(super) policy: RtAppPolicy,
    /// The priority under SCHED_FIFO and SCHED_RR, 1 to 99.
    pub(super) priority: Option<u64>,
    pub(super) reservation: Option<Reservation>,
    /// Fields that the policy does not use, or that no test analyses.
    pub(super) beside: Vec<&'static str>,
}

impl Scheduling {
    /// Returns the scheduling of a thread whose workload has this default policy.
    ///
    /// # Errors
    /// Returns an error that names a field that the policy cannot have, or phases whose scheduling differs.
    pub(super) fn of(
        thread: &JsonFields,
        phases: &[RtAppPhase<'_>],
        default_policy: RtAppPolicy,
    ) -> Result<Self, String> {
        let policy = RtAppPolicy::in_field(thread, "policy")?.unwrap_or(default_policy);
        let mut before = None;
        for phase in phases.iter().filter(|phase| !std::ptr::eq(phase.fields, thread)) {
            let fields = phase.fields;
            let stated: Vec<&str> =
                SCHEDULING.into_iter().filter(|name| find(fields, name).is_some()).collect();
            let own = if stated.is_empty() {
                Self::in_fields(thread, policy, true)?
            } else if let Some(policy) = RtAppPolicy::in_field(fields, "policy")? {
                Self::in_fields(fields, policy, false)?
            } else {
                let what = "expected a `policy` too, because a phase sets both or neither";
                return Err(format!("a phase has `{}`: {what}", stated[0]));
            };
            if before.as_ref().is_some_and(|before| *before != own) {
                let name = stated.first().copied().unwrap_or("policy");
                let what = "all jobs of a task need the same policy and parameters";
                return Err(format!("its phases differ in `{name}`: {what}"));
            }
            before = Some(own);
        }
        before.map_or_else(|| Self::in_fields(thread, policy, true), Ok)
    }

    fn in_fields(
        fields: &JsonFields,
        policy: RtAppPolicy,
        of_thread: bool,
    ) -> Result<Self, String> {
        let mut beside = Vec::new();
        let unused: &[&'static str] = if policy == RtAppPolicy::Deadline {
            &["priority"]
        } else {
            &["dl-runtime", "dl-period", "dl-deadline", "period", "deadline"]
        };
        beside.extend(unused.iter().filter(|name| find(fields, name).is_some()));
        let mut scheduling = Self { policy, priority: None, reservation: None, beside };
        match policy {
            RtAppPolicy::Deadline => scheduling.reservation = Some(reservation(fields, of_thread)?),
            RtAppPolicy::Fifo | RtAppPolicy::RoundRobin => {
                let priority = find(fields, "priority");
                let priority =
                    priority.map_or(Ok(DEFAULT_PRIORITY), |value| whole("priority", value))?;
                if !(1..=99).contains(&priority) {
                    let what = format!("`priority` is {priority}: expected 1 to 99");
                    return Err(format!("{what} under {policy}"));
                }
                scheduling.priority = Some(priority);
            }
            RtAppPolicy::Other | RtAppPolicy::Batch | RtAppPolicy::Idle => {
                if let Some(nice) = nice(fields)? {
                    scheduling.beside.extend((nice != 0).then_some("priority"));
                }
            }
        }
        Ok(scheduling)
    }
}

/// Returns the nice value of a thread that shares the CPU fairly.
fn nice(fields: &JsonFields) -> Result<Option<i64>, String> {
    let Some(value) = find(fields, "priority") else { return Ok(None) };
    let nice =
        if let JsonTree::Leaf(Value::Number(number)) = value { number.as_i64() } else { None };
    match nice {
        Some(nice) if (-20..=19).contains(&nice) => Ok(Some(nice)),
        _ => Err(format!("`priority` is {value}: expected a nice value, -20 to 19")),
    }
}

/// Returns the reservation of a thread, with rt-app's defaults for absent fields. rt-app also accepts the older
/// names without `dl-`: it reads an older name if both the newer name and its default are 0.
fn reservation(fields: &JsonFields, of_thread: bool) -> Result<Reservation, String> {
    let given = |name: &str| number(fields, name).map(|given| given.map(micros));
    let older = |name: &str| if of_thread { given(name) } else { Ok(None) };
    let mut runtime = given("dl-runtime")?.unwrap_or(Time::ZERO);
    let mut period = given("dl-period")?.unwrap_or(runtime);
    let mut deadline = given("dl-deadline")?.unwrap_or(period);
    let unused = |name: &str, newer: Time| {
        let lost = newer > Time::ZERO && older(name)?.is_some();
        let what = format!("rt-app ignores the older name `{name}` beside the newer names");
        if lost { Err(what) } else { Ok(()) }
    };
    // `runtime` is an event as well.
    unused("period", period)?;
    unused("deadline", deadline)?;
    if runtime.is_zero() {
        runtime = older("runtime")?.unwrap_or(Time::ZERO);
    }
    if period.is_zero() {
        period = older("period")?.unwrap_or(runtime);
    }
    if deadline.is_zero() {
        deadline = older("deadline")?.unwrap_or(period);
    }
    if runtime.is_zero() {
        return Err("`dl-runtime` is missing: state the budget under SCHED_DEADLINE".to_owned());
    }
    if runtime > deadline || deadline > period {
        let what = format!("dl-runtime {runtime}, dl-deadline {deadline}, dl-period {period}");
        return Err(format!("{what}: Linux expects each to be at most the next"));
    }
    Ok(Reservation { runtime, period, deadline })
}
