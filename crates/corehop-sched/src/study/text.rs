// SPDX-License-Identifier: MIT OR Apache-2.0
//! Parses studies from TOML: the settings that all readings share, and the choices that distinguish
//! the readings.

use serde::Deserialize;
use toml::{Table, Value};

use super::law::TaskLaws;
use super::{
    Caps, Clusters, Crossover, Measure, PreferredReading, SchedulabilityStudy, Scheduler,
    SchedulerTest, StudyReading,
};
use crate::exact::gcd;
use crate::partition::Fit;
use crate::{catalogue, clusters};
use corehop_plan::bounds;
use corehop_plan::platform::Platform;
use corehop_plan::workload::Event;
use corehop_plan::workload::task::{LONGEST, MOST_CPUS, Time};

/// The reason why a text is not a study.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StudyError {
    /// The text is not TOML, or a field is missing, unknown or of the wrong type.
    #[error("the study is invalid: {0}")]
    Form(String),
    /// A value in the description makes no sense.
    #[error("the study{reading}: {what}")]
    Sense {
        /// The reading with the problem, as a clause; empty if the problem affects all readings.
        reading: String,
        /// The problem, and the expected value.
        what: String,
    },
}

/// The largest number of readings that choices may produce.
const MOST_READINGS: usize = 256;
/// The largest number of caps, of delays, and of steps of a crossover.
const MOST_PLACES: usize = 4_096;

/// The settings that all readings share.
#[derive(Deserialize)]
struct StudyPreamble {
    id: String,
    title: String,
    #[serde(default = "one")]
    seed: u64,
    sets: u64,
    #[serde(default)]
    choices: Table,
    held: Option<PreferredReading>,
}

fn one() -> u64 {
    1
}

/// The settings of one reading.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct StudyText {
    measure: Option<Measure>,
    platform: Option<String>,
    cpus: Option<u32>,
    caps: CapsText,
    #[serde(default = "no_delay")]
    /// The delays in microseconds; sets of a study use microseconds as ticks.
    delays_us: Vec<Time>,
    tasks: TaskLaws,
    schedulers: Table,
    #[serde(default)]
    crossover: Vec<Crossover>,
}

fn no_delay() -> Vec<Time> {
    vec![Time::ZERO]
}

#[derive(Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CapsText {
    from: f64,
    to: f64,
    step: f64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SchedulerText {
    test: String,
    cluster: Option<ClusterSize>,
    packing: Option<String>,
    suffers: Option<Vec<Event>>,
}

#[derive(Deserialize)]
#[serde(untagged, expecting = "expected a number of CPUs, or a level of cache such as \"l2\"")]
enum ClusterSize {
    Cpus(u32),
    Cache(String),
}

impl SchedulabilityStudy {
    /// Parses a description.
    ///
    /// # Errors
    /// Returns [`StudyError`], which says what is wrong and what is expected.
    pub fn parse(text: &str) -> Result<Self, StudyError> {
        let form = |error: toml::de::Error| StudyError::Form(error.to_string());
        let mut table: Table = bounds::from_toml(text).map_err(form)?;
        // Of a field it says what is wrong on one line and where on the next.
        let field = |error: toml::de::Error| {
            StudyError::Form(error.to_string().trim_end().replace('\n', " "))
        };
        let head: StudyPreamble = table.clone().try_into().map_err(field)?;
        for known in ["id", "title", "seed", "sets", "choices", "held"] {
            table.remove(known);
        }
        let read = |(name, table): (String, Table)| {
            let inside = format!(", reading {name}");
            let body: StudyText = table.try_into().map_err(field)?;
            reading(name, body).map_err(|what| StudyError::Sense { reading: inside, what })
        };
        let readings: Vec<StudyReading> =
            combined(table, &head.choices)?.into_iter().map(read).collect::<Result<_, _>>()?;
        let study = Self {
            id: head.id,
            title: head.title,
            seed: head.seed,
            sets: head.sets,
            readings,
            held: head.held,
            text: text.to_owned(),
        };
        study.sound().map_err(|what| StudyError::Sense { reading: String::new(), what })?;
        Ok(study)
    }

    /// Returns the study with another seed or number of sets, if given.
    ///
    /// # Errors
    /// Returns an error if the number of sets is zero or so large that counts would overflow.
    pub fn with(mut self, seed: Option<u64>, sets: Option<u64>) -> Result<Self, StudyError> {
        self.seed = seed.unwrap_or(self.seed);
        self.sets = sets.unwrap_or(self.sets);
        self.sound().map_err(|what| StudyError::Sense { reading: String::new(), what })?;
        Ok(self)
    }

