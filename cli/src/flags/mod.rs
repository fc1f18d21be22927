//! Flags outside of their commands: profiles, and flags within flags.

pub(crate) mod outputs;
pub(crate) mod profile;
pub(crate) mod words;

use clap::ValueEnum;

/// Name of a choice on the command line.
pub(crate) fn word(choice: impl ValueEnum) -> String {
    choice.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
}
