//! The helper process of `HelperPool`: loads one NVRTC and compiles what comes over its standard input, a socket.
#![forbid(unsafe_code)]

use std::process::ExitCode;

#[cfg(unix)]
fn main() -> ExitCode {
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;
    use std::path::PathBuf;

    let mut arguments = std::env::args_os().skip(1).map(PathBuf::from);
    let Some(library) = arguments.next() else {
        eprintln!("usage: cuforge-compile-helper LIBNVRTC [BUILTINS], with a socket as standard input");
        return ExitCode::from(64);
    };
    let served = std::io::stdin()
        .as_fd()
        .try_clone_to_owned()
        .and_then(|socket| cuforge_compile::serve(UnixStream::from(socket), library, arguments.next()));
    match served {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("cuforge-compile-helper: {error}");
            ExitCode::FAILURE
        }
    }
}

#[cfg(not(unix))]
fn main() -> ExitCode {
    eprintln!("cuforge-compile-helper runs on Unix only");
    ExitCode::FAILURE
}
