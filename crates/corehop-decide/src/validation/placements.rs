// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compares the published gain of a sharing-aware placer over the default scheduler with the simulated gain,
//! benchmark by benchmark.
//!
//! The placer is rehearsed on the simulated host. The threads begin on the CPUs that the default scheduler gave them
//! in the printed runs, and then either stay there or are placed.

use serde::Deserialize;

use super::aim::ErrorLimits;
use super::printed_number::{ErrorLaw, PrintedNumber};
use super::sheet::{JudgementRole, PrintedQuantity, QuantityErrors, Sheet, Tested, ValidationRow};
use super::{Lab, PublishedStudy, PublishedStudyError, StudyHeading, ValidationError, described};
use crate::placer::Action;
use crate::placer::rehearsal::{PairRehearsal, Rehearsed, rehearse, wake_costs};
use corehop_plan::platform::{Affinity, Platform};
use corehop_plan::units::Cpu;
use corehop_plan::workload::gang::{GangProgram, Sharing};
use corehop_stats::verdict::TestOutcome;

/// The unit of the values: percent of the run time under the default scheduler.
const PERCENT: &str = "percent";

/// The improvements of some benchmarks, and the experiment behind them.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlacementStudy {
    /// The name of the study.
    pub id: String,
    /// The title of the printed figure, with its source.
    pub title: String,
    /// The ID of the platform on which the figure was measured.
    pub platform: String,
    /// The accepted errors of improvements, in percent of the run time.
    pub limits: ErrorLimits,
    /// The CPUs that the default scheduler gives two threads.
    pub start: [Cpu; 2],
    /// The benchmarks of the study.
    #[serde(rename = "benchmark")]
    pub benchmarks: Vec<Benchmark>,
}

/// A benchmark of the printed figure.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Benchmark {
    /// The name of the benchmark in print.
    pub name: String,
    /// The simulated program that represents the benchmark.
    pub program: GangProgram,
    /// The way in which the program's threads share data.
    pub sharing: Sharing,
    /// The improvement that is printed or follows from printed values, in percent; `None` if there is none.
    pub printed: Option<PrintedNumber>,
    /// The place of the value in print.
    pub source: String,
    /// The role of the printed value in the judgement. The value is `None` if the simulation lacks the cause of the
    /// printed value; then the placer's improvement is only shown.
    #[serde(default)]
    pub role: Option<JudgementRole>,
}

impl PlacementStudy {
    /// Parses a study from its description.
    ///
    /// # Errors
    /// Returns [`PublishedStudyError::Form`], which says what is wrong.
    pub fn new(description: &str) -> Result<Self, PublishedStudyError> {
        described(description)
    }
}

impl Benchmark {
    /// Compares the printed improvement with two simulated improvements: of the published scheduler, which puts threads
    /// below one cache, and of this placer, which may also put threads on one CPU.
    fn rows(&self, done: &Rehearsed) -> Vec<ValidationRow> {
        let Some(printed) = self.printed else { return Vec::new() };
        let row = |how: &str, rate: f64, quantity| {
            let simulated = saved(done.alone, rate);
            ValidationRow {
                what: PrintedQuantity::Point { name: format!("{}, {how}", self.name) },
                quantity,
                printed: printed.value,
                simulated: Some(simulated),
                n: None,
                printed_n: None,
                role: self.role.unwrap_or_default(),
                error: Some(ErrorLaw::Relative.error(printed, simulated)),
            }
        };
        let cache = self.role.map(|_| row("below one cache", done.together, Some(PERCENT)));
        cache.into_iter().chain([row("placed", done.placed, None)]).collect()
    }

    /// Whether the placer acts as the paper says: it puts threads that share data below one cache, and tries no
    /// placement for other threads.
    fn end(&self, done: &Rehearsed, platform: &Platform) -> Tested {
        let shares = self.sharing == Sharing::Write;
        let together = done.cpus.windows(2).all(|it| is_near(platform, it[0], it[1]));
        let tried = done.said.iter().filter(|it| matches!(it, Action::Try(_))).count();
        let (claim, holds) = if shares {
            ("is found to share, and the placer moves its threads below one cache", together)
        } else {
            ("is found to share nothing, and the placer moves no thread", tried == 0)
        };
        let cpus: Vec<String> = done.cpus.iter().map(|cpu| cpu.0.to_string()).collect();
        Tested {
            claim: format!("{} {claim}", self.name),
            expected: Some(TestOutcome::Holds),
            found: if holds { TestOutcome::Holds } else { TestOutcome::DoesNot },
            evidence: format!(
                "the placer tried {tried} placements and left the threads on CPUs {}, which saved {:.1} % of the time without the placer ({})",
                cpus.join(" and "),
                saved(done.alone, done.placed),
                self.source
            ),
        }
    }
}

