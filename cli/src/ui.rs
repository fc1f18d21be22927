//! The terminal: bars for people, and signals that end the process.

use crate::exit;
use phalanx_lab::{machine::temporary, ui::Ui};
use std::{
    io::IsTerminal as _,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
};

/// Watches for Ctrl-C, SIGTERM and SIGHUP, which all stop the command. Bars are drawn only on a terminal, without `NO_COLOR` and `CI`.
pub(crate) fn open() -> anyhow::Result<Ui> {
    let stop = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&stop);
    ctrlc::set_handler(move || {
        if flag.swap(true, Relaxed) {
            // The second signal does not wait for results.
            temporary::remove_all();
            std::process::exit(exit::INTERRUPTED.into());
        }
    })?;
    let unset = |name| std::env::var_os(name).is_none_or(|value| value.is_empty());
    let bars = std::io::stderr().is_terminal() && unset("NO_COLOR") && unset("CI");
    Ok(Ui::new(bars, stop))
}
