//! Statements.

use naga::{
    AtomicFunction, Barrier, Block, Expression, Handle, Literal, ScalarKind, Span, Statement, SwitchCase,
    SwitchValue, TypeInner,
};

use crate::error::EmitError;
use crate::rendered::{Level, Rendered};
use crate::writer::Writer;

impl Writer<'_, '_> {
    /// Writes the statements of a block.
    pub(crate) fn block(&mut self, block: &Block) -> Result<(), EmitError> {
        self.block_from(block, 0)
    }

    /// Writes the statements of a block, its first ones left out.
    pub(crate) fn block_from(&mut self, block: &Block, skipped: usize) -> Result<(), EmitError> {
        for (statement, span) in block.span_iter().skip(skipped) {
            self.statement(statement, *span)?;
        }
        Ok(())
    }

    /// Writes the body of a function, without the `return` at its end that returns nothing.
    pub(crate) fn body(&mut self, block: &Block) -> Result<(), EmitError> {
        let last = block.len().saturating_sub(1);
        for (at, (statement, span)) in block.span_iter().enumerate() {
            match statement {
                Statement::Return { value: None } if at == last => {}
                Statement::If { condition, accept, reject } if at == last => {
                    let condition = self.value(*condition)?;
                    self.at(*span);
                    self.out.open(&format!("if ({condition}) {{"));
                    self.body(accept)?;
                    if !matches!(reject.first(), None | Some(Statement::Return { value: None })) {
                        self.out.turn("} else {");
                        self.body(reject)?;
                    }
                    self.out.close("}");
                }
                statement => self.statement(statement, *span)?,
            }
        }
        Ok(())
    }

    fn statement(&mut self, statement: &Statement, span: Span) -> Result<(), EmitError> {
        match statement {
            Statement::Emit(range) => {
                for handle in range.clone() {
                    if self.plan.is_used(handle) && self.plan.is_named(handle) {
                        let value = self.render(handle)?;
                        let line = self.define(handle, &value.text)?;
                        self.at(self.function.expressions.get_span(handle));
                        self.out.line(&line);
                    }
                }
            }
            Statement::Block(block) => {
                self.out.open("{");
                self.block(block)?;
                self.out.close("}");
            }
            Statement::If { condition, accept, reject } => {
                let condition = self.value(*condition)?;
                self.at(span);
                if let Some(line) = self.short_circuit(&condition, accept, reject)? {
                    self.out.line(&line);
                    return Ok(());
                }
                if accept.is_empty() && !reject.is_empty() {
                    self.out.open(&format!("if (!{}) {{", condition.at_least(Level::Primary)));
                    self.block(reject)?;
                    self.out.close("}");
                    return Ok(());
                }
                self.out.open(&format!("if ({condition}) {{"));
                self.block(accept)?;
                if !reject.is_empty() {
                    self.out.turn("} else {");
                    self.block(reject)?;
                }
                self.out.close("}");
            }
            Statement::Switch { selector, cases } => self.switch(*selector, cases, span)?,
            Statement::Loop { body, continuing, break_if } => {
                self.at(span);
                self.turn(body, continuing, *break_if)?;
            }
            Statement::Break => {
                self.at(span);
                self.out.line("break;");
            }
            Statement::Continue => {
                self.at(span);
                let label = self.labels.last().cloned().flatten();
                self.out
                    .line(&label.map_or_else(|| "continue;".to_owned(), |label| format!("goto {label};")));
            }
            Statement::Return { value } => {
                let line = match value {
                    Some(value) => format!("return {};", self.value(*value)?),
                    None => "return;".to_owned(),
                };
                self.at(span);
                self.out.line(&line);
            }
            Statement::ControlBarrier(barrier) => {
                self.at(span);
                self.barrier(*barrier);
            }
            Statement::MemoryBarrier(_) => {
                self.at(span);
                self.out.line("__threadfence_block();");
            }
            Statement::Store { pointer, value } => self.store(*pointer, *value, span)?,
            Statement::Atomic { pointer, fun, value, result } => {
                self.atomic(*pointer, *fun, *value, *result, span)?;
            }
            Statement::WorkGroupUniformLoad { pointer, result } => {
                let value = self.load(*pointer)?;
                let line = self.define(*result, &value.text)?;
                self.at(span);
                self.out.line("__syncthreads();");
                self.out.line(&line);
                self.out.line("__syncthreads();");
            }
            Statement::Call { function, arguments, result } => {
                let mut list = Vec::with_capacity(arguments.len());
                for argument in arguments {
                    list.push(if self.inner(*argument).pointer_space().is_some() {
                        self.place(*argument)?.lvalue()
                    } else {
                        self.value(*argument)?.text
                    });
                }
                list.extend(self.unit.passed_to(*function));
                let call = format!("{}({})", self.unit.functions[function], list.join(", "));
                let line = match result {
                    Some(result) if self.plan.is_used(*result) => self.define(*result, &call)?,
                    _ => format!("{call};"),
                };
                self.at(span);
                self.out.line(&line);
            }
            Statement::SubgroupBallot { result, predicate } => self.ballot(*result, *predicate, span)?,
            Statement::SubgroupGather { mode, argument, result } => {
                self.gather(*mode, *argument, *result, span)?;
            }
            Statement::SubgroupCollectiveOperation { op, collective_op, argument, result } => {
                self.collective(*op, *collective_op, *argument, *result, span)?;
            }
            Statement::ImageStore { .. } | Statement::ImageAtomic { .. } => {
                return Err(self.unit.unsupported("a texture", span));
            }
            Statement::RayQuery { .. } | Statement::RayPipelineFunction(_) => {
                return Err(self.unit.unsupported("a ray query", span));
            }
            Statement::CooperativeStore { .. } => {
                return Err(self.unit.unsupported("a cooperative matrix", span));
            }
            Statement::Kill => return Err(self.unit.unsupported("discard", span)),
        }
        Ok(())
    }

