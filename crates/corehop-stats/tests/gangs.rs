// SPDX-License-Identifier: MIT OR Apache-2.0
//! Gangs on the simulated machine: times by hand, twins that do not share, repeatability.

use corehop_plan::experiment::{
    Body, BodyError, Experiment, GangMove, Plan, PlanError, SharedData,
};
use corehop_plan::machine::{Machine, MachineError, Records, RunEnd, SinkFn, rows_of};
use corehop_plan::platform::Platform;
use corehop_plan::samples::{Batch, GangRecord};
use corehop_plan::units::{Cpu, CpuList};
use corehop_plan::workload::gang::{Channel, GangProgram, Placing, Sharing};
use corehop_sim::SimMachine;
use corehop_stats::gangs::{SharingSummary, Sharings};

fn e5520() -> Platform {
    let mut platform = Platform::named("xeon_e5520").unwrap().unwrap();
    platform.tlbs.clear();
    platform
}

fn plan(program: GangProgram, rounds: u64) -> Plan {
    let experiment = SharedData {
        programs: vec![program],
        sharings: Sharing::ALL.to_vec(),
        placings: vec![Placing::Shared, Placing::Separate],
        threads: 2,
        rounds: Some(rounds),
        steps: None,
        samples: 2,
        replicates: 1,
        cpus: CpuList::default(),
    };
    experiment.plan(&e5520(), 3).unwrap()
}

fn run(plan: &Plan) -> Vec<GangRecord> {
    let mut records = Records::default();
    let mut machine = SimMachine::new(e5520()).unwrap();
    assert_eq!(machine.run(plan, &mut records).unwrap(), RunEnd::Complete);
    records.gangs
}

/// The summaries of gangs of each sharing: write, read, none.
fn summaries(program: GangProgram, rounds: u64) -> [SharingSummary; 3] {
    let plan = plan(program, rounds);
    let rows = rows_of(&mut SimMachine::new(e5520()).unwrap(), &plan).unwrap();
    let mut sharings = Sharings::default();
    sharings.take(&rows.shared_data);
    sharings.finish().try_into().unwrap()
}

const SWAP: GangProgram = GangProgram::Swap { items: 1_000, fixed_low_bits: false };

#[test]
fn lines_that_are_handed_over_take_what_a_line_from_the_other_takes_each() {
    let exchange =
        GangProgram::Exchange { items: 50, instructions: 1_000, through: Channel::Memory };
    let [write, ..] = summaries(exchange, 100);
    // 1,000 cycles of 2.2 GHz, and 50 lines from the other's cache: of 81 cycles, or of 83 ns. While
    // one has its turn the other waits, so that a round takes two of them.
    let by_hand = |line: f64| 2.0 * (1_000.0 / 2.2 + 50.0 * line);
    let (shared, separate) = (write.shared.unwrap(), write.separate.unwrap());
    for (took, by_hand) in
        [(shared.round_ns, by_hand(81.0 / 2.2)), (separate.round_ns, by_hand(83.0))]
    {
        // The turn itself changes hands too: two or three lines more.
        assert!(took > by_hand && took < by_hand * 1.08, "{took} against {by_hand}");
    }
    assert_eq!(separate.smr, Some(1.0));
    assert!(shared.mpmi.unwrap().abs() < f64::EPSILON, "{:?}", shared.mpmi);
    let misses = separate.mpmi.unwrap() / 1e6 * 1_000.0;
    assert!((50.0..54.0).contains(&misses), "{misses} misses in a round");
}

#[test]
fn of_a_line_that_two_threads_write_at_random_the_other_was_last_in_half_of_the_cases() {
    let [write, ..] = summaries(SWAP, 6_000);
    // Four lines in a swap of 144 instructions: two misses, and a few where they meet.
    let misses = write.separate.unwrap().mpmi.unwrap() / 1e6 * 144.0;
    assert!((1.9..2.3).contains(&misses), "{misses}");
    assert_eq!(write.separate.unwrap().smr, Some(1.0));
    assert!(write.runtime_ratio.unwrap() < 0.8);
}

