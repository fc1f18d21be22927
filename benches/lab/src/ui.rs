//! Progress on stderr, and the user's wish to stop.

use crate::error::Interrupted;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use parking_lot::Mutex;
use std::{
    borrow::Cow,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

/// Time between two lines of progress where no bar is drawn.
const EVERY: Duration = Duration::from_secs(10);

/// The user's wish to stop, which a signal sets.
#[derive(Debug, Default)]
pub struct Stop {
    asked: AtomicBool,
    /// True while the command has nothing to report.
    prepares: AtomicBool,
}

impl Stop {
    /// Requests an end in order. Returns false if the process is to end at once: a request came before, or the command prepares
    /// and has nothing to report.
    pub fn ask(&self) -> bool {
        !self.prepares.load(Relaxed) && !self.asked.swap(true, Relaxed)
    }
}

/// Shows progress and carries the user's wish to stop.
#[derive(Clone, Debug)]
pub struct Ui {
    bars: bool,
    /// Suppresses lines as well as bars.
    silent: bool,
    stop: Arc<Stop>,
}

impl Ui {
    /// Draws bars if `bars`, else prints lines; a set `stop` ends the work at the next chance.
    pub const fn new(bars: bool, stop: Arc<Stop>) -> Self {
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
        self.stop.asked.load(Relaxed)
    }

    /// Says that nothing is to be reported before [`Self::prepared`]: until then a wish to stop ends the process at once, in the
    /// midst of a genesis too.
    pub fn prepares(&self) {
        self.stop.prepares.store(true, Relaxed);
    }

    /// Says that what was measured from now on is reported when the user stops.
    pub fn prepared(&self) {
        self.stop.prepares.store(false, Relaxed);
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

    /// Prints a warning, on a terminal too.
    pub fn warn(&self, line: &str) {
        if !self.silent {
            eprintln!("warning: {line}");
        }
    }

    /// Progress over `len` units of work named `what`.
    pub fn bar(&self, what: &str, len: u64) -> Progress {
        self.say(what);
        let bar = ProgressBar::with_draw_target(Some(len), self.target());
        let style = "{prefix:28} [{bar:28}] {percent:>3} %  {eta} left  {msg}";
        bar.set_style(ProgressStyle::with_template(style).expect("a valid template").progress_chars("=> "));
        self.progress(bar, what)
    }

    /// Progress of work of unknown length.
    pub fn spinner(&self, what: &str) -> Progress {
        self.say(what);
        let bar = ProgressBar::with_draw_target(None, self.target());
        bar.set_style(
            ProgressStyle::with_template("{prefix:28} {spinner} {elapsed}  {msg}").expect("a valid template"),
        );
        let progress = self.progress(bar, what);
        if self.bars {
            progress.bar.enable_steady_tick(Duration::from_millis(200));
        }
        progress
    }

    fn progress(&self, bar: ProgressBar, what: &str) -> Progress {
        bar.set_prefix(what.to_owned());
        let begun = Instant::now();
        let lines = (!self.bars && !self.silent).then(|| Mutex::new(Lines { begun, printed: begun, every: EVERY }));
        Progress { bar, what: what.to_owned(), lines }
    }

    fn target(&self) -> ProgressDrawTarget {
        if self.bars { ProgressDrawTarget::stderr_with_hz(8) } else { ProgressDrawTarget::hidden() }
    }
}

/// Progress of one piece of work: a bar on a terminal; elsewhere a line with numbers every ten seconds.
#[derive(Debug)]
pub struct Progress {
    bar: ProgressBar,
    what: String,
    /// `None` if a bar is drawn, or nothing is shown.
    lines: Option<Mutex<Lines>>,
}

/// Times of the lines.
#[derive(Debug)]
struct Lines {
    begun: Instant,
    printed: Instant,
    every: Duration,
}

impl Progress {
    /// Adds finished units.
    pub fn inc(&self, by: u64) {
        self.bar.inc(by);
        self.tell();
    }

    /// Sets the number of finished units.
    pub fn set_position(&self, at: u64) {
        self.bar.set_position(at);
        self.tell();
    }

    /// Number of finished units.
    pub fn position(&self) -> u64 {
        self.bar.position()
    }

    /// Sets the text beside the numbers.
    pub fn set_message(&self, message: impl Into<Cow<'static, str>>) {
        self.bar.set_message(message);
    }

    /// Ends the work and removes the bar.
    pub fn finish_and_clear(&self) {
        self.bar.finish_and_clear();
    }

    /// Prints a line if the last one is old.
    fn tell(&self) {
        // A line that another thread is printing is as good.
        let Some(mut lines) = self.lines.as_ref().and_then(Mutex::try_lock) else { return };
        if lines.printed.elapsed() >= lines.every {
            lines.printed = Instant::now();
            eprintln!("{}", self.line(lines.begun.elapsed()));
        }
    }

    /// The numbers after some time, in words.
    fn line(&self, elapsed: Duration) -> String {
        let (done, seconds, message) = (self.bar.position(), elapsed.as_secs(), self.bar.message());
        let of = self.bar.length().filter(|len| *len > 0).map_or_else(
            || format!("{done} done"),
            |len| format!("{done} of {len} ({} %)", done.saturating_mul(100) / len),
        );
        let message = if message.is_empty() { String::new() } else { format!(", {message}") };
        format!("  {}: {of} after {seconds} s{message}", self.what)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_have_numbers_and_bars_have_none() {
        let ui = Ui::new(false, Arc::default());
        let bar = ui.bar("working", 200);
        bar.set_position(40);
        bar.inc(10);
        bar.set_message("3 k tx/s");
        assert_eq!(bar.line(Duration::from_secs(12)), "  working: 50 of 200 (25 %) after 12 s, 3 k tx/s");
        let spinner = ui.spinner("testing");
        spinner.inc(7);
        assert_eq!(spinner.line(Duration::from_secs(10)), "  testing: 7 done after 10 s");
        assert_eq!(ui.bar("nothing", 0).line(Duration::ZERO), "  nothing: 0 done after 0 s");
        assert!(bar.lines.is_some(), "without a terminal there are lines");
        assert!(Ui::new(true, Arc::default()).bar("drawn", 1).lines.is_none());
        assert!(Ui::silent().bar("hushed", 1).lines.is_none());
    }

    #[test]
    fn the_first_wish_ends_in_order_what_has_something_to_report() {
        let stop = Arc::new(Stop::default());
        let ui = Ui::new(false, Arc::clone(&stop));
        ui.prepares();
        assert!(!stop.ask() && !stop.ask() && !ui.stopped());
        ui.prepared();
        assert!(stop.ask() && ui.stopped() && ui.hushed().go_on().is_err());
        assert!(!stop.ask(), "the second one ends at once");
    }

    #[test]
    fn a_line_is_due_after_its_time_and_not_before() {
        let bar = Ui::new(false, Arc::default()).bar("working", 2);
        let lines = bar.lines.as_ref().expect("lines");
        let first = lines.lock().printed;
        lines.lock().every = Duration::MAX;
        bar.inc(1);
        assert_eq!(lines.lock().printed, first, "not due");
        let ahead = first + Duration::from_secs(3600);
        lines.lock().every = Duration::ZERO;
        lines.lock().printed = ahead;
        bar.inc(1);
        assert!(lines.lock().printed < ahead && bar.position() == 2, "due");
    }
}
