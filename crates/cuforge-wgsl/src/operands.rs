//! The expressions that an expression or a statement uses directly.

use naga::{AtomicFunction, Expression, GatherMode, Handle, Statement};

type Operand = Handle<Expression>;

/// Calls `visit` with each operand of `expression`, and with whether it is the index of an access.
pub(crate) fn for_each_operand(expression: &Expression, mut visit: impl FnMut(Operand, bool)) {
    match expression {
        Expression::Literal(_)
        | Expression::Constant(_)
        | Expression::Override(_)
        | Expression::ZeroValue(_)
        | Expression::FunctionArgument(_)
        | Expression::GlobalVariable(_)
        | Expression::LocalVariable(_)
        | Expression::CallResult(_)
        | Expression::AtomicResult { .. }
        | Expression::WorkGroupUniformLoadResult { .. }
        | Expression::RayQueryProceedResult
        | Expression::SubgroupBallotResult
        | Expression::SubgroupOperationResult { .. } => {}
        Expression::Compose { components, .. } => components.iter().for_each(|c| visit(*c, false)),
        Expression::Access { base, index } => {
            visit(*base, false);
            visit(*index, true);
        }
        Expression::AccessIndex { base: one, .. }
        | Expression::Splat { value: one, .. }
        | Expression::Swizzle { vector: one, .. }
        | Expression::Load { pointer: one }
        | Expression::Unary { expr: one, .. }
        | Expression::Derivative { expr: one, .. }
        | Expression::Relational { argument: one, .. }
        | Expression::As { expr: one, .. }
        | Expression::ArrayLength(one)
        | Expression::RayQueryVertexPositions { query: one, .. }
        | Expression::RayQueryGetIntersection { query: one, .. }
        | Expression::ImageQuery { image: one, .. } => visit(*one, false),
        Expression::Binary { left, right, .. } => [*left, *right].into_iter().for_each(|o| visit(o, false)),
        Expression::Select { condition, accept, reject } => {
            [*condition, *accept, *reject].into_iter().for_each(|o| visit(o, false));
        }
        Expression::Math { arg, arg1, arg2, arg3, .. } => {
            visit(*arg, false);
            [arg1, arg2, arg3].into_iter().flatten().for_each(|o| visit(*o, false));
        }
        Expression::CooperativeLoad { data, .. } => {
            visit(data.pointer, false);
            visit(data.stride, false);
        }
        Expression::CooperativeMultiplyAdd { a, b, c } => {
            [*a, *b, *c].into_iter().for_each(|o| visit(o, false));
        }
        // Of these it is enough to meet the first: they are refused.
        Expression::ImageSample { image, .. } | Expression::ImageLoad { image, .. } => visit(*image, false),
    }
}

/// Calls `visit` with each expression that `statement` itself uses, those of the statements in it left out.
pub(crate) fn for_each_statement_operand(statement: &Statement, mut visit: impl FnMut(Operand)) {
    match statement {
        Statement::Emit(_)
        | Statement::Block(_)
        | Statement::Loop { .. }
        | Statement::Break
        | Statement::Continue
        | Statement::Kill
        | Statement::ControlBarrier(_)
        | Statement::MemoryBarrier(_)
        | Statement::RayPipelineFunction(_) => {}
        Statement::If { condition, .. } => visit(*condition),
        Statement::Switch { selector, .. } => visit(*selector),
        Statement::Return { value } => value.iter().for_each(|v| visit(*v)),
        Statement::Store { pointer, value } => {
            visit(*pointer);
            visit(*value);
        }
        Statement::Atomic { pointer, fun, value, .. } => {
            visit(*pointer);
            visit(*value);
            if let AtomicFunction::Exchange { compare: Some(compare) } = fun {
                visit(*compare);
            }
        }
        Statement::WorkGroupUniformLoad { pointer, .. } => visit(*pointer),
        Statement::Call { arguments, .. } => arguments.iter().for_each(|a| visit(*a)),
        Statement::SubgroupBallot { predicate, .. } => predicate.iter().for_each(|p| visit(*p)),
        Statement::SubgroupGather { mode, argument, .. } => {
            visit(*argument);
            match mode {
                GatherMode::Broadcast(at)
                | GatherMode::Shuffle(at)
                | GatherMode::ShuffleDown(at)
                | GatherMode::ShuffleUp(at)
                | GatherMode::ShuffleXor(at)
                | GatherMode::QuadBroadcast(at) => visit(*at),
                GatherMode::BroadcastFirst | GatherMode::QuadSwap(_) => {}
            }
        }
        Statement::SubgroupCollectiveOperation { argument, .. } => visit(*argument),
        Statement::CooperativeStore { target, data } => {
            visit(*target);
            visit(data.pointer);
            visit(data.stride);
        }
        // Refused as a whole.
        Statement::ImageStore { image: one, .. }
        | Statement::ImageAtomic { image: one, .. }
        | Statement::RayQuery { query: one, .. } => visit(*one),
    }
}
