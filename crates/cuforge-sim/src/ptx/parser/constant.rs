//! Constant expressions, folded as they are read: the ISA gives them 64-bit integer or double arithmetic.

use super::cursor::{Cursor, shorten};
use super::lexer::Token;
use super::literal;
use crate::ptx::{Number, NumberKind, ParseError, Reason, Span};

const DEPTH_LIMIT: u32 = 64;

/// What `WARP_SZ` is on every target there is.
const WARP_SIZE: i64 = 32;

#[derive(Clone, Copy)]
struct Value {
    bits: u64,
    kind: NumberKind,
}

impl Value {
    fn signed(value: i64) -> Self {
        Self { bits: value.cast_unsigned(), kind: NumberKind::Signed }
    }

    fn is_float(self) -> bool {
        matches!(self.kind, NumberKind::F32 | NumberKind::F64)
    }

    fn as_f64(self) -> f64 {
        match self.kind {
            NumberKind::Signed => self.bits.cast_signed() as f64,
            NumberKind::Unsigned => self.bits as f64,
            NumberKind::F32 => f64::from(f32::from_bits(self.bits as u32)),
            NumberKind::F64 => f64::from_bits(self.bits),
        }
    }

    fn is_true(self) -> bool {
        if self.is_float() { self.as_f64() != 0.0 } else { self.bits != 0 }
    }
}

#[derive(Clone, Copy, Eq, PartialEq)]
enum Binary {
    Or,
    And,
    BitOr,
    BitXor,
    BitAnd,
    Equal,
    NotEqual,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
    ShiftLeft,
    ShiftRight,
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
}

