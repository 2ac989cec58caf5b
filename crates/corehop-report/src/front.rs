// SPDX-License-Identifier: MIT OR Apache-2.0
//! The first screen of a page: the answer, its certainty, a chart with words, and the next command. A kind of result
//! provides its own first screen.

use super::paper::{PaperDrawing, PointForm, TextSide, room};
use super::scale::AxisScale;
use super::table::{interval, micros};
use corehop_stats::replicates::FEWEST_REPLICATES;

/// The first screen of a page.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PageFront {
    /// The title of the page about the results.
    pub title: String,
    /// The answer in sentences; empty if the data give no answer.
    pub answer: String,
    /// The checks that show how certain the answer is.
    pub checks: Vec<SurenessCheck>,
    /// The chart, or `None` if the answer has no numbers to compare.
    pub chart: Option<WordedChart>,
    /// The next command to run, and its effect.
    pub next: Option<(String, &'static str)>,
    /// The command that prints the complete result, for the rest of a long table.
    pub everything: String,
    /// Facts about the data, printed as one line.
    pub facts: Vec<String>,
    /// Warnings about the files, each with its heading.
    pub warnings: Vec<(&'static str, String)>,
}

/// A check of the data behind an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SurenessCheck {
    /// The result of the check, in words.
    pub text: String,
    /// Whether the check supports the answer.
    pub holds: bool,
}

impl SurenessCheck {
    /// Makes a check with its result.
    pub fn new(holds: bool, text: impl Into<String>) -> Self {
        Self { text: text.into(), holds }
    }

    /// Makes a check whether every statistic has enough replicates for an interval; `replicates` yields the number of
    /// replicates of each statistic.
    pub(super) fn replicated(what: &str, replicates: impl Iterator<Item = usize>) -> Option<Self> {
        let fewest = replicates.min()?;
        Some(Self::new(
            fewest >= FEWEST_REPLICATES,
            format!("{what}: at least {fewest}; an interval needs {FEWEST_REPLICATES}"),
        ))
    }
}

/// A chart of values with words, on a common axis.
#[derive(Debug, Clone, PartialEq)]
pub struct WordedChart {
    /// The quantity and its unit, for the axis.
    pub quantity: String,
    /// The unit that follows each value of the chart.
    pub unit: &'static str,
    /// The name of the statistic that each value of the chart represents.
    pub point: &'static str,
    /// The level of the intervals, as a share.
    pub level: f64,
    /// The condition under which all lines were measured, printed below the axis; can be empty.
    pub under: String,
    /// The lines of the chart, from top to bottom.
    pub lines: Vec<WordedLine>,
}

/// A value of a chart, with words that state what was measured.
#[derive(Debug, Clone, PartialEq)]
pub struct WordedLine {
    /// The words that describe the line.
    pub words: String,
    /// The value that the line draws.
    pub value: f64,
    /// The ends of the value's interval, if known.
    pub ends: Option<(f64, f64)>,
    /// The group of the line; lines of one group are comparable and have one colour and shape.
    pub group: usize,
}

impl WordedLine {
    /// Returns at most [`MOST_LINES`] of the lines: the first, the last, and lines at even distances between them.
    pub(super) fn spread(lines: Vec<Self>) -> Vec<Self> {
        let (all, most) = (lines.len(), MOST_LINES);
        let kept: Vec<usize> = (0..most).map(|at| at * (all.max(1) - 1) / (most - 1)).collect();
        let is_kept =
            |(at, line): (usize, Self)| (all <= most || kept.contains(&at)).then_some(line);
        lines.into_iter().enumerate().filter_map(is_kept).collect()
    }
}

