//! A case: one kernel under one schedule over one shape, with inputs and the reference to judge it by.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use cuforge_core::{BuildOptions, Element, Extent, KernelSpec, Schedule};

use crate::compare::{Expected, Policy};
use crate::error::OracleError;
use crate::fill::Fill;
use crate::fit::checked_values;
use crate::format::Format;
use crate::inputs::Inputs;
use crate::interface::{Buffer, Interface, Role};
use crate::model::ErrorModel;
use crate::number::Scalar;
use crate::reference::{AnyReference, Judge, Reference};

/// PTX that ships with a CUDA C kernel, for machines without a compiler: made for one schedule.
///
/// ```
/// use cuforge_oracle::corpus::{self, Form, Shape};
/// let gemm = corpus::find("gemm").ok_or("no gemm")?;
/// let case = gemm.case(Form::CudaC, &Shape::new(&[8, 8, 8]), &gemm.default_schedule())?;
/// assert!(case.shipped().is_some_and(|shipped| &shipped.schedule == case.schedule()));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct ShippedPtx {
    /// The same kernel as PTX, with its block declared.
    pub spec: KernelSpec,
    /// The schedule that it was compiled under.
    pub schedule: Schedule,
}

/// One kernel under one schedule over one shape, ready to be verified. Made by [`Case::builder`]; cheap to clone.
#[derive(Clone)]
pub struct Case {
    interface: Arc<Interface>,
    kernel: KernelSpec,
    shape: Cow<'static, str>,
    schedule: Schedule,
    build: BuildOptions,
    extent: Extent,
    by_value: Vec<u8>,
    format: Format,
    model: Option<ErrorModel>,
    shipped: Option<Arc<ShippedPtx>>,
    reduced: Vec<Arc<Case>>,
    reference: Arc<dyn AnyReference>,
    edge: bool,
    illegal: Vec<Inputs>,
    stale: Vec<(Cow<'static, str>, Scalar)>,
}

impl fmt::Debug for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Case")
            .field("name", &self.interface.case)
            .field("shape", &self.shape)
            .field("schedule", &self.schedule)
            .finish_non_exhaustive()
    }
}

impl Case {
    /// Starts a case of `kernel` with its reference. Buffers bind to group 0 in the order in which they are named,
    /// unless told otherwise.
    ///
    /// ```
    /// # use cuforge_oracle::{Evaluation, OracleError, Real, Reference};
    /// use cuforge_core::{Access, Element, Extent, KernelSpec, Parameter, Schedule};
    /// use cuforge_oracle::{Case, Fill};
    ///
    /// # struct Twice;
    /// # impl Reference for Twice {
    /// #     fn evaluate<R: Real>(&self, run: &mut Evaluation<'_, R>) -> Result<(), OracleError> {
    /// #         let x = run.reals("x")?;
    /// #         run.store("y", x.into_iter().map(|x| x + x))
    /// #     }
    /// # }
    /// let source = r#"extern "C" __global__ void twice(const float *x, float *y, unsigned n) {
    ///     unsigned i = blockIdx.x * CUFORGE_BLOCK_X + threadIdx.x;
    ///     if (i < n) y[i] = x[i] + x[i];
    /// }"#;
    /// // SAFETY: the guard keeps every access within the `n` elements that both buffers have.
    /// let kernel = unsafe {
    ///     KernelSpec::cuda_c("twice", "twice", source, vec![
    ///         Parameter::buffer("x", 0, Element::F32, Access::StorageRead),
    ///         Parameter::buffer("y", 1, Element::F32, Access::StorageReadWrite),
    ///         Parameter::scalar("n", Element::U32),
    ///     ])
    /// };
    /// let case = Case::builder(kernel, Twice)
    ///     .shape("1000")
    ///     .schedule(Schedule::new([128, 1, 1]))
    ///     .input("x", Element::F32, 1000, Fill::Uniform { low: -1.0, high: 1.0 })
    ///     .output("y", Element::F32, 1000)
    ///     .scalar("n", 1000u32)
    ///     .extent(Extent::Elements(1000))
    ///     .build()?;
    /// assert_eq!(case.name(), "twice");
    /// # Ok::<(), OracleError>(())
    /// ```
    pub fn builder(kernel: KernelSpec, reference: impl Reference + 'static) -> CaseBuilder {
        Self::judged_by(kernel, reference.into())
    }

