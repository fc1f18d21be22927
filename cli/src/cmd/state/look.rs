//! Commands that look at one store, and the one that prunes it.

use super::{
    db::{Db, lines},
    words::StateKey,
};
use crate::{exit, output};
use phalanx::{
    merkle::{Access, Shape, Tail, Torn},
    revm::primitives::{B256, hex},
};
use phalanx_lab::{
    config::word,
    machine::host,
    written::{Named, schema},
};
use schemars::JsonSchema;
use serde::Serialize;
use std::path::Path;

/// Output of `state info --json`.
#[derive(Serialize, JsonSchema)]
struct Info<'a> {
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

/// Schema of what `state info` writes.
pub(in crate::cmd) fn info_schema() -> Named {
    schema::<Info<'_>>("state-info", "state info --json")
}

/// Prints height and root of the store at `db`.
pub(super) fn info(db: &Db, json: bool) -> anyhow::Result<u8> {
    let store = db.read()?;
    let (height, root, keys) = (store.height(), B256::new(store.root()), store.len());
    let (bytes, hasher) = (host::size_of(db.path()), word(store.params().hash));
    let kind = db.identity()?.backend.name();
    if json {
        let Shape { next_sn, floor, active } = store.shape();
        let Tail { torn, lost, .. } = store.tail();
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
        output::json(Path::new("-"), &info)?;
    } else {
        let height = height.map_or("no block".to_owned(), |h| h.to_string());
        let mut text = format!(
            "height      {height}\nstate root  {root}\nkeys        {keys}\nbytes       {bytes}\nkind        {kind}, {hasher}\n"
        );
        lines(store.tail(), Access::Read).iter().for_each(|line| text.push_str(&format!("tail        {line}\n")));
        output::print(&text)?;
    }
    Ok(exit::OK)
}

/// Prints the value of a key.
pub(super) fn get(db: &Db, key: &StateKey) -> anyhow::Result<u8> {
    let store = db.read()?;
    let value = store.read().get(&key.0).map(hex::encode_prefixed);
    output::print(&format!("{}\n", value.as_deref().unwrap_or("absent")))?;
    Ok(exit::OK)
}

/// Reads the whole store and compares it with its root.
pub(super) fn check(db: &Db) -> anyhow::Result<u8> {
    let store = db.read()?;
    let twigs = store.check()?;
    let root = B256::new(store.root());
    output::print(&format!("sound: {} keys, {twigs} full twigs, root {root}\n", store.len()))?;
    Ok(exit::OK)
}

/// Drops log records that the state no longer needs.
pub(super) fn prune(db: &Db) -> anyhow::Result<u8> {
    let mut store = db.open(Access::Write)?;
    let before = host::size_of(db.path());
    let blocks = store.prune()?;
    drop(store);
    let after = host::size_of(db.path());
    output::print(&format!("pruned {blocks} blocks, {} bytes freed, {after} left\n", before.saturating_sub(after)))?;
    Ok(exit::OK)
}
