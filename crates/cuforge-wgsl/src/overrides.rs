//! A schedule as values of overrides: the workgroup size, the items of an invocation, and named constants.

use cuforge_core::{Constant, Schedule, ScheduleError};
use naga::back::PipelineConstants;
use naga::{Expression, Handle, Module, Override, TypeInner};

use crate::error::EmitError;

/// The overrides that take the workgroup size of a schedule, whatever `@workgroup_size` says, and the one that takes its
/// items: the names that CUDA C knows them by.
const BLOCK: [&str; 3] = ["CUFORGE_BLOCK_X", "CUFORGE_BLOCK_Y", "CUFORGE_BLOCK_Z"];
const ITEMS: &str = "CUFORGE_ITEMS";

/// The values that `schedule` gives the overrides of `module`.
pub(crate) fn from_schedule(
    kernel: &str,
    module: &Module,
    entry: &str,
    schedule: &Schedule,
) -> Result<PipelineConstants, EmitError> {
    let mut values = PipelineConstants::default();
    let size = |axis: usize| Constant::Int(schedule.workgroup_size[axis].into());
    for (axis, name) in BLOCK.into_iter().enumerate() {
        if let Some(handle) = find(module, name) {
            give(module, &mut values, handle, name, size(axis))?;
        }
    }
    // An override that `@workgroup_size` names is the size, whatever it is called.
    let sizes = module.entry_points.iter().find(|e| e.name == entry).and_then(|e| e.workgroup_size_overrides);
    for (axis, expression) in sizes.into_iter().flatten().enumerate() {
        let Some(Expression::Override(handle)) = expression.map(|e| &module.global_expressions[e]) else {
            continue;
        };
        let handle = *handle;
        let name = module.overrides[handle].name.clone().unwrap_or_default();
        if !BLOCK.contains(&name.as_str()) && schedule.constants.iter().all(|(given, _)| *given != name) {
            give(module, &mut values, handle, &name, size(axis))?;
        }
    }
    let unknown = |constant: &str| ScheduleError::UnknownConstant {
        kernel: kernel.to_owned(),
        constant: constant.to_owned(),
    };
    match find(module, ITEMS) {
        Some(handle) => {
            let items = Constant::Int(schedule.items_per_invocation.into());
            give(module, &mut values, handle, ITEMS, items)?;
        }
        None if schedule.items_per_invocation != 1 => return Err(unknown(ITEMS).into()),
        None => {}
    }
    for (at, (name, value)) in schedule.constants.iter().enumerate() {
        let twice = schedule.constants[..at].iter().any(|(earlier, _)| earlier == name);
        if twice || BLOCK.contains(&&**name) || name == ITEMS {
            return Err(bad(name, "is defined twice"));
        }
        let handle = find(module, name).ok_or_else(|| unknown(name))?;
        give(module, &mut values, handle, name, *value)?;
    }
    Ok(values)
}

fn find(module: &Module, name: &str) -> Option<Handle<Override>> {
    module.overrides.iter().find(|(_, o)| o.name.as_deref() == Some(name)).map(|(handle, _)| handle)
}

fn bad(name: &str, reason: &'static str) -> EmitError {
    ScheduleError::BadConstant { constant: name.to_owned(), reason }.into()
}

fn give(
    module: &Module,
    values: &mut PipelineConstants,
    handle: Handle<Override>,
    name: &str,
    value: Constant,
) -> Result<(), EmitError> {
    let given = &module.overrides[handle];
    let TypeInner::Scalar(scalar) = module.types[given.ty].inner else {
        return Err(bad(name, "is no scalar"));
    };
    let value = match (value, scalar.kind) {
        (Constant::Bool(value), naga::ScalarKind::Bool) => f64::from(u8::from(value)),
        (Constant::Int(value), naga::ScalarKind::Sint | naga::ScalarKind::Uint) => value as f64,
        (Constant::Int(value), naga::ScalarKind::Float) => value as f64,
        (Constant::Float(value), naga::ScalarKind::Float) if value.is_finite() => value,
        (Constant::Float(_), naga::ScalarKind::Float) => {
            return Err(bad(name, "is no finite number, which no literal stands for"));
        }
        _ => return Err(bad(name, "is of another type than its override")),
    };
    let key = given.id.map_or_else(|| name.to_owned(), |id| id.to_string());
    values.insert(key, value);
    Ok(())
}
