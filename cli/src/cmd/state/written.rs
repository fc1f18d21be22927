//! Output of the `state` commands: text for people, or JSON.

use crate::{exit, output};
use clap::Args;
use phalanx::{StoredEntry, revm::primitives::hex};
use phalanx_lab::result::SCHEMA;
use schemars::JsonSchema;
use serde::Serialize;
use std::path::Path;

/// Form of what a command prints.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct Form {
    /// Print JSON
    #[arg(long)]
    pub(super) json: bool,
}

impl Form {
    /// Prints a result in this form.
    pub(super) fn print(self, text: &str, value: &impl Serialize) -> anyhow::Result<u8> {
        if self.json {
            output::json(Path::new("-"), &Written { schema: SCHEMA, value })?;
        } else {
            output::print(text)?;
        }
        Ok(exit::OK)
    }
}

/// A result with the version of its schema.
#[derive(Serialize, JsonSchema)]
pub(super) struct Written<T> {
    /// Version of the schema.
    #[schemars(extend("const" = SCHEMA))]
    schema: u32,
    #[serde(flatten)]
    value: T,
}

/// A key and its value.
#[derive(Serialize, JsonSchema)]
pub(super) struct Got {
    /// Root of the state.
    pub(super) state_root: String,
    /// The key, in hex.
    pub(super) key: String,
    /// The stored bytes, in hex. Null if the key is absent.
    pub(super) value: Option<String>,
    /// The value in words. Null if the key is absent, or of no account and no slot.
    pub(super) decoded: Option<Decoded>,
}

/// A value in words. What another kind has is null.
#[derive(Default, Serialize, JsonSchema)]
pub(super) struct Decoded {
    /// `account`, `gone` for an account of which only its incarnation is kept, or `slot`.
    kind: &'static str,
    /// Address of the account, or of the contract.
    address: String,
    /// Number of the account's transactions, or of the contracts that it has created.
    nonce: Option<u64>,
    /// Balance in wei, in decimal digits.
    balance_wei: Option<String>,
    /// Keccak-256 of the account's code. Null without code.
    code_hash: Option<String>,
    /// Number of times that the storage was emptied at once, before Cancun.
    incarnation: u32,
    /// The slot, in hex.
    slot: Option<String>,
    /// The slot's value, in hex.
    word: Option<String>,
}

impl Decoded {
    /// An entry in words; `None` for one that has none.
    pub(super) fn of(key: &[u8], value: &[u8]) -> Option<Self> {
        Some(match StoredEntry::decode(key, value)? {
            StoredEntry::Account { address, nonce, balance, code_hash, incarnation } => Self {
                kind: "account",
                address: address.to_string(),
                nonce: Some(nonce),
                balance_wei: Some(balance.to_string()),
                code_hash: code_hash.map(|hash| hash.to_string()),
                incarnation,
                ..Self::default()
            },
            StoredEntry::Gone { address, incarnation } => {
                Self { kind: "gone", address: address.to_string(), incarnation, ..Self::default() }
            }
            StoredEntry::Slot { address, slot, incarnation, value } => Self {
                kind: "slot",
                address: address.to_string(),
                incarnation,
                slot: Some(format!("{slot:#x}")),
                word: Some(format!("{value:#x}")),
                ..Self::default()
            },
            _ => return None,
        })
    }

    /// Lines of a name and a value.
    pub(super) fn lines(&self) -> String {
        let code = self.code_hash.clone().unwrap_or_else(|| "none".into());
        let lines = [
            (self.kind, Some(self.address.clone())),
            ("nonce", self.nonce.map(|nonce| nonce.to_string())),
            ("balance", self.balance_wei.as_ref().map(|balance| format!("{balance} wei"))),
            ("code hash", (self.kind == "account").then_some(code)),
            ("slot", self.slot.clone()),
            ("value", self.word.clone()),
            ("emptied", (self.incarnation > 0).then(|| format!("{} times", self.incarnation))),
        ];
        lines.into_iter().filter_map(|(name, value)| Some(format!("{name:10} {}\n", value?))).collect()
    }
}

