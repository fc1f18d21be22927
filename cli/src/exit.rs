//! Exit codes, and the code of each error.

use phalanx::merkle;
use phalanx_lab::{
    error::{Different, Interrupted, Malformed, Usage},
    result::{BenchResult, Ending},
};
use phalanx_net::{LogError, ReplicaError, WalError};

/// Success.
pub(crate) const OK: u8 = 0;
/// Fault of the program or of the system.
pub(crate) const INTERNAL: u8 = 1;
/// Command that cannot be carried out as given.
pub(crate) const USAGE: u8 = 2;
/// Results or roots differ from the oracle's.
pub(crate) const DIVERGENCE: u8 = 3;
/// Expectation of the command line that does not hold.
pub(crate) const EXPECTATION: u8 = 4;
/// Environment unfit for measurements, with `--strict`.
pub(crate) const UNFIT: u8 = 5;
/// Store that is corrupt, of another format, or open elsewhere.
pub(crate) const STORE: u8 = 6;
/// Fixture that is malformed or has another result.
pub(crate) const FIXTURES: u8 = 7;
/// Stopped by Ctrl-C.
pub(crate) const INTERRUPTED: u8 = 130;

/// Codes and what they mean, for the help, the manual pages and the reference.
pub(crate) const CODES: [(u8, &str); 9] = [
    (OK, "success"),
    (INTERNAL, "internal error: a fault of the program or of the system"),
    (USAGE, "usage: a command that cannot be carried out as given, or that would run nothing"),
    (DIVERGENCE, "divergence: results or a root differ from sequential revm's, or a proof does not hold"),
    (EXPECTATION, "expectation missed: --expect or a claim does not hold, or a network leaves transactions unanswered"),
    (UNFIT, "unfit environment: doctor --strict found a source of noise"),
    (STORE, "store: corrupt, incomplete, of another format, or open elsewhere"),
    (FIXTURES, "fixtures: a conformance test failed, or a fixture is malformed"),
    (INTERRUPTED, "interrupted by Ctrl-C, SIGTERM or SIGHUP"),
];

/// Variables of the environment that every command reads, and their effect.
pub(crate) const ENVIRONMENT: [(&str, &str); 3] = [
    ("CI", "if set, progress is printed as lines"),
    ("TERM", "dumb: progress is printed as lines"),
    ("TMPDIR", "folder for temporary stores"),
];

/// Codes as lines of a help text.
pub(crate) fn help() -> String {
    let codes: String = CODES.iter().map(|(code, means)| format!("  {code:>3}  {means}\n")).collect();
    let environment: String = ENVIRONMENT.iter().map(|(name, effect)| format!("  {name:6}  {effect}\n")).collect();
    format!("Try: phalanx demo\n\nExit codes:\n{codes}\nEnvironment:\n{environment}")
}

/// Failure of a child process of this program.
#[derive(Debug, thiserror::Error)]
#[error("{why}")]
pub(crate) struct Ended {
    /// Exit code; `None` if a signal ended the process.
    pub(crate) code: Option<i32>,
    /// Reason, with the process's stderr.
    pub(crate) why: String,
}

/// Exit code of an ending.
pub(crate) const fn code_of_ending(ending: Ending) -> u8 {
    match ending {
        Ending::Complete => OK,
        Ending::Wrong => DIVERGENCE,
        Ending::Missed => EXPECTATION,
        Ending::Interrupted => INTERRUPTED,
    }
}

/// Exit code of the worst ending among `results`.
pub(crate) fn code_of_results(results: &[BenchResult]) -> u8 {
    code_of_ending(Ending::of(results))
}

/// Exit code of an error that ended a command.
pub(crate) fn code_of(error: &anyhow::Error) -> u8 {
    for cause in error.chain() {
        if cause.is::<Usage>() || cause.is::<phalanx_workloads::ConfigError>() {
            return USAGE;
        }
        if let Some(error) = cause.downcast_ref::<ReplicaError>() {
            return code_of_replica(error);
        }
        if cause.is::<Different>() {
            return DIVERGENCE;
        }
        if cause.is::<Interrupted>() {
            return INTERRUPTED;
        }
        if let Some(Ended { code, .. }) = cause.downcast_ref() {
            let ours = code.and_then(|code| u8::try_from(code).ok());
            return ours.filter(|code| (INTERNAL..=FIXTURES).contains(code)).unwrap_or(INTERNAL);
        }
        if cause.is::<Malformed>() {
            return FIXTURES;
        }
        #[cfg(feature = "node")]
        if let Some(error) = cause.downcast_ref::<phalanx_node::NodeError>() {
            return of_node(error);
        }
        let store = match cause.downcast_ref::<phalanx::Error>() {
            Some(phalanx::Error::Corrupt { .. } | phalanx::Error::Outdated { .. }) => return STORE,
            Some(phalanx::Error::UnsupportedSpec { .. } | phalanx::Error::Genesis { .. }) => return USAGE,
            Some(phalanx::Error::Store(error)) => Some(error),
            _ => cause.downcast_ref::<merkle::Error>(),
        };
        match store {
            Some(merkle::Error::OtherRoot { .. } | merkle::Error::Snapshot(_)) => return DIVERGENCE,
            Some(
                merkle::Error::Key { .. }
                | merkle::Error::NoStore { .. }
                | merkle::Error::NotEmpty { .. }
                | merkle::Error::Interrupted { .. }
                | merkle::Error::OtherBackend { .. },
            ) => return USAGE,
            _ => {}
        }
        if let Some(
            merkle::Error::Locked { .. }
            | merkle::Error::Format { .. }
            | merkle::Error::Corrupt { .. }
            | merkle::Error::Behind { .. },
        ) = store
        {
            return STORE;
        }
    }
    INTERNAL
}

