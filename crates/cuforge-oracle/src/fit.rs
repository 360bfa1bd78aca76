//! Whether the parts of a case fit each other and its kernel's parameters.

use cuforge_core::{Access, BindError, KernelSpec, Parameter, ParameterLayout};

use crate::error::OracleError;
use crate::interface::{Buffer, Interface, Role};
use crate::number::Scalar;

/// The bytes of the case's uniform block and scalars, if everything fits.
pub(crate) fn checked_values(interface: &Interface, kernel: &KernelSpec) -> Result<Vec<u8>, OracleError> {
    check_names(interface)?;
    check_buffers(interface)?;
    let by_value = by_value(interface, kernel)?;
    check_parameters(interface, kernel, &by_value)?;
    Ok(by_value)
}

fn check_names(interface: &Interface) -> Result<(), OracleError> {
    let buffers = interface.buffers.iter().map(|buffer| &buffer.name);
    let values = interface.uniform.iter().chain(&interface.scalars).map(|(name, _)| name);
    let mut names: Vec<&str> = buffers.chain(values).map(AsRef::as_ref).collect();
    names.sort_unstable();
    match names.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => Err(OracleError::DoubleName { case: interface.case.clone(), name: pair[0].to_owned() }),
        None => Ok(()),
    }
}

fn check_buffers(interface: &Interface) -> Result<(), OracleError> {
    let case = || interface.case.clone();
    if interface.buffers.iter().all(|buffer| buffer.role == Role::Input) {
        return Err(OracleError::NoOutput { case: case() });
    }
    for buffer in &interface.buffers {
        let (name, element) = (buffer.name.to_string(), buffer.element);
        let bytes = buffer.elements.checked_mul(element.size_bytes().into());
        if bytes.and_then(|bytes| isize::try_from(bytes).ok()).is_none() {
            return Err(OracleError::TooLarge { case: case(), buffer: name, elements: buffer.elements });
        }
        if let Some(reason) = buffer.fill.as_ref().and_then(|fill| fill.objection(element)) {
            return Err(OracleError::Fill { case: case(), buffer: name, element, reason });
        }
    }
    Ok(())
}

/// The uniform fields, padded to the declared block, then the scalars, each naturally aligned.
pub(crate) fn by_value(interface: &Interface, kernel: &KernelSpec) -> Result<Vec<u8>, OracleError> {
    let declared = kernel.parameters().iter().find_map(|parameter| match parameter {
        Parameter::Uniform { bytes, .. } => Some(*bytes as usize),
        _ => None,
    });
    let mut bytes = Vec::new();
    let append = |bytes: &mut Vec<u8>, value: Scalar| {
        bytes.resize(bytes.len().next_multiple_of(value.element().size_bytes() as usize), 0);
        bytes.extend_from_slice(&value.to_bytes());
    };
    interface.uniform.iter().for_each(|(_, value)| append(&mut bytes, *value));
    let declared = declared.unwrap_or(0);
    if bytes.len() > declared {
        return Err(OracleError::UniformSize {
            case: interface.case.clone(),
            kernel: kernel.id().to_owned(),
            bytes: bytes.len(),
            declared,
        });
    }
    bytes.resize(declared, 0);
    interface.scalars.iter().for_each(|(_, value)| append(&mut bytes, *value));
    Ok(bytes)
}

fn check_parameters(interface: &Interface, kernel: &KernelSpec, by_value: &[u8]) -> Result<(), OracleError> {
    let misfit = |source| OracleError::Parameters {
        case: interface.case.clone(),
        kernel: kernel.id().to_owned(),
        source,
    };
    let layout = ParameterLayout::new(kernel.parameters()).map_err(misfit)?;
    if by_value.len() != layout.by_value_bytes() {
        let (bytes, need) = (by_value.len(), layout.by_value_bytes());
        return Err(misfit(BindError::ByValue { bytes, need }));
    }
    let mut taken = 0;
    for parameter in kernel.parameters() {
        let Parameter::Buffer { name, group, binding, element, access } = parameter else { continue };
        let at = |buffer: &&Buffer| (buffer.group, buffer.binding) == (*group, *binding);
        let Some(buffer) = interface.buffers.iter().find(at) else {
            let name = name.to_string();
            return Err(misfit(BindError::Missing { name, group: *group, binding: *binding }));
        };
        if buffer.element != *element {
            return Err(OracleError::ElementMismatch {
                case: interface.case.clone(),
                kernel: kernel.id().to_owned(),
                buffer: buffer.name.to_string(),
                given: buffer.element,
                wanted: *element,
            });
        }
        if buffer.role == Role::Input && *access == Access::StorageReadWrite {
            return Err(misfit(BindError::ReadOnly { name: name.to_string() }));
        }
        taken += 1;
    }
    let extra = |buffer: &&Buffer| {
        !kernel.parameters().iter().any(|parameter| {
            matches!(parameter, Parameter::Buffer { group, binding, .. }
                if (*group, *binding) == (buffer.group, buffer.binding))
        })
    };
    match interface.buffers.iter().find(extra) {
        Some(buffer) => Err(misfit(BindError::Extra { group: buffer.group, binding: buffer.binding })),
        None if taken < interface.buffers.len() => {
            let doubled = interface.buffers.iter().enumerate().find(|(index, buffer)| {
                let same = |other: &Buffer| (other.group, other.binding) == (buffer.group, buffer.binding);
                interface.buffers[..*index].iter().any(same)
            });
            let (group, binding) = doubled.map_or((0, 0), |(_, buffer)| (buffer.group, buffer.binding));
            Err(misfit(BindError::DoubleBinding { group, binding }))
        }
        None => Ok(()),
    }
}
