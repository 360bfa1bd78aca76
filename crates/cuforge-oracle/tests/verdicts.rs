//! The oracle itself is put to the test: each kind of wrong kernel, reference and case gets the verdict it deserves.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail loudly in its helpers too")]

use cuforge_core::{
    Access, Arguments, BuildOptions, ContextErrorKind, DeclaredBlock, Element, Extent, KernelSpec,
    OracleContext, Parameter, Request, Schedule, SharedMemory,
};
use cuforge_oracle::{
    Case, CaseBuilder, CheckOptions, Evaluation, Fate, Fill, OracleError, Outcome, Policy, Real, Reference,
    Report, ShippedPtx, SimContext, Verdict, VerifyOptions, check, report, verify, verify_with,
};

const ELEMENTS: u32 = 1000;

/// `y[i] = f(x[i])` for `i < n`, with the lines that load, compute and store given.
fn ptx(load: &str, compute: &str, store: &str, guard: &str) -> String {
    format!(
        ".version 8.0\n.target sm_75\n.address_size 64\n\
         .visible .entry f(.param .u64 f_0, .param .u64 f_1, .param .u32 f_2)\n{{\n\
         .reg .pred %p<2>;\n.reg .f32 %f<4>;\n.reg .b32 %r<6>;\n.reg .b64 %rd<8>;\n\
         ld.param.u64 %rd1, [f_0];\nld.param.u64 %rd2, [f_1];\nld.param.u32 %r2, [f_2];\n\
         mov.u32 %r3, %ntid.x;\nmov.u32 %r4, %ctaid.x;\nmov.u32 %r5, %tid.x;\n\
         mad.lo.s32 %r1, %r3, %r4, %r5;\n{guard}\n@%p1 bra $DONE;\n\
         cvta.to.global.u64 %rd3, %rd1;\nmul.wide.u32 %rd4, %r1, 4;\nadd.s64 %rd5, %rd3, %rd4;\n{load}\n{compute}\n\
         cvta.to.global.u64 %rd6, %rd2;\nadd.s64 %rd7, %rd6, %rd4;\n{store}\n$DONE:\nret;\n}}\n"
    )
}

const LOAD: &str = "ld.global.f32 %f1, [%rd5];";
const TWICE_PLUS_ONE: &str = "fma.rn.f32 %f2, %f1, 0f40000000, 0f3F800000;";
const STORE: &str = "st.global.f32 [%rd7], %f2;";
const GUARD: &str = "setp.ge.u32 %p1, %r1, %r2;";

fn right() -> String {
    ptx(LOAD, TWICE_PLUS_ONE, STORE, GUARD)
}

fn parameters() -> Vec<Parameter> {
    vec![
        Parameter::buffer("x", 0, Element::F32, Access::StorageRead),
        Parameter::buffer("y", 1, Element::F32, Access::StorageReadWrite),
        Parameter::scalar("n", Element::U32),
    ]
}

fn spec(text: String) -> KernelSpec {
    let block = DeclaredBlock { workgroup_size: [64, 1, 1], items_per_invocation: 1 };
    // SAFETY: it runs on the simulated device only, which checks every access.
    unsafe { KernelSpec::ptx("f", "f", text, parameters()) }.with_declared_blocks(vec![block])
}

/// `y = 2x + 1`, off by so much.
struct TwicePlusOne {
    off: f64,
}

impl Reference for TwicePlusOne {
    fn evaluate<R: Real>(&self, run: &mut Evaluation<'_, R>) -> Result<(), OracleError> {
        let x = run.reals("x")?;
        let (two, one) = (R::constant(2.0), R::constant(1.0 + self.off));
        run.store("y", x.into_iter().map(|x| x.mul_add(two, one)))
    }
}

fn builder(text: String, reference: impl Reference + 'static, elements: u32, fill: Fill) -> CaseBuilder {
    Case::builder(spec(text), reference)
        .shape(elements.to_string())
        .schedule(Schedule::new([64, 1, 1]))
        .input("x", Element::F32, elements.into(), fill)
        .output("y", Element::F32, elements.into())
        .scalar("n", elements)
        .extent(Extent::Elements(elements.into()))
}

fn uniform() -> Fill {
    Fill::Uniform { low: -1.0, high: 1.0 }
}

fn case_of(text: String, reference: impl Reference + 'static) -> Case {
    builder(text, reference, ELEMENTS, uniform()).build().unwrap()
}

fn context() -> SimContext {
    SimContext::builder().memory_bytes(4 << 20).build().unwrap()
}

