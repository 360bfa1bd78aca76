//! The text that `printf` makes of a format and packed arguments.

/// One conversion of a format: `%-8.3llf`.
#[derive(Clone, Copy, Debug, Default)]
struct Conversion {
    left: bool,
    plus: bool,
    space: bool,
    alternate: bool,
    zeros: bool,
    width: usize,
    precision: Option<usize>,
    /// Bytes of an integer argument: 4 or 8.
    bytes: usize,
}

/// Where arguments and strings come from.
pub(crate) trait Arguments {
    /// The next argument of 4 or 8 bytes, aligned to its size; absent if it cannot be read.
    fn next(&mut self, bytes: usize) -> Option<u64>;
    /// The string at an address; absent if it cannot be read.
    fn string(&mut self, address: u64) -> Option<Vec<u8>>;
}

/// The text, and how many arguments it took; absent if an argument cannot be read.
pub(crate) fn formatted(format: &[u8], arguments: &mut impl Arguments) -> Option<(Vec<u8>, u32)> {
    let (mut text, mut taken, mut at) = (Vec::new(), 0, 0);
    while let Some(byte) = format.get(at) {
        at += 1;
        if *byte != b'%' {
            text.push(*byte);
            continue;
        }
        let start = at - 1;
        let (conversion, letter, end) = parse(format, at, arguments, &mut taken)?;
        at = end;
        if letter == b'%' {
            text.push(b'%');
            continue;
        }
        match one(conversion, letter, arguments)? {
            Some(piece) => {
                taken += 1;
                text.extend(piece);
            }
            // What is no conversion stays as it is.
            None => text.extend(&format[start..at]),
        }
    }
    Some((text, taken))
}

fn parse(
    format: &[u8],
    mut at: usize,
    arguments: &mut impl Arguments,
    taken: &mut u32,
) -> Option<(Conversion, u8, usize)> {
    let mut conversion = Conversion { bytes: 4, ..Conversion::default() };
    let mut number = |at: &mut usize| -> Option<i64> {
        if format.get(*at) == Some(&b'*') {
            *at += 1;
            *taken += 1;
            return Some(i64::from(arguments.next(4)? as u32 as i32));
        }
        let mut value = 0i64;
        while let Some(digit) = format.get(*at).filter(|byte| byte.is_ascii_digit()) {
            value = (value * 10 + i64::from(digit - b'0')).min(4096);
            *at += 1;
        }
        Some(value)
    };
    while let Some(flag) = format.get(at) {
        match flag {
            b'-' => conversion.left = true,
            b'+' => conversion.plus = true,
            b' ' => conversion.space = true,
            b'#' => conversion.alternate = true,
            b'0' => conversion.zeros = true,
            _ => break,
        }
        at += 1;
    }
    let width = number(&mut at)?;
    conversion.left |= width < 0;
    conversion.width = width.unsigned_abs().min(4096) as usize;
    if format.get(at) == Some(&b'.') {
        at += 1;
        conversion.precision = usize::try_from(number(&mut at)?).ok().map(|precision| precision.min(4096));
    }
    while let Some(letter) = format.get(at) {
        match letter {
            b'l' | b'j' | b'z' | b't' => conversion.bytes = 8,
            b'h' | b'L' => {}
            _ => break,
        }
        at += 1;
    }
    let letter = format.get(at).copied().unwrap_or_default();
    Some((conversion, letter, (at + 1).min(format.len())))
}

