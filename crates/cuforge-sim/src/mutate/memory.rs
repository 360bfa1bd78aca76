//! Mutants of loads, stores, barriers, fences and addresses.

use super::operator::Operator;
use super::site::Site;
use crate::ptx::{AddressBase, OperandKind, Span};

const STORES: &[&str] = &["st", "red", "stmatrix", "sust", "sured"];

pub(super) fn mutants(site: &mut Site<'_>) {
    dropped(site);
    zeroed(site);
    shifted(site);
}

fn dropped(site: &mut Site<'_>) {
    let opcode = site.instruction.opcode();
    match opcode {
        // Arguments and results of calls are no stores of the kernel's.
        _ if site.has("param") && !site.has("shared::cluster") => {}
        _ if STORES.contains(&opcode) => site.drop_whole(Operator::DropStore),
        "wmma" if site.has("store") => site.drop_whole(Operator::DropStore),
        "cp" if is_copy(site) => site.drop_whole(Operator::DropStore),
        "atom" if result_is_unread(site) => site.drop_whole(Operator::DropStore),
        "bar" | "barrier" if !site.has("red") => site.drop_whole(Operator::DropBarrier),
        "membar" | "fence" => site.drop_whole(Operator::DropFence),
        "cp" if site.has_any(&["wait_group", "wait_all"]) => site.drop_whole(Operator::DropWait),
        _ => {}
    }
}

fn is_copy(site: &Site<'_>) -> bool {
    site.has("async") && site.address().is_some() && !site.has("mbarrier")
}

fn result_is_unread(site: &Site<'_>) -> bool {
    match site.operand(0).map(|operand| &operand.kind) {
        Some(OperandKind::Sink) => true,
        Some(OperandKind::Register { name, .. }) => site.uses.get(name).copied().unwrap_or(0) < 2,
        _ => false,
    }
}

fn zeroed(site: &mut Site<'_>) {
    let bits = Site::bits_of(site.ty());
    let plain = site.instruction.opcode() == "ld" && !site.has("param") && (bits == 32 || bits == 64);
    let Some(result) = site.operand(0).filter(|_| plain) else { return };
    // A load may fill a wider register than it reads; then the move's type would not fit.
    if matches!(result.kind, OperandKind::Register { .. }) {
        let text = format!("mov.{} {}, {};", site.ty(), site.text(result.span), zero(site.ty()));
        site.rewrite(Operator::ZeroLoad, &text);
    }
}

/// Zero as a literal of that type.
pub(super) fn zero(ty: &str) -> &'static str {
    match ty {
        "f32" => "0f00000000",
        "f64" => "0d0000000000000000",
        _ => "0",
    }
}

fn shifted(site: &mut Site<'_>) {
    let bytes = match site.instruction.opcode() {
        "ld" | "ldu" | "st" | "atom" | "red" if !site.has("param") => site.access_bytes(),
        "ldmatrix" | "stmatrix" => Some(16),
        "wmma" if site.has_any(&["load", "store"]) => Some(32),
        "cp" if is_copy(site) && !site.has("bulk") => Some(16),
        _ => None,
    };
    let Some((bytes, (operand, address))) = bytes.zip(site.address()) else { return };
    if !address.coordinates.is_empty() || address.base == AddressBase::Absolute {
        return;
    }
    let bytes = i64::from(bytes);
    match address.offset_span {
        None => {
            let end = operand.span.end - 1;
            let column = operand.span.column + (end - operand.span.start);
            let place = Span { start: end, end, line: operand.span.line, column };
            site.replace(Operator::ShiftOffset, place, &format!("+{bytes}"));
        }
        Some(span) => {
            for offset in [address.offset.wrapping_add(bytes), address.offset.wrapping_sub(bytes)] {
                site.replace(Operator::ShiftOffset, span, &format!("+{offset}"));
            }
        }
    }
}