fn judge(case: &Case) -> Report {
    verify(case, &mut context()).unwrap()
}

fn exact() -> TwicePlusOne {
    TwicePlusOne { off: 0.0 }
}

#[test]
fn a_right_kernel_passes_and_kills_its_mutants() {
    let report = judge(&case_of(right(), exact()));
    assert_eq!(report.verdict, Verdict::Passed, "{:#?}", report::details(&report));
    let found = report.discrimination.as_ref().unwrap();
    let (killed, ran) = found.kill_score();
    assert!(killed >= 4 && ran >= killed, "{found:#?}");
    assert!(found.results.iter().all(|mutant| mutant.fate == Fate::Differs));
    assert!(report.instructions.unwrap() > u64::from(ELEMENTS) * 10);
    assert!(report.worst().unwrap().1.ratio() <= 1.0);
}

#[test]
fn a_wrong_reference_fails() {
    let report = judge(&case_of(right(), TwicePlusOne { off: 1e-6 }));
    assert_eq!(report.verdict, Verdict::Failed);
    assert!(report.mismatches() > 900, "{}", report.mismatches());
    assert_eq!(report.worst().unwrap().1.outcome, Outcome::BeyondBound);
}

#[test]
fn an_element_that_is_never_written_fails_and_is_named() {
    let skips_last = "add.s32 %r2, %r2, -1;\nsetp.ge.u32 %p1, %r1, %r2;";
    let report = judge(&case_of(ptx(LOAD, TWICE_PLUS_ONE, STORE, skips_last), exact()));
    assert_eq!(report.verdict, Verdict::Failed);
    let (_, worst) = report.worst().unwrap();
    assert_eq!((worst.index, worst.outcome), (u64::from(ELEMENTS) - 1, Outcome::Unwritten));
    assert_eq!(report.mismatches(), 1);
}

/// All outputs are one value.
struct Always(f64);

impl Reference for Always {
    fn evaluate<R: Real>(&self, run: &mut Evaluation<'_, R>) -> Result<(), OracleError> {
        let elements = run.elements("y")?;
        run.store("y", (0..elements).map(|_| R::constant(self.0)))
    }
}

#[test]
fn a_case_whose_right_output_is_zero_is_vacuous() {
    let zero = ptx(LOAD, "mov.f32 %f2, 0f00000000;", STORE, GUARD);
    let report = judge(&case_of(zero, Always(0.0)));
    assert_eq!(report.verdict, Verdict::Vacuous, "{:#?}", report::details(&report));
    assert!(report.notes.iter().any(|note| note.contains("zeroed `y`")), "{:?}", report.notes);
}

/// Accepts whatever the kernel writes: a bound as wide as the range.
struct Anything;

impl Reference for Anything {
    fn evaluate<R: Real>(&self, run: &mut Evaluation<'_, R>) -> Result<(), OracleError> {
        let x = run.reals("x")?;
        let huge = R::constant(1e38).either(R::constant(-1e38));
        run.store("y", x.into_iter().map(|x| x * R::zero() + huge))
    }
}

#[test]
fn a_case_that_accepts_anything_is_vacuous() {
    let report = judge(&case_of(right(), Anything));
    assert_eq!(report.verdict, Verdict::Vacuous, "{:#?}", report::details(&report));
}

#[test]
fn a_case_whose_output_does_not_depend_on_its_inputs_is_vacuous() {
    let three = ptx(LOAD, "mov.f32 %f2, 0f40400000;", STORE, GUARD);
    let report = judge(&case_of(three, Always(3.0)));
    assert_eq!(report.verdict, Verdict::Vacuous);
    assert!(report.notes.iter().any(|note| note.contains("other inputs")), "{:?}", report.notes);
}

#[test]
fn more_kills_can_be_required_than_there_are_mutants() {
    let mut options = VerifyOptions::default();
    options.mutants.required = 1000;
    let report = verify_with(&case_of(right(), exact()), &mut context(), &options).unwrap();
    assert_eq!(report.verdict, Verdict::Vacuous);
}

#[test]
fn mutants_of_code_that_no_thread_reaches_do_not_count() {
    let dead =
        format!("bra $OVER;\nadd.f32 %f3, %f1, %f1;\nst.global.f32 [%rd5], %f3;\n$OVER:\n{TWICE_PLUS_ONE}");
    let mut options = VerifyOptions::default();
    options.mutants.limit = 1000;
    let case = case_of(ptx(LOAD, &dead, STORE, GUARD), exact());
    let report = verify_with(&case, &mut context(), &options).unwrap();
    let found = report.discrimination.unwrap();
    let unreached = found.ptx.iter().filter(|mutant| mutant.fate == Fate::Unreached);
    assert!(unreached.clone().count() > 0 && unreached.clone().count() < found.ptx.len() / 2);
    assert!(unreached.clone().any(|mutant| mutant.description.contains("%rd5], %f3")), "{found:#?}");
}

