// SPDX-License-Identifier: MIT OR Apache-2.0
//! Chooses a core for a switch: Strong et al., section 9.2.
//!
//! A policy answers two questions: to which core to switch, and whether to switch to a busy core. Three settings
//! determine the policy's answers. A *work-conserving* policy (WC) does not leave a core idle in order to queue at a
//! busy core. *Affinity* (AF) returns to the core of the last switch; without affinity, cores take turns. *Preferring
//! affinity* (PA) returns to that core even if WC would not. A static binding always pairs the same two cores.
//!
//! The module is pure: it uses no system call, no clock and no allocation. The library and the simulated machine run
//! this code.

use core::fmt;
use core::ops::BitOr;

/// The smallest core number that a [`CoreSet`] cannot hold.
pub const MOST_CORES: usize = 1024;

const WORDS: usize = MOST_CORES / 64;

/// A set of cores, by the operating system's core numbers.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct CoreSet {
    words: [u64; WORDS],
}

impl CoreSet {
    /// The set without cores.
    pub const EMPTY: Self = Self { words: [0; WORDS] };

    /// Returns the set of these cores. Numbers from [`MOST_CORES`] on are ignored.
    pub fn of(cores: &[usize]) -> Self {
        let mut set = Self::EMPTY;
        for &core in cores {
            set.insert(core);
        }
        set
    }

    /// Returns the set in the operating system's format: bit `n` of word `m` is core `64 m + n`.
    pub fn words(&self) -> [u64; WORDS] {
        self.words
    }

    /// Returns the set with these words.
    pub fn from_words(words: [u64; WORDS]) -> Self {
        Self { words }
    }

    /// Adds a core. Returns false if the number of the core is too large.
    pub fn insert(&mut self, core: usize) -> bool {
        let Some(word) = self.words.get_mut(core / 64) else { return false };
        *word |= 1 << (core % 64);
        true
    }

    /// Removes a core.
    pub fn remove(&mut self, core: usize) {
        if let Some(word) = self.words.get_mut(core / 64) {
            *word &= !(1 << (core % 64));
        }
    }

    /// Returns whether the core is in the set.
    pub fn contains(&self, core: usize) -> bool {
        self.words.get(core / 64).is_some_and(|word| word >> (core % 64) & 1 == 1)
    }

    /// Returns the number of cores.
    pub fn len(&self) -> usize {
        self.words.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Returns whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.words.iter().all(|&word| word == 0)
    }

    /// Returns the intersection of both sets.
    #[must_use]
    pub fn and(&self, other: &Self) -> Self {
        let mut both = *self;
        for (word, other) in both.words.iter_mut().zip(&other.words) {
            *word &= other;
        }
        both
    }

    /// Returns the cores of this set that are not in the other set.
    #[must_use]
    pub fn without(&self, other: &Self) -> Self {
        let mut rest = *self;
        for (word, other) in rest.words.iter_mut().zip(&other.words) {
            *word &= !other;
        }
        rest
    }

    /// Returns the cores in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        self.words.iter().enumerate().flat_map(|(at, &word)| {
            let mut rest = word;
            core::iter::from_fn(move || {
                let bit = (rest != 0).then(|| rest.trailing_zeros() as usize)?;
                rest &= rest - 1;
                Some(at * 64 + bit)
            })
        })
    }

    /// Returns the next core above `core`, or the first core if there is none above or `core` is `None`.
    pub fn next_after(&self, core: Option<usize>) -> Option<usize> {
        let above = core.and_then(|core| self.iter().find(|&other| other > core));
        above.or_else(|| self.iter().next())
    }
}

impl fmt::Debug for CoreSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

/// The settings of a switch's policy. The bits of the flags are part of the C interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Hash)]
pub struct Flags(u32);

impl Flags {
    /// Cores take turns, whether busy or not.
    pub const NONE: Self = Self(0);
    /// WC: a call does not switch to a busy core if the source core would idle.
    pub const WORK_CONSERVING: Self = Self(1);
    /// AF: a call returns to the core of the last switch instead of taking turns.
    pub const AFFINITY: Self = Self(2);
    /// PA: together with WC and AF, a call returns to the last core even if it is busy.
    pub const PREFER_AFFINITY: Self = Self(4);
    /// Static binding: the n-th application core always switches to the n-th OS core, starting over after the last.
    pub const STATIC_BINDING: Self = Self(8);

