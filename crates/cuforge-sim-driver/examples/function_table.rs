//! Prints the tables of functions and settings as the crate's README has them.
//!
//! `cargo run -p cuforge-sim-driver --example function_table`

fn main() {
    print!("{}", cuforge_sim_driver::tables());
}
