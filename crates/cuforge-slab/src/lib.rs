//! Sub-allocators over byte offsets of one device slab, and a conformance suite for anyone's allocator
#![no_std]
