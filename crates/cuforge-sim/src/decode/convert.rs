//! Moves, conversions and address conversions.

use crate::alu::conversion::{Conversion, Scalar};
use crate::alu::convert::{Quick, pack, quick};
use crate::decode::float::rounding;
use crate::decode::scope::Names;
use crate::decode::words::{Decoded, Unknown, Words};
use crate::float::round::Rounding;
use crate::form::{Op, R32, Reg, Space};
use crate::lanes::{map1, map2};
use crate::ptx::{Operand, OperandKind, ScalarType};

/// `cvt`
pub(crate) fn cvt(names: &mut Names, mut words: Words, operands: &[Operand]) -> Decoded<Op> {
    let from = Scalar::from_name(words.last()?).ok_or(Unknown)?;
    let to_name = words.last()?;
    let whole = words.take_any(&["rni", "rzi", "rmi", "rpi"]).map(|word| match word {
        "rni" => Rounding::Nearest,
        "rzi" => Rounding::Zero,
        "rmi" => Rounding::Down,
        _ => Rounding::Up,
    });
    let fraction = rounding(&mut words);
    let (flush, saturate, relu) = (words.take("ftz"), words.take("sat"), words.take("relu"));
    words.end()?;
    if let Some(half) = to_name.strip_suffix("x2") {
        let to = Scalar::from_name(half).ok_or(Unknown)?;
        let (Scalar::Single, [d, a, b], None, Some(mode)) = (from, operands, whole, fraction) else {
            return Err(Unknown);
        };
        if flush || saturate {
            return Err(Unknown);
        }
        let f = pack(to, mode, relu).ok_or(Unknown)?;
        let (a, b) = (names.source32(a, ScalarType::F32)?, names.source32(b, ScalarType::F32)?);
        return Ok(Op::Bin32(f, names.target32(d)?, a, b));
    }
    let to = Scalar::from_name(to_name).ok_or(Unknown)?;
    let [d, a] = operands else { return Err(Unknown) };
    let needs_fraction = match (from.is_float(), to.is_float()) {
        (false, true) => true,
        (true, true) => {
            to.bits() < from.bits()
                || to == Scalar::Tensor
                || from.bits() == 16 && to.bits() == 16 && from != to
        }
        _ => false,
    };
    let rounding = match (whole, fraction) {
        (Some(mode), None) if from.is_float() => mode,
        (None, Some(mode)) if to.is_float() && (mode == Rounding::Away) == (to == Scalar::Tensor) => mode,
        (None, None) if !needs_fraction && from.is_float() == to.is_float() => Rounding::Nearest,
        _ => return Err(Unknown),
    };
    let narrows = from.is_float() && to.is_float() && to.bits() == 16;
    let single = from == Scalar::Single || to == Scalar::Single;
    if to == Scalar::Tensor && from != Scalar::Single || from == Scalar::Tensor {
        return Err(Unknown);
    }
    if relu && (!narrows || saturate) || flush && !single {
        return Err(Unknown);
    }
    let integral = whole.is_some() && to.is_float();
    let how = Conversion { from, to, rounding, integral, saturate, flush, relu };
    let source = names.source(a, type_of(from))?;
    let (target, _) = names.target(d)?;
    Ok(match (quick(&how), source, target) {
        (Some(Quick::Narrow(f)), Reg::Narrow(a), Reg::Narrow(d)) => Op::Un32(f, d, a),
        (Some(Quick::Widen(f)), Reg::Narrow(a), Reg::Wide(d)) => Op::Widen(f, d, a),
        (Some(Quick::Shrink(f)), Reg::Wide(a), Reg::Narrow(d)) => Op::Shrink(f, d, a),
        _ => Op::Convert(Box::new(how), target, source),
    })
}

/// `mov`, packing and unpacking of vectors included.
pub(crate) fn mov(names: &mut Names, mut words: Words, operands: &[Operand]) -> Decoded<Op> {
    let ty = words.ty()?;
    words.end()?;
    let [d, a] = operands else { return Err(Unknown) };
    if ty == ScalarType::Pred {
        return Ok(Op::PredMove(names.pred_target(d)?, names.pred(a)?));
    }
    match (&d.kind, &a.kind) {
        (OperandKind::Vector(parts), _) => unpack(names, ty, parts, a),
        (_, OperandKind::Vector(parts)) => pack_parts(names, ty, d, parts),
        (_, OperandKind::Register { name, component: None })
            if matches!(
                name.as_str(),
                "%clock" | "%clock_hi" | "%clock64" | "%globaltimer" | "%globaltimer_lo"
            ) =>
        {
            if name == "%clock_hi" {
                return Err(Unknown);
            }
            Ok(Op::Clock(names.target(d)?.0))
        }
        _ => copy(names.target(d)?.0, names.source(a, ty)?),
    }
}

