//! The commands of the cuforge repository: one file per verb, this one only picks the verb.
fn main() {}