#[test]
fn a_nan_where_a_number_is_right_fails() {
    let nan = ptx(
        LOAD,
        "sqrt.rn.f32 %f2, %f1;\nmul.f32 %f2, %f2, 0f00000000;\nadd.f32 %f2, %f2, %f1;",
        STORE,
        GUARD,
    );
    struct Same;
    impl Reference for Same {
        fn evaluate<R: Real>(&self, run: &mut Evaluation<'_, R>) -> Result<(), OracleError> {
            let x = run.reals("x")?;
            run.store("y", x)
        }
    }
    let report = judge(&case_of(nan, Same));
    assert_eq!(report.verdict, Verdict::Failed);
    let (output, worst) = report.worst().unwrap();
    assert_eq!(worst.outcome, Outcome::NotANumber);
    assert!(output.comparison.not_finite > 300);
}

#[test]
fn a_nan_reference_is_a_fault_of_the_case_unless_it_says_that_nan_is_right() {
    struct Root;
    impl Reference for Root {
        fn evaluate<R: Real>(&self, run: &mut Evaluation<'_, R>) -> Result<(), OracleError> {
            let x = run.reals("x")?;
            run.store("y", x.into_iter().map(R::sqrt))
        }
    }
    let root = || ptx(LOAD, "sqrt.rn.f32 %f2, %f1;", STORE, GUARD);
    let error = verify(&case_of(root(), Root), &mut context()).unwrap_err();
    assert!(matches!(error, OracleError::NanReference { .. }), "{error}");
    let policy = Policy { nan_allowed: true, ..Policy::default() };
    let allowed = builder(root(), Root, ELEMENTS, uniform()).policy(policy).build().unwrap();
    assert_eq!(judge(&allowed).verdict, Verdict::Passed);
}

#[test]
fn a_shift_that_common_tolerances_hide_is_caught() {
    // Neighbours differ by a part in a million of their size: within 1.3e-6 relative, which is torch's default.
    let slow = || Fill::with(|random, index| 1000.0 + index as f64 * 5e-4 + random.unit() * 5e-4);
    let shifted = ptx(
        "ld.global.f32 %f1, [%rd5+4];",
        TWICE_PLUS_ONE,
        STORE,
        "add.s32 %r2, %r2, -1;\nsetp.ge.u32 %p1, %r1, %r2;",
    );
    struct AllButLast;
    impl Reference for AllButLast {
        fn evaluate<R: Real>(&self, run: &mut Evaluation<'_, R>) -> Result<(), OracleError> {
            let x = run.reals("x")?;
            let elements = run.elements("y")?;
            run.store("y", x.into_iter().take(elements).map(|x| x.mul_add(R::constant(2.0), R::one())))
        }
    }
    let case = |text| {
        Case::builder(spec(text), AllButLast)
            .schedule(Schedule::new([64, 1, 1]))
            .input("x", Element::F32, 1000, slow())
            .output("y", Element::F32, 999)
            .scalar("n", 1000u32)
            .extent(Extent::Elements(1000))
            .build()
            .unwrap()
    };
    let report = judge(&case(shifted));
    assert_eq!(report.verdict, Verdict::Failed);
    let (_, worst) = report.worst().unwrap();
    assert!((worst.got.as_f64() / worst.expected.as_f64() - 1.0).abs() < 1.3e-6);
    let guarded = "add.s32 %r2, %r2, -1;\nsetp.ge.u32 %p1, %r1, %r2;";
    assert_eq!(judge(&case(ptx(LOAD, TWICE_PLUS_ONE, STORE, guarded))).verdict, Verdict::Passed);
}

#[test]
fn running_over_the_end_of_a_buffer_is_a_fault_though_more_memory_lies_behind() {
    let unguarded = "setp.ge.u32 %p1, %r1, 1024;";
    let report = judge(&case_of(ptx(LOAD, TWICE_PLUS_ONE, STORE, unguarded), exact()));
    let Verdict::Fault(reason) = &report.verdict else { panic!("{:?}", report.verdict) };
    assert!(reason.contains("out of bounds") && reason.contains("block (15, 0, 0)"), "{reason}");
}