/// A verified proof.
#[derive(Serialize, JsonSchema)]
pub(super) struct Verified {
    /// True if the proof leads to the trusted root.
    pub(super) proven: bool,
    /// The key, in hex.
    pub(super) key: String,
    /// The proven value, in hex. Null if absence is claimed.
    pub(super) value: Option<String>,
    /// The value in words. Null if there are none.
    pub(super) decoded: Option<Decoded>,
    /// Reason why the proof does not hold. Null if it does.
    pub(super) reason: Option<String>,
}

/// A verified acknowledgement.
#[derive(Default, Serialize, JsonSchema)]
pub(super) struct Acknowledged {
    /// True if the message proves its transaction under the trusted key.
    pub(super) proven: bool,
    /// Hash of the transaction.
    pub(super) transaction: String,
    /// `succeeded`, `reverted` or `skipped`. Null if nothing is proven, or of an unknown status.
    pub(super) status: Option<&'static str>,
    /// Number of its block. Null if nothing is proven.
    pub(super) block: Option<u64>,
    /// Place in the block, from 0. Null if nothing is proven.
    pub(super) place: Option<u64>,
    /// Number of transactions of the block. Null if nothing is proven.
    pub(super) count: Option<u64>,
    /// State root after the block. Null if nothing is proven.
    pub(super) state_root: Option<String>,
    /// Length of the message, in bytes.
    pub(super) bytes: usize,
    /// Reason why nothing is proven. Null if it is.
    pub(super) reason: Option<String>,
}

/// A sound store.
#[derive(Serialize, JsonSchema)]
pub(super) struct Checked {
    /// True: a store that is not sound ends with exit code 6.
    pub(super) sound: bool,
    /// Root of the tip.
    pub(super) state_root: String,
    /// Keys of the state.
    pub(super) keys: usize,
    /// Twigs whose leaves were all hashed.
    pub(super) twigs: u64,
}

/// Space that pruning freed.
#[derive(Serialize, JsonSchema)]
pub(super) struct Pruned {
    /// Blocks that the log no longer has.
    pub(super) blocks: u64,
    /// Bytes that were freed.
    pub(super) freed_bytes: u64,
    /// Bytes that are left.
    pub(super) bytes: u64,
}

/// A store that was made.
#[derive(Serialize, JsonSchema)]
pub(super) struct Made {
    /// The store.
    pub(super) db: String,
    /// Root of the tip.
    pub(super) state_root: String,
    /// Height of the tip. Null before the first block.
    pub(super) height: Option<u64>,
    /// Keys of the state.
    pub(super) keys: usize,
}

/// A written stream.
#[derive(Serialize, JsonSchema)]
pub(super) struct Exported {
    /// The stream.
    pub(super) to: String,
    /// Root of the tip.
    pub(super) state_root: String,
    /// Blocks in the stream.
    pub(super) blocks: u64,
}

/// A written snapshot.
#[derive(Serialize, JsonSchema)]
pub(super) struct Snapped {
    /// Folder of the manifest and the chunks.
    pub(super) to: String,
    /// Height of the state.
    pub(super) height: u64,
    /// Root at that height.
    pub(super) state_root: String,
    /// Number of chunks.
    pub(super) chunks: u64,
    /// Bytes of all chunks.
    pub(super) bytes: usize,
}

/// Chunks of a snapshot that are missing or refused.
#[derive(Serialize, JsonSchema)]
pub(super) struct Unrestored {
    /// Numbers of the chunks that are missing or refused.
    pub(super) missing: Vec<u64>,
    /// Number of all chunks.
    pub(super) chunks: u64,
}

/// Unfinished output that was discarded.
#[derive(Serialize, JsonSchema)]
pub(super) struct Discarded {
    /// The place.
    pub(super) db: String,
    /// True if something was left beside it.
    pub(super) removed: bool,
}

/// Bytes in hex, as keys and values are printed.
pub(super) fn hex(bytes: &[u8]) -> String {
    hex::encode_prefixed(bytes)
}
