//! The Rust in the documentation, compiled and run as doc examples: the README, the crates' READMEs and the book.

macro_rules! pages {
    ($($name:ident: $path:literal;)*) => {
        $(
            #[doc = include_str!($path)]
            mod $name {}
        )*
    };
}

pages! {
    readme: "../../README.md";
    readme_core: "../../crates/cuforge-core/README.md";
    readme_slab: "../../crates/cuforge-slab/README.md";
    readme_wgsl: "../../crates/cuforge-wgsl/README.md";
    readme_compile: "../../crates/cuforge-compile/README.md";
    readme_launch: "../../crates/cuforge-launch/README.md";
    readme_sim: "../../crates/cuforge-sim/README.md";
    readme_facade: "../../crates/cuforge/README.md";
    readme_oracle: "../../crates/cuforge-oracle/README.md";
    first_kernel: "../../docs/tutorials/first-kernel.md";
    swap_the_allocator: "../../docs/tutorials/swap-the-allocator.md";
    verify_a_kernel: "../../docs/tutorials/verify-a-kernel.md";
    hide_copies: "../../docs/how-to/hide-copies.md";
    compile_ahead_of_time: "../../docs/how-to/compile-ahead-of-time.md";
    bring_your_own_cudarc_context: "../../docs/how-to/bring-your-own-cudarc-context.md";
}
