//! Where a session's images come from: a compiler brought in, or NVRTC once CUDA C is first met.

use crate::error::SessionError;
use cuforge_compile::{Bundle, CacheOptions, CompileError, Compiler, SearchPaths};
use cuforge_core::{KernelCompiler, KernelSpec};
use std::path::PathBuf;
use std::sync::Arc;

/// Where images come from.
pub(crate) struct Code {
    compiler: Option<Arc<dyn KernelCompiler>>,
    search_paths: SearchPaths,
    cache_folder: Option<PathBuf>,
    bundle: Option<PathBuf>,
}

impl Code {
    pub(crate) fn new(
        compiler: Option<Arc<dyn KernelCompiler>>,
        search_paths: SearchPaths,
        cache_folder: Option<PathBuf>,
        bundle: Option<PathBuf>,
    ) -> Self {
        Self { compiler, search_paths, cache_folder, bundle }
    }

    /// The compiler; looked for when it is first needed, so that PTX alone needs none.
    pub(crate) fn compiler(&mut self, kernel: &KernelSpec) -> Result<&Arc<dyn KernelCompiler>, SessionError> {
        let found = match self.compiler.take() {
            Some(compiler) => compiler,
            None => {
                let missing = |source| SessionError::NoCompiler { kernel: kernel.id().to_owned(), source };
                Arc::new(self.find().map_err(missing)?)
            }
        };
        Ok(self.compiler.insert(found))
    }

    /// NVRTC with the cache, and the bundle before it; where there is no NVRTC, the bundle alone.
    fn find(&self) -> Result<Compiler, CompileError> {
        let bundle = self.bundle.as_ref().map(Bundle::open).transpose()?;
        let cache = match &self.cache_folder {
            Some(folder) => CacheOptions::in_folder(folder),
            None => CacheOptions::default(),
        };
        match (Compiler::find_with(&self.search_paths, cache.clone()), bundle) {
            (Ok(compiler), None) => Ok(compiler),
            (Ok(compiler), Some(bundle)) => Ok(compiler.with_bundle(bundle)),
            (Err(_), Some(bundle)) => Ok(Compiler::from_bundle(bundle)?.with_cache(cache)),
            (Err(error), None) => Err(error),
        }
    }
}
