// SPDX-License-Identifier: MIT OR Apache-2.0
//! The log of a placer: lines of JSON that are written as things happen, and what they come to.

use std::collections::BTreeMap;
use std::io::{BufRead, Read};

use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Serialize};

use super::InitialPlacement;
use super::looks::Looks;
use super::pin::WindowFacts;
use super::settings::Settings;
use super::step::{Action, Proposal};
use super::terrain::{Terrain, WakeCosts};
use super::trial::TrialVerdict;
use crate::wake_cost::WakeCost;
use corehop_plan::bounds;
use corehop_plan::host::{Activity, Evidence, InstructionCounts};
use corehop_plan::shown;
use corehop_plan::units::CpuList;
use corehop_stats::contacts::{ContactGraph, Tie};
use corehop_stats::misses::{self, MissRates};

/// The version of the lines.
const VERSION: u32 = 1;
/// The beginning of every log.
const MAGIC: &[u8] = b"{\"corehop_placement\":";
/// No line is longer: a window of ten thousand threads has a hundredth of it.
const LONGEST: u64 = 64 << 20;

/// The first line: the placer at its beginning.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PlacementLogHeader {
    /// The version of the lines.
    pub corehop_placement: u32,
    /// The targets: processes, a cgroup, or a command.
    pub targets: Vec<String>,
    /// The settings of the placer.
    pub settings: Settings,
    /// The CPUs below each last-level cache.
    pub caches: Vec<CpuList>,
    /// The costs of wake-ups.
    pub wake_costs: WakeCosts,
    /// The sources of evidence. A log that names none was written when there was one.
    #[serde(default = "wakes_alone")]
    pub sources: Vec<Evidence>,
    /// All of the CPUs that the placer decides by; None in a log of a version that did not record them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub terrain: Option<Terrain>,
    /// The places of the threads at the beginning, where they were put somewhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start: Option<InitialPlacement>,
    /// The costs of wake-ups with their reasons; None in a log of a version that did not measure those.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wake_up: Option<WakeCost>,
}

fn wakes_alone() -> Vec<Evidence> {
    vec![Evidence::Wakes]
}

/// The last line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct End {
    /// The windows.
    pub windows: u64,
    /// Wake-ups by devices and timers, which are of no pair.
    #[serde(default)]
    pub wakes_by_interrupts: u64,
}

/// A line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum PlacementLogEntry {
    /// The first.
    Head(Box<PlacementLogHeader>),
    /// A window.
    Window {
        /// The activity in it.
        window: Activity,
        /// The placer's actions after it.
        actions: Vec<Action>,
    },
    /// A move that the host refused.
    Refused {
        /// The reason.
        refused: String,
    },
    /// The last.
    End {
        /// The totals.
        end: End,
    },
}

/// The end of a trial.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TrialJudgement {
    /// The verdict.
    #[serde(flatten)]
    pub verdict: TrialVerdict,
    /// Whether the threads stayed where they were placed.
    pub kept: bool,
}

/// Two threads in the last looks before which both ran.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Together {
    /// The thread with the lower number.
    pub a: u32,
    /// The other.
    pub b: u32,
    /// The looks.
    pub looks: usize,
    /// The looks in which both ran on one CPU.
    pub on_one_cpu: usize,
}

/// The findings and the actions of a placer.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PlacementFindings {
    /// The targets.
    pub targets: Vec<String>,
    /// The costs of wake-ups.
    pub wake_costs: WakeCosts,
    /// The same with intervals and reasons, and the setting that is expected to help all programs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wake_up: Option<WakeCost>,
    /// The sources of evidence.
    pub sources: Vec<Evidence>,
    /// The windows.
    pub windows: u64,
    /// Whether threads might be moved.
    pub may_move: bool,
    /// The placements that were proposed, in turn.
    pub proposals: Vec<Proposal>,
    /// The ends of their trials, in turn.
    pub trials: Vec<TrialJudgement>,
    /// The reasons of moves that were refused.
    pub refused: Vec<String>,
    /// The threads that wake each other, at the end; the closest first.
    pub ties: Vec<Tie>,
    /// The looks at the threads of each tie, in turn.
    pub together: Vec<Together>,
    /// Wake-ups by devices and timers.
    pub wakes_by_interrupts: u64,
    /// The misses of the program, where hardware counters count them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub misses: Option<MissRates>,
    /// The names of the threads.
    #[serde(skip)]
    pub names: BTreeMap<u32, String>,
    /// The windows before a proposal.
    #[serde(skip)]
    pub least_windows: u64,
    /// The CPUs below each last-level cache.
    #[serde(skip)]
    pub(super) caches: Vec<CpuList>,
    #[serde(skip)]
    pub(super) seen: WindowFacts,
    #[serde(skip)]
    counted: Option<InstructionCounts>,
    #[serde(skip)]
    looks: Looks,
    #[serde(skip)]
    graph: ContactGraph,
}

