//! Link options of the library file: it stays loaded once it is, as it keeps threads, and calls its own functions.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if std::env::var("CARGO_CFG_TARGET_OS").as_deref() == Ok("linux") {
        println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
        println!("cargo::rustc-cdylib-link-arg=-Wl,-Bsymbolic");
        // Tests load many copies of the file; what its own faults print has file and line without it.
        println!("cargo::rustc-cdylib-link-arg=-Wl,--strip-debug");
    }
}
