//! Logic, shifts and bit fields.

use crate::alu::bits;
use crate::decode::scope::Names;
use crate::decode::words::{Decoded, Unknown, Words, is_signed};
use crate::form::{BoolOp, Op};
use crate::ptx::{Operand, ScalarType};

/// `and`, `or`, `xor`, `not`, `cnot`.
pub(crate) fn logic(names: &mut Names, mut words: Words, operands: &[Operand]) -> Decoded<Op> {
    let ty = words.ty()?;
    words.end()?;
    let opcode = words.opcode;
    match (operands, ty) {
        ([d, a], ScalarType::Pred) if opcode == "not" => {
            let source = names.pred(a)?;
            let negated = crate::form::PredSource { negated: !source.negated, ..source };
            Ok(Op::PredMove(names.pred_target(d)?, negated))
        }
        ([d, a, b], ScalarType::Pred) => {
            let how = match opcode {
                "and" => BoolOp::And,
                "or" => BoolOp::Or,
                "xor" => BoolOp::Xor,
                _ => return Err(Unknown),
            };
            Ok(Op::PredLogic(how, names.pred_target(d)?, names.pred(a)?, names.pred(b)?))
        }
        ([d, a], ScalarType::B16 | ScalarType::B32) => {
            let f = bits::unary32(opcode, ty.size_bytes() * 8).ok_or(Unknown)?;
            Ok(Op::Un32(f, names.target32(d)?, names.source32(a, ty)?))
        }
        ([d, a], ScalarType::B64) => {
            let f = bits::unary64(opcode).ok_or(Unknown)?;
            Ok(Op::Un64(f, names.target64(d)?, names.source64(a, ty)?))
        }
        ([d, a, b], ScalarType::B16 | ScalarType::B32) => {
            let f = bits::logic32(opcode).ok_or(Unknown)?;
            Ok(Op::Bin32(f, names.target32(d)?, names.source32(a, ty)?, names.source32(b, ty)?))
        }
        ([d, a, b], ScalarType::B64) => {
            let f = bits::logic64(opcode).ok_or(Unknown)?;
            Ok(Op::Bin64(f, names.target64(d)?, names.source64(a, ty)?, names.source64(b, ty)?))
        }
        _ => Err(Unknown),
    }
}

/// `shl`, `shr`, `shf`.
pub(crate) fn shift(names: &mut Names, mut words: Words, operands: &[Operand]) -> Decoded<Op> {
    let ty = words.ty()?;
    if words.opcode == "shf" {
        let left = words.first()? == "l";
        let clamp = words.take_any(&["clamp", "wrap"]).ok_or(Unknown)? == "clamp";
        words.end()?;
        let [d, a, b, c] = operands else { return Err(Unknown) };
        let [a, b, c] = [names.source32(a, ty)?, names.source32(b, ty)?, names.source32(c, ScalarType::U32)?];
        return Ok(Op::Tern32(bits::funnel(left, clamp), names.target32(d)?, a, b, c));
    }
    words.end()?;
    let [d, a, by] = operands else { return Err(Unknown) };
    let by = names.source32(by, ScalarType::U32)?;
    if ty.size_bytes() == 8 {
        let f = bits::shift64(words.opcode, is_signed(ty)).ok_or(Unknown)?;
        return Ok(Op::Shift64(f, names.target64(d)?, names.source64(a, ty)?, by));
    }
    let f = bits::shift32(words.opcode, is_signed(ty), ty.size_bytes() * 8).ok_or(Unknown)?;
    Ok(Op::Bin32(f, names.target32(d)?, names.source32(a, ty)?, by))
}