    /// Returns the settings with these bits, or `None` if a bit is unknown.
    pub fn from_bits(bits: u32) -> Option<Self> {
        (bits < 16).then_some(Self(bits))
    }

    /// Returns whether all settings of `other` are set.
    pub fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

impl BitOr for Flags {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// The state of the machine that a choice depends on.
#[derive(Clone, Copy, Debug)]
pub struct CoreOccupancy {
    /// The cores to which calls are switched.
    pub os: CoreSet,
    /// The cores on which threads otherwise run.
    pub app: CoreSet,
    /// The cores of either kind that are busy.
    pub busy: CoreSet,
    /// The core that the thread would leave.
    pub source: usize,
    /// Whether the source core would be idle.
    pub source_idles: bool,
}

/// The cores of a thread's last switches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CoreHistory {
    last_os: Option<usize>,
    last_app: Option<usize>,
}

impl CoreHistory {
    /// Returns the initial history of the n-th thread. Because affinity keeps a first choice permanently, first
    /// choices are dealt out in turn.
    pub fn dealt(turn: usize, os: &CoreSet, app: &CoreSet) -> Self {
        let of = |cores: &CoreSet| cores.iter().nth(turn.checked_rem(cores.len())?);
        Self { last_os: of(os), last_app: of(app) }
    }
}

/// The answer of [`select_os_core`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CoreChoice {
    /// Switch to this core.
    Switch(usize),
    /// The call runs on the source core.
    Stay,
}

/// `SelectOSCore`: chooses the core for a call that begins.
///
/// The thread stays if there is no OS core, if the thread is already on an OS core, or if the policy is
/// work-conserving and the call would queue at a busy core while the source core idles.
pub fn select_os_core(flags: Flags, view: &CoreOccupancy, memory: &mut CoreHistory) -> CoreChoice {
    if view.os.contains(view.source) {
        return CoreChoice::Stay;
    }
    let Some(favourite) = favourite(flags, &view.os, &view.app, view.source, memory.last_os) else {
        return CoreChoice::Stay;
    };
    let found = conserving(flags, &view.os, view, favourite, memory.last_os);
    let core = match found {
        Some(core) => core,
        None if view.source_idles => return CoreChoice::Stay,
        None => favourite,
    };
    memory.last_os = Some(core);
    CoreChoice::Switch(core)
}

/// `SelectAppCore`: chooses the core for a thread whose call has ended. The thread never stays on an OS core, however
/// busy the other cores are. The result is `None` only if there is no application core.
pub fn select_app_core(
    flags: Flags,
    view: &CoreOccupancy,
    memory: &mut CoreHistory,
) -> Option<usize> {
    let app = view.app.without(&view.os);
    let favourite = favourite(flags, &app, &view.os, view.source, memory.last_app)?;
    let core = conserving(flags, &app, view, favourite, memory.last_app).unwrap_or(favourite);
    memory.last_app = Some(core);
    Some(core)
}

/// The core that the policy would choose if all cores were idle.
fn favourite(
    flags: Flags,
    candidates: &CoreSet,
    others: &CoreSet,
    source: usize,
    last: Option<usize>,
) -> Option<usize> {
    if flags.has(Flags::STATIC_BINDING) {
        return bound(others, candidates, source);
    }
    let remembered = last.filter(|&core| flags.has(Flags::AFFINITY) && candidates.contains(core));
    remembered.or_else(|| candidates.next_after(last))
}

/// The core of `to` that is bound to the core `source` of `from`. A core outside of `from` counts as the first core
/// of `from`.
fn bound(from: &CoreSet, to: &CoreSet, source: usize) -> Option<usize> {
    let count = to.len();
    let place = from.iter().position(|core| core == source).unwrap_or(0);
    to.iter().nth(place.checked_rem(count)?)
}

