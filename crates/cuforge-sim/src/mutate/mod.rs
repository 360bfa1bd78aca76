//! Mutants of a kernel: small faults planted in its PTX, to show that a test of it can fail.
//!
//! An operator changes one instruction and leaves the text valid PTX. Sites come in text order, and one module
//! always gives the same list.

mod arithmetic;
mod control;
mod memory;
mod mutation;
mod operator;
mod site;
mod value;

use std::collections::{HashMap, VecDeque};

use crate::ptx::{Function, Module, OperandKind};
use site::Site;

pub use mutation::{Mutation, MutationError};
pub use operator::Operator;

/// All mutants of a kernel and of the device functions it calls by name, in text order of each function, the
/// kernel first. Empty if the module has no such function with a body.
///
/// Costs time linear in the functions' text; the mutants' own texts are made by [`Mutation::apply`].
///
/// ```
/// use cuforge_sim::mutate::{self, Operator};
/// use cuforge_sim::ptx::Module;
///
/// let text = ".version 8.0\n.target sm_80\n.entry k(.param .u64 k_0) {\n\
///             .reg .pred %p<2>; .reg .b32 %r<3>; .reg .b64 %rd<2>;\n\
///             ld.param.u64 %rd1, [k_0];\nmov.u32 %r1, %tid.x;\nsetp.lt.u32 %p1, %r1, 7;\n\
///             @%p1 st.global.u32 [%rd1], %r1;\nret;\n}";
/// let module = Module::parse(text)?;
/// let found = mutate::enumerate(&module, "k");
/// let boundary = found.iter().find(|m| m.operator() == Operator::ShiftBoundary).ok_or("none")?;
/// assert_eq!(boundary.apply(&module)?.to_string(), text.replace("setp.lt", "setp.le"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn enumerate(module: &Module, entry: &str) -> Vec<Mutation> {
    let mut found = Vec::new();
    let defined = module.functions().filter(|function| function.body.is_some());
    let mut unseen: HashMap<&str, &Function> = defined.map(|function| (&*function.name, function)).collect();
    let mut waiting = VecDeque::from([entry]);
    while let Some(name) = waiting.pop_front() {
        let Some(function) = unseen.remove(name) else { continue };
        of_function(module, function, &mut found);
        for call in function.instructions().filter_map(|instruction| instruction.call()) {
            if let OperandKind::Symbol { name, .. } = &call.target.kind {
                waiting.push_back(name);
            }
        }
    }
    found
}

fn of_function(module: &Module, function: &Function, found: &mut Vec<Mutation>) {
    let uses = site::count_registers(function);
    for instruction in function.instructions() {
        let first = found.len();
        let mut site = Site { module, function, instruction, uses: &uses, found };
        memory::mutants(&mut site);
        control::mutants(&mut site);
        arithmetic::mutants(&mut site);
        value::mutants(&mut site);
        if let Some(mutants) = found.get_mut(first..) {
            mutants.sort_by_key(Mutation::operator);
        }
    }
}