    /// As [`builder`](Self::builder), judged otherwise than by a [`Reference`]: by a closure with a stated bound, or by
    /// a second kernel.
    ///
    /// ```
    /// # use cuforge_core::{Access, Element, Extent, KernelSpec, Parameter, Schedule};
    /// use cuforge_oracle::{Case, Fill, Judge, OracleError};
    ///
    /// # let parameters = vec![
    /// #     Parameter::buffer("x", 0, Element::F32, Access::StorageRead),
    /// #     Parameter::buffer("y", 1, Element::F32, Access::StorageReadWrite),
    /// # ];
    /// # // SAFETY: never run here.
    /// # let kernel = unsafe { KernelSpec::cuda_c("cube", "cube", "", parameters) };
    /// // Two products, each rounded: three units in the last place are more than enough.
    /// let judge = Judge::closure(
    ///     |run| {
    ///         let x = run.reals("x")?;
    ///         run.store("y", x.into_iter().map(|x| x * x * x))
    ///     },
    ///     |element| 3.0 * 2f64.powi(-23) * element.value.abs(),
    /// );
    /// let case = Case::judged_by(kernel, judge)
    ///     .input("x", Element::F32, 1000, Fill::Uniform { low: -1.0, high: 1.0 })
    ///     .output("y", Element::F32, 1000)
    ///     .extent(Extent::Elements(1000))
    ///     .build()?;
    /// assert_eq!(case.name(), "cube");
    /// # Ok::<(), OracleError>(())
    /// ```
    pub fn judged_by(kernel: KernelSpec, judge: Judge) -> CaseBuilder {
        let interface = Interface::new(kernel.id());
        let case = Case {
            interface: Arc::new(Interface::new("")),
            kernel,
            shape: Cow::Borrowed(""),
            schedule: Schedule::new([1, 1, 1]),
            build: BuildOptions::default(),
            extent: Extent::Elements(0),
            by_value: Vec::new(),
            format: Format::F32,
            model: None,
            shipped: None,
            reduced: Vec::new(),
            reference: judge.0,
            edge: false,
            illegal: Vec::new(),
            stale: Vec::new(),
        };
        CaseBuilder { interface, case }
    }

    /// The case's name: the kernel's id unless another was given.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.interface.case
    }

    /// The shape in a few words, for reports.
    #[must_use]
    pub fn shape(&self) -> &str {
        &self.shape
    }

    /// The kernel.
    #[must_use]
    pub const fn kernel(&self) -> &KernelSpec {
        &self.kernel
    }

    /// The schedule.
    #[must_use]
    pub const fn schedule(&self) -> &Schedule {
        &self.schedule
    }

    /// How the kernel is built.
    #[must_use]
    pub const fn build_options(&self) -> &BuildOptions {
        &self.build
    }

    /// What the launch covers.
    #[must_use]
    pub const fn extent(&self) -> Extent {
        self.extent
    }

    /// The uniform block and the scalars as the launch takes them.
    #[must_use]
    pub fn by_value(&self) -> &[u8] {
        &self.by_value
    }

    /// The buffers, in the order in which they were named.
    #[must_use]
    pub fn buffers(&self) -> &[Buffer] {
        &self.interface.buffers
    }

    /// What it says of special values.
    #[must_use]
    pub fn policy(&self) -> &Policy {
        &self.interface.policy
    }

    /// PTX to run where there is no compiler, if it fits this case's schedule and options.
    #[must_use]
    pub fn shipped(&self) -> Option<&ShippedPtx> {
        self.shipped.as_deref().filter(|shipped| shipped.schedule == self.schedule && !self.build.fast_math)
    }

    /// The smaller cases that mutants run on, in order, until one notices: those given, else this case alone.
    pub fn reduced(&self) -> impl Iterator<Item = &Self> {
        let alone = self.reduced.is_empty().then_some(self);
        self.reduced.iter().map(AsRef::as_ref).chain(alone)
    }

    /// The same case under other build options; its reduced cases too.
    #[must_use]
    pub fn with_build(mut self, build: BuildOptions) -> Self {
        self.build = build;
        for reduced in &mut self.reduced {
            *reduced = Arc::new(Self::clone(reduced).with_build(build));
        }
        self
    }

    /// The same case over other inputs; none if it says that they are not legal for it. A case that works on integers
    /// alone has no others, and neither has one whose bounds are an author's word for the inputs that were given.
    #[must_use]
    pub fn with_inputs(&self, inputs: Inputs) -> Option<Self> {
        let legal = self.reference.derives_bounds()
            && !self.illegal.contains(&inputs)
            && (inputs != Inputs::NonFinite || self.interface.policy.nan_allowed);
        let mut interface = Interface::clone(&self.interface);
        let mut replaced = 0;
        for buffer in &mut interface.buffers {
            if buffer.element.is_float() && buffer.fill.is_some() {
                buffer.fill = Some(inputs.fill(buffer));
                replaced += 1;
            }
        }
        let interface = Arc::new(interface);
        (legal && replaced > 0).then(|| Self { interface, reduced: Vec::new(), ..self.clone() })
    }

    /// The initial contents of every buffer under `seed`, in the buffers' order; outputs are empty.
    ///
    /// # Errors
    /// [`OracleError::Fill`].
    pub fn contents(&self, seed: u64) -> Result<Vec<Vec<u8>>, OracleError> {
        self.interface.contents(seed)
    }

    /// What each buffer should hold after the run (inputs have no expectation), bounded under `model`.
    ///
    /// # Errors
    /// Those of the reference; [`OracleError::Undecided`], [`OracleError::Unbounded`], [`OracleError::NanReference`].
    pub fn expected(
        &self,
        contents: &[Vec<u8>],
        model: &ErrorModel,
    ) -> Result<Vec<Option<Expected>>, OracleError> {
        self.reference.expected(&self.interface, contents, *model)
    }

    /// The bytes that each output would hold if every operation were exact to `f64`; inputs have none.
    ///
    /// # Errors
    /// Those of the reference.
    pub(crate) fn ideal(&self, contents: &[Vec<u8>]) -> Result<Vec<Option<Vec<u8>>>, OracleError> {
        self.reference.ideal(&self.interface, contents)
    }

    /// As [`ideal`](Self::ideal), if one of the values were another.
    pub(crate) fn ideal_with(
        &self,
        contents: &[Vec<u8>],
        name: &str,
        value: Scalar,
    ) -> Result<Vec<Option<Vec<u8>>>, OracleError> {
        self.reference.ideal(&self.interface.with_value(name, value), contents)
    }

    /// The uniform fields and scalars, by name.
    pub(crate) fn by_name(&self) -> impl Iterator<Item = (&str, Scalar)> {
        let values = self.interface.uniform.iter().chain(&self.interface.scalars);
        values.map(|(name, value)| (name.as_ref(), *value))
    }

    /// The reference as a kernel without any care would compute it in the case's own format; none where the judge has
    /// no such thing.
    pub(crate) fn baseline(&self, contents: &[Vec<u8>]) -> Result<Vec<Option<Vec<f64>>>, OracleError> {
        self.reference.baseline(&self.interface, contents, self.format)
    }

    /// The stated other value of a uniform field or scalar.
    pub(crate) fn stale(&self, name: &str) -> Option<Scalar> {
        self.stale.iter().find(|(known, _)| known == name).map(|(_, value)| *value)
    }

    /// Whether its builder called it an edge.
    pub(crate) const fn is_edge(&self) -> bool {
        self.edge
    }

    /// The reference's values alone, by plain `f64`; inputs, and outputs stored exactly, have none.
    ///
    /// # Errors
    /// Those of the reference.
    pub fn values(&self, contents: &[Vec<u8>]) -> Result<Vec<Option<Vec<f64>>>, OracleError> {
        self.reference.values(&self.interface, contents)
    }

    /// The format that this case's kernel computes in.
    #[must_use]
    pub const fn format(&self) -> Format {
        self.format
    }

    /// The error model that the case insists on, if any.
    #[must_use]
    pub const fn model(&self) -> Option<&ErrorModel> {
        self.model.as_ref()
    }
}

