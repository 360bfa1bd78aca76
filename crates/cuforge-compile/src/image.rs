//! From an artifact to the image that a driver is handed: which form it takes, and why, in one line.

use std::sync::Arc;

use cuforge_core::{CompileRequest, ModuleImage};

use crate::artifact::{self, Artifact};
use crate::error::CompileError;
use crate::policy::newest_ptx_for;
use crate::ptx_floor;
use crate::ptx_header::{PtxHeader, PtxVersion};
use crate::store::rejects::Rejects;

/// Links PTX for an architecture in user space; answers `None` where there is no linker, which shows when it is asked.
pub(crate) type Link<'a> = &'a dyn Fn(&str, &str) -> Option<Result<Artifact, CompileError>>;

/// What an image is chosen from.
#[derive(Clone, Copy)]
pub(crate) struct Choice<'a> {
    pub(crate) request: &'a CompileRequest,
    pub(crate) artifact: &'a Artifact,
    /// What was built, in words: `sm_90: sm_90 is listed`.
    pub(crate) built: &'a str,
    /// Name and version of the compiler.
    pub(crate) compiler: &'a str,
    pub(crate) rejects: &'a Rejects,
    pub(crate) link: Link<'a>,
}

/// Picks the best form that no driver of this kind has refused: the cubin with its PTX kept beside it; else the PTX as
/// it is, if the driver is new enough; else a cubin linked from it; else the PTX with a lower version, where nothing in
/// it needs the higher one.
pub(crate) fn choose(choice: Choice<'_>) -> Result<ModuleImage, CompileError> {
    let Choice { request, artifact, built, .. } = choice;
    let mut tried = Vec::new();
    if let Some(cubin) = &artifact.cubin {
        let form = format!("cubin with PTX kept, built for {built}");
        if let Some(image) = choice.accept(Some(Arc::clone(cubin)), artifact.ptx.clone(), &form, &mut tried) {
            return Ok(image);
        }
    }
    let Some(ptx) = &artifact.ptx else {
        return Err(CompileError::Unloadable { target: request.target.to_string(), tried });
    };
    let header = PtxHeader::parse(ptx)?;
    let newest = request.target.driver.map(|driver| (driver, newest_ptx_for(driver)));
    let too_new = newest.filter(|(_, newest)| newest.is_none_or(|newest| header.version > newest));
    match too_new {
        None => {
            let form = format!("PTX {} left as it is, for {built}", header.version);
            if let Some(image) = choice.accept(None, Some(Arc::clone(ptx)), &form, &mut tried) {
                return Ok(image);
            }
        }
        Some((driver, _)) => {
            tried.push(format!("PTX {} is newer than a CUDA {driver} driver loads", header.version));
        }
    }
    if let Some(image) = choice.linked(ptx, &mut tried) {
        return Ok(image);
    }
    if let Some((_, Some(newest))) = too_new
        && let Some(image) = choice.lowered(ptx, &header, newest, &mut tried)
    {
        return Ok(image);
    }
    Err(CompileError::Unloadable { target: request.target.to_string(), tried })
}

