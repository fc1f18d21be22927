//! `keys`: keys of a network whose operators trust each other with nothing secret.
//!
//! Each operator makes keys, hands out the public half, and makes the key file of the replica from the network's file. Members of
//! SBFT deal in between: their shares of groups are the sum of all dealings.

mod new;
mod member;

use clap::Subcommand;
use std::path::PathBuf;

#[derive(Debug, Subcommand)]
pub(crate) enum KeysCommand {
    /// Make the keys of one operator from the randomness of the operating system: secret.json, and public.json for the others
    New(new::NewArgs),
    /// Write this member's part of the keys of groups, which SBFT needs, for all other members
    Deal(member::DealArgs),
    /// Make key file and folder of this member's replica: once, as a second one would vote against the first
    Join(member::JoinArgs),
}

impl KeysCommand {
    pub(crate) fn run(&self) -> anyhow::Result<u8> {
        match self {
            Self::New(args) => args.run(),
            Self::Deal(args) => args.run(),
            Self::Join(args) => args.run(),
        }
    }
}

/// Network and member of a command.
#[derive(Debug, clap::Args)]
pub(crate) struct Ours {
    /// Configuration of the network, as `net --member` writes it
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    /// Secret half of the member's keys, as `keys new` writes it
    #[arg(long, value_name = "FILE")]
    secret: PathBuf,
}
