//! What is emitted, and what is refused: names, lines, parameters, bytes, and errors with their places.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail loudly in its helpers too")]

use cuforge_core::{Access, Constant, Element, KernelSpec, Parameter, Schedule, ScheduleError};
use cuforge_wgsl::{Bounds, EmitError, Emitted, Place, emit, emit_with};

fn spec(source: &str) -> KernelSpec {
    KernelSpec::wgsl("k", "k", source.to_owned(), vec![])
}

fn emitted(source: &str) -> Emitted {
    emit(&spec(source), &Schedule::new([64, 1, 1])).unwrap_or_else(|error| panic!("{source}\n{error}"))
}

/// A kernel with one buffer of 32-bit integers, `x`, whose body is `body`.
fn kernel(body: &str) -> String {
    format!(
        "@group(0) @binding(0) var<storage, read_write> x: array<u32>;\n\
         @compute @workgroup_size(64)\n\
         fn k(@builtin(global_invocation_id) id: vec3<u32>) {{\n{body}\n}}\n"
    )
}

fn body_of(emitted: &Emitted) -> &str {
    emitted.cuda_c.split("extern \"C\"").nth(1).unwrap_or_default()
}

const AFFINE: &str = include_str!("affine.wgsl");

#[test]
fn a_kernel_is_emitted_as_a_person_would_write_it() {
    let spec = KernelSpec::wgsl("affine", "affine", AFFINE, vec![]);
    let emitted = emit(&spec, &Schedule::new([64, 1, 1])).unwrap();
    assert_eq!(emitted.cuda_c, include_str!("affine.cu"), "{}", emitted.cuda_c);
}

#[test]
fn the_same_input_gives_the_same_bytes() {
    // Names, helpers and constants of every kind, so that an order that came from a hash would show.
    let source = "
        struct A { a: f32, b: vec3<f32> }
        struct B { a: A, m: mat3x2<f32>, n: u32 }
        @group(1) @binding(0) var<storage, read_write> first: array<A>;
        @group(0) @binding(7) var<storage, read_write> second: array<B>;
        @group(0) @binding(3) var<uniform> one: A;
        @group(0) @binding(2) var<uniform> two: vec4<f32>;
        var<workgroup> w1: array<f32, 64>;
        var<workgroup> w2: array<vec2<i32>, 64>;
        var<private> p1: i32;
        var<private> p2: i32 = 3;
        const T1 = array<u32, 2>(1u, 2u);
        const T2 = array<u32, 2>(3u, 4u);
        fn f(a: i32) -> i32 { p1 += a / p2; return p1 % 3; }
        fn g(a: i32) -> i32 { p2 += f(a) << 2u; return p2; }
        @compute @workgroup_size(64)
        fn k(@builtin(global_invocation_id) id: vec3<u32>) {
            w1[id.x] = sin(one.a) + dot(two, two.wzyx) + f32(g(i32(id.x)));
            w2[id.x] = abs(vec2<i32>(id.xy)) / 3;
            workgroupBarrier();
            first[id.x].b = normalize(cross(one.b, second[id.y].a.b)) + mix(one.b, one.b, 0.5);
            second[id.x].m *= mat3x3<f32>(1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0);
            second[id.x].n = T1[id.x] + T2[id.y] + u32(w1[1]) + u32(w2[2].x);
        }";
    let first = emitted(source);
    for _ in 0..20 {
        assert_eq!(emitted(source), first);
    }
}

