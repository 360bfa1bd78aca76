//! Runs the three legs: the reference, the device and the simulated device, all on one PTX.

use cuforge_core::{Backend, ContextErrorKind, Element, OracleContext};
use cuforge_sim::ptx::Module;

use crate::blame::{Leg, Legs};
use crate::build::Build;
use crate::case::Case;
use crate::check::{CheckOptions, Checked, checked};
use crate::compare::{Expected, Policy, agrees};
use crate::error::OracleError;
use crate::number::floats;
use crate::simulate::{Bench, is_fault, out_of_steps};

/// Runs the legs over the reduced cases, until a pair disagrees; over the case itself too if that is known to fail.
/// None where the device is the simulated one, which is but one leg.
pub(crate) fn legs(
    case: &Case,
    context: &mut dyn OracleContext,
    build: &mut Build,
    seed: u64,
    failed: bool,
) -> Result<Option<Legs>, OracleError> {
    if context.adapter().backend == Backend::Simulated {
        return Ok(None);
    }
    let module = match build.ptx().as_deref().map(Module::parse) {
        Some(Ok(module)) => Ok(module),
        Some(Err(error)) => Err(format!("its PTX does not parse: {error}")),
        None => Err("its image has no PTX".to_owned()),
    };
    let whole = failed.then_some(case).filter(|case| {
        // The simulated device takes some tens of nanoseconds an instruction: no tensor of a gigabyte.
        let bytes: u64 = case.buffers().iter().map(|buffer| buffer.size_bytes()).sum();
        bytes <= MOST_SIMULATED_BYTES
    });
    let mut first = None;
    for case in case.reduced().chain(whole) {
        let legs = legs_of(case, context, build, module.as_ref(), seed)?;
        if legs.blame().is_some() {
            return Ok(Some(legs));
        }
        first.get_or_insert(legs);
    }
    Ok(first)
}

const MOST_SIMULATED_BYTES: u64 = 64 << 20;

fn legs_of(
    case: &Case,
    context: &mut dyn OracleContext,
    build: &mut Build,
    module: Result<&Module, &String>,
    seed: u64,
) -> Result<Legs, OracleError> {
    let mut legs = Legs {
        shape: case.shape().to_owned(),
        device: Leg::NotRun("the device was lost".to_owned()),
        simulated: Leg::Agree,
        between: Leg::NotRun("one of them left nothing to compare".to_owned()),
    };
    let on_device = match checked(case, context, build, &CheckOptions::default().with_seed(seed).once()) {
        Ok(checked) => {
            legs.device = if checked.check.agrees() { Leg::Agree } else { Leg::Differ };
            Some(checked)
        }
        Err(OracleError::Context(error)) => {
            legs.device = match error.kind() {
                ContextErrorKind::Fault | ContextErrorKind::DeviceLost => Leg::Faults(error.to_string()),
                _ => Leg::NotRun(error.to_string()),
            };
            None
        }
        Err(error) => return Err(error),
    };
    let simulated = match module {
        Ok(module) => Bench::new(case, &build.ran, &build.model, seed)?.run(module)?,
        Err(why) => {
            legs.simulated = Leg::NotRun(why.clone());
            return Ok(legs);
        }
    };
    match simulated {
        Ok(simulated) => {
            legs.simulated = if simulated.agrees { Leg::Agree } else { Leg::Differ };
            if let Some(on_device) = on_device {
                legs.between = between(case, &on_device, &simulated.got);
            }
        }
        Err(error) if is_fault(&error) && !out_of_steps(&error) => {
            legs.simulated = Leg::Faults(error.to_string());
        }
        Err(error) => legs.simulated = Leg::NotRun(error.to_string()),
    }
    Ok(legs)
}

/// Whether both devices left the same, each of them within its bound of a common result, or with an error in common
/// that is a thousand times what sets them apart.
fn between(case: &Case, device: &Checked, simulated: &[Vec<u8>]) -> Leg {
    let same = case.buffers().iter().zip(&device.got).zip(simulated).zip(&device.expected).all(
        |(((buffer, device), simulated), expected)| {
            let Some(expected) = expected else { return true };
            let common = common(buffer.element, simulated, expected);
            let policy = Policy { nan_allowed: true, zero_signs: false };
            agrees(buffer.element, device, &common, None, &policy)
        },
    );
    if same { Leg::Agree } else { Leg::Differ }
}

fn common(element: Element, simulated: &[u8], expected: &Expected) -> Expected {
    let Expected::Bounded { values, bounds } = expected else { return Expected::Exact(simulated.to_vec()) };
    let got: Vec<f64> = floats(element, simulated).collect();
    let room = got.iter().zip(values).zip(bounds).map(|((got, value), bound)| {
        let shared = (got - value).abs() / 1024.0;
        2.0 * bound + if shared.is_finite() { shared } else { 0.0 }
    });
    let bounds = room.collect();
    Expected::Bounded { values: got, bounds }
}
