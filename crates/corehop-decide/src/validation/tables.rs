// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compares published cost tables with the simulated machine: the printed values, the simulated values, and the
//! errors.
//!
//! A study names a platform, the experiment behind a printed table, and the rows on which parameters of the platform
//! were fitted. Fitted rows cannot judge the simulation, so errors are reported separately for both kinds of rows.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;

use super::aim::{ClassConcordance, ErrorLimits};
use super::extreme::expected_maximum;
use super::printed_number::PrintedNumber;
use super::sheet::{
    JudgementRole, MarkedRows, PrintedQuantity, PrintedStatistic, QuantityErrors, Sheet,
    ValidationRow, numbers_of, role_among,
};
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
use corehop_plan::workload::{
    Absence, Event, Load, Mover, MovingProgram, Page, Pattern, Polluter, WorkingSet,
};

/// A printed table of costs, and the experiment behind it.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TableStudy {
    /// The name of the study.
    pub id: String,
    /// The title of the printed table, with its source.
    pub title: String,
    /// The ID of the platform on which the table was measured.
    pub platform: String,
    /// The number of samples per cell.
    pub samples: u32,
    /// The sizes with fewer samples; `None` if all sizes have the full number.
    #[serde(default)]
    pub small: Option<SmallSetSampling>,
    /// The order of the accesses.
    pub pattern: Pattern,
    /// The pages of the working sets.
    pub page: Page,
    /// The share of word accesses that write.
    pub write_ratio: f64,
    /// The background work on every CPU; `None` if the study states none.
    #[serde(default)]
    pub polluter: Option<Polluter>,
    /// The program with a changing working set that runs on every CPU instead of a polluter.
    #[serde(default)]
    pub changing: Option<MovingProgram>,
    /// The time per line that a polluter spends besides the access itself; `None` if the study states none.
    #[serde(default)]
    pub polluter_pause: Option<Fact<Latency>>,
    /// The preemption length behind each label of the table's column `preemption_length`.
    pub lengths: BTreeMap<String, Length>,
    /// The number of samples behind a printed value, by the label of the preemption length. Maxima are compared with
    /// the maximum of that number of samples.
    #[serde(default)]
    pub printed_samples: BTreeMap<String, u32>,
    /// Whether the warm and the resumed touch both run on a CPU whose node has the working set. A job that migrates
    /// between nodes then moves away from home first, and the way back is measured.
    #[serde(default, rename = "at_home")]
    pub numa_home: bool,
    /// A server of the platform whose service time drifts in this study; `None` if there is none.
    #[serde(default)]
    pub contention: Option<ServerContention>,
    /// The judged statistics, each with its accepted errors.
    pub limits: BTreeMap<PrintedStatistic, ErrorLimits>,
    /// The rows that do not judge the simulation, with their roles.
    #[serde(default)]
    pub marked: Vec<MarkedRows<CostRows>>,
    /// The number of additional passes before the warm touch. The printed reference touch may have been a later pass,
    /// on caches in a steady state.
    #[serde(default)]
    pub passes: u32,
    /// The printed rows, which come from a separate file.
    #[serde(skip)]
    pub printed: Vec<Printed>,
}

/// The number of samples for small working sets. If a small working set is simulated with every set of every cache, one
/// sample covers many times the lines.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SmallSetSampling {
    /// The largest working set that counts as small.
    pub up_to: Bytes,
    /// The number of samples for small working sets.
    pub samples: u32,
}

/// Lasting contention in a study: one server has a service time that drifts, and the study leaves out the servers that
/// this server replaces.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServerContention {
    /// The name of the server in the platform file.
    pub server: String,
    /// The mean service time, if it differs from the platform file.
    #[serde(default)]
    pub service: Option<Fact<Latency>>,
    /// The drift of the service time.
    pub drift: Drift,
    /// The servers of the platform file that this study leaves out.
    #[serde(default)]
    pub without: Vec<String>,
}

/// A selection of cells from a table of costs.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CostRows {
    /// The statistic of the selected cells.
    #[serde(default = "average")]
    pub statistic: PrintedStatistic,
    /// The event of the selected cells; `None` selects all events.
    #[serde(default)]
    pub event: Option<Event>,
    /// The label of the preemption length of the selected cells; `None` selects all lengths.
    #[serde(default)]
    pub length: Option<String>,
    /// The working set sizes of the selected cells, in KiB.
    pub wss_kib: Vec<u64>,
}

const fn average() -> PrintedStatistic {
    PrintedStatistic::Average
}

impl CostRows {
    pub(super) fn has(&self, row: &Printed) -> bool {
        self.statistic == row.statistic
            && self.event.is_none_or(|event| event == row.event)
            && self.length.as_ref().is_none_or(|length| *length == row.length)
            && self.wss_kib.contains(&row.wss_kib)
    }
}

