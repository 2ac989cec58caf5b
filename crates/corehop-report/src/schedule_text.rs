// SPDX-License-Identifier: MIT OR Apache-2.0
//! A schedule as a sentence, and as bars of characters with a row for each task.

use super::schedule_svg::picked;
use corehop_plan::workload::task::{TaskSet, Time};
use corehop_sched::schedule::search::SearchResult;
use corehop_sched::schedule::{CpuActivity, Schedule, ScheduledJob};
use corehop_sched::sentence::called;

/// The text shows at most this many rows of tasks, and at most `JOBS` jobs before the job in question.
const ROWS: usize = 8;
const JOBS: usize = 24;
/// The number of columns before the bars, of which a task's name may take all but a few.
const INDENT: usize = 14;

/// Returns a sentence about the result of a simulation; `accepted` says that the set meets all deadlines and that the
/// schedule is the busiest window of a task.
pub fn sentence(set: &TaskSet, found: &Result<SearchResult, String>, accepted: bool) -> String {
    let found = match found {
        Ok(found) => found,
        Err(why) => return format!("no schedule was simulated: {why}"),
    };
    let count = found.simulations;
    let simulations =
        if count == 1 { "1 simulation".to_owned() } else { format!("{count} simulations") };
    let mut text = match &found.schedule {
        None => format!("no deadline miss was found in {simulations} of {} jobs", found.jobs),
        Some((schedule, releases)) => {
            let job = schedule.subject();
            let who = called(set, job.task);
            let what = match job.ended_us {
                _ if accepted => format!(
                    "{who} responds after {}, the longest in {simulations},",
                    set.tick().span(schedule.response_us())
                ),
                Some(_) => {
                    format!("{who} ends {} after its deadline", set.tick().span(schedule.late_us()))
                }
                None => {
                    format!(
                        "{who} has not ended {} after its deadline",
                        set.tick().span(schedule.late_us())
                    )
                }
            };
            let delays = match reloads(set, schedule) {
                none if none.is_empty() => none,
                reloads => format!(" and jobs lose the charged delays ({reloads})"),
            };
            format!("{what} if {}{delays}", releases.words())
        }
    };
    if found.assigned {
        text.push_str("; the simulation puts each task where worst fit does");
    }
    if !found.without.is_empty() {
        text.extend(["; not simulated: ", &found.without.join(", ")]);
    }
    text
}

/// Returns a clause about the number of reloads in a schedule, by kind, and about the time that they take.
pub(super) fn reloads(set: &TaskSet, schedule: &Schedule) -> String {
    let of = |doing, one: &str| {
        let (times, us) = schedule.reloads(doing);
        let plural = if times == 1 { "" } else { "s" };
        (times > 0).then(|| format!("{times} {one}{plural} for {}", set.tick().span(us)))
    };
    let all = [of(CpuActivity::Preemption, "preemption"), of(CpuActivity::Migration, "migration")];
    let all: Vec<String> = all.into_iter().flatten().collect();
    all.join(", ")
}

/// Draws a schedule as lines of at most `width` columns.
pub fn bars(set: &TaskSet, schedule: &Schedule, width: usize) -> String {
    let schedule = &schedule.end(JOBS);
    let view = ScheduleView::new(schedule, width.clamp(40, 100) - INDENT - 1);
    let mut text = String::new();
    for task in picked(schedule, ROWS) {
        let name = called(set, task);
        let name: String = name.trim_matches('`').chars().take(INDENT - 3).collect();
        let bar: String = (0..view.columns).map(|at| view.cell(task, at)).collect();
        text.push_str(&line(&name, &bar));
    }
    let more = schedule.tasks().len().saturating_sub(ROWS);
    if more > 0 {
        text.push_str(&line("", &format!("and {more} tasks more")));
    }
    let (job, at) = (schedule.subject(), view.column(schedule.subject().due_us));
    let release = set.tick().span(job.release_us.saturating_sub(view.from));
    let due = format!("{}, released at {release}, is due", called(set, job.task));
    let pad = at.min(view.columns - 1);
    let length = due.chars().count();
    let due = if job.due_us > schedule.to_us {
        format!("{due} at {}", set.tick().span(job.due_us - view.from))
    } else if pad + 2 + length <= view.columns {
        format!("{:pad$}^ {due}", "")
    } else if let Some(room) = pad.checked_sub(length + 1) {
        format!("{:room$}{due} ^", "")
    } else {
        format!("{:pad$}^", "")
    };
    text.push_str(&line("", &due));
    let end = set.tick().span(schedule.to_us - view.from);
    let gap = view.columns.saturating_sub(1 + end.chars().count());
    text.push_str(&line("", &format!("0{:gap$}{end}", "")));
    let runs = if schedule.cpus.len() == 1 { "# runs" } else { "0, 1, … runs on that CPU" };
    let reloads = if schedule.with_delays { ", ~ reloads" } else { "" };
    text.push_str(&line("", &format!("{runs}, . waits{reloads}")));
    text
}

