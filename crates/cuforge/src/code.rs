//! Where a session's images come from: a compiler brought in, or NVRTC once CUDA C is first met.

use crate::error::SessionError;
use cuforge_compile::{CacheOptions, Compiler, SearchPaths};
use cuforge_core::{KernelCompiler, KernelSpec};
use std::path::PathBuf;
use std::sync::Arc;

/// Where images come from.
pub(crate) struct Code {
    compiler: Option<Arc<dyn KernelCompiler>>,
    search_paths: SearchPaths,
    cache_folder: Option<PathBuf>,
}

impl Code {
    pub(crate) fn new(
        compiler: Option<Arc<dyn KernelCompiler>>,
        search_paths: SearchPaths,
        cache_folder: Option<PathBuf>,
    ) -> Self {
        Self { compiler, search_paths, cache_folder }
    }

    /// The compiler; looked for when it is first needed, so that PTX alone needs none.
    pub(crate) fn compiler(&mut self, kernel: &KernelSpec) -> Result<&Arc<dyn KernelCompiler>, SessionError> {
        let found = match self.compiler.take() {
            Some(compiler) => compiler,
            None => {
                let missing = |source| SessionError::NoCompiler { kernel: kernel.id().to_owned(), source };
                let compiler = Compiler::find(&self.search_paths).map_err(missing)?;
                Arc::new(match &self.cache_folder {
                    Some(folder) => compiler.with_cache(CacheOptions::in_folder(folder)),
                    None => compiler,
                })
            }
        };
        Ok(self.compiler.insert(found))
    }
}
