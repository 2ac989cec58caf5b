// SPDX-License-Identifier: MIT OR Apache-2.0
//! Cells are groups of comparable samples.

use std::cmp::Ordering;

use serde::{Serialize, Serializer};
use serde_json::Value;

use corehop_plan::experiment::Length;
use corehop_plan::platform::MemoryArchitecture;
use corehop_plan::samples::{Sample, Text};
use corehop_plan::units::Bytes;
use corehop_plan::workload::{Absence, Event, LineState, Mover, Page, Pattern};

/// The common properties of the samples of a cell.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CellKey {
    /// The id of the platform on which the samples were measured.
    #[serde(serialize_with = "text")]
    pub machine: Text,
    /// The way in which the machine's memory is attached to its packages.
    pub memory_architecture: MemoryArchitecture,
    /// The name of the experiment that took the samples.
    #[serde(serialize_with = "text")]
    pub experiment: Text,
    /// The background load under which the samples were taken.
    #[serde(serialize_with = "text")]
    pub load: Text,
    /// The order in which the job accesses the lines of its working set.
    pub pattern: Pattern,
    /// The user's own job, which replaces the pattern.
    #[serde(serialize_with = "optional_text")]
    pub workload: Option<Text>,
    /// The kind of pages that the plan requested for the working set.
    pub page: Page,
    /// The requested NUMA node of the memory, or `None` if none was requested.
    pub node: Option<u64>,
    /// Whether every job had fresh page frames.
    pub fresh_frames: bool,
    /// The number of independent chains of accesses.
    pub chains: u64,
    /// The share of word accesses that write.
    pub write_ratio: f64,
    /// The state of the lines before the cold touch.
    pub cache_state: LineState,
    /// The event between the warm and the resumed touch.
    pub event: Event,
    /// The occupant of the CPU during the absence.
    pub preempted_by: Absence,
    /// The distribution of preemption lengths in the cell.
    #[serde(serialize_with = "text")]
    pub preemption_length: Text,
    /// The walk of the preemptor or of the polluters.
    #[serde(serialize_with = "optional_text")]
    pub polluter: Option<Text>,
    /// The way in which the job moved to the other CPU.
    pub mover: Mover,
    /// The measured class of the job's CPU and the load's CPU, for a job that stays beside a load, if
    /// measured. A polluter that shares a cache with the job has a different effect from a distant
    /// polluter.
    pub pair_class: Option<Event>,
    /// The working-set size in bytes.
    pub wss_bytes: u64,
}

pub(super) fn text<S: Serializer>(text: &Text, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(text)
}

#[expect(clippy::ref_option, reason = "the form that serde calls")]
fn optional_text<S: Serializer>(text: &Option<Text>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_some(&text.as_deref())
}

/// Returns the class that distinguishes a job's neighbours, or `None` for migrations, whose event already
/// states the class.
fn beside_a_load(sample: &Sample) -> Option<Event> {
    let stays = !sample.event.is_migration() && sample.preempted_by == Absence::Load;
    sample.pair_class.filter(|_| stays)
}

impl CellKey {
    /// Returns the cell to which a sample belongs.
    pub fn of(sample: &Sample) -> Self {
        Self {
            machine: sample.machine.clone(),
            memory_architecture: sample.memory_architecture,
            experiment: sample.experiment.clone(),
            load: sample.load.clone(),
            pattern: sample.pattern,
            workload: sample.workload.clone(),
            page: sample.page,
            node: sample.node,
            fresh_frames: sample.fresh_frames.unwrap_or_default(),
            chains: sample.chains,
            write_ratio: sample.write_ratio,
            cache_state: sample.cache_state,
            event: sample.event,
            preempted_by: sample.preempted_by,
            preemption_length: sample.preemption_length.clone(),
            polluter: sample.polluter.clone(),
            mover: sample.mover,
            pair_class: beside_a_load(sample),
            wss_bytes: sample.wss_bytes,
        }
    }

