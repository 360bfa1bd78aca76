//! What a backend may do behind the oracle's back, and what of it comes to light: wrong legs, writes outside of buffers,
//! work done only once, one block alone.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail loudly in its helpers too")]

#[path = "../../../examples/toy-backend/src/lib.rs"]
#[allow(missing_docs, missing_debug_implementations, unreachable_pub, clippy::missing_errors_doc)]
mod toy_backend;

#[path = "../../../examples/own-kernel/tests/softmax.rs"]
mod own_kernel;

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use cuforge_core::{Access, DeclaredBlock, Element, Extent, KernelSpec, Parameter, Schedule};
use cuforge_oracle::{
    Blame, Case, CaseBuilder, CheckOptions, Evaluation, Fate, Fill, Inputs, InputsOutcome, Judge, Leg,
    OracleError, Outcome, Real, Reference, Report, SecondKernel, SimContext, Verdict, VerifyOptions, check,
    odd_sizes, report, verify, verify_with,
};
use toy_backend::{Function, Toy};

/// `y[i] = x[i] * scale + 1` for `i < n`, with a line between the product and the store.
fn text(middle: &str) -> String {
    format!(
        ".version 8.0\n.target sm_75\n.address_size 64\n\
         .visible .entry f(.param .u64 f_0, .param .u64 f_1, .param .u32 f_2, .param .f32 f_3)\n{{\n\
         .reg .pred %p<2>;\n.reg .f32 %f<5>;\n.reg .b32 %r<6>;\n.reg .b64 %rd<8>;\n\
         ld.param.u64 %rd1, [f_0];\nld.param.u64 %rd2, [f_1];\nld.param.u32 %r2, [f_2];\nld.param.f32 %f3, [f_3];\n\
         mov.u32 %r3, %ntid.x;\nmov.u32 %r4, %ctaid.x;\nmov.u32 %r5, %tid.x;\n\
         mad.lo.s32 %r1, %r3, %r4, %r5;\nsetp.ge.u32 %p1, %r1, %r2;\n@%p1 bra $DONE;\n\
         cvta.to.global.u64 %rd3, %rd1;\nmul.wide.u32 %rd4, %r1, 4;\nadd.s64 %rd5, %rd3, %rd4;\n\
         ld.global.f32 %f1, [%rd5];\nfma.rn.f32 %f2, %f1, %f3, 0f3F800000;\n{middle}\n\
         cvta.to.global.u64 %rd6, %rd2;\nadd.s64 %rd7, %rd6, %rd4;\nst.global.f32 [%rd7], %f2;\n$DONE:\nret;\n}}\n"
    )
}

const RIGHT: &str = "";
const OFF: &str = "add.f32 %f2, %f2, 0f3F800000;";
const SCALE: f32 = 3.0;

fn spec(text: String) -> KernelSpec {
    let parameters = vec![
        Parameter::buffer("x", 0, Element::F32, Access::StorageRead),
        Parameter::buffer("y", 1, Element::F32, Access::StorageReadWrite),
        Parameter::scalar("n", Element::U32),
        Parameter::scalar("scale", Element::F32),
    ];
    let block = DeclaredBlock { workgroup_size: [64, 1, 1], items_per_invocation: 1 };
    // SAFETY: it runs on the simulated device only, which checks every access.
    unsafe { KernelSpec::ptx("f", "f", text, parameters) }.with_declared_blocks(vec![block])
}

struct Scaled;

impl Reference for Scaled {
    fn evaluate<R: Real>(&self, run: &mut Evaluation<'_, R>) -> Result<(), OracleError> {
        let (x, scale) = (run.reals("x")?, run.scalar("scale")?);
        run.store("y", x.into_iter().map(|x| x.mul_add(scale, R::one())))
    }
}

fn with_judge(middle: &str, judge: impl Into<Judge>, elements: u32) -> CaseBuilder {
    Case::judged_by(spec(text(middle)), judge.into())
        .shape(elements.to_string())
        .schedule(Schedule::new([64, 1, 1]))
        .input("x", Element::F32, elements.into(), Fill::Uniform { low: -1.0, high: 1.0 })
        .output("y", Element::F32, elements.into())
        .scalar("n", elements)
        .scalar("scale", SCALE)
        .extent(Extent::Elements(elements.into()))
}

fn case(middle: &str) -> Case {
    with_judge(middle, Scaled, 300).build().unwrap()
}

