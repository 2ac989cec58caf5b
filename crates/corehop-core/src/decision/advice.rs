// SPDX-License-Identifier: MIT OR Apache-2.0
//! Advice for one machine, from a model of its costs: preempt or migrate, where to, which migrations to
//! avoid, where it makes no difference (Wächtler 2012, section 6.4, for the machine at hand).
//!
//! A choice is preferred where its interval ends below that of every other; two differ by nothing that
//! matters where no value of their intervals is further apart than the margin, whatever a third one costs
//! that is dearer than both. All else is "not enough evidence": measure more, or at that size.

use serde::Serialize;

use super::simulated::Saving;
use crate::model::cpmd::{Asked, Cost, Model, NoAnswer, Prediction, Statistic};
use crate::units::{Bytes, Nanos};
use crate::workload::Event;

/// What may be asked of the advice.
#[derive(Debug, Clone, PartialEq)]
pub struct Wanted {
    /// The sizes; those of the preemptions that were measured where it is empty.
    pub wss: Vec<Bytes>,
    /// The preemption length; the longest measured where there is none.
    pub length: Option<Nanos>,
    /// What makes no difference, as a share of the smaller cost; never less than [`LEAST_MARGIN_US`].
    pub margin: f64,
    /// Other fields of the series, as names and values.
    pub only: Vec<(String, String)>,
}

/// Differences below this never matter, in microseconds.
pub const LEAST_MARGIN_US: f64 = 1.0;

/// The advice.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Advice {
    /// For each load and size, what to prefer.
    pub rules: Vec<Rule>,
    /// The constants that schedulers ask for, by load.
    pub constants: Vec<Constants>,
    /// What dividing the cache would save, where that was simulated.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub partitioning: Vec<Saving>,
    /// For the map: for each load, size and preemption length what to prefer.
    pub map: Vec<Place>,
    /// What could not be advised on, and why.
    pub silent: Vec<String>,
}

/// What to prefer for a working set after preemptions of one length.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Place {
    /// The load.
    pub load: String,
    /// The size.
    pub wss_bytes: u64,
    /// The preemption length, in microseconds.
    pub length_us: f64,
    /// What the preemption costs, in the median.
    pub preemption: Cost,
    /// The cheapest migration, and what it costs.
    pub migration: (Event, Cost),
    /// What to do.
    pub verdict: Preference,
}

/// What to prefer for one working set under one load.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Rule {
    /// The load.
    pub load: String,
    /// The size.
    pub wss_bytes: u64,
    /// The preemption length that the costs are for, in microseconds: that asked for, or the longest
    /// measured at this size.
    pub length_us: Option<f64>,
    /// What can be done, the cheapest first.
    pub choices: Vec<Choice>,
    /// What to do.
    pub verdict: Preference,
    /// What makes no difference here, in microseconds.
    pub margin_us: f64,
    /// The preemption length at which the answer flips.
    pub flip: Option<Flip>,
    /// What keeping whatever runs meanwhile out of the job's cache lines would save at most: the
    /// preemption less an absence in which nothing else runs.
    pub isolation_saves: Option<Cost>,
}

/// Something that can be done with a job whose CPU is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Choice {
    /// Wait here, or move.
    pub event: Event,
    /// Its cost, in the median.
    #[serde(flatten)]
    pub cost: Cost,
    /// Whether it is a migration that surely costs more than being preempted does.
    pub avoid: bool,
}

/// What the evidence prefers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Preference {
    /// This one surely costs least.
    Prefer(Event),
    /// No two of those that may cost least differ by more than the margin.
    NoDifference,
    /// It cannot be told.
    NotEnoughEvidence,
}

/// Between which preemption lengths a migration becomes the cheaper choice, in microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Flip {
    /// The migration.
    pub to: Event,
    /// The longest length measured after which the preemption surely costs less; None where there is none.
    pub not_yet_us: Option<f64>,
    /// The shortest length measured after which the preemption surely costs more; None where there is none.
    pub by_us: Option<f64>,
}

/// Constants for schedulers.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Constants {
    /// The load.
    pub load: String,
    /// The size they are for: the largest measured that the job's own caches hold.
    pub wss_bytes: u64,
    /// The nearest migration that was measured, and what it costs beyond resuming in place: what
    /// `sched_migration_cost_ns` of Linux stands for.
    pub migration: Option<(Event, Cost)>,
    /// How long after it was switched out a job still finds half of what it left: the warm budget of a
    /// sched_ext scheduler; None where too few lengths were measured.
    pub warm_budget_us: Option<f64>,
}

const MIGRATIONS: [Event; 4] =
    [Event::SmtMigration, Event::L2Migration, Event::L3Migration, Event::MemoryMigration];

