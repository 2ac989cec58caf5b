// SPDX-License-Identifier: MIT OR Apache-2.0
//! The history of one page: the threads that were seen writing to it, and how often it passed from one thread to
//! another.

/// The number of remembered lines per thread.
const LINES: usize = 16;
/// The number of remembered threads per page.
const WRITERS: usize = 6;
/// The number of consecutive writes by one thread after which a page counts as private to that thread.
const OWN_AFTER: u32 = 4;
/// The number of consecutive writes by one thread after which a page that several threads wrote counts as private.
const LEFT_AFTER: u32 = 12;
/// The number of hand-overs from which a pair is reported. One or two hand-overs can result from threads that begin or
/// end.
const TOLD_FROM: f64 = 3.0;
/// The number of writes after which older writes count half.
const MANY: u32 = 64;

/// A thread that wrote to the page, and the lines that it last wrote.
#[derive(Debug, Clone)]
struct Writer {
    tid: u32,
    lines: Vec<u8>,
}

/// A number of hand-overs, and the time in which they were seen.
#[derive(Debug, Clone, Copy, Default)]
struct HandoverRate {
    handovers: f64,
    ns: f64,
}

impl HandoverRate {
    fn per_second(&self) -> f64 {
        if self.ns > 0.0 { self.handovers * 1e9 / self.ns } else { 0.0 }
    }

    fn halve(&mut self) {
        self.handovers /= 2.0;
        self.ns /= 2.0;
    }
}

/// A write to a page.
#[derive(Debug, Clone, Copy)]
pub(super) struct Write {
    /// The thread that wrote.
    pub(super) tid: u32,
    /// The index of the line in the page.
    pub(super) line: u8,
    pub(super) at_ns: u64,
    /// Whether the page was protected again immediately after the previous write.
    pub(super) quick: bool,
}

/// The known history of a page.
#[derive(Debug, Default)]
pub(super) struct PageHistory {
    writers: Vec<Writer>,
    last: Option<Write>,
    /// The number of consecutive writes by the last thread.
    in_a_row: u32,
    /// The number of writes that count.
    writes: u32,
    /// The rates of hand-overs seen soon after a write, and after a pause. Both rates are lower bounds.
    soon: HandoverRate,
    late: HandoverRate,
    /// Hand-overs by pair of threads: all that count, and those not yet reported.
    pairs: Vec<(HandoverPair, f64, u64)>,
}

/// Two threads, the lower thread ID first.
pub(super) type HandoverPair = (u32, u32);

impl PageHistory {
    /// Adds a write to the history of the page. Returns true if the write hands the page over: the previous write came
    /// from another thread, and this thread had also written to the page earlier.
    ///
    /// A page that passes to a thread permanently does not count as handed over, because one thread may prepare data
    /// for another.
    pub(super) fn take(&mut self, write: Write) -> bool {
        let returns = self.writers.iter().any(|it| it.tid == write.tid);
        let before = self.last.replace(write);
        let changes = before.is_some_and(|it| it.tid != write.tid);
        self.enter(write);
        self.in_a_row = if changes { 1 } else { self.in_a_row + 1 };
        let handed_over = changes && returns;
        if let Some(before) = before {
            let seen = if write.quick { &mut self.soon } else { &mut self.late };
            seen.ns += write.at_ns.saturating_sub(before.at_ns) as f64;
            seen.handovers += f64::from(u8::from(handed_over));
            if handed_over {
                self.count((before.tid.min(write.tid), before.tid.max(write.tid)));
            }
        }
        self.fade();
        handed_over
    }

    fn enter(&mut self, write: Write) {
        let at = self.writers.iter().position(|it| it.tid == write.tid);
        let mut writer = match at {
            Some(at) => self.writers.remove(at),
            None => Writer { tid: write.tid, lines: Vec::with_capacity(LINES) },
        };
        if writer.lines.len() == LINES {
            writer.lines.remove(0);
        }
        writer.lines.push(write.line);
        if self.writers.len() == WRITERS {
            self.writers.remove(0);
        }
        self.writers.push(writer);
    }

    fn count(&mut self, pair: HandoverPair) {
        match self.pairs.iter_mut().find(|it| it.0 == pair) {
            Some((_, all, new)) => {
                *all += 1.0;
                *new += 1;
            }
            None => self.pairs.push((pair, 1.0, 1)),
        }
    }

    fn fade(&mut self) {
        self.writes += 1;
        if self.writes < MANY {
            return;
        }
        self.writes /= 2;
        self.soon.halve();
        self.late.halve();
        self.pairs.iter_mut().for_each(|it| it.1 /= 2.0);
        self.pairs.retain(|it| it.1 >= 0.25 || it.2 > 0);
    }

    /// The last write to the page.
    pub(super) fn last(&self) -> Option<Write> {
        self.last
    }

    /// Whether several threads are known to write to the page.
    pub(super) fn is_shared(&self) -> bool {
        self.writers.len() > 1
    }

    /// The number of consecutive writes by the last thread.
    pub(super) fn in_a_row(&self) -> u32 {
        self.in_a_row
    }

    /// Whether further looks are useless, because the page is private to one thread or its threads write to separate
    /// lines.
    pub(super) fn is_own(&self) -> bool {
        let alone = self.in_a_row >= if self.is_shared() { LEFT_AFTER } else { OWN_AFTER };
        alone || (!self.pairs.is_empty() && self.pairs.iter().all(|it| self.apart(it.0)))
    }

