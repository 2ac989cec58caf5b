// SPDX-License-Identifier: MIT OR Apache-2.0
//! Summarises recorded programs: the recording, its cost, and the comparison of arms.

use std::collections::BTreeMap;
use std::path::Path;

use corehop_decide::program_runs::{RunComparison, RunFigures, arms};
use corehop_decide::run_cost::{ChargedRecording, RunCost, uncosted};
use corehop_plan::platform::Platform;
use corehop_plan::samples::{MissingFile, Provenance, Recording, RecordingFacts, RowKind, Rows};
use corehop_plan::shown;
use corehop_stats::estimator::Estimator;
use corehop_stats::summarise::{FromFile, Summarise};

pub(crate) use self::Recordings as Summary;

/// The results of a recorded program.
#[derive(Debug, Clone)]
pub struct Recorded {
    /// The comparison of the program's arms, if it has arms.
    pub comparison: Option<RunComparison>,
    /// The recording of the program's runs.
    pub recording: Recording,
    /// The program's events by class, by thread and by preempting thread, with the cost of the events if the recording
    /// stored this cost.
    pub cost: RunCost,
    /// The source of the events' costs, or the reason why there are no costs, as a sentence.
    pub costs: Option<String>,
    /// The machine on which the program ran.
    pub platform: Platform,
}

impl Recorded {
    /// Returns the results of a recording, or `None` if the file does not describe its machine.
    fn of(RecordingFiles { provenance, recording, .. }: RecordingFiles) -> Option<Self> {
        let platform = Platform::from_toml(&provenance.platform).ok()?;
        let charged = ChargedRecording::of(&provenance.machine);
        let none = || (uncosted(&recording, &platform), BTreeMap::new(), None);
        let told = |it: ChargedRecording| (it.cost, it.refills, Some(it.costs));
        let (cost, refills, costs) = charged.map_or_else(none, told);
        let runs = RunFigures::of_recording(&recording, &refills);
        let comparison = arms(&runs, 0.05).ok().filter(|it| !it.arms.is_empty());
        Some(Self { comparison, recording, cost, costs, platform })
    }
}

/// A recording, with the files that were read so far.
#[derive(Debug)]
struct RecordingFiles {
    provenance: Provenance,
    recording: Recording,
    /// The names of the recording's files.
    files: Vec<(RowKind, String)>,
}

impl RecordingFiles {
    /// Returns the missing files of the recording.
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

/// Collects the rows of recordings, each of which has three files.
#[derive(Debug, Default)]
pub struct Recordings {
    recordings: Vec<RecordingFiles>,
    /// The recording to which the current file belongs.
    under_way: Option<usize>,
}

impl Summarise for Recordings {
    type Said = Vec<Recorded>;

    fn new(_: Estimator) -> Self {
        Self::default()
    }

    fn begin(&mut self, from: &FromFile<'_>) {
        let is_recording = RowKind::OF_RECORDING.contains(&from.kind);
        self.under_way = is_recording.then(|| self.recording(from));
    }

    fn take(&mut self, rows: &Rows, _: &FromFile<'_>) {
        let Some(under_way) = self.under_way else { return };
        let recording = &mut self.recordings[under_way].recording;
        recording.take_absences(&rows.absences);
        recording.take_threads(&rows.threads);
        recording.take_runs(&rows.runs);
    }

    fn missing(&self) -> Vec<MissingFile> {
        self.recordings.iter().flat_map(RecordingFiles::missing).collect()
    }

    fn finish(&mut self) -> Vec<Recorded> {
        std::mem::take(&mut self.recordings).into_iter().filter_map(Recorded::of).collect()
    }
}

impl Recordings {
    /// Returns the index of the recording to which a file belongs.
    fn recording(&mut self, from: &FromFile<'_>) -> usize {
        let facts = RecordingFacts::of(&from.provenance.machine).unwrap_or_default();
        let same = |it: &RecordingFiles| it.recording.facts == facts;
        let at = self.recordings.iter().position(same).unwrap_or_else(|| {
            let recording = Recording { facts, ..Recording::default() };
            let provenance = from.provenance.clone();
            self.recordings.push(RecordingFiles { provenance, recording, files: Vec::new() });
            self.recordings.len() - 1
        });
        self.recordings[at].files.push((from.kind, from.name.to_owned()));
        at
    }
}
