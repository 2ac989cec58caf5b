// SPDX-License-Identifier: MIT OR Apache-2.0
//! The activity during the absence of a job.

use std::fmt;

use serde::Serialize;

use crate::model::cpmd::{Model, NoAnswer, SeriesKey};
use crate::workload::{Absence, Event};

/// The work in the job's place while it was away, besides the load's on other CPUs. Two costs are compared
/// only where the jobs were away in the same company.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Company {
    /// The occupant of the CPU.
    pub preempted_by: Absence,
    /// The memory that it walked.
    pub polluter: Option<String>,
    /// Beside a load: how far the CPU was from the other one, where that was measured. A neighbour at the
    /// distance of an L3 migration is compared with L3 migrations.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pair_class: Option<Event>,
}

impl Company {
    /// The companies in which jobs stayed under a load, in the order in which they were measured.
    ///
    /// # Errors
    /// [`NoAnswer::NoField`] where `only` names no field.
    pub(super) fn measured(
        model: &Model,
        load: &str,
        only: &[(String, String)],
    ) -> Result<Vec<Self>, NoAnswer> {
        let mut all: Vec<Self> = Vec::new();
        for key in model.under(load, only)? {
            let company = Self::of(key);
            if stays(key.event) && !all.contains(&company) {
                all.push(company);
            }
        }
        Ok(all)
    }

    fn of(key: &SeriesKey) -> Self {
        Self {
            preempted_by: key.preempted_by,
            polluter: key.polluter.clone(),
            pair_class: key.pair_class,
        }
    }

    /// Nothing that the experiment put there.
    pub(super) const fn nothing() -> Self {
        Self { preempted_by: Absence::Nothing, polluter: None, pair_class: None }
    }

    /// The fields of the series of `event` in this company, as names and values.
    pub(super) fn fields(&self, event: Event) -> Vec<(String, String)> {
        let text = |word: Option<&str>| word.unwrap_or("none").to_owned();
        let mut fields = vec![
            ("preempted_by".to_owned(), self.preempted_by.word().to_owned()),
            ("polluter".to_owned(), text(self.polluter.as_deref())),
        ];
        if !event.is_migration() {
            let class = text(self.pair_class.map(Event::word));
            fields.push(("pair_class".to_owned(), class));
        }
        fields
    }

    /// Whether a migration of this class leads from its CPU to the neighbour it is about.
    pub(super) fn leads(&self, migration: Event) -> bool {
        self.pair_class.is_none_or(|class| class == migration)
    }

    /// The events of resuming in place in it, the closest to a preemption first.
    pub(super) fn stays(&self) -> &'static [Event] {
        match self.preempted_by {
            Absence::Nothing => &[Event::Preemption, Event::IdleLeave],
            _ => &[Event::Preemption],
        }
    }
}

/// Whether a job resumes in place after this event.
pub(super) const fn stays(event: Event) -> bool {
    matches!(event, Event::Preemption | Event::IdleLeave)
}

impl fmt::Display for Company {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.preempted_by, &self.polluter) {
            (Absence::Nothing, _) => f.write_str("nothing ran meanwhile"),
            (Absence::Preemptor, None) => f.write_str("preempted meanwhile"),
            (Absence::Preemptor, Some(walked)) => {
                write!(f, "a preemptor walked {walked} meanwhile")
            }
            (Absence::Load, None) => f.write_str("the load ran meanwhile"),
            (Absence::Load, Some(walked)) => write!(f, "polluters walked {walked} meanwhile"),
        }?;
        match self.pair_class {
            Some(class) => write!(f, ", the neighbour at {class} distance"),
            None => Ok(()),
        }
    }
}