/// One cell of a printed table.
#[derive(Debug, Clone, PartialEq)]
pub struct Printed {
    /// The event whose cost the cell states.
    pub event: Event,
    /// The label of the preemption length.
    pub length: String,
    /// The statistic that the cell states.
    pub statistic: PrintedStatistic,
    /// The working-set size in KiB.
    pub wss_kib: u64,
    /// The cost in microseconds.
    pub cost_us: PrintedNumber,
}

impl TableStudy {
    /// Parses a study from its description and its table. The table is CSV with the columns `event`,
    /// `preemption_length`, `statistic`, `wss_kib` and `cost_us` among others, and without quoted commas in these
    /// columns. Rows without a cost are left out.
    ///
    /// # Errors
    /// Returns [`PublishedStudyError`], which names the problem and its place.
    pub fn new(description: &str, table: &str) -> Result<Self, PublishedStudyError> {
        let mut study: Self = described(description)?;
        study.printed = printed(table)?;
        let unknown = |row: &&Printed| !study.lengths.contains_key(&row.length);
        if let Some(row) = study.printed.iter().find(unknown) {
            let what = format!("no length is given for the label `{}`", row.length);
            return Err(PublishedStudyError::Form(what));
        }
        let uncounted = |row: &&Printed| {
            let is_judged = study.limits.contains_key(&PrintedStatistic::Maximum);
            let is_maximum = is_judged && row.statistic == PrintedStatistic::Maximum;
            is_maximum && !study.printed_samples.contains_key(&row.length)
        };
        if let Some(row) = study.printed.iter().find(uncounted) {
            let what = format!("printed_samples has no number for the label `{}`", row.length);
            return Err(PublishedStudyError::Form(what));
        }
        Ok(study)
    }

    /// The background load of the study.
    fn load(&self) -> Load {
        let cpus = CpuList::default();
        match (&self.polluter, &self.changing) {
            (Some(polluter), _) => Load::Constructed { polluter: polluter.clone(), cpus },
            (None, Some(program)) => Load::Changing { program: program.clone(), cpus },
            (None, None) => Load::Idle,
        }
    }

    /// The time per line that a polluter spends besides the access itself, in picoseconds.
    pub(super) fn pause(&self, platform: &Platform) -> u64 {
        let core = platform.clock.core.as_ref().map_or(Hertz::new(0), |fact| fact.value);
        self.polluter_pause.as_ref().map_or(0, |fact| fact.value.picos(core))
    }

    fn set(&self, wss_kib: u64) -> WorkingSet {
        let list = WorkingSet::list(Bytes::from_kib(wss_kib), self.write_ratio);
        WorkingSet { pattern: self.pattern, page: self.page, ..list }
    }

    /// The labels of preemption lengths, each with the events that have this length.
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

    /// The experiment behind the table: every combination of its sizes, events and lengths, with `samples` samples
    /// each.
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

    /// The source of a value, beside the number of samples.
    fn basis(&self) -> String {
        let few =
            |it: &SmallSetSampling| format!("samples a cell, {} up to {}", it.samples, it.up_to);
        self.small.as_ref().map_or_else(|| "samples a cell".to_owned(), few)
    }

