//! The names of special registers.

use crate::code::{LaneMask, Special};

/// The special register of that name, unless it is a clock.
pub(crate) fn special(name: &str, component: Option<&str>) -> Option<Special> {
    let dimension = match component {
        None => None,
        Some("x") => Some(0),
        Some("y") => Some(1),
        Some("z") => Some(2),
        Some(_) => return None,
    };
    Some(match (name, dimension) {
        ("%tid", Some(dimension)) => Special::Tid(dimension),
        ("%ntid", Some(dimension)) => Special::Ntid(dimension),
        ("%ctaid", Some(dimension)) => Special::Ctaid(dimension),
        ("%nctaid", Some(dimension)) => Special::Nctaid(dimension),
        ("%laneid", None) => Special::LaneId,
        ("%warpid", None) => Special::WarpId,
        ("%nwarpid", None) => Special::WarpCount,
        ("%lanemask_eq", None) => Special::LaneMask(LaneMask::Equal),
        ("%lanemask_lt", None) => Special::LaneMask(LaneMask::Below),
        ("%lanemask_le", None) => Special::LaneMask(LaneMask::UpTo),
        ("%lanemask_gt", None) => Special::LaneMask(LaneMask::Above),
        ("%lanemask_ge", None) => Special::LaneMask(LaneMask::From),
        ("%smid" | "%gridid", None) => Special::Zero,
        (name, None)
            if name.strip_prefix("%envreg").is_some_and(|n| n.parse::<u8>().is_ok_and(|n| n < 32)) =>
        {
            Special::Zero
        }
        // A block is a cluster of its own.
        ("%cluster_ctaid", Some(_)) | ("%cluster_ctarank" | "%is_explicit_cluster", None) => Special::Zero,
        ("%cluster_nctaid", Some(_)) | ("%cluster_nctarank", None) => Special::One,
        ("%clusterid", Some(dimension)) => Special::Ctaid(dimension),
        ("%nclusterid", Some(dimension)) => Special::Nctaid(dimension),
        ("%nsmid", None) => Special::One,
        ("%dynamic_smem_size", None) => Special::DynamicShared,
        ("%total_smem_size", None) => Special::TotalShared,
        _ => return None,
    })
}
