//! The compiler that the other crates use: requests in, module images out, each made once.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use cuforge_core::{CompileFailure, CompileRequest, KernelCompiler, Language, ModuleImage};

use crate::artifact::Artifact;
use crate::cache::CacheOptions;
use crate::deferred::{self, Best};
use crate::engine::{Engine, Limits, Output};
use crate::error::CompileError;
use crate::headers::{HeaderCheck, Headers};
use crate::image::{self, Choice};
use crate::job::{self, HeaderSource, Plan};
use crate::linker::{Linker, OnDemand};
use crate::locate::SearchPaths;
use crate::nvrtc::Nvrtc;
use crate::options;
use crate::ptx_header::PtxHeader;
use crate::record::{self, Record};
use crate::store::bundle::{Bundle, BundleReport, EntryInfo, Offline};
use crate::store::disk::Disk;
use crate::store::flight::Flights;
use crate::store::memory::Memory;
use crate::store::rejects::Rejects;
use crate::store::stats::{CacheStats, Counters};
use crate::store::sweep::Swept;

/// Compiles CUDA C with an [`Engine`], checks hand-written PTX, and keeps what it made.
///
/// A request is answered from memory, else from disk, else compiled; threads that ask for the same thing at the same
/// time share one compilation. The cache never makes a request fail, and never answers it with what was made for another.
///
/// ```no_run
/// use cuforge_compile::{Compiler, SearchPaths};
/// use cuforge_core::{CompileRequest, ComputeCapability, KernelCompiler, Target};
///
/// let compiler = Compiler::find(&SearchPaths::default())?;
/// let target = Target::new(ComputeCapability { major: 9, minor: 0 });
/// let source = "extern \"C\" __global__ void one(float *x) { *x = 1.0f; }";
/// let image = compiler.compile(&CompileRequest::cuda_c("one.cu", source, target))?;
/// assert_eq!(image.entry_points, ["one"]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Compiler {
    engine: Arc<dyn Engine>,
    /// Name and version of the engine as images carry it.
    name: String,
    /// Header folders that belong to the engine.
    include_dirs: Vec<PathBuf>,
    limits: Limits,
    linker: OnDemand,
    bundle: Option<Bundle>,
    /// Whether header files are those that a bundle stands for.
    vouched: bool,
    headers: Headers,
    memory: Memory,
    disk: Option<Disk>,
    rejects: Rejects,
    counters: Arc<Counters>,
    flights: Flights<Arc<CompileRequest>, Result<Arc<ModuleImage>, CompileError>>,
    /// What compiles in place of an engine that was known and then could not be loaded.
    instead: Option<Instead>,
}

/// The compiler of a new search.
#[derive(Debug)]
struct Instead {
    paths: SearchPaths,
    cache: CacheOptions,
    made: OnceLock<Result<Box<Compiler>, CompileError>>,
}

/// A request whose place in memory is known: asking again costs one lock and one comparison.
///
/// It belongs to the compiler that made it; another one takes it too, and merely finds nothing by it at first.
///
/// ```
/// use cuforge_compile::PreparedRequest;
/// fn is_shareable<T: Send + Sync + Clone>() {}
/// is_shareable::<PreparedRequest>();
/// ```
#[derive(Clone, Debug)]
pub struct PreparedRequest {
    request: Arc<CompileRequest>,
    hash: u64,
}

impl Compiler {
    /// With the best NVRTC that a search finds, the headers and the nvJitLink that belong to it, and the default cache.
    ///
    /// # Errors
    ///
    /// As [`Nvrtc::find`].
    pub fn find(paths: &SearchPaths) -> Result<Self, CompileError> {
        Self::find_with(paths, CacheOptions::default())
    }

