//! Makes a store of a snapshot's chunks, which come in any order, and over any number of starts of the process.

use std::{
    collections::HashSet,
    fs::File,
    io::Write as _,
    path::{Path, PathBuf},
};

use phalanx_merkle_proof::{Hash, TWIG_LEAVES};

use super::{handle::Store, partial::Partial};
use crate::{
    log::{Batch, BlockRecord, Disk, ExtentWriter, Log, Opening, Place, at, in_words, open_log},
    snapshot::{Chunk, Importer, Manifest},
    types::{Access, Durability, Error, Reading, SnapshotError, StoreConfig},
};

/// Restores a store from the chunks of a [snapshot](crate::snapshot).
///
/// Verified chunks are kept in a directory beside the store's, `DIR.partial`. What is interrupted goes on there: the chunks that
/// came are not missing. A store appears in its place once it is whole. Memory holds one chunk at a time.
#[derive(Debug)]
pub struct Restore {
    importer: Importer,
    config: StoreConfig,
    partial: Partial,
}

impl Restore {
    /// Begins to restore the snapshot of a trusted height and root into an absent or empty place, or goes on with it.
    ///
    /// Going on reads and checks the chunks that are there. Chunks of another snapshot are removed.
    ///
    /// # Errors
    /// [`Error::Snapshot`] if the manifest is not that of the trusted block; [`Error::Format`] if it has other parameters;
    /// [`Error::NotEmpty`] if the place is not; [`Error::NotWritten`] in memory; [`Error::Locked`]; [`Error::Io`].
    pub fn begin(config: StoreConfig, manifest: &[u8], height: u64, root: &Hash) -> Result<Self, Error> {
        let importer = Importer::new(manifest, config.contents, height, root)?;
        let found = importer.manifest().params;
        if found != config.params {
            let path = PathBuf::from("(snapshot)");
            let [found, expected] = [found, config.params].map(|params| in_words(&params));
            return Err(Error::Format { path, found, expected });
        }
        let partial = Partial::begin(&config)?;
        let mut restore = Self { importer, config, partial };
        let noted = restore.partial.file("manifest");
        if std::fs::read(&noted).is_ok_and(|noted| noted == manifest) {
            restore.resume()?;
        } else {
            for number in 0..restore.importer.manifest().chunks() {
                let _ = std::fs::remove_file(restore.path(number));
            }
            write_beside(&noted, manifest)?;
        }
        Ok(restore)
    }

    /// Takes over the chunks that are there.
    fn resume(&mut self) -> Result<(), Error> {
        for number in 0..self.importer.manifest().chunks() {
            let path = self.path(number);
            let Ok(bytes) = std::fs::read(&path) else { continue };
            if self.importer.accept(number, &bytes).is_err() {
                std::fs::remove_file(&path).map_err(at(&path))?;
            }
        }
        Ok(())
    }

    /// Manifest of the snapshot.
    pub const fn manifest(&self) -> &Manifest {
        self.importer.manifest()
    }

    /// Numbers of the chunks that are missing.
    pub fn missing(&self) -> impl Iterator<Item = u64> + '_ {
        self.importer.missing()
    }

    /// Checks a chunk and keeps it.
    ///
    /// # Errors
    /// [`Error::Snapshot`]: the peer that sent it is at fault, and nothing was kept. [`Error::Io`].
    pub fn accept(&mut self, number: u64, bytes: &[u8]) -> Result<(), Error> {
        self.importer.verify(number, bytes)?;
        write_beside(&self.path(number), bytes)?;
        self.importer.note(number);
        Ok(())
    }

    /// Makes the store of all chunks and opens it. `payload` is the application data of its block, which no root binds.
    ///
    /// Takes time in proportion to the state, twice: the store is read once before it gets its place.
    ///
    /// # Errors
    /// [`Error::Snapshot`] if a chunk is missing, or changed on disk: it is missing again when the restore is begun again.
    /// [`Error::Unopened`] after it got its place; errors of [`Store::open`].
    pub fn finish(self, payload: Vec<u8>) -> Result<Store, Error> {
        if let Some(number) = self.importer.missing().next() {
            return Err(SnapshotError::Number(number).into());
        }
        self.partial.clear()?;
        let config = self.partial.config(&self.config);
        self.write(&config, payload)?;
        let store = Store::open(config)?;
        let root = store.root();
        drop(store);
        if root != self.manifest().root {
            return Err(SnapshotError::Root.into());
        }
        let Self { config, partial, .. } = self;
        partial.finish(config)
    }

    /// Writes all chunks as one block.
    fn write(&self, config: &StoreConfig, payload: Vec<u8>) -> Result<(), Error> {
        let manifest = self.manifest();
        let (backend, params) = (&config.backend, &config.params);
        let disk = Disk::new(config.faults.clone());
        let place = Place::find(backend, Access::Create, params)?;
        let (access, durability) = (Access::Create, Durability::Async);
        let opening =
            Opening { access, durability, past_cache: false, reading: Reading::default(), params, note: None, disk };
        let (log, _) = open_log(place.as_ref(), opening)?.heal()?;
        let sentinels = params.sentinels.count();
        let first_sn = (manifest.shape.first_twig() * TWIG_LEAVES as u64).max(sentinels);
        let (mut extents, mut codes) = (0, HashSet::new());
        for number in 0..manifest.chunks() {
            let path = self.path(number);
            let bytes = std::fs::read(&path).map_err(at(&path))?;
            let chunk = self.importer.verify(number, &bytes)?;
            let mut writer = ExtentWriter::new(manifest.height, bytes.len());
            for proven in chunk.entries().filter(|proven| proven.sn >= first_sn) {
                writer.kept(proven.sn, proven.active, &proven.entry);
            }
            let records = writer.finish();
            put_codes(&*log, &chunk, &mut codes)?;
            log.write_part(&records, extents)?;
            extents += records.len() as u64;
        }
        let block = BlockRecord {
            seq: 0,
            committed: true,
            id: 1,
            parent_id: BlockRecord::NO_PARENT,
            height: manifest.height,
            parent: [0; 32],
            root: manifest.root,
            first_extent: 0,
            extents,
            first_sn,
            shape: manifest.shape,
            payload,
        };
        log.write(Batch { block, extents: Default::default(), codes: Vec::new() })?;
        log.flush()
    }

    fn path(&self, number: u64) -> PathBuf {
        self.partial.file(&format!("{number:08}.chunk"))
    }
}

/// Writes the code of a chunk that no earlier chunk brought.
fn put_codes(log: &dyn Log, chunk: &Chunk<'_>, seen: &mut HashSet<Hash>) -> Result<(), Error> {
    for (hash, code) in chunk.codes() {
        if seen.insert(*hash) {
            log.write_code(hash, code)?;
        }
    }
    Ok(())
}

/// Writes a file under another name, durably, and renames it.
fn write_beside(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    let new = path.with_extension("new");
    let mut file = File::create(&new).map_err(at(&new))?;
    file.write_all(bytes).and_then(|()| file.sync_all()).map_err(at(&new))?;
    std::fs::rename(&new, path).map_err(at(path))
}