    /// `&&` and `||`, which reach this place as a variable that is written on both ways.
    fn short_circuit(
        &mut self,
        condition: &Rendered,
        accept: &Block,
        reject: &Block,
    ) -> Result<Option<String>, EmitError> {
        let [Statement::Store { pointer, value: otherwise }] = reject[..] else { return Ok(None) };
        let Some((Statement::Store { pointer: same, value }, before)) = accept.split_last() else {
            return Ok(None);
        };
        // Nothing but what the right side is made of, and none of it with a name.
        let only_its_own = before.iter().all(|statement| match statement {
            Statement::Emit(range) => range.clone().all(|h| !self.plan.is_used(h) || !self.plan.is_named(h)),
            _ => false,
        });
        let Expression::Literal(Literal::Bool(otherwise)) = self.function.expressions[otherwise] else {
            return Ok(None);
        };
        let local = matches!(self.function.expressions[pointer], Expression::LocalVariable(_));
        if !local || *same != pointer || !only_its_own {
            return Ok(None);
        }
        let value = self.value(*value)?;
        // The way in is the one on which the right side is asked for.
        let (left, sign) = match (otherwise, condition.text.strip_prefix('!')) {
            (false, _) => (condition.at_least(Level::Sum), "&&"),
            (true, Some(left)) if condition.level == Level::Prefix => (left.to_owned(), "||"),
            (true, _) => (format!("!{}", condition.at_least(Level::Primary)), "||"),
        };
        let place = self.place(pointer)?.lvalue();
        Ok(Some(format!("{place} = {left} {sign} {};", value.at_least(Level::Sum))))
    }

    fn barrier(&mut self, barrier: Barrier) {
        if barrier.intersects(Barrier::WORK_GROUP | Barrier::STORAGE | Barrier::TEXTURE) {
            self.out.line("__syncthreads();");
        } else if barrier.contains(Barrier::SUB_GROUP) {
            self.out.line("__syncwarp(__activemask());");
        }
    }

