//! Names and what they stand for: registers, variables, labels, constants.

use std::collections::{BTreeMap, HashMap};

use crate::code::{Code, Relocation, Special};
use crate::dataflow::Dataflow;
use crate::decode::numbering::{READ_ONLY, Renumber};
use crate::decode::special::special;
use crate::decode::words::{Decoded, Unknown, is_float};
use crate::form::{AddressBase, Pred, PredSource, R32, R64, Reg};
use crate::ptx::{self, Name, Number, Operand, OperandKind, ScalarType};

/// What a register name stands for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Register {
    Data(Reg, ScalarType),
    Pred(Pred),
    /// 128 bits as two registers, the low one first.
    Pair(R64, R64),
}

/// Where a variable lies.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Variable {
    /// Bytes into the kernel's parameters.
    Param { offset: u32 },
    /// Bytes into shared memory.
    Shared { offset: u32 },
    /// Bytes into a thread's local memory; a parameter of a device function or of a call if `param`.
    Local { offset: u32, bytes: u32, param: bool },
    /// A `.global` or `.const` variable of the module.
    Module { index: usize },
}

/// The names of one pair of braces.
#[derive(Debug, Default)]
struct Scope {
    registers: HashMap<Name, Register>,
    ranges: Vec<(Name, u32, ScalarType)>,
    variables: HashMap<Name, Variable>,
    labels: HashMap<Name, usize>,
    tables: HashMap<Name, Vec<Name>>,
}

/// Everything that decoding a kernel gathers.
#[derive(Debug)]
pub(crate) struct Names {
    pub(crate) code: Code,
    scopes: Vec<Scope>,
    constants32: BTreeMap<u32, R32>,
    constants64: BTreeMap<u64, R64>,
    specials: HashMap<Special, R32>,
    addresses: BTreeMap<(usize, i64), R64>,
    /// Places of labels, by number; known once they are passed.
    pub(crate) label_places: Vec<Option<usize>>,
    /// Whether a device function is being decoded, whose parameters lie in local memory.
    pub(crate) in_function: bool,
    /// The addresses of functions.
    pub(crate) functions: BTreeMap<Name, u64>,
    /// The predicate that stands for one that never holds, if an operand needs it.
    pub(crate) never: Option<Pred>,
}

impl Names {
    pub(crate) fn new(kernel: &str) -> Self {
        Self {
            code: Code {
                name: kernel.to_owned(),
                shared_granule_log2: 2,
                global_granule_log2: 2,
                ..Code::default()
            },
            scopes: vec![Scope::default()],
            constants32: BTreeMap::new(),
            constants64: BTreeMap::new(),
            specials: HashMap::new(),
            addresses: BTreeMap::new(),
            label_places: Vec::new(),
            in_function: false,
            functions: BTreeMap::new(),
            never: None,
        }
    }

    /// Opens a scope.
    pub(crate) fn enter(&mut self) {
        self.scopes.push(Scope::default());
    }

    /// Closes the innermost scope.
    pub(crate) fn leave(&mut self) {
        self.scopes.pop();
    }

    fn scope(&mut self) -> &mut Scope {
        if self.scopes.is_empty() {
            self.scopes.push(Scope::default());
        }
        let last = self.scopes.len() - 1;
        &mut self.scopes[last]
    }

    /// Declares a register or a range of them; false if the scope has that name already.
    pub(crate) fn declare(&mut self, declaration: &ptx::RegisterDeclaration) -> bool {
        let (name, ty) = (declaration.name.clone(), declaration.ty);
        let scope = self.scope();
        let twice = match declaration.range {
            Some(_) => scope.ranges.iter().any(|(known, ..)| *known == name),
            None => scope.registers.contains_key(&name),
        };
        if twice || declaration.vector != 1 {
            return !twice;
        }
        match declaration.range {
            Some(count) => self.scope().ranges.push((name, count, ty)),
            None => {
                if let Some(register) = self.new_register(ty) {
                    self.scope().registers.insert(name, register);
                }
            }
        }
        true
    }

    /// Names a variable in the innermost scope.
    pub(crate) fn place(&mut self, name: &Name, variable: Variable) {
        self.scope().variables.insert(name.clone(), variable);
    }

    /// Names a label in the innermost scope; false if it has one of that name already.
    pub(crate) fn label(&mut self, name: &Name) -> bool {
        let number = self.label_places.len();
        self.label_places.push(None);
        self.scope().labels.insert(name.clone(), number).is_none()
    }

    /// Names a branch table in the innermost scope.
    pub(crate) fn table(&mut self, name: &Name, targets: &[Name]) {
        self.scope().tables.insert(name.clone(), targets.to_vec());
    }

