//! The terminal: bars for people, and signals that end the process.

#[cfg(feature = "node")]
use crate::children;
use crate::exit;
use phalanx_lab::{
    error::Interrupted,
    machine::temporary,
    ui::{Stop, Ui},
};
use signal_hook::{
    consts::{SIGHUP, SIGINT, SIGTERM},
    iterator::Signals,
    low_level,
};
use std::{
    fs, io,
    io::IsTerminal as _,
    sync::{Arc, OnceLock},
    thread,
};

/// Wish to stop of a command that ends in order at a signal; absent for all others.
static STOP: OnceLock<Arc<Stop>> = OnceLock::new();

/// Watches for Ctrl-C, SIGTERM and SIGHUP. The first asks a command that has a terminal [open](open) to end in order. The second, or
/// the first to any other command, ends the process at once: child processes, temporary stores
/// and unfinished output go.
///
/// A process that was started by `nohup` ignores SIGHUP, as there.
pub(crate) fn watch_signals() -> io::Result<()> {
    let mut watched = vec![SIGINT, SIGTERM];
    watched.extend((!is_ignored(SIGHUP)).then_some(SIGHUP));
    let mut signals = Signals::new(watched)?;
    let watch = move || {
        for _ in signals.forever() {
            if STOP.get().is_some_and(|stop| stop.ask()) {
                continue;
            }
            if STOP.get().is_some() {
                // As a command says that ends in order.
                eprintln!("phalanx: {Interrupted}");
            }
            #[cfg(feature = "node")]
            children::kill_all();
            temporary::remove_all();
            // Other threads still work: no destructor of theirs may run beside them.
            low_level::exit(exit::INTERRUPTED.into());
        }
    };
    thread::Builder::new().name("signals".into()).spawn(watch).map(drop)
}

/// True if the process was started with a signal ignored. False where the system does not tell.
fn is_ignored(signal: i32) -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| u64::from_str_radix(line.strip_prefix("SigIgn:")?.trim(), 16).ok());
    mask.is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
}

/// Opens the terminal of a command that ends in order at a signal.
pub(crate) fn open() -> Ui {
    Ui::new(bars(), Arc::clone(STOP.get_or_init(Arc::default)))
}

/// Opens the terminal of a command that has nothing to report before it is [prepared](Ui::prepared), if ever: until then
/// the first signal ends it at once.
pub(crate) fn measuring() -> Ui {
    let ui = open();
    ui.prepares();
    ui
}

/// Opens the terminal of a command that has nothing to report before its end: the first signal ends it at once.
pub(crate) fn immediate() -> Ui {
    Ui::new(bars(), Arc::default())
}

/// Warns of flags that were given and have no effect.
pub(crate) fn warn_of_idle(idle: impl IntoIterator<Item = String>, ui: &Ui) {
    idle.into_iter().for_each(|idle| ui.warn(&idle));
}

/// True if bars are drawn: on a terminal that can move its cursor, outside of continuous integration. Nothing in them has a
/// colour, so `NO_COLOR` does not matter.
fn bars() -> bool {
    let value = |name| std::env::var_os(name).filter(|value| !value.is_empty());
    std::io::stderr().is_terminal() && value("CI").is_none() && value("TERM").is_none_or(|term| term != "dumb")
}