    /// The plan of [`TableStudy::experiment`], with jobs moved to their home node if the study requires that.
    ///
    /// # Errors
    /// Returns the errors of the experiment.
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
    /// Returns an error if the platform lacks the server.
    pub(super) fn on<'a>(
        &self,
        platform: &'a Platform,
    ) -> Result<Cow<'a, Platform>, ValidationError> {
        let Some(contention) = &self.contention else { return Ok(Cow::Borrowed(platform)) };
        let mut platform = platform.clone();
        let no_server = |server: &str| ValidationError::NoServer {
            study: self.id.clone(),
            server: server.to_owned(),
            platform: platform.id.clone(),
        };
        let place = |name: &str| platform.servers.iter().position(|it| it.name == *name);
        let place = |name: &str| place(name).ok_or_else(|| no_server(name));
        let at = place(&contention.server)?;
        contention.without.iter().try_for_each(|name| place(name).map(drop))?;
        let found = &mut platform.servers[at];
        found.drift = Some(contention.drift.clone());
        found.service = contention.service.clone().unwrap_or_else(|| found.service.clone());
        platform.servers.retain(|it| !contention.without.contains(&it.name));
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

    /// Combines the printed rows with simulated `samples` of the experiment.
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
            let at = cells.iter().position(|cell| *cell == key);
            self.beside(row, at.map_or(&[], |at| &delays[at]))
        };
        self.printed.iter().map(joined).collect()
    }

    /// The role of a row in the judgement.
    pub(super) fn role(&self, row: &Printed) -> JudgementRole {
        role_among(&self.marked, |rows: &CostRows| rows.has(row))
    }

    /// Compares a row with simulated values in microseconds. Only statistics with a goal have an error that counts.
    fn beside(&self, row: &Printed, values: &[f64]) -> ValidationRow {
        let printed_n = self.printed_samples.get(&row.length).copied();
        let printed_n = printed_n.filter(|_| row.statistic == PrintedStatistic::Maximum);
        let simulated = row.statistic.of(values, printed_n);
        ValidationRow {
            what: PrintedQuantity::Cost {
                event: row.event,
                preemption_length: row.length.clone(),
                statistic: row.statistic,
                wss_kib: row.wss_kib,
            },
            quantity: self.limits.contains_key(&row.statistic).then(|| row.statistic.word()),
            printed: row.cost_us.value,
            simulated: Some(simulated).filter(|it| it.is_finite()),
            n: Some(values.len()),
            printed_n,
            role: self.role(row),
            error: Some(row.statistic.law().error(row.cost_us, simulated)),
        }
    }

    /// Counts the pairs of judged averages of one size, and the pairs in the printed order.
    fn order(&self, rows: &[ValidationRow]) -> ClassConcordance {
        let both = self.printed.iter().zip(rows);
        let judged = |&(row, beside): &(&Printed, &ValidationRow)| {
            row.statistic == PrintedStatistic::Average && beside.role.judges()
        };
        let judged: Vec<(&Printed, &ValidationRow)> = both.filter(judged).collect();
        let mut order = ClassConcordance { pairs: 0, agree: 0 };
        for (at, &one) in judged.iter().enumerate() {
            for &other in &judged[at + 1..] {
                let is_less = one.0.cost_us.value < other.0.cost_us.value;
                let (low, high) = if is_less { (one, other) } else { (other, one) };
                let is_pair = one.0.wss_kib == other.0.wss_kib && one.0.event != other.0.event;
                if is_pair && are_apart(low.0.cost_us, high.0.cost_us) {
                    order.pairs += 1;
                    order.agree += usize::from(high.1.simulated > low.1.simulated);
                }
            }
        }
        order
    }
}

/// Whether the larger of two printed values is at least 1.2 times the smaller value, however both values were rounded.
pub(super) fn are_apart(low: PrintedNumber, high: PrintedNumber) -> bool {
    high.value - low.value > (0.2 * low.value.abs()).max(low.step.max(high.step))
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
            statistic: line.word("statistic")?,
            wss_kib: line.number("wss_kib")? as u64,
            cost_us: line.word("cost_us")?,
        });
    }
    Ok(rows)
}

/// A synthetic experiment whose jobs are preempted by an almost empty preemptor.
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

    fn numbers(&self) -> Vec<(JudgementRole, &str)> {
        numbers_of(&self.marked)
    }

    fn narrow(&mut self, wss_kib: &[u64]) -> bool {
        self.printed.retain(|row| wss_kib.contains(&row.wss_kib));
        !self.printed.is_empty()
    }

    fn judge(&self, platform: &Platform, lab: &mut Lab) -> Result<Sheet, ValidationError> {
        lab.simulate(self, platform)?;
        let rows = self.join(lab.of_table(&self.id));
        let quantity = |(&statistic, &limits): (&PrintedStatistic, &ErrorLimits)| {
            let order = (statistic == PrintedStatistic::Average).then(|| self.order(&rows));
            let order = order.filter(|order| order.pairs > 0);
            let errors = QuantityErrors::new(statistic.word(), statistic.law(), Some(limits));
            QuantityErrors { order, ..errors }
        };
        let quantities = self.limits.iter().map(quantity).collect();
        let basis = self.basis();
        Ok(Sheet::judged(self.head(), (lab.samples(self.samples), &basis), rows, quantities))
    }
}

