//! A WGSL kernel as a Vulkan pipeline: which buffer goes where, and one timed dispatch.

use std::sync::Arc;
use std::time::Instant;

use cuforge_core::{
    Access, Arguments, BufferView, Compute, Constraints, ContextError, ContextErrorKind, Elapsed,
    ElapsedSource, Extent, KernelSpec, LaunchGeometry, Parameter, ParameterLayout, Pins, Schedule, SlabId,
    ViewError,
};
use cuforge_wgsl::{Portable, UniformBinding};
use wgpu::{
    BindGroup, BindGroupDescriptor, BindGroupEntry, BindGroupLayout, BindGroupLayoutDescriptor,
    BindGroupLayoutEntry, BindingResource, BindingType, Buffer, BufferBinding, BufferBindingType,
    BufferDescriptor, BufferSize, BufferUsages, CommandEncoderDescriptor, ComputePassDescriptor,
    ComputePassTimestampWrites, ComputePipeline, ComputePipelineDescriptor, PipelineCompilationOptions,
    PipelineLayoutDescriptor, QuerySet, QuerySetDescriptor, QueryType, ShaderModuleDescriptor, ShaderSource,
    ShaderStages,
};

use super::device::{Device, WORD_BYTES};
use super::error::{WgpuError, bind_error, schedule_error};

/// Two timestamps.
const STAMP_BYTES: u64 = 16;
/// Uniform blocks are whole vectors.
const UNIFORM_BYTES: u64 = 16;

/// One storage binding.
#[derive(Clone, Copy, Debug)]
struct Slot {
    group: u32,
    binding: u32,
    access: Access,
}

/// One kernel on a Vulkan device.
#[derive(Debug)]
pub(super) struct WgpuKernel {
    device: Arc<Device>,
    pipeline: ComputePipeline,
    groups: Vec<BindGroupLayout>,
    slots: Vec<Slot>,
    uniforms: Vec<(UniformBinding, Buffer)>,
    timer: Option<Timer>,
    spec: KernelSpec,
    schedule: Schedule,
    layout: ParameterLayout,
    packed: Vec<u8>,
    constraints: Constraints,
    read: (SlabId, Pins),
    written: (SlabId, Pins),
}

/// Timestamps before and after a pass.
#[derive(Debug)]
struct Timer {
    queries: QuerySet,
    resolved: Buffer,
    staging: Buffer,
    nanoseconds_per_tick: f64,
}

impl Timer {
    fn new(device: &Device) -> Self {
        let buffer = |usage| {
            device.device.create_buffer(&BufferDescriptor {
                label: Some("timestamps"),
                size: STAMP_BYTES,
                usage,
                mapped_at_creation: false,
            })
        };
        Self {
            queries: device.device.create_query_set(&QuerySetDescriptor {
                label: None,
                ty: QueryType::Timestamp,
                count: 2,
            }),
            resolved: buffer(BufferUsages::QUERY_RESOLVE | BufferUsages::COPY_SRC),
            staging: buffer(BufferUsages::MAP_READ | BufferUsages::COPY_DST),
            nanoseconds_per_tick: f64::from(device.queue.get_timestamp_period()),
        }
    }

    fn nanoseconds(&self, device: &Device) -> Result<u64, ContextError> {
        let bytes = device.mapped(&self.staging)?;
        let stamp =
            |at: usize| bytes[at..at + 8].iter().rev().fold(0u64, |sum, byte| sum << 8 | u64::from(*byte));
        Ok((stamp(8).saturating_sub(stamp(0)) as f64 * self.nanoseconds_per_tick) as u64)
    }
}

/// What a context shares with its kernels.
pub(super) struct Shared {
    pub(super) device: Arc<Device>,
    pub(super) constraints: Constraints,
    pub(super) timestamps: bool,
    pub(super) read: (SlabId, Pins),
    pub(super) written: (SlabId, Pins),
}

