//! The packed parameter block of a kernel: where each argument goes, and views matched to it by binding.

use crate::compute::Arguments;
use crate::kernel::Parameter;
use crate::view::{Access, BufferView};
use alloc::string::{String, ToString};
use alloc::vec::Vec;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Piece {
    /// Pointer to the view of this index in (group, binding) order.
    Pointer(usize),
    /// Length of the view of this index.
    Length(usize),
    /// So many bytes of `by_value` from there.
    Value { from: usize, bytes: usize },
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Binding {
    name: String,
    group: u32,
    binding: u32,
    element_bytes: u64,
    access: Access,
}

/// Where each parameter lies in the packed block that a launch hands over, and which views it takes.
///
/// Parameters lie in order at their natural alignment, as the CUDA ABI has it: pointers and lengths are 8 bytes,
/// scalars their own size, the uniform block its declared size and alignment.
///
/// ```
/// use cuforge_core::{Access, Element, Parameter, ParameterLayout};
/// let layout = ParameterLayout::new(&[
///     Parameter::buffer("x", 0, Element::F32, Access::StorageReadWrite),
///     Parameter::scalar("scale", Element::F32),
///     Parameter::scalar("n", Element::U64),
/// ])?;
/// assert_eq!((layout.packed_bytes(), layout.by_value_bytes()), (24, 16));
/// assert!(layout.fields().eq([(0, 8), (8, 4), (16, 8)]));
/// # Ok::<(), cuforge_core::BindError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParameterLayout {
    /// Each piece with its offset in the packed block.
    pieces: Vec<(usize, Piece)>,
    /// Bindings in (group, binding) order.
    bindings: Vec<Binding>,
    packed_bytes: usize,
    by_value_bytes: usize,
}

impl ParameterLayout {
    /// The layout of `parameters`.
    ///
    /// # Errors
    /// [`BindError::DoubleBinding`], [`BindError::NoSuchBuffer`] (a length of a buffer that is not listed),
    /// [`BindError::Uniform`] (two uniform blocks, one behind a scalar, or a bad alignment).
    pub fn new(parameters: &[Parameter]) -> Result<Self, BindError> {
        let bindings = bindings_of(parameters)?;
        let index_of = |group: u32, binding: u32| {
            bindings
                .binary_search_by_key(&(group, binding), |b| (b.group, b.binding))
                .map_err(|_| BindError::NoSuchBuffer { group, binding })
        };
        let mut layout =
            Self { pieces: Vec::new(), bindings: Vec::new(), packed_bytes: 0, by_value_bytes: 0 };
        let (mut has_uniform, mut has_scalar) = (false, false);
        for parameter in parameters {
            let (bytes, align, piece) = match *parameter {
                Parameter::Buffer { group, binding, .. } => (8, 8, Piece::Pointer(index_of(group, binding)?)),
                Parameter::BufferLength { group, binding } => {
                    (8, 8, Piece::Length(index_of(group, binding)?))
                }
                Parameter::Uniform { bytes, align } => {
                    if has_uniform || has_scalar {
                        return Err(BindError::Uniform { reason: "comes once and before the scalars" });
                    }
                    if !align.is_power_of_two() {
                        return Err(BindError::Uniform {
                            reason: "has an alignment that is no power of two",
                        });
                    }
                    has_uniform = true;
                    layout.value(bytes as usize, align as usize)
                }
                Parameter::Scalar { element, .. } => {
                    has_scalar = true;
                    layout.value(element.size_bytes() as usize, element.size_bytes() as usize)
                }
            };
            let at = layout.packed_bytes.next_multiple_of(align);
            layout.pieces.push((at, piece));
            layout.packed_bytes = at + bytes;
        }
        layout.bindings = bindings;
        Ok(layout)
    }

    /// Takes the next `bytes` of `by_value`.
    fn value(&mut self, bytes: usize, align: usize) -> (usize, usize, Piece) {
        let from = self.by_value_bytes.next_multiple_of(align);
        self.by_value_bytes = from + bytes;
        (bytes, align, Piece::Value { from, bytes })
    }

    /// Bytes of the packed block.
    pub fn packed_bytes(&self) -> usize {
        self.packed_bytes
    }