fn line(head: &str, rest: &str) -> String {
    format!("  {head:<12}{}\n", rest.trim_end())
}

/// The part of a schedule that the text shows, divided into columns.
struct ScheduleView<'a> {
    schedule: &'a Schedule,
    from: Time,
    columns: usize,
}

impl<'a> ScheduleView<'a> {
    fn new(schedule: &'a Schedule, columns: usize) -> Self {
        Self { schedule, from: schedule.from_us, columns }
    }

    fn span(&self) -> u128 {
        u128::from(self.schedule.to_us - self.from).max(1)
    }

    /// Returns the column in which an instant lies.
    fn column(&self, at: Time) -> usize {
        let since = u128::from(at.saturating_sub(self.from));
        (since * self.columns as u128 / self.span()) as usize
    }

    /// Returns the instant at which a column begins.
    fn begin(&self, column: usize) -> Time {
        self.from + Time::new((column as u128 * self.span()).div_ceil(self.columns as u128) as u64)
    }

    /// Returns the character that represents a task in a column: the character of the activity with the most time, or
    /// else the character of waiting.
    fn cell(&self, task: usize, column: usize) -> char {
        let (from, to) =
            (self.begin(column), self.begin(column + 1).max(self.begin(column) + Time::TICK));
        let overlap = |a: Time, b: Time| b.min(to).saturating_sub(a.max(from));
        let own = |job: usize| self.schedule.jobs[job].task == task;
        let here = self.schedule.stretches.iter().filter(|it| own(it.job));
        let here = here.filter(|it| overlap(it.from_us, it.to_us) > Time::ZERO);
        if let Some(most) = here.max_by_key(|it| overlap(it.from_us, it.to_us)) {
            return match most.doing {
                CpuActivity::Work if self.schedule.cpus.len() == 1 => '#',
                CpuActivity::Work => char::from_digit(most.cpu as u32 % 36, 36).unwrap_or('#'),
                CpuActivity::Preemption | CpuActivity::Migration => '~',
            };
        }
        let waits = |job: &&ScheduledJob| {
            let end = job.ended_us.unwrap_or(self.schedule.to_us);
            job.task == task && overlap(job.release_us, end) > Time::ZERO
        };
        if self.schedule.jobs.iter().any(|job| waits(&job)) { '.' } else { ' ' }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use corehop_fixtures::task_sets::implicit;
    use corehop_sched::schedule::Stretch;

    /// Makes a schedule in which the long job is preempted at 10, resumes at 15, reloads for 5, and ends at 25; it is
    /// due at 20.
    fn schedule() -> Schedule {
        let job = |task, release_us, due_us, work_us, end| ScheduledJob {
            task,
            arrival_us: Time::new(release_us),
            release_us: Time::new(release_us),
            due_us: Time::new(due_us),
            work_us: Time::new(work_us),
            ended_us: Some(Time::new(end)),
        };
        let stretch = |job, from, to, doing| {
            let [from_us, to_us] = [from, to].map(Time::new);
            Stretch { cpu: 0, job, from_us, to_us, doing }
        };
        Schedule {
            cpus: vec![0],
            from_us: Time::ZERO,
            to_us: Time::new(25),
            jobs: vec![job(1, 0, 20, 15, 25), job(0, 10, 20, 5, 15)],
            stretches: vec![
                stretch(0, 0, 10, CpuActivity::Work),
                stretch(1, 10, 15, CpuActivity::Work),
                stretch(0, 15, 20, CpuActivity::Preemption),
                stretch(0, 20, 25, CpuActivity::Work),
            ],
            subject: 0,
            with_delays: true,
        }
    }

    #[test]
    fn a_bar_shows_who_runs_waits_and_reloads_by_hand() {
        let set = implicit(1, &[(5, 100), (15, 100)]);
        let text = bars(&set, &schedule(), 40);
        let expected = "  task 0                #####
  task 1      ##########.....~~~~~#####
                                  ^
              0                   25 us
              # runs, . waits, ~ reloads
";
        assert_eq!(text, expected);
    }

    #[test]
    fn a_deadline_beyond_the_end_is_told_and_not_marked() {
        let set = implicit(1, &[(5, 100), (15, 100)]);
        let mut later = schedule();
        later.jobs[0].due_us = Time::new(40);
        let text = bars(&set, &later, 60);
        assert!(text.contains("task 1, released at 0 us, is due at 40 us"), "{text}");
        assert!(!text.contains('^'), "{text}");
    }
}
