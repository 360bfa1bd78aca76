//! The charts that README and book show: what a launch, a replay, a hidden copy, a cache hit, a grant and a token cost.
//!
//! Each picks figures of one area by name and has one unit; it is drawn when a run has at least two of them.

/// One of these charts.
pub(super) struct Chosen {
    /// Its file name.
    pub(super) file: &'static str,
    /// What it says.
    pub(super) title: &'static str,
    /// The area of its figures.
    pub(super) area: &'static str,
    /// Their unit, where times of any unit are nanoseconds.
    pub(super) unit: &'static str,
    /// Whether a figure of that name belongs to it.
    pub(super) takes: fn(&str) -> bool,
}

/// All of them.
pub(super) const CHOSEN: &[Chosen] = &[
    Chosen {
        file: "launch-cost.svg",
        title: "CPU time of one kernel launch",
        area: "launch",
        unit: "ns",
        takes: |name| {
            name == "bound launch"
                || ["raw cuLaunchKernel", "cudarc's builder", "launch through "]
                    .iter()
                    .any(|start| name.starts_with(start))
        },
    },
    Chosen {
        file: "overlap.svg",
        title: "Share of a copy of 64 MiB that is hidden behind compute",
        area: "launch",
        unit: "share",
        takes: |name| name.ends_with("hidden behind compute"),
    },
    Chosen {
        file: "replay-cost.svg",
        title: "CPU time of one replay over the nodes of its graph",
        area: "graph",
        unit: "ns",
        takes: |name| name.starts_with("replay of ") || name.starts_with("raw cuGraphLaunch of "),
    },
    Chosen {
        file: "token-loop.svg",
        title: "One token: four bytes in, ten kernels, four bytes out",
        area: "graph",
        unit: "ns",
        takes: |name| name.starts_with("token loop"),
    },
    Chosen {
        file: "cache-hits.svg",
        title: "From request to image, by where the cache has it",
        area: "compile",
        unit: "ns",
        takes: |name| name.contains("memory hit") || name.contains("disk hit"),
    },
    Chosen {
        file: "allocators.svg",
        title: "A grant and its end, over an unchecked ring written by hand",
        area: "slab",
        unit: "ratio",
        takes: |name| name.ends_with("/ by hand"),
    },
];