    /// Bytes that [`Arguments::by_value`] must have: the uniform block, then the scalars, each naturally aligned.
    pub fn by_value_bytes(&self) -> usize {
        self.by_value_bytes
    }

    /// Offset and size in bytes of each parameter in the packed block, in order: what a driver's own layout of the
    /// compiled kernel can be held against.
    pub fn fields(&self) -> impl ExactSizeIterator<Item = (usize, usize)> + '_ {
        self.pieces.iter().map(|&(at, piece)| match piece {
            Piece::Pointer(_) | Piece::Length(_) => (at, 8),
            Piece::Value { bytes, .. } => (at, bytes),
        })
    }

    /// Buffers that the kernel takes.
    pub fn buffers(&self) -> usize {
        self.bindings.len()
    }

    /// Writes the packed block for `arguments` into `packed`, with `base` the device address of the slab; padding
    /// is zero. Views may come in any order; views sorted by (group, binding) skip the search. No allocation unless
    /// it fails.
    ///
    /// # Errors
    /// A [`BindError`] that names the missing, extra, doubled, unwritable or ill-sized argument; `packed` is then
    /// unspecified.
    pub fn pack(&self, arguments: &Arguments<'_>, base: u64, packed: &mut [u8]) -> Result<usize, BindError> {
        let Some(block) = packed.get_mut(..self.packed_bytes) else {
            return Err(BindError::PackedTooShort { bytes: packed.len(), need: self.packed_bytes });
        };
        if arguments.by_value.len() != self.by_value_bytes {
            return Err(BindError::ByValue { bytes: arguments.by_value.len(), need: self.by_value_bytes });
        }
        let sorted = self.is_sorted(arguments.views);
        if !sorted {
            self.check_extra(arguments.views)?;
        }
        block.fill(0);
        for &(at, piece) in &self.pieces {
            let eight = |value: u64| value.to_le_bytes();
            match piece {
                Piece::Pointer(index) => {
                    let view = self.view(arguments.views, index, sorted)?;
                    let address = base.checked_add(view.offset()).ok_or_else(|| self.missing(index))?;
                    block[at..at + 8].copy_from_slice(&eight(address));
                }
                Piece::Length(index) => {
                    let view = self.view(arguments.views, index, sorted)?;
                    block[at..at + 8].copy_from_slice(&eight(view.len()));
                }
                Piece::Value { from, bytes } => {
                    block[at..at + bytes].copy_from_slice(&arguments.by_value[from..from + bytes]);
                }
            }
        }
        Ok(self.packed_bytes)
    }

    /// Replaces the uniform block and the scalars in a packed block; pointers and lengths stay. No allocation.
    ///
    /// # Errors
    /// [`BindError::ByValue`], [`BindError::PackedTooShort`]; nothing is changed then.
    pub fn repack_values(&self, by_value: &[u8], packed: &mut [u8]) -> Result<(), BindError> {
        if by_value.len() != self.by_value_bytes {
            return Err(BindError::ByValue { bytes: by_value.len(), need: self.by_value_bytes });
        }
        if packed.len() < self.packed_bytes {
            return Err(BindError::PackedTooShort { bytes: packed.len(), need: self.packed_bytes });
        }
        for &(at, piece) in &self.pieces {
            if let Piece::Value { from, bytes } = piece {
                packed[at..at + bytes].copy_from_slice(&by_value[from..from + bytes]);
            }
        }
        Ok(())
    }

    fn is_sorted(&self, views: &[BufferView]) -> bool {
        views.len() == self.bindings.len()
            && views.iter().zip(&self.bindings).all(|(v, b)| (v.group(), v.binding()) == (b.group, b.binding))
    }

    fn view<'v>(
        &self,
        views: &'v [BufferView],
        index: usize,
        sorted: bool,
    ) -> Result<&'v BufferView, BindError> {
        let wanted = &self.bindings[index];
        let view = if sorted {
            &views[index]
        } else {
            views
                .iter()
                .find(|v| (v.group(), v.binding()) == (wanted.group, wanted.binding))
                .ok_or_else(|| self.missing(index))?
        };
        if !view.access().allows(wanted.access) {
            return Err(BindError::ReadOnly { name: wanted.name.clone() });
        }
        let whole = |bytes: u64| bytes.is_multiple_of(wanted.element_bytes);
        if !whole(view.len()) || !whole(view.offset()) {
            return Err(BindError::NotWholeElements {
                name: wanted.name.clone(),
                offset: view.offset(),
                len: view.len(),
                element_bytes: wanted.element_bytes,
            });
        }
        Ok(view)
    }

    fn missing(&self, index: usize) -> BindError {
        let wanted = &self.bindings[index];
        BindError::Missing { name: wanted.name.clone(), group: wanted.group, binding: wanted.binding }
    }

    fn check_extra(&self, views: &[BufferView]) -> Result<(), BindError> {
        for (at, view) in views.iter().enumerate() {
            let (group, binding) = (view.group(), view.binding());
            if self.bindings.binary_search_by_key(&(group, binding), |b| (b.group, b.binding)).is_err() {
                return Err(BindError::Extra { group, binding });
            }
            if views[..at].iter().any(|v| (v.group(), v.binding()) == (group, binding)) {
                return Err(BindError::DoubleBinding { group, binding });
            }
        }
        Ok(())
    }
}

