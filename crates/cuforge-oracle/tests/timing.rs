//! Which times are believed: those of a device at its clock, of right results, and no faster than its memory.
#![allow(clippy::unwrap_used, reason = "a test may fail loudly in its helpers too")]

mod changed;

use changed::{Change, Changed};
use cuforge_oracle::corpus::{self, Form, Shape};
use cuforge_oracle::{
    Case, Certificate, MeasureOptions, SimContext, Stopping, Verdict, VerifyOptions, measure, report, verify,
    verify_with,
};

const FULL_HZ: u64 = 2_000_000_000;

/// A clock: every launch takes the same time, at rates that a test chooses.
struct Clock {
    launch_ns: u64,
    /// At the n-th question.
    rate_hz: fn(u32) -> u64,
    asked: u32,
}

impl Change for Clock {
    fn launch_ns(&self) -> Option<u64> {
        Some(self.launch_ns)
    }

    fn clock_hz(&mut self) -> Option<u64> {
        self.asked += 1;
        Some((self.rate_hz)(self.asked))
    }
}

fn clocked(launch_ns: u64, rate_hz: fn(u32) -> u64) -> Changed<Clock> {
    let device = SimContext::builder().build().unwrap();
    let mut device = Changed::new(device, Clock { launch_ns, rate_hz, asked: 0 });
    device.constraints.max_clock_hz = FULL_HZ;
    device
}

/// 2,400 bytes, of which a launch must move every one.
fn case() -> Case {
    let affine = corpus::find("affine").unwrap();
    affine.case(Form::WrittenPtx, &Shape::new(&[300]), &affine.schedules(Form::WrittenPtx)[1]).unwrap()
}

fn options(most_host_ns: u64) -> MeasureOptions {
    let stopping = Stopping { least_samples: 10, least_total_ns: 0, most_host_ns, ..Stopping::default() };
    MeasureOptions { stopping, ..MeasureOptions::default() }
}

const PATIENT_NS: u64 = 60_000_000_000;

#[test]
fn samples_of_a_throttled_device_are_discarded_and_taken_again() {
    // Asleep at first, and once in between below three quarters of its clock.
    let rate = |asked| if asked <= 4 || asked == 9 { FULL_HZ / 2 } else { FULL_HZ * 4 / 5 };
    let found = measure(&case(), &mut clocked(1_000, rate), &options(PATIENT_NS)).unwrap();
    assert_eq!(found.rejected, None);
    // Two of the first four were warm-ups, which count neither way.
    assert_eq!((found.timing.samples_ns.len(), found.timing.discarded), (10, 3));
}

#[test]
fn a_device_that_never_reaches_its_clock_gives_no_measurement() {
    let found = measure(&case(), &mut clocked(1_000, |_| FULL_HZ / 2), &options(100_000_000)).unwrap();
    let why = found.rejected.unwrap();
    assert!(why.contains("at 50 % of its clock"), "{why}");
    assert!(found.timing.samples_ns.is_empty() && found.timing.discarded > 0);
}

#[test]
fn a_device_that_does_not_tell_its_clock_is_measured_as_it_is() {
    let mut device = clocked(1_000, |_| 1);
    device.constraints.max_clock_hz = 0;
    let found = measure(&case(), &mut device, &options(PATIENT_NS)).unwrap();
    assert_eq!((found.rejected, found.timing.discarded, device.change.asked), (None, 0, 0));
}

#[test]
fn a_time_below_what_the_memory_allows_fails_though_the_result_is_right() {
    let full = |_| FULL_HZ;
    // A byte a nanosecond: 2,400 at least.
    let slow_memory = |launch_ns| {
        let mut device = clocked(launch_ns, full);
        device.constraints.memory_bytes_per_second = 1_000_000_000;
        device
    };
    assert_eq!(verify(&case(), &mut slow_memory(2_400)).unwrap().verdict, Verdict::Passed);
    let report = verify(&case(), &mut slow_memory(2_399)).unwrap();
    assert_eq!(report.verdict, Verdict::Failed);
    assert!(report.notes.iter().any(|note| note.contains("faster than the memory")), "{:?}", report.notes);
    let measured = measure(&case(), &mut slow_memory(2_399), &options(PATIENT_NS)).unwrap();
    assert!(measured.rejected.is_some_and(|why| why.contains("faster than the memory")));
}

#[test]
fn a_verification_that_measures_says_in_its_certificate_how_it_stopped() {
    let timing = Some(options(PATIENT_NS));
    let options = VerifyOptions { timing, ..VerifyOptions::default() };
    let report = verify_with(&case(), &mut clocked(1_000, |_| FULL_HZ), &options).unwrap();
    assert_eq!(report.verdict, Verdict::Passed, "{:#?}", report::details(&report));
    let certificate = Certificate::of(&[report]).unwrap();
    let entry = &certificate.entries()[0];
    assert_eq!((entry.stopped.as_deref(), entry.samples_ns.len()), (Some("converged"), 10));
    assert_eq!((entry.median_ns, entry.p95_ns, entry.interquartile_ns), (Some(1_000), Some(1_000), Some(0)));
    let throttled = verify_with(
        &case(),
        &mut clocked(1_000, |_| FULL_HZ / 2),
        &VerifyOptions {
            timing: Some(MeasureOptions {
                stopping: Stopping { most_host_ns: 50_000_000, ..Stopping::quick() },
                ..MeasureOptions::default()
            }),
            ..options
        },
    );
    assert_eq!(throttled.unwrap().verdict, Verdict::Failed);
}
