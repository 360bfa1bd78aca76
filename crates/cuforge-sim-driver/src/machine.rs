//! What a simulated machine has beside its contexts: devices, memory, the order of work.

use std::sync::Arc;

use crate::codes::{Answer, Code};
use crate::device::Device;
use crate::handles::{Kind, Registry};
use crate::hold::Hold;
use crate::order::Order;
use crate::pool::{PhysicalMemory, Pool};
use crate::settings::Settings;
use crate::space::Space;
use crate::turns::Turns;

/// The machine that a copy of the library plays.
#[derive(Debug)]
pub(crate) struct Machine {
    settings: Settings,
    pub(crate) devices: Vec<Arc<Device>>,
    pub(crate) space: Space,
    pub(crate) hold: Hold,
    pub(crate) order: Order,
    pub(crate) turns: Turns,
    pub(crate) physicals: Registry<PhysicalMemory>,
    pub(crate) pools: Registry<Pool>,
}

impl Machine {
    pub(crate) fn new(settings: Settings) -> Self {
        let device = |ordinal| Arc::new(Device::new(ordinal, settings.memory_bytes));
        let machine = Self {
            devices: (0..settings.devices).map(device).collect(),
            space: Space::default(),
            hold: Hold::default(),
            order: Order::default(),
            turns: Turns::new(settings.launch.seed),
            physicals: Registry::new(Kind::Physical),
            pools: Registry::new(Kind::Pool),
            settings,
        };
        for ordinal in 0..machine.settings.devices {
            machine.pools.add(|handle| Pool::of_device(handle, ordinal));
        }
        machine
    }

    pub(crate) fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Loses every device.
    pub(crate) fn lose_all(&self, code: Code, what: &str) {
        for device in &self.devices {
            device.lose(code, what);
        }
    }

    /// A device by its ordinal, which is its `CUdevice` too.
    pub(crate) fn device(&self, ordinal: i32) -> Answer<&Arc<Device>> {
        let ordinal = usize::try_from(ordinal).map_err(|_| Code::INVALID_DEVICE)?;
        self.devices.get(ordinal).ok_or(Code::INVALID_DEVICE)
    }
}
