//! Judges without a bound of their own: closures in plain `f64`, each element with a bound that the author states.

use std::sync::Arc;

use crate::compare::Expected;
use crate::error::OracleError;
use crate::format::Format;
use crate::interface::Interface;
use crate::model::ErrorModel;
use crate::reference::{AnyReference, Evaluation, Judge, Stored, bytes, evaluate};

/// An element of the expected output, for which a bound is asked.
///
/// ```
/// use cuforge_oracle::ExpectedElement;
/// let relative = |element: &ExpectedElement<'_>| 1e-5 * element.value.abs();
/// assert_eq!(relative(&ExpectedElement { buffer: "y", index: 0, value: -2.0 }), 2e-5);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct ExpectedElement<'a> {
    /// The buffer.
    pub buffer: &'a str,
    /// The element's index.
    pub index: u64,
    /// What the judge says it should hold.
    pub value: f64,
}

impl Judge {
    /// A judge in plain `f64`, and how far each element of a buffer of floats may be off. What is stored with
    /// [`store_exact`](Evaluation::store_exact) must be equal to the bit.
    ///
    /// The bound is the author's word: unlike a [`Reference`](crate::Reference) nothing here derives it, and nothing but
    /// the mutants notices that it is too wide.
    pub fn closure(
        compute: impl Fn(&mut Evaluation<'_, f64>) -> Result<(), OracleError> + Send + Sync + 'static,
        bound: impl Fn(&ExpectedElement<'_>) -> f64 + Send + Sync + 'static,
    ) -> Self {
        Self(Arc::new(Closure { compute: Box::new(compute), bound: Box::new(bound) }))
    }
}

type Compute = dyn Fn(&mut Evaluation<'_, f64>) -> Result<(), OracleError> + Send + Sync;

/// States a bound.
pub(crate) type Bound = dyn Fn(&ExpectedElement<'_>) -> f64 + Send + Sync;

struct Closure {
    compute: Box<Compute>,
    bound: Box<Bound>,
}

impl Closure {
    fn stored(
        &self,
        interface: &Interface,
        contents: &[Vec<u8>],
    ) -> Result<Vec<Option<Stored<f64>>>, OracleError> {
        evaluate(|run| (self.compute)(run), interface, contents, |value| value)
    }
}

impl AnyReference for Closure {
    fn expected(
        &self,
        interface: &Interface,
        contents: &[Vec<u8>],
        _: ErrorModel,
    ) -> Result<Vec<Option<Expected>>, OracleError> {
        let stored = self.stored(interface, contents)?.into_iter().zip(&interface.buffers);
        let expected = stored.map(|(stored, buffer)| match stored {
            None => Ok(None),
            Some(Stored::Bits(bits)) => Ok(Some(Expected::Exact(bits))),
            Some(Stored::Reals(values)) => within(interface, &buffer.name, values, &*self.bound).map(Some),
        });
        expected.collect()
    }

    fn values(
        &self,
        interface: &Interface,
        contents: &[Vec<u8>],
    ) -> Result<Vec<Option<Vec<f64>>>, OracleError> {
        let stored = self.stored(interface, contents)?.into_iter();
        let values = stored.map(|stored| match stored {
            Some(Stored::Reals(values)) => Some(values),
            _ => None,
        });
        Ok(values.collect())
    }

    fn ideal(
        &self,
        interface: &Interface,
        contents: &[Vec<u8>],
    ) -> Result<Vec<Option<Vec<u8>>>, OracleError> {
        let stored = self.stored(interface, contents)?.into_iter().zip(&interface.buffers);
        Ok(stored.map(|(stored, buffer)| bytes(buffer, stored)).collect())
    }

    fn baseline(
        &self,
        interface: &Interface,
        _: &[Vec<u8>],
        _: Format,
    ) -> Result<Vec<Option<Vec<f64>>>, OracleError> {
        Ok(vec![None; interface.buffers.len()])
    }
}

/// Values with stated bounds, each of which must be a number.
pub(crate) fn within(
    interface: &Interface,
    buffer: &str,
    values: Vec<f64>,
    bound: &Bound,
) -> Result<Expected, OracleError> {
    let mut bounds = Vec::with_capacity(values.len());
    for (index, value) in (0u64..).zip(&values) {
        let (case, named) = (|| interface.case.clone(), || buffer.to_owned());
        if value.is_nan() && !interface.policy.nan_allowed {
            return Err(OracleError::NanReference { case: case(), buffer: named(), index });
        }
        let stated =
            if value.is_finite() { bound(&ExpectedElement { buffer, index, value: *value }) } else { 0.0 };
        if !stated.is_finite() || stated < 0.0 {
            return Err(OracleError::Unbounded { case: case(), buffer: named(), index, value: *value });
        }
        bounds.push(stated);
    }
    Ok(Expected::Bounded { values, bounds })
}
