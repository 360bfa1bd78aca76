//! A run of benches as it is kept: machine, figures, what could not be measured; as JSON and as a Markdown table.

use std::fmt::Write as _;

use serde::{Deserialize, Serialize};

use crate::figure::Figure;
use crate::machine::Machine;

/// The `schema` of the JSON form.
pub const SCHEMA: &str = "cuforge-bench/2";

/// One run. Its keys in JSON are stable under one `schema`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// [`SCHEMA`].
    pub schema: String,
    /// Where it ran.
    pub machine: Machine,
    /// Few rounds: no bar was judged.
    pub quick: bool,
    /// What was measured.
    pub figures: Vec<Row>,
    /// Areas that could not be measured, each with its reason.
    pub errors: Vec<String>,
}

/// One figure of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// The area.
    pub area: String,
    /// What was measured; a later run is compared by area and name.
    pub name: String,
    /// Its unit.
    pub unit: String,
    /// Half of the rounds gave less.
    pub median: f64,
    /// A quarter of the rounds gave less.
    pub lower_quartile: f64,
    /// Three quarters of the rounds gave less.
    pub upper_quartile: f64,
    /// How many rounds were taken.
    pub rounds: usize,
    /// What the median is held to, such as `<= 100`.
    pub bar: Option<String>,
    /// Whether it holds; `None` without a bar or where none is judged.
    pub holds: Option<bool>,
}

impl Run {
    /// A run that has measured nothing yet.
    #[must_use]
    pub fn new(machine: Machine, quick: bool) -> Self {
        Self { schema: SCHEMA.to_owned(), machine, quick, figures: Vec::new(), errors: Vec::new() }
    }

    /// Reads what an earlier run wrote.
    ///
    /// # Errors
    /// Text that is no run, or one of another schema.
    pub fn from_json(text: &str) -> Result<Self, String> {
        let run: Self = serde_json::from_str(text).map_err(|error| error.to_string())?;
        if run.schema == SCHEMA {
            Ok(run)
        } else {
            Err(format!("its schema is {}, not {SCHEMA}", run.schema))
        }
    }

    /// As JSON.
    ///
    /// # Errors
    /// None that is known.
    pub fn to_json(&self) -> Result<String, serde_json::Error> {
        serde_json::to_string_pretty(self).map(|text| text + "\n")
    }

    /// As Markdown: the machine in a sentence, then a table for each area.
    #[must_use]
    pub fn to_markdown(&self) -> String {
        let date = self.machine.date.as_deref().map_or_else(String::new, |date| format!("{date}: "));
        let mut text = format!("{date}{}.\n", self.machine.lines().join("; "));
        let mut area = "";
        for row in &self.figures {
            if row.area != area {
                area = &row.area;
                // Writing to a string cannot fail.
                let _ = write!(
                    text,
                    "\n### {area}\n\n| what | median | quartiles | rounds | bar |\n|---|---|---|---|---|\n"
                );
            }
            let [median, lower, upper] = [row.median, row.lower_quartile, row.upper_quartile].map(digits);
            let bar = match (&row.bar, row.holds) {
                (Some(bar), Some(true)) => format!("{bar}, holds"),
                (Some(bar), Some(false)) => format!("{bar}, **missed**"),
                (Some(bar), None) => format!("{bar}, not judged"),
                (None, _) => String::new(),
            };
            let name = row.name.replace('|', "\\|");
            let _ = writeln!(
                text,
                "| {name} | {median} {} | {lower} .. {upper} | {} | {bar} |",
                row.unit, row.rounds
            );
        }
        for error in &self.errors {
            let _ = write!(text, "\nNot measured: {error}.\n");
        }
        text
    }
}

impl Row {
    /// A figure of `area`; its bar is judged if `judged`.
    #[must_use]
    pub fn new(area: &str, figure: Figure, judged: bool) -> Self {
        Self {
            area: area.to_owned(),
            holds: if judged { figure.holds() } else { None },
            bar: figure.bar.map(|bar| bar.to_string()),
            name: figure.name,
            unit: figure.unit.to_owned(),
            median: figure.spread.median,
            lower_quartile: figure.spread.lower,
            upper_quartile: figure.spread.upper,
            rounds: figure.rounds,
        }
    }

