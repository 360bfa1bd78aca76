//! Launches: bound once and fired, unbound with sorted views, timed, and with attributes.

use crate::error::LaunchError;
use crate::ffi::{LaunchAttribute, LaunchConfig, RawStream, extra};
use crate::function;
use crate::graph_error::GraphError;
use crate::held::Held;
use crate::one_node::OneNode;
use crate::options::LaunchOptions;
use crate::pipeline::{Built, Pipeline, product};
use crate::ranges::range;
use crate::slab::Slab;
use crate::stream::Stream;
use crate::submit::Submit;
use crate::submit::sealed::{Launched, Origin};
use cuforge_core::{Arguments, Elapsed, ElapsedSource, Extent, LaunchGeometry};
use std::fmt;
use std::ptr;
use std::sync::Arc;

/// A kernel with its arguments, checked, packed and pinned: launching it is one driver call and no allocation.
///
/// `Send`. Holds leases on its views: as long as it lives they can be written but not released. Owns its pipeline and
/// slab.
///
/// It is kept as a graph of one kernel node, which the driver launches in less than half of a kernel launch's CPU time.
/// The graph serves the stream of the first launch; on other streams, in captures and with options the kernel is
/// launched as such, as it is by a driver that makes no graph.
pub struct BoundLaunch {
    /// Dropped first: it refers to the module that `held` keeps.
    node: Option<OneNode>,
    /// It was bound over nothing, so the graph is made with the first extent that launches something.
    unmade: bool,
    held: Arc<Held>,
    geometry: LaunchGeometry,
    packed: Box<[u8]>,
    /// Bytes of `packed` that are handed over; what the driver is pointed at.
    packed_bytes: usize,
}

impl Pipeline {
    /// Binds views and values for launches over `extent`. Views may come in any order. Checks everything that can be
    /// wrong; allocates, and makes the graph that is launched: some 10 us, seven driver calls, 104 KiB of device memory,
    /// and now and then a wait for running kernels, when the driver needs more memory for graphs.
    /// [`bind_plain`](Self::bind_plain) does without.
    ///
    /// # Errors
    /// [`LaunchError::Bind`], [`LaunchError::View`], those of [`Pipeline::geometry`], [`LaunchError::OtherDevice`],
    /// [`LaunchError::DeviceLost`].
    pub fn bind(
        &self,
        slab: &Slab,
        arguments: Arguments<'_>,
        extent: Extent,
    ) -> Result<BoundLaunch, LaunchError> {
        let mut bound = self.bind_plain(slab, arguments, extent)?;
        bound.unmade = true;
        bound.renew()?;
        Ok(bound)
    }

    /// As [`bind`](Self::bind) without the graph: launches are kernel launches, which cost the CPU more than twice as much,
    /// and binding makes no driver call. For what is only captured, or launched a few times and bound anew while kernels
    /// run.
    ///
    /// # Errors
    /// As [`bind`](Self::bind).
    pub fn bind_plain(
        &self,
        slab: &Slab,
        arguments: Arguments<'_>,
        extent: Extent,
    ) -> Result<BoundLaunch, LaunchError> {
        range!("bind");
        self.built.fits(slab)?;
        let geometry = self.built.geometry(extent)?;
        let mut packed = vec![0u8; self.built.layout.packed_bytes().max(1)].into_boxed_slice();
        let packed_bytes = self.built.layout.pack(&arguments, slab.base(), &mut packed)?;
        let leases =
            arguments.views.iter().map(|view| slab.pins().pin(view)).collect::<Result<Vec<_>, _>>()?;
        let held = Held::new(self.clone(), slab.clone(), arguments.views, leases);
        Ok(BoundLaunch { node: None, unmade: false, held: Arc::new(held), geometry, packed, packed_bytes })
    }

