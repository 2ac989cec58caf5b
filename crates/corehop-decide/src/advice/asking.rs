// SPDX-License-Identifier: MIT OR Apache-2.0
//! Questions to a model under one load, about absences in one company.

use super::preference::margin_us;
use super::{Advice, AdviceChoice, AdviceQuery, AdviceRule, Company, Flip, MapCell, Preference};
use corehop_plan::units::{Bytes, Nanos};
use corehop_plan::workload::{Absence, Event};
use corehop_stats::company::stays;
use corehop_stats::cpmd::{
    CostEstimate, DelayModel, DelayPoint, DelayQuery, DelaySeries, NoAnswer, SeriesKey, Statistic,
};

/// The subject of a question.
pub(super) struct AdviceSubject<'a> {
    pub(super) model: &'a DelayModel,
    pub(super) wanted: &'a AdviceQuery,
    pub(super) load: &'a str,
    pub(super) company: Company,
    /// The measured series of each event in that company.
    series: Vec<(Event, &'a DelaySeries)>,
}

pub(super) const MIGRATIONS: [Event; 4] =
    [Event::SmtMigration, Event::L2Migration, Event::L3Migration, Event::MemoryMigration];

impl<'a> AdviceSubject<'a> {
    /// Absences in a company under a load.
    ///
    /// # Errors
    /// [`NoAnswer::Several`] and [`NoAnswer::NoField`].
    pub(super) fn new(
        model: &'a DelayModel,
        wanted: &'a AdviceQuery,
        load: &'a str,
        company: Company,
    ) -> Result<Self, NoAnswer> {
        let mut it = Self { model, wanted, load, company, series: Vec::new() };
        let moves = MIGRATIONS.iter().filter(|&&event| it.company.leads(event));
        let events: Vec<Event> = it.company.stays().iter().chain(moves).copied().collect();
        for event in events {
            let series = unless_missing(model.measured(&it.asked(event, Bytes::new(0), None)))?;
            it.series.extend(series.map(|series| (event, series)));
        }
        Ok(it)
    }

    /// Adds what can be said of every size.
    pub(super) fn advise(&self, advice: &mut Advice) -> Result<(), NoAnswer> {
        let (sizes, load, company) = (self.sizes(), self.load, &self.company);
        let moved = self.series.iter().any(|(event, _)| event.is_migration());
        if !moved {
            advice.silent.push(format!(
                "load {load}, {company}: no migration was measured in that company, so there is nothing \
                 to compare staying with"
            ));
        }
        for &wss in &sizes {
            if let Some(rule) = self.rule(wss) {
                advice.map.extend(self.places(wss));
                advice.rules.push(rule);
            } else if moved {
                let length =
                    self.wanted.length.map(|it| format!(" about {it}")).unwrap_or_default();
                advice.silent.push(format!(
                    "load {load}, {company}, {wss}: there is no length{length} at which both staying and \
                     a migration were measured"
                ));
            }
        }
        self.price(&sizes, advice)
    }

    /// The median cost of an event in this company; after the longest length where there is none.
    pub(super) fn asked(&self, event: Event, wss: Bytes, length_us: Option<f64>) -> DelayQuery {
        let only = self.wanted.only.iter().cloned();
        DelayQuery {
            event,
            load: self.load.to_owned(),
            wss,
            length: length_us.map(|us| Nanos::new((1e3 * us).round() as u64)),
            statistic: Statistic::Median,
            method: None,
            only: only.chain(self.company.fields(event)).collect(),
        }
    }