/// The advice that `model` carries.
///
/// # Errors
/// [`NoAnswer::Several`] where several series fit, or whatever else makes a question of `wanted` unclear;
/// what was simply not measured goes to [`Advice::silent`].
pub fn advise(model: &Model, wanted: &Wanted) -> Result<Advice, NoAnswer> {
    let mut loads: Vec<&str> = Vec::new();
    for curve in &model.curves {
        let load = curve.series.key.load.as_str();
        if !loads.contains(&load) {
            loads.push(load);
        }
    }
    let mut advice = Advice {
        rules: Vec::new(),
        constants: Vec::new(),
        partitioning: Vec::new(),
        map: Vec::new(),
        silent: Vec::new(),
    };
    for load in loads {
        let asking = Asking { model, wanted, load };
        let sizes = asking.sizes()?;
        if sizes.is_empty() {
            advice.silent.push(format!("load {load}: no preemption was measured under it"));
            continue;
        }
        for &wss in &sizes {
            match asking.rule(wss)? {
                Some(rule) => {
                    advice.map.extend(asking.places(&rule, wss)?);
                    advice.rules.push(rule);
                }
                None => advice
                    .silent
                    .push(format!("load {load}, {wss}: fewer than two choices were measured")),
            }
        }
        advice.constants.extend(asking.constants(&sizes)?);
    }
    Ok(advice)
}

/// Questions under one load.
struct Asking<'a> {
    model: &'a Model,
    wanted: &'a Wanted,
    load: &'a str,
}

impl Asking<'_> {
    fn asked(&self, event: Event, wss: Bytes, length: Option<Nanos>) -> Asked {
        Asked {
            event,
            load: self.load.to_owned(),
            wss,
            length,
            statistic: Statistic::Median,
            method: None,
            only: self.wanted.only.clone(),
        }
    }

    /// The answer; None where nothing like it was measured.
    fn predict(
        &self,
        event: Event,
        wss: Bytes,
        length: Option<Nanos>,
    ) -> Result<Option<Prediction>, NoAnswer> {
        match self.model.predict(&self.asked(event, wss, length)) {
            Ok(prediction) => Ok(Some(prediction)),
            Err(NoAnswer::Several { count, differences }) => {
                Err(NoAnswer::Several { count, differences })
            }
            Err(NoAnswer::NoField { field, known }) => Err(NoAnswer::NoField { field, known }),
            Err(_) => Ok(None),
        }
    }

    /// The sizes to advise on: those asked for, or those of the preemptions.
    fn sizes(&self) -> Result<Vec<Bytes>, NoAnswer> {
        let points = self.model.measured(&self.asked(Event::Preemption, Bytes::new(0), None));
        let mut sizes: Vec<Bytes> = match points {
            Ok(series) => series.sizes().into_iter().map(Bytes::new).collect(),
            Err(NoAnswer::Unknown { .. }) => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        if !self.wanted.wss.is_empty() {
            sizes.clone_from(&self.wanted.wss);
        }
        Ok(sizes)
    }

    fn rule(&self, wss: Bytes) -> Result<Option<Rule>, NoAnswer> {
        let length = self.wanted.length;
        let Some(preemption) = self.predict(Event::Preemption, wss, length)? else {
            return Ok(None);
        };
        let mut choices =
            vec![Choice { event: Event::Preemption, cost: preemption.cost, avoid: false }];
        for event in MIGRATIONS {
            // A migration costs the same however long the job was away, unless a load runs.
            let cost = self.predict(event, wss, length)?.map(|it| it.cost);
            let avoid = |cost: &Cost| {
                cost.low_us.zip(preemption.cost.high_us).is_some_and(|(low, high)| low > high)
            };
            choices.extend(cost.map(|cost| Choice { event, avoid: avoid(&cost), cost }));
        }
        if choices.len() < 2 {
            return Ok(None);
        }
        choices.sort_by(|a, b| a.cost.estimate_us.total_cmp(&b.cost.estimate_us));
        let margin_us = (self.wanted.margin * choices[0].cost.estimate_us).max(LEAST_MARGIN_US);
        let idle = self.predict(Event::IdleLeave, wss, None)?;
        Ok(Some(Rule {
            load: self.load.to_owned(),
            wss_bytes: wss.get(),
            length_us: match length {
                Some(length) => Some(length.get() as f64 / 1e3),
                None => self.lengths(wss)?.last().copied(),
            },
            verdict: preference(&choices, margin_us),
            margin_us,
            flip: self.flip(&choices, wss)?,
            isolation_saves: idle.map(|idle| less(preemption.cost, idle.cost)),
            choices,
        }))
    }

    /// Where preemptions of this size become dearer than the cheapest migration, by the lengths measured.
    fn flip(&self, choices: &[Choice], wss: Bytes) -> Result<Option<Flip>, NoAnswer> {
        let Some(migration) = choices.iter().find(|choice| choice.event != Event::Preemption)
        else {
            return Ok(None);
        };
        let lengths = self.lengths(wss)?;
        let (mut not_yet_us, mut by_us) = (None, None);
        for length in lengths {
            let nanos = Nanos::new((1e3 * length) as u64);
            let Some(preemption) = self.predict(Event::Preemption, wss, Some(nanos))? else {
                continue;
            };
            if surely_less(&preemption.cost, &migration.cost) {
                not_yet_us = Some(length);
            } else if surely_less(&migration.cost, &preemption.cost) && by_us.is_none() {
                by_us = Some(length);
            }
        }
        let known = not_yet_us.is_some() || by_us.is_some();
        Ok(known.then_some(Flip { to: migration.event, not_yet_us, by_us }))
    }

    /// What to prefer after each length that was measured, preemption or the cheapest migration.
    fn places(&self, rule: &Rule, wss: Bytes) -> Result<Vec<Place>, NoAnswer> {
        let migration = rule.choices.iter().find(|choice| choice.event != Event::Preemption);
        let Some(&migration) = migration else { return Ok(Vec::new()) };
        let mut places = Vec::new();
        for length_us in self.lengths(wss)? {
            let nanos = Nanos::new((1e3 * length_us) as u64);
            let Some(known) = self.predict(Event::Preemption, wss, Some(nanos))? else { continue };
            let stay = Choice { event: Event::Preemption, cost: known.cost, avoid: false };
            let mut choices = vec![stay, migration];
            choices.sort_by(|a, b| a.cost.estimate_us.total_cmp(&b.cost.estimate_us));
            let margin_us = (self.wanted.margin * choices[0].cost.estimate_us).max(LEAST_MARGIN_US);
            places.push(Place {
                load: self.load.to_owned(),
                wss_bytes: wss.get(),
                length_us,
                preemption: known.cost,
                migration: (migration.event, migration.cost),
                verdict: preference(&choices, margin_us),
            });
        }
        Ok(places)
    }

    /// The preemption lengths measured at a size, in microseconds, ascending.
    fn lengths(&self, wss: Bytes) -> Result<Vec<f64>, NoAnswer> {
        let series = self.model.measured(&self.asked(Event::Preemption, wss, None))?;
        let here = series.points.iter().filter(|point| point.wss_bytes == wss.get());
        Ok(here.map(|point| point.length_us).collect())
    }

    fn constants(&self, sizes: &[Bytes]) -> Result<Option<Constants>, NoAnswer> {
        let own = self.model.own_cache(&self.asked(Event::Preemption, Bytes::new(0), None))?;
        let held = sizes.iter().filter(|size| own.is_none_or(|own| size.get() <= own));
        let Some(&wss) = held.max() else { return Ok(None) };
        let idle = self.predict(Event::IdleLeave, wss, None)?.map(|it| it.cost);
        let mut migration = None;
        for event in MIGRATIONS {
            let cost = self.predict(event, wss, None)?.map(|it| it.cost);
            migration =
                migration.or(cost.map(|cost| (event, idle.map_or(cost, |idle| less(cost, idle)))));
        }
        Ok(Some(Constants {
            load: self.load.to_owned(),
            wss_bytes: wss.get(),
            migration,
            warm_budget_us: self.warm_budget(wss)?,
        }))
    }

    /// The shortest length measured after which half of the greatest cost has been reached; None where that
    /// is the shortest one of all.
    fn warm_budget(&self, wss: Bytes) -> Result<Option<f64>, NoAnswer> {
        let mut costs = Vec::new();
        for length in self.lengths(wss)? {
            let nanos = Nanos::new((1e3 * length) as u64);
            let cost = self.predict(Event::Preemption, wss, Some(nanos))?;
            costs.extend(cost.map(|it| (length, it.cost.estimate_us)));
        }
        let most = costs.iter().map(|&(_, cost)| cost).fold(0.0, f64::max);
        let half = costs.iter().position(|&(_, cost)| 2.0 * cost >= most);
        Ok(half.filter(|&at| at > 0).map(|at| costs[at].0))
    }
}

