//! Vocabulary and traits of cuforge: what every other crate speaks, and nothing that runs.
//!
//! This crate knows no driver, does no I/O and starts no thread. It holds
//!
//! - memory: [`BufferView`], the [`Ledger`] that mints views and guards their lifetimes, and the
//!   [`SlabAllocator`] trait behind it, which is what you implement to bring your own allocator;
//! - kernels: [`KernelSpec`], its [`Parameter`]s and their packed [`ParameterLayout`], the [`Schedule`] that tunes
//!   it and the checked [`LaunchGeometry`] that results;
//! - devices: [`Adapter`], [`Constraints`], [`ComputeCapability`];
//! - code: [`CompileRequest`], [`ModuleImage`] and the [`KernelCompiler`] trait;
//! - running: [`Compute`], a compiled kernel of any backend, and [`OracleContext`], a whole backend as the
//!   differential oracle sees it.
//!
//! # Example: which blocks does a launch need?
//!
//! ```
//! use cuforge_core::{Constraints, Schedule, SharedMemory};
//!
//! let schedule = Schedule::new([256, 1, 1]).with_items_per_invocation(4);
//! let geometry = schedule.geometry(1_000_003, SharedMemory::NONE, &Constraints::default())?;
//! assert_eq!((geometry.grid, geometry.block), ([977, 1, 1], [256, 1, 1]));
//! # Ok::<(), cuforge_core::ScheduleError>(())
//! ```
#![no_std]
#![deny(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod adapter;
mod allocator;
mod atomics;
mod compiler;
mod compute;
mod context;
mod element;
mod error;
mod geometry;
mod image;
mod kernel;
mod layout;
mod ledger;
mod ledger_error;
mod schedule;
mod schedule_error;
mod schedule_text;
mod slots;
mod stamp;
mod target;
mod tuned;
mod view;

pub use adapter::{Adapter, Backend, ComputeCapability, Constraints, DeviceType, DriverVersion};
pub use allocator::{
    Grant, Handle, Lifetime, Misuse, Operation, Refusal, Request, Rewound, Scope, Segment, SegmentState,
    SlabAllocator, Stats,
};
pub use compiler::{CompileFailure, CompileFailureKind, CompileOptions, CompileRequest, KernelCompiler};
pub use compute::{Arguments, Compute, Elapsed, ElapsedSource, Extent};
pub use context::{
    Accuracy, Arithmetic, BuildOptions, Evidence, FunctionBound, OracleContext, OracleContextExt, Prepared,
    Sampling,
};
pub use element::Element;
pub use error::{ContextError, ContextErrorKind};
pub use geometry::{LaunchGeometry, SharedMemory};
pub use image::{Digest, ModuleImage};
pub use kernel::{Body, DeclaredBlock, KernelSpec, Language, Parameter};
pub use layout::{BindError, ParameterLayout};
pub use ledger::{Checkpoint, Ledger, LedgerLimits};
pub use ledger_error::LedgerError;
pub use schedule::{Constant, Schedule};
pub use schedule_error::ScheduleError;
pub use schedule_text::ScheduleTextError;
pub use slots::{Lease, MAX_QUEUES, Pins};
pub use stamp::{Progress, QueueId, Stamp};
pub use target::{Target, TargetVariant};
pub use tuned::{TuneKey, TuneRecord, TuneRecordError};
pub use view::{Access, BufferView, SlabId, ViewError};
