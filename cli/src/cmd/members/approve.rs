//! `members sign` and `members submit`: from signatures of members to the next epoch.

use super::{Both, NetworkFile, read};
use crate::{exit, output};
use alloy_primitives::Bytes;
use anyhow::Context as _;
use clap::Args;
use phalanx_bft::{Index, Signed, Statement as _};
use phalanx_keys::{Ed25519, KeyError, OwnKeys};
use phalanx_lab::error::Usage;
use phalanx_net::{Boundary, Change, Client, Reply, Request, SignedChange};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::{
    fs,
    path::PathBuf,
    thread,
    time::{Duration, Instant},
};

/// Patience with a replica that is sent to.
const PATIENCE: Duration = Duration::from_secs(2);
/// Pause between two requests.
const PAUSE: Duration = Duration::from_millis(200);
/// Pauses between two times that the change is sent.
const RESEND: u32 = 25;

/// Signature of a member over a change.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Approval {
    /// Index of the member in the present network.
    member: u16,
    signature: Bytes,
}

#[derive(Debug, Args)]
pub(crate) struct SignArgs {
    #[command(flatten)]
    both: Both,
    /// Secret half of the member's keys, as `keys new` writes it
    #[arg(long, value_name = "FILE")]
    secret: PathBuf,
    /// Folder of the signature, a file `approval-EPOCH-INDEX.json` [default: that of --config]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

impl SignArgs {
    pub(super) fn run(&self) -> anyhow::Result<u8> {
        let (file, next) = self.both.read()?;
        let wrong = |error: KeyError| Usage(format!("{}: {error}", self.secret.display()));
        let own = OwnKeys::parse(&read(&self.secret)?).map_err(wrong)?;
        let roster = file.roster()?.ok_or_else(|| Usage("no member of this network makes keys".into()))?;
        let Index(member) = roster.index_of(&own).map_err(wrong)?;
        let change = change(&next);
        let signature = own.sign(&change.signed_bytes(file.network.domain()));
        let name = PathBuf::from(format!("approval-{}-{member}.json", change.epoch));
        let path = self.dir.as_ref().map_or_else(|| self.both.config.with_file_name(&name), |dir| dir.join(&name));
        let text = serde_json::to_string_pretty(&Approval { member, signature })?;
        fs::write(&path, text).with_context(|| format!("writing {}", path.display()))?;
        output::print(&format!("{}\n", path.display()))?;
        Ok(exit::OK)
    }
}

fn change(next: &NetworkFile) -> Change {
    Change { epoch: next.network.epoch, network: next.digest() }
}

#[derive(Debug, Args)]
pub(crate) struct SubmitArgs {
    #[command(flatten)]
    both: Both,
    /// Signature of a member, as `members sign` writes it: those of a quorum; repeatable
    #[arg(long, value_name = "FILE", required = true)]
    approval: Vec<PathBuf>,
    /// Time to wait until the next epoch begins, in seconds
    #[arg(long, value_name = "S", default_value_t = 60)]
    wait: u64,
}

impl SubmitArgs {
    pub(super) fn run(&self) -> anyhow::Result<u8> {
        let (file, next) = self.both.read()?;
        let body = change(&next);
        let mut signed = Vec::new();
        for path in &self.approval {
            let wrong = |why: String| Usage(format!("{}: {why}", path.display()));
            let Approval { member, signature } =
                serde_json::from_slice(&read(path)?).map_err(|error| wrong(error.to_string()))?;
            signed.push(Signed { signer: Index(member), signature, body });
        }
        let value = SignedChange::new(signed).to_value();
        let quorums = file.network.quorums().map_err(|error| Usage(error.to_string()))?;
        let scheme = Ed25519::verifier(&file.signing_keys())?;
        SignedChange::check(&value, quorums, file.network.domain(), &scheme).map_err(|why| Usage(why.to_string()))?;
        let until = Instant::now() + Duration::from_secs(self.wait);
        for round in 0.. {
            if let Some(boundary) = boundary(&file, &next, (round % RESEND == 0).then_some(&value)) {
                if boundary.change != body {
                    return Err(Usage(
                        "another change was ordered before this one: propose it anew behind that".into(),
                    )
                    .into());
                }
                let begun = json!({ "epoch": body.epoch, "begins_above": boundary.slot() });
                output::print(&format!("{begun}\n"))?;
                return Ok(exit::OK);
            }
            anyhow::ensure!(Instant::now() < until, "epoch {} has not begun within {} s", body.epoch, self.wait);
            thread::sleep(PAUSE);
        }
        Ok(exit::OK)
    }
}

/// Sends the change to all members of a network, if it is due, and requests the end of their epoch from each. What none of them can forge
/// is believed: an end that the members have certified.
fn boundary(file: &NetworkFile, next: &NetworkFile, value: Option<&Bytes>) -> Option<Boundary> {
    let (mut found, epoch) = (None, next.network.epoch);
    for member in &file.network.replicas {
        // A member that is down, or leaves the epoch now, gets the request again.
        let asked = Client::connect(member.clients, PATIENCE).and_then(|mut client| {
            client.patience(PATIENCE)?;
            let mut sender = client.sender()?;
            if let Some(value) = value {
                sender.send(&Request::Submit(vec![value.clone()]))?;
            }
            sender.send(&Request::Epoch(epoch))?;
            client.receive()
        });
        if let Ok(Reply::Epoch(boundaries)) = asked {
            let mut of_epoch = boundaries.into_iter().filter(|boundary| boundary.change.epoch == epoch).take(1);
            found = found.or_else(|| of_epoch.find(|boundary| next.network.follows(boundary)));
        }
    }
    found
}