fn load(memory: &[u8], range: &Range<usize>, index: usize) -> f32 {
    let at = range.start + 4 * index;
    f32::from_le_bytes(memory[at..at + 4].try_into().unwrap())
}

/// What the toy runs for `f`: the right thing, then whatever else is asked for.
fn device(after: impl Fn(&mut [u8], &[Range<usize>]) + Send + Sync + 'static) -> Toy {
    let function: Function = Arc::new(move |memory, buffers, _| {
        for index in 0..buffers[0].len() / 4 {
            let value = load(memory, &buffers[0], index).mul_add(SCALE, 1.0);
            let at = buffers[1].start + 4 * index;
            memory[at..at + 4].copy_from_slice(&value.to_le_bytes());
        }
        after(memory, buffers);
    });
    Toy::new(1 << 20).unwrap().with_kernel("f", function)
}

/// Adds one to each output.
fn one_off(memory: &mut [u8], buffers: &[Range<usize>]) {
    for index in 0..buffers[1].len() / 4 {
        let value = load(memory, &buffers[1], index) + 1.0;
        let at = buffers[1].start + 4 * index;
        memory[at..at + 4].copy_from_slice(&value.to_le_bytes());
    }
}

fn judged(case: &Case, mut device: Toy) -> Report {
    verify(case, &mut device).unwrap()
}

fn blame(report: &Report) -> Option<Blame> {
    report.legs.as_ref().unwrap().blame()
}

#[test]
fn a_backend_of_ones_own_passes_with_three_legs_that_agree() {
    let report = judged(&case(RIGHT), device(|_, _| ()));
    assert_eq!(report.verdict, Verdict::Passed, "{:#?}", report::details(&report));
    let legs = report.legs.as_ref().unwrap();
    assert_eq!((&legs.device, &legs.simulated, &legs.between), (&Leg::Agree, &Leg::Agree, &Leg::Agree));
    assert_eq!(report.adapter, "toy");
}

#[test]
fn the_legs_tell_a_wrong_kernel_from_a_wrong_device_and_from_wrong_semantics() {
    // Both devices do what the text says, and it is not what the reference says.
    let kernel = judged(&case(OFF), device(one_off));
    assert_eq!((&kernel.verdict, blame(&kernel)), (&Verdict::Failed, Some(Blame::Kernel)));
    // The text is right and so is the simulated device: what ran was something else.
    let hardware = judged(&case(RIGHT), device(one_off));
    assert_eq!((&hardware.verdict, blame(&hardware)), (&Verdict::Failed, Some(Blame::CompilerOrHardware)));
    assert!(hardware.notes.iter().any(|note| note.contains("ptxas")), "{:?}", hardware.notes);
    // The device is right where the simulated one is not: no pass before somebody has looked.
    let semantics = judged(&case(OFF), device(|_, _| ()));
    assert_eq!((&semantics.verdict, blame(&semantics)), (&Verdict::Failed, Some(Blame::Semantics)));
}

#[test]
fn what_the_detectors_find_by_rule_is_the_kernels_fault_though_the_device_forgives_it() {
    // One element past the end of its input, which the device's slack memory takes.
    let past_the_end = "ld.global.f32 %f4, [%rd5+4];";
    let report = judged(&case(past_the_end), device(|_, _| ()));
    assert_eq!((&report.verdict, blame(&report)), (&Verdict::Failed, Some(Blame::Kernel)));
    let Leg::Faults(why) = &report.legs.as_ref().unwrap().simulated else { panic!("{:?}", report.legs) };
    assert!(why.contains("out of bounds"), "{why}");
}

#[test]
fn a_write_on_either_side_of_a_buffer_fails_and_is_measured() {
    let past = judged(&case(RIGHT), device(|memory, buffers| memory[buffers[1].end + 7] = 1));
    assert_eq!(past.verdict, Verdict::Failed);
    assert_eq!(past.trespasses[0].to_string(), "wrote 8 bytes or more past the end of `y`");
    let before = judged(&case(RIGHT), device(|memory, buffers| memory[buffers[0].start - 1] = 1));
    assert_eq!(before.verdict, Verdict::Failed);
    assert_eq!(before.trespasses[0].to_string(), "wrote 1 bytes or more before the start of `x`");
}

