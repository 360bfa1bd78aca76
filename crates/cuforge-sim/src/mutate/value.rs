//! Mutants of constants and of the special registers that indices are made of.

use super::operator::Operator;
use super::site::Site;
use crate::ptx::{Number, NumberKind, OperandKind};

pub(super) fn mutants(site: &mut Site<'_>) {
    constants(site);
    axes(site);
}

/// Opcodes whose immediates are data. In others they are lane masks, barrier numbers, sizes or selectors of forms.
const WITH_DATA: &[&str] = &[
    "mov", "add", "sub", "addc", "subc", "mul", "mad", "madc", "mul24", "mad24", "fma", "div", "rem", "min",
    "max", "and", "or", "xor", "shl", "shr", "shf", "setp", "set", "selp", "st", "prmt", "lop3", "bfe",
    "bfi", "dp4a", "dp2a", "sad", "copysign", "ex2", "slct",
];

fn constants(site: &mut Site<'_>) {
    let opcode = site.instruction.opcode();
    if site.has("param") {
        return;
    }
    for (index, operand) in site.instruction.operands.iter().enumerate() {
        let data = match opcode {
            "shfl" => index == 2,
            "atom" | "red" => index > 0,
            _ => WITH_DATA.contains(&opcode),
        };
        let parts = match &operand.kind {
            OperandKind::Vector(elements) => &elements[..],
            _ => std::slice::from_ref(operand),
        };
        for part in parts.iter().filter(|_| data) {
            if let OperandKind::Immediate(number) = &part.kind {
                let ty = operand_type(site, index);
                if let Some(text) = changed(number, ty) {
                    site.replace(Operator::ChangeConstant, part.span, &text);
                }
            }
        }
    }
}

/// The type that an operand's value must fit.
fn operand_type<'a>(site: &Site<'a>, index: usize) -> &'a str {
    match (site.instruction.opcode(), index) {
        ("shl" | "shr", 2) | ("bfe", 2..) | ("bfi", 3..) | ("shfl", _) => "u32",
        ("shf", 3) => "u32",
        ("lop3", 4) => "b8",
        _ => site.ty(),
    }
}

/// Another constant of the same type; `None` if the type says nothing about its values.
fn changed(number: &Number, ty: &str) -> Option<String> {
    match number.kind {
        NumberKind::F32 => {
            let value = changed_float(f64::from(f32::from_bits(number.bits as u32))) as f32;
            Some(format!("0f{:08X}", value.to_bits()))
        }
        NumberKind::F64 if ty == "f32" => {
            Some(format!("0f{:08X}", (changed_float(number.as_f64()) as f32).to_bits()))
        }
        NumberKind::F64 => Some(format!("0d{:016X}", changed_float(number.as_f64()).to_bits())),
        NumberKind::Signed | NumberKind::Unsigned if ty == "pred" => {
            Some(if number.bits == 0 { "-1".to_owned() } else { "0".to_owned() })
        }
        NumberKind::Signed | NumberKind::Unsigned => changed_integer(number, ty),
    }
}

fn changed_float(value: f64) -> f64 {
    if value == 0.0 {
        1.0
    } else if value.is_finite() {
        value * 1.5
    } else {
        0.0
    }
}

fn changed_integer(number: &Number, ty: &str) -> Option<String> {
    let bits = Site::bits_of(ty);
    if bits == 0 || bits > 64 {
        return None;
    }
    let value = match number.kind {
        NumberKind::Signed => i128::from(number.bits.cast_signed()),
        _ => i128::from(number.bits),
    };
    // The bytes of a packed or float type have no neighbour; one more in the lowest place still is a change.
    let largest = if ty.starts_with('s') { (1_i128 << (bits - 1)) - 1 } else { (1_i128 << bits) - 1 };
    Some(if value < largest { value + 1 } else { value - 1 }.to_string())
}

fn axes(site: &mut Site<'_>) {
    for operand in &site.instruction.operands {
        if let OperandKind::Register { name, component: Some(component) } = &operand.kind
            && matches!(name.as_str(), "%tid" | "%ctaid" | "%ntid" | "%nctaid")
        {
            let other = if component == "x" { "y" } else { "x" };
            site.replace(Operator::SwapAxis, operand.span, &format!("{name}.{other}"));
        }
    }
}
