// SPDX-License-Identifier: MIT OR Apache-2.0
//! Published tables against the simulated machine: what was printed, what comes out, how far off.
//!
//! A study names a platform, the experiment behind a printed table, and the rows that parameters of
//! the platform were fitted on. Those rows cannot judge it: errors are stated for both parts apart.

use std::borrow::Cow;
use std::collections::BTreeSet;

use serde::Deserialize;

use super::aim::ClassConcordance;
use super::sheet::{JudgementRole, PrintedQuantity, QuantityErrors, Sheet, ValidationRow};
use super::table_text::lines;
use super::{
    Lab, PublishedStudy, PublishedStudyError, StudyHeading, ValidationError, described, numa_home,
};
use corehop_plan::experiment::{
    Experiment, ExperimentError, Length, Plan, SamplingGroup, Synthetic,
};
use corehop_plan::platform::{Drift, Fact, Hertz, Latency, Platform};
use corehop_plan::samples::Sample;
use corehop_plan::units::{Bytes, CpuList};
use corehop_plan::words::words;
use corehop_plan::workload::{
    Absence, Event, Load, Mover, MovingProgram, Page, Pattern, Polluter, WorkingSet,
};

/// The smallest printed cost that an error is relative to, in microseconds.
const LEAST_US: f64 = 1.0;

/// A printed table of costs, and how it came about.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TableStudy {
    /// Its name.
    pub id: String,
    /// The printed table, with its source.
    pub title: String,
    /// The platform it was measured on, by id.
    pub platform: String,
    /// The number of samples of a cell.
    pub samples: u32,
    /// The sizes that take fewer; None if all take as many.
    #[serde(default)]
    pub small: Option<SmallSetSampling>,
    /// The order of the accesses.
    pub pattern: Pattern,
    /// The pages of the working sets.
    pub page: Page,
    /// The share of word accesses that write.
    pub write_ratio: f64,
    /// The work beside the job on every CPU; None if it is not stated.
    #[serde(default)]
    pub polluter: Option<Polluter>,
    /// The program with a changing working set that runs on every CPU, in place of a polluter.
    #[serde(default)]
    pub changing: Option<MovingProgram>,
    /// The time that a polluter needs for a line besides accessing it; None if it is not stated.
    #[serde(default)]
    pub polluter_pause: Option<Fact<Latency>>,
    /// The preemption length behind each label of the table's column `preemption_length`.
    pub lengths: std::collections::BTreeMap<String, Length>,
    /// Whether the warm and the resumed touch are both on a CPU whose node has the working set: a job
    /// that migrates between nodes is then walked away from home, and the way back is measured.
    #[serde(default, rename = "at_home")]
    pub numa_home: bool,
    /// The statistic that is judged: averages unless stated.
    #[serde(default = "average")]
    pub judges: Statistic,
    /// A server of the platform whose service time drifts in this study; None if none does.
    #[serde(default)]
    pub contention: Option<ServerContention>,
    /// The median error of the judged rows that is aimed at.
    pub limit: f64,
    /// The rows that parameters of the platform were fitted on.
    #[serde(default)]
    pub fitted: Vec<TrainingRows>,
    /// Further passes before the warm touch: what it was held against in print may have been another pass, on caches that
    /// had come to rest.
    #[serde(default)]
    pub passes: u32,
    /// The rows that tell of nothing that is simulated.
    #[serde(default)]
    pub not_modelled: Vec<NotModelled>,
    /// The printed rows; they come from a file of their own.
    #[serde(skip)]
    pub printed: Vec<Printed>,
}

words! {
    /// A statistic of the delays of a cell.
    Statistic, "a statistic" {
        /// Their mean.
        Average = "avg",
        /// Their standard deviation.
        Deviation = "std",
    }
}

/// Small working sets with a number of samples of their own: where every set of every cache is simulated for them, a sample
/// tells of many times the lines.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SmallSetSampling {
    /// The largest of them.
    pub up_to: Bytes,
    /// Their number of samples.
    pub samples: u32,
}

const fn average() -> Statistic {
    Statistic::Average
}

/// Contention that lasts: a server whose service time drifts.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServerContention {
    /// The server's name in the platform file.
    pub server: String,
    /// Its drift.
    pub drift: Drift,
}

