//! CUDA graphs: captured through a scope, owning all that they use, replayed with one driver call, patched by slots.

pub(crate) mod builtin;
pub(crate) mod cache;
pub(crate) mod capture;
pub(crate) mod claims;
pub(crate) mod condition;
mod counter;
pub(crate) mod device_loop;
pub(crate) mod difference;
mod draw;
mod feed;
mod handles;
mod inside;
pub(crate) mod memory;
mod packed;
pub(crate) mod parameter_block;
mod pinned_view;
mod recorded;
mod recorder;
pub(crate) mod recording;
pub(crate) mod replay;
pub(crate) mod result_ring;
mod ring;
pub(crate) mod scope;
pub(crate) mod slots;
pub(crate) mod table;
mod update;