    /// Whether the threads of this pair write to separate lines, so that they share only the page.
    ///
    /// If both chose from common lines, writes of different threads would meet in a line as often as two writes of
    /// one thread. The threads count as separate if they never meet where at least five meetings are expected
    /// (probability below 1 %).
    fn apart(&self, (a, b): HandoverPair) -> bool {
        let lines = |tid: u32| self.writers.iter().find(|it| it.tid == tid).map(|it| &it.lines);
        let (Some(a), Some(b)) = (lines(a), lines(b)) else { return false };
        if a.iter().any(|line| b.contains(line)) {
            return false;
        }
        let all = |of: &[u8]| (of.len() * of.len().saturating_sub(1) / 2) as f64;
        let pairs = all(a) + all(b);
        let met = (met(a) + met(b)) as f64;
        pairs > 0.0 && (a.len() * b.len()) as f64 * met / pairs >= 5.0
    }

    /// The pairs with unreported hand-overs: their number, and the page's share of the pair's rate.
    pub(super) fn pairs(&mut self) -> Vec<(HandoverPair, u64, f64)> {
        let rate = self.soon.per_second().max(self.late.per_second());
        let all: f64 = self.pairs.iter().map(|it| it.1).sum();
        let pairs: Vec<HandoverPair> = self.pairs.iter().map(|it| it.0).collect();
        let apart: Vec<bool> = pairs.into_iter().map(|it| self.apart(it)).collect();
        let one = |((pair, count, new), apart): (&mut (HandoverPair, f64, u64), bool)| {
            let told = *count >= TOLD_FROM && !apart;
            told.then(|| (*pair, std::mem::take(new), rate * *count / all))
        };
        self.pairs.iter_mut().zip(apart).filter_map(one).collect()
    }
}

/// The number of pairs of writes that met in a line.
fn met(lines: &[u8]) -> usize {
    let pairs = |at: usize| (at + 1..lines.len()).map(move |other| (at, other));
    (0..lines.len()).flat_map(pairs).filter(|&(a, b)| lines[a] == lines[b]).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the history of a page after these writes, which are one microsecond apart.
    fn page(writes: impl IntoIterator<Item = (u32, u8)>) -> PageHistory {
        let mut page = PageHistory::default();
        for (at, (tid, line)) in writes.into_iter().enumerate() {
            page.take(Write { tid, line, at_ns: at as u64 * 1_000, quick: true });
        }
        page
    }

    #[test]
    fn two_threads_that_take_turns_hand_over_at_each_write_but_the_first_two() {
        let mut it = page([(2, 0), (1, 0), (2, 0), (1, 0), (2, 0)]);
        let pairs = it.pairs();
        // Three in four microseconds.
        assert_eq!(pairs, [((1, 2), 3, 750_000.0)]);
        // They are told once, the rate as long as the page is known.
        assert_eq!(it.pairs(), [((1, 2), 0, 750_000.0)]);
    }

    #[test]
    fn a_page_that_one_thread_prepares_for_another_is_handed_over_by_none() {
        let mut it = page([(1, 0), (1, 1), (2, 0), (2, 1), (2, 0)]);
        assert_eq!(it.pairs(), []);
        assert!(it.is_shared() && !it.is_own());
    }

    #[test]
    fn two_hand_overs_are_told_with_the_third() {
        let mut it = page([(2, 0), (1, 0), (2, 0), (1, 0)]);
        assert_eq!(it.pairs(), []);
        it.take(Write { tid: 2, line: 0, at_ns: 4_000, quick: true });
        assert_eq!(it.pairs()[0].1, 3);
    }

    #[test]
    fn a_page_that_one_thread_writes_is_its_own_after_four_writes() {
        assert!(!page([(1, 0); 3]).is_own());
        assert!(page([(1, 0); 4]).is_own());
        let left = [(2, 0), (1, 0), (2, 0)].into_iter().chain([(1, 0); 12]);
        assert!(page(left).is_own());
    }

    #[test]
    fn threads_that_write_to_lines_of_their_own_share_nothing() {
        let turns = |lines: [u8; 2]| (0..12).map(move |at| (1 + at % 2, lines[at as usize % 2]));
        assert_eq!(page(turns([3, 40])).pairs(), []);
        assert!(page(turns([3, 40])).is_own() && !page(turns([3, 3])).is_own());
        assert_eq!(page(turns([3, 3])).pairs().len(), 1);
        // Lines drawn from the whole page seldom meet: that says nothing.
        let drawn = (0..12_u32).map(|at| (1 + at % 2, (at * 29 % 64) as u8));
        assert_eq!(page(drawn).pairs().len(), 1);
    }

    #[test]
    fn three_threads_have_the_hand_overs_of_each_pair() {
        let mut it = page((0..14).map(|at| (1 + at % 3, 0)));
        let mut seen: Vec<_> = it.pairs().into_iter().map(|(pair, seen, _)| (pair, seen)).collect();
        seen.sort_unstable();
        // Twice or once they hand over before that is no chance any more.
        assert_eq!(seen, [((1, 2), 4), ((1, 3), 4), ((2, 3), 3)]);
    }

    #[test]
    fn a_rate_is_the_larger_of_two_lower_bounds() {
        let mut it = PageHistory::default();
        for round in 0..3 {
            let at_ns = round * 1_000_000;
            it.take(Write { tid: 1, line: 0, at_ns, quick: false });
            it.take(Write { tid: 2, line: 0, at_ns: at_ns + 10_000, quick: true });
        }
        // Soon: two in 30 microseconds, as the first time was no hand-over. Late: two in 2 milliseconds.
        let (_, seen, rate) = it.pairs()[0];
        assert_eq!(seen, 4);
        assert!((rate - 2.0 / 30e-6).abs() < 1.0, "{rate}");
    }
}
