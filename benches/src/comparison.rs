//! Two runs beside each other: what changed by more than the noise that both measured.

use crate::record::{Row, Run, digits};

/// How a figure of a run stands beside the same figure of an earlier one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Within the noise.
    Same,
    /// Better by more than the noise.
    Better,
    /// Worse by more than the noise.
    Worse,
    /// Not judged: an absolute figure of another machine, another unit, or few rounds.
    NotJudged,
}

/// A figure that both runs have.
#[derive(Clone, Debug, PartialEq)]
pub struct Compared {
    /// Area and name.
    pub what: String,
    /// How it changed.
    pub change: Change,
    /// The median of the earlier run, in the row's unit.
    pub before: f64,
    /// The median of this run.
    pub after: f64,
    /// By how much medians may differ: the quartile ranges of both runs together.
    pub noise: f64,
}

/// Compares the figures that `before` and `after` share, in the order of `after`.
///
/// A change counts if the medians are further apart than the quartile ranges of both runs together: each range holds half
/// of its rounds, so for a set of rounds like another the medians differ by far less.
#[must_use]
pub fn compare_runs(before: &Run, after: &Run) -> Vec<Compared> {
    let same_machine = before.machine.is_like(&after.machine);
    let judged = !before.quick && !after.quick;
    let pair = |row: &Row| {
        let old = before.figures.iter().find(|old| (&old.area, &old.name) == (&row.area, &row.name))?;
        let noise = (old.upper_quartile - old.lower_quartile) + (row.upper_quartile - row.lower_quartile);
        let gain = if row.more_is_better() { row.median - old.median } else { old.median - row.median };
        let change = if !judged || old.unit != row.unit || !(same_machine || row.is_relative()) {
            Change::NotJudged
        } else if gain.abs() <= noise {
            Change::Same
        } else if gain > 0.0 {
            Change::Better
        } else {
            Change::Worse
        };
        let what = format!("{}: {}", row.area, row.name);
        Some(Compared { what, change, before: old.median, after: row.median, noise })
    };
    after.figures.iter().filter_map(pair).collect()
}

/// Figures of `before` in areas that `after` measured too, which `after` does not have.
#[must_use]
pub fn missing(before: &Run, after: &Run) -> Vec<String> {
    let measured = |area: &str| after.figures.iter().any(|row| row.area == area);
    let there = |old: &Row| after.figures.iter().any(|row| (&row.area, &row.name) == (&old.area, &old.name));
    let gone = before.figures.iter().filter(|old| measured(&old.area) && !there(old));
    gone.map(|old| format!("{}: {}", old.area, old.name)).collect()
}

impl Compared {
    /// In one line.
    #[must_use]
    pub fn line(&self) -> String {
        let word = match self.change {
            Change::Same => "same",
            Change::Better => "better",
            Change::Worse => "WORSE",
            Change::NotJudged => "not judged",
        };
        let [before, after, noise] = [self.before, self.after, self.noise].map(digits);
        format!("{word:<11} {:<60} {before} -> {after} (noise {noise})", self.what)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::Machine;

    fn row(name: &str, unit: &str, median: f64, half: f64) -> Row {
        Row {
            area: "slab".into(),
            name: name.into(),
            unit: unit.into(),
            median,
            lower_quartile: median - half,
            upper_quartile: median + half,
            rounds: 30,
            bar: None,
            holds: None,
        }
    }

    fn run(rows: Vec<Row>) -> Run {
        Run { figures: rows, ..Run::new(Machine::default(), false) }
    }

    fn changes(before: Vec<Row>, after: Vec<Row>) -> Vec<Change> {
        compare_runs(&run(before), &run(after)).into_iter().map(|compared| compared.change).collect()
    }

    #[test]
    fn a_change_within_the_noise_is_none_and_beyond_it_the_unit_says_which_way_is_worse() {
        let was = || vec![row("a", "ns", 10.0, 0.5), row("b", "GB/s", 10.0, 0.5), row("c", "ns", 10.0, 0.5)];
        let is = vec![row("a", "ns", 12.5, 0.5), row("b", "GB/s", 12.5, 0.5), row("c", "ns", 11.9, 0.5)];
        assert_eq!(changes(was(), is), [Change::Worse, Change::Better, Change::Same]);
        assert_eq!(changes(was(), was()), [Change::Same; 3]);
    }

    #[test]
    fn absolute_figures_of_another_machine_are_not_judged_and_ratios_are() {
        let elsewhere = Machine { processor: "another".into(), ..Machine::default() };
        let before = run(vec![row("a", "ns", 10.0, 0.1), row("b", "ratio", 1.0, 0.01)]);
        let after =
            Run { machine: elsewhere, ..run(vec![row("a", "ns", 90.0, 0.1), row("b", "ratio", 2.0, 0.01)]) };
        let changes: Vec<Change> =
            compare_runs(&before, &after).iter().map(|compared| compared.change).collect();
        assert_eq!(changes, [Change::NotJudged, Change::Worse]);
    }

    #[test]
    fn a_quick_run_is_not_judged_and_a_figure_that_went_is_named() {
        let before = run(vec![row("a", "ns", 10.0, 0.1), row("gone", "ns", 1.0, 0.1)]);
        let after = Run { quick: true, ..run(vec![row("a", "ns", 90.0, 0.1)]) };
        assert_eq!(compare_runs(&before, &after)[0].change, Change::NotJudged);
        assert_eq!(missing(&before, &after), ["slab: gone"]);
    }
}
