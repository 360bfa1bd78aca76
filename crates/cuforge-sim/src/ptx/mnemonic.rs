//! An opcode with its modifiers, both open sets.

use std::fmt;

use super::name::Name;
use super::span::Span;

/// Opcode and modifiers as one text: `ld.global.L2::128B.v4.f32`.
///
/// ```
/// use cuforge_sim::ptx::Module;
///
/// let text = ".version 8.0\n.target sm_80\n.entry k() { .reg .f32 %f<4>; fma.rn.ftz.f32 %f1, %f1, %f2, %f3; }";
/// let module = Module::parse(text)?;
/// let fma = module.function("k").and_then(|k| k.instructions().next()).ok_or("no fma")?;
/// assert_eq!(fma.mnemonic.opcode(), "fma");
/// assert_eq!(fma.mnemonic.modifiers().collect::<Vec<_>>(), ["rn", "ftz", "f32"]);
/// assert!(fma.mnemonic.has("ftz"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Mnemonic {
    /// Where it stands.
    pub span: Span,
    /// The whole of it, free of any white space.
    pub text: Name,
}

impl Mnemonic {
    /// The part before the first dot.
    pub fn opcode(&self) -> &str {
        self.text.split('.').next().unwrap_or_default()
    }

    /// The modifiers in order, each without its dot (`L2::128B` is one).
    pub fn modifiers(&self) -> impl Iterator<Item = &str> + Clone {
        self.text.split('.').skip(1)
    }

    /// Whether that modifier (without its dot) is there.
    pub fn has(&self, modifier: &str) -> bool {
        self.modifiers().any(|found| found == modifier)
    }
}

impl fmt::Display for Mnemonic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}
