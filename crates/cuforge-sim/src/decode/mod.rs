//! From a parsed module to code that runs.
//!
//! A form that the tables do not know becomes an instruction that faults when a thread comes to it: loading
//! fails only for declarations without which nothing can be laid out.

mod bits;
mod call;
mod callee;
mod compare;
mod convert;
mod copy;
mod float;
mod flow;
mod gate;
mod integer;
mod layout;
mod matrix;
mod memory;
mod numbering;
mod scope;
mod special;
mod table;
mod warp;
mod words;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::code::Code;
use crate::program::{LoadError, ModuleVariable, Program};
use crate::ptx::{self, Block, Function, Linkage, Module, Name, Statement};
use flow::{Flow, reachable};
use layout::invalid;
use scope::{Names, Variable};

/// Most threads of a block that says nothing itself.
const MAX_THREADS: u32 = 1024;

/// Most bytes of a module's variables.
const MAX_VARIABLE_BYTES: u64 = 1 << 30;

impl Program {
    /// Decodes all kernels of a parsed module.
    ///
    /// Costs about as much as parsing. Instructions without an executor do not make it fail.
    ///
    /// # Errors
    /// [`LoadError::Invalid`] for a module of 32-bit addresses, parameters or variables without a size, and
    /// variables that exceed their space.
    pub fn load(module: &Module) -> Result<Self, LoadError> {
        if let Some(bits) = module.header().address_size
            && bits != 64
        {
            return Err(invalid(1, format!("addresses of {bits} bits; only 64 are supported")));
        }
        defined_once(module)?;
        let functions = callee::addresses(module);
        let variables = Variables::of(module, &functions)?;
        let mut kernels = BTreeMap::new();
        for entry in module.entries() {
            kernels.insert(entry.name.to_string(), Arc::new(kernel(module, entry, &variables, &functions)?));
        }
        Ok(Self::new(kernels, variables.list))
    }
}

/// No name is given twice at module level; what is only declared there may be defined later.
fn defined_once(module: &Module) -> Result<(), LoadError> {
    let functions = module.functions().filter(|function| function.body.is_some());
    let variables = module.variables().filter(|variable| variable.linkage != Some(Linkage::Extern));
    let functions = functions.map(|function| (&function.name, function.span.line));
    let mut seen = BTreeSet::new();
    for (name, line) in functions.chain(variables.map(|variable| (&variable.name, variable.span.line))) {
        if !seen.insert(name) {
            return Err(invalid(line, format!("{name} is defined twice")));
        }
    }
    Ok(())
}

/// The `.global` and `.const` variables of a module, those declared inside functions included.
#[derive(Debug, Default)]
struct Variables {
    list: Vec<ModuleVariable>,
    named: BTreeMap<Name, usize>,
    /// By the place of the declaration.
    placed: BTreeMap<u32, usize>,
}

impl Variables {
    fn of(module: &Module, functions: &BTreeMap<Name, u64>) -> Result<Self, LoadError> {
        let mut found: Vec<&ptx::Variable> = module.variables().collect();
        let at_module_level = found.len();
        for function in module.functions() {
            if let Some(body) = &function.body {
                declared(body, &mut found);
            }
        }
        let mut variables = Self::default();
        let in_memory = |variable: &&ptx::Variable| {
            variable.linkage != Some(Linkage::Extern)
                && matches!(variable.space, ptx::Space::Global | ptx::Space::Const)
        };
        // Names first, so that initial values can point to later variables.
        let named = found[..at_module_level].iter().filter(|variable| in_memory(variable));
        variables.named = named.enumerate().map(|(index, variable)| (variable.name.clone(), index)).collect();
        let mut bytes = 0u64;
        for variable in found.into_iter().filter(in_memory) {
            bytes = bytes.saturating_add(variable.size_bytes().unwrap_or_default());
            if bytes > MAX_VARIABLE_BYTES {
                return Err(invalid(variable.span.line, "module variables exceed 1 gigabyte".to_owned()));
            }
            let index = variables.list.len();
            variables.placed.insert(variable.span.start, index);
            let empty = || ModuleVariable {
                name: variable.name.to_string(),
                align: 8,
                bytes: Vec::new(),
                pointers: Vec::new(),
            };
            match layout::module_variable(variable, &variables.named, functions) {
                Some(laid_out) => variables.list.push(laid_out),
                // Kept, so that numbers stay right; uses of it are unknown.
                None => {
                    variables.list.push(empty());
                    variables.placed.remove(&variable.span.start);
                    variables.named.remove(&variable.name);
                }
            }
        }
        Ok(variables)
    }
}

fn declared<'a>(block: &'a Block, found: &mut Vec<&'a ptx::Variable>) {
    for statement in &block.statements {
        match statement {
            Statement::Block(inner) => declared(inner, found),
            Statement::Variable(variable) => found.push(variable),
            _ => {}
        }
    }
}

fn kernel(
    module: &Module,
    entry: &Function,
    variables: &Variables,
    addresses: &BTreeMap<Name, u64>,
) -> Result<Code, LoadError> {
    let taken = callee::taken(module, addresses);
    let taken = addresses.iter().filter(|(name, _)| taken.contains(*name));
    let taken = taken.map(|(name, address)| (name.clone(), *address)).collect();
    let functions = reachable(module, entry, &taken);
    let plan = layout::shared(module, &functions)?;
    let (offsets, param_bytes) = layout::parameters(entry)?;
    let mut names = Names::new(&entry.name);
    names.functions = addresses.clone();
    names.code.param_bytes = param_bytes;
    names.code.shared = plan.layout;
    names.code.required_cluster = entry.tuning("reqnctapercluster").map(dimensions);
    names.code.required_block = entry.tuning("reqntid").map(dimensions);
    names.code.max_threads = entry.tuning("maxntid").map_or(MAX_THREADS, |values| {
        dimensions(values).iter().fold(1u32, |product, n| product.saturating_mul(*n))
    });
    for (name, index) in &variables.named {
        names.place(name, Variable::Module { index: *index });
    }
    for variable in module.variables() {
        if let Some(offset) = plan.offsets.get(&variable.span.start) {
            names.place(&variable.name, Variable::Shared { offset: *offset });
        }
    }
    let mut flow = Flow::new(names, plan.offsets, &variables.placed, taken);
    for function in &functions {
        if function.kind == ptx::FunctionKind::Func {
            flow.function(function)?;
        }
    }
    flow.entry(entry, &offsets)?;
    let mut code = flow.finish();
    if let Some([most, ..]) = entry.tuning("maxnreg") {
        code.registers = code.registers.min(u32::try_from(*most).unwrap_or(u32::MAX));
    }
    Ok(code)
}

fn dimensions(values: &[u64]) -> [u32; 3] {
    let at = |index: usize| values.get(index).map_or(1, |value| u32::try_from(*value).unwrap_or(u32::MAX));
    [at(0), at(1), at(2)]
}
