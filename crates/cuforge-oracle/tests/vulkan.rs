//! The Vulkan backend: copies, bindings, timestamps, and errors, on whatever Vulkan device there is.
#![cfg(feature = "wgpu")]
#![allow(clippy::unwrap_used, reason = "a test program, its helpers included")]

use cuforge_core::{
    Access, Arguments, BuildOptions, ContextErrorKind, Element, Extent, KernelSpec, OracleContext,
    OracleContextExt, Parameter, Request, Sampling, Schedule,
};
use cuforge_oracle::{Case, Evaluation, Fill, OracleError, Real, Reference, Verdict, WgpuContext, verify};

const SCALE: &str = "
struct Uniforms { factor: f32, n: u32 }
@group(0) @binding(0) var<storage, read> x: array<f32>;
@group(0) @binding(1) var<storage, read_write> y: array<f32>;
@group(0) @binding(2) var<uniform> u: Uniforms;
override CUFORGE_BLOCK_X: u32 = 64;
override CUFORGE_ITEMS: u32 = 1;
@compute @workgroup_size(CUFORGE_BLOCK_X)
fn scale(@builtin(global_invocation_id) id: vec3<u32>) {
    for (var k = 0u; k < CUFORGE_ITEMS; k += 1u) {
        let i = id.x * CUFORGE_ITEMS + k;
        if i < u.n { y[i] = u.factor * x[i]; }
    }
}
";

fn context() -> WgpuContext {
    WgpuContext::builder().memory_bytes(1 << 20).build().unwrap()
}

fn scale() -> KernelSpec {
    let parameters = vec![
        Parameter::buffer("x", 0, Element::F32, Access::StorageRead),
        Parameter::buffer("y", 1, Element::F32, Access::StorageReadWrite),
        Parameter::Uniform { bytes: 8, align: 4 },
    ];
    KernelSpec::wgsl("scale", "scale", SCALE, parameters)
}

#[test]
#[ignore = "needs Vulkan"]
fn bytes_of_any_length_come_back_and_leave_their_neighbours_alone() {
    let mut context = context();
    for access in [Access::StorageRead, Access::StorageReadWrite] {
        let view = context.allocate(&Request::new(64).with_access(access)).unwrap();
        context.write(&view, &[7; 64]).unwrap();
        for (offset, len) in [(0, 0), (1, 1), (3, 2), (5, 11), (61, 3)] {
            let part = view.slice(offset, len).unwrap();
            let bytes: Vec<u8> = (0..len as u8).map(|byte| byte + 100).collect();
            context.write(&part, &bytes).unwrap();
            let mut back = vec![0; len as usize];
            context.read(&part, &mut back).unwrap();
            assert_eq!(back, bytes, "{len} bytes at {offset}");
            let mut all = vec![0; 64];
            context.read(&view, &mut all).unwrap();
            let around =
                all.iter().enumerate().filter(|(at, _)| !(offset..offset + len).contains(&(*at as u64)));
            assert!(around.clone().all(|(_, byte)| *byte == 7), "{len} bytes at {offset}: {all:?}");
            context.write(&view, &[7; 64]).unwrap();
        }
        let longer = context.write(&view, &[0; 65]).unwrap_err();
        assert_eq!(longer.kind(), ContextErrorKind::Misuse);
    }
}

#[test]
#[ignore = "needs Vulkan"]
fn a_schedule_reaches_the_overrides_and_the_uniform_block_its_values() {
    let mut context = context();
    let n = 1000u32;
    let values: Vec<f32> = (0..n).map(|i| i as f32).collect();
    let read = Request::new(0).with_access(Access::StorageRead);
    let x = context.allocate_and_write(&read, &values).unwrap().bound_to(0, 0, Access::StorageRead).unwrap();
    for (block, items, factor) in [(64, 1, 2.0f32), (32, 4, 3.0), (256, 3, -0.5)] {
        let schedule = Schedule::new([block, 1, 1]).with_items_per_invocation(items);
        let y = context.allocate(&Request::new(4 * u64::from(n))).unwrap();
        let y = y.bound_to(0, 1, Access::StorageReadWrite).unwrap();
        let mut prepared = context.prepare(&scale(), &schedule, &BuildOptions::default()).unwrap();
        let by_value: Vec<u8> = factor.to_le_bytes().into_iter().chain(n.to_le_bytes()).collect();
        let arguments = Arguments { views: &[y, x], by_value: &by_value };
        let sampling = Sampling { warmups: 1, samples: 3 };
        let mut samples = Vec::new();
        context.run(&mut prepared, arguments, Extent::Elements(n.into()), sampling, &mut samples).unwrap();
        let right: Vec<f32> = values.iter().map(|value| factor * value).collect();
        assert_eq!(context.read_f32(&y).unwrap(), right, "{block} x {items}");
        assert_eq!(samples.len(), 3);
        if context.timestamp_supported() {
            assert!(samples.iter().all(|sample| *sample > 0), "{samples:?}");
        }
    }
}

