//! Prints the tables of functions and settings as the crate's README has them.

fn main() {
    print!("{}", cuforge_sim_driver::tables());
}
