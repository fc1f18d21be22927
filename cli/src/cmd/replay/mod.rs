//! `replay`: real blocks, compared with what they did on their chain and with sequential revm.
//!
//! ```text
//! folder ─► RealBlock ─► Case: senders, sequential revm ─► per executor and kind of hints: Ran ─► Line ─► JSON, table
//!                                                                        a difference ─► bundle, exit 3
//! ```

mod table;
mod bundle;
mod line;
mod run;
mod hints;
mod digest;
mod rules;
mod args;

pub(crate) use args::ReplayArgs;
pub(super) use rules::Rules;
#[cfg(feature = "node")]
pub(super) use run::{ommers, payload};

use crate::{exit, output, ui};
use anyhow::Context as _;
use line::Line;
use phalanx::Executor;
#[cfg(feature = "node")]
use phalanx::chain::ChainSpec;
use phalanx_lab::{
    config::threads,
    error::Usage,
    machine::pin::{self, Pinned},
    quality::Qualities,
    run::engines::{Setup, Take},
    ui::Ui,
    written::{self, Named},
};
use phalanx_workloads::fixtures::{FixtureError, RealBlock, find_blocks};
#[cfg(feature = "node")]
use run::Judged;
use run::{Case, Lessons};
use schemars::JsonSchema;
use serde::Serialize;
use std::{io::Write as _, path::Path};

impl ReplayArgs {
    /// Runs every block under the folders and prints the comparison.
    pub(super) fn run(&self) -> anyhow::Result<u8> {
        replay_all(self, &ui::open())
    }
}

fn replay_all(args: &ReplayArgs, ui: &Ui) -> anyhow::Result<u8> {
    args.check()?;
    let threads = threads(args.threads)?;
    let pinned = pin::confine(args.pin, threads)?;
    let mut dirs = Vec::new();
    for dir in &args.dirs {
        dirs.extend(find_blocks(dir).map_err(|error| Usage(error.to_string()))?);
    }
    let mut out = Lines::open(args.json.as_deref())?;
    let mut lines = Vec::new();
    let mut lessons = Lessons::default();
    let mut worst = exit::OK;
    let bar = ui.bar("blocks", dirs.len() as u64);
    for dir in &dirs {
        if ui.stopped() {
            worst = exit::INTERRUPTED;
            break;
        }
        bar.set_message(dir.display().to_string());
        match RealBlock::read(dir) {
            Ok(block) => {
                let made = replay(&block, (threads, &pinned), args, &mut lessons, ui)?;
                if made.iter().any(|line| line.differs()) {
                    worst = exit::DIVERGENCE;
                }
                for line in made {
                    out.write(&line)?;
                    lines.push(line);
                }
            }
            Err(error) => {
                worst = if worst == exit::OK { exit::FIXTURES } else { worst };
                report(dir, &error, &mut out)?;
            }
        }
        bar.inc(1);
    }
    bar.finish_and_clear();
    if args.quality {
        out.write(&lessons.quality.written())?;
    }
    out.finish()?;
    if args.json.as_deref() != Some(Path::new("-")) {
        output::print(&table::text(&lines, args.repeat()))?;
        if args.quality {
            output::print(&lessons.quality.text())?;
        }
    }
    Ok(worst)
}

/// A folder that holds no block that can be read, as a line.
#[derive(Serialize, JsonSchema)]
struct Malformed<'a> {
    /// The folder.
    dir: &'a Path,
    /// Fault of the folder.
    error: String,
}

/// A line of what is written.
#[derive(Serialize, JsonSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "the schema of any of them, which are written apart")]
enum AnyLine<'a> {
    /// A block on one executor.
    Block(Box<Line>),
    /// A folder that cannot be read.
    Malformed(Malformed<'a>),
    /// With `--quality`, the last line.
    Quality(Qualities),
}

/// Schema of a line.
pub(super) fn schema() -> Named {
    written::schema::<AnyLine<'_>>("replay", "replay --json, line by line")
}

