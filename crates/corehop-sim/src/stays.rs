// SPDX-License-Identifier: MIT OR Apache-2.0
//! The time of address translation if only one in `weight` cache sets is simulated, so that each visit represents
//! `weight` visits.
//!
//! Some translations are lost because other pages of the same walk evict them; such misses recur, so their costs
//! apply to all represented visits. A translation that another user of the CPU evicted causes only one page-table
//! walk, at the page's first visit. A page's first visit in a walk therefore counts its own cost once, and the
//! visits that it represents cost the average of recent visits.
//!
//! This rule applies to every walk, whether or not the TLBs had another user before. The visits to a page are
//! irregular, and the gap that spans the end of a walk is longer on average than other gaps, because a given
//! instant is more likely to be in a long gap. The first visit is therefore dearer even in an undisturbed walk. If
//! the first visit counted once after an absence but `weight` times in the warm touch, every absence would seem too
//! cheap by the difference.
//!
//! If a walk visits random pages, because each page has few of the simulated lines ([`Manner::any_page`]), a visit
//! costs the average of recent visits. The first visits to pages that the walk misses are added to the first visits
//! to other pages.
//!
//! [`Manner::any_page`]: super::walker::Manner::any_page

use super::times::Picos;

/// A user of a CPU's TLBs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum User {
    Job,
    /// The task with this number.
    Task(usize),
    /// The actor at this index.
    Actor(usize),
    /// The operating system and other short-term users.
    Others,
}

impl User {
    /// A unique number for each user.
    const fn place(self) -> usize {
        match self {
            Self::Job => 0,
            Self::Others => 1,
            Self::Task(number) => 2 * number + 2,
            Self::Actor(place) => 2 * place + 3,
        }
    }
}

/// The number of last-visit entries per CPU, enough for the consecutive base pages of 32 MiB.
const PAGES: usize = 8_192;

/// The users of the TLBs of all CPUs.
#[derive(Debug, Clone, Default)]
pub(super) struct TlbOccupancy {
    /// The current stay on each CPU.
    cpus: Vec<Stay>,
    /// The usual visit costs of each user, by [`User::place`].
    usual: Vec<Usual>,
    /// The number of walks so far.
    count: u32,
}

/// A period in which one user has the TLBs of a CPU, counted in walks.
#[derive(Debug, Clone, Default)]
struct Stay {
    user: Option<User>,
    /// The first walk of the stay.
    first: u32,
    /// The current walk.
    walk: u32,
    /// The last walk that visited each page, indexed by the page's low bits because the pages of a walk are
    /// consecutive. The list is empty before the first visit.
    pages: Vec<u32>,
}

/// The costs of a user's visits to pages already visited in the same walk or stay.
#[derive(Debug, Clone, Copy, Default)]
struct Usual {
    picos: Picos,
    visits: u64,
}

impl TlbOccupancy {
    /// Creates the TLB occupancy of `cpus` CPUs, without users.
    pub(super) fn new(cpus: usize) -> Self {
        Self { cpus: vec![Stay::default(); cpus], ..Self::default() }
    }

    /// Forgets the costs and stays of the previous job, because a new job begins.
    pub(super) fn begin_job(&mut self) {
        if let Some(usual) = self.usual.get_mut(User::Job.place()) {
            *usual = Usual::default();
        }
        for stay in self.cpus.iter_mut().filter(|stay| stay.user == Some(User::Job)) {
            stay.user = None;
        }
    }

    /// Ends the stay on `cpu`, because its TLBs were flushed.
    pub(super) fn end(&mut self, cpu: usize) {
        self.cpus[cpu].user = None;
    }

    /// Records that a walk of `user` on `cpu` begins.
    #[inline]
    pub(super) fn begin_walk(&mut self, cpu: usize, user: User) {
        let stay = &mut self.cpus[cpu];
        if stay.user == Some(user) {
            self.count += 1;
            stay.walk = self.count;
        }
    }

    /// The current stay of `user` on `cpu`; starts a new stay if another user came in between.
    #[inline]
    pub(super) fn of(&mut self, cpu: usize, user: User) -> StayLedger<'_> {
        let stay = &mut self.cpus[cpu];
        if stay.user != Some(user) {
            self.count += 1;
            (stay.user, stay.first, stay.walk) = (Some(user), self.count, self.count);
        }
        let place = user.place();
        if place >= self.usual.len() {
            self.usual.resize(place + 1, Usual::default());
        }
        StayLedger { stay, usual: &mut self.usual[place] }
    }
}

