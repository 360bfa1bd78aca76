//! Where a piece of work is done.

use std::cell::RefCell;

use crate::device::Device;
use crate::machine::Machine;
use crate::marks::Submitted;
use crate::order::Span;

/// Where work is done, and what notes what it touches.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scene<'a> {
    pub(crate) machine: &'a Machine,
    pub(crate) device: &'a Device,
    /// When it was submitted, if guarded memory makes that matter.
    pub(crate) submitted: Option<&'a Submitted>,
    /// Stretches that kernels have touched, if races between streams are looked for.
    pub(crate) touched: Option<&'a RefCell<Vec<Span>>>,
}