/// The largest number of lines in a chart.
pub const MOST_LINES: usize = 5;
const WIDTH: f64 = 460.0;
/// The height of a line with its words, the room above the lines, and the room for the axis below.
const ROW: f64 = 44.0;
const TOP: f64 = 6.0;
const AXIS: f64 = 52.0;
const LEFT: f64 = 14.0;
const INK: &str = "1c2733";
const DIM: &str = "5b6876";
const GRID: &str = "d9dfe6";
/// Colours that are distinguishable with any colour vision (Okabe and Ito), each with a shape for paper without
/// colours.
const GROUPS: [(&str, PointForm); 3] =
    [("0072b2", PointForm::Disc), ("d55e00", PointForm::Square), ("007a5a", PointForm::Diamond)];

impl WordedChart {
    /// Returns the drawing of the chart.
    pub(super) fn drawing(&self) -> PaperDrawing {
        let bottom = TOP + ROW * self.lines.len() as f64;
        let height = bottom + AXIS + if self.under.is_empty() { 0.0 } else { 18.0 };
        let mut drawing = PaperDrawing::new(WIDTH, height, &self.in_words());
        let scale = self.scale();
        self.axis(&mut drawing, &scale, bottom);
        for (at, line) in self.lines.iter().enumerate() {
            self.line(&mut drawing, &scale, line, TOP + ROW * at as f64);
        }
        drawing
    }

    /// Returns a scale that includes zero.
    fn scale(&self) -> AxisScale {
        let ends = |line: &WordedLine| line.ends.map_or([line.value; 2], |(low, high)| [low, high]);
        let values: Vec<f64> =
            self.lines.iter().flat_map(|it| [ends(it), [it.value; 2]].concat()).collect();
        let low = values.iter().copied().fold(0.0, f64::min);
        let high = values.iter().copied().fold(0.0, f64::max);
        // Without any value above or below zero, the axis still needs a length.
        AxisScale::even(low, if high > low { high } else { low + 1.0 })
    }

    fn axis(&self, drawing: &mut PaperDrawing, scale: &AxisScale, bottom: f64) {
        for tick in scale.ticks() {
            let x = place(scale, tick);
            drawing.stroke((x, TOP), (x, bottom + 4.0), 1.0, GRID);
            drawing.text((x, bottom + 18.0), 12.0, TextSide::Middle, DIM, &ticked(tick));
        }
        drawing.stroke((LEFT, bottom), (WIDTH - LEFT, bottom), 1.0, DIM);
        let middle = WIDTH / 2.0;
        drawing.text((middle, bottom + 38.0), 12.0, TextSide::Middle, DIM, &self.quantity);
        drawing.text((middle, bottom + 56.0), 12.0, TextSide::Middle, DIM, &self.under);
    }

    fn line(&self, drawing: &mut PaperDrawing, scale: &AxisScale, line: &WordedLine, top: f64) {
        let (colour, form) = GROUPS[line.group % GROUPS.len()];
        let value = format!("{} {}", micros(line.value), self.unit);
        let left = WIDTH - LEFT - room(&value, 13.0, true) - 10.0;
        let words = cut(&line.words, left - LEFT);
        drawing.text((LEFT, top + 15.0), 13.0, TextSide::Right, INK, &words);
        drawing.bold((WIDTH - LEFT, top + 15.0), 13.0, TextSide::Left, &value);
        let y = top + 30.0;
        if let Some((low, high)) = line.ends {
            let (low, high) = (place(scale, low), place(scale, high));
            drawing.stroke((low, y), (high, y), 2.5, colour);
            for end in [low, high] {
                drawing.stroke((end, y - 5.0), (end, y + 5.0), 2.0, colour);
            }
        }
        drawing.point((place(scale, line.value), y), form, colour);
    }

    /// Returns the chart in words, for readers who cannot see it.
    fn in_words(&self) -> String {
        let line = |it: &WordedLine| {
            let ends = it.ends.map_or_else(String::new, |(low, high)| {
                format!(" {}", interval(Some(low), Some(high)))
            });
            format!("{}: {} {}{ends}", it.words, micros(it.value), self.unit)
        };
        let lines: Vec<String> = self.lines.iter().map(line).collect();
        format!("{}. {}", self.quantity, lines.join("; "))
    }
}

fn place(scale: &AxisScale, value: f64) -> f64 {
    LEFT + 10.0 + (WIDTH - 2.0 * LEFT - 20.0) * scale.place(value)
}