impl WgpuKernel {
    /// Compiles the WGSL of `spec`.
    pub(super) fn new(
        shared: Shared,
        spec: &KernelSpec,
        schedule: &Schedule,
        portable: &Portable,
    ) -> Result<Self, ContextError> {
        let layout = ParameterLayout::new(&portable.parameters)
            .map_err(|source| bind_error("prepare", spec, source))?;
        let slots = slots(&portable.parameters);
        let device = shared.device;
        let made = device.caught("kernel", "prepare", || {
            let groups = group_layouts(&device.device, &slots, &portable.uniforms);
            let pipeline = pipeline(&device.device, spec, portable, &groups);
            let block = |uniform: &UniformBinding| {
                let buffer = device.device.create_buffer(&BufferDescriptor {
                    label: Some("uniform"),
                    size: u64::from(uniform.bytes).next_multiple_of(UNIFORM_BYTES),
                    usage: BufferUsages::UNIFORM | BufferUsages::COPY_SRC | BufferUsages::COPY_DST,
                    mapped_at_creation: false,
                });
                (*uniform, buffer)
            };
            let uniforms: Vec<_> = portable.uniforms.iter().map(block).collect();
            let timer = shared.timestamps.then(|| Timer::new(&device));
            (groups, pipeline, uniforms, timer)
        });
        let (groups, pipeline, uniforms, timer) = made?;
        Ok(Self {
            pipeline,
            groups,
            slots,
            uniforms,
            timer,
            spec: spec.clone(),
            schedule: schedule.clone(),
            packed: vec![0; layout.packed_bytes()],
            layout,
            constraints: shared.constraints,
            read: shared.read,
            written: shared.written,
            device,
        })
    }

    fn geometry(&self, extent: Extent) -> Result<LaunchGeometry, ContextError> {
        let wrong = |error| schedule_error("launch", error);
        match extent {
            Extent::Elements(elements) => {
                self.schedule.geometry(elements, self.spec.shared_memory(), &self.constraints).map_err(wrong)
            }
            Extent::Geometry(geometry) if geometry.block != self.schedule.workgroup_size => {
                Err(WgpuError::Block {
                    kernel: self.spec.id().to_owned(),
                    prepared: self.schedule.workgroup_size,
                    launched: geometry.block,
                }
                .during("launch"))
            }
            Extent::Geometry(geometry) => geometry.validate(&self.constraints).map_err(wrong),
        }
    }

    fn check(&self, view: &BufferView) -> Result<(), ContextError> {
        let pins = if view.slab() == self.read.0 { &self.read.1 } else { &self.written.1 };
        let stale = |error: ViewError| ContextError::new(ContextErrorKind::Misuse, "launch", error);
        pins.check(view).map_err(stale)
    }

    /// The bytes of `view` as a binding of `slot`.
    fn resource(&self, slot: Slot, view: &BufferView) -> Result<BindingResource<'_>, ContextError> {
        let refuse = |reason: String| {
            let (kernel, group, binding) = (self.spec.id().to_owned(), slot.group, slot.binding);
            WgpuError::Binding { kernel, group, binding, reason }.during("launch")
        };
        let access = if view.slab() == self.read.0 { Access::StorageRead } else { Access::StorageReadWrite };
        if access != slot.access {
            return Err(refuse(format!("bound as {:?}, allocated as {access:?}", slot.access)));
        }
        let align = self.constraints.min_buffer_align;
        if !view.offset().is_multiple_of(align) {
            return Err(refuse(format!("it starts at byte {}, no multiple of {align}", view.offset())));
        }
        if !view.len().is_multiple_of(WORD_BYTES) {
            return Err(refuse(format!("{} bytes are no whole words", view.len())));
        }
        Ok(BindingResource::Buffer(BufferBinding {
            buffer: self.device.slab(access),
            offset: view.offset(),
            size: BufferSize::new(view.len()),
        }))
    }

    fn bind(&self, views: &[BufferView]) -> Result<Vec<BindGroup>, ContextError> {
        let mut entries: Vec<Vec<BindGroupEntry<'_>>> = self.groups.iter().map(|_| Vec::new()).collect();
        for slot in &self.slots {
            // The layout has matched views and parameters.
            let view = views.iter().find(|view| (view.group(), view.binding()) == (slot.group, slot.binding));
            if let Some(view) = view {
                let entry = BindGroupEntry { binding: slot.binding, resource: self.resource(*slot, view)? };
                entries[slot.group as usize].push(entry);
            }
        }
        for (uniform, buffer) in &self.uniforms {
            let entry = BindGroupEntry { binding: uniform.binding, resource: buffer.as_entire_binding() };
            entries[uniform.group as usize].push(entry);
        }
        self.device.caught("bindings", "launch", || {
            self.groups
                .iter()
                .zip(&entries)
                .map(|(layout, entries)| {
                    self.device.device.create_bind_group(&BindGroupDescriptor {
                        label: None,
                        layout,
                        entries,
                    })
                })
                .collect()
        })
    }

    fn submit(&self, groups: &[BindGroup], grid: [u32; 3]) -> Result<(), ContextError> {
        self.device.caught("dispatch", "launch", || {
            let mut encoder = self.device.device.create_command_encoder(&CommandEncoderDescriptor::default());
            let timestamp_writes = self.timer.as_ref().map(|timer| ComputePassTimestampWrites {
                query_set: &timer.queries,
                beginning_of_pass_write_index: Some(0),
                end_of_pass_write_index: Some(1),
            });
            let mut pass =
                encoder.begin_compute_pass(&ComputePassDescriptor { label: None, timestamp_writes });
            pass.set_pipeline(&self.pipeline);
            for (at, group) in (0..).zip(groups) {
                pass.set_bind_group(at, group, &[]);
            }
            pass.dispatch_workgroups(grid[0], grid[1], grid[2]);
            drop(pass);
            if let Some(timer) = &self.timer {
                encoder.resolve_query_set(&timer.queries, 0..2, &timer.resolved, 0);
                encoder.copy_buffer_to_buffer(&timer.resolved, 0, &timer.staging, 0, Some(STAMP_BYTES));
            }
            self.device.queue.submit([encoder.finish()]);
        })
    }
}

