//! What a launch does beyond the plain form, and how the driver is told.

use crate::ffi::LaunchAttribute;

/// `CU_LAUNCH_ATTRIBUTE_COOPERATIVE`, `.._CLUSTER_DIMENSION`, `.._PROGRAMMATIC_STREAM_SERIALIZATION`.
const COOPERATIVE: u32 = 2;
const CLUSTER: u32 = 4;
const PROGRAMMATIC: u32 = 6;

/// What a launch does beyond the plain form.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LaunchOptions {
    /// All blocks run at once, so that they can wait for each other; the driver refuses a grid that does not fit.
    pub cooperative: bool,
    /// Blocks of a cluster in x, y, z; the grid must be a multiple of it.
    pub cluster: Option<[u32; 3]>,
    /// The kernel may begin before its predecessor on the stream has ended, and waits for it by itself with
    /// `griddepcontrol.wait` (`cudaGridDependencySynchronize`) before it reads what the predecessor writes.
    ///
    /// Refused for a kernel whose text never waits; that it waits early enough is covered by the promise behind a raw
    /// kernel's specification.
    pub programmatic: bool,
}

impl LaunchOptions {
    /// The driver's attributes, and how many there are.
    pub(crate) fn attributes(self) -> ([LaunchAttribute; 3], u32) {
        let blank = LaunchAttribute { id: 0, pad: [0; 4], value: [0; 16] };
        let (mut list, mut count) = ([blank; 3], 0);
        let mut push = |id: u32, words: [u32; 3]| {
            list[count].id = id;
            list[count].value[..3].copy_from_slice(&words);
            count += 1;
        };
        if self.cooperative {
            push(COOPERATIVE, [1, 0, 0]);
        }
        if let Some(cluster) = self.cluster {
            push(CLUSTER, cluster);
        }
        if self.programmatic {
            push(PROGRAMMATIC, [1, 0, 0]);
        }
        (list, count as u32)
    }
}