/// `popc`, `clz`, `brev`, `bfind`.
pub(crate) fn count(names: &mut Names, mut words: Words, operands: &[Operand]) -> Decoded<Op> {
    let ty = words.ty()?;
    let mut name = words.opcode.to_owned();
    if name == "bfind" {
        if words.take("shiftamt") {
            name.push_str(".shiftamt");
        }
        name.push_str(if is_signed(ty) { ".s" } else { ".u" });
    }
    words.end()?;
    let [d, a] = operands else { return Err(Unknown) };
    match (ty.size_bytes(), name.as_str()) {
        (8, "brev") => {
            let f = bits::unary64("brev").ok_or(Unknown)?;
            Ok(Op::Un64(f, names.target64(d)?, names.source64(a, ty)?))
        }
        (8, name) => {
            let f = bits::count64(name).ok_or(Unknown)?;
            Ok(Op::Shrink(f, names.target32(d)?, names.source64(a, ty)?))
        }
        (size, name) => {
            let f = bits::unary32(name, size * 8).ok_or(Unknown)?;
            Ok(Op::Un32(f, names.target32(d)?, names.source32(a, ty)?))
        }
    }
}

/// `bfe`, `bfi`, `lop3`, `prmt`, `fns`, `szext`, `bmsk`.
pub(crate) fn field(names: &mut Names, mut words: Words, operands: &[Operand]) -> Decoded<Op> {
    let index = ScalarType::U32;
    match (words.opcode, operands) {
        ("bfe", [d, a, b, c]) => {
            let ty = words.ty()?;
            words.end()?;
            let (b, c) = (names.source32(b, index)?, names.source32(c, index)?);
            if ty.size_bytes() == 8 {
                let f = bits::extract64(is_signed(ty));
                return Ok(Op::Field64(f, names.target64(d)?, names.source64(a, ty)?, b, c));
            }
            Ok(Op::Tern32(bits::extract32(is_signed(ty)), names.target32(d)?, names.source32(a, ty)?, b, c))
        }
        ("bfi", [d, a, b, c, e]) => {
            let ty = words.ty()?;
            words.end()?;
            let (c, e) = (names.source32(c, index)?, names.source32(e, index)?);
            if ty.size_bytes() == 8 {
                let (a, b) = (names.source64(a, ty)?, names.source64(b, ty)?);
                return Ok(Op::Insert64(bits::insert64(), names.target64(d)?, a, b, [c, e]));
            }
            let (a, b) = (names.source32(a, ty)?, names.source32(b, ty)?);
            Ok(Op::Quad32(bits::insert32(), names.target32(d)?, [a, b, c, e]))
        }
        ("lop3", [d, a, b, c, table]) => {
            let ty = words.ty()?;
            words.end()?;
            let [a, b, c] = [names.source32(a, ty)?, names.source32(b, ty)?, names.source32(c, ty)?];
            let table = names.source32(table, index)?;
            Ok(Op::Quad32(bits::lop3(), names.target32(d)?, [a, b, c, table]))
        }
        ("fns", [d, a, b, c]) => {
            let ty = words.ty()?;
            words.end()?;
            let [a, b] = [names.source32(a, ty)?, names.source32(b, index)?];
            let c = names.source32(c, ScalarType::S32)?;
            Ok(Op::Tern32(bits::find_nth(), names.target32(d)?, a, b, c))
        }
        ("prmt", [d, a, b, c]) => {
            let mode = words.take_any(&["f4e", "b4e", "rc8", "ecl", "ecr", "rc16"]).unwrap_or_default();
            let ty = words.ty()?;
            words.end()?;
            let f = bits::permute(mode).ok_or(Unknown)?;
            let [a, b, c] = [names.source32(a, ty)?, names.source32(b, ty)?, names.source32(c, ty)?];
            Ok(Op::Tern32(f, names.target32(d)?, a, b, c))
        }
        ("szext" | "bmsk", [d, a, b]) => {
            let ty = words.ty()?;
            let clamp = words.take_any(&["clamp", "wrap"]).ok_or(Unknown)? == "clamp";
            words.end()?;
            let f = bits::stretch(words.opcode, clamp, is_signed(ty)).ok_or(Unknown)?;
            Ok(Op::Bin32(f, names.target32(d)?, names.source32(a, ty)?, names.source32(b, index)?))
        }
        _ => Err(Unknown),
    }
}
