//! Calls: of functions by name, of functions by address, and of what the runtime provides.

use crate::decode::callee::Callee;
use crate::decode::flow::Flow;
use crate::decode::scope::Variable;
use crate::decode::words::{Decoded, Unknown, symbol};
use crate::form::{BoolOp, Op, PredSource, R64, Test};
use crate::ptx::{Call, Instruction, Operand, ScalarType};

impl Flow<'_> {
    /// Arguments and results are copied between the local memory of caller and callee.
    pub(crate) fn call(
        &mut self,
        instruction: &Instruction,
        guard: Option<PredSource>,
        line: u32,
    ) -> Decoded<()> {
        let call = instruction.call().ok_or(Unknown)?;
        let places = |list: &[Operand]| -> Decoded<Vec<(u32, u32)>> {
            list.iter().map(|operand| self.param_variable(operand)).collect()
        };
        let (arguments, results) = (places(call.arguments)?, places(call.results)?);
        let Ok(name) = symbol(call.target) else {
            return self.call_by_address(&call, &arguments, &results, guard, line);
        };
        if let Some(callee) = self.callees.get(name).cloned() {
            if !callee.takes(&arguments, &results) {
                return Err(Unknown);
            }
            self.call_of(&callee, &arguments, &results, guard, line);
            return Ok(());
        }
        let op = match (name, &arguments[..], &results[..]) {
            ("vprintf", [(format, 8), (values, 8)], [(result, 4)]) => {
                Op::Print { format: *format, values: *values, result: *result }
            }
            ("__assertfail", [(message, 8), (file, 8), (line, 4), (function, 8), _], []) => {
                Op::AssertFail { message: *message, file: *file, line: *line, function: *function }
            }
            _ => return Err(Unknown),
        };
        self.emit(op, guard, line);
        Ok(())
    }

    fn call_of(
        &mut self,
        callee: &Callee,
        arguments: &[(u32, u32)],
        results: &[(u32, u32)],
        guard: Option<PredSource>,
        line: u32,
    ) {
        let copy = |(from, bytes): (u32, u32), (to, _): (u32, u32)| Op::CopyLocal { from, to, bytes };
        for (from, to) in arguments.iter().zip(&callee.parameters) {
            self.emit(copy(*from, *to), guard, line);
        }
        self.emit(Op::Call(callee.link, callee.start), guard, line);
        for (to, from) in results.iter().zip(&callee.results) {
            self.emit(copy(*from, *to), guard, line);
        }
    }

    /// One guarded call for each function whose address is taken somewhere and that fits; an address of none is a fault.
    fn call_by_address(
        &mut self,
        call: &Call,
        arguments: &[(u32, u32)],
        results: &[(u32, u32)],
        guard: Option<PredSource>,
        line: u32,
    ) -> Decoded<()> {
        let target: R64 = self.names.source64(call.target, ScalarType::B64)?;
        let fitting = self.taken.iter().filter_map(|(name, address)| {
            let callee = self.callees.get(name)?;
            callee.takes(arguments, results).then(|| (*address, callee.clone()))
        });
        let fitting: Vec<(u64, Callee)> = fitting.collect();
        let combine = guard.map(|guard| (BoolOp::And, guard));
        let mut left = None;
        for (address, callee) in &fitting {
            let address = self.names.constant64(*address);
            let equal = Test::Wide(|a, b| crate::lanes::test2(a, b, |a, b| a == b), target, address);
            let (here, elsewhere) = (self.names.new_pred(), self.names.new_pred());
            // What is still elsewhere was not any of those before.
            let with = left.map(|pred| (BoolOp::And, pred)).or(combine);
            self.emit(
                Op::SetPred { test: equal, p: Some(here), q: Some(elsewhere), combine: with },
                None,
                line,
            );
            let here = PredSource { pred: here, negated: false };
            self.call_of(callee, arguments, results, Some(here), line);
            left = Some(PredSource { pred: elsewhere, negated: false });
        }
        let none = "call of an address that is no function with such parameters";
        self.emit(Op::Unsupported(none.into()), left.or(guard), line);
        Ok(())
    }

    fn param_variable(&self, operand: &Operand) -> Decoded<(u32, u32)> {
        match self.names.variable(symbol(operand)?)? {
            Variable::Local { offset, bytes, param: true } => Ok((offset, bytes)),
            _ => Err(Unknown),
        }
    }
}
