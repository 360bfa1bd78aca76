//! Modules: PTX text that the driver takes or refuses, with the words of its assembler.

use cuforge_sim::Program;
use cuforge_sim::ptx::{self, Function as Text, Space, Statement};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicI32;

use crate::attributes::MAX_THREADS;
use crate::codes::Code;
use crate::function::{Fixed, Function, Placed, REGISTERS_PER_THREAD, Tuned, plain_dynamic_shared};
use crate::settings::Settings;

/// A loaded module.
#[derive(Debug)]
pub(crate) struct Module {
    pub(crate) handle: u64,
    pub(crate) context: u64,
    pub(crate) text: ptx::Module,
    pub(crate) placed: Arc<Placed>,
    /// Name, address and bytes of each variable.
    pub(crate) variables: Vec<(String, u64, u64)>,
    /// Functions that were asked for.
    pub(crate) functions: Mutex<BTreeMap<String, Arc<Function>>>,
}

/// Why a text is no module for this device.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Rejection {
    pub(crate) code: Code,
    /// What the assembler prints.
    pub(crate) log: String,
}

/// The function through which kernels set the value of a conditional node.
const SET_CONDITIONAL: &str = "cudaGraphSetConditional";

/// Its body here: the handle of a condition is the address of its value.
const SET_CONDITIONAL_BODY: &str = ".func cudaGraphSetConditional(.param .b64 handle, .param .b32 value)\n\
    {\n.reg .b64 %sim_handle;\n.reg .b32 %sim_value;\nld.param.u64 %sim_handle, [handle];\n\
    ld.param.u32 %sim_value, [value];\nst.global.u32 [%sim_handle], %sim_value;\nret;\n}\n";

/// Parses and decodes a text for the device of the settings.
pub(crate) fn read(text: &str, settings: &Settings) -> Result<(ptx::Module, Program), Rejection> {
    let invalid = |line: u32, what: String| Rejection {
        code: Code::INVALID_PTX,
        log: format!(
            "ptxas application ptx input, line {line}; error   : {what}\n\
             ptxas fatal   : Ptx assembly aborted due to errors"
        ),
    };
    let module =
        ptx::Module::parse(text).map_err(|error| invalid(error.line(), error.reason().to_string()))?;
    check_header(&module, settings)?;
    let module =
        with_conditionals(module).map_err(|error| invalid(error.line(), error.reason().to_string()))?;
    let program = Program::load(&module).map_err(|error| invalid(1, error.to_string()))?;
    for name in program.kernel_names() {
        let Ok(kernel) = program.kernel(&name) else { continue };
        for (line, form) in kernel.unsupported() {
            let opcode = form.trim_start().split(['.', ' ', ';', '\t']).next().unwrap_or_default();
            if !OPCODES.contains(&opcode) {
                return Err(invalid(line, format!("Not a name of any known instruction: '{opcode}'")));
            }
        }
    }
    Ok((module, program))
}

/// Gives the one function that the CUDA runtime's device library has for graphs its body, where a text declares it.
fn with_conditionals(module: ptx::Module) -> Result<ptx::Module, ptx::ParseError> {
    let declared =
        module.functions().find(|function| function.name == *SET_CONDITIONAL && function.body.is_none());
    let Some(span) = declared.map(|function| function.span) else { return Ok(module) };
    let source = module.source();
    let (before, after) = (&source[..span.range().start], &source[span.range().end..]);
    // A declaration ends with a semicolon, inside its span or behind it.
    let after = after.strip_prefix(';').unwrap_or(after);
    ptx::Module::parse(&format!("{before}{SET_CONDITIONAL_BODY}{after}"))
}

