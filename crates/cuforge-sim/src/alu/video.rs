//! Instructions on the bytes or halves of two words at once (`vabsdiff4` and its like), whole words in and out.

use super::lanes;
use crate::form::Tern32;

/// The function by name, for parts of so many bits: a result for each part, or their sum on top of `c`.
pub(crate) fn simd(name: &str, bits: u32, signed: bool, sum: bool) -> Option<Tern32> {
    macro_rules! instance {
        ($part:expr) => {
            match (bits, signed, sum) {
                (8, false, false) => lanes!(|a, b, _c| each(a, b, 8, false, $part)),
                (8, true, false) => lanes!(|a, b, _c| each(a, b, 8, true, $part)),
                (16, false, false) => lanes!(|a, b, _c| each(a, b, 16, false, $part)),
                (16, true, false) => lanes!(|a, b, _c| each(a, b, 16, true, $part)),
                (8, false, true) => lanes!(|a, b, c| summed(a, b, c, 8, false, $part)),
                (8, true, true) => lanes!(|a, b, c| summed(a, b, c, 8, true, $part)),
                (16, false, true) => lanes!(|a, b, c| summed(a, b, c, 16, false, $part)),
                (16, true, true) => lanes!(|a, b, c| summed(a, b, c, 16, true, $part)),
                _ => return None,
            }
        };
    }
    Some(match name {
        "vabsdiff" => instance!(|a: i32, b: i32| (a - b).abs()),
        "vadd" => instance!(|a: i32, b: i32| a + b),
        "vsub" => instance!(|a: i32, b: i32| a - b),
        "vmin" => instance!(|a: i32, b: i32| a.min(b)),
        "vmax" => instance!(|a: i32, b: i32| a.max(b)),
        _ => return None,
    })
}

fn part(word: u32, at: u32, bits: u32, signed: bool) -> i32 {
    let top = word << (32 - bits - at);
    if signed { top.cast_signed() >> (32 - bits) } else { (top >> (32 - bits)).cast_signed() }
}

#[inline(always)]
fn each(a: u32, b: u32, bits: u32, signed: bool, f: impl Fn(i32, i32) -> i32) -> u32 {
    let one = |at: u32| {
        let value = f(part(a, at, bits, signed), part(b, at, bits, signed));
        (value.cast_unsigned() & (u32::MAX >> (32 - bits))) << at
    };
    (0..32).step_by(bits as usize).fold(0, |word, at| word | one(at))
}

#[inline(always)]
fn summed(a: u32, b: u32, c: u32, bits: u32, signed: bool, f: impl Fn(i32, i32) -> i32) -> u32 {
    let parts = (0..32).step_by(bits as usize);
    let values = parts.map(|at| f(part(a, at, bits, signed), part(b, at, bits, signed)).cast_unsigned());
    values.fold(c, u32::wrapping_add)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(f: Tern32, a: u32, b: u32, c: u32) -> u32 {
        let mut out = [0; 32];
        f(&[a; 32], &[b; 32], &[c; 32], &mut out);
        out[0]
    }

    #[test]
    fn parts_do_not_touch_each_other() {
        let bytes = simd("vabsdiff", 8, false, false).unwrap();
        assert_eq!(run(bytes, 0x01_ff_80_00, 0x02_00_7f_ff, 9), 0x01_ff_01_ff);
        let sum = simd("vabsdiff", 8, false, true).unwrap();
        assert_eq!(run(sum, 0x01_ff_80_00, 0x02_00_7f_ff, 9), 9 + 1 + 255 + 1 + 255);
        let halves = simd("vadd", 16, true, false).unwrap();
        assert_eq!(run(halves, 0xffff_7fff, 0x0001_0001, 0), 0x0000_8000);
    }
}
