// SPDX-License-Identifier: MIT OR Apache-2.0
//! Gathers files and computes their results.

use std::collections::BTreeMap;
use std::io::{Read, Seek};

use parquet::file::reader::ChunkReader;
use serde_json::Value;

use corehop_plan::finding::Finding;
use corehop_plan::platform::Platform;
use corehop_plan::samples::{FileError, FileKind, MissingFile, Provenance, Reader};
use corehop_plan::workload::{LineState, Load};
use corehop_stats::access::{AccessCurve, edges};
use corehop_stats::balance::{LevelLatencies, balances, translations};
use corehop_stats::budget::budget;
use corehop_stats::estimator::Estimator;
use corehop_stats::jobs::CellResults;
use corehop_stats::saturation::{CountedMisses, RefillTarget, Saturation, saturations};
use corehop_stats::summarise::FromFile;
use corehop_stats::summary::CellSummary;
use corehop_stats::tasks::TaskReport;
use corehop_stats::verdict::{ClaimVerdict, MachineFacts, MachineView};

use crate::kinds::{CommonResults, Kinds};
use crate::{FileNote, MachineNote, Results};

/// A given platform describes a machine on which none of the samples was taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "the platform file does not describe the machine of the samples ({differences}): run `corehop measure \
     platform -o FILE.toml` on that machine"
)]
pub struct StrangePlatform {
    /// The differences between the platform and each machine of the samples.
    pub differences: String,
}

/// Reads files one after the other, and computes their common results.
#[derive(Debug)]
pub struct Gather {
    estimator: Estimator,
    platforms: Vec<Platform>,
    files: Vec<FileNote>,
    kinds: Kinds,
    /// The files that belong beside the gathered files and are missing.
    pub(crate) missing: Vec<MissingFile>,
}

impl Gather {
    /// Makes a gatherer without files, whose delays are computed by `estimator`.
    pub fn new(estimator: Estimator) -> Self {
        Self {
            estimator,
            platforms: Vec::new(),
            files: Vec::new(),
            kinds: Kinds::new(estimator),
            missing: Vec::new(),
        }
    }

    /// Adds all rows of a file; messages call the file `name`.
    ///
    /// # Errors
    /// Fails with [`FileError`] if the file is damaged, or contains rows of a kind that reports do not know.
    pub fn file<S>(&mut self, name: &str, reader: &mut Reader<S>) -> Result<(), FileError>
    where
        S: ChunkReader + Read + Seek + 'static,
    {
        let FileKind { rows, schema, provenance } = reader.kind().clone();
        let from = FromFile { name, kind: reader.rows_kind()?, provenance: &provenance };
        self.kinds.begin(&from);
        let mut n_rows = 0;
        while let Some(rows) = reader.next_of_any_kind()? {
            n_rows += rows.len(from.kind) as u64;
            self.kinds.take(&rows, &from);
        }
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

    /// Adds further facts about a machine, such as measured ones, which replace the platform in the
    /// files of samples. The caller must add all files first.
    ///
    /// # Errors
    /// Returns [`StrangePlatform`] if there are samples, and none of them was taken on this
    /// machine.
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

    /// Returns the platforms in the provenance of the files, by their ids.
    fn described(&self) -> BTreeMap<String, Platform> {
        let of = |file: &FileNote| Platform::from_toml(&file.provenance.platform).ok();
        let described = self.files.iter().filter_map(of);
        described.map(|platform| (platform.id.clone(), platform)).collect()
    }

    /// Returns the results of all files together.
    pub fn finish(mut self) -> Results {
        let missing = self.kinds.missing().into_iter().chain(std::mem::take(&mut self.missing));
        let missing = missing.collect();
        let said = self.kinds.finish();
        let CellResults { summaries, curves, .. } = &said.jobs;
        let mut machines = self.machines(summaries, curves);
        if let Some(tasks) = &said.tasks {
            for machine in &mut machines {
                machine.tell(tasks);
            }
        }
        let saturations = machines.iter().flat_map(|it| self.saturations(it, summaries)).collect();
        let mut fit = self.kinds.jobs.fit;
        for machine in &machines {
            if let Some((platform, levels)) = machine.platform.as_ref().zip(machine.levels.as_ref())
            {
                fit.machine(platform, levels);
            }
        }
        let common = CommonResults {
            estimator: self.estimator,
            files: self.files,
            machines,
            missing,
            budget: budget(summaries),
            translations: translations(summaries),
            saturations,
            fit,
        };
        Results::of(common, said)
    }

    /// Returns the machines of the files, in the order of their first mention.
    fn machines(&self, summaries: &[CellSummary], curves: &[AccessCurve]) -> Vec<MachineNote> {
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
        curves: &[AccessCurve],
    ) -> MachineNote {
        let levels = platform.as_ref().map(|platform| LevelLatencies::of(platform, curves));
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

    /// Returns the lengths at which the delays of a machine stop growing.
    fn saturations(&self, machine: &MachineNote, summaries: &[CellSummary]) -> Vec<Saturation> {
        let of_machine = |it: &&CellSummary| *it.cell.machine == *machine.id;
        let mine: Vec<CellSummary> = summaries.iter().filter(of_machine).cloned().collect();
        let targets = machine.platform.as_ref().map_or_else(Vec::new, RefillTarget::of);
        let files = self.files.iter().filter(|file| is_of(file, &machine.id));
        let misses: Vec<CountedMisses> =
            files.flat_map(|file| counted_misses(&file.provenance)).collect();
        saturations(&mine, &targets, &misses)
    }

    /// Returns the findings about the machine, from the first file that has findings.
    fn findings(&self, machine: &str) -> Vec<Finding> {
        let read = |file: &FileNote| {
            let findings = file.provenance.machine.get("findings")?.clone();
            serde_json::from_value(findings).ok()
        };
        self.files.iter().filter(|file| is_of(file, machine)).find_map(read).unwrap_or_default()
    }

    fn verdicts(&self, machine: &str, platform: Option<&Platform>) -> Vec<ClaimVerdict> {
        let facts = platform.map(MachineFacts::of);
        let view = facts.as_ref().map_or(MachineView::UNKNOWN, MachineFacts::view);
        // Cells hold nothing but numbers, each column as long as the others: the summary sees to it.
        self.kinds.jobs.verdicts(machine, &view).unwrap_or_default()
    }
}

/// Returns whether a file belongs to this machine; a file without a readable platform counts for
/// every machine.
fn is_of(file: &FileNote, machine: &str) -> bool {
    Platform::from_toml(&file.provenance.platform).map_or(true, |platform| platform.id == machine)
}

/// Returns the misses of the loads of a run in the last-level cache; empty if they were not
/// counted.
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

/// Returns the reason why a file is not a complete run, or `None` for a complete run.
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
    /// Replaces the machine's verdict on the observation that only task sets can test.
    fn tell(&mut self, tasks: &TaskReport) {
        let Some(verdict) = tasks.verdicts.get(&self.id) else { return };
        let verdicts = self.verdicts.iter_mut().filter(|it| it.id == verdict.id);
        verdicts.for_each(|it| it.clone_from(verdict));
    }
}
