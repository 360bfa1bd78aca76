//! What the tree says of forms that people and compilers write.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use std::fs;
use std::path::PathBuf;

use cuforge_sim::ptx::{
    AddressBase, FunctionKind, Initializer, Instruction, Item, Linkage, Module, NumberKind, OperandKind,
    ScalarType, SourcePlace, Space, Statement,
};

fn data(name: &str) -> Module {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name);
    Module::parse(&fs::read_to_string(path).unwrap()).unwrap()
}

fn forms() -> Module {
    data("hand/forms.ptx")
}

/// The instructions of the kernel in `forms.ptx` that have this mnemonic.
fn found(module: &Module, mnemonic: &str) -> Vec<Instruction> {
    let all = module.function("k").unwrap().instructions();
    let found: Vec<_> = all.filter(|instruction| instruction.mnemonic.text == *mnemonic).cloned().collect();
    assert!(!found.is_empty(), "{mnemonic}");
    found
}

/// The instruction made of this text, in a kernel that declares `.reg .b32 r<4>`.
fn instruction(text: &str) -> Instruction {
    let text = format!(".version 8.0\n.target sm_80\n.entry k() {{ .reg .b32 r<4>; {text} }}");
    Module::parse(&text).unwrap().function("k").unwrap().instructions().next().unwrap().clone()
}

#[test]
fn the_header_is_read() {
    let header = forms().header().clone();
    assert_eq!((header.version, header.address_size), ((8, 0), Some(64)));
    assert_eq!((header.target.as_str(), header.target_options.len()), ("sm_90", 1));
    let short = Module::parse(".version 7.8 .target sm_75").unwrap();
    assert_eq!((short.header().address_size, short.items().len()), (None, 0));
}

#[test]
fn variables_have_their_shape_and_initial_values() {
    let module = forms();
    let pool = module.variable("pool").unwrap();
    assert_eq!((pool.linkage, pool.space, pool.size_bytes()), (Some(Linkage::Extern), Space::Shared, None));
    let pair = module.variable("pair").unwrap();
    assert_eq!((pair.vector, pair.align_bytes(), pair.size_bytes()), (2, 8, Some(8)));
    // One declaration, three variables.
    assert_eq!(module.variable("second").unwrap().size_bytes(), Some(24));
    assert!(module.variable("third").unwrap().initializer.is_none());
    assert_eq!(module.variable("doubles").unwrap().size_bytes(), Some(32));
    assert_eq!(module.variable("managed").unwrap().attributes, ["managed"]);
    let Some(Initializer::List(values)) = &module.variable("addresses").unwrap().initializer else {
        panic!()
    };
    let expected = Initializer::Symbol { name: "first".into(), offset: 4, generic: true, mask: None };
    assert_eq!((values.len(), &values[0]), (3, &expected));
    let Some(Initializer::List(values)) = &module.variable("pieces").unwrap().initializer else { panic!() };
    let expected =
        Initializer::Symbol { name: "first".into(), offset: 0, generic: false, mask: Some(0xff00) };
    assert_eq!(values[1], expected);
    let Some(Initializer::List(values)) = &module.variable("doubles").unwrap().initializer else { panic!() };
    let read: Vec<f64> = values
        .iter()
        .map(|value| if let Initializer::Number(number) = value { number.as_f64() } else { panic!() })
        .collect();
    assert_eq!(read, [1.0, 0.5, 1000.0, 0.0025]);
}

#[test]
fn functions_have_their_parameters_results_and_tuning() {
    let module = forms();
    let kernel = module.function("k").unwrap();
    assert_eq!((kernel.kind, kernel.linkage), (FunctionKind::Entry, Some(Linkage::Visible)));
    assert_eq!(kernel.tuning("maxntid"), Some(&[16, 4][..]));
    assert_eq!(kernel.tuning("minnctapersm"), Some(&[2][..]));
    assert_eq!(kernel.tuning("reqntid"), None);
    let [pointer, bytes] = &kernel.parameters[..] else { panic!("{:?}", kernel.parameters) };
    let points = pointer.pointer.as_ref().unwrap();
    assert_eq!((points.space, points.align, pointer.align_bytes()), (Some(Space::Global), Some(16), 8));
    assert_eq!((bytes.size_bytes(), bytes.align_bytes(), bytes.ty), (Some(24), 8, ScalarType::B8));
    let called = module.function("f").unwrap();
    assert_eq!((called.results.len(), called.results[0].space, called.parameters.len()), (1, Space::Reg, 2));
    let outside = module.function("outside").unwrap();
    assert!(outside.body.is_none() && outside.tuning("noreturn") == Some(&[]));
    assert_eq!(module.entries().count(), 1);
}