    /// Launches without binding: views sorted by (group, binding) skip the matching. One driver call, no allocation on
    /// a stream; a capture binds.
    ///
    /// # Errors
    /// As [`bind`](Self::bind); nothing was launched then.
    pub fn launch(
        &self,
        on: &mut impl Submit,
        slab: &Slab,
        arguments: Arguments<'_>,
        extent: Extent,
    ) -> Result<(), LaunchError> {
        self.launch_with(on, slab, arguments, extent, LaunchOptions::default())
    }

    /// As [`launch`](Self::launch), with options.
    ///
    /// # Errors
    /// As [`launch`](Self::launch); [`LaunchError::Driver`] where the driver refuses the options,
    /// [`LaunchError::Unsupported`].
    pub fn launch_with(
        &self,
        on: &mut impl Submit,
        slab: &Slab,
        arguments: Arguments<'_>,
        extent: Extent,
        options: LaunchOptions,
    ) -> Result<(), LaunchError> {
        let Some(on) = on.as_stream() else {
            return self.bind_plain(slab, arguments, extent)?.launch_with(on, options);
        };
        let _range = self.built.name.enter();
        self.built.fits(slab)?;
        on.same_device(slab.device())?;
        let geometry = self.built.geometry(extent)?;
        on.admit()?;
        let mut packed = std::mem::take(&mut on.packed);
        let bytes = self.built.layout.pack(&arguments, slab.base(), &mut packed);
        let outcome = bytes.map_err(LaunchError::from).and_then(|bytes| {
            for view in arguments.views {
                slab.use_on(on, view)?;
            }
            if geometry.is_empty() {
                return Ok(());
            }
            on.submitted();
            self.built.fire(on.line().raw(), geometry, &packed[..bytes], options)
        });
        on.packed = packed;
        outcome
    }

    /// Launches and waits; how long it took on the device.
    ///
    /// # Errors
    /// As [`launch`](Self::launch), and [`LaunchError::DeviceLost`] where the kernel faulted.
    pub fn run(
        &self,
        on: &mut Stream,
        slab: &Slab,
        arguments: Arguments<'_>,
        extent: Extent,
    ) -> Result<Elapsed, LaunchError> {
        timed(on, |on| self.launch(on, slab, arguments, extent))
    }

    /// Clusters of that shape that the device runs at once.
    ///
    /// # Errors
    /// [`LaunchError::Unsupported`], [`LaunchError::MissingSymbol`], [`LaunchError::Driver`].
    pub fn active_clusters(&self, cluster: [u32; 3], shared_bytes: u32) -> Result<u32, LaunchError> {
        self.built.active_clusters(cluster, shared_bytes)
    }
}

impl BoundLaunch {
    /// Launches. One relaxed load, one driver call, one store; no allocation, no check of any view.
    ///
    /// # Errors
    /// [`LaunchError::DeviceLost`], [`LaunchError::OtherDevice`], [`LaunchError::Driver`].
    #[inline]
    pub fn launch(&mut self, on: &mut impl Submit) -> Result<(), LaunchError> {
        let built = &*self.held.pipeline.built;
        let _range = built.name.enter();
        let place = on.admit(Origin(&built.gate))?;
        if self.geometry.is_empty() {
            return Ok(());
        }
        if let Some(node) = &mut self.node
            && !place.captured
            && node.serves(place.queue)
        {
            node.launch(place.stream)?;
        } else {
            built.fire_plain(place.stream, self.geometry, &self.packed[..self.packed_bytes])?;
        }
        on.submitted(self.launched(LaunchOptions::default()))
    }

    /// As [`launch`](Self::launch), with options.
    ///
    /// # Errors
    /// As [`launch`](Self::launch); [`LaunchError::Unsupported`].
    pub fn launch_with(&mut self, on: &mut impl Submit, options: LaunchOptions) -> Result<(), LaunchError> {
        if options == LaunchOptions::default() {
            return self.launch(on);
        }
        let built = &*self.held.pipeline.built;
        let _range = built.name.enter();
        let place = on.admit(Origin(&built.gate))?;
        if self.geometry.is_empty() {
            return Ok(());
        }
        built.fire(place.stream, self.geometry, &self.packed[..self.packed_bytes], options)?;
        on.submitted(self.launched(options))
    }

