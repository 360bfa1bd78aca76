//! Functions, scopes, labels, branches and calls.

use std::collections::{BTreeMap, HashMap, HashSet};

use crate::assigned::maybe_unwritten;
use crate::code::Code;
use crate::dataflow::Slot;
use crate::decode::callee::Callee;
use crate::decode::layout::{aligned, invalid};
use crate::decode::scope::{Names, Variable};
use crate::decode::table;
use crate::decode::words::{Decoded, Unknown, Words, symbol};
use crate::form::{Inst, Op, PredSource, R32};
use crate::pressure::registers;
use crate::program::LoadError;
use crate::ptx::{self, Block, Function, FunctionKind, Instruction, Module, Name, OperandKind, Statement};

/// Bytes between local variables, so that running off one is noticed.
const LOCAL_GAP: u32 = 16;

/// Most bytes of local variables, with the gaps.
const MAX_LOCAL_BYTES: u32 = 512 * 1024;

/// Decodes the functions of one kernel.
#[derive(Debug)]
pub(crate) struct Flow<'m> {
    pub(crate) names: Names,
    /// Where each shared variable lies, by the place of its declaration.
    pub(crate) shared: HashMap<u32, u32>,
    /// The index of each module variable that a function declares, by the place of its declaration.
    pub(crate) statics: &'m BTreeMap<u32, usize>,
    pub(crate) callees: HashMap<Name, Callee>,
    /// Functions whose address is taken, and where they are.
    pub(crate) taken: BTreeMap<Name, u64>,
    link: Option<R32>,
}

/// Functions that the kernel reaches, callees first, the kernel last.
///
/// Functions that call themselves are left out, so that a call of them is unknown.
pub(crate) fn reachable<'m>(
    module: &'m Module,
    entry: &'m Function,
    taken: &BTreeMap<Name, u64>,
) -> Vec<&'m Function> {
    let mut known: HashMap<&str, &Function> = HashMap::new();
    for function in module.functions().filter(|function| function.kind == FunctionKind::Func) {
        if function.body.is_some() {
            known.entry(&function.name).or_insert(function);
        }
    }
    let callees = |function: &'m Function| -> Vec<&'m Function> {
        let targets = function.instructions().filter_map(|instruction| instruction.call());
        let mut by_address = false;
        let mut found: Vec<_> = targets
            .filter_map(|call| match &call.target.kind {
                OperandKind::Symbol { name, .. } => known.get(&**name).copied(),
                _ => {
                    by_address = true;
                    None
                }
            })
            .collect();
        if by_address {
            found.extend(taken.keys().filter_map(|name| known.get(&**name).copied()));
        }
        found
    };
    // A stack of its own: chains of calls may be as long as the text.
    let mut seen: HashSet<&str> = HashSet::from([&*entry.name]);
    let mut open = vec![(entry, callees(entry).into_iter())];
    let mut done = Vec::new();
    while let Some((function, rest)) = open.last_mut() {
        match rest.next() {
            Some(callee) if seen.insert(&callee.name) => open.push((callee, callees(callee).into_iter())),
            Some(_) => {}
            None => {
                done.push(*function);
                open.pop();
            }
        }
    }
    done
}

impl<'m> Flow<'m> {
    pub(crate) fn new(
        names: Names,
        shared: HashMap<u32, u32>,
        statics: &'m BTreeMap<u32, usize>,
        taken: BTreeMap<Name, u64>,
    ) -> Self {
        Self { names, shared, statics, callees: HashMap::new(), taken, link: None }
    }

    /// Decodes a device function; those it calls must be decoded already.
    pub(crate) fn function(&mut self, function: &Function) -> Result<(), LoadError> {
        let Some(body) = &function.body else { return Ok(()) };
        let link = self.names.new32();
        self.names.in_function = true;
        self.names.enter();
        let mut places = [Vec::new(), Vec::new()];
        for (list, place) in [&function.parameters, &function.results].into_iter().zip(&mut places) {
            for parameter in list {
                let bytes =
                    parameter.size_bytes().and_then(|size| u32::try_from(size).ok()).unwrap_or_default();
                let offset = self.local(parameter.span.line, bytes, parameter.align_bytes())?;
                if parameter.space == ptx::Space::Param {
                    self.names.place(&parameter.name, Variable::Local { offset, bytes, param: true });
                }
                place.push((offset, bytes));
            }
        }
        let [parameters, results] = places;
        let start = self.names.code.insts.len();
        self.link = Some(link);
        self.block(body)?;
        self.emit(Op::Return(link), None, body.span.line);
        self.link = None;
        self.names.leave();
        self.names.in_function = false;
        self.callees.insert(function.name.clone(), Callee { start, link, parameters, results });
        Ok(())
    }

    /// Decodes the kernel itself, last of all.
    pub(crate) fn entry(&mut self, function: &Function, offsets: &[u32]) -> Result<(), LoadError> {
        let Some(body) = &function.body else { return Ok(()) };
        self.names.enter();
        for (parameter, offset) in function.parameters.iter().zip(offsets) {
            self.names.place(&parameter.name, Variable::Param { offset: *offset });
        }
        self.names.code.entry = self.names.code.insts.len();
        self.block(body)?;
        self.emit(Op::Exit, None, body.span.line);
        self.names.leave();
        Ok(())
    }

