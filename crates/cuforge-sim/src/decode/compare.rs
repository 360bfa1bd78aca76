//! Comparisons and selections.

use crate::alu::compare;
use crate::decode::scope::Names;
use crate::decode::words::{Decoded, Unknown, Words};
use crate::form::{BoolOp, HalvesOut, Op, Pred, PredSource, Test};
use crate::ptx::{Operand, OperandKind, ScalarType};

const OPERATORS: [&str; 18] = [
    "eq", "ne", "lt", "le", "gt", "ge", "lo", "ls", "hi", "hs", "equ", "neu", "ltu", "leu", "gtu", "geu",
    "num", "nan",
];

/// `setp`, of one value or of both halves.
pub(crate) fn setp(names: &mut Names, mut words: Words, operands: &[Operand]) -> Decoded<Op> {
    let ty = words.ty()?;
    let op = words.take_any(&OPERATORS).ok_or(Unknown)?;
    let bool_op = bool_op(&mut words);
    let flush = words.take("ftz");
    words.end()?;
    let (target, a, b, rest) = match operands {
        [target, a, b, rest @ ..] => (target, a, b, rest),
        _ => return Err(Unknown),
    };
    let (p, q) = preds(names, target)?;
    let combine = combination(names, bool_op, rest)?;
    if matches!(ty, ScalarType::F16x2 | ScalarType::Bf16x2) {
        let (low, high) = half_tests(names, op, ty, flush, a, b)?;
        return Ok(Op::SetHalves { low, high, out: HalvesOut::Preds(p.ok_or(Unknown)?, q), combine });
    }
    Ok(Op::SetPred { test: test(names, op, ty, flush, a, b)?, p, q, combine })
}

/// `set`
pub(crate) fn set(names: &mut Names, mut words: Words, operands: &[Operand]) -> Decoded<Op> {
    let ty = words.ty()?;
    let to = words.ty()?;
    let op = words.take_any(&OPERATORS).ok_or(Unknown)?;
    let bool_op = bool_op(&mut words);
    let flush = words.take("ftz");
    words.end()?;
    let (d, a, b, rest) = match operands {
        [d, a, b, rest @ ..] => (names.target32(d)?, a, b, rest),
        _ => return Err(Unknown),
    };
    let combine = combination(names, bool_op, rest)?;
    let value = match to {
        ScalarType::U32 | ScalarType::S32 => u32::MAX,
        ScalarType::U16 | ScalarType::S16 => 0xffff,
        ScalarType::F32 => 1f32.to_bits(),
        ScalarType::F16 => 0x3c00,
        ScalarType::Bf16 => 0x3f80,
        ScalarType::F16x2 => 0x3c00_3c00,
        ScalarType::Bf16x2 => 0x3f80_3f80,
        _ => return Err(Unknown),
    };
    if matches!(ty, ScalarType::F16x2 | ScalarType::Bf16x2) {
        let (low, high) = half_tests(names, op, ty, flush, a, b)?;
        return Ok(Op::SetHalves { low, high, out: HalvesOut::Value(d, value), combine });
    }
    Ok(Op::SetValue { test: test(names, op, ty, flush, a, b)?, d, value, combine })
}

/// `selp` and `slct`.
pub(crate) fn select(names: &mut Names, mut words: Words, operands: &[Operand]) -> Decoded<Op> {
    let [d, a, b, c] = operands else { return Err(Unknown) };
    if words.opcode == "selp" {
        let ty = words.ty()?;
        words.end()?;
        let p = names.pred(c)?;
        return Ok(if ty.size_bytes() == 8 {
            Op::Select64(names.target64(d)?, names.source64(a, ty)?, names.source64(b, ty)?, p)
        } else {
            Op::Select32(names.target32(d)?, names.source32(a, ty)?, names.source32(b, ty)?, p)
        });
    }
    let by = words.ty()?;
    let ty = words.ty()?;
    let flush = words.take("ftz");
    words.end()?;
    let zero = names.constant32(0);
    let f = match by {
        ScalarType::S32 if !flush => compare::integer32("ge", by),
        ScalarType::F32 => compare::single("ge", flush),
        _ => None,
    };
    let test = Test::Narrow(f.ok_or(Unknown)?, names.source32(c, by)?, zero);
    Ok(if ty.size_bytes() == 8 {
        Op::SelectBy64(test, names.target64(d)?, names.source64(a, ty)?, names.source64(b, ty)?)
    } else {
        Op::SelectBy32(test, names.target32(d)?, names.source32(a, ty)?, names.source32(b, ty)?)
    })
}

