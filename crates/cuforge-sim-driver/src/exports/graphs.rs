//! Graphs: making, looking at, connecting, drawing.

use std::ffi::c_int;

use crate::boundary::{In, Out, Text, exports};
use crate::capturing::{EdgeData, PLAIN_EDGE};
use crate::codes::{Answer, Code};
use crate::driver::Driver;
use crate::exports::streams::front;
use crate::graph::{Edge, Graph};

exports! {
    Initialised cuGraphCreate(graph: Out<u64>, flags: u32) since 10000,
    "An empty graph.", |driver| {
        graph.required()?;
        if flags != 0 {
            return Err(Code::INVALID_VALUE);
        }
        graph.put(driver.tables.graphs.add(|handle| Graph::new(handle, false)).handle)
    }

    Initialised cuGraphDestroy(graph: u64) since 10000,
    "Its nodes, children and bodies too; what was instantiated from it stays.", |driver| {
        let graph = driver.tables.graphs.get(graph)?;
        if graph.owned {
            return Err(Code::INVALID_VALUE);
        }
        graph.end(&driver.tables);
        Ok(())
    }

    Initialised cuGraphClone(clone: Out<u64>, graph: u64) since 10000,
    "With nodes of its own; a graph with conditions is NOT_SUPPORTED, as by the rules.", |driver| {
        clone.required()?;
        let (copy, names) = driver.tables.graphs.get(graph)?.copied(&driver.tables, false)?;
        driver.clones.lock().insert(copy.handle, names);
        clone.put(copy.handle)
    }

    Initialised cuGraphNodeFindInClone(node: Out<u64>, original: u64, clone: u64) since 10000,
    "The copy of a node.", |driver| {
        let clones = driver.clones.lock();
        let found = clones.get(&clone).and_then(|names| names.get(&original)).copied();
        node.put(found.ok_or(Code::INVALID_VALUE)?)
    }

    Initialised cuGraphDestroyNode(node: u64) since 10000,
    "With its edges.", |driver| {
        let node = driver.tables.nodes.get(node)?;
        driver.tables.graphs.get(node.graph)?.remove(&driver.tables, &node)
    }

    Initialised cuGraphGetNodes(graph: u64, nodes: Out<u64>, count: Out<usize>) since 10000,
    "In the order in which they were added.", |driver| {
        let inner = driver.tables.graphs.get(graph)?.inner().clone();
        list(inner.nodes.iter().map(|node| node.handle), nodes, count)
    }

    Initialised cuGraphGetRootNodes(graph: u64, nodes: Out<u64>, count: Out<usize>) since 10000,
    "Those that follow none.", |driver| {
        let inner = driver.tables.graphs.get(graph)?.inner().clone();
        list(inner.roots().map(|node| node.handle), nodes, count)
    }

    Initialised cuGraphGetEdges(graph: u64, from: Out<u64>, to: Out<u64>, count: Out<usize>) since 10000,
    "LOSSY_QUERY where an edge has data.", |driver| {
        edges(driver, graph, [from, to], Out::inner(0), count)
    }

    Initialised cuGraphGetEdges_v2(graph: u64, from: Out<u64>, to: Out<u64>, data: Out<EdgeData>, count: Out<usize>) since 12030,
    "With the data of each; LOSSY_QUERY where an edge has some and the caller wants none.", |driver| {
        edges(driver, graph, [from, to], data, count)
    }

    Initialised cuGraphNodeGetDependencies(node: u64, nodes: Out<u64>, count: Out<usize>) since 10000,
    "The nodes before it.", |driver| {
        neighbours(driver, node, nodes, Out::inner(0), count, |edge| (edge.to, edge.from))
    }

    Initialised cuGraphNodeGetDependencies_v2(node: u64, nodes: Out<u64>, data: Out<EdgeData>, count: Out<usize>) since 12030,
    "The nodes before it, with the data of the edges.", |driver| {
        neighbours(driver, node, nodes, data, count, |edge| (edge.to, edge.from))
    }

    Initialised cuGraphNodeGetDependentNodes(node: u64, nodes: Out<u64>, count: Out<usize>) since 10000,
    "The nodes behind it.", |driver| {
        neighbours(driver, node, nodes, Out::inner(0), count, |edge| (edge.from, edge.to))
    }

    Initialised cuGraphNodeGetDependentNodes_v2(node: u64, nodes: Out<u64>, data: Out<EdgeData>, count: Out<usize>) since 12030,
    "The nodes behind it, with the data of the edges.", |driver| {
        neighbours(driver, node, nodes, data, count, |edge| (edge.from, edge.to))
    }

    Initialised cuGraphNodeGetType(node: u64, kind: Out<c_int>) since 10000,
    "Its type.", |driver| {
        kind.put(driver.tables.nodes.get(node)?.payload().number())
    }

    Initialised cuGraphAddDependencies(graph: u64, from: In<u64>, to: In<u64>, count: usize) since 10000,
    "Edges, none twice; a circle is found when the graph is instantiated, as measured.", |driver| {
        change(driver, graph, (from, to, In::inner(0)), count, true)
    }

    Initialised cuGraphAddDependencies_v2(graph: u64, from: In<u64>, to: In<u64>, data: In<EdgeData>, count: usize) since 12030,
    "Edges with data, none twice.", |driver| {
        change(driver, graph, (from, to, data), count, true)
    }

    Initialised cuGraphRemoveDependencies(graph: u64, from: In<u64>, to: In<u64>, count: usize) since 10000,
    "One that is not there is no error, as measured.", |driver| {
        change(driver, graph, (from, to, In::inner(0)), count, false)
    }

    Initialised cuGraphRemoveDependencies_v2(graph: u64, from: In<u64>, to: In<u64>, data: In<EdgeData>, count: usize) since 12030,
    "With their data; one that is not there is no error.", |driver| {
        change(driver, graph, (from, to, data), count, false)
    }

    Initialised cuGraphDebugDotPrint(graph: u64, path: Text, flags: u32) since 11030,
    "Nodes with their main parameters, edges, children and bodies; the flags change nothing.", |driver| {
        let _ = flags;
        let drawing = driver.tables.graphs.get(graph)?.drawing();
        std::fs::write(path.get()?, drawing).map_err(|_| Code::OPERATING_SYSTEM)
    }
}

