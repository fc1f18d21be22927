//! `state`: reads, proves, checks, prunes and copies a state store.

use crate::{exit, output};
use anyhow::Context as _;
use clap::{Args, Subcommand};
use phalanx::{
    merkle::{self, HashFn, Params, StoreConfig, verify_exclusion, verify_inclusion},
    revm::primitives::{B256, hex},
};
use phalanx_lab::{
    config::{Store, choice},
    error::Usage,
    machine::host,
};
use serde::{Deserialize, Serialize};
use std::{
    fs::{self, File},
    io::{self, BufReader, BufWriter, Read, Write as _},
    path::{Path, PathBuf},
};

#[derive(Debug, Subcommand)]
pub(crate) enum StateCommand {
    /// Print height and root of a store
    Info {
        #[command(flatten)]
        db: Db,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Print the value of a key
    Get {
        #[command(flatten)]
        db: Db,
        /// Address (20 bytes), or address and slot (52 bytes), in hex
        key: StateKey,
    },
    /// Print a proof of a key's value or absence, as JSON
    Prove {
        #[command(flatten)]
        db: Db,
        /// Address (20 bytes), or address and slot (52 bytes), in hex
        key: StateKey,
    },
    /// Verify a proof without a store
    Verify {
        /// Output of `state prove`, `-` for stdin
        #[arg(value_name = "FILE|-")]
        proof: PathBuf,
        /// Trusted root, in hex
        #[arg(long)]
        root: Hex,
        /// Hash of the commitment
        #[arg(long, value_parser = choice::<HashFn>(), default_value = "sha256")]
        hasher: HashFn,
    },
    /// Read the whole store and compare it with its root
    Check {
        #[command(flatten)]
        db: Db,
    },
    /// Drop the beginning of the log, which the state no longer needs
    Prune {
        #[command(flatten)]
        db: Db,
    },
    /// Copy a store to a new or empty folder
    Backup {
        #[command(flatten)]
        db: Db,
        /// Place of the copy: file:DIR or rocks:DIR
        #[arg(long, value_parser = Store::parse)]
        to: Store,
    },
    /// Write a store as one stream
    Export {
        #[command(flatten)]
        db: Db,
        /// File to write, `-` for stdout
        #[arg(value_name = "FILE|-")]
        to: PathBuf,
    },
    /// Make a store in a new or empty folder from such a stream
    Import {
        #[command(flatten)]
        db: Db,
        /// File to read, `-` for stdin
        #[arg(value_name = "FILE|-")]
        from: PathBuf,
        /// Expected root, in hex; another root is refused
        #[arg(long)]
        root: Option<Hex>,
    },
    /// Write the state as chunks that are proven one by one, the same on every node
    Snapshot {
        #[command(flatten)]
        db: Db,
        /// Height, one of the last blocks [default: the last]
        #[arg(long)]
        height: Option<u64>,
        /// New folder for the manifest and the chunks
        #[arg(value_name = "DIR")]
        to: PathBuf,
    },
    /// Make a store of a snapshot's chunks; one that was interrupted goes on
    Restore {
        #[command(flatten)]
        db: Db,
        /// Folder with a manifest and chunks
        #[arg(value_name = "DIR")]
        from: PathBuf,
        /// Trusted height
        #[arg(long)]
        height: u64,
        /// Trusted root at that height, in hex
        #[arg(long)]
        root: Hex,
    },
    /// Remove what an interrupted import, restore or backup left
    Discard {
        #[command(flatten)]
        db: Db,
    },
}

/// Selects a store.
#[derive(Debug, Args)]
pub(crate) struct Db {
    /// Place of the store: file:DIR or rocks:DIR
    #[arg(long, value_parser = Store::parse)]
    db: Store,
    /// Hash of the commitment
    #[arg(long, value_parser = choice::<HashFn>(), default_value = "sha256")]
    hasher: HashFn,
}

/// Bytes on the command line.
#[derive(Clone, Debug)]
pub(crate) struct Hex(Vec<u8>);

impl core::str::FromStr for Hex {
    type Err = &'static str;

