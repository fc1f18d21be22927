//! Progress on stderr, and the user's wish to stop.

use crate::error::Interrupted;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};

/// Shows progress and carries the user's wish to stop.
#[derive(Clone, Debug)]
pub struct Ui {
    bars: bool,
    /// Suppresses lines as well as bars.
    silent: bool,
    stop: Arc<AtomicBool>,
}

impl Ui {
    /// Draws bars if `bars`, else prints lines; a set `stop` ends the work at the next chance.
    pub const fn new(bars: bool, stop: Arc<AtomicBool>) -> Self {
        Self { bars, silent: false, stop }
    }

    /// Shows nothing and is never stopped: for tests.
    #[cfg(test)]
    pub(crate) fn silent() -> Self {
        Self { bars: false, silent: true, stop: Arc::default() }
    }

    /// The same without bars and lines, for work beside other work.
    pub(crate) fn hushed(&self) -> Self {
        Self { bars: false, silent: true, stop: Arc::clone(&self.stop) }
    }

    /// True if the user asked to stop.
    pub fn stopped(&self) -> bool {
        self.stop.load(Relaxed)
    }

    /// Ends work that has nothing to report before its end.
    ///
    /// # Errors
    /// If the user asked to stop.
    pub fn go_on(&self) -> Result<(), Interrupted> {
        if self.stopped() { Err(Interrupted) } else { Ok(()) }
    }

    /// Prints one line, unless bars are drawn.
    pub fn say(&self, line: &str) {
        if !self.bars && !self.silent {
            eprintln!("{line}");
        }
    }

    /// A bar over `len` units of work named `what`.
    pub fn bar(&self, what: &str, len: u64) -> ProgressBar {
        self.say(what);
        let bar = ProgressBar::with_draw_target(Some(len), self.target());
        let style = "{prefix:28} [{bar:28}] {percent:>3} %  {msg}";
        bar.set_style(ProgressStyle::with_template(style).expect("a valid template").progress_chars("=> "));
        bar.set_prefix(what.to_owned());
        bar
    }

    /// A spinner for work of unknown length.
    pub fn spinner(&self, what: &str) -> ProgressBar {
        self.say(what);
        let bar = ProgressBar::with_draw_target(None, self.target());
        bar.set_style(
            ProgressStyle::with_template("{prefix:28} {spinner} {elapsed}  {msg}").expect("a valid template"),
        );
        bar.set_prefix(what.to_owned());
        if self.bars {
            bar.enable_steady_tick(Duration::from_millis(200));
        }
        bar
    }

    fn target(&self) -> ProgressDrawTarget {
        if self.bars { ProgressDrawTarget::stderr_with_hz(8) } else { ProgressDrawTarget::hidden() }
    }
}
