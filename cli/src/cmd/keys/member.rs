//! `keys deal` and `keys join`: from the network's file and the own secret half to the key file of a replica.

use super::{Ours, new::write_new};
use crate::{
    cmd::net::{NetworkFile, beside, read},
    exit, output,
};
use anyhow::Context as _;
use clap::Args;
use phalanx_bft::Index;
use phalanx_keys::{BlsFile, Dealing, KeyError, OwnKeys, Roster};
use phalanx_lab::error::Usage;
use phalanx_net::{ProtocolName, leave_token};
use std::{fs, path::PathBuf};

#[derive(Debug, Args)]
pub(crate) struct DealArgs {
    #[command(flatten)]
    ours: Ours,
    /// Folder of the dealing, a file `dealing-INDEX.json` [default: that of --config]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct JoinArgs {
    #[command(flatten)]
    ours: Ours,
    /// Dealing of a member, as `keys deal` writes it: those of all members for SBFT, the own one included; repeatable
    #[arg(long, value_name = "FILE")]
    dealing: Vec<PathBuf>,
    /// Write the key file of a member that has joined before and has lost it. Its replica starts with `replica --rejoin`
    #[arg(long)]
    again: bool,
}

/// A network as one of its members sees it.
struct Seat {
    file: NetworkFile,
    own: OwnKeys,
    roster: Roster,
    index: Index,
}

impl Ours {
    fn seat(&self) -> Result<Seat, Usage> {
        let file = NetworkFile::read(&self.config)?;
        let dealt = || Usage(format!("{}: its keys were dealt, and no member makes them", self.config.display()));
        let roster = file.roster()?.ok_or_else(dealt)?;
        let of = |path: &PathBuf| {
            let path = path.display().to_string();
            move |error: KeyError| Usage(format!("{path}: {error}"))
        };
        let own = OwnKeys::parse(&read(&self.secret)?).map_err(of(&self.secret))?;
        let index = roster.index_of(&own).map_err(of(&self.config))?;
        Ok(Seat { file, own, roster, index })
    }
}

impl DealArgs {
    pub(super) fn run(&self) -> anyhow::Result<u8> {
        let Seat { file, own, roster, index } = self.ours.seat()?;
        if file.network.protocol != ProtocolName::Sbft {
            return Err(Usage("only SBFT has keys of groups: nothing is dealt for other protocols".into()).into());
        }
        let dealing = Dealing::new(&own, &roster, file.network.faults).map_err(|error| Usage(error.to_string()))?;
        let name = PathBuf::from(format!("dealing-{}.json", index.0));
        let path = self.dir.as_ref().map_or_else(|| beside(&self.ours.config, &name), |dir| dir.join(&name));
        write_new(&path, dealing.to_json().as_bytes(), 0o644)?;
        output::print(&format!("{}\n", path.display()))?;
        Ok(exit::OK)
    }
}

impl JoinArgs {
    pub(super) fn run(&self) -> anyhow::Result<u8> {
        let Seat { file, own, roster, index } = self.ours.seat()?;
        let member = file.network.member(index.0)?;
        let (path, dir) = (beside(&self.ours.config, &member.keys), beside(&self.ours.config, &member.dir));
        let keys = match file.network.protocol {
            ProtocolName::Sbft => {
                let dealings = self.dealings()?;
                BlsFile::join(&own, &roster, file.network.faults, &dealings).map(|keys| keys.to_json())
            }
            ProtocolName::Pbft | ProtocolName::Autobahn if !self.dealing.is_empty() => {
                return Err(Usage("only SBFT takes dealings".into()).into());
            }
            ProtocolName::Pbft | ProtocolName::Autobahn => roster.key_file(&own).map(|keys| keys.to_json()),
        };
        let keys = keys.map_err(|error| Usage(error.to_string()))?;
        // A member of the epoch before goes on with its folder: nothing begins there.
        let goes_on = file.network.epoch > 0 && dir.join("log").exists();
        let is_used = || fs::read_dir(&dir).is_ok_and(|mut entries| entries.next().is_some());
        if path.exists() || !goes_on && is_used() {
            return Err(Usage(format!("{} or {} is there already", path.display(), dir.display())).into());
        }
        // Beside the secret half, which outlives the replica's folder: a replica that lost its log must not begin anew.
        let mark =
            self.ours.secret.with_file_name(format!("joined-{:.8}", alloy_primitives::hex::encode(roster.digest())));
        if !(self.again && mark.exists()) {
            write_new(&mark, b"", 0o600).context(
                "these keys have joined this network before: a replica that begins anew would vote against what the first one has said. \
                 Bring its folder back, or take --again",
            )?;
        }
        write_new(&path, keys.as_bytes(), 0o600)?;
        // A replica that may have voted begins silently, without the token.
        if !self.again && !goes_on {
            leave_token(&file.network, index, &dir)?;
        }
        let roster = roster.digest();
        output::print(&format!("replica {} of {}, members {roster}\n", index.0, file.network.replicas.len()))?;
        Ok(exit::OK)
    }

    fn dealings(&self) -> Result<Vec<Dealing>, Usage> {
        let parse = |path: &PathBuf| {
            Dealing::parse(&read(path)?).map_err(|error| Usage(format!("{}: {error}", path.display())))
        };
        self.dealing.iter().map(parse).collect()
    }
}
