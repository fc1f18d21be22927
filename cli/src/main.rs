//! The `phalanx` command.

mod cmd;
mod flags;
mod output;
mod ui;
#[cfg(feature = "node")]
mod children;
mod exit;

use flags::profile;
use phalanx_lab::{
    doctor,
    machine::{host, memory},
};
use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Cargo features of this build, in alphabetical order.
const FEATURES: &[&str] = match (cfg!(feature = "node"), cfg!(feature = "rocksdb")) {
    (true, true) => &["node", "rocksdb"],
    (true, false) => &["node"],
    (false, true) => &["rocksdb"],
    (false, false) => &[],
};

fn main() -> ExitCode {
    memory::keep();
    host::note_features(FEATURES);
    doctor::note_load();
    if let Err(error) = ui::watch_signals() {
        eprintln!("phalanx: watching for signals: {error}");
        return exit::INTERNAL.into();
    }
    let mut expanded = match profile::expand(std::env::args_os().collect()) {
        Ok(expanded) => expanded,
        Err(error) => {
            eprintln!("phalanx: {error}");
            return exit::USAGE.into();
        }
    };
    let words = core::mem::take(&mut expanded.words);
    #[cfg(feature = "node")]
    let words = match cmd::node::expand(words, std::env::vars_os()) {
        Ok(words) => words,
        Err(error) => {
            eprintln!("phalanx: {error}");
            return exit::USAGE.into();
        }
    };
    let cli = match cmd::Cli::from_words(words, &expanded) {
        Ok(cli) => cli,
        Err(error) => {
            // Help on request goes to stdout and is no failure.
            let code = if error.use_stderr() { exit::USAGE } else { exit::OK };
            let _ = error.print();
            if let Some(blame) = expanded.blame(&error.to_string()).filter(|_| code == exit::USAGE) {
                eprintln!("phalanx: {blame}");
            }
            return code.into();
        }
    };
    match cli.run() {
        Ok(code) => code.into(),
        Err(error) => {
            eprintln!("phalanx: {}", exit::reason(&error));
            exit::code_of(&error).into()
        }
    }
}
