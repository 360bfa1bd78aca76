//! A differential oracle for GPU kernels: the same kernel on several backends against a CPU reference, with a verdict that can be trusted