/// Whether two CPUs are identical or share a cache.
fn is_near(platform: &Platform, a: Cpu, b: Cpu) -> bool {
    platform.affinity(a, b) != Affinity::Memory
}

/// The share of the run time, in percent, that `rate` saves compared with the rate of unplaced threads.
fn saved(alone: f64, rate: f64) -> f64 {
    100.0 * (1.0 - alone / rate)
}

impl PublishedStudy for PlacementStudy {
    fn head(&self) -> StudyHeading<'_> {
        StudyHeading { id: &self.id, title: &self.title, platform: &self.platform }
    }

    /// Working set sizes do not restrict this study, because its values are about whole programs.
    fn narrow(&mut self, _: &[u64]) -> bool {
        false
    }

    fn judge(&self, platform: &Platform, lab: &mut Lab) -> Result<Sheet, ValidationError> {
        let costs = wake_costs(platform)?;
        let (mut rows, mut claims) = (Vec::new(), Vec::new());
        for it in &self.benchmarks {
            let pairs = PairRehearsal {
                program: it.program.clone(),
                sharing: it.sharing,
                cpus: self.start.to_vec(),
            };
            let done = rehearse(platform, &pairs, costs, false, lab.seed)?;
            rows.extend(it.rows(&done));
            claims.push(it.end(&done, platform));
        }
        let quantity = QuantityErrors::new(PERCENT, ErrorLaw::Relative, Some(self.limits));
        let runs = lab.samples(1);
        let sheet = Sheet::judged(self.head(), (runs, "rehearsal each"), rows, vec![quantity]);
        Ok(Sheet { claims, ..sheet })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DESCRIPTION: &str = r#"
        id = "made-up"
        title = "x"
        platform = "xeon_e5520"
        limits = { median = 0.1, p90 = 0.25 }
        start = [0, 4]
        [[benchmark]]
        name = "Swap"
        program = { kind = "swap", items = 100 }
        sharing = "write"
        printed = "40.0"
        source = "Table 1"
        role = "judged"
        [[benchmark]]
        name = "Alone"
        program = { kind = "swap", items = 100 }
        sharing = "none"
        source = "text"
    "#;

    fn done(cpus: [u32; 2], tried: usize) -> Rehearsed {
        let said = std::iter::repeat_n(Action::Restore, tried).collect();
        Rehearsed {
            alone: 60.0,
            placed: 80.0,
            same: 1.0,
            together: 75.0,
            cpus: cpus.map(Cpu).to_vec(),
            said,
        }
    }

    #[test]
    fn an_improvement_is_of_the_time_of_the_default_scheduler() {
        let study = PlacementStudy::new(DESCRIPTION).unwrap();
        let rows = study.benchmarks[0].rows(&done([0, 1], 0));
        // 60 in place of 75 below one cache, of 80 placed.
        for (row, (saved, error)) in rows.iter().zip([(20.0, 19.95 / 40.0), (25.0, 14.95 / 40.0)]) {
            assert!((row.simulated.unwrap() - saved).abs() < 1e-9, "{row:?}");
            assert!((row.error.unwrap() - error).abs() < 1e-9, "{row:?}");
        }
        let quantities: Vec<_> = rows.iter().map(|row| row.quantity).collect();
        assert_eq!(quantities, [Some("percent"), None]);
        assert_eq!(study.benchmarks[1].rows(&done([0, 4], 0)), []);
    }

    #[test]
    fn threads_that_share_are_to_end_together_and_others_where_they_began() {
        let study = PlacementStudy::new(DESCRIPTION).unwrap();
        let platform = Platform::named("xeon_e5520").unwrap().unwrap();
        let missed =
            |at: usize, cpus| study.benchmarks[at].end(&done(cpus, 0), &platform).is_missed();
        assert_eq!([missed(0, [0, 1]), missed(0, [2, 2]), missed(0, [0, 4])], [false, false, true]);
        assert!(!missed(1, [0, 4]));
    }
}
