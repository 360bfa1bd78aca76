//! Subgroup operations: a subgroup is a warp, and those of it that are active take part.

use naga::{CollectiveOperation, Direction, Expression, GatherMode, Handle, Span, SubgroupOperation};

use crate::error::EmitError;
use crate::prelude::Need;
use crate::writer::Writer;

impl Writer<'_, '_> {
    pub(crate) fn ballot(
        &mut self,
        result: Handle<Expression>,
        predicate: Option<Handle<Expression>>,
        span: Span,
    ) -> Result<(), EmitError> {
        let predicate = match predicate {
            Some(predicate) => self.value(predicate)?.text,
            None => "true".to_owned(),
        };
        self.unit.prelude.need(Need::Vector(4));
        self.finish(
            result,
            &format!("vec4<u32>(__ballot_sync(__activemask(), {predicate}), 0u, 0u, 0u)"),
            span,
        )
    }

    pub(crate) fn gather(
        &mut self,
        mode: GatherMode,
        argument: Handle<Expression>,
        result: Handle<Expression>,
        span: Span,
    ) -> Result<(), EmitError> {
        let value = self.value(argument)?;
        let (name, at) = match mode {
            GatherMode::BroadcastFirst => ("broadcast_first", None),
            GatherMode::Broadcast(at) | GatherMode::Shuffle(at) => ("shuffle", Some(self.value(at)?.text)),
            GatherMode::ShuffleDown(by) => ("shuffle_down", Some(self.value(by)?.text)),
            GatherMode::ShuffleUp(by) => ("shuffle_up", Some(self.value(by)?.text)),
            GatherMode::ShuffleXor(mask) => ("shuffle_xor", Some(self.value(mask)?.text)),
            GatherMode::QuadBroadcast(at) => ("quad_broadcast", Some(self.value(at)?.text)),
            GatherMode::QuadSwap(direction) => (
                "shuffle_xor",
                Some(
                    match direction {
                        Direction::X => "1u",
                        Direction::Y => "2u",
                        Direction::Diagonal => "3u",
                    }
                    .to_owned(),
                ),
            ),
        };
        self.need_shuffled(name, argument);
        let at = at.map_or_else(String::new, |at| format!(", {at}"));
        self.finish(result, &format!("wgsl::{name}({value}{at})"), span)
    }

    pub(crate) fn collective(
        &mut self,
        op: SubgroupOperation,
        collective: CollectiveOperation,
        argument: Handle<Expression>,
        result: Handle<Expression>,
        span: Span,
    ) -> Result<(), EmitError> {
        let value = self.value(argument)?;
        let vote = match op {
            SubgroupOperation::All => Some("all"),
            SubgroupOperation::Any => Some("any"),
            _ => None,
        };
        if let Some(vote) = vote {
            return self.finish(result, &format!("__{vote}_sync(__activemask(), {value}) != 0"), span);
        }
        let combined = match op {
            SubgroupOperation::Add => "Add",
            SubgroupOperation::Mul => "Mul",
            SubgroupOperation::Min => "Min",
            SubgroupOperation::Max => "Max",
            SubgroupOperation::And => "And",
            SubgroupOperation::Or => "Or",
            _ => "Xor",
        };
        let name = match collective {
            CollectiveOperation::Reduce => "reduce",
            CollectiveOperation::InclusiveScan => "inclusive_scan",
            CollectiveOperation::ExclusiveScan => "exclusive_scan",
        };
        self.need_shuffled(name, argument);
        self.need_combined(op, argument);
        self.finish(result, &format!("wgsl::{name}<wgsl::{combined}>({value})"), span)
    }

    /// A function that moves values between lanes, for values of the type of `argument`.
    fn need_shuffled(&mut self, name: &'static str, argument: Handle<Expression>) {
        self.unit.prelude.section(name);
        if let Some(size) = self.components(argument) {
            self.unit.prelude.need(Need::Vector(size));
            self.unit.prelude.need(Need::Lane(size));
        }
    }

    fn finish(&mut self, result: Handle<Expression>, value: &str, span: Span) -> Result<(), EmitError> {
        // It is a meeting point of the lanes, whether or not its result is used.
        let line =
            if self.plan.is_used(result) { self.define(result, value)? } else { format!("(void)({value});") };
        self.at(span);
        self.out.line(&line);
        Ok(())
    }

    fn need_combined(&mut self, op: SubgroupOperation, argument: Handle<Expression>) {
        let (section, scalar) = match op {
            SubgroupOperation::Add => ("Add", "add"),
            SubgroupOperation::Mul => ("Mul", "mul"),
            SubgroupOperation::Min => ("Min", "min"),
            SubgroupOperation::Max => ("Max", "max"),
            SubgroupOperation::And => ("And", "bit_and"),
            SubgroupOperation::Or => ("Or", "bit_or"),
            _ => ("Xor", "bit_xor"),
        };
        self.unit.prelude.section(section);
        let scalar_type = self.inner(argument).scalar();
        if scalar_type == Some(naga::Scalar::F16) {
            self.unit.prelude.need(Need::HalfOf(scalar));
        }
        if let Some(size) = self.components(argument) {
            let returns = crate::lift::Returns::Same;
            self.lift(crate::lift::Lift { name: scalar, scalar, arity: 2, size, returns });
        }
    }
}