impl PlacementLogHeader {
    /// The first line of a placer with these settings on these CPUs.
    pub fn new(
        settings: Settings,
        terrain: &Terrain,
        targets: &[String],
        sources: Vec<Evidence>,
        start: Option<InitialPlacement>,
    ) -> Self {
        Self {
            corehop_placement: VERSION,
            targets: targets.to_vec(),
            settings,
            caches: terrain.caches().to_vec(),
            wake_costs: terrain.costs(),
            sources,
            terrain: Some(terrain.clone()),
            start,
            wake_up: None,
        }
    }
}

impl PlacementFindings {
    /// Nothing has been seen.
    pub fn new(head: &PlacementLogHeader) -> Self {
        Self {
            targets: head.targets.clone(),
            wake_costs: head.wake_costs,
            wake_up: head.wake_up.clone(),
            sources: head.sources.clone(),
            windows: 0,
            may_move: head.settings.may_move,
            proposals: Vec::new(),
            trials: Vec::new(),
            refused: Vec::new(),
            ties: Vec::new(),
            together: Vec::new(),
            looks: Looks::default(),
            wakes_by_interrupts: 0,
            misses: None,
            least_windows: u64::from(head.settings.evidence),
            caches: head.caches.clone(),
            seen: WindowFacts::default(),
            counted: None,
            names: BTreeMap::new(),
            graph: ContactGraph::new(head.settings.half_life_s),
        }
    }

    /// Takes a further line.
    pub fn take(&mut self, line: &PlacementLogEntry) {
        match line {
            PlacementLogEntry::Head(_) => {}
            PlacementLogEntry::Window { window, actions } => self.window(window, actions),
            PlacementLogEntry::Refused { refused } => self.refused.push(refused.clone()),
            PlacementLogEntry::End { end } => {
                self.wakes_by_interrupts = end.wakes_by_interrupts;
                self.settle();
            }
        }
    }

    fn window(&mut self, window: &Activity, actions: &[Action]) {
        self.windows += 1;
        self.names.extend(window.threads.iter().map(|it| (it.tid, it.name.clone())));
        self.graph.take(window);
        self.looks.take(window);
        self.seen.take(window);
        let counted = window.threads.iter().map(|it| it.counted);
        self.counted = misses::sum(counted.chain([self.counted]));
        for action in actions {
            match action {
                Action::Advise(it) | Action::Try(it) => self.proposals.push(it.clone()),
                Action::Judge { verdict, kept } => {
                    self.trials.push(TrialJudgement { verdict: *verdict, kept: *kept });
                }
                Action::Place { .. } | Action::Restore => {}
            }
        }
    }

    /// Draws up the ties.
    fn settle(&mut self) {
        self.misses = self.counted.as_ref().and_then(MissRates::of);
        self.ties = self.graph.ties();
        self.ties.sort_by(|x, y| y.rate().total_cmp(&x.rate()));
        let looks = |it: &Tie| {
            let cpus: Vec<_> = self.looks.of(it.a, it.b).collect();
            let on_one_cpu = cpus.iter().filter(|([a, b], _)| a == b).count();
            Together { a: it.a, b: it.b, looks: cpus.len(), on_one_cpu }
        };
        self.together = self.ties.iter().map(looks).collect();
    }

    /// The CPUs on which the threads of a tie were seen, in words; None if no look told.
    pub fn seen_together(&self, tie: &Tie) -> Option<String> {
        let of = self.together.iter().find(|it| (it.a, it.b) == (tie.a, tie.b));
        let Together { looks, on_one_cpu, .. } = of.filter(|it| it.looks > 0)?;
        Some(format!("on one CPU in {on_one_cpu} of {looks} looks"))
    }

    /// Whether the threads of a tie ran on one CPU in nine of ten looks or more.
    pub fn ran_together(&self, tie: &Tie) -> bool {
        let of = self.together.iter().find(|it| (it.a, it.b) == (tie.a, tie.b));
        of.is_some_and(|it| it.looks > 0 && 10 * it.on_one_cpu >= 9 * it.looks)
    }

    /// The name of a thread, with its number.
    pub fn name(&self, tid: u32) -> String {
        let name = self.names.get(&tid).map_or("?", String::as_str);
        format!("{} ({tid})", shown::line(name))
    }
}

/// A log that was read.
#[derive(Debug, Clone, PartialEq)]
pub struct PlacementLog {
    /// Its first line.
    pub head: PlacementLogHeader,
    /// Its answer.
    pub answer: PlacementFindings,
    /// The rate of progress in each window, per second, and whether threads were placed by the placer in it.
    pub rates: Vec<ProgressRate>,
    /// Whether it has its last line.
    pub is_whole: bool,
}

