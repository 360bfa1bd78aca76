//! The edge to C: argument types that can be looked at safely, and the one way in for every exported function.

use std::cell::Cell;
use std::ffi::{CStr, c_char, c_int};
use std::fmt::{self, Debug};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Instant;

use crate::calls::{self, Needs, Plan, Site};
use crate::codes::{Answer, Code};
use crate::driver::Driver;

/// A pointer through which a function answers; may be null. Only C callers make one, and they keep the contract of
/// `cuda.h`: it is null or valid for a value, or for as many as the function says.
#[repr(transparent)]
pub(crate) struct Out<T>(*mut T);

impl<T> Clone for Out<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Out<T> {}

impl<T> Debug for Out<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.0)
    }
}

impl<T> Out<T> {
    /// `INVALID_VALUE` for null.
    pub(crate) fn required(self) -> Answer {
        if self.0.is_null() { Err(Code::INVALID_VALUE) } else { Ok(()) }
    }

    pub(crate) fn is_null(self) -> bool {
        self.0.is_null()
    }

    /// Answers a value; `INVALID_VALUE` for null.
    pub(crate) fn put(self, value: T) -> Answer {
        self.required()?;
        // SAFETY: not null, so valid for a value by the contract of `cuda.h` that the caller keeps.
        unsafe { self.0.write_unaligned(value) };
        Ok(())
    }

    /// Answers a value if the caller wants it.
    pub(crate) fn offer(self, value: T) {
        // Null means that it is not wanted.
        let _ = self.put(value);
    }

    /// Answers the first of `values` that the caller has room for.
    pub(crate) fn put_list(self, values: impl Iterator<Item = T>, room: usize) -> Answer {
        self.required()?;
        for (at, value) in values.take(room).enumerate() {
            let place = self.0.wrapping_add(at);
            // SAFETY: the caller has room for `room` values by the contract of `cuda.h`, and `at` is below it.
            unsafe { place.write_unaligned(value) };
        }
        Ok(())
    }

    /// What stands there already, where a function takes and answers by one pointer.
    pub(crate) fn current(self) -> Answer<T>
    where
        T: Copy,
    {
        self.required()?;
        // SAFETY: not null, so valid for a value by the contract of `cuda.h` that the caller keeps.
        Ok(unsafe { self.0.read_unaligned() })
    }

    /// A place that an array or an untyped pointer of the caller names.
    pub(crate) fn inner(address: usize) -> Self {
        Self(std::ptr::with_exposed_provenance_mut(address))
    }

    /// As an untyped address.
    pub(crate) fn address(self) -> usize {
        self.0.expose_provenance()
    }
}

impl Out<c_char> {
    /// Answers a C string, cut to `room` bytes with its zero.
    pub(crate) fn put_text(self, text: &str, room: usize) -> Answer {
        let kept = text.len().min(room.saturating_sub(1));
        let bytes = text.as_bytes()[..kept].iter().copied().chain([0]);
        self.put_list(bytes.map(|byte| byte as c_char), room)
    }
}

/// A pointer to what a function reads; may be null. Only C callers make one, and they keep the contract of `cuda.h`.
#[repr(transparent)]
pub(crate) struct In<T>(*const T);

impl<T> Clone for In<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for In<T> {}

impl<T> Debug for In<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.0)
    }
}

impl<T: Copy> In<T> {
    /// A pointer that a struct or an array of the caller holds.
    pub(crate) fn inner(address: usize) -> Self {
        Self(std::ptr::with_exposed_provenance(address))
    }

    pub(crate) fn is_null(self) -> bool {
        self.0.is_null()
    }

    /// As an untyped address.
    pub(crate) fn address(self) -> usize {
        self.0.expose_provenance()
    }

    /// The value; `INVALID_VALUE` for null.
    pub(crate) fn get(self) -> Answer<T> {
        if self.0.is_null() {
            return Err(Code::INVALID_VALUE);
        }
        // SAFETY: not null, so valid for a value by the contract of `cuda.h` that the caller keeps.
        Ok(unsafe { self.0.read_unaligned() })
    }

    /// As many values as the caller says there are; `INVALID_VALUE` for null, unless there are none.
    pub(crate) fn list(self, count: usize) -> Answer<Vec<T>> {
        if count == 0 {
            return Ok(Vec::new());
        }
        if self.0.is_null() {
            return Err(Code::INVALID_VALUE);
        }
        let mut values = Vec::new();
        values.try_reserve(count).map_err(|_| Code::INVALID_VALUE)?;
        for at in 0..count {
            let place = self.0.wrapping_add(at);
            // SAFETY: the caller has `count` values there by the contract of `cuda.h`.
            values.push(unsafe { place.read_unaligned() });
        }
        Ok(values)
    }
}

/// A C string; may be null.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub(crate) struct Text(*const c_char);

impl Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.get() {
            Ok(text) if text.len() <= 64 => write!(f, "{text:?}"),
            _ => write!(f, "{:?}", self.0),
        }
    }
}

impl Text {
    /// The string at an address that a struct or an untyped pointer of the caller holds.
    pub(crate) fn inner(address: usize) -> Self {
        Self(std::ptr::with_exposed_provenance(address))
    }

    /// `INVALID_VALUE` for null, and for what is no UTF-8: no name of anything is.
    pub(crate) fn get(&self) -> Answer<&str> {
        std::str::from_utf8(self.bytes()?).map_err(|_| Code::INVALID_VALUE)
    }