#[test]
fn a_kernel_that_changes_its_input_fails() {
    let vandal = format!("{STORE}\nst.global.f32 [%rd5], %f2;");
    let report = judge(&case_of(ptx(LOAD, TWICE_PLUS_ONE, &vandal, GUARD), exact()));
    assert_eq!((report.verdict, report.changed_inputs), (Verdict::Failed, vec!["x".to_owned()]));
}

#[test]
fn a_form_that_the_device_does_not_know_is_unsupported_and_never_a_result() {
    let report =
        judge(&case_of(ptx(LOAD, "wgmma.fence.sync.aligned;\nmov.f32 %f2, %f1;", STORE, GUARD), exact()));
    let Verdict::Unsupported(reason) = &report.verdict else { panic!("{:?}", report.verdict) };
    assert!(reason.contains("wgmma.fence"), "{reason}");
}

#[test]
fn the_same_seed_gives_the_same_report_and_another_seed_other_inputs() {
    let case = case_of(right(), exact());
    let once = |seed| {
        let mut options = VerifyOptions::default().with_seed(seed);
        options.check = options.check.once();
        let mut report = verify_with(&case, &mut context(), &options).unwrap();
        report.timing.samples_ns.clear();
        report
    };
    assert_eq!(once(3), once(3));
    assert_ne!(case.contents(3).unwrap(), case.contents(4).unwrap());
}

#[test]
fn no_seed_accuses_a_right_kernel() {
    let case = case_of(right(), exact());
    let mut context = context();
    for seed in 0..100 {
        let found = check(&case, &mut context, &CheckOptions::default().with_seed(seed).once()).unwrap();
        assert!(found.agrees(), "seed {seed}: {found:?}");
    }
}

#[test]
fn an_empty_shape_passes_only_if_a_reduced_case_shows_that_it_can_fail() {
    let empty = || builder(right(), exact(), 0, uniform());
    let report = judge(&empty().build().unwrap());
    assert_eq!(report.verdict, Verdict::Vacuous);
    assert!(
        report.notes.iter().any(|note| note.contains("it kills 0 of 0 PTX mutants")),
        "{:?}",
        report.notes
    );
    let report = judge(&empty().reduced(case_of(right(), exact())).build().unwrap());
    assert_eq!(report.verdict, Verdict::Passed, "{:#?}", report::details(&report));
    assert!(report.discrimination.unwrap().kill_score().0 >= 4);
    let wrong = case_of(right(), TwicePlusOne { off: 0.5 });
    assert_eq!(judge(&empty().reduced(wrong).build().unwrap()).verdict, Verdict::Failed);
}

#[test]
fn cuda_c_without_a_compiler_is_not_run_unless_its_ptx_is_shipped() {
    let source =
        "extern \"C\" __global__ void f(const float *x, float *y, unsigned n) { /* CUFORGE_BLOCK_X */ }";
    // SAFETY: never compiled here.
    let cuda_c = || unsafe { KernelSpec::cuda_c("f", "f", source, parameters()) };
    let builder = || {
        Case::builder(cuda_c(), exact())
            .schedule(Schedule::new([64, 1, 1]))
            .input("x", Element::F32, 200, uniform())
            .output("y", Element::F32, 200)
            .scalar("n", 200u32)
            .extent(Extent::Elements(200))
    };
    let report = judge(&builder().build().unwrap());
    assert!(matches!(&report.verdict, Verdict::NotRun(reason) if reason.contains("no compiler")));
    let shipped = ShippedPtx { spec: spec(right()), schedule: Schedule::new([64, 1, 1]) };
    let report = judge(&builder().shipped(shipped.clone()).build().unwrap());
    assert_eq!(report.verdict, Verdict::Passed);
    assert!(report.notes.iter().any(|note| note.contains("shipped PTX")), "{:?}", report.notes);
    // Made for one schedule: another is not run on it.
    let other = builder().schedule(Schedule::new([32, 1, 1])).shipped(shipped).build().unwrap();
    assert!(matches!(judge(&other).verdict, Verdict::NotRun(_)));
}