impl Cursor<'_> {
    /// Whether a constant expression can begin here.
    pub(super) fn at_constant(&self) -> bool {
        match self.current.token {
            Token::Number | Token::Mark(b'-' | b'+' | b'~' | b'(') => true,
            Token::Dotted => self.at_point_float(),
            _ => false,
        }
    }

    /// Whether `.5` or the like is next, a float without a digit before its point.
    fn at_point_float(&self) -> bool {
        self.dotted().is_some_and(|text| text.starts_with(|first: char| first.is_ascii_digit()))
    }

    /// A literal or constant expression; `expected` is what the error says when none is there.
    pub(super) fn constant(&mut self, expected: &'static str) -> Result<(Number, Span), ParseError> {
        let first = self.current.span;
        let value = self.ternary(0, expected)?;
        Ok(self.number(first, value))
    }

    /// `WARP_SZ` was stepped over: the constant expression that it begins, or `None` if it stands alone.
    pub(super) fn warp_size_expression(&mut self) -> Result<Option<Number>, ParseError> {
        let first = self.last;
        if self.operator().is_none() || self.at(b'|') {
            return Ok(None);
        }
        let value = self.operators(Value::signed(WARP_SIZE), 0, 0)?;
        Ok(Some(self.number(first, value).0))
    }

    fn number(&mut self, first: Span, value: Value) -> (Number, Span) {
        let span = first.to(self.last);
        (Number { bits: value.bits, kind: value.kind, text: self.name(span) }, span)
    }

    /// A constant expression that must be an integer from 0 to `limit`.
    pub(super) fn count(
        &mut self,
        what: &'static str,
        limit: u64,
        allowed: &'static str,
    ) -> Result<u64, ParseError> {
        let (number, span) = self.constant(what)?;
        let value = match number.kind {
            NumberKind::Signed => i128::from(number.bits.cast_signed()),
            NumberKind::Unsigned => i128::from(number.bits),
            NumberKind::F32 | NumberKind::F64 => {
                let text = shorten(&number.text);
                return Err(ParseError::new(
                    span,
                    Reason::BadNumber { text, problem: "an integer is needed here" },
                ));
            }
        };
        match u64::try_from(value) {
            Ok(value) if value <= limit => Ok(value),
            _ => Err(ParseError::new(span, Reason::OutOfRange { what, value, allowed })),
        }
    }

    /// A plain decimal number that fits 32 bits, as `.file` and `.loc` take.
    pub(super) fn plain_u32(&mut self, what: &'static str) -> Result<u32, ParseError> {
        if self.current.token != Token::Number {
            return Err(self.unexpected(what));
        }
        let value = self.primary(0, what)?;
        let (bits, place) = (value.bits, self.last);
        if value.is_float() {
            let text = shorten(self.slice(place));
            return Err(ParseError::new(
                place,
                Reason::BadNumber { text, problem: "an integer is needed here" },
            ));
        }
        u32::try_from(bits).map_err(|_| {
            let allowed = "at most 4294967295";
            ParseError::new(place, Reason::OutOfRange { what, value: i128::from(bits), allowed })
        })
    }

    fn ternary(&mut self, depth: u32, expected: &'static str) -> Result<Value, ParseError> {
        let condition = self.binary(depth, 0, expected)?;
        if !self.at(b'?') {
            return Ok(condition);
        }
        self.deeper(depth)?;
        self.advance()?;
        let yes = self.ternary(depth + 1, "a constant")?;
        self.expect(b':', "`:` of a conditional constant")?;
        let no = self.ternary(depth + 1, "a constant")?;
        Ok(if condition.is_true() { yes } else { no })
    }

    /// Operators of at least the given strength, left to right.
    fn binary(&mut self, depth: u32, strength: u32, expected: &'static str) -> Result<Value, ParseError> {
        self.deeper(depth)?;
        let left = self.unary(depth, expected)?;
        self.operators(left, depth, strength)
    }

    /// What operators of at least the given strength make of the value on their left.
    fn operators(&mut self, mut left: Value, depth: u32, strength: u32) -> Result<Value, ParseError> {
        while let Some((operator, own, bytes)) = self.operator() {
            if own < strength {
                break;
            }
            let place = self.current.span;
            for _ in 0..bytes {
                self.advance()?;
            }
            let right = self.binary(depth + 1, own + 1, "a constant behind an operator")?;
            left = fold(operator, left, right).map_err(|why| ParseError::new(place, Reason::NoValue(why)))?;
        }
        Ok(left)
    }

    /// The binary operator at hand, its strength, and how many marks spell it.
    fn operator(&self) -> Option<(Binary, u32, u32)> {
        let Token::Mark(mark) = self.current.token else { return None };
        let doubled = self.byte_behind();
        Some(match (mark, doubled) {
            (b'|', b'|') => (Binary::Or, 1, 2),
            (b'&', b'&') => (Binary::And, 2, 2),
            (b'|', _) => (Binary::BitOr, 3, 1),
            (b'^', _) => (Binary::BitXor, 4, 1),
            (b'&', _) => (Binary::BitAnd, 5, 1),
            (b'=', b'=') => (Binary::Equal, 6, 2),
            (b'!', b'=') => (Binary::NotEqual, 6, 2),
            (b'<', b'<') => (Binary::ShiftLeft, 8, 2),
            (b'>', b'>') => (Binary::ShiftRight, 8, 2),
            (b'<', b'=') => (Binary::LessEqual, 7, 2),
            (b'>', b'=') => (Binary::GreaterEqual, 7, 2),
            (b'<', _) => (Binary::Less, 7, 1),
            (b'>', _) => (Binary::Greater, 7, 1),
            (b'+', _) => (Binary::Add, 9, 1),
            (b'-', _) => (Binary::Subtract, 9, 1),
            (b'*', _) => (Binary::Multiply, 10, 1),
            (b'/', _) => (Binary::Divide, 10, 1),
            (b'%', _) => (Binary::Remainder, 10, 1),
            _ => return None,
        })
    }

    fn unary(&mut self, depth: u32, expected: &'static str) -> Result<Value, ParseError> {
        self.deeper(depth)?;
        let Token::Mark(mark @ (b'-' | b'+' | b'~' | b'!')) = self.current.token else {
            return self.primary(depth, expected);
        };
        let place = self.advance()?;
        let value = self.unary(depth + 1, "a constant behind a sign")?;
        Ok(match mark {
            b'+' => value,
            b'!' => Value::signed(i64::from(!value.is_true())),
            b'~' if value.is_float() => {
                return Err(ParseError::new(place, Reason::NoValue("`~` takes an integer")));
            }
            b'~' => Value { bits: !value.bits, ..value },
            _ => negate(value),
        })
    }

    fn primary(&mut self, depth: u32, expected: &'static str) -> Result<Value, ParseError> {
        match self.current.token {
            Token::Dotted if !self.at_point_float() => Err(self.unexpected(expected)),
            Token::Number | Token::Dotted => {
                let text = self.text();
                let read = literal::read(text);
                let span = self.advance()?;
                let bad = |problem| ParseError::new(span, Reason::BadNumber { text: shorten(text), problem });
                read.map(|(bits, kind)| Value { bits, kind }).map_err(bad)
            }
            Token::Word if self.text() == "WARP_SZ" => {
                self.advance()?;
                Ok(Value::signed(WARP_SIZE))
            }
            Token::Mark(b'(') => {
                self.advance()?;
                if let Some(cast) = self.dotted() {
                    let kind = match cast {
                        "s64" => NumberKind::Signed,
                        "u64" => NumberKind::Unsigned,
                        _ => return Err(self.unexpected("`.s64` or `.u64`")),
                    };
                    self.advance()?;
                    self.expect(b')', "`)` of a cast")?;
                    let value = self.unary(depth + 1, "a constant behind a cast")?;
                    let bits =
                        if value.is_float() { (value.as_f64() as i64).cast_unsigned() } else { value.bits };
                    return Ok(Value { bits, kind });
                }
                let value = self.ternary(depth + 1, "a constant")?;
                self.expect(b')', "`)` of a constant expression")?;
                Ok(value)
            }
            _ => Err(self.unexpected(expected)),
        }
    }

    fn deeper(&self, depth: u32) -> Result<(), ParseError> {
        if depth < DEPTH_LIMIT {
            return Ok(());
        }
        let reason = Reason::TooDeep { what: "constant expressions", limit: DEPTH_LIMIT };
        Err(ParseError::new(self.current.span, reason))
    }
}

