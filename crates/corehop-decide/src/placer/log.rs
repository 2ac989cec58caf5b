// SPDX-License-Identifier: MIT OR Apache-2.0
//! The log of a placer: JSON lines written as events happen, and the findings computed from them.

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

/// The format version of the log lines.
const VERSION: u32 = 1;
/// The bytes with which every log begins.
const MAGIC: &[u8] = b"{\"corehop_placement\":";
/// The longest accepted line, in bytes: a window of ten thousand threads needs a hundredth of this.
const LONGEST: u64 = 64 << 20;

/// The first line of a log, which describes the placer at its start.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PlacementLogHeader {
    /// The format version of the log lines.
    pub corehop_placement: u32,
    /// The targets of the placer: processes, a cgroup, or a command.
    pub targets: Vec<String>,
    /// The settings of the placer.
    pub settings: Settings,
    /// The CPUs below each last-level cache.
    pub caches: Vec<CpuList>,
    /// The measured costs of wake-ups.
    pub wake_costs: WakeCosts,
    /// The sources of evidence. If the list is missing, the log is from a version that had only one source.
    #[serde(default = "wakes_alone")]
    pub sources: Vec<Evidence>,
    /// The CPUs and costs on which the placer's decisions rely; `None` in a log of a version that did not record
    /// them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub terrain: Option<Terrain>,
    /// The initial placement of the threads, if the placer set one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start: Option<InitialPlacement>,
    /// The costs of wake-ups with their reasons; `None` in a log of a version that did not measure reasons.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wake_up: Option<WakeCost>,
}

fn wakes_alone() -> Vec<Evidence> {
    vec![Evidence::Wakes]
}

/// The last line of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct End {
    /// The number of windows.
    pub windows: u64,
    /// The number of wake-ups by devices and timers, which belong to no pair of threads.
    #[serde(default)]
    pub wakes_by_interrupts: u64,
}

/// One line of a log.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum PlacementLogEntry {
    /// The first line, with the targets and settings.
    Head(Box<PlacementLogHeader>),
    /// A window with the placer's actions.
    Window {
        /// The activity in the window.
        window: Activity,
        /// The placer's actions after the window.
        actions: Vec<Action>,
    },
    /// A move that the host refused.
    Refused {
        /// The reason why the host refused the move.
        refused: String,
    },
    /// The last line.
    End {
        /// The totals of the log.
        end: End,
    },
}

/// The end of a trial.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TrialJudgement {
    /// The verdict of the trial.
    #[serde(flatten)]
    pub verdict: TrialVerdict,
    /// Whether the threads kept their placed CPUs.
    pub kept: bool,
}

/// Two threads, and how often they ran together in the last looks that show both.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Together {
    /// The thread with the lower thread ID.
    pub a: u32,
    /// The thread with the higher thread ID.
    pub b: u32,
    /// The number of looks.
    pub looks: usize,
    /// The number of looks in which both threads ran on one CPU.
    pub on_one_cpu: usize,
}

