// SPDX-License-Identifier: MIT OR Apache-2.0
//! A table with notes shows the scheduling overheads of a kernel.

use super::figure::FigureTable;
use super::table::{micros, plain};
use corehop_plan::experiment::Overheads;
use corehop_plan::samples::{ControlPageCost, KernelObservation, OverheadFacts};
use corehop_stats::overheads::OverheadSummary;

/// Writes the summaries of scheduling overheads as text, with notes below the table.
pub fn text(overheads: &[OverheadSummary], notes: &[String]) -> String {
    plain(&table(overheads)) + &notes.join("\n") + "\n"
}

/// Returns a table of the summaries of scheduling overheads.
pub fn table(overheads: &[OverheadSummary]) -> FigureTable {
    let columns = ["what", "column", "how", "tasks", "n", "median µs", "90 %", "99 %", "largest"];
    let mut table = FigureTable::new("Scheduling overheads of this kernel", &columns);
    let row = |it: &OverheadSummary| {
        let times = [it.p50_us, it.p90_us, it.p99_us, it.max_us].map(micros);
        let (column, how) = (it.column.to_owned(), it.vantage.to_string());
        let head = vec![it.what.clone(), column, how, it.tasks.to_string(), it.n.to_string()];
        [head, times.to_vec()].concat()
    };
    table.rows = overheads.iter().map(row).collect();
    table
}

/// Returns notes about a measurement of overheads: what is missing, the cost of the observation,
/// and the workload.
pub fn notes(facts: &OverheadFacts, plan: Option<(&Overheads, u64)>) -> Vec<String> {
    let missing = facts.missing.iter().map(|why| format!("not measured: {why}"));
    let observed = facts.recording.as_ref().map(observation);
    let workload = plan
        .filter(|_| facts.recording.is_some())
        .and_then(|(overheads, seed)| workload(overheads, seed));
    let control_page = facts.control_page.as_ref().map(control_page);
    let none = facts.no_control_page.as_ref();
    let none = none.map(|why| format!("the control page is not available: {why}"));
    missing.chain(observed).chain(workload).chain(control_page).chain(none).collect()
}

fn observation(it: &KernelObservation) -> String {
    let residual = it.residual_ns.map_or_else(
        || {
            "each kernel time includes the entry and exit of the BPF program, which were not measured"
                .to_owned()
        },
        |ns| format!("each kernel time includes the entry and exit of the BPF program, {ns:.0} ns"),
    );
    format!(
        "in the kernel: {} events, {} lost, {} without their other end; recording one takes {:.0} ns, which \
         is left out; {residual}; the clocks of two CPUs are at most {:.0} ns apart",
        it.events, it.lost, it.unmatched, it.noting_ns, it.clock_bound_ns
    )
}

fn workload(overheads: &Overheads, seed: u64) -> Option<String> {
    let tasks = overheads.tasks.as_ref()?;
    let longest = tasks.runs.iter().map(|run| run.duration.get()).max().unwrap_or(0);
    Some(format!(
        "the times in the kernel are from {} task sets under {}, {} s each, seed {seed}; the times of interrupts between CPUs are also from two threads",
        tasks.runs.len(),
        tasks.scheduler,
        longest as f64 / 1e9,
    ))
}

fn control_page(it: &ControlPageCost) -> String {
    let (unregistered, registered) = it.ratios();
    format!(
        "the control page, handing a byte over on one CPU: {:.0} ns a switch without it; {unregistered:.3} times \
         that for threads that are not registered, {registered:.3} times for registered ones",
        it.none_ns
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_notes_say_what_is_missing_and_what_the_observation_costs() {
        let facts = OverheadFacts {
            missing: vec!["ticks: no counters".to_owned()],
            recording: Some(KernelObservation {
                noting_ns: 12.0,
                residual_ns: None,
                clock_bound_ns: 30.0,
                events: 100,
                lost: 2,
                unmatched: 1,
            }),
            control_page: None,
            no_control_page: Some("no BPF".to_owned()),
        };
        let notes = notes(&facts, None);
        assert_eq!(notes.len(), 3, "{notes:?}");
        let parts = ["not measured: ticks: no counters", "100 events, 2 lost, 1 without", "no BPF"];
        assert!(notes.iter().zip(parts).all(|(note, part)| note.contains(part)), "{notes:?}");
    }
}
