// SPDX-License-Identifier: MIT OR Apache-2.0
//! A schedule as a drawing (a Gantt chart) with a row for each CPU and each task, and marks for releases, deadlines and
//! reloads; a single SVG file for dark and light pages.

use std::fmt::Write as _;

use super::escape::escape_xml;
use super::table::wrapped;
use corehop_plan::workload::task::{TaskSet, Time};
use corehop_sched::schedule::{CpuActivity, Schedule, ScheduledJob, Stretch};
use corehop_sched::sentence::called;

/// The colours of tasks, which readers with any colour vision can tell apart (Okabe and Ito).
const COLOURS: [&str; 8] =
    ["#0072b2", "#d55e00", "#009e73", "#a04f84", "#b08a00", "#56b4e9", "#4c6a88", "#8c564b"];
/// The drawing shows at most this many rows of tasks, and at most `JOBS` jobs before the job in question.
const ROWS: usize = 40;
const JOBS: usize = 120;
/// The left and right end of the time axis, the top of the first row, and the height of a row, in pixels.
const LEFT: f64 = 150.0;
const RIGHT: f64 = 960.0;
const ROW: f64 = 40.0;
const WIDTH: f64 = 990.0;
/// The most characters in a line of the title and in a line of the sentence below the title.
const TITLE: usize = 105;
const SENTENCE: usize = 145;

/// Returns the tasks that a drawing shows, in ascending order: the tasks that execute the longest, and always the task
/// of the schedule's job in question.
pub(super) fn picked(schedule: &Schedule, most: usize) -> Vec<usize> {
    let own = schedule.subject().task;
    let work = |task: usize| -> Time {
        let of = |it: &&Stretch| schedule.jobs[it.job].task == task;
        let here = schedule.stretches.iter().filter(of);
        here.map(|it| it.to_us - it.from_us).sum()
    };
    let mut tasks = schedule.tasks();
    tasks.sort_by_key(|&task| (task != own, std::cmp::Reverse(work(task)), task));
    tasks.truncate(most);
    tasks.sort_unstable();
    tasks
}

/// Draws a schedule under a title, with a sentence below the title.
pub fn draw(set: &TaskSet, schedule: &Schedule, title: &str, sentence: &str) -> String {
    let schedule = &schedule.end(JOBS);
    let (titles, sentences) = (lines(title, TITLE), lines(sentence, SENTENCE));
    let top = 22.0 + 20.0 * titles.len() as f64 + 16.0 * sentences.len() as f64;
    let chart = Chart { set, schedule, from: schedule.from_us, top, tasks: picked(schedule, ROWS) };
    let rows = schedule.cpus.len() + chart.tasks.len();
    let bottom = top + ROW * rows as f64;
    let mut svg = String::new();
    head(&mut svg, (&titles, &sentences), bottom + 58.0);
    chart.axis(&mut svg, bottom);
    for (row, &cpu) in schedule.cpus.iter().enumerate() {
        chart.label(&mut svg, row, &format!("CPU {cpu}"));
        let here = schedule.stretches.iter().filter(|it| it.cpu == cpu);
        here.for_each(|it| chart.stretch(&mut svg, row, it));
    }
    for (at, &task) in chart.tasks.iter().enumerate() {
        let row = schedule.cpus.len() + at;
        chart.label(&mut svg, row, called(set, task).trim_matches('`'));
        chart.task(&mut svg, row, task);
    }
    chart.key(&mut svg, bottom + 46.0);
    svg.push_str("</g></svg>\n");
    svg
}

/// Breaks a text into lines of at most `most` characters.
fn lines(text: &str, most: usize) -> Vec<String> {
    wrapped(text, most).lines().map(str::to_owned).collect()
}

fn head(svg: &mut String, (titles, sentences): (&[String], &[String]), height: f64) {
    let title = escape_xml(&titles.join(" "));
    // Writing to a string cannot fail, here and below.
    let _ = write!(
        svg,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH:.0} {height:.0}\" \
         width=\"{WIDTH:.0}\" height=\"{height:.0}\" role=\"img\" \
         style=\"max-width:100%;height:auto\"><title>{title}</title>\
         <style>{STYLE}</style><g class=\"corehop-schedule\">\
         <rect class=\"page\" width=\"100%\" height=\"100%\"/>"
    );
    let mut y = 6.0;
    for line in titles {
        y += 20.0;
        let line = escape_xml(line);
        let _ = write!(svg, "<text class=\"title\" x=\"16\" y=\"{y:.0}\">{line}</text>");
    }
    for line in sentences {
        y += 16.0;
        let _ = write!(svg, "<text x=\"16\" y=\"{y:.0}\">{}</text>", escape_xml(line));
    }
}