/// The findings and the actions of a placer.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PlacementFindings {
    /// The targets of the placer: processes, a cgroup, or a command.
    pub targets: Vec<String>,
    /// The costs of wake-ups.
    pub wake_costs: WakeCosts,
    /// The costs of wake-ups with intervals and reasons, and the setting that is expected to help all programs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wake_up: Option<WakeCost>,
    /// The sources of evidence.
    pub sources: Vec<Evidence>,
    /// The number of windows.
    pub windows: u64,
    /// Whether the placer was allowed to move threads.
    pub may_move: bool,
    /// The proposed placements, in order.
    pub proposals: Vec<Proposal>,
    /// The results of the proposals' trials, in order.
    pub trials: Vec<TrialJudgement>,
    /// The reasons why the host refused moves.
    pub refused: Vec<String>,
    /// The threads that wake each other at the end, the closest tie first.
    pub ties: Vec<Tie>,
    /// For each tie, how often its threads ran together.
    pub together: Vec<Together>,
    /// The number of wake-ups by devices and timers.
    pub wakes_by_interrupts: u64,
    /// The cache misses of the program, if hardware counters count them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub misses: Option<MissRates>,
    /// The names of the threads.
    #[serde(skip)]
    pub names: BTreeMap<u32, String>,
    /// The number of windows before a proposal.
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
    /// Creates the first line for a placer with these settings on these CPUs.
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
    /// Creates empty findings.
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

    /// Adds the next line of a log.
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

    /// Computes the ties from the collected windows.
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

    /// Returns in words on which CPUs the threads of a tie ran; `None` if no look shows both.
    pub fn seen_together(&self, tie: &Tie) -> Option<String> {
        let of = self.together.iter().find(|it| (it.a, it.b) == (tie.a, tie.b));
        let Together { looks, on_one_cpu, .. } = of.filter(|it| it.looks > 0)?;
        Some(format!("on one CPU in {on_one_cpu} of {looks} looks"))
    }

    /// Returns whether the threads of a tie ran on one CPU in at least nine of ten looks.
    pub fn ran_together(&self, tie: &Tie) -> bool {
        let of = self.together.iter().find(|it| (it.a, it.b) == (tie.a, tie.b));
        of.is_some_and(|it| it.looks > 0 && 10 * it.on_one_cpu >= 9 * it.looks)
    }

    /// Returns the name of a thread with its thread ID.
    pub fn name(&self, tid: u32) -> String {
        let name = self.names.get(&tid).map_or("?", String::as_str);
        format!("{} ({tid})", shown::line(name))
    }
}

/// A log that was read completely.
#[derive(Debug, Clone, PartialEq)]
pub struct PlacementLog {
    /// The first line of the log.
    pub head: PlacementLogHeader,
    /// The findings computed from the log.
    pub answer: PlacementFindings,
    /// The rate of progress in each window, per second, and whether the placer had placed threads in it.
    pub rates: Vec<ProgressRate>,
    /// Whether the log contains its last line.
    pub is_whole: bool,
}

/// The rate of progress in one window.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct ProgressRate {
    /// The end of the window, in seconds since the first window began.
    pub end_s: f64,
    /// The progress per second; `None` if unknown.
    pub per_second: Option<f64>,
    /// Whether threads were placed in this window.
    pub placed: bool,
}

/// The reason why a file cannot be read as a log.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// The file does not begin like a log.
    #[error("this is not the log of a placer")]
    NotOurs,
    /// A later version wrote the file.
    #[error("the log has version {0}, and this corehop reads {VERSION}: use a newer corehop")]
    Version(u32),
    /// A line before the last is damaged.
    #[error("line {number} is damaged: {why}")]
    Line {
        /// The number of the line, counted from 1.
        number: usize,
        /// The parse error.
        why: serde_json::Error,
    },
    /// A line exceeds the length limit.
    #[error("line {number} is damaged: it is longer than {LONGEST} bytes")]
    Long {
        /// The number of the line, counted from 1.
        number: usize,
    },
    /// Reading the file failed.
    #[error(transparent)]
    Io(#[from] std::io::Error),
}

impl PlacementLog {
    /// Reads a log. The reader ignores an incomplete last line, which a killed placer leaves behind.
    ///
    /// # Errors
    /// Returns [`LogError`], which names the problem and the line.
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

/// Reads a log line by line.
pub(super) struct PlacementLogReader<R> {
    /// The first line of the log.
    pub(super) head: PlacementLogHeader,
    from: R,
    number: usize,
    line: Vec<u8>,
}

/// Reads the first line of a log.
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
    /// Reads the next line; `None` at the end, and at an incomplete last line.
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

/// Parses a JSON line and checks that the line's numbers are within bounds.
fn of_line<T: DeserializeOwned>(line: &[u8]) -> Result<T, serde_json::Error> {
    let text = std::str::from_utf8(line).map_err(serde_json::Error::custom)?;
    bounds::from_json(text)
}

/// Reads up to the end of a line; returns the number of bytes.
fn line_of(from: &mut impl BufRead, line: &mut Vec<u8>, number: usize) -> Result<usize, LogError> {
    let read = from.take(LONGEST).read_until(b'\n', line)?;
    if read as u64 == LONGEST { Err(LogError::Long { number }) } else { Ok(read) }
}

/// The time and the progress at the end of the previous window.
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
