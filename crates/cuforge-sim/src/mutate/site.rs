//! One instruction as the operators see it: its type, its texts, and where its mutants are collected.

use std::collections::HashMap;

use super::mutation::Mutation;
use super::operator::Operator;
use crate::ptx::{
    Address, AddressBase, Edit, Function, Guard, Instruction, Module, Name, Operand, OperandKind, Span,
};

/// Characters of an instruction that a description quotes at most.
const LONGEST_QUOTE: usize = 200;

/// An instruction of a function, and the list its mutants go to.
pub(super) struct Site<'a> {
    pub(super) module: &'a Module,
    pub(super) function: &'a Function,
    pub(super) instruction: &'a Instruction,
    /// How often each register name is written in the function.
    pub(super) uses: &'a HashMap<Name, u32>,
    pub(super) found: &'a mut Vec<Mutation>,
}

impl<'a> Site<'a> {
    pub(super) fn text(&self, span: Span) -> &'a str {
        self.module.text(span)
    }

    /// The instruction as written, on one line and cut where it is very long.
    pub(super) fn whole(&self) -> String {
        let mut words = String::new();
        for word in self.text(self.instruction.span).split_whitespace() {
            if !words.is_empty() {
                words.push(' ');
            }
            words.extend(word.chars().take(LONGEST_QUOTE));
            if words.len() > LONGEST_QUOTE {
                return words.chars().take(LONGEST_QUOTE).chain("..".chars()).collect();
            }
        }
        words
    }

    /// The last modifier: the type, for those opcodes that have one.
    pub(super) fn ty(&self) -> &'a str {
        self.instruction.mnemonic.modifiers().last().unwrap_or_default()
    }

    pub(super) fn has(&self, modifier: &str) -> bool {
        self.instruction.mnemonic.has(modifier)
    }

    pub(super) fn has_any(&self, modifiers: &[&str]) -> bool {
        self.instruction.mnemonic.modifiers().any(|modifier| modifiers.contains(&modifier))
    }

    pub(super) fn operand(&self, index: usize) -> Option<&'a Operand> {
        self.instruction.operands.get(index)
    }

    /// Bits of a type such as `f32`, `s64`, `f16x2` or `pred`.
    pub(super) fn bits_of(ty: &str) -> u32 {
        crate::ptx::ScalarType::from_name(ty).map_or(0, |ty| ty.size_bytes() * 8)
    }

    /// Bytes that one access moves for a type and vector modifier.
    pub(super) fn access_bytes(&self) -> Option<u32> {
        let element = crate::ptx::ScalarType::from_name(self.ty())?.size_bytes();
        let vector = [("v2", 2), ("v4", 4), ("v8", 8)].into_iter().find(|(name, _)| self.has(name));
        Some(element * vector.map_or(1, |(_, count)| count))
    }

    pub(super) fn address(&self) -> Option<(&'a Operand, &'a Address)> {
        self.instruction.operands.iter().find_map(|operand| match &operand.kind {
            OperandKind::Address(address) => Some((operand, address)),
            _ => None,
        })
    }

    pub(super) fn add(&mut self, operator: Operator, description: String, edits: Vec<Edit>) {
        let span = self.instruction.span;
        self.found.push(Mutation::new(
            self.module,
            operator,
            self.function.name.clone(),
            span,
            description,
            edits,
        ));
    }

    /// A mutant that leaves the instruction out.
    pub(super) fn drop_whole(&mut self, operator: Operator) {
        let edit = Edit::new(self.instruction.span, "");
        self.add(operator, format!("leave out `{}`", self.whole()), vec![edit]);
    }

    /// A mutant with another mnemonic.
    pub(super) fn rename(&mut self, operator: Operator, mnemonic: &str) {
        self.replace(operator, self.instruction.mnemonic.span, mnemonic);
    }

    /// A mutant with one modifier in place of the `index`th one.
    pub(super) fn replace_modifier(&mut self, operator: Operator, index: usize, modifier: &str) {
        let mut parts: Vec<&str> = self.instruction.mnemonic.text.split('.').collect();
        if let Some(part) = parts.get_mut(index + 1) {
            *part = modifier;
            self.rename(operator, &parts.join("."));
        }
    }

    /// A mutant with another opcode and the same modifiers.
    pub(super) fn replace_opcode(&mut self, operator: Operator, opcode: &str) {
        let mnemonic = &self.instruction.mnemonic;
        let rest = mnemonic.text.get(mnemonic.opcode().len()..).unwrap_or_default();
        self.rename(operator, &format!("{opcode}{rest}"));
    }

    /// A mutant with other text for one stretch within the instruction.
    pub(super) fn replace(&mut self, operator: Operator, span: Span, text: &str) {
        let old = self.text(span);
        let description = match (old.is_empty(), text.is_empty()) {
            (true, _) => format!("`{text}` added in `{}`", self.whole()),
            (_, true) => format!("without `{old}` in `{}`", self.whole()),
            _ => format!("`{text}` for `{old}` in `{}`", self.whole()),
        };
        self.add(operator, description, vec![Edit::new(span, text)]);
    }

    /// A mutant in which two stretches have changed places; none if they read alike.
    pub(super) fn swap(&mut self, operator: Operator, first: Span, second: Span) {
        let (one, two) = (self.text(first), self.text(second));
        if one != two {
            let description = format!("`{one}` and `{two}` swapped in `{}`", self.whole());
            self.add(operator, description, vec![Edit::new(first, two), Edit::new(second, one)]);
        }
    }

    /// A mutant with another instruction in its place, the guard kept.
    pub(super) fn rewrite(&mut self, operator: Operator, text: &str) {
        let span = self.instruction.span;
        let start = self.instruction.mnemonic.span;
        let body = Span { start: start.start, end: span.end, line: start.line, column: start.column };
        let description = format!("`{text}` for `{}`", self.whole());
        self.add(operator, description, vec![Edit::new(body, text)]);
    }
}

/// Counts how often each register is written in the function, guards and addresses included.
pub(super) fn count_registers(function: &Function) -> HashMap<Name, u32> {
    let mut uses = HashMap::new();
    for instruction in function.instructions() {
        if let Some(Guard { register, .. }) = &instruction.guard {
            *uses.entry(register.clone()).or_insert(0) += 1;
        }
        let mut open: Vec<&Operand> = instruction.operands.iter().collect();
        while let Some(operand) = open.pop() {
            match &operand.kind {
                OperandKind::Register { name, .. } => *uses.entry(name.clone()).or_insert(0) += 1,
                OperandKind::Address(Address { base, coordinates, .. }) => {
                    if let AddressBase::Register(name) = base {
                        *uses.entry(name.clone()).or_insert(0) += 1;
                    }
                    open.extend(coordinates);
                }
                OperandKind::Vector(operands) | OperandKind::List(operands) => open.extend(operands),
                OperandKind::Pair(first, second) => open.extend([&**first, &**second]),
                OperandKind::Not(inner) => open.push(inner),
                _ => {}
            }
        }
    }
    uses
}
