//! A second kernel as the judge: another implementation, run over the same buffers, says what is right.

use std::fmt;
use std::sync::Arc;

use cuforge_core::{
    Access, Arguments, BufferView, BuildOptions, ContextError, ContextErrorKind, Extent, KernelSpec,
    OracleContext, Request, Sampling, Schedule, ViewError,
};

use crate::adapters::SimContext;
use crate::closure::{Bound, ExpectedElement, within};
use crate::compare::Expected;
use crate::error::OracleError;
use crate::fit::by_value;
use crate::format::Format;
use crate::interface::{Buffer, Interface, Role};
use crate::model::ErrorModel;
use crate::number::floats;
use crate::reference::{AnyReference, Judge};

/// Another kernel with the same parameters that is trusted to be right, and how far from its results the judged one
/// may be.
///
/// It runs on a simulated device of its own unless [`on`](Self::on) says otherwise.
///
/// ```
/// use cuforge_core::{Extent, Schedule};
/// use cuforge_oracle::corpus::{self, Form, Shape};
/// use cuforge_oracle::{Case, Judge, SecondKernel, SimContext, Verdict, verify};
///
/// // The CUDA C of `affine`, as PTX that was compiled before, judged by the hand-written PTX.
/// let affine = corpus::find("affine").ok_or("no affine")?;
/// let schedule = affine.schedules(Form::ShippedPtx).swap_remove(0);
/// let [one, other] = [Form::ShippedPtx, Form::WrittenPtx].map(|form| affine.spec(form));
/// let second = SecondKernel::new(other.ok_or("no PTX")?, schedule.clone(), Extent::Elements(5000))
///     // Fused or not: half a unit of the product and half of the sum.
///     .within(|element| 2f64.powi(-23) * (element.value.abs() + 1.0));
/// let given = affine.case(Form::ShippedPtx, &Shape::new(&[5000]), &schedule)?;
/// let mut case = Case::judged_by(one.ok_or("no PTX")?, Judge::from(second)).schedule(schedule);
/// for buffer in given.buffers() {
///     let (name, element, elements) = (buffer.name.clone(), buffer.element, buffer.elements);
///     case = match buffer.fill.clone() {
///         Some(fill) => case.input(name, element, elements, fill),
///         None => case.output(name, element, elements),
///     };
/// }
/// let case = case.uniform("n", 5000u64).uniform("scale", 1.75f32).uniform("bias", -0.3f32);
/// let case = case.extent(Extent::Elements(5000)).build()?;
/// assert_eq!(verify(&case, &mut SimContext::builder().build()?)?.verdict, Verdict::Passed);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
#[must_use]
pub struct SecondKernel {
    kernel: KernelSpec,
    schedule: Schedule,
    extent: Extent,
    build: BuildOptions,
    bound: Arc<Bound>,
    context: Arc<Open>,
}

type Open = dyn Fn() -> Result<Box<dyn OracleContext>, ContextError> + Send + Sync;

impl fmt::Debug for SecondKernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SecondKernel").field("kernel", &self.kernel).finish_non_exhaustive()
    }
}

impl SecondKernel {
    /// Every bit must be equal, unless [`within`](Self::within) says otherwise.
    pub fn new(kernel: KernelSpec, schedule: Schedule, extent: Extent) -> Self {
        let build = BuildOptions::default();
        let context: Arc<Open> = Arc::new(|| Ok(Box::new(SimContext::builder().build()?)));
        Self { kernel, schedule, extent, build, bound: Arc::new(|_| 0.0), context }
    }

