//! The nodes of a graph as a table: what each runs, over what, with which arguments, after which others.

use crate::graph::recorded::{KernelNode, Recorded, Work};
use crate::graph::recording::Recording;
use crate::graph::replay::Graph;
use crate::graph_error::NodeKind;
use cuforge_core::{BufferView, Element, Parameter};
use std::fmt;

/// The nodes of a graph, in the order of their submission. Prints as a table; [`to_dot`](Self::to_dot) and
/// [`to_svg`](Self::to_svg) draw it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct NodeTable {
    /// The nodes.
    pub rows: Vec<NodeRow>,
}

/// One node.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct NodeRow {
    /// What kind it is.
    pub kind: NodeKind,
    /// The kernel's name, or a word for what else it does.
    pub name: String,
    /// Blocks of a kernel.
    pub grid: Option<[u32; 3]>,
    /// Threads a block.
    pub block: Option<[u32; 3]>,
    /// Dynamic shared bytes a block.
    pub shared_bytes: u32,
    /// Names and values: parameters of a kernel, ends and lengths of copies and fills.
    pub arguments: Vec<(String, String)>,
    /// The nodes that it depends on, by place, each with whether it may begin before that one has ended.
    pub depends_on: Vec<(usize, bool)>,
    /// Slots that are marked on it.
    pub slots: Vec<String>,
    /// The graphs inside: of a child, or of each branch of a conditional node.
    pub inside: Vec<NodeTable>,
}

impl Recording {
    /// The nodes as a table.
    pub fn table(&self) -> NodeTable {
        NodeTable::of(self.recorded())
    }
}

impl Graph {
    /// The nodes as a table, with what slots have set.
    pub fn table(&self) -> NodeTable {
        NodeTable::of(&self.shadow)
    }
}

impl NodeTable {
    pub(crate) fn of(recorded: &Recorded) -> Self {
        let row = |place: usize, work: &Work| {
            let before = recorded.edges.iter().filter(|(_, to, _)| *to == place);
            let on =
                recorded.slots.iter().filter(|slot| slot.places.iter().any(|site| *site.path == [place]));
            NodeRow {
                depends_on: before.map(|(from, _, programmatic)| (*from, *programmatic)).collect(),
                slots: on.map(|slot| slot.name.clone()).collect(),
                ..NodeRow::of(work)
            }
        };
        let rows = recorded.nodes.iter().enumerate().map(|(place, node)| row(place, &node.work)).collect();
        Self { rows }
    }
}

impl NodeRow {
    fn of(work: &Work) -> Self {
        let mut row = Self {
            kind: work.kind(),
            name: work.kind().to_string(),
            grid: None,
            block: None,
            shared_bytes: 0,
            arguments: Vec::new(),
            depends_on: Vec::new(),
            slots: Vec::new(),
            inside: Vec::new(),
        };
        let mut say = |name: &str, value: String| row.arguments.push((name.to_owned(), value));
        match work {
            Work::Kernel(kernel) => {
                row.name = kernel.entry().to_owned();
                row.grid = Some(kernel.geometry.grid);
                row.block = Some(kernel.geometry.block);
                row.shared_bytes = kernel.geometry.shared_bytes;
                row.arguments = arguments(kernel);
            }
            Work::Fill { to, byte } => {
                say("to", place(&to.view));
                say("byte", format!("{byte:#04x}"));
            }
            Work::Copy { from, to } => {
                say("from", place(&from.view));
                say("to", place(&to.view));
            }
            Work::Upload { to, bytes, .. } => {
                say("from", format!("{bytes} pinned bytes"));
                say("to", place(&to.view));
            }
            Work::Timestamp { name, .. } => say("name", name.clone()),
            Work::Child(child) => row.inside = vec![NodeTable::of(child)],
            Work::Conditional { form, word, bodies, .. } => {
                row.name = form.to_string();
                say("word", place(&word.view));
                row.inside = bodies.iter().map(NodeTable::of).collect();
            }
            Work::Foreign(_) => say("by", "another library".to_owned()),
        }
        row
    }
}

