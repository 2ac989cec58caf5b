// SPDX-License-Identifier: MIT OR Apache-2.0
//! Counts in the kernel, for some processes, which threads wake each other, their futex calls, and their completed
//! system calls.
//!
//! A BPF program runs at `sched_waking`. If both threads belong to followed processes, the program counts the pair. A
//! thread that is woken in an interrupt (of a device or timer) is counted under waker 0, because the interrupted
//! thread did not cause the wake-up. Network packets within this host are delivered by the sending thread, so they
//! usually name the correct waker. Every wake-up on the machine costs one look-up, and a counted wake-up two more. So
//! wake-ups are counted only until the graph is known, and from time to time after that
//! ([`count_wakes`](WakeGraph::count_wakes)).
//!
//! The program does not see sharing without wake-ups: spin locks, locks without a waiter, and data that threads read
//! and write without waiting.
//!
//! Futex calls are counted by word and thread at the entry of every system call on the machine, and completed calls
//! at every exit. Because of this cost both are counted only for some time ([`count_locks`](WakeGraph::count_locks),
//! [`count_calls`](WakeGraph::count_calls)).

use std::collections::HashSet;
use std::io;
use std::sync::atomic::Ordering;
use std::sync::{Mutex, MutexGuard, PoisonError};

use corehop_plan::host::Contact;
use corehop_plan::host::locks::WordUse;

use super::object::{Attachment, BpfTable, Object};
use super::{ArrayMapping, BpfError, configured_cpus, kernel_types};

/// The compiled programs of `bpf/sharing.bpf.c`.
const OBJECT: &[u8] = aya::include_bytes_aligned!("../../bpf/sharing.bpf.o");

/// System call numbers must be below this limit.
const NUMBERS: u32 = 512;
/// The map value of a process that is counted, from `bpf/processes.h`.
const COUNTED: u32 = 2;
/// The number of words in a CPU's count of calls.
const LINE: usize = 8;

/// The running counts of wake-ups between threads. Dropping the value stops the counting.
#[derive(Debug)]
pub struct WakeGraph {
    object: Mutex<Object>,
    processes: BpfTable<u32, u32>,
    pairs: BpfTable<[u32; 2], u64>,
    /// The numbers of futex waits and futex wakes, keyed by address and by thread ID (upper half) with process ID
    /// (lower half).
    words: BpfTable<[u64; 2], [u64; 2]>,
    lost: ArrayMapping,
    handlers: ArrayMapping,
    wishes: ArrayMapping,
    calls: ArrayMapping,
    cpus: usize,
}

/// The programs that count wake-ups. The programs for the ends of handlers come first, so that corehop misses no end of
/// a handler whose begin it saw.
const WAKES: [(&str, &str); 7] = [
    ("hop_device_end", "irq_handler_exit"),
    ("hop_timer_end", "hrtimer_expire_exit"),
    ("hop_wheel_end", "timer_expire_exit"),
    ("hop_device", "irq_handler_entry"),
    ("hop_timer", "hrtimer_expire_entry"),
    ("hop_wheel", "timer_expire_entry"),
    ("hop_waking", "sched_waking"),
];

/// Wake-ups are counted until this value is dropped.
#[derive(Debug)]
pub struct WakeUpAttachment {
    _programs: Vec<Attachment>,
}

/// The numbers of system calls that ended while corehop counted calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Calls {
    /// All system calls of the host.
    pub ended: u64,
    /// The selected system calls of followed processes that did not fail.
    pub finished: u64,
}

impl WakeGraph {
    /// Loads the programs; no process is followed yet.
    ///
    /// # Errors
    /// Fails if the caller lacks a privilege, or the kernel lacks a feature that the programs need.
    pub fn open() -> Result<Self, BpfError> {
        let types = kernel_types()?;
        let mut object = Object::load(OBJECT, types, &[], &[])?;
        let (lost, calls) = (object.show("corehop_lost")?, object.show("corehop_calls")?);
        let wishes = object.show("corehop_wishes")?;
        let processes = object.take_table("corehop_processes")?;
        let pairs = object.take_table("corehop_wakes")?;
        let words = object.take_table("corehop_words")?;
        for (program, tracepoint) in
            [("hop_process", "sched_process_fork"), ("hop_exit", "sched_process_exit")]
        {
            object.attach(program, tracepoint, types)?;
        }
        let handlers = object.show("corehop_handlers")?;
        let cpus = configured_cpus().min(calls.len() / LINE);
        let object = Mutex::new(object);
        Ok(Self { object, processes, pairs, words, lost, handlers, wishes, calls, cpus })
    }

