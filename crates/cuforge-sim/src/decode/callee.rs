//! Device functions: how they are called, and where their addresses are.

use std::collections::{BTreeMap, BTreeSet};

use crate::form::R32;
use crate::ptx::{FunctionKind, Initializer, Module, Name, OperandKind};

/// First of the addresses that stand for functions: 16 bytes apart, and none of memory.
const FUNCTION_WINDOW: u64 = 0x0400_0000;

/// Where the functions of a module are: those that it defines.
pub(crate) fn addresses(module: &Module) -> BTreeMap<Name, u64> {
    let defined =
        module.functions().filter(|function| function.kind == FunctionKind::Func && function.body.is_some());
    defined.zip(0..).map(|(function, index)| (function.name.clone(), FUNCTION_WINDOW + 16 * index)).collect()
}

/// The functions whose address is in a variable or taken by an instruction.
pub(crate) fn taken(module: &Module, addresses: &BTreeMap<Name, u64>) -> BTreeSet<Name> {
    let mut taken = BTreeSet::new();
    for variable in module.variables() {
        if let Some(initializer) = &variable.initializer {
            named(initializer, &mut taken);
        }
    }
    for instruction in module.functions().flat_map(|function| function.instructions()) {
        if instruction.opcode() == "mov" {
            let symbols = instruction.operands.iter().filter_map(|operand| match &operand.kind {
                OperandKind::Symbol { name, .. } => Some(name.clone()),
                _ => None,
            });
            taken.extend(symbols);
        }
    }
    taken.retain(|name| addresses.contains_key(name));
    taken
}

fn named(initializer: &Initializer, taken: &mut BTreeSet<Name>) {
    match initializer {
        Initializer::Symbol { name, .. } => {
            taken.insert(name.clone());
        }
        Initializer::List(list) => list.iter().for_each(|inner| named(inner, taken)),
        Initializer::Number(_) => {}
    }
}

/// A decoded device function.
#[derive(Clone, Debug)]
pub(crate) struct Callee {
    pub(crate) start: usize,
    pub(crate) link: R32,
    /// Offset and size of each parameter and result in local memory.
    pub(crate) parameters: Vec<(u32, u32)>,
    pub(crate) results: Vec<(u32, u32)>,
}

impl Callee {
    /// Whether arguments and results of such sizes fit.
    pub(crate) fn takes(&self, arguments: &[(u32, u32)], results: &[(u32, u32)]) -> bool {
        let sizes = |list: &[(u32, u32)]| list.iter().map(|(_, bytes)| *bytes).collect::<Vec<_>>();
        sizes(&self.parameters) == sizes(arguments) && sizes(&self.results) == sizes(results)
    }
}