#[test]
fn parameters_are_pointers_by_group_and_binding_then_one_uniform_block_then_lengths() {
    let emitted = emitted(
        "struct P { n: u32, v: vec3<f32> }
         @group(1) @binding(0) var<storage, read_write> late: array<vec4<f32>>;
         @group(0) @binding(5) var<storage, read> early: array<i32, 8>;
         @group(0) @binding(9) var<uniform> p: P;
         @group(0) @binding(1) var<uniform> scale: f32;
         @group(2) @binding(0) var<storage, read> unused: array<i32>;
         @compute @workgroup_size(64)
         fn k(@builtin(global_invocation_id) id: vec3<u32>) {
             late[id.x] = vec4(p.v, scale) * f32(early[id.y]) * f32(p.n);
         }",
    );
    let buffer = |name: &'static str, group, binding, element, access| Parameter::Buffer {
        name: name.into(),
        group,
        binding,
        element,
        access,
    };
    let want = [
        buffer("early", 0, 5, Element::I32, Access::StorageRead),
        buffer("late", 1, 0, Element::F32, Access::StorageReadWrite),
        Parameter::Uniform { bytes: 48, align: 16 },
        Parameter::BufferLength { group: 0, binding: 5 },
        Parameter::BufferLength { group: 1, binding: 0 },
    ];
    assert_eq!(emitted.parameters, want);
}

#[test]
fn listed_parameters_must_be_those_of_the_text() {
    let source = kernel("x[id.x] = 1u;");
    let schedule = Schedule::new([64, 1, 1]);
    let with = |parameters| emit(&KernelSpec::wgsl("k", "k", source.clone(), parameters), &schedule);
    let x = Parameter::buffer("other", 0, Element::F32, Access::StorageReadWrite);
    let length = Parameter::BufferLength { group: 0, binding: 0 };
    for parameters in [vec![x.clone()], vec![x.clone(), length.clone()]] {
        assert_eq!(with(parameters).unwrap().parameters, [x.clone(), length.clone()]);
    }
    let read = Parameter::buffer("x", 0, Element::U32, Access::StorageRead);
    let elsewhere = Parameter::buffer("x", 1, Element::U32, Access::StorageReadWrite);
    let scalar = Parameter::scalar("n", Element::U32);
    for parameters in [vec![read], vec![elsewhere], vec![x.clone(), scalar], vec![length, x]] {
        let error = with(parameters).unwrap_err();
        assert!(matches!(error, EmitError::Parameters { .. }), "{error}");
    }
}

#[test]
fn a_schedule_sets_the_overrides_and_what_they_are_named() {
    let source = "
        override CUFORGE_BLOCK_X: u32 = 1;
        override rows: u32 = 1;
        override CUFORGE_ITEMS: u32 = 1;
        override SCALE: f32 = 1.0;
        override LEAST: i32 = 0;
        @id(7) override FLAG: bool = false;
        @group(0) @binding(0) var<storage, read_write> x: array<f32>;
        @group(0) @binding(1) var<storage, read_write> y: array<i32>;
        @compute @workgroup_size(CUFORGE_BLOCK_X, rows)
        fn k(@builtin(global_invocation_id) id: vec3<u32>) {
            for (var i = 0u; i < CUFORGE_ITEMS; i++) {
                x[id.x + i] = select(SCALE, -SCALE, FLAG);
            }
            y[id.x] = LEAST;
        }";
    let schedule = Schedule::new([32, 4, 1])
        .with_items_per_invocation(3)
        .with_constant("SCALE", Constant::Float(0.25))
        .with_constant("LEAST", Constant::Int(i64::from(i32::MIN)))
        .with_constant("FLAG", Constant::Bool(true));
    let emitted = emit(&spec(source), &schedule).unwrap();
    for part in [
        "__launch_bounds__(128)",
        "CUFORGE_ITEMS = 3u;",
        "-0.25f",
        "LEAST = (-2147483647 - 1);",
        "blockIdx.y * 4u + threadIdx.y",
    ] {
        assert!(emitted.cuda_c.contains(part), "{part}\n{}", emitted.cuda_c);
    }
}

