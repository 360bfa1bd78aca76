//! The value that carries the bounds is the one that plain `f64` computes, for every kernel of the corpus.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail loudly in its helpers too")]

use cuforge_oracle::corpus::{self, Form};
use cuforge_oracle::{ErrorModel, Expected};

#[test]
fn f64_and_tracked_numbers_give_the_same_values() {
    for kernel in corpus::ALL {
        for shape in kernel.small_shapes() {
            let case = kernel.case(Form::CudaC, &shape, &kernel.default_schedule()).unwrap();
            for seed in 0..3 {
                let contents = case.contents(seed).unwrap();
                let values = case.values(&contents).unwrap();
                for model in [ErrorModel::ieee_f32(), ErrorModel::fast_f32()] {
                    let expected = case.expected(&contents, &model).unwrap();
                    for (values, expected) in values.iter().zip(&expected) {
                        let (Some(plain), Some(Expected::Bounded { values, bounds })) = (values, expected)
                        else {
                            continue;
                        };
                        assert_eq!(plain, values, "{} {shape}", case.name());
                        assert!(bounds.iter().all(|bound| bound.is_finite() && *bound >= 0.0));
                    }
                }
            }
        }
    }
}

#[test]
fn contents_follow_from_the_seed_alone() {
    for kernel in corpus::ALL {
        let case = kernel.case(Form::CudaC, &kernel.small_shapes()[0], &kernel.default_schedule()).unwrap();
        assert_eq!(case.contents(1).unwrap(), case.contents(1).unwrap());
        assert_ne!(case.contents(1).unwrap(), case.contents(2).unwrap(), "{}", case.name());
    }
}
