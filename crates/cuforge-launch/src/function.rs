//! What a compiled kernel needs and allows: registers, memory, its own parameter layout, occupancy.

use crate::error::LaunchError;
use crate::ffi::{RawFunction, code};
use crate::gate::Gate;
use cuforge_core::ParameterLayout;
use std::ffi::c_int;

/// `CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES`.
const MAX_DYNAMIC_SHARED: c_int = 8;
/// `CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED`.
const NON_PORTABLE_CLUSTER: c_int = 14;

/// Attributes of a compiled kernel, read once when its pipeline is made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct FunctionAttributes {
    /// Threads a block at most, as its registers allow.
    pub max_threads_per_block: u32,
    /// Static shared memory in bytes.
    pub static_shared_bytes: u32,
    /// Constant memory in bytes.
    pub constant_bytes: u32,
    /// Local memory of a thread in bytes (spills and indexed arrays).
    pub local_bytes: u32,
    /// Registers a thread.
    pub registers: u32,
    /// The PTX version that it came from, as major times ten plus minor; 0 if unknown.
    pub ptx_version: u32,
    /// The capability that its machine code is for, as major times ten plus minor.
    pub binary_version: u32,
}

pub(crate) fn attributes(gate: &Gate, function: RawFunction) -> Result<FunctionAttributes, LaunchError> {
    let one = |which: c_int| {
        let mut value: c_int = 0;
        // SAFETY: the function's module is loaded; the pointer is valid for a c_int.
        let status = unsafe { gate.api().func_get_attribute(&raw mut value, which, function) };
        gate.check(status).map(|()| u32::try_from(value).unwrap_or(0))
    };
    Ok(FunctionAttributes {
        max_threads_per_block: one(0)?,
        static_shared_bytes: one(1)?,
        constant_bytes: one(2)?,
        local_bytes: one(3)?,
        registers: one(4)?,
        ptx_version: one(5)?,
        binary_version: one(6)?,
    })
}

/// Lets blocks have `bytes` of dynamic shared memory, above 48 KiB too.
pub(crate) fn allow_dynamic_shared(
    gate: &Gate,
    function: RawFunction,
    bytes: u32,
) -> Result<(), LaunchError> {
    let bytes = c_int::try_from(bytes).unwrap_or(c_int::MAX);
    // SAFETY: the function's module is loaded.
    gate.check(unsafe { gate.api().func_set_attribute(function, MAX_DYNAMIC_SHARED, bytes) })
}

/// Lets clusters have more than eight blocks.
pub(crate) fn allow_large_clusters(gate: &Gate, function: RawFunction) -> Result<(), LaunchError> {
    // SAFETY: the function's module is loaded.
    gate.check(unsafe { gate.api().func_set_attribute(function, NON_PORTABLE_CLUSTER, 1) })
}

/// Loads the kernel's code now, so that no launch has to; where the driver cannot, the first launch does.
pub(crate) fn preload(gate: &Gate, function: RawFunction) -> Result<(), LaunchError> {
    // SAFETY: the function's module is loaded.
    match unsafe { gate.api().func_load(function) } {
        Ok(status) => gate.check(status),
        Err(_) => Ok(()),
    }
}

/// Offset and size of each parameter as the driver has them; `None` where it cannot tell (before CUDA 12.4).
pub(crate) fn own_layout(
    gate: &Gate,
    function: RawFunction,
) -> Result<Option<Vec<(usize, usize)>>, LaunchError> {
    let mut fields = Vec::new();
    loop {
        let (mut offset, mut bytes) = (0, 0);
        // SAFETY: the function's module is loaded; the pointers are valid for a usize each.
        let asked = unsafe {
            gate.api().func_get_param_info(function, fields.len(), &raw mut offset, &raw mut bytes)
        };
        match asked {
            Err(_) => return Ok(None),
            Ok(status) if status.code == code::INVALID_VALUE => return Ok(Some(fields)),
            Ok(status) => gate.check(status)?,
        }
        fields.push((offset, bytes));
    }
}

/// The declared layout must be the kernel's own: count, order, sizes and offsets.
pub(crate) fn hold_against(
    entry: &str,
    own: &[(usize, usize)],
    declared: &ParameterLayout,
) -> Result<(), LaunchError> {
    let say = |field: Option<(usize, usize)>| match field {
        Some((offset, bytes)) => format!("{bytes} bytes at offset {offset}"),
        None => "absent".to_owned(),
    };
    let mut wanted = declared.fields();
    for index in 0..own.len().max(wanted.len()) {
        let (found, declared) = (own.get(index).copied(), wanted.next());
        if found != declared {
            return Err(LaunchError::ParameterMismatch {
                entry: entry.to_owned(),
                index,
                found: say(found),
                declared: say(declared),
            });
        }
    }
    Ok(())
}

/// Blocks of so many threads that one multiprocessor runs at once. Wants the context current.
pub(crate) fn occupancy(
    gate: &Gate,
    function: RawFunction,
    threads: u32,
    shared_bytes: u32,
) -> Result<u32, LaunchError> {
    let mut blocks: c_int = 0;
    let threads = c_int::try_from(threads).unwrap_or(c_int::MAX);
    // SAFETY: the function's module is loaded; the pointer is valid for a c_int.
    let status =
        unsafe { gate.api().occupancy_blocks(&raw mut blocks, function, threads, shared_bytes as usize) };
    gate.check(status).map(|()| u32::try_from(blocks).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use cuforge_core::{Access, Element, Parameter};

    #[test]
    fn a_parameter_that_differs_is_named_with_both_layouts() {
        let declared = ParameterLayout::new(&[
            Parameter::buffer("x", 0, Element::F32, Access::StorageRead),
            Parameter::scalar("n", Element::U32),
        ])
        .unwrap();
        assert!(hold_against("k", &[(0, 8), (8, 4)], &declared).is_ok());
        let wide = hold_against("k", &[(0, 8), (8, 8)], &declared).unwrap_err();
        assert_eq!(
            wide.to_string(),
            "kernel `k`: parameter 1 is 8 bytes at offset 8, declared as 4 bytes at offset 8"
        );
        let more = hold_against("k", &[(0, 8), (8, 4), (16, 8)], &declared).unwrap_err();
        assert!(more.to_string().ends_with("declared as absent"), "{more}");
        assert!(hold_against("k", &[(0, 8)], &declared).is_err());
    }
}