/// A list as the driver gives them: how many there are without room, else as many as fit, the rest null.
fn list(values: impl Iterator<Item = u64> + Clone, out: Out<u64>, count: Out<usize>) -> Answer {
    let there = values.clone().count();
    if out.is_null() {
        return count.put(there);
    }
    let room = count.current()?;
    out.put_list(values.chain(std::iter::repeat(0)), room)?;
    count.put(there.min(room))
}

fn edges(
    driver: &Driver,
    graph: u64,
    [from, to]: [Out<u64>; 2],
    data: Out<EdgeData>,
    count: Out<usize>,
) -> Answer {
    let edges = driver.tables.graphs.get(graph)?.inner().edges.clone();
    if from.is_null() != to.is_null() {
        return Err(Code::INVALID_VALUE);
    }
    if !from.is_null() && data.is_null() && edges.iter().any(|edge| edge.data != PLAIN_EDGE) {
        return Err(Code::LOSSY_QUERY);
    }
    if !data.is_null() {
        data.put_list(edges.iter().map(|edge| edge.data), count.current()?)?;
    }
    if !to.is_null() {
        to.put_list(edges.iter().map(|edge| edge.to).chain(std::iter::repeat(0)), count.current()?)?;
    }
    list(edges.iter().map(|edge| edge.from), from, count)
}

fn neighbours(
    driver: &Driver,
    node: u64,
    nodes: Out<u64>,
    data: Out<EdgeData>,
    count: Out<usize>,
    ends: impl Fn(&Edge) -> (u64, u64),
) -> Answer {
    let node = driver.tables.nodes.get(node)?;
    let edges = driver.tables.graphs.get(node.graph)?.inner().edges.clone();
    let found: Vec<&Edge> = edges.iter().filter(|edge| ends(edge).0 == node.handle).collect();
    if !nodes.is_null() && data.is_null() && found.iter().any(|edge| edge.data != PLAIN_EDGE) {
        return Err(Code::LOSSY_QUERY);
    }
    if !data.is_null() {
        data.put_list(found.iter().map(|edge| edge.data), count.current()?)?;
    }
    list(found.iter().map(|edge| ends(edge).1), nodes, count)
}

fn change(
    driver: &Driver,
    graph: u64,
    (from, to, data): (In<u64>, In<u64>, In<EdgeData>),
    count: usize,
    add: bool,
) -> Answer {
    let graph = driver.tables.graphs.get(graph)?;
    let to = to.list(count)?;
    let mut changed = graph.inner().clone();
    for ((from, data), to) in front(from, data, count)?.into_iter().zip(to) {
        let edge = Edge { from, to, data };
        if add { changed.connect(edge)? } else { changed.disconnect(edge)? }
    }
    // All or none.
    *graph.inner() = changed;
    Ok(())
}
