//! Flags without effect beside others: refused, as a flag that is given is expected to have one.
//!
//! Flags of a load and of an engine that one of several runs uses are only [warned](crate::ui::warn_of_idle) of: comparisons and
//! profiles give them to all runs alike.

use crate::flags::profile::Expanded;
use clap::{ArgMatches, Command, Error, error::ErrorKind, parser::ValueSource};

/// Condition under which flags of a command have no effect.
struct Rule {
    /// Names of the command and of those above it.
    command: &'static str,
    /// Flags, by their names on the command line.
    flags: &'static [&'static str],
    /// True if they have no effect beside the others.
    is_idle: fn(&Given<'_>) -> bool,
    /// The reason, as a sentence's second half.
    why: &'static str,
}

const COSTS: &[&str] = &["exec-us-per-tx", "root-us-per-tx", "commit-ms", "commit-us-per-tx"];
const QUEUES: &[&str] = &["root-us-per-tx", "commit-us-per-tx", "seconds", "clock"];
const OWN_POINTS: &str = "a figure has points of its own, at the paper's settings";

const RULES: &[Rule] = &[
    Rule {
        command: "bench sweep",
        flags: &["memory-gbs", "tx-memory-bytes", "disk-gbs", "tx-disk-bytes"],
        is_idle: |given| !given.is("figure", "fafo-3"),
        why: "only --figure fafo-3 models another machine",
    },
    Rule {
        command: "bench sweep",
        flags: &["alpha", "gamma"],
        is_idle: |given| given.is("figure", "fafo-4"),
        why: "the figure varies --alpha and --gamma",
    },
    Rule {
        command: "bench store",
        flags: &["reading", "ahead"],
        is_idle: |given| given.is("memory", "resident"),
        why: "only --memory cached:BYTES reads values from disk",
    },
    Rule {
        command: "bench store",
        flags: &["durability"],
        is_idle: |given| given.is("store", "mem"),
        why: "--store mem survives nothing",
    },
    Rule {
        command: "replay",
        flags: &["access"],
        is_idle: |given| given.has("hints") || given.has("artefact"),
        why: "--hints and --artefact take its place",
    },
    Rule {
        command: "replay",
        flags: &["seed"],
        is_idle: |given| !given.values("hints").iter().any(|hints| hints.starts_with("wrong:")),
        why: "only --hints wrong:P is drawn by a seed",
    },
    Rule {
        command: "replay",
        flags: &["traces"],
        is_idle: |given| !given.is("executor", "dag"),
        why: "only --executor dag replays traces",
    },
    Rule {
        command: "simulate zaptos",
        flags: &[
            "validators",
            "fullnodes",
            "topology",
            "tps",
            "block-ms",
            "block-txs",
            "exec-us-per-tx",
            "root-us-per-tx",
            "commit-ms",
            "commit-us-per-tx",
            "equivocating",
            "ideal",
        ],
        is_idle: |given| given.has("figure"),
        why: OWN_POINTS,
    },
    Rule {
        command: "simulate zaptos",
        flags: QUEUES,
        is_idle: |given| given.is("ideal", "true"),
        why: "--ideal has no queues and measures nothing",
    },
    Rule {
        command: "simulate zaptos",
        flags: COSTS,
        is_idle: |given| given.is("engine", "real") && !given.is("ideal", "true"),
        why: "the costs of --engine real are measured",
    },
    Rule {
        command: "simulate zaptos",
        flags: &["clock"],
        is_idle: |given| given.is("engine", "model"),
        why: "only --engine real is measured",
    },
    Rule {
        command: "simulate sbft",
        flags: &["protocol", "f", "c", "topology", "workload", "clients", "crashed", "requests", "seed"],
        is_idle: |given| given.has("figure"),
        why: OWN_POINTS,
    },
    #[cfg(feature = "node")]
    Rule {
        command: "node",
        flags: &["chain-id", "accounts", "mnemonic", "balance", "fork", "code-size-limit"],
        is_idle: |given| !given.is("dev", "true"),
        why: "only --dev makes a chain; others have them in --genesis",
    },
    #[cfg(feature = "node")]
    Rule {
        command: "node",
        flags: &["abci", "comet-rpc", "snapshot-every", "snapshots", "state-sync"],
        is_idle: |given| !given.is("consensus", "cometbft"),
        why: "only --consensus cometbft has them",
    },
    #[cfg(feature = "node")]
    Rule {
        command: "node",
        flags: &["authrpc", "jwt"],
        is_idle: |given| !given.is("consensus", "engine"),
        why: "only --consensus engine has them",
    },
    #[cfg(feature = "node")]
    Rule {
        command: "localnet",
        flags: &["seed"],
        is_idle: |given| !given.has("kill") && !given.has("partition"),
        why: "only --kill and --partition choose at random",
    },
];

/// Flags and values of one command.
struct Given<'m> {
    command: &'m Command,
    matches: &'m ArgMatches,
}