    #[inline]
    fn launched(&self, options: LaunchOptions) -> Launched<'_> {
        Launched {
            held: &self.held,
            geometry: self.geometry,
            packed: &self.packed[..self.packed_bytes],
            options,
        }
    }

    /// Launches and waits; how long it took on the device. Events are pooled.
    ///
    /// # Errors
    /// As [`launch`](Self::launch), and [`LaunchError::DeviceLost`] where the kernel faulted.
    pub fn run(&mut self, on: &mut Stream) -> Result<Elapsed, LaunchError> {
        timed(on, |on| self.launch(on))
    }

    /// Replaces uniform block and scalars for later launches; launches in flight keep theirs. No allocation, at most four
    /// driver calls.
    ///
    /// # Errors
    /// [`LaunchError::Bind`] where the size differs; nothing is changed then. [`LaunchError::DeviceLost`].
    pub fn set_values(&mut self, by_value: &[u8]) -> Result<(), LaunchError> {
        self.held.pipeline.built.layout.repack_values(by_value, &mut self.packed)?;
        self.renew()
    }

    /// Replaces the extent for later launches. At most four driver calls, where dynamic shared memory grows beyond what the
    /// kernel has had three more. What was [bound](Pipeline::bind) over nothing has its graph made by the first extent that
    /// launches something.
    ///
    /// # Errors
    /// Those of [`Pipeline::geometry`]; nothing is changed then. [`LaunchError::DeviceLost`].
    pub fn set_extent(&mut self, extent: Extent) -> Result<(), LaunchError> {
        self.geometry = self.held.pipeline.built.geometry(extent)?;
        self.renew()
    }

    /// Brings the graph in line with arguments and geometry; one that cannot be is given up for plain launches.
    fn renew(&mut self) -> Result<(), LaunchError> {
        self.held.pipeline.built.gate.alive()?;
        // An empty launch is none, so the node keeps what it has until there is one again.
        if self.geometry.is_empty() {
            return Ok(());
        }
        let (built, packed) = (&self.held.pipeline.built, &self.packed[..self.packed_bytes]);
        if std::mem::take(&mut self.unmade) {
            self.node = OneNode::new(built, self.geometry, packed);
        } else if let Some(node) = &self.node
            && let Err(error) = node.set(built, self.geometry, packed)
        {
            tracing::debug!(%error, "launches are plain kernel launches from here on");
            self.node = None;
        }
        built.gate.alive()
    }

    /// Blocks, threads and shared bytes of the launch.
    pub fn geometry(&self) -> LaunchGeometry {
        self.geometry
    }

    /// The pipeline that is launched.
    pub fn pipeline(&self) -> &Pipeline {
        &self.held.pipeline
    }

    /// The arguments as the driver is given them.
    pub fn packed_arguments(&self) -> &[u8] {
        &self.packed[..self.packed_bytes]
    }
}

impl Built {
    fn fits(&self, slab: &Slab) -> Result<(), LaunchError> {
        if Arc::ptr_eq(&self.gate, slab.device().gate()) {
            self.gate.alive()
        } else {
            Err(LaunchError::OtherDevice { what: "slab" })
        }
    }

    /// One driver call with the packed arguments: `cuLaunchKernelEx` without attributes where there is one, which costs
    /// the CPU about 1 % less than `cuLaunchKernel` (H200, driver 580.159.04, 2026-12-01).
    #[inline]
    fn fire_plain(
        &self,
        stream: RawStream,
        geometry: LaunchGeometry,
        packed: &[u8],
    ) -> Result<(), LaunchError> {
        let mut bytes = packed.len();
        let mut extra = extra(packed, &mut bytes);
        if self.has_launch_ex {
            let config = config(stream, geometry, &mut [], 0);
            // SAFETY: function and stream are alive and of one context; `extra` points at the packed arguments, which
            // have the kernel's own layout and which the driver has copied when it returns; views named in them are
            // live until the stream's open epoch completes; that the kernel keeps to them is the promise of its
            // specification.
            let status = unsafe {
                self.gate.api().launch_kernel_ex(
                    &raw const config,
                    self.function,
                    ptr::null_mut(),
                    extra.as_mut_ptr(),
                )
            }?;
            return self.gate.check(status);
        }
        let LaunchGeometry { grid: [gx, gy, gz], block: [bx, by, bz], shared_bytes } = geometry;
        // SAFETY: as above.
        let status = unsafe {
            self.gate.api().launch_kernel(
                self.function,
                gx,
                gy,
                gz,
                bx,
                by,
                bz,
                shared_bytes,
                stream,
                ptr::null_mut(),
                extra.as_mut_ptr(),
            )
        };
        self.gate.check(status)
    }

