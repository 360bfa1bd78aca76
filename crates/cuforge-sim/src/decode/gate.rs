//! Mbarriers and what signals them: `mbarrier`, `cp.async.mbarrier.arrive` and `cp.async.bulk`.

use crate::alu::atomic;
use crate::decode::memory::{Manner, matrix_access};
use crate::decode::scope::Names;
use crate::decode::words::{Decoded, Unknown, Words};
use crate::form::{Access, AtomicKind, Op, R32, Space, Strength};
use crate::gate::{Arrive, Bulk, Completion, Gate, GateAction, GateWait, PENDING_MASK, Phase};
use crate::lanes::map1;
use crate::ptx::{Operand, OperandKind, ScalarType};

/// `mbarrier`
pub(crate) fn mbarrier(names: &mut Names, mut words: Words, operands: &[Operand], line: u32) -> Decoded<Op> {
    if words.last()? != "b64" {
        return Err(Unknown);
    }
    let what = words.first()?;
    if what == "pending_count" {
        words.end()?;
        let [d, state] = operands else { return Err(Unknown) };
        let (d, state) = (names.target32(d)?, names.source64(state, ScalarType::B64)?);
        return Ok(Op::Shrink(|a, out| map1(a, out, |a| a as u32 & PENDING_MASK), d, state));
    }
    let expects = words.take("expect_tx");
    let completes_nothing = words.take("noComplete");
    let parity = words.take("parity");
    let order = words.take_any(&["acquire", "release", "relaxed"]);
    words.take_any(&["cta", "cluster"]);
    let space = gate_space(words.take_any(&["shared::cluster", "shared::cta", "shared"]));
    words.end()?;
    let count = |names: &mut Names, operand| names.source32(operand, ScalarType::U32);
    let releases = order != Some("relaxed");
    let (address, action) = match (what, operands) {
        ("init", [address, number]) => (address, GateAction::Init(count(names, number)?)),
        ("inval", [address]) => (address, GateAction::Invalidate),
        ("expect_tx", [address, bytes]) => (address, GateAction::Expect(count(names, bytes)?)),
        ("complete_tx", [address, bytes]) => (address, GateAction::Receive(count(names, bytes)?)),
        ("arrive" | "arrive_drop", [state, address, rest @ ..]) => {
            let number = match rest {
                [] if expects || completes_nothing => return Err(Unknown),
                [] => None,
                [number] => Some(count(names, number)?),
                _ => return Err(Unknown),
            };
            let state = match state.kind {
                OperandKind::Sink => None,
                _ => Some(names.target64(state)?),
            };
            let (count, bytes) = if expects { (None, number) } else { (number, None) };
            let drops = what == "arrive_drop";
            (address, GateAction::Arrive(Arrive { state, count, bytes, drops, completes_nothing, releases }))
        }
        ("test_wait" | "try_wait", [p, address, phase, hint @ ..]) => {
            let blocks = what == "try_wait";
            // How long it may wait is the machine's affair.
            match hint {
                [] => {}
                [hint] if blocks => {
                    count(names, hint)?;
                }
                _ => return Err(Unknown),
            }
            let phase = if parity {
                Phase::Parity(count(names, phase)?)
            } else {
                Phase::State(names.source64(phase, ScalarType::B64)?)
            };
            let p = names.pred_target(p)?;
            (address, GateAction::Wait(GateWait { p, phase, blocks, acquires: releases }))
        }
        _ => return Err(Unknown),
    };
    let access = gate_access(names, address, space, line)?;
    Ok(Op::Gate(Box::new(Gate { access, action })))
}

/// `cp.async.mbarrier.arrive`
pub(crate) fn arrive_after_copies(
    names: &mut Names,
    mut words: Words,
    operands: &[Operand],
    line: u32,
) -> Decoded<Op> {
    let (arrive, counts) = (words.take("arrive"), !words.take("noinc"));
    let space = gate_space(words.take_any(&["shared::cta", "shared"]));
    let wide = words.take("b64");
    words.end()?;
    let ([address], true, true) = (operands, arrive, wide) else { return Err(Unknown) };
    let access = gate_access(names, address, space, line)?;
    names.code.copies = true;
    Ok(Op::Gate(Box::new(Gate { access, action: GateAction::AfterCopies { counts } })))
}

