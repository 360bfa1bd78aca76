//! SVG charts of a run: bars with their quartiles for each area and kind of unit, lines for figures that grow with a number.
//!
//! Six charts pick what they show by name, for README and book. In all others nothing is chosen by hand: figures whose names differ in one number only are a line over that number, all others are
//! bars. Times share one chart whatever their unit, ratios another.

mod axis;
mod bars;
mod chosen;
mod lines;
mod svg;
mod value;

use crate::record::{Row, Run, nanoseconds};

/// One chart.
#[derive(Clone, Debug, PartialEq)]
pub struct Chart {
    /// Its file name, such as `slab-ratio.svg`.
    pub file: String,
    /// The SVG text.
    pub svg: String,
}

/// Every chart of a run, in the order of its figures; none for what was not measured.
///
/// ```
/// use cuforge_benches::{Bar, Figure, Machine, Row, Run, Spread, charts};
/// let spread = Spread::of(&[18.0, 20.0, 22.0]).ok_or("no samples")?;
/// let mut run = Run::new(Machine::default(), false);
/// run.figures.push(Row::new("sim", Figure::new("tiled GEMM", "MB/s", spread, 3), true));
/// assert_eq!(charts(&run)[0].file, "sim-mb-s.svg");
/// # Ok::<(), &str>(())
/// ```
#[must_use]
pub fn charts(run: &Run) -> Vec<Chart> {
    let about = about(run);
    let mut charts = chosen_charts(run, &about);
    let mut areas: Vec<&str> = run.figures.iter().map(|row| row.area.as_str()).collect();
    areas.dedup();
    for area in areas {
        let rows: Vec<Row> = run.figures.iter().filter(|row| row.area == area).map(in_nanoseconds).collect();
        let mut units: Vec<&str> = Vec::new();
        for row in &rows {
            if !units.contains(&row.unit.as_str()) {
                units.push(&row.unit);
            }
        }
        for unit in units {
            let rows: Vec<&Row> = rows.iter().filter(|row| row.unit == unit).collect();
            let (series, alone) = lines::series(&rows);
            if !alone.is_empty() {
                charts.push(Chart {
                    file: format!("{area}-{}.svg", file_part(unit)),
                    svg: bars::draw(&title(area, unit), &about, &alone),
                });
            }
            if !series.is_empty() {
                charts.push(Chart {
                    file: format!("{area}-{}-lines.svg", file_part(unit)),
                    svg: lines::draw(&title(area, unit), &about, unit, &series),
                });
            }
        }
    }
    charts
}

fn chosen_charts(run: &Run, about: &str) -> Vec<Chart> {
    let mut charts = Vec::new();
    for chosen in chosen::CHOSEN {
        let rows: Vec<Row> =
            run.figures.iter().filter(|row| row.area == chosen.area).map(in_nanoseconds).collect();
        let rows: Vec<&Row> =
            rows.iter().filter(|row| row.unit == chosen.unit && (chosen.takes)(&row.name)).collect();
        if rows.len() < 2 {
            continue;
        }
        let (series, alone) = lines::series(&rows);
        let svg = if alone.is_empty() {
            lines::draw(chosen.title, about, chosen.unit, &series)
        } else {
            bars::draw(chosen.title, about, &rows)
        };
        charts.push(Chart { file: chosen.file.to_owned(), svg });
    }
    charts
}

/// Date and machine, as the line below a title.
fn about(run: &Run) -> String {
    let machine = &run.machine;
    let place = match &machine.gpu {
        Some(gpu) => format!("{gpu}; {}, {} cores", machine.processor, machine.cores),
        None => format!("{}, {} cores, no GPU", machine.processor, machine.cores),
    };
    let quick = if run.quick { "; a quick run" } else { "" };
    let date = machine.date.as_deref().map_or_else(String::new, |date| format!("{date}, "));
    format!("{date}{place}{quick}. Medians; whiskers are quartiles.")
}

fn title(area: &str, unit: &str) -> String {
    match unit {
        "ns" => format!("{area}: time"),
        "ratio" => format!("{area}: ratio"),
        unit => format!("{area}: {unit}"),
    }
}

