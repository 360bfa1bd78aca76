//! Where variables lie: kernel parameters, shared and local memory, and the initial bytes of module variables.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::code::SharedLayout;
use crate::program::{LoadError, ModuleVariable};
use crate::ptx::{
    self, Block, Function, Initializer, Module, Name, Number, Operand, OperandKind, ScalarType, Statement,
};

/// Bytes between shared variables, so that running off one is noticed.
const SHARED_GAP: u32 = 16;

/// Alignment of dynamic shared memory at least.
const DYNAMIC_ALIGN: u32 = 16;

/// Offsets of the parameters, and bytes of them all.
pub(crate) fn parameters(function: &Function) -> Result<(Vec<u32>, u32), LoadError> {
    let mut offsets = Vec::new();
    let mut end = 0u32;
    for parameter in &function.parameters {
        let line = parameter.span.line;
        let size = parameter.size_bytes().and_then(|size| u32::try_from(size).ok());
        let size = size.ok_or_else(|| invalid(line, format!("parameter {} has no size", parameter.name)))?;
        let start = aligned(end, parameter.align_bytes());
        end = start
            .and_then(|start| start.checked_add(size))
            .ok_or_else(|| invalid(line, "parameters exceed 4 gigabytes".to_owned()))?;
        offsets.push(start.unwrap_or_default());
    }
    Ok((offsets, end))
}

/// The next multiple of an alignment.
pub(crate) fn aligned(offset: u32, align: u32) -> Option<u32> {
    offset.checked_next_multiple_of(align.max(1))
}

pub(crate) fn invalid(line: u32, what: String) -> LoadError {
    LoadError::Invalid { line, what }
}

/// Shared memory of a kernel: where each variable (known by the place of its declaration) lies.
#[derive(Debug, Default)]
pub(crate) struct SharedPlan {
    pub(crate) layout: SharedLayout,
    pub(crate) offsets: HashMap<u32, u32>,
}

/// Lays out the shared variables that the functions declare or name.
pub(crate) fn shared(module: &Module, functions: &[&Function]) -> Result<SharedPlan, LoadError> {
    let mut used = BTreeSet::new();
    let mut variables = Vec::new();
    for function in functions {
        if let Some(body) = &function.body {
            visit(body, &mut used, &mut variables);
        }
    }
    let named = module.variables().filter(|variable| used.contains(&variable.name));
    let all = named.chain(variables).filter(|variable| variable.space == ptx::Space::Shared);
    let mut plan = SharedPlan::default();
    let mut end = 0u32;
    let mut dynamic = Vec::new();
    let mut dynamic_align = DYNAMIC_ALIGN;
    for variable in all {
        let size = variable.size_bytes().filter(|size| *size > 0);
        let Some(size) = size else {
            dynamic_align = dynamic_align.max(variable.align_bytes());
            dynamic.push(variable.span.start);
            continue;
        };
        let too_large = || invalid(variable.span.line, "shared variables exceed 16 megabytes".to_owned());
        let start = aligned(end, variable.align_bytes()).ok_or_else(too_large)?;
        let size = u32::try_from(size).ok().filter(|size| *size < 1 << 24).ok_or_else(too_large)?;
        plan.offsets.insert(variable.span.start, start);
        plan.layout.variables.push((start, size));
        plan.layout.static_bytes += u64::from(size);
        end = start.checked_add(size + SHARED_GAP).filter(|end| *end < 1 << 24).ok_or_else(too_large)?;
    }
    let start = aligned(end, dynamic_align).filter(|start| *start < 1 << 24);
    let start = start.ok_or_else(|| invalid(1, "shared variables exceed 16 megabytes".to_owned()))?;
    plan.layout.dynamic_start = start;
    plan.offsets.extend(dynamic.into_iter().map(|at| (at, start)));
    Ok(plan)
}

