// SPDX-License-Identifier: MIT OR Apache-2.0
//! The sources of evidence; each adds its observations to a window.
//!
//! A source that the host does not offer is disabled with the reason, and so is a source that fails later. Placing
//! continues with the other sources. To add a source, implement [`EvidenceSource`] and open the source in [`open`].

use std::process::{Child, Command};
use std::sync::Arc;
use std::{fmt, io};

use corehop_plan::host::{Activity, Evidence};

use super::PlacingError;
use super::counted::RecentCounters;
use super::locks::LockSampler;
use super::pages::PageSamplingState;
use super::wakes::Wakes;
use crate::bpf::BpfError;
use crate::bpf::sharing::WakeGraph;
use crate::counters::CounterError;
use crate::pages::PagesError;

/// A running source of evidence.
pub(super) trait EvidenceSource: fmt::Debug {
    /// The kind of evidence from this source.
    fn evidence(&self) -> Evidence;

    /// Starts the command, if the source must be present at the command's start.
    fn start(&mut self, _command: &mut Command) -> Option<io::Result<Child>> {
        None
    }

    /// Tells the source that the command was started; processes started from now on do not belong to the command.
    fn started(&mut self) {}

    /// Adds the observations since the last call. The window already contains its length and the threads.
    ///
    /// # Errors
    /// Fails with the reason why the source no longer works.
    fn take(&mut self, window: &mut Activity) -> Result<(), Off>;

    /// Prepares the next window, after a window with these threads. The time for the preparation is not part of the
    /// cost of a look.
    ///
    /// # Errors
    /// Fails with the errors of [`take`](Self::take).
    fn prepare(&mut self, _window: &Activity) -> Result<(), Off> {
        Ok(())
    }

    /// A message from the source for the user, reported once.
    fn note(&mut self) -> Option<String> {
        None
    }
}

/// The kernel's BPF programs, shared by several sources and the list of processes, or the reason why they do not run.
pub(crate) type Kernel = Result<Arc<WakeGraph>, Arc<BpfError>>;

/// The reason why a source is disabled.
#[derive(Debug, thiserror::Error)]
pub(super) enum Off {
    /// The kernel does not run the source's programs.
    #[error("{0}")]
    Kernel(Arc<BpfError>),
    /// The processor's counters are not available.
    #[error(transparent)]
    Counters(#[from] CounterError),
    /// The source failed while running.
    #[error("the source of evidence failed: {0}")]
    Lost(#[from] std::io::Error),
    /// Pages cannot be sampled, or can no longer be sampled.
    #[error(transparent)]
    Pages(#[from] PagesError),
    /// There is no command to start.
    #[error(
        "corehop can sample pages only of a program that it starts: give the program after `--`"
    )]
    NotStarted,
}

/// The sources of evidence that are in use.
#[derive(Debug)]
pub(super) struct Sources {
    all: Vec<Box<dyn EvidenceSource>>,
    /// The reasons of disabled sources that are not yet reported.
    notes: Vec<String>,
}

impl Sources {
    /// Opens the requested sources; wake-ups are counted in any case. Page sampling may cause at most `page_faults`
    /// faults per second to a thread.
    pub(super) fn open(asked: &[Evidence], page_faults: u32, kernel: &Kernel) -> Self {
        let (mut all, mut off) = (Vec::new(), Vec::<(String, String)>::new());
        for &evidence in Evidence::ALL {
            if evidence != Evidence::Wakes && !asked.contains(&evidence) {
                continue;
            }
            let why = match open(evidence, page_faults, kernel) {
                Ok(source) => {
                    all.push(source);
                    continue;
                }
                Err(why) => why.to_string(),
            };
            // Sources that lack the same are named together.
            match off.iter_mut().find(|(_, before)| *before == why) {
                Some((words, _)) => *words = format!("{words},{evidence}"),
                None => off.push((evidence.to_string(), why)),
            }
        }
        let note = |(words, why)| format!("--evidence {words} is off: {why}");
        Self { all, notes: off.into_iter().map(note).collect() }
    }

    /// Checks that at least one source runs.
    ///
    /// # Errors
    /// Fails with the reasons if all sources are disabled.
    pub(super) fn some(&mut self) -> Result<(), PlacingError> {
        if self.all.is_empty() {
            return Err(PlacingError::NoEvidence { reasons: std::mem::take(&mut self.notes) });
        }
        Ok(())
    }

    /// Starts the command with the source that must be present at its start.
    ///
    /// # Errors
    /// Fails with the errors of [`Command::spawn`].
    pub(super) fn spawn(&mut self, command: &mut Command) -> io::Result<Child> {
        let started = self.all.iter_mut().find_map(|it| it.start(command));
        started.unwrap_or_else(|| command.spawn())
    }

