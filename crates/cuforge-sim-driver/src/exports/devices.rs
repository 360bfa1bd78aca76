//! Devices and what they say of themselves.

use std::ffi::{c_char, c_int};

use crate::attributes;
use crate::boundary::{Out, Text, exports};
use crate::codes::Code;

exports! {
    Initialised cuDeviceGetCount(count: Out<c_int>) since 2000,
    "Answers `CUFORGE_SIM_DEVICES`.", |driver| {
        count.put(driver.devices.len() as c_int)
    }

    Initialised cuDeviceGet(device: Out<c_int>, ordinal: c_int) since 2000,
    "A device is its ordinal.", |driver| {
        driver.device(ordinal)?;
        device.put(ordinal)
    }

    Initialised cuDeviceGetName(name: Out<c_char>, room: c_int, device: c_int) since 2000,
    "Answers `CUFORGE_SIM_NAME`.", |driver| {
        driver.device(device)?;
        name.put_text(&driver.settings().name, usize::try_from(room).unwrap_or(0))
    }

    Initialised cuDeviceGetUuid(uuid: Out<[u8; 16]>, device: c_int) since 9020,
    "A number of its own for each device, the same in every run.", |driver| {
        uuid.put(driver.device(device)?.uuid())
    }

    Initialised cuDeviceGetUuid_v2(uuid: Out<[u8; 16]>, device: c_int) since 11040,
    "As `cuDeviceGetUuid`.", |driver| {
        uuid.put(driver.device(device)?.uuid())
    }

    Initialised cuDeviceTotalMem_v2(bytes: Out<usize>, device: c_int) since 3020,
    "Answers `CUFORGE_SIM_MEMORY`; the host's own memory is taken when it is touched.", |driver| {
        bytes.put(driver.device(device)?.capacity as usize)
    }

    Initialised cuDeviceGetAttribute(value: Out<c_int>, attribute: c_int, device: c_int) since 2000,
    "Those of the compute capability, changed by `CUFORGE_SIM_ATTRIBUTES`; textures, surfaces and arrays are 0: there are none.", |driver| {
        let device = driver.device(device)?;
        let found = attributes::value(driver.settings(), device.ordinal, attribute);
        value.put(found.ok_or(Code::INVALID_VALUE)?)
    }

    Initialised cuDeviceGetPCIBusId(text: Out<c_char>, room: c_int, device: c_int) since 4010,
    "Domain 0, bus 1 + ordinal.", |driver| {
        text.put_text(&driver.device(device)?.pci(), usize::try_from(room).unwrap_or(0))
    }

    Initialised cuDeviceGetByPCIBusId(device: Out<c_int>, text: Text) since 4010,
    "Finds what `cuDeviceGetPCIBusId` answers.", |driver| {
        let text = text.get()?;
        let found = driver.devices.iter().find(|device| device.pci() == text);
        device.put(found.ok_or(Code::INVALID_DEVICE)?.ordinal as c_int)
    }

    Initialised cuDeviceComputeCapability(major: Out<c_int>, minor: Out<c_int>, device: c_int) since 2000,
    "Answers `CUFORGE_SIM_CAPABILITY`.", |driver| {
        driver.device(device)?;
        major.put(driver.settings().capability.0)?;
        minor.put(driver.settings().capability.1)
    }

    Initialised cuDeviceCanAccessPeer(can: Out<c_int>, device: c_int, peer: c_int) since 4000,
    "No device reaches another's memory; copies between devices work.", |driver| {
        driver.device(device)?;
        driver.device(peer)?;
        can.put(0)
    }
}
