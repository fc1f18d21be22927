//! A store as a stream of log records, and back: backups, moves between backends, state sync from a file.
//!
//! ```text
//! stream = params || code* || (extent* block)*        frames as in `record`, blocks from the oldest kept one to the tip
//! ```

use std::{
    collections::HashSet,
    io::{self, Read, Write},
    path::PathBuf,
    sync::Arc,
};

use phalanx_merkle_proof::{Hash, Params};

use super::{background::Background, handle::Store, partial::Partial};
use crate::{
    log::{
        Batch, BlockRecord, Disk, ExtentItem, FRAME_HEADER, Kind, Log, Marks, Opening, Place, Records, check_params,
        encode_params, frame_body, frame_header, open_log, read_extent,
    },
    types::{Access, BlockId, Contents, Durability, Error, StoreConfig},
};

/// Bytes of a block's extents per group of log records.
const RECORDS_BYTES: usize = 1 << 20;

impl Store {
    /// Exports the store; see [`Background::export`].
    ///
    /// # Errors
    /// Errors of [`Background::export`].
    pub fn export(&self, out: &mut dyn Write) -> Result<u64, Error> {
        self.background().export(out)
    }

    /// Imports what [`Store::export`] wrote into an absent or empty place, and opens the store, which checks everything under
    /// the last root. The caller compares that root with a trusted one; [`Self::import_root`] does it first.
    ///
    /// The store is made beside, in `DIR.partial`, and moved to its place when it is whole: an interrupted import is no store.
    /// Memory is bounded, whatever the stream says. Ids of blocks are given anew; payloads, which no root binds, are taken over.
    ///
    /// # Errors
    /// [`Error::Corrupt`] with the path `(import)` if the stream is no export, does not lead to its roots, or lacks code that
    /// keys name; [`Error::Format`] if it has other parameters, or if the place is not empty; [`Error::Locked`] if another import
    /// fills it; [`Error::Unopened`] after it got its place; what the log reports.
    pub fn import(config: StoreConfig, from: &mut dyn Read) -> Result<Self, Error> {
        Self::import_root(config, from, None)
    }

    /// Imports like [`Self::import`], if the stream leads to this root.
    ///
    /// # Errors
    /// Errors of [`Self::import`]; [`Error::OtherRoot`], after which nothing is left.
    pub fn import_root(config: StoreConfig, from: &mut dyn Read, root: Option<&Hash>) -> Result<Self, Error> {
        let partial = Partial::begin(&config)?;
        if partial.file("manifest").exists() {
            let (found, expected) = ("chunks of an interrupted restore".into(), "an empty place".into());
            return Err(Error::Format { path: partial.file("manifest"), found, expected });
        }
        partial.clear()?;
        let made = Self::import_at(partial.config(&config), from, root);
        if let Err(error) = made {
            // Repeating it with the same stream fails again, and another stream begins anew.
            partial.discard();
            return Err(error);
        }
        partial.finish(config).inspect_err(|error| {
            if !matches!(error, Error::Unopened { .. }) {
                partial.discard();
            }
        })
    }

    /// Makes a store of a stream, checks it and closes it.
    fn import_at(config: StoreConfig, from: &mut dyn Read, root: Option<&Hash>) -> Result<(), Error> {
        read_into(&config, from)?;
        let store = Self::open(config)?;
        let found = store.root();
        if let Some(expected) = root.filter(|root| **root != found) {
            return Err(Error::OtherRoot { found, expected: *expected });
        }
        if let Some(rule) = &store.core().contents.code {
            store.background().check_code(rule)?;
        }
        Ok(())
    }
}

