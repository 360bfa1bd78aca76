//! What a case's kernel is given: named buffers with roles and contents, uniform fields, scalars.

use std::borrow::Cow;

use cuforge_core::Element;

use crate::compare::Policy;
use crate::error::OracleError;
use crate::fill::Fill;
use crate::number::Scalar;
use crate::random::Random;

/// What a kernel does with a buffer.
///
/// ```
/// use cuforge_oracle::Role;
/// assert_ne!(Role::Output, Role::InOut);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// Reads it.
    Input,
    /// Writes all of it; poisoned before every run.
    Output,
    /// Reads and writes it; filled before every run.
    InOut,
}

/// One buffer of a case.
///
/// ```
/// use cuforge_oracle::corpus::{self, Form, Shape};
/// let affine = corpus::find("affine").ok_or("no affine")?;
/// let case = affine.case(Form::CudaC, &Shape::new(&[1000]), &affine.default_schedule())?;
/// assert_eq!((case.buffers()[0].name.as_ref(), case.buffers()[0].size_bytes()), ("input", 4000));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Buffer {
    /// Its name, by which references and reports know it.
    pub name: Cow<'static, str>,
    /// What the kernel does with it.
    pub role: Role,
    /// What it holds.
    pub element: Element,
    /// How many elements; zero is valid.
    pub elements: u64,
    /// What it holds before the run; none for outputs.
    pub fill: Option<Fill>,
    /// Bind group.
    pub group: u32,
    /// Binding within the group.
    pub binding: u32,
    /// Elements of a row, if it is a matrix: for pictures, and for inputs that are made by rows.
    pub row_elements: Option<u64>,
}

impl Buffer {
    /// Its size in bytes.
    #[must_use]
    pub const fn size_bytes(&self) -> u64 {
        self.elements * self.element.size_bytes() as u64
    }
}

/// The names, buffers and values of a case: what its reference may see.
#[derive(Clone, Debug)]
pub(crate) struct Interface {
    pub(crate) case: String,
    pub(crate) buffers: Vec<Buffer>,
    pub(crate) uniform: Vec<(Cow<'static, str>, Scalar)>,
    pub(crate) scalars: Vec<(Cow<'static, str>, Scalar)>,
    pub(crate) policy: Policy,
}

impl Interface {
    pub(crate) fn new(case: &str) -> Self {
        Self {
            case: case.to_owned(),
            buffers: Vec::new(),
            uniform: Vec::new(),
            scalars: Vec::new(),
            policy: Policy::default(),
        }
    }

    /// The uniform field or scalar of that name.
    pub(crate) fn value(&self, name: &str) -> Result<Scalar, OracleError> {
        let found = self.uniform.iter().chain(&self.scalars).find(|(known, _)| known == name);
        found
            .map(|(_, value)| *value)
            .ok_or_else(|| OracleError::UnknownValue { case: self.case.clone(), value: name.to_owned() })
    }

    /// The same, but for one value.
    pub(crate) fn with_value(&self, name: &str, value: Scalar) -> Self {
        let mut other = self.clone();
        for (known, held) in other.uniform.iter_mut().chain(&mut other.scalars) {
            if known == name {
                *held = value;
            }
        }
        other
    }

    /// The initial contents of every buffer under `seed`; outputs are empty.
    pub(crate) fn contents(&self, seed: u64) -> Result<Vec<Vec<u8>>, OracleError> {
        self.buffers.iter().map(|buffer| self.content(buffer, seed)).collect()
    }

    fn content(&self, buffer: &Buffer, seed: u64) -> Result<Vec<u8>, OracleError> {
        let Some(fill) = &buffer.fill else { return Ok(Vec::new()) };
        // Each buffer draws from its own stream: adding one leaves the others' bytes as they were.
        let mut random = Random::stream(seed, &buffer.name);
        fill.generate(&mut random, buffer.element, buffer.elements as usize).map_err(|reason| {
            OracleError::Fill {
                case: self.case.clone(),
                buffer: buffer.name.to_string(),
                element: buffer.element,
                reason,
            }
        })
    }
}
