// SPDX-License-Identifier: MIT OR Apache-2.0
//! Begins a replicate: everything that a process chooses at random when it starts is chosen again.
//!
//! The kernel first hands out page frames that were just returned. So the memory of the previous replicate is kept
//! until the new replicate has its own, and a ballast occupies the frames that polluters and preemptors have returned
//! meanwhile. If the kernel shows page frames, corehop counts how many frames are reused.

use corehop_plan::experiment::DrawStream;
use corehop_plan::machine::MachineError;
use corehop_plan::units::Bytes;
use corehop_plan::workload::{Load, Page, WorkingSet};
use serde_json::{Value, json};

use super::set::SetState;
use crate::memory::{Mapping, MemoryError, available_memory};
use crate::set_memory::SetMemory;

/// The largest size of the ballast, which is small compared with a machine's memory.
const MOST_BALLAST: u64 = 256 << 20;
const LEAST_BALLAST: u64 = 1 << 20;
/// The first random stream of a replicate, far from the streams of a run without replicates.
const STREAM: u64 = 1 << 48;

/// The seed for the random choices of a replicate; the plan's seed if there are no replicates.
pub(super) fn seed_of(seed: u64, replicate: Option<u32>) -> u64 {
    replicate.map_or(seed, |number| DrawStream::new(seed, STREAM + u64::from(number)).bits())
}

/// The random stream for the order of working set number `index`.
pub(super) fn order_of(index: usize, seed: u64) -> DrawStream {
    DrawStream::new(seed, 100 + index as u64)
}

/// A function that creates the memory of a working set.
type Make = fn(&WorkingSet, &mut DrawStream) -> Result<SetMemory, MemoryError>;

/// The retained memory, and the page frames seen so far.
#[derive(Debug)]
pub(super) struct Renewal {
    /// The function that creates new memory; a test uses a function that fails.
    make: Make,
    /// The working sets of the previous replicate, and a ballast; returned when the next replicate has its own
    /// memory.
    kept: Vec<SetMemory>,
    ballast: Option<Mapping>,
    replicates: u64,
    frames: u64,
    reused: u64,
    /// The reason why frames could not be inspected or retained.
    no_look: Option<&'static str>,
    short_of_memory: bool,
    /// Whether a job is the user's own, whose library may hold memory that corehop cannot renew.
    own_job: bool,
}

impl Default for Renewal {
    fn default() -> Self {
        Self {
            make: SetMemory::new,
            kept: Vec::new(),
            ballast: None,
            replicates: 0,
            frames: 0,
            reused: 0,
            no_look: None,
            short_of_memory: false,
            own_job: false,
        }
    }
}

impl Renewal {
    /// Gives every set new memory in the order of a seed; another seed determines the size of the ballast.
    ///
    /// # Errors
    /// Fails with [`MachineError::Failed`] if there is too little memory; this error keeps the samples that are already
    /// recorded.
    pub(super) fn begin(
        &mut self,
        sets: &mut [SetState],
        of: &[WorkingSet],
        [frames, order]: [u64; 2],
        others: Bytes,
    ) -> Result<(), MachineError> {
        self.replicates += 1;
        self.own_job |= of.iter().any(|set| set.workload.is_some());
        let total: u64 = of.iter().map(|set| set.wss.get()).sum();
        // Twice: while the new sets are made, the old ones are still there.
        let roomy = available_memory().get() / 4 > 2 * total + MOST_BALLAST;
        if !roomy {
            self.short_of_memory = true;
            (self.kept, self.ballast) = (Vec::new(), None);
        }
        let before = self.ballast.take();
        if roomy {
            let size = ballast_size(total + others.get(), frames);
            self.ballast = Mapping::new(size, Page::Base, None).ok();
        }
        let mut kept = Vec::new();
        for (index, (state, set)) in sets.iter_mut().zip(of).enumerate() {
            let mut draw = order_of(index, order);
            if roomy {
                let memory = (self.make)(set, &mut draw)
                    .map_err(|it| super::failed("taking fresh page frames", it))?;
                self.compare(&state.memory, &memory);
                kept.push(state.replace(set, memory));
            } else {
                state.renew_with(set, &mut draw)?;
            }
        }
        drop(before);
        self.kept = kept;
        Ok(())
    }

    fn compare(&mut self, before: &SetMemory, after: &SetMemory) {
        let (Some(mut old), Some(new)) = (before.frames(), after.frames()) else {
            self.no_look = Some("/proc/self/pagemap shows frames only with CAP_SYS_ADMIN");
            return;
        };
        old.sort_unstable();
        self.frames += new.len() as u64;
        self.reused += new.iter().filter(|frame| old.binary_search(frame).is_ok()).count() as u64;
    }

    /// Describes the renewal for the provenance.
    pub(super) fn describe(&self) -> Value {
        json!({
            "replicates": self.replicates,
            "frames": self.frames,
            "frames_of_the_replicate_before": (self.frames > 0).then_some(self.reused),
            "why_not_seen": self.no_look,
            "own_job": self.own_job.then_some(
                "the working set of the job has fresh page frames; memory that the library of the job allocates itself keeps its page frames",
            ),
            "why_not_fresh": self.short_of_memory.then_some(
                "too little memory to keep a replicate's frames while the next takes its own",
            ),
        })
    }
}

/// The size of a ballast that occupies frames that were just returned: one to three times their size.
fn ballast_size(given_back: u64, seed: u64) -> Bytes {
    let share = 1 + DrawStream::new(seed, 99).below(2 * given_back.max(1));
    let size = (given_back + share).clamp(LEAST_BALLAST, MOST_BALLAST);
    Bytes::new(size.next_multiple_of(4096))
}

