// SPDX-License-Identifier: MIT OR Apache-2.0
//! The company of a job: the activity on its CPU during its absence. Costs are compared within one company
//! only: a job that waits while nothing runs keeps its lines, and a job that waits while other threads run
//! loses lines to these threads.

use std::fmt;

use serde::Serialize;

use super::cell::{CellKey, walked_bytes};
use super::summary::CellSummary;
use corehop_plan::units::Bytes;
use corehop_plan::workload::{Absence, Event};

/// The work on the job's CPU during its absence; the load's work on other CPUs does not count. The costs of two
/// absences are comparable only if the jobs were away in the same company.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Company {
    /// The occupant of the CPU during the absence.
    pub preempted_by: Absence,
    /// The walk of the preemptor that had the CPU.
    pub polluter: Option<String>,
    /// The measured class of the job's CPU and the load's CPU, if a load ran and the class was measured. A job
    /// beside a neighbour at the distance of an L3 migration is compared with L3 migrations.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pair_class: Option<Event>,
}

impl Company {
    /// Returns the company of a cell's job.
    pub fn of(cell: &CellKey) -> Self {
        Self {
            preempted_by: cell.preempted_by,
            polluter: cell.polluter.as_deref().map(ToOwned::to_owned),
            pair_class: cell.pair_class,
        }
    }

    /// Returns the company in which the experiment runs nothing.
    pub const fn nothing() -> Self {
        Self { preempted_by: Absence::Nothing, polluter: None, pair_class: None }
    }

    /// Returns whether a migration of this class leads from the job's CPU to the CPU of its neighbour.
    pub fn leads(&self, migration: Event) -> bool {
        self.pair_class.is_none_or(|class| class == migration)
    }

    /// Returns the events after which a job of this company resumes in place, the closest to a preemption
    /// first.
    pub fn stays(&self) -> &'static [Event] {
        match self.preempted_by {
            Absence::Nothing => &[Event::Preemption, Event::IdleLeave],
            _ => &[Event::Preemption],
        }
    }

    /// Returns the size of the occupant's working set, if known.
    fn walked(&self) -> Option<Bytes> {
        self.polluter.as_deref().and_then(walked_bytes).map(Bytes::new)
    }

    /// Returns the company as a short clause, such as `a preemptor walked 4 MiB meanwhile`.
    pub fn brief(&self) -> String {
        match (self.preempted_by, self.walked()) {
            (Absence::Preemptor, Some(size)) => format!("a preemptor walked {size} meanwhile"),
            (Absence::Load, Some(size)) => format!("polluters walked {size} meanwhile"),
            _ => self.to_string(),
        }
    }
}

/// Returns whether a job resumes in place after this event.
pub const fn stays(event: Event) -> bool {
    matches!(event, Event::Preemption | Event::IdleLeave)
}

/// Cells of one size and one length whose jobs were away in one company; only such cells are compared with each
/// other.
#[derive(Debug, Clone)]
pub struct CompanyGroup<'a> {
    /// The company in which the cells of the group were away.
    pub company: Company,
    /// The cells: first the jobs that resume in place, then the migrations from near to far.
    pub cells: Vec<&'a CellSummary>,
}

impl CompanyGroup<'_> {
    /// Returns whether jobs of this company both stayed and moved.
    pub fn compares(&self) -> bool {
        let any = |moved: bool| self.cells.iter().any(|it| it.cell.event.is_migration() == moved);
        any(true) && any(false)
    }
}

/// Groups cells of preemptions, idle leaves and migrations by company, if they are of one panel, size and
/// length; companies with both stays and migrations come first. A migration under a load belongs to the company
/// of the neighbour to which it leads.
pub fn alike<'a>(cells: &[&'a CellSummary]) -> Vec<CompanyGroup<'a>> {
    let mut groups: Vec<CompanyGroup<'a>> = Vec::new();
    for &summary in cells.iter().filter(|it| stays(it.cell.event)) {
        let company = Company::of(&summary.cell);
        match groups.iter_mut().find(|group| group.company == company) {
            Some(group) => group.cells.push(summary),
            None => groups.push(CompanyGroup { company, cells: vec![summary] }),
        }
    }
    for &summary in cells.iter().filter(|it| it.cell.event.is_migration()) {
        let (event, own) = (summary.cell.event, Company::of(&summary.cell));
        let same =
            |it: &Company| it.preempted_by == own.preempted_by && it.polluter == own.polluter;
        match groups.iter_mut().find(|group| same(&group.company) && group.company.leads(event)) {
            Some(group) => group.cells.push(summary),
            None => groups.push(CompanyGroup { company: own, cells: vec![summary] }),
        }
    }
    for group in &mut groups {
        group.cells.sort_by_key(|it| Event::ALL.iter().position(|event| *event == it.cell.event));
    }
    groups.sort_by_key(|group| !group.compares());
    groups
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

#[cfg(test)]
mod tests {
    use super::*;

    fn company(
        preempted_by: Absence,
        polluter: Option<&str>,
        pair_class: Option<Event>,
    ) -> Company {
        Company { preempted_by, polluter: polluter.map(str::to_owned), pair_class }
    }

    #[test]
    fn each_company_has_its_clause_with_the_distance_of_its_neighbour() {
        let told = |by, polluter| company(by, polluter, None).to_string();
        assert_eq!(Company::nothing().to_string(), "nothing ran meanwhile");
        assert_eq!(told(Absence::Nothing, Some("x")), "nothing ran meanwhile");
        assert_eq!(told(Absence::Preemptor, None), "preempted meanwhile");
        assert_eq!(told(Absence::Preemptor, Some("x")), "a preemptor walked x meanwhile");
        assert_eq!(told(Absence::Load, None), "the load ran meanwhile");
        assert_eq!(
            company(Absence::Load, Some("x"), Some(Event::L3Migration)).to_string(),
            "polluters walked x meanwhile, the neighbour at l3_migration distance"
        );
        // Without a size that is known the clause is the whole one.
        assert_eq!(company(Absence::Load, Some("x"), None).brief(), "polluters walked x meanwhile");
        assert_eq!(company(Absence::Preemptor, None, None).brief(), "preempted meanwhile");
    }

    #[test]
    fn a_neighbour_is_led_to_by_its_own_class_and_one_of_no_class_by_all() {
        let of = |class| company(Absence::Load, None, class);
        assert!(of(None).leads(Event::L2Migration) && of(None).leads(Event::MemoryMigration));
        assert!(of(Some(Event::L3Migration)).leads(Event::L3Migration));
        assert!(!of(Some(Event::L3Migration)).leads(Event::L2Migration));
    }

    #[test]
    fn only_where_nothing_ran_an_idle_leave_is_a_stay() {
        assert_eq!(Company::nothing().stays(), [Event::Preemption, Event::IdleLeave]);
        for by in [Absence::Preemptor, Absence::Load] {
            assert_eq!(company(by, None, None).stays(), [Event::Preemption]);
        }
        let staying: Vec<Event> = Event::ALL.iter().copied().filter(|&it| stays(it)).collect();
        assert_eq!(staying.len(), 2);
        assert!(!staying.iter().any(|it| it.is_migration()));
    }
}
