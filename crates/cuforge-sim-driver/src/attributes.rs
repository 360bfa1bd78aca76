//! What the simulated device says of itself: `CUdevice_attribute` by number, as `cuda.h` of CUDA 13.0 has them.

use crate::settings::Settings;

/// What differs between compute capabilities.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Limits {
    /// Shared memory that a block may opt into, in bytes.
    pub(crate) shared_opt_in: i32,
    /// Shared memory of a multiprocessor, in bytes.
    pub(crate) shared_per_multiprocessor: i32,
    pub(crate) threads_per_multiprocessor: i32,
    pub(crate) blocks_per_multiprocessor: i32,
}

/// Registers of a multiprocessor, and of a block at most.
pub(crate) const REGISTERS: i32 = 65_536;
/// Shared memory of a block without opting in, in bytes.
pub(crate) const SHARED_BYTES: i32 = 49_152;
/// Shared memory that the system keeps of each block, in bytes.
pub(crate) const SHARED_RESERVED: i32 = 1024;
/// Threads of a block at most.
pub(crate) const MAX_THREADS: i32 = 1024;

impl Limits {
    /// Those of a compute capability, by the tables of the CUDA programming guide.
    pub(crate) fn of((major, minor): (i32, i32)) -> Self {
        let kib = 1024;
        let (shared, threads, blocks) = match (major, minor) {
            (..=7, _) => (64, 1024, 16),
            (8, 0 | 7) => (164, 2048, if minor == 0 { 32 } else { 16 }),
            (8, 6) => (100, 1536, 16),
            (8, _) => (100, 1536, 24),
            (12.., _) => (100, 1536, 24),
            _ => (228, 2048, 32),
        };
        // Capability 7.5 gives a block all of it; later ones keep a KiB of each block.
        let opt_in = if major <= 7 { shared } else { shared - 1 };
        Self {
            shared_opt_in: opt_in * kib,
            shared_per_multiprocessor: shared * kib,
            threads_per_multiprocessor: threads,
            blocks_per_multiprocessor: blocks,
        }
    }
}

/// The value of an attribute; absent for a number that is none. Those of textures, surfaces and arrays are 0: there are
/// none.
pub(crate) fn value(settings: &Settings, ordinal: usize, attribute: i32) -> Option<i32> {
    if let Some(value) = settings.attributes.get(&attribute) {
        return Some(*value);
    }
    let limits = Limits::of(settings.capability);
    let (major, minor) = settings.capability;
    let from = |least: i32| i32::from(major >= least);
    Some(match attribute {
        1..=3 => MAX_THREADS,
        4 => 64,
        5 => i32::MAX,
        6 | 7 => 65_535,
        8 => SHARED_BYTES,
        // Constant memory.
        9 => 65_536,
        // Warp, largest pitch.
        10 => 32,
        11 => i32::MAX,
        12 | 82 => REGISTERS,
        // Clocks in kHz; there are none, and programs divide by them.
        13 | 36 => 1_000_000,
        14 | 30 => 512,
        // Copies overlap with kernels.
        15 | 31 => 1,
        16 => settings.multiprocessors,
        // Host memory can be mapped.
        19 => 1,
        33 => 1 + ordinal as i32,
        37 => 512,
        38 => 32 << 20,
        39 => limits.threads_per_multiprocessor,
        40 => 2,
        41 => 1,
        51 => 32,
        75 => major,
        76 => minor,
        78..=80 => 1,
        81 => limits.shared_per_multiprocessor,
        // Managed memory.
        83 => 1,
        87 => 2,
        // Host pointers of registered memory serve on the device.
        91 => 1,
        92..=94 => 1,
        95 => 1,
        97 => limits.shared_opt_in,
        99 => 1,
        102 => 1,
        106 => limits.blocks_per_multiprocessor,
        111 => SHARED_RESERVED,
        // Pools.
        115 => 1,
        120 => from(9),
        122 | 123 => 1,
        126 => 1,
        // Host NUMA nodes: the one there is.
        131 | 134 => -1,
        17..=147 => 0,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_those_of_the_programming_guide() {
        let opt_in = |capability| Limits::of(capability).shared_opt_in;
        assert_eq!(
            [(7, 5), (8, 0), (8, 6), (8, 9), (9, 0), (10, 0), (12, 0)].map(opt_in),
            [65_536, 166_912, 101_376, 101_376, 232_448, 232_448, 101_376]
        );
        assert_eq!(Limits::of((8, 9)).blocks_per_multiprocessor, 24);
    }

    #[test]
    fn attributes_follow_the_settings_and_unknown_numbers_have_none() {
        let mut settings = Settings::read();
        settings.capability = (8, 6);
        settings.attributes = [(102, 0)].into();
        let ask = |attribute| value(&settings, 0, attribute);
        assert_eq!((ask(75), ask(76), ask(102), ask(120)), (Some(8), Some(6), Some(0), Some(0)));
        assert_eq!((ask(0), ask(148), ask(-1), ask(10)), (None, None, None, Some(32)));
    }
}
