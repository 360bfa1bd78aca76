//! Rounds of measurement: warm-up excluded, and two sides in turns so that a slow moment of the machine hits both.

use std::error::Error;

use crate::figure::Spread;

/// Takes `rounds` samples of `measure` after one that is thrown away.
///
/// # Errors
///
/// The first error of `measure`, or an empty or broken set of samples.
pub fn repeat(
    rounds: usize,
    mut measure: impl FnMut() -> Result<f64, Box<dyn Error>>,
) -> Result<Spread, Box<dyn Error>> {
    measure()?;
    let samples: Vec<f64> = (0..rounds).map(|_| measure()).collect::<Result<_, _>>()?;
    Spread::of(&samples).ok_or_else(|| "no samples that are numbers".into())
}

/// The spread of `ours / theirs` over `rounds` rounds. Each round measures both, the first side in turns.
///
/// # Errors
///
/// The first error of either side, or ratios that are no numbers.
///
/// ```
/// use cuforge_benches::compare;
/// let spread = compare(30, || Ok(2.0), || Ok(4.0))?;
/// assert_eq!(spread.median, 0.5);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn compare(
    rounds: usize,
    mut ours: impl FnMut() -> Result<f64, Box<dyn Error>>,
    mut theirs: impl FnMut() -> Result<f64, Box<dyn Error>>,
) -> Result<Spread, Box<dyn Error>> {
    ours()?;
    theirs()?;
    let mut ratios = Vec::with_capacity(rounds);
    for round in 0..rounds {
        let (mine, other) = if round % 2 == 0 {
            let mine = ours()?;
            (mine, theirs()?)
        } else {
            let other = theirs()?;
            (ours()?, other)
        };
        ratios.push(mine / other);
    }
    Spread::of(&ratios).ok_or_else(|| "no ratios that are numbers".into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;

    #[test]
    fn the_first_sample_is_warm_up() {
        let mut samples = [100.0, 1.0, 2.0, 3.0].into_iter();
        let spread = repeat(3, || samples.next().ok_or_else(|| "too many".into())).unwrap();
        assert_eq!(spread.median, 2.0);
    }

    #[test]
    fn both_sides_run_in_every_round_and_take_turns_at_going_first() {
        let order = RefCell::new(String::new());
        let side = |name: char| {
            let order = &order;
            move || {
                order.borrow_mut().push(name);
                Ok(1.0)
            }
        };
        compare(3, side('a'), side('b')).unwrap();
        assert_eq!(order.into_inner(), "ababbaab");
    }

    #[test]
    fn an_error_of_a_side_ends_the_comparison() {
        assert!(compare(3, || Ok(1.0), || Err("no peer".into())).is_err());
        assert!(compare(3, || Ok(0.0), || Ok(0.0)).is_err());
    }
}