    /// As [`find`](Self::find), with this cache.
    ///
    /// A folder remembers which NVRTC is which, by the builds of its files. So a process whose requests are all answered
    /// from disk loads none (that would take tens of milliseconds and 100 MB); one that has to compile loads it then.
    /// An NVRTC whose only headers are in itself is loaded at once.
    ///
    /// # Errors
    ///
    /// As [`Nvrtc::find`].
    pub fn find_with(paths: &SearchPaths, cache: CacheOptions) -> Result<Self, CompileError> {
        let Some(folder) = &cache.folder else {
            return Ok(Self::with_nvrtc_in(Nvrtc::find(paths)?, cache));
        };
        match deferred::best(paths, &Disk::compiler_notes(folder))? {
            Best::Loaded(nvrtc) => Ok(Self::with_nvrtc_in(nvrtc, cache)),
            Best::Deferred(known) => {
                let (dirs, linker) =
                    (known.candidate().includes.clone(), known.candidate().nvjitlink.clone());
                let instead = Instead { paths: paths.clone(), cache: cache.clone(), made: OnceLock::new() };
                let compiler = Self::with_engine(known, dirs).with_cache(cache);
                Ok(Self { linker: OnDemand::at(linker), instead: Some(instead), ..compiler })
            }
        }
    }

    /// With this NVRTC, the headers and the nvJitLink that belong to it, and the default cache.
    ///
    /// Where no header folder belongs to it and it carries CUDA's headers in itself (13.3 and later), they are unpacked
    /// once into the cache folder (21 MB, 150 ms).
    pub fn with_nvrtc(nvrtc: Nvrtc) -> Self {
        Self::with_nvrtc_in(nvrtc, CacheOptions::default())
    }

    fn with_nvrtc_in(nvrtc: Nvrtc, cache: CacheOptions) -> Self {
        let nvrtc = with_headers(nvrtc, cache.folder.as_deref());
        let (dirs, linker) = (nvrtc.include_dirs().to_vec(), nvrtc.candidate().nvjitlink.clone());
        let compiler = Self::with_engine(Arc::new(nvrtc), dirs).with_cache(cache);
        Self { linker: OnDemand::at(linker), ..compiler }
    }

    /// With any engine and a cache in memory; `include_dirs` are searched for headers after those of a request.
    pub fn with_engine(engine: Arc<dyn Engine>, include_dirs: Vec<PathBuf>) -> Self {
        let identity = engine.identity();
        let kind = if identity.kind == "nvrtc" { "NVRTC" } else { &identity.kind };
        let name = format!("{kind} {}.{}", identity.version.0, identity.version.1);
        let counters = Arc::new(Counters::default());
        Self {
            name,
            engine,
            include_dirs,
            limits: Limits::default(),
            linker: OnDemand::default(),
            bundle: None,
            vouched: false,
            headers: Headers::new(HeaderCheck::Once, None),
            memory: Memory::new(0, Arc::clone(&counters)),
            disk: None,
            rejects: Rejects::new(None, Arc::clone(&counters)),
            counters,
            flights: Flights::new(),
            instead: None,
        }
        .with_cache(CacheOptions::memory_only())
    }

    /// Without a compiler: only what the bundle holds can be had, header files included, whatever this machine has.
    ///
    /// # Errors
    ///
    /// [`CompileError::Bundle`] if the bundle was made by no compiler or by several: choose one with
    /// [`Bundle::with_only`].
    pub fn from_bundle(bundle: Bundle) -> Result<Self, CompileError> {
        let engine: Arc<dyn Engine> = Arc::new(Offline::of(&bundle)?);
        Ok(Self { vouched: true, ..Self::with_engine(engine, Vec::new()).with_bundle(bundle) })
    }

    /// With another cache; what was kept in memory is forgotten.
    #[must_use]
    pub fn with_cache(mut self, options: CacheOptions) -> Self {
        if let Some(instead) = &mut self.instead {
            instead.cache = options.clone();
        }
        let counters = &self.counters;
        self.disk = options
            .folder
            .as_deref()
            .map(|folder| Disk::new(folder, options.disk_bytes, options.locator, Arc::clone(counters)));
        self.rejects = Rejects::new(self.disk.as_ref().map(Disk::root), Arc::clone(counters));
        self.memory = Memory::new(options.memory_bytes, Arc::clone(counters));
        self.headers = Headers::new(options.header_check, self.disk.as_ref().map(Disk::header_index));
        self
    }

    /// With bounds on every compilation.
    #[must_use]
    pub fn with_limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// With this nvJitLink, or none.
    #[must_use]
    pub fn with_linker(mut self, linker: Option<Linker>) -> Self {
        self.linker = linker.into();
        self
    }

