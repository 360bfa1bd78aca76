//! NVTX ranges around launches, copies and waits, for profilers: under the feature `nvtx`, and nothing without it.

/// What a range is called, known to the profiler once.
pub(crate) struct Name {
    #[cfg(feature = "nvtx")]
    registered: nvtx::domain::RegisteredString<'static>,
}

/// Open until it is dropped, on the thread that opened it.
#[must_use = "it ends when it is dropped"]
pub(crate) struct Entered {
    #[cfg(feature = "nvtx")]
    _range: nvtx::domain::LocalRange<'static>,
}

#[cfg(feature = "nvtx")]
impl Name {
    /// In the domain `cuforge`.
    pub(crate) fn new(text: &str) -> Self {
        Self { registered: domain().register_string(nvtx::Str::from_str_lossy(text)) }
    }

    /// Opens a range. No allocation; without a profiler a test of one pointer.
    pub(crate) fn enter(&self) -> Entered {
        Entered { _range: domain().local_range(self.registered) }
    }
}

#[cfg(feature = "nvtx")]
fn domain() -> &'static nvtx::Domain {
    static DOMAIN: std::sync::OnceLock<nvtx::Domain> = std::sync::OnceLock::new();
    DOMAIN.get_or_init(|| nvtx::Domain::new(c"cuforge"))
}

#[cfg(not(feature = "nvtx"))]
impl Name {
    pub(crate) const fn new(_: &str) -> Self {
        Self {}
    }

    pub(crate) const fn enter(&self) -> Entered {
        Entered {}
    }
}

/// A range called `$name` until the end of the block.
#[cfg(feature = "nvtx")]
macro_rules! range {
    ($name:literal) => {
        let _range = {
            static NAME: std::sync::OnceLock<crate::ranges::Name> = std::sync::OnceLock::new();
            NAME.get_or_init(|| crate::ranges::Name::new($name)).enter()
        };
    };
}

#[cfg(not(feature = "nvtx"))]
macro_rules! range {
    ($name:literal) => {};
}

pub(crate) use range;