/// Rows of these sizes, whatever the event, that tell of an effect that is not simulated.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NotModelled {
    /// The working-set sizes in KiB.
    pub wss_kib: Vec<u64>,
    /// The effect, and how it is known, for the reader.
    pub why: String,
}

/// Rows that parameters were fitted on: those of this event, with one of these sizes.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrainingRows {
    /// The event.
    pub event: Event,
    /// The working-set sizes in KiB.
    pub wss_kib: Vec<u64>,
    /// The parameters, for the reader.
    pub parameters: Vec<String>,
}

/// One cell of a printed table.
#[derive(Debug, Clone, PartialEq)]
pub struct Printed {
    /// The event.
    pub event: Event,
    /// The label of the preemption length.
    pub length: String,
    /// `avg`, `max` or `std`.
    pub statistic: String,
    /// The working-set size in KiB.
    pub wss_kib: u64,
    /// The cost in microseconds.
    pub cost_us: f64,
}

impl TableStudy {
    /// A study from its description and its table (CSV with the columns `event`,
    /// `preemption_length`, `statistic`, `wss_kib` and `cost_us` among others; no quoted commas in
    /// those). Rows without a cost are left out.
    ///
    /// # Errors
    /// [`PublishedStudyError`] says what is wrong where.
    pub fn new(description: &str, table: &str) -> Result<Self, PublishedStudyError> {
        let mut study: Self = described(description)?;
        study.printed = printed(table)?;
        let unknown = |row: &&Printed| !study.lengths.contains_key(&row.length);
        if let Some(row) = study.printed.iter().find(unknown) {
            let what = format!("no length is given for the label `{}`", row.length);
            return Err(PublishedStudyError::Form(what));
        }
        Ok(study)
    }

    /// The load it ran under.
    fn load(&self) -> Load {
        let cpus = CpuList::default();
        match (&self.polluter, &self.changing) {
            (Some(polluter), _) => Load::Constructed { polluter: polluter.clone(), cpus },
            (None, Some(program)) => Load::Changing { program: program.clone(), cpus },
            (None, None) => Load::Idle,
        }
    }

    /// The time that a polluter needs for a line besides accessing it, in picoseconds.
    pub(super) fn pause(&self, platform: &Platform) -> u64 {
        let core = platform.clock.core.as_ref().map_or(Hertz::new(0), |fact| fact.value);
        self.polluter_pause.as_ref().map_or(0, |fact| fact.value.picos(core))
    }

    fn set(&self, wss_kib: u64) -> WorkingSet {
        let list = WorkingSet::list(Bytes::from_kib(wss_kib), self.write_ratio);
        WorkingSet { pattern: self.pattern, page: self.page, ..list }
    }

    /// The labels of preemption lengths, each with the events that have it.
    fn by_length(&self) -> Vec<(&str, Vec<Event>)> {
        let labels: BTreeSet<&str> = self.printed.iter().map(|row| row.length.as_str()).collect();
        let events = |label| {
            let of_label = self.printed.iter().filter(|row| row.length == label);
            of_label.map(|row| row.event).collect::<BTreeSet<Event>>().into_iter().collect()
        };
        labels.into_iter().map(|label| (label, events(label))).collect()
    }

    fn sizes(&self) -> Vec<u64> {
        let sizes: BTreeSet<u64> = self.printed.iter().map(|row| row.wss_kib).collect();
        sizes.into_iter().collect()
    }

    /// The experiment behind the table: every combination of its sizes, events and lengths, each with so many
    /// samples.
    fn experiment(&self, samples: u32) -> Synthetic {
        let sets: Vec<WorkingSet> = self.sizes().into_iter().map(|wss| self.set(wss)).collect();
        let idle = self.load() == Load::Idle;
        let absence = if idle { Absence::Nothing } else { Absence::Load };
        let up_to = self.small.as_ref().map_or(Bytes::new(0), |small| small.up_to);
        let few = self.small.as_ref().map_or(samples, |small| small.samples.min(samples));
        let small = sets.partition_point(|set| set.wss <= up_to);
        let (small, others) = sets.split_at(small);
        let parts = [(small, few), (others, samples)];
        let group = |(label, events): (&str, Vec<Event>), (sets, samples): (&[WorkingSet], u32)| {
            SamplingGroup {
                load: self.load(),
                sets: sets.to_vec(),
                events,
                length: self.lengths[label],
                absence,
                samples,
            }
        };
        let of_length = |of: (&str, Vec<Event>)| {
            let parts = parts.into_iter().filter(|(sets, _)| !sets.is_empty());
            parts.map(|part| group(of.clone(), part)).collect::<Vec<_>>()
        };
        let groups = self.by_length().into_iter().flat_map(of_length).collect();
        synthetic(groups, CpuList::default())
    }

