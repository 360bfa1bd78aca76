//! A shader as naga has it: parsed, validated, with the schedule in the place of its overrides.

use std::borrow::Cow;

use cuforge_core::{KernelSpec, Language, Schedule};
use naga::back::PipelineConstants;
use naga::valid::{Capabilities, FunctionInfo, ModuleInfo, ValidationFlags, Validator};
use naga::{EntryPoint, Module, ShaderStage, Span};

use crate::error::{EmitError, Place};
use crate::overrides;
use crate::source::Lines;

/// A valid module without overrides, and the entry point that becomes the kernel.
#[derive(Debug)]
pub(crate) struct Shader {
    pub(crate) module: Module,
    /// What the schedule gave its overrides, by name or number.
    pub(crate) given: PipelineConstants,
    info: ModuleInfo,
    lines: Lines,
    entry: usize,
}

impl Shader {
    /// Reads the text of `spec` under `schedule`.
    pub(crate) fn read(spec: &KernelSpec, schedule: &Schedule) -> Result<Self, EmitError> {
        let body = spec.body();
        if body.language != Language::Wgsl {
            return Err(EmitError::Language { kernel: spec.id().to_owned() });
        }
        let text: &str = &body.text;
        let lines = Lines::of(text);
        let module = naga::front::wgsl::parse_str(text).map_err(|error| EmitError::Parse {
            place: error.labels().next().and_then(|(span, _)| lines.place(span)),
            message: error.message().to_owned(),
            report: error.emit_to_string_with_path(text, &format!("{}.wgsl", spec.id())),
        })?;
        let name = spec.entry_point();
        find(&module, name).ok_or_else(|| EmitError::EntryPoint {
            name: name.to_owned(),
            known: module.entry_points.iter().filter(|e| is_compute(e)).map(|e| e.name.clone()).collect(),
        })?;
        let given = overrides::from_schedule(spec.id(), &module, name, schedule)?;
        let info = Validator::new(ValidationFlags::all(), Capabilities::all())
            .validate(&module)
            .map_err(|error| invalid(&error, text, spec.id(), &lines))?;
        let stage = Some((ShaderStage::Compute, name));
        let done = naga::back::pipeline_constants::process_overrides(&module, &info, stage, &given)
            .map(|(module, info)| (owned(module), owned(info)))
            .map_err(|error| match error {
                naga::back::pipeline_constants::PipelineConstantError::ValidationError(error) => {
                    invalid(&error, text, spec.id(), &lines)
                }
                error => EmitError::Overrides { message: error.to_string() },
            })?;
        let (module, info) = (done.0.unwrap_or(module), done.1.unwrap_or(info));
        let entry = find(&module, name)
            .ok_or_else(|| EmitError::EntryPoint { name: name.to_owned(), known: vec![] })?;
        let declared = module.entry_points[entry].workgroup_size;
        if declared != schedule.workgroup_size {
            return Err(EmitError::WorkgroupSize { declared, schedule: schedule.workgroup_size });
        }
        Ok(Self { module, given, info, lines, entry })
    }

    /// The entry point.
    pub(crate) fn entry(&self) -> &EntryPoint {
        &self.module.entry_points[self.entry]
    }

    /// What validation knows of the entry point.
    pub(crate) fn entry_info(&self) -> &FunctionInfo {
        self.info.get_entry_point(self.entry)
    }

    /// What validation knows of a function.
    pub(crate) fn function_info(&self, function: naga::Handle<naga::Function>) -> &FunctionInfo {
        &self.info[function]
    }

    /// Where `span` begins.
    pub(crate) fn place(&self, span: Span) -> Option<Place> {
        self.lines.place(span)
    }
}

fn is_compute(entry: &EntryPoint) -> bool {
    entry.stage == ShaderStage::Compute
}

fn find(module: &Module, name: &str) -> Option<usize> {
    module.entry_points.iter().position(|entry| is_compute(entry) && entry.name == name)
}

/// What was made anew; `None` if nothing had to be.
fn owned<T: Clone>(value: Cow<'_, T>) -> Option<T> {
    match value {
        Cow::Owned(value) => Some(value),
        Cow::Borrowed(_) => None,
    }
}

fn invalid(
    error: &naga::WithSpan<naga::valid::ValidationError>,
    text: &str,
    id: &str,
    lines: &Lines,
) -> EmitError {
    // The outermost error says which function or type; what is wrong with it is its innermost source.
    let mut message = error.as_inner().to_string();
    let mut source = std::error::Error::source(error.as_inner());
    while let Some(inner) = source {
        message.push_str(": ");
        message.push_str(&inner.to_string());
        source = inner.source();
    }
    EmitError::Invalid {
        // Spans go from the inside out.
        place: error.spans().find_map(|(span, _)| lines.place(*span)),
        message,
        report: error.emit_to_string_with_path(text, &format!("{id}.wgsl")),
    }
}
