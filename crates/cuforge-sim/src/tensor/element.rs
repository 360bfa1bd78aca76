//! What the elements of a matrix are.

/// The type of a matrix' elements.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Element {
    F16,
    Bf16,
    Tf32,
    F32,
    F64,
    E4m3,
    E5m2,
    S8,
    U8,
    S4,
    U4,
    B1,
    S32,
}

impl Element {
    /// The element type of that name.
    pub(crate) fn from_name(name: &str) -> Option<Self> {
        Some(match name {
            "f16" => Self::F16,
            "bf16" => Self::Bf16,
            "tf32" => Self::Tf32,
            "f32" => Self::F32,
            "f64" => Self::F64,
            "e4m3" => Self::E4m3,
            "e5m2" => Self::E5m2,
            "s8" => Self::S8,
            "u8" => Self::U8,
            "s4" => Self::S4,
            "u4" => Self::U4,
            "b1" => Self::B1,
            "s32" => Self::S32,
            _ => return None,
        })
    }

    /// Bits of one element in a register and in memory.
    pub(crate) fn bits(self) -> u32 {
        match self {
            Self::F64 => 64,
            Self::F32 | Self::Tf32 | Self::S32 => 32,
            Self::F16 | Self::Bf16 => 16,
            Self::E4m3 | Self::E5m2 | Self::S8 | Self::U8 => 8,
            Self::S4 | Self::U4 => 4,
            Self::B1 => 1,
        }
    }

    /// Elements in one register.
    pub(crate) fn per_register(self) -> u32 {
        (32 / self.bits()).max(1)
    }

    /// Bytes of a register of such elements.
    pub(crate) fn register_bytes(self) -> u32 {
        self.bits().max(32) / 8
    }

    /// Whether the elements are numbers with an exponent.
    pub(crate) fn is_float(self) -> bool {
        !matches!(self, Self::S8 | Self::U8 | Self::S4 | Self::U4 | Self::B1 | Self::S32)
    }

    /// The integer that the bits are.
    #[inline(always)]
    pub(crate) fn integer(self, bits: u64) -> i32 {
        match self {
            Self::S8 => i32::from(bits as u8 as i8),
            Self::S4 => (bits as i32) << 28 >> 28,
            _ => bits as i32,
        }
    }
}