/// The preferred core, or an idle core instead; `None` if a work-conserving policy finds none.
fn conserving(
    flags: Flags,
    candidates: &CoreSet,
    view: &CoreOccupancy,
    favourite: usize,
    last: Option<usize>,
) -> Option<usize> {
    let returns = flags.has(Flags::AFFINITY | Flags::PREFER_AFFINITY) && last == Some(favourite);
    if !flags.has(Flags::WORK_CONSERVING) || returns || !view.busy.contains(favourite) {
        return Some(favourite);
    }
    if flags.has(Flags::STATIC_BINDING) {
        return None;
    }
    candidates.without(&view.busy).next_after(Some(favourite))
}

#[cfg(test)]
mod tests {
    use super::*;

    const WC: Flags = Flags::WORK_CONSERVING;
    const AF: Flags = Flags::AFFINITY;
    const PA: Flags = Flags::PREFER_AFFINITY;

    /// Occupancy with application cores 0 to 3, OS cores 4 and 5, and the thread on core 1.
    fn view(busy: &[usize]) -> CoreOccupancy {
        CoreOccupancy {
            os: CoreSet::of(&[4, 5]),
            app: CoreSet::of(&[0, 1, 2, 3]),
            busy: CoreSet::of(busy),
            source: 1,
            source_idles: true,
        }
    }

    fn choices(flags: Flags, busy: &[&[usize]]) -> Vec<CoreChoice> {
        let mut memory = CoreHistory::default();
        busy.iter().map(|busy| select_os_core(flags, &view(busy), &mut memory)).collect()
    }

    #[test]
    fn threads_with_affinity_begin_on_different_cores() {
        let view = view(&[]);
        let first = |turn| {
            let mut memory = CoreHistory::dealt(turn, &view.os, &view.app);
            let there = select_os_core(AF, &view, &mut memory);
            (there, select_app_core(AF, &CoreOccupancy { source: 4, ..view }, &mut memory))
        };
        assert_eq!(first(0), (CoreChoice::Switch(4), Some(0)));
        assert_eq!(first(1), (CoreChoice::Switch(5), Some(1)));
        assert_eq!(first(6), (CoreChoice::Switch(4), Some(2)));
        let empty = CoreHistory::dealt(3, &CoreSet::EMPTY, &CoreSet::EMPTY);
        assert_eq!(empty, CoreHistory::default());
    }

    #[test]
    fn without_settings_cores_take_turns_busy_or_not() {
        use CoreChoice::Switch;
        let all = choices(Flags::NONE, &[&[], &[5], &[4, 5]]);
        assert_eq!(all, [Switch(4), Switch(5), Switch(4)]);
    }

    #[test]
    fn a_work_conserving_policy_looks_for_an_idle_core_and_stays_if_there_is_none() {
        use CoreChoice::{Stay, Switch};
        let all = choices(WC, &[&[4], &[4], &[4, 5], &[]]);
        assert_eq!(all, [Switch(5), Switch(5), Stay, Switch(4)]);
    }

    #[test]
    fn affinity_returns_to_the_last_core_and_only_conservation_drives_it_away() {
        use CoreChoice::{Stay, Switch};
        assert_eq!(choices(AF, &[&[], &[4], &[4, 5]]), [Switch(4); 3]);
        let all = choices(WC | AF, &[&[], &[4], &[], &[4, 5]]);
        assert_eq!(all, [Switch(4), Switch(5), Switch(5), Stay]);
    }

    #[test]
    fn preferred_affinity_goes_to_the_last_core_even_if_it_is_busy() {
        use CoreChoice::{Stay, Switch};
        let all = choices(WC | AF | PA, &[&[4, 5], &[4], &[5], &[4, 5]]);
        // The first thread has no last core yet, so that conservation decides.
        assert_eq!(all, [Stay, Switch(5), Switch(5), Switch(5)]);
    }

    #[test]
    fn a_thread_whose_core_has_other_work_may_queue_even_if_conserving() {
        let mut memory = CoreHistory::default();
        let crowded = CoreOccupancy { source_idles: false, ..view(&[1, 4, 5]) };
        assert_eq!(select_os_core(WC, &crowded, &mut memory), CoreChoice::Switch(4));
    }

