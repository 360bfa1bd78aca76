//! What can be wrong with a case, a reference or a backend, told apart.

use cuforge_core::{BindError, ContextError, Element};

use crate::tracked::Undecided;

/// An error of the oracle. A wrong *result* is no error: it is a [`Verdict`](crate::Verdict).
///
/// All but [`OracleError::Context`] are faults of the case or its reference; they name the case's part at fault.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OracleError {
    /// The case has no buffer of that name.
    #[error("case `{case}` has no buffer `{buffer}`")]
    UnknownBuffer {
        /// The case.
        case: String,
        /// The name asked for.
        buffer: String,
    },
    /// The case has no uniform field or scalar of that name.
    #[error("case `{case}` has no value `{value}`")]
    UnknownValue {
        /// The case.
        case: String,
        /// The name asked for.
        value: String,
    },
    /// Two parts of a case have one name.
    #[error("case `{case}` names `{name}` twice")]
    DoubleName {
        /// The case.
        case: String,
        /// The name.
        name: String,
    },
    /// A case without a buffer that the kernel writes judges nothing.
    #[error("case `{case}` has no output")]
    NoOutput {
        /// The case.
        case: String,
    },
    /// The case's buffers or values do not fit the kernel's parameters.
    #[error("case `{case}` does not fit kernel `{kernel}`: {source}")]
    Parameters {
        /// The case.
        case: String,
        /// The kernel's id.
        kernel: String,
        /// What does not fit.
        source: BindError,
    },
    /// The buffers do not fit the device; nothing was allocated, on the host neither.
    #[error("case `{case}` needs {bytes} bytes up to buffer `{buffer}`, the device has {device_bytes}")]
    BeyondDevice {
        /// The case.
        case: String,
        /// The first buffer that does not fit.
        buffer: String,
        /// Bytes of the buffers up to this one.
        bytes: u64,
        /// Bytes of the device's memory, or of its largest buffer if this one exceeds that.
        device_bytes: u64,
    },
    /// A buffer's element type differs from the kernel's parameter.
    #[error("case `{case}`: buffer `{buffer}` holds {given}, kernel `{kernel}` takes {wanted}")]
    ElementMismatch {
        /// The case.
        case: String,
        /// The kernel's id.
        kernel: String,
        /// The buffer.
        buffer: String,
        /// What the case says.
        given: Element,
        /// What the kernel's parameter says.
        wanted: Element,
    },
    /// The kernel's uniform fields are laid out larger than the block that it declares.
    #[error("case `{case}`: {bytes} bytes of uniform fields, kernel `{kernel}` declares {declared}")]
    UniformSize {
        /// The case.
        case: String,
        /// The kernel's id.
        kernel: String,
        /// Bytes of the case's fields.
        bytes: usize,
        /// Bytes that the kernel declares.
        declared: usize,
    },
    /// A fill cannot produce this element type, or its limits are no range.
    #[error("case `{case}`: buffer `{buffer}` of {element} cannot be filled: {reason}")]
    Fill {
        /// The case.
        case: String,
        /// The buffer.
        buffer: String,
        /// Its element type.
        element: Element,
        /// What is wrong.
        reason: &'static str,
    },
    /// A buffer is too large for this host.
    #[error("case `{case}`: buffer `{buffer}` of {elements} elements is beyond this host")]
    TooLarge {
        /// The case.
        case: String,
        /// The buffer.
        buffer: String,
        /// Its length.
        elements: u64,
    },
    /// The reduced case is of another kernel or schedule.
    #[error("case `{case}` was given a reduced case of another kernel or schedule")]
    ReducedDiffers {
        /// The case.
        case: String,
    },
    /// The reference used a buffer against its role or type.
    #[error("reference of case `{case}`: buffer `{buffer}` {reason}")]
    ReferenceUse {
        /// The case.
        case: String,
        /// The buffer.
        buffer: String,
        /// What is wrong.
        reason: &'static str,
    },
    /// The reference stored another number of elements than the buffer has.
    #[error("reference of case `{case}` stored {stored} elements in `{buffer}`, which has {elements}")]
    ReferenceLength {
        /// The case.
        case: String,
        /// The buffer.
        buffer: String,
        /// Elements stored.
        stored: u64,
        /// Elements there are.
        elements: u64,
    },
    /// The reference compared numbers that a correct kernel may order either way.
    #[error(
        "reference of case `{case}` compared {} with {}, which their bounds (together {}) cannot decide",
        undecided.left, undecided.right, undecided.bound
    )]
    Undecided {
        /// The case.
        case: String,
        /// The first such comparison.
        undecided: Undecided,
    },
    /// No finite bound can be given for an element: the reference divides by what may be zero, may overflow on the
    /// way, or uses a function outside of its stated range.
    #[error(
        "reference of case `{case}` has no error bound for element {index} of `{buffer}` (value {value})"
    )]
    Unbounded {
        /// The case.
        case: String,
        /// The buffer.
        buffer: String,
        /// The element.
        index: u64,
        /// The reference's value.
        value: f64,
    },
    /// The reference is NaN where the case does not say that NaN is right.
    #[error(
        "reference of case `{case}` is NaN at element {index} of `{buffer}`, which its policy does not allow"
    )]
    NanReference {
        /// The case.
        case: String,
        /// The buffer.
        buffer: String,
        /// The element.
        index: u64,
    },
    /// A corpus kernel was given a shape with another number of axes.
    #[error("kernel `{kernel}` has the axes {axes}, which the shape `{shape}` does not fit")]
    Shape {
        /// The kernel.
        kernel: &'static str,
        /// The shape.
        shape: String,
        /// The axes it has.
        axes: String,
    },
    /// A corpus kernel does not come in this form.
    #[error("kernel `{kernel}` does not come as {form}")]
    MissingForm {
        /// The kernel.
        kernel: &'static str,
        /// The form asked for.
        form: &'static str,
    },
    /// The backend failed in a way that is neither a verdict on the kernel nor a missing part: the case or the kernel
    /// is wrong, or memory is out.
    #[error(transparent)]
    Context(#[from] ContextError),
}
