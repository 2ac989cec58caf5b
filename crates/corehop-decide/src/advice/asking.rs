// SPDX-License-Identifier: MIT OR Apache-2.0
//! Queries the cost model under one load, about absences in one company.

use super::{Advice, AdviceQuery, Company};
use corehop_plan::units::{Bytes, Nanos};
use corehop_plan::workload::Event;
use corehop_stats::cpmd::{
    CostEstimate, DelayModel, DelayPoint, DelayQuery, DelaySeries, NoAnswer, Statistic,
};

/// A cost after an absence of some length.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct AdviceChoice {
    pub(super) event: Event,
    /// The median cost on the fitted curve.
    pub(super) cost: CostEstimate,
    /// The measured median, if the curve pooled it with neighbouring values to stay monotone.
    measured: Option<CostEstimate>,
    /// The number of samples behind the cost: at this size, or the smaller number of the two neighbouring sizes.
    pub(super) n: usize,
    /// The number of replicates of these samples; `None` in models from versions without replicates.
    pub(super) replicates: Option<usize>,
}

impl AdviceChoice {
    /// The measured cost, or the curve's value if nothing was pooled.
    pub(super) fn seen(&self) -> CostEstimate {
        self.measured.unwrap_or(self.cost)
    }

    /// Whether this event surely costs less than `other`, both on the curve and as measured.
    pub(super) fn surely_less(&self, other: &Self) -> bool {
        self.cost.surely_less(&other.cost) && self.seen().surely_less(&other.seen())
    }
}

/// The command that takes the missing measurement, as the end of a sentence.
pub(super) fn remedy(load: &str, events: &str, length: &str) -> String {
    let command = if load == "realistic" { " --command COMMAND" } else { "" };
    format!(
        "`corehop measure synthetic --load {load}{command} --event {events} --length {length} -o more.parquet` measures it, \
         and `corehop advise fit` joins files"
    )
}

/// The load, company and model that queries are about.
pub(super) struct AdviceSubject<'a> {
    pub(super) model: &'a DelayModel,
    pub(super) wanted: &'a AdviceQuery,
    pub(super) load: &'a str,
    pub(super) company: Company,
    /// The measured series of each event in this company.
    series: Vec<(Event, &'a DelaySeries)>,
}

pub(super) const MIGRATIONS: [Event; 4] =
    [Event::SmtMigration, Event::L2Migration, Event::L3Migration, Event::MemoryMigration];

impl<'a> AdviceSubject<'a> {
    /// Prepares queries about absences in a company under a load.
    ///
    /// # Errors
    /// Returns [`NoAnswer::Several`] or [`NoAnswer::NoField`].
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

    /// Prepares the queries for another company.
    ///
    /// # Errors
    /// Returns the errors of [`Self::new`].
    pub(super) fn in_company(&self, company: Company) -> Result<Self, NoAnswer> {
        Self::new(self.model, self.wanted, self.load, company)
    }

    /// Adds the advice for every size.
    pub(super) fn advise(&self, advice: &mut Advice) -> Result<(), NoAnswer> {
        self.wait_or_move(advice)?;
        let stays = self.company.stays().iter().filter_map(|&event| self.series(event));
        let sizes = self.sizes_of(&stays.collect::<Vec<_>>());
        self.price(&sizes, advice)
    }

    /// A query for the median cost of an event in this company after `length_us`; if `length_us` is `None`, after the
    /// longest measured length.
    pub(super) fn asked(&self, event: Event, wss: Bytes, length_us: Option<f64>) -> DelayQuery {
        let fields = self.company.fields(event);
        // A company is measured beside another one, whatever the choice says of that.
        let other = |(name, _): &&(String, String)| fields.iter().all(|(its, _)| its != name);
        let only: Vec<(String, String)> = self.wanted.only.iter().filter(other).cloned().collect();
        DelayQuery {
            event,
            load: self.load.to_owned(),
            wss,
            length: length_us.map(|us| Nanos::new((1e3 * us).round() as u64)),
            statistic: Statistic::Median,
            method: None,
            only: [only, fields].concat(),
        }
    }