/// The progress of a window.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct ProgressRate {
    /// The end of the window, in seconds since the first began.
    pub end_s: f64,
    /// The progress per second; None where it is not known.
    pub per_second: Option<f64>,
    /// Whether threads were placed.
    pub placed: bool,
}

/// A file that is no log, or a damaged one.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// It begins in another way.
    #[error("this is not the log of a placer")]
    NotOurs,
    /// It was written by a later version.
    #[error("the log has version {0}, and this corehop reads {VERSION}: use a newer corehop")]
    Version(u32),
    /// A line that is not the last one is damaged.
    #[error("line {number} is damaged: {why}")]
    Line {
        /// The line, counted from 1.
        number: usize,
        /// The problem.
        why: serde_json::Error,
    },
    /// A line without an end.
    #[error("line {number} is damaged: it is longer than {LONGEST} bytes")]
    Long {
        /// The line, counted from 1.
        number: usize,
    },
    /// It cannot be read.
    #[error(transparent)]
    Io(#[from] std::io::Error),
}

impl PlacementLog {
    /// Reads a log. A last line that was torn off, with a placer that was killed, is left out.
    ///
    /// # Errors
    /// [`LogError`] says what is wrong where.
    pub fn read(from: impl BufRead) -> Result<Self, LogError> {
        let mut lines = lines_of(from)?;
        let head = lines.head.clone();
        let mut log = Self {
            answer: PlacementFindings::new(&head),
            head,
            rates: Vec::new(),
            is_whole: false,
        };
        let (mut progress, mut placed) = (WindowProgress::default(), false);
        while let Some(line) = lines.next_line()? {
            log.take(&line, &mut progress, &mut placed);
        }
        log.answer.settle();
        Ok(log)
    }

    fn take(&mut self, line: &PlacementLogEntry, progress: &mut WindowProgress, placed: &mut bool) {
        self.answer.take(line);
        match line {
            PlacementLogEntry::Window { window, actions } => {
                self.rates.push(progress.rate(window, *placed));
                for action in actions {
                    match action {
                        Action::Place { .. } => *placed = true,
                        Action::Restore => *placed = false,
                        _ => {}
                    }
                }
            }
            PlacementLogEntry::End { .. } => self.is_whole = true,
            PlacementLogEntry::Refused { .. } => *placed = false,
            PlacementLogEntry::Head(_) => {}
        }
    }
}

/// The lines of a log, one after the other.
pub(super) struct PlacementLogReader<R> {
    /// The first.
    pub(super) head: PlacementLogHeader,
    from: R,
    number: usize,
    line: Vec<u8>,
}

/// Reads the first line.
pub(super) fn lines_of<R: BufRead>(mut from: R) -> Result<PlacementLogReader<R>, LogError> {
    let mut line = Vec::new();
    // Another file may have no line at all.
    from.by_ref().take(MAGIC.len() as u64).read_to_end(&mut line)?;
    if line != MAGIC {
        return Err(LogError::NotOurs);
    }
    line_of(&mut from, &mut line, 1)?;
    let damaged = |why| LogError::Line { number: 1, why };
    let head: PlacementLogHeader = of_line(&line).map_err(damaged)?;
    if head.corehop_placement > VERSION {
        return Err(LogError::Version(head.corehop_placement));
    }
    Ok(PlacementLogReader { head, from, number: 1, line })
}

impl<R: BufRead> PlacementLogReader<R> {
    /// The next one; None at the end, and at a last line that was torn off.
    pub(super) fn next_line(&mut self) -> Result<Option<PlacementLogEntry>, LogError> {
        self.line.clear();
        self.number += 1;
        if line_of(&mut self.from, &mut self.line, self.number)? == 0 {
            return Ok(None);
        }
        match of_line::<PlacementLogEntry>(&self.line) {
            Ok(line) => Ok(Some(line)),
            // Torn off: the line is the last, and has no end.
            Err(_) if self.line.last() != Some(&b'\n') => Ok(None),
            Err(why) => Err(LogError::Line { number: self.number, why }),
        }
    }
}

/// The value of a line of JSON, whose numbers are within bounds.
fn of_line<T: DeserializeOwned>(line: &[u8]) -> Result<T, serde_json::Error> {
    let text = std::str::from_utf8(line).map_err(serde_json::Error::custom)?;
    bounds::from_json(text)
}

/// Reads on to the end of a line; the number of bytes.
fn line_of(from: &mut impl BufRead, line: &mut Vec<u8>, number: usize) -> Result<usize, LogError> {
    let read = from.take(LONGEST).read_until(b'\n', line)?;
    if read as u64 == LONGEST { Err(LogError::Long { number }) } else { Ok(read) }
}

