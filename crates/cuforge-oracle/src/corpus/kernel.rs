//! What a corpus kernel is: its sources, schedules, shapes, and the cases made of them.

use super::raw;
use super::shape::Shape;
use crate::case::{Case, CaseBuilder, ShippedPtx};
use crate::error::OracleError;
use cuforge_core::{DeclaredBlock, KernelSpec, Parameter, Schedule};

/// In which language a corpus kernel is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Form {
    /// CUDA C, compiled when it is run; its cases carry the shipped PTX for backends without a compiler.
    CudaC,
    /// The PTX that was compiled beforehand.
    ShippedPtx,
    /// PTX written by hand. Not every kernel has it.
    WrittenPtx,
}

impl Form {
    /// In a few words.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::CudaC => "CUDA C",
            Self::ShippedPtx => "shipped PTX",
            Self::WrittenPtx => "hand-written PTX",
        }
    }
}

/// One kernel of the corpus: its sources, schedules, shapes and cases.
///
/// ```
/// use cuforge_oracle::corpus::{self, Form};
/// let gemm = corpus::find("gemm").ok_or("no gemm")?;
/// assert_eq!(gemm.real_shape().to_string(), "256x192x320");
/// let schedule = &gemm.schedules(Form::CudaC)[0];
/// let case = gemm.case(Form::CudaC, &gemm.real_shape(), schedule)?;
/// assert_eq!(case.buffers().len(), 3);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct CorpusKernel {
    pub(super) name: &'static str,
    pub(super) description: &'static str,
    /// CUDA C.
    pub(super) source: &'static str,
    /// What NVRTC makes of it under the default schedule.
    pub(super) shipped: &'static str,
    pub(super) written: Option<Written>,
    /// What the numbers of a shape stand for.
    pub(super) axes: &'static [&'static str],
    pub(super) real: &'static [u32],
    /// The shape that mutants run on: some blocks and an edge, quickly run.
    pub(super) mutated: &'static [u32],
    /// At most 4,096 elements a buffer.
    pub(super) small: &'static [&'static [u32]],
    pub(super) parameters: fn() -> Vec<Parameter>,
    pub(super) schedules: fn() -> Vec<Schedule>,
    /// Buffers, values, extent and reference of a case of this spec and shape, cut by this schedule.
    pub(super) case: fn(KernelSpec, &Shape, &Schedule) -> CaseBuilder,
}

/// A kernel in hand-written PTX.
#[derive(Clone, Copy, Debug)]
pub(super) struct Written {
    pub(super) text: &'static str,
    /// The blocks that it takes.
    pub(super) schedules: fn() -> Vec<Schedule>,
}