    fn from_str(word: &str) -> Result<Self, Self::Err> {
        let bytes = phalanx::revm::primitives::hex::decode(word);
        bytes.map(Self).map_err(|_| "expected an even number of hex digits")
    }
}

/// Key of an account or a slot.
#[derive(Clone, Debug)]
pub(crate) struct StateKey(Vec<u8>);

impl core::str::FromStr for StateKey {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, Self::Err> {
        let Hex(bytes) = word.parse()?;
        Self::checked(bytes)
    }
}

impl StateKey {
    fn checked(bytes: Vec<u8>) -> Result<Self, String> {
        let len = bytes.len();
        let wanted = "an address has 20 bytes; a slot's key has 52, the address and the slot";
        (phalanx::contents().is_key)(&bytes).then_some(Self(bytes)).ok_or(format!("{len} bytes, but {wanted}"))
    }
}

impl StateCommand {
    pub(super) fn run(&self) -> anyhow::Result<u8> {
        match self {
            Self::Info { db, json } => info(db, *json),
            Self::Get { db, key } => get(db, key),
            Self::Prove { db, key } => prove(db, key),
            Self::Verify { proof, root, hasher } => verify(proof, root, *hasher),
            Self::Check { db } => check(db),
            Self::Prune { db } => prune(db),
            Self::Backup { db, to } => backup(db, to),
            Self::Export { db, to } => export(db, to),
            Self::Import { db, from, root } => import(db, from, root.as_ref()),
            Self::Snapshot { db, height, to } => snapshot(db, *height, to),
            Self::Restore { db, from, height, root } => restore(db, from, *height, root),
            Self::Discard { db } => discard(db),
        }
    }
}

/// Output of `state prove` and input of `state verify`.
#[derive(Debug, Serialize, Deserialize)]
struct Proof {
    state_root: String,
    key: String,
    value: Option<String>,
    proof: String,
}

fn config(db: &Db) -> anyhow::Result<StoreConfig> {
    Ok(StoreConfig::new(db.db.backend()?).with_params(Params::with_hash(db.hasher)).with_contents(phalanx::contents()))
}

fn folder(db: &Store) -> anyhow::Result<&Path> {
    Ok(db.path().ok_or_else(|| Usage("a store in memory is empty".into()))?)
}

/// True if there is nothing at a path, or an empty folder.
fn is_empty(path: &Path) -> bool {
    fs::read_dir(path).map_or_else(|_| !path.exists(), |mut entries| entries.next().is_none())
}

/// Opens an existing store.
fn open(db: &Db) -> anyhow::Result<merkle::Store> {
    let path = folder(&db.db)?;
    if let Some(partial) = merkle::interrupted_import(path).filter(|_| is_empty(path)) {
        let what = "an import, restore or backup into it was interrupted or still runs";
        let repair = "repeat the command, or `phalanx state discard` it";
        let (path, partial) = (path.display(), partial.display());
        return Err(Usage(format!("{path} is no store yet: {what} ({partial}); {repair}")).into());
    }
    if !path.exists() {
        return Err(Usage(format!("{} does not exist", path.display())).into());
    }
    let is_empty = std::fs::read_dir(path).map(|mut entries| entries.next().is_none());
    if is_empty.with_context(|| format!("reading {}", path.display()))? {
        return Err(Usage(format!("{} is empty: there is no store in it", path.display())).into());
    }
    merkle::Store::open(config(db)?).map_err(|error| {
        // A corrupt store is never repaired in place: the damage may hit durable blocks.
        let hint = match error {
            merkle::Error::Corrupt { .. } => {
                "opening the store; to repair it, move it away and `phalanx state import` what a backup or another node's \
                 `phalanx state export` holds, with the --root that you trust"
            }
            _ => "opening the store",
        };
        anyhow::Error::new(error).context(hint)
    })
}

/// Prints height and root of the store at `db`.
fn info(db: &Db, json: bool) -> anyhow::Result<u8> {
    let store = open(db)?;
    let (height, root, keys) = (store.height(), B256::new(store.root()), store.len());
    let bytes = host::size_of(folder(&db.db)?);
    if json {
        let merkle::Shape { next_sn, floor, active } = store.shape();
        let value = serde_json::json!({
            "height": height, "state_root": root.to_string(), "keys": keys, "bytes": bytes,
            "positions": next_sn, "floor": floor, "active": active, "staged": store.forks().len(),
        });
        output::json(Path::new("-"), &value)?;
    } else {
        let height = height.map_or("no block".to_owned(), |h| h.to_string());
        output::print(&format!("height      {height}\nstate root  {root}\nkeys        {keys}\nbytes       {bytes}\n"))?;
    }
    Ok(exit::OK)
}

/// Prints the value of a key.
fn get(db: &Db, key: &StateKey) -> anyhow::Result<u8> {
    let store = open(db)?;
    let value = store.read().get(&key.0).map(hex::encode_prefixed);
    output::print(&format!("{}\n", value.as_deref().unwrap_or("absent")))?;
    Ok(exit::OK)
}

/// Prints a proof of a key's value or absence.
fn prove(db: &Db, key: &StateKey) -> anyhow::Result<u8> {
    let store = open(db)?;
    let reader = store.read();
    let value = reader.get(&key.0).map(hex::encode_prefixed);
    let proof = match reader.prove(&key.0)? {
        Some(proof) => proof,
        None => reader.prove_absence(&key.0)?.unwrap_or_default(),
    };
    let state_root = B256::new(reader.root()).to_string();
    let proof = Proof { state_root, key: hex::encode_prefixed(&key.0), value, proof: hex::encode_prefixed(proof) };
    output::json(Path::new("-"), &proof)?;
    Ok(exit::OK)
}

/// Verifies the output of [`prove`] against a root.
fn verify(path: &Path, root: &Hex, hasher: HashFn) -> anyhow::Result<u8> {
    let root = root_of(root)?;
    let mut text = String::new();
    input(path)?.read_to_string(&mut text).with_context(|| format!("reading {}", path.display()))?;
    let unreadable = |what: &str| Usage(format!("{} is no proof: {what}", path.display()));
    let claim: Proof = serde_json::from_str(&text).map_err(|error| unreadable(&error.to_string()))?;
    let bytes = |word: &str| hex::decode(word).map_err(|_| unreadable("not hex"));
    let StateKey(key) = StateKey::checked(bytes(&claim.key)?).map_err(|why| unreadable(&why))?;
    let (proof, params) = (bytes(&claim.proof)?, Params::with_hash(hasher));
    let proven = match &claim.value {
        Some(value) => {
            let value = bytes(value)?;
            verify_inclusion(&params, &root, &proof).and_then(|entry| {
                let same = entry.key == key && entry.value == value;
                same.then_some(()).ok_or(merkle::ProofError::Other)
            })
        }
        None => verify_exclusion(&params, &root, &key, &proof),
    };
    match proven {
        Ok(()) => {
            output::print(&format!("proven: {}\n", claim.value.as_deref().unwrap_or("absent")))?;
            Ok(exit::OK)
        }
        Err(error) => {
            eprintln!("phalanx: {error}");
            Ok(exit::DIVERGENCE)
        }
    }
}

/// Root on the command line.
fn root_of(root: &Hex) -> Result<merkle::Hash, Usage> {
    root.0[..].try_into().map_err(|_| Usage("a root has 32 bytes".into()))
}

/// Reads the whole store and compares it with its root.
fn check(db: &Db) -> anyhow::Result<u8> {
    let store = open(db)?;
    let twigs = store.check()?;
    let root = B256::new(store.root());
    output::print(&format!("sound: {} keys, {twigs} full twigs, root {root}\n", store.len()))?;
    Ok(exit::OK)
}

/// Drops log records that the state no longer needs.
fn prune(db: &Db) -> anyhow::Result<u8> {
    let mut store = open(db)?;
    let before = host::size_of(folder(&db.db)?);
    let blocks = store.prune()?;
    drop(store);
    let after = host::size_of(folder(&db.db)?);
    output::print(&format!("pruned {blocks} blocks, {} bytes freed, {after} left\n", before.saturating_sub(after)))?;
    Ok(exit::OK)
}

/// Copies the store to another place of any kind.
fn backup(db: &Db, to: &Store) -> anyhow::Result<u8> {
    let store = open(db)?;
    let to = Db { db: to.clone(), hasher: db.hasher };
    folder(&to.db)?;
    let (mut reader, writer) = io::pipe().context("making a pipe")?;
    let copy = std::thread::scope(|scope| {
        let export = scope.spawn(|| {
            let mut out = BufWriter::new(writer);
            store.export(&mut out)?;
            out.flush().context("copying")
        });
        let copy = merkle::Store::import(config(&to)?, &mut reader).context("making the copy");
        // Dropping the reader ends the exporting thread, too.
        drop(reader);
        let exported = export.join().map_err(|_| anyhow::anyhow!("the copying thread panicked"))?;
        let copy = copy?;
        exported.map(|()| copy)
    })?;
    anyhow::ensure!(copy.root() == store.root(), "the copy has another root");
    output::print(&format!("copied {} keys, root {}\n", copy.len(), B256::new(copy.root())))?;
    Ok(exit::OK)
}

/// Writes the store as a stream.
fn export(db: &Db, to: &Path) -> anyhow::Result<u8> {
    let store = open(db)?;
    let writing = || format!("writing {}", to.display());
    let blocks = if to == Path::new("-") {
        let mut out = BufWriter::new(io::stdout().lock());
        let blocks = store.export(&mut out).with_context(writing)?;
        out.flush().with_context(writing)?;
        blocks
    } else {
        let mut out = output::Beside::create(to)?;
        let blocks = store.export(&mut out).with_context(writing)?;
        out.finish()?;
        blocks
    };
    eprintln!("exported {blocks} blocks, root {}", B256::new(store.root()));
    Ok(exit::OK)
}

/// Makes a store from a stream.
fn import(db: &Db, from: &Path, root: Option<&Hex>) -> anyhow::Result<u8> {
    folder(&db.db)?;
    let root = root.map(root_of).transpose()?;
    let store = merkle::Store::import_root(config(db)?, &mut input(from)?, root.as_ref()).context("importing")?;
    let found = B256::new(store.root());
    output::print(&format!("imported {} keys, root {found}\n", store.len()))?;
    Ok(exit::OK)
}

fn input(path: &Path) -> anyhow::Result<Box<dyn Read>> {
    if path == Path::new("-") {
        return Ok(Box::new(io::stdin()));
    }
    let file = File::open(path).with_context(|| format!("opening {}", path.display()))?;
    Ok(Box::new(BufReader::new(file)))
}

/// Writes the snapshot of a height: a folder in the making until it is whole.
fn snapshot(db: &Db, height: Option<u64>, to: &Path) -> anyhow::Result<u8> {
    let store = open(db)?;
    if to.exists() {
        return Err(Usage(format!("{} exists: choose a new folder", to.display())).into());
    }
    let block = match height {
        None => store.tip(),
        Some(height) => {
            let known = || Usage(format!("the store cannot go back to height {height}"));
            store.block_at(height).ok_or_else(known)?
        }
    };
    let exporter = store.exporter(block).context("reading the state")?;
    let new = beside(to);
    let writing = || format!("writing {}", new.display());
    if new.exists() {
        fs::remove_dir_all(&new).with_context(writing)?;
    }
    fs::create_dir_all(&new).with_context(writing)?;
    let put = |name: &str, bytes: &[u8]| -> io::Result<()> {
        let mut file = File::create(new.join(name))?;
        file.write_all(bytes)?;
        file.sync_all()
    };
    let (manifest, mut total) = (exporter.manifest(), 0);
    put(MANIFEST, &manifest.encode()).with_context(writing)?;
    for number in 0..manifest.chunks() {
        let chunk = exporter.chunk(number)?;
        put(&chunk_name(number), &chunk).with_context(writing)?;
        total += chunk.len();
    }
    File::open(&new).and_then(|folder| folder.sync_all()).with_context(writing)?;
    fs::rename(&new, to).with_context(|| format!("renaming to {}", to.display()))?;
    let (height, root, chunks) = (manifest.height, B256::new(manifest.root), manifest.chunks());
    output::print(&format!("snapshot of height {height}, root {root}: {chunks} chunks, {total} bytes\n"))?;
    Ok(exit::OK)
}

/// Name of the manifest in a snapshot's folder.
const MANIFEST: &str = "manifest";

/// Name of a chunk in a snapshot's folder.
fn chunk_name(number: u64) -> String {
    format!("{number:08}.chunk")
}

/// Name of a folder in the making.
fn beside(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".partial");
    name.into()
}