fn visit<'a>(block: &'a Block, used: &mut BTreeSet<Name>, variables: &mut Vec<&'a ptx::Variable>) {
    for statement in &block.statements {
        match statement {
            Statement::Block(inner) => visit(inner, used, variables),
            Statement::Variable(variable) => variables.push(variable),
            Statement::Instruction(instruction) => {
                instruction.operands.iter().for_each(|operand| symbols(operand, used));
            }
            _ => {}
        }
    }
}

fn symbols(operand: &Operand, used: &mut BTreeSet<Name>) {
    match &operand.kind {
        OperandKind::Symbol { name, .. } => {
            used.insert(name.clone());
        }
        OperandKind::Address(address) => {
            if let ptx::AddressBase::Symbol(name) = &address.base {
                used.insert(name.clone());
            }
        }
        OperandKind::Vector(list) | OperandKind::List(list) => {
            list.iter().for_each(|operand| symbols(operand, used));
        }
        _ => {}
    }
}

/// A `.global` or `.const` variable with its initial bytes; `index_of` finds the variables it points to, `functions` the
/// functions.
pub(crate) fn module_variable(
    variable: &ptx::Variable,
    index_of: &BTreeMap<Name, usize>,
    functions: &BTreeMap<Name, u64>,
) -> Option<ModuleVariable> {
    let size = usize::try_from(variable.size_bytes()?).ok().filter(|size| *size <= 1 << 30)?;
    let mut image = Image { bytes: vec![0; size], pointers: Vec::new(), index_of, functions };
    if let Some(initializer) = &variable.initializer {
        let mut dimensions: Vec<usize> =
            variable.dimensions.iter().map(|dimension| dimension.unwrap_or_default() as usize).collect();
        if variable.vector > 1 {
            dimensions.push(variable.vector as usize);
        }
        image.fill(initializer, variable.ty, 0, &dimensions)?;
    }
    Some(ModuleVariable {
        name: variable.name.to_string(),
        align: u64::from(variable.align_bytes()).next_power_of_two(),
        bytes: image.bytes,
        pointers: image.pointers,
    })
}

struct Image<'a> {
    bytes: Vec<u8>,
    pointers: Vec<(usize, usize, i64)>,
    index_of: &'a BTreeMap<Name, usize>,
    functions: &'a BTreeMap<Name, u64>,
}

impl Image<'_> {
    fn fill(
        &mut self,
        initializer: &Initializer,
        ty: ScalarType,
        at: usize,
        dimensions: &[usize],
    ) -> Option<()> {
        match initializer {
            Initializer::Number(number) => self.put(at, ty, number_bits(number, ty)),
            Initializer::Symbol { name, offset, mask: None, .. } if ty.size_bytes() == 8 => {
                if let Some(address) = self.functions.get(name) {
                    return self.put(at, ty, address.wrapping_add_signed(*offset));
                }
                let target = *self.index_of.get(name)?;
                self.pointers.push((at, target, *offset));
                Some(())
            }
            Initializer::Symbol { .. } => None,
            Initializer::List(values) => {
                let inner = dimensions.get(1..).unwrap_or_default();
                let stride = inner.iter().product::<usize>() * ty.size_bytes() as usize;
                for (index, value) in values.iter().enumerate() {
                    self.fill(value, ty, at + index * stride, inner)?;
                }
                Some(())
            }
        }
    }

    fn put(&mut self, at: usize, ty: ScalarType, bits: u64) -> Option<()> {
        let size = ty.size_bytes() as usize;
        let bytes = bits.to_le_bytes();
        self.bytes.get_mut(at..at + size)?.copy_from_slice(bytes.get(..size)?);
        Some(())
    }
}

fn number_bits(number: &Number, ty: ScalarType) -> u64 {
    match ty {
        ScalarType::F32 => u64::from(number.as_f32().to_bits()),
        ScalarType::F64 => number.as_f64().to_bits(),
        _ if number.is_float() && ty.size_bytes() == 4 => u64::from(number.as_f32().to_bits()),
        _ => number.bits,
    }
}
