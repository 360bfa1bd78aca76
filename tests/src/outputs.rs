//! One bare run of a case: what it leaves in its buffers, for judges other than the oracle.

use cuforge_core::{Access, Arguments, ContextError, ContextErrorKind, OracleContext, Request, ViewError};
use cuforge_oracle::{Case, Role};

/// Runs `case` once over `contents`; outputs hold zeros before. The bytes of every buffer, in the case's order.
///
/// # Errors
/// Those of the backend.
pub fn run_over(
    case: &Case,
    contents: &[Vec<u8>],
    context: &mut dyn OracleContext,
) -> Result<Vec<Vec<u8>>, ContextError> {
    context.clear()?;
    let mut views = Vec::new();
    for (buffer, contents) in case.buffers().iter().zip(contents) {
        let access = if buffer.role == Role::Input { Access::StorageRead } else { Access::StorageReadWrite };
        let view = context.allocate(&Request::new(buffer.size_bytes().max(1)).with_access(access))?;
        context.fill(&view, 0)?;
        context.write(&view, contents)?;
        let view = view.slice(0, buffer.size_bytes()).map_err(misbound)?;
        views.push(view.bound_to(buffer.group, buffer.binding, access).map_err(misbound)?);
    }
    let arguments = Arguments { views: &views, by_value: case.by_value() };
    context.run_kernel(case.kernel(), case.schedule(), case.build_options(), arguments, case.extent())?;
    let mut all = Vec::new();
    for (buffer, view) in case.buffers().iter().zip(&views) {
        let mut got = vec![0; buffer.size_bytes() as usize];
        context.read(view, &mut got)?;
        all.push(got);
    }
    Ok(all)
}

fn misbound(error: ViewError) -> ContextError {
    ContextError::new(ContextErrorKind::Misuse, "bind", error)
}
