//! Two graphs compared node by node, in words.

use crate::graph::inside::{node, paths};
use crate::graph::recorded::{KernelNode, Node, Recorded, Role, Work};
use crate::graph::recording::Recording;
use crate::graph::replay::Graph;
use crate::graph::table::{arguments, place};
use std::fmt;
use std::sync::Arc;

/// One thing that differs between two graphs; prints as a sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Difference {
    /// The node, by place; `None` where the graphs differ as a whole.
    pub node: Option<usize>,
    /// What was there before, and what is there now.
    pub text: String,
    /// Whether an executable graph can be changed by so much in place.
    pub in_place: bool,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.node {
            Some(node) => write!(f, "node {node}: {}", self.text),
            None => f.write_str(&self.text),
        }
    }
}

impl Recording {
    /// What `newer` has otherwise, those differences first that an executable graph cannot be updated over.
    pub fn differences(&self, newer: &Self) -> Vec<Difference> {
        between(self.recorded(), newer.recorded())
    }
}

impl Graph {
    /// As [`Recording::differences`], from what this graph does now.
    pub fn differences(&self, newer: &Recording) -> Vec<Difference> {
        between(&self.shadow, newer.recorded())
    }
}

/// Everything that differs, what cannot be changed in place first.
pub(crate) fn between(old: &Recorded, new: &Recorded) -> Vec<Difference> {
    let mut found = Vec::new();
    let mut whole = |text: String| found.push(Difference { node: None, text, in_place: false });
    let counts = (old.nodes.len(), new.nodes.len());
    if counts.0 != counts.1 {
        whole(format!("{} nodes became {}", counts.0, counts.1));
    }
    let arrow = |(from, to, early): &(usize, usize, bool)| {
        format!("{from} -> {to}{}", if *early { " (programmatic)" } else { "" })
    };
    if counts.0 == counts.1 {
        for edge in old.edges.iter().filter(|edge| !new.edges.contains(edge)) {
            whole(format!("the edge {} is gone", arrow(edge)));
        }
        for edge in new.edges.iter().filter(|edge| !old.edges.contains(edge)) {
            whole(format!("the edge {} is new", arrow(edge)));
        }
    }
    if old.slots != new.slots {
        let names = |recorded: &Recorded| {
            recorded.slots.iter().map(|slot| format!("`{}` ({})", slot.name, slot.kind)).collect::<Vec<_>>()
        };
        whole(format!("the slots [{}] became [{}]", names(old).join(", "), names(new).join(", ")));
    }
    for (place, (old, new)) in old.nodes.iter().zip(&new.nodes).enumerate() {
        of_nodes(old, new, &mut |text, in_place| {
            found.push(Difference { node: Some(place), text, in_place });
        });
    }
    found.sort_by_key(|difference| difference.in_place);
    found
}

fn of_nodes(old: &Node, new: &Node, say: &mut impl FnMut(String, bool)) {
    let moved = |what: &str, a, b| format!("{what} {} became {}", place(a), place(b));
    match (&old.work, &new.work) {
        (Work::Kernel(a), Work::Kernel(b)) => of_kernels(a, b, say),
        (Work::Fill { to: a, byte: x }, Work::Fill { to: b, byte: y }) => {
            if a.view != b.view {
                say(moved("fill of", &a.view, &b.view), true);
            }
            if x != y {
                say(format!("fill with {x:#04x} became {y:#04x}"), true);
            }
        }
        (Work::Copy { from: a, to: b }, Work::Copy { from: c, to: d }) => {
            if a.view != c.view {
                say(moved("copy from", &a.view, &c.view), true);
            }
            if b.view != d.view {
                say(moved("copy to", &b.view, &d.view), true);
            }
        }
        (Work::Upload { from: a, to: b, bytes: x }, Work::Upload { from: c, to: d, bytes: y }) => {
            if !Arc::ptr_eq(a, c) {
                say("upload from other pinned memory".to_owned(), true);
            }
            if b.view != d.view {
                say(moved("upload to", &b.view, &d.view), true);
            }
            if x != y {
                say(format!("upload of {x} bytes became {y}"), true);
            }
        }
        (Work::Timestamp { name: a, .. }, Work::Timestamp { name: b, .. }) => {
            if a != b {
                say(format!("timestamp `{a}` became `{b}`"), false);
            }
        }
        (Work::Child(a), Work::Child(b)) => {
            for inside in between(a, b) {
                say(format!("in the child graph, {inside}"), inside.in_place);
            }
        }
        (
            Work::Conditional { form: x, word: a, bodies: b, .. },
            Work::Conditional { form: y, word: c, bodies: d, .. },
        ) => {
            if x != y || b.len() != d.len() {
                say(format!("{x} over {} graphs became {y} over {}", b.len(), d.len()), false);
            }
            if a.view != c.view {
                say(moved("the condition", &a.view, &c.view), false);
            }
            for inside in b.iter().zip(d).flat_map(|(b, d)| between(b, d)) {
                say(format!("in {x}, {inside}"), inside.in_place);
            }
        }
        (Work::Foreign(a), Work::Foreign(b)) if a == b => {
            say(format!("the {a} of another library cannot be compared"), false);
        }
        (a, b) if a.kind() == b.kind() => say(format!("{} from elsewhere", a.kind()), false),
        (a, b) => say(format!("{} became {}", a.kind(), b.kind()), false),
    }
}