impl Compute for WgpuKernel {
    fn dispatch(&mut self, arguments: Arguments<'_>, extent: Extent) -> Result<Elapsed, ContextError> {
        arguments.views.iter().try_for_each(|view| self.check(view))?;
        self.layout
            .pack(&arguments, 0, &mut self.packed)
            .map_err(|source| bind_error("launch", &self.spec, source))?;
        let geometry = self.geometry(extent)?;
        if geometry.is_empty() {
            return Ok(Elapsed { nanoseconds: 0, source: ElapsedSource::HostClock });
        }
        let groups = self.bind(arguments.views)?;
        for (uniform, buffer) in &self.uniforms {
            // The layout has seen that all of them are there.
            let at = uniform.offset as usize;
            let bytes = arguments.by_value.get(at..at + uniform.bytes as usize).unwrap_or_default();
            self.device.write(buffer, 0, bytes)?;
        }
        let start = Instant::now();
        self.submit(&groups, geometry.grid)?;
        self.device.wait("launch")?;
        let host = u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX);
        match &self.timer {
            Some(timer) => {
                Ok(Elapsed { nanoseconds: timer.nanoseconds(&self.device)?, source: ElapsedSource::Device })
            }
            None => Ok(Elapsed { nanoseconds: host, source: ElapsedSource::HostClock }),
        }
    }
}

fn slots(parameters: &[Parameter]) -> Vec<Slot> {
    let slot = |parameter: &Parameter| match *parameter {
        Parameter::Buffer { group, binding, access, .. } => Some(Slot { group, binding, access }),
        _ => None,
    };
    parameters.iter().filter_map(slot).collect()
}

fn group_layouts(device: &wgpu::Device, slots: &[Slot], uniforms: &[UniformBinding]) -> Vec<BindGroupLayout> {
    let entry = |binding, ty| BindGroupLayoutEntry {
        binding,
        visibility: ShaderStages::COMPUTE,
        ty: BindingType::Buffer { ty, has_dynamic_offset: false, min_binding_size: None },
        count: None,
    };
    let used = slots.iter().map(|slot| slot.group).chain(uniforms.iter().map(|uniform| uniform.group));
    (0..used.max().map_or(0, |last| last + 1))
        .map(|group| {
            let storage = slots.iter().filter(|slot| slot.group == group).map(|slot| {
                let read_only = slot.access == Access::StorageRead;
                entry(slot.binding, BufferBindingType::Storage { read_only })
            });
            let blocks = uniforms.iter().filter(|uniform| uniform.group == group);
            let blocks = blocks.map(|uniform| entry(uniform.binding, BufferBindingType::Uniform));
            let entries: Vec<_> = storage.chain(blocks).collect();
            device.create_bind_group_layout(&BindGroupLayoutDescriptor { label: None, entries: &entries })
        })
        .collect()
}

fn pipeline(
    device: &wgpu::Device,
    spec: &KernelSpec,
    portable: &Portable,
    groups: &[BindGroupLayout],
) -> ComputePipeline {
    let module = device.create_shader_module(ShaderModuleDescriptor {
        label: Some(spec.id()),
        source: ShaderSource::Wgsl(spec.body().text.clone()),
    });
    let bound: Vec<_> = groups.iter().map(Some).collect();
    let layout = device.create_pipeline_layout(&PipelineLayoutDescriptor {
        label: None,
        bind_group_layouts: &bound,
        immediate_size: 0,
    });
    let constants: Vec<(&str, f64)> =
        portable.overrides.iter().map(|(name, value)| (name.as_str(), *value)).collect();
    device.create_compute_pipeline(&ComputePipelineDescriptor {
        label: Some(spec.id()),
        layout: Some(&layout),
        module: &module,
        entry_point: Some(spec.entry_point()),
        compilation_options: PipelineCompilationOptions {
            constants: &constants,
            zero_initialize_workgroup_memory: true,
        },
        cache: None,
    })
}