#[test]
fn a_device_that_works_only_the_first_time_fails_in_its_timed_runs() {
    let runs = AtomicU32::new(0);
    let function: Function = Arc::new(move |memory, buffers, _| {
        if runs.fetch_add(1, Ordering::Relaxed) < 2 {
            for index in 0..buffers[0].len() / 4 {
                let value = load(memory, &buffers[0], index).mul_add(SCALE, 1.0);
                let at = buffers[1].start + 4 * index;
                memory[at..at + 4].copy_from_slice(&value.to_le_bytes());
            }
        }
    });
    let report = judged(&case(RIGHT), Toy::new(1 << 20).unwrap().with_kernel("f", function));
    assert_eq!((report.verdict.clone(), report.runs), (Verdict::Failed, 4));
    assert_eq!(report.worst().unwrap().1.outcome, Outcome::Unwritten);
}

#[test]
fn less_than_three_blocks_prove_nothing_of_blocks_unless_the_shape_is_an_edge() {
    let two = || with_judge(RIGHT, Scaled, 128);
    let verdict = |case: CaseBuilder| verify(&case.build().unwrap(), &mut sim()).unwrap();
    let report = verdict(two());
    assert_eq!(report.verdict, Verdict::Vacuous);
    assert!(report.notes.iter().any(|note| note.contains("launches 2 blocks")), "{:?}", report.notes);
    assert_eq!(verdict(two().edge()).verdict, Verdict::Passed);
    assert_eq!(verdict(two().reduced(case(RIGHT))).verdict, Verdict::Passed);
}

fn sim() -> SimContext {
    SimContext::builder().memory_bytes(4 << 20).build().unwrap()
}

#[test]
fn a_closure_judges_within_the_bound_that_it_states() {
    let judge = |slack: f64| {
        Judge::closure(
            |run| {
                let (x, scale) = (run.reals("x")?, run.scalar("scale")?);
                run.store("y", x.into_iter().map(|x| x * scale + 1.0))
            },
            move |element| slack * 2f64.powi(-24) * element.value.abs(),
        )
    };
    let verdict = |middle, slack| {
        let case = with_judge(middle, judge(slack), 300).build().unwrap();
        verify(&case, &mut sim()).unwrap().verdict
    };
    assert_eq!(verdict(RIGHT, 1.0), Verdict::Passed);
    assert_eq!(verdict(RIGHT, 0.1), Verdict::Failed, "half a unit is not a twentieth");
    assert_eq!(verdict(OFF, 1.0), Verdict::Failed);
    // As wide as the values: nothing would be noticed.
    assert_eq!(verdict(RIGHT, 1e9), Verdict::Vacuous);
    let error = verify(&with_judge(RIGHT, judge(f64::NAN), 300).build().unwrap(), &mut sim()).unwrap_err();
    assert!(matches!(error, OracleError::Unbounded { .. }), "{error}");
}

#[test]
fn a_second_kernel_judges_to_the_bit_or_within_a_bound() {
    let schedule = || Schedule::new([64, 1, 1]);
    let second = |middle: &str| SecondKernel::new(spec(text(middle)), schedule(), Extent::Elements(300));
    let verdict = |middle, second: SecondKernel| {
        let case = with_judge(middle, second, 300).build().unwrap();
        verify(&case, &mut sim()).unwrap().verdict
    };
    assert_eq!(verdict(RIGHT, second(RIGHT)), Verdict::Passed);
    assert_eq!(verdict(OFF, second(RIGHT)), Verdict::Failed);
    let unfused = "mul.f32 %f2, %f1, %f3;\nadd.f32 %f2, %f2, 0f3F800000;";
    assert_eq!(verdict(unfused, second(RIGHT)), Verdict::Failed, "not the same bits");
    let near = second(RIGHT).within(|element| 2f64.powi(-22) * (1.0 + element.value.abs()));
    assert_eq!(verdict(unfused, near), Verdict::Passed);
    // Where it runs is the author's choice: here on the toy, which runs something else by that name.
    let elsewhere = second(RIGHT).on(|| Ok(Box::new(device(one_off))));
    assert_eq!(verdict(RIGHT, elsewhere), Verdict::Failed);
}

#[test]
fn result_mutants_cover_a_skipped_block_lost_digits_and_a_stale_uniform() {
    let report = verify(&case(RIGHT), &mut sim()).unwrap();
    let found = report.discrimination.as_ref().unwrap();
    for operator in ["skip-block", "lose-precision", "stale-uniform", "zero-output", "previous-output"] {
        let mutants: Vec<_> = found.results.iter().filter(|mutant| mutant.operator == operator).collect();
        assert!(!mutants.is_empty(), "no {operator}");
        assert!(mutants.iter().all(|mutant| mutant.fate == Fate::Differs), "{mutants:#?}");
    }
    // Floats get another value of their own; what `n` may have been the case must say.
    let stale: Vec<_> = found.results.iter().filter(|mutant| mutant.operator == "stale-uniform").collect();
    assert_eq!(stale.len(), 1);
    assert!(stale[0].description.contains("`scale`"), "{stale:?}");
}

