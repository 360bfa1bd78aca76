//! A crate with a kernel, `softmax.ptx`: one warp a row. What matters is its test, `tests/softmax.rs`.
