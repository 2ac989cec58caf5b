// SPDX-License-Identifier: MIT OR Apache-2.0
//! Telling two machines apart by their descriptions.

use super::Platform;

impl Platform {
    /// The first thing in which it is another machine than `known`, which the answer calls `whose`; None
    /// if there is none. An id is a processor's name and a count of CPUs: other machines may have the same.
    pub fn difference(&self, known: &Self, whose: &str) -> Option<String> {
        let (given, known) = (self.distinguishing(), known.distinguishing());
        let differing = given.iter().zip(&known).find(|(given, known)| given != known);
        match differing {
            Some(((name, it), (_, other))) => Some(format!("{name} {it}, {whose} {other}")),
            None if given.len() == known.len() => None,
            None => Some("another number of caches".to_owned()),
        }
    }

    /// Facts that do not change as long as the machine is the same, by their names.
    fn distinguishing(&self) -> Vec<(String, String)> {
        let mut facts = vec![
            ("id".to_owned(), self.id.clone()),
            ("CPUs".to_owned(), self.cpus.value.to_string()),
            ("cores".to_owned(), self.cores.value.to_string()),
        ];
        facts.extend(self.caches.iter().flat_map(|cache| {
            let size = cache.size.as_ref().map_or(String::new(), |size| size.value.to_string());
            let shared_by = cache.instances.value.to_string();
            let label = cache.label();
            [(label.clone(), size), (format!("{label} shared by"), shared_by)]
        }));
        facts
    }
}