/// One cost less another: estimates, and the ends of what the difference may be.
fn less(a: Cost, b: Cost) -> Cost {
    let ends = |a: Option<f64>, b: Option<f64>| a.zip(b).map(|(a, b)| a - b);
    Cost {
        estimate_us: a.estimate_us - b.estimate_us,
        low_us: ends(a.low_us, b.high_us),
        high_us: ends(a.high_us, b.low_us),
    }
}

/// Whether the interval of `a` ends before that of `b` begins.
fn surely_less(a: &Cost, b: &Cost) -> bool {
    a.high_us.zip(b.low_us).is_some_and(|(high, low)| high < low)
}

/// `choices` ascend by their estimates. What is surely dearer than the first by more than the margin has no say
/// in whether the others differ.
fn preference(choices: &[Choice], margin_us: f64) -> Preference {
    let first = &choices[0];
    let span = |it: &Choice| it.cost.low_us.zip(it.cost.high_us);
    let spans: Option<Vec<(f64, f64)>> = choices.iter().map(span).collect();
    let Some(spans) = spans else { return Preference::NotEnoughEvidence };
    let near = |span: &&(f64, f64)| span.0 - spans[0].1 <= margin_us;
    let least = spans.iter().filter(near).map(|span| span.0).fold(f64::MAX, f64::min);
    let most = spans.iter().filter(near).map(|span| span.1).fold(f64::MIN, f64::max);
    if spans.iter().filter(near).count() > 1 && most - least <= margin_us {
        Preference::NoDifference
    } else if choices[1..].iter().all(|other| surely_less(&first.cost, &other.cost)) {
        Preference::Prefer(first.event)
    } else {
        Preference::NotEnoughEvidence
    }
}

#[cfg(test)]
mod tests;
