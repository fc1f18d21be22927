//! `test`: conformance tests of the Ethereum clients through a chosen executor.
//!
//! ```text
//! paths ─► one thread reads and unpacks ─► queue of a few files ─► a worker per core: parse, run, judge ─► Tally
//! ```

mod chain;
mod state;
mod import;
mod mpt;
mod exceptions;
mod tally;
mod difference;
mod kind;

pub(super) use tally::schema;

use crate::{exit, output, ui};
use chain::BlockchainTests;
use clap::{Args, Subcommand};
use kind::{Case, Kind, Plan, Verdict};
use phalanx::{Executor, Traces};
use phalanx_lab::{
    config::{choice, threads},
    error::Usage,
    machine::host,
    run::engines::{Setup, Take},
    ui::Ui,
};
use phalanx_workloads::fixtures::{FixtureError, FixtureFile, Test, read_tests, visit_files};
use state::StateTests;
use std::{
    ops::ControlFlow,
    path::PathBuf,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering::Relaxed},
        mpsc::{Receiver, sync_channel},
    },
};
use tally::Tally;

/// Number of files that are read in advance, per worker.
const READ_AHEAD: usize = 2;

#[derive(Debug, Subcommand)]
pub(crate) enum TestCommand {
    /// Run GeneralStateTests: one transaction on a small state, per hard fork and combination of inputs
    State(TestArgs),
    /// Run BlockchainTests and execution spec tests: valid and invalid blocks, with Ethereum state roots
    Blockchain(TestArgs),
}

#[derive(Clone, Debug, Args)]
pub(crate) struct TestArgs {
    /// Folders, or files .json, .json.gz or .tar.gz
    #[arg(required = true, value_name = "PATH")]
    pub(crate) paths: Vec<PathBuf>,
    /// Executor of the tests
    #[arg(long, value_parser = choice::<Executor>(), default_value = "dag")]
    pub(crate) executor: Executor,
    /// Worker threads of each engine, of which sequential revm has one; tests run side by side, one per core [default: one per core]
    #[arg(long)]
    pub(crate) threads: Option<usize>,
    /// Seed of one interleaving of the threads
    #[arg(long, value_name = "N")]
    pub(crate) schedule_seed: Option<u64>,
    /// Run only this hard fork or network
    #[arg(long, value_name = "NAME")]
    pub(crate) fork: Option<String>,
    /// Run only tests whose file or name contains this text
    #[arg(long, value_name = "TEXT")]
    pub(crate) filter: Option<String>,
    /// Print a summary as one JSON line before the last line
    #[arg(long)]
    pub(crate) json: bool,
}

impl TestCommand {
    pub(super) fn run(&self) -> anyhow::Result<u8> {
        match self {
            Self::State(args) => run(args, &StateTests, &ui::open()),
            Self::Blockchain(args) => run(args, &BlockchainTests, &ui::open()),
        }
    }
}

/// Runs all tests of `kind` under the paths and prints the failures.
fn run(args: &TestArgs, kind: &dyn Kind, ui: &Ui) -> anyhow::Result<u8> {
    output::check_exist(&args.paths)?;
    let threads = threads(args.threads)?;
    let (executor, schedule_seed) = (args.executor, args.schedule_seed);
    let setup = Setup { executor, threads, schedule_seed, traces: Traces::Checked, workers: Take::All };
    let plan = Plan { setup, fork: args.fork.as_deref() };
    let workers = host::cores();
    let tally = Mutex::new(Tally::default());
    let bar = ui.spinner("tests");
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (send, files) = sync_channel(workers * READ_AHEAD);
        // Only the workers hold the receiver: if none is left, sending fails and reading ends.
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
    if tally.ran() == 0 {
        return Err(Usage(nothing_ran(&tally)).into());
    }
    Ok(if tally.failed() == 0 { exit::OK } else { exit::FIXTURES })
}

/// Reason why no test was run, which is no success: a suite that is green because nothing ran hides every fault.
fn nothing_ran(tally: &Tally) -> String {
    let Some(first) = tally.skips().next().map(|(reason, _)| reason.to_owned()) else {
        return "no such test under the given paths".into();
    };
    let other = |kind: &str| tally.skips().all(|(reason, _)| reason == format!("{OTHER_KIND}{kind}"));
    match ["state", "blockchain"].into_iter().find(|kind| other(kind)) {
        Some(kind) => format!("nothing was run: these are tests of another kind, use `phalanx test {kind}`"),
        None => format!("nothing was run: every test was skipped, the first because of: {first}"),
    }
}

/// Beginning of the reason for which a test of another kind is skipped.
const OTHER_KIND: &str = "a test of another kind: ";

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
                    tell(Case::default(), Verdict::Skipped(format!("{OTHER_KIND}{other}")));
                }
            }
        }
    }
}