#[test]
fn what_is_wrong_with_a_case_is_named_when_it_is_built() {
    let error = |builder: CaseBuilder| builder.build().unwrap_err().to_string();
    let bare = || Case::builder(spec(right()), exact());
    let x = |builder: CaseBuilder| builder.input("x", Element::F32, 4, uniform());
    let y = |builder: CaseBuilder| builder.output("y", Element::F32, 4);
    assert!(error(x(bare()).scalar("n", 4u32)).contains("no output"));
    assert!(error(y(x(bare()))).contains("0 bytes of uniform and scalars given, the kernel takes 4"));
    assert!(error(y(x(bare())).scalar("n", 4u64)).contains("8 bytes"));
    assert!(error(y(bare()).scalar("n", 4u32)).contains("`y`"));
    assert!(error(y(y(x(bare()))).scalar("n", 4u32)).contains("names `y` twice"));
    assert!(error(y(x(bare())).output("z", Element::F32, 4).scalar("n", 4u32)).contains("binding 2"));
    assert!(error(y(x(bare())).uniform("m", 4u32).scalar("n", 4u32)).contains("uniform fields"));
    let f64s = x(bare()).output("y", Element::F64, 4).scalar("n", 4u32);
    assert!(error(f64s).contains("holds f64, kernel `f` takes f32"));
    let large = x(bare()).output("y", Element::F32, u64::MAX).scalar("n", 4u32);
    assert!(error(large).contains("beyond this host"));
}

#[test]
fn what_is_wrong_with_a_reference_is_named() {
    struct Wrong(u32);
    impl Reference for Wrong {
        fn evaluate<R: Real>(&self, run: &mut Evaluation<'_, R>) -> Result<(), OracleError> {
            let x = run.reals("x")?;
            match self.0 {
                0 => run.store("z", x),
                1 => run.store("y", x.into_iter().skip(1)),
                2 => run.store("x", x),
                3 => Ok(()),
                4 => run.reals("y").map(drop),
                5 => run.scalar("m").map(drop),
                6 => run.store_exact("y", vec![0u64; x.len()]),
                7 => run.store("y", x.into_iter().map(|x| R::one() / (x - x))),
                8 => {
                    let third = R::one() / R::constant(3.0) + x[0] * R::zero();
                    third.is_less(third + R::zero());
                    run.store("y", x)
                }
                _ => run.store(
                    "y",
                    x.into_iter().map(|x| (R::one() / R::constant(3.0) - x / x / R::constant(3.0)).rsqrt()),
                ),
            }
        }
    }
    let error = |kind| verify(&case_of(right(), Wrong(kind)), &mut context()).unwrap_err();
    let texts: Vec<String> = (0..7).map(|kind| error(kind).to_string()).collect();
    let parts = [
        "no buffer `z`",
        "stored 999",
        "is an input",
        "stored nothing",
        "is an output",
        "no value `m`",
        "another size",
    ];
    for (text, part) in texts.iter().zip(parts) {
        assert!(text.contains(part), "{part} in {text}");
    }
    assert!(matches!(error(8), OracleError::Undecided { .. }));
    assert!(matches!(error(9), OracleError::Unbounded { index: 0, .. } | OracleError::NanReference { .. }));
}

#[test]
fn bad_input_to_the_device_is_a_typed_error_that_names_it() {
    let mut context = context();
    let schedule = Schedule::new([64, 1, 1]);
    let mut prepare = |spec: &KernelSpec, schedule: &Schedule| {
        let error = context.prepare(spec, schedule, &BuildOptions::default()).unwrap_err();
        (error.kind(), error.to_string())
    };
    let (kind, text) = prepare(&spec(right().replace("ret;", "ret")), &schedule);
    assert!(
        kind == ContextErrorKind::Kernel && text.contains("line") && text.contains("`f`"),
        "{kind:?} {text}"
    );
    let (kind, text) = prepare(&spec(right().replace(".entry f(", ".entry g(")), &schedule);
    assert!(
        kind == ContextErrorKind::Kernel && text.contains("`f`") && text.contains("`g`"),
        "{kind:?} {text}"
    );
    let (kind, text) = prepare(&spec(right()), &Schedule::new([32, 1, 1]));
    assert!(kind == ContextErrorKind::Misuse && text.contains("[32, 1, 1]"), "{kind:?} {text}");
    let constant = schedule.clone().with_constant("TILE", cuforge_core::Constant::Int(4));
    let (kind, text) = prepare(&spec(right()), &constant);
    assert!(kind == ContextErrorKind::Misuse && text.contains("`TILE`"), "{kind:?} {text}");
    let (kind, text) = prepare(&spec(right().replace("sm_75", "sm_100")), &schedule);
    assert!(kind == ContextErrorKind::Unsupported && text.contains("sm_100"), "{kind:?} {text}");
    let fewer =
        right().replace(", .param .u32 f_2", "").replace("ld.param.u32 %r2, [f_2];", "mov.u32 %r2, 8;");
    let (kind, text) = prepare(&spec(fewer), &schedule);
    assert!(kind == ContextErrorKind::Misuse && text.contains("declares 20 bytes"), "{kind:?} {text}");
    let greedy = SharedMemory { fixed_bytes: 228 << 10, bytes_per_thread: 0 };
    let (kind, text) = prepare(&spec(right()).with_shared_memory(greedy), &schedule);
    assert!(
        kind == ContextErrorKind::Misuse && text.contains("shared memory exceed 232448"),
        "{kind:?} {text}"
    );
    let (kind, text) = prepare(&spec(right()), &Schedule::new([2048, 1, 1]));
    assert!(kind == ContextErrorKind::Misuse && text.contains("2048"), "{kind:?} {text}");
}

