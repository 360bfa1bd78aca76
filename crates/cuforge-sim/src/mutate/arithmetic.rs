//! Mutants of operations, their operand order, their rounding and their sums.

use super::operator::Operator;
use super::site::Site;
use crate::ptx::{OperandKind, ScalarType};

pub(super) fn mutants(site: &mut Site<'_>) {
    swapped(site);
    elements(site);
    rounded(site);
    approximated(site);
    unaccumulated(site);
    replaced(site);
}

/// The two operands whose exchange keeps the instruction valid and changes what it means.
fn ordered_pair(site: &Site<'_>) -> Option<(usize, usize)> {
    let wide = site.has("wide");
    match site.instruction.opcode() {
        "sub" | "div" | "rem" | "subc" | "copysign" | "setp" | "set" | "selp" | "prmt" | "shf" => {
            Some((1, 2))
        }
        "shl" | "shr" if Site::bits_of(site.ty()) == 32 => Some((1, 2)),
        "fma" | "mad" | "madc" if !wide => Some((2, 3)),
        "bfe" => Some((2, 3)),
        "bfi" => Some((3, 4)),
        "atom" if site.has("cas") => Some((2, 3)),
        _ => None,
    }
}

fn swapped(site: &mut Site<'_>) {
    let Some((first, second)) = ordered_pair(site) else { return };
    let Some((first, second)) = site.operand(first).zip(site.operand(second)) else { return };
    // In `setp.eq` and `setp.ne` the order does not matter.
    let symmetric = matches!(site.instruction.opcode(), "setp" | "set")
        && site.has_any(&["eq", "ne", "equ", "neu", "num", "nan"]);
    if !symmetric {
        site.swap(Operator::SwapOperands, first.span, second.span);
    }
}

fn elements(site: &mut Site<'_>) {
    if !matches!(site.instruction.opcode(), "ld" | "st" | "mov" | "ldmatrix" | "ldu") {
        return;
    }
    for operand in &site.instruction.operands {
        if let OperandKind::Vector(elements) = &operand.kind
            && let [first, second, ..] = &elements[..]
        {
            site.swap(Operator::SwapElements, first.span, second.span);
        }
    }
}

const ROUNDINGS: &[(&str, &str)] = &[
    ("rn", "rz"),
    ("rz", "rn"),
    ("rm", "rp"),
    ("rp", "rm"),
    ("rni", "rzi"),
    ("rzi", "rni"),
    ("rmi", "rpi"),
    ("rpi", "rmi"),
];

fn rounded(site: &mut Site<'_>) {
    let ty = site.ty();
    let full = matches!(ty, "f32" | "f64" | "f32x2");
    let opcode = site.instruction.opcode();
    let may_round = match opcode {
        "add" | "sub" | "mul" | "fma" | "mad" | "div" | "rcp" | "sqrt" => full,
        // Eight-bit and narrower floats, tf32, and what saturates to them know one rounding only.
        "cvt" => {
            let known = |modifier: &str| ScalarType::from_name(modifier).is_some();
            site.instruction.mnemonic.modifiers().filter(|modifier| known(modifier)).count() == 2
                && !site.has_any(&["satfinite", "bf16", "bf16x2"])
        }
        _ => false,
    };
    if !may_round {
        return;
    }
    let now = site.instruction.mnemonic.modifiers().enumerate().find_map(|(index, modifier)| {
        let (_, other) = ROUNDINGS.iter().find(|(name, _)| *name == modifier)?;
        Some((index, *other))
    });
    match now {
        Some((index, other)) => site.replace_modifier(Operator::ChangeRounding, index, other),
        None if matches!(opcode, "add" | "sub" | "mul") => {
            site.replace_opcode(Operator::ChangeRounding, &format!("{opcode}.rz"));
        }
        None => {}
    }
}

