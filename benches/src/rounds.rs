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

/// Something that is measured: one sample a call.
pub type Side<'a> = &'a mut dyn FnMut() -> Result<f64, Box<dyn Error>>;

/// `rounds` samples of each side, all sides in every round, each round beginning with another one; one round before is
/// thrown away.
///
/// # Errors
///
/// The first error of a side.
///
/// ```
/// use cuforge_benches::{ratios, together};
/// let (mut ours, mut theirs) = (|| Ok(2.0), || Ok(4.0));
/// let samples = together(30, &mut [&mut ours, &mut theirs])?;
/// assert_eq!(ratios(&samples[0], &samples[1])?.median, 0.5);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn together(rounds: usize, sides: &mut [Side<'_>]) -> Result<Vec<Vec<f64>>, Box<dyn Error>> {
    let count = sides.len();
    let mut samples = vec![Vec::with_capacity(rounds); count];
    for round in 0..=rounds {
        for place in 0..count {
            let side = (round + place) % count;
            let sample = sides[side]()?;
            if round > 0 {
                samples[side].push(sample);
            }
        }
    }
    Ok(samples)
}

/// The spread of `ours / theirs`, round by round.
///
/// # Errors
///
/// No samples, or ratios that are no numbers.
pub fn ratios(ours: &[f64], theirs: &[f64]) -> Result<Spread, Box<dyn Error>> {
    let ratios: Vec<f64> = ours.iter().zip(theirs).map(|(mine, other)| mine / other).collect();
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
    fn all_sides_run_in_every_round_and_each_begins_some() {
        let order = RefCell::new(String::new());
        let side = |name: char, value: f64| {
            let order = &order;
            move || {
                order.borrow_mut().push(name);
                Ok(value)
            }
        };
        let (mut a, mut b, mut c) = (side('a', 1.0), side('b', 2.0), side('c', 4.0));
        let samples = together(3, &mut [&mut a, &mut b, &mut c]).unwrap();
        assert_eq!(order.into_inner(), "abcbcacababc");
        assert_eq!(samples, [[1.0; 3], [2.0; 3], [4.0; 3]]);
        assert_eq!(ratios(&samples[0], &samples[2]).unwrap().median, 0.25);
        assert!(ratios(&[], &[]).is_err());
        assert!(together(1, &mut [&mut || Err("no peer".into())]).is_err());
    }

    #[test]
    fn an_error_of_a_side_ends_the_comparison() {
        assert!(compare(3, || Ok(1.0), || Err("no peer".into())).is_err());
        assert!(compare(3, || Ok(0.0), || Ok(0.0)).is_err());
    }
}
