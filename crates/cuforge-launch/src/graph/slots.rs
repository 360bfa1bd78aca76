//! Slots: arguments, grids and views marked while capturing, set later, handed to the driver where they changed.

use crate::error::LaunchError;
use crate::graph::inside::{kernel, kernel_mut, paths};
use crate::graph::pinned_view::lease_used;
use crate::graph::recorded::{KernelNode, Marked, Recorded, Role, Site, SlotKind, Work};
use crate::graph::replay::Graph;
use crate::graph::scope::CaptureScope;
use crate::graph_error::GraphError;
use bytemuck::Pod;
use cuforge_core::{Arguments, BufferView, Element, Extent, LaunchGeometry, Parameter};
use std::fmt;
use std::marker::PhantomData;

/// A type that a scalar parameter can take. Sealed.
pub trait Scalar: Pod + sealed::Sealed {
    #[doc(hidden)]
    fn fits(element: Element) -> bool;
    #[doc(hidden)]
    const NAME: &'static str;
}

mod sealed {
    pub trait Sealed {}
}

macro_rules! scalars {
    ($($kind:ty: $($element:ident)|+;)*) => {$(
        impl sealed::Sealed for $kind {}
        impl Scalar for $kind {
            fn fits(element: Element) -> bool {
                matches!(element, $(Element::$element)|+)
            }
            const NAME: &'static str = stringify!($kind);
        }
    )*};
}

// Half precision travels as its bits: no type of the language stands for it.
scalars! {
    i8: I8;
    u8: U8;
    i16: I16;
    u16: U16 | F16 | BF16;
    i32: I32;
    u32: U32;
    i64: I64;
    u64: U64;
    f32: F32;
    f64: F64;
}

/// A scalar or a uniform block of a graph, found by name. `Copy`.
pub struct ValueSlot<T> {
    at: Handle,
    value: PhantomData<fn(T)>,
}

/// A grid of a graph, found by name.
#[derive(Clone, Copy, Debug)]
pub struct GridSlot(Handle);

/// A view of a graph, found by name.
#[derive(Clone, Copy, Debug)]
pub struct ViewSlot(Handle);

#[derive(Clone, Copy, Debug)]
struct Handle {
    template: u64,
    index: usize,
}

