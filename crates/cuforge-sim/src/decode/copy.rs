//! Copies that run beside the thread that starts them: `cp.async` and its groups.

use crate::decode::gate;
use crate::decode::memory::{Manner, matrix_access};
use crate::decode::scope::Names;
use crate::decode::words::{Decoded, Unknown, Words};
use crate::form::{Access, AsyncCopy, CopySource, Op, Space, Strength};
use crate::ptx::{Operand, OperandKind, ScalarType};

/// `cp.async`, `cp.async.commit_group`, `cp.async.wait_group` and `cp.async.wait_all`
pub(crate) fn decode(names: &mut Names, mut words: Words, operands: &[Operand], line: u32) -> Decoded<Op> {
    match (words.first()?, words.take("bulk")) {
        ("async", false) => {}
        ("async", true) => return gate::bulk(names, words, operands, line, false),
        ("reduce", true) if words.first()? == "async" => {
            return gate::bulk(names, words, operands, line, true);
        }
        _ => return Err(Unknown),
    }
    if words.take("mbarrier") {
        return gate::arrive_after_copies(names, words, operands, line);
    }
    if words.take("commit_group") {
        words.end()?;
        return if operands.is_empty() { Ok(Op::CopyCommit) } else { Err(Unknown) };
    }
    if words.take("wait_all") {
        words.end()?;
        return if operands.is_empty() { Ok(Op::CopyWait(None)) } else { Err(Unknown) };
    }
    if words.take("wait_group") {
        words.end()?;
        let [Operand { kind: OperandKind::Immediate(number), .. }] = operands else { return Err(Unknown) };
        let most = u32::try_from(number.bits).map_err(|_| Unknown)?;
        return Ok(Op::CopyWait(Some(most)));
    }
    let whole_lines = match words.first()? {
        "ca" => false,
        "cg" => true,
        _ => return Err(Unknown),
    };
    let target_space = words.first()?;
    if !matches!(target_space, "shared" | "shared::cta") || words.first()? != "global" {
        return Err(Unknown);
    }
    let policy = words.take("L2::cache_hint");
    words.take_any(&["L2::64B", "L2::128B", "L2::256B"]);
    words.end()?;
    let operands = if policy { operands.split_last().ok_or(Unknown)?.1 } else { operands };
    let (target, source, bytes, part) = match operands {
        [target, source, bytes] => (target, source, bytes, None),
        [target, source, bytes, part] => (target, source, bytes, Some(part)),
        _ => return Err(Unknown),
    };
    let (OperandKind::Address(target), OperandKind::Address(source), OperandKind::Immediate(bytes)) =
        (&target.kind, &source.kind, &bytes.kind)
    else {
        return Err(Unknown);
    };
    let words = match (bytes.bits, whole_lines) {
        (4, false) => 1,
        (8, false) => 2,
        (16, _) => 4,
        _ => return Err(Unknown),
    };
    let access = |names: &mut Names, address, space| -> Decoded<Access> {
        let manner = Manner::plain(space, Strength::Weak);
        let access = matrix_access(names, address, ScalarType::B32, manner, line)?;
        Ok(Access { count: words, ..access })
    };
    let (target, source) = (access(names, target, Space::Shared)?, access(names, source, Space::Global)?);
    let part = match part {
        None => CopySource::Whole,
        Some(part) => match names.pred(part) {
            // An immediate is a size.
            Ok(ignore) if !matches!(part.kind, OperandKind::Immediate(_)) => CopySource::Unless(ignore),
            _ => CopySource::Bytes(names.source32(part, ScalarType::U32)?),
        },
    };
    names.code.copies = true;
    Ok(Op::AsyncCopy(Box::new(AsyncCopy { target, source, part })))
}