    fn fire(
        &self,
        stream: RawStream,
        geometry: LaunchGeometry,
        packed: &[u8],
        options: LaunchOptions,
    ) -> Result<(), LaunchError> {
        if options.programmatic && !self.waits {
            return Err(GraphError::DoesNotWait { entry: self.entry_point().to_owned() }.into());
        }
        let (mut attributes, count) = options.attributes();
        if count == 0 {
            return self.fire_plain(stream, geometry, packed);
        }
        if options.cluster.is_some_and(|cluster| product(&cluster) > 8) {
            function::allow_large_clusters(&self.gate, self.function)?;
        }
        let config = config(stream, geometry, &mut attributes, count);
        let mut bytes = packed.len();
        let mut extra = extra(packed, &mut bytes);
        // SAFETY: as in `fire_plain`; the attributes live until the call returns.
        let status = unsafe {
            self.gate.api().launch_kernel_ex(
                &raw const config,
                self.function,
                ptr::null_mut(),
                extra.as_mut_ptr(),
            )
        }?;
        self.gate.check(status)
    }

    fn active_clusters(&self, cluster: [u32; 3], shared_bytes: u32) -> Result<u32, LaunchError> {
        let (mut attributes, count) =
            LaunchOptions { cluster: Some(cluster), ..LaunchOptions::default() }.attributes();
        let block = self.geometry(Extent::Elements(1))?.block;
        let geometry = LaunchGeometry { grid: cluster, block, shared_bytes };
        let config = config(ptr::null_mut(), geometry, &mut attributes, count);
        let mut clusters = 0;
        let _context = self.gate.enter()?;
        // SAFETY: the function's module is loaded; the pointers are valid for what the function writes and reads.
        let status = unsafe {
            self.gate.api().occupancy_clusters(&raw mut clusters, self.function, &raw const config)
        }?;
        self.gate.check(status).map(|()| u32::try_from(clusters).unwrap_or(0))
    }
}

fn config(
    stream: RawStream,
    geometry: LaunchGeometry,
    attributes: &mut [LaunchAttribute],
    attribute_count: u32,
) -> LaunchConfig {
    LaunchConfig {
        grid: geometry.grid,
        block: geometry.block,
        shared_bytes: geometry.shared_bytes,
        stream,
        attributes: attributes.as_mut_ptr(),
        attribute_count,
    }
}

/// Between two events; waits for the second.
fn timed(
    on: &mut Stream,
    launch: impl FnOnce(&mut Stream) -> Result<(), LaunchError>,
) -> Result<Elapsed, LaunchError> {
    on.join_courier();
    on.admit()?;
    let (start, end) = (on.device().events().take(true)?, on.device().events().take(true)?);
    // SAFETY: the stream is alive and of the pool's context.
    unsafe { start.record(on.line().raw()) }?;
    launch(on)?;
    // SAFETY: as above.
    unsafe { end.record(on.line().raw()) }?;
    end.wait()?;
    Ok(Elapsed { nanoseconds: end.nanoseconds_since(&start)?, source: ElapsedSource::Device })
}

impl fmt::Debug for BoundLaunch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BoundLaunch")
            .field("pipeline", &self.held.pipeline)
            .field("geometry", &self.geometry)
            .finish_non_exhaustive()
    }
}