    /// Whether more is better: as its bar says, else for rates and shares.
    #[must_use]
    pub fn more_is_better(&self) -> bool {
        match self.bar.as_deref().and_then(|bar| bar.get(..2)) {
            Some(">=") => true,
            Some(_) => false,
            None => self.unit.ends_with("/s") || self.unit == "share",
        }
    }

    /// Whether it means the same on any machine: a ratio, a share or a count.
    #[must_use]
    pub fn is_relative(&self) -> bool {
        !self.unit.ends_with("/s") && nanoseconds(&self.unit).is_none()
    }

    /// In one line.
    #[must_use]
    pub fn line(&self) -> String {
        let Self { name, unit, rounds, .. } = self;
        let [median, lower, upper] = [self.median, self.lower_quartile, self.upper_quartile].map(digits);
        let bar = match (&self.bar, self.holds) {
            (Some(bar), Some(true)) => format!(", bar {bar} holds"),
            (Some(bar), Some(false)) => format!(", bar {bar} MISSED"),
            (Some(bar), None) => format!(", bar {bar} not judged"),
            (None, _) => String::new(),
        };
        format!("{name:<44} {median} {unit} ({lower} .. {upper}, {rounds} rounds{bar})")
    }
}

/// How many nanoseconds a unit of time has; `None` for another unit.
#[must_use]
pub(crate) fn nanoseconds(unit: &str) -> Option<f64> {
    match unit {
        "ns" => Some(1.0),
        "us" => Some(1e3),
        "ms" => Some(1e6),
        "s" => Some(1e9),
        _ => None,
    }
}

/// Four significant digits, without an exponent.
#[must_use]
pub(crate) fn digits(value: f64) -> String {
    let magnitude = if value == 0.0 { 0 } else { value.abs().log10().floor() as i32 };
    let decimals = usize::try_from(3 - magnitude).unwrap_or(0).min(9);
    format!("{value:.decimals$}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figure::{Bar, Spread};

    fn row(unit: &'static str, median: f64, bar: Option<Bar>, judged: bool) -> Row {
        let spread = Spread { lower: median, median, upper: median };
        let figure = Figure::new("a | b", unit, spread, 30);
        Row::new("sim", Figure { bar, ..figure }, judged)
    }

    #[test]
    fn a_run_comes_back_from_json_and_another_schema_does_not() {
        let run = Run { figures: vec![row("ns", 3.0, None, true)], ..Run::new(Machine::default(), false) };
        assert_eq!(Run::from_json(&run.to_json().unwrap()), Ok(run.clone()));
        let other = Run { schema: "cuforge-bench/1".into(), ..run };
        assert!(Run::from_json(&other.to_json().unwrap()).unwrap_err().contains("cuforge-bench/1"));
    }

    #[test]
    fn a_run_that_judges_nothing_judges_no_bar() {
        let row = row("ratio", 1.0, Some(Bar::AtLeast(15.0)), false);
        assert_eq!(row.holds, None);
        assert!(row.line().ends_with("bar >= 15 not judged)"), "{}", row.line());
    }

    #[test]
    fn what_is_better_follows_the_bar_and_else_the_unit() {
        assert!(row("ratio", 1.0, Some(Bar::AtLeast(0.9)), true).more_is_better());
        assert!(!row("GB/s", 1.0, Some(Bar::AtMost(0.9)), true).more_is_better());
        assert!(row("GB/s", 1.0, None, true).more_is_better());
        assert!(
            !row("ns", 1.0, None, true).more_is_better() && !row("ratio", 1.0, None, true).more_is_better()
        );
    }

    #[test]
    fn a_markdown_table_keeps_its_columns_whatever_a_name_holds() {
        let run = Run {
            figures: vec![row("ratio", 1.0, Some(Bar::AtMost(0.5)), true)],
            ..Run::new(Machine::default(), false)
        };
        let text = run.to_markdown();
        assert!(
            text.contains("| a \\| b | 1.000 ratio | 1.000 .. 1.000 | 30 | <= 0.5, **missed** |"),
            "{text}"
        );
    }

    #[test]
    fn figures_are_shown_with_four_digits() {
        assert_eq!(
            [0.0, 0.123_456, 1.0, 1234.5, 98_765.4].map(digits),
            ["0.000", "0.1235", "1.000", "1234", "98765"]
        );
    }
}