/// Makes a store of a snapshot. Chunks that are missing or bad are named, and the rest is kept.
fn restore(db: &Db, from: &Path, height: u64, root: &Hex) -> anyhow::Result<u8> {
    folder(&db.db)?;
    let read = |name: &str| fs::read(from.join(name)).with_context(|| format!("reading {}", from.join(name).display()));
    let mut restore = merkle::Restore::begin(config(db)?, &read(MANIFEST)?, height, &root_of(root)?)?;
    let missing: Vec<u64> = restore.missing().collect();
    let (chunks, mut refused) = (restore.manifest().chunks(), 0);
    for number in &missing {
        let accepted = match read(&chunk_name(*number)) {
            Ok(bytes) => restore.accept(*number, &bytes).map_err(anyhow::Error::from),
            Err(error) => Err(error),
        };
        if let Err(error) = accepted {
            if error.downcast_ref::<merkle::Error>().is_some_and(|error| !matches!(error, merkle::Error::Snapshot(_))) {
                return Err(error);
            }
            eprintln!("phalanx: chunk {number}: {}", exit::reason(&error));
            refused += 1;
        }
    }
    if refused > 0 {
        eprintln!(
            "phalanx: {refused} of {chunks} chunks are missing; the others are kept: get these anew, and repeat the command"
        );
        return Ok(exit::DIVERGENCE);
    }
    let store = restore.finish(Vec::new())?;
    let (keys, root) = (store.len(), B256::new(store.root()));
    output::print(&format!("restored {keys} keys at height {height}, root {root}\n"))?;
    Ok(exit::OK)
}

/// Removes what an interrupted import left.
fn discard(db: &Db) -> anyhow::Result<u8> {
    let path = folder(&db.db)?;
    let left = merkle::discard_import(path)?;
    let what = if left { "removed what was left beside" } else { "nothing was left beside" };
    output::print(&format!("{what} {}\n", path.display()))?;
    Ok(exit::OK)
}