    /// Its bytes without the zero.
    pub(crate) fn bytes(&self) -> Answer<&[u8]> {
        if self.0.is_null() {
            return Err(Code::INVALID_VALUE);
        }
        // SAFETY: not null, so a C string by the contract of `cuda.h` that the caller keeps; it outlives the call.
        Ok(unsafe { CStr::from_ptr(self.0) }.to_bytes())
    }
}

/// One exported function, for the table of them all.
#[derive(Clone, Copy)]
pub(crate) struct Entry {
    pub(crate) site: &'static Site,
    /// Where its code lies.
    pub(crate) address: fn() -> usize,
    /// What is simulated, and what is not.
    pub(crate) note: &'static str,
}

/// The function that ends what it ends even where it fails: a capture.
const ENDS_EVEN_SO: &str = "cuStreamEndCapture";

thread_local! {
    static PLANNED: Cell<Option<Code>> = const { Cell::new(None) };
}

/// The code that a body has to answer once it has ended what it ends.
pub(crate) fn planned_failure() -> Option<Code> {
    PLANNED.take()
}

/// Runs the body of an exported function: counted, traced, with what is planned for it, and never unwinding into C.
pub(crate) fn enter(
    site: &'static Site,
    arguments: &[&dyn Debug],
    body: impl FnOnce(&'static Driver) -> Answer,
) -> c_int {
    // The first call of all makes the driver, which reads what the environment plans: for that call too. A fault in there
    // is met, and told, again below.
    let _ = catch_unwind(Driver::of_the_process);
    let plan = site.enter();
    let start = calls::traced().then(Instant::now);
    let work = || -> Answer {
        match plan {
            Some(Plan::Fail(code)) if site.name == ENDS_EVEN_SO => PLANNED.set(Some(code)),
            Some(Plan::Fail(code)) => return if code.0 == 0 { Ok(()) } else { Err(code) },
            Some(Plan::Delay(time)) => std::thread::sleep(time),
            Some(Plan::Lose(code)) => Driver::of_the_process().lose_all(code, "planned by a test"),
            None => {}
        }
        let driver = Driver::of_the_process();
        let mut inside = None;
        if site.needs != Needs::Nothing {
            driver.check_initialised()?;
            inside = driver.turns.call();
            if site.since > driver.settings().driver_version {
                // A driver of that version has no such function.
                return Err(Code::NOT_FOUND);
            }
        }
        if site.needs == Needs::Live {
            driver.check_current_device()?;
        }
        let answer = body(driver);
        drop(inside);
        answer
    };
    let answer = match catch_unwind(AssertUnwindSafe(work)) {
        Ok(Ok(())) => 0,
        Ok(Err(code)) => code.0,
        Err(_) => {
            eprintln!("cuforge-sim-driver: a fault of its own in {}; please report it", site.name);
            Code::UNKNOWN.0
        }
    };
    if let Some(start) = start {
        calls::write(site, arguments, answer, start);
    }
    answer
}

/// Defines exported functions: `[what it needs] name(arguments) since version; "what is simulated"; |driver| body`.
macro_rules! exports {
    ($(
        $needs:ident $name:ident ( $($argument:ident : $kind:ty),* $(,)? ) since $since:literal,
        $note:literal, |$driver:ident| $body:block
    )*) => {
        $(
            #[unsafe(no_mangle)]
            #[allow(clippy::too_many_arguments, reason = "the driver's own signature")]
            pub(crate) extern "C" fn $name($($argument: $kind),*) -> std::ffi::c_int {
                $crate::boundary::enter(
                    &$name::SITE,
                    &[$(&$argument as &dyn std::fmt::Debug),*],
                    |$driver| -> $crate::codes::Answer { $body },
                )
            }

            mod $name {
                pub(super) static SITE: $crate::calls::Site =
                    $crate::calls::Site::new(stringify!($name), $crate::calls::Needs::$needs, $since);
            }
        )*

        /// The functions of this file.
        pub(crate) const ENTRIES: &[$crate::boundary::Entry] = &[$($crate::boundary::Entry {
            site: &$name::SITE,
            address: || $name as *const () as usize,
            note: $note,
        }),*];
    };
}
pub(crate) use exports;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn null_is_an_invalid_value_and_text_is_cut_to_the_room_there_is() {
        assert_eq!(Out::<u32>(std::ptr::null_mut()).put(1), Err(Code::INVALID_VALUE));
        assert_eq!(In::<u32>(std::ptr::null()).get(), Err(Code::INVALID_VALUE));
        assert_eq!(In::<u32>(std::ptr::null()).list(0), Ok(Vec::new()));
        assert_eq!(Text(std::ptr::null()).get(), Err(Code::INVALID_VALUE));
        let mut room = [1 as c_char; 6];
        let out = Out(room.as_mut_ptr());
        out.put_text("device", 4).unwrap();
        assert_eq!(room.map(|byte| byte as u8), *b"dev\0\x01\x01");
        out.put_text("device", 0).unwrap();
        assert_eq!(room[0] as u8, b'd');
    }

    #[test]
    fn a_panic_is_an_unknown_error_and_goes_no_further() {
        static SITE: Site = Site::new("cuTestOfPanics", Needs::Nothing, 0);
        let answer = enter(&SITE, &[], |_| {
            std::panic::resume_unwind(Box::new("on purpose"));
        });
        assert_eq!(answer, 999);
    }
}
