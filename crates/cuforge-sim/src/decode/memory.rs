//! Loads, stores, atomics and what only hints at memory.

use crate::alu::atomic;
use crate::decode::scope::{Names, Variable};
use crate::decode::words::{Decoded, Unknown, Words, is_signed};
use crate::form::{
    Access, AddressBase, Atomic, AtomicKind, Load, LoadTarget, Op, PairAtomic, Reg, Space, Store, Strength,
};
use crate::ptx::{Address, Operand, OperandKind, ScalarType};

/// `ld` and `ldu`
pub(crate) fn load(names: &mut Names, mut words: Words, operands: &[Operand], line: u32) -> Decoded<Op> {
    let ty = memory_type(words.last()?)?;
    let manner = Manner::take(&mut words)?;
    let [d, address] = operands else { return Err(Unknown) };
    let targets = elements(d);
    if targets.len() != manner.count as usize {
        return Err(Unknown);
    }
    let mut list = Vec::with_capacity(targets.len());
    for target in targets {
        let reg = names.optional_target(target)?.map(|(reg, _)| reg);
        if matches!(reg, Some(Reg::Narrow(_))) && ty.size_bytes() > 4 {
            return Err(Unknown);
        }
        list.push(LoadTarget { reg, signed: is_signed(ty) });
    }
    let OperandKind::Address(address) = &address.kind else { return Err(Unknown) };
    let (access, variable) = access(names, address, ty, manner, line)?;
    if let Some(Variable::Param { .. }) = variable {
        let end = access.offset + i64::from(access.bytes());
        let inside = access.offset >= 0 && end <= i64::from(names.code.param_bytes);
        if inside && access.offset % i64::from(access.bytes()) == 0 {
            return Ok(Op::LoadParam(access.offset as u32, list, access.element_bytes));
        }
    }
    Ok(Op::Load(Box::new(Load { access, targets: list })))
}

/// `st`
pub(crate) fn store(names: &mut Names, mut words: Words, operands: &[Operand], line: u32) -> Decoded<Op> {
    let ty = memory_type(words.last()?)?;
    let manner = Manner::take(&mut words)?;
    let [address, value] = operands else { return Err(Unknown) };
    let values = elements(value);
    if values.len() != manner.count as usize {
        return Err(Unknown);
    }
    let mut sources = Vec::with_capacity(values.len());
    for value in values {
        let reg = names.source(value, ty)?;
        if matches!(reg, Reg::Narrow(_)) && ty.size_bytes() > 4 {
            return Err(Unknown);
        }
        sources.push(reg);
    }
    let OperandKind::Address(address) = &address.kind else { return Err(Unknown) };
    let (access, _) = access(names, address, ty, manner, line)?;
    Ok(Op::Store(Box::new(Store { access, sources })))
}

/// `atom` and `red`
pub(crate) fn atomic(names: &mut Names, mut words: Words, operands: &[Operand], line: u32) -> Decoded<Op> {
    let ty_name = words.last()?;
    let ty = ScalarType::from_name(ty_name).ok_or(Unknown)?;
    words.take("noftz");
    // Compilers write it before or behind the scope.
    let op = words.take_any(&ATOMICS).ok_or(Unknown)?;
    let manner = Manner::take(&mut words)?;
    if ty == ScalarType::B128 && words.opcode == "atom" {
        return pair_atomic(names, operands, op, manner, line);
    }
    if manner.count != 1 {
        return vector_atomic(names, operands, (words.opcode, op, ty_name), manner, line);
    }
    let kind = atomic::kind(op, ty_name, false).ok_or(Unknown)?;
    let shared_kind = atomic::kind(op, ty_name, true).ok_or(Unknown)?;
    let (target, rest) = match (words.opcode, operands) {
        ("atom", [target, rest @ ..]) => (names.optional_target(target)?.map(|(reg, _)| reg), rest),
        ("red", rest) => (None, rest),
        _ => return Err(Unknown),
    };
    let (address, b, c) = match (kind, rest) {
        (AtomicKind::Cas, [address, b, c]) => (address, names.source(b, ty)?, Some(names.source(c, ty)?)),
        (AtomicKind::Cas, _) => return Err(Unknown),
        (_, [address, b]) => (address, names.source(b, ty)?, None),
        _ => return Err(Unknown),
    };
    let OperandKind::Address(address) = &address.kind else { return Err(Unknown) };
    let manner = Manner { strength: Strength::Strong, ..manner };
    let (access, _) = access(names, address, ty, manner, line)?;
    if !matches!(access.space, Space::Global | Space::Shared | Space::Cluster | Space::Generic) {
        return Err(Unknown);
    }
    Ok(Op::Atomic(Box::new(Atomic { access, kind, shared_kind, target, b, c, replaces: op == "exch" })))
}

