//! A client that believes one message: the acknowledgement of a transaction, verified under one public key.

use crate::{exit, output};
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
pub(super) fn verify(path: &Path, public_key: &str, chain: u64, epoch: u64) -> anyhow::Result<u8> {
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
    match verify_acknowledgement(&Trust { chain, epoch, public_key: &key }, &transaction.0, &message) {
        Ok(known) => {
            let fate = known.fate;
            let status = TxStatus::from_number(fate.status).map_or("of an unknown status", |status| match status {
                TxStatus::Succeeded => "succeeded",
                TxStatus::Reverted => "was reverted",
                TxStatus::Skipped => "was skipped",
            });
            let root = B256::new(fate.block.state_root);
            output::print(&format!(
                "proven by {} bytes: {transaction} {status}, {} of {} in block {}, state root {root}\n",
                message.len(),
                fate.place + 1,
                fate.count,
                known.slot
            ))?;
            Ok(exit::OK)
        }
        Err(error) => {
            eprintln!("phalanx: {error}");
            Ok(exit::DIVERGENCE)
        }
    }
}
