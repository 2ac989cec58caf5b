// SPDX-License-Identifier: MIT OR Apache-2.0
//! Parses the random distributions of tasks from study descriptions.

use serde::Deserialize;

use super::Generator;
use corehop_plan::workload::generate::fixed_sum::UtilisationMethod;
use corehop_plan::workload::generate::{Capped, Deadline, FixedSum, Last, Period, Utilisation};
use corehop_plan::workload::task::{LONGEST, MOST_TASKS, Time};

/// The table `tasks` of a description.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TaskLaws {
    utilisation: Option<NamedOr<ULaw>>,
    period_us: NamedOr<PLaw>,
    deadline: Option<DLaw>,
    last: Option<LastTask>,
    count: Option<usize>,
    method: Option<HowToSum>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(
    untagged,
    expecting = "expected a law such as { uniform = [LOW, HIGH] }, or the name of one as a string"
)]
enum NamedOr<T> {
    Named(String),
    Law(T),
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum ULaw {
    Uniform([f64; 2]),
    Bimodal(f64),
    Exponential(f64),
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct PLaw {
    // Sets of a study are in microseconds, so that a tick is one.
    uniform: Option<[Time; 2]>,
    log_uniform: Option<[Time; 2]>,
    step: Option<Time>,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum DLaw {
    Implicit,
    Constrained,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum LastTask {
    Discard,
    Scale,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum HowToSum {
    UunifastDiscard,
    RandFixedSum,
    Convolution,
    Drs,
}

impl TaskLaws {
    /// The described generator, or what is wrong with the description.
    pub(crate) fn generator(self) -> Result<Generator, String> {
        let period = period(self.period_us)?;
        let deadline = match self.deadline {
            None | Some(DLaw::Implicit) => Deadline::Implicit,
            Some(DLaw::Constrained) => Deadline::Constrained,
        };
        match (self.utilisation, self.count) {
            (Some(law), None) => {
                if self.method.is_some() {
                    return Err("method goes with count".to_owned());
                }
                let last = match self.last {
                    None | Some(LastTask::Discard) => Last::Discard,
                    Some(LastTask::Scale) => Last::Scale,
                };
                let utilisation = utilisation(law)?;
                let cap = 0.0;
                Ok(Generator::Capped(Capped { cap, utilisation, period, deadline, last }))
            }
            (None, Some(tasks)) => {
                if self.last.is_some() {
                    return Err("last goes with utilisation".to_owned());
                }
                if tasks == 0 || tasks > MOST_TASKS {
                    return Err(format!("count is {tasks}: expected 1 to {MOST_TASKS}"));
                }
                let method = match self.method {
                    None | Some(HowToSum::RandFixedSum) => UtilisationMethod::RandFixedSum,
                    Some(HowToSum::UunifastDiscard) => UtilisationMethod::UUniFastDiscard,
                    Some(HowToSum::Convolution) => UtilisationMethod::Convolution,
                    Some(HowToSum::Drs) => UtilisationMethod::DirichletRescale,
                };
                let sum = 0.0;
                Ok(Generator::FixedSum(FixedSum { tasks, sum, method, period, deadline }))
            }
            _ => Err("expected either utilisation (tasks are drawn until the cap is exceeded) or \
                      count (utilisations have the cap as their sum)"
                .to_owned()),
        }
    }
}

fn utilisation(law: NamedOr<ULaw>) -> Result<Utilisation, String> {
    let law = match law {
        NamedOr::Law(law) => law,
        NamedOr::Named(name) => {
            return Utilisation::named(&name).ok_or_else(|| {
                let known: Vec<&str> = Utilisation::NAMED.iter().map(|&(name, _)| name).collect();
                format!("there is no utilisation `{name}`: use one of {}", known.join(", "))
            });
        }
    };
    match law {
        ULaw::Uniform([low, high]) if 0.0 < low && low <= high && high <= 1.0 => {
            Ok(Utilisation::Uniform(low, high))
        }
        ULaw::Bimodal(heavy) if (0.0..=1.0).contains(&heavy) => Ok(Utilisation::Bimodal(heavy)),
        ULaw::Exponential(mean) if 0.0 < mean && mean <= 1.0 => Ok(Utilisation::Exponential(mean)),
        law => Err(format!("utilisation is {law:?}: expected values above 0 and up to 1")),
    }
}

fn period(law: NamedOr<PLaw>) -> Result<Period, String> {
    let law = match law {
        NamedOr::Law(law) => law,
        NamedOr::Named(name) => {
            return Period::named(&name).ok_or_else(|| {
                let known: Vec<&str> = Period::NAMED.iter().map(|&(name, _)| name).collect();
                format!("there is no period_us `{name}`: use one of {}", known.join(", "))
            });
        }
    };
    let granularity = law.step.unwrap_or(Time::TICK);
    let sound = |[low, high]: [Time; 2]| {
        let fits = granularity > Time::ZERO
            && Time::ZERO < low
            && low <= high
            && high <= LONGEST
            && low.is_multiple_of(granularity)
            && high.is_multiple_of(granularity);
        fits.then_some((low, high)).ok_or_else(|| {
            format!(
                "period_us is {low} to {high} in steps of {granularity}: expected multiples of \
                     the step, the lower first, 1 to {LONGEST}"
            )
        })
    };
    match (law.uniform, law.log_uniform) {
        (Some(range), None) => {
            sound(range).map(|(low, high)| Period::Uniform { low, high, granularity })
        }
        (None, Some(range)) => {
            sound(range).map(|(low, high)| Period::LogUniform { low, high, granularity })
        }
        _ => {
            Err("period_us: expected uniform = [low, high] or log-uniform = [low, high]".to_owned())
        }
    }
}
