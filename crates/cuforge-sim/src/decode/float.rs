//! Floating point arithmetic.

use crate::alu::{double, narrow, single};
use crate::decode::scope::Names;
use crate::decode::words::{Decoded, Unknown, Words};
use crate::float::round::Rounding;
use crate::form::{Bin32, Bin64, Op, Tern32, Tern64, Un32, Un64};
use crate::ptx::{Operand, OperandKind, ScalarType};

/// Any arithmetic instruction whose type is one of floating point.
pub(crate) fn decode(names: &mut Names, mut words: Words, operands: &[Operand]) -> Decoded<Op> {
    let ty = words.ty()?;
    match ty {
        ScalarType::F32 => {
            immediates_are(operands, true)?;
            of_singles(names, words, operands)
        }
        ScalarType::F64 => of_doubles(names, words, operands),
        ScalarType::F16 | ScalarType::F16x2 | ScalarType::Bf16 | ScalarType::Bf16x2 => {
            immediates_are(operands, false)?;
            of_halves(names, words, operands, ty)
        }
        _ => Err(Unknown),
    }
}

/// Takes the rounding, if it is written.
pub(crate) fn rounding(words: &mut Words) -> Option<Rounding> {
    words.take_any(&["rn", "rz", "rm", "rp", "rna"]).map(|word| match word {
        "rn" => Rounding::Nearest,
        "rz" => Rounding::Zero,
        "rm" => Rounding::Down,
        "rp" => Rounding::Up,
        _ => Rounding::Away,
    })
}

fn of_singles(names: &mut Names, mut words: Words, operands: &[Operand]) -> Decoded<Op> {
    let opcode = words.opcode;
    let approximate = words.take_any(&["approx", "full"]);
    let explicit = rounding(&mut words);
    let manner = single::Manner {
        rounding: explicit.unwrap_or(Rounding::Nearest),
        flush: words.take("ftz"),
        saturate: words.take("sat"),
    };
    let (nan, xorsign) = of_extremes(&mut words)?;
    let plain = !nan && !xorsign && approximate.is_none();
    match (opcode, operands.len()) {
        ("add" | "sub" | "mul", 3) if plain => {
            binary32(names, operands, single::binary(opcode, manner).ok_or(Unknown)?)
        }
        ("div", 3) if plain && explicit.is_some() && !manner.saturate => {
            binary32(names, operands, single::binary(opcode, manner).ok_or(Unknown)?)
        }
        ("div", 3) if explicit.is_none() && !manner.saturate => {
            let full = approximate.ok_or(Unknown)? == "full";
            binary32(names, operands, single::approximate_div(full, manner.flush))
        }
        ("fma", 4) if plain && explicit.is_some() => {
            ternary32(names, operands, single::fused(manner).ok_or(Unknown)?)
        }
        // From compute capability 2.0 on, `mad` is `fma`.
        ("mad", 4) if plain && explicit.is_some() => {
            ternary32(names, operands, single::fused(manner).ok_or(Unknown)?)
        }
        ("rcp" | "sqrt", 2) if plain && explicit.is_some() && !manner.saturate => {
            unary32(names, operands, single::unary(opcode, manner).ok_or(Unknown)?)
        }
        ("rcp" | "sqrt" | "rsqrt" | "ex2" | "lg2" | "sin" | "cos" | "tanh", 2)
            if approximate == Some("approx") && explicit.is_none() && !manner.saturate =>
        {
            unary32(names, operands, single::approximate(opcode, manner.flush).ok_or(Unknown)?)
        }
        ("neg" | "abs", 2) if plain && explicit.is_none() && !manner.saturate => {
            unary32(names, operands, single::sign(opcode, manner.flush).ok_or(Unknown)?)
        }
        ("min" | "max", 3) if approximate.is_none() && explicit.is_none() && !manner.saturate => {
            binary32(names, operands, single::extreme(opcode == "max", manner.flush, nan, xorsign))
        }
        ("min" | "max", 4) if approximate.is_none() && explicit.is_none() && !manner.saturate && !xorsign => {
            ternary32(names, operands, single::extreme3(opcode == "max", manner.flush, nan))
        }
        ("copysign", 3) if plain && explicit.is_none() && !manner.flush && !manner.saturate => {
            binary32(names, operands, single::copysign())
        }
        _ => Err(Unknown),
    }
}

fn of_doubles(names: &mut Names, mut words: Words, operands: &[Operand]) -> Decoded<Op> {
    let opcode = words.opcode;
    let approximate = words.take("approx");
    let explicit = rounding(&mut words);
    let flush = words.take("ftz");
    words.end()?;
    let mode = explicit.unwrap_or(Rounding::Nearest);
    let exact = !approximate && !flush;
    match (opcode, operands.len()) {
        ("add" | "sub" | "mul", 3) if exact => {
            binary64(names, operands, double::binary(opcode, mode).ok_or(Unknown)?)
        }
        ("div", 3) if exact && explicit.is_some() => {
            binary64(names, operands, double::binary(opcode, mode).ok_or(Unknown)?)
        }
        ("fma" | "mad", 4) if exact && explicit.is_some() => {
            ternary64(names, operands, double::fused(mode).ok_or(Unknown)?)
        }
        ("sqrt" | "rcp", 2) if exact && explicit.is_some() => {
            unary64(names, operands, double::unary(opcode, mode).ok_or(Unknown)?)
        }
        ("rcp" | "rsqrt", 2) if approximate && explicit.is_none() => {
            unary64(names, operands, double::approximate(opcode, flush).ok_or(Unknown)?)
        }
        ("neg" | "abs", 2) if exact && explicit.is_none() => {
            unary64(names, operands, double::sign(opcode).ok_or(Unknown)?)
        }
        ("min" | "max", 3) if exact && explicit.is_none() => {
            binary64(names, operands, double::extreme(opcode).ok_or(Unknown)?)
        }
        ("copysign", 3) if exact && explicit.is_none() => binary64(names, operands, double::copysign()),
        _ => Err(Unknown),
    }
}