    fn store(
        &mut self,
        pointer: Handle<Expression>,
        value: Handle<Expression>,
        span: Span,
    ) -> Result<(), EmitError> {
        let value = self.value(value)?;
        let place = self.place(pointer)?;
        let lvalue = place.lvalue();
        let line = if let TypeInner::Atomic(_) = self.pointee(pointer) {
            self.unit.prelude.section("store_relaxed");
            format!("wgsl::store_relaxed({lvalue}, {value});")
        } else {
            format!("{lvalue} = {value};")
        };
        self.at(span);
        self.guarded(place.guard(), &line);
        Ok(())
    }

    fn guarded(&mut self, guard: Option<String>, line: &str) {
        match guard {
            Some(guard) => self.out.line(&format!("if ({guard}) {{ {line} }}")),
            None => self.out.line(line),
        }
    }

    fn atomic(
        &mut self,
        pointer: Handle<Expression>,
        fun: AtomicFunction,
        value: Handle<Expression>,
        result: Option<Handle<Expression>>,
        span: Span,
    ) -> Result<(), EmitError> {
        let value = self.value(value)?;
        let place = self.place(pointer)?;
        let TypeInner::Atomic(scalar) = self.pointee(pointer) else {
            return Err(self.unsupported("an atomic on what is not one", pointer));
        };
        let name = match fun {
            AtomicFunction::Add => "atomic_add",
            AtomicFunction::Subtract => "atomic_sub",
            AtomicFunction::And => "atomic_and",
            AtomicFunction::ExclusiveOr => "atomic_xor",
            AtomicFunction::InclusiveOr => "atomic_or",
            AtomicFunction::Min => "atomic_min",
            AtomicFunction::Max => "atomic_max",
            AtomicFunction::Exchange { compare: None } => "atomic_exchange",
            AtomicFunction::Exchange { compare: Some(_) } => "atomic_compare_exchange",
        };
        let float_beyond_sums = scalar.kind == ScalarKind::Float
            && !matches!(
                fun,
                AtomicFunction::Add | AtomicFunction::Subtract | AtomicFunction::Exchange { compare: None }
            );
        if float_beyond_sums || scalar.kind == ScalarKind::Bool {
            return Err(self.unit.unsupported("this atomic on this type", span));
        }
        self.unit.prelude.section(name);
        let lvalue = place.lvalue();
        let used = result.filter(|result| self.plan.is_used(*result));
        let (call, zero) = match (fun, result) {
            (AtomicFunction::Exchange { compare: Some(compare) }, Some(result)) => {
                let compare = self.value(compare)?;
                let spelled = self.spell(result)?;
                (format!("wgsl::{name}<{spelled}>({lvalue}, {compare}, {value})"), format!("{spelled}{{}}"))
            }
            _ => (format!("wgsl::{name}({lvalue}, {value})"), self.zero_of(scalar)),
        };
        match used {
            Some(result) => {
                let value =
                    place.guard().map_or_else(|| call.clone(), |guard| format!("{guard} ? {call} : {zero}"));
                let line = self.define(result, &value)?;
                self.at(span);
                self.out.line(&line);
            }
            None => {
                self.at(span);
                self.guarded(place.guard(), &format!("{call};"));
            }
        }
        Ok(())
    }

    fn switch(
        &mut self,
        selector: Handle<Expression>,
        cases: &[SwitchCase],
        span: Span,
    ) -> Result<(), EmitError> {
        let selector = self.value(selector)?;
        self.at(span);
        self.out.open(&format!("switch ({selector}) {{"));
        for case in cases {
            let label = match case.value {
                SwitchValue::I32(value) => format!("case {}:", self.unit.literal(Literal::I32(value))),
                SwitchValue::U32(value) => format!("case {value}u:"),
                SwitchValue::Default => "default:".to_owned(),
            };
            if case.fall_through && case.body.is_empty() {
                self.out.line(&label);
                continue;
            }
            self.out.open(&format!("{label} {{"));
            self.block(&case.body)?;
            if !case.fall_through && !case.body.last().is_some_and(Statement::is_terminator) {
                self.out.line("break;");
            }
            self.out.close("}");
        }
        self.out.close("}");
        Ok(())
    }
}