#[test]
fn a_schedule_that_the_text_does_not_take_is_refused() {
    let fixed = kernel("x[id.x] = 1u;");
    let refused = |source: &str, schedule: &Schedule| emit(&spec(source), schedule).unwrap_err();
    let error = refused(&fixed, &Schedule::new([32, 1, 1]));
    assert_eq!(error, EmitError::WorkgroupSize { declared: [64, 1, 1], schedule: [32, 1, 1] });
    let block = Schedule::new([64, 1, 1]);
    let unknown = |constant: &str| {
        EmitError::Schedule(ScheduleError::UnknownConstant { kernel: "k".into(), constant: constant.into() })
    };
    assert_eq!(refused(&fixed, &block.clone().with_items_per_invocation(2)), unknown("CUFORGE_ITEMS"));
    assert_eq!(refused(&fixed, &block.clone().with_constant("T", Constant::Int(1))), unknown("T"));
    let taking = format!("override T: u32 = 1;\n{}", kernel("x[id.x] = T;"));
    for (name, value) in
        [("T", Constant::Float(1.0)), ("T", Constant::Bool(true)), ("CUFORGE_BLOCK_X", Constant::Int(64))]
    {
        let error = refused(&taking, &block.clone().with_constant(name, value));
        assert!(matches!(error, EmitError::Schedule(ScheduleError::BadConstant { .. })), "{name}: {error}");
    }
    let error = refused(&taking, &block.clone().with_constant("T", Constant::Int(-1)));
    assert!(matches!(error, EmitError::Overrides { .. }), "{error}");
    let twice = block.with_constant("T", Constant::Int(1)).with_constant("T", Constant::Int(2));
    assert!(matches!(refused(&taking, &twice), EmitError::Schedule(ScheduleError::BadConstant { .. })));
}

#[test]
fn an_array_may_be_as_long_as_an_override_says() {
    let source = format!(
        "override TILE: u32 = 4;\nvar<workgroup> tile: array<u32, TILE * 2u>;\n{}",
        kernel("tile[id.x] = id.y; workgroupBarrier(); x[id.x] = tile[id.y];")
    );
    let schedule = Schedule::new([64, 1, 1]).with_constant("TILE", Constant::Int(24));
    let emitted = emit(&spec(&source), &schedule).unwrap();
    assert!(emitted.cuda_c.contains("__shared__ array<u32, 48> tile;"), "{}", emitted.cuda_c);
    assert!(emitted.cuda_c.contains("tile[wgsl::at_most(id.x, 47u)]"), "{}", emitted.cuda_c);
}

#[test]
fn workgroup_memory_beyond_what_is_static_is_dynamic() {
    let with = |words: u32| {
        emitted(&format!(
            "var<workgroup> a: array<u32, {words}>;\nvar<workgroup> b: vec4<f32>;\n{}",
            kernel("a[id.x] = 1u; b.x = 2.0; workgroupBarrier(); x[id.x] = a[id.y] + u32(b.x);")
        ))
    };
    assert_eq!(with(12 * 1024 - 4).shared_memory.fixed_bytes, 0);
    assert_eq!(with(12 * 1024 - 3).shared_memory.fixed_bytes, 48 * 1024 + 16);
    assert!(with(12 * 1024).cuda_c.contains("extern __shared__"));
}

#[test]
fn what_cuda_c_cannot_express_is_refused_with_its_place() {
    let refused = |declaration: &str, body: &str| {
        let source = format!("{declaration}\n{}", kernel(body));
        match emit(&spec(&source), &Schedule::new([64, 1, 1])) {
            Err(EmitError::Unsupported { what, place }) => (what, place),
            other => panic!("{source}\n{other:?}"),
        }
    };
    let at = |line, column| Some(Place { line, column });
    let texture = "@group(0) @binding(1) var t: texture_2d<f32>;";
    let read = "x[id.x] = u32(textureLoad(t, vec2<i32>(0, 0), 0).x);";
    assert_eq!(refused(texture, read), ("a texture", at(1, 23)));
    let storage = "@group(0) @binding(1) var t: texture_storage_2d<r32float, write>;";
    assert_eq!(refused(storage, "textureStore(t, vec2<i32>(0, 0), vec4<f32>());"), ("a texture", at(1, 23)));
    let sampled = format!("@group(0) @binding(2) var s: sampler;\n{texture}");
    let sample = "x[id.x] = u32(textureSampleLevel(t, s, vec2<f32>(), 0.0).x);";
    assert_eq!(refused(&sampled, sample), ("a sampler", at(1, 23)));
    let query = "enable wgpu_ray_query;\n@group(0) @binding(1) var acc: acceleration_structure;";
    let trace = "var q: ray_query; rayQueryInitialize(&q, acc, RayDesc(0u, 255u, 0.1, 9.0, vec3<f32>(), vec3<f32>()));";
    assert_eq!(refused(query, trace), ("a ray query", at(2, 23)));
}

