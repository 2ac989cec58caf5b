// SPDX-License-Identifier: MIT OR Apache-2.0
//! The threads of processes with their CPU time and their CPUs, from `/proc`.

use std::collections::HashMap;

use corehop_plan::host::ActiveThread;
use corehop_plan::units::Cpu;

use corehop_system::proc::{ProcEntry, Schedstat};
use corehop_system::thread::affinity_of;

/// The state of a thread at the last look.
#[derive(Debug)]
struct ThreadSnapshot {
    pid: u32,
    name: String,
    cpu_ns: u64,
    waited_ns: u64,
    /// The CPU on which the thread ran last.
    cpu: Option<Cpu>,
    /// The number of the last look that found the thread.
    seen: u64,
    /// The number of the first look that found the thread.
    first: u64,
}

/// Threads that are read from `/proc` repeatedly.
#[derive(Debug)]
pub(crate) struct ThreadTable {
    /// The largest number of threads that are read.
    most: usize,
    known: HashMap<u32, ThreadSnapshot>,
    looks: u64,
    /// The number of threads left out at the last look.
    left_out: usize,
    told: bool,
}

/// The number of looks after which a name is not read again, because programs name their threads soon after start.
const NAMING: u64 = 20;

/// The largest number of threads that are read.
const MOST: usize = 10_000;

impl Default for ThreadTable {
    fn default() -> Self {
        Self::new(MOST)
    }
}

impl ThreadTable {
    fn new(most: usize) -> Self {
        Self { most, known: HashMap::new(), looks: 0, left_out: 0, told: false }
    }

    /// The threads of these processes, with the CPU time since the last look. A thread that is seen for the first
    /// time has no CPU time yet.
    pub(crate) fn look(&mut self, processes: &[u32]) -> Vec<ActiveThread> {
        self.looks += 1;
        self.left_out = 0;
        let mut all = Vec::new();
        for &pid in processes {
            let Ok(mut tids) = ProcEntry::process(pid).threads() else { continue };
            let room = self.most.saturating_sub(all.len());
            all.extend(tids.by_ref().filter_map(|tid| self.look_at(tid, pid)).take(room));
            self.left_out += tids.count();
        }
        self.known.retain(|_, it| it.seen == self.looks);
        all.sort_unstable_by_key(|it| it.tid);
        all
    }

    /// A message for the user, reported once.
    pub(crate) fn note(&mut self) -> Option<String> {
        if self.left_out == 0 || self.told {
            return None;
        }
        self.told = true;
        let (left_out, most) = (self.left_out, self.most);
        Some(format!(
            "corehop observes and moves at most {most} threads, and ignores {left_out} more: name fewer processes"
        ))
    }

    /// Whether the thread existed at the last look, and still belongs to the same process.
    pub(crate) fn has(&self, tid: u32) -> bool {
        self.known.get(&tid).is_some_and(|it| ProcEntry::thread(it.pid, tid).exists())
    }

    fn look_at(&mut self, tid: u32, pid: u32) -> Option<ActiveThread> {
        let task = ProcEntry::thread(pid, tid);
        let Schedstat { cpu_ns, waited_ns, .. } = task.schedstat()?;
        let allowed = affinity_of(tid.cast_signed()).ok()?;
        // The CPU time of a thread does not become less: a new one has its number.
        let known = self.known.get(&tid).filter(|it| it.cpu_ns <= cpu_ns);
        let (before, first) = known.map_or((cpu_ns, self.looks), |it| (it.cpu_ns, it.first));
        let waited = waited_ns.saturating_sub(known.map_or(waited_ns, |it| it.waited_ns));
        let named = known.filter(|it| it.cpu_ns == cpu_ns || self.looks > first + NAMING);
        let name = named.map(|it| it.name.clone()).or_else(|| task.name().ok())?;
        // One that has not run since is where it was: to look again would cost as much as all the rest.
        let cpu = match known {
            Some(it) if it.cpu_ns == cpu_ns => it.cpu,
            _ => task.stat().ok()?.cpu,
        };
        let seen = self.looks;
        let now = ThreadSnapshot { pid, name: name.clone(), cpu_ns, waited_ns, cpu, seen, first };
        self.known.insert(tid, now);
        let (busy_ns, waited_ns) = (cpu_ns - before, waited);
        Some(ActiveThread {
            tid,
            pid,
            name,
            busy_ns,
            waited_ns,
            allowed,
            cpu,
            ..ActiveThread::default()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_runs_has_the_cpu_that_it_is_bound_to() {
        let allowed = corehop_system::thread::affinity().unwrap();
        let last = allowed.iter().last().unwrap();
        let look = std::thread::spawn(move || {
            corehop_system::thread::set_affinity([last]).unwrap();
            let tid = corehop_system::thread::current_tid();
            let all = ThreadTable::default().look(&[std::process::id()]);
            all.into_iter().find(|it| it.tid == tid).unwrap()
        });
        assert_eq!(look.join().unwrap().cpu, Some(last));
    }

    #[test]
    fn the_cpu_time_since_the_last_look_is_told_and_threads_that_have_ended_are_forgotten() {
        let own = [std::process::id()];
        let (end, wait) = std::sync::mpsc::channel::<()>();
        let (tell, told) = std::sync::mpsc::channel();
        let worker = std::thread::Builder::new().name("spins".to_owned());
        let worker = worker.spawn(move || {
            tell.send(corehop_system::thread::current_tid()).unwrap();
            // As much CPU time as it takes, however busy the host is.
            let used = || crate::counters::software::thread_cpu_time().get();
            wait.recv().unwrap();
            let before = used();
            while used() - before < 20_000_000 {
                std::hint::spin_loop();
            }
            tell.send(0).unwrap();
            wait.recv().unwrap_err();
        });
        let (worker, tid) = (worker.unwrap(), told.recv().unwrap());
        let mut threads = ThreadTable::default();
        let look = |threads: &mut ThreadTable| {
            let all = threads.look(&own);
            assert!(all.is_sorted_by_key(|it| it.tid));
            all.into_iter().find(|it| it.tid == tid)
        };
        let first = look(&mut threads).unwrap();
        assert_eq!((first.busy_ns, first.waited_ns, first.pid), (0, 0, own[0]));
        end.send(()).unwrap();
        told.recv().unwrap();
        let second = look(&mut threads).unwrap();
        assert!((20_000_000..2_000_000_000).contains(&second.busy_ns), "{second:?}");
        assert_eq!((second.name.as_str(), threads.has(tid)), ("spins", true));
        let third = look(&mut threads).unwrap();
        assert!(third.busy_ns < second.busy_ns, "counted once: {third:?}");
        drop(end);
        worker.join().unwrap();
        // The kernel keeps the thread for a moment after its end.
        let mut tries = 0;
        while look(&mut threads).is_some() && tries < 200 {
            std::thread::sleep(std::time::Duration::from_millis(5));
            tries += 1;
        }
        assert!(!threads.has(tid) && !threads.known.contains_key(&tid));
    }

    #[test]
    fn threads_beyond_the_most_are_left_out_and_said_once() {
        let (end, wait) = std::sync::mpsc::channel::<()>();
        let sleeper = std::thread::spawn(move || wait.recv());
        let mut threads = ThreadTable::new(1);
        let own = [std::process::id()];
        assert_eq!(threads.look(&own).len(), 1);
        let note = threads.note().unwrap();
        assert!(note.contains("moves at most 1 threads, and ignores "));
        threads.look(&own);
        assert_eq!(threads.note(), None);
        drop(end);
        assert!(sleeper.join().unwrap().is_err());
    }
}