/// `cp.async.bulk` in all forms but those of tensors, and `cp.reduce.async.bulk`, behind those words.
pub(crate) fn bulk(
    names: &mut Names,
    mut words: Words,
    operands: &[Operand],
    line: u32,
    reduces: bool,
) -> Decoded<Op> {
    if !reduces && words.take("commit_group") {
        words.end()?;
        return if operands.is_empty() { Ok(Op::BulkCommit) } else { Err(Unknown) };
    }
    if !reduces && words.take("wait_group") {
        // That sources were read is not told apart from that all is done.
        words.take("read");
        words.end()?;
        let [Operand { kind: OperandKind::Immediate(number), .. }] = operands else { return Err(Unknown) };
        return Ok(Op::BulkWait(u32::try_from(number.bits).map_err(|_| Unknown)?));
    }
    let reduction = if reduces { Some(reduction(&mut words)?) } else { None };
    let policy = usize::from(words.take("L2::cache_hint"));
    let operands = operands.get(..operands.len().saturating_sub(policy)).unwrap_or_default();
    if !reduces && words.take("prefetch") {
        let ([source, bytes], true, "global") = (operands, words.take("L2"), words.first()?) else {
            return Err(Unknown);
        };
        words.end()?;
        bulk_access(names, source, Space::Global, line)?;
        names.source32(bytes, ScalarType::U32)?;
        return Ok(Op::Nop);
    }
    let (to, from) = (words.first()?, words.first()?);
    let gated = words.take("mbarrier::complete_tx::bytes");
    let grouped = words.take("bulk_group");
    let spread = words.take("multicast::cluster");
    words.end()?;
    let (to, from) = match (to, from, gated, grouped) {
        ("shared::cluster", "global", true, false) if !reduces => (Space::Cluster, Space::Global),
        ("shared::cta", "global", true, false) if !reduces && !spread => (Space::Shared, Space::Global),
        ("shared::cluster", "shared::cta", true, false) if !spread => (Space::Cluster, Space::Shared),
        ("global", "shared::cta", false, true) if !spread => (Space::Global, Space::Shared),
        _ => return Err(Unknown),
    };
    let (target, source, bytes, gate, blocks) = match (operands, gated, spread) {
        ([target, source, bytes], false, false) => (target, source, bytes, None, None),
        ([target, source, bytes, gate], true, false) => (target, source, bytes, Some(gate), None),
        ([target, source, bytes, gate, blocks], true, true) => {
            (target, source, bytes, Some(gate), Some(names.source32(blocks, ScalarType::B16)?))
        }
        _ => return Err(Unknown),
    };
    let completion = match gate {
        Some(gate) => Completion::Gate(gate_access(names, gate, to, line)?),
        None => Completion::Group,
    };
    let bytes: R32 = names.source32(bytes, ScalarType::U32)?;
    let (target, source) = (bulk_access(names, target, to, line)?, bulk_access(names, source, from, line)?);
    // What is added up in global memory is so for all blocks.
    let strength = if reduces && to == Space::Global { Strength::Strong } else { Strength::Weak };
    names.code.communicates |= strength == Strength::Strong;
    names.code.copies = true;
    let target = Access { strength, ..target };
    Ok(Op::Bulk(Box::new(Bulk { target, source, bytes, completion, blocks, reduction })))
}

/// What a reduction does with elements of so many bytes.
fn reduction(words: &mut Words) -> Decoded<(AtomicKind, u32)> {
    let ty_name = words.last()?;
    let ty = ScalarType::from_name(ty_name).ok_or(Unknown)?;
    words.take("noftz");
    let op = words.take_any(&["add", "min", "max", "inc", "dec", "and", "or", "xor"]).ok_or(Unknown)?;
    Ok((atomic::kind(op, ty_name, false).ok_or(Unknown)?, ty.size_bytes()))
}

/// Absent, the address is a generic one.
fn gate_space(word: Option<&str>) -> Space {
    match word {
        None => Space::Generic,
        Some("shared::cluster") => Space::Cluster,
        Some(_) => Space::Shared,
    }
}

fn gate_access(names: &mut Names, operand: &Operand, space: Space, line: u32) -> Decoded<Access> {
    let OperandKind::Address(address) = &operand.kind else { return Err(Unknown) };
    let access =
        matrix_access(names, address, ScalarType::B64, Manner::plain(space, Strength::Strong), line)?;
    names.code.parks = true;
    if matches!(access.space, Space::Generic | Space::Shared | Space::Cluster) {
        Ok(access)
    } else {
        Err(Unknown)
    }
}

fn bulk_access(names: &mut Names, operand: &Operand, space: Space, line: u32) -> Decoded<Access> {
    let OperandKind::Address(address) = &operand.kind else { return Err(Unknown) };
    matrix_access(names, address, ScalarType::B32, Manner::plain(space, Strength::Weak), line)
}