#[test]
fn wrong_arguments_are_named_before_anything_runs() {
    let mut context = context();
    let mut prepared =
        context.prepare(&spec(right()), &Schedule::new([64, 1, 1]), &BuildOptions::default()).unwrap();
    let x = context.allocate(&Request::new(400)).unwrap().bound_to(0, 0, Access::StorageRead).unwrap();
    let y = context.allocate(&Request::new(400)).unwrap().bound_to(0, 1, Access::StorageReadWrite).unwrap();
    let stray = y.bound_to(0, 7, Access::StorageRead).unwrap();
    context.write(&x, &[0; 400]).unwrap();
    let mut run = |views: &[_], by_value: &[u8], elements| {
        let arguments = Arguments { views, by_value };
        prepared.kernel.dispatch(arguments, Extent::Elements(elements)).map_err(|e| (e.kind(), e.to_string()))
    };
    let n = 100u32.to_le_bytes();
    let misuse = |result: Result<_, (ContextErrorKind, String)>, part: &str| {
        let (kind, text) = result.map(|_: cuforge_core::Elapsed| ()).unwrap_err();
        assert!(kind == ContextErrorKind::Misuse && text.contains(part), "{part}: {kind:?} {text}");
    };
    assert!(run(&[y, x], &n, 100).is_ok(), "views may come in any order");
    misuse(run(&[x], &n, 100), "missing buffer `y`");
    misuse(run(&[x, y, stray], &n, 100), "binding 7");
    misuse(run(&[x, y], &n[..3], 100), "3 bytes");
    misuse(run(&[x, y.slice(0, 399).unwrap()], &n, 100), "`y`");
    misuse(run(&[x, y], &n, u64::MAX), "grid");
    // Fewer elements than the kernel is told it has: the buffer ends where its view does.
    let (kind, text) = run(&[x, y.slice(0, 396).unwrap()], &n, 100).unwrap_err();
    assert!(kind == ContextErrorKind::Fault && text.contains("out of bounds"), "{text}");
    assert!(run(&[x, y], &n, 0).is_ok(), "nothing to launch");

    let beyond = context.allocate(&Request::new(1 << 40)).unwrap_err();
    assert_eq!(beyond.kind(), ContextErrorKind::OutOfMemory);
    assert!(beyond.to_string().contains("at most"), "{beyond}");
    assert_eq!(context.write(&x, &[0; 401]).unwrap_err().kind(), ContextErrorKind::Misuse);
    context.clear().unwrap();
    assert_eq!(context.write(&x, &[0]).unwrap_err().kind(), ContextErrorKind::Misuse, "stale view");
}

#[test]
fn a_kernel_that_lives_on_what_the_first_poison_means_to_it_fails_in_its_timed_runs() {
    // Keeps what is there already, unless that is a NaN, which the first poison is.
    let lazy = format!(
        "ld.global.f32 %f3, [%rd7];\nsetp.nan.f32 %p1, %f3, %f3;\nselp.f32 %f2, %f2, %f3, %p1;\n{STORE}"
    );
    let case = case_of(ptx(LOAD, TWICE_PLUS_ONE, &lazy, GUARD), exact());
    let once = check(&case, &mut context(), &CheckOptions::default().once()).unwrap();
    assert!(once.agrees());
    assert_eq!(judge(&case).verdict, Verdict::Failed);
}

/// Three parameters: a buffer that is read and written, one that is written, a count.
fn in_place(text: String, element: Element, out: Element) -> KernelSpec {
    let parameters = vec![
        Parameter::buffer("x", 0, element, Access::StorageReadWrite),
        Parameter::buffer("y", 1, out, Access::StorageReadWrite),
        Parameter::scalar("n", Element::U32),
    ];
    let block = DeclaredBlock { workgroup_size: [64, 1, 1], items_per_invocation: 1 };
    // SAFETY: it runs on the simulated device only, which checks every access.
    unsafe { KernelSpec::ptx("f", "f", text, parameters) }.with_declared_blocks(vec![block])
}