/// Returns the number of a tick, without decimals if the value is whole.
fn ticked(value: f64) -> String {
    if value.fract() == 0.0 { format!("{value:.0}") } else { micros(value) }
}

/// Shortens words to the width `most`.
fn cut(words: &str, most: f64) -> String {
    let mut words = words.to_owned();
    if room(&words, 13.0, false) <= most {
        return words;
    }
    while room(&words, 13.0, false) + 13.0 > most && words.pop().is_some() {}
    format!("{}…", words.trim_end())
}

/// Joins clauses to one sentence with a full stop.
pub(super) fn in_a_sentence(clauses: &[String]) -> String {
    let clauses: Vec<&str> = clauses.iter().map(|it| it.trim_end_matches('.')).collect();
    if clauses.is_empty() { String::new() } else { format!("{}.", clauses.join("; ")) }
}

/// Quotes a word of a command line for a shell.
pub fn shell_word(word: &str) -> String {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "._-/+:=,".contains(letter);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

/// Quotes the name of a file for a shell, so that no program takes the name for an option.
pub fn shell_path(name: &str) -> String {
    let word = shell_word(name);
    if name.starts_with('-') { format!("./{word}") } else { word }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart() -> WordedChart {
        let line = |words: &str, value, ends, group| WordedLine {
            words: words.to_owned(),
            value,
            ends,
            group,
        };
        WordedChart {
            quantity: "cost in µs".to_owned(),
            unit: "µs",
            point: "median",
            level: 0.95,
            under: String::new(),
            lines: vec![
                line("after 4 ms, nothing else ran", 240.0, Some((54.0, 376.0)), 0),
                line("after 4 ms, another job ran", 288.0, None, 1),
            ],
        }
    }

    #[test]
    fn a_chart_says_its_lines_in_words_and_draws_the_intervals_it_knows() {
        let svg = chart().drawing().svg();
        for words in [
            "after 4 ms, nothing else ran",
            "another job ran",
            ">240 µs<",
            ">288 µs<",
            ">cost in µs<",
        ] {
            assert!(svg.contains(words), "{words}: {svg}");
        }
        assert!(svg.contains(
            "aria-label=\"cost in µs. after 4 ms, nothing else ran: 240 µs [54.0, 376]; after"
        ));
        // An interval is a line with two ends.
        assert_eq!(svg.matches("stroke=\"#0072b2\"").count(), 3);
        assert_eq!(svg.matches("#d55e00").count(), 1);
    }

    #[test]
    fn groups_differ_in_colour_and_in_form() {
        for (at, (colour, form)) in GROUPS.iter().enumerate() {
            let others = GROUPS.iter().skip(at + 1);
            assert!(others.clone().all(|other| other.0 != *colour && other.1 != *form));
        }
    }

    #[test]
    fn values_of_zero_have_an_axis_from_zero_on() {
        let mut chart = chart();
        for line in &mut chart.lines {
            (line.value, line.ends) = (0.0, None);
        }
        let svg = chart.drawing().svg();
        assert!(svg.contains(">0<") && !svg.contains(">-"), "{svg}");
    }

    #[test]
    fn clauses_become_one_sentence() {
        assert_eq!(in_a_sentence(&["a b".to_owned(), "c.".to_owned()]), "a b; c.");
        assert_eq!(in_a_sentence(&[]), "");
    }

    #[test]
    fn words_too_long_for_their_room_end_with_dots() {
        let mut chart = chart();
        chart.lines[0].words = "x".repeat(200);
        let svg = chart.drawing().svg();
        assert!(svg.contains("xx…<"), "{svg}");
    }

    #[test]
    fn a_file_name_with_other_letters_is_quoted() {
        assert_eq!(shell_word("out/quick.parquet"), "out/quick.parquet");
        assert_eq!(shell_word("it's; rm"), "'it'\\''s; rm'");
        assert_eq!(shell_word(""), "''");
    }
}
