// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests whether EDF meets all deadlines on each CPU for tasks whose CPUs or pieces the set states.

use super::split::{CpuLoad, Subtask};
use crate::system::System;
use corehop_plan::workload::placement::TaskPlacement;
use corehop_plan::workload::task::{Task, Time};

/// Returns the pieces if each CPU meets all deadlines of its pieces. Each piece but the first reloads after its
/// migration, and a stated budget must leave room for that reload.
///
/// # Errors
/// Returns the reason why the deadlines are not known to be met.
pub fn check(system: System<'_>) -> Result<Vec<Subtask>, String> {
    let places = system
        .placement
        .ok_or("the set does not state the CPUs of its tasks: add `cpus`, or `pieces`")?;
    let mut pieces = Vec::new();
    for (at, place) in places.iter().enumerate() {
        pieces.extend(of_task(system, at, place)?);
    }
    for cpu in 0..system.cpus as usize {
        let mut load = CpuLoad::default();
        for piece in pieces.iter().filter(|piece| piece.cpu == cpu) {
            let task = system.tasks[piece.task];
            let task = Task { wcet: piece.budget, deadline: piece.deadline, ..task };
            load.push(task, system.bill.map_or(Time::ZERO, |bill| bill.resumed[piece.task]));
        }
        if !load.meets(system.bill) {
            return Err(format!("CPU {cpu} may miss deadlines of its tasks"));
        }
        let here = pieces.iter_mut().filter(|piece| piece.cpu == cpu);
        here.zip(load.paid(system.bill)).for_each(|(piece, paid)| piece.paid = paid);
    }
    Ok(pieces)
}

/// Returns the tasks of each CPU if the set gives each task one CPU.
///
/// # Errors
/// Returns the task that has no CPU, or more than one.
pub fn bins(system: System<'_>) -> Result<Vec<Vec<usize>>, String> {
    let mut bins = vec![Vec::new(); system.cpus as usize];
    for at in 0..system.tasks.len() {
        let cpu = match system.placement.map(|places| &places[at]) {
            Some(TaskPlacement::Cpus(cpus)) if cpus.len() == 1 => cpus[0],
            None if system.cpus == 1 => 0,
            _ => return Err(format!("the set does not assign one CPU to task {at} (`cpus`)")),
        };
        bins[cpu].push(at);
    }
    Ok(bins)
}

/// Converts a task to pieces.
fn of_task(system: System<'_>, at: usize, place: &TaskPlacement) -> Result<Vec<Subtask>, String> {
    let task = system.tasks[at];
    let moved = system.bill.map_or(Time::ZERO, |bill| bill.moved[at]);
    match place {
        TaskPlacement::Cpus(cpus) => match cpus.as_slice() {
            &[cpu] => {
                let (wcet, deadline) = (task.wcet, task.deadline);
                Ok(vec![Subtask { task: at, cpu, wcet, budget: wcet, paid: Time::ZERO, deadline }])
            }
            _ => Err(format!("task {at} may run on {} CPUs, but the test needs one CPU for each task", cpus.len())),
        },
        TaskPlacement::Shares(_) => Err(format!("task {at} has shares of CPUs: use sp-edf-os")),
        TaskPlacement::Pieces(pieces) if pieces.iter().map(|it| it.deadline).sum::<Time>() > task.period => {
            let due: Time = pieces.iter().map(|it| it.deadline).sum();
            Err(format!(
                "task {at}: the deadlines of its pieces add up to {due}, more than its period of {}, so its next job would begin before the last piece is due",
                task.period
            ))
        }
        TaskPlacement::Pieces(pieces) => pieces
            .iter()
            .enumerate()
            .map(|(nth, piece)| {
                let needs = piece.wcet + if nth == 0 { Time::ZERO } else { moved };
                let stated = piece.budget > piece.wcet;
                if stated && needs > piece.budget {
                    return Err(format!(
                        "task {at}, piece {nth}: the budget is {}, but the piece needs {needs} with its migration",
                        piece.budget
                    ));
                }
                let budget = needs.max(piece.budget);
                let (wcet, deadline) = (piece.wcet, piece.deadline);
                Ok(Subtask { task: at, cpu: piece.cpu, wcet, budget, paid: Time::ZERO, deadline })
            })
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bill::Bill;
    use corehop_fixtures::task_sets::implicit;
    use corehop_plan::workload::placement::PlacedPiece;

    #[test]
    fn given_budgets_are_checked_by_hand() {
        // Two of 60 in 100, and 55 as 30 and 25: with delays of 10 that make 40 and, with a move of 5, 40.
        let set = implicit(2, &[(60, 100), (60, 100), (55, 100)]);
        let of = |cpu, wcet, deadline| {
            let [wcet, deadline] = [wcet, deadline].map(Time::new);
            PlacedPiece { cpu, wcet, budget: wcet, deadline }
        };
        let places = |first: u64| {
            let pieces = vec![of(0, 30, first), of(1, 25, 100 - first)];
            vec![
                TaskPlacement::Cpus(vec![0]),
                TaskPlacement::Cpus(vec![1]),
                TaskPlacement::Pieces(pieces),
            ]
        };
        let bill = Bill {
            resumed: vec![Time::new(10), Time::new(10), Time::ZERO],
            moved: vec![Time::ZERO, Time::ZERO, Time::new(5)],
            overheads: None,
            own: false,
        };
        let ask = |places: &[TaskPlacement], bill: Option<&Bill>| {
            check(System { placement: Some(places), bill, ..System::of(&set) })
        };
        assert_eq!(ask(&places(40), Some(&bill)).unwrap()[3].budget, Time::new(30));
        assert!(ask(&places(30), None).is_ok());
        // A piece that pays 10 needs more than 30 within 30.
        assert!(ask(&places(30), Some(&bill)).unwrap_err().contains("CPU 0"));
        assert!(
            ask(
                &[
                    TaskPlacement::Cpus(vec![0, 1]),
                    TaskPlacement::Cpus(vec![1]),
                    TaskPlacement::Cpus(vec![1])
                ],
                None
            )
            .is_err()
        );
    }
}
