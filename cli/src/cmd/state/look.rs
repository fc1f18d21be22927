//! Commands that look at one store, and the one that prunes it.

use super::{
    db::{Db, lines},
    words::StateKey,
    written::{Checked, Decoded, Form, Got, Pruned, hex},
};
use phalanx::{
    merkle::{Access, Shape, Tail, Torn},
    revm::primitives::B256,
};
use phalanx_lab::{config::word, machine::host};
use schemars::JsonSchema;
use serde::Serialize;
use std::path::Path;

/// Output of `state info --json`.
#[derive(Serialize, JsonSchema)]
pub(super) struct Info<'a> {
    /// Height of the tip. Null before the first block.
    height: Option<u64>,
    /// Root of the tip.
    state_root: String,
    /// Keys of the state.
    keys: usize,
    /// Size of the folder.
    bytes: u64,
    /// `file` or `rocks`.
    kind: &'a str,
    /// Hash of the commitment.
    hasher: String,
    /// Positions of the tree that were ever used.
    positions: u64,
    /// Position below which none is active.
    floor: u64,
    /// Active positions, sentinels included.
    active: u64,
    /// Blocks that are staged beside the tip.
    staged: usize,
    /// Torn ends of files that opening found.
    torn: Vec<TornPart<'a>>,
    /// Writes that are gone with them. Null if there are none.
    lost: Option<LostWrites>,
}

/// A torn end of a file.
#[derive(Serialize, JsonSchema)]
struct TornPart<'a> {
    /// The file.
    file: &'a Path,
    /// Length of its whole part, in bytes.
    offset: u64,
    /// Length of the torn part, in bytes.
    bytes: u64,
    /// File that has the torn part now. Null if it is still in place.
    kept: Option<&'a Path>,
}

impl<'a> From<&'a Torn> for TornPart<'a> {
    fn from(torn: &'a Torn) -> Self {
        Self { file: &torn.file, offset: torn.offset, bytes: torn.bytes, kept: torn.kept.as_deref() }
    }
}

/// Writes that are gone.
#[derive(Serialize, JsonSchema)]
struct LostWrites {
    /// Number of writes.
    writes: u64,
    /// Height of the tip after the last of them. Null before the first block.
    height: Option<u64>,
}

/// Prints height and root of the store at `db`.
pub(super) fn info(db: &Db, form: Form) -> anyhow::Result<u8> {
    let store = db.read()?;
    let (height, root, keys) = (store.height(), B256::new(store.root()), store.len());
    let (bytes, hasher) = (host::size_of(db.path()), word(store.params().hash));
    let kind = db.identity()?.backend.name();
    let Shape { next_sn, floor, active } = store.shape();
    let Tail { torn, lost, .. } = store.tail();
    let reached = height.map_or("no block".to_owned(), |h| h.to_string());
    let mut text = format!(
        "height      {reached}\nstate root  {root}\nkeys        {keys}\nbytes       {bytes}\nkind        {kind}, {hasher}\n"
    );
    lines(store.tail(), Access::Read).iter().for_each(|line| text.push_str(&format!("tail        {line}\n")));
    let info = Info {
        height,
        state_root: root.to_string(),
        keys,
        bytes,
        kind,
        hasher,
        positions: next_sn,
        floor,
        active,
        staged: store.forks().len(),
        torn: torn.iter().map(TornPart::from).collect(),
        lost: lost.map(|lost| LostWrites { writes: lost.writes, height: lost.height }),
    };
    form.print(&text, &info)
}

/// Prints the value of a key, in words and as it is stored.
pub(super) fn get(db: &Db, StateKey(key): &StateKey, form: Form) -> anyhow::Result<u8> {
    let store = db.read()?;
    let reader = store.read();
    let value = reader.get(key);
    let decoded = value.as_ref().and_then(|value| Decoded::of(key, value));
    let text = value.as_ref().map_or_else(
        || "absent\n".to_owned(),
        |value| decoded.as_ref().map_or_else(String::new, Decoded::lines) + &format!("stored     {}\n", hex(value)),
    );
    let state_root = B256::new(reader.root()).to_string();
    form.print(&text, &Got { state_root, key: hex(key), value: value.map(hex), decoded })
}

/// Reads the whole store and compares it with its root.
pub(super) fn check(db: &Db, form: Form) -> anyhow::Result<u8> {
    let store = db.read()?;
    let twigs = store.check()?;
    let (root, keys) = (B256::new(store.root()), store.len());
    let text = format!("sound: {keys} keys, {twigs} full twigs, root {root}\n");
    form.print(&text, &Checked { sound: true, state_root: root.to_string(), keys, twigs })
}

/// Drops log records that the state no longer needs.
pub(super) fn prune(db: &Db, form: Form) -> anyhow::Result<u8> {
    let mut store = db.open(Access::Write)?;
    let before = host::size_of(db.path());
    let blocks = store.prune()?;
    drop(store);
    let bytes = host::size_of(db.path());
    let freed_bytes = before.saturating_sub(bytes);
    let text = format!("pruned {blocks} blocks, {freed_bytes} bytes freed, {bytes} left\n");
    form.print(&text, &Pruned { blocks, freed_bytes, bytes })
}
