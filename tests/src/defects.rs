//! The planted defects under `defects/`: corpus kernels with a bug, each a patch of a few lines with a head that says
//! what is wrong.
//!
//! A file lies in the folder of its kind and reads
//!
//! ```text
//! kernel: gemm
//! schedule: 2
//! shape: 40x50x24
//! wrong: Rows of b are taken to be k words long; they are n words long.
//! @@
//! -                b[k * uniform.n + column]
//! +                b[k * uniform.k + column]
//! ```
//!
//! `form: PTX` says that the patch is one of the hand-written PTX; `race: ..` that the bug shows on a GPU only when the
//! race it opens is lost, and how it would. A hunk's unchanged and removed lines must occur in the kernel exactly once.

use std::env;
use std::error::Error;
use std::fs;
use std::path::Path;

use cuforge_core::KernelSpec;
use cuforge_oracle::Case;
use cuforge_oracle::corpus::{self, CorpusKernel, Form, Shape};

/// The kinds of defects, each a folder.
pub const KINDS: [&str; 10] = [
    "aliasing",
    "bounds",
    "constants",
    "dtype",
    "index",
    "masks",
    "order",
    "precision",
    "sync",
    "uninitialised",
];

/// One planted defect.
#[derive(Clone, Debug)]
pub struct Defect {
    /// Kind and file, such as `index/gemm_leading_dimension`.
    pub name: String,
    /// One of [`KINDS`].
    pub kind: &'static str,
    /// The corpus kernel that it is a variant of.
    pub kernel: CorpusKernel,
    /// The form that is patched.
    pub form: Form,
    /// Which of the form's schedules shows it.
    pub schedule: usize,
    /// The shape that shows it.
    pub shape: Shape,
    /// One sentence that says what is wrong.
    pub wrong: String,
    /// The race that has to be lost on a GPU before it shows there; none for a bug that always does.
    pub race: Option<String>,
    hunks: Vec<Hunk>,
}

/// Lines to be found in the kernel, and what takes their place.
#[derive(Clone, Debug, Default)]
struct Hunk {
    from: Vec<String>,
    to: Vec<String>,
    /// Lines that are not the same in both.
    changed: usize,
}

/// All defects, by name.
///
/// # Errors
/// A folder or file cannot be read, lies in a folder that is no kind, or its text is no defect.
pub fn all() -> Result<Vec<Defect>, Box<dyn Error>> {
    // An archive for machines without the repository carries them too.
    let home = env::var_os("CUFORGE_ARCHIVE").unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
    let root = Path::new(&home).join("defects");
    let mut defects = Vec::new();
    for folder in fs::read_dir(&root)? {
        let folder = folder?.path();
        let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let kind = KINDS.into_iter().find(|kind| *kind == name);
        let kind = kind.ok_or_else(|| format!("{} is no kind of defect", folder.display()))?;
        for entry in fs::read_dir(&folder)? {
            let path = entry?.path();
            let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            let parsed = Defect::parse(kind, &stem, &fs::read_to_string(&path)?);
            defects.push(parsed.map_err(|reason| format!("{}: {reason}", path.display()))?);
        }
    }
    defects.sort_by(|left, right| left.name.cmp(&right.name));
    Ok(defects)
}

impl Defect {
    fn parse(kind: &'static str, stem: &str, text: &str) -> Result<Self, String> {
        let head = text.split("\n@@").next().unwrap_or_default();
        let optional = |key: &str| {
            let mark = format!("{key}: ");
            head.lines().find_map(|line| line.strip_prefix(&mark)).map(str::to_owned)
        };
        let line = |key: &str| optional(key).ok_or_else(|| format!("its head has no `{key}`"));
        let kernel = line("kernel")?;
        let form = match optional("form").as_deref() {
            None => Form::CudaC,
            Some("PTX") => Form::WrittenPtx,
            Some(other) => return Err(format!("its form `{other}` is not PTX")),
        };
        Ok(Self {
            name: format!("{kind}/{stem}"),
            kind,
            kernel: corpus::find(&kernel).ok_or_else(|| format!("there is no kernel `{kernel}`"))?,
            form,
            schedule: line("schedule")?
                .parse()
                .map_err(|error| format!("its schedule is no number: {error}"))?,
            shape: line("shape")?.parse().map_err(|error| format!("its shape: {error}"))?,
            wrong: line("wrong")?,
            race: optional("race"),
            hunks: hunks(&text[head.len()..])?,
        })
    }

    /// How many lines differ from the kernel's.
    #[must_use]
    pub fn changed_lines(&self) -> usize {
        self.hunks.iter().map(|hunk| hunk.changed).sum()
    }

