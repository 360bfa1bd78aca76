//! References: plain Rust, written once over any real number, from the inputs of a case to its expected outputs.

use std::sync::Arc;

use crate::baseline::{self, Precision, Rounded};
use crate::compare::Expected;
use crate::error::OracleError;
use crate::format::Format;
use crate::interface::{Buffer, Interface, Role};
use crate::model::ErrorModel;
use crate::number::{Number, decode, encode, floats};
use crate::real::Real;
use crate::tracked::{Tracked, Tracker};
use bytemuck::NoUninit;
use cuforge_core::Element;

/// What a kernel should compute, written once for every kind of [`Real`].
///
/// ```
/// use cuforge_oracle::{Evaluation, OracleError, Real, Reference};
///
/// struct Affine;
/// impl Reference for Affine {
///     fn evaluate<R: Real>(&self, run: &mut Evaluation<'_, R>) -> Result<(), OracleError> {
///         let (scale, bias) = (run.scalar("scale")?, run.scalar("bias")?);
///         let input = run.reals("input")?;
///         run.store("output", input.into_iter().map(|x| x * scale + bias))
///     }
/// }
/// ```
pub trait Reference: Send + Sync {
    /// Reads the inputs and stores every output of the case.
    ///
    /// # Errors
    /// Those of the methods of [`Evaluation`]; pass them on.
    fn evaluate<R: Real>(&self, run: &mut Evaluation<'_, R>) -> Result<(), OracleError>;
}

/// One evaluation of a [`Reference`]: the case's inputs to read, its outputs to store.
#[derive(Debug)]
pub struct Evaluation<'a, R> {
    interface: &'a Interface,
    contents: &'a [Vec<u8>],
    exact: Lift<'a, R>,
    outputs: Vec<Option<Stored<R>>>,
}

struct Lift<'a, R>(Box<dyn Fn(f64) -> R + 'a>);

impl<R> std::fmt::Debug for Lift<'_, R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Lift(..)")
    }
}

/// What a reference stored in one buffer.
#[derive(Debug)]
pub(crate) enum Stored<R> {
    Reals(Vec<R>),
    Bits(Vec<u8>),
}

impl<R: Real> Evaluation<'_, R> {
    /// The number of elements of a buffer.
    ///
    /// # Errors
    /// [`OracleError::UnknownBuffer`].
    pub fn elements(&self, buffer: &str) -> Result<usize, OracleError> {
        // Lengths were checked against this host when the case was built.
        self.find(buffer).map(|(_, buffer)| buffer.elements as usize)
    }

    /// A uniform field or scalar as a real number, exactly as the device gets it.
    ///
    /// # Errors
    /// [`OracleError::UnknownValue`].
    pub fn scalar(&self, name: &str) -> Result<R, OracleError> {
        self.interface.value(name).map(|value| (self.exact.0)(value.number().as_f64()))
    }

    /// A uniform field or scalar as an integer (a float is truncated).
    ///
    /// # Errors
    /// [`OracleError::UnknownValue`].
    pub fn integer(&self, name: &str) -> Result<i64, OracleError> {
        self.interface.value(name).map(|value| match value.number() {
            Number::Integer(value) => value as i64,
            Number::Float(value) => value as i64,
        })
    }

    /// A number that the device holds exactly.
    pub fn exact(&self, value: f64) -> R {
        (self.exact.0)(value)
    }

    /// The initial contents of a buffer as real numbers; the device holds them exactly.
    ///
    /// # Errors
    /// [`OracleError::UnknownBuffer`]; [`OracleError::ReferenceUse`] for an output.
    pub fn reals(&self, buffer: &str) -> Result<Vec<R>, OracleError> {
        let (element, bytes) = self.readable(buffer)?;
        Ok(floats(element, bytes).map(|value| (self.exact.0)(value)).collect())
    }

    /// The initial contents of an integer buffer.
    ///
    /// # Errors
    /// [`OracleError::UnknownBuffer`]; [`OracleError::ReferenceUse`] for an output, or a buffer of floats.
    pub fn integers(&self, buffer: &str) -> Result<Vec<i64>, OracleError> {
        let (element, bytes) = self.readable(buffer)?;
        let size = element.size_bytes() as usize;
        let integer = |chunk: &[u8]| match decode(element, chunk) {
            Number::Integer(value) => Ok(value as i64),
            Number::Float(_) => Err(self.misuse(buffer, "holds floats and was read as integers")),
        };
        bytes.chunks_exact(size).map(integer).collect()
    }

    /// The initial contents of a buffer as bytes.
    ///
    /// # Errors
    /// [`OracleError::UnknownBuffer`]; [`OracleError::ReferenceUse`] for an output.
    pub fn bytes(&self, buffer: &str) -> Result<&[u8], OracleError> {
        self.readable(buffer).map(|(_, bytes)| bytes)
    }

    /// Stores the expected contents of a buffer of floats; rounding to the buffer's type is added to the bounds.
    ///
    /// # Errors
    /// [`OracleError::UnknownBuffer`], [`OracleError::ReferenceLength`]; [`OracleError::ReferenceUse`] for an input or
    /// a buffer of integers.
    pub fn store(&mut self, buffer: &str, values: impl IntoIterator<Item = R>) -> Result<(), OracleError> {
        let (index, target) = self.writable(buffer)?;
        if !target.element.is_float() {
            return Err(self.misuse(buffer, "holds integers and was stored real numbers"));
        }
        let values: Vec<R> = values.into_iter().collect();
        self.check_length(buffer, target, values.len())?;
        self.outputs[index] = Some(Stored::Reals(values));
        Ok(())
    }

    /// Stores the expected contents of a buffer whose bits must be equal: integers, or floats that are only moved.
    ///
    /// # Errors
    /// As [`Evaluation::store`]; [`OracleError::ReferenceUse`] if `T` has another size than the buffer's elements.
    pub fn store_exact<T: NoUninit>(
        &mut self,
        buffer: &str,
        values: impl IntoIterator<Item = T>,
    ) -> Result<(), OracleError> {
        let (index, target) = self.writable(buffer)?;
        if size_of::<T>() != target.element.size_bytes() as usize {
            return Err(self.misuse(buffer, "was stored elements of another size"));
        }
        let values: Vec<T> = values.into_iter().collect();
        self.check_length(buffer, target, values.len())?;
        self.outputs[index] = Some(Stored::Bits(bytemuck::cast_slice(&values).to_vec()));
        Ok(())
    }

    fn find(&self, buffer: &str) -> Result<(usize, &Buffer), OracleError> {
        let buffers = &self.interface.buffers;
        buffers.iter().enumerate().find(|(_, b)| b.name == buffer).ok_or_else(|| OracleError::UnknownBuffer {
            case: self.interface.case.clone(),
            buffer: buffer.to_owned(),
        })
    }

    fn readable(&self, buffer: &str) -> Result<(Element, &[u8]), OracleError> {
        let (index, found) = self.find(buffer)?;
        if found.role == Role::Output {
            return Err(self.misuse(buffer, "is an output and holds nothing to read"));
        }
        Ok((found.element, &self.contents[index]))
    }

    fn writable(&self, buffer: &str) -> Result<(usize, &Buffer), OracleError> {
        let (index, found) = self.find(buffer)?;
        if found.role == Role::Input {
            return Err(self.misuse(buffer, "is an input and was stored to"));
        }
        Ok((index, found))
    }

    fn check_length(&self, buffer: &str, target: &Buffer, stored: usize) -> Result<(), OracleError> {
        if stored as u64 == target.elements {
            return Ok(());
        }
        Err(OracleError::ReferenceLength {
            case: self.interface.case.clone(),
            buffer: buffer.to_owned(),
            stored: stored as u64,
            elements: target.elements,
        })
    }

    fn misuse(&self, buffer: &str, reason: &'static str) -> OracleError {
        OracleError::ReferenceUse { case: self.interface.case.clone(), buffer: buffer.to_owned(), reason }
    }
}