/// The style sheet of the drawing has its colours as variables, with one set for light and one for dark pages.
const STYLE: &str = "\
.corehop-schedule{--page:#ffffff;--ink:#1d2733;--dim:#5b6875;--line:#d5dbe1;--bad:#b3261e;\
font-family:system-ui,-apple-system,'Segoe UI',Roboto,sans-serif}\
:root[data-theme=dark] .corehop-schedule{--page:#14181d;--ink:#e6ebf1;--dim:#9aa7b5;--line:#2c343d;--bad:#ff8a80}\
@media (prefers-color-scheme:dark){:root:not([data-theme=light]) .corehop-schedule{--page:#14181d;\
--ink:#e6ebf1;--dim:#9aa7b5;--line:#2c343d;--bad:#ff8a80}}\
.corehop-schedule .page{fill:var(--page)}\
.corehop-schedule text{fill:var(--dim);font-size:12px}\
.corehop-schedule .title{fill:var(--ink);font-size:15px;font-weight:600}\
.corehop-schedule .name{fill:var(--ink);text-anchor:end}\
.corehop-schedule .tick{text-anchor:middle;font-size:11px}\
.corehop-schedule .line{stroke:var(--line);stroke-width:1}\
.corehop-schedule .base{stroke:var(--dim);stroke-width:1}\
.corehop-schedule .on{fill:#ffffff;font-size:11px;text-anchor:middle}\
.corehop-schedule .reload{fill-opacity:.35;stroke-dasharray:3 2}\
.corehop-schedule .wait{stroke:var(--dim);stroke-width:1;stroke-dasharray:2 3}\
.corehop-schedule .release{stroke:var(--ink);fill:var(--ink);stroke-width:1.5}\
.corehop-schedule .due{stroke:var(--dim);fill:none;stroke-width:1.5}\
.corehop-schedule .missed{stroke:var(--bad);fill:var(--bad);stroke-width:3}\
.corehop-schedule .late{fill:none;stroke:var(--bad);stroke-width:2}\
.corehop-schedule text.bad{fill:var(--bad);font-weight:600}";

/// The properties that all rows of the drawing have in common.
struct Chart<'a> {
    set: &'a TaskSet,
    schedule: &'a Schedule,
    from: Time,
    /// The vertical place of the top of the first row.
    top: f64,
    tasks: Vec<usize>,
}