/// Exit code of a replica that does not start or has ended.
const fn code_of_replica(error: &ReplicaError) -> u8 {
    match error {
        ReplicaError::Config(_)
        | ReplicaError::Keys(_)
        | ReplicaError::Count { .. }
        | ReplicaError::Listen { .. }
        | ReplicaError::Incident { .. }
        | ReplicaError::Ended { .. }
        | ReplicaError::OtherNetwork { .. }
        | ReplicaError::OtherMembers { .. }
        | ReplicaError::Log(LogError::Record { .. } | LogError::Wal(WalError::Format { .. })) => USAGE,
        ReplicaError::Log(LogError::Foreign { .. } | LogError::Lost { .. })
        | ReplicaError::Log(LogError::Wal(WalError::Corrupt { .. } | WalError::Locked { .. }))
        | ReplicaError::Copied { .. }
        | ReplicaError::Open(_)
        | ReplicaError::NoBoundary { .. }
        | ReplicaError::Behind { .. } => STORE,
        _ => INTERNAL,
    }
}

/// Exit code of a node's error.
#[cfg(feature = "node")]
const fn of_node(error: &phalanx_node::NodeError) -> u8 {
    use phalanx_node::{NodeError, store::StoreError};
    match error {
        NodeError::Chain(_) | NodeError::Setting(_) | NodeError::Listen { .. } => USAGE,
        NodeError::Differ { .. } => STORE,
        NodeError::Replica(error) => code_of_replica(error),
        NodeError::Halted(phalanx_node::abci::Halt::Divergence(_)) | NodeError::Divergent { .. } => DIVERGENCE,
        NodeError::Store(StoreError::Io { .. } | StoreError::TooLong { .. } | StoreError::Order { .. }) => INTERNAL,
        NodeError::Store(_)
        | NodeError::Engine(
            phalanx::Error::OtherChain { .. } | phalanx::Error::Outdated { .. } | phalanx::Error::Corrupt { .. },
        ) => STORE,
        NodeError::Engine(phalanx::Error::Store(
            merkle::Error::Locked { .. }
            | merkle::Error::Format { .. }
            | merkle::Error::Corrupt { .. }
            | merkle::Error::Behind { .. },
        )) => STORE,
        NodeError::Engine(phalanx::Error::Configuration { .. } | phalanx::Error::UnsupportedSpec { .. }) => USAGE,
        _ => INTERNAL,
    }
}

/// Text of an error, from the outermost context to the first cause. A cause that its error repeats is printed once.
pub(crate) fn reason(error: &anyhow::Error) -> String {
    let mut text = String::new();
    for cause in error.chain().map(ToString::to_string) {
        if text.ends_with(&cause) {
            continue;
        }
        if !text.is_empty() {
            text.push_str(": ");
        }
        text.push_str(&cause);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reference_has_every_code() {
        let page = include_str!("../../docs/reference/exit-codes.md");
        let first = |line: &'static str| line.strip_prefix("| ")?.split(' ').next()?.parse::<u8>().ok();
        let listed: Vec<u8> = page.lines().filter_map(first).collect();
        assert_eq!(listed, CODES.map(|(code, _)| code));
        assert!(CODES.iter().all(|(code, means)| help().contains(&format!("{code:>3}  {means}"))));
    }

    #[test]
    fn a_repeated_cause_is_printed_once() {
        let io = || std::io::Error::other("disk");
        let repeats = merkle::Error::Io { path: "x".into(), source: io() };
        let wrapped = anyhow::Error::new(phalanx::Error::Store(repeats)).context("opening the store");
        assert_eq!(reason(&wrapped), "opening the store: x: disk");
        assert_eq!(reason(&anyhow::Error::new(io()).context("writing y")), "writing y: disk");
    }

    #[test]
    fn errors_keep_their_code_under_context() {
        let locked = merkle::Error::Locked { path: "x".into() };
        let wrapped = anyhow::Error::new(phalanx::Error::Store(locked)).context("opening the store");
        assert_eq!(code_of(&wrapped), STORE);
        assert_eq!(code_of(&anyhow::Error::new(Usage("no".into())).context("c")), USAGE);
        assert_eq!(code_of(&anyhow::Error::new(Interrupted).context("c")), INTERRUPTED);
        assert_eq!(code_of(&anyhow::Error::new(Malformed("a block".into())).context("c")), FIXTURES);
        assert_eq!(code_of(&anyhow::Error::new(Different("a root".into())).context("c")), DIVERGENCE);
        let ended = |code| code_of(&Ended { code, why: String::new() }.into());
        assert_eq!([Some(2), Some(6), Some(0), Some(137), None].map(ended), [USAGE, STORE, 1, 1, 1]);
        let io = std::io::Error::other("disk");
        assert_eq!(code_of(&io.into()), INTERNAL);
    }
}