    fn sound(&self) -> Result<(), String> {
        let largest = self.readings.iter().map(|reading| reading.scale().max(reading.caps.whole()));
        let square = u128::from(largest.max().unwrap_or(1)).pow(2);
        let most = (i64::MAX as u128 / square).min(1 << 40);
        if self.sets == 0 || u128::from(self.sets) > most {
            return Err(format!("sets is {}: expected 1 to {most}", self.sets));
        }
        match &self.held {
            Some(held) if !self.readings.iter().any(|it| it.name == held.reading) => {
                let names: Vec<&str> = self.readings.iter().map(|it| it.name.as_str()).collect();
                Err(format!("held: no reading is called `{}`: {}", held.reading, names.join(", ")))
            }
            _ => Ok(()),
        }
    }
}

/// Every combination of the choices' options, each merged into the shared settings.
pub(crate) fn combined(base: Table, choices: &Table) -> Result<Vec<(String, Table)>, StudyError> {
    let wrong = |what: String| StudyError::Sense { reading: String::new(), what };
    let mut made = vec![(String::new(), base)];
    for (choice, options) in choices {
        let Some(options) = options.as_table().filter(|options| !options.is_empty()) else {
            return Err(wrong(format!("choices.{choice}: expected a table of options")));
        };
        let mut next = Vec::with_capacity(made.len() * options.len());
        for (name, table) in &made {
            for (option, change) in options {
                let Some(change) = change.as_table() else {
                    return Err(wrong(format!("choices.{choice}.{option}: expected a table")));
                };
                let slash = if name.is_empty() { "" } else { "/" };
                let mut table = table.clone();
                merge(&mut table, change);
                next.push((format!("{name}{slash}{option}"), table));
            }
        }
        made = next;
        if made.len() > MOST_READINGS {
            return Err(wrong(format!("choices make more than {MOST_READINGS} readings")));
        }
    }
    if let [(name, _)] = made.as_mut_slice()
        && name.is_empty()
    {
        "study".clone_into(name);
    }
    Ok(made)
}

fn merge(into: &mut Table, change: &Table) {
    for (key, value) in change {
        match (into.get_mut(key), value) {
            (Some(Value::Table(inner)), Value::Table(change)) => merge(inner, change),
            _ => {
                into.insert(key.clone(), value.clone());
            }
        }
    }
}

fn reading(name: String, body: StudyText) -> Result<StudyReading, String> {
    let platform = body.platform.as_deref().map(named_platform).transpose()?;
    let of_platform = platform.as_ref().map(|platform| platform.cpus.value.len() as u32);
    let cpus = body.cpus.or(of_platform).ok_or("expected cpus, or a platform to take them from")?;
    if cpus == 0 || cpus > MOST_CPUS {
        return Err(format!("cpus is {cpus}: expected 1 to {MOST_CPUS}"));
    }
    let generator = body.tasks.generator().map_err(|what| format!("tasks: {what}"))?;
    let schedulers: Vec<Scheduler> = body
        .schedulers
        .into_iter()
        .map(|(name, value)| {
            let within = |what: String| format!("schedulers.{name}: {what}");
            let text: SchedulerText = value
                .try_into()
                .map_err(|error: toml::de::Error| within(error.message().into()))?;
            scheduler(name.clone(), text, cpus, platform.as_ref()).map_err(within)
        })
        .collect::<Result<_, _>>()?;
    if schedulers.is_empty() {
        return Err("schedulers: expected at least one scheduler".to_owned());
    }
    let reading = StudyReading {
        name,
        measure: body.measure.unwrap_or(Measure::Schedulability),
        cpus,
        caps: caps(body.caps, cpus)?,
        delays: delays(body.delays_us)?,
        generator,
        schedulers,
        crossovers: body.crossover,
    };
    for crossover in &reading.crossovers {
        compared(&reading, crossover).map_err(|what| format!("crossover: {what}"))?;
    }
    Ok(reading)
}

fn named_platform(id: &str) -> Result<Platform, String> {
    let known = || Platform::names().collect::<Vec<_>>().join(", ");
    let found = Platform::named(id).ok_or_else(|| format!("no platform `{id}`: {}", known()))?;
    found.map_err(|error| error.to_string())
}