impl Choice<'_> {
    fn linked(&self, ptx: &Arc<str>, tried: &mut Vec<String>) -> Option<ModuleImage> {
        let target = self.request.target.to_string();
        match (self.link)(ptx, &target) {
            None => tried.push("there is no nvJitLink to link it with".to_owned()),
            Some(Err(error)) => tried.push(format!("linking it failed: {error}")),
            Some(Ok(linked)) => {
                let form = format!("cubin linked in user space for {target}");
                let mut image = self.accept(linked.cubin, Some(Arc::clone(ptx)), &form, tried)?;
                image.log.push_str(&linked.log);
                return Some(image);
            }
        }
        None
    }

    fn lowered(
        &self,
        ptx: &str,
        header: &PtxHeader,
        newest: PtxVersion,
        tried: &mut Vec<String>,
    ) -> Option<ModuleImage> {
        match ptx_floor::floor(header, ptx) {
            Ok(floor) if floor <= newest => {
                let (start, end) = header.version_span;
                let text = format!("{}{newest}{}", &ptx[..start], &ptx[end..]);
                let form = format!(
                    "PTX lowered from {} to {newest} (nothing in it needs more than {floor})",
                    header.version
                );
                return self.accept(None, Some(text.into()), &form, tried);
            }
            Ok(floor) => tried.push(format!("it needs PTX {floor}, and the driver loads {newest}")),
            Err(word) => tried.push(format!("it is not lowered, because {word:?} is not known to be old")),
        }
        None
    }

    /// The image, unless a driver of this kind has refused it.
    fn accept(
        &self,
        cubin: Option<Arc<[u8]>>,
        ptx: Option<Arc<str>>,
        form: &str,
        tried: &mut Vec<String>,
    ) -> Option<ModuleImage> {
        let Self { request, artifact, .. } = self;
        // Code as it was compiled has its digest already.
        let digest = match (&cubin, &ptx) == (&artifact.cubin, &artifact.ptx) {
            true => artifact.digest,
            false => artifact::digest(cubin.as_deref(), ptx.as_deref()),
        };
        if self.rejects.contains(digest, &request.target) {
            tried.push(format!("{form}: a driver refused it"));
            return None;
        }
        let before =
            if tried.is_empty() { String::new() } else { format!("; before that: {}", tried.join("; ")) };
        let names = request.options.name_expressions.iter().cloned();
        Some(ModuleImage {
            cubin,
            ptx,
            entry_points: artifact.entry_points.clone(),
            lowered_names: names.zip(artifact.lowered.iter().cloned()).collect(),
            target: request.target,
            decision: format!("{form}{before}"),
            compiler: self.compiler.to_owned(),
            log: artifact.log.clone(),
            digest,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::stats::Counters;
    use cuforge_core::{ComputeCapability, DriverVersion, Target};

    const PTX_9_5: &str = ".version 9.5\n.target sm_90\n.visible .entry k() { ret; }";

    fn request(driver: Option<(u16, u16)>) -> CompileRequest {
        let mut target = Target::new(ComputeCapability::from_sm(90));
        target.driver = driver.map(|(major, minor)| DriverVersion { major, minor });
        CompileRequest::cuda_c("k.cu", "", target)
    }

    fn artifact(cubin: bool, ptx: &str) -> Artifact {
        Artifact::of(cubin.then(|| Arc::from(&b"cubin"[..])), Some(ptx.into()))
    }

    const NO_LINKER: Link<'static> = &|_, _| None;

    fn pick(
        request: &CompileRequest,
        artifact: &Artifact,
        rejects: &Rejects,
        link: Link<'_>,
    ) -> Result<ModuleImage, CompileError> {
        choose(Choice { request, artifact, built: "sm_90", compiler: "NVRTC 13.5", rejects, link })
    }

    fn no_rejects() -> Rejects {
        Rejects::new(None, Arc::new(Counters::default()))
    }

    #[test]
    fn a_cubin_has_no_version_gate_and_comes_first() {
        let image =
            pick(&request(Some((12, 4))), &artifact(true, PTX_9_5), &no_rejects(), NO_LINKER).unwrap();
        assert!(image.cubin.is_some() && image.ptx.is_some());
        assert!(image.decision.starts_with("cubin with PTX kept"), "{}", image.decision);
    }

    #[test]
    fn ptx_that_fits_the_driver_is_left_as_it_is() {
        for driver in [None, Some((13, 5))] {
            let image = pick(&request(driver), &artifact(false, PTX_9_5), &no_rejects(), NO_LINKER).unwrap();
            assert_eq!(image.ptx.as_deref(), Some(PTX_9_5));
        }
    }

    #[test]
    fn ptx_newer_than_the_driver_is_linked_else_lowered_only_as_far_as_it_may() {
        let old = request(Some((12, 4)));
        let link = |_: &str, arch: &str| {
            assert_eq!(arch, "sm_90");
            Some(Ok(Artifact {
                log: "link log".into(),
                ..Artifact::of(Some(Arc::from(&b"linked"[..])), None)
            }))
        };
        let image = pick(&old, &artifact(false, PTX_9_5), &no_rejects(), &link).unwrap();
        assert_eq!((image.cubin.as_deref(), image.log.as_str()), (Some(&b"linked"[..]), "link log"));
        let image = pick(&old, &artifact(false, PTX_9_5), &no_rejects(), NO_LINKER).unwrap();
        assert!(image.ptx.as_deref().unwrap().starts_with(".version 8.4\n"), "{:?}", image.ptx);
        assert!(image.decision.contains("lowered from 9.5 to 8.4"), "{}", image.decision);
        let new = PTX_9_5.replace("ret;", "atom.global.add.v2.f32 {%f1, %f2}, [%rd1], {%f3, %f4};");
        let error =
            pick(&request(Some((12, 0))), &artifact(false, &new), &no_rejects(), NO_LINKER).unwrap_err();
        assert!(error.to_string().contains("needs PTX 8.1"), "{error}");
        let unknown = PTX_9_5.replace("ret;", "brand.new.b32 %r1;");
        let error = pick(&old, &artifact(false, &unknown), &no_rejects(), NO_LINKER).unwrap_err();
        assert!(error.to_string().contains("brand"), "{error}");
    }

    #[test]
    fn a_low_version_is_never_raised() {
        let text = ".version 6.3\n.target sm_75\n.entry k() { ret; }";
        let image = pick(&request(Some((13, 0))), &artifact(false, text), &no_rejects(), NO_LINKER).unwrap();
        assert_eq!(image.ptx.as_deref(), Some(text));
    }

    #[test]
    fn what_a_driver_refused_is_not_offered_to_its_kind_again_and_the_reason_is_told() {
        let (rejects, made) = (no_rejects(), artifact(true, PTX_9_5));
        let target = request(Some((13, 5)));
        let first = pick(&target, &made, &rejects, NO_LINKER).unwrap();
        rejects.add(first.digest, &first.target, "invalid image");
        let second = pick(&target, &made, &rejects, NO_LINKER).unwrap();
        assert!(second.cubin.is_none() && second.ptx.is_some());
        assert!(second.decision.contains("a driver refused it"), "{}", second.decision);
        let elsewhere = pick(&request(Some((13, 6))), &made, &rejects, NO_LINKER).unwrap();
        assert_eq!(elsewhere.digest, first.digest);
        rejects.add(second.digest, &second.target, "invalid ptx");
        let error = pick(&target, &made, &rejects, NO_LINKER).unwrap_err();
        assert!(matches!(error, CompileError::Unloadable { .. }), "{error}");
    }
}