/// The numbers of the nodes that differ, of two graphs of one shape.
pub(crate) fn changed(old: &Recorded, new: &Recorded) -> Vec<usize> {
    let own = old.nodes.iter().zip(&new.nodes).map(|(a, b)| differs(&a.work, &b.work));
    let inside = paths(old).into_iter().map(|path| {
        node(&old.nodes, &path).zip(node(&new.nodes, &path)).is_some_and(|(a, b)| differs(&a.work, &b.work))
    });
    own.chain(inside).enumerate().filter_map(|(number, differs)| differs.then_some(number)).collect()
}

/// Whether two nodes differ in what can be changed in place.
fn differs(old: &Work, new: &Work) -> bool {
    match (old, new) {
        (Work::Kernel(a), Work::Kernel(b)) => {
            !Arc::ptr_eq(&a.pipeline.built, &b.pipeline.built)
                || (a.geometry, &a.packed, &a.views) != (b.geometry, &b.packed, &b.views)
        }
        (Work::Fill { to: a, byte: x }, Work::Fill { to: b, byte: y }) => a.view != b.view || x != y,
        (Work::Copy { from: a, to: b }, Work::Copy { from: c, to: d }) => {
            a.view != c.view || b.view != d.view
        }
        (Work::Upload { from: a, to: b, bytes: x }, Work::Upload { from: c, to: d, bytes: y }) => {
            !Arc::ptr_eq(a, c) || b.view != d.view || x != y
        }
        _ => false,
    }
}

fn of_kernels(old: &KernelNode, new: &KernelNode, say: &mut impl FnMut(String, bool)) {
    if old.options != new.options {
        say(format!("kernel `{}`: {:?} became {:?}", old.entry(), old.options, new.options), false);
    }
    let same_role = match (&old.role, &new.role) {
        (Role::Plain, Role::Plain) => true,
        (Role::Feed(a), Role::Feed(b)) => Arc::ptr_eq(a, b),
        (Role::Post(a), Role::Post(b)) => Arc::ptr_eq(a, b),
        _ => false,
    };
    if !same_role {
        say(format!("kernel `{}` is of another parameter block or result ring", new.entry()), false);
    }
    let same_code = Arc::ptr_eq(&old.pipeline.built, &new.pipeline.built);
    if old.entry() != new.entry() {
        say(format!("kernel `{}` became `{}`", old.entry(), new.entry()), true);
    } else if !same_code {
        say(format!("kernel `{}` has other code", old.entry()), true);
    }
    let mut shape = |what: &str, a: &dyn fmt::Debug, b: &dyn fmt::Debug| {
        say(format!("kernel `{}`: {what} {a:?} became {b:?}", new.entry()), true);
    };
    let (a, b) = (old.geometry, new.geometry);
    if a.grid != b.grid {
        shape("grid", &a.grid, &b.grid);
    }
    if a.block != b.block {
        shape("block", &a.block, &b.block);
    }
    if a.shared_bytes != b.shared_bytes {
        shape("shared bytes", &a.shared_bytes, &b.shared_bytes);
    }
    if old.packed == new.packed && old.views == new.views {
        return;
    }
    let (before, now) = (arguments(old), arguments(new));
    let mut told = false;
    for ((name, was), (_, is)) in before.iter().zip(&now).filter(|(a, b)| a.0 == b.0 && a.1 != b.1) {
        told = true;
        say(format!("kernel `{}`: argument `{name}` was {was}, is {is}", new.entry()), true);
    }
    if !told && same_code {
        say(format!("kernel `{}`: its arguments differ in bytes or memory", new.entry()), true);
    }
}