/// Where a view lies.
pub(crate) fn place(view: &BufferView) -> String {
    format!("{} bytes at {:#x}", view.len(), view.offset())
}

/// Names and values of a kernel's parameters.
pub(crate) fn arguments(kernel: &KernelNode) -> Vec<(String, String)> {
    let built = &kernel.pipeline.built;
    let view_at = |group: u32, binding: u32| {
        kernel.views.iter().find(|view| (view.group(), view.binding()) == (group, binding))
    };
    let mut list = Vec::new();
    for (parameter, (at, size)) in built.spec().parameters().iter().zip(built.layout.fields()) {
        let bytes = kernel.packed.get(at..at + size).unwrap_or_default();
        list.push(match parameter {
            Parameter::Buffer { name, group, binding, .. } => {
                (name.to_string(), view_at(*group, *binding).map_or_else(String::new, place))
            }
            Parameter::BufferLength { group, binding } => {
                (format!("length of {group}.{binding}"), number(bytes, Element::U64))
            }
            Parameter::Uniform { bytes: size, .. } => {
                (format!("uniform of {size} bytes"), hexadecimal(bytes))
            }
            Parameter::Scalar { name, element } => (name.to_string(), number(bytes, *element)),
        });
    }
    list
}

/// A scalar in the packed arguments.
fn number(bytes: &[u8], element: Element) -> String {
    let mut wide = [0; 8];
    let len = bytes.len().min(8);
    wide[..len].copy_from_slice(&bytes[..len]);
    let word = u64::from_le_bytes(wide);
    match element {
        Element::F32 => f32::from_bits(word as u32).to_string(),
        Element::F64 => f64::from_bits(word).to_string(),
        Element::I8 => (word as i8).to_string(),
        Element::I16 => (word as i16).to_string(),
        Element::I32 => (word as i32).to_string(),
        Element::I64 => (word as i64).to_string(),
        Element::F16 | Element::BF16 => format!("{word:#06x}"),
        _ => word.to_string(),
    }
}

/// The first bytes of a block, as hexadecimal digits.
fn hexadecimal(bytes: &[u8]) -> String {
    const SHOWN: usize = 16;
    let digits: String = bytes.iter().take(SHOWN).map(|byte| format!("{byte:02x}")).collect();
    if bytes.len() > SHOWN { digits + ".." } else { digits }
}

impl fmt::Display for NodeTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let size = |size: Option<[u32; 3]>| size.map_or_else(String::new, |[x, y, z]| format!("{x}x{y}x{z}"));
        let head = ["node", "kind", "name", "grid", "block", "shared", "after", "slots", "arguments"];
        let mut lines = vec![head.map(str::to_owned)];
        for (place, row) in self.rows.iter().enumerate() {
            let after =
                row.depends_on.iter().map(|(n, early)| if *early { format!("{n}~") } else { n.to_string() });
            let pairs = row.arguments.iter().map(|(name, value)| format!("{name}={value}"));
            lines.push([
                place.to_string(),
                row.kind.to_string(),
                row.name.clone(),
                size(row.grid),
                size(row.block),
                if row.grid.is_some() { row.shared_bytes.to_string() } else { String::new() },
                after.collect::<Vec<_>>().join(" "),
                row.slots.join(" "),
                pairs.collect::<Vec<_>>().join(", "),
            ]);
        }
        let widths: [usize; 9] =
            std::array::from_fn(|at| lines.iter().map(|line| line[at].chars().count()).max().unwrap_or(0));
        for line in &lines {
            let cells = line.iter().zip(widths).map(|(cell, width)| format!("{cell:width$}"));
            writeln!(f, "{}", cells.collect::<Vec<_>>().join("  ").trim_end())?;
        }
        for (place, row) in self.rows.iter().enumerate() {
            for (number, inside) in row.inside.iter().enumerate() {
                writeln!(f, "inside node {place} ({}), graph {number}:", row.name)?;
                for line in inside.to_string().lines() {
                    writeln!(f, "  {line}")?;
                }
            }
        }
        Ok(())
    }
}
