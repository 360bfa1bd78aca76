//! Moves, conversions and address conversions.

use crate::alu::conversion::{Conversion, Scalar};
use crate::alu::convert::{Quick, pack, pack_integers, quick};
use crate::alu::small;
use crate::decode::float::rounding;
use crate::decode::scope::Names;
use crate::decode::words::{Decoded, Unknown, Words};
use crate::float::round::Rounding;
use crate::form::{Op, R32, Reg, Space};
use crate::gate::ClusterOp;
use crate::lanes::{map1, map2};
use crate::ptx::{Operand, OperandKind, ScalarType};

/// `cvt`
pub(crate) fn cvt(names: &mut Names, mut words: Words, operands: &[Operand]) -> Decoded<Op> {
    let from_name = words.last()?;
    let to_name = words.last()?;
    if let Some(op) = small_pairs(names, &mut words, to_name, from_name, operands)? {
        return Ok(op);
    }
    if words.take("pack") {
        return packed_integers(names, words, to_name, from_name, operands);
    }
    let from = Scalar::from_name(from_name).ok_or(Unknown)?;
    let whole = words.take_any(&["rni", "rzi", "rmi", "rpi"]).map(|word| match word {
        "rni" => Rounding::Nearest,
        "rzi" => Rounding::Zero,
        "rmi" => Rounding::Down,
        _ => Rounding::Up,
    });
    let fraction = rounding(&mut words);
    let (flush, saturate, relu) = (words.take("ftz"), words.take("sat"), words.take("relu"));
    let finite = words.take("satfinite");
    words.end()?;
    if let Some(half) = to_name.strip_suffix("x2") {
        let to = Scalar::from_name(half).ok_or(Unknown)?;
        let (Scalar::Single, [d, a, b], None, Some(mode)) = (from, operands, whole, fraction) else {
            return Err(Unknown);
        };
        if flush || saturate {
            return Err(Unknown);
        }
        let f = pack(to, mode, relu, finite).ok_or(Unknown)?;
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
        (None, Some(Rounding::Down | Rounding::Up)) if to == Scalar::Tensor => return Err(Unknown),
        (None, Some(mode)) if to.is_float() && (mode != Rounding::Away || to == Scalar::Tensor) => mode,
        (None, None) if !needs_fraction && from.is_float() == to.is_float() => Rounding::Nearest,
        _ => return Err(Unknown),
    };
    let narrows = from.is_float() && to.is_float() && to.bits() == 16;
    let single = from == Scalar::Single || to == Scalar::Single;
    if to == Scalar::Tensor && from != Scalar::Single || from == Scalar::Tensor {
        return Err(Unknown);
    }
    let rounded = rounding != Rounding::Away;
    let clamps = narrows || to == Scalar::Tensor && rounded;
    if relu && (!clamps || saturate) || flush && (!single || to == Scalar::Tensor) {
        return Err(Unknown);
    }
    // `.satfinite` comes with singles only.
    if finite && (saturate || from != Scalar::Single || !narrows && to != Scalar::Tensor) {
        return Err(Unknown);
    }
    let integral = whole.is_some() && to.is_float();
    let how = Conversion { from, to, rounding, integral, saturate, flush, relu, finite };
    let source = names.source(a, type_of(from))?;
    let (target, _) = names.target(d)?;
    Ok(match (quick(&how), source, target) {
        (Some(Quick::Narrow(f)), Reg::Narrow(a), Reg::Narrow(d)) => Op::Un32(f, d, a),
        (Some(Quick::Widen(f)), Reg::Narrow(a), Reg::Wide(d)) => Op::Widen(f, d, a),
        (Some(Quick::Shrink(f)), Reg::Wide(a), Reg::Narrow(d)) => Op::Shrink(f, d, a),
        _ => Op::Convert(Box::new(how), target, source),
    })
}

/// `cvt.pack.sat`
fn packed_integers(
    names: &mut Names,
    mut words: Words,
    to: &str,
    from: &str,
    operands: &[Operand],
) -> Decoded<Op> {
    // With a third operand, its type comes last.
    let (to, from) = if from == "b32" { (words.last()?, to) } else { (to, from) };
    if !words.take("sat") || from != "s32" {
        return Err(Unknown);
    }
    words.end()?;
    let Scalar::Int { bits, signed } = Scalar::from_name(to).ok_or(Unknown)? else { return Err(Unknown) };
    let f = pack_integers(bits, signed).ok_or(Unknown)?;
    let ty = ScalarType::B32;
    let (d, a, b, c) = match (operands, bits) {
        ([d, a, b], 16) => (d, a, b, names.constant32(0)),
        ([d, a, b, c], 8) => (d, a, b, names.source32(c, ty)?),
        _ => return Err(Unknown),
    };
    Ok(Op::Tern32(f, names.target32(d)?, names.source32(a, ty)?, names.source32(b, ty)?, c))
}