fn approximated(site: &mut Site<'_>) {
    let exact = matches!(site.instruction.opcode(), "div" | "rcp" | "sqrt") && site.ty() == "f32";
    let index = site.instruction.mnemonic.modifiers().position(|m| matches!(m, "rn" | "rz" | "rm" | "rp"));
    if let Some(index) = index.filter(|_| exact) {
        site.replace_modifier(Operator::Approximate, index, "approx");
    }
}

fn unaccumulated(site: &mut Site<'_>) {
    let operand = |index: usize| site.operand(index).map(|operand| site.text(operand.span));
    let (Some(d), Some(a), Some(b)) = (operand(0), operand(1), operand(2)) else { return };
    let (opcode, ty, text) = (site.instruction.opcode(), site.ty(), &site.instruction.mnemonic.text);
    let rest = text.get(opcode.len()..).unwrap_or_default();
    let carries = site.has("cc");
    match opcode {
        "fma" | "mad" if !carries && !site.has_any(&["bf16", "bf16x2", "relu", "oob", "sat"]) => {
            site.rewrite(Operator::DropAccumulation, &format!("mul{rest} {d}, {a}, {b};"));
        }
        "dp4a" | "dp2a" => site.rewrite(Operator::DropAccumulation, &format!("{text} {d}, {a}, {b}, 0;")),
        "add" | "sub" if !carries && site.instruction.operands.len() == 3 => {
            let whole = matches!(ty, "s64" | "u64" | "s32" | "u32" | "s16" | "u16" | "f32" | "f64");
            let packed = match ty {
                "f16" | "bf16" => Some("b16"),
                "f16x2" | "bf16x2" | "s16x2" | "u16x2" => Some("b32"),
                _ => None,
            };
            if let Some(moved) = packed.or(whole.then_some(ty)) {
                site.rewrite(Operator::DropTerm, &format!("mov.{moved} {d}, {a};"));
            }
        }
        _ => {}
    }
}

fn replaced(site: &mut Site<'_>) {
    let opcode = site.instruction.opcode();
    let carries = site.has("cc");
    match opcode {
        "min" => site.replace_opcode(Operator::SwapExtremum, "max"),
        "max" => site.replace_opcode(Operator::SwapExtremum, "min"),
        "atom" | "red" | "redux" | "multimem" => {
            let other = |modifier: &str| match modifier {
                "min" => Some((Operator::SwapExtremum, "max")),
                "max" => Some((Operator::SwapExtremum, "min")),
                "and" => Some((Operator::ChangeOperation, "or")),
                "or" => Some((Operator::ChangeOperation, "and")),
                _ => None,
            };
            let change = site
                .instruction
                .mnemonic
                .modifiers()
                .enumerate()
                .find_map(|(index, m)| Some((index, other(m)?)));
            if let Some((index, (operator, modifier))) = change {
                site.replace_modifier(operator, index, modifier);
            }
        }
        // Packed 16-bit integers can be added and not subtracted.
        "add" if !carries && !site.has_any(&["s16x2", "u16x2"]) => {
            site.replace_opcode(Operator::ChangeOperation, "sub");
        }
        "sub" if !carries => site.replace_opcode(Operator::ChangeOperation, "add"),
        "mul" if !site.has_any(&["wide", "hi"]) => {
            let text = site.instruction.mnemonic.text.replacen("mul.lo", "mul", 1);
            site.rename(Operator::ChangeOperation, &text.replacen("mul", "add", 1));
        }
        "and" => site.replace_opcode(Operator::ChangeOperation, "or"),
        "or" | "xor" => site.replace_opcode(Operator::ChangeOperation, "and"),
        "shl" => site.replace_opcode(Operator::ChangeOperation, "shr"),
        "shr" => {
            // A left shift is written with an untyped width.
            let bits = Site::bits_of(site.ty());
            site.rename(Operator::ChangeOperation, &format!("shl.b{bits}"));
        }
        _ => {}
    }
}
