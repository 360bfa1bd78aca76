//! The list of areas that `cargo xtask bench` knows.

use crate::area::Area;

/// Every area there is, in the order of the report.
pub const AREAS: &[Area] = &[
    Area {
        name: "compile",
        about: "the compile cache: hits, misses, one compilation for many threads, beside cuda.core and CuPy",
        run: crate::compile::run,
    },
    Area {
        name: "launch",
        about: "launches and copies on a GPU beside raw driver calls and cudarc (needs a GPU)",
        run: crate::launch::run,
    },
    Area {
        name: "graph",
        about: "graph replays, slots, token loops and device loops beside raw driver calls, cudarc and PyTorch (needs a GPU)",
        run: crate::graph::run,
    },
    Area {
        name: "slab",
        about: "the allocators: ring, general, tail, utilisation, frames, beside published ones",
        run: crate::slab::run,
    },
    Area {
        name: "sim",
        about: "the simulator: PTX instructions a second, checked and unchecked",
        run: crate::sim::run,
    },
    Area {
        name: "oracle",
        about: "one verification of each corpus kernel at its real size, with and without its mutants",
        run: crate::oracle::run,
    },
];