    /// With a bundle that is asked before anything is compiled. It answers a request that reads header files only if
    /// these are the same, in the same places.
    #[must_use]
    pub fn with_bundle(mut self, bundle: Bundle) -> Self {
        self.bundle = Some(bundle);
        self
    }

    /// The engine.
    pub fn engine(&self) -> &dyn Engine {
        &*self.engine
    }

    /// The linker, if there is one; loaded when it is first asked for.
    pub fn linker(&self) -> Option<&Linker> {
        self.linker.get()
    }

    /// Header folders that belong to the engine.
    pub fn include_dirs(&self) -> &[PathBuf] {
        &self.include_dirs
    }

    /// Finds the place of a request in memory once, for requests that are asked again and again.
    pub fn prepare(&self, request: &CompileRequest) -> PreparedRequest {
        let hash = self.memory.hash(request);
        let stored = self.memory.interned(hash, request);
        PreparedRequest { request: stored.unwrap_or_else(|| Arc::new(request.clone())), hash }
    }

    /// The image of a prepared request. A hit in memory allocates nothing.
    ///
    /// # Errors
    ///
    /// As [`Compiler::image`].
    pub fn prepared_image(&self, prepared: &PreparedRequest) -> Result<Arc<ModuleImage>, CompileError> {
        match self.remembered(prepared.hash, &prepared.request) {
            Some(image) => Ok(image),
            None => self.missed(prepared.hash, &prepared.request),
        }
    }

    /// As [`KernelCompiler::compile`], with this crate's own errors. A hit in memory allocates nothing.
    ///
    /// # Errors
    ///
    /// Any [`CompileError`].
    pub fn image(&self, request: &CompileRequest) -> Result<Arc<ModuleImage>, CompileError> {
        let hash = self.memory.hash(request);
        match self.remembered(hash, request) {
            Some(image) => Ok(image),
            None => self.missed(hash, &Arc::new(request.clone())),
        }
    }

    /// What the cache has done so far.
    pub fn stats(&self) -> CacheStats {
        self.counters.snapshot()
    }

    /// Bytes of images and requests in memory, about.
    pub fn memory_bytes(&self) -> u64 {
        self.memory.bytes()
    }

    /// The folder in which entries lie, if there is one.
    pub fn cache_folder(&self) -> Option<&Path> {
        self.disk.as_ref().map(Disk::root)
    }

    /// Forgets everything, in memory and on disk. Other processes that share the folder lose their entries too.
    pub fn clear(&self) -> Swept {
        self.memory.clear();
        self.disk.as_ref().map(Disk::clear).unwrap_or_default()
    }

    /// Brings the folder within its bound and removes what dead writers left and what was damaged.
    pub fn gc(&self) -> Swept {
        self.disk.as_ref().map(Disk::gc).unwrap_or_default()
    }

    /// Writes the entries on disk that `choose` takes into one file, for [`Compiler::import`] or
    /// [`Compiler::from_bundle`] elsewhere. Entries of other compilers that share the folder are offered too.
    ///
    /// # Errors
    ///
    /// [`CompileError::Bundle`] if there is no folder or the file cannot be written.
    pub fn export(
        &self,
        file: &Path,
        choose: &mut dyn FnMut(&EntryInfo) -> bool,
    ) -> Result<BundleReport, CompileError> {
        let disk = self.disk.as_ref().ok_or_else(|| no_folder(file))?;
        crate::store::bundle::export(disk, &*self.engine, file, choose)
    }

    /// Copies the entries of a bundle into the folder.
    ///
    /// # Errors
    ///
    /// [`CompileError::Bundle`] if there is no folder. Entries that cannot be written are counted, no error.
    pub fn import(&self, bundle: &Bundle) -> Result<BundleReport, CompileError> {
        let disk = self.disk.as_ref().ok_or_else(|| no_folder(bundle.path()))?;
        Ok(crate::store::bundle::import(disk, bundle))
    }

    fn remembered(&self, hash: u64, request: &CompileRequest) -> Option<Arc<ModuleImage>> {
        let (image, made_with) = self.memory.get(hash, request)?;
        if made_with.is_some() && self.headers.check() == HeaderCheck::EveryRequest {
            let now = job::headers_now(request, &self.headers, &self.include_dirs);
            if now != made_with {
                return None;
            }
        }
        Counters::one(&self.counters.memory_hits);
        tracing::trace!(name = request.name, digest = %image.digest, "memory hit");
        Some(image)
    }

