//! The `jarvis` command.

use std::process::ExitCode;

fn main() -> ExitCode {
    jarvis::cli::main()
}