/// A time in nanoseconds, so that all times of an area stand on one axis.
fn in_nanoseconds(row: &Row) -> Row {
    let Some(factor) = nanoseconds(&row.unit) else { return row.clone() };
    Row {
        unit: "ns".to_owned(),
        median: row.median * factor,
        lower_quartile: row.lower_quartile * factor,
        upper_quartile: row.upper_quartile * factor,
        bar: row.bar.as_deref().and_then(|bar| {
            let (sign, value) = bar.split_once(' ')?;
            Some(format!("{sign} {}", value.parse::<f64>().ok()? * factor))
        }),
        ..row.clone()
    }
}

/// A unit as a part of a file's name.
fn file_part(unit: &str) -> String {
    let unit = if unit == "ns" { "time" } else { unit };
    let plain: String =
        unit.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' }).collect();
    plain.split('-').filter(|part| !part.is_empty()).collect::<Vec<_>>().join("-")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::Machine;

    fn row(area: &str, name: &str, unit: &str, median: f64) -> Row {
        Row {
            area: area.into(),
            name: name.into(),
            unit: unit.into(),
            median,
            lower_quartile: median * 0.9,
            upper_quartile: median * 1.1,
            rounds: 30,
            bar: (unit == "us").then(|| "<= 100".to_owned()),
            holds: None,
        }
    }

    fn run(figures: Vec<Row>) -> Run {
        Run { figures, ..Run::new(Machine::default(), false) }
    }

    #[test]
    fn times_of_all_units_share_a_chart_and_other_units_have_their_own() {
        let run = run(vec![
            row("compile", "memory hit", "ns", 35.0),
            row("compile", "disk hit", "us", 44.0),
            row("compile", "ours / theirs", "ratio", 0.7),
            row("slab", "ring", "ns", 2.0),
        ]);
        let files: Vec<String> = charts(&run).into_iter().map(|chart| chart.file).collect();
        assert_eq!(files, ["cache-hits.svg", "compile-time.svg", "compile-ratio.svg", "slab-time.svg"]);
        let svg = &charts(&run)[1].svg;
        assert!(svg.contains("44.00 us") && svg.contains("35.00 ns"), "{svg}");
    }

    #[test]
    fn figures_that_differ_in_a_number_are_a_line_over_it() {
        let mut figures: Vec<Row> = [10u32, 100, 1000]
            .map(|nodes| row("graph", &format!("replay of {nodes} nodes"), "us", f64::from(nodes)))
            .into();
        figures.push(row("graph", "capture", "us", 3.0));
        let charts = charts(&run(figures));
        assert_eq!(
            charts.iter().map(|chart| chart.file.as_str()).collect::<Vec<_>>(),
            ["replay-cost.svg", "graph-time.svg", "graph-time-lines.svg"]
        );
        assert!([0, 2].iter().all(|&at| charts[at].svg.contains("<polyline")), "{}", charts[2].svg);
        assert!(charts[0].svg.contains("CPU time of one replay"), "{}", charts[0].svg);
    }

    #[test]
    fn a_chosen_chart_shows_what_it_names_and_nothing_else() {
        let run = run(vec![
            row("launch", "bound launch", "ns", 2000.0),
            row("launch", "launch through CuPy", "ns", 6000.0),
            row("launch", "start to the first launch, raw", "ms", 138.0),
            row("launch", "bound launch / CuPy", "ratio", 0.3),
            row("slab", "ring / by hand", "ratio", 1.3),
        ]);
        let charts = charts(&run);
        let cost = charts.iter().find(|chart| chart.file == "launch-cost.svg").unwrap();
        assert!(cost.svg.contains("launch through CuPy") && !cost.svg.contains("138"), "{}", cost.svg);
        assert!(charts.iter().all(|chart| chart.file != "allocators.svg"), "one figure is no comparison");
    }

    #[test]
    fn what_a_name_holds_is_no_markup() {
        let svg = &charts(&run(vec![row("slab", "ring in a Box<dyn> & more", "ratio", 2.0)]))[0].svg;
        assert!(svg.contains("Box&lt;dyn&gt; &amp; more") && !svg.contains("<dyn>"), "{svg}");
    }

    #[test]
    fn a_run_without_figures_or_with_zeroes_draws_without_nonsense() {
        assert!(charts(&run(Vec::new())).is_empty());
        let svg = &charts(&run(vec![row("slab", "none", "ns", 0.0), row("slab", "one", "ns", 1.0)]))[0].svg;
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
    }
}