/// What atomics do.
const ATOMICS: [&str; 10] = ["add", "min", "max", "inc", "dec", "and", "or", "xor", "exch", "cas"];

/// `atom` on 128 bits.
fn pair_atomic(names: &mut Names, operands: &[Operand], op: &str, manner: Manner, line: u32) -> Decoded<Op> {
    let (target, address, b, c) = match (op, operands) {
        ("exch", [target, address, b]) => (target, address, b, None),
        ("cas", [target, address, b, c]) => (target, address, b, Some(c)),
        _ => return Err(Unknown),
    };
    let OperandKind::Address(address) = &address.kind else { return Err(Unknown) };
    if manner.count != 1 {
        return Err(Unknown);
    }
    let manner = Manner { strength: Strength::Strong, count: 2, ..manner };
    let (access, _) = access(names, address, ScalarType::B64, manner, line)?;
    let mut pair = |operand| names.pair(operand).map(|(low, high)| [low, high]);
    let target = if matches!(target.kind, OperandKind::Sink) { None } else { Some(pair(target)?) };
    let (b, c) = (pair(b)?, c.map(&mut pair).transpose()?);
    if !matches!(access.space, Space::Global | Space::Shared | Space::Cluster | Space::Generic) {
        return Err(Unknown);
    }
    Ok(Op::PairAtomic(Box::new(PairAtomic { access, target, b, c })))
}

/// `atom` or `red` on each element of a vector in global memory: one atomic after the other, as no order holds among them.
fn vector_atomic(
    names: &mut Names,
    operands: &[Operand],
    (opcode, op, ty_name): (&str, &str, &str),
    manner: Manner,
    line: u32,
) -> Decoded<Op> {
    let ty = ScalarType::from_name(ty_name).ok_or(Unknown)?;
    let (targets, address, values) = match (opcode, operands) {
        ("atom", [targets, address, values]) => (Some(elements(targets)), address, elements(values)),
        ("red", [address, values]) => (None, address, elements(values)),
        _ => return Err(Unknown),
    };
    let known = match ty {
        ScalarType::F32 => op == "add" && manner.count <= 4,
        ScalarType::F16 | ScalarType::Bf16 => matches!(op, "add" | "min" | "max"),
        ScalarType::F16x2 | ScalarType::Bf16x2 => matches!(op, "add" | "min" | "max") && manner.count <= 4,
        _ => false,
    };
    let count = manner.count as usize;
    if !known || values.len() != count || targets.as_ref().is_some_and(|targets| targets.len() != count) {
        return Err(Unknown);
    }
    let OperandKind::Address(address) = &address.kind else { return Err(Unknown) };
    let kind = atomic::kind(op, ty_name, false).ok_or(Unknown)?;
    let manner = Manner { strength: Strength::Strong, ..manner };
    let (whole, _) = access(names, address, ty, manner, line)?;
    if !matches!(whole.space, Space::Global | Space::Generic) {
        return Err(Unknown);
    }
    let mut list = Vec::with_capacity(count);
    for (index, value) in values.into_iter().enumerate() {
        let target = match &targets {
            Some(targets) => names.optional_target(targets[index])?.map(|(reg, _)| reg),
            None => None,
        };
        let offset = whole.offset + index as i64 * i64::from(whole.element_bytes);
        let access = Access { count: 1, offset, ..whole };
        let b = names.source(value, ty)?;
        list.push(Atomic { access, kind, shared_kind: kind, target, b, c: None, replaces: false });
    }
    Ok(Op::VectorAtomic(Box::new(whole), list))
}

