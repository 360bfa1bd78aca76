//! CUDA devices at driver level: slab memory, streams, copies, pipelines and launches, with nothing hidden.
//!
//! A [`Device`] is opened by number on the system's [`Driver`]; a [`Slab`] is device memory behind any allocator; a
//! [`Stream`] takes copies and launches in order; a [`Pipeline`] is a kernel out of a module image, and a
//! [`BoundLaunch`] one with its arguments packed, so that launching it is one driver call and no host allocation.
//!
//! Without a driver or a device every entry point answers a typed [`LaunchError`]; nothing panics.
//!
//! ```
//! use cuforge_launch::{Device, LaunchError};
//! fn first_device() -> Result<String, LaunchError> {
//!     let device = Device::open(0)?;
//!     Ok(format!("{} on {:?}", device.adapter().name, device.driver()))
//! }
//! match first_device() {
//!     Ok(line) => println!("{line}"),
//!     Err(error) => println!("no GPU here: {error}"),
//! }
//! ```

#[cfg(feature = "breadcrumbs")]
mod breadcrumb;
mod bulk;
mod capture_mode;
mod copy;
mod courier;
mod device;
mod driver;
mod error;
mod events;
mod features;
mod ffi;
mod function;
mod gate;
mod graph;
mod graph_error;
mod held;
mod host_room;
mod interop;
mod landing;
mod launch;
mod mailbox;
mod mapped;
mod marking;
mod module;
mod movers;
mod one_node;
mod options;
mod owned;
mod pinned;
mod pipeline;
mod prefetch;
mod properties;
mod queues;
mod range;
mod ranges;
mod raw_stream;
mod readback;
mod slab;
mod staging;
mod stream;
mod submit;
mod timeline;
mod upload;

pub use device::{Closed, Device, DeviceOptions};
pub use driver::Driver;
pub use error::{DriverError, LaunchError, Rejection, Tried};
pub use function::FunctionAttributes;
pub use graph::builtin::{CONDITION_PTX, CONDITION_SOURCE};
pub use graph::cache::{Buckets, GraphCache};
pub use graph::capture::Capture;
pub use graph::condition::Condition;
pub use graph::device_loop::DeviceLoop;
pub use graph::difference::Difference;
pub use graph::memory::GraphMemory;
pub use graph::parameter_block::ParameterBlock;
pub use graph::recording::Recording;
pub use graph::replay::Graph;
pub use graph::result_ring::ResultRing;
pub use graph::scope::CaptureScope;
pub use graph::slots::{GridSlot, Scalar, ValueSlot, ViewSlot};
pub use graph::table::{NodeRow, NodeTable};
pub use graph_error::{GraphError, NodeKind};
pub use launch::BoundLaunch;
pub use mailbox::Mailbox;
pub use mapped::MappedWords;
pub use options::LaunchOptions;
pub use owned::OwnedUpload;
pub use pinned::PinnedBuffer;
pub use pipeline::Pipeline;
pub use prefetch::{Prefetched, Prefetcher};
pub use properties::Capabilities;
pub use readback::Readback;
pub use slab::{Slab, SlabOptions};
pub use stream::Stream;
pub use submit::Submit;
pub use upload::{Unsent, Upload};
