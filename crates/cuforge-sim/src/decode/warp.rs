//! Instructions of whole warps and blocks.

use crate::decode::scope::Names;
use crate::decode::words::{Decoded, Unknown, Words};
use crate::form::{
    Barrier, BarrierReduction, Match, Op, Pred, R32, Redux, Shuffle, ShuffleMode, Vote, VoteMode,
};
use crate::gate::ClusterOp;
use crate::ptx::{Operand, OperandKind, ScalarType};

/// `shfl` and `shfl.sync`
pub(crate) fn shuffle(names: &mut Names, mut words: Words, operands: &[Operand]) -> Decoded<Op> {
    let sync = words.take("sync");
    let mode = match words.take_any(&["up", "down", "bfly", "idx"]).ok_or(Unknown)? {
        "up" => ShuffleMode::Up,
        "down" => ShuffleMode::Down,
        "bfly" => ShuffleMode::Butterfly,
        _ => ShuffleMode::Index,
    };
    let ty = words.ty()?;
    words.end()?;
    let (target, a, b, c, members) = match (operands, sync) {
        ([d, a, b, c, members], true) => (d, a, b, c, Some(members)),
        ([d, a, b, c], false) => (d, a, b, c, None),
        _ => return Err(Unknown),
    };
    let (d, p) = target_and_pred(names, target)?;
    Ok(Op::Shuffle(Box::new(Shuffle {
        mode,
        d,
        p,
        a: names.source32(a, ty)?,
        b: names.source32(b, ScalarType::U32)?,
        c: names.source32(c, ScalarType::U32)?,
        members: members.map(|members| names.source32(members, ScalarType::B32)).transpose()?,
    })))
}

/// `vote` and `vote.sync`
pub(crate) fn vote(names: &mut Names, mut words: Words, operands: &[Operand]) -> Decoded<Op> {
    let sync = words.take("sync");
    let mode = match words.take_any(&["all", "any", "uni", "ballot"]).ok_or(Unknown)? {
        "all" => VoteMode::All,
        "any" => VoteMode::Any,
        "uni" => VoteMode::Uniform,
        _ => VoteMode::Ballot,
    };
    let ty = words.ty()?;
    words.end()?;
    if (mode == VoteMode::Ballot) != (ty == ScalarType::B32) {
        return Err(Unknown);
    }
    let (target, source, members) = match (operands, sync) {
        ([d, source, members], true) => (d, source, Some(members)),
        ([d, source], false) => (d, source, None),
        _ => return Err(Unknown),
    };
    let (d, p) = if mode == VoteMode::Ballot {
        (Some(names.target32(target)?), None)
    } else {
        (None, Some(names.pred_target(target)?))
    };
    let source = names.pred(source)?;
    let members = members.map(|members| names.source32(members, ScalarType::B32)).transpose()?;
    Ok(Op::Vote(Box::new(Vote { mode, d, p, source, members })))
}

/// `match.sync`
pub(crate) fn match_sync(names: &mut Names, mut words: Words, operands: &[Operand]) -> Decoded<Op> {
    let ty = words.ty()?;
    let all = words.take_any(&["any", "all"]).ok_or(Unknown)? == "all";
    if !words.take("sync") {
        return Err(Unknown);
    }
    words.end()?;
    let [target, a, members] = operands else { return Err(Unknown) };
    let (d, p) = target_and_pred(names, target)?;
    let a = names.source(a, ty)?;
    let members = names.source32(members, ScalarType::B32)?;
    Ok(Op::Match(Box::new(Match { all, d: d.ok_or(Unknown)?, p, a, members })))
}

/// `redux.sync` on integers
pub(crate) fn redux(names: &mut Names, mut words: Words, operands: &[Operand]) -> Decoded<Op> {
    let ty = words.ty()?;
    if !words.take("sync") {
        return Err(Unknown);
    }
    let op = words.last()?;
    words.end()?;
    let f: fn(u32, u32) -> u32 = match (op, ty) {
        ("add", ScalarType::U32 | ScalarType::S32) => u32::wrapping_add,
        ("min", ScalarType::U32) => u32::min,
        ("max", ScalarType::U32) => u32::max,
        ("min", ScalarType::S32) => |a, b| a.cast_signed().min(b.cast_signed()).cast_unsigned(),
        ("max", ScalarType::S32) => |a, b| a.cast_signed().max(b.cast_signed()).cast_unsigned(),
        ("and", ScalarType::B32) => |a, b| a & b,
        ("or", ScalarType::B32) => |a, b| a | b,
        ("xor", ScalarType::B32) => |a, b| a ^ b,
        _ => return Err(Unknown),
    };
    let [d, a, members] = operands else { return Err(Unknown) };
    let (d, a) = (names.target32(d)?, names.source32(a, ty)?);
    Ok(Op::Redux(Box::new(Redux { f, d, a, members: names.source32(members, ScalarType::B32)? })))
}

