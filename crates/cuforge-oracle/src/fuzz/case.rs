//! A random kernel with everything that decides what it computes: one small file that replays anywhere.

use cuforge_core::{Access, DeclaredBlock, Element, Extent, KernelSpec, LaunchGeometry, Parameter, Schedule};
use serde::{Deserialize, Serialize};

use super::evaluate::ProgramReference;
use super::program::{Program, Values};
use super::{cuda_c, ptx, raw};
use crate::case::Case;
use crate::error::OracleError;
use crate::fill::Fill;
use crate::model::{ErrorModel, Function, Limit};

/// The language that a random kernel is printed in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FuzzForm {
    /// CUDA C, for whatever compiles it.
    CudaC,
    /// PTX as it is printed here, which no optimiser has seen.
    Ptx,
}

impl FuzzForm {
    /// In a word.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::CudaC => "CUDA C",
            Self::Ptx => "PTX",
        }
    }
}

/// One random kernel, its shape, schedule and inputs.
///
/// ```
/// use cuforge_oracle::fuzz::{FuzzCase, FuzzForm};
/// let case = FuzzCase::generate(1, 7);
/// assert_eq!(FuzzCase::from_text(&case.to_text())?, case);
/// assert!(case.source(FuzzForm::CudaC).contains("__global__ void fuzz("));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FuzzCase {
    /// What it computes.
    pub program: Program,
    /// Elements of each input, at least 1.
    pub elements: u32,
    /// Threads of a block: a power of two from 32 to 1024.
    pub threads: u32,
    /// The seed of the inputs.
    pub seed: u64,
    /// Inputs are uniform from minus this to this; 0 makes them small integers.
    pub span: u32,
}

#[derive(Serialize, Deserialize)]
struct File {
    schema: String,
    #[serde(flatten)]
    case: FuzzCase,
}

const SCHEMA: &str = "cuforge.fuzz.1";

/// Why a text is no fuzz case.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FuzzFileError {
    /// No JSON of this form.
    #[error("no fuzz case: {0}")]
    Malformed(#[from] serde_json::Error),
    /// A JSON text of another form.
    #[error("a file of the form `{found}`, this is for `{SCHEMA}`")]
    Schema {
        /// The form that it names.
        found: String,
    },
    /// A program that refers to what it has not, or sizes that make no launch.
    #[error("the fuzz case makes no kernel: {0}")]
    Inconsistent(&'static str),
}

impl FuzzCase {
    /// The text of its file: JSON.
    #[must_use]
    pub fn to_text(&self) -> String {
        let file = File { schema: SCHEMA.to_owned(), case: self.clone() };
        // Strings, numbers and lists only: there is nothing in it that cannot be written.
        serde_json::to_string_pretty(&file).unwrap_or_default() + "\n"
    }

    /// Reads a file's text.
    ///
    /// # Errors
    /// [`FuzzFileError`].
    pub fn from_text(text: &str) -> Result<Self, FuzzFileError> {
        let file: File = serde_json::from_str(text)?;
        if file.schema != SCHEMA {
            return Err(FuzzFileError::Schema { found: file.schema });
        }
        file.case.objection().map_or(Ok(file.case), |why| Err(FuzzFileError::Inconsistent(why)))
    }

    /// Why it makes no kernel, if it does not: a file may say anything.
    fn objection(&self) -> Option<&'static str> {
        let program = &self.program;
        if !self.threads.is_power_of_two() || !(32..=1024).contains(&self.threads) {
            Some("its block is no power of two from 32 to 1024")
        } else if self.elements == 0 || self.elements > 1 << 24 {
            Some("it has no elements, or more than 2^24")
        } else if program.inputs == 0 || !program.is_consistent(self.threads) {
            Some("it refers to inputs, scalars or places that it does not have")
        } else {
            None
        }
    }

    /// The kernel's text.
    #[must_use]
    pub fn source(&self, form: FuzzForm) -> String {
        match form {
            FuzzForm::CudaC => cuda_c::print(&self.program),
            FuzzForm::Ptx => ptx::print(&self.program, self.threads),
        }
    }

    /// It as a case that any context runs.
    ///
    /// # Errors
    /// Those of [`CaseBuilder::build`](crate::CaseBuilder::build): none for a case that was generated or read.
    pub fn case(&self, form: FuzzForm) -> Result<Case, OracleError> {
        let program = &self.program;
        let (element, n) = (self.element(), u64::from(self.elements));
        let blocks = self.elements.div_ceil(self.threads);
        let reference = ProgramReference { program: program.clone(), threads: self.threads as usize };
        let mut builder = Case::builder(self.spec(form), reference)
            .shape(self.elements.to_string())
            .schedule(Schedule::new([self.threads, 1, 1]))
            .edge();
        for input in 0..program.inputs {
            builder = builder.input(format!("x{input}"), element, n, self.fill());
        }
        builder = builder.output("y", element, if program.reduces() { blocks.into() } else { n });
        builder = builder.scalar("n", self.elements);
        for (index, scalar) in program.scalars.iter().enumerate() {
            let name = format!("s{index}");
            builder = match program.values {
                Values::Floats => builder.scalar(name, *scalar as f32),
                Values::Integers => builder.scalar(name, *scalar as u32),
            };
        }
        if form == FuzzForm::Ptx {
            let power = Limit::Relative(2f64.powi(-22));
            let stated = "PTX ISA 8.8, ex2: maximum relative error";
            builder = builder.model(ErrorModel::ieee_f32().with_limit(Function::Exp2, power, stated));
        }
        let block = [self.threads, 1, 1];
        let grid = LaunchGeometry { grid: [blocks, 1, 1], block, shared_bytes: 0 };
        builder.extent(Extent::Geometry(grid)).build()
    }

    const fn element(&self) -> Element {
        match self.program.values {
            Values::Floats => Element::F32,
            Values::Integers => Element::U32,
        }
    }

    fn fill(&self) -> Fill {
        match (self.program.values, self.span) {
            (Values::Floats, 0) => Fill::Integers { low: -2, high: 2 },
            (Values::Floats, span) => Fill::Uniform { low: -f64::from(span), high: f64::from(span) },
            (Values::Integers, 0) => Fill::Integers { low: 0, high: 7 },
            (Values::Integers, _) => Fill::Bits,
        }
    }

    fn spec(&self, form: FuzzForm) -> KernelSpec {
        let (program, element) = (&self.program, self.element());
        let inputs = (0..program.inputs)
            .map(|input| Parameter::buffer(format!("x{input}"), input.into(), element, Access::StorageRead));
        let mut parameters: Vec<Parameter> = inputs.collect();
        parameters.push(Parameter::buffer("y", program.inputs.into(), element, Access::StorageReadWrite));
        parameters.push(Parameter::scalar("n", Element::U32));
        let scalar = |index| Parameter::scalar(format!("s{index}"), element);
        parameters.extend((0..program.scalars.len()).map(scalar));
        let block = DeclaredBlock { workgroup_size: [self.threads, 1, 1], items_per_invocation: 1 };
        raw::spec(self.source(form), form == FuzzForm::Ptx, parameters, block)
    }
}
