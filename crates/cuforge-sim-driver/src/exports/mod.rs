//! The exported functions, by area, and the table of them all.

pub(crate) mod contexts;
pub(crate) mod control;
pub(crate) mod copies;
pub(crate) mod devices;
pub(crate) mod events;
pub(crate) mod fills;
pub(crate) mod functions;
pub(crate) mod graph_execs;
pub(crate) mod graph_nodes;
pub(crate) mod graphs;
pub(crate) mod launches;
pub(crate) mod memory;
pub(crate) mod modules;
pub(crate) mod pools;
pub(crate) mod startup;
pub(crate) mod streams;
pub(crate) mod virtual_memory;
pub(crate) mod words;

use crate::boundary::Entry;

/// Every area with its functions.
pub(crate) const AREAS: &[(&str, &[Entry])] = &[
    ("Start and errors", startup::ENTRIES),
    ("Devices", devices::ENTRIES),
    ("Contexts", contexts::ENTRIES),
    ("Memory", memory::ENTRIES),
    ("Virtual memory", virtual_memory::ENTRIES),
    ("Pools", pools::ENTRIES),
    ("Copies", copies::ENTRIES),
    ("Fills", fills::ENTRIES),
    ("Streams", streams::ENTRIES),
    ("Words in streams", words::ENTRIES),
    ("Events", events::ENTRIES),
    ("Modules", modules::ENTRIES),
    ("Functions and occupancy", functions::ENTRIES),
    ("Launches", launches::ENTRIES),
    ("Graphs", graphs::ENTRIES),
    ("Nodes of graphs", graph_nodes::ENTRIES),
    ("Executable graphs", graph_execs::ENTRIES),
];

/// Every function.
pub(crate) fn all() -> impl Iterator<Item = &'static Entry> {
    AREAS.iter().flat_map(|(_, entries)| entries.iter())
}

/// The function of that exact name.
pub(crate) fn named(name: &str) -> Option<&'static Entry> {
    all().find(|entry| entry.site.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn no_name_stands_twice_and_every_note_says_something() {
        let mut seen = BTreeSet::new();
        for entry in all() {
            assert!(seen.insert(entry.site.name), "{}", entry.site.name);
            assert!(entry.note.len() > 4, "{}", entry.site.name);
            assert_ne!((entry.address)(), 0);
        }
    }
}