#[test]
fn fixed_low_bits_of_one_of_64_leave_a_fifth_of_the_misses_in_four_lines_to_share() {
    let swap = GangProgram::Swap { items: 64 * 25, fixed_low_bits: true };
    let [write, ..] = summaries(swap, 6_000);
    // The first is always in one of four lines, the other there in one case of four: each finds the
    // other's trace in one case of five.
    let misses = write.separate.unwrap().mpmi.unwrap() / 1e6 * 144.0;
    assert!((0.7..0.9).contains(&misses), "{misses}");
}

#[test]
fn twins_that_only_read_or_share_nothing_gain_nothing_and_miss_nothing() {
    for program in [
        SWAP,
        GangProgram::Exchange { items: 10, instructions: 100, through: Channel::Memory },
        GangProgram::LinearRegression { items: 4_000 },
    ] {
        let [write, read, none] = summaries(program, 6_000);
        assert_eq!([read.sharing, none.sharing], [Sharing::Read, Sharing::None]);
        for twin in [read, none] {
            let ratio = twin.runtime_ratio.unwrap();
            assert!((0.97..1.03).contains(&ratio), "{twin:?}");
            assert!(write.runtime_ratio.unwrap() < ratio - 0.05, "{write:?}");
        }
    }
}

#[test]
fn the_same_seed_gives_the_same_records_whatever_runs_beside_them() {
    let whole = plan(SWAP, 2_000);
    let records = run(&whole);
    assert_eq!(records, run(&whole));
    let mut alone = whole;
    let Body::Gangs(gangs) = &mut alone.body else { unreachable!() };
    gangs.gangs.truncate(1);
    assert_eq!(records[..2], run(&alone));
    alone.seed += 1;
    assert_ne!(records[..2], run(&alone));
    assert_ne!(records[0].members, records[1].members, "runs draw for themselves");
}

#[test]
fn who_asks_for_the_end_gets_it_and_a_plan_that_does_not_fit_is_refused() {
    let plan = plan(SWAP, 100);
    let mut machine = SimMachine::new(e5520()).unwrap();
    let mut taken = 0;
    let mut one = SinkFn(|_: Batch<'_>| {
        taken += 1;
        Ok(false)
    });
    assert_eq!(machine.run(&plan, &mut one).unwrap(), RunEnd::Stopped);
    assert_eq!(taken, 1);
    let mut small = SimMachine::new(Platform::named("phenom_9550").unwrap().unwrap()).unwrap();
    let refused = small.run(&plan, &mut Records::default()).unwrap_err();
    assert!(
        matches!(refused, MachineError::Plan(PlanError::Body(BodyError::Gangs(_)))),
        "{refused}"
    );
}

/// The summaries of a swap by so many threads, each sharing: write, read, none.
fn placed(placings: Vec<Placing>, threads: usize) -> [SharingSummary; 3] {
    let experiment = SharedData {
        programs: vec![SWAP],
        sharings: Sharing::ALL.to_vec(),
        placings,
        threads,
        rounds: Some(3_000),
        steps: None,
        samples: 1,
        replicates: 1,
        cpus: CpuList::default(),
    };
    let plan = experiment.plan(&e5520(), 3).unwrap();
    let rows = rows_of(&mut SimMachine::new(e5520()).unwrap(), &plan).unwrap();
    let mut sharings = Sharings::default();
    sharings.take(&rows.shared_data);
    sharings.finish().try_into().unwrap()
}

#[test]
fn on_one_cpu_threads_take_as_long_as_their_work_together_and_miss_nothing() {
    let [write, read, none] = placed(Vec::new(), 2);
    for it in [&read, &none] {
        // Nothing of it is handed over, so that both placings cost the work of a thread, and one CPU that
        // of two.
        let (same, shared) = (it.same.unwrap().round_ns, it.shared.unwrap().round_ns);
        assert!((1.9..2.1).contains(&(same / shared)), "{same} against {shared}");
    }
    let (same, of_read) = (write.same.unwrap(), read.same.unwrap());
    assert_eq!((same.misses_a_round, same.smr), (Some(0.0), None));
    // What they write stays in their CPU's cache: the line of the other is not waited for.
    assert!(same.round_ns < of_read.round_ns * 1.1, "{same:?} {of_read:?}");
    assert!(write.separate.unwrap().smr == Some(1.0) && write.separate.unwrap().mpmi > same.mpmi);
}

