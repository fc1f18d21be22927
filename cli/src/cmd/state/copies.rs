//! Copies of a store, each all or nothing: backup, export and import, snapshot and restore.

use super::{
    New,
    db::{Db, Place, check_hasher, config},
    words::Hex,
    written::{Discarded, Exported, Form, Made, Snapped, Unrestored},
};
use crate::{exit, output};
use anyhow::Context as _;
use phalanx::{
    merkle::{self, EXPORT_HEAD_LEN, Identity, export_params, snapshot::Manifest},
    revm::primitives::B256,
};
use phalanx_lab::{
    config::Store,
    error::Usage,
    machine::temporary::{Unfinished, in_the_making},
};
use std::{
    fs::{self, File},
    io::{self, BufReader, BufWriter, Read, Write as _},
    path::{Path, PathBuf},
};

/// Copies the store to another place of any kind.
pub(super) fn backup(db: &Db, place: &Place, form: Form) -> anyhow::Result<u8> {
    let store = db.read()?;
    let Identity { backend, params, .. } = db.identity()?;
    let like = match backend.name() {
        "file" => Store::File(PathBuf::new()),
        _ => Store::Rocks(PathBuf::new()),
    };
    let (to, root) = (config(place.backend(&like)?, params), store.root());
    let (mut reader, writer) = io::pipe().context("making a pipe")?;
    let copy = std::thread::scope(|scope| {
        let export = scope.spawn(|| {
            let mut out = BufWriter::new(writer);
            store.export(&mut out)?;
            out.flush().context("copying")
        });
        let copy = merkle::Store::import_root(to, &mut reader, Some(&root)).context("making the copy");
        // Dropping the reader ends the exporting thread, too.
        drop(reader);
        let exported = export.join().map_err(|_| anyhow::anyhow!("the copying thread panicked"))?;
        // A store that cannot be read cuts the stream off; a copy that cannot be written closes the pipe.
        match exported {
            Err(error) if !closed_the_pipe(&error) => Err(error.context("reading the store")),
            _ => copy,
        }
    })?;
    form.print(&format!("copied {} keys, root {}\n", copy.len(), B256::new(copy.root())), &made(place, &copy))
}

/// A store that was made, as written.
fn made(place: &Place, store: &merkle::Store) -> Made {
    let (db, state_root) = (place.path().display().to_string(), B256::new(store.root()).to_string());
    Made { db, state_root, height: store.height(), keys: store.len() }
}

/// Returns true if an export ended because its reader did.
fn closed_the_pipe(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        let io = match cause.downcast_ref::<merkle::Error>() {
            Some(merkle::Error::Io { source, .. }) => Some(source),
            _ => cause.downcast_ref::<io::Error>(),
        };
        io.is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
    })
}

/// Writes the store as a stream.
pub(super) fn export(db: &Db, to: &Path, form: Form) -> anyhow::Result<u8> {
    if form.json && to == Path::new("-") {
        return Err(Usage("--json and the stream cannot both go to stdout: name a file".into()).into());
    }
    let store = db.read()?;
    let named = |error| named(error, to);
    let blocks = if to == Path::new("-") {
        let mut out = BufWriter::new(io::stdout().lock());
        let blocks = store.export(&mut out).map_err(named)?;
        out.flush().context("writing to stdout")?;
        blocks
    } else {
        let mut out = output::Beside::create(to)?;
        let blocks = store.export(&mut out).map_err(named)?;
        out.finish()?;
        blocks
    };
    let root = B256::new(store.root());
    eprintln!("exported {blocks} blocks, root {root}");
    form.print("", &Exported { to: to.display().to_string(), state_root: root.to_string(), blocks })
}

/// The error with the stream's own path: the store knows a stream and no path of it.
fn named(mut error: merkle::Error, stream: &Path) -> merkle::Error {
    if let merkle::Error::Corrupt { path, .. } | merkle::Error::Io { path, .. } = &mut error
        && (path == Path::new("(export)") || path == Path::new("(import)"))
    {
        *path = if stream == Path::new("-") { "(standard stream)".into() } else { stream.to_path_buf() };
    }
    error
}

/// Makes a store from a stream, which says its hash function itself.
pub(super) fn import(New { db, hasher }: &New, from: &Path, root: Option<&Hex>, form: Form) -> anyhow::Result<u8> {
    let root = root.map(Hex::root).transpose()?;
    let backend = db.backend(&Store::File(PathBuf::new()))?;
    let (mut stream, mut head) = (input(from)?, Vec::new());
    let reading = || format!("reading {}", from.display());
    (&mut stream).take(EXPORT_HEAD_LEN as u64).read_to_end(&mut head).with_context(reading)?;
    let params = export_params(&head).ok_or_else(|| merkle::Error::Corrupt {
        path: from.to_path_buf(),
        what: "it does not begin as what `state export` writes".into(),
    })?;
    check_hasher(from, params.hash, *hasher)?;
    let mut stream = head.chain(stream);
    let store = merkle::Store::import_root(config(backend, params), &mut stream, root.as_ref())
        .map_err(|error| named(error, from))
        .context("importing")?;
    let found = B256::new(store.root());
    form.print(&format!("imported {} keys, root {found}\n", store.len()), &made(db, &store))
}

