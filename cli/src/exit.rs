//! Exit codes, and which error gets which.

use phalanx::merkle;

/// All went well.
pub(crate) const OK: u8 = 0;
/// The program's own fault, or the system's.
pub(crate) const INTERNAL: u8 = 1;
/// The command cannot be carried out as given.
pub(crate) const USAGE: u8 = 2;
/// Results or roots differ from the oracle's.
pub(crate) const DIVERGENCE: u8 = 3;
/// The store is corrupt, of another format, or open elsewhere.
pub(crate) const STORE: u8 = 6;
/// Stopped by Ctrl-C.
pub(crate) const INTERRUPTED: u8 = 130;

/// A command that cannot be carried out as given.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Usage(pub(crate) String);

/// The code for an error that ended a command.
pub(crate) fn code_of(error: &anyhow::Error) -> u8 {
    for cause in error.chain() {
        if cause.is::<Usage>() || cause.is::<phalanx_workloads::ConfigError>() {
            return USAGE;
        }
        let store = match cause.downcast_ref::<phalanx::Error>() {
            Some(phalanx::Error::Corrupt { .. }) => return STORE,
            Some(phalanx::Error::UnsupportedSpec { .. } | phalanx::Error::Genesis { .. }) => return USAGE,
            Some(phalanx::Error::Store(error)) => Some(error),
            _ => cause.downcast_ref::<merkle::Error>(),
        };
        match store {
            Some(
                merkle::Error::Locked { .. }
                | merkle::Error::Format { .. }
                | merkle::Error::Corrupt { .. }
                | merkle::Error::Behind { .. },
            ) => return STORE,
            _ => {}
        }
    }
    INTERNAL
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_keep_their_code_under_context() {
        let locked = merkle::Error::Locked { path: "x".into() };
        let wrapped = anyhow::Error::new(phalanx::Error::Store(locked)).context("opening the store");
        assert_eq!(code_of(&wrapped), STORE);
        assert_eq!(code_of(&anyhow::Error::new(Usage("no".into())).context("c")), USAGE);
        let io = std::io::Error::other("disk");
        assert_eq!(code_of(&io.into()), INTERNAL);
    }
}
