//! Arithmetic over lanes: for each operation and type, the function that a decoded instruction runs.

pub(crate) mod atomic;
pub(crate) mod bits;
pub(crate) mod compare;
pub(crate) mod conversion;
pub(crate) mod convert;
pub(crate) mod double;
pub(crate) mod integer;
pub(crate) mod narrow;
pub(crate) mod single;
pub(crate) mod small;
pub(crate) mod video;
pub(crate) mod wide;

/// A function over one, two or three arrays of lanes, from one over values.
macro_rules! lanes {
    (|$a:ident| $body:expr) => {
        |$a, out| $crate::lanes::map1($a, out, |$a| $body)
    };
    (|$a:ident, $b:ident| $body:expr) => {
        |$a, $b, out| $crate::lanes::map2($a, $b, out, |$a, $b| $body)
    };
    (|$a:ident, $b:ident, $c:ident| $body:expr) => {
        |$a, $b, $c, out| $crate::lanes::map3($a, $b, $c, out, |$a, $b, $c| $body)
    };
}
pub(crate) use lanes;

/// The low 16 bits as a signed number.
#[inline(always)]
pub(crate) fn s16(bits: u32) -> i32 {
    i32::from(bits as u16 as i16)
}

/// The low 16 bits.
#[inline(always)]
pub(crate) fn u16(bits: u32) -> u32 {
    bits & 0xffff
}

/// The bits as a signed number.
#[inline(always)]
pub(crate) fn s32(bits: u32) -> i32 {
    bits.cast_signed()
}