/// `cvt` from and to pairs of 8-bit floats, if it is one of those.
fn small_pairs(
    names: &mut Names,
    words: &mut Words,
    to: &str,
    from: &str,
    operands: &[Operand],
) -> Decoded<Option<Op>> {
    let small = |name: &str| match name {
        "e4m3x2" => Some(false),
        "e5m2x2" => Some(true),
        _ => None,
    };
    let (target, source) = (small(to), small(from));
    if target.is_none() && source.is_none() {
        return Ok(None);
    }
    let relu = words.take("relu");
    let saturates = words.take("satfinite");
    if !words.take("rn") || saturates != target.is_some() {
        return Err(Unknown);
    }
    words.end()?;
    let (single, whole) = (ScalarType::F32, ScalarType::B32);
    Ok(Some(match (target, source, from, to, operands) {
        (Some(e5m2), None, "f32", _, [d, a, b]) => {
            let (a, b) = (names.source32(a, single)?, names.source32(b, single)?);
            Op::Bin32(small::from_singles(e5m2, relu), names.target32(d)?, a, b)
        }
        (Some(e5m2), None, "f16x2", _, [d, a]) => {
            Op::Un32(small::from_halves(e5m2, relu), names.target32(d)?, names.source32(a, whole)?)
        }
        (None, Some(e5m2), _, "f16x2", [d, a]) => {
            Op::Un32(small::to_halves(e5m2, relu), names.target32(d)?, names.source32(a, ScalarType::B16)?)
        }
        _ => return Err(Unknown),
    }))
}

/// `mov`, packing and unpacking of vectors included.
pub(crate) fn mov(names: &mut Names, mut words: Words, operands: &[Operand]) -> Decoded<Op> {
    let ty = words.ty()?;
    words.end()?;
    let [d, a] = operands else { return Err(Unknown) };
    if ty == ScalarType::B128 {
        return mov_pair(names, d, a);
    }
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

/// `mov.b128`, from and to two halves too.
fn mov_pair(names: &mut Names, d: &Operand, a: &Operand) -> Decoded<Op> {
    let halves = |operand: &Operand| match &operand.kind {
        OperandKind::Vector(parts) => match &parts[..] {
            [low, high] => Some((low.clone(), high.clone())),
            _ => None,
        },
        _ => None,
    };
    let (low, high) = match halves(a) {
        Some((low, high)) => {
            (names.source64(&low, ScalarType::B64)?, names.source64(&high, ScalarType::B64)?)
        }
        None => names.pair(a)?,
    };
    let (to_low, to_high) = match halves(d) {
        Some((low, high)) => (names.target64(&low)?, names.target64(&high)?),
        None => names.pair(d)?,
    };
    Ok(Op::MovePair([to_low, to_high], [low, high]))
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

/// `mapa` and `getctarank`
pub(crate) fn place_in_cluster(names: &mut Names, mut words: Words, operands: &[Operand]) -> Decoded<Op> {
    let ty = words.ty()?;
    let generic = !words.take("shared::cluster");
    words.end()?;
    let wide = ScalarType::U64;
    if !matches!(ty, ScalarType::U32 | ScalarType::U64) || generic && ty != wide {
        return Err(Unknown);
    }
    match (words.opcode, operands) {
        ("mapa", [d, a, rank]) => {
            let (a, rank) = (names.source(a, ty)?, names.source32(rank, ScalarType::U32)?);
            Ok(Op::Cluster(ClusterOp::Map { d: names.target(d)?.0, a, rank, generic }))
        }
        ("getctarank", [d, a]) => {
            let a = names.source(a, ty)?;
            Ok(Op::Cluster(ClusterOp::Rank { d: names.target32(d)?, a, generic }))
        }
        _ => Err(Unknown),
    }
}

/// `isspacep`
pub(crate) fn isspacep(names: &mut Names, mut words: Words, operands: &[Operand]) -> Decoded<Op> {
    let name = words.last()?;
    words.end()?;
    if name == "const" {
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
        "shared::cluster" => Space::Cluster,
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