/// `activemask`
pub(crate) fn activemask(names: &mut Names, mut words: Words, operands: &[Operand]) -> Decoded<Op> {
    words.take("b32");
    words.end()?;
    let [d] = operands else { return Err(Unknown) };
    Ok(Op::ActiveMask(names.target32(d)?))
}

/// `elect.sync`
pub(crate) fn elect(names: &mut Names, mut words: Words, operands: &[Operand]) -> Decoded<Op> {
    if !words.take("sync") {
        return Err(Unknown);
    }
    words.end()?;
    let [target, members] = operands else { return Err(Unknown) };
    let (d, p) = target_and_pred(names, target)?;
    Ok(Op::Elect(d, p, names.source32(members, ScalarType::B32)?))
}

/// `bar` and `barrier`
pub(crate) fn barrier(names: &mut Names, mut words: Words, operands: &[Operand]) -> Decoded<Op> {
    if words.opcode == "bar" && words.take("warp") {
        let sync = words.take("sync");
        words.end()?;
        let ([members], true) = (operands, sync) else { return Err(Unknown) };
        return Ok(Op::WarpSync(names.source32(members, ScalarType::B32)?));
    }
    if words.opcode == "barrier" && words.take("cluster") {
        return cluster_barrier(names, words, operands);
    }
    words.take("cta");
    let aligned = words.take("aligned") || words.opcode == "bar";
    let what = words.take_any(&["sync", "arrive", "red"]).ok_or(Unknown)?;
    let mut barrier = Barrier {
        id: names.constant32(0),
        threads: None,
        aligned,
        arrive: what == "arrive",
        reduction: None,
        p: None,
        d: None,
    };
    let number = ScalarType::U32;
    match (what, operands) {
        ("sync", [id]) => barrier.id = names.source32(id, number)?,
        ("sync" | "arrive", [id, threads]) => {
            barrier.id = names.source32(id, number)?;
            barrier.threads = Some(names.source32(threads, number)?);
        }
        ("red", [target, id, middle @ .., source]) => {
            let how = match words.take_any(&["popc", "and", "or"]).ok_or(Unknown)? {
                "popc" => BarrierReduction::Popc,
                "and" => BarrierReduction::And,
                _ => BarrierReduction::Or,
            };
            let counts = matches!(how, BarrierReduction::Popc);
            if words.ty()? != if counts { ScalarType::U32 } else { ScalarType::Pred } {
                return Err(Unknown);
            }
            barrier.id = names.source32(id, number)?;
            barrier.threads = match middle {
                [] => None,
                [threads] => Some(names.source32(threads, number)?),
                _ => return Err(Unknown),
            };
            barrier.reduction = Some((how, names.pred(source)?));
            match how {
                BarrierReduction::Popc => barrier.d = Some(names.target32(target)?),
                _ => barrier.p = Some(names.pred_target(target)?),
            }
        }
        _ => return Err(Unknown),
    }
    words.end()?;
    Ok(Op::Barrier(Box::new(barrier)))
}

/// `barrier.cluster.arrive` and `barrier.cluster.wait`
fn cluster_barrier(names: &mut Names, mut words: Words, operands: &[Operand]) -> Decoded<Op> {
    let what = words.take_any(&["arrive", "wait"]).ok_or(Unknown)?;
    let order = words.take_any(if what == "wait" { &["acquire"] } else { &["release", "relaxed"] });
    words.take("aligned");
    words.end()?;
    if !operands.is_empty() {
        return Err(Unknown);
    }
    names.code.meets = true;
    names.code.parks = true;
    Ok(Op::Cluster(match what {
        "arrive" => ClusterOp::Arrive { releases: order != Some("relaxed") },
        _ => ClusterOp::Wait,
    }))
}

fn target_and_pred(names: &mut Names, target: &Operand) -> Decoded<(Option<R32>, Option<Pred>)> {
    let narrow = |names: &mut Names, operand: &Operand| match operand.kind {
        OperandKind::Sink => Ok(None),
        _ => names.target32(operand).map(Some),
    };
    match &target.kind {
        OperandKind::Pair(d, p) => Ok((narrow(names, d)?, names.optional_pred(p)?)),
        _ => Ok((narrow(names, target)?, None)),
    }
}
