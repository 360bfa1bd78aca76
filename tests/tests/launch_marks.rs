//! Views on the simulated driver: a kernel that leaves its view, or uses a released one, is found and the view is named.

#![allow(clippy::unwrap_used, reason = "a test program, its helpers included")]

mod launch_support;

use cuforge_core::{
    Access, Arguments, BufferView, DeclaredBlock, Element, Extent, KernelSpec, Lifetime, Parameter, Request,
    Schedule,
};
use cuforge_launch::{Pipeline, Slab, SlabOptions};
use cuforge_slab::RegionSlab;
use cuforge_tests::sim::Sim;
use launch_support::{Rig, image};

/// Floats of a view that ends inside the 256 bytes that the allocator hands out at least.
const ODD: u32 = 100;
/// Floats of a view behind which the next one begins.
const EVEN: u32 = 64;

/// Runs `y += x` over so many floats; what the driver says of it.
fn saxpy_over(rig: &mut Rig, floats: u32) -> String {
    rig.slab.write_from(&mut rig.stream, &rig.x, &vec![0f32; rig.x.len() as usize / 4]).unwrap();
    rig.slab.write_from(&mut rig.stream, &rig.y, &vec![0f32; rig.y.len() as usize / 4]).unwrap();
    let by_value = [1f32.to_le_bytes(), floats.to_le_bytes()].concat();
    let arguments = Arguments { views: &[rig.y, rig.x], by_value: &by_value };
    let extent = Extent::Elements(u64::from(floats));
    rig.pipeline.launch(&mut rig.stream, &rig.slab, arguments, extent).unwrap();
    // A lost device says so here too.
    let _ = rig.stream.synchronize();
    rig.sim.fault()
}

/// What stands in a fault for a view.
fn named(view: &BufferView) -> String {
    format!("the view of {} bytes at offset {} of slab", view.len(), view.offset())
}

const POKE: &str = "
.version 7.8
.target sm_70
.address_size 64
.visible .entry poke(.param .u64 y, .param .u32 low, .param .u32 high)
{
    .reg .b32 %r<3>;
    .reg .b64 %d<2>;
    ld.param.u32 %r1, [low];
    ld.param.u32 %r2, [high];
    mov.b64 %d1, {%r1, %r2};
    cvta.to.global.u64 %d1, %d1;
    st.global.u32 [%d1], 7;
    ret;
}
";

/// Stores a word to an address, whichever view it is bound to.
fn poke(rig: &mut Rig, address: u64) {
    let parameters = vec![
        Parameter::buffer("y", 0, Element::U32, Access::StorageReadWrite),
        Parameter::scalar("low", Element::U32),
        Parameter::scalar("high", Element::U32),
    ];
    let block = DeclaredBlock { workgroup_size: [1, 1, 1], items_per_invocation: 1 };
    // SAFETY: it stores one word of a slab that the test has, or is found by the driver.
    let spec = unsafe { KernelSpec::ptx("poke", "poke", POKE, parameters) }.with_declared_blocks(vec![block]);
    // SAFETY: the image is the specification's own text.
    let pipeline: Pipeline =
        unsafe { rig.device.pipeline(&image(POKE), &spec, &Schedule::new([1, 1, 1])) }.unwrap();
    let arguments = Arguments { views: &[rig.y], by_value: &address.to_le_bytes() };
    pipeline.launch(&mut rig.stream, &rig.slab, arguments, Extent::Elements(1)).unwrap();
}

#[test]
fn a_kernel_inside_its_views_is_fine_and_one_float_more_is_out_of_bounds_of_the_named_view() {
    assert_eq!(saxpy_over(&mut Rig::new(ODD), ODD), "");
    let mut rig = Rig::new(ODD);
    let said = saxpy_over(&mut rig, ODD + 1);
    assert!(said.contains("out of bounds") && said.contains("saxpy, PTX line"), "{said}");
    assert!(said.contains(&format!("0 bytes behind the end of {}", named(&rig.x))), "{said}");
}

#[test]
fn with_a_red_zone_a_kernel_that_leaves_a_view_does_not_land_in_the_next() {
    let mut plain = Rig::new(EVEN);
    assert_eq!(plain.y.offset() + plain.y.len(), plain.x.offset(), "one behind the other");
    let zoned = |floats| {
        let mut rig = Rig::on(Sim::new(&[("CUFORGE_SIM_RED_ZONE", "64")]).unwrap(), EVEN);
        assert!(rig.y.offset() + rig.y.len() + 64 <= rig.x.offset());
        assert_eq!((rig.y.len(), rig.x.len()), (256, 256));
        // Only y, which is in front of x, can be left without a red zone.
        let address = rig.slab.address_of(&rig.y).unwrap();
        poke(&mut rig, address + 4 * floats);
        let _ = rig.stream.synchronize();
        (rig.sim.fault(), named(&rig.y))
    };
    let address = plain.slab.address_of(&plain.y).unwrap();
    poke(&mut plain, address + 256);
    plain.stream.synchronize().unwrap();
    assert_eq!(zoned(63).0, "");
    let (said, name) = zoned(u64::from(EVEN));
    assert!(said.contains(&format!("0 bytes behind the end of {name}")), "{said}");
}

#[test]
fn a_released_view_is_out_of_bounds_for_later_kernels_and_not_for_those_in_flight() {
    let mut rig = Rig::new(ODD);
    let view = rig.view(400);
    let address = rig.slab.address_of(&view).unwrap();
    rig.sim.hold(true);
    poke(&mut rig, address + 396);
    rig.slab.release(view).unwrap();
    rig.sim.hold(false);
    rig.stream.synchronize().unwrap();
    poke(&mut rig, address + 396);
    let _ = rig.stream.synchronize();
    let said = rig.sim.fault();
    assert!(said.contains(&named(&view)), "{said}");
    assert!(said.contains("was there and had been released"), "{said}");
}

#[test]
fn views_that_a_clear_a_restore_and_a_growth_leave_are_those_that_kernels_may_use() {
    for ends in ["clear", "restore"] {
        let sim = Sim::new(&[]).unwrap();
        let mut rig = Rig::on(sim, ODD);
        let allocator = Box::new(RegionSlab::new(4 << 20).unwrap());
        let slab = Slab::new(&rig.device, allocator, SlabOptions::default()).unwrap();
        slab.grow(4 << 20).unwrap();
        let kept = Request::new(400).with_lifetime(Lifetime::Resident);
        let (kept, checkpoint) = (slab.acquire(&kept).unwrap(), slab.checkpoint().unwrap());
        let ended = slab.acquire(&Request::new(400)).unwrap();
        let (kept_at, ended_at) = (slab.address_of(&kept).unwrap(), slab.address_of(&ended).unwrap());
        poke(&mut rig, kept_at);
        poke(&mut rig, ended_at);
        rig.stream.synchronize().unwrap();
        match ends {
            "clear" => slab.clear().unwrap(),
            _ => slab.restore(checkpoint).unwrap(),
        };
        poke(&mut rig, kept_at);
        rig.stream.synchronize().unwrap();
        poke(&mut rig, ended_at);
        assert!(rig.stream.synchronize().is_err(), "{ends}");
        assert!(rig.sim.fault().contains(&named(&ended)), "{ends}: {}", rig.sim.fault());
    }
}

#[test]
fn a_driver_without_the_extension_is_told_nothing_and_finds_nothing() {
    let mut rig = Rig::on(Sim::without(&["cuforgeSimMark"]).unwrap(), ODD);
    assert_eq!(saxpy_over(&mut rig, ODD + 1), "");
}
