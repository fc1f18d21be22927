//! Commands that look at one store, and the one that prunes it.

use super::{
    db::{Db, lines},
    words::StateKey,
};
use crate::{exit, output};
use phalanx::{
    merkle::{Access, Shape, Tail},
    revm::primitives::{B256, hex},
};
use phalanx_lab::{config::word, machine::host};
use serde_json::{Value, json};
use std::path::Path;

/// Prints height and root of the store at `db`.
pub(super) fn info(db: &Db, json: bool) -> anyhow::Result<u8> {
    let store = db.read()?;
    let (height, root, keys) = (store.height(), B256::new(store.root()), store.len());
    let (bytes, hasher) = (host::size_of(db.path()), word(store.params().hash));
    let kind = db.identity()?.backend.name();
    if json {
        let Shape { next_sn, floor, active } = store.shape();
        let Value::Object(mut value) = json!({
            "height": height, "state_root": root.to_string(), "keys": keys, "bytes": bytes, "kind": kind, "hasher": hasher,
            "positions": next_sn, "floor": floor, "active": active, "staged": store.forks().len(),
        }) else {
            unreachable!("an object was built")
        };
        value.extend(tail(store.tail()));
        output::json(Path::new("-"), &value)?;
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

/// Fields of what opening found torn or gone.
fn tail(tail: &Tail) -> [(String, Value); 2] {
    let torn = tail
        .torn
        .iter()
        .map(|torn| json!({ "file": torn.file, "offset": torn.offset, "bytes": torn.bytes, "kept": torn.kept }));
    let lost = tail.lost.map(|lost| json!({ "writes": lost.writes, "height": lost.height }));
    [("torn".into(), torn.collect()), ("lost".into(), lost.into())]
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