/// `testp`
pub(crate) fn property(names: &mut Names, mut words: Words, operands: &[Operand]) -> Decoded<Op> {
    let ty = words.ty()?;
    let what = words.last()?;
    words.end()?;
    let [p, a] = operands else { return Err(Unknown) };
    let test = match ty {
        ScalarType::F32 => {
            let a = names.source32(a, ty)?;
            Test::Narrow(compare::property32(what).ok_or(Unknown)?, a, a)
        }
        ScalarType::F64 => {
            let a = names.source64(a, ty)?;
            Test::Wide(compare::property64(what).ok_or(Unknown)?, a, a)
        }
        _ => return Err(Unknown),
    };
    Ok(Op::SetPred { test, p: Some(names.pred_target(p)?), q: None, combine: None })
}

fn test(names: &mut Names, op: &str, ty: ScalarType, flush: bool, a: &Operand, b: &Operand) -> Decoded<Test> {
    if flush && !matches!(ty, ScalarType::F32 | ScalarType::F16) {
        return Err(Unknown);
    }
    if ty.size_bytes() == 8 {
        let f = if ty == ScalarType::F64 { compare::double(op) } else { compare::integer64(op, ty) };
        return Ok(Test::Wide(f.ok_or(Unknown)?, names.source64(a, ty)?, names.source64(b, ty)?));
    }
    let f = match ty {
        ScalarType::F32 => compare::single(op, flush),
        ScalarType::F16 => compare::narrow(op, false, flush, false),
        ScalarType::Bf16 => compare::narrow(op, true, flush, false),
        _ => compare::integer32(op, ty),
    };
    Ok(Test::Narrow(f.ok_or(Unknown)?, names.source32(a, ty)?, names.source32(b, ty)?))
}

fn half_tests(
    names: &mut Names,
    op: &str,
    ty: ScalarType,
    flush: bool,
    a: &Operand,
    b: &Operand,
) -> Decoded<(Test, Test)> {
    let brain = ty == ScalarType::Bf16x2;
    if brain && flush {
        return Err(Unknown);
    }
    let (a, b) = (names.source32(a, ScalarType::B32)?, names.source32(b, ScalarType::B32)?);
    let low = compare::narrow(op, brain, flush, false).ok_or(Unknown)?;
    let high = compare::narrow(op, brain, flush, true).ok_or(Unknown)?;
    Ok((Test::Narrow(low, a, b), Test::Narrow(high, a, b)))
}

fn preds(names: &mut Names, target: &Operand) -> Decoded<(Option<Pred>, Option<Pred>)> {
    match &target.kind {
        OperandKind::Pair(p, q) => Ok((names.optional_pred(p)?, names.optional_pred(q)?)),
        _ => Ok((names.optional_pred(target)?, None)),
    }
}

fn bool_op(words: &mut Words) -> Option<BoolOp> {
    words.take_any(&["and", "or", "xor"]).map(|word| match word {
        "and" => BoolOp::And,
        "or" => BoolOp::Or,
        _ => BoolOp::Xor,
    })
}

fn combination(
    names: &mut Names,
    bool_op: Option<BoolOp>,
    rest: &[Operand],
) -> Decoded<Option<(BoolOp, PredSource)>> {
    match (bool_op, rest) {
        (None, []) => Ok(None),
        (Some(op), [c]) => Ok(Some((op, names.pred(c)?))),
        _ => Err(Unknown),
    }
}