/// `membar` and `fence`: memory is always consistent here, but blocks may rely on order now.
pub(crate) fn fence(names: &mut Names, mut words: Words, operands: &[Operand]) -> Decoded<Op> {
    // Copies beside threads are ordered by how they complete.
    if words.take("proxy") {
        return proxy_fence(words, operands);
    }
    words.take("mbarrier_init");
    words.take_any(&["sc", "acq_rel", "acquire", "release"]);
    let scope = words.take_any(&["cta", "cluster", "gl", "gpu", "sys"]).ok_or(Unknown)?;
    words.end()?;
    if !operands.is_empty() {
        return Err(Unknown);
    }
    if scope == "cta" {
        names.code.synchronizes_block = true;
        return Ok(Op::Nop);
    }
    names.code.communicates = true;
    names.code.synchronizes = true;
    Ok(Op::Fence)
}

/// `fence.proxy.async`: what threads and copies beside them do is in one order here.
fn proxy_fence(mut words: Words, operands: &[Operand]) -> Decoded<Op> {
    if !words.take("async") {
        return Err(Unknown);
    }
    words.skip(|word| matches!(word, "global" | "shared::cta" | "shared::cluster"));
    words.end()?;
    if operands.is_empty() { Ok(Op::Nop) } else { Err(Unknown) }
}

/// What an access says beside its type.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Manner {
    space: Option<Space>,
    strength: Strength,
    /// Whether it orders other accesses, for threads beyond the block.
    acquire: bool,
    release: bool,
    /// Whether it does so within the block only.
    in_block: bool,
    count: u32,
}

impl Manner {
    /// An access of one element to a space that the instruction names itself.
    pub(crate) fn plain(space: Space, strength: Strength) -> Self {
        Self { space: Some(space), strength, acquire: false, release: false, in_block: false, count: 1 }
    }

    /// Takes all words about it; none may be left.
    pub(crate) fn take(words: &mut Words) -> Decoded<Self> {
        let order = words.take_any(&["acquire", "release", "acq_rel"]);
        let wide = words.take_any(&["cta", "cluster", "gpu", "sys"]) != Some("cta");
        let acquire = wide && matches!(order, Some("acquire" | "acq_rel"));
        let release = wide && matches!(order, Some("release" | "acq_rel"));
        let in_block = order.is_some() && !wide;
        let strong = order.is_some() || words.take_any(&["volatile", "relaxed", "mmio"]).is_some();
        let strength = if strong { Strength::Strong } else { Strength::Weak };
        let space = words.take_any(&[
            "global",
            "shared",
            "shared::cta",
            "shared::cluster",
            "local",
            "param",
            "param::entry",
            "param::func",
            "const",
        ]);
        let space = space.map(|name| match name {
            "global" | "const" => Space::Global,
            "local" => Space::Local,
            "shared" | "shared::cta" => Space::Shared,
            "shared::cluster" => Space::Cluster,
            _ => Space::Param,
        });
        let count = match words.take_any(&["v2", "v4", "v8"]) {
            None => 1,
            Some("v2") => 2,
            Some("v4") => 4,
            Some(_) => 8,
        };
        words.skip(|word| {
            matches!(word, "weak" | "nc" | "unified")
                || matches!(word, "ca" | "cg" | "cs" | "lu" | "cv" | "wb" | "wt")
                || word.strip_prefix("L1::").or_else(|| word.strip_prefix("L2::")).is_some_and(is_hint)
        });
        words.end()?;
        Ok(Self { space, strength, acquire, release, in_block, count })
    }
}

