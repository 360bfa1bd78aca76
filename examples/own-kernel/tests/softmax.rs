//! The kernel against a reference in plain Rust: every element within its own bound, and mutants that must fail.

use cuforge_core::{
    Access::*, DeclaredBlock, Element::*, Extent, KernelSpec, LaunchGeometry, Parameter, Schedule,
};
use cuforge_oracle::{
    Case, Evaluation, Fill, Inputs, OracleError, Real, Reference, SimContext, Verdict, report, verify,
};

const PTX: &str = include_str!("../src/softmax.ptx");

struct Softmax;
impl Reference for Softmax {
    fn evaluate<R: Real>(&self, run: &mut Evaluation<'_, R>) -> Result<(), OracleError> {
        let (input, width) = (run.reals("input")?, run.integer("width")? as usize);
        let rows = input.chunks(width).flat_map(|row| {
            let largest = row.iter().copied().reduce(R::max).unwrap_or(R::zero());
            let powers: Vec<R> = row.iter().map(|x| (*x - largest).exp()).collect();
            let sum = R::sum(powers.iter().copied());
            powers.into_iter().map(move |power| power / sum)
        });
        run.store("output", rows.collect::<Vec<_>>())
    }
}

#[test]
fn softmax_is_right() -> Result<(), Box<dyn std::error::Error>> {
    let [input, output] = [("input", 0, StorageRead), ("output", 1, StorageReadWrite)]
        .map(|(name, binding, access)| Parameter::buffer(name, binding, F32, access));
    let width = Parameter::scalar("width", U32);
    // SAFETY: a block touches only the `width` elements of its own row, and there are as many rows as blocks.
    let kernel = unsafe { KernelSpec::ptx("softmax", "softmax", PTX, vec![input, output, width]) };
    let warp = DeclaredBlock { workgroup_size: [32, 1, 1], items_per_invocation: 1 };
    let case = Case::builder(kernel.with_declared_blocks(vec![warp]), Softmax)
        .schedule(Schedule::new([32, 1, 1]))
        .input("input", F32, 40 * 333, Fill::Normal { mean: 0.0, deviation: 4.0 })
        .output("output", F32, 40 * 333)
        .scalar("width", 333u32)
        .extent(Extent::Geometry(LaunchGeometry { grid: [40, 1, 1], block: [32, 1, 1], shared_bytes: 0 }))
        .illegal(Inputs::Extremes) // differences that overflow
        .build()?;
    let report = verify(&case, &mut SimContext::builder().build()?)?;
    assert_eq!(report.verdict, Verdict::Passed, "{}", report::details(&report).join("\n"));
    Ok(())
}
