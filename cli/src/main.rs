//! The `phalanx` command.

mod args;
mod bench;
mod clock;
mod compare;
mod conformance;
mod demo;
mod doctor;
mod drive;
mod exit;
mod explain;
mod given;
mod host;
mod memory;
mod oracle;
mod output;
mod pin;
mod profile;
mod quality;
mod replay;
mod report;
mod result;
mod scale;
mod schedule;
mod shell;
mod simulate;
mod state;
mod steady;
mod store_bench;
mod sweep;
mod trace;
mod ui;

use args::{BenchCommand, Cli, Command, SimulateCommand, StateCommand, TestCommand};
use clap::{CommandFactory as _, Parser as _};
use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    memory::keep();
    let words = match profile::expand(std::env::args_os().collect()) {
        Ok(words) => words,
        Err(error) => {
            eprintln!("phalanx: {error}");
            return exit::USAGE.into();
        }
    };
    let cli = match Cli::try_parse_from(words) {
        Ok(cli) => cli,
        Err(error) => {
            // Help that was asked for goes to stdout and is no failure.
            let code = if error.use_stderr() { exit::USAGE } else { exit::OK };
            let _ = error.print();
            return code.into();
        }
    };
    match run(cli) {
        Ok(code) => code.into(),
        Err(error) => {
            eprintln!("phalanx: {}", exit::reason(&error));
            exit::code_of(&error).into()
        }
    }
}

fn run(cli: Cli) -> anyhow::Result<u8> {
    let Some(command) = cli.command else {
        output::print(&format!("{}\n", Cli::command().render_help()))?;
        return Ok(exit::OK);
    };
    match command {
        Command::Demo(args) => {
            let results = demo::run(&args, &ui::Ui::new()?)?;
            output::show(&results, args.json.as_deref(), &results, None, Some(&args.report))?;
            Ok(bench::code(&results))
        }
        Command::Bench(BenchCommand::Run(args)) => {
            let result = [bench::run(&args, &ui::Ui::new()?)?];
            output::show(&result, args.json.as_deref(), &result[0], args.csv.as_deref(), args.report.as_deref())?;
            Ok(bench::code(&result))
        }
        Command::Bench(BenchCommand::Build(args)) => {
            let result = [bench::build(&args, &ui::Ui::new()?)?];
            output::show(&result, args.json.as_deref(), &result[0], args.csv.as_deref(), args.report.as_deref())?;
            Ok(bench::code(&result))
        }
        Command::Bench(BenchCommand::Sweep(args)) => sweep::run(&args, &ui::Ui::new()?),
        Command::Bench(BenchCommand::Scale(args)) => scale::run(&args, &ui::Ui::new()?),
        Command::Bench(BenchCommand::Compare(args)) => compare::run(&args, &ui::Ui::new()?),
        Command::Bench(BenchCommand::Schedule(args)) => schedule::run(&args, &ui::Ui::new()?),
        Command::Replay(args) => replay::run(&args, &ui::Ui::new()?),
        Command::Test(TestCommand::State(args)) => conformance::run(&args, &conformance::StateTests, &ui::Ui::new()?),
        Command::Test(TestCommand::Blockchain(args)) => {
            conformance::run(&args, &conformance::BlockchainTests, &ui::Ui::new()?)
        }
        Command::Simulate(SimulateCommand::Zaptos(args)) => simulate::run(&args, &ui::Ui::new()?),
        Command::Bench(BenchCommand::Store(args)) => store_bench::run(&args, &ui::Ui::new()?),
        Command::State(StateCommand::Info { db, json }) => state::info(&db, json),
        Command::State(StateCommand::Get { db, key }) => state::get(&db, &key),
        Command::State(StateCommand::Prove { db, key }) => state::prove(&db, &key),
        Command::State(StateCommand::Verify { proof, root, hasher }) => state::verify(&proof, &root, hasher),
        Command::State(StateCommand::Check { db }) => state::check(&db),
        Command::State(StateCommand::Prune { db }) => state::prune(&db),
        Command::State(StateCommand::Backup { db, to }) => state::backup(&db, to),
        Command::State(StateCommand::Export { db, to }) => state::export(&db, &to),
        Command::State(StateCommand::Import { db, from, root }) => state::import(&db, &from, root.as_ref()),
        Command::Explain(args) => explain::run(&args, &ui::Ui::new()?),
        Command::Doctor(args) => doctor::run(&args),
        Command::Completions { shell } => shell::completions(shell).map(|()| exit::OK),
        Command::Man(args) => shell::man(args.dir.as_deref()).map(|()| exit::OK),
        Command::Version { json } => {
            let tool = host::tool();
            if json {
                output::json(std::path::Path::new("-"), &tool)?;
            } else {
                let features = if tool.features.is_empty() { "none".to_owned() } else { tool.features.join(", ") };
                let commit = format!("commit {}, {}, features: {features}", tool.commit, tool.rustc);
                output::print(&format!("phalanx {} ({commit})\n", tool.version))?;
            }
            Ok(exit::OK)
        }
    }
}