/// The translation costs of a user on a CPU.
pub(super) struct StayLedger<'a> {
    stay: &'a mut Stay,
    usual: &'a mut Usual,
}

impl StayLedger<'_> {
    /// The translation time of `weight` visits to a page, of which one simulated visit takes `picos`. In walks over
    /// random pages (`any_page`), a page's first visit represents this many thousandths of first visits.
    #[inline]
    pub(super) fn of(
        &mut self,
        page: u32,
        picos: Picos,
        weight: Picos,
        any_page: Option<Picos>,
    ) -> Picos {
        let Stay { first, walk, pages, .. } = &mut *self.stay;
        if pages.is_empty() {
            pages.resize(PAGES, 0);
        }
        let last = std::mem::replace(&mut pages[page as usize % PAGES], *walk);
        let Some(firsts) = any_page else {
            if last == *walk {
                self.usual.add(picos);
                return picos * weight;
            }
            return picos + self.usual.of(weight - 1);
        };
        // In the first walk of a stay only pages come again that come soon.
        if last >= *first && walk > first {
            self.usual.add(picos);
        }
        if last == *walk {
            return self.usual.of(weight);
        }
        (picos * firsts + self.usual.of(weight * 1_000 - firsts)) / 1_000
    }
}

impl Usual {
    #[inline]
    fn add(&mut self, picos: Picos) {
        self.picos += picos;
        self.visits += 1;
    }

    /// The average cost of `visits` visits.
    #[inline]
    fn of(&self, visits: Picos) -> Picos {
        visits * self.picos / self.visits.max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_s_first_visit_since_others_came_counts_once_and_those_it_stands_for_as_on_average() {
        let mut stays = TlbOccupancy::new(2);
        let mut of = |user, page, picos| stays.of(0, user).of(page, picos, 16, None);
        // Two pages are walked for, once each; then one costs something again, which is the walk's own doing.
        assert_eq!([of(User::Job, 1, 50), of(User::Job, 2, 50)], [50, 50]);
        assert_eq!([of(User::Job, 1, 0), of(User::Job, 2, 40)], [0, 640]);
        // Somebody else: the pages are walked for again, and of each 15 visits more cost 20 on average.
        assert_eq!(of(User::Actor(0), 9, 50), 50);
        assert_eq!([of(User::Job, 1, 50), of(User::Job, 2, 0)], [50 + 15 * 20, 15 * 20]);
        assert_eq!(of(User::Job, 1, 0), 0);
    }

    #[test]
    fn cpus_and_jobs_have_accounts_of_their_own() {
        let mut stays = TlbOccupancy::new(2);
        assert_eq!(stays.of(0, User::Job).of(1, 50, 16, None), 50);
        assert_eq!(stays.of(0, User::Job).of(1, 50, 16, None), 800);
        // The other CPU's TLBs have never seen the page.
        assert_eq!(stays.of(1, User::Job).of(1, 50, 16, None), 50 + 15 * 50);
        stays.begin_job();
        assert_eq!(stays.of(0, User::Job).of(1, 50, 16, None), 50);
    }

    #[test]
    fn a_page_s_first_visit_in_each_walk_counts_once_whether_others_came_or_not() {
        let mut stays = TlbOccupancy::new(1);
        let mut walk = |picos: [Picos; 2]| {
            stays.begin_walk(0, User::Job);
            picos.map(|picos| stays.of(0, User::Job).of(1, picos, 16, None))
        };
        assert_eq!(walk([50, 20]), [50, 320]);
        // The dearer visit after the longer gap is one of 32; the others cost 20 on average.
        assert_eq!(walk([50, 20]), [50 + 15 * 20, 320]);
    }

    #[test]
    fn where_a_walk_visits_any_page_a_first_visit_stands_for_those_of_the_pages_that_it_misses() {
        let mut stays = TlbOccupancy::new(1);
        let mut of = |page, picos| stays.of(0, User::Job).of(page, picos, 64, Some(1_500));
        // Pages that come again in the walk in which they came first come sooner than usual, and tell nothing.
        assert_eq!([of(1, 50), of(1, 0)], [75, 0]);
        stays.begin_walk(0, User::Job);
        let mut of = |page, picos| stays.of(0, User::Job).of(page, picos, 64, Some(1_500));
        assert_eq!(of(1, 40), (1_500 * 40 + (64_000 - 1_500) * 40) / 1_000);
        assert_eq!(of(1, 20), 64 * 30);
        assert_eq!(of(2, 50), (1_500 * 50 + (64_000 - 1_500) * 30) / 1_000);
    }
}