fn check_header(module: &ptx::Module, settings: &Settings) -> Result<(), Rejection> {
    let header = module.header();
    let (major, minor) = header.version;
    let newest = newest_ptx(settings.driver_version);
    let line = |at: u32| format!("ptxas application ptx input, line {at}; fatal   : ");
    if (major, minor) > newest {
        return Err(Rejection {
            code: Code::UNSUPPORTED_PTX_VERSION,
            log: format!(
                "{}Unsupported .version {major}.{minor}; current version is '{}.{}'",
                line(header.version_span.line),
                newest.0,
                newest.1
            ),
        });
    }
    let target = &*header.target;
    let number = target.strip_prefix("sm_").unwrap_or_default();
    let digits = number.trim_end_matches(['a', 'f']);
    let capability = digits.parse::<i32>().unwrap_or(i32::MAX);
    let refused =
        |what: String| Rejection { code: Code::INVALID_PTX, log: line(header.target_span.line) + &what };
    if (major, minor) < oldest_ptx(capability) {
        return Err(refused(format!(
            "SM version specified by .target is higher than default SM version assumed: PTX ISA version {major}.{minor} does not have {target}"
        )));
    }
    let here = settings.capability.0 * 10 + settings.capability.1;
    let runs = match &number[digits.len()..] {
        "" => capability <= here,
        "f" => capability / 10 == here / 10 && capability <= here,
        _ => capability == here,
    };
    if !runs {
        return Err(refused(format!(
            "Program with .target '{target}' cannot be compiled to architecture 'sm_{here}'"
        )));
    }
    Ok(())
}

/// Drivers before a version assemble PTX up to that: the table in the release notes of the PTX ISA.
const NEWEST_BEFORE: &[(i32, (u32, u32))] = &[
    (12_000, (7, 8)),
    (12_010, (8, 0)),
    (12_020, (8, 1)),
    (12_030, (8, 2)),
    (12_040, (8, 3)),
    (12_050, (8, 4)),
    (12_070, (8, 5)),
    (12_080, (8, 6)),
    (12_090, (8, 7)),
    (13_000, (8, 8)),
];

/// Targets before a capability need PTX from that on.
const OLDEST_BEFORE: &[(i32, (u32, u32))] = &[
    (50, (3, 0)),
    (60, (4, 0)),
    (70, (5, 0)),
    (75, (6, 0)),
    (80, (6, 3)),
    (86, (7, 0)),
    (87, (7, 1)),
    (89, (7, 4)),
    (100, (7, 8)),
    (103, (8, 6)),
    (120, (8, 8)),
    (121, (8, 7)),
];

fn newest_ptx(driver_version: i32) -> (u32, u32) {
    let known = NEWEST_BEFORE.iter().find(|(before, _)| driver_version < *before);
    known.map_or((9, (driver_version.cast_unsigned().saturating_sub(13_000)) / 10 % 10), |(_, ptx)| *ptx)
}

fn oldest_ptx(capability: i32) -> (u32, u32) {
    OLDEST_BEFORE.iter().find(|(before, _)| capability < *before).map_or((8, 8), |(_, ptx)| *ptx)
}

impl Module {
    /// Describes a kernel of the module.
    pub(crate) fn describe(&self, handle: u64, name: &str) -> Option<Function> {
        let kernel = self.placed.program.kernel(name).ok()?;
        let text = self.text.entries().find(|entry| entry.name == *name)?;
        let parameters = parameters(text);
        let tuned = Tuned {
            max_dynamic_shared: AtomicI32::new(plain_dynamic_shared(&kernel)),
            carveout: AtomicI32::new(-1),
            non_portable_cluster: AtomicI32::new(0),
            cluster_policy: AtomicI32::new(0),
            cluster: Mutex::new([0; 3]),
        };
        let fixed = fixed(&self.text, text);
        let (module, context, placed) = (self.handle, self.context, Arc::clone(&self.placed));
        Some(Function { handle, module, context, kernel, placed, parameters, fixed, tuned })
    }
}

/// Offset and bytes of each parameter.
fn parameters(text: &Text) -> Vec<(usize, usize)> {
    let mut end = 0usize;
    let mut found = Vec::new();
    for parameter in &text.parameters {
        let bytes = parameter.size_bytes().and_then(|bytes| usize::try_from(bytes).ok()).unwrap_or_default();
        let start = end.next_multiple_of(parameter.align_bytes().max(1) as usize);
        found.push((start, bytes));
        end = start + bytes;
    }
    found
}