pub(crate) fn caps(text: CapsText, cpus: u32) -> Result<Caps, String> {
    let CapsText { from, to, step } = text;
    let said = format!("caps are {from} to {to} in steps of {step}");
    let whole = |value: f64| {
        let thousandths = (value * 1_000.0).round();
        let exact = (value * 1_000.0 - thousandths).abs() < 1e-6 && thousandths >= 1.0;
        exact.then_some(thousandths as u64)
    };
    let (Some(from), Some(to), Some(step)) = (whole(from), whole(to), whole(step)) else {
        return Err(format!("{said}: expected multiples of 0.001 above zero"));
    };
    if from > to || to > u64::from(cpus) * 1_000 || !(to - from).is_multiple_of(step) {
        return Err(format!(
            "{said}: expected a range that rises in whole steps, up to at most the {cpus} CPUs"
        ));
    }
    let count = ((to - from) / step + 1) as usize;
    if count > MOST_PLACES {
        return Err(format!("{said}: expected at most {MOST_PLACES} caps"));
    }
    Ok(Caps { from, step, count, unit: gcd(from, step) })
}

fn delays(given: Vec<Time>) -> Result<Vec<Time>, String> {
    let ascending = given.windows(2).all(|pair| pair[0] < pair[1]);
    if given.is_empty() || !ascending || given.iter().any(|&delay| delay > LONGEST) {
        return Err("delays_us: expected at least one delay, in ascending order".to_owned());
    }
    if given.len() > MOST_PLACES {
        return Err(format!("delays_us: expected at most {MOST_PLACES}"));
    }
    Ok(given)
}

fn compared(reading: &StudyReading, crossover: &Crossover) -> Result<(), String> {
    if crossover.of == crossover.against {
        return Err(format!(
            "`of` and `against` are both `{}`: expected two different schedulers",
            crossover.of
        ));
    }
    for name in [&crossover.of, &crossover.against] {
        if !reading.schedulers.iter().any(|scheduler| scheduler.name == *name) {
            return Err(format!("there is no scheduler `{name}`"));
        }
    }
    if reading.measure == Measure::Breakdown {
        return Err(
            "a crossover compares weighted schedulability, not breakdown utilisation".to_owned()
        );
    }
    if !reading.delays.contains(&crossover.at_us) {
        return Err(format!("at_us is {}: expected one of delays_us", crossover.at_us));
    }
    let last = reading.delays.last().copied().unwrap_or(Time::ZERO);
    let steps = last.ticks().checked_div(crossover.step_us.ticks()).unwrap_or(u64::MAX);
    if steps > MOST_PLACES as u64 {
        return Err(format!(
            "step_us is {}: expected a larger step, because the delays go up to {last}",
            crossover.step_us
        ));
    }
    Ok(())
}

fn scheduler(
    name: String,
    text: SchedulerText,
    cpus: u32,
    platform: Option<&Platform>,
) -> Result<Scheduler, String> {
    let test = catalogue::test(&text.test).map_err(|error| error.to_string())?;
    let (size, level) = match text.cluster {
        None => (None, None),
        Some(ClusterSize::Cpus(size)) => (Some(size), None),
        Some(ClusterSize::Cache(cache)) => {
            let platform = platform.ok_or("a cluster by cache needs a platform")?;
            let (size, level) = clusters::by_cache(platform, &cache)?;
            (Some(size), Some(level))
        }
    };
    let clusters = match (size, text.packing) {
        (None, None) => None,
        (None, Some(_)) => {
            return Err("packing is given without cluster: add cluster, or omit packing".to_owned());
        }
        (Some(size), _) if size == 0 || !cpus.is_multiple_of(size) => {
            return Err(format!(
                "cluster is {size}: expected a size that divides the {cpus} CPUs into whole clusters"
            ));
        }
        (Some(size), packing) => {
            let packing = packing.as_deref().unwrap_or("wfd");
            let (fit, decreasing) = Fit::by_letters(packing).ok_or_else(|| {
                format!("packing is {packing}: expected nf, ff, bf, wf or awf, or one of these followed by d, for example wfd")
            })?;
            Some(Clusters { cpus: size, fit, decreasing })
        }
    };
    let all = [Event::Preemption, Event::L2Migration, Event::L3Migration, Event::MemoryMigration];
    let reached = match (size, level) {
        (Some(1), _) => 1,
        (_, Some(level)) => level.clamp(1, 3) as usize,
        _ => all.len(),
    };
    let suffers = text.suffers.unwrap_or_else(|| all[..reached].to_vec());
    Ok(Scheduler { name, policy: SchedulerTest { test: test.name, clusters }, suffers })
}