/// What follows `L1::` or `L2::` where it changes nothing that a program can see.
fn is_hint(word: &str) -> bool {
    matches!(word, "evict_normal" | "evict_unchanged" | "evict_first" | "evict_last" | "no_allocate")
        || matches!(word, "64B" | "128B" | "256B")
}

/// A type in memory, as which any of that size will do.
fn memory_type(name: &str) -> Decoded<ScalarType> {
    let ty = ScalarType::from_name(name).ok_or(Unknown)?;
    if matches!(ty.size_bytes(), 1 | 2 | 4 | 8) && ty != ScalarType::Pred { Ok(ty) } else { Err(Unknown) }
}

/// The access of one element of a matrix in memory, at the place where the matrix starts.
pub(crate) fn matrix_access(
    names: &mut Names,
    address: &Address,
    ty: ScalarType,
    manner: Manner,
    line: u32,
) -> Decoded<Access> {
    if manner.count != 1 {
        return Err(Unknown);
    }
    Ok(access(names, address, ty, manner, line)?.0)
}

fn elements(operand: &Operand) -> Vec<&Operand> {
    match &operand.kind {
        OperandKind::Vector(parts) => parts.iter().collect(),
        _ => vec![operand],
    }
}

fn access(
    names: &mut Names,
    address: &Address,
    ty: ScalarType,
    manner: Manner,
    line: u32,
) -> Decoded<(Access, Option<Variable>)> {
    let (base, offset, variable) = names.address(address)?;
    let space = match (manner.space.unwrap_or(Space::Generic), variable) {
        // A symbol names its space, even in a generic access.
        (Space::Generic, Some(Variable::Shared { .. })) => Space::Shared,
        (Space::Generic, Some(Variable::Local { param: false, .. })) => Space::Local,
        (Space::Generic, Some(Variable::Module { .. })) => Space::Global,
        (Space::Generic, Some(_)) => return Err(Unknown),
        (Space::Param, Some(Variable::Local { param: true, .. })) => Space::Local,
        (Space::Param, None) if names.in_function => Space::Local,
        (Space::Param, Some(Variable::Param { .. })) => Space::Param,
        (Space::Shared | Space::Cluster, Some(Variable::Shared { .. })) => Space::Shared,
        (Space::Local, Some(Variable::Local { param: false, .. })) => Space::Local,
        (Space::Global, Some(Variable::Module { .. })) => Space::Global,
        (space, None) => space,
        _ => return Err(Unknown),
    };
    let element_bytes = ty.size_bytes();
    let granule = element_bytes.min(4).trailing_zeros();
    let mut site = 0;
    if matches!(space, Space::Global | Space::Generic) {
        let code = &mut names.code;
        code.global_granule_log2 = code.global_granule_log2.min(granule);
        site = code.global_sites.len() as u32;
        code.global_sites.push(line);
        code.communicates |= manner.strength == Strength::Strong;
        code.synchronizes |= manner.acquire || manner.release;
    }
    names.code.synchronizes_block |= manner.in_block;
    if matches!(space, Space::Shared | Space::Cluster | Space::Generic) {
        names.code.shared_granule_log2 = names.code.shared_granule_log2.min(granule);
    }
    let base = match base {
        // Shared, local and parameter addresses are small; a 64-bit base of theirs is read as it is.
        AddressBase::Narrow(_) if matches!(space, Space::Global | Space::Generic) => return Err(Unknown),
        base => base,
    };
    let count = manner.count;
    let Manner { strength, acquire, release, .. } = manner;
    Ok((Access { space, base, offset, element_bytes, count, strength, acquire, release, site }, variable))
}