    /// The basis of a value, beside the number of samples.
    fn basis(&self) -> String {
        let few =
            |it: &SmallSetSampling| format!("samples a cell, {} up to {}", it.samples, it.up_to);
        self.small.as_ref().map_or_else(|| "samples a cell".to_owned(), few)
    }

    /// The plan of [`TableStudy::experiment`], its jobs taken home where the study says so.
    ///
    /// # Errors
    /// As the experiment's.
    pub(super) fn plan(&self, platform: &Platform, lab: &Lab) -> Result<Plan, ExperimentError> {
        let mut experiment = self.experiment(lab.samples(self.samples).have);
        experiment.passes = lab.passes.unwrap_or(self.passes);
        let mut plan = experiment.plan(platform, lab.seed)?;
        if self.numa_home {
            numa_home::bring(&mut plan, platform);
        }
        Ok(plan)
    }

    /// The platform with the server that drifts in this study.
    ///
    /// # Errors
    /// If the platform has no such server.
    pub(super) fn on<'a>(
        &self,
        platform: &'a Platform,
    ) -> Result<Cow<'a, Platform>, ValidationError> {
        let Some(ServerContention { server, drift }) = &self.contention else {
            return Ok(Cow::Borrowed(platform));
        };
        let mut platform = platform.clone();
        let found = platform.servers.iter_mut().find(|it| it.name == *server);
        let found = found.ok_or_else(|| ValidationError::NoServer {
            study: self.id.clone(),
            server: server.clone(),
            platform: platform.id.clone(),
        })?;
        found.drift = Some(drift.clone());
        Ok(Cow::Owned(platform))
    }

    /// The cells of [`TableStudy::experiment`], in their order.
    fn cells(&self) -> Vec<(String, u64, Event)> {
        let sizes = self.sizes();
        let mut cells = Vec::new();
        for (label, events) in self.by_length() {
            for &size in &sizes {
                cells.extend(events.iter().map(|&event| (label.to_owned(), size, event)));
            }
        }
        cells
    }

    /// Joins the printed rows with `samples` of the experiment.
    fn join(&self, samples: &[Sample]) -> Vec<ValidationRow> {
        let cells = self.cells();
        let mut delays = vec![Vec::new(); cells.len()];
        for sample in samples {
            if let Some(delays) = delays.get_mut(sample.cell as usize) {
                delays.push((sample.resumed_ns - sample.warm_ns) / 1e3);
            }
        }
        let joined = |row: &Printed| {
            let key = (row.length.clone(), row.wss_kib, row.event);
            let values = &delays[cells.iter().position(|cell| *cell == key)?];
            Some(row.beside(values, self.role(row), self.judges))
        };
        self.printed.iter().filter_map(joined).collect()
    }

    pub(super) fn is_fitted(&self, row: &Printed) -> bool {
        self.fitted.iter().any(|it| it.event == row.event && it.wss_kib.contains(&row.wss_kib))
    }

    /// The part that a row has in the judgement.
    pub(super) fn role(&self, row: &Printed) -> JudgementRole {
        if self.not_modelled.iter().any(|it| it.wss_kib.contains(&row.wss_kib)) {
            return JudgementRole::NotModelled;
        }
        JudgementRole::fitted(self.is_fitted(row))
    }
}

fn printed(table: &str) -> Result<Vec<Printed>, PublishedStudyError> {
    let columns = ["event", "preemption_length", "statistic", "wss_kib", "cost_us"];
    let mut rows = Vec::new();
    for line in lines(table, &columns)? {
        if line.cell("cost_us").is_empty() {
            continue;
        }
        rows.push(Printed {
            event: line.word("event")?,
            length: line.cell("preemption_length").to_owned(),
            statistic: line.cell("statistic").to_owned(),
            wss_kib: line.number("wss_kib")? as u64,
            cost_us: line.number("cost_us")?,
        });
    }
    Ok(rows)
}

