//! `state`: a look at a store.

use crate::{
    args::{Hasher, Store},
    exit::{self, Usage},
    host, output,
};
use anyhow::Context as _;
use phalanx::{
    merkle::{self, StoreConfig},
    revm::primitives::B256,
};
use std::path::Path;

/// Prints height and root of the store at `db`.
pub(crate) fn info(db: &Store, hasher: Hasher, json: bool) -> anyhow::Result<u8> {
    let Some(path) = db.path() else { return Err(Usage("a store in memory has nothing to show".into()).into()) };
    if !path.exists() {
        return Err(Usage(format!("{} does not exist", path.display())).into());
    }
    let is_empty = std::fs::read_dir(path).map(|mut entries| entries.next().is_none());
    if is_empty.with_context(|| format!("reading {}", path.display()))? {
        return Err(Usage(format!("{} is empty: there is no store in it", path.display())).into());
    }
    let config = StoreConfig::new(db.backend()?).with_params(hasher.params());
    let store = merkle::Store::open(config).context("opening the store")?;
    let (height, root, keys) = (store.height(), B256::new(store.root()), store.len());
    let bytes = host::size_of(path);
    if json {
        let value =
            serde_json::json!({ "height": height, "state_root": root.to_string(), "keys": keys, "bytes": bytes });
        output::json(Path::new("-"), &value)?;
    } else {
        let height = height.map_or("no block".to_owned(), |h| h.to_string());
        output::print(&format!("height      {height}\nstate root  {root}\nkeys        {keys}\nbytes       {bytes}\n"))?;
    }
    Ok(exit::OK)
}
