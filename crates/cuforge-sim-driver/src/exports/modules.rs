//! Modules: PTX that is taken, images for other devices that are refused.

use parking_lot::Mutex;
use std::ffi::{c_char, c_int};
use std::sync::Arc;

use crate::boundary::{In, Out, Text, exports};
use crate::codes::{Answer, Code};
use crate::context::Context;
use crate::driver::Driver;
use crate::function::{Function, Placed};
use crate::module::{self, Module};
use crate::space::Owner;

/// `CU_JIT_INFO_LOG_BUFFER`, `CU_JIT_ERROR_LOG_BUFFER`, each followed by its size.
const INFO_LOG: c_int = 3;
const ERROR_LOG: c_int = 5;

exports! {
    Live cuModuleLoadData(module: Out<u64>, image: usize) since 2000,
    "PTX text. A cubin or fat binary is NO_BINARY_FOR_GPU, as from a driver without that architecture. Waits for all work, as measured.", |driver| {
        load(driver, module, image, &[])
    }

    Live cuModuleLoadDataEx(module: Out<u64>, image: usize, count: u32, options: In<c_int>, values: In<usize>) since 2010,
    "As `cuModuleLoadData`, with the log; other options have no effect.", |driver| {
        let options = options.list(count as usize)?;
        let values = values.list(count as usize)?;
        load(driver, module, image, &options.into_iter().zip(values).collect::<Vec<_>>())
    }

    Live cuModuleLoadFatBinary(module: Out<u64>, image: usize) since 2000,
    "NO_BINARY_FOR_GPU for fat binaries, text as `cuModuleLoadData`.", |driver| {
        load(driver, module, image, &[])
    }

    Live cuModuleLoad(module: Out<u64>, path: Text) since 2000,
    "A file as `cuModuleLoadData`.", |driver| {
        module.required()?;
        let bytes = std::fs::read(path.get()?).map_err(|_| Code::FILE_NOT_FOUND)?;
        load_bytes(driver, module, &bytes, &[])
    }

    Live cuModuleUnload(module: u64) since 2000,
    "Waits for all work, as measured on hardware; then functions and variables are gone.", |driver| {
        let loaded = driver.modules.get(module)?;
        if let Ok(context) = driver.contexts.get(loaded.context) {
            context.wait();
        }
        driver.modules.remove(module)?;
        driver.functions.remove_where(|function| function.module == module);
        driver.space.remove_where(|range| {
            range.owner == Owner::Variable && loaded.placed.addresses.contains(&range.base)
        });
        Ok(())
    }

    Live cuModuleGetFunction(function: Out<u64>, module: u64, name: Text) since 2000,
    "A kernel by its name; the same handle each time.", |driver| {
        function.required()?;
        function.put(find(driver, &*driver.modules.get(module)?, name.get()?)?.handle)
    }

    Live cuModuleGetFunctionCount(count: Out<u32>, module: u64) since 12040,
    "Kernels of the module.", |driver| {
        count.put(driver.modules.get(module)?.placed.program.kernel_names().len() as u32)
    }

    Live cuModuleEnumerateFunctions(functions: Out<u64>, count: u32, module: u64) since 12040,
    "Kernels of the module, by name.", |driver| {
        let module = driver.modules.get(module)?;
        let mut handles = Vec::new();
        for name in module.placed.program.kernel_names() {
            handles.push(find(driver, &module, &name)?.handle);
        }
        functions.put_list(handles.into_iter(), count as usize)
    }

    Live cuModuleGetGlobal_v2(address: Out<u64>, bytes: Out<usize>, module: u64, name: Text) since 3020,
    "A `.global` or `.const` variable at module level.", |driver| {
        let module = driver.modules.get(module)?;
        let name = name.get()?;
        let (_, at, size) = module.variables.iter().find(|(known, ..)| known == name).ok_or(Code::NOT_FOUND)?;
        address.offer(*at);
        bytes.offer(*size as usize);
        Ok(())
    }

    Live cuModuleGetLoadingMode(mode: Out<c_int>) since 11070,
    "Eager.", |_driver| {
        mode.put(1)
    }
}

fn load(driver: &'static Driver, out: Out<u64>, image: usize, options: &[(c_int, usize)]) -> Answer {
    out.required()?;
    // Any image begins with four bytes, text of fewer ends with its zero.
    let image = Text::inner(image);
    load_bytes(driver, out, image.bytes()?, options)
}

fn load_bytes(driver: &'static Driver, out: Out<u64>, bytes: &[u8], options: &[(c_int, usize)]) -> Answer {
    let context = Context::current()?;
    let said = |which: c_int, text: &str| {
        let place = options.iter().find(|(option, _)| *option == which).map(|(_, value)| *value);
        let room = options.iter().find(|(option, _)| *option == which + 1).map(|(_, value)| *value);
        match (place, room) {
            (Some(place), Some(room)) if place != 0 => Out::<c_char>::inner(place).put_text(text, room),
            _ => Ok(()),
        }
    };
    said(INFO_LOG, "")?;
    said(ERROR_LOG, "")?;
    if is_binary(bytes) {
        said(ERROR_LOG, "no kernel image for the simulated device: it runs PTX")?;
        return Err(Code::NO_BINARY_FOR_GPU);
    }
    let text = std::str::from_utf8(bytes).map_err(|_| Code::INVALID_IMAGE)?;
    if !text.contains(".version") {
        // Neither an image nor PTX, as measured.
        return Err(Code::INVALID_IMAGE);
    }
    let (text, program) = match module::read(text, driver.settings()) {
        Ok(read) => read,
        Err(rejection) => {
            said(ERROR_LOG, &rejection.log)?;
            return Err(rejection.code);
        }
    };
    context.wait();
    let mut addresses = Vec::new();
    for variable in program.variables() {
        addresses.push(driver.allocate(&context, variable.bytes.max(1), Owner::Variable)?);
    }
    for (address, bytes) in addresses.iter().zip(program.initial_bytes(&addresses)) {
        driver.space.store(*address, &bytes)?;
    }
    let variables = program.variables().zip(&addresses);
    let variables = variables.map(|(layout, at)| (layout.name.to_owned(), *at, layout.bytes)).collect();
    let module = driver.modules.add(|handle| Module {
        handle,
        context: context.handle,
        text,
        placed: Arc::new(Placed { program, addresses }),
        variables,
        functions: Mutex::default(),
    });
    out.put(module.handle)
}

/// Whether an image is code for some GPU: the wrapper or the head of a fat binary, or an ELF file for CUDA. Of an image
/// that a pointer names only what stands before the first zero byte is known, so any ELF head of seven bytes will do.
fn is_binary(bytes: &[u8]) -> bool {
    const FAT: [&[u8]; 2] = [b"\xb1\x43\x62\x46", b"\x50\xed\x55\xba"];
    // Magic, 64 bits, little-endian, version 1.
    const ELF: &[u8] = b"\x7fELF\x02\x01\x01";
    FAT.iter().any(|magic| bytes.starts_with(magic)) || bytes.starts_with(ELF)
}

fn find(driver: &Driver, module: &Module, name: &str) -> Answer<Arc<Function>> {
    let mut functions = module.functions.lock();
    if let Some(function) = functions.get(name) {
        return Ok(Arc::clone(function));
    }
    let handle = driver.functions.fresh();
    let function = Arc::new(module.describe(handle, name).ok_or(Code::NOT_FOUND)?);
    driver.functions.put(handle, Arc::clone(&function));
    functions.insert(name.to_owned(), Arc::clone(&function));
    Ok(function)
}