impl CorpusKernel {
    /// What it is called, and its entry point.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// What it computes.
    #[must_use]
    pub const fn description(&self) -> &'static str {
        self.description
    }

    /// The CUDA C source.
    #[must_use]
    pub const fn source(&self) -> &'static str {
        self.source
    }

    /// The PTX in this form, if the kernel has it; none for [`Form::CudaC`].
    #[must_use]
    pub const fn ptx(&self, form: Form) -> Option<&'static str> {
        match (form, &self.written) {
            (Form::ShippedPtx, _) => Some(self.shipped),
            (Form::WrittenPtx, Some(written)) => Some(written.text),
            _ => None,
        }
    }

    /// What it takes: the same in every form.
    #[must_use]
    pub fn parameters(&self) -> Vec<Parameter> {
        (self.parameters)()
    }

    /// The schedules it is tested and tuned under, the default first; empty if the kernel lacks the form.
    #[must_use]
    pub fn schedules(&self, form: Form) -> Vec<Schedule> {
        match (form, &self.written) {
            (Form::CudaC, _) => (self.schedules)(),
            (Form::ShippedPtx, _) => vec![bare(&self.default_schedule())],
            (Form::WrittenPtx, Some(written)) => (written.schedules)(),
            (Form::WrittenPtx, None) => Vec::new(),
        }
    }

    /// The schedule that the shipped PTX was compiled under.
    #[must_use]
    pub fn default_schedule(&self) -> Schedule {
        (self.schedules)().swap_remove(0)
    }

    /// What the numbers of a shape stand for, such as `rows`, `width`.
    #[must_use]
    pub const fn axes(&self) -> &'static [&'static str] {
        self.axes
    }

    /// A shape of the size that the kernel is made for.
    #[must_use]
    pub fn real_shape(&self) -> Shape {
        Shape::new(self.real)
    }

    /// Shapes of at most 4,096 elements a buffer: several blocks, edges, one element.
    #[must_use]
    pub fn small_shapes(&self) -> Vec<Shape> {
        self.small.iter().map(|axes| Shape::new(axes)).collect()
    }

    /// The kernel's spec in this form, if it has it.
    #[must_use]
    pub fn spec(&self, form: Form) -> Option<KernelSpec> {
        let spec = match form {
            Form::CudaC => raw::cuda_c(self.name, self.name, self.source, self.parameters()),
            _ => {
                let id = match form {
                    Form::WrittenPtx => format!("{} (written PTX)", self.name),
                    _ => self.name.to_owned(),
                };
                let blocks = self.schedules(form).iter().map(declared).collect();
                raw::ptx(id, self.name, self.ptx(form)?, self.parameters()).with_declared_blocks(blocks)
            }
        };
        Some(spec.with_description(self.description))
    }

    /// A case of this form over `shape` under `schedule`, with smaller ones for mutants to run on.
    ///
    /// # Errors
    /// [`OracleError::Shape`] if `shape` has another number of axes; [`OracleError::MissingForm`] if the kernel lacks
    /// the form; those of [`CaseBuilder::build`].
    pub fn case(&self, form: Form, shape: &Shape, schedule: &Schedule) -> Result<Case, OracleError> {
        let missing = OracleError::MissingForm { kernel: self.name, form: form.name() };
        let spec = self.spec(form).ok_or(missing)?;
        // The shipped PTX has the constants of the default schedule inside; its launch is cut by them.
        let default = self.default_schedule();
        let cut = if form == Form::ShippedPtx { &default } else { schedule };
        let builder = |shape: &Shape| {
            let builder = self.builder(spec.clone(), shape, cut)?.schedule(schedule.clone());
            Ok::<_, OracleError>(match self.spec(Form::ShippedPtx) {
                Some(spec) if form == Form::CudaC => {
                    builder.shipped(ShippedPtx { spec, schedule: default.clone() })
                }
                _ => builder,
            })
        };
        let others = self.small.iter().copied().filter(|small| *small != self.mutated);
        let mut case = builder(shape)?;
        for small in std::iter::once(self.mutated).chain(others) {
            case = case.reduced(builder(&Shape::new(small))?.build()?);
        }
        case.build()
    }

    /// A case like those of [`case`](Self::case) in CUDA C, but of a kernel from elsewhere that claims to compute the
    /// same from the same parameters: a variant to be judged.
    ///
    /// # Errors
    /// As [`case`](Self::case).
    pub fn case_for(
        &self,
        variant: KernelSpec,
        shape: &Shape,
        schedule: &Schedule,
    ) -> Result<Case, OracleError> {
        self.builder(variant, shape, schedule)?.build()
    }

    fn builder(
        &self,
        spec: KernelSpec,
        shape: &Shape,
        schedule: &Schedule,
    ) -> Result<CaseBuilder, OracleError> {
        if shape.axes().len() != self.axes.len() {
            return Err(OracleError::Shape {
                kernel: self.name,
                shape: shape.to_string(),
                axes: self.axes.join(", "),
            });
        }
        let builder = (self.case)(spec, shape, schedule).shape(shape.to_string()).schedule(schedule.clone());
        // Small shapes are there for their edges; only the real one stands for what the kernel is made for.
        Ok(if shape.axes() == self.real { builder } else { builder.edge() })
    }
}

fn declared(schedule: &Schedule) -> DeclaredBlock {
    DeclaredBlock {
        workgroup_size: schedule.workgroup_size,
        items_per_invocation: schedule.items_per_invocation,
    }
}

/// The schedule without its constants: what PTX takes.
fn bare(schedule: &Schedule) -> Schedule {
    Schedule { constants: Vec::new(), ..schedule.clone() }
}
