//! Which expressions of a function are written where they are used, and which get a name of their own first.

use naga::valid::FunctionInfo;
use naga::{
    AddressSpace, Arena, ArraySize, Block, Expression, Function, Handle, Module, Statement, StorageAccess,
    TypeInner,
};

use crate::operands::{for_each_operand, for_each_statement_operand};

/// Nesting of an expression beyond which a part of it gets a name.
const MAX_DEPTH: u32 = 12;

/// How often an expression is used, and in which stretches of code that nothing interrupts.
#[derive(Clone, Copy, Debug, Default)]
struct Uses {
    count: u32,
    first: u32,
    last: u32,
}

impl Uses {
    fn add(&mut self, count: u32, first: u32, last: u32) {
        if count == 0 {
            return;
        }
        (self.first, self.last) =
            if self.count == 0 { (first, last) } else { (self.first.min(first), self.last.max(last)) };
        self.count = self.count.saturating_add(count);
    }
}

/// What is decided about each expression of a function.
#[derive(Debug)]
pub(crate) struct Plan {
    uses: Vec<Uses>,
    named: Vec<bool>,
}

impl Plan {
    /// Decides for `function`. A checked index stands twice in what is written, once in the guard.
    pub(crate) fn of(module: &Module, function: &Function, info: &FunctionInfo, checked: bool) -> Self {
        let count = function.expressions.len();
        let mut walk = Walk { uses: vec![Uses::default(); count], emitted: vec![None; count], stretch: 1 };
        walk.block(&function.body);
        let Walk { mut uses, emitted, .. } = walk;
        let depths = depths(&function.expressions);
        let mut named = vec![false; count];
        let inner = |handle: Handle<Expression>| info[handle].ty.inner_with(&module.types);
        for (handle, expression) in function.expressions.iter().rev() {
            let at = handle.index();
            let here = uses[at];
            if here.count == 0 {
                continue;
            }
            named[at] = match emitted[at] {
                // A place is no value, so it has no name; what is in it is read where it is loaded.
                Some(_) if inner(handle).pointer_space().is_some() => false,
                Some(stretch) => {
                    let apart = (here.first, here.last) != (stretch, stretch);
                    function.named_expressions.contains_key(&handle)
                        || (here.count > 1 && !is_plain(function, handle))
                        || (apart && reads_changing_memory(expression, inner))
                        || depths[at].is_multiple_of(MAX_DEPTH)
                }
                None => is_result(expression),
            };
            let carried = match emitted[at] {
                Some(stretch) if named[at] => Uses { count: 1, first: stretch, last: stretch },
                _ => here,
            };
            let guards = checked
                && match expression {
                    Expression::Access { base, .. } => is_runtime_sized(module, inner(*base)),
                    _ => false,
                };
            for_each_operand(expression, |operand, is_index| {
                let guarded = guards && is_index;
                let count = carried.count.saturating_mul(if guarded { 2 } else { 1 });
                uses[operand.index()].add(count, carried.first, carried.last);
            });
        }
        Self { uses, named }
    }

    /// Whether it gets a name.
    pub(crate) fn is_named(&self, expression: Handle<Expression>) -> bool {
        self.named[expression.index()]
    }

    /// Whether anything uses it.
    pub(crate) fn is_used(&self, expression: Handle<Expression>) -> bool {
        self.uses[expression.index()].count > 0
    }
}

/// Walks the statements in the order in which they run, and cuts the way into stretches: within one, nothing is written.
struct Walk {
    uses: Vec<Uses>,
    /// The stretch in which an expression is evaluated, for those that are evaluated at a point.
    emitted: Vec<Option<u32>>,
    stretch: u32,
}

impl Walk {
    fn block(&mut self, block: &Block) {
        self.stretch += 1;
        for statement in block {
            self.statement(statement);
        }
        self.stretch += 1;
    }

    fn statement(&mut self, statement: &Statement) {
        if let Statement::Emit(range) = statement {
            for handle in range.clone() {
                self.emitted[handle.index()] = Some(self.stretch);
            }
            return;
        }
        let stretch = self.stretch;
        for_each_statement_operand(statement, |operand| {
            self.uses[operand.index()].add(1, stretch, stretch);
        });
        match statement {
            Statement::Block(block) => self.block(block),
            Statement::If { accept, reject, .. } => {
                self.block(accept);
                self.block(reject);
            }
            Statement::Switch { cases, .. } => {
                for case in cases {
                    self.block(&case.body);
                }
            }
            Statement::Loop { body, continuing, break_if } => {
                self.block(body);
                self.stretch += 1;
                for statement in continuing {
                    self.statement(statement);
                }
                if let Some(condition) = break_if {
                    self.uses[condition.index()].add(1, self.stretch, self.stretch);
                }
                self.stretch += 1;
            }
            _ => self.stretch += 1,
        }
    }
}

/// Whether it is a pointer to an array whose length only the buffer knows.
fn is_runtime_sized(module: &Module, inner: &TypeInner) -> bool {
    match inner {
        TypeInner::Pointer { base, .. } => {
            matches!(module.types[*base].inner, TypeInner::Array { size: ArraySize::Dynamic, .. })
        }
        _ => false,
    }
}

/// Levels of operands below each expression.
fn depths(expressions: &Arena<Expression>) -> Vec<u32> {
    let mut depths = vec![0_u32; expressions.len()];
    for (handle, expression) in expressions.iter() {
        let mut depth = 0;
        for_each_operand(expression, |operand, _| depth = depth.max(depths[operand.index()] + 1));
        depths[handle.index()] = depth;
    }
    depths
}

/// Whether it is as short and as cheap as a name.
fn is_plain(function: &Function, handle: Handle<Expression>) -> bool {
    match &function.expressions[handle] {
        Expression::AccessIndex { base, .. } => is_plain(function, *base),
        // What it holds at another time is another question.
        Expression::Load { pointer } => {
            matches!(function.expressions[*pointer], Expression::LocalVariable(_))
        }
        Expression::FunctionArgument(_)
        | Expression::Literal(_)
        | Expression::Constant(_)
        | Expression::ZeroValue(_) => true,
        expression => is_result(expression),
    }
}

/// Whether a statement gives it its value.
pub(crate) fn is_result(expression: &Expression) -> bool {
    matches!(
        expression,
        Expression::CallResult(_)
            | Expression::AtomicResult { .. }
            | Expression::WorkGroupUniformLoadResult { .. }
            | Expression::SubgroupBallotResult
            | Expression::SubgroupOperationResult { .. }
            | Expression::RayQueryProceedResult
    )
}

fn reads_changing_memory<'a>(
    expression: &Expression,
    inner: impl Fn(Handle<Expression>) -> &'a TypeInner,
) -> bool {
    let pointer = match expression {
        Expression::Load { pointer } => *pointer,
        Expression::CooperativeLoad { data, .. } => data.pointer,
        _ => return false,
    };
    match inner(pointer).pointer_space() {
        Some(AddressSpace::Uniform | AddressSpace::Immediate) => false,
        Some(AddressSpace::Storage { access }) => access.contains(StorageAccess::STORE),
        _ => true,
    }
}