/// Reports a block that cannot be read, as a line and on stderr.
fn report(dir: &Path, error: &FixtureError, out: &mut Lines) -> anyhow::Result<()> {
    let (dir_name, error_text) = (dir.display().to_string(), error.to_string());
    // Most errors name the file, and so the folder.
    let place = if error_text.contains(&dir_name) { String::new() } else { format!("{dir_name}: ") };
    eprintln!("phalanx: {place}{error_text}");
    out.write(&Malformed { dir, error: format!("malformed: {error}") })
}

/// Differences of a recorded block from its header, when sequential revm executes it on the recording alone.
///
/// # Errors
/// The engine fails.
#[cfg(feature = "node")]
pub(super) fn differences(block: &RealBlock, chain: &ChainSpec) -> anyhow::Result<Vec<String>> {
    let case = Case::with_rules(block, chain.clone())?;
    let found = match &case.truth {
        Judged::Valid(found) => found,
        Judged::Invalid(rule) => return Ok(vec![format!("is refused: {rule}")]),
    };
    let header = &block.header;
    let facts = [
        ("gas", found.gas_used == header.gas_used),
        // Before Byzantium a receipt holds the state's root, which a part of the state has not.
        ("receipts", found.receipts_root.is_none_or(|root| root == header.receipts_root)),
        ("logs", found.logs_bloom == header.logs_bloom),
        ("requests", found.requests_hash.is_none_or(|hash| header.requests_hash == Some(hash))),
        ("access list", found.access_list_hash.is_none_or(|hash| header.block_access_list_hash == Some(hash))),
        ("senders", case.senders_match != Some(false)),
    ];
    Ok(facts.iter().filter(|(_, equal)| !equal).map(|(what, _)| format!("differs from its header in {what}")).collect())
}

/// Runs one block on all executors.
fn replay(
    block: &RealBlock,
    (threads, pinned): (usize, &Pinned),
    args: &ReplayArgs,
    lessons: &mut Lessons,
    ui: &Ui,
) -> anyhow::Result<Vec<Line>> {
    let claims = block.check().map_err(|error| error.to_string());
    let mut case = Case::new(block).with_context(|| format!("block {}", block.header.number))?;
    let mut lines = Vec::new();
    for kind in &args.executors {
        let alone = *kind == Executor::Sequential;
        let threads = if alone { 1 } else { threads };
        let (schedule_seed, traces) = (args.schedule_seed, args.traces);
        let setup = Setup { executor: *kind, threads, schedule_seed, traces, workers: Take::AsFast };
        for ran in case.run(setup, pinned, args, lessons).with_context(|| format!("block {}", block.header.number))? {
            let mut line = Line::new(&case, setup, &ran, args, &claims);
            if line.differs() {
                let path = bundle::write(&case, &ran, &line, args)?;
                ui.say(&format!("block {}: {}; see {}", block.header.number, line.words(), path.display()));
                line.bundle = Some(path);
            }
            lines.push(line);
        }
    }
    if args.quality {
        case.measure(args, lessons).with_context(|| format!("block {}", block.header.number))?;
    }
    Ok(lines)
}

/// Writer of JSON lines.
struct Lines {
    file: Option<output::Beside>,
    stdout: bool,
}

impl Lines {
    fn open(path: Option<&Path>) -> anyhow::Result<Self> {
        let stdout = path == Some(Path::new("-"));
        let file = path.filter(|_| !stdout).map(output::Beside::create);
        Ok(Self { file: file.transpose()?, stdout })
    }

    fn write(&mut self, value: &impl Serialize) -> anyhow::Result<()> {
        let line = format!("{}\n", serde_json::to_string(value)?);
        if self.stdout {
            output::print(&line)?;
        }
        self.file.as_mut().map_or(Ok(()), |file| file.write_all(line.as_bytes())).context("writing JSON")
    }

    fn finish(self) -> anyhow::Result<()> {
        self.file.map_or(Ok(()), output::Beside::finish)
    }
}