/// What a case is judged by: a [`Reference`], a closure with a stated bound, or a second kernel.
///
/// ```
/// use cuforge_oracle::Judge;
/// let constant = Judge::closure(|run| run.store("y", vec![1.0; 8]), |_| 0.0);
/// # let _ = constant;
/// ```
#[derive(Clone)]
pub struct Judge(pub(crate) Arc<dyn AnyReference>);

impl std::fmt::Debug for Judge {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Judge(..)")
    }
}

impl<T: Reference + 'static> From<T> for Judge {
    fn from(reference: T) -> Self {
        Self(Arc::new(reference))
    }
}

/// A judge behind a pointer.
pub(crate) trait AnyReference: Send + Sync {
    /// Whether bounds follow from the inputs, whatever they are.
    fn derives_bounds(&self) -> bool {
        false
    }

    /// The expected contents of each buffer of the case (inputs have none), bounded under `model`.
    fn expected(
        &self,
        interface: &Interface,
        contents: &[Vec<u8>],
        model: ErrorModel,
    ) -> Result<Vec<Option<Expected>>, OracleError>;

    /// The values alone, by plain `f64`; buffers stored exactly have none.
    fn values(
        &self,
        interface: &Interface,
        contents: &[Vec<u8>],
    ) -> Result<Vec<Option<Vec<f64>>>, OracleError>;

    /// What each buffer would hold on a device that computes in `f64`.
    fn ideal(&self, interface: &Interface, contents: &[Vec<u8>])
    -> Result<Vec<Option<Vec<u8>>>, OracleError>;

    /// The values with every operation rounded to `format`; none where that cannot be said.
    fn baseline(
        &self,
        interface: &Interface,
        contents: &[Vec<u8>],
        format: Format,
    ) -> Result<Vec<Option<Vec<f64>>>, OracleError>;
}

impl<T: Reference> AnyReference for T {
    fn derives_bounds(&self) -> bool {
        true
    }

