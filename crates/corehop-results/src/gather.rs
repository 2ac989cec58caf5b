// SPDX-License-Identifier: MIT OR Apache-2.0
//! From files to results.

use std::collections::BTreeMap;
use std::io::{Read, Seek};
use std::path::Path;

use parquet::file::reader::ChunkReader;
use serde_json::Value;

use corehop_decide::program_runs::{RunFigures, arms};
use corehop_decide::run_cost::uncosted;
use corehop_plan::finding::Finding;
use corehop_plan::platform::Platform;
use corehop_plan::samples::{
    FileError, FileKind, MissingFile, OverheadFacts, Provenance, Reader, RecordedAbsence,
    RecordedRun, RecordedThread, Recording, RecordingFacts, Row, RowKind, Sample,
};
use corehop_plan::shown;
use corehop_plan::workload::{LineState, Load};
use corehop_sched::supply::ObservedSupply;
use corehop_stats::access::{Curve, Curves, edges};
use corehop_stats::balance::{Levels, balances, translations};
use corehop_stats::budget::budget;
use corehop_stats::conditions::Spreads;
use corehop_stats::cpmd::Fit;
use corehop_stats::estimator::Estimator;
use corehop_stats::lengths::Lengths;
use corehop_stats::overheads::Overheads;
use corehop_stats::saturation::{CountedMisses, Saturation, Target, saturations};
use corehop_stats::scatter::Scatter;
use corehop_stats::sharing::Sharings;
use corehop_stats::summary::{CellSummary, Summaries};
use corehop_stats::switching::Switchings;
use corehop_stats::tasks::{TaskReport, TaskRuns};
use corehop_stats::verdict::{MachineFacts, MachineView, Verdict};

use crate::{FileNote, MachineNote, Recorded, Results};

