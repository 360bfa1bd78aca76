//! Integer arithmetic.

use crate::alu::{integer, wide};
use crate::decode::scope::Names;
use crate::decode::words::{Decoded, Unknown, Words};
use crate::form::{CarryUse, Op};
use crate::ptx::{Operand, ScalarType};

/// `add`, `sub`, `mul`, `mad`, `div`, `rem`, `min`, `max`, `neg`, `abs`, `sad`, `mul24`, `mad24` on integers.
pub(crate) fn decode(names: &mut Names, mut words: Words, operands: &[Operand]) -> Decoded<Op> {
    let opcode = words.opcode;
    // Compilers write it behind the type too.
    let relu = matches!(opcode, "min" | "max") && words.take("relu");
    let ty_name = words.last()?;
    if let Some(half) = ty_name.strip_suffix("x2") {
        return packed(names, words, operands, half, relu);
    }
    let ty = ScalarType::from_name(ty_name).ok_or(Unknown)?;
    if matches!(opcode, "addc" | "subc" | "madc") || words.take("cc") {
        return with_carry(names, words, operands, ty);
    }
    let part = words.take_any(&["lo", "hi", "wide"]);
    if part == Some("wide") {
        words.end()?;
        return widening(names, opcode, operands, ty);
    }
    let mut name = opcode.to_owned();
    for word in part.into_iter().chain(words.take_any(&["sat"])).chain(relu.then_some("relu")) {
        name = format!("{name}.{word}");
    }
    words.end()?;
    match (operands, ty.size_bytes()) {
        ([d, a], 2 | 4) => {
            let f = integer::unary(&name, ty).ok_or(Unknown)?;
            Ok(Op::Un32(f, names.target32(d)?, names.source32(a, ty)?))
        }
        ([d, a, b], 2 | 4) => {
            let f = integer::binary(&name, ty).ok_or(Unknown)?;
            Ok(Op::Bin32(f, names.target32(d)?, names.source32(a, ty)?, names.source32(b, ty)?))
        }
        ([d, a, b, c], 2 | 4) => {
            let f = integer::ternary(&name, ty).ok_or(Unknown)?;
            let [a, b, c] = [names.source32(a, ty)?, names.source32(b, ty)?, names.source32(c, ty)?];
            Ok(Op::Tern32(f, names.target32(d)?, a, b, c))
        }
        ([d, a], 8) => {
            let f = wide::unary(&name, ty).ok_or(Unknown)?;
            Ok(Op::Un64(f, names.target64(d)?, names.source64(a, ty)?))
        }
        ([d, a, b], 8) => {
            let f = wide::binary(&name, ty).ok_or(Unknown)?;
            Ok(Op::Bin64(f, names.target64(d)?, names.source64(a, ty)?, names.source64(b, ty)?))
        }
        ([d, a, b, c], 8) => {
            let f = wide::ternary(&name, ty).ok_or(Unknown)?;
            let [a, b, c] = [names.source64(a, ty)?, names.source64(b, ty)?, names.source64(c, ty)?];
            Ok(Op::Tern64(f, names.target64(d)?, a, b, c))
        }
        _ => Err(Unknown),
    }
}

/// `dp4a` and `dp2a`.
pub(crate) fn dot(names: &mut Names, mut words: Words, operands: &[Operand]) -> Decoded<Op> {
    let b_ty = words.ty()?;
    let a_ty = words.ty()?;
    let name = match words.take_any(&["lo", "hi"]) {
        Some(part) => format!("{}.{part}", words.opcode),
        None => words.opcode.to_owned(),
    };
    words.end()?;
    let [d, a, b, c] = operands else { return Err(Unknown) };
    let f = integer::dot(&name, a_ty, b_ty).ok_or(Unknown)?;
    let [a, b, c] = [names.source32(a, a_ty)?, names.source32(b, b_ty)?, names.source32(c, b_ty)?];
    Ok(Op::Tern32(f, names.target32(d)?, a, b, c))
}

/// `vabsdiff4` and its like, on the default parts of both operands.
pub(crate) fn video(names: &mut Names, mut words: Words, operands: &[Operand]) -> Decoded<Op> {
    let count = words.opcode.chars().last().ok_or(Unknown)?;
    let name = words.opcode.trim_end_matches(count);
    let bits = match count {
        '4' => 8,
        '2' => 16,
        _ => return Err(Unknown),
    };
    let sum = words.take("add");
    let (d_ty, a_ty, b_ty) = (words.first()?, words.first()?, words.first()?);
    words.end()?;
    let signed = match a_ty {
        "u32" => false,
        "s32" => true,
        _ => return Err(Unknown),
    };
    if b_ty != a_ty || d_ty != a_ty {
        return Err(Unknown);
    }
    let f = crate::alu::video::simd(name, bits, signed, sum).ok_or(Unknown)?;
    let [d, a, b, c] = operands else { return Err(Unknown) };
    let whole = ScalarType::B32;
    let [a, b, c] = [names.source32(a, whole)?, names.source32(b, whole)?, names.source32(c, whole)?];
    Ok(Op::Tern32(f, names.target32(d)?, a, b, c))
}

