//! Which device kernels run on: what was asked for, what there is, and why it was chosen.

use std::str::FromStr;

use cuforge::launch::Device;

use crate::ending::{Ending, Stop};
use crate::probe;

/// What `--device` asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Wish {
    /// The best device there is.
    #[default]
    Auto,
    /// A GPU through the CUDA driver, and nothing else.
    Cuda,
    /// The simulated device.
    Sim,
}

impl FromStr for Wish {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "auto" => Ok(Self::Auto),
            "cuda" => Ok(Self::Cuda),
            "sim" => Ok(Self::Sim),
            other => Err(format!("no device named {other}: auto, cuda or sim")),
        }
    }
}

/// The device that was chosen: a GPU, or the simulated one.
#[derive(Clone, Debug)]
pub(crate) struct Choice {
    /// The GPU, opened; none for the simulated device.
    pub(crate) device: Option<Device>,
    /// Why this one.
    pub(crate) why: String,
}

/// Chooses the device for `wish` on this machine.
///
/// # Errors
///
/// A GPU was required: [`Ending::NothingRan`], with the reason.
pub(crate) fn choose(wish: Wish) -> Result<Choice, Stop> {
    if wish == Wish::Sim {
        return Ok(Choice { device: None, why: "asked for with --device sim".to_owned() });
    }
    // Asked in another process first, so that a driver that crashes is a reason and not the end of this program.
    let probe = probe::ask(&[]);
    let why = match wish {
        Wish::Cuda => probe.without_silicon(),
        _ => probe.without_a_device().map(str::to_owned),
    };
    if let Some(why) = why {
        return without_a_gpu(wish, &why);
    }
    match Device::open(0) {
        Ok(device) => {
            let asked = if wish == Wish::Cuda { "asked for with --device cuda" } else { "the first GPU" };
            let why = format!("{asked}, through {}", device.driver().library().display());
            Ok(Choice { device: Some(device), why })
        }
        Err(error) => without_a_gpu(wish, &error.to_string()),
    }
}

fn without_a_gpu(wish: Wish, why_no_gpu: &str) -> Result<Choice, Stop> {
    if wish == Wish::Cuda {
        let why = format!("no CUDA device can be used: {why_no_gpu}; nothing ran");
        return Err(Stop::new(Ending::NothingRan, why));
    }
    // What the loader said of each name stands in brackets: `--device cuda` shows it, here it would drown the line.
    let short = why_no_gpu.split(" (").next().unwrap_or(why_no_gpu);
    Ok(Choice { device: None, why: short.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_required_gpu_that_cannot_be_used_ends_with_nothing_ran_and_says_why() {
        let stop = without_a_gpu(Wish::Cuda, "no CUDA driver").unwrap_err();
        assert_eq!(stop.ending(), Ending::NothingRan);
        assert!(stop.to_string().contains("no CUDA driver"), "{stop}");
    }

    #[test]
    fn the_simulated_device_is_chosen_with_the_reason_that_fits() {
        assert_eq!(choose(Wish::Sim).unwrap().why, "asked for with --device sim");
        let instead = without_a_gpu(Wish::Auto, "no CUDA driver: get one (libcuda.so.1: not found)").unwrap();
        assert!(instead.device.is_none());
        assert_eq!(instead.why, "no CUDA driver: get one");
    }

    #[test]
    fn wishes_are_auto_cuda_and_sim_and_nothing_else() {
        assert_eq!(
            ["auto", "cuda", "sim"].map(|text| text.parse().ok()),
            [Wish::Auto, Wish::Cuda, Wish::Sim].map(Some)
        );
        assert!("gpu".parse::<Wish>().is_err());
    }
}
