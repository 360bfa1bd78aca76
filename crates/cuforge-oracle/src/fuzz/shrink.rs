//! Makes a failing case as small as it can be and still fail: fewer elements, a smaller block, fewer operations, plainer
//! values.

use super::case::FuzzCase;
use super::program::{Ending, Node, Program};

/// The smallest case found that still fails, trying at most so many.
pub(crate) fn shrink(case: &FuzzCase, mut fails: impl FnMut(&FuzzCase) -> bool, most_tries: u32) -> FuzzCase {
    let mut best = case.clone();
    let mut tries = 0;
    loop {
        let next = candidates(&best).into_iter().find(|candidate| {
            tries += 1;
            tries <= most_tries && fails(candidate)
        });
        match next {
            Some(smaller) => best = smaller,
            None => return best,
        }
    }
}

/// Smaller cases, the boldest first: every one is smaller by size, block, tree or values, so that this comes to an end.
fn candidates(case: &FuzzCase) -> Vec<FuzzCase> {
    let mut all = Vec::new();
    let with = |change: &dyn Fn(&mut FuzzCase)| {
        let mut other = case.clone();
        change(&mut other);
        other
    };
    for elements in [1, 2, case.elements / 4, case.elements / 2, case.elements - 1] {
        if (1..case.elements).contains(&elements) {
            all.push(with(&|other| other.elements = elements));
        }
    }
    for threads in [32, case.threads / 2] {
        if (32..case.threads).contains(&threads) && case.program.is_consistent(threads) {
            all.push(with(&|other| other.threads = threads));
        }
    }
    if case.program.ending != Ending::Store {
        all.push(with(&|other| other.program.ending = Ending::Store));
    }
    if let Ending::Exchange(places @ 2..) = case.program.ending {
        all.push(with(&|other| other.program.ending = Ending::Exchange(places / 2)));
    }
    for root in smaller_trees(&case.program.root) {
        all.push(with(&|other| other.program.root = root.clone()));
    }
    all.extend(without_unused(&case.program).map(|program| FuzzCase { program, ..case.clone() }));
    if case.span > 0 {
        all.push(with(&|other| other.span = if other.span > 1 { 1 } else { 0 }));
    }
    if case.seed > 0 {
        all.push(with(&|other| other.seed = 0));
    }
    all
}

/// Trees with one node replaced by one of its operands or by a leaf, or one number made smaller.
fn smaller_trees(tree: &Node) -> Vec<Node> {
    let mut all: Vec<Node> = tree.operands().into_iter().cloned().collect();
    match tree {
        Node::Literal(0) => {}
        Node::Literal(value) => all.extend([Node::Literal(0), Node::Literal(value / 2)]),
        Node::Input { input, shift } if *shift > 0 => {
            all.extend([0, shift / 2].map(|shift| Node::Input { input: *input, shift }));
        }
        Node::Input { .. } => all.push(Node::Literal(1)),
        _ => all.push(Node::Input { input: 0, shift: 0 }),
    }
    for index in 0..tree.operands().len() {
        for smaller in smaller_trees(tree.operands()[index]) {
            let mut other = tree.clone();
            if let Some(operand) = other.operands_mut().into_iter().nth(index) {
                *operand = smaller;
                all.push(other);
            }
        }
    }
    all.retain(|other| other != tree);
    all
}

/// Without the last input or scalar, where nothing refers to it.
fn without_unused(program: &Program) -> impl Iterator<Item = Program> {
    let fewer_inputs = Program { inputs: program.inputs.saturating_sub(1), ..program.clone() };
    let mut fewer_scalars = program.clone();
    let had_one = fewer_scalars.scalars.pop().is_some();
    let inputs = Some(fewer_inputs).filter(|other| other.inputs > 0 && other.is_consistent(1024));
    let scalars = Some(fewer_scalars).filter(|other| had_one && other.is_consistent(1024));
    inputs.into_iter().chain(scalars)
}