fn fixed(module: &ptx::Module, text: &Text) -> Fixed {
    let product = |name: &str| {
        text.tuning(name)
            .map(|values| values.iter().fold(1u64, |product, value| product.saturating_mul(*value)))
    };
    let threads = product("reqntid").or_else(|| product("maxntid"));
    let registers = text.tuning("maxnreg").and_then(|values| values.first().copied());
    let least = |value: Option<u64>, most: i32| {
        value.and_then(|value| i32::try_from(value).ok()).map_or(most, |value| value.min(most))
    };
    let cluster = text.tuning("reqnctapercluster").map_or([0; 3], |values| {
        let at =
            |index: usize| values.get(index).map_or(1, |value| u32::try_from(*value).unwrap_or(u32::MAX));
        [at(0), at(1), at(2)]
    });
    let constants = module.variables().filter(|variable| variable.space == Space::Const);
    let constant_bytes: u64 = constants.filter_map(ptx::Variable::size_bytes).sum();
    let digits: String = module.header().target.chars().filter(char::is_ascii_digit).collect();
    Fixed {
        max_threads: least(threads, MAX_THREADS),
        local_bytes: i32::try_from(text.body.as_ref().map_or(0, local_bytes)).unwrap_or(i32::MAX),
        constant_bytes: i32::try_from(constant_bytes).unwrap_or(i32::MAX),
        registers: least(registers, REGISTERS_PER_THREAD),
        target: digits.parse().unwrap_or_default(),
        cluster,
    }
}

fn local_bytes(block: &ptx::Block) -> u64 {
    let bytes = |statement: &Statement| match statement {
        Statement::Block(inner) => local_bytes(inner),
        Statement::Variable(variable) if variable.space == Space::Local => {
            variable.size_bytes().unwrap_or_default()
        }
        _ => 0,
    };
    block.statements.iter().map(bytes).sum()
}

/// Every opcode of the PTX ISA up to 9.0: what is none of these is no instruction, and what is one but cannot be run
/// here ends its kernel when a thread comes to it.
const OPCODES: &[&str] = &[
    "abs",
    "activemask",
    "add",
    "addc",
    "alloca",
    "and",
    "applypriority",
    "atom",
    "bar",
    "barrier",
    "bfe",
    "bfi",
    "bfind",
    "bmsk",
    "bra",
    "brev",
    "brkpt",
    "brx",
    "call",
    "clusterlaunchcontrol",
    "clz",
    "cnot",
    "copysign",
    "cos",
    "cp",
    "createpolicy",
    "cvt",
    "cvta",
    "discard",
    "div",
    "dp2a",
    "dp4a",
    "elect",
    "ex2",
    "exit",
    "fence",
    "fma",
    "fns",
    "getctarank",
    "griddepcontrol",
    "isspacep",
    "istypep",
    "ld",
    "ldmatrix",
    "ldu",
    "lg2",
    "lop3",
    "mad",
    "mad24",
    "madc",
    "mapa",
    "match",
    "max",
    "mbarrier",
    "membar",
    "min",
    "mma",
    "mov",
    "movmatrix",
    "mul",
    "mul24",
    "multimem",
    "nanosleep",
    "neg",
    "not",
    "or",
    "pmevent",
    "popc",
    "prefetch",
    "prefetchu",
    "prmt",
    "rcp",
    "red",
    "redux",
    "rem",
    "ret",
    "rsqrt",
    "sad",
    "selp",
    "set",
    "setmaxnreg",
    "setp",
    "shf",
    "shfl",
    "shl",
    "shr",
    "sin",
    "slct",
    "sqrt",
    "st",
    "stackrestore",
    "stacksave",
    "stmatrix",
    "sub",
    "subc",
    "suld",
    "suq",
    "sured",
    "sust",
    "szext",
    "tanh",
    "tcgen05",
    "tensormap",
    "testp",
    "tex",
    "tld4",
    "trap",
    "txq",
    "vabsdiff",
    "vabsdiff2",
    "vabsdiff4",
    "vadd",
    "vadd2",
    "vadd4",
    "vavrg2",
    "vavrg4",
    "vmad",
    "vmax",
    "vmax2",
    "vmax4",
    "vmin",
    "vmin2",
    "vmin4",
    "vote",
    "vset",
    "vset2",
    "vset4",
    "vshl",
    "vshr",
    "vsub",
    "vsub2",
    "vsub4",
    "wgmma",
    "wmma",
    "xor",
];