    /// The labels that a branch table lists.
    pub(crate) fn find_table(&self, name: &str) -> Option<&[Name]> {
        self.scopes.iter().rev().find_map(|scope| scope.tables.get(name)).map(Vec::as_slice)
    }

    /// The number of the label of that name.
    pub(crate) fn find_label(&self, name: &str) -> Decoded<usize> {
        self.scopes.iter().rev().find_map(|scope| scope.labels.get(name)).copied().ok_or(Unknown)
    }

    /// The variable of that name.
    pub(crate) fn variable(&self, name: &str) -> Decoded<Variable> {
        self.scopes.iter().rev().find_map(|scope| scope.variables.get(name)).copied().ok_or(Unknown)
    }

    fn new_register(&mut self, ty: ScalarType) -> Option<Register> {
        Some(match (ty, ty.size_bytes()) {
            (ScalarType::Pred, _) => Register::Pred(self.new_pred()),
            (_, 1 | 2 | 4) => Register::Data(Reg::Narrow(self.new32()), ty),
            (_, 8) => Register::Data(Reg::Wide(self.new64()), ty),
            (_, 16) => Register::Pair(self.new64(), self.new64()),
            _ => return None,
        })
    }

    /// A register that no name stands for.
    pub(crate) fn new32(&mut self) -> R32 {
        self.code.written32 += 1;
        R32(self.code.written32 as u32 - 1)
    }

    fn new64(&mut self) -> R64 {
        self.code.written64 += 1;
        R64(self.code.written64 as u32 - 1)
    }

    /// A predicate that no name stands for.
    pub(crate) fn new_pred(&mut self) -> Pred {
        self.code.predicates += 1;
        Pred(self.code.predicates as u32 - 1)
    }

    /// The register of that name; one of a range gets its place at its first use.
    fn register(&mut self, name: &Name) -> Option<Register> {
        for index in (0..self.scopes.len()).rev() {
            let scope = &self.scopes[index];
            if let Some(register) = scope.registers.get(name) {
                return Some(*register);
            }
            let prefix = name.trim_end_matches(|c: char| c.is_ascii_digit());
            let number: Option<u32> = name[prefix.len()..].parse().ok();
            let range = scope
                .ranges
                .iter()
                .find(|(range, count, _)| range == prefix && number.is_some_and(|number| number < *count));
            if let Some(&(_, _, ty)) = range {
                let register = self.new_register(ty)?;
                self.scopes[index].registers.insert(name.clone(), register);
                return Some(register);
            }
        }
        None
    }

    /// Bytes of a declared data register.
    pub(crate) fn width(&mut self, operand: &Operand) -> Option<u32> {
        match &operand.kind {
            OperandKind::Register { name, component: None } => match self.register(name)? {
                Register::Data(_, ty) => Some(ty.size_bytes()),
                Register::Pair(..) => Some(16),
                Register::Pred(_) => None,
            },
            _ => None,
        }
    }

    /// A data register that is written.
    pub(crate) fn target(&mut self, operand: &Operand) -> Decoded<(Reg, ScalarType)> {
        match &operand.kind {
            OperandKind::Register { name, component: None } => match self.register(name) {
                Some(Register::Data(reg, ty)) => Ok((reg, ty)),
                _ => Err(Unknown),
            },
            _ => Err(Unknown),
        }
    }

    /// A 32-bit register that is written.
    pub(crate) fn target32(&mut self, operand: &Operand) -> Decoded<R32> {
        match self.target(operand)? {
            (Reg::Narrow(reg), _) => Ok(reg),
            _ => Err(Unknown),
        }
    }

    /// A 64-bit register that is written.
    pub(crate) fn target64(&mut self, operand: &Operand) -> Decoded<R64> {
        match self.target(operand)? {
            (Reg::Wide(reg), _) => Ok(reg),
            _ => Err(Unknown),
        }
    }

    /// A data register that is written, or `_`.
    pub(crate) fn optional_target(&mut self, operand: &Operand) -> Decoded<Option<(Reg, ScalarType)>> {
        match operand.kind {
            OperandKind::Sink => Ok(None),
            _ => self.target(operand).map(Some),
        }
    }

    /// A register of 128 bits: its low and its high half.
    pub(crate) fn pair(&mut self, operand: &Operand) -> Decoded<(R64, R64)> {
        match &operand.kind {
            OperandKind::Register { name, component: None } => match self.register(name) {
                Some(Register::Pair(low, high)) => Ok((low, high)),
                _ => Err(Unknown),
            },
            _ => Err(Unknown),
        }
    }