#[test]
fn faults_of_the_text_are_told_with_their_place() {
    let error = emit(&spec("fn k() {\n    let x = ;\n}"), &Schedule::new([64, 1, 1])).unwrap_err();
    let EmitError::Parse { place, report, .. } = error else { panic!("{error}") };
    assert_eq!(place, Some(Place { line: 2, column: 13 }));
    assert!(report.contains("k.wgsl:2:13"), "{report}");
    let divergent = kernel("if (id.x > 3u) { workgroupBarrier(); }");
    let error = emit(&spec(&divergent), &Schedule::new([64, 1, 1])).unwrap_err();
    assert_eq!(error, EmitError::Divergent { place: Some(Place { line: 4, column: 18 }) });
    let mistyped = kernel("x[id.x] = 1.5;");
    let error = emit(&spec(&mistyped), &Schedule::new([64, 1, 1])).unwrap_err();
    assert!(matches!(error, EmitError::Parse { place: Some(Place { line: 4, .. }), .. }), "{error}");
    let unbound = "var<storage> x: u32;\n@compute @workgroup_size(64) fn k() { _ = x; }";
    let error = emit(&spec(unbound), &Schedule::new([64, 1, 1])).unwrap_err();
    assert!(matches!(error, EmitError::Invalid { place: Some(Place { line: 1, .. }), .. }), "{error}");
    let elsewhere = KernelSpec::wgsl("k", "other", kernel(""), vec![]);
    let error = emit(&elsewhere, &Schedule::new([64, 1, 1])).unwrap_err();
    assert_eq!(error, EmitError::EntryPoint { name: "other".into(), known: vec!["k".into()] });
}

/// The line of the WGSL that each line of the CUDA C says it comes from, for lines with `mark` in them.
fn line_of(text: &str, mark: &str) -> Option<u32> {
    let mut line = None;
    for written in text.lines() {
        if let Some(rest) = written.strip_prefix("#line ") {
            line = rest.split(' ').next().and_then(|n| n.parse().ok());
            continue;
        }
        if written.contains(mark) {
            return line;
        }
        line = line.map(|line: u32| line + 1);
    }
    None
}

#[test]
fn every_statement_says_which_line_of_the_wgsl_it_comes_from() {
    let body = "let a = id.x * 5u;\n\n\n\n\nvar total = a;\nfor (var i = 0u; i < 9u; i++) {\n    total += x[i];\n}\n\
                if (total > 7u) {\n    x[3] = 11u;\n}\nx[id.x] = total;";
    let emitted = emitted(&kernel(body));
    // The body begins in line 4.
    for (mark, line) in [
        ("a = id.x * 5u", 4),
        ("total = a", 9),
        ("i < 9u", 10),
        ("total = total + ", 11),
        ("= 11u", 14),
        ("= total;", 16),
    ] {
        assert_eq!(line_of(&emitted.cuda_c, mark), Some(line), "{mark}\n{}", emitted.cuda_c);
    }
}

#[test]
fn names_are_kept_and_those_that_cpp_has_taken_are_not() {
    let emitted = emitted(&kernel(
        "let größe = id.x; let int = größe + 1u; let threadIdx = x[int]; x[int] = größe * threadIdx;",
    ));
    let body = body_of(&emitted);
    assert!(body.contains("const u32 int_ = gruf6_udf_e + 1u;"), "{body}");
    assert!(body.contains("threadIdx_"), "{body}");
}