/// Builds a [`Case`]; see [`Case::builder`].
///
/// ```
/// use cuforge_oracle::corpus::{self, Form, Shape};
/// let softmax = corpus::find("softmax").ok_or("no softmax")?;
/// let case = softmax.case(Form::CudaC, &Shape::new(&[4, 100]), &softmax.default_schedule())?;
/// assert_eq!(case.shape(), "4x100");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
#[must_use]
pub struct CaseBuilder {
    interface: Interface,
    case: Case,
}

impl CaseBuilder {
    /// Another name than the kernel's id.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.interface.case = name.into();
        self
    }

    /// The shape in a few words, such as `16x509->768`.
    pub fn shape(mut self, shape: impl Into<Cow<'static, str>>) -> Self {
        self.case.shape = shape.into();
        self
    }

    /// The schedule (default: one thread a block).
    pub fn schedule(mut self, schedule: Schedule) -> Self {
        self.case.schedule = schedule;
        self
    }

    /// How the kernel is built (default: no fast math, contraction on).
    pub fn build_options(mut self, build: BuildOptions) -> Self {
        self.case.build = build;
        self
    }

    /// What the launch covers (default: zero elements, which launches nothing).
    pub fn extent(mut self, extent: Extent) -> Self {
        self.case.extent = extent;
        self
    }

    /// A buffer that the kernel reads.
    pub fn input(
        self,
        name: impl Into<Cow<'static, str>>,
        element: Element,
        elements: u64,
        fill: Fill,
    ) -> Self {
        self.buffer(name.into(), Role::Input, element, elements, Some(fill))
    }

    /// A buffer that the kernel writes, all of it.
    pub fn output(self, name: impl Into<Cow<'static, str>>, element: Element, elements: u64) -> Self {
        self.buffer(name.into(), Role::Output, element, elements, None)
    }

    /// A buffer that the kernel reads and writes.
    pub fn inout(
        self,
        name: impl Into<Cow<'static, str>>,
        element: Element,
        elements: u64,
        fill: Fill,
    ) -> Self {
        self.buffer(name.into(), Role::InOut, element, elements, Some(fill))
    }

    fn buffer(
        mut self,
        name: Cow<'static, str>,
        role: Role,
        element: Element,
        elements: u64,
        fill: Option<Fill>,
    ) -> Self {
        let binding = self.interface.buffers.len() as u32;
        let (group, row_elements) = (0, None);
        self.interface.buffers.push(Buffer {
            name,
            role,
            element,
            elements,
            fill,
            group,
            binding,
            row_elements,
        });
        self
    }

    /// Says that the buffer named last is a matrix with rows of so many elements: reports draw it as one,
    /// and constant or masked rows of other [`Inputs`] are such rows.
    pub fn with_rows_of(mut self, elements: u64) -> Self {
        if let Some(buffer) = self.interface.buffers.last_mut() {
            buffer.row_elements = Some(elements);
        }
        self
    }

    /// Binds the buffer named last elsewhere than to group 0 in order.
    pub fn bound_at(mut self, group: u32, binding: u32) -> Self {
        if let Some(buffer) = self.interface.buffers.last_mut() {
            (buffer.group, buffer.binding) = (group, binding);
        }
        self
    }

    /// The next field of the uniform block, at its natural alignment.
    pub fn uniform(mut self, name: impl Into<Cow<'static, str>>, value: impl Into<Scalar>) -> Self {
        self.interface.uniform.push((name.into(), value.into()));
        self
    }

    /// The next scalar parameter.
    pub fn scalar(mut self, name: impl Into<Cow<'static, str>>, value: impl Into<Scalar>) -> Self {
        self.interface.scalars.push((name.into(), value.into()));
        self
    }

    /// The format that the kernel computes in (default `f32`), whatever its buffers hold.
    pub fn computes_in(mut self, format: Format) -> Self {
        self.case.format = format;
        self
    }

    /// The error model to use instead of the one that follows from what the backend says it ran: for hand-written
    /// kernels whose approximate instructions differ from the compiler's.
    pub fn model(mut self, model: ErrorModel) -> Self {
        self.case.model = Some(model);
        self
    }

    /// What it says of special values.
    pub fn policy(mut self, policy: Policy) -> Self {
        self.interface.policy = policy;
        self
    }

    /// PTX to run where there is no compiler.
    pub fn shipped(mut self, shipped: ShippedPtx) -> Self {
        self.case.shipped = Some(Arc::new(shipped));
        self
    }

    /// Says that this shape is an edge that has less than three blocks of work: none, one element, one short row. Other
    /// cases of less than three blocks are [`Vacuous`](crate::Verdict::Vacuous) unless a reduced one has them.
    pub fn edge(mut self) -> Self {
        self.case.edge = true;
        self
    }

    /// Another value that an earlier launch may have had for a uniform field or scalar, and for which the reference holds
    /// over the same buffers: what a kernel that kept it would compute must be noticed. Floats get one without this.
    pub fn stale(mut self, name: impl Into<Cow<'static, str>>, value: impl Into<Scalar>) -> Self {
        self.case.stale.push((name.into(), value.into()));
        self
    }

    /// Says that the kernel is not made for these inputs: verification does not try them.
    pub fn illegal(mut self, inputs: Inputs) -> Self {
        self.case.illegal.push(inputs);
        self
    }

    /// A smaller case of the same kernel and schedule, on which mutants are judged (default: the case itself).
    ///
    /// May be given several times: a mutant that one shape does not notice is shown to the next. Shapes that end
    /// inside a tile, or have less than one, notice guards that others do not need.
    pub fn reduced(mut self, reduced: Case) -> Self {
        self.case.reduced.push(Arc::new(reduced));
        self
    }

    /// Checks the case against the kernel's parameters.
    ///
    /// # Errors
    /// [`OracleError::DoubleName`], [`OracleError::NoOutput`], [`OracleError::Fill`], [`OracleError::TooLarge`],
    /// [`OracleError::ElementMismatch`], [`OracleError::UniformSize`], [`OracleError::Parameters`] (a missing or extra
    /// buffer, bytes of uniform and scalars that are not what the kernel takes), [`OracleError::ReducedDiffers`].
    pub fn build(self) -> Result<Case, OracleError> {
        let Self { interface, mut case } = self;
        case.by_value = checked_values(&interface, &case.kernel)?;
        let differs =
            |reduced: &Arc<Case>| reduced.kernel != case.kernel || reduced.schedule != case.schedule;
        if case.reduced.iter().any(differs) {
            return Err(OracleError::ReducedDiffers { case: interface.case });
        }
        case.interface = Arc::new(interface);
        Ok(case)
    }
}
