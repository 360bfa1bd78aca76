//! The planted defects under `defects/`: wrong variants of corpus kernels, each with a head that says what is wrong.

use std::error::Error;
use std::fs;
use std::path::Path;

/// The classes of defects.
pub const CLASSES: [&str; 10] = [
    "guard",
    "tail",
    "index",
    "operand order",
    "missing barrier",
    "reduction identity",
    "precision",
    "stale read",
    "uninitialised shared memory",
    "wrong constant",
];

/// One planted defect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Defect {
    /// The file's name without its ending.
    pub name: String,
    /// One of [`CLASSES`].
    pub class: String,
    /// The corpus kernel that it is a variant of.
    pub kernel: String,
    /// Which of the kernel's schedules shows it.
    pub schedule: usize,
    /// The shape that shows it, as the corpus writes shapes.
    pub shape: String,
    /// One sentence that says what is wrong.
    pub wrong: String,
    /// The whole text.
    pub source: String,
}

/// All defects, by name.
///
/// # Errors
/// A file cannot be read, or its head lacks a line.
pub fn all() -> Result<Vec<Defect>, Box<dyn Error>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("defects");
    let mut defects = Vec::new();
    for entry in fs::read_dir(&folder)? {
        let path = entry?.path();
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let source = fs::read_to_string(&path)?;
        defects.push(parse(&name, source).map_err(|reason| format!("{}: {reason}", path.display()))?);
    }
    defects.sort_by(|left, right| left.name.cmp(&right.name));
    Ok(defects)
}

fn parse(name: &str, source: String) -> Result<Defect, String> {
    let line = |key: &str| {
        let mark = format!("// {key}: ");
        let found = source.lines().find_map(|line| line.strip_prefix(&mark));
        found.map(str::to_owned).ok_or_else(|| format!("its head has no `{key}`"))
    };
    Ok(Defect {
        name: name.to_owned(),
        class: line("class")?,
        kernel: line("kernel")?,
        schedule: line("schedule")?.parse().map_err(|error| format!("its schedule is no number: {error}"))?,
        shape: line("shape")?,
        wrong: line("wrong")?,
        source,
    })
}