#[test]
fn an_entry_point_called_main_is_exported_under_another_name() {
    let source = kernel("x[id.x] = 1u;").replace("fn k(", "fn main(");
    let spec = KernelSpec::wgsl("k", "main", source, vec![]);
    let emitted = emit(&spec, &Schedule::new([64, 1, 1])).unwrap();
    assert_eq!(emitted.entry_point, "main_");
    assert!(emitted.cuda_c.contains("\nmain_("), "{}", emitted.cuda_c);
}

#[test]
fn indices_are_checked_unless_they_cannot_be_out_of_bounds_or_nobody_asks() {
    let source = format!(
        "var<workgroup> w: array<u32, 64>;\n{}",
        kernel(
            "w[id.x] = 1u;\nw[id.x % 64u] = 2u;\nfor (var i = 0u; i < 64u; i++) { w[i] = 3u; }\n\
             for (var i = 0; i < 65; i++) { w[i] = 4u; }\nx[id.x] = 5u;"
        )
    );
    let checked = emitted(&source);
    let body = body_of(&checked);
    for part in [
        "w[wgsl::at_most(id.x, 63u)] = 1u;",
        "w[id.x % 64u] = 2u;",
        "w[i] = 3u;",
        "w[wgsl::at_most(i_, 63u)] = 4u;",
    ] {
        assert!(body.contains(part), "{part}\n{body}");
    }
    assert!(body.contains("if (id.x < x_length) { x[id.x] = 5u; }"), "{body}");
    let schedule = Schedule::new([64, 1, 1]);
    let unchecked = emit_with(&spec(&source), &schedule, Bounds::Unchecked).unwrap();
    assert!(!body_of(&unchecked).contains("at_most"));
    assert!(!body_of(&unchecked).contains("if ("));
}

#[test]
fn a_counter_that_the_body_writes_is_not_taken_to_be_bounded() {
    for (body, index) in [
        ("for (var i = 0u; i < 4u; i++) { i += 9u; w[i] = 1u; }", "w[wgsl::at_most(i, 3u)]"),
        ("for (var i = -9; i < 4; i++) { w[i] = 1u; }", "w[wgsl::at_most(i, 3u)]"),
        ("for (var i = 0; i < 4; i -= 1) { w[i] = 1u; }", "w[wgsl::at_most(i, 3u)]"),
        ("for (var i = 0; i < 4; i++) { w[i] = 1u; }", "w[i]"),
        ("for (var i = 0u; i <= 4u; i++) { w[i] = 1u; }", "w[wgsl::at_most(i, 3u)]"),
        ("for (var i = 0u; i < 4u; i++) { w[i + 1u] = 1u; }", "w[wgsl::at_most(i + 1u, 3u)]"),
    ] {
        let emitted = emitted(&kernel(&format!("var w: array<u32, 4>;\n{body}\nx[id.x] = w[1];")));
        assert!(emitted.cuda_c.contains(index), "{body}\n{}", emitted.cuda_c);
    }
}

#[test]
fn floats_too_large_become_the_largest_integer_that_is_a_float_of_their_type() {
    let source = "
        enable f16;
        @group(0) @binding(0) var<storage, read> h: array<f16>;
        @group(0) @binding(1) var<storage, read> f: array<f32>;
        @group(0) @binding(2) var<storage, read_write> x: array<u32>;
        @compute @workgroup_size(64)
        fn k(@builtin(global_invocation_id) id: vec3<u32>) {
            x[id.x] = u32(f[id.x]) + u32(h[id.x]) + u32(i32(f[id.y]));
        }";
    let text = emitted(source).cuda_c;
    for largest in ["4294967040.0f", "2147483520.0f", "65504.0f"] {
        assert!(text.contains(largest), "{largest}\n{text}");
    }
}