impl CaptureScope<'_> {
    /// Marks a scalar parameter of the kernel launched last as a slot. A name that is taken by a slot of the same type
    /// is one slot for all these places.
    ///
    /// # Errors
    /// [`GraphError::NothingToMark`], [`GraphError::NoSuchParameter`], [`GraphError::SlotType`].
    pub fn mark_scalar<T: Scalar>(&mut self, slot: &str, parameter: &str) -> Result<(), LaunchError> {
        self.mark(slot, |kernel| {
            let wanted = |p: &Parameter| match p {
                Parameter::Scalar { name, element } if name == parameter => Some(*element),
                _ => None,
            };
            let missing = || kernel.lacks(slot, format!("scalar `{parameter}`"));
            let (at, element) = kernel.parameter(wanted).ok_or_else(missing)?;
            if !T::fits(element) {
                return Err(wrong(slot, SlotKind::Scalar(element), T::NAME));
            }
            Ok((SlotKind::Scalar(element), at))
        })
    }

    /// Marks the uniform block of the kernel launched last as a slot.
    ///
    /// # Errors
    /// As [`mark_scalar`](Self::mark_scalar); [`GraphError::SlotType`] where the block has another size.
    pub fn mark_uniform<T: Pod>(&mut self, slot: &str) -> Result<(), LaunchError> {
        self.mark(slot, |kernel| {
            let wanted = |p: &Parameter| match p {
                Parameter::Uniform { bytes, .. } => Some(*bytes as usize),
                _ => None,
            };
            let missing = || kernel.lacks(slot, "uniform block".to_owned());
            let (at, bytes) = kernel.parameter(wanted).ok_or_else(missing)?;
            if bytes != size_of::<T>() {
                return Err(wrong(slot, SlotKind::Uniform { bytes }, &format!("{} bytes", size_of::<T>())));
            }
            Ok((SlotKind::Uniform { bytes }, at))
        })
    }

    /// Marks the grid of the kernel launched last as a slot.
    ///
    /// # Errors
    /// As [`mark_scalar`](Self::mark_scalar).
    pub fn mark_grid(&mut self, slot: &str) -> Result<(), LaunchError> {
        self.mark(slot, |_| Ok((SlotKind::Grid, 0)))
    }

    /// Marks the view bound at (group, binding) of the kernel launched last as a slot.
    ///
    /// # Errors
    /// As [`mark_scalar`](Self::mark_scalar).
    pub fn mark_view(&mut self, slot: &str, group: u32, binding: u32) -> Result<(), LaunchError> {
        self.mark(slot, |kernel| {
            let at = kernel.views.iter().position(|view| (view.group(), view.binding()) == (group, binding));
            let missing = || kernel.lacks(slot, format!("buffer at group {group} binding {binding}"));
            Ok((SlotKind::View, at.ok_or_else(missing)?))
        })
    }

    fn mark(
        &mut self,
        slot: &str,
        find: impl FnOnce(&KernelNode) -> Result<(SlotKind, usize), GraphError>,
    ) -> Result<(), LaunchError> {
        let mut recorder = self.recorder().borrow_mut();
        recorder.admit()?;
        let recorded = &mut recorder.recorded;
        let nothing = || GraphError::NothingToMark { slot: slot.to_owned() };
        let node = self.last().ok_or_else(nothing)?;
        // The crate's own kernels take addresses by value: nobody else may set those.
        let kernel = match &recorded.nodes[node].work {
            Work::Kernel(kernel) if matches!(kernel.role, Role::Plain) => kernel,
            _ => return Err(nothing().into()),
        };
        let (kind, at) = find(kernel)?;
        match recorded.slots.iter_mut().find(|known| known.name == slot) {
            Some(known) if known.kind != kind => {
                return Err(wrong(slot, known.kind, &kind.to_string()).into());
            }
            _ => {}
        }
        let site = Site { path: [node].into(), number: node, parameter: at };
        recorded.add_site(slot, kind, site);
        Ok(())
    }

    /// Slots of recordings that are to be put in here do not contradict those of the capture, nor each other.
    pub(crate) fn check_slots(&self, recordings: &[Recorded]) -> Result<(), LaunchError> {
        let recorder = self.recorder().borrow();
        let inner = || recordings.iter().flat_map(|recorded| &recorded.slots);
        for slot in inner() {
            let mut known = recorder.recorded.slots.iter().chain(inner());
            if let Some(other) = known.find(|known| known.name == slot.name && known.kind != slot.kind) {
                return Err(wrong(&slot.name, other.kind, &slot.kind.to_string()).into());
            }
        }
        Ok(())
    }

    /// The slots of the graphs inside the last node are the capture's too.
    pub(crate) fn take_slots(&mut self) {
        let Some(place) = self.last() else { return };
        let recorded = &mut self.recorder().borrow_mut().recorded;
        let inside = recorded.nodes[place].work.inside().iter().enumerate();
        let found: Vec<_> =
            inside.flat_map(|(at, inner)| inner.slots.iter().map(move |slot| (at, slot.clone()))).collect();
        for (graph, slot) in found {
            for site in slot.places {
                let path = [&[place, graph], &*site.path].concat().into();
                recorded.add_site(&slot.name, slot.kind, Site { path, ..site });
            }
        }
    }
}

impl Recorded {
    /// A slot's value goes there too.
    fn add_site(&mut self, slot: &str, kind: SlotKind, site: Site) {
        match self.slots.iter_mut().find(|known| known.name == slot) {
            Some(known) => known.places.push(site),
            None => self.slots.push(Marked { name: slot.to_owned(), kind, places: vec![site] }),
        }
    }

    /// Numbers the nodes that have slots; the recording is complete.
    pub(crate) fn number_sites(&mut self) {
        let (own, inside) = (self.nodes.len(), paths(self));
        for site in self.slots.iter_mut().flat_map(|slot| &mut slot.places) {
            site.number = match *site.path {
                [place] => place,
                _ => own + inside.iter().position(|path| *path == site.path).unwrap_or_default(),
            };
        }
    }
}