impl PrintedStatistic {
    /// The statistic of the values; for a maximum, the expected maximum of `count` values.
    fn of(self, values: &[f64], count: Option<u32>) -> f64 {
        let n = values.len() as f64;
        let mean = values.iter().sum::<f64>() / n;
        match self {
            Self::Average => mean,
            Self::Maximum => expected_maximum(values, count.unwrap_or(values.len() as u32)),
            Self::Deviation => {
                let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
                (squares / (n - 1.0)).sqrt()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DESCRIPTION: &str = r#"
        id = "made-up"
        title = "two sizes"
        platform = "xeon_x5650"
        samples = 4
        pattern = "shuffled"
        page = "thp"
        write_ratio = 0.5
        [limits.avg]
        median = 0.1
        p90 = 0.25
        [lengths]
        fixed_4ms = "fixed_4ms"
        "" = "fixed_4ms"
        [[marked]]
        role = "fitted"
        rows = { event = "l3_migration", wss_kib = [64] }
        numbers = ["one"]
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

    /// The rows of a study whose simulated values are the printed values times these factors.
    fn simulated(study: &TableStudy, factors: [f64; 4]) -> Vec<ValidationRow> {
        let rows = study.printed.iter().zip(factors);
        rows.map(|(row, by)| study.beside(row, &[row.cost_us.value * by])).collect()
    }

    #[test]
    fn errors_are_relative_to_what_was_printed_however_little_that_is() {
        let study = study();
        let error =
            |at: usize, values: &[f64]| study.beside(&study.printed[at], values).error.unwrap();
        // Printed 0.5, which is 0.45 to 0.55.
        assert!((error(0, &[0.75]) - 0.4).abs() < 1e-12);
        assert!(error(0, &[0.54]).abs() < 1e-12);
        assert!((error(1, &[5.5, 5.5]) - 0.25).abs() < 1e-12);
        let none = study.beside(&study.printed[0], &[]);
        assert!(none.simulated.is_none() && none.error.unwrap().is_infinite());
    }

    #[test]
    fn a_maximum_is_held_against_that_of_as_many_samples() {
        let limits = "[limits.max]\nmedian = 0.5\np90 = 1.0\n        [limits.avg]";
        let description = DESCRIPTION.replace("[limits.avg]", limits);
        let table = TABLE.replace("l3_migration,,max,4,,x", "l3_migration,,max,4,30,x");
        let error = TableStudy::new(&description, &table).unwrap_err().to_string();
        assert!(error.contains("printed_samples has no number for the label ``"), "{error}");
        let counted = description.replace("[lengths]", "[printed_samples]\n\"\" = 64\n[lengths]");
        let study = TableStudy::new(&counted, &table).unwrap();
        let row =
            study.printed.iter().find(|row| row.statistic == PrintedStatistic::Maximum).unwrap();
        let values: Vec<f64> = (0..14).map(f64::from).chain([16.0, 20.0]).collect();
        let found = study.beside(row, &values);
        let most = 20.0 + 5.0 * 4f64.ln();
        assert!((found.simulated.unwrap() - most).abs() < 1e-9);
        assert!((found.error.unwrap() - (30.0 / most - 1.0)).abs() < 1e-9, "{found:?}");
        assert_eq!((found.n, found.printed_n, found.quantity), (Some(16), Some(64), Some("max")));
        let average = study.beside(&study.printed[2], &values);
        assert_eq!((average.printed_n, average.quantity), (None, Some("avg")));
    }

    #[test]
    fn a_marked_row_is_of_its_statistic_event_and_length() {
        let mut study = study();
        let roles = |study: &TableStudy| -> Vec<JudgementRole> {
            study.printed.iter().map(|row| study.role(row)).collect()
        };
        let (judged, fitted) = (JudgementRole::Judged, JudgementRole::Fitted);
        assert_eq!(roles(&study), [judged, judged, judged, fitted]);
        study.marked[0].rows.event = None;
        assert_eq!(roles(&study), [judged, fitted, judged, fitted]);
        study.marked[0].rows.length = Some(String::new());
        assert_eq!(roles(&study), [judged, judged, judged, fitted]);
        study.marked[0].rows.statistic = PrintedStatistic::Deviation;
        assert_eq!(roles(&study), [judged; 4]);
    }

    #[test]
    fn judged_pairs_that_are_printed_apart_are_counted_where_they_agree() {
        let mut study = study();
        let order = |study: &TableStudy, factors| study.order(&simulated(study, factors));
        // At 64 KiB one of the two was fitted on.
        assert_eq!(order(&study, [1.0; 4]), ClassConcordance { pairs: 1, agree: 1 });
        assert_eq!(order(&study, [8.0, 1.0, 1.0, 1.0]), ClassConcordance { pairs: 1, agree: 0 });
        study.marked[0].role = JudgementRole::NotModelled;
        assert_eq!(order(&study, [1.0; 4]), ClassConcordance { pairs: 2, agree: 2 });
        // At 64 KiB a preemption would cost more than a migration.
        assert_eq!(order(&study, [1.0, 20.0, 1.0, 1.0]), ClassConcordance { pairs: 2, agree: 1 });
        study.printed[0].cost_us.value = 1.7;
        assert_eq!(order(&study, [1.0; 4]).pairs, 1, "2 is less than 1.2 times 1.7");
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