/// A synthetic experiment whose jobs are preempted by next to nothing.
pub(super) fn synthetic(groups: Vec<SamplingGroup>, cpus: CpuList) -> Synthetic {
    let preemptor =
        Polluter { wss: Bytes::from_kib(64), pattern: Pattern::Shuffled, write_ratio: 0.0 };
    let mover = Mover::Affinity;
    Synthetic { mover, preemptor, preemptor_sizes: Vec::new(), passes: 0, groups, cpus }
}

impl PublishedStudy for TableStudy {
    fn head(&self) -> StudyHeading<'_> {
        StudyHeading { id: &self.id, title: &self.title, platform: &self.platform }
    }

    fn narrow(&mut self, wss_kib: &[u64]) -> bool {
        self.printed.retain(|row| wss_kib.contains(&row.wss_kib));
        !self.printed.is_empty()
    }

    fn judge(&self, platform: &Platform, lab: &mut Lab) -> Result<Sheet, ValidationError> {
        lab.simulate(self, platform)?;
        let rows = self.join(lab.of_table(&self.id));
        let order = (self.judges == Statistic::Average).then(|| ClassConcordance::of(&rows));
        let cost = QuantityErrors { order, ..QuantityErrors::new(COST, Some(self.limit)) };
        let basis = self.basis();
        Ok(Sheet::judged(self.head(), (lab.samples(self.samples), &basis), rows, vec![cost]))
    }
}

/// The quantity of a table of costs.
const COST: &str = "µs";

impl Printed {
    /// It beside simulated values in microseconds. Only the statistic that is judged has an error that counts.
    fn beside(&self, values: &[f64], role: JudgementRole, judges: Statistic) -> ValidationRow {
        let simulated = statistic(&self.statistic, values);
        ValidationRow {
            what: PrintedQuantity::Cost {
                event: self.event,
                preemption_length: self.length.clone(),
                statistic: self.statistic.clone(),
                wss_kib: self.wss_kib,
            },
            quantity: (self.statistic == judges.word()).then_some(COST),
            printed: self.cost_us,
            simulated: Some(simulated),
            n: Some(values.len()),
            role,
            error: Some(ValidationRow::relative(self.cost_us, simulated, LEAST_US)),
        }
    }
}

fn statistic(name: &str, values: &[f64]) -> f64 {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    match name {
        "max" => values.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        "std" => {
            let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
            (squares / (n - 1.0)).sqrt()
        }
        _ => mean,
    }
}

impl ClassConcordance {
    /// Pairs whose larger value is not so many times the smaller one are left out.
    const APART: f64 = 1.2;

    /// The order of the costs in `rows`, but for those that are not modelled.
    fn of(rows: &[ValidationRow]) -> Self {
        let average = |row: &ValidationRow| match &row.what {
            _ if row.role == JudgementRole::NotModelled => None,
            PrintedQuantity::Cost { event, statistic, wss_kib, .. } if statistic == "avg" => {
                Some((*event, *wss_kib, row.printed, row.simulated))
            }
            _ => None,
        };
        let averages: Vec<_> = rows.iter().filter_map(average).collect();
        let mut order = Self { pairs: 0, agree: 0 };
        for (at, &one) in averages.iter().enumerate() {
            for &other in &averages[at + 1..] {
                let (low, high) = if one.2 < other.2 { (one, other) } else { (other, one) };
                let apart = high.2 >= low.2.max(LEAST_US) * Self::APART;
                if one.1 == other.1 && one.0 != other.0 && apart {
                    order.pairs += 1;
                    order.agree += usize::from(high.3 > low.3);
                }
            }
        }
        order
    }
}

#[cfg(test)]
mod tests {
    use super::super::sheet::errors;
    use super::*;

    const DESCRIPTION: &str = r#"
        id = "made-up"
        title = "two sizes"
        platform = "xeon_x5650"
        samples = 4
        pattern = "shuffled"
        page = "thp"
        write_ratio = 0.5
        limit = 0.1
        [lengths]
        fixed_4ms = "fixed_4ms"
        "" = "fixed_4ms"
        [[fitted]]
        event = "l3_migration"
        wss_kib = [64]
        parameters = ["one"]
    "#;
    const TABLE: &str = "table,event,preemption_length,statistic,wss_kib,cost_us,printed\n\
        A,preemption,fixed_4ms,avg,4,0.5,x\n\
        A,preemption,fixed_4ms,avg,64,8,x\n\
        A,l3_migration,,avg,4,2,x\n\
        A,l3_migration,,max,4,,x\n\
        A,l3_migration,,avg,64,100,x\n";

