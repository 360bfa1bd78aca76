//! For which architecture, and in which form, code is made: a pure function of the target and what the compiler lists.

use std::fmt;

use cuforge_core::{DriverVersion, Target, TargetVariant};

use crate::error::CompileError;
use crate::ptx_header::PtxVersion;

/// Major and minor version.
type Pair = (u16, u16);

/// First CUDA version (driver or nvJitLink) that loads each PTX ISA version. A table, because the steps are uneven:
/// 12.6 emits 8.5, and 8.6 came with a 12.7 that has no public toolkit.
const PTX_LOADED_SINCE: &[(Pair, Pair)] = &[
    ((12, 0), (8, 0)),
    ((12, 1), (8, 1)),
    ((12, 2), (8, 2)),
    ((12, 3), (8, 3)),
    ((12, 4), (8, 4)),
    ((12, 5), (8, 5)),
    ((12, 7), (8, 6)),
    ((12, 8), (8, 7)),
    ((12, 9), (8, 8)),
    ((13, 0), (9, 0)),
    ((13, 1), (9, 1)),
    ((13, 2), (9, 2)),
    ((13, 3), (9, 3)),
    ((13, 4), (9, 4)),
    ((13, 5), (9, 5)),
];

/// The newest PTX ISA version that a driver (or nvJitLink) of this CUDA version loads; `None` below CUDA 12.0.
///
/// Versions newer than the table are taken to load what its last row does, never more.
///
/// ```
/// use cuforge_compile::{PtxVersion, newest_ptx_for};
/// use cuforge_core::DriverVersion;
/// assert_eq!(newest_ptx_for(DriverVersion { major: 12, minor: 6 }), Some(PtxVersion::new(8, 5)));
/// assert_eq!(newest_ptx_for(DriverVersion { major: 13, minor: 0 }), Some(PtxVersion::new(9, 0)));
/// assert_eq!(newest_ptx_for(DriverVersion { major: 11, minor: 8 }), None);
/// ```
pub fn newest_ptx_for(cuda: DriverVersion) -> Option<PtxVersion> {
    let below = PTX_LOADED_SINCE.iter().take_while(|(since, _)| *since <= (cuda.major, cuda.minor));
    below.last().map(|(_, (major, minor))| PtxVersion::new(*major, *minor))
}

/// The architecture that a compilation is run for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Architecture {
    /// `sm_90a` or, where only PTX can be made, `compute_90`.
    pub(crate) name: String,
    /// Whether a cubin comes out.
    pub(crate) real: bool,
    /// Why this one.
    pub(crate) reason: String,
}

/// Picks the architecture for `target` among those that the compiler lists.
///
/// A listed architecture is built as it is. A device that is not listed gets PTX for the highest listed base
/// architecture below it. A device below the whole list is an error: there is no code it could run.
pub(crate) fn architecture(
    target: &Target,
    listed: &[u32],
    compiler: (u32, u32),
) -> Result<Architecture, CompileError> {
    let sm = u32::from(target.capability.sm());
    let refuse =
        |why| CompileError::Target { wanted: target.to_string(), supported: List(listed).to_string(), why };
    match target.variant {
        TargetVariant::Architecture if sm < 90 => return Err(refuse("`a` variants exist from sm_90 on")),
        TargetVariant::Architecture if sm >= 100 && compiler < (12, 8) => {
            return Err(refuse("`a` variants above sm_90a need nvrtc 12.8"));
        }
        TargetVariant::Family if sm < 100 => return Err(refuse("`f` variants exist from sm_100 on")),
        TargetVariant::Family if compiler < (12, 9) => return Err(refuse("`f` variants need nvrtc 12.9")),
        _ => {}
    }
    if listed.contains(&sm) {
        let name = target.to_string();
        return Ok(Architecture { reason: format!("{name} is listed"), name, real: true });
    }
    if target.variant != TargetVariant::Base {
        return Err(refuse("it is not listed, and a suffixed variant has no substitute"));
    }
    let lower = listed.iter().copied().filter(|&arch| arch < sm).max();
    let lower = lower.ok_or_else(|| refuse("the device is older than everything on the list"))?;
    Ok(Architecture {
        name: format!("compute_{lower}"),
        real: false,
        reason: format!("sm_{sm} is not listed, compute_{lower} is the highest below it"),
    })
}

struct List<'a>(&'a [u32]);

impl fmt::Display for List<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, arch) in self.0.iter().enumerate() {
            write!(f, "{}{arch}", if index == 0 { "sm " } else { " " })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cuforge_core::ComputeCapability;

    const V12_4: &[u32] = &[50, 52, 53, 60, 61, 62, 70, 72, 75, 80, 86, 87, 89, 90];
    const V13_0: &[u32] = &[75, 80, 86, 87, 88, 89, 90, 100, 103, 110, 120, 121];

    fn target(sm: u16, variant: TargetVariant) -> Target {
        Target::new(ComputeCapability::from_sm(sm)).with_variant(variant)
    }

    fn name(
        sm: u16,
        variant: TargetVariant,
        listed: &[u32],
        compiler: (u32, u32),
    ) -> Result<(String, bool), String> {
        architecture(&target(sm, variant), listed, compiler)
            .map(|a| (a.name, a.real))
            .map_err(|error| error.to_string())
    }

    #[test]
    fn a_listed_architecture_is_built_as_it_is() {
        use TargetVariant::{Architecture, Base, Family};
        let ok = |text: &str| Ok((text.to_owned(), true));
        assert_eq!(name(90, Base, V12_4, (12, 4)), ok("sm_90"));
        assert_eq!(name(90, Architecture, V12_4, (12, 4)), ok("sm_90a"));
        assert_eq!(name(103, Family, V13_0, (13, 0)), ok("sm_103f"));
    }

    #[test]
    fn a_device_newer_than_the_compiler_gets_the_highest_lower_ptx() {
        let ptx = |text: &str| Ok((text.to_owned(), false));
        assert_eq!(name(100, TargetVariant::Base, V12_4, (12, 4)), ptx("compute_90"));
        assert_eq!(name(130, TargetVariant::Base, V13_0, (13, 0)), ptx("compute_121"));
        assert_eq!(name(88, TargetVariant::Base, V12_4, (12, 4)), ptx("compute_87"));
    }

    #[test]
    fn a_device_below_the_list_is_an_error_that_names_both() {
        let error = name(70, TargetVariant::Base, V13_0, (13, 0)).unwrap_err();
        assert!(error.contains("sm_70") && error.contains("75 80"), "{error}");
    }

    #[test]
    fn suffixes_follow_the_rules_of_each_version() {
        use TargetVariant::{Architecture, Family};
        assert!(name(89, Architecture, V13_0, (13, 0)).is_err());
        assert!(name(90, Family, V13_0, (13, 0)).is_err());
        assert!(name(100, Family, &[90, 100], (12, 8)).is_err());
        assert!(name(130, Architecture, V13_0, (13, 0)).is_err());
    }

    #[test]
    fn the_ptx_table_never_promises_more_than_it_knows() {
        let newest = |major, minor| newest_ptx_for(DriverVersion { major, minor });
        assert_eq!(newest(12, 7), Some(PtxVersion::new(8, 6)));
        assert_eq!(newest(14, 2), Some(PtxVersion::new(9, 5)));
        assert!(PTX_LOADED_SINCE.windows(2).all(|pair| pair[0].0 < pair[1].0 && pair[0].1 < pair[1].1));
    }
}
