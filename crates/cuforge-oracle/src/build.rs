//! Builds a case's kernel on a backend, and the error model that follows from what was built.

use std::sync::Arc;

use cuforge_core::{
    Accuracy, Arithmetic, ContextError, ContextErrorKind, Digest, KernelSpec, OracleContext, Prepared,
    Schedule,
};
use sha2::{Digest as _, Sha256};

use crate::case::{Case, ShippedPtx};
use crate::format::Format;
use crate::model::{ErrorModel, Function, Limit};
use crate::verdict::{Origin, Provenance};

/// A case's kernel, ready to run on the backend it was built for.
pub(crate) struct Build {
    pub(crate) prepared: Prepared,
    pub(crate) origin: Origin,
    /// What runs: the case's kernel and schedule, or those of its shipped PTX.
    pub(crate) ran: (KernelSpec, Schedule),
    pub(crate) model: ErrorModel,
    /// What runs where.
    pub(crate) provenance: Provenance,
}

impl Build {
    /// Builds the case's kernel; where there is no compiler, its shipped PTX.
    pub(crate) fn new(case: &Case, context: &mut dyn OracleContext) -> Result<Self, ContextError> {
        let own = context.prepare(case.kernel(), case.schedule(), case.build_options());
        let (prepared, origin, ran) = match (own, case.shipped()) {
            (Ok(prepared), _) => (prepared, Origin::Own, (case.kernel().clone(), case.schedule().clone())),
            (Err(error), Some(shipped)) if error.kind() == ContextErrorKind::Unavailable => {
                let schedule = ptx_schedule(shipped);
                let prepared = context.prepare(&shipped.spec, &schedule, case.build_options())?;
                (prepared, Origin::ShippedPtx, (shipped.spec.clone(), schedule))
            }
            (Err(error), _) => return Err(error),
        };
        let model = error_model(case, &prepared.evidence.arithmetic);
        let provenance = provenance(&prepared);
        Ok(Self { prepared, origin, ran, model, provenance })
    }

    /// The PTX that was built, if the backend tells.
    pub(crate) fn ptx(&self) -> Option<Arc<str>> {
        self.prepared.image.ptx.clone()
    }
}

fn provenance(prepared: &Prepared) -> Provenance {
    let (evidence, image) = (&prepared.evidence, &prepared.image);
    Provenance {
        source: evidence.source.to_string(),
        image: evidence.image.to_string(),
        ptx: image.ptx.as_deref().map(|ptx| sha256(ptx.as_bytes())),
        cubin: image.cubin.as_deref().map(sha256),
        compiler: evidence.compiler.clone(),
        driver: evidence.driver.clone(),
        target: image.target.to_string(),
        fused: evidence.arithmetic.fused,
        flush_to_zero: evidence.arithmetic.flush_to_zero,
        fast_math: evidence.arithmetic.fast_math,
    }
}

/// The digest of a kernel's text: what a tuned record is for.
#[must_use]
pub fn source_digest(spec: &KernelSpec) -> Digest {
    Digest(Sha256::digest(spec.body().text.as_bytes()).into())
}

/// The SHA-256 of some bytes, as hexadecimal digits.
pub(crate) fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The shipped PTX's schedule without the constants, which are compiled in.
fn ptx_schedule(shipped: &ShippedPtx) -> Schedule {
    Schedule { constants: Vec::new(), ..shipped.schedule.clone() }
}

/// The error model that follows from the arithmetic that ran, unless the case insists on its own.
fn error_model(case: &Case, arithmetic: &Arithmetic) -> ErrorModel {
    if let Some(model) = case.model() {
        return *model;
    }
    let base = match (case.format(), arithmetic.accuracy, arithmetic.fast_math) {
        (Format::F32, Accuracy::Wgsl, _) => ErrorModel::wgsl_f32(),
        (Format::F32, _, true) => ErrorModel::fast_f32(),
        (format, ..) => ErrorModel::native(format),
    };
    let flush = base.flush_to_zero() || arithmetic.flush_to_zero;
    arithmetic.bounds.iter().fold(base.with_flush_to_zero(flush), |model, bound| {
        match Function::ALL.into_iter().find(|function| is_named(*function, bound.function)) {
            Some(function) => model.with_limit(function, Limit::Ulps(bound.max_ulp), "stated by the backend"),
            None => model,
        }
    })
}

/// `exp`, `expf` and `exp.approx` all name the exponential.
fn is_named(function: Function, name: &str) -> bool {
    let stem = name.split('.').next().unwrap_or(name);
    stem == function.name() || stem.strip_suffix('f') == Some(function.name())
}