    fn missed(&self, hash: u64, request: &Arc<CompileRequest>) -> Result<Arc<ModuleImage>, CompileError> {
        let (result, ours) = self.flights.run(request, || {
            // Another thread may have finished between our look and our start.
            match self.remembered(hash, request) {
                Some(image) => Ok(image),
                None => self.made(hash, request),
            }
        });
        if !ours {
            Counters::one(&self.counters.shared_flights);
        }
        result
    }

    fn made(&self, hash: u64, request: &Arc<CompileRequest>) -> Result<Arc<ModuleImage>, CompileError> {
        let span = tracing::debug_span!("compile", name = request.name, target = %request.target, compiler = self.name);
        let _inside = span.enter();
        let (image, headers, keep) = match request.language {
            Language::CudaC => match self.cuda_c(request) {
                Err(error @ CompileError::NvrtcUnusable { .. }) => {
                    return self.instead(error)?.image(request);
                }
                other => other?,
            },
            Language::Ptx => (self.ptx(request)?, None, true),
            _ => return Err(CompileError::Request("only CUDA C and PTX can be compiled")),
        };
        tracing::debug!(decision = image.decision, digest = %image.digest, "image ready");
        let image = Arc::new(image);
        if keep {
            self.memory.put(hash, request, &image, headers);
        }
        Ok(image)
    }

    /// The compiler of a new search, where the engine was known and could not be loaded; else the error.
    fn instead(&self, error: CompileError) -> Result<&Self, CompileError> {
        let Some(instead) = &self.instead else { return Err(error) };
        let made = instead.made.get_or_init(|| {
            tracing::warn!(%error, "the compiler that was known is not there any more: searching anew");
            let nvrtc = Nvrtc::find(&instead.paths)?;
            let compiler = Self::with_nvrtc_in(nvrtc, instead.cache.clone());
            Ok(Box::new(compiler.with_limits(self.limits.clone())))
        });
        made.as_deref().map_err(CompileError::clone)
    }

    fn cuda_c(
        &self,
        request: &CompileRequest,
    ) -> Result<(ModuleImage, Option<cuforge_core::Digest>, bool), CompileError> {
        let source = match self.vouched {
            true => HeaderSource::Vouched,
            false => HeaderSource::Folders(&self.headers, &self.include_dirs),
        };
        let plan = job::plan(request, &*self.engine, source)?;
        let artifact = match &plan.record {
            Ok(record) => match self.stored(record) {
                Some(artifact) => artifact,
                None => {
                    let artifact = self.compiled(request, &plan)?;
                    if let Some(disk) = &self.disk {
                        disk.put(record.bytes(), &artifact);
                    }
                    artifact
                }
            },
            Err(why) => {
                Counters::one(&self.counters.uncacheable);
                tracing::debug!(why, "not cached");
                self.compiled(request, &plan)?
            }
        };
        let built = format!("{}: {}", plan.architecture.name, plan.architecture.reason);
        let image = self.choose(request, &artifact, &built, &self.name)?;
        Ok((image, plan.headers, plan.record.is_ok() && !job::depends_on_place(request)))
    }

    /// From disk, else from the bundle.
    fn stored(&self, record: &Record) -> Option<Artifact> {
        let from_disk = self.disk.as_ref().and_then(|disk| disk.get(record.bytes()));
        let from_bundle = |bundle: &Bundle| match self.vouched {
            true => bundle.get_vouched(record.bytes()),
            false => bundle.get(record.bytes()),
        };
        let found = from_disk.or_else(|| self.bundle.as_ref().and_then(from_bundle));
        if found.is_some() {
            Counters::one(&self.counters.disk_hits);
            tracing::debug!("disk hit");
        }
        found
    }

    fn compiled(&self, request: &CompileRequest, plan: &Plan) -> Result<Artifact, CompileError> {
        Counters::one(&self.counters.misses);
        let start = std::time::Instant::now();
        let result = self.engine.run(&plan.job, &self.limits);
        let counter = if result.is_ok() { &self.counters.compiled } else { &self.counters.failed };
        Counters::one(counter);
        tracing::debug!(ok = result.is_ok(), elapsed_us = start.elapsed().as_micros(), "compiled");
        artifact(result.map_err(|error| options::placed(&request.name, error))?)
    }

