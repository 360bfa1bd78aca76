//! Host memory whose size the caller picks: asked for, so that too much is an error and no abort.

use crate::error::LaunchError;

/// An empty vector with room for `count` elements of `what`.
pub(crate) fn host_room<T>(what: &'static str, count: usize) -> Result<Vec<T>, LaunchError> {
    let mut room = Vec::new();
    match room.try_reserve_exact(count) {
        Ok(()) => Ok(room),
        Err(_) => {
            let bytes = (count as u64).saturating_mul(size_of::<T>() as u64);
            Err(LaunchError::HostMemory { what, bytes })
        }
    }
}
