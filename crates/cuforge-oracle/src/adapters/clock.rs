//! The clock rate of a CUDA device, counted by a kernel: the driver tells the highest rate only.
#![allow(unsafe_code, reason = "specs of raw kernels are made by unsafe functions; see the SAFETY comment")]

use cuforge::launch::Pipeline;
use cuforge::{Session, SessionError};
use cuforge_core::{
    Access, Arguments, BufferView, BuildOptions, DeclaredBlock, Element, Extent, KernelSpec, Lifetime,
    Parameter, Request, Schedule,
};

/// Cycles and nanoseconds.
const COUNTS: u64 = 2;

/// Counts a multiprocessor's cycles over 20 microseconds. Made at the first question: a module and 16 resident bytes.
#[derive(Default)]
pub(super) struct ClockProbe {
    made: Option<(Pipeline, BufferView)>,
}

impl ClockProbe {
    /// Cycles a second, right now; waits for the session's stream.
    pub(super) fn hz(&mut self, session: &mut Session) -> Result<Option<u64>, SessionError> {
        let (pipeline, counts) = match &self.made {
            Some(made) => made,
            None => self.made.insert(make(session)?),
        };
        let views =
            [counts.bound_to(0, 0, Access::StorageReadWrite).map_err(cuforge::launch::LaunchError::from)?];
        session.run_pipeline(pipeline, Arguments { views: &views, by_value: &[] }, Extent::Elements(1))?;
        let [cycles, nanoseconds] = session.read_vec::<u64>(counts)?[..] else { return Ok(None) };
        Ok((u128::from(cycles) * 1_000_000_000)
            .checked_div(nanoseconds.into())
            .and_then(|hz| u64::try_from(hz).ok()))
    }
}

fn make(session: &mut Session) -> Result<(Pipeline, BufferView), SessionError> {
    let schedule = Schedule::new([1, 1, 1]);
    let parameters = vec![Parameter::buffer("counts", 0, Element::U64, Access::StorageReadWrite)];
    let text = include_str!("../../kernels/clock_probe.ptx");
    // SAFETY: its one thread writes two words, which the view that it is bound to has.
    let spec = unsafe { KernelSpec::ptx("clock_probe", "clock_probe", text, parameters) };
    let block = DeclaredBlock { workgroup_size: [1, 1, 1], items_per_invocation: 1 };
    let spec = spec.with_declared_blocks(vec![block]);
    let pipeline = session.prepare(&spec, &schedule, &BuildOptions::default())?;
    let request = Request { lifetime: Lifetime::Resident, ..Request::new(COUNTS * 8) };
    let request = request.with_access(Access::StorageReadWrite);
    Ok((pipeline, session.allocate(&request)?))
}