    /// Returns the working-set size in KiB.
    pub fn wss_kib(&self) -> f64 {
        self.wss_bytes as f64 / 1024.0
    }

    /// Returns the size in bytes of a polluter's working set, parsed from a text such as
    /// `shuffled 4 MiB write 0.5`.
    pub fn polluter_bytes(&self) -> Option<u64> {
        walked_bytes(self.polluter.as_deref()?)
    }

    /// Returns whether two cells differ at most in the working-set size.
    pub fn same_series(&self, other: &Self) -> bool {
        *self == Self { wss_bytes: self.wss_bytes, ..other.clone() }
    }

    /// Returns whether two cells differ at most in the event, its absence, and the working-set size.
    pub fn same_panel(&self, other: &Self) -> bool {
        *self
            == Self {
                event: self.event,
                preempted_by: self.preempted_by,
                preemption_length: self.preemption_length.clone(),
                polluter: self.polluter.clone(),
                mover: self.mover,
                pair_class: self.pair_class,
                wss_bytes: self.wss_bytes,
                ..other.clone()
            }
    }

    /// Returns the properties, apart from load, write ratio, size and length, that must be equal for a
    /// comparison of two cells, as one text.
    pub fn variant(&self) -> String {
        let Self { experiment, pattern, page, chains, cache_state, mover, .. } = self;
        let (workload, node, fresh) = (&self.workload, self.node, self.fresh_frames);
        let text = format!("{experiment} {pattern} {page} {chains} {cache_state} {mover}");
        format!("{text} {workload:?} {node:?} {fresh}")
    }

    /// Returns the distribution of preemption lengths; empty if the job resumed at once.
    pub fn absence(&self) -> &str {
        match &*self.preemption_length {
            "none" | "fixed_0ns" => "",
            length => length,
        }
    }

    /// Returns the fields of the cell by name, with each value as text; `none` for an absent value.
    pub fn fields(&self) -> Vec<(String, String)> {
        fields(self)
    }

    /// Returns the fields in the order in which summaries are listed; `idle` comes before other loads.
    fn order(&self) -> impl Ord + '_ {
        let place = (&self.machine, self.memory_architecture, &self.experiment);
        let load = (&*self.load != "idle", &self.load);
        let memory = (&self.workload, self.page, self.node, self.fresh_frames);
        let set = (self.pattern, memory, self.chains, self.write_ratio.to_bits());
        // Lengths by their time, not by their spelling: 16 ms come after 1 ms.
        let drawn = self.preemption_length.parse::<Length>().ok();
        let drawn = drawn.map(|length| (!matches!(length, Length::Fixed(_)), length.mean()));
        let drawn = (drawn, &self.preemption_length);
        let length = (self.preempted_by, drawn, &self.polluter, self.mover, self.pair_class);
        (place, load, set, self.cache_state, self.event, length, self.wss_bytes)
    }
}

/// Returns the size in bytes of a polluter's working set, parsed from a text such as
/// `shuffled 4 MiB write 0.5`.
pub(super) fn walked_bytes(polluter: &str) -> Option<u64> {
    let mut words = polluter.split(' ').skip(1);
    let size: Bytes = format!("{} {}", words.next()?, words.next()?).parse().ok()?;
    Some(size.get())
}

/// Returns the fields of a key by name, with each value as text; `none` for an absent value.
pub(super) fn fields(key: &impl Serialize) -> Vec<(String, String)> {
    let text = |value: Value| match value {
        Value::Null => "none".to_owned(),
        Value::String(text) => text,
        other => other.to_string(),
    };
    let Value::Object(fields) = serde_json::json!(key) else { return Vec::new() };
    fields.into_iter().map(|(name, value)| (name, text(value))).collect()
}

impl Eq for CellKey {}

impl PartialOrd for CellKey {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for CellKey {
    fn cmp(&self, other: &Self) -> Ordering {
        self.order().cmp(&other.order())
    }
}
