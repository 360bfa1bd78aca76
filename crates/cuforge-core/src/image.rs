//! Compiled modules as data.

use crate::target::Target;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;

/// A 256-bit digest (SHA-256 wherever this project makes one). Locates and names things; never trusted to tell two
/// inputs apart where the inputs can be compared.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest(pub [u8; 32]);

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Digest({self})")
    }
}

/// A compiled module: machine code, PTX or both, and how it came to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModuleImage {
    /// Machine code for `target`, if it was made.
    pub cubin: Option<Arc<[u8]>>,
    /// PTX text, if it was made or given.
    pub ptx: Option<Arc<str>>,
    /// Names of the kernels inside.
    pub entry_points: Vec<String>,
    /// Name expressions asked for, each with the lowered name.
    pub lowered_names: Vec<(String, String)>,
    /// What it was made for.
    pub target: Target,
    /// One line that says why this target and form were chosen.
    pub decision: String,
    /// Name and version of what made it (`NVRTC 12.9`, `hand-written PTX`).
    pub compiler: String,
    /// The compiler's whole log; empty if it said nothing.
    pub log: String,
    /// Digest of cubin and PTX together.
    pub digest: Digest,
}

impl ModuleImage {
    /// PTX text as it stands, nothing compiled. `digest` is the text's; the entry points are left empty.
    ///
    /// ```
    /// use cuforge_core::{ComputeCapability, Digest, ModuleImage, Target};
    /// let text = ".version 7.8\n.target sm_75\n.address_size 64\n.visible .entry k() { ret; }\n";
    /// let target = Target::new(ComputeCapability { major: 9, minor: 0 });
    /// let image = ModuleImage::hand_written(text.into(), target, Digest([0; 32]));
    /// assert_eq!((image.ptx.as_deref(), image.cubin), (Some(text), None));
    /// ```
    pub fn hand_written(text: Arc<str>, target: Target, digest: Digest) -> Self {
        Self {
            cubin: None,
            ptx: Some(text),
            entry_points: Vec::new(),
            lowered_names: Vec::new(),
            target,
            decision: "PTX as it was given".into(),
            compiler: "hand-written PTX".into(),
            log: String::new(),
            digest,
        }
    }
}
