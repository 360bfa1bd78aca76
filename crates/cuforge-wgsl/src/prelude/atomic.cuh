// Atomic operations, relaxed as WGSL has them.
