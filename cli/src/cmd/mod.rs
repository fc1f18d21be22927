//! The commands: a file or folder each, with flags and run.

mod schema;
mod demo;
#[cfg(feature = "node")]
mod localnet;
#[cfg(feature = "node")]
pub(crate) mod node;
mod bench;
mod explain;
#[cfg(feature = "node")]
mod fetch;
mod replay;
mod test;
mod simulate;
mod net;
mod keys;
mod members;
mod state;
mod doctor;
mod claims;
mod completions;
mod man;
mod version;
#[cfg(feature = "node")]
mod process;
mod idle;
mod own;

use crate::{
    exit,
    flags::{outputs, profile::Expanded},
    output,
};
use clap::{
    CommandFactory as _, FromArgMatches as _, Parser, Subcommand,
    error::{ContextKind, ContextValue, ErrorKind},
};

/// Parallel EVM execution engine: demo, benchmarks and tools.
#[derive(Debug, Parser)]
#[command(name = "phalanx", bin_name = "phalanx", version, after_help = "Try: phalanx demo", after_long_help = exit::help())]
pub(crate) struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run native and ERC20 transfers through every stage to a durable root, in under a minute
    Demo(demo::DemoArgs),
    /// Run a chain that wallets and libraries talk to
    #[cfg(feature = "node")]
    Node(Box<node::NodeArgs>),
    /// Run a chain of several validators on this machine: a node for each, with CometBFT or a replica
    #[cfg(feature = "node")]
    Localnet(localnet::LocalnetArgs),
    /// Measure
    #[command(subcommand)]
    Bench(bench::BenchCommand),
    /// Replay real blocks and compare with their chain and with sequential revm
    Replay(Box<replay::ReplayArgs>),
    /// Record blocks with the state before them from a node, for replay
    #[cfg(feature = "node")]
    Fetch(fetch::FetchArgs),
    /// Run the conformance tests of the Ethereum clients
    #[command(subcommand)]
    Test(test::TestCommand),
    /// Simulate consensus and pipeline in a network, in virtual time
    #[command(subcommand)]
    Simulate(simulate::SimulateCommand),
    /// Start real replicas on this machine, drive clients and faults, and compare every result
    Net(Box<net::NetArgs>),
    /// Run one replica of a network
    Replica(net::ReplicaArgs),
    /// Make the keys of a network whose operators trust no dealer
    #[command(subcommand)]
    Keys(keys::KeysCommand),
    /// Change the members of a network while it runs
    #[command(subcommand)]
    Members(members::MembersCommand),
    /// Read, prove, check and copy a state store
    #[command(subcommand)]
    State(state::StateCommand),
    /// Explain the parallelism of a block: critical path, hottest keys, escapes
    Explain(Box<explain::ExplainArgs>),
    /// Find sources of benchmark noise on this machine
    Doctor(doctor::DoctorArgs),
    /// Measure the ratios that the documents claim, and compare
    Claims(claims::ClaimsArgs),
    /// Print the JSON Schema of what a command writes with --json
    Schema(schema::SchemaArgs),
    /// Print a completion script for a shell
    Completions(completions::CompletionsArgs),
    /// Print the manual page, for man(1)
    Man(man::ManArgs),
    /// Print version, commit, compiler and features
    Version(version::VersionArgs),
}

impl Cli {
    /// Reads a command line. Counts may have suffixes. A flag without effect beside the others is refused, unless a profile
    /// [added](Expanded::adds) it, and so is output that cannot be written.
    pub(crate) fn from_words(words: Vec<std::ffi::OsString>, profile: &Expanded) -> Result<Self, clap::Error> {
        let mut command = phalanx_lab::config::numbers(Self::command());
        let matches = command.try_get_matches_from_mut(words).map_err(|mut error| {
            // The tip to pass an unknown flag "as a value" leads nowhere.
            error.remove(ContextKind::Suggested);
            if let Some(tip) = absent(&error) {
                error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
            }
            error
        })?;
        idle::check(&mut command, &matches, profile)?;
        let parsed = Self::from_arg_matches(&matches)?;
        outputs::check(&matches).map_err(|what| command.error(ErrorKind::ValueValidation, what))?;
        Ok(parsed)
    }

    /// Runs the command and returns its exit code.
    pub(crate) fn run(&self) -> anyhow::Result<u8> {
        match &self.command {
            None => output::print(&format!("{}\n", Self::command().render_help())).map(|()| exit::OK),
            Some(Command::Demo(args)) => args.run(),
            #[cfg(feature = "node")]
            Some(Command::Node(args)) => args.run(),
            #[cfg(feature = "node")]
            Some(Command::Localnet(args)) => args.run(),
            Some(Command::Bench(command)) => command.run(),
            Some(Command::Replay(args)) => args.run(),
            #[cfg(feature = "node")]
            Some(Command::Fetch(args)) => args.run(),
            Some(Command::Test(command)) => command.run(),
            Some(Command::Simulate(command)) => command.run(),
            Some(Command::Net(args)) => args.run(),
            Some(Command::Replica(args)) => args.run(),
            Some(Command::Keys(command)) => command.run(),
            Some(Command::Members(command)) => command.run(),
            Some(Command::State(command)) => command.run(),
            Some(Command::Explain(args)) => args.run(),
            Some(Command::Doctor(args)) => args.run(),
            Some(Command::Claims(args)) => args.run(),
            Some(Command::Schema(args)) => args.run(),
            Some(Command::Completions(args)) => args.run(&mut Self::command()),
            Some(Command::Man(args)) => args.run(Self::command().after_long_help("")),
            Some(Command::Version(args)) => args.run(),
        }
    }
}

/// Commands, of `bench` as well, that only a build with feature `node` has.
const OF_NODE: [&str; 3] = ["node", "localnet", "fetch"];

/// Sentence that names the feature with an unknown command; `None` if no build has such a command.
fn absent(error: &clap::Error) -> Option<String> {
    let unknown = error.get(ContextKind::InvalidSubcommand)?.to_string();
    let lacks = !cfg!(feature = "node") && OF_NODE.contains(&unknown.as_str());
    lacks.then(|| format!("this build has no `{unknown}`: build with `--features node`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_build_without_node_says_how_to_get_its_commands() {
        let said = |line: &str| {
            let words = line.split(' ').map(Into::into).collect();
            Cli::from_words(words, &Expanded::default()).expect_err(line).to_string()
        };
        for line in ["phalanx node --dev", "phalanx fetch", "phalanx localnet", "phalanx bench node"] {
            let is_there = cfg!(feature = "node");
            assert!(is_there || said(line).contains("build with `--features node`"), "{line}");
        }
        assert!(!said("phalanx nodes").contains("--features"), "no build has it");
    }
    use clap::Command as Clap;

    /// Number of flags that are read without headings.
    const FEW: usize = 14;

    /// Calls `look` with every command that can be run.
    fn each(command: &Clap, look: &mut impl FnMut(&Clap)) {
        look(command);
        command.get_subcommands().for_each(|below| each(below, look));
    }

    #[test]
    fn many_flags_have_headings() {
        let mut all = Cli::command();
        all.build();
        let mut long = 0;
        each(&all, &mut |command| {
            let flags: Vec<_> = command.get_opts().filter(|arg| !arg.is_hide_set()).collect();
            if flags.len() <= FEW {
                return;
            }
            long += 1;
            let bare = flags.iter().filter(|arg| arg.get_help_heading().is_none()).count();
            let name = command.get_name();
            assert!(bare <= 5, "{name}: {bare} of {} flags have no heading", flags.len());
        });
        assert!(long >= 8, "{long} commands have many flags");
    }
}