fn bindings_of(parameters: &[Parameter]) -> Result<Vec<Binding>, BindError> {
    let mut bindings: Vec<Binding> = parameters
        .iter()
        .filter_map(|parameter| match parameter {
            Parameter::Buffer { name, group, binding, element, access } => Some(Binding {
                name: name.to_string(),
                group: *group,
                binding: *binding,
                element_bytes: u64::from(element.size_bytes()),
                access: *access,
            }),
            _ => None,
        })
        .collect();
    bindings.sort_by_key(|b| (b.group, b.binding));
    for pair in bindings.windows(2) {
        if (pair[0].group, pair[0].binding) == (pair[1].group, pair[1].binding) {
            return Err(BindError::DoubleBinding { group: pair[0].group, binding: pair[0].binding });
        }
    }
    Ok(bindings)
}

/// Why arguments do not fit a kernel's parameters. All are faults of the caller's code.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BindError {
    /// A buffer that the kernel takes was not given.
    #[error("missing buffer `{name}` (group {group} binding {binding})")]
    Missing {
        /// The parameter's name.
        name: String,
        /// Its bind group.
        group: u32,
        /// Its binding.
        binding: u32,
    },
    /// A view is bound where the kernel takes none.
    #[error("extra view bound to group {group} binding {binding}, where the kernel takes none")]
    Extra {
        /// The view's bind group.
        group: u32,
        /// The view's binding.
        binding: u32,
    },
    /// Two views, or two parameters, have one binding.
    #[error("group {group} binding {binding} is bound twice")]
    DoubleBinding {
        /// The bind group.
        group: u32,
        /// The binding.
        binding: u32,
    },
    /// A length is wanted of a buffer that is no parameter.
    #[error("no buffer parameter at group {group} binding {binding}")]
    NoSuchBuffer {
        /// The bind group.
        group: u32,
        /// The binding.
        binding: u32,
    },
    /// The kernel writes a buffer that is bound read-only.
    #[error("buffer `{name}` is written by the kernel and bound read-only")]
    ReadOnly {
        /// The parameter's name.
        name: String,
    },
    /// The view does not hold whole, aligned elements.
    #[error(
        "buffer `{name}`: {len} bytes at offset {offset} are not whole elements of {element_bytes} bytes"
    )]
    NotWholeElements {
        /// The parameter's name.
        name: String,
        /// The view's offset in bytes.
        offset: u64,
        /// The view's length in bytes.
        len: u64,
        /// An element's size in bytes.
        element_bytes: u64,
    },
    /// The uniform block and scalars have another size.
    #[error("{bytes} bytes of uniform and scalars given, the kernel takes {need}")]
    ByValue {
        /// Bytes given.
        bytes: usize,
        /// Bytes needed.
        need: usize,
    },
    /// The block to pack into is too short.
    #[error("packed block of {bytes} bytes, {need} needed")]
    PackedTooShort {
        /// Bytes given.
        bytes: usize,
        /// Bytes needed.
        need: usize,
    },
    /// The uniform block is declared wrongly.
    #[error("the uniform block {reason}")]
    Uniform {
        /// What is wrong.
        reason: &'static str,
    },
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::element::Element;
    use crate::view::SlabId;
    use alloc::vec;

    fn bound(offset: u64, len: u64, binding: u32) -> BufferView {
        let view = BufferView::mint(SlabId::next(), 0, 1, offset, len, Access::StorageReadWrite);
        view.bound_to(0, binding, Access::StorageReadWrite).unwrap()
    }

    fn kernel() -> Vec<Parameter> {
        vec![
            Parameter::buffer("x", 0, Element::F32, Access::StorageRead),
            Parameter::buffer("y", 3, Element::F64, Access::StorageReadWrite),
            Parameter::Uniform { bytes: 12, align: 16 },
            Parameter::scalar("flag", Element::U8),
            Parameter::scalar("n", Element::U64),
            Parameter::BufferLength { group: 0, binding: 3 },
        ]
    }

    fn pack(views: &[BufferView], by_value: &[u8]) -> Result<Vec<u8>, BindError> {
        let layout = ParameterLayout::new(&kernel())?;
        let mut packed = [0xAA; 64];
        let n = layout.pack(&Arguments { views, by_value }, 0x1000, &mut packed)?;
        Ok(packed[..n].to_vec())
    }

    #[test]
    fn arguments_lie_at_natural_alignment_whatever_order_the_views_come_in() {
        let by_value: Vec<u8> = (1..=24).collect();
        let (x, y) = (bound(0x100, 16, 0), bound(0x200, 32, 3));
        let packed = pack(&[x, y], &by_value).unwrap();
        assert_eq!(packed, pack(&[y, x], &by_value).unwrap());
        let mut want = vec![];
        want.extend(0x1100u64.to_le_bytes());
        want.extend(0x1200u64.to_le_bytes());
        want.extend(1..=12); // the uniform block, at its alignment of 16
        want.extend([13, 0, 0, 0]); // the u8, then padding to the u64
        want.extend(17..=24);
        want.extend(32u64.to_le_bytes());
        assert_eq!(packed, want);
    }

    #[test]
    fn a_missing_extra_doubled_or_ill_sized_argument_is_named() {
        let value = [0; 24];
        let (x, y) = (bound(0x100, 16, 0), bound(0x200, 32, 3));
        assert_eq!(pack(&[x], &value), Err(BindError::Missing { name: "y".into(), group: 0, binding: 3 }));
        assert_eq!(pack(&[x, y, bound(0, 8, 5)], &value), Err(BindError::Extra { group: 0, binding: 5 }));
        assert_eq!(pack(&[x, y, y], &value), Err(BindError::DoubleBinding { group: 0, binding: 3 }));
        assert_eq!(pack(&[x, y], &value[..23]), Err(BindError::ByValue { bytes: 23, need: 24 }));
        let read_only = y.bound_to(0, 3, Access::StorageRead).unwrap();
        assert_eq!(pack(&[x, read_only], &value), Err(BindError::ReadOnly { name: "y".into() }));
        for (offset, len) in [(0x204, 32), (0x200, 30)] {
            let got = pack(&[x, bound(offset, len, 3)], &value);
            assert!(matches!(got, Err(BindError::NotWholeElements { element_bytes: 8, .. })), "{got:?}");
        }
        let layout = ParameterLayout::new(&kernel()).unwrap();
        let short = layout.pack(&Arguments { views: &[x, y], by_value: &value }, 0, &mut [0; 47]);
        assert_eq!(short, Err(BindError::PackedTooShort { bytes: 47, need: 48 }));
    }

    #[test]
    fn parameters_that_contradict_themselves_are_refused() {
        let x = Parameter::buffer("x", 0, Element::F32, Access::StorageRead);
        let uniform = |align| Parameter::Uniform { bytes: 4, align };
        let twice = ParameterLayout::new(&[x.clone(), x.clone()]);
        assert_eq!(twice, Err(BindError::DoubleBinding { group: 0, binding: 0 }));
        let length = ParameterLayout::new(&[x, Parameter::BufferLength { group: 1, binding: 0 }]);
        assert_eq!(length, Err(BindError::NoSuchBuffer { group: 1, binding: 0 }));
        for bad in [
            vec![uniform(3)],
            vec![uniform(0)],
            vec![uniform(4), uniform(4)],
            vec![Parameter::scalar("s", Element::F32), uniform(4)],
        ] {
            assert!(matches!(ParameterLayout::new(&bad), Err(BindError::Uniform { .. })), "{bad:?}");
        }
    }
}