    /// Tells the sources that the command was started; processes started from now on do not belong to the command.
    pub(super) fn started(&mut self) {
        self.all.iter_mut().for_each(|it| it.started());
    }

    /// The kinds of evidence from the running sources.
    pub(super) fn words(&self) -> Vec<Evidence> {
        self.all.iter().map(|it| it.evidence()).collect()
    }

    /// Adds the observations of all sources. A source that fails is disabled from then on.
    pub(super) fn take(&mut self, window: &mut Activity) {
        self.each(|source| source.take(window));
    }

    /// Prepares all sources for the next window.
    pub(super) fn prepare(&mut self, window: &Activity) {
        self.each(|source| source.prepare(window));
    }

    fn each(&mut self, mut act: impl FnMut(&mut dyn EvidenceSource) -> Result<(), Off>) {
        let notes = &mut self.notes;
        self.all.retain_mut(|source| match act(source.as_mut()) {
            Ok(()) => {
                notes.extend(source.note());
                true
            }
            Err(why) => {
                notes.push(format!("--evidence {} is off from now on: {why}", source.evidence()));
                false
            }
        });
    }

    /// The reason why sources are disabled, reported once.
    pub(super) fn notes(&mut self) -> Vec<String> {
        std::mem::take(&mut self.notes)
    }
}

/// Opens one source of evidence.
fn open(
    evidence: Evidence,
    page_faults: u32,
    kernel: &Kernel,
) -> Result<Box<dyn EvidenceSource>, Off> {
    let graph = || kernel.clone().map_err(Off::Kernel);
    Ok(match evidence {
        Evidence::Wakes => {
            let begun = Wakes::begin(graph()?);
            Box::new(begun.map_err(|error| Off::Kernel(Arc::new(error)))?)
        }
        Evidence::Locks => {
            let begun = LockSampler::begin(graph()?);
            Box::new(begun.map_err(|error| Off::Kernel(Arc::new(error)))?)
        }
        Evidence::Counters => Box::new(RecentCounters::open()?),
        Evidence::Pages => Box::new(PageSamplingState::ready(page_faults)?),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A source that fails from its second window on.
    #[derive(Debug)]
    struct Brittle(u32);

    impl EvidenceSource for Brittle {
        fn evidence(&self) -> Evidence {
            Evidence::Locks
        }

        fn take(&mut self, window: &mut Activity) -> Result<(), Off> {
            self.0 += 1;
            window.span_ns += 1;
            if self.0 < 2 { Ok(()) } else { Err(io::Error::from_raw_os_error(libc::EBADF).into()) }
        }

        fn note(&mut self) -> Option<String> {
            Some(format!("window {}", self.0))
        }
    }

    fn refused() -> Kernel {
        let source = io::Error::from_raw_os_error(libc::EPERM);
        Err(Arc::new(BpfError::NotPermitted { what: "a BPF map".to_owned(), source }))
    }

    #[test]
    fn sources_that_lack_the_same_are_named_together_with_the_remedy() {
        let mut sources = Sources::open(&[Evidence::Locks], 100, &refused());
        assert_eq!(sources.words(), []);
        let error = sources.some().unwrap_err().to_string();
        assert!(error.contains("--evidence wakes,locks is off: ") && error.contains("setcap"));
        assert_eq!(error.matches("setcap").count(), 1, "{error}");
    }

    #[test]
    fn wake_ups_are_counted_though_another_source_was_asked_for() {
        let mut sources = Sources::open(&[Evidence::Counters], 100, &refused());
        assert!(sources.notes().iter().any(|it| it.starts_with("--evidence wakes is off: ")));
        assert_eq!(sources.notes(), [""; 0], "each reason once");
    }

    #[test]
    fn a_source_that_fails_is_off_with_a_note_and_the_others_go_on() {
        let mut sources =
            Sources { all: vec![Box::new(Brittle(0)), Box::new(Brittle(1))], notes: vec![] };
        let mut window = Activity::default();
        sources.take(&mut window);
        assert_eq!((window.span_ns, sources.words().len()), (2, 1));
        let notes = sources.notes();
        assert_eq!(notes.len(), 2, "{notes:?}");
        assert_eq!(notes[0], "window 1");
        assert!(notes[1].starts_with("--evidence locks is off from now on: "), "{notes:?}");
        sources.take(&mut window);
        assert!(sources.words().is_empty() && sources.some().is_err());
    }
}