impl Background {
    /// Exports all blocks of the chain that the log has, up to the last written one, with all code, or the code that their
    /// entries name if there are rules of it. Blocks may be
    /// applied and written meanwhile. [`Store::import`] makes a store with the same roots and proofs.
    ///
    /// # Errors
    /// [`Error::Gone`] if a block was pruned before it was exported: begin anew. [`Error::Io`] with the path `(export)`
    /// if `out` fails, [`Error::NotWritten`] if the backend keeps no entries, [`Error::Poisoned`], or what the log
    /// reports.
    pub fn export(&self, out: &mut dyn Write) -> Result<u64, Error> {
        let (params, contents, shared) = {
            let core = &self.read().core;
            (core.params, core.contents, Arc::clone(&core.shared))
        };
        shared.check()?;
        let log = &*shared.log;
        if !log.keeps_entries() {
            return Err(Error::NotWritten);
        }
        let failed = |source: io::Error| Error::Io { path: PathBuf::from("(export)"), source };
        let ids: Vec<u64> = {
            let core = &self.read().core;
            core.chain.iter().take(core.written_blocks()).map(|block| block.id).collect()
        };
        out.write_all(&encode_params(&params).bytes).map_err(failed)?;
        let named = named(log, &contents, &ids)?;
        log.codes(&mut |hash, code| match named.as_ref().is_none_or(|named| named.contains(hash)) {
            true => out.write_all(&code_record(hash, code).bytes).map_err(failed),
            false => Ok(()),
        })?;
        for id in &ids {
            let extents = log.extents(*id, None, &mut |kind, body| {
                let mut records = Records::default();
                records.push_frame(kind, body);
                out.write_all(&records.bytes).map_err(failed)?;
                Ok(true)
            });
            // Extents that are missing because the block was pruned are no damage.
            let record = log.block(*id)?.ok_or(Error::Gone { block: BlockId(*id) })?;
            extents?;
            out.write_all(&record.encode(&Marks::PLAIN).bytes).map_err(failed)?;
        }
        Ok(ids.len() as u64)
    }
}

/// Hashes of the code that entries of some blocks name; `None` without rules.
fn named(log: &dyn Log, contents: &Contents, ids: &[u64]) -> Result<Option<HashSet<Hash>>, Error> {
    if contents.code.is_none() {
        return Ok(None);
    }
    let mut named = HashSet::new();
    for id in ids {
        log.extents(*id, None, &mut |kind, body| {
            read_extent(kind, body, |item| {
                named.extend(item.entry().and_then(|(entry, _)| contents.code_of(entry.key, entry.value)));
            });
            Ok(true)
        })?;
    }
    Ok(Some(named))
}