/// The time and the progress at the end of the last window.
#[derive(Debug, Default)]
struct WindowProgress {
    end_s: f64,
    count: Option<f64>,
}

impl WindowProgress {
    fn rate(&mut self, window: &Activity, placed: bool) -> ProgressRate {
        let seconds = window.span_ns as f64 * 1e-9;
        let added = window.progress.zip(self.count).map(|(now, before)| now - before);
        self.end_s += seconds;
        self.count = window.progress;
        ProgressRate { end_s: self.end_s, per_second: added.map(|it| it / seconds), placed }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::placer::terrain::tests::{COSTS, list};
    use corehop_plan::host::{ActiveThread, Contact};

    fn log() -> String {
        let terrain = Terrain::new(&[list("0-1")], COSTS);
        let targets = ["process 7".to_owned()];
        let head = PlacementLogHeader::new(
            Settings::default(),
            &terrain,
            &targets,
            vec![Evidence::Locks],
            None,
        );
        let thread = |tid| ActiveThread {
            tid,
            pid: 7,
            name: format!("worker-{tid}"),
            busy_ns: 1_000_000,
            allowed: list("0-1"),
            ..ActiveThread::default()
        };
        let window = |at: u64| Activity {
            span_ns: 100_000_000,
            threads: vec![thread(7), thread(8)],
            contacts: vec![Contact { waker: 7, woken: 8, count: 500 }],
            progress: Some(at as f64 * 100.0),
            ..Activity::default()
        };
        let place = vec![Action::Place { moves: Vec::new() }];
        let mut lines = vec![PlacementLogEntry::Head(Box::new(head))];
        for at in 0..4 {
            let actions = if at == 1 { place.clone() } else { Vec::new() };
            lines.push(PlacementLogEntry::Window { window: window(at), actions });
        }
        lines.push(PlacementLogEntry::Refused { refused: "busy".to_owned() });
        lines.push(PlacementLogEntry::End { end: End { windows: 4, wakes_by_interrupts: 9 } });
        lines.iter().map(|line| serde_json::to_string(line).unwrap() + "\n").collect()
    }

    #[test]
    fn what_was_written_is_read_back_with_rates_ties_and_names() {
        let log = PlacementLog::read(log().as_bytes()).unwrap();
        assert!(log.is_whole);
        let answer = &log.answer;
        assert_eq!((answer.windows, answer.wakes_by_interrupts), (4, 9));
        assert_eq!(answer.name(8), "worker-8 (8)");
        let [tie] = answer.ties[..] else { panic!("{:?}", answer.ties) };
        assert!((tie.per_second - 5_000.0).abs() < 1.0, "{tie:?}");
        assert_eq!(answer.refused, ["busy"]);
        let placed: Vec<bool> = log.rates.iter().map(|it| it.placed).collect();
        assert_eq!(placed, [false, false, true, true]);
        assert_eq!(log.rates[0].per_second, None);
        assert!((log.rates[1].per_second.unwrap() - 1_000.0).abs() < 1e-6);
    }

    #[test]
    fn a_log_without_sources_is_older_and_knows_wake_ups() {
        let read = |text: &str| PlacementLog::read(text.as_bytes()).unwrap().head.sources;
        assert_eq!(read(&log()), [Evidence::Locks]);
        let older = log().replacen(",\"sources\":[\"locks\"]", "", 1);
        assert!(!older.contains("sources"));
        assert_eq!(read(&older), [Evidence::Wakes]);
    }

    #[test]
    fn a_log_that_is_torn_off_anywhere_is_read_as_far_as_it_goes() {
        let whole = log();
        let head = whole.find('\n').unwrap() + 1;
        for end in head..whole.len() {
            let log = PlacementLog::read(&whole.as_bytes()[..end]).unwrap();
            // A line whose end alone is missing is whole.
            assert!(!log.is_whole || end == whole.len() - 1, "{end}");
        }
    }

    #[test]
    fn a_damaged_line_a_later_version_and_another_file_are_told_apart() {
        let damaged = log().replacen("\"contacts\"", "\"kontakte\"", 2);
        let error = PlacementLog::read(damaged.as_bytes()).unwrap_err().to_string();
        assert!(error.contains("line 2"), "{error}");
        let later = log().replacen("\"corehop_placement\":1", "\"corehop_placement\":2", 1);
        let error = PlacementLog::read(later.as_bytes()).unwrap_err();
        assert!(matches!(error, LogError::Version(2)), "{error}");
        let other = PlacementLog::read(&b"{\"a\": 1}\n"[..]).unwrap_err();
        assert!(matches!(other, LogError::NotOurs), "{other}");
    }
}