impl KernelNode {
    /// The first parameter that `wanted` takes, by its place.
    fn parameter<T>(&self, wanted: impl Fn(&Parameter) -> Option<T>) -> Option<(usize, T)> {
        let mut parameters = self.pipeline.built.spec().parameters().iter().enumerate();
        parameters.find_map(|(at, parameter)| wanted(parameter).map(|found| (at, found)))
    }

    fn lacks(&self, slot: &str, parameter: String) -> GraphError {
        GraphError::NoSuchParameter { slot: slot.to_owned(), entry: self.entry().to_owned(), parameter }
    }
}

fn wrong(slot: &str, is: SlotKind, asked: &str) -> GraphError {
    GraphError::SlotType { slot: slot.to_owned(), is: is.to_string(), asked: asked.to_owned() }
}

impl Graph {
    /// The scalar slot of that name.
    ///
    /// # Errors
    /// [`GraphError::NoSuchSlot`], [`GraphError::SlotType`].
    pub fn scalar_slot<T: Scalar>(&self, name: &str) -> Result<ValueSlot<T>, GraphError> {
        let at = self.find(name, T::NAME, |kind| matches!(kind, SlotKind::Scalar(e) if T::fits(e)))?;
        Ok(ValueSlot { at, value: PhantomData })
    }

    /// The uniform slot of that name.
    ///
    /// # Errors
    /// As [`scalar_slot`](Self::scalar_slot).
    pub fn uniform_slot<T: Pod>(&self, name: &str) -> Result<ValueSlot<T>, GraphError> {
        let fits = |kind| matches!(kind, SlotKind::Uniform { bytes } if bytes == size_of::<T>());
        Ok(ValueSlot { at: self.find(name, "a uniform block of another size", fits)?, value: PhantomData })
    }

    /// The grid slot of that name.
    ///
    /// # Errors
    /// As [`scalar_slot`](Self::scalar_slot).
    pub fn grid_slot(&self, name: &str) -> Result<GridSlot, GraphError> {
        self.find(name, "a grid", |kind| kind == SlotKind::Grid).map(GridSlot)
    }

    /// The view slot of that name.
    ///
    /// # Errors
    /// As [`scalar_slot`](Self::scalar_slot).
    pub fn view_slot(&self, name: &str) -> Result<ViewSlot, GraphError> {
        self.find(name, "a view", |kind| kind == SlotKind::View).map(ViewSlot)
    }

    /// Sets a scalar or uniform block from the next replay on; replays in flight keep theirs. No driver call and no
    /// allocation: the next replay hands the driver what changed, and nothing where the value is the same.
    ///
    /// # Errors
    /// [`GraphError::ForeignSlot`].
    pub fn set<T: Pod>(&mut self, slot: ValueSlot<T>, value: T) -> Result<(), LaunchError> {
        let index = self.index(slot.at)?;
        let bytes = bytemuck::bytes_of(&value);
        for site in &self.shadow.slots[index].places {
            let Some(kernel) = kernel_mut(&mut self.shadow.nodes, &site.path) else { continue };
            let field = kernel.pipeline.built.layout.fields().nth(site.parameter);
            let place = field.and_then(|(at, size)| kernel.packed.get_mut(at..at + size));
            // Type and size were checked when the slot was marked and found.
            if let Some(place) = place.filter(|place| **place != *bytes && place.len() == bytes.len()) {
                place.copy_from_slice(bytes);
                self.patches.changed(site.number);
            }
        }
        Ok(())
    }

    /// As [`set`](Self::set), by name.
    ///
    /// # Errors
    /// As [`scalar_slot`](Self::scalar_slot).
    pub fn set_scalar<T: Scalar>(&mut self, name: &str, value: T) -> Result<(), LaunchError> {
        let slot = self.scalar_slot(name)?;
        self.set(slot, value)
    }

