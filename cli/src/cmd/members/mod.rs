//! `members`: the members of a network change, by a value in its order that a quorum of the present ones has signed.
//!
//! ```text
//!  propose ─► network-1.json ─► all: keys join, sign ─► submit ─► the block that holds the change is the last of the epoch
//! ```

mod propose;
mod approve;

use super::net::{MemberFile, NetworkFile, later, read};
use clap::Subcommand;
use phalanx_lab::error::Usage;
use std::path::PathBuf;

#[derive(Debug, Subcommand)]
pub(crate) enum MembersCommand {
    /// Write the network of the next epoch beside the present one: members that are replaced, added and removed
    Propose(propose::ProposeArgs),
    /// Sign the next network as a member of the present one
    Sign(approve::SignArgs),
    /// Have the change ordered, with the signatures of a quorum, and wait until the next epoch begins
    Submit(approve::SubmitArgs),
}

impl MembersCommand {
    pub(crate) fn run(&self) -> anyhow::Result<u8> {
        match self {
            Self::Propose(args) => args.run(),
            Self::Sign(args) => args.run(),
            Self::Submit(args) => args.run(),
        }
    }
}

/// The present network, and the one that comes next.
#[derive(Debug, clap::Args)]
struct Both {
    /// Configuration of the present network
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    /// Configuration of the next one, as `members propose` wrote it [default: beside --config]
    #[arg(long, value_name = "FILE")]
    next: Option<PathBuf>,
}

impl Both {
    /// Reads both, and checks that one may come behind the other.
    fn read(&self) -> Result<(NetworkFile, NetworkFile), Usage> {
        let file = NetworkFile::read(&self.config)?;
        let epoch = file.network.epoch + 1;
        let path = self.next.clone().unwrap_or_else(|| later(&self.config, file.network.epoch, epoch));
        let next = NetworkFile::read(&path)?;
        propose::check(&file, &next).map_err(|why| Usage(format!("{}: {why}", path.display())))?;
        Ok((file, next))
    }
}
