//! The devices that tests run on side by side, one test at a time on each.

use std::env;

use crate::probe::Probe;

/// One place where one test runs at a time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Slot {
    /// The device, in words.
    pub(super) device: String,
    /// What `CUDA_VISIBLE_DEVICES` is set to; `None` leaves it alone.
    pub(super) visible: Option<String>,
}

/// A slot for each device that `probe` found.
pub(super) fn slots(probe: &Probe) -> Vec<Slot> {
    let chosen = env::var("CUDA_VISIBLE_DEVICES").ok();
    probe.devices.iter().map(|device| slot(device.name.clone(), device, chosen.as_deref(), probe)).collect()
}

fn slot(name: String, device: &crate::probe::Found, chosen: Option<&str>, probe: &Probe) -> Slot {
    // One device needs no choice, and a partition of a GPU goes by a name that only its owner knows.
    if probe.devices.len() == 1 {
        return Slot { device: name, visible: None };
    }
    // Whoever chose devices for this process chose the names too; the driver numbers them in that order.
    let place = usize::try_from(device.ordinal).unwrap_or(usize::MAX);
    let given = chosen.and_then(|list| list.split(',').nth(place)).map(|word| word.trim().to_owned());
    let visible = given.or_else(|| device.uuid.clone()).unwrap_or_else(|| device.ordinal.to_string());
    Slot { device: name, visible: Some(visible) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::Found;

    fn probe(count: u32) -> Probe {
        let device = |ordinal| Found {
            ordinal,
            name: format!("GPU {ordinal}"),
            compute_capability: None,
            memory_bytes: 0,
            uuid: (ordinal == 0).then(|| "GPU-a".to_owned()),
        };
        Probe { devices: (0..count).map(device).collect(), ..Probe::default() }
    }

    fn visible(count: u32, chosen: Option<&str>) -> Vec<Option<String>> {
        let probe = probe(count);
        probe.devices.iter().map(|device| slot("x".into(), device, chosen, &probe).visible).collect()
    }

    #[test]
    fn several_devices_are_told_apart_by_uuid_or_by_number() {
        assert_eq!(visible(2, None), [Some("GPU-a".into()), Some("1".into())]);
    }

    #[test]
    fn a_choice_of_devices_that_was_made_already_is_kept() {
        assert_eq!(visible(2, Some("5, 3")), [Some("5".into()), Some("3".into())]);
        assert_eq!(visible(1, Some("5")), [None]);
    }
}