fn packed(names: &mut Names, words: Words, operands: &[Operand], half: &str, relu: bool) -> Decoded<Op> {
    words.end()?;
    let ty = ScalarType::from_name(half).ok_or(Unknown)?;
    let name = if relu { ".x2.relu" } else { ".x2" };
    let f = integer::binary(&format!("{}{name}", words.opcode), ty).ok_or(Unknown)?;
    let [d, a, b] = operands else { return Err(Unknown) };
    let whole = ScalarType::B32;
    Ok(Op::Bin32(f, names.target32(d)?, names.source32(a, whole)?, names.source32(b, whole)?))
}

fn widening(names: &mut Names, opcode: &str, operands: &[Operand], ty: ScalarType) -> Decoded<Op> {
    match (opcode, operands, ty.size_bytes()) {
        ("mul", [d, a, b], 4) => {
            let f = integer::mul_wide(ty).ok_or(Unknown)?;
            Ok(Op::BinWiden(f, names.target64(d)?, names.source32(a, ty)?, names.source32(b, ty)?))
        }
        ("mul", [d, a, b], 2) => {
            let f = integer::mul_wide16(ty).ok_or(Unknown)?;
            Ok(Op::Bin32(f, names.target32(d)?, names.source32(a, ty)?, names.source32(b, ty)?))
        }
        ("mad", [d, a, b, c], 4) => {
            let f = integer::mad_wide(ty).ok_or(Unknown)?;
            let (a, b, c) =
                (names.source32(a, ty)?, names.source32(b, ty)?, names.source64(c, ScalarType::S64)?);
            Ok(Op::TernWiden(f, names.target64(d)?, a, b, c))
        }
        ("mad", [d, a, b, c], 2) => {
            let f = integer::mad_wide16(ty).ok_or(Unknown)?;
            let (a, b, c) =
                (names.source32(a, ty)?, names.source32(b, ty)?, names.source32(c, ScalarType::S32)?);
            Ok(Op::Tern32(f, names.target32(d)?, a, b, c))
        }
        _ => Err(Unknown),
    }
}

/// `add.cc`, `addc{.cc}`, `sub.cc`, `subc{.cc}`, `mad.lo/.hi.cc`, `madc.lo/.hi{.cc}`; `.cc` of the forms without
/// `c` is taken already.
fn with_carry(names: &mut Names, mut words: Words, operands: &[Operand], ty: ScalarType) -> Decoded<Op> {
    let adds = matches!(words.opcode, "add" | "sub" | "mad" | "addc" | "subc" | "madc");
    if !adds || !matches!(ty, ScalarType::U32 | ScalarType::S32 | ScalarType::U64 | ScalarType::S64) {
        return Err(Unknown);
    }
    let takes = words.opcode.ends_with('c') && words.opcode.len() == 4;
    let gives = !takes || words.take("cc");
    let how = CarryUse { takes, gives, subtract: words.opcode.starts_with("sub") };
    let part = words.take_any(&["lo", "hi"]);
    words.end()?;
    match (operands, part, ty.size_bytes()) {
        ([d, a, b], None, 4) => {
            Ok(Op::Carry32(how, names.target32(d)?, names.source32(a, ty)?, names.source32(b, ty)?))
        }
        ([d, a, b], None, 8) => {
            Ok(Op::Carry64(how, names.target64(d)?, names.source64(a, ty)?, names.source64(b, ty)?))
        }
        ([d, a, b, c], Some(part), 4) => {
            let f = integer::binary(&format!("mul.{part}"), ty).ok_or(Unknown)?;
            let sources = [names.source32(a, ty)?, names.source32(b, ty)?, names.source32(c, ty)?];
            Ok(Op::MadCarry32(f, how, names.target32(d)?, sources))
        }
        ([d, a, b, c], Some(part), 8) => {
            let f = wide::binary(&format!("mul.{part}"), ty).ok_or(Unknown)?;
            let sources = [names.source64(a, ty)?, names.source64(b, ty)?, names.source64(c, ty)?];
            Ok(Op::MadCarry64(f, how, names.target64(d)?, sources))
        }
        _ => Err(Unknown),
    }
}