/// The memory that preemptors and a load may have returned.
pub(super) fn memory_of(load: &Load, preemptors: Bytes, cpus: usize) -> Bytes {
    let polluter = match load {
        Load::Constructed { polluter, .. } => polluter.wss.get(),
        _ => 0,
    };
    Bytes::new((polluter + preemptors.get()) * cpus as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(kib: u64) -> WorkingSet {
        WorkingSet::list(Bytes::from_kib(kib), 0.5)
    }

    fn state(set: &WorkingSet) -> SetState {
        let memory = SetMemory::new(set, &mut DrawStream::new(1, 0)).unwrap();
        SetState::new(set, memory, 1).unwrap()
    }

    #[test]
    fn a_replicate_has_other_frames_and_another_order_than_the_two_before() {
        let sets = [set(256), set(1024)];
        let mut states: Vec<SetState> = sets.iter().map(state).collect();
        let mut renewal = Renewal::default();
        let mut seen: Vec<Vec<Option<Vec<u64>>>> = Vec::new();
        for replicate in 0..6 {
            let seed = seed_of(7, Some(replicate));
            renewal.begin(&mut states, &sets, [seed; 2], Bytes::from_mib(4)).unwrap();
            seen.push(states.iter().map(|state| state.memory.frames()).collect());
        }
        let told = renewal.describe();
        assert_eq!(told["replicates"], 6);
        let Some(reused) = told["frames_of_the_replicate_before"].as_u64() else {
            #[expect(clippy::print_stderr, reason = "a skip that is not told is none")]
            {
                eprintln!("skipped: frames are not shown here ({})", told["why_not_seen"]);
            }
            return;
        };
        assert_eq!(reused, 0, "{told}");
        // Not those of the one before the last either, but for a few.
        let (old, new) = (seen[3][1].clone().unwrap(), seen[5][1].clone().unwrap());
        let again = new.iter().filter(|frame| old.contains(frame)).count();
        assert!(again * 4 < new.len(), "{again} of {}", new.len());
    }

    #[test]
    fn another_order_keeps_the_frames_and_fresh_frames_can_keep_the_order() {
        let sets = [set(256)];
        let mut states = [state(&sets[0])];
        // The order as offsets into the memory, wherever that is.
        let order = |state: &SetState| -> Vec<u64> {
            let (base, _) = state.memory.raw();
            let first = state.memory.linked().start;
            let next = |&at: &u64| {
                // SAFETY: every element of the list holds the address of the next.
                Some(unsafe { (at as *const u64).read_volatile() }).filter(|&it| it != first)
            };
            std::iter::successors(Some(first), next).map(|at| at - base).collect()
        };
        let mut renewal = Renewal::default();
        renewal.begin(&mut states, &sets, [1, 1], Bytes::default()).unwrap();
        let (frames, before) = (states[0].memory.frames(), order(&states[0]));
        states[0].reorder(&sets[0], &mut order_of(0, 2)).unwrap();
        assert_eq!(states[0].memory.frames(), frames);
        let reordered = order(&states[0]);
        assert_ne!(reordered, before);
        renewal.begin(&mut states, &sets, [2, 2], Bytes::default()).unwrap();
        assert_eq!(order(&states[0]), reordered);
        if let Some(fresh) = states[0].memory.frames() {
            assert_ne!(Some(fresh), frames);
        }
    }

    #[test]
    fn without_memory_for_fresh_frames_a_run_fails_with_what_it_has_and_says_so() {
        let refuse = |_: &WorkingSet, _: &mut DrawStream| {
            let error = std::io::Error::from_raw_os_error(libc::ENOMEM);
            Err(MemoryError::Refused { what: "mapping memory", error })
        };
        let sets = [set(64)];
        let mut states: Vec<SetState> = sets.iter().map(state).collect();
        let mut renewal = Renewal { make: refuse, ..Renewal::default() };
        let begun = renewal.begin(&mut states, &sets, [1; 2], Bytes::new(0));
        if renewal.short_of_memory {
            #[expect(clippy::print_stderr, reason = "a skip that is not told is none")]
            {
                eprintln!("skipped: this machine has too little memory to keep frames back");
            }
            return;
        }
        let error = begun.unwrap_err();
        assert!(matches!(error, MachineError::Failed { .. }), "{error:?}");
        let said = error.to_string();
        assert!(said.contains("taking fresh page frames failed: mapping memory"), "{said}");
        assert!(said.contains("the data recorded so far is kept"), "{said}");
    }

    #[test]
    fn of_a_job_of_the_users_own_it_is_told_what_a_replicate_cannot_renew() {
        let own = WorkingSet { workload: Some("job.so:run".to_owned()), ..set(64) };
        let mut states = [state(&set(64))];
        let mut renewal = Renewal::default();
        assert!(renewal.describe()["own_job"].is_null());
        renewal.begin(&mut states, &[own], [1; 2], Bytes::new(0)).unwrap();
        let told = renewal.describe();
        let said = told["own_job"].as_str().unwrap();
        assert!(said.contains("fresh") && said.contains("library"), "{said}");
    }

    #[test]
    fn the_seed_of_a_replicate_is_its_own_and_without_one_that_of_the_plan() {
        assert_eq!(seed_of(5, None), 5);
        assert_ne!(seed_of(5, Some(0)), seed_of(5, Some(1)));
        assert_eq!(seed_of(5, Some(3)), seed_of(5, Some(3)));
    }

    #[test]
    fn a_ballast_is_at_least_what_was_given_back_and_bounded() {
        for seed in 0..50 {
            let size = ballast_size(8 << 20, seed).get();
            assert!((8 << 20..=24 << 20).contains(&size), "{size}");
            assert_eq!(ballast_size(1 << 40, seed).get(), MOST_BALLAST);
        }
    }
}
