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
        ("%cluster_ctaid", Some(dimension)) => Special::ClusterCtaid(dimension),
        ("%cluster_nctaid", Some(dimension)) => Special::ClusterNctaid(dimension),
        ("%cluster_ctarank", None) => Special::ClusterRank,
        ("%cluster_nctarank", None) => Special::ClusterBlocks,
        ("%is_explicit_cluster", None) => Special::IsCluster,
        ("%clusterid", Some(dimension)) => Special::ClusterId(dimension),
        ("%nclusterid", Some(dimension)) => Special::ClusterCount(dimension),
        ("%nsmid", None) => Special::One,
        ("%dynamic_smem_size", None) => Special::DynamicShared,
        ("%total_smem_size", None) => Special::TotalShared,
        _ => return None,
    })
}
