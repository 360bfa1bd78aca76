//! Sets of features: all of them while they are few, else each alone, each left out, none and all.

use std::collections::BTreeMap;

/// With more features than this not every set is tried: 2^5 checks of a crate are seconds, 2^10 are not.
const WHOLE_UP_TO: usize = 5;
/// Of features with this mark in their names only one may be on: they choose between versions of CUDA.
const EXCLUSIVE: &str = "cuda-1";

/// The sets to try.
pub(super) fn sets(features: &BTreeMap<String, Vec<String>>) -> Vec<Vec<&str>> {
    let names: Vec<&str> = features.keys().map(String::as_str).filter(|name| *name != "default").collect();
    let sets: Vec<Vec<&str>> = if names.len() <= WHOLE_UP_TO {
        (0..1usize << names.len())
            .map(|mask| {
                let chosen = names.iter().enumerate().filter(|(bit, _)| mask & (1 << bit) != 0);
                chosen.map(|(_, name)| *name).collect()
            })
            .collect()
    } else {
        let without = |out: &str| names.iter().copied().filter(|name| *name != out).collect();
        let mut sets = vec![Vec::new(), names.clone()];
        sets.extend(names.iter().map(|name| vec![*name]));
        sets.extend(names.iter().map(|name| without(name)));
        sets
    };
    sets.into_iter()
        .filter(|set| set.iter().filter(|name| name.starts_with(EXCLUSIVE)).count() <= 1)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(names: &[&str]) -> usize {
        let features = names.iter().map(|name| ((*name).to_owned(), Vec::new())).collect();
        sets(&features).len()
    }

    #[test]
    fn few_features_are_tried_in_every_set_and_the_default_is_no_feature() {
        assert_eq!(count(&[]), 1);
        assert_eq!(count(&["default", "a", "b", "c"]), 8);
    }

    #[test]
    fn many_features_are_tried_alone_and_left_out() {
        assert_eq!(count(&["a", "b", "c", "d", "e", "f"]), 2 + 6 + 6);
    }

    #[test]
    fn two_versions_of_cuda_are_never_on_together() {
        assert_eq!(count(&["cuda-12040", "cuda-13000", "a"]), 6);
    }
}
