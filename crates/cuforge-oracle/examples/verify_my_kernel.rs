//! Verify a kernel of your own: a reference written once in plain Rust, and a verdict that shows that it can fail.
//!
//! `cargo run -p cuforge-oracle --example verify_my_kernel` on any machine: the kernel runs on the simulated device, out
//! of PTX, so that nothing else is needed. With `-- cuda` behind it, it runs on the first GPU.

use std::env;
use std::error::Error;
use std::process::ExitCode;

use cuforge_core::{Access, DeclaredBlock, Element, Extent, KernelSpec, OracleContext, Parameter, Schedule};
use cuforge_oracle::{
    Case, CudaContext, Evaluation, Fill, OracleError, Real, Reference, SimContext, Verdict, report, verify,
};

const SCALE: &str = "
.version 7.8
.target sm_75
.address_size 64
.visible .entry scale(.param .u64 x, .param .u64 y, .param .f32 a, .param .u32 n)
{
    .reg .pred %p<2>;
    .reg .b32 %r<6>;
    .reg .f32 %f<4>;
    .reg .b64 %rd<6>;
    ld.param.u64 %rd1, [x];
    ld.param.u64 %rd2, [y];
    ld.param.f32 %f1, [a];
    ld.param.u32 %r1, [n];
    mov.u32 %r2, %ctaid.x;
    mov.u32 %r3, %ntid.x;
    mov.u32 %r4, %tid.x;
    mad.lo.s32 %r5, %r2, %r3, %r4;
    setp.ge.u32 %p1, %r5, %r1;
    @%p1 bra DONE;
    cvta.to.global.u64 %rd1, %rd1;
    cvta.to.global.u64 %rd2, %rd2;
    mul.wide.u32 %rd3, %r5, 4;
    add.s64 %rd4, %rd1, %rd3;
    add.s64 %rd5, %rd2, %rd3;
    ld.global.f32 %f2, [%rd4];
    mul.rn.f32 %f3, %f2, %f1;
    st.global.f32 [%rd5], %f3;
DONE:
    ret;
}";

const N: u32 = 1000;
const A: f32 = 1.7;

/// What the kernel is meant to compute. Run with `f64` it gives the value, run with the error model also the bound.
struct Scale;

impl Reference for Scale {
    fn evaluate<R: Real>(&self, run: &mut Evaluation<'_, R>) -> Result<(), OracleError> {
        let a = run.scalar("a")?;
        let x = run.reals("x")?;
        run.store("y", x.into_iter().map(|x| x * a))
    }
}

fn main() -> ExitCode {
    match run() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("verify_my_kernel: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<bool, Box<dyn Error>> {
    let parameters = vec![
        Parameter::buffer("x", 0, Element::F32, Access::StorageRead),
        Parameter::buffer("y", 1, Element::F32, Access::StorageReadWrite),
        Parameter::scalar("a", Element::F32),
        Parameter::scalar("n", Element::U32),
    ];
    let block = DeclaredBlock { workgroup_size: [128, 1, 1], items_per_invocation: 1 };
    // SAFETY: the guard keeps every access within the `n` elements that both buffers have.
    let scale =
        unsafe { KernelSpec::ptx("scale", "scale", SCALE, parameters) }.with_declared_blocks(vec![block]);
    let case = Case::builder(scale, Scale)
        .shape(N.to_string())
        .schedule(Schedule::new([128, 1, 1]))
        .input("x", Element::F32, N.into(), Fill::Uniform { low: -1.0, high: 1.0 })
        .output("y", Element::F32, N.into())
        .scalar("a", A)
        .scalar("n", N)
        .extent(Extent::Elements(N.into()))
        .build()?;
    let mut context: Box<dyn OracleContext> = if env::args().any(|word| word == "cuda") {
        Box::new(CudaContext::new(cuforge::Session::builder().build()?))
    } else {
        Box::new(SimContext::builder().build()?)
    };
    let verdict = verify(&case, &mut *context)?;
    println!("{}", report::to_table(std::slice::from_ref(&verdict)));
    Ok(verdict.verdict == Verdict::Passed)
}