/// The text of one conversion; `Some(None)` if the letter is none.
fn one(how: Conversion, letter: u8, arguments: &mut impl Arguments) -> Option<Option<Vec<u8>>> {
    let piece = match letter {
        b'd' | b'i' => {
            let value = arguments.next(how.bytes)?;
            let value = if how.bytes == 8 { value.cast_signed() } else { i64::from(value as u32 as i32) };
            number(how, value < 0, digits(how, value.unsigned_abs().to_string()))
        }
        b'u' | b'x' | b'X' | b'o' => {
            let value = arguments.next(how.bytes)?;
            let value = if how.bytes == 8 { value } else { u64::from(value as u32) };
            let text = match letter {
                b'u' => value.to_string(),
                b'x' => format!("{value:x}"),
                b'X' => format!("{value:X}"),
                _ => format!("{value:o}"),
            };
            let prefix = match letter {
                b'x' if how.alternate && value != 0 => "0x",
                b'X' if how.alternate && value != 0 => "0X",
                b'o' if how.alternate => "0",
                _ => "",
            };
            let unsigned = Conversion { plus: false, space: false, ..how };
            number(unsigned, false, format!("{prefix}{}", digits(how, text)))
        }
        b'f' | b'F' | b'e' | b'E' | b'g' | b'G' | b'a' | b'A' => {
            let value = f64::from_bits(arguments.next(8)?);
            let text = float(how, letter.to_ascii_lowercase(), value.abs());
            let text = if letter.is_ascii_uppercase() { text.to_uppercase() } else { text };
            let plain = Conversion { zeros: how.zeros && value.is_finite(), precision: None, ..how };
            number(plain, value.is_sign_negative(), text)
        }
        b'c' => padded(how, vec![arguments.next(4)? as u8]),
        b's' => {
            let address = arguments.next(8)?;
            let mut text = arguments.string(address)?;
            text.truncate(how.precision.unwrap_or(usize::MAX));
            padded(how, text)
        }
        b'p' => padded(how, format!("{:#x}", arguments.next(8)?).into_bytes()),
        _ => return Some(None),
    };
    Some(Some(piece))
}

/// Digits with at least as many as the precision asks for.
fn digits(how: Conversion, text: String) -> String {
    format!("{text:0>width$}", width = how.precision.unwrap_or(1))
}

fn number(how: Conversion, negative: bool, digits: String) -> Vec<u8> {
    let sign = match (negative, how.plus, how.space) {
        (true, ..) => "-",
        (_, true, _) => "+",
        (_, _, true) => " ",
        _ => "",
    };
    let room = how.width.saturating_sub(sign.len());
    if how.zeros && !how.left && how.precision.is_none() {
        let (prefix, rest) = match digits.get(..2) {
            Some(prefix @ ("0x" | "0X")) => (prefix, &digits[2..]),
            _ => ("", &digits[..]),
        };
        let width = room.saturating_sub(prefix.len());
        return format!("{sign}{prefix}{rest:0>width$}").into_bytes();
    }
    padded(how, format!("{sign}{digits}").into_bytes())
}

fn padded(how: Conversion, text: Vec<u8>) -> Vec<u8> {
    let pad = vec![b' '; how.width.saturating_sub(text.len())];
    if how.left { [text, pad].concat() } else { [pad, text].concat() }
}

fn float(how: Conversion, letter: u8, value: f64) -> String {
    if value.is_nan() {
        return "nan".to_owned();
    }
    if value.is_infinite() {
        return "inf".to_owned();
    }
    let precision = how.precision.unwrap_or(6);
    match letter {
        b'f' => format!("{value:.precision$}"),
        b'e' => scientific(value, precision),
        b'a' => hexadecimal(value, how.precision),
        _ => {
            let significant = precision.max(1);
            let rounded = format!("{value:.*e}", significant - 1);
            let exponent = rounded.rsplit('e').next().and_then(|text| text.parse::<i64>().ok()).unwrap_or(0);
            let text = if exponent < -4 || exponent >= significant as i64 {
                scientific(value, significant - 1)
            } else {
                format!("{value:.*}", (significant as i64 - 1 - exponent).max(0) as usize)
            };
            if how.alternate { text } else { without_trailing_zeros(&text) }
        }
    }
}

/// With an exponent of at least two digits and a sign.
fn scientific(value: f64, precision: usize) -> String {
    let text = format!("{value:.precision$e}");
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let (sign, digits) = exponent.strip_prefix('-').map_or(('+', exponent), |digits| ('-', digits));
    format!("{mantissa}e{sign}{digits:0>2}")
}

fn without_trailing_zeros(text: &str) -> String {
    let (mantissa, exponent) = text.find('e').map_or((text, ""), |at| text.split_at(at));
    let short =
        if mantissa.contains('.') { mantissa.trim_end_matches('0').trim_end_matches('.') } else { mantissa };
    format!("{short}{exponent}")
}

