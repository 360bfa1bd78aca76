//! The types a register, variable or parameter may be declared with.

use std::fmt;

macro_rules! scalar_types {
    ($($(#[$doc:meta])* $variant:ident = $text:literal, $bytes:expr;)*) => {
        /// A type that `.reg`, a variable or a parameter may be declared with.
        ///
        /// Instructions name further types in their modifiers (`.tf32`, `.e4m3x2`); those stay plain text.
        ///
        /// ```
        /// use cuforge_sim::ptx::ScalarType;
        ///
        /// assert_eq!(ScalarType::from_name("f16x2"), Some(ScalarType::F16x2));
        /// assert_eq!(ScalarType::F16x2.size_bytes(), 4);
        /// ```
        #[derive(Clone, Copy, Debug, Eq, PartialEq, Hash)]
        #[non_exhaustive]
        pub enum ScalarType { $($(#[$doc])* $variant,)* }

        impl ScalarType {
            /// The type of that name, written without its dot.
            pub fn from_name(name: &str) -> Option<Self> {
                match name { $($text => Some(Self::$variant),)* _ => None }
            }

            /// The type's name, without a dot.
            pub fn name(self) -> &'static str {
                match self { $(Self::$variant => $text,)* }
            }

            /// Bytes of one value in memory: 1 for a predicate, 8 for an opaque handle.
            pub fn size_bytes(self) -> u32 {
                match self { $(Self::$variant => $bytes,)* }
            }
        }
    };
}

scalar_types! {
    /// Untyped 8 bits.
    B8 = "b8", 1;
    /// Untyped 16 bits.
    B16 = "b16", 2;
    /// Untyped 32 bits.
    B32 = "b32", 4;
    /// Untyped 64 bits.
    B64 = "b64", 8;
    /// Untyped 128 bits.
    B128 = "b128", 16;
    /// Unsigned 8-bit integer.
    U8 = "u8", 1;
    /// Unsigned 16-bit integer.
    U16 = "u16", 2;
    /// Unsigned 32-bit integer.
    U32 = "u32", 4;
    /// Unsigned 64-bit integer.
    U64 = "u64", 8;
    /// Signed 8-bit integer.
    S8 = "s8", 1;
    /// Signed 16-bit integer.
    S16 = "s16", 2;
    /// Signed 32-bit integer.
    S32 = "s32", 4;
    /// Signed 64-bit integer.
    S64 = "s64", 8;
    /// Half precision.
    F16 = "f16", 2;
    /// Two halves in 32 bits.
    F16x2 = "f16x2", 4;
    /// bfloat16.
    Bf16 = "bf16", 2;
    /// Two bfloat16 in 32 bits.
    Bf16x2 = "bf16x2", 4;
    /// Single precision.
    F32 = "f32", 4;
    /// Two singles in 64 bits.
    F32x2 = "f32x2", 8;
    /// Double precision.
    F64 = "f64", 8;
    /// A predicate.
    Pred = "pred", 1;
    /// An opaque texture handle.
    TexRef = "texref", 8;
    /// An opaque sampler handle.
    SamplerRef = "samplerref", 8;
    /// An opaque surface handle.
    SurfRef = "surfref", 8;
}

impl fmt::Display for ScalarType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
