//! What atomics do to the word they hit.

use super::narrow::atomic_add;
use crate::float::single::{canonical, flush};
use crate::float::wide::settle;
use crate::form::AtomicKind;

/// The change by operation and type name. Additions of floats differ by space, as on the device.
pub(crate) fn kind(op: &str, ty: &str, shared: bool) -> Option<AtomicKind> {
    use AtomicKind::{Narrow, Wide};
    Some(match (op, ty) {
        ("and", "b32") => Narrow(|old, b| old & b),
        ("or", "b32") => Narrow(|old, b| old | b),
        ("xor", "b32") => Narrow(|old, b| old ^ b),
        ("exch", "b32") => Narrow(|_, b| b),
        ("add", "u32" | "s32") => Narrow(u32::wrapping_add),
        ("inc", "u32") => Narrow(|old, b| if old >= b { 0 } else { old + 1 }),
        ("dec", "u32") => Narrow(|old, b| if old == 0 || old > b { b } else { old - 1 }),
        ("min", "u32") => Narrow(u32::min),
        ("max", "u32") => Narrow(u32::max),
        ("min", "s32") => Narrow(|old, b| old.cast_signed().min(b.cast_signed()).cast_unsigned()),
        ("max", "s32") => Narrow(|old, b| old.cast_signed().max(b.cast_signed()).cast_unsigned()),
        ("add", "f32") if shared => Narrow(|old, b| canonical(f32::from_bits(old) + f32::from_bits(b))),
        // In global memory subnormals are flushed.
        ("add", "f32") => Narrow(|old, b| {
            let sum = flush(f32::from_bits(old)) + flush(f32::from_bits(b));
            canonical(flush(sum))
        }),
        ("add", "f16") => Narrow(atomic_add(false, false)),
        ("add", "bf16") => Narrow(atomic_add(true, false)),
        ("add", "f16x2") => Narrow(atomic_add(false, true)),
        ("add", "bf16x2") => Narrow(atomic_add(true, true)),
        ("and", "b64") => Wide(|old, b| old & b),
        ("or", "b64") => Wide(|old, b| old | b),
        ("xor", "b64") => Wide(|old, b| old ^ b),
        ("exch", "b64") => Wide(|_, b| b),
        ("add", "u64" | "s64") => Wide(u64::wrapping_add),
        ("min", "u64") => Wide(u64::min),
        ("max", "u64") => Wide(u64::max),
        ("min", "s64") => Wide(|old, b| old.cast_signed().min(b.cast_signed()).cast_unsigned()),
        ("max", "s64") => Wide(|old, b| old.cast_signed().max(b.cast_signed()).cast_unsigned()),
        ("add", "f64") if shared => Wide(|old, b| {
            let (x, y) = (f64::from_bits(old), f64::from_bits(b));
            settle(x + y, [x, y, y]).to_bits()
        }),
        // In global memory a NaN goes through as it is.
        ("add", "f64") => Wide(|old, b| {
            let (x, y) = (f64::from_bits(old), f64::from_bits(b));
            let nan = [b, old].into_iter().find(|bits| f64::from_bits(*bits).is_nan());
            nan.unwrap_or_else(|| settle(x + y, [x, y, y]).to_bits())
        }),
        ("cas", "b16" | "b32" | "b64") => AtomicKind::Cas,
        _ => return None,
    })
}