    /// The defective text.
    ///
    /// # Errors
    /// The kernel lacks the form, or does not hold the lines of a hunk exactly once.
    pub fn source(&self) -> Result<String, String> {
        let text = match self.form {
            Form::CudaC => self.kernel.source(),
            form => self.kernel.ptx(form).ok_or("its kernel lacks the form")?,
        };
        let mut lines: Vec<&str> = text.lines().collect();
        for hunk in &self.hunks {
            let starts = |at: &usize| lines[*at..].iter().zip(&hunk.from).all(|(line, from)| line == from);
            let mut places = (0..(lines.len() + 1).saturating_sub(hunk.from.len())).filter(starts);
            let (Some(place), None) = (places.next(), places.next()) else {
                return Err(format!("{}: its kernel does not hold exactly once: {:?}", self.name, hunk.from));
            };
            lines.splice(place..place + hunk.from.len(), hunk.to.iter().map(String::as_str));
        }
        Ok(lines.join("\n") + "\n")
    }

    /// The case that shows it: the kernel's own, with the defective text in the kernel's place.
    ///
    /// # Safety
    /// Nothing can be promised of what a defect reads and writes. Run the case on the simulated device, whose memory is
    /// no memory of this process and whose every access is checked, or on a GPU from a process that does nothing else.
    ///
    /// # Errors
    /// As [`source`](Self::source); the kernel has no such schedule; the shape does not fit.
    #[allow(unsafe_code, reason = "a defect is raw device code; the contract is the caller's")]
    pub unsafe fn case(&self) -> Result<Case, String> {
        let (kernel, source) = (&self.kernel, self.source()?);
        let schedules = kernel.schedules(self.form);
        let schedule = schedules.get(self.schedule).ok_or("there is no such schedule")?;
        let (name, parameters) = (self.name.replace('/', "_"), kernel.parameters());
        let spec = match self.form {
            // SAFETY: the caller's.
            Form::CudaC => unsafe { KernelSpec::cuda_c(name, kernel.name(), source, parameters) },
            form => {
                let blocks = kernel.spec(form).map(|spec| spec.declared_blocks().to_vec());
                // SAFETY: the caller's.
                let spec = unsafe { KernelSpec::ptx(name, kernel.name(), source, parameters) };
                spec.with_declared_blocks(blocks.unwrap_or_default())
            }
        };
        kernel.case_for(spec, &self.shape, schedule).map_err(|error| error.to_string())
    }

    /// The same case of the kernel as it should be.
    ///
    /// # Errors
    /// The kernel has no such schedule; the shape does not fit.
    pub fn case_without(&self) -> Result<Case, String> {
        let schedules = self.kernel.schedules(self.form);
        let schedule = schedules.get(self.schedule).ok_or("there is no such schedule")?;
        self.kernel.case(self.form, &self.shape, schedule).map_err(|error| error.to_string())
    }
}

fn hunks(text: &str) -> Result<Vec<Hunk>, String> {
    let mut hunks: Vec<Hunk> = Vec::new();
    for line in text.lines().skip(1) {
        if line == "@@" {
            hunks.push(Hunk::default());
            continue;
        }
        let hunk = hunks.last_mut().ok_or("its patch does not begin with `@@`")?;
        // Editors drop the blank of an empty line that is not changed.
        let (mark, rest) = line.split_at_checked(1).unwrap_or((" ", ""));
        match mark {
            " " => {
                hunk.from.push(rest.to_owned());
                hunk.to.push(rest.to_owned());
            }
            "-" => hunk.from.push(rest.to_owned()),
            "+" => hunk.to.push(rest.to_owned()),
            _ => return Err(format!("a line of its patch begins with `{mark}`")),
        }
        hunk.changed += usize::from(mark != " ");
    }
    if hunks.is_empty() || hunks.iter().any(|hunk| hunk.changed == 0) {
        return Err("its patch changes nothing".to_owned());
    }
    Ok(hunks)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "kernel: affine\nschedule: 0\nshape: 7\nwrong: x\n";

    fn parse(patch: &str) -> Result<Defect, String> {
        Defect::parse("index", "x", &format!("{HEAD}{patch}"))
    }

    #[test]
    fn a_patch_replaces_the_one_place_that_holds_its_lines() {
        let defect = parse("@@\n-        if (i < uniform.n) {\n+        if (i <= uniform.n) {\n").unwrap();
        let (right, wrong) = (defect.kernel.source().to_owned(), defect.source().unwrap());
        assert_eq!(wrong, right.replace("i < uniform.n", "i <= uniform.n"));
        assert_eq!(defect.changed_lines(), 2);
    }

    #[test]
    fn a_place_that_is_not_there_or_there_twice_is_refused() {
        assert!(parse("@@\n-no such line\n").unwrap().source().is_err());
        assert!(parse("@@\n-    }\n-}\n+\n").unwrap().source().is_ok());
        assert!(parse("@@\n-\n").unwrap().source().is_err(), "there are several empty lines");
    }

    #[test]
    fn a_text_without_a_change_or_with_half_a_head_is_no_defect() {
        assert!(parse("").is_err() && parse("@@\n context\n").is_err() && parse("@@\nx\n").is_err());
        assert!(Defect::parse("index", "x", "kernel: affine\n@@\n-x\n").is_err());
        assert!(Defect::parse("index", "x", &HEAD.replace("affine", "none")).is_err());
    }
}
