//! `test`: conformance tests of the Ethereum clients through a chosen executor.
//!
//! ```text
//! paths ─► one thread reads and unpacks ─► queue of a few files ─► a worker per core: parse, run, judge ─► Tally
//! ```

mod chain;
mod difference;
mod exceptions;
mod import;
mod mpt;
mod state;
mod tally;

pub(crate) use chain::BlockchainTests;
pub(crate) use difference::first_difference;
pub(crate) use state::StateTests;

use crate::{
    args::{self, TestArgs, TracesKind},
    exit::{self, Usage},
    given::{Setup, Take},
    host, output,
    ui::Ui,
};
use phalanx_workloads::fixtures::{FixtureError, FixtureFile, Test, read_tests, visit_files};
use std::{
    ops::ControlFlow,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering::Relaxed},
        mpsc::{Receiver, sync_channel},
    },
};
use tally::{Case, Tally};

/// Files that are read ahead, per worker.
const READ_AHEAD: usize = 2;

/// The verdict on one case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It led where the fixture says.
    Passed,
    /// It did not, or the fixture is malformed.
    Failed(String),
    /// The engine does not have its rules.
    Skipped(String),
}

/// One kind of test.
pub(crate) trait Kind: Sync {
    /// Runs the cases of the test with this name, if it is of this kind, and tells the verdict on each. `false` if it is of
    /// another.
    fn run(&self, name: &str, test: &Test, plan: &Plan<'_>, tell: &mut dyn FnMut(Case, Verdict)) -> bool;
}

/// What is run, and how.
pub(crate) struct Plan<'a> {
    pub(crate) setup: Setup,
    fork: Option<&'a str>,
}

impl Plan<'_> {
    /// Whether `--fork` asks for it.
    pub(crate) fn wants(&self, fork: &str) -> bool {
        self.fork.is_none_or(|wanted| wanted.eq_ignore_ascii_case(fork))
    }

    /// A verdict, whatever happens: a panic is a failure too.
    pub(crate) fn judge(&self, run: impl FnOnce() -> Verdict) -> Verdict {
        catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|panic| {
            let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
            let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
            Verdict::Failed(format!("internal: the engine panicked: {}", text.unwrap_or_default()))
        })
    }
}

/// Runs all tests of `kind` under the paths and prints the failures.
pub(crate) fn run(args: &TestArgs, kind: &dyn Kind, ui: &Ui) -> anyhow::Result<u8> {
    args.check()?;
    let threads = args::threads(args.threads)?;
    let (executor, schedule_seed) = (args.executor, args.schedule_seed);
    let setup = Setup { executor, threads, schedule_seed, traces: TracesKind::Check, workers: Take::All };
    let plan = Plan { setup, fork: args.fork.as_deref() };
    let workers = host::cores();
    let tally = Mutex::new(Tally::default());
    let bar = ui.spinner("tests");
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (send, files) = sync_channel(workers * READ_AHEAD);
        // The workers alone hold the receiver: if none is left, sending fails and reading ends.
        let files = Arc::new(Mutex::new(files));
        let (tally, plan, done, bar) = (&tally, &plan, &done, &bar);
        for _ in 0..workers {
            let files = Arc::clone(&files);
            scope.spawn(move || {
                while let Some(file) = next(&files) {
                    if !ui.stopped() && !done.load(Relaxed) {
                        run_file(file, kind, plan, args.filter.as_deref(), tally);
                        bar.set_message(lock(tally).to_string());
                        bar.inc(1);
                    }
                }
            });
        }
        drop(files);
        for path in &args.paths {
            let end = visit_files(path, &mut |file| match send.send(file) {
                Ok(()) if !ui.stopped() => ControlFlow::Continue(()),
                _ => ControlFlow::Break(()),
            });
            if end.is_break() {
                done.store(true, Relaxed);
                break;
            }
        }
        drop(send);
    });
    bar.finish_and_clear();
    let tally = tally.into_inner().unwrap_or_else(PoisonError::into_inner);
    for (reason, count) in tally.skips() {
        eprintln!("skipped {count}: {reason}");
    }
    output::print(&tally.text(args.json)?)?;
    if ui.stopped() {
        return Ok(exit::INTERRUPTED);
    }
    if tally.is_empty() {
        return Err(Usage("there is no such test under the paths given".into()).into());
    }
    Ok(if tally.failed() == 0 { exit::OK } else { exit::FIXTURES })
}

fn lock(tally: &Mutex<Tally>) -> std::sync::MutexGuard<'_, Tally> {
    tally.lock().unwrap_or_else(PoisonError::into_inner)
}

fn next<T>(files: &Mutex<Receiver<T>>) -> Option<T> {
    files.lock().unwrap_or_else(PoisonError::into_inner).recv().ok()
}

fn run_file(
    file: Result<FixtureFile, FixtureError>,
    kind: &dyn Kind,
    plan: &Plan<'_>,
    filter: Option<&str>,
    tally: &Mutex<Tally>,
) {
    let broken = |file: &str, test: &str, error: &FixtureError| {
        let case = Case { file: file.to_owned(), test: test.to_owned(), ..Case::default() };
        lock(tally).add(case, Verdict::Failed(format!("malformed: {error}")));
    };
    let file = match file {
        Ok(file) => file,
        Err(error) => return broken("", "", &error),
    };
    let in_file = filter.is_none_or(|text| file.name.contains(text));
    let tests = match read_tests(&file.bytes) {
        Ok(tests) => tests,
        Err(error) if in_file => return broken(&file.name, "", &error),
        Err(_) => return,
    };
    for (name, test) in tests {
        if !in_file && filter.is_some_and(|text| !name.contains(text)) {
            continue;
        }
        match test {
            Err(error) => broken(&file.name, &name, &error),
            Ok(test) => {
                let mut tell = |case: Case, verdict| {
                    lock(tally).add(Case { file: file.name.clone(), test: name.clone(), ..case }, verdict);
                };
                if !kind.run(&name, &test, plan, &mut tell) {
                    let other = match test {
                        Test::State(_) => "state",
                        Test::Blockchain(_) => "blockchain",
                        Test::Other(kind) => kind,
                    };
                    tell(Case::default(), Verdict::Skipped(format!("a test of another kind: {other}")));
                }
            }
        }
    }
}