#[test]
fn a_definition_is_found_before_its_declaration() {
    let module = data("nvrtc/calls.13.5.37.sm_80.ieee.ptx");
    let declared = module.functions().filter(|function| function.name == "_Z2upf").count();
    assert_eq!(declared, 2);
    assert!(module.function("_Z2upf").unwrap().body.is_some());
}

#[test]
fn names_without_a_percent_sign_are_registers_where_they_are_declared() {
    let module = forms();
    let mov = &found(&module, "mov.u32")[0];
    assert!(matches!(&mov.operands[0].kind, OperandKind::Register { name, .. } if name == "one"));
    let OperandKind::Immediate(number) = &mov.operands[1].kind else { panic!() };
    assert_eq!((number.as_i64(), number.text.as_str()), (19, "(1 << 4) | 3*(2-1)"));
    // `r<4>` declares r0 to r3 and nothing else.
    for (word, register) in
        [("r0", true), ("r3", true), ("r4", false), ("r", false), ("r03", false), ("%x", true)]
    {
        let operand = instruction(&format!("mov.u32 r1, {word};")).operands[1].kind.clone();
        assert_eq!(matches!(operand, OperandKind::Register { .. }), register, "{word}");
    }
    // A scope's registers end with it.
    let scoped = instruction("{ .reg .b32 inner; } mov.u32 r1, inner;");
    assert!(matches!(scoped.operands[1].kind, OperandKind::Symbol { .. }));
    let scoped = instruction("{ .reg .b32 inner; mov.u32 r1, inner; }");
    assert!(matches!(scoped.operands[1].kind, OperandKind::Register { .. }));
}

#[test]
fn addresses_have_base_offset_and_coordinates() {
    let module = forms();
    let load = &found(&module, "ld.global.L2::128B.u32")[0];
    assert_eq!(load.mnemonic.modifiers().collect::<Vec<_>>(), ["global", "L2::128B", "u32"]);
    let OperandKind::Address(address) = &load.operands[1].kind else { panic!() };
    assert_eq!((&address.base, address.offset), (&AddressBase::Register("d".into()), 8));
    let OperandKind::Address(address) = &found(&module, "ld.global.u32")[0].operands[1].kind else {
        panic!()
    };
    assert_eq!((address.offset, module.text(address.offset_span.unwrap())), (-4, "+ -4"));
    let OperandKind::Address(address) = &found(&module, "st.shared.u32")[0].operands[0].kind else {
        panic!()
    };
    assert_eq!((&address.base, address.offset), (&AddressBase::Symbol("tile".into()), 16));
    let OperandKind::Address(address) = &found(&module, "tex.2d.v4.f32.s32")[0].operands[1].kind else {
        panic!()
    };
    assert_eq!(address.coordinates.len(), 1);
    let absolute = instruction("ld.local.u32 r1, [16];");
    let OperandKind::Address(address) = &absolute.operands[1].kind else { panic!() };
    assert_eq!((&address.base, address.offset), (&AddressBase::Absolute, 16));
    let minus = instruction("ld.u32 r1, [%rd1-8];");
    assert!(matches!(&minus.operands[1].kind, OperandKind::Address(address) if address.offset == -8));
}

