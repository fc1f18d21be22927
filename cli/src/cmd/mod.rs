//! The commands: a file or folder each, with its flags and what it does.

mod demo;
mod bench;
mod explain;
mod replay;
mod test;
mod simulate;
mod state;
mod doctor;
mod completions;
mod man;
mod version;

use crate::{exit, output};
use clap::{CommandFactory as _, Parser, Subcommand};

/// Parallel EVM execution engine: demo, benchmarks and tools.
#[derive(Debug, Parser)]
#[command(name = "phalanx", version, after_help = "Try: phalanx demo")]
pub(crate) struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Native and ERC20 transfers through every stage to a durable root, in under a minute
    Demo(demo::DemoArgs),
    /// Measurements
    #[command(subcommand)]
    Bench(bench::BenchCommand),
    /// Real blocks, compared with what they did on their chain and with sequential revm
    Replay(Box<replay::ReplayArgs>),
    /// Conformance tests of the Ethereum clients
    #[command(subcommand)]
    Test(test::TestCommand),
    /// Consensus and pipeline in a simulated network, in virtual time
    #[command(subcommand)]
    Simulate(simulate::SimulateCommand),
    /// Looks at a state store
    #[command(subcommand)]
    State(state::StateCommand),
    /// Why a block is as parallel as it is: critical path, hottest keys, escapes
    Explain(Box<explain::ExplainArgs>),
    /// What on this machine spoils a measurement
    Doctor(doctor::DoctorArgs),
    /// A script for a shell that completes commands and flags
    Completions(completions::CompletionsArgs),
    /// The manual page, for man(1)
    Man(man::ManArgs),
    /// What this program is
    Version(version::VersionArgs),
}

impl Cli {
    /// Runs the command and returns its exit code.
    pub(crate) fn run(&self) -> anyhow::Result<u8> {
        match &self.command {
            None => output::print(&format!("{}\n", Self::command().render_help())).map(|()| exit::OK),
            Some(Command::Demo(args)) => args.run(),
            Some(Command::Bench(command)) => command.run(),
            Some(Command::Replay(args)) => args.run(),
            Some(Command::Test(command)) => command.run(),
            Some(Command::Simulate(command)) => command.run(),
            Some(Command::State(command)) => command.run(),
            Some(Command::Explain(args)) => args.run(),
            Some(Command::Doctor(args)) => args.run(),
            Some(Command::Completions(args)) => args.run(&mut Self::command()),
            Some(Command::Man(args)) => args.run(Self::command()),
            Some(Command::Version(args)) => args.run(),
        }
    }
}