#[test]
fn the_more_threads_write_the_more_of_their_lines_another_has_had() {
    let misses = |threads| {
        let [write, ..] = placed(vec![Placing::Shared, Placing::Separate], threads);
        write.separate.unwrap().misses_a_round.unwrap()
    };
    let [two, eight] = [2, 8].map(misses);
    // Two threads on two caches find every other line in the other cache. So do eight, four on each.
    assert!((0.8..1.2).contains(&(eight / two)), "{two} {eight}");
    let [write, ..] = placed(vec![Placing::Shared], 12);
    assert!(
        write.shared.unwrap().round_ns
            > 3.0 * placed(vec![Placing::Shared], 4)[1].shared.unwrap().round_ns * 0.9
    );
}

#[test]
fn messages_in_a_ring_of_four_go_round_in_turn() {
    let exchange = |placing| {
        let through = Channel::Socket;
        let experiment = SharedData {
            programs: vec![GangProgram::Exchange { items: 1, instructions: 0, through }],
            sharings: vec![Sharing::Write],
            placings: vec![placing],
            threads: 4,
            rounds: Some(50),
            steps: None,
            samples: 1,
            replicates: 1,
            cpus: CpuList::default(),
        };
        let plan = experiment.plan(&e5520(), 3).unwrap();
        let rows = rows_of(&mut SimMachine::new(e5520()).unwrap(), &plan).unwrap();
        assert_eq!(rows.shared_data.len(), 4);
        rows.shared_data.iter().map(|row| row.time_ns).fold(0.0, f64::max) / 50.0
    };
    // One thread at a time has its turn: 10,000 instructions and 66 lines, four times for a round.
    let hand_over = 10_000.0 / 2.2 + 66.0 * 81.0 / 2.2;
    let shared = exchange(Placing::Shared) / (4.0 * hand_over);
    assert!((1.0..1.1).contains(&shared), "{shared}");
    assert!(exchange(Placing::Same) < exchange(Placing::Separate));
}

/// The summaries of gangs of some threads: by sharing, and placings that are asked for.
fn run_of(
    program: GangProgram,
    placings: &[Placing],
    threads: usize,
    rounds: u64,
) -> Vec<SharingSummary> {
    let experiment = SharedData {
        programs: vec![program],
        sharings: Sharing::ALL.to_vec(),
        placings: placings.to_vec(),
        threads,
        rounds: Some(rounds),
        steps: None,
        samples: 1,
        replicates: 1,
        cpus: CpuList::default(),
    };
    let plan = experiment.plan(&e5520(), 3).unwrap();
    let rows = rows_of(&mut SimMachine::new(e5520()).unwrap(), &plan).unwrap();
    let mut sharings = Sharings::default();
    sharings.take(&rows.shared_data);
    sharings.finish()
}

#[test]
fn a_fork_and_join_takes_one_thread_as_long_as_its_tasks_and_two_half_as_long() {
    let program = GangProgram::ForkJoin { number: 14 };
    let placings = [Placing::Shared, Placing::Separate, Placing::Same];
    let [write, read, none]: [_; 3] = run_of(program, &placings, 2, 20).try_into().unwrap();
    let of = |side: Option<corehop_stats::gangs::GangOutcome>| side.unwrap().round_ns;
    // 1,219 tasks of 60 instructions. The rest is loads and locked instructions in the thread's own caches.
    let work = 1_219.0 * 60.0 / 2.2;
    for alone in [of(none.shared), of(none.separate), of(read.shared)] {
        assert!((1.0..2.0).contains(&(alone / work)), "{alone} against {work}");
    }
    // On one CPU two threads alone take turns; both together do the work of one.
    let alone = of(none.shared);
    assert!((1.9..2.1).contains(&(of(none.same) / alone)), "{none:?}");
    assert!((0.95..1.1).contains(&(of(write.same) / alone)), "{write:?} {alone}");
    assert!((0.5..0.75).contains(&(of(write.shared) / alone)), "{write:?} {alone}");
    // What is stolen comes from the other package.
    assert!(write.runtime_ratio.unwrap() < 0.97, "{write:?}");
    assert!(write.separate.unwrap().smr.unwrap() > 0.9);
    assert_eq!(none.separate.unwrap().misses_a_round, Some(0.0));
}