    /// The measured series of an event; `None` if the event was not measured.
    pub(super) fn series(&self, event: Event) -> Option<&'a DelaySeries> {
        self.series.iter().find(|(of, _)| *of == event).map(|(_, series)| *series)
    }

    /// The cost of an event after an absence, on the curve, with its samples and replicates; `None` beyond the
    /// largest size.
    pub(super) fn cost(
        &self,
        event: Event,
        wss: Bytes,
        us: f64,
    ) -> Option<(CostEstimate, usize, Option<usize>)> {
        let it = self.model.reading(self.series(event)?, &self.asked(event, wss, Some(us))).ok()?;
        Some((it.curve.unwrap_or(it.cost), it.n, it.replicates))
    }

    /// The cost of an event after an absence; `None` if no absence of about that length was measured.
    pub(super) fn choice(&self, event: Event, wss: Bytes, us: f64) -> Option<AdviceChoice> {
        let seen = self.points(event, wss).iter().any(|point| point.saw(us));
        let asked = self.asked(event, wss, Some(us));
        let it = self.model.reading(self.series(event)?, &asked).ok()?;
        seen.then_some(AdviceChoice {
            event,
            cost: it.curve.unwrap_or(it.cost),
            measured: it.curve.map(|_| it.cost),
            n: it.n,
            replicates: it.replicates,
        })
    }

    /// The cost of the first of `events` that was measured after about this length.
    pub(super) fn first(&self, events: &[Event], wss: Bytes, us: f64) -> Option<AdviceChoice> {
        events.iter().find_map(|&event| self.choice(event, wss, us))
    }

    /// The sizes to advise on: the requested sizes, or the sizes of these series.
    pub(super) fn sizes_of(&self, series: &[&DelaySeries]) -> Vec<Bytes> {
        if !self.wanted.wss.is_empty() {
            return self.wanted.wss.clone();
        }
        let mut sizes: Vec<u64> = series.iter().flat_map(|it| it.sizes()).collect();
        sizes.sort_unstable();
        sizes.dedup();
        sizes.into_iter().map(Bytes::new).collect()
    }

    /// The measured points of an event at a size, or at the next larger size.
    pub(super) fn points(&self, event: Event, wss: Bytes) -> &'a [DelayPoint] {
        let points = self.series(event).map_or(&[][..], |series| &series.points);
        let from = points.partition_point(|point| point.wss_bytes < wss.get());
        let size = points.get(from).map_or(0, |point| point.wss_bytes);
        &points[from..points.partition_point(|point| point.wss_bytes <= size).max(from)]
    }

    /// The absence lengths after which jobs both stayed and moved, in microseconds, ascending.
    pub(super) fn lengths(&self, wss: Bytes) -> Vec<f64> {
        let moved = |us: f64| MIGRATIONS.iter().any(|&it| self.choice(it, wss, us).is_some());
        let stays = self.company.stays().iter().flat_map(|&event| self.points(event, wss));
        let mut lengths: Vec<f64> =
            stays.map(|point| point.length_us).filter(|&us| moved(us)).collect();
        lengths.sort_by(f64::total_cmp);
        // An idle leave of as long as a preemption is the same absence.
        lengths.dedup_by(|next, kept| *next <= 1.1 * *kept);
        lengths
    }
}

/// Converts a missing measurement to `None`.
fn unless_missing<T>(answer: Result<T, NoAnswer>) -> Result<Option<T>, NoAnswer> {
    match answer {
        Ok(answer) => Ok(Some(answer)),
        Err(error @ (NoAnswer::Several { .. } | NoAnswer::NoField { .. })) => Err(error),
        Err(_) => Ok(None),
    }
}