/// `0x1.8p+1`
fn hexadecimal(value: f64, precision: Option<usize>) -> String {
    let bits = value.to_bits();
    let (field, fraction) = ((bits >> 52 & 0x7ff) as i32, bits & ((1 << 52) - 1));
    let (mut lead, exponent) = match (field, fraction) {
        (0, 0) => (0u64, 0),
        (0, _) => (0, -1022),
        _ => (1, field - 1023),
    };
    let mut digits = format!("{fraction:013x}");
    match precision {
        None => digits.truncate(digits.trim_end_matches('0').len()),
        Some(kept) if kept < 13 => {
            let drop = 4 * (13 - kept) as u32;
            let whole = lead << 52 | fraction;
            let (high, low, half) = (whole >> drop, whole & ((1 << drop) - 1), 1u64 << (drop - 1));
            let up = low > half || low == half && high & 1 == 1;
            let rounded = high + u64::from(up);
            lead = rounded >> (4 * kept);
            let rest = rounded & ((1u64 << (4 * kept)) - 1);
            digits = if kept == 0 { String::new() } else { format!("{rest:0kept$x}") };
        }
        Some(kept) => digits = format!("{digits:0<kept$}"),
    }
    let point = if digits.is_empty() { "" } else { "." };
    format!("0x{lead}{point}{digits}p{exponent:+}")
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Given(Vec<u64>);

    impl Arguments for Given {
        fn next(&mut self, _: usize) -> Option<u64> {
            (!self.0.is_empty()).then(|| self.0.remove(0))
        }

        fn string(&mut self, address: u64) -> Option<Vec<u8>> {
            Some(format!("<{address}>").into_bytes())
        }
    }

    fn text(format: &str, values: &[u64]) -> String {
        let (text, taken) = formatted(format.as_bytes(), &mut Given(values.to_vec())).unwrap();
        assert_eq!(taken as usize, values.len());
        String::from_utf8(text).unwrap()
    }

    #[test]
    fn integers_come_out_as_in_c() {
        let minus = u64::from(-42i32 as u32);
        assert_eq!(
            text("%d|%5d|%-5d|%05d|%+d|% d", &[minus, minus, minus, minus, 7, 7]),
            "-42|  -42|-42  |-0042|+7| 7"
        );
        assert_eq!(
            text("%u %x %X %#x %o %#o", &[minus, 255, 255, 255, 8, 8]),
            "4294967254 ff FF 0xff 10 010"
        );
        assert_eq!(
            text("%lld %llu %#010x %.3d", &[u64::MAX, u64::MAX, 255, 5]),
            "-1 18446744073709551615 0x000000ff 005"
        );
        assert_eq!(text("%*d|%-*d|%c%%%s|%.2s|%5s", &[4, 1, 3, 2, 65, 9, 8, 7]), "   1|2  |A%<9>|<8|  <7>");
        assert_eq!(text("%p %y", &[0x10]), "0x10 %y");
    }

    #[test]
    fn floats_come_out_as_in_c() {
        let bits = |values: &[f64]| values.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
        assert_eq!(
            text("%f %.2f %10.3f|%-8.1f|%08.2f", &bits(&[1.5, 2.0 / 3.0, -1.0, 2.5, -3.25])),
            "1.500000 0.67     -1.000|2.5     |-0003.25"
        );
        assert_eq!(text("%e %.0e %E", &bits(&[12345.678, 5e-300, 0.0])), "1.234568e+04 5e-300 0.000000E+00");
        assert_eq!(
            text("%g %g %g %g %G", &bits(&[0.0001, 1e-5, 100000.0, 1e6, 1.25e-10])),
            "0.0001 1e-05 100000 1e+06 1.25E-10"
        );
        assert_eq!(
            text("%f %F %5.1e", &bits(&[f64::NAN, f64::NEG_INFINITY, f64::INFINITY])),
            "nan -INF   inf"
        );
        assert_eq!(text("%a %a %.1a %a", &bits(&[1.0, 3.0, 1.97, 0.0])), "0x1p+0 0x1.8p+1 0x2.0p+0 0x0p+0");
    }

    #[test]
    fn an_argument_that_cannot_be_read_gives_no_text() {
        assert_eq!(formatted(b"%d %d", &mut Given(vec![1])), None);
        assert_eq!(text("50%", &[]), "50%\0".trim_end_matches('\0'));
    }
}
