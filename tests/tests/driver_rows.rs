//! Rows of C programs, each in a process of its own: what a driver was seen to do on an H200 (580.159.04), and graphs as the
//! manual has them.

#![allow(clippy::unwrap_used, reason = "a test program, its helpers included")]

use cuforge_sim_driver::Library;
use cuforge_tests::c_program::{self, said};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// A module for a program: a test for each of its rows, and one that none is left out.
macro_rules! rows {
    ($program:ident, $($(#[$what:meta])* $row:ident)*) => {
        mod $program {
            use super::*;

            fn program() -> &'static (Library, PathBuf) {
                static PROGRAM: OnceLock<(Library, PathBuf)> = OnceLock::new();
                PROGRAM.get_or_init(|| {
                    c_program::prepared(stringify!($program), Path::new(env!("CARGO_TARGET_TMPDIR"))).unwrap()
                })
            }

            $($(#[$what])*
            #[test]
            fn $row() {
                let (library, program) = program();
                let output = c_program::run(program, library, &[stringify!($row)]).unwrap();
                assert!(output.status.success() && said(&output).contains("this row holds"), "{}", said(&output));
            })*

            #[test]
            fn every_row_of_the_program_is_a_test_here() {
                let source = include_str!(concat!("../programs/", stringify!($program), ".c"));
                let rows: Vec<&str> = source
                    .lines()
                    .filter_map(|line| line.trim().strip_prefix("ROW(")?.strip_suffix("),"))
                    .collect();
                assert_eq!(rows, [$(stringify!($row)),*]);
            }
        }
    };
}

rows! { measured,
    /// A launch, a stream synchronize and an async copy succeed with no current context and with another one.
    calls_without_a_current_context
    /// Destroying a graph exec in flight returns at once, and its work still completes.
    an_exec_destroyed_in_flight
    /// Virtual memory, allocation, pinning, `cuFuncLoad`, streams, events, capture and instantiation while a kernel runs.
    what_returns_at_once_while_a_kernel_runs
    /// `cuMemFree`, `cuMemFreeHost`, `cuMemHostUnregister`, `cuModuleLoadData` and `cuModuleUnload`.
    what_waits_for_a_running_kernel
    /// Which calls of the capturing thread invalidate a thread-local capture, and by which codes.
    calls_of_the_capturing_thread
    /// Which calls of another thread do.
    calls_of_another_thread
    /// A launch on the legacy stream runs at once and is missing from the graph of a non-blocking stream.
    legacy_work_escapes_a_capture
    /// Packed arguments: shown with `extra`, patched by it, and the new node is the only dependency.
    packed_arguments_in_a_graph
    /// After an illegal address every call answers it; a reset succeeds and the next user gets it again.
    an_illegal_address_stays
    /// Stores of a running kernel to mapped memory, and a stream's word, are seen by a host that polls.
    a_polling_host_sees_stores
    /// `cuFuncGetParamInfo`: offset and size of each parameter, `INVALID_VALUE` past the last.
    parameters_of_a_kernel
    /// Granularity of 2 MiB, a reservation of 128 GiB, and a kernel across chunks.
    virtual_memory_in_chunks
    /// PTX 7.8, 8.0 and 9.0 load; 6.0 is `INVALID_PTX` for `sm_90`, 9.1 `UNSUPPORTED_PTX_VERSION`.
    versions_of_ptx
}

rows! { graphs,
    /// IF with and without its else, SWITCH with a number beyond its bodies.
    branches
    /// A WHILE in an IF in a WHILE; defaults are set by launches.
    conditions_in_each_other
    /// `cuGraphExecUpdate`: what it says of more nodes, other kinds and other edges, and that the executable stays.
    updates
    /// `cuGraphDebugDotPrint`.
    drawings
    /// Memory of graphs and of pools.
    memory_nodes_and_pools
    /// Blocks that fit a multiprocessor.
    occupancy
}
