// SPDX-License-Identifier: MIT OR Apache-2.0
//! Initial placements of threads without any evidence.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::terrain::Terrain;
use corehop_plan::host::{Activity, Move};
use corehop_plan::units::{Cpu, CpuList};

/// An initial placement without evidence.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum InitialPlacement {
    /// Each thread gets one CPU, and successive threads get CPUs of different caches in turn.
    Spread,
    /// All threads run in the first cache; if there is only one cache, all threads run on its first CPU.
    Packed,
    /// Each thread gets one of the listed CPUs, in turn.
    List(CpuList),
}

impl FromStr for InitialPlacement {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "spread" => Ok(Self::Spread),
            "packed" => Ok(Self::Packed),
            list => match list.parse::<CpuList>() {
                Ok(cpus) if !cpus.is_empty() => Ok(Self::List(cpus)),
                _ => Err(format!(
                    "`{text}` is not an initial placement: write spread, packed, or CPUs such as 0,2-3"
                )),
            },
        }
    }
}

impl TryFrom<String> for InitialPlacement {
    type Error = String;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<InitialPlacement> for String {
    fn from(start: InitialPlacement) -> Self {
        start.to_string()
    }
}

impl fmt::Display for InitialPlacement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Spread => f.write_str("spread"),
            Self::Packed => f.write_str("packed"),
            Self::List(cpus) => cpus.fmt(f),
        }
    }
}

impl InitialPlacement {
    /// Returns the moves that put the threads into this placement. A thread that may use none of
    /// the CPUs is not moved.
    pub fn moves(&self, activity: &Activity, terrain: &Terrain) -> Vec<Move> {
        let places = self.places(terrain);
        let to = |(thread, place): (&corehop_plan::host::ActiveThread, &CpuList)| {
            let cpus = thread.allowed.intersection(place);
            (!cpus.is_empty() && cpus != thread.allowed).then_some(Move { tid: thread.tid, cpus })
        };
        activity.threads.iter().zip(places.iter().cycle()).filter_map(to).collect()
    }

    /// Returns the CPUs of threads that start with this placement on a simulated machine, thread by
    /// thread.
    pub fn cpus(&self, terrain: &Terrain) -> Vec<Cpu> {
        self.places(terrain).iter().flat_map(CpuList::iter).collect()
    }

    /// The CPUs that successive threads get.
    fn places(&self, terrain: &Terrain) -> Vec<CpuList> {
        let one = |cpu: Cpu| CpuList::new([cpu]);
        let caches = terrain.caches();
        match self {
            Self::List(cpus) => cpus.iter().map(one).collect(),
            Self::Packed if caches.len() == 1 => caches[0].first().map(one).into_iter().collect(),
            Self::Packed => caches.iter().take(1).cloned().collect(),
            Self::Spread => {
                let most = caches.iter().map(CpuList::len).max().unwrap_or(0);
                let row = |at: usize| caches.iter().filter_map(move |it| it.iter().nth(at));
                (0..most).flat_map(row).map(one).collect()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::terrain::tests::{COSTS, list};
    use super::*;
    use corehop_plan::host::ActiveThread;

    fn activity(allowed: &[&str]) -> Activity {
        let thread = |(at, cpus): (usize, &&str)| ActiveThread {
            tid: 10 + at as u32,
            pid: 10,
            allowed: list(cpus),
            ..ActiveThread::default()
        };
        Activity {
            threads: allowed.iter().enumerate().map(thread).collect(),
            ..Activity::default()
        }
    }

    fn moves(start: &str, allowed: &[&str], caches: &[&str]) -> Vec<(u32, String)> {
        let caches: Vec<CpuList> = caches.iter().map(|it| list(it)).collect();
        let start: InitialPlacement = start.parse().unwrap();
        let moves = start.moves(&activity(allowed), &Terrain::new(&caches, COSTS));
        moves.iter().map(|it| (it.tid, it.cpus.to_string())).collect()
    }

    fn told(moves: &[(u32, &str)]) -> Vec<(u32, String)> {
        moves.iter().map(|&(tid, cpus)| (tid, cpus.to_owned())).collect()
    }

    #[test]
    fn threads_are_spread_over_caches_first_and_then_over_their_cpus() {
        let spread = moves("spread", &["0-3"; 5], &["0-1", "2-3"]);
        assert_eq!(spread, told(&[(10, "0"), (11, "2"), (12, "1"), (13, "3"), (14, "0")]));
    }

    #[test]
    fn threads_are_packed_into_the_first_cache_or_onto_one_cpu_where_there_is_one_cache() {
        assert_eq!(
            moves("packed", &["0-3"; 2], &["0-1", "2-3"]),
            told(&[(10, "0-1"), (11, "0-1")])
        );
        assert_eq!(moves("packed", &["0-1"; 2], &["0-1"]), told(&[(10, "0"), (11, "0")]));
    }

    #[test]
    fn a_thread_stays_where_it_may_run() {
        assert_eq!(moves("1", &["0-1", "0"], &["0-1"]), told(&[(10, "1")]));
        assert_eq!(moves("0,1", &["0-1", "1"], &["0-1"]), told(&[(10, "0")]));
    }

    #[test]
    fn what_is_no_start_is_refused_by_name() {
        for text in ["", "scatter", "3-", "spread,packed"] {
            let error = text.parse::<InitialPlacement>().unwrap_err();
            assert!(error.contains(&format!("`{text}`")), "{error}");
        }
        for text in ["spread", "packed", "0,2-3"] {
            assert_eq!(text.parse::<InitialPlacement>().unwrap().to_string(), text);
        }
    }
}