impl Chart<'_> {
    fn x(&self, at: Time) -> f64 {
        let all = (self.schedule.to_us - self.from).max(Time::TICK).as_f64();
        let since = at.clamp(self.from, self.schedule.to_us) - self.from;
        LEFT + (RIGHT - LEFT) * since.as_f64() / all
    }

    /// Returns the vertical position of the lower edge of the boxes in a row.
    fn base(&self, row: usize) -> f64 {
        self.top + ROW * (row + 1) as f64 - 6.0
    }

    fn is_shown(&self, at: Time) -> bool {
        (self.from..=self.schedule.to_us).contains(&at)
    }

    fn label(&self, svg: &mut String, row: usize, name: &str) {
        let name: String = name.chars().take(20).collect();
        let base = self.base(row);
        let _ = write!(
            svg,
            "<text class=\"name\" x=\"{:.0}\" y=\"{:.0}\">{}</text>\
             <line class=\"base\" x1=\"{LEFT}\" y1=\"{base:.1}\" x2=\"{RIGHT}\" y2=\"{base:.1}\"/>",
            LEFT - 10.0,
            base - 6.0,
            escape_xml(&name),
        );
    }

    /// Draws round times below the rows.
    fn axis(&self, svg: &mut String, bottom: f64) {
        let all = self.schedule.to_us - self.from;
        let step = round_step(all);
        for nth in 0..=all / step {
            let x = self.x(self.from + nth * step);
            let _ = write!(
                svg,
                "<line class=\"line\" x1=\"{x:.1}\" y1=\"{:.1}\" x2=\"{x:.1}\" y2=\"{bottom:.1}\"/>\
                 <text class=\"tick\" x=\"{x:.1}\" y=\"{:.1}\">{}</text>",
                self.top,
                bottom + 16.0,
                if nth == 0 { "0".to_owned() } else { self.set.tick().span(nth * step) },
            );
        }
    }

    /// Draws a stretch of a job in a row.
    fn stretch(&self, svg: &mut String, row: usize, it: &Stretch) {
        let task = self.schedule.jobs[it.job].task;
        let colour = COLOURS[task % COLOURS.len()];
        let (x, y) = (self.x(it.from_us), self.base(row) - 18.0);
        let width = (self.x(it.to_us) - x).max(0.5);
        let (class, what) = match it.doing {
            CpuActivity::Work => ("", "executes"),
            CpuActivity::Preemption => (" class=\"reload\"", "reloads after a preemption"),
            CpuActivity::Migration => (" class=\"reload\"", "reloads after a migration"),
        };
        let name = escape_xml(&called(self.set, task));
        let _ = write!(
            svg,
            "<g><title>{name} {what} on CPU {} for {}, from {}</title>\
             <rect{class} x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"18\" fill=\"{colour}\" stroke=\"{colour}\"/>",
            it.cpu,
            self.set.tick().span(it.to_us - it.from_us),
            self.set.tick().span(it.from_us.saturating_sub(self.from)),
        );
        let label = self.box_label(row, it, task);
        if it.doing == CpuActivity::Work && width > 7.0 * label.chars().count() as f64 + 4.0 {
            let _ = write!(
                svg,
                "<text class=\"on\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
                x + width / 2.0,
                y + 13.0,
                escape_xml(&label)
            );
        }
        svg.push_str("</g>");
    }

    /// Returns the text in a box: the task in the row of a CPU, or the CPU in the row of a task.
    fn box_label(&self, row: usize, it: &Stretch, task: usize) -> String {
        match (row < self.schedule.cpus.len(), self.schedule.cpus.len()) {
            (true, _) => called(self.set, task).trim_matches('`').to_owned(),
            (false, 1) => String::new(),
            (false, _) => it.cpu.to_string(),
        }
    }

    /// Draws the jobs of a task: the times in which they wait, the times in which they execute, their releases and
    /// their deadlines.
    fn task(&self, svg: &mut String, row: usize, task: usize) {
        let base = self.base(row);
        let jobs = || self.schedule.jobs.iter().enumerate().filter(|(_, job)| job.task == task);
        for (_, job) in jobs() {
            let end = job.ended_us.unwrap_or(self.schedule.to_us);
            let middle = base - 9.0;
            let _ = write!(
                svg,
                "<line class=\"wait\" x1=\"{:.1}\" y1=\"{middle:.1}\" x2=\"{:.1}\" y2=\"{middle:.1}\"/>",
                self.x(job.release_us),
                self.x(end),
            );
        }
        let own = |it: &&Stretch| self.schedule.jobs[it.job].task == task;
        self.schedule.stretches.iter().filter(own).for_each(|it| self.stretch(svg, row, it));
        for (at, job) in jobs() {
            self.marks(svg, base, job, at == self.schedule.subject);
        }
    }

    /// Draws an upward arrow at the release of a job, and a downward arrow at its deadline, which is red if the job
    /// misses the deadline.
    fn marks(&self, svg: &mut String, base: f64, job: &ScheduledJob, subject: bool) {
        let top = base - 24.0;
        if self.is_shown(job.release_us) {
            let x = self.x(job.release_us);
            let _ = write!(
                svg,
                "<g><title>released at {}</title><line class=\"release\" x1=\"{x:.1}\" y1=\"{base:.1}\" x2=\"{x:.1}\" \
                 y2=\"{top:.1}\"/><path class=\"release\" d=\"M{x:.1} {top:.1}l-3 5h6z\"/></g>",
                self.set.tick().span(job.release_us - self.from),
            );
        }
        if !self.is_shown(job.due_us) {
            return;
        }
        let end = job.ended_us.unwrap_or(self.schedule.to_us);
        let missed = end > job.due_us;
        let x = self.x(job.due_us);
        let class = if missed { "missed" } else { "due" };
        let _ = write!(
            svg,
            "<g><title>due at {}</title><line class=\"{class}\" x1=\"{x:.1}\" y1=\"{top:.1}\" x2=\"{x:.1}\" y2=\"{base:.1}\"/>\
             <path class=\"{class}\" d=\"M{x:.1} {base:.1}l-3 -5h6z\"/></g>",
            self.set.tick().span(job.due_us - self.from),
        );
        if missed && subject {
            let (width, side) = (self.x(end) - x, if x > RIGHT - 100.0 { "end" } else { "start" });
            let _ = write!(
                svg,
                "<rect class=\"late\" x=\"{x:.1}\" y=\"{:.1}\" width=\"{width:.1}\" height=\"18\"/>\
                 <text class=\"bad\" style=\"text-anchor:{side}\" x=\"{:.1}\" y=\"{:.1}\">{} late</text>",
                base - 18.0,
                if side == "end" { x - 6.0 } else { x + 6.0 },
                top + 3.0,
                self.set.tick().span(self.schedule.late_us()),
            );
        }
    }

    /// Draws the legend of the marks.
    fn key(&self, svg: &mut String, y: f64) {
        let mut words = vec!["↑ release", "↓ deadline", "dashes: waits"];
        if self.schedule.cpus.len() > 1 {
            words.push("numbers: CPUs");
        }
        if self.schedule.with_delays {
            words.push("pale: reloads after a preemption or migration");
        }
        let hidden = self.schedule.tasks().len() - self.tasks.len();
        let more =
            if hidden > 0 { format!("; {hidden} tasks more are not shown") } else { String::new() };
        let _ = write!(svg, "<text x=\"16\" y=\"{y:.0}\">{}{more}</text>", words.join(" · "));
    }
}

/// Returns a round step, about ten of which make up the whole time.
fn round_step(all: Time) -> Time {
    let mut step = Time::TICK;
    loop {
        for by in [1, 2, 5] {
            if all / (step * by) <= 10 {
                return step * by;
            }
        }
        step = step * 10;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_of_the_axis_are_round() {
        for (all, step) in [(1, 1), (10, 1), (11, 2), (25, 5), (12_000, 2_000), (99_999, 10_000)] {
            assert_eq!(round_step(Time::new(all)), Time::new(step), "{all}");
        }
    }
}
