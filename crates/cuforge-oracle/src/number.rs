//! Elements and scalars as host values: bytes in, bytes out.

use std::fmt;

use cuforge_core::Element;

/// A scalar of one of the element types, for uniform fields and scalar parameters.
///
/// ```
/// use cuforge_oracle::Scalar;
/// assert_eq!(Scalar::from(1.5f32).to_bytes(), 1.5f32.to_le_bytes());
/// assert_eq!(Scalar::from(7u64).element().size_bytes(), 8);
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
#[allow(missing_docs, reason = "each variant is its own name")]
#[non_exhaustive]
pub enum Scalar {
    I32(i32),
    U32(u32),
    I64(i64),
    U64(u64),
    F32(f32),
    F64(f64),
}

impl Scalar {
    /// Its type.
    #[must_use]
    pub const fn element(self) -> Element {
        match self {
            Self::I32(_) => Element::I32,
            Self::U32(_) => Element::U32,
            Self::I64(_) => Element::I64,
            Self::U64(_) => Element::U64,
            Self::F32(_) => Element::F32,
            Self::F64(_) => Element::F64,
        }
    }

    /// Its bytes, little endian.
    #[must_use]
    pub fn to_bytes(self) -> Vec<u8> {
        match self {
            Self::I32(value) => value.to_le_bytes().to_vec(),
            Self::U32(value) => value.to_le_bytes().to_vec(),
            Self::I64(value) => value.to_le_bytes().to_vec(),
            Self::U64(value) => value.to_le_bytes().to_vec(),
            Self::F32(value) => value.to_le_bytes().to_vec(),
            Self::F64(value) => value.to_le_bytes().to_vec(),
        }
    }

    pub(crate) fn number(self) -> Number {
        match self {
            Self::I32(value) => Number::Integer(value.into()),
            Self::U32(value) => Number::Integer(value.into()),
            Self::I64(value) => Number::Integer(value.into()),
            Self::U64(value) => Number::Integer(value.into()),
            Self::F32(value) => Number::Float(value.into()),
            Self::F64(value) => Number::Float(value),
        }
    }
}

macro_rules! scalar_from {
    ($($type:ty => $variant:ident),*) => { $(
        impl From<$type> for Scalar {
            fn from(value: $type) -> Self {
                Self::$variant(value)
            }
        }
    )* };
}
scalar_from!(i32 => I32, u32 => U32, i64 => I64, u64 => U64, f32 => F32, f64 => F64);

/// One element as a host number, exact for every element type.
///
/// ```
/// use cuforge_oracle::Number;
/// assert_eq!((Number::Float(0.1).to_string(), Number::Integer(-3).to_string()), ("0.1".into(), "-3".into()));
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Number {
    /// An element of a floating-point type.
    Float(f64),
    /// An element of an integer type.
    Integer(i128),
}

impl Number {
    /// As `f64`; integers beyond 2^53 are rounded.
    #[must_use]
    pub const fn as_f64(self) -> f64 {
        match self {
            Self::Float(value) => value,
            Self::Integer(value) => value as f64,
        }
    }
}

impl fmt::Display for Number {
    /// The shortest text that reads back as the same value.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Float(value) => write!(f, "{value:?}"),
            Self::Integer(value) => write!(f, "{value}"),
        }
    }
}

/// The element at the start of `bytes`; missing bytes count as zero.
pub(crate) fn decode(element: Element, bytes: &[u8]) -> Number {
    let mut word = [0u8; 8];
    for (to, from) in word.iter_mut().zip(bytes.iter().take(element.size_bytes() as usize)) {
        *to = *from;
    }
    let bits = u64::from_le_bytes(word);
    match element {
        Element::I8 => Number::Integer((bits as i8).into()),
        Element::U8 => Number::Integer((bits as u8).into()),
        Element::I16 => Number::Integer((bits as i16).into()),
        Element::U16 => Number::Integer((bits as u16).into()),
        Element::I32 => Number::Integer((bits as i32).into()),
        Element::U32 => Number::Integer((bits as u32).into()),
        Element::I64 => Number::Integer((bits as i64).into()),
        Element::U64 => Number::Integer(bits.into()),
        Element::F16 => Number::Float(half::f16::from_bits(bits as u16).to_f64()),
        Element::BF16 => Number::Float(half::bf16::from_bits(bits as u16).to_f64()),
        Element::F32 => Number::Float(f32::from_bits(bits as u32).into()),
        Element::F64 => Number::Float(f64::from_bits(bits)),
    }
}

/// The elements of a buffer as `f64`.
pub(crate) fn floats(element: Element, bytes: &[u8]) -> impl Iterator<Item = f64> + '_ {
    bytes.chunks_exact(element.size_bytes() as usize).map(move |chunk| decode(element, chunk).as_f64())
}

/// Appends `value` as one element: floats rounded to nearest, integers wrapped to their width.
pub(crate) fn encode(element: Element, value: Number, bytes: &mut Vec<u8>) {
    let bits = match value {
        Number::Integer(value) if !element.is_float() => value as u64,
        Number::Float(value) if !element.is_float() => (value as i128) as u64,
        value => {
            let value = value.as_f64();
            match element {
                Element::F16 => u64::from(half::f16::from_f64(value).to_bits()),
                Element::BF16 => u64::from(half::bf16::from_f64(value).to_bits()),
                Element::F32 => u64::from((value as f32).to_bits()),
                _ => value.to_bits(),
            }
        }
    };
    bytes.extend_from_slice(&bits.to_le_bytes()[..element.size_bytes() as usize]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_element_type_survives_its_bytes() {
        let integers = [Element::I8, Element::U8, Element::I16, Element::U16, Element::I32, Element::U32];
        for element in integers.into_iter().chain([Element::I64, Element::U64]) {
            for value in [0i128, 1, 100] {
                let mut bytes = Vec::new();
                encode(element, Number::Integer(value), &mut bytes);
                assert_eq!(bytes.len(), element.size_bytes() as usize);
                assert_eq!(decode(element, &bytes), Number::Integer(value), "{element}");
            }
        }
        for element in [Element::F16, Element::BF16, Element::F32, Element::F64] {
            for value in [0.0, -0.5, 1.5, f64::INFINITY] {
                let mut bytes = Vec::new();
                encode(element, Number::Float(value), &mut bytes);
                assert_eq!(decode(element, &bytes), Number::Float(value), "{element}");
            }
        }
        assert_eq!(decode(Element::U64, &[0xff; 8]), Number::Integer(i128::from(u64::MAX)));
        assert_eq!(decode(Element::I8, &[0xff]), Number::Integer(-1));
    }
}
