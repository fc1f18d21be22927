//! The terminal: bars for people, and Ctrl-C.

use crate::exit;
use phalanx_lab::ui::Ui;
use std::{
    io::IsTerminal as _,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
};

/// Watches for Ctrl-C. Bars are drawn only on a terminal, without `NO_COLOR` and `CI`.
pub(crate) fn open() -> anyhow::Result<Ui> {
    let stop = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&stop);
    ctrlc::set_handler(move || {
        if flag.swap(true, Relaxed) {
            // The second Ctrl-C does not wait for results.
            std::process::exit(exit::INTERRUPTED.into());
        }
    })?;
    let unset = |name| std::env::var_os(name).is_none_or(|value| value.is_empty());
    let bars = std::io::stderr().is_terminal() && unset("NO_COLOR") && unset("CI");
    Ok(Ui::new(bars, stop))
}