#[test]
fn a_buffer_changed_in_place_is_filled_again_before_every_timed_run() {
    struct Step;
    impl Reference for Step {
        fn evaluate<R: Real>(&self, run: &mut Evaluation<'_, R>) -> Result<(), OracleError> {
            let x = run.reals("x")?;
            run.store("y", x.iter().map(|&x| x + x))?;
            run.store("x", x.into_iter().map(|x| x + R::one()))
        }
    }
    let steps = ptx(
        LOAD,
        "add.f32 %f2, %f1, %f1;\nadd.f32 %f3, %f1, 0f3F800000;",
        "st.global.f32 [%rd7], %f2;\nst.global.f32 [%rd5], %f3;",
        GUARD,
    );
    let case = Case::builder(in_place(steps, Element::F32, Element::F32), Step)
        .schedule(Schedule::new([64, 1, 1]))
        .inout("x", Element::F32, 500, uniform())
        .output("y", Element::F32, 500)
        .scalar("n", 500u32)
        .extent(Extent::Elements(500))
        .build()
        .unwrap();
    let report = judge(&case);
    assert_eq!(report.verdict, Verdict::Passed, "{:#?}", report::details(&report));
    assert_eq!((report.outputs.len(), report.timing.samples_ns.len()), (2, 3));
}

#[test]
fn integers_are_compared_to_the_bit_and_half_precision_by_its_rounding() {
    /// `y = x` in half precision, `x += off` as an integer.
    struct Mixed;
    impl Reference for Mixed {
        fn evaluate<R: Real>(&self, run: &mut Evaluation<'_, R>) -> Result<(), OracleError> {
            let x = run.integers("x")?;
            let third = R::one() / R::constant(3.0);
            run.store("y", x.iter().map(|&x| run_real::<R>(x) * third).collect::<Vec<_>>())?;
            run.store_exact("x", x.into_iter().map(|x| (x + 1) as i32))
        }
    }
    fn run_real<R: Real>(x: i64) -> R {
        R::constant(x as f64)
    }
    let text = |increment: &str, narrow: &str| {
        ptx(
            "ld.global.u32 %r4, [%rd5];\ncvt.rn.f32.s32 %f1, %r4;",
            &format!(
                "mul.f32 %f2, %f1, 0f3EAAAAAB;\nadd.s32 %r5, %r4, {increment};\n.reg .b16 %h<2>;\n{narrow} %h1, %f2;\nshr.u64 %rd4, %rd4, 1;"
            ),
            "st.global.u32 [%rd5], %r5;\nst.global.b16 [%rd7], %h1;",
            GUARD,
        )
    };
    let judged = |text: String| {
        let case = Case::builder(in_place(text, Element::I32, Element::F16), Mixed)
            .schedule(Schedule::new([64, 1, 1]))
            .inout("x", Element::I32, 300, Fill::Integers { low: -2000, high: 2000 })
            .output("y", Element::F16, 300)
            .scalar("n", 300u32)
            .extent(Extent::Elements(300))
            .build()
            .unwrap();
        judge(&case)
    };
    let right = judged(text("1", "cvt.rn.f16.f32"));
    assert_eq!(right.verdict, Verdict::Passed, "{:#?}", report::details(&right));
    // Towards zero: up to one unit off instead of half of one.
    let towards_zero = judged(text("1", "cvt.rz.f16.f32"));
    assert_eq!(towards_zero.verdict, Verdict::Failed);
    assert_eq!(towards_zero.worst().unwrap().1.ulps, Some(1));
    let off_by_one = judged(text("2", "cvt.rn.f16.f32"));
    assert_eq!((off_by_one.verdict.clone(), off_by_one.mismatches()), (Verdict::Failed, 300));
}

/// `y[i] = 2 x[i]`, and all ones from element 900 on: just what an unwritten output may hold.
struct TwiceThenOnes;

impl Reference for TwiceThenOnes {
    fn evaluate<R: Real>(&self, run: &mut Evaluation<'_, R>) -> Result<(), OracleError> {
        let x = run.integers("x")?;
        let y = x.into_iter().enumerate().map(|(index, x)| if index < 900 { 2 * x as u32 } else { u32::MAX });
        run.store_exact("y", y)
    }
}