#[test]
#[ignore = "needs Vulkan"]
fn what_does_not_fit_is_named_and_the_context_goes_on() {
    let mut context = context();
    let schedule = Schedule::new([64, 1, 1]);
    let prepare = |context: &mut WgpuContext, text: &'static str| {
        let parameters = scale().parameters().to_vec();
        let spec = KernelSpec::wgsl("scale", "scale", text, parameters);
        context.prepare(&spec, &schedule, &BuildOptions::default()).map(drop)
    };
    let wrong = prepare(&mut context, "fn scale( {").unwrap_err();
    assert_eq!(wrong.kind(), ContextErrorKind::Kernel, "{wrong}");
    // SAFETY: never run.
    let ptx = unsafe { KernelSpec::ptx("p", "p", ".version 8.0", Vec::new()) };
    let foreign = context.prepare(&ptx, &schedule, &BuildOptions::default()).unwrap_err();
    assert_eq!(foreign.kind(), ContextErrorKind::Unsupported);

    let written = context.allocate(&Request::new(256)).unwrap();
    let x = written.bound_to(0, 0, Access::StorageRead).unwrap();
    let y = context.allocate(&Request::new(256)).unwrap().bound_to(0, 1, Access::StorageReadWrite).unwrap();
    let mut prepared = context.prepare(&scale(), &schedule, &BuildOptions::default()).unwrap();
    let mut run = |views: &[_]| {
        let arguments = Arguments { views, by_value: &[0; 8] };
        prepared.kernel.dispatch(arguments, Extent::Elements(64)).map(drop)
    };
    let both_ways = run(&[x, y]).unwrap_err();
    assert_eq!(both_ways.kind(), ContextErrorKind::Unsupported, "{both_ways}");
    assert_eq!(run(&[y]).unwrap_err().kind(), ContextErrorKind::Misuse);

    let read = Request::new(256).with_access(Access::StorageRead);
    let x = context.allocate(&read).unwrap().bound_to(0, 0, Access::StorageRead).unwrap();
    let odd = x.slice(4, 128).unwrap();
    let mut prepared = context.prepare(&scale(), &schedule, &BuildOptions::default()).unwrap();
    let mut run = |views: &[_]| {
        let arguments = Arguments { views, by_value: &[0; 8] };
        prepared.kernel.dispatch(arguments, Extent::Elements(64)).map(drop)
    };
    assert_eq!(run(&[odd, y]).unwrap_err().kind(), ContextErrorKind::Unsupported);
    run(&[x, y]).unwrap();
    context.clear().unwrap();
    assert_eq!(run(&[x, y]).unwrap_err().kind(), ContextErrorKind::Misuse, "stale views");
}

struct Scale;

impl Reference for Scale {
    fn evaluate<R: Real>(&self, run: &mut Evaluation<'_, R>) -> Result<(), OracleError> {
        let factor = run.scalar("factor")?;
        let x = run.reals("x")?;
        run.store("y", x.into_iter().map(|x| x * factor))
    }
}

fn judged(text: &'static str) -> cuforge_oracle::Report {
    let spec = KernelSpec::wgsl("scale", "scale", text, scale().parameters().to_vec());
    let n = 4099u32;
    let case = Case::builder(spec, Scale)
        .schedule(Schedule::new([128, 1, 1]).with_items_per_invocation(2))
        .input("x", Element::F32, n.into(), Fill::Uniform { low: -8.0, high: 8.0 })
        .output("y", Element::F32, n.into())
        .uniform("factor", 1.75f32)
        .uniform("n", n)
        .extent(Extent::Elements(n.into()))
        .build()
        .unwrap();
    verify(&case, &mut context()).unwrap()
}

#[test]
#[ignore = "needs Vulkan"]
fn wrong_kernels_fail_and_a_right_one_is_vacuous_without_a_compiler_for_its_mutants() {
    // Without a compiler there is no PTX to mutate.
    let right = judged(SCALE);
    assert_eq!(right.verdict, Verdict::Vacuous, "{right:?}");
    assert_eq!(right.mismatches(), 0);
    for (from, to) in [("u.factor * x[i]", "u.factor + x[i]"), ("i < u.n", "i + 1u < u.n")] {
        let text: &'static str = SCALE.replace(from, to).leak();
        assert_ne!(text, SCALE);
        let wrong = judged(text);
        assert!(matches!(wrong.verdict, Verdict::Failed), "{from}: {:?}", wrong.verdict);
    }
}

#[test]
fn a_device_of_no_such_name_is_unavailable_and_says_what_there_is() {
    let none = WgpuContext::builder().adapter_named("no such device").build().unwrap_err();
    assert_eq!(none.kind(), ContextErrorKind::Unavailable);
    assert!(none.to_string().contains("no such device"), "{none}");
}