fn negate(value: Value) -> Value {
    match value.kind {
        NumberKind::F32 => Value { bits: value.bits ^ 0x8000_0000, ..value },
        NumberKind::F64 => Value { bits: value.bits ^ (1 << 63), ..value },
        NumberKind::Unsigned if value.bits == 1 << 63 => Value { kind: NumberKind::Signed, ..value },
        _ => Value { bits: value.bits.wrapping_neg(), ..value },
    }
}

fn fold(operator: Binary, left: Value, right: Value) -> Result<Value, &'static str> {
    match operator {
        Binary::Or => return Ok(Value::signed(i64::from(left.is_true() || right.is_true()))),
        Binary::And => return Ok(Value::signed(i64::from(left.is_true() && right.is_true()))),
        _ => {}
    }
    if left.is_float() || right.is_float() {
        return fold_floats(operator, left.as_f64(), right.as_f64());
    }
    let unsigned = left.kind == NumberKind::Unsigned || right.kind == NumberKind::Unsigned;
    fold_integers(operator, left, right, unsigned)
}

fn fold_floats(operator: Binary, left: f64, right: f64) -> Result<Value, &'static str> {
    let value = match operator {
        Binary::Add => left + right,
        Binary::Subtract => left - right,
        Binary::Multiply => left * right,
        Binary::Divide => left / right,
        _ => {
            let truth = match operator {
                Binary::Equal => left == right,
                Binary::NotEqual => left != right,
                Binary::Less => left < right,
                Binary::LessEqual => left <= right,
                Binary::Greater => left > right,
                Binary::GreaterEqual => left >= right,
                _ => return Err("this operator takes integers"),
            };
            return Ok(Value::signed(i64::from(truth)));
        }
    };
    Ok(Value { bits: value.to_bits(), kind: NumberKind::F64 })
}