fn of_halves(names: &mut Names, mut words: Words, operands: &[Operand], ty: ScalarType) -> Decoded<Op> {
    let opcode = words.opcode;
    let brain = matches!(ty, ScalarType::Bf16 | ScalarType::Bf16x2);
    let packed = matches!(ty, ScalarType::F16x2 | ScalarType::Bf16x2);
    let approximate = words.take("approx");
    let explicit = rounding(&mut words);
    let manner = narrow::Manner {
        brain,
        packed,
        flush: words.take("ftz"),
        saturate: words.take("sat"),
        relu: words.take("relu"),
    };
    let (nan, xorsign) = of_extremes(&mut words)?;
    if !matches!(explicit, None | Some(Rounding::Nearest)) || manner.saturate && manner.relu {
        return Err(Unknown);
    }
    if brain && (manner.saturate || manner.flush && opcode != "ex2") {
        return Err(Unknown);
    }
    let clamps = manner.saturate || manner.relu;
    let plain = !approximate && !nan && !xorsign;
    match (opcode, operands.len()) {
        ("add" | "sub" | "mul", 3) if plain && !manner.relu => {
            binary32(names, operands, narrow::binary(opcode, manner).ok_or(Unknown)?)
        }
        ("fma", 4) if plain && explicit.is_some() => {
            ternary32(names, operands, narrow::fused(manner).ok_or(Unknown)?)
        }
        ("neg" | "abs", 2) if plain && explicit.is_none() && !clamps => {
            unary32(names, operands, narrow::sign(opcode, manner).ok_or(Unknown)?)
        }
        ("min" | "max", 3) if !approximate && explicit.is_none() && !manner.relu => {
            let f = narrow::extreme(opcode == "max", nan, xorsign, manner).ok_or(Unknown)?;
            binary32(names, operands, f)
        }
        ("ex2" | "tanh", 2) if approximate && explicit.is_none() && !clamps => {
            unary32(names, operands, narrow::approximate(opcode, manner).ok_or(Unknown)?)
        }
        _ => Err(Unknown),
    }
}

/// Takes `.NaN` and `.xorsign.abs`, which only `min` and `max` have; nothing else may be left.
fn of_extremes(words: &mut Words) -> Decoded<(bool, bool)> {
    let (nan, xorsign) = (words.take("NaN"), words.take("xorsign"));
    if xorsign && !words.take("abs") || (nan || xorsign) && !matches!(words.opcode, "min" | "max") {
        return Err(Unknown);
    }
    words.end()?;
    Ok((nan, xorsign))
}

/// Immediates of singles must be written as floats, those of the small formats as their bits.
fn immediates_are(operands: &[Operand], float: bool) -> Decoded<()> {
    let wrong = |operand: &Operand| matches!(&operand.kind, OperandKind::Immediate(number) if number.is_float() != float);
    if operands.iter().any(wrong) { Err(Unknown) } else { Ok(()) }
}

fn immediate_type(operand: &Operand) -> ScalarType {
    match &operand.kind {
        OperandKind::Immediate(number) if number.is_float() => ScalarType::F32,
        _ => ScalarType::B32,
    }
}

fn unary32(names: &mut Names, operands: &[Operand], f: Un32) -> Decoded<Op> {
    let [d, a] = operands else { return Err(Unknown) };
    Ok(Op::Un32(f, names.target32(d)?, names.source32(a, immediate_type(a))?))
}

fn binary32(names: &mut Names, operands: &[Operand], f: Bin32) -> Decoded<Op> {
    let [d, a, b] = operands else { return Err(Unknown) };
    let (a, b) = (names.source32(a, immediate_type(a))?, names.source32(b, immediate_type(b))?);
    Ok(Op::Bin32(f, names.target32(d)?, a, b))
}

fn ternary32(names: &mut Names, operands: &[Operand], f: Tern32) -> Decoded<Op> {
    let [d, a, b, c] = operands else { return Err(Unknown) };
    let (a, b) = (names.source32(a, immediate_type(a))?, names.source32(b, immediate_type(b))?);
    let c = names.source32(c, immediate_type(c))?;
    Ok(Op::Tern32(f, names.target32(d)?, a, b, c))
}

fn unary64(names: &mut Names, operands: &[Operand], f: Un64) -> Decoded<Op> {
    let [d, a] = operands else { return Err(Unknown) };
    Ok(Op::Un64(f, names.target64(d)?, names.source64(a, ScalarType::F64)?))
}

fn binary64(names: &mut Names, operands: &[Operand], f: Bin64) -> Decoded<Op> {
    let [d, a, b] = operands else { return Err(Unknown) };
    let (a, b) = (names.source64(a, ScalarType::F64)?, names.source64(b, ScalarType::F64)?);
    Ok(Op::Bin64(f, names.target64(d)?, a, b))
}

fn ternary64(names: &mut Names, operands: &[Operand], f: Tern64) -> Decoded<Op> {
    let [d, a, b, c] = operands else { return Err(Unknown) };
    let (a, b) = (names.source64(a, ScalarType::F64)?, names.source64(b, ScalarType::F64)?);
    let c = names.source64(c, ScalarType::F64)?;
    Ok(Op::Tern64(f, names.target64(d)?, a, b, c))
}