    /// The measured series of an event; None without one.
    pub(super) fn series(&self, event: Event) -> Option<&'a DelaySeries> {
        self.series.iter().find(|(of, _)| *of == event).map(|(_, series)| *series)
    }

    /// An event after a length; None where that was not measured: about so long, or, where the length is
    /// asked for, shorter and longer.
    pub(super) fn choice(&self, event: Event, wss: Bytes, us: f64) -> Option<AdviceChoice> {
        let seen = self.points(event, wss).iter().any(|point| point.saw(us));
        let asked = self.asked(event, wss, Some(us));
        let it = self.model.reading(self.series(event)?, &asked).ok()?;
        let spanned = self.wanted.length.is_some() && it.nearest_length_us.is_none();
        (seen || spanned).then_some(AdviceChoice {
            event,
            cost: it.curve.unwrap_or(it.cost),
            measured: it.curve.map(|_| it.cost),
            n: it.n,
            replicates: it.replicates,
            avoid: false,
        })
    }

    /// The first of `events` that was measured for so long.
    pub(super) fn first(&self, events: &[Event], wss: Bytes, us: f64) -> Option<AdviceChoice> {
        events.iter().find_map(|&event| self.choice(event, wss, us))
    }

    /// Staying and every migration after a length, the cheapest first; nothing without both.
    fn choices(&self, wss: Bytes, us: f64) -> Vec<AdviceChoice> {
        let Some(stay) = self.first(self.company.stays(), wss, us) else { return Vec::new() };
        let moves = MIGRATIONS.iter().filter_map(|&event| self.choice(event, wss, us));
        let mut choices: Vec<AdviceChoice> =
            moves.map(|it| AdviceChoice { avoid: stay.surely_less(&it), ..it }).collect();
        if !choices.is_empty() {
            choices.push(stay);
        }
        choices.sort_by(|a, b| a.cost.estimate_us.total_cmp(&b.cost.estimate_us));
        choices
    }

    /// The sizes to advise on: those asked for, or those at which jobs stayed.
    fn sizes(&self) -> Vec<Bytes> {
        if !self.wanted.wss.is_empty() {
            return self.wanted.wss.clone();
        }
        let stays = self.company.stays().iter().filter_map(|&event| self.series(event));
        let mut sizes: Vec<u64> = stays.flat_map(DelaySeries::sizes).collect();
        sizes.sort_unstable();
        sizes.dedup();
        sizes.into_iter().map(Bytes::new).collect()
    }

    /// The measured points of an event at a size, or the next larger one.
    pub(super) fn points(&self, event: Event, wss: Bytes) -> &'a [DelayPoint] {
        let points = self.series(event).map_or(&[][..], |series| &series.points);
        let from = points.partition_point(|point| point.wss_bytes < wss.get());
        let size = points.get(from).map_or(0, |point| point.wss_bytes);
        &points[from..points.partition_point(|point| point.wss_bytes <= size).max(from)]
    }

    /// The lengths for which a job both stayed and moved, in microseconds, ascending; or that asked for.
    pub(super) fn lengths(&self, wss: Bytes) -> Vec<f64> {
        if let Some(length) = self.wanted.length {
            return vec![length.get() as f64 / 1e3];
        }
        let moved = |us: f64| MIGRATIONS.iter().any(|&it| self.choice(it, wss, us).is_some());
        let stays = self.company.stays().iter().flat_map(|&event| self.points(event, wss));
        let mut lengths: Vec<f64> =
            stays.map(|point| point.length_us).filter(|&us| moved(us)).collect();
        lengths.sort_by(f64::total_cmp);
        // An idle leave of as long as a preemption is the same absence.
        lengths.dedup_by(|next, kept| *next <= 1.1 * *kept);
        lengths
    }

    fn rule(&self, wss: Bytes) -> Option<AdviceRule> {
        let length_us = *self.lengths(wss).last()?;
        let choices = self.choices(wss, length_us);
        let to = cheapest_move(&choices)?.event;
        Some(AdviceRule {
            load: self.load.to_owned(),
            company: self.company.clone(),
            wss_bytes: wss.get(),
            length_us,
            verdict: self.verdict(&choices, wss, length_us),
            margin_us: margin_us(&choices, self.wanted.margin),
            flip: self.flip(to, wss),
            choices,
        })
    }

    /// The preference, unless a move is preferred against what else was measured.
    fn verdict(&self, choices: &[AdviceChoice], wss: Bytes, us: f64) -> Preference {
        let verdict = Preference::among(choices, margin_us(choices, self.wanted.margin));
        let preferred = |it: &&AdviceChoice| verdict == Preference::Prefer(it.event);
        let moved = choices.iter().filter(|it| it.event.is_migration()).find(preferred);
        let doubted = moved.is_some_and(|moved| {
            let stay = self.cheapest_stay(moved.event, wss, us);
            stay.is_some_and(|stay| stay <= moved.seen().estimate_us)
                || self.quiet_otherwise(moved.event, wss)
                || self.inferred(moved.event, wss, us)
        });
        if doubted { Preference::NotEnoughEvidence } else { verdict }
    }

    /// Whether a migration's cost at this size is only the curve's: staying was measured here and it was
    /// not, or the size is below the smallest that it was measured at.
    fn inferred(&self, moved: Event, wss: Bytes, us: f64) -> bool {
        let points = |event: Event| self.series(event).map_or(&[][..], |it| it.points.as_slice());
        let here = |event: Event| {
            points(event).iter().any(|point| point.wss_bytes == wss.get() && point.saw(us))
        };
        if self.company.stays().iter().any(|&stay| here(stay)) {
            return !here(moved);
        }
        points(moved).iter().all(|point| point.wss_bytes > wss.get())
    }

    /// The least median of a stay that was measured at this load, size and about this length, in whatever
    /// company, by a job like the one that migrated.
    fn cheapest_stay(&self, moved: Event, wss: Bytes, us: f64) -> Option<f64> {
        let moved = self.series(moved)?;
        let curves = self.model.curves.iter().map(|curve| &curve.series);
        let stays = curves.filter(|it| stays(it.key.event) && same_job(&it.key, &moved.key));
        let points = stays.flat_map(|series| &series.points);
        let here = points.filter(|point| point.wss_bytes == wss.get() && point.saw(us));
        here.filter_map(median).map(|cost| cost.estimate_us).min_by(f64::total_cmp)
    }

    /// Whether with nothing running a migration of that size is not known to cost less than staying for as
    /// long, after whatever length: time alone evicts nothing, so the lengths have to agree.
    fn quiet_otherwise(&self, moved: Event, wss: Bytes) -> bool {
        let of = |event| {
            let points = self.points(event, wss).iter();
            points.filter(|point| point.wss_bytes == wss.get())
        };
        let stays = self.company.stays().iter().flat_map(|&event| of(event));
        let pairs = stays.flat_map(|stay| of(moved).map(move |moved| (stay, moved)));
        let mut alike = pairs.filter(|(stay, moved)| moved.saw(stay.length_us));
        let otherwise = |(stay, moved): (&DelayPoint, &DelayPoint)| {
            !median(moved).zip(median(stay)).is_some_and(|(moved, stay)| moved.surely_less(stay))
        };
        self.company.preempted_by == Absence::Nothing && alike.any(otherwise)
    }

    /// The length at which staying begins to cost more than a migration.
    fn flip(&self, to: Event, wss: Bytes) -> Option<Flip> {
        let (mut not_yet_us, mut by_us) = (None, None);
        for length in self.lengths(wss) {
            let choices = self.choices(wss, length);
            let stay = choices.iter().find(|it| stays(it.event));
            let migration = choices.iter().find(|it| it.event == to);
            let (Some(stay), Some(migration)) = (stay, migration) else { continue };
            if stay.surely_less(migration) {
                not_yet_us = Some(length);
            } else if migration.surely_less(stay) && by_us.is_none() {
                by_us = Some(length);
            }
        }
        let known = not_yet_us.is_some() || by_us.is_some();
        known.then_some(Flip { to, not_yet_us, by_us })
    }

    /// The advice after each length: staying or the cheapest migration.
    fn places(&self, wss: Bytes) -> Vec<MapCell> {
        let place = |length_us: f64| {
            let choices = self.choices(wss, length_us);
            let stay = *choices.iter().find(|it| stays(it.event))?;
            let migration = cheapest_move(&choices)?;
            Some(MapCell {
                load: self.load.to_owned(),
                company: self.company.clone(),
                wss_bytes: wss.get(),
                length_us,
                verdict: self.verdict(&[stay, migration], wss, length_us),
                stay,
                migration,
            })
        };
        self.lengths(wss).into_iter().filter_map(place).collect()
    }
}

fn median(point: &DelayPoint) -> Option<&CostEstimate> {
    point.delay.get(&Statistic::Median)
}

/// An answer; None where nothing like it was measured.
fn unless_missing<T>(answer: Result<T, NoAnswer>) -> Result<Option<T>, NoAnswer> {
    match answer {
        Ok(answer) => Ok(Some(answer)),
        Err(error @ (NoAnswer::Several { .. } | NoAnswer::NoField { .. })) => Err(error),
        Err(_) => Ok(None),
    }
}

fn cheapest_move(choices: &[AdviceChoice]) -> Option<AdviceChoice> {
    choices.iter().find(|choice| choice.event.is_migration()).copied()
}

/// Whether two series are of one job under one load, whatever became of it.
fn same_job(a: &SeriesKey, b: &SeriesKey) -> bool {
    *a == SeriesKey {
        event: a.event,
        preempted_by: a.preempted_by,
        polluter: a.polluter.clone(),
        mover: a.mover,
        pair_class: a.pair_class,
        ..b.clone()
    }
}