fn fold_integers(operator: Binary, left: Value, right: Value, unsigned: bool) -> Result<Value, &'static str> {
    let (a, b) = (left.bits, right.bits);
    let (sa, sb) = (a.cast_signed(), b.cast_signed());
    let order = if unsigned { a.cmp(&b) } else { sa.cmp(&sb) };
    let shift = u32::try_from(b).unwrap_or(u32::MAX);
    let bits = match operator {
        Binary::Add => a.wrapping_add(b),
        Binary::Subtract => a.wrapping_sub(b),
        Binary::Multiply => a.wrapping_mul(b),
        Binary::Divide | Binary::Remainder if b == 0 => return Err("it divides by zero"),
        Binary::Divide if unsigned => a / b,
        Binary::Divide => sa.wrapping_div(sb).cast_unsigned(),
        Binary::Remainder if unsigned => a % b,
        Binary::Remainder => sa.wrapping_rem(sb).cast_unsigned(),
        Binary::BitAnd => a & b,
        Binary::BitOr => a | b,
        Binary::BitXor => a ^ b,
        Binary::ShiftLeft => a.checked_shl(shift).unwrap_or(0),
        Binary::ShiftRight if left.kind == NumberKind::Unsigned => a.checked_shr(shift).unwrap_or(0),
        Binary::ShiftRight => (sa >> shift.min(63)).cast_unsigned(),
        _ => {
            let truth = match operator {
                Binary::Equal => order.is_eq(),
                Binary::NotEqual => order.is_ne(),
                Binary::Less => order.is_lt(),
                Binary::LessEqual => order.is_le(),
                Binary::Greater => order.is_gt(),
                _ => order.is_ge(),
            };
            return Ok(Value::signed(i64::from(truth)));
        }
    };
    let kind = match operator {
        Binary::ShiftLeft | Binary::ShiftRight => left.kind,
        _ if unsigned => NumberKind::Unsigned,
        _ => NumberKind::Signed,
    };
    Ok(Value { bits, kind })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value_of(text: &str) -> Result<Number, ParseError> {
        let mut cursor = Cursor::new(text)?;
        let (number, _) = cursor.constant("a constant")?;
        if cursor.current.token == Token::End { Ok(number) } else { Err(cursor.unexpected("the end")) }
    }

    #[test]
    fn expressions_fold_with_the_strengths_of_c() {
        let cases = [
            ("1+2*3", 7),
            ("(1+2)*3", 9),
            ("-4+4", 0),
            ("-9223372036854775808", i64::MIN),
            ("1<<4|1", 17),
            ("7-2-1", 4),
            ("~0", -1),
            ("!5", 0),
            ("-7/2", -3),
            ("-8>>1", -4),
            ("3 > 2 ? 10 : 20", 10),
            ("1 == 2 || 3 != 4", 1),
            ("(.s64)0xFFFFFFFFFFFFFFFF", -1),
            ("WARP_SZ-1", 31),
            ("0xFFU & 0x0F", 15),
            ("-1 < 1", 1),
            ("-1 < 1U", 0),
        ];
        for (text, expected) in cases {
            assert_eq!(value_of(text).map(|number| number.as_i64()), Ok(expected), "{text}");
        }
        assert_eq!(value_of("1.5*2.0").map(|number| number.as_f64()), Ok(3.0));
        assert_eq!(
            value_of("-0f3F800000").map(|number| (number.bits, number.kind)),
            Ok((0xBF80_0000, NumberKind::F32))
        );
    }

    #[test]
    fn expressions_without_a_value_are_refused() {
        for text in ["1/0", "1%0", "~1.5", "1.0<<2", "(1", "1+", "", "(.u32)1"] {
            assert!(value_of(text).is_err(), "{text}");
        }
    }

    #[test]
    fn deep_nesting_is_an_error_not_an_overflow() {
        for text in ["(".repeat(100_000), "-".repeat(100_000), "1?".repeat(100_000), "1?1:".repeat(100_000)] {
            let error = value_of(&text).expect_err("too deep");
            assert!(matches!(error.reason(), Reason::TooDeep { .. }), "{error}");
        }
    }
}