impl Given<'_> {
    /// Name of a flag in the matches; `None` if the command has no such flag.
    fn id(&self, flag: &str) -> Option<&str> {
        self.command.get_arguments().find(|arg| arg.get_long() == Some(flag)).map(|arg| arg.get_id().as_str())
    }

    /// True if the command line has the flag.
    fn has(&self, flag: &str) -> bool {
        self.id(flag).is_some_and(|id| self.matches.value_source(id) == Some(ValueSource::CommandLine))
    }

    /// Values of a flag, or its default.
    fn values(&self, flag: &str) -> Vec<String> {
        let values = self.id(flag).and_then(|id| self.matches.try_get_raw(id).ok().flatten());
        values.into_iter().flatten().map(|value| value.to_string_lossy().into_owned()).collect()
    }

    /// True if a value of the flag, or its default, is this word.
    fn is(&self, flag: &str, word: &str) -> bool {
        self.values(flag).iter().any(|value| value == word)
    }
}

/// Refuses a flag of the command line that has no effect beside the others. A profile is for many commands, and may have more.
///
/// # Errors
/// With the flag and the reason.
pub(super) fn check(command: &mut Command, matches: &ArgMatches, profile: &Expanded) -> Result<(), Error> {
    command.build();
    let (mut at, mut matches, mut path) = (&*command, matches, Vec::new());
    while let Some((name, below)) = matches.subcommand() {
        let Some(sub) = at.find_subcommand(name) else { break };
        (at, matches) = (sub, below);
        path.push(name);
    }
    let (path, given) = (path.join(" "), Given { command: at, matches });
    for rule in RULES.iter().filter(|rule| rule.command == path && (rule.is_idle)(&given)) {
        if let Some(flag) = rule.flags.iter().find(|flag| given.has(flag) && !profile.adds(flag)) {
            let refused = format!("--{flag} has no effect here: {}", rule.why);
            return Err(at.clone().error(ErrorKind::ArgumentConflict, refused));
        }
    }
    // A sweep sets the flag of its axis.
    let axis = given.values("axis").into_iter().filter(|_| path == "bench sweep").find_map(|axis| {
        let name = axis.split('=').next()?.trim_start_matches("--").replace('_', "-");
        (given.has(&name) && !profile.adds(&name)).then_some(name)
    });
    axis.map_or(Ok(()), |name| {
        let refused = format!("--{name} has no effect here: --axis {name} sets it");
        Err(at.clone().error(ErrorKind::ArgumentConflict, refused))
    })
}

#[cfg(test)]
mod tests {
    use super::super::Cli;
    use super::*;
    use crate::flags::profile;
    use clap::CommandFactory as _;

    /// Error of a command line, in words; empty if it is accepted.
    fn refused(line: &str) -> String {
        let words = ["phalanx"].into_iter().chain(line.split(' ')).map(Into::into).collect();
        let mut expanded = profile::expand(words).expect("a profile");
        let words = core::mem::take(&mut expanded.words);
        Cli::from_words(words, &expanded).map_or_else(|error| error.to_string(), |_| String::new())
    }

    #[test]
    fn every_rule_names_a_command_and_its_flags() {
        let mut all = Cli::command();
        all.build();
        for rule in RULES {
            let found = rule.command.split(' ').try_fold(&all, |at, name| at.find_subcommand(name));
            let found = found.unwrap_or_else(|| panic!("no command {}", rule.command));
            for flag in rule.flags {
                assert!(found.get_arguments().any(|arg| arg.get_long() == Some(flag)), "{} --{flag}", rule.command);
            }
        }
    }

    #[test]
    fn a_flag_without_effect_is_refused_with_its_reason() {
        for (line, flag) in [
            ("bench sweep --axis threads=1,2 --threads 2", "threads"),
            ("bench sweep --axis threads=1,2 --disk-gbs 2", "disk-gbs"),
            ("bench sweep --figure fafo-4 --alpha 0.5", "alpha"),
            ("bench store --reading threads", "reading"),
            ("bench store --store mem --durability block", "durability"),
            ("replay . --hints perfect --access rules", "access"),
            ("replay . --hints perfect --seed 3", "seed"),
            ("replay . --executor block-stm --traces off", "traces"),
            ("simulate zaptos --figure 5 --tps 100", "tps"),
            ("simulate zaptos --figure 5 --ideal", "ideal"),
            ("simulate zaptos --ideal --seconds 3", "seconds"),
            ("simulate zaptos --engine real --commit-ms 3", "commit-ms"),
            ("simulate zaptos --clock cpu", "clock"),
            ("simulate sbft --figure single --f 3", "f"),
        ] {
            let why = refused(line);
            assert!(why.contains(&format!("--{flag} has no effect here: ")), "{line}: {why}");
        }
    }

    #[test]
    fn flags_with_an_effect_are_accepted() {
        for line in [
            "bench sweep --figure fafo-3 --disk-gbs 2 --threads 2",
            "bench sweep --axis threads=1,2 --alpha 0.5",
            "bench store --memory cached:1M --reading threads --ahead 2",
            "bench store --durability none",
            "replay . --hints wrong:0.5 --seed 3",
            "replay . --executor sequential --executor dag --threads 2 --traces off",
            "test state . --executor sequential --threads 2",
            "simulate zaptos --figure 5 --seed 2 --seconds 3 --mode both",
            "simulate zaptos --engine real --ideal --commit-ms 3",
            "simulate zaptos --engine real --clock cpu --seconds 2",
            "simulate sbft --f 3",
            "bench sweep --figure fafo-4 --profile fafo-table1-native",
            "explain --profile fafo-table1-erc20",
        ] {
            assert_eq!(refused(line), "", "{line}");
        }
    }
}