    /// Hand-written PTX: the head is checked before any driver sees it, and the text is left alone where it fits.
    fn ptx(&self, request: &CompileRequest) -> Result<ModuleImage, CompileError> {
        let options = &request.options;
        let unused = [&options.defines.len(), &options.headers.len(), &options.name_expressions.len()];
        if unused.iter().any(|len| **len != 0) || !options.raw.is_empty() {
            return Err(CompileError::Request(
                "PTX takes no defines, headers, name expressions or raw options",
            ));
        }
        let header = PtxHeader::parse(&request.source)?;
        if let Some(why) = header.unfit(request.target.capability) {
            let reason = format!("target {} does not run on {}: {why}", header.target(), request.target);
            return Err(CompileError::Ptx { line: header.target_line, reason });
        }
        let built = format!("{} as written", header.target());
        let text = Some(Arc::clone(&request.source));
        let artifact = Artifact { entry_points: header.entry_points, ..Artifact::of(None, text) };
        self.choose(request, &artifact, &built, "hand-written PTX")
    }

    fn choose(
        &self,
        request: &CompileRequest,
        artifact: &Artifact,
        built: &str,
        compiler: &str,
    ) -> Result<ModuleImage, CompileError> {
        let link = |ptx: &str, architecture: &str| self.linked(&request.name, ptx, architecture);
        image::choose(Choice { request, artifact, built, compiler, rejects: &self.rejects, link: &link })
    }

    fn linked(&self, name: &str, ptx: &str, architecture: &str) -> Option<Result<Artifact, CompileError>> {
        self.linker.get().map(|linker| self.linked_by(linker, name, ptx, architecture))
    }

    fn linked_by(
        &self,
        linker: &Linker,
        name: &str,
        ptx: &str,
        architecture: &str,
    ) -> Result<Artifact, CompileError> {
        let record = Record::of_link(linker.identity(), architecture, ptx);
        if let Some(found) = self.stored(&record) {
            return Ok(found);
        }
        let (cubin, log) = linker.link(name, ptx, architecture)?;
        Counters::one(&self.counters.linked);
        let artifact = Artifact { log, ..Artifact::of(Some(cubin.into()), None) };
        if let Some(disk) = &self.disk {
            disk.put(record.bytes(), &artifact);
        }
        Ok(artifact)
    }
}

impl KernelCompiler for Compiler {
    fn compile(&self, request: &CompileRequest) -> Result<Arc<ModuleImage>, CompileFailure> {
        self.image(request).map_err(CompileFailure::from)
    }

    fn reject(&self, image: &ModuleImage, why: &str) {
        tracing::warn!(digest = %image.digest, target = %image.target, why, "image rejected by a driver");
        self.rejects.add(image.digest, &image.target, why);
        self.memory.forget(image.digest);
    }
}

/// NVRTC with its bundled headers, if it has no others and there is a place for them.
fn with_headers(nvrtc: Nvrtc, folder: Option<&Path>) -> Nvrtc {
    let Some(folder) = folder.filter(|_| nvrtc.include_dirs().is_empty() && nvrtc.has_bundled_headers())
    else {
        return nvrtc;
    };
    // One folder a build, so that versions never overwrite each other's headers.
    let name = record::locate(nvrtc.identity().build.as_bytes()).to_string();
    match nvrtc.clone().with_bundled_headers(&folder.join("headers").join(name)) {
        Ok(complete) => complete,
        Err(error) => {
            tracing::warn!(%error, "no CUDA headers: the bundled ones cannot be unpacked");
            nvrtc
        }
    }
}

fn artifact(output: Output) -> Result<Artifact, CompileError> {
    let entry_points = match &output.ptx {
        Some(ptx) => PtxHeader::parse(ptx)?.entry_points,
        None => Vec::new(),
    };
    Ok(Artifact {
        entry_points,
        lowered: output.lowered,
        log: options::placed_log(&output.log),
        ..Artifact::of(output.cubin.map(Into::into), output.ptx.map(Into::into))
    })
}

fn no_folder(file: &Path) -> CompileError {
    CompileError::Bundle { path: file.to_path_buf(), reason: "this compiler has no cache folder".to_owned() }
}
