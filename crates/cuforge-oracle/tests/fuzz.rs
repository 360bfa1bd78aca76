//! The fuzzer finds what is wrong, makes it small, and accuses nothing that is right.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail loudly in its helpers too")]

mod changed;

use changed::{Change, Changed};
use cuforge_core::KernelSpec;
use cuforge_oracle::SimContext;
use cuforge_oracle::fuzz::{self, Binary, Ending, FuzzCase, FuzzForm, FuzzOutcome, Node, Values};

fn sim() -> SimContext {
    SimContext::builder().memory_bytes(1 << 20).build().unwrap()
}

#[test]
fn random_kernels_agree_with_their_trees_on_the_simulated_device() {
    let mut context = sim();
    let (mut agreed, mut elements) = (0, 0);
    for number in 0..300 {
        let case = FuzzCase::generate(11, number);
        match fuzz::run(&case, FuzzForm::Ptx, &mut context).unwrap() {
            FuzzOutcome::Agrees(count) => (agreed, elements) = (agreed + 1, elements + count),
            FuzzOutcome::NotApplicable(_) => {}
            other => panic!("{number}: {other:?}\n{}\n{}", case.to_text(), case.source(FuzzForm::Ptx)),
        }
    }
    assert!(agreed >= 280 && elements > 20_000, "{agreed} {elements}");
}

#[test]
fn the_generator_reaches_every_operation_and_ending() {
    let mut seen = std::collections::BTreeSet::new();
    for number in 0..400 {
        let case = FuzzCase::generate(5, number);
        let text = case.to_text();
        let words = [
            "negate",
            "magnitude",
            "root",
            "power",
            "not",
            "count-ones",
            "add",
            "subtract",
            "multiply",
            "maximum",
            "minimum",
            "divide",
            "and",
            "xor",
            "shift-left",
            "shift-right",
            "mul-add",
            "select",
            "store",
            "block-sum",
            "block-maximum",
            "exchange",
            "butterfly",
            "index",
            "scalar",
            "literal",
        ];
        seen.extend(words.into_iter().filter(|word| text.contains(&format!("\"{word}\""))));
    }
    assert_eq!(seen.len(), 26, "{seen:?}");
}

#[test]
fn a_case_survives_its_file_and_a_file_that_makes_no_kernel_is_refused() {
    for number in 0..50 {
        let case = FuzzCase::generate(3, number);
        assert_eq!(FuzzCase::from_text(&case.to_text()).unwrap(), case);
    }
    let text = FuzzCase::generate(3, 0).to_text();
    let refused = |text: String| FuzzCase::from_text(&text).unwrap_err().to_string();
    assert!(refused(text.replace("cuforge.fuzz.1", "cuforge.fuzz.9")).contains("cuforge.fuzz.9"));
    let case = FuzzCase::generate(3, 0);
    let broken = FuzzCase { threads: 48, ..case.clone() };
    assert!(refused(broken.to_text()).contains("power of two"));
    let mut far = case;
    far.program.root = Node::Input { input: 9, shift: 0 };
    assert!(refused(far.to_text()).contains("inputs"));
}

/// Takes one instruction for another.
struct Miscompiling {
    from: &'static str,
    to: &'static str,
}

impl Change for Miscompiling {
    fn built(&self, spec: &KernelSpec) -> Option<KernelSpec> {
        let text = spec.body().text.replace(self.from, self.to);
        let blocks = spec.declared_blocks().to_vec();
        // SAFETY: it runs on the simulated device only, which checks every access.
        let wrong = unsafe { KernelSpec::ptx("fuzz", "fuzz", text, spec.parameters().to_vec()) };
        Some(wrong.with_declared_blocks(blocks))
    }
}

/// The first failure of a device that takes one instruction for another, made small.
fn shrunk(from: &'static str, to: &'static str) -> FuzzCase {
    let mut context = Changed::new(sim(), Miscompiling { from, to });
    for number in 0..500 {
        let case = FuzzCase::generate(2, number);
        if let FuzzOutcome::Fails(_) = fuzz::run(&case, FuzzForm::Ptx, &mut context).unwrap() {
            let small = fuzz::shrink(&case, FuzzForm::Ptx, &mut context, 2000);
            assert!(matches!(fuzz::run(&small, FuzzForm::Ptx, &mut context).unwrap(), FuzzOutcome::Fails(_)));
            // What is small replays from its file, and is right on a right device.
            let replayed = FuzzCase::from_text(&small.to_text()).unwrap();
            assert!(matches!(
                fuzz::run(&replayed, FuzzForm::Ptx, &mut sim()).unwrap(),
                FuzzOutcome::Agrees(_)
            ));
            return small;
        }
    }
    panic!("500 cases without a `{from}` that matters");
}

#[test]
fn a_wrong_instruction_is_found_and_shrunk_to_itself() {
    let small = shrunk("max.f32", "min.f32");
    assert_eq!((small.elements, small.threads), (1, 32), "{}", small.to_text());
    assert!(small.program.size() <= 3, "{}", small.to_text());
    let small = shrunk("xor.b32", "or.b32");
    assert_eq!(small.program.values, Values::Integers);
    assert!(matches!(&small.program.root, Node::Binary(Binary::Xor, ..)), "{}", small.to_text());
}

#[test]
fn a_fault_between_threads_is_shrunk_without_losing_the_block() {
    let small = shrunk("shfl.sync.bfly.b32", "shfl.sync.up.b32");
    assert!(matches!(small.program.ending, Ending::Butterfly(_)), "{}", small.to_text());
    assert!(small.program.size() <= 2 && small.threads == 32, "{}", small.to_text());
}

#[test]
fn a_missing_barrier_is_found_by_rule() {
    let small = shrunk("bar.sync 0;", "");
    let together =
        matches!(small.program.ending, Ending::BlockSum | Ending::BlockMaximum | Ending::Exchange(_));
    assert!(together && small.program.size() == 1, "{}", small.to_text());
}
