//! Loops: `while` and `for` where the WGSL said so, and what comes after each turn where it is more than one assignment.

use naga::{Block, Expression, Handle, LocalVariable, Statement, TypeInner};

use crate::error::EmitError;
use crate::inline::is_result;
use crate::rendered::Level;
use crate::writer::Writer;

impl Writer<'_, '_> {
    /// A loop.
    pub(crate) fn turn(
        &mut self,
        body: &Block,
        continuing: &Block,
        break_if: Option<Handle<Expression>>,
    ) -> Result<(), EmitError> {
        let (condition, skipped) = self.head_of(body);
        let counter = condition.and_then(|condition| self.counter(condition, body, continuing));
        let condition = match condition {
            Some(condition) => Some(self.value(condition)?.text),
            None => None,
        };
        // What is left is most often one block in braces, which the loop has anyway.
        let (body, skipped) = match body.get(skipped..) {
            Some([Statement::Block(only)]) => (only, 0),
            _ => (body, skipped),
        };
        if break_if.is_none()
            && let Some(step) = self.step_of(continuing)?
        {
            self.out.open(&match (condition, step.as_str()) {
                (None, "") => "while (true) {".to_owned(),
                (Some(condition), "") => format!("while ({condition}) {{"),
                (condition, step) => format!("for (; {}; {step}) {{", condition.unwrap_or_default()),
            });
            self.labels.push(None);
            self.counted(counter, |writer| writer.block_from(body, skipped))?;
            self.labels.pop();
            self.out.close("}");
            return Ok(());
        }
        let label = has_continue(body).then(|| self.names.take("next"));
        if label.is_some() {
            // What the body names may be used behind the label, which is outside of the body's braces.
            for handle in named_in(body) {
                if self.plan.is_used(handle) && (self.plan.is_named(handle) || self.is_result(handle)) {
                    let spelled = self.spell(handle)?;
                    let name = self.name(handle);
                    self.out.line(&format!("{spelled} {name};"));
                    self.declared.insert(handle);
                }
            }
        }
        self.out.open(&format!("while ({}) {{", condition.as_deref().unwrap_or("true")));
        if label.is_some() {
            self.out.open("{");
        }
        self.labels.push(label.clone());
        self.counted(counter, |writer| writer.block_from(body, skipped))?;
        self.labels.pop();
        if let Some(label) = label {
            self.out.close("}");
            self.out.line(&format!("{label}:;"));
        }
        self.labels.push(None);
        self.block(continuing)?;
        self.labels.pop();
        if let Some(condition) = break_if {
            let condition = self.value(condition)?;
            self.out.line(&format!("if ({condition}) {{ break; }}"));
        }
        self.out.close("}");
        Ok(())
    }

    fn is_result(&self, handle: Handle<Expression>) -> bool {
        is_result(&self.function.expressions[handle])
    }

    /// Writes a body in which a counter is bounded.
    fn counted(
        &mut self,
        counter: Option<(Handle<LocalVariable>, u32)>,
        write: impl FnOnce(&mut Self) -> Result<(), EmitError>,
    ) -> Result<(), EmitError> {
        let Some((local, largest)) = counter else { return write(self) };
        let outer = self.counters.insert(local, largest);
        let written = write(self);
        match outer {
            Some(outer) => self.counters.insert(local, outer),
            None => self.counters.remove(&local),
        };
        written
    }

    /// The condition of a loop that ends if it does not hold at its beginning, and how many statements say so.
    fn head_of(&self, body: &Block) -> (Option<Handle<Expression>>, usize) {
        for (at, statement) in body.iter().enumerate() {
            match statement {
                Statement::Emit(range) => {
                    if range.clone().any(|h| self.plan.is_used(h) && self.plan.is_named(h)) {
                        break;
                    }
                }
                Statement::If { condition, accept, reject } => {
                    if accept.is_empty() && matches!(reject[..], [Statement::Break]) {
                        return (Some(*condition), at + 1);
                    }
                    break;
                }
                _ => break,
            }
        }
        (None, 0)
    }

    /// The one assignment that a `continuing` block consists of, if that is all it does; empty if it does nothing.
    fn step_of(&mut self, continuing: &Block) -> Result<Option<String>, EmitError> {
        let mut step = Some(String::new());
        for statement in continuing {
            match statement {
                Statement::Emit(range) => {
                    if range.clone().any(|h| self.plan.is_used(h) && self.plan.is_named(h)) {
                        return Ok(None);
                    }
                }
                Statement::Store { pointer, value } if step.as_deref() == Some("") => {
                    if matches!(self.pointee(*pointer), TypeInner::Atomic(_)) {
                        return Ok(None);
                    }
                    let place = self.place(*pointer)?;
                    if place.guard().is_some() {
                        return Ok(None);
                    }
                    step =
                        Some(format!("{} = {}", place.lvalue(), self.value(*value)?.at_least(Level::Loose)));
                }
                _ => return Ok(None),
            }
        }
        Ok(step)
    }
}

/// Whether the block says `continue` to the loop around it.
pub(crate) fn has_continue(block: &Block) -> bool {
    block.iter().any(|statement| match statement {
        Statement::Continue => true,
        Statement::Block(block) => has_continue(block),
        Statement::If { accept, reject, .. } => has_continue(accept) || has_continue(reject),
        Statement::Switch { cases, .. } => cases.iter().any(|case| has_continue(&case.body)),
        _ => false,
    })
}

/// The expressions that get their value in the block itself, those of blocks in it left out.
fn named_in(block: &Block) -> Vec<Handle<Expression>> {
    let mut handles = Vec::new();
    for statement in block {
        match statement {
            Statement::Emit(range) => handles.extend(range.clone()),
            Statement::Call { result: Some(result), .. }
            | Statement::Atomic { result: Some(result), .. }
            | Statement::WorkGroupUniformLoad { result, .. }
            | Statement::SubgroupBallot { result, .. }
            | Statement::SubgroupGather { result, .. }
            | Statement::SubgroupCollectiveOperation { result, .. } => handles.push(*result),
            _ => {}
        }
    }
    handles
}