#[test]
fn more_threads_share_a_fork_and_join_while_there_are_tasks_enough() {
    let time = |threads| {
        let summaries =
            run_of(GangProgram::ForkJoin { number: 16 }, &[Placing::Shared], threads, 10);
        summaries[0].shared.unwrap().round_ns
    };
    let [two, four] = [2, 4].map(time);
    assert!((0.5..0.8).contains(&(four / two)), "{two} {four}");
    // Twelve on four cores take turns.
    assert!(time(12) > 0.8 * four);
}

#[test]
fn the_smaller_the_tree_the_more_of_it_is_taken_from_the_other_package() {
    let misses = |number| {
        let program = GangProgram::ForkJoin { number };
        run_of(program, &[Placing::Separate], 2, 40)[0].separate.unwrap().mpmi.unwrap()
    };
    let [small, large] = [8, 16].map(misses);
    assert!(small > 1.5 * large, "{small} {large}");
}

#[test]
fn threads_that_are_moved_together_in_the_middle_take_a_time_between_and_refill_one_cache() {
    let rounds = 4_000;
    let [moved, ..]: [_; 3] =
        run_of(SWAP, &[Placing::Shared, Placing::Separate, Placing::Moved], 2, rounds)
            .try_into()
            .unwrap();
    let moved: SharingSummary = moved;
    let (near, far, between) =
        (moved.shared.unwrap(), moved.separate.unwrap(), moved.moved.unwrap());
    assert!(near.round_ns < between.round_ns && between.round_ns < far.round_ns, "{moved:?}");
    let mean = f64::midpoint(near.round_ns, far.round_ns);
    assert!((0.9..1.1).contains(&(between.round_ns / mean)), "{moved:?}");
    // Half of the misses of those that stay apart, and each of 126 lines once more at most.
    let all = |misses: Option<f64>| misses.unwrap() * 2.0 * rounds as f64;
    let refill = all(between.misses_a_round) - all(far.misses_a_round) / 2.0;
    let most = 126.0 + 0.05 * all(far.misses_a_round);
    assert!((-most..most).contains(&refill), "{refill} of {}", all(far.misses_a_round));
    assert_eq!(near.misses_a_round, Some(0.0));
}

#[test]
fn rows_tell_where_a_thread_was_moved_to_and_one_that_joins_another_takes_turns_with_it() {
    let mut plan = plan(SWAP, 2_000);
    let Body::Gangs(gangs) = &mut plan.body else { unreachable!() };
    let mut gang = gangs.gangs[0].clone();
    gang.placing = Placing::Moved;
    gang.sharing = Sharing::None;
    let to = |after_rounds, cpu| GangMove { after_rounds, thread: 1, cpu: Cpu(cpu) };
    // To another package, and to the first thread's CPU.
    gang.moves = vec![to(1_000, 0), to(500, 5)];
    gangs.gangs = vec![gang];
    let rows = rows_of(&mut SimMachine::new(e5520()).unwrap(), &plan).unwrap().shared_data;
    let of = |member: usize| (rows[member].cpu, rows[member].moved_to, rows[member].time_ns);
    let ((first, stays, alone), (second, moved, turns)) = (of(0), of(1));
    assert_eq!([(first, stays), (second, moved)], [(0, None), (1, Some(0))]);
    // It waits until the slice of the other is over or its work is done.
    assert!(turns > 1.2 * alone, "{turns} {alone}");
    assert_eq!(rows[1].llc_misses.map(|it| it > 0), Some(true));
}