    /// Sets a grid from the next replay on, checked against device and kernel; one with a zero launches nothing.
    ///
    /// # Errors
    /// [`GraphError::ForeignSlot`]; those of [`Pipeline::geometry`](crate::Pipeline::geometry), and nothing is changed.
    pub fn set_grid(&mut self, slot: GridSlot, grid: [u32; 3]) -> Result<(), LaunchError> {
        let index = self.index(slot.0)?;
        let with_grid = |kernel: &KernelNode| {
            let geometry = LaunchGeometry { grid, ..kernel.geometry };
            kernel.pipeline.built.geometry(Extent::Geometry(geometry))
        };
        for site in &self.shadow.slots[index].places {
            if let Some(kernel) = kernel(&self.shadow.nodes, &site.path) {
                with_grid(kernel)?;
            }
        }
        for site in &self.shadow.slots[index].places {
            let Some(kernel) = kernel_mut(&mut self.shadow.nodes, &site.path) else { continue };
            if kernel.geometry.grid != grid {
                kernel.geometry.grid = grid;
                self.patches.changed(site.number);
            }
        }
        Ok(())
    }

    /// Sets a view from the next replay on: its address, and its length where the kernel takes it. The graph holds the
    /// new view and lets go of the old one, whose memory goes to nobody else before replays in flight are done. No
    /// driver call and no allocation.
    ///
    /// # Errors
    /// [`GraphError::ForeignSlot`]; [`LaunchError::View`], [`LaunchError::Bind`] where the view does not fit, and
    /// nothing is changed.
    pub fn set_view(&mut self, slot: ViewSlot, view: &BufferView) -> Result<(), LaunchError> {
        let index = self.index(slot.0)?;
        let first = self.shadow.slots[index].places.first();
        let Some(first) = first.and_then(|site| kernel(&self.shadow.nodes, &site.path)) else {
            return Ok(());
        };
        // Held until every place holds it, so that it cannot go away between the check of one and the next.
        let _held = first.slab.pins().pin(view)?;
        for commit in [false, true] {
            for place in 0..self.shadow.slots[index].places.len() {
                self.rebind(index, place, view, commit)?;
            }
        }
        Ok(())
    }

    /// Checks the view against one kernel, and puts it there if so wanted.
    fn rebind(
        &mut self,
        slot: usize,
        place: usize,
        view: &BufferView,
        commit: bool,
    ) -> Result<(), LaunchError> {
        let site = &self.shadow.slots[slot].places[place];
        let Some(kernel) = kernel_mut(&mut self.shadow.nodes, &site.path) else { return Ok(()) };
        let at = site.parameter;
        let old = kernel.views[at];
        let new = view.bound_to(old.group(), old.binding(), old.access())?;
        if new == old {
            return Ok(());
        }
        let lease = kernel.slab.pins().pin(&new)?;
        let layout = &kernel.pipeline.built.layout;
        let zeros = &self.patches.zeros[..layout.by_value_bytes()];
        kernel.views[at] = new;
        let arguments = Arguments { views: &kernel.views, by_value: zeros };
        let packed = layout.pack(&arguments, kernel.slab.base(), &mut self.patches.scratch);
        if !commit || packed.is_err() {
            kernel.views[at] = old;
            return Ok(packed.map(|_| ())?);
        }
        for (parameter, (from, bytes)) in
            kernel.pipeline.built.spec().parameters().iter().zip(layout.fields())
        {
            if let Parameter::Buffer { .. } | Parameter::BufferLength { .. } = parameter {
                let field = from..from + bytes;
                kernel.packed[field.clone()].copy_from_slice(&self.patches.scratch[field]);
            }
        }
        let before = std::mem::replace(&mut kernel.leases[at], lease);
        lease_used(&kernel.slab, &before, &self.uses);
        self.patches.changed(site.number);
        Ok(())
    }

    fn find(&self, name: &str, asked: &str, fits: impl Fn(SlotKind) -> bool) -> Result<Handle, GraphError> {
        let slots = &self.shadow.slots;
        let missing = || GraphError::NoSuchSlot { slot: name.to_owned() };
        let index = slots.iter().position(|slot| slot.name == name).ok_or_else(missing)?;
        if !fits(slots[index].kind) {
            return Err(wrong(name, slots[index].kind, asked));
        }
        Ok(Handle { template: self.template.serial(), index })
    }

    fn index(&self, handle: Handle) -> Result<usize, GraphError> {
        if handle.template == self.template.serial() {
            Ok(handle.index)
        } else {
            Err(GraphError::ForeignSlot)
        }
    }
}

impl<T> Clone for ValueSlot<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for ValueSlot<T> {}

impl<T> fmt::Debug for ValueSlot<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ValueSlot").field(&self.at).finish()
    }
}