#[test]
fn guards_pairs_sinks_and_negations_are_told_apart() {
    let module = forms();
    let branch = &found(&module, "bra")[0];
    let guard = branch.guard.as_ref().unwrap();
    assert!(guard.negated && guard.register == "p");
    let pairs = found(&module, "setp.lt.and.u32");
    assert!(matches!(&pairs[0].operands[0].kind, OperandKind::Pair(..)));
    assert!(matches!(&pairs[0].operands[3].kind, OperandKind::Not(_)));
    let OperandKind::Pair(_, second) = &found(&module, "setp.eq.u32")[0].operands[0].kind else { panic!() };
    assert_eq!(second.kind, OperandKind::Sink);
    let OperandKind::Vector(parts) = &found(&module, "mov.b64")[0].operands[0].kind else { panic!() };
    assert_eq!((parts.len(), &parts[0].kind), (2, &OperandKind::Sink));
    let video = &found(&module, "vadd.s32.u32.s32.add")[0];
    assert!(matches!(&video.operands[2].kind, OperandKind::Register { component: Some(h), .. } if h == "h1"));
    let special = &found(&module, "mov.v4.u32")[0];
    assert!(
        matches!(&special.operands[1].kind, OperandKind::Register { name, component: None } if name == "%tid")
    );
}

#[test]
fn calls_have_results_target_arguments_and_prototype() {
    let module = forms();
    let calls = found(&module, "call");
    let parts = calls[0].call().unwrap();
    assert_eq!((parts.results.len(), parts.arguments.len(), parts.prototype.is_some()), (1, 2, false));
    assert!(matches!(&parts.target.kind, OperandKind::Symbol { name, .. } if name == "f"));
    let indirect = calls[1].call().unwrap();
    assert!(matches!(&indirect.target.kind, OperandKind::Register { name, .. } if name == "d"));
    assert!(
        matches!(&indirect.prototype.unwrap().kind, OperandKind::Symbol { name, .. } if name == "CALLED")
    );
    assert!(found(&module, "trap")[0].call().is_none());
}

#[test]
fn tables_and_prototypes_bear_their_labels() {
    let module = forms();
    let body = module.function("k").unwrap().body.clone().unwrap();
    let tables: Vec<_> = body
        .statements
        .iter()
        .filter_map(|statement| match statement {
            Statement::Targets(table) => Some((table.name.as_str(), table.calls, table.targets.len())),
            _ => None,
        })
        .collect();
    assert_eq!(tables, [("TABLE", false, 2), ("CALLED", true, 2)]);
    let prototype = body.statements.iter().find_map(|statement| match statement {
        Statement::Prototype(prototype) => Some(prototype),
        _ => None,
    });
    let prototype = prototype.unwrap();
    assert_eq!((prototype.name.as_str(), prototype.results.len()), ("POINTED", 1));
    assert_eq!(prototype.parameters[1].size_bytes(), Some(8));
    let switch = data("nvrtc/calls.12.9.86.sm_90.debug.ptx");
    assert!(switch.functions().any(|function| function.instructions().any(|i| i.opcode() == "setp")));
}

#[test]
fn instructions_carry_the_source_place_in_force() {
    let module = forms();
    let place = |line, column| Some(SourcePlace { file: 1, line, column });
    assert_eq!(found(&module, "bra")[0].location, None);
    assert_eq!(found(&module, "vadd.s32.u32.s32.add")[0].location, place(7, 3));
    assert_eq!(found(&module, "trap")[0].location, place(9, 0));
    let lined = data("nvrtc/streaming.12.9.86.sm_90.line.ptx");
    let files: Vec<_> = lined
        .items()
        .iter()
        .filter_map(
            |item| if let Item::File(file) = item { Some((file.index, file.path.as_str())) } else { None },
        )
        .collect();
    assert_eq!(files, [(1, "/kernels/streaming.cu")]);
    assert!(lined.function("affine").unwrap().instructions().filter(|i| i.location.is_some()).count() > 10);
}

#[test]
fn numbers_keep_value_kind_and_spelling() {
    let cases = [
        ("0xFFU", 255, NumberKind::Unsigned),
        ("-1", u64::MAX, NumberKind::Signed),
        ("0f3F800000", 0x3f80_0000, NumberKind::F32),
        ("0dBFF0000000000000", (-1.0_f64).to_bits(), NumberKind::F64),
        ("-1.5", (-1.5_f64).to_bits(), NumberKind::F64),
        ("WARP_SZ-1", 31, NumberKind::Signed),
    ];
    for (text, bits, kind) in cases {
        let instruction = instruction(&format!("mov.b32 r1, {text};"));
        let OperandKind::Immediate(number) = &instruction.operands[1].kind else { panic!("{text}") };
        assert_eq!((number.bits, number.kind, number.text.as_str()), (bits, kind, text));
    }
}
