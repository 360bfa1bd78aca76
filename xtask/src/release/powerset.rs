//! Sets of features: all of them while they are few, else each alone, each left out, none and all.

use std::collections::BTreeMap;
use std::env;

use serde_json::Value;

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

/// Features that this machine cannot build, each with the program that it needs: those under
/// `[package.metadata.cuforge.feature-needs]` whose program is not in `PATH`.
pub(super) fn out_of_reach(metadata: &Value) -> Vec<(String, String)> {
    let needs = metadata["cuforge"]["feature-needs"].as_object();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let needs = needs.into_iter().flatten().map(|(feature, program)| (feature.clone(), text(program)));
    needs.filter(|(_, program)| !is_in_path(program)).collect()
}

fn is_in_path(program: &str) -> bool {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path).any(|folder| folder.join(program).is_file())
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
    fn a_feature_whose_program_is_missing_is_named_and_any_other_is_tried() {
        let metadata = |program: &str| serde_json::json!({"cuforge": {"feature-needs": {"nvtx": program}}});
        let absent = ("nvtx".to_owned(), "no-such-program-anywhere".to_owned());
        assert_eq!(out_of_reach(&metadata("no-such-program-anywhere")), [absent]);
        assert_eq!(out_of_reach(&metadata("sh")), []);
        assert_eq!(out_of_reach(&Value::Null), []);
    }

    #[test]
    fn two_versions_of_cuda_are_never_on_together() {
        assert_eq!(count(&["cuda-12040", "cuda-13000", "a"]), 6);
    }
}