#[cfg(test)]
mod tests {
    use super::*;

    fn rejection(text: &str, change: impl Fn(&mut Settings)) -> Option<(i32, String)> {
        let mut settings = Settings::read();
        (settings.capability, settings.driver_version) = ((9, 0), 13_000);
        change(&mut settings);
        read(text, &settings).err().map(|rejection| (rejection.code.0, rejection.log))
    }

    fn text(version: &str, target: &str, body: &str) -> String {
        format!(
            ".version {version}\n.target {target}\n.address_size 64\n.visible .entry k()\n{{\n{body}\n}}\n"
        )
    }

    // Measured on driver 580.159.04 with a plain sm_90 kernel: 7.8, 8.0 and 9.0 load, 6.0 is INVALID_PTX, 9.1 and later
    // are UNSUPPORTED_PTX_VERSION.
    #[test]
    fn ptx_versions_are_taken_and_refused_as_a_real_driver_does() {
        for version in ["7.8", "8.0", "9.0"] {
            assert_eq!(rejection(&text(version, "sm_90", "ret;"), |_| ()), None, "{version}");
        }
        let code = |version: &str| rejection(&text(version, "sm_90", "ret;"), |_| ()).unwrap().0;
        assert_eq!(["6.0", "9.1", "99.0"].map(code), [218, 222, 222]);
        let old = rejection(&text("8.5", "sm_90", "ret;"), |settings| settings.driver_version = 12_040);
        let (code, log) = old.unwrap();
        assert_eq!(code, 222);
        assert!(log.contains("Unsupported .version 8.5; current version is '8.4'"), "{log}");
    }

    #[test]
    fn a_target_above_the_device_and_an_unknown_instruction_are_refused_with_their_line() {
        let (code, log) =
            rejection(&text("8.0", "sm_90", "ret;"), |settings| settings.capability = (8, 6)).unwrap();
        assert_eq!(code, 218);
        assert!(log.contains("line 2") && log.contains("'sm_90'") && log.contains("'sm_86'"), "{log}");
        assert!(
            rejection(&text("8.0", "sm_90a", "ret;"), |settings| settings.capability = (10, 0)).is_some()
        );
        assert!(rejection(&text("8.0", "sm_75", "ret;"), |_| ()).is_none());
        let (code, log) = rejection(&text("7.8", "sm_75", "frobnicate;"), |_| ()).unwrap();
        assert!(code == 218 && log.contains("line 6") && log.contains("'frobnicate'"), "{log}");
        assert!(rejection(&text("8.0", "sm_90", "wgmma.fence.sync.aligned;\nret;"), |_| ()).is_none());
        let (code, log) = rejection("no text at all", |_| ()).unwrap();
        assert!(code == 218 && log.contains("line 1"), "{log}");
    }

    #[test]
    fn parameters_lie_where_the_text_puts_them() {
        let text = ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k(.param .u8 a, .param .u64 b, \
                    .param .align 16 .b8 c[20], .param .u16 d)\n{ ret; }\n";
        let module = ptx::Module::parse(text).unwrap();
        let entry = module.entries().next().unwrap();
        assert_eq!(parameters(entry), [(0, 1), (8, 8), (16, 20), (36, 2)]);
    }

    #[test]
    fn a_declared_setter_of_conditions_gets_a_body() {
        let text = ".version 8.0\n.target sm_80\n.address_size 64\n\
            .extern .func cudaGraphSetConditional\n(\n.param .b64 a,\n.param .b32 b\n)\n;\n\
            .visible .entry k(.param .u64 h)\n{\n.reg .b64 %rd<2>;\n.reg .b32 %r<2>;\nld.param.u64 %rd1, [h];\n\
            mov.u32 %r1, 0;\n{\n.param .b64 p0;\nst.param.b64 [p0+0], %rd1;\n.param .b32 p1;\n\
            st.param.b32 [p1+0], %r1;\ncall.uni cudaGraphSetConditional, (p0, p1);\n}\nret;\n}\n";
        let (module, program) = read(text, &Settings::read()).unwrap();
        assert!(module.function(SET_CONDITIONAL).unwrap().body.is_some());
        assert_eq!(program.kernel("k").unwrap().unsupported().count(), 0);
    }
}
