//! Reads the numbers PTX knows: decimal, hexadecimal, octal and binary integers, and floats by digits or bits.

use crate::ptx::NumberKind;

/// A literal's bits and kind, or what is wrong with it.
pub(super) fn read(text: &str) -> Result<(u64, NumberKind), &'static str> {
    let bytes = text.as_bytes();
    match (bytes.first(), bytes.get(1)) {
        (Some(b'0'), Some(b'f' | b'F')) => {
            float_bits(text, 8, "it needs eight hexadecimal digits after `0f`")
                .map(|bits| (bits, NumberKind::F32))
        }
        (Some(b'0'), Some(b'd' | b'D')) => {
            float_bits(text, 16, "it needs sixteen hexadecimal digits after `0d`")
                .map(|bits| (bits, NumberKind::F64))
        }
        (Some(b'0'), Some(b'x' | b'X')) => {
            integer(text, 2, 16, "a hexadecimal integer has digits 0 to f only")
        }
        (Some(b'0'), Some(b'b' | b'B')) => integer(text, 2, 2, "a binary integer has digits 0 and 1 only"),
        (Some(b'0'), Some(b'0'..=b'9')) if !is_float(text) => {
            integer(text, 1, 8, "an integer that starts with 0 is octal and has digits 0 to 7 only")
        }
        _ if is_float(text) => decimal_float(text),
        _ => integer(text, 0, 10, "a decimal integer has digits 0 to 9 only"),
    }
}

fn is_float(text: &str) -> bool {
    text.bytes().any(|byte| matches!(byte, b'.' | b'e' | b'E'))
}

fn float_bits(text: &str, digits: usize, problem: &'static str) -> Result<u64, &'static str> {
    match text.get(2..) {
        Some(hex) if hex.len() == digits => u64::from_str_radix(hex, 16).map_err(|_| problem),
        _ => Err(problem),
    }
}

fn decimal_float(text: &str) -> Result<(u64, NumberKind), &'static str> {
    let value: f64 =
        text.parse().map_err(|_| "a decimal float is digits, a point, digits and an exponent")?;
    if value.is_finite() {
        Ok((value.to_bits(), NumberKind::F64))
    } else {
        Err("it is beyond the largest double")
    }
}

fn integer(
    text: &str,
    skip: usize,
    radix: u32,
    problem: &'static str,
) -> Result<(u64, NumberKind), &'static str> {
    let digits = text.get(skip..).unwrap_or_default();
    let (digits, unsigned) = match digits.strip_suffix(['u', 'U']) {
        Some(digits) => (digits, true),
        None => (digits, false),
    };
    if digits.is_empty() {
        // `0U`: the skipped zero is all there is.
        return if skip == 1 { Ok((0, NumberKind::Unsigned)) } else { Err(problem) };
    }
    let mut value = 0_u64;
    for digit in digits.chars() {
        let digit = digit.to_digit(radix).ok_or(problem)?;
        value = value
            .checked_mul(u64::from(radix))
            .and_then(|value| value.checked_add(u64::from(digit)))
            .ok_or("it does not fit 64 bits")?;
    }
    let signed = !unsigned && i64::try_from(value).is_ok();
    Ok((value, if signed { NumberKind::Signed } else { NumberKind::Unsigned }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_way_of_writing_a_number_gives_its_value() {
        let cases = [
            ("0", 0, NumberKind::Signed),
            ("0U", 0, NumberKind::Unsigned),
            ("42", 42, NumberKind::Signed),
            ("42u", 42, NumberKind::Unsigned),
            ("0x1F", 31, NumberKind::Signed),
            ("0XfU", 15, NumberKind::Unsigned),
            ("0b101", 5, NumberKind::Signed),
            ("017", 15, NumberKind::Signed),
            ("9223372036854775807", i64::MAX as u64, NumberKind::Signed),
            ("9223372036854775808", 1 << 63, NumberKind::Unsigned),
            ("0xFFFFFFFFFFFFFFFF", u64::MAX, NumberKind::Unsigned),
            ("0f3F800000", 0x3f80_0000, NumberKind::F32),
            ("0Fff800000", 0xff80_0000, NumberKind::F32),
            ("0d3FF0000000000000", 1.0_f64.to_bits(), NumberKind::F64),
            ("1.5", 1.5_f64.to_bits(), NumberKind::F64),
            ("1.", 1.0_f64.to_bits(), NumberKind::F64),
            ("0.25e-2", 0.0025_f64.to_bits(), NumberKind::F64),
            ("3e+2", 300.0_f64.to_bits(), NumberKind::F64),
        ];
        for (text, bits, kind) in cases {
            assert_eq!(read(text), Ok((bits, kind)), "{text}");
        }
    }

    #[test]
    fn what_is_no_number_is_refused() {
        for text in
            ["0x", "0xG", "0b2", "08", "12a", "18446744073709551616", "0f3F80", "0d0", "1e999", "1.2.3", "1e"]
        {
            assert!(read(text).is_err(), "{text}");
        }
    }
}