/// `cvta` and `cvta.to`
pub(crate) fn cvta(names: &mut Names, mut words: Words, operands: &[Operand]) -> Decoded<Op> {
    let ty = words.ty()?;
    let to = words.take("to");
    let space = space(words.last()?, names)?;
    words.end()?;
    let [d, a] = operands else { return Err(Unknown) };
    let (target, _) = names.target(d)?;
    let source = names.source(a, ty)?;
    Ok(match space {
        // Global and constant addresses are generic as they are.
        Space::Global => return copy(target, source),
        space if to => Op::CvtaFrom(space, target, source),
        space => Op::CvtaTo(space, target, source),
    })
}

/// `isspacep`
pub(crate) fn isspacep(names: &mut Names, mut words: Words, operands: &[Operand]) -> Decoded<Op> {
    let name = words.last()?;
    words.end()?;
    if name == "const" || name == "shared::cluster" {
        return Err(Unknown);
    }
    let space = space(name, names)?;
    let [p, a] = operands else { return Err(Unknown) };
    Ok(Op::IsSpace(space, names.pred_target(p)?, names.source(a, ScalarType::U64)?))
}

fn space(name: &str, names: &Names) -> Decoded<Space> {
    Ok(match name {
        "global" | "const" => Space::Global,
        "shared" | "shared::cta" => Space::Shared,
        "local" => Space::Local,
        // The parameters of a device function lie in local memory.
        "param" | "param::entry" if names.in_function => Space::Local,
        "param" | "param::entry" => Space::Param,
        _ => return Err(Unknown),
    })
}

fn copy(target: Reg, source: Reg) -> Decoded<Op> {
    match (target, source) {
        (Reg::Narrow(d), Reg::Narrow(a)) => Ok(Op::Un32(|a, out| *out = *a, d, a)),
        (Reg::Wide(d), Reg::Wide(a)) => Ok(Op::Un64(|a, out| *out = *a, d, a)),
        (Reg::Wide(d), Reg::Narrow(a)) => Ok(Op::Widen(|a, out| map1(a, out, u64::from), d, a)),
        (Reg::Narrow(_), Reg::Wide(_)) => Err(Unknown),
    }
}

fn type_of(scalar: Scalar) -> ScalarType {
    match (scalar, scalar.bits()) {
        (Scalar::Single, _) => ScalarType::F32,
        (Scalar::Double, _) => ScalarType::F64,
        (_, 64) => ScalarType::B64,
        (_, 16) => ScalarType::B16,
        (_, 8) => ScalarType::B8,
        _ => ScalarType::B32,
    }
}

fn unpack(names: &mut Names, ty: ScalarType, parts: &[Operand], a: &Operand) -> Decoded<Op> {
    let source = names.source(a, ty)?;
    let bits = part_bits(ty, parts.len())?;
    let mut targets: Vec<Option<R32>> = Vec::new();
    for part in parts {
        targets.push(match part.kind {
            OperandKind::Sink => None,
            _ => Some(names.target32(part)?),
        });
    }
    match (bits, source, &targets[..]) {
        (32, Reg::Wide(a), [low, high]) => Ok(Op::Split64(*low, *high, a)),
        (8 | 16, source, _) => Ok(Op::SplitParts(bits, targets, source)),
        _ => Err(Unknown),
    }
}

fn pack_parts(names: &mut Names, ty: ScalarType, d: &Operand, parts: &[Operand]) -> Decoded<Op> {
    let (target, _) = names.target(d)?;
    let bits = part_bits(ty, parts.len())?;
    let part_ty = match bits {
        32 => ScalarType::B32,
        16 => ScalarType::B16,
        _ => ScalarType::B8,
    };
    let mut sources = Vec::new();
    for part in parts {
        sources.push(match part.kind {
            OperandKind::Sink => names.constant32(0),
            _ => names.source32(part, part_ty)?,
        });
    }
    match (bits, target, &sources[..]) {
        (32, Reg::Wide(d), [low, high]) => Ok(Op::Join64(d, *low, *high)),
        (16, Reg::Narrow(d), [low, high]) => Ok(Op::Bin32(
            |low, high, out| map2(low, high, out, |low, high| low & 0xffff | high << 16),
            d,
            *low,
            *high,
        )),
        (8 | 16, target, _) => Ok(Op::JoinParts(bits, target, sources)),
        _ => Err(Unknown),
    }
}

fn part_bits(ty: ScalarType, parts: usize) -> Decoded<u32> {
    let bits = ty.size_bytes() * 8;
    match (ty.size_bytes(), parts) {
        (2, 2) | (4, 2 | 4) | (8, 2 | 4) => Ok(bits / parts as u32),
        _ => Err(Unknown),
    }
}
