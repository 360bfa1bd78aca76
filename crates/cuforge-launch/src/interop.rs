//! Where cudarc comes in: its contexts and streams become ours, ours become its.

use crate::device::Device;
use crate::driver::Driver;
use crate::error::LaunchError;
use crate::gate::Keeper;
use crate::stream::Stream;
use cudarc::driver::{CudaContext, CudaStream};
use std::sync::Arc;

impl Device {
    /// The device of a context that somebody made with cudarc, kept alive by this device. Nothing of the context is
    /// changed: its event tracking concerns cudarc's own buffers alone.
    ///
    /// # Errors
    /// Those of [`Driver::load`]; [`LaunchError::Unsupported`].
    pub fn from_cudarc(context: &Arc<CudaContext>) -> Result<Self, LaunchError> {
        let driver = Driver::load()?;
        let ordinal = u32::try_from(context.ordinal()).unwrap_or(u32::MAX);
        let keeper = Keeper::Elsewhere(Box::new(context.clone()));
        Self::on_context(driver, ordinal, context.cu_ctx().cast(), keeper)
    }

    /// The device's primary context as cudarc has it. The driver has been found to work by then, so cudarc, which
    /// panics where there is none, meets what it expects.
    ///
    /// # Errors
    /// [`LaunchError::DeviceLost`]; [`LaunchError::Unsupported`] on a driver that is not the system's, which is the one
    /// that cudarc finds, and where cudarc cannot make its context.
    pub fn to_cudarc(&self) -> Result<Arc<CudaContext>, LaunchError> {
        self.gate().alive()?;
        // On a machine without a driver of that name cudarc would panic, and on one with another give a foreign context.
        if !Driver::load().is_ok_and(|found| found.library() == self.driver().library()) {
            let why = "the device is on a driver that cudarc does not find";
            return Err(LaunchError::Unsupported { what: "a cudarc context", why });
        }
        CudaContext::new(self.ordinal() as usize).map_err(|_| LaunchError::Unsupported {
            what: "a cudarc context",
            why: "cudarc could not retain the primary context",
        })
    }
}

impl Stream {
    /// A stream that somebody made with cudarc, kept alive by this one. Work submitted through either is ordered.
    ///
    /// # Errors
    /// [`LaunchError::OtherDevice`] for a stream of another context, [`LaunchError::TooManyStreams`].
    pub fn from_cudarc(device: &Device, stream: &Arc<CudaStream>) -> Result<Self, LaunchError> {
        if stream.context().cu_ctx().cast() != device.raw_context() {
            return Err(LaunchError::OtherDevice { what: "stream" });
        }
        Self::on(device, stream.cu_stream().cast(), Box::new(stream.clone()))
    }
}
