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

#[cfg(test)]
mod tests {
    use super::*;

    /// Where the type has the marker two items could be meant, and this does not compile.
    macro_rules! is_not {
        ($type:ty: $marker:ident) => {{
            trait Either<Which> {
                fn found() {}
            }
            struct Marked;
            impl<T: ?Sized> Either<()> for T {}
            impl<T: ?Sized + $marker> Either<Marked> for T {}
            <$type as Either<_>>::found();
        }};
    }

    fn moves<T: Send>() {}
    fn is_shared<T: Send + Sync>() {}

    #[test]
    fn types_are_moved_and_shared_between_threads_as_their_pages_say() {
        is_shared::<Driver>();
        is_shared::<Device>();
        is_shared::<Slab>();
        is_shared::<Pipeline>();
        is_shared::<PinnedBuffer>();
        is_shared::<MappedWords>();
        is_shared::<Recording>();
        is_shared::<LaunchError>();
        moves::<Stream>();
        moves::<BoundLaunch>();
        moves::<Upload>();
        moves::<OwnedUpload<Vec<u8>>>();
        moves::<Unsent>();
        moves::<Readback>();
        moves::<Mailbox>();
        moves::<Prefetcher>();
        moves::<Prefetched>();
        moves::<Graph>();
        moves::<GraphCache<u32>>();
        moves::<Condition>();
        moves::<ParameterBlock>();
        moves::<ResultRing>();
        moves::<DeviceLoop>();
        // One thread submits to a stream at a time, and the thread that begins a capture ends it.
        is_not!(Stream: Sync);
        is_not!(Prefetcher: Sync);
        is_not!(Capture<'static>: Send);
        is_not!(CaptureScope<'static>: Send);
    }
}