/// Writes the records of a stream to a new log. Memory holds a megabyte of extents, and the hashes of code.
fn read_into(config: &StoreConfig, from: &mut dyn Read) -> Result<(), Error> {
    let StoreConfig { backend, params, contents, .. } = config;
    // The log is flushed once, at the end, and read as a whole right afterwards.
    let disk = Disk::new(config.faults.clone());
    let place = Place::find(backend, Access::Create, params)?;
    let (access, durability) = (Access::Create, Durability::Async);
    let opening = Opening { access, durability, past_cache: false, params, note: None, disk };
    let (log, _) = open_log(place.as_ref(), opening)?.heal()?;
    let mut reader = Frames { from, frame: Vec::new() };
    reader.params(params)?;
    let (mut seq, mut next_extent, mut last) = (0, 0, None);
    let mut open = Unfinished::default();
    let mut codes: HashSet<Hash> = HashSet::new();
    let mut named: HashSet<Hash> = HashSet::new();
    while let Some((kind, body)) = reader.next()? {
        match kind {
            Kind::Code if seq == 0 && open.extents == 0 => {
                let (hash, code) = body.split_first_chunk().ok_or_else(corrupt)?;
                if !contents.is_code(hash, code) || !codes.insert(*hash) {
                    return Err(corrupt());
                }
                log.write_code(hash, code)?;
            }
            Kind::Extent | Kind::Moved | Kind::Kept => {
                let name = |item: ExtentItem<'_>| {
                    named.extend(item.entry().and_then(|(entry, _)| contents.code_of(entry.key, entry.value)));
                };
                read_extent(kind, body, name).ok_or_else(corrupt)?;
                open.push(kind, body);
                if open.records.bytes.len() >= RECORDS_BYTES {
                    log.write_part(&std::mem::take(&mut open.records), next_extent + open.written)?;
                    open.written = open.extents;
                }
            }
            Kind::Block => {
                let record = BlockRecord::decode(body, &Marks::PLAIN).ok_or_else(corrupt)?;
                let Unfinished { records, extents, kept, .. } = std::mem::take(&mut open);
                let follows = match last {
                    None => record.is_base() || !kept,
                    Some((_, id)) => record.parent_id == id && !record.is_base() && !kept,
                };
                if !follows || record.extents != extents {
                    return Err(corrupt());
                }
                // Ids that no root binds are given anew. The parent of a pruned beginning is not there.
                let (id, parent_id) = match (last, record.parent_id) {
                    (None, parent @ (0 | BlockRecord::NO_PARENT)) => (1, parent),
                    (None, _) => (2, 1),
                    (Some((id, _)), _) => (id + 1, id),
                };
                last = Some((id, record.id));
                let block =
                    BlockRecord { seq, committed: true, id, parent_id, first_extent: next_extent, extents, ..record };
                log.write(Batch { block, extents: Arc::new(vec![records]), codes: Vec::new() })?;
                (seq, next_extent) = (seq + 1, next_extent + extents);
            }
            _ => return Err(corrupt()),
        }
    }
    let bound = contents.code.is_none() || codes.is_subset(&named);
    if open.extents > 0 || seq == 0 || !bound {
        return Err(corrupt());
    }
    log.flush()
}

fn code_record(hash: &Hash, code: &[u8]) -> Records {
    let mut records = Records::default();
    records.push(Kind::Code, |out| {
        out.extend_from_slice(hash);
        out.extend_from_slice(code);
    });
    records
}

fn corrupt() -> Error {
    Error::Corrupt { path: PathBuf::from("(import)"), what: "not what an export wrote".into() }
}

/// Extents of a block whose record has not come yet.
#[derive(Default)]
struct Unfinished {
    /// Extents that are not written yet.
    records: Records,
    extents: u64,
    /// Number of extents that are written.
    written: u64,
    /// True if there are extents of a snapshot.
    kept: bool,
}

impl Unfinished {
    fn push(&mut self, kind: Kind, body: &[u8]) {
        self.records.push_frame(kind, body);
        self.extents += 1;
        self.kept |= kind == Kind::Kept;
    }
}

/// Frames of an untrusted stream.
struct Frames<'r> {
    from: &'r mut dyn Read,
    frame: Vec<u8>,
}

impl Frames<'_> {
    fn params(&mut self, params: &Params) -> Result<(), Error> {
        let mut found = Vec::new();
        let expected = encode_params(params).bytes.len() as u64;
        (&mut self.from).take(expected).read_to_end(&mut found).map_err(failed)?;
        let path = PathBuf::from("(import)");
        check_params(&found, params).map_err(|(found, expected)| Error::Format { path, found, expected })
    }

    /// Next frame; `None` at the end of the stream.
    fn next(&mut self) -> Result<Option<(Kind, &[u8])>, Error> {
        self.frame.clear();
        (&mut self.from).take(FRAME_HEADER as u64).read_to_end(&mut self.frame).map_err(failed)?;
        if self.frame.is_empty() {
            return Ok(None);
        }
        let header = self.frame.first_chunk::<FRAME_HEADER>().ok_or_else(corrupt)?;
        let (_, len) = frame_header(header).ok_or_else(corrupt)?;
        (&mut self.from).take(len as u64).read_to_end(&mut self.frame).map_err(failed)?;
        frame_body(&self.frame, &Marks::PLAIN).map(Some).ok_or_else(corrupt)
    }
}

fn failed(source: io::Error) -> Error {
    Error::Io { path: PathBuf::from("(import)"), source }
}