    /// A predicate that is written.
    pub(crate) fn pred_target(&mut self, operand: &Operand) -> Decoded<Pred> {
        match &operand.kind {
            OperandKind::Register { name, component: None } => match self.register(name) {
                Some(Register::Pred(pred)) => Ok(pred),
                _ => Err(Unknown),
            },
            _ => Err(Unknown),
        }
    }

    /// A predicate that is written, or `_`.
    pub(crate) fn optional_pred(&mut self, operand: &Operand) -> Decoded<Option<Pred>> {
        match operand.kind {
            OperandKind::Sink => Ok(None),
            _ => self.pred_target(operand).map(Some),
        }
    }

    /// A predicate that is read.
    pub(crate) fn pred(&mut self, operand: &Operand) -> Decoded<PredSource> {
        match &operand.kind {
            OperandKind::Not(inner) => {
                let source = self.pred(inner)?;
                Ok(PredSource { negated: !source.negated, ..source })
            }
            OperandKind::Immediate(number) => {
                let never = match self.never {
                    Some(pred) => pred,
                    None => self.new_pred(),
                };
                self.never = Some(never);
                Ok(PredSource { pred: never, negated: number.bits != 0 })
            }
            _ => Ok(PredSource { pred: self.pred_target(operand)?, negated: false }),
        }
    }

    /// The predicate of a guard.
    pub(crate) fn guard(&mut self, guard: &ptx::Guard) -> Decoded<PredSource> {
        match self.register(&guard.register) {
            Some(Register::Pred(pred)) => Ok(PredSource { pred, negated: guard.negated }),
            _ => Err(Unknown),
        }
    }

    /// A value of at most 32 bits that is read, as one of the type.
    pub(crate) fn source32(&mut self, operand: &Operand, ty: ScalarType) -> Decoded<R32> {
        match self.source(operand, ty)? {
            Reg::Narrow(reg) => Ok(reg),
            Reg::Wide(_) => Err(Unknown),
        }
    }

    /// A value of 64 bits that is read, as one of the type.
    pub(crate) fn source64(&mut self, operand: &Operand, ty: ScalarType) -> Decoded<R64> {
        match self.source(operand, ty)? {
            Reg::Wide(reg) => Ok(reg),
            Reg::Narrow(_) => Err(Unknown),
        }
    }

    /// A value that is read; an immediate takes the width of the type.
    pub(crate) fn source(&mut self, operand: &Operand, ty: ScalarType) -> Decoded<Reg> {
        match &operand.kind {
            OperandKind::Register { name, component } => {
                if component.is_none()
                    && let Some(register) = self.register(name)
                {
                    return match register {
                        Register::Data(reg, _) => Ok(reg),
                        Register::Pred(_) | Register::Pair(..) => Err(Unknown),
                    };
                }
                let special = special(name, component.as_deref()).ok_or(Unknown)?;
                Ok(Reg::Narrow(self.special(special)))
            }
            OperandKind::Immediate(number) => Ok(self.immediate(number, ty)),
            OperandKind::WarpSize if ty.size_bytes() == 8 => Ok(Reg::Wide(self.constant64(32))),
            OperandKind::WarpSize => Ok(Reg::Narrow(self.constant32(32))),
            OperandKind::Symbol { name, offset } => self.address_of(name, *offset, ty),
            _ => Err(Unknown),
        }
    }

    /// The address of a variable in its own space, as a constant.
    fn address_of(&mut self, name: &Name, offset: i64, ty: ScalarType) -> Decoded<Reg> {
        if ty.size_bytes() == 8
            && self.variable(name).is_err()
            && let Some(address) = self.functions.get(name)
        {
            let address = address.wrapping_add_signed(offset);
            return Ok(Reg::Wide(self.constant64(address)));
        }
        let place = match self.variable(name)? {
            Variable::Param { offset } | Variable::Shared { offset } | Variable::Local { offset, .. } => {
                offset
            }
            Variable::Module { index } => {
                if ty.size_bytes() != 8 {
                    return Err(Unknown);
                }
                return Ok(Reg::Wide(self.module_address(index, offset)));
            }
        };
        let address = i64::from(place).wrapping_add(offset).cast_unsigned();
        match ty.size_bytes() {
            8 => Ok(Reg::Wide(self.constant64(address))),
            4 => Ok(Reg::Narrow(self.constant32(address as u32))),
            _ => Err(Unknown),
        }
    }

    /// A register that holds the address of a module variable.
    pub(crate) fn module_address(&mut self, variable: usize, offset: i64) -> R64 {
        if let Some(reg) = self.addresses.get(&(variable, offset)) {
            return *reg;
        }
        let reg = R64(READ_ONLY + self.read_only64());
        self.addresses.insert((variable, offset), reg);
        self.code.relocations.push(Relocation { reg: Reg::Wide(reg), variable, offset });
        reg
    }

