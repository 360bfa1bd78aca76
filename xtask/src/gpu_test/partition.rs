//! Which part of the tests this machine runs.

use std::str::FromStr;

/// The `index`-th of `count` parts, `index` from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Partition {
    index: usize,
    count: usize,
}

impl Default for Partition {
    fn default() -> Self {
        Self { index: 0, count: 1 }
    }
}

impl FromStr for Partition {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = || format!("a part is K/N with 1 <= K <= N, not {text:?}");
        let (index, count) = text.split_once('/').ok_or_else(wrong)?;
        let (index, count): (usize, usize) =
            (index.parse().map_err(|_| wrong())?, count.parse().map_err(|_| wrong())?);
        if index == 0 || index > count {
            return Err(wrong());
        }
        Ok(Self { index: index - 1, count })
    }
}

impl Partition {
    /// Whether the test at `place` in the sorted list of all tests belongs to this part.
    pub(super) const fn holds(self, place: usize) -> bool {
        place % self.count == self.index
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_test_belongs_to_exactly_one_part() {
        let parts: Vec<Partition> = (1..=3).map(|k| format!("{k}/3").parse().unwrap()).collect();
        for place in 0..100 {
            assert_eq!(parts.iter().filter(|part| part.holds(place)).count(), 1, "{place}");
        }
        assert!((0..100).all(|place| Partition::default().holds(place)));
    }

    #[test]
    fn what_is_no_part_is_refused() {
        for text in ["", "1", "0/2", "3/2", "1/0", "a/b", "-1/2"] {
            assert!(text.parse::<Partition>().is_err(), "{text}");
        }
    }
}
