//! The story of one run: read the command line, do what it says, print the report, exit with 0 (right), 1 (a result
//! failed its check) or 2 (could not be done).

mod cli;
mod commands;

use std::{
    io::{self, Write},
    process::ExitCode,
};

use clap::Parser;

fn main() -> ExitCode {
    let_large_files_be_errors();
    let arguments = cli::Arguments::parse();
    match commands::run(&arguments) {
        Ok(outcome) => match print(&outcome.text) {
            Ok(()) if outcome.passed => ExitCode::SUCCESS,
            Ok(()) => ExitCode::from(1),
            Err(error) => fail(&format!("cannot print the result: {error}")),
        },
        Err(error) => fail(&error.to_string()),
    }
}

/// Makes writing beyond the largest size that files may have (`ulimit -f`) an error, in place of a signal that ends the program, which would leave a
/// half-written file behind.
fn let_large_files_be_errors() {
    // SAFETY: it changes what one signal does, and no other thread runs yet.
    #[cfg(unix)]
    unsafe {
        libc::signal(libc::SIGXFSZ, libc::SIG_IGN)
    };
}

/// Prints a report. A reader who has seen enough and closed the pipe is no error.
fn print(text: &str) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    match writeln!(stdout, "{text}").and_then(|()| stdout.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        other => other,
    }
}

fn fail(message: &str) -> ExitCode {
    // Nothing is left to tell if standard error is closed too.
    let _ = writeln!(io::stderr(), "error: {message}");
    ExitCode::from(2)
}