    fn expected(
        &self,
        interface: &Interface,
        contents: &[Vec<u8>],
        model: ErrorModel,
    ) -> Result<Vec<Option<Expected>>, OracleError> {
        let tracker = Tracker::new(model);
        let outputs = evaluate(|run| self.evaluate(run), interface, contents, |value| tracker.exact(value))?;
        if let Some(undecided) = tracker.undecided() {
            return Err(OracleError::Undecided { case: interface.case.clone(), undecided });
        }
        interface
            .buffers
            .iter()
            .zip(outputs)
            .map(|(buffer, stored)| bounded(interface, buffer, stored))
            .collect()
    }

    fn values(
        &self,
        interface: &Interface,
        contents: &[Vec<u8>],
    ) -> Result<Vec<Option<Vec<f64>>>, OracleError> {
        let outputs = evaluate::<f64>(|run| self.evaluate(run), interface, contents, |value| value)?;
        Ok(outputs.into_iter().map(reals).collect())
    }

    fn ideal(
        &self,
        interface: &Interface,
        contents: &[Vec<u8>],
    ) -> Result<Vec<Option<Vec<u8>>>, OracleError> {
        let outputs = evaluate::<f64>(|run| self.evaluate(run), interface, contents, |value| value)?;
        Ok(interface.buffers.iter().zip(outputs).map(|(buffer, stored)| bytes(buffer, stored)).collect())
    }

    fn baseline(
        &self,
        interface: &Interface,
        contents: &[Vec<u8>],
        format: Format,
    ) -> Result<Vec<Option<Vec<f64>>>, OracleError> {
        match format {
            Format::F16 => rounded::<baseline::F16>(self, interface, contents),
            Format::Bf16 => rounded::<baseline::Bf16>(self, interface, contents),
            Format::F32 => rounded::<baseline::F32>(self, interface, contents),
            Format::F64 => rounded::<baseline::F64>(self, interface, contents),
        }
    }
}

fn rounded<P: Precision>(
    reference: &impl Reference,
    interface: &Interface,
    contents: &[Vec<u8>],
) -> Result<Vec<Option<Vec<f64>>>, OracleError> {
    let outputs = evaluate(|run| reference.evaluate(run), interface, contents, Rounded::<P>::new)?;
    let stored = interface.buffers.iter().zip(outputs).map(|(buffer, stored)| {
        let format = Format::of(buffer.element).unwrap_or(Format::F64);
        Some(reals(stored)?.into_iter().map(|value| format.round(value)).collect())
    });
    Ok(stored.collect())
}

fn reals<R: Real>(stored: Option<Stored<R>>) -> Option<Vec<f64>> {
    match stored {
        Some(Stored::Reals(values)) => Some(values.into_iter().map(Real::value).collect()),
        _ => None,
    }
}

pub(crate) fn bytes<R: Real>(buffer: &Buffer, stored: Option<Stored<R>>) -> Option<Vec<u8>> {
    match stored? {
        Stored::Bits(bits) => Some(bits),
        Stored::Reals(values) => {
            let mut bytes = Vec::with_capacity(values.len() * buffer.element.size_bytes() as usize);
            values.iter().for_each(|value| encode(buffer.element, Number::Float(value.value()), &mut bytes));
            Some(bytes)
        }
    }
}

/// Evaluates a reference over one kind of number; every output has been stored.
pub(crate) fn evaluate<'a, R: Real>(
    reference: impl FnOnce(&mut Evaluation<'a, R>) -> Result<(), OracleError>,
    interface: &'a Interface,
    contents: &'a [Vec<u8>],
    exact: impl Fn(f64) -> R + 'a,
) -> Result<Vec<Option<Stored<R>>>, OracleError> {
    let outputs = interface.buffers.iter().map(|_| None).collect();
    let mut run = Evaluation { interface, contents, exact: Lift(Box::new(exact)), outputs };
    reference(&mut run)?;
    for (buffer, stored) in interface.buffers.iter().zip(&run.outputs) {
        if buffer.role != Role::Input && stored.is_none() {
            return Err(run.misuse(&buffer.name, "was stored nothing"));
        }
    }
    Ok(run.outputs)
}

fn bounded(
    interface: &Interface,
    buffer: &Buffer,
    stored: Option<Stored<Tracked<'_>>>,
) -> Result<Option<Expected>, OracleError> {
    let values = match stored {
        None => return Ok(None),
        Some(Stored::Bits(bits)) => return Ok(Some(Expected::Exact(bits))),
        Some(Stored::Reals(values)) => values,
    };
    let format = Format::of(buffer.element).unwrap_or(Format::F64);
    let mut expected = (Vec::with_capacity(values.len()), Vec::with_capacity(values.len()));
    for (index, value) in values.into_iter().enumerate() {
        let stored = value.stored_as(format);
        let name = || (interface.case.clone(), buffer.name.to_string(), index as u64);
        if stored.value().is_nan() && !interface.policy.nan_allowed {
            let (case, buffer, index) = name();
            return Err(OracleError::NanReference { case, buffer, index });
        }
        if !stored.error().is_finite() {
            let (case, buffer, index) = name();
            return Err(OracleError::Unbounded { case, buffer, index, value: stored.value() });
        }
        expected.0.push(stored.value());
        expected.1.push(stored.error());
    }
    Ok(Some(Expected::Bounded { values: expected.0, bounds: expected.1 }))
}
