//! Which device kernels run on: what was asked for, what there is, and why it was chosen.

use std::fmt;
use std::str::FromStr;

use crate::driver;
use crate::ending::{Ending, Stop};

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

/// The device that was chosen. There is one kind in this build: the simulated one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Choice {
    /// Why this one.
    pub(crate) why: String,
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "simulated CUDA device ({})", self.why)
    }
}

/// Chooses the device for `wish` on this machine.
///
/// # Errors
///
/// A GPU was required: [`Ending::NothingRan`], with the reason.
pub(crate) fn choose(wish: Wish) -> Result<Choice, Stop> {
    let driver = driver::find().map(|driver| driver.real_path.display().to_string());
    let device = driver.as_ref().and_then(|_| driver::devices().into_iter().next()).map(|device| device.name);
    choose_from(wish, driver.as_deref(), device.as_deref())
}

fn choose_from(wish: Wish, driver: Option<&str>, device: Option<&str>) -> Result<Choice, Stop> {
    let why_no_gpu = match (driver, device) {
        (None, _) => "there is no NVIDIA driver library on this machine".to_owned(),
        (Some(driver), None) => format!("the driver {driver} shows no device"),
        (Some(driver), Some(device)) => {
            format!("{device} is there through {driver}, but this build cannot launch on a GPU yet")
        }
    };
    match wish {
        Wish::Sim => Ok(Choice { why: "asked for with --device sim".to_owned() }),
        Wish::Auto => Ok(Choice { why: why_no_gpu }),
        Wish::Cuda => Err(Stop::new(
            Ending::NothingRan,
            format!("no CUDA device can be used: {why_no_gpu}; nothing ran"),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_required_gpu_that_cannot_be_used_ends_with_nothing_ran_and_says_why() {
        for (driver, device, named) in [
            (None, None, "no NVIDIA driver"),
            (Some("/l/libcuda.so.580"), None, "shows no device"),
            (Some("/l/libcuda.so.580"), Some("H200"), "cannot launch on a GPU yet"),
        ] {
            let stop = choose_from(Wish::Cuda, driver, device).unwrap_err();
            assert_eq!(stop.ending(), Ending::NothingRan);
            assert!(stop.to_string().contains(named), "{stop}");
        }
    }

    #[test]
    fn the_simulated_device_is_chosen_with_the_reason_that_fits() {
        assert_eq!(choose_from(Wish::Sim, None, None).unwrap().why, "asked for with --device sim");
        assert!(choose_from(Wish::Auto, None, None).unwrap().why.contains("no NVIDIA driver"));
        assert!(choose_from(Wish::Auto, Some("/l"), Some("H200")).unwrap().why.contains("H200"));
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