    /// Puts places for labels, and gives the code.
    pub(crate) fn finish(self) -> Code {
        let places = self.names.label_places.clone();
        let never = self.names.never;
        let mut code = self.names.finish();
        let place = |label: &mut usize| {
            *label = places.get(*label).copied().flatten().unwrap_or(usize::MAX);
        };
        for inst in &mut code.insts {
            match &mut inst.op {
                Op::Branch(target) => place(target),
                Op::BranchIndexed(_, targets) => targets.iter_mut().for_each(place),
                _ => {}
            }
        }
        let counts = [code.written32, code.written64, code.predicates];
        let never = never.map(|pred| Slot::Pred(pred.0));
        code.maybe_unwritten = maybe_unwritten(&code.insts, &code.flows, code.entry, counts);
        code.registers = registers(&code.insts, &code.flows, counts);
        // The one that never holds is a constant.
        code.maybe_unwritten.retain(|slot| Some(*slot) != never);
        code.source_lines.sort_unstable();
        code.source_lines.dedup_by_key(|(line, _)| *line);
        code
    }

    fn block(&mut self, block: &Block) -> Result<(), LoadError> {
        for statement in &block.statements {
            match statement {
                Statement::Label(label) if !self.names.label(&label.name) => {
                    return Err(invalid(label.span.line, format!("label {} stands twice", label.name)));
                }
                Statement::Targets(table) if !table.calls => self.names.table(&table.name, &table.targets),
                _ => {}
            }
        }
        for statement in &block.statements {
            match statement {
                Statement::Block(inner) => {
                    self.names.enter();
                    self.block(inner)?;
                    self.names.leave();
                }
                Statement::Label(label) => {
                    if let Ok(number) = self.names.find_label(&label.name) {
                        self.names.label_places[number] = Some(self.names.code.insts.len());
                    }
                }
                Statement::Registers(declaration) if !self.names.declare(declaration) => {
                    let what = format!("register {} is declared twice", declaration.name);
                    return Err(invalid(declaration.span.line, what));
                }
                Statement::Variable(variable) => self.variable(variable)?,
                Statement::Instruction(instruction) => self.instruction(instruction),
                _ => {}
            }
        }
        Ok(())
    }

    fn variable(&mut self, variable: &ptx::Variable) -> Result<(), LoadError> {
        let line = variable.span.line;
        let place = match variable.space {
            ptx::Space::Shared => {
                let Some(offset) = self.shared.get(&variable.span.start) else { return Ok(()) };
                Variable::Shared { offset: *offset }
            }
            ptx::Space::Global | ptx::Space::Const => {
                let Some(index) = self.statics.get(&variable.span.start) else { return Ok(()) };
                Variable::Module { index: *index }
            }
            ptx::Space::Local | ptx::Space::Param => {
                let bytes = variable.size_bytes().and_then(|size| u32::try_from(size).ok());
                let bytes =
                    bytes.ok_or_else(|| invalid(line, format!("variable {} has no size", variable.name)))?;
                let offset = self.local(line, bytes, variable.align_bytes())?;
                Variable::Local { offset, bytes, param: variable.space == ptx::Space::Param }
            }
            _ => return Ok(()),
        };
        self.names.place(&variable.name, place);
        Ok(())
    }

    fn local(&mut self, line: u32, bytes: u32, align: u32) -> Result<u32, LoadError> {
        let code = &mut self.names.code;
        let gap = if code.local_bytes == 0 { 0 } else { LOCAL_GAP };
        let start = aligned(code.local_bytes.saturating_add(gap), align);
        let end = start.and_then(|start| start.checked_add(bytes)).filter(|end| *end <= MAX_LOCAL_BYTES);
        match (start, end) {
            (Some(start), Some(end)) => {
                code.local_bytes = end;
                code.local_regions.push((u64::from(start), u64::from(end)));
                Ok(start)
            }
            _ => Err(invalid(line, "local variables exceed 512 kilobytes".to_owned())),
        }
    }

    pub(crate) fn emit(&mut self, op: Op, guard: Option<PredSource>, line: u32) {
        self.names.code.insts.push(Inst { op, guard, line });
    }

    fn instruction(&mut self, instruction: &Instruction) {
        let line = instruction.span.line;
        if let Some(place) = instruction.location {
            self.names.code.source_lines.push((line, place.line));
        }
        let before = self.names.code.insts.len();
        if self.decode(instruction).is_err() {
            // What an unfinished call may have left is of no use.
            self.names.code.insts.truncate(before);
            let form = instruction.mnemonic.text.as_str();
            self.names.code.unsupported.push((line, form.to_owned()));
            let guard = instruction.guard.as_ref().and_then(|guard| self.names.guard(guard).ok());
            self.emit(Op::Unsupported(form.into()), guard, line);
        }
    }

    fn decode(&mut self, instruction: &Instruction) -> Decoded<()> {
        let line = instruction.span.line;
        let guard = instruction.guard.as_ref().map(|guard| self.names.guard(guard)).transpose()?;
        let mut words = Words::new(instruction);
        let op = match words.opcode {
            "bra" => {
                words.take("uni");
                words.end()?;
                let [target] = &instruction.operands[..] else { return Err(Unknown) };
                Op::Branch(self.names.find_label(symbol(target)?)?)
            }
            "brx" => {
                if !words.take("idx") {
                    return Err(Unknown);
                }
                words.take("uni");
                words.end()?;
                let [index, table] = &instruction.operands[..] else { return Err(Unknown) };
                let index = self.names.source32(index, ptx::ScalarType::U32)?;
                let labels = self.names.find_table(symbol(table)?).ok_or(Unknown)?;
                let targets: Decoded<Vec<usize>> =
                    labels.iter().map(|label| self.names.find_label(label)).collect();
                Op::BranchIndexed(index, targets?)
            }
            "ret" => {
                words.take("uni");
                words.end()?;
                self.link.map_or(Op::Exit, Op::Return)
            }
            "exit" => {
                words.end()?;
                Op::Exit
            }
            "call" => return self.call(instruction, guard, line),
            _ => table::decode(&mut self.names, instruction)?,
        };
        self.emit(op, guard, line);
        Ok(())
    }
}