    /// Counts wake-ups between the threads of followed processes until the returned value is dropped.
    ///
    /// # Errors
    /// Fails if the kernel lacks a tracepoint.
    pub fn count_wakes(&self) -> Result<WakeUpAttachment, BpfError> {
        let (types, mut object) = (kernel_types()?, self.object());
        // A handler that ran when counting ended last has ended since.
        for cpu in 0..configured_cpus().min(self.handlers.len()) {
            self.handlers.word(cpu).store(0, Ordering::Relaxed);
        }
        let attach = |(program, tracepoint)| object.attach_for_now(program, tracepoint, types);
        Ok(WakeUpAttachment { _programs: WAKES.into_iter().map(attach).collect::<Result<_, _>>()? })
    }

    /// Follows a process, and the processes that it starts from now on.
    ///
    /// # Errors
    /// Fails with the kernel's error if more than 16,384 processes are followed.
    pub fn follow(&self, process: u32) -> io::Result<()> {
        match self.processes.get(process) {
            Some(_) => Ok(()),
            None => self.processes.put(process, COUNTED),
        }
    }

    /// Stops following a process. Processes that it has started are still followed.
    pub fn leave(&self, process: u32) {
        self.processes.remove(process);
    }

    /// Returns the followed processes.
    ///
    /// # Errors
    /// Fails with the kernel's error if the map can no longer be read.
    pub fn processes(&self) -> io::Result<Vec<u32>> {
        Ok(self.processes.all()?.into_iter().map(|(process, _)| process).collect())
    }

    /// Selects the system calls, by number, that count as completed.
    ///
    /// # Panics
    /// The call panics if a number is 512 or more.
    pub fn wish_calls(&self, numbers: &[u32]) {
        for &number in numbers {
            assert!(number < NUMBERS, "the system call {number}");
            self.wishes.word(number as usize).store(1, Ordering::Relaxed);
        }
    }

    /// Counts system calls until the returned attachment is dropped.
    ///
    /// # Errors
    /// Fails if the kernel lacks the tracepoint.
    pub fn count_calls(&self) -> Result<Attachment, BpfError> {
        self.object().attach_for_now("hop_finished", "sys_exit", kernel_types()?)
    }

    fn object(&self) -> MutexGuard<'_, Object> {
        self.object.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts the futex calls of followed processes until the returned attachment is dropped.
    ///
    /// # Errors
    /// Fails if the kernel lacks the tracepoint.
    pub fn count_locks(&self) -> Result<Attachment, BpfError> {
        self.object().attach_for_now("hop_futex", "sys_enter", kernel_types()?)
    }

    /// Returns the futex calls since the last call. Do not call this function while futex calls are counted, because
    /// some calls might be missed.
    ///
    /// # Errors
    /// Fails with the kernel's error if the counts can no longer be read.
    pub fn take_words(&self) -> io::Result<Vec<WordUse>> {
        let all = self.words.all()?;
        for (word, _) in &all {
            self.words.remove(*word);
        }
        let uses = |([address, by], [waits, wakes]): ([u64; 2], [u64; 2])| {
            // In the order of the program's: the process first.
            let (process, tid) = (by as u32, (by >> 32) as u32);
            WordUse { process, address, tid, waits, wakes }
        };
        Ok(all.into_iter().map(uses).collect())
    }

    /// Returns the numbers of system calls that ended while calls were counted, so far.
    pub fn calls(&self) -> Calls {
        let mut all = Calls::default();
        for cpu in 0..self.cpus {
            let [ended, finished] = self.calls.words(LINE * cpu);
            all.ended += ended;
            all.finished += finished;
        }
        all
    }

    /// Returns the wake-ups so far, by pair of threads. Wake-ups in interrupts, and wake-ups while corehop did not
    /// count, are not included.
    ///
    /// # Errors
    /// Fails with the kernel's error if the counts can no longer be read.
    pub fn wakes(&self) -> io::Result<Vec<Contact>> {
        let all = self.pairs.all()?.into_iter().filter(|([waker, _], _)| *waker != 0);
        Ok(all.map(|([waker, woken], count)| Contact { waker, woken, count }).collect())
    }

    /// Returns the number of wake-ups in interrupts that happened while wake-ups were counted, so far. Wake-ups in
    /// interrupts that the kernel does not show are not included.
    pub fn from_interrupts(&self) -> u64 {
        let all = self.pairs.all().unwrap_or_default().into_iter();
        all.filter(|([waker, _], _)| *waker == 0).map(|(_, count)| count).sum()
    }

    /// Returns the number of events that were not counted because there were too many pairs or words.
    pub fn lost(&self) -> u64 {
        self.lost.word(0).load(Ordering::Relaxed)
    }

