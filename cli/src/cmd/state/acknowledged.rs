//! A client that believes one message: the acknowledgement of a transaction, verified under one public key.

use super::written::{Acknowledged, Form};
use crate::exit;
use alloy_primitives::{B256, Bytes};
use anyhow::Context as _;
use phalanx::{api::TxStatus, revm::primitives::hex};
use phalanx_lab::error::Usage;
use phalanx_merkle_proof::{Trust, verify_acknowledgement};
use serde::Deserialize;
use std::{
    fs::File,
    io::{self, Read as _},
    path::Path,
};

/// Maximum length of a file with a message, in bytes.
const MOST: u64 = 1 << 20;

/// The file. What it says of chain, replica set and key is for people: trust comes from the flags.
#[derive(Debug, Deserialize)]
struct Message {
    transaction: B256,
    message: Bytes,
}

/// Verifies a message under a trusted key, and prints what it proves.
pub(super) fn verify(
    path: &Path,
    public_key: &str,
    (chain, epoch, instance): (u64, u64, B256),
    form: Form,
) -> anyhow::Result<u8> {
    let key = hex::decode(public_key).ok().and_then(|bytes| <[u8; 96]>::try_from(bytes).ok());
    let key =
        key.ok_or_else(|| Usage("--public-key needs 96 bytes in hex: the network's key of f+1 replicas".into()))?;
    let mut text = String::new();
    let read = match path == Path::new("-") {
        true => io::stdin().take(MOST).read_to_string(&mut text),
        false => File::open(path).and_then(|file| file.take(MOST).read_to_string(&mut text)),
    };
    read.with_context(|| format!("reading {}", path.display()))?;
    let Message { transaction, message } = serde_json::from_str(&text)
        .map_err(|error| Usage(format!("{} is no acknowledgement: {error}", path.display())))?;
    let bytes = message.len();
    let trust = Trust { chain, epoch, instance: instance.0, public_key: &key };
    let verified = verify_acknowledgement(&trust, &transaction.0, &message);
    let known = match verified {
        Ok(known) => known,
        Err(error) => {
            eprintln!("phalanx: {error}");
            let (transaction, reason) = (transaction.to_string(), Some(error.to_string()));
            let refused = Acknowledged { transaction, bytes, reason, ..Acknowledged::default() };
            return form.print("", &refused).map(|_| exit::DIVERGENCE);
        }
    };
    let fate = known.fate;
    let status = TxStatus::from_number(fate.status).map(|status| match status {
        TxStatus::Succeeded => "succeeded",
        TxStatus::Reverted => "reverted",
        TxStatus::Skipped => "skipped",
    });
    let fared = match status {
        Some("succeeded") => "succeeded".to_owned(),
        Some(other) => format!("was {other}"),
        None => "of an unknown status".to_owned(),
    };
    let (root, place) = (B256::new(fate.block.state_root), fate.place);
    let text = format!(
        "proven by {bytes} bytes: {transaction} {fared}, {} of {} in block {}, state root {root}\n",
        place + 1,
        fate.count,
        known.slot
    );
    let acknowledged = Acknowledged {
        proven: true,
        transaction: transaction.to_string(),
        status,
        block: Some(known.slot),
        place: Some(place.into()),
        count: Some(fate.count.into()),
        state_root: Some(root.to_string()),
        bytes,
        reason: None,
    };
    form.print(&text, &acknowledged)
}