    #[test]
    fn a_static_binding_pairs_cores_and_counts_anew() {
        let flags = Flags::STATIC_BINDING;
        let chosen = [0, 1, 2, 3].map(|source| {
            select_os_core(
                flags,
                &CoreOccupancy { source, ..view(&[4, 5]) },
                &mut CoreHistory::default(),
            )
        });
        assert_eq!(chosen, [4, 5, 4, 5].map(CoreChoice::Switch));
        let back = CoreOccupancy { source: 5, ..view(&[]) };
        assert_eq!(select_app_core(flags, &back, &mut CoreHistory::default()), Some(1));
        let conserving = select_os_core(flags | WC, &view(&[5]), &mut CoreHistory::default());
        assert_eq!(conserving, CoreChoice::Stay);
    }

    #[test]
    fn a_thread_never_stays_on_an_os_core() {
        for bits in 0..16 {
            let flags = Flags::from_bits(bits).unwrap();
            let on_os = CoreOccupancy { source: 4, ..view(&[0, 1, 2, 3, 4, 5]) };
            let mut memory = CoreHistory::default();
            for _ in 0..5 {
                let core = select_app_core(flags, &on_os, &mut memory).unwrap();
                assert!(on_os.app.contains(core), "{flags:?}: {core}");
            }
        }
        assert_eq!(Flags::from_bits(16), None);
    }

    #[test]
    fn an_application_core_may_not_be_an_os_core_too() {
        let overlapping = CoreOccupancy { app: CoreSet::of(&[3, 4]), source: 4, ..view(&[]) };
        let mut memory = CoreHistory::default();
        assert_eq!(select_app_core(Flags::NONE, &overlapping, &mut memory), Some(3));
        let none = CoreOccupancy { app: CoreSet::of(&[4]), ..overlapping };
        assert_eq!(select_app_core(Flags::NONE, &none, &mut memory), None);
    }

    #[test]
    fn a_call_on_an_os_core_or_without_any_stays() {
        let there = CoreOccupancy { source: 5, ..view(&[]) };
        assert_eq!(
            select_os_core(Flags::NONE, &there, &mut CoreHistory::default()),
            CoreChoice::Stay
        );
        let nowhere = CoreOccupancy { os: CoreSet::EMPTY, ..view(&[]) };
        for bits in 0..16 {
            let flags = Flags::from_bits(bits).unwrap();
            assert_eq!(
                select_os_core(flags, &nowhere, &mut CoreHistory::default()),
                CoreChoice::Stay
            );
        }
    }

    /// The test checks every state of two OS cores: a work-conserving policy never chooses a busy core while an idle
    /// core is free.
    #[test]
    fn a_conserving_choice_is_idle_unless_affinity_is_preferred() {
        for bits in 0..16 {
            let flags = Flags::from_bits(bits).unwrap();
            for last in [None, Some(4), Some(5), Some(9)] {
                for busy in [vec![], vec![4], vec![5], vec![4, 5]] {
                    let view = view(&busy);
                    let mut memory = CoreHistory { last_os: last, last_app: None };
                    let CoreChoice::Switch(core) = select_os_core(flags, &view, &mut memory) else {
                        assert!(flags.has(WC) && !busy.is_empty());
                        continue;
                    };
                    let prefers = flags.has(AF | PA) && last == Some(core);
                    assert!(!flags.has(WC) || prefers || !view.busy.contains(core));
                }
            }
        }
    }

    #[test]
    fn sets_hold_cores_up_to_the_limit() {
        let mut set = CoreSet::of(&[1023, 0, 64]);
        assert!(!set.insert(MOST_CORES));
        assert_eq!(set.iter().collect::<Vec<_>>(), [0, 64, 1023]);
        assert_eq!(set.len(), 3);
        assert_eq!(set.next_after(Some(64)), Some(1023));
        assert_eq!(set.next_after(Some(1023)), Some(0));
        set.remove(64);
        assert!(!set.contains(64) && !set.contains(MOST_CORES));
        assert_eq!(CoreSet::EMPTY.next_after(None), None);
    }
}
