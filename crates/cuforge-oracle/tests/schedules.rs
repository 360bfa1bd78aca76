//! The corpus on the simulated device under many schedules: no detector reports anything, and no result is off.
#![allow(clippy::unwrap_used, reason = "a test may fail loudly in its helpers too")]

use cuforge_oracle::corpus::{ALL, Form};
use cuforge_oracle::{CheckOptions, SimContext, check};
use cuforge_sim::LaunchOptions;

/// Schedules of each kernel.
fn seeds() -> u64 {
    let long = std::env::var_os("CUFORGE_LONG").is_some_and(|value| value == "1");
    if long { 100 } else { 3 }
}

#[test]
fn no_schedule_makes_a_detector_report_a_kernel_of_the_corpus_or_changes_its_results() {
    let mut launches = 0;
    for kernel in ALL {
        for form in [Form::ShippedPtx, Form::WrittenPtx] {
            let Some(schedule) = kernel.schedules(form).into_iter().next() else { continue };
            let shape = kernel.small_shapes().swap_remove(0);
            let case = kernel.case(form, &shape, &schedule).unwrap();
            for seed in 0..seeds() {
                let options = LaunchOptions { seed, step_budget: 1 << 28, ..LaunchOptions::default() };
                let builder = SimContext::builder().memory_bytes(32 << 20).launch_options(options);
                let found = check(&case, &mut builder.build().unwrap(), &CheckOptions::default().once());
                let found = found.unwrap_or_else(|error| {
                    panic!("{} {form:?} {shape}, seed {seed}: {error}", kernel.name())
                });
                assert!(found.agrees(), "{} {form:?} {shape}, seed {seed}: {found:?}", kernel.name());
                launches += 1;
            }
        }
    }
    assert!(launches >= 30 * seeds(), "{launches} launches");
}