fn twice_then_ones(guard: &str, elements: u32) -> CaseBuilder {
    let text = ptx(
        "ld.global.u32 %r4, [%rd5];",
        "add.u32 %r5, %r4, %r4;\nsetp.ge.u32 %p0, %r1, 900;\nselp.b32 %r5, -1, %r5, %p0;",
        "st.global.u32 [%rd7], %r5;",
        guard,
    );
    let parameters = vec![
        Parameter::buffer("x", 0, Element::U32, Access::StorageRead),
        Parameter::buffer("y", 1, Element::U32, Access::StorageReadWrite),
        Parameter::scalar("n", Element::U32),
    ];
    let block = DeclaredBlock { workgroup_size: [64, 1, 1], items_per_invocation: 1 };
    // SAFETY: it runs on the simulated device only, which checks every access.
    let kernel = unsafe { KernelSpec::ptx("f", "f", text, parameters) }.with_declared_blocks(vec![block]);
    Case::builder(kernel, TwiceThenOnes)
        .shape(elements.to_string())
        .schedule(Schedule::new([64, 1, 1]))
        .input("x", Element::U32, elements.into(), Fill::Integers { low: 1, high: 1 << 20 })
        .output("y", Element::U32, elements.into())
        .scalar("n", elements)
        .extent(Extent::Elements(elements.into()))
}

#[test]
fn an_unwritten_element_that_holds_what_is_right_by_chance_still_fails() {
    let without_ones = format!("min.u32 %r2, %r2, 900;\n{GUARD}");
    // No reduced case reaches the elements in question, and no further run was asked for.
    let reduced = twice_then_ones(&without_ones, 500).build().unwrap();
    let case = twice_then_ones(&without_ones, ELEMENTS).reduced(reduced).build().unwrap();
    let once = VerifyOptions { check: CheckOptions::default().once(), ..VerifyOptions::default() };
    let report = verify_with(&case, &mut context(), &once).unwrap();
    assert_eq!(report.verdict, Verdict::Failed);
    let (_, worst) = report.worst().unwrap();
    assert_eq!((worst.index, worst.outcome, report.mismatches()), (900, Outcome::Unwritten, 100));
}

#[test]
fn a_right_tail_that_looks_like_poison_makes_no_case_vacuous() {
    let report = judge(&twice_then_ones(GUARD, ELEMENTS).build().unwrap());
    assert_eq!(report.verdict, Verdict::Passed, "{:#?}", report::details(&report));
}

#[test]
fn a_case_beyond_the_memory_of_the_device_is_an_error_before_anything_is_allocated() {
    // Sixteen gigabytes a buffer: the host may not have them either.
    let case = builder(right(), exact(), u32::MAX, uniform()).build().unwrap();
    let error = verify(&case, &mut context()).unwrap_err().to_string();
    assert_eq!(error, "case `f` needs 17179869692 bytes up to buffer `x`, the device has 4194304");
    // Each of the two fits, both together do not.
    let case = builder(right(), exact(), 786_432, uniform()).build().unwrap();
    let error = verify(&case, &mut context()).unwrap_err().to_string();
    assert_eq!(error, "case `f` needs 6292480 bytes up to buffer `y`, the device has 4194304");
}

#[test]
fn a_right_kernel_is_not_failed_for_the_length_of_its_blocks() {
    // So many turns of two instructions in each of the two warps of a block.
    let long = |turns: u32| {
        let spin =
            "mov.u32 %r4, 0;\nAGAIN:\nadd.u32 %r4, %r4, 1;\nsetp.lt.u32 %p0, %r4, TURNS;\n@%p0 bra AGAIN;";
        let compute = format!("{TWICE_PLUS_ONE}\n{}", spin.replace("TURNS", &turns.to_string()));
        builder(ptx(LOAD, &compute, STORE, GUARD), exact(), 64, uniform())
    };
    let options = cuforge_sim::LaunchOptions { step_budget: 1 << 28, ..Default::default() };
    let judged = |case: &Case| {
        let mut context =
            SimContext::builder().memory_bytes(4 << 20).launch_options(options).build().unwrap();
        let options = VerifyOptions { check: CheckOptions::default().once(), ..VerifyOptions::default() };
        verify_with(case, &mut context, &options).unwrap()
    };
    let report = judged(&long(12 << 20).build().unwrap());
    assert_eq!(report.verdict, Verdict::Vacuous, "{:?}", report.notes);
    assert!(report.notes.iter().any(|note| note.contains("too long")), "{:?}", report.notes);
}