    /// How far an element of a buffer of floats may be from this kernel's.
    pub fn within(mut self, bound: impl Fn(&ExpectedElement<'_>) -> f64 + Send + Sync + 'static) -> Self {
        self.bound = Arc::new(bound);
        self
    }

    /// How this kernel is built.
    pub fn build_options(mut self, build: BuildOptions) -> Self {
        self.build = build;
        self
    }

    /// The device to run on, opened anew for every evaluation: not the one that is judged, whose buffers are in use.
    pub fn on(
        mut self,
        context: impl Fn() -> Result<Box<dyn OracleContext>, ContextError> + Send + Sync + 'static,
    ) -> Self {
        self.context = Arc::new(context);
        self
    }

    /// What the kernel leaves in every buffer that it writes.
    fn run(&self, interface: &Interface, contents: &[Vec<u8>]) -> Result<Vec<Option<Vec<u8>>>, OracleError> {
        let mut context = (self.context)()?;
        let mut prepared = context.prepare(&self.kernel, &self.schedule, &self.build)?;
        let views = views(&mut *context, &interface.buffers, contents)?;
        let by_value = by_value(interface, &self.kernel)?;
        let arguments = Arguments { views: &views, by_value: &by_value };
        let once = Sampling { warmups: 0, samples: 1 };
        context.run(&mut prepared, arguments, self.extent, once, &mut Vec::new())?;
        let mut left = Vec::with_capacity(views.len());
        for (buffer, view) in interface.buffers.iter().zip(&views) {
            let mut bytes = vec![0; buffer.size_bytes() as usize];
            context.read(view, &mut bytes)?;
            left.push((buffer.role != Role::Input).then_some(bytes));
        }
        Ok(left)
    }
}

impl From<SecondKernel> for Judge {
    fn from(second: SecondKernel) -> Self {
        Self(Arc::new(second))
    }
}

impl AnyReference for SecondKernel {
    fn expected(
        &self,
        interface: &Interface,
        contents: &[Vec<u8>],
        _: ErrorModel,
    ) -> Result<Vec<Option<Expected>>, OracleError> {
        let left = self.run(interface, contents)?;
        let expected = left.into_iter().zip(&interface.buffers).map(|(bytes, buffer)| {
            let Some(bytes) = bytes else { return Ok(None) };
            if !buffer.element.is_float() {
                return Ok(Some(Expected::Exact(bytes)));
            }
            let values = floats(buffer.element, &bytes).collect();
            within(interface, &buffer.name, values, &*self.bound).map(Some)
        });
        expected.collect()
    }

    fn values(
        &self,
        interface: &Interface,
        contents: &[Vec<u8>],
    ) -> Result<Vec<Option<Vec<f64>>>, OracleError> {
        let left = self.run(interface, contents)?;
        let values = left.into_iter().zip(&interface.buffers).map(|(bytes, buffer)| {
            let bytes = bytes.filter(|_| buffer.element.is_float())?;
            Some(floats(buffer.element, &bytes).collect())
        });
        Ok(values.collect())
    }

    fn ideal(
        &self,
        interface: &Interface,
        contents: &[Vec<u8>],
    ) -> Result<Vec<Option<Vec<u8>>>, OracleError> {
        self.run(interface, contents)
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

/// The buffers on a device of their own, filled.
fn views(
    context: &mut dyn OracleContext,
    buffers: &[Buffer],
    contents: &[Vec<u8>],
) -> Result<Vec<BufferView>, ContextError> {
    let misbound = |error: ViewError| ContextError::new(ContextErrorKind::Misuse, "bind", error);
    let mut views = Vec::with_capacity(buffers.len());
    for (buffer, contents) in buffers.iter().zip(contents) {
        let access = if buffer.role == Role::Input { Access::StorageRead } else { Access::StorageReadWrite };
        // A grant has at least one byte; what is bound of an empty buffer has none.
        let whole = context.allocate(&Request::new(buffer.size_bytes().max(1)).with_access(access))?;
        let view = whole.slice(0, buffer.size_bytes()).map_err(misbound)?;
        let view = view.bound_to(buffer.group, buffer.binding, access).map_err(misbound)?;
        context.write(&view, contents)?;
        views.push(view);
    }
    Ok(views)
}