/// A platform that none of the samples was taken on.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "it describes another machine than that of the samples ({differences}): `corehop sim platform \
     --measure -o FILE.toml` on that machine writes the right one"
)]
pub struct StrangePlatform {
    /// In what it differs from each machine of the samples.
    pub differences: String,
}

impl Recorded {
    /// None if the file does not describe its machine.
    fn of(Gathered { provenance, recording, .. }: Gathered) -> Option<Self> {
        let platform = Platform::from_toml(&provenance.platform).ok()?;
        let cost = uncosted(&recording, &platform);
        let runs = RunFigures::of_recording(&recording, &BTreeMap::new());
        let comparison = arms(&runs, 0.05).ok().filter(|it| !it.arms.is_empty());
        Some(Self { comparison, recording, cost, platform })
    }
}

/// A recording, as far as its files were read.
#[derive(Debug)]
struct Gathered {
    provenance: Provenance,
    recording: Recording,
    /// The names of its files.
    files: Vec<(RowKind, String)>,
}

impl Gathered {
    /// The files of the recording that are not among those that were read.
    fn missing(&self) -> impl Iterator<Item = MissingFile> {
        let knows_runs = self.recording.knows_runs() != Some(false);
        let expected = move |kind: &RowKind| *kind != RowKind::Runs || knows_runs;
        let is_read = |kind: &RowKind| self.files.iter().any(|(it, _)| it == kind);
        let lacks =
            RowKind::OF_RECORDING.into_iter().filter(move |it| expected(it) && !is_read(it));
        lacks.filter_map(|kind| {
            let (of, beside) = self.files.first()?;
            let first = of.first_of(Path::new(beside));
            let name = first.map(|first| shown::path(&kind.beside(&first)));
            let name = name.unwrap_or_else(|| format!("the file of `{}`", kind.word()));
            Some(MissingFile { beside: beside.clone(), name, kind })
        })
    }
}

/// Takes files, one after the other.
#[derive(Debug)]
pub struct Gather {
    estimator: Estimator,
    platforms: Vec<Platform>,
    files: Vec<FileNote>,
    summaries: Summaries,
    spreads: Spreads,
    scatter: Scatter,
    curves: Curves,
    lengths: Lengths,
    sharings: Sharings,
    tasks: TaskRuns,
    overheads: Overheads,
    switches: Switchings,
    supply: ObservedSupply,
    overhead_facts: Vec<OverheadFacts>,
    recordings: Vec<Gathered>,
    /// Files beside these that are not there.
    pub(crate) missing: Vec<MissingFile>,
    fit: Fit,
}

impl Gather {
    /// No files yet; delays will be computed by `estimator`.
    pub fn new(estimator: Estimator) -> Self {
        Self {
            estimator,
            platforms: Vec::new(),
            files: Vec::new(),
            summaries: Summaries::new(estimator),
            spreads: Spreads::new(estimator),
            scatter: Scatter::new(estimator),
            curves: Curves::default(),
            lengths: Lengths::default(),
            sharings: Sharings::default(),
            tasks: TaskRuns::default(),
            overheads: Overheads::default(),
            switches: Switchings::default(),
            supply: ObservedSupply::default(),
            overhead_facts: Vec::new(),
            recordings: Vec::new(),
            missing: Vec::new(),
            fit: Fit::new(estimator),
        }
    }

    /// Takes all rows of a file, which goes by `name`.
    ///
    /// # Errors
    /// [`FileError`]: damaged, or rows of a kind that reports do not know.
    pub fn file<S>(&mut self, name: &str, reader: &mut Reader<S>) -> Result<(), FileError>
    where
        S: ChunkReader + Read + Seek + 'static,
    {
        let FileKind { rows, schema, provenance } = reader.kind().clone();
        let n_rows = match reader.rows_kind()? {
            RowKind::AccessTimes => each(reader, |rows| self.curves.take(rows))?,
            RowKind::PreemptionLengths => each(reader, |rows| self.lengths.take(rows))?,
            RowKind::SharedData => each(reader, |rows| self.sharings.take(rows))?,
            RowKind::Switches => each(reader, |rows| self.switches.take(rows))?,
            RowKind::Supply => each(reader, |rows| self.supply.take(rows))?,
            RowKind::Overheads => {
                self.overhead_facts.extend(OverheadFacts::of(&provenance.machine));
                each(reader, |rows| self.overheads.take(rows))?
            }
            RowKind::Absences => {
                let recording = self.recording(&provenance, (RowKind::Absences, name));
                each(reader, |rows: &[RecordedAbsence]| recording.take_absences(rows))?
            }
            RowKind::Threads => {
                let recording = self.recording(&provenance, (RowKind::Threads, name));
                each(reader, |rows: &[RecordedThread]| recording.take_threads(rows))?
            }
            RowKind::Runs => {
                let recording = self.recording(&provenance, (RowKind::Runs, name));
                each(reader, |rows: &[RecordedRun]| recording.take_runs(rows))?
            }
            RowKind::TaskJobs => each(reader, |rows| self.tasks.jobs(&provenance, rows))?,
            RowKind::Samples => each(reader, |rows: &[Sample]| {
                self.tasks.samples(&provenance, self.estimator, rows);
                self.summaries.take(rows);
                self.spreads.take(rows);
                self.scatter.take(rows);
                self.fit.take(rows);
            })?,
        };
        self.spreads.next_run();
        let incomplete = incomplete(name, reader);
        let (name, verification) = (name.to_owned(), reader.verification());
        self.files.push(FileNote {
            name,
            rows,
            schema,
            n_rows,
            incomplete,
            verification,
            provenance,
        });
        Ok(())
    }

    /// The recording that a file with this provenance belongs to, which has rows of this kind and this name.
    fn recording(
        &mut self,
        provenance: &Provenance,
        (kind, name): (RowKind, &str),
    ) -> &mut Recording {
        let facts = RecordingFacts::of(&provenance.machine).unwrap_or_default();
        let same = |it: &Gathered| it.recording.facts == facts;
        let at = self.recordings.iter().position(same).unwrap_or_else(|| {
            let recording = Recording { facts, ..Recording::default() };
            let provenance = provenance.clone();
            self.recordings.push(Gathered { provenance, recording, files: Vec::new() });
            self.recordings.len() - 1
        });
        let gathered = &mut self.recordings[at];
        gathered.files.push((kind, name.to_owned()));
        &mut gathered.recording
    }

    /// Takes what else is known of a machine, such as what was measured of it, in place of what the
    /// files of samples say of it; to be called after the files.
    ///
    /// # Errors
    /// [`StrangePlatform`] where there are samples, and none of them of this machine.
    pub fn platform(&mut self, platform: Platform) -> Result<(), StrangePlatform> {
        let known = self.described();
        let differences: Vec<String> =
            known.values().filter_map(|it| platform.difference(it, "of the samples")).collect();
        if !known.is_empty() && differences.len() == known.len() {
            return Err(StrangePlatform { differences: differences.join("; ") });
        }
        self.platforms.push(platform);
        Ok(())
    }

    /// The platforms in the provenance of the files, by their ids.
    fn described(&self) -> BTreeMap<String, Platform> {
        let of = |file: &FileNote| Platform::from_toml(&file.provenance.platform).ok();
        let described = self.files.iter().filter_map(of);
        described.map(|platform| (platform.id.clone(), platform)).collect()
    }

    /// The contents of all files together.
    pub fn finish(mut self) -> Results {
        let summaries = self.summaries.finish();
        let curves = self.curves.finish();
        let tasks = self.tasks.finish();
        let mut machines = self.machines(&summaries, &curves);
        if let Some(tasks) = &tasks {
            for machine in &mut machines {
                machine.tell(tasks);
            }
        }
        let saturations = machines.iter().flat_map(|it| self.saturations(it, &summaries)).collect();
        for machine in &machines {
            if let Some((platform, levels)) = machine.platform.as_ref().zip(machine.levels.as_ref())
            {
                self.fit.machine(platform, levels);
            }
        }
        Results {
            estimator: self.estimator,
            machines,
            spreads: self.spreads.finish(),
            clouds: self.scatter.finish(),
            lengths: self.lengths.finish(),
            sharings: self.sharings.finish(),
            tasks,
            overheads: self.overheads.summaries(),
            switches: self.switches.finish(),
            supply: self.supply.summaries(),
            switches_not_measured: self.switches.not_measured(),
            overhead_facts: self.overhead_facts,
            missing: self
                .recordings
                .iter()
                .flat_map(Gathered::missing)
                .chain(self.missing)
                .collect(),
            recorded: self.recordings.into_iter().filter_map(Recorded::of).collect(),
            budget: budget(&summaries),
            translations: translations(&summaries),
            saturations,
            fit: self.fit,
            files: self.files,
            summaries,
            curves,
        }
    }

    /// The machines of the files, in the order of first mention.
    fn machines(&self, summaries: &[CellSummary], curves: &[Curve]) -> Vec<MachineNote> {
        let mut platforms = self.described();
        platforms.extend(self.platforms.iter().map(|it| (it.id.clone(), it.clone())));
        let mut ids: Vec<String> = platforms.keys().cloned().collect();
        let named = summaries.iter().map(|summary| summary.cell.machine.to_string());
        for id in named.chain(curves.iter().map(|curve| curve.key.machine.to_string())) {
            if !ids.contains(&id) {
                ids.push(id);
            }
        }
        ids.into_iter()
            .map(|id| self.machine(platforms.remove(&id), id, summaries, curves))
            .collect()
    }

    fn machine(
        &self,
        platform: Option<Platform>,
        id: String,
        summaries: &[CellSummary],
        curves: &[Curve],
    ) -> MachineNote {
        let levels = platform.as_ref().map(|platform| Levels::of(platform, curves));
        let mine = summaries.iter().filter(|summary| *summary.cell.machine == *id);
        let mine: Vec<CellSummary> = mine.cloned().collect();
        let valid = curves
            .iter()
            .find(|curve| *curve.key.machine == *id && curve.key.cache_state == LineState::Valid);
        MachineNote {
            findings: self.findings(&id),
            verdicts: if mine.is_empty() {
                Vec::new()
            } else {
                self.verdicts(&id, platform.as_ref())
            },
            edges: valid.zip(platform.as_ref()).map_or_else(Vec::new, |(c, p)| edges(c, p)),
            balances: levels.as_ref().map_or_else(Vec::new, |levels| balances(&mine, levels)),
            levels,
            platform,
            id,
        }
    }

    /// The lengths at which the delays of a machine stop growing.
    fn saturations(&self, machine: &MachineNote, summaries: &[CellSummary]) -> Vec<Saturation> {
        let of_machine = |it: &&CellSummary| *it.cell.machine == *machine.id;
        let mine: Vec<CellSummary> = summaries.iter().filter(of_machine).cloned().collect();
        let targets = machine.platform.as_ref().map_or_else(Vec::new, Target::of);
        let files = self.files.iter().filter(|file| is_of(file, &machine.id));
        let misses: Vec<CountedMisses> =
            files.flat_map(|file| counted_misses(&file.provenance)).collect();
        saturations(&mine, &targets, &misses)
    }

    /// The findings about the machine, from the first file that has them.
    fn findings(&self, machine: &str) -> Vec<Finding> {
        let read = |file: &FileNote| {
            let findings = file.provenance.machine.get("findings")?.clone();
            serde_json::from_value(findings).ok()
        };
        self.files.iter().filter(|file| is_of(file, machine)).find_map(read).unwrap_or_default()
    }

    fn verdicts(&self, machine: &str, platform: Option<&Platform>) -> Vec<Verdict> {
        let facts = platform.map(MachineFacts::of);
        let view = facts.as_ref().map_or(MachineView::UNKNOWN, MachineFacts::view);
        // Cells hold nothing but numbers, each column as long as the others: `Summaries` sees to it.
        self.summaries.verdicts(machine, &view).unwrap_or_default()
    }
}

/// Hands every batch of rows on, and counts them.
fn each<R, S>(reader: &mut Reader<S>, mut take: impl FnMut(&[R])) -> Result<u64, FileError>
where
    R: Row,
    S: ChunkReader + Read + Seek + 'static,
{
    let mut count = 0;
    while let Some(rows) = reader.next_rows::<R>()? {
        count += rows.len() as u64;
        take(&rows);
    }
    Ok(count)
}

/// Whether a file is of this machine, as far as it says so.
fn is_of(file: &FileNote, machine: &str) -> bool {
    Platform::from_toml(&file.provenance.platform).map_or(true, |platform| platform.id == machine)
}

/// The misses that the loads of a run made in the last-level cache, where they were counted.
fn counted_misses(provenance: &Provenance) -> Vec<CountedMisses> {
    let loads = provenance.machine.get("load").and_then(Value::as_array);
    let of_load = |known: &Value| {
        let load: Load = serde_json::from_value(known["load"].clone()).ok()?;
        let llc = &known["classification"]["llc"];
        let stores = llc["store_misses_per_s"].as_f64().unwrap_or_default();
        let misses = llc["load_misses_per_s"].as_f64()? + stores;
        Some((load.word().to_owned(), load.runs(), misses))
    };
    loads.into_iter().flatten().filter_map(of_load).collect()
}

/// Why a file is not a whole run.
pub fn incomplete<S>(name: &str, reader: &Reader<S>) -> Option<String>
where
    S: ChunkReader + Read + Seek + 'static,
{
    if reader.truncated() {
        Some("the run was cut off while writing: the rows written before are here".to_owned())
    } else if let Some(cause) = &reader.kind().provenance.stopped_by {
        Some(format!("the run was stopped early: {cause}"))
    } else if std::path::Path::new(name).extension().is_some_and(|it| it == "part") {
        Some("the run is in progress, or ended before it wrote Parquet".to_owned())
    } else {
        None
    }
}

impl MachineNote {
    /// The verdict of task sets on an observation that nothing else can test.
    fn tell(&mut self, tasks: &TaskReport) {
        let Some(verdict) = tasks.verdicts.get(&self.id) else { return };
        let verdicts = self.verdicts.iter_mut().filter(|it| it.id == verdict.id);
        verdicts.for_each(|it| it.clone_from(verdict));
    }
}
