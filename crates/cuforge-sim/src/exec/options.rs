//! What a launch may be told.

/// Which accesses are checked beyond the bounds and alignment that are always checked.
///
/// ```
/// use cuforge_sim::Checks;
///
/// let checks = Checks { shared_hazards: false, ..Checks::default() };
/// assert!(checks.global_conflicts);
/// ```
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Checks {
    /// Unordered accesses of a block's threads to shared memory. Default on; costs about a third of the speed of
    /// code that lives on shared memory.
    pub shared_hazards: bool,
    /// Plain accesses to global memory that another block writes, by atomics too, unless fences, acquires and releases of
    /// a wider scope than the block order them. Default on; costs 16 bytes of host memory for each 4 bytes touched, and
    /// several times that, and most of the speed, in kernels with such fences.
    pub global_conflicts: bool,
    /// Unordered accesses of a block's threads to global memory. Default on; costs 24 bytes of host memory for each 4 bytes
    /// that a block touches. In kernels with fences, acquires and releases these order accesses too, and only those of
    /// different warps are compared; where such are of the scope of a block, nothing is.
    pub global_hazards: bool,
    /// Values that nothing has written, as they decide a branch or an address or are put out. Default on; costs little
    /// speed where all is written, and a byte of host memory for each 4 bytes of memory that the host has not written whole.
    pub uninitialised: bool,
    /// Whether two threads may write equal bits to one shared byte without a barrier. Default no.
    pub same_value_writes: bool,
    /// What a block-wide barrier makes of threads that have exited. Default [`ExitedThreads::Fault`].
    pub exited_threads: ExitedThreads,
}

impl Default for Checks {
    fn default() -> Self {
        Self {
            shared_hazards: true,
            global_conflicts: true,
            global_hazards: true,
            uninitialised: true,
            same_value_writes: false,
            exited_threads: ExitedThreads::Fault,
        }
    }
}

impl Checks {
    /// Only what is always checked: bounds, alignment, barriers that can never complete.
    pub fn none() -> Self {
        Self {
            shared_hazards: false,
            global_conflicts: false,
            global_hazards: false,
            uninitialised: false,
            same_value_writes: true,
            exited_threads: ExitedThreads::Ignore,
        }
    }
}

/// What a block-wide barrier makes of threads that have exited.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum ExitedThreads {
    /// The barrier faults: all threads of the block take part in it.
    Fault,
    /// The barrier waits for the others only, as devices from compute capability 7.0 on do.
    Ignore,
}

/// How a launch runs.
///
/// ```
/// use cuforge_sim::LaunchOptions;
///
/// let options = LaunchOptions { seed: 7, ..LaunchOptions::default() };
/// assert_eq!(options.threads, 0);
/// ```
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct LaunchOptions {
    /// Host threads; 0, the default, means one for each core. Results and faults do not depend on it.
    pub threads: usize,
    /// Picks the order in which the warps of a block run, the length of their turns, those of lanes that took different
    /// ways, when bulk copies land, and the turns of blocks that communicate. The same seed gives the same run, whatever
    /// the number of host threads. Default 0: warps run from barrier to barrier, blocks in ascending order, and copies land
    /// as late as can be.
    pub seed: u64,
    /// Blocks of a cluster. Default none: what `.reqnctapercluster` of the kernel asks for, or clusters of one block.
    pub cluster: Option<[u32; 3]>,
    /// Most warp instructions one block may run. Default 2^26, some ten seconds of one core.
    pub step_budget: u64,
    /// What is checked.
    pub checks: Checks,
}

impl Default for LaunchOptions {
    fn default() -> Self {
        Self { threads: 0, seed: 0, cluster: None, step_budget: 1 << 26, checks: Checks::default() }
    }
}