    fn read_only32(&self) -> u32 {
        (self.constants32.len() + self.specials.len()) as u32
    }

    fn read_only64(&self) -> u32 {
        (self.constants64.len() + self.addresses.len()) as u32
    }

    fn immediate(&mut self, number: &Number, ty: ScalarType) -> Reg {
        let narrow = ty.size_bytes() <= 4;
        let bits = match (number.is_float(), ty.size_bytes()) {
            (true, 8) => number.as_f64().to_bits(),
            (true, 4) => u64::from(number.as_f32().to_bits()),
            (true, _) if ty == ScalarType::Bf16 => u64::from(half::bf16::from_f64(number.as_f64()).to_bits()),
            (true, _) => u64::from(half::f16::from_f64(number.as_f64()).to_bits()),
            (false, 8) if is_float(ty) => number.as_f64().to_bits(),
            (false, 4) if ty == ScalarType::F32 => u64::from(number.as_f32().to_bits()),
            (false, 1) => number.bits & 0xff,
            (false, 2) => number.bits & 0xffff,
            (false, _) => number.bits,
        };
        if narrow { Reg::Narrow(self.constant32(bits as u32)) } else { Reg::Wide(self.constant64(bits)) }
    }

    /// A register that holds the constant.
    pub(crate) fn constant32(&mut self, value: u32) -> R32 {
        let next = R32(READ_ONLY + self.read_only32());
        *self.constants32.entry(value).or_insert(next)
    }

    /// A 64-bit register that holds the constant.
    pub(crate) fn constant64(&mut self, value: u64) -> R64 {
        let next = R64(READ_ONLY + self.read_only64());
        *self.constants64.entry(value).or_insert(next)
    }

    fn special(&mut self, special: Special) -> R32 {
        let next = R32(READ_ONLY + self.read_only32());
        *self.specials.entry(special).or_insert(next)
    }

    /// The base and the whole offset of a memory operand, and the variable it starts from, if any.
    pub(crate) fn address(
        &mut self,
        address: &ptx::Address,
    ) -> Decoded<(AddressBase, i64, Option<Variable>)> {
        if !address.coordinates.is_empty() {
            return Err(Unknown);
        }
        match &address.base {
            ptx::AddressBase::Absolute => Ok((AddressBase::Absolute, address.offset, None)),
            ptx::AddressBase::Register(name) => match self.register(name) {
                Some(Register::Data(Reg::Narrow(reg), _)) => {
                    Ok((AddressBase::Narrow(reg), address.offset, None))
                }
                Some(Register::Data(Reg::Wide(reg), _)) => Ok((AddressBase::Wide(reg), address.offset, None)),
                _ => Err(Unknown),
            },
            ptx::AddressBase::Symbol(name) => {
                let variable = self.variable(name)?;
                let (base, start) = match variable {
                    Variable::Param { offset }
                    | Variable::Shared { offset }
                    | Variable::Local { offset, .. } => (AddressBase::Absolute, i64::from(offset)),
                    Variable::Module { index } => (AddressBase::Wide(self.module_address(index, 0)), 0),
                };
                Ok((base, start + address.offset, Some(variable)))
            }
        }
    }

    /// Moves constants and special values behind the written registers, and gives the code.
    pub(crate) fn finish(mut self) -> Code {
        let (written32, written64) = (self.code.written32 as u32, self.code.written64 as u32);
        let low = |reg: R32| R32(reg.0 - READ_ONLY + written32);
        let high = |reg: R64| R64(reg.0 - READ_ONLY + written64);
        self.code.total32 = (written32 + self.read_only32()) as usize;
        self.code.total64 = (written64 + self.read_only64()) as usize;
        self.code.constants32 = self.constants32.iter().map(|(value, reg)| (low(*reg), *value)).collect();
        self.code.constants64 = self.constants64.iter().map(|(value, reg)| (high(*reg), *value)).collect();
        self.code.specials =
            self.specials.iter().map(|(special, reg)| (*special, Reg::Narrow(low(*reg)))).collect();
        for relocation in &mut self.code.relocations {
            if let Reg::Wide(reg) = relocation.reg {
                relocation.reg = Reg::Wide(high(reg));
            }
        }
        for inst in &mut self.code.insts {
            inst.op.sources(&mut Renumber { written32, written64 });
        }
        self.code.flows = self.code.insts.iter().map(Dataflow::of).collect();
        self.code
    }
}