#[test]
fn a_kernel_as_careful_as_a_plain_one_has_a_baseline_ratio_of_about_one() {
    let report = verify(&case(RIGHT), &mut sim()).unwrap();
    let ratio = report.outputs[0].baseline_ratio.unwrap();
    assert!((0.1..=1.0).contains(&ratio), "{ratio}");
    // Two units in the last place more than needed, which a generous author may allow.
    let sloppy = "mov.b32 %r4, %f2;\nadd.s32 %r4, %r4, 16;\nmov.b32 %f2, %r4;";
    struct Loose;
    impl Reference for Loose {
        fn evaluate<R: Real>(&self, run: &mut Evaluation<'_, R>) -> Result<(), OracleError> {
            let (x, scale) = (run.reals("x")?, run.scalar("scale")?);
            let wide = |y: R| y.either(y * R::constant(1.0 + 1e-5));
            run.store("y", x.into_iter().map(|x| wide(x.mul_add(scale, R::one()))))
        }
    }
    let report = verify(&with_judge(sloppy, Loose, 300).build().unwrap(), &mut sim()).unwrap();
    assert_eq!(report.verdict, Verdict::Passed, "{:#?}", report::details(&report));
    assert!(report.outputs[0].baseline_ratio.unwrap() > 5.0);
}

#[test]
fn small_integers_are_compared_to_the_bit_where_their_results_are_exact() {
    let report = verify(&case(RIGHT), &mut sim()).unwrap();
    let integers = report.inputs.iter().find(|tried| tried.inputs == Inputs::Integers).unwrap();
    assert!(matches!(integers.outcome, InputsOutcome::Agrees { exact: true, .. }), "{integers:?}");
    let normal = report.inputs.iter().find(|tried| tried.inputs == Inputs::Normal).unwrap();
    assert!(matches!(normal.outcome, InputsOutcome::Agrees { exact: false, .. }), "{normal:?}");
    // NaN is not legal here, so it was not tried.
    assert!(report.inputs.iter().all(|tried| tried.inputs != Inputs::NonFinite));
}

#[test]
fn a_kernel_that_is_right_on_its_own_inputs_alone_fails_on_others() {
    // Keeps results below two, which those of the case's own inputs between -0.3 and 0.3 never reach.
    let clamped = "min.f32 %f2, %f2, 0f40000000;";
    let small = |fill: CaseBuilder| fill.build().unwrap();
    let case = |middle| {
        let narrow = Fill::Uniform { low: -0.3, high: 0.3 };
        small(
            Case::builder(spec(text(middle)), Scaled)
                .shape("300")
                .schedule(Schedule::new([64, 1, 1]))
                .input("x", Element::F32, 300, narrow)
                .output("y", Element::F32, 300)
                .scalar("n", 300u32)
                .scalar("scale", SCALE)
                .extent(Extent::Elements(300)),
        )
    };
    assert_eq!(verify(&case(RIGHT), &mut sim()).unwrap().verdict, Verdict::Passed);
    let report = verify(&case(clamped), &mut sim()).unwrap();
    assert_eq!(report.verdict, Verdict::Failed);
    assert!(report.notes.iter().any(|note| note.contains("over integers inputs")), "{:?}", report.notes);
    let only_its_own = VerifyOptions { other_inputs: false, ..VerifyOptions::default() };
    let report = verify_with(&case(clamped), &mut sim(), &only_its_own).unwrap();
    assert_eq!(report.verdict, Verdict::Passed);
}

#[test]
fn odd_sizes_of_every_schedule_pass_or_say_why() {
    let device = cuforge_core::Constraints::default();
    for size in odd_sizes(&Schedule::new([64, 1, 1]), &device, 70_000) {
        let case = with_judge(RIGHT, Scaled, size as u32).edge().reduced(case(RIGHT)).build().unwrap();
        let found = check(&case, &mut sim(), &CheckOptions::default().once()).unwrap();
        assert!(found.agrees(), "{size}");
    }
}