    fn study() -> TableStudy {
        TableStudy::new(DESCRIPTION, TABLE).unwrap()
    }

    #[test]
    fn the_experiment_has_every_cell_in_the_order_in_which_it_is_joined() {
        let platform = corehop_plan::platform::Platform::named("xeon_x5650").unwrap().unwrap();
        let study = study();
        let cells = study.experiment(4).cells(&platform).unwrap();
        let sets = study.experiment(4).sets();
        let planned: Vec<(u64, Event)> =
            cells.iter().map(|(cell, _)| (sets[cell.set].wss.get() / 1024, cell.event)).collect();
        let joined: Vec<(u64, Event)> =
            study.cells().into_iter().map(|(_, wss, event)| (wss, event)).collect();
        assert_eq!(planned, joined);
        assert_eq!(planned.len(), 4);
    }

    #[test]
    fn errors_are_relative_to_what_was_printed_and_to_a_microsecond_at_least() {
        let study = study();
        let row = |at: usize, values: &[f64]| {
            study.printed[at]
                .beside(values, JudgementRole::Judged, Statistic::Average)
                .error
                .unwrap()
        };
        assert!((row(0, &[0.7]) - 0.2).abs() < 1e-12);
        assert!((row(1, &[6.0, 6.0]) - 0.25).abs() < 1e-12);
    }

    #[test]
    fn rows_that_were_fitted_on_do_not_judge() {
        let study = study();
        let rows = study.printed.iter();
        let rows: Vec<ValidationRow> = rows
            .map(|row| row.beside(&[row.cost_us * 1.1], study.role(row), Statistic::Average))
            .collect();
        let cost = QuantityErrors::new(COST, None);
        let judged = errors(&rows, &cost, JudgementRole::Judged).unwrap();
        assert_eq!(
            (judged.rows, errors(&rows, &cost, JudgementRole::Fitted).unwrap().rows),
            (3, 1)
        );
        assert!(
            (judged.median - 0.1).abs() < 1e-9
                && errors(&[], &cost, JudgementRole::Fitted).is_none()
        );
    }

    #[test]
    fn rows_that_are_not_modelled_are_counted_and_judge_nothing_not_even_the_order() {
        let mut study = study();
        study.not_modelled.push(NotModelled { wss_kib: vec![64], why: "too large".to_owned() });
        let rows = study.printed.iter();
        let rows: Vec<ValidationRow> = rows
            .map(|row| row.beside(&[row.cost_us * 3.0], study.role(row), Statistic::Average))
            .collect();
        let counts = [JudgementRole::Judged, JudgementRole::Fitted, JudgementRole::NotModelled]
            .map(|role| {
                errors(&rows, &QuantityErrors::new(COST, None), role).map_or(0, |it| it.rows)
            });
        assert_eq!((counts, ClassConcordance::of(&rows).pairs), ([2, 0, 2], 1));
        assert!(rows[3].json()["not_modelled"] == true && rows[0].json()["not_modelled"].is_null());
    }

    #[test]
    fn pairs_that_are_printed_apart_are_counted_where_they_agree() {
        let study = study();
        let simulated = |factors: [f64; 4]| {
            let rows = study.printed.iter().zip(factors);
            let rows: Vec<ValidationRow> = rows
                .map(|(row, by)| {
                    row.beside(&[row.cost_us * by], JudgementRole::Judged, Statistic::Average)
                })
                .collect();
            ClassConcordance::of(&rows)
        };
        assert_eq!(simulated([1.0; 4]), ClassConcordance { pairs: 2, agree: 2 });
        // At 64 KiB a preemption would cost more than a migration.
        assert_eq!(simulated([1.0, 20.0, 1.0, 1.0]), ClassConcordance { pairs: 2, agree: 1 });
    }

    #[test]
    fn a_table_that_is_none_is_refused_with_its_line() {
        let text = |table| TableStudy::new(DESCRIPTION, table).unwrap_err().to_string();
        assert!(text("a,b\n").contains("line 1: no column `event`"));
        let bad = TABLE.replace("l3_migration,,avg,4,2", "l4_migration,,avg,4,2");
        assert!(text(&bad).contains("line 4: `l4_migration`"));
        let unknown = TABLE.replace("fixed_4ms,avg,4,", "later,avg,4,");
        assert!(text(&unknown).contains("`later`"));
    }
}