    /// Removes the pairs of threads that have ended, because new threads may reuse their IDs.
    pub fn forget(&self, threads: &HashSet<u32>) {
        for (pair, _) in self.pairs.all().unwrap_or_default() {
            if pair.iter().any(|it| threads.contains(it)) {
                self.pairs.remove(pair);
            }
        }
    }
}

#[cfg(test)]
#[expect(clippy::print_stderr, reason = "a skip says why")]
mod tests {
    use super::*;
    use std::process::{Child, Command, Stdio};

    fn open() -> Option<WakeGraph> {
        match WakeGraph::open() {
            Ok(graph) => Some(graph),
            Err(error) => {
                eprintln!("skipped: {error}");
                None
            }
        }
    }

    /// Starts two processes that pass a byte back and forth 200 times, after they read a line on stdin. A 0 on stdout
    /// shows that the processes have started.
    fn pair() -> Child {
        // The first twenty times each waits a little, so that the other one sleeps whichever the kernel prefers.
        let script = "import os, sys, time\n\
            a, b = os.pipe(), os.pipe()\n\
            print(0, flush=True)\n\
            sys.stdin.readline()\n\
            child = os.fork()\n\
            for at in range(200):\n    \
                if not child: os.read(a[0], 1)\n    \
                if at < 20: time.sleep(0.002)\n    \
                os.write((a if child else b)[1], b'x')\n    \
                if child: os.read(b[0], 1)\n\
            if child: os.wait(); print(child, flush=True); sys.stdin.readline()\n";
        let mut command = Command::new("python3");
        command.args(["-c", script]).stdin(Stdio::piped()).stdout(Stdio::piped());
        command.spawn().unwrap()
    }

    fn line_to(child: &mut Child) {
        use std::io::Write as _;
        child.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
    }

    fn line_from(child: &mut Child) -> u32 {
        use std::io::{BufRead as _, BufReader};
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        line.trim().parse().unwrap()
    }

    #[test]
    fn two_processes_that_wake_each_other_are_counted_both_ways_and_others_are_not() {
        let Some(graph) = open() else { return };
        graph.wish_calls(&[libc::SYS_write as u32]);
        let _counting = (graph.count_calls().unwrap(), graph.count_wakes().unwrap());
        let (mut followed, mut other) = (pair(), pair());
        graph.follow(followed.id()).unwrap();
        assert_eq!((line_from(&mut followed), line_from(&mut other)), (0, 0));
        // Python's start may write, too.
        let begin = graph.calls();
        line_to(&mut followed);
        line_to(&mut other);
        let (child, stranger) = (line_from(&mut followed), line_from(&mut other));
        let wakes = graph.wakes().unwrap();
        let count = |waker, woken| {
            let found = wakes.iter().find(|it| it.waker == waker && it.woken == woken);
            found.map_or(0, |it| it.count)
        };
        // A reader that finds the byte there was not asleep.
        let (there, back) = (count(followed.id(), child), count(child, followed.id()));
        let all = (1..=250).contains(&there) && (1..=250).contains(&back) && there + back > 40;
        assert!(all, "{there} {back}");
        assert!(!wakes.iter().any(|it| [it.waker, it.woken].contains(&stranger)), "{wakes:?}");
        // Both write 200 bytes, and a line at the end.
        let calls = graph.calls();
        let finished = calls.finished - begin.finished;
        assert!((400..=410).contains(&finished), "{finished}");
        assert!(calls.ended - begin.ended > 2 * finished, "{calls:?}");
        graph.forget(&HashSet::from([child]));
        assert!(!graph.wakes().unwrap().iter().any(|it| [it.waker, it.woken].contains(&child)));
        for child in [&mut followed, &mut other] {
            line_to(child);
            child.wait().unwrap();
        }
        assert_eq!(graph.lost(), 0);
    }

    #[test]
    fn a_sleeper_is_woken_by_an_interrupt_and_by_no_thread() {
        let Some(graph) = open() else { return };
        let script = "for i in 1 2 3 4 5 6 7 8; do sleep 0.01; done";
        let mut child = Command::new("sh")
            .args(["-c", &format!("read x; {script}")])
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        graph.follow(child.id()).unwrap();
        let counted = graph.count_wakes().unwrap();
        line_to(&mut child);
        let before = graph.from_interrupts();
        child.wait().unwrap();
        assert!(graph.from_interrupts() >= before + 8);
        drop(counted);
        // Not counted, wake-ups cost nothing and leave the counts as they are.
        let counts = (graph.from_interrupts(), graph.wakes().unwrap());
        graph.follow(std::process::id()).unwrap();
        std::thread::sleep(std::time::Duration::from_millis(5));
        assert_eq!((graph.from_interrupts(), graph.wakes().unwrap()), counts);
    }
}
