//! Cross-crate tests live in `tests/`; this library holds what several of them share.

#[cfg(doctest)]
mod book;
pub mod c_program;
pub mod defects;
pub mod outputs;
pub mod sim;
pub mod toolchain;
