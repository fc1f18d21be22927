//! What a person at a terminal sees while work goes on. All of it goes to stderr.

use crate::exit::Interrupted;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::{
    io::IsTerminal as _,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};

/// The terminal, and whether its user wants to stop.
#[derive(Clone, Debug)]
pub(crate) struct Ui {
    bars: bool,
    /// Nothing is shown, be it in lines.
    hushed: bool,
    stop: Arc<AtomicBool>,
}

impl Ui {
    /// Watches for Ctrl-C. Bars are drawn only on a terminal whose user has not asked for plain output.
    pub(crate) fn new() -> anyhow::Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&stop);
        ctrlc::set_handler(move || {
            if flag.swap(true, Relaxed) {
                // The second time: now.
                std::process::exit(crate::exit::INTERRUPTED.into());
            }
        })?;
        let wanted = |name| std::env::var_os(name).is_none_or(|value| value.is_empty());
        let bars = std::io::stderr().is_terminal() && wanted("NO_COLOR") && wanted("CI");
        Ok(Self { bars, hushed: false, stop })
    }

    /// For tests: draws nothing, and watches nobody.
    #[cfg(test)]
    pub(crate) fn silent() -> Self {
        Self { bars: false, hushed: true, stop: Arc::default() }
    }

    /// The same without bars and news, for what goes on beside something else.
    pub(crate) fn hushed(&self) -> Self {
        Self { bars: false, hushed: true, stop: Arc::clone(&self.stop) }
    }

    /// Whether Ctrl-C was pressed.
    pub(crate) fn stopped(&self) -> bool {
        self.stop.load(Relaxed)
    }

    /// For work that has nothing to report before its end.
    ///
    /// # Errors
    /// Once Ctrl-C was pressed.
    pub(crate) fn go_on(&self) -> Result<(), Interrupted> {
        if self.stopped() { Err(Interrupted) } else { Ok(()) }
    }

    /// One line of news, where no bar tells it.
    pub(crate) fn say(&self, line: &str) {
        if !self.bars && !self.hushed {
            eprintln!("{line}");
        }
    }

    /// A bar over `len` units of work called `what`.
    pub(crate) fn bar(&self, what: &str, len: u64) -> ProgressBar {
        self.say(what);
        let bar = ProgressBar::with_draw_target(Some(len), self.target());
        let style = "{prefix:28} [{bar:28}] {percent:>3} %  {msg}";
        bar.set_style(ProgressStyle::with_template(style).expect("a valid template").progress_chars("=> "));
        bar.set_prefix(what.to_owned());
        bar
    }

    /// A sign of life for work of unknown length.
    pub(crate) fn spinner(&self, what: &str) -> ProgressBar {
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