/// Opens a file, or stdin for `-`.
pub(super) fn input(path: &Path) -> anyhow::Result<Box<dyn Read>> {
    if path == Path::new("-") {
        return Ok(Box::new(io::stdin()));
    }
    let file = File::open(path).with_context(|| format!("opening {}", path.display()))?;
    Ok(Box::new(BufReader::new(file)))
}

/// Writes the snapshot of a height: a folder of another name until it is whole.
pub(super) fn snapshot(db: &Db, height: Option<u64>, to: &Path, form: Form) -> anyhow::Result<u8> {
    if to.exists() {
        return Err(Usage(format!("{} exists: choose a new folder", to.display())).into());
    }
    let store = db.read()?;
    let block = match height {
        None => store.tip(),
        Some(height) => {
            let known = || Usage(format!("the store cannot go back to height {height}"));
            store.block_at(height).ok_or_else(known)?
        }
    };
    let exporter = match store.exporter(block) {
        Err(merkle::Error::Gone { .. }) => {
            let height = height.map_or_else(String::new, |height| format!(" of height {height}"));
            return Err(Usage(format!("the store no longer has the state{height}")).into());
        }
        other => other.context("reading the state")?,
    };
    let new = Unfinished::new(in_the_making(to));
    let writing = || format!("writing {}", new.path().display());
    fs::create_dir(new.path()).with_context(writing)?;
    let put = |name: &str, bytes: &[u8]| -> io::Result<()> {
        let mut file = File::create(new.path().join(name))?;
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
    File::open(new.path()).and_then(|folder| folder.sync_all()).with_context(writing)?;
    new.finish(to).with_context(|| format!("renaming to {}", to.display()))?;
    let (height, root, chunks) = (manifest.height, B256::new(manifest.root), manifest.chunks());
    let text = format!("snapshot of height {height}, root {root}: {chunks} chunks, {total} bytes\n");
    let (to, state_root) = (to.display().to_string(), root.to_string());
    form.print(&text, &Snapped { to, height, state_root, chunks, bytes: total })
}

/// Name of the manifest in a snapshot's folder.
const MANIFEST: &str = "manifest";

/// Name of a chunk in a snapshot's folder.
fn chunk_name(number: u64) -> String {
    format!("{number:08}.chunk")
}

/// Makes a store of a snapshot. Chunks that are missing or bad are named, and the rest is kept.
pub(super) fn restore(
    New { db, hasher }: &New,
    from: &Path,
    height: u64,
    root: &Hex,
    form: Form,
) -> anyhow::Result<u8> {
    let backend = db.backend(&Store::File(PathBuf::new()))?;
    let read = |name: &str| fs::read(from.join(name)).with_context(|| format!("reading {}", from.join(name).display()));
    let manifest = read(MANIFEST)?;
    let params = Manifest::decode(&manifest).map(|manifest| manifest.params).unwrap_or_default();
    check_hasher(from, params.hash, *hasher)?;
    let mut restore = merkle::Restore::begin(config(backend, params), &manifest, height, &root.root()?)?;
    let missing: Vec<u64> = restore.missing().collect();
    let (chunks, mut refused) = (restore.manifest().chunks(), Vec::new());
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
            refused.push(*number);
        }
    }
    if !refused.is_empty() {
        eprintln!(
            "phalanx: {} of {chunks} chunks are missing; the others are kept: get these anew, and repeat the command",
            refused.len()
        );
        return form.print("", &Unrestored { missing: refused, chunks }).map(|_| exit::DIVERGENCE);
    }
    let store = restore.finish(Vec::new())?;
    let (keys, root) = (store.len(), B256::new(store.root()));
    form.print(&format!("restored {keys} keys at height {height}, root {root}\n"), &made(db, &store))
}

/// Removes what an interrupted import left.
pub(super) fn discard(db: &Place, form: Form) -> anyhow::Result<u8> {
    let path = db.path();
    let left = merkle::discard_import(path)?;
    let what = if left { "removed what was left beside" } else { "nothing was left beside" };
    let text = format!("{what} {}\n", path.display());
    form.print(&text, &Discarded { db: path.display().to_string(), removed: left })
}
