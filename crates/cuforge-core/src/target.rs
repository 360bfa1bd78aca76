//! What code is made for: a compute capability, its variant, and the driver and adapter that will load it.

use crate::adapter::{ComputeCapability, DriverVersion};
use core::fmt;

/// The `a` and `f` variants of a target.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TargetVariant {
    /// `sm_90`: runs on this capability and later ones of the same major version.
    #[default]
    Base,
    /// `sm_90a`: architecture-specific features, runs on exactly this capability.
    Architecture,
    /// `sm_100f`: family-specific features, runs within the family.
    Family,
}

/// What code is made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Target {
    /// The device's compute capability.
    pub capability: ComputeCapability,
    /// Which variant of it.
    pub variant: TargetVariant,
    /// The CUDA version of the driver that will load the code, if known: PTX newer than it does not load.
    pub driver: Option<DriverVersion>,
    /// The UUID of the adapter that will load the code, if known. It changes nothing about the code; a compiler
    /// remembers for it what its driver rejected.
    pub adapter: Option<[u8; 16]>,
}

impl Target {
    /// The base variant for a capability, driver unknown.
    pub const fn new(capability: ComputeCapability) -> Self {
        Self { capability, variant: TargetVariant::Base, driver: None, adapter: None }
    }

    /// With the CUDA version of the driver.
    #[must_use]
    pub const fn with_driver(self, driver: DriverVersion) -> Self {
        Self { driver: Some(driver), ..self }
    }

    /// For the adapter with this UUID.
    #[must_use]
    pub const fn with_adapter(self, uuid: [u8; 16]) -> Self {
        Self { adapter: Some(uuid), ..self }
    }

    /// With another variant.
    #[must_use]
    pub const fn with_variant(self, variant: TargetVariant) -> Self {
        Self { variant, ..self }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let suffix = match self.variant {
            TargetVariant::Base => "",
            TargetVariant::Architecture => "a",
            TargetVariant::Family => "f",
        };
        write!(f, "sm_{}{suffix}", self.capability.sm())
    }
}
